//! Tests of the routes for explorers, exchanges and operators.

use crate::api::tests::*;
use crate::api::{Api, Command, Features, NodeStatus, Settings};
use crate::mempool::Mempool;
use crate::model::transaction::LinkMode;
use crate::model::{Amount, Transaction};
use crate::net::http::Response;
use crate::net::service::Progress;
use crate::state::{Account, LinkRole, VestedBalance};

const BINARY: [(&str, &str); 1] = [("Accept", "application/binary")];

fn json(response: &Response) -> serde_json::Value {
    serde_json::from_slice(response.plain_body()).unwrap_or_else(|_| panic!("{}", text_of(response)))
}

/// Returns the response in the smallest steps, and their number.
fn stepped(sent: &TestRequest<'_>, api: &mut Api, scene: &Scene, node: &mut TestNode) -> (Response, usize) {
    let (mut reply, mut steps) = (Response::new(), 0);
    loop {
        let (taken, _) = sent.step(api, scene, node, &mut reply, steps > 0, 1).unwrap();
        steps += 1;
        if taken == Progress::Done {
            return (reply, steps);
        }
    }
}

#[test]
fn a_remote_account_is_forwarded_to_its_owner_at_any_height() {
    let scene = Scene::new();
    // The link refers to the third account and is not in effect yet.
    scene.put_link(address(7), LinkRole::Remote, LinkMode::Activate, 1_000_000);
    scene.put_link(address(8), LinkRole::Owner, LinkMode::Activate, 1);
    let shown = |line: String| json(&TestRequest::new(&line).send(&scene))["account"]["address"].clone();
    for (byte, other) in [(7, 3), (8, 8), (1, 1)] {
        let by_address = format!("GET /account/get/forwarded?address={}", address(byte));
        assert_eq!(shown(by_address), address(other).to_string());
        let by_key = format!("GET /account/get/forwarded/from-public-key?publicKey={}", key(byte));
        assert_eq!(shown(by_key), address(other).to_string());
    }
    // The given key is shown only of an unknown account.
    let key_of = |byte| {
        let line = format!("GET /account/get/forwarded/from-public-key?publicKey={}", key(byte));
        json(&TestRequest::new(&line).send(&scene))["account"]["publicKey"].clone()
    };
    assert_eq!((key_of(70), key_of(9)), (key(70).to_string().into(), serde_json::Value::Null));
}

#[test]
fn the_account_status_equals_the_meta_data_of_the_account() {
    let scene = Scene::new();
    let line = format!("address={}", address(9));
    let pair = json(&TestRequest::new(&format!("GET /account/get?{line}")).send(&scene));
    let status = json(&TestRequest::new(&format!("GET /account/status?{line}")).send(&scene));
    assert_eq!(status, pair["meta"]);
    assert_eq!(status["cosignatories"].as_array().unwrap().len(), 3);
}

#[test]
fn a_batch_shows_accounts_in_request_order_with_duplicates() {
    let scene = Scene::new();
    scene.put_multisigs(1, 40);
    let (mut api, mut node) = (Api::new(settings()), TestNode::default());
    let names = [9, 1, 77, 1].map(|byte| format!("{{\"account\":\"{}\"}}", address(byte))).join(",");
    let body = format!("{{\"data\":[{names}]}}");
    for headers in [&[("Content-Type", "application/json")][..], &[("Content-Type", "application/json"), BINARY[0]]] {
        let sent = TestRequest { headers, ..TestRequest::new("POST /account/get/batch").json(&body) };
        let whole = sent.send_to_node(&mut api, &scene, &mut node);
        let (small, steps) = stepped(&sent, &mut api, &scene, &mut node);
        assert!(steps > 10, "{steps}");
        assert_eq!((whole.status, &whole.body), (200, &small.body));
        if headers.len() == 1 {
            let get =
                |byte| json(&TestRequest::new(&format!("GET /account/get?address={}", address(byte))).send(&scene));
            assert_eq!(json(&whole)["data"], serde_json::json!([get(9), get(1), get(77), get(1)]));
        }
    }
    let invalid = format!("{{\"data\":[{names},{{\"account\":\"T\"}}]}}");
    let failure = TestRequest::new("POST /account/get/batch").json(&invalid).status_and_error(&scene);
    assert_eq!(failure, (400, "address must be valid".to_owned()));
    // An importance transfer that cannot be shown fails the whole response.
    scene.put_link(address(7), LinkRole::Remote, LinkMode::Activate, 1);
    node.mempool.add_unchecked(importance_transfer(7), NETWORK);
    let body = format!("{{\"data\":[{{\"account\":\"{}\"}},{{\"account\":\"{}\"}}]}}", address(1), address(7));
    let failed = TestRequest::new("POST /account/get/batch").json(&body).send_to_node(&mut api, &scene, &mut node);
    assert_eq!(failed.status, 500);
}

#[test]
fn a_response_that_depends_on_the_chain_alone_is_cached_until_the_chain_changes() {
    let scene = Scene::new();
    let (mut api, mut node) = (Api::new(settings()), TestNode::default());
    let line = format!("GET /account/harvests?address={}", address(98));
    let request = TestRequest { may_be_cached: true, ..TestRequest::new(&line) };
    let mut send = |api: &mut Api, request: &TestRequest<'_>| request.send_to_node(api, &scene, &mut node);
    let first = send(&mut api, &request);
    assert!(first.status == 200 && api.cache.bytes > first.body.len());
    scene.add_block(Vec::new());
    let cached = send(&mut api, &request);
    assert_eq!((cached.status, text_of(&cached), cached.headers), (200, text_of(&first), first.headers.clone()));
    let binary = TestRequest { headers: &BINARY, ..request };
    assert_ne!(send(&mut api, &binary).plain_body(), first.plain_body());
    api.chain_changed();
    assert_eq!(api.cache.bytes, 0);
    let ids = |response: &Response| json(response)["data"].as_array().unwrap().len();
    let after = send(&mut api, &request);
    assert_eq!(ids(&after), ids(&first) + 1);
    // Errors, and what depends on more than the chain, are not cached.
    let used = api.cache.bytes;
    let unconfirmed = format!("GET /account/unconfirmedTransactions?address={}", address(98));
    for line in ["GET /account/harvests?address=T", &unconfirmed] {
        send(&mut api, &TestRequest { may_be_cached: true, ..TestRequest::new(line) });
    }
    assert_eq!(api.cache.bytes, used);
    api.change(settings());
    assert_eq!(api.cache.bytes, 0);
}

#[test]
fn an_account_is_cached_until_the_chain_or_its_status_on_this_node_changes() {
    let (scene, mut api, mut node) = (Scene::new(), Api::new(settings()), TestNode::default());
    let account = address_of(&pair().public());
    scene.fund_address(account);
    let line = format!("GET /account/get?address={account}");
    let request = TestRequest { may_be_cached: true, ..TestRequest::new(&line) };
    let meta = |api: &mut Api, node: &mut TestNode| {
        let response = request.send_to_node(api, &scene, node);
        let meta = &serde_json::from_slice::<serde_json::Value>(response.plain_body()).unwrap()["meta"];
        ["status", "remoteStatus"].map(|name| meta[name].as_str().unwrap().to_owned())
    };
    let shown = |status: &str, remote: &str| [status.to_owned(), remote.to_owned()];
    assert_eq!(meta(&mut api, &mut node), shown("LOCKED", "INACTIVE"));
    let used = api.cache.bytes;
    assert!(used > 0);
    assert_eq!(meta(&mut api, &mut node), shown("LOCKED", "INACTIVE"));
    assert_eq!(api.cache.bytes, used);
    node.unlock(&scene);
    assert_eq!(meta(&mut api, &mut node), shown("UNLOCKED", "INACTIVE"));
    node.unlocked.lock(&account);
    assert_eq!(meta(&mut api, &mut node), shown("LOCKED", "INACTIVE"));
    // While there is an importance transfer, accounts are neither kept nor taken from the cache.
    let used = api.cache.bytes;
    let transfer = Transaction { signer: pair().public(), ..importance_transfer(1) };
    node.mempool.add_unchecked(transfer, NETWORK);
    assert_eq!(meta(&mut api, &mut node), shown("LOCKED", "ACTIVATING"));
    node.mempool = Mempool::default();
    assert_eq!(meta(&mut api, &mut node), shown("LOCKED", "INACTIVE"));
    assert_eq!(api.cache.bytes, used);
    api.chain_changed();
    assert_eq!(api.cache.bytes, 0);
}

#[test]
fn harvested_blocks_are_paged_only_from_existing_block_ids() {
    let scene = Scene::new();
    for _ in 0..11 {
        scene.add_block(Vec::new());
    }
    let harvester = address(98);
    let heights = |query: &str| {
        let page = json(&TestRequest::new(&format!("GET /account/harvests?address={harvester}{query}")).send(&scene));
        let ids = page["data"].as_array().unwrap().iter().map(|one| one["id"].as_u64().unwrap());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(heights(""), (1..=12).rev().collect::<Vec<_>>());
    assert_eq!(heights("&id=9&pageSize=5"), [8, 7, 6, 5, 4]);
    assert_eq!(heights("&id=1"), [0; 0]);
    for id in ["0", "-1", "13", "9223372036854775807"] {
        let line = format!("GET /account/harvests?address={}&id={id}", address(2));
        assert_eq!(TestRequest::new(&line).send(&scene).status, 500, "{id}");
    }
    let nobody = TestRequest::new(&format!("GET /account/harvests?address={}", address(77))).status_and_body(&scene);
    assert_eq!(nobody, (200, "{\"data\":[]}\r\n".to_owned()));
}

#[test]
fn importances_are_streamed_in_any_steps_and_counted_in_binary() {
    let scene = Scene::new();
    scene.put_importance(9, 0.25);
    let (mut api, mut node) = (Api::new(settings()), TestNode::default());
    let sent = TestRequest::new("GET /account/importances");
    let whole = sent.send_to_node(&mut api, &scene, &mut node);
    let (small, steps) = stepped(&sent, &mut api, &scene, &mut node);
    assert_eq!(small.plain_body(), whole.plain_body());
    let list = json(&whole)["data"].clone();
    let list = list.as_array().unwrap();
    assert!(steps >= list.len() && list.len() > 5, "{steps} steps for {}", list.len());
    let of = |byte| list.iter().find(|one| one["address"] == address(byte).as_str()).unwrap()["importance"].clone();
    assert_eq!(of(9), serde_json::json!({"isSet": 1, "score": 0.25, "ev": 0.0, "height": 1}));
    assert_eq!(of(1), serde_json::json!({"isSet": 0}));
    let binary = TestRequest::new("GET /account/importances").with(&BINARY).send(&scene);
    assert_eq!(binary.plain_body()[..4], (list.len() as u32).to_le_bytes());
}

#[test]
fn history_heights_are_validated_first_and_only_if_history_is_kept() {
    let scene = Scene::new();
    let account = address(1);
    let line = |points: &str| format!("GET /account/historical/get?address={account}{points}");
    let ask = |points: &str| TestRequest::new(&line(points)).status_and_error(&scene);
    let off = "this node does not support historical account data retrieval".to_owned();
    assert_eq!(ask(""), (500, off));
    let features = Features { historical_account_data: true, ..Features::default() };
    let mut api = Api::new(Settings { features, ..settings() });
    let mut ask = |points: &str| failure_in(&TestRequest::new(&line(points)).send_to(&mut api, &scene));
    for (points, text) in [
        ("&startHeight=0&endHeight=1&increment=1", "height must be positive"),
        ("&startHeight=2&endHeight=1&increment=1", "start and end height are out of valid range"),
        ("&startHeight=1&endHeight=1&increment=0", "increment must be a positive integer"),
        ("&startHeight=1&endHeight=10002&increment=1", "only up to 10000 data points are supported"),
        ("&startHeight=1&endHeight=9223372036854775807&increment=1", "only up to 10000 data points are supported"),
        ("&startHeight=x&endHeight=1&increment=1", "For input string: \"x\""),
        // This chain has no historical data.
        ("&startHeight=1&endHeight=1&increment=1", "this node has no historical account data of the last block"),
    ] {
        assert_eq!(ask(points), (400, text.to_owned()), "{points}");
    }
}

#[test]
fn an_explorer_block_has_its_transactions_twice_in_any_steps() {
    let scene = Scene::new();
    scene.add_block(Vec::new());
    let (mut api, mut node) = (Api::new(settings()), TestNode::default());
    let plain = json(&TestRequest::new("POST /block/at/public").json("{\"height\":1}").send(&scene));
    let sent = TestRequest::new("POST /local/block/at").json("{\"height\":1}");
    let block = json(&sent.send(&scene));
    assert_eq!(block["block"], plain);
    let bare: Vec<_> = block["txes"].as_array().unwrap().iter().map(|entry| entry["tx"].clone()).collect();
    assert_eq!(serde_json::Value::from(bare), plain["transactions"]);
    assert_eq!(block["txes"][0]["innerHash"], multisig().inner().unwrap().hash().to_string());
    assert_eq!(block["txes"][1].as_object().unwrap().len(), 2);
    assert_eq!((&block["beneficiary"], &block["totalFee"]), (&address(98).as_str().into(), &24.into()));
    for accept in [&[][..], &BINARY] {
        let headers = [&[("Content-Type", "application/json")], accept].concat();
        for line in ["POST /local/block/at", "POST /local/chain/blocks-after"] {
            let sent = TestRequest { headers: &headers, ..TestRequest::new(line).json("{\"height\":1}") };
            let (small, steps) = stepped(&sent, &mut api, &scene, &mut node);
            assert_eq!(small.body, sent.send(&scene).body, "{line}");
            assert!(steps > 1 && small.status == 200);
        }
    }
    let missing = |line| TestRequest::new(line).json("{\"height\":3}").send(&scene);
    assert_eq!(missing("POST /local/block/at").status, 500);
    assert_eq!(text_of(&missing("POST /local/chain/blocks-after")), "{\"data\":[]}\r\n");
}

#[test]
fn supplies_of_several_mosaics_are_shown_each_once() {
    let scene = Scene::with_mosaics();
    let id = |namespace: &str, name: &str| format!("{{\"namespaceId\":\"{namespace}\",\"name\":\"{name}\"}}");
    let ask = |ids: &[String]| {
        let body = format!("{{\"data\":[{}]}}", ids.join(","));
        TestRequest::new("POST /mosaic/supply/batch").json(&body).send(&scene)
    };
    let found = json(&ask(&[id("a", "b"), id("nem", "xem"), id("a", "b")]));
    let one = |query: &str| json(&TestRequest::new(&format!("GET /mosaic/supply?mosaicId={query}")).send(&scene));
    assert_eq!(found["data"], serde_json::json!([one("a:b"), one("nem:xem")]));
    let missing = "mosaic id a:c is unknown 'a:c' (org.nem.core.model.ncc.MosaicIdSupplyPair)".to_owned();
    assert_eq!(failure_in(&ask(&[id("a", "b"), id("a", "c")])), (404, missing));
    // Before the definition there was none; at the definition, the root was rented in the same block.
    let at = |height: &str| format!("GET /local/mosaic/definition/supply?mosaicId=a:b{height}");
    assert_eq!(TestRequest::new(&at("&height=1")).status_and_body(&scene), (200, "{\"data\":[]}\r\n".to_owned()));
    assert_eq!(TestRequest::new(&at("&height=")).status_and_error(&scene).0, 500);
    assert_eq!(
        TestRequest::new(&at("&height=0")).status_and_error(&scene),
        (400, "height must be positive".to_owned())
    );
    let off = "this node does not support tracking expired mosaics".to_owned();
    assert_eq!(TestRequest::new("GET /local/mosaics/expired").status_and_error(&scene), (500, off));
}

#[test]
fn a_height_at_which_nothing_expired_has_an_empty_list() {
    let scene = Scene::with_mosaics();
    scene.add_block((0..3).map(|number| rent(1, &format!("r{number}"), 10 + number)).collect());
    let features = Features { track_expired_mosaics: true, ..Features::default() };
    let mut api = Api::new(Settings { features, ..settings() });
    let sent = TestRequest::new("GET /local/mosaics/expired?height=3");
    let (reply, _) = stepped(&sent, &mut api, &scene, &mut TestNode::default());
    assert_eq!((reply.status, text_of(&reply)), (200, "{\"data\":[]}\r\n".to_owned()));
}

const BOOT: &str = r#"{"identity":{"private-key":"01","name":"n"},
    "endpoint":{"protocol":"http","host":"10.0.0.1","port":7890},"metaData":{"application":"x"}}"#;

#[test]
fn a_node_is_booted_once_and_takes_the_given_identity() {
    let scene = Scene { status: NodeStatus::Running, ..Scene::new() };
    let (mut api, mut node) = (Api::new(settings()), TestNode::default());
    let sent = TestRequest::new("POST /node/boot");
    assert_eq!(sent.json(BOOT).from([192, 0, 2, 1]).send_to_node(&mut api, &scene, &mut node).status, 401);
    for (from, to, failure) in [
        ("http", "nosuch", "url is malformed"),
        ("7890", "-2", "url is malformed"),
        ("10.0.0.1", "no such host", "host is unknown"),
        ("10.0.0.1", "a..b", "host is unknown"),
        (r#""name":"n""#, r#""name":7"#, ""),
        (r#"{"application":"x"}"#, "{}", "expected value for property metaData, but none was found"),
    ] {
        let (status, text) = sent.json(&BOOT.replace(from, to)).status_and_error(&scene);
        assert!(status == 500 && (failure.is_empty() || text == failure), "{text}");
    }
    let reply = sent.json(BOOT).send_to_node(&mut api, &scene, &mut node);
    assert_eq!((reply.status, text_of(&reply), headers(&reply, "Content-Type")), (200, String::new(), vec![]));
    let Some(Command::Boot(request)) = node.commands.pop() else { panic!("it boots") };
    assert_eq!(
        (request.name.as_deref(), request.endpoint.host.as_str(), request.application.as_deref()),
        (Some("n"), "10.0.0.1", Some("x"))
    );
    let booted = Scene::new();
    assert_eq!(sent.json(BOOT).status_and_error(&booted), (503, "NIS_ILLEGAL_STATE_ALREADY_BOOTED".to_owned()));
}

#[test]
fn shutdown_is_allowed_only_to_local_clients() {
    let (scene, mut api, mut node) = (Scene::new(), Api::new(settings()), TestNode::default());
    assert_eq!(
        TestRequest::new("GET /shutdown").from([192, 0, 2, 1]).send_to_node(&mut api, &scene, &mut node).status,
        401
    );
    let page = [("Host", "localhost"), ("Origin", "http://a.example")];
    assert_eq!(TestRequest::new("GET /shutdown").with(&page).send_to_node(&mut api, &scene, &mut node).status, 401);
    assert!(node.commands.is_empty());
    let reply = TestRequest::new("GET /shutdown").send_to_node(&mut api, &scene, &mut node);
    assert_eq!((reply.status, reply.body.len()), (200, 0));
    assert!(matches!(node.commands[..], [Command::ShutDown]));
}

#[test]
fn missing_data_is_an_empty_list() {
    let scene = Scene::new();
    let nothing = "{\"data\":[]}\r\n";
    for line in ["node/peer-list/reachable", "node/peer-list/active", "node/experiences", "debug/time-synchronization"]
    {
        assert_eq!(
            TestRequest::new(&format!("GET /{line}")).status_and_body(&scene),
            (200, nothing.to_owned()),
            "{line}"
        );
    }
    let lists = "{\"inactive\":[],\"failure\":[],\"busy\":[],\"active\":[]}\r\n".to_owned();
    assert_eq!(TestRequest::new("GET /node/peer-list/all").status_and_body(&scene), (200, lists));
    let most = "{\"height\":1}\r\n".to_owned();
    assert_eq!(TestRequest::new("GET /node/active-peers/max-chain-height").status_and_body(&scene), (200, most));
}

#[test]
fn blocks_after_returns_blocks_up_to_the_requested_transaction_count() {
    let scene = Scene::new();
    scene.fund(1);
    let mut number = 0;
    for count in [100, 15, 10, 3] {
        let block = (0..count).map(|_| {
            number += 1;
            multisig_with_cosignatures(number)
        });
        scene.add_block(block.collect());
    }
    let ask = |entity: &str| {
        let body = format!("{{\"entity\":{entity},\"challenge\":{{\"data\":\"{CHALLENGE}\"}}}}");
        let sent = TestRequest::new("POST /chain/blocks-after").json(&body);
        let whole = sent.send(&scene);
        let (small, _) = stepped(&sent, &mut Api::new(settings()), &scene, &mut TestNode::default());
        assert_eq!(small.body, whole.body);
        let heights = json(&whole)["entity"]["data"].as_array().unwrap().clone();
        heights.iter().map(|block| block["height"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    // A multisig transaction with five cosignatures counts as seven. A requested limit below 120 counts as 120, fewer
    // than the first of these blocks has.
    assert_eq!(ask(r#"{"height":1}"#), [2, 3, 4, 5]);
    assert_eq!(ask(r#"{"height":1,"maxTransactions":1}"#), [0; 0]);
    assert_eq!(ask(r#"{"height":1,"maxTransactions":804}"#), [2]);
    assert_eq!(ask(r#"{"height":1,"maxTransactions":805}"#), [2, 3]);
    assert_eq!(ask(r#"{"height":2,"minBlocks":-1,"maxTransactions":-1}"#), [3]);
    assert_eq!(ask(r#"{"height":9}"#), [0; 0]);
    let hashes = |height: u64| {
        let body = format!("{{\"entity\":{{\"height\":{height}}},\"challenge\":{{\"data\":\"{CHALLENGE}\"}}}}");
        json(&TestRequest::new("POST /chain/hashes-from").json(&body).send(&scene))["entity"]["data"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!((hashes(1), hashes(5), hashes(6), hashes(1 << 62)), (5, 1, 0, 0));
}

#[test]
fn can_you_see_me_reports_the_client_address_in_nis1_form() {
    let scene = Scene::new();
    let sent = TestRequest::new("POST /node/cysm").json(r#"{"protocol":"http","host":"::1","port":7890}"#);
    let caller = |address: &str| {
        let sent = TestRequest {
            client: crate::net::service::Client { address: address.parse().unwrap(), ..sent.client },
            ..sent
        };
        json(&sent.send(&scene))["host"].clone()
    };
    assert_eq!((caller("192.0.2.1"), caller("::1")), ("192.0.2.1".into(), "[0:0:0:0:0:0:0:1]".into()));
}

#[test]
fn an_account_without_links_is_no_remote() {
    let scene = Scene::new();
    let balance = VestedBalance { height: 1, unvested: 0, vested: Amount(1).0 };
    scene.put_account(7, &Account { first_height: 1, balance, ..Account::default() });
    let shown = json(&TestRequest::new(&format!("GET /account/get/forwarded?address={}", address(7))).send(&scene));
    assert_eq!(shown["account"]["address"], address(7).as_str());
}
