//! Errors of requests to peers.

use std::fmt;

use crate::codec::{Context, Format};
use crate::peer::io::Reply;
use crate::peer::peer_table::FailureKind;
use crate::peer::wire::{AnswerError, ErrorBody};

/// Maximum number of characters of a peer's text that are kept or logged.
const MAX_TEXT: usize = 128;

/// Error of a request to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerError {
    /// Effect on the peer's state.
    pub kind: FailureKind,
    /// Message for people.
    pub reason: String,
}

impl PeerError {
    /// Creates an error that the peer is to blame for.
    pub fn failure(reason: impl fmt::Display) -> PeerError {
        PeerError { kind: FailureKind::Failure, reason: reason.to_string() }
    }

    /// Converts an unsuccessful reply. A peer that is still starting is not to blame.
    pub fn from_reply(response: Reply, format: Format, context: Context) -> PeerError {
        let of = |trouble, reason| PeerError { kind: trouble, reason };
        match response {
            Reply::Answer { .. } => PeerError::failure("the answer is unusable"),
            Reply::Unreachable(reason) => of(FailureKind::Inactive, reason),
            Reply::TimedOut => of(FailureKind::Busy, "it did not answer in time".to_owned()),
            Reply::Failed(reason) => of(FailureKind::Failure, reason),
            Reply::ErrorStatus { status, body } => match format.read::<ErrorBody<'_>>(&body, context) {
                Ok(error) if error.is_starting() && status == 503 => of(FailureKind::Busy, "it is starting".to_owned()),
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
