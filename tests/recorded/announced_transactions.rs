//! Single transactions announced to NIS1 on top of the recorded chains: the interface gives the recorded response, and
//! the mempool then holds the recorded number of transactions.

use super::rejected_blocks::cases_by_height;
use crate::common::http::Response;
use crate::common::recorded_chain::Chain;
use crate::common::simulated_node::SimulatedNode;
use crate::common::{load_settings, print_notice};
use nisd::model::Timestamp;
use serde_json::{Value, json};

/// Announced after a copy with a wrong signature: NIS1 repeats its answer to the copy, this node accepts the true one.
const BEHIND_A_FORGED_COPY: [&str; 2] = ["tx-0302", "tx-0644"];
/// Recorded failure of NIS1 after all its rules had passed; this node accepts in this case.
const FAILED_AFTERWARDS: &str = "invalid call to convertToFullyVested 2";

fn announce(node: &mut SimulatedNode<'_>, case: &Value) -> (Response, Value) {
    let data = if case["data"].is_string() { &case["data"] } else { &case["binary"] };
    let request = json!({"data": data, "signature": case["signature"]}).to_string();
    let response = node.post("/transaction/announce", &request);
    let body = serde_json::from_slice(&response.body).expect("JSON");
    (response, body)
}

/// Returns whether a recorded text comes from the platform of NIS1 instead of the protocol.
fn is_platform_text(text: &str) -> bool {
    ["java.", "org.nem.core.", "Cannot ", "-2"].iter().any(|start| text.starts_with(start))
}

/// Returns what differs from the recording.
fn check(node: &mut SimulatedNode<'_>, case: &Value) -> Option<String> {
    for before in case["before"].as_array().into_iter().flatten() {
        let (response, body) = announce(node, before);
        let message = body["message"].as_str().expect("a message");
        let found =
            if response.status == 200 { message.to_owned() } else { format!("HTTP {} {message}", response.status) };
        assert_eq!(before["result"], found, "{}: before it", case["id"]);
    }
    let (response, body) = announce(node, case);
    let is_accepted = response.status == 200 && body["message"] == "SUCCESS";
    let usage = node.limit_usage();
    let size = usage.iter().find(|usage| usage.name == "unconfirmed transactions").expect("the mempool").used;
    let (recorded, status) = (&case["result"], &case["httpStatus"]);
    let message = recorded["message"].as_str().expect("a message");
    let is_right = if case["hazard"] == true {
        !is_accepted
    } else if BEHIND_A_FORGED_COPY.iter().any(|id| case["id"] == *id) {
        is_accepted && message == "FAILURE_SIGNATURE_NOT_VERIFIABLE"
    } else if message == FAILED_AFTERWARDS {
        is_accepted && case["poolSizeAfter"] == size
    } else {
        let is_same = *recorded == body || response.status != 200 && is_platform_text(message);
        *status == response.status && is_same && case["poolSizeAfter"] == size
    };
    let (id, note) = (&case["id"], &case["note"]);
    (!is_right).then(|| format!("{id} {note}: {status} {recorded}, found {} {body}, {size} in it", response.status))
}

#[test]
#[ignore = "slow: a whole recorded chain"]
fn every_announced_transaction_gets_the_recorded_response() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (name, heights) in cases_by_height("transactions.jsonl") {
        let (chain, folder) = (Chain::open(&name), tempfile::tempdir().expect("a folder"));
        let settings = load_settings(Some(&chain.folder.join("network.properties")), &[]);
        let store = chain.store(folder.path());
        for (height, cases) in heights {
            chain.import(&store, height);
            for case in cases {
                let time = Timestamp(case["time"].as_i64().expect("a time") as i32);
                wrong.extend(check(&mut SimulatedNode::start(&store, &settings, time), &case));
                count += 1;
            }
        }
    }
    print_notice(&format!("{count} announced transactions, {} differences", wrong.len()));
    assert!(count > 1_000 && wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}
