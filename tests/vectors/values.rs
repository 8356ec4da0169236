//! Reads values of the vectors.

use nisd::crypto::{KeyPair, PrivateKey, PublicKey};
use nisd::model::{Hash256, NetworkByte};
use serde_json::Value;

use crate::common::load_settings;
use nisd::model::Network;

/// The public networks.
pub const NETWORKS: [(&str, NetworkByte); 3] =
    [("mainnet", NetworkByte::MAINNET), ("testnet", NetworkByte::TESTNET), ("mijinnet", NetworkByte::MIJINNET)];

/// Returns the network of these settings.
pub fn network(settings: &[(&str, &str)]) -> Network {
    load_settings(None, settings).network
}

/// Returns a public network.
pub fn public_network(name: &str) -> Network {
    network(&[("nem.network", name)])
}

/// Returns the byte of a public network.
pub fn byte_of(name: &str) -> NetworkByte {
    NETWORKS.iter().find(|(other, _)| *other == name).unwrap_or_else(|| panic!("network {name}")).1
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

/// Returns the cases of a group: a list, or the member `cases`; not empty.
pub fn cases(group: &Value) -> &[Value] {
    let cases = list(if group.is_array() { group } else { &group["cases"] });
    assert!(!cases.is_empty());
    cases
}

/// Returns a number, which may be written as a text.
pub fn integer(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| text(value).parse().expect("a number"))
}

/// Returns a number that is not negative, which may be written as a text.
pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| text(value).parse().expect("a number"))
}

pub fn numbers(value: &Value) -> Vec<u64> {
    list(value).iter().map(number).collect()
}

/// Returns the bits of a double, which are written in hexadecimal digits.
pub fn bits(value: &Value) -> u64 {
    u64::from_str_radix(text(value), 16).expect("hexadecimal digits")
}

/// Returns the bits of doubles.
pub fn to_bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

pub fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(text(value)).expect("hexadecimal digits")
}

pub fn array<const N: usize>(value: &Value) -> [u8; N] {
    bytes(value).try_into().expect("the field has its size")
}

pub fn hash(value: &Value) -> Hash256 {
    Hash256(array(value))
}

pub fn public_key(value: &Value) -> PublicKey {
    PublicKey::from_hex(text(value)).expect("a public key")
}

/// Returns the key pair of a private key.
pub fn key_pair(value: &Value) -> KeyPair {
    KeyPair::new(&PrivateKey::from_hex(text(value)).expect("a private key"))
}
