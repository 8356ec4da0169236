//! A node's answer to an announcement, in plain words.

use std::fmt;

use crate::model::Hash256;
use crate::rules::ValidationResult;

/// A node's answer to an announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnounceResult {
    /// Result code.
    pub code: i32,
    /// Name of the result, as the node returned it.
    pub name: String,
    /// Hash of the transaction.
    pub hash: Hash256,
    /// Hash of the inner transaction of a multisig transaction; cosignatories sign it.
    pub inner_hash: Option<Hash256>,
}

impl AnnounceResult {
    /// Returns whether the node accepted the transaction.
    pub fn is_success(&self) -> bool {
        self.code == ValidationResult::Success.code()
    }
}

impl fmt::Display for AnnounceResult {
    /// Writes one line for each field, for people and scripts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "result: {}\ncode: {}\nhash: {}", self.name, self.code, self.hash)?;
        self.inner_hash.map_or(Ok(()), |hash| write!(f, "\ninner hash: {hash}"))
    }
}

/// Explains a result and gives advice.
pub fn explain_result(code: i32) -> String {
    use ValidationResult::*;
    let Some(result) = ValidationResult::from_code(code) else {
        return "a result that is unknown to this program".to_owned();
    };
    let words = result.name().trim_start_matches("FAILURE_").replace('_', " ").to_lowercase();
    let advice = match result {
        Success => "the node has accepted the transaction and relays it; it is not confirmed yet",
        Neutral => "the node already knows this transaction; look it up instead of sending it again",
        FailurePastDeadline => "check the clock, or give a later --deadline",
        FailureFutureDeadline => "the deadline can be at most 24 hours after the time stamp",
        FailureInsufficientBalance => "the account does not have enough for the amount and the fee",
        FailureInsufficientFee => "omit --fee to pay the minimum fee",
        FailureMessageTooLarge => "shorten the message",
        FailureHashExists => "this transaction is already in the chain",
        FailureSignatureNotVerifiable => "sign it again, with another time stamp",
        FailureTimestampTooFarInPast | FailureTimestampTooFarInFuture => {
            "the clock of this machine or that of the node is wrong"
        }
        FailureEntityUnusableOutOfSync => "the node is still synchronising; try again later",
        FailureTransactionCacheTooFull => "the node is full and prefers higher fees and importances; try again later",
        FailureWrongNetwork => "the transaction was made for another network than the node's",
        FailureMultisigNotACosigner => "the signer is no cosignatory of that account",
        FailureMultisigNoMatchingMultisig => "the node does not know the transaction that this one cosigns",
        FailureTransactionNotAllowedForMultisig => {
            "this is a multisig account; one of its cosignatories must send, with --multisig-account"
        }
        FailureMosaicUnknown => "check the name of the mosaic",
        FailureMosaicNotTransferable => "only its creator may transfer this mosaic",
        _ => return words,
    };
    format!("{words}: {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_explained_in_plain_words() {
        let words = explain_result(ValidationResult::FailureInsufficientBalance.code());
        assert!(words.starts_with("insufficient balance: the account"), "{words}");
        assert_eq!(explain_result(128), "namespace provision too early");
        assert!(explain_result(-7).contains("unknown"));
        for result in ValidationResult::ALL {
            let words = explain_result(result.code());
            assert!(!words.contains("FAILURE") && !words.contains('_'), "{words}");
        }
    }

    #[test]
    fn an_announce_result_has_one_line_per_field() {
        let mut answer = AnnounceResult {
            code: 1,
            name: "SUCCESS".to_owned(),
            hash: Hash256([1; 32]),
            inner_hash: Some(Hash256([2; 32])),
        };
        let expected = format!("result: SUCCESS\ncode: 1\nhash: {}\ninner hash: {}", "01".repeat(32), "02".repeat(32));
        assert_eq!(answer.to_string(), expected);
        answer.inner_hash = None;
        assert_eq!(answer.to_string().lines().count(), 3);
    }
}
