//! Clocks of nodes.

use crate::codec::{Decoder, Encoder, ReadError, Readable, Writable};

/// Clock of a queried node, in milliseconds of network time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommunicationTimeStamps {
    /// Time of the answer.
    pub send: i64,
    /// Arrival of the request.
    pub receive: i64,
}

impl Writable for CommunicationTimeStamps {
    fn write(&self, sink: &mut impl Encoder) {
        sink.i64("sendTimeStamp", self.send);
        sink.i64("receiveTimeStamp", self.receive);
    }
}

impl Readable for CommunicationTimeStamps {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let send = source.need_i64("sendTimeStamp")?;
        Ok(CommunicationTimeStamps { send, receive: source.need_i64("receiveTimeStamp")? })
    }
}
