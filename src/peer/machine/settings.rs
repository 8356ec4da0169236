//! What the operator decides on.

use crate::codec::{Context, Format};
use crate::model::Checkpoint;
use crate::model::network::ChainParameters;
use crate::peer::wire::{Endpoint, NodeInfo};

/// How a node finds out at which address others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpDetection {
    /// Others are asked; without an answer the node does not join the network.
    Required,
    /// Others are asked, and need not answer.
    Optional,
    /// It keeps the address that was configured.
    Disabled,
}

/// A node of the operator's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownPeer {
    /// One whose key is known.
    Node(NodeInfo),
    /// One that is only known by where it is reached. The key with which it first answers is the one it has from then on.
    Endpoint(Endpoint),
}

/// What the operator decides on.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// Partners in a draw of several, besides those of the operator's list.
    pub node_limit: usize,
    /// Nodes that are asked for their time at once.
    pub time_sync_node_limit: usize,
    /// Format of requests to others, and of their answers.
    pub format: Format,
    /// Whether network time follows that of the others.
    pub uses_network_time: bool,
    /// How the own address is found out.
    pub ip_detection: IpDetection,
    /// Parameters of the chain, which bound answers.
    pub chain: ChainParameters,
    /// Blocks that a chain must be ahead to be fetched from several nodes at once ([`far_ahead`]); fewer are fetched from one,
    /// an attempt after the other.
    ///
    /// [`far_ahead`]: crate::peer::attempt::far_ahead
    pub far_ahead: u64,
    /// A block that the operator vouches for.
    pub checkpoint: Option<Checkpoint>,
    /// The network.
    pub context: Context,
    /// The operator's list, on which this node may be. What is beyond the limit of the table of nodes is left out.
    pub known: Vec<KnownPeer>,
}
