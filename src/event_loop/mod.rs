//! The loop around the machine: sockets, clocks, names, randomness and signals on one side, the node on the other.

mod descriptors;
mod listening;
mod slices;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::Token;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook_mio::v1_0::Signals;
use zeroize::Zeroizing;

use self::listening::Addresses;
use self::slices::Slices;
use crate::chain::{Intake, IntakeError, IntakeProgress};
use crate::cli;
use crate::clock::NetworkClock;
use crate::codec::block_file::BlockFile;
use crate::commands::{self, Clocks, CommandError};
use crate::config::{self, Settings, is_public};
use crate::devnet::Devnet;
use crate::logging;
use crate::model::Height;
use crate::net::Reactor;
use crate::node::{BATCH, Import, KnownPeer, Node, Start};
use crate::store::Store;

/// Longest time between two turns, so that the log is written out and the clocks are compared.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long connections may take to end once the node is told to stop.
const FAREWELL: Duration = Duration::from_secs(2);

const SIGNALS: Token = Token(0);

/// Why a node cannot run, or had to stop.
#[derive(Debug)]
pub enum NodeError {
    /// The store or a file.
    Command(CommandError),
    /// A block that was compiled in or named on the command line.
    Intake(IntakeError),
    /// A port cannot be opened.
    Listen(SocketAddr, io::Error),
    /// This public network cannot be joined yet.
    NoPeers(String),
    /// The system refuses what every program needs.
    System(io::Error),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeError::Command(error) => error.fmt(f),
            NodeError::Intake(error) => error.fmt(f),
            NodeError::Listen(address, error) => write!(
                f,
                "cannot listen on {address}: {error}; is another node running? \
                 Choose other ports with --http-port and --websocket-port"
            ),
            NodeError::NoPeers(network) => write!(
                f,
                "{network} is a public network, which this version of nisd does not join yet: its work with other nodes \
                 has been tried on private networks only. --offline serves what is in the store, and --import takes recorded blocks in; nisd run without \
                 a configuration starts a private network"
            ),
            NodeError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NodeError {}

impl<E: Into<CommandError>> From<E> for NodeError {
    fn from(error: E) -> Self {
        NodeError::Command(error.into())
    }
}

/// `nisd run`, also on a private network that nisd has made.
pub fn run(
    command: &cli::Run,
    mut settings: Settings,
    devnet: Option<Devnet>,
    clocks: Clocks,
) -> Result<(), NodeError> {
    if is_public(&settings.network.name) && !settings.offline {
        return Err(NodeError::NoPeers(settings.network.name));
    }
    let known = known_peers(&settings)?;
    if let Some(notice) = config::standstill(&settings, known.is_empty()) {
        log::log!(notice.level, "{notice}");
    }
    // What is named must be there before a store is made that says to which chain it belongs.
    let files = commands::open_block_files(&command.import)?;
    let nemesis = settings.nemesis.read()?;
    let store = commands::open_up_to_date(&settings, clocks)?;
    let seed = random_seed()?;
    let (mut reactor, addresses) = listening::open(&settings, &seed)?;
    if settings.endpoint.protocol == "http" {
        // The system may have chosen it.
        settings.endpoint.port = addresses.http.port().into();
    }
    let intake = intake(&store, &settings, nemesis, files, &reactor)?;
    let start = Start {
        now: reactor.moment(),
        seed: &seed,
        local: listening::resolve_local(&settings),
        shared: reactor.shared_pool(),
        import: Some(Import::new(intake, commands::style(), commands::show)),
        known,
    };
    let mut node = Node::new(&store, &settings, start)?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(NodeError::System)?;
    let registered = reactor.registry().register(&mut signals, SIGNALS, mio::Interest::READABLE);
    registered.map_err(NodeError::System)?;
    greet(&settings, devnet.as_ref(), &addresses, &node);
    go_round(&mut reactor, &mut node, &mut signals)?;
    stop(reactor, node)
}

/// The operator's list of nodes. A node that is to stay alone has none.
fn known_peers(settings: &Settings) -> Result<Vec<KnownPeer>, NodeError> {
    let known = settings.peers.file.read(&settings.network)?;
    for notice in known.notices {
        log::log!(notice.level, "{notice}");
    }
    let nodes = known.nodes.into_iter().map(KnownPeer::Node);
    let hosts = settings.peers.hosts.iter().cloned().map(KnownPeer::Endpoint);
    Ok(if settings.offline { Vec::new() } else { nodes.chain(hosts).collect() })
}

/// Goes round until a signal or a request tells the node to stop.
fn go_round(reactor: &mut Reactor, node: &mut Node<'_>, signals: &mut Signals) -> Result<(), NodeError> {
    let mut slices = Slices::new();
    // It joins its network, if nobody is to be asked first, before anybody is answered.
    let mut took = reactor.work(node, slices.units(), Duration::ZERO);
    loop {
        let turn = reactor.turn(PATIENCE, node).map_err(NodeError::System)?;
        took = reactor.work(node, slices.units(), took);
        if reactor.has_work() {
            slices.took(took);
        }
        logging::flush();
        let is_told = turn.is_ready(SIGNALS) && signals.pending().next().is_some();
        if is_told || node.is_to_end(reactor.moment()) {
            return Ok(());
        }
    }
}

/// The blocks that a node takes in: the nemesis block, which stands before anybody is answered, and those of files.
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

/// Tells the operator what runs where.
fn greet(settings: &Settings, devnet: Option<&Devnet>, addresses: &Addresses, node: &Node<'_>) {
    log::info!("nisd {}, network {}, height {}", env!("CARGO_PKG_VERSION"), settings.network.name, node.height());
    if let Some(announcement) = node.clock().announcement() {
        log::warn!("{announcement}");
    }
    log::info!("HTTP on {}, websocket on {} at /w/messages/websocket", addresses.http, addresses.websocket);
    match devnet {
        // Where standard output is gone, nobody reads it.
        Some(devnet) => drop(commands::introduce(devnet, settings, addresses.ports())),
        None => log::info!("try: curl http://127.0.0.1:{}/chain/height", addresses.http.port()),
    }
}

/// Ends well: what was taken in is committed, and clients are told.
fn stop(mut reactor: Reactor, mut node: Node<'_>) -> Result<(), NodeError> {
    log::info!("stopping");
    node.stop()?;
    reactor.shutdown();
    let deadline = Instant::now() + FAREWELL;
    while reactor.stats().connections > 0 && Instant::now() < deadline {
        reactor.turn(FAREWELL / 20, &mut node).map_err(NodeError::System)?;
    }
    Ok(())
}

fn random_seed() -> Result<Zeroizing<[u8; 32]>, NodeError> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut_slice()).map_err(|error| NodeError::System(error.into()))?;
    Ok(seed)
}
