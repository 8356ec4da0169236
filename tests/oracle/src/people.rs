//! The accounts of a small network; all their keys are known except those of the fee sinks.

use std::collections::HashMap;

use nisd::crypto::{KeyPair, PublicKey};
use nisd::model::network::{MOSAIC_SINK, NAMESPACE_SINK};
use nisd::model::{Address, NetworkByte};

use crate::private_network::key_pair;

/// Index of an account.
pub type AccountIndex = usize;

/// Signs the nemesis block.
pub const NEMESIS: AccountIndex = 0;
/// The accounts that make blocks. The last one sometimes delegates its importance.
pub const HARVESTERS: [AccountIndex; 3] = [1, 2, DELEGATOR];
/// See [`HARVESTERS`].
pub const DELEGATOR: AccountIndex = 3;
/// A multisig account from the first block on with permanent cosignatories.
pub const MULTISIG: AccountIndex = 4;
/// Its cosignatories.
pub const COSIGNATORIES: [AccountIndex; 2] = [5, 6];
/// The first account that nothing depends on.
pub const FIRST_ORDINARY: AccountIndex = 10;
/// The first account without an initial balance.
pub const FIRST_POOR: AccountIndex = 40;
/// The first account that never receives currency.
pub const ALWAYS_POOR: AccountIndex = 60;
/// Number of accounts with keys.
pub const WITH_KEYS: usize = 80;
/// Receives rents.
pub const RENTAL: AccountIndex = WITH_KEYS;
/// Receives creation fees.
pub const CREATION: AccountIndex = WITH_KEYS + 1;

/// All accounts.
pub struct KeyRing {
    pub network: NetworkByte,
    keys: Vec<KeyPair>,
    public: Vec<PublicKey>,
    addresses: Vec<Address>,
    by_key: HashMap<[u8; 32], AccountIndex>,
    by_address: HashMap<Address, AccountIndex>,
}

impl KeyRing {
    pub fn new(network: NetworkByte) -> KeyRing {
        let keys: Vec<KeyPair> = (0..WITH_KEYS as u64).map(key_pair).collect();
        let public: Vec<PublicKey> = keys.iter().map(KeyPair::public).chain([NAMESPACE_SINK, MOSAIC_SINK]).collect();
        let addresses: Vec<Address> = public.iter().map(|key| Address::from_public_key(key, network)).collect();
        let by_key = public.iter().enumerate().map(|(who, key)| (key.0, who)).collect();
        let by_address = addresses.iter().enumerate().map(|(who, address)| (*address, who)).collect();
        KeyRing { network, keys, public, addresses, by_key, by_address }
    }

    /// Returns the byte of another network.
    pub fn other_network(&self) -> NetworkByte {
        if self.network == NetworkByte::MAINNET { NetworkByte::TESTNET } else { NetworkByte::MAINNET }
    }

    pub fn len(&self) -> usize {
        self.public.len()
    }

    pub fn keys(&self, who: AccountIndex) -> &KeyPair {
        &self.keys[who]
    }

    /// Returns whether its private key is known.
    pub fn can_sign(&self, who: AccountIndex) -> bool {
        who < self.keys.len()
    }

    pub fn public(&self, who: AccountIndex) -> PublicKey {
        self.public[who]
    }

    pub fn address(&self, who: AccountIndex) -> Address {
        self.addresses[who]
    }

    pub fn of_key(&self, key: &PublicKey) -> AccountIndex {
        self.by_key[&key.0]
    }

    pub fn of_address(&self, address: &Address) -> AccountIndex {
        self.by_address[address]
    }
}
