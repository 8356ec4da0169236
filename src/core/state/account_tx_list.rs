//! Ids of transactions, the accounts that they affect, and the transaction list of an account, newest first.
//!
//! An account stores how many transactions it has sent and received, and the location of the newest of each. A row per
//! block stores, for each of its transactions, the affected accounts and the location of their previous ones. So a new
//! transaction costs a few bytes at the end of the store, and no row in the middle of an index of all accounts. Every
//! 32nd transaction of a list has a skip pointer, by which a position is found without a full walk.

use std::collections::BTreeSet;

use super::account::{AccountId, account_at, cosignatories};
use super::bytes::{Stored, stored, stored_as};
use crate::codec::{ByteReader, write_varint};
use crate::model::transaction::TransactionKind;
use crate::model::{Address, Block, Body, Height, NetworkByte, Transaction};
use crate::store::{Read, Result, StoreError, Table, Write, block_key};

/// Transactions from one skip pointer of a list to the next.
const SKIP_POINTER_EVERY: u32 = 32;
/// Length of the key prefix of the skip pointers of one list: account id and direction.
const SKIP_POINTER_PREFIX: usize = 5;

const DAMAGED: StoreError = StoreError::Damaged("the transaction list of an account");

/// Direction of a transaction for an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// The account received it.
    Incoming,
    /// The account sent it.
    Outgoing,
}

/// Location of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TxLocation {
    /// Height of its block.
    pub height: Height,
    /// Index among the transactions of the block.
    pub index: u32,
}

/// Head of the transaction list of an account in one direction, stored with the account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountTxList {
    /// Number of transactions.
    pub length: u32,
    /// Location of the newest transaction; meaningless if `length` is 0.
    pub last: TxLocation,
}

stored_as! {
    TxLocation as (u32, u32):
        |location| (location.height.0 as u32, location.index),
        |(height, index)| Some(TxLocation { height: Height(height.into()), index });
}

stored!(AccountTxList { length, last });

impl AccountTxList {
    fn newest(&self) -> Option<TxLocation> {
        (self.length > 0).then_some(self.last)
    }

    /// Appends a transaction; returns whether it gets a skip pointer.
    fn extend(&mut self, location: TxLocation) -> bool {
        self.length = self.length.saturating_add(1);
        self.last = location;
        self.length.is_multiple_of(SKIP_POINTER_EVERY)
    }
}

/// Collects the list entries of a block. Transactions must come in the order of their ids.
#[derive(Debug, Default)]
pub struct BlockTxLists {
    /// Offset of the entries of each transaction, by index.
    starts: Vec<u32>,
    entries: Vec<u8>,
}

impl BlockTxLists {
    /// Starts a transaction with this many entries.
    pub(super) fn begin(&mut self, (location, id): (TxLocation, u64), parties: usize) {
        let index = location.index as usize;
        if self.starts.len() <= index {
            self.starts.resize(index + 1, 0);
        }
        self.starts[index] = self.entries.len() as u32;
        write_varint(&mut self.entries, id);
        write_varint(&mut self.entries, parties as u64);
    }

    /// Appends the transaction to the list of an affected account. An account may occur once per direction.
    pub(super) fn extend(
        &mut self,
        txn: &mut impl Write,
        (place, id): (TxLocation, u64),
        (account, direction): (AccountId, Direction),
        list: &mut AccountTxList,
    ) -> Result<()> {
        write_varint(&mut self.entries, party_code(account, direction));
        // Difference of the heights plus one; 0 if there is no previous transaction.
        let previous = list.newest();
        write_varint(&mut self.entries, previous.map_or(0, |before| place.height.0 - before.height.0 + 1));
        if let Some(before) = previous {
            write_varint(&mut self.entries, before.index.into());
        }
        if list.extend(place) {
            txn.insert(Table::SkipPointers, &skip_pointer_key(account, direction, id), &place.to_stored())?;
        }
        Ok(())
    }

    /// Writes the collected entries of the block.
    pub(super) fn store(self, txn: &mut impl Write, height: Height) -> Result<()> {
        if self.starts.is_empty() {
            return Ok(());
        }
        let mut out = (self.starts.len() as u32).to_stored();
        self.starts.iter().for_each(|start| start.write(&mut out));
        out.extend_from_slice(&self.entries);
        txn.insert(Table::AccountTxLists, &block_key(height), &out)
    }
}

/// Reads the id of a transaction, and the location of an account's previous transaction in the same direction.
fn account_entry_at(
    state: &impl Read,
    location: TxLocation,
    account: AccountId,
    direction: Direction,
) -> Result<(u64, Option<TxLocation>)> {
    let row = state.get(Table::AccountTxLists, &block_key(location.height))?.ok_or(DAMAGED)?;
    let (id, parties) = read_entry(row, location).ok_or(DAMAGED)?;
    let own = parties.into_iter().find(|(party, _)| *party == party_code(account, direction));
    own.map(|(_, previous)| (id, previous)).ok_or(DAMAGED)
}

/// Code of an account that a transaction affects, and the location of its previous transaction.
type Party = (u64, Option<TxLocation>);

/// Reads the id of a transaction and the accounts that it affects.
fn read_entry(row: &[u8], location: TxLocation) -> Option<(u64, Vec<Party>)> {
    let mut input = entry_at(row, location.index)?;
    let (id, parties) = (input.varint()?, input.varint()?);
    Some((id, (0..parties).map(|_| read_party(&mut input, location.height)).collect::<Option<_>>()?))
}

fn read_party(input: &mut ByteReader<'_>, height: Height) -> Option<Party> {
    let (party, back) = (input.varint()?, input.varint()?);
    if back == 0 {
        return Some((party, None));
    }
    let height = Height(height.0.checked_sub(back - 1)?);
    Some((party, Some(TxLocation { height, index: u32::try_from(input.varint()?).ok()? })))
}

/// Returns the code of an affected account in an entry.
fn party_code(account: AccountId, direction: Direction) -> u64 {
    (u64::from(account.0) << 1) + direction as u64
}

fn entry_at(row: &[u8], index: u32) -> Option<ByteReader<'_>> {
    let number = |at: usize| row.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes) as usize);
    let count = number(0)?;
    let start = number(4 + 4 * Some(index as usize).filter(|index| *index < count)?)?;
    row.get((4 + 4 * count).checked_add(start)?..).map(ByteReader)
}

fn skip_pointer_key(account: AccountId, direction: Direction, id: u64) -> Vec<u8> {
    [account.key().as_slice(), &[direction as u8], &id.to_be_bytes()].concat()
}

/// Returns the id of the transaction at a location; `None` if there is none.
pub fn transaction_id(state: &impl Read, location: TxLocation) -> Result<Option<u64>> {
    let Some(row) = state.get(Table::AccountTxLists, &block_key(location.height))? else { return Ok(None) };
    entry_at(row, location.index).map(|mut entry| entry.varint().ok_or(DAMAGED)).transpose()
}

/// A cursor over the transactions of an account in one direction, newest first. It holds no reference to the store, so
/// it stays valid between snapshots while the chain only grows.
#[derive(Clone, Debug)]
pub struct AccountTxCursor {
    account: AccountId,
    direction: Direction,
    /// Id and location of the next transaction, and the location of the one after it.
    next: Option<(u64, TxLocation, Option<TxLocation>)>,
    /// Upper bound of the transactions left.
    remaining: u32,
}

impl AccountTxCursor {
    /// Starts at the newest transaction with an id below `before`. An unknown address has no transactions. Reads at
    /// most as many blocks as one skip pointer spans.
    pub fn new(state: &impl Read, address: &Address, direction: Direction, before: u64) -> Result<AccountTxCursor> {
        let Some(account) = AccountId::of(state, address)? else {
            return Ok(AccountTxCursor { account: AccountId(0), direction, next: None, remaining: 0 });
        };
        let known = account_at(state, account)?;
        let list = if direction == Direction::Outgoing { known.sent } else { known.received };
        let mut cursor = AccountTxCursor { account, direction, next: None, remaining: list.length };
        // The first skip pointer at or above the id. Its transaction proves it, and a walk that is too long shows that one
        // is lost, so no range is verified.
        let wanted = skip_pointer_key(account, direction, before);
        let has_pointers = before < u64::MAX && list.length >= SKIP_POINTER_EVERY;
        let found = has_pointers.then(|| state.cursor(Table::SkipPointers)?.unverified().seek(&wanted)).transpose()?;
        match found.flatten().filter(|(key, _)| key.starts_with(&wanted[..SKIP_POINTER_PREFIX])) {
            Some((key, location)) => {
                cursor.move_to(state, Some(TxLocation::from_stored(location, "the location of a transaction")?))?;
                if !cursor.peek().is_some_and(|(id, _)| key.ends_with(&id.to_be_bytes())) {
                    return Err(DAMAGED);
                }
            }
            None => cursor.move_to(state, list.newest())?,
        }
        for _ in 0..=SKIP_POINTER_EVERY {
            if cursor.peek().is_none_or(|(id, _)| id < before) {
                return Ok(cursor);
            }
            cursor.advance(state)?;
        }
        Err(DAMAGED)
    }

    /// Returns id and location of the next transaction.
    pub fn peek(&self) -> Option<(u64, TxLocation)> {
        self.next.map(|(id, place, _)| (id, place))
    }

    /// Skips the next transaction.
    pub fn advance(&mut self, state: &impl Read) -> Result<()> {
        let Some((_, place, before)) = self.next else { return Ok(()) };
        self.move_to(state, before.filter(|before| *before != place))
    }

    fn move_to(&mut self, state: &impl Read, place: Option<TxLocation>) -> Result<()> {
        self.next = None;
        if let Some(place) = place {
            // The bound makes the iteration end even in a damaged store.
            self.remaining = self.remaining.checked_sub(1).ok_or(DAMAGED)?;
            let (id, previous) = account_entry_at(state, place, self.account, self.direction)?;
            self.next = Some((id, place, previous));
        }
        Ok(())
    }
}

/// Returns, for each transaction of a block, its id and the accounts that it affects.
pub fn affected_in_block(state: &impl Read, height: Height) -> Result<Vec<(u64, Vec<AccountId>)>> {
    let Some(row) = state.get(Table::AccountTxLists, &block_key(height))? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for index in 0.. {
        if entry_at(row, index).is_none() {
            break;
        }
        let (id, parties) = read_entry(row, TxLocation { height, index }).ok_or(DAMAGED)?;
        let account = |party: u64| u32::try_from(party >> 1).map(AccountId).map_err(|_| DAMAGED);
        let mut accounts = parties.iter().map(|(party, _)| account(*party)).collect::<Result<Vec<_>>>()?;
        accounts.dedup();
        found.push((id, accounts));
    }
    Ok(found)
}

/// Assigns ids to the transactions of a block, starting at `first`. Returns the ids of the top-level transactions by
/// index, and the id after the last.
///
/// Clients see the ids, so the order is NIS1's: importance transfers, mosaic definitions, supply changes and aggregate
/// modifications, kind by kind, nested ones included; then each multisig transaction, followed by its inner transaction
/// if that is of another kind and by its cosignatures; then provisions; then transfers.
pub fn assign_ids(block: &Block, first: u64) -> (Vec<u64>, u64) {
    let mut ids = vec![0; block.transactions.len()];
    let mut next = first;
    let mut allocate = |count: usize| {
        let id = next;
        next += count as u64;
        id
    };
    let kinds = [
        TransactionKind::ImportanceTransfer,
        TransactionKind::MosaicDefinitionCreation,
        TransactionKind::MosaicSupplyChange,
        TransactionKind::AggregateModification,
    ];
    for kind in kinds {
        for (transaction, id) in block.transactions.iter().zip(&mut ids) {
            if transaction.body.kind() == kind {
                *id = allocate(1);
            } else if transaction.inner().is_some_and(|inner| inner.body.kind() == kind) {
                allocate(1);
            }
        }
    }
    for (transaction, id) in block.transactions.iter().zip(&mut ids) {
        if let Some(inner) = transaction.inner() {
            *id = allocate(1);
            allocate(usize::from(matches!(inner.body, Body::Transfer(_) | Body::ProvisionNamespace(_))));
            allocate(transaction.cosignatures().len());
        }
    }
    for kind in [TransactionKind::ProvisionNamespace, TransactionKind::Transfer] {
        for (transaction, id) in block.transactions.iter().zip(&mut ids) {
            if transaction.body.kind() == kind {
                *id = allocate(1);
            }
        }
    }
    (ids, next)
}

/// Returns the accounts that a top-level transaction affects. Must be called after the whole block was applied, because
/// a multisig transaction affects the cosignatories at that time. The fee sink and levy recipient of a definition count
/// only inside a multisig transaction.
pub fn affected_accounts(
    state: &impl Read,
    transaction: &Transaction,
    network: NetworkByte,
) -> Result<BTreeSet<(Address, Direction)>> {
    let acting = transaction.inner().unwrap_or(transaction);
    let (mut senders, mut recipients) = (vec![acting.signer_address(network)], Vec::new());
    if transaction.inner().is_some() {
        senders.extend(cosignatories(state, &senders[0])?);
    }
    if !matches!(transaction.body, Body::MosaicDefinitionCreation(_)) {
        acting.add_recipients(network, &mut recipients);
    }
    let senders = senders.into_iter().map(|address| (address, Direction::Outgoing));
    Ok(senders.chain(recipients.into_iter().map(|address| (address, Direction::Incoming))).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::crypto::PublicKey;
    use crate::model::NetworkByte;
    use crate::state::{Account, put_account};
    use crate::store::{WriteTxn, test_store};

    fn address(number: u8) -> Address {
        Address::from_public_key(&PublicKey([number; 32]), NetworkByte::TESTNET)
    }

    type Parties = Vec<(u8, bool)>;

    /// The expected lists, from a scan of all transactions.
    type Model = BTreeMap<(u8, bool), Vec<(u64, TxLocation)>>;

    fn build(txn: &mut impl Write, blocks: &[Vec<Parties>]) -> Model {
        let mut accounts: Vec<Account> = vec![Account { first_height: 1, ..Account::default() }; 4];
        for (number, account) in (0..).zip(&accounts) {
            assert_eq!(put_account(txn, &address(number), account).unwrap().0, u32::from(number));
        }
        let (mut model, mut id) = (Model::new(), 100);
        for (height, block) in (1..).map(Height).zip(blocks) {
            let mut lists = BlockTxLists::default();
            // Ids do not follow the order of the block.
            for (index, parties) in block.iter().enumerate().rev() {
                let place = TxLocation { height, index: index as u32 };
                id += 3;
                let parties: BTreeSet<(u8, bool)> = parties.iter().copied().collect();
                lists.begin((place, id), parties.len());
                for (account, is_sender) in parties {
                    model.entry((account, is_sender)).or_default().push((id, place));
                    let state = &mut accounts[usize::from(account)];
                    let (direction, list) = if is_sender {
                        (Direction::Outgoing, &mut state.sent)
                    } else {
                        (Direction::Incoming, &mut state.received)
                    };
                    lists.extend(txn, (place, id), (AccountId(account.into()), direction), list).unwrap();
                }
            }
            lists.store(txn, height).unwrap();
        }
        for (number, account) in (0..).zip(&accounts) {
            put_account(txn, &address(number), account).unwrap();
        }
        model
    }

    #[test]
    fn the_row_of_a_block_names_the_accounts_of_each_transaction_once() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let blocks = [vec![vec![(0, true), (0, false), (2, false)], vec![]], vec![], vec![vec![(3, true), (1, false)]]];
        build(&mut batch, &blocks);
        let of = |height| {
            let found = affected_in_block(&batch, Height(height)).unwrap();
            found.into_iter().map(|(id, accounts)| (id, accounts.iter().map(|one| one.0).collect())).collect::<Vec<_>>()
        };
        // The helper assigns the ids from the last transaction to the first.
        assert_eq!(of(1), [(106, vec![0, 2]), (103, vec![])]);
        assert_eq!([of(2), of(3), of(4)], [vec![], vec![(109, vec![1, 3])], vec![]]);
    }

    #[test]
    fn a_cursor_starts_anywhere_in_a_long_list_after_few_steps() {
        const LENGTH: u32 = 500;
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let model = build(&mut batch, &vec![vec![vec![(0, true)]]; LENGTH as usize]);
        let steps = |before: u64| {
            let cursor = AccountTxCursor::new(&batch, &address(0), Direction::Outgoing, before).unwrap();
            (LENGTH - cursor.remaining, cursor.peek())
        };
        let list = &model[&(0, true)];
        assert_eq!(steps(u64::MAX), (1, list.last().copied()));
        for (index, (before, _)) in list.iter().enumerate().skip(1) {
            let (steps, newest) = steps(*before);
            assert_eq!(newest, Some(list[index - 1]));
            assert!(steps <= SKIP_POINTER_EVERY + 1, "{steps} steps to number {index}");
        }
    }

    /// Puts a skip pointer of the account 0 to the transaction at a height.
    fn point(txn: &mut impl Write, id: u64, height: u64) {
        let place = TxLocation { height: Height(height), index: 0 };
        let key = skip_pointer_key(AccountId(0), Direction::Outgoing, id);
        txn.put(Table::SkipPointers, &key, &place.to_stored()).unwrap();
    }

    #[test]
    fn a_list_without_skip_pointers_looks_for_none() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        for length in [SKIP_POINTER_EVERY - 1, SKIP_POINTER_EVERY] {
            let model = build(&mut batch, &vec![vec![vec![(0, true)]]; length as usize]);
            let list = &model[&(0, true)];
            point(&mut batch, list[9].0, 2);
            let found = AccountTxCursor::new(&batch, &address(0), Direction::Outgoing, list[9].0);
            assert_eq!(found.is_ok_and(|found| found.peek() == Some(list[8])), length < SKIP_POINTER_EVERY);
            for height in 1..=u64::from(length) {
                batch.delete(Table::AccountTxLists, &block_key(Height(height))).unwrap();
            }
        }
    }

    #[test]
    fn a_skip_pointer_that_is_lost_or_leads_to_another_transaction_is_damage() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let model = build(&mut batch, &vec![vec![vec![(0, true)]]; 100]);
        let list = &model[&(0, true)];
        let start = |batch: &WriteTxn<'_>, place: usize| {
            let cursor = AccountTxCursor::new(batch, &address(0), Direction::Outgoing, list[place].0);
            cursor.map(|cursor| cursor.peek())
        };
        for place in 1..100 {
            assert_eq!(start(&batch, place).unwrap(), Some(list[place - 1]));
        }
        let every = SKIP_POINTER_EVERY as usize;
        batch
            .delete(Table::SkipPointers, &skip_pointer_key(AccountId(0), Direction::Outgoing, list[2 * every - 1].0))
            .unwrap();
        assert!(matches!(start(&batch, 50), Err(StoreError::Damaged(_))));
        point(&mut batch, list[every - 1].0, 3);
        assert!(matches!(start(&batch, 20), Err(StoreError::Damaged(_))));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_cursor_returns_all_transactions_of_an_account_below_any_id(
            blocks in proptest::collection::vec(
                proptest::collection::vec(proptest::collection::vec((0u8..4, any::<bool>()), 0..4), 0..9),
                0..60,
            ),
            before in 90u64..1_500,
        ) {
            let (store, _folder) = test_store();
            let mut batch = store.begin_write().unwrap();
            let model = build(&mut batch, &blocks);
            for account in 0..5u8 {
                for (is_sender, direction) in [(true, Direction::Outgoing), (false, Direction::Incoming)] {
                    let mut expected = model.get(&(account, is_sender)).cloned().unwrap_or_default();
                    expected.retain(|(id, _)| *id < before);
                    let mut walk = AccountTxCursor::new(&batch, &address(account), direction, before).unwrap();
                    let mut found = Vec::new();
                    while let Some((id, place)) = walk.peek() {
                        prop_assert_eq!(transaction_id(&batch, place).unwrap(), Some(id));
                        found.push((id, place));
                        walk.advance(&batch).unwrap();
                    }
                    expected.reverse();
                    prop_assert_eq!(&found, &expected);
                }
            }
        }

        #[test]
        fn a_row_of_arbitrary_bytes_is_read_or_reported_as_corrupt(row: Vec<u8>, index in 0u32..8) {
            let (store, _folder) = test_store();
            let mut batch = store.begin_write().unwrap();
            batch.put(Table::AccountTxLists, &block_key(Height(9)), &row).unwrap();
            let found = account_entry_at(&batch, TxLocation { height: Height(9), index }, AccountId(1), Direction::Incoming);
            prop_assert!(matches!(found, Ok(_) | Err(StoreError::Damaged(_))));
            let id = transaction_id(&batch, TxLocation { height: Height(9), index });
            prop_assert!(matches!(id, Ok(_) | Err(StoreError::Damaged(_))));
        }
    }
}
