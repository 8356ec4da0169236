//! The registered addresses (specification 07 §11).

use std::collections::BTreeSet;

/// An address as clients write it: 40 upper-case base32 characters without hyphens.
pub type AddressText = [u8; 40];

/// One set for all sessions that only ever grows, up to its limit; lost on restart.
#[derive(Debug)]
pub struct Registry {
    addresses: BTreeSet<AddressText>,
    limit: usize,
}

impl Registry {
    /// An empty registry for at most `limit` addresses.
    pub fn new(limit: usize) -> Self {
        Self { addresses: BTreeSet::new(), limit }
    }

    /// Adds `address`; false when it is new and there is no room for it.
    pub fn add(&mut self, address: AddressText) -> bool {
        if self.addresses.len() < self.limit {
            self.addresses.insert(address);
            return true;
        }
        self.contains(&address)
    }

    /// Whether anybody has registered `address`.
    pub fn contains(&self, address: &AddressText) -> bool {
        self.addresses.contains(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_registry_keeps_what_it_has_and_takes_nothing_new() {
        let mut registry = Registry::new(2);
        assert!(registry.add([b'A'; 40]) && registry.add([b'B'; 40]));
        assert!(registry.add([b'A'; 40]), "known addresses are no addition");
        assert!(!registry.add([b'C'; 40]));
        assert!(registry.contains(&[b'B'; 40]) && !registry.contains(&[b'C'; 40]));
    }
}
