//! Who has the rights of a local client.
//!
//! That a request comes from this machine is not enough: it may have been passed on by a proxy, or a page may have had the
//! browser make it. The `Host` header holds the name by which the browser was led here, which is not one of this machine
//! if somebody lets their own name point to it. `Origin`, `Referer` and `Sec-Fetch-Site` tell of the page: only pages of
//! this interface itself, and of the origins that the operator names, have the rights of a local client. A client that
//! sends none of the three has them unless it is a browser.

use std::net::IpAddr;

use super::settings::Settings;
use crate::net::http::Request;
use crate::net::machine::Caller;

/// Whether a request has the rights of a local client.
pub fn is_local(caller: &Caller, request: &Request<'_>, settings: &Settings) -> bool {
    !caller.is_forwarded
        && (settings.is_local)(caller.address)
        && all(request, "Host", |host| names_this_machine(host, settings))
        && is_of_no_foreign_page(request, settings)
}

fn is_of_no_foreign_page(request: &Request<'_>, settings: &Settings) -> bool {
    // `none` is what a person has typed.
    let is_same_site = all(request, "Sec-Fetch-Site", |site| matches!(site, "same-origin" | "none"));
    let is_trusted = |origin: &str| {
        settings.local_origins.iter().any(|named| named.eq_ignore_ascii_case(origin))
            || is_same_site && is_own_origin(origin, request)
    };
    all(request, "Origin", is_trusted)
        && all(request, "Referer", |page| origin_of(page).is_some_and(is_trusted))
        && (has(request, "Origin") || has(request, "Referer") || is_same_site && !may_hide_a_page(request))
}

/// Whether a request that names no page may be one of a browser for a page all the same: one can have its `Referer` left
/// out, and `Sec-Fetch-Site` is sent by browsers of these years only, and to hosts of the loopback.
fn may_hide_a_page(request: &Request<'_>) -> bool {
    let is_browser = request.header("User-Agent").is_some_and(|agent| agent.starts_with("Mozilla/"));
    is_browser && !has(request, "Sec-Fetch-Site")
}

fn has(request: &Request<'_>, name: &str) -> bool {
    request.headers().any(|(header, _)| header.eq_ignore_ascii_case(name.as_bytes()))
}

/// Whether a condition holds for every value of a header; one that is not even text fails.
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

/// Whether an origin such as `http://localhost:7890` is this interface, as the request itself names it. `null` stands for
/// one that the browser does not name.
fn is_own_origin(origin: &str, request: &Request<'_>) -> bool {
    let authority = origin.strip_prefix("http://");
    authority.zip(request.header("Host")).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
}

/// The origin of a page.
fn origin_of(page: &str) -> Option<&str> {
    let authority = page.find("://")? + "://".len();
    let length = page[authority..].find(['/', '?', '#']).unwrap_or(page.len() - authority);
    Some(&page[..authority + length])
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
