//! Answers that are still being written, by the connection that waits for them.

use std::collections::HashMap;
use std::net::IpAddr;

use super::failure::Failure;
use super::long::LongView;
use crate::net::machine::ConnectionId;

/// Answers that may be unfinished at a time, and those of one address. Further ones are answered 503.
pub const MAX_UNFINISHED: usize = 256;
pub const MAX_PER_ADDRESS: usize = 32;
/// Bytes of memory that they may hold together; an answer that needs more is given up, with 503.
pub const MAX_BYTES: usize = 64 << 20;

const TOO_MANY: Failure = Failure::Unavailable("too many long answers are being written");
const TOO_LARGE: Failure = Failure::Unavailable("the long answers being written take too much memory");

/// Answers that are still being written.
#[derive(Default)]
pub struct Unfinished {
    kept: HashMap<ConnectionId, Kept>,
    bytes: usize,
}

struct Kept {
    rest: Box<dyn LongView>,
    address: IpAddr,
    bytes: usize,
}

impl Unfinished {
    /// Keeps what is still to be written for a connection of an address, and holds so many bytes with all that was.
    pub fn keep(
        &mut self,
        connection: ConnectionId,
        address: IpAddr,
        rest: Box<dyn LongView>,
        bytes: usize,
    ) -> Result<(), Failure> {
        let of_address = self.kept.values().filter(|kept| kept.address == address).count();
        if self.kept.len() >= MAX_UNFINISHED || of_address >= MAX_PER_ADDRESS {
            return Err(TOO_MANY);
        }
        if self.bytes + bytes > MAX_BYTES {
            return Err(TOO_LARGE);
        }
        self.take(connection);
        self.bytes += bytes;
        self.kept.insert(connection, Kept { rest, address, bytes });
        Ok(())
    }

    /// What is still to be written for a connection; it is not kept any longer.
    pub fn take(&mut self, connection: ConnectionId) -> Option<Box<dyn LongView>> {
        // Most of the time nothing is kept at all.
        if self.kept.is_empty() {
            return None;
        }
        let kept = self.kept.remove(&connection)?;
        self.bytes -= kept.bytes;
        Some(kept.rest)
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.kept.len()
    }
}
