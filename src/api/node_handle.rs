//! The calls that handlers make to the node: actions, and queries of what only the node's memory holds.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;

use super::views::{NodeDescription, UnlockedInfo};
use crate::chain::ReorgLog;
use crate::chain::harvest::UnlockResult;
use crate::crypto::{KeyPair, PrivateKey, PublicKey, Signature};
use crate::mempool::ShortId;
use crate::metrics::Exposition;
use crate::model::{Address, Block, Height, Transaction};
use crate::peer::wire::{Challenge, Endpoint, NodeExperiences, NodeInfo, NodeList};
use crate::peer::{ClientAnswer, Manager};
use crate::rules::{self, ValidationResult};
use crate::store::StoreError;

/// The node as handlers see it, on the same commit as the [`super::ChainSnapshot`] beside it.
pub trait NodeHandle {
    /// Submits a signed transaction, of this network or another, to the mempool.
    fn announce(&mut self, transaction: Transaction) -> rules::RuleResult;

    /// Submits a block of this network that the peer with key `by` pushed. It is validated after this call, unless it
    /// came before or is of no use. Returns `false` if this node has not joined its network and accepts none.
    fn push_block(&mut self, block: Block, by: PublicKey) -> Result<bool, StoreError>;

    /// Returns the peer table, or `None` if this node does not join its network.
    fn peers(&self) -> Option<&Manager> {
        None
    }

    /// Returns the reorgs since the start.
    fn reorgs(&self) -> Option<&ReorgLog> {
        None
    }

    /// Returns newly drawn sync peers and a random selection of other active peers.
    fn active_peer_sample(&mut self) -> NodeList {
        NodeList::default()
    }

    /// Returns a random selection of this node's experiences with peers.
    fn experiences(&mut self) -> NodeExperiences {
        NodeExperiences { node: self.description().info.clone(), experiences: Vec::new() }
    }

    /// Handles a sign of life from an address. Returns `None` if a request back to the peer has to verify it first: the
    /// request in hand then waits until [`NodeHandle::answer_of_peers`] returns the answer.
    fn sign_of_life(&mut self, _node: &NodeInfo, _from: IpAddr) -> Option<ClientAnswer> {
        Some(ClientAnswer::Accepted)
    }

    /// Returns the maximum chain height of the sync peers. If it is not known, they are asked for it, and the request in
    /// hand waits until [`NodeHandle::answer_of_peers`] returns it.
    fn max_chain_height(&mut self) -> Option<Height> {
        Some(Height::NEMESIS)
    }

    /// Returns, once, what the request in hand waits for, if the peers have answered.
    fn answer_of_peers(&mut self) -> Option<ClientAnswer> {
        None
    }

    /// Records the validation result of a transaction that the peer with a key pushed.
    fn record_push_result(&mut self, _by: &PublicKey, _result: ValidationResult) {}

    /// Returns the remembered result of a transaction that arrives before the node has joined its network. A
    /// transaction without one is remembered as neutral from then on.
    fn result_before_join(&mut self, transaction: &Transaction) -> Option<ValidationResult>;

    /// Returns the unconfirmed transactions, and their cosignatures separately, that a peer with the `known` ids lacks.
    fn unknown_to(&self, known: &BTreeSet<ShortId>) -> Vec<Rc<Transaction>>;

    /// Returns the unconfirmed transactions that affect an account, the youngest first, at most `limit`. The cost must
    /// not grow with the number of transactions of the account.
    fn unconfirmed(&self, account: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, StoreError>;

    /// Returns whether an importance transfer that affects an account is among the transactions that
    /// [`NodeHandle::unconfirmed`] would return without a limit.
    fn has_importance_transfer(&self, account: &Address) -> Result<bool, StoreError>;

    /// Starts harvesting with an account on this node. The pair is boxed so that the key stays in one place in memory.
    fn unlock(&mut self, pair: Box<KeyPair>) -> Result<UnlockResult, StoreError>;

    /// Stops harvesting with an account. No effect if it does not harvest.
    fn lock(&mut self, address: &Address);

    /// Returns whether an account harvests on this node.
    fn is_unlocked(&self, address: &Address) -> bool;

    /// Returns how many accounts harvest on this node, and the limit.
    fn unlocked_info(&self) -> UnlockedInfo;

    /// Returns the description of this node.
    fn description(&self) -> &NodeDescription;

    /// Returns the metrics.
    fn metrics(&self) -> Exposition {
        Exposition::default()
    }

    /// Signs the challenge of a peer with the key of this node's identity.
    fn sign_challenge(&self, challenge: &Challenge) -> Signature;

    /// Generates a random private key.
    fn new_key(&mut self) -> PrivateKey;

    /// Joins the network. Must not be called on a node that has joined.
    fn boot(&mut self, request: BootRequest) -> Result<(), StoreError>;

    /// Shuts the node down after the response is sent.
    fn shut_down(&mut self);
}

/// The identity with which a node joins its network.
pub struct BootRequest {
    /// Private key of the node's identity.
    pub private_key: PrivateKey,
    /// Name of the node.
    pub name: Option<String>,
    /// Endpoint at which peers reach the node.
    pub endpoint: Endpoint,
    /// Name of the program, as the client that boots the node gives it.
    pub application: Option<String>,
}
