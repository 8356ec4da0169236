//! Who has the rights of a local caller.
//!
//! That a request comes from this machine is not enough: it may have been passed on by a proxy, or a page of a foreign
//! site may have had the user's browser make it. A browser tells of the page in `Origin`, and the `Host` header holds
//! the name by which it was led here, which is not one of this machine if somebody lets their own name point to it.

use std::net::IpAddr;

use super::settings::Settings;
use crate::net::http::Request;
use crate::net::machine::Caller;

/// Whether a request has the rights of a local caller.
pub fn is_local(caller: &Caller, request: &Request<'_>, settings: &Settings) -> bool {
    !caller.is_forwarded
        && (settings.is_local)(caller.address)
        && all(request, "Host", |host| names_this_machine(host, settings))
        && all(request, "Origin", |origin| is_own_origin(origin, settings))
}

/// Whether a condition holds for every value of a header; one that is not even text fails.
fn all(request: &Request<'_>, name: &str, condition: impl Fn(&str) -> bool) -> bool {
    request
        .headers()
        .filter(|(header, _)| header.eq_ignore_ascii_case(name))
        .all(|(_, value)| std::str::from_utf8(value).is_ok_and(&condition))
}

fn names_this_machine(authority: &str, settings: &Settings) -> bool {
    let host = host_of(authority);
    is_own_host(host, settings) || address_of(host).is_some_and(|address| (settings.is_local)(address))
}

/// Whether an origin such as `http://localhost:3000` is a page of this machine. `null` stands for one that the browser
/// does not name.
fn is_own_origin(origin: &str, settings: &Settings) -> bool {
    origin.split_once("://").is_some_and(|(_, authority)| is_own_host(host_of(authority), settings))
}

/// Whether a host is the loopback, or one of the names of this machine.
fn is_own_host(host: &str, settings: &Settings) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let address = address_of(host);
    host.eq_ignore_ascii_case("localhost")
        || address.is_some_and(|address| address.is_loopback())
        || settings.host_names.iter().any(|name| match (address, address_of(name)) {
            (Some(sent), Some(known)) => sent == known,
            _ => !host.is_empty() && name.eq_ignore_ascii_case(host),
        })
}

/// The host in `host:port`, an IPv6 address without its brackets.
fn host_of(authority: &str) -> &str {
    let authority = authority.trim();
    match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(host, _)| host),
        None => authority.split_once(':').map_or(authority, |(host, _)| host),
    }
}

fn address_of(host: &str) -> Option<IpAddr> {
    host.parse().ok().map(|address: IpAddr| address.to_canonical())
}
