//! What the broker wants done, in order.

use std::collections::VecDeque;

use super::ApiRequest;

/// One thing the broker wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send `frame` to the session as one unfragmented websocket text message.
    Send {
        /// The caller's connection id.
        session: u64,
        /// Valid UTF-8 unless a published body was not.
        frame: Vec<u8>,
    },
    /// Close the websocket, after all frames before it, and then call `Broker::close`. Nothing
    /// follows for this session.
    Close {
        /// The caller's connection id.
        session: u64,
        /// Websocket close code.
        code: u16,
        /// Websocket close reason, possibly empty.
        reason: String,
    },
    /// Answer the request by publishing (specification 07 §8.2); replies go to all subscribers.
    Request {
        /// The connection that asked, for accounting only.
        session: u64,
        /// What was asked.
        request: ApiRequest,
    },
}

/// A queue of [`Output`]s. Empty it after each call that fills it: its length is bounded only by
/// what one websocket message or one publication can cause.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: VecDeque<Output>,
}

impl Outbox {
    /// An empty outbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends.
    pub fn push(&mut self, output: Output) {
        self.queue.push_back(output);
    }

    /// Takes the oldest.
    pub fn pop(&mut self) -> Option<Output> {
        self.queue.pop_front()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
