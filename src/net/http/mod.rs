//! Server-side HTTP/1.1, without sockets or clocks.
//!
//! [`RequestReader`] parses received bytes into [`Request`]s that borrow from its buffer; a service fills a [`Response`];
//! [`Response::write`] writes it as bytes. A message that is itself faulty is an [`HttpError`], answered with the HTML
//! page of NIS1's web container and a closed connection.

mod chunked;
mod error;
mod gzip;
mod head;
mod reader;
mod request;
mod response;
mod static_text;

pub(in crate::net) use chunked::ChunkedBody;
pub use error::HttpError;
pub use gzip::{GZIP_MAX_BYTES, GZIP_MIN_BYTES, Gzip, accepts_gzip};
pub use head::{HEAD_LIMIT, MAX_HEADERS};
pub use reader::RequestReader;
pub use request::{Headers, Request};
pub use response::Response;
pub use static_text::StaticText;
