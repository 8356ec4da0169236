//! Hashes, keys, signatures, encryption and text against the project's own vectors.

use nisd::codec::text::{repair_utf8, write_json_double, write_json_string};
use nisd::crypto::cipher::{decrypt, encrypt, shared_key};
use nisd::crypto::hash::{keccak256, keccak512, ripemd160};
use nisd::crypto::{KeyPair, PrivateKey, PublicKey, Signature, Verifier, verify};
use serde_json::Value;

/// Returns the rows of one section; a missing or empty section fails the test.
fn section(name: &str) -> Vec<Value> {
    match crate::common::vector_group("encoding", name) {
        Value::Array(rows) => rows,
        other => panic!("section {name} is {other}"),
    }
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

fn key_pair(row: &Value, name: &str) -> KeyPair {
    KeyPair::new(&PrivateKey::from_hex(text(row, name)).expect("vectors hold private keys"))
}

#[test]
fn hashes_match_the_vectors() {
    for row in section("hashes") {
        let input = bytes(&row, "input");
        assert_eq!(hex::encode(keccak256(&input)), text(&row, "keccak256"));
        assert_eq!(hex::encode(keccak512(&input)), text(&row, "keccak512"));
        assert_eq!(hex::encode(ripemd160(&input)), text(&row, "ripemd160"));
    }
}

#[test]
fn keys_match_the_vectors() {
    for row in section("keys") {
        let private = PrivateKey::from_hex(text(&row, "privateKey")).expect("a private key");
        assert_eq!(private.printed().as_str(), text(&row, "privateKeyPrinted"));
        assert_eq!(hex::encode(*private.seed()), text(&row, "seedBytes"));
        let public = KeyPair::new(&private).public();
        assert_eq!(public.to_string(), text(&row, "publicKey"));
    }
}

#[test]
fn signatures_match_the_vectors() {
    for row in section("signatures") {
        let pair = key_pair(&row, "privateKey");
        let data = bytes(&row, "data");
        assert_eq!(pair.public(), public_key(&row, "publicKey"));
        let signature = pair.sign(&data);
        assert_eq!(signature.to_string(), text(&row, "signature"));
        assert_eq!(verify(&pair.public(), &data, &signature), Ok(true));
    }
}

#[test]
fn odd_keys_and_signatures_are_verified_as_in_the_vectors() {
    let mut verifier = Verifier::default();
    // The second round finds the accepted keys in the verifier's cache.
    for row in [section("verifyCases"), section("verifyCases")].concat() {
        let public = public_key(&row, "publicKey");
        let data = bytes(&row, "data");
        let signature = Signature(array(&row, "signature"));
        let expected = text(&row, "result");
        for answer in [verify(&public, &data, &signature), verifier.verify(&public, &data, &signature)] {
            let answer = match answer {
                Ok(holds) => holds.to_string(),
                Err(error) => format!("error: {error}"),
            };
            assert_eq!(answer, expected, "{}", text(&row, "name"));
        }
    }
}

#[test]
fn encryption_matches_the_vectors() {
    for row in section("cipher") {
        let sender = key_pair(&row, "senderPrivateKey");
        let recipient = public_key(&row, "recipientPublicKey");
        let salt = array(&row, "salt");
        let plain = bytes(&row, "plain");

        let key = shared_key(&sender, &recipient, &salt).expect("a point");
        assert_eq!(hex::encode(*key), text(&row, "sharedKey"));
        let payload = encrypt(&sender, &recipient, salt, array(&row, "iv"), &plain);
        let payload = payload.expect("a point");
        assert_eq!(hex::encode(&payload), text(&row, "encrypted"));
        assert_eq!(decrypt(&sender, &recipient, &payload), Ok(Some(plain)));
    }
}

#[test]
fn decryption_failures_match_the_vectors() {
    let rows = section("cipherFailures");
    // Only the first row contains the keys, which apply to all rows.
    let own = key_pair(&rows[0], "recipientPrivateKey");
    let other = public_key(&rows[0], "senderPublicKey");
    for row in &rows {
        let answer = match decrypt(&own, &other, &bytes(row, "encrypted")) {
            Ok(None) => "null",
            Ok(Some(_)) => "plain text",
            Err(_) => "internal error",
        };
        assert_eq!(answer, text(row, "result"), "{}", text(row, "name"));
    }
}

#[test]
fn utf8_repair_matches_the_vectors() {
    for row in section("utf8Repair") {
        let repaired = hex::encode(repair_utf8(&bytes(&row, "bytes")).as_bytes());
        assert_eq!(repaired, text(&row, "reencoded"), "{}", text(&row, "bytes"));
    }
}

#[test]
fn json_doubles_match_the_vectors() {
    for row in section("jsonDoubles") {
        let value: f64 = text(&row, "value").parse().expect("a double");
        let mut out = Vec::new();
        write_json_double(&mut out, value);
        assert_eq!(String::from_utf8_lossy(&out), text(&row, "json"));
    }
}

#[test]
fn json_strings_match_the_vectors() {
    for row in section("jsonStrings") {
        let value = String::from_utf8(bytes(&row, "utf8")).expect("UTF-8");
        let mut out = Vec::new();
        write_json_string(&mut out, &value);
        assert_eq!(String::from_utf8_lossy(&out), text(&row, "json"));
    }
}
