//! Views of namespaces and mosaics.

use super::View;
use crate::codec::Encoder;
use crate::codec::mosaic::{truncate_name, write_definition, write_mosaic, write_mosaic_id};
use crate::model::{Address, Height, Mosaic, MosaicDefinition, MosaicId, NamespaceId};
use crate::state::ExpiredMosaic;

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Full name.
    pub name: NamespaceId,
    /// Owner of its root.
    pub owner: Address,
    /// Height at which the lease of its root began.
    pub height: Height,
}

/// An item with the id by which it is paged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered<T> {
    /// Id.
    pub id: u64,
    /// Item.
    pub item: T,
}

impl View for Namespace {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("fqn", Some(truncate_name(self.name.as_str())));
        sink.string("owner", Some(self.owner.as_str()));
        sink.u64("height", self.height.0);
    }
}

impl View for Numbered<Namespace> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("namespace", |sink| self.item.write(sink));
        sink.object("meta", |sink| sink.u64("id", self.id));
    }
}

impl View for Mosaic {
    fn write(&self, sink: &mut impl Encoder) {
        write_mosaic(sink, self);
    }
}

impl View for Numbered<MosaicBalance> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("holder", |sink| self.item.write(sink));
        sink.object("meta", |sink| sink.u64("id", self.id));
    }
}

impl View for MosaicDefinition {
    fn write(&self, sink: &mut impl Encoder) {
        write_definition(sink, self);
    }
}

impl View for Numbered<MosaicDefinition> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("mosaic", |sink| self.item.write(sink));
        sink.object("meta", |sink| sink.u64("id", self.id));
    }
}

/// Supply of a mosaic.
#[derive(Clone, Copy, Debug)]
pub struct MosaicSupply<'a> {
    /// The mosaic.
    pub id: &'a MosaicId,
    /// Whole units.
    pub supply: u64,
}

impl View for MosaicSupply<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("mosaicId", |sink| write_mosaic_id(sink, self.id));
        sink.u64("supply", self.supply);
    }
}

/// A definition and the supply.
#[derive(Clone, Copy, Debug)]
pub struct DefinitionAndSupply<'a> {
    /// The definition.
    pub definition: &'a MosaicDefinition,
    /// Whole units.
    pub supply: u64,
}

impl View for DefinitionAndSupply<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("mosaicDefinition", |sink| self.definition.write(sink));
        sink.u64("supply", self.supply);
    }
}

/// A definition, the supply at a height, and the expiration height of its namespace.
#[derive(Clone, Copy, Debug)]
pub struct ExpiringDefinition<'a> {
    /// The definition.
    pub definition: &'a MosaicDefinition,
    /// Whole units.
    pub supply: u64,
    /// Height at which the namespace expires.
    pub expiration: Height,
}

impl View for ExpiringDefinition<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("mosaicDefinition", |sink| self.definition.write(sink));
        sink.u64("supply", self.supply);
        sink.u64("expirationHeight", self.expiration.0);
    }
}

/// A mosaic that expired or was restored, with a [`Encoder::spliced_list`] for the balances at that time.
#[derive(Clone, Copy, Debug)]
pub struct ExpiredMosaicHead<'a>(pub &'a ExpiredMosaic);

impl View for ExpiredMosaicHead<'_> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("mosaicId", |sink| write_mosaic_id(sink, &self.0.id));
        sink.i32("expiredMosaicType", self.0.kind.code().into());
        sink.spliced_list("balances");
    }
}

/// Balance of an account in a mosaic.
#[derive(Clone, Copy, Debug)]
pub struct MosaicBalance {
    /// The account.
    pub address: Address,
    /// Smallest units.
    pub quantity: u64,
}

impl View for MosaicBalance {
    fn write(&self, sink: &mut impl Encoder) {
        sink.string("address", Some(self.address.as_str()));
        sink.u64("quantity", self.quantity);
    }
}
