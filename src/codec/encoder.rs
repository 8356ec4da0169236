//! Writing of entities, independent of the format.

/// Whether an entity is written with its own signature and cosignatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigningForm {
    /// With signatures: for other nodes, and for the HTTP interface.
    Verifiable,
    /// Without signatures: the bytes that are hashed and signed.
    NonVerifiable,
}

/// Placeholder in JSON for the elements of a list. JSON always escapes this character.
pub const SPLICE_BYTE: u8 = 0;

/// Accepts the fields of an entity in their fixed order. Labels matter in JSON only.
pub trait Encoder {
    /// Writes a 32-bit integer.
    fn i32(&mut self, label: &'static str, value: i32);
    /// Writes a 64-bit integer.
    fn i64(&mut self, label: &'static str, value: i64);
    /// Writes a double.
    fn f64(&mut self, label: &'static str, value: f64);
    /// Writes a byte string, or null.
    fn bytes(&mut self, label: &'static str, value: Option<&[u8]>);
    /// Writes a text, or null. The caller respects the limits of [`crate::codec::limits`].
    fn string(&mut self, label: &'static str, value: Option<&str>);
    /// Writes a nested entity.
    fn object(&mut self, label: &'static str, write: impl FnOnce(&mut Self));
    /// Writes a nested entity that is null.
    fn null_object(&mut self, label: &'static str);
    /// Writes a list of nested entities.
    fn list<T>(&mut self, label: &'static str, items: &[T], write: impl FnMut(&mut Self, &T));
    /// Writes a list whose elements are inserted later, at most one per entity that is written as a whole. JSON has
    /// [`SPLICE_BYTE`] in its place, the binary format an empty list.
    fn spliced_list(&mut self, label: &'static str);

    /// Writes a count, an amount or a height: all are below 2⁶³.
    fn u64(&mut self, label: &'static str, value: u64) {
        self.i64(label, value as i64);
    }

    /// Writes a nested entity, or null.
    fn optional<T>(&mut self, label: &'static str, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => self.object(label, |sink| write(sink, value)),
            None => self.null_object(label),
        }
    }

    /// Writes a hash: an entity with the single field `data`.
    fn hash(&mut self, label: &'static str, hash: &[u8]) {
        self.object(label, |sink| sink.bytes("data", Some(hash)));
    }
}
