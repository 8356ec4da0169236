//! Usage of bounded collections.

/// Usage and limit of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitUsage {
    /// Name of the collection, for people.
    pub name: &'static str,
    /// Used entries or bytes.
    pub used: usize,
    /// Maximum entries or bytes.
    pub max: usize,
}

impl LimitUsage {
    /// Creates a usage entry.
    pub fn new(what: &'static str, held: usize, most: usize) -> LimitUsage {
        LimitUsage { name: what, used: held, max: most }
    }
}
