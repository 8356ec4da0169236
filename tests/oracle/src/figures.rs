//! Statistics: how often each rule caused a rejection.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::rule::Rule;

macro_rules! classes {
    ($($variant:ident $name:literal;)*) => {
        /// Features that distinguish cases, independent of their rules.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Class {
            $(#[doc = $name] $variant,)*
        }

        impl Class {
            /// All classes.
            pub const ALL: &[Class] = &[$(Class::$variant,)*];

            /// Returns its name for display.
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
    FullBlock "block of as many transactions as it may have";
    FullBlocks "part of two or more such blocks";
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
    NineMosaics "transfer of nine mosaics";
    TenMosaics "transfer of ten mosaics, as many as it may have";
    ExpiredLevy "levy paid in a mosaic whose namespace has expired";
    ImportanceYear "block after the first year under proof of importance";
    DuplicateMosaics "a mosaic twice, which is added up";
    UnsortedModifications "modifications out of order";
    UnsortedCosignatures "cosignatures out of order";
    DuplicateCosignatures "a cosignature twice";
    OwnCosignature "a cosignature by the initiator";
    EmptyMessage "a message without content";
    LowerCase "an address in lower case";
    OddProperties "properties in another order or letter case";
    SignedOddly "one of these signed as it is written";
    LongDescription "a description longer than is read, or in no UTF-8";
    OddGoodName "block with a name of all that names may have, or as long as they may be";
    OddGoodText "block with a description as long as it may be, or of odd letters";
    ForeignRecipient "a recipient whose address is of another network, or none";
    ForeignSink "a fee sink likewise";
    ForeignLevy "a recipient of a levy likewise";
    ForeignCosigned "a cosigned account likewise";
    OddName "a name of a namespace that is none";
    OddParent "a parent or a mosaic's namespace that is none";
    OddMosaicName "a name of a mosaic that is none";
    MosaicOverflow "a mosaic twice, whose sum is beyond 63 bits";
    WideOverflow "a mosaic several times, whose sum is 2^64 and little more";
    Negative "a number of 2^63 or more";
    OddText "a description, a property, a supply or a signature that nothing can have";
    Limit "a number at its limit";
    WideSum "payments of an account of more than 2^64 in sum";
    WideProduct "a quantity times a multiplier of far more than 64 bits";
    WrappedLevy "levy whose product passes 2^64, which is paid";
    ManyInPool "pool of more than a block's worth";
    Accumulated "transaction refused for what the pool has spent";
    Merged "cosignature merged in the pool";
    Surplus "second cosignature of one signer in the pool";
    Kind60 "block in a network of 60 s, rewrite limit 360, 120 transactions, mainnet's byte, stabilised";
    Kind1800 "block in a network of 1,800 s, rewrite limit 17, 24 transactions, testnet's byte";
    Kind600 "block in a network of 600 s, rewrite limit 40, 8 transactions, a byte of its own, stabilised";
    Kind3600 "block in a network of 3,600 s, rewrite limit 24, 40 transactions, mijinnet's byte";
}

impl Class {
    /// Blocks in the kinds of networks in which no year passes.
    pub const KINDS: [Class; 4] = [Class::Kind60, Class::Kind1800, Class::Kind600, Class::Kind3600];
}

/// Counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Offered blocks and chain parts.
    pub offered: u64,
    /// Accepted ones; each was also undone once.
    pub accepted: u64,
    /// Transactions in the accepted ones.
    pub transactions: u64,
    /// Empty blocks in between.
    pub empty: u64,
    /// Offered unconfirmed transactions.
    pub announced: u64,
    /// Networks.
    pub networks: u64,
    /// Cases that broke another rule than intended, or none.
    pub off_target: u64,
    /// Rejections by rule: in blocks, and as unconfirmed transactions.
    pub by_rule: BTreeMap<Rule, [u64; 2]>,
    /// Occurrences of each class.
    pub classes: BTreeMap<Class, u64>,
    /// Differences between the node's result and the expected one.
    pub differences: Vec<String>,
    /// Elapsed time.
    pub elapsed: Duration,
}

impl Statistics {
    /// Counts a rejection.
    pub fn count_rejection(&mut self, rule: Rule, is_pool: bool) {
        let [blocks, pool] = self.by_rule.entry(rule).or_default();
        *if is_pool { pool } else { blocks } += 1;
    }

    /// Counts an occurrence.
    pub fn count_class(&mut self, class: Class) {
        *self.classes.entry(class).or_default() += 1;
    }

    /// Returns the classes with fewer than `times` occurrences.
    pub fn rare_classes(&self, times: u64) -> Vec<&'static str> {
        let count = |class: &Class| self.classes.get(class).copied().unwrap_or(0);
        Class::ALL.iter().filter(|class| count(class) < times).map(|class| class.name()).collect()
    }

    /// Returns the number of rejections by a rule.
    pub fn rejections(&self, rule: Rule) -> u64 {
        self.by_rule.get(&rule).map_or(0, |counts| counts.iter().sum())
    }

    /// Returns the rules with fewer than `times` rejections.
    pub fn rare_rules(&self, times: u64) -> Vec<&'static str> {
        Rule::ALL.iter().filter(|rule| self.rejections(**rule) < times).map(|rule| rule.name()).collect()
    }
}

impl fmt::Display for Statistics {
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
            self.networks,
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
            self.announced, self.off_target
        )?;
        write!(f, "{} differences", self.differences.len())
    }
}
