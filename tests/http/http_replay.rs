//! Replays recorded exchanges with NIS1 against the program over real sockets.
//! The recordings' README defines the comparison. Exchanges that are not replayed are counted and listed.

use std::borrow::Cow;
use std::path::Path;

use crate::common::daemon::{Node, args, run};
use crate::common::exchange::{Compare, Exchange, read_file};
use crate::common::http::Response;
use crate::common::replay_report::ReplayReport;
use crate::common::{print_notice, recorded};
use serde_json::Value;
use tempfile::TempDir;

/// Supplies of a mosaic whose definition was repeated with only another description. NIS1 compares numbers above 127 in
/// a levy by object identity, treats equal ones as different, and counts only from the repetition on.
const EQUAL_LEVIES: [&str; 4] = ["all-forks-03280", "all-forks-03281", "all-forks-03283", "all-forks-03284"];
/// Challenges of 0, 1 and at least 2,048 bytes, and with an odd number of hex digits. NIS1 signs them, and so signs
/// hashes that others could push in its name. This node signs only challenges of 64 bytes, the size that NIS1 itself
/// sends: others get a signature of zeros, and those above 1,024 bytes no answer.
const UNSIGNED_CHALLENGES: [&str; 8] = [
    "tiny-03256",
    "tiny-03257",
    "tiny-03258",
    "tiny-03259",
    "tiny-03260",
    "all-forks-04420",
    "all-forks-04421",
    "all-forks-04423",
];
/// The true transaction after a copy with a wrong signature: NIS1 rejects it for 600 s, this node accepts it. To keep
/// the rest as recorded, the copy is sent a second time instead, and gets the recorded answer.
const TRUE_AFTER_FORGED: [&str; 2] = ["tiny-03492", "all-forks-04702"];

/// Boot keys of the recorded nodes, by chain.
const BOOT_KEYS: [(&str, &str); 3] = [
    ("tiny", "3b960ae4c8a29981e5ed8e801260f821095f8c6db72ab78f0463df2ff23af3ad"),
    ("all-forks", "4b1974067350c75178ceb044a90f68a68415fd844a7f4cc20e896100afb4101b"),
    ("one-year", "f359e18ad8581bb3c8109df694d378b199435256e11fb0df8a7782ac52cc3057"),
];

/// Settings of NIS1 for the recording, beyond the configuration of the chain.
const SETTINGS: [&str; 7] = [
    "nis.optionalFeatures=TRANSACTION_HASH_LOOKUP|HISTORICAL_ACCOUNT_DATA|TRACK_EXPIRED_MOSAICS",
    "nisd.forgetHashes=true",
    "nem.useDosFilter=false",
    "nisd.localAccess=address",
    "nis.shouldAutoHarvestOnBoot=false",
    "nis.ipDetectionMode=Disabled",
    "nis.useNetworkTime=false",
];

/// Returns why an exchange is not compared; `None` if it is.
fn reason_to_skip(exchange: &Exchange) -> Option<&'static str> {
    // All other such exchanges are marked in the recording.
    let never_works = ["/account/isunlocked/", "/mosaic/supply/batch/"].contains(&exchange.path.as_str());
    if never_works && exchange.expected.status == 500 {
        return Some("a route that does not work in NIS1, and does here");
    }
    let is_supply = EQUAL_LEVIES.contains(&exchange.id.as_str());
    is_supply.then_some("a supply without what came before a new description, as NIS1 takes equal levies for others")
}

/// Returns what is wrong with the answer to an unsigned challenge; empty if nothing is.
fn unsigned_answer_errors(response: &Response) -> Vec<String> {
    let body = String::from_utf8_lossy(&response.body);
    let is_rejected = response.status == 400 && body.contains("challenge must be 64 bytes");
    let zeros = format!("\"signature\":\"{}\"", "00".repeat(64));
    let is_unsigned = response.status == 200 && (body.contains(&zeros) || response.body.ends_with(&[0; 64]));
    if is_rejected || is_unsigned { Vec::new() } else { vec![format!("signed: {} {body}", response.status)] }
}

/// Returns the exchange to compare. The recordings compare only the status of the request list of a node, but the same
/// requests are made here, so the whole list must be equal, including the request numbers.
fn with_request_list(exchange: &Exchange) -> Cow<'_, Exchange> {
    let is_list = exchange.path.trim_end_matches('/') == "/debug/connections/incoming" && exchange.method == "GET";
    if !is_list || exchange.compare != Compare::Status || exchange.expected.status != 200 {
        return Cow::Borrowed(exchange);
    }
    let compare = if exchange.expected.body.starts_with(b"{") { Compare::Json } else { Compare::Bytes };
    Cow::Owned(Exchange { compare, ..exchange.clone() })
}

/// Sends exchanges one after another and compares the answers.
fn replay(name: &str, exchanges: &[&Exchange], node: &Node) {
    let (mut report, mut unsigned_challenges) = (ReplayReport::default(), 0);
    for (place, exchange) in exchanges.iter().enumerate() {
        let forged = TRUE_AFTER_FORGED.contains(&exchange.id.as_str());
        let forged = forged.then(|| Exchange { body: exchanges[place - 1].body.clone(), ..(*exchange).clone() });
        let exchange = forged.as_ref().unwrap_or(exchange);
        // What is not compared is sent all the same because the node counts its requests.
        let got = exchange.send(node.http.port());
        if let Some(reason) = reason_to_skip(exchange) {
            report.skip(reason);
            continue;
        }
        report.replayed += 1;
        let found = match got {
            Ok(response) if UNSIGNED_CHALLENGES.contains(&exchange.id.as_str()) => {
                unsigned_challenges += 1;
                unsigned_answer_errors(&response)
            }
            Ok(response) => with_request_list(exchange).differences(&response),
            Err(error) => vec![format!("no answer: {error}")],
        };
        let shown: String = exchange.line().chars().take(160).collect();
        let text = (!found.is_empty()).then(|| format!("{} {shown}\n    {}", exchange.id, found.join("\n    ")));
        if exchange.is_optional {
            report.notes.extend(text.map(|text| format!("tolerated: {text}")))
        } else {
            report.note(&exchange.path, text)
        }
    }
    let listed = UNSIGNED_CHALLENGES.iter().filter(|id| id.starts_with(&format!("{name}-0")));
    assert_eq!(unsigned_challenges, listed.count(), "{name}: a listed challenge is not in the recording");
    report.conclude(name);
}

/// Imports the recorded blocks of a chain into a new store.
fn import(chain: &Path) -> TempDir {
    let store = tempfile::tempdir().expect("a folder for the store");
    let blocks = ["blocks.bin", "blocks.bin.gz"].map(|name| chain.join(name));
    let blocks = blocks.iter().find(|path| path.exists()).expect("the chain has a file of blocks");
    // Data of the optional features is stored during the import.
    let config = chain.join("network.properties");
    run(args!["import", "--set", SETTINGS[0], "--config", config, "--data", store.path(), blocks]).expect_success();
    store
}

/// Starts a node with the boot key of the recorded one on a store, with a stopped clock.
fn start(name: &str, store: &Path, clock: i32, settings: &[String]) -> Node {
    let (config, clock) = (recorded("chains").join(name).join("network.properties"), clock.to_string());
    let (_, key) = BOOT_KEYS.iter().find(|(chain, _)| *chain == name).expect("the key of the chain");
    let boot = [format!("nis.bootKey={key}"), format!("nis.bootName=golden {name}")];
    let settings = SETTINGS.map(str::to_owned).into_iter().chain(boot).chain(settings.iter().cloned());
    let settings = settings.flat_map(|setting| args!["--set", setting]);
    // A peer that does not answer keeps the node from harvesting for a minute, with the accounts that requests unlock.
    let own = args!["--config", config, "--data", store, "--clock", clock, "--peer", "127.0.0.1:1"];
    Node::start(own.into_iter().chain(settings))
}

/// Replays a whole recording against a node on its chain.
fn replay_chain(chain: &str, recording: &str, clock: i32) {
    let exchanges = read_file(&recorded("http").join(recording));
    let store = import(&recorded("chains").join(chain));
    let node = start(chain, store.path(), clock, &[]);
    replay(chain, &exchanges.iter().collect::<Vec<_>>(), &node);
}

#[test]
fn requests_on_tiny_are_answered_as_recorded() {
    replay_chain("tiny", "tiny.jsonl.gz", 3240);
}

#[test]
#[ignore = "slow: a whole recorded chain"]
fn requests_on_all_forks_are_answered_as_recorded() {
    replay_chain("all-forks", "all-forks.jsonl.gz", 241_500);
}

#[test]
#[ignore = "slow: a whole recorded chain"]
fn requests_on_one_year_are_answered_as_recorded() {
    replay_chain("one-year", "one-year.jsonl.gz", 38_109_500);
}

/// Variants of the node, with the settings that differ from a booted one; `None` if such a node is impossible. A word
/// in braces stands for an account of the chain.
const VARIANTS: [(&str, Option<&[&str]>, &str); 6] = [
    ("unbooted", Some(&["nis.shouldAutoBoot=false", "nis.bootKey="]), ""),
    ("no-features", Some(&["nis.optionalFeatures="]), ""),
    ("rate-limit", Some(&["nem.useDosFilter=true"]), ""),
    (
        "restricted",
        Some(&[
            "nis.additionalLocalIps=127.0.0.2|127.0.1.*",
            "nis.allowedHarvesterAddresses={alice address}",
            "nis.unlockedLimit=1",
        ]),
        "",
    ),
    (
        "auto-harvest",
        Some(&[
            "nis.shouldAutoHarvestOnBoot=true",
            "nis.additionalHarvesterPrivateKeys={alice privateKey}|{bob privateKey}|{user1 privateKey}",
        ]),
        "",
    ),
    ("loading", None, "this node is never held while it loads its chain"),
];

/// Fills in the accounts that a setting names.
fn fill_accounts(setting: &str, accounts: &Value) -> String {
    let mut parts = setting.split(['{', '}']);
    let mut text = parts.next().unwrap_or_default().to_owned();
    while let (Some(name), Some(rest)) = (parts.next(), parts.next()) {
        let (name, member) = name.split_once(' ').expect("a name and a member");
        let account = accounts.as_array().expect("a list").iter().find(|account| account["name"] == name);
        text.push_str(account.expect("the account")[member].as_str().expect("a text"));
        text.push_str(rest);
    }
    text
}

#[test]
fn requests_on_tiny_with_other_settings_are_answered_as_recorded() {
    let chain = recorded("chains/tiny");
    let exchanges = read_file(&recorded("http/tiny-variants.jsonl.gz"));
    let keys = std::fs::read(chain.join("keys.json")).expect("the keys of the chain");
    let keys: Value = serde_json::from_slice(&keys).expect("JSON");
    let store = import(&chain);
    for (variant, settings, reason) in VARIANTS {
        let chosen: Vec<_> = exchanges.iter().filter(|exchange| exchange.variant.as_deref() == Some(variant)).collect();
        assert!(!chosen.is_empty(), "no exchange of the variant {variant}");
        let Some(settings) = settings else {
            print_notice(&format!("tiny, {variant}: skipped {}: {reason}", chosen.len()));
            continue;
        };
        let settings: Vec<String> = settings.iter().map(|setting| fill_accounts(setting, &keys["accounts"])).collect();
        let node = start("tiny", store.path(), 3240, &settings);
        replay(&format!("tiny, {variant}"), &chosen, &node);
    }
    let known = |exchange: &Exchange| VARIANTS.iter().any(|(name, ..)| exchange.variant.as_deref() == Some(name));
    assert!(exchanges.iter().all(known), "a variant has no line in the table");
}

/// Tests of the comparison itself.
mod comparison {
    use super::*;

    /// Builds an exchange with this recorded body and these further members.
    fn recorded(body: &str, more: &str) -> Exchange {
        let body = serde_json::to_string(body).unwrap();
        Exchange::parse(&format!(
            r#"{{"id":"x-1","method":"GET","path":"/x","query":null,"headers":[],"body":null,"status":200,
            "responseHeaders":[["Content-Type","application/json"],["Server","Jetty"]],
            "responseBody":{body},"responseEncoding":"utf8","compare":"json"{more}}}"#
        ))
    }

    fn answered(body: &str) -> Response {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Response { status: 200, headers, body: body.as_bytes().to_vec() }
    }

    fn is_equal(recorded: &Exchange, body: &str) -> bool {
        recorded.differences(&answered(body)).is_empty()
    }

    #[test]
    fn bodies_are_compared_as_json_with_exact_numbers() {
        let members = "{\"a\":1.0,\"b\":[1,2],\"c\":\"\\u00e9\\/\"}\r\n";
        let importance = r#"{"account":{"importance":0.5,"balance":5}}"#;
        // What is compared, the recorded body, its marks, equal bodies, and different ones.
        for (what, body, marks, equal, different) in [
            (
                "the order of members and white space do not matter, the text of numbers does",
                members,
                "",
                ["{ \"c\":\"é/\", \"b\":[1, 2],\"a\":1.0}"].as_slice(),
                [r#"{"a":1,"b":[1,2],"c":"é/"}"#, r#"{"a":1.0,"b":[2,1],"c":"é/"}"#, "{}", "nonsense", ""].as_slice(),
            ),
            (
                "a masked value is arbitrary but required",
                r#"{"a":[{"t":1},{"t":2}],"b":0}"#,
                r#","mask":["/a/*/t"]"#,
                &[r#"{"a":[{"t":3},{"t":"x"}],"b":0}"#],
                &[r#"{"a":[{"t":3},{}],"b":0}"#, r#"{"a":[{"t":3},{"t":4}],"b":1}"#],
            ),
            (
                "an unordered array is a multiset",
                r#"{"a":[1,2,2]}"#,
                r#","unordered":["/a"]"#,
                &[r#"{"a":[2,1,2]}"#],
                &[r#"{"a":[1,1,2]}"#],
            ),
            (
                "importance may differ in its last digits only",
                importance,
                "",
                &[r#"{"account":{"importance":5.000000000000001E-1,"balance":5}}"#],
                &[
                    r#"{"account":{"importance":0.50000000000001,"balance":5}}"#,
                    r#"{"account":{"importance":0.5,"balance":5.000000000000001}}"#,
                    r#"{"account":{"balance":5}}"#,
                ],
            ),
        ] {
            let recorded = recorded(body, marks);
            assert!(equal.iter().all(|body| is_equal(&recorded, body)), "{what}");
            different.iter().for_each(|body| assert!(!is_equal(&recorded, body), "{what}: {body}"));
        }
    }

    #[test]
    fn status_and_the_headers_that_matter_are_compared() {
        let recorded = recorded("{}", "");
        let mut got = answered("{}");
        got.headers.push(("X-Other".to_owned(), "free".to_owned()));
        assert!(recorded.differences(&got).is_empty());
        got.status = 404;
        got.headers[0].1 = "application/binary".to_owned();
        assert_eq!(recorded.differences(&got).len(), 2);
    }

    #[test]
    fn the_second_allow_of_options_is_a_set() {
        let mut recorded = recorded("{}", "");
        recorded.method = "OPTIONS".to_owned();
        let allow = |value: &str| ("Allow".to_owned(), value.to_owned());
        recorded.expected.headers.extend([allow("constant"), allow("POST,GET,HEAD")]);
        let mut got = answered("{}");
        got.headers.extend([allow("other"), allow("GET, HEAD, POST")]);
        assert!(recorded.differences(&got).is_empty());
        got.headers.pop();
        assert_eq!(recorded.differences(&got).len(), 1);
    }

    #[test]
    fn bytes_are_compared_apart_from_masked_ranges() {
        let more = r#","maskRanges":[[-2,2],[0,1]]"#;
        let mut recorded = recorded("abcdef", more);
        recorded.compare = Compare::Bytes;
        assert!(is_equal(&recorded, "xbcdyz"));
        for other in ["xbcxyz", "abcde", "abcdefg", ""] {
            assert!(!is_equal(&recorded, other), "{other}");
        }
    }

    #[test]
    fn a_binary_account_is_taken_apart() {
        let account = |importance: f64, balance: i64| {
            let mut account = [4i32.to_le_bytes().as_slice(), b"TABC", &(-1i32).to_le_bytes()].concat();
            account.extend([balance, 2, 3].iter().flat_map(|number| number.to_le_bytes()));
            account.extend((-1i32).to_le_bytes());
            account.extend(importance.to_le_bytes());
            account.extend(0i32.to_le_bytes());
            account
        };
        let pair = |importance: f64, balance: i64| {
            let account = account(importance, balance);
            let meta = [1i32.to_le_bytes().as_slice(), b"L", &1i32.to_le_bytes(), b"I", &[0; 8]].concat();
            let length = |bytes: &[u8]| (bytes.len() as i32).to_le_bytes();
            [length(&account).as_slice(), &account, &length(&meta), &meta].concat()
        };
        let mut recorded = recorded("", "");
        recorded.path = "/account/get".to_owned();
        recorded.compare = Compare::Bytes;
        recorded.expected.body = pair(0.5, 7);
        let got = |body| Response { body, ..answered("") };
        assert!(recorded.differences(&got(pair(0.5, 7))).is_empty());
        assert!(!recorded.differences(&got(pair(0.5, 8))).is_empty());
        assert!(!recorded.differences(&got(pair(0.5, 7)[1..].to_vec())).is_empty());
        assert!(!recorded.differences(&got(pair(0.0, 7))).is_empty());
    }
}
