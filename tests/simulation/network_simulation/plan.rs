//! What a seed determines in advance: the members, their properties, and the acts with their times.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use nisd::config::IpDetection;

use super::environment::IP_DETECTION;
use super::fault::{Fault, OF_ANSWERS, OF_COMPARISON, OF_PUSHES, OF_REQUESTS, OF_STALLS, RELAY_ANSWERS};
use crate::common::Random;

/// Minimum target time in seconds that settings allow.
const MIN_TARGET_TIME: u32 = 10;
/// Latency of the slowest networks in milliseconds.
const SLOWEST: (u64, u64) = (50, 300);
/// Maximum milliseconds by which a message is late, unless the plan measures delays.
const LATENESS: usize = 3_000;
/// Number of faults of a byzantine peer.
const HABITS: usize = 4;
/// Duration of a normal tick.
pub const TICK_TIME: Duration = Duration::from_micros(300);
/// Number of transactions that users send to a slow machine.
const BURST_TRANSACTIONS: usize = 60;
/// Rewrite limit, unless the plan tests it: far more blocks than are made during the longest partition and the time to
/// converge afterwards.
const WIDE_LIMIT: u64 = 240;

/// Milliseconds between payments in a network of payments, and how long they go on if it forks.
const PAYMENT_INTERVAL: usize = 700;
const FORK_PAYMENTS: Duration = Duration::from_secs(300);
/// Difference between the seeds that are tried for a network of payments.
const PAYMENT_STRIDE: u64 = 1 << 32;

/// How a member knows another one from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    ByKey(usize),
    ByEndpoint(usize),
    Byzantine(usize),
}

/// A member: an honest node.
#[derive(Clone, Debug)]
pub struct MemberPlan {
    pub ip: IpAddr,
    /// Its share of the harvesting balance.
    pub weight: u64,
    pub harvests: bool,
    pub known: Vec<Known>,
    pub starts_at: Duration,
    /// Milliseconds by which its clock is ahead.
    pub ahead: i64,
    /// Drift of its clock in microseconds per second.
    pub drift: i64,
    pub is_binary: bool,
    pub node_limit: usize,
    pub ip_detection: IpDetection,
    pub uses_network_time: bool,
}

/// A byzantine peer: the faults it commits.
#[derive(Clone, Debug)]
pub struct ByzantinePlan {
    pub ip: IpAddr,
    pub faults: Vec<Fault>,
    /// Percentage of its opportunities to lie that it takes.
    pub eagerness: usize,
    /// It impersonates all members and gets requests signed by them. Partitions do not affect it.
    pub is_relay: bool,
    /// When it leaves the network.
    pub leaves_at: Option<Duration>,
}

/// An act of the plan.
#[derive(Clone, Debug)]
pub enum Act {
    /// Parties on different sides cannot reach each other until the next such act. Members first, then byzantine peers.
    Divide(Vec<u8>),
    Start(usize),
    /// Takes a copy of the member's disk.
    Copy(usize),
    Stop(usize),
    /// Restarts a member with all commits, or from the last copy.
    Restart {
        member: usize,
        with_all: bool,
    },
    /// Sets the number of messages lost per thousand.
    Lose(usize),
    /// From now on blocks that are pushed to the member have no effect.
    LosePushes(usize),
    /// Sets the duration of the member's commits.
    SlowCommits(usize, Duration),
    /// Sets the duration of the member's ticks.
    SlowTicks(usize, Duration),
    /// Sets the member's clock forwards by seconds, or backwards.
    SetClock(usize, i64),
    /// Sends a user's transaction through the member.
    Announce(usize),
    /// Sends a transaction of some kind, of a user or of an account that received something, through the member.
    Pay(usize),
    /// Pushes something from a byzantine peer to a member.
    Push {
        byzantine: usize,
        fault: Fault,
        to: usize,
    },
}

/// From when on a member of a network of [`Plan::of_progress`] is pushed no blocks, and the end of it.
pub const PULLS_FROM: Duration = Duration::from_secs(200);
pub const PROGRESS_UNTIL: Duration = Duration::from_secs(340);

/// Height of the checkpoint of such a network.
const PROGRESS_CHECKPOINT: u64 = 400;

/// The plan of a network.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub members: Vec<MemberPlan>,
    pub byzantine_peers: Vec<ByzantinePlan>,
    pub target_time: u32,
    pub is_stabilized: bool,
    pub rewrite_limit: u64,
    /// Minimum latency and maximum additional latency in milliseconds. They are large compared with the block time: a
    /// chain comparison takes ten messages and is wasted if a block arrives meanwhile. The largest latencies therefore
    /// come with the longest target time.
    pub latency: (u64, u64),
    /// Maximum milliseconds by which one of many messages is late.
    pub lateness: usize,
    /// Acts by time, earliest first.
    pub acts: Vec<(Duration, Act)>,
    /// From then on nothing goes wrong except for byzantine peers.
    pub calm_at: Duration,
    /// An additional fork with a depth at the rewrite limit.
    pub fork: Option<ForkPlan>,
    /// Accounts spend the same twice through different members. Each then penalizes the other for what it relays.
    pub spends_twice: bool,
    /// Waits until no member rejects another one any more.
    pub waits_for_backoffs: bool,
    /// Height of a trusted checkpoint of the members, which no chain has.
    pub checkpoint: Option<u64>,
    /// The planned faults, for the tally.
    pub faults: Vec<Fault>,
}

/// A fork at the rewrite limit, or one block deeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkPlan {
    AtLimit,
    BeyondLimit,
}

fn seconds(seconds: usize) -> Duration {
    Duration::from_secs(seconds as u64)
}

impl Plan {
    /// Returns the plan of a seed.
    pub fn new(seed: u64) -> Plan {
        let mut random = Random(seed ^ 0x6e69_7364);
        let r = &mut random;
        let fork = match r.below(16) {
            0 => Some(ForkPlan::AtLimit),
            1 => Some(ForkPlan::BeyondLimit),
            _ => None,
        };
        // Only byzantine peers, with a low rewrite limit.
        let is_orderly = fork.is_none() && r.below(12) == 0;
        let members = if fork.is_some() { 2 + r.below(2) } else { 2 + r.below(3) + r.below(2) * r.below(4) };
        let byzantine_peers = if fork.is_some() { 0 } else { r.below(3).max(usize::from(is_orderly)) };
        let is_private = r.coin();
        let mut plan = Plan {
            seed,
            members: (0..members).map(|index| member(index, is_private, byzantine_peers, r)).collect(),
            byzantine_peers: (0..byzantine_peers).map(|index| byzantine(index, is_private, r)).collect(),
            target_time: 4 + r.below(4) as u32,
            is_stabilized: r.below(4) > 0,
            rewrite_limit: if fork.is_some() || is_orderly { 10 + r.below(4) as u64 } else { WIDE_LIMIT },
            latency: [(1, 10), (10, 60), (20, 150), SLOWEST][r.below(if fork.is_some() || is_orderly { 2 } else { 4 })],
            lateness: LATENESS,
            acts: Vec::new(),
            calm_at: seconds(25 + r.below(40)),
            fork,
            spends_twice: false,
            waits_for_backoffs: r.below(8) == 0,
            checkpoint: None,
            faults: Vec::new(),
        };
        if plan.latency == SLOWEST {
            plan.target_time = MIN_TARGET_TIME;
        }
        if is_orderly {
            plan.prevent_separation();
            plan.calm_at = seconds(180);
            plan.byzantine_peers[0].faults.push(Fault::TooFarBehind);
        } else if fork.is_none() {
            (0..1 + r.below(4)).for_each(|_| plan.add_fault(r));
        } else {
            plan.prevent_separation();
        }
        plan.pushes(r);
        plan.announcements(r);
        plan.clocks(r);
        if fork.is_none() {
            plan.relays(&mut Random(seed ^ 0x0072_656c_6179));
        }
        plan.acts.sort_by_key(|(at, _)| *at);
        plan
    }

    /// Returns the plan of a network of three members or more in which many accounts pay each other. The rewrite limit is
    /// low in a third of the networks.
    pub fn of_payments(seed: u64) -> Plan {
        let is_wanted = |plan: &Plan| match seed % 16 {
            0 | 8 => plan.fork == Some(ForkPlan::AtLimit),
            4 => plan.fork == Some(ForkPlan::BeyondLimit),
            2 | 10 => plan.fork.is_none() && plan.rewrite_limit < WIDE_LIMIT,
            _ => true,
        };
        let plans = (0..).map(|number| Plan::new(seed + number * PAYMENT_STRIDE));
        let mut plan = plans.filter(is_wanted).find(|plan| plan.members.len() >= 3).expect("a plan");
        let r = &mut Random(seed ^ 0x7061_796d);
        let end = if plan.fork.is_some() { FORK_PAYMENTS } else { plan.calm_at.max(seconds(20)) }.as_millis() as usize;
        let payments = (0..end / PAYMENT_INTERVAL)
            .map(|_| (Duration::from_millis(6_000 + r.below(end) as u64), Act::Pay(r.below(plan.members.len()))));
        plan.acts.extend(payments.collect::<Vec<_>>());
        plan.spends_twice = true;
        plan.acts.sort_by_key(|(at, _)| *at);
        plan
    }

    /// Returns the plan of a private network as users make it: the first member knows nobody and the others know the
    /// first. Each is killed and restarted in turn at random times for this long.
    pub fn of_restarts(seed: u64, time: Duration) -> Plan {
        let mut random = Random(seed ^ 0x7265_7374);
        let r = &mut random;
        let member = |index: usize| MemberPlan {
            ip: ip(true, 1 + index as u8),
            weight: 1,
            harvests: true,
            known: if index == 0 { Vec::new() } else { vec![Known::ByKey(0)] },
            starts_at: seconds(3 * index),
            ahead: 0,
            drift: 0,
            is_binary: true,
            node_limit: 5,
            ip_detection: IpDetection::Optional,
            uses_network_time: true,
        };
        let members: Vec<_> = (0..3).map(member).collect();
        let mut acts: Vec<_> = (0..3).map(|index| (seconds(3 * index), Act::Start(index))).collect();
        // The others know only the first; by then they have met each other.
        let mut at = Duration::from_secs(200);
        for turn in r.below(3).. {
            let away = seconds(if r.below(4) == 0 { 60 + r.below(180) } else { 1 + r.below(20) });
            let back = at + away;
            if back > time {
                break;
            }
            acts.push((at, Act::Stop(turn % 3)));
            acts.push((back, Act::Restart { member: turn % 3, with_all: true }));
            at = back + seconds(10 + r.below(150));
        }
        acts.extend((0..time.as_secs() / 20).map(|_| {
            (Duration::from_millis(30_000 + r.below(time.as_millis() as usize) as u64), Act::Announce(r.below(3)))
        }));
        acts.sort_by_key(|(at, _)| *at);
        Plan {
            seed,
            members,
            byzantine_peers: Vec::new(),
            target_time: MIN_TARGET_TIME,
            is_stabilized: true,
            rewrite_limit: 360,
            latency: (10, 60),
            lateness: LATENESS,
            acts,
            calm_at: time.max(at),
            fork: None,
            spends_twice: false,
            waits_for_backoffs: false,
            checkpoint: None,
            faults: Vec::new(),
        }
    }

    /// Returns the plan of two members that know each other, of which only the first is ever started.
    pub fn of_one_left(seed: u64) -> Plan {
        let mut plan = Plan::of_restarts(seed, Duration::ZERO);
        plan.members.truncate(2);
        plan.members[0].known = vec![Known::ByKey(1)];
        plan.acts = vec![(Duration::ZERO, Act::Start(0))];
        plan
    }

    /// Returns the plan of three members of which one is separated from the others for five minutes, while users send
    /// transactions through all of them.
    pub fn of_partition(seed: u64) -> Plan {
        let mut plan = Plan::of_restarts(seed, Duration::ZERO);
        plan.acts.extend([(60, vec![0, 0, 1]), (360, vec![0; 3])].map(|(at, sides)| (seconds(at), Act::Divide(sides))));
        plan.acts.extend((20..380).step_by(3).map(|at| (seconds(at), Act::Announce(at % 3))));
        plan.acts.sort_by_key(|(at, _)| *at);
        plan.calm_at = seconds(380);
        plan
    }

    /// Returns the plan of three members that know each other and these byzantine peers, which claim that their chains are
    /// far ahead, push bad blocks and have a wrong clock. All are in one network of addresses, or each is in another. In
    /// the end the last member has to pull the blocks of others. Half of the networks have a trusted checkpoint.
    pub fn of_progress(seed: u64, byzantine_peers: usize) -> Plan {
        let mut plan = Plan::of_restarts(seed, Duration::ZERO);
        let r = &mut Random(seed ^ 0x7072_6f67);
        let is_private = seed.is_multiple_of(2);
        plan.lateness = 0;
        plan.checkpoint = (seed % 4 >= 2).then_some(PROGRESS_CHECKPOINT);
        let count = plan.members.len();
        for (index, member) in plan.members.iter_mut().enumerate() {
            let others = (0..count).filter(|other| *other != index).map(Known::ByKey);
            member.known = others.chain((0..byzantine_peers).map(Known::Byzantine)).collect();
            member.starts_at = Duration::ZERO;
            member.ip = ip(is_private, 1 + index as u8);
        }
        plan.acts = (0..count).map(|index| (Duration::ZERO, Act::Start(index))).collect();
        for byzantine in 0..byzantine_peers {
            let first = OF_STALLS[(seed as usize + byzantine) % OF_STALLS.len()];
            plan.byzantine_peers.push(ByzantinePlan {
                ip: ip(is_private, 100 + byzantine as u8),
                faults: vec![first, OF_STALLS[r.below(OF_STALLS.len())], Fault::WrongTime],
                // All but the first tell the truth now and then.
                eagerness: if byzantine == 0 { 100 } else { 50 + r.below(51) },
                is_relay: false,
                leaves_at: None,
            });
            let pushes = [
                Fault::PushedSibling,
                Fault::PushedUnentitledBlock,
                Fault::PushedFutureBlock,
                Fault::PushedSurplusCosignatures,
            ];
            plan.acts.extend((0..30).map(|_| {
                let at = Duration::from_millis(30_000 + r.below(270_000) as u64);
                (at, Act::Push { byzantine, fault: pushes[r.below(pushes.len())], to: r.below(count) })
            }));
        }
        plan.acts.push((PULLS_FROM, Act::LosePushes(count - 1)));
        plan.acts.sort_by_key(|(at, _)| *at);
        plan.calm_at = PROGRESS_UNTIL;
        plan
    }

    /// Removes what could separate members by itself, for a low rewrite limit.
    fn prevent_separation(&mut self) {
        self.calm_at = Duration::ZERO;
        self.target_time = MIN_TARGET_TIME;
        let count = self.members.len();
        for (index, member) in self.members.iter_mut().enumerate() {
            member.starts_at = Duration::ZERO;
            member.node_limit = 5;
            member.known = (0..count).filter(|other| *other != index).map(Known::ByKey).collect();
        }
    }

    /// Plans one kind of fault before the calm.
    fn add_fault(&mut self, r: &mut Random) {
        let end = self.calm_at.as_secs() as usize;
        let at = 8 + r.below(end - 12);
        let until = (at + 3 + r.below(30)).min(end);
        let member = r.below(self.members.len());
        match r.below(9) {
            0 | 1 => self.divide(at, until, r),
            2 | 3 => self.restart(member, at, until, r),
            4 => {
                self.acts.push((seconds(at), Act::Lose(20 + r.below(300))));
                self.acts.push((seconds(until), Act::Lose(0)));
            }
            5 => {
                let takes = Duration::from_millis(50 + r.below(4_000) as u64);
                self.acts.push((seconds(at), Act::SlowCommits(member, takes)));
                self.acts.push((seconds(until), Act::SlowCommits(member, Duration::ZERO)));
                self.faults.push(Fault::SlowDisk);
            }
            6 => {
                let by = if r.coin() { 10 + r.below(3_000) as i64 } else { -10 - r.below(3_000) as i64 };
                self.acts.push((seconds(at), Act::SetClock(member, by)));
                self.acts.push((seconds(until), Act::SetClock(member, -by)));
                self.faults.push(Fault::ClockJump);
                // With a wrong clock in the network, members that follow others' clocks would be wrong too.
                self.members.iter_mut().for_each(|member| member.uses_network_time = false);
            }
            7 => {
                let takes = Duration::from_millis(20 + r.below(180) as u64);
                self.acts.push((seconds(at), Act::SlowTicks(member, takes)));
                self.acts.push((seconds(until), Act::SlowTicks(member, TICK_TIME)));
                for _ in 0..BURST_TRANSACTIONS {
                    let when = Duration::from_millis((1_000 * at + r.below(1_000 * (until - at))) as u64);
                    self.acts.push((when, Act::Announce(member)));
                }
                self.faults.push(Fault::SlowMachine);
            }
            _ if r.below(3) == 0 => {
                // Longer than the timeouts of the others.
                let long = 70 + r.below(60);
                self.calm_at = self.calm_at.max(seconds(at + long));
                self.divide(at, at + long, r);
                self.faults.push(Fault::LongPartition);
            }
            _ => self.divide(at, until, r),
        }
    }

    fn divide(&mut self, at: usize, until: usize, r: &mut Random) {
        let parties = self.members.len() + self.byzantine_peers.len();
        let mut sides: Vec<u8> = (0..parties).map(|_| r.below(2) as u8).collect();
        sides[r.below(self.members.len())] ^= 1;
        self.acts.push((seconds(at), Act::Divide(sides)));
        self.acts.push((seconds(until), Act::Divide(vec![0; parties])));
        self.faults.push(Fault::Partition);
    }

    fn restart(&mut self, member: usize, at: usize, until: usize, r: &mut Random) {
        let with_all = r.coin();
        if !with_all {
            self.acts.push((seconds(at.saturating_sub(1 + r.below(20)).max(1)), Act::Copy(member)));
        }
        let back = at + r.below(until - at + 1);
        self.acts.push((seconds(at), Act::Stop(member)));
        self.acts.push((seconds(back), Act::Restart { member, with_all }));
        self.faults.push(if with_all { Fault::RestartWithAll } else { Fault::RestartWithoutLast });
    }

    fn pushes(&mut self, r: &mut Random) {
        for (byzantine, plan) in self.byzantine_peers.iter().enumerate() {
            let pushed: Vec<_> = plan.faults.iter().filter(|habit| OF_PUSHES.contains(habit)).collect();
            if pushed.is_empty() {
                continue;
            }
            for _ in 0..6 {
                let at = Duration::from_millis(8_000 + r.below(self.calm_at.as_millis() as usize) as u64);
                let (fault, to) = (*pushed[r.below(pushed.len())], r.below(self.members.len()));
                self.acts.push((at, Act::Push { byzantine, fault, to }));
            }
        }
    }

    /// Adds relays, one or several. Every member knows at least one other from the start: one that knows nobody cannot
    /// identify the nodes it meets. In some networks all members know each other and relays stay to the end; in others
    /// relays have left by the calm, and the impersonated nodes are found again at their own addresses.
    fn relays(&mut self, r: &mut Random) {
        if r.below(3) > 0 {
            return;
        }
        let (is_private, count) = (self.members[0].ip == ip(true, 1), self.members.len());
        let stays = r.coin();
        for (index, member) in self.members.iter_mut().enumerate() {
            let is_honest = |known: &Known| !matches!(known, Known::Byzantine(_));
            if !member.known.iter().any(is_honest) {
                member.known.push(Known::ByKey(if index == 0 { 1 } else { 0 }));
            }
            let knows = |member: &MemberPlan, other| {
                member.known.iter().any(|known| [Known::ByKey(other), Known::ByEndpoint(other)].contains(known))
            };
            for other in (0..count).filter(|other| stays && *other != index) {
                if !knows(member, other) {
                    member.known.push(Known::ByKey(other));
                }
            }
        }
        let before = self.byzantine_peers.len();
        for relay in 0..1 + r.below(3) {
            let faults = (0..HABITS).map(|_| RELAY_ANSWERS[r.below(RELAY_ANSWERS.len())]);
            let faults = faults.collect();
            let leaves_at = (!stays).then_some(self.calm_at);
            let ip = ip(is_private, 150 + relay as u8);
            self.byzantine_peers.push(ByzantinePlan {
                ip,
                faults,
                eagerness: 30 + r.below(71),
                is_relay: true,
                leaves_at,
            });
            for _ in 0..6 {
                let at = Duration::from_millis(8_000 + r.below(self.calm_at.as_millis() as usize) as u64);
                let (byzantine, to) = (before + relay, r.below(count));
                self.acts.push((at, Act::Push { byzantine, fault: Fault::RelayedPush, to }));
            }
        }
    }

    fn announcements(&mut self, r: &mut Random) {
        let end = self.calm_at.max(seconds(20)).as_millis() as usize;
        for _ in 0..end / 3_000 {
            let at = Duration::from_millis(6_000 + r.below(end) as u64);
            self.acts.push((at, Act::Announce(r.below(self.members.len()))));
        }
    }

    fn clocks(&mut self, r: &mut Random) {
        for (index, member) in self.members.iter_mut().enumerate() {
            self.acts.push((member.starts_at, Act::Start(index)));
            if r.below(3) == 0 {
                member.ahead = r.below(6_000) as i64 - 3_000;
                self.faults.push(Fault::ClockOff);
            }
            if r.below(4) == 0 {
                member.drift = r.below(2_000) as i64 - 1_000;
                self.faults.push(Fault::ClockDrift);
            }
            if !member.starts_at.is_zero() {
                self.faults.push(Fault::LateStart);
            }
        }
    }
}

/// A member knows at least one of the earlier ones, so that all form one network.
fn member(index: usize, is_private: bool, byzantine_peers: usize, r: &mut Random) -> MemberPlan {
    let known =
        |other: usize, r: &mut Random| if r.below(4) == 0 { Known::ByEndpoint(other) } else { Known::ByKey(other) };
    let mut others = Vec::new();
    // A member that knows nobody must wait until others find it.
    if index == 0 && r.below(4) > 0 {
        others.push(known(1, r));
    }
    if index > 0 {
        let first = r.below(index);
        others.push(known(first, r));
        let more: Vec<_> = (0..index).filter(|other| *other != first && r.coin()).collect();
        others.extend(more.into_iter().map(|other| known(other, r)));
    }
    others.extend((0..byzantine_peers).filter(|_| r.coin()).map(Known::Byzantine).collect::<Vec<_>>());
    let ip_detection = IP_DETECTION[r.below(3)];
    // A member that needs others to learn its address and knows no honest one never takes part.
    let is_told = others.is_empty() || others.iter().any(|known| !matches!(known, Known::Byzantine(_)));
    MemberPlan {
        ip: ip(is_private, 1 + index as u8),
        weight: [1, 1, 2, 4][r.below(4)],
        harvests: index < 2 || r.below(4) > 0,
        known: others,
        starts_at: if r.below(4) == 0 { Duration::from_millis(r.below(20_000) as u64) } else { Duration::ZERO },
        ahead: 0,
        drift: 0,
        is_binary: r.below(4) > 0,
        node_limit: [1, 2, 5, 20][r.below(4)],
        ip_detection: if is_told { ip_detection } else { IpDetection::Optional },
        uses_network_time: r.coin(),
    }
}

fn byzantine(index: usize, is_private: bool, r: &mut Random) -> ByzantinePlan {
    let of = |group: &[Fault], r: &mut Random| group[r.below(group.len())];
    let is_pusher = r.below(3) == 0;
    let habit = |_| match r.below(4) {
        _ if is_pusher => of(OF_PUSHES, r),
        0 => of(OF_COMPARISON, r),
        1 if r.below(3) == 0 => of(OF_STALLS, r),
        1 => of(OF_COMPARISON, r),
        2 => of(OF_ANSWERS, r),
        _ => of(OF_REQUESTS, r),
    };
    let faults = (0..HABITS).map(habit).collect();
    let (ip, eagerness) = (ip(is_private, 100 + index as u8), 30 + r.below(71));
    ByzantinePlan { ip, faults, eagerness, is_relay: false, leaves_at: None }
}

fn ip(is_private: bool, number: u8) -> IpAddr {
    IpAddr::V4(if is_private { Ipv4Addr::new(10, 0, 0, number) } else { Ipv4Addr::new(45, number, 7, 1) })
}
