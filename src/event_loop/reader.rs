//! The helpers that read ahead: each answers requests on the last commit and throws the answers away, so that their rows
//! are in memory when the node answers them. They are started when they are needed.
//!
//! A request is the path of the store, a zero byte, and the request of the client. The answer is the number of reads from
//! the disk that it took, in four bytes.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mio::{Registry, Token};

use super::helper::{Helper, HelperEvent, Job};
use super::process;
use crate::codec::network_from_text;
use crate::config::{self, Origin, Override, Settings};
use crate::net::SharedBytesCounter;
use crate::net::fetch::{FetchId, FetchRequest};
use crate::net::http::{RequestReader, Response};
use crate::net::service::{
    Client, ConnectionId, Dropped, Effects, Event, Exchange, LoopTime, Message, Progress, Service,
};
use crate::node::{AheadRequest, HTTP, LocalRights, Node, ReadAhead, Start};
use crate::store::{Options, Store};

/// The job of a reader.
pub static JOB: Job = Job {
    argument: "helper-reader",
    purpose: "read ahead",
    consequence: "requests whose rows are not in memory keep others waiting",
    start_interval: Duration::from_secs(1),
    begin: |_| {
        let mut opened = None;
        Box::new(move |request| read(&mut opened, request).unwrap_or(0).to_le_bytes().to_vec())
    },
};

/// Poll token of the first reader; those of the others follow.
const FIRST_TOKEN: usize = 6;
/// Maximum number of readers.
pub const MAX_READERS: usize = 8;
/// Time after which a reader is replaced, and its request given to another one.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Steps after which a reader leaves the rest of a long answer.
const MAX_STEPS: usize = 1_000;

/// The readers of a node, with the connection whose request each reads.
pub struct Readers {
    helpers: Vec<(Helper, Option<ConnectionId>)>,
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

    /// Takes the results of the readers and gives them the next requests. `now` is the time since the start of the program.
    pub fn work(&mut self, ahead: &mut ReadAhead, now: Duration) {
        for (helper, reading) in &mut self.helpers {
            if reading.is_none() && !ahead.has_waiting() {
                continue;
            }
            let is_late = helper.asked_at().is_some_and(|asked_at| now >= asked_at + READ_TIMEOUT);
            let result = match helper.next_event() {
                Some(HelperEvent::Answer(answer)) => Some(answer.try_into().ok().map(u32::from_le_bytes)),
                Some(HelperEvent::Ended(_)) => Some(None),
                None => None,
            };
            if let Some(reads) = result
                && let Some(connection) = reading.take()
            {
                ahead.finish(connection, reads, now);
            }
            if is_late && let Some(connection) = reading.take() {
                helper.end();
                ahead.postpone(connection, now);
            }
            if reading.is_some() || !ahead.has_waiting() {
                continue;
            }
            helper.start(|| Ok(Some([Stdio::null(), Stdio::null()])), now);
            if helper.is_running()
                && let Some(AheadRequest { connection, bytes }) = ahead.next(now)
            {
                *reading = Some(connection);
                if helper.ask(&[&self.prefix, bytes.as_slice()].concat(), now).is_err() {
                    *reading = None;
                    ahead.finish(connection, None, now);
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

/// Answers a request and throws the answer away. Returns the number of reads from the disk.
fn read(opened: &mut Option<Opened>, request: &[u8]) -> Option<u32> {
    let end = request.iter().position(|byte| *byte == 0)?;
    let (folder, request) = (Path::new(std::ffi::OsStr::from_bytes(&request[..end])), &request[end + 1..]);
    let before = process::reads_from_disk();
    if opened.as_ref().is_none_or(|opened| opened.folder != folder) {
        *opened = Some(open(folder)?);
    }
    let Opened { store, settings, .. } = opened.as_ref()?;
    answer(store, settings, request)?;
    Some(u32::try_from(process::reads_from_disk() - before).unwrap_or(u32::MAX))
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

fn answer(store: &Store, settings: &Settings, request: &[u8]) -> Option<()> {
    let unix_millis = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_millis() as i64;
    let now = LoopTime { unix_millis, monotonic: process::uptime() };
    let local = LocalRights { addresses: settings.http.local.clone(), cookie: None };
    let shared = SharedBytesCounter::default();
    let start = Start { now, seed: &[0; 32], local, shared, import: None, listed: Vec::new(), saved: Vec::new() };
    let mut node = Node::new(store, settings, start).ok()?;
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
    }
    Some(())
}

/// Nothing that a handler does in a reader has an effect.
struct NoEffects;

impl Effects for NoEffects {
    fn send(&mut self, _: ConnectionId, _: Message<'_>) -> Result<(), Dropped> {
        Err(Dropped)
    }

    fn backlog(&self, _: ConnectionId) -> usize {
        0
    }

    fn close(&mut self, _: ConnectionId, _: u16, _: &str) {}

    fn resume(&mut self, _: ConnectionId) {}

    fn charge(&mut self, _: ConnectionId, _: u32) {}

    fn fetch(&mut self, _: FetchId, _: FetchRequest) {}

    fn cancel(&mut self, _: FetchId) {}

    fn wake_at(&mut self, _: Duration) {}
}
