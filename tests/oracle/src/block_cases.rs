//! Cases that break a rule for blocks, or one that is checked before all others.

use nisd::codec::SigningForm;
use nisd::crypto::PublicKey;
use nisd::model::transaction::{LinkMode, ModificationKind, SupplyChangeKind, wire_version};
use nisd::model::{Block, BlockKind, Body, Height, Mosaic, Transaction};

use super::court::Purpose;
use super::ground::{FAR_FUTURE, signed_block};
use super::maker::{MICRO, Maker};
use super::people::{ALWAYS_POOR, AccountIndex, DELEGATOR, HARVESTERS};
use super::rule::Rule;
use super::{NetworkRun, bytes_of};
use crate::Random;

/// Some of the keys that may not harvest.
const BLOCKED: [&str; 3] = [
    "b74e3914b13cb742dfbceef110d85bad14bd3bb77051a08be93c0f8a0651fde2",
    "897825b75e12aea7863486140775a6be93e810921a5988a64cd0f2ae49202a76",
    "2de79193ac4e974b8d172c5b0f17ccc1f57b3c8c49c793a47040e94c5d02c4c8",
];

impl NetworkRun {
    /// Offers a block-level case; returns whether the rule is one of these.
    pub fn try_block_case(&mut self, aim: Rule, harvesters: [AccountIndex; 2]) -> bool {
        use Rule::*;
        match aim {
            ManyBlocks
            | BadTransactionSignature
            | BadCosignatureSignature
            | WrongHeight
            | BadBlockSignature
            | WrongParent
            | NotHit => self.try_bad_proof(aim, harvesters),
            B3Blocked => self.try_blocked_key(),
            Unreadable => self.try_unreadable(harvesters),
            // Each of these offers many transactions.
            PoolFull if self.random.below(6) > 0 => {}
            PoolFull => self.fill_mempool(),
            U1 | PoolSignature | PoolKnown | PoolAlone => self.try_unconfirmed(aim),
            TwiceInPart | ChildTwiceInPart | B1 | B2 | B3Status | B4 | B5Signer | B5Owner | B6 | B6Child | B7 | B8
            | B9 | B10 | B11Supply | B11Transfer | B11Namespace | HazardKind => self.try_bad_block(aim, harvesters),
            _ => return false,
        }
        true
    }

    /// Calls `act` with a maker for the next height.
    pub fn with_maker<T>(&mut self, harvesters: [AccountIndex; 2], act: impl FnOnce(&mut Maker<'_>) -> T) -> T {
        let mut random = Random(self.random.next());
        let signer = if harvesters[0] == usize::MAX { HARVESTERS[0] } else { harvesters[0] };
        let time = self.time_of(signer);
        let court = self.test_network.oracle(&self.model, time, Purpose::Block);
        act(&mut Maker { oracle: court, random: &mut random, time, harvesters })
    }

    pub fn random_transaction(&mut self, harvesters: [AccountIndex; 2]) -> Option<Transaction> {
        self.with_maker(harvesters, |maker| {
            let draft = maker.valid_draft()?;
            maker.finish(draft)
        })
    }

    fn try_bad_proof(&mut self, aim: Rule, harvesters: [AccountIndex; 2]) {
        let (time, height) = (self.time_of(harvesters[0]), self.next_height());
        let mut blocks = vec![self.block(harvesters[0], time, Vec::new())];
        match aim {
            Rule::ManyBlocks => {
                // Seldom, because it is slow to make.
                if self.random.below(10) > 0 {
                    return;
                }
                let most = self.test_network.terms.rewrite_limit + 40;
                for step in 1..=most {
                    let (parent, at) = (blocks.last().map(Block::hash).unwrap_or_default(), height + step);
                    let at_time = self.test_network.terms.time(at);
                    blocks.push(signed_block(
                        &self.test_network.key_ring,
                        harvesters[0],
                        at,
                        at_time,
                        parent,
                        Vec::new(),
                    ));
                }
            }
            Rule::BadTransactionSignature | Rule::BadCosignatureSignature => {
                let is_inner = aim == Rule::BadCosignatureSignature;
                let Some(mut one) = self.random_transaction(harvesters) else { return };
                if is_inner && one.cosignatures().is_empty() {
                    return;
                }
                invalidate_signature(&mut one, is_inner, &mut self.random);
                blocks = vec![self.block(harvesters[0], time, vec![one])];
            }
            Rule::WrongHeight => {
                blocks[0].height = Height(if self.random.coin() { height + 1 } else { height - 1 });
                resign(&mut blocks[0], self.test_network.key_ring.keys(harvesters[0]));
            }
            Rule::BadBlockSignature => {
                let place = self.random.below(64);
                blocks[0].signature.iter_mut().for_each(|signature| signature.0[place] ^= 1);
            }
            Rule::WrongParent => {
                blocks[0].previous_hash.0[0] ^= 1;
                resign(&mut blocks[0], self.test_network.key_ring.keys(harvesters[0]));
            }
            _ => {
                // An account without a balance cannot make a block, and nobody can without delay.
                let poor = (ALWAYS_POOR..ALWAYS_POOR + 20).find(|who| self.model.accounts[*who].links.is_empty());
                let parent = self.model.proofs.time();
                let (who, time) = match poor.filter(|_| self.random.coin()) {
                    Some(who) => (who, time),
                    None => (harvesters[0], parent - self.random.below(2) as i32),
                };
                if time < 0 {
                    return;
                }
                blocks = vec![self.block(who, time, Vec::new())];
            }
        }
        let now = time + 1_000_000;
        self.offer_bad(&aim.into(), &blocks, now);
    }

    /// Nobody here can sign with such a key, and signatures are checked first, except below a trusted checkpoint.
    fn try_blocked_key(&mut self) {
        let key = BLOCKED[self.random.below(BLOCKED.len())];
        let time = self.time();
        let mut block = self.block(HARVESTERS[0], time, Vec::new());
        block.signer = PublicKey::from_hex(key).expect("a key");
        self.statistics.offered += 1;
        let found = self.node.import_trusted(&block);
        self.check_refusal(&Rule::B3Blocked.into(), self.model.height, &bytes_of(&[block]), FAR_FUTURE, &found);
    }

    fn try_unconfirmed(&mut self, aim: Rule) {
        let now = self.time();
        let none = [usize::MAX; 2];
        match aim {
            Rule::PoolKnown => {
                let count = self.recent.len();
                if count > 0 {
                    let one = self.recent[self.random.below(count)].clone();
                    self.announce(&one, now);
                }
            }
            Rule::U1 => {
                let Some(one) = self.random_transaction(none) else { return };
                let deadline = one.self_and_children().map(|one| one.deadline.0).min().unwrap_or(0);
                let late = deadline + self.random.below(3) as i32 - 1;
                self.announce(&one, late);
            }
            Rule::PoolAlone => {
                let Some(one) = self.random_transaction(none) else { return };
                if let Some(cosignature) = one.cosignatures().first().cloned() {
                    self.announce(&cosignature, now);
                }
            }
            _ => {
                let Some(mut one) = self.random_transaction(none) else { return };
                invalidate_signature(&mut one, false, &mut self.random);
                self.statistics.announced += 1;
                let found = self.node.announce(&one, now);
                self.check_announcement(&one, Err(aim.into()), &found, now);
            }
        }
    }

    fn try_bad_block(&mut self, aim: Rule, harvesters: [AccountIndex; 2]) {
        let mut signer = harvesters[0];
        let mut time = self.time_of(harvesters[0]);
        let mut now = time;
        let mut transactions = Vec::new();
        match aim {
            Rule::B1 => now = time - 11 - self.random.below(2) as i32,
            Rule::B3Status => {
                let (height, limit) = (self.next_height(), self.test_network.terms.rewrite_limit);
                let standing = self.model.accounts[DELEGATOR].link_state(height, limit);
                let is_active = standing.is_some_and(|one| (one.mode == LinkMode::Activate) != one.is_recent);
                if !is_active {
                    return;
                }
                signer = DELEGATOR;
                time = self.time_of(signer);
                now = time;
                if self.first_hit(signer).is_none() {
                    return;
                }
            }
            Rule::B5Owner if harvesters[0] == harvesters[1] => return,
            Rule::B9 => transactions = self.wrong_treasury(harvesters),
            Rule::B7 | Rule::B8 | Rule::HazardKind => {}
            Rule::TwiceInPart => {
                let Some(one) = self.random_transaction(harvesters) else { return };
                transactions = vec![one.clone(), one];
            }
            Rule::B6 => {
                let count = self.recent.len();
                if count == 0 {
                    return;
                }
                transactions = vec![self.recent[self.random.below(count)].clone()];
            }
            Rule::B6Child => {
                let Some(again) = self.confirmed_inner_again(harvesters) else { return };
                transactions = vec![again];
            }
            _ => {
                let made = self.with_maker(harvesters, |maker| maker.conflict(aim));
                let Some(made) = made else { return };
                transactions = made;
            }
        }
        if aim == Rule::B2 {
            let first = transactions.iter().map(|one| one.deadline.0).min().unwrap_or(0);
            time = time.max(first + 1);
            now = time;
        }
        let mut block = self.block(signer, time, transactions);
        match aim {
            Rule::B7 => block.version = wire_version(self.test_network.key_ring.other_network(), 1),
            Rule::B8 => {
                block.version = wire_version(self.test_network.key_ring.network, if self.random.coin() { 2 } else { 0 })
            }
            Rule::HazardKind => block.kind = BlockKind::Nemesis,
            _ => {}
        }
        resign(&mut block, self.test_network.key_ring.keys(signer));
        self.validate_and_offer(aim, &block, now);
    }

    /// Returns other transactions than the network agreed on, which is wrong only at that height.
    fn wrong_treasury(&mut self, harvesters: [AccountIndex; 2]) -> Vec<Transaction> {
        if self.next_height() != self.test_network.terms.forks.treasury {
            return Vec::new();
        }
        let [mut preferred, fallback] = self.test_network.treasury.clone();
        match self.random.below(5) {
            0 => Vec::new(),
            1 => {
                preferred.swap(0, 1);
                preferred
            }
            2 => preferred[..2].to_vec(),
            3 => [fallback, preferred].concat(),
            _ => self.random_transaction(harvesters).into_iter().collect(),
        }
    }

    /// Returns a multisig transaction whose inner transaction is already in the chain.
    fn confirmed_inner_again(&mut self, harvesters: [AccountIndex; 2]) -> Option<Transaction> {
        let known: Vec<Transaction> = self.recent.iter().filter(|one| one.inner().is_some()).cloned().collect();
        self.with_maker(harvesters, |maker| {
            let one = maker.random_element(&known)?;
            let whole = maker.wrap(one.inner()?.clone())?;
            maker.finish(whole)
        })
    }
}

/// Makes a signature invalid.
pub fn invalidate_signature(transaction: &mut Transaction, is_inner: bool, random: &mut Random) {
    let place = random.below(64);
    let flip = |one: &mut Transaction| one.signature.iter_mut().for_each(|signature| signature.0[place] ^= 1);
    match &mut transaction.body {
        Body::Multisig(body) if is_inner => body.cosignatures.iter_mut().take(1).for_each(flip),
        _ => flip(transaction),
    }
}

pub fn resign(block: &mut Block, keys: &nisd::crypto::KeyPair) {
    block.signature = Some(keys.sign(&block.to_bytes(SigningForm::NonVerifiable)));
}

impl Maker<'_> {
    /// Returns transactions that are valid one by one but not together in one block.
    fn conflict(&mut self, aim: Rule) -> Option<Vec<Transaction>> {
        let all = match aim {
            Rule::ChildTwiceInPart => return self.twin_multisigs(),
            Rule::B2 => {
                let mut draft = self.valid_draft()?;
                draft.deadline.0 = draft.timestamp.0 + 1 + self.random.below(100) as i32;
                vec![draft]
            }
            Rule::B4 => {
                let most = self.oracle.terms.per_block as usize + 1;
                (0..most).map(|_| self.small_transfer()).collect::<Option<_>>()?
            }
            Rule::B5Signer | Rule::B5Owner => {
                let [signer, owner] = self.harvesters;
                let who = if aim == Rule::B5Owner { owner } else { signer };
                let to = HARVESTERS[self.random.below(2)];
                let mut draft = self.transfer_of(who, to, MICRO, Vec::new());
                draft.version = wire_version(self.oracle.key_ring.network, 1);
                vec![draft]
            }
            Rule::B10 => self.two_modifications()?,
            _ => self.premature_use(aim)?,
        };
        all.into_iter().map(|draft| self.finish(draft)).collect()
    }

    pub fn small_transfer(&mut self) -> Option<Transaction> {
        let (from, to) = (self.random_single_payer(1_000)?, self.random_payee());
        let amount = self.random.next() % MICRO;
        let mut draft = self.transfer_of(from, to, amount, Vec::new());
        draft.version = wire_version(self.oracle.key_ring.network, 1);
        Some(draft)
    }

    fn two_modifications(&mut self) -> Option<Vec<Transaction>> {
        let who = self.random_account_where(|_, account| {
            account.is_multisig() && account.balance > 1_000 * MICRO && account.cosignatories.len() < 6
        })?;
        let mut others: Vec<AccountIndex> = Vec::new();
        while others.len() < 2 {
            let is_fit = |other: AccountIndex, account: &super::model::Account| {
                !account.is_multisig()
                    && account.links.is_empty()
                    && !account.cosignatory_of.contains(&who)
                    && other != who
                    && !others.contains(&other)
            };
            others.push(self.random_account_where(is_fit)?);
        }
        // A new cosignatory would have to sign the second one, unless a subset suffices.
        Some(others.into_iter().map(|other| self.modify(who, &[(ModificationKind::Add, other)], None)).collect())
    }

    /// Returns transactions that define a mosaic and use it in the same block.
    fn premature_use(&mut self, aim: Rule) -> Option<Vec<Transaction>> {
        let (name, owner) = self.random_own_namespace()?;
        let fresh = format!("y{}", self.random.below(1_000));
        let rented = (aim == Rule::B11Namespace).then(|| self.rent(owner, Some(name.clone()), &fresh));
        let name = if rented.is_some() { name.child(&fresh).ok()? } else { name };
        let id = self.token_name(name);
        let mut definition = self.definition_of(owner, id.clone());
        if let Some(token) = self.oracle.model.token(&id) {
            definition = token.definition.clone();
            definition.description = format!("another {fresh}");
        } else {
            definition.properties.supply_mutable = true;
            definition.properties.initial_supply = 5;
            definition.levy = None;
        }
        let defined = self.define(owner, definition);
        let used = match aim {
            Rule::B11Supply => self.change_supply(owner, id, SupplyChangeKind::Create, 1),
            Rule::B11Transfer => {
                let to = self.random_payee();
                let mut draft = self.transfer_of(owner, to, MICRO, vec![Mosaic { id, quantity: 0 }]);
                // Its fee cannot be computed yet.
                draft.fee.0 = draft.fee.0.max(200 * MICRO);
                draft
            }
            _ => return Some(vec![rented?, defined]),
        };
        Some(vec![defined, used])
    }
}
