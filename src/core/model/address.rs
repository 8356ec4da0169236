//! Account addresses.

use std::borrow::Borrow;
use std::cell::RefCell;

use data_encoding::BASE32;
use derive_more::{Debug, Display};
use serde::{Deserialize, Serialize};

use crate::crypto::{PublicKey, hash};

/// First byte of a decoded address, which identifies the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkByte(pub u8);

impl NetworkByte {
    /// mainnet; addresses start with `N`.
    pub const MAINNET: NetworkByte = NetworkByte(0x68);
    /// testnet and most private networks; addresses start with `T`.
    pub const TESTNET: NetworkByte = NetworkByte(0x98);
    /// mijinnet; addresses start with `M`.
    pub const MIJINNET: NetworkByte = NetworkByte(0x60);
}

/// Length of an address in characters.
pub const ADDRESS_LENGTH: usize = 40;
/// Length of a decoded address: the network byte, 20 bytes derived from the key, and a checksum of 4.
pub const RAW_LENGTH: usize = 25;
const CHECKSUM_START: usize = 21;

/// A valid address in upper-case text, which is also its wire form and its order.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[display("{}", self.as_str())]
#[debug("{self}")]
#[serde(into = "String", try_from = "String")]
pub struct Address([u8; ADDRESS_LENGTH]);

/// Slots of the cache of derived addresses.
const ADDRESS_CACHE_SLOTS: usize = 4096;

type CachedAddress = (PublicKey, NetworkByte, Address);

thread_local! {
    static ADDRESS_CACHE: RefCell<Box<[Option<CachedAddress>]>> = RefCell::new(vec![None; ADDRESS_CACHE_SLOTS].into_boxed_slice());
}

impl Address {
    /// Returns the address of a public key on a network. Results are cached, as the same keys recur and a derivation
    /// takes three hashes.
    pub fn from_public_key(key: &PublicKey, network: NetworkByte) -> Address {
        ADDRESS_CACHE.with_borrow_mut(|derived| {
            let place = usize::from(u16::from_le_bytes([key.0[0], key.0[1]])) % derived.len();
            match &derived[place] {
                Some((known, byte, address)) if known == key && *byte == network => *address,
                _ => {
                    let address = Address::derive(key, network);
                    derived[place] = Some((*key, network, address));
                    address
                }
            }
        })
    }

    fn derive(key: &PublicKey, network: NetworkByte) -> Address {
        let body = hash::ripemd160(&hash::keccak256(&key.0));
        let mut raw = [0; RAW_LENGTH];
        raw[0] = network.0;
        raw[1..CHECKSUM_START].copy_from_slice(&body);
        let checksum = hash::keccak256(&raw[..CHECKSUM_START]);
        raw[CHECKSUM_START..].copy_from_slice(&checksum[..RAW_LENGTH - CHECKSUM_START]);
        Address(encode_base32(&raw))
    }

    /// Parses an address in either case. Returns `None` unless it is valid on `network`. Hyphens and spaces are not
    /// removed.
    pub fn parse(text: &str, network: NetworkByte) -> Option<Address> {
        if !text.is_ascii() {
            // A few letters outside ASCII have an ASCII upper case, such as the long s.
            let upper = text.to_uppercase();
            return upper.is_ascii().then(|| Address::parse(&upper, network))?;
        }
        let bytes: &[u8; ADDRESS_LENGTH] = text.as_bytes().try_into().ok()?;
        let upper = bytes.map(|b| b.to_ascii_uppercase());
        let raw = decode_base32(&upper)?;
        let checksum = hash::keccak256(&raw[..CHECKSUM_START]);
        let valid = raw[0] == network.0 && raw[CHECKSUM_START..] == checksum[..RAW_LENGTH - CHECKSUM_START];
        valid.then_some(Address(upper))
    }

    /// Returns an address that this node wrote to its own store, unchecked.
    pub(crate) const fn from_stored(bytes: [u8; ADDRESS_LENGTH]) -> Address {
        Address(bytes)
    }

    /// Returns the address with a decoded form from [`Address::to_raw`].
    pub(crate) fn from_raw(raw: &[u8; RAW_LENGTH]) -> Address {
        Address(encode_base32(raw))
    }

    /// Returns the decoded form. It is shorter than the text and sorts differently.
    pub fn to_raw(&self) -> [u8; RAW_LENGTH] {
        decode_base32(&self.0).unwrap_or_default()
    }

    /// Returns the text as ASCII bytes.
    pub fn as_bytes(&self) -> &[u8; ADDRESS_LENGTH] {
        &self.0
    }

    /// Returns the hash of its text in a Java hash table, which decides the order of some sums of NIS1.
    pub fn java_hash(&self) -> u32 {
        let text = self.0.iter().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)));
        text ^ (text >> 16)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.to_string()
    }
}

/// Parses an address of any network.
impl TryFrom<String> for Address {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Address, &'static str> {
        let raw = text.to_ascii_uppercase().as_bytes().try_into().ok().and_then(decode_base32);
        raw.and_then(|raw| Address::parse(&text, NetworkByte(raw[0]))).ok_or("not an address")
    }
}

impl Borrow<[u8]> for Address {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

fn encode_base32(raw: &[u8; RAW_LENGTH]) -> [u8; ADDRESS_LENGTH] {
    let mut text = [0; ADDRESS_LENGTH];
    BASE32.encode_mut(raw, &mut text);
    text
}

fn decode_base32(text: &[u8; ADDRESS_LENGTH]) -> Option<[u8; RAW_LENGTH]> {
    let mut raw = [0; RAW_LENGTH];
    (BASE32.decode_mut(text, &mut raw).ok()? == RAW_LENGTH).then_some(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parsed_address_is_upper_case_and_of_its_network_only() {
        let text = "tdy6lymyw4bv5h5qivrsDXVEYFC4HABIUQMA6YJG";
        let address = Address::parse(text, NetworkByte::TESTNET).unwrap();
        assert_eq!(address.as_str(), text.to_uppercase());
        assert_eq!(Address::parse(text, NetworkByte::MAINNET), None);
    }

    #[test]
    fn a_wrong_checksum_length_or_letter_is_rejected() {
        for text in [
            "TDY6LYMYW4BV5H5QIVRSDXVEYFC4HABIUQMA6YJA",
            "TDY6LYMYW4BV5H5QIVRSDXVEYFC4HABIUQMA6YJ",
            "TDY6L1MYW4BV5H5QIVRSDXVEYFC4HABIUQMA6YJG",
            "TDY6LYMYW4BV5H5QIVRSDXVEYFC4HABIUQMA6YJ=",
            "",
        ] {
            assert_eq!(Address::parse(text, NetworkByte::TESTNET), None, "{text}");
        }
    }
}
