//! Responses that depend on nothing but the chain and the request, kept until the chain changes.
//!
//! Wallets and explorers repeat the same requests until the next block. The first response is kept with its compressed
//! form, once a client has asked for that; the following ones cost a lookup. When the cache is full, the oldest responses
//! are dropped.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::Format;
use crate::net::http::SharedBody;

/// Maximum memory of all responses in bytes.
pub const MAX_CACHED_BYTES: usize = 8 << 20;
/// Maximum size of a cached body in bytes. Longer ones are rare, and would displace many others.
const MAX_BODY_BYTES: usize = 128 << 10;
/// Maximum length of a request target whose response is cached.
const MAX_TARGET_BYTES: usize = 512;
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

/// Identifies a response: format, path and query, as sent.
pub struct CacheKey(Vec<u8>);

impl CacheKey {
    /// Creates the key of a GET request; `None` if its target is too long to be kept.
    pub fn new(format: Format, path: &str, query: Option<&str>) -> Option<CacheKey> {
        let length = path.len() + query.map_or(0, str::len);
        let mut key = Vec::with_capacity(length + 2);
        key.push(format as u8);
        key.extend_from_slice(path.as_bytes());
        key.extend(query.map(|_| b'?'));
        key.extend_from_slice(query.unwrap_or_default().as_bytes());
        (length <= MAX_TARGET_BYTES).then_some(CacheKey(key))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str) -> CacheKey {
        CacheKey::new(Format::Json, path, None).unwrap()
    }

    fn body(cache: &ResponseCache, path: &str) -> Option<Vec<u8>> {
        cache.get(&key(path)).map(|body| body.plain().to_vec())
    }

    #[test]
    fn a_response_is_found_by_its_format_path_and_query_until_the_cache_is_cleared() {
        let mut cache = ResponseCache::default();
        let key = |format, query| CacheKey::new(format, "/a", query).unwrap();
        cache.insert(key(Format::Json, Some("b=1")), b"one");
        let found =
            |cache: &ResponseCache, format, query| cache.get(&key(format, query)).map(|body| body.plain().to_vec());
        assert_eq!(found(&cache, Format::Json, Some("b=1")), Some(b"one".to_vec()));
        assert_eq!(found(&cache, Format::Binary, Some("b=1")), None);
        assert_eq!(found(&cache, Format::Json, Some("b=2")), None);
        assert_eq!(found(&cache, Format::Json, None), None);
        cache.insert(key(Format::Json, Some("b=1")), b"other");
        assert_eq!(found(&cache, Format::Json, Some("b=1")), Some(b"other".to_vec()));
        assert_eq!(cache.bytes(), entry_bytes(b"./a?b=1", 5));
        cache.clear();
        assert_eq!((found(&cache, Format::Json, Some("b=1")), cache.bytes()), (None, 0));
    }

    #[test]
    fn a_full_cache_drops_its_oldest_responses_and_takes_no_long_ones() {
        let mut cache = ResponseCache::default();
        for number in 0..200 {
            cache.insert(key(&format!("/{number}")), &[7; 100_000]);
            assert!(cache.bytes() <= MAX_CACHED_BYTES);
        }
        let kept = (0..200).filter(|number| body(&cache, &format!("/{number}")).is_some()).collect::<Vec<_>>();
        assert_eq!(kept, (200 - kept.len()..200).collect::<Vec<_>>());
        assert!(kept.len() > 30 && cache.keys.len() == kept.len());
        cache.insert(key("/long"), &vec![7; MAX_BODY_BYTES + 1]);
        assert_eq!(body(&cache, "/long"), None);
        assert!(CacheKey::new(Format::Json, &"/".repeat(MAX_TARGET_BYTES + 1), None).is_none());
    }
}
