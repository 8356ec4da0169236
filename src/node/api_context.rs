//! Mempool, harvester and chain as the API uses them, on one snapshot.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use super::block_processor::{BlockProcessor, PushOutcome};
use super::harvester::Harvester;
use super::identity::Identity;
use super::mempool::MempoolManager;
use super::metrics::{self, MetricsSources};
use super::peers::{carry_out_actions, push_result};
use super::randomness::Randomness;
use crate::api::views::UnlockedInfo;
use crate::api::{BootRequest, ChainSnapshot, NodeDescription, NodeHandle};
use crate::chain::ReorgLog;
use crate::chain::harvest::UnlockResult;
use crate::crypto::{KeyPair, PrivateKey, PublicKey, Signature};
use crate::mempool::{ConfirmedChain, ShortId};
use crate::metrics::Exposition;
use crate::model::{Address, Block, Height, Timestamp, Transaction};
use crate::net::service::{ConnectionId, Effects};
use crate::peer::wire::{Challenge, NodeExperiences, NodeInfo, NodeList};
use crate::peer::{self, ClientAnswer, Manager, Pusher};
use crate::rules::{RuleResult, ValidationResult};
use crate::store::StoreError;

/// Everything that the API needs to answer a request.
pub struct ApiContext<'a, 's> {
    pub mempool: &'a mut MempoolManager,
    pub harvester: &'a mut Harvester<'s>,
    pub block_processor: &'a mut BlockProcessor<'s>,
    pub identity: &'a mut Identity,
    pub randomness: &'a mut Randomness,
    pub peers: &'a mut Option<Manager>,
    pub reorgs: &'a ReorgLog,
    /// Sends requests to peers; `None` where that is not possible.
    pub effects: Option<&'a mut dyn Effects>,
    /// The current time for the peer layer.
    pub now: peer::io::Now,
    /// The connection of the current request, if there is one.
    pub connection: Option<ConnectionId>,
    /// The address of the client.
    pub client_address: Option<IpAddr>,
    /// The current request asks for shutdown.
    pub shutdown_requested: bool,
    /// Sources of the metrics; `None` where metrics are not available.
    pub metrics_sources: Option<MetricsSources<'a>>,
    pub view: ChainSnapshot<'a>,
    pub time: Timestamp,
}

impl<'a> ApiContext<'a, '_> {
    fn confirmed(&self) -> ConfirmedChain<'a> {
        let ChainSnapshot { snapshot, network, height, .. } = self.view;
        ConfirmedChain { snapshot, network, height, now: self.time }
    }

    /// The sender of a push that is signed with `key`.
    fn pusher(&self, key: PublicKey) -> Pusher {
        Pusher { key, from: self.client_address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) }
    }

    /// Calls the peer layer for the client of the current request, and carries out its actions. `None` where that is not
    /// possible.
    fn with_peers<T>(&mut self, run: impl FnOnce(&mut Manager, ConnectionId, peer::io::Now) -> T) -> Option<T> {
        let (peers, client, effects) = (self.peers.as_mut()?, self.connection?, self.effects.as_deref_mut()?);
        let result = run(peers, client, self.now);
        carry_out_actions(peers, effects);
        Some(result)
    }
}

impl NodeHandle for ApiContext<'_, '_> {
    fn reorgs(&self) -> Option<&ReorgLog> {
        Some(self.reorgs)
    }

    fn announce(&mut self, transaction: Transaction) -> RuleResult {
        let confirmed = self.confirmed();
        let Some(peers) = self.peers.as_mut().filter(|peers| peers.is_booted()) else {
            return self.mempool.announce(transaction, &confirmed);
        };
        self.mempool.announce(transaction.clone(), &confirmed)?;
        let hash = transaction.hash();
        peers.queue_transaction(transaction, hash);
        Ok(())
    }

    fn push_block(&mut self, block: Block, by: PublicKey) -> Result<bool, StoreError> {
        let (confirmed, by) = (self.confirmed(), self.pusher(by));
        let has_joined = self.peers.as_ref().is_some_and(Manager::is_booted);
        let pushed = self.block_processor.push(block, by, &confirmed, has_joined)?;
        if let (PushOutcome::Rejected(result), Some(peers)) = (&pushed, &mut self.peers) {
            peers.record_push(&by, push_result(*result), self.now);
        }
        Ok(pushed != PushOutcome::NotBooted)
    }

    fn peers(&self) -> Option<&Manager> {
        self.peers.as_ref()
    }

    fn active_peer_sample(&mut self) -> NodeList {
        let mut random = || self.randomness.next_u64();
        self.peers.as_ref().map(|peers| peers.peers_to_share(&mut random)).unwrap_or_default()
    }

    fn experiences(&mut self) -> NodeExperiences {
        let mut random = || self.randomness.next_u64();
        match &self.peers {
            Some(peers) => peers.experiences(&mut random),
            None => NodeExperiences { node: self.identity.description.info.clone(), experiences: Vec::new() },
        }
    }

    fn sign_of_life(&mut self, node: &NodeInfo, from: IpAddr) -> Option<ClientAnswer> {
        let answer = self.with_peers(|peers, client, now| peers.on_sign_of_life(node, from, client, now));
        answer.unwrap_or(Some(ClientAnswer::Accepted))
    }

    fn max_chain_height(&mut self) -> Option<Height> {
        let height = self.with_peers(|peers, client, now| peers.max_chain_height(client, now));
        height.unwrap_or(Some(Height::NEMESIS))
    }

    fn answer_of_peers(&mut self) -> Option<ClientAnswer> {
        self.peers.as_mut()?.take_answer(self.connection?)
    }

    fn record_push_result(&mut self, by: &PublicKey, result: ValidationResult) {
        let (by, now) = (self.pusher(*by), self.now);
        self.peers.iter_mut().for_each(|peers| peers.record_push(&by, push_result(result), now));
    }

    fn result_before_join(&mut self, transaction: &Transaction) -> Option<ValidationResult> {
        self.mempool.pool.result_before_join(transaction, self.time)
    }

    fn unknown_to(&self, known: &BTreeSet<ShortId>) -> Vec<Rc<Transaction>> {
        self.mempool.pool.unknown_to(known)
    }

    fn unconfirmed(&self, account: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, StoreError> {
        if self.mempool.pool.is_empty() {
            return Ok(Vec::new());
        }
        let roots = self.mempool.pool.most_recent(account, limit, &self.confirmed())?;
        Ok(roots.into_iter().map(|root| Rc::clone(&root.transaction)).collect())
    }

    fn has_importance_transfer(&self, account: &Address) -> Result<bool, StoreError> {
        Ok(self.mempool.pool.has_importance_transfer(account))
    }

    fn unlock(&mut self, pair: Box<KeyPair>) -> Result<UnlockResult, StoreError> {
        let ChainSnapshot { snapshot, network, height, .. } = self.view;
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

    fn description(&self) -> &NodeDescription {
        &self.identity.description
    }

    fn sign_challenge(&self, challenge: &Challenge) -> Signature {
        self.identity.sign_challenge(challenge)
    }

    fn new_key(&mut self) -> PrivateKey {
        PrivateKey::from_seed(&self.randomness.next_bytes())
    }

    fn boot(&mut self, request: BootRequest) -> Result<(), StoreError> {
        let confirmed = self.confirmed();
        self.harvester.unlock_configured(Some(&request.private_key), &confirmed)?;
        self.identity.boot(request);
        log::info!("joined the network as {}", self.identity.description.info.identity.key);
        Ok(())
    }

    fn metrics(&self) -> Exposition {
        self.metrics_sources.as_ref().map(|sources| metrics::collect(self, sources)).unwrap_or_default()
    }

    fn shut_down(&mut self) {
        self.shutdown_requested = true;
    }
}
