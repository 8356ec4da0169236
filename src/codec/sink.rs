//! Writing of entities, whatever the format.

/// Whether an entity is written with its own signature and cosignatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Everything: what travels between nodes and what the interface shows.
    Verifiable,
    /// What is hashed and signed.
    NonVerifiable,
}

/// Stands for the elements of a list in JSON, where this character is always escaped.
pub const GAP: u8 = 0;

/// Takes the fields of an entity in their fixed order. Labels matter in JSON only.
pub trait Sink {
    /// A 32-bit integer.
    fn i32(&mut self, label: &'static str, value: i32);
    /// A 64-bit integer.
    fn i64(&mut self, label: &'static str, value: i64);
    /// A double.
    fn f64(&mut self, label: &'static str, value: f64);
    /// A byte string, or null.
    fn bytes(&mut self, label: &'static str, value: Option<&[u8]>);
    /// A text, or null. Callers keep to the limits of [`crate::codec::limits`].
    fn string(&mut self, label: &'static str, value: Option<&str>);
    /// A nested entity.
    fn object(&mut self, label: &'static str, write: impl FnOnce(&mut Self));
    /// A nested entity that is null.
    fn null_object(&mut self, label: &'static str);
    /// A list of nested entities.
    fn list<T>(&mut self, label: &'static str, items: &[T], write: impl FnMut(&mut Self, &T));
    /// A list whose elements are put in afterwards, at most one in an entity written as a whole. What is written holds
    /// [`GAP`] in its place in JSON, and a list without elements in the binary format.
    fn gap(&mut self, label: &'static str);

    /// A count, an amount or a height: all are below 2⁶³.
    fn u64(&mut self, label: &'static str, value: u64) {
        self.i64(label, value as i64);
    }

    /// A nested entity, or null.
    fn optional<T>(&mut self, label: &'static str, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            Some(value) => self.object(label, |sink| write(sink, value)),
            None => self.null_object(label),
        }
    }

    /// A hash: an entity with the one field `data`.
    fn hash(&mut self, label: &'static str, hash: &[u8]) {
        self.object(label, |sink| sink.bytes("data", Some(hash)));
    }
}
