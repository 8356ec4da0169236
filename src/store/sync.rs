//! Waiting for the disk in somebody else's process: what is to be synchronised next, and what came of it.
//!
//! A plain state machine that does nothing itself. [`super::settled::Durability`] says when something is to become durable
//! and what follows from an answer; the event loop carries requests to a helper process and brings its answers.

/// A file of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncFile {
    /// The data file.
    Data,
    /// The record of what of it is on the disk.
    Record,
}

/// How far making the last commit durable has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncState {
    /// There is no helper: whoever needs the disk waits for it.
    #[default]
    NoHelper,
    /// The helper has nothing to do.
    Idle,
    /// This file is to be synchronised.
    Requested(SyncFile),
    /// The helper is at it.
    Begun(SyncFile),
    /// The helper is at something that was done without it meanwhile: its next answer says nothing of the last commit.
    Outdated,
}

/// What an answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// This file is on the disk, as it was when that was requested.
    Done(SyncFile),
    /// Nothing that is waited for.
    Nothing,
}

impl SyncState {
    /// Whether there is a helper.
    pub fn has_helper(self) -> bool {
        self != SyncState::NoHelper
    }

    /// Whether an answer has to come before anything else can happen.
    pub fn is_waiting(self) -> bool {
        !matches!(self, SyncState::NoHelper | SyncState::Idle)
    }

    /// Asks for the last commit to be made durable, unless that goes on already or an older answer has to come first.
    pub fn request(&mut self) {
        if *self == SyncState::Idle {
            *self = SyncState::Requested(SyncFile::Data);
        }
    }

    /// What the helper is to do now, told once.
    pub fn begin(&mut self) -> Option<SyncFile> {
        let SyncState::Requested(file) = *self else { return None };
        *self = SyncState::Begun(file);
        Some(file)
    }

    /// The helper has answered.
    pub fn answered(&mut self) -> Answered {
        match std::mem::replace(self, SyncState::Idle) {
            SyncState::Begun(file) => Answered::Done(file),
            SyncState::Outdated | SyncState::Idle => Answered::Nothing,
            // It was not asked.
            other @ (SyncState::NoHelper | SyncState::Requested(_)) => {
                *self = other;
                Answered::Nothing
            }
        }
    }

    /// The record of what is on the disk was written, and is to follow.
    pub fn request_record(&mut self) {
        *self = SyncState::Requested(SyncFile::Record);
    }

    /// The last commit was made durable by other means, or another commit has followed it.
    pub fn outrun(&mut self) {
        *self = match *self {
            SyncState::Begun(_) => SyncState::Outdated,
            SyncState::Requested(_) => SyncState::Idle,
            other => other,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_then_its_record_are_synchronised_each_once() {
        let mut state = SyncState::Idle;
        state.request();
        state.request();
        assert!(state.is_waiting());
        assert_eq!(state.begin(), Some(SyncFile::Data));
        assert_eq!(state.begin(), None);
        state.request();
        assert_eq!(state.answered(), Answered::Done(SyncFile::Data));
        state.request_record();
        assert_eq!(state.begin(), Some(SyncFile::Record));
        assert_eq!(state.answered(), Answered::Done(SyncFile::Record));
        assert_eq!((state, state.is_waiting()), (SyncState::Idle, false));
    }

    #[test]
    fn an_answer_to_what_was_asked_before_another_commit_says_nothing_of_it() {
        let mut state = SyncState::Idle;
        state.request();
        state.begin();
        state.outrun();
        state.request();
        assert_eq!(state.begin(), None, "the older answer has to come first");
        assert_eq!(state.answered(), Answered::Nothing);
        state.request();
        assert_eq!(state.begin(), Some(SyncFile::Data));
    }

    #[test]
    fn without_a_helper_nothing_is_asked_of_it_and_what_was_not_asked_is_not_answered() {
        let mut state = SyncState::default();
        state.request();
        assert_eq!((state.begin(), state.is_waiting(), state.has_helper()), (None, false, false));
        assert_eq!(state.answered(), Answered::Nothing);
        let mut state = SyncState::Idle;
        state.request();
        assert_eq!(state.answered(), Answered::Nothing);
        assert_eq!(state.begin(), Some(SyncFile::Data));
    }
}
