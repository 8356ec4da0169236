//! Networks and the parameters of their chains.

use serde::{Deserialize, Serialize};

use super::address::{Address, NetworkByte};
use super::units::{Amount, Hash256, Height};
use crate::crypto::PublicKey;

/// Identity of a network. A store keeps the network of its chain as a flat JSON object of these fields, in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Name, as in `nem.network`.
    pub name: String,
    /// First byte of every decoded address.
    pub byte: NetworkByte,
    /// Generation hash of the nemesis block.
    pub generation_hash: Hash256,
    /// Address of the account that signed the nemesis block. Its transactions pay no fees.
    pub nemesis_signer: Address,
    /// Total supply of the native currency.
    pub total_amount: Amount,
    /// Parameters of the chain.
    #[serde(flatten)]
    pub chain: ChainParameters,
}

#[cfg(any(test, feature = "testing"))]
impl Network {
    /// Returns a private network, for tests.
    pub fn example() -> Network {
        let nemesis_signer = Address::from_public_key(&MOSAIC_SINK, NetworkByte::TESTNET);
        let (name, total_amount) = ("of my own".to_owned(), Amount::whole(8_999_999_999));
        let network = test_network(NetworkByte::TESTNET, nemesis_signer);
        Network { name, generation_hash: Hash256([7; 32]), total_amount, ..network }
    }
}

/// Consensus parameters of a chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChainParameters {
    /// Target time between blocks in seconds (`nis.blockGenerationTargetTime`).
    pub target_time: u32,
    /// Maximum number of blocks that may be rolled back (`nis.blockChainRewriteLimit`).
    pub rewrite_limit: u64,
    /// Maximum transactions in a block, including nested ones.
    pub max_transactions_per_block: u32,
    /// Whether minimum fees are waived (`nis.ignoreFees`).
    pub ignore_fees: bool,
    /// Whether importance is only the share in the vested balances, and no outlinks are kept (`PROOF_OF_STAKE`, as opposed
    /// to `PROOF_OF_IMPORTANCE`, in `nis.blockChainFeatures`).
    pub proof_of_stake: bool,
    /// Whether received amounts are vested at once (`WB_IMMEDIATE_VESTING`); otherwise, a tenth of the unvested balance
    /// vests every day (`WB_TIME_BASED_VESTING`).
    pub immediate_vesting: bool,
    /// Whether late blocks become easier (`STABILIZE_BLOCK_TIMES` in `nis.blockChainFeatures`).
    pub stabilize_block_times: bool,
    /// Heights at which rules change.
    #[serde(flatten)]
    pub forks: Forks,
    /// Hours for which transaction hashes are kept; `None` for ever (`nis.transactionHashRetentionTime`).
    pub hash_retention_hours: Option<u32>,
    /// Maximum transactions in one synchronisation attempt (`nis.maxTransactions`).
    pub max_transactions: u32,
    /// Height from which on account history is kept; `None` for no history (`HISTORICAL_ACCOUNT_DATA` in
    /// `nis.optionalFeatures`, and `nisd.historyFrom`). It does not affect consensus.
    pub history_from: Option<Height>,
}

impl ChainParameters {
    /// Returns the blocks per day at the target time.
    pub fn blocks_per_day(&self) -> u64 {
        u64::from(86_400 / self.target_time.max(1))
    }

    /// Returns the blocks in 30 days.
    pub fn blocks_per_month(&self) -> u64 {
        self.blocks_per_day() * 30
    }

    /// Returns the blocks in 365 days, the term of a namespace lease.
    pub fn blocks_per_year(&self) -> u64 {
        self.blocks_per_day() * 365
    }

    /// Returns the maximum blocks, or block hashes, in one synchronisation attempt.
    pub fn max_blocks_per_sync(&self) -> u64 {
        /// Blocks beyond the rewrite limit.
        const ADDITIONAL: u64 = 40;
        self.rewrite_limit.saturating_add(ADDITIONAL)
    }

    /// Returns the lowest height to which a chain that ends at `last` can be rolled back.
    pub fn lowest_rollback(&self, last: Height) -> Height {
        Height(last.0.saturating_sub(self.rewrite_limit)).max(Height::NEMESIS)
    }

    /// Returns the default parameters, with all forks in the past.
    pub fn after_all_forks() -> ChainParameters {
        ChainParameters {
            target_time: 60,
            rewrite_limit: 360,
            max_transactions_per_block: 120,
            max_transactions: 10_000,
            ignore_fees: false,
            hash_retention_hours: Some(36),
            history_from: None,
            proof_of_stake: false,
            immediate_vesting: false,
            stabilize_block_times: false,
            forks: Forks::all_past(),
        }
    }
}

/// Heights at which the rules of a chain change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Forks {
    /// m-of-n multisig accounts.
    pub multisig_m_of_n: u64,
    /// Namespaces and mosaics.
    pub mosaics: u64,
    /// First change of the fees.
    pub first_fee: u64,
    /// Rules for remote accounts.
    pub remote_account: u64,
    /// Redefinition of mosaics.
    pub mosaic_redefinition: u64,
    /// Second change of the fees.
    pub second_fee: u64,
    /// The treasury re-issuance block.
    pub treasury_reissuance: u64,
    /// Hashes of the transactions that this block must contain.
    pub treasury_hashes: Vec<Hash256>,
    /// Hashes of the transactions that it must contain otherwise.
    pub treasury_fallback_hashes: Vec<Hash256>,
}

impl Forks {
    /// Returns heights at which all forks are in the past, without a treasury re-issuance.
    pub fn all_past() -> Forks {
        Forks {
            multisig_m_of_n: 1,
            mosaics: 1,
            first_fee: 1,
            remote_account: 1,
            mosaic_redefinition: 1,
            second_fee: 1,
            treasury_reissuance: 1,
            treasury_hashes: Vec::new(),
            treasury_fallback_hashes: Vec::new(),
        }
    }
}

/// Public key of the namespace rental fee sink, owner of the namespace `nem`; the same on every network.
pub const NAMESPACE_SINK: PublicKey = PublicKey([
    0x3e, 0x82, 0xe1, 0xc1, 0xe4, 0xa7, 0x5a, 0xda, 0xa3, 0xcb, 0xa8, 0xc1, 0x01, 0xc3, 0xcd, 0x31, 0xd9, 0x81, 0x7a,
    0x2e, 0xb9, 0x66, 0xeb, 0x3b, 0x51, 0x1f, 0xb2, 0xed, 0x45, 0xb8, 0xe2, 0x62,
]);

/// Public key of the mosaic creation fee sink; the same on every network.
pub const MOSAIC_SINK: PublicKey = PublicKey([
    0x53, 0xe1, 0x40, 0xb5, 0x94, 0x7f, 0x10, 0x4c, 0xab, 0xc2, 0xd6, 0xfe, 0x8b, 0xae, 0xdb, 0xc3, 0x0e, 0xf9, 0xa0,
    0x60, 0x9c, 0x71, 0x7d, 0x96, 0x13, 0xde, 0x59, 0x3e, 0xc2, 0xa2, 0x66, 0xd3,
]);

impl Network {
    /// Returns the recipient of namespace rental fees.
    pub fn namespace_sink(&self) -> Address {
        Address::from_public_key(&NAMESPACE_SINK, self.byte)
    }

    /// Returns the recipient of mosaic creation fees.
    pub fn mosaic_sink(&self) -> Address {
        Address::from_public_key(&MOSAIC_SINK, self.byte)
    }
}

/// Values of `nis.blockChainFeatures`: importance scheme, vesting scheme, and stabilised block times.
pub const BLOCK_CHAIN_FEATURES: [&str; 5] =
    ["PROOF_OF_IMPORTANCE", "PROOF_OF_STAKE", "WB_TIME_BASED_VESTING", "WB_IMMEDIATE_VESTING", "STABILIZE_BLOCK_TIMES"];

/// Settings that do not affect the validity of blocks: how long transaction hashes are kept (those that may still be in
/// a block always are), and the transactions per synchronisation attempt.
const NON_CONSENSUS_SETTINGS: [&str; 2] = ["nis.transactionHashRetentionTime", "nis.maxTransactions"];

/// A setting in which two networks differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingDifference {
    /// Name of the setting.
    pub key: &'static str,
    /// The two values.
    pub values: [String; 2],
}

impl Network {
    /// Returns the settings that describe the network, with their values as in a configuration file.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, String)> {
        let (chain, forks) = (&self.chain, &self.chain.forks);
        let joined = |hashes: &[Hash256]| hashes.iter().map(Hash256::to_string).collect::<Vec<_>>().join("|");
        let hours = chain.hash_retention_hours.map_or("-1".to_owned(), |hours| hours.to_string());
        let [by_importance, by_stake, with_time, at_once, stabilized] = BLOCK_CHAIN_FEATURES;
        let consensus = if chain.proof_of_stake { by_stake } else { by_importance };
        let vesting = if chain.immediate_vesting { at_once } else { with_time };
        let mut features = vec![consensus, vesting];
        features.extend(chain.stabilize_block_times.then_some(stabilized));
        [
            ("nem.network", self.name.clone()),
            ("nem.network.version", self.byte.0.to_string()),
            ("nem.network.generationHash", self.generation_hash.to_string()),
            ("nem.network.nemesisSignerAddress", self.nemesis_signer.to_string()),
            ("nem.network.totalAmount", (self.total_amount.0 / 1_000_000).to_string()),
            ("nis.blockGenerationTargetTime", chain.target_time.to_string()),
            ("nis.blockChainRewriteLimit", chain.rewrite_limit.to_string()),
            ("nis.maxTransactionsPerBlock", chain.max_transactions_per_block.to_string()),
            ("nis.maxTransactions", chain.max_transactions.to_string()),
            ("nis.blockChainFeatures", features.join("|")),
            ("nis.ignoreFees", chain.ignore_fees.to_string()),
            ("nis.transactionHashRetentionTime", hours),
            ("nis.treasuryReissuanceForkHeight", forks.treasury_reissuance.to_string()),
            ("nis.treasuryReissuanceForkTransactionHashes", joined(&forks.treasury_hashes)),
            ("nis.treasuryReissuanceForkFallbackTransactionHashes", joined(&forks.treasury_fallback_hashes)),
            ("nis.multisigMOfNForkHeight", forks.multisig_m_of_n.to_string()),
            ("nis.mosaicsForkHeight", forks.mosaics.to_string()),
            ("nis.firstFeeForkHeight", forks.first_fee.to_string()),
            ("nis.remoteAccountForkHeight", forks.remote_account.to_string()),
            ("nis.mosaicRedefinitionForkHeight", forks.mosaic_redefinition.to_string()),
            ("nis.secondFeeForkHeight", forks.second_fee.to_string()),
        ]
        .into_iter()
    }

    /// Returns the settings whose difference makes the chains of two networks incompatible.
    pub fn differences(&self, other: &Network) -> Vec<SettingDifference> {
        let pairs = self.parameters().zip(other.parameters());
        let differ = pairs.filter(|((key, left), (_, right))| left != right && !NON_CONSENSUS_SETTINGS.contains(key));
        differ.map(|((key, left), (_, right))| SettingDifference { key, values: [left, right] }).collect()
    }
}

/// Returns a network with all forks in the past, for tests.
#[cfg(any(test, feature = "testing"))]
pub fn test_network(byte: NetworkByte, nemesis_signer: Address) -> Network {
    Network {
        name: "test".to_owned(),
        byte,
        generation_hash: Hash256::default(),
        nemesis_signer,
        total_amount: Amount::whole(9_000_000_000),
        chain: ChainParameters::after_all_forks(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_parameters_have_these_derived_values() {
        let chain = ChainParameters::after_all_forks();
        assert_eq!(
            (chain.blocks_per_day(), chain.blocks_per_month(), chain.blocks_per_year()),
            (1440, 43_200, 525_600)
        );
        assert_eq!(chain.max_blocks_per_sync(), 400);
    }

    #[test]
    fn networks_differ_in_consensus_parameters() {
        let (ours, mut theirs) = (Network::example(), Network::example());
        assert_eq!(ours.differences(&theirs), []);
        theirs.chain.target_time += 1;
        theirs.chain.forks.mosaics += 1;
        let differ: Vec<_> = ours.differences(&theirs).into_iter().map(|difference| difference.key).collect();
        assert_eq!(differ, ["nis.blockGenerationTargetTime", "nis.mosaicsForkHeight"]);
        assert_eq!(ours.differences(&theirs)[0].values, ["60", "61"]);
    }

    #[test]
    fn local_parameters_are_no_network_difference() {
        let (ours, mut theirs) = (Network::example(), Network::example());
        theirs.chain.hash_retention_hours = None;
        theirs.chain.max_transactions += 1;
        assert_eq!(ours.differences(&theirs), []);
    }
}
