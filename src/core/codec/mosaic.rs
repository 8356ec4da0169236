//! Mosaic ids, attachments, definitions and levies on the wire.

use super::text::{parse_i32, parse_i64};
use super::{Decoder, Encoder, Measure, ReadError, Result, Writable, limits};
use crate::model::mosaic::{LevyKind, MAX_DIVISIBILITY};
use crate::model::{Levy, Mosaic, MosaicDefinition, MosaicId, MosaicProperties, NamespaceId};

/// Parses a namespace name.
pub fn read_namespace(text: &str) -> Result<NamespaceId> {
    NamespaceId::parse(text).map_err(ReadError::argument)
}

/// Reads the fields of a mosaic id.
pub fn read_mosaic_id<'a, S: Decoder<'a>>(source: &mut S) -> Result<MosaicId> {
    let namespace = read_namespace(&source.need_string("namespaceId", limits::MAX_TEXT_UTF16)?)?;
    let name = source.need_string("name", limits::MAX_TEXT_UTF16)?;
    MosaicId::new(namespace, &name).map_err(ReadError::argument)
}

/// Writes the fields of a mosaic id.
pub fn write_mosaic_id(sink: &mut impl Encoder, id: &MosaicId) {
    sink.string("namespaceId", Some(truncate_name(id.namespace.as_str())));
    sink.string("name", Some(id.name()));
}

/// Cuts a name to the limit of a text, as everywhere it is written. Names are ASCII, so a UTF-16 unit is a byte.
pub fn truncate_name(name: &str) -> &str {
    &name[..name.len().min(limits::MAX_TEXT_UTF16)]
}

/// Reads an attached mosaic.
pub fn read_mosaic<'a, S: Decoder<'a>>(source: &mut S) -> Result<Mosaic> {
    let id = source.need_object("mosaicId", read_mosaic_id)?;
    Ok(Mosaic { id, quantity: source.quantity("quantity")? })
}

impl Writable for Mosaic {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("mosaicId", |sink| write_mosaic_id(sink, &self.id));
        sink.u64("quantity", self.quantity);
    }
}

/// Reads a definition and normalises its properties.
pub fn read_definition<'a, S: Decoder<'a>>(source: &mut S) -> Result<MosaicDefinition> {
    let creator = source.public_key("creator")?;
    let id = source.need_object("id", read_mosaic_id)?;
    let description = source.need_string("description", limits::MAX_DESCRIPTION_UTF16)?.into_owned();
    let properties = source.need_list("properties", |source| {
        let name = source.need_string("name", limits::MAX_TEXT_UTF16)?.into_owned();
        Ok((name, source.need_string("value", limits::MAX_TEXT_UTF16)?.into_owned()))
    })?;
    let properties = read_properties(&properties)?;
    let levy = source.object("levy", read_levy)?;
    Ok(MosaicDefinition { creator, id, description, properties, levy })
}

fn read_properties(list: &[(String, String)]) -> Result<MosaicProperties> {
    // The last of several properties with one name counts; other names are dropped.
    let find = |name: &str| list.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let divisibility = find("divisibility").map_or(Ok(0), parse_i32)?;
    let divisibility = u8::try_from(divisibility).ok().filter(|d| *d <= MAX_DIVISIBILITY);
    let divisibility = divisibility.ok_or_else(|| {
        ReadError::argument(format!("divisibility must be between 0 and {MAX_DIVISIBILITY} inclusive"))
    })?;
    let initial_supply = find("initialSupply").map_or(Ok(1000), parse_i64)?;
    let initial_supply =
        u64::try_from(initial_supply).map_err(|_| ReadError::Negative(Measure::Quantity, initial_supply))?;
    let properties = MosaicProperties {
        divisibility,
        initial_supply,
        supply_mutable: read_flag(find("supplyMutable"), false)?,
        transferable: read_flag(find("transferable"), true)?,
    };
    if initial_supply > properties.max_supply() {
        return Err(ReadError::argument(format!(
            "cannot add 0 to {initial_supply} for mosaic with divisibility {divisibility}"
        )));
    }
    Ok(properties)
}

fn read_flag(text: Option<&str>, default: bool) -> Result<bool> {
    let is = |text: &str, word: &str| text.chars().flat_map(char::to_uppercase).eq(word.chars());
    match text {
        None => Ok(default),
        Some(text) if is(text, "TRUE") => Ok(true),
        Some(text) if is(text, "FALSE") => Ok(false),
        // NIS1 accepts this, but fails when it hashes the entity, which it always does first.
        Some(_) => Err(ReadError::NotABoolean),
    }
}

impl Writable for MosaicDefinition {
    fn write(&self, sink: &mut impl Encoder) {
        let flag = |value: bool| if value { "true" } else { "false" }.to_owned();
        let properties = &self.properties;
        sink.bytes("creator", Some(&self.creator.0));
        sink.object("id", |sink| write_mosaic_id(sink, &self.id));
        sink.string("description", Some(&self.description));
        let list = [
            ("divisibility", properties.divisibility.to_string()),
            ("initialSupply", properties.initial_supply.to_string()),
            ("supplyMutable", flag(properties.supply_mutable)),
            ("transferable", flag(properties.transferable)),
        ];
        sink.list("properties", &list, |sink, (name, value)| {
            sink.string("name", Some(name));
            sink.string("value", Some(value));
        });
        sink.optional("levy", self.levy.as_ref(), write_levy);
    }
}

fn read_levy<'a, S: Decoder<'a>>(source: &mut S) -> Result<Levy> {
    let kind = source.need_kind("type", LevyKind::from_code, "Invalid mosaic transfer fee type")?;
    let recipient = source.address("recipient")?;
    let mosaic = source.need_object("mosaicId", read_mosaic_id)?;
    Ok(Levy { kind, recipient, mosaic, fee: source.quantity("fee")? })
}

fn write_levy(sink: &mut impl Encoder, levy: &Levy) {
    sink.i32("type", levy.kind.code());
    sink.string("recipient", Some(levy.recipient.as_str()));
    sink.object("mosaicId", |sink| write_mosaic_id(sink, &levy.mosaic));
    sink.u64("fee", levy.fee);
}
