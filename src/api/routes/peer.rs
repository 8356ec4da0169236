//! Routes for other nodes that share a path with a route for clients.
//!
//! They are answered as by a node that has not joined the network, which this one does not do yet.

use crate::api::call::{Call, Readable};
use crate::api::failure::Failure;
use crate::codec::{ReadError, Source};

/// What the caller wants signed.
struct Challenge;

impl Readable for Challenge {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        source.need_bytes("data").map(|_| Challenge)
    }
}

/// Any route that answers a mere challenge.
pub fn challenge(call: &mut Call<'_>) -> Result<(), Failure> {
    call.body::<Challenge>()?;
    Err(Failure::NOT_BOOTED)
}
