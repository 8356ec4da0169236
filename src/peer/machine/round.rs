//! The same question to several nodes, until all of them have answered or failed.

/// Answers to a question that was put to several nodes.
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
    /// A round of so many questions.
    pub fn new(outstanding: usize) -> Round<T> {
        Round { outstanding, heard: Vec::with_capacity(outstanding) }
    }

    /// Whether nothing is outstanding any more.
    pub fn is_over(&self) -> bool {
        self.outstanding == 0
    }

    /// A question was answered, or failed. Returns all answers with the last of them. What comes after the end of a round
    /// is passed over.
    pub fn hear(&mut self, answer: Option<T>) -> Option<Vec<T>> {
        self.outstanding = self.outstanding.checked_sub(1)?;
        self.heard.extend(answer);
        self.is_over().then(|| std::mem::take(&mut self.heard))
    }

    /// Ends the round, with the answers that have come.
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
