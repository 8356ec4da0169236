//! Transports by which a client without a websocket receives frames and sends messages.

use crate::api::percent;

/// Content type of scripts.
const SCRIPT: &str = "application/javascript;charset=UTF-8";
/// Padding at the start of a streaming response, for browsers that hold back the first bytes; in bytes.
const PRELUDE_BYTES: usize = 2_048;
/// Minimum length of the `htmlfile` page, for the same reason; in bytes.
const PAGE_BYTES: usize = 1_024;
/// Maximum length of a callback name, in bytes.
const MAX_CALLBACK_BYTES: usize = 128;

/// The `htmlfile` page before and after the name of the callback in the parent window.
const PAGE: [&str; 2] = [
    r#"<!doctype html>
<html><head>
  <meta http-equiv="X-UA-Compatible" content="IE=edge" />
  <meta http-equiv="Content-Type" content="text/html; charset=UTF-8" />
</head><body><h2>Don't panic!</h2>
  <script>
    document.domain = document.domain;
    var c = parent."#,
    r#";
    c.start();
    function p(d) {c.message(d);};
    window.onload = function() {c.stop();};
  </script>"#,
];

/// The last segment of a session's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Both directions on a websocket.
    Websocket,
    /// Receives frames.
    Receive(ReceiveTransport),
    /// Sends a message: the body.
    XhrSend,
    /// Sends a message: a form field, or the body.
    JsonpSend,
}

/// Transports that receive frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveTransport {
    /// One frame as a line.
    Xhr,
    /// Frames as lines.
    XhrStreaming,
    /// Frames as events.
    EventSource,
    /// Frames as scripts in a page.
    HtmlFile,
    /// One frame as a script.
    Jsonp,
}

use ReceiveTransport::{EventSource, HtmlFile, Jsonp, Xhr, XhrStreaming};

impl Transport {
    /// Looks up a transport by its name in the path.
    pub fn from_name(name: &str) -> Option<Transport> {
        Some(match name {
            "websocket" => Transport::Websocket,
            "xhr" => Transport::Receive(Xhr),
            "xhr_streaming" => Transport::Receive(XhrStreaming),
            "eventsource" => Transport::Receive(EventSource),
            "htmlfile" => Transport::Receive(HtmlFile),
            "jsonp" => Transport::Receive(Jsonp),
            "xhr_send" => Transport::XhrSend,
            "jsonp_send" => Transport::JsonpSend,
            _ => return None,
        })
    }

    /// The HTTP method that it requires.
    pub fn method(self) -> &'static str {
        match self {
            Self::Websocket | Self::Receive(EventSource | HtmlFile | Jsonp) => "GET",
            Self::Receive(Xhr | XhrStreaming) | Self::XhrSend | Self::JsonpSend => "POST",
        }
    }

    /// The `Allow` header, in NIS1's order.
    pub fn allow(self) -> &'static str {
        match self {
            Self::Websocket | Self::Receive(EventSource | Jsonp) => "GET",
            Self::Receive(HtmlFile) => "GET,OPTIONS",
            Self::Receive(Xhr | XhrStreaming) | Self::XhrSend => "POST,OPTIONS",
            Self::JsonpSend => "POST",
        }
    }

    /// Returns whether OPTIONS is answered instead of rejected.
    pub fn answers_options(self) -> bool {
        self.allow().ends_with("OPTIONS")
    }
}

impl ReceiveTransport {
    /// Returns whether its responses are streams.
    pub fn is_streaming(self) -> bool {
        !matches!(self, Xhr | Jsonp)
    }

    /// Returns whether it can receive from a session that `other` opened: the two polling transports share sessions.
    pub fn is_compatible_with(self, other: ReceiveTransport) -> bool {
        self == other || !self.is_streaming() && !other.is_streaming()
    }

    /// Returns whether the client names a callback.
    pub fn has_callback(self) -> bool {
        matches!(self, HtmlFile | Jsonp)
    }

    /// The content type of responses.
    pub fn content_type(self) -> &'static str {
        match self {
            Xhr | XhrStreaming | Jsonp => SCRIPT,
            EventSource => "text/event-stream;charset=UTF-8",
            HtmlFile => "text/html;charset=utf-8",
        }
    }
}

/// Wraps frames into a response.
#[derive(Clone, Copy, Debug)]
pub struct Wrapper<'a> {
    /// The transport.
    pub transport: ReceiveTransport,
    /// The callback, if the transport has one.
    pub callback: &'a str,
}

impl Wrapper<'_> {
    /// Appends the start of a response.
    pub fn begin(&self, out: &mut Vec<u8>) {
        match self.transport {
            XhrStreaming => {
                out.resize(out.len() + PRELUDE_BYTES, b'h');
                out.push(b'\n');
            }
            EventSource => out.extend_from_slice(b"\r\n"),
            HtmlFile => {
                out.extend_from_slice([PAGE[0], self.callback, PAGE[1]].concat().as_bytes());
                let padded = out.len().max(PAGE_BYTES + self.callback.len());
                out.resize(padded, b' ');
            }
            Xhr | Jsonp => {}
        }
    }

    /// Appends a frame.
    pub fn frame(&self, out: &mut Vec<u8>, frame: &[u8]) {
        match self.transport {
            Xhr | XhrStreaming => {
                out.extend_from_slice(frame);
                out.push(b'\n');
            }
            EventSource => {
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(frame);
                out.extend_from_slice(b"\r\n\r\n");
            }
            HtmlFile => {
                out.extend_from_slice(b"<script>\np(\"");
                escape_script(out, frame);
                out.extend_from_slice(b"\");\n</script>\r\n");
            }
            Jsonp => {
                out.extend_from_slice(b"/**/");
                out.extend_from_slice(self.callback.as_bytes());
                out.extend_from_slice(b"(\"");
                escape_script(out, frame);
                out.extend_from_slice(b"\");\r\n");
            }
        }
    }
}

/// Appends a frame, which has no control characters, escaped for the inside of a script's quotes.
fn escape_script(out: &mut Vec<u8>, frame: &[u8]) {
    out.reserve(frame.len());
    for &byte in frame {
        match byte {
            b'\\' | b'"' | b'\'' | b'/' => out.extend_from_slice(&[b'\\', byte]),
            b'<' => out.extend_from_slice(b"\\u003C"),
            b'>' => out.extend_from_slice(b"\\u003E"),
            _ => out.push(byte),
        }
    }
}

/// Returns the callback named in the query, if it is a valid name.
pub fn callback(query: Option<&str>) -> Option<String> {
    let value = query?.split('&').find_map(|pair| pair.strip_prefix("c="))?;
    let name = String::from_utf8(percent::decode(value, true)?).ok()?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    ((1..=MAX_CALLBACK_BYTES).contains(&name.len()) && name.bytes().all(is_name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(fetching: ReceiveTransport, write: impl FnOnce(&Wrapper<'_>, &mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&Wrapper { transport: fetching, callback: "_jp.a1" }, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn frames_are_wrapped_for_each_transport() {
        let frame = br#"a["x\n<\/'"]"#;
        let wrapped = [Xhr, XhrStreaming, EventSource, HtmlFile, Jsonp]
            .map(|fetching| text(fetching, |wrapper, out| wrapper.frame(out, frame)));
        assert_eq!(wrapped[0], "a[\"x\\n<\\/'\"]\n");
        assert_eq!(wrapped[1], wrapped[0]);
        assert_eq!(wrapped[2], "data: a[\"x\\n<\\/'\"]\r\n\r\n");
        assert_eq!(wrapped[3], "<script>\np(\"a[\\\"x\\\\n\\u003C\\\\\\/\\'\\\"]\");\n</script>\r\n");
        assert_eq!(wrapped[4], "/**/_jp.a1(\"a[\\\"x\\\\n\\u003C\\\\\\/\\'\\\"]\");\r\n");
    }

    #[test]
    fn streaming_responses_begin_with_the_prelude_for_browsers() {
        assert_eq!(text(XhrStreaming, |wrapper, out| wrapper.begin(out)), format!("{}\n", "h".repeat(2048)));
        assert_eq!(text(EventSource, |wrapper, out| wrapper.begin(out)), "\r\n");
        let page = text(HtmlFile, |wrapper, out| wrapper.begin(out));
        assert!(page.starts_with("<!doctype html>\n<html>") && page.contains("var c = parent._jp.a1;\n"));
        assert_eq!((page.len(), page.trim_end().ends_with("</script>")), (1024 + 6, true));
        assert_eq!(text(Xhr, |wrapper, out| wrapper.begin(out)) + &text(Jsonp, |wrapper, out| wrapper.begin(out)), "");
    }

    #[test]
    fn a_callback_is_a_valid_name() {
        for (query, name) in [("c=_jp.abcdef", "_jp.abcdef"), ("x=1&c=a%2Eb&c=d", "a.b"), ("c=0", "0")] {
            assert_eq!(callback(Some(query)).as_deref(), Some(name));
        }
        let long = format!("c={}", "a".repeat(129));
        for query in ["", "c=", "d=a", "c=a(", "c=%3Cscript%3E", "c=a%0A", "c=a;b", "c=a+b", "c=%", "c=%ff", &long] {
            assert_eq!(callback(Some(query)), None, "{query}");
        }
        assert_eq!(callback(None), None);
    }

    #[test]
    fn polling_transports_are_interchangeable_and_streaming_ones_are_not() {
        assert!(
            Xhr.is_compatible_with(Jsonp)
                && Jsonp.is_compatible_with(Xhr)
                && XhrStreaming.is_compatible_with(XhrStreaming)
        );
        assert!(
            !XhrStreaming.is_compatible_with(Xhr)
                && !EventSource.is_compatible_with(HtmlFile)
                && !Jsonp.is_compatible_with(EventSource)
        );
    }
}
