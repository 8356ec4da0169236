//! A private network with five harvesters and paying users, in virtual time: block times are as expected, and each
//! harvester makes its share of the blocks and of their fees.
//!
//! Random outcomes (hits and users' payments) are compared with their exact odds. A correct implementation exceeds one
//! of the bounds once in some hundred thousand seeds, while the opposite assumptions (equal chances, stabilized block
//! times where they are not and vice versa) exceed them by far in every run, which is also checked. Every run draws the
//! same numbers; `NISD_SEED` selects others.

use std::time::Duration;

use crate::common::node_network::announcement;
use crate::common::private_network::{Genesis, NETWORK, TOTAL, address, key_pair, private_key};
use crate::common::recorded_chain::import_list;
use crate::common::simulated_node::{SimulatedNode, simulated_network};
use crate::common::{Random, UNREAD_TESTNET, from_environment, load_settings, print_notice};
use crate::simulation::statistics::{TargetParameters, cells, chances, chi_square, chi_square_bound};
use crate::simulation::traffic::Traffic;
use nisd::codec::Context;
use nisd::config::Settings;
use nisd::crypto::KeyPair;
use nisd::model::network::{ChainParameters, ImportanceScheme, Vesting};
use nisd::model::{Address, Amount, Block, Body, Height, Network, Timestamp, Transaction};
use nisd::state;
use nisd::store::{ChainIdentity, Options, Store, StoredHeader, stored_block, tip};

/// Default seed.
const SEED: u64 = 1;
/// Time of the nemesis block.
const START: Timestamp = Timestamp(300_000_000);
/// Initial balances of the harvesters in whole units, 8·10⁹ in total.
const HARVESTERS: [u64; 5] = [3_200_000_000, 2_000_000_000, 1_400_000_000, 900_000_000, 500_000_000];
/// The harvester that delegates its importance to a remote account, and the height after which it announces that.
const DELEGATOR: usize = 1;
const DELEGATES_AFTER: u64 = 3;
/// Number of users who make payments and share the rest.
const SENDERS: u64 = 10;
/// Key numbers of the harvesters, the senders and the remote account.
const FIRST_HARVESTER: u64 = 1;
const FIRST_SENDER: u64 = 11;
const REMOTE: u64 = 101;
/// Seconds from the start of a node until it harvests, minus the second that passes before it may.
const HARVEST_DELAY: i32 = 4;
/// Standard deviations that a sum of many draws exceeds once in two million runs.
const MAX_DEVIATIONS: f64 = 5.0;

fn harvester_keys(index: usize) -> KeyPair {
    key_pair(FIRST_HARVESTER + index as u64)
}

fn harvester(index: usize) -> Address {
    address(&harvester_keys(index))
}

fn remote() -> Address {
    address(&key_pair(REMOTE))
}

/// A network and the length of its run.
struct Scenario {
    importance: ImportanceScheme,
    vesting: Vesting,
    stabilized: bool,
    target_time: u32,
    rewrite_limit: u64,
    blocks: usize,
    /// Payments per hundred seconds.
    rate: usize,
    /// Mean, standard deviation, 5 % and 95 % quantiles of the block intervals according to the formulas, each with the
    /// tolerance for a run of this length: at least five standard errors, including the first blocks, during which the
    /// difficulty still rises.
    table: [(f64, f64); 4],
}

impl Scenario {
    fn target_parameters(&self) -> TargetParameters {
        TargetParameters { target_time: f64::from(self.target_time), stabilized: self.stabilized }
    }

    fn network(&self, random: &mut Random) -> Network {
        let chain = ChainParameters {
            target_time: self.target_time,
            rewrite_limit: self.rewrite_limit,
            max_transactions: 1200,
            importance: self.importance,
            vesting: self.vesting,
            stabilize_block_times: self.stabilized,
            ..ChainParameters::after_all_forks()
        };
        simulated_network(chain, random)
    }
}

/// Returns the nemesis block, which funds everyone.
fn nemesis() -> Vec<u8> {
    let each = (TOTAL - HARVESTERS.iter().sum::<u64>()) / SENDERS;
    let harvesters = HARVESTERS.iter().enumerate().map(|(index, units)| (harvester(index), Amount::whole(*units)));
    let senders = (0..SENDERS).map(|index| (address(&key_pair(FIRST_SENDER + index)), Amount::whole(each)));
    Genesis::new(START, &harvesters.chain(senders).collect::<Vec<_>>()).block
}

/// The chances to make a block, and who made it.
struct Harvest {
    seconds: usize,
    difficulty: u64,
    /// Importances of the harvesters in whole units.
    stakes: [f64; 5],
    winner: usize,
    fees: f64,
}

impl Harvest {
    /// Returns the chances that the block is made after 1, 2, … seconds.
    fn intervals(&self, parameters: TargetParameters) -> Vec<f64> {
        chances(parameters, self.difficulty, self.stakes.iter().sum())
    }

    /// Returns the chance of each harvester to make the block at any time.
    fn chances(&self) -> [f64; 5] {
        self.stakes.map(|stake| stake / self.stakes.iter().sum::<f64>())
    }
}

/// A running network.
struct Simulation<'n> {
    scenario: &'n Scenario,
    network: &'n Network,
    store: &'n Store,
    node: SimulatedNode<'n>,
    traffic: Traffic,
    /// Announced transactions that are in no block yet.
    pending: Vec<Transaction>,
    harvests: Vec<Harvest>,
    /// Time of the tip.
    last: Timestamp,
    /// Importances of the harvesters for the next block, in whole units.
    stakes: [f64; 5],
    /// Height from which the remote account harvests.
    delegated_from: Option<Height>,
    /// Number of blocks that could not include a transaction of their harvester.
    held_back: usize,
}

impl<'n> Simulation<'n> {
    fn new(scenario: &'n Scenario, settings: &'n Settings, store: &'n Store, random: Random) -> Simulation<'n> {
        import_list(store, &settings.network, &nemesis(), []);
        let mut node = SimulatedNode::start(store, settings, Timestamp(START.0 - HARVEST_DELAY));
        (0..HARVESTERS.len() as u64).for_each(|index| unlock(&mut node, FIRST_HARVESTER + index));
        node.run_for(Duration::from_secs(HARVEST_DELAY as u64));
        let traffic = Traffic {
            senders: (0..SENDERS).map(|index| key_pair(FIRST_SENDER + index)).collect(),
            harvesters: (0..HARVESTERS.len()).map(harvester_keys).collect(),
            random,
        };
        let mut simulation = Simulation {
            scenario,
            network: &settings.network,
            store,
            node,
            traffic,
            pending: Vec::new(),
            harvests: Vec::new(),
            last: START,
            stakes: [0.0; 5],
            delegated_from: None,
            held_back: 0,
        };
        simulation.look_up_stakes(Height::NEMESIS.next());
        simulation
    }

    fn run(&mut self) {
        while self.harvests.len() < self.scenario.blocks {
            let now = Timestamp(self.node.time().0 + 1);
            let mut new: Vec<_> = self.traffic.payment(now, self.scenario.rate).into_iter().collect();
            if self.harvests.len() as u64 == DELEGATES_AFTER && self.last == self.node.time() {
                new.push(self.traffic.delegation(DELEGATOR, key_pair(REMOTE).public(), now));
            }
            let before = self.tip().height;
            self.node.run_for(Duration::from_secs(1));
            let header = self.tip();
            for transaction in new {
                let answer = self.node.post("/transaction/announce", &announcement(&transaction));
                let text = String::from_utf8_lossy(&answer.body);
                assert!(answer.status == 200 && text.contains("\"SUCCESS\""), "{text} {transaction:?}");
                self.pending.push(transaction);
            }
            if header.height > before {
                assert_eq!(header.height, before.next(), "one block in a second");
                self.on_block(&header);
            }
        }
    }

    fn tip(&self) -> StoredHeader {
        tip(&self.store.snapshot().unwrap()).unwrap().unwrap()
    }

    fn on_block(&mut self, header: &StoredHeader) {
        let height = header.height;
        let snapshot = self.store.snapshot().unwrap();
        let (_, block) = stored_block(&snapshot, height, Context::of(self.network)).unwrap().unwrap();
        drop(snapshot);
        let is_remote = self.delegated_from.is_some_and(|from| height >= from);
        let signer = |index| if index == DELEGATOR && is_remote { remote() } else { harvester(index) };
        let signed_by = Address::from_public_key(&block.signer, NETWORK);
        let winner = (0..HARVESTERS.len()).find(|index| signer(*index) == signed_by).expect("a permitted harvester");
        let beneficiary = (signed_by == remote()).then_some(harvester(DELEGATOR));
        assert_eq!(header.beneficiary, beneficiary, "block {height}");
        self.check_own_transactions(&block, winner);
        let hashes: Vec<_> = block.transactions.iter().map(Transaction::hash).collect();
        self.pending.retain(|one| !hashes.contains(&one.hash()));

        self.harvests.push(Harvest {
            seconds: (block.timestamp.0 - self.last.0) as usize,
            difficulty: header.difficulty,
            stakes: self.stakes,
            winner,
            fees: block.total_fee().0 as f64,
        });
        self.last = block.timestamp;
        self.look_up_stakes(height.next());
        // The remote account may be unlocked at once but harvests only later.
        if block.transactions.iter().any(|transaction| matches!(transaction.body, Body::ImportanceTransfer(_))) {
            self.delegated_from = Some(height.plus(self.scenario.rewrite_limit));
            unlock(&mut self.node, REMOTE);
        }
    }

    /// A harvester may not include its own transactions.
    fn check_own_transactions(&mut self, block: &Block, winner: usize) {
        let own = |transaction: &Transaction| transaction.signer_address(NETWORK) == harvester(winner);
        assert!(!block.transactions.iter().any(own), "block {}", block.height);
        let waits = |one: &Transaction| own(one) && one.timestamp < block.timestamp;
        self.held_back += usize::from(self.pending.iter().any(waits));
    }

    /// Looks up the stakes for the block at a height. They equal the balances if nothing else counts.
    fn look_up_stakes(&mut self, height: Height) {
        let snapshot = self.store.snapshot().unwrap();
        let balance = |address: &Address| state::account(&snapshot, address).unwrap().balance.total() as f64;
        let is_new =
            height == Height::NEMESIS.next() || height.importance_height() != Height(height.0 - 1).importance_height();
        for (index, stake) in self.stakes.iter_mut().enumerate() {
            let found = state::importance(&snapshot, &harvester(index)).unwrap().unwrap();
            assert_eq!(found.height, height.importance_height());
            *stake = (found.importance * TOTAL as f64).trunc();
            if is_new && self.scenario.importance == ImportanceScheme::ProofOfStake {
                let share = balance(&harvester(index)) / Amount::whole(TOTAL).0 as f64;
                assert!((*stake / TOTAL as f64 / share - 1.0).abs() < 1e-6, "block {height}: {stake}, {share}");
            }
        }
    }

    /// Returns the number of blocks of each harvester.
    fn counts(&self) -> [f64; 5] {
        let mut counts = [0.0; 5];
        self.harvests.iter().for_each(|harvest| counts[harvest.winner] += 1.0);
        counts
    }
}

/// Unlocks an account for harvesting.
fn unlock(node: &mut SimulatedNode<'_>, key: u64) {
    let answer = node.post("/account/unlock", &format!("{{\"value\":\"{}\"}}", private_key(key).printed().as_str()));
    assert_eq!((answer.status, answer.body.as_slice()), (200, b"".as_slice()));
}

/// Returns how far the intervals are from their expectation.
fn distance(harvests: &[Harvest], parameters: TargetParameters) -> (f64, usize) {
    let (mut counts, mut expected) = (Vec::new(), Vec::new());
    let add = |sums: &mut Vec<f64>, place: usize, one: f64| {
        sums.resize(sums.len().max(place + 1), 0.0);
        sums[place] += one;
    };
    for harvest in harvests {
        add(&mut counts, harvest.seconds - 1, 1.0);
        let chances = harvest.intervals(parameters);
        chances.into_iter().enumerate().for_each(|(place, chance)| add(&mut expected, place, chance));
    }
    let longest = counts.len().max(expected.len());
    [&mut counts, &mut expected].into_iter().for_each(|sums| sums.resize(longest, 0.0));
    let (counts, expected) = cells(&counts, &expected);
    chi_square(&counts, &expected)
}

/// Checks that the intervals are distributed according to the formulas, and not as if block times were stabilized where
/// they are not or vice versa.
fn assert_block_times(scenario: &Scenario, harvests: &[Harvest]) {
    let parameters = scenario.target_parameters();
    let opposite = TargetParameters { stabilized: !parameters.stabilized, ..parameters };
    let (own, opposite) = (distance(harvests, parameters), distance(harvests, opposite));
    let mut seconds: Vec<f64> = harvests.iter().map(|harvest| harvest.seconds as f64).collect();
    seconds.sort_by(f64::total_cmp);
    let count = seconds.len() as f64;
    let mean = seconds.iter().sum::<f64>() / count;
    let deviation = (seconds.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count).sqrt();
    let quantile = |part: f64| seconds[(part * count) as usize];
    let measured = [("mean", mean), ("deviation", deviation), ("5 %", quantile(0.05)), ("95 %", quantile(0.95))];
    for ((name, found), (wanted, tolerance)) in measured.into_iter().zip(scenario.table) {
        print_notice(&format!("  interval {name:>10}: {found:7.2} s, by the table {wanted:.1} s"));
        assert!((found - wanted).abs() <= tolerance, "{name}: {found}");
    }
    let bound = chi_square_bound(own.1);
    print_notice(&format!("  intervals: chi-square {:.1}, bound {bound:.1} ({} degrees)", own.0, own.1));
    assert!(own.0 < bound && opposite.0 > 2.0 * chi_square_bound(opposite.1), "{own:?}, {opposite:?}");
}

/// Checks that each harvester has the share of blocks and fees that its importance implies.
fn assert_shares(simulation: &Simulation<'_>) {
    let harvests = &simulation.harvests;
    let (counts, count) = (simulation.counts(), harvests.len() as f64);
    let (mut expected, mut fees, mut expected_fees, mut variances) = ([0.0; 5], [0.0; 5], [0.0; 5], [0.0; 5]);
    for harvest in harvests {
        fees[harvest.winner] += harvest.fees;
        for (index, chance) in harvest.chances().into_iter().enumerate() {
            expected[index] += chance;
            expected_fees[index] += chance * harvest.fees;
            variances[index] += chance * (1.0 - chance) * harvest.fees.powi(2);
        }
    }
    for index in 0..HARVESTERS.len() {
        let deviations = (fees[index] - expected_fees[index]) / f64::sqrt(variances[index]);
        let (blocks, expected) = (counts[index], expected[index]);
        print_notice(&format!("  harvester {index}: {blocks} blocks of {expected:.1}, fees off by {deviations:.2}"));
        assert!(deviations.abs() < MAX_DEVIATIONS);
    }
    let (own, degrees) = chi_square(&counts, &expected);
    let (equal, bound) = (chi_square(&counts, &[count / 5.0; 5]).0, chi_square_bound(degrees));
    print_notice(&format!("  blocks of each: chi-square {own:.1}, bound {bound:.1}; if chances were equal {equal:.1}"));
    assert!(own < bound && equal > 2.0 * bound);
    assert!(fees.iter().sum::<f64>() > 0.0);
}

fn run_and_check(name: &str, scenario: &Scenario) {
    let seed = from_environment("NISD_SEED").unwrap_or(SEED);
    let mut random = Random(seed);
    let mut settings = load_settings(None, &UNREAD_TESTNET);
    settings.peers.unlocked_limit = HARVESTERS.len() as i32 + 1;
    let settings = Settings { network: scenario.network(&mut random), ..settings };
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &ChainIdentity::of(&settings.network), Options::default()).unwrap();
    let mut simulation = Simulation::new(scenario, &settings, &store, random);
    simulation.run();
    let virtual_time = simulation.last.0 - START.0;
    print_notice(&format!("{name}: {} blocks in {virtual_time} s, seed {seed}", scenario.blocks));
    assert_block_times(scenario, &simulation.harvests);
    assert_shares(&simulation);
    let delegated = simulation.harvests.iter().filter(|harvest| harvest.winner == DELEGATOR).count();
    assert!(simulation.delegated_from.is_some() && delegated > 0);
    assert!(simulation.held_back > 0, "no transaction of a harvester ever had to wait");
}

#[test]
fn five_harvesters_share_two_thousand_blocks_of_a_devnet_by_their_stakes() {
    run_and_check(
        "proof of stake, immediate vesting, stabilized",
        &Scenario {
            importance: ImportanceScheme::ProofOfStake,
            vesting: Vesting::Immediate,
            stabilized: true,
            target_time: 10,
            rewrite_limit: 10,
            blocks: 2_000,
            rate: 25,
            table: [(10.0, 0.3), (1.8, 0.3), (7.0, 1.0), (12.0, 1.0)],
        },
    );
}

#[test]
fn five_harvesters_share_five_hundred_blocks_by_their_importances() {
    run_and_check(
        "proof of importance, time-based vesting",
        &Scenario {
            importance: ImportanceScheme::ProofOfImportance,
            vesting: Vesting::TimeBased,
            stabilized: false,
            target_time: 60,
            rewrite_limit: 360,
            blocks: 500,
            rate: 5,
            table: [(60.6, 15.0), (61.5, 20.0), (3.0, 4.0), (183.0, 60.0)],
        },
    );
}
