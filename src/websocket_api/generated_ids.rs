//! Ids of subscriptions that the client does not name: `sub-0`, `sub-1` and so on. A client may use the same ids itself.

use std::rc::Rc;

/// Prefix of generated ids; a number follows.
const PREFIX: &str = "sub-";

/// Returns the generated id with a number.
pub fn generated_id(number: u64) -> Rc<str> {
    Rc::from(format!("{PREFIX}{number}"))
}

/// Returns the number of a generated id; `None` for an id that is never generated.
pub fn number_of(id: &str) -> Option<u64> {
    let digits = id.strip_prefix(PREFIX)?;
    let is_generated = digits == "0" || !digits.starts_with(['0', '+']);
    digits.parse().ok().filter(|_| is_generated)
}

const WORDS: usize = 16;

/// Which of the first 1,024 generated ids a session uses: more than it may have subscriptions, so that one of them is free.
#[derive(Debug, Default)]
pub struct UsedIds([u64; WORDS]);

impl UsedIds {
    /// Records whether an id is in use.
    pub fn set(&mut self, id: &str, is_used: bool) {
        let Some(number) = number_of(id) else { return };
        let place = usize::try_from(number / u64::from(u64::BITS)).ok();
        let Some(word) = place.and_then(|place| self.0.get_mut(place)) else { return };
        let bit = 1 << (number % u64::from(u64::BITS));
        *word = if is_used { *word | bit } else { *word & !bit };
    }

    /// Returns the lowest number that is free, or the one after all that are known here.
    pub fn lowest_free(&self) -> u64 {
        let place = self.0.iter().position(|word| *word != u64::MAX).unwrap_or(WORDS);
        let used = self.0.get(place).map_or(0, |word| word.trailing_ones());
        place as u64 * u64::from(u64::BITS) + u64::from(used)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::websocket_api::Limits;

    #[test]
    fn ids_with_another_spelling_of_a_number_are_not_generated() {
        assert_eq!(["sub-0", "sub-17", "sub-1023"].map(number_of), [Some(0), Some(17), Some(1023)]);
        for id in ["sub-", "sub-00", "sub-01", "sub-+1", "sub--1", "sub-1 ", "Sub-1", "1", "sub-99999999999999999999"] {
            assert_eq!(number_of(id), None, "{id}");
        }
    }

    #[test]
    fn one_of_the_known_ids_is_free_with_as_many_subscriptions_as_a_session_may_have() {
        let mut used = UsedIds::default();
        let count = Limits::default().subscriptions_per_session as u64;
        (0..count).for_each(|number| used.set(&generated_id(number), true));
        assert_eq!(used.lowest_free(), count);
        (count..5_000).for_each(|number| used.set(&generated_id(number), true));
        assert_eq!(used.lowest_free(), 1_024);
        used.set("sub-1023", false);
        assert_eq!(used.lowest_free(), 1_023);
    }

    proptest! {
        #[test]
        fn the_lowest_free_id_is_known_after_any_changes(
            changes in prop::collection::vec((any::<bool>(), 0..200u64), 0..400)
        ) {
            let (mut used, mut plain) = (UsedIds::default(), BTreeSet::new());
            for (is_used, number) in changes {
                used.set(&generated_id(number), is_used);
                if is_used { plain.insert(number); } else { plain.remove(&number); }
                prop_assert_eq!(Some(used.lowest_free()), (0..).find(|number| !plain.contains(number)));
            }
        }
    }
}
