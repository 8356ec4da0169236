//! The score of a block.

/// Returns a block's contribution to the score of its chain: its difficulty minus the seconds since its parent.
pub fn block_score(difficulty: u64, elapsed: i32) -> i64 {
    (difficulty as i64).wrapping_sub(i64::from(elapsed))
}
