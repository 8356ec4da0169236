//! How an answer to an announced transaction compares with the recorded one.

use serde_json::Value;

/// Where the recording shows a failure of the reference software after all its rules had passed, a new
/// implementation accepts.
pub const FAILED_AFTERWARDS: &str = "invalid call to convertToFullyVested 2";
/// Result of what is accepted.
const SUCCESS: i64 = 1;

/// Whether a recorded text is in words of the reference software's platform instead of the protocol's.
pub fn is_foreign(text: &str) -> bool {
    ["java.", "org.nem.core.", "Cannot ", "-2"].iter().any(|start| text.starts_with(start))
}

/// Whether status and body of an answer over HTTP are as recorded, as far as they can be.
pub fn is_as_recorded(case: &Value, status: u64, body: &Value) -> bool {
    let accepted = status == 200 && body["code"] == SUCCESS;
    let recorded = &case["result"];
    let text = recorded["message"].as_str().unwrap_or_default();
    if case["hazard"] == true {
        return !accepted;
    }
    if text == FAILED_AFTERWARDS && case["httpStatus"] == 500 {
        return accepted;
    }
    case["httpStatus"] == status && (recorded == body || status != 200 && is_foreign(text))
}
