//! Everything that can go wrong in a simulated network, and how often it did.

use std::collections::BTreeMap;
use std::fmt::Write as _;

macro_rules! faults {
    ($($(#[$about:meta])* $group:ident { $($(#[$meta:meta])* $name:ident,)* })*) => {
        /// A fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault {
            $($($(#[$meta])* $name,)*)*
        }

        $($(#[$about])* #[allow(dead_code)] pub const $group: &[Fault] = &[$(Fault::$name,)*];)*

        impl Fault {
            /// All faults.
            pub const ALL: &[Fault] = &[$($(Fault::$name,)*)*];
        }
    };
}

faults! {
    /// Faults of the network.
    OF_NETWORK {
        /// A message takes seconds.
        SlowMessage,
        /// A message overtakes an earlier one.
        Overtaken,
        /// No connection: refused at once.
        Refused,
        /// No connection: no reply.
        NoRoute,
        /// The connection breaks before the request arrives, or after.
        ResetBefore,
        ResetAfter,
        /// The request or its answer is lost.
        LostRequest,
        LostAnswer,
        /// Some members cannot reach others for a while.
        Partition,
        /// A partition that outlasts the timeouts of the others.
        LongPartition,
        /// A fork of exactly the rewrite limit, or one block deeper.
        ForkAtLimit,
        ForkBeyondLimit,
    }
    /// Faults of members.
    OF_MEMBERS {
        /// Stopped and restarted with all commits, or without the last ones.
        RestartWithAll,
        RestartWithoutLast,
        /// Starts late.
        LateStart,
        /// A clock that is off, that drifts, or that is set wrongly for a while.
        ClockOff,
        ClockDrift,
        ClockJump,
        /// Commits that take long.
        SlowDisk,
        /// Ticks that take long, on a machine that must make blocks of many transactions.
        SlowMachine,
    }
    /// Lies of byzantine peers during chain comparison.
    OF_COMPARISON {
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
    }
    /// Claims of byzantine peers that their chain is far ahead, and what they do when its blocks are requested.
    OF_STALLS {
        /// The peer sends no blocks, nothing at all, a byte now and then, or disconnects.
        FarAheadWithoutBlocks,
        FarAheadSilence,
        FarAheadDrip,
        FarAheadClosed,
        /// The first block is one that it may not make, is forged, or is of the future.
        FarAheadUnentitled,
        FarAheadForged,
        FarAheadFuture,
        /// The blocks follow each other and have the hashes that it has sent, and it may make none of them.
        FarAheadChained,
        /// True blocks of a member come first, then nothing or a block that it may not make.
        FarAheadTrueAtFirst,
        FarAheadLastFails,
        /// Every answer comes as late as it may.
        FarAheadSlow,
    }
    /// Faulty answers of byzantine peers to any request.
    OF_ANSWERS {
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
    }
    /// Faulty answers of byzantine peers to specific requests.
    OF_REQUESTS {
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
    }
    /// Bad pushes of byzantine peers.
    OF_PUSHES {
        PushedForgedBlock,
        PushedUnentitledBlock,
        PushedOldBlock,
        PushedKnownBlock,
        PushedSibling,
        PushedFutureBlock,
        PushedBlockOfOtherNetwork,
        PushedInAnothersName,
        PushedForgedTransaction,
        PushedOverspending,
        PushedExpired,
        PushedKnownTransaction,
        PushedManyTransactions,
        PushedSurplusCosignatures,
        PushedGarbage,
        PushedOversized,
        PushedTooOften,
        SignInAnothersName,
        SignFromElsewhere,
        ManyFaces,
    }
    /// Attacks of relays, which forward requests to an honest node and return its proofs with false data.
    OF_RELAYS {
        RelayedSign,
        RelayedPlace,
        RelayedPeers,
        RelayedTime,
        RelayedHeight,
        RelayedPush,
    }
}

/// Answers of a relay to specific requests, in the name of an honest node that signs them.
pub const RELAY_ANSWERS: &[Fault] =
    &[Fault::RelayedPlace, Fault::RelayedPeers, Fault::RelayedTime, Fault::RelayedHeight, Fault::LowScore];

impl Fault {
    /// Returns whether a node penalizes a byzantine peer for this.
    pub fn is_penalized(self) -> bool {
        // The receiver's clock may be the wrong one.
        OF_COMPARISON.contains(&self) && ![Fault::LowScore, Fault::FutureBlock].contains(&self)
    }
}

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    times: u64,
    /// For lies about chains: how often a member received one and went on to its next comparison, and how often the
    /// byzantine peer was penalized by then.
    received: u64,
    penalized: u64,
}

/// Counts of each fault and of the penalties for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: BTreeMap<Fault, Count>,
}

impl Tally {
    pub fn add(&mut self, fault: Fault) {
        self.counts.entry(fault).or_default().times += 1;
    }

    /// Counts a received lie.
    pub fn count_received(&mut self, fault: Fault, is_penalized: bool) {
        let count = self.counts.entry(fault).or_default();
        count.received += 1;
        count.penalized += u64::from(is_penalized);
    }

    pub fn count(&self, fault: Fault) -> u64 {
        self.of(fault).times
    }

    /// Returns how often a lie was received, and how often it was penalized.
    pub fn penalized(&self, fault: Fault) -> (u64, u64) {
        (self.of(fault).received, self.of(fault).penalized)
    }

    fn of(&self, fault: Fault) -> Count {
        self.counts.get(&fault).copied().unwrap_or_default()
    }

    pub fn merge(&mut self, other: &Tally) {
        for (fault, count) in &other.counts {
            let entry = self.counts.entry(*fault).or_default();
            entry.times += count.times;
            entry.received += count.received;
            entry.penalized += count.penalized;
        }
    }

    /// Returns a table for display.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for fault in Fault::ALL {
            let (name, (received, penalized)) = (format!("{fault:?}"), self.penalized(*fault));
            let _ = write!(text, "  {name:<26} {:>8}", self.count(*fault));
            let _ = if fault.is_penalized() {
                writeln!(text, ", received {received}, penalized {penalized}")
            } else {
                writeln!(text)
            };
        }
        text
    }
}
