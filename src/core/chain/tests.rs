//! Import of blocks on top of a chain of three, and checkpoints.

use std::io::Cursor;

use tempfile::TempDir;

use super::*;
use crate::codec::SigningForm;
use crate::codec::block_file::{BlockFile, BlockFileError};
use crate::crypto::{KeyPair, PrivateKey, PublicKey, Signature, Verifier};
use crate::model::network::test_network;
use crate::model::transaction::{Cosignature, Multisig, Transfer, wire_version};
use crate::model::{
    Address, Amount, Block, BlockKind, Body, Checkpoint, Hash256, Height, Network, NetworkByte, Timestamp, Transaction,
};
use crate::rules::{Rejection, ValidationResult};
use crate::state;
use crate::store::{Read, Store, StoredHeader, Table, Write as _, block_key, test_store};

const BYTE: NetworkByte = NetworkByte::TESTNET;
const SIGNER: PublicKey = PublicKey([9; 32]);
/// Network time of the tests.
const NOW: Timestamp = Timestamp(10_000);

/// Returns a file of blocks.
fn file(blocks: &[Block]) -> Vec<u8> {
    let bytes = blocks.iter().map(|block| block.to_bytes(SigningForm::Verifiable));
    bytes.flat_map(|bytes| [(bytes.len() as u32).to_le_bytes().to_vec(), bytes].concat()).collect()
}

/// Returns a block without transactions.
fn block(height: u64, parent: Hash256) -> Block {
    Block {
        kind: BlockKind::Regular,
        version: wire_version(BYTE, 1),
        timestamp: Timestamp(height as i32 * 60),
        signer: SIGNER,
        signature: Some(Signature([8; 64])),
        previous_hash: parent.into(),
        height: Height(height),
        transactions: Vec::new(),
    }
}

const TRUSTED: ImportOptions = ImportOptions { trusted_below: Height(100), ..ImportOptions::DEFAULT };

/// A chain of three blocks in its own store.
struct Chain {
    network: Network,
    store: Store,
    _folder: TempDir,
    tip: Block,
}

impl Chain {
    fn new() -> Chain {
        let (store, folder) = test_store();
        let (mut parent, mut tip) = (Hash256::default(), None);
        let mut batch = store.begin_write().unwrap();
        for height in 1..=3 {
            let block = block(height, parent);
            parent = block.hash();
            let header = StoredHeader {
                height: block.height,
                hash: parent,
                generation_hash: Hash256([7; 32]),
                timestamp: block.timestamp,
                difficulty: 100_000_000_000_000,
                score: 0,
                total_fee: Amount::ZERO,
                beneficiary: None,
                previous_harvests: [Height(0); 2],
                ids: (1, 1),
            };
            batch
                .put_unjournaled(
                    Table::Blocks,
                    &block_key(block.height),
                    &header.to_bytes(&block, &block.encode_transactions()),
                )
                .unwrap();
            tip = Some(block);
        }
        batch.commit().unwrap();
        let network = test_network(BYTE, Address::from_public_key(&PublicKey([1; 32]), BYTE));
        Chain { network, store, _folder: folder, tip: tip.unwrap() }
    }

    /// Returns the block after the tip.
    fn next(&self) -> Block {
        block(4, self.tip.hash())
    }

    /// Returns some blocks after the tip.
    fn following(&self, count: u64) -> Vec<Block> {
        let mut parent = self.tip.hash();
        let next = |height| {
            let block = block(height, parent);
            parent = block.hash();
            block
        };
        (4..4 + count).map(next).collect()
    }

    /// Returns an import of blocks, which are trusted.
    fn importer(&self, blocks: &[Block]) -> BlockImporter<'_> {
        self.importer_with(TRUSTED, blocks)
    }

    fn importer_with(&self, options: ImportOptions, blocks: &[Block]) -> BlockImporter<'_> {
        let files = vec![BlockFile::new(Cursor::new(file(blocks))).unwrap()];
        BlockImporter::new(&self.store, &self.network, Vec::new(), files, options).unwrap()
    }

    /// Imports blocks. Returns the height that is reached.
    fn import(&self, blocks: &[Block]) -> Result<Height, ImportError> {
        let mut importer = self.importer(blocks);
        while importer.step(NOW)? != ImportProgress::Done {}
        Ok(importer.committed())
    }

    /// Returns the result of a scan of blocks for a checkpoint.
    fn scan(&self, checkpoint: Checkpoint, blocks: &[Block]) -> Result<(), CheckpointError> {
        let files = vec![BlockFile::new(Cursor::new(file(blocks))).unwrap()];
        let mut scan =
            CheckpointScan::new(&self.store, &self.network, &[], files, checkpoint)?.expect("it is above the tip");
        while !scan.step()? {}
        Ok(())
    }
}

#[test]
fn a_known_block_may_have_another_signature_but_no_other_content() {
    let chain = Chain::new();
    let signed_again = Block { signature: Some(Signature([1; 64])), ..chain.tip.clone() };
    assert_eq!(chain.import(&[chain.tip.clone(), signed_again, chain.next()]).unwrap(), Height(4));
    let other = Block { timestamp: Timestamp(1), ..chain.tip.clone() };
    assert!(matches!(chain.import(&[other]), Err(ImportError::OtherChain(Height(3)))));
}

#[test]
fn a_block_is_accepted_while_no_other_work_is_pending() {
    let chain = Chain::new();
    let mut importer = chain.importer(&[]);
    assert!(importer.accepts_block() && !importer.request_commit());
    importer.submit_block(chain.next());
    assert!(!importer.accepts_block(), "it has a block");
    while !importer.accepts_block() {
        assert_eq!(importer.step(NOW).unwrap(), ImportProgress::Working);
    }
    assert_eq!((importer.height(), importer.committed()), (Height(4), Height(3)));
    assert!(importer.request_commit());
    assert!(!importer.accepts_block(), "it is about to commit");
    let committed = ImportProgress::Committed { first: Height(4), last: Height(4) };
    assert_eq!(importer.step(NOW).unwrap(), committed);
    assert!(importer.accepts_block() && !importer.request_commit());
    importer.submit_block(chain.next());
    assert!(!importer.accepts_block(), "it is about to report an error");
    let error = importer.step(NOW).unwrap_err();
    assert!(matches!(error, ImportError::Rejected(Height(5), None, Rejection::Exception(_))), "{error}");
}

#[test]
fn a_batch_has_at_most_its_number_of_blocks() {
    let chain = Chain::new();
    let next = chain.next();
    let blocks = [next.clone(), block(5, next.hash())];
    let mut importer = chain.importer_with(ImportOptions { batch_blocks: 2, ..TRUSTED }, &blocks);
    while importer.committed() == Height(3) {
        let progress = importer.step(NOW).unwrap();
        if let ImportProgress::Committed { first, last } = progress {
            assert_eq!((first, last), (Height(4), Height(5)));
        }
    }
    assert_eq!(importer.committed(), Height(5));
}

/// Ends an import. Returns what it reports besides mere work, and the number of steps.
fn finish(importer: &mut BlockImporter<'_>) -> (Vec<ImportProgress>, usize) {
    let (mut reports, mut steps) = (Vec::new(), 0);
    while reports.last() != Some(&ImportProgress::Done) {
        reports.extend(Some(importer.step(NOW).unwrap()).filter(|report| *report != ImportProgress::Working));
        steps += 1;
    }
    (reports, steps)
}

#[test]
fn a_batch_ends_after_a_number_of_blocks_rows_or_collected_bytes_and_the_next_one_waits_until_it_is_durable() {
    use ImportProgress::{Committed, Done, Syncing};
    let reports = |options: ImportOptions| {
        let chain = Chain::new();
        let mut importer = chain.importer_with(options, &chain.following(3));
        let (reports, _) = finish(&mut importer);
        assert!(!chain.store.durability().has_unsynced_commit());
        reports
    };
    let [four, five, six] = [4, 5, 6].map(|height| Committed { first: Height(height), last: Height(height) });
    let one_by_one = [four, Syncing, five, Syncing, six, Done];
    assert_eq!(reports(TRUSTED), [Committed { first: Height(4), last: Height(6) }, Done]);
    assert_eq!(reports(ImportOptions { batch_blocks: 1, ..TRUSTED }), one_by_one);
    assert_eq!(reports(ImportOptions { batch_rows: 1, ..TRUSTED }), one_by_one);
    assert_eq!(reports(ImportOptions { write_cache: 1, ..TRUSTED }), one_by_one);
    let all = [Committed { first: Height(4), last: Height(6) }, Done];
    assert_eq!(reports(ImportOptions { write_cache: 1 << 20, ..TRUSTED }), all);
}

#[test]
fn a_commit_during_a_block_changes_neither_the_state_nor_the_undo_journals() {
    let result = |steps, write_cache| {
        let chain = Chain::new();
        let options = ImportOptions { write_cache, ..TRUSTED };
        let mut importer = chain.importer_with(options, &chain.following(2));
        for _ in 0..steps {
            importer.step(NOW).unwrap();
        }
        importer.commit().unwrap();
        finish(&mut importer);
        let snapshot = chain.store.snapshot().unwrap();
        let journals = snapshot.entries(Table::Undo, &[]).unwrap().map(Result::unwrap);
        let journals: Vec<_> = journals.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        (importer.committed(), state::digest(&snapshot).unwrap(), journals)
    };
    let expected = result(0, 0);
    assert_eq!((expected.0, expected.2.len()), (Height(5), 2));
    for steps in 1..24 {
        for write_cache in [0, 1 << 20] {
            assert!(result(steps, write_cache) == expected, "after {steps} steps");
        }
    }
}

#[test]
fn where_only_the_state_is_kept_undo_journals_are_stored_from_a_height_on() {
    let chain = Chain::new();
    let options = ImportOptions { retention: Retention::State(Height(6)), ..TRUSTED };
    let mut importer = chain.importer_with(options, &chain.following(4));
    finish(&mut importer);
    let kept = chain.store.snapshot().unwrap().keys_with_prefix(Table::Undo, &[]).unwrap();
    assert_eq!(kept, [6, 7].map(|height| block_key(Height(height)).to_vec()));
}

#[test]
fn uncommitted_blocks_are_imported_again_after_a_failure_of_the_store() {
    let chain = Chain::new();
    let options = ImportOptions { batch_blocks: 2, can_retry: true, ..TRUSTED };
    let mut importer = chain.importer_with(options, &chain.following(6));
    while importer.height() < Height(9) {
        importer.step(NOW).unwrap();
    }
    assert_eq!(importer.committed(), Height(7));
    importer.retry().unwrap();
    assert_eq!(importer.height(), Height(7));
    finish(&mut importer);
    assert_eq!(importer.committed(), Height(9));
}

#[test]
fn a_damaged_file_is_an_error_after_its_whole_blocks_even_if_it_was_looked_at_before() {
    let (whole, follows) = (file(&Chain::new().following(3)), file(&Chain::new().following(1)));
    let [cut, bad] = [&whole[..whole.len() - 1], &[&whole, &[0xff; 4][..], &follows].concat()];
    for (bytes, reached, is_cut) in [(cut, 5, true), (bad, 6, false)] {
        for looked_at in [0, 4] {
            let chain = Chain::new();
            let files = [bytes, &follows].map(|bytes| BlockFile::new(Cursor::new(bytes.to_vec())).unwrap());
            let mut importer =
                BlockImporter::new(&chain.store, &chain.network, Vec::new(), Vec::from(files), TRUSTED).unwrap();
            let seen = (0..looked_at).take_while(|index| importer.peek(*index).is_some()).count();
            assert_eq!(seen as u64, if looked_at == 0 { 0 } else { reached - 3 });
            let error = loop {
                if let Err(error) = importer.step(NOW) {
                    break error;
                }
            };
            let ImportError::File(Height(after), error) = error else { panic!("{error}") };
            assert_eq!((after, matches!(error, BlockFileError::Truncated)), (reached, is_cut), "{error}");
            assert_eq!(importer.committed(), Height(reached));
        }
    }
}

#[test]
fn a_rebuild_goes_on_from_the_last_commit_after_a_failure_of_the_store() {
    let (old, new) = (Chain::new(), Chain::new());
    finish(&mut old.importer_with(TRUSTED, &old.following(6)));
    let blocks = old.store.snapshot().unwrap();
    let options = ImportOptions { batch_blocks: 2, stop_at: Some(Height(9)), ..TRUSTED };
    let source = BlockSource::Store(Height(4), &blocks);
    let mut importer = BlockImporter::new(&new.store, &new.network, Vec::new(), source, options).unwrap();
    assert_eq!(importer.rebuild_target(), Some(Height(9)));
    while importer.height() < Height(9) {
        importer.step(NOW).unwrap();
    }
    assert_eq!(importer.committed(), Height(7));
    importer.retry().unwrap();
    finish(&mut importer);
    assert_eq!(importer.committed(), Height(9));
    assert_eq!(state::digest(&new.store.snapshot().unwrap()).unwrap(), state::digest(&blocks).unwrap());
}

#[test]
fn a_batch_ends_once_its_overflow_pages_fill_the_write_cache() {
    // Up to the first importance calculation.
    const BLOCKS: u64 = 358;
    let commits = |write_cache| {
        let mut chain = Chain::new();
        chain.network.chain.rewrite_limit = 10;
        let mut importer = chain.importer_with(
            ImportOptions { write_cache, trusted_below: Height(BLOCKS), ..ImportOptions::DEFAULT },
            &chain.following(BLOCKS - 4),
        );
        let mut commits = 0;
        loop {
            match importer.step(Timestamp(i32::MAX)).unwrap() {
                ImportProgress::Committed { .. } => commits += 1,
                ImportProgress::Done => return commits,
                _ => {}
            }
        }
    };
    // Old blocks are packed into rows of several pages; the collected changes are those of a few accounts.
    assert_eq!([0, 4 << 20, 32 << 10].map(commits), [1, 1, 2]);
}

#[test]
fn blocks_kept_for_a_retry_are_not_read_twice_without_one() {
    let [kept, not_kept] = [true, false].map(|can_retry| {
        let chain = Chain::new();
        let options = ImportOptions { can_retry, ..TRUSTED };
        let mut importer = chain.importer_with(options, &chain.following(3));
        finish(&mut importer).1
    });
    assert_eq!(kept, not_kept);
}

#[test]
fn the_progress_of_files_is_in_bytes_and_that_of_a_store_is_unknown() {
    let chain = Chain::new();
    let bytes = file(&chain.following(2));
    let size = bytes.len() as u64;
    let files = vec![BlockFile::new(Cursor::new(bytes)).unwrap().with_size(size)];
    let mut importer = BlockImporter::new(&chain.store, &chain.network, Vec::new(), files, TRUSTED).unwrap();
    finish(&mut importer);
    assert_eq!(importer.bytes(), Some((size, size)));
    let snapshot = chain.store.snapshot().unwrap();
    let source = BlockSource::Store(Height(6), &snapshot);
    let importer = BlockImporter::new(&chain.store, &chain.network, Vec::new(), source, TRUSTED).unwrap();
    assert_eq!(importer.bytes(), None);
}

#[test]
fn signatures_of_blocks_below_a_height_are_trusted() {
    for (trusted_below, is_trusted) in [(4, false), (5, true)] {
        let chain = Chain::new();
        let options = ImportOptions { trusted_below: Height(trusted_below), ..TRUSTED };
        let mut importer = chain.importer_with(options, &[chain.next()]);
        let result = loop {
            match importer.step(NOW) {
                Ok(ImportProgress::Done) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        assert_eq!(result.is_ok(), is_trusted, "{result:?}");
    }
}

#[test]
fn a_checkpoint_is_reached_by_blocks_that_follow_each_other_only() {
    let chain = Chain::new();
    let next = chain.next();
    let last = block(5, next.hash());
    let checkpoint = Checkpoint { height: Height(5), hash: last.hash() };
    chain.scan(checkpoint, &[chain.tip.clone(), next.clone(), last.clone()]).unwrap();
    let mismatch = |blocks: &[Block]| match chain.scan(checkpoint, blocks) {
        Err(CheckpointError::ParentMismatch(height)) => height,
        other => panic!("{other:?}"),
    };
    assert_eq!(mismatch(&[block(4, Hash256([6; 32])), last.clone()]), Height(4), "another parent");
    assert_eq!(mismatch(&[block(5, chain.tip.hash()), last]), Height(4), "another height");
    assert!(matches!(
        chain.scan(checkpoint, std::slice::from_ref(&next)),
        Err(CheckpointError::TooShort { last: Height(4), .. })
    ));
    let other = Checkpoint { height: Height(4), ..checkpoint };
    assert!(matches!(chain.scan(other, &[next]), Err(CheckpointError::OtherHash { .. })));
}

#[test]
fn a_nemesis_block_is_of_its_kind_at_the_first_height_and_by_the_signer_of_the_network() {
    let network = test_network(BYTE, Address::from_public_key(&SIGNER, BYTE));
    let nemesis = Block { kind: BlockKind::Nemesis, ..block(1, Hash256::default()) };
    let check = |block: &Block| nemesis_block(&block.to_bytes(SigningForm::Verifiable), &network);
    assert_eq!(check(&nemesis).unwrap(), nemesis);
    for other in [
        Block { kind: BlockKind::Regular, ..nemesis.clone() },
        Block { height: Height(2), ..nemesis.clone() },
        Block { signer: PublicKey([1; 32]), ..nemesis.clone() },
    ] {
        assert!(matches!(check(&other), Err(Rejection::Exception(_))), "{other:?}");
    }
}

#[test]
fn a_branch_begins_below_the_tip() {
    let chain = Chain::new();
    for common in [Height(0), Height(4), Height(u64::MAX)] {
        let branch = CandidateBranch::new(&chain.store, &chain.network, common, Vec::new());
        assert!(matches!(branch.err(), Some(RollbackError::NotBelow { tip: Height(3) })), "{common}");
    }
}

#[test]
fn a_branch_is_decided_once_earlier_commits_are_durable() {
    let chain = Chain::new();
    chain.store.begin_write().unwrap().commit_deferred_sync().unwrap();
    chain.store.durability().set_helper(true);
    let mut branch = CandidateBranch::new(&chain.store, &chain.network, Height(3), Vec::new()).unwrap();
    while !chain.store.durability().waits_for_disk() {
        assert!(branch.step(NOW, &mut StakeCache::default()).unwrap().is_none());
    }
    chain.store.durability().set_helper(false);
    let outcome = branch.step(NOW, &mut StakeCache::default()).unwrap().expect("nothing is left to do");
    assert_eq!((outcome.validity.is_ok(), outcome.scores), (true, Some((0, 0))));
}

#[test]
fn a_pushed_block_that_is_known_or_follows_none_of_ours_is_neutral() {
    let chain = Chain::new();
    let next = chain.next();
    chain.import(std::slice::from_ref(&next)).unwrap();
    let is_neutral = |block: Block| match pushed_branch(&chain.store, &chain.network, block, Verified::default()) {
        Ok(_) => false,
        Err(Rejection::Result(ValidationResult::Neutral)) => true,
        Err(other) => panic!("{other}"),
    };
    assert!(is_neutral(next.clone()), "the tip");
    assert!(is_neutral(block(5, Hash256([6; 32]))), "another parent");
    assert!(is_neutral(block(6, next.hash())), "another height");
    assert!(!is_neutral(Block { timestamp: Timestamp(1), ..next.clone() }), "a sibling of the tip");
    assert!(!is_neutral(block(5, next.hash())));
}

/// Returns a transaction of a key; unsigned.
fn unsigned(signer: PublicKey, body: Body) -> Transaction {
    Transaction {
        version: wire_version(BYTE, 1),
        timestamp: Timestamp(1),
        signer,
        signature: None,
        fee: Amount(1),
        deadline: Timestamp(2),
        body,
    }
}

#[test]
fn all_signatures_are_checked_in_their_order_and_the_first_wrong_one_names_its_transaction() {
    let key = |number| KeyPair::new(&PrivateKey::from_seed(&[number; 32]));
    let signed = |number, body| {
        let transaction = unsigned(key(number).public(), body);
        Transaction { signature: Some(key(number).sign(&transaction.signed_bytes())), ..transaction }
    };
    let account = Address::from_public_key(&SIGNER, BYTE);
    let transfer = || Transfer { recipient: account, amount: Amount(1), message: None, mosaics: Vec::new() };
    let inner = unsigned(SIGNER, Body::Transfer(transfer()));
    let cosignature = |number| {
        let body = Cosignature { other_hash: inner.hash().into(), other_account: account };
        signed(number, Body::Cosignature(body))
    };
    let cosignatures = vec![cosignature(2), cosignature(3)];
    let multisig = Multisig { inner: inner.clone(), cosignatures };
    let transactions = vec![signed(1, Body::Transfer(transfer())), signed(4, Body::Multisig(Box::new(multisig)))];
    let good = Block { transactions, ..block(4, Hash256::default()) };
    let network = test_network(BYTE, account);
    // Returns the number of checked signatures, or the index of the transaction with a wrong one.
    let check = |block: &Block, is_trusted| {
        let (mut signatures, mut verifier) = (SignatureCheck::new(block, &network, is_trusted), Verifier::default());
        let mut steps = 0;
        loop {
            let checked = signatures.next_transaction(block);
            match signatures.step(block, &mut verifier) {
                Ok(true) => steps += 1,
                Ok(false) => break Ok(steps),
                Err(Rejection::Result(ValidationResult::FailureTransactionUnverifiable)) => break Err(checked),
                Err(other) => panic!("{other}"),
            }
        }
    };
    assert_eq!(check(&good, false), Ok(4));
    let wrong = Some(Signature([7; 64]));
    let mut bad = good.clone();
    bad.transactions[0].signature = wrong;
    assert_eq!((check(&bad, false), check(&bad, true)), (Err(Some(0)), Ok(4)));
    for wrong_cosignature in 0..2 {
        let mut bad = good.clone();
        if let Body::Multisig(multisig) = &mut bad.transactions[1].body {
            multisig.cosignatures[wrong_cosignature].signature = wrong;
        }
        assert_eq!(check(&bad, false), Err(Some(1)), "{wrong_cosignature}");
    }
}
