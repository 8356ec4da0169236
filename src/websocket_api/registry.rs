//! Registered addresses: an address is registered as long as a session holds it.

use std::collections::BTreeMap;

use crate::model::Address;

/// Number of sessions that hold each address.
#[derive(Debug, Default)]
pub struct Registry {
    session_counts: BTreeMap<Address, u32>,
}

impl Registry {
    /// Returns whether any session has registered `address`.
    pub fn contains(&self, address: &Address) -> bool {
        self.session_counts.contains_key(address)
    }

    /// Number of distinct addresses.
    pub fn len(&self) -> usize {
        self.session_counts.len()
    }

    /// Adds an address that a session did not hold before.
    pub fn add(&mut self, address: Address) {
        *self.session_counts.entry(address).or_default() += 1;
    }

    /// Removes an address that a session no longer holds.
    pub fn remove(&mut self, address: &Address) {
        if let Some(holders) = self.session_counts.get_mut(address) {
            *holders = holders.saturating_sub(1);
            if *holders == 0 {
                self.session_counts.remove(address);
            }
        }
    }
}

/// What keeps an address registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A subscription, until it ends.
    Subscription,
    /// A query, until the session ends.
    Query,
}

/// The addresses that one session has registered.
#[derive(Debug, Default)]
pub struct Registrations {
    held: BTreeMap<Address, Reasons>,
}

#[derive(Debug, Default)]
struct Reasons {
    subscriptions: u32,
    by_query: bool,
}

impl Registrations {
    /// Number of addresses.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns whether the session holds `address`.
    pub fn contains(&self, address: &Address) -> bool {
        self.held.contains_key(address)
    }

    /// Adds a reason. Returns true if the session did not hold the address before.
    pub fn add(&mut self, address: Address, reason: Reason) -> bool {
        let is_new = !self.held.contains_key(&address);
        let reasons = self.held.entry(address).or_default();
        match reason {
            Reason::Subscription => reasons.subscriptions += 1,
            Reason::Query => reasons.by_query = true,
        }
        is_new
    }

    /// Removes a subscription to a topic of the address `text`. Returns the address if no reason is left.
    pub fn unsubscribed(&mut self, text: &str) -> Option<Address> {
        let reasons = self.held.get_mut(text.as_bytes())?;
        reasons.subscriptions = reasons.subscriptions.saturating_sub(1);
        if reasons.subscriptions > 0 || reasons.by_query {
            return None;
        }
        self.held.remove_entry(text.as_bytes()).map(|(address, _)| address)
    }

    /// Returns the addresses of an ended session.
    pub fn into_addresses(self) -> impl Iterator<Item = Address> {
        self.held.into_keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NetworkByte;

    const A: &str = "TCOBFU4E56PBUI23AUHTPKMZHX7FPGX67DJPWROR";

    fn address() -> Address {
        Address::parse(A, NetworkByte::TESTNET).unwrap()
    }

    #[test]
    fn an_address_stays_registered_until_the_last_session_releases_it() {
        let mut registry = Registry::default();
        registry.add(address());
        registry.add(address());
        registry.remove(&address());
        assert!(registry.contains(&address()));
        registry.remove(&address());
        assert!(!registry.contains(&address()) && registry.len() == 0);
    }

    #[test]
    fn a_registration_by_subscriptions_ends_with_the_last_of_them() {
        let mut held = Registrations::default();
        assert!(held.add(address(), Reason::Subscription));
        assert!(!held.add(address(), Reason::Subscription));
        assert_eq!((held.unsubscribed(A), held.unsubscribed(A)), (None, Some(address())));
        assert_eq!((held.unsubscribed(A), held.len()), (None, 0));
    }

    #[test]
    fn a_registration_by_a_query_lasts_as_long_as_the_session() {
        let mut held = Registrations::default();
        assert!(held.add(address(), Reason::Query));
        assert!(!held.add(address(), Reason::Subscription));
        assert_eq!((held.unsubscribed(A), held.unsubscribed(A)), (None, None));
        assert!(held.contains(&address()) && held.into_addresses().eq([address()]));
    }
}
