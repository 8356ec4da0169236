//! A network of processes is partitioned, both sides make blocks, and the partition ends: there is one chain, and
//! wallets receive every event exactly once.
//!
//! The default run is short; `NISD_PARTITION=long` runs 200 blocks.

use std::time::{Duration, Instant};

use crate::common::loudly;
use crate::common::private_network::{address, block, key_pair, now, transfer};
use crate::members::{Member, payer, wait_longer_for};
use crate::namespaces::Wires;
use crate::wallets::{Concern, Heard, Ledger, Wallet};
use nisd::model::{Address, Amount, Hash256, Timestamp, Transaction};

/// Parameters of a run.
struct Form {
    nodes: u8,
    /// Number of nodes on the larger side.
    larger_side: u8,
    /// Initial number of blocks per minute.
    haste: u64,
    /// Blocks before the partition.
    before: u64,
    /// Blocks that each side makes alone.
    apart: u64,
    /// Blocks at the end, after the wallets have closed and each node was killed once.
    total: u64,
    /// Interval between payments.
    rest: Duration,
    patience: Duration,
}

const SHORT: Form = Form {
    nodes: 3,
    larger_side: 2,
    haste: 60,
    before: 3,
    apart: 5,
    total: 14,
    rest: Duration::from_millis(500),
    patience: Duration::from_secs(120),
};
const LONG: Form = Form {
    nodes: 5,
    larger_side: 3,
    haste: 150,
    before: 60,
    apart: 20,
    total: 200,
    rest: Duration::from_secs(1),
    patience: Duration::from_secs(1800),
};
/// Blocks at the end of a chain that a reorg may still replace.
const UNSETTLED: usize = 3;
/// Number of paying accounts, and key numbers of the recipients.
const PAYERS: u64 = 4;
const PAID: [u64; 3] = [200, 201, 202];

fn paid() -> Vec<Address> {
    PAID.iter().map(|number| address(&key_pair(*number))).collect()
}

/// Payments, announced at the nodes in turn.
struct Payments {
    made: Vec<(Transaction, usize)>,
    last: Instant,
}

impl Payments {
    fn next(&mut self, members: &[Member], rest: Duration) {
        if self.last.elapsed() < rest {
            return;
        }
        let number = self.made.len();
        let (from, to) = (key_pair(payer(number as u64 % PAYERS)), paid()[number % PAID.len()]);
        let payment = transfer(&from, to, Amount(1_000_000 + number as u64), Amount(500_000), now());
        let place = number % members.len();
        members[place].announce(&payment);
        self.made.push((payment, place));
        self.last = Instant::now();
    }
}

/// The network and its traffic.
struct Run {
    form: Form,
    members: Vec<Member>,
    payments: Payments,
}

impl Run {
    /// Runs payments until a condition holds; returns the time it took.
    fn until(&mut self, what: &str, mut is_reached: impl FnMut(&[Member]) -> bool) -> Duration {
        let begun = Instant::now();
        wait_longer_for(what, self.form.patience, || {
            self.payments.next(&self.members, self.form.rest);
            is_reached(&self.members).then_some(())
        });
        begun.elapsed()
    }

    fn until_height(&mut self, height: u64) {
        self.until("a height", |members| members.iter().all(|member| member.height() >= height));
    }

    /// Returns the height of the longest chain.
    fn highest(&self) -> u64 {
        self.members.iter().map(Member::height).max().expect("a node")
    }

    /// Waits until all nodes have the same block at the present maximum height.
    fn until_one_chain(&mut self) -> Duration {
        let height = self.highest();
        self.until("one chain", |members| {
            let blocks: Vec<_> = members.iter().map(|member| member.block_if_any(height)).collect();
            blocks[0].is_some() && blocks.iter().all(|block| *block == blocks[0])
        })
    }

    /// Waits until all payments are confirmed at every node, below the blocks that may still be replaced.
    fn until_all_is_paid(&mut self) {
        let payments = self.payments.made.iter().map(|(payment, _)| payment);
        for (payment, member) in payments.flat_map(|payment| self.members.iter().map(move |member| (payment, member))) {
            wait_longer_for("a payment", self.form.patience, || member.has_confirmed(payment).then_some(()));
        }
        let settled = self.highest() + UNSETTLED as u64;
        let is_settled = || self.members.iter().all(|member| member.height() >= settled).then_some(());
        wait_longer_for("further blocks", self.form.patience, is_settled);
    }

    /// Kills each node and restarts it after the others have continued without it.
    fn kill_each(&mut self) {
        for number in 0..self.members.len() {
            self.members[number].kill();
            let other = &self.members[(number + 1) % self.members.len()];
            other.block(other.height() + 1);
            self.members[number].start();
        }
    }
}

/// Checks that a wallet received exactly what happened at its node, and nothing twice.
fn check(ledger: &Ledger, run: &Run, place: usize) {
    let name = format!("the wallet at node {}", place + 1);
    let faults = (ledger.lost.as_slice(), ledger.surplus.as_slice());
    assert_eq!(faults, (&[][..], &[][..]), "{name} has heard\n{}", ledger.history);
    for (payment, announced_at) in &run.payments.made {
        assert!(ledger.has_confirmed(payment), "{name} does not know {} as confirmed", payment.hash());
        let is_told = *announced_at != place || ledger.was_announced(payment);
        assert!(is_told, "{name} was not told of {} when it was announced", payment.hash());
    }
    let member = &run.members[place];
    // The last ones may have been replaced after the wallet closed.
    for (height, hash) in ledger.chain.iter().rev().skip(UNSETTLED) {
        let next = member.block(height + 1);
        assert_eq!(next["prevBlockHash"]["data"], hash.to_string(), "{name} has another block {height}");
    }
}

#[test]
fn a_partitioned_network_converges_and_wallets_get_every_message_once() {
    if !crate::namespaces::is_inside("partition::a_partitioned_network_converges_and_wallets_get_every_message_once") {
        return;
    }
    let form = if std::env::var("NISD_PARTITION").is_ok_and(|form| form == "long") { LONG } else { SHORT };
    let wires = Wires::lay(form.nodes);
    let mut members = crate::members::network(wires.places(), form.haste, PAYERS);
    members.iter_mut().for_each(Member::start);
    wait_longer_for("blocks", form.patience, || (members[0].height() >= form.before).then_some(()));
    let wallets: Vec<_> = members.iter().map(|member| Wallet::open(member.websocket(), &paid())).collect();
    let payments = Payments { made: Vec::new(), last: Instant::now() };
    let mut run = Run { form, members, payments };

    run.until_one_chain();
    wires.cut(run.form.larger_side);
    let apart = run.highest() + run.form.apart;
    let cut = run.until("blocks of each side", |members| members.iter().all(|member| member.height() >= apart));
    wires.heal();
    let healed = run.until_one_chain();
    run.until_all_is_paid();
    let ledgers: Vec<_> = wallets.into_iter().map(Wallet::close).collect();
    let mut report = format!("cut for {cut:.0?}, one chain {healed:.1?} after it was joined");
    for (place, (ledger, member)) in ledgers.iter().zip(&run.members).enumerate() {
        let ([all, own], told) = (member.memory(), ledger.told);
        let (lost, surplus) = (ledger.lost.len(), ledger.surplus.len());
        report += &format!("\n  node {}: {told:?}, {lost} lost, {surplus} twice; {all} KiB, own {own} KiB", place + 1);
    }
    loudly(&report);
    ledgers.iter().enumerate().for_each(|(place, ledger)| check(ledger, &run, place));
    let deepest = ledgers.iter().map(|ledger| ledger.told.deepest).max();
    assert!(deepest >= Some(run.form.apart as usize), "the losing side went back {deepest:?} blocks");
    assert!(ledgers.iter().any(|ledger| ledger.told.returned > 0), "no transaction was undone");

    run.kill_each();
    let end = (run.highest() + 1).max(run.form.total);
    run.until_height(end);
    run.until_one_chain();
    run.until_all_is_paid();
    let (height, digest) = crate::members::stop_and_compare(&mut run.members);
    loudly(&format!("height {height}, {} payments, digest {digest}", run.payments.made.len()));
}

/// Tests of the evaluation itself: a made-up history, and the result when a message is missing or duplicated.
mod ledger {
    use super::*;

    /// Returns a block that is reported as soon as it is made, and its hash.
    fn made(height: u64, parent: Hash256, time: i32, transactions: &[&Transaction]) -> (Heard, Hash256) {
        let transactions = transactions.iter().map(|&transaction| transaction.clone()).collect();
        let block = block(&key_pair(1), height, Timestamp(time), parent, transactions);
        let hash = block.hash();
        (Heard::Block(Box::new(block), Timestamp(time)), hash)
    }

    /// Of two confirmed payments, one is also in the better chain; the other becomes unconfirmed again and is confirmed
    /// later. The announcement of the second payment is the third message.
    fn history() -> Vec<Heard> {
        let to = paid()[0];
        let payment = |amount| transfer(&key_pair(payer(0)), to, Amount(amount), Amount(1), Timestamp(1));
        let (stays, returns) = (payment(1), payment(2));
        let concern = |payment: &Transaction| Concern { account: to, hash: payment.hash() };
        let (first, hash) = made(7, Hash256([7; 32]), 10, &[]);
        let (old, _) = made(8, hash, 20, &[&stays, &returns]);
        let (new, new_hash) = made(8, hash, 30, &[&stays]);
        let (next, _) = made(9, new_hash, 40, &[&returns]);
        vec![
            Heard::Height(7),
            first,
            Heard::Unconfirmed(concern(&returns)),
            Heard::Height(8),
            old,
            Heard::Confirmed(concern(&stays), 8),
            Heard::Confirmed(concern(&returns), 8),
            Heard::Unconfirmed(concern(&returns)),
            Heard::Height(8),
            new,
            Heard::Confirmed(concern(&stays), 8),
            Heard::Height(9),
            next,
            Heard::Confirmed(concern(&returns), 9),
        ]
    }

    fn faults(history: &[Heard]) -> [usize; 2] {
        let ledger = Ledger::of(paid(), history);
        [ledger.lost.len(), ledger.surplus.len()]
    }

    #[test]
    fn a_history_without_faults_is_accepted() {
        let ledger = Ledger::of(paid(), &history());
        assert_eq!((ledger.lost, ledger.surplus), (Vec::new(), Vec::new()));
        let told = ledger.told;
        assert_eq!([told.blocks, told.confirmed, told.unconfirmed], [4, 4, 2]);
        assert_eq!([told.returned, told.switches, told.deepest], [1, 1, 1]);
        assert_eq!(ledger.chain.keys().copied().collect::<Vec<_>>(), [7, 8, 9]);
    }

    #[test]
    fn every_missing_message_is_detected() {
        // The loss of the first three messages cannot be detected: nothing precedes them, or a transaction may first
        // appear in its block. Nor can the loss of consecutive heights: the block may be a further one of the preceding
        // reorg, of which only the first height is reported.
        const GOING_ON: [usize; 2] = [3, 11];
        for place in (3..history().len()).filter(|place| !GOING_ON.contains(place)) {
            let mut history = history();
            let missing = history.remove(place);
            assert_ne!(faults(&history), [0, 0], "{missing:?}");
        }
    }

    #[test]
    fn every_duplicate_message_is_detected() {
        for place in 0..history().len() {
            let mut history = history();
            history.insert(place, history[place].clone());
            assert_ne!(faults(&history), [0, 0], "{:?}", history[place]);
        }
    }

    #[test]
    fn a_block_published_twice_is_detected() {
        let mut history = history();
        let last: Vec<_> = history.iter().rev().take(3).rev().cloned().collect();
        assert!(matches!(last[0], Heard::Height(9)));
        history.extend(last);
        assert_ne!(faults(&history), [0, 0]);
    }
}
