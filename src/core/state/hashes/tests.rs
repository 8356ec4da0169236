use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tempfile::TempDir;

use super::runs::{FAN_IN, LAST_LEVEL, PAGE_ROWS, RunPage, SortedRun, compact_page};
use super::*;
use crate::crypto::{PublicKey, Signature};
use crate::model::transaction::{Cosignature, Multisig, Transfer, wire_version};
use crate::model::{Address, Amount, Block, BlockKind, Body, NetworkByte, Transaction};
use crate::store::{ChainIdentity, Options, Store, StoredHeader, WriteTxn, block_key, tip};

const BYTE: NetworkByte = NetworkByte::TESTNET;
const SIGNATURE: Option<Signature> = Some(Signature([1; 64]));
/// Number of blocks that can be rolled back.
const REWRITE_LIMIT: u64 = 4;

fn store() -> (Store, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let identity = ChainIdentity { name: "test".to_owned(), text: String::new() };
    (Store::open(folder.path(), &identity, Options { map_size: 1 << 27 }).unwrap(), folder)
}

fn transaction(number: u32, timestamp: i32, signature: Option<Signature>, body: Body) -> Transaction {
    let (timestamp, fee) = (Timestamp(timestamp), Amount(number.into()));
    let version = wire_version(BYTE, 1);
    Transaction { version, timestamp, signer: PublicKey([1; 32]), signature, fee, deadline: Timestamp(0), body }
}

/// Creates a transfer, or for every fifth number a multisig transaction that contains one. The number makes it unique.
fn numbered(number: u32, timestamp: i32) -> Transaction {
    let recipient = Address::from_public_key(&PublicKey([2; 32]), BYTE);
    let transfer = |signature| {
        let body = Transfer { recipient, amount: Amount::ZERO, message: None, mosaics: Vec::new() };
        transaction(number, timestamp, signature, Body::Transfer(body))
    };
    if !number.is_multiple_of(5) {
        return transfer(SIGNATURE);
    }
    let inner = transfer(None);
    let body = Cosignature { other_hash: inner.hash().into(), other_account: recipient };
    let cosignatures = vec![transaction(number, timestamp + 1, SIGNATURE, Body::Cosignature(body))];
    transaction(number, timestamp, SIGNATURE, Body::Multisig(Box::new(Multisig { inner, cosignatures })))
}

/// A block of the model chain, reduced to what hashes need.
#[derive(Clone, Debug)]
struct ModelBlock {
    transactions: Vec<Transaction>,
    /// Id after its last transaction.
    next_id: u64,
    /// The block forgets hashes of transactions before this time.
    limit: Option<i32>,
}

/// A model chain, and a store that indexes its hashes.
struct Chain<'s> {
    blocks: Vec<ModelBlock>,
    committed: Vec<ModelBlock>,
    /// Number of blocks that can never be rolled back.
    final_count: usize,
    committed_final_count: usize,
    batch: Option<WriteTxn<'s>>,
    store: &'s Store,
    numbers: u32,
}

impl<'s> Chain<'s> {
    fn new(store: &'s Store, era_bits: u8) -> Chain<'s> {
        let mut batch = store.begin_write().unwrap();
        set_epoch_size(&mut batch, era_bits).unwrap();
        batch.take_journal();
        batch.commit().unwrap();
        let (blocks, committed, batch) = (Vec::new(), Vec::new(), Some(store.begin_write().unwrap()));
        Chain { blocks, committed, final_count: 0, committed_final_count: 0, batch, store, numbers: 0 }
    }

    fn batch(&mut self) -> &mut WriteTxn<'s> {
        self.batch.as_mut().unwrap()
    }

    /// Adds a block of new transactions, and optionally one that the chain already contains.
    fn add(&mut self, count: u32, again: Option<usize>, limit: Option<i32>) {
        let (height, time) = (Height(self.blocks.len() as u64 + 1), 10 * self.blocks.len() as i32);
        let mut transactions: Vec<_> = (0..count).map(|place| numbered(self.numbers + place, time)).collect();
        self.numbers += count;
        let known: Vec<_> = self.blocks.iter().flat_map(|block| &block.transactions).cloned().collect();
        transactions.extend(again.filter(|_| !known.is_empty()).map(|again| known[again % known.len()].clone()));
        let first_id = self.blocks.last().map_or(1, |block| block.next_id);
        let next_id = first_id + transactions.iter().map(|one| one.self_and_children().count() as u64).sum::<u64>();
        let (block, header) = stored(height, transactions.clone(), (first_id, next_id));
        let batch = self.batch();
        let epoch = hash_epoch(batch, first_id).unwrap();
        for (index, one) in (0..).zip(&transactions) {
            insert_hashes(batch, epoch, height, index, one.hashes().all()).unwrap();
        }
        if let Some(limit) = limit {
            forget(batch, height, Timestamp(limit)).unwrap();
            while forget_step(batch).unwrap() {}
        }
        batch
            .put_unjournaled(Table::Blocks, &block_key(height), &header.to_bytes(&block, &block.encode_transactions()))
            .unwrap();
        let journal = batch.take_journal();
        batch.put_unjournaled(Table::Undo, &block_key(height), &journal).unwrap();
        self.blocks.push(ModelBlock { transactions, next_id, limit });
        self.final_count = self.final_count.max(self.blocks.len().saturating_sub(REWRITE_LIMIT as usize)).max(1);
    }

    fn undo(&mut self) {
        if self.blocks.len() > self.final_count {
            let key = block_key(Height(self.blocks.len() as u64));
            let batch = self.batch.as_mut().unwrap();
            let journal = batch.get(Table::Undo, &key).unwrap().unwrap().to_vec();
            batch.undo(&journal).unwrap();
            batch.delete_unjournaled(Table::Blocks, &key).unwrap();
            self.blocks.pop();
        }
    }

    /// Packs as a block with `hashes` hashes would; returns the number of steps.
    fn pack(&mut self, hashes: usize) -> usize {
        let final_height = Height(self.final_count as u64);
        let mut packing = HashCompaction::new(self.batch(), final_height, hashes).unwrap();
        let mut steps = 0;
        while packing.step(self.batch()).unwrap() {
            steps += 1;
        }
        steps
    }

    fn commit(&mut self) {
        self.batch.take().unwrap().commit().unwrap();
        self.batch = Some(self.store.begin_write().unwrap());
        (self.committed, self.committed_final_count) = (self.blocks.clone(), self.final_count);
    }

    /// Discards uncommitted changes.
    fn crash(&mut self) {
        self.batch = None;
        self.batch = Some(self.store.begin_write().unwrap());
        (self.blocks, self.final_count) = (self.committed.clone(), self.committed_final_count);
    }

    /// Returns the newest location of every hash.
    fn locations(&self) -> BTreeMap<Hash256, HashEntry> {
        let mut places = BTreeMap::new();
        for (height, block) in (1..).map(Height).zip(&self.blocks) {
            for (index, transaction) in (0..).zip(&block.transactions) {
                for (number, one) in transaction.self_and_children().enumerate() {
                    let (timestamp, is_nested) = (one.timestamp, number > 0);
                    places.insert(one.hash(), HashEntry { height, timestamp, index, is_nested });
                }
            }
        }
        places
    }

    /// Asserts that exactly the remembered hashes are found at their locations, and that no row is missing or surplus.
    fn check(&mut self) {
        let places = self.locations();
        let limits = (1..).map(Height).zip(&self.blocks).filter_map(|(height, block)| Some((height, block.limit?)));
        let (pruned_at, limit) = limits.fold((Height(0), 0), |(_, most), (height, limit)| (height, limit.max(most)));
        let batch = self.batch.as_ref().unwrap();
        for (hash, entry) in &places {
            assert_eq!(find_hash(batch, hash).unwrap(), Some(*entry));
            let is_forgotten = entry.height < pruned_at && entry.timestamp.0 < limit;
            assert_eq!(find_remembered_hash(batch, hash).unwrap(), Some(*entry).filter(|_| !is_forgotten));
            let mut other = *hash;
            other.0[31] ^= 1;
            assert_eq!(find_hash(batch, &other).unwrap(), None);
            other.0[0] ^= 1;
            assert_eq!(find_hash(batch, &other).unwrap(), None);
        }
        let kept = |entry: &HashEntry| entry.height >= pruned_at || entry.timestamp.0 >= limit;
        let kept: BTreeMap<_, _> = places.into_iter().filter(|(_, entry)| kept(entry)).collect();
        assert_eq!(remembered(batch).unwrap(), kept);
        assert_eq!(compare(batch), None);
        assert_is_sorted(batch);
    }
}

fn stored(height: Height, transactions: Vec<Transaction>, ids: (u64, u64)) -> (Block, StoredHeader) {
    let block = Block {
        kind: BlockKind::Regular,
        version: wire_version(BYTE, 1),
        timestamp: Timestamp(1),
        signer: PublicKey([1; 32]),
        signature: SIGNATURE,
        previous_hash: Hash256::default().into(),
        height,
        transactions,
    };
    let header = StoredHeader {
        height,
        hash: block.hash(),
        generation_hash: Hash256::default(),
        timestamp: block.timestamp,
        difficulty: 1,
        score: 0,
        total_fee: Amount::ZERO,
        beneficiary: None,
        previous_harvests: [Height(0); 2],
        ids,
    };
    (block, header)
}

/// Returns the table with a missing or surplus row.
fn compare(state: &impl Read) -> Option<Table> {
    let mut comparison = HashVerifier::default();
    for height in 1..=tip(state).unwrap().map_or(0, |block| block.height.0) {
        if let Some((table, _)) = comparison.verify_block(state, Height(height)).unwrap() {
            return Some(table);
        }
    }
    comparison.surplus(state).unwrap().map(|(table, _)| table)
}

fn pages(state: &impl Read) -> Vec<(SortedRun, usize)> {
    let pages = state.entries(Table::HashRuns, &[]).unwrap().map(|entry| RunPage::read(entry.unwrap()).unwrap());
    pages.map(|page| (page.run, page.len())).collect()
}

fn run_count(state: &impl Read) -> usize {
    pages(state).into_iter().map(|(run, _)| run).collect::<BTreeSet<_>>().len()
}

fn assert_is_sorted(state: &impl Read) {
    let mut last = None;
    for entry in state.entries(Table::HashRuns, &[]).unwrap() {
        let page = RunPage::read(entry.unwrap()).unwrap();
        for row in page.rows() {
            assert!(last < Some((page.run, row)), "{last:?} {row:?}");
            last = Some((page.run, row));
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Add(u32, Option<usize>, Option<i32>),
    Undo(usize),
    Pack(usize),
    Commit,
    Crash,
}

fn steps() -> impl Strategy<Value = Step> {
    let again = prop::option::weighted(0.2, any::<usize>());
    let limit = prop::option::weighted(0.05, 0..800);
    prop_oneof![
        12 => (0..7u32, again, limit).prop_map(|(count, again, limit)| Step::Add(count, again, limit)),
        2 => (1..=REWRITE_LIMIT as usize).prop_map(Step::Undo),
        8 => (0..80usize).prop_map(Step::Pack),
        2 => Just(Step::Commit),
        1 => Just(Step::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[ignore = "slow: computes for long"]
    fn every_hash_is_found_after_compactions_rollbacks_and_crashes(
        era_bits in 0..5u8,
        steps in prop::collection::vec(steps(), 1..120),
    ) {
        let (store, _folder) = store();
        let mut chain = Chain::new(&store, era_bits);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Add(count, again, limit) => chain.add(count, again, limit),
                Step::Undo(blocks) => (0..blocks).for_each(|_| chain.undo()),
                Step::Pack(hashes) => drop(chain.pack(hashes)),
                Step::Commit => chain.commit(),
                Step::Crash => chain.crash(),
            }
            if number % 16 == 15 {
                chain.check();
            }
        }
        chain.check();
    }
}

#[test]
fn hashes_are_found_in_runs_and_in_rows_across_empty_epochs() {
    let (store, _folder) = store();
    let mut chain = Chain::new(&store, 1);
    for _ in 0..9 {
        chain.add(5, None, None);
        chain.check();
    }
    while compact_page(chain.batch(), 12).unwrap() > 0 {
        chain.check();
    }
    assert!(pages(chain.batch()).iter().any(|(run, _)| run.level == 1));
    assert!(first_row(chain.batch()).unwrap().is_some());
}

#[test]
fn lookups_skip_the_blocks_whose_hashes_are_all_forgotten() {
    let (store, _folder) = store();
    let mut chain = Chain::new(&store, 1);
    for _ in 0..6 {
        chain.add(2, None, None);
    }
    assert_eq!(remembered_from(chain.batch()).unwrap(), Height(1));
    // The blocks have the times 0, 10, 20 and so on.
    chain.add(1, None, Some(25));
    assert_eq!(remembered_from(chain.batch()).unwrap(), Height(4));
    let first_id = chain.blocks[2].next_id;
    assert_eq!(HashTotals::of(chain.batch()).unwrap().first_epoch, hash_epoch(chain.batch(), first_id).unwrap());
    chain.check();
    // The block that forgets is remembered.
    chain.add(1, None, Some(1_000));
    assert_eq!(remembered_from(chain.batch()).unwrap(), Height(8));
    chain.check();
}

#[test]
fn a_block_packs_one_page_and_another_for_every_sixteen_hashes() {
    let (store, _folder) = store();
    let mut chain = Chain::new(&store, 3);
    for _ in 0..60 {
        chain.add(6, None, None);
    }
    assert_eq!([0, 15, 16, 32].map(|hashes| chain.pack(hashes)), [1, 1, 2, 3]);
    let steps = chain.pack(100_000);
    assert!((30..200).contains(&steps), "{steps}");
    assert_eq!(chain.pack(100_000), 0, "nothing is left");
}

#[test]
fn compaction_keeps_up_with_blocks_and_ends_in_few_runs() {
    let (store, _folder) = store();
    let mut chain = Chain::new(&store, 3);
    for _ in 0..300 {
        chain.add(6, None, None);
        chain.pack(10_000);
    }
    let batch = chain.batch();
    let (first, _) = first_row(batch).unwrap().unwrap();
    // Epochs that can be rolled back and the last epoch that cannot are not packed.
    let behind = HashEpoch::try_from(chain.blocks[chain.final_count - 1].next_id >> 3).unwrap();
    assert!(first + 3 >= behind, "{first} of {behind} eras");
    assert!(first > 250, "{first}");
    let levels: Vec<u8> = pages(chain.batch()).into_iter().map(|(run, _)| run.level).collect();
    assert_eq!(levels.iter().max(), Some(&4), "256 eras lie in one run");
    assert!(run_count(chain.batch()) <= 5 * (FAN_IN as usize - 1), "{}", run_count(chain.batch()));
    chain.check();
}

/// Inserts rows of an epoch that need no blocks.
fn insert_rows(txn: &mut WriteTxn<'_>, epoch: HashEpoch, count: u32) {
    for number in 0..count {
        let mut hash = Hash256::default();
        hash.0[..4].copy_from_slice(&number.wrapping_mul(0x9E37_79B1).to_be_bytes());
        insert_hashes(txn, epoch, Height(epoch.into()), number, std::iter::once(&hash)).unwrap();
    }
    txn.take_journal();
}

#[test]
fn a_compaction_step_moves_one_page_of_rows() {
    let (store, _folder) = store();
    let mut batch = store.begin_write().unwrap();
    const ERAS: u32 = 16;
    const ROWS: u32 = 2_000;
    (0..ERAS).for_each(|epoch| insert_rows(&mut batch, epoch, ROWS));
    let (mut moved, mut steps) = (0, 0);
    loop {
        let rows = batch.rows();
        let of_step = compact_page(&mut batch, ERAS).unwrap();
        // One page is written, and each merged run loses up to two pages.
        let written = batch.rows() - rows;
        assert!(of_step <= PAGE_ROWS && written <= 2 + 2 * FAN_IN as u32, "{of_step} rows, {written} changes");
        if of_step == 0 {
            break;
        }
        (moved, steps) = (moved + of_step as u32, steps + 1);
    }
    // Each row was packed once and merged twice.
    assert_eq!(moved, ERAS * ROWS * 3);
    assert!(steps <= moved.div_ceil(PAGE_ROWS as u32) + ERAS + ERAS / 4 + 1, "{steps} steps");
    // At the end all pages but the last are full.
    let mut sizes: Vec<usize> = pages(&batch).into_iter().map(|(_, rows)| rows).collect();
    assert!(sizes.pop().is_some_and(|last| last <= PAGE_ROWS));
    assert!(sizes.iter().all(|rows| *rows == PAGE_ROWS), "{sizes:?}");
    assert_eq!(run_count(&batch), 1);
    assert!(first_row(&batch).unwrap().is_none());
}

#[test]
fn the_runs_of_a_level_are_followed_by_those_of_the_next_level() {
    for level in 0..=LAST_LEVEL {
        let next = SortedRun::containing(HashEpoch::MAX, level).next();
        assert_eq!(next, (level < LAST_LEVEL).then_some(SortedRun { level: level + 1, start: 0 }), "level {level}");
    }
    assert_eq!(SortedRun { level: 1, start: 8 }.next(), Some(SortedRun { level: 1, start: 12 }));
}

#[test]
fn a_run_is_merged_into_the_one_of_the_next_level_that_contains_it() {
    assert_eq!(SortedRun { level: 1, start: 12 }.parent(), Some(SortedRun { level: 2, start: 0 }));
    assert_eq!(SortedRun { level: LAST_LEVEL, start: 0 }.parent(), None);
}

#[test]
fn a_missing_row_belongs_to_the_runs_up_to_the_last_packed_row() {
    let (store, _folder) = store();
    let mut batch = store.begin_write().unwrap();
    let highest = HashRow::from_bytes([0xff; HashRow::BYTES]);
    let table = |state: &WriteTxn<'_>, epoch, row| expected_key(state, epoch, row).unwrap().0;
    insert_rows(&mut batch, 4, 3 * PAGE_ROWS as u32);
    assert_eq!([3, 4].map(|epoch| table(&batch, epoch, HashRow::LOWEST)), [Table::Hashes; 2], "nothing is packed");
    compact_page(&mut batch, 5).unwrap();
    assert_eq!(table(&batch, 3, highest), Table::HashRuns);
    assert_eq!(table(&batch, 4, HashRow::LOWEST), Table::HashRuns);
    assert_eq!(table(&batch, 4, highest), Table::Hashes);
    assert_eq!(table(&batch, 5, HashRow::LOWEST), Table::Hashes);
}

#[test]
fn hashes_with_equal_prefixes_are_distinguished_across_pages_epochs_and_runs() {
    let (store, _folder) = store();
    let mut chain = Chain::new(&store, 2);
    for _ in 0..40 {
        chain.add(4, None, None);
    }
    // At the locations of other transactions.
    let places = chain.locations();
    let wanted = [numbered(3, 0), numbered(37, 90)].map(|one| one.hash());
    let eras: Vec<HashEpoch> = (1..=40).map(|height| era_of(chain.batch(), height)).collect();
    for hash in &wanted {
        for height in (1..=40u64).filter(|height| *height != places[hash].height.0) {
            for index in 0..8 {
                let row = HashRow::new(hash, Height(height), index % 4, index >= 4);
                let key = row_key(eras[height as usize - 1], row);
                chain.batch().put_unjournaled(Table::Hashes, &key, &[]).unwrap();
            }
        }
    }
    let mut moved = 1;
    while moved > 0 {
        for hash in &wanted {
            assert_eq!(find_hash(chain.batch(), hash).unwrap(), Some(places[hash]));
        }
        moved = compact_page(chain.batch(), 64).unwrap();
    }
    // The rows of one hash fill more than a page.
    assert!(first_row(chain.batch()).unwrap().is_none());
    assert_eq!((run_count(chain.batch()), pages(chain.batch()).len()), (1, 4));
}

fn era_of(state: &impl Read, height: u64) -> HashEpoch {
    let header = stored_header(state, Height(height)).unwrap().unwrap();
    hash_epoch(state, header.ids.0).unwrap()
}

/// Returns a chain with packed and unpacked epochs and a half-finished merge.
fn half_packed(store: &Store) -> Chain<'_> {
    let mut chain = Chain::new(store, 9);
    for _ in 0..100 {
        chain.add(20, None, None);
    }
    let count = |state: &WriteTxn<'_>, level| pages(state).iter().filter(|(run, _)| run.level == level).count();
    while count(chain.batch(), 1) < 6 {
        compact_page(chain.batch(), 4).unwrap();
    }
    assert!(count(chain.batch(), 0) > 0);
    assert!(first_row(chain.batch()).unwrap().is_some_and(|(era, _)| era == 4));
    chain.check();
    chain
}

#[test]
#[ignore = "slow: computes for long"]
fn verification_finds_missing_wrong_and_surplus_rows_in_both_tables() {
    let (store, _folder) = store();
    let mut chain = half_packed(&store);
    chain.commit();
    let mut needless = 0;
    for table in [Table::Hashes, Table::HashRuns] {
        let rows: Vec<(Vec<u8>, Vec<u8>)> = {
            let rows = chain.batch().entries(table, &[]).unwrap().map(Result::unwrap);
            rows.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
        };
        for (key, value) in rows.iter().step_by(rows.len().div_ceil(20)) {
            chain.batch().delete_unjournaled(table, key).unwrap();
            let is_needless = table == Table::HashRuns && is_in_children(chain.batch(), (key, value));
            needless += usize::from(is_needless);
            assert_eq!(compare(chain.batch()), Some(table).filter(|_| !is_needless), "{key:?}");
            chain.crash();
            // Another row in its place.
            for place in [0, 9, 15] {
                let (mut other_key, mut other_value) = (key.clone(), value.clone());
                if value.is_empty() {
                    other_key[4 + place] ^= 1
                } else {
                    other_value[place] ^= 1
                }
                chain.batch().delete_unjournaled(table, key).unwrap();
                chain.batch().put_unjournaled(table, &other_key, &other_value).unwrap();
                assert!(compare(chain.batch()).is_some(), "{key:?}");
                chain.crash();
            }
            // An additional row, in an epoch or run of its own or in the same one.
            for place in [3, key.len() - 1] {
                let (mut other_key, mut other_value) = (key.clone(), value.clone());
                other_key[place] ^= 0x40;
                let last = other_key[other_key.len() - HashRow::BYTES..].to_vec();
                if let Some(at) = other_value.len().checked_sub(HashRow::BYTES) {
                    other_value[at..].copy_from_slice(&last);
                }
                chain.batch().put_unjournaled(table, &other_key, &other_value).unwrap();
                let found = compare_or_damage(chain.batch());
                assert!(found.is_some(), "{key:?} {place}");
                chain.crash();
            }
        }
        assert_eq!(compare(chain.batch()), None);
    }
    assert!(needless <= 2, "{needless}");
}

/// Returns whether all rows of a page are in the runs merged into its run.
fn is_in_children(state: &impl Read, entry: (&[u8], &[u8])) -> bool {
    let page = RunPage::read(entry).unwrap();
    page.rows().all(|row| page.run.children().any(|child| child.contains(state, row).unwrap()))
}

/// Does the same as [`compare`], but accepts corrupt pages.
fn compare_or_damage(state: &impl Read) -> Option<Table> {
    let mut comparison = HashVerifier::default();
    for height in 1..=tip(state).unwrap().map_or(0, |block| block.height.0) {
        match comparison.verify_block(state, Height(height)) {
            Ok(None) => {}
            Ok(Some((table, _))) | Err(StoreError::Corrupt { table, .. }) => return Some(table),
            Err(error) => panic!("{error}"),
        }
    }
    match comparison.surplus(state) {
        Ok(found) => found.map(|(table, _)| table),
        Err(StoreError::Corrupt { table, .. }) => Some(table),
        Err(error) => panic!("{error}"),
    }
}

/// Modifies key and value of a page.
type Corruption = fn(&mut Vec<u8>, &mut Vec<u8>);

#[test]
#[ignore = "slow: computes for long"]
fn an_invalid_page_is_reported_and_stops_the_lookup() {
    let (store, _folder) = store();
    let mut chain = half_packed(&store);
    chain.commit();
    // Hashes that share a prefix with existing ones, so that all runs are searched.
    let mut hashes: Vec<Hash256> = chain.locations().into_keys().collect();
    hashes.iter_mut().for_each(|hash| hash.0[31] ^= 1);
    let keys = chain.batch().keys_with_prefix(Table::HashRuns, &[]).unwrap();
    let spoil: [Corruption; 5] = [
        |_, value| value.truncate(value.len() - 1),
        |_, value| value.clear(),
        |_, value| value.extend([0; HashRow::BYTES]),
        |key, _| key.truncate(key.len() - 1),
        |key, _| key[0] = LAST_LEVEL + 1,
    ];
    for (key, spoil) in keys.iter().flat_map(|key| spoil.map(|spoil| (key, spoil))) {
        let mut value = chain.batch().get(Table::HashRuns, key).unwrap().unwrap().to_vec();
        let mut other = key.clone();
        spoil(&mut other, &mut value);
        chain.batch().delete_unjournaled(Table::HashRuns, key).unwrap();
        chain.batch().put_unjournaled(Table::HashRuns, &other, &value).unwrap();
        let mut named = 0;
        for hash in &hashes {
            match find_hash(chain.batch(), hash) {
                Err(StoreError::Corrupt { table: Table::HashRuns, key }) if key == other => named += 1,
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert!(named > 0, "{other:?}");
        chain.crash();
    }
}
