//! Every recorded request has the same response when it is processed in the smallest steps and all at once, and its
//! body is within the limit.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use crate::common::exchange::{Exchange as Recorded, read_file};
use crate::common::recorded_chain::{Chain, tip_of};
use crate::common::{print_notice, recorded};
use nisd::api::views::ClockState;
use nisd::api::{
    Api, BootRequest, Budget, ChainSnapshot, Features, NodeDescription, NodeHandle, NodeStatus, Now, Settings,
    UnlockedInfo,
};
use nisd::chain::harvest::UnlockResult;
use nisd::crypto::{KeyPair, PrivateKey, PublicKey, Signature};
use nisd::mempool::ShortId;
use nisd::model::{Address, Block, Height, Timestamp, Transaction};
use nisd::net::http::{Request, RequestReader, Response};
use nisd::net::service::{Client, ConnectionId, Exchange, ListenerId, Progress};
use nisd::peer::wire::{Challenge, Endpoint, Identity, MetaData, NodeInfo, limits};
use nisd::rules::{Rejection, RuleResult, ValidationResult};
use nisd::store::{Store, StoreError};

const NOW: Now = Now {
    network: Timestamp(3240),
    network_millis: 3_240_000,
    clock: ClockState { chain_ahead: 0, jumps: 0, is_unreliable: false },
    uptime: Duration::ZERO,
};
/// More units than any response takes.
const UNLIMITED: u32 = u32::MAX;

/// A node that accepts nothing.
struct NullNodeHandle {
    description: NodeDescription,
}

impl NullNodeHandle {
    fn new() -> NullNodeHandle {
        NullNodeHandle {
            description: NodeDescription {
                info: NodeInfo {
                    identity: Identity { key: PublicKey([1; 32]), name: Some("node".to_owned()) },
                    endpoint: Endpoint::http("127.0.0.1", 7890),
                    meta_data: MetaData::default(),
                },
                started: NOW.network,
            },
        }
    }
}

impl NodeHandle for NullNodeHandle {
    fn announce(&mut self, _: Transaction) -> RuleResult {
        Err(Rejection::Result(ValidationResult::Neutral))
    }

    fn push_block(&mut self, _: Block, _: PublicKey) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn result_before_join(&mut self, _: &Transaction) -> Option<ValidationResult> {
        None
    }

    fn unknown_to(&self, _: &BTreeSet<ShortId>) -> Vec<Rc<Transaction>> {
        Vec::new()
    }

    fn unconfirmed(&self, _: &Address, _: usize) -> Result<Vec<Rc<Transaction>>, StoreError> {
        Ok(Vec::new())
    }

    fn has_importance_transfer(&self, _: &Address) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn unlock(&mut self, _: Box<KeyPair>) -> Result<UnlockResult, StoreError> {
        Ok(UnlockResult::ServerLimit)
    }

    fn lock(&mut self, _: &Address) {}

    fn is_unlocked(&self, _: &Address) -> bool {
        false
    }

    fn unlocked_info(&self) -> UnlockedInfo {
        UnlockedInfo { max: 0, count: 0 }
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

    fn boot(&mut self, _: BootRequest) -> Result<(), StoreError> {
        Ok(())
    }

    fn shut_down(&mut self) {}
}

fn api() -> Api {
    let features =
        Features { transaction_hash_lookup: true, historical_account_data: true, track_expired_mosaics: true };
    Api::new(Settings {
        context_path: String::new(),
        compress: false,
        features,
        is_local: Box::new(|address| address == IpAddr::V4(Ipv4Addr::LOCALHOST)),
        host_names: Vec::new(),
        local_origins: Vec::new(),
        allowed_harvesters: Vec::new(),
        prunes_hashes: false,
        unaudited_paths: Vec::new(),
        max_pushed_bytes: limits::PUSHED,
        ipv6_prefix: 64,
        metrics_listener: ListenerId(2),
    })
}

/// Returns the response to a request processed in steps of `units`, and the number of steps.
fn answer(
    api: &mut Api,
    chain: &Chain,
    store: &Store,
    request: &Request<'_>,
    caller: Client,
    units: u32,
) -> (Response, u32) {
    let (mut reply, mut steps) = (Response::new(), 0);
    loop {
        let snapshot = store.snapshot().unwrap();
        let (network, height) = (&chain.network, tip_of(store).height);
        let view = ChainSnapshot { snapshot: &snapshot, network, height, status: NodeStatus::NoRemoteNode };
        let (connection, is_resumed) = (ConnectionId(1), steps > 0);
        let reply_to = &mut reply;
        let mut exchange =
            Exchange { connection, client: caller, request, response: reply_to, is_resumed, is_rate_limited: false };
        steps += 1;
        if api.answer(&mut exchange, &view, &mut NullNodeHandle::new(), NOW, &mut Budget::new(units)) == Progress::Done
        {
            return (reply, steps);
        }
    }
}

/// Returns the bytes of a recorded request; a chunked body is sent as a whole.
fn bytes_of(recorded: &Recorded) -> Vec<u8> {
    let body = recorded.body.as_deref().unwrap_or_default();
    let mut head = format!("{} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n", recorded.line(), body.len());
    for (name, value) in &recorded.headers {
        if !name.eq_ignore_ascii_case("transfer-encoding") && !name.eq_ignore_ascii_case("content-length") {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

fn replay(chain: &str, recording: &str) {
    let (mut chain, recording) = (Chain::open(chain), recorded(&format!("http/{recording}")));
    chain.network.chain.history_from = Some(Height(1));
    let folder = tempfile::tempdir().unwrap();
    let store = chain.store(folder.path());
    chain.import(&store, u64::MAX);
    // Each reports its request history, which must be the same.
    let (mut api, mut stepping, mut count, mut all_steps) = (api(), self::api(), 0, 0);
    for recorded in read_file(&recording) {
        let body = recorded.body.as_deref().unwrap_or_default();
        let limit = api.body_limit(&recorded.method, &recorded.path);
        assert!(body.len() <= limit, "{}: {limit}", recorded.line());
        let mut reader = RequestReader::new(1 << 20);
        reader.receive(&bytes_of(&recorded));
        let Ok(Some(request)) = reader.next_request() else { continue };
        let address = recorded.source.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let caller = Client { listener: ListenerId(0), address, is_forwarded: false, is_unidentified: false };
        let (whole, _) = answer(&mut api, &chain, &store, &request, caller, UNLIMITED);
        let (stepped, steps) = answer(&mut stepping, &chain, &store, &request, caller, 1);
        assert!(stepped.body == whole.body, "{}", recorded.line());
        assert_eq!((stepped.status, stepped.headers), (whole.status, whole.headers), "{}", recorded.line());
        (count, all_steps) = (count + 1, all_steps + steps);
    }
    print_notice(&format!("{count} requests were answered in {all_steps} steps"));
    assert!(all_steps > count, "no answer took more than one step");
}

#[test]
fn requests_on_tiny_have_the_same_response_in_steps() {
    replay("tiny", "tiny.jsonl.gz");
}

#[test]
fn requests_on_all_forks_have_the_same_response_in_steps() {
    replay("all-forks", "all-forks.jsonl.gz");
}

#[test]
fn requests_on_one_year_have_the_same_response_in_steps() {
    replay("one-year", "one-year.jsonl.gz");
}
