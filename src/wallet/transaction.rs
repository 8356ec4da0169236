//! Transactions: how transfers are built, with the minimum fees under the current rules; signed transactions for
//! announcement, the JSON that they are read from, and their descriptions for people, shown before signing or announcing.

use serde_json::json;

use super::values::{currency, dashed, network_name};
use crate::codec::json::JsonDecoder;
use crate::codec::lenient_json::{self, Value};
use crate::codec::{Context, Decoder, ReadError, SigningForm, limits, transaction};
use crate::crypto::{self, KeyPair, PublicKey, Signature};
use crate::model::mosaic::Levy;
use crate::model::network::ChainParameters;
use crate::model::transaction::{
    AggregateModification, LinkMode, Message, MessageKind, ModificationKind, MosaicDefinitionCreation, Multisig,
    SupplyChangeKind, Transfer, wire_network, wire_version,
};
use crate::model::units::MICRO;
use crate::model::{Address, Amount, Body, Height, Mosaic, MosaicId, NetworkByte, Timestamp, Transaction};
use crate::rules::{self, FeeSchedule, Rejection};
use crate::state::MosaicEntry;

/// Returns the address of the all-zero public key, an account without an owner.
pub fn ownerless_address(network: NetworkByte) -> Address {
    Address::from_public_key(&PublicKey([0; 32]), network)
}

/// Returns the context for reading transactions. No account is exempt from fees: the nemesis account cannot send.
pub fn context(network: NetworkByte) -> Context {
    Context { network, nemesis_signer: ownerless_address(network), trusted: false }
}

/// Parses JSON.
fn parse_json(text: &[u8]) -> Result<Value, String> {
    let value = lenient_json::parse_alone(text).map_err(|error| format!("the input is not JSON: {error}"))?;
    value.ok_or_else(|| "something follows the first object of the input: pass one transaction at a time".to_owned())
}

fn no_transaction(error: ReadError) -> String {
    format!("the input is not a transaction: {error}")
}

/// Parses the JSON of an unsigned transaction. Its version determines the network.
pub fn read_transaction(text: &[u8]) -> Result<Transaction, String> {
    transaction_of(&parse_json(text)?)
}

/// Parses the transaction in a JSON value, without its signature. Its version determines the network.
pub(super) fn transaction_of(value: &Value) -> Result<Transaction, String> {
    let Some(Value::Integer(version)) = value.get("version") else {
        return Err(
            "the input is not a transaction: the number \"version\" is missing, such as -1744830463 for version 1 \
                    on testnet"
                .to_owned(),
        );
    };
    let source = JsonDecoder::new(value, context(wire_network(*version as i32)));
    source.and_then(|mut source| transaction::read(&mut source, SigningForm::NonVerifiable)).map_err(no_transaction)
}

/// A signed transaction for announcement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedTransaction {
    /// The transaction.
    pub transaction: Transaction,
    signature: Signature,
}

impl SignedTransaction {
    /// Signs a transaction in the normal form in which a node reads it.
    pub fn sign(transaction: &Transaction, key: &KeyPair) -> Result<SignedTransaction, String> {
        if transaction.signer != key.public() {
            return Err(format!(
                "the transaction names the signer {}, but the key file belongs to {}; use the other key file, or correct \
                 \"signer\"",
                transaction.signer,
                key.public()
            ));
        }
        let transaction = parse_signed_bytes(&transaction.signed_bytes())?;
        let signature = key.sign(&transaction.signed_bytes());
        Ok(SignedTransaction { transaction, signature })
    }

    /// Parses `{"data":…,"signature":…}` and verifies the signature.
    pub fn parse(text: &[u8]) -> Result<SignedTransaction, String> {
        let value = parse_json(text)?;
        // Neither field holds an address, so any network works here.
        let mut source = JsonDecoder::new(&value, context(NetworkByte::MAINNET)).map_err(no_transaction)?;
        let data = source.need_bytes("data").map_err(no_transaction)?.into_owned();
        let signature = source.signature("signature").map_err(no_transaction)?;
        let transaction = parse_signed_bytes(&data)?;
        // A node verifies the signature over its own serialisation.
        match crypto::verify(&transaction.signer, &transaction.signed_bytes(), &signature) {
            Ok(true) => Ok(SignedTransaction { transaction, signature }),
            _ => Err(
                "the signature does not match the transaction; a node would reject it, and for ten minutes also the \
                      transaction with the right signature. Sign it again"
                    .to_owned(),
            ),
        }
    }

    /// Returns the body of an announcement.
    pub fn to_json(&self) -> String {
        json!({ "data": hex::encode(self.transaction.signed_bytes()), "signature": self.signature.to_string() })
            .to_string()
    }
}

/// Returns whether a text is meant as a [`SignedTransaction`] rather than as a transaction.
pub fn is_signed_transaction(text: &[u8]) -> bool {
    lenient_json::parse(text).is_ok_and(|value| value.get("data").is_some())
}

/// Parses the transaction in `data` as a node does.
fn parse_signed_bytes(data: &[u8]) -> Result<Transaction, String> {
    /// Offset of the version, after the type.
    const VERSION: usize = 4;
    let (length, limit) = (data.len(), limits::MAX_BYTES);
    if length > limit {
        return Err(format!("the transaction has {length} bytes; nodes accept at most {limit}"));
    }
    let version = data.get(VERSION..).and_then(|rest| rest.first_chunk()).ok_or_else(ReadError::end_of_stream);
    let network = version.map(|version| wire_network(i32::from_le_bytes(*version)));
    network
        .and_then(|network| Transaction::from_bytes(data, SigningForm::NonVerifiable, context(network)))
        .map_err(no_transaction)
}

/// Width of field names.
const LABEL: usize = 10;
/// Indentation of an inner transaction.
const INDENT: &str = "    ";

/// Formats a transaction as lines of text, without the last line end. Text that others may have written is escaped. The network
/// has the given name, else that of its byte: several networks may share a byte.
pub fn describe(transaction: &Transaction, network: Option<&str>) -> String {
    let network = network.map_or_else(|| network_name(wire_network(transaction.version)), str::to_owned);
    let mut lines = Lines { text: String::new(), depth: 0, network: &network };
    write(&mut lines, transaction);
    lines.field("hash", transaction.hash());
    lines.text.trim_end().to_owned()
}

struct Lines<'a> {
    text: String,
    depth: usize,
    network: &'a str,
}

impl Lines<'_> {
    fn field(&mut self, label: &str, value: impl std::fmt::Display) {
        self.text.push_str(&format!("{}{label:LABEL$} {value}\n", INDENT.repeat(self.depth)));
    }
}

fn write(lines: &mut Lines<'_>, transaction: &Transaction) {
    let network = wire_network(transaction.version);
    lines.field("network", lines.network);
    lines.field("from", format!("{} ({})", dashed(&transaction.signer_address(network)), transaction.signer));
    match &transaction.body {
        Body::Transfer(body) => write_transfer(lines, body),
        Body::ImportanceTransfer(body) => {
            let what = match body.mode {
                LinkMode::Activate => "activate remote harvesting",
                LinkMode::Deactivate => "deactivate remote harvesting",
            };
            lines.field("do", what);
            lines.field("remote", body.remote);
        }
        Body::AggregateModification(body) => write_modification(lines, body),
        Body::Cosignature(body) => {
            lines.field("do", "cosign a transaction of a multisig account");
            lines.field("account", dashed(&body.other_account));
            lines.field("inner hash", hex::encode(&body.other_hash.0));
        }
        Body::Multisig(body) => {
            lines.field("do", "initiate a transaction of a multisig account:");
            lines.depth += 1;
            write(lines, &body.inner);
            lines.field("hash", body.inner.hash());
            lines.depth -= 1;
        }
        Body::ProvisionNamespace(body) => {
            let parent = body.parent.as_ref().map(|parent| format!("{parent}."));
            lines.field("rent", format!("the namespace {}{}", parent.unwrap_or_default(), body.new_part));
            lines.field("rental fee", format!("{} to {}", currency(body.rental_fee), dashed(&body.rental_fee_sink)));
        }
        Body::MosaicDefinitionCreation(body) => write_definition(lines, body),
        Body::MosaicSupplyChange(body) => {
            let what = match body.kind {
                SupplyChangeKind::Create => "create",
                SupplyChangeKind::Delete => "delete",
            };
            lines.field(what, format!("{} whole units of {}", body.delta, body.mosaic));
        }
    }
    lines.field("fee", currency(transaction.fee));
    let seconds = i64::from(transaction.deadline.0) - i64::from(transaction.timestamp.0);
    lines.field("valid", format!("from {} UTC, for {seconds} s", transaction.timestamp.date_and_time()));
}

/// Returns the mosaics that a transfer moves, with their quantities in smallest units.
pub(super) fn mosaics_sent(body: &Transfer) -> impl Iterator<Item = (&MosaicId, u128)> {
    let sent = |quantity| u128::from(quantity) * u128::from(body.amount.0) / u128::from(MICRO);
    body.mosaics.iter().map(move |mosaic| (&mosaic.id, sent(mosaic.quantity)))
}

/// Returns the levies that the sender of a transfer pays in addition, with their amounts in smallest units. `known`
/// describes its mosaics.
pub fn levies<'a>(transaction: &Transaction, known: &'a [MosaicEntry]) -> Vec<(&'a Levy, u64)> {
    let Body::Transfer(body) = &transaction.body else { return Vec::new() };
    let levy = |(id, sent): (&MosaicId, u128)| {
        let definition = &known.iter().find(|entry| entry.definition.id == *id)?.definition;
        let levy = definition.levy.as_ref()?;
        Some((levy, u64::try_from(levy.amount(u64::try_from(sent).ok()?)).ok()?))
    };
    mosaics_sent(body).filter_map(levy).filter(|(_, amount)| *amount > 0).collect()
}

fn write_transfer(lines: &mut Lines<'_>, body: &Transfer) {
    lines.field("to", dashed(&body.recipient));
    if body.mosaics.is_empty() {
        lines.field("amount", currency(body.amount));
    }
    for (id, sent) in mosaics_sent(body) {
        match u64::try_from(sent) {
            Ok(micro) if id.is_xem() => lines.field("amount", currency(Amount(micro))),
            _ => lines.field("mosaic", format!("{sent} smallest units of {id}")),
        }
    }
    if let Some(Message { kind, payload }) = &body.message {
        let length = payload.len();
        lines.field(
            "message",
            match (kind, str::from_utf8(payload)) {
                (MessageKind::Secure, _) => format!("encrypted, {length} bytes"),
                (MessageKind::Plain, Ok(text)) => format!("{text:?}, {length} bytes that everybody can read"),
                (MessageKind::Plain, Err(_)) => format!("{}, {length} bytes in hex", hex::encode(payload)),
            },
        );
    }
}

fn write_modification(lines: &mut Lines<'_>, body: &AggregateModification) {
    lines.field("do", "change the cosignatories of the account");
    for modification in &body.modifications {
        let what = match modification.kind {
            ModificationKind::Add => "add",
            ModificationKind::Delete => "delete",
            ModificationKind::Unknown => "invalid",
        };
        lines.field(what, modification.cosignatory);
    }
    if let Some(change) = body.min_cosignatories_change {
        lines.field("needed", format!("{change:+} signatures"));
    }
}

fn write_definition(lines: &mut Lines<'_>, body: &MosaicDefinitionCreation) {
    let definition = &body.definition;
    let properties = &definition.properties;
    let yes = |flag| if flag { "yes" } else { "no" };
    lines.field("define", format!("the mosaic {}, {:?}", definition.id, definition.description));
    lines.field("supply", format!("{} whole units", properties.initial_supply));
    lines.field("places", properties.divisibility);
    lines.field("mutable", yes(properties.supply_mutable));
    lines.field("transfer", yes(properties.transferable));
    if let Some(levy) = &definition.levy {
        let recipient: &Address = &levy.recipient;
        lines.field("levy", format!("{:?} {} of {} to {}", levy.kind, levy.fee, levy.mosaic, dashed(recipient)));
    }
    lines.field("costs", format!("{} to {}", currency(body.creation_fee), dashed(&body.creation_fee_sink)));
}

/// Maximum mosaics of a transfer besides `nem:xem`.
const MAX_MOSAICS: usize = 10;
/// Factor by which the quantities of attached mosaics are multiplied.
const MULTIPLIER: Amount = Amount::whole(1);

/// A requested transfer.
#[derive(Clone, Debug)]
pub struct TransferRequest {
    /// The network.
    pub network: NetworkByte,
    /// Current network time.
    pub now: Timestamp,
    /// Seconds from now to the deadline.
    pub deadline: i32,
    /// Key of the signer.
    pub signer: PublicKey,
    /// The multisig account that pays, if it is not the signer.
    pub multisig_account: Option<PublicKey>,
    /// The recipient.
    pub recipient: Address,
    /// Amount of the native currency.
    pub amount: Amount,
    /// The message.
    pub message: Option<Message>,
    /// Other mosaics to send, in smallest units.
    pub mosaics: Vec<Mosaic>,
    /// Fee of the transfer; `None` for the minimum.
    pub fee: Option<Amount>,
}

/// Builds a transfer, wrapped into a multisig transaction if a multisig account pays. `known` are the attached mosaics. The
/// error says what is wrong with the request.
pub fn build(intent: TransferRequest, known: &[MosaicEntry]) -> Result<Transaction, String> {
    let TransferRequest { network, now, deadline, signer, multisig_account, fee, .. } = intent;
    let transaction = |signer, entity_version, body| Transaction {
        version: wire_version(network, entity_version),
        timestamp: now,
        signer,
        signature: None,
        fee: Amount::ZERO,
        deadline: Timestamp(now.0.saturating_add(deadline)),
        body,
    };
    let unknown = |error: Rejection| format!("the minimum fee is not known: {error}; set one with --fee");
    let body = transfer(intent)?;
    let entity_version = if body.mosaics.is_empty() { 1 } else { 2 };
    let mut inner = transaction(multisig_account.unwrap_or(signer), entity_version, Body::Transfer(body));
    inner.fee = fee.map_or_else(|| minimum_fee(&inner, known).map_err(unknown), Ok)?;
    if multisig_account.is_none() {
        return Ok(inner);
    }
    let mut outer = transaction(signer, 1, Body::Multisig(Box::new(Multisig { inner, cosignatures: Vec::new() })));
    outer.fee = minimum_fee(&outer, known).map_err(unknown)?;
    Ok(outer)
}

fn transfer(intent: TransferRequest) -> Result<Transfer, String> {
    let TransferRequest { recipient, amount, message, mut mosaics, .. } = intent;
    let length = message.as_ref().map_or(0, |message| message.payload.len());
    let limit = max_message_bytes();
    if length > limit {
        return Err(format!("the message has {length} bytes, and {limit} are allowed; shorten it"));
    }
    if mosaics.len() > MAX_MOSAICS {
        let count = mosaics.len();
        return Err(format!("{count} mosaics are too many for one transfer; {MAX_MOSAICS} are allowed"));
    }
    mosaics.sort_by(|a, b| a.id.cmp(&b.id));
    if let Some(pair) = mosaics.windows(2).find(|pair| pair[0].id == pair[1].id) {
        return Err(format!("the mosaic {} is given twice; add the quantities up", pair[0].id));
    }
    if mosaics.is_empty() {
        return Ok(Transfer { recipient, amount, message, mosaics });
    }
    // With mosaics the amount is only a multiplier, and XEM is sent as one of them.
    if amount > Amount::ZERO {
        mosaics.push(Mosaic { id: MosaicId::xem(), quantity: amount.0 });
    }
    Ok(Transfer { recipient, amount: MULTIPLIER, message, mosaics })
}

/// Returns the minimum fee of a transaction, without that of an inner one. `mosaics` are the attached mosaics;
/// `nem:xem` may be missing, any other missing mosaic is an error.
pub fn minimum_fee(transaction: &Transaction, mosaics: &[MosaicEntry]) -> Result<Amount, Rejection> {
    FeeSchedule::Third.minimum_fee(&transaction.body, |id| {
        let known = || mosaics.iter().find(|entry| entry.definition.id == *id).cloned();
        Ok(if id.is_xem() { Some(MosaicEntry::xem()) } else { known() })
    })
}

/// Returns the maximum bytes of a message.
fn max_message_bytes() -> usize {
    rules::max_message_length(&ChainParameters::after_all_forks().forks, Height(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::PrivateKey;

    const ALICE: &str = "0d02bca37b877f1321e0fc339f154b6135728780e9f42e98adf73416180d67fd";
    /// E8 of `tests/data/wallet/examples.json`, with its mosaics in the wrong order and one of them split in two.
    const UNORDERED: &str = r#"{"timeStamp":300000053,"amount":1000000,"fee":100000,
        "recipient":"TDHLS73IXYZFFBPZWJFK3DVGUUQ2BBIGVUPE6BMZ","mosaics":[
        {"quantity":2000000,"mosaicId":{"namespaceId":"nem","name":"xem"}},
        {"quantity":4000,"mosaicId":{"namespaceId":"devnet","name":"coin"}},
        {"quantity":1000,"mosaicId":{"namespaceId":"devnet","name":"coin"}}],"type":257,"deadline":300003653,
        "message":{},"version":-1744830462,
        "signer":"be6a7bb594e6c141a9ea1b671891a7a0c99999253f22bcf0fe36013bdeebded9"}"#;
    const E8_HASH: &str = "53ad7d62339f7b057d79dd358820dd1d1911ba2cd35c70336f5d887fb6bc211c";

    fn alice() -> KeyPair {
        KeyPair::new(&PrivateKey::from_hex(ALICE).unwrap())
    }

    #[test]
    fn the_help_shows_a_transaction_of_each_kind_that_can_be_signed() {
        let lines = super::super::TRANSACTIONS.lines().map(str::trim).filter(|line| line.starts_with('{'));
        let mut types: Vec<_> = lines
            .map(|line| {
                assert!(!line.contains(' '), "help breaks lines at blanks: {line}");
                let transaction = read_transaction(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"));
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                assert!(parse_signed_bytes(&transaction.signed_bytes()).is_ok(), "{line}");
                value["type"].as_u64().unwrap()
            })
            .collect();
        types.dedup();
        assert_eq!(types, [257, 2049, 4097, 4100, 4098, 8193, 16385, 16386]);
    }

    #[test]
    fn signing_normalises_the_transaction() {
        let transaction = read_transaction(UNORDERED.as_bytes()).unwrap();
        let packet = SignedTransaction::sign(&transaction, &alice()).unwrap();
        assert_eq!(packet.transaction.hash().to_string(), E8_HASH);
        assert_eq!(SignedTransaction::parse(packet.to_json().as_bytes()), Ok(packet));
    }

    #[test]
    fn mistakes_are_found_before_a_node_sees_them() {
        let transaction = read_transaction(UNORDERED.as_bytes()).unwrap();
        let other = KeyPair::new(&PrivateKey::from_hex("1").unwrap());
        assert!(SignedTransaction::sign(&transaction, &other).unwrap_err().contains("names the signer"));
        let json = SignedTransaction::sign(&transaction, &alice()).unwrap().to_json();
        let changed = json.replace("a0860100", "a1860100");
        assert_ne!(changed, json);
        assert!(SignedTransaction::parse(changed.as_bytes()).unwrap_err().contains("signature does not match"));
        let long = format!(r#"{{"data":"{}","signature":"{}"}}"#, "00".repeat(3000), "00".repeat(64));
        assert!(SignedTransaction::parse(long.as_bytes()).is_err());
        for (text, words) in [
            ("", "not JSON"),
            ("[]", "version"),
            ("{}", "version"),
            (r#"{"version":-1744830463,"type":1}"#, "Unknown transaction type: 1"),
            (&UNORDERED.replace("TDHLS", "NDHLS"), "invalid address"),
        ] {
            let error = read_transaction(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        for text in ["{}", r#"{"data":"01","signature":"02"}"#, r#"{"data":"zz"}"#, "null"] {
            assert!(SignedTransaction::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(
            is_signed_transaction(json.as_bytes())
                && !is_signed_transaction(UNORDERED.as_bytes())
                && !is_signed_transaction(b"")
        );
    }

    /// Transaction E2 of `tests/data/wallet/examples.json` with another message.
    fn transfer(payload: &str) -> String {
        let json = format!(
            r#"{{"timeStamp":300000050,"amount":25000500000,"fee":200000,"type":257,"deadline":300003650,
            "recipient":"TDHLS73IXYZFFBPZWJFK3DVGUUQ2BBIGVUPE6BMZ","message":{{"payload":"{payload}","type":1}},
            "version":-1744830463,"signer":"be6a7bb594e6c141a9ea1b671891a7a0c99999253f22bcf0fe36013bdeebded9"}}"#
        );
        describe(&read_transaction(json.as_bytes()).unwrap(), None)
    }

    #[test]
    fn a_transfer_description_names_sender_recipient_amount_message_and_fee() {
        let text = transfer("6869");
        for words in [
            "network    testnet\n",
            "from       TAYFAP-MLF6JX-6BDB7N-WG4OS7-SYBRDP-45JFLW-ILDU (be6a7b",
            "to         TDHLS7-3IXYZF-FBPZWJ-FK3DVG-UUQ2BB-IGVUPE-6BMZ\n",
            "amount     25000.5 XEM\n",
            "message    \"hi\", 2 bytes that everybody can read\n",
            "fee        0.2 XEM\n",
            "for 3600 s\n",
        ] {
            assert!(text.contains(words), "{words:?} is missing in\n{text}");
        }
    }

    #[test]
    fn a_message_cannot_control_the_terminal() {
        assert!(transfer("1b5b324a0a").contains(r#""\u{1b}[2J\n", 5 bytes"#));
        assert!(transfer("ff").contains("ff, 1 bytes in hex"));
    }
}

#[cfg(test)]
mod transfer_tests {
    use super::*;
    use crate::crypto::PrivateKey;
    use crate::model::MosaicDefinition;

    const BOB: &str = "TDHLS73IXYZFFBPZWJFK3DVGUUQ2BBIGVUPE6BMZ";

    fn alice() -> KeyPair {
        let key = "0d02bca37b877f1321e0fc339f154b6135728780e9f42e98adf73416180d67fd";
        KeyPair::new(&PrivateKey::from_hex(key).unwrap())
    }

    fn intent(now: i32, amount: u64) -> TransferRequest {
        TransferRequest {
            network: NetworkByte::TESTNET,
            now: Timestamp(now),
            deadline: 3600,
            signer: alice().public(),
            multisig_account: None,
            recipient: Address::parse(BOB, NetworkByte::TESTNET).unwrap(),
            amount: Amount(amount),
            message: None,
            mosaics: Vec::new(),
            fee: None,
        }
    }

    fn hash(intent: TransferRequest, known: &[MosaicEntry]) -> String {
        SignedTransaction::sign(&build(intent, known).unwrap(), &alice()).unwrap().transaction.hash().to_string()
    }

    fn coins(quantity: u64) -> Mosaic {
        Mosaic { id: MosaicId::parse("devnet:coin").unwrap(), quantity }
    }

    fn plain(payload: &[u8]) -> Option<Message> {
        Some(Message { kind: MessageKind::Plain, payload: payload.to_vec() })
    }

    /// E1, E2, E8 and E10 of `tests/data/wallet/examples.json`, minimum fees included.
    #[test]
    fn transfer_requests_build_the_worked_examples() {
        let e1 = hash(intent(300_000_050, 1_000_000), &[]);
        assert_eq!(e1, "513f6d57c377204556ca71f7e29f869f273d7f0aa4229253e424b8c5d1257e12");

        let message = plain(b"hello devnet, this is a message of 46 bytes...");
        let e2 = build(TransferRequest { message, ..intent(300_000_050, 25_000_500_000) }, &[]).unwrap();
        assert_eq!(e2.fee, Amount(200_000));

        let mut definition = MosaicDefinition::xem();
        definition.id = coins(0).id;
        definition.properties.divisibility = 3;
        let known = [MosaicEntry { definition, supply: 1_500_000 }];
        let e8 = hash(TransferRequest { mosaics: vec![coins(5000)], ..intent(300_000_053, 2_000_000) }, &known);
        assert_eq!(e8, "53ad7d62339f7b057d79dd358820dd1d1911ba2cd35c70336f5d887fb6bc211c");

        let account = "8d02445a1d997a86a19bbce8ce8a080fd72de84d464937938c8c2c5e363f1f4c";
        let multisig_account = Some(PublicKey::from_hex(account).unwrap());
        let e10 = hash(TransferRequest { multisig_account, ..intent(300_000_055, 100_000_000) }, &[]);
        assert_eq!(e10, "0b5cea80f71e5fe361979aaad05e6acd61c44209f711630035a87d96957233c5");
    }

    #[test]
    fn transfer_limits_are_enforced() {
        let error = |intent| build(intent, &[]).unwrap_err();
        assert!(build(TransferRequest { message: plain(&[1; 1024]), ..intent(1, 0) }, &[]).is_ok());
        let long = TransferRequest { message: plain(&[1; 1025]), ..intent(1, 0) };
        assert!(error(long).contains("1025 bytes, and 1024 are allowed"));
        let twice = TransferRequest { mosaics: vec![coins(1), coins(2)], ..intent(1, 0) };
        assert!(error(twice).contains("given twice"));
        let many = TransferRequest { mosaics: vec![coins(1); 11], ..intent(1, 0) };
        assert!(error(many).contains("11 mosaics"));
        let unknown = TransferRequest { mosaics: vec![coins(1)], ..intent(1, 0) };
        assert!(error(unknown).contains("not known"));
    }

    #[test]
    fn an_explicit_fee_is_used() {
        let multisig_account = Some(PublicKey([9; 32]));
        let wanted = TransferRequest { fee: Some(Amount(7)), multisig_account, deadline: i32::MAX, ..intent(5, 1) };
        let outer = build(wanted, &[]).unwrap();
        let inner = outer.inner().unwrap();
        assert_eq!((outer.fee, inner.fee), (Amount(150_000), Amount(7)));
        assert_eq!((inner.signer, outer.signer), (PublicKey([9; 32]), alice().public()));
        assert_eq!(outer.deadline, Timestamp(i32::MAX));
    }

    fn fee(amount: u64, message_bytes: usize, mosaics: &[(Mosaic, MosaicEntry)]) -> u64 {
        let payload = vec![1; message_bytes];
        let transfer = Transfer {
            recipient: ownerless_address(NetworkByte::TESTNET),
            amount: Amount(amount),
            message: (message_bytes > 0).then_some(Message { kind: MessageKind::Plain, payload }),
            mosaics: mosaics.iter().map(|(mosaic, _)| mosaic.clone()).collect(),
        };
        let transaction = Transaction {
            version: wire_version(NetworkByte::TESTNET, 2),
            timestamp: Timestamp(0),
            signer: PublicKey([1; 32]),
            signature: None,
            fee: Amount::ZERO,
            deadline: Timestamp(1),
            body: Body::Transfer(transfer),
        };
        let known: Vec<_> = mosaics.iter().map(|(_, entry)| entry.clone()).collect();
        minimum_fee(&transaction, &known).unwrap().0
    }

    /// Amounts around the steps of the fee, with the fees of NIS1.
    #[test]
    fn fees_of_amounts_are_those_of_the_table() {
        for (micro, expected) in [
            (0, 50_000),
            (9_999_000_000, 50_000),
            (19_999_999_999, 50_000),
            (20_000_000_000, 100_000),
            (99_999_000_000, 450_000),
            (250_000_000_000, 1_250_000),
            (260_000_000_000, 1_250_000),
            (8_999_999_999_000_000, 1_250_000),
        ] {
            assert_eq!(fee(micro, 0, &[]), expected, "{micro}");
        }
    }

    /// Lengths of messages around the steps of the fee.
    #[test]
    fn fees_of_messages_are_those_of_the_table() {
        let expected = [
            (0, 50_000),
            (1, 100_000),
            (31, 100_000),
            (32, 150_000),
            (63, 150_000),
            (64, 200_000),
            (96, 250_000),
            (512, 900_000),
            (1024, 1_700_000),
        ];
        for (bytes, expected) in expected {
            assert_eq!(fee(0, bytes, &[]), expected, "{bytes}");
        }
        assert_eq!(max_message_bytes(), 1024);
    }

    /// Mosaics without decimals and of small supply are cheap; other fees follow supply, divisibility and quantity.
    #[test]
    fn fees_of_mosaics_are_those_of_the_table() {
        for (supply, divisibility, small, large) in [
            (10_000, 0, 50_000, 50_000),
            (10_001, 0, 150_000, 150_000),
            (1_000_000, 3, 50_000, 650_000),
            (9_000_000_000, 6, 50_000, 50_000),
        ] {
            let mut definition = MosaicDefinition::xem();
            definition.id = MosaicId::parse("devnet:coin").unwrap();
            definition.properties.divisibility = divisibility;
            let entry = MosaicEntry { definition, supply };
            for (quantity, expected) in [(1000, small), (1_000_000, large)] {
                let mosaic = Mosaic { id: entry.definition.id.clone(), quantity };
                assert_eq!(fee(1_000_000, 0, &[(mosaic, entry.clone())]), expected, "{supply} {quantity}");
            }
        }
    }
}
