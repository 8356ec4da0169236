//! Entities signed by the relaying node.

use super::authentication::signed_payload;
use super::node::Identity;
use crate::codec::{Decoder, Encoder, Format, ReadError, Readable, Writable};
use crate::crypto::hash::keccak256;
use crate::crypto::{KeyPair, PublicKey, Signature, verify};

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
