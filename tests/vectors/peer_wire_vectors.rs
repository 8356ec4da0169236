//! Wire forms of the peer protocol against the vectors of NIS1.

use std::collections::BTreeSet;
use std::fmt::Debug;

use super::values::{bytes, key_pair, text};
use crate::common::{print_notice, read_recorded};
use nisd::codec::{Context, Format, Readable, SigningForm, Writable};
use nisd::crypto::hash::keccak256;
use nisd::crypto::{KeyPair, PublicKey, Signature};
use nisd::mempool::short_id;
use nisd::model::network::ChainParameters;
use nisd::model::{Address, Block, Height, NetworkByte, Transaction};
use nisd::peer::wire::{
    AnswerContext, AuthenticatedRequest, AuthenticatedResponse, ChainRequest, Challenge, CommunicationTimeStamps,
    Endpoint, ErrorBody, HashChain, Identity, List, MetaData, NodeCollection, NodeExperiences, NodeInfo, NodeList,
    Query, Score, SecureEntity, ShortIds,
};
use serde_json::Value;

/// Structures without a type in this project, with the reason.
const NOT_READ: [(&str, &str); 2] = [
    (
        "challenge (4 bytes)",
        "challenges of other than 64 bytes are not signed, as their signatures could be those of pushes",
    ),
    ("time synchronization result", "shown to people only"),
];

fn vectors() -> Value {
    serde_json::from_str(&read_recorded("vectors-peer.json.gz")).expect("JSON")
}

fn context() -> Context {
    let nobody = Address::from_public_key(&PublicKey([0; 32]), NetworkByte::TESTNET);
    Context { network: NetworkByte::TESTNET, nemesis_signer: nobody, trusted: false }
}

fn rows<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("no list {name}"))
}

fn pair(keys: &Value, name: &str) -> KeyPair {
    let pair = key_pair(&keys[name]["privateKey"]);
    assert_eq!(pair.public().to_string(), text(&keys[name]["publicKey"]));
    pair
}

/// Checks that both forms decode to the same value, and that it encodes to both forms byte for byte.
fn check<T: Readable + Writable + PartialEq + Debug>(row: &Value, name: &str) -> T {
    // Answers end with a line break, which is not part of the entity.
    let (json, binary) = (text(&row["json"]).trim_end(), bytes(&row["binary"]));
    let read = |format: Format, body: &[u8]| -> T {
        format.read(body, context()).unwrap_or_else(|error| panic!("{name}, {format:?}: {error}"))
    };
    let (from_json, from_binary) = (read(Format::Json, json.as_bytes()), read(Format::Binary, &binary));
    assert_eq!(from_json, from_binary, "{name}");
    assert_eq!(String::from_utf8_lossy(&Format::Json.to_bytes(&from_binary)), json, "{name}");
    assert_eq!(hex::encode(Format::Binary.to_bytes(&from_json)), hex::encode(binary), "{name}");
    from_json
}

#[test]
fn every_structure_is_read_and_written_in_both_formats() {
    let file = vectors();
    let mut left_out = BTreeSet::new();
    for row in rows(&file, "structures") {
        let name = text(&row["name"]);
        match name {
            "identity with name" | "identity without name" => drop(check::<Identity>(row, name)),
            "endpoint" => drop(check::<Endpoint>(row, name)),
            "metadata testnet" | "metadata mainnet, no application" => drop(check::<MetaData>(row, name)),
            "node1" | "node2 (default metadata)" => drop(check::<NodeInfo>(row, name)),
            "node list" => assert!(!check::<NodeList>(row, name).0.is_empty()),
            "node collection" => drop(check::<NodeCollection>(row, name)),
            "node experiences pair" => assert!(!check::<NodeExperiences>(row, name).experiences.is_empty()),
            "block height" => drop(check::<Height>(row, name)),
            "hash chain with one zero hash" => assert_eq!(check::<HashChain>(row, name).0.len(), 1),
            "unconfirmed request, two short ids" => assert_eq!(check::<ShortIds>(row, name), ShortIds(vec![5, -6])),
            "communication time stamps" => drop(check::<CommunicationTimeStamps>(row, name)),
            _ if name.starts_with("chain score ") => {
                let score: i128 = name.rsplit(' ').next().expect("a word").parse().expect("a number");
                assert_eq!(check::<Score>(row, name), Score(score));
            }
            _ if name.starts_with("chain request ") => drop(check::<ChainRequest>(row, name)),
            _ if name.starts_with("error response") => {
                let error: ErrorBody = check(row, name);
                assert_eq!(error.is_starting(), name == "error response");
            }
            _ => {
                let known = NOT_READ.iter().find(|(start, _)| name.starts_with(start));
                let (start, reason) = known.unwrap_or_else(|| panic!("{name} is not checked"));
                print_notice(&format!("not read: {name}: {reason}"));
                left_out.insert(*start);
            }
        }
    }
    assert_eq!(left_out, NOT_READ.iter().map(|(start, _)| *start).collect());
    let rejected = Format::Json.read::<Challenge>(text(&rows(&file, "structures")[0]["json"]).as_bytes(), context());
    assert!(rejected.unwrap_err().to_string().contains("64 bytes"));
}

#[test]
fn an_identity_is_proved_by_the_recorded_signature() {
    let file = vectors();
    let row = &file["identitySignature"];
    let challenge = Challenge(bytes(&row["challenge"]).try_into().expect("64 bytes"));
    let signature = Signature(bytes(&row["signature"]).try_into().expect("64 bytes"));
    let signer = pair(&file["keys"], text(&row["signer"]));
    assert_eq!(challenge.sign(&signer), signature);
    assert!(challenge.is_signed_by(&signer.public(), &signature));
    assert!(!challenge.is_signed_by(&pair(&file["keys"], "node2").public(), &signature));
    assert!(!Challenge([0; 64]).is_signed_by(&signer.public(), &signature));
}

/// Decodes and encodes a request, an entity and the whole answer, and verifies the answering node.
fn check_exchange<Q, A>(row: &Value, query: Query, node: &KeyPair)
where
    Q: Readable + Writable + PartialEq + Debug,
    A: Readable + Writable + PartialEq + Debug,
{
    let path = text(&row["path"]);
    let challenge = check_request::<Q>(&row["request"], &query, path);
    let entity: A = check(&row["entity"], path);
    let response: AuthenticatedResponse<A> = check(&row["response"], path);
    assert_eq!(response.entity, entity);
    assert_eq!(response.signature, challenge.sign(node));
    for (format, body) in bodies(&row["response"]) {
        let read = |key| {
            AnswerContext { format, context: context(), challenge: challenge.clone(), key: Some(key) }.read::<A>(&body)
        };
        assert_eq!(read(node.public()).as_ref(), Ok(&entity), "{path}");
        assert!(read(PublicKey([1; 32])).is_err(), "{path}");
    }
}

fn bodies(row: &Value) -> [(Format, Vec<u8>); 2] {
    [(Format::Json, text(&row["json"]).into()), (Format::Binary, bytes(&row["binary"]))]
}

/// Checks that the node encodes the query as recorded; returns the challenge of the request.
fn check_request<Q: Readable + Writable + PartialEq + Debug>(row: &Value, query: &Query, path: &str) -> Challenge {
    check::<Q>(row, path);
    let find = |format: Format, body: &[u8]| {
        let alone = format.read::<Challenge>(body, context());
        alone.unwrap_or_else(|_| {
            let whole: AuthenticatedRequest<Skipped> =
                format.read(body, context()).expect("a request with a challenge");
            whole.challenge
        })
    };
    let [json, binary] = bodies(row).map(|(format, body)| find(format, &body));
    assert_eq!(json, binary);
    let chain = ChainParameters::after_all_forks();
    for (format, body) in bodies(row) {
        let request = query.request(&json, format, &chain);
        assert_eq!((&*request.target, &request.body[..]), (path, &body[..]));
    }
    json
}

struct Skipped;

impl Readable for Skipped {
    fn read<'a, S: nisd::codec::Decoder<'a>>(_: &mut S) -> Result<Self, nisd::codec::ReadError> {
        Ok(Skipped)
    }
}

#[test]
fn every_request_is_sent_and_answered_as_recorded() {
    let file = vectors();
    let node = pair(&file["keys"], "node1");
    let mut paths = BTreeSet::new();
    for row in rows(&file, "authenticated") {
        let request = &row["request"];
        let body = text(&request["json"]).as_bytes();
        match text(&row["path"]) {
            "/node/info" => check_exchange::<Challenge, NodeInfo>(row, Query::NodeInfo, &node),
            "/chain/height" => check_exchange::<Challenge, Height>(row, Query::Height, &node),
            "/chain/score" => check_exchange::<Challenge, Score>(row, Query::Score, &node),
            "/node/peer-list/active" => check_exchange::<Challenge, NodeList>(row, Query::ActivePeers, &node),
            "/time-sync/network-time" => {
                check_exchange::<Challenge, CommunicationTimeStamps>(row, Query::NetworkTime, &node);
            }
            "/chain/hashes-from" => {
                let asked: AuthenticatedRequest<Height> = Format::Json.read(body, context()).expect("a request");
                let query = Query::HashesFrom(asked.entity);
                check_exchange::<AuthenticatedRequest<Height>, HashChain>(row, query, &node);
            }
            "/chain/blocks-after" => {
                let asked: AuthenticatedRequest<ChainRequest> = Format::Json.read(body, context()).expect("a request");
                let query = Query::BlocksAfter(asked.entity);
                check_exchange::<AuthenticatedRequest<ChainRequest>, List<Block>>(row, query, &node);
                check_block_list(row, &asked.challenge, &node);
            }
            "/transactions/unconfirmed" => {
                let asked: AuthenticatedRequest<ShortIds> = Format::Json.read(body, context()).expect("a request");
                let query = Query::Unconfirmed(asked.entity);
                check_exchange::<AuthenticatedRequest<ShortIds>, List<Transaction>>(row, query, &node);
            }
            path => panic!("{path} is not checked"),
        }
        paths.insert(text(&row["path"]));
    }
    assert_eq!(paths.len(), 8, "{paths:?}");
}

fn check_block_list(row: &Value, challenge: &Challenge, node: &KeyPair) {
    for (format, body) in bodies(&row["response"]) {
        let expect = |key| AnswerContext { format, context: context(), challenge: challenge.clone(), key: Some(key) };
        let mut list = expect(node.public()).open_list::<Block>(body.clone(), usize::MAX).expect("a list");
        assert_eq!(list.left(), 0);
        assert!(list.next(context()).is_none());
        assert!(expect(PublicKey([1; 32])).open_list::<Block>(body, usize::MAX).is_err());
    }
}

#[test]
fn a_pushed_transaction_is_signed_read_and_written_as_recorded() {
    let file = vectors();
    let row = &file["secureEntity"];
    let transaction = Transaction::from_bytes(&bytes(&row["transactionBinary"]), SigningForm::Verifiable, context());
    let transaction = transaction.expect("a transaction");
    assert_eq!(transaction.hash().to_string(), text(&row["transactionHash"]));
    assert_eq!(short_id(&transaction.hash()).to_string(), row["hashShortId"].to_string().trim_matches('"'));
    let salt = keccak256(&transaction.to_bytes(SigningForm::Verifiable));
    assert_eq!(hex::encode(salt), text(&row["saltKeccak256OfFullBinary"]));
    let pushed = SecureEntity::sign(transaction, &pair(&file["keys"], "node2"), Some("bob".to_owned()));
    assert_eq!(pushed.signature.to_string(), text(&row["signature"]));
    assert_eq!(pushed.verify(), (true, 184));
    check_push(&pushed, bytes(&row["pushTransactionBody"]));
    check_push(&List(vec![pushed.clone()]), bytes(&row["pushTransactionsBody"]));
    let json = String::from_utf8(Format::Json.to_bytes(&pushed)).expect("a text");
    assert!(
        json.starts_with(&format!(r#"{{"signature":"{}","identity":{{"name":"bob","#, text(&row["signature"]))),
        "{json}"
    );
    let mut forged = pushed.clone();
    forged.identity.key = PublicKey([3; 32]);
    assert!(!forged.verify().0);
    let mut changed = pushed;
    changed.entity.deadline.0 += 1;
    assert!(!changed.verify().0);
}

/// Checks that a pushed entity has these bytes and survives both formats.
fn check_push<T: Readable + Writable + PartialEq + Debug>(pushed: &T, recorded: Vec<u8>) {
    assert_eq!(Format::Binary.to_bytes(pushed), recorded);
    for format in [Format::Binary, Format::Json] {
        assert_eq!(format.read::<T>(&format.to_bytes(pushed), context()).as_ref(), Ok(pushed));
    }
}

#[test]
fn a_chain_request_is_clamped_as_recorded() {
    let file = vectors();
    let chain = ChainParameters::after_all_forks();
    let number = |row: &Value, name: &str| row[name].as_i64().map(|number| i32::try_from(number).expect("an int"));
    let rows = rows(&file, "chainRequestClamping");
    assert!(rows.len() >= 5);
    for row in rows {
        let (min_blocks, max_transactions) = (number(row, "minBlocks"), number(row, "maxTransactions"));
        let limits = ChainRequest { after: Height(1), min_blocks, max_transactions }.limits(&chain);
        let got = [limits.min_blocks, limits.transactions, limits.first_query].map(|limit| limit as i32);
        let names = ["effectiveMinBlocks", "effectiveMaxTransactions", "firstDbQueryBlocks"];
        assert_eq!(got.map(Some), names.map(|name| number(row, name)), "{row}");
        assert_eq!(limits.blocks, 400);
        if let (Some(min_blocks), Some(max_transactions)) = (min_blocks, max_transactions) {
            let request = ChainRequest::new(Height(1), min_blocks, max_transactions, &chain);
            assert_eq!((request.min_blocks, request.max_transactions), (Some(got[0]), Some(got[1])), "{row}");
        }
    }
}
