//! Tests that private keys leave no copy in memory, whatever the result of the request.

use crate::api::tests::*;
use crate::codec::wipe::erased_log;
use crate::model::transaction::wire_version;

const KEY: &str = "ec323551f22cf49eeeca6fa9ed7177305a200c74e4492cd9a7b24a528277b1aa";

fn key_bytes() -> Vec<u8> {
    hex::decode(KEY).unwrap()
}

fn holds(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Returns the status, and the buffers that were erased while a request was answered.
fn erased(scene: &Scene, line: &str, content_type: &str, body: &[u8]) -> (u16, Vec<Vec<u8>>) {
    let fields = [("Content-Type", content_type)];
    let (reply, erased) =
        erased_log::during(|| TestRequest { body, ..TestRequest::new(line).with(&fields) }.send(scene));
    assert!(!holds(&reply.body, KEY.as_bytes()), "{}", text_of(&reply));
    (reply.status, erased)
}

fn times(erased: &[Vec<u8>], part: &[u8]) -> usize {
    erased.iter().filter(|one| holds(one, part)).count()
}

#[test]
fn the_text_and_the_bytes_of_a_key_are_erased_after_reading() {
    let (status, erased) =
        erased(&Scene::new(), "POST /account/lock", "application/json", format!(r#"{{"value":"{KEY}"}}"#).as_bytes());
    assert_eq!(status, 200);
    // The text of the body is copied to be parsed.
    assert_eq!((times(&erased, KEY.as_bytes()), times(&erased, &key_bytes())), (2, 1));
}

#[test]
fn a_key_in_a_rejected_body_is_erased() {
    let scene = Scene::new();
    let long = KEY.repeat(3);
    for (body, text) in [
        // Malformed after the key, around it, or within it.
        (format!(r#"{{"value":"{KEY}""#), KEY),
        (format!(r#"{{"value":"{KEY}"]"#), KEY),
        (format!(r#"{{"a":["{KEY}",{{"b":"{KEY}"}},}}"#), KEY),
        (format!(r#"{{"value":"{KEY}\n{KEY}"#), KEY),
        (format!(r#"{{"value":"{KEY}\u12"}}"#), KEY),
        // As a property name, twice, without quotes, or under another name.
        (format!(r#"{{"{KEY}" 1}}"#), KEY),
        (format!(r#"{{"{KEY}":1}}"#), KEY),
        (format!(r#"{{"value":"{KEY}","value":1}}"#), KEY),
        (format!("{{value:{KEY}"), KEY),
        (format!("{{'x':'{KEY}'}}"), KEY),
        // In an array instead of an object, or as the whole body.
        (format!("['{KEY}']"), KEY),
        (KEY.to_owned(), KEY),
        // Too long, or with a character that is not a digit.
        (format!(r#"{{"value":"{long}z"}}"#), &long),
        (format!(r#"{{"value":"{KEY}","_propertyOrderArray":["x"]}}"#), KEY),
    ] {
        let (status, erased) = erased(&scene, "POST /account/lock", "application/json", body.as_bytes());
        // Unfinished strings are scanned but not copied.
        let is_copied = !(body.starts_with("{value:") || body == format!(r#"{{"value":"{KEY}\n{KEY}"#));
        assert_ne!(status, 200, "{body}");
        assert!(!is_copied || times(&erased, text.as_bytes()) >= 1, "{body}: {erased:?}");
    }
}

#[test]
fn key_bytes_decoded_before_a_bad_digit_are_erased() {
    let body = format!(r#"{{"value":"{KEY}zz"}}"#);
    let (status, erased) = erased(&Scene::new(), "POST /account/lock", "application/json", body.as_bytes());
    assert_eq!(status, 400);
    assert_eq!(times(&erased, &key_bytes()), 1, "{erased:?}");
}

#[test]
fn a_key_in_invalid_utf8_is_erased_with_its_repaired_copy() {
    let mut body = format!(r#"{{"value":"{KEY}","x":""#).into_bytes();
    body.extend(b"\xff\xff\"}");
    let (status, erased) = erased(&Scene::new(), "POST /account/lock", "application/json", &body);
    assert_eq!(status, 200);
    // The repaired body, and the text of the value.
    assert_eq!(times(&erased, KEY.as_bytes()), 2);
}

#[test]
fn a_key_in_binary_is_erased() {
    let field = |bytes: &[u8]| [(bytes.len() as u32).to_le_bytes().as_slice(), bytes].concat();
    let scene = Scene::new();
    let (status, taken) = erased(&scene, "POST /account/lock", "application/binary", &field(&key_bytes()));
    assert_eq!((status, times(&taken, &key_bytes())), (200, 1));
    // A text that is not valid UTF-8 is first repaired into a copy.
    let transaction = transfer(None).signed_bytes();
    let text = [KEY.as_bytes(), b"\xff"].concat();
    let body = [field(&transaction), field(&text)].concat();
    let line = "POST /transaction/prepare-announce";
    let (status, taken) = erased(&scene, line, "application/binary", &body);
    assert_eq!((status, times(&taken, KEY.as_bytes())), (500, 2));
}

#[test]
fn a_key_beside_an_invalid_transaction_is_erased() {
    let scene = Scene::new();
    let version = wire_version(NETWORK, 1);
    let transaction = format!(
        r#"{{"type":257,"version":{version},"timeStamp":1,"signer":"{}","fee":8,"deadline":9,"recipient":"{}","amount":7}}"#,
        key(1),
        address(2)
    );
    for (transaction, status, copies) in
        [(transaction.as_str(), 200, 3), ("{}", 500, 2), ("5", 500, 2), (r#"{"type":1}"#, 400, 2)]
    {
        let body = format!(r#"{{"privateKey":"{KEY}","transaction":{transaction}}}"#);
        let line = "POST /transaction/prepare-announce";
        let (answered, erased) = erased(&scene, line, "application/json", body.as_bytes());
        assert_eq!((answered, times(&erased, KEY.as_bytes())), (status, copies), "{transaction}");
    }
}
