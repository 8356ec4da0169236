//! The document that describes this interface: `openapi.json`, which is written by hand and sent as it is.
//!
//! `tests/http/openapi.rs` holds it against the route table and against recorded answers.

use std::sync::LazyLock;

use crate::crypto::hash::keccak256;
use crate::net::http::StaticText;

/// Bytes of a hash that tell two versions of the document apart.
const VERSION_BYTES: usize = 12;

/// The document, in the form of OpenAPI 3.0.
pub static DOCUMENT: LazyLock<StaticText> = LazyLock::new(|| {
    const TEXT: &str = include_str!("openapi.json");
    let version = hex::encode(&keccak256(TEXT.as_bytes())[..VERSION_BYTES]);
    StaticText::new("application/json", TEXT, version)
});
