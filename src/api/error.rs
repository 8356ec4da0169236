//! Errors of the HTTP interface.

use std::borrow::Cow;

use crate::codec::ReadError;
use crate::crypto::hex_text::HexError;
use crate::model::{Hash256, Height, MosaicId};
use crate::peer::wire::ErrorBody;
use crate::rules::{Exception, Rejection};
use crate::store::StoreError;

/// Error of a request. The text is the message that the client sees, before it is truncated to 128 units.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {}", self.status(), self.message())]
pub enum ApiError {
    /// 400: a value is not allowed.
    Argument(Cow<'static, str>),
    /// 401: the client lacks access.
    Unauthorized(String),
    /// 404: the requested object does not exist.
    NotFound(String),
    /// 500: any other error.
    Internal(Cow<'static, str>),
    /// 503: the state of the node does not allow a response.
    Unavailable(&'static str),
}

impl ApiError {
    /// The node has not joined the network.
    pub const NOT_BOOTED: ApiError = ApiError::Unavailable(ErrorBody::NOT_BOOTED);
    /// The node has already joined the network.
    pub const ALREADY_BOOTED: ApiError = ApiError::Unavailable(ErrorBody::ALREADY_BOOTED);
    /// A text is not an address of the network.
    pub const BAD_ADDRESS: ApiError = ApiError::argument("address must be valid");

    /// Creates a 400 with a fixed text.
    pub const fn argument(text: &'static str) -> ApiError {
        ApiError::Argument(Cow::Borrowed(text))
    }

    /// Creates a 500 with a fixed text.
    pub const fn internal(text: &'static str) -> ApiError {
        ApiError::Internal(Cow::Borrowed(text))
    }

    /// Creates the error for a hash that no top-level transaction of a block has.
    pub fn no_transaction(hash: &Hash256) -> ApiError {
        ApiError::NotFound(format!("transaction not found in the db '{hash}' (class org.nem.core.crypto.Hash)"))
    }

    /// Creates the error for a height without a block.
    pub fn no_block(height: Height) -> ApiError {
        ApiError::NotFound(format!("block not found in the db '{height}' (org.nem.core.model.Block)"))
    }

    /// Creates the error for an unknown mosaic.
    pub fn no_mosaic(id: &MosaicId) -> ApiError {
        let kind = "org.nem.core.model.ncc.MosaicIdSupplyPair";
        ApiError::NotFound(format!("mosaic id {id} is unknown '{id}' ({kind})"))
    }

    /// Returns the HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            ApiError::Argument(_) => 400,
            ApiError::Unauthorized(_) => 401,
            ApiError::NotFound(_) => 404,
            ApiError::Internal(_) => 500,
            ApiError::Unavailable(_) => 503,
        }
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        match self {
            ApiError::Argument(text) | ApiError::Internal(text) => text,
            ApiError::Unauthorized(text) | ApiError::NotFound(text) => text,
            ApiError::Unavailable(text) => text,
        }
    }
}

impl From<HexError> for ApiError {
    fn from(error: HexError) -> ApiError {
        let exception = "java.lang.IllegalArgumentException: org.apache.commons.codec.DecoderException";
        ApiError::Internal(format!("{exception}: {error}").into())
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> ApiError {
        let text = error.to_string();
        match error.http_status() {
            400 => ApiError::Argument(text.into()),
            404 => ApiError::NotFound(text),
            _ => ApiError::Internal(text.into()),
        }
    }
}

impl From<Exception> for ApiError {
    fn from(exception: Exception) -> ApiError {
        match exception {
            Exception::Argument(text) => ApiError::Argument(text.into()),
            Exception::Other(text) => ApiError::Internal(text.into()),
        }
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> ApiError {
        match rejection {
            Rejection::Result(result) => ApiError::argument(result.name()),
            Rejection::Exception(exception) => exception.into(),
            Rejection::TooDeep => ApiError::Internal(rejection.to_string().into()),
            Rejection::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        // The client cannot act on it, but the operator must see it.
        log::error!("{error}");
        ApiError::internal("the node's store failed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_errors_keep_their_class() {
        assert_eq!(ApiError::from(ReadError::Missing("x")).status(), 500);
        assert_eq!(ApiError::from(ReadError::Argument("x".into())), ApiError::argument("x"));
        assert_eq!(ApiError::from(ReadError::UnknownAddress("X".into())).status(), 404);
    }
}
