//! Units of measure and hashes as types, so that a height cannot be mistaken for an amount.

use data_encoding::HEXLOWER;
use derive_more::{Debug, Display};
use serde::{Deserialize, Serialize};

/// Micro-units in a whole unit of the native currency.
pub const MICRO: u64 = 1_000_000;

/// A block height; the nemesis block has height 1.
#[derive(Clone, Copy, Debug, Display, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Height(pub u64);

impl Height {
    /// Height of the nemesis block.
    pub const NEMESIS: Height = Height(1);

    /// Returns the height `blocks` above this one.
    pub fn plus(self, blocks: u64) -> Height {
        Height(self.0.saturating_add(blocks))
    }

    /// Returns the height `blocks` below this one, but at least 1.
    pub fn minus(self, blocks: u64) -> Height {
        Height(self.0.saturating_sub(blocks).max(1))
    }

    /// Returns the height whose importances are in force at this one. It changes every 359 blocks.
    pub fn importance_height(self) -> Height {
        const GROUPING: u64 = 359;
        Height((self.0.saturating_sub(1) / GROUPING * GROUPING).max(1))
    }

    /// Returns the next height.
    pub fn next(self) -> Height {
        self.plus(1)
    }
}

/// Minimum vested balance for the importance calculation and for harvesting.
pub const MIN_STAKE: Amount = Amount::whole(10_000);

/// An amount of the native currency in micro-units, at most 2⁶³ − 1.
#[derive(Clone, Copy, Debug, Display, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Amount(pub u64);

impl Amount {
    /// Zero.
    pub const ZERO: Amount = Amount(0);

    /// Returns the amount of `units` whole units.
    pub const fn whole(units: u64) -> Amount {
        Amount(units * MICRO)
    }
}

/// Seconds since the network's epoch, 2015-03-29 00:06:25 UTC; never negative.
#[derive(Clone, Copy, Debug, Display, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i32);

/// The network's epoch in Unix milliseconds.
pub const EPOCH_UNIX_MILLIS: i64 = 1_427_587_585_000;

impl Timestamp {
    /// The last time stamp.
    pub const MAX: Timestamp = Timestamp(i32::MAX);

    /// Returns the time stamp nearest to a Unix time, with halves rounded up.
    pub fn from_unix_millis(millis: i64) -> Timestamp {
        let seconds = (millis - EPOCH_UNIX_MILLIS + 500).div_euclid(1000);
        Timestamp(seconds.clamp(0, i64::from(i32::MAX)) as i32)
    }

    /// Returns the Unix time at which this second starts.
    pub fn to_unix_millis(self) -> i64 {
        EPOCH_UNIX_MILLIS + 1000 * i64::from(self.0)
    }

    /// Formats the time as `2015-03-29 00:06:25`, in UTC.
    pub fn date_and_time(self) -> String {
        let text = utc(self.to_unix_millis());
        text.split_once('.').map_or_else(|| text.clone(), |(seconds, _)| seconds.to_owned())
    }
}

/// Formats Unix time in milliseconds as `YYYY-MM-DD hh:mm:ss.mmm`, in UTC.
pub fn utc(unix_millis: i64) -> String {
    const DAY: i64 = 86_400_000;
    // Of 400 years, which always have as many days. They and their years begin in March, so that a leap day is their last.
    const ERA: i64 = 146_097;
    const FIRST_OF_MARCH_OF_YEAR_0: i64 = 719_468;
    let days = unix_millis.div_euclid(DAY) + FIRST_OF_MARCH_OF_YEAR_0;
    let (era, day) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months from March or August on have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (400 * era + year + month / 10, (month + 2) % 12 + 1);
    let millis = unix_millis.rem_euclid(DAY);
    let (hour, minute, second) = (millis / 3_600_000, millis / 60_000 % 60, millis / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{:03}", millis % 1000)
}

/// A Keccak-256 hash of 32 bytes. Serialised as hex.
#[derive(Clone, Copy, Debug, Display, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[display("{}", HEXLOWER.encode_display(_0))]
#[debug("{self}")]
pub struct Hash256(#[serde(with = "hex::serde")] pub [u8; 32]);

impl Hash256 {
    /// Parses 64 hex digits of either case.
    pub fn from_hex(text: &str) -> Option<Hash256> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Hash256(bytes))
    }
}

impl TryFrom<&[u8]> for Hash256 {
    type Error = std::array::TryFromSliceError;

    fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
        bytes.try_into().map(Hash256)
    }
}

/// A hash as an entity carries it, of any length up to the limit of a byte string. A hash of another length than 32
/// bytes equals no [`Hash256`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[debug("{}", HEXLOWER.encode_display(_0))]
pub struct WireHash(pub Vec<u8>);

impl From<Hash256> for WireHash {
    fn from(hash: Hash256) -> Self {
        WireHash(hash.0.to_vec())
    }
}

impl PartialEq<Hash256> for WireHash {
    fn eq(&self, other: &Hash256) -> bool {
        self.0 == other.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stamps_round_to_the_nearest_second() {
        assert_eq!(Timestamp::from_unix_millis(EPOCH_UNIX_MILLIS), Timestamp(0));
        assert_eq!(Timestamp::from_unix_millis(EPOCH_UNIX_MILLIS + 499), Timestamp(0));
        assert_eq!(Timestamp::from_unix_millis(EPOCH_UNIX_MILLIS + 500), Timestamp(1));
        assert_eq!(Timestamp::from_unix_millis(0), Timestamp(0));
        assert_eq!(Timestamp::from_unix_millis(Timestamp(300_000_050).to_unix_millis()), Timestamp(300_000_050));
    }
}
