//! Fan-out query: one question to several peers, until all have answered or failed.

/// Collected answers and the number of outstanding ones.
#[derive(Debug)]
pub struct Round<T> {
    outstanding: usize,
    heard: Vec<T>,
}

impl<T> Default for Round<T> {
    fn default() -> Round<T> {
        Round { outstanding: 0, heard: Vec::new() }
    }
}

impl<T> Round<T> {
    /// Creates a query to `outstanding` peers.
    pub fn new(outstanding: usize) -> Round<T> {
        Round { outstanding, heard: Vec::with_capacity(outstanding) }
    }

    /// Returns whether no answer is outstanding.
    pub fn is_over(&self) -> bool {
        self.outstanding == 0
    }

    /// Records an answer, or a failure as `None`. Returns all answers with the last one. Ignores answers after the end.
    pub fn hear(&mut self, answer: Option<T>) -> Option<Vec<T>> {
        self.outstanding = self.outstanding.checked_sub(1)?;
        self.heard.extend(answer);
        self.is_over().then(|| std::mem::take(&mut self.heard))
    }

    /// Ends the query and returns the answers so far.
    pub fn cut_short(&mut self) -> Vec<T> {
        self.outstanding = 0;
        std::mem::take(&mut self.heard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_ends_with_its_last_answer_and_hears_nothing_after_it() {
        let mut round = Round::new(3);
        assert_eq!((round.hear(Some(1)), round.hear(None), round.is_over()), (None, None, false));
        assert_eq!(round.hear(Some(2)), Some(vec![1, 2]));
        assert_eq!((round.hear(Some(3)), round.is_over()), (None, true));
        assert!(Round::<()>::new(0).is_over());
        let mut round = Round::new(2);
        assert_eq!((round.hear(Some(1)), round.cut_short(), round.hear(Some(2))), (None, vec![1], None));
    }
}
