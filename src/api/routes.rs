//! The route table: the routes of all resources, and the lookup of a route by path; forms of a path, query parameters
//! and percent encoding.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

pub use super::access::Access;
use super::{ApiError, RequestContext};
use super::{
    account_history, accounts, blocks, debug, events, explorer, harvesting, mempool, mosaics, namespaces, node,
    peer_requests, peers, transaction_status, transactions, transfers,
};
use crate::codec::text::repair_utf8;
pub use crate::net::fetch::Method;

/// Maximum size of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLimit {
    /// 8 KiB, the default.
    Small,
    /// 64 KiB, for a transaction and for batches.
    Large,
    /// [`pushed_bytes`](super::Settings::max_pushed_bytes), for a block or a list of a peer.
    Pushed,
    /// 512 KiB, for 10,000 addresses.
    Addresses,
}

impl BodyLimit {
    /// Returns the limit in bytes.
    pub fn bytes(self, pushed_bytes: usize) -> usize {
        match self {
            BodyLimit::Small => 8 << 10,
            BodyLimit::Large => 64 << 10,
            BodyLimit::Pushed => pushed_bytes,
            BodyLimit::Addresses => 512 << 10,
        }
    }
}

/// Handler of a route.
pub type Handler = fn(&mut RequestContext<'_>) -> Result<(), ApiError>;

/// What the responses of a route depend on, and so how long they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// On more than the following; they are not kept.
    Never,
    /// On the chain and the request alone; they are kept until the chain changes.
    Chain,
    /// Also on which accounts harvest on this node and on unconfirmed importance transfers; they are kept until one of these
    /// changes too.
    AccountStatus,
}

/// Entry of the route table.
///
/// Responses in JSON are views ([`View`](super::View)), which are written in two formats: the members of an object are in the
/// order of NIS1's hash table ([`JsonEncoder`](crate::codec::json::JsonEncoder)), whatever the order in which the view writes
/// them, and on this node's own routes too.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Method. A GET route answers HEAD too.
    pub method: Method,
    /// Exact path.
    pub path: &'static str,
    /// Required access.
    pub access: Access,
    /// Whether it waits until the mempool is up to date with the chain.
    pub needs_mempool: bool,
    /// Whether it reads rows of the store that may not be in memory. A request then waits until they are.
    pub reads_store: bool,
    /// What its responses depend on, and so how long they are kept.
    pub caching: Caching,
    /// Whether a client gets the response whatever it accepts.
    pub takes_any_accept: bool,
    /// Whether NIS1 does not have it.
    pub is_own: bool,
    /// Maximum body size.
    pub body_limit: BodyLimit,
    /// Whether it answers while the store is rebuilt.
    pub answers_while_loading: bool,
    /// Whether its requests count for the request rate of their client.
    pub is_counted: bool,
    /// Handler.
    pub handler: Handler,
}

/// Creates a public GET route.
pub const fn get(path: &'static str, handler: Handler) -> Route {
    Route {
        method: Method::Get,
        path,
        access: Access::Public,
        needs_mempool: false,
        reads_store: false,
        caching: Caching::Never,
        takes_any_accept: false,
        is_own: false,
        body_limit: BodyLimit::Small,
        answers_while_loading: false,
        is_counted: true,
        handler,
    }
}

/// Creates a public POST route.
pub const fn post(path: &'static str, handler: Handler) -> Route {
    Route { method: Method::Post, ..get(path, handler) }
}

impl Route {
    /// Restricts the route to local clients.
    pub const fn local(self) -> Route {
        Route { access: Access::Local, ..self }
    }

    /// Restricts the route to local clients and the metrics listener.
    pub const fn metrics(self) -> Route {
        Route { access: Access::Metrics, ..self }
    }

    /// Makes requests wait until the mempool is up to date with the chain.
    pub const fn needing_mempool(self) -> Route {
        Route { needs_mempool: true, ..self }
    }

    /// Makes requests wait until their rows are in memory. Routes whose responses are kept do so too. Not for requests with
    /// private keys, which no other process should see.
    pub const fn reading_store(self) -> Route {
        Route { reads_store: true, ..self }
    }

    /// Marks the responses of a public route as depending on nothing but the chain and the request.
    pub const fn cached(self) -> Route {
        Route { caching: Caching::Chain, reads_store: true, ..self }
    }

    /// Marks the responses of a public route as depending also on the status of accounts on this node.
    pub const fn cached_with_account_status(self) -> Route {
        Route { caching: Caching::AccountStatus, reads_store: true, ..self }
    }

    /// Answers a client whatever it accepts.
    pub const fn with_any_accept(self) -> Route {
        Route { takes_any_accept: true, ..self }
    }

    /// Answers also while the store is rebuilt.
    pub const fn while_loading(self) -> Route {
        Route { answers_while_loading: true, ..self }
    }

    /// Leaves its requests out of the request rate of their client.
    pub const fn uncounted(self) -> Route {
        Route { is_counted: false, ..self }
    }

    /// Marks a route that NIS1 does not have.
    pub const fn own(self) -> Route {
        Route { is_own: true, ..self }
    }

    /// Raises the body limit.
    pub const fn with_bodies(self, body_limit: BodyLimit) -> Route {
        Route { body_limit, ..self }
    }
}

/// The routes of each resource.
const RESOURCES: &[&[Route]] = &[
    blocks::ROUTES,
    accounts::ROUTES,
    transfers::ROUTES,
    account_history::ROUTES,
    transactions::ROUTES,
    transaction_status::ROUTES,
    mempool::ROUTES,
    events::ROUTES,
    harvesting::ROUTES,
    namespaces::ROUTES,
    mosaics::ROUTES,
    node::ROUTES,
    peers::ROUTES,
    peer_requests::ROUTES,
    debug::ROUTES,
    explorer::ROUTES,
];

/// All routes. The id of a route is its place, from 1 on.
pub static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| RESOURCES.concat());

/// Returns the route with an id.
pub fn by_id(id: usize) -> Option<&'static Route> {
    ROUTES.get(id.checked_sub(1)?)
}

/// Routes by path.
static BY_PATH: LazyLock<HashMap<&'static str, PathRoutes>> = LazyLock::new(|| {
    let mut map: HashMap<_, PathRoutes> = HashMap::new();
    for (route, id) in ROUTES.iter().zip(1..) {
        let routes = map.entry(route.path).or_default();
        match route.method {
            Method::Get => routes.get = Some(id),
            Method::Post => routes.post = Some(id),
        }
    }
    map
});

/// Ids of the routes of one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathRoutes {
    get: Option<usize>,
    post: Option<usize>,
}

impl PathRoutes {
    /// Finds the routes of a path; of the metrics listener only those of the metrics.
    pub fn find(path: &str, is_metrics_listener: bool) -> Result<Option<PathRoutes>, MalformedPath> {
        let plain = BY_PATH.get(without_trailing_slash(path));
        let found = match plain {
            Some(routes) => Some(routes),
            None => normalise(path)?.and_then(|(path, _)| BY_PATH.get(path.as_str())),
        };
        let is_of_metrics =
            |routes: &PathRoutes| routes.get.and_then(by_id).is_some_and(|route| route.access == Access::Metrics);
        Ok(found.copied().filter(|routes| !is_metrics_listener || is_of_metrics(routes)))
    }

    /// Returns the id of the route for a method. Methods are case-sensitive.
    pub fn by_method(&self, method: &str) -> Option<usize> {
        match method {
            "GET" | "HEAD" => self.get,
            "POST" => self.post,
            _ => None,
        }
    }

    /// Returns whether NIS1 does not have these routes.
    pub fn are_own(&self) -> bool {
        self.get.or(self.post).and_then(by_id).is_some_and(|route| route.is_own)
    }

    /// Returns the value of the `Allow` header of a response to OPTIONS; of the second one for the routes of NIS1.
    pub fn allow(&self) -> &'static str {
        match (self.get.is_some(), self.post.is_some()) {
            (true, true) => "POST,GET,HEAD",
            (true, false) => "GET,HEAD",
            (false, _) => "POST",
        }
    }
}

/// Returns a query parameter; several values are joined with commas. The case of the name's first letter is ignored.
pub fn parameter<'a>(query: Option<&'a str>, name: &str) -> Result<Option<Cow<'a, str>>, ApiError> {
    let mut value: Option<Cow<'a, str>> = None;
    for pair in query.unwrap_or_default().split('&') {
        let (key, text) = pair.split_once('=').unwrap_or((pair, ""));
        // A malformed escape fails the request, even in a parameter that is not used.
        let (key, text) = (decode(key)?, decode(text)?);
        if !is_same_name(&key, name) {
            continue;
        }
        value = Some(match value {
            None => text,
            Some(earlier) => format!("{earlier},{text}").into(),
        });
    }
    Ok(value)
}

/// Returns the first query parameter that is none of these.
pub fn unknown_parameter<'a>(query: Option<&'a str>, known: &[&str]) -> Result<Option<Cow<'a, str>>, ApiError> {
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    let mut names = pairs.map(|pair| decode(pair.split('=').next().unwrap_or(pair)));
    let is_known = |name: &Cow<'_, str>| known.iter().any(|known| is_same_name(name, known));
    names.find(|name| !name.as_ref().is_ok_and(is_known)).transpose()
}

fn is_same_name(sent: &str, name: &str) -> bool {
    sent.get(1..) == name.get(1..) && sent.get(..1).zip(name.get(..1)).is_some_and(|(a, b)| a.eq_ignore_ascii_case(b))
}

/// Decodes a part of a query.
fn decode(text: &str) -> Result<Cow<'_, str>, ApiError> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+') {
        return Ok(Cow::Borrowed(text));
    }
    let bytes = percent_decode(text, true).ok_or(ApiError::internal("400: Unable to parse URI query"))?;
    Ok(Cow::Owned(repair_utf8(&bytes).into_owned()))
}

/// A path that the web container rejects.
#[derive(Debug, PartialEq, Eq)]
pub struct MalformedPath;

/// Strips one trailing slash, which any path may have.
pub fn without_trailing_slash(path: &str) -> &str {
    match path.strip_suffix('/') {
        Some("") | None => path,
        Some(shorter) => shorter,
    }
}

/// Collapses slashes, decodes escapes, strips path parameters and splits off the extension, which is returned without its
/// dot. Returns `None` if the path has none of these.
pub fn normalise(raw: &str) -> Result<Option<(String, Option<String>)>, MalformedPath> {
    if !raw.bytes().any(|byte| matches!(byte, b'%' | b';' | b'.')) && !raw.contains("//") {
        return Ok(None);
    }
    let decoded = decode_path(raw).filter(|decoded| !escapes_root(decoded)).ok_or(MalformedPath)?;
    let mut path = String::with_capacity(decoded.len());
    for segment in decoded.split('/').filter(|segment| !segment.is_empty()) {
        path.push('/');
        path.push_str(segment);
    }
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    let dot = path[name..].rfind('.').map(|dot| name + dot);
    let extension = dot.map(|dot| path[dot + 1..].to_owned());
    path.truncate(dot.unwrap_or(path.len()));
    Ok(Some((path, extension)))
}

/// Decodes escapes and strips path parameters, which end with their segment.
fn decode_path(raw: &str) -> Option<String> {
    // Escapes in parameters must be well-formed too.
    percent_decode(raw, false)?;
    let plain = |segment: &str| percent_decode(segment.split(';').next().unwrap_or_default(), false);
    let decoded = raw.split('/').map(plain).collect::<Option<Vec<_>>>()?.join(&b'/');
    String::from_utf8(decoded).ok().filter(|path| !path.contains('\0'))
}

fn escapes_root(path: &str) -> bool {
    let mut depth = 0i32;
    path.split('/').any(|segment| {
        depth += match segment {
            "" | "." => 0,
            ".." => -1,
            _ => 1,
        };
        depth < 0
    })
}

/// Decodes a percent-encoded text; `None` if an escape lacks its two digits.
fn percent_decode(text: &str, plus_is_blank: bool) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16).map(|digit| digit as u8);
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => digit(bytes.next())? << 4 | digit(bytes.next())?,
            b'+' if plus_is_blank => b' ',
            other => other,
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_decoded_and_joined() {
        for (query, value) in [
            (None, None),
            (Some(""), None),
            (Some("address"), Some("")),
            (Some("address="), Some("")),
            (Some("address=T"), Some("T")),
            (Some("x=1&Address=T&y"), Some("T")),
            (Some("ADDRESS=T"), None),
            (Some("address=A&address=B"), Some("A,B")),
            (Some("address=%20a+b%C3%A9=c"), Some(" a bé=c")),
            (Some("%61ddress=%ff"), Some("\u{fffd}")),
        ] {
            assert_eq!(parameter(query, "address").unwrap().as_deref(), value, "{query:?}");
        }
    }

    #[test]
    fn the_first_unknown_parameter_is_found() {
        let unknown = |query| unknown_parameter(query, &["address", "from"]).unwrap();
        for query in [None, Some(""), Some("Address=T&&from"), Some("%61ddress=%3D&from=1&address=adress")] {
            assert_eq!(unknown(query), None, "{query:?}");
        }
        assert_eq!(unknown(Some("from=1&adress=T&x=1")).as_deref(), Some("adress"));
        assert_eq!(unknown(Some("a%20b")).as_deref(), Some("a b"));
        assert!(unknown_parameter(Some("address=T&%"), &["address"]).is_err());
    }

    #[test]
    fn a_malformed_escape_anywhere_fails() {
        for query in ["address=%", "address=%z1", "address=T&x=%1", "%=1"] {
            let failure = parameter(Some(query), "address").unwrap_err();
            assert_eq!(failure, ApiError::internal("400: Unable to parse URI query"), "{query}");
        }
    }
}

#[cfg(test)]
mod path_tests {
    use super::*;

    #[test]
    fn unusual_path_spellings_are_normalised() {
        for (raw, extension) in [
            ("//chain//height", None),
            ("/chain/height;a=b", None),
            ("/chain;x/height", None),
            ("/chain%2Fheight", None),
            ("/%63hain/height", None),
            ("/chain/height.json", Some("json")),
            ("/chain/height.foo", Some("foo")),
            ("//chain/height/", None),
        ] {
            let (path, found) = normalise(raw).unwrap().expect(raw);
            assert_eq!((path.as_str(), found.as_deref()), ("/chain/height", extension));
        }
        assert_eq!(normalise("/chain/height"), Ok(None));
        assert_eq!(without_trailing_slash("/chain/height/"), "/chain/height");
        assert_eq!(without_trailing_slash("/"), "/");
    }

    #[test]
    fn dots_are_not_resolved() {
        for raw in ["/chain/./height", "/chain/../chain/height", "/chain/height%20"] {
            let (path, _) = normalise(raw).unwrap().expect(raw);
            assert_ne!(path, "/chain/height", "{raw}");
        }
    }

    #[test]
    fn malformed_paths_are_rejected() {
        for raw in ["/../x", "/chain/%00", "/chain/height%", "/%ff", "/a/../../b", "/a;%zz"] {
            assert_eq!(normalise(raw), Err(MalformedPath), "{raw}");
        }
    }
}
