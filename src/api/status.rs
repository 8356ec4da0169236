//! Handlers of heartbeat, status, OpenAPI document and metrics.

use crate::api::budget::cost;
use crate::api::error::ApiError;
use crate::api::openapi;
use crate::api::request_context::RequestContext;
use crate::api::views::{RequestResult, ResultKind};
use crate::metrics;

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
    context.send_static(&openapi::DOCUMENT)
}

/// `GET /metrics`, which NIS1 does not have: all metrics in the format of Prometheus.
pub fn metrics(context: &mut RequestContext<'_>) -> Result<(), ApiError> {
    let text = context.node.metrics().to_text();
    context.budget.charge(cost::bytes(text.len()));
    context.writer.typed_text(metrics::CONTENT_TYPE, &text);
    Ok(())
}
