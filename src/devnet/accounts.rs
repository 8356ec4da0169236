//! Who owns what on a new private network.

use zeroize::Zeroizing;

use crate::crypto::PrivateKey;
use crate::crypto::hash::keccak256_parts;
use crate::model::Amount;

/// Everything there is, in whole XEM: what the protocol takes for the supply of `nem:xem`.
pub const SUPPLY: u64 = 8_999_999_999;
/// Most that the harvester owns, in whole XEM.
const LARGEST_STAKE: u64 = 8_000_000_000;
/// Stake, in whole XEM, times seconds between blocks, above which even the greatest difficulty leaves blocks faster
/// than that: 10^15 = 1024 · seconds · stake · 1.9.
const LARGEST_STAKE_SECONDS: u64 = 500_000_000_000;
/// What an account for trying things out owns, in whole XEM.
const POCKET: u64 = 100_000_000;
/// What demo keys are derived from, with the role behind it.
const DEMO: &[u8] = b"nisd devnet: a demo key that everybody knows: ";

/// An account of the nemesis block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Signs the nemesis block, and nothing ever again.
    Nemesis,
    /// Makes the blocks. It must not send: nobody else would confirm it.
    Harvester,
    /// Owns what the others do not.
    Bank,
    /// For trying things out.
    Alice,
    /// For trying things out.
    Bob,
    /// For trying things out.
    Carol,
}

impl Role {
    /// Those that own something.
    pub const OWNERS: [Role; 5] = [Role::Harvester, Role::Bank, Role::Alice, Role::Bob, Role::Carol];

    /// Its name, also that of its key file.
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

    /// What it owns at first, where `target_time` seconds are to lie between two blocks.
    pub fn balance(self, target_time: u32) -> Amount {
        let stake = (LARGEST_STAKE_SECONDS / u64::from(target_time.max(1))).min(LARGEST_STAKE);
        Amount::whole(match self {
            Role::Nemesis => 0,
            Role::Harvester => stake,
            Role::Bank => SUPPLY - stake - 3 * POCKET,
            Role::Alice | Role::Bob | Role::Carol => POCKET,
        })
    }

    /// The key that it has on every network with demo keys: worthless, since everybody can compute it.
    pub fn demo_key(self) -> PrivateKey {
        key_of(Zeroizing::new(keccak256_parts(&[DEMO, self.name().as_bytes()])))
    }
}

/// The key made of 32 random bytes. Its top bit is clear, so that it is written with 64 digits by everyone: NIS1 puts
/// `00` in front of others, which some software does not read.
pub fn key_of(mut seed: Zeroizing<[u8; 32]>) -> PrivateKey {
    seed[31] &= 0x7f;
    PrivateKey::from_seed(&seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_there_is_belongs_to_somebody_whatever_the_block_time() {
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
