//! The state against the published vectors: its functions one by one, the nemesis blocks of the public networks, and
//! two chains of unsigned transactions with their complete resulting state.

mod accounts;
mod checkpoint;
mod scenario;

use std::path::PathBuf;

use super::ledger::{ALICE, BOB, define, mosaics_moved, on_empty, within};
use super::values::{cases, list, network, number, public_network, text};
use crate::common::private_network::{block, key_pair, transfer};
use crate::common::recorded_chain::{Chain, dump_of, rows, tip_of};
use crate::common::{TESTNET, load_settings, print_notice, vector_group};
use accounts::mosaic_id;
use checkpoint::{checkpoint, interface_status};
use nisd::chain::{due_after, nemesis_block};
use nisd::crypto::PublicKey;
use nisd::model::network::ChainParameters;
use nisd::model::transaction::{LinkMode, SupplyChangeKind};
use nisd::model::{
    Address, Amount, Block, Hash256, Height, Levy, LevyKind, NamespaceId, Network, Timestamp, Transaction,
};
use nisd::state::{
    self, BlockContext, Effect, Exception, Ledger, LinkPhase, LinkRole, Outlink, Pruning, RemoteStatus, StateError,
    VestedBalance, digest,
};
use nisd::store::{ChainIdentity, Options, Read, Store, StoredHeader, Table, Write as _, WriteTxn, block_key};
use scenario::{Run, Scenario};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The public networks.
pub const PUBLIC_NETWORKS: [&str; 3] = ["mainnet", "testnet", "mijinnet"];

/// Returns a group of the vectors.
fn vectors(group: &str) -> Value {
    vector_group("state", group)
}

/// Returns the cases of a group.
fn cases_of(group: &str) -> Vec<Value> {
    cases(&vectors(group)).to_vec()
}

fn height(value: &Value) -> Height {
    Height(number(value))
}

fn testnet() -> Network {
    public_network("testnet")
}

fn address(key: &PublicKey) -> Address {
    Address::from_public_key(key, testnet().byte)
}

/// Credits a block without fees and prunes old entries.
fn harvest(txn: &mut WriteTxn<'_>, network: &Network, height: Height, timestamp: Timestamp) {
    let mut block = BlockContext::new(height);
    let mut ledger = Ledger { txn, block: &mut block, network };
    ledger.harvest(&address(&BOB), Amount::ZERO).unwrap();
    let mut expiry = ledger.expiry().unwrap();
    while expiry.step(&mut ledger).unwrap() {}
    let mut pruning = Pruning::due(height, timestamp, &network.chain);
    while pruning.as_mut().is_some_and(|pruning| pruning.step(txn).unwrap()) {}
}

fn namespace(name: &str) -> NamespaceId {
    NamespaceId::parse(name).unwrap()
}

#[test]
fn heights_are_grouped_by_359() {
    for case in &cases_of("groupedHeight") {
        assert_eq!(case["grouped"], height(&case["height"]).importance_height().0, "{case}");
    }
    for case in cases(&vector_group("poi", "groupedHeight")) {
        assert_eq!(height(&case[0]).importance_height().0, number(&case[1]), "{case}");
    }
}

#[test]
fn importances_are_due_after_the_nemesis_block_and_after_every_block_that_ends_a_group() {
    let group = vectors("recalculationTrigger");
    for case in cases(&group["execute"]) {
        let executed = height(&case["blockHeight"]);
        assert_eq!(case["effectiveHeight"], executed.next().0, "{case}");
        assert_eq!(case["grouped"], executed.next().importance_height().0, "{case}");
        let in_force = (executed > Height::NEMESIS).then_some(executed.importance_height().0);
        let expected = Some(number(&case["grouped"])).filter(|grouped| Some(*grouped) != in_force);
        assert_eq!(due_after(executed).map(|due| due.0), expected, "{case}");
    }
}

/// NIS1 recalculates when it undoes a block that ended a group; this node restores the previous list.
#[test]
fn undoing_a_block_restores_the_previous_importances() {
    let group = vectors("recalculationTrigger");
    let scenarios = vectors("scenarios");
    let scenario = Scenario::new(&scenarios[0], testnet());
    running(&scenario, |run| {
        let in_force = |run: &Run<'_, '_>| state::last_recalculation(&run.txn).unwrap().unwrap().height;
        for case in cases(&group["undo"]) {
            let undone = height(&case["blockHeight"]);
            run.run_to(undone.0);
            assert_eq!(in_force(run), undone.next().importance_height(), "{case}");
            run.undo_to(undone.0 - 1);
            assert_eq!(case["effectiveHeight"], undone.0);
            assert_eq!(case["grouped"], in_force(run).0, "{case}");
        }
    });
}

/// The pruning of weighted balances has no counterpart: balances have no history here.
#[test]
fn outlinks_and_leases_are_pruned_in_every_360th_block() {
    print_notice("pruneHeights: weightedBalances is not compared, as balances keep no history");
    let network = testnet();
    for case in &cases_of("pruneHeights") {
        let (outlinks, leases) = (number(&case["outlinks"]), number(&case["namespaces"]));
        let around = |cut: u64| [cut - 1, cut].into_iter().filter(|height| *height > 0).collect::<Vec<_>>();
        on_empty(&network, |batch| {
            within(batch, &network, Height::NEMESIS, |ledger| ledger.seed().unwrap());
            for height in around(leases) {
                let rent = Effect::Namespace { owner: address(&ALICE), name: namespace(&format!("at{height}")) };
                within(batch, &network, Height(height), |ledger| ledger.apply(&rent).unwrap());
            }
            for height in around(outlinks) {
                let pay = Effect::Transfer { from: network.nemesis_signer, to: address(&BOB), amount: 1 };
                within(batch, &network, Height(height), |ledger| ledger.apply(&pay).unwrap());
            }
            let all = (around(outlinks), around(leases));
            let block = height(&case["blockHeight"]);
            // The next block would prune as much, but does not prune.
            harvest(batch, &network, block.next(), Timestamp(0));
            assert_eq!(retained_heights(batch), all, "{case}");
            harvest(batch, &network, block, Timestamp(0));
            let expected = if case["prunes"] == true { (vec![outlinks], vec![leases]) } else { all };
            assert_eq!(retained_heights(batch), expected, "{case}");
        });
    }
}

/// Returns the heights of the outlinks and of the leases in a state.
fn retained_heights(state: &impl Read) -> (Vec<u64>, Vec<u64>) {
    let height = |key: &Vec<u8>| u64::from_be_bytes(*key.first_chunk().unwrap());
    let heights = |table| state.keys_with_prefix(table, &[]).unwrap().iter().map(height).collect::<Vec<_>>();
    let roots = state.keys_with_prefix(Table::Namespaces, &[]).unwrap();
    let leases = roots.iter().flat_map(|root| state::leases(state, std::str::from_utf8(root).unwrap()).unwrap());
    let mut leases: Vec<u64> = leases.map(|lease| lease.height.0).collect();
    leases.sort();
    (heights(Table::Outlinks), leases)
}

#[test]
fn transaction_hashes_are_pruned_after_the_configured_time_but_not_before_36_hours() {
    for case in &cases_of("transactionHashPrune") {
        let hours = case["retentionHours"].to_string();
        let network = network(&[&TESTNET[..], &[("nis.transactionHashRetentionTime", &hours)]].concat());
        let effective = network.chain.hash_retention_hours.map_or(-1, i64::from);
        assert_eq!(case["effectiveHours"], effective, "{case}");
        let limit = case["removeHashesWithTimeStampBelow"].as_i64().unwrap_or(0);
        let times = [0, limit - 1, limit, limit + 1].into_iter().filter(|time| *time >= 0).map(|time| time as i32);
        on_empty(&network, |batch| {
            let times: Vec<i32> = times.collect();
            let hashes = put_block(batch, &times);
            harvest(batch, &network, Height(361), Timestamp(number(&case["blockTimeStamp"]) as i32));
            for (time, hash) in times.iter().zip(&hashes) {
                let kept = state::find_remembered_hash(batch, hash).unwrap().map(|entry| entry.timestamp.0);
                assert_eq!(kept, (i64::from(*time) >= limit).then_some(*time), "{case}: {time}");
                // A lookup by hash still finds the transaction.
                assert!(state::find_hash(batch, hash).unwrap().is_some_and(|entry| entry.timestamp.0 == *time));
            }
        });
    }
}

/// Stores a block at height 1 with transactions of these timestamps; returns their hashes.
fn put_block(txn: &mut WriteTxn<'_>, times: &[i32]) -> Vec<Hash256> {
    let (keys, free) = (key_pair(1), Amount::ZERO);
    let transfers = times.iter().map(|time| transfer(&keys, address(&BOB), free, free, Timestamp(*time)));
    let block = block(&keys, 1, Timestamp(1), Hash256::default(), transfers.collect());
    let stored = StoredHeader {
        height: block.height,
        hash: block.hash(),
        generation_hash: Hash256::default(),
        timestamp: block.timestamp,
        difficulty: 1,
        score: 0,
        total_fee: Amount::ZERO,
        beneficiary: None,
        previous_harvests: [Height(0); 2],
        ids: (1, 1),
    };
    txn.put_unjournaled(
        Table::Blocks,
        &block_key(block.height),
        &stored.to_bytes(&block, &block.encode_transactions()),
    )
    .unwrap();
    let hashes: Vec<Hash256> = block.transactions.iter().map(Transaction::hash).collect();
    for (index, hash) in (0..).zip(&hashes) {
        state::insert_hashes(txn, 0, block.height, index, std::iter::once(hash)).unwrap();
    }
    hashes
}

/// The history of a weighted balance as the store keeps it: the balance after every operation, for undoing. The daily
/// steps in the lists of the vectors are computed instead of stored.
struct History {
    balances: Vec<VestedBalance>,
    chain: ChainParameters,
}

impl History {
    fn last(&self) -> VestedBalance {
        self.balances.last().copied().unwrap_or_default()
    }

    /// Returns the balance at a height: that after the last operation up to it, vested since.
    fn at(&self, height: Height) -> VestedBalance {
        let last = self.balances.iter().rev().find(|balance| balance.height <= height.0);
        last.map_or(VestedBalance::default(), |balance| balance.at(height, &self.chain))
    }

    fn push(&mut self, change: impl FnOnce(&mut VestedBalance, &ChainParameters)) {
        let mut balance = self.last();
        change(&mut balance, &self.chain);
        self.balances.push(balance);
    }

    /// Undoes the last operation, which moved an amount at a height.
    fn undo(&mut self, height: Height, amount: u64) {
        let undone = self.balances.pop().unwrap();
        assert_eq!((undone.height, undone.total().abs_diff(self.last().total())), (height.0, amount));
    }

    fn step(&mut self, step: &Value) {
        let height = step.get("height").map_or(Height::NEMESIS, height);
        let amount = step.get("amount").map_or(0, number);
        match text(&step["op"]) {
            "receive" => self.push(|balance, chain| balance.receive(height, amount, chain).unwrap()),
            "send" => self.push(|balance, chain| balance.send(height, amount, chain).unwrap()),
            "addFullyVested" => self.push(|balance, chain| {
                assert_eq!(*balance, VestedBalance::default());
                balance.receive(height, amount, chain).unwrap();
                balance.vest_all();
            }),
            "convertToFullyVested" => self.balances.last_mut().unwrap().vest_all(),
            "undoSend" | "undoReceive" => self.undo(height, amount),
            // The blocks above were undone one by one, so nothing is left to undo.
            "undoChain" => assert!(self.last().height <= height.0),
            "prune" => {
                let first = VestedBalance { height: height.0, ..self.at(height) };
                self.balances.retain(|balance| balance.height > height.0);
                self.balances.insert(0, first);
            }
            "query" => {
                let found = self.at(height);
                assert_eq!(json!([found.vested, found.unvested]), json!([step["vested"], step["unvested"]]), "{step}");
            }
            other => panic!("an operation {other}"),
        }
    }

    /// Compares with the list of the vectors; of several entries at one height the last one counts.
    fn assert_is(&self, entries: &[Value], context: &str) {
        for (place, entry) in entries.iter().enumerate() {
            if entries.get(place + 1).is_some_and(|next| next[0] == entry[0]) {
                continue;
            }
            let found = self.at(height(&entry[0]));
            let found = json!([found.total(), found.unvested, found.vested]);
            assert_eq!(found, json!([entry[2], entry[3], entry[4]]), "{context}: {entry}");
        }
        assert_eq!(entries.is_empty(), self.balances.is_empty(), "{context}");
    }
}

#[test]
fn balances_vest_and_are_sent_and_undone_as_listed() {
    let group = vectors("weightedBalances");
    assert_eq!(group["entryFields"], json!(["height", "amount", "balance", "unvested", "vested"]));
    for case in cases(&group["cases"]) {
        let mut history = History { balances: Vec::new(), chain: testnet().chain };
        assert_eq!(group["blocksPerDay"], history.chain.blocks_per_day());
        for step in cases(&case["steps"]) {
            history.step(step);
            history.assert_is(list(&step["entries"]), &format!("{}, {}", case["name"], step["op"]));
        }
    }
}

#[test]
fn outlinks_weigh_the_vested_share_of_what_the_sender_has_left() {
    for case in &cases_of("outlinkWeight") {
        let (unvested, vested) = (number(&case["unvestedAfterSend"]), number(&case["vestedAfterSend"]));
        let left = VestedBalance { height: 1, unvested, vested };
        assert_eq!(case["weight"], Outlink::weigh(number(&case["amount"]), &left), "{case}");
    }
}

#[test]
fn levies_are_computed_with_the_arithmetic_of_64_bits() {
    let network = testnet();
    let recipient = network.mosaic_sink();
    for case in &cases_of("levy") {
        let levy = Levy {
            kind: LevyKind::from_code(number(&case["type"]) as i32).unwrap(),
            recipient,
            mosaic: mosaic_id(&"acme:coin".into()),
            fee: number(&case["fee"]),
        };
        let quantity = number(&case["transferredQuantity"]);
        on_empty(&network, |batch| {
            let id = within(batch, &network, Height(2), |ledger| define(ledger, "acme:coin", 1, 0, Some(levy)));
            let moved = mosaics_moved(batch, network.byte, Amount::whole(1).0, &id, quantity);
            if case["levy"] == "error" {
                assert!(matches!(moved, Err(StateError::Exception(Exception::Argument(_)))), "{case}: {moved:?}");
                return;
            }
            let paid = case["levy"].as_u64().map(|levy| (recipient, levy));
            let expected: Vec<(Address, u64)> = [(address(&BOB), quantity)].into_iter().chain(paid).collect();
            assert_eq!(moved.unwrap(), expected, "{case}");
        });
    }
}

#[test]
fn a_supply_change_credits_the_creator_up_to_the_maximum() {
    let network = testnet();
    for case in &cases_of("supply") {
        let (most, supply) = (number(&case["maxSupply"]), number(&case["supply"]));
        on_empty(&network, |batch| {
            within(batch, &network, Height(2), |ledger| {
                let id = define(ledger, "acme:coin", supply, number(&case["divisibility"]) as u8, None);
                assert_eq!(
                    case["quantity"],
                    state::mosaic_balance(ledger.txn, &id, &address(&ALICE)).unwrap(),
                    "{case}"
                );
                let mut more = |delta| {
                    let (supplier, kind) = (address(&ALICE), SupplyChangeKind::Create);
                    ledger.apply(&Effect::Supply { supplier, mosaic: &id, delta, kind })
                };
                more(most - supply).unwrap();
                assert!(more(1).is_err(), "{case}");
                assert_eq!(state::mosaic(ledger.txn, &id).unwrap().unwrap().supply, most, "{case}");
            });
        });
    }
}

#[test]
fn a_lease_ends_and_is_pruned_at_the_listed_heights() {
    let (case, network) = (vectors("namespaceLease"), testnet());
    let first = number(&case["registeredAt"]);
    let name = namespace("acme");
    on_empty(&network, |batch| {
        let rent = Effect::Namespace { owner: address(&ALICE), name: name.clone() };
        within(batch, &network, Height(first), |ledger| ledger.apply(&rent).unwrap());
        let term = network.chain.blocks_per_year();
        let is_active = |height| state::is_namespace_active(batch, &name, Height(height), term).unwrap();
        let end = number(&case["firstInactiveHeight"]);
        assert_eq!([first - 1, first, end - 1, end].map(is_active), [false, true, true, false]);
        let pruned = number(&case["prunedAtBlock"]);
        for (height, left) in [(pruned - 360, 1), (pruned - 1, 1), (pruned, 0)] {
            harvest(batch, &network, Height(height), Timestamp(0));
            assert_eq!(state::leases(batch, "acme").unwrap().len(), left, "{height}");
        }
    });
}

/// Returns a status as the vectors write it.
fn status_text(status: RemoteStatus) -> String {
    let phase = |phase: LinkPhase| format!("{phase:?}").to_lowercase();
    match status {
        None => "not-set".to_owned(),
        Some((LinkRole::Owner, of)) => format!("owner-{}", phase(of)),
        Some((LinkRole::Remote, of)) => format!("remote-{}", phase(of)),
    }
}

#[test]
fn links_take_effect_and_end_as_listed() {
    let network = testnet();
    let (limit, bob, rem) = (network.chain.rewrite_limit, address(&BOB), address(&ALICE));
    for case in &cases_of("remoteLinkTimeline") {
        on_empty(&network, |batch| {
            for (member, mode) in [("activatedAt", LinkMode::Activate), ("deactivatedAt", LinkMode::Deactivate)] {
                let link = Effect::Link { owner: bob, remote: rem, mode };
                within(batch, &network, height(&case[member]), |ledger| ledger.apply(&link).unwrap());
            }
            let (own, other) = if case["account"] == "bob" { (bob, "rem") } else { (rem, "bob") };
            let account = state::account(batch, &own).unwrap();
            let status = status_text(account.remote_status(height(&case["height"]), limit));
            assert_eq!(case["internalStatus"], status, "{case}");
            assert_eq!(case["remoteStatus"], interface_status(&status), "{case}");
            let forwarded = account.harvests_for(height(&case["height"]), limit);
            let expected = Some(if own == bob { rem } else { bob }).filter(|_| case["forwardedTo"] == other);
            assert_eq!(forwarded, expected, "{case}");
        });
    }
}

/// Runs a test on a scenario from its start.
fn running(scenario: &Scenario, test: impl FnOnce(&mut Run<'_, '_>)) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), &ChainIdentity::of(&scenario.network), Options::default()).unwrap();
    test(&mut Run { scenario, txn: store.begin_write().unwrap() });
}

#[test]
fn blocks_have_the_listed_effects_in_order() {
    let group = vectors("notifications");
    let scenarios = vectors("scenarios");
    let scenario = Scenario::new(&scenarios[0], testnet());
    let listed = group["blocks"].as_object().unwrap();
    let last = listed.keys().map(|height| height.parse().unwrap()).max().unwrap();
    let mut compared = 0;
    running(&scenario, |run| {
        for height in 1..=last {
            let mut found = run.execute();
            let Some(expected) = listed.get(&height.to_string()) else { continue };
            found.extend(rewards(run));
            assert_eq!(expected, &Value::Array(found), "height {height}");
            compared += 1;
        }
    });
    assert_eq!(compared, listed.len());
}

/// Returns what the last block did after its transactions. The node has no names for these effects: it credits the fees
/// and the harvested block together to the account that the stored block names, and the hashes are in the state.
fn rewards(run: &Run<'_, '_>) -> [Value; 3] {
    let tip = run.tip().unwrap();
    let signer = run.signer(tip.height.0);
    let beneficiary = run.scenario.accounts.name(&tip.beneficiary.unwrap_or(signer)).to_owned();
    // Epoch, first bytes of the hash, height, index.
    let is_of_tip = |(key, _): &&(Vec<u8>, Vec<u8>)| key[12..16] == (tip.height.0 as u32).to_be_bytes();
    let hashes = rows(&run.txn, Table::Hashes, &[]).iter().filter(is_of_tip).count();
    [json!(["N3", beneficiary, tip.total_fee.0]), json!(["N12", beneficiary, tip.total_fee.0]), json!(["N13", hashes])]
}

/// Asserts that two values are equal; reports the path of a difference.
fn assert_same(path: &str, expected: &Value, found: &Value) {
    match (expected, found) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()) {
                let member = |object: &serde_json::Map<String, Value>| object.get(key).cloned();
                let (a, b) = (member(a), member(b));
                assert_eq!(a.is_some(), b.is_some(), "{path}/{key}: expected {a:?}, found {b:?}");
                assert_same(&format!("{path}/{key}"), &a.unwrap_or_default(), &b.unwrap_or_default());
            }
        }
        _ => assert_eq!(expected, found, "{path}"),
    }
}

/// Sorts the log of expired mosaics like the recorded chains: by mosaic id within a height. The protocol does not
/// define this order.
fn sort_log(log: &mut Value) {
    for entries in log.as_object_mut().unwrap().values_mut() {
        entries.as_array_mut().unwrap().sort_by_cached_key(|entry| text(&entry["id"]).to_owned());
    }
}

/// Compares every checkpoint when it is reached, and again after the maximum number of undoable blocks was added and
/// undone.
fn check_every_checkpoint(place: usize) {
    let scenarios = vectors("scenarios");
    assert_eq!(cases(&scenarios).len(), 2);
    let scenario = Scenario::new(&scenarios[place], testnet());
    running(&scenario, |run| {
        for mut expected in scenario.checkpoints.clone() {
            sort_log(&mut expected["expiredMosaics"]);
            let height = number(&expected["height"]);
            let names = expected["activeAt"].as_object().unwrap();
            run.run_to(height);
            assert_same(&format!("height {height}"), &expected, &checkpoint(run, names));
            let before = digest(&run.txn).unwrap();
            run.run_to((height + scenario.network.chain.rewrite_limit).min(scenario.last));
            if run.height() > height {
                assert_ne!(digest(&run.txn).unwrap(), before, "height {height}");
                run.undo_to(height);
            }
            assert_same(&format!("height {height}, undone"), &expected, &checkpoint(run, names));
            assert_eq!(digest(&run.txn).unwrap(), before, "height {height}");
        }
        assert_eq!(run.height(), scenario.last);
    });
}

#[test]
fn all_kinds_of_transactions_give_the_state_of_every_checkpoint() {
    check_every_checkpoint(0);
}

#[test]
fn leases_and_redefinitions_give_the_state_of_every_checkpoint() {
    check_every_checkpoint(1);
}

#[test]
fn importances_are_recalculated_at_the_listed_heights_for_as_many_accounts() {
    let scenarios = vectors("scenarios");
    for value in cases(&scenarios) {
        let scenario = Scenario::new(value, testnet());
        let mut found: Vec<Value> = Vec::new();
        running(&scenario, |run| {
            while run.height() < scenario.last {
                run.execute();
                let last = state::last_recalculation(&run.txn).unwrap().unwrap();
                let last = json!({ "groupedHeight": last.height.0, "accounts": last.accounts_counted });
                if found.last() != Some(&last) {
                    found.push(last);
                }
            }
        });
        assert_eq!(found, scenario.recalculations);
    }
}

/// Checks the state after the nemesis block of a public network. All accounts are compared by the digest of one line
/// per account, whose format the file of vectors describes.
fn the_nemesis_block_gives_the_state_of_the_vectors(name: &str) {
    let group = vectors("nemesis");
    let expected = &group[name];
    let settings = load_settings(None, &[("nem.network", name)]);
    let nemesis = settings.nemesis.read().unwrap();
    let chain = Chain { nemesis, folder: PathBuf::new(), network: settings.network };
    let folder = tempfile::tempdir().unwrap();
    let store = chain.store(folder.path());
    chain.import_files(&store, Vec::new(), None).unwrap();
    let dump = dump_of(&store.snapshot().unwrap(), &chain.network, &tip_of(&store));
    let block = nemesis_block(&chain.nemesis, &chain.network).unwrap();
    assert_summary(&chain.network, &block, &dump, expected);
    let accounts = list(&dump["accounts"]);
    let lines: Vec<String> = accounts.iter().map(nemesis_line).collect();
    let samples = cases(&expected["sampleLines"]);
    assert!(samples.iter().all(|sample| lines.iter().any(|line| sample == line)), "{samples:?}");
    assert_eq!(expected["stateDigest"], hex::encode(Sha256::digest(lines.join("\n"))), "{}", lines[0]);
    assert_nemesis_account(&expected["nemesisAccount"], account_of(accounts, &expected["nemesisAddress"]));
    for (address, multisig) in expected["multisigAccounts"].as_object().unwrap() {
        let account = account_of(accounts, &address.as_str().into());
        for (member, value) in multisig.as_object().unwrap() {
            assert_eq!(value, &account[member], "{address}: {member}");
        }
    }
    let multisig = accounts.iter().filter(|account| !list(&account["cosignatories"]).is_empty()).count();
    assert_eq!(multisig, expected["multisigAccounts"].as_object().unwrap().len());
}

fn assert_summary(network: &Network, block: &Block, dump: &Value, expected: &Value) {
    assert_eq!(expected["seedAmount"], network.total_amount.0);
    assert_eq!(expected["nemesisAddress"], network.nemesis_signer.as_str());
    assert_eq!(expected["transactions"], block.transactions.len());
    assert_eq!(expected["totalFee"], block.total_fee().0);
    assert_eq!(expected["accountStates"], list(&dump["accounts"]).len());
    assert_eq!(expected["sumOfBalances"], dump["sumOfBalances"]);
    assert_eq!(expected["importanceVectorSize"], dump["accountsHandedOver"]);
    assert_eq!(expected["recalculatedAt"], dump["lastRecalculationHeight"]);
}

fn account_of<'a>(accounts: &'a [Value], address: &Value) -> &'a Value {
    accounts.iter().find(|account| account["address"] == *address).unwrap()
}

fn assert_nemesis_account(expected: &Value, account: &Value) {
    let outlinks = list(&account["outlinks"]);
    let weighty = outlinks.iter().filter(|link| link[1] != 0).map(|link| json!([link[1], link[2]]));
    assert_eq!(expected["nonZeroOutlinks"], weighty.collect::<Value>());
    assert_eq!(expected["outlinks"], outlinks.len());
    for member in ["balance", "vested", "unvested", "harvestedBlocks", "referenceCount"] {
        assert_eq!(expected[member], account[member], "{member}");
    }
}

fn nemesis_line(account: &Value) -> String {
    let addresses = |key: &str| {
        let addresses: Vec<&str> = list(&account[key]).iter().map(text).collect();
        addresses.join(";")
    };
    let height = account["firstHeight"].as_u64().map_or(String::new(), |height| height.to_string());
    format!(
        "{},{},{},{},{},{},{height},{},{},{}",
        text(&account["address"]),
        account["balance"],
        account["vested"],
        account["unvested"],
        account["harvestedBlocks"],
        account["referenceCount"],
        addresses("cosignatories"),
        addresses("cosignatoryOf"),
        account["minCosignatories"],
    )
}

#[test]
fn the_nemesis_blocks_of_the_public_networks_give_the_state_of_the_vectors() {
    PUBLIC_NETWORKS.iter().for_each(|name| the_nemesis_block_gives_the_state_of_the_vectors(name));
}
