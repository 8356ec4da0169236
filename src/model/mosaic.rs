//! Mosaics: names, attachments, definitions and levies.

use std::fmt;

use super::address::Address;
use super::namespace::{NamespaceError, NamespaceId};
use super::network::NAMESPACE_SINK;
use crate::crypto::PublicKey;

/// Maximum supply of a mosaic in its smallest units.
pub const MAX_QUANTITY: u64 = 9_000_000_000_000_000;
/// Largest divisibility.
pub const MAX_DIVISIBILITY: u8 = 6;
/// Maximum UTF-16 units of a mosaic description.
pub const MAX_DESCRIPTION_UNITS: usize = 512;
const MAX_NAME_LENGTH: usize = 32;

/// Id of a mosaic: `namespace:name`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MosaicId {
    /// The namespace.
    pub namespace: NamespaceId,
    name: String,
}

/// Why a text is not a mosaic id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MosaicIdError {
    /// The text does not have the form of a mosaic id.
    #[error("pattern '{0}' could not be parsed")]
    Pattern(String),
    /// The namespace is not valid.
    #[error("{0}")]
    Namespace(#[from] NamespaceError),
    /// The name is not valid.
    #[error("name does not match the desired pattern")]
    Name,
}

impl MosaicId {
    /// Creates an id. The name is at most 32 bytes: words of `a`–`z`, digits, `'`, `_` and `-`, separated by single
    /// spaces, with a letter or digit first.
    pub fn new(namespace: NamespaceId, name: &str) -> Result<MosaicId, MosaicIdError> {
        if !is_mosaic_name(name) || name.len() > MAX_NAME_LENGTH {
            return Err(MosaicIdError::Name);
        }
        Ok(MosaicId { namespace, name: name.to_owned() })
    }

    /// Parses the text form `namespace:name`.
    pub fn parse(text: &str) -> Result<MosaicId, MosaicIdError> {
        let in_namespace = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
        let is_namespace = |text: &str| !text.is_empty() && text.bytes().all(in_namespace);
        let parts = text.split_once(':').filter(|(namespace, name)| is_namespace(namespace) && is_mosaic_name(name));
        let (namespace, name) = parts.ok_or_else(|| MosaicIdError::Pattern(text.to_owned()))?;
        let namespace = NamespaceId::parse(namespace)?;
        MosaicId::new(namespace, name)
    }

    /// Returns the built-in `nem:xem`, which stands for the native currency.
    pub fn xem() -> MosaicId {
        MosaicId { namespace: NamespaceId::parse("nem").expect("a valid constant"), name: "xem".to_owned() }
    }

    /// Returns whether this is the built-in `nem:xem`.
    pub fn is_xem(&self) -> bool {
        self.name == "xem" && self.namespace.as_str() == "nem"
    }

    /// Returns the name within the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Returns whether a text is a mosaic name, apart from its length.
fn is_mosaic_name(name: &str) -> bool {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let starts_well = name.bytes().next().is_some_and(letter);
    starts_well
        && name
            .split(' ')
            .all(|word| !word.is_empty() && word.bytes().all(|b| letter(b) || matches!(b, b'\'' | b'_' | b'-')))
}

impl fmt::Display for MosaicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.namespace, self.name)
    }
}

impl fmt::Debug for MosaicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A mosaic attached to a transfer. The amount of the transfer, in whole units of the native currency, multiplies the
/// quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mosaic {
    /// Id of the mosaic.
    pub id: MosaicId,
    /// Quantity in smallest units.
    pub quantity: u64,
}

/// The four properties of a mosaic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MosaicProperties {
    /// Decimal places, 0 to 6.
    pub divisibility: u8,
    /// Whole units created with the definition.
    pub initial_supply: u64,
    /// Whether the supply may be changed later.
    pub supply_mutable: bool,
    /// Whether accounts other than the creator may transfer it.
    pub transferable: bool,
}

impl MosaicProperties {
    /// Returns the smallest units in a whole unit.
    pub fn multiplier(&self) -> u64 {
        10u64.pow(u32::from(self.divisibility))
    }

    /// Returns the maximum supply in whole units.
    pub fn max_supply(&self) -> u64 {
        MAX_QUANTITY / self.multiplier()
    }
}

wire_enum! {
    /// How a levy is computed.
    LevyKind {
        /// The fee is a fixed quantity.
        Absolute = 1,
        /// The fee is in ten-thousandths of the transferred quantity.
        Percentile = 2,
    }
}

/// A fee for a third account on each transfer of a mosaic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levy {
    /// How the fee is computed.
    pub kind: LevyKind,
    /// Recipient of the fee.
    pub recipient: Address,
    /// The mosaic in which the fee is paid.
    pub mosaic: MosaicId,
    /// Smallest units of that mosaic, or ten-thousandths.
    pub fee: u64,
}

/// Definition of a mosaic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MosaicDefinition {
    /// Key of the account that defined it.
    pub creator: PublicKey,
    /// Id of the mosaic.
    pub id: MosaicId,
    /// Description for people, up to 512 UTF-16 units.
    pub description: String,
    /// Properties.
    pub properties: MosaicProperties,
    /// Levy, if any.
    pub levy: Option<Levy>,
}

impl MosaicDefinition {
    /// Returns the definition of the built-in `nem:xem`.
    pub fn xem() -> MosaicDefinition {
        MosaicDefinition {
            creator: NAMESPACE_SINK,
            id: MosaicId::xem(),
            description: "reserved xem mosaic".to_owned(),
            properties: MosaicProperties {
                divisibility: 6,
                initial_supply: 8_999_999_999,
                supply_mutable: false,
                transferable: true,
            },
            levy: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_with_single_spaces_between() {
        for good in ["a", "gift vouchers", "b 1", "levy'd coin", "a -", "0"] {
            assert!(is_mosaic_name(good), "{good}");
        }
        for bad in ["", " a", "a ", "a  b", "'a", "-a", "a.b", "A"] {
            assert!(!is_mosaic_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_mosaic_id_is_checked_for_its_form_before_its_parts() {
        let refused = |text: &str| MosaicId::parse(text).unwrap_err().to_string();
        for text in ["", "foo", "foo:", ":bar", "foo:bar:baz", "FOO:bar", "foo:x ", "foo:'x", "-a: b"] {
            assert_eq!(refused(text), format!("pattern '{text}' could not be parsed"));
        }
        assert_eq!(refused("-a:b"), "'-a' is not a valid namespace id part.");
        assert_eq!(refused("a.b.c.d:e"), "'a.b.c.d' is not a valid namespace.");
        assert_eq!(refused(&format!("foo:{}", "n".repeat(33))), "name does not match the desired pattern");
        assert_eq!(MosaicId::parse(&format!("foo:{}", "n".repeat(32))).unwrap().name().len(), 32);
    }
}
