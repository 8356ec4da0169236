//! Compares the response to an announced transaction with the recorded one.

use serde_json::Value;

/// Recorded failure of NIS1 after all its rules had passed; a new implementation accepts in this case.
pub const FAILED_AFTERWARDS: &str = "invalid call to convertToFullyVested 2";
/// Result code of acceptance.
const SUCCESS: i64 = 1;

/// Returns whether a recorded text comes from the platform of NIS1 instead of the protocol.
pub fn is_platform_text(text: &str) -> bool {
    ["java.", "org.nem.core.", "Cannot ", "-2"].iter().any(|start| text.starts_with(start))
}

/// Returns whether the status and body of an HTTP response match the recording as far as they can.
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
    case["httpStatus"] == status && (recorded == body || status != 200 && is_platform_text(text))
}
