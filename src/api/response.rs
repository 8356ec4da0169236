//! Responses: writing of views into them, and media types: the format that a client accepts, and the format that it
//! sends. Responses that depend on the chain and on what their key holds are kept until the chain changes.
//!
//! Wallets and explorers repeat the same requests until the next block. The first response is kept with its compressed
//! form, once a client has asked for that; the following ones cost a lookup. When the cache is full, the oldest responses
//! are dropped.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::rc::Rc;

use super::streams::BodyWriter;
use super::{ApiError, Format, View};
use crate::codec::json::JsonEncoder;
use crate::model::Timestamp;
use crate::net::SharedBytesCounter;
use crate::net::http::{Request, Response, SharedBody};
use crate::peer::wire::ErrorBody;

const COMMON_HEADERS: [(&str, &str); 3] = [
    ("Access-Control-Allow-Origin", "*"),
    ("Access-Control-Allow-Headers", "Content-Type"),
    ("Allow", "GET, HEAD, POST, OPTIONS"),
];
const CONTENT_TYPE: &str = "Content-Type";
/// Maximum size in bytes of a response with a secret.
const SECRET_BYTES: usize = 1024;
pub(super) const NO_CACHE: &str = "must-revalidate,no-cache,no-store";

/// Writes the response to one request, in the format that the client accepts.
pub(super) struct ResponseWriter<'a> {
    pub response: &'a mut Response,
    /// Reused buffer.
    pub json: &'a mut JsonEncoder,
    pub accept: Accept<'a>,
    pub now: Timestamp,
}

/// Writes an error of the web container: always JSON, without a message.
pub fn container_error(response: &mut Response, status: u16, now: Timestamp) {
    response.status = status;
    response.header(CONTENT_TYPE, Format::Json.media_type());
    response.header("Cache-Control", NO_CACHE);
    let object = ErrorBody::new(status, None, now);
    response.body.extend(JsonEncoder::document(|sink| object.write(sink)));
    response.body.extend_from_slice(end_of_body(Format::Json));
}

/// Writes a 429 response: the client exceeds its rate limit.
pub fn too_many_requests(response: &mut Response, now: Timestamp) {
    response.header("DoSFilter", "unavailable");
    container_error(response, 429, now);
}

impl ResponseWriter<'_> {
    /// Adds the headers of every response of the application.
    pub fn common_headers(&mut self) {
        for (name, value) in COMMON_HEADERS {
            self.response.header(name, value);
        }
    }

    /// Responds with an object, or with 406 if the client accepts neither format.
    pub fn send(&mut self, view: &impl View) -> Result<(), ApiError> {
        if let Some(format) = self.begin() {
            self.body(format, view);
        }
        Ok(())
    }

    /// Responds with an object that contains a secret. Buffers are reserved first, so that no copy is left behind.
    pub fn send_secret(&mut self, view: &impl View) -> Result<(), ApiError> {
        self.response.body.reserve(SECRET_BYTES);
        self.json.reserve(SECRET_BYTES);
        self.send(view)?;
        self.json.wipe();
        self.response.is_secret = true;
        Ok(())
    }

    /// Writes the head of a successful response and returns its format, or responds with 406 if the client accepts neither.
    pub fn begin(&mut self) -> Option<Format> {
        match self.accept.format {
            Some(format) => self.head(200, format),
            None => self.container_error(406),
        }
        self.accept.format
    }

    /// Returns the writer of the body.
    pub fn body_writer(&mut self, format: Format) -> BodyWriter<'_> {
        BodyWriter { format, body: &mut self.response.body, json: self.json }
    }

    /// Ends the body, unless the response has none.
    pub fn end(&mut self) {
        if !self.response.body.is_empty() || self.response.is_streaming {
            self.response.body.extend_from_slice(end_of_body(self.accept.format.unwrap_or(Format::Json)));
        }
    }

    /// Responds with a word of ASCII letters, with the media type that the client accepts first.
    pub fn send_text(&mut self, text: &'static str, request: &Request<'_>) -> Result<(), ApiError> {
        self.response.header(CONTENT_TYPE, text_type(request.header("Accept")));
        self.response.body.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Writes an error response in place of what was written before. If part of the body was already sent, the
    /// connection is closed instead, so that the client notices that the rest is missing.
    pub fn failure(&mut self, error: &ApiError) {
        if self.response.is_streaming {
            log::debug!("the rest of a response is not sent: {error}");
            self.response.body.clear();
            self.response.close = true;
            return;
        }
        self.response.reset();
        self.common_headers();
        let object = ErrorBody::new(error.status, Some(&error.message), self.now);
        match self.accept.format {
            Some(format) => {
                self.head(error.status, format);
                self.body(format, &object);
            }
            None => self.container_error(500),
        }
    }

    /// Writes an error of the web container in place of an object.
    pub fn container_error(&mut self, status: u16) {
        container_error(self.response, status, self.now);
    }

    fn head(&mut self, status: u16, format: Format) {
        self.response.status = status;
        self.response.header(CONTENT_TYPE, self.accept.content_type(format));
        if let Some(disposition) = self.accept.disposition {
            self.response.header("Content-Disposition", disposition);
        }
    }

    fn body(&mut self, format: Format, view: &impl View) {
        self.body_writer(format).write(view);
        self.response.body.extend_from_slice(end_of_body(format));
    }
}

/// The format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept<'a> {
    /// `None` if the client accepts neither format.
    pub format: Option<Format>,
    /// Charset that the client named; the response repeats it.
    pub charset: Option<&'a str>,
    /// `Content-Disposition` of the response, for a path with an unknown extension.
    pub disposition: Option<&'static str>,
}

impl<'a> Accept<'a> {
    /// JSON, the default.
    pub const JSON: Accept<'static> = Accept { format: Some(Format::Json), charset: None, disposition: None };
    const NONE: Accept<'static> = Accept { format: None, charset: None, disposition: None };

    /// Selects the format from an `Accept` header: highest quality first, then the most specific range, then order.
    pub fn by_accept(accept: Option<&'a str>) -> Accept<'a> {
        let accept = accept.unwrap_or_default();
        if accept.trim().is_empty() {
            return Accept::JSON;
        }
        let mut best = ((0.0, 0), Accept::NONE);
        for text in accept.split(',') {
            let Some((rank, range)) = Accept::of_range(text) else { return Accept::NONE };
            if range.format.is_some() && (best.1.format.is_none() || rank > best.0) {
                best = (rank, range);
            }
        }
        best.1
    }

    /// Parses an element of an `Accept` header: its rank, and the first format that it includes. The rank is its quality from
    /// 0 to 1, then 2 for `type/subtype`, 1 for `type/*` and 0 for `*/*`.
    fn of_range(text: &'a str) -> Option<((f64, u8), Accept<'a>)> {
        let mut parts = text.split(';').map(str::trim);
        let name = parts.next()?;
        let (kind, subtype) = if name == "*" { ("*", "*") } else { name.split_once('/')? };
        if !is_token(kind) || !is_token(subtype) {
            return None;
        }
        let (format, specificity) = match (kind, subtype) {
            ("*", "*") => (Some(Format::Json), 0),
            ("*", _) => return None,
            (kind, "*") => (kind.eq_ignore_ascii_case("application").then_some(Format::Json), 1),
            _ => (Format::of(name), 2),
        };
        let (mut quality, mut charset) = (1.0, None);
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            if name.eq_ignore_ascii_case("q") {
                quality = value.parse().ok().filter(|quality| (0.0..=1.0).contains(quality))?;
            } else if name.eq_ignore_ascii_case("charset") {
                charset = Some(Some(unquoted(value)).filter(|charset| is_charset(charset))?);
            }
        }
        Some(((quality, specificity), Accept { format, charset, disposition: None }))
    }

    /// Selects the format from the extension of a path, which replaces `Accept`.
    pub fn by_extension(extension: &str) -> Accept<'static> {
        const KNOWN: [&str; 21] = [
            "xml", "html", "htm", "txt", "css", "js", "csv", "png", "gif", "jpg", "jpeg", "svg", "ico", "bmp", "pdf",
            "zip", "gz", "tar", "bin", "mp3", "mp4",
        ];
        if extension == "json" {
            Accept::JSON
        } else if KNOWN.contains(&extension) {
            Accept::NONE
        } else {
            Accept { disposition: Some("inline;filename=f.txt"), ..Accept::JSON }
        }
    }

    /// Returns the `Content-Type` of the response.
    pub fn content_type(&self, format: Format) -> Cow<'static, str> {
        match self.charset {
            Some(charset) => format!("{};charset={}", format.media_type(), charset.to_ascii_lowercase()).into(),
            None => format.media_type().into(),
        }
    }
}

/// Returns the format of a request body.
pub fn body_format(content_type: Option<&str>) -> Result<Format, ApiError> {
    let content_type = content_type.filter(|named| !named.is_empty()).unwrap_or("application/octet-stream");
    let invalid = |problem: &str| Err(ApiError::new(500, format!("Invalid mime type \"{content_type}\": {problem}")));
    let mut parts = content_type.split(';').map(str::trim);
    let full = parts.next().unwrap_or_default();
    let Some((_, subtype)) = full.split_once('/') else { return invalid("does not contain '/'") };
    if subtype.is_empty() {
        return invalid("does not contain subtype after '/'");
    }
    for (name, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
        let charset = unquoted(value);
        if name.eq_ignore_ascii_case("charset") && !is_charset(charset) {
            return invalid(&format!("unsupported charset '{charset}'"));
        }
    }
    let not_supported = || ApiError::new(500, format!("Content type '{content_type}' not supported"));
    Format::of(full).ok_or_else(not_supported)
}

/// Returns the media type of a bare text response: the one that the client accepts first, whatever it is.
pub fn text_type(accept: Option<&str>) -> Cow<'static, str> {
    match Accept::by_accept(accept.filter(|accept| accept.contains("application/"))) {
        Accept { format: Some(Format::Json), .. } if accept.is_some_and(|accept| accept.contains("json")) => {
            "application/json;charset=iso-8859-1".into()
        }
        Accept { format: Some(Format::Binary), .. } => "application/binary;charset=ISO-8859-1".into(),
        _ => "text/plain;charset=iso-8859-1".into(),
    }
}

fn unquoted(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Returns whether this names a common charset. Bodies are UTF-8 whatever the charset.
fn is_charset(name: &str) -> bool {
    const NAMES: &str = "utf-8 utf8 us-ascii ascii iso-8859-1 iso8859-1 iso-8859-15 latin1 utf-16 utf-16be utf-16le utf-32 \
         windows-1250 windows-1251 windows-1252 koi8-r gbk gb2312 gb18030 big5 shift_jis euc-jp";
    NAMES.split(' ').any(|known| name.eq_ignore_ascii_case(known))
}

/// Maximum memory of all responses in bytes.
pub const MAX_CACHED_BYTES: usize = 8 << 20;
/// Maximum size of a cached body in bytes. Longer ones are rare, and would displace many others.
const MAX_BODY_BYTES: usize = 128 << 10;
/// Maximum length of the parts of a request that identify its response, if that is cached.
const MAX_KEY_BYTES: usize = 512;
/// Memory in bytes that an entry takes besides its key and its body.
const ENTRY_BYTES: usize = 200;

/// Values by key, each with its bytes. When they take too many, the oldest are dropped.
pub struct Cache<K, V> {
    /// The values.
    pub values: HashMap<K, (V, usize)>,
    /// Keys in the order of insertion.
    keys: VecDeque<K>,
    /// Bytes of all values.
    pub bytes: usize,
}

impl<K, V> Default for Cache<K, V> {
    fn default() -> Self {
        Cache { values: HashMap::new(), keys: VecDeque::new(), bytes: 0 }
    }
}

impl<K: Clone + Eq + Hash, V> Cache<K, V> {
    /// Adds the value of a new key. It stays even if it alone has more than the maximum.
    pub fn insert(&mut self, key: K, value: V, bytes: usize, max_bytes: usize) {
        self.bytes += bytes;
        self.keys.push_back(key.clone());
        self.values.insert(key, (value, bytes));
        while self.bytes > max_bytes
            && self.keys.len() > 1
            && let Some((_, bytes)) = self.keys.pop_front().and_then(|oldest| self.values.remove(&oldest))
        {
            self.bytes -= bytes;
        }
    }
}

/// The cached responses.
#[derive(Default, derive_more::Deref)]
pub struct ResponseCache {
    #[deref]
    bodies: Cache<Rc<[u8]>, Rc<SharedBody>>,
    /// Counts the bodies, also those that were dropped and are still being sent.
    pub pool: SharedBytesCounter,
}

/// Identifies a response: its format, its route, the version of what it depends on besides the chain, and query, content
/// type and body of the request, as sent.
pub struct CacheKey(Vec<u8>);

impl CacheKey {
    /// Creates the key of a request; `None` if it is too long to be kept.
    pub fn new(format: Format, version: u64, request: &Request<'_>) -> Option<CacheKey> {
        let content_type = request.header("Content-Type").filter(|_| !request.body.is_empty());
        let [query, content_type] = [request.query, content_type].map(|text| text.unwrap_or_default().as_bytes());
        let (route, version) = ((request.route as u64).to_le_bytes(), version.to_le_bytes());
        // Neither query nor content type contains a line feed.
        let parts = [&[format as u8][..], &route, &version, query, b"\n", content_type, b"\n", request.body, b"\n"];
        let length: usize = parts[3..].iter().map(|part| part.len()).sum();
        (length <= MAX_KEY_BYTES).then(|| CacheKey(parts.concat()))
    }
}

impl ResponseCache {
    /// Returns the body of a cached response.
    pub fn get(&self, key: &CacheKey) -> Option<Rc<SharedBody>> {
        self.values.get(key.0.as_slice()).map(|(body, _)| Rc::clone(body))
    }

    /// Keeps a copy of a body, unless it is too long or one is kept already.
    pub fn insert(&mut self, key: CacheKey, body: &[u8]) {
        if body.len() <= MAX_BODY_BYTES && !self.values.contains_key(key.0.as_slice()) {
            // The compressed form is included, which is shorter than the body.
            let bytes = key.0.len() + 2 * body.len() + ENTRY_BYTES;
            let body = Rc::new(SharedBody::new(body.to_vec(), &self.pool));
            self.bodies.insert(key.0.into(), body, bytes, MAX_CACHED_BYTES);
        }
    }

    /// Drops all responses: the chain or the settings have changed.
    pub fn clear(&mut self) {
        *self = ResponseCache { pool: self.pool.clone(), ..ResponseCache::default() };
    }
}

/// Returns what follows a body, as in NIS1.
pub(super) fn end_of_body(format: Format) -> &'static [u8] {
    match format {
        Format::Json => b"\r\n",
        Format::Binary => b"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_gets_the_format_it_prefers() {
        use Format::{Binary, Json};
        for (accept, format) in [
            ("", Some(Json)),
            ("*/*", Some(Json)),
            ("*", Some(Json)),
            ("application/*", Some(Json)),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", Some(Json)),
            ("application/json, application/binary", Some(Json)),
            ("application/binary, application/json", Some(Binary)),
            ("application/json;q=0.5, application/binary", Some(Binary)),
            ("application/binary;q=0.5, application/json", Some(Json)),
            ("*/*, application/binary", Some(Binary)),
            ("Application/Binary", Some(Binary)),
            ("application/json;q=0", Some(Json)),
            ("text/html, application/json", Some(Json)),
            ("text/plain", None),
            ("image/*", None),
            ("garbage", None),
            ("application/json, garbage", None),
            ("*/json", None),
            ("application/json;q=2", None),
            ("application/json;charset=foo", None),
        ] {
            assert_eq!(Accept::by_accept(Some(accept)).format, format, "{accept}");
        }
        assert_eq!(Accept::by_accept(None), Accept::JSON);
    }

    #[test]
    fn a_charset_is_repeated_in_lower_case() {
        let wanted = Accept::by_accept(Some("application/json; charset=\"UTF-8\""));
        assert_eq!(wanted.content_type(Format::Json), "application/json;charset=utf-8");
    }

    #[test]
    fn an_unsupported_body_type_is_rejected_with_the_specified_text() {
        for (content_type, text) in [
            ("text/plain", "Content type 'text/plain' not supported"),
            ("garbage", "Invalid mime type \"garbage\": does not contain '/'"),
            (
                "application/json;charset=foo",
                "Invalid mime type \"application/json;charset=foo\": unsupported charset 'foo'",
            ),
        ] {
            assert_eq!(body_format(Some(content_type)), Err(ApiError::internal(text)));
        }
        assert_eq!(body_format(None), Err(ApiError::internal("Content type 'application/octet-stream' not supported")));
        for json in ["application/json", "APPLICATION/JSON", "application/json;charset=iso-8859-1"] {
            assert_eq!(body_format(Some(json)), Ok(Format::Json));
        }
        assert_eq!(body_format(Some("application/binary")), Ok(Format::Binary));
    }

    #[test]
    fn a_plain_text_response_has_the_accepted_media_type() {
        for (accept, expected) in [
            (None, "text/plain;charset=iso-8859-1"),
            (Some("*/*"), "text/plain;charset=iso-8859-1"),
            (Some("application/json"), "application/json;charset=iso-8859-1"),
            (Some("application/binary"), "application/binary;charset=ISO-8859-1"),
        ] {
            assert_eq!(text_type(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn a_path_extension_replaces_the_accept_header() {
        assert_eq!(Accept::by_extension("json"), Accept::JSON);
        assert_eq!(Accept::by_extension("xml").format, None);
        assert!(Accept::by_extension("foo").disposition.is_some());
    }
}

#[cfg(test)]
mod cache_tests {
    use super::*;
    use crate::net::http::{MatchedRoute, RequestReader};

    fn key(format: Format, target: &str, content_type: &str, body: &str) -> Option<CacheKey> {
        versioned_key(format, 1, 0, target, content_type, body)
    }

    fn versioned_key(
        format: Format,
        route_id: usize,
        version: u64,
        target: &str,
        content_type: &str,
        body: &str,
    ) -> Option<CacheKey> {
        let mut reader = RequestReader::new(0);
        let length = body.len();
        let text =
            format!("POST {target} HTTP/1.0\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}");
        reader.receive(text.as_bytes());
        reader.advance(|_, _| MatchedRoute { id: route_id, body_limit: 1 << 20 }).unwrap();
        CacheKey::new(format, version, &reader.request().unwrap())
    }

    fn get(target: &str) -> CacheKey {
        key(Format::Json, target, "", "").unwrap()
    }

    fn body(cache: &ResponseCache, key: &CacheKey) -> Option<Vec<u8>> {
        cache.get(key).map(|body| body.plain().to_vec())
    }

    #[test]
    fn a_response_is_found_by_all_that_identifies_it_until_the_cache_is_cleared() {
        let mut cache = ResponseCache::default();
        let keys = || {
            [
                get("/a?b=1"),
                get("/a?b=2"),
                get("/a"),
                versioned_key(Format::Json, 2, 0, "/a?b=1", "", "").unwrap(),
                versioned_key(Format::Json, 1, 1, "/a?b=1", "", "").unwrap(),
                key(Format::Binary, "/a?b=1", "", "").unwrap(),
                key(Format::Json, "/a?b=1", "", "x").unwrap(),
                key(Format::Json, "/a?b=1", "text", "x").unwrap(),
                key(Format::Json, "/a?b=1", "text", "y").unwrap(),
            ]
        };
        for (number, key) in (0u8..).zip(keys()) {
            assert_eq!(body(&cache, &key), None, "{number}");
            cache.insert(key, &[number]);
        }
        for (number, key) in (0u8..).zip(keys()) {
            assert_eq!(body(&cache, &key), Some(vec![number]));
        }
        let before = cache.bytes;
        cache.insert(get("/a?b=1"), b"the same, made again");
        assert_eq!((body(&cache, &get("/a?b=1")), cache.bytes), (Some(vec![0]), before));
        cache.clear();
        assert_eq!((body(&cache, &get("/a?b=1")), cache.bytes), (None, 0));
    }

    #[test]
    fn a_full_cache_drops_its_oldest_responses_and_takes_no_long_ones() {
        let mut cache = ResponseCache::default();
        let numbered = |number: usize| get(&format!("/?{number}"));
        for number in 0..200 {
            cache.insert(numbered(number), &[7; 100_000]);
            assert!(cache.bytes <= MAX_CACHED_BYTES);
        }
        let kept: Vec<usize> = (0..200).filter(|number| body(&cache, &numbered(*number)).is_some()).collect();
        assert_eq!(kept, (200 - kept.len()..200).collect::<Vec<_>>());
        assert!(kept.len() > 30 && cache.keys.len() == kept.len());
        cache.insert(get("/long"), &vec![7; MAX_BODY_BYTES + 1]);
        assert_eq!(body(&cache, &get("/long")), None);
        assert!(key(Format::Json, "/", "", &"x".repeat(MAX_KEY_BYTES)).is_none());
    }
}
