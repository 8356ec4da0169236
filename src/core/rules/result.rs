//! Results of a validation: NIS1's result codes, and rejections.

use crate::state::{Exception, StateError};
use crate::store::StoreError;

macro_rules! results {
    ($($variant:ident = $code:literal, $name:literal;)*) => {
        /// Result code of a validation, with NIS1's numbers and names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
        #[error("{}", self.name())]
        #[repr(i32)]
        pub enum ValidationResult {
            $(#[doc = concat!("`", $name, "`")] $variant = $code,)*
        }

        impl ValidationResult {
            /// All codes in ascending order of their numbers.
            pub const ALL: &[ValidationResult] = &[$(ValidationResult::$variant,)*];

            /// Returns the name as sent over HTTP.
            pub fn name(self) -> &'static str {
                match self {
                    $(ValidationResult::$variant => $name,)*
                }
            }
        }
    };
}

results! {
    Neutral = 0, "NEUTRAL";
    Success = 1, "SUCCESS";
    FailureUnknown = 2, "FAILURE_UNKNOWN";
    FailurePastDeadline = 3, "FAILURE_PAST_DEADLINE";
    FailureFutureDeadline = 4, "FAILURE_FUTURE_DEADLINE";
    FailureInsufficientBalance = 5, "FAILURE_INSUFFICIENT_BALANCE";
    FailureMessageTooLarge = 6, "FAILURE_MESSAGE_TOO_LARGE";
    FailureHashExists = 7, "FAILURE_HASH_EXISTS";
    FailureSignatureNotVerifiable = 8, "FAILURE_SIGNATURE_NOT_VERIFIABLE";
    FailureTimestampTooFarInPast = 9, "FAILURE_TIMESTAMP_TOO_FAR_IN_PAST";
    FailureTimestampTooFarInFuture = 10, "FAILURE_TIMESTAMP_TOO_FAR_IN_FUTURE";
    FailureIneligibleBlockSigner = 11, "FAILURE_INELIGIBLE_BLOCK_SIGNER";
    FailureEntityUnusableOutOfSync = 12, "FAILURE_ENTITY_UNUSABLE_OUT_OF_SYNC";
    FailureChainScoreInferior = 13, "FAILURE_CHAIN_SCORE_INFERIOR";
    FailureChainInvalid = 14, "FAILURE_CHAIN_INVALID";
    FailureTooManyTransactions = 15, "FAILURE_TOO_MANY_TRANSACTIONS";
    FailureSelfSignedTransaction = 16, "FAILURE_SELF_SIGNED_TRANSACTION";
    FailureInsufficientFee = 17, "FAILURE_INSUFFICIENT_FEE";
    FailureNemesisAccountTransactionAfterNemesisBlock = 18, "FAILURE_NEMESIS_ACCOUNT_TRANSACTION_AFTER_NEMESIS_BLOCK";
    FailureTransactionCacheTooFull = 19, "FAILURE_TRANSACTION_CACHE_TOO_FULL";
    FailureWrongNetwork = 20, "FAILURE_WRONG_NETWORK";
    FailureCannotHarvestFromBlockedAccount = 21, "FAILURE_CANNOT_HARVEST_FROM_BLOCKED_ACCOUNT";
    FailureEntityInvalidVersion = 22, "FAILURE_ENTITY_INVALID_VERSION";
    FailureMultisigV2AggregateModificationBeforeFork = 41, "FAILURE_MULTISIG_V2_AGGREGATE_MODIFICATION_BEFORE_FORK";
    FailureTransactionBeforeSecondFork = 42, "FAILURE_TRANSACTION_BEFORE_SECOND_FORK";
    FailureDestinationAccountInUse = 62, "FAILURE_DESTINATION_ACCOUNT_IN_USE";
    FailureImportanceTransferInProgress = 63, "FAILURE_IMPORTANCE_TRANSFER_IN_PROGRESS";
    FailureImportanceTransferNeedsToBeDeactivated = 64, "FAILURE_IMPORTANCE_TRANSFER_NEEDS_TO_BE_DEACTIVATED";
    FailureImportanceTransferIsNotActive = 65, "FAILURE_IMPORTANCE_TRANSFER_IS_NOT_ACTIVE";
    FailureTransactionNotAllowedForRemote = 66, "FAILURE_TRANSACTION_NOT_ALLOWED_FOR_REMOTE";
    FailureMultisigNotACosigner = 71, "FAILURE_MULTISIG_NOT_A_COSIGNER";
    FailureMultisigInvalidCosigners = 72, "FAILURE_MULTISIG_INVALID_COSIGNERS";
    FailureMultisigNoMatchingMultisig = 73, "FAILURE_MULTISIG_NO_MATCHING_MULTISIG";
    FailureTransactionNotAllowedForMultisig = 74, "FAILURE_TRANSACTION_NOT_ALLOWED_FOR_MULTISIG";
    FailureMultisigAlreadyACosigner = 75, "FAILURE_MULTISIG_ALREADY_A_COSIGNER";
    FailureMultisigMismatchedSignature = 76, "FAILURE_MULTISIG_MISMATCHED_SIGNATURE";
    FailureMultisigModificationMultipleDeletes = 77, "FAILURE_MULTISIG_MODIFICATION_MULTIPLE_DELETES";
    FailureMultisigModificationRedundantModifications = 78, "FAILURE_MULTISIG_MODIFICATION_REDUNDANT_MODIFICATIONS";
    FailureConflictingMultisigModification = 79, "FAILURE_CONFLICTING_MULTISIG_MODIFICATION";
    FailureTooManyMultisigCosigners = 80, "FAILURE_TOO_MANY_MULTISIG_COSIGNERS";
    FailureMultisigAccountCannotBeCosigner = 81, "FAILURE_MULTISIG_ACCOUNT_CANNOT_BE_COSIGNER";
    FailureMultisigMinCosignatoriesOutOfRange = 82, "FAILURE_MULTISIG_MIN_COSIGNATORIES_OUT_OF_RANGE";
    FailureMaxChainSizeExceeded = 101, "FAILURE_MAX_CHAIN_SIZE_EXCEEDED";
    FailureBlockUnexpectedHeight = 102, "FAILURE_BLOCK_UNEXPECTED_HEIGHT";
    FailureBlockUnverifiable = 103, "FAILURE_BLOCK_UNVERIFIABLE";
    FailureBlockNotHit = 104, "FAILURE_BLOCK_NOT_HIT";
    FailureTransactionUnverifiable = 105, "FAILURE_TRANSACTION_UNVERIFIABLE";
    FailureTransactionDuplicateInChain = 106, "FAILURE_TRANSACTION_DUPLICATE_IN_CHAIN";
    FailureNamespaceUnknown = 121, "FAILURE_NAMESPACE_UNKNOWN";
    FailureNamespaceAlreadyExists = 122, "FAILURE_NAMESPACE_ALREADY_EXISTS";
    FailureNamespaceExpired = 123, "FAILURE_NAMESPACE_EXPIRED";
    FailureNamespaceOwnerConflict = 124, "FAILURE_NAMESPACE_OWNER_CONFLICT";
    FailureNamespaceInvalidName = 125, "FAILURE_NAMESPACE_INVALID_NAME";
    FailureNamespaceInvalidRentalFeeSink = 126, "FAILURE_NAMESPACE_INVALID_RENTAL_FEE_SINK";
    FailureNamespaceInvalidRentalFee = 127, "FAILURE_NAMESPACE_INVALID_RENTAL_FEE";
    FailureNamespaceProvisionTooEarly = 128, "FAILURE_NAMESPACE_PROVISION_TOO_EARLY";
    FailureNamespaceNotClaimable = 129, "FAILURE_NAMESPACE_NOT_CLAIMABLE";
    FailureMosaicUnknown = 141, "FAILURE_MOSAIC_UNKNOWN";
    FailureMosaicModificationNotAllowed = 142, "FAILURE_MOSAIC_MODIFICATION_NOT_ALLOWED";
    FailureMosaicCreatorConflict = 143, "FAILURE_MOSAIC_CREATOR_CONFLICT";
    FailureMosaicSupplyImmutable = 144, "FAILURE_MOSAIC_SUPPLY_IMMUTABLE";
    FailureMosaicMaxSupplyExceeded = 145, "FAILURE_MOSAIC_MAX_SUPPLY_EXCEEDED";
    FailureMosaicSupplyNegative = 146, "FAILURE_MOSAIC_SUPPLY_NEGATIVE";
    FailureMosaicNotTransferable = 147, "FAILURE_MOSAIC_NOT_TRANSFERABLE";
    FailureMosaicDivisibilityViolated = 148, "FAILURE_MOSAIC_DIVISIBILITY_VIOLATED";
    FailureConflictingMosaicCreation = 149, "FAILURE_CONFLICTING_MOSAIC_CREATION";
    FailureMosaicInvalidCreationFeeSink = 150, "FAILURE_MOSAIC_INVALID_CREATION_FEE_SINK";
    FailureMosaicInvalidCreationFee = 151, "FAILURE_MOSAIC_INVALID_CREATION_FEE";
    FailureTooManyMosaicTransfers = 152, "FAILURE_TOO_MANY_MOSAIC_TRANSFERS";
    FailureMosaicLevyNotTransferable = 153, "FAILURE_MOSAIC_LEVY_NOT_TRANSFERABLE";
    FailureMosaicLevyUnknown = 154, "FAILURE_MOSAIC_LEVY_UNKNOWN";
}

impl ValidationResult {
    /// Returns the number.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// Returns the result with a number.
    pub fn from_code(code: i32) -> Option<ValidationResult> {
        Self::ALL.get(Self::ALL.binary_search_by_key(&code, |result| result.code()).ok()?).copied()
    }

    /// Explains the result in plain words.
    pub fn explanation(self) -> String {
        use ValidationResult::*;
        let words = self.name().trim_start_matches("FAILURE_").replace('_', " ").to_lowercase();
        let advice = match self {
            Success => "the node has accepted the transaction and relays it; it is not confirmed yet",
            Neutral => {
                "the node already knows this transaction, or its inner transaction in another one; look it up instead of \
                 sending it again"
            }
            FailurePastDeadline => "check the clock, or give a later deadline",
            FailureFutureDeadline => "the deadline can be at most 24 hours after the time stamp",
            FailureInsufficientBalance => "the account does not have enough for the amount and the fee",
            FailureInsufficientFee => "the fee is below the minimum",
            FailureMessageTooLarge => "shorten the message",
            FailureHashExists => "this transaction is already in the chain",
            FailureSignatureNotVerifiable => "sign it again, with another time stamp",
            FailureTimestampTooFarInPast | FailureTimestampTooFarInFuture => {
                "the clock of this machine or that of the node is wrong"
            }
            FailureEntityUnusableOutOfSync => "the node is still synchronising; try again later",
            FailureTransactionCacheTooFull => {
                "the fuller the node is, the fewer transactions each account may have in it, more with a higher fee or importance; \
                 try again later"
            }
            FailureWrongNetwork => "the transaction was made for another network than the node's",
            FailureMultisigNotACosigner => "the signer is no cosignatory of that account",
            FailureMultisigNoMatchingMultisig => {
                "the node knows no transaction that waits for a signature of this account, which may have signed already"
            }
            FailureTransactionNotAllowedForMultisig => {
                "this is a multisig account; one of its cosignatories must send for it"
            }
            FailureMosaicUnknown => "check the name of the mosaic",
            FailureMosaicNotTransferable => "only its creator may transfer this mosaic",
            _ => return words,
        };
        format!("{words}: {advice}")
    }

    /// Returns whether the entity is valid.
    pub fn is_success(self) -> bool {
        self == ValidationResult::Success
    }
}

/// Why a transaction, a block or a branch is rejected.
#[derive(Debug, thiserror::Error)]
pub enum Rejection {
    /// A rule failed, or the entity is not needed. Never [`ValidationResult::Success`].
    #[error("{0}")]
    Result(#[from] ValidationResult),
    /// The input is impossible.
    #[error("{0}")]
    Exception(#[from] Exception),
    /// The blocks would replace more of ours than the rewrite limit allows.
    #[error("more blocks would be replaced than the rewrite limit allows")]
    TooDeep,
    /// The blocks of an answer cannot be decoded, or the first one is of the future.
    #[error("no block of the answer can be used")]
    Unusable,
    /// The store failed; the entity may be valid.
    #[error("{0}")]
    Store(#[from] StoreError),
}

impl Rejection {
    /// Creates the rejection of something impossible for a reason that NIS1 has no result for.
    pub fn impossible(why: impl ToString) -> Rejection {
        Exception::Other(why.to_string()).into()
    }

    /// Returns whether it counts against the peer that sent the entity. It does not if the entity is known already or
    /// too early, if NIS1 accepts it, if there is no space, if our chain has changed meanwhile, or if this node could not
    /// validate it.
    pub fn blames_sender(&self) -> bool {
        use ValidationResult::*;
        match self {
            // Our clock may be slow.
            Rejection::Result(FailureTimestampTooFarInFuture) => false,
            Rejection::Result(Neutral | FailureEntityUnusableOutOfSync | FailureTransactionCacheTooFull) => false,
            // A transaction; the sender of a block gets another result.
            Rejection::Result(FailureTooManyTransactions) => false,
            Rejection::Result(_) | Rejection::Exception(_) => true,
            // An answer may have been cut short.
            Rejection::TooDeep | Rejection::Unusable | Rejection::Store(_) => false,
        }
    }
}

impl From<StateError> for Rejection {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Store(error) => error.into(),
            StateError::Exception(exception) => exception.into(),
        }
    }
}

/// Result of a rule, or of something that rules may reject.
pub type RuleResult<T = ()> = Result<T, Rejection>;

/// Fails with the result `otherwise` unless the condition holds.
pub fn require(condition: bool, otherwise: ValidationResult) -> RuleResult {
    if condition { Ok(()) } else { Err(otherwise.into()) }
}
