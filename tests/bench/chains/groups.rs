//! Multisig accounts and importance links.

use nisd::model::transaction::{
    AggregateModification, Cosignature, ImportanceTransfer, LinkMode, Modification, ModificationKind, Multisig,
};
use nisd::model::units::MICRO;
use nisd::model::{Body, Height, Transaction};

use super::growth::NextBlock;
use super::people::Role;
use super::traffic::{Event, EventResult, Traffic};

/// Maximum number of cosignatories of an account.
const MAX_COSIGNATORIES: usize = 6;
/// Attempts to find a multisig account whose cosignatories have not signed yet.
const TRIES: usize = 8;
/// Minimum balance in micro-units of an account that becomes multisig.
const MIN_BALANCE: u64 = 5_000 * MICRO;

/// A multisig account.
pub struct Group {
    account: usize,
    cosignatories: Vec<usize>,
    /// Required number of signatures; `None` for those of all cosignatories.
    required_signatures: Option<usize>,
}

/// A link between an account and its remote harvesting account.
pub struct Link {
    owner: usize,
    remote: usize,
}

impl Traffic<'_> {
    /// Converts an account to a multisig account with two to four cosignatories.
    pub fn convert_to_multisig(&mut self, place: &NextBlock) -> Transaction {
        let account = self.assign_role(place, MIN_BALANCE, Role::Multisig);
        let mut cosignatories: Vec<usize> = Vec::new();
        let wanted = 2 + self.random.below(3);
        while cosignatories.len() < wanted {
            let found = self.cosignatory(place);
            if !cosignatories.contains(&found) {
                cosignatories.push(found);
            }
        }
        // The order on the wire.
        cosignatories.sort_by_key(|place| self.accounts.get(*place).address);
        let add = |place: &usize| Modification {
            kind: ModificationKind::Add,
            cosignatory: self.accounts.get(*place).keys.public(),
        };
        let modifications = cosignatories.iter().map(add).collect();
        let needed = 1 + self.random.below(wanted);
        let is_m_of_n = place.height.0 >= self.network.chain.forks.multisig_m_of_n;
        let required_signatures = is_m_of_n.then_some(needed);
        let min_cosignatories_change = required_signatures.map(|needed| needed as i32);
        self.groups.push(Group { account, cosignatories, required_signatures });
        let body = Body::AggregateModification(AggregateModification { modifications, min_cosignatories_change });
        let fee = self.prices.minimum_fee(&body);
        self.signed(place, account, if is_m_of_n { 2 } else { 1 }, fee, body)
    }

    /// Returns an account that may sign for others.
    fn cosignatory(&mut self, place: &NextBlock) -> usize {
        let roles = [Role::Ordinary, Role::Cosignatory];
        let found = self.accounts.payer(&mut self.random, place.height, 0, &roles);
        self.accounts.get_mut(found).role = Role::Cosignatory;
        found
    }

    /// Lets a multisig account make a payment or add a cosignatory; `None` if no suitable account is found.
    pub fn use_multisig(&mut self, place: &NextBlock) -> Option<Transaction> {
        let (index, signers) = (0..TRIES).find_map(|_| self.usable_group(place))?;
        let others = (signers.len() - 1) as u64;
        let (account, size) = (self.groups[index].account, self.groups[index].cosignatories.len());
        let signing_fees = self.prices.multisig_fee * (1 + others);
        let fees = signing_fees + self.prices.change_fee;
        if self.accounts.get(account).balance < fees {
            return None;
        }
        let inner = match self.random.below(8) {
            0 if size < MAX_COSIGNATORIES => self.added_cosignatory(place, index),
            _ => self.multisig_payment(place, account, fees),
        };
        self.accounts.spend(account, signing_fees);
        // It acts once per block, as if it had signed.
        self.accounts.sign(account, place.height);
        let cosignatures =
            signers[1..].iter().map(|signer| self.cosignature(place, *signer, account, &inner)).collect();
        let body = Body::Multisig(Box::new(Multisig { inner, cosignatures }));
        let outer = self.unsigned(place, signers[0], 1, self.prices.multisig_fee, body);
        Some(self.sign(place, signers[0], outer))
    }

    /// Returns a multisig account that has not acted in this block, with the required number of cosignatories.
    fn usable_group(&mut self, place: &NextBlock) -> Option<(usize, Vec<usize>)> {
        let index = self.random.below(self.groups.len().max(1));
        let Group { account, cosignatories, required_signatures } = self.groups.get(index)?;
        let needed = &required_signatures.unwrap_or(cosignatories.len());
        let nested = self.count + *needed as u64 + 1;
        if self.accounts.has_signed(*account, place.height) || nested + self.plan.reserved() > self.plan.block_limit() {
            return None;
        }
        let (start, count) = (self.random.below(cosignatories.len()), cosignatories.len());
        let in_turn = (0..count).map(|step| cosignatories[(start + step) % count]);
        let mut signers: Vec<usize> =
            in_turn.filter(|one| !self.accounts.has_signed(*one, place.height)).take(*needed).collect();
        let is_enough = signers.len() == *needed;
        // Cosignatures are ordered by address on the wire.
        if let Some(others) = signers.get_mut(1..) {
            others.sort_by_key(|one| self.accounts.get(*one).address);
        }
        is_enough.then_some((index, signers))
    }

    fn multisig_payment(&mut self, place: &NextBlock, account: usize, fees: u64) -> Transaction {
        let rest = self.accounts.get(account).balance - fees;
        let amount = (rest / 10).min((1 + self.random.next() % 3_000) * MICRO);
        let message = self.message();
        let to = self.accounts.payee(&mut self.random);
        let body = Body::Transfer(self.payment(to, amount, message, Vec::new()));
        let fee = self.prices.minimum_fee(&body);
        assert!(fee <= self.prices.change_fee, "that much was put aside");
        self.accounts.pay(account, to, amount);
        self.accounts.spend(account, fee);
        self.unsigned(place, account, 1, fee, body)
    }

    /// Adds a cosignatory to a multisig account.
    fn added_cosignatory(&mut self, place: &NextBlock, index: usize) -> Transaction {
        let (account, known) = (self.groups[index].account, self.groups[index].cosignatories.clone());
        let mut more = self.cosignatory(place);
        while known.contains(&more) {
            more = self.cosignatory(place);
        }
        self.groups[index].cosignatories.push(more);
        let cosignatory = self.accounts.get(more).keys.public();
        let modifications = vec![Modification { kind: ModificationKind::Add, cosignatory }];
        let body = AggregateModification { modifications, min_cosignatories_change: None };
        let body = Body::AggregateModification(body);
        let fee = self.prices.minimum_fee(&body);
        self.accounts.spend(account, fee);
        self.statistics.count("cosignatoriesAdded", 1);
        self.unsigned(place, account, 1, fee, body)
    }

    fn cosignature(&mut self, place: &NextBlock, signer: usize, account: usize, inner: &Transaction) -> Transaction {
        let other_account = self.accounts.get(account).address;
        let body = Body::Cosignature(Cosignature { other_hash: inner.hash().into(), other_account });
        let transaction = self.unsigned(place, signer, 1, self.prices.multisig_fee, body);
        self.sign(place, signer, transaction)
    }

    /// Lets an account delegate its importance to a new remote, if any are left. Harvesters are the first to do so.
    pub fn link(&mut self, place: &NextBlock) -> Option<Transaction> {
        let harvester = self.plan.delegating().nth(self.links.len());
        if harvester == Some(place.harvester) {
            return None;
        }
        let remote = self.accounts.take_remote()?;
        let owner = match harvester {
            Some(harvester) => harvester,
            None => self.assign_role(place, self.prices.multisig_fee, Role::Delegator),
        };
        self.links.push(Link { owner, remote });
        if harvester.is_none() {
            self.schedule_unlink(place.height, self.links.len() - 1);
        }
        Some(self.change_link(place, self.links.len() - 1, LinkMode::Activate))
    }

    fn schedule_unlink(&mut self, height: Height, link: usize) {
        let end = self.height_of_next_change(height);
        self.schedule(end, Event::Unlink(link));
    }

    /// Returns the height from which a link that changes now may change again.
    fn height_of_next_change(&mut self, height: Height) -> Height {
        let limit = self.network.chain.rewrite_limit;
        height.plus(limit + self.random.next() % limit)
    }

    /// Lets the owner end the delegation.
    pub fn unlink(&mut self, place: &NextBlock, link: usize) -> EventResult {
        let owner = self.links[link].owner;
        self.run_action(place, owner, self.prices.multisig_fee, |traffic| {
            if traffic.random.coin() {
                let again = traffic.height_of_next_change(place.height);
                traffic.schedule(again, Event::Relink(link));
            }
            traffic.change_link(place, link, LinkMode::Deactivate)
        })
    }

    /// Lets the owner delegate to the same remote again.
    pub fn relink(&mut self, place: &NextBlock, link: usize) -> EventResult {
        let owner = self.links[link].owner;
        self.run_action(place, owner, self.prices.multisig_fee, |traffic| {
            traffic.statistics.count("linksMadeAgain", 1);
            traffic.schedule_unlink(place.height, link);
            traffic.change_link(place, link, LinkMode::Activate)
        })
    }

    fn change_link(&mut self, place: &NextBlock, link: usize, mode: LinkMode) -> Transaction {
        let Link { owner, remote } = self.links[link];
        self.statistics.count(if mode == LinkMode::Activate { "linksMade" } else { "linksEnded" }, 1);
        let remote = self.accounts.get(remote).keys.public();
        let body = Body::ImportanceTransfer(ImportanceTransfer { mode, remote });
        self.signed(place, owner, 1, self.prices.multisig_fee, body)
    }
}
