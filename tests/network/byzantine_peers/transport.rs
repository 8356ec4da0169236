//! Faulty responses at the transport level on which memory or time may depend: silence, endless and excessive bytes. A
//! simulated network has error statuses, cut and garbled responses, and proofs of others.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use flate2::Compression;
use flate2::write::GzEncoder;
use nisd::codec::Format;
use nisd::model::{Amount, Transaction};
use nisd::peer::wire::{List, Score};

use super::attacks::{Attack, ExpectedOpinion, Lie, truth};
use super::chain::ahead;
use super::{AttackScene, BYZANTINE};
use crate::common::private_network::{address, key_pair, now, transfer};
use crate::network::scripted_peer::{AfterResponse, HonestPeer, ReceivedRequest, ScriptedResponse, answer};

const INFO: &str = "/node/info";
const SCORE: &str = "/chain/score";
const BLOCKS: &str = "/chain/blocks-after";
const UNCONFIRMED: &str = "/transactions/unconfirmed";
/// Maximum memory in MiB while responses come in that are as large as all responses together may be, plus a half.
const RESPONSE_MEMORY: f64 = 64.0;
/// Announced size of a body that must not be accepted.
const HUGE: usize = 1 << 40;
const OK: &str = "HTTP/1.1 200 OK\r\n";

fn raw(text: impl Into<Vec<u8>>, then: AfterResponse) -> impl Lie {
    let bytes = text.into();
    move |_, _| ScriptedResponse::Raw(bytes.clone(), then)
}

/// The peer fails when it is asked for its identity, which decides its state.
fn at_first(name: &'static str, state: &'static str, lie: impl Lie) -> Attack {
    Attack::new(name, ExpectedOpinion::InState(state), INFO, truth, lie)
}

/// The peer fails during synchronisation, which is not penalized.
fn later(name: &'static str, path: &'static str, lie: impl Lie) -> Attack {
    Attack::new(name, ExpectedOpinion::NotPenalized, path, ahead, lie)
}

fn gzip_bomb() -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&vec![0; 64 << 20]).expect("room");
    let packed = packed.finish().expect("room");
    let length = packed.len();
    [format!("{OK}Content-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n").as_bytes(), &packed].concat()
}

/// The node requests its unconfirmed transactions because its chain claims to be as good as the node's.
fn unconfirmed(name: &'static str, lie: impl Lie) -> Attack {
    let attacked = Arc::new(OnceLock::new());
    let told = attacked.clone();
    let script = move |request: &ReceivedRequest, honest: &HonestPeer| match (request.path.as_str(), attacked.get()) {
        (SCORE, Some(attacked)) => ScriptedResponse::entity(&HonestPeer(*attacked).query::<Score>(SCORE, &[])),
        (UNCONFIRMED, _) => lie(request, honest),
        _ => ScriptedResponse::Truthful,
    };
    let attack = Attack::new(name, ExpectedOpinion::NotPenalized, UNCONFIRMED, truth, truth);
    let act = move |scene: &AttackScene| {
        told.get_or_init(|| scene.node.http);
        Vec::new()
    };
    Attack { script: Arc::new(script), act: Box::new(act), ..attack }
}

/// Returns this many payments of one account; only the first is correctly signed.
fn payments(count: u64) -> Vec<u8> {
    let (keys, to) = (key_pair(BYZANTINE + 1), address(&key_pair(BYZANTINE)));
    let one = transfer(&keys, to, Amount(1), Amount::whole(1), now());
    Format::Binary.to_bytes(&List((0..count).map(|fee| Transaction { fee: Amount(fee), ..one.clone() }).collect()))
}

pub fn attacks() -> Vec<Attack> {
    slow().into_iter().chain(at_first_contact()).chain(in_synchronisation()).collect()
}

fn long(bytes: usize) -> String {
    format!("{OK}Content-Length: {bytes}\r\n\r\n")
}

/// Attacks that take time.
fn slow() -> Vec<Attack> {
    let in_the_middle = [long(1 << 20).as_bytes(), &[0; 1000]].concat();
    vec![
        later("score: a byte every second", SCORE, raw(long(900), AfterResponse::Drip(0))),
        later("score: a head byte by byte", SCORE, raw(OK, AfterResponse::Drip(b'A'))),
        at_first("who it is: a byte every second", "failure", raw(long(1_000), AfterResponse::Drip(b'a'))),
        at_first("who it is: a head byte by byte", "failure", raw(OK, AfterResponse::Drip(b'A'))),
        later("score: silence", SCORE, raw("", AfterResponse::Hang)),
        later("blocks: silence in the middle", BLOCKS, raw(in_the_middle, AfterResponse::Hang)),
        at_first("who it is: silence", "busy", raw("", AfterResponse::Hang)),
    ]
}

fn at_first_contact() -> Vec<Attack> {
    let chunked = format!("{OK}Transfer-Encoding: chunked\r\n\r\n");
    let too_large = format!("{chunked}ffffffff\r\n");
    let interim = "HTTP/1.1 102 Go on\r\n\r\n".repeat(9_999);
    let in_json = |attack| Attack { settings: &[("nis.useBinaryTransport", "false")], ..attack };
    let bad = |name, text: Vec<u8>, then| at_first(name, "failure", raw(text, then));
    vec![
        bad("who it is: larger than it may be", long(HUGE).into(), AfterResponse::Flood(0)),
        bad("who it is: without an end", format!("{OK}\r\n").into(), AfterResponse::Flood(0)),
        bad("who it is: a head without an end", OK.into(), AfterResponse::Flood(b'A')),
        bad("who it is: chunks of no size", chunked.into(), AfterResponse::Flood(b'0')),
        bad("who it is: a chunk that is too large", too_large.into(), AfterResponse::Flood(0)),
        bad("who it is: interim answers without an end", interim.into(), AfterResponse::Hang),
        bad("who it is: a gzip bomb", gzip_bomb(), AfterResponse::KeepOpen),
        bad("who it is: not HTTP", vec![0xa5; 9_999], AfterResponse::KeepOpen),
        in_json(bad("who it is: JSON of many levels", answer(&[b'['; 9_000]), AfterResponse::KeepOpen)),
        in_json(bad("who it is: garbage for JSON", answer(&[0xa5; 9_000]), AfterResponse::KeepOpen)),
    ]
}

fn in_synchronisation() -> Vec<Attack> {
    // Announced as one chunk of the maximum size of a response with blocks.
    let one_chunk = format!("{OK}Transfer-Encoding: chunked\r\n\r\n2700000\r\n");
    let all_bytes =
        later("blocks: as many bytes as there may be, in one chunk", BLOCKS, raw(one_chunk, AfterResponse::Flood(0)));
    let without_an_end = later("blocks: without an end", BLOCKS, raw(format!("{OK}\r\n"), AfterResponse::Flood(0)));
    let any_size = [&900_u32.to_le_bytes()[..], &[0x7f; 900]].concat();
    let payments = payments(20_000);
    vec![
        later("score: of any size", SCORE, move |_, _| ScriptedResponse::Entity(any_size.clone())),
        Attack { memory: RESPONSE_MEMORY, ..all_bytes },
        Attack { memory: RESPONSE_MEMORY, ..without_an_end },
        unconfirmed("unconfirmed: garbage", |_, _| ScriptedResponse::Entity(vec![0xa5; 4 << 20])),
        unconfirmed("unconfirmed: twenty thousand of no use", move |_, _| ScriptedResponse::Entity(payments.clone())),
    ]
}
