//! How much is held of what has a limit.

/// So much is held of something, and so much may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// What, for people.
    pub what: &'static str,
    /// Entries or bytes that are held.
    pub held: usize,
    /// Entries or bytes that may be.
    pub most: usize,
}

impl Load {
    /// So much of something, of which so much may be held.
    pub fn new(what: &'static str, held: usize, most: usize) -> Load {
        Load { what, held, most }
    }
}
