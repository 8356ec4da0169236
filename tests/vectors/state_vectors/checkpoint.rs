//! The state of a scenario in the form of the vectors.

use nisd::model::{Address, Height};
use nisd::state::{self, LinkRole};
use serde_json::{Map, Value, json};

use super::dump_of;
use super::scenario::Run;
use crate::vectors::values::{list, number, text};

/// Returns the state after the last block. `names` lists further namespaces whose activity is included, besides the
/// existing ones.
pub fn checkpoint(run: &Run<'_, '_>, names: &Map<String, Value>) -> Value {
    let dump = dump_of(&run.txn, &run.scenario.network, &run.tip().unwrap());
    let accounts = list(&dump["accounts"]).iter().map(|account| account_value(run, account));
    let mut active: Map<String, Value> = names.keys().map(|name| (name.clone(), false.into())).collect();
    let (mut owners, mut mosaics, mut leases) = (Map::new(), Map::new(), Map::new());
    for root in list(&dump["namespaces"]) {
        active.extend(root["activeNames"].as_object().unwrap().clone());
        let history = list(&root["leases"]);
        let heights = history.iter().map(|lease| lease["height"].clone());
        leases.insert(text(&root["root"]).to_owned(), heights.collect());
        let newest = history.last().unwrap();
        for name in std::iter::once(&root["root"]).chain(list(&newest["children"])) {
            let lease = json!({ "owner": name_of(run, &newest["owner"]), "height": newest["height"] });
            owners.insert(text(name).to_owned(), lease);
        }
        let entries = root["mosaics"].as_object().unwrap().iter();
        mosaics.extend(entries.map(|(id, entries)| (id.clone(), mosaic_value(run, list(entries)))));
    }
    json!({
        "height": dump["height"],
        "accounts": accounts.collect::<Map<_, _>>(),
        "namespaces": owners,
        "mosaics": mosaics,
        "activeAt": active,
        "leaseHistory": leases,
        "expiredMosaics": log_value(run, dump["expiredMosaicLog"].as_object().unwrap()),
        "transactionHashCount": dump["transactionHashes"]["count"],
        "lastRecalculationHeight": dump["lastRecalculationHeight"],
        "importanceVectorSize": dump["accountsHandedOver"],
    })
}

fn address_of(run: &Run<'_, '_>, value: &Value) -> Address {
    Address::parse(text(value), run.scenario.network.byte).unwrap()
}

fn name_of(run: &Run<'_, '_>, address: &Value) -> String {
    run.scenario.accounts.name(&address_of(run, address)).to_owned()
}

fn names_of(run: &Run<'_, '_>, addresses: &Value) -> Vec<String> {
    let mut names: Vec<String> = list(addresses).iter().map(|address| name_of(run, address)).collect();
    names.sort();
    names
}

fn account_value(run: &Run<'_, '_>, dumped: &Value) -> (String, Value) {
    let name = name_of(run, &dumped["address"]);
    let address = address_of(run, &dumped["address"]);
    let account = state::account(&run.txn, &address).unwrap();
    let (next, limit) = (Height(run.height() + 1), run.scenario.network.chain.rewrite_limit);
    let forwarded = account.harvests_for(next, limit).unwrap_or(address);
    let latest =
        account.links.last().filter(|link| link.role == LinkRole::Remote).map_or(address, |link| link.linked_address);
    let status = text(&dumped["remoteStatus"]).to_lowercase().replace('_', "-");
    let value = json!({
        "balance": dumped["balance"],
        "vested": dumped["vested"],
        "unvested": dumped["unvested"],
        "harvestedBlocks": dumped["harvestedBlocks"],
        "referenceCount": dumped["referenceCount"],
        "firstHeight": dumped["firstHeight"],
        "mosaicIds": dumped["mosaicIds"],
        "remoteLinks": list(&dumped["remoteLinks"]).iter().map(|link| link_value(run, link)).collect::<Vec<_>>(),
        "remoteStatus": interface_status(&status),
        "internalRemoteStatus": status,
        "forwardedAtNextHeight": run.scenario.accounts.name(&forwarded),
        "latestForwarded": run.scenario.accounts.name(&latest),
        "cosignatories": names_of(run, &dumped["cosignatories"]),
        "cosignatoryOf": names_of(run, &dumped["cosignatoryOf"]),
        "minCosignatories": dumped["minCosignatories"],
        "outlinks": outlinks_value(run, &name, list(&dumped["outlinks"])),
    });
    (name, value)
}

/// Returns the name of a status in the interface.
pub fn interface_status(status: &str) -> String {
    match status.split_once('-').unwrap() {
        ("remote", _) => "REMOTE".to_owned(),
        ("not", _) => "INACTIVE".to_owned(),
        (_, phase) => phase.to_uppercase(),
    }
}

fn link_value(run: &Run<'_, '_>, link: &Value) -> Value {
    let mut link = link.clone();
    link["linked"] = name_of(run, &link["linked"]).into();
    link
}

/// Only the number of outlinks is given for the nemesis account.
fn outlinks_value(run: &Run<'_, '_>, sender: &str, outlinks: &[Value]) -> Value {
    match sender {
        "@nemesis" => outlinks.len().into(),
        _ => outlinks.iter().map(|link| json!([link[0], link[1], name_of(run, &link[2])])).collect(),
    }
}

fn balances_value(run: &Run<'_, '_>, balances: &Value) -> Map<String, Value> {
    let balances = balances.as_object().unwrap().iter();
    balances.map(|(address, quantity)| (name_of(run, &address.as_str().into()), quantity.clone())).collect()
}

fn mosaic_value(run: &Run<'_, '_>, entries: &[Value]) -> Value {
    let current = entries.last().unwrap();
    json!({
        "supply": number(&current["supply"]),
        "description": current["description"],
        "definitionHistoryDepth": entries.len(),
        "balances": balances_value(run, &current["balances"]),
    })
}

fn log_value(run: &Run<'_, '_>, log: &Map<String, Value>) -> Map<String, Value> {
    let entry = |entry: &Value| {
        let balances = balances_value(run, &entry["balances"]);
        json!({ "id": entry["mosaicId"], "type": entry["kind"], "balances": balances })
    };
    log.iter().map(|(height, entries)| (height.clone(), list(entries).iter().map(entry).collect())).collect()
}
