//! Errors of the HTTP interface.

use std::borrow::Cow;

use crate::codec::ReadError;
use crate::crypto::HexError;
use crate::model::mosaic::NameError;
use crate::model::{Hash256, Height, MosaicId};
use crate::peer::wire::ErrorBody;
use crate::rules::{Exception, Rejection};
use crate::store::StoreError;

/// Error of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status} {message}")]
pub struct ApiError {
    /// HTTP status.
    pub status: u16,
    /// The message that the client sees, before it is truncated to 128 units.
    pub message: Cow<'static, str>,
}

impl ApiError {
    /// The node has not joined the network.
    pub const NOT_BOOTED: ApiError = ApiError::unavailable(ErrorBody::NOT_BOOTED);
    /// The node has already joined the network.
    pub const ALREADY_BOOTED: ApiError = ApiError::unavailable(ErrorBody::ALREADY_BOOTED);
    /// Too many requests wait for the disk.
    pub const TOO_MUCH_TO_READ: ApiError = ApiError::unavailable("too many requests wait for the disk");
    /// A text is not an address of the network.
    pub const BAD_ADDRESS: ApiError = ApiError::argument("address must be valid");

    /// Creates the error for a status.
    pub fn new(status: u16, message: impl Into<Cow<'static, str>>) -> ApiError {
        ApiError { status, message: message.into() }
    }

    /// Creates a 400: a value is not allowed.
    pub const fn argument(text: &'static str) -> ApiError {
        ApiError { status: 400, message: Cow::Borrowed(text) }
    }

    /// Creates a 500: any other error.
    pub const fn internal(text: &'static str) -> ApiError {
        ApiError { status: 500, message: Cow::Borrowed(text) }
    }

    /// Creates a 503: the state of the node does not allow a response.
    pub const fn unavailable(text: &'static str) -> ApiError {
        ApiError { status: 503, message: Cow::Borrowed(text) }
    }

    /// Creates the 503 of a node whose store is rebuilt, at a height of the target.
    pub fn loading(height: Height, target: Height) -> ApiError {
        ApiError::new(503, format!("{}: the store is rebuilt, height {height} of {target}", ErrorBody::LOADING_CHAIN))
    }

    /// Creates the error for a hash that no top-level transaction of a block has.
    pub fn no_transaction(hash: &Hash256) -> ApiError {
        ApiError::new(404, format!("transaction not found in the db '{hash}' (class org.nem.core.crypto.Hash)"))
    }

    /// Creates the error for a height without a block.
    pub fn no_block(height: Height) -> ApiError {
        ApiError::new(404, format!("block not found in the db '{height}' (org.nem.core.model.Block)"))
    }

    /// Creates the error for an unknown mosaic.
    pub fn no_mosaic(id: &MosaicId) -> ApiError {
        let kind = "org.nem.core.model.ncc.MosaicIdSupplyPair";
        ApiError::new(404, format!("mosaic id {id} is unknown '{id}' ({kind})"))
    }
}

impl From<NameError> for ApiError {
    fn from(error: NameError) -> ApiError {
        ApiError::new(400, error.to_string())
    }
}

impl From<HexError> for ApiError {
    fn from(error: HexError) -> ApiError {
        let exception = "java.lang.IllegalArgumentException: org.apache.commons.codec.DecoderException";
        ApiError::new(500, format!("{exception}: {error}"))
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> ApiError {
        ApiError::new(error.http_status(), error.to_string())
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> ApiError {
        match rejection {
            Rejection::Result(result) => ApiError::argument(result.name()),
            Rejection::Exception(Exception::Argument(text)) => ApiError::new(400, text),
            Rejection::Exception(Exception::Other(text)) => ApiError::new(500, text),
            Rejection::TooDeep | Rejection::Unusable => ApiError::new(500, rejection.to_string()),
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
        assert_eq!(ApiError::from(ReadError::Missing("x")).status, 500);
        assert_eq!(ApiError::from(ReadError::Argument("x".into())), ApiError::argument("x"));
        assert_eq!(ApiError::from(ReadError::UnknownAddress("X".into())).status, 404);
    }
}
