//! Amounts by key, with the largest at hand.

use std::collections::{BTreeMap, BTreeSet};

/// Amounts by key, ordered by amount.
#[derive(Debug)]
pub struct Ranking<K> {
    amounts: BTreeMap<K, usize>,
    ranked: BTreeSet<(usize, K)>,
    total: usize,
}

impl<K> Default for Ranking<K> {
    fn default() -> Ranking<K> {
        Ranking { amounts: BTreeMap::new(), ranked: BTreeSet::new(), total: 0 }
    }
}

impl<K: Copy + Ord> Ranking<K> {
    /// Sets the amount of a key. An amount of 0 removes the key.
    pub fn set(&mut self, key: K, amount: usize) {
        let before = match amount {
            0 => self.amounts.remove(&key),
            _ => self.amounts.insert(key, amount),
        };
        if let Some(before) = before {
            self.ranked.remove(&(before, key));
            self.total = self.total.saturating_sub(before);
        }
        if amount > 0 {
            self.ranked.insert((amount, key));
            self.total = self.total.saturating_add(amount);
        }
    }

    /// Returns the amount of a key, 0 if it has none.
    pub fn of(&self, key: &K) -> usize {
        self.amounts.get(key).copied().unwrap_or(0)
    }

    /// Returns the largest amount and its key.
    pub fn largest(&self) -> Option<(usize, K)> {
        self.ranked.last().copied()
    }

    /// Returns the sum of all amounts.
    pub fn total(&self) -> usize {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_largest_amount_and_the_sum_are_those_of_all_amounts(steps in prop::collection::vec((0u8..6, 0usize..9), 0..60)) {
            let (mut ranking, mut amounts) = (Ranking::default(), [0; 6]);
            for (key, amount) in steps {
                ranking.set(key, amount);
                amounts[usize::from(key)] = amount;
                prop_assert_eq!(ranking.total(), amounts.iter().sum::<usize>());
                let largest = ranking.largest();
                prop_assert_eq!(largest.map_or(0, |(amount, _)| amount), *amounts.iter().max().unwrap());
                if let Some((amount, key)) = largest {
                    prop_assert_eq!((ranking.of(&key), amounts[usize::from(key)]), (amount, amount));
                }
            }
        }
    }
}
