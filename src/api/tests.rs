//! Test fixture: a small chain in a store, and requests to the interface on it.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use tempfile::TempDir;

use crate::api::{Api, ClockState, Command, EventFeed, Features, NodeContext, NodeStatus, Settings};
use crate::budget::Budget;
use crate::chain::harvest::{KeyOrigin, UnlockResult, UnlockedAccounts};
use crate::chain::{ChainSnapshot, ConfirmedBlock, ReorgLog, apply};
use crate::crypto::{KeyPair, PrivateKey, PublicKey, Randomness, Signature};
pub use crate::mempool::{Fate, Mempool};
use crate::model::network::test_network;
use crate::model::transaction::{
    Cosignature, ImportanceTransfer, LinkMode, MosaicDefinitionCreation, Multisig, ProvisionNamespace, Transfer,
    wire_version,
};
use crate::model::{
    Address, Amount, Block, BlockKind, Body, Hash256, Height, Levy, MosaicDefinition, MosaicId, MosaicProperties,
    NamespaceId, Network, NetworkByte, Timestamp, Transaction,
};
use crate::net::http::{MatchedRoute, RequestReader, Response};
use crate::net::service::{Client, ConnectionId, Exchange, ListenerId, Progress};
use crate::peer::Manager;
use crate::peer::io::Now;
use crate::peer::wire::{Endpoint, Identity, MetaData, NodeInfo, Version};
use crate::state::{
    Account, AccountId, AccountImportance, ImportanceListWriter, Ledger, LinkRole, RecalculationRecord, RemoteLink,
    VestedBalance, account, effects, put_account,
};
use crate::store::{
    ChainIdentity, Options, Snapshot, Store, StoredHeader, Table, Write, stored_block, stored_header, tip,
};

/// A challenge: 64 bytes in hex.
pub const CHALLENGE: &str = "0707070707070707070707070707070707070707070707070707070707070707\
                             0707070707070707070707070707070707070707070707070707070707070707";
pub const NETWORK: NetworkByte = NetworkByte::TESTNET;
pub const NOW: Now = Now { monotonic: Duration::from_secs(240), network: Timestamp(3240), network_millis: 3_240_001 };
/// A private key.
pub const KEY: &str = "ec323551f22cf49eeeca6fa9ed7177305a200c74e4492cd9a7b24a528277b1aa";
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

/// The key pair of [`KEY`].
pub fn pair() -> KeyPair {
    KeyPair::new(&PrivateKey::from_hex(KEY).unwrap())
}

/// A transaction that the account of [`KEY`] has signed: accepted by the mempool, if the account has funds. Each number
/// yields another.
pub fn acceptable(number: i32) -> Transaction {
    let signer = pair().public();
    let (timestamp, deadline) = (Timestamp(NOW.network.0 - number), Timestamp(NOW.network.0 + 3600));
    sign(Transaction { timestamp, deadline, signer, fee: Amount(150_000), ..transfer(None) })
}

/// Signs a transaction with [`KEY`].
pub fn sign(transaction: Transaction) -> Transaction {
    Transaction { signature: Some(pair().sign(&transaction.signed_bytes())), ..transaction }
}

/// An importance transfer of an account.
pub fn importance_transfer(signer: u8) -> Transaction {
    let body = ImportanceTransfer { mode: LinkMode::Activate, remote: key(60) };
    Transaction { signer: key(signer), ..signed(Body::ImportanceTransfer(body)) }
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

    pub fn write(&self, change: impl FnOnce(&mut crate::store::WriteTxn<'_>)) {
        let mut batch = self.store.begin_write().unwrap();
        change(&mut batch);
        batch.commit().unwrap();
    }

    pub fn put_account(&self, byte: u8, account: &Account) {
        self.put_account_of(address(byte), account);
    }

    /// Gives an account enough funds for any test.
    pub fn fund(&self, byte: u8) {
        self.fund_address(address(byte));
    }

    /// The same for an address.
    pub fn fund_address(&self, address: Address) {
        let balance = VestedBalance { height: 1, unvested: 0, vested: Amount::whole(1_000_000).0 };
        self.put_account_of(address, &Account { first_height: 1, balance, ..Account::default() });
    }

    /// Returns the id of the first transaction of the block at a height.
    pub fn first_id(&self, height: Height) -> u64 {
        let snapshot = self.store.snapshot().unwrap();
        stored_header(&snapshot, height).unwrap().unwrap().ids.0
    }

    /// Returns the block at a height.
    pub fn block(&self, height: Height) -> Block {
        let snapshot = self.store.snapshot().unwrap();
        stored_block(&snapshot, height).unwrap().unwrap().1
    }

    pub fn put_account_of(&self, address: Address, account: &Account) {
        self.write(|batch| assert!(put_account(batch, &address, account).is_ok()));
    }

    pub fn put_cosignatory(&self, multisig: u8, cosignatory: Address) {
        self.put_cosignatory_of(address(multisig), cosignatory);
    }

    pub fn put_cosignatory_of(&self, multisig: Address, cosignatory: Address) {
        let pair = |a: &Address, b: &Address| [a.as_bytes().as_slice(), b.as_bytes()].concat();
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
        self.add_block_of(key(98), transactions)
    }

    /// Adds a block that this account harvested.
    pub fn add_block_of(&self, signer: PublicKey, transactions: Vec<Transaction>) -> Height {
        let parent = tip(&self.store.snapshot().unwrap()).unwrap();
        let height = parent.as_ref().map_or(Height(1), |parent| parent.height.next());
        let block = Block {
            kind: BlockKind::Regular,
            version: wire_version(NETWORK, 1),
            timestamp: Timestamp(3),
            signer,
            signature: Some(Signature([3; 64])),
            previous_hash: parent.as_ref().map_or(Hash256::default(), |parent| parent.hash).into(),
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
            previous_harvests: applied.previous_harvests,
            ids: applied.ids,
        };
        let row = header.to_bytes(&block, &block.encode_transactions());
        apply::store(&mut batch, &header, &row, apply::Retention::Chain, self.network.chain.rewrite_limit).unwrap();
        batch.commit().unwrap();
        height
    }

    /// Undoes all blocks above a height and returns them, highest first.
    pub fn undo_above(&self, height: Height) -> Vec<ConfirmedBlock> {
        let mut batch = self.store.begin_write().unwrap();
        let last = tip(&batch).unwrap().unwrap().height;
        let heights = (height.0 + 1..=last.0).rev().map(Height);
        let undone = heights.map(|height| ConfirmedBlock::read(&batch, height, &self.network).unwrap().unwrap());
        let undone = undone.collect();
        crate::chain::rollback(&mut batch, height).unwrap();
        batch.commit().unwrap();
        undone
    }

    /// Limits how deep blocks can be replaced.
    pub fn with_rewrite_limit(mut self, limit: u64) -> Scene {
        self.network.chain.rewrite_limit = limit;
        self
    }

    pub fn remove_last_block(&self) {
        let height = tip(&self.store.snapshot().unwrap()).unwrap().unwrap().height;
        self.write(|batch| batch.delete(Table::Blocks, &crate::store::block_key(height)).unwrap());
    }

    /// Replaces a block by one with another hash, as a reorg would.
    pub fn replace_block(&self, height: Height) {
        self.write(|batch| {
            let (header, block) = stored_block(batch, height).unwrap().unwrap();
            let other = StoredHeader { hash: Hash256([0xee; 32]), ..header };
            batch
                .put(
                    Table::Blocks,
                    &crate::store::block_key(height),
                    &other.to_bytes(&block, &block.encode_transactions()),
                )
                .unwrap();
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
        look(&self.view(&snapshot, None))
    }

    /// Returns the chain at a height, or at the tip.
    pub fn view<'a>(&'a self, snapshot: &'a Snapshot<'a>, height: Option<Height>) -> ChainSnapshot<'a> {
        let tip = || tip(snapshot).unwrap_or_default().map_or(Height(1), |tip| tip.height);
        ChainSnapshot { snapshot, network: &self.network, height: height.unwrap_or_else(tip), now: NOW.network }
    }
}

/// The parts of a node besides its chain.
pub struct TestNode {
    pub mempool: Mempool,
    pub unlocked: UnlockedAccounts,
    pub peers: Option<Manager>,
    pub info: NodeInfo,
    pub keys: KeyPair,
    pub reorgs: ReorgLog,
    pub events: EventFeed,
    pub now: Now,
    pub randomness: Randomness,
    pub forgets_hashes: bool,
    /// What the handlers have left to the node.
    pub commands: Vec<Command>,
}

impl Default for TestNode {
    fn default() -> TestNode {
        TestNode {
            mempool: Mempool::default(),
            unlocked: UnlockedAccounts::new(1),
            peers: None,
            info: node_info(),
            keys: KeyPair::new(&PrivateKey::from_seed(&[7; 32])),
            reorgs: ReorgLog::default(),
            events: EventFeed::default(),
            now: NOW,
            randomness: Randomness::new(&[5; 32]),
            forgets_hashes: false,
            commands: Vec::new(),
        }
    }
}

impl TestNode {
    pub fn context<'a>(&'a mut self, chain: ChainSnapshot<'a>, status: NodeStatus, units: u32) -> NodeContext<'a> {
        NodeContext {
            chain,
            status,
            now: self.now,
            clock: ClockState { chain_ahead: 3, jumps: 2, is_unreliable: true },
            forgets_hashes: self.forgets_hashes,
            mempool: &mut self.mempool,
            unlocked: &mut self.unlocked,
            peers: self.peers.as_mut(),
            info: &self.info,
            started: Timestamp(3000),
            keys: &self.keys,
            reorgs: &self.reorgs,
            events: &mut self.events,
            randomness: &mut self.randomness,
            budget: Budget::new(units),
        }
    }

    /// Unlocks the account of [`KEY`].
    pub fn unlock(&mut self, scene: &Scene) {
        scene.fund_address(address_of(&pair().public()));
        let result = scene.with_view(|chain| self.unlocked.unlock(Box::new(pair()), KeyOrigin::LocalClient, chain));
        assert_eq!(result.unwrap(), UnlockResult::Success);
    }
}

const FEATURES: Features =
    Features { transaction_hash_lookup: true, historical_account_data: false, track_expired_mosaics: false };

fn node_info() -> NodeInfo {
    NodeInfo {
        identity: Identity { key: key(1), name: Some("n/".to_owned()) },
        endpoint: Endpoint::http("127.0.0.1", 7890),
        meta_data: MetaData {
            version: Version::OWN,
            platform: Some("p".to_owned()),
            application: None,
            features: FEATURES.bits() as i32,
            network_id: MetaData::network_id_of(NETWORK),
        },
    }
}

pub fn settings() -> Settings {
    Settings {
        features: FEATURES,
        unaudited_paths: vec!["/Quiet".to_owned(), "/heartbeat".to_owned()],
        max_pushed_bytes: 100_000,
        metrics_listener: ListenerId(2),
        ..Settings::default()
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
    /// Whether the response may come from the cache. Scenes change their chains without telling the interface.
    pub may_be_cached: bool,
}

impl<'a> TestRequest<'a> {
    pub fn new(line: &'a str) -> TestRequest<'a> {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let caller = Client::direct(ListenerId(0), address);
        TestRequest {
            line,
            headers: &[],
            body: b"",
            client: caller,
            connection: ConnectionId(1),
            is_rate_limited: false,
            may_be_cached: false,
        }
    }

    pub fn with(self, headers: &'a [(&'a str, &'a str)]) -> TestRequest<'a> {
        TestRequest { headers, ..self }
    }

    pub fn json(self, body: &'a str) -> TestRequest<'a> {
        TestRequest { headers: &[("Content-Type", "application/json")], body: body.as_bytes(), ..self }
    }

    pub fn from(self, address: [u8; 4]) -> TestRequest<'a> {
        TestRequest { client: Client::direct(self.client.listener, address.into()), ..self }
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
        self.step_at(api, scene, None, node, response, (is_resumed, units))
    }

    fn step_at(
        &self,
        api: &mut Api,
        scene: &Scene,
        height: Option<Height>,
        node: &mut TestNode,
        response: &mut Response,
        (is_resumed, units): (bool, u32),
    ) -> Option<(Progress, u32)> {
        let TestRequest { connection, mut client, is_rate_limited, .. } = *self;
        let mut reader = RequestReader::new(0);
        reader.receive(&self.bytes());
        let route =
            |method: &str, path: &str| MatchedRoute { body_limit: 1 << 20, ..api.route(client.listener, method, path) };
        let request = reader.advance(route).ok().and_then(|_| reader.request())?;
        client.is_local = api.settings.is_local(&client, &request);
        let snapshot = scene.store.snapshot().unwrap();
        let context = node.context(scene.view(&snapshot, height), scene.status, units);
        if !is_resumed && !self.may_be_cached {
            api.chain_changed();
        }
        let mut exchange = Exchange { connection, client, request: &request, response, is_resumed, is_rate_limited };
        let answer = api.answer(&mut exchange, context);
        node.commands.extend(answer.command);
        Some((answer.progress, answer.used_units))
    }

    /// Returns the response at a height other than the tip's.
    pub fn at_height(&self, api: &mut Api, scene: &Scene, node: &mut TestNode, height: Height) -> Response {
        let mut response = Response::new();
        self.step_at(api, scene, Some(height), node, &mut response, (false, PLENTY));
        response
    }

    pub fn send_to(&self, api: &mut Api, scene: &Scene) -> Response {
        self.send_to_node(api, scene, &mut TestNode::default())
    }

    pub fn send_to_node(&self, api: &mut Api, scene: &Scene, node: &mut TestNode) -> Response {
        let mut reply = Response { body: b"left over".to_vec(), ..Response::new() };
        let step = self.step(api, scene, node, &mut reply, false, PLENTY);
        let progress = step.expect(self.line).0;
        assert!(matches!(progress, Progress::Done | Progress::Streaming), "{}: {progress:?}", self.line);
        reply
    }

    pub fn send(&self, scene: &Scene) -> Response {
        self.send_to(&mut Api::new(settings()), scene)
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
    String::from_utf8(response.plain_body().to_vec()).unwrap()
}

pub fn headers<'a>(response: &'a Response, name: &str) -> Vec<&'a str> {
    response.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_ref()).collect()
}
