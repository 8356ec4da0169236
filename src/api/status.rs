//! Handlers of heartbeat, status, OpenAPI document and metrics.

use std::sync::LazyLock;

use crate::api::budget::cost;
use crate::api::error::ApiError;
use crate::api::request_context::RequestContext;
use crate::api::views::{RequestResult, ResultKind};
use crate::crypto::hash::keccak256;
use crate::metrics;
use crate::net::http::StaticText;

/// `GET /heartbeat`
pub fn heartbeat(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.send(&RequestResult { kind: ResultKind::Heartbeat, code: 1, message: "ok" })
}

/// `GET /status`
pub fn status(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let code = context.chain.status.code();
    context.send(&RequestResult { kind: ResultKind::Status, code, message: "status" })
}

/// `GET /openapi.json`, which NIS1 does not have.
pub fn openapi(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    context.send_static(&DOCUMENT)
}

/// `GET /metrics`, which NIS1 does not have: all metrics in the format of Prometheus.
pub fn metrics(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let text = context.node.metrics().to_text();
    context.budget.charge(cost::bytes(text.len()));
    context.writer.typed_text(metrics::CONTENT_TYPE, &text);
    Ok(())
}

/// Bytes of the hash that identifies a version of the document.
const VERSION_BYTES: usize = 12;

/// The OpenAPI 3.0 document.
pub static DOCUMENT: LazyLock<StaticText> = LazyLock::new(|| {
    const TEXT: &str = include_str!("openapi.json");
    let version = hex::encode(&keccak256(TEXT.as_bytes())[..VERSION_BYTES]);
    StaticText::new("application/json", TEXT, version)
});
