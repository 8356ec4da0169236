//! Test helpers.

use crate::crypto::PublicKey;
use crate::model::{Address, NetworkByte};

/// Returns a splitmix64 generator.
pub fn seeded(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// Returns an address for each number.
pub fn address(number: usize) -> Address {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&number.to_le_bytes());
    Address::from_public_key(&PublicKey(key), NetworkByte::TESTNET)
}
