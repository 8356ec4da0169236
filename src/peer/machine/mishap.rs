//! Errors of requests to peers.

use std::fmt;

use crate::codec::{Context, Format};
use crate::peer::nodes::Trouble;
use crate::peer::outside::Reply;
use crate::peer::wire::{AnswerError, ErrorBody};

/// Maximum number of characters of a peer's text that are kept or logged.
const MAX_WORDS: usize = 128;

/// Error of a request to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mishap {
    /// Effect on the peer's state.
    pub trouble: Trouble,
    /// Message for people.
    pub reason: String,
}

impl Mishap {
    /// Creates an error that the peer is to blame for.
    pub fn failure(reason: impl fmt::Display) -> Mishap {
        Mishap { trouble: Trouble::Failure, reason: reason.to_string() }
    }

    /// Converts an unsuccessful reply. A peer that is still starting is not to blame.
    pub fn of(reply: Reply, format: Format, context: Context) -> Mishap {
        let of = |trouble, reason| Mishap { trouble, reason };
        match reply {
            Reply::Answer { .. } => Mishap::failure("the answer is of no use"),
            Reply::Unreachable(reason) => of(Trouble::Inactive, reason),
            Reply::Silent => of(Trouble::Busy, "no answer for too long".to_owned()),
            Reply::Broken(reason) => of(Trouble::Failure, reason),
            Reply::Refused { status, body } => match format.read::<ErrorBody<'_>>(&body, context) {
                Ok(error) if error.is_starting() && status == 503 => of(Trouble::Busy, "it is starting".to_owned()),
                Ok(ErrorBody { message: Some(text), .. }) => {
                    Mishap::failure(format!("status {status}: {}", words(&text)))
                }
                _ => Mishap::failure(format!("status {status}")),
            },
        }
    }
}

/// Replaces control characters in a peer's text by `?` and truncates it.
pub fn words(text: &str) -> String {
    text.chars().take(MAX_WORDS).map(|c| if c.is_control() { '?' } else { c }).collect()
}

impl From<AnswerError> for Mishap {
    fn from(error: AnswerError) -> Mishap {
        Mishap::failure(words(&error.to_string()))
    }
}

impl fmt::Display for Mishap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
