//! The story of one network: trouble, then calm, and what must be true in the end.

use std::collections::BTreeMap;
use std::time::Duration;

use nisd::model::{Address, Height, Transaction};
use nisd::state;
use nisd::store::{Store, block_row, stored_block, tip};

use super::fault::{Fault, Tally};
use super::ground::{Ground, member_key};
use super::network::Network;
use super::plan::{Act, ForkPlan, Plan, TURN};
use super::takeover::Takeover;
use super::watch::Fullest;
use crate::books::Books;
use crate::common::private_network::{NETWORK, address, key_pair};
use crate::invariants;

const SECOND: Duration = Duration::from_secs(1);
/// Seconds that a transaction may be ahead of a clock.
const MOST_AHEAD: i32 = 10;
/// How long a network may take to come together once nothing disturbs it any more, and to confirm what was sent.
const PATIENCE: Duration = Duration::from_secs(1_200);
/// How long an honest node may be shunned by another that it could talk to.
const MOST_SHUNNED: Duration = Duration::from_secs(600);
/// How often states are looked at as a whole.
const LOOKS: u64 = 10;
/// How long a fork may take to become as deep as it is to be.
const FORKS_WITHIN: u64 = 1_500;
/// How long it is watched that a fork stays that is too deep.
const STAYS_FORKED: Duration = Duration::from_secs(150);

/// What came of a network.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub tally: Tally,
    /// From the calm until all had one chain; none if they could not.
    pub convergence: Option<Duration>,
    pub virtual_time: Duration,
    /// For how long members have waited for what liars say about their chains.
    pub lost_time: Duration,
    pub fullest: Fullest,
    pub blocks: u64,
    /// Of everything that each member did in its last life.
    pub digests: Vec<String>,
}

/// Simulates the network of a seed. Panics if anything is not as it must be.
pub fn simulate(seed: u64) -> Outcome {
    let plan = Plan::new(seed);
    with_story(&plan, |story| story.run())
}

/// Blocks that a node of a private network may have to undo because others were restarted, at most: as many as one could
/// undo whose rewrite limit is the shortest that settings allow.
const MOST_UNDONE: u64 = 10;

/// Simulates three nodes, each of which is killed and started again in turn for so long: they have one chain in the end, and
/// never went far apart. How often one was started, and how many blocks were undone at once at most.
pub fn simulate_restarts(seed: u64, time: Duration) -> (u32, u64) {
    let plan = Plan::of_restarts(seed, time);
    with_story(&plan, |story| {
        let (mut deepest, mut at) = (0, Duration::ZERO);
        while story.network.now < plan.calm_at {
            story.second();
            let running = story.network.members.iter().filter_map(|member| member.running.as_ref());
            let undone = running.map(|running| running.view.deepest).max().unwrap_or(0);
            if undone > deepest {
                (deepest, at) = (undone, story.network.now);
            }
        }
        story.calm();
        story.come_together();
        assert!(deepest <= MOST_UNDONE, "seed {seed}: a member has undone {deepest} blocks at {at:?}");
        (story.network.members.iter().map(|member| member.life).sum(), deepest)
    })
}

/// Simulates a node that knows another which is never there. The height of its chain after each of these times.
pub fn simulate_one_left(seed: u64, times: &[Duration]) -> Vec<u64> {
    with_story(&Plan::of_one_left(seed), |story| {
        let height = |time: &Duration| {
            story.network.run_until(*time);
            story.height(0)
        };
        times.iter().map(height).collect()
    })
}

fn with_story<T>(plan: &Plan, tell: impl FnOnce(&mut Story<'_>) -> T) -> T {
    let ground = Ground::new(plan);
    let settings: Vec<_> =
        plan.members.iter().enumerate().map(|(index, member)| ground.settings(index, member)).collect();
    let network = Network::new(plan, &ground, &settings);
    tell(&mut Story { network, bans: BTreeMap::new(), convergence: None, seconds: 0, takeover: Takeover::default() })
}

struct Story<'g> {
    network: Network<'g>,
    /// Since when a member shuns another that it could talk to.
    bans: BTreeMap<(usize, usize), Duration>,
    convergence: Option<Duration>,
    seconds: u64,
    takeover: Takeover,
}

impl Story<'_> {
    fn run(&mut self) -> Outcome {
        let plan = self.network.plan;
        if let Some(fork) = plan.fork {
            self.bring_about(fork);
        }
        while self.network.now < plan.calm_at {
            self.second();
        }
        self.calm();
        if plan.fork == Some(ForkPlan::BeyondLimit) {
            self.stay_forked();
        } else {
            self.come_together();
        }
        let network = &self.network;
        let running = || network.members.iter().filter_map(|member| member.running.as_ref());
        Outcome {
            tally: network.tally.clone(),
            convergence: self.convergence,
            virtual_time: network.now,
            lost_time: network.lost_time,
            fullest: network.watch.fullest.clone(),
            blocks: running().map(|running| running.view.height()).max().unwrap_or(0),
            digests: running().map(|running| running.node.digest()).collect(),
        }
    }

    /// A second goes by, and what must hold is looked at.
    fn second(&mut self) {
        self.network.run_until(self.network.now + SECOND);
        self.seconds += 1;
        self.takeover.look(&mut self.network);
        if self.seconds.is_multiple_of(LOOKS) {
            let running: Vec<_> = self.network.running().collect();
            if let Some(index) = running.get((self.seconds / LOOKS) as usize % running.len().max(1)) {
                self.check_state(*index);
            }
            self.check_bans();
        }
    }

    /// The state of a member is sound, and remembers all transactions of its chain.
    fn check_state(&self, index: usize) {
        if let Some(running) = &self.network.members[index].running {
            let facts = invariants::check(running.store, &self.network.ground.network);
            let facts = facts.unwrap_or_else(|what| panic!("state of member {index}: {what}"));
            let confirmed = self.network.watch.confirmed(&running.view.chain).len() as u64;
            assert!(facts.hashes >= confirmed, "{} of {confirmed} transactions are remembered", facts.hashes);
        }
    }

    /// No honest node is shunned for long by another that could talk to it.
    fn check_bans(&mut self) {
        let (now, shunned) = (self.network.now, self.shunned());
        let network = &self.network;
        let shunned: Vec<_> = shunned.into_iter().filter(|(one, other)| network.are_in_touch(*one, *other)).collect();
        self.bans.retain(|pair, _| shunned.contains(pair));
        for pair in shunned {
            let long = now - *self.bans.entry(pair).or_insert(now);
            assert!(long < MOST_SHUNNED, "member {} has shunned member {} for {long:?}", pair.0, pair.1);
        }
    }

    /// Nothing goes wrong any more.
    fn calm(&mut self) {
        let network = &mut self.network;
        network.act(&Act::Lose(0));
        let parties = network.plan.members.len() + network.plan.liars.len();
        network.act(&Act::Divide(vec![0; parties]));
        for member in 0..network.members.len() {
            assert!(network.members[member].running.is_some(), "the plan has left member {member} stopped");
            assert_eq!(network.members[member].set_ahead, 0, "the plan has left the clock of member {member} wrong");
            network.act(&Act::Slow(member, Duration::ZERO));
            network.act(&Act::Toil(member, TURN));
        }
    }

    /// All come to have one chain, with everything that was sent in it, and go on as one network.
    fn come_together(&mut self) {
        let calm = self.network.now;
        loop {
            self.second();
            let is_one = self.network.tips().len() == 1;
            if is_one && self.convergence.is_none() {
                self.convergence = Some(self.network.now - calm);
            }
            let missing = self.missing();
            let shunned = if self.network.plan.is_patient { self.shunned() } else { Vec::new() };
            let running = || self.network.members.iter().filter_map(|member| member.running.as_ref());
            let silent = running().filter(|running| !running.view.is_all_told()).count();
            let is_lively = self.network.pushed_blocks > 0;
            if is_one && is_lively && missing.is_empty() && shunned.is_empty() && silent == 0 {
                break;
            }
            let waited = self.network.now - calm;
            assert!(
                waited < PATIENCE,
                "after {waited:?} there are {} chains, these transactions are lost: {missing:?}, these members are \
                 shunned by others: {shunned:?}, {silent} members have not told of all blocks, and whether anybody has \
                 passed blocks on: {is_lively}",
                self.network.tips().len()
            );
        }
        self.check_end();
    }

    /// Transactions that a member has accepted, and that are in no block of one of them. One is excused if the member
    /// that took it was stopped afterwards, as a pool is not kept, or if its clock was set beyond the life of the
    /// transaction, or so far back that the transaction is of the future.
    fn missing(&self) -> Vec<String> {
        let network = &self.network;
        let Some(running) = network.members.iter().find_map(|member| member.running.as_ref()) else {
            return Vec::new();
        };
        let confirmed = network.watch.confirmed(&running.view.chain);
        let is_excused = |member, at, one: &Transaction| {
            let is_stopped = network.stopped.iter().any(|(other, then)| *other == member && *then >= at);
            let lives = one.timestamp.0 - MOST_AHEAD..one.deadline.0;
            let mut set = network.set_clocks.iter().filter(|(other, then, _)| *other == member && *then >= at);
            is_stopped || set.any(|(_, _, shows)| !lives.contains(&shows.0))
        };
        let accepted = network.accepted.iter();
        let missing = accepted.filter(|(by, at, one)| !confirmed.contains(&one.hash()) && !is_excused(*by, *at, one));
        missing.map(|(by, at, one)| format!("{} by {by} at {at:?}", one.hash())).collect()
    }

    /// Members that others do not work with, because they could once not be reached.
    fn shunned(&mut self) -> Vec<(usize, usize)> {
        let network = &mut self.network;
        let keys: Vec<_> = network.members.iter().map(|member| member.info.identity.key.to_string()).collect();
        let mut all = Vec::new();
        for one in 0..keys.len() {
            let Some(running) = &mut network.members[one].running else { continue };
            running.set_now(network.now);
            let shunned = running.shunned();
            all.extend((0..keys.len()).filter(|other| shunned.contains(&keys[*other])).map(|other| (one, other)));
        }
        all
    }

    /// What must be true of members that have one chain.
    fn check_end(&self) {
        let network = &self.network;
        let running: Vec<_> = network.members.iter().filter_map(|member| member.running.as_ref()).collect();
        let digest = |store: &Store| state::digest(&store.snapshot().expect("a snapshot")).expect("a digest");
        let digests: Vec<_> = running.iter().map(|running| digest(running.store)).collect();
        assert!(digests.iter().all(|one| *one == digests[0]), "one chain, but states {digests:?}");
        self.check_state(network.running().next().expect("a member"));
        self.check_books(running[0].store);
        assert_eq!(digest(self.judge_anew(running[0].store)), digests[0], "the same blocks, judged anew");
    }

    /// Every account has what the blocks add up to.
    fn check_books(&self, store: &Store) {
        let (network, mut books) = (&self.network, Books::default());
        let snapshot = store.snapshot().expect("a snapshot");
        let nemesis = address(&key_pair(0));
        let running = network.members.iter().find_map(|member| member.running.as_ref()).expect("a member");
        for link in &running.view.chain[1..] {
            let block = &network.watch.blocks[&link.hash];
            books.enter(block, Address::from_public_key(&block.signer, NETWORK), &network.ground.network);
        }
        let (_, first) =
            stored_block(&snapshot, Height(1), network.ground.context()).expect("a store").expect("the nemesis block");
        books.enter(&first, nemesis, &network.ground.network);
        assert_eq!(-books.balance(&nemesis), i128::from(network.ground.network.total_amount.0));
        for (account, expected) in books.all().filter(|(account, _)| **account != nemesis) {
            let balance = state::account(&snapshot, account).expect("a store").balance;
            assert_eq!(i128::from(balance.total()), expected, "{account}");
        }
    }

    /// A store that has taken in the same blocks, all of which were judged.
    fn judge_anew(&self, store: &Store) -> &Store {
        let ground = self.network.ground;
        let snapshot = store.snapshot().expect("a snapshot");
        let block_at = |height| block_row(&snapshot, height)?.map(|row| row.verified_bytes()).transpose();
        let other = ground.open(&ground.new_folder());
        ground.take_in(other, Box::new(nisd::chain::StoredBlockSource::new(Height(2), block_at)));
        let last = self.network.running().next().map(|index| &self.network.members[index]);
        let expected = last.and_then(|member| member.running.as_ref()).expect("a member").view.tip();
        let taken_in = other.snapshot().expect("a snapshot");
        let header = tip(&taken_in).expect("a store").expect("a tip");
        assert_eq!((header.hash, header.score), (expected.hash, expected.score));
        other
    }

    /// A fork that is as deep as may be undone, or by a block deeper: one member is alone until it has made so many
    /// blocks, and makes no more then.
    fn bring_about(&mut self, fork: ForkPlan) {
        let limit = self.network.plan.rewrite_limit;
        self.wait(|story| story.network.tips().len() == 1 && story.height(0) > limit + 2);
        let mut sides = vec![0; self.network.members.len()];
        sides[0] = 1;
        self.network.act(&Act::Divide(sides));
        let depth = if fork == ForkPlan::AtLimit { limit } else { limit + 1 };
        let common = self.height(0);
        while self.height(0) < common + depth {
            self.network.run_until(self.network.now + SECOND / 10);
        }
        self.harvest(0, false);
        self.wait(|story| story.score(1) > story.score(0));
        let apart = self.height(0) - self.common(0, 1);
        assert_eq!((apart, self.height(0)), (depth, common + depth), "depth of the fork");
        self.network.tally.add(if fork == ForkPlan::AtLimit { Fault::ForkAtLimit } else { Fault::ForkBeyondLimit });
        if fork == ForkPlan::AtLimit {
            let parties = self.network.members.len();
            self.network.act(&Act::Divide(vec![0; parties]));
            self.wait(|story| story.network.tips().len() == 1);
            let view = &self.network.members[0].running.as_ref().expect("a member").view;
            assert_eq!(view.deepest, limit, "blocks that were undone at once");
            self.harvest(0, true);
        }
    }

    /// A fork that is too deep to be undone stays, and each side goes on by itself.
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

    /// Height of the last block that two members have in common.
    fn common(&self, one: usize, other: usize) -> u64 {
        let chain = |index: usize| &self.network.members[index].running.as_ref().expect("a member").view.chain;
        chain(one).iter().zip(chain(other)).take_while(|(one, other)| one.hash == other.hash).count() as u64
    }

    /// Lets a member harvest, or not.
    fn harvest(&mut self, index: usize, may: bool) {
        let path = if may { "/account/unlock" } else { "/account/lock" };
        let key = format!("{{\"value\":\"{}\"}}", member_key(index).printed().as_str());
        let now = self.network.now;
        let running = self.network.members[index].running.as_mut().expect("a member");
        running.set_now(now);
        assert_eq!(running.node.post(path, &key).status, 200, "{path}");
    }
}
