//! Minimum fees under the present rules, based on what a node reports of mosaics.

use crate::model::network::ChainParameters;
use crate::model::{Amount, Height, Transaction};
use crate::rules::{self, FeeSchedule, Rejection};
use crate::state::MosaicEntry;

/// Returns the minimum fee of a transaction, without that of an inner one. `mosaics` are the attached mosaics;
/// `nem:xem` may be missing, any other missing mosaic is an error.
pub fn minimum(transaction: &Transaction, mosaics: &[MosaicEntry]) -> Result<Amount, Rejection> {
    FeeSchedule::Third.minimum_fee(transaction, |id| match id.is_xem() {
        true => Ok(Some(MosaicEntry::xem())),
        false => Ok(mosaics.iter().find(|entry| entry.definition.id == *id).cloned()),
    })
}

/// Returns the maximum bytes of a message.
pub fn max_message_bytes() -> usize {
    rules::max_message_length(&ChainParameters::after_all_forks().forks, Height(2))
}

#[cfg(test)]
mod tests {
    use super::super::signed_transaction::ownerless_address;
    use super::*;
    use crate::crypto::PublicKey;
    use crate::model::transaction::{Message, MessageKind, Transfer, wire_version};
    use crate::model::{Body, Mosaic, MosaicDefinition, MosaicId, NetworkByte, Timestamp};

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
        minimum(&transaction, &known).unwrap().0
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
