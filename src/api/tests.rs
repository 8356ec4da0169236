//! The interface as a whole, over a chain held in memory.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::codec::Context;
use crate::crypto::{KeyPair, PrivateKey, PublicKey, Signature, verify};
use crate::model::mosaic::LevyKind;
use crate::model::transaction::{ImportanceTransfer, LinkMode, Multisig, Transfer, kind, wire_version};
use crate::model::{
    Address, Amount, Block, BlockKind, Body, Hash256, Height, Levy, Mosaic, MosaicDefinition, MosaicId,
    MosaicProperties, NamespaceId, NetworkByte, Transaction, WireHash,
};
use crate::rules::ValidationResult;

const NETWORK: NetworkByte = NetworkByte::TESTNET;
const NOW: Now = Now { network: Timestamp(3240), network_millis: 3_240_001, monotonic_millis: 5000 };

struct FakeLedger {
    blocks: Vec<Block>,
    is_loading: bool,
    remote_status: RemoteStatus,
    status: NodeStatus,
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
        self.status
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
        let remote_status = self.remote_status;
        Ok(AccountMeta { unlocked: false, remote_status, cosignatory_of: vec![other], cosignatories: Vec::new() })
    }

    fn mosaic_definition(&self, id: &MosaicId) -> Result<Option<MosaicDefinition>, Failure> {
        let mosaic = MosaicId::parse("a:paid").unwrap();
        let levy = Levy { kind: LevyKind::Absolute, recipient: address_of(&key(2)), mosaic, fee: 3 };
        Ok(Some(definition(id, (id.name() == "b").then_some(levy))))
    }
}

/// The namespace `a`, rented by the account that is asked for, and the mosaic `a:b`. What a list holds tells the page
/// that was asked for.
impl Catalogue for FakeLedger {
    fn is_active(&self, name: &NamespaceId) -> Result<bool, Failure> {
        Ok(name.as_str() == "a")
    }

    fn namespace(&self, name: &NamespaceId) -> Result<Option<Namespace>, Failure> {
        Ok(self.is_active(name)?.then(|| rented(name, address_of(&key(1)), 7)))
    }

    fn root_namespaces(&self, page: Page) -> Result<Vec<Numbered<Namespace>>, Failure> {
        let name = NamespaceId::parse("a").unwrap();
        Ok(vec![Numbered { id: page.before, item: rented(&name, address_of(&key(1)), page.size as u64) }])
    }

    fn namespaces_of(
        &self,
        owner: &Address,
        parent: Option<&NamespaceId>,
        provisions: usize,
    ) -> Result<Vec<Namespace>, Failure> {
        let name = NamespaceId::parse(&parent.map_or("a".to_owned(), |parent| format!("{parent}.x"))).unwrap();
        Ok(vec![rented(&name, *owner, provisions as u64)])
    }

    fn definition(&self, id: &MosaicId) -> Result<Option<MosaicDefinition>, Failure> {
        Ok((id.name() == "b").then(|| definition(id, None)))
    }

    fn definitions(&self, of: Definitions<'_>, page: Page) -> Result<Vec<Numbered<MosaicDefinition>>, Failure> {
        let mut item = definition(&MosaicId::parse("a:b").unwrap(), None);
        item.description = format!("{of:?} {}", page.size);
        Ok(vec![Numbered { id: page.before, item }])
    }

    fn supply(&self, id: &MosaicId) -> Result<Option<u64>, Failure> {
        Ok((id.name() == "b").then_some(9))
    }

    fn mosaics_of(&self, account: &Address) -> Result<Vec<Mosaic>, Failure> {
        let own =
            (*account == address_of(&key(1))).then(|| Mosaic { id: MosaicId::parse("a:b").unwrap(), quantity: 5 });
        Ok(std::iter::once(Mosaic { id: MosaicId::xem(), quantity: 4 }).chain(own).collect())
    }
}

fn rented(name: &NamespaceId, owner: Address, height: u64) -> Namespace {
    Namespace { name: name.clone(), owner, height: Height(height) }
}

fn definition(id: &MosaicId, levy: Option<Levy>) -> MosaicDefinition {
    let properties = MosaicProperties { divisibility: 1, initial_supply: 9, supply_mutable: true, transferable: false };
    MosaicDefinition { creator: key(1), id: id.clone(), description: "d/".to_owned(), properties, levy }
}

/// A node that keeps what it is told and answers what it is set to.
struct FakeDesk {
    result: Result<ValidationResult, Failure>,
    announced: Vec<Transaction>,
    waiting: Vec<Rc<Transaction>>,
    unlocked: Vec<Address>,
}

impl Desk for FakeDesk {
    fn announce(&mut self, transaction: Transaction) -> Result<ValidationResult, Failure> {
        self.announced.push(transaction);
        self.result.clone()
    }

    fn prepare(&self, _: &Transaction) -> Result<ValidationResult, Failure> {
        self.result.clone()
    }

    fn unconfirmed(&self, _: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, Failure> {
        Ok(self.waiting.iter().take(limit).cloned().collect())
    }

    fn unlock(&mut self, pair: KeyPair) -> Result<(), Failure> {
        match self.unlocked.len() {
            0 => self.unlocked.push(address_of(&pair.public())),
            _ => return Err(UnlockRefusal::ServerLimit.into()),
        }
        Ok(())
    }

    fn lock(&mut self, address: &Address) {
        self.unlocked.retain(|one| one != address);
    }

    fn is_unlocked(&self, address: &Address) -> bool {
        self.unlocked.contains(address)
    }

    fn unlocked_info(&self) -> UnlockedInfo {
        UnlockedInfo { max: 1, count: self.unlocked.len() as i32 }
    }
}

fn desk(result: ValidationResult) -> FakeDesk {
    FakeDesk { result: Ok(result), announced: Vec::new(), waiting: Vec::new(), unlocked: Vec::new() }
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
    let (remote_status, status) = (RemoteStatus::Inactive, NodeStatus::NoRemoteNode);
    FakeLedger { blocks: vec![block], is_loading: false, remote_status, status, reads: Cell::new(0) }
}

fn settings() -> Settings {
    let features = Features { transaction_hash_lookup: true, ..Features::default() };
    let context = Context { network: NETWORK, nemesis_signer: address_of(&key(99)), trusted: false };
    let is_local = Box::new(|peer| peer == IpAddr::from([127, 0, 0, 1]));
    let node = NodeDescription {
        public_key: key(1),
        name: "n/".to_owned(),
        protocol: "http",
        host: "127.0.0.1".to_owned(),
        port: 7890,
        platform: "p".to_owned(),
        features: features.bits(),
        network: NETWORK,
        started: Timestamp(3000),
    };
    Settings { context, features, node, limits_rate: true, is_local, allowed_harvesters: Vec::new() }
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
        self.at(api, ledger, &mut desk(ValidationResult::Success))
    }

    fn at(&self, api: &mut Api, ledger: &FakeLedger, desk: &mut FakeDesk) -> Answer {
        let mut answer = Answer { body: b"left over".to_vec(), ..Answer::default() };
        self.read(|request| api.answer(request, ledger, desk, NOW, &mut answer));
        answer
    }

    /// Hands the request to somebody.
    fn read<T>(&self, reader: impl FnOnce(&Request<'_>) -> T) -> T {
        let (method, target) = self.line.split_once(' ').unwrap();
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let headers = &Pairs(self.headers);
        reader(&Request { method, path, query, body: self.body, peer: IpAddr::from(self.peer), headers })
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
        failure_in(&self.answer())
    }
}

/// Status and message of an error.
fn failure_in(answer: &Answer) -> (u16, String) {
    let (status, body) = (answer.status, text_of(answer));
    let error: serde_json::Value = serde_json::from_str(&body).expect(&body);
    assert_eq!(error["status"], status);
    assert_eq!(error["timeStamp"], 3240);
    (status, error["message"].as_str().unwrap_or("null").to_owned())
}

fn text_of(answer: &Answer) -> String {
    String::from_utf8(answer.body.clone()).unwrap()
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

const DEFINITION: &str = r#""id":{"namespaceId":"a","name":"b"},"properties":[{"name":"divisibility","value":"1"},{"name":"initialSupply","value":"9"},{"name":"supplyMutable","value":"true"},{"name":"transferable","value":"false"}]"#;

#[test]
fn the_node_tells_of_itself_and_its_time() {
    let node = format!(
        r#"{{"metaData":{{"features":1,"application":null,"networkId":-104,"version":"0.6.102","platform":"p"}},"endpoint":{{"protocol":"http","port":7890,"host":"127.0.0.1"}},"identity":{{"name":"n\/","public-key":"{}"}}}}"#,
        key(1)
    );
    assert_eq!(Sent::new("GET /node/info").says(), (200, format!("{node}\r\n")));
    let (status, info) = Sent::new("GET /node/extended-info").says();
    let version = env!("CARGO_PKG_VERSION");
    let program =
        format!(r#"{{"currentTime":3240,"application":"nisd","startTime":3000,"version":"{version}","signer":null}}"#);
    assert_eq!((status, info), (200, format!("{{\"node\":{node},\"nisInfo\":{program}}}\r\n")));
    let time = "{\"sendTimeStamp\":3240001,\"receiveTimeStamp\":3240001}\r\n".to_owned();
    assert_eq!(Sent::new("GET /time-sync/network-time").says(), (200, time));
}

#[test]
fn a_node_without_network_has_its_time_but_is_nobody() {
    let (mut api, ledger) = (Api::new(settings()), FakeLedger { status: NodeStatus::Running, ..ledger() });
    for line in ["GET /node/info", "GET /node/extended-info"] {
        let refusal = failure_in(&Sent::new(line).to(&mut api, &ledger));
        assert_eq!(refusal, (503, "NIS_ILLEGAL_STATE_NOT_BOOTED".to_owned()), "{line}");
    }
    assert_eq!(Sent::new("GET /time-sync/network-time").to(&mut api, &ledger).status, 200);
}

#[test]
fn a_page_begins_below_a_number_and_has_five_to_a_hundred_entries() {
    let owner = address_of(&key(1));
    for (query, id, size) in [
        ("", -1, 25),
        ("?id=7", 7, 25),
        ("?id=-7&pageSize=6", 0, 6),
        ("?id=%2B7&pageSize=4", 7, 5),
        ("?id=0&pageSize=-32768", 0, 5),
        ("?id=9223372036854775807&pageSize=32767", i64::MAX, 100),
    ] {
        let namespace = format!(r#"{{"owner":"{owner}","fqn":"a","height":{size}}}"#);
        let page = format!("{{\"data\":[{{\"meta\":{{\"id\":{id}}},\"namespace\":{namespace}}}]}}\r\n");
        assert_eq!(Sent::new(&format!("GET /namespace/root/page{query}")).says(), (200, page), "{query}");
    }
    for (query, text) in [
        ("id=", "For input string: \"\""),
        ("id=undefined&pageSize=x", "For input string: \"undefined\""),
        ("id=9223372036854775808", "For input string: \"9223372036854775808\""),
        ("pageSize=32768", "Value out of range. Value:\"32768\" Radix:10"),
        ("pageSize=2147483648", "For input string: \"2147483648\""),
    ] {
        let failure = Sent::new(&format!("GET /namespace/root/page?{query}")).fails();
        assert_eq!(failure, (400, text.to_owned()), "{query}");
    }
}

#[test]
fn a_namespace_is_shown_if_it_is_active() {
    let owner = address_of(&key(1));
    let shown = |name: &str, height: u8| format!(r#"{{"owner":"{owner}","fqn":"{name}","height":{height}}}"#);
    assert_eq!(Sent::new("GET /namespace/?namespace=a").says(), (200, shown("a", 7) + "\r\n"));
    let missing = "invalid namespace 'b' (org.nem.core.model.namespace.Namespace)".to_owned();
    assert_eq!(Sent::new("GET /namespace?namespace=b").fails(), (404, missing));
    let malformed = "'A' is not a valid namespace id part.".to_owned();
    assert_eq!(Sent::new("GET /namespace?namespace=A").fails(), (400, malformed.clone()));
    assert_eq!(Sent::new("GET /namespace").fails().0, 500);
    let page = |query: &str| Sent::new(&format!("GET /account/namespace/page?address={owner}{query}")).says();
    let listed = |name: &str, height: u8| (200, format!("{{\"data\":[{}]}}\r\n", shown(name, height)));
    assert_eq!(page("&parent="), listed("a", 25));
    assert_eq!(page("&parent=a.b&id=3&pageSize=100"), listed("a.b.x", 100));
    let failure = Sent::new(&format!("GET /account/namespace/page?address={owner}&parent=A&id=x")).fails();
    assert_eq!(failure, (400, malformed));
}

#[test]
fn a_definition_is_shown_by_mosaic_and_in_lists() {
    let creator = key(1);
    let shown = |text: &str| format!(r#"{{"creator":"{creator}","description":"{text}",{DEFINITION},"levy":{{}}}}"#);
    assert_eq!(Sent::new("GET /mosaic/definition?mosaicId=a:b").says(), (200, shown("d\\/") + "\r\n"));
    assert_eq!(Sent::new("GET /mosaic/definition?mosaicId=expired:b").fails().0, 404);
    assert_eq!(Sent::new("GET /mosaic/definition/last?mosaicId=expired:b").says().0, 200);
    let missing = "invalid mosaic definition 'a:c' (org.nem.core.model.mosaic.MosaicDefinition)".to_owned();
    assert_eq!(Sent::new("GET /mosaic/definition/last?mosaicId=a:c").fails(), (404, missing));
    let address = address_of(&creator);
    for (line, text) in [
        ("/mosaic/definition/page?id=8&pageSize=9", "All 9".to_owned()),
        ("/namespace/mosaic/definition/page?namespace=a&id=8", "In(a) 25".to_owned()),
    ] {
        let expected = format!("{{\"data\":[{{\"meta\":{{\"id\":8}},\"mosaic\":{}}}]}}\r\n", shown(&text));
        assert_eq!(Sent::new(&format!("GET {line}")).says(), (200, expected));
    }
    let nothing = "{\"data\":[]}\r\n".to_owned();
    assert_eq!(Sent::new("GET /namespace/mosaic/definition/page?namespace=b&id=x").says(), (200, nothing));
    let line = format!("GET /account/mosaic/definition/page?address={address}&parent=a");
    let expected = format!("{{\"data\":[{}]}}\r\n", shown(&format!("By({address:?}, Some(a)) 25")));
    assert_eq!(Sent::new(&line).says(), (200, expected));
}

#[test]
fn what_an_account_owns_comes_with_the_mosaics_of_its_levies() {
    let (rich, poor) = (address_of(&key(1)), address_of(&key(2)));
    let xem = r#"{"quantity":4,"mosaicId":{"namespaceId":"nem","name":"xem"}}"#;
    let other = r#"{"quantity":5,"mosaicId":{"namespaceId":"a","name":"b"}}"#;
    let line = format!("GET /account/mosaic/owned?address={rich}");
    assert_eq!(Sent::new(&line).says(), (200, format!("{{\"data\":[{xem},{other}]}}\r\n")));
    let names = |answer: &Answer| {
        let body: serde_json::Value = serde_json::from_str(&text_of(answer)).unwrap();
        let name = |one: &serde_json::Value| one["id"]["name"].as_str().unwrap().to_owned();
        body["data"].as_array().unwrap().iter().map(name).collect::<Vec<_>>()
    };
    let line = format!("GET /account/mosaic/owned/definition?address={rich}");
    assert_eq!(names(&Sent::new(&line).answer()), ["b", "paid", "xem"]);
    let body =
        format!("{{\"data\":[{{\"account\":\"{poor}\"}},{{\"account\":\"{rich}\"}},{{\"account\":\"{poor}\"}}]}}");
    let batch = |body: &str| Sent::new("POST /account/mosaic/owned/definition/batch").json(body).answer();
    assert_eq!(names(&batch(&body)), ["b", "paid", "xem"]);
    assert_eq!(text_of(&batch(r#"{"data":[]}"#)), "{\"data\":[]}\r\n");
    let refused = failure_in(&batch(r#"{"data":[{"account":"BAD"}]}"#));
    assert_eq!(refused, (400, "address must be valid".to_owned()));
}

#[test]
fn the_supply_of_a_mosaic_is_told_if_the_state_knows_it() {
    let supply = "{\"mosaicId\":{\"namespaceId\":\"a\",\"name\":\"b\"},\"supply\":9}\r\n".to_owned();
    assert_eq!(Sent::new("GET /mosaic/supply?mosaicId=a%3Ab").says(), (200, supply));
    let unknown = "mosaic id a:c is unknown 'a:c' (org.nem.core.model.ncc.MosaicIdSupplyPair)".to_owned();
    assert_eq!(Sent::new("GET /mosaic/supply?mosaicId=a:c").fails(), (404, unknown));
    let malformed = "pattern 'A:b' could not be parsed".to_owned();
    assert_eq!(Sent::new("GET /mosaic/supply?mosaicId=A:b").fails(), (400, malformed));
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
fn what_goes_into_the_pool_is_known_however_its_path_is_spelt() {
    let api = Api::new(settings());
    let into_the_pool = |line: &'static str| Sent::new(line).read(|request| api.is_into_the_pool(request));
    for line in [
        "POST /transaction/announce",
        "POST /transaction/announce/",
        "POST /transaction//announce",
        "POST /transaction/%61nnounce;a=b",
        "POST /transaction/announce.json",
        "POST /transaction/prepare-announce",
    ] {
        assert!(into_the_pool(line), "{line}");
    }
    for line in
        ["GET /transaction/announce", "POST /transaction/prepare", "GET /chain/height", "POST /nosuch", "GET /%"]
    {
        assert!(!into_the_pool(line), "{line}");
    }
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

/// A private key and its pair.
const KEY: &str = "ec323551f22cf49eeeca6fa9ed7177305a200c74e4492cd9a7b24a528277b1aa";

fn pair() -> KeyPair {
    KeyPair::new(&PrivateKey::from_hex(KEY).unwrap())
}

fn announcement(transaction: &Transaction, signature: &str) -> String {
    format!(r#"{{"data":"{}","signature":"{signature}"}}"#, hex::encode(transaction.signed_bytes()))
}

#[test]
fn an_announced_transaction_reaches_the_pool_with_its_signature_and_its_result_is_a_success_in_any_case() {
    let multisig = ledger().blocks[0].transactions[0].clone();
    let (hash, inner) = (multisig.hash(), multisig.inner().unwrap().hash());
    let body = announcement(&multisig, &"AB".repeat(64));
    let mut desk = desk(ValidationResult::FailurePastDeadline);
    let sent = Sent::new("POST /transaction/announce").json(&body);
    let answer = sent.at(&mut Api::new(settings()), &ledger(), &mut desk);
    let expected = format!(
        "{{\"innerTransactionHash\":{{\"data\":\"{inner}\"}},\"code\":3,\"type\":1,\
         \"message\":\"FAILURE_PAST_DEADLINE\",\"transactionHash\":{{\"data\":\"{hash}\"}}}}\r\n"
    );
    assert_eq!((answer.status, text_of(&answer)), (200, expected));
    let signed = Transaction { signature: Some(Signature([0xab; 64])), ..multisig };
    assert_eq!(desk.announced, [signed]);
}

#[test]
fn an_announcement_in_binary_is_answered_in_binary() {
    let transaction = transfer(None);
    let field = |bytes: &[u8]| [(bytes.len() as u32).to_le_bytes().as_slice(), bytes].concat();
    let body = [field(&transaction.signed_bytes()), field(&[1; 64])].concat();
    let headers = [("Content-Type", "application/binary"), ("Accept", "application/binary")];
    let answer = Sent { body: &body, ..Sent::new("POST /transaction/announce").with(&headers) }.answer();
    let result = [1i32.to_le_bytes().as_slice(), &1i32.to_le_bytes(), &field(b"SUCCESS"), &[0; 4]].concat();
    let hash = field(&field(&transaction.hash().0));
    assert_eq!((answer.status, answer.body), (200, [result, hash].concat()));
}

#[test]
fn bad_announcements_have_their_texts() {
    let good = announcement(&transfer(None), &"00".repeat(64));
    let short = announcement(&transfer(None), "00");
    let missing = |name| format!("expected value for property {name}, but none was found");
    for (body, status, message) in [
        ("{}", 500, missing("data")),
        ("{\"data\":\"\"}", 500, missing("signature")),
        ("{\"data\":\"\",\"signature\":\"\"}", 500, missing("type")),
        ("{\"data\":\"00000000\",\"signature\":\"\"}", 400, "Unknown transaction type: 0".to_owned()),
        (&short, 400, "binary signature representation must be 64 bytes".to_owned()),
    ] {
        assert_eq!(Sent::new("POST /transaction/announce").json(body).fails(), (status, message), "{body}");
    }
    for (failure, status) in [(Failure::NOT_BOOTED, 503), (Failure::argument("x"), 400)] {
        let mut desk = FakeDesk { result: Err(failure), ..desk(ValidationResult::Success) };
        let answer =
            Sent::new("POST /transaction/announce").json(&good).at(&mut Api::new(settings()), &ledger(), &mut desk);
        assert_eq!(answer.status, status);
    }
}

#[test]
fn a_transaction_is_signed_for_local_callers_only_and_no_answer_shows_the_key() {
    let recipient = address_of(&key(2));
    let transaction = format!(
        r#"{{"type":257,"version":{},"timeStamp":1,"signer":"{}","fee":8,"deadline":9,"recipient":"{recipient}","amount":7}}"#,
        wire_version(NETWORK, 1),
        pair().public()
    );
    let with_key = |key: &str| format!(r#"{{"transaction":{transaction},"privateKey":"{key}"}}"#);
    let (good, bad, blank) = (with_key(KEY), with_key(&KEY.replace("ec", "zz")), with_key(""));
    let sent = || Sent::new("POST /transaction/prepare-announce");
    let mut desk = desk(ValidationResult::Success);
    let answer = sent().json(&good).at(&mut Api::new(settings()), &ledger(), &mut desk);
    assert_eq!(answer.status, 200);
    let signed = &desk.announced[0];
    assert_eq!(verify(&signed.signer, &signed.signed_bytes(), &signed.signature.unwrap()), Ok(true));

    let (status, message) = sent().json(&bad).fails();
    assert!(status == 500 && message.ends_with("Illegal hexadecimal character z at index 0"), "{message}");
    assert!(!message.contains(&KEY[2..]), "{message}");
    assert_eq!(sent().json(&blank).fails().1, "expected value for property privateKey, but none was found");
    assert_eq!(sent().json("{}").fails().1, "expected value for property transaction, but none was found");
    assert_eq!(Sent { peer: [10, 0, 0, 1], ..sent().json(&good) }.fails().0, 401);

    let prepared = Sent::new("POST /transaction/prepare").json(&transaction);
    let data = hex::encode(signed.signed_bytes());
    assert_eq!(prepared.says(), (200, format!("{{\"data\":\"{data}\"}}\r\n")));
    let mut refusing = self::desk(ValidationResult::FailureInsufficientFee);
    let answer = prepared.at(&mut Api::new(settings()), &ledger(), &mut refusing);
    assert_eq!(failure_in(&answer), (400, "FAILURE_INSUFFICIENT_FEE".to_owned()));
    assert_eq!(Sent { peer: [10, 0, 0, 1], ..prepared }.fails().0, 401);
}

#[test]
fn at_most_25_unconfirmed_transactions_are_shown_with_what_is_to_be_cosigned() {
    let multisig = ledger().blocks[0].transactions[0].clone();
    let inner = multisig.inner().unwrap().hash();
    let mut desk = desk(ValidationResult::Success);
    let transfer = Rc::new(transfer(Some(Signature([3; 64]))));
    desk.waiting = std::iter::repeat_n(transfer, 30).collect();
    desk.waiting.insert(0, Rc::new(multisig));
    let line = format!("GET /account/unconfirmedTransactions?address={}", address_of(&key(1)));
    let answer = Sent::new(&line).at(&mut Api::new(settings()), &ledger(), &mut desk);
    let text = text_of(&answer);
    assert!(text.starts_with(&format!(r#"{{"data":[{{"meta":{{"data":"{inner}"}},"transaction":{{"timeStamp":100,"#)));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let data = value["data"].as_array().unwrap();
    assert_eq!((data.len(), &data[24]["meta"]["data"]), (25, &serde_json::Value::Null));
    assert_eq!(Sent::new("GET /account/unconfirmedTransactions").fails().0, 400);
}

#[test]
fn a_waiting_importance_transfer_shows_in_the_status_of_its_account() {
    let body = ImportanceTransfer { mode: LinkMode::Activate, remote: key(4) };
    let waiting = Rc::new(transaction(None, Body::ImportanceTransfer(body)));
    let mut desk = desk(ValidationResult::Success);
    desk.waiting = vec![waiting];
    let line = format!("GET /account/get?address={}", address_of(&key(1)));
    for (status, shown) in [
        (RemoteStatus::Inactive, Some("ACTIVATING")),
        (RemoteStatus::Active, Some("DEACTIVATING")),
        (RemoteStatus::Activating, None),
        (RemoteStatus::Deactivating, None),
        (RemoteStatus::Remote, None),
    ] {
        let ledger = FakeLedger { remote_status: status, ..ledger() };
        let answer = Sent::new(&line).at(&mut Api::new(settings()), &ledger, &mut desk);
        match shown {
            Some(shown) => assert!(text_of(&answer).contains(&format!("\"remoteStatus\":\"{shown}\"")), "{shown}"),
            None => {
                let text = "unexpected remote state for account with pending importance transfer";
                assert_eq!(failure_in(&answer), (500, text.to_owned()));
            }
        }
    }
}

#[test]
fn accounts_are_unlocked_and_locked_by_their_keys() {
    let (mut api, mut desk) = (Api::new(settings()), desk(ValidationResult::Success));
    let (body, accept) = (format!("{{\"value\":\"{KEY}\"}}"), "application/json");
    let mut ask = |path: &str| {
        let line = format!("POST {path}");
        let answer = Sent::new(&line).json(&body).at(&mut api, &ledger(), &mut desk);
        (answer.status, text_of(&answer), headers(&answer, "Content-Type").concat())
    };
    let nothing = (200, String::new(), String::new());
    let word = |text: &str| (200, text.to_owned(), "text/plain;charset=iso-8859-1".to_owned());
    let info = |count| (200, format!("{{\"max-unlocked\":1,\"num-unlocked\":{count}}}\r\n"), accept.to_owned());
    assert_eq!(ask("/account/unlocked/info"), info(0));
    assert_eq!(ask("/local/account/isunlocked"), word("nope"));
    assert_eq!(ask("/account/unlock"), nothing);
    assert_eq!(ask("/local/account/isunlocked"), word("ok"));
    assert_eq!(ask("/account/unlocked/info"), info(1));
    let (status, text, _) = ask("/account/unlock");
    assert!(status == 400 && text.contains("\"FAILURE_SERVER_LIMIT\""), "{text}");
    assert_eq!(ask("/account/lock"), nothing);
    assert_eq!(ask("/account/lock"), nothing);
    assert_eq!(ask("/account/unlocked/info"), info(0));
    let (status, text, _) = ask("/account/isunlocked");
    assert!(status == 500 && text.contains("'application\\/json;charset=UTF-8' not supported"), "{text}");
}

#[test]
fn only_who_may_send_a_private_key_can() {
    let body = format!("{{\"value\":\"{KEY}\"}}");
    let address = address_of(&pair().public());
    let other = Settings { allowed_harvesters: vec![address_of(&key(5))], ..settings() };
    let this = Settings { allowed_harvesters: vec![address], ..settings() };
    let foreign = format!("remote 10.0.0.1 attempted to call local /account/lock with non-remote address {address}");
    let blocked = format!("blocking private key request with non-configured address {address}");
    let (local, remote) = ([127, 0, 0, 1], [10, 0, 0, 1]);
    for (settings, peer, remote_status, refusal) in [
        (settings(), local, RemoteStatus::Inactive, None),
        (settings(), remote, RemoteStatus::Inactive, Some(foreign)),
        (settings(), remote, RemoteStatus::Remote, None),
        (other, local, RemoteStatus::Remote, Some(blocked)),
        (this, remote, RemoteStatus::Remote, None),
    ] {
        let ledger = FakeLedger { remote_status, ..ledger() };
        let sent = Sent { peer, ..Sent::new("POST /account/lock").json(&body) };
        let answer = sent.to(&mut Api::new(settings), &ledger);
        match refusal {
            Some(refusal) => assert_eq!(failure_in(&answer), (401, refusal)),
            None => assert_eq!((answer.status, answer.body.len()), (200, 0)),
        }
    }
}

#[test]
fn a_private_key_in_a_body_is_hex_of_any_length() {
    for (body, status) in [
        ("{\"value\":\"\"}", 200),
        ("{\"value\":\"1\"}", 200),
        ("{\"value\":\"zz\"}", 400),
        ("{\"value\":null}", 500),
        ("{\"value\":5}", 500),
    ] {
        let answer = Sent::new("POST /account/lock").json(body).to(&mut Api::new(settings()), &ledger());
        assert_eq!(answer.status, status, "{body}");
    }
}

proptest! {
    #[test]
    fn any_request_is_answered_and_an_error_of_the_application_says_its_status(
        method in "GET|HEAD|POST|OPTIONS|PUT|[!-~]{0,6}",
        path in "(/chain/height|/block/at/public|/transaction/(announce|prepare)|/account/get|/transaction/get)?[/;.%a-f0-9\\PC]{0,6}",
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
        Api::new(settings()).answer(&request, &ledger(), &mut desk(ValidationResult::Success), NOW, &mut answer);
        let is_json = super::tests::headers(&answer, "Content-Type").iter().any(|kind| kind.starts_with("application/json"));
        if is_json {
            let value: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            prop_assert!(answer.body.ends_with(b"\r\n"));
            prop_assert!(answer.status == 200 || value["status"] == answer.status);
        }
    }
}
