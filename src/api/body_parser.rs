//! Large bodies of JSON: parsed in steps, and only a few at a time.
//!
//! While it is parsed, a body can take ten times its length and more. If all bodies were parsed at the same time, they
//! would take each other's memory and none would be completed. So a request waits for a turn of [`ParsingTurns`] first;
//! until then it is only what the connection has received. A turn is short: whose client has to wait for other reasons keeps
//! nobody else waiting, and its parser is one of the streams of which the largest gives way.

use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::error::ApiError;
use super::request_context::{NodeContext, RequestContext};
use super::streams::{BodyWriter, ResponseStream};
use crate::budget::cost;
use crate::codec::lenient_json::{LenientJsonError, Parser, Value};
use crate::codec::wipe::Wiped;
use crate::net::service::{ConnectionId, Progress};
use crate::quota::{Owner, Quota};

/// Bodies of all clients that are parsed at a time.
pub const MAX_PARSED_BODIES: usize = 4;
/// Time after which a turn no longer counts.
pub const TURN_TIME: Duration = Duration::from_millis(250);

/// The value of a body of JSON, which is wiped when it is dropped.
pub type ParsedBody = Result<Wiped<Value>, LenientJsonError>;

/// Parses a body of JSON in steps.
pub(super) struct BodyParser {
    parser: Parser,
    parsed: Option<ParsedBody>,
    /// The turn, which ends with the parser.
    _turn: ParsingTurn,
}

impl BodyParser {
    pub fn new(parser: Parser, turn: ParsingTurn) -> BodyParser {
        BodyParser { parser, parsed: None, _turn: turn }
    }
}

impl ResponseStream for BodyParser {
    fn write_chunk(&mut self, node: &mut NodeContext<'_>, _: &mut BodyWriter<'_>) -> Result<Progress, ApiError> {
        let before = self.parser.parsed();
        let parsed = self.parser.advance(node.budget.left() as usize * cost::JSON_BYTES_PER_UNIT).transpose();
        node.budget.charge(cost::json(self.parser.parsed() - before));
        let Some(parsed) = parsed else { return Ok(Progress::Yield) };
        self.parsed = Some(parsed.map(Wiped));
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        self.parser.held_bytes()
    }

    /// The handler of the request comes next.
    fn finish(self: Box<Self>, context: &mut RequestContext<'_>) -> Result<(), ApiError> {
        context.parsed_body = self.parsed;
        context.route.map_or(Ok(()), |route| (route.handler)(context))
    }
}

/// A turn to parse a body. It ends when it is dropped, or after [`TURN_TIME`].
pub(super) type ParsingTurn = Rc<()>;

/// The requests that wait until their body is parsed: whoever has used least of the parser is next. Times are monotonic.
#[derive(Default)]
pub struct ParsingTurns {
    waiting: Quota<ConnectionId>,
    /// Turns of requests that are resumed.
    granted: BTreeMap<ConnectionId, ParsingTurn>,
    /// The turns that count, each with its beginning.
    turns: Vec<(Duration, Weak<()>)>,
}

impl ParsingTurns {
    /// Returns the turn of a request with a body of this length, or `None` if it waits for one: then [`ParsingTurns::grant`]
    /// returns its connection later, and it asks again.
    pub(super) fn take(
        &mut self,
        connection: ConnectionId,
        client: Owner,
        length: usize,
        now: Duration,
    ) -> Option<ParsingTurn> {
        if let Some(turn) = self.granted.remove(&connection) {
            return Some(turn);
        }
        self.waiting.charge(client, cost::json(length), now);
        if self.has_free(now) && !self.waiting.has_waiting() {
            return Some(self.begin(now));
        }
        self.waiting.hold(connection, client, length, now);
        self.waiting.wait(connection, now);
        None
    }

    /// Gives free turns to requests that wait. Returns their connections, to be resumed.
    pub(super) fn grant(&mut self, now: Duration) -> Vec<ConnectionId> {
        let mut granted = Vec::new();
        while self.waiting.has_waiting()
            && self.has_free(now)
            && let Some((_, connection)) = self.waiting.next(now)
        {
            self.waiting.release(connection, now);
            let turn = self.begin(now);
            self.granted.insert(connection, turn);
            granted.push(connection);
        }
        granted
    }

    /// Returns when [`ParsingTurns::grant`] must be called at the latest, if a request waits.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let first = self.turns.first().filter(|_| self.waiting.has_waiting());
        first.map(|(since, _)| *since + TURN_TIME)
    }

    /// Forgets the request of a connection that was closed or answered otherwise.
    pub(super) fn forget(&mut self, connection: ConnectionId, now: Duration) {
        self.waiting.release(connection, now);
        self.granted.remove(&connection);
    }

    fn has_free(&mut self, now: Duration) -> bool {
        self.turns.retain(|(since, turn)| turn.strong_count() > 0 && now < *since + TURN_TIME);
        self.turns.len() < MAX_PARSED_BODIES
    }

    fn begin(&mut self, now: Duration) -> ParsingTurn {
        let turn = Rc::new(());
        self.turns.push((now, Rc::downgrade(&turn)));
        turn
    }
}

#[cfg(test)]
mod tests;
