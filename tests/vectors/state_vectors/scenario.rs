//! A chain of unsigned transactions whose blocks are applied without validation, as the chain applies validated blocks,
//! and undone.

use std::collections::BTreeMap;

use nisd::chain::{Recalculation, StakeCache, apply, due_after, rollback};
use nisd::codec::{Context, SigningForm};
use nisd::crypto::Signature;
use nisd::model::network::ChainParameters;
use nisd::model::transaction::{Hashes, wire_version};
use nisd::model::{Address, Block, BlockKind, Hash256, Height, Network, Timestamp, Transaction};
use nisd::state::{self, Ledger, Pruning};
use nisd::store::{StoredHeader, WriteTxn, tip};
use serde_json::Value;

use super::accounts::Accounts;
use crate::vectors::values::{cases, number, text};

/// A chain of the vectors.
pub struct Scenario {
    pub network: Network,
    pub accounts: Accounts,
    pub checkpoints: Vec<Value>,
    pub recalculations: Vec<Value>,
    pub last: u64,
    blocks: BTreeMap<u64, Value>,
    default_signer: Value,
}

impl Scenario {
    /// Reads a scenario of the test network `network`.
    pub fn new(value: &Value, network: Network) -> Scenario {
        assert_eq!((text(&value["network"]), text(&value["seed"]["account"])), ("testnet", "@nemesis"));
        assert_eq!(network.total_amount.0, number(&value["seed"]["amount"]));
        assert_eq!(value["defaultBlock"]["timeStamp"], "(height - 1) * 60");
        let network = Network { chain: configured(&value["config"], network.chain), ..network };
        Scenario {
            accounts: Accounts::new(&value["accounts"], network.byte),
            network,
            checkpoints: cases(&value["checkpoints"]).to_vec(),
            recalculations: cases(&value["recalculations"]).to_vec(),
            last: number(&value["lastHeight"]),
            blocks: cases(&value["blocks"]).iter().map(|block| (number(&block["height"]), block.clone())).collect(),
            default_signer: value["defaultBlock"]["signer"].clone(),
        }
    }

    /// Returns the block at a height, normalized.
    fn block(&self, height: u64) -> Block {
        let listed = self.blocks.get(&height);
        let signer = listed.map_or(&self.default_signer, |block| &block["signer"]);
        let transactions = listed.map_or(&[][..], |block| block["transactions"].as_array().unwrap());
        let timestamp = (height - 1) * 60;
        assert!(listed.is_none_or(|block| block["timeStamp"] == timestamp));
        let block = Block {
            kind: if height == 1 { BlockKind::Nemesis } else { BlockKind::Regular },
            version: wire_version(self.network.byte, 1),
            timestamp: Timestamp(i32::try_from(timestamp).unwrap()),
            signer: self.accounts.key(signer),
            signature: Some(Signature([0; 64])),
            previous_hash: Hash256::default().into(),
            height: Height(height),
            transactions: transactions.iter().map(|one| self.accounts.transaction(one)).collect(),
        };
        Block::from_bytes(&block.to_bytes(SigningForm::Verifiable), Context::of(&self.network)).unwrap()
    }
}

/// Returns the chain parameters with the settings of a scenario.
fn configured(config: &Value, chain: ChainParameters) -> ChainParameters {
    let mut chain = ChainParameters {
        target_time: u32::try_from(number(&config["blockGenerationTargetTime"])).unwrap(),
        rewrite_limit: number(&config["blockChainRewriteLimit"]),
        hash_retention_hours: Some(u32::try_from(number(&config["transactionHashRetentionTime"])).unwrap()),
        ..chain
    };
    chain.forks.mosaic_redefinition = number(&config["mosaicRedefinitionForkHeight"]);
    assert_eq!(config["blocksPerDay"], chain.blocks_per_day());
    assert_eq!(config["blocksPerMonth"], chain.blocks_per_month());
    assert_eq!(config["blocksPerYear"], chain.blocks_per_year());
    chain
}

/// A running scenario.
pub struct Run<'a, 'env> {
    pub scenario: &'a Scenario,
    pub txn: WriteTxn<'env>,
}

impl Run<'_, '_> {
    /// Returns the tip; `None` before the nemesis block.
    pub fn tip(&self) -> Option<StoredHeader> {
        tip(&self.txn).unwrap()
    }

    /// Returns the tip height.
    pub fn height(&self) -> u64 {
        self.tip().map_or(0, |tip| tip.height.0)
    }

    /// Returns the account that signs the block at a height.
    pub fn signer(&self, height: u64) -> Address {
        Address::from_public_key(&self.scenario.block(height).signer, self.scenario.network.byte)
    }

    /// Applies blocks up to a height.
    pub fn run_to(&mut self, height: u64) {
        while self.height() < height {
            self.execute();
        }
    }

    /// Undoes all blocks above a height.
    pub fn undo_to(&mut self, height: u64) {
        rollback(&mut self.txn, Height(height)).unwrap();
    }

    /// Applies the next block; returns the effects of its transactions as the vectors write them.
    pub fn execute(&mut self) -> Vec<Value> {
        let Scenario { network, accounts, .. } = self.scenario;
        let parent = self.tip();
        let block = self.scenario.block(parent.as_ref().map_or(1, |parent| parent.height.0 + 1));
        let mut context = apply::begin(&block, &mut self.txn, network).unwrap();
        let mut ledger = Ledger { txn: &mut self.txn, block: &mut context, network };
        let mut notifications = Vec::new();
        for transaction in &block.transactions {
            let mut effects = Vec::new();
            state::effects(transaction, ledger.txn, network.byte, &mut effects).unwrap();
            apply::apply_transaction(&mut ledger, transaction, &effects).unwrap();
            notifications.extend(effects.iter().map(|effect| accounts.notification(effect)));
        }
        let settled = apply::credit_block(&mut ledger, &block, parent.as_ref()).unwrap();
        let mut expiry = ledger.expiry().unwrap();
        while expiry.step(&mut ledger).unwrap() {}
        let mut pruning = Pruning::due(block.height, block.timestamp, &network.chain);
        while pruning.as_mut().is_some_and(|pruning| pruning.step(ledger.txn).unwrap()) {}
        let hashes: Vec<Hashes> = block.transactions.iter().map(Transaction::hashes).collect();
        for number in 0..hashes.len() {
            let relisting = apply::index_transaction(&mut ledger, &block, &hashes, &settled, number).unwrap();
            if let Some(mut relisting) = relisting {
                while relisting.step(ledger.txn, network.byte).unwrap() {}
            }
        }
        ledger.flush().unwrap();
        self.store(&block, settled);
        notifications
    }

    /// Recalculates importances if they are due, and stores an applied block.
    fn store(&mut self, block: &Block, applied: apply::AppliedBlock) {
        let network = &self.scenario.network;
        if let Some(due) = due_after(block.height) {
            let (mut recalculation, mut stakes) = (Recalculation::new(due, block.hash()), StakeCache::default());
            while recalculation.step(&mut self.txn, network, &mut stakes).unwrap() {}
        }
        let header = StoredHeader {
            height: block.height,
            hash: block.hash(),
            generation_hash: Hash256::default(),
            timestamp: block.timestamp,
            difficulty: 0,
            score: 0,
            total_fee: block.total_fee(),
            beneficiary: applied.beneficiary,
            previous_harvests: applied.previous_harvests,
            ids: applied.ids,
        };
        apply::store(
            &mut self.txn,
            &header,
            &header.to_bytes(block, &block.encode_transactions()),
            apply::Retention::Chain,
            network.chain.rewrite_limit,
        )
        .unwrap();
    }
}
