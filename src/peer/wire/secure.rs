//! Entities signed by the relaying node.

use crate::codec::{Decoder, Encoder, Format, ReadError, Readable, Writable};
use crate::crypto::hash::keccak256;
use crate::crypto::{KeyPair, PublicKey, Signature, verify};
use crate::peer::wire::authentication::signed_payload;
use crate::peer::wire::node::Identity;

/// Block or transaction with the signature of the relaying node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureEntity<T> {
    /// Entity with its own signatures.
    pub entity: T,
    /// Signature of the relaying node over the hash of the entity.
    pub signature: Signature,
    /// Claimed identity of the relaying node.
    pub identity: Identity,
}

impl<T: Writable> SecureEntity<T> {
    /// Signs an entity with the key of the relaying node.
    pub fn sign(entity: T, pair: &KeyPair, name: Option<String>) -> SecureEntity<T> {
        let (payload, _) = payload(&pair.public(), &entity);
        SecureEntity { entity, signature: pair.sign(&payload), identity: Identity { key: pair.public(), name } }
    }

    /// Returns whether the signature belongs to the claimed identity, and the number of hashed bytes.
    pub fn verify(&self) -> (bool, usize) {
        let key = &self.identity.key;
        let (payload, hashed) = payload(key, &self.entity);
        (verify(key, &payload, &self.signature) == Ok(true), hashed)
    }
}

/// Returns the signed bytes, and the length of the entity's binary form.
fn payload(key: &PublicKey, entity: &impl Writable) -> (Vec<u8>, usize) {
    let bytes = Format::Binary.to_bytes(entity);
    (signed_payload(key, &keccak256(&bytes)), bytes.len())
}

impl<T: Writable> Writable for SecureEntity<T> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("entity", |sink| self.entity.write(sink));
        sink.bytes("signature", Some(&self.signature.0));
        sink.object("identity", |sink| self.identity.write(sink));
    }
}

impl<T: Readable> Readable for SecureEntity<T> {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        Ok(SecureEntity {
            entity: source.need_object("entity", T::read)?,
            signature: source.signature("signature")?,
            identity: source.need_object("identity", Identity::read)?,
        })
    }
}

/// `{"data": […]}`, bounded by the length of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T: Readable> Readable for List<T> {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        source.need_list("data", T::read).map(List)
    }
}

impl<T: Writable> Writable for List<T> {
    fn write(&self, sink: &mut impl Encoder) {
        write_list(sink, "data", &self.0);
    }
}

/// Writes a list.
pub fn write_list<T: Writable>(sink: &mut impl Encoder, label: &'static str, items: &[T]) {
    sink.list(label, items, |sink, item| item.write(sink));
}

/// Reads a list of at most `max` elements. Rejects a longer one after reading that many.
pub fn read_at_most<'a, S: Decoder<'a>, T>(
    source: &mut S,
    label: &'static str,
    max: usize,
    mut read: impl FnMut(&mut S) -> Result<T, ReadError>,
) -> Result<Vec<T>, ReadError> {
    let mut count = 0;
    source.need_list(label, |source| {
        count += 1;
        match count > max {
            true => Err(ReadError::Argument(format!("property {label} has more than {max} elements"))),
            false => read(source),
        }
    })
}

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
