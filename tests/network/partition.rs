//! A network of processes is partitioned, both sides make blocks, and the partition ends: there is one chain, and
//! wallets receive every event exactly once.
//!
//! The default run is short; `NISD_PARTITION=long` runs 200 blocks.

use std::time::{Duration, Instant};

use crate::common::members::{Member, payer, wait_with_timeout};
use crate::common::namespaces::VirtualLinks;
use crate::common::print_notice;
use crate::common::private_network::{address, block, key_pair, now, transfer};
use crate::common::wallets::{AccountMessage, MessageAudit, Wallet, WalletMessage};
use nisd::model::{Address, Amount, Hash256, Timestamp, Transaction};

/// Parameters of a run.
struct RunParameters {
    nodes: u8,
    /// Number of nodes on the larger side.
    larger_side: u8,
    /// Initial number of blocks per minute.
    blocks_per_minute: u64,
    /// Blocks before the partition.
    before: u64,
    /// Blocks that each side makes alone.
    blocks_per_side: u64,
    /// Blocks at the end, after the wallets have closed and each node was killed once.
    total: u64,
    /// Interval between payments.
    payment_interval: Duration,
    max_wait: Duration,
}

const SHORT: RunParameters = RunParameters {
    nodes: 3,
    larger_side: 2,
    blocks_per_minute: 60,
    before: 3,
    blocks_per_side: 5,
    total: 14,
    payment_interval: Duration::from_millis(500),
    max_wait: Duration::from_secs(120),
};
const LONG: RunParameters = RunParameters {
    nodes: 5,
    larger_side: 3,
    blocks_per_minute: 150,
    before: 60,
    blocks_per_side: 20,
    total: 200,
    payment_interval: Duration::from_secs(1),
    max_wait: Duration::from_secs(1800),
};
/// Blocks at the end of a chain that a reorg may still replace.
const UNSTABLE_BLOCKS: usize = 3;
/// Number of paying accounts, and key numbers of the recipients.
const PAYERS: u64 = 4;
const RECIPIENTS: [u64; 3] = [200, 201, 202];

fn recipients() -> Vec<Address> {
    RECIPIENTS.iter().map(|number| address(&key_pair(*number))).collect()
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
        let (from, to) = (key_pair(payer(number as u64 % PAYERS)), recipients()[number % RECIPIENTS.len()]);
        let payment = transfer(&from, to, Amount(1_000_000 + number as u64), Amount(500_000), now());
        let place = number % members.len();
        members[place].announce(&payment);
        self.made.push((payment, place));
        self.last = Instant::now();
    }
}

/// The network and its traffic.
struct Run {
    parameters: RunParameters,
    members: Vec<Member>,
    payments: Payments,
}

impl Run {
    /// Runs payments until a condition holds; returns the time it took.
    fn run_until(&mut self, what: &str, mut is_reached: impl FnMut(&[Member]) -> bool) -> Duration {
        let begun = Instant::now();
        wait_with_timeout(what, self.parameters.max_wait, || {
            self.payments.next(&self.members, self.parameters.payment_interval);
            is_reached(&self.members).then_some(())
        });
        begun.elapsed()
    }

    fn until_height(&mut self, height: u64) {
        self.run_until("a height", |members| members.iter().all(|member| member.height() >= height));
    }

    /// Returns the height of the longest chain.
    fn max_height(&self) -> u64 {
        self.members.iter().map(Member::height).max().expect("a node")
    }

    /// Waits until all nodes have the same block at the present maximum height.
    fn until_one_chain(&mut self) -> Duration {
        let height = self.max_height();
        self.run_until("one chain", |members| {
            let blocks: Vec<_> = members.iter().map(|member| member.block_if_any(height)).collect();
            blocks[0].is_some() && blocks.iter().all(|block| *block == blocks[0])
        })
    }

    /// Waits until all payments are confirmed at every node, below the blocks that may still be replaced.
    fn until_all_is_paid(&mut self) {
        let payments = self.payments.made.iter().map(|(payment, _)| payment);
        for (payment, member) in payments.flat_map(|payment| self.members.iter().map(move |member| (payment, member))) {
            wait_with_timeout("a payment", self.parameters.max_wait, || member.has_confirmed(payment).then_some(()));
        }
        let settled = self.max_height() + UNSTABLE_BLOCKS as u64;
        let is_settled = || self.members.iter().all(|member| member.height() >= settled).then_some(());
        wait_with_timeout("further blocks", self.parameters.max_wait, is_settled);
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
fn check(ledger: &MessageAudit, run: &Run, place: usize) {
    let name = format!("the wallet at node {}", place + 1);
    let faults = (ledger.missing.as_slice(), ledger.unexpected.as_slice());
    assert_eq!(faults, (&[][..], &[][..]), "{name} has heard\n{}", ledger.history);
    for (payment, announced_at) in &run.payments.made {
        assert!(ledger.has_confirmed(payment), "{name} does not know {} as confirmed", payment.hash());
        let is_told = *announced_at != place || ledger.was_seen_unconfirmed(payment);
        assert!(is_told, "{name} was not told of {} when it was announced", payment.hash());
    }
    let member = &run.members[place];
    // The last ones may have been replaced after the wallet closed.
    for (height, hash) in ledger.chain.iter().rev().skip(UNSTABLE_BLOCKS) {
        let next = member.block(height + 1);
        assert_eq!(next["prevBlockHash"]["data"], hash.to_string(), "{name} has another block {height}");
    }
}

#[test]
fn a_partitioned_network_converges_and_wallets_get_every_message_once() {
    if !crate::common::namespaces::is_inside(
        "network::partition::a_partitioned_network_converges_and_wallets_get_every_message_once",
    ) {
        return;
    }
    let form = if std::env::var("NISD_PARTITION").is_ok_and(|form| form == "long") { LONG } else { SHORT };
    let wires = VirtualLinks::create(form.nodes);
    let mut members = crate::common::members::network(wires.places(), form.blocks_per_minute, PAYERS);
    members.iter_mut().for_each(Member::start);
    wait_with_timeout("blocks", form.max_wait, || (members[0].height() >= form.before).then_some(()));
    let wallets: Vec<_> = members.iter().map(|member| Wallet::open(member.websocket(), &recipients())).collect();
    let payments = Payments { made: Vec::new(), last: Instant::now() };
    let mut run = Run { parameters: form, members, payments };

    run.until_one_chain();
    wires.partition(run.parameters.larger_side);
    let apart = run.max_height() + run.parameters.blocks_per_side;
    let cut = run.run_until("blocks of each side", |members| members.iter().all(|member| member.height() >= apart));
    wires.heal();
    let healed = run.until_one_chain();
    run.until_all_is_paid();
    let ledgers: Vec<_> = wallets.into_iter().map(Wallet::close).collect();
    let mut report = format!("cut for {cut:.0?}, one chain {healed:.1?} after it was joined");
    for (place, (ledger, member)) in ledgers.iter().zip(&run.members).enumerate() {
        let ([all, own], told) = (member.memory(), ledger.counts);
        let (lost, surplus) = (ledger.missing.len(), ledger.unexpected.len());
        report += &format!("\n  node {}: {told:?}, {lost} lost, {surplus} twice; {all} KiB, own {own} KiB", place + 1);
    }
    print_notice(&report);
    ledgers.iter().enumerate().for_each(|(place, ledger)| check(ledger, &run, place));
    let deepest = ledgers.iter().map(|ledger| ledger.counts.max_undone).max();
    assert!(deepest >= Some(run.parameters.blocks_per_side as usize), "the losing side went back {deepest:?} blocks");
    assert!(ledgers.iter().any(|ledger| ledger.counts.returned > 0), "no transaction was undone");

    run.kill_each();
    let end = (run.max_height() + 1).max(run.parameters.total);
    run.until_height(end);
    run.until_one_chain();
    run.until_all_is_paid();
    let (height, digest) = crate::common::members::stop_and_compare(&mut run.members);
    print_notice(&format!("height {height}, {} payments, digest {digest}", run.payments.made.len()));
}

/// Tests of the evaluation itself: a made-up history, and the result when a message is missing or duplicated.
mod message_audit {
    use super::*;

    /// Returns a block that is reported as soon as it is made, and its hash.
    fn made(height: u64, parent: Hash256, time: i32, transactions: &[&Transaction]) -> (WalletMessage, Hash256) {
        let transactions = transactions.iter().map(|&transaction| transaction.clone()).collect();
        let block = block(&key_pair(1), height, Timestamp(time), parent, transactions);
        let hash = block.hash();
        (WalletMessage::Block(Box::new(block), Timestamp(time)), hash)
    }

    /// Of two confirmed payments, one is also in the better chain; the other becomes unconfirmed again and is confirmed
    /// later. The announcement of the second payment is the third message.
    fn history() -> Vec<WalletMessage> {
        let to = recipients()[0];
        let payment = |amount| transfer(&key_pair(payer(0)), to, Amount(amount), Amount(1), Timestamp(1));
        let (stays, returns) = (payment(1), payment(2));
        let concern = |payment: &Transaction| AccountMessage { account: to, hash: payment.hash() };
        let (first, hash) = made(7, Hash256([7; 32]), 10, &[]);
        let (old, _) = made(8, hash, 20, &[&stays, &returns]);
        let (new, new_hash) = made(8, hash, 30, &[&stays]);
        let (next, _) = made(9, new_hash, 40, &[&returns]);
        vec![
            WalletMessage::Height(7),
            first,
            WalletMessage::Unconfirmed(concern(&returns)),
            WalletMessage::Height(8),
            old,
            WalletMessage::Confirmed(concern(&stays), 8),
            WalletMessage::Confirmed(concern(&returns), 8),
            WalletMessage::Unconfirmed(concern(&returns)),
            WalletMessage::Height(8),
            new,
            WalletMessage::Confirmed(concern(&stays), 8),
            WalletMessage::Height(9),
            next,
            WalletMessage::Confirmed(concern(&returns), 9),
        ]
    }

    fn errors(history: &[WalletMessage]) -> [usize; 2] {
        let ledger = MessageAudit::of(recipients(), history);
        [ledger.missing.len(), ledger.unexpected.len()]
    }

    #[test]
    fn a_history_without_faults_is_accepted() {
        let ledger = MessageAudit::of(recipients(), &history());
        assert_eq!((ledger.missing, ledger.unexpected), (Vec::new(), Vec::new()));
        let told = ledger.counts;
        assert_eq!([told.blocks, told.confirmed, told.unconfirmed], [4, 4, 2]);
        assert_eq!([told.returned, told.reorgs, told.max_undone], [1, 1, 1]);
        assert_eq!(ledger.chain.keys().copied().collect::<Vec<_>>(), [7, 8, 9]);
    }

    #[test]
    fn every_missing_message_is_detected() {
        // The loss of the first three messages cannot be detected: nothing precedes them, or a transaction may first
        // appear in its block. Nor can the loss of consecutive heights: the block may be a further one of the preceding
        // reorg, of which only the first height is reported.
        const CONSECUTIVE_HEIGHTS: [usize; 2] = [3, 11];
        for place in (3..history().len()).filter(|place| !CONSECUTIVE_HEIGHTS.contains(place)) {
            let mut history = history();
            let missing = history.remove(place);
            assert_ne!(errors(&history), [0, 0], "{missing:?}");
        }
    }

    #[test]
    fn every_duplicate_message_is_detected() {
        for place in 0..history().len() {
            let mut history = history();
            history.insert(place, history[place].clone());
            assert_ne!(errors(&history), [0, 0], "{:?}", history[place]);
        }
    }

    #[test]
    fn a_block_published_twice_is_detected() {
        let mut history = history();
        let last: Vec<_> = history.iter().rev().take(3).rev().cloned().collect();
        assert!(matches!(last[0], WalletMessage::Height(9)));
        history.extend(last);
        assert_ne!(errors(&history), [0, 0]);
    }
}
