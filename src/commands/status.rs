//! `nisd status`: status of a running node, or of its store while no node runs.

mod screen;

use std::io::{self, IsTerminal, Stdin, Stdout, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::{Map, Value, json};

use self::screen::text;
use super::peers::node_of;
use super::store::stored_network;
use super::{CommandError, Common, Stop, print};
use crate::clock::{NetworkClock, System};
use crate::config::Settings;
use crate::metrics::{Sample, Scrape};
use crate::store::{self, AccessMode, Options, Store, StoreError};
use crate::wallet::{NodeClient, NodeError};

/// Time between two queries of the node on a terminal.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// `nisd status`.
#[derive(Args, Debug)]
pub struct Status {
    /// Settings of the node to query, which include its address and the folder of its store
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Node to query [default: the one of the settings, or http://127.0.0.1:7890]
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "data"])]
    pub node: Option<String>,
    /// Folder of the chain store to show while no node runs on it
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Print all metrics as JSON
    #[arg(long)]
    pub json: bool,
    /// Print once and exit, also on a terminal
    #[arg(long)]
    pub once: bool,
    #[command(flatten)]
    pub common: Common,
}

/// The metrics to show, and where they come from.
struct StatusReport {
    /// The URL of the node.
    node: String,
    /// Folder of the store that was read because the node does not answer.
    store: Option<String>,
    metrics: Scrape,
}

/// Runs `nisd status`. Ends early when `stop` is set.
pub fn status(command: &Status, settings: &Settings, system: System, stop: Stop) -> Result<(), CommandError> {
    let (node, context) = node_of(command.node.as_deref(), settings)?;
    let of_store = |metrics| {
        let store = Some(settings.data.display().to_string());
        StatusReport { node: node.url(), store, metrics }
    };
    let seen = if command.data.is_some() && store::exists(&settings.data) && store::is_unlocked(&settings.data) {
        // Even if a node answers, it does not use this store.
        of_store(store_metrics(settings, system)?)
    } else {
        match node.metrics(context) {
            Ok(metrics) => StatusReport { node: node.url(), store: None, metrics },
            Err(error @ NodeError::NoAnswer { .. }) if command.node.is_none() => {
                match store_metrics(settings, system) {
                    Err(CommandError::Open(folder, StoreError::Empty)) => {
                        return Err(CommandError::NoNodeOrStore(error, folder));
                    }
                    read => of_store(read?),
                }
            }
            Err(error) => return Err(error.into()),
        }
    };
    let is_live = seen.store.is_none() && !command.json && !command.once;
    if is_live && io::stdout().is_terminal() && io::stdin().is_terminal() {
        return show_live(&node, context, seen, &stop).map_err(CommandError::output);
    }
    print(&if command.json { json_text(&seen) } else { text(&seen, None) })
}

/// Reads metrics from the store of the settings.
fn store_metrics(settings: &Settings, system: System) -> Result<Scrape, CommandError> {
    let folder = &settings.data;
    let opened = Store::open_existing(folder, AccessMode::Shared, Options { map_size: settings.node.map_size });
    let (store, network) = opened.map_err(|error| CommandError::Open(folder.clone(), error))?;
    let tip = store::tip(&store.snapshot()?)?.ok_or(StoreError::Empty)?;
    let network = stored_network(&network)?;
    let now = system.network_time(&NetworkClock::new(settings.node.clock, (system.millis)()));
    let metrics = store.metrics()?;
    let info = Sample { labels: vec![("network".to_owned(), network.name)], ..Sample::new("nisd_info", 1.0) };
    let known = [
        ("nisd_height", Some(tip.height.0)),
        ("nisd_store_bytes", metrics.bytes),
        ("nisd_store_map_bytes", Some(metrics.map_bytes)),
        ("nisd_store_map_used_bytes", Some(metrics.used_bytes)),
        ("nisd_disk_free_bytes", metrics.free_bytes),
        ("nisd_store_readers", metrics.readers.map(|readers| readers.reading as u64)),
        ("nisd_store_stale_readers", metrics.readers.map(|readers| readers.stale as u64)),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some(Sample::new(name, value? as f64)));
    let age = Sample::new("nisd_last_block_age_seconds", f64::from(now.0) - f64::from(tip.timestamp.0));
    Ok(Scrape { samples: [info, age].into_iter().chain(known).collect() })
}

/// Shows a node's metrics on a terminal until the user quits.
fn show_live(node: &NodeClient, context: &str, mut seen: StatusReport, stop: &Stop) -> io::Result<()> {
    let mut terminal = Terminal::enter()?;
    let (mut before, mut last_error): (Option<Scrape>, Option<NodeError>) = (None, None);
    loop {
        let mut shown = text(&seen, before.as_ref());
        if let Some(error) = &last_error {
            shown += &format!("\n{error}\n");
        }
        terminal.show(&(shown + "\nq quits\n"))?;
        let quits = terminal.wait(REFRESH_INTERVAL)?;
        if stop.load(Ordering::Relaxed) || quits {
            return Ok(());
        }
        last_error = match node.metrics(context) {
            Ok(metrics) => {
                before = Some(std::mem::replace(&mut seen.metrics, metrics));
                None
            }
            Err(error) => Some(error),
        };
    }
}

/// Formats all metrics as JSON: each is a number, or a list of objects if it has labels.
fn json_text(seen: &StatusReport) -> String {
    let mut metrics = Map::new();
    for sample in &seen.metrics.samples {
        if sample.labels.is_empty() {
            metrics.insert(sample.name.clone(), number(sample.value));
            continue;
        }
        let labels = sample.labels.iter().map(|(label, value)| (label.clone(), value.as_str().into()));
        let object: Map<String, Value> = labels.chain([("value".to_owned(), number(sample.value))]).collect();
        if let Value::Array(list) = metrics.entry(&sample.name).or_insert_with(|| json!([])) {
            list.push(object.into());
        }
    }
    let (source, place) = seen.store.as_ref().map_or(("node", &seen.node), |folder| ("store", folder));
    json!({ source: place, "metrics": metrics }).to_string() + "\n"
}

/// Returns a whole number as an integer.
fn number(value: f64) -> Value {
    const EXACT: f64 = (1u64 << 53) as f64;
    if value.fract() == 0.0 && value.abs() < EXACT { json!(value as i64) } else { json!(value) }
}

/// Enter and leave the alternate screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const TO_THE_TOP: &str = "\x1b[H";
const CLEAR_REST_OF_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";
/// The key that quits.
const QUIT: u8 = b'q';

/// The terminal of standard input and output. Dropping it restores the previous state.
struct Terminal {
    input: Stdin,
    output: Stdout,
    before: Termios,
}

impl Terminal {
    /// Takes over the terminal: keys are not echoed and arrive at once.
    fn enter() -> io::Result<Terminal> {
        let (input, mut output) = (io::stdin(), io::stdout());
        let before = tcgetattr(&input)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&input, OptionalActions::Now, &modes)?;
        output.write_all(ENTER.as_bytes())?;
        Ok(Terminal { input, output, before })
    }

    /// Replaces the shown text, cut to the size of the terminal.
    fn show(&mut self, text: &str) -> io::Result<()> {
        let size = tcgetwinsize(&self.output).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let (rows, columns) = size.map_or((24, 80), |size| (size.ws_row.into(), size.ws_col.into()));
        self.output.write_all(frame(text, rows, columns).as_bytes())?;
        self.output.flush()
    }

    /// Waits for a key, for at most `time`, or for a signal. Returns whether the user quits.
    fn wait(&mut self, time: Duration) -> io::Result<bool> {
        let time = Timespec::try_from(time).map_err(io::Error::other)?;
        let mut inputs = [PollFd::new(&self.input, PollFlags::IN)];
        match poll(&mut inputs, Some(&time)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            result => result?,
        };
        let mut keys = [0; 64];
        match rustix::io::read(&self.input, &mut keys) {
            // Without any byte the terminal is gone.
            Ok(count) => Ok(count == 0 || keys[..count].contains(&QUIT)),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // If the terminal is gone, neither is needed.
        let _ = self.output.write_all(LEAVE.as_bytes()).and_then(|()| self.output.flush());
        let _ = tcsetattr(&self.input, OptionalActions::Now, &self.before);
    }
}

/// Returns the text that draws over the previous one.
fn frame(text: &str, rows: usize, columns: usize) -> String {
    let cut = |line: &str| line.chars().take(columns).collect::<String>() + CLEAR_REST_OF_LINE;
    let lines: Vec<String> = text.lines().take(rows).map(cut).collect();
    // The last line has no line end, which would scroll the others up.
    TO_THE_TOP.to_owned() + &lines.join("\r\n") + CLEAR_BELOW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_numbers_or_lists_of_objects_in_json() {
        let page = "a 1\nb 0.5\nc{x=\"1\"} 2\nc{x=\"2\"} 3\n";
        let metrics = Scrape::parse(page).unwrap();
        let text = json_text(&StatusReport { node: "http://a".to_owned(), store: None, metrics });
        let value: Value = serde_json::from_str(&text).unwrap();
        let list = json!([{"x": "1", "value": 2}, {"x": "2", "value": 3}]);
        assert_eq!(value, json!({"node": "http://a", "metrics": {"a": 1, "b": 0.5, "c": list}}));
    }

    #[test]
    fn a_frame_fits_the_screen_and_clears_the_previous_one() {
        let frame = frame("abcdef\ngh\nij\n", 2, 4);
        assert_eq!(frame, "\x1b[Habcd\x1b[K\r\ngh\x1b[K\x1b[J");
    }
}
