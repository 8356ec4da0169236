//! IP addresses: networks, how far they reach, and lists of them as operators write them; hosts and URLs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use ipnet::IpNet;

/// Returns the network address of an address: its first `ipv4_bits` or `ipv6_bits` bits, then zeros. An IPv4-mapped
/// IPv6 address counts as IPv4.
pub fn network(address: IpAddr, ipv4_bits: u8, ipv6_bits: u8) -> IpAddr {
    let address = address.to_canonical();
    let bits = if address.is_ipv4() { ipv4_bits.min(32) } else { ipv6_bits.min(128) };
    IpNet::new(address, bits).map_or(address, |network| network.network())
}

/// Returns the network that one organisation typically has: a /24 of IPv4 or a /48 of IPv6.
pub fn site(address: IpAddr) -> IpAddr {
    network(address, 24, 48)
}

/// How far an address reaches, from the shortest to the farthest.
#[derive(Clone, Copy, Debug, derive_more::Display, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// No single host: unspecified, multicast, broadcast.
    #[display("any")]
    None,
    /// This machine.
    #[display("that of a host")]
    Loopback,
    /// A network that is not part of the internet, or an address that is reserved.
    #[display("outside this machine")]
    Private,
    /// The internet.
    #[default]
    #[display("globally reachable")]
    Global,
}

/// Networks that do not have the scope of the network around them, by IANA's special-purpose address registries. The
/// longest prefix decides.
const SPECIAL: &[(Scope, &str)] = &[
    (Scope::None, "0.0.0.0/8 224.0.0.0/4 255.255.255.255/32 ::/128 ff00::/8"),
    (Scope::Loopback, "127.0.0.0/8 ::1/128"),
    (Scope::Private, "10.0.0.0/8 100.64.0.0/10 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24"),
    (Scope::Private, "192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4"),
    // Only 2000::/3 is assigned to hosts of the internet.
    (Scope::Private, "::/0 2001::/23 2001:db8::/32 3fff::/20"),
    (Scope::Global, "0.0.0.0/0 192.0.0.9/32 192.0.0.10/32 64:ff9b::/96 2000::/3 2001::/32 2001:1::1/128 2001:1::2/128"),
    (Scope::Global, "2001:1::3/128 2001:3::/32 2001:4:112::/48 2001:20::/28 2001:30::/28"),
];

static NETWORKS: LazyLock<Vec<(IpNet, Scope)>> = LazyLock::new(|| {
    let networks =
        SPECIAL.iter().flat_map(|(scope, networks)| networks.split(' ').map(move |text| (text.parse(), *scope)));
    networks.filter_map(|(network, scope)| Some((network.ok()?, scope))).collect()
});

/// Returns how far an address reaches. One that carries an IPv4 address (mapped, NAT64, 6to4, Teredo) reaches no farther
/// than that.
pub fn scope(address: IpAddr) -> Scope {
    let address = address.to_canonical();
    let around = NETWORKS.iter().filter(|(network, _)| network.contains(&address));
    let own = around.max_by_key(|(network, _)| network.prefix_len()).map_or(Scope::None, |(_, scope)| *scope);
    carried(address).into_iter().flatten().map(|address| scope(address.into())).fold(own, Scope::min)
}

/// Returns the IPv4 addresses to which a translator or tunnel passes on what is sent to an address.
fn carried(address: IpAddr) -> [Option<Ipv4Addr>; 2] {
    let IpAddr::V6(address) = address else { return [None, None] };
    let v4 = |high: u16, low: u16| Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match address.segments() {
        // IPv4-compatible addresses are deprecated; :: and ::1 are none.
        [0, 0, 0, 0, 0, 0, high, low] if high > 0 => [v4(high, low), None],
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => [v4(high, low), None],
        [0x2002, high, low, ..] => [v4(high, low), None],
        [0x2001, 0, high, low, _, _, client_high, client_low] => [v4(high, low), v4(!client_high, !client_low)],
        _ => [None, None],
    }
}

/// Ranges of IP addresses: single ones (`10.0.0.1`) and networks (`10.0.0.0/8`, `2001:db8::/32`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRanges(Vec<IpNet>);

impl AddressRanges {
    /// Adds a range. The error says what the text is instead: "neither an address nor a range".
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let single = text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
        let Some(range) = single.ok().or_else(|| text.parse().ok()) else {
            let surplus = Url::parse(text).ok().filter(|url| url.path.is_empty() && url.host != text);
            let hint = surplus.map(|url| format!(": write only {}", url.host)).unwrap_or_default();
            return Err(format!("neither an address nor a range{hint}"));
        };
        self.0.push(range);
        Ok(())
    }

    /// Returns whether an address is in one of the ranges. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|range| range.contains(&address))
    }
}

/// A part of a pattern: this value, or any value if `None`.
type Part = Option<u16>;

/// Clients that count as local: `127.0.0.1`, `::1` and those of `nis.additionalLocalIps`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalAddresses {
    addresses: Vec<IpAddr>,
    /// The parts of each pattern: four of IPv4 or eight of IPv6.
    patterns: Vec<Vec<Part>>,
    /// Host names of the list; the event loop looks them up and adds their addresses.
    pub hosts: Vec<String>,
}

impl LocalAddresses {
    /// Adds an IP address, a host name, or a pattern in which whole parts are `*`. The error says what the text is instead:
    /// "no IP address, host name or pattern", and why.
    ///
    /// A part of a pattern must have the form that NIS1 compares, since any other form would never match: decimal
    /// without leading zeros, or lower-case hex without leading zeros.
    pub fn add_entry(&mut self, entry: &str) -> Result<(), String> {
        const WRONG: &str = "no IP address, host name or pattern";
        if entry.contains('*') {
            self.patterns.push(pattern(entry).ok_or(WRONG)?);
            return Ok(());
        }
        let host = parse_host(entry).map_err(|why| format!("{WRONG}: {why}"))?;
        match host.parse() {
            Ok(address) => _ = self.add(address),
            Err(_) => self.hosts.push(host),
        }
        Ok(())
    }

    /// Adds an address. Returns whether it is new.
    pub fn add(&mut self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_new = !self.addresses.contains(&address);
        if is_new {
            self.addresses.push(address);
        }
        is_new
    }

    /// Returns whether a client is local. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, caller: IpAddr) -> bool {
        let caller = caller.to_canonical();
        let fits = |pattern: &[Part], parts: &[u16]| {
            let mut pairs = pattern.iter().zip(parts);
            pattern.len() == parts.len() && pairs.all(|(part, own)| part.is_none_or(|part| part == *own))
        };
        let is_match = |pattern: &Vec<Part>| match caller {
            IpAddr::V4(address) => fits(pattern, &address.octets().map(u16::from)),
            IpAddr::V6(address) => fits(pattern, &address.segments()),
        };
        caller == Ipv4Addr::LOCALHOST
            || caller == Ipv6Addr::LOCALHOST
            || self.addresses.contains(&caller)
            || self.patterns.iter().any(is_match)
    }
}

/// Parses a pattern: parts of IPv4 in decimal, or of IPv6 in hex.
fn pattern(text: &str) -> Option<Vec<Part>> {
    let is_ipv4 = text.contains('.');
    let (separator, count, radix) = if is_ipv4 { ('.', 4, 10) } else { (':', 8, 16) };
    let part = |text: &str| {
        if text == "*" {
            return Some(None);
        }
        let value = u16::from_str_radix(text, radix).ok()?;
        let usual = if is_ipv4 { u8::try_from(value).ok()?.to_string() } else { format!("{value:x}") };
        (usual == text).then_some(Some(value))
    };
    text.split(separator).map(part).collect::<Option<Vec<Part>>>().filter(|parts| parts.len() == count)
}

/// Maximum characters of a host name, and of one of its labels.
const MAX_HOST: usize = 253;
const MAX_LABEL: usize = 63;
/// Maximum bytes of a URL.
const MAX_URL: usize = 1_024;

/// The parts of `HOST`, `HOST:PORT` or `SCHEME://HOST:PORT/PATH`, as operators write them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// In lower case; empty without one.
    pub scheme: String,
    /// A host name or an IP address. An IPv6 address has no brackets, and may have a zone.
    pub host: String,
    /// From 1 on.
    pub port: Option<u16>,
    /// Everything from the first `/`, `?` or `#` on.
    pub path: String,
}

impl Url {
    /// Parses a text; white space around it is ignored. The error is a sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Url, String> {
        let text = text.trim();
        if text.len() > MAX_URL {
            return Err(format!("it has more than {MAX_URL} bytes"));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err("a user name or password does not belong here".to_owned());
        }
        if scheme.is_empty() && authority.ends_with(':') && path.starts_with('/') {
            return Err("two slashes follow the scheme: http://HOST:PORT".to_owned());
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or("the ] after the address is missing")?,
            None if scheme.is_empty() && authority.parse::<Ipv6Addr>().is_ok() => (authority, ""),
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        if authority.starts_with('[') && host.split('%').next().is_none_or(|host| host.parse::<Ipv6Addr>().is_err()) {
            return Err(format!("{host:?} is not an IPv6 address"));
        }
        let port = match port.strip_prefix(':') {
            Some(digits) => Some(parse_port(digits)?),
            None if port.is_empty() => None,
            None => return Err(format!("{port:?} after the address is not a port")),
        };
        check_host(host)?;
        Ok(Url { scheme: scheme.to_ascii_lowercase(), host: host.to_owned(), port, path: path.to_owned() })
    }

    /// Parses the URL of a node: `HOST`, `HOST:PORT` or `http://HOST:PORT`, with or without a final `/`. The error is a
    /// sentence that says what is wrong. Returns host and port.
    pub fn of_node(text: &str) -> Result<(String, Option<u16>), String> {
        let url = Url::of_interface(text)?;
        if url.path.is_empty() { Ok((url.host, url.port)) } else { Err(url.surplus_path()) }
    }

    /// Parses the URL of an HTTP interface: that of a node, or `http://HOST:PORT/PATH`. The error is a sentence that says what
    /// is wrong. The path of the result has no `/` at its end.
    pub fn of_interface(text: &str) -> Result<Url, String> {
        let mut url = Url::parse(text)?;
        match url.scheme.as_str() {
            "" | "http" => {}
            "https" => return Err("https is not supported; use http://, if necessary through a tunnel".to_owned()),
            other => return Err(format!("{other}:// is not supported; use http://")),
        }
        if url.path.ends_with('/') {
            url.path.pop();
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
        if !url.path.bytes().all(is_plain) || url.path.ends_with('/') || url.path.contains("//") {
            return Err(url.surplus_path());
        }
        check_one_machine(&url.host)?;
        Ok(url)
    }

    fn surplus_path(&self) -> String {
        format!("the path {:?} does not belong here; write {}", self.path, self.authority())
    }

    /// Returns host and port as they stand in a URL.
    pub fn authority(&self) -> String {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        in_url(&self.host) + &port
    }
}

/// Returns a host as it stands in a URL: an IPv6 address has brackets.
pub fn in_url(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

fn parse_port(digits: &str) -> Result<u16, String> {
    if digits.contains(':') {
        return Err("an IPv6 address needs brackets, such as [::1]:7890".to_owned());
    }
    if digits.is_empty() {
        return Err("the port after the : is missing".to_owned());
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("{digits:?} is not a port: a number from 1 to 65535"));
    }
    let port = digits.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("the port {digits} is not from 1 to 65535"))
}

/// Parses a host name or an IP address without port, scheme and path; brackets around an IPv6 address are accepted, and
/// removed. The error is a sentence that says what is wrong, or what to write instead.
pub fn parse_host(text: &str) -> Result<String, String> {
    let url = Url::parse(text)?;
    if url.scheme.is_empty() && url.port.is_none() && url.path.is_empty() {
        return Ok(url.host);
    }
    Err(format!("write only {}", url.host))
}

/// [`parse_host`] of one machine that others connect to, with brackets around an IPv6 address.
pub fn parse_own_host(text: &str) -> Result<String, String> {
    let host = parse_host(text)?;
    check_one_machine(&host).map(|()| in_url(&host))
}

/// Checks that a host is none of the addresses that name no single machine.
fn check_one_machine(host: &str) -> Result<(), String> {
    let Ok(address) = host.parse::<IpAddr>() else { return Ok(()) };
    if address.is_unspecified() {
        return Err("this is an address to listen on, not to connect to; this machine is 127.0.0.1 or [::1]".to_owned());
    }
    let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    if is_broadcast || address.is_multicast() { Err("this is an address of many machines".to_owned()) } else { Ok(()) }
}

/// Returns whether a text is up to 253 letters, digits and `-._`, as a host name is.
pub fn may_be_name(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    let name = host.strip_suffix('.').unwrap_or(host);
    name.len() <= MAX_HOST && name.split('.').all(is_label)
}

/// Checks that a text is an IP address or a host name, which has at least one letter. The error does not repeat the text,
/// which may be a private key in the wrong place.
fn check_host(host: &str) -> Result<(), String> {
    if host.is_empty() {
        Err("the host is missing".to_owned())
    } else if host.contains(':') || host.parse::<Ipv4Addr>().is_ok() {
        Ok(())
    } else if host.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        Err("it is not an IPv4 address, which has four numbers from 0 to 255".to_owned())
    } else if !host.is_ascii() {
        Err("it has letters other than a to z; write the name in its ASCII form, which begins with xn--".to_owned())
    } else if may_be_name(host) && host.bytes().any(|b| b.is_ascii_alphabetic()) {
        Ok(())
    } else {
        Err("it is neither a host name nor an IP address".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_a_network_of_256_addresses_or_of_65536_networks() {
        let of = |text: &str| site(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:ffff::1"));
        assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
        assert_eq!(of("::ffff:10.1.2.3"), of("10.1.2.250"));
        assert_ne!(of("10.1.2.3"), of("10.1.3.3"));
    }

    #[test]
    fn a_network_has_as_many_bits_as_an_address_at_most() {
        let of = |bits| network("::1".parse().unwrap(), 32, bits).to_string();
        assert_eq!([0, 127, 128, 200].map(of), ["::", "::", "::1", "::1"]);
        assert_eq!(network("10.1.2.3".parse().unwrap(), 33, 0).to_string(), "10.1.2.3");
    }

    #[test]
    fn the_scope_of_an_address_follows_ianas_registries() {
        let rows = SPECIAL.iter().map(|(_, networks)| networks.split(' ').count()).sum::<usize>();
        assert_eq!(NETWORKS.len(), rows, "every row is a network");
        for (expected, addresses) in [
            (Scope::None, "0.0.0.0 0.1.2.3 224.0.0.1 239.255.255.255 255.255.255.255 :: ff02::1 ff0e::1"),
            (Scope::None, "::ffff:0.0.0.0 64:ff9b::0.0.0.0 2002:e000:1::1"),
            (Scope::Loopback, "127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::1"),
            (Scope::Loopback, "2001:0:7f00:1::1 2001:0:808:808:0:0:80ff:fffe ::127.0.0.1"),
            (Scope::Private, "10.0.0.1 10.255.255.255 100.64.0.0 100.127.255.255 169.254.169.254 172.16.0.1"),
            (Scope::Private, "172.31.255.255 192.0.0.1 192.0.0.8 192.0.0.170 192.0.2.1 192.88.99.1 192.168.255.255"),
            (Scope::Private, "198.18.0.0 198.19.255.255 198.51.100.7 203.0.113.9 240.0.0.1 255.255.255.254"),
            (Scope::Private, "fc00::1 fdff::1 fe80::1 febf::1 fec0::1 feff::1 64:ff9b:1::1 100::1 100:0:0:1::1"),
            (Scope::Private, "2001:2::1 2001:10::1 2001:100::1 2001:1ff::1 2001:db8::1 3fff::1 3fff:fff::1 5f00::1"),
            (Scope::Private, "4000::1 1fff::1 ::ffff:10.0.0.1 64:ff9b::a00:1 2002:c0a8:101::1 2001:0:a00:1::1"),
            (Scope::Private, "2001:0:808:808:0:0:f5ff:fffe 2001:0:808:808:0:0:3fff:fdfe"),
            (Scope::Global, "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0"),
            (Scope::Global, "169.253.255.255 172.15.255.255 172.32.0.0 192.0.0.9 192.0.0.10 192.0.1.0 192.31.196.1"),
            (Scope::Global, "192.52.193.1 192.175.48.1 198.17.255.255 198.20.0.0 223.255.255.255 ::ffff:8.8.8.8"),
            (Scope::Global, "2000::1 2001:1::1 2001:1::2 2001:1::3 2001:3::1 2001:4:112::1 2001:20::1 2001:30::1"),
            (Scope::Global, "2001:200::1 2001:4860:4860::8888 2620:4f:8000::1 2a01::1 3ffe:ffff::1 64:ff9b::808:808"),
            (Scope::Global, "2002:808:808::1 2001:0:808:808:0:0:f7f7:f7f7"),
        ] {
            for address in addresses.split(' ') {
                assert_eq!(scope(address.parse().expect("an address")), expected, "{address}");
            }
        }
    }

    fn ranges(list: &str) -> Option<AddressRanges> {
        let mut ranges = AddressRanges::default();
        list.split('|').filter(|entry| !entry.is_empty()).try_for_each(|entry| ranges.add(entry).ok())?;
        Some(ranges)
    }

    #[test]
    fn an_address_is_in_the_ranges_with_its_prefix() {
        let listed = ranges("127.0.0.1|10.1.0.0/16|2001:db8::/32|::ffff:9.9.9.9").unwrap();
        for address in ["127.0.0.1", "::ffff:127.0.0.1", "10.1.255.7", "2001:db8:ffff::1", "9.9.9.9"] {
            assert!(listed.contains(address.parse().unwrap()), "{address}");
        }
        for address in ["127.0.0.2", "10.2.0.0", "2001:db9::", "::1"] {
            assert!(!listed.contains(address.parse().unwrap()), "{address}");
        }
        assert_eq!(ranges("").unwrap(), AddressRanges::default());
    }

    #[test]
    fn an_invalid_range_is_rejected() {
        for entry in ["10.0.0.0/33", "10.0.0/8", "proxy.example", "10.0.*.*", "::/129", "1.2.3.4/", "/8"] {
            assert_eq!(ranges(&format!("10.0.0.1|{entry}")), None, "{entry}");
        }
    }

    fn local(list: &str) -> Option<LocalAddresses> {
        let mut local = LocalAddresses::default();
        let mut entries = list.split('|').map(str::trim).filter(|entry| !entry.is_empty());
        entries.try_for_each(|entry| local.add_entry(entry)).ok()?;
        Some(local)
    }

    fn is_local(list: &str, caller: &str) -> bool {
        local(list).unwrap().contains(caller.parse().unwrap())
    }

    #[test]
    fn loopback_is_local_without_any_entry() {
        assert!(is_local("", "127.0.0.1"));
        assert!(is_local("", "::ffff:127.0.0.1"));
        assert!(is_local(" ", "::1"));
        assert!(!is_local("", "127.0.0.2"));
        assert!(!is_local("", "10.0.0.1"));
    }

    #[test]
    fn addresses_and_patterns_match_their_addresses() {
        let list = "127.0.0.2|127.0.1.*| 10.*.*.7 |fe80:0:0:0:*:*:*:1|2001:db8::5|";
        for caller in
            ["127.0.0.2", "127.0.1.0", "127.0.1.255", "10.1.2.7", "::ffff:10.1.2.7", "fe80::a:b:c:1", "2001:db8::5"]
        {
            assert!(is_local(list, caller), "{caller}");
        }
        for caller in ["127.0.0.3", "127.1.1.1", "10.1.2.8", "fe80::1:a:b:c:2", "2001:db8::6"] {
            assert!(!is_local(list, caller), "{caller}");
        }
        assert!(!is_local("*.*.*.*", "fe80::1"));
        assert!(!is_local("*:*:*:*:*:*:*:*", "10.0.0.1"));
    }

    #[test]
    fn host_names_are_kept_unresolved_until_addresses_are_added() {
        let mut read = local("wallet.example|10.0.0.1").unwrap();
        assert_eq!(read.hosts, ["wallet.example"]);
        assert!(!read.contains([10, 0, 0, 9].into()));
        read.add([10, 0, 0, 9].into());
        assert!(read.contains([10, 0, 0, 9].into()));
    }

    #[test]
    fn a_malformed_entry_is_rejected() {
        for entry in [
            "10.0.*",
            "10.0.0.0.*",
            "*",
            "*:*",
            "10.0.0.256.*",
            "10.00.0.*",
            "FE80:*:*:*:*:*:*:*",
            "1.2.3",
            "a b",
            "fe80:::1",
            "10.0.0.+*",
            "10.+1.*.*",
        ] {
            assert_eq!(local(&format!("10.0.0.1|{entry}|10.0.0.2")), None, "{entry}");
        }
    }

    fn host(text: &str) -> String {
        parse_host(text).unwrap_or_else(|why| format!("wrong: {why}"))
    }

    #[test]
    fn a_host_is_a_name_or_an_address_and_anything_more_is_told_apart_from_it() {
        for text in ["node.example", "NODE", "a_b-c.example.", "10.0.0.1", "::1", "2001:db8::1"] {
            assert_eq!(host(text), text);
        }
        assert_eq!(host(" [2001:db8::1] "), "2001:db8::1");
        assert_eq!(host("[fe80::1%eth0]"), "fe80::1%eth0");
        for text in
            ["http://1.2.3.4", "HTTPS://1.2.3.4:7890/", "1.2.3.4:7890", "1.2.3.4/", "ws://1.2.3.4/w/messages?a#b"]
        {
            assert_eq!(host(text), "wrong: write only 1.2.3.4", "{text}");
        }
        assert_eq!(host("http://[::1]:7890"), "wrong: write only ::1");
    }

    #[test]
    fn each_wrong_url_is_told_what_is_wrong_with_it() {
        for (text, words) in [
            ("", "host is missing"),
            ("http://", "host is missing"),
            (":7890", "host is missing"),
            ("http://:7890", "host is missing"),
            ("http:/1.2.3.4", "two slashes"),
            ("HTTPS:/1.2.3.4", "two slashes"),
            ("https://a", "https is not supported"),
            ("HTTPS://a", "https is not supported"),
            ("ws://a:7778", "ws:// is not supported"),
            ("a:0", "port 0 is not from 1 to 65535"),
            ("a:65536", "port 65536 is not from"),
            ("a:+80", "\"+80\" is not a port"),
            ("a:b", "\"b\" is not a port"),
            ("a:", "port after the : is missing"),
            ("http://::1:7890", "needs brackets"),
            ("1:2:3", "needs brackets"),
            ("[::1", "] after the address is missing"),
            ("[::1]x", "\"x\" after the address is not a port"),
            ("[1.2.3.4]:80", "\"1.2.3.4\" is not an IPv6 address"),
            ("a/b", "path \"/b\" does not belong here; write a"),
            ("http://[::1]:80/status?x", "write [::1]:80"),
            ("me:secret@a", "user name or password"),
            ("a b", "neither a host name nor an IP address"),
            ("a..b", "neither a host name"),
            ("a\r\nb", "neither a host name"),
            ("1.2.3.256", "not an IPv4 address"),
            ("bücher.example", "begins with xn--"),
            ("[::]:1", "address to listen on"),
            ("0.0.0.0", "address to listen on"),
            ("224.0.0.1:7890", "address of many machines"),
            (&"a".repeat(64), "neither a host name"),
            (&"a.".repeat(600), "more than 1024 bytes"),
        ] {
            let why = Url::of_node(text).unwrap_err();
            assert!(why.contains(words) && !why.contains("secret"), "{text}: {why}");
        }
        let node = Url::of_node("HTTP://LOCALHOST:17890/").unwrap();
        assert_eq!(node, ("LOCALHOST".to_owned(), Some(17_890)));
    }
}
