//! Metrics of the server, and its access log: one line per answered request.
//!
//! ```text
//! 127.0.0.1 GET /chain/height 200 0.031 ms 17 bytes
//! ```
//!
//! At level `trace` the query and the headers are logged too. Secrets are never logged: no bodies, no query values that
//! could be private keys, no authentication headers.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use super::fetch::FetchStats;
use super::http::Request;
use nisd_core::metrics::{Histogram, RollingWindow};

/// Status codes with a counter of their own; all others share one.
pub const STATUSES: [u16; 17] = [101, 200, 204, 304, 400, 401, 403, 404, 406, 408, 413, 414, 429, 431, 500, 503, 505];
/// Number of routes with metrics of their own. A higher number counts as route 0.
pub const MAX_ROUTES: usize = 256;
/// Clients listed in [`Metrics::top_clients`].
pub const TOP_CLIENTS: usize = 5;

/// Histogram buckets of response times, in microseconds.
const RESPONSE_TIME_BUCKETS: &[u64] = &[500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 5_000_000];
/// Histogram buckets of loop iterations, in microseconds.
const ITERATION_TIME_BUCKETS: &[u64] = &[100, 500, 1_000, 2_000, 5_000, 10_000, 25_000, 100_000, 1_000_000];

/// Gauges and counters of the connections of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Open connections, websockets included.
    pub connections: usize,
    /// Open websockets.
    pub websockets: usize,
    /// Memory in buffers of connections.
    pub buffered_bytes: usize,
    /// Clients with a usage record: those with connections or recent activity.
    pub clients: usize,
    /// Connections accepted.
    pub accepted: u64,
    /// Kernel memory that the connections may hold.
    pub kernel_bytes: usize,
    /// Connections rejected because a quota was full.
    pub rejected: u64,
    /// Connections evicted for new ones.
    pub evicted: u64,
    /// Connections checked when choosing one to evict.
    pub eviction_checks: u64,
    /// Connections closed because of the kernel memory they held.
    pub kernel_evicted: u64,
    /// Connections reset on arrival because their client exceeded its quota or was banned.
    pub reset: u64,
    /// Requests and websocket messages handled.
    pub handled: u64,
}

/// Responses of one route.
#[derive(Clone, Debug)]
pub struct RouteMetrics {
    /// Responses by status in the order of [`STATUSES`]; all other statuses last.
    pub responses: [u64; STATUSES.len() + 1],
    /// Response times: from the request's first incomplete read, or its arrival if it came whole, to the complete
    /// response; for a streaming request, from its last resume. Requests rejected while being read are not included.
    pub times: Histogram,
}

impl RouteMetrics {
    fn count(&mut self, status: u16) {
        let place = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len());
        self.responses[place] += 1;
    }
}

/// Counters since the start.
#[derive(Clone, Debug)]
pub struct Counters {
    /// Responses by [`Request::route`](super::http::Request::route), as far as the highest one seen.
    pub routes: Vec<RouteMetrics>,
    /// Bytes read from connections.
    pub received_bytes: u64,
    /// Bytes written to connections.
    pub sent_bytes: u64,
    /// Websockets dropped because their clients sent nothing, not even pongs.
    pub silent_websockets: u64,
    /// Websockets dropped because their clients did not take their messages.
    pub dropped_websockets: u64,
    /// Durations of loop iterations, from the end of one poll to the start of the next.
    pub iterations: Histogram,
    /// Longest recent iteration.
    pub longest_iteration: RollingWindow<Duration>,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            routes: Vec::new(),
            received_bytes: 0,
            sent_bytes: 0,
            silent_websockets: 0,
            dropped_websockets: 0,
            iterations: Histogram::new(ITERATION_TIME_BUCKETS),
            longest_iteration: RollingWindow::default(),
        }
    }
}

impl Counters {
    /// Counts a response.
    pub(super) fn count_response(&mut self, route: usize, status: u16, took: Duration) {
        let metrics = self.route(route);
        metrics.count(status);
        metrics.times.observe(took);
    }

    /// Counts a request that was rejected before the service saw it.
    pub(super) fn count_rejection(&mut self, status: u16) {
        self.route(0).count(status);
    }

    /// Counts a loop iteration that ended at `now` (monotonic).
    pub(super) fn count_iteration(&mut self, took: Duration, now: Duration) {
        self.iterations.observe(took);
        let longest = self.longest_iteration.current_mut(now);
        *longest = took.max(*longest);
    }

    fn route(&mut self, id: usize) -> &mut RouteMetrics {
        let id = if id < MAX_ROUTES { id } else { 0 };
        if self.routes.len() <= id {
            let none = || RouteMetrics { responses: Default::default(), times: Histogram::new(RESPONSE_TIME_BUCKETS) };
            self.routes.resize_with(id + 1, none);
        }
        &mut self.routes[id]
    }
}

/// Resources used by a client.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TopUsage {
    /// Recent fraction of the processor, by charged units of work.
    pub share: f64,
    /// Bytes buffered for its connections.
    pub held_bytes: usize,
}

/// All metrics at one time.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Gauges and counters of connections.
    pub stats: Stats,
    /// Counters of requests and the loop.
    pub counters: Counters,
    /// Requests to other servers.
    pub fetch: FetchStats,
    /// The largest users, in descending order. `share` and `held_bytes` are ranked independently: the two values of an
    /// entry may belong to different clients.
    pub top_clients: [TopUsage; TOP_CLIENTS],
    /// Connections that have work pending and wait because their client is throttled.
    pub throttled_clients: usize,
    /// Longest recent loop iteration.
    pub longest_iteration: Duration,
}

/// Bytes logged of a text chosen by a client.
const MAX_TEXT_BYTES: usize = 256;
/// Hexadecimal digits of the shortest private key.
const KEY_DIGITS: usize = 60;
/// Parameters whose values are long but public numbers.
const PUBLIC_PARAMETERS: [&str; 2] = ["publicKey", "hash"];
/// Headers whose values are not logged.
const SECRET_HEADERS: [&str; 3] = ["Authorization", "Proxy-Authorization", "Cookie"];

/// Logs a request and its response of so many `bytes`, head included. `took` is the time since the request began, if it
/// arrived in several reads, or else since it was complete; for a streaming request, since it was last resumed.
pub(super) fn log_response(request: &Request<'_>, client: IpAddr, status: u16, bytes: usize, took: Duration) {
    log::debug!(
        "{client} {} {} {status} {:.3} ms {bytes} bytes",
        Escaped(request.method.as_bytes()),
        Escaped(request.path.as_bytes()),
        took.as_secs_f64() * 1e3
    );
    log::trace!("{}", Details(request));
}

/// Path, query and headers of a request.
struct Details<'a>(&'a Request<'a>);

impl fmt::Display for Details<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Escaped(self.0.path.as_bytes()))?;
        let parameters = self.0.query.into_iter().flat_map(|query| query.split('&'));
        for (index, parameter) in parameters.enumerate() {
            f.write_str(if index == 0 { "?" } else { "&" })?;
            let shown = if is_loggable(parameter) { parameter.as_bytes() } else { b"(redacted)" };
            write!(f, "{}", Escaped(shown))?;
        }
        for (name, value) in self.0.headers() {
            let is_secret = SECRET_HEADERS.iter().any(|secret| name.eq_ignore_ascii_case(secret.as_bytes()));
            let value = if is_secret { b"(redacted)".as_slice() } else { value };
            write!(f, ", {}: {}", Escaped(name), Escaped(value))?;
        }
        Ok(())
    }
}

/// Returns whether a query parameter contains nothing that could be a private key.
fn is_loggable(parameter: &str) -> bool {
    let (name, value) = parameter.split_once('=').unwrap_or(("", parameter));
    let mut numbers = value.split(|c: char| !c.is_ascii_hexdigit());
    PUBLIC_PARAMETERS.contains(&name) || numbers.all(|digits| digits.len() < KEY_DIGITS)
}

/// A text chosen by a client, escaped to one line and truncated.
struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0[..self.0.len().min(MAX_TEXT_BYTES)];
        write!(f, "{}", text.escape_ascii())?;
        if text.len() < self.0.len() { f.write_str("...") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_and_statuses_are_counted_in_bounded_space() {
        let mut counts = Counters::default();
        for kind in 0..10 * MAX_ROUTES {
            counts.count_response(kind, kind as u16, Duration::ZERO);
        }
        assert_eq!(counts.routes.len(), MAX_ROUTES);
        let total: u64 = counts.routes.iter().flat_map(|kind| kind.responses).sum();
        assert_eq!(total, 10 * MAX_ROUTES as u64);
        let of_ok: Vec<u64> = counts.routes.iter().map(|kind| kind.responses[1]).filter(|count| *count > 0).collect();
        assert_eq!(of_ok, [1]);
    }

    #[test]
    fn requests_rejected_unread_have_no_duration() {
        let mut counts = Counters::default();
        counts.count_rejection(431);
        counts.count_response(0, 200, Duration::from_micros(1));
        let place = STATUSES.iter().position(|status| *status == 431).unwrap();
        assert_eq!((counts.routes[0].responses[place], counts.routes[0].times.count()), (1, 1));
    }
}

#[cfg(test)]
mod access_log_tests {
    use super::*;

    fn request<'a>(query: Option<&'a str>, header_lines: &'a [u8]) -> Request<'a> {
        Request {
            method: "GET",
            path: "/a",
            query,
            body: b"",
            keep_alive: true,
            is_http_10: false,
            has_proxy_header: false,
            route: 0,
            header_lines,
        }
    }

    #[test]
    fn possible_private_keys_are_redacted() {
        let key = "5".repeat(64);
        let query = format!("publicKey={key}&key={key}&id=5&{key}&x=%20{}", "a".repeat(60));
        let text = Details(&request(Some(&query), b"")).to_string();
        assert_eq!(text, format!("/a?publicKey={key}&(redacted)&id=5&(redacted)&(redacted)"));
    }

    #[test]
    fn credential_headers_are_redacted() {
        let text = Details(&request(None, b"Host: a\r\ncookie: secret\r\nauthorization:secret\r\n")).to_string();
        assert_eq!(text, "/a, Host: a, cookie: (redacted), authorization: (redacted)");
    }

    #[test]
    fn a_text_stays_on_its_line_and_is_truncated() {
        assert_eq!(Escaped(b"a\n\x1b[2K\xff").to_string(), r"a\n\x1b[2K\xff");
        assert_eq!(Escaped(&[b'a'; 300]).to_string(), format!("{}...", "a".repeat(256)));
    }
}
