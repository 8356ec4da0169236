//! Commands that work on a store and then exit.

mod backup;
mod config;
mod history;
pub mod manual;
mod peers;
mod reindex;
pub mod service;
mod status;

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tempfile::TempDir;

use crate::chain::{
    self, BlockError, BlockImporter, BlockSource, BrokenChain, CheckpointError, CheckpointScan, HashChain, ImportError,
    ImportOptions, RollbackError, StoreDifference, StoreVerifier, authentic_nemesis_block,
};
use crate::cli;
use crate::clock::NetworkClock;
use crate::codec::block_file::{self, BlockFile};
use crate::codec::network_from_text;
use crate::config::{NemesisError, PeersError, Settings};
use crate::devnet::{Devnet, DevnetError, JoinFiles, Ports, introduction};
use crate::logging;
use crate::model::{Checkpoint, Hash256, Height, Network, Timestamp};
use crate::progress::{Progress, ProgressMeter, Style};
use crate::state;
use crate::store::{
    self, AccessMode, ChainIdentity, Options, Read, Snapshot, Store, StoreError, StoredHeader, VerifyPosition,
};
use crate::wallet::NodeError;

pub use self::backup::backup;
pub use self::config::check as check_config;
pub use self::peers::peers;
pub use self::reindex::{open_or_rebuild, reindex};
pub use self::status::status;

/// Import options. Batches are so large that a page which many blocks change is rarely written, and so small that an
/// interruption loses little work.
const IMPORT: ImportOptions =
    ImportOptions { batch_steps: IMPORT_ROWS, batch_blocks: 1_000, stop_at: None, trusted_below: Height(0) };
/// Changed rows after which an import commits; nothing waits for it. The store bounds the memory of the rows.
const IMPORT_ROWS: u32 = 160_000;
/// The same for `nisd check`. Batches may be larger, since nothing can be lost.
const CHECK: ImportOptions = ImportOptions { batch_blocks: 2_000, ..IMPORT };
/// Default first height of an export: the block after the nemesis block.
const FIRST_EXPORTED: Height = Height(2);
/// Damaged ranges that `nisd check` lists. With more of them, no row on that disk can be trusted.
const MAX_REPORTED_RANGES: u64 = 1_000;
/// Import steps between two clock readings.
const STEPS_PER_CLOCK_READ: u32 = 256;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store in this folder cannot be opened.
    #[error("{}", cannot_open(.0, .1))]
    Open(PathBuf, StoreError),
    /// The nemesis block cannot be read.
    #[error(transparent)]
    Nemesis(#[from] NemesisError),
    /// The nemesis block in this file is not that of the network.
    #[error("{path}: {1}; set nem.network.nemesisFilePath to another file; if that does not exist, `nisd run` \
                 requests the block from peers", path = .0.display())]
    WrongNemesis(PathBuf, BlockError),
    /// The list of known peers is wrong.
    #[error(transparent)]
    Peers(#[from] PeersError),
    /// A block is invalid.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The import failed.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The chain could not be rolled back.
    #[error(transparent)]
    Rollback(#[from] RollbackError),
    /// The trusted checkpoint is not in the files.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The content of the store is wrong.
    #[error("{0}; roll back below that height, or rebuild the store with `nisd reindex`")]
    Difference(StoreDifference),
    /// The blocks of the store do not form a chain.
    #[error("{0}; restore the folder from a backup, or import the chain into an empty folder")]
    Broken(#[from] BrokenChain),
    /// A running node did not answer a request as expected.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// No node answers, and this folder holds no store.
    #[error(
        "{0} There is no store in {folder} either: `nisd run` starts a node; --config, --node or --data name another", folder = .1.display()
    )]
    NoNodeOrStore(NodeError, PathBuf),
    /// The command line or the settings ask for something impossible; the text says what to do.
    #[error("{0}")]
    Usage(String),
    /// A command on the private network failed.
    #[error(transparent)]
    Devnet(#[from] DevnetError),
    /// This file cannot be read or written.
    #[error("{path}: {1}", path = .0.display())]
    File(PathBuf, io::Error),
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// A pipe was named where a file must be read twice.
    #[error("--trust-below reads the blocks twice, which a pipe does not allow; name a file")]
    InputNotSeekable,
    /// The block at the trusted checkpoint has another hash in the store.
    #[error("--trust-below: the block at height {height} has the hash {1}, not {hash}", height = .0.height, hash = .0.hash)]
    CheckpointMismatch(Checkpoint, Hash256),
    /// The chain does not have this height.
    #[error("there is no block at height {requested}; the chain is at height {tip}")]
    NoSuchHeight { requested: Height, tip: Height },
}

impl From<StoreDifference> for CommandError {
    fn from(difference: StoreDifference) -> Self {
        CommandError::Difference(difference)
    }
}

/// Describes why the store in a folder cannot be opened.
fn cannot_open(folder: &Path, error: &StoreError) -> String {
    let folder = folder.display();
    match error {
        StoreError::Folder(..) => error.to_string(),
        StoreError::Schema { .. } => format!(
            "{folder}: {error}, or transfer the chain: `nisd export --data {folder} --output blocks.bin` with that \
             version, then `nisd import --config SETTINGS --data NEW-FOLDER blocks.bin` with this one"
        ),
        _ => format!("{folder}: {error}"),
    }
}

/// Checks that files of recorded blocks exist, without opening them: a pipe can be opened only once.
pub fn check_block_files(paths: &[PathBuf]) -> Result<(), CommandError> {
    let check = |path: &PathBuf| std::fs::metadata(path).map_err(|error| CommandError::File(path.clone(), error));
    paths.iter().try_for_each(|path| check(path).map(drop))
}

/// Opens recorded blocks.
pub fn open_block_files(paths: &[PathBuf]) -> Result<Vec<BlockFile<'static>>, CommandError> {
    let open = |path: &PathBuf| {
        let open = || {
            let file = File::open(path)?;
            // A pipe has no size.
            let size = file.metadata().ok().filter(Metadata::is_file).map(|metadata| metadata.len());
            let blocks = BlockFile::new(file)?;
            Ok(match size {
                Some(size) => blocks.with_size(size),
                None => blocks,
            })
        };
        open().map_err(|error| CommandError::File(path.clone(), error))
    };
    paths.iter().map(open).collect()
}

/// Opens the store of the settings, or creates it.
pub fn open_store(settings: &Settings, folder: &Path) -> Result<Store, CommandError> {
    let options = Options { map_size: settings.node.map_size };
    let opened = Store::open(folder, &ChainIdentity::of(&settings.network), options);
    opened.map_err(|error| CommandError::Open(folder.to_owned(), error))
}

/// Returns whether a store holds at least the nemesis block.
pub fn has_chain(store: &Store) -> Result<bool, CommandError> {
    Ok(store::tip(&store.snapshot()?)?.is_some())
}

/// Returns the nemesis block of the file that the settings name. Without the file, returns `None` if peers can be asked
/// for the block (`can_ask`) or a store exists, else an error. The block is verified only if no store exists.
pub fn nemesis_of_file(settings: &Settings, can_ask: bool) -> Result<Option<Vec<u8>>, CommandError> {
    let has_store = store::exists(&settings.data);
    let nemesis = settings.nemesis.read_if_there()?;
    match &nemesis {
        None if !can_ask && !has_store => return Err(settings.nemesis.missing().into()),
        Some(nemesis) if !has_store => {
            let checked = authentic_nemesis_block(nemesis, &settings.network, settings.nemesis_hash);
            checked.map_err(|error| CommandError::WrongNemesis(settings.nemesis.absolute(), error))?;
        }
        _ => {}
    }
    Ok(nemesis)
}

/// Clocks to read while a command runs.
#[derive(Clone, Copy)]
pub struct Clocks {
    /// Milliseconds of Unix time.
    pub unix_millis: fn() -> i64,
    /// Milliseconds of a monotonic clock.
    pub millis: fn() -> u64,
}

impl Clocks {
    fn network_time(self, clock: &NetworkClock) -> Timestamp {
        clock.now((self.unix_millis)(), (self.millis)())
    }
}

/// `nisd import`.
pub fn import(command: &cli::Import, settings: &Settings, clocks: Clocks) -> Result<(), CommandError> {
    let files = open_block_files(&command.blocks)?;
    let nemesis = nemesis_of_file(settings, false)?;
    let store = open_or_rebuild(settings, clocks)?;
    if nemesis.is_none() && !has_chain(&store)? {
        return Err(settings.nemesis.missing().into());
    }
    let nemesis = nemesis.unwrap_or_default();
    if let Some(checkpoint) = command.trust_below {
        scan_to(checkpoint, command, settings, &store, &nemesis)?;
    }
    let trusted_below = command.trust_below.map_or(Height(0), |checkpoint| checkpoint.height);
    let options = ImportOptions { stop_at: command.stop_at, trusted_below, ..IMPORT };
    let importer = BlockImporter::new(&store, &settings.network, nemesis, files, options)?;
    let clock = NetworkClock::new(settings.node.clock, (clocks.millis)());
    let height = import_blocks(importer, &clock, clocks, command.stop_at, &mut CommitLogger)?;
    log::info!("the chain is at height {height}");
    Ok(())
}

/// Checks that the files lead to the trusted checkpoint, before anything is imported.
fn scan_to(
    checkpoint: Checkpoint,
    command: &cli::Import,
    settings: &Settings,
    store: &Store,
    nemesis: &[u8],
) -> Result<(), CommandError> {
    let files = open_block_files(&command.blocks)?;
    if files.iter().any(|file| file.progress().1.is_none()) {
        return Err(CommandError::InputNotSeekable);
    }
    let scan = CheckpointScan::new(store, &settings.network, nemesis, files, checkpoint)?;
    if let Some(mut scan) = scan {
        log::info!("following the hashes of the blocks up to height {}", checkpoint.height);
        while !scan.step()? {}
    }
    Ok(())
}

/// Observes an import and may end it with an error.
trait ImportObserver {
    /// Called after each imported block, which may not be committed yet.
    fn on_block(&mut self, _block: &StoredHeader) -> Result<(), CommandError> {
        Ok(())
    }

    /// Called after a commit of all blocks up to this height.
    fn on_commit(&mut self, last: Height) -> Result<(), CommandError> {
        log::debug!("committed up to height {last}");
        Ok(())
    }
}

/// Logs commits, and does nothing else.
struct CommitLogger;

impl ImportObserver for CommitLogger {}

/// Imports all blocks and shows progress. Returns the height of the last commit.
fn import_blocks(
    mut importer: BlockImporter<'_>,
    clock: &NetworkClock,
    clocks: Clocks,
    target: Option<Height>,
    observer: &mut impl ImportObserver,
) -> Result<Height, CommandError> {
    importer.set_batch_rows(IMPORT_ROWS);
    let mut display = ProgressDisplay::new(clocks.millis, &importer, target);
    let mut now = clocks.network_time(clock);
    let mut last_height = importer.height();
    let result = loop {
        let step = importer.step(now);
        let imported = importer.tip().filter(|tip| tip.height > last_height);
        last_height = importer.height();
        let seen = imported.map_or(Ok(()), |block| observer.on_block(block));
        let done = seen.and_then(|()| match step {
            Ok(chain::ImportProgress::Done) => Ok(true),
            Ok(chain::ImportProgress::Committed { last, .. }) => {
                now = clocks.network_time(clock);
                observer.on_commit(last).map(|()| false)
            }
            Ok(chain::ImportProgress::Working | chain::ImportProgress::Syncing) => {
                display.working(&importer);
                Ok(false)
            }
            Err(error) => Err(error.into()),
        });
        match done {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    display.end(&importer);
    result.map(|()| importer.committed())
}

/// `nisd check`.
pub fn check(command: &cli::Check, settings: &Settings, clocks: Clocks, stop: Stop) -> Result<(), CommandError> {
    let (store, mut network) = open_to_read(&command.store, settings, stop)?;
    let snapshot = store.snapshot()?;
    report_damage(&snapshot)?;
    let tip = store::tip(&snapshot)?.ok_or(StoreError::Empty)?;
    // The check compares the history that the store has, whatever the settings say.
    network.chain.history_from = state::history_from(&snapshot, tip.height)?;
    let trusted_below = match command.trust_below {
        _ if command.no_signatures => tip.height.next(),
        Some(checkpoint) => checkpoint_height(&snapshot, checkpoint)?,
        None => Height(0),
    };
    let folder = scratch_folder(&command.store.data)?;
    let scratch = Store::scratch(folder.path(), Options { map_size: settings.node.map_size })?;
    let old_values_from = Height(tip.height.0.saturating_sub(network.chain.rewrite_limit) + 1);
    let mut comparison = StoreVerifier::new(&snapshot, &scratch, old_values_from, network.chain.history_from)?;
    let block_at = |height| store::block_row(&snapshot, height)?.map(|row| row.verified_bytes()).transpose();
    let nemesis = block_at(Height::NEMESIS)?.ok_or(BrokenChain::Missing(Height::NEMESIS))?;
    let source = BlockSource::stored(Height::NEMESIS.next(), block_at);
    let options = ImportOptions { trusted_below, ..CHECK };
    let importer = BlockImporter::from_source(&scratch, &network, nemesis.to_vec(), source, options)?;
    let importer = importer.retain_state_only(old_values_from);
    let clock = NetworkClock::new(settings.node.clock, (clocks.millis)());
    let reached = import_blocks(importer, &clock, clocks, Some(tip.height), &mut comparison)?;
    if reached < tip.height {
        return Err(BrokenChain::Missing(reached.next()).into());
    }
    fail_on_difference(comparison.verify_state()?)?;
    print(format_args!("{} {}", tip.height, state::digest(&snapshot)?))
}

/// Verifies the checksums of all ranges of rows and logs the damaged ones; the last one is the returned error.
fn report_damage(snapshot: &Snapshot<'_>) -> Result<(), CommandError> {
    let (mut position, mut found, mut last) = (VerifyPosition::default(), 0u64, None);
    loop {
        match snapshot.verify_next(&mut position) {
            Ok(true) => {}
            Ok(false) => break,
            Err(StoreError::Interrupted) => return Err(StoreError::Interrupted.into()),
            Err(error) => {
                found += 1;
                if let Some(before) = last.replace(error)
                    && found <= MAX_REPORTED_RANGES
                {
                    log::error!("{before}");
                }
            }
        }
    }
    if found > 1 {
        log::error!("{found} ranges of rows are damaged");
    }
    last.map_or(Ok(()), |error| Err(error.into()))
}

/// Returns the height of the trusted checkpoint, which must be in the store.
fn checkpoint_height(state: &impl Read, checkpoint: Checkpoint) -> Result<Height, CommandError> {
    let Some(header) = store::stored_header(state, checkpoint.height)? else {
        let tip = store::tip(state)?.ok_or(StoreError::Empty)?.height;
        return Err(CommandError::NoSuchHeight { requested: checkpoint.height, tip });
    };
    match header.hash == checkpoint.hash {
        true => Ok(checkpoint.height),
        false => Err(CommandError::CheckpointMismatch(checkpoint, header.hash)),
    }
}

impl ImportObserver for StoreVerifier<'_, Snapshot<'_>> {
    fn on_block(&mut self, block: &StoredHeader) -> Result<(), CommandError> {
        fail_on_difference(self.verify_block(block)?)
    }

    fn on_commit(&mut self, _last: Height) -> Result<(), CommandError> {
        fail_on_difference(self.verify_indexes()?)
    }
}

fn fail_on_difference(difference: Option<StoreDifference>) -> Result<(), CommandError> {
    difference.map_or(Ok(()), |difference| Err(difference.into()))
}

/// Creates a folder for a scratch store, which takes less than half of the space of the store: inside the data folder,
/// or in the system's temporary folder (`TMPDIR`) if that has too little space or cannot be written.
fn scratch_folder(data: &Path) -> Result<TempDir, CommandError> {
    let make = |folder: &Path| tempfile::Builder::new().prefix("check-").tempdir_in(folder);
    let has_room = || -> io::Result<bool> { Ok(store::free_bytes(data)? > store::size(data)? / 2) };
    if has_room().unwrap_or(true)
        && let Ok(folder) = make(data)
    {
        return Ok(folder);
    }
    let elsewhere = std::env::temp_dir();
    make(&elsewhere).map_err(|error| CommandError::File(elsewhere, error))
}

/// Shows progress on standard error: as a rewritten line on a terminal, else as log lines.
struct ProgressDisplay {
    millis: fn() -> u64,
    meter: ProgressMeter,
    target: Option<u64>,
    steps: u32,
}

impl ProgressDisplay {
    fn new(millis: fn() -> u64, importer: &BlockImporter<'_>, stop_at: Option<Height>) -> ProgressDisplay {
        let target = stop_at.map(|height| height.0);
        let meter = ProgressMeter::new(style(), millis(), &progress_of(importer, target));
        ProgressDisplay { millis, meter, target, steps: 0 }
    }

    fn working(&mut self, importer: &BlockImporter<'_>) {
        self.steps += 1;
        if self.steps >= STEPS_PER_CLOCK_READ {
            self.steps = 0;
            let line = self.meter.report((self.millis)(), &progress_of(importer, self.target));
            line.iter().for_each(|line| show(line));
        }
    }

    fn end(&mut self, importer: &BlockImporter<'_>) {
        let line = self.meter.finish((self.millis)(), &progress_of(importer, self.target));
        show(&line);
    }
}

/// Returns the progress of an import that ends at height `target` or with its files. The height is that of the last
/// commit.
pub fn progress_of(importer: &BlockImporter<'_>, target: Option<u64>) -> Progress {
    Progress { height: importer.committed().0, target, bytes: importer.bytes().filter(|_| target.is_none()) }
}

/// Returns how to show progress on standard error.
pub fn style() -> Style {
    const USUAL_WIDTH: usize = 80;
    match io::stderr().is_terminal() {
        true => {
            Style::Terminal { width: std::env::var("COLUMNS").ok().and_then(|w| w.parse().ok()).unwrap_or(USUAL_WIDTH) }
        }
        false => Style::Log,
    }
}

/// Writes one progress line.
pub fn show(line: &str) {
    match io::stderr().is_terminal() {
        true => logging::show_transient(line),
        false => log::info!("{line}"),
    }
}

/// `nisd devnet`.
pub fn devnet(command: &cli::DevnetCommand, settings: &Settings, devnet: Option<&Devnet>) -> Result<(), CommandError> {
    match command {
        cli::DevnetCommand::Show(_) => {
            let ports = Ports { http: settings.http.port, websocket: settings.websocket.port };
            devnet.map_or(Ok(()), |devnet| print_introduction(devnet, settings, ports))
        }
        cli::DevnetCommand::ExportConfig(export) => {
            let join = JoinFiles::new(settings, export.host.as_deref())?;
            let paths = join.write(&export.output)?;
            log::info!(
                "other nodes will reach this node at {}; --host and --http-port name another endpoint",
                join.url
            );
            // The flags of the running node are not known here.
            let (host, own) = (export.host.as_ref(), &settings.endpoint.host);
            if let Some(host) = host.filter(|host| *host != own) {
                log::info!("NIS1 nodes use the address that the node reports: run it with --set nem.host={host}");
            }
            if settings.http.bind.is_loopback() {
                log::info!("its settings allow only this machine: run it with --bind '*', or set nisd.bindAddress");
            }
            let lines: String = paths.iter().map(|path| format!("{}\n", path.display())).collect();
            io::stdout().write_all(lines.as_bytes()).map_err(CommandError::Output)
        }
    }
}

/// Prints how to use a private network.
pub fn print_introduction(devnet: &Devnet, settings: &Settings, ports: Ports) -> Result<(), CommandError> {
    let program = std::env::args().next().unwrap_or_else(|| "nisd".to_owned());
    let text = introduction(devnet, settings, ports, &program);
    io::stdout().write_all(text.as_bytes()).map_err(CommandError::Output)
}

/// Flag that is set when the command must stop.
pub type Stop = Arc<AtomicBool>;

/// Opens an existing store for reading, with the network recorded in it.
fn open_to_read(store: &cli::Store, settings: &Settings, stop: Stop) -> Result<(Store, Network), CommandError> {
    let (mut opened, network) = open_existing(store, settings, AccessMode::Shared)?;
    opened.set_interrupt_flag(stop);
    Ok((opened, network))
}

/// Opens an existing store, with the network recorded in it.
fn open_existing(
    store: &cli::Store,
    settings: &Settings,
    access: AccessMode,
) -> Result<(Store, Network), CommandError> {
    let failed = |error| CommandError::Open(store.data.clone(), error);
    let options = Options { map_size: settings.node.map_size };
    let (opened, text) = Store::open_existing(&store.data, access, options).map_err(failed)?;
    let network = network_from_text(&text);
    let network = network.ok_or_else(|| failed(StoreError::Damaged("the description of the network")))?;
    let configured = store.config.is_some().then_some(&settings.network);
    check_same_network(&network, configured).map_err(failed)?;
    Ok((opened, network))
}

/// Rejects a store whose network has other consensus rules than the configured one, if one is configured.
fn check_same_network(stored: &Network, configured: Option<&Network>) -> Result<(), StoreError> {
    let differences = configured.map(|configured| stored.differences(configured)).unwrap_or_default();
    match configured {
        Some(configured) if !differences.is_empty() => {
            let (store, configured) = (stored.name.clone(), configured.name.clone());
            Err(StoreError::OtherNetwork { store, configured, differences })
        }
        _ => Ok(()),
    }
}

/// `nisd dump`.
pub fn dump(command: &cli::Store, settings: &Settings, stop: Stop) -> Result<(), CommandError> {
    let (store, network) = open_to_read(command, settings, stop)?;
    let snapshot = store.snapshot()?;
    let tip = store::tip(&snapshot)?.ok_or(StoreError::Empty)?;
    let mut out = BufWriter::new(io::stdout().lock());
    state::dump(&snapshot, &network, &tip, &mut out).and_then(|()| out.flush()).map_err(CommandError::Output)
}

/// `nisd digest`.
pub fn digest(command: &cli::Store, settings: &Settings, stop: Stop) -> Result<(), CommandError> {
    let (store, _) = open_to_read(command, settings, stop)?;
    let snapshot = store.snapshot()?;
    snapshot.verify_all()?;
    let tip = store::tip(&snapshot)?.ok_or(StoreError::Empty)?;
    let digest = state::digest(&snapshot)?;
    print(format_args!("{} {digest}", tip.height))
}

/// Writes one line of output.
fn print(line: fmt::Arguments<'_>) -> Result<(), CommandError> {
    writeln!(io::stdout(), "{line}").map_err(CommandError::Output)
}

/// `nisd rollback`.
pub fn rollback(command: &cli::Rollback, settings: &Settings, clocks: Clocks) -> Result<(), CommandError> {
    let configured = command.store.config.is_some().then_some(&settings.network);
    reindex::rebuild_if_outdated(&command.store.data, configured, settings, clocks)?;
    let (store, _) = open_existing(&command.store, settings, AccessMode::Exclusive)?;
    let mut batch = store.begin_write()?;
    chain::rollback(&mut batch, command.to)?;
    batch.commit()?;
    log::info!("the chain is at height {}", command.to);
    Ok(())
}

/// `nisd export`.
pub fn export(command: &cli::Export, settings: &Settings, stop: Stop) -> Result<(), CommandError> {
    let (store, _) = open_to_read(&command.store, settings, stop)?;
    let snapshot = store.snapshot()?;
    let tip = store::tip(&snapshot)?.ok_or(StoreError::Empty)?.height;
    let last = command.to.unwrap_or(tip);
    // A chain of the nemesis block only has nothing to write, which is not an error.
    let nothing = command.from == FIRST_EXPORTED && command.to.is_none();
    if last > tip || (command.from > tip && !nothing) {
        return Err(CommandError::NoSuchHeight { requested: last.max(command.from), tip });
    }
    let path = &command.output;
    if path.as_os_str() == "-" {
        return write_blocks(&snapshot, command.from, last, &mut BufWriter::new(io::stdout().lock()));
    }
    let file = File::create(path).map_err(|error| CommandError::File(path.clone(), error))?;
    write_blocks(&snapshot, command.from, last, &mut BufWriter::new(file))
}

/// Writes blocks, and checks that each one names the hash of the block before it.
fn write_blocks(state: &impl Read, first: Height, last: Height, out: &mut impl Write) -> Result<(), CommandError> {
    let before = store::stored_header(state, Height(first.0.saturating_sub(1)))?.map(|header| header.hash);
    let mut chain = HashChain::new(first, before);
    for height in (first.0..=last.0).map(Height) {
        let row = store::block_row(state, height)?.ok_or(BrokenChain::Missing(height))?;
        let bytes = row.verified_bytes()?;
        chain.follow(&row.header()?.hash, bytes)?;
        block_file::write_block(out, bytes).map_err(CommandError::Output)?;
    }
    out.flush().map_err(CommandError::Output)
}
