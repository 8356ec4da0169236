//! What the interface may have the node do, and what it asks of the node's memory rather than of the chain.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;

use super::views::{NodeDescription, UnlockedInfo};
use crate::chain::Reorgs;
use crate::chain::harvest::UnlockResult;
use crate::crypto::{KeyPair, PrivateKey, PublicKey, Signature};
use crate::figures::Page;
use crate::model::{Address, Block, Height, Transaction};
use crate::peer::outside::MeetingId;
use crate::peer::wire::{Challenge, Endpoint, NodeExperiences, NodeInfo, NodeList};
use crate::peer::{Largest, Meeting, Peers};
use crate::pool::ShortId;
use crate::rules::{self, ValidationResult};
use crate::store::StoreError;

/// Pool and harvester as the interface may use them, on top of the same commit as the [`super::ChainView`] beside them.
pub trait Actions {
    /// Offers a signed transaction of this network, or of another, to the pool.
    fn announce(&mut self, transaction: Transaction) -> rules::Verdict;

    /// Takes a block of this network that the node with a key has pushed, to be judged soon unless it has come before or is of
    /// no use. `false` if this node has not joined its network, and takes none.
    fn push_block(&mut self, block: Block, by: PublicKey) -> Result<bool, StoreError>;

    /// What is known of other nodes; `None` if this node does not join its network.
    fn peers(&self) -> Option<&Peers> {
        None
    }

    /// Changes of the chain that have replaced blocks.
    fn reorgs(&self) -> Option<&Reorgs> {
        None
    }

    /// Some of them, drawn anew: partners, and other active ones by chance.
    fn partners(&mut self) -> NodeList {
        NodeList::default()
    }

    /// Some of the experiences that this node has made with others.
    fn experiences(&mut self) -> NodeExperiences {
        NodeExperiences { node: self.node().info.clone(), experiences: Vec::new() }
    }

    /// Another node says from an address that it is there. It may have to be asked back first.
    fn sign_of_life(&mut self, _node: &NodeInfo, _from: IpAddr) -> Meeting {
        Meeting::Ignored
    }

    /// What a node that was asked back is to be told, once that is known: why it could not be reached, if so.
    fn meeting_ended(&mut self, _meeting: MeetingId) -> Option<Option<String>> {
        Some(None)
    }

    /// The largest height of partners, or the question that was put to them: the request in hand waits until
    /// [`Actions::told_height`] knows.
    fn largest_height(&mut self) -> Largest {
        Largest::Known(Height::NEMESIS)
    }

    /// The largest height of partners for which the request in hand waits, once it is known.
    fn told_height(&mut self) -> Option<Height> {
        Some(Height::NEMESIS)
    }

    /// Takes note of what became of a transaction that the node with a key has pushed.
    fn pushed(&mut self, _by: &PublicKey, _result: ValidationResult) {}

    /// What a transaction that comes before the node has joined its network was answered; if it has never come, it is
    /// remembered as neutral from now on.
    fn note_early(&mut self, transaction: &Transaction) -> Option<ValidationResult>;

    /// Transactions of the pool that a node does not know which knows these, cosignatures by themselves included.
    fn unknown_to(&self, known: &BTreeSet<ShortId>) -> Vec<Rc<Transaction>>;

    /// Transactions of the pool that concern an account, the youngest first, at most `limit`. What this costs must not
    /// grow with the number of transactions of the account.
    fn unconfirmed(&self, account: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, StoreError>;

    /// Whether an importance transfer that concerns an account waits in the pool, among those that
    /// [`Actions::unconfirmed`] would give without a limit.
    fn has_importance_transfer(&self, account: &Address) -> Result<bool, StoreError>;

    /// Lets an account harvest on this node. Boxed, so that the key stays in one place.
    fn unlock(&mut self, pair: Box<KeyPair>) -> Result<UnlockResult, StoreError>;

    /// Ends that; no effect if it does not harvest.
    fn lock(&mut self, address: &Address);

    /// Whether an account harvests on this node.
    fn is_unlocked(&self, address: &Address) -> bool;

    /// How many accounts harvest on this node.
    fn unlocked_info(&self) -> UnlockedInfo;

    /// What the node tells of itself.
    fn node(&self) -> &NodeDescription;

    /// What those are told who watch the node.
    fn figures(&self) -> Page {
        Page::default()
    }

    /// Proves to another node that this one has the key that it is known by.
    fn sign_challenge(&self, challenge: &Challenge) -> Signature;

    /// A private key that nobody has ever had.
    fn new_key(&mut self) -> PrivateKey;

    /// Joins the network. Only for a node that has not.
    fn boot(&mut self, request: BootRequest) -> Result<(), StoreError>;

    /// Ends the node soon, once the answer is sent.
    fn shut_down(&mut self);
}

/// As whom a node is to join its network.
pub struct BootRequest {
    /// The key that it is to be known by.
    pub private_key: PrivateKey,
    /// What people are to call it.
    pub name: Option<String>,
    /// Where others are to reach it.
    pub endpoint: Endpoint,
    /// What whoever boots it calls the program.
    pub application: Option<String>,
}
