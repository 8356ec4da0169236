//! Large bodies of JSON: parsed in steps, and only a few at a time.
//!
//! While it is parsed, a body can take ten times its length and more. If all bodies were parsed at the same time, they
//! would take each other's memory and none would be completed. So a request waits for a turn of [`ParsingTurns`] first;
//! until then it is only what the connection has received.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use super::Format;
use super::error::ApiError;
use super::request_context::NodeContext;
use super::streams::{BodyWriter, ResponseStream};
use crate::budget::{Budget, cost};
use crate::codec::lenient_json::{LenientJsonError, Parser, Value};
use crate::codec::wipe::Wiped;
use crate::codec::{self, ReadError};
use crate::net::service::{ConnectionId, Progress};
use crate::quota::{Owner, Quota};

/// Bodies of all clients that are parsed at a time.
pub const MAX_PARSED_BODIES: usize = 4;

/// The value of a body of JSON, which is wiped when it is dropped.
pub(super) type ParsedBody = Result<Wiped<Value>, ReadError>;

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
        let parsed = parse_step(&mut self.parser, &mut node.budget).transpose();
        let Some(parsed) = parsed else { return Ok(Progress::Yield) };
        self.parsed = Some(parsed.map(Wiped).map_err(codec::not_json));
        Ok(Progress::Done)
    }

    fn held_bytes(&self) -> usize {
        self.parser.held_bytes()
    }

    fn take_body(&mut self) -> Option<ParsedBody> {
        self.parsed.take()
    }

    fn is_streamable(&self, _: Format) -> bool {
        false
    }
}

/// Parses a body within the budget. Returns its value once it is complete.
pub fn parse_step(parser: &mut Parser, budget: &mut Budget) -> Result<Option<Value>, LenientJsonError> {
    let before = parser.parsed();
    let parsed = parser.advance(budget.left() as usize * cost::JSON_BYTES_PER_UNIT);
    budget.charge(cost::json(parser.parsed() - before));
    parsed
}

/// A turn to parse a body. It ends when it is dropped.
pub(super) type ParsingTurn = Rc<()>;

/// The requests that wait until their body is parsed: whoever has used least of the parser is next.
#[derive(Default)]
pub struct ParsingTurns {
    /// Their time is the number of requests so far.
    waiting: Quota<ConnectionId>,
    requests: u64,
    /// Turns of requests that are resumed.
    granted: BTreeMap<ConnectionId, ParsingTurn>,
    /// Every turn is a reference to it.
    turns: ParsingTurn,
}

impl ParsingTurns {
    /// Returns the turn of a request with a body of this length, or `None` if it waits for one: then [`ParsingTurns::grant`]
    /// returns its connection later, and it asks again.
    pub(super) fn take(&mut self, connection: ConnectionId, client: Owner, length: usize) -> Option<ParsingTurn> {
        if let Some(turn) = self.granted.remove(&connection) {
            return Some(turn);
        }
        self.requests += 1;
        self.waiting.charge(client, cost::json(length), self.time());
        if self.has_free() && !self.waiting.has_waiting() {
            return Some(self.turns.clone());
        }
        self.waiting.hold(connection, client, length, self.time());
        self.waiting.wait(connection, self.time());
        None
    }

    /// Gives free turns to requests that wait. Returns their connections, to be resumed.
    pub(super) fn grant(&mut self) -> Vec<ConnectionId> {
        let mut granted = Vec::new();
        while self.has_free()
            && let Some((_, connection)) = self.waiting.next(self.time())
        {
            self.waiting.release(connection, self.time());
            self.granted.insert(connection, self.turns.clone());
            granted.push(connection);
        }
        granted
    }

    fn has_free(&self) -> bool {
        Rc::strong_count(&self.turns) <= MAX_PARSED_BODIES
    }

    /// Forgets the request of a connection that was closed or answered otherwise.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.waiting.release(connection, self.time());
        self.granted.remove(&connection);
    }

    fn time(&self) -> Duration {
        Duration::from_nanos(self.requests)
    }
}
