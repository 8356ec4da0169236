//! Trust, network time and task delays against vectors of NIS1, bit for bit.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use nisd::crypto::PublicKey;
use nisd::model::{Address, NetworkByte, Timestamp};
use nisd::peer::schedule::Task;
use nisd::peer::time_sync::{ClockAnswer, Sample, TimeSync, coupling, tolerance};
use nisd::peer::trust::{Calculation, Experience, Experiences, Members, TrustValues};
use serde_json::Value;

use super::values::{cases, integer, list, to_bits};
use crate::common::{read_recorded, vector_group};

const NOW: Timestamp = Timestamp(1_000);

/// Returns the text of the file of vectors.
fn text() -> String {
    read_recorded("vectors-peer.json.gz")
}

fn section(name: &str) -> Value {
    vector_group("peer", name)
}

/// Returns the decimal numbers of the only list of this name exactly as written, because the JSON reader rounds.
fn decimals(text: &str, name: &str) -> Vec<f64> {
    let (_, rest) = text.split_once(&format!("\"{name}\"")).expect("the list");
    let (_, rest) = rest.split_once('[').expect("a list");
    let (list, _) = rest.split_once(']').expect("its end");
    list.split(',').map(|number| number.trim().parse().expect("a number")).collect()
}

fn integers(value: &Value) -> Vec<i64> {
    list(value).iter().map(integer).collect()
}

fn address(number: i64) -> Address {
    Address::from_public_key(&PublicKey([number as u8 + 1; 32]), NetworkByte::TESTNET)
}

/// Returns the experiences of the example.
fn experiences(section: &Value) -> Experiences {
    let local = integer(&section["localNode"]);
    let mut experiences = Experiences::new(address(local));
    for row in list(&section["experiences"]) {
        let [from, to, successes, failures] = ["from", "to", "s", "f"].map(|name| integer(&row[name]));
        if from == local {
            (0..successes).for_each(|_| experiences.succeeded(address(to), Duration::ZERO));
            (0..failures).for_each(|_| experiences.failed(address(to), Duration::ZERO));
        } else {
            let pair = (address(to), Experience::new(successes, failures));
            assert!(experiences.receive(address(from), &[pair], Duration::ZERO));
        }
    }
    experiences
}

/// Computes the trust of the example in slices of this many rows.
fn trust(section: &Value, rows: usize) -> TrustValues {
    let experiences = experiences(section);
    let (nodes, local) = (integer(&section["nodes"]), integer(&section["localNode"]));
    assert_eq!(local, nodes - 1);
    let others = (0..local).map(address).collect();
    let listed: BTreeSet<_> = integers(&section["preTrusted"]).into_iter().map(address).collect();
    let none = TrustValues::default();
    let members = Members::choose(others, address(local), &listed, &none, &mut || 0);
    let mut calculation = Calculation::new(members);
    loop {
        if let Some(values) = calculation.advance(&experiences, rows) {
            return values;
        }
    }
}

#[test]
fn trust_equals_the_reference_in_every_bit_for_any_slice_size() {
    let (text, section) = (text(), section("trust"));
    let expected = to_bits(&decimals(&text, "afterLowCommunicationBoost"));
    assert_eq!(expected.len(), 5);
    for rows in [1, 3, usize::MAX] {
        let values = trust(&section, rows);
        let (nodes, trust): (Vec<_>, Vec<_>) = values.iter().unzip();
        assert!(nodes.into_iter().copied().eq((0..5).map(address)));
        assert_eq!(to_bits(&trust), expected, "{trust:?}");
    }
}

#[test]
fn only_active_peers_are_candidates_with_the_reference_weights() {
    let (text, section) = (text(), section("trust"));
    let local = address(integer(&section["localNode"]));
    let is_active = |node: &Address| {
        let mut all = section["statuses"].as_object().expect("an object").iter();
        *node != local
            && all.any(|(number, state)| address(number.parse().expect("a number")) == *node && state == "ACTIVE")
    };
    let candidates = trust(&section, 1).admit(is_active);
    let mut weights = [0.0; 5];
    for (node, weight) in candidates.iter() {
        let place = (0..5).find(|number| address(*number) == *node).expect("a node of the example");
        weights[place as usize] = weight;
    }
    assert_eq!(to_bits(&weights), to_bits(&decimals(&text, "afterUpdateMask")), "{weights:?}");
    assert_eq!(candidates.iter().count(), 3);
}

fn sample(row: &Value) -> Sample {
    let [sent, received, remote_sent, remote_received] =
        ["localSend", "localReceive", "remoteSend", "remoteReceive"].map(|name| integer(&row[name]));
    let importance = row["importance"].to_string().parse().expect("a number");
    Sample { sent, remote_received, remote_sent, received, importance }
}

/// Returns the clock answers of listed nodes, each with its own index.
fn answers(samples: &[Sample]) -> Vec<ClockAnswer> {
    let answer = |(number, sample): (usize, &Sample)| ClockAnswer {
        node: address(number as i64),
        ip: IpAddr::from([45, number as u8, 7, 1]),
        is_listed: true,
        is_selected: true,
        sample: *sample,
    };
    samples.iter().enumerate().map(answer).collect()
}

#[test]
fn time_samples_are_measured_as_by_the_reference() {
    let section = section("timeSynchronization");
    for row in cases(&section["samples"]) {
        let sample = sample(row);
        assert_eq!((sample.duration(), sample.offset()), (integer(&row["duration"]), integer(&row["offset"])));
    }
}

#[test]
fn network_time_is_moved_as_by_the_reference() {
    let section = section("timeSynchronization");
    let samples: Vec<_> = list(&section["samples"]).iter().map(sample).collect();
    let cases = list(&section["cases"]);
    assert_eq!(cases.len(), 6);
    for case in cases {
        let accounts = integer(&case["lastVectorSize"]) as u64;
        let mut time = TimeSync::default();
        // Rounds that age the node without moving its clock.
        let still = Sample { sent: 0, remote_received: 0, remote_sent: 0, received: 0, importance: 1.0 };
        for _ in 0..integer(&case["nodeAge"]) {
            assert_eq!(time.round(&answers(&[still]), 1, accounts, NOW).map(|round| round.change), Some(0));
        }
        let round = time.round(&answers(&samples), samples.len(), accounts, NOW).expect("samples");
        let applied = integer(&case["appliedOffset"]);
        assert_eq!((round.change, time.offset), (applied, applied), "{case}");
    }
}

#[test]
fn coupling_and_tolerance_by_age_match_the_reference() {
    let (text, section) = (text(), section("timeSynchronization"));
    let tolerances = section["toleratedDeviationMs"].as_object().expect("an object");
    assert_eq!(tolerances.len(), 24);
    for (age, expected) in tolerances {
        assert_eq!(tolerance(age.parse().expect("a number")), integer(expected), "{age}");
    }
    let (_, rest) = text.split_once("\"coupling\"").expect("the section");
    let (_, rest) = rest.split_once('{').expect("an object");
    let (rows, _) = rest.split_once('}').expect("its end");
    assert_eq!(rows.split(',').count(), 15);
    for row in rows.split(',') {
        let (age, expected) = row.split_once(':').expect("a row");
        let age = age.trim().trim_matches('"').parse().expect("a number");
        let expected: f64 = expected.trim().parse().expect("a number");
        assert_eq!(coupling(age).to_bits(), expected.to_bits(), "{age}");
    }
}

#[test]
fn task_delays_match_the_reference() {
    let section = section("delayStrategies");
    let tasks = [
        ("refresh", Task::Refresh),
        ("timeSynchronization", Task::TimeSynchronisation),
        ("nodeExperiences", Task::UpdatingExperiences),
    ];
    for (name, task) in tasks {
        let of_task = &section[name];
        let mut expected = Vec::new();
        if let [delay, times] = of_task["firstUniform"].as_array().map_or(&[][..], Vec::as_slice) {
            expected.extend((0..integer(times)).map(|_| integer(delay)));
        }
        let linear = integers(&of_task["linear"]);
        assert!(linear.len() > 4);
        expected.extend(linear);
        expected.extend([integer(&of_task["then"]); 3]);
        for (runs, delay) in expected.into_iter().enumerate() {
            assert_eq!(task.delay(runs as u64), Duration::from_millis(delay as u64), "{name} after {runs} runs");
        }
    }
}
