//! The tip of a chain, on top of which the next block is processed, and the difficulty of that block.

use std::collections::VecDeque;

use crate::model::{Height, Timestamp};
use crate::store::{Read, Result, StoreError, StoredHeader, stored_header, tip};

const INITIAL: u64 = 100_000_000_000_000;
const MIN: i64 = 10_000_000_000_000;
const MAX: i64 = 1_000_000_000_000_000;

/// Number of blocks whose difficulties and time stamps determine the next difficulty.
const WINDOW: usize = 60;

/// The tip of a chain, and the values that determine the next difficulty.
pub struct ChainTip {
    /// The last block; `None` for an empty chain.
    pub block: Option<StoredHeader>,
    /// Difficulties and time stamps of the last blocks.
    pub window: DifficultyWindow,
}

impl ChainTip {
    /// Loads the tip of the chain in a state.
    pub fn load(state: &impl Read) -> Result<ChainTip> {
        ChainTip::load_at(state, tip(state)?.map_or(Height(0), |block| block.height))
    }

    /// Loads the tip as if the block at `height` were the last one; height 0 is before the first block.
    pub fn load_at(state: &impl Read, height: Height) -> Result<ChainTip> {
        let block = stored_header(state, height)?;
        Ok(ChainTip { block, window: DifficultyWindow::load(state, height)? })
    }

    /// Returns the height of the tip; 0 if the chain is empty.
    pub fn height(&self) -> Height {
        self.block.as_ref().map_or(Height(0), |block| block.height)
    }

    /// Advances the tip by one block.
    pub fn push(&mut self, block: StoredHeader) {
        self.window.push(block.difficulty, block.timestamp);
        self.block = Some(block);
    }
}

/// Difficulties and time stamps of the last blocks of a chain, oldest first.
#[derive(Clone, Debug, Default)]
pub struct DifficultyWindow(VecDeque<(u64, Timestamp)>);

impl DifficultyWindow {
    /// Loads the window that ends with the block at `height`; height 0 is before the first block.
    pub fn load(state: &impl Read, height: Height) -> Result<DifficultyWindow> {
        let mut window = DifficultyWindow::default();
        let first = height.0.saturating_sub(WINDOW as u64 - 1).max(1);
        for height in first..=height.0 {
            let block = stored_header(state, Height(height))?;
            let header = block.ok_or(StoreError::Damaged("a block is missing"))?;
            window.push(header.difficulty, header.timestamp);
        }
        Ok(window)
    }

    /// Adds a block, dropping the oldest one if the window is full.
    pub fn push(&mut self, difficulty: u64, timestamp: Timestamp) {
        if self.0.len() == WINDOW {
            self.0.pop_front();
        }
        self.0.push_back((difficulty, timestamp));
    }

    /// Returns the difficulty of the next block. `None` if no time passed within the window (never in a valid chain).
    pub fn difficulty(&self, target_time: u32) -> Option<u64> {
        let ends = (self.0.front(), self.0.back(), self.0.len());
        let (Some(first), Some(last), 2..) = ends else { return Some(INITIAL) };
        let count = self.0.len() as i64;
        let elapsed = i128::from(last.1.0) - i128::from(first.1.0);
        let average = self.0.iter().map(|(difficulty, _)| *difficulty as i64).sum::<i64>() / count;
        let product = i128::from(average) * i128::from(target_time) * i128::from(count - 1);
        // Only the low 64 bits count.
        let next = product.checked_div(elapsed)? as i64;
        Some(limit_change(next, last.0 as i64).clamp(MIN, MAX) as u64)
    }
}

/// Limits the change to a twentieth of the last difficulty. `next * 20` wraps at 64 bits, which happens if blocks come
/// much faster than a target time of 462 seconds or more.
fn limit_change(next: i64, old: i64) -> i64 {
    let twentyfold = next.wrapping_mul(20);
    if old * 19 > twentyfold {
        old * 19 / 20
    } else if old * 21 < twentyfold {
        old * 21 / 20
    } else {
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difficulty(blocks: &[(u64, i32)], target_time: u32) -> Option<u64> {
        let mut window = DifficultyWindow::default();
        blocks.iter().for_each(|(difficulty, time)| window.push(*difficulty, Timestamp(*time)));
        window.difficulty(target_time)
    }

    #[test]
    fn a_chain_begins_with_the_initial_difficulty() {
        assert_eq!(difficulty(&[], 60), Some(INITIAL));
        assert_eq!(difficulty(&[(INITIAL, 0)], 60), Some(INITIAL));
    }

    #[test]
    fn the_difficulty_changes_by_at_most_a_twentieth_within_its_bounds() {
        assert_eq!(difficulty(&[(INITIAL, 0), (INITIAL, 60)], 60), Some(INITIAL));
        assert_eq!(difficulty(&[(INITIAL, 0), (INITIAL, 6000)], 60), Some(INITIAL / 20 * 19));
        assert_eq!(difficulty(&[(INITIAL, 0), (INITIAL, 1)], 60), Some(INITIAL / 20 * 21));
        assert_eq!(difficulty(&[(MIN as u64, 0), (MIN as u64, 6000)], 60), Some(MIN as u64));
        assert_eq!(difficulty(&[(MAX as u64, 0), (MAX as u64, 1)], 60), Some(MAX as u64));
    }

    /// Returns the difficulty after `count` blocks of one difficulty, `gap` seconds apart.
    fn even(count: i32, difficulty_of_each: u64, gap: i32, target_time: u32) -> Option<u64> {
        let blocks: Vec<_> = (0..count).map(|place| (difficulty_of_each, place * gap)).collect();
        difficulty(&blocks, target_time)
    }

    #[test]
    fn the_difficulty_matches_the_worked_examples() {
        for (count, of_each, gap, expected) in [
            (10, INITIAL, 60, INITIAL),
            (10, INITIAL, 61, 98_360_655_737_704),
            (10, INITIAL, 59, 101_694_915_254_237),
            (2, INITIAL, 2, 105_000_000_000_000),
            (2, INITIAL, 57, 105_000_000_000_000),
            (2, INITIAL, 58, 103_448_275_862_068),
            (2, INITIAL, 63, 95_238_095_238_095),
            (2, INITIAL, 64, 95_000_000_000_000),
            (2, INITIAL, -60, 95_000_000_000_000),
        ] {
            assert_eq!(even(count, of_each, gap, 60), Some(expected), "{count} blocks, {gap} s apart");
        }
        let uneven = [(INITIAL + 1, 1000), (INITIAL - 1, 1059), (INITIAL + 7, 1123)];
        assert_eq!(difficulty(&uneven, 60), Some(97_560_975_609_758));
    }

    #[test]
    fn twenty_times_the_next_difficulty_wraps_at_64_bits() {
        for count in [2, 60] {
            assert_eq!(even(count, MAX as u64, 1, 600), Some(950_000_000_000_000));
            assert_eq!(even(count, INITIAL, 17, 86_400), Some(95_000_000_000_000));
        }
        // The largest target time at which nothing wraps, and the next one.
        assert_eq!(even(2, MAX as u64, 1, 461), Some(MAX as u64));
        assert_eq!(even(2, MAX as u64, 1, 462), Some(950_000_000_000_000));
    }

    #[test]
    fn the_next_difficulty_keeps_only_its_low_64_bits() {
        // 10^15 * 18,447 is 2^64 + 255,926,290,448,384.
        assert_eq!(even(2, MAX as u64, 1, 18_447), Some(950_000_000_000_000));
        assert_eq!(even(2, INITIAL, 1, 184_467), Some(95_000_000_000_000));
    }

    #[test]
    fn a_window_without_elapsed_time_has_no_next_difficulty() {
        assert_eq!(difficulty(&[(INITIAL, 7), (INITIAL, 7)], 60), None);
    }
}
