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
use crate::chain::{RecalculationPart, read_rows_of};
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
/// Time after which the request of a reader that does not run is given to another one, unless that happens to another
/// request already: on a disk that is slow to all, that would help nobody. A reader runs between two reads from the disk.
const PATIENCE: Duration = Duration::from_millis(60);
/// Time between two looks at the readers that work.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Time after which a reader leaves the rest for later, so that others have their turn.
const SLICE: Duration = Duration::from_millis(100);
/// Steps after which a reader leaves the rest of a long answer.
const MAX_STEPS: usize = 1_000;

/// The readers of a node, with what each works for: nothing if it is idle, or late and nobody waits for it.
pub struct Readers {
    helpers: Vec<(Helper, Option<Reading>)>,
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
        if self.helpers.iter().any(|(_, reading)| reading.is_some()) { LOOK_INTERVAL } else { Duration::MAX }
    }

    /// Takes the results of the readers and gives them the next work. `now` is the time since the start of the program.
    pub fn work(&mut self, ahead: &mut ReadAhead, now: Duration) {
        let is_late = |(helper, reading): &(Helper, Option<Reading>)| reading.is_none() && helper.asked_at().is_some();
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
            let Some(mut running) = reading.take() else { continue };
            match result {
                Some(Some([0, _])) => ahead.postpone(running.waiting, took, now),
                Some(done) => ahead.finish(running.waiting, done.map(|[_, has_read]| has_read != 0), took, now),
                None => {
                    let is_silent = running.is_silent(now, || helper.run_time());
                    if took >= READ_TIMEOUT || is_silent && !has_late {
                        has_late = true;
                        ahead.postpone(running.waiting, took, now);
                    } else {
                        *reading = Some(running);
                    }
                }
            }
        }
        for (helper, reading) in &mut self.helpers {
            if helper.asked_at().is_some() || !ahead.has_waiting() {
                continue;
            }
            helper.start(|| Ok(Some([Stdio::null(), Stdio::null()])), now);
            if helper.is_running()
                && let Some((waiting, AheadWork { kind, bytes })) = ahead.next(now)
            {
                let run_time = helper.run_time();
                match helper.ask(&[self.prefix.as_slice(), &[kind as u8], &bytes].concat(), now) {
                    Ok(()) => *reading = Some(Reading { waiting, run_time, ran_at: now, looked_at: now }),
                    Err(_) => ahead.finish(waiting, None, Duration::ZERO, now),
                }
            }
        }
        if self.helpers.iter().all(|(helper, _)| !helper.is_running()) {
            ahead.give_up(now);
        }
    }
}

/// What a reader works for, and when it was last seen to run.
struct Reading {
    waiting: Waiting,
    /// [`Helper::run_time`] at the last look.
    run_time: Vec<u8>,
    ran_at: Duration,
    looked_at: Duration,
}

impl Reading {
    /// Returns whether the reader has not run for [`PATIENCE`]: it is stopped, or the disk has not answered for as long.
    /// Looks at its `run_time` if it is time for that.
    fn is_silent(&mut self, now: Duration, run_time: impl FnOnce() -> Vec<u8>) -> bool {
        if now >= self.looked_at + LOOK_INTERVAL {
            let before = std::mem::replace(&mut self.run_time, run_time());
            self.looked_at = now;
            if self.run_time != before {
                self.ran_at = now;
            }
        }
        now >= self.ran_at + PATIENCE
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
            read_rows_of(&block, &store.snapshot().ok()?, &settings.network, is_over).is_some()
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
        AheadKind::Recalculation => {
            let part = RecalculationPart::from_bytes(bytes)?;
            part.read(&store.snapshot().ok()?, &settings.network, is_over).unwrap_or(true)
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
    let local = LocalRights { addresses: settings.http.local.clone(), cookie: None, needs_cookie: false };
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time after which a reader counts as silent, with what it says of its run time in each millisecond.
    fn silent_after(run_time: impl Fn(u64) -> u64) -> Option<u64> {
        let text = |millis| run_time(millis).to_string().into_bytes();
        let zero = Duration::ZERO;
        let mut reading = Reading { waiting: Waiting::Node(0), run_time: text(0), ran_at: zero, looked_at: zero };
        (1..60_000).find(|millis| reading.is_silent(Duration::from_millis(*millis), || text(*millis)))
    }

    #[test]
    fn a_reader_is_silent_once_it_has_not_run_for_a_moment_and_never_while_it_reads_from_a_slow_disk() {
        assert_eq!(silent_after(|_| 1), Some(60), "it was stopped before it was asked");
        assert_eq!(silent_after(|millis| millis / 40), None, "each read takes 40 ms");
        assert_eq!(silent_after(|millis| millis.min(1_000)), Some(1_060), "it is stopped after a second");
        assert_eq!(silent_after(|millis| millis / 200), Some(60), "each read takes 200 ms");
    }
}
