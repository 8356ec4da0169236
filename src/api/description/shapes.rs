//! The shapes of the objects of the interface, in a short notation, and what that stands for in JSON Schema.
//!
//! ```text
//! int32 hash …           a number or text, see `scalar`
//! =257  ="ok"            just this value
//! Name                   the shape with this name
//! X?                     X, or null
//! X | Y                  X or Y
//! [X]                    a list of X
//! {a: X, b~: Y}          an object with the member a; b may be missing
//! ```

use serde_json::{Map, Value, json};

/// Members that all transactions have, up to the signature.
macro_rules! transaction {
    ($kind:literal, $members:literal) => {
        concat!(
            "{type: =",
            $kind,
            ", version: int32, timeStamp: int32, signer: hash, fee: int64, deadline: int32, ",
            "signature~: signature, ",
            $members,
            "}"
        )
    };
}

/// The shapes by their names.
pub const SHAPES: &[(&str, &str)] = &[
    ("Error", "{timeStamp: int32, error: text?, message: text?, status: int32}"),
    ("RequestResult", "{type: int32, code: int32, message: text}"),
    (
        "AnnounceResult",
        "{type: =1, code: int32, message: text, innerTransactionHash: {} | Hash, transactionHash: Hash}",
    ),
    ("Hash", "{data: hash}"),
    ("Height", "{height: int64}"),
    ("Score", "{score: hex}"),
    ("MultisigInfo", "{cosignatoriesCount: int32, minCosignatories: int32}"),
    (
        "AccountInfo",
        "{address: address, publicKey: hash?, balance: int64, vestedBalance: int64, harvestedBlocks: int64, \
         label: text?, importance: double, multisigInfo: {} | MultisigInfo}",
    ),
    (
        "AccountMetaData",
        "{status: =\"LOCKED\" | =\"UNLOCKED\", remoteStatus: =\"INACTIVE\" | =\"ACTIVATING\" | =\"ACTIVE\" | \
         =\"DEACTIVATING\" | =\"REMOTE\", cosignatoryOf: [AccountInfo], cosignatories: [AccountInfo]}",
    ),
    ("AccountMetaDataPair", "{account: AccountInfo, meta: AccountMetaData}"),
    ("Namespace", "{fqn: text, owner: address, height: int64}"),
    ("NamespacePair", "{namespace: Namespace, meta: {id: int64}}"),
    ("MosaicId", "{namespaceId: text, name: text}"),
    ("Mosaic", "{mosaicId: MosaicId, quantity: int64}"),
    ("Property", "{name: text, value: text}"),
    ("Levy", "{type: int32, recipient: address, mosaicId: MosaicId, fee: int64}"),
    ("MosaicDefinition", "{creator: hash, id: MosaicId, description: text, properties: [Property], levy: {} | Levy}"),
    ("MosaicDefinitionPair", "{mosaic: MosaicDefinition, meta: {id: int64}}"),
    ("MosaicSupply", "{mosaicId: MosaicId, supply: int64}"),
    ("SuppliedDefinition", "{mosaicDefinition: MosaicDefinition, supply: int64, expirationHeight: int64}"),
    (
        "ExpiredMosaic",
        "{mosaicId: MosaicId, expiredMosaicType: int32, balances: [{address: address, quantity: int64}]}",
    ),
    ("HarvestInfo", "{id: int64, height: int64, timeStamp: int32, totalFee: int64, difficulty: int64}"),
    (
        "ImportanceEntry",
        "{address: address, importance: {isSet: =0} | {isSet: =1, score: double, ev: double, height: int64}}",
    ),
    (
        "HistoryEntry",
        "{height: int64, address: address, balance: int64, vestedBalance: int64, unvestedBalance: int64, \
         importance: double, pageRank: double}",
    ),
    (
        "Transfer",
        transaction!(
            257,
            "recipient: address, amount: int64, message: {} | {type: int32, payload: hex}, mosaics~: [Mosaic]"
        ),
    ),
    ("ImportanceTransfer", transaction!(2049, "mode: int32, remoteAccount: hash")),
    (
        "AggregateModification",
        transaction!(
            4097,
            "modifications: [{modificationType: int32, cosignatoryAccount: hash}], \
             minCosignatories~: {} | {relativeChange: int32}"
        ),
    ),
    ("Cosignature", transaction!(4098, "otherHash: Hash, otherAccount: address")),
    ("Multisig", transaction!(4100, "otherTrans: Transaction, signatures: [Cosignature]")),
    (
        "ProvisionNamespace",
        transaction!(8193, "rentalFeeSink: address, rentalFee: int64, newPart: text, parent: text?"),
    ),
    (
        "MosaicDefinitionCreation",
        transaction!(16385, "mosaicDefinition: MosaicDefinition, creationFeeSink: address, creationFee: int64"),
    ),
    ("MosaicSupplyChange", transaction!(16386, "mosaicId: MosaicId, supplyType: int32, delta: int64")),
    (
        "Transaction",
        "Transfer | ImportanceTransfer | AggregateModification | Multisig | ProvisionNamespace | \
         MosaicDefinitionCreation | MosaicSupplyChange",
    ),
    (
        "TransactionPair",
        "{transaction: Transaction, meta: {height: int64, id: int64, hash: Hash, innerHash: {} | Hash}}",
    ),
    ("UnconfirmedPair", "{transaction: Transaction, meta: {data: hash?}}"),
    (
        "Block",
        "{type: int32, version: int32, timeStamp: int32, signer: hash, signature: signature, prevBlockHash: Hash, \
         height: int64, transactions: [Transaction]}",
    ),
    (
        "ExplorerBlock",
        "{block: Block, hash: hash, difficulty: int64, txes: [{tx: Transaction, hash: hash, innerHash~: hash}], \
         beneficiary: address, totalFee: int64}",
    ),
    (
        "Node",
        "{identity: {public-key: hash, name: text?}, endpoint: Endpoint, metaData: {version: text, platform: text?, \
         application: text?, features: int32, networkId: int32}}",
    ),
    ("Endpoint", "{protocol: text, host: text, port: int32}"),
    (
        "ExtendedInfo",
        "{node: Node, nisInfo: {application: text, version: text, signer: text?, startTime: int32, currentTime: int32}}",
    ),
    ("NodeLists", "{active: [Node], busy: [Node], inactive: [Node], failure: [Node]}"),
    ("ExperienceEntry", "{node: Node, experience: {s: int64, f: int64}, syncs: int32}"),
    ("TimeStamps", "{sendTimeStamp: int64, receiveTimeStamp: int64}"),
    ("UnlockedInfo", "{num-unlocked: int32, max-unlocked: int32}"),
    ("KeyPair", "{privateKey: hex, publicKey: hash, address: address}"),
    (
        "Timer",
        "{name: text, executions: int32, successes: int32, failures: int32, last-delay-time: int32, \
         last-operation-start-time: int32, last-operation-time: int32, average-operation-time: int32, is-executing: int32}",
    ),
    ("Audit", "{id: int32, host: text, path: text, start-time: int32, elapsed-time: int32}"),
    ("Audits", "{outstanding: [Audit], most-recent: [Audit]}"),
    ("TimeSynchronization", "{dateTime: text, currentTimeOffset: int64, change: int64}"),
    ("SecondsAgo", "{secondsAgo: int64}"),
    ("Trouble", "{} | {state: text, reason: text, secondsAgo: int64}"),
    (
        "Peer",
        "{address: address, node: Node, ip: text?, state: text, isPreTrusted: int32, height: {} | Height, \
         score: {} | Score, lastContact: {} | SecondsAgo, trust: {} | {share: double}, successes: int64, \
         failures: int64, synchronisations: int32, lastTrouble: Trouble, askedAgain: {} | {inSeconds: int64}}",
    ),
    ("UnpinnedPeer", "{endpoint: Endpoint, lastTrouble: Trouble}"),
    ("DroppedPeer", "{address: address, node: Node, why: text, secondsAgo: int64, lastTrouble: Trouble}"),
    (
        "Peers",
        "{status: int32, address: address, node: Node, height: int64, score: Score, failuresToJoin: int32, \
         clockDifference: int64, peers: [Peer], unpinned: [UnpinnedPeer], dropped: [DroppedPeer]}",
    ),
    ("PrivateKey", "{value: text}"),
    ("Accounts", "{data: [{account: text}]}"),
];

/// JSON Schema of a shape. What cannot be read, which a test excludes, allows anything.
pub fn schema(shape: &str) -> Value {
    let mut rest = shape;
    alternatives(&mut rest).filter(|_| rest.trim().is_empty()).unwrap_or_else(|| json!({}))
}

fn alternatives(rest: &mut &str) -> Option<Value> {
    let mut found = vec![one(rest)?];
    while take(rest, "|") {
        found.push(one(rest)?);
    }
    match found.len() {
        1 => found.pop(),
        _ => Some(json!({ "anyOf": found })),
    }
}

fn one(rest: &mut &str) -> Option<Value> {
    if take(rest, "[") {
        let items = alternatives(rest)?;
        return take(rest, "]").then(|| json!({ "type": "array", "items": items }));
    }
    if take(rest, "{") {
        return object(rest);
    }
    if take(rest, "=") {
        let value: Value = serde_json::from_str(word(rest)?).ok()?;
        return Some(json!({ "const": value }));
    }
    let name = word(rest)?;
    let schema = scalar(name).unwrap_or_else(|| json!({ "$ref": format!("#/components/schemas/{name}") }));
    Some(if take(rest, "?") { json!({ "anyOf": [schema, { "type": "null" }] }) } else { schema })
}

fn object(rest: &mut &str) -> Option<Value> {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    while !take(rest, "}") {
        let name = word(rest)?.to_owned();
        if !take(rest, "~") {
            required.push(name.clone());
        }
        if !take(rest, ":") {
            return None;
        }
        properties.insert(name, alternatives(rest)?);
        let _ = take(rest, ",");
    }
    // What is not named is not there, in answers; requests may hold more, which nobody looks at.
    Some(json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }))
}

/// Takes a sign off the front; whether it was there.
fn take(rest: &mut &str, sign: &str) -> bool {
    let stripped = rest.trim_start().strip_prefix(sign);
    *rest = stripped.unwrap_or(rest);
    stripped.is_some()
}

fn word<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let text = rest.trim_start();
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '"').unwrap_or(text.len());
    let (word, behind) = text.split_at(end);
    *rest = behind;
    Some(word).filter(|word| !word.is_empty())
}

fn scalar(name: &str) -> Option<Value> {
    let digits = |count: usize| json!({ "type": "string", "pattern": format!("^[0-9a-f]{{{count}}}$") });
    Some(match name {
        "int32" | "int64" => json!({ "type": "integer", "format": name }),
        "double" => json!({ "type": "number", "format": name }),
        "text" => json!({ "type": "string" }),
        "hex" => json!({ "type": "string", "pattern": "^[0-9a-f]*$" }),
        // Of a block or transaction; public keys are as long.
        "hash" => digits(64),
        "signature" => digits(128),
        "address" => json!({ "type": "string", "pattern": "^[A-Z2-7]{40}$" }),
        "any" => json!({}),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notation_stands_for_json_schema() {
        let integer = json!({ "type": "integer", "format": "int32" });
        assert_eq!(schema("int32"), integer);
        assert_eq!(schema("=5"), json!({ "const": 5 }));
        assert_eq!(schema("[ =\"ok\" ]"), json!({ "type": "array", "items": { "const": "ok" } }));
        assert_eq!(schema("Hash?"), json!({ "anyOf": [{ "$ref": "#/components/schemas/Hash" }, { "type": "null" }] }));
        let object = schema("{a-b: int32, c~: {} | int32}");
        assert_eq!(object["required"], json!(["a-b"]));
        assert_eq!(object["properties"]["a-b"], integer);
        assert_eq!(object["properties"]["c"]["anyOf"][1], integer);
    }

    #[test]
    fn every_shape_can_be_read() {
        for (name, shape) in SHAPES {
            assert_ne!(schema(shape), json!({}), "{name}");
        }
    }
}
