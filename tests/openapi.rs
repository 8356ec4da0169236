//! The description that a node serves of its interface, held against what NIS1 answers. The recordings lie outside this
//! repository (see `common::shared`).

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use common::daemon::{Node, run};
use common::exchange::{Exchange, read_file};
use common::http_client::Client;
use common::private_network::{Genesis, TOTAL, address, key_pair, now};
use common::{loudly, shared, tiny};
use nisd::model::Amount;
use serde_json::{Value, json};

/// The description, as a node on the smallest chain serves it.
fn description() -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let (data, config, blocks) = (folder.path().join("store"), tiny("config.json"), tiny("blocks.bin"));
    let paths = [&config, &data, &blocks].map(|path| path.to_str().expect("a path").to_owned());
    let [config, data, blocks] = paths.each_ref().map(String::as_str);
    run(["import", "--config", config, "--data", data, blocks]).expect_success();
    let node = Node::start(&["--config", config, "--data", data, "--clock", "3240"]);
    let answer = Client::connect(node.http).get("/openapi.json");
    assert_eq!((answer.status, answer.header("Content-Type")), (200, Some("application/json")));
    answer.json()
}

/// Why a value is not one of a schema; the parts of JSON Schema that the description uses.
fn misfit(value: &Value, schema: &Value, root: &Value) -> Option<String> {
    if let Some(path) = schema["$ref"].as_str() {
        let found = root.pointer(path.trim_start_matches('#'));
        return misfit(value, found.unwrap_or_else(|| panic!("{path} leads nowhere")), root);
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let misfits: Option<Vec<String>> = choices.iter().map(|choice| misfit(value, choice, root)).collect();
        return misfits.map(|misfits| misfits.join("; "));
    }
    if let Some(wanted) = schema.get("const") {
        return (value != wanted).then(|| format!("{value} is not {wanted}"));
    }
    let kind = schema["type"].as_str()?;
    let is_of_kind = match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.as_str().is_some_and(|text| follows(text, schema["pattern"].as_str())),
        "integer" if schema["format"] == "int32" => value.as_i64().is_some_and(|number| i32::try_from(number).is_ok()),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("a type {other}"),
    };
    if !is_of_kind {
        return Some(format!("{value} is no {kind} {}", schema["pattern"]));
    }
    let mut elements = value.as_array().into_iter().flatten();
    let of_element = elements.find_map(|element| misfit(element, &schema["items"], root));
    of_element.or_else(|| members(value, schema, root))
}

fn members(value: &Value, schema: &Value, root: &Value) -> Option<String> {
    let object = value.as_object()?;
    let mut required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.find(|name| !object.contains_key(*name)) {
        return Some(format!("{missing} is missing in {value}"));
    }
    object.iter().find_map(|(name, member)| match schema["properties"].get(name) {
        Some(schema) => misfit(member, schema, root).map(|misfit| format!("{name}: {misfit}")),
        None => Some(format!("{name} is not described")),
    })
}

/// Whether a text follows a pattern such as `^[0-9a-f]{64}$` or `^[A-Z2-7]*$`.
fn follows(text: &str, pattern: Option<&str>) -> bool {
    let Some(pattern) = pattern else { return true };
    let inner = pattern.strip_prefix("^[").and_then(|inner| inner.strip_suffix('$')).expect("a pattern");
    let (set, count) = inner.split_once(']').expect("a set");
    let set: Vec<char> = set.chars().collect();
    let mut ranges = Vec::new();
    for part in set.split(|sign| *sign == '-').collect::<Vec<_>>().windows(2) {
        ranges.push((*part[0].last().expect("a first"), part[1][0]));
    }
    let count: Option<usize> = count.trim_matches(['{', '}', '*']).parse().ok();
    count.is_none_or(|count| text.len() == count)
        && text.chars().all(|sign| ranges.iter().any(|(first, last)| (*first..=*last).contains(&sign)))
}

#[test]
fn the_validator_of_these_tests_refuses_what_does_not_fit() {
    let schema = json!({
        "type": "object", "required": ["a"],
        "properties": {
            "a": { "type": "string", "pattern": "^[0-9a-f]{2}$" },
            "b": { "type": "array", "items": { "anyOf": [{ "type": "integer", "format": "int32" }, { "type": "null" }] } },
        },
    });
    for (value, fits) in [
        (json!({ "a": "0f" }), true),
        (json!({ "a": "0F" }), false),
        (json!({ "a": "0f0" }), false),
        (json!({}), false),
        (json!({ "a": "00", "c": 1 }), false),
        (json!({ "a": "00", "b": [1, null] }), true),
        (json!({ "a": "00", "b": [1, "1"] }), false),
        (json!({ "a": "00", "b": [3_000_000_000_i64] }), false),
    ] {
        assert_eq!(misfit(&value, &schema, &Value::Null).is_none(), fits, "{value}");
    }
}

/// Holds an answer of NIS1 against the description; the route, if it was one of JSON.
fn compare(exchange: &Exchange, description: &Value) -> Option<String> {
    let path = exchange.path.trim_end_matches('/');
    let operation = &description["paths"].get(path)?.get(exchange.method.to_ascii_lowercase())?;
    // What is refused before a route is looked for has no JSON body.
    let body: Value = serde_json::from_slice(&exchange.expected.body).ok()?;
    let response = &operation["responses"][exchange.expected.status.to_string()];
    assert!(response.is_object(), "{} has an answer {} that is not told of", path, exchange.expected.status);
    let schema = &response["content"]["application/json"]["schema"];
    let misfit = misfit(&body, schema, description);
    assert_eq!(misfit, None, "{} {path} in {}", exchange.method, exchange.id);
    Some(format!("{} {path} {}", exchange.method, exchange.expected.status))
}

#[test]
fn every_recorded_answer_is_as_the_description_tells() {
    let description = description();
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for file in ["tiny.jsonl", "all-forks.jsonl.gz", "one-year.jsonl.gz", "tiny-variants.jsonl"] {
        let Some(path) = shared(&format!("data/http/{file}")) else { return };
        for exchange in read_file(&path) {
            compare(&exchange, &description).into_iter().for_each(|route| *told.entry(route).or_default() += 1);
        }
    }
    let successes: BTreeSet<_> = told.keys().filter(|route| route.ends_with(" 200")).collect();
    loudly(&format!("{} answers of {} routes are as described", told.values().sum::<usize>(), successes.len()));
    assert!(successes.len() > 50, "{successes:?}");
}

/// NIS1 has no such route: a node that knows two others, neither of which is there, tells of them.
#[test]
fn what_a_node_tells_its_operator_of_others_is_as_the_description_tells() {
    let (description, folder) = (description(), tempfile::tempdir().expect("a folder"));
    let genesis = Genesis::new(now(), &[(address(&key_pair(1)), Amount::whole(TOTAL))]);
    let config = genesis.write(folder.path(), &[("nis.ipDetectionMode", "Disabled")]);
    let known = json!({
        "identity": { "public-key": key_pair(7).public().to_string(), "name": "gone" },
        "endpoint": { "protocol": "http", "host": "127.0.0.1", "port": 9 },
    });
    let list = json!({ "knownPeers": [known] }).to_string();
    std::fs::write(folder.path().join("peers-config_synthetic.json"), list).expect("room");
    let data = folder.path().join("store");
    let paths = [&config, &data].map(|path| path.to_str().expect("a path"));
    let node = Node::start(&["--config", paths[0], "--data", paths[1], "--peer", "127.0.0.1:10"]);
    let begun = Instant::now();
    let told = loop {
        let told = Client::connect(node.http).get("/local/peers").json();
        if told["peers"][0]["state"] == "inactive" && told["unpinned"][0]["lastTrouble"]["reason"].is_string() {
            break told;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{told}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(misfit(&told, &description["components"]["schemas"]["Peers"], &description), None, "{told}");
    assert!(told["peers"][0]["askedAgain"]["inSeconds"].as_u64().is_some_and(|seconds| seconds <= 60), "{told}");
}
