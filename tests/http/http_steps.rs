//! Every recorded request has the same response when it is processed in the smallest steps and all at once, and its
//! body is within the limit.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::common::exchange::read_file;
use crate::common::recorded_chain::{Chain, tip_of};
use crate::common::{print_notice, recorded};
use nisd::api::{Api, ClockState, EventFeed, Features, NodeContext, NodeStatus, Settings};
use nisd::budget::Budget;
use nisd::chain::harvest::UnlockedAccounts;
use nisd::chain::{ChainSnapshot, ReorgLog};
use nisd::crypto::{KeyPair, PrivateKey, PublicKey, Randomness};
use nisd::mempool::Mempool;
use nisd::model::{Height, Timestamp};
use nisd::net::http::{Request, RequestReader, Response};
use nisd::net::service::{Client, ConnectionId, Exchange, ListenerId, Progress};
use nisd::peer::io::Now;
use nisd::peer::wire::{Endpoint, Identity, MetaData, NodeInfo, limits};
use nisd::store::Store;

const NOW: Now = Now { monotonic: Duration::ZERO, network: Timestamp(3240), network_millis: 3_240_000 };
/// More units than any response takes.
const UNLIMITED: u32 = u32::MAX;

fn node_info() -> NodeInfo {
    NodeInfo {
        identity: Identity { key: PublicKey([1; 32]), name: Some("node".to_owned()) },
        endpoint: Endpoint::http("127.0.0.1", 7890),
        meta_data: MetaData::default(),
    }
}

fn api() -> Api {
    let features =
        Features { transaction_hash_lookup: true, historical_account_data: true, track_expired_mosaics: true };
    Api::new(Settings {
        features,
        max_pushed_bytes: limits::PUSHED,
        metrics_listener: ListenerId(2),
        ..Settings::default()
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
        let context = NodeContext {
            chain: ChainSnapshot { snapshot: &snapshot, network, height, now: NOW.network },
            status: NodeStatus::NoRemoteNode,
            now: NOW,
            clock: ClockState::default(),
            forgets_hashes: false,
            // Nothing is remembered from step to step.
            mempool: &mut Mempool::default(),
            unlocked: &mut UnlockedAccounts::new(0),
            peers: None,
            info: &node_info(),
            started: NOW.network,
            keys: &KeyPair::new(&PrivateKey::from_seed(&[9; 32])),
            reorgs: &ReorgLog::default(),
            events: &mut EventFeed::default(),
            randomness: &mut Randomness::new(&[5; 32]),
            budget: Budget::new(units),
        };
        let (connection, is_resumed) = (ConnectionId(1), steps > 0);
        let reply_to = &mut reply;
        let mut exchange =
            Exchange { connection, client: caller, request, response: reply_to, is_resumed, is_rate_limited: false };
        steps += 1;
        if api.answer(&mut exchange, context).progress == Progress::Done {
            return (reply, steps);
        }
    }
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
        let address = recorded.source.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let caller = Client::direct(ListenerId(0), address);
        let route = |method: &str, path: &str| api.route(caller.listener, method, path);
        let limit = route(&recorded.method, &recorded.path).body_limit;
        assert!(body.len() <= limit, "{}: {limit}", recorded.line());
        let mut reader = RequestReader::new(0);
        reader.receive(&recorded.request(7890));
        let Ok(true) = reader.advance(route) else { continue };
        let Some(request) = reader.request() else { continue };
        let caller = Client { is_local: api.settings.is_local(&caller, &request), ..caller };
        // Cached responses would take one step.
        [&mut api, &mut stepping].into_iter().for_each(Api::chain_changed);
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
#[ignore = "slow: a whole recorded chain"]
fn requests_on_all_forks_have_the_same_response_in_steps() {
    replay("all-forks", "all-forks.jsonl.gz");
}

#[test]
#[ignore = "slow: a whole recorded chain"]
fn requests_on_one_year_have_the_same_response_in_steps() {
    replay("one-year", "one-year.jsonl.gz");
}
