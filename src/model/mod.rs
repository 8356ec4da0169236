//! The data model: networks, addresses, amounts, transactions, blocks, mosaics and namespaces.

pub mod address;
pub mod block;
pub mod hash;
pub mod mosaic;
pub mod namespace;
pub mod network;
mod network_parameters;
pub mod transaction;
pub mod units;

pub use address::{Address, NetworkByte};
pub use block::{Block, BlockKind, Checkpoint};
pub use hash::{Hash256, WireHash};
pub use mosaic::{Levy, LevyKind, Mosaic, MosaicDefinition, MosaicId, MosaicProperties};
pub use namespace::NamespaceId;
pub use network::Network;
pub use network_parameters::{BLOCK_CHAIN_FEATURES, SettingDifference};
pub use transaction::{Body, Transaction};
pub use units::{Amount, Height, Timestamp};
