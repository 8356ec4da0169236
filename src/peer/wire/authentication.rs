//! Authenticated answers and pushes.
//!
//! Answers: the requester sends random bytes, and the answer contains their signature.
//!
//! The signature covers only these bytes, not the answer. A push is signed in the same way, over a hash of 32 bytes
//! ([`SecureEntity`]), so a node that signed arbitrary bytes would let others push in its name: only
//! challenges of [`CHALLENGE_BYTES`] bytes are signed. Clients that send others get their answer with a signature of
//! zeros.

use super::chain::LazyList;
use super::node::{Identity, NodeInfo};
use super::{ReadField, WriteField};
use crate::codec::binary::BinaryDecoder;
use crate::codec::json::JsonDecoder;
use crate::codec::{self, Context, Decoder, Encoder, Format, ReadError, Readable, Writable};
use crate::crypto::hash::keccak256;
use crate::crypto::{KeyPair, PublicKey, Signature, verify};

/// Bytes of a challenge.
pub const CHALLENGE_BYTES: usize = 64;
/// Prefix of everything that nodes sign for each other.
const PREFIX: &[u8] = b"nem trust challenge:";

/// Returns the bytes that a node signs to prove its key.
fn signed_payload(key: &PublicKey, salt: &[u8]) -> Vec<u8> {
    [PREFIX, &key.0, salt].concat()
}

/// Random bytes that the queried node must sign.
#[derive(Clone, derive_more::Debug, PartialEq, Eq)]
#[debug("Challenge({})", hex::encode(_0))]
pub struct Challenge(pub [u8; CHALLENGE_BYTES]);

impl Challenge {
    /// Signs the challenge.
    pub fn sign(&self, pair: &KeyPair) -> Signature {
        pair.sign(&signed_payload(&pair.public(), &self.0))
    }

    /// Returns whether the owner of a key has signed the challenge.
    pub fn is_signed_by(&self, key: &PublicKey, signature: &Signature) -> bool {
        verify(key, &signed_payload(key, &self.0), signature) == Ok(true)
    }
}

impl Writable for Challenge {
    fn write(&self, sink: &mut impl Encoder) {
        sink.bytes("data", Some(&self.0));
    }
}

impl Readable for Challenge {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let bytes = source.need_bytes("data")?;
        let challenge = bytes.as_ref().try_into().map(Challenge);
        challenge.map_err(|_| {
            ReadError::Argument(
                "challenge must be 64 bytes: signing another length would let others push in this node's name"
                    .to_owned(),
            )
        })
    }
}

/// Maximum bytes of a challenge that is answered at all.
pub const MAX_CHALLENGE_BYTES: usize = 1_024;

/// A challenge of any length up to [`MAX_CHALLENGE_BYTES`]; `None` if it does not have the regular one, so that it is
/// never signed.
pub struct AnyChallenge(pub Option<Challenge>);

impl Readable for AnyChallenge {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let bytes = source.need_bytes("data")?;
        match bytes.as_ref().try_into() {
            Ok(proper) => Ok(AnyChallenge(Some(Challenge(proper)))),
            Err(_) if bytes.len() <= MAX_CHALLENGE_BYTES => Ok(AnyChallenge(None)),
            Err(_) => {
                Err(ReadError::Argument(format!("challenge must be 64 bytes, but has more than {MAX_CHALLENGE_BYTES}")))
            }
        }
    }
}

message! {
    /// Request with a challenge.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AuthenticatedRequest<T, C = Challenge> {
        /// Requested data.
        pub entity: T = object "entity",
        /// Challenge to sign.
        pub challenge: C = object "challenge",
    }
}

message! {
    /// Answer with a proof of identity.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AuthenticatedResponse<T> {
        /// Answer; the signature does not cover it.
        pub entity: T = object "entity",
        /// Signature of the challenge.
        pub signature: Signature = "signature",
    }
}

/// Error in an authenticated answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The answer cannot be decoded.
    #[error("the answer cannot be decoded: {0}")]
    Unreadable(#[from] ReadError),
    /// The answer is not signed by the queried node.
    #[error("the answer is not signed by the queried node")]
    Impersonated,
}

/// Placeholder for an entity that is not decoded.
struct Undecoded;

impl Readable for Undecoded {
    fn read<'a, S: Decoder<'a>>(_: &mut S) -> Result<Self, ReadError> {
        Ok(Undecoded)
    }
}

/// How to check and decode an authenticated answer. The caller must bound the body ([`super::limits`]). Each check costs one
/// signature verification.
#[derive(Clone, Debug)]
pub struct AnswerContext {
    /// Format of the answer.
    pub format: Format,
    /// Network context for decoding.
    pub context: Context,
    /// Challenge that the answer must sign.
    pub challenge: Challenge,
    /// Key of the queried peer.
    pub key: PublicKey,
}

impl AnswerContext {
    /// Checks and decodes an answer; ignores trailing bytes. Nothing of an answer without the right signature is decoded.
    pub fn read<T: Readable>(&self, body: &[u8]) -> Result<T, AnswerError> {
        let answer: AuthenticatedResponse<T> = match self.format {
            Format::Binary => {
                self.check_signer(&mut BinaryDecoder::new(body, self.context))?;
                AuthenticatedResponse::read(&mut BinaryDecoder::new(body, self.context))?
            }
            Format::Json => {
                let value = codec::parse(body)?;
                self.check_signer(&mut JsonDecoder::new(&value, self.context)?)?;
                AuthenticatedResponse::read(&mut JsonDecoder::new(&value, self.context)?)?
            }
        };
        Ok(answer.entity)
    }

    /// Checks the signature of a list, whose elements are decoded one by one; those of more than `max_element` bytes are not.
    pub fn open_list<T: Readable>(&self, body: Vec<u8>, max_element: usize) -> Result<LazyList<T>, AnswerError> {
        match self.format {
            Format::Binary => {
                self.check_signer(&mut BinaryDecoder::new(&body, self.context))?;
                Ok(LazyList::of_binary(body, self.context, true, max_element)?)
            }
            Format::Json => {
                let value = codec::parse(&body)?;
                self.check_signer(&mut JsonDecoder::new(&value, self.context)?)?;
                Ok(LazyList::of_json(value, body.len(), true)?)
            }
        }
    }

    fn check_signer<'a, S: Decoder<'a>>(&self, source: &mut S) -> Result<(), AnswerError> {
        let AuthenticatedResponse::<Undecoded> { signature, .. } = AuthenticatedResponse::read(source)?;
        if self.challenge.is_signed_by(&self.key, &signature) { Ok(()) } else { Err(AnswerError::Impersonated) }
    }
}

/// Decodes the description of a node with an unknown key, and checks the signature with the key that it contains.
pub fn read_introduction(
    format: Format,
    body: &[u8],
    context: Context,
    challenge: &Challenge,
) -> Result<NodeInfo, AnswerError> {
    let AuthenticatedResponse::<NodeInfo> { entity, signature } = format.read(body, context)?;
    if challenge.is_signed_by(&entity.identity.key, &signature) { Ok(entity) } else { Err(AnswerError::Impersonated) }
}

message! {
    /// Block or transaction with the signature of the relaying node.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SecureEntity<T> {
        /// Entity with its own signatures.
        pub entity: T = object "entity",
        /// Signature of the relaying node over the hash of the entity.
        pub signature: Signature = "signature",
        /// Claimed identity of the relaying node.
        pub identity: Identity = object "identity",
    }
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
        self.0.write_field("data", sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::PrivateKey;
    use crate::model::{Height, Network};

    fn pair(number: u8) -> KeyPair {
        KeyPair::new(&PrivateKey::from_seed(&[number; 32]))
    }

    fn answer_context(format: Format, challenge: &Challenge, key: PublicKey) -> AnswerContext {
        AnswerContext { format, context: context(), challenge: challenge.clone(), key }
    }

    fn context() -> Context {
        Context::of(&Network::example())
    }

    #[test]
    fn only_challenges_of_64_bytes_are_read() {
        for length in [0, 1, 31, 32, 33, 63, 65, 128, 2048, 3000] {
            let bytes = vec![7; length];
            let binary = [&(length as i32).to_le_bytes()[..], &bytes].concat();
            let json = format!("{{\"data\":\"{}\"}}", hex::encode(&bytes));
            for (format, body) in [(Format::Binary, binary), (Format::Json, json.into_bytes())] {
                let error = format.read::<Challenge>(&body, context()).unwrap_err();
                assert_eq!((error.http_status(), &error.to_string()[..26]), (400, "challenge must be 64 bytes"));
                let any = format.read::<AnyChallenge>(&body, context());
                assert_eq!(any.ok().map(|any| any.0), (length <= MAX_CHALLENGE_BYTES).then_some(None), "{length}");
            }
        }
        let challenge = Challenge([7; 64]);
        for format in [Format::Binary, Format::Json] {
            assert_eq!(format.read(&format.to_bytes(&challenge), context()), Ok(challenge.clone()));
            let any = format.read::<AnyChallenge>(&format.to_bytes(&challenge), context());
            assert_eq!(any.map(|any| any.0), Ok(Some(challenge.clone())));
        }
    }

    #[test]
    fn an_answer_is_accepted_only_from_the_queried_peer_and_surplus_bytes_are_ignored() {
        let (challenge, asked) = (Challenge([1; 64]), pair(1));
        for format in [Format::Binary, Format::Json] {
            let answer = |signer: &KeyPair, challenge: &Challenge| {
                let answer = AuthenticatedResponse { entity: Height(7), signature: challenge.sign(signer) };
                [format.to_bytes(&answer), b"surplus".to_vec()].concat()
            };
            let read = |body: &[u8]| answer_context(format, &challenge, asked.public()).read::<Height>(body);
            assert_eq!(read(&answer(&asked, &challenge)), Ok(Height(7)));
            assert_eq!(read(&answer(&pair(2), &challenge)), Err(AnswerError::Impersonated));
            assert_eq!(read(&answer(&asked, &Challenge([2; 64]))), Err(AnswerError::Impersonated));
            assert!(matches!(read(b""), Err(AnswerError::Unreadable(_))));
        }
    }

    #[test]
    fn an_impersonated_answer_is_not_decoded() {
        let challenge = Challenge([1; 64]);
        let height = AuthenticatedResponse { entity: Height(0), signature: challenge.sign(&pair(2)) };
        for format in [Format::Binary, Format::Json] {
            let body = format.to_bytes(&height);
            let read = |key| answer_context(format, &challenge, key).read::<Height>(&body);
            assert_eq!(read(pair(1).public()), Err(AnswerError::Impersonated));
            assert!(matches!(read(pair(2).public()), Err(AnswerError::Unreadable(_))), "no block has the height 0");
        }
    }
}
