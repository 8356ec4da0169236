//! `nisd watch`: payments and their undoing, from the event stream of a node, as lines, as JSON, or to a command.
//!
//! An event is handled completely before the next one is read: it is printed, then the command runs, and only then the
//! state file moves behind it. So no event is lost, whatever ends; the last one may come again.
//!
//! Before a command runs, its event goes into the state file. If everything ends before the command is known to have
//! succeeded, it runs again for that event, even if the block has been replaced meanwhile: then the stream, which goes on
//! behind the event, tells that it is undone. Without that, a stream that goes on before the event would not tell it at all,
//! and what the command has done would never be taken back.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::{CommandError, DEFAULT_NODE, Stop, height};
use crate::clock::System;
use crate::crypto::hash::keccak256_parts;
use crate::logging;
use crate::model::{Address, Hash256, Height, MosaicId, NetworkByte};
use crate::wallet::events::{
    Event, EventQuery, EventStream, MAX_EVENT_BYTES, Received, describe_event, describe_synchronisation, json_line,
};
use crate::wallet::{NodeClient, NodeError, values};

/// Addresses of one watch; a node takes no more in one stream.
const MAX_ADDRESSES: usize = 10_000;
/// Bytes of a file of addresses.
const MAX_ADDRESSES_BYTES: u64 = 2 * 1024 * 1024;
/// Bytes of a state file. Escapes at most double its event.
const MAX_STATE_BYTES: u64 = 2 * MAX_EVENT_BYTES as u64 + 64 * 1024;
/// Bytes of an id; a longer one could not be sent back.
const MAX_ID_BYTES: usize = 4096;
/// Shortest and longest pause before connecting again.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// A stream on which nothing arrives for this long is given up. A node sends something every 15 s.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// Time between two looks for a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Highest exit code of a command that ended by itself.
const MAX_EXIT_CODE: i32 = 128;
/// Name of the event that tells the state of the node, rather than of a payment.
const SYNCHRONISING: &str = "synchronising";

/// `nisd watch`.
#[derive(Args, Debug)]
pub struct Watch {
    /// Accounts to watch, with or without dashes [default: all accounts]
    #[arg(value_name = "ADDRESS")]
    pub addresses: Vec<String>,
    /// File with further addresses, one a line; empty lines and lines that begin with # are ignored
    #[arg(long, value_name = "FILE")]
    pub addresses_file: Option<PathBuf>,
    /// The node to use
    #[arg(long, value_name = "URL", default_value = DEFAULT_NODE)]
    pub node: String,
    /// Tell everything from this block on, 1 for the whole history [default: only what is new]
    #[arg(long, value_name = "HEIGHT", value_parser = height, allow_negative_numbers = true)]
    pub from: Option<Height>,
    /// Tell a transaction when its block has N confirmations; 0: as with 1, and also when it arrives unconfirmed
    /// [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub confirmations: Option<u32>,
    /// Kinds of events: transaction, block, unconfirmed, left [default: all but block]
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_parser = ["transaction", "block", "unconfirmed", "left"])]
    pub kinds: Vec<String>,
    /// Only transactions that move this mosaic; nem:xem for XEM
    #[arg(long, value_name = "NAMESPACE:NAME", value_parser = mosaic)]
    pub mosaic: Option<MosaicId>,
    /// Print each event as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Run this with sh for each event, with the event as a line of JSON on its standard input; if it fails, end
    #[arg(long, value_name = "COMMAND")]
    pub exec: Option<String>,
    /// Remember in this file which events are done, and continue there
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Continue from the state file although the addresses have changed; earlier events of added ones are not told
    #[arg(long, requires = "state")]
    pub addresses_changed: bool,
}

fn mosaic(text: &str) -> Result<MosaicId, String> {
    MosaicId::parse(text).map_err(|error| format!("{error}; a mosaic is written as namespace:name"))
}

/// Why a watch ended.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The command for an event failed.
    #[error("the command {} at the event {event}; {}", ended(*.status), next_run(*.has_state))]
    Failed { status: ExitStatus, event: String, has_state: bool },
    /// The command for an event could not be run.
    #[error("sh cannot be run for the event {0}: {1}")]
    NotRun(String, io::Error),
    /// The state file cannot be read or written.
    #[error("the state file {path}: {1}", path = .0.display())]
    State(PathBuf, io::Error),
    /// The state file does not have the form that this command writes.
    #[error("the state file {path} is not one of nisd watch ({1}); name another file, or remove it and say with --from \
             where to start", path = .0.display())]
    InvalidState(PathBuf, String),
    /// The state file belongs to a watch of another network.
    #[error("the state file {path} belongs to a watch on {found}, but the addresses are of {wanted}; name another file",
            path = .path.display())]
    OtherNetwork { path: PathBuf, found: String, wanted: String },
    /// The state file belongs to a watch of other addresses.
    #[error("the state file {path} belongs to a watch of other accounts ({found} then, {wanted} now). Name another \
             file, or continue with --addresses-changed: what happened to added addresses before the place in the file \
             is not told", path = .path.display())]
    OtherAddresses { path: PathBuf, found: String, wanted: String },
}

/// Describes how a command failed.
fn ended(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("failed with exit code {code}"),
        None => format!("was ended by a {status}"),
    }
}

fn next_run(has_state: bool) -> &'static str {
    match has_state {
        true => "the next run begins with this event",
        false => "with --state FILE the next run would begin with this event",
    }
}

/// The accounts of a watch, as its state file names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WatchedAccounts {
    /// Network byte of the addresses; `None` if all accounts are watched.
    network: Option<u8>,
    /// How many there are; 0 for all accounts.
    count: usize,
    /// Keccak-256 of the ordered addresses.
    digest: Hash256,
}

impl WatchedAccounts {
    fn of(addresses: &[Address], network: Option<NetworkByte>) -> WatchedAccounts {
        let parts: Vec<_> = addresses.iter().map(|address| address.as_str().as_bytes()).collect();
        let digest = Hash256(keccak256_parts(&parts));
        WatchedAccounts { network: network.map(|network| network.0), count: addresses.len(), digest }
    }
}

impl fmt::Display for WatchedAccounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 => f.write_str("all accounts"),
            1 => f.write_str("1 address"),
            count => write!(f, "{count} addresses"),
        }
    }
}

/// How far a watch has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Progress {
    /// Id of the last event that is done; `None` before the first one.
    id: Option<String>,
    /// The event whose command runs, or has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<Event>,
}

impl Progress {
    fn ids(&self) -> impl Iterator<Item = &str> {
        let of_event = self.event.as_ref().and_then(|event| event.id.as_deref());
        self.id.as_deref().into_iter().chain(of_event)
    }
}

/// The content of a state file.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    #[serde(flatten)]
    progress: Progress,
    watched: WatchedAccounts,
}

/// A state file, and what it is to contain.
#[derive(Debug)]
struct StateFile {
    path: PathBuf,
    watched: WatchedAccounts,
    /// What is in the file; nothing if there is none.
    saved: Progress,
}

impl StateFile {
    /// Reads a state file, if it exists, and checks that it can be written.
    fn open(path: &Path, watched: WatchedAccounts, addresses_changed: bool) -> Result<StateFile, WatchError> {
        let failed = |error| WatchError::State(path.to_owned(), error);
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(MAX_STATE_BYTES).read_to_end(&mut text));
        let saved = match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Progress::default(),
            read => {
                read.map_err(failed)?;
                StateFile::read(path, &text, &watched, addresses_changed)?
            }
        };
        let mut state = StateFile { path: path.to_owned(), watched, saved: Progress::default() };
        match saved == state.saved {
            false => state.save(&saved)?,
            true => drop(NamedTempFile::new_in(folder_of(path)).map_err(failed)?),
        }
        Ok(state)
    }

    fn read(
        path: &Path,
        text: &[u8],
        watched: &WatchedAccounts,
        addresses_changed: bool,
    ) -> Result<Progress, WatchError> {
        let path = path.to_owned();
        let State { progress, watched: found } = match serde_json::from_slice::<State>(text) {
            Ok(State { progress, .. }) if !progress.ids().all(is_id) => {
                return Err(WatchError::InvalidState(path, "its id".to_owned()));
            }
            Ok(state) => state,
            Err(error) => return Err(WatchError::InvalidState(path, error.to_string())),
        };
        if let (Some(before), Some(now)) = (found.network, watched.network)
            && before != now
        {
            let [found, wanted] = [before, now].map(|network| values::network_name(NetworkByte(network)));
            return Err(WatchError::OtherNetwork { path, found, wanted });
        }
        if found != *watched && !addresses_changed {
            let (found, wanted) = (found.to_string(), watched.to_string());
            return Err(WatchError::OtherAddresses { path, found, wanted });
        }
        Ok(progress)
    }

    /// Replaces the file by one with this progress, and waits until it is on the disk.
    fn save(&mut self, progress: &Progress) -> Result<(), WatchError> {
        if self.saved == *progress {
            return Ok(());
        }
        let state = State { progress: progress.clone(), watched: self.watched.clone() };
        let folder = folder_of(&self.path);
        let write = || -> io::Result<()> {
            let mut file = NamedTempFile::new_in(folder)?;
            serde_json::to_writer(&mut file, &state)?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(&self.path).map_err(|error| error.error)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|error| WatchError::State(self.path.clone(), error))?;
        self.saved = state.progress;
        Ok(())
    }
}

/// Returns the folder of a file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_id(id: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Runs `nisd watch` until `stop` is set.
pub fn watch(command: &Watch, system: System, stop: Stop) -> Result<(), CommandError> {
    let node = super::node(&command.node)?;
    let of_mempool = command.kinds.iter().find(|kind| matches!(kind.as_str(), "unconfirmed" | "left"));
    if let Some(kind) = of_mempool.filter(|_| command.confirmations != Some(0)) {
        return Err(CommandError::Usage(format!(
            "--kinds {kind} needs --confirmations 0: only then the mempool is told"
        )));
    }
    let (addresses, network) = addresses(command)?;
    let watched = WatchedAccounts::of(&addresses, network);
    let state = command.state.as_deref().map(|path| StateFile::open(path, watched, command.addresses_changed));
    let state = state.transpose()?;
    let query = EventQuery {
        addresses,
        from: command.from,
        confirmations: command.confirmations,
        kinds: command.kinds.clone(),
        mosaic: command.mosaic.clone(),
    };
    let progress = state.as_ref().map_or_else(Progress::default, |state| state.saved.clone());
    announce(&query, &node, network, progress.id.as_deref());
    let mut watcher = Watcher { command, system, stop, state, progress };
    if let Some(event) = watcher.progress.event.take() {
        note(&format!("the command for the event {} was not seen to succeed: it runs again", name(&event)));
        if !watcher.handle(event)? {
            return Ok(());
        }
    }
    watcher.run(&node, &query)
}

/// Returns the watched addresses in order, each once, and their network; none for all accounts.
fn addresses(command: &Watch) -> Result<(Vec<Address>, Option<NetworkByte>), CommandError> {
    let mut found = BTreeSet::new();
    let mut network = None;
    let mut add = |text: &str, place: &dyn Fn() -> String| {
        let usage = |reason: String| CommandError::Usage(format!("{}: {reason}", place()));
        let (address, its) = values::address(text).map_err(|error| usage(error.to_string()))?;
        let wanted = *network.get_or_insert(its);
        values::address_on(text, wanted).map_err(|error| usage(error.to_string()))?;
        found.insert(address);
        Ok::<(), CommandError>(())
    };
    for text in &command.addresses {
        add(text, &|| format!("{text:?}"))?;
    }
    if let Some(path) = &command.addresses_file {
        let text = read_text(path).map_err(|error| CommandError::File(path.clone(), error))?;
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        for (number, line) in lines {
            add(line, &|| format!("{}, line {number}", path.display()))?;
        }
        if found.is_empty() {
            return Err(CommandError::Usage(format!("{} has no addresses", path.display())));
        }
    }
    if found.len() > MAX_ADDRESSES {
        let count = found.len();
        return Err(CommandError::Usage(format!(
            "there are {count} addresses; a watch has at most {MAX_ADDRESSES}: use several, each with its own state file"
        )));
    }
    Ok((found.into_iter().collect(), network))
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_ADDRESSES_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_ADDRESSES_BYTES {
        true => Err(io::Error::other("it is too long for a list of addresses")),
        false => Ok(text),
    }
}

/// Says what is watched, and from where.
fn announce(query: &EventQuery, node: &NodeClient, network: Option<NetworkByte>, last_id: Option<&str>) {
    let accounts = match (query.addresses.as_slice(), network) {
        ([], _) | (_, None) => "all accounts".to_owned(),
        ([one], Some(network)) => format!("{one} on {}", values::network_name(network)),
        (several, Some(network)) => format!("{} addresses on {}", several.len(), values::network_name(network)),
    };
    let from = match (last_id, query.from) {
        (Some(id), None) => format!("after the event {id} of the state file"),
        (Some(id), Some(_)) => format!("after the event {id} of the state file, which --from does not change"),
        (None, Some(height)) => format!("from height {height}"),
        (None, None) => "from now on".to_owned(),
    };
    note(&format!("watching {accounts} at {}, {from}", node.url()));
}

/// Returns the name of an event for a person.
fn name(event: &Event) -> String {
    format!("{} {}", event.name, event.id.as_deref().unwrap_or("without an id"))
}

/// Writes a line about the watch, rather than about a payment, to standard error.
fn note(text: &str) {
    logging::eprint_line(text);
}

/// How the events of one connection ended.
enum Ended {
    /// A signal came.
    Stopped,
    /// The connection is lost, or none was made; there was an event if `had_event`.
    Lost { error: NodeError, had_event: bool },
}

/// A running watch.
struct Watcher<'a> {
    command: &'a Watch,
    system: System,
    stop: Stop,
    state: Option<StateFile>,
    progress: Progress,
}

impl Watcher<'_> {
    fn run(mut self, node: &NodeClient, query: &EventQuery) -> Result<(), CommandError> {
        let mut backoff = BACKOFF.0;
        let result = loop {
            match self.follow(node, query) {
                Ok(Ended::Lost { error, had_event }) => {
                    if had_event {
                        backoff = BACKOFF.0;
                    }
                    note(&format!("{error} (connecting again in {} s)", backoff.as_secs()));
                    self.pause(backoff);
                    backoff = (backoff * 2).min(BACKOFF.1);
                }
                Ok(Ended::Stopped) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if let (Err(CommandError::Node(NodeError::Refused { status: 400, .. })), Some(state), Some(id)) =
            (&result, &self.state, &self.progress.id)
        {
            let path = state.path.display();
            note(&format!("the id of the state file {path} was {id}; without that file, --from names the start"));
        }
        // Also after a failure: the events before it are done.
        let saved = self.save();
        result.and(saved)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sleeps, but not after a signal.
    fn pause(&self, time: Duration) {
        let end = (self.system.millis)().saturating_add(time.as_millis() as u64);
        while !self.is_stopped() && (self.system.millis)() < end {
            (self.system.sleep)(POLL_INTERVAL.min(time));
        }
    }

    /// Handles the events of one connection.
    fn follow(&mut self, node: &NodeClient, query: &EventQuery) -> Result<Ended, CommandError> {
        if self.is_stopped() {
            return Ok(Ended::Stopped);
        }
        let mut had_event = false;
        let mut stream = match node.events(query, self.progress.id.as_deref()) {
            Ok(stream) => stream,
            Err(error) => return lost(error, had_event),
        };
        let mut heard = (self.system.millis)();
        loop {
            let received = match stream.next(POLL_INTERVAL) {
                Ok(received) => received,
                Err(error) => return lost(error, had_event),
            };
            let now = (self.system.millis)();
            match received {
                Received::Nothing if now.saturating_sub(heard) >= MAX_SILENCE.as_millis() as u64 => {
                    return lost(stream.silent(MAX_SILENCE), had_event);
                }
                Received::Nothing => {}
                Received::Heartbeat => heard = now,
                Received::Event(event) => {
                    had_event = true;
                    if !self.handle_arrived(&mut stream, event)? {
                        return Ok(Ended::Stopped);
                    }
                    // A command may have taken long.
                    heard = (self.system.millis)();
                }
            }
            if self.is_stopped() {
                return Ok(Ended::Stopped);
            }
        }
    }

    /// Handles an event and all others that have arrived. Returns whether to continue.
    fn handle_arrived(&mut self, stream: &mut EventStream<'_>, first: Event) -> Result<bool, CommandError> {
        let mut next = Some(first);
        while let Some(event) = next {
            if self.is_stopped() {
                return Ok(false);
            }
            if event.id.as_deref().is_some_and(|id| !is_id(id)) {
                return Err(stream.invalid_event(&event, "its id is too long or not plain ASCII").into());
            }
            if !event.data.is_empty() && json_line(&event).is_none() {
                return Err(stream.invalid_event(&event, "its data are not JSON").into());
            }
            if !self.handle(event)? {
                return Ok(false);
            }
            next = stream.next_arrived();
        }
        self.save()?;
        Ok(true)
    }

    /// Prints an event and runs the command. Returns whether the event is done; it is not if a signal ended the command.
    fn handle(&mut self, event: Event) -> Result<bool, CommandError> {
        // An event without data only moves the id.
        if let Some(json) = json_line(&event) {
            self.print(&event, &json)?;
            if let Some(command) = self.command.exec.as_ref().filter(|_| event.name != SYNCHRONISING) {
                self.progress.event = Some(event.clone());
                self.save()?;
                if !self.execute(command, &event, &json)? {
                    return Ok(false);
                }
                self.progress.event = None;
            }
        }
        if event.id.is_some() {
            self.progress.id = event.id;
        }
        Ok(true)
    }

    fn print(&self, event: &Event, json: &str) -> Result<(), CommandError> {
        if event.name == SYNCHRONISING {
            note(&describe_synchronisation(event));
        }
        let line = if self.command.json { Some(json.to_owned()) } else { describe_event(event) };
        let Some(line) = line else { return Ok(()) };
        let mut output = io::stdout().lock();
        writeln!(output, "{line}").and_then(|()| output.flush()).map_err(CommandError::output)
    }

    /// Runs the command for an event. Returns whether it succeeded; `false` if it was ended together with this program.
    fn execute(&self, command: &str, event: &Event, json: &str) -> Result<bool, CommandError> {
        let not_run = |error| WatchError::NotRun(name(event), error);
        let mut process = Process::new("sh");
        // Ctrl-C on the terminal is for this program, which ends after the command.
        process.arg("-c").arg(command).stdin(Stdio::piped()).process_group(0);
        let mut child = process.spawn().map_err(not_run)?;
        if let Some(mut input) = child.stdin.take() {
            // A command need not read its input.
            let _ = input.write_all(json.as_bytes()).and_then(|()| input.write_all(b"\n"));
        }
        let status = child.wait().map_err(not_run)?;
        if status.success() {
            return Ok(true);
        }
        // A shell whose own command was ended by a signal has a higher exit code.
        if self.is_stopped() && status.code().is_none_or(|code| code > MAX_EXIT_CODE) {
            note(&format!("the command was stopped at the event {}", name(event)));
            return Ok(false);
        }
        let has_state = self.state.is_some();
        Err(WatchError::Failed { status, event: name(event), has_state }.into())
    }

    fn save(&mut self) -> Result<(), CommandError> {
        Ok(self.state.as_mut().map_or(Ok(()), |state| state.save(&self.progress))?)
    }
}

/// Decides whether to connect again after an error.
fn lost(error: NodeError, had_event: bool) -> Result<Ended, CommandError> {
    match error {
        NodeError::NoAnswer { .. } | NodeError::StreamEnded { .. } | NodeError::Refused { status: 429 | 500.., .. } => {
            Ok(Ended::Lost { error, had_event })
        }
        error => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::commands::{Command, CommandLine};

    const BOB: &str = "TDHLS73IXYZFFBPZWJFK3DVGUUQ2BBIGVUPE6BMZ";
    const SINK: &str = "TAMESPACEWH4MKFMBCVFERDPOOP4FK7MTDJEYP35";
    const SINK_ON_MAINNET: &str = "NAMESPACEWH4MKFMBCVFERDPOOP4FK7MTBXDPZZA";

    fn parsed(arguments: &[&str]) -> Watch {
        let line = CommandLine::parse(["nisd", "watch"].iter().chain(arguments), "").unwrap();
        let Command::Watch(watch) = line.command else { panic!("not watch") };
        watch
    }

    fn watched(arguments: &[&str]) -> WatchedAccounts {
        let (addresses, network) = addresses(&parsed(arguments)).unwrap();
        WatchedAccounts::of(&addresses, network)
    }

    fn usage_error(arguments: &[&str]) -> String {
        match addresses(&parsed(arguments)) {
            Err(CommandError::Usage(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn addresses_come_from_the_command_line_and_a_file_each_once() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("customers");
        fs::write(&file, format!("# customers\n\n{SINK}\r\nTDHLS7-3IXYZF-FBPZWJ-FK3DVG-UUQ2BB-IGVUPE-6BMZ\n")).unwrap();
        let file = file.to_str().unwrap();
        let both = watched(&[BOB, SINK]);
        assert_eq!((both.count, both.network), (2, Some(NetworkByte::TESTNET.0)));
        for arguments in
            [[SINK, BOB, BOB, BOB].as_slice(), &[BOB, "--addresses-file", file], &["--addresses-file", file]]
        {
            assert_eq!(watched(arguments), both, "{arguments:?}");
        }
        assert_ne!(watched(&[BOB]).digest, watched(&[SINK]).digest);
        assert_eq!(watched(&[]).to_string(), "all accounts");

        fs::write(file, format!("# nobody\n{SINK}\n{}\n", &BOB[1..])).unwrap();
        let wrong = usage_error(&["--addresses-file", file]);
        assert!(wrong.contains("customers, line 3: the address has 39 characters"), "{wrong}");
        fs::write(file, "# nobody\n").unwrap();
        assert!(usage_error(&["--addresses-file", file]).contains("has no addresses"));
        let mixed = usage_error(&[BOB, SINK_ON_MAINNET]);
        assert!(mixed.contains("mainnet") && mixed.contains("testnet"), "{mixed}");
    }

    #[test]
    fn a_state_file_keeps_the_last_id_and_what_it_belongs_to() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("state");
        let open = |watched: WatchedAccounts, changed| StateFile::open(&path, watched, changed);
        let mut state = open(watched(&[BOB]), false).unwrap();
        assert!(state.saved == Progress::default() && !path.exists());
        let event =
            Event { id: Some("7.1.ab".to_owned()), name: "transaction".to_owned(), data: "{\"a\": 1}".to_owned() };
        for (id, event) in [("7.0.ab", Some(event)), ("7.1.ab", None)] {
            let progress = Progress { id: Some(id.to_owned()), event };
            state.save(&progress).unwrap();
            assert_eq!(open(watched(&[BOB]), false).unwrap().saved, progress);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "temporary files stay behind");

        let error = open(watched(&[BOB, SINK]), false).unwrap_err().to_string();
        assert!(
            error.contains("(1 address then, 2 addresses now)") && error.contains("--addresses-changed"),
            "{error}"
        );
        let changed = open(watched(&[BOB, SINK]), true).unwrap();
        assert_eq!(changed.saved.id.as_deref(), Some("7.1.ab"));
        // It belongs to the new accounts now.
        assert!(open(watched(&[BOB, SINK]), false).is_ok());
        for changed in [false, true] {
            let error = open(watched(&[SINK_ON_MAINNET]), changed).unwrap_err().to_string();
            assert!(error.contains("a watch on testnet, but the addresses are of mainnet"), "{error}");
        }
        for text in ["", "7.1.ab", "{}", &fs::read_to_string(&path).unwrap().replace("7.1.ab", "7 1")] {
            fs::write(&path, text).unwrap();
            assert!(matches!(open(watched(&[BOB]), true), Err(WatchError::InvalidState(..))), "{text}");
        }
        let nowhere = folder.path().join("missing/state");
        assert!(matches!(StateFile::open(&nowhere, watched(&[]), false), Err(WatchError::State(..))));
    }

    #[test]
    fn a_lost_connection_is_made_again_and_a_rejection_is_final() {
        let refused =
            |status| NodeError::Refused { node: String::new(), route: "/events", status, words: String::new() };
        for status in [429, 500, 502, 503, 504] {
            assert!(lost(refused(status), false).is_ok(), "{status}");
        }
        for status in [400, 401, 403, 413] {
            assert!(lost(refused(status), false).is_err(), "{status}");
        }
        assert!(lost(NodeError::StreamEnded { node: String::new(), reason: String::new() }, true).is_ok());
        assert!(lost(NodeError::NoEvents { node: String::new() }, false).is_err());
    }
}
