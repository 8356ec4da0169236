//! The course of one network: faults, then calm, and what must hold at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use nisd::chain::{DifficultyWindow, harvesting_importance, proof};
use nisd::model::{Address, Hash256, Height, Transaction};
use nisd::state;
use nisd::store::{Store, stored_block, tip};

use super::environment::{Environment, START, USERS, member_key, user_keys};
use super::event_books::{add_clients, settle};
use super::event_client::ClientCounts;
use super::fault::{Fault, Tally};
use super::impersonation::ImpersonationChecker;
use super::invariants::{BlockInfo, PeakUsage};
use super::network::Network;
use super::payments::movements;
use super::plan::{Act, ForkPlan, PROGRESS_UNTIL, PULLS_FROM, Plan, TICK_TIME};
use super::wallet_audit::{MessageAudit, MessageCounts};
use crate::common::private_network::{NETWORK, address, key_pair};
use nisd_oracle::invariants;

pub const SECOND: Duration = Duration::from_secs(1);
/// Seconds by which a transaction may be ahead of a clock.
const MAX_AHEAD: i32 = 10;
/// Maximum time for a network to converge and confirm all transactions after the last disturbance.
const MAX_CONVERGENCE_TIME: Duration = Duration::from_secs(1_200);
/// Maximum time for which an honest node may be backed off by another one that can reach it.
const MAX_BACKOFF_TIME: Duration = Duration::from_secs(600);
/// Interval between checks of whole states.
const CHECK_INTERVAL: u64 = 10;
/// Maximum time for a fork to reach its planned depth.
const FORKS_WITHIN: u64 = 1_500;
/// Time during which a too deep fork must persist.
const STAYS_FORKED: Duration = Duration::from_secs(150);

/// Result of a network.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub tally: Tally,
    /// Time from the calm until all members had one chain; `None` if that is impossible.
    pub convergence: Option<Duration>,
    pub virtual_time: Duration,
    /// Time that members have spent waiting for answers of byzantine peers about their chains.
    pub wasted_time: Duration,
    pub peak_usage: PeakUsage,
    pub blocks: u64,
    /// Digests of everything that each member did since its last start.
    pub digests: Vec<String>,
}

/// Simulates the network of a seed; panics if an invariant is violated.
pub fn simulate(seed: u64) -> Outcome {
    let plan = Plan::new(seed);
    with_network_run(&plan, |run| run.run())
}

/// Simulates the network of payments of a seed, with clients of `/events` whose books must equal the chain in the end.
/// Returns how often something happened to each of them.
pub fn simulate_books(seed: u64) -> Vec<ClientCounts> {
    let plan = Plan::of_payments(seed);
    with_network_run(&plan, |run| {
        add_clients(&mut run.network);
        run.run();
        settle(&mut run.network)
    })
}

/// Maximum number of blocks that a node of a private network may have to undo because of restarts: the lowest rewrite
/// limit that settings allow.
const MAX_UNDONE: u64 = 10;

/// Simulates three nodes that are killed and restarted in turn for this long: they have one chain at the end and never
/// diverge far. Returns how often one was started, and the maximum number of blocks undone at once.
pub fn simulate_restarts(seed: u64, time: Duration) -> (u32, u64) {
    let plan = Plan::of_restarts(seed, time);
    with_network_run(&plan, |run| {
        let (mut deepest, mut at) = (0, Duration::ZERO);
        while run.network.now < plan.calm_at {
            run.second();
            let running = run.network.members.iter().filter_map(|member| member.running.as_ref());
            let undone = running.map(|running| running.view.deepest).max().unwrap_or(0);
            if undone > deepest {
                (deepest, at) = (undone, run.network.now);
            }
        }
        run.calm();
        run.converge();
        assert!(deepest <= MAX_UNDONE, "seed {seed}: a member has undone {deepest} blocks at {at:?}");
        (run.network.members.iter().map(|member| member.start_count).sum(), deepest)
    })
}

/// How a network goes on beside byzantine peers.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgressReport {
    pub blocks: u64,
    /// Maximum time from when a member may make a block until it does, unless it receives another one.
    pub own_delay: Duration,
    /// Maximum time from the first member that has a block to the last, while blocks are pushed.
    pub push_delay: Duration,
    /// The same while one member is pushed no blocks.
    pub pull_delay: Duration,
    /// Maximum time for which a member has another and shorter chain: blocks that are pushed do not fit it, so it has to
    /// pull those of a member that it draws.
    pub fork_delay: Duration,
}

/// By then the members have found each other.
const PROGRESS_FROM: Duration = Duration::from_secs(60);

/// Simulates three members beside byzantine peers that claim to have a chain far ahead.
pub fn simulate_progress(seed: u64, byzantine_peers: usize) -> ProgressReport {
    const STEP: Duration = Duration::from_millis(100);
    with_network_run(&Plan::of_progress(seed, byzantine_peers), |run| {
        run.network.run_until(PROGRESS_FROM);
        let members = 0..run.network.members.len();
        let (mut pushed, mut pulled) = (Lag::default(), Lag::default());
        let mut report = ProgressReport::default();
        let first = run.height(0);
        // When each member may make a block after its present tip.
        let mut due: Vec<_> = members.clone().map(|_| (Hash256::default(), Duration::ZERO)).collect();
        while run.network.now < PROGRESS_UNTIL {
            run.network.run_until(run.network.now + STEP);
            let now = run.network.now;
            let views = run.network.members.iter().filter_map(|member| member.running.as_ref());
            let chains: Vec<_> = views.map(|running| running.view.chain.as_slice()).collect();
            if now < PULLS_FROM { &mut pushed } else { &mut pulled }.observe(now, &chains);
            for (member, (tip, may_harvest_at)) in members.clone().zip(&mut due) {
                let running = run.network.members[member].running.as_ref().expect("a member");
                let present = running.view.tip().hash;
                if *tip != present {
                    let hit = first_hit(running.store, member, run.network.environment);
                    log::debug!("member {member} may make a block at {hit:?}");
                    (*tip, *may_harvest_at) = (present, hit.max(now));
                }
                report.own_delay = report.own_delay.max(now.saturating_sub(*may_harvest_at));
            }
        }
        let blocks = run.height(0) - first;
        let fork_delay = pushed.most_forked.max(pulled.most_forked);
        ProgressReport { blocks, push_delay: pushed.most, pull_delay: pulled.most, fork_delay, ..report }
    })
}

/// By how much members are behind the first.
#[derive(Default)]
struct Lag {
    /// When each height was first reached that not all members have reached.
    reached: BTreeMap<u64, Duration>,
    /// Maximum for members whose chain is the beginning of the longest, and for others.
    most: Duration,
    most_forked: Duration,
}

impl Lag {
    fn observe(&mut self, now: Duration, chains: &[&[BlockInfo]]) {
        let Some(longest) = chains.iter().max_by_key(|chain| chain.len()) else { return };
        self.reached.entry(longest.len() as u64).or_insert(now);
        for chain in chains {
            let Some((_, since)) = self.reached.range(chain.len() as u64 + 1..).min_by_key(|(_, since)| **since) else {
                continue;
            };
            let tip = chain.last().map(|tip| tip.hash);
            let is_forked =
                tip != chain.len().checked_sub(1).and_then(|last| longest.get(last)).map(|block| block.hash);
            let most = if is_forked { &mut self.most_forked } else { &mut self.most };
            *most = (now - *since).max(*most);
        }
        let lowest = chains.iter().map(|chain| chain.len() as u64).min().unwrap_or(0);
        self.reached = self.reached.split_off(&(lowest + 1));
    }
}

/// Returns when a member may make a block after the tip of its store.
fn first_hit(store: &Store, member: usize, environment: &Environment) -> Duration {
    let (network, key) = (&environment.network, key_pair(1 + member as u64).public());
    let snapshot = store.snapshot().expect("a snapshot");
    let parent = tip(&snapshot).expect("a store").expect("a tip");
    let window = DifficultyWindow::load(&snapshot, parent.height).expect("a store");
    let difficulty = window.difficulty(network.chain.target_time).expect("a chain");
    let signer = Address::from_public_key(&key, NETWORK);
    let importance = harvesting_importance(&snapshot, &signer, parent.height.next(), network).expect("a store");
    let hit = proof::hit(&proof::generation_hash(&parent.generation_hash, &key));
    let is_hit = |seconds: &i32| proof::is_hit(hit, &proof::target(*seconds, importance, difficulty, &network.chain));
    let elapsed = (1..10_000).find(is_hit).unwrap_or(10_000);
    Duration::from_secs((parent.timestamp.0 + elapsed).saturating_sub(START.0).try_into().unwrap_or(0))
}

/// When wallets are opened in a network that is partitioned later.
const WALLETS_OPEN: Duration = Duration::from_secs(40);

/// Simulates a node that knows a peer which never exists. Returns its chain height after each of these times.
pub fn simulate_one_left(seed: u64, times: &[Duration]) -> Vec<u64> {
    with_network_run(&Plan::of_one_left(seed), |run| {
        let height = |time: &Duration| {
            run.network.run_until(*time);
            run.height(0)
        };
        times.iter().map(height).collect()
    })
}

/// Simulates a network that is partitioned and joined again, with a wallet at each member: it converges, and each wallet
/// receives every message exactly once. Returns the numbers of messages to each wallet.
pub fn simulate_partition(seed: u64) -> Vec<MessageCounts> {
    let plan = Plan::of_partition(seed);
    let accounts: Vec<_> = (0..USERS).map(|user| address(&user_keys(user))).collect();
    with_network_run(&plan, |run| {
        run.network.run_until(WALLETS_OPEN);
        for running in run.network.members.iter_mut().filter_map(|member| member.running.as_mut()) {
            running.open_wallet(&accounts, WALLETS_OPEN);
        }
        while run.network.now < plan.calm_at {
            run.second();
        }
        run.calm();
        run.converge();
        let network = &run.network;
        let check = |index: usize| {
            let running = network.members[index].running.as_ref().expect("a member");
            let audit = MessageAudit::of(accounts.clone(), &running.wallet_messages);
            let faults = (audit.missing.as_slice(), audit.unexpected.as_slice());
            assert_eq!(faults, (&[][..], &[][..]), "the wallet at member {index} received\n{}", audit.history);
            for (member, _, one) in network.accepted.iter().filter(|(_, at, _)| *at > WALLETS_OPEN) {
                assert!(audit.has_confirmed(one), "the wallet at member {index} lacks {}", one.hash());
                assert!(*member != index || audit.was_seen_unconfirmed(one), "member {index}: {}", one.hash());
            }
            for (height, hash) in &audit.chain {
                assert_eq!(running.view.chain[*height as usize - 1].hash, *hash, "member {index}, height {height}");
            }
            audit.counts
        };
        (0..network.members.len()).map(check).collect()
    })
}

fn with_network_run<T>(plan: &Plan, test: impl FnOnce(&mut NetworkRun<'_>) -> T) -> T {
    let environment = Environment::new(plan);
    let settings: Vec<_> =
        plan.members.iter().enumerate().map(|(index, member)| environment.settings(index, member)).collect();
    let network = Network::new(plan, &environment, &settings);
    test(&mut NetworkRun {
        network,
        bans: BTreeMap::new(),
        convergence: None,
        seconds: 0,
        impersonation: ImpersonationChecker::default(),
    })
}

struct NetworkRun<'g> {
    network: Network<'g>,
    /// Time since which a member has backed off another one that it could reach.
    bans: BTreeMap<(usize, usize), Duration>,
    convergence: Option<Duration>,
    seconds: u64,
    impersonation: ImpersonationChecker,
}

impl NetworkRun<'_> {
    fn run(&mut self) -> Outcome {
        let plan = self.network.plan;
        if let Some(fork) = plan.fork {
            self.create_fork(fork);
        }
        while self.network.now < plan.calm_at {
            self.second();
        }
        self.calm();
        if plan.fork == Some(ForkPlan::BeyondLimit) {
            self.stay_forked();
        } else {
            self.converge();
        }
        let network = &self.network;
        let running = || network.members.iter().filter_map(|member| member.running.as_ref());
        Outcome {
            tally: network.tally.clone(),
            convergence: self.convergence,
            virtual_time: network.now,
            wasted_time: network.wasted_time,
            peak_usage: network.watch.peak_usage.clone(),
            blocks: running().map(|running| running.view.height()).max().unwrap_or(0),
            digests: running().map(|running| running.node.digest()).collect(),
        }
    }

    /// Advances by one second and checks the invariants.
    fn second(&mut self) {
        self.network.run_until(self.network.now + SECOND);
        self.seconds += 1;
        self.impersonation.check(&mut self.network);
        if self.seconds.is_multiple_of(CHECK_INTERVAL) {
            let running: Vec<_> = self.network.running().collect();
            if let Some(index) = running.get((self.seconds / CHECK_INTERVAL) as usize % running.len().max(1)) {
                self.check_state(*index);
            }
            self.check_bans();
        }
    }

    /// Checks that the state of a member is sound and contains all transaction hashes of its chain.
    fn check_state(&self, index: usize) {
        if let Some(running) = &self.network.members[index].running {
            let facts = invariants::check(running.store, &self.network.environment.network);
            let facts = facts.unwrap_or_else(|what| panic!("state of member {index}: {what}"));
            let confirmed = self.network.watch.confirmed(&running.view.chain).len() as u64;
            assert!(facts.hashes >= confirmed, "{} of {confirmed} transactions are remembered", facts.hashes);
        }
    }

    /// Checks that no honest node is backed off for long by another one that can reach it.
    fn check_bans(&mut self) {
        let (now, backed_off) = (self.network.now, self.backed_off());
        let network = &self.network;
        let backed_off: Vec<_> =
            backed_off.into_iter().filter(|(one, other)| network.can_communicate(*one, *other)).collect();
        self.bans.retain(|pair, _| backed_off.contains(pair));
        for pair in backed_off {
            let long = now - *self.bans.entry(pair).or_insert(now);
            assert!(long < MAX_BACKOFF_TIME, "member {} has backed off member {} for {long:?}", pair.0, pair.1);
        }
    }

    /// Ends all faults.
    fn calm(&mut self) {
        let network = &mut self.network;
        network.act(&Act::Lose(0));
        let parties = network.plan.members.len() + network.plan.byzantine_peers.len();
        network.act(&Act::Divide(vec![0; parties]));
        for member in 0..network.members.len() {
            assert!(network.members[member].running.is_some(), "the plan has left member {member} stopped");
            assert_eq!(network.members[member].clock_offset, 0, "the plan has left the clock of member {member} wrong");
            network.act(&Act::SlowCommits(member, Duration::ZERO));
            network.act(&Act::SlowTicks(member, TICK_TIME));
        }
    }

    /// Waits until all members have one chain with all transactions and form one network.
    fn converge(&mut self) {
        let calm = self.network.now;
        loop {
            self.second();
            let is_one = self.network.tips().len() == 1;
            if is_one && self.convergence.is_none() {
                self.convergence = Some(self.network.now - calm);
            }
            let missing = self.missing();
            let backed_off = if self.network.plan.waits_for_backoffs { self.backed_off() } else { Vec::new() };
            let running = || self.network.members.iter().filter_map(|member| member.running.as_ref());
            let silent = running().filter(|running| !running.view.is_all_reported()).count();
            let is_lively = self.network.pushed_blocks > 0;
            if is_one && is_lively && missing.is_empty() && backed_off.is_empty() && silent == 0 {
                break;
            }
            let waited = self.network.now - calm;
            assert!(
                waited < MAX_CONVERGENCE_TIME,
                "after {waited:?} there are {} chains, these transactions are lost: {missing:?}, these members are \
                 backed off by others: {backed_off:?}, {silent} members have not published all blocks, and blocks are \
                 relayed: {is_lively}",
                self.network.tips().len()
            );
        }
        self.check_end();
    }

    /// Returns transactions that a member has accepted and that are not in the chain. A transaction is excused if the
    /// accepting member was stopped afterwards, because the mempool is not saved, or if its clock was set past the
    /// transaction's deadline or to before its timestamp.
    fn missing(&self) -> Vec<String> {
        let network = &self.network;
        let Some(running) = network.members.iter().find_map(|member| member.running.as_ref()) else {
            return Vec::new();
        };
        let confirmed = network.watch.confirmed(&running.view.chain);
        let is_excused = |member, at, one: &Transaction| {
            let is_stopped = network.stopped.iter().any(|(other, then)| *other == member && *then >= at);
            let lives = one.timestamp.0 - MAX_AHEAD..one.deadline.0;
            let mut set = network.set_clocks.iter().filter(|(other, then, _)| *other == member && *then >= at);
            is_stopped || set.any(|(_, _, shows)| !lives.contains(&shows.0))
        };
        let accepted = network.accepted.iter();
        let missing = accepted.filter(|(by, at, one)| !confirmed.contains(&one.hash()) && !is_excused(*by, *at, one));
        missing.map(|(by, at, one)| format!("{} by {by} at {at:?}", one.hash())).collect()
    }

    /// Returns pairs of members of which the first does not use the second because it was once unreachable.
    fn backed_off(&mut self) -> Vec<(usize, usize)> {
        let network = &mut self.network;
        let keys: Vec<_> = network.members.iter().map(|member| member.info.identity.key.to_string()).collect();
        let mut all = Vec::new();
        for one in 0..keys.len() {
            let Some(running) = &mut network.members[one].running else { continue };
            running.set_now(network.now);
            let backed_off = running.backed_off();
            all.extend((0..keys.len()).filter(|other| backed_off.contains(&keys[*other])).map(|other| (one, other)));
        }
        all
    }

    /// Checks members that have one chain.
    fn check_end(&self) {
        let network = &self.network;
        let running: Vec<_> = network.members.iter().filter_map(|member| member.running.as_ref()).collect();
        let digest = |store: &Store| state::digest(&store.snapshot().expect("a snapshot")).expect("a digest");
        let digests: Vec<_> = running.iter().map(|running| digest(running.store)).collect();
        assert!(digests.iter().all(|one| *one == digests[0]), "one chain, but states {digests:?}");
        self.check_state(network.running().next().expect("a member"));
        self.check_books(running[0].store);
        assert_eq!(digest(self.revalidate(running[0].store)), digests[0], "the same blocks, validated again");
    }

    /// Checks that every balance equals the sum over the blocks.
    fn check_books(&self, store: &Store) {
        let network = &self.network;
        let snapshot = store.snapshot().expect("a snapshot");
        let running = network.members.iter().find_map(|member| member.running.as_ref()).expect("a member");
        let nemesis = stored_block(&snapshot, Height(1)).expect("a store");
        let (_, nemesis) = nemesis.expect("the nemesis block");
        let blocks = running.view.chain[1..].iter().map(|link| &network.watch.blocks[&link.hash]);
        let mut sheet = BTreeMap::<Address, i128>::new();
        for block in blocks.chain([&nemesis]) {
            let mut change = |account, amount: i128| *sheet.entry(account).or_default() += amount;
            let moved = block.transactions.iter().flat_map(movements);
            moved.for_each(|(account, amount)| change(account, amount));
            change(Address::from_public_key(&block.signer, NETWORK), block.total_fee().0.into());
        }
        let given = sheet.remove(&address(&key_pair(0))).expect("the nemesis account");
        assert_eq!(-given, i128::from(network.environment.network.total_amount.0));
        for (account, expected) in sheet {
            let balance = state::account(&snapshot, &account).expect("a store").balance;
            assert_eq!(i128::from(balance.total()), expected, "{account}");
        }
    }

    /// Returns a store that has imported the same blocks with full validation.
    fn revalidate(&self, store: &Store) -> &Store {
        let environment = self.network.environment;
        let snapshot = store.snapshot().expect("a snapshot");
        let other = environment.open(&environment.new_folder());
        environment.import(other, nisd::chain::BlockSource::Store(Height(2), &snapshot));
        let last = self.network.running().next().map(|index| &self.network.members[index]);
        let expected = last.and_then(|member| member.running.as_ref()).expect("a member").view.tip();
        let imported = other.snapshot().expect("a snapshot");
        let header = tip(&imported).expect("a store").expect("a tip");
        assert_eq!((header.hash, header.score), (expected.hash, expected.score));
        other
    }

    /// Creates a fork at the rewrite limit or one block deeper: one member is alone until it has made that many blocks,
    /// and then stops harvesting.
    fn create_fork(&mut self, fork: ForkPlan) {
        let limit = self.network.plan.rewrite_limit;
        self.wait(|run| run.network.tips().len() == 1 && run.height(0) > limit + 2);
        let mut sides = vec![0; self.network.members.len()];
        sides[0] = 1;
        self.network.act(&Act::Divide(sides));
        let depth = if fork == ForkPlan::AtLimit { limit } else { limit + 1 };
        let common = self.height(0);
        while self.height(0) < common + depth {
            self.network.run_until(self.network.now + SECOND / 10);
        }
        self.harvest(0, false);
        // One that has a lower score would follow the first member, and some of the others could not.
        let others = 1..self.network.members.len();
        self.wait(|run| others.clone().all(|other| run.score(other) > run.score(0)));
        let apart = self.height(0) - self.common(0, 1);
        assert_eq!((apart, self.height(0)), (depth, common + depth), "depth of the fork");
        self.network.tally.add(if fork == ForkPlan::AtLimit { Fault::ForkAtLimit } else { Fault::ForkBeyondLimit });
        if fork == ForkPlan::AtLimit {
            let parties = self.network.members.len();
            self.network.act(&Act::Divide(vec![0; parties]));
            self.wait(|run| run.network.tips().len() == 1);
            let view = &self.network.members[0].running.as_ref().expect("a member").view;
            assert_eq!(view.deepest, limit, "blocks that were undone at once");
            self.harvest(0, true);
        }
    }

    /// Checks that a too deep fork persists and each side continues by itself.
    fn stay_forked(&mut self) {
        let (end, height) = (self.network.now + STAYS_FORKED, self.height(0));
        while self.network.now < end {
            self.second();
        }
        assert_eq!(self.height(0), height, "a member goes further back than it may");
        assert!(self.height(1) > height, "the others go on");
        self.network.running().for_each(|index| self.check_state(index));
    }

    fn wait(&mut self, until: impl Fn(&Self) -> bool) {
        let end = self.seconds + FORKS_WITHIN;
        while !until(self) {
            self.second();
            assert!(self.seconds < end, "what was waited for does not come");
        }
    }

    fn height(&self, index: usize) -> u64 {
        self.network.members[index].running.as_ref().map_or(0, |running| running.view.height())
    }

    fn score(&self, index: usize) -> i128 {
        self.network.members[index].running.as_ref().map_or(0, |running| running.view.tip().score)
    }

    /// Returns the height of the last common block of two members.
    fn common(&self, one: usize, other: usize) -> u64 {
        let chain = |index: usize| &self.network.members[index].running.as_ref().expect("a member").view.chain;
        chain(one).iter().zip(chain(other)).take_while(|(one, other)| one.hash == other.hash).count() as u64
    }

    /// Enables or disables harvesting of a member.
    fn harvest(&mut self, index: usize, may: bool) {
        let path = if may { "/account/unlock" } else { "/account/lock" };
        let key = format!("{{\"value\":\"{}\"}}", member_key(index).printed().as_str());
        let now = self.network.now;
        let running = self.network.members[index].running.as_mut().expect("a member");
        running.set_now(now);
        assert_eq!(running.node.post(path, &key).status, 200, "{path}");
    }
}
