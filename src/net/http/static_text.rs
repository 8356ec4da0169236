//! Static files compiled into the program.

use std::borrow::Cow;
use std::io::Write;
use std::sync::OnceLock;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Request, Response, accepts_gzip};

/// A text with a version, sent plain or compressed, and only to clients that do not have this version.
pub struct StaticText {
    media_type: &'static str,
    plain: Cow<'static, str>,
    /// ASCII text that identifies the version.
    version: String,
    /// Compressed form, created on first use.
    gzipped: OnceLock<Vec<u8>>,
}

impl StaticText {
    /// Returns a text with its media type. `version` consists of letters and digits and changes with the text.
    pub fn new(media_type: &'static str, plain: impl Into<Cow<'static, str>>, version: String) -> StaticText {
        StaticText { media_type, plain: plain.into(), version, gzipped: OnceLock::new() }
    }

    /// Returns the version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Answers a GET or HEAD request with the text, or with 304 if the client has it. `caching` is the value of
    /// `Cache-Control`. Without `may_compress` the text is always sent plain.
    pub fn send(&self, caching: &'static str, may_compress: bool, request: &Request<'_>, response: &mut Response) {
        let is_packed = may_compress && accepts_gzip(request.header_values("Accept-Encoding"));
        let tag = self.tag(is_packed);
        let is_known = is_not_modified(&tag, request);
        response.compress = false;
        response.header("ETag", tag);
        response.header("Cache-Control", caching);
        response.header("Vary", "Accept-Encoding");
        if is_known {
            response.status = 304;
            return;
        }
        response.header("Content-Type", self.media_type);
        if is_packed {
            response.header("Content-Encoding", "gzip");
            response.body.extend_from_slice(self.gzipped());
        } else {
            response.body.extend_from_slice(self.plain.as_bytes());
        }
    }

    /// Returns the entity tag of one of the two forms. Tags are strong, so the forms have different ones.
    fn tag(&self, is_packed: bool) -> String {
        format!("\"{}{}\"", self.version, if is_packed { "-gzip" } else { "" })
    }

    fn gzipped(&self) -> &[u8] {
        self.gzipped.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            // Writing to memory cannot fail.
            drop(encoder.write_all(self.plain.as_bytes()));
            encoder.finish().unwrap_or_default()
        })
    }
}

/// Returns whether the client already has the entity of a tag (RFC 9110 §13.1.2: weak comparison).
fn is_not_modified(tag: &str, request: &Request<'_>) -> bool {
    let mut known = request.header_values("If-None-Match").flat_map(|value| value.split(',')).map(str::trim);
    known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::http::RequestReader;

    fn ask(headers: &str, may_compress: bool) -> Response {
        let text = StaticText::new("application/json", "{}".repeat(1000), "0a1b".to_owned());
        let mut reader = RequestReader::new(0);
        reader.receive(format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n").as_bytes());
        let mut reply = Response { compress: true, ..Response::new() };
        text.send("no-cache", may_compress, &reader.next_request().unwrap().unwrap(), &mut reply);
        assert!(!reply.compress);
        reply
    }

    fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
        response.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_ref())
    }

    #[test]
    fn each_form_has_its_own_tag_and_is_not_sent_twice() {
        const GZIP: &str = "Accept-Encoding: gzip\r\n";
        for (headers, may_compress, tag, is_packed) in
            [("", true, "\"0a1b\"", false), (GZIP, true, "\"0a1b-gzip\"", true), (GZIP, false, "\"0a1b\"", false)]
        {
            let first = ask(headers, may_compress);
            assert_eq!((first.status, header(&first, "ETag")), (200, Some(tag)));
            assert_eq!(header(&first, "Content-Encoding"), is_packed.then_some("gzip"));
            assert_eq!(first.body.len() < 2000, is_packed);
            for (known, is_known) in
                [(tag, true), (&format!("W/{tag}"), true), (&format!("\"x\", {tag}"), true), ("*", true)]
                    .into_iter()
                    .chain([("\"0a1\"", false), ("0a1b", false), ("", false)])
            {
                let again = ask(&format!("{headers}If-None-Match: {known}\r\n"), may_compress);
                assert_eq!(again.status, if is_known { 304 } else { 200 }, "{known}");
                assert_eq!((again.body.is_empty(), header(&again, "ETag")), (is_known, Some(tag)), "{known}");
                assert_eq!(header(&again, "Vary"), Some("Accept-Encoding"));
            }
        }
    }
}
