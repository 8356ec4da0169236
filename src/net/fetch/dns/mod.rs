//! DNS resolver: the system's files and queries to name servers.

mod message;
mod resolver;

pub(super) use resolver::Resolver;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// Bounds on the time to live of addresses.
const MIN_TTL: Duration = Duration::from_secs(30);
const MAX_TTL: Duration = Duration::from_secs(3600);

/// Result of a lookup: addresses (never empty, IPv4 and IPv6 alternating) or the reason why there are none.
pub type Resolution = Result<Rc<[IpAddr]>, &'static str>;

/// Results of lookups until they expire.
#[derive(Debug)]
pub struct Cache {
    entries: HashMap<String, (Resolution, Duration)>,
    max_entries: usize,
}

impl Cache {
    /// Returns an empty cache of at most `max_entries` names.
    pub fn new(max_entries: usize) -> Self {
        Self { entries: HashMap::new(), max_entries }
    }

    /// Returns the unexpired result for a name.
    pub fn get(&self, name: &str, now: Duration) -> Option<Resolution> {
        self.entries.get(name).filter(|(_, until)| now < *until).map(|(known, _)| known.clone())
    }

    /// Stores a result with its time to live. If the cache is full, the entry that expires first is evicted.
    pub fn put(&mut self, name: String, known: Resolution, lifetime: Duration, now: Duration) {
        let lifetime = match known {
            Ok(_) => lifetime.clamp(MIN_TTL, MAX_TTL),
            Err(_) => lifetime,
        };
        if self.entries.len() >= self.max_entries && !self.entries.contains_key(&name) {
            let oldest = self.entries.iter().min_by_key(|(_, (_, until))| *until).map(|(name, _)| name.clone());
            oldest.map(|oldest| self.entries.remove(&oldest));
        }
        if self.max_entries > 0 {
            self.entries.insert(name, (known, now + lifetime));
        }
    }
}

/// Port of name servers.
const PORT: u16 = 53;
/// Name servers used; further ones are ignored, as by the system's resolver.
const MAX_SERVERS: usize = 3;
/// Addresses used of one name in the hosts file.
const MAX_ADDRESSES: usize = 8;

/// DNS configuration.
#[derive(Clone, Debug)]
pub struct DnsConfig {
    /// Name servers in the order of queries.
    pub servers: Vec<SocketAddr>,
    /// Timeout of each query.
    pub timeout: Duration,
    /// Attempts per name server.
    pub attempts: usize,
    hosts: HashMap<String, Vec<IpAddr>>,
}

impl DnsConfig {
    /// Parses the contents of `/etc/hosts` and `/etc/resolv.conf`; both may be empty. Invalid lines are ignored.
    /// Without a name server, one on this machine is assumed. Search domains are not used.
    pub fn parse(hosts: &str, resolv_conf: &str) -> Self {
        let mut found =
            Self { servers: Vec::new(), timeout: Duration::from_secs(2), attempts: 2, hosts: HashMap::new() };
        lines(hosts).for_each(|line| found.read_host(line));
        lines(resolv_conf).for_each(|line| found.read_setting(line));
        if found.servers.is_empty() {
            found.servers.push((Ipv4Addr::LOCALHOST, PORT).into());
        }
        found
    }

    /// Returns the addresses of a lower-case name that needs no query: numeric, `localhost`, or in the hosts file.
    pub fn local_addresses(&self, name: &str) -> Option<Vec<IpAddr>> {
        if let Ok(address) = name.parse() {
            return Some(vec![address]);
        }
        if name == "localhost" || name.ends_with(".localhost") {
            return Some(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        self.hosts.get(name).cloned()
    }

    fn read_host(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else { return };
        for name in words {
            let addresses = self.hosts.entry(name.to_ascii_lowercase()).or_default();
            if addresses.len() < MAX_ADDRESSES && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }

    fn read_setting(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("nameserver") if self.servers.len() < MAX_SERVERS => {
                let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                self.servers.extend(address.map(|address| SocketAddr::new(address, PORT)));
            }
            Some("options") => words.for_each(|option| self.read_option(option)),
            _ => {}
        }
    }

    fn read_option(&mut self, option: &str) {
        let Some((name, Ok(value))) = option.split_once(':').map(|(name, value)| (name, value.parse::<u64>())) else {
            return;
        };
        match name {
            "timeout" => self.timeout = Duration::from_secs(value.clamp(1, 10)),
            "attempts" => self.attempts = value.clamp(1, 5) as usize,
            _ => {}
        }
    }
}

/// Returns the lines without comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split(['#', ';']).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(last: u8) -> Resolution {
        Ok([IpAddr::from([127, 0, 0, last])].into())
    }

    #[test]
    fn addresses_are_cached_for_their_ttl_within_bounds() {
        let (mut cache, start) = (Cache::new(10), Duration::ZERO);
        cache.put("a".to_owned(), known(1), Duration::from_secs(100), start);
        cache.put("b".to_owned(), known(1), Duration::ZERO, start);
        cache.put("c".to_owned(), known(1), Duration::from_secs(1_000_000), start);
        cache.put("d".to_owned(), Err("none"), Duration::from_secs(5), start);
        let known_at = |seconds| {
            let now = start + Duration::from_secs(seconds);
            ["a", "b", "c", "d"].into_iter().filter(|name| cache.get(name, now).is_some()).collect::<String>()
        };
        assert_eq!(known_at(4), "abcd");
        assert_eq!(known_at(29), "abc");
        assert_eq!(known_at(30), "ac");
        assert_eq!(known_at(100), "c");
        assert_eq!(known_at(3600), "");
    }

    #[test]
    fn a_full_cache_evicts_the_entry_that_expires_first() {
        let (mut cache, now) = (Cache::new(2), Duration::ZERO);
        for (name, seconds) in [("a", 200), ("b", 100), ("c", 300), ("c", 400)] {
            cache.put(name.to_owned(), known(1), Duration::from_secs(seconds), now);
        }
        let names = ["a", "b", "c"].into_iter().filter(|name| cache.get(name, now).is_some()).collect::<String>();
        assert_eq!(names, "ac");
    }
}

#[cfg(test)]
mod config_tests {
    use super::*;

    #[test]
    fn the_system_dns_files_are_parsed() {
        let hosts = "127.0.0.1 localhost\n# comment\n10.0.0.1\tNode1 node1.example # and more\n::5 node1\nnonsense x\n\
                     10.0.0.1 node1\n0.0.0.0\n";
        let resolv = "# made by hand\nsearch example.com\nnameserver 9.9.9.9\nnameserver fe80::1%eth0\n\
                      nameserver 2620:fe::fe ; x\noptions edns0 timeout:1 attempts:99 ndots:5\n\
                      nameserver 1.1.1.1\nnameserver 8.8.8.8\n";
        let found = DnsConfig::parse(hosts, resolv);
        let servers: Vec<_> = found.servers.iter().map(SocketAddr::to_string).collect();
        assert_eq!(servers, ["9.9.9.9:53", "[2620:fe::fe]:53", "1.1.1.1:53"]);
        assert_eq!((found.timeout, found.attempts), (Duration::from_secs(1), 5));
        let known = |name| {
            found.local_addresses(name).map(|addresses| addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>())
        };
        assert_eq!(known("node1").unwrap(), ["10.0.0.1", "::5"]);
        assert_eq!(known("node1.example").unwrap(), ["10.0.0.1"]);
        assert_eq!(known("::1").unwrap(), ["::1"]);
        assert_eq!(known("a.localhost").unwrap(), ["127.0.0.1", "::1"]);
        assert_eq!(known("x"), None);
    }

    #[test]
    fn a_local_name_server_is_assumed_without_configuration_files() {
        let found = DnsConfig::parse("", "");
        assert_eq!(found.servers, ["127.0.0.1:53".parse().unwrap()]);
        assert_eq!(found.local_addresses("localhost").unwrap().len(), 2);
    }
}
