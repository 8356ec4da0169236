//! Tests of the form of responses: headers, formats, methods, path forms and errors.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use crate::api::routes::Method;
use crate::api::tests::*;
use crate::api::{Api, Features, NodeStatus, ROUTES, Settings, routes};
use crate::model::Height;
use crate::net::http::Response;
use crate::net::service::{ListenerId, Progress};
use crate::peer::wire::Challenge;

#[test]
fn every_application_response_has_the_common_headers() {
    let reply = TestRequest::new("GET /chain/height").send(&Scene::new());
    let expected = [
        ("Access-Control-Allow-Origin", "*"),
        ("Access-Control-Allow-Headers", "Content-Type"),
        ("Allow", "GET, HEAD, POST, OPTIONS"),
        ("Content-Type", "application/json"),
    ];
    let found: Vec<_> = reply.headers.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
    assert_eq!(found, expected);
    assert_eq!(reply.body, b"{\"height\":1}\r\n");
    assert!(reply.compress);
}

#[test]
fn the_height_route_reads_no_store_and_allocates_no_header() {
    let (mut scene, stopped) = (Scene::new(), Arc::new(AtomicBool::new(false)));
    scene.store.set_interrupt_flag(Arc::clone(&stopped));
    // Every read of the store fails from here on.
    stopped.store(true, Ordering::Relaxed);
    let reply = TestRequest::new("GET /chain/height").send(&scene);
    assert_eq!(reply.status, 200);
    let is_borrowed = |text: &Cow<'static, str>| matches!(text, Cow::Borrowed(_));
    assert!(reply.headers.iter().all(|(name, value)| is_borrowed(name) && is_borrowed(value)));
    let failed = TestRequest::new("GET /chain/last-block").status_and_error(&scene);
    assert_eq!(failed, (500, "the node's store failed".to_owned()));
}

#[test]
fn heartbeat_and_status_have_the_specified_bodies() {
    let scene = Scene::new();
    let expected = "{\"code\":1,\"type\":2,\"message\":\"ok\"}\r\n";
    assert_eq!(TestRequest::new("GET /heartbeat").status_and_body(&scene), (200, expected.to_owned()));
    let expected = "{\"code\":7,\"type\":4,\"message\":\"status\"}\r\n";
    assert_eq!(TestRequest::new("GET /status/").status_and_body(&scene), (200, expected.to_owned()));
}

#[test]
fn node_info_extended_info_and_network_time_have_the_specified_bodies() {
    let scene = Scene::new();
    let node = format!(
        r#"{{"metaData":{{"features":1,"application":null,"networkId":-104,"version":"0.6.102","platform":"p"}},"endpoint":{{"protocol":"http","port":7890,"host":"127.0.0.1"}},"identity":{{"name":"n\/","public-key":"{}"}}}}"#,
        key(1)
    );
    assert_eq!(TestRequest::new("GET /node/info").status_and_body(&scene), (200, format!("{node}\r\n")));
    let (status, info) = TestRequest::new("GET /node/extended-info").status_and_body(&scene);
    let version = env!("CARGO_PKG_VERSION");
    let program =
        format!(r#"{{"currentTime":3240,"application":"nisd","startTime":3000,"version":"{version}","signer":null}}"#);
    assert_eq!((status, info), (200, format!("{{\"node\":{node},\"nisInfo\":{program}}}\r\n")));
    let time = "{\"sendTimeStamp\":3240001,\"receiveTimeStamp\":3240001}\r\n".to_owned();
    assert_eq!(TestRequest::new("GET /time-sync/network-time").status_and_body(&scene), (200, time));
}

#[test]
fn a_node_that_is_not_booted_reports_its_time_but_no_identity() {
    let scene = Scene { status: NodeStatus::Running, ..Scene::new() };
    for line in ["GET /node/info", "GET /node/extended-info"] {
        assert_eq!(
            TestRequest::new(line).status_and_error(&scene),
            (503, "NIS_ILLEGAL_STATE_NOT_BOOTED".to_owned()),
            "{line}"
        );
    }
    assert_eq!(TestRequest::new("GET /time-sync/network-time").send(&scene).status, 200);
}

#[test]
fn while_the_store_is_rebuilt_every_route_but_a_few_answers_503_with_the_progress() {
    let scene = Scene { status: NodeStatus::Loading(Height(99)), ..Scene::new() };
    let (loading, mut open) = ("NIS_ILLEGAL_STATE_LOADING_CHAIN: the store is rebuilt, height 1 of 99", Vec::new());
    let mut api = Api::new(Settings { explorer: None, ..settings() });
    for route in ROUTES.iter() {
        let method = if route.method == Method::Get { "GET" } else { "POST" };
        let line = format!("{method} {}", route.path);
        let response = TestRequest::new(&line).send_to(&mut api, &scene);
        match response.status {
            503 => assert_eq!(failure_in(&response), (503, loading.to_owned()), "{line}"),
            _ => open.push(route.path),
        }
    }
    open.sort_unstable();
    assert_eq!(open, ["/chain/height", "/explorer", "/metrics", "/openapi.json", "/shutdown", "/status"]);
    let status = r#"{"code":8,"type":4,"message":"status"}"#;
    assert_eq!(TestRequest::new("GET /status").status_and_body(&scene), (200, format!("{status}\r\n")));
    assert_eq!(TestRequest::new("GET /chain/height").status_and_body(&scene).1, "{\"height\":1}\r\n");
    // As in NIS1, an unknown path is unknown, and local access is missing.
    assert_eq!(TestRequest::new("GET /unknown").send(&scene).status, 404);
    assert_eq!(TestRequest::new("GET /local/peers").from([8, 8, 8, 8]).send(&scene).status, 401);
}

#[test]
fn bad_parameters_get_their_specified_error_texts() {
    let scene = Scene::new();
    let decoder = "java.lang.IllegalArgumentException: org.apache.commons.codec.DecoderException";
    let bad_digit = format!("{decoder}: Illegal hexadecimal character z at index 0");
    for (line, status, message) in [
        ("GET /account/get", 400, "encoded address cannot be null"),
        ("GET /account/get?address=", 400, "address must be valid"),
        ("GET /account/get?address=%zz", 500, "400: Unable to parse URI query"),
        ("GET /account/get/from-public-key?publicKey=", 400, "publicKey must be in compressed form"),
        ("GET /account/get/from-public-key?publicKey=zz", 500, &bad_digit),
        ("GET /transaction/get?hash=zz", 500, &bad_digit),
    ] {
        assert_eq!(TestRequest::new(line).status_and_error(&scene), (status, message.to_owned()), "{line}");
    }
    assert_eq!(TestRequest::new("GET /transaction/get").status_and_error(&scene).0, 500);
    assert_eq!(TestRequest::new("GET /account/get/from-public-key").status_and_error(&scene).0, 500);
    assert_eq!(TestRequest::new("GET /chain/height?%zz").send(&scene).status, 200);
}

#[test]
fn bad_bodies_get_their_specified_error_texts() {
    let scene = Scene::new();
    let block_at = || TestRequest::new("POST /block/at/public");
    for (body, status, message) in [
        ("", 500, "Required request body is missing: "),
        ("{", 400, "JSON Object was expected"),
        ("[1]", 400, "JSON Object was expected"),
        ("null", 400, "JSON Object was expected"),
        ("\u{feff}{\"height\":1}", 400, "JSON Object was expected"),
        ("{}", 500, "expected value for property height, but none was found"),
        ("{\"height\":\"1\"}", 500, "property height has an incompatible value"),
        ("{\"height\":1.0}", 500, "property height has an incompatible value"),
        ("{\"height\":0}", 400, "height must be positive"),
    ] {
        assert_eq!(block_at().json(body).status_and_error(&scene), (status, message.to_owned()), "{body}");
    }
    let plain = TestRequest { body: b"{}", ..block_at().with(&[("Content-Type", "text/plain")]) };
    assert_eq!(plain.status_and_error(&scene), (500, "Content type 'text/plain' not supported".to_owned()));
    let binary = [("Content-Type", "application/binary")];
    let height = 1u64.to_le_bytes();
    assert_eq!(TestRequest { body: &height, ..block_at().with(&binary) }.send(&scene).status, 200);
    let cut = TestRequest { body: &height[..3], ..block_at().with(&binary) };
    assert_eq!(cut.status_and_error(&scene), (500, "unexpected end of stream reached".to_owned()));
}

#[test]
fn binary_responses_hold_the_specified_fields() {
    let (scene, binary) = (Scene::new(), [("Accept", "application/binary")]);
    let reply = TestRequest::new("GET /chain/height").with(&binary).send(&scene);
    assert_eq!(headers(&reply, "Content-Type"), ["application/binary"]);
    assert_eq!(reply.body, 1u64.to_le_bytes());
    let error = TestRequest::new("GET /account/get?address=x").with(&binary).send(&scene);
    assert_eq!(error.status, 400);
    let mut expected = hex::decode("900100000b000000").unwrap();
    expected.extend(b"Bad Request\x15\0\0\0address must be valid");
    expected.extend(3240i32.to_le_bytes());
    assert_eq!(error.body, expected);
}

#[test]
fn a_client_that_accepts_neither_format_gets_a_json_error() {
    let (scene, html) = (Scene::new(), [("Accept", "text/html")]);
    for (line, status) in
        [("GET /chain/height", 406), ("GET /chain/last-block", 406), ("GET /account/get?address=x", 500)]
    {
        let sent = TestRequest::new(line).with(&html);
        assert_eq!(sent.status_and_error(&scene), (status, "null".to_owned()));
        assert_eq!(headers(&sent.send(&scene), "Cache-Control"), ["must-revalidate,no-cache,no-store"]);
    }
}

#[test]
fn methods_are_answered_as_specified() {
    let scene = Scene::new();
    for line in ["PUT /chain/height", "get /chain/height", "HEAD /block/at/public", "GET /block/at/public"] {
        let method = line.split(' ').next().unwrap();
        let text = format!("Request method '{method}' not supported");
        assert_eq!(TestRequest::new(line).status_and_error(&scene), (500, text));
    }
    for line in ["PUT /nosuch", "OPTIONS /nosuch", "FOO /nosuch"] {
        let reply = TestRequest::new(line).send(&scene);
        assert_eq!((reply.status, reply.body.len(), headers(&reply, "Content-Type").len()), (404, 0, 0), "{line}");
    }
    for line in ["GET /nosuch", "HEAD /nosuch", "POST /nosuch", "GET /", "GET /Chain/height"] {
        assert_eq!(TestRequest::new(line).status_and_error(&scene), (404, "null".to_owned()), "{line}");
    }
    assert_eq!(TestRequest::new("HEAD /chain/height").send(&scene).status, 200);
}

#[test]
fn options_lists_the_methods_unless_it_is_a_preflight() {
    let scene = Scene::new();
    for (path, methods) in
        [("/chain/height", "POST,GET,HEAD"), ("/heartbeat", "GET,HEAD"), ("/block/at/public", "POST")]
    {
        let line = format!("OPTIONS {path}");
        let reply = TestRequest::new(&line).send(&scene);
        assert_eq!((reply.status, reply.body.len()), (200, 0));
        assert_eq!(headers(&reply, "Allow"), ["GET, HEAD, POST, OPTIONS", methods]);
        let preflight = [("Origin", "http://wallet.example"), ("Access-Control-Request-Method", "POST")];
        let reply = TestRequest::new(&line).with(&preflight).send(&scene);
        assert_eq!(headers(&reply, "Allow"), ["GET, HEAD, POST, OPTIONS"]);
        assert!(headers(&reply, "Content-Type").is_empty());
        assert_eq!(headers(&reply, "Access-Control-Allow-Headers"), ["Content-Type"]);
    }
    // A page that reads a stream with fetch resumes it with a header.
    let preflight = [("Origin", "http://shop.example"), ("Access-Control-Request-Method", "GET")];
    let reply = TestRequest::new("OPTIONS /events").with(&preflight).send(&scene);
    assert_eq!(headers(&reply, "Access-Control-Allow-Headers"), ["Content-Type", "Last-Event-ID"]);
    // The routes that NIS1 does not have say it once.
    let own: Vec<_> = routes::ROUTES.iter().filter(|route| route.is_own).map(|route| route.path).collect();
    assert!(own.len() > 10, "{own:?}");
    for path in own {
        let reply = TestRequest::new(&format!("OPTIONS {path}")).send(&scene);
        let methods = if path == "/events" {
            "POST,GET,HEAD"
        } else if path.ends_with("batch") {
            "POST"
        } else {
            "GET,HEAD"
        };
        assert_eq!(headers(&reply, "Allow"), [methods], "{path}");
    }
}

#[test]
fn exotic_spellings_reach_their_route() {
    let scene = Scene::new();
    for line in ["GET //chain//height", "GET /chain%2Fheight", "GET /chain/height;a=b", "GET /chain/height.foo"] {
        assert_eq!(TestRequest::new(line).send(&scene).status, 200, "{line}");
    }
    assert_eq!(TestRequest::new("GET /chain/height.xml").send(&scene).status, 406);
    let rejected = TestRequest::new("GET /chain/height%").send(&scene);
    assert_eq!((rejected.status, rejected.close, headers(&rejected, "Allow").len()), (400, true, 0));
}

#[test]
fn a_path_outside_the_context_is_unknown() {
    let (mut api, scene) = (Api::new(Settings { context_path: "/nis".to_owned(), ..settings() }), Scene::new());
    for (line, status) in [
        ("GET /nis/chain/height", 200),
        ("GET /nis//chain/height/", 200),
        ("GET /chain/height", 404),
        ("GET /nis", 404),
        ("GET /nischain/height", 404),
        ("GET /nischain;/height", 404),
    ] {
        assert_eq!(TestRequest::new(line).send_to(&mut api, &scene).status, status, "{line}");
    }
    assert!(needs_mempool(&api, "POST", "/nis/transaction/announce"));
    assert!(!needs_mempool(&api, "POST", "/transaction/announce"));
}

fn needs_mempool(api: &Api, method: &str, path: &str) -> bool {
    routes::by_id(api.route(ListenerId(0), method, path).id).is_some_and(|route| route.needs_mempool)
}

#[test]
fn routes_that_need_the_mempool_are_recognised_in_every_path_spelling() {
    let api = Api::new(settings());
    for path in [
        "/transaction/announce",
        "/transaction/announce/",
        "/transaction//announce",
        "/transaction/%61nnounce;a=b",
        "/transaction/announce.json",
        "/transaction/prepare-announce",
    ] {
        assert!(needs_mempool(&api, "POST", path), "{path}");
        let status = path.replace("announce", "status").replace("%61nnounce", "%73tatus");
        assert_eq!(needs_mempool(&api, "GET", &status), !path.contains("prepare"), "{status}");
    }
    for (method, path) in [
        ("GET", "/transaction/announce"),
        ("POST", "/transaction/prepare"),
        ("GET", "/chain/height"),
        ("POST", "/nosuch"),
        ("GET", "/%"),
    ] {
        assert!(!needs_mempool(&api, method, path), "{path}");
    }
}

#[test]
fn large_bodies_are_allowed_only_for_transactions_and_batches() {
    let api = Api::new(settings());
    for (path, limit) in [
        ("/transaction/announce", 65_536),
        ("/transaction/prepare", 65_536),
        ("/transaction/prepare-announce/", 65_536),
        ("/account/mosaic/owned/definition/batch", 65_536),
        ("/block/at/public", 8192),
        ("/account/unlock", 8192),
        ("/nosuch", 8192),
        ("/%", 8192),
    ] {
        assert_eq!(api.route(ListenerId(0), "POST", path).body_limit, limit, "{path}");
    }
    assert_eq!(api.route(ListenerId(0), "GET", "/transaction/announce").body_limit, 8192);
}

#[test]
fn a_rate_limited_client_is_rejected_without_the_common_headers() {
    let rejected = TestRequest { is_rate_limited: true, ..TestRequest::new("GET /nosuch") }.send(&Scene::new());
    let expected = "{\"timeStamp\":3240,\"error\":\"Too Many Requests\",\"message\":null,\"status\":429}\r\n";
    assert_eq!((rejected.status, rejected.body.as_slice()), (429, expected.as_bytes()));
    assert_eq!(headers(&rejected, "DoSFilter"), ["unavailable"]);
    assert!(headers(&rejected, "Access-Control-Allow-Origin").is_empty());
}

#[test]
fn a_failure_before_routing_is_an_internal_server_error() {
    let mut reply = Response { body: b"left over".to_vec(), status: 200, ..Response::new() };
    Api::new(settings()).fail_unhandled(&mut reply, NOW.network);
    assert_eq!(failure_in(&reply), (500, "null".to_owned()));
    assert_eq!(headers(&reply, "Access-Control-Allow-Origin"), ["*"]);
}

#[test]
fn lookup_by_hash_can_be_switched_off() {
    let mut api = Api::new(Settings { features: Features::default(), ..settings() });
    for line in ["GET /transaction/get", "GET /transaction/get?hash=zz"] {
        let body = text_of(&TestRequest::new(line).send_to(&mut api, &Scene::new()));
        assert!(body.contains("this node does not support transaction lookup using a hash"), "{body}");
    }
}

#[test]
fn peers_get_signed_responses_from_a_booted_node() {
    let scene = Scene::new();
    let missing = "expected value for property data, but none was found".to_owned();
    assert_eq!(TestRequest::new("POST /chain/last-block").json("{}").status_and_error(&scene), (500, missing));
    let signature = Challenge([7; 64]).sign(&TestNode::default().keys).to_string();
    let challenge = format!("{{\"data\":\"{CHALLENGE}\"}}");
    for (line, entity) in [
        ("POST /chain/height", r#"{"height":1}"#),
        ("POST /chain/score", r#"{"score":"00"}"#),
        ("POST /node/peer-list/active", r#"{"data":[]}"#),
    ] {
        let expected = format!("{{\"signature\":\"{signature}\",\"entity\":{entity}}}\r\n");
        assert_eq!(TestRequest::new(line).json(&challenge).status_and_body(&scene), (200, expected), "{line}");
        let unbooted = Scene { status: NodeStatus::Running, ..Scene::new() };
        let rejected = (503, "NIS_ILLEGAL_STATE_NOT_BOOTED".to_owned());
        assert_eq!(TestRequest::new(line).json(&challenge).status_and_error(&unbooted), rejected, "{line}");
        let short = format!("{{\"data\":\"{}\"}}", &CHALLENGE[..64]);
        let unsigned = format!("{{\"signature\":\"{}\",\"entity\":{entity}}}\r\n", "00".repeat(64));
        assert_eq!(TestRequest::new(line).json(&short).status_and_body(&scene), (200, unsigned), "{line}");
        let long = format!("{{\"data\":\"{}\"}}", "07".repeat(1_025));
        let (status, message) = TestRequest::new(line).json(&long).status_and_error(&scene);
        assert_eq!((status, &message[..26]), (400, "challenge must be 64 bytes"), "{line}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_request_is_answered_and_a_json_error_contains_its_status(
        method in "GET|HEAD|POST|OPTIONS|PUT|[!-~]{0,6}",
        path in "(/chain/height|/block/at/public|/transaction/(announce|prepare)|/account/get|/transaction/get)?[/;.%a-f0-9\\PC]{0,6}",
        query in "(address|hash|publicKey)?=?[%+&=a-f0-9\\PC]{0,20}",
        accept in "(application/(json|binary|\\*)|\\*/\\*)?[;,=q.0-9 a-z/]{0,12}",
        content_type in "(application/(json|binary))?[;=a-z/]{0,12}",
        body in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        thread_local!(static SCENE: Scene = Scene::new());
        let line = format!("{method} {path}?{query}");
        let fields = [("Accept", accept.as_str()), ("Content-Type", &content_type)];
        let sent = TestRequest { body: &body, ..TestRequest::new(&line).with(&fields) }.from([10, 0, 0, 1]);
        let (mut api, mut reply, mut node) = (Api::new(settings()), Response::new(), TestNode::default());
        let step = SCENE.with(|scene| sent.step(&mut api, scene, &mut node, &mut reply, false, PLENTY));
        // The request reader rejects malformed requests before this point.
        let Some((taken, _)) = step else { return Ok(()) };
        prop_assert_eq!(taken, Progress::Done);
        let is_json = headers(&reply, "Content-Type").iter().any(|kind| kind.starts_with("application/json"));
        if is_json {
            let value: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
            prop_assert!(reply.body.ends_with(b"\r\n"));
            prop_assert!(reply.status == 200 || value["status"] == reply.status);
        }
    }
}
