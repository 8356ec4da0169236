//! The event loop: connects sockets, clocks, DNS, randomness and signals with the node's state machine.

mod descriptors;
mod disk_helper;
mod kept_peers;
mod listening;
mod process;
mod reload;
mod slices;
mod supervisor;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::Token;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook_mio::v1_0::Signals;
use zeroize::Zeroizing;

pub use self::disk_helper::serve_if_asked;
pub use self::process::forbid_core_dumps;

use self::disk_helper::DiskHelper;
use self::kept_peers::KeptPeersFile;
use self::listening::Addresses;
use self::reload::{Current, Reread};
use self::slices::Slices;
use self::supervisor::Supervisor;
use crate::chain::{Intake, IntakeError, IntakeProgress};
use crate::cli;
use crate::clock::NetworkClock;
use crate::codec::block_file::BlockFile;
use crate::commands::{self, Clocks, CommandError};
use crate::config::{self, Settings};
use crate::devnet::Devnet;
use crate::logging;
use crate::model::Height;
use crate::net::Reactor;
use crate::net::machine::{Machine, Moment};
use crate::node::{BATCH, Beginning, Import, KnownPeer, Node, Start};
use crate::store::Store;

/// Maximum poll timeout, so that the log is flushed and the clocks are compared.
const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum time for connections to drain at shutdown.
const FAREWELL: Duration = Duration::from_secs(2);

const SIGNALS: Token = Token(0);

/// The node cannot run, or had to stop.
#[derive(Debug)]
pub enum NodeError {
    /// A failure of the store or a file.
    Command(CommandError),
    /// The nemesis block cannot be imported.
    Intake(IntakeError),
    /// A port cannot be opened.
    Listen(SocketAddr, io::Error),
    /// The system denies a basic resource.
    System(io::Error),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeError::Command(error) => error.fmt(f),
            NodeError::Intake(error) => error.fmt(f),
            NodeError::Listen(address, error) => {
                write!(f, "cannot listen on {address}: {error}; {}", listening_advice(error))
            }
            NodeError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NodeError {}

/// Returns advice for a port that cannot be opened.
fn listening_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 are for root, or for a program with the capability CAP_NET_BIND_SERVICE. Choose others with \
             --http-port and --websocket-port, and let a proxy listen on that port"
        }
        io::ErrorKind::AddrNotAvailable => "this machine does not have the address; choose one that it has with --bind",
        _ => "is another node running? Choose other ports with --http-port and --websocket-port",
    }
}

impl<E: Into<CommandError>> From<E> for NodeError {
    fn from(error: E) -> Self {
        NodeError::Command(error.into())
    }
}

/// The operator's side of a running node: signals, systemd, settings, disk helper and peers file.
struct Operation<'a> {
    signals: Signals,
    supervisor: Supervisor,
    current: Current<'a>,
    /// Waits for the disk; present once there is a chain.
    disk: Option<DiskHelper<'a>>,
    kept_peers: KeptPeersFile,
}

/// A service that the event loop runs for an operator.
trait Operated: Machine {
    /// Returns a status line.
    fn occupation(&self) -> String;

    /// Applies changed settings, and adds peers that are new on the operator's list.
    fn change(&mut self, current: &Current<'_>, known: Vec<KnownPeer>);

    /// Has the metrics logged, if there are any.
    fn log_figures_soon(&mut self) {}

    /// Returns the peers to store, if a write is due.
    fn peers_to_keep(&mut self, _now: Moment) -> Option<Vec<u8>> {
        None
    }
}

impl Operated for Node<'_> {
    fn occupation(&self) -> String {
        Node::occupation(self)
    }

    fn change(&mut self, current: &Current<'_>, known: Vec<KnownPeer>) {
        Node::change(self, &current.settings, current.local.clone(), known);
    }

    fn log_figures_soon(&mut self) {
        Node::log_figures_soon(self);
    }

    fn peers_to_keep(&mut self, now: Moment) -> Option<Vec<u8>> {
        Node::peers_to_keep(self, now, false)
    }
}

impl Operated for Beginning<'_> {
    fn occupation(&self) -> String {
        "asks known nodes for the nemesis block".to_owned()
    }

    /// The peers to ask stay the same until the block arrives.
    fn change(&mut self, current: &Current<'_>, _: Vec<KnownPeer>) {
        Beginning::change(self, &current.settings, current.local.clone());
    }
}

/// Runs `nisd run`, also on a private network of nisd. `reread` reads the settings again on a reload.
pub fn run(
    command: &cli::Run,
    mut settings: Settings,
    devnet: Option<Devnet>,
    clocks: Clocks,
    reread: Reread<'_>,
) -> Result<(), NodeError> {
    let known = known_peers(&settings)?;
    if let Some(notice) = config::standstill(&settings, known.is_empty()) {
        log::log!(notice.level, "{notice}");
    }
    // Checked first: the files must exist before a store is created for this chain.
    let files = commands::open_block_files(&command.import)?;
    let nemesis = commands::nemesis_of_file(&settings, !known.is_empty())?;
    let store = commands::open_up_to_date(&settings, clocks)?;
    store.time_commits(process::running);
    let seed = random_seed()?;
    let (mut reactor, addresses) = listening::open(&settings, &seed)?;
    // The system may have chosen the ports.
    (settings.http.port, settings.websocket.port) = (addresses.http.port(), addresses.websocket.port());
    if settings.endpoint.protocol == "http" {
        settings.endpoint.port = addresses.http.port().into();
    }
    let mut operation = Operation {
        signals: signals(&reactor)?,
        supervisor: Supervisor::of_environment(),
        current: Current::new(&settings, known, reread),
        disk: None,
        kept_peers: KeptPeersFile::of(&settings.data),
    };
    if nemesis.is_none() && !commands::has_chain(&store)? {
        let told = begin(&settings, &store, &addresses, &mut reactor, &mut operation)?;
        if told == Told::ToEnd {
            return Ok(());
        }
    }
    let intake = intake(&store, &settings, nemesis.unwrap_or_default(), files, &reactor)?;
    let helper = DiskHelper::start(&store, reactor.registry(), reactor.moment().running);
    operation.disk = Some(helper.map_err(NodeError::System)?);
    let start = Start {
        now: reactor.moment(),
        seed: &seed,
        local: operation.current.local.clone(),
        shared: reactor.shared_pool(),
        import: Some(Import::new(intake, commands::style(), commands::show)),
        known: operation.current.known.clone(),
        kept: operation.kept_peers.read(),
    };
    let mut node = Node::new(&store, &settings, start)?;
    node.watch_memory(process::memory);
    greet(&settings, devnet.as_ref(), &addresses, &node);
    go_round(&mut reactor, &mut node, &mut operation, |node, now| node.is_to_end(now))?;
    log::info!("stopping");
    operation.supervisor.stopping();
    operation.disk = None;
    if let Some(text) = node.peers_to_keep(reactor.moment(), true) {
        operation.kept_peers.write(&text, true);
    }
    node.stop()?;
    say_farewell(&mut reactor, &mut node)
}

/// Registers the signals that the program handles.
fn signals(reactor: &Reactor) -> Result<Signals, NodeError> {
    let register = || {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1])?;
        reactor.registry().register(&mut signals, SIGNALS, mio::Interest::READABLE)?;
        Ok(signals)
    };
    register().map_err(NodeError::System)
}

/// Returns the peers known at startup, those of the command line first.
fn known_peers(settings: &Settings) -> Result<Vec<KnownPeer>, NodeError> {
    let listed = settings.peers.listed(&settings.network)?;
    for notice in listed.notices {
        log::log!(notice.level, "{notice}");
    }
    let hosts = settings.peers.hosts.iter().cloned().map(KnownPeer::Endpoint);
    Ok(hosts.chain(listed.nodes.into_iter().map(KnownPeer::Node)).collect())
}

/// Fetches the nemesis block from a peer into an empty store.
fn begin(
    settings: &Settings,
    store: &Store,
    addresses: &Addresses,
    reactor: &mut Reactor,
    operation: &mut Operation<'_>,
) -> Result<Told, NodeError> {
    let (name, file, known) = (&settings.network.name, &settings.nemesis, &operation.current.known);
    if known.is_empty() {
        return Err(file.missing().into());
    }
    log::info!(
        "there is no nemesis block of {name} in {}: known nodes ({}) are asked for it",
        file.absolute().display(),
        known.len()
    );
    log::info!("until it is there, http://{}/status says 8 and all else is answered 503", addresses.http);
    let mut beginning = Beginning::new(store, settings, known, reactor.moment());
    let told = go_round(reactor, &mut beginning, operation, |beginning, _| beginning.is_over())?;
    if told == Told::ToEnd {
        log::info!("stopping");
        say_farewell(reactor, &mut beginning)?;
    }
    beginning.outcome()?;
    Ok(told)
}

/// Why the loop has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// A signal asked the program to stop.
    ToEnd,
    /// The service is done.
    Done,
}

/// Runs the loop until a signal stops the node or the service is done.
fn go_round<M: Operated>(
    reactor: &mut Reactor,
    machine: &mut M,
    operation: &mut Operation<'_>,
    is_done: impl Fn(&M, Moment) -> bool,
) -> Result<Told, NodeError> {
    let mut slices = Slices::new();
    let patience = operation.supervisor.patience().map_or(PATIENCE, |patience| patience.min(PATIENCE));
    // A node that needs no peer's answer first joins its network before it answers any client.
    let mut took = reactor.work(machine, slices.units(), Duration::ZERO);
    loop {
        operation.supervisor.ready();
        operation.supervisor.alive(reactor.moment().running, || machine.occupation());
        let turn = reactor.turn(patience, machine).map_err(NodeError::System)?;
        if turn.is_ready(disk_helper::TOKEN) {
            operation.disk.iter_mut().for_each(DiskHelper::hear);
        }
        took = reactor.work(machine, slices.units(), took);
        operation.disk.iter_mut().for_each(|disk| disk.ask(reactor.moment().running));
        if reactor.has_work() {
            slices.took(took);
        }
        if let Some(text) = machine.peers_to_keep(reactor.moment()) {
            operation.kept_peers.write(&text, false);
        }
        logging::flush();
        if turn.is_ready(SIGNALS) && operation.heed_signals(reactor, machine) {
            return Ok(Told::ToEnd);
        }
        if is_done(machine, reactor.moment()) {
            return Ok(Told::Done);
        }
    }
}

impl Operation<'_> {
    /// Handles signals. Returns whether one of them stops the program.
    fn heed_signals(&mut self, reactor: &mut Reactor, machine: &mut impl Operated) -> bool {
        let mut is_to_reload = false;
        for signal in self.signals.pending() {
            match signal {
                SIGHUP => is_to_reload = true,
                SIGUSR1 => machine.log_figures_soon(),
                _ => return true,
            }
        }
        if is_to_reload && let Some(known) = self.current.read_anew(reactor) {
            machine.change(&self.current, known);
        }
        false
    }
}

/// Prepares the import of block files. The nemesis block is committed here, before any client is answered.
fn intake<'s>(
    store: &'s Store,
    settings: &'s Settings,
    nemesis: Vec<u8>,
    files: Vec<BlockFile<'static>>,
    reactor: &Reactor,
) -> Result<Intake<'s>, NodeError> {
    let mut intake = Intake::new(store, &settings.network, nemesis, files, BATCH)?;
    let time = NetworkClock::new(settings.clock, 0).now(reactor.moment().unix_millis, 0);
    while intake.height() < Height::NEMESIS && intake.step(time).map_err(NodeError::Intake)? != IntakeProgress::Done {}
    intake.commit()?;
    Ok(intake)
}

/// Logs what runs where.
fn greet(settings: &Settings, devnet: Option<&Devnet>, addresses: &Addresses, node: &Node<'_>) {
    log::info!("nisd {}, network {}, height {}", env!("CARGO_PKG_VERSION"), settings.network.name, node.height());
    if let Some(announcement) = node.clock().announcement() {
        log::warn!("{announcement}");
    }
    log::info!("HTTP on {}, websocket on {} at /w/messages/websocket", addresses.http, addresses.websocket);
    match devnet {
        // If standard output is closed, nobody reads it.
        Some(devnet) => drop(commands::introduce(devnet, settings, addresses.ports())),
        None => {
            let port = addresses.http.port();
            let page =
                if settings.http.explorer { format!("http://127.0.0.1:{port}/explorer, ") } else { String::new() };
            log::info!("look at it: {page}nisd status --node http://127.0.0.1:{port}");
        }
    }
}

/// Shuts connections down, and waits up to [`FAREWELL`] until they have drained.
fn say_farewell(reactor: &mut Reactor, machine: &mut impl Machine) -> Result<(), NodeError> {
    reactor.shutdown();
    let deadline = Instant::now() + FAREWELL;
    while reactor.stats().connections > 0 && Instant::now() < deadline {
        reactor.turn(FAREWELL / 20, machine).map_err(NodeError::System)?;
    }
    Ok(())
}

fn random_seed() -> Result<Zeroizing<[u8; 32]>, NodeError> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut_slice()).map_err(|error| NodeError::System(error.into()))?;
    Ok(seed)
}
