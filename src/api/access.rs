//! Who may use a route: the settings of the interface ([`Settings`]) decide who has local access.

use std::net::IpAddr;

use super::explorer::Explorer;
use super::{ApiError, RequestContext};
use crate::ip::LocalAddresses;
use crate::local_cookie::LocalCookie;
use crate::model::Address;
use crate::net::http::Request;
use crate::net::service::{Client, ListenerId};

/// The header with the secret.
const AUTHORIZATION: &str = "Authorization";

/// Errors of requests without local access. A client sees 128 characters.
const LOCAL_ACCESS_NEEDS_SECRET: &str =
    "send the content of the file local-cookie in the node's data folder as the header Authorization: Bearer CONTENT";
const WRONG_SECRET: &str =
    "the header Authorization has not the content of local-cookie in the node's data folder; it is new at each start";

/// Access to a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anyone.
    Public,
    /// Clients on this machine, or at addresses that count as local.
    Local,
    /// Local clients, and any client of the metrics listener.
    Metrics,
}

impl RequestContext<'_> {
    /// Returns the access that the client has on every listener. A page that it requests has the same.
    pub(super) fn access(&self) -> Access {
        if self.client.is_local {
            Access::Local
        } else if self.settings.is_of_this_machine(&self.client, self.request) {
            Access::Metrics
        } else {
            Access::Public
        }
    }

    /// Returns whether the request arrived at the metrics listener.
    pub fn is_at_metrics_listener(&self) -> bool {
        self.client.listener == self.settings.metrics_listener
    }

    /// Returns whether the client may use a route with this access.
    pub fn may_use(&self, access: Access) -> bool {
        match access {
            Access::Public => true,
            Access::Local => self.client.is_local,
            Access::Metrics => self.is_at_metrics_listener() || self.access() != Access::Public,
        }
    }

    /// Returns the error for a request without local access: what to send, if it can have local access, or else the text.
    pub fn unauthorized(&self, text: String) -> ApiError {
        let is_missing = self.request.header(AUTHORIZATION).is_none();
        let may_be_local = self.settings.may_be_local(&self.client, self.request);
        if !self.settings.needs_cookie || !may_be_local {
            return ApiError::new(401, text);
        }
        ApiError::new(401, if is_missing { LOCAL_ACCESS_NEEDS_SECRET } else { WRONG_SECRET })
    }
}

/// Optional parts of the interface (`nis.optionalFeatures`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `TRANSACTION_HASH_LOOKUP`.
    pub transaction_hash_lookup: bool,
    /// `HISTORICAL_ACCOUNT_DATA`.
    pub historical_account_data: bool,
    /// `TRACK_EXPIRED_MOSAICS`.
    pub track_expired_mosaics: bool,
}

impl Features {
    /// Returns the feature bits of the node's metadata.
    pub fn bits(self) -> u32 {
        u32::from(self.transaction_hash_lookup)
            | u32::from(self.historical_account_data) << 1
            | u32::from(self.track_expired_mosaics) << 2
    }
}

/// Settings of the HTTP interface. The default is for tests, which name what they need.
#[derive(Default)]
pub struct Settings {
    /// Prefix of all paths (`nem.apiContext`): empty, or begins with `/` and does not end with it.
    pub context_path: String,
    /// Optional parts.
    pub features: Features,
    /// Addresses of clients that may be local, besides those on this machine: the loopback ones and
    /// `nis.additionalLocalIps`.
    pub local: LocalAddresses,
    /// The secret of local requests.
    pub cookie: Option<LocalCookie>,
    /// Whether they need it; if not, the address suffices, as in NIS1 (`nisd.localAccess`).
    pub needs_cookie: bool,
    /// Names and addresses of this machine besides the loopback ones. A browser that names one of them addresses this
    /// node on purpose. IPv6 addresses have no brackets.
    pub host_names: Vec<String>,
    /// Origins such as `http://127.0.0.1:3000` whose pages have local access (`nisd.localOrigins`), besides its own.
    pub local_origins: Vec<String>,
    /// Accounts whose private keys requests may contain (`nis.allowedHarvesterAddresses`); empty allows all.
    pub allowed_harvesters: Vec<Address>,
    /// Paths that `/debug/connections/incoming` excludes (`nem.nonAuditedApiPaths`).
    pub unaudited_paths: Vec<String>,
    /// Maximum size in bytes of a body in which a peer pushes a block or a list, derived from the chain parameters.
    pub max_pushed_bytes: usize,
    /// Listener on which any client may request the metrics, and nothing else.
    pub metrics_listener: ListenerId,
    /// The page `/explorer`, if it is served.
    pub explorer: Option<Explorer>,
}

impl Settings {
    /// Strips the context path, which the metrics listener does not have. A path outside of it yields an empty path, which
    /// no route has.
    pub fn inner_path<'p>(&self, listener: ListenerId, path: &'p str) -> &'p str {
        if listener == self.metrics_listener {
            return path;
        }
        let inner = path.strip_prefix(self.context_path.as_str());
        inner.filter(|inner| inner.starts_with('/')).unwrap_or_default()
    }

    /// Returns whether a request has local access: it carries the secret, or needs none. A browser's page has not: it does
    /// not know the secret, and may not send it to a foreign origin, as `Access-Control-Allow-Headers` does not name
    /// `Authorization`.
    pub fn is_local(&self, client: &Client, request: &Request<'_>) -> bool {
        let has_secret = |cookie: &LocalCookie| request.header(AUTHORIZATION).is_some_and(|sent| cookie.is_in(sent));
        self.may_be_local(client, request) && self.cookie.as_ref().is_some_and(has_secret)
            || !self.needs_cookie && self.is_of_this_machine(client, request)
    }

    /// Returns whether a request would have local access with the right secret: it comes from a local address, without
    /// headers of a proxy.
    fn may_be_local(&self, client: &Client, request: &Request<'_>) -> bool {
        self.has_local_address(client) && !request.has_proxy_header
    }

    fn has_local_address(&self, client: &Client) -> bool {
        client.is_on_this_machine || self.local.contains(client.address)
    }

    /// Returns whether a request comes from a local address, from no proxy and from no foreign page, as far as it tells. A
    /// proxy that adds no header cannot be told from a client of this machine, nor can its clients.
    fn is_of_this_machine(&self, client: &Client, request: &Request<'_>) -> bool {
        !client.is_forwarded
            && self.has_local_address(client)
            && all(request, "Host", |host| names_this_machine(host, client, self))
            && has_trusted_origin(request, self)
    }
}

fn has_trusted_origin(request: &Request<'_>, settings: &Settings) -> bool {
    // `none`: the user typed the address.
    let is_same_site = all(request, "Sec-Fetch-Site", |site| matches!(site, "same-origin" | "none"));
    // The origin of this interface, as the request names it. A browser sends `null` for an origin that it hides.
    let is_own = |origin: &str| {
        let named = origin.strip_prefix("http://").zip(request.header("Host"));
        named.is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
    };
    let is_trusted = |origin: &str| {
        settings.local_origins.iter().any(|named| named.eq_ignore_ascii_case(origin)) || is_same_site && is_own(origin)
    };
    // A page can suppress `Referer`, and only recent browsers send `Sec-Fetch-Site`, and only to loopback hosts.
    let is_browser = request.header("User-Agent").is_some_and(|agent| agent.starts_with("Mozilla/"));
    let may_be_page = is_browser && !has(request, "Sec-Fetch-Site");
    all(request, "Origin", is_trusted)
        && all(request, "Referer", |page| origin_of(page).is_some_and(is_trusted))
        && (has(request, "Origin") || has(request, "Referer") || is_same_site && !may_be_page)
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

/// Returns whether a host is the loopback, a local address, the address at which a client of this machine has reached the
/// node, or one of the names of this machine.
fn names_this_machine(authority: &str, client: &Client, settings: &Settings) -> bool {
    let host = host_of(authority);
    let plain = host.strip_suffix('.').unwrap_or(host);
    let address = address_of(plain);
    plain.eq_ignore_ascii_case("localhost")
        || address
            .is_some_and(|address| address.is_loopback() || client.is_on_this_machine && address == client.address)
        || address_of(host).is_some_and(|address| settings.local.contains(address))
        || settings.host_names.iter().any(|name| match (address, address_of(name)) {
            (Some(sent), Some(known)) => sent == known,
            _ => !plain.is_empty() && name.eq_ignore_ascii_case(plain),
        })
}

/// Returns the origin of a page.
fn origin_of(page: &str) -> Option<&str> {
    let authority = page.find("://")? + "://".len();
    let length = page[authority..].find(['/', '?', '#']).unwrap_or(page.len() - authority);
    Some(&page[..authority + length])
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

#[cfg(test)]
mod tests;
