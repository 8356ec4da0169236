//! SockJS, protocol 0.3.3: a stream of messages in both directions for clients that have no websockets, or none that
//! gets through.
//!
//! | part | what it is |
//! |---|---|
//! | `frame` | what the server says: `o`, `h`, `a[…]`, `c[…]` |
//! | `payload` | what the client says: arrays of strings |
//! | [`transport`] | how frames are wrapped into answers to requests |
//! | `mailbox` | what waits for a client that fetches it |

pub mod frame;
pub mod mailbox;
pub mod payload;
pub mod transport;

pub use mailbox::Mailbox;
