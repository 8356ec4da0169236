//! Users of a network: random transactions of all kinds, all of which the node must accept.

use nisd::crypto::{KeyPair, PublicKey};
use nisd::model::transaction::{
    AggregateModification, Cosignature, ImportanceTransfer, LinkMode, Message, MessageKind, Modification,
    ModificationKind, MosaicDefinitionCreation, MosaicSupplyChange, Multisig, ProvisionNamespace, SupplyChangeKind,
    Transfer, wire_version,
};
use nisd::model::{
    Address, Amount, Block, Body, Mosaic, MosaicDefinition, MosaicId, MosaicProperties, NamespaceId, Network,
    Timestamp, Transaction,
};

use super::Random;

/// A fee above the minimum of every transaction made here.
const FEE: Amount = Amount(500_000);
/// Step of the extra fee that some pay, and number of steps.
const EXTRA_FEE: u64 = 50_000;
const EXTRA_STEPS: usize = 40;
const RENT: [Amount; 2] = [Amount::whole(100), Amount::whole(10)];
const CREATION_FEE: Amount = Amount::whole(10);
/// Maximum payment in whole units.
const MAX_PAYMENT: usize = 1_000;
/// Number of accounts that only receive.
const PASSIVE_ACCOUNTS: usize = 40;
/// Seconds until a transaction expires, and until one expires that is meant to lack a cosignature.
const TTL: i32 = 3_600;
const SHORT_TTL: i32 = 300;
/// Maximum seconds until a cosignatory signs.
const MAX_COSIGN_DELAY: usize = 20;

/// Users by role. At least six senders are needed.
pub struct Users {
    /// The first rents a namespace and defines a mosaic; the second is a multisig account of the next three.
    pub senders: Vec<KeyPair>,
    /// Accounts that harvest and sometimes make a payment.
    pub harvesters: Vec<KeyPair>,
}

/// The transactions of these users.
pub struct Traffic<'n> {
    network: &'n Network,
    users: Users,
    random: Random,
    now: Timestamp,
    /// Future cosignatures and their times.
    pending_cosignatures: Vec<(Timestamp, Transaction)>,
    /// Transactions to announce next.
    next: Vec<Transaction>,
    rents: bool,
    trades: bool,
    has_multisig: bool,
    /// Number of transactions so far; makes names unique.
    count: u32,
}

impl<'n> Traffic<'n> {
    /// Creates the traffic; it starts with a namespace and a multisig account, which later transactions need.
    pub fn new(network: &'n Network, people: Users, random: Random, now: Timestamp) -> Traffic<'n> {
        let (agreeing, next) = (Vec::new(), Vec::new());
        let (rents, trades, shares) = (false, false, false);
        let mut traffic = Traffic {
            network,
            users: people,
            random,
            now,
            pending_cosignatures: agreeing,
            next,
            rents,
            trades,
            has_multisig: shares,
            count: 0,
        };
        let (rent, convert) = (traffic.rent(None), traffic.convert_to_multisig());
        traffic.next = vec![rent, convert];
        traffic
    }

    /// Returns what is announced in the next second: due cosignatures and, with a chance of `rate` percent, one new
    /// transaction.
    pub fn next_second(&mut self, rate: usize) -> Vec<Transaction> {
        self.now.0 += 1;
        let now = self.now;
        let (due, waiting) =
            std::mem::take(&mut self.pending_cosignatures).into_iter().partition(|(when, _)| *when <= now);
        self.pending_cosignatures = waiting;
        let mut all = std::mem::take(&mut self.next);
        all.extend(due.into_iter().map(|(_, cosignature): (Timestamp, Transaction)| cosignature));
        if self.random.below(100) < rate {
            all.push(self.random_transaction());
        }
        all
    }

    /// Records confirmed transactions, which later ones may depend on.
    pub fn on_block(&mut self, block: &Block) {
        for transaction in &block.transactions {
            match &transaction.body {
                Body::ProvisionNamespace(body) if body.parent.is_none() => {
                    self.rents = true;
                    let definition = self.define();
                    self.next.push(definition);
                }
                Body::MosaicDefinitionCreation(_) => self.trades = true,
                Body::AggregateModification(_) => self.has_multisig = true,
                _ => {}
            }
        }
    }

    /// Builds the transaction with which a harvester delegates its importance to a remote account.
    pub fn delegation(&mut self, harvester: usize, remote: PublicKey) -> Transaction {
        let body = Body::ImportanceTransfer(ImportanceTransfer { mode: LinkMode::Activate, remote });
        let unsigned = self.unsigned(&self.users.harvesters[harvester], 1, body);
        signed(unsigned, &self.users.harvesters[harvester])
    }

    fn random_transaction(&mut self) -> Transaction {
        self.count += 1;
        match self.random.below(20) {
            0..2 => {
                let payer = self.random.below(self.users.harvesters.len());
                self.payment(|people| &people.harvesters[payer])
            }
            2..4 if self.trades => self.mosaic_transfer(),
            4 if self.trades => self.supply_change(),
            5 if self.rents => {
                let part = format!("part{}", self.count);
                self.rent(Some(&part))
            }
            6..9 if self.has_multisig => self.multisig_payment(),
            _ => {
                let payer = 2 + self.random.below(self.users.senders.len() - 2);
                self.payment(|people| &people.senders[payer])
            }
        }
    }

    fn unsigned(&self, signer: &KeyPair, entity_version: i32, body: Body) -> Transaction {
        Transaction {
            version: wire_version(self.network.byte, entity_version),
            timestamp: self.now,
            signer: signer.public(),
            signature: None,
            fee: FEE,
            deadline: Timestamp(self.now.0 + TTL),
            body,
        }
    }

    fn address_of(&self, key: &KeyPair) -> Address {
        Address::from_public_key(&key.public(), self.network.byte)
    }

    fn random_recipient(&mut self) -> Address {
        let place = self.random.below(self.users.senders.len() + PASSIVE_ACCOUNTS);
        match self.users.senders.get(place) {
            Some(sender) => self.address_of(sender),
            // Nobody has the key of this account.
            None => Address::from_public_key(&PublicKey([place as u8; 32]), self.network.byte),
        }
    }

    fn with_extra_fee(&mut self, mut transaction: Transaction) -> Transaction {
        transaction.fee.0 += EXTRA_FEE * self.random.below(EXTRA_STEPS) as u64;
        transaction
    }

    fn transfer(&mut self) -> Transfer {
        let payload = vec![b'x'; self.random.below(32)];
        let message = (!payload.is_empty()).then_some(Message { kind: MessageKind::Plain, payload });
        let amount = Amount::whole(self.random.below(MAX_PAYMENT) as u64);
        Transfer { recipient: self.random_recipient(), amount, message, mosaics: Vec::new() }
    }

    fn payment(&mut self, payer: impl Fn(&Users) -> &KeyPair) -> Transaction {
        let body = Body::Transfer(self.transfer());
        let unsigned = self.unsigned(payer(&self.users), 1, body);
        signed(self.with_extra_fee(unsigned), payer(&self.users))
    }

    fn mosaic_transfer(&mut self) -> Transaction {
        let mosaics = vec![Mosaic { id: token(), quantity: 1 }];
        let body = Body::Transfer(Transfer { amount: Amount::whole(1), mosaics, ..self.transfer() });
        let unsigned = self.unsigned(&self.users.senders[0], 2, body);
        signed(self.with_extra_fee(unsigned), &self.users.senders[0])
    }

    fn supply_change(&mut self) -> Transaction {
        let change = MosaicSupplyChange { mosaic: token(), kind: SupplyChangeKind::Create, delta: 1 };
        let unsigned = self.unsigned(&self.users.senders[0], 1, Body::MosaicSupplyChange(change));
        signed(self.with_extra_fee(unsigned), &self.users.senders[0])
    }

    fn rent(&mut self, part: Option<&str>) -> Transaction {
        let body = ProvisionNamespace {
            rental_fee_sink: self.network.namespace_sink(),
            rental_fee: RENT[usize::from(part.is_some())],
            new_part: part.unwrap_or(NAMESPACE).to_owned(),
            parent: part.map(|_| namespace()),
        };
        let unsigned = self.unsigned(&self.users.senders[0], 1, Body::ProvisionNamespace(body));
        signed(self.with_extra_fee(unsigned), &self.users.senders[0])
    }

    fn define(&mut self) -> Transaction {
        let owner = &self.users.senders[0];
        let properties =
            MosaicProperties { divisibility: 0, initial_supply: 5_000, supply_mutable: true, transferable: true };
        let definition = MosaicDefinition {
            creator: owner.public(),
            id: token(),
            description: "what is traded".to_owned(),
            properties,
            levy: None,
        };
        let creation_fee_sink = self.network.mosaic_sink();
        let body = MosaicDefinitionCreation { definition, creation_fee_sink, creation_fee: CREATION_FEE };
        signed(self.unsigned(owner, 1, Body::MosaicDefinitionCreation(Box::new(body))), owner)
    }

    /// Converts to a multisig account that needs two of three signatures.
    fn convert_to_multisig(&mut self) -> Transaction {
        let mut cosignatories: Vec<&KeyPair> = self.users.senders[2..5].iter().collect();
        cosignatories.sort_by_key(|key| self.address_of(key));
        let add = |key: &KeyPair| Modification { kind: ModificationKind::Add, cosignatory: key.public() };
        let modifications = cosignatories.into_iter().map(add).collect();
        let body = AggregateModification { modifications, min_cosignatories_change: Some(2) };
        let account = &self.users.senders[1];
        signed(self.unsigned(account, 2, Body::AggregateModification(body)), account)
    }

    /// Builds a payment of the multisig account. One or both of the other cosignatories sign later, or none does.
    fn multisig_payment(&mut self) -> Transaction {
        let body = Body::Transfer(self.transfer());
        let inner = self.unsigned(&self.users.senders[1], 1, body);
        let (first, others, when) = (self.random.below(3), self.random.below(4), self.random.below(MAX_COSIGN_DELAY));
        let when = Timestamp(self.now.0 + 1 + when as i32);
        let other_account = self.address_of(&self.users.senders[1]);
        for place in (first + 1..first + others.min(2) + 1).map(|place| 2 + place % 3) {
            let other_hash = inner.hash().into();
            let key = &self.users.senders[place];
            let body = Body::Cosignature(Cosignature { other_hash, other_account });
            let cosignature = signed(Transaction { timestamp: when, ..self.unsigned(key, 1, body) }, key);
            self.pending_cosignatures.push((when, cosignature));
        }
        let body = Body::Multisig(Box::new(Multisig { inner, cosignatures: Vec::new() }));
        let mut outer = self.unsigned(&self.users.senders[2 + first], 1, body);
        if others == 0 {
            outer.deadline = Timestamp(self.now.0 + SHORT_TTL);
        }
        signed(self.with_extra_fee(outer), &self.users.senders[2 + first])
    }
}

const NAMESPACE: &str = "market";

fn namespace() -> NamespaceId {
    NamespaceId::parse(NAMESPACE).unwrap()
}

fn token() -> MosaicId {
    MosaicId::new(namespace(), "token").unwrap()
}

fn signed(mut transaction: Transaction, key: &KeyPair) -> Transaction {
    transaction.signature = Some(key.sign(&transaction.signed_bytes()));
    transaction
}
