//! Chain and blocks (specification 06 §7.3).

use crate::api::call::{Call, Readable};
use crate::api::failure::Failure;
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
    let height = call.ledger.height()?;
    call.send(&height)
}

/// `GET /chain/last-block`
pub fn last_block(call: &mut Call<'_>) -> Result<(), Failure> {
    let height = call.ledger.height()?;
    send_block(call, height)
}

/// `POST /block/at/public`
pub fn block_at(call: &mut Call<'_>) -> Result<(), Failure> {
    let height = call.body()?;
    send_block(call, height)
}

fn send_block(call: &mut Call<'_>, height: Height) -> Result<(), Failure> {
    let block = call.ledger.block(height)?.ok_or_else(|| Failure::no_block(height))?;
    call.send(&block)
}
