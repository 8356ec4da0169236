//! HTTP requests on the port of the websocket API: documents and the websocket upgrade.

use std::time::{Duration, UNIX_EPOCH};

use super::broker::Broker;
use crate::api::{container_error, is_preflight, too_many_requests};
use crate::model::Timestamp;
use crate::net::http::{Request, Response};
use crate::net::service::Exchange;
use crate::net::websocket::{handshake, negotiate_subprotocol};

/// Prefix of all paths.
const BASE: &str = "/w/messages";
/// `Cache-Control` of responses that must not be cached.
const NO_CACHE: &str = "no-store, no-cache, must-revalidate, max-age=0";
/// Content type of plain text.
const TEXT: &str = "text/plain;charset=utf-8";
/// How long a response to OPTIONS may be cached: a year.
const ONE_YEAR: Duration = Duration::from_secs(31_536_000);

/// The page that browsers load into a hidden frame.
const IFRAME: &str = include_str!("iframe.html").trim_ascii_end();
/// Quoted `0` and MD5 of [`IFRAME`].
const IFRAME_ETAG: &str = "\"0096cbd37f2a5218c33bb0826a7c74cbf\"";

/// Supported subprotocols. They do not influence the STOMP version.
pub const SUBPROTOCOLS: [&str; 3] = ["v10.stomp", "v11.stomp", "v12.stomp"];

/// Maximum length of a session name, in bytes; clients generate 8.
const MAX_SESSION_NAME_BYTES: usize = 128;
/// Limit for the bodies of requests, which are ignored, in bytes.
pub const BODY_BYTES: usize = 8 * 1024;

/// Answers a request. If the response is an upgrade to a websocket of SockJS, returns the client's name for its session.
/// `time` is network time; `entropy` is a fresh random number, used only by `/info`.
pub fn answer<'a>(exchange: &mut Exchange<'a>, time: Timestamp, entropy: i32) -> Option<&'a str> {
    let (request, response): (&'a Request<'a>, _) = (exchange.request, &mut *exchange.response);
    if exchange.is_rate_limited {
        // This response has none of the common headers.
        too_many_requests(response, time);
        return None;
    }
    common_headers(request, response);
    // A trailing slash is tolerated after any path.
    let path = request.path.strip_suffix('/').unwrap_or(request.path);
    let Some(below) = path.strip_prefix(BASE).filter(|below| below.is_empty() || below.starts_with('/')) else {
        container_error(response, 404, time);
        return None;
    };
    match below.strip_prefix('/') {
        None => respond(response, TEXT, None, "Welcome to SockJS!\n"),
        Some(_) if request.method == "OPTIONS" && is_preflight(request) => {}
        Some("info") => match request.method {
            "GET" => {
                let rest = "\"origins\":[\"*:*\"],\"cookie_needed\":true,\"websocket\":true";
                let body = format!("{{\"entropy\":{entropy},{rest}}}");
                respond(response, "application/json;charset=utf-8", Some(NO_CACHE), &body);
            }
            "OPTIONS" => {
                let now = UNIX_EPOCH + Duration::from_millis(time.to_unix_millis().unsigned_abs());
                response.header("Cache-Control", format!("public, max-age={}", ONE_YEAR.as_secs()));
                response.header("Expires", httpdate::fmt_http_date(now + ONE_YEAR));
                response.status = 204;
            }
            _ => method_not_allowed(response, "GET,OPTIONS"),
        },
        Some("websocket") => _ = upgrade(request, response),
        Some(below) if is_iframe(below) && request.method != "GET" => method_not_allowed(response, "GET"),
        Some(below) if is_iframe(below) && request.header("If-None-Match") == Some(IFRAME_ETAG) => {
            response.status = 304;
        }
        Some(below) if is_iframe(below) => {
            respond(response, "text/html;charset=utf-8", Some(NO_CACHE), IFRAME);
            response.header("ETag", IFRAME_ETAG);
        }
        Some(below) => match session_name(below) {
            Some(session) => return upgrade(request, response).then_some(session),
            None => response.status = 404,
        },
    }
    None
}

/// Returns the session in the path of a SockJS websocket, `<server>/<session>/websocket`.
fn session_name(below: &str) -> Option<&str> {
    let mut segments = below.split('/');
    let (server, session) = (segments.next()?, segments.next()?);
    let is_id = |id: &str| !id.trim().is_empty() && !id.contains('.') && id.len() <= MAX_SESSION_NAME_BYTES;
    let is_websocket = segments.next() == Some("websocket") && segments.next().is_none();
    (is_websocket && is_id(server) && is_id(session)).then_some(session)
}

/// Adds the common headers. For a browser the origin is named instead of `*`, because modern SockJS clients send
/// credentials.
fn common_headers(request: &Request<'_>, response: &mut Response) {
    match request.header("Origin").filter(|origin| !origin.contains(char::is_control)) {
        Some(origin) => {
            response.header("Access-Control-Allow-Origin", origin.to_owned());
            response.header("Access-Control-Allow-Credentials", "true");
            response.header("Vary", "Origin");
        }
        None => response.header("Access-Control-Allow-Origin", "*"),
    }
    response.header("Access-Control-Allow-Headers", "Content-Type");
    response.header("Allow", "GET, HEAD, POST, OPTIONS");
}

/// Upgrades to a websocket, if the request is a valid handshake. Returns whether it is.
fn upgrade(request: &Request<'_>, response: &mut Response) -> bool {
    if request.method != "GET" {
        method_not_allowed(response, "GET");
        return false;
    }
    let is_valid = handshake(request, response);
    let offers = request.header_values("Sec-WebSocket-Protocol");
    if let Some(protocol) = negotiate_subprotocol(offers, &SUBPROTOCOLS).filter(|_| is_valid) {
        response.header("Sec-WebSocket-Protocol", protocol.to_owned());
    }
    is_valid
}

fn respond(response: &mut Response, content_type: &'static str, cache: Option<&'static str>, body: &str) {
    response.header("Content-Type", content_type);
    if let Some(cache) = cache {
        response.header("Cache-Control", cache);
    }
    response.body.extend_from_slice(body.as_bytes());
}

fn method_not_allowed(response: &mut Response, allow: &'static str) {
    response.header("Allow", allow);
    response.status = 405;
}

/// Returns whether the last segment names the iframe page, `iframe<x>.html`.
fn is_iframe(below: &str) -> bool {
    let version = below.strip_prefix("iframe");
    let version = version.and_then(|rest| rest.strip_suffix(".html"));
    let allowed = |byte| matches!(byte, b'0'..=b'9' | b'-' | b'.' | b'a'..=b'z' | b'_');
    version.is_some_and(|version| version.bytes().all(allowed))
}

impl Broker {
    /// Answers a request on the port. `entropy` is a fresh random number.
    pub fn request(&mut self, mut exchange: Exchange<'_>, time: Timestamp, entropy: i32) {
        let session = answer(&mut exchange, time, entropy);
        if exchange.response.upgrade.is_some() {
            self.upgrading = Some((exchange.connection, session.map(str::to_owned)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::http::RequestReader;
    use crate::net::service::ConnectionId;
    use crate::websocket_api::tests::client;
    use std::borrow::Cow;

    const ERROR_CACHE: &str = "must-revalidate,no-cache,no-store";
    const UPGRADE: [(&str, &str); 4] = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg=="),
    ];

    fn exchange(method: &str, path: &str, headers: &[(&str, &str)], is_rejected: bool) -> Response {
        asked(method, path, headers, is_rejected, |_| {})
    }

    /// Returns the response, after passing the name of the session to `look`.
    fn asked(
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        is_rejected: bool,
        look: impl FnOnce(Option<&str>),
    ) -> Response {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut reader = RequestReader::new(100);
        reader.receive(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{headers}\r\n").as_bytes());
        let request = reader.next_request().unwrap().unwrap();
        let mut reply = Response::new();
        let mut exchange = Exchange {
            connection: ConnectionId(1),
            client: client("10.0.0.1"),
            request: &request,
            response: &mut reply,
            is_resumed: false,
            is_rate_limited: is_rejected,
        };
        look(answer(&mut exchange, Timestamp(367_575_237), -17_305_541));
        reply
    }

    fn ask(method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
        exchange(method, path, headers, false)
    }

    type Headers = Vec<(Cow<'static, str>, Cow<'static, str>)>;

    /// Status, headers beyond the three common ones, and body; status 101 for an upgrade.
    fn plain(method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, Headers, String) {
        let mut reply = ask(method, path, headers);
        let own = reply.headers.split_off(3);
        let status = if reply.upgrade.is_some() { 101 } else { reply.status };
        (status, own, String::from_utf8(reply.body).unwrap())
    }

    fn owned(headers: &[(&'static str, &str)]) -> Headers {
        headers.iter().map(|&(name, value)| (name.into(), value.to_owned().into())).collect()
    }

    #[test]
    fn the_greeting_answers_any_method() {
        for path in ["/w/messages", "/w/messages/"] {
            for method in ["GET", "POST", "OPTIONS", "BREW"] {
                let (status, headers, body) = plain(method, path, &[]);
                assert_eq!((status, body.as_str()), (200, "Welcome to SockJS!\n"));
                assert_eq!(headers, owned(&[("Content-Type", "text/plain;charset=utf-8")]));
            }
        }
    }

    #[test]
    fn info_is_the_documented_text() {
        let (status, headers, body) = plain("GET", "/w/messages/info", &[]);
        assert_eq!(status, 200);
        assert_eq!(headers, owned(&[("Content-Type", "application/json;charset=utf-8"), ("Cache-Control", NO_CACHE),]));
        assert_eq!(body, "{\"entropy\":-17305541,\"origins\":[\"*:*\"],\"cookie_needed\":true,\"websocket\":true}");
        assert_eq!(plain("GET", "/w/messages/info/", &[]).2, body);
    }

    #[test]
    fn options_on_info_is_cached_for_a_year_and_other_methods_are_rejected() {
        let (status, headers, body) = plain("OPTIONS", "/w/messages/info", &[]);
        assert_eq!((status, body.as_str()), (204, ""));
        assert_eq!(
            headers,
            owned(&[("Cache-Control", "public, max-age=31536000"), ("Expires", "Sat, 20 Nov 2027 08:20:22 GMT"),])
        );
        for method in ["HEAD", "POST"] {
            let rejected = plain(method, "/w/messages/info", &[]);
            assert_eq!(rejected, (405, owned(&[("Allow", "GET,OPTIONS")]), String::new()));
        }
    }

    #[test]
    fn a_preflight_is_granted_for_any_path_below() {
        let asked = [("origin", "http://a"), ("access-control-request-method", "POST")];
        for path in ["info", "x", "1/2/xhr_send"] {
            let reply = ask("OPTIONS", &format!("/w/messages/{path}"), &asked);
            assert_eq!((reply.status, reply.body.len()), (200, 0));
        }
    }

    #[test]
    fn the_iframe_page_is_490_bytes_and_is_not_sent_twice() {
        assert_eq!(IFRAME.len(), 490);
        for name in ["iframe.html", "iframe-1.0_a.html", "iframe0.3.4.html"] {
            let path = format!("/w/messages/{name}");
            assert_eq!(plain("GET", &path, &[]).2, IFRAME);
            let again = plain("GET", &path, &[("if-none-match", IFRAME_ETAG)]);
            assert_eq!(again, (304, vec![], String::new()));
            assert_eq!(plain("POST", &path, &[]).0, 405);
        }
        for name in ["iframeA.html", "iframe.htm", "iframe/.html", "xiframe.html"] {
            assert_eq!(plain("GET", &format!("/w/messages/{name}"), &[]).0, 404, "{name}");
        }
    }

    #[test]
    fn the_raw_endpoint_is_for_get() {
        for path in ["/w/messages/websocket", "/w/messages/websocket/"] {
            assert_eq!(plain("GET", path, &UPGRADE), (101, vec![], String::new()));
            let rejected = plain("GET", path, &UPGRADE[1..]);
            assert_eq!((rejected.0, rejected.2.as_str()), (400, "Can \"Upgrade\" only to \"WebSocket\"."));
            assert_eq!(plain("POST", path, &UPGRADE), (405, owned(&[("Allow", "GET")]), String::new()));
        }
    }

    #[test]
    fn the_first_subprotocol_that_is_supported_is_agreed_to() {
        let mut headers = UPGRADE.to_vec();
        headers.push(("Sec-WebSocket-Protocol", "foo, V12.STOMP, v10.stomp"));
        let (status, own, _) = plain("GET", "/w/messages/websocket", &headers);
        assert_eq!((status, own), (101, owned(&[("Sec-WebSocket-Protocol", "V12.STOMP")])));
    }

    #[test]
    fn a_session_of_sockjs_has_a_websocket() {
        for path in ["435/kdlicigz/websocket", "435/kdlicigz/websocket/"] {
            let (mut session, path) = (None, format!("/w/messages/{path}"));
            let reply = asked("GET", &path, &UPGRADE, false, |name| session = name.map(str::to_owned));
            assert!(reply.upgrade.is_some());
            assert_eq!(session.as_deref(), Some("kdlicigz"));
            assert_eq!(plain("GET", &path, &UPGRADE[1..]).0, 400);
            assert_eq!(plain("POST", &path, &UPGRADE), (405, owned(&[("Allow", "GET")]), String::new()));
        }
        let long = format!("1/{}/websocket", "x".repeat(MAX_SESSION_NAME_BYTES + 1));
        for path in ["1/a.b/websocket", "1.2/ab/websocket", "1//websocket", "1/2/3/websocket", &long] {
            assert_eq!(plain("GET", &format!("/w/messages/{path}"), &UPGRADE).0, 404, "{path}");
        }
    }

    #[test]
    fn the_http_transports_of_sockjs_are_empty_404s_for_any_method() {
        for transport in ["xhr", "xhr_streaming", "eventsource", "htmlfile", "jsonp", "xhr_send", "jsonp_send"] {
            for method in ["GET", "POST", "OPTIONS", "HEAD"] {
                let answer = plain(method, &format!("/w/messages/1/2/{transport}"), &UPGRADE);
                assert_eq!(answer, (404, vec![], String::new()), "{method} {transport}");
            }
        }
    }

    #[test]
    fn other_paths_below_the_endpoint_are_empty_404s() {
        for path in [
            "x",
            "1/2",
            "1/2/xhr/4",
            "1/2/carrier-pigeon",
            "1.0/2/xhr",
            "1/2.0/xhr",
            "/2/xhr",
            "1//xhr",
            "1/2/xhr;a=b",
            "/",
            "Info",
        ] {
            let answer = plain("POST", &format!("/w/messages/{path}"), &[]);
            assert_eq!(answer, (404, vec![], String::new()), "{path}");
        }
    }

    #[test]
    fn other_paths_are_json_404s() {
        for path in ["/", "/w", "/w/messagesx", "/W/messages", "/chain/height"] {
            let (status, headers, body) = plain("GET", path, &[]);
            assert_eq!(status, 404, "{path}");
            assert_eq!(headers, owned(&[("Content-Type", "application/json"), ("Cache-Control", ERROR_CACHE),]));
            assert_eq!(
                body,
                "{\"timeStamp\":367575237,\"error\":\"Not Found\",\"message\":null,\
                 \"status\":404}\r\n"
            );
        }
    }

    #[test]
    fn the_origin_is_echoed_unless_it_could_break_the_response() {
        assert_eq!(
            ask("GET", "/w/messages/info", &[("Origin", "https://a.b")]).headers[..5],
            owned(&[
                ("Access-Control-Allow-Origin", "https://a.b"),
                ("Access-Control-Allow-Credentials", "true"),
                ("Vary", "Origin"),
                ("Access-Control-Allow-Headers", "Content-Type"),
                ("Allow", "GET, HEAD, POST, OPTIONS"),
            ])
        );
        let reply = ask("GET", "/w/messages/info", &[("Origin", "a\tb: c")]);
        assert_eq!(reply.headers[0], ("Access-Control-Allow-Origin".into(), "*".into()));
    }

    #[test]
    fn the_rate_filter_rejects_without_common_headers() {
        let reply = exchange("GET", "/w/messages/websocket", &UPGRADE, true);
        assert_eq!(reply.status, 429);
        assert_eq!(
            reply.headers,
            owned(&[
                ("DoSFilter", "unavailable"),
                ("Content-Type", "application/json"),
                ("Cache-Control", ERROR_CACHE),
            ])
        );
        let text = "{\"timeStamp\":367575237,\"error\":\"Too Many Requests\",\"message\":null,\"status\":429}\r\n";
        assert_eq!((reply.body.as_slice(), reply.upgrade), (text.as_bytes(), None));
    }
}
