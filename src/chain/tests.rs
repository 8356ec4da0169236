//! Import of blocks on top of a chain of three, and checkpoints.

use std::io::Cursor;

use tempfile::TempDir;

use super::*;
use crate::codec::SigningForm;
use crate::codec::block_file::BlockFile;
use crate::crypto::{KeyPair, PrivateKey, PublicKey, Signature, Verifier};
use crate::model::network::test_network;
use crate::model::transaction::{Cosignature, Multisig, Transfer, wire_version};
use crate::model::{
    Address, Amount, Block, BlockKind, Body, Checkpoint, Hash256, Height, Network, NetworkByte, Timestamp, Transaction,
};
use crate::rules::ValidationResult;
use crate::store::{Store, StoredHeader, Table, block_key, test_store};

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

const TRUSTED: ImportOptions =
    ImportOptions { batch_steps: u32::MAX, batch_blocks: u32::MAX, stop_at: None, trusted_below: Height(100) };

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
                ids: (1, 1),
            };
            batch.put_unjournaled(Table::Blocks, &block_key(block.height), &header.to_bytes(&block)).unwrap();
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
    assert!(matches!(error, ImportError::Block(Height(5), BlockError::Height { .. })), "{error}");
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
        assert!(matches!(check(&other), Err(BlockError::Nemesis(_))), "{other:?}");
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
        while signatures.step(block, &mut verifier).map_err(|error| match error {
            BlockError::Rejected(ValidationResult::FailureTransactionUnverifiable, index) => index,
            other => panic!("{other}"),
        })? {
            steps += 1;
        }
        Ok(steps)
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
