//! Tests of the objects of chain and state.

use crate::api::Api;
use crate::api::tests::*;
use crate::crypto::Signature;
use crate::model::transaction::{LinkMode, TransactionKind};
use crate::model::{Height, Transaction};
use crate::net::http::Response;
use crate::state::LinkRole;

/// A chain with the root namespaces `n000` to `n119`.
fn with_roots() -> Scene {
    let scene = Scene::empty();
    scene.add_block((0..120).map(|number| rent(1, &format!("n{number:03}"), number)).collect());
    scene
}

fn json(response: &Response) -> serde_json::Value {
    serde_json::from_slice(&response.body).unwrap()
}

#[test]
fn a_page_begins_below_a_number_and_has_five_to_a_hundred_entries() {
    let scene = with_roots();
    let owner = address(1);
    for (query, first, size) in [
        ("", 120, 25),
        ("?id=7", 6, 6),
        ("?id=-7&pageSize=6", 0, 0),
        ("?id=%2B7&pageSize=4", 6, 5),
        ("?id=0&pageSize=-32768", 0, 0),
        ("?id=50&pageSize=-32768", 49, 5),
        ("?id=9223372036854775807&pageSize=32767", 120, 100),
    ] {
        let reply = TestRequest::new(&format!("GET /namespace/root/page{query}")).send(&scene);
        let ids = (0..size).map(|place| {
            let id: i64 = first - place;
            let namespace = format!(r#"{{"owner":"{owner}","fqn":"n{:03}","height":1}}"#, id - 1);
            format!("{{\"meta\":{{\"id\":{id}}},\"namespace\":{namespace}}}")
        });
        let expected = format!("{{\"data\":[{}]}}\r\n", ids.collect::<Vec<_>>().join(","));
        assert_eq!((reply.status, text_of(&reply)), (200, expected), "{query}");
    }
    for (query, text) in [
        ("id=", "For input string: \"\""),
        ("id=undefined&pageSize=x", "For input string: \"undefined\""),
        ("id=9223372036854775808", "For input string: \"9223372036854775808\""),
        ("pageSize=32768", "Value out of range. Value:\"32768\" Radix:10"),
        ("pageSize=2147483648", "For input string: \"2147483648\""),
    ] {
        let failure = TestRequest::new(&format!("GET /namespace/root/page?{query}")).status_and_error(&scene);
        assert_eq!(failure, (400, text.to_owned()), "{query}");
    }
}

#[test]
fn a_namespace_is_shown_if_it_is_active() {
    let scene = Scene::empty();
    scene.add_block(vec![rent(1, "a", 1), rent(1, "a.b", 2), rent(1, "a.b.x", 3), rent(2, "c", 4)]);
    let owner = address(1);
    let shown = |name: &str| format!(r#"{{"owner":"{owner}","fqn":"{name}","height":1}}"#);
    assert_eq!(TestRequest::new("GET /namespace/?namespace=a").status_and_body(&scene), (200, shown("a") + "\r\n"));
    let missing = "invalid namespace 'b' (org.nem.core.model.namespace.Namespace)".to_owned();
    assert_eq!(TestRequest::new("GET /namespace?namespace=b").status_and_error(&scene), (404, missing));
    let malformed = "'A' is not a valid namespace id part.".to_owned();
    assert_eq!(TestRequest::new("GET /namespace?namespace=A").status_and_error(&scene), (400, malformed.clone()));
    assert_eq!(TestRequest::new("GET /namespace").status_and_error(&scene).0, 500);
    let page = |query: &str| {
        TestRequest::new(&format!("GET /account/namespace/page?address={owner}{query}")).status_and_body(&scene)
    };
    let listed = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| shown(name)).collect();
        (200, format!("{{\"data\":[{}]}}\r\n", names.join(",")))
    };
    assert_eq!(page("&parent="), listed(&["a", "a.b", "a.b.x"]));
    assert_eq!(page("&parent=a.b&id=3&pageSize=100"), listed(&["a.b.x"]));
    assert_eq!(page("&parent=c"), listed(&[]));
    let failure = TestRequest::new(&format!("GET /account/namespace/page?address={owner}&parent=A&id=x"))
        .status_and_error(&scene);
    assert_eq!(failure, (400, malformed));
    // A year of blocks later the lease has ended, but its data is still there.
    let year = Height(scene.network.chain.blocks_per_year() + 2);
    let (mut api, mut node) = (Api::new(settings()), TestNode::default());
    let line = format!("GET /account/namespace/page?address={owner}");
    let ended = TestRequest::new(&line).at_height(&mut api, &scene, &mut node, year);
    assert_eq!(text_of(&ended), "{\"data\":[]}\r\n");
}

#[test]
fn a_namespace_page_reads_only_the_first_provisions() {
    let scene = Scene::empty();
    let names = (0..9).map(|number| rent(1, &format!("a.s{number}"), 10 + number));
    scene.add_block(std::iter::once(rent(1, "a", 1)).chain(names).collect());
    let line = format!("GET /account/namespace/page?address={}&pageSize=6", address(1));
    let body = json(&TestRequest::new(&line).send(&scene));
    let names: Vec<_> = body["data"].as_array().unwrap().iter().map(|one| one["fqn"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "a.s0", "a.s1", "a.s2", "a.s3", "a.s4"]);
}

const DEFINITION: &str = r#""id":{"namespaceId":"a","name":"b"},"properties":[{"name":"divisibility","value":"1"},{"name":"initialSupply","value":"9"},{"name":"supplyMutable","value":"true"},{"name":"transferable","value":"false"}]"#;

#[test]
fn a_definition_is_shown_by_mosaic_and_in_lists() {
    let scene = Scene::empty();
    scene.add_block(vec![rent(1, "a", 1), rent(2, "o", 2), define(definition("a:b", None), 3)]);
    let foreign = crate::model::MosaicDefinition { creator: key(2), ..definition("o:c", None) };
    scene.add_block(vec![define(foreign, 4)]);
    let creator = key(1);
    let shown = format!(r#"{{"creator":"{creator}","description":"d\/",{DEFINITION},"levy":{{}}}}"#);
    assert_eq!(
        TestRequest::new("GET /mosaic/definition?mosaicId=a:b").status_and_body(&scene),
        (200, shown.clone() + "\r\n")
    );
    assert_eq!(TestRequest::new("GET /mosaic/definition?mosaicId=expired:b").status_and_error(&scene).0, 404);
    assert_eq!(
        TestRequest::new("GET /mosaic/definition/last?mosaicId=a:b").status_and_body(&scene),
        (200, shown.clone() + "\r\n")
    );
    let missing = "invalid mosaic definition 'a:c' (org.nem.core.model.mosaic.MosaicDefinition)".to_owned();
    assert_eq!(TestRequest::new("GET /mosaic/definition/last?mosaicId=a:c").status_and_error(&scene), (404, missing));
    let address = address_of(&creator);
    for line in ["/mosaic/definition/page?id=2&pageSize=9", "/namespace/mosaic/definition/page?namespace=a&id=8"] {
        let expected = format!("{{\"data\":[{{\"meta\":{{\"id\":1}},\"mosaic\":{shown}}}]}}\r\n");
        assert_eq!(TestRequest::new(&format!("GET {line}")).status_and_body(&scene), (200, expected));
    }
    let all = json(&TestRequest::new("GET /mosaic/definition/page").send(&scene));
    assert_eq!((all["data"].as_array().unwrap().len(), &all["data"][0]["meta"]["id"]), (2, &2.into()));
    let nothing = (200, "{\"data\":[]}\r\n".to_owned());
    assert_eq!(
        TestRequest::new("GET /namespace/mosaic/definition/page?namespace=b&id=x").status_and_body(&scene),
        nothing
    );
    for (query, is_shown) in [("", true), ("&parent=a", true), ("&parent=o", false), ("&parent=b", false)] {
        let line = format!("GET /account/mosaic/definition/page?address={address}{query}");
        let expected = if is_shown { (200, format!("{{\"data\":[{shown}]}}\r\n")) } else { nothing.clone() };
        assert_eq!(TestRequest::new(&line).status_and_body(&scene), expected, "{query}");
    }
}

#[test]
fn an_expired_definition_is_shown_only_by_the_last_definition_route() {
    let scene = Scene::empty();
    scene.add_block(vec![rent(1, "a", 1), define(definition("a:b", None), 3)]);
    let year = Height(scene.network.chain.blocks_per_year() + 2);
    let (mut api, mut node) = (Api::new(settings()), TestNode::default());
    for (line, status) in [("/mosaic/definition?mosaicId=a:b", 404), ("/mosaic/definition/last?mosaicId=a:b", 200)] {
        let line = format!("GET {line}");
        assert_eq!(TestRequest::new(&line).at_height(&mut api, &scene, &mut node, year).status, status);
    }
}

#[test]
fn owned_mosaic_definitions_include_the_mosaics_of_their_levies() {
    let scene = Scene::with_mosaics();
    let (rich, poor) = (address(1), address(2));
    let xem = r#"{"quantity":4,"mosaicId":{"namespaceId":"nem","name":"xem"}}"#;
    let other = |name: &str| format!(r#"{{"quantity":90,"mosaicId":{{"namespaceId":"a","name":"{name}"}}}}"#);
    let line = format!("GET /account/mosaic/owned?address={rich}");
    let owned = format!("{{\"data\":[{xem},{},{}]}}\r\n", other("b"), other("paid"));
    assert_eq!(TestRequest::new(&line).status_and_body(&scene), (200, owned));
    let names = |reply: &Response| {
        let name = |one: &serde_json::Value| one["id"]["name"].as_str().unwrap().to_owned();
        json(reply)["data"].as_array().unwrap().iter().map(name).collect::<Vec<_>>()
    };
    let line = format!("GET /account/mosaic/owned/definition?address={rich}");
    assert_eq!(names(&TestRequest::new(&line).send(&scene)), ["b", "paid", "xem"]);
    let line = format!("GET /account/mosaic/owned/definition?address={poor}");
    assert_eq!(names(&TestRequest::new(&line).send(&scene)), ["xem"]);
    let body =
        format!("{{\"data\":[{{\"account\":\"{poor}\"}},{{\"account\":\"{rich}\"}},{{\"account\":\"{poor}\"}}]}}");
    let batch = |body: &str| TestRequest::new("POST /account/mosaic/owned/definition/batch").json(body).send(&scene);
    assert_eq!(names(&batch(&body)), ["b", "paid", "xem"]);
    assert_eq!(text_of(&batch(r#"{"data":[]}"#)), "{\"data\":[]}\r\n");
    let rejected = failure_in(&batch(r#"{"data":[{"account":"BAD"}]}"#));
    assert_eq!(rejected, (400, "address must be valid".to_owned()));
}

#[test]
fn the_levy_mosaic_is_included_even_if_the_account_does_not_own_it() {
    let scene = Scene::with_mosaics();
    // The account keeps `a:b` and loses `a:paid`, the mosaic of its levy.
    scene.forget_holding(1, "a:paid");
    let line = format!("GET /account/mosaic/owned/definition?address={}", address(1));
    let body = json(&TestRequest::new(&line).send(&scene));
    let names: Vec<_> =
        body["data"].as_array().unwrap().iter().map(|one| one["id"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["b", "paid", "xem"]);
}

#[test]
fn the_supply_is_shown_only_for_a_known_mosaic() {
    let scene = Scene::with_mosaics();
    let supply = "{\"mosaicId\":{\"namespaceId\":\"a\",\"name\":\"b\"},\"supply\":9}\r\n".to_owned();
    assert_eq!(TestRequest::new("GET /mosaic/supply?mosaicId=a%3Ab").status_and_body(&scene), (200, supply));
    let unknown = "mosaic id a:c is unknown 'a:c' (org.nem.core.model.ncc.MosaicIdSupplyPair)".to_owned();
    assert_eq!(TestRequest::new("GET /mosaic/supply?mosaicId=a:c").status_and_error(&scene), (404, unknown));
    let malformed = "pattern 'A:b' could not be parsed".to_owned();
    assert_eq!(TestRequest::new("GET /mosaic/supply?mosaicId=A:b").status_and_error(&scene), (400, malformed));
}

#[test]
fn mosaic_holders_are_paged() {
    let scene = Scene::with_mosaics();
    let holder = |id: u32| {
        let address = address(1);
        format!(r#"{{"meta":{{"id":{id}}},"holder":{{"address":"{address}","quantity":90}}}}"#)
    };
    let line = "GET /mosaic/holders?mosaicId=a:b";
    let body = json(&TestRequest::new(line).send(&scene));
    let id = body["data"][0]["meta"]["id"].as_u64().unwrap() as u32;
    assert_eq!(TestRequest::new(line).status_and_body(&scene), (200, format!("{{\"data\":[{}]}}\r\n", holder(id))));
    let next = format!("{line}&id={id}");
    assert_eq!(TestRequest::new(&next).status_and_body(&scene), (200, "{\"data\":[]}\r\n".to_owned()));
    assert_eq!(TestRequest::new("GET /mosaic/holders?mosaicId=a:c").status_and_error(&scene).0, 404);
    assert_eq!(TestRequest::new("GET /mosaic/holders?mosaicId=nem:xem").status_and_error(&scene).0, 400);
}

#[test]
fn a_block_is_found_by_its_hash_within_the_rewrite_limit() {
    let scene = Scene::empty();
    let limit = scene.network.chain.rewrite_limit;
    for _ in 0..limit + 2 {
        scene.add_block(Vec::new());
    }
    let hash = |height: u64| scene.block(Height(height)).hash();
    let find = |hash: &str| TestRequest::new(&format!("GET /block/get?hash={hash}")).send(&scene);
    for height in [limit + 2, 2] {
        let found = find(&hash(height).to_string());
        let shown = TestRequest::new("POST /block/at/public").json(&format!("{{\"height\":{height}}}")).send(&scene);
        assert_eq!(text_of(&found), text_of(&shown), "{height}");
    }
    let (status, message) = failure_in(&find(&hash(1).to_string()));
    assert!(status == 404 && message.contains("height 2"), "{message}");
    for bad in ["00", "zz", &hash(2).to_string()[1..]] {
        assert_eq!(failure_in(&find(bad)), (400, "hash must have 64 hex digits".to_owned()), "{bad}");
    }
    let missing = TestRequest::new("GET /block/get").status_and_error(&scene);
    assert_eq!(missing, (400, "the parameter hash is missing".to_owned()));
    assert_eq!(find(&"00".repeat(32)).status, 404);
}

#[test]
fn a_block_is_shown_by_height_and_as_the_last_one() {
    let scene = Scene::new();
    let (status, block) = TestRequest::new("GET /chain/last-block").status_and_body(&scene);
    assert_eq!(status, 200);
    assert!(block.starts_with(r#"{"timeStamp":3,"signature":"0303"#), "{block}");
    assert!(block.ends_with("\"height\":1}\r\n"), "{block}");
    assert_eq!(TestRequest::new("POST /block/at/public").json("{'height':1}").status_and_body(&scene), (200, block));
    let missing = TestRequest::new("POST /block/at/public").json("{\"height\":2}").status_and_error(&scene);
    assert_eq!(missing, (404, "block not found in the db '2' (org.nem.core.model.Block)".to_owned()));
}

#[test]
fn an_account_is_shown_by_address_and_by_key() {
    let scene = Scene::new();
    scene.put_importance(9, 1.2345e-4);
    let (address, other) = (address(1), address(9));
    let meta = format!(
        r#""meta":{{"cosignatories":[],"cosignatoryOf":[{{"address":"{other}","harvestedBlocks":3,"balance":5,"importance":1.2345E-4,"vestedBalance":4,"publicKey":null,"label":null,"multisigInfo":{{"cosignatoriesCount":3,"minCosignatories":2}}}}],"status":"LOCKED","remoteStatus":"INACTIVE"}}"#
    );
    let with_key = |key: &str| {
        format!(
            "{{{meta},\"account\":{{\"address\":\"{address}\",\"harvestedBlocks\":3,\"balance\":5,\"importance\":0.0,\
             \"vestedBalance\":4,\"publicKey\":{key},\"label\":null,\"multisigInfo\":{{}}}}}}\r\n"
        )
    };
    let line = format!("GET /account/get?address={}", address.as_str().to_lowercase());
    assert_eq!(TestRequest::new(&line).status_and_body(&scene), (200, with_key("null")));
    let line = format!("GET /account/get/from-public-key?publicKey={}", key(1));
    assert_eq!(TestRequest::new(&line).status_and_body(&scene), (200, with_key(&format!("\"{}\"", key(1)))));
    let line = format!("GET /account/get?address={other}");
    let body = json(&TestRequest::new(&line).send(&scene));
    assert_eq!(body["meta"]["cosignatories"].as_array().unwrap().len(), 3);
}

#[test]
fn a_transaction_is_shown_with_its_meta_data() {
    let scene = Scene::new();
    let (multisig, plain) = (multisig(), signed_transfer());
    let (hash, inner) = (multisig.hash(), multisig.inner().unwrap().hash());
    let (_, body) = TestRequest::new(&format!("GET /transaction/get?hash={hash}")).status_and_body(&scene);
    let meta = format!(r#"{{"meta":{{"innerHash":{{"data":"{inner}"}},"id":1,"hash":{{"data":"{hash}"}},"height":1}}"#);
    assert!(body.starts_with(&meta), "{body}");
    assert!(body.contains(&format!("\"type\":{}", TransactionKind::Multisig.code())));
    // The transfer in the multisig transaction has the id 2.
    let (_, body) = TestRequest::new(&format!("GET /transaction/get?hash={}", plain.hash())).status_and_body(&scene);
    assert!(body.starts_with(r#"{"meta":{"innerHash":{},"id":3,"#), "{body}");

    let nested = TestRequest::new(&format!("GET /transaction/get?hash={inner}")).status_and_error(&scene);
    let text = format!("transaction not found in the db '{inner}' (class org.nem.core.crypto.Ha");
    assert_eq!((nested.0, nested.1.len(), nested.1), (404, 128, text));
    // With `nested=true` the response is the containing transaction.
    let ask = |nested: &str| format!("GET /transaction/get?hash={inner}&nested={nested}");
    let (_, body) = TestRequest::new(&ask("true")).status_and_body(&scene);
    assert!(body.starts_with(&meta), "{body}");
    assert_eq!(TestRequest::new(&ask("false")).status_and_error(&scene).0, 404);
    assert_eq!(
        TestRequest::new(&ask("yes")).status_and_error(&scene),
        (400, "nested must be true or false".to_owned())
    );
    for unknown in ["ab", "", &"0".repeat(64)] {
        let failure = TestRequest::new(&format!("GET /transaction/get?hash={unknown}")).status_and_error(&scene);
        assert_eq!(failure, (400, "Hash was not found in cache".to_owned()));
    }
}

#[test]
fn the_unconfirmed_route_shows_at_most_25_transactions_with_inner_hashes() {
    let scene = Scene::new();
    let multisig = multisig();
    let inner = multisig.inner().unwrap().hash();
    let mut node = TestNode::default();
    for number in 0..30 {
        let timestamp = crate::model::Timestamp(50 + number);
        node.mempool.add_unchecked(Transaction { timestamp, ..transfer(Some(Signature([3; 64]))) }, NETWORK);
    }
    node.mempool.add_unchecked(multisig, NETWORK);
    let line = format!("GET /account/unconfirmedTransactions?address={}", address(1));
    let reply = TestRequest::new(&line).send_to_node(&mut Api::new(settings()), &scene, &mut node);
    let text = text_of(&reply);
    assert!(text.starts_with(&format!(r#"{{"data":[{{"meta":{{"data":"{inner}"}},"transaction":{{"timeStamp":100,"#)));
    let value = json(&reply);
    let data = value["data"].as_array().unwrap();
    assert_eq!((data.len(), &data[24]["meta"]["data"]), (25, &serde_json::Value::Null));
    assert_eq!(TestRequest::new("GET /account/unconfirmedTransactions").status_and_error(&scene).0, 400);
}

#[test]
fn a_pending_importance_transfer_shows_in_the_account_status() {
    let line = format!("GET /account/get?address={}", address(1));
    let mut node = TestNode::default();
    node.mempool.add_unchecked(importance_transfer(1), NETWORK);
    let far = 100_000;
    for (link, shown) in [
        (None, Some("ACTIVATING")),
        (Some((LinkRole::Owner, LinkMode::Activate, 1)), Some("DEACTIVATING")),
        (Some((LinkRole::Owner, LinkMode::Deactivate, 1)), Some("ACTIVATING")),
        (Some((LinkRole::Owner, LinkMode::Activate, far)), None),
        (Some((LinkRole::Owner, LinkMode::Deactivate, far)), None),
        (Some((LinkRole::Remote, LinkMode::Activate, 1)), None),
    ] {
        let scene = Scene::new();
        if let Some((role, mode, height)) = link {
            scene.put_link(address(1), role, mode, height);
        }
        let reply = TestRequest::new(&line).at_height(&mut Api::new(settings()), &scene, &mut node, Height(far));
        match shown {
            Some(shown) => assert!(text_of(&reply).contains(&format!("\"remoteStatus\":\"{shown}\"")), "{shown}"),
            None => {
                let text = "unexpected remote state for account with pending importance transfer";
                assert_eq!(failure_in(&reply), (500, text.to_owned()));
            }
        }
    }
}

#[test]
fn a_transaction_found_by_hash_has_the_id_assigned_by_its_block() {
    let scene = Scene::new();
    let mut transactions = vec![rent(1, "a", 1)];
    for number in 2..40 {
        let timestamp = crate::model::Timestamp(1000 + number);
        transactions.push(match number % 4 {
            0 => rent(1, &format!("a.n{number}"), number),
            1 => Transaction { timestamp, ..multisig_of(rent(1, &format!("a.n{number}"), number)) },
            2 => define(definition(&format!("a:n{number}"), None), number),
            _ => Transaction { timestamp, fee: crate::model::Amount(0), ..zero_transfer() },
        });
    }
    let rich = crate::state::VestedBalance { height: 1, unvested: 0, vested: 1_000_000_000 };
    scene.put_account(1, &crate::state::Account { first_height: 1, balance: rich, ..Default::default() });
    let height = scene.add_block(transactions.clone());
    let (block, first) = (scene.block(height), scene.first_id(height));
    let (ids, _) = crate::state::assign_ids(&block, first);
    for (transaction, id) in transactions.iter().zip(ids) {
        let reply = TestRequest::new(&format!("GET /transaction/get?hash={}", transaction.hash())).send(&scene);
        assert_eq!(json(&reply)["meta"]["id"], id);
    }
}

fn multisig_of(inner: Transaction) -> Transaction {
    let inner = Transaction { signature: None, ..inner };
    let body = crate::model::transaction::Multisig { inner, cosignatures: Vec::new() };
    let body = crate::model::Body::Multisig(Box::new(body));
    Transaction { fee: crate::model::Amount(0), ..transaction(Some(Signature([3; 64])), body) }
}

fn zero_transfer() -> Transaction {
    transfer(Some(Signature([3; 64])))
}
