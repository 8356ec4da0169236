//! What the interface reads: the chain and its state at one commit.

mod accounts;
mod blocks;
mod names;

pub use blocks::{BlockCursor, BlockReader, Counted, RawTransaction};
pub use names::Page;

use super::views::NodeStatus;
use crate::codec::Context;
use crate::model::{Height, Network};
use crate::store::Snapshot;

/// Chain and state as of a commit, and what the node knows of itself. Every question fails only if the store does.
#[derive(Clone, Copy)]
pub struct ChainView<'a> {
    /// The commit.
    pub snapshot: &'a Snapshot<'a>,
    /// The network and its parameters.
    pub network: &'a Network,
    /// Height of the last block.
    pub height: Height,
    /// How far the node is.
    pub status: NodeStatus,
}

impl ChainView<'_> {
    /// What reading from outside needs to know.
    pub fn context(&self) -> Context {
        Context::of(self.network)
    }

    /// Whether the node has joined its network.
    pub fn is_booted(&self) -> bool {
        !matches!(self.status, NodeStatus::Running | NodeStatus::Booting)
    }
}
