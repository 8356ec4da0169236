//! The block explorer at `/explorer`: a page whose scripts use this node's public interfaces.
//!
//! Its files in `page/` are compiled in. Nothing is loaded from elsewhere, which its content security policy enforces.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use super::access::Access;
use super::routes::{Route, get};
use super::{ApiError, RequestContext};
use crate::budget::cost;
use crate::model::Network;
use crate::net::http::{Request, Response, StaticText, version_of};

/// Path of the page. Its other files are below it.
const PATH: &str = "/explorer";
/// `Cache-Control` of parts, whose paths change with their content: a reload requests one file only.
const IMMUTABLE: &str = "max-age=31536000, immutable";
/// Maximum length in bytes of a host name in a policy.
const MAX_HOST_BYTES: usize = 253;

const HTML: &str = "text/html;charset=utf-8";
const CSS: &str = "text/css;charset=utf-8";
const JAVASCRIPT: &str = "text/javascript;charset=utf-8";

/// The page itself, with placeholders in braces.
const INDEX: &str = include_str!("page/index.html");

macro_rules! sources {
    ($($module:literal)*) => {
        &[
            ("style.css", CSS, include_str!("page/style.css")),
            $(($module, JAVASCRIPT, include_str!(concat!("page/", $module))),)*
        ]
    };
}

/// The other files of the page: names, media types and texts.
const SOURCES: &[(&str, &str, &str)] = sources!(
    "access.js" "account.js" "address.js" "binary.js" "block.js" "blocks.js" "chain.js" "dom.js" "figures.js" "format.js" "home.js"
    "keccak.js" "kinds.js" "lists.js" "live.js" "main.js" "message.js" "mosaics.js" "multisig.js" "names.js" "node.js"
    "parts.js" "payments.js" "peers.js" "plot.js" "pool.js" "reorgs.js" "ripemd.js" "search.js" "settings.js" "socket.js"
    "transaction.js" "transactions.js"
);

/// All files of the page with their names, and their folder, which is named after their version.
struct PageFiles {
    files: Vec<(&'static str, StaticText)>,
    folder: String,
}

/// The files; the same for all nodes of a process.
static PAGE_FILES: LazyLock<PageFiles> = LazyLock::new(|| {
    let sources = SOURCES.iter();
    let files: Vec<_> = sources.map(|(name, media_type, text)| (*name, StaticText::new(media_type, *text))).collect();
    let folder = version_of(&files.iter().map(|(_, text)| text.version()).collect::<String>());
    PageFiles { files, folder }
});

/// Routes. Requests for the other files of the page, and those of browsers for `/`, have the first one too. They are not
/// counted: a visit is some forty of them, and several visitors may share an address.
pub const ROUTES: &[Route] = &[get(PATH, page).with_any_accept().while_loading().uncounted().own()];

/// Returns the path whose route answers a GET of a path.
pub(super) fn routed_path(path: &str) -> &str {
    let is_below = path.strip_prefix(PATH).is_some_and(|below| below.starts_with('/'));
    if path == "/" || is_below { PATH } else { path }
}

/// `GET /explorer`, its files, and `/`
fn page(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let access = context.access();
    let settings = context.settings;
    let explorer = settings.explorer.as_ref();
    let (request, response) = (context.request, &mut *context.response.response);
    if explorer.is_some_and(|explorer| explorer.answer(request, context.path, access, response)) {
        context.node.budget.charge(cost::bytes(response.body.len()));
    } else {
        context.response.container_error(404);
    }
    Ok(())
}

/// The page, ready to send.
pub struct Explorer {
    websocket_port: u16,
    /// The page for each [`Access`] that its requests may have. With that to the metrics they may have local access too, if
    /// the person at the page has the secret.
    index: [StaticText; 3],
}

impl Explorer {
    /// Creates the page for the interfaces at these ports and for a network.
    pub fn new(http_port: u16, websocket_port: u16, network: &Network) -> Explorer {
        let page = INDEX
            .replace("{version}", &PAGE_FILES.folder)
            .replace("{http-port}", &http_port.to_string())
            .replace("{websocket-port}", &websocket_port.to_string())
            .replace("{network-byte}", &network.byte.0.to_string())
            .replace("{target-seconds}", &network.chain.target_time.to_string());
        let index = ["public", "local", "metrics"];
        let index = index.map(|access| StaticText::new(HTML, page.replace("{access}", access)));
        Explorer { websocket_port, index }
    }

    /// Answers a GET for the page or a file of it, whose path has no context path; returns whether it is one.
    fn answer(&self, request: &Request<'_>, path: &str, access: Access, response: &mut Response) -> bool {
        let below = path.strip_prefix(PATH);
        let mut redirect = |status, location| {
            response.reset();
            response.status = status;
            // Relative, as a proxy may serve the node below a path.
            response.header("Location", location);
            true
        };
        match below {
            None if path == "/" && wants_page(request) => {
                redirect(302, PATH.trim_start_matches('/'));
                response.header("Vary", "Accept");
                true
            }
            None => false,
            Some("") => self.send(&self.index[access as usize], "no-cache", request, response),
            // A trailing slash would break the relative links of the page.
            Some("/") => redirect(308, "../explorer"),
            Some(below) => {
                let name = below.strip_prefix('/').and_then(|below| below.strip_prefix(&PAGE_FILES.folder));
                let name = name.and_then(|name| name.strip_prefix('/'));
                let file = name.and_then(|name| PAGE_FILES.files.iter().find(|(known, _)| *known == name));
                file.is_some_and(|(_, text)| self.send(text, IMMUTABLE, request, response))
            }
        }
    }

    fn send(&self, text: &StaticText, caching: &'static str, request: &Request<'_>, response: &mut Response) -> bool {
        response.reset();
        text.send(caching, request, response);
        response.header("Content-Security-Policy", self.policy(request));
        response.header("X-Content-Type-Options", "nosniff");
        response.header("Referrer-Policy", "same-origin");
        response.header("Cross-Origin-Resource-Policy", "same-origin");
        true
    }

    /// Returns the content security policy: only the page's own files, no script from text, no server but this node.
    fn policy(&self, request: &Request<'_>) -> String {
        // A policy cannot contain an IPv6 address.
        let host = request.header("Host").and_then(host_name).unwrap_or("*");
        let websocket_port = self.websocket_port;
        format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
             connect-src 'self' ws://{host}:{websocket_port}; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
        )
    }
}

/// Returns whether a browser requests a page to show.
fn wants_page(request: &Request<'_>) -> bool {
    let mut types = request.header_values("Accept").flat_map(|value| value.split(','));
    types.any(|value| value.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("text/html")))
}

/// Returns the name or IPv4 address in `host:port`.
fn host_name(authority: &str) -> Option<&str> {
    let name = authority.split_once(':').map_or(authority, |(name, _)| name);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    (!name.is_empty() && name.len() <= MAX_HOST_BYTES && name.bytes().all(is_plain)).then_some(name)
}
