//! HTTP requests on the port of the websocket API: documents, the websocket upgrade, and sessions without a websocket,
//! whose clients fetch and send by requests.

use std::time::{Duration, UNIX_EPOCH};

use super::broker::{Broker, payload_units};
use super::session::{CloseReason, GO_AWAY, SessionTransport};
use super::session_table::TOO_MANY_SESSIONS;
use super::sockjs::{self, MAX_BYTES, MAX_FORM_BYTES, Transport, Wrapper, callback};
use crate::model::Timestamp;
use crate::net::http::{Request, Response};
use crate::net::service::{Effects, Exchange, Progress};
use crate::net::websocket::{handshake, negotiate_subprotocol};
use crate::peer::io::Now;

/// Prefix of all paths.
const BASE: &str = "/w/messages";
/// `Cache-Control` of responses that must not be cached.
const NO_CACHE: &str = "no-store, no-cache, must-revalidate, max-age=0";
/// Content type of plain text.
const TEXT: &str = "text/plain;charset=utf-8";
/// `Cache-Control` of JSON errors.
const ERROR_CACHE: &str = "must-revalidate,no-cache,no-store";
/// One year in seconds: how long a response to OPTIONS may be cached.
const ONE_YEAR_SECONDS: u64 = 31_536_000;
/// The network's epoch, 2015-03-29 00:06:25 UTC, in Unix seconds.
const EPOCH_UNIX_SECONDS: u64 = 1_427_587_585;

/// The page that browsers load into a hidden frame.
const IFRAME: &str = include_str!("iframe.html").trim_ascii_end();
/// Quoted `0` and MD5 of [`IFRAME`].
const IFRAME_ETAG: &str = "\"0096cbd37f2a5218c33bb0826a7c74cbf\"";

/// Supported subprotocols. They do not influence the STOMP version.
pub const SUBPROTOCOLS: [&str; 3] = ["v10.stomp", "v11.stomp", "v12.stomp"];

/// Maximum length of a session name, in bytes; clients generate 8.
const MAX_SESSION_NAME_BYTES: usize = 128;
/// Limit for bodies that are ignored, in bytes.
const IGNORED_BODY_BYTES: usize = 8 * 1024;

/// A request for a session, parsed from the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionRequest<'a> {
    /// The client's name for the session.
    pub session: &'a str,
    /// The requested transport.
    pub transport: Transport,
}

/// A request and its response in progress.
struct RequestHandler<'r, 'a> {
    request: &'a Request<'a>,
    response: &'r mut Response,
    time: Timestamp,
}

/// Answers a request, unless it is one for a session, which is returned. If the response is a websocket upgrade, the
/// session is that of a SockJS websocket. `time` is network time; `entropy` is a fresh random number, used only by `/info`.
pub fn answer<'a>(exchange: &mut Exchange<'a>, time: Timestamp, entropy: i32) -> Option<SessionRequest<'a>> {
    let Exchange { request, response, is_rate_limited, .. } = exchange;
    let mut handler = RequestHandler { request, response, time };
    if *is_rate_limited {
        // This response has none of the common headers.
        handler.response.header("DoSFilter", "unavailable");
        handler.json_error(429, "Too Many Requests");
        return None;
    }
    handler.common_headers();
    handler.route(entropy)
}

/// Returns the limit for the body of a request, in bytes.
pub fn body_limit(path: &str) -> usize {
    match parse_session_path(path).map(|request| request.transport) {
        Some(Transport::XhrSend) => MAX_BYTES,
        Some(Transport::JsonpSend) => MAX_FORM_BYTES,
        _ => IGNORED_BODY_BYTES,
    }
}

/// Parses the path of a session, `/w/messages/<server>/<session>/<transport>`.
pub fn parse_session_path(path: &str) -> Option<SessionRequest<'_>> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut segments = path.strip_prefix(BASE)?.strip_prefix('/')?.split('/');
    let (server, session) = (segments.next()?, segments.next()?);
    let transport = Transport::from_name(segments.next()?)?;
    let is_id = |id: &str| !id.trim().is_empty() && !id.contains('.') && id.len() <= MAX_SESSION_NAME_BYTES;
    (segments.next().is_none() && is_id(server) && is_id(session)).then_some(SessionRequest { session, transport })
}

impl<'a> RequestHandler<'_, 'a> {
    fn route(&mut self, entropy: i32) -> Option<SessionRequest<'a>> {
        let request: &'a Request<'a> = self.request;
        // A trailing slash is tolerated after any path.
        let path = request.path.strip_suffix('/').unwrap_or(request.path);
        let below = match path.strip_prefix(BASE) {
            Some("") => {
                self.respond(TEXT, None, "Welcome to SockJS!\n");
                return None;
            }
            Some(below) => below.strip_prefix('/'),
            None => None,
        };
        match below {
            None => self.json_error(404, "Not Found"),
            Some(_) if self.is_preflight() => {}
            Some("info") => self.info(entropy),
            Some("websocket") if request.method == "GET" => _ = self.upgrade(),
            Some("websocket") => self.method_not_allowed("GET"),
            Some(below) if is_iframe(below) => self.iframe(),
            Some(_) => match parse_session_path(path) {
                Some(request) => return self.session(request),
                None => self.response.status = 404,
            },
        }
        None
    }

    fn session(&mut self, request: SessionRequest<'a>) -> Option<SessionRequest<'a>> {
        let allow = request.transport.allow();
        if self.request.method == "OPTIONS" && allow.ends_with("OPTIONS") {
            self.options();
        } else if Some(self.request.method) != allow.split(',').next() {
            self.method_not_allowed(allow);
        } else if request.transport != Transport::Websocket || self.upgrade() {
            return Some(request);
        }
        None
    }

    /// Adds the common headers. For a browser the origin is named instead of `*`, because modern SockJS clients send
    /// credentials.
    fn common_headers(&mut self) {
        match self.request.header("Origin").filter(|origin| !origin.contains(char::is_control)) {
            Some(origin) => {
                self.response.header("Access-Control-Allow-Origin", origin.to_owned());
                self.response.header("Access-Control-Allow-Credentials", "true");
                self.response.header("Vary", "Origin");
            }
            None => self.response.header("Access-Control-Allow-Origin", "*"),
        }
        self.response.header("Access-Control-Allow-Headers", "Content-Type");
        self.response.header("Allow", "GET, HEAD, POST, OPTIONS");
    }

    fn is_preflight(&self) -> bool {
        self.request.method == "OPTIONS"
            && self.request.header("Origin").is_some()
            && self.request.header("Access-Control-Request-Method").is_some()
    }

    fn info(&mut self, entropy: i32) {
        match self.request.method {
            "GET" => {
                let rest = "\"origins\":[\"*:*\"],\"cookie_needed\":true,\"websocket\":true";
                let body = format!("{{\"entropy\":{entropy},{rest}}}");
                self.respond("application/json;charset=utf-8", Some(NO_CACHE), &body);
            }
            "OPTIONS" => self.options(),
            _ => self.method_not_allowed("GET,OPTIONS"),
        }
    }

    /// Upgrades to a websocket, if the request is a valid handshake. Returns whether it is.
    fn upgrade(&mut self) -> bool {
        if !handshake(self.request, self.response) {
            return false;
        }
        let offers = self.request.header_values("Sec-WebSocket-Protocol");
        if let Some(protocol) = negotiate_subprotocol(offers, &SUBPROTOCOLS) {
            self.response.header("Sec-WebSocket-Protocol", protocol.to_owned());
        }
        true
    }

    fn iframe(&mut self) {
        if self.request.method != "GET" {
            return self.method_not_allowed("GET");
        }
        if self.request.header("If-None-Match") == Some(IFRAME_ETAG) {
            self.response.status = 304;
            return;
        }
        self.respond("text/html;charset=utf-8", Some(NO_CACHE), IFRAME);
        self.response.header("ETag", IFRAME_ETAG);
    }

    /// Answers OPTIONS: an empty response that may be cached for a year.
    fn options(&mut self) {
        let expires = EPOCH_UNIX_SECONDS + u64::from(self.time.0.unsigned_abs()) + ONE_YEAR_SECONDS;
        self.response.header("Cache-Control", format!("public, max-age={ONE_YEAR_SECONDS}"));
        self.response.header("Expires", httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(expires)));
        self.response.status = 204;
    }

    fn respond(&mut self, content_type: &'static str, cache: Option<&'static str>, body: &str) {
        self.response.header("Content-Type", content_type);
        cache.into_iter().for_each(|cache| self.response.header("Cache-Control", cache));
        self.response.body.extend_from_slice(body.as_bytes());
    }

    fn method_not_allowed(&mut self, allow: &'static str) {
        self.response.header("Allow", allow);
        self.response.status = 405;
    }

    fn json_error(&mut self, status: u16, error: &str) {
        let time = self.time.0;
        let body = format!("{{\"timeStamp\":{time},\"error\":\"{error}\",\"message\":null,\"status\":{status}}}\r\n");
        self.respond("application/json", Some(ERROR_CACHE), &body);
        self.response.status = status;
    }
}

/// Returns whether the last segment names the iframe page, `iframe<x>.html`.
fn is_iframe(below: &str) -> bool {
    let version = below.strip_prefix("iframe");
    let version = version.and_then(|rest| rest.strip_suffix(".html"));
    let allowed = |byte| matches!(byte, b'0'..=b'9' | b'-' | b'.' | b'a'..=b'z' | b'_');
    version.is_some_and(|version| version.bytes().all(allowed))
}

impl Broker {
    /// Answers a request on the port, or starts to. `entropy` is a fresh random number.
    pub fn request(
        &mut self,
        mut exchange: Exchange<'_>,
        now: Now,
        entropy: i32,
        effects: &mut dyn Effects,
    ) -> Progress {
        self.table.now = now;
        let request = match parse_session_path(exchange.request.path) {
            Some(request) if exchange.is_resumed => Some(request),
            _ => answer(&mut exchange, now.network, entropy),
        };
        if exchange.response.upgrade.is_some() {
            self.upgrading = Some((exchange.connection, request.map(|request| request.session.to_owned())));
            return Progress::Done;
        }
        let Some(SessionRequest { session, transport }) = request else { return Progress::Done };
        match transport {
            Transport::Websocket | Transport::XhrSend | Transport::JsonpSend => {
                self.send(session, transport, exchange, effects)
            }
            _ => self.receive(session, transport, exchange, effects),
        }
    }

    /// Writes the queued frames of a session into a response. A new request is attached to the session first, which is
    /// opened if it does not exist.
    fn receive(
        &mut self,
        name: &str,
        transport: Transport,
        exchange: Exchange<'_>,
        effects: &mut dyn Effects,
    ) -> Progress {
        let Exchange { connection, client, request, response, is_resumed, .. } = exchange;
        let callback = match callback(request.query) {
            _ if !transport.has_callback() => String::new(),
            Some(callback) => callback,
            None => return reject_request(response, 500, "\"callback\" parameter required"),
        };
        let wrapper = Wrapper { transport, callback: &callback };
        if !is_resumed {
            let known = self.table.find_by_name(name);
            let opened_by = known.and_then(|id| self.table.polled(id)?.sockjs);
            if opened_by.is_some_and(|other| !transport.is_compatible_with(other)) {
                response.status = 404;
                return Progress::Done;
            }
            let id = known.or_else(|| {
                let transport = SessionTransport::new(Some(transport), None, self.table.now.monotonic);
                self.open(transport, Some(name), &client, effects)
            });
            response.header("Content-Type", transport.content_type());
            response.header("Cache-Control", NO_CACHE);
            response.is_streaming = transport.is_streaming();
            wrapper.begin(&mut response.body);
            let queue = id.and_then(|id| self.table.polled(id));
            match queue.map_or(Err(TOO_MANY_SESSIONS), |queue| queue.attach(connection)) {
                Ok(deferred_cost) => effects.charge(connection, deferred_cost),
                Err(rejection) => return close_response(&wrapper, rejection, response),
            }
            self.table.attach(connection, id);
            id.into_iter().for_each(|id| self.table.record_message(id));
        }
        let now = self.table.now.monotonic;
        let id = self.table.session_of(connection);
        let Some((id, queue)) = id.and_then(|id| Some((id, self.table.polled(id)?))) else {
            // The session was removed in the meantime.
            return close_response(&wrapper, GO_AWAY, response);
        };
        let progress = queue.write_pending(&wrapper, now, &mut response.body);
        if progress == Progress::Done {
            self.table.attach(connection, None);
        }
        self.table.on_fetched(id, effects);
        progress
    }

    /// Handles a request that sends to a session.
    fn send(
        &mut self,
        name: &str,
        transport: Transport,
        exchange: Exchange<'_>,
        effects: &mut dyn Effects,
    ) -> Progress {
        let Exchange { connection, request, response, .. } = exchange;
        let Some(id) = self.table.find_by_name(name) else {
            response.status = 404;
            return Progress::Done;
        };
        if self.table.session(id).is_none() {
            // The session has ended; its client is informed when it fetches.
            self.table.attach(connection, None);
            let now = self.table.now.monotonic;
            self.table.polled(id).into_iter().for_each(|queue| _ = queue.on_disconnect(connection, now));
            return reject_request(response, 500, "");
        }
        let is_new = self.table.session_of(connection).is_none();
        let is_sender = self.table.polled(id).is_some_and(|queue| queue.sender == Some(connection));
        if !is_sender {
            let stream = match transport {
                Transport::JsonpSend => sockjs::read_form(request.body, request.header("Content-Type")),
                _ => sockjs::read_message(request.body),
            };
            if is_new {
                effects.charge(connection, payload_units(request.body));
            }
            let stream = match stream {
                Ok(stream) => stream,
                Err(error) => return reject_request(response, 500, &error.to_string()),
            };
            let Some(polled) = self.table.polled(id) else { return reject_request(response, 500, "") };
            let Ok(is_turn) = polled.begin_sending(connection) else { return reject_request(response, 503, "") };
            self.table.attach(connection, Some(id));
            if !is_turn {
                return Progress::Suspended;
            }
            self.feed(id, &stream);
        }
        let progress = self.handle_frames(id, effects);
        if progress == Progress::Done {
            self.table.attach(connection, None);
            let next = self.table.polled(id).and_then(SessionTransport::end_sending);
            next.into_iter().for_each(|next| effects.resume(next));
            response.header("Content-Type", TEXT);
            response.header("Cache-Control", NO_CACHE);
            match transport {
                Transport::JsonpSend => response.body.extend_from_slice(b"ok"),
                _ => response.status = 204,
            }
        }
        progress
    }
}

/// Ends a response with a close frame.
fn close_response(wrapper: &Wrapper<'_>, reason: CloseReason, response: &mut Response) -> Progress {
    wrapper.frame(&mut response.body, &sockjs::close_frame(reason));
    Progress::Done
}

fn reject_request(response: &mut Response, status: u16, text: &str) -> Progress {
    response.status = status;
    if !text.is_empty() {
        response.header("Content-Type", TEXT);
        response.body.extend_from_slice(text.as_bytes());
    }
    Progress::Done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::http::RequestReader;
    use crate::net::service::ConnectionId;
    use crate::websocket_api::testing::client;
    use std::borrow::Cow;

    const UPGRADE: [(&str, &str); 4] = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg=="),
    ];

    fn exchange(method: &str, path: &str, headers: &[(&str, &str)], is_refused: bool) -> Response {
        asked(method, path, headers, is_refused, |_| {})
    }

    /// Returns the response, after passing the request for a session to `look`.
    fn asked(
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        is_refused: bool,
        look: impl FnOnce(Option<SessionRequest<'_>>),
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
            is_rate_limited: is_refused,
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
            let refused = plain(method, "/w/messages/info", &[]);
            assert_eq!(refused, (405, owned(&[("Allow", "GET,OPTIONS")]), String::new()));
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
            let refused = plain("GET", path, &UPGRADE[1..]);
            assert_eq!((refused.0, refused.2.as_str()), (400, "Can \"Upgrade\" only to \"WebSocket\"."));
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
    fn session_paths_are_answered_by_the_session() {
        let called = |method: &str, path: &str| {
            let mut called = None;
            let reply = asked(method, &format!("/w/messages/{path}"), &[], false, |request| {
                called = request.map(|call| (call.session.to_owned(), call.transport));
            });
            (called, reply.status)
        };
        for (method, name) in [
            ("POST", "xhr"),
            ("POST", "xhr_streaming"),
            ("GET", "eventsource"),
            ("GET", "htmlfile"),
            ("GET", "jsonp"),
            ("POST", "xhr_send"),
            ("POST", "jsonp_send"),
        ] {
            let transport = Transport::from_name(name).unwrap();
            for path in [format!("435/kdlicigz/{name}"), format!("435/kdlicigz/{name}/")] {
                assert_eq!(called(method, &path), (Some(("kdlicigz".to_owned(), transport)), 200), "{path}");
            }
            assert_eq!(called("PUT", &format!("435/kdlicigz/{name}")), (None, 405));
        }
        let long = "x".repeat(MAX_SESSION_NAME_BYTES + 1);
        let long = format!("1/{long}/xhr");
        for path in ["1/a.b/xhr", "1.2/ab/xhr", "1/2/3/xhr", "1//xhr", "/2/xhr", "1/2/other", "1/2/xhr;x", &long] {
            assert_eq!(called("POST", path), (None, 404), "{path}");
        }
    }

    #[test]
    fn a_session_of_sockjs_may_have_a_websocket() {
        let mut session = None;
        let path = "/w/messages/435/kdlicigz/websocket";
        let reply =
            asked("GET", path, &UPGRADE, false, |request| session = request.map(|call| call.session.to_owned()));
        assert!(reply.upgrade.is_some());
        assert_eq!(session.as_deref(), Some("kdlicigz"));
        assert_eq!(plain("GET", path, &UPGRADE[1..]).0, 400);
        assert_eq!(plain("POST", path, &UPGRADE), (405, owned(&[("Allow", "GET")]), String::new()));
    }

    #[test]
    fn body_limits_are_larger_only_for_send_transports() {
        assert_eq!(body_limit("/w/messages/1/2/xhr_send"), 64 * 1024);
        assert_eq!(body_limit("/w/messages/1/2/jsonp_send/"), 192 * 1024);
        for path in ["/w/messages/1/2/xhr", "/w/messages/1/a.b/xhr_send", "/", "/w/messages/info"] {
            assert_eq!(body_limit(path), 8 * 1024);
        }
    }

    #[test]
    fn sockjs_transports_name_their_methods() {
        let cases = [
            ("xhr", "GET", "POST,OPTIONS"),
            ("xhr_streaming", "GET", "POST,OPTIONS"),
            ("xhr_send", "GET", "POST,OPTIONS"),
            ("websocket", "POST", "GET"),
            ("eventsource", "POST", "GET"),
            ("jsonp", "OPTIONS", "GET"),
            ("htmlfile", "POST", "GET,OPTIONS"),
            ("jsonp_send", "OPTIONS", "POST"),
        ];
        for (transport, method, allow) in cases {
            let refused = plain(method, &format!("/w/messages/1/2/{transport}"), &[]);
            assert_eq!(refused, (405, owned(&[("Allow", allow)]), String::new()), "{transport}");
        }
        for transport in ["xhr", "xhr_streaming", "xhr_send", "htmlfile"] {
            let path = format!("/w/messages/1/2/{transport}");
            assert_eq!(plain("OPTIONS", &path, &[]).0, 204, "{transport}");
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
