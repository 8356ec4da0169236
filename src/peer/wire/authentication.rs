//! Authenticated answers: the requester sends random bytes, and the answer contains their signature.
//!
//! The signature covers only these bytes, not the answer. A push is signed in the same way, over a hash of 32 bytes
//! (see [`super::SecureEntity`]), so a node that signed arbitrary bytes would let others push in its name: only
//! challenges of [`CHALLENGE_BYTES`] bytes are signed. Clients that send others get their answer with a signature of
//! zeros ([`AnyChallenge`]).

use std::fmt;

use super::chain::LazyList;
use super::node::NodeInfo;
use crate::codec::binary::BinaryDecoder;
use crate::codec::json::JsonDecoder;
use crate::codec::{self, Context, Decoder, Encoder, Format, ReadError, Readable, Writable};
use crate::crypto::{KeyPair, PublicKey, Signature, verify};

/// Bytes of a challenge.
pub const CHALLENGE_BYTES: usize = 64;
/// Prefix of everything that nodes sign for each other.
const PREFIX: &[u8] = b"nem trust challenge:";

/// Returns the bytes that a node signs to prove its key.
pub(super) fn signed_payload(key: &PublicKey, salt: &[u8]) -> Vec<u8> {
    [PREFIX, &key.0, salt].concat()
}

/// Random bytes that the queried node must sign.
#[derive(Clone, PartialEq, Eq)]
pub struct Challenge(pub [u8; CHALLENGE_BYTES]);

impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Challenge({})", hex::encode(self.0))
    }
}

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

/// Challenge of any length up to [`MAX_CHALLENGE_BYTES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyChallenge {
    /// Challenge of the regular length.
    Valid(Challenge),
    /// Any other length, which is never signed.
    Unsigned,
}

impl Readable for AnyChallenge {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let bytes = source.need_bytes("data")?;
        match bytes.as_ref().try_into() {
            Ok(proper) => Ok(AnyChallenge::Valid(Challenge(proper))),
            Err(_) if bytes.len() <= MAX_CHALLENGE_BYTES => Ok(AnyChallenge::Unsigned),
            Err(_) => {
                Err(ReadError::Argument(format!("challenge must be 64 bytes, but has more than {MAX_CHALLENGE_BYTES}")))
            }
        }
    }
}

/// Request with a challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticatedRequest<T, C = Challenge> {
    /// Requested data.
    pub entity: T,
    /// Challenge to sign.
    pub challenge: C,
}

impl<T: Writable> Writable for AuthenticatedRequest<T> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("entity", |sink| self.entity.write(sink));
        sink.object("challenge", |sink| self.challenge.write(sink));
    }
}

impl<T: Readable, C: Readable> Readable for AuthenticatedRequest<T, C> {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let entity = source.need_object("entity", T::read)?;
        Ok(AuthenticatedRequest { entity, challenge: source.need_object("challenge", C::read)? })
    }
}

/// Answer with a proof of identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthenticatedResponse<T> {
    /// Answer; the signature does not cover it.
    pub entity: T,
    /// Signature of the challenge.
    pub signature: Signature,
}

impl<T: Writable> Writable for AuthenticatedResponse<T> {
    fn write(&self, sink: &mut impl Encoder) {
        sink.object("entity", |sink| self.entity.write(sink));
        sink.bytes("signature", Some(&self.signature.0));
    }
}

impl<T: Readable> Readable for AuthenticatedResponse<T> {
    fn read<'a, S: Decoder<'a>>(source: &mut S) -> Result<Self, ReadError> {
        let entity = source.need_object("entity", T::read)?;
        Ok(AuthenticatedResponse { entity, signature: source.signature("signature")? })
    }
}

/// Error in an authenticated answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// The answer cannot be decoded.
    Unreadable(ReadError),
    /// The answer is not signed by the queried node.
    Impersonated,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerError::Unreadable(error) => write!(f, "the answer cannot be decoded: {error}"),
            AnswerError::Impersonated => f.write_str("the answer is not signed by the queried node"),
        }
    }
}

impl std::error::Error for AnswerError {}

impl From<ReadError> for AnswerError {
    fn from(error: ReadError) -> AnswerError {
        AnswerError::Unreadable(error)
    }
}

/// Placeholder for an entity that is not decoded.
struct Undecoded;

impl Readable for Undecoded {
    fn read<'a, S: Decoder<'a>>(_: &mut S) -> Result<Self, ReadError> {
        Ok(Undecoded)
    }
}

/// Checks the signature of an answer before decoding anything else.
pub(super) fn check_signer<'a, S: Decoder<'a>>(
    source: &mut S,
    challenge: &Challenge,
    expected: &PublicKey,
) -> Result<(), AnswerError> {
    let AuthenticatedResponse::<Undecoded> { signature, .. } = AuthenticatedResponse::read(source)?;
    if challenge.is_signed_by(expected, &signature) { Ok(()) } else { Err(AnswerError::Impersonated) }
}

/// Checks and decodes the answer of the node with the expected key; ignores trailing bytes. The caller must bound the
/// body ([`super::limits`]). Costs one signature verification.
pub fn read_answer<T: Readable>(
    format: Format,
    body: &[u8],
    context: Context,
    challenge: &Challenge,
    expected: &PublicKey,
) -> Result<T, AnswerError> {
    let answer: AuthenticatedResponse<T> = match format {
        Format::Binary => {
            check_signer(&mut BinaryDecoder::new(body, context), challenge, expected)?;
            AuthenticatedResponse::read(&mut BinaryDecoder::new(body, context))?
        }
        Format::Json => {
            let value = codec::parse(body)?;
            check_signer(&mut JsonDecoder::new(&value, context)?, challenge, expected)?;
            AuthenticatedResponse::read(&mut JsonDecoder::new(&value, context)?)?
        }
    };
    Ok(answer.entity)
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
    /// Checks and decodes an answer; ignores trailing bytes.
    pub fn read<T: Readable>(&self, body: &[u8]) -> Result<T, AnswerError> {
        read_answer(self.format, body, self.context, &self.challenge, &self.key)
    }

    /// Checks the signature of an answer without decoding it.
    pub fn check(&self, body: &[u8]) -> Result<(), AnswerError> {
        check_answer(self.format, body, self.context, &self.challenge, &self.key)
    }

    /// Checks the signature of a list, whose elements are decoded one by one.
    pub fn open_list<T: Readable>(&self, body: Vec<u8>) -> Result<LazyList<T>, AnswerError> {
        LazyList::open(self.format, body, self.context, &self.challenge, &self.key)
    }
}

/// Checks that the node with the expected key sent an answer, without decoding it. Costs one signature verification.
fn check_answer(
    format: Format,
    body: &[u8],
    context: Context,
    challenge: &Challenge,
    expected: &PublicKey,
) -> Result<(), AnswerError> {
    match format {
        Format::Binary => check_signer(&mut BinaryDecoder::new(body, context), challenge, expected),
        Format::Json => check_signer(&mut JsonDecoder::new(&*codec::parse(body)?, context)?, challenge, expected),
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
    match challenge.is_signed_by(&entity.identity.key, &signature) {
        true => Ok(entity),
        false => Err(AnswerError::Impersonated),
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
                assert_eq!(any.ok(), (length <= MAX_CHALLENGE_BYTES).then_some(AnyChallenge::Unsigned), "{length}");
            }
        }
        let challenge = Challenge([7; 64]);
        for format in [Format::Binary, Format::Json] {
            assert_eq!(format.read(&format.to_bytes(&challenge), context()), Ok(challenge.clone()));
            let any = format.read(&format.to_bytes(&challenge), context());
            assert_eq!(any, Ok(AnyChallenge::Valid(challenge.clone())));
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
            let read = |body: &[u8]| read_answer::<Height>(format, body, context(), &challenge, &asked.public());
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
            let read = |key| read_answer::<Height>(format, &body, context(), &challenge, &key);
            assert_eq!(read(pair(1).public()), Err(AnswerError::Impersonated));
            assert!(matches!(read(pair(2).public()), Err(AnswerError::Unreadable(_))), "no block has the height 0");
        }
    }
}
