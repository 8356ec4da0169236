//! Stored form of a mosaic definition.

use crate::crypto::PublicKey;
use crate::model::mosaic::{LevyKind, MAX_DIVISIBILITY};
use crate::model::{Levy, MosaicDefinition, MosaicId, MosaicProperties};
use crate::state::bytes::{ByteReader, ByteWriter};
use crate::store::StoreError;

/// Writes a definition without its mosaic id.
pub fn write_definition(out: &mut ByteWriter, definition: &MosaicDefinition) {
    out.array(&definition.creator.0);
    out.text(&definition.description);
    out.u8(definition.properties.divisibility);
    out.u64(definition.properties.initial_supply);
    out.u8(u8::from(definition.properties.supply_mutable));
    out.u8(u8::from(definition.properties.transferable));
    if let Some(levy) = &definition.levy {
        out.u8(levy.kind.code() as u8);
        out.array(levy.recipient.as_bytes());
        out.text(&levy.mosaic.to_string());
        out.u64(levy.fee);
    }
}

/// Reads a definition without its mosaic id, up to the end of the input.
pub fn read_definition(input: &mut ByteReader<'_>, id: MosaicId) -> Result<MosaicDefinition, StoreError> {
    let creator = PublicKey(input.array()?);
    let description = input.text()?.to_owned();
    let divisibility = Some(input.u8()?).filter(|divisibility| *divisibility <= MAX_DIVISIBILITY);
    let properties = MosaicProperties {
        divisibility: divisibility.ok_or(StoreError::Damaged("a divisibility"))?,
        initial_supply: input.u64()?,
        supply_mutable: input.u8()? != 0,
        transferable: input.u8()? != 0,
    };
    let levy = match input.is_empty() {
        true => None,
        false => Some(Levy {
            kind: LevyKind::from_code(i32::from(input.u8()?)).ok_or(StoreError::Damaged("a levy"))?,
            recipient: input.address()?,
            mosaic: MosaicId::parse(input.text()?).map_err(|_| StoreError::Damaged("a levy"))?,
            fee: input.u64()?,
        }),
    };
    Ok(MosaicDefinition { creator, id, description, properties, levy })
}
