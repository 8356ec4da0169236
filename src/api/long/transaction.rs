//! Transactions: one of a block, whose number follows from all that are in the block, and those of the pool.

use std::rc::Rc;
use std::vec;

use super::block::REPLACED;
use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::{BlockCursor, ChainView};
use crate::api::failure::Failure;
use crate::api::views::{DataGap, TransactionMeta, TransactionPair, Unconfirmed};
use crate::crypto::Signature;
use crate::model::{Hash256, Height, Transaction};
use crate::net::machine::Taken;
use crate::peer::wire::AuthenticatedResponse;
use crate::state::IdCount;
use crate::store::StoreError;

/// Transactions that are passed for one unit.
const PASSED_PER_STEP: usize = 8;
/// Memory that a transaction takes which nobody else holds any more, roughly.
const TRANSACTION_BYTES: usize = 2048;

const DAMAGED: StoreError = StoreError::Damaged("the place of a transaction");

/// Writes a transaction of a block with its place in the chain.
pub struct FoundTransaction {
    hash: Hash256,
    height: Height,
    /// Its place among the block's transactions.
    index: usize,
    /// How far it has come.
    cursor: Option<BlockCursor>,
    ids: IdCount,
    transaction: Option<Box<Transaction>>,
}

impl FoundTransaction {
    /// The transaction with a hash, at a place in the block at a height.
    pub fn new(hash: Hash256, height: Height, index: u32) -> FoundTransaction {
        FoundTransaction {
            hash,
            height,
            index: index as usize,
            cursor: None,
            ids: IdCount::default(),
            transaction: None,
        }
    }
}

impl LongView for FoundTransaction {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        let mut reader = match self.cursor.take() {
            Some(cursor) => view.reopen_block(cursor)?.ok_or(REPLACED)?,
            None => view.open_block(self.height)?.ok_or(DAMAGED)?.1,
        };
        while let Some(raw) = reader.next_raw()? {
            let kind = raw.kind()?;
            if reader.index() == self.index + 1 {
                self.ids.mark(kind);
                self.transaction = Some(Box::new(raw.read()?));
                budget.spend(cost::TRANSACTION + cost::bytes(raw.bytes.len()));
            } else if reader.index() % PASSED_PER_STEP == 0 {
                budget.spend(cost::STEP);
            }
            match raw.multisig_outline()? {
                Some(outline) => self.ids.pass_multisig(outline.inner_kind, outline.cosignatures),
                None => self.ids.pass(kind),
            }
            if budget.is_spent() {
                self.cursor = Some(reader.into_cursor());
                return Ok(Taken::Unfinished);
            }
        }
        let transaction = self.transaction.as_deref().ok_or(DAMAGED)?;
        let id = self.ids.id(reader.header.ids.0).ok_or(DAMAGED)?;
        let inner_hash = transaction.inner().map(Transaction::hash);
        let meta = TransactionMeta { height: self.height, id, hash: self.hash, inner_hash };
        sheet.write(&TransactionPair { transaction, meta });
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        TRANSACTION_BYTES
    }
}

/// Writes transactions of the pool: as clients see them, or bare and signed for another node.
pub struct UnconfirmedList {
    waiting: vec::IntoIter<Rc<Transaction>>,
    signature: Option<Signature>,
    list: Option<OpenList>,
}

impl UnconfirmedList {
    /// These transactions, in this order.
    pub fn new(transactions: Vec<Rc<Transaction>>) -> UnconfirmedList {
        UnconfirmedList { waiting: transactions.into_iter(), signature: None, list: None }
    }

    /// The same for another node.
    pub fn signed(self, signature: Signature) -> UnconfirmedList {
        UnconfirmedList { signature: Some(signature), ..self }
    }
}

impl LongView for UnconfirmedList {
    fn write_on(&mut self, _: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        let UnconfirmedList { waiting, signature, list } = self;
        let list = list.get_or_insert_with(|| match signature {
            Some(signature) => OpenList::open(sheet, &AuthenticatedResponse { entity: DataGap, signature: *signature }),
            None => OpenList::open(sheet, &DataGap),
        });
        for transaction in waiting {
            let start = sheet.body.len();
            match signature {
                Some(_) => list.push(sheet, &*transaction),
                None => list.push(sheet, &Unconfirmed(&transaction)),
            }
            budget.spend(cost::TRANSACTION + cost::bytes(sheet.body.len() - start));
            if budget.is_spent() {
                return Ok(Taken::Unfinished);
            }
        }
        list.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list) + self.waiting.len() * TRANSACTION_BYTES
    }
}
