//! Fuzz target: the search for the nemesis block, with peers that answer anything in any order, modified blocks, and
//! time.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;
use std::time::Duration;

use nisd::codec::{Context, SigningForm};
use nisd::crypto::{KeyPair, PrivateKey};
use nisd::devnet::nemesis_block;
use nisd::ip::Scope;
use nisd::model::network::ChainParameters;
use nisd::model::{Address, Amount, Block, Hash256, Network, NetworkByte, Timestamp};
use nisd::net::fetch::{FetchError, FetchId, FetchResponse, Response};
use nisd::peer::NemesisSearch;
use nisd::peer::io::Reply;
use nisd::peer::nemesis_search::{MAX_BACKOFF, MAX_IN_FLIGHT};
use nisd::peer::wire::Endpoint;

/// Maximum steps of a script.
const MAX_STEPS: usize = 300;
/// Maximum known peers.
const MAX_NODES: usize = 12;
/// Time steps, in milliseconds.
const PAUSES: [u64; 6] = [1, 700, 2_000, 5_000, 61_000, 301_000];

/// An event of an input. The low three bits of a byte select it, the others are its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time passes.
    Pass,
    /// A peer returns the block.
    Give,
    /// A peer returns the block with changed bytes: a further byte is their number, then each has its position (two
    /// bytes) and its difference.
    Spoil,
    /// A peer returns the block, truncated to the length in two further bytes.
    Cut,
    /// A peer returns the bytes that follow; a further byte is their number.
    Noise,
    /// A peer does not answer, is unreachable, sends a broken response or rejects the request.
    Fail,
    /// The returned block is rejected.
    Refuse,
}

impl Event {
    /// All events; an input names one by its index.
    pub const ALL: [Event; 7] =
        [Event::Pass, Event::Give, Event::Spoil, Event::Cut, Event::Noise, Event::Fail, Event::Refuse];
}

/// Checks that the search returns only the right block, one at a time (its transaction signatures are verified later),
/// queries few peers at once and all in turn, and never stalls. Returns how often it returned the block.
pub fn check(data: &[u8]) -> usize {
    let Some((settings, script)) = data.split_first() else { return 0 };
    let mut scene = Harness::new(*settings);
    let mut script = script.iter().copied();
    scene.tick();
    for _ in 0..MAX_STEPS {
        let Some(byte) = script.next() else { break };
        let event = Event::ALL[usize::from(byte & 7) % Event::ALL.len()];
        scene.apply(event, usize::from(byte >> 3), &mut script);
        scene.tick();
        scene.check_limits();
    }
    scene.given
}

struct Harness {
    search: NemesisSearch,
    nodes: usize,
    now: Duration,
    /// The peer of each request.
    asked: Vec<usize>,
    /// Requests without an outcome.
    open: Vec<FetchId>,
    /// A block was returned and not rejected.
    is_accepted: bool,
    given: usize,
}

impl Harness {
    /// The low half of the byte is the number of peers, its highest bit tells whether the block's hash is known.
    fn new(settings: u8) -> Harness {
        let nodes = usize::from(settings & 0xf).clamp(1, MAX_NODES);
        let known = (0..nodes).map(|node| Endpoint::http("20.0.0.1", node as u16 + 1)).collect();
        let Expected { network, hash, .. } = expected();
        let hash = (settings & 0x80 != 0).then_some(*hash);
        let search = NemesisSearch::new(network.clone(), hash, known, Scope::Private, Duration::ZERO);
        Harness {
            search,
            nodes,
            now: Duration::ZERO,
            asked: Vec::new(),
            open: Vec::new(),
            is_accepted: false,
            given: 0,
        }
    }

    fn apply(&mut self, event: Event, with: usize, script: &mut impl Iterator<Item = u8>) {
        let mut byte = || script.next().unwrap_or(0);
        let good = &expected().block;
        let body = match event {
            Event::Pass => return self.now += Duration::from_millis(PAUSES[with % PAUSES.len()]),
            Event::Refuse => {
                self.search.on_block_rejected("a rule", self.now);
                self.is_accepted = false;
                return;
            }
            Event::Fail => return self.reply(with, failure(with), false),
            Event::Give => good.clone(),
            Event::Spoil => {
                let mut body = good.clone();
                for _ in 0..byte() % 8 {
                    let place = usize::from(u16::from_le_bytes([byte(), byte()])) % body.len();
                    body[place] ^= byte();
                }
                body
            }
            Event::Cut => {
                let length = usize::from(u16::from_le_bytes([byte(), byte()])).min(good.len());
                good[..length].to_vec()
            }
            Event::Noise => (0..byte()).map(|_| byte()).collect(),
        };
        let is_right = body == *good;
        self.reply(with, answer(200, body), is_right);
    }

    /// Completes one of the open requests.
    fn reply(&mut self, which: usize, response: Reply, is_right: bool) {
        if self.open.is_empty() {
            return;
        }
        let call = self.open.remove(which % self.open.len());
        match self.search.on_reply(call, response, self.now) {
            Some(block) => {
                assert!(!self.is_accepted, "two blocks at once");
                let Expected { network, hash, .. } = expected();
                let block = Block::from_bytes(&block, Context::of(network)).expect("a block");
                assert!(block.hash() == *hash, "another block than the one that is right");
                self.is_accepted = true;
                self.given += 1;
            }
            None => assert!(!is_right || self.is_accepted, "the right block was not taken"),
        }
        assert!(self.search.on_reply(call, failure(0), self.now).is_none(), "a call ends twice");
    }

    fn tick(&mut self) {
        while let Some((call, request)) = self.search.next_request(self.now) {
            self.asked.push(usize::from(request.endpoint.port) - 1);
            self.open.push(call);
        }
    }

    fn check_limits(&self) {
        let outstanding: BTreeSet<FetchId> = self.search.outstanding().collect();
        assert_eq!(outstanding, self.open.iter().copied().collect());
        assert!(outstanding.len() <= MAX_IN_FLIGHT);
        let next = self.search.next_due();
        assert!(next.is_some() || self.is_accepted || !outstanding.is_empty(), "it stands still");
        assert!(next.is_none_or(|due| due <= self.now + MAX_BACKOFF), "it rests for too long");
        let in_turn = self.asked.iter().enumerate().all(|(place, node)| place % self.nodes == *node);
        assert!(in_turn, "a node was left out");
    }
}

fn failure(which: usize) -> Reply {
    match which % 4 {
        0 => Err(FetchError::Silent(Duration::from_secs(10))),
        1 => Err(FetchError::Unreachable(std::io::ErrorKind::ConnectionRefused.into())),
        2 => Err(FetchError::TooLarge),
        _ => answer(503, vec![0x5a; which]),
    }
}

fn answer(status: u16, body: Vec<u8>) -> Reply {
    Ok(FetchResponse { from: IpAddr::V4(Ipv4Addr::LOCALHOST), response: Response { status, body } })
}

/// A network and its nemesis block.
struct Expected {
    network: Network,
    block: Vec<u8>,
    hash: Hash256,
}

fn expected() -> &'static Expected {
    static RIGHT: OnceLock<Expected> = OnceLock::new();
    RIGHT.get_or_init(|| {
        let (pair, byte) = (|seed| KeyPair::new(&PrivateKey::from_seed(&[seed; 32])), NetworkByte::TESTNET);
        let address = |seed| Address::from_public_key(&pair(seed).public(), byte);
        let grants = [(address(8), Amount::whole(8_000_000_000)), (address(9), Amount::whole(999_999_999))];
        let block = nemesis_block(&pair(1), Timestamp(300_000_000), byte, &grants);
        let network = Network {
            name: "example".to_owned(),
            byte,
            generation_hash: Hash256([7; 32]),
            nemesis_signer: address(1),
            total_amount: Amount::whole(8_999_999_999),
            chain: ChainParameters::after_all_forks(),
        };
        Expected { network, block: block.to_bytes(SigningForm::Verifiable), hash: block.hash() }
    })
}
