//! HTTP/1.1 as a server speaks it, without sockets or clocks.
//!
//! [`RequestReader`] turns received bytes into [`Request`]s that borrow from its buffer; a service
//! fills a [`Reply`]; [`Reply::write`] turns it into bytes. Whatever is wrong with a message itself
//! is an [`HttpError`], answered by the small HTML page of NIS1's web container and a closed
//! connection.

mod chunked;
mod error;
mod gzip;
mod head;
mod reader;
mod reply;
mod request;
mod static_text;

pub(in crate::net) use chunked::ChunkedBody;
pub use error::HttpError;
pub use gzip::{GZIP_MAX_BYTES, GZIP_MIN_BYTES, Gzip, accepts_gzip};
pub use head::{HEAD_LIMIT, MAX_HEADERS};
pub use reader::RequestReader;
pub use reply::Reply;
pub use request::{Headers, Request};
pub use static_text::StaticText;
