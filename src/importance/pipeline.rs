//! The proof-of-importance calculation as a sequence of phases.

use std::mem;

use super::accounts::{AccountSort, Accounts, SortedAccounts};
use super::budget::WorkBudget;
use super::csr::Csr;
use super::flows::{FlowTables, Flows};
use super::matrix::{MatrixBuilder, OutlinkMatrix};
use super::outlinks::{Age, OutlinkLog, OutlinkSort, Outlinks};
use super::rank::PowerIteration;
use super::score::{ScoreInputs, Scoring, graph_weight};
use super::structure::{Structure, StructureBuilder};
use super::{AccountInput, CalculationProgress, Importance, ImportanceError, Importances, Settings};
use crate::model::{Address, Amount, Height};

/// Maximum preallocation. The supply of a public network suffices for fewer eligible accounts.
const MAX_EXPECTED: u64 = 1_000_000;

/// A proof-of-importance calculation: add all accounts, then all outlinks, and then call `step` until it is done.
#[derive(Debug)]
pub struct ProofOfImportance {
    settings: Settings,
    phase: Phase,
    accounts: Accounts,
    outlink_log: OutlinkLog,
    sorted_accounts: SortedAccounts,
    outlinks: Outlinks,
    flows: Flows,
    graph: Graph,
    ranks: Vec<f64>,
    scores: Vec<f64>,
    results: Importances,
}

/// The graph of the accounts, by account index.
#[derive(Debug, Default)]
pub struct Graph {
    /// The outlink matrix.
    pub matrix: OutlinkMatrix,
    /// Clusters and proximity.
    pub structure: Structure,
}

#[derive(Debug)]
enum Phase {
    Input,
    Order(AccountSort),
    Outlinks(OutlinkSort),
    Flows(FlowTables),
    /// Freeing much memory at once takes long, so it is split over two slices.
    Free,
    Matrix(MatrixBuilder),
    Structure(StructureBuilder),
    Rank(PowerIteration),
    Score(Scoring),
    Collect,
    Done,
}

impl ProofOfImportance {
    /// Creates a calculation without input.
    pub fn new(settings: Settings) -> ProofOfImportance {
        ProofOfImportance {
            settings,
            phase: Phase::Input,
            accounts: Accounts::with_capacity(settings.expected_eligible.min(MAX_EXPECTED) as usize),
            outlink_log: OutlinkLog::default(),
            sorted_accounts: SortedAccounts::default(),
            outlinks: Outlinks::default(),
            flows: Flows::default(),
            graph: Graph::default(),
            ranks: Vec::new(),
            scores: Vec::new(),
            results: Importances::default(),
        }
    }

    /// Adds a known account other than the nemesis account. Ids must be ascending. `vested` is the vested balance at
    /// the height of the calculation.
    pub fn add_account(&mut self, party: AccountInput, vested: Amount, first_height: Height) {
        assert!(self.accepts_input() && self.outlink_log.is_empty(), "accounts must be added before outlinks");
        self.accounts.add(&party, vested, first_height, self.settings.height);
    }

    /// Counts known accounts whose balance is too low to be eligible; `young` of them are new.
    pub fn skip_ineligible(&mut self, accounts: u64, young: u64) {
        self.accounts.skip_ineligible(accounts, young);
    }

    /// Adds an outlink with its recorded weight. Outlinks must come in recorded order. Those outside the window or with
    /// an ineligible sender are ignored. `address` returns the recipient's address; it is called if the recipient is
    /// ineligible and new to the calculation.
    pub fn add_outlink<E>(
        &mut self,
        height: Height,
        sender: u32,
        recipient: u32,
        weight: u64,
        address: impl FnOnce() -> Result<Address, E>,
    ) -> Result<(), E> {
        assert!(self.accepts_input(), "outlinks must be added before the first step");
        let age = Age::new(height, self.settings.height, self.settings.blocks_per_day);
        self.outlink_log.add(&self.accounts, age, [sender, recipient], weight, address)
    }

    fn accepts_input(&self) -> bool {
        matches!(self.phase, Phase::Input)
    }

    /// Does about `allowance` units of work, each about ten nanoseconds.
    pub fn step(&mut self, allowance: u32) -> Result<CalculationProgress, ImportanceError> {
        if self.accounts.len() == 0 {
            return Err(ImportanceError::NoAccounts);
        }
        if self.outlink_log.is_too_many() {
            return Err(ImportanceError::TooManyOutlinks);
        }
        let mut allowance = WorkBudget::new(allowance);
        while !allowance.is_exhausted() {
            if self.step_phase(&mut allowance)? {
                // A slice ends with its phase, because changing to the next phase takes time too.
                self.next_phase();
                break;
            }
        }
        Ok(if matches!(self.phase, Phase::Done) { CalculationProgress::Done } else { CalculationProgress::Working })
    }

    /// Continues the current phase; returns true when the phase is finished.
    fn step_phase(&mut self, budget: &mut WorkBudget) -> Result<bool, ImportanceError> {
        let Settings { height, order, .. } = self.settings;
        Ok(match &mut self.phase {
            Phase::Input | Phase::Free | Phase::Done => true,
            Phase::Order(phase) => phase.step(&self.accounts, order, height, budget),
            Phase::Outlinks(phase) => phase.step(&mut self.sorted_accounts, budget),
            Phase::Flows(phase) => phase.step(&self.outlinks, budget),
            Phase::Matrix(phase) => phase.step(&self.flows.outflows, budget),
            Phase::Structure(phase) => phase.step(&self.graph.matrix.rows, budget),
            Phase::Rank(phase) => phase
                .step(&self.graph.matrix, &self.graph.structure, budget)
                .map_err(|_| ImportanceError::NotConverged)?,
            Phase::Score(phase) => {
                let parts = |account: usize| ScoreInputs {
                    outlinks: self.flows.scores[account],
                    vested: self.sorted_accounts.vested[account],
                    rank: self.ranks[account],
                    weight: graph_weight(self.graph.structure.clusters.roles[account]),
                };
                phase.step(parts, budget)
            }
            Phase::Collect => self.collect(budget),
        })
    }

    /// Takes the result of a phase, frees what only that phase needed, and starts the next.
    fn next_phase(&mut self) {
        let (accounts, thresholds) = (self.accounts.len(), self.settings.thresholds);
        self.phase = match mem::replace(&mut self.phase, Phase::Done) {
            Phase::Input => Phase::Order(AccountSort::new(accounts)),
            Phase::Order(ordering) => {
                self.sorted_accounts = ordering.finish();
                Phase::Outlinks(OutlinkSort::new(mem::take(&mut self.outlink_log), accounts))
            }
            Phase::Outlinks(sorting) => {
                self.outlinks = sorting.finish(&mut self.sorted_accounts);
                Phase::Flows(FlowTables::new(&self.outlinks, thresholds.min_flow))
            }
            Phase::Flows(tables) => {
                self.flows = tables.finish();
                self.outlinks.sent = Csr::default();
                Phase::Free
            }
            Phase::Free => {
                self.outlinks.received = Csr::default();
                Phase::Matrix(MatrixBuilder::new(accounts))
            }
            Phase::Matrix(builder) => {
                self.graph.matrix = builder.finish();
                self.flows.outflows = Csr::default();
                Phase::Structure(StructureBuilder::new(accounts, thresholds.similarity))
            }
            Phase::Structure(builder) => {
                self.graph.structure = builder.finish();
                let blocks = self.graph.structure.clusters.sizes.len();
                Phase::Rank(PowerIteration::new(accounts, blocks, self.accounts.counted()))
            }
            Phase::Rank(iteration) => {
                self.results.iterations = iteration.iterations();
                self.ranks = iteration.finish();
                Phase::Score(Scoring::new(accounts))
            }
            Phase::Score(scoring) => {
                self.scores = scoring.finish();
                self.results.height = self.settings.height;
                self.results.accounts_counted = self.accounts.counted();
                self.results.accounts.reserve_exact(accounts);
                Phase::Collect
            }
            Phase::Collect | Phase::Done => Phase::Done,
        };
    }

    /// Converts the results to the order of ids; returns true when finished.
    fn collect(&mut self, budget: &mut WorkBudget) -> bool {
        let numbers = self.accounts.ids();
        let mut to = self.results.accounts.len();
        for account in budget.advance(&mut to, numbers.len()) {
            let index = self.sorted_accounts.index[account] as usize;
            self.results.accounts.push(Importance {
                account: numbers[account],
                importance: self.scores[index],
                page_rank: self.ranks[index],
            });
        }
        to == numbers.len()
    }

    /// Returns the graph. Valid once the calculation is done.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the outlink scores by account index. Valid once the calculation is done.
    pub fn outlink_scores(&self) -> &[f64] {
        &self.flows.scores
    }

    /// Returns the results. Valid once a step has returned [`CalculationProgress::Done`].
    pub fn into_results(self) -> Importances {
        self.results
    }
}
