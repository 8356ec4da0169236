//! Everything that can go wrong in a simulated network, and how often it did.

use std::collections::BTreeMap;
use std::fmt::Write as _;

macro_rules! faults {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        /// Something that goes wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault {
            $($(#[$meta])* $name,)*
        }

        impl Fault {
            /// All of them.
            pub const ALL: &[Fault] = &[$(Fault::$name,)*];
        }
    };
}

faults! {
    // Of the network.
    /// A message takes seconds.
    SlowMessage,
    /// A message overtakes one that was sent before.
    Overtaken,
    /// No connection: refused at once.
    Refused,
    /// No connection: nothing answers.
    NoRoute,
    /// The connection breaks before the request has arrived, or after.
    ResetBefore,
    ResetAfter,
    /// The request, or its answer, is never heard of again.
    LostRequest,
    LostAnswer,
    /// Some members cannot reach others, for a while.
    Partition,
    /// Longer than others are patient.
    LongPartition,
    /// A fork of exactly the rewrite limit, and of one block more.
    ForkAtLimit,
    ForkBeyondLimit,
    // Of members.
    /// Stopped and started with all that it had committed, or without what it had committed last.
    RestartWithAll,
    RestartWithoutLast,
    /// Starts late.
    LateStart,
    /// A clock that is off, one that drifts, one that somebody sets wrongly for a while.
    ClockOff,
    ClockDrift,
    ClockJump,
    /// Commits that take long.
    SlowDisk,
    /// Turns that take long, on a machine that is to make blocks of many transactions.
    SlowMachine,
    // Answers of liars while chains are compared.
    LiedAboutScore,
    LowScore,
    ForgedLastBlock,
    TooFarBehind,
    TooManyHashes,
    NoHashes,
    OtherHashes,
    ForgedBlockAt,
    NoBlocks,
    ForgedBlock,
    UnentitledBlock,
    OverspendingBlock,
    FutureBlock,
    GapInBlocks,
    TooManyBlocks,
    InferiorBlocks,
    // Answers of liars to anything.
    OtherChallengeSigned,
    OtherKey,
    ShortSignature,
    CutShort,
    Garbage,
    HugeCount,
    EmptyBody,
    Status204,
    Status302,
    Status404,
    Status429,
    Status500,
    Status503,
    Silence,
    SlowAnswer,
    EndlessDrip,
    Closed,
    Oversized,
    OtherFormat,
    Surplus,
    // Answers of liars to certain questions.
    OtherIdentity,
    OtherNetwork,
    InventedPeers,
    MisplacedPeers,
    LongPeerList,
    TooManyExperiences,
    ExperiencesOfAnother,
    WrongTime,
    HugeHeight,
    WrongAddress,
    BadUnconfirmed,
    ManyUnconfirmed,
    // What liars push.
    PushedForgedBlock,
    PushedUnentitledBlock,
    PushedOldBlock,
    PushedKnownBlock,
    PushedFutureBlock,
    PushedBlockOfOtherNetwork,
    PushedInAnothersName,
    PushedForgedTransaction,
    PushedOverspending,
    PushedExpired,
    PushedKnownTransaction,
    PushedManyTransactions,
    PushedGarbage,
    PushedOversized,
    PushedTooOften,
    SignInAnothersName,
    SignFromElsewhere,
    ManyFaces,
    // What those do who pass on what they are asked to an honest node, and its proof back with what they like.
    RelayedSign,
    RelayedPlace,
    RelayedPeers,
    RelayedTime,
    RelayedHeight,
    RelayedPush,
}

/// What a relay answers to certain questions, in the name of an honest node that signs it.
pub const OF_RELAYS: &[Fault] =
    &[Fault::RelayedPlace, Fault::RelayedPeers, Fault::RelayedTime, Fault::RelayedHeight, Fault::LowScore];

/// What liars answer while chains are compared.
pub const OF_COMPARISON: &[Fault] = &[
    Fault::LiedAboutScore,
    Fault::LowScore,
    Fault::ForgedLastBlock,
    Fault::TooFarBehind,
    Fault::TooManyHashes,
    Fault::NoHashes,
    Fault::OtherHashes,
    Fault::ForgedBlockAt,
    Fault::NoBlocks,
    Fault::ForgedBlock,
    Fault::UnentitledBlock,
    Fault::OverspendingBlock,
    Fault::FutureBlock,
    Fault::GapInBlocks,
    Fault::TooManyBlocks,
    Fault::InferiorBlocks,
];

/// What liars answer to anything.
pub const OF_ANSWERS: &[Fault] = &[
    Fault::OtherChallengeSigned,
    Fault::OtherKey,
    Fault::ShortSignature,
    Fault::CutShort,
    Fault::Garbage,
    Fault::HugeCount,
    Fault::EmptyBody,
    Fault::Status204,
    Fault::Status302,
    Fault::Status404,
    Fault::Status429,
    Fault::Status500,
    Fault::Status503,
    Fault::Silence,
    Fault::SlowAnswer,
    Fault::EndlessDrip,
    Fault::Closed,
    Fault::Oversized,
    Fault::OtherFormat,
    Fault::Surplus,
];

/// What liars answer to certain questions.
pub const OF_QUESTIONS: &[Fault] = &[
    Fault::OtherIdentity,
    Fault::OtherNetwork,
    Fault::InventedPeers,
    Fault::MisplacedPeers,
    Fault::LongPeerList,
    Fault::TooManyExperiences,
    Fault::ExperiencesOfAnother,
    Fault::WrongTime,
    Fault::HugeHeight,
    Fault::WrongAddress,
    Fault::BadUnconfirmed,
    Fault::ManyUnconfirmed,
];

/// What liars push.
pub const OF_PUSHES: &[Fault] = &[
    Fault::PushedForgedBlock,
    Fault::PushedUnentitledBlock,
    Fault::PushedOldBlock,
    Fault::PushedKnownBlock,
    Fault::PushedFutureBlock,
    Fault::PushedBlockOfOtherNetwork,
    Fault::PushedInAnothersName,
    Fault::PushedForgedTransaction,
    Fault::PushedOverspending,
    Fault::PushedExpired,
    Fault::PushedKnownTransaction,
    Fault::PushedManyTransactions,
    Fault::PushedGarbage,
    Fault::PushedOversized,
    Fault::PushedTooOften,
    Fault::SignInAnothersName,
    Fault::SignFromElsewhere,
    Fault::ManyFaces,
];

impl Fault {
    /// Whether a node counts a failure for a liar that answers so.
    pub fn is_blamed(self) -> bool {
        OF_COMPARISON.contains(&self) && self != Fault::LowScore
    }
}

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    times: u64,
    /// Of lies about chains: how often one was heard whose hearer went on to the next comparison, and how often the liar
    /// was blamed then.
    heard: u64,
    blamed: u64,
}

/// How often each happened, and how often somebody was blamed for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: BTreeMap<Fault, Count>,
}

impl Tally {
    pub fn add(&mut self, fault: Fault) {
        self.counts.entry(fault).or_default().times += 1;
    }

    /// A lie was heard.
    pub fn hear(&mut self, fault: Fault, is_blamed: bool) {
        let count = self.counts.entry(fault).or_default();
        count.heard += 1;
        count.blamed += u64::from(is_blamed);
    }

    pub fn count(&self, fault: Fault) -> u64 {
        self.of(fault).times
    }

    /// How often a lie was heard, and how often somebody was blamed for it.
    pub fn blamed(&self, fault: Fault) -> (u64, u64) {
        (self.of(fault).heard, self.of(fault).blamed)
    }

    fn of(&self, fault: Fault) -> Count {
        self.counts.get(&fault).copied().unwrap_or_default()
    }

    pub fn merge(&mut self, other: &Tally) {
        for (fault, count) in &other.counts {
            let entry = self.counts.entry(*fault).or_default();
            entry.times += count.times;
            entry.heard += count.heard;
            entry.blamed += count.blamed;
        }
    }

    /// A table for people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for fault in Fault::ALL {
            let (name, (heard, blamed)) = (format!("{fault:?}"), self.blamed(*fault));
            let blamed = if fault.is_blamed() { format!(", heard {heard}, blamed {blamed}") } else { String::new() };
            let _ = writeln!(text, "  {name:<26} {:>8}{blamed}", self.count(*fault));
        }
        text
    }
}
