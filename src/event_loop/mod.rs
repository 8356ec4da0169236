//! The event loop: connects sockets, clocks, helper processes, randomness and signals with the node's state machine.

mod disk_sync;
mod helper;
mod process;
mod reader;
mod resolver;
mod settings;

pub use self::helper::run_if_helper;
pub use self::process::{forbid_core_dumps, memory_limit, uptime};

use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mio::Token;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook_mio::v1_0::Signals;

use self::disk_sync::DiskSync;
use self::process::SystemdNotifier;
use self::reader::Readers;
use self::resolver::Resolvers;
use self::settings::{ActiveSettings, Addresses, SettingsReader};
use crate::chain::{BlockImporter, ImportOptions};
use crate::clock::System;
use crate::commands::devnet::Devnet;
use crate::commands::import::{begin_chain, nemesis_of, show, style};
use crate::commands::reindex::{Rebuild, open_current};
use crate::commands::{CommandError, Run, Stop, random_bytes};
use crate::config::Settings;
use crate::files::{self, Access};
use crate::local_cookie::{CookieFile, FILE, LocalCookie};
use crate::net::Reactor;
use crate::net::service::Service;
use crate::node::{BlockProgress, Import, MAX_SAVED_BYTES, Node, Start};
use crate::progress::{Progress, ProgressMeter};
use crate::store::{self, Store};
use crate::{commands, config};

/// Maximum poll timeout, so that the log is flushed and the clocks are compared.
const POLL_TIMEOUT: Duration = Duration::from_secs(1);
/// Time between two looks for files in the data folder that somebody may remove.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time for connections to drain at shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// File in the data folder with the saved peers.
const PEERS_FILE: &str = "known-peers";

const SIGNALS: Token = Token(0);

/// The operator's side of a running node: signals, systemd, settings, helpers and peers file.
struct RunContext<'a> {
    signals: Signals,
    systemd: SystemdNotifier,
    active: ActiveSettings<'a>,
    resolvers: Resolvers,
    readers: Readers,
    saved_peers: SavedPeersFile,
    local_secret: LocalSecret,
    /// When to look for files in the data folder.
    look_at: Duration,
    /// Progress that is shown, and how.
    progress: Option<(BlockProgress, ProgressMeter)>,
    /// Whether it was started from a terminal.
    has_terminal: bool,
    system: System,
}

/// Runs `nisd run`, also on a private network of nisd. `reread` reads the settings again on a reload.
pub fn run(
    command: &Run,
    mut settings: Settings,
    devnet: Option<Devnet>,
    system: System,
    reread: SettingsReader<'_>,
) -> Result<(), CommandError> {
    let listed = settings::listed_peers(&settings)?;
    let notices = [
        config::no_block_source_warning(&settings, listed.is_empty()),
        config::address_space_warning(&settings.network, usize::BITS),
    ];
    for notice in notices.into_iter().flatten() {
        log::log!(notice.level, "{notice}");
    }
    // Checked first: the files must exist before a store is created for this chain.
    let files = commands::store::open_block_files(&command.import, &Stop::default())?;
    let nemesis = nemesis_of(&settings)?;
    let rebuild = Rebuild::begin_if_outdated(&settings.data, Some(&settings.network), &settings)?;
    if devnet.is_none() {
        warn_of_new_store(&settings);
    }
    let current = if rebuild.is_none() { Some(open_current(&settings)?) } else { None };
    let (mut reactor, addresses) = settings::open(&settings)?;
    // The system may have chosen the ports.
    (settings.http.port, settings.websocket.port) = (addresses.http.port(), addresses.websocket.port());
    if settings.endpoint.protocol == "http" {
        settings.endpoint.port = addresses.http.port().into();
    }
    let cookie = LocalCookie::new(&settings.url(), &*random_bytes(system)?);
    let mut local_secret =
        LocalSecret { folder: settings.data.clone(), cookie: cookie.clone(), file: None, has_failed: false };
    local_secret.put_in_place();
    let registry = reactor.registry();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1]).map_err(CommandError::System)?;
    registry.register(&mut signals, SIGNALS, mio::Interest::READABLE).map_err(CommandError::System)?;
    let resolvers = Resolvers::new(registry).map_err(CommandError::System)?;
    let readers = Readers::new(settings.node.readers, &settings.data, registry).map_err(CommandError::System)?;
    let mut context = RunContext {
        signals,
        systemd: SystemdNotifier::from_env(),
        active: ActiveSettings::new(&settings, listed, cookie, reread),
        resolvers,
        readers,
        saved_peers: SavedPeersFile { path: settings.data.join(PEERS_FILE), has_failed: false },
        local_secret,
        look_at: Duration::ZERO,
        progress: None,
        has_terminal: io::stdin().is_terminal(),
        system,
    };
    if let Some(rebuild) = rebuild {
        log_rebuild(&settings, &addresses);
        let end = rebuild.with_importer(&settings, |importer, store| {
            run_node(store, &settings, importer, &mut reactor, &mut context, |_| {})
        })?;
        if end == Some(End::Stopped) {
            log::info!("the rebuild of the store is incomplete; the next start continues it");
            return Ok(());
        }
        rebuild.install()?;
    }
    let store = current.map_or_else(|| open_current(&settings), Ok)?;
    let options = ImportOptions { write_cache: settings.write_cache, can_retry: true, ..ImportOptions::DEFAULT };
    let importer = BlockImporter::new(&store, &settings.network, nemesis, files, options)?;
    let log = |node: &Node<'_>| log_startup(&settings, devnet.as_ref(), &addresses, node);
    run_node(&store, &settings, importer, &mut reactor, &mut context, log).map(drop)
}

/// Warns if a new store begins where there should be one: the disk of the old one may not be mounted.
fn warn_of_new_store(settings: &Settings) {
    let folder = &settings.data;
    let had_peers = crate::files::exists(&folder.join(PEERS_FILE));
    if store::exists(folder) || !(had_peers || settings.has_explicit_data_folder()) {
        return;
    }
    let evidence = if had_peers { format!(", but {PEERS_FILE} of an earlier run") } else { String::new() };
    log::warn!(
        "there is no store in {}{evidence}: a new one begins with the nemesis block. If there was one, stop the node and \
         see whether its disk is mounted",
        folder.display()
    );
}

/// Why a node has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// A signal or a client has stopped it.
    Stopped,
    /// It ran for the rebuild of its store, which is complete.
    Rebuilt,
}

/// Runs a node on a store, which first imports blocks. Calls `log_start` when it is ready to run.
fn run_node<'s>(
    store: &'s Store,
    settings: &'s Settings,
    mut importer: BlockImporter<'s>,
    reactor: &mut Reactor,
    context: &mut RunContext<'_>,
    log_start: impl FnOnce(&Node<'_>),
) -> Result<End, CommandError> {
    store.durability().time_commits(process::uptime);
    // A store without the nemesis block gets it before any client is answered.
    begin_chain(&mut importer, settings, context.system)?;
    // The readers open the store in the data folder, and a new one is built beside that.
    let reads_ahead = settings.node.readers > 0 && importer.rebuild_target().is_none();
    let now = reactor.server.time;
    let mut disk = DiskSync::start(store, reactor.registry(), now.monotonic).map_err(CommandError::System)?;
    let seed = random_bytes(context.system)?;
    let start = Start {
        now,
        seed: &seed,
        local: context.active.local(),
        shared: reactor.server.shared_bytes.clone(),
        import: Some(Import::new(importer)),
        listed: context.active.listed.clone(),
        saved: context.saved_peers.read(),
    };
    let mut node = Node::new(store, settings, start)?;
    // They may have been reloaded while the store was rebuilt.
    node.reload(&context.active.settings, context.active.local(), Vec::new());
    (node.memory, node.reads_from_disk) = (process::memory, process::reads_from_disk);
    (node.monotonic, node.peer_connections) = (process::uptime, reactor.server.fetcher.tokens().len());
    if reads_ahead {
        node.read_ahead.enable(process::memory_limit(), now.monotonic);
    }
    log_start(&node);
    if context.run_loop(reactor, &mut node, &mut disk)? == End::Rebuilt {
        return Ok(End::Rebuilt);
    }
    log::info!("stopping");
    context.systemd.notify_stopping();
    if let Some(text) = node.peers_to_save(reactor.server.time, true) {
        context.saved_peers.write(&text, true);
    }
    // The node waits for the disk itself from now on.
    drop(disk);
    node.stop()?;
    store.durability().sync()?;
    drain_connections(reactor, &mut node)?;
    Ok(End::Stopped)
}

impl RunContext<'_> {
    /// Runs the loop until a signal or a client stops the node, or its store is rebuilt.
    fn run_loop(
        &mut self,
        reactor: &mut Reactor,
        node: &mut Node<'_>,
        disk: &mut DiskSync<'_>,
    ) -> Result<End, CommandError> {
        let mut units = INITIAL_UNITS;
        let poll_timeout = self.systemd.max_interval().map_or(POLL_TIMEOUT, |interval| interval.min(POLL_TIMEOUT));
        // A node that needs no peer's answer first joins its network before it answers any client.
        let mut elapsed = reactor.tick(node, units, Duration::ZERO);
        loop {
            self.systemd.notify_ready();
            self.systemd.notify_alive(reactor.server.time.monotonic, || node.status_line());
            let max_wait = poll_timeout.min(self.readers.max_wait());
            let ready = reactor.poll(max_wait, node).map_err(CommandError::System)?;
            if ready[disk_sync::TOKEN.0] {
                disk.read_answers();
            }
            let now = reactor.server.time.monotonic;
            self.readers.work(&mut node.read_ahead, now);
            elapsed = reactor.tick(node, units, elapsed);
            let now = reactor.server.time.monotonic;
            disk.request_sync(now);
            if now >= self.look_at {
                self.look_at = now + LOOK_INTERVAL;
                // Its failure ends the loop below.
                if disk.store.durability().check_place().is_ok() {
                    self.local_secret.put_in_place();
                }
            }
            node.disk_asked_at = disk.helper.asked_at();
            self.resolvers.work([&mut self.active.local_names, &mut reactor.server.fetcher.names], now);
            if self.active.look_up_local(now) {
                node.reload(&self.active.settings, self.active.local(), Vec::new());
            }
            if reactor.has_work() {
                units = next_units(units, elapsed);
            }
            self.show_progress(node.block_progress(), reactor.server.time.monotonic);
            if let Some(text) = node.peers_to_save(reactor.server.time, false) {
                self.saved_peers.write(&text, false);
            }
            log::logger().flush();
            if let Some(failure) = node.store_failure() {
                return Err(failure.into());
            }
            if let Some(failure) = node.rebuild_failure.take() {
                return Err(failure.into());
            }
            let is_stopped = ready[SIGNALS.0] && self.handle_signals(reactor, node);
            if is_stopped || node.is_shutdown_due(reactor.server.time) {
                return Ok(End::Stopped);
            }
            if node.is_rebuilt() {
                return Ok(End::Rebuilt);
            }
        }
    }

    /// Shows the progress of an import or a download, and a summary when it ends.
    fn show_progress(&mut self, current: Option<BlockProgress>, now: Duration) {
        let now = now.as_millis() as u64;
        let has_imported = |shown: &BlockProgress| shown.start.is_none_or(|start| start.0 != shown.progress.height);
        if let Some((shown, meter)) = &mut self.progress
            && current.is_none_or(|current| current.start != shown.start)
        {
            if shown.start.is_some() && has_imported(shown) {
                show(&meter.finish(now, &shown.progress));
            }
            self.progress = None;
        }
        let Some(current) = current else { return };
        let height = current.start.map_or(current.progress.height, |start| start.0);
        let begin = || (current, ProgressMeter::new(style(), now, &Progress { height, ..current.progress }));
        let (shown, meter) = self.progress.get_or_insert_with(begin);
        *shown = current;
        if !has_imported(shown) {
            // Blocks of the file that are known already are passed over.
            meter.restart(now, &shown.progress);
        } else if let Some(line) = meter.report(now, &shown.progress) {
            show(&line);
        }
    }

    /// Handles signals. Returns whether one of them stops the program.
    fn handle_signals(&mut self, reactor: &mut Reactor, node: &mut Node<'_>) -> bool {
        let mut is_to_reload = false;
        for signal in self.signals.pending() {
            match signal {
                SIGHUP if self.has_terminal && !io::stdin().is_terminal() => {
                    log::info!("the terminal of this node was closed");
                    return true;
                }
                SIGHUP => is_to_reload = true,
                SIGUSR1 => node.must_log_metrics = true,
                _ => return true,
            }
        }
        if is_to_reload && let Some(listed) = self.active.reload(reactor) {
            node.reload(&self.active.settings, self.active.local(), listed);
        }
        false
    }
}

/// Logs what runs where while the store is rebuilt.
fn log_rebuild(settings: &Settings, addresses: &Addresses) {
    log::info!("HTTP on {}, websocket on {} at /w/messages/websocket", addresses.http, addresses.websocket);
    log::info!(
        "until the store is rebuilt, {}/status returns 8, and other routes 503 with the height that it has reached; `nisd \
         status` shows the same",
        settings.url()
    );
}

/// Logs what runs where.
fn log_startup(settings: &Settings, devnet: Option<&Devnet>, addresses: &Addresses, node: &Node<'_>) {
    log::info!("nisd {}, network {}, height {}", env!("CARGO_PKG_VERSION"), settings.network.name, node.height());
    if let Some(announcement) = node.clock.startup_warning() {
        log::warn!("{announcement}");
    }
    log::info!("HTTP on {}, websocket on {} at /w/messages/websocket", addresses.http, addresses.websocket);
    match devnet {
        Some(devnet) => {
            commands::print_unless_blocked(&commands::devnet::introduction(devnet, settings, &settings.url()));
        }
        None => {
            let url = settings.url();
            let page = if settings.http.explorer { format!("{url}/explorer, ") } else { String::new() };
            log::info!("view the node: {page}nisd status --node {}", commands::shell_word(&url));
        }
    }
}

/// Shuts connections down, and waits up to [`SHUTDOWN_GRACE`] until they have drained.
fn drain_connections(reactor: &mut Reactor, service: &mut impl Service) -> Result<(), CommandError> {
    reactor.shutdown();
    let deadline = Instant::now() + SHUTDOWN_GRACE;
    while reactor.server.stats().connections > 0 && Instant::now() < deadline {
        reactor.poll(SHUTDOWN_GRACE / 20, service).map_err(CommandError::System)?;
    }
    Ok(())
}

/// The secret of local requests, and its file, which is removed at the end of the program. Without it the node runs on, since
/// nobody needs local access for that.
struct LocalSecret {
    folder: PathBuf,
    cookie: LocalCookie,
    file: Option<CookieFile>,
    /// Whether a failure to write was logged.
    has_failed: bool,
}

impl LocalSecret {
    /// Writes the file if it is not in place.
    fn put_in_place(&mut self) {
        if self.file.as_ref().is_some_and(CookieFile::is_in_place) {
            return;
        }
        match CookieFile::write(&self.folder, &self.cookie) {
            Ok(file) => {
                log::info!("the secret of local requests is {}/{FILE}", self.folder.display());
                (self.file, self.has_failed) = (Some(file), false);
            }
            Err(error) if !self.has_failed => {
                log::error!(
                    "the secret of local requests cannot be written, so nobody has local access; the node tries again every \
                     second: {}",
                    files::describe(&error)
                );
                self.has_failed = true;
            }
            Err(_) => {}
        }
    }
}

/// Target time of work between two polls of the sockets.
const SLICE: Duration = Duration::from_micros(500);
/// Minimum and maximum units per slice.
const UNIT_BOUNDS: (u32, u32) = (100, 4_000);
/// Initial units per slice; a unit takes about a microsecond on a common machine.
const INITIAL_UNITS: u32 = 500;

/// Returns the units of the next slice, after one that used all its units took this time. They change in small steps: a
/// single slice says little, since other programs use the machine too and a commit takes its own time.
fn next_units(units: u32, time: Duration) -> u32 {
    let (least, most) = UNIT_BOUNDS;
    let step = units / 8 + 1;
    if time > SLICE { units.saturating_sub(step).max(least) } else { (units + step).min(most) }
}

/// The file in the data folder with the saved peers. It is not part of the chain: without it, or with a damaged
/// one, a node starts with no saved peers.
#[derive(Debug)]
struct SavedPeersFile {
    path: PathBuf,
    /// Whether a failure to write was logged.
    has_failed: bool,
}

impl SavedPeersFile {
    /// Returns the content, cut to its maximum size; empty if it cannot be read.
    fn read(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let file = files::open_own(&self.path, Access::Read);
        if let Err(error) = file.and_then(|file| file.take(MAX_SAVED_BYTES as u64).read_to_end(&mut text))
            && error.kind() != io::ErrorKind::NotFound
        {
            text.clear();
            let why = files::describe_at(&self.path, &error);
            log::warn!("the saved peers cannot be read and will be replaced: {why}");
        }
        text
    }

    /// Replaces the content. Waits for the disk only before the program ends (`is_last`): after a power cut the file
    /// may be the old one or damaged, which only slows the next start.
    fn write(&mut self, text: &[u8], is_last: bool) {
        match files::replace_own(&self.path, &[text], is_last) {
            Ok(()) => self.has_failed = false,
            Err(error) if !self.has_failed => {
                log::warn!("the peers cannot be saved: {}", files::describe(&error));
                self.has_failed = true;
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_work_budget_converges_to_the_speed_of_the_machine() {
        for nanos_per_unit in [200, 1000, 3000] {
            let mut units = INITIAL_UNITS;
            for _ in 0..100 {
                units = next_units(units, Duration::from_nanos(nanos_per_unit * u64::from(units)));
            }
            let time = nanos_per_unit * u64::from(units);
            assert!((400_000..600_000).contains(&time), "{time} ns");
        }
    }

    #[test]
    fn the_saved_peers_file_is_replaced_atomically_and_is_empty_if_unreadable() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = SavedPeersFile { path: folder.path().join(PEERS_FILE), has_failed: false };
        assert_eq!(file.read(), b"");
        for (text, is_last) in [("one", false), ("two", true)] {
            file.write(text.as_bytes(), is_last);
            assert_eq!(file.read(), text.as_bytes());
        }
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [PEERS_FILE]);
        fs::write(&file.path, vec![b'x'; MAX_SAVED_BYTES + 1]).unwrap();
        assert_eq!(file.read().len(), MAX_SAVED_BYTES);
        fs::remove_file(&file.path).unwrap();
        fs::create_dir(&file.path).unwrap();
        assert_eq!(file.read(), b"");
        file.write(b"three", false);
        assert!(file.has_failed);
    }
}
