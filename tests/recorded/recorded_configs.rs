//! The `config.json` of every recorded chain yields the parameters that the file records in its other members.

use std::path::Path;

use nisd::config::{Settings, load};
use nisd::model::network::{ImportanceScheme, Vesting};
use serde_json::Value;

use crate::common::recorded;

fn check(settings: &Settings, recorded: &Value) {
    let network = &settings.network;
    let told = &recorded["network"];
    assert_eq!(told["name"], network.name);
    assert_eq!(told["versionByte"], network.byte.0);
    assert_eq!(told["generationHash"], network.generation_hash.to_string());
    assert_eq!(told["nemesisSignerAddress"], network.nemesis_signer.as_str());
    assert_eq!(told["totalAmountXem"], network.total_amount.0 / 1_000_000);

    let chain = &network.chain;
    let told = &recorded["chain"];
    assert_eq!(told["blockGenerationTargetTime"], chain.target_time);
    assert_eq!(told["blockChainRewriteLimit"], chain.rewrite_limit);
    assert_eq!(told["maxTransactionsPerBlock"], chain.max_transactions_per_block);
    assert_eq!(told["maxTransactions"], chain.max_transactions);
    assert_eq!(told["ignoreFees"], chain.ignore_fees);
    assert_eq!(told["transactionHashRetentionTimeHours"], chain.hash_retention_hours.unwrap());
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
    assert_eq!(told["blockChainFeatures"], Value::from(features));

    let told = &recorded["derived"];
    assert_eq!(told["blocksPerDay"], chain.blocks_per_day());
    assert_eq!(told["blocksPerMonth"], chain.blocks_per_month());
    assert_eq!(told["blocksPerYear"], chain.blocks_per_year());
    assert_eq!(told["maxBlocksPerSyncAttempt"], chain.max_blocks_per_sync());

    let forks = &chain.forks;
    let told = &recorded["forks"];
    assert_eq!(told["multisigMOfN"], forks.multisig_m_of_n);
    assert_eq!(told["mosaics"], forks.mosaics);
    assert_eq!(told["firstFee"], forks.first_fee);
    assert_eq!(told["remoteAccount"], forks.remote_account);
    assert_eq!(told["mosaicRedefinition"], forks.mosaic_redefinition);
    assert_eq!(told["secondFee"], forks.second_fee);
    assert_eq!(told["treasuryReissuance"], forks.treasury_reissuance);
    let texts = |hashes: &[nisd::model::hash::Hash256]| hashes.iter().map(|hash| hash.to_string()).collect::<Value>();
    assert_eq!(told["treasuryReissuanceTransactionHashes"], texts(&forks.treasury_hashes));
    assert_eq!(told["treasuryReissuanceFallbackTransactionHashes"], texts(&forks.treasury_fallback_hashes));
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
