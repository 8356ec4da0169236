//! The difficulty of a block (specification 02 §4.2).

const INITIAL: u64 = 100_000_000_000_000;
const MIN: i64 = 10_000_000_000_000;
const MAX: i64 = 1_000_000_000_000_000;

/// Blocks whose difficulties and time stamps decide on the next difficulty.
pub const WINDOW: usize = 60;

/// Difficulty of the block after a window of blocks, given as difficulty and time stamp, the oldest first.
/// `None` if no time passed within the window, which no valid chain does.
pub fn difficulty(window: &[(u64, i32)], target_time: u32) -> Option<u64> {
    let (Some(first), Some(last)) = (window.first(), window.last()) else { return Some(INITIAL) };
    if window.len() < 2 {
        return Some(INITIAL);
    }
    let count = window.len() as i64;
    let elapsed = i128::from(last.1.wrapping_sub(first.1));
    let average = window.iter().map(|(difficulty, _)| *difficulty as i64).sum::<i64>() / count;
    let product = i128::from(average) * i128::from(target_time) * i128::from(count - 1);
    let next = product.checked_div(elapsed)? as i64;
    Some(limit_change(next, last.0 as i64).clamp(MIN, MAX) as u64)
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
