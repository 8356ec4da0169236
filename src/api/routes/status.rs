//! Handlers of heartbeat, status, OpenAPI document and metrics.

use crate::api::budget::cost;
use crate::api::call::Call;
use crate::api::failure::Failure;
use crate::api::openapi;
use crate::api::views::{RequestResult, ResultKind};
use crate::figures;

/// `GET /heartbeat`
pub fn heartbeat(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send(&RequestResult { kind: ResultKind::Heartbeat, code: 1, message: "ok" })
}

/// `GET /status`
pub fn status(call: &mut Call<'_>) -> Result<(), Failure> {
    let code = call.view.status.code();
    call.send(&RequestResult { kind: ResultKind::Status, code, message: "status" })
}

/// `GET /openapi.json`, which NIS1 does not have.
pub fn openapi(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send_static(&openapi::DOCUMENT)
}

/// `GET /metrics`, which NIS1 does not have: all metrics in the format of Prometheus.
pub fn metrics(call: &mut Call<'_>) -> Result<(), Failure> {
    let text = call.actions.figures().to_text();
    call.budget.spend(cost::bytes(text.len()));
    call.writer.page(figures::CONTENT_TYPE, &text);
    Ok(())
}
