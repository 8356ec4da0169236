//! Share of an import that signature verification takes.
//!
//! Alternates, in one process, (a) verifying all signatures of the chain `all-forks` back to back and (b) `nisd import`
//! of that chain into an empty store. The ratio a/b of a round is the share of the signatures.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Instant;

use super::support::{all_forks, folder, median, print_machine, seconds};
use nisd::chain::{BlockImporter, ImportOptions, ImportProgress, SignatureCheck, check_block_signature, nemesis_block};
use nisd::clock::System;
use nisd::codec::block_file::BlockFile;
use nisd::codec::{Context, SigningForm};
use nisd::commands::{self, Command, CommandLine, Stop};
use nisd::config::{self, Settings};
use nisd::crypto::{self, PublicKey, Signature, Verifier};
use nisd::model::{Block, Timestamp};

const ROUNDS: usize = 5;

/// One signature check.
struct Check {
    signer: PublicKey,
    signed: Vec<u8>,
    signature: Signature,
}

pub fn run(_: &[String]) -> ExitCode {
    print_machine();
    let settings = config::load(Some(&all_forks("network.properties")), Vec::new(), std::env::home_dir().as_deref());
    let settings = settings.expect("settings");
    let checks = checks(&settings);
    println!("{} signatures: of blocks, transactions and cosignatures", checks.len());
    println!("round   a: signatures   a, no memory of keys   b: import     a/b");
    let (mut ratios, mut plain_ratios) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        let (a, plain) = (seconds(|| verify_with_key_cache(&checks)), seconds(|| verify_without_cache(&checks)));
        let folder = folder();
        let b = seconds(|| import(&folder.path().join("store")));
        println!("{round:5}   {a:11.3} s   {plain:18.3} s   {b:7.3} s   {:.3}", a / b);
        ratios.push(a / b);
        plain_ratios.push(plain / b);
    }
    println!("median a/b: {:.3}", median(&mut ratios));
    println!("median a/b with plain verification as a: {:.3}", median(&mut plain_ratios));
    println!("\nstages of an import, medians of {ROUNDS}:");
    let mut stages: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        time_stages(&settings).into_iter().zip(&mut stages).for_each(|(time, list)| list.push(time));
    }
    let times = stages.map(|mut list| median(&mut list));
    for (name, time) in ["read and decode", "verify and hash", "commit", "apply", "all"].into_iter().zip(times) {
        println!("{name:24} {time:7.3} s   {:5.1} %", time / times[4] * 100.0);
    }
    ExitCode::SUCCESS
}

fn verify_with_key_cache(checks: &[Check]) {
    let mut verifier = Verifier::default();
    assert!(checks.iter().all(|c| verifier.verify(&c.signer, &c.signed, &c.signature) == Ok(true)));
}

fn verify_without_cache(checks: &[Check]) {
    assert!(checks.iter().all(|c| crypto::verify(&c.signer, &c.signed, &c.signature) == Ok(true)));
}

/// Runs `nisd import` as the program does.
fn import(store: &Path) {
    let mut line: Vec<PathBuf> = ["nisd", "import", "--config"].map(PathBuf::from).into();
    line.extend([all_forks("network.properties"), "--data".into(), store.into(), all_forks("blocks.bin.gz")]);
    let CommandLine { command, config, overrides, .. } = CommandLine::parse(line, "").expect("a command line");
    let settings = config::load(config.as_deref(), overrides, None).expect("settings");
    let Command::Import(command) = &command else { unreachable!() };
    commands::import::import(command, &settings, SYSTEM, Default::default()).expect("an import");
}

const SYSTEM: System = System { unix_millis: || 1_800_000_000_000, millis, sleep: |_| {}, random: |_| Ok(()) };

fn millis() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

/// Returns every block of the chain, decoded.
fn blocks(settings: &Settings) -> Vec<Block> {
    let nemesis = settings.nemesis.read().expect("the nemesis block");
    let mut blocks = vec![nemesis_block(&nemesis, &settings.network).expect("a nemesis block")];
    let mut file = BlockFile::new(File::open(all_forks("blocks.bin.gz")).expect("blocks")).expect("blocks");
    let mut bytes = Vec::new();
    while file.next(&mut bytes).expect("a block") {
        blocks.push(Block::from_bytes(&bytes, Context::of(&settings.network)).expect("a block"));
    }
    blocks
}

/// Returns every signature that an import checks.
fn checks(settings: &Settings) -> Vec<Check> {
    let mut checks = Vec::new();
    for block in blocks(settings) {
        let signature = block.signature.expect("a signed block");
        checks.push(Check { signer: block.signer, signed: block.to_bytes(SigningForm::NonVerifiable), signature });
        // The transactions of this block are known and not checked.
        if block.height.0 == settings.network.chain.forks.treasury_reissuance {
            continue;
        }
        for transaction in &block.transactions {
            for entity in std::iter::once(transaction).chain(transaction.cosignatures()) {
                let signature = entity.signature.expect("a signed transaction");
                checks.push(Check { signer: entity.signer, signed: entity.signed_bytes(), signature });
            }
        }
    }
    checks
}

/// Returns the seconds of reading, verifying, committing, everything else, and the whole.
fn time_stages(settings: &Settings) -> [f64; 5] {
    let mut read = Vec::new();
    let read_time = seconds(|| read = blocks(settings));
    let mut verifier = Verifier::default();
    let verify_time = seconds(|| {
        for block in &read {
            let mut check = SignatureCheck::new(block, &settings.network, false);
            while check.step(block, &mut verifier).expect("good signatures") {}
            assert!(check_block_signature(block, &block.encode_transactions(), false, &mut verifier).1);
        }
    });
    drop(read);
    let (folder, mut commit_time) = (folder(), 0.0);
    let total = seconds(|| {
        let store = commands::store::open_store(settings, folder.path()).expect("a store");
        let files = commands::store::open_block_files(&[all_forks("blocks.bin.gz")], &Stop::default()).expect("blocks");
        let nemesis = settings.nemesis.read().expect("the nemesis block");
        // As in `nisd import`.
        let options = ImportOptions { batch_rows: 50_000, batch_blocks: 5_000, ..ImportOptions::DEFAULT };
        let mut intake = BlockImporter::new(&store, &settings.network, nemesis, files, options).expect("an intake");
        loop {
            let begun = Instant::now();
            match intake.step(Timestamp(i32::MAX - 100)).expect("a good chain") {
                ImportProgress::Working => {}
                ImportProgress::Syncing | ImportProgress::Committed { .. } => {
                    commit_time += begun.elapsed().as_secs_f64();
                }
                ImportProgress::Done => break,
            }
        }
    });
    [read_time, verify_time, commit_time, total - read_time - verify_time - commit_time, total]
}
