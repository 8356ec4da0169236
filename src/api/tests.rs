//! The interface as a whole, over a chain held in memory.

use std::cell::Cell;
use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::codec::Context;
use crate::crypto::{PublicKey, Signature};
use crate::model::transaction::{Multisig, Transfer, kind, wire_version};
use crate::model::{
    Address, Amount, Block, BlockKind, Body, Hash256, Height, MosaicDefinition, MosaicId, NetworkByte, Transaction,
    WireHash,
};

const NETWORK: NetworkByte = NetworkByte::TESTNET;
const NOW: Now = Now { network: Timestamp(3240), monotonic_millis: 5000 };

struct FakeLedger {
    blocks: Vec<Block>,
    is_loading: bool,
    /// How often anything but the height was read.
    reads: Cell<u32>,
}

impl Ledger for FakeLedger {
    fn height(&self) -> Result<Height, Failure> {
        Ok(Height(self.blocks.len() as u64))
    }

    fn is_loading(&self) -> bool {
        self.is_loading
    }

    fn node_status(&self) -> NodeStatus {
        NodeStatus::NoRemoteNode
    }

    fn block(&self, height: Height) -> Result<Option<Block>, Failure> {
        self.reads.set(self.reads.get() + 1);
        Ok(self.blocks.iter().find(|block| block.height == height).cloned())
    }

    fn transaction(&self, hash: &Hash256) -> Result<TransactionLookup, Failure> {
        for block in &self.blocks {
            for (index, transaction) in block.transactions.iter().enumerate() {
                if transaction.hash() == *hash {
                    let (transaction, height) = (transaction.clone(), block.height);
                    let found = FoundTransaction { transaction, height, id: index as u64 + 1 };
                    return Ok(TransactionLookup::Found(Box::new(found)));
                }
                if transaction.inner().is_some_and(|inner| inner.hash() == *hash) {
                    return Ok(TransactionLookup::Nested);
                }
            }
        }
        Ok(TransactionLookup::Unknown)
    }

    fn account(&self, address: &Address) -> Result<AccountInfo, Failure> {
        self.reads.set(self.reads.get() + 1);
        Ok(account(*address))
    }

    fn account_meta(&self, _: &Address) -> Result<AccountMeta, Failure> {
        let multisig = Some(MultisigInfo { cosignatories: 3, min_cosignatories: 2 });
        let other = AccountInfo { importance: 1.2345e-4, multisig, ..account(address_of(&key(9))) };
        let remote_status = RemoteStatus::Inactive;
        Ok(AccountMeta { unlocked: false, remote_status, cosignatory_of: vec![other], cosignatories: Vec::new() })
    }

    fn mosaic_definition(&self, _: &MosaicId) -> Result<Option<MosaicDefinition>, Failure> {
        Ok(None)
    }
}

fn account(address: Address) -> AccountInfo {
    AccountInfo {
        address,
        public_key: None,
        balance: Amount(5),
        vested_balance: Amount(4),
        harvested_blocks: 3,
        importance: 0.0,
        multisig: None,
    }
}

fn key(byte: u8) -> PublicKey {
    PublicKey([byte; 32])
}

fn address_of(key: &PublicKey) -> Address {
    Address::from_public_key(key, NETWORK)
}

fn transfer(signature: Option<Signature>) -> Transaction {
    let body = Transfer { recipient: address_of(&key(2)), amount: Amount(7), message: None, mosaics: Vec::new() };
    transaction(signature, Body::Transfer(body))
}

fn transaction(signature: Option<Signature>, body: Body) -> Transaction {
    Transaction {
        version: wire_version(NETWORK, 1),
        timestamp: Timestamp(100),
        signer: key(1),
        signature,
        fee: Amount(8),
        deadline: Timestamp(200),
        body,
    }
}

fn ledger() -> FakeLedger {
    let signature = Some(Signature([3; 64]));
    let multisig = Multisig { inner: transfer(None), cosignatures: Vec::new() };
    let transactions = vec![
        transaction(signature, Body::Multisig(Box::new(multisig))),
        Transaction { timestamp: Timestamp(101), ..transfer(signature) },
    ];
    let block = Block {
        kind: BlockKind::Regular,
        version: wire_version(NETWORK, 1),
        timestamp: Timestamp(3),
        signer: key(1),
        signature,
        previous_hash: WireHash::from(Hash256([5; 32])),
        height: Height(1),
        transactions,
    };
    FakeLedger { blocks: vec![block], is_loading: false, reads: Cell::new(0) }
}

fn settings() -> Settings {
    let features = Features { transaction_hash_lookup: true, ..Features::default() };
    let context = Context { network: NETWORK, nemesis_signer: address_of(&key(99)), trusted: false };
    let is_local = Box::new(|peer| peer == IpAddr::from([127, 0, 0, 1]));
    Settings { context, features, limits_rate: true, is_local }
}

struct Pairs<'a>(&'a [(&'a str, &'a str)]);

impl Headers for Pairs<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

/// A request line like `GET /chain/height?a=b`, with headers and a body.
struct Sent<'a> {
    line: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: &'a [u8],
    peer: [u8; 4],
}

impl<'a> Sent<'a> {
    fn new(line: &'a str) -> Sent<'a> {
        Sent { line, headers: &[], body: b"", peer: [127, 0, 0, 1] }
    }

    fn with(self, headers: &'a [(&'a str, &'a str)]) -> Sent<'a> {
        Sent { headers, ..self }
    }

    fn json(self, body: &'a str) -> Sent<'a> {
        Sent { headers: &[("Content-Type", "application/json")], body: body.as_bytes(), ..self }
    }

    fn to(&self, api: &mut Api, ledger: &FakeLedger) -> Answer {
        let (method, target) = self.line.split_once(' ').unwrap();
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let headers = &Pairs(self.headers);
        let request = Request { method, path, query, body: self.body, peer: IpAddr::from(self.peer), headers };
        let mut answer = Answer { body: b"left over".to_vec(), ..Answer::default() };
        api.answer(&request, ledger, NOW, &mut answer);
        answer
    }

    fn answer(&self) -> Answer {
        self.to(&mut Api::new(settings()), &ledger())
    }

    /// Status and body.
    fn says(&self) -> (u16, String) {
        let answer = self.answer();
        (answer.status, String::from_utf8(answer.body).unwrap())
    }

    /// Status and message of an error.
    fn fails(&self) -> (u16, String) {
        let (status, body) = self.says();
        let error: serde_json::Value = serde_json::from_str(&body).expect(&body);
        assert_eq!(error["status"], status);
        assert_eq!(error["timeStamp"], 3240);
        (status, error["message"].as_str().unwrap_or("null").to_owned())
    }
}

fn headers<'a>(answer: &'a Answer, name: &str) -> Vec<&'a str> {
    answer.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_ref()).collect()
}

#[test]
fn every_answer_of_the_application_has_the_common_headers() {
    let answer = Sent::new("GET /chain/height").answer();
    let expected = [
        ("Access-Control-Allow-Origin", "*"),
        ("Access-Control-Allow-Headers", "Content-Type"),
        ("Allow", "GET, HEAD, POST, OPTIONS"),
        ("Content-Type", "application/json"),
    ];
    let found: Vec<_> = answer.headers.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
    assert_eq!(found, expected);
    assert_eq!(answer.body, b"{\"height\":1}\r\n");
}

#[test]
fn the_height_reads_nothing_else_and_allocates_no_header() {
    let (mut api, ledger) = (Api::new(settings()), ledger());
    let answer = Sent::new("GET /chain/height").to(&mut api, &ledger);
    assert_eq!(ledger.reads.get(), 0);
    let is_borrowed = |text: &std::borrow::Cow<'static, str>| matches!(text, std::borrow::Cow::Borrowed(_));
    assert!(answer.headers.iter().all(|(name, value)| is_borrowed(name) && is_borrowed(value)));
}

#[test]
fn signs_of_life() {
    let expected = "{\"code\":1,\"type\":2,\"message\":\"ok\"}\r\n";
    assert_eq!(Sent::new("GET /heartbeat").says(), (200, expected.to_owned()));
    let expected = "{\"code\":7,\"type\":4,\"message\":\"status\"}\r\n";
    assert_eq!(Sent::new("GET /status/").says(), (200, expected.to_owned()));
}

#[test]
fn a_block_is_shown_by_height_and_as_the_last_one() {
    let (status, block) = Sent::new("GET /chain/last-block").says();
    assert_eq!(status, 200);
    assert!(block.starts_with(r#"{"timeStamp":3,"signature":"0303"#), "{block}");
    assert!(block.ends_with("\"height\":1}\r\n"), "{block}");
    assert_eq!(Sent::new("POST /block/at/public").json("{'height':1}").says(), (200, block));
    let missing = Sent::new("POST /block/at/public").json("{\"height\":2}").fails();
    assert_eq!(missing, (404, "block not found in the db '2' (org.nem.core.model.Block)".to_owned()));
}

#[test]
fn an_account_is_shown_by_address_and_by_key() {
    let address = address_of(&key(1));
    let other = address_of(&key(9));
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
    assert_eq!(Sent::new(&line).says(), (200, with_key("null")));
    let line = format!("GET /account/get/from-public-key?publicKey={}", key(1));
    assert_eq!(Sent::new(&line).says(), (200, with_key(&format!("\"{}\"", key(1)))));
}

#[test]
fn a_transaction_is_shown_with_its_meta_data() {
    let ledger = ledger();
    let [multisig, plain] = ledger.blocks[0].transactions.as_slice() else { panic!() };
    let (hash, inner) = (multisig.hash(), multisig.inner().unwrap().hash());
    let (_, body) = Sent::new(&format!("GET /transaction/get?hash={hash}")).says();
    let meta = format!(r#"{{"meta":{{"innerHash":{{"data":"{inner}"}},"id":1,"hash":{{"data":"{hash}"}},"height":1}}"#);
    assert!(body.starts_with(&meta), "{body}");
    assert!(body.contains(&format!("\"type\":{}", kind::MULTISIG)));
    let (_, body) = Sent::new(&format!("GET /transaction/get?hash={}", plain.hash())).says();
    assert!(body.starts_with(r#"{"meta":{"innerHash":{},"id":2,"#), "{body}");

    let nested = Sent::new(&format!("GET /transaction/get?hash={inner}")).fails();
    let text = format!("transaction not found in the db '{inner}' (class org.nem.core.crypto.Ha");
    assert_eq!((nested.0, nested.1.len(), nested.1), (404, 128, text));
    for unknown in ["ab", "", &"0".repeat(64)] {
        let failure = Sent::new(&format!("GET /transaction/get?hash={unknown}")).fails();
        assert_eq!(failure, (400, "Hash was not found in cache".to_owned()));
    }
}

#[test]
fn bad_parameters_have_their_texts() {
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
        assert_eq!(Sent::new(line).fails(), (status, message.to_owned()), "{line}");
    }
    assert_eq!(Sent::new("GET /transaction/get").fails().0, 500);
    assert_eq!(Sent::new("GET /account/get/from-public-key").fails().0, 500);
    assert_eq!(Sent::new("GET /chain/height?%zz").answer().status, 200);
}

#[test]
fn bad_bodies_have_their_texts() {
    let block_at = || Sent::new("POST /block/at/public");
    for (body, status, message) in [
        ("", 500, "Required request body is missing"),
        ("{", 400, "JSON Object was expected"),
        ("[1]", 400, "JSON Object was expected"),
        ("null", 400, "JSON Object was expected"),
        ("\u{feff}{\"height\":1}", 400, "JSON Object was expected"),
        ("{}", 500, "expected value for property height, but none was found"),
        ("{\"height\":\"1\"}", 500, "property height has an incompatible value"),
        ("{\"height\":1.0}", 500, "property height has an incompatible value"),
        ("{\"height\":0}", 400, "height must be positive"),
    ] {
        assert_eq!(block_at().json(body).fails(), (status, message.to_owned()), "{body}");
    }
    let plain = Sent { body: b"{}", ..block_at().with(&[("Content-Type", "text/plain")]) };
    assert_eq!(plain.fails(), (500, "Content type 'text/plain' not supported".to_owned()));
    let binary = [("Content-Type", "application/binary")];
    let height = 1u64.to_le_bytes();
    assert_eq!(Sent { body: &height, ..block_at().with(&binary) }.answer().status, 200);
    let cut = Sent { body: &height[..3], ..block_at().with(&binary) };
    assert_eq!(cut.fails(), (500, "unexpected end of stream reached".to_owned()));
}

#[test]
fn binary_answers_hold_the_same_fields() {
    let binary = [("Accept", "application/binary")];
    let answer = Sent::new("GET /chain/height").with(&binary).answer();
    assert_eq!(headers(&answer, "Content-Type"), ["application/binary"]);
    assert_eq!(answer.body, 1u64.to_le_bytes());
    let error = Sent::new("GET /account/get?address=x").with(&binary).answer();
    assert_eq!(error.status, 400);
    let mut expected = hex::decode("900100000b000000").unwrap();
    expected.extend(b"Bad Request\x15\0\0\0address must be valid");
    expected.extend(3240i32.to_le_bytes());
    assert_eq!(error.body, expected);
}

#[test]
fn a_client_that_takes_neither_format_is_told_so_in_json() {
    let html = [("Accept", "text/html")];
    for (line, status) in [("GET /chain/height", 406), ("GET /account/get?address=x", 500)] {
        let sent = Sent::new(line).with(&html);
        assert_eq!(sent.fails(), (status, "null".to_owned()));
        assert_eq!(headers(&sent.answer(), "Cache-Control"), ["must-revalidate,no-cache,no-store"]);
    }
}

#[test]
fn methods_are_answered_as_specified() {
    for line in ["PUT /chain/height", "get /chain/height", "HEAD /block/at/public", "GET /block/at/public"] {
        let method = line.split(' ').next().unwrap();
        let text = format!("Request method '{method}' not supported");
        assert_eq!(Sent::new(line).fails(), (500, text));
    }
    for line in ["PUT /nosuch", "OPTIONS /nosuch", "FOO /nosuch"] {
        let answer = Sent::new(line).answer();
        assert_eq!((answer.status, answer.body.len(), headers(&answer, "Content-Type").len()), (404, 0, 0), "{line}");
    }
    for line in ["GET /nosuch", "HEAD /nosuch", "POST /nosuch", "GET /", "GET /Chain/height"] {
        assert_eq!(Sent::new(line).fails(), (404, "null".to_owned()), "{line}");
    }
    assert_eq!(Sent::new("HEAD /chain/height").answer().status, 200);
}

#[test]
fn options_lists_the_methods_unless_it_is_a_preflight() {
    for (path, methods) in
        [("/chain/height", "GET,HEAD,POST"), ("/heartbeat", "GET,HEAD"), ("/block/at/public", "POST")]
    {
        let line = format!("OPTIONS {path}");
        let answer = Sent::new(&line).answer();
        assert_eq!((answer.status, answer.body.len()), (200, 0));
        assert_eq!(headers(&answer, "Allow"), ["GET, HEAD, POST, OPTIONS", methods]);
        let preflight = [("Origin", "http://wallet.example"), ("Access-Control-Request-Method", "POST")];
        let answer = Sent::new(&line).with(&preflight).answer();
        assert_eq!(headers(&answer, "Allow"), ["GET, HEAD, POST, OPTIONS"]);
        assert!(headers(&answer, "Content-Type").is_empty());
    }
}

#[test]
fn exotic_spellings_reach_their_route() {
    for line in ["GET //chain//height", "GET /chain%2Fheight", "GET /chain/height;a=b", "GET /chain/height.foo"] {
        assert_eq!(Sent::new(line).answer().status, 200, "{line}");
    }
    assert_eq!(Sent::new("GET /chain/height.xml").answer().status, 406);
    let refused = Sent::new("GET /chain/height%").answer();
    assert_eq!((refused.status, refused.close, headers(&refused, "Allow").len()), (400, true, 0));
}

#[test]
fn only_status_and_height_answer_while_the_chain_is_loaded() {
    let loading = FakeLedger { is_loading: true, ..ledger() };
    let mut api = Api::new(settings());
    for (line, status) in [
        ("GET /chain/height", 200),
        ("GET /chain/height/", 503),
        ("GET /heartbeat", 503),
        ("OPTIONS /heartbeat", 503),
        ("PUT /heartbeat", 500),
        ("GET /nosuch", 404),
    ] {
        assert_eq!(Sent::new(line).to(&mut api, &loading).status, status, "{line}");
    }
    let answer = Sent::new("GET /status").to(&mut api, &loading);
    assert_eq!(answer.body, b"{\"code\":8,\"type\":4,\"message\":\"status\"}\r\n");
    assert_eq!(loading.reads.get(), 0);
}

#[test]
fn a_local_route_is_refused_to_others_before_anything_else_is_looked_at() {
    const ROUTES: &[Route] = &[route::get("/secret", |call| call.send(&Height(1))).local()];
    let mut api = Api::with_routes(settings(), ROUTES);
    let loading = FakeLedger { is_loading: true, ..ledger() };
    let answer = Sent { peer: [127, 0, 0, 2], ..Sent::new("GET /secret/") }.to(&mut api, &loading);
    let body = String::from_utf8(answer.body).unwrap();
    assert_eq!(answer.status, 401);
    assert!(body.contains("\"remote 127.0.0.2 attempted to call local \\/secret\\/\""), "{body}");
    assert_eq!(Sent::new("GET /secret").to(&mut api, &ledger()).status, 200);
    assert_eq!(Sent { peer: [1; 4], ..Sent::new("OPTIONS /secret") }.to(&mut api, &ledger()).status, 200);
}

#[test]
fn a_caller_that_sends_too_fast_is_refused_without_the_common_headers() {
    let (mut api, ledger) = (Api::new(settings()), ledger());
    let foreign = Sent { peer: [127, 0, 0, 2], ..Sent::new("GET /nosuch") };
    for _ in 0..rate_limit::MAX_REQUESTS {
        assert_eq!(foreign.to(&mut api, &ledger).status, 404);
    }
    let refused = foreign.to(&mut api, &ledger);
    let expected = "{\"timeStamp\":3240,\"error\":\"Too Many Requests\",\"message\":null,\"status\":429}\r\n";
    assert_eq!((refused.status, refused.body.as_slice()), (429, expected.as_bytes()));
    assert_eq!(headers(&refused, "DoSFilter"), ["unavailable"]);
    assert!(headers(&refused, "Access-Control-Allow-Origin").is_empty());
    let unlimited = Settings { limits_rate: false, ..settings() };
    let mut api = Api::new(unlimited);
    for _ in 0..=rate_limit::MAX_REQUESTS {
        assert_eq!(foreign.to(&mut api, &ledger).status, 404);
    }
}

#[test]
fn lookup_by_hash_can_be_switched_off() {
    let mut api = Api::new(Settings { features: Features::default(), ..settings() });
    for line in ["GET /transaction/get", "GET /transaction/get?hash=zz"] {
        let answer = Sent::new(line).to(&mut api, &ledger());
        let body = String::from_utf8(answer.body).unwrap();
        assert!(body.contains("this node does not support transaction lookup using a hash"), "{body}");
    }
}

#[test]
fn routes_of_other_nodes_answer_as_if_the_network_were_not_joined() {
    let sent = Sent::new("POST /chain/height");
    assert_eq!(sent.json("{\"data\":\"00\"}").fails(), (503, "NIS_ILLEGAL_STATE_NOT_BOOTED".to_owned()));
    let missing = "expected value for property data, but none was found".to_owned();
    assert_eq!(Sent::new("POST /chain/last-block").json("{}").fails(), (500, missing));
}

proptest! {
    #[test]
    fn any_request_is_answered_and_an_error_of_the_application_says_its_status(
        method in "GET|HEAD|POST|OPTIONS|PUT|[!-~]{0,6}",
        path in "(/chain/height|/block/at/public|/account/get|/transaction/get)?[/;.%a-f0-9\\PC]{0,6}",
        query in "(address|hash|publicKey)?=?[%+&=a-f0-9\\PC]{0,20}",
        accept in "(application/(json|binary|\\*)|\\*/\\*)?[;,=q.0-9 a-z/]{0,12}",
        content_type in "(application/(json|binary))?[;=a-z/]{0,12}",
        body in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let headers = [("Accept", accept.as_str()), ("Content-Type", &content_type)];
        let headers = &Pairs(&headers);
        let (peer, query) = (IpAddr::from([10, 0, 0, 1]), Some(query.as_str()));
        let request = Request { method: &method, path: &path, query, body: &body, peer, headers };
        let mut answer = Answer::default();
        Api::new(settings()).answer(&request, &ledger(), NOW, &mut answer);
        let is_json = super::tests::headers(&answer, "Content-Type").iter().any(|kind| kind.starts_with("application/json"));
        if is_json {
            let value: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            prop_assert!(answer.body.ends_with(b"\r\n"));
            prop_assert!(answer.status == 200 || value["status"] == answer.status);
        }
    }
}
