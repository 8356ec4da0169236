//! Streamed unconfirmed transactions.

use std::rc::Rc;
use std::vec;

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::ChainView;
use crate::api::failure::Failure;
use crate::api::views::{DataGap, Unconfirmed};
use crate::crypto::Signature;
use crate::model::Transaction;
use crate::net::machine::Taken;
use crate::peer::wire::AuthenticatedResponse;

/// Approximate memory in bytes of a transaction that has left the mempool.
const TRANSACTION_BYTES: usize = 2048;

/// Stream of unconfirmed transactions: as clients see them, or bare and signed for a peer.
pub struct UnconfirmedList {
    waiting: vec::IntoIter<Rc<Transaction>>,
    signature: Option<Signature>,
    list: Option<OpenList>,
}

impl UnconfirmedList {
    /// Creates a stream of these transactions, in this order.
    pub fn new(transactions: Vec<Rc<Transaction>>) -> UnconfirmedList {
        UnconfirmedList { waiting: transactions.into_iter(), signature: None, list: None }
    }

    /// Writes the bare transactions, signed for a peer.
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
