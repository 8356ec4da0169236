//! Descriptions of transactions for people, shown before signing or announcing.

use super::address::dashed;
use crate::cli::values::{currency, network_name};
use crate::model::transaction::{
    AggregateModification, LinkMode, Message, MessageKind, ModificationKind, MosaicDefinitionCreation,
    SupplyChangeKind, Transfer, wire_network,
};
use crate::model::units::MICRO;
use crate::model::{Address, Amount, Body, Mosaic, Transaction};

/// Width of field names.
const LABEL: usize = 10;
/// Indentation of an inner transaction.
const INDENT: &str = "    ";

/// Formats a transaction as lines of text, each with a line end. Text that others may have written is escaped.
pub fn describe(transaction: &Transaction) -> String {
    describe_on(transaction, &network_name(wire_network(transaction.version)))
}

/// Formats a transaction with the given network name: several networks may share a network byte.
pub fn describe_on(transaction: &Transaction, network: &str) -> String {
    let mut lines = Lines { text: String::new(), depth: 0, network };
    write(&mut lines, transaction);
    lines.field("hash", transaction.hash());
    lines.text
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
    write_body(lines, transaction);
    lines.field("fee", currency(transaction.fee));
    let seconds = i64::from(transaction.deadline.0) - i64::from(transaction.timestamp.0);
    lines.field("valid", format!("from network second {}, for {seconds} s", transaction.timestamp));
}

fn write_body(lines: &mut Lines<'_>, transaction: &Transaction) {
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
}

fn write_transfer(lines: &mut Lines<'_>, body: &Transfer) {
    lines.field("to", dashed(&body.recipient));
    if body.mosaics.is_empty() {
        lines.field("amount", currency(body.amount));
    }
    for Mosaic { id, quantity } in &body.mosaics {
        let sent = u128::from(*quantity) * u128::from(body.amount.0) / u128::from(MICRO);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wallet::read_transaction;

    /// Transaction E2 of `tests/data/wallet/examples.json` with another message.
    fn transfer(payload: &str) -> String {
        let json = format!(
            r#"{{"timeStamp":300000050,"amount":25000500000,"fee":200000,"type":257,"deadline":300003650,
            "recipient":"TDHLS73IXYZFFBPZWJFK3DVGUUQ2BBIGVUPE6BMZ","message":{{"payload":"{payload}","type":1}},
            "version":-1744830463,"signer":"be6a7bb594e6c141a9ea1b671891a7a0c99999253f22bcf0fe36013bdeebded9"}}"#
        );
        describe(&read_transaction(json.as_bytes()).unwrap())
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
