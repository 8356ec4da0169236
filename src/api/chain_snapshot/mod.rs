//! The snapshot that handlers read: the chain and its state at one commit.

mod accounts;
mod blocks;

pub use accounts::Page;
pub use blocks::{BlockCursor, BlockReader, PeerBlockSize, RawTransaction};

use super::views::NodeStatus;
use crate::codec::Context;
use crate::model::{Height, Network};
use crate::store::Snapshot;

/// The chain and its state at one commit, and the status of the node. Every query fails only if the store fails.
#[derive(Clone, Copy)]
pub struct ChainSnapshot<'a> {
    /// The commit.
    pub snapshot: &'a Snapshot<'a>,
    /// The network and its parameters.
    pub network: &'a Network,
    /// Height of the tip.
    pub height: Height,
    /// Status of the node.
    pub status: NodeStatus,
}

impl ChainSnapshot<'_> {
    /// Returns the context for decoding data from outside.
    pub fn context(&self) -> Context {
        Context::of(self.network)
    }

    /// Returns whether the node has joined its network.
    pub fn is_booted(&self) -> bool {
        !matches!(self.status, NodeStatus::Running | NodeStatus::Booting)
    }
}
