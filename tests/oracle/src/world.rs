//! A small network: its accounts, its terms, its nemesis block, and its treasury block.

use std::path::{Path, PathBuf};

use nisd::codec::SigningForm;
use nisd::model::transaction::{AggregateModification, Modification, ModificationKind, Transfer, wire_version};
use nisd::model::{Amount, Block, Body, Hash256, Timestamp, Transaction};

use super::court::{Oracle, Purpose};
use super::ground::signed_block;
use super::model::Model;
use super::people::{
    ALWAYS_POOR, AccountIndex, COSIGNATORIES, CREATION, DELEGATOR, FIRST_POOR, HARVESTERS, KeyRing, MULTISIG, NEMESIS,
    RENTAL,
};
use super::terms::NetworkTerms;
use crate::Random;
use crate::private_network::{self, Genesis};

const MICRO: u64 = 1_000_000;
/// Total supply in micro-units.
const TOTAL: u64 = private_network::TOTAL * MICRO;

/// A small network; see the module.
pub struct TestNetwork {
    pub key_ring: KeyRing,
    pub terms: NetworkTerms,
    pub nemesis: Block,
    /// Allowed content of the treasury block: the preferred variant, and the alternative.
    pub treasury: [Vec<Transaction>; 2],
    treasury_hashes: [Vec<Hash256>; 2],
}

impl TestNetwork {
    /// Returns the network with a number, some of which have a kind of their own.
    pub fn new(number: u64, random: &mut Random) -> TestNetwork {
        let terms = NetworkTerms::of(number, random);
        let people = KeyRing::new(terms.network);
        let nemesis = nemesis(&people);
        let treasury = treasury(&people, &terms);
        let hashes_of = |list: &Vec<Transaction>| list.iter().map(Transaction::hash).collect();
        let treasury_hashes = [hashes_of(&treasury[0]), hashes_of(&treasury[1])];
        TestNetwork { key_ring: people, terms, nemesis, treasury, treasury_hashes }
    }

    /// Returns the oracle for what follows a state.
    pub fn oracle<'a>(&'a self, model: &'a Model, now: i32, purpose: Purpose) -> Oracle<'a> {
        let [preferred, fallback] = &self.treasury_hashes;
        let (people, terms, height) = (&self.key_ring, &self.terms, model.height + 1);
        Oracle { key_ring: people, terms, treasury: [preferred, fallback], model, height, now, purpose }
    }

    /// Returns the state after the nemesis block.
    pub fn model(&self) -> Model {
        let mut model = Model::new(self.key_ring.len(), private_network::GENERATION_HASH);
        model.receive(NEMESIS, TOTAL, 1, &self.terms);
        for transaction in &self.nemesis.transactions {
            let moves = self.oracle(&model, 0, Purpose::Block).moves(transaction).expect("what was made for it");
            moves.iter().for_each(|one| model.apply(one, 1, &self.terms));
            model.hashes.insert(transaction.hash(), transaction.timestamp.0);
        }
        model.finish_block(NEMESIS, 1, 0, 0, &self.terms);
        model
    }

    /// Writes the settings and the nemesis block.
    pub fn write(&self, folder: &Path) -> PathBuf {
        let joined = |hashes: &[Hash256]| hashes.iter().map(Hash256::to_string).collect::<Vec<_>>().join("|");
        let mut settings = self.terms.settings(&joined(&self.treasury_hashes[0]), &joined(&self.treasury_hashes[1]));
        let byte = self.key_ring.network.0.to_string();
        let signer = self.key_ring.address(NEMESIS).to_string();
        settings.push(("nem.network.version", byte));
        settings.push(("nem.network.addressStartChar", signer[..1].to_owned()));
        settings.push(("nem.network.nemesisSignerAddress", signer));
        let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let genesis =
            Genesis { block: self.nemesis.to_bytes(SigningForm::Verifiable), ..Genesis::new(Timestamp(0), &[]) };
        genesis.write(folder, &settings)
    }
}

fn transaction(people: &KeyRing, signer: AccountIndex, [time, fee]: [u64; 2], body: Body) -> Transaction {
    let timestamp = Timestamp(time as i32);
    let mut transaction = Transaction {
        version: wire_version(people.network, 1),
        timestamp,
        signer: people.public(signer),
        signature: None,
        fee: Amount(fee),
        deadline: Timestamp(timestamp.0 + 86_400),
        body,
    };
    let signer = if people.can_sign(signer) { signer } else { NEMESIS };
    transaction.signature = Some(people.keys(signer).sign(&transaction.signed_bytes()));
    transaction
}

fn transfer(people: &KeyRing, [from, to]: [AccountIndex; 2], time_and_fee: [u64; 2], amount: u64) -> Transaction {
    let recipient = people.address(to);
    let body = Transfer { recipient, amount: Amount(amount), message: None, mosaics: Vec::new() };
    transaction(people, from, time_and_fee, Body::Transfer(body))
}

/// Converts the account to a multisig account of the sharers.
fn convert_to_multisig(
    people: &KeyRing,
    account: AccountIndex,
    sharers: &[AccountIndex],
    time_and_fee: [u64; 2],
) -> Transaction {
    let mut sharers = sharers.to_vec();
    sharers.sort_by_key(|who| people.address(*who));
    let add = |who| Modification { kind: ModificationKind::Add, cosignatory: people.public(who) };
    let modifications = sharers.into_iter().map(add).collect();
    let body = AggregateModification { modifications, min_cosignatories_change: None };
    transaction(people, account, time_and_fee, Body::AggregateModification(body))
}

fn nemesis(people: &KeyRing) -> Block {
    let rich = (1..FIRST_POOR).map(|who| match who {
        DELEGATOR => (who, 1_500_000_000),
        who if HARVESTERS.contains(&who) => (who, 2_000_000_000),
        who => (who, 60_000_000),
    });
    let sinks = [RENTAL, CREATION].map(|who| (who, 1_000_000));
    // Enough to become a multisig account, which leaves nothing.
    let poor = (ALWAYS_POOR..ALWAYS_POOR + 4).map(|who| (who, 100));
    let mut transactions: Vec<Transaction> = rich
        .chain(sinks)
        .chain(poor)
        .map(|(who, units)| transfer(people, [NEMESIS, who], [0, 0], units * MICRO))
        .collect();
    transactions.push(convert_to_multisig(people, MULTISIG, &COSIGNATORIES, [0, 0]));
    signed_block(people, NEMESIS, 1, 0, Hash256::default(), transactions)
}

/// Returns what the network agreed on: late payments, conversion of a fee sink to a multisig account, and a transaction
/// of that sink; or only the payments.
fn treasury(people: &KeyRing, terms: &NetworkTerms) -> [Vec<Transaction>; 2] {
    let time = (terms.time(terms.forks.treasury) as u64).saturating_sub(40_000);
    let preferred = vec![
        transfer(people, [NEMESIS, COSIGNATORIES[0]], [time, 0], 1_000 * MICRO),
        convert_to_multisig(people, RENTAL, &COSIGNATORIES, [time, MICRO]),
        transfer(people, [MULTISIG, COSIGNATORIES[1]], [time, MICRO], 10 * MICRO),
    ];
    [preferred, vec![transfer(people, [COSIGNATORIES[0], COSIGNATORIES[1]], [time, MICRO], 10 * MICRO)]]
}
