//! Expected time and harvester of the next block, from the formulas of hit and target as probabilities; and a measure
//! of how far observed counts are from these expectations.

/// Network parameters of the target.
#[derive(Clone, Copy, Debug)]
pub struct TargetParameters {
    /// Target time between blocks, in seconds.
    pub target_time: f64,
    /// Whether late blocks become easier.
    pub stabilized: bool,
}

/// Returns the chances that keys of this total importance, in whole units, make a block after 1, 2, … seconds. A hit is
/// exponentially distributed and drawn once per key and block; the key makes the block once its target exceeds the hit.
pub fn chances(pace: TargetParameters, difficulty: u64, importance: f64) -> Vec<f64> {
    /// Smaller chances of later blocks are neglected.
    const NEGLECTED: f64 = 1e-12;
    let (mut chances, mut left) = (Vec::new(), 1.0);
    while left > NEGLECTED {
        let elapsed = (chances.len() + 1) as f64;
        let late = 6.0 * (elapsed - pace.target_time) / pace.target_time;
        let factor = if pace.stabilized { late.exp().min(100.0) } else { 1.0 };
        // The target has a factor of 2^64, the hit one of 2^54.
        let still_left = (-1024.0 * elapsed * factor * importance / difficulty as f64).exp();
        chances.push(left - still_left);
        left = still_left;
    }
    chances
}

/// Returns Pearson's chi-square of the counts and its degrees of freedom.
pub fn chi_square(counts: &[f64], expected: &[f64]) -> (f64, usize) {
    let distance = counts.iter().zip(expected).map(|(count, expected)| (count - expected).powi(2) / expected).sum();
    (distance, counts.len() - 1)
}

/// Returns the bound that chi-square exceeds once in a million times if the expectation is right (Wilson and Hilferty).
pub fn chi_square_bound(degrees: usize) -> f64 {
    const ONCE_IN_A_MILLION: f64 = 4.7534;
    let spread = 2.0 / (9.0 * degrees as f64);
    degrees as f64 * (1.0 - spread + ONCE_IN_A_MILLION * spread.sqrt()).powi(3)
}

/// Joins neighbouring cells until each expects a twentieth of the total.
pub fn cells(counts: &[f64], expected: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let least = expected.iter().sum::<f64>() / 20.0;
    let (mut joined, mut sum): (Vec<(f64, f64)>, _) = (Vec::new(), (0.0, 0.0));
    for (count, expected) in counts.iter().zip(expected) {
        sum = (sum.0 + count, sum.1 + expected);
        if sum.1 >= least {
            joined.push(std::mem::take(&mut sum));
        }
    }
    if let Some(last) = joined.last_mut() {
        *last = (last.0 + sum.0, last.1 + sum.1);
    }
    joined.into_iter().unzip()
}
