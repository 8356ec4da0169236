//! Tests of the lists of unconfirmed transactions.

use serde_json::{Value, json};

use crate::api::Api;
use crate::api::tests::*;
use crate::budget::cost;
use crate::crypto::{PublicKey, Signature};
use crate::model::{Body, Timestamp, Transaction};
use crate::net::http::Response;
use crate::net::service::Progress;
use crate::store::{Table, Write as _};

/// A payment of the first account; those with higher numbers are younger.
fn payment(number: i32) -> Transaction {
    Transaction { timestamp: Timestamp(100 + number), ..transfer(Some(Signature([3; 64]))) }
}

fn data(line: &str, scene: &Scene, node: &mut TestNode) -> Vec<Value> {
    let reply = TestRequest::new(line).send_to_node(&mut Api::new(settings()), scene, node);
    let text = text_of(&reply);
    let body: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{line}: {text}"));
    body["data"].as_array().unwrap_or_else(|| panic!("{line}: {body}")).clone()
}

#[test]
fn the_unconfirmed_transactions_of_an_account_have_hashes_if_these_are_requested() {
    let (scene, mut node) = (Scene::new(), TestNode::default());
    let (plain, outer) = (payment(1), Transaction { timestamp: Timestamp(102), ..multisig() });
    [&plain, &outer].iter().for_each(|one| node.mempool.add_unchecked((*one).clone(), NETWORK));
    let line = format!("GET /account/unconfirmedTransactions?address={}", address(1));
    let inner = outer.inner().unwrap().hash().to_string();
    let found = data(&format!("{line}&hashes=true"), &scene, &mut node);
    let hash = |transaction: &Transaction| json!({ "data": transaction.hash().to_string() });
    assert_eq!(found[0]["meta"], json!({"data": inner, "hash": hash(&outer), "innerHash": {"data": inner}}));
    assert_eq!(found[1]["meta"], json!({"data": null, "hash": hash(&plain), "innerHash": {}}));
    let without = data(&line, &scene, &mut node);
    assert!(found.iter().map(|one| &one["transaction"]).eq(without.iter().map(|one| &one["transaction"])));
    assert_eq!(without[0]["meta"], json!({ "data": inner }));
    assert_eq!(data(&format!("{line}&hashes=false"), &scene, &mut node), without);
    let failure = TestRequest::new(&format!("{line}&hashes=1")).status_and_error(&scene);
    assert_eq!(failure, (400, "hashes must be true or false".to_owned()));
}

#[test]
fn the_unconfirmed_transactions_of_an_account_with_hashes_have_a_page_size() {
    let (scene, mut node) = (Scene::new(), TestNode::default());
    (0..120).for_each(|number| node.mempool.add_unchecked(payment(number), NETWORK));
    for (query, count) in [
        ("&hashes=true", 25),
        ("&hashes=true&pageSize=40", 40),
        ("&hashes=true&pageSize=1", 5),
        ("&hashes=true&pageSize=1000", 100),
        // As in NIS1.
        ("", 25),
        ("&pageSize=5", 25),
        ("&pageSize=x&id=5", 25),
    ] {
        let line = format!("GET /account/unconfirmedTransactions?address={}{query}", address(1));
        let found = data(&line, &scene, &mut node);
        let times: Vec<_> = found.iter().map(|one| one["transaction"]["timeStamp"].as_i64().unwrap()).collect();
        assert!(times.iter().copied().eq((0..count).map(|number| 219 - number)), "{query}: {times:?}");
    }
    let line = format!("GET /account/unconfirmedTransactions?address={}&hashes=true&pageSize=x", address(1));
    assert_eq!(TestRequest::new(&line).status_and_error(&scene).0, 400);
}

#[test]
fn the_whole_mempool_is_listed_in_pages_in_the_order_of_arrival_for_local_clients() {
    let (scene, mut node) = (Scene::new(), TestNode::default());
    // Each has a higher fee than those before it, which decides the order in blocks.
    let arrived: Vec<_> = (0..12)
        .map(|number| Transaction { fee: crate::model::Amount(number), ..payment(-(number as i32)) })
        .chain([multisig()])
        .collect();
    arrived.iter().for_each(|one| node.mempool.add_unchecked(one.clone(), NETWORK));
    let (mut after, mut pages, mut listed) = ("0".to_owned(), Vec::new(), Vec::new());
    loop {
        let page = data(&format!("GET /mempool/transactions?pageSize=5&after={after}"), &scene, &mut node);
        pages.push(page.len());
        let Some(last) = page.last() else { break };
        after = last["meta"]["id"].to_string();
        listed.extend(page);
    }
    assert_eq!(pages, [5, 5, 3, 0]);
    for (number, (found, transaction)) in listed.iter().zip(&arrived).enumerate() {
        let inner = transaction.inner().map_or(json!({}), |inner| json!({ "data": inner.hash().to_string() }));
        let hash = json!({ "data": transaction.hash().to_string() });
        assert_eq!(found["meta"], json!({"id": number + 1, "since": 0, "hash": hash, "innerHash": inner}));
    }
    assert_eq!(data("GET /mempool/transactions", &scene, &mut node).len(), 13);
    assert_eq!(data("GET /mempool/transactions?after=-1", &scene, &mut node).len(), 13);
    assert_eq!(TestRequest::new("GET /mempool/transactions?after=x").status_and_error(&scene).0, 400);
    assert_eq!(TestRequest::new("GET /mempool/transactions").from([10, 0, 0, 1]).status_and_error(&scene).0, 401);
}

#[test]
fn a_page_of_the_mempool_costs_the_same_however_many_transactions_it_holds() {
    let cost = |count| {
        let (scene, mut node) = (Scene::new(), TestNode::default());
        (0..count).for_each(|number| node.mempool.add_unchecked(payment(number), NETWORK));
        let line = format!("GET /mempool/transactions?pageSize=100&after={}", count - 150);
        let mut reply = Response::new();
        let step =
            TestRequest::new(&line).step(&mut Api::new(settings()), &scene, &mut node, &mut reply, false, PLENTY);
        let found: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(found["data"].as_array().unwrap().len(), 100);
        step.unwrap().1
    };
    let (few, many) = (cost(200), cost(2_000));
    assert!(many <= few + few / 20, "{few} and {many} units");
}

#[test]
fn multisig_accounts_that_name_an_account_are_not_read_for_its_unconfirmed_transactions() {
    let (scene, mut node) = (Scene::new(), TestNode::default());
    let outer = Transaction { timestamp: Timestamp(102), ..multisig() };
    node.mempool.add_unchecked(outer.clone(), NETWORK);
    let account = address(9);
    let line = format!("GET /account/unconfirmedTransactions?address={account}");
    assert_eq!(data(&line, &scene, &mut node).len(), 0);
    scene.put_cosignatory_of(crate::model::Address::from_public_key(&outer.inner().unwrap().signer, NETWORK), account);
    // Reading this one among those of the account would fail.
    scene.write(|batch| {
        batch.put(Table::CosignatoryOf, &[account.as_bytes().as_slice(), &[b'A'; 8]].concat(), &[]).unwrap();
    });
    let found = data(&line, &scene, &mut node);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["transaction"]["timeStamp"], 102);
}

#[test]
fn multisig_accounts_whose_transactions_wait_are_looked_up_in_steps_that_are_charged() {
    const COUNT: u8 = 200;
    const STEP: u32 = 20;
    let (scene, mut node) = (Scene::new(), TestNode::default());
    let account = address(251);
    for number in 0..COUNT {
        let mut outer = Transaction { timestamp: Timestamp(200 + i32::from(number)), ..multisig() };
        let Body::Multisig(body) = &mut outer.body else { unreachable!() };
        body.inner.signer = PublicKey([number; 32]);
        if number % 10 == 0 {
            scene.put_cosignatory_of(body.inner.signer_address(NETWORK), account);
        }
        node.mempool.add_unchecked(outer, NETWORK);
    }
    let line = format!("GET /account/unconfirmedTransactions?address={account}");
    let (mut api, mut reply) = (Api::new(settings()), Response::new());
    let (mut progress, mut units, mut steps) = (Progress::Yield, 0, 0);
    while progress == Progress::Yield {
        let request = TestRequest::new(&line);
        let (next, used) = request.step(&mut api, &scene, &mut node, &mut reply, steps > 0, STEP).unwrap();
        assert!(used <= STEP + 20, "{used} units in step {steps}");
        (progress, units, steps) = (next, units + used, steps + 1);
    }
    let found: Value = serde_json::from_slice(&reply.body).unwrap();
    let times: Vec<_> =
        found["data"].as_array().unwrap().iter().map(|one| one["transaction"]["timeStamp"].as_i64().unwrap()).collect();
    assert_eq!(times, (0..20).rev().map(|number| 200 + 10 * number).collect::<Vec<i64>>());
    assert!(units > u32::from(COUNT) * cost::ACCOUNT, "{units} units");
    assert!(api.pending_streams.is_clear());
}
