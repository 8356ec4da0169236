//! Keys, shared secrets and encryption against the public NEM vectors of the Symbol project.
//!
//! They lie outside this repository, in `symbol-nem` under `../shared/data`, or under `data` in the folder that the
//! environment variable `NISD_SHARED` names. Without them these tests print a notice and check nothing.
//!
//! The set contains two encryption schemes over the same shared point. The "deprecated" one is that of NIS1: the key is
//! Keccak-256 of point and salt, the cipher AES-CBC. Only wallets use the other one (HKDF and AES-GCM); of it, only the
//! shared point is checked, which both have in common. NIS1 cannot read its messages (`4.test-cipher.json`).

use std::io::Write;
use std::path::PathBuf;

use nisd::crypto::cipher::{decrypt, encrypt, shared_key};
use nisd::crypto::hash::keccak256;
use nisd::crypto::{KeyPair, PrivateKey, PublicKey};
use serde_json::Value;

/// Returns the rows of one file; prints a notice and returns `None` if the vectors are not on this machine.
fn rows(file: &str) -> Option<Vec<Value>> {
    let shared = match std::env::var_os("NISD_SHARED") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"),
    };
    let folder = shared.join("data/symbol-nem");
    if !folder.is_dir() {
        // Not `eprintln`, whose output the test harness captures.
        let word = format!("SKIPPED: {file}: there is no folder {}\n", folder.display());
        std::io::stderr().write_all(word.as_bytes()).expect("standard error is open");
        return None;
    }
    let path = folder.join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows: Vec<Value> = serde_json::from_str(&text).expect("a list of vectors");
    assert!(rows.len() >= 100, "{file} has only {} rows", rows.len());
    Some(rows)
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_else(|| panic!("{name} is missing in {row}"))
}

fn bytes(row: &Value, name: &str) -> Vec<u8> {
    hex::decode(text(row, name)).expect("vectors hold hex")
}

fn array<const N: usize>(row: &Value, name: &str) -> [u8; N] {
    bytes(row, name).try_into().expect("the field has its size")
}

fn public_key(row: &Value, name: &str) -> PublicKey {
    PublicKey::from_hex(text(row, name)).expect("vectors hold public keys")
}

fn key_pair(row: &Value) -> KeyPair {
    let private = PrivateKey::from_hex(text(row, "privateKey"));
    KeyPair::new(&private.expect("vectors hold private keys"))
}

#[test]
fn public_keys_follow_from_private_keys() {
    let Some(keys) = rows("1.test-keys.json") else {
        return;
    };
    for row in &keys {
        assert_eq!(key_pair(row).public(), public_key(row, "publicKey"));
    }
}

#[test]
fn public_keys_in_the_address_vectors_are_those_of_the_key_vectors() {
    let (Some(keys), Some(addresses)) = (rows("1.test-keys.json"), rows("1.test-address.json")) else {
        return;
    };
    assert_eq!(keys.len(), addresses.len());
    for (key, address) in keys.iter().zip(&addresses) {
        assert_eq!(key_pair(key).public(), public_key(address, "publicKey"));
    }
}

#[test]
fn shared_keys_follow_from_the_keys_of_either_side() {
    let Some(derivations) = rows("3.test-derive-deprecated.json") else {
        return;
    };
    for row in &derivations {
        let other = public_key(row, "otherPublicKey");
        let key = shared_key(&key_pair(row), &other, &array(row, "salt")).expect("a point");
        assert_eq!(*key, array(row, "sharedKey"));
    }
}

#[test]
fn shared_points_agree_with_the_other_scheme() {
    let Some(derivations) = rows("3.test-derive-hkdf.json") else {
        return;
    };
    for row in &derivations {
        let other = public_key(row, "otherPublicKey");
        // An all-zero salt leaves the point unchanged.
        let key = shared_key(&key_pair(row), &other, &[0; 32]).expect("a point");
        assert_eq!(*key, keccak256(&bytes(row, "scalarMulResult")));
    }
}

#[test]
fn messages_are_encrypted_and_decrypted() {
    let Some(messages) = rows("4.test-cipher-deprecated.json") else {
        return;
    };
    for row in &messages {
        let own = key_pair(row);
        let other = public_key(row, "otherPublicKey");
        let (salt, iv) = (array::<32>(row, "salt"), array::<16>(row, "iv"));
        let plain = bytes(row, "clearText");
        let payload = [&salt[..], &iv, &bytes(row, "cipherText")].concat();

        let encrypted = encrypt(&own, &other, salt, iv, &plain);
        assert_eq!(encrypted.as_ref(), Ok(&payload));
        assert_eq!(decrypt(&own, &other, &payload), Ok(Some(plain)));
    }
}
