//! An allocator of the lowest free number.

use std::collections::BTreeMap;

/// A set of numbers, stored as ranges, so that the next free number is found without visiting each number.
#[derive(Debug, Default)]
pub struct RangeSet {
    /// First and last number of each range. At least one free number lies between two ranges.
    ranges: BTreeMap<u32, u32>,
}

impl RangeSet {
    /// Adds a number that is not in the set.
    pub fn insert(&mut self, number: u32) {
        let (mut first, mut last) = (number, number);
        if let Some((&start, &end)) = self.ranges.range(..number).next_back()
            && number.checked_sub(1) == Some(end)
        {
            first = start;
        }
        if let Some(next) = number.checked_add(1)
            && let Some(end) = self.ranges.remove(&next)
        {
            last = end;
        }
        self.ranges.insert(first, last);
    }

    /// Removes a number; a number that is not in the set is ignored.
    pub fn remove(&mut self, number: u32) {
        let Some((&first, &last)) = self.ranges.range(..=number).next_back() else { return };
        if number > last {
            return;
        }
        self.ranges.remove(&first);
        if first < number {
            self.ranges.insert(first, number - 1);
        }
        if number < last {
            self.ranges.insert(number + 1, last);
        }
    }

    /// Returns the lowest number from `from` that is not in the set; wraps to 0 after the highest number.
    pub fn free_from(&self, from: u32) -> u32 {
        match self.ranges.range(..=from).next_back() {
            Some((_, &last)) if last >= from => match last.checked_add(1) {
                Some(free) => free,
                None => self.free_from(0),
            },
            _ => from,
        }
    }

    /// Returns whether the set is empty.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_wrap_from_the_highest_to_the_lowest() {
        let mut numbers = RangeSet::default();
        numbers.insert(u32::MAX);
        numbers.insert(0);
        assert_eq!((numbers.free_from(u32::MAX), numbers.free_from(0)), (1, 1));
    }

    proptest! {
        #[test]
        fn the_free_number_is_the_first_that_is_not_in_the_set(changes in prop::collection::vec(0..40u32, 0..200)) {
            let (mut numbers, mut expected) = (RangeSet::default(), BTreeSet::new());
            for number in changes {
                if expected.insert(number) {
                    numbers.insert(number);
                } else {
                    expected.remove(&number);
                    numbers.remove(number);
                }
                for from in 0..42 {
                    prop_assert_eq!(Some(numbers.free_from(from)), (from..).find(|n| !expected.contains(n)));
                }
            }
            for number in expected {
                numbers.remove(number);
            }
            prop_assert!(numbers.is_empty());
        }
    }
}
