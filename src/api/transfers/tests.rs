//! Tests of the transactions of accounts.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api::tests::*;
use crate::api::{Api, Settings};
use crate::chain::rollback;
use crate::crypto::cipher::encrypt;
use crate::crypto::{KeyPair, PrivateKey, Signature};
use crate::model::transaction::{Message, MessageKind, Transfer};
use crate::model::{Address, Amount, Body, Hash256, Height, Timestamp, Transaction};
use crate::state::{Account, VestedBalance, assign_ids};

const KEY: &str = "ec323551f22cf49eeeca6fa9ed7177305a200c74e4492cd9a7b24a528277b1aa";
const PATHS: [&str; 3] = ["incoming", "outgoing", "all"];

/// A transfer between accounts, distinct for each number.
fn between(from: u8, to: u8, number: i32) -> Transaction {
    let body = Transfer { recipient: address(to), amount: Amount(1), message: None, mosaics: Vec::new() };
    let transaction = transaction(Some(Signature([3; 64])), Body::Transfer(body));
    Transaction { signer: key(from), timestamp: Timestamp(number), fee: Amount(0), ..transaction }
}

/// A chain of one block on which three accounts have funds.
fn funded() -> Scene {
    let scene = Scene::empty();
    scene.add_block(Vec::new());
    (1..4).for_each(|account| scene.fund(account));
    scene
}

/// Transfers among three accounts in many blocks, some to themselves, and the expected ids and hashes of each account
/// in both directions, newest first.
struct History {
    scene: Scene,
    expected: Vec<[Vec<(u64, Hash256)>; 2]>,
}

impl History {
    fn new(blocks: i32, of_each: i32) -> History {
        let scene = funded();
        let mut expected = vec![[Vec::new(), Vec::new()]; 4];
        for block in 0..blocks {
            let party = |number: i32| (1 + number % 3) as u8;
            let numbers = block * of_each..(block + 1) * of_each;
            let pairs: Vec<_> = numbers.map(|number| (party(number), party(number / 3), number)).collect();
            let mut transactions: Vec<_> =
                pairs.iter().map(|(from, to, number)| between(*from, *to, *number)).collect();
            // A transaction that gets a lower id than the others.
            transactions.push(rent(3, &format!("n{block}"), block));
            let height = scene.add_block(transactions);
            let stored = scene.block(height);
            let first = scene.first_id(height);
            let (ids, _) = assign_ids(&stored, first);
            for (place, transaction) in stored.transactions.iter().enumerate() {
                let row = (ids[place], transaction.hash());
                let (from, to) = pairs.get(place).map_or((3, None), |(from, to, _)| (*from, Some(*to)));
                expected[usize::from(from)][1].push(row);
                if let Some(to) = to {
                    expected[usize::from(to)][0].push(row);
                }
            }
        }
        expected.iter_mut().flatten().for_each(|rows| rows.sort_by_key(|(id, _)| std::cmp::Reverse(*id)));
        History { scene, expected }
    }

    /// Returns the expected rows of an account.
    fn of(&self, account: u8, path: &str) -> Vec<(u64, Hash256)> {
        let [incoming, outgoing] = &self.expected[usize::from(account)];
        match path {
            "incoming" => incoming.clone(),
            "outgoing" => outgoing.clone(),
            _ => incoming.iter().chain(outgoing).copied().collect::<BTreeSet<_>>().into_iter().rev().collect(),
        }
    }
}

/// Returns the ids and hashes in a response.
fn rows_in(body: &[u8]) -> Vec<(u64, Hash256)> {
    let body: Value = serde_json::from_slice(body).unwrap();
    let rows = body["data"].as_array().unwrap().iter().map(|row| {
        let hash = hex::decode(row["meta"]["hash"]["data"].as_str().unwrap()).unwrap();
        (row["meta"]["id"].as_u64().unwrap(), Hash256::try_from(hash.as_slice()).unwrap())
    });
    rows.collect()
}

fn ask(scene: &Scene, account: u8, path: &str, more: &str) -> Vec<(u64, Hash256)> {
    let line = format!("GET /account/transfers/{path}?address={}{more}", address(account));
    let reply = TestRequest::new(&line).send(scene);
    assert_eq!(reply.status, 200, "{line}: {}", text_of(&reply));
    rows_in(&reply.body)
}

#[test]
fn every_page_of_an_account_has_its_newest_transactions_below_the_id() {
    let history = History::new(40, 7);
    for (account, path) in (1..4).flat_map(|account| PATHS.map(|path| (account, path))) {
        let all = history.of(account, path);
        assert!(all.len() > 60, "more than two signposts");
        let (mut found, mut more) = (Vec::new(), String::new());
        while let page @ [.., (last, _)] = ask(&history.scene, account, path, &more).as_slice() {
            found.extend_from_slice(page);
            more = format!("&id={last}");
        }
        assert_eq!(found, all, "{account} {path}");
        for (place, (id, hash)) in all.iter().enumerate().step_by(11) {
            let expected: Vec<_> = all[place + 1..].iter().take(10).copied().collect();
            for bound in [format!("&id={id}"), format!("&hash={hash}"), format!("&hash={KEY}&id={id}")] {
                let found = ask(&history.scene, account, path, &format!("{bound}&pageSize=10"));
                assert_eq!(found, expected, "{account} {path} {bound}");
            }
        }
        assert_eq!(ask(&history.scene, account, path, "").len(), 25);
        assert_eq!(ask(&history.scene, account, path, "&pageSize=1").len(), 5);
        assert_eq!(ask(&history.scene, account, path, "&id=0"), []);
        assert_eq!(ask(&history.scene, account, path, "&id=-7"), []);
    }
}

#[test]
fn a_page_may_begin_at_a_transaction_of_another_account() {
    let history = History::new(5, 7);
    let (id, hash) = history.of(2, "outgoing")[3];
    let mut expected = history.of(1, "incoming");
    expected.retain(|(other, _)| *other < id);
    assert_eq!(ask(&history.scene, 1, "incoming", &format!("&hash={hash}&pageSize=100")), expected);
    assert!(!history.of(1, "incoming").contains(&(id, hash)));
}

#[test]
fn an_unknown_account_has_no_transactions() {
    let history = History::new(1, 7);
    let (_, hash) = history.of(1, "all")[0];
    for more in [String::new(), "&id=3".to_owned(), format!("&hash={hash}")] {
        assert_eq!(ask(&history.scene, 77, "all", &more), []);
    }
}

#[test]
fn a_multisig_transaction_is_outgoing_for_the_account_and_its_cosignatories() {
    let scene = funded();
    for cosignatory in [2, 3] {
        scene.put_cosignatory(1, address(cosignatory));
    }
    let multisig = Transaction { signer: key(2), fee: Amount(0), ..multisig() };
    let inner = multisig.inner().unwrap().hash();
    scene.add_block(vec![multisig.clone()]);
    for account in [1, 2, 3] {
        assert_eq!(ask(&scene, account, "outgoing", ""), [(1, multisig.hash())], "{account}");
    }
    assert_eq!(ask(&scene, 2, "all", ""), [(1, multisig.hash())], "its recipient signs for it too, and it comes once");
    assert_eq!(ask(&scene, 1, "incoming", ""), []);
    let line = format!("GET /account/transfers/all?address={}&hash={inner}", address(1));
    let text = format!("transaction not found in the db '{inner}' (class org.nem.core.crypto.Hash)");
    assert_eq!(TestRequest::new(&line).status_and_error(&scene), (404, text.chars().take(128).collect()));
    let body = text_of(&TestRequest::new(&format!("GET /account/transfers/all?address={}", address(1))).send(&scene));
    assert!(body.contains(&format!(r#""innerHash":{{"data":"{inner}"}}"#)), "{body}");
}

#[test]
fn bad_page_parameters_get_their_specified_error_texts() {
    let scene = funded();
    scene.add_block(vec![between(1, 2, 1), between(2, 1, 2)]);
    let good = address(1);
    let illegal = "java.lang.IllegalArgumentException: org.apache.commons.codec.DecoderException";
    let cases = [
        ("".to_owned(), 400, "encoded address cannot be null".to_owned()),
        ("address=x&hash=zz".to_owned(), 400, "address must be valid".to_owned()),
        (format!("address={good}&hash=zz&id=x"), 500, format!("{illegal}: Illegal hexadecimal character z at index 0")),
        (format!("address={good}&id="), 400, "For input string: \"\"".to_owned()),
        (format!("address={good}&id=x&pageSize=x"), 400, "For input string: \"x\"".to_owned()),
        (format!("address={good}&pageSize=40000"), 400, "Value out of range. Value:\"40000\" Radix:10".to_owned()),
        (
            format!("address={good}&hash=aabb"),
            400,
            "Neither transaction id was supplied nor hash was found in cache".to_owned(),
        ),
    ];
    for (query, status, text) in cases {
        for path in PATHS {
            let line = format!("GET /account/transfers/{path}?{query}");
            let (found, message) = TestRequest::new(&line).status_and_error(&scene);
            assert_eq!((found, message.as_str()), (status, &text[..text.len().min(128)]), "{line}");
        }
    }
    assert_eq!(ask(&scene, 1, "all", "&hash=").len(), 2, "an empty hash is none");
}

#[test]
fn a_node_without_hash_lookup_pages_by_id() {
    let scene = funded();
    scene.add_block(vec![between(1, 2, 1), between(2, 1, 2)]);
    let settings = || Settings { features: Default::default(), ..settings() };
    let line = |more: &str| format!("GET /account/transfers/all?address={}&hash={}{more}", address(1), "00".repeat(32));
    let rejected = TestRequest::new(&line("")).send_to(&mut Api::new(settings()), &scene);
    assert_eq!(failure_in(&rejected), (500, "this node does not support transaction hash lookup".to_owned()));
    let reply = TestRequest::new(&line("&id=9")).send_to(&mut Api::new(settings()), &scene);
    assert_eq!((reply.status, rows_in(&reply.body).len()), (200, 2));
}

/// A chain on which the account of a key has exchanged messages with another account.
struct Messages {
    scene: Scene,
    own: Address,
    other: KeyPair,
}

impl Messages {
    fn pair() -> KeyPair {
        KeyPair::new(&PrivateKey::from_hex(KEY).unwrap())
    }

    fn new() -> Messages {
        let (own, other) = (Messages::pair(), KeyPair::new(&PrivateKey::from_seed(&[5; 32])));
        let scene = Scene::empty();
        scene.add_block(Vec::new());
        let balance = VestedBalance { height: 1, unvested: 0, vested: Amount::whole(1_000_000).0 };
        let rich = Account { first_height: 1, balance, ..Account::default() };
        let (own_address, other_address) = (address_of(&own.public()), address_of(&other.public()));
        scene.put_account_of(own_address, &rich);
        scene.put_account_of(other_address, &rich);
        let messages = Messages { scene, own: own_address, other };
        let other = &messages.other;
        let secret =
            |from: &KeyPair, to: &KeyPair, text: &[u8]| encrypt(from, &to.public(), [1; 32], [2; 16], text).unwrap();
        messages.scene.add_block(vec![
            message_transfer(&own, other_address, MessageKind::Secure, secret(&own, other, b"sent"), 1),
            message_transfer(other, own_address, MessageKind::Secure, secret(other, &own, b"got"), 2),
            message_transfer(other, own_address, MessageKind::Plain, b"plain".to_vec(), 3),
            message_transfer(other, own_address, MessageKind::Secure, b"rubbish".to_vec(), 4),
            // Its ciphertext is not a multiple of the block size.
            message_transfer(other, own_address, MessageKind::Secure, vec![7; 48 + 17], 5),
            message_transfer(other, own_address, MessageKind::Secure, secret(other, &own, b""), 6),
            // The public key of this account is unknown.
            message_transfer(&own, address(70), MessageKind::Secure, secret(&own, other, b"lost"), 7),
        ]);
        messages
    }

    fn ask(&self, path: &str, more: &str) -> Vec<Value> {
        let line = format!("POST /local/account/transfers/{path}");
        let body = format!(r#"{{"value":"{KEY}"{more}}}"#);
        let reply = TestRequest::new(&line).json(&body).send(&self.scene);
        assert_eq!(reply.status, 200, "{}", text_of(&reply));
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        body["data"].as_array().unwrap().clone()
    }
}

fn message_transfer(from: &KeyPair, to: Address, kind: MessageKind, payload: Vec<u8>, number: i32) -> Transaction {
    let message = Some(Message { kind, payload });
    let body = Body::Transfer(Transfer { recipient: to, amount: Amount(1), message, mosaics: Vec::new() });
    let transaction = transaction(Some(Signature([3; 64])), body);
    Transaction { signer: from.public(), timestamp: Timestamp(number), fee: Amount(0), ..transaction }
}

#[test]
fn the_private_key_of_an_account_decrypts_its_messages() {
    let messages = Messages::new();
    let all = messages.ask("all", "");
    let shown: Vec<_> = all
        .iter()
        .map(|pair| {
            let (transaction, message) = (&pair["transaction"], &pair["transaction"]["message"]);
            let kind = message["type"].as_i64().unwrap();
            let payload = message["payload"].as_str().map(|text| hex::decode(text).unwrap());
            (
                kind,
                payload,
                transaction["version"].as_i64().unwrap() as i32 & 0xff,
                transaction.get("mosaics").is_some(),
            )
        })
        .collect();
    let text = |text: &[u8]| Some(text.to_vec());
    let lost = encrypt(&Messages::pair(), &messages.other.public(), [1; 32], [2; 16], b"lost").unwrap();
    assert_eq!(
        shown,
        [
            (2, Some(lost), 1, false),
            (1, None, 2, true),
            (2, Some(vec![7; 48 + 17]), 1, false),
            (2, text(b"rubbish"), 1, false),
            (1, text(b"plain"), 1, false),
            (1, text(b"got"), 2, true),
            (1, text(b"sent"), 2, true),
        ]
    );
    // Location and hash are unchanged.
    let public = format!("GET /account/transfers/all?address={}", messages.own);
    let public: Value = serde_json::from_slice(&TestRequest::new(&public).send(&messages.scene).body).unwrap();
    let metas = |list: &[Value]| list.iter().map(|pair| pair["meta"].clone()).collect::<Vec<_>>();
    assert_eq!(metas(public["data"].as_array().unwrap()), metas(&all));
}

#[test]
fn page_parameters_beside_a_key_are_strings() {
    let messages = Messages::new();
    let count = |path: &str, more: &str| messages.ask(path, more).len();
    assert_eq!((count("incoming", ""), count("outgoing", ""), count("all", "")), (5, 2, 7));
    assert_eq!(count("all", r#","hash":"","id":"","pageSize":"""#), 7);
    assert_eq!(count("all", r#","hash":null,"id":null,"pageSize":null"#), 7);
    assert_eq!(count("all", r#","pageSize":"5""#), 5);
    assert_eq!(count("all", r#","id":"3""#), 2);
    let hash = messages.ask("all", "")[4]["meta"]["hash"]["data"].as_str().unwrap().to_owned();
    assert_eq!(count("all", &format!(r#","hash":"{hash}""#)), 2);
    for (more, status, text) in [
        (r#","id":5"#, 500, None),
        (r#","pageSize":5"#, 500, None),
        (r#","hash":5"#, 500, None),
        (r#","id":"abc""#, 400, Some("For input string: \"abc\"")),
        (r#","pageSize":"40000""#, 400, Some("Value out of range. Value:\"40000\" Radix:10")),
        (r#","hash":"00""#, 400, Some("Neither transaction id was supplied nor hash was found in cache")),
    ] {
        let body = format!(r#"{{"value":"{KEY}"{more}}}"#);
        let sent = TestRequest::new("POST /local/account/transfers/all").json(&body);
        let (found, message) = sent.status_and_error(&messages.scene);
        assert_eq!((found, text.unwrap_or(&message)), (status, message.as_str()), "{more}");
    }
    let body = format!(r#"{{"value":"{KEY}"}}"#);
    let foreign = TestRequest::new("POST /local/account/transfers/all").json(&body).from([10, 0, 0, 1]);
    assert_eq!(foreign.status_and_error(&messages.scene).0, 401);
}

#[test]
fn a_streamed_page_continues_on_the_present_chain_after_a_reorg() {
    let history = History::new(30, 7);
    let line = format!("GET /account/transfers/all?address={}&pageSize=100", address(1));
    let undone = crate::api::streams::tests::in_steps(&TestRequest::new(&line), &history.scene, |step| {
        if step == 1 {
            let mut batch = history.scene.store.begin_write().unwrap();
            rollback(&mut batch, Height(5)).unwrap();
            batch.commit().unwrap();
            history.scene.add_block(vec![between(1, 2, 9_999)]);
        }
    });
    let rows = rows_in(&undone.body);
    assert!(rows.is_sorted_by(|one, next| one.0 > next.0));
    let of_chain = ask(&history.scene, 1, "all", "&pageSize=100");
    // The rows of the first step are no longer in the chain, the later ones are.
    let (kept, gone): (Vec<_>, Vec<_>) = rows.iter().partition(|row| of_chain.contains(row));
    assert!(!gone.is_empty() && rows.starts_with(&gone) && kept == of_chain);
}
