//! Errors of requests to peers, and their effect on the state of a peer.

use std::fmt;

use crate::codec::{Context, Format};
use crate::peer::io::Reply;
use crate::peer::wire::{AnswerError, ErrorBody};

/// Maximum number of characters of a peer's text that are kept or logged.
const MAX_TEXT: usize = 128;

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// Timed out, or starting.
    Busy,
    /// Unreachable.
    Inactive,
    /// Anything else.
    Failure,
}

/// Error of a request to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerError {
    /// Effect on the peer's state.
    pub kind: FailureKind,
    /// Message for people.
    pub reason: String,
}

impl PeerError {
    /// Creates an error.
    pub fn new(kind: FailureKind, reason: impl fmt::Display) -> PeerError {
        PeerError { kind, reason: reason.to_string() }
    }

    /// Creates an error that the peer is to blame for.
    pub fn failure(reason: impl fmt::Display) -> PeerError {
        PeerError::new(FailureKind::Failure, reason)
    }

    /// Converts an unsuccessful reply. A peer that is still starting is not to blame.
    pub fn from_reply(response: Reply, format: Format, context: Context) -> PeerError {
        match response {
            Reply::Answer { .. } => PeerError::failure("the answer is unusable"),
            Reply::Unreachable(reason) => PeerError { kind: FailureKind::Inactive, reason },
            Reply::TimedOut => PeerError::new(FailureKind::Busy, "it did not answer in time"),
            Reply::Failed(reason) => PeerError { kind: FailureKind::Failure, reason },
            Reply::ErrorStatus { status, body } => match format.read::<ErrorBody<'_>>(&body, context) {
                Ok(error) if error.is_starting() && status == 503 => {
                    PeerError::new(FailureKind::Busy, "it is starting")
                }
                Ok(ErrorBody { message: Some(text), .. }) => {
                    PeerError::failure(format!("status {status}: {}", sanitize(&text)))
                }
                _ => PeerError::failure(format!("status {status}")),
            },
        }
    }
}

/// Replaces control characters in a peer's text by `?` and truncates it.
pub fn sanitize(text: &str) -> String {
    text.chars().take(MAX_TEXT).map(|c| if c.is_control() { '?' } else { c }).collect()
}

impl From<AnswerError> for PeerError {
    fn from(error: AnswerError) -> PeerError {
        PeerError::failure(sanitize(&error.to_string()))
    }
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
