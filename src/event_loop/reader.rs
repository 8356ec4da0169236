//! The helpers that read ahead: each answers requests, executes blocks and verifies ranges on the last commit and throws
//! the results away, so that their rows are in memory when the node does the same. They are started when they are needed.
//!
//! A request to a helper is the path of the store, a zero byte, the number of an [`AheadKind`], and what that needs. The
//! answer is two bytes: whether all was read in the time for one request, and whether the disk was read.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use mio::{Registry, Token};

use super::helper::{Helper, Job};
use super::process;
use crate::chain::read_rows_of;
use crate::codec::{Context, network_from_text};
use crate::config::{self, Origin, Override, Settings};
use crate::model::{ADDRESS_LENGTH, Address, Block};
use crate::net::http::{RequestReader, Response};
use crate::net::service::{Client, ConnectionId, Effects, Event, Exchange, LoopTime, Progress, Service};
use crate::net::{SharedBytesCounter, unix_millis};
use crate::node::{AheadKind, AheadWork, HTTP, LocalRights, Node, ReadAhead, Start, Waiting, node_importance};
use crate::store::{Options, Store, Table, VerifyPosition};

/// The job of a reader.
pub static JOB: Job = Job {
    argument: "helper-reader",
    purpose: "read ahead",
    consequence: "requests whose rows are not in memory keep others waiting",
    start_interval: Duration::from_secs(1),
    begin: |_| {
        let mut opened = None;
        Box::new(move |request| read(&mut opened, request).unwrap_or_default().map(u8::from).to_vec())
    },
};

/// Poll token of the first reader; those of the others follow.
const FIRST_TOKEN: usize = 6;
/// Maximum number of readers.
pub const MAX_READERS: usize = 8;
/// Time after which a reader is replaced.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which the request of a reader is given to another one, unless that happens to another request already: on a
/// disk that is slow to all, that would help nobody.
const PATIENCE: Duration = Duration::from_millis(500);
/// Time after which a reader leaves the rest for later, so that others have their turn.
const SLICE: Duration = Duration::from_millis(100);
/// Steps after which a reader leaves the rest of a long answer.
const MAX_STEPS: usize = 1_000;

/// The readers of a node, with what each works for: nothing if it is idle, or late and nobody waits for it.
pub struct Readers {
    helpers: Vec<(Helper, Option<Waiting>)>,
    /// Path of the store and a zero byte.
    prefix: Vec<u8>,
}

impl Readers {
    /// Returns readers that are not running.
    pub fn new(count: usize, folder: &Path, registry: &Registry) -> io::Result<Readers> {
        let helper = |index| Ok((Helper::new(&JOB, Token(FIRST_TOKEN + index), registry)?, None));
        let helpers = (0..count.min(MAX_READERS)).map(helper).collect::<io::Result<_>>()?;
        let prefix = [fs::canonicalize(folder)?.as_os_str().as_bytes(), &[0]].concat();
        Ok(Readers { helpers, prefix })
    }

    /// Returns the time after which [`work`](Self::work) is due at the latest.
    pub fn max_wait(&self) -> Duration {
        if self.helpers.iter().any(|(_, reading)| reading.is_some()) { PATIENCE } else { Duration::MAX }
    }

    /// Takes the results of the readers and gives them the next work. `now` is the time since the start of the program.
    pub fn work(&mut self, ahead: &mut ReadAhead, now: Duration) {
        let is_late = |(helper, reading): &(Helper, Option<Waiting>)| reading.is_none() && helper.asked_at().is_some();
        let mut has_late = self.helpers.iter().any(is_late);
        for (helper, reading) in &mut self.helpers {
            if reading.is_none() && helper.asked_at().is_none() && !ahead.has_waiting() {
                continue;
            }
            let took = helper.asked_at().map_or(Duration::ZERO, |asked_at| now.saturating_sub(asked_at));
            let result = helper.next_answer().map(|answer| <[u8; 2]>::try_from(answer.ok()?).ok());
            if result.is_none() && took >= READ_TIMEOUT {
                helper.end();
            }
            let patience = if has_late { READ_TIMEOUT } else { PATIENCE };
            match (result, reading.take()) {
                (Some(Some([0, _])), Some(waiting)) => ahead.postpone(waiting, took, now),
                (Some(done), Some(waiting)) => {
                    ahead.finish(waiting, done.map(|[_, has_read]| has_read != 0), took, now);
                }
                (None, Some(waiting)) if took >= patience => {
                    has_late = true;
                    ahead.postpone(waiting, took, now);
                }
                (_, waiting) => *reading = waiting,
            }
            if helper.asked_at().is_some() || !ahead.has_waiting() {
                continue;
            }
            helper.start(|| Ok(Some([Stdio::null(), Stdio::null()])), now);
            if helper.is_running()
                && let Some((waiting, AheadWork { kind, bytes })) = ahead.next(now)
            {
                *reading = Some(waiting);
                if helper.ask(&[self.prefix.as_slice(), &[kind as u8], &bytes].concat(), now).is_err() {
                    *reading = None;
                    ahead.finish(waiting, None, Duration::ZERO, now);
                }
            }
        }
        if self.helpers.iter().all(|(helper, _)| !helper.is_running()) {
            ahead.give_up(now);
        }
    }
}

/// A store that a reader has opened.
struct Opened {
    folder: PathBuf,
    store: Store,
    settings: Settings,
}

/// Reads what is needed for a request to this helper. Returns whether that was all, and whether the disk was read.
fn read(opened: &mut Option<Opened>, request: &[u8]) -> Option<[bool; 2]> {
    let end = request.iter().position(|byte| *byte == 0)?;
    let folder = Path::new(std::ffi::OsStr::from_bytes(&request[..end]));
    let (kind, bytes) = request[end + 1..].split_first()?;
    let kind = *AheadKind::ALL.get(usize::from(*kind))?;
    let (before, deadline) = (process::reads_from_disk(), process::uptime() + SLICE);
    if opened.as_ref().is_none_or(|opened| opened.folder != folder) {
        *opened = Some(open(folder)?);
    }
    let Opened { store, settings, .. } = opened.as_ref()?;
    let is_over = || process::uptime() >= deadline;
    let is_done = match kind {
        AheadKind::Request => answer(store, settings, bytes, is_over)?,
        AheadKind::Block => {
            let block = Block::from_bytes(bytes, Context::of(&settings.network)).ok()?;
            read_rows_of(&block, &store.snapshot().ok()?, &settings.network, is_over)
        }
        AheadKind::Accounts => {
            let snapshot = store.snapshot().ok()?;
            bytes.chunks(ADDRESS_LENGTH).all(|address| {
                let address = std::str::from_utf8(address).ok();
                if let Some(address) = address.and_then(|text| Address::parse(text, settings.network.byte)) {
                    let _ = node_importance(&snapshot, &address, &settings.network);
                }
                !is_over()
            })
        }
        AheadKind::Range => {
            let (table, key) = bytes.split_first()?;
            // A damaged range is read too.
            let _ = store.snapshot().ok()?.verify_next(&mut VerifyPosition::at(Table::from_number(*table)?, key));
            true
        }
    };
    Some([is_done, process::reads_from_disk() > before])
}

/// Opens a store that another process may change: nothing is locked, so that a reader that is stopped or killed keeps no
/// page from being used again. What it then reads may be wrong, and is thrown away.
fn open(folder: &Path) -> Option<Opened> {
    let features = Override {
        key: "nis.optionalFeatures".to_owned(),
        value: "TRANSACTION_HASH_LOOKUP|HISTORICAL_ACCOUNT_DATA".to_owned().into(),
        origin: Origin::Flag("--set"),
    };
    let mut settings = config::load(None, vec![features], Some(folder)).ok()?;
    let (store, network) = Store::open_to_read_ahead(folder, Options { map_size: settings.node.map_size }).ok()?;
    settings.network = network_from_text(&network)?;
    Some(Opened { folder: folder.to_owned(), store, settings })
}

/// Answers a request and throws the answer away. Returns whether it was answered before the time was over.
fn answer(store: &Store, settings: &Settings, request: &[u8], is_over: impl Fn() -> bool) -> Option<bool> {
    let now = LoopTime { unix_millis: unix_millis(), monotonic: process::uptime() };
    let local = LocalRights { addresses: settings.http.local.clone(), cookie: None };
    let shared = SharedBytesCounter::default();
    let start = Start { now, seed: &[0; 32], local, shared, import: None, listed: Vec::new(), saved: Vec::new() };
    let mut node = Node::new(store, settings, start).ok()?;
    (node.monotonic, node.counts_as_joined) = (process::uptime, true);
    let mut reader = RequestReader::new(0);
    reader.receive(request);
    reader.advance(|method, path| node.route(HTTP, method, path)).ok().filter(|is_whole| *is_whole)?;
    let request = reader.request()?;
    let client = Client { is_local: true, ..Client::direct(HTTP, [127, 0, 0, 1].into()) };
    let mut response = Response::new();
    for step in 0..MAX_STEPS {
        let exchange = Exchange {
            connection: ConnectionId(0),
            client,
            request: &request,
            response: &mut response,
            is_resumed: step > 0,
            is_rate_limited: false,
        };
        if node.handle(Event::Request(exchange), now, &mut NoEffects) != Progress::Yield {
            break;
        }
        if response.is_streaming {
            response.body.clear();
        }
        if is_over() {
            // Its client reads the rest of a stream at its own pace.
            return Some(response.is_streaming);
        }
    }
    Some(true)
}

/// Nothing that a handler does in a reader has an effect.
struct NoEffects;

impl Effects for NoEffects {}
