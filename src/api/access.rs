//! Which requests have local access.
//!
//! A request from this machine is not enough: a proxy may have forwarded it, or a web page may have caused it. `Host`
//! is the name by which the browser reached this node; it is foreign if an attacker points a name of their own to this
//! machine. `Origin`, `Referer` and `Sec-Fetch-Site` identify the page: only pages of this interface, and of the
//! origins that the operator lists, have local access. A client that sends none of the three has it unless it is a
//! browser.

use std::net::IpAddr;

use super::settings::Settings;
use crate::net::http::Request;
use crate::net::service::Client;

/// Returns whether a request has local access.
pub fn is_local(client: &Client, request: &Request<'_>, settings: &Settings) -> bool {
    !client.is_forwarded
        && (settings.is_local)(client.address)
        && all(request, "Host", |host| names_this_machine(host, settings))
        && has_trusted_origin(request, settings)
}

fn has_trusted_origin(request: &Request<'_>, settings: &Settings) -> bool {
    // `none`: the user typed the address.
    let is_same_site = all(request, "Sec-Fetch-Site", |site| matches!(site, "same-origin" | "none"));
    let is_trusted = |origin: &str| {
        settings.local_origins.iter().any(|named| named.eq_ignore_ascii_case(origin))
            || is_same_site && is_own_origin(origin, request)
    };
    all(request, "Origin", is_trusted)
        && all(request, "Referer", |page| origin_of(page).is_some_and(is_trusted))
        && (has(request, "Origin") || has(request, "Referer") || is_same_site && !may_be_browser_page(request))
}

/// Returns whether a request that names no page may come from a page in a browser: a page can suppress `Referer`, and
/// only recent browsers send `Sec-Fetch-Site`, and only to loopback hosts.
fn may_be_browser_page(request: &Request<'_>) -> bool {
    let is_browser = request.header("User-Agent").is_some_and(|agent| agent.starts_with("Mozilla/"));
    is_browser && !has(request, "Sec-Fetch-Site")
}

fn has(request: &Request<'_>, name: &str) -> bool {
    request.headers().any(|(header, _)| header.eq_ignore_ascii_case(name.as_bytes()))
}

/// Returns whether a condition holds for every value of a header. A value that is not text fails.
fn all(request: &Request<'_>, name: &str, condition: impl Fn(&str) -> bool) -> bool {
    request
        .headers()
        .filter(|(header, _)| header.eq_ignore_ascii_case(name.as_bytes()))
        .all(|(_, value)| std::str::from_utf8(value).is_ok_and(&condition))
}

fn names_this_machine(authority: &str, settings: &Settings) -> bool {
    let host = host_of(authority);
    is_own_host(host, settings) || address_of(host).is_some_and(|address| (settings.is_local)(address))
}

/// Returns whether an origin such as `http://localhost:7890` is this interface, as the request names it. A browser
/// sends `null` for an origin that it hides.
fn is_own_origin(origin: &str, request: &Request<'_>) -> bool {
    let authority = origin.strip_prefix("http://");
    authority.zip(request.header("Host")).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
}

/// Returns the origin of a page.
fn origin_of(page: &str) -> Option<&str> {
    let authority = page.find("://")? + "://".len();
    let length = page[authority..].find(['/', '?', '#']).unwrap_or(page.len() - authority);
    Some(&page[..authority + length])
}

/// Returns whether a host is the loopback or one of the names of this machine.
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

/// Returns the host in `host:port`, an IPv6 address without its brackets.
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
