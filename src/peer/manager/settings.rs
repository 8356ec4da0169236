//! Settings of the peer protocol.

use crate::codec::{Context, Format};
use crate::model::Checkpoint;
use crate::model::network::ChainParameters;
use crate::peer::wire::{Endpoint, NodeInfo};

/// Detection of this node's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpDetection {
    /// Query peers; do not join the network without an answer.
    Required,
    /// Query peers; join without an answer too.
    Optional,
    /// Keep the configured address.
    Disabled,
}

/// Entry of the operator's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreTrustedPeer {
    /// Peer with a known key.
    Node(NodeInfo),
    /// Peer with a known endpoint only. The key of its first answer is pinned.
    Endpoint(Endpoint),
}

/// Settings of the peer protocol.
#[derive(Clone, Debug)]
pub struct PeerSettings {
    /// Maximum number of peers in a selection by trust; pre-trusted peers are added.
    pub node_limit: usize,
    /// Maximum number of nodes whose clocks are queried at once for the calculation.
    pub time_sync_node_limit: usize,
    /// Format of requests and answers.
    pub format: Format,
    /// Whether network time follows the peers' clocks.
    pub uses_network_time: bool,
    /// Detection of this node's address.
    pub ip_detection: IpDetection,
    /// Chain parameters, which bound answers.
    pub chain: ChainParameters,
    /// A chain that extends ours by more than this many blocks is downloaded from several peers ([`far_ahead`]); a
    /// shorter one from one peer in several synchronisations.
    ///
    /// [`far_ahead`]: crate::peer::chain_comparison::far_ahead
    pub far_ahead: u64,
    /// Trusted checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Network context for decoding.
    pub context: Context,
    /// The operator's list, which may contain this node. Entries beyond the limit of the peer table are ignored.
    pub pre_trusted: Vec<PreTrustedPeer>,
}
