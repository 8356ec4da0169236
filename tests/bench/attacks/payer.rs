//! Funded accounts whose transfers fill blocks.

use nisd::crypto::KeyPair;
use nisd::model::transaction::{MosaicDefinitionCreation, ProvisionNamespace};
use nisd::model::{Address, Amount, Body, MosaicDefinition, MosaicId, MosaicProperties, NamespaceId, Transaction};

use crate::common::http::{Client, post_with};
use crate::common::node_network::announcement;
use crate::common::private_network::{NETWORK, address, key_pair, now, signed, transfer_with_message};

/// Number of senders; their keys have the numbers from 2 on.
const SENDERS: u64 = 500;
/// Key number of the harvester.
pub const HARVESTER: u64 = 1;
/// Key number of an account with a large balance.
pub const RICH: u64 = 2;
/// Key number of the recipient of everything.
const RECIPIENT: u64 = 1_000_000;
/// Balances of the harvester and of each sender in whole units.
const SHARES: [u64; 2] = [8_000_000_000, 1_000_000];
/// Properties of the mosaics.
const PROPERTIES: MosaicProperties =
    MosaicProperties { divisibility: 0, initial_supply: 5_000, supply_mutable: true, transferable: true };
/// Maximum number of announcements in flight.
const WINDOW: usize = 32;

/// The accounts.
pub struct Payer {
    keys: Vec<KeyPair>,
    recipient: Address,
    /// Number of transfers so far; their amounts number them.
    count: u64,
}

impl Payer {
    pub fn new() -> Payer {
        Payer { keys: (2..SENDERS + 2).map(key_pair).collect(), recipient: address(&key_pair(RECIPIENT)), count: 0 }
    }

    /// Returns the initial balances.
    pub fn funded(&self) -> Vec<(Address, Amount)> {
        let senders = self.keys.iter().map(|key| (address(key), Amount::whole(SHARES[1])));
        std::iter::once((address(&key_pair(HARVESTER)), Amount::whole(SHARES[0]))).chain(senders).collect()
    }

    /// Returns the bodies of announcements of `count` transfers with a message of this many bytes, to be sent within the
    /// hour.
    pub fn sign(&mut self, count: usize, message: usize) -> Vec<String> {
        let recipient = self.recipient;
        (0..count).map(|_| announcement(&self.next(recipient, message))).collect()
    }

    /// Returns the body of the announcement of one transfer to an account.
    pub fn sign_to(&mut self, recipient: Address) -> String {
        announcement(&self.next(recipient, 0))
    }

    /// Returns the bodies of announcements of an account of its own: one rents a namespace, the others define this many
    /// mosaics in it once the namespace exists.
    pub fn sign_mosaics(&mut self, count: usize) -> (String, Vec<String>) {
        let (owner, namespace) = (key_pair(RICH), NamespaceId::parse("market").expect("a name"));
        let sink = |text: &str| Address::parse(text, NETWORK).expect("an address");
        let rent = Body::ProvisionNamespace(ProvisionNamespace {
            rental_fee_sink: sink("TAMESPACEWH4MKFMBCVFERDPOOP4FK7MTDJEYP35"),
            rental_fee: Amount::whole(100),
            new_part: "market".to_owned(),
            parent: None,
        });
        let define = |number: usize| {
            let definition = MosaicDefinition {
                creator: owner.public(),
                id: MosaicId::new(namespace.clone(), &format!("mosaic{number}")).expect("a name"),
                description: "what is traded".to_owned(),
                properties: PROPERTIES,
                levy: None,
            };
            let creation_fee_sink = sink("TBMOSAICOD4F54EE5CDMR23CCBGOAM2XSJBR5OLC");
            let body = MosaicDefinitionCreation { definition, creation_fee_sink, creation_fee: Amount::whole(10) };
            announcement(&signed(&owner, 1, Body::MosaicDefinitionCreation(Box::new(body)), Amount(500_000), now()))
        };
        (announcement(&signed(&owner, 1, rent, Amount(500_000), now())), (0..count).map(define).collect())
    }

    fn next(&mut self, recipient: Address, message: usize) -> Transaction {
        let from = &self.keys[self.count as usize % self.keys.len()];
        let fee = Amount(500_000 + 50_000 * (message as u64 / 32));
        self.count += 1;
        transfer_with_message(from, recipient, Amount(1_000_000 + self.count), &vec![b'x'; message], fee, now())
    }
}

/// Announces all transfers, several at a time. The node must accept each of them.
pub fn announce(client: &mut Client, requests: &[String]) {
    // Who has the secret of the node is not limited.
    let authorization = client.authorization();
    for some in requests.chunks(WINDOW) {
        let posts = some.iter().map(|body| post_with("/transaction/announce", body, &authorization));
        client.send(posts.collect::<String>());
        for _ in some {
            let answer = client.answer();
            assert!(answer.status == 200 && answer.text().contains("SUCCESS"), "an announcement: {answer:?}");
        }
    }
}
