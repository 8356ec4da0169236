//! `nisd status`: status of a running node, or of its store while no node runs.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::{Map, Value, json};

use super::peers::{duration, no_node, node_of};
use super::store::stored_network;
use super::{
    CommandError, Common, StandardOutput, Stop, failed, in_store, node_flag, print, print_json, shell_word,
    store_options,
};
use crate::clock::{NetworkClock, System};
use crate::config::Settings;
use crate::logging;
use crate::metrics::{Sample, Scrape};
use crate::progress::Thousands;
use crate::store::{self, AccessMode, Store, StoreError};
use crate::wallet::{NodeClient, NodeError, printable};

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
    /// Folder of the node to query, or of the chain store to show while no node runs on it
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
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
    /// The flag that names its folder in a command to copy, after a blank; empty if the folder is not known.
    data_flag: String,
    metrics: Scrape,
    /// The metrics before these, for rates.
    before: Option<Scrape>,
}

/// Runs `nisd status`. Ends early when `stop` is set.
pub fn status(command: &Status, settings: &Settings, system: System, stop: Stop) -> Result<(), CommandError> {
    let node = node_of(command.node.as_deref(), command.data.is_some(), settings)?;
    // Even if a node answers, it does not use this store.
    let is_unused = command.data.is_some() && store::exists(&settings.data) && store::is_unlocked(&settings.data);
    let answer = node.as_ref().filter(|_| !is_unused).map(NodeClient::metrics);
    let (store, metrics) = match answer {
        Some(Ok(metrics)) => (None, metrics),
        Some(Err(error)) if command.node.is_some() || !matches!(error, NodeError::NoAnswer { .. }) => {
            return Err(error.into());
        }
        no_answer => match (store_metrics(settings, system), no_answer) {
            (Err(CommandError::Open(folder, StoreError::Empty)), no_answer) => {
                let (others, folder) = (stores_beside(&folder), folder.display());
                let answer = match no_answer {
                    Some(Err(error)) => error.to_string(),
                    _ => format!("No node runs on {folder}."),
                };
                return Err(failed(format!(
                    "{answer} There is no store in {folder} either{others}: `nisd run` starts a node; --config, --node or \
                     --data name another"
                )));
            }
            (read, _) => (Some(settings.data.display().to_string()), read?),
        },
    };
    if node.is_none() && store::is_in_use(&settings.data) {
        logging::eprint_line(&no_node(&settings.data));
    }
    let knows_folder = command.data.is_some() || command.config.is_some();
    let data_flag = knows_folder.then(|| format!(" --data {}", shell_word(settings.data.display())));
    let seen = StatusReport {
        node: node.as_ref().map(NodeClient::url).unwrap_or_default(),
        store,
        data_flag: data_flag.unwrap_or_default(),
        metrics,
        before: None,
    };
    let is_live = seen.store.is_none() && !command.json && !command.once;
    if let Some(node) = node.filter(|_| is_live && logging::is_screen(&io::stdout()) && io::stdin().is_terminal()) {
        return show_live(&node, seen, &stop).map_err(CommandError::output);
    }
    if command.json { print_json(&json_text(&seen)) } else { print(&text(&seen)) }
}

/// Returns a remark that names the stores beside a folder, as those of other networks.
fn stores_beside(folder: &Path) -> String {
    let beside = folder.parent().into_iter().filter_map(|parent| fs::read_dir(parent).ok()).flatten().flatten();
    let stores = beside.map(|entry| entry.path()).filter(|path| store::size(path).is_ok());
    let mut stores: Vec<_> = stores.map(|path| path.display().to_string()).collect();
    stores.sort_unstable();
    if stores.is_empty() { String::new() } else { format!(", but in {}", stores.join(" and ")) }
}

/// Reads metrics from the store of the settings.
fn store_metrics(settings: &Settings, system: System) -> Result<Scrape, CommandError> {
    let folder = &settings.data;
    let opened = Store::open_existing(folder, AccessMode::Shared, store_options(settings));
    let (store, network) = opened.map_err(in_store(folder))?;
    let tip = store::tip(&store.snapshot()?)?.ok_or(StoreError::Empty)?;
    let network = stored_network(&network, None)?;
    let now = system.network_time(&NetworkClock::new(settings.node.clock, (system.millis)()));
    let metrics = store.metrics()?;
    let info = Sample { labels: vec![("network".to_owned(), network.name)], ..Sample::new("nisd_info", 1.0) };
    let known = [
        ("nisd_height", Some(tip.height.0)),
        ("nisd_store_bytes", metrics.bytes),
        ("nisd_store_map_bytes", Some(metrics.map_bytes)),
        ("nisd_store_map_used_bytes", Some(metrics.used_bytes)),
        ("nisd_disk_free_bytes", metrics.free_bytes),
        ("nisd_store_readers", metrics.readers.map(|readers| readers as u64)),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some(Sample::new(name, value? as f64)));
    let age = Sample::new("nisd_last_block_age_seconds", f64::from(now.0) - f64::from(tip.timestamp.0));
    Ok(Scrape { samples: [info, age].into_iter().chain(known).collect() })
}

/// Shows a node's metrics on a terminal until the user quits.
fn show_live(node: &NodeClient, mut seen: StatusReport, stop: &Stop) -> io::Result<()> {
    let mut terminal = Terminal::enter()?;
    let mut last_error: Option<NodeError> = None;
    loop {
        let mut shown = text(&seen);
        if let Some(error) = &last_error {
            shown += &format!("\n{error}\n");
        }
        terminal.show(&(shown + "\nq quits\n"))?;
        let key = terminal.wait(REFRESH_INTERVAL)?;
        if stop.load(Ordering::Relaxed) || key == Some(QUIT) {
            return Ok(());
        }
        if key == Some(SUSPEND) {
            // The shell has its terminal until it continues this program.
            drop(terminal);
            kill_current_process_group(Signal::TSTP)?;
            terminal = Terminal::enter()?;
        }
        let update = |metrics| seen.before = Some(std::mem::replace(&mut seen.metrics, metrics));
        last_error = node.metrics().map(update).err();
    }
}

/// Formats all metrics as JSON: each is a number, or a list of objects if it has labels.
fn json_text(seen: &StatusReport) -> String {
    let mut metrics = Map::new();
    for sample in &seen.metrics.samples {
        if sample.labels.is_empty() {
            metrics.insert(sample.name.clone(), json_number(sample.value));
            continue;
        }
        let labels = sample.labels.iter().map(|(label, value)| (label.clone(), value.as_str().into()));
        let object: Map<String, Value> = labels.chain([("value".to_owned(), json_number(sample.value))]).collect();
        if let Value::Array(list) = metrics.entry(&sample.name).or_insert_with(|| json!([])) {
            list.push(object.into());
        }
    }
    let (source, place) = seen.store.as_ref().map_or(("node", &seen.node), |folder| ("store", folder));
    json!({ source: place, "metrics": metrics }).to_string()
}

/// Returns a whole number as an integer.
fn json_number(value: f64) -> Value {
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
/// Ctrl-Z, which stops the program.
const SUSPEND: u8 = 0x1a;

/// The terminal of standard input and output. Dropping it restores the previous state.
struct Terminal {
    /// Its state before.
    before: Termios,
}

impl Terminal {
    /// Takes over the terminal: keys are not echoed and arrive at once, Ctrl-Z too.
    fn enter() -> io::Result<Terminal> {
        let before = tcgetattr(io::stdin())?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
        StandardOutput.write_all(ENTER.as_bytes())?;
        Ok(Terminal { before })
    }

    /// Replaces the shown text, cut to the size of the terminal.
    fn show(&self, text: &str) -> io::Result<()> {
        let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let (rows, columns) = size.map_or((24, 80), |size| (size.ws_row.into(), size.ws_col.into()));
        StandardOutput.write_all(frame(text, rows, columns).as_bytes()).and_then(|()| StandardOutput.flush())
    }

    /// Waits for a key, for at most `time`, or for a signal. Returns the first that has a meaning.
    fn wait(&self, time: Duration) -> io::Result<Option<u8>> {
        let input = io::stdin();
        if logging::wait_until_ready(&input, PollFlags::IN, time)? != Some(true) {
            return Ok(None);
        }
        let mut keys = [0; 64];
        match rustix::io::read(&input, &mut keys) {
            // Without any byte the terminal is gone.
            Ok(0) => Ok(Some(QUIT)),
            Ok(count) => Ok(keys[..count].iter().copied().find(|key| [QUIT, SUSPEND].contains(key))),
            Err(Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // If the terminal is gone, neither is needed.
        let _ = StandardOutput.write_all(LEAVE.as_bytes()).and_then(|()| StandardOutput.flush());
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Returns the text that draws over the previous one.
fn frame(text: &str, rows: usize, columns: usize) -> String {
    let cut = |line: &str| line.chars().take(columns).collect::<String>() + CLEAR_REST_OF_LINE;
    let lines: Vec<String> = text.lines().take(rows).map(cut).collect();
    // The last line has no line end, which would scroll the others up.
    TO_THE_TOP.to_owned() + &lines.join("\r\n") + CLEAR_BELOW
}

/// Quantile of requests and commits whose duration is shown.
const QUANTILE: f64 = 0.99;

/// Formats a screen. Rates are shown if the previous metrics are known.
fn text(seen: &StatusReport) -> String {
    let mut text = seen.title();
    for (name, row) in ROWS {
        text.extend(row(seen).map(|row| format!("{name:<12} {row}\n")));
    }
    text.extend(seen.hints().iter().map(|advice| format!("! {advice}\n")));
    text
}

/// Seconds by which clocks may differ.
const MAX_AHEAD: f64 = 10.0;

/// Formats a row of the screen; nothing if its metrics are missing.
type Row = fn(&StatusReport) -> Option<String>;

/// All rows.
const ROWS: [(&str, Row); 14] = [
    ("Chain", |v| {
        let age = v.value("nisd_last_block_age_seconds")?;
        let target = v.if_any("nisd_rebuild_target_height", |height| format!(" of {}", number(height)));
        let height = number(v.value("nisd_height")?);
        let (age, when) = if age < -MAX_AHEAD { (-age, "ahead of its machine's clock") } else { (age, "ago") };
        let age = format!("height {height}{target}, last block {} {when}", duration(age as u64));
        let state = match v.value("nisd_status").map(|code| code as i32) {
            Some(3) => ", has not joined its network",
            Some(4) => ", joining its network",
            Some(5) => ", joined, not synchronised",
            Some(6) => ", synchronised",
            Some(7) => ", without active peers",
            Some(8) => ", rebuilding the store",
            _ => "",
        };
        let behind = v.if_any("nisd_blocks_behind", |blocks| format!(", {} behind", plural(blocks, "block")));
        let replaced =
            v.if_any("nisd_replaced_blocks_total", |blocks| format!(", {} replaced by reorgs", number(blocks)));
        Some(age + state + &behind + &replaced)
    }),
    ("Peers", |v| {
        let count = |sample: &Sample| format!("{} {}", number(sample.value), printable(sample.label("state")));
        let counts: Vec<String> =
            v.metrics.samples_of("nisd_peers").filter(|peers| peers.value > 0.0).map(count).collect();
        v.value("nisd_peers")?;
        Some(if counts.is_empty() { "none".to_owned() } else { counts.join(", ") })
    }),
    ("Harvesting", |v| {
        let accounts = plural(v.value("nisd_harvesting_accounts")?, "account");
        let blocks = plural(v.value("nisd_harvested_blocks_total")?, "block");
        let lost = v.if_any("nisd_harvested_blocks_lost_total", |lost| format!(", {} of them lost", number(lost)));
        Some(format!("{accounts}, {blocks} since the start{lost}"))
    }),
    ("Mempool", |v| {
        let waiting = plural(v.value("nisd_unconfirmed_transactions")?, "transaction");
        Some(format!("{waiting}, {}", bytes(v.value("nisd_unconfirmed_bytes")?)))
    }),
    ("Requests", |v| {
        const NAME: &str = "nisd_http_requests_total";
        let mut parts = vec![format!("{} answered", number(v.metrics.sum(NAME).unwrap_or(0.0)))];
        parts.extend(v.rate(NAME).map(|rate| format!("{rate:.1} a second")));
        parts.extend(v.quantile_text("nisd_http_request_duration_seconds_bucket"));
        for (status, what) in [("429", "rate limit"), ("503", "no capacity")] {
            let rejected = v.metrics.samples_of(NAME).filter(|sample| sample.label("status") == status);
            let rejected: f64 = rejected.map(|sample| sample.value).sum();
            parts.extend((rejected > 0.0).then(|| format!("{} rejected ({what})", number(rejected))));
        }
        v.value("nisd_connections")?;
        Some(parts.join(", "))
    }),
    ("Connections", |v| {
        let (incoming, outgoing) = (v.value("nisd_connections")?, v.value("nisd_connections_outgoing")?);
        let (buffers, rejected) = (v.value("nisd_buffered_bytes")?, v.value("nisd_connections_rejected_total")?);
        let (incoming, outgoing, rejected) = (number(incoming), number(outgoing), number(rejected));
        Some(format!("{incoming} incoming, {outgoing} outgoing, {rejected} rejected, {} in buffers", bytes(buffers)))
    }),
    ("Sessions", |v| {
        const NAME: &str = "nisd_websocket_messages_sent_total";
        let (open, sent) = (v.value("nisd_websocket_sessions")?, v.value(NAME)?);
        let dropped = v.value("nisd_websocket_sessions_dropped_total")?;
        let rate = v.rate(NAME).map(|rate| format!(" ({rate:.1} a second)")).unwrap_or_default();
        Some(format!("{} open, {} sent{rate}, {} dropped", number(open), plural(sent, "message"), number(dropped)))
    }),
    ("Network", |v| {
        let one = |what: &str, name: &str| {
            let rate = v.rate(name).map(|rate| format!(" ({} a second)", bytes(rate))).unwrap_or_default();
            Some(format!("{} {what}{rate}", bytes(v.metrics.sum(name)?)))
        };
        let received = one("received", "nisd_network_received_bytes_total")?;
        Some(format!("{received}, {}", one("sent", "nisd_network_sent_bytes_total")?))
    }),
    ("Clients", |v| {
        let (known, waiting) = (number(v.value("nisd_clients")?), number(v.value("nisd_clients_waiting")?));
        let share = 100.0 * v.value("nisd_client_work_ratio")?;
        Some(format!("{known}, {waiting} throttled, the largest uses {share:.1} % of the processor"))
    }),
    ("Loop", |v| Some(format!("longest step {}", short(v.value("nisd_loop_step_longest_seconds")?)))),
    ("Commits", |v| {
        let count = v.value("nisd_commit_duration_seconds_count")?;
        let within = v.quantile_text("nisd_commit_duration_seconds_bucket").map(|within| format!(", {within}"));
        Some(number(count) + &within.unwrap_or_default())
    }),
    ("Store", |v| {
        let size = bytes(v.value("nisd_store_bytes")?);
        let limit = bytes(v.value("nisd_store_map_bytes")?);
        let free = v.value("nisd_disk_free_bytes").map(|free| format!(", {} free on its disk", bytes(free)));
        Some(format!("{size} of at most {limit}{}", free.unwrap_or_default()))
    }),
    ("Memory", |v| {
        let resident = bytes(v.value("nisd_memory_resident_bytes")?);
        let own = v.value("nisd_memory_private_bytes").map(|own| format!(", {} private", bytes(own)));
        Some(resident + &own.unwrap_or_default())
    }),
    ("Clock", |v| {
        let jumps = plural(v.value("nisd_clock_jumps_total")?, "jump");
        let offset = v.value("nisd_clock_offset_seconds").filter(|offset| *offset != 0.0);
        let ahead = offset.map(|offset| format!("peers are {offset:+.1} s ahead, ")).unwrap_or_default();
        Some(ahead + &jumps)
    }),
];

impl StatusReport {
    fn value(&self, name: &str) -> Option<f64> {
        self.metrics.value(name)
    }

    /// Formats a value, if it is known and greater than 0.
    fn if_any(&self, name: &str, text: fn(f64) -> String) -> String {
        self.value(name).filter(|value| *value > 0.0).map(text).unwrap_or_default()
    }

    /// Returns the growth of a counter per second; `None` if the node was restarted in between.
    fn rate(&self, name: &str) -> Option<f64> {
        let before = self.before.as_ref()?;
        let passed = self.value("nisd_uptime_seconds")? - before.value("nisd_uptime_seconds")?;
        let grown = self.metrics.sum(name)? - before.sum(name).unwrap_or(0.0);
        (passed > 0.0 && grown >= 0.0).then(|| grown / passed)
    }

    fn title(&self) -> String {
        let info = self.metrics.samples_of("nisd_info").next();
        let label = |name| info.map_or(String::new(), |info: &Sample| printable(info.label(name)));
        let (version, network, node) = (label("version"), label("network"), &self.node);
        let uptime = duration(self.value("nisd_uptime_seconds").unwrap_or(0.0) as u64);
        match &self.store {
            None => format!("nisd {version} on {network}, {node}, up {uptime}\n\n"),
            Some(folder) => format!("The store of {network} in {folder}, because no node answers:\n\n"),
        }
    }

    /// Returns the smallest bucket bound of a histogram within which [`QUANTILE`] of its observations lie.
    fn quantile_text(&self, buckets: &str) -> Option<String> {
        let bucket = |bucket: &Sample| Some((bucket.label("le").parse().ok()?, bucket.value));
        let mut buckets: Vec<(f64, f64)> = self.metrics.samples_of(buckets).filter_map(bucket).collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        // Samples of one bound differ in other labels.
        let sums =
            buckets.chunk_by(|one, other| one.0 == other.0).map(|same| (same[0].0, same.iter().map(|one| one.1).sum()));
        let sums: Vec<(f64, f64)> = sums.collect();
        let all = sums.last()?.1;
        let place = sums.iter().position(|(_, count)| *count >= QUANTILE * all).filter(|_| all > 0.0)?;
        match sums[place].0 {
            bound if bound.is_finite() => Some(format!("99 % within {}", short(bound))),
            _ => Some(format!("99 % not within {}", short(sums.get(place.checked_sub(1)?)?.0))),
        }
    }

    /// Returns hints for the operator.
    fn hints(&self) -> Vec<String> {
        let is = |name: &str, is_bad: fn(f64) -> bool| self.value(name).is_some_and(is_bad);
        let is_alone = self.value("nisd_peers") == Some(0.0) && self.metrics.sum("nisd_peers") > Some(0.0);
        let alone = format!("no peer answers; `nisd peers{}{}` shows why", node_flag(&self.node), self.data_flag);
        let damaged = format!(
            "a part of the store is damaged; the log names it, and `nisd reindex{}` or a backup repairs it",
            self.data_flag
        );
        let used = self.value("nisd_store_map_used_bytes").zip(self.value("nisd_store_map_bytes"));
        [
            (is("nisd_store_failing", |failing| failing > 0.0), "the store fails; see the log"),
            (
                is("nisd_disk_sync_waiting_seconds", |seconds| seconds >= 30.0),
                "the disk does not confirm a write, and no block is processed until it does; see the system's log",
            ),
            (is("nisd_store_damaged_ranges", |ranges| ranges > 0.0), &damaged),
            (is("nisd_disk_free_bytes", |free| free < 2e9), "the disk is nearly full; free space"),
            (
                used.is_some_and(|(used, map)| used > 0.85 * map),
                "the store has nearly reached its maximum size; raise nisd.mapSize",
            ),
            (
                is("nisd_peers_split", |apart| apart > 0.0),
                "peers are on a chain that neither side can leave: the network is split for good; see \
                 `nisd help trouble`",
            ),
            (
                is("nisd_clock_rejected_offset_seconds", |offset| offset != 0.0),
                "peers report another time, which the node does not follow; check the clock and the log",
            ),
            (is_alone, &alone),
            (is("nisd_clock_offset_seconds", |offset| offset.abs() > 5.0), "the clock is wrong; let NTP set it"),
        ]
        .into_iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, advice)| advice.to_owned())
        .collect()
    }
}

/// Formats a whole number with thousands separators.
fn number(value: f64) -> String {
    let sign = if value < -0.5 { "-" } else { "" };
    format!("{sign}{}", Thousands(value.abs().round() as u64))
}

fn plural(count: f64, noun: &str) -> String {
    format!("{} {noun}{}", number(count), if count == 1.0 { "" } else { "s" })
}

/// Formats bytes in the unit that leaves up to four digits before the point.
fn bytes(value: f64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (value.max(0.0), 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    let decimals = if unit > 0 && value < 10.0 { 1 } else { 0 };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// Formats a duration that may be far less than a second.
fn short(seconds: f64) -> String {
    if seconds < 1.0 { format!("{} ms", (seconds * 1e4).round() / 10.0) } else { format!("{seconds:.1} s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_numbers_or_lists_of_objects_in_json() {
        let page = "a 1\nb 0.5\nc{x=\"1\"} 2\nc{x=\"2\"} 3\n";
        let metrics = Scrape::parse(page).unwrap();
        let seen =
            StatusReport { node: "http://a".to_owned(), store: None, data_flag: String::new(), metrics, before: None };
        let text = json_text(&seen);
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

#[cfg(test)]
mod screen_tests {
    use super::*;

    const PAGE: &str = r#"nisd_info{version="1.0.0",network="devnet"} 1
nisd_uptime_seconds 7300
nisd_status 6
nisd_height 1234567
nisd_blocks_behind 1
nisd_last_block_age_seconds 12
nisd_peers{state="active"} 0
nisd_peers{state="busy"} 2
nisd_connections 3
nisd_http_requests_total{route="/a",status="200"} 100
nisd_http_requests_total{route="/b",status="429"} 5
nisd_http_request_duration_seconds_bucket{route="/a",le="0.0005"} 90
nisd_http_request_duration_seconds_bucket{route="/a",le="0.01"} 99
nisd_http_request_duration_seconds_bucket{route="/a",le="+Inf"} 100
nisd_clock_jumps_total 1
nisd_disk_free_bytes 1000000
nisd_store_bytes 1536
nisd_store_map_bytes 68719476736
"#;

    fn seen(page: &str) -> StatusReport {
        StatusReport {
            node: "http://a".to_owned(),
            store: None,
            data_flag: String::new(),
            metrics: Scrape::parse(page).unwrap(),
            before: None,
        }
    }

    #[test]
    fn the_screen_shows_known_metrics_and_omits_missing_ones() {
        let expected = "\
nisd 1.0.0 on devnet, http://a, up 2 h

Chain        height 1,234,567, last block 12 s ago, synchronised, 1 block behind
Peers        2 busy
Requests     105 answered, 99 % within 10 ms, 5 rejected (rate limit)
Store        1.5 KiB of at most 64 GiB, 977 KiB free on its disk
Clock        1 jump
! the disk is nearly full; free space
! no peer answers; `nisd peers --node http://a` shows why
";
        assert_eq!(text(&seen(PAGE)), expected);
        let default = StatusReport { node: "http://127.0.0.1:7890".to_owned(), ..seen(PAGE) };
        assert!(text(&default).ends_with("\n! no peer answers; `nisd peers` shows why\n"));
        let of_folder = StatusReport {
            data_flag: " --data 'a b'".to_owned(),
            ..seen(&format!("{PAGE}nisd_store_damaged_ranges 1\n"))
        };
        for command in ["`nisd peers --node http://a --data 'a b'` shows", "`nisd reindex --data 'a b'` or a backup"] {
            assert!(text(&of_folder).contains(command), "{command}");
        }
        for (age, told) in [("-10", "last block 0 s ago"), ("-86400", "last block 24 h ahead of its machine's clock")] {
            let page = PAGE.replace("age_seconds 12", &format!("age_seconds {age}"));
            assert!(text(&seen(&page)).contains(told), "{told}");
        }
        let stored = StatusReport {
            store: Some("folder".to_owned()),
            ..seen("nisd_info{network=\"n\"} 1\nnisd_disk_free_bytes 1\n")
        };
        let expected = "The store of n in folder, because no node answers:\n\n! the disk is nearly full; free space\n";
        assert_eq!(text(&stored), expected);
    }

    #[test]
    fn a_node_cannot_control_the_terminal() {
        let page = "nisd_info{version=\"1\u{1b}[2J\",network=\"\u{1b}]0;x\u{7}\u{9b}31m\"} 1\nnisd_peers{state=\"\u{1b}[H\"} 2\n";
        let shown = text(&seen(page));
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        assert!(shown.contains("nisd 1 [2J on  ]0;x  31m, ") && shown.contains("2  [H"), "{shown:?}");
    }

    #[test]
    fn rates_are_shown_only_with_an_earlier_scrape_of_the_same_run() {
        let before = PAGE.replace("7300", "7290").replace("status=\"200\"} 100", "status=\"200\"} 75");
        let after = |page: &str| StatusReport { before: Some(seen(page).metrics), ..seen(PAGE) };
        assert!(text(&after(&before)).contains("105 answered, 2.5 a second, "));
        assert!(text(&after(&PAGE.replace("7300", "9000"))).contains("105 answered, 99 %"));
    }

    #[test]
    fn quantities_are_shown_in_readable_units() {
        assert_eq!([0.0, 999.0, 1000.0, -1_234_567.0].map(number), ["0", "999", "1,000", "-1,234,567"]);
        assert_eq!(
            [0.0, 1023.0, 1024.0, 10_240.0, 1.5e13].map(bytes),
            ["0 bytes", "1023 bytes", "1.0 KiB", "10 KiB", "14 TiB"]
        );
        assert_eq!([0.000_05, 0.25, 3.04].map(short), ["0.1 ms", "250 ms", "3.0 s"]);
    }
}
