//! Injected randomness: the same numbers produce the same choices.

/// Source of random numbers; any closure that returns `u64` is one.
pub trait RandomSource {
    /// Returns 64 random bits.
    fn bits(&mut self) -> u64;

    /// Returns a number in [0, 1).
    fn fraction(&mut self) -> f64 {
        // 53 bits, the precision of a double: the result is exact.
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number below `count`, or 0 if `count` is 0. The bias is at most `count` in 2⁶⁴.
    fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.bits()) * count as u128) >> 64) as usize
    }

    /// Moves `wanted` items, or all if there are fewer, to the front. Every choice and order is equally likely. Takes
    /// one number per moved item.
    fn choose<T>(&mut self, items: &mut [T], wanted: usize)
    where
        Self: Sized,
    {
        for place in 0..wanted.min(items.len()) {
            items.swap(place, place + self.below(items.len() - place));
        }
    }
}

impl<F: FnMut() -> u64> RandomSource for F {
    fn bits(&mut self) -> u64 {
        self()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::samples::seeded;

    #[test]
    fn fractions_lie_from_0_up_to_1_without_it() {
        assert_eq!((|| 0).fraction(), 0.0);
        assert_eq!((|| u64::MAX).fraction(), 1.0 - f64::EPSILON / 2.0);
        let mut random = seeded(2);
        let mean = (0..10_000).map(|_| random.fraction()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
    }

    #[test]
    fn numbers_below_a_bound_are_uniform_and_exclude_the_bound() {
        assert_eq!((|| u64::MAX).below(7), 6);
        assert_eq!((|| u64::MAX).below(0), 0);
        let (mut random, mut met) = (seeded(2), [0; 7]);
        (0..70_000).for_each(|_| met[random.below(7)] += 1);
        assert!(met.iter().all(|times| (9_600..10_400).contains(times)), "{met:?}");
    }

    #[test]
    fn items_are_chosen_uniformly_and_without_repetition() {
        let (mut random, mut met) = (seeded(3), [0; 10]);
        for _ in 0..10_000 {
            let mut items: Vec<_> = (0..10).collect();
            random.choose(&mut items, 3);
            items[..3].iter().for_each(|item| met[*item] += 1);
            items.sort_unstable();
            assert_eq!(items, (0..10).collect::<Vec<_>>());
        }
        assert!(met.iter().all(|times| (2_800..3_200).contains(times)), "{met:?}");
        let mut few = [1, 2];
        random.choose(&mut few, 100);
        random.choose(&mut [0; 0], 1);
        few.sort_unstable();
        assert_eq!(few, [1, 2]);
    }
}
