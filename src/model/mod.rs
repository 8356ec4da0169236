//! The data model: networks, addresses, amounts, transactions, blocks, mosaics and namespaces.

/// Declares an enum of the values of a field, with their numbers on the wire.
macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $code:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$value_doc])* $value),* }

        impl $name {
            /// Returns the number on the wire.
            pub fn code(self) -> i32 {
                match self { $($name::$value => $code),* }
            }

            /// Returns the value with a number on the wire.
            pub fn from_code(code: i32) -> Option<$name> {
                match code {
                    $($code => Some($name::$value),)*
                    _ => None,
                }
            }
        }
    };
}

pub mod address;
pub mod block;
pub mod hash;
pub mod mosaic;
pub mod namespace;
pub mod network;
pub mod transaction;
pub mod units;

pub use address::{Address, NetworkByte};
pub use block::{Block, BlockKind, Checkpoint};
pub use hash::{Hash256, WireHash};
pub use mosaic::{Levy, LevyKind, Mosaic, MosaicDefinition, MosaicId, MosaicProperties};
pub use namespace::NamespaceId;
pub use network::{BLOCK_CHAIN_FEATURES, Network, SettingDifference};
pub use transaction::{Body, Transaction};
pub use units::{Amount, Height, Timestamp};
