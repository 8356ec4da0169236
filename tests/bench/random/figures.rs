//! How often each rule was the reason of a refusal.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::rule::Rule;

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
