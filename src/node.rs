//! Wires the rooms into the loop: sockets, clock and signals on one side, chain, interface and sessions on
//! the other.

mod catalogue;
mod harvester;
mod identity;
mod ledger;
mod service;
mod setup;
mod unconfirmed;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::Token;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook_mio::v1_0::Signals;

use self::service::{Moment, Node};
use crate::chain::{Intake, IntakeError, Progress};
use crate::cli;
use crate::clock::NetworkClock;
use crate::commands::{self, CommandError, progress_of};
use crate::config::{Settings, is_public};
use crate::devnet::Devnet;
use crate::model::Height;
use crate::net::Reactor;
use crate::progress::Meter;
use crate::push::Output;

/// Longest time for which blocks, and the pool after them, are worked on between two looks at the sockets.
const SLICE: Duration = Duration::from_micros(500);
/// Steps of an intake after which its blocks are committed, whatever they cost.
const BATCH_STEPS: u32 = 1_500;
/// Blocks after which an intake commits, to begin with and at most. Nobody is answered during a commit, so their
/// number follows the time that commits take on this disk.
const BATCH_BLOCKS: u32 = 24;
const MAX_BATCH_BLOCKS: u32 = 256;
/// How long a commit should take.
const COMMIT_TIME: Duration = Duration::from_millis(3);
/// Blocks that are published between two looks at the sockets, so that subscribers can take them in.
const PUBLISHED_PER_TURN: usize = 8;
/// Requests of sessions that are answered between two looks at the sockets.
const REQUESTS_PER_TURN: usize = 32;
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
                "{network} lives on other nodes, which this version of nisd does not reach yet: the chain would stand \
                 still. --offline serves what is in the store, and --import takes recorded blocks in; nisd run without \
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
pub fn run(command: &cli::Run, settings: Settings, devnet: Option<Devnet>) -> Result<(), NodeError> {
    if is_public(&settings.network.name) && !settings.offline {
        return Err(NodeError::NoPeers(settings.network.name));
    }
    // What is named must be there before a store is made that says to which chain it belongs.
    let files = commands::open_block_files(&command.import)?;
    let nemesis = settings.nemesis.read()?;
    let store = commands::open_store(&settings, &settings.data)?;
    let mut intake = setup::intake(&store, &settings, nemesis, files)?;
    let clock = NetworkClock::new(settings.clock, 0);
    // The nemesis block stands before anybody is answered.
    while intake.height() < Height::NEMESIS
        && intake.step(clock.now(now().unix_millis, 0)).map_err(NodeError::Intake)? != Progress::Done
    {}
    intake.commit()?;

    let (reactor, listeners) = setup::reactor(&settings)?;
    let mut node = Node::new(&store, &settings, listeners, clock, now())?;
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(NodeError::System)?;
    let registered = reactor.registry().register(&mut signals, SIGNALS, mio::Interest::READABLE);
    registered.map_err(NodeError::System)?;
    setup::greet(&settings, devnet.as_ref(), &reactor, listeners, &node);
    Loop { reactor, signals, intake: Some(Import::new(intake)) }.run(&mut node)
}

/// Blocks being taken in while the node runs.
struct Import<'s> {
    intake: Intake<'s>,
    batch_blocks: u32,
    /// Time spent on blocks since the last commit.
    worked: Duration,
    meter: Meter,
    base: Instant,
    /// Height before the first block that is taken in.
    from: Height,
}

impl<'s> Import<'s> {
    fn new(intake: Intake<'s>) -> Import<'s> {
        let base = Instant::now();
        let meter = Meter::new(commands::style(), 0, &progress_of(&intake, None));
        let from = intake.committed();
        let (batch_blocks, worked) = (BATCH_BLOCKS, Duration::ZERO);
        Import { intake, batch_blocks, worked, meter, base, from }
    }

    /// Makes the next batch smaller or larger, after a commit that took this long: short enough for those who wait
    /// meanwhile, but at least half as long as the work before it, as a commit has a price however small it is.
    fn adapt(&mut self, commit: Duration) {
        let worked = std::mem::take(&mut self.worked);
        if worked < commit * 2 {
            self.batch_blocks = (self.batch_blocks * 5 / 4 + 1).min(MAX_BATCH_BLOCKS);
        } else if commit > COMMIT_TIME {
            self.batch_blocks = (self.batch_blocks * 3 / 4).max(1);
        } else if commit < COMMIT_TIME / 2 {
            self.batch_blocks = (self.batch_blocks + 4).min(MAX_BATCH_BLOCKS);
        }
        self.intake.set_batch_blocks(self.batch_blocks);
    }

    fn report(&mut self, done: bool) {
        if self.intake.committed() == self.from {
            return;
        }
        let now = self.base.elapsed().as_millis() as u64;
        let progress = progress_of(&self.intake, None);
        let line = if done { Some(self.meter.finish(now, &progress)) } else { self.meter.report(now, &progress) };
        line.iter().for_each(|line| commands::show(line));
    }
}

struct Loop<'s> {
    reactor: Reactor,
    signals: Signals,
    intake: Option<Import<'s>>,
}

impl Loop<'_> {
    fn run(mut self, node: &mut Node<'_>) -> Result<(), NodeError> {
        while !self.turn(node)? {}
        log::info!("stopping");
        if let Some(mut import) = self.intake.take() {
            import.intake.commit()?;
        }
        self.reactor.shutdown();
        let deadline = Instant::now() + FAREWELL;
        while self.reactor.stats().connections > 0 && Instant::now() < deadline {
            node.set_time(now());
            self.reactor.turn(Some(FAREWELL / 20), node).map_err(NodeError::System)?;
        }
        Ok(())
    }

    /// One turn of the loop; whether the node was told to stop.
    fn turn(&mut self, node: &mut Node<'_>) -> Result<bool, NodeError> {
        node.set_time(now());
        let rest = if self.intake.is_some() { Duration::ZERO } else { node.rest() };
        let turn = self.reactor.turn(Some(rest), node).map_err(NodeError::System)?;
        node.set_time(now());
        let stop = turn.is_ready(SIGNALS) && self.signals.pending().next().is_some();
        self.take_in(node)?;
        node.keep_pool(SLICE);
        if self.intake.is_none() {
            node.harvest(SLICE);
        }
        node.publish_arrivals();
        node.publish(PUBLISHED_PER_TURN);
        node.answer_requests(REQUESTS_PER_TURN);
        self.deliver(node);
        node.end_turn();
        Ok(stop)
    }

    /// Works on blocks for one slice.
    fn take_in(&mut self, node: &mut Node<'_>) -> Result<(), NodeError> {
        let Some(import) = &mut self.intake else { return Ok(()) };
        let begun = Instant::now();
        let time = node.time();
        loop {
            let now = Instant::now();
            if now - begun >= SLICE {
                break;
            }
            match import.intake.step(time) {
                Ok(Progress::Working) => {}
                Ok(Progress::Committed { first, last }) => {
                    import.worked += now - begun;
                    import.adapt(now.elapsed());
                    node.committed(first, last);
                    return Ok(());
                }
                Ok(Progress::Done) => {
                    import.report(true);
                    self.intake = None;
                    return Ok(());
                }
                // The node goes on with the chain as it is, for that may be what the operator needs most.
                Err(error) => {
                    import.report(true);
                    self.intake = None;
                    log::error!("no more blocks are taken in: {error}");
                    return Ok(());
                }
            }
        }
        import.worked += begun.elapsed();
        import.report(false);
        Ok(())
    }

    /// Hands over what the sessions are to be sent.
    fn deliver(&mut self, node: &mut Node<'_>) {
        while let Some(output) = node.next_output() {
            match output {
                Output::Send { session, frame } => {
                    // A session that is gone is reported to the node by the reactor.
                    let _ = self.reactor.send_text(crate::net::ConnectionId::from_u64(session), &frame);
                }
                Output::Close { session, code, reason } => {
                    self.reactor.close_websocket(crate::net::ConnectionId::from_u64(session), code, &reason);
                }
                Output::Request { request, .. } => node.queue_request(request),
            }
        }
        self.reactor.flush();
    }
}

fn now() -> Moment {
    let unix_millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64);
    Moment { unix_millis, instant: Instant::now() }
}
