//! Regenerates the seeds of all targets: `cargo run --example make_seeds` in this folder.
//!
//! Entities come from the project's test vectors and its smallest recorded chain; everything else is written by hand
//! here. Inputs found by fuzzing are in files named `found-…`, which are kept.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use nisd::chain::{BlockImporter, ImportOptions, ImportProgress};
use nisd::codec::block_file::BlockFile;
use nisd::codec::{Context, Format, SigningForm, Writable};
use nisd::config;
use nisd::crypto::{KeyPair, PrivateKey, Signature};
use nisd::model::{Block, Height, Timestamp, Transaction};
use nisd::net::http::{HEAD_LIMIT, MAX_HEADERS as MAX_HTTP_HEADERS};
use nisd::peer::trust::Experience;
use nisd::peer::wire::{
    AuthenticatedResponse, ChainRequest, CommunicationTimeStamps, ExperienceEntry, ExperiencePair, Identity, List,
    NodeExperiences, NodeInfo, NodeList, Query, Score, SecureEntity, ShortIds,
};
use nisd::state;
use nisd::store::{ChainIdentity, Options, Read, Store, Table};
use nisd::websocket_api::stomp::{DEFAULT_FRAME_BYTES, MAX_HEADERS};
use nisd_fuzz::announcements::Action;
use nisd_fuzz::connections::{Step, first_byte};
use nisd_fuzz::entities::selector;
use nisd_fuzz::pieces::with_sizes;
use nisd_fuzz::stomp::SEPARATOR;
use nisd_fuzz::{chain_part, configuration, interface, peer_wire, tiny};
use serde_json::Value;

fn main() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let vectors = File::open(project.join("tests/data/recorded/vectors-encoding.json.gz")).expect("the test vectors");
    let vectors: Value = serde_json::from_reader(GzDecoder::new(vectors)).expect("JSON");
    let tiny = project.join("tests/data/recorded/chains/tiny");
    http_request();
    response();
    websocket();
    stomp();
    sockjs();
    peers();
    lax_json();
    entities(&vectors);
    let chain = blocks(&fs::read(tiny.join("blocks.bin")).expect("a recorded chain"));
    block_files(&chain);
    chain_parts(&chain, &fs::read(tiny.join("losing-52.bin")).expect("its losing branches"));
    configurations(&fs::read(tiny.join("network.properties")).expect("its configuration"));
    connections();
    stored_values(&tiny);
    key_files();
    kept_peers();
    offline_files(&vectors);
    store_files();
    interfaces(&vectors);
    lists();
    event_streams();
    announcements();
    peer_wire(&vectors, &chain);
}

struct Seeds(PathBuf);

impl Seeds {
    /// Opens the folder of a target and removes its old seeds.
    fn of(target: &str) -> Seeds {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
        fs::create_dir_all(&folder).expect("a folder for seeds");
        for entry in fs::read_dir(&folder).expect("a folder") {
            let entry = entry.expect("an entry");
            if !entry.file_name().to_string_lossy().starts_with("found-") {
                fs::remove_file(entry.path()).expect("an old seed");
            }
        }
        Seeds(folder)
    }

    fn add(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.join(name), bytes).expect("a new seed");
    }
}

fn http_request() {
    let seeds = Seeds::of("http_request");
    let pipelined = "GET /chain/height HTTP/1.1\r\nHost: localhost:7890\r\n\r\n\
                     GET /account/get?address=TATKYDM665JL57UGFU4G7OWQPA2J2WNXOYO7WOLU HTTP/1.1\r\nhost: a\r\n\
                     Accept-Encoding: gzip\r\nConnection: close\r\n\r\n";
    let sized = "POST /block/at/public HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
                 Content-Length: 12\r\nExpect: 100-continue\r\n\r\n{\"height\":1}GET / HTTP/1.0\r\n\r\n";
    let chunked = "POST http://a:7890/block/at/public HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5;x=y\r\n{\"hei\r\n7\r\nght\":1}\r\n0\r\nX-Sum: 1\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n";
    let ambiguous = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc";
    for (name, text) in [("pipelined", pipelined), ("sized", sized), ("chunked", chunked), ("ambiguous", ambiguous)] {
        seeds.add(name, &with_sizes(text.as_bytes(), &[1, 7, 40]));
    }
    seeds.add("chunked-by-bytes", &with_sizes(chunked.as_bytes(), &[1]));
    seeds.add("whole", &with_sizes(pipelined.as_bytes(), &[]));
    let long = "a".repeat(HEAD_LIMIT);
    let many = "a: b\r\n".repeat(MAX_HTTP_HEADERS + 1);
    let body = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na";
    for (name, text) in [
        ("bad-header-name", "GET / HTTP/1.1\r\nHost: a\r\nb c: d\r\n\r\n"),
        ("unknown-coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n"),
        ("long-target", &format!("GET /{long} HTTP/1.1\r\n")),
        ("long-header", &format!("GET / HTTP/1.1\r\na: {long}\r\n")),
        ("many-headers", &format!("GET / HTTP/1.1\r\n{many}\r\n")),
        ("long-chunk", &format!("{body}a\r\n")),
        ("bad-trailer", &format!("{body}\r\n0\r\nno colon\r\n\r\n")),
        ("long-trailer", &format!("{body}\r\n0\r\na: {long}")),
        ("long-extension", &format!("{body}\r\n1;{long}\r\n")),
    ] {
        seeds.add(name, &with_sizes(text.as_bytes(), &[]));
    }
}

fn response() {
    let seeds = Seeds::of("response");
    let sized = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"height\":1}";
    let chunked = "HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5;x=y\r\n{\"hei\r\n7\r\nght\":1}\r\n0\r\nX-Sum: 1\r\n\r\n";
    let until_closed = "HTTP/1.0 404 Not Found\r\n\r\n{\"error\":\"Not Found\"}";
    let interim = format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nA: b\r\n\r\n{sized}more");
    let empty = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    let redirect = "HTTP/1.1 302 Found\r\nLocation: http://a/\r\nContent-Length: 0\r\n\r\n";
    let announced = "HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\n\r\nthe beginning";
    let old = "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok";
    for (name, text) in [
        ("sized", sized),
        ("chunked", chunked),
        ("until-closed", until_closed),
        ("interim", &interim),
        ("empty", empty),
        ("redirect", redirect),
        ("announced", announced),
        ("old", old),
    ] {
        seeds.add(name, &with_sizes(text.as_bytes(), &[1, 7, 40]));
    }
    seeds.add("chunked-by-bytes", &with_sizes(chunked.as_bytes(), &[1]));
    seeds.add("interim-whole", &with_sizes(interim.as_bytes(), &[]));
}

fn websocket() {
    let seeds = Seeds::of("websocket");
    let handshake = b"GET /w/messages/websocket HTTP/1.1\r\nHost: localhost:7778\r\nUpgrade: websocket\r\n\
                      Connection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                      Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: v12.stomp, v11.stomp\r\nOrigin: http://a\r\n\
                      Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n";
    let connect = client_frame(0x81, b"CONNECT\naccept-version:1.2\n\n\0");
    seeds.add("handshake-and-text", &with_sizes(&[handshake, &connect[..]].concat(), &[1, 90]));
    let refused = b"GET /w/messages/websocket HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\
                    Connection: Upgrade\r\nSec-WebSocket-Version: 8\r\n\r\nGET /w/messages/info HTTP/1.1\r\nHost: a\r\n\r\n";
    seeds.add("refused-handshake", &with_sizes(refused, &[50]));
    let fragments = [
        client_frame(0x01, "Gr\u{fc}\u{df}e, ".as_bytes()),
        client_frame(0x89, b"ping"),
        client_frame(0x00, b""),
        client_frame(0x80, b"fragments"),
        client_frame(0x82, &[0xff, 0x00]),
        client_frame(0x8a, b"unasked pong"),
        client_frame(0x88, b"\x03\xe8bye"),
    ]
    .concat();
    seeds.add("fragments-ping-close", &with_sizes(&fragments, &[1, 3, 12]));
    seeds.add("by-bytes", &with_sizes(&fragments, &[1]));
    seeds.add("empty-close", &with_sizes(&client_frame(0x88, b""), &[]));
    seeds.add("long-text", &with_sizes(&client_frame(0x81, &[b'x'; 300]), &[100]));
    seeds.add("unmasked", &with_sizes(b"\x81\x02hi", &[]));
    seeds.add("too-large", &with_sizes(&[0x81, 0xff, 0, 0, 0, 0, 0, 1, 0, 1, 1, 2, 3, 4], &[2]));
    seeds.add("not-utf8", &with_sizes(&client_frame(0x81, b"\xc3\x28"), &[]));
}

/// Returns a masked frame whose first byte is `first`.
fn client_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [1, 2, 3, 4];
    let mut frame = vec![first];
    match payload.len() {
        short @ 0..126 => frame.push(0x80 | short as u8),
        longer => {
            frame.push(0x80 | 126);
            frame.extend((longer as u16).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

fn sockjs() {
    let seeds = Seeds::of("sockjs_payload");
    for (name, text) in [
        ("message", r#"["CONNECT\naccept-version:1.1,1.0\n\n\u0000"]"#),
        ("several", r#"["a\u2028", "\ud83d\ude00", ""]"#),
        ("lax", "['a', b]"),
        ("broken", r#"["CONNECT\n\n\u0000"#),
        ("null", "[null]"),
        ("number", r#"["a", 1]"#),
        ("empty", "[]"),
    ] {
        seeds.add(name, text.as_bytes());
    }
}

fn peers() {
    use nisd_fuzz::peer_machine::Event;
    let seeds = Seeds::of("peer_machine");
    let step = |event: Event, with: u8| {
        Event::ALL.iter().position(|other| *other == event).expect("an event") as u8 | with << 4
    };
    let join = [vec![step(Event::Pass, 0)], vec![step(Event::Answer, 5); 4], vec![step(Event::Pass, 2)]].concat();
    let tasks =
        [vec![step(Event::Answer, 3); 20], vec![step(Event::Pass, 3)], vec![step(Event::Answer, 2); 20]].concat();
    let behind = vec![step(Event::Validated, 0), step(Event::Pass, 1), step(Event::Push, 0), step(Event::Block, 0)];
    // Three listed peers, the second without its key; binary and JSON.
    for (name, settings) in [("binary", 0x30), ("json", 0x31), ("without-address", 0x32)] {
        seeds.add(name, &[vec![settings], join.clone(), tasks.clone(), behind.clone(), tasks.clone()].concat());
    }
    // A chain that is far ahead, without and with a trusted checkpoint.
    let ahead = [step(Event::Answer, 15), step(Event::Long, 0), 255, step(Event::Pass, 1), step(Event::Ahead, 15)];
    for (name, settings) in [("ahead", 0x30), ("vouched-for", 0x38)] {
        seeds.add(name, &[vec![settings], join.clone(), ahead.repeat(70)].concat());
    }
    let alone = [step(Event::Pass, 0), step(Event::SignOfLife, 2), step(Event::Answer, 0), step(Event::Pass, 2)];
    seeds.add("alone", &[&[0x00][..], &alone, &tasks].concat());
    let bad = [
        [step(Event::Spoilt, 3), 30, 1].to_vec(),
        [step(Event::Cut, 3), 30].to_vec(),
        [step(Event::Fail, 0), 1].to_vec(),
        [step(Event::Long, 0), 200].to_vec(),
        vec![step(Event::Store, 1), step(Event::Grow, 3)],
    ];
    let bad = bad.concat();
    seeds.add("bad", &[&[0x70][..], &join, &bad, &tasks, &bad, &bad, &[step(Event::Pass, 6)], &tasks, &bad].concat());
}

fn stomp() {
    const ADDRESS: &str = "TATKYDM665JL57UGFU4G7OWQPA2J2WNXOYO7WOLU";
    let seeds = Seeds::of("stomp");
    let records = |records: &[(char, &str)]| {
        let bytes = records.iter().map(|(selector, message)| [&[*selector as u8], message.as_bytes()].concat());
        bytes.collect::<Vec<_>>().join(&SEPARATOR)
    };
    let subscribe = format!("SUBSCRIBE\nid:sub-1\ndestination:/transactions/{ADDRESS}\n\n\0");
    let json = format!("{{'account':'{ADDRESS}'}}");
    let request = format!("SEND\ndestination:/w/api/account/subscribe\ncontent-length:{}\n\n{json}\0", json.len());
    let get = format!("SEND\r\ndestination:/w/api/account/get\r\n\r\n{{account:{ADDRESS}}}\0\n");
    seeds.add(
        "wallet",
        &records(&[
            ('0', "CONNECT\naccept-version:1.1,1.0\nheart-beat:10000,10000\n\n\0"),
            ('0', "SUBSCRIBE\nid:sub-0\ndestination:/blocks/new\n\n\0"),
            ('0', &subscribe),
            ('8', &request),
            ('0', &get),
            ('8', "UNSUBSCRIBE\nid:sub-1\n\n\0DISCONNECT\nreceipt:77\n\n\0"),
        ]),
    );
    let owned = |request: &str, topic: &str| {
        let subscribe = format!("SUBSCRIBE\nid:{topic}\ndestination:{topic}/{ADDRESS}\n\n\0");
        format!("{subscribe}SEND\ndestination:/w/api/{request}\n\n{json}\0")
    };
    seeds.add(
        "explorer",
        &records(&[
            ('0', "CONNECT\naccept-version:1.2\n\n\0SUBSCRIBE\nid:n\ndestination:/node/info\n\n\0"),
            ('0', "SEND\ndestination:/w/api/node/info\n\n\0"),
            ('0', &owned("account/mosaic/owned", "/account/mosaic/owned")),
            ('0', &owned("account/mosaic/owned/definition", "/account/mosaic/owned/definition")),
            ('0', &owned("account/namespace/owned", "/account/namespace/owned")),
            ('0', &owned("account/transfers/all", "/recenttransactions")),
        ]),
    );
    seeds.add(
        "two-sessions",
        &records(&[
            ('0', "CONNECT\n\n\0"),
            ('1', "STOMP\naccept-version : 1.2 \nhost:a\n\n\0"),
            ('0', &request),
            ('1', "SUBSCRIBE\ndestination:/blocks*\nreceipt:r\\c1\n\n\0SUBSCRIBE\nid:2\ndestination:/errors\n\n\0"),
            ('9', "SEND\ndestination:/w/api/account/get\n\nno JSON\0"),
            ('2', "SUBSCRIBE\nid:1\ndestination:/blocks\n\n\0"),
            ('=', "SEND\ndestination:/w/api/block/last\n\n\0"),
        ]),
    );
    seeds.add(
        "cut-frames",
        &records(&[('0', "SUBSCRIBE\nid:1\nde"), ('0', "stination:/blocks/"), ('8', "*\n\n\0\n\n")]),
    );
    seeds.add(
        "errors",
        &records(&[
            ('0', "HELLO\n\n\0"),
            ('0', "SEND\na\\x:b\n\n\0"),
            ('0', "SEND\nno colon\n\n\0"),
            ('0', "SUBSCRIBE\nid:1\n\nbody\0"),
            ('0', "SEND\ncontent-length:3\n\nabcd\0"),
            ('0', "CONNECT\nheart-beat:a,b\n\n\0"),
            ('0', "SEND\ncontent-type:json\n\n\0"),
            ('0', "CONNECT\naccept-version:9\n\n\0"),
            ('0', "SEND\ncontent-length:99999\n\n"),
        ]),
    );
    seeds.add(
        "line-ends-and-escapes",
        &records(&[
            (
                '0',
                "CONNECT\naccept-version:1.2\n\n\0\r\n\r\nSUBSCRIBE\nid:1\ndestination:/a\nreceipt:\\n\\r\\\\\\c\n\n\0",
            ),
            ('0', "BEGIN\ntransaction:1\nreceipt:2\n\n\0"),
            ('0', "SUBSCRIBE\nid:1\nreceipt:\\n\\r\n\n\0SEND\n\n\0UNSUBSCRIBE\n\n\0"),
            ('1', "\rCONNECT\n\n\0"),
            ('1', "CONNECT\ra\n\n\0"),
            ('0', &format!("SUBSCRIBE\nid:2\ndestination:/status/{}\n\n\0", "5a".repeat(32))),
        ]),
    );
    let payloads = ["null", "[1]", "{'account':null}", "{'account':' '}", "{'account':{}}"];
    let payloads = payloads.map(|text| format!("SEND\ndestination:/w/api/account/get\n\n{text}\0")).concat();
    let long = format!("SEND\ndestination:/w/api/account/get\n\n{}\0", "[".repeat(5_000));
    seeds.add("payloads", &records(&[('0', "CONNECT\n\n\0"), ('0', &payloads), ('0', &long)]));
    let many = "a:b\n".repeat(MAX_HEADERS + 2);
    seeds.add("many-headers", &records(&[('0', "CONNECT\n\n\0"), ('0', &format!("SEND\n{many}\n\0"))]));
    let large = "a".repeat(DEFAULT_FRAME_BYTES / 2 + 1);
    seeds.add("large-frame", &records(&[('0', &format!("CONNECT\n\n\0SEND\n\n{large}")), ('0', &large), ('0', "\0")]));
}

fn lax_json() {
    let seeds = Seeds::of("lax_json");
    for (name, text) in [
        ("strict", r#"{"a":[1,-2,3.5,1e-2,true,false,null,"x\u00e9\ud83d\ude00\n\/"],"b":{},"c":[]}"#),
        ("single-quotes", r"{'account':'TALICE','it\'s':'\x41'}"),
        ("no-quotes", "{ account : TALICE , b:[a b,1}c,005,NaN,-0] }"),
        ("commas-and-trailing", "[,1,,2,] trailing"),
        ("repeated-keys", "{a:1,b:2,'a':3,\"a\":{}}"),
        ("huge", "[9223372036854775808,-9223372036854775808,1e999,1.7976931348623157e308,5e-324]"),
        ("half-surrogates", r#"["\ud83d","\ude00\ud83d\u0041","\q"]"#),
        ("deep", "[[[[[[[[{a:[[[{}]]]}]]]]]]]]"),
    ] {
        seeds.add(name, text.as_bytes());
    }
    seeds.add("not-utf8", b"{'a\xff':'\xed\xa0\x80'}");
}

/// Transactions and blocks in both formats; also the reading cases whose input is read as something other than what was
/// written.
fn entities(vectors: &Value) {
    let transactions = Seeds::of("binary_transaction");
    let blocks = Seeds::of("binary_block");
    let json = Seeds::of("json_transaction_and_block");
    let text = |row: &Value, name: &str| row[name].as_str().expect("a text").to_owned();
    let bytes = |row: &Value, name: &str| hex::decode(text(row, name)).expect("hex");
    for (section, seeds) in [("transactions", &transactions), ("blocks", &blocks)] {
        for row in vectors[section].as_array().expect("a list") {
            let (name, network) = (text(row, "name"), text(row, "network"));
            let with = |form, bytes: &[u8]| [&[selector(form, &network)], bytes].concat();
            seeds.add(&name, &with(SigningForm::Verifiable, &bytes(row, "verifiable")));
            seeds.add(&format!("{name}.data"), &with(SigningForm::NonVerifiable, &bytes(row, "data")));
            json.add(&name, &with(SigningForm::Verifiable, text(row, "json").as_bytes()));
        }
    }
    let reading = vectors["reading"].as_array().expect("a list").iter().enumerate();
    for (number, row) in reading.filter(|(_, row)| row["result"] == "ok" && row["changed"] == true) {
        let form = if row["mode"] == "verifiable" { SigningForm::Verifiable } else { SigningForm::NonVerifiable };
        let first = selector(form, &text(row, "network"));
        let name = format!("reading-{number:03}");
        if row["format"] == "json" {
            json.add(&name, &[&[first], text(row, "input").as_bytes()].concat());
        } else {
            let seeds = if row["entity"] == "block" { &blocks } else { &transactions };
            seeds.add(&name, &[&[first], &bytes(row, "input")[..]].concat());
        }
    }
}

/// Splits a file into its blocks, each with its length prefix.
fn blocks(file: &[u8]) -> Vec<Vec<u8>> {
    let mut blocks = Vec::new();
    let mut rest = file;
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let (block, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
        blocks.push([&length[..], block].concat());
        rest = behind;
    }
    blocks
}

/// The following blocks, each block of the chain as if it followed, and a branch that lost.
fn chain_parts(chain: &[Vec<u8>], losing: &[u8]) {
    let seeds = Seeds::of("chain_part");
    let add = |name: &str, common: u64, flags: u8, blocks: &[Vec<u8>]| {
        seeds.add(name, &[&[chain_part::selector(common, flags)], blocks.concat().as_slice()].concat());
    };
    // The first block of the file has height 2.
    let between = |first: u64, last: u64| &chain[first as usize - 2..=last as usize - 2];
    for common in chain_part::TIP - 3..=chain_part::TIP {
        add(&format!("next-{common}"), common, 0, between(common + 1, 60));
        add(&format!("next-{common}-signed"), common, chain_part::SIGN, between(common + 1, 60));
        add(&format!("worse-{common}"), common, 0, between(common + 1, common + 1));
    }
    add("early", chain_part::TIP, chain_part::EARLY, between(chain_part::TIP + 1, 60));
    add("losing-52", 52, 0, &blocks(losing));
    add("losing-52-signed", 52, chain_part::SIGN, &blocks(losing));
    for height in 2..=50 {
        let flags = chain_part::SIGN | chain_part::REPAIR;
        add(&format!("moved-{height:02}"), chain_part::TIP, flags, between(height, height));
    }
}

fn block_files(blocks: &[Vec<u8>]) {
    let seeds = Seeds::of("block_file");
    // The first block of the chain is the nemesis block, which is large.
    let small = blocks.get(1..4).expect("a chain of more than three blocks").concat();
    let small = small.as_slice();
    let tiny: &[u8] = &[1, 0, 0, 0, 7, 2, 0, 0, 0, 8, 9];
    seeds.add("chain", &with_sizes(small, &[1, 100]));
    seeds.add("chain.gz", &with_sizes(&gzip(small), &[7]));
    seeds.add("tiny", &with_sizes(tiny, &[]));
    seeds.add("tiny.gz", &with_sizes(&gzip(tiny), &[]));
    seeds.add("tiny-by-bytes.gz", &with_sizes(&gzip(tiny), &[1]));
    seeds.add("two-members.gz", &with_sizes(&[gzip(tiny), gzip(tiny)].concat(), &[20]));
    seeds.add("cut", &with_sizes(&tiny[..10], &[3]));
    seeds.add("too-large", &with_sizes(&[1, 0, 0, 0, 7, 1, 0, 0, 1, 0], &[]));
    // A megabyte of zeros after a matching length; compressed it takes a kilobyte.
    let zeros = [&(1u32 << 20).to_le_bytes()[..], &vec![0; 1 << 20]].concat();
    seeds.add("inflating.gz", &with_sizes(&gzip(&zeros), &[]));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("a vector takes everything")
}

fn configurations(recorded: &[u8]) {
    let seeds = Seeds::of("configuration");
    let add = |name: &str, place: u8, form: u8, bytes: &[u8]| {
        seeds.add(name, &[&[configuration::selector(place, form)], bytes].concat());
    };
    add("private.properties", 2, 0, recorded);
    let operator = "# An operator's file\nnem.network=testnet\nnem.host = 127.0.0.1\nnem.httpPort:7890\n\
                    nem.folder=%h/nem\nnis.bootName=\\u00dcber\\\n   all\nnis.shouldAutoBoot=true\n\
                    nis.optionalFeatures=TRANSACTION_HASH_LOOKUP|HISTORICAL_ACCOUNT_DATA\n\
                    nis.additionalLocalIps=10.*.*.7|fe80:0:0:0:*:*:*:1|wallet.example\n\
                    nisd.maxBuffered=512M\nnisd.clock=1000+\nnis.httpport=1\nnisd.data=data";
    for (place, form) in [(0, 0), (2, 1), (3, 2), (2, 3), (3, 4), (2, 5), (4, 2), (4, 7)] {
        add(&format!("operator-{place}-{form}.properties"), place, form, operator.as_bytes());
    }
    add("wrong.properties", 3, 7, b"nem.network=Mainnet\nnem.httpPort=0x1\nnisd.nothing=1\n\xfc=\\u12\n");
    add("wrong.json", 0, 0, b"{\"nem.httpPort\":7890}");
}

/// Scripts of actions of clients, time and the loop.
fn connections() {
    use Step::{
        Break, Bytes, Connect, End, Flush, Frame, Ready, Report, Room, SendPhrase, Serve, Shutdown, Sweep, Tick, Wait,
    };
    let seeds = Seeds::of("connections");
    let add = |name: &str, limits: u8, steps: &[(Step, u8, &[u8])]| {
        let steps = steps.iter().flat_map(|(step, who, with)| [&[first_byte(*step, *who)], *with].concat());
        seeds.add(name, &[limits].into_iter().chain(steps).collect::<Vec<u8>>());
    };
    let open: [(Step, u8, &[u8]); 3] = [(Connect, 0, &[1]), (SendPhrase, 0, &[15]), (Serve, 3, &[])];
    let with = |steps: &[(Step, u8, &'static [u8])]| [&open[..], steps].concat();
    let everything: Vec<(Step, u8, Vec<u8>)> = (0..16).map(|phrase| (SendPhrase, 0, vec![phrase])).collect();
    for (name, limits) in [("everything", 0), ("everything-with-little-output", 1), ("everything-with-little-room", 4)]
    {
        let said = everything.iter().map(|(step, who, with)| (*step, *who, with.as_slice()));
        let steps: Vec<_> =
            said.flat_map(|say| [(Connect, 0, &[0x01_u8][..]), say, (Serve, 5, &[]), (Tick, 0, &[0])]).collect();
        add(name, limits, &steps);
    }
    let pipelined: [(Step, u8, &[u8]); 7] = [
        (Connect, 0, &[2]),
        (SendPhrase, 0, &[0x31]),
        (SendPhrase, 0, &[0x84]),
        (Serve, 2, &[]),
        (SendPhrase, 0, &[0x05]),
        (Tick, 0, &[0]),
        (Serve, 9, &[]),
    ];
    add("pipelined", 0, &pipelined);
    add(
        "too-many-requests",
        0x40,
        &[(Connect, 0, &[2]), (SendPhrase, 0, &[0x30]), (SendPhrase, 0, &[0x30]), (Serve, 4, &[])],
    );
    add(
        "a-proxy",
        0,
        &[(Connect, 0, &[6]), (SendPhrase, 0, &[0x3a]), (SendPhrase, 0, &[0x1b]), (Serve, 4, &[]), (Wait, 3, &[])],
    );
    add(
        "turned-away",
        0x30,
        &[(Connect, 0, &[1]), (Connect, 0, &[1]), (Connect, 0, &[1]), (SendPhrase, 0, &[0]), (Flush, 3, &[])],
    );
    add(
        "a-stream-that-takes-too-long",
        0,
        &[
            (Connect, 0, &[2]),
            (SendPhrase, 0, &[5]),
            (Serve, 2, &[]),
            (Flush, 2, &[]),
            (Wait, 6, &[]),
            (Sweep, 0, &[]),
            (Flush, 0, &[]),
        ],
    );
    add(
        "a-reader-that-stalls",
        1,
        &[
            (Connect, 0, &[10]),
            (SendPhrase, 0, &[0x24]),
            (Serve, 4, &[]),
            (Room, 0, &[20]),
            (Serve, 4, &[]),
            (Wait, 5, &[]),
            (Sweep, 0, &[]),
        ],
    );
    add(
        "a-body-that-stays-away",
        0,
        &[
            (Connect, 0, &[1]),
            (SendPhrase, 0, &[14]),
            (Serve, 0, &[]),
            (Bytes, 0, b"\x05hello"),
            (Wait, 6, &[]),
            (Sweep, 0, &[]),
        ],
    );
    add(
        "an-end-and-a-break",
        0,
        &[
            (Connect, 0, &[1]),
            (SendPhrase, 0, &[2]),
            (End, 0, &[]),
            (Serve, 3, &[]),
            (Connect, 0, &[1]),
            (SendPhrase, 0, &[3]),
            (Serve, 0, &[]),
            (Break, 0, &[]),
            (Ready, 0, &[]),
        ],
    );
    add(
        "echoes",
        0,
        &with(&[
            (Frame, 0, b"\x81eP\x00"),
            (Frame, 0, b"\x89pi\x00"),
            (Serve, 3, &[]),
            (Frame, 0, b"\x01g\xff\x02"),
            (Frame, 0, b"\x80..\x00"),
            (Serve, 3, &[]),
            (Frame, 0, b"\x88\x03\xe8\x00"),
            (Serve, 0, &[]),
            (Report, 0, &[]),
        ]),
    );
    add(
        "many-pings",
        0,
        &with(&[
            (Frame, 0, b"\x89..\x00"),
            (Frame, 0, b"\x8a..\x07"),
            (Frame, 0, b"\x81u\x03\x00"),
            (Frame, 0, b"\x81p\x05\x00"),
            (Serve, 9, &[]),
            (Tick, 0, &[0]),
            (Serve, 9, &[]),
        ]),
    );
    for (name, limits) in [("shared", 0), ("shared-with-little-backlog", 2), ("shared-with-little-memory", 8)] {
        let slow: [(Step, u8, &[u8]); 6] = [
            (Connect, 0, &[9]),
            (SendPhrase, 0, &[15]),
            (Room, 0, &[16]),
            (Serve, 3, &[]),
            (Frame, 0, b"\x81sS\x00"),
            (Serve, 2, &[]),
        ];
        let told: [(Step, u8, &[u8]); 6] = [
            (Tick, 0, &[0x44]),
            (Flush, 2, &[]),
            (Tick, 1, &[0x33]),
            (Tick, 0, &[0x64]),
            (Flush, 3, &[]),
            (Report, 0, &[]),
        ];
        add(name, limits, &[&open[..], &slow, &told, &told, &[(Room, 0, &[200]), (Flush, 3, &[])]].concat());
    }
    add(
        "closed-and-silent-websockets",
        0,
        &[
            &open[..],
            &open,
            &[
                (Tick, 0, &[5]),
                (Flush, 1, &[]),
                (Wait, 7, &[]),
                (Sweep, 0, &[]),
                (Flush, 1, &[]),
                (Wait, 4, &[]),
                (Sweep, 0, &[]),
            ],
        ]
        .concat(),
    );
    add(
        "shutdown",
        0,
        &[
            &open[..],
            &[
                (Connect, 0, &[1]),
                (SendPhrase, 0, &[5]),
                (Connect, 0, &[1]),
                (SendPhrase, 0, &[15]),
                (Serve, 0, &[]),
                (Shutdown, 0, &[]),
                (Serve, 9, &[]),
                (Tick, 0, &[0]),
                (Flush, 3, &[]),
            ],
        ]
        .concat(),
    );
}

/// Returns the number of leading key bytes by which rows of a table are looked up; in most tables an address or a name.
fn known_bytes(table: Table) -> usize {
    match table {
        Table::Accounts | Table::PublicKeys | Table::EligibleAccounts | Table::SkipPointers | Table::Harvests => 4,
        Table::OwnershipPeriods | Table::Subnamespaces | Table::Holdings => 4,
        Table::Mosaics | Table::Balances => 8,
        Table::MosaicNumbers => 4 + "a.b:c".len(),
        Table::Blocks | Table::Undo | Table::Importances | Table::Outlinks | Table::AccountTxLists => 8,
        Table::SupplyChanges => 8,
        Table::BalanceHistory => 1,
        Table::Hashes => 12,
        Table::HashRuns => 5,
        Table::AccountIds => 10,
        _ => 40,
    }
}

/// The first entries of each table of a recorded chain.
fn stored_values(tiny: &Path) {
    let seeds = Seeds::of("stored_values");
    let settings = config::load(Some(&tiny.join("network.properties")), Vec::new(), Some(tiny));
    let mut settings = settings.expect("its configuration");
    // Hash epochs and the rewrite limit are short, so that hashes are compacted.
    settings.network.chain.rewrite_limit = 10;
    settings.network.chain.history_from = Some(Height::NEMESIS);
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(folder.path(), &ChainIdentity::of(&settings.network), Options { map_size: 256 << 20 })
        .expect("a store");
    let mut batch = store.begin_write().expect("a batch");
    state::set_epoch_size(&mut batch, 0).expect("room");
    batch.commit().expect("room");
    let file = BlockFile::new(fs::File::open(tiny.join("blocks.bin")).expect("its blocks")).expect("its blocks");
    let options = ImportOptions { trusted_below: Height(1000), ..ImportOptions::DEFAULT };
    let nemesis = settings.nemesis.read().expect("its nemesis block");
    let mut intake =
        BlockImporter::new(&store, &settings.network, nemesis, vec![file], options).expect("an empty store");
    while intake.step(Timestamp(i32::MAX - 100)).expect("a good block") != ImportProgress::Done {}
    drop(intake);
    let snapshot = store.snapshot().expect("a snapshot");
    let mut all = Vec::new();
    for table in (0..=u8::MAX).map_while(Table::from_number) {
        let mut entries = Vec::new();
        for entry in snapshot.entries(table, &[]).expect("a table") {
            let (key, value) = entry.expect("an entry");
            if value.len() > 3000 {
                continue;
            }
            let own = key.get(known_bytes(table)..).unwrap_or(key);
            for (extra, value) in [(0, value), (own.len() as u8, own)] {
                entries.extend([table as u8, extra]);
                entries.extend((value.len() as u16).to_le_bytes());
                entries.extend(value);
            }
            if entries.len() >= 1500 {
                break;
            }
        }
        if !entries.is_empty() {
            all.extend_from_slice(&entries[..entries.len().min(300)]);
            seeds.add(table.name(), &entries);
        }
    }
    seeds.add("all", &all);
    seeds.add("supply", &supply());
}

/// Entries of a mosaic definition, a supply change of it, and the lease of its root namespace.
fn supply() -> Vec<u8> {
    let row = 1u64.to_be_bytes();
    let text = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let height = 5u64.to_le_bytes();
    let definition =
        [height.as_slice(), &text("a.b:c"), &[7; 32], &text("some"), &[2], &9u64.to_le_bytes(), &[1, 1]].concat();
    let provision = [height.as_slice(), "TALICELCD3XPH4FFI5STGGNSNSWPOTG5E4DS2TOS".as_bytes(), &text("a")].concat();
    let change = [6u64.to_be_bytes().as_slice(), &[0, 0, 0, 1]].concat();
    let entries = [
        (Table::Definitions, 0, definition),
        (Table::ListingIndex, 255, [b"ma.b:c\0".as_slice(), &row].concat()),
        (Table::SupplyChanges, change.len() as u8, change.clone()),
        (Table::Provisions, 0, provision),
        (Table::ListingIndex, 255, [b"pa\0".as_slice(), &row].concat()),
    ];
    let entry = |(table, extra, value): (Table, u8, Vec<u8>)| {
        let length = (value.len() as u16).to_le_bytes();
        [[table as u8, extra].as_slice(), &length, &value].concat()
    };
    entries.into_iter().flat_map(entry).collect()
}

fn key_files() {
    let seeds = Seeds::of("key_files");
    let key = "0d02bca37b877f1321e0fc339f154b6135728780e9f42e98adf73416180d67fd";
    let high = "f".repeat(64);
    for (name, content) in [
        ("plain", key.to_owned()),
        ("commented", format!("# a comment\r\n\r\n  {key}  \r\n# another\n")),
        ("signed", format!("00{high}\n")),
        ("two", format!("{key}\n{key}\n")),
        ("prefixed", format!("0x{key}")),
        ("too-many-digits", format!("01{key}")),
        ("short", "abc\n".to_owned()),
        ("empty", "# nothing\n".to_owned()),
        ("long", format!("{}\n{key}", "# long\n".repeat(1000))),
    ] {
        seeds.add(name, &[content.as_bytes(), b"\x00"].concat());
        seeds.add(&format!("exposed-{name}"), &[content.as_bytes(), b"\x06"].concat());
    }
}

fn kept_peers() {
    let seeds = Seeds::of("kept_peers");
    let line = |key: &str, endpoint: &str, answered: i64| {
        let key = key.repeat(32);
        format!("{{\"answered\":{answered},\"endpoint\":\"{endpoint}\",\"name\":\"a\",\"publicKey\":\"{key}\"}}\n")
    };
    let two = line("1a", "http://10.0.0.1:7890", 9) + &line("2b", "http://[::1]:7895", 7);
    seeds.add("two", two.as_bytes());
    seeds.add("twice", (two.clone() + &line("1a", "http://a.b:80", 30)).as_bytes());
    seeds.add("damaged", &[two.as_bytes(), b"{\xff\n[]\n7", &two.as_bytes()[..40]].concat());
    seeds.add("wrong", (line("1a", "https://a", -1) + &line("zz", "a:0", 1 << 40) + &line("3c", "c.d", 1)).as_bytes());
}

fn lists() {
    let seeds = Seeds::of("lists");
    let records = |records: &[(u8, &str)]| {
        let bytes = records.iter().map(|(list, parameters)| [&[*list], parameters.as_bytes()].concat());
        bytes.collect::<Vec<_>>().join(&nisd_fuzz::lists::SEPARATOR)
    };
    seeds.add("first-pages", &records(&[0, 1, 2, 3, 5, 6, 7, 8, 9].map(|list| (list, "pageSize=100"))));
    seeds.add("later-pages", &records(&[(0, "id=60"), (1, "pageSize=7&id=30"), (2, "id=60&hash="), (5, "id=3")]));
    seeds.add("of-a-namespace", &records(&[(4, "namespace=alpha&id=9"), (6, "parent=alpha"), (7, "parent=alpha")]));
    seeds.add(
        "wrong",
        &records(&[(0, "id=&pageSize=x"), (0, "hash=zz&id=1"), (1, "pageSize=40000"), (2, "id=9223372036854775808")]),
    );
}

/// Streams of events: queries, and ids to begin with.
fn event_streams() {
    const OWNER: &str = "TDJBL52U7T7OFQM7ZVVOZNDULZORAV672XP43BBM";
    const OTHER: &str = "TAEPN3QTRXZHD23V7HV73U4XKYX4GBHOBGSXYRSJ";
    let seeds = Seeds::of("event_stream");
    seeds.add("all", "from=1&kinds=block,transaction,unconfirmed,left".as_bytes());
    seeds.add("accounts", format!("from=1&address={OWNER}&address={OTHER}&confirmations=3").as_bytes());
    seeds.add("mosaic", format!("from=40&address={OWNER}&mosaic=nem%3Axem&confirmations=0").as_bytes());
    let store = tiny::store(&tiny::settings(), interface::TIP);
    let last = tiny::state_of(&store).1;
    let hash = hex::encode(&last.hash.0[..8]);
    seeds.add("resumed", format!("confirmations=1\n{}.end.{hash}", last.height).as_bytes());
    seeds.add("elsewhere", format!("x=\n{}.2.{hash}.0123456789abcdef.{hash}", last.height.0 + 5).as_bytes());
}

/// Every route once, by clients with and without local access, and requests with keys.
fn interfaces(vectors: &Value) {
    const OWNER: &str = "TDJBL52U7T7OFQM7ZVVOZNDULZORAV672XP43BBM";
    let seeds = Seeds::of("interface");
    let get = |line: &str| format!("GET {line} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let post = |path: &str, headers: &str, json: &str| {
        let length = json.len();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
        format!("{head}{headers}Content-Length: {length}\r\n\r\n{json}")
    };
    let records = |records: &[(u8, String)]| {
        let bytes = records.iter().map(|(flags, text)| [&[*flags], text.as_bytes()].concat());
        bytes.collect::<Vec<_>>().join(&interface::SEPARATOR)
    };
    for (name, paths) in [
        ("chain", ["/chain/height", "/chain/last-block", "/status", "/heartbeat"]),
        ("node", ["/node/info", "/node/extended-info", "/time-sync/network-time", "/chain/height.json"]),
        (
            "account",
            [
                "/account/get?address=",
                "/account/unconfirmedTransactions?address=",
                "/account/mosaic/owned?address=",
                "/account/mosaic/owned/definition?address=",
            ],
        ),
        (
            "transfers",
            [
                "/account/transfers/all?address=",
                "/account/transfers/incoming?pageSize=100&address=",
                "/account/transfers/outgoing?id=60&address=",
                "/account/transfers/all?id=20&pageSize=7&address=",
            ],
        ),
        (
            "owned",
            [
                "/account/namespace/page?address=",
                "/account/mosaic/definition/page?pageSize=5&address=",
                "/namespace/root/page?x=",
                "/mosaic/definition/page?x=",
            ],
        ),
    ] {
        let lines =
            paths.map(|path| get(&if path.ends_with('=') { format!("{path}{OWNER}") } else { path.to_owned() }));
        seeds.add(name, &records(&[(interface::REMOTE, lines.concat())]));
    }
    let past = ["forwarded?x=", "batch?x="].map(|path| get(&format!("/account/get/{path}&address={OWNER}")));
    let history = format!("/account/historical/get?startHeight=1&endHeight=52&increment=5&address={OWNER}");
    let others = ["/account/status?x=", "/account/harvests?id=50&pageSize=7"];
    let others = others.map(|path| get(&format!("{path}&address={OWNER}"))).concat();
    let list = get("/account/importances") + &get("/local/mosaics/expired?height=50") + &get(&history);
    seeds.add("past", &records(&[(interface::REMOTE, past.concat() + &others), (0, list)]));
    let batch = format!(r#"{{"data":[{{"account":"{OWNER}"}},{{"account":"{OWNER}"}}]}}"#);
    let histories =
        format!(r#"{{"accounts":[{{"account":"{OWNER}"}}],"startHeight":1,"endHeight":52,"incrementBy":5}}"#);
    let supplies = r#"{"data":[{"namespaceId":"nem","name":"xem"}]}"#;
    seeds.add(
        "batches",
        &records(&[
            (interface::REMOTE, post("/account/get/batch", "", &batch)),
            (0, post("/account/historical/get/batch", "", &histories) + &post("/mosaic/supply/batch", "", supplies)),
        ]),
    );
    let explorer = post("/local/block/at", "", r#"{"height":52}"#)
        + &post("/local/chain/blocks-after", "Accept: application/binary\r\n", r#"{"height":42}"#);
    seeds.add("explorer", &records(&[(0, explorer + &get("/local/mosaic/definition/supply?mosaicId=nem:xem"))]));
    let asked = |entity: &str| format!(r#"{{"entity":{entity},"challenge":{{"data":"00ff"}}}}"#);
    let peer = post("/chain/score", "", r#"{"data":"00"}"#)
        + &post("/block/at", "", &asked(r#"{"height":7}"#))
        + &post("/chain/hashes-from", "", &asked(r#"{"height":7}"#))
        + &post("/chain/blocks-after", "", &asked(r#"{"height":7,"minBlocks":10,"maxTransactions":130}"#))
        + &post("/transactions/unconfirmed", "", &asked(r#"{"hashShortIds":[{"hashShortId":-6}]}"#))
        + &post("/node/cysm", "", r#"{"protocol":"http","host":"a.example","port":7890}"#);
    seeds.add("peer", &records(&[(interface::REMOTE, peer)]));
    let node = r#"{"identity":{"private-key":"01"},"endpoint":{"protocol":"http","host":"127.0.0.1","port":1},"metaData":{"application":"x"}}"#;
    let life = post("/node/boot", "", node) + &get("/node/peer-list/all") + &get("/shutdown");
    seeds.add("life", &records(&[(interface::REMOTE, life.clone()), (0, life)]));
    let block = post("/block/at/public", "Accept-Encoding: gzip\r\n", r#"{"height":52}"#);
    let binary = post("/block/at/public", "Accept: application/binary\r\n", r#"{"height":1}"#);
    seeds.add(
        "blocks",
        &records(&[(0, block.clone() + &binary), (interface::GONE, block.clone()), (interface::RATE_LIMITED, block)]),
    );
    let keys = tiny::private_keys();
    let key = |name: &str| &keys.iter().find(|(other, _)| other == name).expect("an account").1;
    let value = format!(r#"{{"value":"{}"}}"#, key("harvester0"));
    let unlock = post("/account/unlock", "", &value);
    let is_unlocked = post("/local/account/isunlocked", "", &value);
    let info = post("/account/unlocked/info", "", "{}");
    seeds.add(
        "harvesting",
        &records(&[(0, unlock.clone() + &is_unlocked + &info), (interface::LATER, post("/account/lock", "", &value))]),
    );
    let page = |more: &str| format!(r#"{{"value":"{}"{more}}}"#, key("user0"));
    let by_key = ["", r#","id":"60","pageSize":"5""#, r#","hash":"","id":"","pageSize":"""#];
    let by_key = by_key.map(|more| post("/local/account/transfers/all", "", &page(more)));
    seeds.add("transfers-by-key", &records(&[(0, by_key.concat()), (interface::REMOTE, by_key[0].clone())]));
    let foreign = post("/local/account/isunlocked", "Origin: http://a.example\r\n", &value);
    seeds.add("foreign", &records(&[(interface::REMOTE, unlock), (interface::FORWARDED, is_unlocked), (0, foreign)]));
    let remote = format!(r#"{{"value":"{}"}}"#, key("remote"));
    seeds.add("remote", &records(&[(interface::REMOTE, post("//account/./unlock;a/", "", &remote))]));
    let transaction = vectors["transactions"].as_array().expect("a list").first().expect("a transaction");
    let json = transaction["json"].as_str().expect("a text");
    let sign = format!(r#"{{"transaction":{json},"privateKey":"{}"}}"#, key("user0"));
    let (data, signature) = (transaction["data"].as_str().expect("hex"), "0a".repeat(64));
    let announce = format!(r#"{{"data":"{data}","signature":"{signature}"}}"#);
    seeds.add(
        "announce",
        &records(&[
            (0, post("/transaction/prepare", "", json)),
            (0, post("/transaction/prepare-announce", "", &sign)),
            (interface::REMOTE, post("/transaction/prepare-announce", "", &sign)),
            (interface::REMOTE, post("/transaction/announce", "", &announce)),
        ]),
    );
    // Two transactions; an hour later one has expired, and a third has to wait while the other is validated again.
    let time = tiny::state_of(&tiny::store(&tiny::settings(), interface::TIP)).1.timestamp.0;
    let pair = KeyPair::new(&PrivateKey::from_hex(key("user0")).expect("hex"));
    let signer = hex::encode(pair.public().0);
    let transfer = |amount: u32, made: i32, deadline: i32| {
        let transaction = format!(
            r#"{{"timeStamp":{},"amount":{amount},"fee":5000000,"recipient":"{OWNER}","type":257,"deadline":{},"message":{{}},"version":-1744830463,"signer":"{signer}"}}"#,
            time + made,
            time + deadline,
        );
        let json = format!(r#"{{"transaction":{transaction},"privateKey":"{}"}}"#, key("user0"));
        post("/transaction/prepare-announce", "", &json)
    };
    let unconfirmed = get(&format!("/account/unconfirmedTransactions?address={OWNER}"));
    seeds.add(
        "parked",
        &records(&[
            (0, transfer(1, 0, 1800) + &transfer(2, 0, 7200) + &unconfirmed),
            (interface::LATER, transfer(3, 3600, 7200) + &unconfirmed),
        ]),
    );
    let handshake = "GET /w/messages/websocket HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    seeds.add("websocket-port", &records(&[(interface::WEBSOCKET_PORT, get("/w/messages/info") + handshake)]));
}

fn announcements() {
    let seeds = Seeds::of("announcements");
    let number = |deed: Action| Action::ALL.iter().position(|other| *other == deed).expect("a deed") as u8;
    let add = |name: &str, deeds: &[(Action, &[u8])]| {
        let bytes: Vec<u8> = deeds.iter().flat_map(|(deed, bytes)| [&[number(*deed)], *bytes].concat()).collect();
        seeds.add(name, &bytes);
    };
    // The first accounts are multisig accounts and their cosignatories.
    for kind in 0..8 {
        let deeds: Vec<Vec<u8>> = (0..40).map(|signer| vec![kind, signer, signer + 1, 20, 30, 0, 0, 0]).collect();
        let mut deeds: Vec<(Action, &[u8])> = deeds.iter().map(|bytes| (Action::Announce, bytes.as_slice())).collect();
        deeds.extend([(Action::Block, &[][..]), (Action::Rollback, &[1]), (Action::Work, &[3]), (Action::Block, &[])]);
        add(&format!("kind-{kind}"), &deeds);
    }
    for multisig in 0..4 {
        let mut deeds: Vec<Vec<u8>> =
            (0..20).map(|initiator| vec![0x80, multisig, 30, initiator, 120, 0, 0, 0]).collect();
        deeds.truncate(20);
        let consents: Vec<[u8; 3]> = (0..20).map(|signer| [signer, signer, 0]).collect();
        let mut all: Vec<(Action, &[u8])> = deeds.iter().map(|bytes| (Action::Announce, bytes.as_slice())).collect();
        all.extend(consents.iter().map(|bytes| (Action::Again, bytes.as_slice())));
        all.extend([(Action::Block, &[][..]), (Action::Work, &[2]), (Action::Rollback, &[2])]);
        add(&format!("multisig-{multisig}"), &all);
    }
    add(
        "flood",
        &[(Action::Flood, &[100, 20, 2]), (Action::Flood, &[100, 20, 3]), (Action::Block, &[]), (Action::Work, &[50])],
    );
    add(
        "expired",
        &[(Action::Flood, &[9, 20, 20]), (Action::Wait, &[61]), (Action::Work, &[4]), (Action::Flood, &[9, 20, 20])],
    );
    let flaws: Vec<Vec<u8>> = (0..4).map(|flaw| vec![0, 20, 21, 9, 20, 0, 0, flaw]).collect();
    let mut deeds: Vec<(Action, &[u8])> = flaws.iter().map(|bytes| (Action::Announce, bytes.as_slice())).collect();
    deeds.push((Action::Again, &[0, 0, 0]));
    add("flaws", &deeds);
}

/// Peer messages, in both formats.
fn peer_wire(vectors: &Value, chain: &[Vec<u8>]) {
    let seeds = Seeds::of("peer_wire");
    let recorded = |name: &str| {
        let rows = vectors["entities"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        let text = |name: &str| row[name].as_str().expect("a text");
        [(Format::Binary, hex::decode(text("binary")).expect("hex")), (Format::Json, text("json").into())]
    };
    for (name, readers) in [
        ("node-challenge", &[0][..]),
        ("authenticated-request (block height)", &[1]),
        ("node-endpoint", &[4]),
        ("node", &[5, 24]),
        ("node-experiences-pair", &[6]),
        ("secure-entity (transaction)", &[7]),
        ("authenticated-response (hash chain)", &[17]),
        ("error-response", &[20]),
        ("node-collection", &[21]),
    ] {
        for (format, body) in recorded(name) {
            for reader in readers {
                seeds.add(
                    &format!("{reader:02}-{name}-{format:?}"),
                    &[&[peer_wire::selector(*reader, format)], &body[..]].concat(),
                );
            }
        }
    }
    let context = Context::of(&tiny::settings().network);
    let [(format, node), _] = recorded("node");
    let node: NodeInfo = format.read(&node, context).expect("a node");
    let blocks: Vec<Block> =
        chain.iter().map(|block| Block::from_bytes(&block[4..], context).expect("a block")).collect();
    let busy = blocks.iter().max_by_key(|block| block.transactions.len()).expect("a block").clone();
    let few = List(blocks[..3].to_vec());
    let (challenge, pair) = (peer_wire::challenge(), peer_wire::pair());
    let signature = challenge.sign(&pair);
    let experience = Experience::new(3, 1);
    let pairs = vec![ExperiencePair { node: node.clone(), experience }];
    let pushed = |transaction: &Transaction| SecureEntity::sign(transaction.clone(), &pair, Some("fuzz".to_owned()));
    for format in [Format::Binary, Format::Json] {
        let add = |reader: u8, body: Vec<u8>| {
            seeds.add(&format!("{reader:02}-{format:?}"), &[vec![peer_wire::selector(reader, format)], body].concat());
        };
        let query = |query: Query| query.request(&challenge, format, &tiny::settings().network.chain).body;
        let own = NodeInfo { identity: Identity { key: pair.public(), name: None }, ..node.clone() };
        let (min_blocks, max_transactions) = (Some(10), Some(10_000));
        add(2, query(Query::BlocksAfter(ChainRequest { after: Height(1), min_blocks, max_transactions })).to_vec());
        add(3, query(Query::Unconfirmed(ShortIds(vec![1, -2]))).to_vec());
        add(8, format.to_bytes(&List(busy.transactions.iter().take(2).map(pushed).collect())));
        add(9, format.to_bytes(&SecureEntity::sign(blocks[0].clone(), &pair, None)));
        add(10, answer(format, &own, signature));
        add(11, answer(format, &NodeList(vec![node.clone(), own.clone()]), signature));
        add(12, answer(format, &NodeExperiences { node: node.clone(), experiences: pairs.clone() }, signature));
        add(13, answer(format, &Height(7), signature));
        add(14, answer(format, &Score(4_351_371_922_196_401), signature));
        add(15, answer(format, &blocks[0], signature));
        add(16, answer(format, &CommunicationTimeStamps { send: 5, receive: 6 }, signature));
        add(18, answer(format, &few, signature));
        add(19, answer(format, &List(busy.transactions.iter().take(2).cloned().collect()), signature));
        add(22, format.to_bytes(&List(vec![ExperienceEntry { node: node.clone(), experience, syncs: 2 }])));
        add(23, format.to_bytes(&few));
        add(25, format.to_bytes(&blocks[1]));
        add(26, answer(format, &own, signature));
    }
    for (name, text) in [("host", "node.example:7890"), ("ipv6", "http://[::1]:80/"), ("bare-ipv6", "2001:db8::1")] {
        seeds.add(&format!("27-{name}"), &[&[peer_wire::selector(27, Format::Binary)], text.as_bytes()].concat());
    }
}

fn answer(format: Format, entity: &impl Writable, signature: Signature) -> Vec<u8> {
    format.to_bytes(&AuthenticatedResponse { entity, signature })
}

fn offline_files(vectors: &Value) {
    let seeds = Seeds::of("offline_files");
    let node = |key: &str, port: &str, name: &str| {
        let endpoint = format!("{{\"protocol\":\"http\",\"port\":{port},\"host\":\"10.0.0.1\"}}");
        let identity = format!("{{\"public-key\":\"{}\",\"name\":\"{name}\"}}", key.repeat(32));
        format!("{{\"metaData\":{{}},\"endpoint\":{endpoint},\"identity\":{identity}}}")
    };
    let list = |nodes: &[String]| format!("0{{\"_info\":\"x\",\"knownPeers\":[{}]}}", nodes.join(","));
    seeds.add("peers", list(&[node("1a", "7890", "a"), node("2b", "7895", "b")]).as_bytes());
    seeds.add("peers-twice", list(&[node("1a", "7890", "a"), node("1a", "7895", "b")]).as_bytes());
    seeds.add("peers-wrong", list(&[node("1a", "0", "a"), node("zz", "7895", "b"), "7".to_owned()]).as_bytes());
    for row in vectors["transactions"].as_array().expect("a list").iter().step_by(3) {
        let (name, network) = (row["name"].as_str().expect("a name"), row["network"].as_str().expect("a network"));
        let first = selector(SigningForm::NonVerifiable, network) as char;
        let json = row["json"].as_str().expect("a transaction");
        seeds.add(name, format!("{first}{json}").as_bytes());
        let signature = &serde_json::from_str::<Value>(json).expect("JSON")["signature"];
        seeds.add(
            &format!("{name}.signed"),
            format!("0{{\"data\":{},\"signature\":{signature}}}", row["data"]).as_bytes(),
        );
    }
}

fn store_files() {
    let seeds = Seeds::of("store_files");
    let folder = tempfile::tempdir().expect("a folder");
    let network = config::build(None, Vec::new(), Some("/".as_ref())).expect("the default").network;
    let store = Store::open(folder.path(), &ChainIdentity::of(&network), Options { map_size: 1 << 20 });
    drop(store.expect("a store"));
    let read = |name: &str| fs::read(folder.path().join(name)).expect("a file of the store");
    let (mut data, record) = (read("data.mdb"), read("settled"));
    println!("{} {}", data.len(), record.len());
    let seed = |options: u8, data: &[u8], record: &[u8]| {
        assert_eq!(data.len() % 256, 0);
        [&[options, (data.len() / 256) as u8], data, record].concat()
    };
    seeds.add("whole", &seed(0, &data, &record));
    seeds.add("without-record", &seed(0, &data, &[]));
    seeds.add("short", &seed(1, &data[..data.len() - 4096], &record));
    data[..256].fill(0);
    seeds.add("damaged-meta", &seed(1, &data, &record));
}
