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

pub(crate) use wire_enum;

pub mod address;
pub mod mosaic;
pub mod network;
pub mod transaction;
pub mod units;

pub use address::{ADDRESS_LENGTH, Address, NetworkByte};
pub use mosaic::{Levy, LevyKind, Mosaic, MosaicDefinition, MosaicId, MosaicProperties, NamespaceId};
pub use network::{BLOCK_CHAIN_FEATURES, Network, SettingDifference};
pub use transaction::{Block, BlockKind, Body, Checkpoint, Transaction};
pub use units::{Amount, Hash256, Height, Timestamp, WireHash, utc};
