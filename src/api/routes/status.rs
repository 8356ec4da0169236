//! Signs of life (specification 06 §7.1).

use crate::api::call::Call;
use crate::api::failure::Failure;
use crate::api::ledger::NodeStatus;
use crate::api::views::{RequestResult, ResultKind};

/// `GET /heartbeat`
pub fn heartbeat(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send(&RequestResult { kind: ResultKind::Heartbeat, code: 1, message: "ok" })
}

/// `GET /status`
pub fn status(call: &mut Call<'_>) -> Result<(), Failure> {
    let status = match call.ledger.is_loading() {
        true => NodeStatus::Loading,
        false => call.ledger.node_status(),
    };
    call.send(&RequestResult { kind: ResultKind::Status, code: status.code(), message: "status" })
}
