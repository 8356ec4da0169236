//! Addresses, transactions, blocks and other entities in both formats against the project's own vectors, the nemesis
//! blocks of the public networks, and the public NEM vectors of the Symbol project.

use std::collections::BTreeSet;

use nisd::api::{
    AccountInfo, AccountMeta, AccountPair, MultisigInfo, RequestResult, ResultKind, TransactionMeta, View,
};
use nisd::codec::binary::{BinaryDecoder, BinaryEncoder};
use nisd::codec::json::{JsonDecoder, JsonEncoder};
use nisd::codec::{Context, Decoder, Encoder, ReadError, SPLICE_BYTE, SigningForm, block, lenient_json, transaction};
use nisd::crypto::Verifier;
use nisd::crypto::hash::keccak256;
use nisd::model::network::NAMESPACE_SINK;
use nisd::model::transaction::entity_version;
use nisd::model::{
    Address, Amount, Block, BlockKind, Body, Hash256, Height, Mosaic, MosaicId, NetworkByte, Timestamp, Transaction,
};
use nisd::peer::wire::ErrorBody;
use serde_json::Value;

use super::crypto_vectors::symbol_rows;
use super::values::{NETWORKS, byte_of, bytes, key_pair, public_key, text};

fn vectors() -> Value {
    serde_json::from_str(&crate::common::read_recorded("vectors-encoding.json.gz")).expect("JSON")
}

/// Returns the rows of a section, which must not be empty.
fn rows<'a>(file: &'a Value, section: &str) -> &'a [Value] {
    let rows = file[section].as_array().unwrap_or_else(|| panic!("section {section} is missing"));
    assert!(!rows.is_empty(), "section {section} is empty");
    rows
}

fn context(file: &Value, network: &str) -> Context {
    let byte = byte_of(network);
    let nemesis_signer = Address::parse(text(&file["networks"][network]["nemesisAddress"]), byte);
    Context { network: byte, nemesis_signer: nemesis_signer.expect("an address"), trusted: false }
}

fn json_of(write: impl FnOnce(&mut JsonEncoder)) -> String {
    String::from_utf8(JsonEncoder::document(write)).expect("JSON is UTF-8")
}

#[test]
fn networks_have_their_bytes_and_addresses() {
    let file = vectors();
    let networks = file["networks"].as_object().expect("networks");
    assert_eq!(
        networks.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        BTreeSet::from(NETWORKS.map(|(name, _)| name))
    );
    for (name, network) in networks {
        let byte = byte_of(name);
        assert_eq!(i64::from(byte.0), network["networkByte"]);
        assert_eq!(i64::from(byte.0 as i8), network["networkByteSigned"]);
        for (key_name, address_name) in [
            ("nemesisSignerPublicKey", "nemesisAddress"),
            ("namespaceFeeSinkPublicKey", "namespaceFeeSink"),
            ("mosaicFeeSinkPublicKey", "mosaicFeeSink"),
        ] {
            let address = Address::from_public_key(&public_key(&network[key_name]), byte);
            assert_eq!(address.as_str(), text(&network[address_name]));
            assert!(address.as_str().starts_with(text(&network["addressStartChar"])));
        }
        assert_eq!(NAMESPACE_SINK, public_key(&network["namespaceFeeSinkPublicKey"]));
        let alice = public_key(&rows(&file, "keys")[0]["publicKey"]);
        let generation = [bytes(&network["nemesisGenerationHash"]), alice.0.to_vec()].concat();
        assert_eq!(hex::encode(keccak256(&generation)), text(&network["generationHashOfBlockTwoIfHarvestedByAlice"]));
        for which in ["firstTransaction", "lastTransaction"] {
            check_transaction(&file, &network[which], name);
        }
    }
}

#[test]
fn keys_have_an_address_on_each_network() {
    let file = vectors();
    for row in rows(&file, "keys") {
        for (network, byte) in NETWORKS {
            let address = Address::from_public_key(&public_key(&row["publicKey"]), byte);
            assert_eq!(address.as_str(), text(&row[network]));
        }
    }
}

#[test]
fn addresses_are_valid_or_not() {
    let file = vectors();
    for row in rows(&file, "addressValidation") {
        let read = Address::parse(text(&row["input"]), byte_of(text(&row["network"])));
        assert_eq!(row["valid"], read.is_some(), "{}", row["name"]);
    }
}

#[test]
fn transactions_have_their_bytes_json_hash_and_signature() {
    let file = vectors();
    for row in rows(&file, "transactions") {
        check_transaction(&file, row, text(&row["network"]));
    }
}

/// Checks every form of a transaction; `json` and `privateKey` are checked where the row has them.
fn check_transaction(file: &Value, row: &Value, network: &str) {
    let context = context(file, network);
    let (signed, verifiable) = (bytes(&row["data"]), bytes(&row["verifiable"]));
    let read = Transaction::from_bytes(&verifiable, SigningForm::Verifiable, context).expect("a transaction");
    assert_eq!(hex::encode(read.to_bytes(SigningForm::Verifiable)), hex::encode(&verifiable), "{row}");
    assert_eq!(hex::encode(read.signed_bytes()), hex::encode(&signed), "{row}");
    assert_eq!(read.hash().to_string(), text(&row["hash"]));
    assert_eq!(read.signature.expect("a signature").to_string(), text(&row["signature"]));
    check_signatures(&mut Verifier::default(), &read);

    let unsigned = Transaction::from_bytes(&signed, SigningForm::NonVerifiable, context).expect("a transaction");
    assert_eq!(unsigned.signed_bytes(), signed);
    assert_eq!(unsigned.signature, None);

    if let Some(json) = row["json"].as_str() {
        assert_eq!(json_of(|sink| transaction::write(sink, &read, SigningForm::Verifiable)), json);
        let value = lenient_json::parse(json.as_bytes()).expect("JSON");
        let mut source = JsonDecoder::new(&value, context).expect("an object");
        assert_eq!(transaction::read(&mut source, SigningForm::Verifiable).expect("a transaction"), read);
    }
    if row["privateKey"].is_string() {
        let pair = key_pair(&row["privateKey"]);
        assert_eq!(pair.public(), read.signer);
        assert_eq!(pair.sign(&signed).to_string(), text(&row["signature"]));
    }
}

/// Checks the signature of the transaction and those of its cosignatories.
fn check_signatures(verifier: &mut Verifier, transaction: &Transaction) {
    let signature = transaction.signature.as_ref().expect("a signature");
    let valid = verifier.verify(&transaction.signer, &transaction.signed_bytes(), signature);
    assert_eq!(valid, Ok(true), "signature of {}", transaction.hash());
    transaction.cosignatures().iter().for_each(|cosignature| check_signatures(verifier, cosignature));
}

#[test]
fn blocks_have_their_bytes_json_hash_and_signature() {
    let file = vectors();
    for row in rows(&file, "blocks") {
        let context = context(&file, text(&row["network"]));
        let (signed, verifiable) = (bytes(&row["data"]), bytes(&row["verifiable"]));
        let read = Block::from_bytes(&verifiable, context).expect("a block");
        assert_eq!(read.to_bytes(SigningForm::Verifiable), verifiable);
        assert_eq!(read.to_bytes(SigningForm::NonVerifiable), signed);
        assert_eq!(read.hash().to_string(), text(&row["hash"]));
        check_block_signatures(&read);

        let mut source = BinaryDecoder::new(&signed, context);
        let unsigned = block::read(&mut source, SigningForm::NonVerifiable).expect("a block");
        assert_eq!(unsigned, Block { signature: None, ..read.clone() });
        assert!(source.remaining().is_empty());

        let json = text(&row["json"]);
        assert_eq!(json_of(|sink| block::write(sink, &read, SigningForm::Verifiable)), json);
        let value = lenient_json::parse(json.as_bytes()).expect("JSON");
        let mut source = JsonDecoder::new(&value, context).expect("an object");
        assert_eq!(block::read(&mut source, SigningForm::Verifiable).expect("a block"), read);

        let pair = key_pair(&row["privateKey"]);
        assert_eq!(pair.sign(&signed).to_string(), text(&row["signature"]));
        if row["generationHash"].is_string() {
            let generation = [bytes(&row["previousGenerationHash"]), read.signer.0.to_vec()].concat();
            assert_eq!(hex::encode(keccak256(&generation)), text(&row["generationHash"]));
        }
    }
}

fn check_block_signatures(block: &Block) {
    let mut verifier = Verifier::default();
    let signature = block.signature.as_ref().expect("a signature");
    assert_eq!(verifier.verify(&block.signer, &block.to_bytes(SigningForm::NonVerifiable), signature), Ok(true));
    block.transactions.iter().for_each(|transaction| check_signatures(&mut verifier, transaction));
}

/// An entity encoded in both formats.
struct Written {
    binary: String,
    json: String,
}

/// Encodes an entity in both formats. A macro, because a closure cannot accept both encoders.
macro_rules! written {
    (|$sink:ident| $write:expr) => {{
        let binary = BinaryEncoder::document(|$sink| $write);
        Written { binary: hex::encode(binary), json: json_of(|$sink| $write) }
    }};
}

/// Entities that other tests compare with recordings, or with the vectors of the peer protocol.
const TESTED_ELSEWHERE: [&str; 31] = [
    "public-key",
    "private-key",
    "private-key-high-bit",
    "hash-short-id",
    "application-meta-data",
    "nis-node-info",
    "announce-result",
    "request-announce",
    "account-id",
    "harvest-info",
    "mosaic-id-supply-pair",
    "namespace",
    "namespace-meta-data-pair",
    "hash-chain",
    "chain-score",
    "chain-score-zero",
    "node-endpoint",
    "node-meta-data",
    "node",
    "node-unnamed",
    "node-list",
    "node-collection",
    "communication-time-stamps",
    "node-challenge",
    "authenticated-request (block height)",
    "authenticated-response (hash chain)",
    "secure-entity (transaction)",
    "chain-request",
    "unconfirmed-transactions-request",
    "node-experience-pair",
    "node-experiences-pair",
];

/// Encodes the entity of a vector; `None` if its module does not exist yet.
fn write_entity(name: &str, file: &Value) -> Option<Written> {
    let alice = public_key(&rows(file, "keys")[0]["publicKey"]);
    let hash = Hash256(keccak256(b"x"));
    let known = AccountInfo {
        public_key: Some(alice),
        balance: Amount(5_000_000),
        vested_balance: Amount(4_000_000),
        harvested_blocks: 3,
        importance: 1.2345e-4,
        multisig: Some(MultisigInfo { cosignatories: 2, min_cosignatories: 1 }),
        ..unknown_account(Address::from_public_key(&alice, NetworkByte::TESTNET))
    };
    let recipient = Address::parse("TATKYDM665JL57UGFU4G7OWQPA2J2WNXOYO7WOLU", NetworkByte::TESTNET).expect("valid");
    let unknown = unknown_account(recipient);
    let meta = AccountMeta { unlocked: false, remote_status: None, cosignatories: Vec::new() };
    let pair = AccountPair { account: &unknown, meta: &meta };
    Some(match name {
        "hash" => written!(|sink| sink.bytes("data", Some(&hash.0))),
        "block-height" => written!(|sink| Height(123_456_789_012).write(sink)),
        "error-response" => {
            let object = ErrorBody::new(404, Some("invalid address"), Timestamp(9_111_526));
            written!(|sink| object.write(sink))
        }
        "request-result" => {
            let result = RequestResult { kind: ResultKind::Validation, code: 1, message: "SUCCESS" };
            written!(|sink| result.write(sink))
        }
        "account-info" => written!(|sink| known.write(sink)),
        "account-info-unknown-key" => written!(|sink| unknown.write(sink)),
        "account-meta-data-pair" => {
            let written = written!(|sink| pair.write(sink));
            // The accounts that it cosigns are none.
            Written { json: written.json.replace(char::from(SPLICE_BYTE), ""), ..written }
        }
        "transaction-meta-data" => {
            let meta = TransactionMeta { height: Height(40_706), id: 1234, hash, inner_hash: None };
            written!(|sink| meta.write(sink))
        }
        "mosaic" => {
            let mosaic = Mosaic { id: MosaicId::xem(), quantity: 12 };
            written!(|sink| mosaic.write(sink))
        }
        "unconfirmed-meta-data" => written!(|sink| sink.bytes("data", None)),
        _ => return None,
    })
}

fn unknown_account(address: Address) -> AccountInfo {
    AccountInfo {
        address,
        public_key: None,
        balance: Amount::ZERO,
        vested_balance: Amount::ZERO,
        harvested_blocks: 0,
        importance: 0.0,
        multisig: None,
    }
}

#[test]
fn entities_are_written_in_both_formats() {
    let file = vectors();
    let mut later = BTreeSet::new();
    for row in rows(&file, "entities") {
        let name = text(&row["name"]);
        match write_entity(name, &file) {
            Some(written) => {
                assert_eq!(written.json, text(&row["json"]), "{name}");
                assert_eq!(written.binary, text(&row["binary"]), "{name}");
            }
            None => assert!(later.insert(name), "{name} twice"),
        }
    }
    assert_eq!(later, BTreeSet::from(TESTED_ELSEWHERE));
}

/// Cases that are intentionally decoded differently, with the reason.
const DEVIATIONS: [(&str, &str); 1] = [(
    "block: a zero length transaction",
    "NIS1 keeps a null transaction, on which every later step fails; here reading fails",
)];

enum Entity {
    Transaction(Box<Transaction>, SigningForm),
    Block(Box<Block>),
}

impl Entity {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Entity::Transaction(transaction, form) => transaction.to_bytes(*form),
            Entity::Block(block) => block.to_bytes(SigningForm::Verifiable),
        }
    }

    fn hash(&self) -> Hash256 {
        match self {
            Entity::Transaction(transaction, _) => transaction.hash(),
            Entity::Block(block) => block.hash(),
        }
    }
}

/// Decodes the input of a case.
fn read_case(row: &Value, context: Context) -> Result<Entity, ReadError> {
    let form = match text(&row["mode"]) {
        "verifiable" => SigningForm::Verifiable,
        "non-verifiable" => SigningForm::NonVerifiable,
        other => panic!("mode {other}"),
    };
    let not_an_object = || ReadError::Argument("JSON Object was expected".to_owned());
    match text(&row["format"]) {
        "binary" => read_entity(text(&row["entity"]), &mut BinaryDecoder::new(&bytes(&row["input"]), context), form),
        "json" => {
            let value = lenient_json::parse(text(&row["input"]).as_bytes()).map_err(|_| not_an_object())?;
            read_entity(text(&row["entity"]), &mut JsonDecoder::new(&value, context)?, form)
        }
        other => panic!("format {other}"),
    }
}

fn read_entity<'a, S: Decoder<'a>>(entity: &str, source: &mut S, form: SigningForm) -> Result<Entity, ReadError> {
    match entity {
        "transaction" => transaction::read(source, form).map(|read| Entity::Transaction(Box::new(read), form)),
        "block" => block::read(source, form).map(|read| Entity::Block(Box::new(read))),
        other => panic!("entity {other}"),
    }
}

/// Returns what is wrong with the result of a case.
fn check_result(row: &Value, outcome: Result<Entity, ReadError>) -> Option<String> {
    let wanted_ok = text(&row["result"]) == "ok";
    match outcome {
        Ok(entity) if wanted_ok => {
            let (bytes, hash) = (hex::encode(entity.bytes()), entity.hash().to_string());
            let differs = bytes != text(&row["reserialised"]) || hash != text(&row["hash"]);
            let changed = bytes != text(&row["input"]) && text(&row["format"]) == "binary";
            let wrong_flag = text(&row["format"]) == "binary" && row["changed"] != changed;
            (differs || wrong_flag).then(|| format!("written as {bytes}, hash {hash}"))
        }
        Ok(_) => Some("was read".to_owned()),
        Err(error) if wanted_ok => Some(format!("failed: {error:?}")),
        Err(error) => {
            let class = match text(&row["category"]) {
                "argument" => 'A',
                "unknown-address" => 'U',
                "missing" => 'M',
                "type-mismatch" => 'T',
                "serialization" => 'S',
                "internal" => 'I',
                other => panic!("category {other}"),
            };
            let text_differs = row["message"].as_str().is_some_and(|message| !has_recorded_text(&error, message));
            let differs = class_of(&error) != class || row["http"] != error.http_status() || text_differs;
            differs.then(|| format!("failed with {} {}: {error}", class_of(&error), error.http_status()))
        }
    }
}

/// Returns the class of an error as one letter: A for an argument, U for an unknown address, M for a missing value, T for a
/// wrong type, S for wrong serialisation, I for an internal error.
fn class_of(error: &ReadError) -> char {
    match error {
        ReadError::Argument(_) | ReadError::NotANumber(_) | ReadError::Negative(..) => 'A',
        ReadError::UnknownAddress(_) => 'U',
        ReadError::Missing(_) => 'M',
        ReadError::Incompatible(_) => 'T',
        ReadError::Serialization(_) | ReadError::NotABoolean => 'S',
        ReadError::Internal(_) => 'I',
    }
}

/// Returns whether an error has the recorded text, which may contain a placeholder and omits the names of enclosing
/// exceptions.
fn has_recorded_text(error: &ReadError, recorded: &str) -> bool {
    let text = error.to_string();
    match recorded.split_once("<the address as read, upper case>") {
        Some((start, end)) => text.starts_with(start) && text.ends_with(end),
        None if class_of(error) == 'S' => without_class_names(&text) == recorded,
        None => text == recorded,
    }
}

/// Returns the text of an error without leading class names.
fn without_class_names(text: &str) -> &str {
    match text.split_once(": ") {
        Some((name, rest)) if name.starts_with("java.") || name.starts_with("org.nem.") => without_class_names(rest),
        _ => text,
    }
}

#[test]
fn odd_inputs_are_read_or_rejected_as_recorded() {
    let file = vectors();
    let mut wrong = Vec::new();
    let mut deviations = BTreeSet::new();
    for row in rows(&file, "reading") {
        let name = text(&row["name"]);
        let Some(problem) = check_result(row, read_case(row, context(&file, text(&row["network"])))) else { continue };
        if DEVIATIONS.iter().any(|(known, _)| *known == name) {
            deviations.insert(name);
        } else {
            wrong.push(format!("{name} ({}): {problem}; expected {row}", row["format"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert_eq!(deviations, DEVIATIONS.iter().map(|(name, _)| *name).collect());
}

#[test]
fn nemesis_blocks_of_the_public_networks_match_the_vectors() {
    let file = vectors();
    for (name, _) in NETWORKS {
        let network = &file["networks"][name];
        let settings = crate::common::load_settings(None, &[("nem.network", name)]);
        let bytes = settings.nemesis.read().expect("a part of the program");
        assert_eq!(network["nemesisFileSize"], bytes.len());
        assert_eq!(hex::encode(keccak256(&bytes)), text(&network["nemesisFileKeccak256"]));
        let block = Block::from_bytes(&bytes, context(&file, name)).expect("a block");
        assert!(block.to_bytes(SigningForm::Verifiable) == bytes, "{name} is not written as it was read");
        check_nemesis(name, network, &block);
        check_block_signatures(&block);
        check_nemesis_json(&file, name, &block);
    }
}

fn check_nemesis(name: &str, network: &Value, block: &Block) {
    assert_eq!((block.kind, block.height, block.timestamp), (BlockKind::Nemesis, Height(1), Timestamp(0)));
    assert_eq!(block.previous_hash, Hash256([0; 32]));
    assert_eq!(block.signer, public_key(&network["nemesisSignerPublicKey"]));
    assert_eq!(block.signature.expect("signed").to_string(), text(&network["nemesisSignature"]));
    assert_eq!(block.hash().to_string(), text(&network["nemesisBlockHash"]), "{name}");
    assert_eq!(network["nemesisTransactionCount"], block.transactions.len());
    let amounts = block.transactions.iter().map(|transaction| match &transaction.body {
        Body::Transfer(transfer) => transfer.amount.0,
        _ => 0,
    });
    assert_eq!(network["nemesisTransferTotalMicroXem"], amounts.sum::<u64>());
    assert_eq!(network["nemesisTotalFeeMicroXem"], block.total_fee().0);
    let version = if name == "mijinnet" { 2 } else { 1 };
    for transaction in &block.transactions {
        assert_eq!((transaction.timestamp, transaction.deadline), (Timestamp(0), Timestamp(0)));
        assert_eq!(entity_version(transaction.version), version);
    }
}

/// Two of the blocks also exist as JSON; one of these requires an order of the members in every object.
fn check_nemesis_json(file: &Value, name: &str, block: &Block) {
    if name == "mainnet" {
        return;
    }
    let Some(path) = crate::common::shared(&format!("data/nemesis-{name}.json")) else { return };
    let value = lenient_json::parse(&std::fs::read(path).expect("a readable file")).expect("JSON");
    let mut source = JsonDecoder::new(&value, context(file, name)).expect("an object");
    assert_eq!(block::read(&mut source, SigningForm::Verifiable).as_ref(), Ok(block), "{name}");
}

#[test]
fn public_address_vectors_match() {
    let Some(rows) = symbol_rows("1.test-address.json") else { return };
    for row in rows {
        for (name, network) in
            [("address_Public", "mainnet"), ("address_PublicTest", "testnet"), ("address_Mijin", "mijinnet")]
        {
            let address = Address::from_public_key(&public_key(&row["publicKey"]), byte_of(network));
            assert_eq!(address.as_str(), text(&row[name]));
            assert_eq!(Address::parse(text(&row[name]), byte_of(network)), Some(address));
        }
    }
}

/// The fee of the public transaction vectors in their bytes; it is above the maximum amount.
const IMPOSSIBLE_FEE: [u8; 8] = [0xe0, 0xfe, 0xee, 0xef, 0xfe, 0xee, 0xef, 0xfe];

/// The public transaction vectors have fees that NIS1 rejects. With possible fees instead, the transactions encode to
/// the bytes they were decoded from, except for the listed exceptions.
#[test]
fn public_transaction_vectors_match() {
    let Some(rows) = symbol_rows("transactions.json") else { return };
    let file = vectors();
    let context = context(&file, "testnet");
    let mut unchanged = 0;
    for row in &rows {
        let payload = bytes(&row["payload"]);
        let refused =
            Transaction::from_bytes(&payload, SigningForm::Verifiable, context).expect_err("the fee is refused");
        assert_eq!(class_of(&refused), 'A', "{refused}");
        let fee = format!("amount ({}) must be non-negative", i64::from_le_bytes(IMPOSSIBLE_FEE));
        assert_eq!(refused.to_string(), fee);
        let payload = with_possible_fees(&payload);
        let outcome = Transaction::from_bytes(&payload, SigningForm::Verifiable, context);
        match &outcome {
            Ok(read) if read.to_bytes(SigningForm::Verifiable) == payload => unchanged += 1,
            outcome => assert!(is_exception(text(&row["test_name"]), &payload, outcome), "{row}: {outcome:?}"),
        }
    }
    assert!(unchanged > rows.len() / 2, "only {unchanged} of {} are unchanged", rows.len());
}

/// Returns a copy with every impossible fee replaced.
fn with_possible_fees(payload: &[u8]) -> Vec<u8> {
    let mut copy = payload.to_vec();
    while let Some(at) = copy.windows(8).position(|window| window == IMPOSSIBLE_FEE) {
        copy[at..at + 8].copy_from_slice(&1_000_000u64.to_le_bytes());
    }
    copy
}

/// Returns whether a transaction may be rejected, or encode to other bytes than it was decoded from.
fn is_exception(name: &str, payload: &[u8], outcome: &Result<Transaction, ReadError>) -> bool {
    match outcome {
        // An empty message is dropped: its type and length, 8 bytes, inside an object.
        Ok(read) => name.contains("transfer") && read.to_bytes(SigningForm::Verifiable).len() + 8 == payload.len(),
        Err(error) if name.contains("mosaic_definition") => error.to_string().ends_with("creator must be identical"),
        // Cosignatures cover the inner transaction with its impossible fee.
        Err(error) => name.contains("multisig_aggregate") && error.to_string().contains("for another transaction"),
    }
}
