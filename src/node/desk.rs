//! Mempool, harvester and chain as the API uses them, on one snapshot.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use super::figures::{self, Sources};
use super::harvester::Harvester;
use super::identity::Identity;
use super::judge::{Judge, Pushed};
use super::partners::{Means, Partners};
use super::randomness::Randomness;
use super::unconfirmed::Unconfirmed;
use crate::api::views::UnlockedInfo;
use crate::api::{Actions, BootRequest, ChainView, NodeDescription};
use crate::chain::Reorgs;
use crate::chain::harvest::UnlockResult;
use crate::crypto::{KeyPair, PrivateKey, PublicKey, Signature};
use crate::figures::Page;
use crate::model::{Address, Block, Height, Timestamp, Transaction};
use crate::net::machine::{ConnectionId, Effects};
use crate::peer::outside::{InquiryId, MeetingId};
use crate::peer::wire::{Challenge, NodeExperiences, NodeInfo, NodeList};
use crate::peer::{self, Largest, Meeting, Peers, Pusher};
use crate::pool::{Confirmed, ShortId};
use crate::rules::{ValidationResult, Verdict};
use crate::store::StoreError;

/// Everything that the API needs to answer a request.
pub struct Desk<'a, 's> {
    pub unconfirmed: &'a mut Unconfirmed,
    pub harvester: &'a mut Harvester<'s>,
    pub judge: &'a mut Judge<'s>,
    pub identity: &'a mut Identity,
    pub randomness: &'a mut Randomness,
    pub partners: &'a mut Partners,
    pub reorgs: &'a Reorgs,
    /// Sends requests to peers; `None` where that is not possible.
    pub effects: Option<&'a mut dyn Effects>,
    /// The current time for the peer layer.
    pub now: peer::outside::Now,
    /// The connection of the current request, if there is one.
    pub connection: Option<ConnectionId>,
    /// The address of the client.
    pub from: Option<IpAddr>,
    /// Set if the current request is a ping that waits for verification.
    pub meeting: Option<MeetingId>,
    /// Set if the current request waits for the maximum height of the peers.
    pub inquiry: Option<InquiryId>,
    /// The current request asks for shutdown.
    pub is_to_end: bool,
    /// Sources of the metrics; `None` where metrics are not available.
    pub sources: Option<Sources<'a>>,
    pub view: ChainView<'a>,
    pub time: Timestamp,
}

impl<'a> Desk<'a, '_> {
    fn confirmed(&self) -> Confirmed<'a> {
        let ChainView { snapshot, network, height, .. } = self.view;
        Confirmed { snapshot, network, height, now: self.time }
    }

    /// The sender of a push that is signed with `key`.
    fn pusher(&self, key: PublicKey) -> Pusher {
        Pusher { key, from: self.from.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) }
    }
}

impl Actions for Desk<'_, '_> {
    fn reorgs(&self) -> Option<&Reorgs> {
        Some(self.reorgs)
    }

    fn announce(&mut self, transaction: Transaction) -> Verdict {
        let confirmed = self.confirmed();
        let passed_on = self.partners.have_joined().then(|| transaction.clone());
        self.unconfirmed.announce(transaction, &confirmed)?;
        passed_on.iter().for_each(|transaction| self.partners.pass_on(transaction));
        Ok(())
    }

    fn push_block(&mut self, block: Block, by: PublicKey) -> Result<bool, StoreError> {
        let (confirmed, by) = (self.confirmed(), self.pusher(by));
        let pushed = self.judge.push(block, by, &confirmed, self.partners.have_joined())?;
        if let Pushed::Ended(result) = pushed {
            self.partners.pushed(&by, result, self.now);
        }
        Ok(pushed != Pushed::Early)
    }

    fn peers(&self) -> Option<&Peers> {
        self.partners.peers()
    }

    fn partners(&mut self) -> NodeList {
        let mut random = || self.randomness.bits();
        self.partners.peers().map(|peers| peers.told_of(&mut random)).unwrap_or_default()
    }

    fn experiences(&mut self) -> NodeExperiences {
        let mut random = || self.randomness.bits();
        match self.partners.peers() {
            Some(peers) => peers.experiences(&mut random),
            None => NodeExperiences { node: self.identity.description.info.clone(), experiences: Vec::new() },
        }
    }

    fn sign_of_life(&mut self, node: &NodeInfo, from: IpAddr) -> Meeting {
        let ChainView { snapshot, network, .. } = self.view;
        let Some(effects) = self.effects.as_deref_mut() else { return Meeting::Ignored };
        let means = Means { snapshot, network, pool: &self.unconfirmed.pool, randomness: self.randomness, effects };
        let meeting = self.partners.sign_of_life(node, from, self.now, means);
        if let Meeting::Waiting(id) = &meeting {
            self.meeting = Some(*id);
        }
        meeting
    }

    fn largest_height(&mut self) -> Largest {
        let ChainView { snapshot, network, .. } = self.view;
        let Some(effects) = self.effects.as_deref_mut() else { return Largest::Known(Height::NEMESIS) };
        let means = Means { snapshot, network, pool: &self.unconfirmed.pool, randomness: self.randomness, effects };
        let asked = self.partners.largest_height(self.now, means);
        if let Largest::Asked(id) = asked {
            self.inquiry = Some(id);
        }
        asked
    }

    fn told_height(&mut self) -> Option<Height> {
        self.partners.told_height(self.connection?)
    }

    fn meeting_ended(&mut self, meeting: MeetingId) -> Option<Option<String>> {
        self.partners.meeting_ended(meeting)
    }

    fn pushed(&mut self, by: &PublicKey, result: ValidationResult) {
        self.partners.pushed(&self.pusher(*by), result, self.now);
    }

    fn note_early(&mut self, transaction: &Transaction) -> Option<ValidationResult> {
        self.unconfirmed.pool.note_early(transaction, self.time)
    }

    fn unknown_to(&self, known: &BTreeSet<ShortId>) -> Vec<Rc<Transaction>> {
        self.unconfirmed.pool.unknown_to(known)
    }

    fn unconfirmed(&self, account: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, StoreError> {
        if self.unconfirmed.pool.is_empty() {
            return Ok(Vec::new());
        }
        let roots = self.unconfirmed.pool.most_recent(account, limit, &self.confirmed())?;
        Ok(roots.into_iter().map(|root| Rc::clone(&root.transaction)).collect())
    }

    fn has_importance_transfer(&self, account: &Address) -> Result<bool, StoreError> {
        Ok(self.unconfirmed.pool.has_importance_transfer(account))
    }

    fn unlock(&mut self, pair: Box<KeyPair>) -> Result<UnlockResult, StoreError> {
        let ChainView { snapshot, network, height, .. } = self.view;
        self.harvester.unlocked.unlock(pair, height, snapshot, network)
    }

    fn lock(&mut self, address: &Address) {
        self.harvester.unlocked.lock(address);
    }

    fn is_unlocked(&self, address: &Address) -> bool {
        self.harvester.unlocked.contains(address)
    }

    fn unlocked_info(&self) -> UnlockedInfo {
        UnlockedInfo { max: self.harvester.unlocked.limit(), count: self.harvester.unlocked.count() as i32 }
    }

    fn node(&self) -> &NodeDescription {
        &self.identity.description
    }

    fn sign_challenge(&self, challenge: &Challenge) -> Signature {
        self.identity.sign_challenge(challenge)
    }

    fn new_key(&mut self) -> PrivateKey {
        PrivateKey::from_seed(&self.randomness.draw())
    }

    fn boot(&mut self, request: BootRequest) -> Result<(), StoreError> {
        let confirmed = self.confirmed();
        self.harvester.unlock_configured(Some(&request.private_key), &confirmed)?;
        self.identity.boot(request);
        log::info!("joined the network as {}", self.identity.description.info.identity.key);
        Ok(())
    }

    fn figures(&self) -> Page {
        self.sources.as_ref().map(|sources| figures::page(self, sources)).unwrap_or_default()
    }

    fn shut_down(&mut self) {
        self.is_to_end = true;
    }
}
