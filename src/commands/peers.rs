//! `nisd peers`: what a running node knows of its peers, as a table.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;

use super::{CommandError, Common, failed, in_file, print, print_json, usage};
use crate::config::Settings;
use crate::local_cookie::{FILE, LocalCookie};
use crate::logging;
use crate::store;
use crate::wallet::{NodeClient, printable};

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
    /// Data folder of the node to query, with its local-cookie [default: the one of the settings, or one beside it]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Print the node's whole answer as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub common: Common,
}

/// Runs `nisd peers`.
pub fn peers(command: &Peers, settings: &Settings) -> Result<(), CommandError> {
    let node = node_of(command.node.as_deref(), command.data.is_some(), settings)?;
    let (body, report) = node.ok_or_else(|| failed(no_node(&settings.data)))?.peers()?;
    if command.json {
        print_json(&body)?;
    } else {
        print(&table(&rows(&report), io::stdout().is_terminal()))?;
    }
    for hint in hints(&report) {
        logging::eprint_line(&hint);
    }
    Ok(())
}

/// Returns why no node was found by a data folder.
pub(super) fn no_node(folder: &Path) -> String {
    let shown = folder.display();
    if store::is_in_use(folder) {
        format!(
            "{shown} is in use by another nisd, but has no file {FILE}, by which a node is found. If it is a node, name it \
             with --node URL, or restart it; its log says why it cannot write the file"
        )
    } else {
        format!("no node runs on {shown}: start it, or name another one")
    }
}

/// Returns the named node; else the one that runs on the data folder, which may have been started with other flags; else
/// `None` if the command names the folder, and the node of the settings if not.
pub(super) fn node_of(
    named: Option<&str>,
    names_data: bool,
    settings: &Settings,
) -> Result<Option<NodeClient>, CommandError> {
    let running = named.is_none().then(|| LocalCookie::url_in(&settings.data));
    let url = match (named, running) {
        (Some(url), _) => url.to_owned(),
        (None, Some(Ok(url))) => url,
        (None, Some(Err(error))) if names_data && error.kind() == io::ErrorKind::NotFound => return Ok(None),
        (None, Some(Err(error))) if names_data && error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(in_file(&settings.data.join(FILE))(error));
        }
        _ if settings.http.port == 0 => {
            return Err(usage(
                "nem.httpPort = 0 lets the system choose a port, which the node logs at its start: name it with --node \
                 http://127.0.0.1:PORT, or the folder of the node with --data",
            ));
        }
        _ => settings.url(),
    };
    super::node(&url, Some(&settings.data)).map(Some)
}

/// Returns hints for the operator.
fn hints(report: &Value) -> Vec<String> {
    let is_empty = |list: &str| report[list].as_array().is_none_or(Vec::is_empty);
    let status = report["status"].as_i64();
    let joining = match status {
        Some(3) => Some(
            "the node has not joined its network: set nis.shouldAutoBoot = true or nis.bootKey and restart it, or send \
             it POST /node/boot"
                .to_owned(),
        ),
        Some(4) => Some(format!(
            "the node has not joined its network yet: no peer has reported the node's address in {} attempts. \
             nis.ipDetectionMode = AutoOptional joins without it",
            report["failuresToJoin"].as_u64().unwrap_or_default()
        )),
        _ => None,
    };
    let is_alone = status != Some(3) && is_empty("peers") && is_empty("unidentified");
    let alone = is_alone.then(|| {
        "the node knows no peers: name some with --peer HOST[:PORT] when it starts, or in peers-config_NETWORK.json \
         beside its settings"
            .to_owned()
    });
    let difference = report["clockDifference"].as_i64().filter(|millis| *millis != 0).map(|millis| {
        let seconds = millis as f64 / 1000.0;
        format!("the peers' clocks are ahead of this machine's by {seconds:.1} s; check this machine's clock")
    });
    [joining, alone, difference].into_iter().flatten().collect()
}

type Row = [String; COLUMNS.len()];

/// Returns a row for each peer of the node's answer, whose field names are those of the HTTP interface.
fn rows(report: &Value) -> Vec<Row> {
    let all = |list: &str| report[list].as_array().into_iter().flatten();
    let known = all("peers").map(|peer| {
        let again = peer["askedAgain"]["inSeconds"].as_u64();
        let again = again.map(|seconds| format!("next attempt in {}", duration(seconds)));
        let failure = again.as_ref().and_then(|_| last_failure(peer));
        let state = peer["state"].as_str().unwrap_or_default();
        row(state, peer["isListed"] == 1, peer, &peer["node"], [failure, again])
    });
    let unidentified = all("unidentified").map(|peer| row("unknown", true, peer, peer, [None, last_failure(peer)]));
    let dropped = all("dropped").map(|peer| {
        let why = match peer["why"].as_str() {
            Some("evicted") => "evicted for another peer",
            Some("moved") => "it has moved to another endpoint",
            _ => "no answer for a long time",
        };
        let gone = format!("{why}, {} ago", duration(peer["secondsAgo"].as_u64().unwrap_or_default()));
        row("dropped", false, peer, &peer["node"], [Some(gone), last_failure(peer)])
    });
    known.chain(unidentified).chain(dropped).collect()
}

/// Returns the row of a peer, with an empty cell for what the node does not tell.
fn row(state: &str, is_listed: bool, peer: &Value, node: &Value, notes: [Option<String>; 2]) -> Row {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let endpoint = node["endpoint"]["host"].as_str().map(|host| format!("{host}:{}", node["endpoint"]["port"]));
    let score = peer["score"]["score"].as_str().and_then(|hex| i128::from_str_radix(hex, 16).ok());
    let seen = peer["lastContact"]["secondsAgo"].as_u64();
    let cells = [
        Some(state.to_owned()),
        Some(if is_listed { "yes" } else { "no" }.to_owned()),
        text(&node["identity"]["name"]),
        text(&peer["address"]),
        endpoint,
        text(&node["metaData"]["version"]),
        peer["height"]["height"].as_u64().map(|height| height.to_string()),
        score.map(|score| score.to_string()),
        seen.map(|seconds| format!("{} ago", duration(seconds))),
        peer["trust"]["share"].as_f64().map(|share| format!("{:.1} %", 100.0 * share)),
        peer["successes"].as_u64().map(|good| format!("{good}/{}", peer["failures"])),
        Some(notes.into_iter().flatten().collect::<Vec<_>>().join("; ")),
    ];
    cells.map(|cell| cell.filter(|text| !text.trim().is_empty()).map_or(EMPTY_CELL.to_owned(), |text| printable(&text)))
}

fn last_failure(peer: &Value) -> Option<String> {
    let failure = &peer["lastFailure"];
    Some(format!("{} ({} ago)", failure["reason"].as_str()?, duration(failure["secondsAgo"].as_u64()?)))
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

/// Formats the rows below the column names: aligned for a terminal, else with tabs between the cells.
fn table(rows: &[Row], is_terminal: bool) -> String {
    let head = COLUMNS.map(str::to_owned);
    let rows = std::iter::once(&head).chain(rows);
    if !is_terminal {
        return rows.map(|row| row.join("\t") + "\n").collect();
    }
    let cut = |(column, cell): (usize, &String)| {
        let most = if column + 1 == COLUMNS.len() { usize::MAX } else { MAX_CELL };
        cell.chars().take(most).collect()
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
    use serde_json::json;

    use super::*;

    fn report() -> Value {
        let node = |name: &str| {
            format!(
                r#"{{"identity":{{"name":"{name}","public-key":"00"}},"metaData":{{"version":"0.6.102"}},
                "endpoint":{{"protocol":"http","host":"10.0.0.1","port":7890}}}}"#
            )
        };
        let text = format!(
            r#"{{"status":6,"failuresToJoin":0,"clockDifference":-9000,"peers":[
            {{"address":"TA","node":{},"ip":"10.0.0.1","state":"active","isListed":1,"height":{{"height":7}},
            "score":{{"score":"0080"}},"lastContact":{{"secondsAgo":119}},"trust":{{"share":0.25}},"successes":3,
            "failures":1,"synchronisations":2,"lastFailure":{{"state":"busy","reason":"old","secondsAgo":9}},
            "askedAgain":{{}}}},
            {{"address":"TB","node":{},"ip":null,"state":"failure","isListed":0,"height":{{}},"score":{{}},
            "lastContact":{{}},"trust":{{}},"successes":0,"failures":0,"synchronisations":0,
            "lastFailure":{{"state":"failure","reason":"status 500","secondsAgo":180}},"askedAgain":{{"inSeconds":60}}}}],
            "unidentified":[{{"endpoint":{{"protocol":"http","host":"a","port":1}},"lastFailure":{{}}}}],
            "dropped":[{{"address":"TC","node":{},"why":"silent","secondsAgo":9000,"lastFailure":{{}}}}]}}"#,
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
        let told = |change: fn(&mut Value)| {
            let mut report = report();
            report["clockDifference"] = 0.into();
            change(&mut report);
            hints(&report).join("\n")
        };
        assert_eq!(told(|_| {}), "");
        assert!(told(|report| report["clockDifference"] = (-9000).into()).contains("by -9.0 s"));
        assert!(told(|report| report["status"] = 3.into()).contains("/node/boot"));
        assert!(
            told(|report| (report["status"], report["failuresToJoin"]) = (4.into(), 2.into()))
                .contains("in 2 attempts")
        );
        let nobody = |report: &mut Value| (report["peers"], report["unidentified"]) = (json!([]), json!([]));
        assert!(told(nobody).contains("peers-config_NETWORK.json"));
    }
}
