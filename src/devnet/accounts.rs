//! The accounts of a new private network and their initial balances.

use zeroize::Zeroizing;

use crate::crypto::PrivateKey;
use crate::crypto::hash::keccak256_parts;
use crate::model::Amount;

/// Total supply in whole XEM: the supply of `nem:xem` in the protocol.
pub const SUPPLY: u64 = 8_999_999_999;
/// Maximum initial balance of the harvester, in whole XEM.
const LARGEST_STAKE: u64 = 8_000_000_000;
/// Maximum of stake, in whole XEM, times block time, in seconds: above it even the greatest difficulty cannot slow
/// blocks down to the block time, since 10^15 = 1024 · seconds · stake · 1.9.
const LARGEST_STAKE_SECONDS: u64 = 500_000_000_000;
/// Initial balance of an account for experiments, in whole XEM.
const TEST_BALANCE: u64 = 100_000_000;
/// Prefix from which demo keys are derived; the name of the role follows.
const DEMO: &[u8] = b"nisd devnet: a demo key that everybody knows: ";

/// An account of the nemesis block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Signs the nemesis block, and never anything else.
    Nemesis,
    /// Makes the blocks. It must not send: no other account would confirm its transactions.
    Harvester,
    /// Owns the rest of the supply.
    Bank,
    /// For experiments.
    Alice,
    /// For experiments.
    Bob,
    /// For experiments.
    Carol,
}

impl Role {
    /// The roles with an initial balance.
    pub const OWNERS: [Role; 5] = [Role::Harvester, Role::Bank, Role::Alice, Role::Bob, Role::Carol];

    /// Returns its name, which is also that of its key file.
    pub fn name(self) -> &'static str {
        match self {
            Role::Nemesis => "nemesis",
            Role::Harvester => "harvester",
            Role::Bank => "bank",
            Role::Alice => "alice",
            Role::Bob => "bob",
            Role::Carol => "carol",
        }
    }

    /// Returns its initial balance on a network with a block time of `target_time` seconds.
    pub fn balance(self, target_time: u32) -> Amount {
        let stake = (LARGEST_STAKE_SECONDS / u64::from(target_time.max(1))).min(LARGEST_STAKE);
        Amount::whole(match self {
            Role::Nemesis => 0,
            Role::Harvester => stake,
            Role::Bank => SUPPLY - stake - 3 * TEST_BALANCE,
            Role::Alice | Role::Bob | Role::Carol => TEST_BALANCE,
        })
    }

    /// Returns its key on every network with demo keys. The key is worthless, since anyone can compute it.
    pub fn demo_key(self) -> PrivateKey {
        key_from_seed(Zeroizing::new(keccak256_parts(&[DEMO, self.name().as_bytes()])))
    }
}

/// Creates a key from 32 random bytes. Its top bit is cleared, so that it is always printed with 64 digits: NIS1 puts
/// `00` before other keys, which some software does not accept.
pub fn key_from_seed(mut seed: Zeroizing<[u8; 32]>) -> PrivateKey {
    seed[31] &= 0x7f;
    PrivateKey::from_seed(&seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_balances_sum_to_the_supply_at_any_block_time() {
        for target_time in [10, 60, 62, 63, 300, 8_640, 86_400] {
            let total: u64 = Role::OWNERS.iter().map(|role| role.balance(target_time).0).sum();
            assert_eq!(Amount(total), Amount::whole(SUPPLY), "{target_time}");
        }
        assert_eq!(Role::Harvester.balance(10), Amount::whole(8_000_000_000));
        assert_eq!(Role::Harvester.balance(300), Amount::whole(1_666_666_666));
    }

    #[test]
    fn demo_keys_are_the_same_on_every_machine_and_have_64_digits() {
        let keys = Role::OWNERS.map(|role| role.demo_key().printed());
        assert!(keys.iter().all(|key| key.len() <= 64));
        let alice = keys[2].as_str();
        assert_eq!(alice, "1281c9cbc953c0e341e4dbe99bf15f74c0f3f243b41a9907b40ed99a66dbfcb8");
        assert!(keys.iter().filter(|key| key.as_str() == alice).count() == 1);
    }
}
