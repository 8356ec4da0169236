//! DNS configuration from `/etc/hosts` and `/etc/resolv.conf`.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

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
