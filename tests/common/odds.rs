//! When the next block is to be expected and who will make it, by the formulas of specification 02 §4.4 and §4.5 taken
//! as probabilities; and how far what happened is from that.

/// How targets of a network grow.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Seconds between blocks that the difficulty aims at.
    pub target_time: f64,
    /// Whether late blocks become easier.
    pub stabilized: bool,
}

/// The odds for one block. A hit is exponentially distributed and drawn once per key and block; the key makes the block
/// at the first second at which its target exceeds the hit.
#[derive(Clone, Debug)]
pub struct Odds {
    /// Chance that the block is made after 1, 2, … seconds.
    pub seconds: Vec<f64>,
    stakes: Vec<f64>,
    /// What a stake of 1 has gained in the last of each of these seconds.
    growth: Vec<f64>,
}

/// Chance of a still later block that is neglected.
const NEGLECTED: f64 = 1e-12;

impl Odds {
    /// For keys in the order in which they are tried, at a difficulty.
    pub fn new(pace: Pace, difficulty: u64, stakes: Vec<f64>) -> Odds {
        let all: f64 = stakes.iter().sum();
        let (mut seconds, mut growth, mut before, mut left) = (Vec::new(), Vec::new(), 0.0, 1.0);
        while left > NEGLECTED {
            let elapsed = (seconds.len() + 1) as f64;
            let late = 6.0 * (elapsed - pace.target_time) / pace.target_time;
            let factor = if pace.stabilized { late.exp().min(100.0) } else { 1.0 };
            // 2^64 of the target over 2^54 of the hit.
            let now = 1024.0 * elapsed * factor / difficulty as f64;
            growth.push(now - before);
            let still_left = (-all * now).exp();
            seconds.push(left - still_left);
            (before, left) = (now, still_left);
        }
        Odds { seconds, stakes, growth }
    }

    /// Importances in whole units, of the keys in the order in which they are tried.
    pub fn stakes(&self) -> &[f64] {
        &self.stakes
    }

    /// Chances of the keys to make the block if it is made after so many seconds. Of those that hit in the same second
    /// it is the first.
    pub fn winners(&self, seconds: usize) -> Vec<f64> {
        let growth = self.growth.get(seconds - 1).copied().unwrap_or_default();
        let (mut chances, mut none) = (Vec::new(), 1.0);
        for stake in &self.stakes {
            let misses = (-stake * growth).exp();
            chances.push(none * (1.0 - misses));
            none *= misses;
        }
        chances.iter().map(|chance| chance / (1.0 - none)).collect()
    }
}

/// Pearson's measure of how far counts are from what is expected, with its degrees of freedom.
pub fn chi_square(counts: &[f64], expected: &[f64]) -> (f64, usize) {
    let distance = counts.iter().zip(expected).map(|(count, expected)| (count - expected).powi(2) / expected).sum();
    (distance, counts.len() - 1)
}

/// What that measure exceeds once in a million times if the expectation is right (Wilson and Hilferty).
pub fn chi_square_bound(degrees: usize) -> f64 {
    const ONCE_IN_A_MILLION: f64 = 4.7534;
    let spread = 2.0 / (9.0 * degrees as f64);
    degrees as f64 * (1.0 - spread + ONCE_IN_A_MILLION * spread.sqrt()).powi(3)
}

/// Joins neighbouring cells until a twentieth of the whole is expected in each.
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
