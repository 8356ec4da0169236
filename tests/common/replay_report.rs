//! The result of a replay of recordings: what differs, and where.

use std::collections::BTreeMap;

use super::print_notice;

/// Maximum number of differences per place that are printed in full.
const SHOWN_PER_PLACE: usize = 8;

/// What was replayed so far.
#[derive(Default)]
pub struct ReplayReport {
    pub replayed: usize,
    /// Reasons for which something was not compared, with numbers.
    skipped: BTreeMap<String, usize>,
    /// Differences by place, such as a route or a step of a conversation.
    differences: BTreeMap<String, Vec<String>>,
    /// What else is printed.
    pub notes: Vec<String>,
}

impl ReplayReport {
    /// Adds differences at a place, if there are any.
    pub fn note(&mut self, place: &str, found: impl IntoIterator<Item = String>) {
        let mut found = found.into_iter().peekable();
        if found.peek().is_some() {
            self.differences.entry(place.to_owned()).or_default().extend(found);
        }
    }

    /// Counts something that is not compared.
    pub fn skip(&mut self, reason: &str) {
        *self.skipped.entry(reason.to_owned()).or_default() += 1;
    }

    /// Prints the result and fails if anything differs, or nothing was replayed.
    #[track_caller]
    pub fn conclude(self, name: &str) {
        let mut text = format!("{name}: {} replayed", self.replayed);
        for (reason, count) in &self.skipped {
            text.push_str(&format!("\n  skipped {count}: {reason}"));
        }
        self.notes.iter().for_each(|note| text.push_str(&format!("\n  {note}")));
        for (place, found) in &self.differences {
            text.push_str(&format!("\n  {} differences of {place}:", found.len()));
            found.iter().take(SHOWN_PER_PLACE).for_each(|found| text.push_str(&format!("\n    {found}")));
        }
        print_notice(&text);
        assert!(self.replayed > 0, "{name}: nothing was replayed");
        assert!(self.differences.is_empty(), "{name}: {} places differ (see above)", self.differences.len());
    }
}
