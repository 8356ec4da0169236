//! Account importance: proof of importance and proof of stake.
//!
//! The caller adds the accounts, then the outlinks, and then calls `step` until the calculation is done. Each step is
//! limited by a work budget, so that the node can do other work in between. The results equal those of NIS1 bit for
//! bit, whatever the slicing.

mod flows;
pub mod graph;
mod input;
pub mod java_hash_map;
pub mod loops;
pub mod rank;
#[cfg(test)]
mod tests;

pub use input::{MAX_OUTLINKS, decay};

use self::flows::Flows;
use self::graph::{ClusterRole, Graph};
use self::input::{Accounts, Buckets, Outlinks, decay_between};
use self::loops::{Csr, Loop, Stage};
use self::rank::{OUTLIER_WEIGHT, PowerIteration, Scores};
use crate::model::units::MIN_STAKE;
use crate::model::{Address, Amount, Height};
use crate::state::{AccountId, AccountImportance, Outlink};

/// Maximum preallocation. The supply of a public network suffices for fewer eligible accounts.
const MAX_EXPECTED: u64 = 1_000_000;

/// Parameters of a calculation.
#[derive(Clone, Copy, Debug, Default)]
pub struct CalculationParameters {
    /// Whether only the vested balance counts.
    pub proof_of_stake: bool,
    /// Importance height: the height at which importances are calculated.
    pub height: Height,
    /// Blocks per day at the network's target time.
    pub blocks_per_day: u64,
    /// Number of account states before the block at that height, ineligible ones included: 0 at height 1. It decides
    /// the order of the accounts, on which some sums depend. `None` orders them by their first heights.
    pub known_accounts: Option<u64>,
    /// Minimum net flow between two accounts in the graph, in micro-units.
    pub min_flow: f64,
    /// Two neighbours in the graph are similar if their similarity exceeds this.
    pub similarity: f64,
    /// Expected number of eligible accounts, for preallocation.
    pub expected_eligible: u64,
    /// Number of account ids in use, for preallocation.
    pub account_ids: u32,
}

impl CalculationParameters {
    /// Creates the parameters of a proof of importance at a height of the chain, with NIS1's limits within the graph.
    pub fn new(height: Height, blocks_per_day: u64, known_accounts: u64) -> CalculationParameters {
        CalculationParameters {
            height,
            blocks_per_day,
            known_accounts: Some(known_accounts),
            min_flow: 1_000_000_000.0,
            similarity: 0.3,
            ..CalculationParameters::default()
        }
    }
}

/// Importances calculated at a height.
#[derive(Clone, Debug, Default)]
pub struct Importances {
    /// Accounts that the calculation counted, ineligible ones included; NIS1's "last vector size".
    pub accounts_counted: u64,
    /// Iterations of the page rank; 0 for proof of stake.
    pub iterations: u32,
    /// Eligible accounts in ascending order of their ids. Importances are NaN if there is no stake at all; page ranks are
    /// 0 for proof of stake.
    pub accounts: Vec<AccountImportance>,
}

/// Reasons for a failed calculation. A failed calculation cannot be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportanceError {
    /// No account has enough vested balance.
    #[error("there aren't any harvesting eligible accounts")]
    NoAccounts,
    /// The power iteration does not converge.
    #[error("POI: power iteration failed to converge in {max} iterations", max = rank::MAX_ITERATIONS)]
    NotConverged,
    /// The window has more than [`MAX_OUTLINKS`] outlinks.
    #[error("there are more than {MAX_OUTLINKS} outlinks in the last 30 days")]
    TooManyOutlinks,
}

/// A calculation: add all accounts, then all outlinks, and then call `step` until it is done.
#[derive(Debug, Default)]
pub struct Calculation {
    parameters: CalculationParameters,
    /// Number of the present stage.
    stage: usize,
    work: Loop,
    accounts: Accounts,
    outlinks: Outlinks,
    /// Flows and outlink scores by account index; complete once the calculation is done.
    pub flows: Flows,
    /// The graph; complete once the calculation is done.
    pub graph: Graph,
    rank: PowerIteration,
    scores: Scores,
    /// Sum of all stakes, for proof of stake.
    total_stake: i64,
    results: Importances,
}

/// Stages of a proof of importance, which considers stake, outlinks and the structure of the graph. Each takes the
/// results of the former ones and frees what only those needed. Freeing much memory at once takes long, so it is split
/// over several slices.
const IMPORTANCE: &[Stage<Calculation>] = &[
    |all, work| all.accounts.begin_order(work),
    |all, work| all.accounts.sort_by_digit(0, &all.buckets(), work),
    |all, work| all.accounts.sort_by_digit(1, &all.buckets(), work),
    |all, work| all.accounts.sort_by_digit(2, &all.buckets(), work),
    |all, work| all.accounts.sort_buckets(&all.buckets(), work),
    |all, _| set(&mut all.accounts.numbers, Vec::new()),
    |all, work| all.outlinks.append_hashes(&mut all.accounts.sorted.hashes, work),
    |all, work| all.outlinks.sort_sent(&all.accounts.sorted.index, work),
    |all, work| all.outlinks.sort_received(all.accounts.len(), work),
    |all, _| set(&mut all.flows, Flows::new(&all.outlinks, all.accounts.sorted.hashes.len(), all.parameters.min_flow)),
    |all, work| all.flows.step(&all.outlinks, &all.accounts.sorted.hashes, work),
    |all, _| set(&mut all.outlinks.sent, Csr::default()),
    |all, _| set(&mut all.outlinks.received, Csr::default()),
    |all, _| set(&mut all.graph, Graph::new(std::mem::take(&mut all.flows.outflows), all.parameters.similarity)),
    |all, work| all.graph.step(work),
    |all, _| set(&mut all.rank, PowerIteration::new(&all.graph, all.accounts.counted)),
    |all, work| all.rank.step(&all.graph, work),
    |all, work| all.scores.combine_stakes(&all.flows.scores, &all.accounts.sorted.vested, work),
    |all, work| {
        let weight = |role: &ClusterRole| if *role == ClusterRole::Outlier { OUTLIER_WEIGHT } else { 1.0 };
        all.scores.combine_ranks(&all.rank.new, |account| weight(&all.graph.roles[account]), work)
    },
    |all, work| all.scores.normalise(work),
    |all, work| {
        let (index, scores, ranks) = (&all.accounts.sorted.index, &all.scores.values, &all.rank.new);
        all.results.collect(&all.accounts, all.parameters.height, work, |account| {
            let index = index[account] as usize;
            (scores[index], ranks[index])
        })
    },
];

/// Stages of a proof of stake, which considers the stake only.
const STAKE: &[Stage<Calculation>] = &[
    |all, work| {
        for account in work.advance(all.accounts.len()) {
            // NIS1 adds in signed 64 bits.
            all.total_stake = all.total_stake.wrapping_add(all.accounts.vested[account] as i64);
        }
        work.at == all.accounts.len()
    },
    |all, work| {
        let (vested, total) = (&all.accounts.vested, all.total_stake);
        let share = |account: usize| (vested[account] as i64 as f64 / total as f64, 0.0);
        all.results.collect(&all.accounts, all.parameters.height, work, share)
    },
];

/// Stage: sets a part, or frees what it held.
fn set<T>(part: &mut T, value: T) -> bool {
    *part = value;
    true
}

impl Importances {
    /// Stage: appends the eligible accounts, whose importances and page ranks `values` returns.
    fn collect(
        &mut self,
        accounts: &Accounts,
        height: Height,
        work: &mut Loop,
        values: impl Fn(usize) -> (f64, f64),
    ) -> bool {
        self.accounts.reserve_exact(accounts.len() - self.accounts.len());
        for index in work.advance(accounts.len()) {
            let (importance, page_rank) = values(index);
            let account = AccountId(accounts.ids[index]);
            self.accounts.push(AccountImportance { account, height, importance, page_rank });
        }
        work.at == accounts.len()
    }
}

impl Calculation {
    /// Creates a calculation without input.
    pub fn new(parameters: CalculationParameters) -> Calculation {
        let min_stake = if parameters.proof_of_stake { Amount::ZERO } else { MIN_STAKE };
        let expected = parameters.expected_eligible.min(MAX_EXPECTED) as usize;
        Calculation {
            parameters,
            accounts: Accounts::new(min_stake, expected, parameters.account_ids as usize),
            ..Calculation::default()
        }
    }

    fn stages(&self) -> &'static [Stage<Calculation>] {
        if self.parameters.proof_of_stake { STAKE } else { IMPORTANCE }
    }

    fn buckets(&self) -> Buckets {
        self.accounts.buckets(self.parameters.known_accounts, self.parameters.height)
    }

    fn accepts_input(&self) -> bool {
        self.stage == 0 && self.work.at == 0
    }

    /// Adds a known account other than the nemesis account. Ids must be ascending; outlinks refer to them. The hash of
    /// the address influences the order of the accounts. `vested` is the vested balance at the height of the
    /// calculation.
    pub fn add_account(&mut self, id: u32, address: Address, vested: Amount, first_height: Height) {
        assert!(self.accepts_input() && self.outlinks.is_empty(), "accounts must be added before outlinks");
        self.accounts.add(id, address, vested, first_height, self.parameters.height);
    }

    /// Sets the number of known accounts, those included whose balance is too low to be eligible and that are not added,
    /// and how many of them are new at the height of the calculation. Returns whether no more were added. Proof of stake
    /// gets every account.
    pub fn set_known(&mut self, accounts: u64, new_accounts: u64) -> bool {
        self.accounts.set_known(accounts, new_accounts)
    }

    /// Adds outlinks of the block at a height. Outlinks must come in recorded order, after all accounts. Those outside the
    /// window or with an ineligible sender are ignored, and all by a proof of stake.
    pub fn add_outlinks(&mut self, height: Height, outlinks: impl IntoIterator<Item = Outlink>) {
        assert!(self.accepts_input(), "outlinks must be added before the first step");
        let decay = decay_between(height, self.parameters.height, self.parameters.blocks_per_day);
        if let Some(decay) = decay.filter(|_| !self.parameters.proof_of_stake) {
            outlinks.into_iter().for_each(|outlink| self.outlinks.add(&mut self.accounts, &outlink, decay));
        }
    }

    /// Does about `budget` units of work, each about ten nanoseconds; returns whether work remains.
    pub fn step(&mut self, budget: u32) -> Result<bool, ImportanceError> {
        if !self.parameters.proof_of_stake && self.accounts.len() == 0 {
            return Err(ImportanceError::NoAccounts);
        }
        if self.outlinks.is_too_many() {
            return Err(ImportanceError::TooManyOutlinks);
        }
        let mut work = std::mem::take(&mut self.work);
        work.begin_slice(budget);
        while let Some(stage) = self.stages().get(self.stage)
            && !work.is_exhausted()
        {
            if stage(self, &mut work) {
                // A slice ends with its stage, because changing to the next stage takes time too.
                self.stage += 1;
                work.restart();
                break;
            }
        }
        self.work = work;
        if self.rank.has_failed { Err(ImportanceError::NotConverged) } else { Ok(self.stage < self.stages().len()) }
    }

    /// Returns the results. Valid once the calculation is done.
    pub fn into_results(self) -> Importances {
        Importances { accounts_counted: self.accounts.counted, iterations: self.rank.iterations(), ..self.results }
    }
}
