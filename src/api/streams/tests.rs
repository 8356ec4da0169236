//! Tests of streamed responses.

use crate::api::streams::MAX_ACTIVE_PER_CLIENT;
use crate::api::streams::{BodyWriter, ResponseStream};
use crate::api::tests::*;
use crate::api::{AccountBody, Api, Format, STREAM_THRESHOLD_BYTES};
use crate::codec::json::JsonEncoder;
use crate::crypto::{PublicKey, Signature};
use crate::mempool::Mempool;
use crate::model::{Amount, Height, Timestamp, Transaction};
use crate::net::http::Response;
use crate::net::service::{ConnectionId, Progress};
use crate::peer::wire::{AuthenticatedResponse, Challenge, List};

/// Budget of a step: smaller than in production, so that there are more steps.
pub const STEP: u32 = 200;
/// Maximum overrun of a step: the cost of the most expensive indivisible work.
pub const OVERRUN: u32 = 100;

const BINARY: [(&str, &str); 1] = [("Accept", "application/binary")];
/// The same for requests with a JSON body.
const BINARY_FOR_JSON: [(&str, &str); 2] = [("Content-Type", "application/json"), BINARY[0]];

/// A response written in steps.
pub struct Stepped {
    /// All chunks.
    pub body: Vec<u8>,
    /// The response; its body is in the chunks.
    pub reply: Response,
    /// Number of steps.
    pub steps: usize,
    /// Highest cost of a step.
    pub max_step_cost: u32,
    chunks: usize,
}

/// Runs a request in steps; `between` is called after each step but the last.
pub fn in_steps(sent: &TestRequest<'_>, scene: &Scene, mut between: impl FnMut(usize)) -> Stepped {
    let (mut api, mut node) = (Api::new(settings()), TestNode::default());
    let mut done = Stepped { body: Vec::new(), reply: Response::new(), steps: 0, max_step_cost: 0, chunks: 0 };
    loop {
        let is_resumed = done.steps > 0;
        let (taken, used) = sent.step(&mut api, scene, &mut node, &mut done.reply, is_resumed, STEP).unwrap();
        done.steps += 1;
        done.max_step_cost = done.max_step_cost.max(used);
        if done.reply.is_streaming || taken == Progress::Done {
            done.body.append(&mut done.reply.body);
            done.chunks += 1;
        }
        if taken == Progress::Done {
            assert_eq!(api.pending_streams.len(), 0);
            return done;
        }
        between(done.steps);
    }
}

/// Asserts that a request takes several steps within the budget and yields the same as in one step.
fn is_stepped(sent: &TestRequest<'_>, scene: &Scene) -> Stepped {
    let whole = sent.send(scene);
    let stepped = in_steps(sent, scene, |_| {});
    assert_eq!(whole.status, 200, "{}", text_of(&whole));
    assert!(stepped.steps > 1, "{}", sent.line);
    assert!(stepped.max_step_cost <= STEP + OVERRUN, "{} took {} units", sent.line, stepped.max_step_cost);
    assert!(stepped.body == whole.body, "{}: {} and {} bytes", sent.line, stepped.body.len(), whole.body.len());
    assert_eq!(stepped.reply.headers, whole.headers);
    stepped
}

/// Distinct transfers.
fn transfers(count: i32) -> Vec<Transaction> {
    let transfer = |number| Transaction { timestamp: Timestamp(1000 + number), ..transfer(Some(Signature([3; 64]))) };
    (0..count).map(|number| Transaction { fee: Amount(0), ..transfer(number) }).collect()
}

fn with_full_block(count: i32) -> Scene {
    let scene = Scene::empty();
    scene.add_block(Vec::new());
    scene.fund(1);
    scene.add_block(transfers(count));
    scene
}

#[test]
fn a_block_of_thousands_of_transactions_is_written_in_steps_and_chunks() {
    let scene = with_full_block(3000);
    let sent = TestRequest::new("GET /chain/last-block");
    let json = is_stepped(&sent, &scene);
    assert!(json.chunks > 1 && json.body.len() > STREAM_THRESHOLD_BYTES);
    let binary = is_stepped(&sent.with(&BINARY), &scene);
    assert!(binary.chunks > 1);
    let at = TestRequest::new("POST /block/at/public").json("{\"height\":2}");
    assert!(is_stepped(&at, &scene).body == json.body);
    // It equals the output of the writer of whole blocks.
    let block = scene.block(Height(2));
    let written = JsonEncoder::document(|sink| {
        crate::codec::block::write(sink, &block, crate::codec::SigningForm::Verifiable);
    });
    assert!(json.body == [written.as_slice(), b"\r\n"].concat());
    assert!(binary.body == block.to_bytes(crate::codec::SigningForm::Verifiable));
}

#[test]
fn account_transactions_in_one_block_are_written_in_steps() {
    let scene = with_full_block(3000);
    for more in ["", "&id=1500", "&id=105"] {
        let line = format!("GET /account/transfers/all?address={}&pageSize=100{more}", address(1));
        let json = is_stepped(&TestRequest::new(&line), &scene);
        let body: serde_json::Value = serde_json::from_slice(&json.body).unwrap();
        assert_eq!(body["data"].as_array().unwrap().len(), 100, "{more}");
        is_stepped(&TestRequest::new(&line).with(&BINARY), &scene);
    }
}

#[test]
fn transactions_of_a_block_are_read_from_any_index() {
    let scene = with_full_block(40);
    scene.with_view(|view| {
        let block = scene.block(view.height);
        for (from, most) in [(0, 7), (33, 7), (35, 7), (40, 7), (5, 0)] {
            let expected: Vec<_> = block.transactions.iter().skip(from).take(most).cloned().collect();
            assert_eq!(view.transactions(view.height, from, most).unwrap(), expected, "{from} {most}");
        }
        assert!(view.transactions(view.height.next(), 0, 1).unwrap().is_empty());
    });
}

#[test]
fn a_streamed_block_is_complete_while_the_chain_grows() {
    let scene = with_full_block(600);
    let sent = TestRequest::new("GET /chain/last-block");
    let whole = sent.send(&scene).body;
    let stepped = in_steps(&sent, &scene, |_| {
        scene.add_block(Vec::new());
    });
    assert!(stepped.steps > 2 && stepped.body == whole);
}

#[test]
fn a_block_undone_by_a_reorg_is_not_shown_partially() {
    let scene = with_full_block(600);
    let sent = TestRequest::new("GET /chain/last-block");
    let early = in_steps(&sent, &scene, |step| {
        if step == 1 {
            scene.remove_last_block();
        }
    });
    let reply = Response { body: early.body, ..early.reply };
    assert_eq!(failure_in(&reply), (503, "the block was replaced while it was shown".to_owned()));
    assert_eq!(headers(&reply, "Access-Control-Allow-Origin"), ["*"]);
    // Once part of the body is sent, no error can be reported; the connection is closed.
    let (scene, mut steps) = (with_full_block(3000), 0);
    let whole = sent.send(&scene).body;
    let late = in_steps(&sent, &scene, |step| {
        steps = step;
        if step == 30 {
            scene.remove_last_block();
        }
    });
    assert!(steps == 30 && late.reply.close && late.reply.is_streaming);
    assert!(late.body.len() < whole.len() && whole.starts_with(&late.body));
}

/// A request for the blocks after the first, with a challenge.
fn after_the_first(entity: &str) -> String {
    format!("{{\"entity\":{entity},\"challenge\":{{\"data\":\"{CHALLENGE}\"}}}}")
}

#[test]
fn blocks_for_peers_are_streamed_as_stored() {
    let scene = with_full_block(600);
    scene.add_block(transfers(1300).split_off(600));
    let blocks = [2, 3].map(|height| scene.block(Height(height)));
    let part = after_the_first("{\"height\":1,\"maxTransactions\":10000}");
    let part = TestRequest::new("POST /chain/blocks-after").json(&part);
    assert!(is_stepped(&part, &scene).steps > 5, "also in JSON");
    let stepped = is_stepped(&part.with(&BINARY_FOR_JSON), &scene);
    assert!(stepped.chunks > 2, "it is not held as a whole");
    let signature = Challenge([7; 64]).sign(&TestNode::default().keys);
    let expected = AuthenticatedResponse { entity: List(blocks.to_vec()), signature };
    assert!(stepped.body == Format::Binary.to_bytes(&expected));
    let last = after_the_first("{\"height\":3}");
    let stepped = is_stepped(&TestRequest::new("POST /block/at").json(&last).with(&BINARY_FOR_JSON), &scene);
    assert!(stepped.chunks > 1);
    let expected = AuthenticatedResponse { entity: blocks[1].clone(), signature };
    assert!(stepped.body == Format::Binary.to_bytes(&expected));
}

#[test]
fn a_peer_never_gets_blocks_of_two_branches() {
    let part = after_the_first("{\"height\":1,\"maxTransactions\":10000}");
    let part = TestRequest::new("POST /chain/blocks-after").json(&part).with(&BINARY_FOR_JSON);
    let with_two_blocks = || {
        let scene = with_full_block(3000);
        scene.add_block(Vec::new());
        scene
    };
    let scene = with_two_blocks();
    let whole = part.send(&scene).body;
    // The second block is replaced while the first is written: before any of it is sent, and after part of it is.
    for (at, is_told) in [(1, true), (20, false)] {
        let scene = with_two_blocks();
        let stepped = in_steps(&part, &scene, |step| {
            if step == at {
                scene.replace_block(Height(3));
            }
        });
        if is_told {
            assert_eq!(stepped.reply.status, 503);
        } else {
            assert!(stepped.reply.close && stepped.body.len() < whole.len() && whole.starts_with(&stepped.body));
        }
    }
    for _ in 0..300 {
        scene.add_block(Vec::new());
    }
    let hashes = after_the_first("{\"height\":1}");
    let hashes = TestRequest::new("POST /chain/hashes-from").json(&hashes).with(&BINARY_FOR_JSON);
    assert!(is_stepped(&hashes, &scene).steps > 1);
    let stepped = in_steps(&hashes, &scene, |step| {
        if step == 1 {
            (2..=300).for_each(|height| scene.replace_block(Height(height)));
        }
    });
    assert_eq!(stepped.reply.status, 503);
}

#[test]
fn an_account_that_signs_for_thousands_is_written_in_steps() {
    let scene = Scene::new();
    scene.put_multisigs(1, 2000);
    let line = format!("GET /account/get?address={}", address(1));
    let json = is_stepped(&TestRequest::new(&line), &scene);
    let body: serde_json::Value = serde_json::from_slice(&json.body).unwrap();
    let others = body["meta"]["cosignatoryOf"].as_array().unwrap();
    // The ninth account is one more.
    assert_eq!(others.len(), 2001);
    assert!(others.is_sorted_by_key(|one| one["address"].as_str().unwrap()));
    let binary = is_stepped(&TestRequest::new(&line).with(&BINARY), &scene);
    assert_eq!(binary.chunks, 1, "its lengths are known only at the end");
    let at_once = scene.with_view(|view| {
        let mut node = TestNode::default();
        let mut context = node.context(*view, scene.status, PLENTY);
        let mut account = AccountBody::new(&mut context, address(1)).unwrap().into_stream();
        let (mut body, mut json) = (Vec::new(), JsonEncoder::default());
        let mut writer = BodyWriter { format: Format::Json, body: &mut body, json: &mut json };
        assert_eq!(account.write_chunk(&mut context, &mut writer).unwrap(), Progress::Done);
        body
    });
    assert!(json.body == [at_once.as_slice(), b"\r\n"].concat());
    let line = format!("GET /account/get/from-public-key?publicKey={}", key(1));
    is_stepped(&TestRequest::new(&line), &scene);
}

/// A chain on which the first account has many mosaics.
fn with_many_mosaics() -> Scene {
    let scene = Scene::empty();
    let mosaics = (0..300).map(|number| define(definition(&format!("a:m{number:03}"), None), number));
    scene.add_block(std::iter::once(rent(1, "a", 999)).chain(mosaics).collect());
    scene
}

#[test]
fn long_lists_of_mosaics_are_written_in_steps() {
    let scene = with_many_mosaics();
    let owner = address(1);
    for path in ["/account/mosaic/owned", "/account/mosaic/owned/definition"] {
        let line = format!("GET {path}?address={owner}");
        let json = is_stepped(&TestRequest::new(&line), &scene);
        let body: serde_json::Value = serde_json::from_slice(&json.body).unwrap();
        assert_eq!(body["data"].as_array().unwrap().len(), 301, "{path}");
        is_stepped(&TestRequest::new(&line).with(&BINARY), &scene);
    }
    for line in [
        "GET /mosaic/definition/page?pageSize=100".to_owned(),
        "GET /namespace/mosaic/definition/page?namespace=a&pageSize=100".to_owned(),
        format!("GET /account/mosaic/definition/page?address={owner}&parent=a&pageSize=100"),
    ] {
        let json = is_stepped(&TestRequest::new(&line), &scene);
        let body: serde_json::Value = serde_json::from_slice(&json.body).unwrap();
        assert_eq!(body["data"].as_array().unwrap().len(), 100, "{line}");
    }
    // Another account has none, which takes a scan of all.
    let line = format!("GET /account/mosaic/definition/page?address={}&parent=a", address(2));
    assert_eq!(is_stepped(&TestRequest::new(&line), &scene).body, b"{\"data\":[]}\r\n");
}

#[test]
fn a_list_stream_follows_the_last_commit() {
    let scene = with_many_mosaics();
    let line = format!("GET /account/mosaic/owned?address={}", address(1));
    let stepped = in_steps(&TestRequest::new(&line), &scene, |step| {
        if step == 1 {
            // One before the cursor, one after it.
            scene.forget_holding(1, "a:m000");
            scene.forget_holding(1, "a:m299");
        }
    });
    let body = String::from_utf8(stepped.body).unwrap();
    assert!(body.contains("\"m000\"") && body.contains("\"m298\"") && !body.contains("\"m299\""));
    assert!(body.ends_with("}]}\r\n"), "{body}");
}

#[test]
fn namespaces_that_do_not_match_are_skipped_in_steps() {
    let scene = Scene::empty();
    let names = (0..900).map(|number| rent(1, &format!("a.x{number:03}"), number));
    scene.add_block(std::iter::once(rent(1, "a", 999)).chain(names).collect());
    // The pattern `a_x` matches none of them, which takes a scan of all.
    let line = format!("GET /account/namespace/page?address={}&parent=a_x", address(1));
    let stepped = in_steps(&TestRequest::new(&line), &scene, |_| {});
    assert_eq!(stepped.body, b"{\"data\":[]}\r\n");
    assert!(stepped.max_step_cost <= STEP + OVERRUN);
}

#[test]
fn a_transaction_is_found_in_a_full_block_in_one_step() {
    let scene = Scene::empty();
    scene.add_block(Vec::new());
    scene.fund(1);
    let mut transactions = transfers(2000);
    let multisig = |number| Transaction { timestamp: Timestamp(5000 + number), ..multisig_with_cosignatures(number) };
    transactions.extend((0..1000).map(multisig));
    scene.add_block(transactions.clone());
    for transaction in [&transactions[0], &transactions[1999], &transactions[2500], &transactions[2999]] {
        let line = format!("GET /transaction/get?hash={}", transaction.hash());
        let found = in_steps(&TestRequest::new(&line), &scene, |_| {});
        assert!(found.max_step_cost <= STEP && found.steps == 1, "{} units", found.max_step_cost);
        let body: serde_json::Value = serde_json::from_slice(&found.body).unwrap();
        assert_eq!(body["transaction"]["timeStamp"], transaction.timestamp.0);
    }
}

#[test]
fn unconfirmed_transactions_are_written_in_steps() {
    let scene = Scene::new();
    let mut node = TestNode::default();
    (0..25).for_each(|number| node.mempool.add_unchecked(multisig_with_cosignatures(number), NETWORK));
    let line = format!("GET /account/unconfirmedTransactions?address={}", address(1));
    let sent = TestRequest::new(&line);
    let whole = sent.send_to_node(&mut Api::new(settings()), &scene, &mut node);
    let (mut api, mut reply, mut steps) = (Api::new(settings()), Response::new(), 0);
    // Transactions accepted later are not shown.
    while sent.step(&mut api, &scene, &mut node, &mut reply, steps > 0, 60).unwrap().0 == Progress::Yield {
        node.mempool = Mempool::default();
        steps += 1;
    }
    assert!(steps > 2 && reply.body == whole.body);
}

#[test]
fn a_batch_reads_each_account_once_and_has_at_most_512() {
    let scene = with_many_mosaics();
    let batch = |accounts: &[crate::model::Address]| {
        let accounts: Vec<_> = accounts.iter().map(|one| format!("{{\"account\":\"{one}\"}}")).collect();
        format!("{{\"data\":[{}]}}", accounts.join(","))
    };
    let line = "POST /account/mosaic/owned/definition/batch";
    let many = |count: u16| -> Vec<_> {
        let seed = |number: u16| [number.to_be_bytes().as_slice(), &[9; 30]].concat();
        let key = |number| crate::crypto::PublicKey(seed(number).try_into().unwrap());
        (0..count).map(|number| address_of(&key(number))).collect()
    };
    let repeated = batch(&vec![address(1); 900]);
    let (mut api, mut node, mut reply) = (Api::new(settings()), TestNode::default(), Response::new());
    let sent = TestRequest::new(line).json(&repeated);
    let (taken, units) = sent.step(&mut api, &scene, &mut node, &mut reply, false, PLENTY).unwrap();
    let (once, mut first) = (batch(&[address(1)]), Response::new());
    let sent = TestRequest::new(line).json(&once);
    let (_, less) = sent.step(&mut api, &scene, &mut node, &mut first, false, PLENTY).unwrap();
    assert_eq!((taken, &reply.body), (Progress::Done, &first.body));
    assert!(units < less + 1500, "{units} units rather than {less}: only reading takes longer");
    // The body is read in the first step, the accounts are read in later ones.
    let most = batch(&many(512));
    let stepped = in_steps(&TestRequest::new(line).json(&most), &scene, |_| {});
    assert!(stepped.steps > 2 && stepped.max_step_cost < 1000, "{} units", stepped.max_step_cost);
    assert_eq!(stepped.body, TestRequest::new(line).json(&most).send(&scene).body);
    let too_many = batch(&many(513));
    let rejected = TestRequest::new(line).json(&too_many).status_and_error(&scene);
    assert_eq!(rejected, (400, "a batch may name at most 512 accounts".to_owned()));
}

#[test]
fn a_disconnect_discards_the_pending_stream() {
    let scene = with_full_block(600);
    let (mut api, mut node, mut reply) = (Api::new(settings()), TestNode::default(), Response::new());
    let sent = TestRequest::new("GET /chain/last-block");
    let (taken, _) = sent.step(&mut api, &scene, &mut node, &mut reply, false, STEP).unwrap();
    assert_eq!((taken, api.pending_streams.len()), (Progress::Yield, 1));
    api.on_disconnect(ConnectionId(2), NOW.monotonic);
    assert_eq!(api.pending_streams.len(), 1);
    api.on_disconnect(sent.connection, NOW.monotonic);
    assert_eq!(api.pending_streams.len(), 0);
}

#[test]
fn a_new_request_discards_the_stream_that_was_not_resumed() {
    let scene = with_full_block(600);
    let (mut api, mut node, mut reply) = (Api::new(settings()), TestNode::default(), Response::new());
    TestRequest::new("GET /chain/last-block").step(&mut api, &scene, &mut node, &mut reply, false, STEP).unwrap();
    let height =
        TestRequest::new("GET /chain/height").step(&mut api, &scene, &mut node, &mut reply, false, STEP).unwrap();
    assert_eq!((height.0, reply.body.as_slice()), (Progress::Done, b"{\"height\":2}\r\n".as_slice()));
    assert_eq!(api.pending_streams.len(), 0);
    // A request that was parked before it reached the interface is answered from the start.
    let height =
        TestRequest::new("GET /chain/height").step(&mut api, &scene, &mut node, &mut reply, true, STEP).unwrap();
    assert_eq!((height.0, reply.body.as_slice()), (Progress::Done, b"{\"height\":2}\r\n".as_slice()));
}

#[test]
fn all_streams_of_one_client_complete_without_delaying_other_clients() {
    const ALL: usize = 4 * MAX_ACTIVE_PER_CLIENT;
    let scene = with_full_block(600);
    let (mut api, mut node) = (Api::new(settings()), TestNode::default());
    let whole = TestRequest::new("GET /chain/last-block").send(&scene).body;
    let mut replies: Vec<Response> = (0..=ALL).map(|_| Response::new()).collect();
    let (mut bodies, mut is_begun) = (vec![Vec::new(); ALL + 1], [false; ALL + 1]);
    // The last one is of another client.
    let mut step = |api: &mut Api, number: usize| {
        let from = if number < ALL { [10, 0, 0, 1] } else { [10, 0, 0, 2] };
        let sent = TestRequest {
            connection: ConnectionId(number as u64),
            ..TestRequest::new("GET /chain/last-block").from(from)
        };
        let (reply, is_resumed) = (&mut replies[number], std::mem::replace(&mut is_begun[number], true));
        let taken = sent.step(api, &scene, &mut node, reply, is_resumed, STEP).unwrap().0;
        assert_eq!(reply.status, 200);
        if reply.is_streaming || taken == Progress::Done {
            bodies[number].append(&mut reply.body);
        }
        taken
    };
    let mut going: Vec<usize> = (0..=ALL).filter(|number| step(&mut api, *number) == Progress::Yield).collect();
    assert_eq!(going.len(), MAX_ACTIVE_PER_CLIENT + 1);
    assert!(going.contains(&ALL));
    while !going.is_empty() {
        going.retain(|number| step(&mut api, *number) == Progress::Yield);
        going.extend(api.take_resumable(NOW.monotonic).iter().map(|connection| connection.0 as usize));
        assert!(going.len() <= MAX_ACTIVE_PER_CLIENT + 1);
    }
    assert!(bodies.iter().all(|body| *body == whole));
    assert!(api.pending_streams.is_clear());
}

/// Requests the list of importances in steps from several clients in turns. Returns the bodies and the units of all.
fn importances(api: &mut Api, scene: &Scene, clients: u8, mut between: impl FnMut()) -> (Vec<(u16, Vec<u8>)>, u32) {
    let mut node = TestNode::default();
    let mut all: Vec<_> = (0..clients).map(|_| (Response::new(), Vec::new(), None)).collect();
    let (mut units, mut rounds) = (0, 0);
    while all.iter().any(|(.., progress)| *progress != Some(Progress::Done)) {
        for (number, (reply, body, progress)) in all.iter_mut().enumerate() {
            if *progress == Some(Progress::Done) {
                continue;
            }
            let connection = ConnectionId(number as u64);
            let sent = TestRequest::new("GET /account/importances").from([10, 0, number as u8, 1]);
            let sent = TestRequest { connection, may_be_cached: true, ..sent };
            let (now, used) = sent.step(api, scene, &mut node, reply, progress.is_some(), STEP).unwrap();
            units += used;
            if reply.is_streaming || now == Progress::Done {
                body.extend_from_slice(reply.plain_body());
                reply.body.clear();
            }
            *progress = Some(now);
        }
        rounds += 1;
        assert!(rounds < 10_000);
        between();
    }
    (all.into_iter().map(|(reply, body, _)| (reply.status, body)).collect(), units)
}

#[test]
fn importances_are_written_once_for_all_clients_until_the_chain_changes() {
    let scene = Scene::empty();
    (0..2_000u16).for_each(|number| {
        let key = PublicKey([number.to_be_bytes().as_slice(), &[9; 30]].concat().try_into().unwrap());
        scene.fund_address(address_of(&key));
    });
    let whole = TestRequest::new("GET /account/importances").send(&scene).plain_body().to_vec();
    let mut api = Api::new(settings());
    let (one, alone) = importances(&mut api, &scene, 1, || {});
    assert_eq!(one, [(200, whole.clone())]);
    api.chain_changed();
    let (many, together) = importances(&mut api, &scene, 20, || {});
    assert!(many.iter().all(|one| *one == (200, whole.clone())));
    // The others cost copying.
    assert!(together < 12 * alone, "{together} units for twenty, {alone} for one");
    let (later, again) = importances(&mut api, &scene, 1, || {});
    assert!(later[0].1 == whole && again < alone, "{again} {alone}");
    // A change of the chain begins a new list.
    scene.fund(77);
    api.chain_changed();
    assert_ne!(importances(&mut api, &scene, 1, || {}).0, one);
    assert!(api.kept_lists.bytes() > whole.len());
}
