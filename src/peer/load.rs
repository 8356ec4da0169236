//! Usage of bounded collections.

/// Usage and limit of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Name of the collection, for people.
    pub what: &'static str,
    /// Used entries or bytes.
    pub held: usize,
    /// Maximum entries or bytes.
    pub most: usize,
}

impl Load {
    /// Creates a usage entry.
    pub fn new(what: &'static str, held: usize, most: usize) -> Load {
        Load { what, held, most }
    }
}
