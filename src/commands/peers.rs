//! `nisd peers`: what a running node knows of its peers, as a table.

use std::io::{self, IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use clap::Args;
use serde::Deserialize;

use super::{CommandError, Common, flag_override};
use crate::config::{Bind, Override, Settings};
use crate::logging;
use crate::wallet::NodeClient;

/// Maximum characters of a table cell on a terminal; the last column is not limited.
const MAX_CELL: usize = 24;
/// Index of the column that is left out on a terminal, because it is as wide as several others.
const ADDRESS: usize = 3;
/// Text of an empty cell.
const EMPTY_CELL: &str = "-";

const COLUMNS: [&str; 12] = [
    "STATE", "LISTED", "NAME", "ADDRESS", "ENDPOINT", "VERSION", "HEIGHT", "SCORE", "SEEN", "TRUST", "GOOD/BAD", "NOTE",
];

/// `nisd peers`.
#[derive(Args, Debug)]
pub struct Peers {
    /// Settings of the node to query, which include its address
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Node to query [default: the one of the settings, or http://127.0.0.1:7890]
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    pub node: Option<String>,
    /// Data folder of the node, with its local-cookie [default: the one of the settings, or one beside it]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Print the node's whole answer as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    common: Common,
}

impl Peers {
    pub(super) fn take_overrides(&mut self) -> Result<Vec<Override>, CommandError> {
        let mut overrides = self.common.take_overrides()?;
        overrides.extend(self.data.as_deref().map(|data| flag_override("--data", "nisd.data", data)));
        Ok(overrides)
    }
}

/// The node's answer. Field names are those of the HTTP interface.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    status: i32,
    failures_to_join: u32,
    clock_difference: i64,
    peers: Vec<Peer>,
    unpinned: Vec<Unpinned>,
    dropped: Vec<Dropped>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Peer {
    address: String,
    node: Info,
    state: String,
    is_pre_trusted: u8,
    height: Known,
    score: Known,
    last_contact: Known,
    trust: Known,
    successes: u64,
    failures: u64,
    last_trouble: Known,
    asked_again: Known,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Unpinned {
    endpoint: Endpoint,
    last_trouble: Known,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dropped {
    address: String,
    node: Info,
    why: String,
    seconds_ago: u64,
    last_trouble: Known,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    identity: Identity,
    endpoint: Endpoint,
    meta_data: MetaData,
}

#[derive(Deserialize)]
struct Identity {
    name: Option<String>,
}

#[derive(Deserialize)]
struct Endpoint {
    host: String,
    port: i32,
}

#[derive(Deserialize)]
struct MetaData {
    version: String,
}

/// What the node may not know: an object without the members that are unknown.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Known {
    height: Option<u64>,
    score: Option<String>,
    share: Option<f64>,
    reason: Option<String>,
    seconds_ago: Option<u64>,
    in_seconds: Option<u64>,
}

/// Runs `nisd peers`.
pub fn peers(command: &Peers, settings: &Settings) -> Result<(), CommandError> {
    let (node, context) = node_of(command.node.as_deref(), settings)?;
    let body = node.peers(context)?;
    let report: Report = serde_json::from_slice(&body).map_err(|error| node.invalid_peers(&error))?;
    let text = match command.json {
        true => String::from_utf8_lossy(&body).trim_end().to_owned() + "\n",
        false => table(&rows(&report), io::stdout().is_terminal()),
    };
    io::stdout().write_all(text.as_bytes()).map_err(CommandError::Output)?;
    hints(&report).iter().for_each(|notice| logging::eprint_line(notice));
    Ok(())
}

/// Returns the named node, or that of the settings, and the path prefix of its routes.
pub(super) fn node_of<'s>(named: Option<&str>, settings: &'s Settings) -> Result<(NodeClient, &'s str), CommandError> {
    let (url, context) = match named {
        Some(url) => (url.to_owned(), ""),
        None => (url_of(settings)?, settings.http.context.as_str()),
    };
    let node = NodeClient::at(&url).map_err(|reason| CommandError::Usage(format!("--node {url}: {reason}")))?;
    Ok((node.with_cookie_of(&settings.data), context))
}

/// Returns the URL of the node with these settings.
fn url_of(settings: &Settings) -> Result<String, CommandError> {
    let port = settings.http.port;
    if port == 0 {
        let text = "nem.httpPort = 0 lets the system choose a port, which the node logs at its start: name it with \
                    --node http://127.0.0.1:PORT";
        return Err(CommandError::Usage(text.to_owned()));
    }
    let host = match settings.http.bind {
        Bind::One(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => Ipv6Addr::LOCALHOST.into(),
        Bind::One(address) if !address.is_unspecified() => address,
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    Ok(match host {
        IpAddr::V4(host) => format!("http://{host}:{port}"),
        IpAddr::V6(host) => format!("http://[{host}]:{port}"),
    })
}

/// Returns hints for the operator.
fn hints(report: &Report) -> Vec<String> {
    let mut notices = Vec::new();
    match report.status {
        3 => notices.push(
            "the node has not joined its network: set nis.shouldAutoBoot = true or nis.bootKey and restart it, or send \
             it POST /node/boot"
                .to_owned(),
        ),
        4 => notices.push(format!(
            "the node has not joined its network yet: no peer has reported the node's address in {} attempts. \
             nis.ipDetectionMode = AutoOptional joins without it",
            report.failures_to_join
        )),
        _ => {}
    }
    if report.status != 3 && report.peers.is_empty() && report.unpinned.is_empty() {
        notices.push(
            "the node knows no peers: name some with --peer HOST[:PORT] when it starts, or in \
             peers-config_NETWORK.json beside its settings"
                .to_owned(),
        );
    }
    if report.clock_difference != 0 {
        let seconds = report.clock_difference as f64 / 1000.0;
        notices.push(format!(
            "the peers' clocks are ahead of this machine's by {seconds:.1} s; check this machine's clock"
        ));
    }
    notices
}

type Row = [String; COLUMNS.len()];

fn rows(report: &Report) -> Vec<Row> {
    let known = report.peers.iter().map(|peer| {
        let trust = peer.trust.share.map(|share| format!("{:.1} %", 100.0 * share));
        let again = peer.asked_again.in_seconds.map(|seconds| format!("next attempt in {}", duration(seconds)));
        let failure = again.as_ref().and_then(|_| failure_text(&peer.last_trouble));
        Row::from([
            peer.state.clone(),
            if peer.is_pre_trusted == 1 { "yes" } else { "no" }.to_owned(),
            peer.node.name(),
            peer.address.clone(),
            peer.node.endpoint.to_string(),
            peer.node.meta_data.version.clone(),
            or_nothing(peer.height.height),
            or_nothing(peer.score.score.as_deref().and_then(decimal)),
            or_nothing(peer.last_contact.seconds_ago.map(|seconds| format!("{} ago", duration(seconds)))),
            or_nothing(trust),
            format!("{}/{}", peer.successes, peer.failures),
            note([failure, again]),
        ])
    });
    let unpinned = report.unpinned.iter().map(|Unpinned { endpoint, last_trouble }| {
        let mut row = unknown_row("unknown", "yes");
        (row[4], row[11]) = (endpoint.to_string(), note([failure_text(last_trouble), None]));
        row
    });
    let dropped = report.dropped.iter().map(|dropped| {
        let mut row = unknown_row("dropped", "no");
        (row[2], row[3]) = (dropped.node.name(), dropped.address.clone());
        (row[4], row[5]) = (dropped.node.endpoint.to_string(), dropped.node.meta_data.version.clone());
        let what = match dropped.why.as_str() {
            "displaced" => "evicted for another peer",
            "moved" => "it has moved to another endpoint",
            _ => "no answer for a long time",
        };
        let gone = format!("{what}, {} ago", duration(dropped.seconds_ago));
        row[11] = note([Some(gone), failure_text(&dropped.last_trouble)]);
        row
    });
    known.chain(unpinned).chain(dropped).map(|row| row.map(|cell| printable(&cell))).collect()
}

fn unknown_row(state: &str, listed: &str) -> Row {
    let mut row = Row::from([(); COLUMNS.len()].map(|()| EMPTY_CELL.to_owned()));
    (row[0], row[1]) = (state.to_owned(), listed.to_owned());
    row
}

impl Info {
    fn name(&self) -> String {
        or_nothing(self.identity.name.as_deref().filter(|name| !name.trim().is_empty()))
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

fn failure_text(failure: &Known) -> Option<String> {
    let (reason, ago) = (failure.reason.as_ref()?, failure.seconds_ago?);
    Some(format!("{reason} ({} ago)", duration(ago)))
}

fn note(parts: [Option<String>; 2]) -> String {
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    if text.is_empty() { EMPTY_CELL.to_owned() } else { text }
}

fn or_nothing(value: Option<impl ToString>) -> String {
    value.map_or_else(|| EMPTY_CELL.to_owned(), |value| value.to_string())
}

/// Converts a number from hex to decimal.
fn decimal(hex: &str) -> Option<String> {
    i128::from_str_radix(hex, 16).ok().map(|number| number.to_string())
}

/// Formats a duration in its largest whole unit.
pub(super) fn duration(seconds: u64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Replaces control characters in text from peers, which could disturb the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Formats the rows below the column names: aligned for a terminal, else with tabs between the cells.
fn table(rows: &[Row], is_terminal: bool) -> String {
    let head = COLUMNS.map(str::to_owned);
    let rows = std::iter::once(&head).chain(rows);
    if !is_terminal {
        return rows.map(|row| row.join("\t") + "\n").collect();
    }
    let cut = |(column, cell): (usize, &String)| match column + 1 == COLUMNS.len() {
        true => cell.clone(),
        false => cell.chars().take(MAX_CELL).collect(),
    };
    let shown = |row: &Row| -> Vec<String> {
        row.iter().enumerate().filter(|(column, _)| *column != ADDRESS).map(cut).collect()
    };
    let rows: Vec<Vec<String>> = rows.map(shown).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS.len() - 1).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let node = |name: &str| {
            format!(
                r#"{{"identity":{{"name":"{name}","public-key":"00"}},"metaData":{{"version":"0.6.102"}},
                "endpoint":{{"protocol":"http","host":"10.0.0.1","port":7890}}}}"#
            )
        };
        let text = format!(
            r#"{{"status":6,"failuresToJoin":0,"clockDifference":-9000,"peers":[
            {{"address":"TA","node":{},"ip":"10.0.0.1","state":"active","isPreTrusted":1,"height":{{"height":7}},
            "score":{{"score":"0080"}},"lastContact":{{"secondsAgo":119}},"trust":{{"share":0.25}},"successes":3,
            "failures":1,"synchronisations":2,"lastTrouble":{{"state":"busy","reason":"old","secondsAgo":9}},
            "askedAgain":{{}}}},
            {{"address":"TB","node":{},"ip":null,"state":"failure","isPreTrusted":0,"height":{{}},"score":{{}},
            "lastContact":{{}},"trust":{{}},"successes":0,"failures":0,"synchronisations":0,
            "lastTrouble":{{"state":"failure","reason":"status 500","secondsAgo":180}},"askedAgain":{{"inSeconds":60}}}}],
            "unpinned":[{{"endpoint":{{"protocol":"http","host":"a","port":1}},"lastTrouble":{{}}}}],
            "dropped":[{{"address":"TC","node":{},"why":"silent","secondsAgo":9000,"lastTrouble":{{}}}}]}}"#,
            node("alice"),
            node(r"tab\tand\u001b[31mred"),
            node("")
        );
        serde_json::from_str(&text).expect("a report")
    }

    #[test]
    fn every_peer_has_a_row_with_its_details() {
        let plain = table(&rows(&report()), false);
        let lines: Vec<Vec<&str>> = plain.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(lines[0], COLUMNS);
        let seen = "119 s ago";
        assert_eq!(
            lines[1],
            ["active", "yes", "alice", "TA", "10.0.0.1:7890", "0.6.102", "7", "128", seen, "25.0 %", "3/1", "-"]
        );
        let failed = "status 500 (3 min ago); next attempt in 60 s";
        assert_eq!((lines[2][0], lines[2][2], lines[2][11]), ("failure", "tab and [31mred", failed));
        assert_eq!((lines[3][0], lines[3][4], lines[3][11]), ("unknown", "a:1", "-"));
        assert_eq!((lines[4][0], lines[4][2], lines[4][11]), ("dropped", "-", "no answer for a long time, 2 h ago"));
        assert!(lines.iter().all(|line| line.len() == COLUMNS.len()));
    }

    #[test]
    fn columns_are_aligned_on_a_terminal() {
        let text = table(&rows(&report()), true);
        let places: Vec<_> = text.lines().map(|line| line.find("10.0.0.1:7890")).collect();
        assert_eq!(places[1], places[2]);
        assert_eq!(text.lines().next().and_then(|head| head.find("ENDPOINT")), places[1]);
        let mut long = rows(&report());
        long[0][2] = "x".repeat(1000);
        assert!(table(&long, true).lines().all(|line| line.len() < 200));
        assert!(!text.contains("ADDRESS") && text.lines().all(|line| !line.ends_with(' ')), "{text}");
    }

    #[test]
    fn problems_are_reported_with_a_hint_for_the_operator() {
        let told = |change: fn(&mut Report)| {
            let mut report = Report { clock_difference: 0, ..report() };
            change(&mut report);
            hints(&report).join("\n")
        };
        assert_eq!(told(|_| {}), "");
        assert!(told(|report| report.clock_difference = -9000).contains("by -9.0 s"));
        assert!(told(|report| report.status = 3).contains("/node/boot"));
        assert!(told(|report| (report.status, report.failures_to_join) = (4, 2)).contains("in 2 attempts"));
        let nobody = |report: &mut Report| (report.peers, report.unpinned) = (Vec::new(), Vec::new());
        assert!(told(nobody).contains("peers-config_NETWORK.json"));
    }
}
