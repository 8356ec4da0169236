//! The difficulty of a block.

use std::collections::VecDeque;

use crate::model::{Height, Timestamp};
use crate::store::{Read, StoreError, stored_header};

const INITIAL: u64 = 100_000_000_000_000;
const MIN: i64 = 10_000_000_000_000;
const MAX: i64 = 1_000_000_000_000_000;

/// Blocks whose difficulties and time stamps decide on the next difficulty.
const WINDOW: usize = 60;

/// Difficulties and time stamps of the last blocks of a chain, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Window(VecDeque<(u64, Timestamp)>);

impl Window {
    /// The window that ends with the block at `height`; height 0 is before the first block.
    pub fn load(state: &impl Read, height: Height) -> Result<Window, StoreError> {
        let mut window = Window::default();
        let first = height.0.saturating_sub(WINDOW as u64 - 1).max(1);
        for height in first..=height.0 {
            let block = stored_header(state, Height(height))?;
            let (header, _) = block.ok_or(StoreError::Damaged("a block is missing"))?;
            window.push(header.difficulty, header.timestamp);
        }
        Ok(window)
    }

    /// Moves on by one block.
    pub fn push(&mut self, difficulty: u64, timestamp: Timestamp) {
        if self.0.len() == WINDOW {
            self.0.pop_front();
        }
        self.0.push_back((difficulty, timestamp));
    }

    /// Difficulty of the next block. `None` if no time passed within the window, which no valid chain does.
    pub fn difficulty(&self, target_time: u32) -> Option<u64> {
        let (Some(first), Some(last)) = (self.0.front(), self.0.back()) else { return Some(INITIAL) };
        if self.0.len() < 2 {
            return Some(INITIAL);
        }
        let count = self.0.len() as i64;
        let elapsed = i128::from(last.1.0) - i128::from(first.1.0);
        let average = self.0.iter().map(|(difficulty, _)| *difficulty as i64).sum::<i64>() / count;
        let product = i128::from(average) * i128::from(target_time) * i128::from(count - 1);
        let next = product.checked_div(elapsed)? as i64;
        Some(limit_change(next, last.0 as i64).clamp(MIN, MAX) as u64)
    }
}

/// No block changes the difficulty by more than a twentieth.
fn limit_change(next: i64, old: i64) -> i64 {
    if i128::from(next) * 20 < i128::from(old) * 19 {
        old * 19 / 20
    } else if i128::from(next) * 20 > i128::from(old) * 21 {
        old * 21 / 20
    } else {
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difficulty(blocks: &[(u64, i32)], target_time: u32) -> Option<u64> {
        let mut window = Window::default();
        blocks.iter().for_each(|(difficulty, time)| window.push(*difficulty, Timestamp(*time)));
        window.difficulty(target_time)
    }

    #[test]
    fn a_chain_begins_with_the_initial_difficulty() {
        assert_eq!(difficulty(&[], 60), Some(INITIAL));
        assert_eq!(difficulty(&[(INITIAL, 0)], 60), Some(INITIAL));
    }

    #[test]
    fn it_changes_by_a_twentieth_at_most_and_keeps_within_its_bounds() {
        assert_eq!(difficulty(&[(INITIAL, 0), (INITIAL, 60)], 60), Some(INITIAL));
        assert_eq!(difficulty(&[(INITIAL, 0), (INITIAL, 6000)], 60), Some(INITIAL / 20 * 19));
        assert_eq!(difficulty(&[(INITIAL, 0), (INITIAL, 1)], 60), Some(INITIAL / 20 * 21));
        assert_eq!(difficulty(&[(MIN as u64, 0), (MIN as u64, 6000)], 60), Some(MIN as u64));
        assert_eq!(difficulty(&[(MAX as u64, 0), (MAX as u64, 1)], 60), Some(MAX as u64));
    }

    #[test]
    fn a_window_in_which_no_time_passes_has_no_successor() {
        assert_eq!(difficulty(&[(INITIAL, 7), (INITIAL, 7)], 60), None);
    }
}
