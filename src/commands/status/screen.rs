//! Formats metrics for people.

use super::StatusReport;
use crate::commands::peers::duration;
use crate::metrics::{Sample, Scrape};
use crate::progress::Thousands;

/// Quantile of requests and commits whose duration is shown.
const QUANTILE: f64 = 0.99;

/// Formats a screen. Rates are shown if `before` holds the previous metrics.
pub(super) fn text(seen: &StatusReport, before: Option<&Scrape>) -> String {
    let view = View { metrics: &seen.metrics, before };
    let mut text = view.title(seen);
    for (name, row) in ROWS {
        text.extend(row(&view).map(|row| format!("{name:<12} {row}\n")));
    }
    text.extend(view.hints().map(|advice| format!("! {advice}\n")));
    text
}

/// Formats a row of the screen; nothing if its metrics are missing.
type Row = fn(&View<'_>) -> Option<String>;

/// All rows.
const ROWS: [(&str, Row); 14] = [
    ("Chain", |v| {
        let age = v.value("nisd_last_block_age_seconds")?;
        let age = format!("height {}, last block {} ago", number(v.value("nisd_height")?), time(age));
        let state = match v.value("nisd_status").map(|code| code as i32) {
            Some(3) => ", has not joined its network",
            Some(4) => ", joining its network",
            Some(5) => ", joined, not synchronised",
            Some(6) => ", synchronised",
            Some(7) => ", without active peers",
            _ => "",
        };
        let behind = v.if_any("nisd_blocks_behind", |blocks| format!(", {} behind", plural(blocks, "block")));
        let replaced =
            v.if_any("nisd_replaced_blocks_total", |blocks| format!(", {} replaced by reorgs", number(blocks)));
        Some(age + state + &behind + &replaced)
    }),
    ("Peers", |v| {
        let count = |sample: &Sample| format!("{} {}", number(sample.value), sample.label("state"));
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
            let refused = v.metrics.samples_of(NAME).filter(|sample| sample.label("status") == status);
            let refused: f64 = refused.map(|sample| sample.value).sum();
            parts.extend((refused > 0.0).then(|| format!("{} rejected ({what})", number(refused))));
        }
        v.value("nisd_connections")?;
        Some(parts.join(", "))
    }),
    ("Connections", |v| {
        let (incoming, outgoing) = (v.value("nisd_connections")?, v.value("nisd_connections_outgoing")?);
        let (buffers, refused) = (v.value("nisd_buffered_bytes")?, v.value("nisd_connections_refused_total")?);
        let (incoming, outgoing, refused) = (number(incoming), number(outgoing), number(refused));
        Some(format!("{incoming} incoming, {outgoing} outgoing, {refused} rejected, {} in buffers", bytes(buffers)))
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
        let (known, waiting) = (v.value("nisd_callers")?, v.value("nisd_callers_waiting")?);
        let share = 100.0 * v.value("nisd_caller_work_ratio")?;
        Some(format!(
            "{}, {} throttled, the largest uses {share:.1} % of the processor",
            number(known),
            number(waiting)
        ))
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
        Some(match offset {
            Some(offset) => format!("peers are {offset:+.1} s ahead, {jumps}"),
            None => jumps,
        })
    }),
];

/// The current and the previous metrics.
struct View<'r> {
    metrics: &'r Scrape,
    before: Option<&'r Scrape>,
}

impl View<'_> {
    fn value(&self, name: &str) -> Option<f64> {
        self.metrics.value(name)
    }

    /// Formats a value, if it is known and greater than 0.
    fn if_any(&self, name: &str, text: fn(f64) -> String) -> String {
        self.value(name).filter(|value| *value > 0.0).map(text).unwrap_or_default()
    }

    /// Returns the growth of a counter per second; `None` if the node was restarted in between.
    fn rate(&self, name: &str) -> Option<f64> {
        let uptime = |metrics: &Scrape| metrics.value("nisd_uptime_seconds");
        let passed = uptime(self.metrics)? - uptime(self.before?)?;
        let grown = self.metrics.sum(name)? - self.before?.sum(name).unwrap_or(0.0);
        (passed > 0.0 && grown >= 0.0).then(|| grown / passed)
    }

    fn title(&self, seen: &StatusReport) -> String {
        let info = self.metrics.samples_of("nisd_info").next();
        let label = |name| info.map_or("", |info: &Sample| info.label(name));
        let (version, network, node) = (label("version"), label("network"), &seen.node);
        let uptime = time(self.value("nisd_uptime_seconds").unwrap_or(0.0));
        match &seen.store {
            None => format!("nisd {version} on {network}, {node}, up {uptime}\n\n"),
            Some(folder) => format!("The store of {network} in {folder}, because no node answers:\n\n"),
        }
    }

    /// Returns the smallest bucket bound of a histogram within which [`QUANTILE`] of its observations lie.
    fn quantile_text(&self, buckets: &str) -> Option<String> {
        let at_most = |bound: f64| {
            let of_bound =
                self.metrics.samples_of(buckets).filter(move |bucket| bucket.label("le").parse() == Ok(bound));
            of_bound.map(|bucket| bucket.value).sum::<f64>()
        };
        let mut bounds: Vec<f64> =
            self.metrics.samples_of(buckets).filter_map(|bucket| bucket.label("le").parse().ok()).collect();
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        let all = at_most(*bounds.last()?);
        let bound = bounds.iter().copied().find(|bound| at_most(*bound) >= QUANTILE * all).filter(|_| all > 0.0)?;
        if bound.is_finite() {
            return Some(format!("99 % within {}", short(bound)));
        }
        Some(format!("99 % not within {}", short(*bounds.get(bounds.len().checked_sub(2)?)?)))
    }

    /// Returns hints for the operator.
    fn hints(&self) -> impl Iterator<Item = &'static str> {
        let is = |name: &str, is_bad: fn(f64) -> bool| self.value(name).is_some_and(is_bad);
        let is_alone = self.value("nisd_peers") == Some(0.0) && self.metrics.sum("nisd_peers") > Some(0.0);
        let used = self.value("nisd_store_map_used_bytes").zip(self.value("nisd_store_map_bytes"));
        [
            (is("nisd_store_failing", |failing| failing > 0.0), "the store fails; see the log"),
            (
                is("nisd_store_damaged_ranges", |ranges| ranges > 0.0),
                "a part of the store is damaged; the log names it, and `nisd reindex` or a backup repairs it",
            ),
            (is("nisd_disk_free_bytes", |free| free < 2e9), "the disk is nearly full; free space"),
            (
                used.is_some_and(|(used, map)| used > 0.85 * map),
                "the store has nearly reached its maximum size; raise nisd.mapSize",
            ),
            (
                is("nisd_store_stale_readers", |stale| stale > 0.0),
                "programs were killed while they read the store; it grows until no program has it open",
            ),
            (
                is("nisd_peers_apart", |apart| apart > 0.0),
                "peers are on a chain that neither side can leave: the network is split for good; see \
                 `nisd help trouble`",
            ),
            (
                is("nisd_clock_refused_offset_seconds", |offset| offset != 0.0),
                "peers report another time, which the node does not follow; check the clock and the log",
            ),
            (is_alone, "no peer answers; `nisd peers` shows why"),
            (is("nisd_clock_offset_seconds", |offset| offset.abs() > 5.0), "the clock is wrong; let NTP set it"),
        ]
        .into_iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, advice)| advice)
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

/// Formats seconds in their largest whole unit.
fn time(seconds: f64) -> String {
    duration(seconds.max(0.0) as u64)
}

/// Formats a duration that may be far less than a second.
fn short(seconds: f64) -> String {
    if seconds < 1.0 { format!("{} ms", (seconds * 1e4).round() / 10.0) } else { format!("{seconds:.1} s") }
}

#[cfg(test)]
mod tests {
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
        StatusReport { node: "http://a".to_owned(), store: None, metrics: Scrape::parse(page).unwrap() }
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
! no peer answers; `nisd peers` shows why
";
        assert_eq!(text(&seen(PAGE), None), expected);
        let stored = StatusReport {
            store: Some("folder".to_owned()),
            ..seen("nisd_info{network=\"n\"} 1\nnisd_disk_free_bytes 1\n")
        };
        let expected = "The store of n in folder, because no node answers:\n\n! the disk is nearly full; free space\n";
        assert_eq!(text(&stored, None), expected);
    }

    #[test]
    fn rates_are_shown_only_with_an_earlier_scrape_of_the_same_run() {
        let before = PAGE.replace("7300", "7290").replace("status=\"200\"} 100", "status=\"200\"} 75");
        let before = seen(&before).metrics;
        assert!(text(&seen(PAGE), Some(&before)).contains("105 answered, 2.5 a second, "));
        let restarted = seen(&PAGE.replace("7300", "9000")).metrics;
        assert!(text(&seen(PAGE), Some(&restarted)).contains("105 answered, 99 %"));
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
