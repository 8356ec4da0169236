//! How often each rule was the reason of a refusal.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::rule::Rule;

macro_rules! classes {
    ($($variant:ident $name:literal;)*) => {
        /// What makes one case unlike another, whatever rule it is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Class {
            $(#[doc = $name] $variant,)*
        }

        impl Class {
            /// All of them.
            pub const ALL: &[Class] = &[$(Class::$variant,)*];

            /// What it is, for people.
            pub fn name(self) -> &'static str {
                match self {
                    $(Class::$variant => $name,)*
                }
            }
        }
    };
}

classes! {
    FullPart "part of two or more blocks that have transactions";
    ForkInPart "part in which rules change";
    DeepRollBack "roll-back of two or more blocks";
    Replacement "part that replaces blocks of the chain, whose transactions return";
    WorsePart "valid part that is not better";
    LatePart "part that is refused for its last block";
    OrdinaryHarvester "block by an account that is no harvester else";
    OrdinaryRemote "block by a remote of such an account";
    MultisigHarvester "block by a multisig account";
    MultisigRemote "block by a remote of a multisig account";
    FirstHit "block at the first second at which it is a hit";
    LastMiss "block a second before that";
    Stabilized "either of them where late blocks become easier";
    Step "difficulty that changes by a twentieth";
    Range "difficulty at its least or greatest";
    UnsortedMosaics "mosaics out of order";
    DuplicateMosaics "a mosaic twice, which is added up";
    UnsortedModifications "modifications out of order";
    UnsortedCosignatures "cosignatures out of order";
    DuplicateCosignatures "a cosignature twice";
    OwnCosignature "a cosignature by the initiator";
    EmptyMessage "a message without content";
    LowerCase "an address in lower case";
    OddProperties "properties in another order or letter case";
    SignedOddly "one of these signed as it is written";
    ForeignAddress "an address of another network";
    OddName "a name that is none";
    MosaicOverflow "a mosaic twice, whose sum is beyond 64 bits";
    OddText "a description, a supply or a signature that nothing can have";
    Limit "a number at its limit";
    ManyInPool "pool of more than a block's worth";
    Accumulated "transaction refused for what the pool has spent";
    Merged "cosignature merged in the pool";
    Surplus "second cosignature of one signer in the pool";
    OtherPace "network of another target time";
    OtherLimit "network of another rewrite limit";
    OtherSize "network of another block size";
    OtherByte "network of another byte";
}

/// Counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Blocks and parts offered.
    pub offered: u64,
    /// Of these, accepted; each was also undone once.
    pub accepted: u64,
    /// Transactions in the accepted ones.
    pub transactions: u64,
    /// Empty blocks in between.
    pub empty: u64,
    /// Unconfirmed transactions offered.
    pub announced: u64,
    /// Networks.
    pub worlds: u64,
    /// Cases that broke an earlier rule than was meant, or none.
    pub aside: u64,
    /// Refusals by rule: in blocks, and as unconfirmed transactions.
    pub by_rule: BTreeMap<Rule, [u64; 2]>,
    /// How often what makes one case unlike another came to pass.
    pub classes: BTreeMap<Class, u64>,
    /// Where the node said something else.
    pub differences: Vec<String>,
    /// Time taken.
    pub elapsed: Duration,
}

impl Figures {
    /// Counts a refusal.
    pub fn refuse(&mut self, rule: Rule, is_pool: bool) {
        self.by_rule.entry(rule).or_default()[usize::from(is_pool)] += 1;
    }

    /// Counts something that came to pass.
    pub fn note(&mut self, class: Class) {
        *self.classes.entry(class).or_default() += 1;
    }

    /// What came to pass less often than so many times.
    pub fn scarce(&self, times: u64) -> Vec<&'static str> {
        let count = |class: &Class| self.classes.get(class).copied().unwrap_or(0);
        Class::ALL.iter().filter(|class| count(class) < times).map(|class| class.name()).collect()
    }

    /// Refusals by a rule.
    pub fn of(&self, rule: Rule) -> u64 {
        self.by_rule.get(&rule).map_or(0, |counts| counts.iter().sum())
    }

    /// Rules that were the reason of a refusal less often than so many times.
    pub fn below(&self, times: u64) -> Vec<&'static str> {
        Rule::ALL.iter().filter(|rule| self.of(**rule) < times).map(|rule| rule.name()).collect()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>9} {:>9}  rule", "in blocks", "in pool")?;
        for rule in Rule::ALL {
            let [blocks, pool] = self.by_rule.get(rule).copied().unwrap_or_default();
            let result = rule.result().map_or("(a text, or any result)", |result| result.name());
            writeln!(f, "{blocks:>9} {pool:>9}  {:<52} {result}", rule.name())?;
        }
        for class in Class::ALL {
            writeln!(f, "{:>19}  {}", self.classes.get(class).copied().unwrap_or(0), class.name())?;
        }
        let seconds = self.elapsed.as_secs_f64();
        writeln!(
            f,
            "{} networks, {} blocks' worth of cases in {seconds:.1} s: {:.0}/s",
            self.worlds,
            self.offered,
            self.offered as f64 / seconds
        )?;
        writeln!(
            f,
            "{} of them accepted, with {} transactions, and undone; {} empty blocks in between",
            self.accepted, self.transactions, self.empty
        )?;
        writeln!(
            f,
            "{} unconfirmed transactions; {} cases broke another rule than was meant, or none",
            self.announced, self.aside
        )?;
        write!(f, "{} differences", self.differences.len())
    }
}
