//! Tests of routes that change the node: announcing, signing, unlocking, and their access.

use crate::ip::LocalAddresses;

use crate::api::routes::{Access, Method};
use crate::api::tests::*;
use crate::api::{Api, NodeStatus, ROUTES, Settings};
use crate::crypto::{KeyPair, PrivateKey, PublicKey, Signature, verify};
use crate::local_cookie::{LocalCookie, SECRET_BYTES};
use crate::model::transaction::{LinkMode, wire_version};
use crate::model::{Amount, Height, NetworkByte, Transaction};
use crate::net::http::Response;
use crate::state::{Account, LinkRole, VestedBalance};

fn announcement(transaction: &Transaction, signature: &str) -> String {
    format!(r#"{{"data":"{}","signature":"{signature}"}}"#, hex::encode(transaction.signed_bytes()))
}

#[test]
fn an_announced_transaction_reaches_the_mempool_and_any_result_has_status_200() {
    let scene = Scene::new();
    scene.fund_address(address_of(&pair().public()));
    // It is in the chain.
    let known = multisig();
    let (hash, inner) = (known.hash(), known.inner().unwrap().hash());
    let announce = |node: &mut TestNode, transaction: &Transaction| {
        let body = announcement(transaction, &hex::encode(transaction.signature.unwrap().0));
        let reply = TestRequest::new("POST /transaction/announce").json(&body).send_to_node(
            &mut Api::new(settings()),
            &scene,
            node,
        );
        (reply.status, text_of(&reply))
    };
    let expected = format!(
        "{{\"innerTransactionHash\":{{\"data\":\"{inner}\"}},\"code\":0,\"type\":1,\
         \"message\":\"NEUTRAL\",\"transactionHash\":{{\"data\":\"{hash}\"}}}}\r\n"
    );
    let mut node = TestNode::default();
    assert_eq!(announce(&mut node, &known), (200, expected));
    assert!(node.mempool.is_empty());
    let good = acceptable(0);
    let (status, text) = announce(&mut node, &good);
    assert!(status == 200 && text.contains("\"message\":\"SUCCESS\""), "{text}");
    assert!(node.mempool.in_fee_order().iter().map(|one| &**one).eq([&good]));
}

#[test]
fn a_binary_announcement_gets_a_binary_response() {
    let scene = Scene::new();
    scene.fund_address(address_of(&pair().public()));
    let transaction = acceptable(0);
    let field = |bytes: &[u8]| [(bytes.len() as u32).to_le_bytes().as_slice(), bytes].concat();
    let body = [field(&transaction.signed_bytes()), field(&transaction.signature.unwrap().0)].concat();
    let headers = [("Content-Type", "application/binary"), ("Accept", "application/binary")];
    let sent = TestRequest { body: &body, ..TestRequest::new("POST /transaction/announce").with(&headers) };
    let reply = sent.send(&scene);
    let result = [1i32.to_le_bytes().as_slice(), &1i32.to_le_bytes(), &field(b"SUCCESS"), &[0; 4]].concat();
    let hash = field(&field(&transaction.hash().0));
    assert_eq!((reply.status, reply.body), (200, [result, hash].concat()));
}

#[test]
fn a_bad_announcement_gets_its_specified_error_text() {
    let scene = Scene::new();
    let short = announcement(&transfer(None), "00");
    let missing = |name| format!("expected value for property {name}, but none was found");
    for (body, status, message) in [
        ("{}", 500, missing("data")),
        ("{\"data\":\"\"}", 500, missing("signature")),
        ("{\"data\":\"\",\"signature\":\"\"}", 500, missing("type")),
        ("{\"data\":\"00000000\",\"signature\":\"\"}", 400, "Unknown transaction type: 0".to_owned()),
        (&short, 400, "binary signature representation must be 64 bytes".to_owned()),
    ] {
        assert_eq!(
            TestRequest::new("POST /transaction/announce").json(body).status_and_error(&scene),
            (status, message),
            "{body}"
        );
    }
    let (signature, fails) = (Signature([3; 64]), |key: &PublicKey| verify(key, b"", &Signature([3; 64])).is_err());
    let signer = (0..=255).map(key).find(fails).expect("a key that is not a point");
    let message = verify(&signer, b"", &signature).unwrap_err().to_string();
    let body = announcement(&Transaction { signer, ..transfer(None) }, &signature.to_string());
    let reply = TestRequest::new("POST /transaction/announce").json(&body);
    assert_eq!(reply.status_and_error(&scene), (400, message));
}

/// Announces an aggregate modification whose only modification is null, alone or in a multisig transaction, signed or not.
/// It has version 2 and a relative change of the number of signatures.
fn announce_null(network: NetworkByte, is_nested: bool, is_signed: bool, scene: &Scene) -> Response {
    let header = |kind: i32, version| {
        let [kind, version, key_bytes] = [kind, wire_version(network, version), 32].map(i32::to_le_bytes);
        let signer = pair().public().0;
        [&kind, &version, &[1, 0, 0, 0], &key_bytes, signer.as_slice(), &[5; 4], &[0; 4], &[9, 0, 0, 0]].concat()
    };
    let list = [[1, 0, 0, 0], [0; 4], 4i32.to_le_bytes(), [1, 0, 0, 0]].concat();
    let mut data = [header(0x1001, 2), list].concat();
    if is_nested {
        data = [header(0x1004, 1), (data.len() as u32).to_le_bytes().to_vec(), data].concat();
    }
    let signature = if is_signed { pair().sign(&data) } else { Signature([0x33; 64]) };
    // Bytes after the transaction are ignored and not signed.
    let (data, signature) = (hex::encode([data, vec![7]].concat()), hex::encode(signature.0));
    let body = format!(r#"{{"data":"{data}","signature":"{signature}"}}"#);
    TestRequest::new("POST /transaction/announce").json(&body).send(scene)
}

#[test]
fn the_signature_is_checked_before_a_null_modification() {
    let scene = Scene::new();
    for is_nested in [false, true] {
        let announce = |network, is_signed| announce_null(network, is_nested, is_signed, &scene);
        let reply = announce(NetworkByte::TESTNET, false);
        assert!(text_of(&reply).contains("\"code\":8,"), "{}", text_of(&reply));
        assert_eq!(text_of(&reply).contains("\"innerTransactionHash\":{\"data\""), is_nested, "{}", text_of(&reply));
        let reply = announce(NetworkByte::MAINNET, false);
        assert!(text_of(&reply).contains("\"code\":20,"), "{}", text_of(&reply));
        let expected = (500, "property modifications holds a null element".to_owned());
        assert_eq!(failure_in(&announce(NetworkByte::TESTNET, true)), expected);
        let unready = Scene { status: NodeStatus::Running, ..Scene::new() };
        assert_eq!(announce_null(NetworkByte::TESTNET, is_nested, false, &unready).status, 503);
    }
}

#[test]
fn a_node_that_is_not_booted_validates_only_transactions_of_other_networks() {
    let scene = Scene { status: NodeStatus::Running, ..Scene::new() };
    let own = announcement(&transfer(None), &"00".repeat(64));
    let foreign = Transaction { version: wire_version(NetworkByte::MAINNET, 1), ..transfer(None) };
    let foreign = announcement(&foreign, &"00".repeat(64));
    let mut node = TestNode::default();
    let mut announce = |body: &str| {
        TestRequest::new("POST /transaction/announce").json(body).send_to_node(
            &mut Api::new(settings()),
            &scene,
            &mut node,
        )
    };
    assert_eq!(failure_in(&announce(&own)), (503, "NIS_ILLEGAL_STATE_NOT_BOOTED".to_owned()));
    assert!(text_of(&announce(&foreign)).contains("FAILURE_WRONG_NETWORK"));
    assert!(node.mempool.is_empty());
}

#[test]
fn a_transaction_is_signed_only_for_local_clients_and_no_response_shows_the_key() {
    let (scene, recipient) = (Scene::new(), address(2));
    let transaction = format!(
        r#"{{"type":257,"version":{},"timeStamp":3240,"signer":"{}","fee":50000,"deadline":3241,"recipient":"{recipient}","amount":7}}"#,
        wire_version(NETWORK, 1),
        pair().public()
    );
    let with_key = |key: &str| format!(r#"{{"transaction":{transaction},"privateKey":"{key}"}}"#);
    let (good, bad, blank) = (with_key(KEY), with_key(&KEY.replace("ec", "zz")), with_key(""));
    let sent = || TestRequest::new("POST /transaction/prepare-announce");
    let (status, message) = sent().json(&bad).status_and_error(&scene);
    assert!(status == 500 && message.ends_with("Illegal hexadecimal character z at index 0"), "{message}");
    assert!(!message.contains(&KEY[2..]), "{message}");
    assert_eq!(
        sent().json(&blank).status_and_error(&scene).1,
        "expected value for property privateKey, but none was found"
    );
    assert_eq!(
        sent().json("{}").status_and_error(&scene).1,
        "expected value for property transaction, but none was found"
    );
    assert_eq!(sent().json(&good).from([10, 0, 0, 1]).status_and_error(&scene).0, 401);

    // The confirmed state counts: at first the account has nothing, then enough.
    let prepared = TestRequest::new("POST /transaction/prepare").json(&transaction);
    assert_eq!(prepared.status_and_error(&scene), (400, "FAILURE_INSUFFICIENT_BALANCE".to_owned()));
    let balance = VestedBalance { height: 1, unvested: 0, vested: Amount::whole(1).0 };
    scene.put_account_of(address_of(&pair().public()), &Account { first_height: 1, balance, ..Account::default() });
    let mut node = TestNode::default();
    let reply = sent().json(&good).send_to_node(&mut Api::new(settings()), &scene, &mut node);
    assert_eq!(reply.status, 200);
    let signed = &node.mempool.in_fee_order()[0];
    assert_eq!(verify(&signed.signer, &signed.signed_bytes(), &signed.signature.unwrap()), Ok(true));
    let data = hex::encode(signed.signed_bytes());
    assert_eq!(prepared.status_and_body(&scene), (200, format!("{{\"data\":\"{data}\"}}\r\n")));
    assert_eq!(prepared.from([10, 0, 0, 1]).status_and_error(&scene).0, 401);
}

#[test]
fn a_local_route_rejects_remote_clients_before_it_reads_the_body() {
    let scene = Scene::new();
    let sent = TestRequest::new("POST /transaction/prepare/").json("{");
    let refused = sent.from([127, 0, 0, 2]).send(&scene);
    assert_eq!(refused.status, 401);
    let text = "\"remote 127.0.0.2 attempted to call local \\/transaction\\/prepare\\/\"";
    assert!(text_of(&refused).contains(text), "{}", text_of(&refused));
    assert_eq!(sent.status_and_error(&scene), (400, "JSON Object was expected".to_owned()));
    assert_eq!(TestRequest::new("OPTIONS /transaction/prepare").from([1; 4]).send(&scene).status, 200);
}

#[test]
fn accounts_are_unlocked_and_locked_by_their_keys() {
    let (scene, mut api, mut node) = (Scene::new(), Api::new(settings()), TestNode::default());
    scene.fund_address(address_of(&pair().public()));
    let accept = "application/json";
    let mut ask_with = |path: &str, key: &str| {
        let (line, body) = (format!("POST {path}"), format!("{{\"value\":\"{key}\"}}"));
        let reply = TestRequest::new(&line).json(&body).send_to_node(&mut api, &scene, &mut node);
        (reply.status, text_of(&reply), headers(&reply, "Content-Type").concat())
    };
    let (status, text, _) = ask_with("/account/unlock", "01");
    assert!(status == 400 && text.contains("\"FAILURE_UNKNOWN_ACCOUNT\""), "{text}");
    let mut ask = |path: &str| ask_with(path, KEY);
    let nothing = (200, String::new(), String::new());
    let word = |text: &str| (200, text.to_owned(), "text/plain;charset=iso-8859-1".to_owned());
    let info = |count| (200, format!("{{\"max-unlocked\":1,\"num-unlocked\":{count}}}\r\n"), accept.to_owned());
    assert_eq!(ask("/account/unlocked/info"), info(0));
    assert_eq!(ask("/local/account/isunlocked"), word("nope"));
    assert_eq!(ask("/account/unlock"), nothing);
    assert_eq!(ask("/local/account/isunlocked"), word("ok"));
    assert_eq!(ask("/account/unlocked/info"), info(1));
    assert_eq!(ask("/account/unlock"), nothing);
    let (status, text, _) = ask_with("/account/unlock", "01");
    assert!(status == 400 && text.contains("\"FAILURE_SERVER_LIMIT\""), "{text}");
    let mut ask = |path: &str| ask_with(path, KEY);
    assert_eq!(ask("/account/lock"), nothing);
    assert_eq!(ask("/account/lock"), nothing);
    assert_eq!(ask("/account/unlocked/info"), info(0));
}

#[test]
fn any_client_can_query_whether_an_address_is_unlocked() {
    let (scene, mut api, mut node) = (Scene::new(), Api::new(settings()), TestNode::default());
    node.unlock(&scene);
    let own = address_of(&pair().public());
    for (member, address, word) in [("account", own, "ok"), ("value", own, "ok"), ("account", address(2), "nope")] {
        let body = format!("{{\"{member}\":\"{address}\"}}");
        let sent = TestRequest::new("POST /account/isunlocked").json(&body).from([192, 0, 2, 1]);
        let reply = sent.send_to_node(&mut api, &scene, &mut node);
        assert_eq!((reply.status, text_of(&reply)), (200, word.to_owned()), "{body}");
    }
    let sent = TestRequest::new("POST /account/isunlocked");
    assert_eq!(sent.json("{\"value\":\"T\"}").status_and_error(&scene), (400, "address must be valid".to_owned()));
    assert_eq!(sent.json("{}").status_and_error(&scene).0, 500);
}

/// A chain on which the account of the key is a remote account, and its height.
fn with_remote() -> (Scene, Height) {
    let scene = Scene::new();
    scene.fund(3);
    scene.put_link(address_of(&pair().public()), LinkRole::Remote, LinkMode::Activate, 1);
    (scene, Height(100_000))
}

#[test]
fn a_private_key_is_accepted_only_from_authorised_clients() {
    let body = format!("{{\"value\":\"{KEY}\"}}");
    let own = address_of(&pair().public());
    let other = || Settings { allowed_harvesters: vec![address(5)], ..settings() };
    let this = || Settings { allowed_harvesters: vec![own], ..settings() };
    let foreign = format!("remote 10.0.0.1 attempted to call local /account/lock with non-remote address {own}");
    let blocked = format!("blocking private key request with non-configured address {own}");
    let (local, remote) = ([127, 0, 0, 1], [10, 0, 0, 1]);
    for (settings, peer, is_remote_account, rejection) in [
        (settings(), local, false, None),
        (settings(), remote, false, Some(foreign)),
        (settings(), remote, true, None),
        (other(), local, true, Some(blocked)),
        (this(), remote, true, None),
    ] {
        let (scene, height) = if is_remote_account { with_remote() } else { (Scene::new(), Height(1)) };
        let sent = TestRequest::new("POST /account/lock").json(&body).from(peer);
        let reply = sent.at_height(&mut Api::new(settings), &scene, &mut TestNode::default(), height);
        match rejection {
            Some(rejection) => assert_eq!(failure_in(&reply), (401, rejection)),
            None => assert_eq!((reply.status, reply.body.len()), (200, 0)),
        }
    }
}

#[test]
fn a_remote_client_unlocks_linked_accounts_and_gives_way_to_a_local_one() {
    let (mut api, mut node) = (Api::new(settings()), TestNode::default());
    let (own, second) = (address_of(&pair().public()), KeyPair::new(&PrivateKey::from_seed(&[1; 32])));
    let mut unlock = |(scene, height): &(Scene, Height), key: &str, from| {
        let body = format!("{{\"value\":\"{key}\"}}");
        let sent = TestRequest::new("POST /account/unlock").json(&body).from(from);
        let reply = sent.at_height(&mut api, scene, &mut node, *height);
        let result = if reply.status == 200 { "SUCCESS".to_owned() } else { failure_in(&reply).1 };
        (result, node.unlocked.contains(&own))
    };
    let (local, remote) = ([127, 0, 0, 1], [10, 0, 0, 1]);
    let ended = with_remote();
    ended.0.put_link(own, LinkRole::Remote, LinkMode::Deactivate, 1);
    assert_eq!(unlock(&ended, KEY, remote), ("FAILURE_HARVESTING_INELIGIBLE".to_owned(), false));
    let linked = with_remote();
    linked.0.fund_address(address_of(&second.public()));
    assert_eq!(unlock(&linked, KEY, remote), ("SUCCESS".to_owned(), true));
    assert_eq!(unlock(&linked, &"01".repeat(32), local), ("SUCCESS".to_owned(), false));
    assert_eq!(unlock(&linked, KEY, remote), ("FAILURE_SERVER_LIMIT".to_owned(), false));
}

#[test]
fn a_private_key_in_a_body_is_hex_of_any_length() {
    let scene = Scene::new();
    for (body, status) in [
        ("{\"value\":\"\"}", 200),
        ("{\"value\":\"1\"}", 200),
        ("{\"value\":\"zz\"}", 400),
        ("{\"value\":null}", 500),
        ("{\"value\":5}", 500),
    ] {
        assert_eq!(TestRequest::new("POST /account/lock").json(body).send(&scene).status, status, "{body}");
    }
}

/// Settings of a machine with the names `node.example` and `192.0.2.7`, with `10.0.0.7` as a local address and a
/// trusted origin.
fn named_host_settings() -> Settings {
    let mut local = LocalAddresses::default();
    for entry in ["127.*.*.*", "10.0.0.7"] {
        local.add_entry(entry).unwrap();
    }
    let host_names = vec!["node.example".to_owned(), "192.0.2.7".to_owned(), "2001:db8::7".to_owned()];
    let local_origins = vec!["http://localhost:3000".to_owned()];
    Settings { local, host_names, local_origins, ..settings() }
}

#[test]
fn a_request_with_a_foreign_host_or_origin_is_not_local() {
    let (scene, key_body) = (Scene::new(), format!("{{\"value\":\"{KEY}\"}}"));
    scene.fund_address(address_of(&pair().public()));
    let json = ("Content-Type", "application/json");
    for (host, origin, is_local) in [
        (None, None, true),
        (Some("localhost:7890"), None, true),
        (Some("LOCALHOST."), None, true),
        (Some("127.0.0.1:7890"), None, true),
        (Some("127.9.8.7"), None, true),
        (Some("[::1]:7890"), None, true),
        (Some("[::ffff:127.0.0.1]:7890"), None, true),
        (Some("10.0.0.7:7890"), None, true),
        (Some("192.0.2.7:7890"), None, true),
        (Some("[2001:db8:0::7]"), None, true),
        (Some("Node.Example:7890"), None, true),
        (Some("evil.example:7890"), None, false),
        (Some("192.0.2.8:7890"), None, false),
        (Some("localhost.evil.example"), None, false),
        (Some("[::2]:7890"), None, false),
        (Some("0.0.0.0:7890"), None, false),
        (Some(""), None, false),
        (Some("localhost:7890"), Some("http://localhost:7890"), true),
        (Some("LocalHost:7890"), Some("http://localhost:7890"), true),
        (Some("[::1]:7890"), Some("http://[::1]:7890"), true),
        (Some("node.example"), Some("http://node.example"), true),
        (Some("localhost:7890"), Some("http://localhost:3000"), true),
        (Some("localhost:7890"), Some("http://localhost:22080"), false),
        (Some("localhost:7890"), Some("http://localhost"), false),
        (Some("localhost:7890"), Some("https://localhost:7890"), false),
        (Some("localhost:7890"), Some("http://127.0.0.1:7890"), false),
        (Some("localhost:7890"), Some("http://[::1]:7890"), false),
        (Some("localhost:7890"), Some("https://node.example"), false),
        (Some("localhost:7890"), Some("http://192.0.2.7:7890"), false),
        (Some("localhost:7890"), Some("null"), false),
        (Some("localhost:7890"), Some("http://evil.example"), false),
        (Some("localhost:7890"), Some("http://10.0.0.7"), false),
        (Some("localhost:7890"), Some("file://"), false),
        (Some("localhost:7890"), Some("localhost"), false),
        (Some("localhost:7890"), Some(""), false),
        (Some("localhost:7890"), Some("http://localhost@evil.example"), false),
        (Some("evil.example"), Some("http://localhost"), false),
        (None, Some("http://evil.example"), false),
    ] {
        let host = host.map(|host| ("Host", host));
        let origin = origin.map(|origin| ("Origin", origin));
        let fields: Vec<_> = [json].into_iter().chain(host).chain(origin).collect();
        let prepare = TestRequest { body: b"{", ..TestRequest::new("POST /transaction/prepare").with(&fields) };
        let expected = if is_local {
            (400, "JSON Object was expected".to_owned())
        } else {
            (401, "remote 127.0.0.1 attempted to call local /transaction/prepare".to_owned())
        };
        let reply = prepare.send_to(&mut Api::new(named_host_settings()), &scene);
        assert_eq!(failure_in(&reply), expected, "{host:?} {origin:?}");
        // Any client may send the key of a remote account; only local clients may send others.
        let unlock =
            TestRequest { body: key_body.as_bytes(), ..TestRequest::new("POST /account/unlock").with(&fields) };
        let status = unlock.send_to(&mut Api::new(named_host_settings()), &scene).status;
        assert_eq!(status, if is_local { 200 } else { 401 }, "{host:?} {origin:?}");
        let (remote, height) = with_remote();
        let mut api = Api::new(named_host_settings());
        let status = unlock.at_height(&mut api, &remote, &mut TestNode::default(), height).status;
        assert_eq!(status, 200, "{host:?} {origin:?}");
    }
}

#[test]
fn every_host_and_origin_is_checked_and_a_forwarded_request_is_not_local() {
    let scene = Scene::new();
    let prepare = TestRequest { body: b"{", ..TestRequest::new("POST /transaction/prepare") };
    let json = ("Content-Type", "application/json");
    let twice = [json, ("Host", "localhost"), ("Origin", "http://localhost"), ("Origin", "http://evil.example")];
    assert_eq!(prepare.with(&twice[..3]).status_and_error(&scene).0, 400);
    assert_eq!(prepare.with(&twice).status_and_error(&scene).0, 401);
    let once = [json, ("Host", "localhost")];
    assert_eq!(prepare.with(&once).status_and_error(&scene).0, 400);
    let mut passed_on = prepare.with(&once);
    passed_on.client.is_forwarded = true;
    assert_eq!(passed_on.status_and_error(&scene).0, 401);
    assert_eq!(prepare.with(&once).from([10, 0, 0, 9]).status_and_error(&scene).0, 401);
}

#[test]
fn local_routes_are_open_only_to_pages_of_the_node_itself() {
    let scene = Scene::new();
    let (host, browser) = (("Host", "localhost:7890"), ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)"));
    let far = ("Host", "10.0.0.7:7890");
    let site = |site| ("Sec-Fetch-Site", site);
    let (own, other) = (("Referer", "http://localhost:7890/explorer"), ("Referer", "http://evil.example/page?a"));
    let named = ("Referer", "http://localhost:3000");
    let allowed: [&[(&str, &str)]; 9] = [
        &[],
        &[host],
        &[far],
        &[host, browser, site("none")],
        &[host, browser, site("same-origin"), own],
        &[host, browser, own],
        &[far, browser, ("Referer", "http://10.0.0.7:7890/explorer")],
        &[host, browser, site("same-site"), named],
        &[host, browser, site("same-site"), ("Origin", "http://localhost:3000")],
    ];
    let refused: [&[(&str, &str)]; 14] = [
        &[host, site("cross-site")],
        &[host, site("same-site")],
        &[host, site("same-origin"), site("cross-site")],
        &[host, site("")],
        // Redirected through another site.
        &[host, site("cross-site"), own],
        &[host, site("same-site"), ("Origin", "http://localhost:7890")],
        &[host, site("same-site"), named, ("Origin", "null")],
        &[host, other],
        &[host, ("Referer", "about:blank")],
        &[host, ("Referer", "http://localhost:7890.evil.example/")],
        &[host, ("Referer", "http://localhost:22080/")],
        // A page that suppresses its referrer, in a browser or at a host without `Sec-Fetch-Site`.
        &[host, browser],
        &[far, browser],
        &[("Host", "node.example"), browser],
    ];
    let closed: Vec<_> = ROUTES.iter().filter(|route| route.access != Access::Public).collect();
    assert!(closed.iter().any(|route| route.path == "/shutdown") && closed.len() > 10);
    for (requests, is_local) in [(&allowed[..], true), (&refused[..], false)] {
        for headers in requests {
            for route in &closed {
                let method = if route.method == Method::Get { "GET" } else { "POST" };
                let line = format!("{method} {}", route.path);
                let reply = TestRequest::new(&line).with(headers).send_to(&mut Api::new(named_host_settings()), &scene);
                assert_eq!(reply.status != 401, is_local, "{line} {headers:?}");
            }
        }
    }
}

#[test]
fn a_get_request_of_a_foreign_page_changes_nothing() {
    let scene = Scene::new();
    let is_changed =
        |node: &TestNode| !node.commands.is_empty() || !node.mempool.is_empty() || node.unlocked.count() > 0;
    for route in ROUTES.iter().filter(|route| route.method == Method::Get) {
        for method in ["GET", "HEAD"] {
            let mut node = TestNode::default();
            let page = [("Host", "localhost:7890"), ("Sec-Fetch-Site", "cross-site")];
            let line = format!("{method} {}", route.path);
            TestRequest::new(&line).with(&page).send_to_node(&mut Api::new(named_host_settings()), &scene, &mut node);
            assert!(!is_changed(&node), "{line}");
        }
    }
    let mut node = TestNode::default();
    TestRequest::new("GET /shutdown").send_to_node(&mut Api::new(named_host_settings()), &scene, &mut node);
    assert!(is_changed(&node));
}

#[test]
fn the_status_of_a_transaction_names_where_it_is_or_what_became_of_it() {
    let scene = Scene::new();
    let (mut api, mut node) = (Api::new(settings()), TestNode::default());
    let confirmed = multisig();
    let height = scene.add_block(Vec::new());
    let mut unfunded = acceptable(1);
    unfunded.signature = Some(pair().sign(&unfunded.signed_bytes()));
    let unconfirmed = multisig_with_cosignatures(7);
    node.mempool.add_unchecked(unconfirmed.clone(), NETWORK);
    let account = unconfirmed.inner().unwrap().signer_address(NETWORK);
    for one in std::iter::once(&unconfirmed).chain(unconfirmed.cosignatures()) {
        scene.put_cosignatory_of(account, one.signer_address(NETWORK));
    }
    let body = announcement(&unfunded, &hex::encode(unfunded.signature.unwrap().0));
    TestRequest::new("POST /transaction/announce").json(&body).send_to_node(&mut api, &scene, &mut node);
    let mut status = |hash: &str| {
        let line = format!("GET /transaction/status?hash={hash}");
        json(&TestRequest::new(&line).send_to_node(&mut api, &scene, &mut node))
    };
    for hash in [confirmed.hash(), confirmed.inner().unwrap().hash()] {
        let found = status(&hash.to_string());
        assert_eq!((&found["status"], &found["hash"]), (&"confirmed".into(), &hash.to_string().into()));
        assert_eq!(
            found["confirmations"].as_u64().zip(found["height"].as_u64()).map(|(a, b)| a + b),
            Some(height.0 + 1)
        );
        let block = scene.block(Height(found["height"].as_u64().unwrap()));
        assert_eq!(found["blockHash"], block.hash().to_string());
        assert_eq!(block.transactions[found["index"].as_u64().unwrap() as usize].hash(), confirmed.hash());
    }
    for hash in std::iter::once(unconfirmed.hash()).chain(unconfirmed.children().map(Transaction::hash)) {
        let found = status(&hash.to_string());
        assert_eq!(found["status"], "unconfirmed", "{found}");
        let signed = found["multisig"]["signed"].as_array().unwrap().len();
        assert_eq!(signed, 1 + unconfirmed.cosignatures().len());
    }
    let rejected = status(&unfunded.hash().to_string());
    assert_eq!(
        (&rejected["status"], &rejected["message"]),
        (&"rejected".into(), &"FAILURE_INSUFFICIENT_BALANCE".into())
    );
    assert_eq!((&rejected["code"], &rejected["since"]), (&5.into(), &NOW.network.0.into()));
    assert!(rejected["reason"].as_str().is_some_and(|reason| reason.starts_with("insufficient balance")), "{rejected}");
    let unknown = status(&"ab".repeat(32));
    assert_eq!((&unknown["status"], &unknown["knownSince"]), (&"unknown".into(), &NOW.network.0.into()));
    for (query, message) in [
        ("", "the parameter hash is missing"),
        ("?hash=ab", "hash must have 64 hex digits"),
        ("?hash=xyz", "hash must have 64 hex digits"),
        (&format!("?hash={}", &multisig().hash().to_string()[1..]), "hash must have 64 hex digits"),
    ] {
        let line = format!("GET /transaction/status{query}");
        assert_eq!(TestRequest::new(&line).status_and_error(&scene), (400, message.to_owned()));
    }
}

#[test]
fn a_batch_of_statuses_is_in_the_order_of_the_request_and_has_at_most_512() {
    let scene = Scene::new();
    let hashes = [multisig().hash().to_string(), "ab".repeat(32), multisig().hash().to_string()];
    let body = |hashes: &[String]| {
        let list: Vec<_> = hashes.iter().map(|hash| serde_json::json!({ "hash": hash })).collect();
        serde_json::json!({ "data": list }).to_string()
    };
    let sent = body(&hashes);
    let found = json(&TestRequest::new("POST /transaction/status/batch").json(&sent).send(&scene));
    let found: Vec<_> = found["data"].as_array().unwrap().iter().map(|one| (&one["hash"], &one["status"])).collect();
    let expected = ["confirmed", "unknown", "confirmed"].map(serde_json::Value::from);
    assert!(found.iter().map(|(_, status)| *status).eq(&expected), "{found:?}");
    assert!(found.iter().map(|(hash, _)| hash.as_str().unwrap()).eq(hashes.iter().map(String::as_str)));
    for (count, status) in [(512, 200), (513, 400)] {
        let sent = body(&vec!["cd".repeat(32); count]);
        assert_eq!(
            TestRequest::new("POST /transaction/status/batch").json(&sent).send(&scene).status,
            status,
            "{count}"
        );
    }
}

fn json(response: &Response) -> serde_json::Value {
    serde_json::from_slice(&response.body).unwrap_or_else(|_| panic!("{}", text_of(response)))
}

#[test]
fn a_client_at_an_own_address_of_this_machine_is_as_local_as_one_at_its_loopback_address() {
    let scene = Scene::new();
    let cookie = LocalCookie::new("http://192.0.2.9:7890", &[7; SECRET_BYTES]);
    let secret = format!("Bearer 192.0.2.9:7890.{}", "07".repeat(32));
    let (host, secret) = (("Host", "192.0.2.9:7890"), ("Authorization", secret.as_str()));
    let (proxy, page) = (("Via", "1.1 a"), ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)"));
    let (evil, origin) = (("Host", "evil.example:7890"), ("Origin", "http://evil.example"));
    let status = |line: &str, headers: &[(&str, &str)], needed: Option<&LocalCookie>, is_on_this_machine: bool| {
        let mut request = TestRequest::new(line).with(headers).from([192, 0, 2, 9]);
        request.client.is_on_this_machine = is_on_this_machine;
        request.client.is_forwarded = headers.contains(&proxy);
        let (cookie, needs_cookie) = (Some(cookie.clone()), needed.is_some());
        request.send_to(&mut Api::new(Settings { cookie, needs_cookie, ..settings() }), &scene).status
    };
    for (headers, with_cookie, by_address) in [
        (&[host][..], 401, 200),
        (&[host, secret], 200, 200),
        (&[host, secret, proxy], 401, 401),
        (&[host, proxy], 401, 401),
        (&[host, page], 401, 401),
        (&[host, origin], 401, 401),
        (&[evil], 401, 401),
        (&[evil, secret], 200, 200),
        (&[("Host", "192.0.2.8:7890")], 401, 401),
    ] {
        let local = |cookie, here| status("GET /local/peers", headers, cookie, here);
        assert_eq!((local(Some(&cookie), true), local(None, true)), (with_cookie, by_address), "{headers:?}");
        assert_eq!(status("GET /metrics", headers, Some(&cookie), true), by_address, "{headers:?}");
        // A client of the same network on another machine.
        assert_eq!((local(Some(&cookie), false), local(None, false)), (401, 401), "{headers:?}");
        assert_eq!(status("GET /metrics", headers, Some(&cookie), false), 401, "{headers:?}");
    }
}
