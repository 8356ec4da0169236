//! Digest of the whole state, and its dump as one line of JSON in the format of the recorded chains.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde_json::{Map, Value, json};
use sha3::{Digest, Keccak256};

use super::account::{self, Account, AccountId, LinkRole, RemoteLink, RemoteStatus};
use super::bytes::Stored;
use super::expiry::{ExpiredCursor, ExpiredRow};
use super::hashes::{self, TOTALS_KEY as HASH_TOTALS_KEY};
use super::importances::{self, AccountImportance, Outlink, for_each_importance};
use super::mosaics::{self, DefinitionVersion, MosaicEntry};
use super::namespaces::{self, Lease, LeaseState};
use crate::codec::text::write_json_double;
use crate::model::{Address, Hash256, Height, MosaicId, NamespaceId, Network};
use crate::store::{Read, Result, StoreError, StoredHeader, Table, height_of_key, tip};

/// Computes a Keccak-256 over the hash of the tip, all entries of the state tables in key order with their lengths, and
/// the importances in force. Two nodes with the same chain and schema have the same digest, and a rollback restores the
/// previous digest.
///
/// The tables of transaction hashes are left out. Their content follows from the blocks, which the hash of the tip
/// covers, but their layout depends on when they were packed and on settings.
pub fn digest(state: &impl Read) -> Result<Hash256> {
    let mut hasher = Keccak256::new();
    hasher.update(tip(state)?.map_or(Hash256::default(), |block| block.hash).0);
    for table in Table::state().filter(|table| !matches!(table, Table::Hashes | Table::HashRuns)) {
        hasher.update(table.name());
        for entry in state.entries(table, &[])? {
            let (key, value) = entry?;
            if table == Table::Totals && key == HASH_TOTALS_KEY {
                continue;
            }
            hasher.update((key.len() as u32).to_le_bytes());
            hasher.update(key);
            hasher.update((value.len() as u32).to_le_bytes());
            hasher.update(value);
        }
    }
    for_each_importance(state, |entry| {
        hasher.update(entry.to_stored());
        Ok(())
    })?;
    Ok(Hash256(hasher.finalize().into()))
}

/// Writes the state at the tip `block`, and a line feed.
pub fn dump(state: &impl Read, network: &Network, block: &StoredHeader, out: &mut impl Write) -> io::Result<()> {
    let dump = Dump { state, network, height: block.height };
    let recalculation = importances::last_recalculation(state).map_err(io::Error::other)?;
    let head = json!({
        "height": block.height.0,
        "blockHash": block.hash.to_string(),
        "timeStamp": block.timestamp.0,
        "chainScore": block.score.to_string(),
        "sumOfBalances": dump.sum_of_balances().map_err(io::Error::other)?,
        "lastRecalculationHeight": recalculation.map(|last| last.height.0),
        "accountsHandedOver": recalculation.map(|last| last.accounts_counted),
    });
    out.write_all(head.to_string().trim_end_matches('}').as_bytes())?;
    out.write_all(b",\"accounts\":[")?;
    dump.write_accounts(out)?;
    let rest = || -> Result<Value> {
        let (namespaces, hashes, log) = (dump.namespaces()?, dump.hashes()?, dump.log()?);
        Ok(json!({ "namespaces": namespaces, "transactionHashes": hashes, "expiredMosaicLog": log }))
    };
    let rest = rest().map_err(io::Error::other)?;
    writeln!(out, "],{}", rest.to_string().trim_start_matches('{'))
}

/// A state that is dumped at a height.
struct Dump<'a, R> {
    state: &'a R,
    network: &'a Network,
    height: Height,
}

impl<R: Read> Dump<'_, R> {
    fn sum_of_balances(&self) -> Result<u64> {
        let mut sum = 0u64;
        for entry in self.state.entries(Table::Accounts, &[])? {
            let total = Account::from_row(entry?.1)?.balance.total();
            sum = sum.checked_add(total).ok_or(StoreError::Damaged("balances"))?;
        }
        Ok(sum)
    }

    fn write_accounts(&self, out: &mut impl Write) -> io::Result<()> {
        let mut outlinks = self.outlinks_by_sender().map_err(io::Error::other)?;
        let mut accounts = BTreeMap::new();
        // An account that owns a mosaic has an id even if it was never referenced.
        let visited = account::for_each_account_after(self.state, None, |id, address, _| {
            accounts.insert(address, id);
            Ok(true)
        });
        visited.map_err(io::Error::other)?;
        for (place, (address, id)) in accounts.iter().enumerate() {
            let sent = outlinks.remove(id).unwrap_or_default();
            if place > 0 {
                out.write_all(b",")?;
            }
            serde_json::to_writer(&mut *out, &self.account(address, *id, sent).map_err(io::Error::other)?)?;
        }
        Ok(())
    }

    fn outlinks_by_sender(&self) -> Result<BTreeMap<AccountId, Vec<Value>>> {
        let mut outlinks: BTreeMap<_, Vec<Value>> = BTreeMap::new();
        for entry in self.state.entries(Table::Outlinks, &[])? {
            let (key, value) = entry?;
            let Height(height) = height_of_key(key, "outlinks")?;
            for link in Outlink::read_all(value)? {
                let entry = json!([height, link.weight, link.recipient.address(self.state)?.as_str()]);
                outlinks.entry(link.sender).or_default().push(entry);
            }
        }
        Ok(outlinks)
    }

    fn account(&self, address: &Address, id: AccountId, outlinks: Vec<Value>) -> Result<Value> {
        let (state, height, chain) = (self.state, self.height, &self.network.chain);
        let account = account::account_at(state, id)?;
        let balance = account.balance.at(height, chain);
        let texts = |addresses: Vec<Address>| addresses.iter().map(Address::to_string).collect::<Vec<_>>();
        Ok(json!({
            "address": address.as_str(),
            "known": account.is_known(),
            "publicKey": id.public_key(state)?.map(|key| key.to_string()),
            "firstHeight": account.is_known().then_some(account.first_height),
            "referenceCount": account.references,
            "balance": balance.total(),
            "vested": balance.vested,
            "unvested": balance.unvested,
            "harvestedBlocks": account.harvested_blocks,
            "importance": importances::importance_at(state, id)?.map(importance_value),
            "remoteStatus": status_name(account.remote_status(height, chain.rewrite_limit)),
            "remoteLinks": account.links.iter().map(link_value).collect::<Vec<_>>(),
            "cosignatories": texts(account::cosignatories(state, address)?),
            "cosignatoryOf": texts(account::cosignatory_of(state, address)?),
            "minCosignatories": account.min_cosignatories,
            "mosaicIds": mosaics::holdings(state, address)?.iter().map(MosaicId::to_string).collect::<Vec<_>>(),
            "outlinks": outlinks,
        }))
    }

    fn namespaces(&self) -> Result<Value> {
        let mut roots = Vec::new();
        for entry in self.state.entries(Table::Namespaces, &[])? {
            let (key, value) = entry?;
            let root = std::str::from_utf8(key).map_err(|_| StoreError::Damaged("a namespace"))?;
            roots.push(self.namespace(root, &Lease::all_from_stored(value, "a namespace")?)?);
        }
        Ok(roots.into())
    }

    fn namespace(&self, root: &str, leases: &[Lease]) -> Result<Value> {
        let (state, height, term) = (self.state, self.height, self.network.chain.blocks_per_year());
        let (mut lease_values, mut names, mut entries) = (Vec::new(), Map::new(), Map::new());
        for lease in leases {
            lease_values.push(json!({
                "owner": lease.owner.as_str(),
                "height": lease.height.0,
                "expiry": lease.height.plus(term).0,
                "active": lease.is_active(height, term),
                "children": namespaces::subnamespaces_after(state, lease, "", usize::MAX)?,
            }));
        }
        if let Some(last) = leases.last() {
            let children = namespaces::subnamespaces_after(state, last, "", usize::MAX)?;
            for name in std::iter::once(root).chain(children.iter().map(String::as_str)) {
                let id = NamespaceId::parse(name).map_err(|_| StoreError::Damaged("a namespace"))?;
                names.insert(name.to_owned(), namespaces::is_namespace_active(state, &id, height, term)?.into());
            }
            let mut next = mosaics::mosaic_after(state, last.ownership_period, None)?;
            while let Some((id, _)) = next {
                let history = mosaics::history(state, &id)?;
                let history = history.iter().map(|(version, entry)| self.mosaic(*version, entry));
                entries.insert(id.to_string(), Value::Array(history.collect::<Result<_>>()?));
                next = mosaics::mosaic_after(state, last.ownership_period, Some(&id))?;
            }
        }
        Ok(json!({ "root": root, "leases": lease_values, "activeNames": names, "mosaics": entries }))
    }

    fn mosaic(&self, version: DefinitionVersion, entry: &MosaicEntry) -> Result<Value> {
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
            "creator": Address::from_public_key(&definition.creator, self.network.byte).as_str(),
            "description": definition.description,
            "divisibility": definition.properties.divisibility,
            "initialSupply": definition.properties.initial_supply,
            "supplyMutable": definition.properties.supply_mutable,
            "transferable": definition.properties.transferable,
            "levy": levy,
            "supply": supply,
            "balances": self.balances(version, LeaseState(u32::MAX))?,
        }))
    }

    /// Returns the nonzero balances under a definition up to a lease state.
    fn balances(&self, version: DefinitionVersion, lease_state: LeaseState) -> Result<Value> {
        let mut balances = Map::new();
        mosaics::for_each_balance(self.state, version, lease_state, None, |account, quantity| {
            if quantity > 0 {
                balances.insert(account.address(self.state)?.to_string(), quantity.into());
            }
            Ok(true)
        })?;
        Ok(balances.into())
    }

    fn hashes(&self) -> Result<Value> {
        let (remembered, mut hasher) = (hashes::remembered(self.state)?, Keccak256::new());
        for (hash, entry) in &remembered {
            hasher.update(format!("{hash} {} {}\n", entry.height, entry.timestamp));
        }
        Ok(json!({ "count": remembered.len(), "digest": hex::encode(hasher.finalize()) }))
    }

    fn log(&self) -> Result<Value> {
        let (mut log, mut heights) = (BTreeMap::<u64, Vec<Value>>::new(), BTreeSet::new());
        for entry in self.state.entries(Table::ExpiredMosaics, &[])? {
            let height = entry?.0.first_chunk().ok_or(StoreError::Damaged("the log of expired mosaics"))?;
            heights.insert(u64::from_be_bytes(*height));
        }
        for height in heights {
            let mut cursor = ExpiredCursor::new(Height(height));
            loop {
                match cursor.step(self.state)? {
                    ExpiredRow::Mosaic(expired) => {
                        let balances = self.balances(expired.version, expired.lease_state)?;
                        let (id, kind) = (expired.id.to_string(), expired.kind.code());
                        let value = json!({ "mosaicId": id, "kind": kind, "balances": balances });
                        log.entry(height).or_default().push(value);
                    }
                    ExpiredRow::Absent => {}
                    ExpiredRow::End => break,
                }
            }
        }
        Ok(Value::Object(log.into_iter().map(|(height, entries)| (height.to_string(), entries.into())).collect()))
    }
}

fn importance_value(last: AccountImportance) -> Value {
    // As NIS1's API formats doubles.
    let text = |value| {
        let mut text = Vec::new();
        write_json_double(&mut text, value);
        String::from_utf8_lossy(&text).into_owned()
    };
    json!({
        "height": last.height.0,
        "scoreBits": format!("{:016x}", last.importance.to_bits()),
        "score": text(last.importance),
        "pageRankBits": format!("{:016x}", last.page_rank.to_bits()),
        "pageRank": text(last.page_rank),
    })
}

fn status_name(status: RemoteStatus) -> String {
    status.map_or("NOT_SET".to_owned(), |(role, phase)| format!("{role:?}_{phase:?}").to_uppercase())
}

fn link_value(link: &RemoteLink) -> Value {
    json!({
        "role": if link.role == LinkRole::Owner { "owner" } else { "remote" },
        "linked": link.linked_address.as_str(),
        "height": link.height.0,
        "mode": link.mode.code(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Write, test_store};

    #[test]
    fn the_digest_covers_all_totals_but_those_of_the_hashes() {
        let (store, _folder) = test_store();
        let mut batch = store.begin_write().unwrap();
        let before = digest(&batch).unwrap();
        hashes::set_epoch_size(&mut batch, 3).unwrap();
        assert_eq!(digest(&batch).unwrap(), before);
        batch.put(Table::Totals, b"others", b"total").unwrap();
        assert_ne!(digest(&batch).unwrap(), before);
    }
}
