//! The rules against the published vectors.

use super::consensus_vectors::{cases_of, vectors};
use super::ledger::{self, ALICE, BOB, mosaics_moved, on_empty, validation_result, within};
use super::values::{NETWORKS, cases, number, public_key, public_network, text};
use nisd::crypto::PublicKey;
use nisd::model::network::NAMESPACE_SINK;
use nisd::model::transaction::{
    AggregateModification, Cosignature, ImportanceTransfer, LinkMode, Message, MessageKind, Modification,
    ModificationKind, MosaicDefinitionCreation, MosaicSupplyChange, Multisig, ProvisionNamespace, SupplyChangeKind,
    Transfer,
};
use nisd::model::{
    Address, Amount, Body, Height, Levy, LevyKind, Mosaic, MosaicDefinition, MosaicId, NamespaceId, Network,
    NetworkByte, Timestamp, Transaction,
};
use nisd::rules::{FeeSchedule, Purpose, ValidationResult, max_message_length, may_not_harvest, may_sign_block};
use nisd::state::{self, Effect, Ledger};
use nisd::store::WriteTxn;
use serde_json::Value;

fn mainnet() -> Network {
    public_network("mainnet")
}

/// Runs a test within a block of an otherwise empty mainnet on which Alice and Bob are rich.
fn at(height: u64, test: impl FnOnce(&mut Ledger<'_, WriteTxn<'_>>)) {
    let network = mainnet();
    on_empty(&network, |txn| {
        within(txn, &network, Height(height), |ledger| {
            ledger.seed().unwrap();
            for key in [ALICE, BOB] {
                let (from, amount) = (network.nemesis_signer, Amount::whole(1_000_000_000).0);
                ledger.apply(&Effect::Transfer { from, to: address(&key), amount }).unwrap();
            }
            test(ledger);
        });
    });
}

/// Builds a transaction of mainnet.
fn transaction(signer: PublicKey, body: Body) -> Transaction {
    ledger::transaction(NetworkByte::MAINNET, signer, body)
}

/// Defines a mosaic in the namespace `alice`.
fn define(
    ledger: &mut Ledger<'_, WriteTxn<'_>>,
    name: &str,
    supply: u64,
    divisibility: u8,
    levy: Option<Levy>,
) -> MosaicId {
    ledger::define(ledger, &format!("alice:{name}"), supply, divisibility, levy)
}

/// Returns the mosaic quantities that a transfer with one mosaic moves, or the text of the exception.
fn moved(ledger: &Ledger<'_, WriteTxn<'_>>, amount: u64, id: &MosaicId, quantity: u64) -> Result<Vec<u64>, String> {
    let moved = mosaics_moved(ledger.txn, NetworkByte::MAINNET, amount, id, quantity);
    moved.map(|moved| moved.iter().map(|(_, quantity)| *quantity).collect()).map_err(|error| error.to_string())
}

fn schedule(ledger: &Ledger<'_, WriteTxn<'_>>, height: u64) -> FeeSchedule {
    FeeSchedule::at(&ledger.network.chain.forks, Height(height))
}

/// Returns the minimum fee of a transaction.
fn minimum_fee(transaction: &Transaction, ledger: &Ledger<'_, WriteTxn<'_>>, height: u64) -> Amount {
    schedule(ledger, height).minimum_fee(&transaction.body, |id| state::mosaic(ledger.txn, id)).unwrap()
}

fn address(key: &PublicKey) -> Address {
    Address::from_public_key(key, NetworkByte::MAINNET)
}

fn transfer(amount: u64, message: usize, mosaics: Vec<Mosaic>) -> Transaction {
    let message = (message > 0).then(|| Message { kind: MessageKind::Plain, payload: vec![7; message] });
    transaction(ALICE, Body::Transfer(Transfer { recipient: address(&BOB), amount: Amount(amount), message, mosaics }))
}

/// One height with each fee schedule.
const ERAS: [u64; 3] = [874_999, 875_000, 1_250_000];

#[test]
fn transfers_cost_the_minimum_fees_of_all_three_eras() {
    at(500_000, |ledger| {
        for (index, case) in cases_of("transfer_minimum_fees").iter().enumerate() {
            let mut mosaics = Vec::new();
            for (place, mosaic) in case["mosaics"].as_array().unwrap().iter().enumerate() {
                let (supply, divisibility) = (number(&mosaic["supply"]), number(&mosaic["divisibility"]) as u8);
                let id = if text(&case["name"]).starts_with("xem as mosaic") {
                    MosaicId::xem()
                } else {
                    define(ledger, &format!("m{index}_{place}"), supply, divisibility, None)
                };
                mosaics.push(Mosaic { id, quantity: number(&mosaic["quantity"]) });
            }
            let transfer = transfer(number(&case["amount_micro"]), number(&case["message_length"]) as usize, mosaics);
            let names = ["min_fee_before_first_fork", "min_fee_after_first_fork", "min_fee_after_second_fork"];
            for (height, name) in ERAS.into_iter().zip(names) {
                let fee = minimum_fee(&transfer, ledger, height);
                assert_eq!(fee.0, number(&case[name]), "{} at {height}", case["name"]);
            }
        }
    });
}

#[test]
fn the_first_fee_of_a_value_rises_at_the_thresholds() {
    let group = vectors("pre_first_fork_xem_fee_thresholds");
    at(2, |ledger| {
        let fee = |units: u64| minimum_fee(&transfer(Amount::whole(units).0, 0, Vec::new()), ledger, 2);
        for (index, threshold) in group["thresholds"].as_array().unwrap().iter().enumerate() {
            let (threshold, above) = (number(threshold), number(&group["first_fee"]) + index as u64);
            assert_eq!((fee(threshold - 1), fee(threshold)), (Amount::whole(above - 1), Amount::whole(above)));
        }
    });
}

#[test]
fn scarce_mosaics_are_cheaper_from_the_thresholds_on() {
    let group = vectors("supply_adjustment_thresholds");
    at(900_000, |ledger| {
        // Beyond 24 the minimum fee of 1 hides the adjustment.
        for (adjustment, threshold) in group["thresholds"].as_array().unwrap().iter().enumerate().take(25).skip(1) {
            let total = 9_000_000_000_000_000 / number(threshold);
            let divisibility = if total > 10_000 { 0 } else { 1 };
            for (more, expected) in [(0, adjustment), (1, adjustment - 1)] {
                let supply = total / 10u64.pow(u32::from(divisibility)) + more;
                let id = define(ledger, &format!("m{adjustment}_{more}"), supply, divisibility, None);
                let transfer = transfer(1_000_000_000, 0, vec![Mosaic { id, quantity: supply }]);
                let fee = minimum_fee(&transfer, ledger, ERAS[1]);
                assert_eq!(fee, Amount::whole(25 - expected as u64), "threshold {threshold}, {more} more");
            }
        }
    });
}

fn modification(count: u64, change: bool) -> Body {
    let one = |index| Modification { kind: ModificationKind::Add, cosignatory: PublicKey([index as u8 + 10; 32]) };
    Body::AggregateModification(AggregateModification {
        modifications: (0..count).map(one).collect(),
        min_cosignatories_change: change.then_some(0),
    })
}

fn provision(new_part: &str, parent: Option<&str>) -> Body {
    Body::ProvisionNamespace(ProvisionNamespace {
        rental_fee_sink: mainnet().namespace_sink(),
        rental_fee: Amount::whole(100),
        new_part: new_part.to_owned(),
        parent: parent.map(|parent| NamespaceId::parse(parent).unwrap()),
    })
}

fn cosignature(signer: PublicKey, inner: &Transaction) -> Transaction {
    let other_account = address(&inner.signer);
    transaction(signer, Body::Cosignature(Cosignature { other_hash: inner.hash().into(), other_account }))
}

fn multisig(initiator: PublicKey, inner: Transaction, cosigners: &[PublicKey]) -> Transaction {
    let cosignatures = cosigners.iter().map(|cosigner| cosignature(*cosigner, &inner)).collect();
    let inner = Transaction { signature: None, ..inner };
    transaction(initiator, Body::Multisig(Box::new(Multisig { inner, cosignatures })))
}

/// Builds a transaction of the kind with this name in the vectors.
fn of_kind(name: &str) -> Transaction {
    let inner = || transfer(0, 0, Vec::new());
    let id = MosaicId::parse("alice:coin").unwrap();
    let body = match name {
        "IMPORTANCE_TRANSFER" => Body::ImportanceTransfer(ImportanceTransfer { mode: LinkMode::Activate, remote: BOB }),
        "MULTISIG" => return multisig(ALICE, inner(), &[]),
        "MULTISIG_SIGNATURE" => return cosignature(ALICE, &inner()),
        "PROVISION_NAMESPACE" => provision("alice", None),
        "MOSAIC_DEFINITION_CREATION" => Body::MosaicDefinitionCreation(Box::new(MosaicDefinitionCreation {
            definition: MosaicDefinition { id, creator: ALICE, ..MosaicDefinition::xem() },
            creation_fee_sink: mainnet().mosaic_sink(),
            creation_fee: Amount::ZERO,
        })),
        "MOSAIC_SUPPLY_CHANGE" => {
            Body::MosaicSupplyChange(MosaicSupplyChange { mosaic: id, kind: SupplyChangeKind::Create, delta: 1 })
        }
        other => panic!("{other}"),
    };
    transaction(ALICE, body)
}

#[test]
fn other_kinds_cost_the_minimum_fees_of_all_three_eras() {
    let group = vectors("other_minimum_fees");
    at(2, |ledger| {
        for (height, era) in ERAS.into_iter().zip(["before_first_fork", "after_first_fork", "after_second_fork"]) {
            for (name, expected) in group[era].as_object().unwrap() {
                if name != "MULTISIG_AGGREGATE_MODIFICATION" {
                    assert_eq!(minimum_fee(&of_kind(name), ledger, height).0, number(expected), "{era} {name}");
                    continue;
                }
                for case in cases(expected) {
                    let change = case["min_cosignatories_present"].as_bool().unwrap();
                    let one = transaction(ALICE, modification(number(&case["modifications"]), change));
                    assert_eq!(minimum_fee(&one, ledger, height).0, number(&case["fee"]), "{era} {case}");
                }
            }
        }
        let upper = number(&group["signature_fee_upper_bound"]);
        let pay = |fee| {
            let one = Transaction { fee: Amount(fee), ..cosignature(BOB, &transfer(0, 0, Vec::new())) };
            validation_result(ledger, &one, ERAS[2], Purpose::Mempool)
        };
        assert_eq!(pay(upper), ValidationResult::Success);
        assert_eq!(pay(upper + 1), ValidationResult::FailureInsufficientFee);
    });
}

#[test]
fn rents_and_creation_fees_follow_the_era() {
    let group = vectors("rental_and_creation_fees");
    at(2, |ledger| {
        let (root, sub) = (NamespaceId::parse("a").unwrap(), NamespaceId::parse("a.b").unwrap());
        for (era, height) in ERAS.into_iter().enumerate() {
            let schedule = schedule(ledger, height);
            assert_eq!(schedule.rental_fee(&root).0, number(&group["root"][era]));
            assert_eq!(schedule.rental_fee(&sub).0, number(&group["sub"][era]));
            assert_eq!(schedule.creation_fee().0, number(&group["mosaic_creation"][era]));
        }
    });
}

#[test]
fn the_transfer_amount_multiplies_mosaic_quantities() {
    at(500_000, |ledger| {
        let id = define(ledger, "coin", 1, 0, None);
        for case in &cases_of("raw_quantity") {
            let found = moved(ledger, number(&case["amount_micro"]), &id, number(&case["bag_quantity"]));
            if text(&case["transferred"]).starts_with("error") {
                assert_eq!(found, Err("BigInteger out of long range".to_owned()), "{case}")
            } else {
                assert_eq!(found, Ok(vec![number(&case["transferred"])]), "{case}")
            }
        }
    });
}

#[test]
fn percentile_levies_wrap_at_64_bits() {
    at(500_000, |ledger| {
        for (index, case) in cases_of("percentile_levy").iter().enumerate() {
            let (quantity, fee) = (number(&case["quantity"]), number(&case["fee"]));
            let mosaic = MosaicId::parse(&format!("alice:m{index}")).unwrap();
            let levy = Levy { kind: LevyKind::Percentile, recipient: address(&BOB), mosaic, fee };
            let id = define(ledger, &format!("m{index}"), 1, 0, Some(levy));
            let found = moved(ledger, 1_000_000, &id, quantity);
            let expected = match text(&case["levy"]).strip_prefix("error: ") {
                Some(exception) => Err(exception.to_owned()),
                None => Ok([quantity, number(&case["levy"])].into_iter().filter(|quantity| *quantity > 0).collect()),
            };
            assert_eq!(found, expected, "{case}");
        }
    });
}

#[test]
fn messages_may_be_longer_after_each_fork() {
    at(2, |ledger| {
        for case in &cases_of("max_message_length_mainnet") {
            let max = max_message_length(&ledger.network.chain.forks, Height(number(&case["height"])));
            assert_eq!(max as u64, number(&case["max"]), "{case}");
        }
    });
}

#[test]
fn namespaces_are_renewed_in_time() {
    let group = vectors("namespace_renewal");
    at(number(&group["root_height"]), |ledger| {
        let name = NamespaceId::parse("rented").unwrap();
        ledger.apply(&Effect::Namespace { owner: address(&ALICE), name: name.clone() }).unwrap();
        let chain = &ledger.network.chain;
        assert_eq!(chain.blocks_per_month(), number(&group["blocks_per_month"]));
        assert_eq!(chain.blocks_per_year(), number(&group["blocks_per_year"]));
        for case in cases(&group) {
            let height = number(&case["height"]);
            let active =
                state::is_namespace_active(ledger.txn, &name, Height(height), chain.blocks_per_year()).unwrap();
            assert_eq!(case["active"], active, "{case}");
            for (signer, member) in [(ALICE, "owner"), (BOB, "other_account")] {
                let one = transaction(signer, provision("rented", None));
                let found = validation_result(ledger, &one, height, Purpose::Mempool);
                assert_eq!(case[member], found.name(), "{case}");
            }
        }
    });
}

#[test]
fn names_of_namespaces_are_valid_and_claimable() {
    at(500_000, |ledger| {
        for case in &cases_of("namespace_ids") {
            let id = text(&case["id"]);
            assert_eq!(case["valid"], NamespaceId::parse(id).is_ok(), "{id}");
            let Some(claimable) = case["claimable"].as_bool() else { continue };
            let (parent, part) = id.rsplit_once('.').map_or((None, id), |(parent, part)| (Some(parent), part));
            let one = transaction(ALICE, provision(part, parent));
            let found = validation_result(ledger, &one, ERAS[2], Purpose::Mempool);
            assert_eq!(found != ValidationResult::FailureNamespaceNotClaimable, claimable, "{id}: {found}");
        }
    });
}

#[test]
fn names_of_mosaics_are_valid() {
    for case in &cases_of("mosaic_names") {
        let id = MosaicId::new(NamespaceId::parse("a").unwrap(), text(&case["name"]));
        assert_eq!(case["valid"], id.is_ok(), "{case}");
    }
}

#[test]
fn deadlines_are_within_a_day_of_the_time_stamp() {
    at(2, |ledger| {
        for case in &cases_of("deadline") {
            let mut one = transfer(1, 0, Vec::new());
            one.timestamp = Timestamp(number(&case["timestamp"]) as i32);
            one.deadline = Timestamp(number(&case["deadline"]) as i32);
            let found = validation_result(ledger, &one, ERAS[2], Purpose::Block);
            assert_eq!(case["result"], found.name(), "{case}");
        }
    });
}

#[test]
fn owners_and_remotes_may_sign_blocks_at_the_listed_heights() {
    at(1000, |ledger| {
        let (owner, remote) = (address(&ALICE), address(&BOB));
        for case in &cases_of("remote_status") {
            let mode = if case["mode"] == "Activate" { LinkMode::Activate } else { LinkMode::Deactivate };
            let account = if case["side"] == "owner" { owner } else { remote };
            ledger.apply(&Effect::Link { owner, remote, mode }).unwrap();
            let height = Height(1000 + number(&case["blocks_since_link"]));
            let state = ledger.account(&account).unwrap().clone();
            let limit = ledger.network.chain.rewrite_limit;
            assert_eq!(case["may_sign_block"], may_sign_block(state.remote_status(height, limit)), "{case}");
            let (role, phase) = state.remote_status(height, limit).expect("a link");
            assert_eq!(format!("{role:?}_{phase:?}").to_uppercase(), text(&case["status"]), "{case}");
            let other = if account == owner { remote } else { owner };
            let credited = (case["block_credited_to"] == "owner").then_some(other);
            assert_eq!(state.harvests_for(height, limit), credited, "{case}");
            assert_eq!(state.harvests_for(Height(999), limit), None);
        }
    });
}

#[test]
fn multisig_transactions_need_the_right_signatures() {
    let key = |name: &Value| match text(name).strip_prefix('c') {
        Some(number) => PublicKey([100 + number.parse::<u8>().unwrap(); 32]),
        None => PublicKey([200; 32]),
    };
    let keys = |list: &Value| list.as_array().unwrap().iter().map(key).collect::<Vec<_>>();
    for case in &cases_of("multisig_signatures_present") {
        at(500_000, |ledger| {
            let account = address(&ALICE);
            for cosignatory in keys(&case["cosignatories"]) {
                let modification = Modification { kind: ModificationKind::Add, cosignatory };
                ledger.apply(&Effect::Cosignatory { account, modification: &modification }).unwrap();
            }
            let change = number(&case["min_cosignatories"]) as i32;
            ledger.apply(&Effect::MinCosignatories { account, change }).unwrap();
            let remove = |cosignatory| Modification { kind: ModificationKind::Delete, cosignatory };
            let modifications: Vec<_> = keys(&case["removed"]).into_iter().map(remove).collect();
            let inner = if modifications.is_empty() {
                transfer(1, 0, Vec::new())
            } else {
                let min_cosignatories_change = (change > 0).then_some(-1);
                let body = AggregateModification { modifications, min_cosignatories_change };
                transaction(ALICE, Body::AggregateModification(body))
            };
            let signers = keys(&case["signers"]);
            // The rule does not depend on which signer initiated the transaction, but an earlier rule requires a
            // cosignatory.
            let one = multisig(signers[0], inner, &signers[1..]);
            let found = validation_result(ledger, &one, ERAS[2], Purpose::Block);
            assert_eq!(case["result"], found.name(), "{case}");
        });
    }
}

#[test]
fn results_have_their_numbers_names_and_kinds() {
    let group = vectors("validation_results");
    assert_eq!(cases(&group).len(), ValidationResult::ALL.len());
    for (case, result) in cases(&group).iter().zip(ValidationResult::ALL) {
        assert_eq!(case["code"], result.code());
        assert_eq!(case["name"], result.name());
        assert_eq!(ValidationResult::from_code(result.code()), Some(*result));
        let kind = match result {
            ValidationResult::Neutral => "neutral",
            _ if result.is_success() => "success",
            _ => "failure",
        };
        assert_eq!(case["kind"], kind);
    }
    assert_eq!(ValidationResult::from_code(23), None);
}

#[test]
fn the_blocked_keys_may_not_harvest() {
    let group = vectors("blocked_harvester_public_keys");
    assert_eq!(cases(&group).len(), 110);
    for case in cases(&group) {
        let key = PublicKey::from_hex(text(&case["public_key"])).unwrap();
        assert!(may_not_harvest(&key), "{case}");
        assert_eq!(case["mainnet_address"], address(&key).as_str());
    }
}

#[test]
fn fees_go_to_the_sinks() {
    let group = vectors("fee_sinks");
    assert_eq!(public_key(&group["namespace_rental"]["public_key"]), NAMESPACE_SINK);
    for (name, byte) in NETWORKS {
        let network = Network { byte, ..mainnet() };
        assert_eq!(group["namespace_rental"][name], network.namespace_sink().as_str());
        assert_eq!(group["mosaic_creation"][name], network.mosaic_sink().as_str());
    }
}
