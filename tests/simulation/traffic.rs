//! Users of a network: random payments, all of which the node must accept.

use nisd::crypto::{KeyPair, PublicKey};
use nisd::model::transaction::{ImportanceTransfer, LinkMode, wire_version};
use nisd::model::{Address, Amount, Body, Timestamp, Transaction};

use crate::common::Random;
use crate::common::private_network::{NETWORK, address, transfer_with_message};

/// A fee above the minimum of every transaction made here.
const FEE: u64 = 500_000;
/// Step of the extra fee that some pay, and number of steps.
const EXTRA_FEE: u64 = 50_000;
const EXTRA_STEPS: usize = 40;
/// Maximum payment in whole units.
const MAX_PAYMENT: usize = 1_000;
/// Number of accounts that only receive.
const PASSIVE_ACCOUNTS: usize = 40;

/// Users by role, and the source of their decisions.
pub struct Traffic {
    pub senders: Vec<KeyPair>,
    /// Accounts that harvest and sometimes make a payment.
    pub harvesters: Vec<KeyPair>,
    pub random: Random,
}

impl Traffic {
    /// Returns what is announced at a second: with a chance of `rate` percent, one payment.
    pub fn payment(&mut self, now: Timestamp, rate: usize) -> Option<Transaction> {
        let random = &mut self.random;
        if random.below(100) >= rate {
            return None;
        }
        let payers = if random.below(10) == 0 { &self.harvesters } else { &self.senders };
        let payer = &payers[random.below(payers.len())];
        let place = random.below(self.senders.len() + PASSIVE_ACCOUNTS);
        // Nobody has the keys of the accounts that only receive.
        let passive = || Address::from_public_key(&PublicKey([place as u8; 32]), NETWORK);
        let recipient = self.senders.get(place).map_or_else(passive, address);
        let (message, amount) = (vec![b'x'; random.below(32)], Amount::whole(random.below(MAX_PAYMENT) as u64));
        let fee = Amount(FEE + EXTRA_FEE * random.below(EXTRA_STEPS) as u64);
        Some(transfer_with_message(payer, recipient, amount, &message, fee, now))
    }

    /// Builds the transaction with which a harvester delegates its importance to a remote account.
    pub fn delegation(&self, harvester: usize, remote: PublicKey, now: Timestamp) -> Transaction {
        let key = &self.harvesters[harvester];
        let mut transaction = Transaction {
            version: wire_version(NETWORK, 1),
            timestamp: now,
            signer: key.public(),
            signature: None,
            fee: Amount(FEE),
            deadline: Timestamp(now.0 + 3_600),
            body: Body::ImportanceTransfer(ImportanceTransfer { mode: LinkMode::Activate, remote }),
        };
        transaction.signature = Some(key.sign(&transaction.signed_bytes()));
        transaction
    }
}
