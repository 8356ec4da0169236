//! What became of a transaction, as a node tells it, and waiting for its end.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::node::{NodeClient, NodeError, printable};
use crate::clock::System;
use crate::model::{Hash256, Height, Timestamp};

/// Poll interval while waiting for the end of a transaction.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// What became of a transaction. The names are those of the HTTP interface.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(tag = "status", rename_all = "lowercase", rename_all_fields = "camelCase")]
pub enum TransactionStatus {
    /// It is in the mempool.
    Unconfirmed {
        since: i32,
        deadline: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        multisig: Option<Signatures>,
    },
    /// It is in the chain. NIS1 does not tell more than the height.
    Confirmed {
        height: u64,
        #[serde(flatten)]
        block: Option<InBlock>,
    },
    /// It is invalid, or a block made it invalid.
    Rejected(Reason),
    /// Its deadline passed.
    Expired(Reason),
    /// The mempool was full.
    Displaced(Reason),
    /// Its block was rolled back, and it is invalid in the chain that replaced it.
    Replaced(Reason),
    /// Nothing is known of it. NIS1 does not tell since when it would be.
    Unknown {
        #[serde(skip_serializing_if = "Option::is_none")]
        known_since: Option<i32>,
    },
}

/// More about a confirmed transaction.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InBlock {
    index: u32,
    block_hash: String,
    confirmations: u64,
}

/// Signatures of a multisig transaction.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Signatures {
    signed: Vec<Signer>,
    missing: Vec<Signer>,
    required: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Signer {
    address: String,
}

/// Why a transaction is neither confirmed nor in the mempool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Reason {
    since: i32,
    code: i32,
    message: String,
    reason: String,
    /// Of a replaced one, the transaction with which it conflicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    conflict: Option<Conflict>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
struct Conflict {
    hash: String,
    /// Height of its block; none if it is unconfirmed.
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u64>,
}

impl TransactionStatus {
    /// Returns whether it will not be confirmed, as far as the node knows.
    pub fn is_failure(&self) -> bool {
        use TransactionStatus::*;
        matches!(self, Rejected(_) | Expired(_) | Displaced(_) | Replaced(_))
    }

    /// Returns whether waiting for another status is of no use.
    pub fn is_final(&self) -> bool {
        self.is_failure() || matches!(self, TransactionStatus::Confirmed { .. })
    }

    /// The status of a transaction in the chain of a node that does not tell more than the height.
    pub(super) fn at_height(height: Height) -> TransactionStatus {
        TransactionStatus::Confirmed { height: height.0, block: None }
    }
}

impl fmt::Display for TransactionStatus {
    /// Writes lines for people, without the last line end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = |f: &mut fmt::Formatter<'_>, word, Reason { since, message, reason, conflict, .. }: &Reason| {
            write!(f, "{word} since {}: {} ({})", utc(*since), printable(reason), printable(message))?;
            let Some(Conflict { hash, height }) = conflict else { return Ok(()) };
            write!(f, "\nin conflict with {}, ", printable(hash))?;
            match height {
                Some(height) => write!(f, "confirmed at height {height}"),
                None => write!(f, "unconfirmed"),
            }
        };
        match self {
            TransactionStatus::Unconfirmed { since, deadline, multisig } => {
                write!(f, "unconfirmed since {}, deadline {}", utc(*since), utc(*deadline))?;
                let Some(Signatures { signed, missing, required }) = multisig else { return Ok(()) };
                write!(f, "\nsigned by {} of {required} needed: {}", signed.len(), list(signed))?;
                if missing.is_empty() { Ok(()) } else { write!(f, "\nnot signed by: {}", list(missing)) }
            }
            TransactionStatus::Confirmed { height, block } => {
                write!(f, "confirmed at height {height}")?;
                let Some(InBlock { index, block_hash, confirmations }) = block else { return Ok(()) };
                let hash = printable(block_hash);
                write!(f, ", transaction {index} of block {hash}, confirmations: {confirmations}")
            }
            TransactionStatus::Rejected(reason) => failed(f, "rejected", reason),
            TransactionStatus::Expired(reason) => failed(f, "expired", reason),
            TransactionStatus::Displaced(reason) => failed(f, "displaced", reason),
            TransactionStatus::Replaced(reason) => failed(f, "replaced", reason),
            TransactionStatus::Unknown { known_since: Some(since) } => {
                write!(f, "unknown: the node has not seen it since {}, and it is not in the chain", utc(*since))
            }
            TransactionStatus::Unknown { known_since: None } => {
                write!(f, "unknown: it is not in the chain, and the node tells nothing of other transactions")
            }
        }
    }
}

fn utc(second: i32) -> String {
    format!("{} UTC", Timestamp(second).date_and_time())
}

fn list(signers: &[Signer]) -> String {
    signers.iter().map(|signer| printable(&signer.address)).collect::<Vec<_>>().join(" ")
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
        let failures = ["rejected", "expired", "displaced", "replaced"].map(|word| {
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
        assert!(TransactionStatus::at_height(Height(7)).to_string().ends_with("at height 7"));
    }
}
