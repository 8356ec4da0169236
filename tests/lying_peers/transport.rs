//! Answers that are wrong in whatever way they come: refusals, silence, bytes without an end, proofs of others.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::OnceLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use nisd::codec::Format;
use nisd::peer::wire::{CHALLENGE_BYTES, Challenge, Score};

use crate::attacks::{Attack, Becomes, truth};
use crate::chain::ahead;
use crate::common::private_network::key_pair;
use crate::scripted_peer::{Asked, Honest, Says, Then, signed};
use crate::{LIAR, Scene};

const INFO: &str = "/node/info";
const SCORE: &str = "/chain/score";
const BLOCKS: &str = "/chain/blocks-after";
const UNCONFIRMED: &str = "/transactions/unconfirmed";
/// MiB that a node may take while answers come that are as large as all answers together may be, and a half.
const OF_ANSWERS: f64 = 64.0;
/// Bytes of a body that nobody should take.
const HUGE: usize = 1 << 40;
const OK: &str = "HTTP/1.1 200 OK\r\n";

fn raw(text: impl Into<Vec<u8>>, then: Then) -> impl Fn(&Asked, &Honest) -> Says + Send + Sync {
    let bytes = text.into();
    move |_, _| Says::Raw(bytes.clone(), then)
}

fn status(line: &str) -> impl Fn(&Asked, &Honest) -> Says + Send + Sync + use<> {
    raw(format!("HTTP/1.1 {line}\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n"), Then::Stay)
}

/// Asked who it is it goes wrong, which decides on its state.
fn at_first(
    name: &'static str,
    state: &'static str,
    lie: impl Fn(&Asked, &Honest) -> Says + Send + Sync + 'static,
) -> Attack {
    Attack::new(name, Becomes::InState(state), INFO, truth, lie)
}

/// It goes wrong in synchronisation, for which nobody is blamed.
fn later(
    name: &'static str,
    path: &'static str,
    lie: impl Fn(&Asked, &Honest) -> Says + Send + Sync + 'static,
) -> Attack {
    Attack::new(name, Becomes::Unblamed, path, ahead, lie)
}

/// A proof over another challenge than the one that was sent.
fn of_another_challenge(_: &Asked, _: &Honest) -> Says {
    let score = Format::Binary.to_bytes(&Score(i128::MAX));
    Says::Body(signed(&score, &Challenge([3; CHALLENGE_BYTES]), &key_pair(LIAR)))
}

/// A proof of another node than the one that was asked.
fn of_another_key(asked: &Asked, _: &Honest) -> Says {
    let score = Format::Binary.to_bytes(&Score(i128::MAX));
    Says::Body(signed(&score, &asked.challenge().expect("a challenge"), &key_pair(LIAR + 1)))
}

fn gzip_bomb() -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&vec![0; 64 << 20]).expect("room");
    let packed = packed.finish().expect("room");
    let length = packed.len();
    [format!("{OK}Content-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n").as_bytes(), &packed].concat()
}

/// The node that is asked for its score, to say the same.
static ATTACKED: OnceLock<SocketAddr> = OnceLock::new();

fn tell_who_is_attacked(scene: &Scene) -> Vec<String> {
    ATTACKED.get_or_init(|| scene.node.http);
    Vec::new()
}

/// Says that it has as good a chain as the node that asks: it is asked for its unconfirmed transactions then.
fn same_score(asked: &Asked, _: &Honest) -> Says {
    match ATTACKED.get() {
        Some(attacked) if asked.path == SCORE => Says::entity(&Honest(*attacked).says::<Score>(SCORE, &[])),
        _ => Says::Truth,
    }
}

pub fn attacks() -> Vec<Attack> {
    let long = |bytes: usize| format!("{OK}Content-Length: {bytes}\r\n\r\n");
    let chunked = format!("{OK}Transfer-Encoding: chunked\r\n\r\n");
    // Announced as one chunk that is as long as an answer with blocks may be.
    let one_chunk = format!("{chunked}2700000\r\n");
    vec![
        at_first("who it is: a byte every second", "failure", raw(long(1_000), Then::Drip(b'a'))),
        at_first("who it is: a head byte by byte", "failure", raw(OK, Then::Drip(b'A'))),
        later("score: a byte every second", SCORE, raw(long(900), Then::Drip(0))),
        later("score: a head byte by byte", SCORE, raw(OK, Then::Drip(b'A'))),
        later("score: silence", SCORE, raw("", Then::Silence)),
        later(
            "blocks: silence in the middle",
            BLOCKS,
            raw([long(1 << 20).as_bytes(), &[0; 1000]].concat(), Then::Silence),
        ),
        at_first("who it is: silence", "busy", raw("", Then::Silence)),
        at_first("who it is: 503", "failure", status("503 Service Unavailable")),
        at_first("who it is: 500", "failure", status("500 Server Error")),
        at_first("who it is: 302", "failure", status("302 Found")),
        at_first("who it is: 204", "failure", status("204 No Content")),
        at_first("who it is: the connection breaks", "failure", raw(long(100), Then::Reset)),
        at_first("who it is: the connection ends too soon", "failure", raw(long(100), Then::Close)),
        at_first("who it is: more than announced", "failure", raw(format!("{}abc", long(2)), Then::Close)),
        at_first(
            "who it is: two lengths",
            "failure",
            raw(format!("{OK}Content-Length: 2\r\n{}", long(3)), Then::Flood(0)),
        ),
        at_first("who it is: larger than it may be", "failure", raw(long(HUGE), Then::Flood(0))),
        at_first("who it is: without an end", "failure", raw(format!("{OK}\r\n"), Then::Flood(0))),
        at_first("who it is: a head without an end", "failure", raw(OK, Then::Flood(b'A'))),
        at_first("who it is: chunks of no size", "failure", raw(chunked.clone(), Then::Flood(b'0'))),
        at_first(
            "who it is: a chunk that is too large",
            "failure",
            raw(format!("{chunked}ffffffff\r\n"), Then::Flood(0)),
        ),
        at_first(
            "who it is: interim answers without an end",
            "failure",
            raw("HTTP/1.1 102 Go on\r\n\r\n".repeat(9_999), Then::Silence),
        ),
        at_first("who it is: a gzip bomb", "failure", raw(gzip_bomb(), Then::Stay)),
        at_first("who it is: not HTTP", "failure", raw([0xa5; 9_999], Then::Stay)),
        at_first("who it is: garbage", "failure", |_, _| Says::Body(vec![0xa5; 300])),
        at_first("who it is: JSON", "failure", |_, _| Says::Body(b"{\"entity\":[[[[[[[[".to_vec())),
        at_first("who it is: another node", "failure", of_another_key),
        later("score: another challenge is signed", SCORE, of_another_challenge),
        later("score: another node signs", SCORE, of_another_key),
        later("score: of any size", SCORE, |_, _| Says::Entity([&900_u32.to_le_bytes()[..], &[0x7f; 900]].concat())),
        later("score: garbage, signed", SCORE, |_, _| Says::Entity(vec![0xff; 100])),
        later("score: 500", SCORE, status("500 Server Error")),
        later("blocks: as many bytes as there may be, in one chunk", BLOCKS, raw(one_chunk, Then::Flood(0)))
            .with_memory(OF_ANSWERS),
        later("blocks: without an end", BLOCKS, raw(format!("{OK}\r\n"), Then::Flood(0))).with_memory(OF_ANSWERS),
        Attack::new("unconfirmed: garbage", Becomes::Unblamed, UNCONFIRMED, same_score, |_, _| {
            Says::Entity(vec![0xa5; 4 << 20])
        })
        .acting(tell_who_is_attacked),
    ]
}
