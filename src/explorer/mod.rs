//! The page `/explorer`: the chain as people look at it, by a browser that asks this node what anybody may ask.
//!
//! The files of the page lie in `page/` and are compiled in. Nothing is loaded from elsewhere, and the policy that is sent
//! along keeps the browser from doing so.

mod files;
#[cfg(test)]
mod tests;

use self::files::{File, INDEX, PARTS};
use crate::net::http::{Reply, Request, accepts_gzip};

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
    index: File,
}

/// What a path leads to.
enum Found<'a> {
    Index(&'a File),
    Part(&'a File),
    /// The page, with a slash behind its path: what it names is relative to the path without.
    Slash,
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
        Explorer { settings, index: File::index(index) }
    }

    /// Answers a request for the page or a part of it; whether it is for one.
    pub fn answer(&self, request: &Request<'_>, reply: &mut Reply) -> bool {
        let Some(found) = self.find(request.path) else { return false };
        reply.reset();
        match (request.method, found) {
            ("GET" | "HEAD", Found::Index(file)) => self.send(file, "no-cache", request, reply),
            ("GET" | "HEAD", Found::Part(file)) => self.send(file, FOR_EVER, request, reply),
            ("GET" | "HEAD", Found::Slash) => {
                reply.status = 308;
                reply.header("Location", "../explorer");
            }
            _ => {
                reply.status = 405;
                reply.header("Allow", "GET, HEAD");
            }
        }
        true
    }

    fn find(&self, path: &str) -> Option<Found<'_>> {
        let below = path.strip_prefix(self.settings.context_path.as_str())?.strip_prefix(PATH)?;
        match below {
            "" => Some(Found::Index(&self.index)),
            "/" => Some(Found::Slash),
            _ => {
                let name = below.strip_prefix('/')?.strip_prefix(&PARTS.folder)?.strip_prefix('/')?;
                PARTS.files.iter().find(|part| part.name == name).map(Found::Part)
            }
        }
    }

    fn send(&self, file: &File, caching: &'static str, request: &Request<'_>, reply: &mut Reply) {
        reply.header("ETag", file.tag.clone());
        reply.header("Cache-Control", caching);
        reply.header("Vary", "Accept-Encoding");
        reply.header("Content-Security-Policy", self.policy(request));
        reply.header("X-Content-Type-Options", "nosniff");
        reply.header("Referrer-Policy", "no-referrer");
        reply.header("Cross-Origin-Resource-Policy", "same-origin");
        if file.is_known_to(request) {
            reply.status = 304;
            return;
        }
        reply.header("Content-Type", file.media_type);
        if accepts_gzip(request.header_values("Accept-Encoding")) {
            reply.header("Content-Encoding", "gzip");
            reply.body.extend_from_slice(file.packed());
        } else {
            reply.body.extend_from_slice(file.plain.as_bytes());
        }
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

/// The name or IPv4 address in `host:port`.
fn host_name(authority: &str) -> Option<&str> {
    let name = authority.split_once(':').map_or(authority, |(name, _)| name);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    (!name.is_empty() && name.len() <= MAX_HOST_BYTES && name.bytes().all(is_plain)).then_some(name)
}
