//! Test fixture: a small chain in a store, and requests to the interface on it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use tempfile::TempDir;

use crate::api::views::ClockState;
use crate::api::{
    Api, BootRequest, Budget, ChainSnapshot, Features, LoadingApi, NodeDescription, NodeHandle, NodeStatus, Now,
    Settings, UnlockedInfo,
};
use crate::chain::apply;
use crate::chain::harvest::UnlockResult;
use crate::codec::Context;
use crate::crypto::{KeyPair, PrivateKey, PublicKey, Signature};
use crate::mempool::ShortId;
use crate::model::network::test_network;
use crate::model::transaction::{
    Cosignature, LinkMode, MosaicDefinitionCreation, Multisig, ProvisionNamespace, Transfer, wire_version,
};
use crate::model::{
    Address, Amount, Block, BlockKind, Body, Hash256, Height, Levy, MosaicDefinition, MosaicId, MosaicProperties,
    NamespaceId, Network, NetworkByte, Timestamp, Transaction, WireHash,
};
use crate::net::http::{RequestReader, Response};
use crate::net::service::{Client, ConnectionId, Exchange, ListenerId, Progress};
use crate::peer::wire::{Challenge, Endpoint, Identity, MetaData, NodeInfo, Version};
use crate::peer::{ClientAnswer, Manager};
use crate::rules::{self, Rejection, ValidationResult};
use crate::state::{
    Account, AccountId, AccountImportance, ImportanceListWriter, Ledger, LinkRole, RecalculationRecord, RemoteLink,
    VestedBalance, account, effects, put_account,
};
use crate::store::{
    ChainIdentity, Options, Snapshot, Store, StoreError, StoredHeader, Table, Write, stored_block, tip,
};

/// A challenge: 64 bytes in hex.
pub const CHALLENGE: &str = "0707070707070707070707070707070707070707070707070707070707070707\
                             0707070707070707070707070707070707070707070707070707070707070707";
pub const NETWORK: NetworkByte = NetworkByte::TESTNET;
pub const NOW: Now = Now {
    network: Timestamp(3240),
    network_millis: 3_240_001,
    clock: ClockState { chain_ahead: 3, jumps: 2, is_unreliable: true },
    uptime: Duration::from_secs(240),
};
/// More units than any response of these tests costs.
pub const PLENTY: u32 = 10_000_000;
/// The account that has all funds at first.
pub const NEMESIS: u8 = 99;

pub fn key(byte: u8) -> PublicKey {
    PublicKey([byte; 32])
}

pub fn address_of(key: &PublicKey) -> Address {
    Address::from_public_key(key, NETWORK)
}

pub fn address(byte: u8) -> Address {
    address_of(&key(byte))
}

pub fn transfer(signature: Option<Signature>) -> Transaction {
    transfer_to(2, signature)
}

fn transfer_to(recipient: u8, signature: Option<Signature>) -> Transaction {
    let body = Transfer { recipient: address(recipient), amount: Amount(7), message: None, mosaics: Vec::new() };
    transaction(signature, Body::Transfer(body))
}

/// A transaction signed by the first account.
pub fn transaction(signature: Option<Signature>, body: Body) -> Transaction {
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

/// A multisig transaction around a transfer.
pub fn multisig() -> Transaction {
    let multisig = Multisig { inner: transfer(None), cosignatures: Vec::new() };
    transaction(Some(Signature([3; 64])), Body::Multisig(Box::new(multisig)))
}

/// A multisig transaction with cosignatures, distinct for each number.
pub fn multisig_with_cosignatures(number: i32) -> Transaction {
    let inner = Transaction { timestamp: Timestamp(number), fee: Amount(0), ..transfer(None) };
    let body = Cosignature { other_hash: inner.hash().into(), other_account: address(1) };
    let cosignature = |signer| Transaction {
        signer: key(signer),
        timestamp: Timestamp(number),
        fee: Amount(0),
        ..signed(Body::Cosignature(body.clone()))
    };
    let mut cosignatures: Vec<_> = (20..25).map(cosignature).collect();
    cosignatures.sort_by_key(|one| one.signer_address(NETWORK));
    let body = Multisig { inner, cosignatures };
    Transaction { fee: Amount(0), timestamp: Timestamp(number), ..signed(Body::Multisig(Box::new(body))) }
}

pub fn signed_transfer() -> Transaction {
    Transaction { timestamp: Timestamp(101), ..transfer_to(3, Some(Signature([3; 64]))) }
}

pub fn definition(id: &str, levy: Option<Levy>) -> MosaicDefinition {
    let properties = MosaicProperties { divisibility: 1, initial_supply: 9, supply_mutable: true, transferable: false };
    let id = MosaicId::parse(id).unwrap();
    MosaicDefinition { creator: key(1), id, description: "d/".to_owned(), properties, levy }
}

pub fn rent(owner: u8, name: &str, number: i32) -> Transaction {
    let (parent, part) = name.rsplit_once('.').map_or((None, name), |(parent, part)| (Some(parent), part));
    let parent = parent.map(|parent| NamespaceId::parse(parent).unwrap());
    let body =
        ProvisionNamespace { rental_fee_sink: address(50), rental_fee: Amount(0), new_part: part.to_owned(), parent };
    let body = Body::ProvisionNamespace(body);
    Transaction { signer: key(owner), timestamp: Timestamp(number), fee: Amount(0), ..signed(body) }
}

pub fn define(definition: MosaicDefinition, number: i32) -> Transaction {
    let signer = definition.creator;
    let body = MosaicDefinitionCreation { definition, creation_fee_sink: address(50), creation_fee: Amount(0) };
    let body = Body::MosaicDefinitionCreation(Box::new(body));
    Transaction { signer, timestamp: Timestamp(number), fee: Amount(0), ..signed(body) }
}

fn signed(body: Body) -> Transaction {
    transaction(Some(Signature([3; 64])), body)
}

/// A chain built without validation.
pub struct Scene {
    pub network: Network,
    pub store: Store,
    pub status: NodeStatus,
    pub _folder: TempDir,
}

impl Scene {
    /// Creates a chain of one block: a multisig transaction and a transfer. The first account has 4 vested and 1
    /// unvested, has harvested three blocks and is a cosignatory of the ninth.
    pub fn new() -> Scene {
        let scene = Scene::empty();
        scene.add_block(vec![multisig(), signed_transfer()]);
        let balance = VestedBalance { height: 1, unvested: 1, vested: 4 };
        let account = Account { first_height: 1, balance, ..Account::default() };
        scene.put_account(1, &Account { harvested_blocks: 3, ..account.clone() });
        scene.put_account(9, &Account { harvested_blocks: 3, min_cosignatories: 2, ..account });
        for cosignatory in [1, 11, 12] {
            scene.put_cosignatory(9, address(cosignatory));
        }
        scene
    }

    /// Creates a chain without blocks on which the first account has funds.
    pub fn empty() -> Scene {
        let network = test_network(NETWORK, address(NEMESIS));
        let folder = tempfile::tempdir().unwrap();
        let identity = ChainIdentity { name: "test".to_owned(), text: String::new() };
        let store = Store::open(folder.path(), &identity, Options { map_size: 1 << 28 }).unwrap();
        let scene = Scene { network, store, status: NodeStatus::NoRemoteNode, _folder: folder };
        scene.fund(1);
        scene
    }

    /// Creates a chain with the namespace `a` and the mosaic `a:b`, whose levy is paid in `a:paid`, all owned by the
    /// first account.
    pub fn with_mosaics() -> Scene {
        let scene = Scene::new();
        scene.fund(1);
        let kind = crate::model::mosaic::LevyKind::Absolute;
        let levy = Levy { kind, recipient: address(2), mosaic: MosaicId::parse("a:paid").unwrap(), fee: 3 };
        scene.add_block(vec![
            rent(1, "a", 1),
            define(definition("a:paid", None), 2),
            define(definition("a:b", Some(levy)), 3),
        ]);
        let balance = VestedBalance { height: 1, unvested: 0, vested: 4 };
        scene.put_account(1, &Account { first_height: 1, balance, ..Account::default() });
        scene
    }

    fn write(&self, change: impl FnOnce(&mut crate::store::WriteTxn<'_>)) {
        let mut batch = self.store.begin_write().unwrap();
        change(&mut batch);
        batch.commit().unwrap();
    }

    pub fn put_account(&self, byte: u8, account: &Account) {
        self.put_account_of(address(byte), account);
    }

    /// Gives an account enough funds for any test.
    pub fn fund(&self, byte: u8) {
        let balance = VestedBalance { height: 1, unvested: 0, vested: Amount::whole(1_000_000).0 };
        self.put_account(byte, &Account { first_height: 1, balance, ..Account::default() });
    }

    pub fn put_account_of(&self, address: Address, account: &Account) {
        self.write(|batch| assert!(put_account(batch, &address, account).is_ok()));
    }

    pub fn put_cosignatory(&self, multisig: u8, cosignatory: Address) {
        let pair = |a: &Address, b: &Address| [a.as_bytes().as_slice(), b.as_bytes()].concat();
        let multisig = address(multisig);
        self.write(|batch| {
            batch.put(Table::Cosignatories, &pair(&multisig, &cosignatory), &[]).unwrap();
            batch.put(Table::CosignatoryOf, &pair(&cosignatory, &multisig), &[]).unwrap();
        });
    }

    /// Makes an account a cosignatory of many others, which have nothing.
    pub fn put_multisigs(&self, cosignatory: u8, count: u32) {
        let cosignatory = address(cosignatory);
        self.write(|batch| {
            for number in 0..count {
                let mut seed = [7; 32];
                seed[..4].copy_from_slice(&number.to_be_bytes());
                let other = address_of(&PublicKey(seed));
                let key = [cosignatory.as_bytes().as_slice(), other.as_bytes()].concat();
                batch.put(Table::CosignatoryOf, &key, &[]).unwrap();
            }
        });
    }

    pub fn put_importance(&self, byte: u8, importance: f64) {
        self.write(|batch| {
            let recalculation = RecalculationRecord { height: Height(1), accounts_counted: 1, eligible: 1 };
            let mut list = ImportanceListWriter::begin(recalculation, batch).unwrap();
            let known = account(batch, &address(byte)).unwrap();
            let account = put_account(batch, &address(byte), &known).unwrap();
            let entry = AccountImportance { account, height: Height(1), importance, page_rank: 0.0 };
            list.push(entry, batch).unwrap();
            list.finish(batch).unwrap();
        });
    }

    /// Gives account `to` a remote link to the third account, in this role, since a height.
    pub fn put_link(&self, to: Address, role: LinkRole, mode: LinkMode, height: u64) {
        let link = RemoteLink { role, linked_address: address(3), height: Height(height), mode };
        let account = Account { first_height: 1, links: vec![link], ..Account::default() };
        self.write(|batch| assert!(put_account(batch, &to, &account).is_ok()));
    }

    pub fn add_block(&self, transactions: Vec<Transaction>) -> Height {
        let parent = tip(&self.store.snapshot().unwrap()).unwrap();
        let height = parent.as_ref().map_or(Height(1), |parent| parent.height.next());
        let block = Block {
            kind: BlockKind::Regular,
            version: wire_version(NETWORK, 1),
            timestamp: Timestamp(3),
            signer: key(98),
            signature: Some(Signature([3; 64])),
            previous_hash: WireHash::from(Hash256([5; 32])),
            height,
            transactions,
        };
        let mut batch = self.store.begin_write().unwrap();
        let mut context = apply::begin(&block, &mut batch, &self.network).unwrap();
        let mut ledger = Ledger { txn: &mut batch, block: &mut context, network: &self.network };
        for transaction in &block.transactions {
            let mut list = Vec::new();
            effects(transaction, ledger.txn, NETWORK, &mut list).unwrap();
            apply::apply_transaction(&mut ledger, transaction, &list).unwrap();
        }
        let applied = apply::credit_block(&mut ledger, &block, parent.as_ref()).unwrap();
        let mut expiry = ledger.expiry().unwrap();
        while expiry.step(&mut ledger).unwrap() {}
        let hashes: Vec<_> = block.transactions.iter().map(Transaction::hashes).collect();
        for number in 0..hashes.len() {
            let relisting = apply::index_transaction(&mut ledger, &block, &hashes, &applied, number).unwrap();
            if let Some(mut relisting) = relisting {
                while relisting.step(ledger.txn, NETWORK).unwrap() {}
            }
        }
        ledger.flush().unwrap();
        let header = StoredHeader {
            height,
            hash: block.hash(),
            generation_hash: Hash256::default(),
            timestamp: block.timestamp,
            difficulty: 1,
            score: 0,
            total_fee: block.total_fee(),
            beneficiary: None,
            ids: applied.ids,
        };
        apply::store(&mut batch, &header, &block, apply::Retention::Chain, self.network.chain.rewrite_limit).unwrap();
        batch.commit().unwrap();
        height
    }

    pub fn remove_last_block(&self) {
        let height = tip(&self.store.snapshot().unwrap()).unwrap().unwrap().height;
        self.write(|batch| batch.delete(Table::Blocks, &crate::store::block_key(height)).unwrap());
    }

    /// Replaces a block by one with another hash, as a reorg would.
    pub fn replace_block(&self, height: Height) {
        self.write(|batch| {
            let (header, block) = stored_block(batch, height, Context::trusted_store()).unwrap().unwrap();
            let other = StoredHeader { hash: Hash256([0xee; 32]), ..header };
            batch.put(Table::Blocks, &crate::store::block_key(height), &other.to_bytes(&block)).unwrap();
        });
    }

    pub fn forget_holding(&self, account: u8, mosaic: &str) {
        self.write(|batch| {
            let account = AccountId::of(batch, &address(account)).unwrap().unwrap();
            let key = [account.key().as_slice(), mosaic.as_bytes()].concat();
            batch.delete(Table::Holdings, &key).unwrap();
        });
    }

    pub fn with_view<T>(&self, look: impl FnOnce(&ChainSnapshot<'_>) -> T) -> T {
        let snapshot = self.store.snapshot().unwrap();
        let height = tip(&snapshot).unwrap_or_default().map_or(Height(1), |tip| tip.height);
        self.with_view_at(height, &snapshot, look)
    }

    fn with_view_at<T>(
        &self,
        height: Height,
        snapshot: &Snapshot<'_>,
        look: impl FnOnce(&ChainSnapshot<'_>) -> T,
    ) -> T {
        look(&ChainSnapshot { snapshot, network: &self.network, height, status: self.status })
    }
}

/// The result with which [`TestNode`] answers an announced transaction.
#[derive(Clone, Debug)]
pub enum AnnounceOutcome {
    Result(ValidationResult),
    Exception(rules::Exception),
}

/// A node that records calls and returns configured results.
pub struct TestNode {
    pub result: AnnounceOutcome,
    pub announced: Vec<Transaction>,
    pub unconfirmed: Vec<Rc<Transaction>>,
    pub is_linking: bool,
    pub unlocked: Vec<Address>,
    /// Largest limit of unconfirmed transactions requested.
    pub limit: Cell<usize>,
    pub description: NodeDescription,
    pub is_shut_down: bool,
    pub peers: Option<Manager>,
    /// Maximum height of the sync peers, once reported.
    pub reported_height: Option<Height>,
    /// Results of pushed transactions.
    pub pushed: Vec<(PublicKey, ValidationResult)>,
}

impl TestNode {
    pub fn answering(result: ValidationResult) -> TestNode {
        TestNode {
            result: AnnounceOutcome::Result(result),
            announced: Vec::new(),
            unconfirmed: Vec::new(),
            is_linking: false,
            unlocked: Vec::new(),
            limit: Cell::new(0),
            description: description(),
            is_shut_down: false,
            peers: None,
            reported_height: Some(Height::NEMESIS),
            pushed: Vec::new(),
        }
    }
}

impl Default for TestNode {
    fn default() -> TestNode {
        TestNode::answering(ValidationResult::Success)
    }
}

impl NodeHandle for TestNode {
    fn announce(&mut self, transaction: Transaction) -> rules::RuleResult {
        self.announced.push(transaction);
        match self.result.clone() {
            AnnounceOutcome::Result(ValidationResult::Success) => Ok(()),
            AnnounceOutcome::Result(result) => Err(Rejection::Result(result)),
            AnnounceOutcome::Exception(exception) => Err(Rejection::Exception(exception)),
        }
    }

    fn push_block(&mut self, _: Block, _: PublicKey) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn peers(&self) -> Option<&Manager> {
        self.peers.as_ref()
    }

    fn max_chain_height(&mut self) -> Option<Height> {
        self.reported_height
    }

    fn answer_of_peers(&mut self) -> Option<ClientAnswer> {
        self.reported_height.map(ClientAnswer::MaxHeight)
    }

    fn record_push_result(&mut self, by: &PublicKey, result: ValidationResult) {
        self.pushed.push((*by, result));
    }

    fn result_before_join(&mut self, _: &Transaction) -> Option<ValidationResult> {
        None
    }

    fn unknown_to(&self, _: &BTreeSet<ShortId>) -> Vec<Rc<Transaction>> {
        self.unconfirmed.clone()
    }

    fn unconfirmed(&self, _: &Address, limit: usize) -> Result<Vec<Rc<Transaction>>, StoreError> {
        self.limit.set(self.limit.get().max(limit));
        Ok(self.unconfirmed.iter().take(limit).cloned().collect())
    }

    fn has_importance_transfer(&self, _: &Address) -> Result<bool, StoreError> {
        Ok(self.is_linking)
    }

    fn unlock(&mut self, pair: Box<KeyPair>) -> Result<UnlockResult, StoreError> {
        if !self.unlocked.is_empty() {
            return Ok(UnlockResult::ServerLimit);
        }
        self.unlocked.push(address_of(&pair.public()));
        Ok(UnlockResult::Success)
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

    fn description(&self) -> &NodeDescription {
        &self.description
    }

    fn sign_challenge(&self, _: &Challenge) -> Signature {
        Signature([9; 64])
    }

    fn new_key(&mut self) -> PrivateKey {
        PrivateKey::from_seed(&[5; 32])
    }

    fn boot(&mut self, request: BootRequest) -> Result<(), StoreError> {
        let BootRequest { private_key, name, endpoint, application } = request;
        let info = &mut self.description.info;
        info.identity = Identity { key: KeyPair::new(&private_key).public(), name };
        info.endpoint = endpoint;
        info.meta_data.application = application;
        Ok(())
    }

    fn shut_down(&mut self) {
        self.is_shut_down = true;
    }
}

const FEATURES: Features =
    Features { transaction_hash_lookup: true, historical_account_data: false, track_expired_mosaics: false };

fn description() -> NodeDescription {
    let info = NodeInfo {
        identity: Identity { key: key(1), name: Some("n/".to_owned()) },
        endpoint: Endpoint::http("127.0.0.1", 7890),
        meta_data: MetaData {
            version: Version::OWN,
            platform: Some("p".to_owned()),
            application: None,
            features: FEATURES.bits() as i32,
            network_id: MetaData::network_id_of(NETWORK),
        },
    };
    NodeDescription { info, started: Timestamp(3000) }
}

pub fn settings() -> Settings {
    let features = FEATURES;
    Settings {
        context_path: String::new(),
        compress: true,
        features,
        is_local: Box::new(|address| address == IpAddr::V4(Ipv4Addr::LOCALHOST)),
        host_names: Vec::new(),
        local_origins: Vec::new(),
        allowed_harvesters: Vec::new(),
        prunes_hashes: false,
        unaudited_paths: vec!["/Quiet".to_owned(), "/heartbeat".to_owned()],
        max_pushed_bytes: 100_000,
        ipv6_prefix: 64,
        metrics_listener: ListenerId(2),
    }
}

/// A request: a line such as `GET /chain/height?a=b`, headers and a body.
#[derive(Clone, Copy)]
pub struct TestRequest<'a> {
    pub line: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
    pub client: Client,
    pub connection: ConnectionId,
    pub is_rate_limited: bool,
}

impl<'a> TestRequest<'a> {
    pub fn new(line: &'a str) -> TestRequest<'a> {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let caller = Client { listener: ListenerId(0), address, is_forwarded: false, is_unidentified: false };
        TestRequest {
            line,
            headers: &[],
            body: b"",
            client: caller,
            connection: ConnectionId(1),
            is_rate_limited: false,
        }
    }

    pub fn with(self, headers: &'a [(&'a str, &'a str)]) -> TestRequest<'a> {
        TestRequest { headers, ..self }
    }

    pub fn json(self, body: &'a str) -> TestRequest<'a> {
        TestRequest { headers: &[("Content-Type", "application/json")], body: body.as_bytes(), ..self }
    }

    pub fn from(self, address: [u8; 4]) -> TestRequest<'a> {
        TestRequest { client: Client { address: IpAddr::from(address), ..self.client }, ..self }
    }

    fn bytes(&self) -> Vec<u8> {
        let headers = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let has_host = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
        // A length of 0 declares an empty body.
        let version = if has_host { "HTTP/1.1" } else { "HTTP/1.0" };
        let head = format!(
            "{} {version}\r\n{}Content-Length: {}\r\n\r\n",
            self.line,
            headers.collect::<String>(),
            self.body.len()
        );
        [head.as_bytes(), self.body].concat()
    }

    /// Runs one step of the response; `None` if the request is malformed, which the request reader rejects.
    pub fn step(
        &self,
        api: &mut Api,
        scene: &Scene,
        node: &mut TestNode,
        response: &mut Response,
        is_resumed: bool,
        units: u32,
    ) -> Option<(Progress, u32)> {
        scene.with_view(|view| self.step_over(api, view, node, response, is_resumed, units))
    }

    fn step_over(
        &self,
        api: &mut Api,
        view: &ChainSnapshot<'_>,
        node: &mut TestNode,
        reply: &mut Response,
        is_resumed: bool,
        units: u32,
    ) -> Option<(Progress, u32)> {
        let mut reader = RequestReader::new(1 << 20);
        reader.receive(&self.bytes());
        let Ok(Some(request)) = reader.next_request() else { return None };
        let (connection, caller, is_refused) = (self.connection, self.client, self.is_rate_limited);
        let mut exchange = Exchange {
            connection,
            client: caller,
            request: &request,
            response: reply,
            is_resumed,
            is_rate_limited: is_refused,
        };
        let mut budget = Budget::new(units);
        let taken = api.answer(&mut exchange, view, node, NOW, &mut budget);
        Some((taken, budget.used()))
    }

    /// Returns the response at a height other than the tip's.
    pub fn at_height(&self, api: &mut Api, scene: &Scene, node: &mut TestNode, height: Height) -> Response {
        let (mut reply, snapshot) = (Response::new(), scene.store.snapshot().unwrap());
        scene.with_view_at(height, &snapshot, |view| self.step_over(api, view, node, &mut reply, false, PLENTY));
        reply
    }

    pub fn send_to(&self, api: &mut Api, scene: &Scene) -> Response {
        self.send_to_node(api, scene, &mut TestNode::default())
    }

    pub fn send_to_node(&self, api: &mut Api, scene: &Scene, node: &mut TestNode) -> Response {
        let mut reply = Response { body: b"left over".to_vec(), ..Response::new() };
        let step = self.step(api, scene, node, &mut reply, false, PLENTY);
        assert_eq!(step.expect(self.line).0, Progress::Done, "{}", self.line);
        reply
    }

    pub fn send(&self, scene: &Scene) -> Response {
        self.send_to(&mut Api::new(settings()), scene)
    }

    /// Returns the response of a node without a chain.
    pub fn while_loading(&self) -> Response {
        let (mut reader, mut reply) = (RequestReader::new(1 << 20), Response::new());
        reader.receive(&self.bytes());
        let request = reader.next_request().expect(self.line).expect("all of it");
        let (connection, caller, is_refused) = (self.connection, self.client, self.is_rate_limited);
        let reply_to = &mut reply;
        let mut exchange = Exchange {
            connection,
            client: caller,
            request: &request,
            response: reply_to,
            is_resumed: false,
            is_rate_limited: is_refused,
        };
        LoadingApi::new(settings()).answer(&mut exchange, NOW.network);
        reply
    }

    pub fn status_and_body(&self, scene: &Scene) -> (u16, String) {
        let reply = self.send(scene);
        (reply.status, text_of(&reply))
    }

    /// Returns status and message of an error.
    pub fn status_and_error(&self, scene: &Scene) -> (u16, String) {
        failure_in(&self.send(scene))
    }
}

/// Returns status and message of an error.
pub fn failure_in(response: &Response) -> (u16, String) {
    let (status, body) = (response.status, text_of(response));
    let error: serde_json::Value = serde_json::from_str(&body).expect(&body);
    assert_eq!(error["status"], status);
    assert_eq!(error["timeStamp"], 3240);
    (status, error["message"].as_str().unwrap_or("null").to_owned())
}

pub fn text_of(response: &Response) -> String {
    String::from_utf8(response.body.clone()).unwrap()
}

pub fn headers<'a>(response: &'a Response, name: &str) -> Vec<&'a str> {
    response.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_ref()).collect()
}
