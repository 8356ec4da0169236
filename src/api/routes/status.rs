//! Signs of life, and what there is to be asked.

use crate::api::call::Call;
use crate::api::description;
use crate::api::failure::Failure;
use crate::api::views::{RequestResult, ResultKind};

/// `GET /heartbeat`
pub fn heartbeat(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send(&RequestResult { kind: ResultKind::Heartbeat, code: 1, message: "ok" })
}

/// `GET /status`
pub fn status(call: &mut Call<'_>) -> Result<(), Failure> {
    let code = call.view.status.code();
    call.send(&RequestResult { kind: ResultKind::Status, code, message: "status" })
}

/// `GET /openapi.json`
pub fn description(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send_json(description::of_all_routes())
}
