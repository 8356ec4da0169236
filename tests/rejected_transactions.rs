//! Single transactions that were offered to the real network software on top of the recorded chains: the rules give
//! the answer that it gave.
//!
//! What the pool adds (its own contents, its filter, its memory of former answers) is not here; such cases are counted
//! aloud, and the rules must let them pass.

mod common;
#[path = "common/recorded_chain.rs"]
mod recorded_chain;

use std::collections::BTreeMap;

use common::{loudly, shared};
use nisd::codec::{Context as ReadContext, Form};
use nisd::crypto::{Signature, Verifier};
use nisd::model::transaction::{Hashes, wire_network};
use nisd::model::{Height, Network, Timestamp, Transaction};
use nisd::rules::{self, Exception, Refusal, Use, ValidationResult, check_transaction, transactions_are_new};
use nisd::state::{BlockContext, Ledger, View};
use nisd::store::Store;
use recorded_chain::Chain;
use serde_json::Value;

/// What is answered to an announced transaction.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Result(ValidationResult),
    Error(u16, String),
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Result(result) => Answer::Result(result),
            Refusal::Exception(exception) => exception.into(),
            Refusal::Store(error) => panic!("{error}"),
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

/// The recorded answer.
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

/// Reads an announced transaction, which must not be in the chain yet and bear a good signature.
fn read(case: &Value, state: &impl View, network: &Network, verifier: &mut Verifier) -> Result<Transaction, Answer> {
    let bytes = |name: &str| hex::decode(case[name].as_str().unwrap()).unwrap();
    let data = bytes(if case["data"].is_string() { "data" } else { "binary" });
    let context = ReadContext::of(network);
    let mut transaction = Transaction::from_bytes(&data, Form::NonVerifiable, context).map_err(Exception::from)?;
    let length = |_| Exception::argument("binary signature representation must be 64 bytes");
    let signature = Signature(bytes("signature").try_into().map_err(length)?);
    transaction.signature = Some(signature);
    if wire_network(transaction.version) != network.byte {
        return Err(ValidationResult::FailureWrongNetwork.into());
    }
    let children = transaction.children().map(Transaction::hash).collect();
    let hashes = [Hashes { own: transaction.hash(), children }];
    transactions_are_new(&hashes, state)?;
    let good = verifier.verify(&transaction.signer, &transaction.signed_bytes(), &signature);
    let good = good.map_err(|error| Exception::argument(error.to_string()))?;
    if !good && !network.chain.forks.treasury_hashes.contains(&hashes[0].own) {
        return Err(ValidationResult::FailureSignatureNotVerifiable.into());
    }
    Ok(transaction)
}

/// Reads and checks a transaction, and carries it out if it is valid.
fn announce(
    case: &Value,
    ledger: &mut Ledger<'_, '_>,
    now: Timestamp,
    verifier: &mut Verifier,
) -> Result<ValidationResult, Answer> {
    let transaction = read(case, ledger, ledger.network, verifier)?;
    let height = ledger.block.height;
    let context = rules::Context { state: &*ledger, network: ledger.network, height, now, usage: Use::Pool };
    let effects = check_transaction(&transaction, &context)?;
    effects.iter().for_each(|effect| ledger.apply(effect).unwrap());
    Ok(ValidationResult::Success)
}

/// The answer to a case.
fn replay(chain: &Chain, store: &Store, case: &Value, verifier: &mut Verifier) -> Answer {
    let now = Timestamp(case["time"].as_i64().unwrap() as i32);
    let height = Height(case["height"].as_u64().unwrap()).next();
    let mut batch = store.begin().unwrap();
    let mut block = BlockContext::new(height, now);
    let mut ledger = Ledger { batch: &mut batch, block: &mut block, network: &chain.network };
    for before in case["before"].as_array().into_iter().flatten() {
        // What the pool refuses must not be carried out.
        if before["result"] == "SUCCESS" {
            let answer = announce(before, &mut ledger, now, verifier);
            assert!(answer.is_ok(), "{}: before it {answer:?}", case["id"]);
        }
    }
    announce(case, &mut ledger, now, verifier).map_or_else(|answer| answer, Answer::Result)
}

/// Why a case is not for the rules alone, if it is not.
fn left_to_the_pool(case: &Value, expected: &Answer) -> Option<&'static str> {
    use ValidationResult::{FailureMultisigNoMatchingMultisig, FailureTransactionCacheTooFull, Neutral};
    let before = || case["before"].as_array().into_iter().flatten();
    let Answer::Result(result) = expected else { return None };
    match *result {
        FailureMultisigNoMatchingMultisig => Some("a cosignature without its multisig transaction"),
        FailureTransactionCacheTooFull => Some("the filter"),
        _ if before().any(|before| before["data"] == case["binary"]) => Some("the memory of former answers"),
        Neutral if before().count() > 0 => Some("a transaction that the pool has already"),
        _ => None,
    }
}

/// Where the recording shows a failure of the reference software after all its rules had passed (specification 08 §21,
/// number 21), a new implementation accepts.
const FAILED_AFTERWARDS: &str = "invalid call to convertToFullyVested 2";

/// Whether a recorded text is in words of the reference software's platform instead of the protocol's.
fn is_foreign(text: &str) -> bool {
    ["java.", "org.nem.core.", "Cannot ", "-2"].iter().any(|start| text.starts_with(start))
}

#[derive(Default)]
struct Tally {
    same: usize,
    foreign_text: usize,
    accepted_instead: usize,
    pool: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
}

impl Tally {
    fn count(&mut self, case: &Value, found: Answer) {
        let expected = recorded(case);
        let accepted = found == Answer::Result(ValidationResult::Success);
        if let Some(why) = left_to_the_pool(case, &expected).filter(|_| found != expected) {
            assert!(accepted, "{}: {why}, but found {found:?}", case["id"]);
            *self.pool.entry(why).or_default() += 1;
            return;
        }
        if case["hazard"] == true {
            assert!(!accepted, "{} is a hazard", case["id"]);
            self.same += 1;
            return;
        }
        match (&expected, &found) {
            (expected, found) if expected == found => self.same += 1,
            (Answer::Error(_, text), _) if text == FAILED_AFTERWARDS && accepted => self.accepted_instead += 1,
            (Answer::Error(a, text), Answer::Error(b, _)) if a == b && is_foreign(text) => self.foreign_text += 1,
            _ => self.wrong.push(format!(
                "{} {} {} {}: expected {expected:?}, found {found:?}",
                case["id"], case["chain"], case["rule"], case["note"]
            )),
        }
    }
}

#[test]
fn every_announced_transaction_gets_the_recorded_answer() {
    let Some(file) = shared("data/rejects/transactions.jsonl") else { return };
    let text = std::fs::read_to_string(file).unwrap();
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
            let Some(chain) = Chain::open(name) else { return };
            let folder = tempfile::tempdir().unwrap();
            let store = chain.store(folder.path());
            open = Some((name.clone(), chain, folder, store));
        }
        let Some((_, chain, _, store)) = &open else { return };
        chain.import(store, *height);
        for case in cases {
            tally.count(case, replay(chain, store, case, &mut verifier));
        }
    }
    let left: usize = tally.pool.values().sum();
    loudly(&format!(
        "{} answers as recorded, {} more with a status and words of its own, {} accepted that the reference software \
         accepts and then fails on, {left} left to the pool: {:?}",
        tally.same, tally.foreign_text, tally.accepted_instead, tally.pool
    ));
    assert!(tally.wrong.is_empty(), "{} other answers:\n{}", tally.wrong.len(), tally.wrong.join("\n"));
    assert_eq!(tally.same + tally.foreign_text + tally.accepted_instead + left, text.lines().count());
}
