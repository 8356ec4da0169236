//! `nisd import` and `nisd check`: blocks from files, or those of a store, are verified by all rules. The
//! loop that imports blocks, and its progress display.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::Args;

use super::reindex::open_or_rebuild;
use super::store::{StoreArguments, open_block_files, open_existing, verify_rows};
use super::{CommandError, Common, Stop, failed, height, in_file, in_store, print, print_note, store_options, usage};
use crate::chain::{
    BlockImporter, BlockSource, BrokenChain, CheckpointScan, ComparisonError, ImportOptions, ImportProgress, Retention,
    StoreVerifier, authentic_nemesis_block,
};
use crate::clock::{ClockMode, NetworkClock, System};
use crate::config::{NemesisError, Settings};
use crate::logging;
use crate::model::{Checkpoint, Height};
use crate::progress::{Progress, ProgressMeter, Style};
use crate::state::{self};
use crate::store::{self, AccessMode, ChainIdentity, Read, Snapshot, Store, StoreError, WorkFolder};

/// Import steps between two clock readings.
const STEPS_PER_CLOCK_READ: u64 = 256;

/// `nisd import`.
#[derive(Args, Debug)]
pub struct Import {
    /// Settings: a properties file with NIS1's keys
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Folder of the chain store
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Stop after this height
    #[arg(long, value_name = "HEIGHT", value_parser = height, allow_negative_numbers = true)]
    pub stop_at: Option<Height>,
    /// Trusted checkpoint: check neither signatures nor proofs below this block; fails if its hash differs
    #[arg(long, value_name = "HEIGHT:HASH")]
    pub trust_below: Option<Checkpoint>,
    /// Recorded blocks (.bin or .bin.gz), in the order of their heights; - for standard input
    #[arg(required = true, value_name = "BLOCKS")]
    pub blocks: Vec<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

/// `nisd check`.
#[derive(Args, Debug)]
pub struct Check {
    /// The store.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Trusted checkpoint: check neither signatures nor proofs below this block; fails if its hash differs
    #[arg(long, value_name = "HEIGHT:HASH")]
    pub trust_below: Option<Checkpoint>,
    /// Check neither signatures nor proofs: for a store filled by your own node, which checked them
    #[arg(long, conflicts_with = "trust_below")]
    pub no_signatures: bool,
}

/// `nisd import`.
pub fn import(command: &Import, settings: &Settings, system: System, stop: Stop) -> Result<(), CommandError> {
    let files = open_block_files(&command.blocks, &stop)?;
    let nemesis = nemesis_of(settings)?;
    let store = open_or_rebuild(settings, system, &stop)?;
    if let Some(checkpoint) = command.trust_below {
        if files.iter().any(|file| file.progress().1.is_none()) {
            return Err(failed("--trust-below reads the blocks twice, which a pipe does not allow; name a file"));
        }
        // The files must lead to the checkpoint before anything is imported.
        let files = open_block_files(&command.blocks, &stop)?;
        if let Some(mut scan) = CheckpointScan::new(&store, &settings.network, &nemesis, files, checkpoint)? {
            log::info!("following the hashes of the blocks up to height {}", checkpoint.height);
            while !scan.step()? {}
        }
    }
    let trusted_below = command.trust_below.map_or(Height(0), |checkpoint| checkpoint.height);
    let (write_cache, stop_at) = (settings.write_cache, command.stop_at);
    let options = ImportOptions { write_cache, stop_at, trusted_below, ..ImportOptions::DEFAULT };
    let importer = BlockImporter::new(&store, &settings.network, nemesis, files, options)?;
    let height = import_blocks(importer, settings.node.clock, system, &stop, command.stop_at, None)?;
    log::info!("the chain is at height {height}");
    Ok(())
}

/// Returns the nemesis block of the settings, which is verified before a store is created for it. A store that exists
/// needs no file of its nemesis block; the block is empty without it.
pub fn nemesis_of(settings: &Settings) -> Result<Vec<u8>, CommandError> {
    let has_store = store::exists(&settings.data);
    let nemesis = match settings.nemesis.read() {
        Err(NemesisError { error, .. }) if has_store && error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    if !has_store {
        let checked = authentic_nemesis_block(&nemesis, &settings.network, settings.nemesis_hash);
        checked.map_err(|error| {
            let advice = "name another file with nem.network.nemesisFilePath or --nemesis";
            usage(format!("{}: {error}; {advice}", settings.nemesis.path().display()))
        })?;
    }
    Ok(nemesis)
}

/// Fails if a node does not start with the data folder and the nemesis block of the settings. Unless a chain has begun with
/// that block, it is executed in a scratch store, as a node does in its own.
pub fn try_start(settings: &Settings, system: System) -> Result<(), CommandError> {
    let (nemesis, options, folder) = (nemesis_of(settings)?, store_options(settings), &settings.data);
    if folder.ancestors().find(|above| above.exists()).is_some_and(|above| !above.is_dir()) {
        return Err(StoreError::Folder(folder.clone(), io::ErrorKind::NotADirectory.into()).into());
    }
    let existing = Store::open_existing(folder, AccessMode::Shared, options);
    let tip = existing.and_then(|(store, network)| {
        ChainIdentity::of(&settings.network).check(&network)?;
        store::tip(&store.snapshot()?)
    });
    let is_begun = match tip {
        Err(error @ StoreError::OtherNetwork { .. }) => return Err(in_store(folder)(error)),
        Ok(tip) => tip.is_some(),
        Err(_) => store::exists(folder),
    };
    if is_begun {
        return Ok(());
    }
    let folder = tempfile::Builder::new().prefix("nisd-check-").tempdir();
    let scratch = folder.map_err(CommandError::System).and_then(|folder| {
        let scratch = Store::scratch(folder.path(), options)?;
        Ok((folder, scratch))
    });
    let (_folder, scratch) = match scratch {
        Ok(made) => made,
        Err(error) => {
            print_note(&format!("the nemesis block was not executed, which needs a temporary folder: {error}"));
            return Ok(());
        }
    };
    let mut importer = BlockImporter::new(&scratch, &settings.network, nemesis, Vec::new(), ImportOptions::DEFAULT)?;
    begin_chain(&mut importer, settings, system)
}

/// Imports the nemesis block into a store that has no block.
pub fn begin_chain(importer: &mut BlockImporter<'_>, settings: &Settings, system: System) -> Result<(), CommandError> {
    let now = system.network_time(&NetworkClock::new(settings.node.clock, (system.millis)()));
    while importer.height() < Height::NEMESIS
        && importer.step(now).map_err(CommandError::Import)? != ImportProgress::Done
    {}
    importer.commit()?;
    Ok(())
}

/// `nisd check`.
pub fn check(command: &Check, settings: &Settings, system: System, stop: Stop) -> Result<(), CommandError> {
    let (store, mut network) = open_existing(&command.store, settings, AccessMode::Shared, stop)?;
    let snapshot = store.snapshot()?;
    let size = store::size(&command.store.data).map_err(in_file(&command.store.data))?;
    verify_rows(&snapshot, size, system)?;
    let tip = store::tip(&snapshot)?.ok_or(StoreError::Empty)?;
    // The check compares the history that the store has, whatever the settings say.
    network.chain.history_from = state::history_from(&snapshot, tip.height)?;
    let trusted_below = match command.trust_below {
        _ if command.no_signatures => tip.height.next(),
        Some(checkpoint) => checkpoint_height(&snapshot, checkpoint)?,
        None => Height(0),
    };
    let folder = scratch_folder(&command.store.data)?;
    let scratch = Store::scratch(folder.path(), store_options(settings))?;
    let journals_from = Height(tip.height.0.saturating_sub(network.chain.rewrite_limit) + 1);
    let mut comparison = StoreVerifier::new(&snapshot, &scratch, journals_from, network.chain.history_from)?;
    let source = BlockSource::Store(Height::NEMESIS.next(), &snapshot);
    let (write_cache, retention) = (settings.write_cache, Retention::State(journals_from));
    let options = ImportOptions { write_cache, trusted_below, retention, ..ImportOptions::DEFAULT };
    let importer = BlockImporter::new(&scratch, &network, stored_nemesis(&snapshot)?, source, options)?;
    // A read of the store ends the check early.
    let (clock, stop) = (settings.node.clock, Stop::default());
    let reached = import_blocks(importer, clock, system, &stop, Some(tip.height), Some(&mut comparison))?;
    if reached < tip.height {
        return Err(BrokenChain::Missing(reached.next()).into());
    }
    comparison.verify_state().map_err(not_equal)?;
    print(&format!("{} {}\n", tip.height, state::digest(&snapshot)?))
}

/// Returns the nemesis block of a store.
pub(super) fn stored_nemesis(state: &impl Read) -> Result<Vec<u8>, CommandError> {
    let mut nemesis = Vec::new();
    let is_there = store::read_block_bytes(state, Height::NEMESIS, &mut nemesis)?;
    if is_there { Ok(nemesis) } else { Err(BrokenChain::Missing(Height::NEMESIS).into()) }
}

/// Returns the height of the trusted checkpoint, which must be in the store.
fn checkpoint_height(state: &impl Read, checkpoint: Checkpoint) -> Result<Height, CommandError> {
    let Some(header) = store::stored_header(state, checkpoint.height)? else {
        let tip = store::tip(state)?.ok_or(StoreError::Empty)?.height;
        return Err(CommandError::NoSuchHeight { requested: checkpoint.height, tip });
    };
    if header.hash != checkpoint.hash {
        let (Checkpoint { height, hash }, found) = (checkpoint, header.hash);
        return Err(failed(format!("--trust-below: the block at height {height} has the hash {found}, not {hash}")));
    }
    Ok(checkpoint.height)
}

/// Returns the error for the result of a comparison.
fn not_equal(error: ComparisonError) -> CommandError {
    match error {
        ComparisonError::Store(error) => error.into(),
        ComparisonError::Difference(difference) => {
            failed(format!("{difference}; roll back below that height, or rebuild the store with `nisd reindex`"))
        }
    }
}

/// Creates a folder for a scratch store, which takes less than half of the space of the store: inside the data folder,
/// or in the system's temporary folder (`TMPDIR`) if that has too little space or cannot be written.
fn scratch_folder(data: &Path) -> Result<WorkFolder, CommandError> {
    let has_room = || -> io::Result<bool> { Ok(store::free_bytes(data)? > store::size(data)? / 2) };
    if has_room().unwrap_or(true)
        && let Ok(folder) = WorkFolder::for_check(data)
    {
        return Ok(folder);
    }
    let elsewhere = std::env::temp_dir();
    WorkFolder::for_check(&elsewhere).map_err(in_file(&elsewhere))
}

/// Imports all blocks and shows progress: on standard error as a rewritten line on a terminal, else as log lines.
/// A difference that `verifier` finds ends the import with an error. If it must stop, the blocks so far are committed
/// first. Returns the height of the last commit.
pub fn import_blocks(
    mut importer: BlockImporter<'_>,
    clock: ClockMode,
    system: System,
    stop: &Stop,
    target: Option<Height>,
    mut verifier: Option<&mut StoreVerifier<'_, Snapshot<'_>>>,
) -> Result<Height, CommandError> {
    let target = target.map(|height| height.0);
    let clock = NetworkClock::new(clock, (system.millis)());
    let mut meter = ProgressMeter::new(style(), (system.millis)(), &progress_of(&importer, target));
    let mut import = || {
        let (mut now, mut last_height, mut steps) = (system.network_time(&clock), importer.height(), 0u64);
        let first_height = last_height;
        loop {
            let step = importer.step(now);
            let imported = importer.tip().filter(|tip| tip.height > last_height);
            if imported.is_some() && last_height == first_height {
                // Blocks of the files that are known already were passed over.
                let progress = Progress { height: last_height.0, ..progress_of(&importer, target) };
                meter.restart((system.millis)(), &progress);
            }
            last_height = importer.height();
            if let (Some(block), Some(verifier)) = (imported, &mut verifier) {
                verifier.verify_block(block).map_err(not_equal)?;
            }
            if stop.load(Ordering::Relaxed) {
                importer.commit()?;
                let height = importer.committed();
                return Err(failed(format!("stopped after height {height}; the same command continues from there")));
            }
            match step? {
                ImportProgress::Done => return Ok(()),
                ImportProgress::Committed { last, .. } => {
                    now = system.network_time(&clock);
                    log::debug!("committed up to height {last}");
                    if let Some(verifier) = &mut verifier {
                        verifier.verify_indexes().map_err(not_equal)?;
                    }
                }
                ImportProgress::Working | ImportProgress::Syncing => {
                    steps += 1;
                    if steps.is_multiple_of(STEPS_PER_CLOCK_READ)
                        && let Some(line) = meter.report((system.millis)(), &progress_of(&importer, target))
                    {
                        show(&line);
                    }
                }
            }
        }
    };
    let result = import();
    show(&meter.finish((system.millis)(), &progress_of(&importer, target)));
    result.map(|()| importer.committed())
}

/// Returns the progress of an import that ends at height `target` or with its files.
fn progress_of(importer: &BlockImporter<'_>, target: Option<u64>) -> Progress {
    Progress { height: importer.height().0, target, bytes: importer.bytes().filter(|_| target.is_none()) }
}

/// Returns how to show progress on standard error.
pub fn style() -> Style {
    const USUAL_WIDTH: usize = 80;
    if !logging::is_screen(&io::stderr()) {
        return Style::Log;
    }
    Style::Terminal { width: std::env::var("COLUMNS").ok().and_then(|w| w.parse().ok()).unwrap_or(USUAL_WIDTH) }
}

/// Writes one progress line.
pub fn show(line: &str) {
    if logging::is_screen(&io::stderr()) { logging::show_transient(line) } else { log::info!("{line}") }
}
