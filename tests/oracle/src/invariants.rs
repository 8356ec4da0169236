//! Invariants of every state, whatever blocks led to it, checked on the output of `nisd dump`.

use std::collections::BTreeMap;

use nisd::model::{Height, Network};
use nisd::state;
use nisd::store::{Store, tip};
use serde_json::Value;

/// Values to compare with those of the previous state.
#[derive(Clone, Copy, Debug)]
pub struct StateSummary {
    /// Number of stored transaction hashes.
    pub hashes: u64,
}

/// Checks the state of a store after its last block; an error names the violated invariant.
///
/// The sum of all currency never changes. Vested and unvested amounts add up to the balance. The balances of a mosaic
/// add up to its supply, and each holder is among the accounts. Cosignatories and the accounts they sign for refer to
/// each other, and no account is both. Links come in pairs, unless the deactivation of one could name another account.
/// Importances are those of the next block.
pub fn check(store: &Store, network: &Network) -> Result<StateSummary, String> {
    let snapshot = store.snapshot().map_err(|error| error.to_string())?;
    let last = tip(&snapshot).map_err(|error| error.to_string())?.ok_or("an empty chain")?;
    let mut text = Vec::new();
    state::dump(&snapshot, network, &last, &mut text).map_err(|error| error.to_string())?;
    let state: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    let accounts: BTreeMap<&str, &Value> =
        list(&state, "accounts")?.map(|one| Ok((word(one, "address")?, one))).collect::<Result<_, String>>()?;
    let sum = accounts.values().map(|one| number(one, "balance")).sum::<Result<u64, String>>()?;
    ensure(sum == number(&state, "sumOfBalances")?, || "sum of balances".to_owned())?;
    ensure(sum == network.total_amount.0, || format!("there are {sum} micro-units"))?;
    for (address, account) in &accounts {
        check_account(address, account, &accounts, network)?;
    }
    for namespace in list(&state, "namespaces")? {
        check_mosaics(namespace, &accounts)?;
    }
    let due = Height(last.height.0 + 1).importance_height().0;
    let recalculated = number(&state, "lastRecalculationHeight")?;
    ensure(recalculated == due, || format!("importances of {recalculated}, not of {due}"))?;
    Ok(StateSummary { hashes: number(&state["transactionHashes"], "count")? })
}

fn check_account(
    address: &str,
    account: &Value,
    accounts: &BTreeMap<&str, &Value>,
    network: &Network,
) -> Result<(), String> {
    let [balance, vested, unvested] = ["balance", "vested", "unvested"].map(|name| number(account, name));
    ensure(vested? + unvested? == balance?, || format!("vested and unvested of {address}"))?;
    let names = |one: &Value, list_name: &str| -> Result<Vec<String>, String> {
        list(one, list_name)?.map(|name| Ok(name.as_str().ok_or("an address")?.to_owned())).collect()
    };
    let (own, others) = (names(account, "cosignatories")?, names(account, "cosignatoryOf")?);
    ensure(own.is_empty() || others.is_empty(), || format!("{address} is multisig account and cosignatory"))?;
    for (list_name, back, all) in [("cosignatories", "cosignatoryOf", own), ("cosignatoryOf", "cosignatories", others)]
    {
        for other in all {
            let state = accounts.get(other.as_str()).ok_or_else(|| format!("{other} is missing"))?;
            let is_mutual = names(state, back)?.iter().any(|name| name == address);
            ensure(is_mutual, || format!("{list_name} of {address} and {back} of {other}"))?;
        }
    }
    check_links(address, account, accounts, network.chain.forks.mosaic_redefinition)
}

/// Checks that the last link of an account is among the links of the other account, in the opposite role.
fn check_links(
    address: &str,
    account: &Value,
    accounts: &BTreeMap<&str, &Value>,
    redefinition: u64,
) -> Result<(), String> {
    let Some(last) = list(account, "remoteLinks")?.last() else { return Ok(()) };
    let (linked, height, mode) = (word(last, "linked")?, number(last, "height")?, number(last, "mode")?);
    let role = word(last, "role")?;
    let other_role = if role == "owner" { "remote" } else { "owner" };
    let other = accounts.get(linked).ok_or_else(|| format!("{linked} is missing"))?;
    let newest = list(other, "remoteLinks")?.last().ok_or_else(|| format!("{linked} has no link"))?;
    let fits = word(newest, "role")? == other_role
        && word(newest, "linked")? == address
        && number(newest, "height")? == height
        && number(newest, "mode")? == mode;
    // Before that fork, a deactivation that names another account leaves the real remote unchanged.
    let may_dangle = [height, number(newest, "height")?].into_iter().min() < Some(redefinition);
    // An account may be first a remote and later an owner, or the other way round.
    let is_older = number(newest, "height")? > height;
    ensure(fits || may_dangle || is_older, || format!("links of {address} and {linked}"))
}

fn check_mosaics(namespace: &Value, accounts: &BTreeMap<&str, &Value>) -> Result<(), String> {
    for (id, history) in namespace["mosaics"].as_object().ok_or("the mosaics of a namespace")? {
        let newest = history.as_array().and_then(|history| history.last()).ok_or("a definition")?;
        let unit = 10u64.pow(number(newest, "divisibility")? as u32);
        let balances = newest["balances"].as_object().ok_or("balances")?;
        let sum: u64 = balances.values().filter_map(Value::as_u64).sum();
        ensure(sum == number(newest, "supply")? * unit, || format!("{sum} units of {id}"))?;
        ensure(balances.values().all(|one| one.as_u64() > Some(0)), || format!("an empty balance of {id}"))?;
        let stranger = balances.keys().find(|holder| !accounts.contains_key(holder.as_str()));
        ensure(stranger.is_none(), || format!("{stranger:?} holds {id} and is no account"))?;
    }
    Ok(())
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn list<'v>(value: &'v Value, name: &str) -> Result<std::slice::Iter<'v, Value>, String> {
    Ok(value[name].as_array().ok_or_else(|| format!("{name} is no list"))?.iter())
}

fn word<'v>(value: &'v Value, name: &str) -> Result<&'v str, String> {
    value[name].as_str().ok_or_else(|| format!("{name} is no text"))
}

fn number(value: &Value, name: &str) -> Result<u64, String> {
    value[name].as_u64().ok_or_else(|| format!("{name} is no number"))
}
