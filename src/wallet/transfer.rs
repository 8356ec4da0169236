//! Builds transfers, with the minimum fees under the current rules.

use crate::crypto::PublicKey;
use crate::model::network::ChainParameters;
use crate::model::transaction::{Message, Multisig, Transfer, wire_version};
use crate::model::{Address, Amount, Body, Height, Mosaic, MosaicId, NetworkByte, Timestamp, Transaction};
use crate::rules::{self, FeeSchedule, Rejection};
use crate::state::MosaicEntry;

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
    use super::super::signed_transaction::{SignedTransaction, ownerless_address};
    use super::*;
    use crate::crypto::{KeyPair, PrivateKey};
    use crate::model::MosaicDefinition;
    use crate::model::transaction::{MessageKind, Transfer};

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
