//! Fan-out query: one question to several peers, until all have answered or failed.

/// Collected answers and the number of outstanding ones.
#[derive(Debug)]
pub struct FanOutQuery<T> {
    outstanding: usize,
    answers: Vec<T>,
}

impl<T> Default for FanOutQuery<T> {
    fn default() -> FanOutQuery<T> {
        FanOutQuery { outstanding: 0, answers: Vec::new() }
    }
}

impl<T> FanOutQuery<T> {
    /// Creates a query to `outstanding` peers.
    pub fn new(outstanding: usize) -> FanOutQuery<T> {
        FanOutQuery { outstanding, answers: Vec::with_capacity(outstanding) }
    }

    /// Returns whether no answer is outstanding.
    pub fn is_over(&self) -> bool {
        self.outstanding == 0
    }

    /// Records an answer, or a failure as `None`. Returns all answers with the last one. Ignores answers after the end.
    pub fn record(&mut self, answer: Option<T>) -> Option<Vec<T>> {
        self.outstanding = self.outstanding.checked_sub(1)?;
        self.answers.extend(answer);
        self.is_over().then(|| std::mem::take(&mut self.answers))
    }

    /// Ends the query and returns the answers so far.
    pub fn finish_early(&mut self) -> Vec<T> {
        self.outstanding = 0;
        std::mem::take(&mut self.answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fan_out_query_ends_with_its_last_answer_and_ignores_later_ones() {
        let mut round = FanOutQuery::new(3);
        assert_eq!((round.record(Some(1)), round.record(None), round.is_over()), (None, None, false));
        assert_eq!(round.record(Some(2)), Some(vec![1, 2]));
        assert_eq!((round.record(Some(3)), round.is_over()), (None, true));
        assert!(FanOutQuery::<()>::new(0).is_over());
        let mut round = FanOutQuery::new(2);
        assert_eq!((round.record(Some(1)), round.finish_early(), round.record(Some(2))), (None, vec![1], None));
    }
}
