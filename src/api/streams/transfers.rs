//! Streamed transactions of an account.

use super::{BodyWriter, ListWriter, ResponseStream, list_bytes};
use crate::api::budget::{Budget, cost};
use crate::api::chain_snapshot::{ChainSnapshot, Page};
use crate::api::error::ApiError;
use crate::api::views::{DataListHead, TransactionMeta, TransactionPair};
use crate::crypto::KeyPair;
use crate::crypto::cipher::decrypt;
use crate::model::transaction::{Message, MessageKind, wire_version};
use crate::model::{Address, Body, Transaction};
use crate::net::service::Progress;
use crate::state::{AccountTxCursor, Direction, TxLocation};
use crate::store::StoreError;

const DAMAGED: StoreError = StoreError::Damaged("the location of a transaction");

/// Selection of the transactions of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferFilter {
    /// Those that it received.
    Incoming,
    /// Those that it sent, or that a multisig account sent of which it was a cosignatory.
    Outgoing,
    /// All, each once.
    All,
}

impl TransferFilter {
    fn directions(self) -> &'static [Direction] {
        match self {
            TransferFilter::Incoming => &[Direction::Incoming],
            TransferFilter::Outgoing => &[Direction::Outgoing],
            TransferFilter::All => &[Direction::Incoming, Direction::Outgoing],
        }
    }
}

/// Stream of a page of the transactions of an account with their locations in the chain, highest ids first.
///
/// Each step starts anew after the last transaction written, so it shows the chain as of that step, also after a reorg.
pub struct TransferPage {
    account: Address,
    transfers: TransferFilter,
    /// Exclusive upper bound of the remaining ids.
    before: u64,
    left: usize,
    /// Decrypts the messages of the account.
    key: Option<Box<KeyPair>>,
    list: Option<ListWriter>,
}

impl TransferPage {
    /// Creates a stream of a page of an address.
    pub fn new(account: Address, transfers: TransferFilter, page: Page) -> TransferPage {
        TransferPage { account, transfers, before: page.before, left: page.size, key: None, list: None }
    }

    /// Decrypts the messages that the account's key can read.
    pub fn with_decryption_key(mut self, key: Box<KeyPair>) -> TransferPage {
        self.key = Some(key);
        self
    }
}

impl ResponseStream for TransferPage {
    fn write_chunk(
        &mut self,
        view: &ChainSnapshot<'_>,
        writer: &mut BodyWriter<'_>,
        budget: &mut Budget,
    ) -> Result<Progress, ApiError> {
        let mut list = self.list.take().unwrap_or_else(|| ListWriter::open(writer, &DataListHead));
        let mut cursor = TransferCursor::new(view, &self.account, self.transfers, self.before)?;
        budget.charge(cost::TX_LIST * cursor.cursors.len() as u32);
        while self.left > 0 {
            let Some((id, place)) = cursor.next(view)? else { break };
            let raw = view.transaction(place)?.ok_or(DAMAGED)?;
            let transaction = raw.read()?;
            let inner_hash = transaction.inner().map(Transaction::hash);
            let meta = TransactionMeta { height: place.height, id, hash: raw.hash(&transaction), inner_hash };
            let transaction = match &self.key {
                Some(key) => decrypted(transaction, key, &self.account, view, budget)?,
                None => transaction,
            };
            list.push(writer, &TransactionPair { transaction: &transaction, meta });
            self.before = id;
            self.left -= 1;
            budget.charge(cost::TRANSACTION + cost::SKIP + cost::bytes(2 * raw.bytes.len()));
            if self.left > 0 && budget.is_exhausted() {
                self.list = Some(list);
                return Ok(Progress::Yield);
            }
        }
        list.close(writer);
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        list_bytes(&self.list) + self.key.as_ref().map_or(0, |_| size_of::<KeyPair>())
    }
}

/// Cursor over the transactions of an account, highest ids first.
struct TransferCursor {
    cursors: Vec<AccountTxCursor>,
}

impl TransferCursor {
    /// Creates a cursor at the first transaction with an id below `before`.
    fn new(
        view: &ChainSnapshot<'_>,
        account: &Address,
        transfers: TransferFilter,
        before: u64,
    ) -> Result<TransferCursor, StoreError> {
        let directions = transfers.directions().iter();
        let trails = directions.map(|direction| AccountTxCursor::new(view.snapshot, account, *direction, before));
        Ok(TransferCursor { cursors: trails.collect::<Result<_, _>>()? })
    }

    /// Returns the id and location of the next transaction. A transaction in both lists is returned once.
    fn next(&mut self, view: &ChainSnapshot<'_>) -> Result<Option<(u64, TxLocation)>, StoreError> {
        let next = self.cursors.iter().filter_map(AccountTxCursor::peek).max();
        for cursor in &mut self.cursors {
            if cursor.peek() == next {
                cursor.advance(view.snapshot)?;
            }
        }
        Ok(next)
    }
}

/// Decrypts the message of a transfer, if the account's key can read it.
fn decrypted(
    mut transaction: Transaction,
    key: &KeyPair,
    account: &Address,
    view: &ChainSnapshot<'_>,
    budget: &mut Budget,
) -> Result<Transaction, StoreError> {
    let network = view.network.byte;
    let is_sender = transaction.signer_address(network) == *account;
    let Body::Transfer(body) = &mut transaction.body else { return Ok(transaction) };
    let Some(message) = body.message.as_mut().filter(|message| message.kind == MessageKind::Secure) else {
        return Ok(transaction);
    };
    let other = if is_sender { view.public_key(&body.recipient)? } else { Some(transaction.signer) };
    let Some(other) = other else { return Ok(transaction) };
    budget.charge(cost::SHARED_KEY);
    if let Ok(Some(payload)) = decrypt(key, &other, &message.payload) {
        *message = Message { kind: MessageKind::Plain, payload };
        // NIS1 builds a new transaction from it, which has the newer version.
        transaction.version = wire_version(network, 2);
    }
    Ok(transaction)
}
