//! Errors of the HTTP interface.

use std::borrow::Cow;
use std::fmt;

use crate::codec::ReadError;
use crate::crypto::hex_text::HexError;
use crate::model::{Hash256, Height, MosaicId};
use crate::peer::wire::ErrorBody;
use crate::rules::{Exception, ExceptionKind, Refusal};
use crate::store::StoreError;

/// Error of a request. The text is the message that the client sees, before it is truncated to 128 units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// 400: a value is not allowed.
    Argument(Cow<'static, str>),
    /// 401: the client lacks access.
    Refused(String),
    /// 404: the requested object does not exist.
    NotFound(String),
    /// 500: any other error.
    Internal(Cow<'static, str>),
    /// 503: the state of the node does not allow a response.
    Unavailable(&'static str),
}

impl Failure {
    /// The node has not joined the network.
    pub const NOT_BOOTED: Failure = Failure::Unavailable(ErrorBody::NOT_BOOTED);

    /// The node has no chain yet.
    pub const LOADING_CHAIN: Failure = Failure::Unavailable(ErrorBody::LOADING_CHAIN);
    /// The node has already joined the network.
    pub const ALREADY_BOOTED: Failure = Failure::Unavailable(ErrorBody::ALREADY_BOOTED);
    /// A text is not an address of the network.
    pub const BAD_ADDRESS: Failure = Failure::argument("address must be valid");

    /// Creates a 400 with a fixed text.
    pub const fn argument(text: &'static str) -> Failure {
        Failure::Argument(Cow::Borrowed(text))
    }

    /// Creates a 500 with a fixed text.
    pub const fn internal(text: &'static str) -> Failure {
        Failure::Internal(Cow::Borrowed(text))
    }

    /// Creates the error for malformed hex.
    pub fn bad_hex(error: &HexError) -> Failure {
        let exception = "java.lang.IllegalArgumentException: org.apache.commons.codec.DecoderException";
        Failure::Internal(format!("{exception}: {error}").into())
    }

    /// Creates the error for a hash that no top-level transaction of a block has.
    pub fn no_transaction(hash: &Hash256) -> Failure {
        Failure::NotFound(format!("transaction not found in the db '{hash}' (class org.nem.core.crypto.Hash)"))
    }

    /// Creates the error for a height without a block.
    pub fn no_block(height: Height) -> Failure {
        Failure::NotFound(format!("block not found in the db '{height}' (org.nem.core.model.Block)"))
    }

    /// Creates the error for an unknown mosaic.
    pub fn no_mosaic(id: &MosaicId) -> Failure {
        let kind = "org.nem.core.model.ncc.MosaicIdSupplyPair";
        Failure::NotFound(format!("mosaic id {id} is unknown '{id}' ({kind})"))
    }

    /// Returns the HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Failure::Argument(_) => 400,
            Failure::Refused(_) => 401,
            Failure::NotFound(_) => 404,
            Failure::Internal(_) => 500,
            Failure::Unavailable(_) => 503,
        }
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        match self {
            Failure::Argument(text) | Failure::Internal(text) => text,
            Failure::Refused(text) | Failure::NotFound(text) => text,
            Failure::Unavailable(text) => text,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status(), self.message())
    }
}

impl std::error::Error for Failure {}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        let text = error.to_string();
        match error.http_status() {
            400 => Failure::Argument(text.into()),
            404 => Failure::NotFound(text),
            _ => Failure::Internal(text.into()),
        }
    }
}

impl From<Exception> for Failure {
    fn from(exception: Exception) -> Failure {
        match exception.kind {
            ExceptionKind::Argument => Failure::Argument(exception.text.into()),
            ExceptionKind::InvalidAddress => Failure::NotFound(exception.text),
            ExceptionKind::Other => Failure::Internal(exception.text.into()),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        match refusal {
            Refusal::Result(result) => Failure::argument(result.name()),
            Refusal::Exception(exception) => exception.into(),
            Refusal::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        // The client cannot act on it, but the operator must see it.
        log::error!("{error}");
        Failure::internal("the node's store failed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_reading_keep_their_class() {
        assert_eq!(Failure::from(ReadError::Missing("x")).status(), 500);
        assert_eq!(Failure::from(ReadError::Argument("x".into())), Failure::argument("x"));
        assert_eq!(Failure::from(ReadError::UnknownAddress("X".into())).status(), 404);
    }
}
