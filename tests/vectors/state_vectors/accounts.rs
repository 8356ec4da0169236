//! The named accounts of a scenario, and the decoding of transactions and encoding of effects that use these names.

use std::collections::BTreeMap;

use nisd::crypto::{PublicKey, Signature};
use nisd::model::transaction::{
    AggregateModification, Cosignature, ImportanceTransfer, LinkMode, Modification, ModificationKind,
    MosaicDefinitionCreation, MosaicSupplyChange, Multisig, ProvisionNamespace, SupplyChangeKind, Transfer,
    wire_version,
};
use nisd::model::{
    Address, Amount, Body, Levy, LevyKind, Mosaic, MosaicDefinition, MosaicId, MosaicProperties, NamespaceId,
    NetworkByte, Timestamp, Transaction,
};
use nisd::state::Effect;
use serde_json::{Value, json};

use crate::vectors::values::{list, number, text};

/// Accounts by name.
pub struct Accounts {
    keys: BTreeMap<String, PublicKey>,
    names: BTreeMap<Address, String>,
    network: NetworkByte,
}

pub fn mosaic_id(value: &Value) -> MosaicId {
    MosaicId::parse(text(value)).unwrap()
}

fn code(value: &Value) -> i32 {
    i32::try_from(value.as_i64().unwrap()).unwrap()
}

impl Accounts {
    /// Reads the accounts of a scenario; their addresses derive from their keys.
    pub fn new(value: &Value, network: NetworkByte) -> Accounts {
        let mut accounts = Accounts { keys: BTreeMap::new(), names: BTreeMap::new(), network };
        for (name, account) in value.as_object().unwrap() {
            let key = PublicKey::from_hex(text(&account["publicKey"])).unwrap();
            let address = Address::from_public_key(&key, network);
            assert_eq!(account["address"], address.as_str());
            accounts.keys.insert(name.clone(), key);
            accounts.names.insert(address, name.clone());
        }
        accounts
    }

    pub fn key(&self, name: &Value) -> PublicKey {
        self.keys[text(name)]
    }

    pub fn address(&self, name: &Value) -> Address {
        Address::from_public_key(&self.key(name), self.network)
    }

    pub fn name(&self, address: &Address) -> &str {
        &self.names[address]
    }

    /// Reads a transaction. It is not normalized yet; encoding and decoding a block normalizes it.
    pub fn transaction(&self, value: &Value) -> Transaction {
        let body = self.body(value);
        let version = match &body {
            Body::Transfer(body) if body.mosaics.is_empty() => 1,
            Body::Transfer(_) | Body::AggregateModification(_) => 2,
            _ => 1,
        };
        self.with_body(value, version, body)
    }

    fn with_body(&self, value: &Value, version: i32, body: Body) -> Transaction {
        Transaction {
            version: wire_version(self.network, version),
            timestamp: Timestamp(code(&value["timeStamp"])),
            signer: self.key(&value["signer"]),
            signature: Some(Signature([0; 64])),
            fee: Amount(number(&value["fee"])),
            deadline: Timestamp(code(&value["deadline"])),
            body,
        }
    }

    fn body(&self, value: &Value) -> Body {
        match text(&value["type"]) {
            "transfer" => Body::Transfer(Transfer {
                recipient: self.address(&value["recipient"]),
                amount: Amount(number(&value["amount"])),
                message: None,
                mosaics: value["mosaics"].as_array().into_iter().flatten().map(mosaic).collect(),
            }),
            "importance" => Body::ImportanceTransfer(ImportanceTransfer {
                mode: LinkMode::from_code(code(&value["mode"])).unwrap(),
                remote: self.key(&value["remote"]),
            }),
            "aggregate" => Body::AggregateModification(AggregateModification {
                modifications: list(&value["mods"]).iter().map(|one| self.modification(one)).collect(),
                min_cosignatories_change: Some(code(&value["relativeChange"])),
            }),
            "namespace" => Body::ProvisionNamespace(ProvisionNamespace {
                rental_fee_sink: self.address(&value["sink"]),
                rental_fee: Amount(number(&value["rentalFee"])),
                new_part: text(&value["newPart"]).to_owned(),
                parent: value["parent"].as_str().map(|parent| NamespaceId::parse(parent).unwrap()),
            }),
            "mosaicdef" => Body::MosaicDefinitionCreation(Box::new(MosaicDefinitionCreation {
                definition: self.definition(value),
                creation_fee_sink: self.address(&value["sink"]),
                creation_fee: Amount(number(&value["creationFee"])),
            })),
            "supply" => Body::MosaicSupplyChange(MosaicSupplyChange {
                mosaic: mosaic_id(&value["id"]),
                kind: SupplyChangeKind::from_code(code(&value["supplyType"])).unwrap(),
                delta: number(&value["delta"]),
            }),
            "multisig" => Body::Multisig(Box::new(self.multisig(value))),
            other => panic!("a transaction of the kind {other}"),
        }
    }

    fn modification(&self, value: &Value) -> Modification {
        let kind = ModificationKind::from_code(code(&value[0])).unwrap();
        Modification { kind, cosignatory: self.key(&value[1]) }
    }

    fn definition(&self, value: &Value) -> MosaicDefinition {
        let levy = Some(&value["levy"]).filter(|levy| !levy.is_null());
        MosaicDefinition {
            creator: self.key(&value["signer"]),
            id: mosaic_id(&value["id"]),
            description: text(&value["description"]).to_owned(),
            properties: MosaicProperties {
                divisibility: u8::try_from(number(&value["divisibility"])).unwrap(),
                initial_supply: number(&value["initialSupply"]),
                supply_mutable: value["supplyMutable"].as_bool().unwrap(),
                transferable: value["transferable"].as_bool().unwrap(),
            },
            levy: levy.map(|levy| Levy {
                kind: LevyKind::from_code(code(&levy[0])).unwrap(),
                recipient: self.address(&levy[1]),
                mosaic: mosaic_id(&levy[2]),
                fee: number(&levy[3]),
            }),
        }
    }

    fn multisig(&self, value: &Value) -> Multisig {
        let inner = Transaction { signature: None, ..self.transaction(&value["inner"]) };
        let (other_hash, other_account) = (inner.hash(), inner.signer_address(self.network));
        let body = || Body::Cosignature(Cosignature { other_hash: other_hash.into(), other_account });
        let cosignature = |one: &Value| self.with_body(one, 1, body());
        let cosignatures = value["signatures"].as_array().unwrap().iter().map(cosignature).collect();
        Multisig { inner, cosignatures }
    }

    /// Returns an effect as the vectors write a notification.
    pub fn notification(&self, effect: &Effect<'_>) -> Value {
        let name = |address| self.name(address);
        match effect {
            Effect::Reference(account) => json!(["N1", name(account)]),
            Effect::Transfer { from, to, amount } => json!(["N2", name(from), name(to), amount]),
            Effect::Debit { from, amount } => json!(["N4", name(from), amount]),
            Effect::Link { owner, remote, mode } => json!(["N5", name(owner), name(remote), mode.code()]),
            Effect::Cosignatory { account, modification } => {
                let cosignatory = Address::from_public_key(&modification.cosignatory, self.network);
                json!(["N6", name(account), modification.kind.code(), name(&cosignatory)])
            }
            Effect::MinCosignatories { account, change } => json!(["N7", name(account), change]),
            Effect::Namespace { owner, name: namespace } => json!(["N8", name(owner), namespace.as_str()]),
            Effect::Definition(definition) => json!(["N9", definition.id.to_string()]),
            Effect::Supply { supplier, mosaic, delta, kind } => {
                json!(["N10", name(supplier), mosaic.to_string(), delta, kind.code()])
            }
            Effect::MosaicTransfer { from, to, mosaic, quantity } => {
                json!(["N11", name(from), name(to), mosaic.to_string(), quantity])
            }
        }
    }
}

fn mosaic(value: &Value) -> Mosaic {
    Mosaic { id: mosaic_id(&value[0]), quantity: number(&value[1]) }
}
