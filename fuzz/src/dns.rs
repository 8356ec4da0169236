//! Fuzz target: the system's DNS files and the answers of name servers.

use std::time::Duration;

use nisd::net::fetch::DnsConfig;
use nisd::net::fetch::dns::{MAX_ADDRESSES, MAX_SERVERS, Resolver};

/// The name to resolve.
pub const NAME: &str = "node.example";
/// Queries in progress, and cached names.
const MAX_QUERIES: usize = 2;
/// The most attempts that a configuration allows for each server and family, and how long one lasts at most.
const MAX_ATTEMPTS: usize = 5;
const MAX_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks that a lookup ends with a bounded number of addresses or a reason, after a bounded number of queries and a
/// bounded time, whatever the files and the name servers say. Returns whether addresses were found by a query.
///
/// The input is `/etc/hosts`, `/etc/resolv.conf` and answers, separated by `\xff\0`. Each answer has the id of the query
/// that it answers in place of its first two bytes. A query after the last answer is left unanswered.
pub fn check(data: &[u8]) -> usize {
    let mut parts = split(data);
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let configuration = DnsConfig::parse(&text(), &text());
    assert!((1..=MAX_SERVERS).contains(&configuration.servers.len()));
    assert!(configuration.attempts <= MAX_ATTEMPTS && configuration.timeout <= MAX_TIMEOUT);
    let mut resolver = Resolver::new(configuration, &[7; 32], MAX_QUERIES, MAX_QUERIES);
    let (mut now, mut queries) = (Duration::ZERO, 0);
    resolver.resolve(NAME, 0, now);
    let result = loop {
        while let Some(query) = resolver.next_query() {
            queries += 1;
            assert!(queries <= 2 * MAX_SERVERS * MAX_ATTEMPTS);
            let Some(mut answer) = parts.next().map(<[u8]>::to_vec) else { continue };
            for (to, from) in answer.iter_mut().zip(&query.bytes[..2]) {
                *to = *from;
            }
            resolver.received(query.slot, &answer, now);
        }
        if let Some((0, result)) = resolver.next_resolved() {
            break result;
        }
        if !resolver.has_pending_work() {
            now = resolver.next_due().expect("a lookup that has not ended has a timeout");
            resolver.handle_timeouts(now);
        }
    };
    assert!(now <= MAX_TIMEOUT * (MAX_SERVERS * MAX_ATTEMPTS) as u32);
    assert!(result.as_ref().is_ok_and(|found| (1..=2 * MAX_ADDRESSES).contains(&found.len())) || result.is_err());
    usize::from(result.is_ok() && queries > 0)
}

/// Returns the parts between separators.
fn split(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_over = false;
    std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let end = rest.windows(SEPARATOR.len()).position(|window| window == SEPARATOR);
        is_over = end.is_none();
        let part = &rest[..end.unwrap_or(rest.len())];
        rest = &rest[end.map_or(rest.len(), |end| end + SEPARATOR.len())..];
        Some(part)
    })
}

/// Between two parts of an input.
pub const SEPARATOR: &[u8] = b"\xff\0";
