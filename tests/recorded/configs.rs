//! The `config.json` of every recorded chain yields the parameters that the file records in its other members.

use std::path::Path;

use nisd::config::{Settings, load};
use nisd::model::network::{ImportanceScheme, Vesting};
use serde_json::Value;

use crate::common::recorded;

fn check(settings: &Settings, recorded: &Value) {
    let network = &settings.network;
    let expected = &recorded["network"];
    assert_eq!(expected["name"], network.name);
    assert_eq!(expected["versionByte"], network.byte.0);
    assert_eq!(expected["generationHash"], network.generation_hash.to_string());
    assert_eq!(expected["nemesisSignerAddress"], network.nemesis_signer.as_str());
    assert_eq!(expected["totalAmountXem"], network.total_amount.0 / 1_000_000);

    let chain = &network.chain;
    let expected = &recorded["chain"];
    assert_eq!(expected["blockGenerationTargetTime"], chain.target_time);
    assert_eq!(expected["blockChainRewriteLimit"], chain.rewrite_limit);
    assert_eq!(expected["maxTransactionsPerBlock"], chain.max_transactions_per_block);
    assert_eq!(expected["maxTransactions"], chain.max_transactions);
    assert_eq!(expected["ignoreFees"], chain.ignore_fees);
    assert_eq!(expected["transactionHashRetentionTimeHours"], chain.hash_retention_hours.unwrap());
    let importance = match chain.importance {
        ImportanceScheme::ProofOfImportance => "PROOF_OF_IMPORTANCE",
        ImportanceScheme::ProofOfStake => "PROOF_OF_STAKE",
    };
    let vesting = match chain.vesting {
        Vesting::TimeBased => "WB_TIME_BASED_VESTING",
        Vesting::Immediate => "WB_IMMEDIATE_VESTING",
    };
    let mut features = vec![importance, vesting];
    features.extend(chain.stabilize_block_times.then_some("STABILIZE_BLOCK_TIMES"));
    assert_eq!(expected["blockChainFeatures"], Value::from(features));

    let expected = &recorded["derived"];
    assert_eq!(expected["blocksPerDay"], chain.blocks_per_day());
    assert_eq!(expected["blocksPerMonth"], chain.blocks_per_month());
    assert_eq!(expected["blocksPerYear"], chain.blocks_per_year());
    assert_eq!(expected["maxBlocksPerSyncAttempt"], chain.max_blocks_per_sync());

    let forks = &chain.forks;
    let expected = &recorded["forks"];
    assert_eq!(expected["multisigMOfN"], forks.multisig_m_of_n);
    assert_eq!(expected["mosaics"], forks.mosaics);
    assert_eq!(expected["firstFee"], forks.first_fee);
    assert_eq!(expected["remoteAccount"], forks.remote_account);
    assert_eq!(expected["mosaicRedefinition"], forks.mosaic_redefinition);
    assert_eq!(expected["secondFee"], forks.second_fee);
    assert_eq!(expected["treasuryReissuance"], forks.treasury_reissuance);
    let texts = |hashes: &[nisd::model::hash::Hash256]| hashes.iter().map(|hash| hash.to_string()).collect::<Value>();
    assert_eq!(expected["treasuryReissuanceTransactionHashes"], texts(&forks.treasury_hashes));
    assert_eq!(expected["treasuryReissuanceFallbackTransactionHashes"], texts(&forks.treasury_fallback_hashes));
}

#[test]
fn every_recorded_chain_has_its_recorded_parameters() {
    for name in ["tiny", "all-forks", "one-year"] {
        let folder = recorded("chains").join(name);
        let config = folder.join("config.json");
        let settings = load(Some(&config), Vec::new(), Some(Path::new("/home/someone"))).unwrap();
        check(&settings, &serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap());
        assert_eq!(settings.nemesis.read().unwrap(), std::fs::read(folder.join("nemesis.bin")).unwrap());
        assert!(settings.diagnostics.is_empty(), "{:?}", settings.diagnostics);
    }
}
