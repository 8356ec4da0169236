//! `nisd status`: status of a running node, or of its store while no node runs.

mod screen;
mod terminal;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value, json};

use self::screen::text;
use self::terminal::Terminal;
use super::peers::node_of;
use super::{CommandError, Common, Stop, flag_override};
use crate::clock::{NetworkClock, System};
use crate::codec::network_from_text;
use crate::config::{Override, Settings};
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
    common: Common,
}

impl Status {
    pub(super) fn take_overrides(&mut self) -> Result<Vec<Override>, CommandError> {
        let mut overrides = self.common.take_overrides()?;
        overrides.extend(self.data.as_deref().map(|data| flag_override("--data", "nisd.data", data)));
        Ok(overrides)
    }
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
    let of_store =
        |figures| StatusReport { node: node.url(), store: Some(settings.data.display().to_string()), metrics: figures };
    let seen = if command.data.is_some() && store::exists(&settings.data) && store::is_unlocked(&settings.data) {
        // Even if a node answers, it does not use this store.
        of_store(store_metrics(settings, system)?)
    } else {
        match node.metrics(context) {
            Ok(figures) => StatusReport { node: node.url(), store: None, metrics: figures },
            Err(error) if error.is_unanswered() && command.node.is_none() => match store_metrics(settings, system) {
                Err(CommandError::Open(folder, StoreError::Empty)) => {
                    return Err(CommandError::NoNodeOrStore(error, folder));
                }
                read => of_store(read?),
            },
            Err(error) => return Err(error.into()),
        }
    };
    let is_live = seen.store.is_none() && !command.json && !command.once;
    if is_live && io::stdout().is_terminal() && io::stdin().is_terminal() {
        return show_live(&node, context, seen, &stop).map_err(CommandError::Output);
    }
    let shown = if command.json { json_text(&seen) } else { text(&seen, None) };
    io::stdout().write_all(shown.as_bytes()).map_err(CommandError::Output)
}

/// Reads metrics from the store of the settings.
fn store_metrics(settings: &Settings, system: System) -> Result<Scrape, CommandError> {
    let folder = &settings.data;
    let opened = Store::open_existing(folder, AccessMode::Shared, Options { map_size: settings.node.map_size });
    let (store, network) = opened.map_err(|error| CommandError::Open(folder.clone(), error))?;
    let tip = store::tip(&store.snapshot()?)?.ok_or(StoreError::Empty)?;
    let network = network_from_text(&network).ok_or(StoreError::Damaged("the description of the network"))?;
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
    json!({ source: place, "figures": metrics }).to_string() + "\n"
}

/// Returns a whole number as an integer.
fn number(value: f64) -> Value {
    const EXACT: f64 = (1u64 << 53) as f64;
    if value.fract() == 0.0 && value.abs() < EXACT { json!(value as i64) } else { json!(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_numbers_or_lists_of_objects_in_json() {
        let page = "a 1\nb 0.5\nc{x=\"1\"} 2\nc{x=\"2\"} 3\n";
        let figures = Scrape::parse(page).unwrap();
        let text = json_text(&StatusReport { node: "http://a".to_owned(), store: None, metrics: figures });
        let value: Value = serde_json::from_str(&text).unwrap();
        let list = json!([{"x": "1", "value": 2}, {"x": "2", "value": 3}]);
        assert_eq!(value, json!({"node": "http://a", "figures": {"a": 1, "b": 0.5, "c": list}}));
    }
}
