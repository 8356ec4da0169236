//! What became of a transaction, as a node tells it, and waiting for its end.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::node::{NodeClient, NodeError, printable};
use crate::clock::System;
use crate::model::{Hash256, Height, Timestamp};

/// Poll interval while waiting for the end of a transaction.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The status of a transaction. Names are those of the HTTP interface, numbers the exit codes of `nisd status-of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It is in the chain.
    Confirmed = 0,
    /// It is in the mempool.
    Unconfirmed = 3,
    /// It is invalid, or a block made it invalid.
    Rejected = 4,
    /// Its deadline passed.
    Expired = 5,
    /// The mempool was full.
    Evicted = 6,
    /// Its block was rolled back, and it is invalid in the chain that replaced it.
    Replaced = 7,
    /// Nothing is known of it.
    Unknown = 8,
}

/// What became of a transaction: the answer of `/transaction/status`, as far as the node tells it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct TransactionStatus {
    /// The status.
    #[serde(rename = "status")]
    pub fate: Fate,
    #[serde(flatten)]
    details: Value,
}

impl TransactionStatus {
    /// Returns the status of a transaction at a node that only tells the height of confirmed ones.
    pub(super) fn at_height(height: Option<Height>) -> TransactionStatus {
        match height {
            Some(height) => TransactionStatus { fate: Fate::Confirmed, details: json!({ "height": height.0 }) },
            None => TransactionStatus { fate: Fate::Unknown, details: json!({}) },
        }
    }

    /// Returns whether it will not be confirmed, as far as the node knows.
    pub fn is_failure(&self) -> bool {
        matches!(self.fate, Fate::Rejected | Fate::Expired | Fate::Evicted | Fate::Replaced)
    }

    /// Returns whether waiting for another status is of no use.
    pub fn is_final(&self) -> bool {
        self.is_failure() || self.fate == Fate::Confirmed
    }

    /// Returns a number of the answer; 0 if it is missing.
    pub fn number(&self, name: &str) -> u64 {
        self.details.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    fn time(&self, name: &str) -> String {
        let second = i32::try_from(self.number(name)).unwrap_or(i32::MAX);
        format!("{} UTC", Timestamp(second).date_and_time())
    }
}

/// Returns a text of an answer as it may be shown.
fn text(object: &Value, name: &str) -> String {
    object.get(name).and_then(Value::as_str).map(printable).unwrap_or_default()
}

/// Returns how many cosignatories a multisig transaction needs, and the addresses of those that have signed it and of those
/// that have not.
pub(super) fn signatures(multisig: &Value) -> (u64, [Vec<String>; 2]) {
    let signers = |name| multisig.get(name).and_then(Value::as_array).into_iter().flatten();
    let addresses = |name| signers(name).map(|signer| text(signer, "address")).collect();
    let required = multisig.get("required").and_then(Value::as_u64);
    (required.unwrap_or_default(), ["signed", "missing"].map(addresses))
}

impl fmt::Display for TransactionStatus {
    /// Writes lines for people, without the last line end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |name: &str| self.details.get(name).filter(|value| !value.is_null());
        match self.fate {
            Fate::Unconfirmed => {
                write!(f, "unconfirmed since {}, deadline {}", self.time("since"), self.time("deadline"))?;
                let Some(multisig) = known("multisig") else { return Ok(()) };
                let (required, [signed, missing]) = signatures(multisig);
                write!(f, "\nsigned by {} of {required} needed: {}", signed.len(), signed.join(" "))?;
                if missing.is_empty() { Ok(()) } else { write!(f, "\nnot signed by: {}", missing.join(" ")) }
            }
            Fate::Confirmed => {
                write!(f, "confirmed at height {}", self.number("height"))?;
                if known("blockHash").is_none() {
                    return Ok(());
                }
                let (index, hash) = (self.number("index"), text(&self.details, "blockHash"));
                write!(f, ", transaction {index} of block {hash}, confirmations: {}", self.number("confirmations"))
            }
            Fate::Rejected | Fate::Expired | Fate::Evicted | Fate::Replaced => {
                let word = format!("{:?}", self.fate).to_lowercase();
                let [reason, message] = ["reason", "message"].map(|name| text(&self.details, name));
                write!(f, "{word} since {}: {reason} ({message})", self.time("since"))?;
                let Some(conflict) = known("conflict") else { return Ok(()) };
                write!(f, "\nin conflict with {}, ", text(conflict, "hash"))?;
                match conflict.get("height").and_then(Value::as_u64) {
                    Some(height) => write!(f, "confirmed at height {height}"),
                    None => write!(f, "unconfirmed"),
                }
            }
            Fate::Unknown if known("knownSince").is_some() => {
                let since = self.time("knownSince");
                write!(f, "unknown: the node has not seen it since {since}, and it is not in the chain")
            }
            Fate::Unknown => {
                write!(f, "unknown: it is not in the chain, and the node tells nothing of other transactions")
            }
        }
    }
}

/// Polls until a transaction is confirmed or will not be, at most for this time; returns the last status. Calls `tell`
/// for each status that is another than before.
pub fn await_end(
    node: &NodeClient,
    hash: &Hash256,
    limit: Duration,
    system: System,
    mut tell: impl FnMut(&TransactionStatus),
) -> Result<TransactionStatus, NodeError> {
    let end = (system.millis)().saturating_add(limit.as_millis() as u64);
    let mut before = None;
    loop {
        let is_last = (system.millis)() >= end;
        match node.status(hash) {
            Ok(status) if is_last || status.is_final() => return Ok(status),
            Ok(status) => {
                if before.as_ref() != Some(&status) {
                    tell(&status);
                    before = Some(status);
                }
            }
            Err(error) if is_last || !error.is_temporary() => return Err(error),
            Err(_) => {}
        }
        (system.sleep)(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> (String, bool) {
        let status: TransactionStatus = serde_json::from_str(json).unwrap();
        (status.to_string(), status.is_final())
    }

    #[test]
    fn each_status_is_shown_in_words() {
        let since = "since 2015-03-29 01:00:25 UTC";
        let unconfirmed = format!("unconfirmed {since}, deadline 2015-03-29 02:00:25 UTC");
        let because = r#","since":3240,"code":5,"message":"FAILURE_X","reason":"too\tlittle"}"#;
        let multisig = r#"{"signed":[{"address":"TA"}],"missing":[{"address":"TB"},{"address":"TC"}],"required":2}"#;
        let cases = [
            (
                r#"{"hash":"ab","status":"unconfirmed","since":3240,"deadline":6840}"#.to_owned(),
                unconfirmed.clone(),
                false,
            ),
            (
                format!(r#"{{"status":"unconfirmed","since":3240,"deadline":6840,"multisig":{multisig}}}"#),
                format!("{unconfirmed}\nsigned by 1 of 2 needed: TA\nnot signed by: TB TC"),
                false,
            ),
            (
                r#"{"status":"confirmed","height":55,"index":0,"blockHash":"0f","confirmations":6}"#.to_owned(),
                "confirmed at height 55, transaction 0 of block 0f, confirmations: 6".to_owned(),
                true,
            ),
            (
                r#"{"status":"unknown","knownSince":3240}"#.to_owned(),
                format!("unknown: the node has not seen it {since}, and it is not in the chain"),
                false,
            ),
        ];
        let failures = ["rejected", "expired", "evicted", "replaced"].map(|word| {
            let text = format!("{word} {since}: too little (FAILURE_X)");
            (format!(r#"{{"status":"{word}"{because}"#), text, true)
        });
        let conflicts =
            [(r#"{"hash":"cd","height":56}"#, "confirmed at height 56"), (r#"{"hash":"cd"}"#, "unconfirmed")];
        let replaced = conflicts.map(|(conflict, words)| {
            let json = failures[3].0.replace('}', &format!(r#","conflict":{conflict}}}"#));
            (json, format!("{}\nin conflict with cd, {words}", failures[3].1), true)
        });
        for (json, text, is_final) in cases.into_iter().chain(failures).chain(replaced) {
            assert_eq!(shown(&json), (text, is_final), "{json}");
        }
        assert!(TransactionStatus::at_height(Some(Height(7))).to_string().ends_with("at height 7"));
    }
}
