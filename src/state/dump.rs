//! Digest of the whole state, and its dump as one line of JSON in the format of the recorded chains.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde_json::{Map, Value, json};
use sha3::{Digest, Keccak256};

use super::account::{self, Account, AccountId, LinkPhase, LinkRole, RemoteLink, RemoteStatus};
use super::bytes::Stored;
use super::expiry::for_each_expired;
use super::hashes::{self, TOTALS_KEY as HASH_TOTALS_KEY};
use super::importances::{self, AccountImportance, Outlink, for_each_importance};
use super::mosaics::{self, DefinitionVersion, MosaicEntry};
use super::namespaces::{self, Lease};
use crate::codec::text::write_json_double;
use crate::model::{Address, Hash256, Height, NamespaceId, Network};
use crate::store::{Read, Result, StoreError, StoredHeader, Table, tip};

/// Computes a Keccak-256 over the hash of the tip, all entries of the state tables in key order with their lengths, and
/// the importances in force. Two nodes with the same chain have the same digest, and a rollback restores the previous
/// digest.
///
/// The tables of transaction hashes are left out. Their content follows from the blocks, which the hash of the tip
/// covers, but their layout depends on when they were packed and on settings.
pub fn digest(state: &impl Read) -> Result<Hash256> {
    let mut hasher = Keccak256::new();
    hasher.update(tip(state)?.map_or(Hash256::default(), |block| block.hash).0);
    for table in Table::state().filter(|table| !matches!(table, Table::Hashes | Table::HashRuns)) {
        hasher.update(table.name());
        state.for_each_prefix(table, &[], |key, value| {
            if table == Table::Totals && key == HASH_TOTALS_KEY {
                return Ok(true);
            }
            hasher.update((key.len() as u32).to_le_bytes());
            hasher.update(key);
            hasher.update((value.len() as u32).to_le_bytes());
            hasher.update(value);
            Ok(true)
        })?;
    }
    for_each_importance(state, |entry| {
        hasher.update(entry.to_stored());
        Ok(())
    })?;
    Ok(Hash256(hasher.finalize().into()))
}

/// Writes the state at the tip `block`, and a line feed.
pub fn dump(state: &impl Read, network: &Network, block: &StoredHeader, out: &mut impl Write) -> io::Result<()> {
    let recalculation = importances::last_recalculation(state).map_err(io::Error::other)?;
    let head = json!({
        "height": block.height.0,
        "blockHash": block.hash.to_string(),
        "timeStamp": block.timestamp.0,
        "chainScore": block.score.to_string(),
        "sumOfBalances": sum_of_balances(state).map_err(io::Error::other)?,
        "lastRecalculationHeight": recalculation.map(|last| last.height.0),
        "accountsHandedOver": recalculation.map(|last| last.accounts_counted),
    });
    let head = head.to_string();
    out.write_all(head.trim_end_matches('}').as_bytes())?;
    out.write_all(b",\"accounts\":[")?;
    write_accounts(state, network, block.height, out)?;
    let rest = remaining_fields(state, network, block.height).map_err(io::Error::other)?;
    writeln!(out, "],{}", rest.to_string().trim_start_matches('{'))
}

fn remaining_fields(state: &impl Read, network: &Network, height: Height) -> Result<Value> {
    Ok(json!({
        "namespaces": namespaces_value(state, network, height)?,
        "transactionHashes": hashes_value(state)?,
        "expiredMosaicLog": log_value(state)?,
    }))
}

fn sum_of_balances(state: &impl Read) -> Result<u64> {
    let mut sum = 0u64;
    state.for_each_prefix(Table::Accounts, &[], |_, value| {
        let total = Account::from_bytes(value)?.balance.total();
        sum = sum.checked_add(total).ok_or(StoreError::Damaged("balances"))?;
        Ok(true)
    })?;
    Ok(sum)
}

type LinksBySender = BTreeMap<AccountId, Vec<Value>>;

fn write_accounts(state: &impl Read, network: &Network, height: Height, out: &mut impl Write) -> io::Result<()> {
    let mut outlinks = outlinks_by_sender(state).map_err(io::Error::other)?;
    let accounts = accounts_by_address(state).map_err(io::Error::other)?;
    for (place, (address, number)) in accounts.iter().enumerate() {
        let sent = outlinks.remove(number).unwrap_or_default();
        let account = account_value(state, network, height, (address, *number), sent).map_err(io::Error::other)?;
        if place > 0 {
            out.write_all(b",")?;
        }
        serde_json::to_writer(&mut *out, &account)?;
    }
    Ok(())
}

fn accounts_by_address(state: &impl Read) -> Result<BTreeMap<Address, AccountId>> {
    let mut accounts = BTreeMap::new();
    // An account that owns a mosaic has an id even if it was never referenced.
    account::for_each_account_after(state, None, |number, address, _| {
        accounts.insert(address, number);
        Ok(true)
    })?;
    Ok(accounts)
}

fn outlinks_by_sender(state: &impl Read) -> Result<LinksBySender> {
    let mut outlinks = LinksBySender::new();
    state.for_each_prefix(Table::Outlinks, &[], |key, value| {
        let height = key.try_into().map(u64::from_be_bytes).map_err(|_| StoreError::Damaged("outlinks"))?;
        for link in Outlink::read_range(value, 0, usize::MAX)?.0 {
            let entry = json!([height, link.weight, link.recipient.address(state)?.as_str()]);
            outlinks.entry(link.sender).or_default().push(entry);
        }
        Ok(true)
    })?;
    Ok(outlinks)
}

fn account_value(
    state: &impl Read,
    network: &Network,
    height: Height,
    (address, number): (&Address, AccountId),
    outlinks: Vec<Value>,
) -> Result<Value> {
    let account = account::account_at(state, number)?;
    let balance = account.balance.at(height, &network.chain);
    let texts = |addresses: Vec<Address>| addresses.iter().map(Address::to_string).collect::<Vec<_>>();
    Ok(json!({
        "address": address.as_str(),
        "known": account.is_known(),
        "publicKey": number.public_key(state)?.map(|key| key.to_string()),
        "firstHeight": account.is_known().then_some(account.first_height),
        "referenceCount": account.references,
        "balance": balance.total(),
        "vested": balance.vested,
        "unvested": balance.unvested,
        "harvestedBlocks": account.harvested_blocks,
        "importance": importances::importance_at(state, number)?.map(importance_value),
        "remoteStatus": status_name(account.remote_status(height, network.chain.rewrite_limit)),
        "remoteLinks": account.links.iter().map(link_value).collect::<Vec<_>>(),
        "cosignatories": texts(account::cosignatories(state, address)?),
        "cosignatoryOf": texts(account::cosignatory_of(state, address)?),
        "minCosignatories": account.min_cosignatories,
        "mosaicIds": mosaics::holdings(state, address)?,
        "outlinks": outlinks,
    }))
}

/// Formats a double as NIS1's API does.
fn double_text(value: f64) -> String {
    let mut text = Vec::new();
    write_json_double(&mut text, value);
    String::from_utf8_lossy(&text).into_owned()
}

fn importance_value(last: AccountImportance) -> Value {
    json!({
        "height": last.height.0,
        "scoreBits": format!("{:016x}", last.importance.to_bits()),
        "score": double_text(last.importance),
        "pageRankBits": format!("{:016x}", last.page_rank.to_bits()),
        "pageRank": double_text(last.page_rank),
    })
}

fn status_name(status: RemoteStatus) -> String {
    let phase = |phase| match phase {
        LinkPhase::Activating => "ACTIVATING",
        LinkPhase::Active => "ACTIVE",
        LinkPhase::Deactivating => "DEACTIVATING",
        LinkPhase::Inactive => "INACTIVE",
    };
    match status {
        RemoteStatus::NotSet => "NOT_SET".to_owned(),
        RemoteStatus::Owner(of) => format!("OWNER_{}", phase(of)),
        RemoteStatus::Remote(of) => format!("REMOTE_{}", phase(of)),
    }
}

fn link_value(link: &RemoteLink) -> Value {
    json!({
        "role": if link.role == LinkRole::Owner { "owner" } else { "remote" },
        "linked": link.linked_address.as_str(),
        "height": link.height.0,
        "mode": link.mode.code(),
    })
}

fn namespaces_value(state: &impl Read, network: &Network, height: Height) -> Result<Value> {
    let mut roots = Vec::new();
    state.for_each_prefix(Table::Namespaces, &[], |key, value| {
        let root = std::str::from_utf8(key).map_err(|_| StoreError::Damaged("a namespace"))?;
        roots.push((root.to_owned(), namespaces::parse_leases(value)?));
        Ok(true)
    })?;
    let values = roots.iter().map(|(root, leases)| namespace_value(state, network, height, root, leases));
    Ok(Value::Array(values.collect::<Result<_, _>>()?))
}

fn namespace_value(
    state: &impl Read,
    network: &Network,
    height: Height,
    root: &str,
    leases: &[Lease],
) -> Result<Value> {
    let term = network.chain.blocks_per_year();
    let mut lease_values = Vec::new();
    for lease in leases {
        lease_values.push(json!({
            "owner": lease.owner.as_str(),
            "height": lease.height.0,
            "expiry": lease.height.plus(term).0,
            "active": lease.is_active(height, term),
            "children": namespaces::subnamespaces_after(state, lease, "", usize::MAX)?,
        }));
    }
    let mut names = Map::new();
    let mut entries = Map::new();
    if let Some(last) = leases.last() {
        let children = namespaces::subnamespaces_after(state, last, "", usize::MAX)?;
        for name in std::iter::once(root).chain(children.iter().map(String::as_str)) {
            let id = NamespaceId::parse(name).map_err(|_| StoreError::Damaged("a namespace"))?;
            names.insert(name.to_owned(), namespaces::is_namespace_active(state, &id, height, term)?.into());
        }
        let mut ids = Vec::new();
        mosaics::for_each_mosaic(state, last.ownership_period, |id, _| {
            ids.push(id);
            Ok(true)
        })?;
        for id in ids {
            let mut history = Vec::new();
            for (version, entry) in mosaics::history(state, &id)? {
                history.push(entry_value(state, network, version, &entry)?);
            }
            entries.insert(id.to_string(), Value::Array(history));
        }
    }
    Ok(json!({ "root": root, "leases": lease_values, "activeNames": names, "mosaics": entries }))
}

fn entry_value(state: &impl Read, network: &Network, version: DefinitionVersion, entry: &MosaicEntry) -> Result<Value> {
    let MosaicEntry { definition, supply } = entry;
    let levy = definition.levy.as_ref().map(|levy| {
        json!({
            "type": levy.kind.code(),
            "recipient": levy.recipient.as_str(),
            "mosaicId": levy.mosaic.to_string(),
            "fee": levy.fee,
        })
    });
    Ok(json!({
        "creator": Address::from_public_key(&definition.creator, network.byte).as_str(),
        "description": definition.description,
        "divisibility": definition.properties.divisibility,
        "initialSupply": definition.properties.initial_supply,
        "supplyMutable": definition.properties.supply_mutable,
        "transferable": definition.properties.transferable,
        "levy": levy,
        "supply": supply,
        "balances": balances_value(mosaics::balances(state, version)?),
    }))
}

fn balances_value(balances: Vec<(Address, u64)>) -> Map<String, Value> {
    balances.into_iter().map(|(address, quantity)| (address.to_string(), quantity.into())).collect()
}

fn hashes_value(state: &impl Read) -> Result<Value> {
    let (remembered, mut hasher) = (hashes::remembered(state)?, Keccak256::new());
    for (hash, entry) in &remembered {
        hasher.update(format!("{hash} {} {}\n", entry.height, entry.timestamp));
    }
    Ok(json!({ "count": remembered.len(), "digest": hex::encode(hasher.finalize()) }))
}

fn log_value(state: &impl Read) -> Result<Value> {
    let mut log: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    let mut heights = BTreeSet::new();
    state.for_each_prefix(Table::ExpiredMosaics, &[], |key, _| {
        let height = key.first_chunk().ok_or(StoreError::Damaged("the log of expired mosaics"))?;
        heights.insert(u64::from_be_bytes(*height));
        Ok(true)
    })?;
    for height in heights {
        for_each_expired(state, Height(height), |expired| {
            let mut balances = Vec::new();
            expired.for_each_balance(state, None, |account, quantity| {
                if quantity > 0 {
                    balances.push((account.address(state)?, quantity));
                }
                Ok(true)
            })?;
            let (id, balances) = (expired.id.to_string(), balances_value(balances));
            let value = json!({ "mosaicId": id, "kind": expired.kind.code(), "balances": balances });
            log.entry(height).or_default().push(value);
            Ok(true)
        })?;
    }
    Ok(Value::Object(log.into_iter().map(|(height, entries)| (height.to_string(), entries.into())).collect()))
}
