//! Stores that commands open, and the commands that read or export one.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use rustix::event::PollFlags;
use rustix::fs::OFlags;

use super::{
    CommandError, Common, StandardOutput, Stop, folder, height, in_file, in_store, print, store_options, usage,
};
use crate::chain::{BrokenChain, HashChain};
use crate::clock::System;
use crate::codec::block_file::{self, BlockFile};
use crate::codec::network_from_text;
use crate::config::Settings;
use crate::files::{self, Output};
use crate::logging;
use crate::model::{Height, Network};
use crate::state;
use crate::store::{self, AccessMode, ChainIdentity, Read, Snapshot, Store, StoreError, VerifyPosition};

/// Damaged ranges of rows that a command lists. With more of them, no row on that disk can be trusted.
const MAX_REPORTED_RANGES: u64 = 1_000;
/// Time between two progress lines, in milliseconds.
const REPORT_INTERVAL: u64 = 5_000;
/// Default first height of an export: the block after the nemesis block.
const FIRST_EXPORTED: Height = Height(2);

/// Arguments of commands on a store: `nisd dump`, `nisd digest`, `nisd reindex`.
#[derive(Args, Debug)]
pub struct StoreArguments {
    /// Folder of the chain store
    #[arg(long, value_name = "DIR", value_parser = folder())]
    pub data: PathBuf,
    /// Settings; rarely needed, since the store records its network
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

/// `nisd export`.
#[derive(Args, Debug)]
pub struct Export {
    /// The store.
    #[command(flatten)]
    pub store: StoreArguments,
    /// First height; the recorded format starts with 2, after the nemesis block
    #[arg(long, value_name = "HEIGHT", value_parser = height, allow_negative_numbers = true, default_value = "2")]
    pub from: Height,
    /// Last height [default: the tip]
    #[arg(long, value_name = "HEIGHT", value_parser = height, allow_negative_numbers = true)]
    pub to: Option<Height>,
    /// File to write; an earlier one stays until the new one is complete. - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// Checks that a node can import recorded blocks: they are in regular files. It would answer nobody while it waits for a
/// pipe.
pub fn check_block_files(paths: &[PathBuf]) -> Result<(), CommandError> {
    for path in paths {
        files::check_regular(path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => usage(format!(
                "--import {}; a node would answer nobody while it waits. `nisd import` imports from a pipe, before the node is \
                 started",
                files::describe_at(path, &error)
            )),
            _ => in_file(path)(error),
        })?;
    }
    Ok(())
}

/// Opens recorded blocks. Reading what is not a regular file ends with an error once `stop` is set, also while nothing
/// arrives.
pub fn open_block_files(paths: &[PathBuf], stop: &Stop) -> Result<Vec<BlockFile<'static>>, CommandError> {
    let open = |path: &PathBuf| {
        if path == Path::new("-") {
            // Opened anew, it would have no end if its writer has left.
            let file = io::stdin().as_fd().try_clone_to_owned().map_err(CommandError::System)?.into();
            let file = BlockFile::new(Pipe { file, stop: stop.clone() }).map_err(CommandError::System)?;
            return Ok(file.with_name("standard input".to_owned()));
        }
        let open = || {
            let metadata = std::fs::metadata(path)?;
            if metadata.is_file() {
                return Ok(BlockFile::new(File::open(path)?)?.with_size(metadata.len()));
            }
            if metadata.file_type().is_fifo() {
                log::info!("{} is a pipe: waiting until another program writes blocks to it", path.display());
            }
            BlockFile::new(Pipe::open(path, stop.clone())?)
        };
        let file = open().map_err(in_file(path))?;
        Ok(file.with_name(path.display().to_string()))
    };
    paths.iter().map(open).collect()
}

/// Time between two looks at the flag that ends reading a pipe.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A pipe, or anything else that may deliver nothing for long. Reading it ends with an error once the flag is set.
struct Pipe {
    file: File,
    stop: Stop,
}

impl Pipe {
    /// Opens a pipe. It need not have a writer yet: that is waited for when it is read.
    fn open(path: &Path, stop: Stop) -> io::Result<Pipe> {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
        Ok(Pipe { file: File::options().read(true).custom_flags(flags).open(path)?, stop })
    }
}

impl io::Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("stopped while it was read"));
            }
            // Something to read are bytes, or the end after the last writer.
            if logging::wait_until_ready(&self.file, PollFlags::IN, STOP_CHECK_INTERVAL)? != Some(true) {
                continue;
            }
            match self.file.read(buffer) {
                // Another program has read it.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// Opens the store of the settings in a folder, or creates it.
pub fn open_store(settings: &Settings, folder: &Path) -> Result<Store, CommandError> {
    Store::open(folder, &ChainIdentity::of(&settings.network), store_options(settings)).map_err(in_store(folder))
}

/// Opens an existing store, with the network recorded in it. Reads end with an error once `stop` is set.
pub(super) fn open_existing(
    store: &StoreArguments,
    settings: &Settings,
    access: AccessMode,
    stop: Stop,
) -> Result<(Store, Network), CommandError> {
    let open = || {
        let (mut opened, text) = Store::open_existing(&store.data, access, store_options(settings))?;
        let network = stored_network(&text, store.config.is_some().then_some(&settings.network))?;
        opened.set_interrupt_flag(stop);
        Ok((opened, network))
    };
    open().map_err(in_store(&store.data))
}

/// Returns the network that a store describes. Its consensus rules must be those of the configured one, if one is
/// configured.
pub(super) fn stored_network(text: &str, configured: Option<&Network>) -> Result<Network, StoreError> {
    let stored = network_from_text(text).ok_or(StoreError::Damaged("the description of the network"))?;
    configured.map_or(Ok(()), |configured| ChainIdentity::of(configured).check(text))?;
    Ok(stored)
}

/// Compares all rows of a store, whose file has at most `size` bytes, with their checksums. Logs the damaged ranges; the
/// last one is the returned error.
pub(super) fn verify_rows(snapshot: &Snapshot<'_>, size: u64, system: System) -> Result<(), CommandError> {
    let mut report = progress_log(system, "verified the checksums of", size);
    let (mut position, mut verified, mut found, mut last) = (VerifyPosition::default(), 0, 0u64, None);
    loop {
        match snapshot.verify_next(&mut position) {
            Ok(Some(bytes)) => {
                verified += bytes;
                report(verified);
            }
            Ok(None) => break,
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

/// Returns what logs, at a limited rate, how many bytes of a store the operation `what` has passed, of at most `size`.
pub(super) fn progress_log(system: System, what: &'static str, size: u64) -> impl FnMut(u64) {
    let mut next = (system.millis)() + REPORT_INTERVAL;
    move |bytes| {
        let now = (system.millis)();
        if now >= next {
            next = now + REPORT_INTERVAL;
            log::info!("{what} {} of at most {} MiB", bytes >> 20, size.div_ceil(1 << 20));
        }
    }
}

/// `nisd dump`.
pub fn dump(command: &StoreArguments, settings: &Settings, stop: Stop) -> Result<(), CommandError> {
    let (store, network) = open_existing(command, settings, AccessMode::Shared, stop)?;
    let snapshot = store.snapshot()?;
    let tip = store::tip(&snapshot)?.ok_or(StoreError::Empty)?;
    let mut out = BufWriter::new(StandardOutput);
    state::dump(&snapshot, &network, &tip, &mut out).and_then(|()| out.flush()).map_err(CommandError::output)
}

/// `nisd digest`.
pub fn digest(command: &StoreArguments, settings: &Settings, stop: Stop) -> Result<(), CommandError> {
    let (store, _) = open_existing(command, settings, AccessMode::Shared, stop)?;
    let snapshot = store.snapshot()?;
    snapshot.verify_all()?;
    let tip = store::tip(&snapshot)?.ok_or(StoreError::Empty)?;
    let digest = state::digest(&snapshot)?;
    print(&format!("{} {digest}\n", tip.height))
}

/// `nisd export`.
pub fn export(command: &Export, settings: &Settings, stop: Stop) -> Result<(), CommandError> {
    if let Some(to) = command.to.filter(|to| *to < command.from) {
        return Err(usage(format!("--to {to} is below --from {}: there is nothing to write", command.from)));
    }
    let path = &command.output;
    let is_stdout = path.as_os_str() == "-";
    if !is_stdout {
        check_output(path)?;
    }
    let (store, _) = open_existing(&command.store, settings, AccessMode::Shared, stop)?;
    let snapshot = store.snapshot()?;
    let tip = store::tip(&snapshot)?.ok_or(StoreError::Empty)?.height;
    let last = command.to.unwrap_or(tip);
    // A chain of the nemesis block only has nothing to write, which is not an error.
    let nothing = command.from == FIRST_EXPORTED && command.to.is_none();
    if last > tip || (command.from > tip && !nothing) {
        return Err(CommandError::NoSuchHeight { requested: last.max(command.from), tip });
    }
    if is_stdout {
        let mut out = BufWriter::new(StandardOutput);
        return write_blocks(&snapshot, command.from, last, &mut out, CommandError::output);
    }
    let output = Output::create(path).map_err(in_file(path))?;
    write_blocks(&snapshot, command.from, last, &mut BufWriter::new(output.file()), in_file(path))?;
    output.finish().map_err(in_file(path))
}

/// Rejects a file to write that lies in the folder of a store: it would replace the chain, or look like a part of it.
fn check_output(path: &Path) -> Result<(), CommandError> {
    let target = files::link_target(path);
    let folder = files::folder_of(&target);
    if store::size(folder).is_err() {
        return Ok(());
    }
    let (path, folder) = (path.display(), folder.display());
    Err(usage(format!("{path}: {folder} is the folder of a store; name a file in another folder")))
}

/// Writes blocks, and checks that each one names the hash of the block before it.
fn write_blocks(
    state: &impl Read,
    first: Height,
    last: Height,
    out: &mut impl Write,
    failed: impl Fn(io::Error) -> CommandError,
) -> Result<(), CommandError> {
    let before = store::stored_header(state, Height(first.0.saturating_sub(1)))?.map(|header| header.hash);
    let mut chain = HashChain::new(first, before);
    let mut block = Vec::new();
    for height in (first.0..=last.0).map(Height) {
        let row = store::block_row(state, height)?.ok_or(BrokenChain::Missing(height))?;
        store::read_block_bytes(state, height, &mut block)?;
        chain.follow(&row.header.hash, &block)?;
        block_file::write_block(out, &block).map_err(&failed)?;
    }
    out.flush().map_err(failed)
}
