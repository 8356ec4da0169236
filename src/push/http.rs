//! The HTTP layer of port 7778 as a pure function (specification 07 §2.2 and §3.1, CORS as
//! in §16.2).
//!
//! The SockJS session paths `<server>/<session>/<transport>` answer as NIS1 answers for transports
//! that do not work: opening one gives 500, sending to one gives 404 because no session ever
//! exists. **For now this holds for the transport `websocket` as well**, which does work in NIS1.

use std::time::{Duration, UNIX_EPOCH};

/// Everything this layer serves lies here.
const BASE: &str = "/w/messages";
/// `Cache-Control` of answers that must not be kept.
const NO_CACHE: &str = "no-store, no-cache, must-revalidate, max-age=0";
/// `Cache-Control` of JSON errors.
const ERROR_CACHE: &str = "must-revalidate,no-cache,no-store";
/// One year, the time an answer to OPTIONS may be kept, in seconds.
const ONE_YEAR_SECONDS: u64 = 31_536_000;
/// The network's epoch, 2015-03-29 00:06:25 UTC, in Unix seconds.
const EPOCH_UNIX_SECONDS: u64 = 1_427_587_585;

const IFRAME: &str = r#"<!DOCTYPE html>
<html>
<head>
  <meta http-equiv="X-UA-Compatible" content="IE=edge" />
  <meta http-equiv="Content-Type" content="text/html; charset=UTF-8" />
  <script>
    document.domain = document.domain;
    _sockjs_onload = function(){SockJS.bootstrap_iframe();};
  </script>
  <script src="https://cdn.jsdelivr.net/sockjs/1.0.0/sockjs.min.js"></script>
</head>
<body>
  <h2>Don't panic!</h2>
  <p>This is a SockJS hidden iframe. It's used for cross domain magic.</p>
</body>
</html>"#;
/// Quoted `0` and MD5 of [`IFRAME`].
const IFRAME_ETAG: &str = "\"0096cbd37f2a5218c33bb0826a7c74cbf\"";

/// Subprotocols that may be agreed to. They have no influence on the version of STOMP.
pub const SUBPROTOCOLS: [&str; 3] = ["v10.stomp", "v11.stomp", "v12.stomp"];

/// Response headers in order. A name may occur twice: some answers carry a second `Allow`.
pub type Headers = Vec<(&'static str, String)>;

/// What this layer looks at of a request.
pub struct HttpView<'a> {
    /// The method as sent.
    pub method: &'a str,
    /// The path as sent, without the query. It is not percent-decoded: no path here needs it.
    pub path: &'a str,
    /// The first value of a header, by its name in any case.
    pub header: &'a dyn Fn(&str) -> Option<&'a str>,
}

/// What to answer. `Date`, `Content-Length` and the headers of the websocket protocol itself are
/// the transport's business; so is leaving out the body of an answer to HEAD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpAnswer {
    /// Switch to the raw websocket protocol and open a session, if the transport finds that this is a proper
    /// request for it (specification 07 §3.1); of the subprotocols offered it may agree to [`SUBPROTOCOLS`].
    Websocket {
        /// Further response headers, also of a refusal.
        headers: Headers,
    },
    /// Send a response. `Connection: close` among the headers asks for the connection to end.
    Reply {
        /// Status code.
        status: u16,
        /// Response headers.
        headers: Headers,
        /// Body, possibly empty.
        body: Vec<u8>,
    },
}

/// Answers a request. `network_time` is in seconds; `entropy` is a fresh random number, used only
/// by `/info`.
pub fn answer(view: &HttpView<'_>, network_time: i32, entropy: i32) -> HttpAnswer {
    let mut headers = common_headers(view);
    // A trailing slash is tolerated after any path.
    let path = view.path.strip_suffix('/').unwrap_or(view.path);
    let Some(below) = path.strip_prefix(BASE) else {
        return json_error(headers, 404, "Not Found", network_time);
    };
    if below.is_empty() {
        headers.push(("Content-Type", "text/plain;charset=utf-8".to_owned()));
        return reply(200, headers, "Welcome to SockJS!\n");
    }
    let Some(below) = below.strip_prefix('/') else {
        return json_error(headers, 404, "Not Found", network_time);
    };
    if is_preflight(view) {
        return reply(200, headers, "");
    }
    match below {
        "info" => info(view, headers, network_time, entropy),
        "websocket" if view.method == "GET" => HttpAnswer::Websocket { headers },
        "websocket" => method_not_allowed(headers, "GET"),
        _ if is_iframe(below) => iframe(view, headers),
        _ => match sockjs_transport(below) {
            Some(transport) => transport.answer(view, headers, network_time),
            None => reply(404, headers, ""),
        },
    }
}

/// The answer to a request that the rate filter refuses (§2.3); it carries no common headers.
pub fn too_many_requests(network_time: i32) -> HttpAnswer {
    let headers = vec![("DoSFilter", "unavailable".to_owned())];
    json_error(headers, 429, "Too Many Requests", network_time)
}

/// The headers every answer carries (§2.1). For a browser's request the origin is named instead
/// of `*`, because modern SockJS clients ask with credentials (§16.2).
fn common_headers(view: &HttpView<'_>) -> Headers {
    let origin = (view.header)("Origin").filter(|origin| !origin.contains(char::is_control));
    let mut headers = match origin {
        Some(origin) => vec![
            ("Access-Control-Allow-Origin", origin.to_owned()),
            ("Access-Control-Allow-Credentials", "true".to_owned()),
            ("Vary", "Origin".to_owned()),
        ],
        None => vec![("Access-Control-Allow-Origin", "*".to_owned())],
    };
    headers.push(("Access-Control-Allow-Headers", "Content-Type".to_owned()));
    headers.push(("Allow", "GET, HEAD, POST, OPTIONS".to_owned()));
    headers
}

fn is_preflight(view: &HttpView<'_>) -> bool {
    view.method == "OPTIONS"
        && (view.header)("Origin").is_some()
        && (view.header)("Access-Control-Request-Method").is_some()
}

fn info(view: &HttpView<'_>, mut headers: Headers, network_time: i32, entropy: i32) -> HttpAnswer {
    match view.method {
        "GET" => {
            headers.push(("Content-Type", "application/json;charset=utf-8".to_owned()));
            headers.push(("Cache-Control", NO_CACHE.to_owned()));
            let body = format!(
                "{{\"entropy\":{entropy},\"origins\":[\"*:*\"],\"cookie_needed\":true,\
                 \"websocket\":true}}"
            );
            reply(200, headers, body)
        }
        "OPTIONS" => options(headers, network_time),
        _ => method_not_allowed(headers, "GET,OPTIONS"),
    }
}

/// Whether the last segment names the iframe page: `iframe<x>.html`.
fn is_iframe(below: &str) -> bool {
    let version = below.strip_prefix("iframe");
    let version = version.and_then(|rest| rest.strip_suffix(".html"));
    let allowed = |byte| matches!(byte, b'0'..=b'9' | b'-' | b'.' | b'a'..=b'z' | b'_');
    version.is_some_and(|version| version.bytes().all(allowed))
}

fn iframe(view: &HttpView<'_>, mut headers: Headers) -> HttpAnswer {
    if view.method != "GET" {
        return method_not_allowed(headers, "GET");
    }
    if (view.header)("If-None-Match") == Some(IFRAME_ETAG) {
        return reply(304, headers, "");
    }
    headers.push(("Content-Type", "text/html;charset=utf-8".to_owned()));
    headers.push(("Cache-Control", NO_CACHE.to_owned()));
    headers.push(("ETag", IFRAME_ETAG.to_owned()));
    reply(200, headers, IFRAME)
}

/// How a SockJS transport reacts to requests while none of them works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Transport {
    /// The method it is for.
    method: &'static str,
    /// `Allow` for other methods.
    allow: &'static str,
    /// Whether it answers OPTIONS.
    options: bool,
    /// Whether it sends to a session that another transport has opened.
    sends: bool,
}

impl Transport {
    fn named(name: &str) -> Option<Self> {
        let (method, allow, options, sends) = match name {
            "websocket" | "eventsource" | "jsonp" => ("GET", "GET", false, false),
            "htmlfile" => ("GET", "GET,OPTIONS", true, false),
            "xhr" | "xhr_streaming" => ("POST", "POST,OPTIONS", true, false),
            "xhr_send" => ("POST", "POST,OPTIONS", true, true),
            "jsonp_send" => ("POST", "POST", false, true),
            _ => return None,
        };
        Some(Self { method, allow, options, sends })
    }

    fn answer(self, view: &HttpView<'_>, mut headers: Headers, network_time: i32) -> HttpAnswer {
        if view.method == "OPTIONS" && self.options {
            options(headers, network_time)
        } else if view.method != self.method {
            method_not_allowed(headers, self.allow)
        } else if self.sends {
            reply(404, headers, "")
        } else {
            headers.push(("Connection", "close".to_owned()));
            json_error(headers, 500, "Internal Server Error", network_time)
        }
    }
}

/// The transport of a session path `<server>/<session>/<transport>`.
fn sockjs_transport(below: &str) -> Option<Transport> {
    let mut segments = below.split('/');
    let (server, session) = (segments.next()?, segments.next()?);
    let transport = Transport::named(segments.next()?)?;
    let is_id = |id: &str| !id.trim().is_empty() && !id.contains('.');
    (segments.next().is_none() && is_id(server) && is_id(session)).then_some(transport)
}

/// The answer to OPTIONS: empty, and good for a year.
fn options(mut headers: Headers, network_time: i32) -> HttpAnswer {
    let cache = format!("public, max-age={ONE_YEAR_SECONDS}");
    let expires = EPOCH_UNIX_SECONDS + u64::from(network_time.unsigned_abs()) + ONE_YEAR_SECONDS;
    headers.push(("Cache-Control", cache));
    headers.push(("Expires", httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(expires))));
    reply(204, headers, "")
}

fn method_not_allowed(mut headers: Headers, allow: &str) -> HttpAnswer {
    headers.push(("Allow", allow.to_owned()));
    reply(405, headers, "")
}

fn json_error(mut headers: Headers, status: u16, error: &str, network_time: i32) -> HttpAnswer {
    headers.push(("Content-Type", "application/json".to_owned()));
    headers.push(("Cache-Control", ERROR_CACHE.to_owned()));
    let body = format!(
        "{{\"timeStamp\":{network_time},\"error\":\"{error}\",\"message\":null,\
         \"status\":{status}}}\r\n"
    );
    reply(status, headers, body)
}

fn reply(status: u16, headers: Headers, body: impl Into<Vec<u8>>) -> HttpAnswer {
    HttpAnswer::Reply { status, headers, body: body.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, path: &str, headers: &[(&str, &str)]) -> HttpAnswer {
        let header = |name: &str| {
            let mut all = headers.iter();
            let found = all.find(|(known, _)| known.eq_ignore_ascii_case(name));
            found.map(|&(_, value)| value)
        };
        let view = HttpView { method, path, header: &header };
        answer(&view, 367_575_237, -17_305_541)
    }

    /// Status, headers beyond the three common ones, and body.
    fn plain(method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, Vec<(&'static str, String)>, String) {
        match ask(method, path, headers) {
            HttpAnswer::Reply { status, mut headers, body } => {
                let own = headers.split_off(3);
                (status, own, String::from_utf8(body).unwrap())
            }
            HttpAnswer::Websocket { .. } => (101, vec![], String::new()),
        }
    }

    fn owned(headers: &[(&'static str, &str)]) -> Headers {
        let all = headers.iter();
        all.map(|&(name, value)| (name, value.to_owned())).collect()
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
    fn options_on_info_is_kept_for_a_year_and_other_methods_are_refused() {
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
            let HttpAnswer::Reply { status, body, .. } = ask("OPTIONS", &format!("/w/messages/{path}"), &asked) else {
                panic!("no reply")
            };
            assert_eq!((status, body.len()), (200, 0));
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
            assert_eq!(plain("GET", path, &[]).0, 101);
            assert_eq!(plain("POST", path, &[]), (405, owned(&[("Allow", "GET")]), String::new()));
        }
    }

    #[test]
    fn sockjs_transports_do_not_work_yet() {
        let opened = [
            ("GET", "websocket"),
            ("POST", "xhr"),
            ("POST", "xhr_streaming"),
            ("GET", "eventsource"),
            ("GET", "htmlfile"),
            ("GET", "jsonp"),
        ];
        for (method, transport) in opened {
            let path = format!("/w/messages/435/kdlicigz/{transport}");
            let (status, headers, body) = plain(method, &path, &[]);
            assert_eq!(status, 500, "{transport}");
            assert_eq!(
                headers,
                owned(
                    &[("Connection", "close"), ("Content-Type", "application/json"), ("Cache-Control", ERROR_CACHE),]
                )
            );
            assert_eq!(
                body,
                "{\"timeStamp\":367575237,\"error\":\"Internal Server Error\",\"message\":null,\
                 \"status\":500}\r\n"
            );
        }
        for transport in ["xhr_send", "jsonp_send"] {
            let path = format!("/w/messages/1/2/{transport}");
            assert_eq!(plain("POST", &path, &[]), (404, vec![], String::new()));
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
    fn other_paths_below_are_empty_404s() {
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
    fn paths_elsewhere_are_json_404s() {
        for path in ["/", "", "/w", "/w/messagesx", "/W/messages", "/chain/height"] {
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
        let HttpAnswer::Reply { headers, .. } = ask("GET", "/w/messages/info", &[("Origin", "https://a.b")]) else {
            panic!("no reply")
        };
        assert_eq!(
            headers[..5],
            owned(&[
                ("Access-Control-Allow-Origin", "https://a.b"),
                ("Access-Control-Allow-Credentials", "true"),
                ("Vary", "Origin"),
                ("Access-Control-Allow-Headers", "Content-Type"),
                ("Allow", "GET, HEAD, POST, OPTIONS"),
            ])
        );
        let HttpAnswer::Reply { headers, .. } = ask("GET", "/w/messages/info", &[("Origin", "a\r\nb: c")]) else {
            panic!("no reply")
        };
        assert_eq!(headers[0], ("Access-Control-Allow-Origin", "*".to_owned()));
    }

    #[test]
    fn the_rate_filter_refuses_without_common_headers() {
        let HttpAnswer::Reply { status, headers, body } = too_many_requests(7) else { panic!("no reply") };
        assert_eq!(status, 429);
        assert_eq!(
            headers,
            owned(&[
                ("DoSFilter", "unavailable"),
                ("Content-Type", "application/json"),
                ("Cache-Control", ERROR_CACHE),
            ])
        );
        let text = "{\"timeStamp\":7,\"error\":\"Too Many Requests\",\"message\":null,\"status\":429}\r\n";
        assert_eq!(body, text.as_bytes());
    }
}
