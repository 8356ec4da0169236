//! Names of namespaces.

use std::fmt;

/// Maximum parts of a namespace name.
pub const MAX_DEPTH: usize = 3;
const MAX_ROOT_LENGTH: usize = 16;
const MAX_PART_LENGTH: usize = 64;

/// A namespace name of one to three valid parts joined by dots. Ordered as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceId(String);

/// Why a text is not a namespace name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    /// A part contains other characters than `a`–`z`, digits, `_` and `-`, or starts with one of the latter two.
    #[error("'{0}' is not a valid namespace id part.")]
    BadPart(String),
    /// The name has too many parts, or a part is too long.
    #[error("'{0}' is not a valid namespace.")]
    BadName(String),
}

impl NamespaceId {
    /// Parses a namespace name.
    pub fn parse(text: &str) -> Result<NamespaceId, NamespaceError> {
        if let Some(part) = text.split('.').find(|part| !is_part(part)) {
            return Err(NamespaceError::BadPart(part.to_owned()));
        }
        let lengths_fit = text.split('.').enumerate().all(|(level, part)| {
            let limit = if level == 0 { MAX_ROOT_LENGTH } else { MAX_PART_LENGTH };
            part.len() <= limit
        });
        if !lengths_fit || text.split('.').count() > MAX_DEPTH {
            return Err(NamespaceError::BadName(text.to_owned()));
        }
        Ok(NamespaceId(text.to_owned()))
    }

    /// Returns the name of the child `part` of this namespace.
    pub fn child(&self, part: &str) -> Result<NamespaceId, NamespaceError> {
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
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    first && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
}

impl fmt::Display for NamespaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NamespaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
