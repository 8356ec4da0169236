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
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use rustix::process::{WaitOptions, wait};
use serde::{Deserialize, Serialize};

use super::{CommandError, DEFAULT_NODE, Stop, failed, height, in_file, not_text, shell_word, usage};
use crate::clock::System;
use crate::codec::text::text_of_file;
use crate::crypto::hash::keccak256_parts;
use crate::files::{self, Access};
use crate::logging::eprint_line;
use crate::model::{Address, Hash256, Height, MosaicId, NetworkByte};
use crate::wallet::events::{
    EVENTS, Event, EventStream, MAX_EVENT_BYTES, describe_event, describe_synchronisation, json_line,
};
use crate::wallet::{NodeClient, NodeError, values};

/// Addresses of one watch; a node takes no more in one stream.
const MAX_ADDRESSES: usize = 10_000;
/// Bytes of a file of addresses.
const MAX_ADDRESSES_BYTES: usize = 2 * 1024 * 1024;
/// Bytes of a state file. Escapes at most double its event.
const MAX_STATE_BYTES: usize = 2 * MAX_EVENT_BYTES + 64 * 1024;
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
/// Kinds of events of the chain, the first of them by default.
const TRANSACTION: &str = "transaction";
const BLOCK: &str = "block";

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
    /// Remember in this file which events are done, and continue there; it is for the same kinds and mosaic
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Continue from the state file although the addresses have changed; earlier events of added ones are not told
    #[arg(long, requires = "state")]
    pub addresses_changed: bool,
}

impl Watch {
    /// Returns path and query of the event stream. A stream that resumes after an event starts at no height.
    fn target(&self, is_resumed: bool) -> String {
        let parameters = [
            self.from.filter(|_| !is_resumed).map(|height| format!("from={height}")),
            self.confirmations.map(|count| format!("confirmations={count}")),
            (!self.kinds.is_empty()).then(|| format!("kinds={}", self.kinds.join(","))),
            self.mosaic.as_ref().map(|id| format!("mosaic={}", id.to_string().replace(' ', "%20"))),
        ];
        let query = parameters.into_iter().flatten().collect::<Vec<_>>().join("&");
        if query.is_empty() { EVENTS.to_owned() } else { format!("{EVENTS}?{query}") }
    }
}

fn mosaic(text: &str) -> Result<MosaicId, String> {
    MosaicId::parse(text).map_err(|error| format!("{error}; a mosaic is written as namespace:name"))
}

/// The accounts of a watch, as its state file names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WatchedAccounts {
    /// Network byte of the addresses; `None` if all accounts are watched.
    network: Option<NetworkByte>,
    /// How many there are; 0 for all accounts.
    count: usize,
    /// Keccak-256 of the ordered addresses.
    digest: Hash256,
}

impl WatchedAccounts {
    fn of(addresses: &[Address], network: Option<NetworkByte>) -> WatchedAccounts {
        let parts: Vec<_> = addresses.iter().map(|address| address.as_str().as_bytes()).collect();
        let digest = Hash256(keccak256_parts(&parts));
        WatchedAccounts { network, count: addresses.len(), digest }
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

/// Which events of the chain a watch tells, as its state file names them. Those of the mempool do not count: they have no
/// place at which a watch resumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WatchedEvents {
    /// Kinds in order, those of the default, too.
    kinds: BTreeSet<String>,
    /// The only mosaic whose transactions are told; `None` for all.
    mosaic: Option<String>,
}

impl WatchedEvents {
    fn of(command: &Watch) -> WatchedEvents {
        let kinds = if command.kinds.is_empty() { &[TRANSACTION.to_owned()] } else { command.kinds.as_slice() };
        let kinds = kinds.iter().filter(|kind| [TRANSACTION, BLOCK].contains(&kind.as_str())).cloned().collect();
        WatchedEvents { kinds, mosaic: command.mosaic.as_ref().map(MosaicId::to_string) }
    }
}

impl fmt::Display for WatchedEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<_> = self.kinds.iter().map(String::as_str).collect();
        write!(f, "--kinds {}", if kinds.is_empty() { "of the mempool".to_owned() } else { kinds.join(",") })?;
        self.mosaic.iter().try_for_each(|mosaic| write!(f, " --mosaic {}", shell_word(mosaic)))
    }
}

/// How far a watch has come, and what it belongs to: the content of a state file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    /// Id of the last event that is done; `None` before the first one.
    id: Option<String>,
    /// The event whose command runs, or has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<Event>,
    watched: WatchedAccounts,
    /// `None` in a file of an earlier version.
    #[serde(default)]
    events: Option<WatchedEvents>,
}

impl State {
    /// Returns the state of a watch that begins.
    fn new(watched: WatchedAccounts, events: WatchedEvents) -> State {
        State { id: None, event: None, watched, events: Some(events) }
    }

    /// Reads a state file if it exists, for a watch that begins or continues. An empty one is no state: a file that is to be
    /// mounted alone exists before the watch begins. It may also be what a crash has left, so the user must name the start.
    fn read(path: &Path, new: State, addresses_changed: bool, names_start: bool) -> Result<State, CommandError> {
        // Also the missing target of a link will be created.
        if matches!(path.try_exists(), Ok(false)) {
            return Ok(new);
        }
        let unusable = |error| wrong_state(path, format!(": {}", files::explain(&error, Some(path))));
        let text = files::read(path, MAX_STATE_BYTES).map_err(unusable)?;
        if text.trim_ascii().is_empty() {
            let reason = " is empty, which may be the work of a crash: say with --from where to start".to_owned();
            return if names_start { Ok(new) } else { Err(wrong_state(path, reason)) };
        }
        let State { watched, events, .. } = new;
        let invalid = |reason: String| {
            let advice = "name another file, or remove it and say with --from where to start";
            wrong_state(path, format!(" is not one of nisd watch ({reason}); {advice}"))
        };
        let text = text_of_file(&text).map_err(|error| invalid(error.to_string()))?;
        let found: State = serde_json::from_str(text).map_err(|error| invalid(error.to_string()))?;
        let of_event = found.event.as_ref().and_then(|event| event.id.as_deref());
        if !found.id.as_deref().into_iter().chain(of_event).all(is_id) {
            return Err(invalid("its id".to_owned()));
        }
        if let (Some(before), Some(now)) = (found.watched.network, watched.network)
            && before != now
        {
            let [before, now] = [before, now].map(values::network_name);
            let reason = format!(" belongs to a watch on {before}, but the addresses are of {now}; name another file");
            return Err(wrong_state(path, reason));
        }
        if found.watched != watched && !addresses_changed {
            let reason = format!(
                " belongs to a watch of other accounts ({} then, {watched} now). Name another file, or continue with \
                 --addresses-changed: what happened to added addresses before the place in the file is not told",
                found.watched
            );
            return Err(wrong_state(path, reason));
        }
        if let (Some(before), Some(now)) = (&found.events, &events)
            && before != now
        {
            let reason = format!(
                " belongs to a watch of other events ({before} then, {now} now), which would pass over some without a \
                 word. Give the same kinds and mosaic, or name another file and say with --from where to start"
            );
            return Err(wrong_state(path, reason));
        }
        Ok(State { watched, events, ..found })
    }

    /// Replaces the file to which the path leads, and waits until it is on the disk.
    fn write(&self, path: &Path) -> Result<(), CommandError> {
        let written = serde_json::to_vec(self).map_err(io::Error::from);
        let written = written.and_then(|text| files::replace_named(path, &[&text, b"\n"]));
        written.map_err(|error| wrong_state(path, format!(": {}", files::explain(&error, Some(path)))))
    }
}

/// Returns locked files, which keep other processes from watching with the same state file: they would run its commands
/// again. The state file is replaced by each write, so that one beside it is locked, too; where it cannot be replaced, there
/// may be no file beside it that others see.
fn lock_state(path: &Path) -> Result<Vec<File>, CommandError> {
    let unusable = |error| wrong_state(path, format!(": {}", files::describe(&error)));
    let state_file = files::link_target(path);
    let mut beside = state_file.clone().into_os_string();
    beside.push(".lock");
    let state = match files::open_own(&state_file, Access::Change) {
        Err(error) if error.kind() == ErrorKind::NotFound || is_denied(&error) => None,
        opened => Some(opened.map_err(unusable)?),
    };
    let beside = match files::open_own(Path::new(&beside), Access::Create) {
        // Nothing can be replaced in this folder either. A lock needs no right to write.
        Err(error) if is_denied(&error) => {
            files::if_present(files::open_own(Path::new(&beside), Access::Read)).map_err(unusable)?
        }
        opened => Some(opened.map_err(unusable)?),
    };
    let locked: Vec<File> = beside.into_iter().chain(state).collect();
    for file in &locked {
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                wrong_state(path, " is in use: another nisd watch runs with it; name another file".to_owned())
            }
            TryLockError::Error(error) => unusable(error),
        })?;
    }
    Ok(locked)
}

/// Returns whether the system does not allow this process to create or change a file.
fn is_denied(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
}

fn wrong_state(path: &Path, reason: String) -> CommandError {
    failed(format!("the state file {}{reason}", path.display()))
}

fn is_id(id: &str) -> bool {
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Runs `nisd watch` until `stop` is set.
pub fn watch(command: &Watch, system: System, stop: Stop) -> Result<(), CommandError> {
    let node = super::node(&command.node, None)?;
    let of_mempool = command.kinds.iter().find(|kind| matches!(kind.as_str(), "unconfirmed" | "left"));
    if let Some(kind) = of_mempool.filter(|_| command.confirmations != Some(0)) {
        return Err(usage(format!("--kinds {kind} needs --confirmations 0: only then the mempool is told")));
    }
    let (addresses, network) = addresses(command)?;
    let new = State::new(WatchedAccounts::of(&addresses, network), WatchedEvents::of(command));
    let _lock = command.state.as_deref().map(lock_state).transpose()?;
    let state = match &command.state {
        Some(path) => State::read(path, new, command.addresses_changed, command.from.is_some())?,
        None => new,
    };
    announce(command, &addresses, &node, &state);
    let mut watcher = Watcher { command, system, stop, state, saved: None, backoff: BACKOFF.0 };
    // A file that cannot be written is noticed before the first event.
    watcher.save()?;
    if let Some(event) = watcher.state.event.take() {
        eprint_line(&format!("the command for the event {} was not seen to succeed: it runs again", name(&event)));
        if !watcher.handle(event)? {
            return Ok(());
        }
    }
    watcher.run(&node, &addresses)
}

/// Returns the watched addresses in order, each once, and their network; none for all accounts.
fn addresses(command: &Watch) -> Result<(Vec<Address>, Option<NetworkByte>), CommandError> {
    let mut given: Vec<(String, String)> =
        command.addresses.iter().map(|text| (format!("{text:?}"), text.clone())).collect();
    if let Some(path) = &command.addresses_file {
        let text = files::read(path, MAX_ADDRESSES_BYTES).map_err(in_file(path))?;
        let text = text_of_file(&text).map_err(not_text(path))?;
        let path = path.display();
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        given.extend(lines.map(|(number, line)| (format!("{path}, line {number}"), line.to_owned())));
        if given.is_empty() {
            return Err(usage(format!("{path} has no addresses")));
        }
    }
    let (mut found, mut network) = (BTreeSet::new(), None);
    for (place, text) in given {
        let wrong = |reason: String| usage(format!("{place}: {reason}"));
        let (_, its) = values::address(&text).map_err(wrong)?;
        let wanted = *network.get_or_insert(its);
        found.insert(values::address_on(&text, wanted).map_err(wrong)?);
    }
    if found.len() > MAX_ADDRESSES {
        let count = found.len();
        return Err(usage(format!(
            "there are {count} addresses; a watch has at most {MAX_ADDRESSES}: use several, each with its own state file"
        )));
    }
    Ok((found.into_iter().collect(), network))
}

/// Says what is watched, and from where. The network is not named: several may have the same byte.
fn announce(command: &Watch, addresses: &[Address], node: &NodeClient, State { id, watched, .. }: &State) {
    let accounts = if let [one] = addresses { one.to_string() } else { watched.to_string() };
    let from = match (id, command.from) {
        (Some(id), None) => format!("after the event {id} of the state file"),
        (Some(id), Some(_)) => format!("after the event {id} of the state file, which --from does not change"),
        (None, Some(height)) => format!("from height {height}"),
        (None, None) => "from now on".to_owned(),
    };
    eprint_line(&format!("watching {accounts} at {}, {from}", node.url()));
}

/// Returns the name of an event for a person.
fn name(event: &Event) -> String {
    format!("{} {}", event.name, event.id.as_deref().unwrap_or("without an id"))
}

/// A running watch.
struct Watcher<'a> {
    command: &'a Watch,
    system: System,
    stop: Stop,
    state: State,
    /// What is in the state file.
    saved: Option<State>,
    /// Pause before the next connection.
    backoff: Duration,
}

impl Watcher<'_> {
    fn run(mut self, node: &NodeClient, addresses: &[Address]) -> Result<(), CommandError> {
        let result = loop {
            match self.follow(node, addresses) {
                Ok(()) => break Ok(()),
                Err(CommandError::Node(error)) if is_lost(&error) => {
                    eprint_line(&format!("{error} (connecting again in {} s)", self.backoff.as_secs()));
                    self.pause(self.backoff);
                    self.backoff = (self.backoff * 2).min(BACKOFF.1);
                }
                Err(error) => break Err(error),
            }
        };
        if let (Err(CommandError::Node(NodeError::Rejected { status: 400, .. })), Some(path), Some(id)) =
            (&result, &self.command.state, &self.state.id)
        {
            let path = path.display();
            eprint_line(&format!(
                "the id of the state file {path} was {id}; without that file, --from names the start"
            ));
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

    /// Handles the events of one connection until a signal comes. Its loss is an error.
    fn follow(&mut self, node: &NodeClient, addresses: &[Address]) -> Result<(), CommandError> {
        if self.is_stopped() {
            return Ok(());
        }
        let last_id = self.state.id.as_deref();
        let mut stream = node.events(&self.command.target(last_id.is_some()), addresses, last_id)?;
        let mut heard = (self.system.millis)();
        while !self.is_stopped() {
            if let Some(event) = stream.reader.next_event() {
                self.backoff = BACKOFF.0;
                check(&stream, &event)?;
                if !self.handle(event)? {
                    break;
                }
                // A command may have taken long.
                heard = (self.system.millis)();
                continue;
            }
            self.save()?;
            let has_arrived = stream.receive(POLL_INTERVAL)?;
            let now = (self.system.millis)();
            if has_arrived {
                heard = now;
            } else if now.saturating_sub(heard) >= MAX_SILENCE.as_millis() as u64 {
                // Not even a heartbeat.
                return Err(stream.ended(format!("nothing received for {} s", MAX_SILENCE.as_secs())).into());
            }
        }
        Ok(())
    }

    /// Prints an event and runs the command. Returns whether the event is done; it is not if a signal ended the command.
    fn handle(&mut self, event: Event) -> Result<bool, CommandError> {
        // An event without data only moves the id.
        if let Some(json) = json_line(&event) {
            self.print(&event, &json)?;
            if let Some(command) = self.command.exec.as_ref().filter(|_| event.name != SYNCHRONISING) {
                self.state.event = Some(event.clone());
                self.save()?;
                if !self.execute(command, &event, &json)? {
                    return Ok(false);
                }
                self.state.event = None;
            }
        }
        if event.id.is_some() {
            self.state.id = event.id;
        }
        Ok(true)
    }

    fn print(&self, event: &Event, json: &str) -> Result<(), CommandError> {
        if event.name == SYNCHRONISING {
            eprint_line(&describe_synchronisation(event));
        }
        let line = if self.command.json { Some(json.to_owned()) } else { describe_event(event) };
        line.map_or(Ok(()), |line| super::print(&format!("{line}\n")))
    }

    /// Runs the command for an event. Returns whether it succeeded; `false` if it was ended together with this program.
    fn execute(&self, command: &str, event: &Event, json: &str) -> Result<bool, CommandError> {
        let not_run = |error| failed(format!("sh cannot be run for the event {}: {error}", name(event)));
        let mut process = Process::new("sh");
        // Ctrl-C on the terminal is for this program, which ends after the command.
        process.arg("-c").arg(command).stdin(Stdio::piped()).process_group(0);
        let mut child = process.spawn().map_err(not_run)?;
        if let Some(mut input) = child.stdin.take() {
            // A command need not read its input.
            let _ = input.write_all(json.as_bytes()).and_then(|()| input.write_all(b"\n"));
        }
        let status = child.wait().map_err(not_run)?;
        // The first process of a container is the parent of what the command has left behind.
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        if status.success() {
            return Ok(true);
        }
        // A shell whose own command was ended by a signal has a higher exit code.
        if self.is_stopped() && status.code().is_none_or(|code| code > MAX_EXIT_CODE) {
            eprint_line(&format!("the command was stopped at the event {}", name(event)));
            return Ok(false);
        }
        let ended = match status.code() {
            Some(code) => format!("failed with exit code {code}"),
            None => format!("was ended by a {status}"),
        };
        let next_run = match &self.command.state {
            Some(_) => "the next run begins with this event",
            None => "with --state FILE the next run would begin with this event",
        };
        Err(failed(format!("the command {ended} at the event {}; {next_run}", name(event))))
    }

    fn save(&mut self) -> Result<(), CommandError> {
        if let Some(path) = &self.command.state
            && self.saved.as_ref() != Some(&self.state)
        {
            self.state.write(path)?;
            self.saved = Some(self.state.clone());
        }
        Ok(())
    }
}

/// Rejects an event whose id could not be sent back, or whose data are not JSON.
fn check(stream: &EventStream<'_>, event: &Event) -> Result<(), CommandError> {
    if event.id.as_deref().is_some_and(|id| !is_id(id)) {
        return Err(stream.invalid_event(event, "its id is too long or not plain ASCII").into());
    }
    if !event.data.is_empty() && json_line(event).is_none() {
        return Err(stream.invalid_event(event, "its data are not JSON").into());
    }
    Ok(())
}

/// Returns whether to connect again after an error.
fn is_lost(error: &NodeError) -> bool {
    matches!(
        error,
        NodeError::NoAnswer { .. } | NodeError::StreamEnded { .. } | NodeError::Rejected { status: 429 | 500.., .. }
    )
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
        assert_eq!((both.count, both.network), (2, Some(NetworkByte::TESTNET)));
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
    fn a_query_names_only_what_differs_from_the_defaults() {
        assert_eq!(parsed(&[]).target(false), "/events");
        let set = ["--from", "5", "--confirmations", "0", "--kinds", "block,transaction"];
        let watch = parsed(&[set.as_slice(), &["--mosaic", "a.b:gift vouchers"]].concat());
        let rest = "confirmations=0&kinds=block,transaction&mosaic=a.b:gift%20vouchers";
        assert_eq!(watch.target(false), format!("/events?from=5&{rest}"));
        assert_eq!(watch.target(true), format!("/events?{rest}"));
    }

    #[test]
    fn a_state_file_keeps_the_last_id_and_what_it_belongs_to() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("state");
        let new = |watched| State::new(watched, WatchedEvents::of(&parsed(&[])));
        let open = |watched: WatchedAccounts, changed| State::read(&path, new(watched), changed, false);
        let state = open(watched(&[BOB]), false).unwrap();
        assert_eq!(state, new(watched(&[BOB])));
        let event =
            Event { id: Some("7.1.ab".to_owned()), name: "transaction".to_owned(), data: "{\"a\": 1}".to_owned() };
        for (id, event) in [("7.0.ab", Some(event)), ("7.1.ab", None)] {
            let state = State { id: Some(id.to_owned()), event, ..state.clone() };
            state.write(&path).unwrap();
            assert_eq!(open(watched(&[BOB]), false).unwrap(), state);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "temporary files stay behind");

        let error = open(watched(&[BOB, SINK]), false).unwrap_err().to_string();
        assert!(
            error.contains("(1 address then, 2 addresses now)") && error.contains("--addresses-changed"),
            "{error}"
        );
        let changed = open(watched(&[BOB, SINK]), true).unwrap();
        assert_eq!(changed.id.as_deref(), Some("7.1.ab"));
        // It belongs to the new accounts from the first write on.
        changed.write(&path).unwrap();
        assert!(open(watched(&[BOB, SINK]), false).is_ok());
        for changed in [false, true] {
            let error = open(watched(&[SINK_ON_MAINNET]), changed).unwrap_err().to_string();
            assert!(error.contains("a watch on testnet, but the addresses are of mainnet"), "{error}");
        }
        for text in ["7.1.ab", "{}", &fs::read_to_string(&path).unwrap().replace("7.1.ab", "7 1")] {
            fs::write(&path, text).unwrap();
            let error = open(watched(&[BOB]), true).unwrap_err().to_string();
            assert!(error.contains("is not one of nisd watch"), "{text}: {error}");
        }
        assert!(new(watched(&[])).write(&folder.path().join("missing/state")).is_err());
    }

    #[test]
    fn an_empty_state_file_is_a_beginning_only_if_the_user_says_where() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("state");
        let new = State::new(watched(&[BOB]), WatchedEvents::of(&parsed(&[])));
        for text in ["", "\n"] {
            fs::write(&path, text).unwrap();
            assert_eq!(State::read(&path, new.clone(), false, true).unwrap(), new);
            let error = State::read(&path, new.clone(), false, false).unwrap_err().to_string();
            assert!(error.contains("state is empty") && error.contains("--from"), "{error}");
        }
    }

    #[test]
    fn a_state_file_is_for_the_same_kinds_of_the_chain_and_the_same_mosaic() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("state");
        let new = |arguments: &[&str]| State::new(watched(&[BOB]), WatchedEvents::of(&parsed(arguments)));
        let open = |arguments: &[&str]| State::read(&path, new(arguments), true, false);
        let mempool = ["--kinds", "transaction,left", "--confirmations", "0"];
        let of_mempool = ["--kinds", "unconfirmed", "--confirmations", "0"];
        let (default, block, xem) = (&[][..], &["--kinds", "block"][..], &["--mosaic", "nem:xem"][..]);
        let both = &["--kinds", "block,transaction"][..];
        for (first, same, other) in [
            (default, &[default, &["--kinds", "transaction"], &mempool][..], &[block, both, xem, &of_mempool][..]),
            (both, &[&["--kinds", "transaction,block,block"]], &[default, block]),
            (xem, &[&["--mosaic", "nem:xem", "--kinds", "transaction"]], &[default, &["--mosaic", "nem:other"]]),
            (&of_mempool, &[&["--kinds", "left", "--confirmations", "0"]], &[default, block]),
        ] {
            new(first).write(&path).unwrap();
            for arguments in same {
                assert_eq!(open(arguments).unwrap(), new(first), "{first:?} {arguments:?}");
            }
            for arguments in other {
                let error = open(arguments).expect_err("other events").to_string();
                let [then, now] = [first, arguments].map(|arguments| WatchedEvents::of(&parsed(arguments)));
                assert!(error.contains(&format!("({then} then, {now} now)")) && error.contains("--from"), "{error}");
            }
        }
        let text = WatchedEvents::of(&parsed(&["--kinds", "transaction,block", "--mosaic", "a.b:gift vouchers"]));
        assert_eq!(text.to_string(), "--kinds block,transaction --mosaic 'a.b:gift vouchers'");
        // A file of an earlier version does not name them, and does from the first write on.
        let earlier = State { events: None, ..new(default) };
        let mut earlier = serde_json::to_value(earlier).unwrap();
        earlier.as_object_mut().unwrap().remove("events").expect("a member");
        fs::write(&path, earlier.to_string()).unwrap();
        let continued = open(block).unwrap();
        continued.write(&path).unwrap();
        assert!(open(block).is_ok() && open(default).is_err());
    }

    #[test]
    fn a_lost_connection_is_made_again_and_a_rejection_is_final() {
        let rejected =
            |status| NodeError::Rejected { node: String::new(), route: "/events", status, words: String::new() };
        for status in [429, 500, 502, 503, 504] {
            assert!(is_lost(&rejected(status)), "{status}");
        }
        for status in [400, 401, 403, 413] {
            assert!(!is_lost(&rejected(status)), "{status}");
        }
        assert!(is_lost(&NodeError::StreamEnded { node: String::new(), reason: String::new() }));
        assert!(!is_lost(&NodeError::Unusable(String::new())));
    }
}
