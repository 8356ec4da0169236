//! The peer layer in the node: the chain and mempool that it reads, its effects, the work that it has for the rest of the
//! node, and the node's identity.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::read_ahead::ReadAhead;
use super::{Node, NodeChain};
use crate::api::BootRequest;
use crate::config::Settings;
use crate::crypto::{KeyPair, PrivateKey, Randomness};
use crate::mempool::{Mempool, ShortId};
use crate::model::{Address, Hash256, Height, Network, Timestamp};
use crate::net::service::Effects;
use crate::peer::io::{Action, LocalChain, Now, OwnTip, StoreUnreadable};
use crate::peer::wire::{self, MetaData, NodeInfo};
use crate::peer::{Manager, PeerSettings};
use crate::rules::{Rejection, ValidationResult};
use crate::state;
use crate::store::{Read, Snapshot, StoreError, block_row, stored_header, tip};

/// Rows of the trust calculation per tick.
const TRUST_ROWS_PER_TICK: usize = 32;
/// Transactions from remote mempools that are processed per tick.
const REMOTE_TRANSACTIONS_PER_TICK: usize = 4;

/// Carries out the actions that the peer layer has yielded.
pub fn carry_out_actions(peers: &mut Manager, effects: &mut dyn Effects) {
    for action in peers.take_actions() {
        match action {
            Action::Fetch(id, request) => effects.fetch(id, request),
            Action::Cancel(id) => effects.cancel(id),
            Action::Resume(client) => effects.resume(client),
        }
    }
}

impl Node<'_> {
    /// Returns whether this node has joined its network.
    pub(super) fn has_joined(&self) -> bool {
        self.peers.as_ref().is_some_and(Manager::is_booted)
    }

    /// Starts to join the network, if the node is booted and has not started yet. Joining is immediate if the own
    /// address need not be detected.
    pub(super) fn start_joining(&mut self, now: Now, effects: &mut dyn Effects) {
        if !self.identity.is_booted || self.peers.is_some() {
            return;
        }
        let listed = std::mem::take(&mut self.listed);
        let local = self.identity.info.clone();
        let connections = self.peer_connections;
        let settings = PeerSettings { connections, ..super::peer_settings(self.settings, listed) };
        let mut randomness = Randomness::new(&self.randomness.next_bytes());
        let random = Box::new(move || randomness.next_u64());
        let mut peers = Manager::new(local, Rc::clone(&self.identity.keys), settings, random, now);
        peers.add_saved_peers(&self.saved.saved);
        self.peers = Some(peers);
        self.with_peers(now, effects, |peers, chain| peers.tick(now, TRUST_ROWS_PER_TICK, chain));
    }

    /// Runs the due work of the peer layer, and applies its results to the node.
    pub(super) fn run_peers(&mut self, now: Now, effects: &mut dyn Effects) {
        self.start_joining(now, effects);
        let Some(peers) = &mut self.peers else { return };
        for block in std::mem::take(&mut self.relay_queue) {
            peers.push_block(block, now);
        }
        carry_out_actions(peers, effects);
        if now.monotonic < self.read_backoff.retry_at {
            return;
        }
        self.with_peers(now, effects, |peers, chain| peers.tick(now, TRUST_ROWS_PER_TICK, chain));
        if let Some(peers) = &mut self.peers {
            if self.block_processor.may_pull()
                && let Some(blocks) = peers.fetched_blocks.take()
            {
                self.block_processor.pull(blocks);
            }
            self.clock.shift(std::mem::take(&mut peers.clock_shift));
            self.identity.info.endpoint.clone_from(&peers.local.endpoint);
        }
        if let Err(error) = self.add_remote_transactions(now) {
            self.read_backoff.record_failure(&error, now.monotonic);
        }
    }

    /// Adds some transactions from a remote mempool to this one. They are not relayed.
    fn add_remote_transactions(&mut self, now: Now) -> Result<(), StoreError> {
        if !self.can_accept_announcements() {
            return Ok(());
        }
        let budget = self.budget(0);
        for _ in 0..REMOTE_TRANSACTIONS_PER_TICK {
            // The accounts of one may have been read from the disk.
            if budget.is_late() {
                break;
            }
            let transaction = self.peers.as_mut().and_then(Manager::next_remote_transaction);
            let Some(transaction) = transaction else { break };
            let added = self.mempool.add(transaction, &self.chain.at(now.network)?);
            // Any other invalid transaction has no consequences for the peer: it may be valid on the peer's chain.
            if let Err(Rejection::Result(ValidationResult::FailureSignatureNotVerifiable)) = added
                && let Some(peers) = &mut self.peers
            {
                peers.reject_remote_transactions(now);
            }
        }
        Ok(())
    }

    /// Runs the peer layer on the last commit, and carries out its actions. If the store cannot be read, only starts the
    /// read backoff.
    pub(super) fn with_peers(
        &mut self,
        now: Now,
        effects: &mut dyn Effects,
        run: impl FnOnce(&mut Manager, &ChainReader<'_>),
    ) {
        let Node { chain: NodeChain { reader, network, .. }, mempool, peers, read_backoff, read_ahead, .. } = self;
        let Some(peers) = peers else { return };
        match reader.snapshot() {
            Ok(snapshot) => {
                let read_ahead = RefCell::new(read_ahead);
                run(peers, &ChainReader { snapshot, network, mempool, read_ahead, now: now.monotonic });
                carry_out_actions(peers, effects);
            }
            Err(error) => read_backoff.record_failure(&error, now.monotonic),
        }
    }
}

/// The node's key, what others see of it, and whether it has joined its network.
pub struct Identity {
    /// Signs the node's messages.
    pub keys: Rc<KeyPair>,
    /// What peers see of the node.
    pub info: NodeInfo,
    /// Network time of its start.
    pub started: Timestamp,
    pub is_booted: bool,
}

impl Identity {
    /// Creates the identity from the settings. Without a configured boot key the node uses `new_key`, a fresh key.
    pub fn new(settings: &Settings, new_key: PrivateKey, now: Timestamp) -> Identity {
        let keys = KeyPair::new(settings.node.boot_key.as_ref().unwrap_or(&new_key));
        let address = || Address::from_public_key(&keys.public(), settings.network.byte).to_string();
        let platform = format!("nisd ({}) on {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS);
        let info = NodeInfo {
            identity: wire::Identity {
                key: keys.public(),
                name: Some(settings.node.boot_name.clone().unwrap_or_else(address)),
            },
            endpoint: settings.endpoint.clone(),
            meta_data: MetaData {
                version: settings.peers.announced_version.clone(),
                platform: Some(platform),
                application: None,
                features: settings.node.features.bits() as i32,
                network_id: MetaData::network_id_of(settings.network.byte),
            },
        };
        let is_booted = settings.node.auto_boot || settings.node.boot_key.is_some();
        Identity { keys: Rc::new(keys), info, started: now, is_booted }
    }

    /// Joins the network with the identity of the request.
    pub fn boot(&mut self, request: BootRequest) {
        let BootRequest { private_key, name, endpoint, application } = request;
        self.keys = Rc::new(KeyPair::new(&private_key));
        let NodeInfo { identity, endpoint: own_endpoint, meta_data } = &mut self.info;
        *identity = wire::Identity { key: self.keys.public(), name };
        *own_endpoint = endpoint;
        meta_data.application = application;
        self.is_booted = true;
    }
}

/// The last commit and the mempool, as the peer layer reads them.
pub struct ChainReader<'a> {
    snapshot: &'a Snapshot<'a>,
    network: &'a Network,
    mempool: &'a Mempool,
    read_ahead: RefCell<&'a mut ReadAhead>,
    now: Duration,
}

/// Returns the importance of a node's account, or of the one that delegated its importance to it, at the last calculation; 0
/// if it was not computed then.
pub fn node_importance(state: &impl Read, node: &Address, network: &Network) -> Result<f64, StoreError> {
    let height = tip(state)?.ok_or(StoreError::Empty)?.height;
    let lender = state::account(state, node)?.harvests_for(height, network.chain.rewrite_limit);
    state::current_importance(state, &lender.unwrap_or(*node))
}

impl LocalChain for ChainReader<'_> {
    fn tip(&self) -> Result<OwnTip, StoreUnreadable> {
        let last = tip(self.snapshot)?.ok_or(StoreError::Empty)?;
        let row = block_row(self.snapshot, last.height)?.ok_or(StoreError::Empty)?;
        Ok(OwnTip { height: last.height, hash: last.hash, signature: Some(row.signature), score: last.score })
    }

    fn hashes_from(&self, first: Height, most: u64) -> Result<Vec<Hash256>, StoreUnreadable> {
        let heights = (first.0..first.0.saturating_add(most)).map(Height);
        let headers = heights.map_while(|height| stored_header(self.snapshot, height).transpose());
        Ok(headers.map(|header| header.map(|header| header.hash)).collect::<Result<_, StoreError>>()?)
    }

    fn short_ids(&self) -> Vec<ShortId> {
        self.mempool.short_ids()
    }

    fn importance(&self, node: &Address) -> Result<f64, StoreUnreadable> {
        Ok(node_importance(self.snapshot, node, self.network)?)
    }

    fn has_read(&self, nodes: &[Address]) -> bool {
        self.read_ahead.borrow_mut().has_read_accounts(nodes, self.now)
    }

    fn important_accounts(&self) -> Result<u64, StoreUnreadable> {
        Ok(state::last_recalculation(self.snapshot)?.map_or(0, |last| last.eligible))
    }
}

impl From<StoreError> for StoreUnreadable {
    /// Logs the error, which the peer layer does not need.
    fn from(error: StoreError) -> StoreUnreadable {
        log::warn!("{error}");
        StoreUnreadable
    }
}
