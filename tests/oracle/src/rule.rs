//! The rules that can cause a rejection, each with its result.

use nisd::rules::{Rejection, RuleResult, ValidationResult};

macro_rules! rules {
    ($($variant:ident $result:tt $name:literal;)*) => {
        /// A rule, or one of several ways to break it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $(#[doc = $name] $variant,)*
        }

        impl Rule {
            /// All rules, in the order in which they are applied as far as one is defined.
            pub const ALL: &[Rule] = &[$(Rule::$variant,)*];

            /// Returns its name for display.
            pub fn name(self) -> &'static str {
                match self {
                    $(Rule::$variant => $name,)*
                }
            }

            /// Returns the result of the protocol; `None` if it has a text instead, or no defined answer.
            pub fn result(self) -> Option<ValidationResult> {
                match self {
                    $(Rule::$variant => rules!(@result $result),)*
                }
            }
        }
    };
    (@result _) => { None };
    (@result $result:ident) => { Some(ValidationResult::$result) };
}

rules! {
    Unreadable _ "7   bytes that are no block";
    ManyBlocks FailureMaxChainSizeExceeded "C   more blocks than a part may have";
    BadTransactionSignature FailureTransactionUnverifiable "C   signature of a transaction";
    BadCosignatureSignature FailureTransactionUnverifiable "C   signature of a cosignature";
    WrongHeight FailureBlockUnexpectedHeight "C   height of the block";
    BadBlockSignature FailureBlockUnverifiable "C   signature of the block";
    WrongParent FailureBlockUnverifiable "C   block signed for another parent";
    NotHit FailureBlockNotHit "C   block without a hit";
    TwiceInPart FailureTransactionDuplicateInChain "C   transaction twice in a part";
    ChildTwiceInPart FailureTransactionDuplicateInChain "C   inner transaction twice in a part";
    T1Past FailurePastDeadline "T1  deadline not after the time stamp";
    T1Future FailureFutureDeadline "T1  deadline more than a day after the time stamp";
    T1Wraps _ "T1  end of the day beyond all time";
    T2First FailureInsufficientFee "T2  fee, first era";
    T2Second FailureInsufficientFee "T2  fee, second era";
    T2Third FailureInsufficientFee "T2  fee, third era";
    T2Cosignature FailureInsufficientFee "T2  fee of a cosignature above 1000";
    T2Unknown _ "T2  fee for an unknown mosaic";
    T3Version FailureEntityInvalidVersion "T3  unknown version";
    T3Mosaics FailureTransactionBeforeSecondFork "T3  mosaics before their fork";
    T3Modification FailureMultisigV2AggregateModificationBeforeFork "T3  modification of version 2 before its fork";
    T4 FailureTimestampTooFarInFuture "T4  time stamp in the future";
    T5 FailureNemesisAccountTransactionAfterNemesisBlock "T5  signed by the nemesis account";
    T6Balance FailureInsufficientBalance "T6  balance";
    T6Name _ "T6  name too long or too deep";
    T6Quantity _ "T6  quantity beyond 64 bits";
    T6Levy _ "T6  negative levy";
    T7 FailureWrongNetwork "T7  network";
    T8Signer FailureTransactionNotAllowedForRemote "T8  signed by a remote";
    T8Other FailureTransactionNotAllowedForRemote "T8  remote takes part";
    T8Inner FailureTransactionNotAllowedForRemote "T8  remote takes part in an inner transaction";
    T9 FailureTransactionNotAllowedForMultisig "T9  signed by a multisig account";
    T10First FailureMessageTooLarge "T10 message, before m-of-n";
    T10Second FailureMessageTooLarge "T10 message, before remote accounts";
    T10Third FailureMessageTooLarge "T10 message, since remote accounts";
    T11RemoteRecent FailureImportanceTransferInProgress "T11 link of the remote is recent";
    T11RemoteTied FailureImportanceTransferNeedsToBeDeactivated "T11 remote of another owner";
    T11OwnerRecent FailureImportanceTransferInProgress "T11 link of the owner is recent";
    T11Balance FailureDestinationAccountInUse "T11 remote has currency";
    T11Mosaic FailureDestinationAccountInUse "T11 remote has mosaics";
    T11Namespace FailureDestinationAccountInUse "T11 remote has a namespace";
    T11Multisig FailureDestinationAccountInUse "T11 remote is a multisig account";
    T11Cosignatory FailureDestinationAccountInUse "T11 remote is a cosignatory";
    T11Activated FailureImportanceTransferNeedsToBeDeactivated "T11 activated twice";
    T11NotActive FailureImportanceTransferIsNotActive "T11 deactivated without a link";
    T12 FailureMultisigNotACosigner "T12 initiator is no cosignatory";
    T13 FailureTransactionNotAllowedForMultisig "T13 fee sink as multisig account";
    T14Already FailureMultisigAlreadyACosigner "T14 already a cosignatory";
    T14AddMultisig FailureMultisigAccountCannotBeCosigner "T14 multisig account as cosignatory";
    T14AddSelf FailureMultisigAccountCannotBeCosigner "T14 cosignatory of itself";
    T14DeleteUnknown FailureMultisigNotACosigner "T14 deletes no cosignatory";
    T14Deletes FailureMultisigModificationMultipleDeletes "T14 deletes two";
    T14Redundant FailureMultisigModificationRedundantModifications "T14 the same twice";
    T14Kind FailureMultisigModificationRedundantModifications "T14 modification of kind 3";
    T14Cosignatory FailureMultisigAccountCannotBeCosigner "T14 cosignatory becomes a multisig account";
    T15Negative FailureMultisigMinCosignatoriesOutOfRange "T15 fewer signatures than none";
    T15Above FailureMultisigMinCosignatoriesOutOfRange "T15 more signatures than cosignatories";
    T15Many FailureTooManyMultisigCosigners "T15 more than 32 cosignatories";
    T16Reserved FailureNamespaceNotClaimable "T16 reserved name";
    T16Sink FailureNamespaceInvalidRentalFeeSink "T16 rental sink";
    T16Unknown FailureNamespaceUnknown "T16 unknown parent";
    T16Expired FailureNamespaceExpired "T16 expired parent";
    T16Owner FailureNamespaceOwnerConflict "T16 parent of another owner";
    T16Exists FailureNamespaceAlreadyExists "T16 sub-namespace exists";
    T16EarlyOwner FailureNamespaceProvisionTooEarly "T16 renewed too early by its owner";
    T16EarlyOther FailureNamespaceProvisionTooEarly "T16 claimed too early by another";
    T16RootFee FailureNamespaceInvalidRentalFee "T16 rent of a root";
    T16SubFee FailureNamespaceInvalidRentalFee "T16 rent of a sub-namespace";
    T17Expired FailureNamespaceExpired "T17 namespace expired";
    T17Missing FailureNamespaceExpired "T17 namespace missing";
    T17Owner FailureNamespaceOwnerConflict "T17 namespace of another owner";
    T17Same FailureMosaicModificationNotAllowed "T17 redefinition without a change";
    T17Spread FailureMosaicModificationNotAllowed "T17 redefinition while others have some";
    T17Transferable FailureMosaicModificationNotAllowed "T17 transferability changes";
    T17Sink FailureMosaicInvalidCreationFeeSink "T17 creation sink";
    T17Fee FailureMosaicInvalidCreationFee "T17 creation fee";
    T17LevyUnknown FailureMosaicUnknown "T17 levy in an unknown mosaic";
    T17LevyFixed FailureMosaicLevyNotTransferable "T17 levy in a mosaic that is not transferable";
    T18Unknown FailureMosaicUnknown "T18 unknown mosaic";
    T18Expired FailureNamespaceExpired "T18 namespace expired";
    T18Creator FailureMosaicCreatorConflict "T18 supply changed by another";
    T18Immutable FailureMosaicSupplyImmutable "T18 immutable supply";
    T18Above FailureMosaicMaxSupplyExceeded "T18 supply too large";
    T18Below FailureMosaicSupplyNegative "T18 supply below what the creator has";
    T19Many FailureTooManyMosaicTransfers "T19 more than 10 mosaics";
    T19Fraction FailureMosaicDivisibilityViolated "T19 fraction of a multiplier";
    T19Unknown FailureMosaicUnknown "T19 unknown mosaic";
    T19Expired FailureNamespaceExpired "T19 namespace expired";
    T19Fixed FailureMosaicNotTransferable "T19 mosaic not transferable";
    T19Levy FailureMosaicLevyUnknown "T19 levy in an unknown mosaic";
    T20Balance FailureInsufficientBalance "T20 balance of a mosaic";
    T20Levy FailureInsufficientBalance "T20 balance of the mosaic of a levy";
    T21Few FailureMultisigInvalidCosigners "T21 signatures missing";
    T21Foreign FailureMultisigInvalidCosigners "T21 signature of a stranger";
    U1 FailurePastDeadline "U1  expired now (pool)";
    PoolSignature FailureSignatureNotVerifiable "U   signature (pool)";
    PoolFull FailureTransactionCacheTooFull "U   no room for what pays so little (pool)";
    PoolKnown Neutral "U   in the chain already (pool)";
    PoolAlone FailureMultisigNoMatchingMultisig "U   cosignature without a multisig transaction (pool)";
    B1 FailureTimestampTooFarInFuture "B1  time stamp in the future";
    B2 FailurePastDeadline "B2  transaction expired";
    B3Blocked FailureCannotHarvestFromBlockedAccount "B3  key that may not harvest";
    B3Status FailureIneligibleBlockSigner "B3  signer has lent its importance";
    B4 FailureTooManyTransactions "B4  too many transactions";
    B5Signer FailureSelfSignedTransaction "B5  signer pays itself";
    B5Owner FailureSelfSignedTransaction "B5  owner of the signer pays itself";
    B6 Neutral "B6  transaction in the chain already";
    B6Child Neutral "B6  inner transaction in the chain already";
    B7 FailureWrongNetwork "B7  network";
    B8 FailureEntityInvalidVersion "B8  version";
    B9 FailureUnknown "B9  treasury block";
    B10 FailureConflictingMultisigModification "B10 two modifications of an account";
    B11Supply FailureConflictingMosaicCreation "B11 mosaic defined and its supply changed";
    B11Transfer FailureConflictingMosaicCreation "B11 mosaic defined and moved";
    B11Namespace FailureConflictingMosaicCreation "B11 mosaic defined and its namespace rented";
    HazardAlone _ "H   cosignature alone in a block";
    HazardInner _ "H   cosignature as inner transaction";
    HazardKind _ "H   block of the first block's kind";
}

/// The result that a rule must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedResult {
    /// Valid.
    Valid,
    /// Rejected with this result.
    Rejected(ValidationResult),
    /// Rejected with this text.
    Exception(String),
    /// Rejected; the protocol does not define how.
    RejectedSomehow,
}

impl ExpectedResult {
    /// Returns what a validation has found.
    pub fn of(result: RuleResult) -> ExpectedResult {
        match result {
            Ok(()) => ExpectedResult::Valid,
            Err(Rejection::Result(result)) => ExpectedResult::Rejected(result),
            Err(rejection) => ExpectedResult::Exception(rejection.to_string()),
        }
    }
}

/// A broken rule and the protocol's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleViolation {
    /// The rule.
    pub rule: Rule,
    /// The answer.
    pub verdict: ExpectedResult,
}

impl RuleViolation {
    /// Creates a ruling with a text instead of a result.
    pub fn exception(rule: Rule, text: impl Into<String>) -> RuleViolation {
        RuleViolation { rule, verdict: ExpectedResult::Exception(text.into()) }
    }
}

impl From<Rule> for RuleViolation {
    fn from(rule: Rule) -> RuleViolation {
        RuleViolation { rule, verdict: rule.result().map_or(ExpectedResult::RejectedSomehow, ExpectedResult::Rejected) }
    }
}

/// Fails with a rule unless a condition holds.
pub fn require(condition: bool, otherwise: Rule) -> Result<(), RuleViolation> {
    if condition { Ok(()) } else { Err(otherwise.into()) }
}
