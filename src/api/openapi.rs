//! The OpenAPI document: `openapi.json`, written by hand and sent unchanged.
//!
//! `tests/http/openapi.rs` checks it against the route table and recorded responses.

use std::sync::LazyLock;

use crate::crypto::hash::keccak256;
use crate::net::http::StaticText;

/// Bytes of the hash that identifies a version of the document.
const VERSION_BYTES: usize = 12;

/// The OpenAPI 3.0 document.
pub static DOCUMENT: LazyLock<StaticText> = LazyLock::new(|| {
    const TEXT: &str = include_str!("openapi.json");
    let version = hex::encode(&keccak256(TEXT.as_bytes())[..VERSION_BYTES]);
    StaticText::new("application/json", TEXT, version)
});
