//! State machine of the helper process that waits for the disk: what is to be synchronised next, and how far it is.
//!
//! It does nothing itself. [`super::durability::Durability`] requests synchronisation and handles the answers; the event
//! loop carries requests to the helper process and returns its answers.

/// A file of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncFile {
    /// The data file.
    Data,
    /// The durable-meta file.
    Record,
}

/// Progress of making the last commit durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncState {
    /// There is no helper: the caller waits for the disk itself.
    #[default]
    NoHelper,
    /// The helper is idle.
    Idle,
    /// Synchronisation of this file is requested.
    Requested(SyncFile),
    /// The helper is synchronising this file.
    Begun(SyncFile),
    /// The helper is working on a request that is obsolete: its next answer is ignored.
    Obsolete,
}

/// Meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This file is on the disk, as it was when it was requested.
    Done(SyncFile),
    /// The answer is to be ignored.
    Ignored,
}

impl SyncState {
    /// Returns whether there is a helper.
    pub fn has_helper(self) -> bool {
        self != SyncState::NoHelper
    }

    /// Returns whether an answer is expected before anything else can happen.
    pub fn is_waiting(self) -> bool {
        !matches!(self, SyncState::NoHelper | SyncState::Idle)
    }

    /// Requests that the last commit is made durable, unless a request or an obsolete answer is pending.
    pub fn request(&mut self) {
        if *self == SyncState::Idle {
            *self = SyncState::Requested(SyncFile::Data);
        }
    }

    /// Returns the file that the helper is to synchronise now. Returns each request once.
    pub fn begin(&mut self) -> Option<SyncFile> {
        let SyncState::Requested(file) = *self else { return None };
        *self = SyncState::Begun(file);
        Some(file)
    }

    /// Handles an answer of the helper.
    pub fn on_answer(&mut self) -> Answer {
        match std::mem::replace(self, SyncState::Idle) {
            SyncState::Begun(file) => Answer::Done(file),
            SyncState::Obsolete | SyncState::Idle => Answer::Ignored,
            // The answer was not requested.
            other @ (SyncState::NoHelper | SyncState::Requested(_)) => {
                *self = other;
                Answer::Ignored
            }
        }
    }

    /// Requests synchronisation of the record, which was just written.
    pub fn request_record(&mut self) {
        *self = SyncState::Requested(SyncFile::Record);
    }

    /// Marks requests as obsolete: the last commit was made durable otherwise, or another commit has followed.
    pub fn mark_obsolete(&mut self) {
        *self = match *self {
            SyncState::Begun(_) => SyncState::Obsolete,
            SyncState::Requested(_) => SyncState::Idle,
            other => other,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_then_the_record_are_synced_once_each() {
        let mut state = SyncState::Idle;
        state.request();
        state.request();
        assert!(state.is_waiting());
        assert_eq!(state.begin(), Some(SyncFile::Data));
        assert_eq!(state.begin(), None);
        state.request();
        assert_eq!(state.on_answer(), Answer::Done(SyncFile::Data));
        state.request_record();
        assert_eq!(state.begin(), Some(SyncFile::Record));
        assert_eq!(state.on_answer(), Answer::Done(SyncFile::Record));
        assert_eq!((state, state.is_waiting()), (SyncState::Idle, false));
    }

    #[test]
    fn an_answer_to_an_older_request_does_not_make_a_later_commit_durable() {
        let mut state = SyncState::Idle;
        state.request();
        state.begin();
        state.mark_obsolete();
        state.request();
        assert_eq!(state.begin(), None, "the older answer has to come first");
        assert_eq!(state.on_answer(), Answer::Ignored);
        state.request();
        assert_eq!(state.begin(), Some(SyncFile::Data));
    }

    #[test]
    fn sync_needs_a_helper_and_unrequested_answers_are_ignored() {
        let mut state = SyncState::default();
        state.request();
        assert_eq!((state.begin(), state.is_waiting(), state.has_helper()), (None, false, false));
        assert_eq!(state.on_answer(), Answer::Ignored);
        let mut state = SyncState::Idle;
        state.request();
        assert_eq!(state.on_answer(), Answer::Ignored);
        assert_eq!(state.begin(), Some(SyncFile::Data));
    }
}
