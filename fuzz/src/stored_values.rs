//! Fuzz target: values of the store, as a damaged disk may return them.

use nisd::config::build;
use nisd::model::{Address, Hash256, Height, MosaicId, NamespaceId, Network, NetworkByte};
use nisd::state::registry::{self, ListingIndex, Provision, ProvisionCursor, SupplyQuery};
use nisd::state::{
    self, Account, AccountHistory, AccountId, AccountTotals, AccountTxCursor, BlockContext, Direction, Effect,
    ExpiredCursor, ExpiredRow, HashCompaction, HashVerifier, HistoryRange, ImportanceListWriter, Ledger, Outlink,
    RecalculationRecord,
};
use nisd::store::{Options, Store, StoreError, Table, Write, WriteTxn, block_key, stored_block, stored_header, tip};

/// Address space for the store, in bytes.
const MAP_SIZE: usize = 16 << 20;
/// Maximum entries of an input that are read.
const MAX_ENTRIES: usize = 40;
/// The queried items: a height, the number of a row, accounts, a mosaic, a namespace, a hash.
const HEIGHT: Height = Height(7);
const ROW: u64 = 1;
const ACCOUNTS: [&str; 2] = ["TALICELCD3XPH4FFI5STGGNSNSWPOTG5E4DS2TOS", "TAABRCHNTAKNKOB77TWEORMYVCF3ERG4VUMQBLDK"];
const MOSAIC: &str = "a.b:c";
const ROOT: &str = "a";
const HASH: Hash256 = Hash256([7; 32]);

thread_local! {
    static NODE: Node = Node::new();
}

/// A store, empty for every input, with its network.
struct Node {
    store: Store,
    network: Network,
    accounts: [Address; 2],
    mosaic: MosaicId,
    root: NamespaceId,
}

/// Checks for any entries in the store: every query returns a result or reports damage, and a value that was read and
/// written again is read as the same.
///
/// Each entry is: table; number of leading bytes of the value that are appended to the lookup key, or 255 to use them
/// without it; length of the value (2 bytes, little-endian); value.
pub fn check(data: &[u8]) -> usize {
    NODE.with(|node| {
        let mut batch = node.store.begin_write().expect("a batch");
        for address in &node.accounts {
            let mut block = BlockContext::new(Height::NEMESIS);
            let mut ledger = Ledger { txn: &mut batch, block: &mut block, network: &node.network };
            ledger.apply(&Effect::Reference(*address)).and_then(|()| ledger.flush()).expect("room");
        }
        let (mut rest, mut readable) = (data, 0);
        for _ in 0..MAX_ENTRIES {
            let Some((table, key, value)) = node.entry(&mut rest) else { break };
            // LMDB rejects keys that are empty or too long.
            let _ = batch.put_unjournaled(table, &key, value);
            readable += node.one_value(value);
        }
        readable += node.query_all(&batch);
        pack_hashes(&mut batch);
        check_undo(&mut batch, data);
        readable
    })
}

impl Node {
    fn new() -> Node {
        let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
        let settings =
            build(Some((std::path::Path::new("a.properties"), b"nem.network=testnet")), Vec::new(), Some("/".as_ref()));
        let network = settings.expect("a configuration").network;
        let options = Options { map_size: MAP_SIZE };
        let store = Store::scratch(memory.path(), options).expect("a store");
        memory.close().expect("a folder that can go");
        Node {
            store,
            network,
            accounts: ACCOUNTS.map(|text| Address::parse(text, NetworkByte::TESTNET).expect("an address")),
            mosaic: MosaicId::parse(MOSAIC).expect("a mosaic"),
            root: NamespaceId::parse(ROOT).expect("a namespace"),
        }
    }

    /// Takes an entry off the front.
    fn entry<'a>(&self, rest: &mut &'a [u8]) -> Option<(Table, Vec<u8>, &'a [u8])> {
        let ([table, extra, low, high], behind) = rest.split_first_chunk()?;
        let (value, behind) = behind.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(behind.len()));
        *rest = behind;
        // Checksums must be right: they are compared when a store is read.
        let table = Table::from_number(*table).filter(|table| *table != Table::Checksums)?;
        let extra = if *extra == 255 { usize::MAX } else { usize::from(*extra) };
        let mut key = if extra == usize::MAX { Vec::new() } else { self.key(table) };
        key.extend_from_slice(&value[..extra.min(value.len()).min(80)]);
        Some((table, key, value))
    }

    /// Returns the key with which a table is queried, or its beginning.
    fn key(&self, table: Table) -> Vec<u8> {
        let account = self.accounts[0].as_bytes().as_slice();
        match table {
            Table::Blocks
            | Table::Undo
            | Table::Importances
            | Table::Outlinks
            | Table::AccountTxLists
            | Table::ExpiredMosaics => block_key(HEIGHT).to_vec(),
            Table::Accounts | Table::PublicKeys | Table::EligibleAccounts | Table::SkipPointers | Table::Harvests => {
                vec![0; 4]
            }
            // The row of the known range; with more bytes it is a row of the first account.
            Table::BalanceHistory => vec![0],
            Table::OwnershipPeriods | Table::Subnamespaces | Table::Holdings => vec![0; 4],
            Table::MosaicNumbers => [&[0; 4], MOSAIC.as_bytes()].concat(),
            Table::AccountIds => vec![0; 10],
            Table::Namespaces => ROOT.as_bytes().to_vec(),
            Table::Mosaics | Table::Balances => vec![0; 8],
            Table::Hashes => [&[0; 4], &HASH.0[..8]].concat(),
            Table::HashRuns => vec![0; 5],
            Table::Provisions | Table::Definitions | Table::SupplyChanges => ROW.to_be_bytes().to_vec(),
            Table::Meta | Table::Totals | Table::LeasesByHeight | Table::ListingIndex => Vec::new(),
            _ => account.to_vec(),
        }
    }

    /// Reads a value in each format that can be read alone. Returns how many succeeded.
    fn one_value(&self, value: &[u8]) -> usize {
        let mut readable = 0;
        if let Ok(account) = Account::from_row(value) {
            assert_eq!(Account::from_row(&account.to_row(&[7; 25])).ok(), Some(account));
            readable += 1;
        }
        readable + usize::from(Outlink::read_all(value).is_ok())
    }

    /// Runs all queries. Returns how many reported no damage.
    fn query_all(&self, state: &WriteTxn<'_>) -> usize {
        let [account, other] = &self.accounts;
        let answers = [
            tip(state).map(drop),
            stored_header(state, HEIGHT).map(drop),
            stored_block(state, HEIGHT).map(|found| {
                found.into_iter().for_each(|(header, block)| {
                    let value = header.to_bytes(&block, &block.encode_transactions());
                    assert!(value.len() >= 100);
                })
            }),
            state::last_recalculation(state).map(drop),
            state::importance(state, account).map(drop),
            state::chunk_after(state, HEIGHT, Some(AccountId(0))).map(drop),
            state::for_each_importance(state, |_| Ok(())),
            state::account(state, account).map(drop),
            state::cosignatories(state, account).map(drop),
            state::cosignatory_of(state, account).map(drop),
            state::mosaic_definition(state, &self.mosaic).map(drop),
            state::owned_mosaic(state, account, self.mosaic.clone()).map(drop),
            state::holdings(state, account).map(drop),
            expired(state),
            state::holds_mosaic(state, account).map(drop),
            state::find_remembered_hash(state, &HASH).map(drop),
            state::find_hash(state, &HASH).map(drop),
            HashVerifier::default().verify_block(state, HEIGHT).map(drop),
            HashVerifier::default().surplus(state).map(drop),
            state::public_key(state, account).map(drop),
            AccountTotals::of(state).map(drop),
            walk_trail(state, other, Direction::Incoming),
            walk_trail(state, account, Direction::Outgoing),
            state::digest(state).map(drop),
            state::mosaic(state, &self.mosaic).map(drop),
            state::mosaic_balance(state, &self.mosaic, account).map(drop),
            state::namespace_owner(state, &self.root).map(drop),
            state::is_namespace_active(state, &self.root, HEIGHT, 525_600).map(drop),
            Provision::at(state, ROW).map(drop),
            registry::definition_at(state, ROW).map(drop),
            ProvisionCursor::new(state, *account, None).and_then(|walk| {
                let mut walk = walk.expect("a walk over everything");
                walk.resume(state, |_, _| Ok(true)).map(drop)
            }),
            ListingIndex::Roots.before(state, u64::MAX).and_then(|mut rows| rows.try_for_each(|row| row.map(drop))),
            ListingIndex::DefinitionsOf(&self.mosaic).last(state).map(drop),
            SupplyQuery::new(state, &self.mosaic, HEIGHT).and_then(supply_in_pieces(state)),
            HistoryRange::of(state).map(drop),
            self.history(state, account),
        ];
        for answer in &answers {
            let is_answer = matches!(answer, Ok(()) | Err(StoreError::Damaged(_) | StoreError::Corrupt { .. }));
            assert!(is_answer, "{answer:?}");
        }
        self.dump(state);
        answers.iter().filter(|answer| answer.is_ok()).count() - 1
    }

    /// Queries the history of an account at some heights.
    fn history(&self, state: &WriteTxn<'_>, account: &Address) -> Result<(), StoreError> {
        let Some(mut history) = AccountHistory::new(state, account)? else { return Ok(()) };
        for height in 0..=HEIGHT.0 {
            history.at(state, Height(height), &self.network.chain)?;
        }
        Ok(())
    }

    /// Writes the state as text, if there is a chain.
    fn dump(&self, state: &WriteTxn<'_>) {
        if let Ok(Some(tip)) = tip(state) {
            let mut text = Vec::new();
            let _ = state::dump(state, &self.network, &tip, &mut text);
        }
    }
}

/// Advances a supply query row by row, as long as there can be rows.
/// Reads the log of expired mosaics.
fn expired(state: &WriteTxn<'_>) -> Result<(), StoreError> {
    let mut cursor = ExpiredCursor::new(HEIGHT);
    loop {
        match cursor.step(state)? {
            ExpiredRow::Mosaic(expired) => expired.for_each_balance(state, None, |_, _| Ok(true))?,
            ExpiredRow::Absent => {}
            ExpiredRow::End => return Ok(()),
        }
    }
}

fn supply_in_pieces(state: &WriteTxn<'_>) -> impl FnOnce(Option<SupplyQuery>) -> Result<(), StoreError> {
    move |walk| {
        let Some(mut walk) = walk else { return Ok(()) };
        for _ in 0..8 * MAX_ENTRIES {
            if walk.resume(state, || false)?.is_some() {
                return Ok(());
            }
        }
        panic!("a supply that is never known");
    }
}

fn walk_trail(state: &WriteTxn<'_>, account: &Address, direction: Direction) -> Result<(), StoreError> {
    let mut walk = AccountTxCursor::new(state, account, direction, u64::MAX)?;
    while walk.peek().is_some() {
        walk.advance(state)?;
    }
    Ok(())
}

/// Compacts and merges old hashes; damage may be reported.
fn pack_hashes(txn: &mut WriteTxn<'_>) {
    const HASHES: usize = 1_000;
    let packing = HashCompaction::new(txn, HEIGHT, HASHES).and_then(|mut packing| {
        while packing.step(txn)? {}
        Ok(())
    });
    assert!(matches!(packing, Ok(()) | Err(StoreError::Damaged(_) | StoreError::Corrupt { .. })), "{packing:?}");
}

/// Undoes any bytes as a journal; damage may be reported. Undoing a recorded journal restores everything.
fn check_undo(txn: &mut WriteTxn<'_>, bytes: &[u8]) {
    let before = state::digest(txn).ok();
    let list = RecalculationRecord { height: HEIGHT, accounts_counted: 1, eligible: 1 };
    txn.take_journal();
    for (number, part) in bytes.chunks(50).enumerate().take(10) {
        txn.put(Table::Accounts, &[b'k', number as u8 % 4], part).expect("room");
        txn.delete(Table::Accounts, &[b'k', part.len() as u8 % 4]).expect("room");
    }
    let journal = txn.take_journal();
    txn.undo(&journal).expect("a journal that was kept");
    assert_eq!(state::digest(txn).ok(), before, "what is undone has never been");
    ImportanceListWriter::begin(list, txn).and_then(|list| list.finish(txn)).expect("room");
    match txn.undo(bytes) {
        Ok(()) | Err(StoreError::Damaged(_) | StoreError::Lmdb(_)) => {}
        Err(error) => panic!("{error}"),
    }
}
