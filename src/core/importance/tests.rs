//! Properties of whole calculations that need no test vectors.

use proptest::prelude::*;

use super::*;
use crate::crypto::PublicKey;
use crate::model::NetworkByte;

fn addresses(count: usize) -> Vec<Address> {
    let address = |number: usize| {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&(number as u64).to_le_bytes());
        Address::from_public_key(&PublicKey(key), NetworkByte::TESTNET)
    };
    let mut addresses: Vec<_> = (0..count).map(address).collect();
    addresses.sort();
    addresses
}

/// Adds accounts with ids from 0.
fn add_accounts(calculation: &mut Calculation, count: usize, vested: Amount) {
    for (id, address) in (0..).zip(addresses(count)) {
        calculation.add_account(id, address, vested, Height(1));
    }
}

fn link(calculation: &mut Calculation, height: Height, sender: usize, recipient: usize) {
    let (sender, recipient) = (AccountId(sender as u32), AccountId(recipient as u32));
    calculation.add_outlinks(height, [Outlink { sender, recipient, weight: 2_000_000_000, recipient_hash: 0 }]);
}

/// Returns a calculation with input: accounts of equal stake, and outlinks of 2,000 whole units.
fn with_input(accounts: usize, links: &[(usize, usize)]) -> Calculation {
    let mut calculation = Calculation::new(CalculationParameters::new(Height(718), 1440, accounts as u64));
    add_accounts(&mut calculation, accounts, Amount::whole(20_000));
    for (sender, recipient) in links.iter().filter(|(sender, recipient)| sender != recipient) {
        link(&mut calculation, Height(700), *sender, *recipient);
    }
    calculation
}

/// Runs a calculation to its end; returns the number of slices and the results.
fn run(mut calculation: Calculation, slice: u32) -> (u64, Importances) {
    let mut slices = 1;
    while calculation.step(slice).unwrap() {
        slices += 1;
    }
    (slices, calculation.into_results())
}

fn bits(results: &Importances) -> Vec<(u64, u64)> {
    results.accounts.iter().map(|one| (one.importance.to_bits(), one.page_rank.to_bits())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn importances_sum_to_one_and_do_not_depend_on_the_slice_size(
        links in prop::collection::vec((0usize..40, 0usize..40), 0..300),
        slice in 1u32..100,
    ) {
        let (_, whole) = run(with_input(40, &links), u32::MAX);
        let (_, sliced) = run(with_input(40, &links), slice);
        prop_assert_eq!(bits(&whole), bits(&sliced));
        prop_assert_eq!(whole.iterations, sliced.iterations);
        let sum: f64 = whole.accounts.iter().map(|one| one.importance).sum();
        prop_assert!((sum - 1.0).abs() < 1e-12);
        prop_assert!(whole.accounts.iter().all(|one| one.importance > 0.0));
    }
}

#[test]
fn work_is_split_into_slices_even_around_a_hub() {
    const SPOKES: usize = 3_000;
    /// Units by which the last charge of a slice may overdraw it.
    const MAX_CHARGE: u64 = 16;
    let links: Vec<_> = (1..SPOKES).flat_map(|spoke| [(0, spoke), (spoke, spoke % 50)]).collect();
    let (units, _) = run(with_input(SPOKES, &links), 1);
    assert!(units > 10 * links.len() as u64, "{units} units cannot be all the work");
    for slice in [10, 1_000, 50_000] {
        let (slices, _) = run(with_input(SPOKES, &links), slice);
        let fewest = units / u64::from(slice) / MAX_CHARGE;
        assert!(slices > fewest, "{slices} slices of {slice} for {units} units");
    }
}

#[test]
fn a_calculation_without_eligible_accounts_fails() {
    let mut calculation = Calculation::new(CalculationParameters::new(Height(1), 1440, 0));
    add_accounts(&mut calculation, 1, Amount(9_999_999_999));
    let error = calculation.step(1).unwrap_err();
    assert_eq!(error.to_string(), "there aren't any harvesting eligible accounts");
}

#[test]
fn a_total_stake_of_zero_gives_nan() {
    let mut calculation = Calculation::new(CalculationParameters {
        proof_of_stake: true,
        ..CalculationParameters::new(Height(1), 1440, 0)
    });
    add_accounts(&mut calculation, 1, Amount::ZERO);
    while calculation.step(0).unwrap() {}
    let importance = calculation.into_results().accounts[0].importance;
    assert!(importance.is_nan());
}

#[test]
fn both_importance_schemes_share_one_interface() {
    for proof_of_stake in [false, true] {
        let mut calculation = Calculation::new(CalculationParameters {
            proof_of_stake,
            ..CalculationParameters::new(Height(1), 1440, 0)
        });
        add_accounts(&mut calculation, 2, Amount::whole(20_000));
        link(&mut calculation, Height(1), 0, 1);
        while calculation.step(1).unwrap() {}
        let results = calculation.into_results();
        assert_eq!((results.accounts_counted, results.accounts.len()), (2, 2));
        let sum: f64 = results.accounts.iter().map(|one| one.importance).sum();
        assert!((sum - 1.0).abs() < 1e-12);
    }
}
