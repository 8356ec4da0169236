//! Names of namespaces; mosaics: names, attachments, definitions and levies.

use derive_more::{Debug, Display};

use super::address::Address;
use super::network::NAMESPACE_SINK;
use crate::crypto::PublicKey;

/// Maximum parts of a namespace name.
pub const MAX_DEPTH: usize = 3;
const MAX_ROOT_LENGTH: usize = 16;
const MAX_PART_LENGTH: usize = 64;

/// A namespace name of one to three valid parts joined by dots. Ordered as text.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[debug("{_0}")]
pub struct NamespaceId(String);

/// Why a text is not the name of a namespace or a mosaic: NIS1's text.
#[derive(Clone, Debug, Display, PartialEq, Eq)]
pub struct NameError(String);

impl NameError {
    /// Creates the error for a part of a namespace name with other characters than `a`–`z`, digits, `_` and `-`, or with
    /// one of the latter two at the start.
    pub fn bad_part(part: &str) -> NameError {
        NameError(format!("'{part}' is not a valid namespace id part."))
    }
}

impl NamespaceId {
    /// Parses a namespace name.
    pub fn parse(text: &str) -> Result<NamespaceId, NameError> {
        if let Some(part) = text.split('.').find(|part| !is_part(part)) {
            return Err(NameError::bad_part(part));
        }
        let lengths_fit = text.split('.').enumerate().all(|(level, part)| {
            let limit = if level == 0 { MAX_ROOT_LENGTH } else { MAX_PART_LENGTH };
            part.len() <= limit
        });
        if !lengths_fit || text.split('.').count() > MAX_DEPTH {
            return Err(NameError(format!("'{text}' is not a valid namespace.")));
        }
        Ok(NamespaceId(text.to_owned()))
    }

    /// Returns the name of the child `part` of this namespace.
    pub fn child(&self, part: &str) -> Result<NamespaceId, NameError> {
        NamespaceId::parse(&format!("{self}.{part}"))
    }

    /// Returns the whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name without its last part; `None` for a root.
    pub fn parent(&self) -> Option<NamespaceId> {
        self.0.rsplit_once('.').map(|(parent, _)| NamespaceId(parent.to_owned()))
    }

    /// Returns the first part.
    pub fn root(&self) -> &str {
        self.parts().next().unwrap_or_default()
    }

    /// Returns whether this is the built-in `nem`, which is never rented and never expires.
    pub fn is_built_in(&self) -> bool {
        self.0 == "nem"
    }

    /// Returns the parts, root first.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }

    /// Returns whether the name has a single part.
    pub fn is_root(&self) -> bool {
        !self.0.contains('.')
    }
}

/// Returns whether `text` is a valid part of a namespace name, apart from its length.
pub fn is_part(text: &str) -> bool {
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || matches!(c, '_' | '-'))
}

/// Returns whether a character is a letter or a digit of a name.
fn is_letter(character: char) -> bool {
    character.is_ascii_lowercase() || character.is_ascii_digit()
}

/// Maximum supply of a mosaic in its smallest units.
pub const MAX_QUANTITY: u64 = 9_000_000_000_000_000;
/// Largest divisibility.
pub const MAX_DIVISIBILITY: u8 = 6;
/// Maximum UTF-16 units of a mosaic description.
pub const MAX_DESCRIPTION_UNITS: usize = 512;
const MAX_NAME_LENGTH: usize = 32;

/// Id of a mosaic: `namespace:name`.
#[derive(Clone, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[display("{namespace}:{name}")]
#[debug("{self}")]
pub struct MosaicId {
    /// The namespace.
    pub namespace: NamespaceId,
    name: String,
}

impl MosaicId {
    /// Creates an id. The name is at most 32 bytes: words of `a`–`z`, digits, `'`, `_` and `-`, separated by single
    /// spaces, with a letter or digit first.
    pub fn new(namespace: NamespaceId, name: &str) -> Result<MosaicId, NameError> {
        if !is_mosaic_name(name) || name.len() > MAX_NAME_LENGTH {
            return Err(NameError("name does not match the desired pattern".to_owned()));
        }
        Ok(MosaicId { namespace, name: name.to_owned() })
    }

    /// Parses the text form `namespace:name`.
    pub fn parse(text: &str) -> Result<MosaicId, NameError> {
        let in_namespace = |c| is_letter(c) || matches!(c, '.' | '_' | '-');
        let is_namespace = |text: &str| !text.is_empty() && text.chars().all(in_namespace);
        let parts = text.split_once(':').filter(|(namespace, name)| is_namespace(namespace) && is_mosaic_name(name));
        let (namespace, name) = parts.ok_or_else(|| NameError(format!("pattern '{text}' could not be parsed")))?;
        MosaicId::new(NamespaceId::parse(namespace)?, name)
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
    let in_word = |c| is_letter(c) || matches!(c, '\'' | '_' | '-');
    name.starts_with(is_letter) && name.split(' ').all(|word| !word.is_empty() && word.chars().all(in_word))
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

impl Levy {
    /// Returns what is paid for a transfer of `quantity` smallest units. The product wraps at 64 bits.
    pub fn amount(&self, quantity: u64) -> i64 {
        match self.kind {
            LevyKind::Absolute => self.fee as i64,
            LevyKind::Percentile => (quantity as i64).wrapping_mul(self.fee as i64) / 10_000,
        }
    }
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
    /// Returns whether properties and levy are the same as in another definition.
    pub fn has_terms_of(&self, other: &MosaicDefinition) -> bool {
        self.properties == other.properties && self.levy == other.levy
    }

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
        let rejected = |text: &str| MosaicId::parse(text).unwrap_err().to_string();
        for text in ["", "foo", "foo:", ":bar", "foo:bar:baz", "FOO:bar", "foo:x ", "foo:'x", "-a: b"] {
            assert_eq!(rejected(text), format!("pattern '{text}' could not be parsed"));
        }
        assert_eq!(rejected("-a:b"), "'-a' is not a valid namespace id part.");
        assert_eq!(rejected("a.b.c.d:e"), "'a.b.c.d' is not a valid namespace.");
        assert_eq!(rejected(&format!("foo:{}", "n".repeat(33))), "name does not match the desired pattern");
        assert_eq!(MosaicId::parse(&format!("foo:{}", "n".repeat(32))).unwrap().name().len(), 32);
    }

    #[test]
    fn invalid_names_are_rejected_with_the_specified_text() {
        let text = |name: &str| NamespaceId::parse(name).unwrap_err().to_string();
        assert_eq!(text(""), "'' is not a valid namespace id part.");
        assert_eq!(text("a..b"), "'' is not a valid namespace id part.");
        assert_eq!(text("a.B"), "'B' is not a valid namespace id part.");
        assert_eq!(text("a.b.c.d"), "'a.b.c.d' is not a valid namespace.");
        assert_eq!(text(&"a".repeat(17)), format!("'{}' is not a valid namespace.", "a".repeat(17)));
    }

    #[test]
    fn a_child_name_ends_with_its_part() {
        let parent = NamespaceId::parse("alice").unwrap();
        assert_eq!(parent.child("vouchers").unwrap().as_str(), "alice.vouchers");
        assert_eq!(parent.child("vouchers").unwrap().root(), "alice");
        assert_eq!(parent.child("vouchers").unwrap().parent(), Some(parent.clone()));
        assert_eq!(parent.parent(), None);
    }
}
