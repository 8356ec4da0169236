//! Random signed blocks and transactions on small networks, each with the result that it must have.
//!
//! A model of the state follows the text of the protocol, and an oracle with its own rules decides on it; neither uses
//! the program's code for decisions. Valid blocks advance the network; at every height where it stops, cases that break
//! one rule are offered first. An accepted block must leave the state of the model and all invariants intact, and is
//! undone and imported once more. Several blocks are undone and offered again as one part, alone or in the place of
//! others; mempools are filled; [`Class`] counts further distinguishing features.

mod bends;
mod block_cases;
mod court;
mod court_of_blocks;
mod court_of_kinds;
mod fees;
mod figures;
mod ground;
pub mod invariants;
mod maker;
mod model;
mod moves;
mod odd_bytes;
mod parts;
mod people;
mod pools;
pub mod private_network;
mod proof;
mod record;
mod replay;
mod rule;
mod terms;
mod unreadable;
mod vesting;
mod world;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

use nisd::codec::SigningForm;
use nisd::model::transaction::LinkMode;
use nisd::model::{Block, Transaction};
use tempfile::TempDir;

use court::Purpose;
pub use figures::{Class, Statistics};
use ground::{FAR_FUTURE, NodeUnderTest};
use maker::Maker;
use model::Model;
use parts::PastBlock;
use people::{AccountIndex, DELEGATOR, HARVESTERS, NEMESIS, WITH_KEYS};
use proof::{Bound, MAX_WAIT_SECONDS};
use record::{Part, Recorder};
pub use replay::replay;
pub use rule::Rule;
use rule::{ExpectedResult, RuleViolation};
use world::TestNetwork;

/// A small random number generator (splitmix64); a seed reproduces a run.
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    #[allow(clippy::should_implement_trait)] // it never ends
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `count`, which is not 0.
    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    /// Returns `true` or `false` with equal chance.
    pub fn coin(&mut self) -> bool {
        self.next() & 1 == 0
    }
}

/// Rejections in the protocol's text that can never occur, with reasons.
pub const UNREACHABLE: [(&str, &str); 3] = [
    ("T14 modification of version 2 before its fork", "T3 refuses it first, with the same result"),
    ("T16 name too long", "T6 has a text for it first"),
    (
        "B3  signer with a link that makes it a remote, not yet or no longer in effect",
        "it has nothing that would give it importance, so that its block is no hit",
    ),
];

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of cases, counted in blocks.
    pub blocks: u64,
    /// The seed of all random choices.
    pub seed: u64,
    /// Cases at each height at which a network stops.
    pub cases: usize,
    /// Heights at which a network stops before the next network begins.
    pub stops: usize,
    /// Output folder, if any.
    pub folder: Option<PathBuf>,
}

impl Plan {
    /// Creates a plan for this many blocks.
    pub fn new(blocks: u64, seed: u64) -> Plan {
        Plan { blocks, seed, cases: 100, stops: STOPS, folder: None }
    }
}

/// Number of heights at which a network stops: enough for two years.
const STOPS: usize = 300;
/// Number of differences after which a run ends.
const MAX_DIFFERENCES: usize = 20;
/// Number of remembered confirmed transactions.
const RECENT: usize = 30;
/// Full blocks start once in this many cases on average.
const FULL_BLOCK_RARITY: usize = 20;
/// Maximum attempts to add something to a full block.
const TRIES: usize = 400;

/// Runs a plan.
pub fn run(plan: &Plan, mut tell: impl FnMut(&Statistics)) -> Statistics {
    let begun = Instant::now();
    let mut figures = Statistics::default();
    while figures.offered < plan.blocks && figures.differences.len() < MAX_DIFFERENCES {
        let seed = plan.seed.wrapping_mul(1_000_003).wrapping_add(figures.networks);
        figures.networks += 1;
        let mut stage = NetworkRun::new(plan, seed, figures);
        // Where no year passes, fewer stops suffice.
        let stops = if stage.test_network.terms.kind.is_some() { plan.stops / 4 } else { plan.stops };
        for _ in 0..stops {
            let is_over = stage.statistics.offered >= plan.blocks;
            if is_over || stage.statistics.differences.len() >= MAX_DIFFERENCES {
                break;
            }
            stage.stop(plan.cases);
            stage.advance_to_next_stop();
        }
        figures = stage.statistics;
        figures.elapsed = begun.elapsed();
        tell(&figures);
    }
    figures
}

/// One network, and the statistics of the run so far.
struct NetworkRun {
    test_network: TestNetwork,
    node: NodeUnderTest,
    model: Model,
    random: Random,
    statistics: Statistics,
    recorder: Option<Recorder>,
    /// Recently confirmed transactions.
    recent: VecDeque<Transaction>,
    /// The last consecutive blocks.
    history: VecDeque<PastBlock>,
    /// A height, and the intended time of its block.
    next_target: (u64, i32),
    /// Number of following blocks that must be full.
    full_blocks_left: usize,
    _files: Option<TempDir>,
}

/// Returns the bytes of blocks in wire form.
fn bytes_of(blocks: &[Block]) -> Vec<Vec<u8>> {
    blocks.iter().map(|block| block.to_bytes(SigningForm::Verifiable)).collect()
}

impl NetworkRun {
    fn new(plan: &Plan, seed: u64, figures: Statistics) -> NetworkRun {
        let mut random = Random(seed);
        let world = TestNetwork::new(figures.networks, &mut random);
        let scratch = plan.folder.is_none().then(|| tempfile::tempdir().expect("a folder"));
        let folder = plan.folder.as_ref().map(|folder| folder.join(format!("network-{seed}")));
        let files = folder.clone().or_else(|| scratch.as_ref().map(|one| one.path().to_owned())).expect("a folder");
        std::fs::create_dir_all(&files).expect("a folder");
        let ground = NodeUnderTest::new(&world, &files);
        let recorder = folder.map(|folder| Recorder::new(&folder));
        let model = world.model();
        let (recent, history) = (VecDeque::new(), VecDeque::new());
        let _files = scratch;
        let (wanted, full) = ((0, 0), 0);
        let mut stage = NetworkRun {
            test_network: world,
            node: ground,
            model,
            random,
            statistics: figures,
            recorder,
            recent,
            history,
            next_target: wanted,
            full_blocks_left: full,
            _files,
        };
        stage.check_state();
        let nothing = Model::new(stage.test_network.key_ring.len(), nisd::model::Hash256::default());
        if let Some(recorder) = &mut stage.recorder {
            recorder.state(&stage.test_network, &nothing, &stage.model);
        }
        stage
    }

    fn next_height(&self) -> u64 {
        self.model.height + 1
    }

    /// Builds a signed block on the tip.
    fn block(&self, signer: AccountIndex, time: i32, transactions: Vec<Transaction>) -> Block {
        self.node.block(&self.test_network.key_ring, signer, time, transactions)
    }

    fn add_difference(&mut self, text: String) {
        self.statistics.differences.push(format!("height {}: {text}", self.next_height()));
    }

    /// Returns an account of sufficient importance that may make the next block, and the account it harvests for.
    fn harvesters(&mut self) -> [AccountIndex; 2] {
        let (height, limit) = (self.next_height(), self.test_network.terms.rewrite_limit);
        let remote = |who: &AccountIndex| self.model.accounts[*who].fee_recipient(height, limit) == Some(DELEGATOR);
        let remote = (0..self.test_network.key_ring.len()).find(remote);
        let is_idle = |link: &model::Link| {
            let is_recent = height - link.height < limit;
            link.is_owner && is_recent == (link.mode == LinkMode::Activate)
        };
        let lender = &self.model.accounts[DELEGATOR];
        let may_lend = lender.links.last().is_none_or(is_idle);
        let chosen = match self.random.below(9) {
            0 if may_lend => [DELEGATOR, DELEGATOR],
            0 | 1 => remote.map_or([HARVESTERS[0]; 2], |remote| [remote, DELEGATOR]),
            2 | 3 => [HARVESTERS[0]; 2],
            4..7 => [HARVESTERS[1]; 2],
            _ => self.ordinary_harvester().unwrap_or([HARVESTERS[0]; 2]),
        };
        if self.first_hit(chosen[0]).is_some() { chosen } else { [HARVESTERS[0]; 2] }
    }

    /// Returns another account that may make the next block soon, and the account it harvests for; preferably not an
    /// ordinary account harvesting for itself.
    fn ordinary_harvester(&mut self) -> Option<[AccountIndex; 2]> {
        let (height, limit) = (self.next_height(), self.test_network.terms.rewrite_limit);
        let court = self.test_network.oracle(&self.model, 0, Purpose::Block);
        let soon = (2 * self.test_network.terms.target_time as i32).max(10_000);
        let pairs = (0..WITH_KEYS).filter(|who| *who != NEMESIS && !HARVESTERS.contains(who)).filter_map(|who| {
            let account = &self.model.accounts[who];
            let owner = account.fee_recipient(height, limit).unwrap_or(who);
            (court.may_sign(account) && owner != DELEGATOR).then_some([who, owner])
        });
        let able: Vec<[AccountIndex; 2]> =
            pairs.filter(|pair| self.first_hit(pair[0]).is_some_and(|hit| hit < soon)).collect();
        let is_special = |pair: &&[AccountIndex; 2]| pair[0] != pair[1] || self.model.accounts[pair[1]].is_multisig();
        let special: Vec<[AccountIndex; 2]> = able.iter().filter(is_special).copied().collect();
        let list = if special.is_empty() || self.random.coin() { able } else { special };
        (!list.is_empty()).then(|| list[self.random.below(list.len())])
    }

    /// Returns the importance that counts if an account signs the next block.
    fn importance_of(&self, signer: AccountIndex) -> Option<f64> {
        let (height, limit) = (self.next_height(), self.test_network.terms.rewrite_limit);
        let owner = self.model.accounts[signer].fee_recipient(height, limit).unwrap_or(signer);
        self.node.importance(&self.test_network.key_ring.address(owner))
    }

    /// Returns the seconds after which an account may make the next block.
    fn first_hit(&self, signer: AccountIndex) -> Option<i32> {
        let importance = self.importance_of(signer)?;
        self.model.proofs.first_hit(&self.test_network.key_ring.public(signer), importance, &self.test_network.terms)
    }

    /// Returns the time of the next block if this account makes it.
    fn time_of(&mut self, signer: AccountIndex) -> i32 {
        let (height, parent) = (self.next_height(), self.model.proofs.time());
        if self.next_target.0 != height {
            let terms = &self.test_network.terms;
            let (due, is_late) = (terms.time(height), parent > terms.time(height - 1) + 1_000);
            let pause = (self.random.next() % (2 * terms.target_time)) as i32;
            let time = match self.random.below(6) {
                // As early as possible.
                0 | 1 => 0,
                2 if !is_late && height < terms.forks.treasury.wrapping_sub(5) => due + pause,
                _ => due,
            };
            self.next_target = (height, time);
        }
        self.next_target.1.max(parent + self.first_hit(signer).unwrap_or(MAX_WAIT_SECONDS))
    }

    /// Like [`Stage::time_of`], when the signer does not matter.
    fn time(&mut self) -> i32 {
        self.time_of(HARVESTERS[0])
    }

    /// Tries cases at the next height, then advances the network by one block.
    fn stop(&mut self, cases: usize) {
        let is_treasury = self.next_height() == self.test_network.terms.forks.treasury;
        for _ in 0..cases * if is_treasury { 4 } else { 1 } {
            self.try_case();
        }
        if self.random.below(3) == 0 {
            self.try_odd_bytes();
        }
        if self.random.below(4) == 0 {
            let harvesters = self.harvesters();
            self.try_unreadable(harvesters);
        }
        if self.random.below(4) == 0 {
            self.try_limit();
        }
        if self.random.below(25) == 0 {
            self.fill_mempool();
        }
        self.advance();
        if self.random.below(4) == 0 {
            self.try_part();
        }
    }

    /// Offers a case that breaks one of the rules broken least often so far.
    fn try_case(&mut self) {
        let harvesters = self.harvesters();
        let (height, terms) = (self.next_height(), &self.test_network.terms);
        let aims: Vec<Rule> = (0..6).map(|_| Rule::ALL[self.random.below(Rule::ALL.len())]).collect();
        let is_treasury = height == terms.forks.treasury && self.random.below(4) == 0;
        let aims = if is_treasury { vec![Rule::B9] } else { aims };
        let possible = aims.into_iter().filter(|aim| aim.is_in_force(height, terms));
        let Some(aim) = possible.take(3).min_by_key(|aim| self.statistics.rejections(*aim)) else { return };
        if self.try_block_case(aim, harvesters) {
            return;
        }
        let (time, ahead) = (self.time_of(harvesters[0]), self.random.below(30) as i32);
        // The clock is never so far behind that this would be the error.
        let now = time + ahead - 10;
        let mut random = Random(self.random.next());
        let court = self.test_network.oracle(&self.model, now, Purpose::Block);
        let mut maker = Maker { oracle: court, random: &mut random, time: time.min(now + 10), harvesters };
        let Some(transactions) = maker.violate(aim) else { return };
        let block = self.block(harvesters[0], time, transactions);
        self.validate_and_offer(aim, &block, now);
        if self.random.below(4) == 0 {
            self.announce(&block.transactions[0], now);
        }
    }

    /// Offers a block with valid proof and signatures.
    fn validate_and_offer(&mut self, aim: Rule, block: &Block, now: i32) {
        let judged = self.test_network.oracle(&self.model, now, Purpose::Block).validate_block(block);
        if !judged.as_ref().is_err_and(|ruling| ruling.rule == aim) {
            self.statistics.off_target += 1;
        }
        let blocks = std::slice::from_ref(block);
        match judged {
            Err(_) if !self.history.is_empty() && self.random.below(6) == 0 => self.offer_at_end(block, now),
            Err(ruling) => self.offer_bad(&ruling, blocks, now),
            Ok(after) => self.offer_good(block, after, now, false),
        }
    }

    /// Offers blocks that must be rejected.
    fn offer_bad(&mut self, ruling: &RuleViolation, blocks: &[Block], now: i32) {
        self.statistics.offered += 1;
        let (above, bytes) = (self.model.height, bytes_of(blocks));
        let (found, _) = self.node.offer_bytes(above, &bytes, now);
        self.check_refusal(ruling, above, &bytes, now, &found);
        if self.node.height() > self.model.height {
            self.node.roll_back(self.model.height);
        }
    }

    /// Compares the result for blocks above a height, in wire form, with the expected one.
    fn check_refusal(
        &mut self,
        ruling: &RuleViolation,
        above: u64,
        blocks: &[Vec<u8>],
        now: i32,
        found: &ExpectedResult,
    ) {
        self.statistics.count_rejection(ruling.rule, false);
        if let Some(recorder) = &mut self.recorder {
            recorder.refused(above, blocks, (self.model.height, now), ruling.rule, found);
        }
        let is_refused = ruling.verdict == ExpectedResult::RejectedSomehow && *found != ExpectedResult::Valid;
        if *found != ruling.verdict && !is_refused {
            let hex: Vec<String> = blocks.iter().map(hex::encode).collect();
            let text = format!(
                "{}: expected {:?}, given {found:?}; time {now}; {}",
                ruling.rule.name(),
                ruling.verdict,
                hex.join(" ")
            );
            self.add_difference(text);
        }
    }

    /// Offers a block that must be accepted, checks the state after it, and undoes it. It is imported again if it is to
    /// stay.
    fn offer_good(&mut self, block: &Block, after: Model, now: i32, stays: bool) {
        self.statistics.offered += 1;
        self.statistics.accepted += 1;
        self.statistics.transactions += block.transactions.len() as u64;
        let before = self.node.digest();
        let found = self.node.offer(std::slice::from_ref(block), now);
        if found != ExpectedResult::Valid {
            let hex = hex::encode(block.to_bytes(SigningForm::Verifiable));
            return self.add_difference(format!("a good block: given {found:?}; time {now}; {hex}"));
        }
        let own = std::mem::replace(&mut self.model, after);
        self.check_state();
        let digest = self.node.digest();
        self.node.roll_back(own.height);
        if self.node.digest() != before {
            self.add_difference("the state after undoing a block is not that before it".to_owned());
        }
        if !stays {
            if let Some(recorder) = &mut self.recorder {
                let bytes = bytes_of(std::slice::from_ref(block));
                recorder.undone(&self.test_network, &Part::after(&own, &bytes, now), &[&own, &self.model]);
            }
            self.model = own;
            return;
        }
        let again = self.node.offer(std::slice::from_ref(block), now);
        if again != ExpectedResult::Valid || self.node.digest() != digest {
            self.add_difference(format!("a block undone and taken in again: {again:?}"));
        }
        self.count_proof_classes(&own, block);
        self.count_content_classes(&own, block);
        if let Some(recorder) = &mut self.recorder {
            recorder.state(&self.test_network, &own, &self.model);
        }
        self.history.push_back(PastBlock { model: own, block: block.clone(), now, digest: before });
        if self.history.len() > parts::MAX_UNDONE {
            self.history.pop_front();
        }
        self.remember(block);
    }

    /// Counts features of a block's signer and time.
    fn count_proof_classes(&mut self, before: &Model, block: &Block) {
        let (signer, terms) = (self.test_network.key_ring.of_key(&block.signer), &self.test_network.terms);
        let owner = before.accounts[signer].fee_recipient(before.height + 1, terms.rewrite_limit).unwrap_or(signer);
        let bound = before.proofs.difficulty(terms).1;
        let is_multisig = before.accounts[owner].is_multisig();
        let who = match owner {
            _ if HARVESTERS.contains(&owner) => None,
            _ => Some(match (signer == owner, is_multisig) {
                (true, false) => Class::OrdinaryHarvester,
                (false, false) => Class::OrdinaryRemote,
                (true, true) => Class::MultisigHarvester,
                (false, true) => Class::MultisigRemote,
            }),
        };
        let bound = match bound {
            Bound::None => None,
            Bound::Step => Some(Class::Step),
            Bound::Range => Some(Class::Range),
        };
        who.into_iter().chain(bound).for_each(|class| self.statistics.count_class(class));
    }

    /// Counts features of a block's content.
    fn count_content_classes(&mut self, before: &Model, block: &Block) {
        if self.is_full(&block.transactions) {
            self.statistics.count_class(Class::FullBlock);
        }
        let terms = &self.test_network.terms;
        let mosaics = |one: &Transaction| match &one.body {
            nisd::model::Body::Transfer(body) => body.mosaics.iter().filter(|mosaic| !mosaic.id.is_xem()).count(),
            _ => 0,
        };
        let has_mosaics = |wanted| {
            block.transactions.iter().flat_map(Transaction::self_and_children).any(|one| mosaics(one) == wanted)
        };
        let is_after_a_year = !terms.stake && block.height.0 > terms.year();
        let pays_expired_levy = self.pays_expired_levy(before, block);
        let has_name = |one: &Transaction| one.self_and_children().any(odd_bytes::has_odd_name);
        let has_text = |one: &Transaction| one.self_and_children().any(odd_bytes::has_odd_text);
        for (class, is_so) in [
            (Class::NineMosaics, has_mosaics(9)),
            (Class::TenMosaics, has_mosaics(10)),
            (Class::ExpiredLevy, pays_expired_levy),
            (Class::ImportanceYear, is_after_a_year),
            (Class::OddGoodName, block.transactions.iter().any(has_name)),
            (Class::OddGoodText, block.transactions.iter().any(has_text)),
        ] {
            if is_so {
                self.statistics.count_class(class);
            }
        }
        self.test_network.terms.kind.into_iter().for_each(|kind| self.statistics.count_class(Class::KINDS[kind]));
    }

    /// Returns whether a block pays a levy in a mosaic whose namespace has expired.
    fn pays_expired_levy(&self, before: &Model, block: &Block) -> bool {
        let oracle = self.test_network.oracle(before, 0, Purpose::Block);
        let moves = block.transactions.iter().filter_map(|one| oracle.moves(one).ok()).flatten();
        let pays = |moved: model::StateChange| match moved {
            model::StateChange::Mosaic { id, .. } => {
                !before.is_active(&id.namespace, oracle.height, oracle.terms.year())
            }
            _ => false,
        };
        // Nothing else moves such a mosaic.
        moves.into_iter().any(pays)
    }

    /// Returns whether a block has the maximum number of transactions, including inner ones.
    fn is_full(&self, transactions: &[Transaction]) -> bool {
        let count = transactions.iter().flat_map(Transaction::self_and_children).count();
        count as u64 == self.test_network.terms.per_block
    }

    /// Records a block that stays.
    fn remember(&mut self, block: &Block) {
        if let Some(recorder) = &mut self.recorder {
            recorder.accepted(block);
        }
        // Those of the treasury need no signature in its block, but they do elsewhere.
        if block.height.0 != self.test_network.terms.forks.treasury {
            self.recent.extend(block.transactions.iter().cloned());
        }
        while self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    /// Compares the state with the model and checks the invariants.
    fn check_state(&mut self) {
        let (score, expected) = (self.node.score(), self.model.proofs.score);
        if score != expected {
            self.statistics
                .differences
                .push(format!("score after height {}: {score}, not {expected}", self.model.height));
        }
        let facts = self.node.check_invariants().and_then(|facts| {
            let expected = self.model.hashes.len() as u64;
            if facts.hashes == expected { Ok(()) } else { Err(format!("{} hashes, not {expected}", facts.hashes)) }
        });
        let compared = facts.and_then(|()| self.node.compare(&self.test_network, &self.model));
        if let Err(text) = compared.and_then(|()| self.check_importances()) {
            self.statistics.differences.push(format!("state after height {}: {text}", self.model.height));
        }
    }

    /// Importances must be unchanged, or become those of the node if they were due. Under proof of stake they must
    /// equal the model's.
    fn check_importances(&mut self) -> Result<(), String> {
        let (height, found) = (self.model.height, self.node.importances(&self.test_network.key_ring));
        let due = (height / 359 * 359).max(1);
        if self.model.importance_height == due {
            let expected = self.model.accounts.iter().map(|one| one.importance);
            return if expected.eq(found) { Ok(()) } else { Err("importances have changed".to_owned()) };
        }
        if due != height {
            return Err(format!("importances of height {due} were never seen"));
        }
        let stakes = self.model.stakes(&self.test_network.terms);
        for ((account, found), stake) in self.model.accounts.iter_mut().zip(found).zip(stakes) {
            account.importance = found;
            let own = found.filter(|(height, _)| *height == due).map_or(0.0, |(_, importance)| importance);
            if self.test_network.terms.stake && (own - stake).abs() > 1e-12 {
                return Err(format!("importance {own} instead of {stake}"));
            }
        }
        self.model.importance_height = due;
        Ok(())
    }

    /// Offers an unconfirmed transaction and checks the result.
    fn announce(&mut self, transaction: &Transaction, now: i32) {
        self.statistics.announced += 1;
        let court = self.test_network.oracle(&self.model, now, Purpose::Mempool);
        let is_known = transaction.self_and_children().any(|one| self.model.hashes.contains_key(&one.hash()));
        let judged = if is_known { Err(Rule::PoolKnown.into()) } else { court.validate(transaction) };
        let alone = || RuleViolation::from(Rule::PoolAlone);
        let is_cosignature = matches!(transaction.body, nisd::model::Body::Cosignature(_));
        let judged = judged.and_then(|moves| if is_cosignature { Err(alone()) } else { Ok(moves) });
        let found = self.node.announce(transaction, now);
        self.check_announcement(transaction, judged.map(drop), &found, now);
    }

    fn check_announcement(
        &mut self,
        transaction: &Transaction,
        judged: Result<(), RuleViolation>,
        found: &ExpectedResult,
        now: i32,
    ) {
        if let Some(recorder) = &mut self.recorder {
            recorder.announced(transaction, self.node.height(), now, found);
        }
        self.check_mempool_result("unconfirmed", transaction, judged, found, now);
    }

    /// Compares the result of a transaction that was offered to a mempool with the expected one.
    fn check_mempool_result(
        &mut self,
        place: &str,
        transaction: &Transaction,
        judged: Result<(), RuleViolation>,
        found: &ExpectedResult,
        now: i32,
    ) {
        let expected = judged.as_ref().err().map_or(ExpectedResult::Valid, |ruling| ruling.verdict.clone());
        if let Err(ruling) = &judged {
            self.statistics.count_rejection(ruling.rule, true);
        }
        let is_refused = expected == ExpectedResult::RejectedSomehow && *found != ExpectedResult::Valid;
        if *found != expected && !is_refused {
            let hex = hex::encode(transaction.to_bytes(SigningForm::Verifiable));
            let rule = judged.err().map_or("valid", |ruling| ruling.rule.name());
            self.add_difference(format!("{place}, {rule}: expected {expected:?}, given {found:?}; time {now}; {hex}"));
        }
    }

    /// Advances the network by a block of valid transactions.
    fn advance(&mut self) {
        let harvesters = self.harvesters();
        let time = self.time_of(harvesters[0]);
        let now = time + self.random.below(100) as i32 - 10;
        if self.next_height() == self.test_network.terms.forks.treasury {
            return self.pay_treasury();
        }
        let is_full = self.full_blocks_left > 0;
        self.full_blocks_left = self.full_blocks_left.saturating_sub(1);
        let wanted = self.random.below(7);
        let tries = if is_full { TRIES } else { wanted };
        let mut block = self.block(harvesters[0], time, Vec::new());
        let mut after = self.model.clone();
        for place in 0..tries {
            if self.is_full(&block.transactions) {
                break;
            }
            let mut random = Random(self.random.next());
            let court = self.test_network.oracle(&after, now, Purpose::Block);
            // The maker sees the effects of earlier transactions of the block, but the model still has the previous
            // height.
            let mut maker = Maker { oracle: court, random: &mut random, time: time.min(now + 10), harvesters };
            // Small transactions fill a block.
            let draft = if place < wanted { maker.random_transaction() } else { maker.small_transfer() };
            let Some(draft) = draft else { continue };
            let Some(whole) = maker.finish(draft) else { continue };
            let mut more = block.transactions.clone();
            more.push(whole.clone());
            let candidate = self.block(harvesters[0], time, more);
            match self.test_network.oracle(&self.model, now, Purpose::Block).validate_block(&candidate) {
                Ok(judged) => {
                    block = candidate;
                    after = Model { height: self.model.height, ..judged };
                }
                // An invalid one is a case of its own, though it may be valid alone.
                Err(ruling) if self.random.below(4) == 0 => self.offer_bad(&ruling, &[candidate], now),
                Err(_) => {}
            }
        }
        self.try_near_miss(harvesters[0], time, now);
        let judged = self.test_network.oracle(&self.model, now, Purpose::Block).validate_block(&block);
        self.offer_good(&block, judged.expect("what was judged before"), now, true);
        if is_full && self.full_blocks_left == 0 {
            self.try_part();
        }
    }

    /// If a block is made at its first hit second, it must not be a hit one second earlier.
    fn try_near_miss(&mut self, signer: AccountIndex, time: i32, now: i32) {
        let elapsed = time - self.model.proofs.time();
        let (Some(importance), Some(first)) = (self.importance_of(signer), self.first_hit(signer)) else { return };
        let (key, terms) = (self.test_network.key_ring.public(signer), self.test_network.terms.clone());
        let is_close = |elapsed| self.model.proofs.is_close(&key, importance, elapsed, &terms);
        if elapsed != first || is_close(first) || is_close(first - 1) {
            return;
        }
        let early = self.block(signer, time - 1, Vec::new());
        self.offer_bad(&Rule::NotHit.into(), &[early], now);
        self.statistics.count_class(Class::FirstHit);
        self.statistics.count_class(Class::LastMiss);
        if terms.stabilize {
            self.statistics.count_class(Class::Stabilized);
        }
    }

    /// The treasury block: first one variant of what the network agreed on, then the other.
    fn pay_treasury(&mut self) {
        for (place, stays) in [(1, false), (0, true)] {
            let time = self.time();
            let block = self.block(HARVESTERS[0], time, self.test_network.treasury[place].clone());
            match self.test_network.oracle(&self.model, FAR_FUTURE, Purpose::Block).validate_block(&block) {
                Ok(after) => self.offer_good(&block, after, FAR_FUTURE, stays),
                Err(ruling) => self.add_difference(format!("the treasury is empty: {ruling:?}")),
            }
        }
    }

    /// Advances to a height worth a stop: often the next, rarely a distant one.
    fn advance_to_next_stop(&mut self) {
        if self.full_blocks_left > 0 {
            return;
        }
        if self.random.below(FULL_BLOCK_RARITY) == 0 {
            self.full_blocks_left = 2 + self.random.below(2);
        }
        let next = self.next_height();
        let target = match self.random.below(12) {
            0..3 if next > self.test_network.terms.forks.treasury => self.next_interesting_height(next + 20),
            0..6 => next + self.random.next() % 4,
            _ => next,
        };
        // The network stops just before and at every rule change.
        let changes = self.test_network.terms.forks.all().into_iter().flat_map(|fork| [fork - 1, fork]);
        let target = changes.filter(|height| *height >= next).min().map_or(target, |change| target.min(change));
        self.add_empty_blocks(target);
    }

    /// Returns the first height from `least` on at which something changes, or is about to.
    fn next_interesting_height(&mut self, least: u64) -> u64 {
        let terms = &self.test_network.terms;
        let (year, month, memory) = (terms.year(), terms.month(), terms.lease_retention());
        let mut heights: Vec<u64> = Vec::new();
        heights.extend([359, 360].map(|step| least.next_multiple_of(step)));
        for lease in self.model.roots.values().flat_map(|root| &root.leases) {
            let end = lease.height + year;
            heights.extend([end - month, end, end + month, (lease.height + memory).next_multiple_of(360) + 1]);
        }
        let links = self.model.accounts.iter().flat_map(|account| &account.links);
        heights.extend(links.map(|link| link.height + terms.rewrite_limit));
        // Where years are long, none passes.
        heights.retain(|height| (least..least + 4_000).contains(height));
        let offset = self.random.below(4) as u64;
        // Skipping some lets years pass.
        heights.sort_unstable();
        heights[self.random.below(heights.len().min(4))] + offset - 2
    }

    /// Adds empty blocks up to just before a height.
    fn add_empty_blocks(&mut self, height: u64) {
        let (signer, is_hasty) = (HARVESTERS[0], self.random.below(3) == 0);
        let key = self.test_network.key_ring.public(signer);
        while self.next_height() < height {
            // Importances stay the same until the next calculation.
            let until_computed = 359 - (self.next_height() - 1) % 359;
            let left = (height - self.next_height()).min(40).min(until_computed);
            let importance = self.importance_of(signer).expect("what a harvester has");
            let (mut blocks, mut models) = (Vec::<Block>::new(), Vec::new());
            for _ in 0..left {
                let parent = blocks.last().map_or_else(|| self.node.hash(self.node.height()), Block::hash);
                let (at, terms) = (self.model.height + 1, &self.test_network.terms);
                let first = self.model.proofs.first_hit(&key, importance, terms).expect("what a harvester waits for");
                let soonest = self.model.proofs.time() + first;
                let time = if is_hasty { soonest } else { terms.time(at).max(soonest) };
                blocks.push(ground::signed_block(&self.test_network.key_ring, signer, at, time, parent, Vec::new()));
                match self.model.proofs.difficulty(terms).1 {
                    Bound::None => {}
                    Bound::Step => self.statistics.count_class(Class::Step),
                    Bound::Range => self.statistics.count_class(Class::Range),
                }
                if self.recorder.is_some() {
                    models.push(self.model.clone());
                }
                self.model.proofs.advance(&key, time, terms);
                self.model.finish_block(signer, at, time, 0, terms);
            }
            self.history.clear();
            self.statistics.empty += left;
            let found = self.node.offer(&blocks, FAR_FUTURE);
            if found != ExpectedResult::Valid {
                let before = self.statistics.differences.join("\n");
                panic!("empty blocks up to {}: {found:?}; before that: {before}", self.model.height);
            }
            blocks.iter().for_each(|block| self.remember(block));
            if let Err(text) = self.check_importances() {
                self.statistics.differences.push(format!("after empty blocks up to {}: {text}", self.model.height));
            }
            if let Some(recorder) = &mut self.recorder {
                let after = models.iter().skip(1).chain([&self.model]);
                models.iter().zip(after).for_each(|(before, after)| recorder.state(&self.test_network, before, after));
            }
        }
    }
}
