use std::collections::BTreeSet;
use std::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::crypto::{KeyPair, PrivateKey};
use crate::devnet::nemesis_block;
use crate::ip::Scope;
use crate::model::{Address, Height, Timestamp};
use crate::peer::testing::{broken, ok, status, timed_out, unreachable};
use crate::peer::wire::ErrorBody;

const SUPPLY: Amount = Amount::whole(9_000_000_000);

fn keys(seed: u8) -> KeyPair {
    KeyPair::new(&PrivateKey::from_seed(&[seed; 32]))
}

/// Returns a nemesis block of a signer that distributes all to two accounts.
fn block_of(signer: u8, second: Amount) -> Block {
    let network = Network::example().byte;
    let address = |seed| Address::from_public_key(&keys(seed).public(), network);
    let grants = [(address(8), Amount(SUPPLY.0 - 1_000)), (address(9), second)];
    nemesis_block(&keys(signer), Timestamp(300_000_000), network, &grants)
}

fn block() -> Block {
    block_of(1, Amount(1_000))
}

fn network() -> Network {
    let example = Network::example();
    let nemesis_signer = Address::from_public_key(&keys(1).public(), example.byte);
    Network { nemesis_signer, total_amount: SUPPLY, ..example }
}

/// A search and its queries: time, peer and request.
struct Scene {
    search: NemesisSearch,
    now: Duration,
    asked: Vec<(Duration, usize, FetchId)>,
}

impl Scene {
    fn new(nodes: u16, hash: Option<Hash256>) -> Scene {
        let known = (0..nodes).map(|node| Endpoint::http("10.0.0.1", node + 1)).collect();
        let search = NemesisSearch::new(network(), hash, known, Scope::Private, Duration::ZERO);
        Scene { search, now: Duration::ZERO, asked: Vec::new() }
    }

    fn turn(&mut self) {
        while let Some((id, request)) = self.search.next_request(self.now) {
            assert_eq!((&*request.target, request.body.len()), ("/block/at/public", 8));
            self.asked.push((self.now, usize::from(request.endpoint.port - 1), id));
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.turn();
    }

    fn nodes(&self) -> Vec<usize> {
        self.asked.iter().map(|(_, node, _)| *node).collect()
    }

    fn answer(&mut self, index: usize, response: Reply) -> Option<Vec<u8>> {
        let given = self.search.on_reply(self.asked[index].2, response, self.now);
        self.turn();
        given
    }
}

fn answer(body: Vec<u8>) -> Reply {
    ok(body, IpAddr::from([10, 0, 0, 1]))
}

fn good() -> Reply {
    answer(block().to_bytes(SigningForm::Verifiable))
}

fn gone() -> Reply {
    unreachable()
}

#[test]
fn peers_are_queried_one_by_one_after_a_failure_or_a_delay_within_a_limit() {
    let mut scene = Scene::new(8, None);
    scene.turn();
    scene.pass(NEXT_PEER_DELAY - Duration::from_millis(1));
    assert_eq!(scene.nodes(), [0]);
    scene.pass(Duration::from_millis(1));
    assert_eq!(scene.nodes(), [0, 1], "the first is slow");
    scene.answer(1, gone());
    assert_eq!(scene.nodes(), [0, 1, 2], "the second has failed");
    (0..9).for_each(|_| scene.pass(NEXT_PEER_DELAY));
    assert_eq!(scene.nodes().len(), MAX_IN_FLIGHT + 1);
    assert_eq!(scene.search.next_due(), None);
    scene.answer(0, timed_out());
    assert_eq!(scene.nodes().len(), MAX_IN_FLIGHT + 2);
}

#[test]
fn the_right_block_is_returned_and_no_peer_is_queried_during_its_import() {
    for hash in [None, Some(block().hash())] {
        let mut scene = Scene::new(3, hash);
        scene.turn();
        scene.pass(NEXT_PEER_DELAY);
        assert_eq!(scene.answer(0, good()), Some(block().to_bytes(SigningForm::Verifiable)));
        assert_eq!((scene.search.next_due(), scene.search.outstanding().count()), (None, 1));
        assert_eq!(scene.answer(1, good()), None, "one is enough");
        scene.pass(NEXT_PEER_DELAY * 9);
        assert_eq!(scene.nodes(), [0, 1]);
        // Some rule violations are found only on import.
        scene.search.on_block_rejected("a transaction has a wrong signature", scene.now);
        scene.turn();
        assert_eq!(scene.nodes(), [0, 1, 2]);
        assert!(scene.answer(2, good()).is_some());
    }
}

#[test]
fn a_wrong_block_is_skipped() {
    let bytes = |block: &Block| block.to_bytes(SigningForm::Verifiable);
    let (good_bytes, mut forged, mut regular, mut unsigned) = (bytes(&block()), block(), block(), block());
    forged.transactions.swap(0, 1);
    regular.height = Height(2);
    unsigned.signature = Some(keys(2).sign(b"something else"));
    let mut cut = good_bytes.clone();
    cut.pop();
    for (what, body) in [
        ("nothing", Vec::new()),
        ("noise", vec![0x5a; 5_000]),
        ("a list without end", [&good_bytes[..160], &[0xff; 8]].concat()),
        ("a block cut short", cut),
        ("JSON", Format::Json.to_bytes(&block())),
        ("another block of the chain", bytes(&regular)),
        ("a block of another signer", bytes(&block_of(2, Amount(1_000)))),
        ("a block that was changed after it was signed", bytes(&forged)),
        ("a block with a signature of something else", bytes(&unsigned)),
        ("a block that hands out too much", bytes(&block_of(1, Amount(1_001)))),
        ("a block that hands out more than there can be", bytes(&block_of(1, Amount(u64::MAX)))),
    ] {
        let mut scene = Scene::new(2, None);
        scene.turn();
        assert_eq!(scene.answer(0, answer(body)), None, "{what}");
        assert_eq!(scene.nodes(), [0, 1], "{what}: the next is asked at once");
        assert!(scene.answer(1, good()).is_some(), "{what}");
    }
}

#[test]
fn a_known_hash_decides_between_blocks_of_the_same_signer() {
    let other = block_of(1, Amount(1_000));
    let mut other = Block { timestamp: Timestamp(300_000_001), ..other };
    other.signature = Some(keys(1).sign(&other.to_bytes(SigningForm::NonVerifiable)));
    let other = other.to_bytes(SigningForm::Verifiable);
    let given = |hash| {
        let mut scene = Scene::new(1, hash);
        scene.turn();
        scene.answer(0, answer(other.clone()))
    };
    assert_eq!(given(Some(block().hash())), None);
    assert!(given(None).is_some(), "where nobody knows better, the signature counts");
}

#[test]
fn replies_without_a_block_do_not_stop_the_search() {
    let starting = Format::Binary.to_bytes(&ErrorBody::new(503, Some(ErrorBody::LOADING_CHAIN), Timestamp(1)));
    let replies = [
        gone(),
        timed_out(),
        broken(),
        status(503, starting),
        status(404, vec![1, 2, 3]),
        status(302, Vec::new()),
        good(),
    ];
    let mut scene = Scene::new(7, None);
    scene.turn();
    let given: Vec<_> = replies.into_iter().enumerate().map(|(index, reply)| scene.answer(index, reply)).collect();
    assert!(given[..6].iter().all(Option::is_none) && given[6].is_some());
    assert_eq!(scene.now, Duration::ZERO, "nobody was waited for");
}

#[test]
fn all_peers_are_queried_again_with_growing_backoff() {
    let mut scene = Scene::new(2, None);
    for _ in 0..9 {
        scene.turn();
        let asked = scene.asked.len();
        scene.answer(asked - 1, gone());
        scene.answer(asked, gone());
        let due = scene.search.next_due().expect("another round");
        scene.now = due;
    }
    let rounds: Vec<_> = scene.asked.iter().step_by(2).map(|(at, _, _)| at.as_secs()).collect();
    let rests: Vec<_> = rounds.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(rests, [5, 10, 20, 40, 80, 160, 300, 300]);
    assert_eq!(scene.nodes(), [0, 1].repeat(9));
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u16),
    Reply(u8, u8),
    Refused,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        any::<u16>().prop_map(Step::Pass),
        (any::<u8>(), any::<u8>()).prop_map(|(call, reply)| Step::Reply(call, reply)),
        Just(Step::Refused),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_search_queries_peers_in_order_within_its_limit_and_never_stalls(
        nodes in 1..12_u16,
        steps in steps(),
    ) {
        let (mut scene, mut open) = (Scene::new(nodes, None), BTreeSet::new());
        let (mut is_taken_in, mut seen) = (false, 1);
        let right = block().to_bytes(SigningForm::Verifiable);
        scene.turn();
        open.insert(scene.asked[0].2);
        for step in steps {
            match step {
                Step::Pass(millis) => scene.pass(Duration::from_millis(millis.into())),
                Step::Reply(call, reply) => {
                    let index = usize::from(call) % scene.asked.len();
                    let reply = match reply {
                        0..=15 => answer(right.clone()),
                        16..=60 => answer(vec![reply; usize::from(reply)]),
                        61..=120 => timed_out(),
                        _ => gone(),
                    };
                    open.remove(&scene.asked[index].2);
                    let given = scene.answer(index, reply);
                    prop_assert!(given.is_none() || !is_taken_in, "two blocks at once");
                    is_taken_in |= given.is_some();
                }
                Step::Refused => {
                    scene.search.on_block_rejected("a rule", scene.now);
                    scene.turn();
                    is_taken_in = false;
                }
            }
            open.extend(scene.asked[seen..].iter().map(|(_, _, call)| *call));
            seen = scene.asked.len();
            let outstanding: BTreeSet<_> = scene.search.outstanding().collect();
            prop_assert_eq!(&outstanding, &open);
            prop_assert!(outstanding.len() <= MAX_IN_FLIGHT);
            prop_assert!(scene.search.next_due().is_some() || is_taken_in || !outstanding.is_empty(), "it stands still");
        }
        // Each round queries every peer once.
        for (place, node) in scene.nodes().into_iter().enumerate() {
            prop_assert_eq!(node, place % usize::from(nodes));
        }
    }
}
