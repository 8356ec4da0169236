//! Single transactions announced to NIS1 on top of the recorded chains: the mempool gives the recorded answer and then
//! holds the recorded number of transactions.

use std::collections::BTreeMap;

use crate::common::recorded_chain::Chain;
use crate::common::refusals::{FAILED_AFTERWARDS, is_platform_text};
use crate::common::{print_notice, read_recorded};
use nisd::codec::{Context as ReadContext, SigningForm};
use nisd::crypto::{Signature, Verifier};
use nisd::mempool::{ConfirmedChain, Mempool};
use nisd::model::{Height, Timestamp, Transaction};
use nisd::rules::{Exception, Rejection, ValidationResult};
use nisd::store::Store;
use serde_json::Value;

/// Answer to an announced transaction.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Result(ValidationResult),
    Error(u16, String),
}

impl From<Rejection> for Answer {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Result(result) => Answer::Result(result),
            Rejection::Exception(exception) => exception.into(),
            Rejection::Store(error) => panic!("{error}"),
        }
    }
}

impl From<Exception> for Answer {
    fn from(exception: Exception) -> Self {
        Answer::Error(exception.http_status(), exception.text)
    }
}

impl From<ValidationResult> for Answer {
    fn from(result: ValidationResult) -> Self {
        Answer::Result(result)
    }
}

/// Returns the recorded answer.
fn recorded(case: &Value) -> Answer {
    let result = &case["result"];
    let message = result["message"].as_str().unwrap();
    match case["httpStatus"].as_u64().unwrap() {
        200 => {
            let code = ValidationResult::from_code(result["code"].as_i64().unwrap() as i32).unwrap();
            assert_eq!(code.name(), message);
            code.into()
        }
        status => Answer::Error(status as u16, message.to_owned()),
    }
}

/// Decodes an announced transaction and adds it to the mempool.
fn announce(case: &Value, pool: &mut Mempool, confirmed: &ConfirmedChain<'_>, verifier: &mut Verifier) -> Answer {
    let bytes = |name: &str| hex::decode(case[name].as_str().unwrap()).unwrap();
    let data = bytes(if case["data"].is_string() { "data" } else { "binary" });
    let context = ReadContext::of(confirmed.network);
    let mut transaction = match Transaction::from_bytes(&data, SigningForm::NonVerifiable, context) {
        Ok(transaction) => transaction,
        Err(error) => return Exception::from(error).into(),
    };
    let Ok(signature) = bytes("signature").try_into() else {
        return Exception::argument("binary signature representation must be 64 bytes").into();
    };
    transaction.signature = Some(Signature(signature));
    let outcome = pool.announce(transaction, confirmed, verifier);
    outcome.map_or_else(Answer::from, |()| Answer::Result(ValidationResult::Success))
}

/// Returns the answer to a case, and the number of transactions in the mempool afterwards.
fn replay(chain: &Chain, store: &Store, case: &Value, verifier: &mut Verifier) -> (Answer, usize) {
    let snapshot = store.snapshot().unwrap();
    let height = Height(case["height"].as_u64().unwrap());
    let now = Timestamp(case["time"].as_i64().unwrap() as i32);
    let confirmed = ConfirmedChain { snapshot: &snapshot, network: &chain.network, height, now };
    let mut pool = Mempool::default();
    for before in case["before"].as_array().into_iter().flatten() {
        let expected = before["result"].as_str().unwrap();
        let found = match announce(before, &mut pool, &confirmed, verifier) {
            Answer::Result(result) => result.name().to_owned(),
            Answer::Error(status, text) => format!("HTTP {status} {text}"),
        };
        assert_eq!(found, expected, "{}: before it", case["id"]);
    }
    let answer = announce(case, &mut pool, &confirmed, verifier);
    (answer, pool.len())
}

/// Announced after a copy with a wrong signature: NIS1 repeats its answer to the copy, this node accepts the true one.
const BEHIND_A_FORGED_COPY: [&str; 2] = ["tx-0302", "tx-0644"];

#[derive(Default)]
struct Tally {
    same: usize,
    /// Accepted after a forged copy.
    accepted_originals: usize,
    foreign_text: usize,
    accepted_instead: usize,
    wrong: Vec<String>,
}

impl Tally {
    fn count(&mut self, case: &Value, found: Answer, pool: usize) {
        let expected = recorded(case);
        let accepted = found == Answer::Result(ValidationResult::Success);
        if case["hazard"] == true {
            assert!(!accepted, "{} is a hazard", case["id"]);
            self.same += 1;
            return;
        }
        if BEHIND_A_FORGED_COPY.iter().any(|id| case["id"] == *id) {
            assert_eq!(expected, Answer::Result(ValidationResult::FailureSignatureNotVerifiable), "{}", case["id"]);
            assert!(accepted, "{}: {found:?}", case["id"]);
            self.accepted_originals += 1;
            return;
        }
        if case["poolSizeAfter"] != pool {
            self.wrong.push(format!("{}: {} in the pool, found {pool}", case["id"], case["poolSizeAfter"]));
        }
        match (&expected, &found) {
            (expected, found) if expected == found => self.same += 1,
            (Answer::Error(_, text), _) if text == FAILED_AFTERWARDS && accepted => self.accepted_instead += 1,
            (Answer::Error(a, text), Answer::Error(b, _)) if a == b && is_platform_text(text) => self.foreign_text += 1,
            _ => self.wrong.push(format!(
                "{} {} {} {}: expected {expected:?}, found {found:?}",
                case["id"], case["chain"], case["rule"], case["note"]
            )),
        }
    }
}

#[test]
fn every_announced_transaction_gets_the_recorded_answer() {
    let text = read_recorded("rejects/transactions.jsonl.gz");
    let mut cases: BTreeMap<(String, u64), Vec<Value>> = BTreeMap::new();
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let place = (case["chain"].as_str().unwrap().to_owned(), case["height"].as_u64().unwrap());
        cases.entry(place).or_default().push(case);
    }
    let mut tally = Tally::default();
    let mut verifier = Verifier::new(Verifier::DEFAULT_CAPACITY);
    let mut open: Option<(String, Chain, tempfile::TempDir, Store)> = None;
    for ((name, height), cases) in &cases {
        if open.as_ref().is_none_or(|(open, ..)| open != name) {
            let chain = Chain::open(name);
            let folder = tempfile::tempdir().unwrap();
            let store = chain.store(folder.path());
            open = Some((name.clone(), chain, folder, store));
        }
        let Some((_, chain, _, store)) = &open else { return };
        chain.import(store, *height);
        for case in cases {
            let (answer, pool) = replay(chain, store, case, &mut verifier);
            tally.count(case, answer, pool);
        }
    }
    print_notice(&format!(
        "{} answers as recorded, {} more with a status and words of its own, {} accepted that the reference software \
         accepts and then fails on",
        tally.same, tally.foreign_text, tally.accepted_instead
    ));
    assert!(tally.wrong.is_empty(), "{} other answers:\n{}", tally.wrong.len(), tally.wrong.join("\n"));
    assert_eq!(tally.accepted_originals, BEHIND_A_FORGED_COPY.len());
    assert_eq!(
        tally.same + tally.foreign_text + tally.accepted_instead + tally.accepted_originals,
        text.lines().count()
    );
}
