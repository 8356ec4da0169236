//! The search for the nemesis block: nodes that answer with anything in any order, blocks that were tampered with among
//! it, and time.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;
use std::time::Duration;

use nisd::codec::{Context, Form};
use nisd::crypto::{KeyPair, PrivateKey};
use nisd::devnet::nemesis_block;
use nisd::model::network::ChainParameters;
use nisd::model::{Address, Amount, Block, Hash256, Network, NetworkByte, Timestamp};
use nisd::peer::NemesisSearch;
use nisd::peer::nemesis_search::{AT_ONCE, LONGEST_REST};
use nisd::peer::outside::{CallId, Reply};
use nisd::peer::wire::Endpoint;

/// Steps of a script.
const MAX_STEPS: usize = 300;
/// Nodes that are known, at most.
const MAX_NODES: usize = 12;
/// Times that pass, in milliseconds.
const PAUSES: [u64; 6] = [1, 700, 2_000, 5_000, 61_000, 301_000];

/// What an input can have happen. The low three bits of a byte name it, the others say with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time passes.
    Pass,
    /// A node gives the block.
    Give,
    /// A node gives the block with bytes changed: how many is in a further byte, then each by its place (two bytes) and
    /// how it differs.
    Spoil,
    /// A node gives the block, cut after as many bytes as two further ones say.
    Cut,
    /// A node gives the bytes that follow; how many is in a further byte.
    Noise,
    /// A node is silent, away, breaks off or refuses.
    Fail,
    /// The block that was given breaks a rule.
    Refuse,
}

impl Event {
    /// All of them; an input names one by its place.
    pub const ALL: [Event; 7] =
        [Event::Pass, Event::Give, Event::Spoil, Event::Cut, Event::Noise, Event::Fail, Event::Refuse];
}

/// Nothing but the block itself is handed out, one at a time (the signatures of its transactions are looked at later);
/// few nodes are asked at once, all in turn; and the search never stands still. Returns how often the block was handed
/// out.
pub fn check(data: &[u8]) -> usize {
    let Some((settings, script)) = data.split_first() else { return 0 };
    let mut scene = Scene::new(*settings);
    let mut script = script.iter().copied();
    scene.turn();
    for _ in 0..MAX_STEPS {
        let Some(byte) = script.next() else { break };
        let event = Event::ALL[usize::from(byte & 7) % Event::ALL.len()];
        scene.happen(event, usize::from(byte >> 3), &mut script);
        scene.turn();
        scene.check_limits();
    }
    scene.given
}

struct Scene {
    search: NemesisSearch,
    nodes: usize,
    now: Duration,
    /// Whom each call asked.
    asked: Vec<usize>,
    /// Calls that nothing has come of.
    open: Vec<CallId>,
    /// A block was handed out and not refused.
    is_taken_in: bool,
    given: usize,
}

impl Scene {
    /// The low half of the byte says how many nodes are known, its highest bit whether the hash of the block is.
    fn new(settings: u8) -> Scene {
        let nodes = usize::from(settings & 0xf).clamp(1, MAX_NODES);
        let known = (0..nodes).map(|node| Endpoint::http("20.0.0.1", node as u16 + 1)).collect();
        let Right { network, hash, .. } = right();
        let hash = (settings & 0x80 != 0).then_some(*hash);
        let search = NemesisSearch::new(network.clone(), hash, known, Duration::ZERO);
        Scene { search, nodes, now: Duration::ZERO, asked: Vec::new(), open: Vec::new(), is_taken_in: false, given: 0 }
    }

    fn happen(&mut self, event: Event, with: usize, script: &mut impl Iterator<Item = u8>) {
        let mut byte = || script.next().unwrap_or(0);
        let good = &right().block;
        let body = match event {
            Event::Pass => return self.now += Duration::from_millis(PAUSES[with % PAUSES.len()]),
            Event::Refuse => {
                self.search.refused("a rule", self.now);
                self.is_taken_in = false;
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
        self.reply(with, Reply::Answer { body, from: IpAddr::V4(Ipv4Addr::LOCALHOST) }, is_right);
    }

    /// One of the open calls ends.
    fn reply(&mut self, which: usize, reply: Reply, is_right: bool) {
        if self.open.is_empty() {
            return;
        }
        let call = self.open.remove(which % self.open.len());
        match self.search.ended(call, reply, self.now) {
            Some(block) => {
                assert!(!self.is_taken_in, "two blocks at once");
                let Right { network, hash, .. } = right();
                let block = Block::from_bytes(&block, Context::of(network)).expect("a block");
                assert!(block.hash() == *hash, "another block than the one that is right");
                self.is_taken_in = true;
                self.given += 1;
            }
            None => assert!(!is_right || self.is_taken_in, "the right block was not taken"),
        }
        assert!(self.search.ended(call, Reply::Silent, self.now).is_none(), "a call ends twice");
    }

    fn turn(&mut self) {
        let Scene { search, now, asked, open, .. } = self;
        search.turn(*now, |node, _| {
            let call = CallId(asked.len() as u64);
            asked.push(node.port as usize - 1);
            open.push(call);
            call
        });
    }

    fn check_limits(&self) {
        let outstanding: BTreeSet<CallId> = self.search.outstanding().collect();
        assert_eq!(outstanding, self.open.iter().copied().collect());
        assert!(outstanding.len() <= AT_ONCE);
        let next = self.search.next_due();
        assert!(next.is_some() || self.is_taken_in || !outstanding.is_empty(), "it stands still");
        assert!(next.is_none_or(|due| due <= self.now + LONGEST_REST), "it rests for too long");
        let in_turn = self.asked.iter().enumerate().all(|(place, node)| place % self.nodes == *node);
        assert!(in_turn, "a node was left out");
    }
}

fn failure(which: usize) -> Reply {
    match which % 4 {
        0 => Reply::Silent,
        1 => Reply::Unreachable("refused".to_owned()),
        2 => Reply::Broken("the answer is too long".to_owned()),
        _ => Reply::Refused { status: 503, body: vec![0x5a; which] },
    }
}

/// A network and its nemesis block.
struct Right {
    network: Network,
    block: Vec<u8>,
    hash: Hash256,
}

fn right() -> &'static Right {
    static RIGHT: OnceLock<Right> = OnceLock::new();
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
        Right { network, block: block.to_bytes(Form::Verifiable), hash: block.hash() }
    })
}
