//! The page `/explorer`: the chain as people look at it, by a browser that asks this node what anybody may ask.
//!
//! The files of the page lie in `page/` and are compiled in. Nothing is loaded from elsewhere, and the policy that is sent
//! along keeps the browser from doing so.

mod files;
#[cfg(test)]
mod tests;

use self::files::{HTML, INDEX, PARTS, ready};
use crate::net::http::{Reply, Request, StaticText};

/// Where the page is. Its other files are below.
const PATH: &str = "/explorer";
/// What is said of parts, whose paths change with them: a page that is loaded again asks for one file only.
const FOR_EVER: &str = "max-age=31536000, immutable";
/// Longest name of a host in a policy.
const MAX_HOST_BYTES: usize = 253;

/// What the page must know before it can ask.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Path in front of all others: empty, or begins with `/` and does not end with it.
    pub context_path: String,
    /// Port of the HTTP interface.
    pub http_port: u16,
    /// Port of the websocket interface.
    pub websocket_port: u16,
    /// The first byte of addresses.
    pub network_byte: u8,
    /// Seconds between blocks that the network aims at.
    pub target_seconds: u32,
}

/// The page, ready to be sent.
pub struct Explorer {
    settings: Settings,
    /// The page for everybody, and for those to whom the node tells more.
    index: [StaticText; 2],
}

/// What a path leads to.
enum Found<'a> {
    Index(&'a StaticText),
    Part(&'a StaticText),
    /// The page, with a slash behind its path: what it names is relative to the path without.
    Slash,
    /// The root of the interface, asked for by a browser.
    Root,
}

impl Explorer {
    /// The page of a node with these settings.
    pub fn new(settings: Settings) -> Explorer {
        let index = INDEX
            .replace("{version}", &PARTS.folder)
            .replace("{http-port}", &settings.http_port.to_string())
            .replace("{websocket-port}", &settings.websocket_port.to_string())
            .replace("{network-byte}", &settings.network_byte.to_string())
            .replace("{target-seconds}", &settings.target_seconds.to_string());
        let index = ["false", "true"].map(|is_local| ready(HTML, index.replace("{is-local}", is_local).into()));
        Explorer { settings, index }
    }

    /// Answers a request for the page or a part of it; whether it is for one. The page asks for what the node tells local
    /// clients only if this one is local, which is looked at for the page alone.
    pub fn answer(&self, request: &Request<'_>, is_local: impl FnOnce() -> bool, reply: &mut Reply) -> bool {
        let Some(found) = self.find(request, is_local) else { return false };
        reply.reset();
        match (request.method, found) {
            ("GET" | "HEAD", Found::Index(text)) => self.send(text, "no-cache", request, reply),
            ("GET" | "HEAD", Found::Part(text)) => self.send(text, FOR_EVER, request, reply),
            ("GET" | "HEAD", Found::Slash) => {
                reply.status = 308;
                reply.header("Location", "../explorer");
            }
            ("GET" | "HEAD", Found::Root) => {
                reply.status = 302;
                // Relative, as a proxy may have the node below a path of its own.
                reply.header("Location", PATH.trim_start_matches('/'));
                reply.header("Vary", "Accept");
            }
            _ => {
                reply.status = 405;
                reply.header("Allow", "GET, HEAD");
            }
        }
        true
    }

    fn find(&self, request: &Request<'_>, is_local: impl FnOnce() -> bool) -> Option<Found<'_>> {
        let inner = request.path.strip_prefix(self.settings.context_path.as_str())?;
        if inner == "/" && wants_page(request) {
            return Some(Found::Root);
        }
        match inner.strip_prefix(PATH)? {
            "" => Some(Found::Index(&self.index[usize::from(is_local())])),
            "/" => Some(Found::Slash),
            below => {
                let name = below.strip_prefix('/')?.strip_prefix(&PARTS.folder)?.strip_prefix('/')?;
                PARTS.files.iter().find(|part| part.name == name).map(|part| Found::Part(&part.text))
            }
        }
    }

    fn send(&self, text: &StaticText, caching: &'static str, request: &Request<'_>, reply: &mut Reply) {
        text.send(caching, true, request, reply);
        reply.header("Content-Security-Policy", self.policy(request));
        reply.header("X-Content-Type-Options", "nosniff");
        reply.header("Referrer-Policy", "same-origin");
        reply.header("Cross-Origin-Resource-Policy", "same-origin");
    }

    /// The page's own files and nothing else, no text that becomes a program, and no other servers than this node.
    fn policy(&self, request: &Request<'_>) -> String {
        // A policy cannot name an IPv6 address.
        let host = request.header("Host").and_then(host_name).unwrap_or("*");
        let websocket_port = self.settings.websocket_port;
        format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
             connect-src 'self' ws://{host}:{websocket_port}; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        )
    }
}

/// Whether a browser asks for a page to show.
fn wants_page(request: &Request<'_>) -> bool {
    let mut types = request.header_values("Accept").flat_map(|value| value.split(','));
    matches!(request.method, "GET" | "HEAD")
        && types.any(|value| value.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("text/html")))
}

/// The name or IPv4 address in `host:port`.
fn host_name(authority: &str) -> Option<&str> {
    let name = authority.split_once(':').map_or(authority, |(name, _)| name);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    (!name.is_empty() && name.len() <= MAX_HOST_BYTES && name.bytes().all(is_plain)).then_some(name)
}
