//! Chain and blocks.

use crate::api::call::{Call, Readable};
use crate::api::failure::Failure;
use crate::api::long::BlockWriter;
use crate::codec::{ReadError, Source};
use crate::model::Height;

/// `{"height": n}`.
impl Readable for Height {
    fn read<'a, S: Source<'a>>(source: &mut S) -> Result<Self, ReadError> {
        source.height("height")
    }
}

/// `GET /chain/height`
pub fn height(call: &mut Call<'_>) -> Result<(), Failure> {
    call.send(&call.view.height)
}

/// `GET /chain/last-block`
pub fn last_block(call: &mut Call<'_>) -> Result<(), Failure> {
    send_block(call, call.view.height)
}

/// `POST /block/at/public`
pub fn block_at(call: &mut Call<'_>) -> Result<(), Failure> {
    let height = call.body()?;
    send_block(call, height)
}

fn send_block(call: &mut Call<'_>, height: Height) -> Result<(), Failure> {
    if !call.view.has_block(height) {
        return Err(Failure::no_block(height));
    }
    call.send_long(BlockWriter::new(height))
}
