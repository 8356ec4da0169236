//! Streamed transactions of an account.

use super::{LongView, OpenList, Sheet, held_by};
use crate::api::budget::{Budget, cost};
use crate::api::chain_view::{ChainView, Page};
use crate::api::failure::Failure;
use crate::api::views::{DataGap, TransactionMeta, TransactionPair};
use crate::crypto::KeyPair;
use crate::crypto::cipher::decrypt;
use crate::model::transaction::{Message, MessageKind, wire_version};
use crate::model::{Address, Body, Transaction};
use crate::net::machine::Taken;
use crate::state::{Direction, Place, TrailWalk};
use crate::store::StoreError;

const DAMAGED: StoreError = StoreError::Damaged("the place of a transaction");

/// Selection of the transactions of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfers {
    /// Those that it received.
    Incoming,
    /// Those that it sent, or that a multisig account sent of which it was a cosignatory.
    Outgoing,
    /// All, each once.
    All,
}

impl Transfers {
    fn directions(self) -> &'static [Direction] {
        match self {
            Transfers::Incoming => &[Direction::Incoming],
            Transfers::Outgoing => &[Direction::Outgoing],
            Transfers::All => &[Direction::Incoming, Direction::Outgoing],
        }
    }
}

/// Stream of a page of the transactions of an account with their locations in the chain, highest ids first.
///
/// Each step starts anew after the last transaction written, so it shows the chain as of that step, also after a reorg.
pub struct TransferRows {
    account: Address,
    transfers: Transfers,
    /// Exclusive upper bound of the remaining ids.
    before: u64,
    left: usize,
    /// Decrypts the messages of the account.
    key: Option<Box<KeyPair>>,
    list: Option<OpenList>,
}

impl TransferRows {
    /// Creates a stream of a page of an address.
    pub fn new(account: Address, transfers: Transfers, page: Page) -> TransferRows {
        TransferRows { account, transfers, before: page.before, left: page.size, key: None, list: None }
    }

    /// Decrypts the messages that the account's key can read.
    pub fn read_by(mut self, key: Box<KeyPair>) -> TransferRows {
        self.key = Some(key);
        self
    }
}

impl LongView for TransferRows {
    fn write_on(&mut self, view: &ChainView<'_>, sheet: &mut Sheet<'_>, budget: &mut Budget) -> Result<Taken, Failure> {
        let mut list = self.list.take().unwrap_or_else(|| OpenList::open(sheet, &DataGap));
        let mut walk = AccountWalk::new(view, &self.account, self.transfers, self.before)?;
        budget.spend(cost::TRAIL * walk.trails.len() as u32);
        while self.left > 0 {
            let Some((id, place)) = walk.next(view)? else { break };
            let raw = view.transaction(place)?.ok_or(DAMAGED)?;
            let transaction = raw.read()?;
            let inner_hash = transaction.inner().map(Transaction::hash);
            let meta = TransactionMeta { height: place.height, id, hash: raw.hash(&transaction), inner_hash };
            let transaction = match &self.key {
                Some(key) => readable(transaction, key, &self.account, view, budget)?,
                None => transaction,
            };
            list.push(sheet, &TransactionPair { transaction: &transaction, meta });
            self.before = id;
            self.left -= 1;
            budget.spend(cost::TRANSACTION + cost::STEP + cost::bytes(2 * raw.bytes.len()));
            if self.left > 0 && budget.is_spent() {
                self.list = Some(list);
                return Ok(Taken::Unfinished);
            }
        }
        list.close(sheet);
        Ok(Taken::Done)
    }

    fn held_bytes(&self) -> usize {
        held_by(&self.list) + self.key.as_ref().map_or(0, |_| size_of::<KeyPair>())
    }
}

/// Cursor over the transactions of an account, highest ids first.
struct AccountWalk {
    trails: Vec<TrailWalk>,
}

impl AccountWalk {
    /// Creates a cursor at the first transaction with an id below `before`.
    fn new(
        view: &ChainView<'_>,
        account: &Address,
        transfers: Transfers,
        before: u64,
    ) -> Result<AccountWalk, StoreError> {
        let directions = transfers.directions().iter();
        let trails = directions.map(|direction| TrailWalk::new(view.snapshot, account, *direction, before));
        Ok(AccountWalk { trails: trails.collect::<Result<_, _>>()? })
    }

    /// Returns the id and location of the next transaction. A transaction in both lists is returned once.
    fn next(&mut self, view: &ChainView<'_>) -> Result<Option<(u64, Place)>, StoreError> {
        let next = self.trails.iter().filter_map(TrailWalk::peek).max();
        for trail in &mut self.trails {
            if trail.peek() == next {
                trail.pass(view.snapshot)?;
            }
        }
        Ok(next)
    }
}

/// Decrypts the message of a transfer, if the account's key can read it.
fn readable(
    mut transaction: Transaction,
    key: &KeyPair,
    account: &Address,
    view: &ChainView<'_>,
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
    budget.spend(cost::SHARED_KEY);
    if let Ok(Some(payload)) = decrypt(key, &other, &message.payload) {
        *message = Message { kind: MessageKind::Plain, payload };
        // NIS1 builds a new transaction from it, which has the newer version.
        transaction.version = wire_version(network, 2);
    }
    Ok(transaction)
}
