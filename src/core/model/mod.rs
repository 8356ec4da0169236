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

/// Returns whether a character is not shown but changes what is: a control character, or one that joins text or turns its
/// direction.
pub fn is_invisible(character: char) -> bool {
    let is_format = matches!(
        character,
        '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    is_format || character.is_control()
}
