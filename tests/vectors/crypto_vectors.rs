//! Hashes, keys, signatures, encryption and text against the project's own vectors and the public NEM vectors of the
//! Symbol project.
//!
//! The latter lie outside this repository, in `data/symbol-nem` of [`shared`]. They contain two encryption schemes over
//! the same shared point. The "deprecated" one is that of NIS1: the key is Keccak-256 of point and salt, the cipher
//! AES-CBC. Only wallets use the other one (HKDF and AES-GCM); of it, only the shared point is checked, which both have
//! in common. NIS1 cannot read its messages (`4.test-cipher.json`).

use nisd::codec::text::{repair_utf8, write_json_double, write_json_string};
use nisd::crypto::cipher::{decrypt, encrypt, shared_key};
use nisd::crypto::hash::{keccak256, keccak512, ripemd160};
use nisd::crypto::{KeyPair, PrivateKey, Signature, Verifier, verify};
use serde_json::Value;

use super::values::{array, bytes, key_pair, public_key, text};
use crate::common::shared;

/// Returns the rows of one section; a missing or empty section fails the test.
fn section(name: &str) -> Vec<Value> {
    match crate::common::vector_group("encoding", name) {
        Value::Array(rows) => rows,
        other => panic!("section {name} is {other}"),
    }
}

#[test]
fn hashes_match_the_vectors() {
    for row in section("hashes") {
        let input = bytes(&row["input"]);
        assert_eq!(hex::encode(keccak256(&input)), text(&row["keccak256"]));
        assert_eq!(hex::encode(keccak512(&input)), text(&row["keccak512"]));
        assert_eq!(hex::encode(ripemd160(&input)), text(&row["ripemd160"]));
    }
}

#[test]
fn keys_match_the_vectors() {
    for row in section("keys") {
        let private = PrivateKey::from_hex(text(&row["privateKey"])).expect("a private key");
        assert_eq!(private.printed().as_str(), text(&row["privateKeyPrinted"]));
        assert_eq!(hex::encode(*private.seed()), text(&row["seedBytes"]));
        let public = KeyPair::new(&private).public();
        assert_eq!(public.to_string(), text(&row["publicKey"]));
    }
}

#[test]
fn signatures_match_the_vectors() {
    for row in section("signatures") {
        let pair = key_pair(&row["privateKey"]);
        let data = bytes(&row["data"]);
        assert_eq!(pair.public(), public_key(&row["publicKey"]));
        let signature = pair.sign(&data);
        assert_eq!(signature.to_string(), text(&row["signature"]));
        assert_eq!(verify(&pair.public(), &data, &signature), Ok(true));
    }
}

#[test]
fn odd_keys_and_signatures_are_verified_as_in_the_vectors() {
    let mut verifier = Verifier::default();
    // The second round finds the accepted keys in the verifier's cache.
    for row in [section("verifyCases"), section("verifyCases")].concat() {
        let public = public_key(&row["publicKey"]);
        let data = bytes(&row["data"]);
        let signature = Signature(array(&row["signature"]));
        let expected = text(&row["result"]);
        for answer in [verify(&public, &data, &signature), verifier.verify(&public, &data, &signature)] {
            let answer = match answer {
                Ok(holds) => holds.to_string(),
                Err(error) => format!("error: {error}"),
            };
            assert_eq!(answer, expected, "{}", text(&row["name"]));
        }
    }
}

#[test]
fn encryption_matches_the_vectors() {
    for row in section("cipher") {
        let sender = key_pair(&row["senderPrivateKey"]);
        let recipient = public_key(&row["recipientPublicKey"]);
        let salt = array(&row["salt"]);
        let plain = bytes(&row["plain"]);

        let key = shared_key(&sender, &recipient, &salt).expect("a point");
        assert_eq!(hex::encode(*key), text(&row["sharedKey"]));
        let payload = encrypt(&sender, &recipient, salt, array(&row["iv"]), &plain);
        let payload = payload.expect("a point");
        assert_eq!(hex::encode(&payload), text(&row["encrypted"]));
        assert_eq!(decrypt(&sender, &recipient, &payload), Ok(Some(plain)));
    }
}

#[test]
fn decryption_failures_match_the_vectors() {
    let rows = section("cipherFailures");
    // Only the first row contains the keys, which apply to all rows.
    let own = key_pair(&rows[0]["recipientPrivateKey"]);
    let other = public_key(&rows[0]["senderPublicKey"]);
    for row in &rows {
        let answer = match decrypt(&own, &other, &bytes(&row["encrypted"])) {
            Ok(None) => "null",
            Ok(Some(_)) => "plain text",
            Err(_) => "internal error",
        };
        assert_eq!(answer, text(&row["result"]), "{}", text(&row["name"]));
    }
}

#[test]
fn utf8_repair_matches_the_vectors() {
    for row in section("utf8Repair") {
        let repaired = hex::encode(repair_utf8(&bytes(&row["bytes"])).as_bytes());
        assert_eq!(repaired, text(&row["reencoded"]), "{}", text(&row["bytes"]));
    }
}

#[test]
fn json_doubles_match_the_vectors() {
    for row in section("jsonDoubles") {
        let value: f64 = text(&row["value"]).parse().expect("a double");
        let mut out = Vec::new();
        write_json_double(&mut out, value);
        assert_eq!(String::from_utf8_lossy(&out), text(&row["json"]));
    }
}

#[test]
fn json_strings_match_the_vectors() {
    for row in section("jsonStrings") {
        let value = String::from_utf8(bytes(&row["utf8"])).expect("UTF-8");
        let mut out = Vec::new();
        write_json_string(&mut out, &value);
        assert_eq!(String::from_utf8_lossy(&out), text(&row["json"]));
    }
}

/// Returns the rows of a file of the Symbol project, if it is on this machine.
pub fn symbol_rows(file: &str) -> Option<Vec<Value>> {
    let path = shared(&format!("data/symbol-nem/{file}"))?;
    let rows: Vec<Value> = serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("a list of vectors");
    assert!(rows.len() >= 100 || file == "transactions.json", "{file} has only {} rows", rows.len());
    Some(rows)
}

#[test]
fn public_keys_follow_from_private_keys() {
    let Some(keys) = symbol_rows("1.test-keys.json") else { return };
    for row in &keys {
        assert_eq!(key_pair(&row["privateKey"]).public(), public_key(&row["publicKey"]));
    }
}

#[test]
fn shared_keys_follow_from_the_keys_of_either_side() {
    let Some(derivations) = symbol_rows("3.test-derive-deprecated.json") else { return };
    for row in &derivations {
        let other = public_key(&row["otherPublicKey"]);
        let key = shared_key(&key_pair(&row["privateKey"]), &other, &array(&row["salt"])).expect("a point");
        assert_eq!(*key, array(&row["sharedKey"]));
    }
}

#[test]
fn shared_points_agree_with_the_other_scheme() {
    let Some(derivations) = symbol_rows("3.test-derive-hkdf.json") else { return };
    for row in &derivations {
        let other = public_key(&row["otherPublicKey"]);
        // An all-zero salt leaves the point unchanged.
        let key = shared_key(&key_pair(&row["privateKey"]), &other, &[0; 32]).expect("a point");
        assert_eq!(*key, keccak256(&bytes(&row["scalarMulResult"])));
    }
}

#[test]
fn messages_are_encrypted_and_decrypted() {
    let Some(messages) = symbol_rows("4.test-cipher-deprecated.json") else { return };
    for row in &messages {
        let own = key_pair(&row["privateKey"]);
        let other = public_key(&row["otherPublicKey"]);
        let (salt, iv) = (array::<32>(&row["salt"]), array::<16>(&row["iv"]));
        let plain = bytes(&row["clearText"]);
        let payload = [&salt[..], &iv, &bytes(&row["cipherText"])].concat();

        let encrypted = encrypt(&own, &other, salt, iv, &plain);
        assert_eq!(encrypted.as_ref(), Ok(&payload));
        assert_eq!(decrypt(&own, &other, &payload), Ok(Some(plain)));
    }
}
