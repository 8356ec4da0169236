//! Mosaics: names, attachments, definitions and levies.

use std::fmt;

use super::address::Address;
use super::namespace::{NamespaceError, NamespaceId};
use super::network::NAMESPACE_SINK;
use crate::crypto::PublicKey;

/// Upper bound of the smallest units of a mosaic that may exist.
pub const MAX_QUANTITY: u64 = 9_000_000_000_000_000;
/// Largest divisibility.
pub const MAX_DIVISIBILITY: u8 = 6;
/// Most UTF-16 units of a mosaic's description.
pub const MAX_DESCRIPTION_UNITS: usize = 512;
const MAX_NAME_LENGTH: usize = 32;

/// `namespace:name`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MosaicId {
    /// The namespace.
    pub namespace: NamespaceId,
    name: String,
}

/// Why something is not the name of a mosaic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MosaicIdError {
    /// The text does not have the form of a mosaic's name.
    Pattern(String),
    /// The namespace is not valid.
    Namespace(NamespaceError),
    /// The name is not valid.
    Name,
}

impl fmt::Display for MosaicIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MosaicIdError::Pattern(text) => write!(f, "pattern '{text}' could not be parsed"),
            MosaicIdError::Namespace(error) => error.fmt(f),
            MosaicIdError::Name => f.write_str("name does not match the desired pattern"),
        }
    }
}

impl MosaicId {
    /// Checks the name: words of `a`–`z`, digits, `'`, `_` and `-`, separated by single spaces.
    pub fn new(namespace: NamespaceId, name: &str) -> Result<MosaicId, MosaicIdError> {
        if !is_mosaic_name(name) || name.len() > MAX_NAME_LENGTH {
            return Err(MosaicIdError::Name);
        }
        Ok(MosaicId { namespace, name: name.to_owned() })
    }

    /// Reads the text form `namespace:name`.
    pub fn parse(text: &str) -> Result<MosaicId, MosaicIdError> {
        let in_namespace = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
        let is_namespace = |text: &str| !text.is_empty() && text.bytes().all(in_namespace);
        let parts = text.split_once(':').filter(|(namespace, name)| is_namespace(namespace) && is_mosaic_name(name));
        let (namespace, name) = parts.ok_or_else(|| MosaicIdError::Pattern(text.to_owned()))?;
        let namespace = NamespaceId::parse(namespace).map_err(MosaicIdError::Namespace)?;
        MosaicId::new(namespace, name)
    }

    /// The built-in `nem:xem`, which stands for the native currency.
    pub fn xem() -> MosaicId {
        MosaicId { namespace: NamespaceId::parse("nem").expect("a valid constant"), name: "xem".to_owned() }
    }

    /// Whether this is the built-in `nem:xem`.
    pub fn is_xem(&self) -> bool {
        self.name == "xem" && self.namespace.as_str() == "nem"
    }

    /// The name within the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Whether a text is a mosaic's name, its length aside.
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

/// A mosaic attached to a transfer. The quantity is that of a transfer of one whole unit of the native
/// currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mosaic {
    /// Which mosaic.
    pub id: MosaicId,
    /// Smallest units.
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
    /// Whether others than the creator may pass it on.
    pub transferable: bool,
}

impl MosaicProperties {
    /// Smallest units in a whole unit.
    pub fn multiplier(&self) -> u64 {
        10u64.pow(u32::from(self.divisibility))
    }

    /// Largest supply in whole units.
    pub fn max_supply(&self) -> u64 {
        MAX_QUANTITY / self.multiplier()
    }
}

/// How a levy is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevyKind {
    /// The fee itself.
    Absolute,
    /// Fee ten-thousandths of the quantity transferred.
    Percentile,
}

impl LevyKind {
    /// The number on the wire.
    pub fn code(self) -> i32 {
        match self {
            LevyKind::Absolute => 1,
            LevyKind::Percentile => 2,
        }
    }

    /// The kind with that number.
    pub fn from_code(code: i32) -> Option<LevyKind> {
        match code {
            1 => Some(LevyKind::Absolute),
            2 => Some(LevyKind::Percentile),
            _ => None,
        }
    }
}

/// What must be paid to a third account with each transfer of a mosaic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levy {
    /// How it is computed.
    pub kind: LevyKind,
    /// Who receives it.
    pub recipient: Address,
    /// The mosaic in which it is paid.
    pub mosaic: MosaicId,
    /// Smallest units of that mosaic, or ten-thousandths.
    pub fee: u64,
}

/// A mosaic's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MosaicDefinition {
    /// Key of the account that defined it.
    pub creator: PublicKey,
    /// Its name.
    pub id: MosaicId,
    /// Text for people, up to 512 UTF-16 units.
    pub description: String,
    /// Its properties.
    pub properties: MosaicProperties,
    /// Its levy, if any.
    pub levy: Option<Levy>,
}

impl MosaicDefinition {
    /// The definition of the built-in `nem:xem`.
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
    fn a_text_is_refused_for_its_form_first_then_for_its_parts() {
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
