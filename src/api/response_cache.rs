//! Responses that depend on the chain and on what their key holds, kept until the chain changes.
//!
//! Wallets and explorers repeat the same requests until the next block. The first response is kept with its compressed
//! form, once a client has asked for that; the following ones cost a lookup. When the cache is full, the oldest responses
//! are dropped. Long lists are written once and kept in [`KeptLists`].

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::{Rc, Weak};

use super::accounts::CHANGED;
use super::streams::{BodyWriter, ResponseStream};
use super::{ApiError, Format, NodeContext};
use crate::budget::cost;
use crate::net::http::{Request, SharedBody};
use crate::net::service::Progress;

/// Maximum memory of all responses in bytes.
pub const MAX_CACHED_BYTES: usize = 8 << 20;
/// Maximum size of a cached body in bytes. Longer ones are rare, and would displace many others.
const MAX_BODY_BYTES: usize = 128 << 10;
/// Maximum length of the parts of a request that identify its response, if that is cached.
const MAX_KEY_BYTES: usize = 512;
/// Memory in bytes that an entry takes besides its key and its body.
const ENTRY_BYTES: usize = 200;

/// The cached responses.
#[derive(Default)]
pub struct ResponseCache {
    bodies: HashMap<Rc<[u8]>, Rc<SharedBody>>,
    /// Keys in the order of insertion.
    keys: VecDeque<Rc<[u8]>>,
    bytes: usize,
}

/// Identifies a response: its format, its route, the version of what it depends on besides the chain, and query, content
/// type and body of the request, as sent.
pub struct CacheKey(Vec<u8>);

impl CacheKey {
    /// Creates the key of a request; `None` if it is too long to be kept.
    pub fn new(format: Format, version: u64, request: &Request<'_>) -> Option<CacheKey> {
        let content_type = request.header("Content-Type").filter(|_| !request.body.is_empty());
        // Neither of these two contains a line feed.
        let texts = [request.query.unwrap_or_default(), content_type.unwrap_or_default()];
        let parts = texts.map(str::as_bytes).into_iter().chain([request.body]);
        let length: usize = parts.clone().map(|part| part.len() + 1).sum();
        if length > MAX_KEY_BYTES {
            return None;
        }
        let mut key = Vec::with_capacity(1 + 8 + 8 + length);
        key.push(format as u8);
        key.extend_from_slice(&(request.route as u64).to_le_bytes());
        key.extend_from_slice(&version.to_le_bytes());
        for part in parts {
            key.extend_from_slice(part);
            key.push(b'\n');
        }
        Some(CacheKey(key))
    }
}

impl ResponseCache {
    /// Returns the bytes of all entries.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the body of a cached response.
    pub fn get(&self, key: &CacheKey) -> Option<Rc<SharedBody>> {
        self.bodies.get(key.0.as_slice()).cloned()
    }

    /// Keeps a copy of a body, unless it is too long.
    pub fn insert(&mut self, key: CacheKey, body: &[u8]) {
        if body.len() > MAX_BODY_BYTES {
            return;
        }
        let key: Rc<[u8]> = key.0.into();
        self.bytes += entry_bytes(&key, body.len());
        self.keys.push_back(key.clone());
        if let Some(replaced) = self.bodies.insert(key.clone(), Rc::new(SharedBody::new(body.to_vec()))) {
            // Its key is in the queue already.
            self.keys.pop_back();
            self.bytes -= entry_bytes(&key, replaced.plain().len());
        }
        while self.bytes > MAX_CACHED_BYTES {
            let Some(oldest) = self.keys.pop_front() else { break };
            if let Some(body) = self.bodies.remove(&oldest) {
                self.bytes -= entry_bytes(&oldest, body.plain().len());
            }
        }
    }

    /// Drops all responses: the chain or the settings have changed.
    pub fn clear(&mut self) {
        *self = ResponseCache::default();
    }
}

/// Returns the memory of an entry, its compressed form included, which is shorter than the body.
fn entry_bytes(key: &[u8], body: usize) -> usize {
    key.len() + 2 * body + ENTRY_BYTES
}

/// Maximum memory in bytes of kept lists, of all formats and versions together.
pub const MAX_LIST_BYTES: usize = 16 << 20;
/// Maximum number of elements of a kept list: about half of that memory.
pub const MAX_LIST_ELEMENTS: usize = 48 << 10;
/// Bytes of a kept list that are copied at a time.
const LIST_STEP_BYTES: usize = 8 << 10;

/// A list that is the same for all clients until the chain changes. It is written once, by the requests for it in turns.
struct KeptList {
    format: Format,
    bytes: Vec<u8>,
    /// What writes the rest.
    rest: Option<Box<dyn ResponseStream>>,
    /// It cannot be written to its end, because the chain has changed.
    has_failed: bool,
}

/// Kept lists, the oldest first. Requests for an older version go on while there is memory for it.
#[derive(Default)]
pub struct KeptLists {
    lists: VecDeque<Rc<RefCell<KeptList>>>,
    /// Number of lists, at the end, that agree with the chain.
    current: usize,
}

impl KeptLists {
    /// Returns a response with the list of a format, which `start` begins to write if there is none.
    pub fn stream(&mut self, format: Format, start: impl FnOnce() -> Box<dyn ResponseStream>) -> KeptListStream {
        let current = self.lists.iter().rev().take(self.current);
        let mut usable = current.filter(|list| list.borrow().format == format && !list.borrow().has_failed);
        if let Some(list) = usable.next() {
            return KeptListStream { list: Rc::downgrade(list), at: 0 };
        }
        while self.bytes() > MAX_LIST_BYTES / 2 {
            self.lists.pop_front();
        }
        let list = KeptList { format, bytes: Vec::new(), rest: Some(start()), has_failed: false };
        let list = Rc::new(RefCell::new(list));
        let stream = KeptListStream { list: Rc::downgrade(&list), at: 0 };
        self.lists.push_back(list);
        self.current = (self.current + 1).min(self.lists.len());
        stream
    }

    /// Returns the bytes of all lists.
    pub fn bytes(&self) -> usize {
        self.lists.iter().map(|list| list.borrow().bytes.capacity()).sum()
    }

    /// Begins new versions: the chain has changed.
    pub fn chain_changed(&mut self) {
        self.current = 0;
    }
}

/// A response with a kept list.
pub struct KeptListStream {
    list: Weak<RefCell<KeptList>>,
    at: usize,
}

impl ResponseStream for KeptListStream {
    fn write_chunk(&mut self, node: &mut NodeContext<'_>, writer: &mut BodyWriter<'_>) -> Result<Progress, ApiError> {
        let list = self.list.upgrade().ok_or(CHANGED)?;
        let KeptList { format, bytes, rest, has_failed } = &mut *list.borrow_mut();
        if *has_failed {
            return Err(CHANGED);
        }
        loop {
            if let Some(unwritten) = rest
                && bytes.len() < self.at + LIST_STEP_BYTES
            {
                let mut list_writer = BodyWriter { format: *format, body: bytes, json: &mut *writer.json };
                let progress = unwritten.write_chunk(node, &mut list_writer);
                *has_failed = progress.is_err();
                if progress? == Progress::Done {
                    *rest = None;
                }
            }
            let end = bytes.len().min(self.at + LIST_STEP_BYTES);
            let next = bytes.get(self.at..end).unwrap_or_default();
            writer.body.extend_from_slice(next);
            node.budget.charge(cost::bytes(next.len()));
            self.at = end;
            if rest.is_none() && end == bytes.len() {
                return Ok(Progress::Done);
            }
            if node.budget.is_exhausted() {
                return Ok(Progress::Yield);
            }
        }
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>()
    }

    fn is_streamable(&self, _: Format) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
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
        let before = cache.bytes();
        cache.insert(get("/a?b=1"), b"longer");
        assert_eq!((body(&cache, &get("/a?b=1")), cache.bytes()), (Some(b"longer".to_vec()), before + 10));
        cache.clear();
        assert_eq!((body(&cache, &get("/a?b=1")), cache.bytes()), (None, 0));
    }

    #[test]
    fn a_full_cache_drops_its_oldest_responses_and_takes_no_long_ones() {
        let mut cache = ResponseCache::default();
        let numbered = |number: usize| get(&format!("/?{number}"));
        for number in 0..200 {
            cache.insert(numbered(number), &[7; 100_000]);
            assert!(cache.bytes() <= MAX_CACHED_BYTES);
        }
        let kept: Vec<usize> = (0..200).filter(|number| body(&cache, &numbered(*number)).is_some()).collect();
        assert_eq!(kept, (200 - kept.len()..200).collect::<Vec<_>>());
        assert!(kept.len() > 30 && cache.keys.len() == kept.len());
        cache.insert(get("/long"), &vec![7; MAX_BODY_BYTES + 1]);
        assert_eq!(body(&cache, &get("/long")), None);
        assert!(key(Format::Json, "/", "", &"x".repeat(MAX_KEY_BYTES)).is_none());
    }
}
