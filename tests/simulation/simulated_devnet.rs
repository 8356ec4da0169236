//! A private network with five harvesters and active users, in virtual time: block times are as expected, each
//! harvester makes its share of the blocks and receives their fees, and the resulting chain passes every check.
//!
//! Random outcomes (hits and users' actions) are compared with their exact odds. A correct implementation exceeds one
//! of the bounds once in some hundred thousand seeds, while the opposite assumptions (equal chances, stabilized block
//! times where they are not and vice versa) exceed them by far in every run, which is also checked. Every run draws the
//! same numbers; `NISD_SEED` selects others.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::books::BalanceSheet;
use crate::common::daemon::run;
use crate::common::odds::{TargetParameters, cells, chances, chi_square, chi_square_bound};
use crate::common::simulation::SimulatedNode;
use crate::common::traffic::{Traffic, Users};
use crate::common::{Random, from_environment, print_notice};
use nisd::chain::{BlockImporter, BlockSource, ImportOptions, ImportProgress};
use nisd::codec::block_file::BlockFiles;
use nisd::codec::{Context, SigningForm};
use nisd::config::{self, Settings};
use nisd::crypto::{KeyPair, PrivateKey};
use nisd::model::network::{ChainParameters, ImportanceScheme, Vesting};
use nisd::model::transaction::{Transfer, wire_version};
use nisd::model::{
    Address, Amount, Block, BlockKind, Body, Hash256, Height, Network, NetworkByte, Timestamp, Transaction,
};
use nisd::net::service::ConnectionId;
use nisd::state;
use nisd::store::{ChainIdentity, Options, Store, StoredHeader, block_row, stored_block, stored_header};

/// Default seed.
const SEED: u64 = 1;
const BYTE: NetworkByte = NetworkByte::TESTNET;
/// Total supply in whole units.
const SUPPLY: u64 = 8_999_999_999;
/// Time of the nemesis block.
const START: Timestamp = Timestamp(300_000_000);
/// Initial balances of the harvesters in whole units, 8·10⁹ in total.
const HARVESTERS: [u64; 5] = [3_200_000_000, 2_000_000_000, 1_400_000_000, 900_000_000, 500_000_000];
/// The harvester that delegates its importance to a remote account, and the height after which it announces that.
const DELEGATOR: usize = 1;
const DELEGATES_AFTER: u64 = 3;
/// Number of users who send transactions and share the rest.
const SENDERS: u64 = 10;
/// Seconds from the start of a node until it harvests, minus the second that passes before it may.
const HARVEST_DELAY: i32 = 4;
/// Standard deviations that a sum of many draws exceeds once in two million runs.
const MAX_DEVIATIONS: f64 = 5.0;

fn seed() -> u64 {
    from_environment("NISD_SEED").unwrap_or(SEED)
}

/// Returns the keys at an index: the nemesis account, the harvesters, the senders and the remote account.
fn key(place: usize) -> KeyPair {
    KeyPair::new(&private_key(place))
}

fn private_key(place: usize) -> PrivateKey {
    PrivateKey::from_seed(&[place as u8 + 1; 32])
}

const NEMESIS: usize = 0;
const FIRST_HARVESTER: usize = 1;
const FIRST_SENDER: usize = 11;
const REMOTE: usize = 101;

fn address(place: usize) -> Address {
    Address::from_public_key(&key(place).public(), BYTE)
}

fn harvester(index: usize) -> Address {
    address(FIRST_HARVESTER + index)
}

/// A network and the length of its run.
struct Scenario {
    importance: ImportanceScheme,
    vesting: Vesting,
    stabilized: bool,
    target_time: u32,
    rewrite_limit: u64,
    blocks: u64,
    /// Transactions per hundred seconds.
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

    /// Returns its network; each seed changes which keys hit when.
    fn network(&self, random: &mut Random) -> Network {
        let mut generation_hash = Hash256::default();
        generation_hash.0.as_chunks_mut().0.iter_mut().for_each(|part| *part = random.next().to_le_bytes());
        Network {
            name: "simulated".to_owned(),
            byte: BYTE,
            generation_hash,
            nemesis_signer: address(NEMESIS),
            total_amount: Amount::whole(SUPPLY),
            chain: ChainParameters {
                target_time: self.target_time,
                rewrite_limit: self.rewrite_limit,
                max_transactions: 1200,
                importance: self.importance,
                vesting: self.vesting,
                stabilize_block_times: self.stabilized,
                ..ChainParameters::after_all_forks()
            },
        }
    }
}

/// Returns the nemesis block, which funds everyone.
fn nemesis() -> Block {
    let signer = key(NEMESIS);
    let each = (SUPPLY - HARVESTERS.iter().sum::<u64>()) / SENDERS;
    let harvesters = HARVESTERS.iter().enumerate().map(|(index, units)| (harvester(index), *units));
    let senders = (0..SENDERS as usize).map(|index| (address(FIRST_SENDER + index), each));
    let payment = |(recipient, units)| {
        let body = Transfer { recipient, amount: Amount::whole(units), message: None, mosaics: Vec::new() };
        let mut transaction = Transaction {
            version: wire_version(BYTE, 1),
            timestamp: START,
            signer: signer.public(),
            signature: None,
            fee: Amount::ZERO,
            deadline: Timestamp(START.0 + 3600),
            body: Body::Transfer(body),
        };
        transaction.signature = Some(signer.sign(&transaction.signed_bytes()));
        transaction
    };
    let mut block = Block {
        kind: BlockKind::Nemesis,
        version: wire_version(BYTE, 1),
        timestamp: START,
        signer: signer.public(),
        signature: None,
        previous_hash: Hash256::default().into(),
        height: Height::NEMESIS,
        transactions: harvesters.chain(senders).map(payment).collect(),
    };
    block.signature = Some(signer.sign(&block.to_bytes(SigningForm::NonVerifiable)));
    block
}

/// Returns the settings of a node of a network.
fn settings(network: Network) -> Settings {
    let flag = |(key, value): (&str, &str)| config::Override {
        key: key.to_owned(),
        value: value.to_owned().into(),
        flag: "--set",
    };
    let flags = [("nem.network", "testnet"), ("nem.network.nemesisFilePath", "unread")];
    let mut settings = config::load(None, flags.map(flag).into(), Some(Path::new("unused"))).unwrap();
    settings.peers.unlocked_limit = HARVESTERS.len() as i32 + 1;
    Settings { network, ..settings }
}

fn open(folder: &Path, network: &Network) -> Store {
    Store::open(folder, &ChainIdentity::of(network), Options::default()).unwrap()
}

/// Imports blocks after the nemesis block.
fn import<'a>(store: &'a Store, network: &'a Network, blocks: BlockSource<'a>) {
    let options = ImportOptions { batch_steps: 8_000, batch_blocks: 500, stop_at: None, trusted_below: Height(0) };
    let nemesis = nemesis().to_bytes(SigningForm::Verifiable);
    let mut intake = BlockImporter::from_source(store, network, nemesis, blocks, options).unwrap();
    while intake.step(Timestamp(i32::MAX - 100)).unwrap() != ImportProgress::Done {}
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
    fn intervals(&self, pace: TargetParameters) -> Vec<f64> {
        chances(pace, self.difficulty, self.stakes.iter().sum())
    }

    /// Returns the chance of each harvester to make the block at any time.
    fn chances(&self) -> [f64; 5] {
        self.stakes.map(|stake| stake / self.stakes.iter().sum::<f64>())
    }
}

/// A block that the node has made and added to its chain.
struct Made {
    block: Block,
    /// Its stored header.
    header: StoredHeader,
}

/// A running network.
struct Simulation<'n> {
    scenario: &'n Scenario,
    network: &'n Network,
    store: &'n Store,
    node: SimulatedNode<'n>,
    /// A websocket subscribed to unconfirmed transactions.
    listener: ConnectionId,
    traffic: Traffic<'n>,
    balance_sheet: BalanceSheet,
    announced: Vec<Transaction>,
    /// Announced transactions that are in no block yet, by hash.
    pending: BTreeMap<Hash256, Transaction>,
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
        let network = &settings.network;
        import(store, network, BlockSource::Files(BlockFiles::new(Vec::new())));
        let mut node = SimulatedNode::start(store, settings, Timestamp(START.0 - HARVEST_DELAY), 1);
        (0..HARVESTERS.len()).for_each(|index| unlock(&mut node, FIRST_HARVESTER + index));
        node.run_for(Duration::from_secs(HARVEST_DELAY as u64));
        let listener = node.open();
        node.send_message(listener, "CONNECT\naccept-version:1.2\n\n\0SUBSCRIBE\nid:0\ndestination:/unconfirmed\n\n\0");
        node.recorder.sent.clear();
        let people = Users {
            senders: (0..SENDERS as usize).map(|index| key(FIRST_SENDER + index)).collect(),
            harvesters: (0..HARVESTERS.len()).map(|index| key(FIRST_HARVESTER + index)).collect(),
        };
        let mut books = BalanceSheet::default();
        books.add_block(&nemesis(), address(NEMESIS), network);
        let mut simulation = Simulation {
            scenario,
            network,
            store,
            node,
            listener,
            traffic: Traffic::new(network, people, random, START),
            balance_sheet: books,
            announced: Vec::new(),
            pending: BTreeMap::new(),
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
        self.run_to(self.scenario.blocks);
    }

    /// Runs until this height.
    fn run_to(&mut self, blocks: u64) {
        while (self.harvests.len() as u64) < blocks {
            let mut now = self.traffic.next_second(self.scenario.rate);
            if self.harvests.len() as u64 == DELEGATES_AFTER && self.last == self.node.time() {
                now.push(self.traffic.delegation(DELEGATOR, key(REMOTE).public()));
            }
            let made = self.second();
            now.iter().for_each(|transaction| self.announce(transaction));
            self.announced.extend(now);
            made.into_iter().for_each(|made| self.on_block(&made));
        }
    }

    /// Advances by one second.
    fn second(&mut self) -> Option<Made> {
        let before = self.tip().height;
        self.node.run_for(Duration::from_secs(1));
        let header = self.tip();
        let snapshot = self.store.snapshot().unwrap();
        let block = stored_block(&snapshot, header.height, Context::of(self.network)).unwrap().unwrap().1;
        (header.height > before).then(|| {
            assert_eq!(header.height, before.next(), "one block in a second");
            Made { block, header }
        })
    }

    fn tip(&self) -> StoredHeader {
        nisd::store::tip(&self.store.snapshot().unwrap()).unwrap().unwrap()
    }

    /// Announces a transaction and checks that the subscriber is notified once.
    fn announce(&mut self, transaction: &Transaction) {
        let (data, signature) = (transaction.signed_bytes(), transaction.signature.expect("a signed transaction").0);
        let json = format!("{{\"data\":\"{}\",\"signature\":\"{}\"}}", hex::encode(data), hex::encode(signature));
        let answer = self.node.post("/transaction/announce", &json);
        let text = String::from_utf8(answer.body).unwrap();
        assert!(answer.status == 200 && text.contains("\"message\":\"SUCCESS\""), "{text} {transaction:?}");
        self.node.run_for(Duration::ZERO);
        let (socket, message) = self.node.recorder.sent.pop_front().expect("a message");
        let message = String::from_utf8(message).unwrap();
        assert_eq!(socket, self.listener);
        assert!(message.contains(&hex::encode(signature)) && self.node.recorder.sent.is_empty(), "{message}");
        self.pending.insert(transaction.hash(), transaction.clone());
    }

    fn on_block(&mut self, made: &Made) {
        let Made { block, header } = made;
        let height = block.height;
        let is_remote = self.delegated_from.is_some_and(|from| height >= from);
        let signer = |index| if index == DELEGATOR && is_remote { address(REMOTE) } else { harvester(index) };
        let signers: Vec<Address> = (0..HARVESTERS.len()).map(signer).collect();
        let signed_by = Address::from_public_key(&block.signer, BYTE);
        let winner = signers.iter().position(|signer| *signer == signed_by).expect("one of those that may");
        self.assert_own_transactions_wait(made, winner);
        assert_eq!(
            header.beneficiary,
            (signed_by == address(REMOTE)).then_some(harvester(DELEGATOR)),
            "block {height}"
        );
        for one in block.transactions.iter().flat_map(Transaction::self_and_children) {
            self.pending.remove(&one.hash());
        }
        self.pending.retain(|_, one| one.deadline >= block.timestamp);

        self.harvests.push(Harvest {
            seconds: (block.timestamp.0 - self.last.0) as usize,
            difficulty: header.difficulty,
            stakes: self.stakes,
            winner,
            fees: block.total_fee().0 as f64,
        });
        self.last = block.timestamp;
        self.balance_sheet.add_block(block, harvester(winner), self.network);
        self.look_up_stakes(height.next());
        self.traffic.on_block(block);
        self.start_delegation(block);
    }

    /// The remote account may be unlocked at once but harvests only later.
    fn start_delegation(&mut self, block: &Block) {
        if block.transactions.iter().any(|transaction| matches!(transaction.body, Body::ImportanceTransfer(_))) {
            self.delegated_from = Some(block.height.plus(self.scenario.rewrite_limit));
            unlock(&mut self.node, REMOTE);
        }
    }

    /// A harvester may not include its own transactions.
    fn assert_own_transactions_wait(&mut self, made: &Made, winner: usize) {
        let own = |transaction: &Transaction| transaction.signer_address(BYTE) == harvester(winner);
        assert!(!made.block.transactions.iter().any(own), "block {}", made.block.height);
        let waits = |one: &Transaction| own(one) && one.timestamp < made.block.timestamp;
        self.held_back += usize::from(self.pending.values().any(waits));
    }

    /// Looks up the stakes for the block at a height. They equal the balances if nothing else counts.
    fn look_up_stakes(&mut self, height: Height) {
        let snapshot = self.store.snapshot().unwrap();
        for (index, stake) in self.stakes.iter_mut().enumerate() {
            let found = state::importance(&snapshot, &harvester(index)).unwrap().unwrap();
            assert_eq!(found.height, height.importance_height());
            *stake = (found.importance * SUPPLY as f64).trunc();
        }
        let is_new =
            height == Height::NEMESIS.next() || height.importance_height() != Height(height.0 - 1).importance_height();
        if is_new && self.scenario.importance == ImportanceScheme::ProofOfStake {
            let shared_out = -self.balance_sheet.balance(&address(NEMESIS));
            for (index, stake) in self.stakes.iter().enumerate() {
                let share = self.balance_sheet.balance(&harvester(index)) as f64 / shared_out as f64;
                assert!((stake / SUPPLY as f64 / share - 1.0).abs() < 1e-6, "block {height}: {stake}, {share}");
            }
        }
    }

    /// Checks that every balance equals the sum over the blocks, and that no transaction is lost.
    fn assert_nothing_is_lost(&mut self) {
        let snapshot = self.store.snapshot().unwrap();
        for (account, expected) in self.balance_sheet.balances().filter(|(account, _)| **account != address(NEMESIS)) {
            let balance = state::account(&snapshot, account).unwrap().balance;
            assert_eq!(i128::from(balance.total()), expected, "{account}");
        }
        for (index, count) in self.counts().iter().enumerate() {
            let account = state::account(&snapshot, &harvester(index)).unwrap();
            assert_eq!(account.harvested_blocks as f64, *count, "harvester {index}");
        }
        let now = self.node.time();
        for transaction in &self.announced {
            let is_confirmed = state::find_remembered_hash(&snapshot, &transaction.hash()).unwrap().is_some();
            let has_expired = transaction.self_and_children().any(|one| one.deadline < now);
            if !is_confirmed && !has_expired {
                let signer = transaction.signer_address(BYTE);
                let answer = self.node.get(&format!("/account/unconfirmedTransactions?address={signer}"));
                let signature = hex::encode(transaction.signature.unwrap().0);
                assert!(String::from_utf8(answer.body).unwrap().contains(&signature), "{transaction:?}");
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
fn unlock(node: &mut SimulatedNode<'_>, place: usize) {
    let answer = node.post("/account/unlock", &format!("{{\"value\":\"{}\"}}", private_key(place).printed().as_str()));
    assert_eq!((answer.status, answer.body.as_slice()), (200, b"".as_slice()));
}

/// Returns how far the intervals are from their expectation.
fn distance(harvests: &[Harvest], pace: TargetParameters) -> (f64, usize) {
    let (mut counts, mut expected) = (Vec::new(), Vec::new());
    let add = |sums: &mut Vec<f64>, place: usize, one: f64| {
        sums.resize(sums.len().max(place + 1), 0.0);
        sums[place] += one;
    };
    for harvest in harvests {
        add(&mut counts, harvest.seconds - 1, 1.0);
        let chances = harvest.intervals(pace);
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
    let pace = scenario.target_parameters();
    let opposite = TargetParameters { stabilized: !pace.stabilized, ..pace };
    let (own, opposite) = (distance(harvests, pace), distance(harvests, opposite));
    let mut seconds: Vec<f64> = harvests.iter().map(|harvest| harvest.seconds as f64).collect();
    seconds.sort_by(f64::total_cmp);
    let count = seconds.len() as f64;
    let mean = seconds.iter().sum::<f64>() / count;
    let deviation = (seconds.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / count).sqrt();
    let quantile = |part: f64| seconds[(part * count) as usize];
    let measured = [mean, deviation, quantile(0.05), quantile(0.95)];
    for (name, (found, (wanted, tolerance))) in
        ["mean", "deviation", "5 %", "95 %"].iter().zip(measured.iter().zip(scenario.table))
    {
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
    print_notice("  harvester   blocks  expected   fees (XEM)  expected  deviations");
    for index in 0..HARVESTERS.len() {
        let deviations = (fees[index] - expected_fees[index]) / f64::sqrt(variances[index]);
        let [own, due] = [fees[index], expected_fees[index]].map(|micro| micro / 1e6);
        let (blocks, chances) = (counts[index], expected[index]);
        print_notice(&format!(
            "  {index:>9}  {blocks:>7}  {chances:>8.1}  {own:>11.1}  {due:>8.1}  {deviations:>10.2}"
        ));
        assert!(deviations.abs() < MAX_DEVIATIONS);
    }
    let (own, degrees) = chi_square(&counts, &expected);
    let (equal, bound) = (chi_square(&counts, &[count / 5.0; 5]).0, chi_square_bound(degrees));
    print_notice(&format!("  blocks of each: chi-square {own:.1}, bound {bound:.1}; if chances were equal {equal:.1}"));
    assert!(own < bound && equal > 2.0 * bound);
    assert!(fees.iter().sum::<f64>() > 0.0);
}

/// Checks that the store passes `nisd check`, and that another store has the same state after importing the same
/// blocks.
fn assert_passes_every_check(folder: &Path, store: &Store, network: &Network) {
    let snapshot = store.snapshot().unwrap();
    let (digest, tip) = (state::digest(&snapshot).unwrap(), nisd::store::tip(&snapshot).unwrap().unwrap());
    let checked = run(["check", "--data", folder.to_str().unwrap()]).expect_success().text();
    assert_eq!(checked, format!("{} {digest}\n", tip.height));
    let other_folder = tempfile::tempdir().unwrap();
    let other = open(other_folder.path(), network);
    let block_at = |height| block_row(&snapshot, height)?.map(|row| row.verified_bytes()).transpose();
    import(&other, network, BlockSource::stored(Height::NEMESIS.next(), block_at));
    let taken_in = other.snapshot().unwrap();
    assert_eq!(state::digest(&taken_in).unwrap(), digest);
    assert_eq!(stored_header(&taken_in, tip.height).unwrap().unwrap(), tip);
}

fn run_and_check(name: &str, scenario: &Scenario) {
    let begun = Instant::now();
    let mut random = Random(seed());
    let settings = settings(scenario.network(&mut random));
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), &settings.network);
    let mut simulation = Simulation::new(scenario, &settings, &store, random);
    simulation.run();
    let (blocks, virtual_time) = (simulation.harvests.len(), simulation.last.0 - START.0);
    let announced = simulation.announced.len();
    print_notice(&format!("{name}: {blocks} blocks, {announced} transactions in {virtual_time} s, seed {}", seed()));
    print_notice(&format!("  simulated in {:.1} s", begun.elapsed().as_secs_f64()));
    assert_block_times(scenario, &simulation.harvests);
    assert_shares(&simulation);
    simulation.assert_nothing_is_lost();
    let remote = simulation.harvests.iter().filter(|harvest| harvest.winner == DELEGATOR).count();
    assert!(simulation.delegated_from.is_some() && remote > 0);
    assert!(simulation.held_back > 0, "no transaction of a harvester ever had to wait");
    assert_passes_every_check(folder.path(), &store, &settings.network);
    print_notice(&format!("  with all checks in {:.1} s", begun.elapsed().as_secs_f64()));
}

/// Runs five nodes in parallel, each with its own network; returns what they did and their final states.
fn five_nodes(scenario: &Scenario) -> Vec<(u64, String, String)> {
    let mut random = Random(seed());
    let networks: Vec<Settings> = (0..5).map(|_| settings(scenario.network(&mut random))).collect();
    let folders: Vec<_> = networks.iter().map(|_| tempfile::tempdir().unwrap()).collect();
    let stores: Vec<_> = networks.iter().zip(&folders).map(|(one, folder)| open(folder.path(), &one.network)).collect();
    let mut simulations: Vec<_> = networks
        .iter()
        .zip(&stores)
        .map(|(settings, store)| Simulation::new(scenario, settings, store, Random(random.next())))
        .collect();
    // Interleaved, one block each, as in one event loop.
    for blocks in 1..=scenario.blocks {
        for simulation in &mut simulations {
            simulation.run_to(blocks);
        }
    }
    let ends = simulations.iter().zip(&stores).map(|(simulation, store)| {
        let digest = state::digest(&store.snapshot().unwrap()).unwrap().to_string();
        (simulation.node.recorder.effects, simulation.node.digest(), digest)
    });
    ends.collect()
}

#[test]
fn five_simulated_nodes_are_reproducible_byte_for_byte() {
    let scenario = Scenario {
        importance: ImportanceScheme::ProofOfStake,
        vesting: Vesting::Immediate,
        stabilized: true,
        target_time: 10,
        rewrite_limit: 10,
        blocks: 400,
        rate: 25,
        table: [(0.0, 0.0); 4],
    };
    let begun = Instant::now();
    let first = five_nodes(&scenario);
    print_notice(&format!("five nodes, {} blocks: {:.1} s", 5 * scenario.blocks, begun.elapsed().as_secs_f64()));
    assert!(first.iter().all(|(effects, ..)| *effects > 1_000), "{first:?}");
    assert_eq!(five_nodes(&scenario), first);
}

#[test]
fn five_harvesters_share_two_thousand_blocks_of_a_devnet_by_their_stakes() {
    run_and_check(
        "proof of stake, immediate vesting, stabilised",
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
