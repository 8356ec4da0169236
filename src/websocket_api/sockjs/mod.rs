//! SockJS, protocol 0.3.3: a message stream in both directions for clients without a usable websocket.
//!
//! | module | purpose |
//! |---|---|
//! | `frame` | frames of the server: `o`, `h`, `a[…]`, `c[…]` |
//! | `payload` | messages of the client: arrays of strings |
//! | [`transport`] | wraps frames into HTTP responses |
//! | `poll_queue` | queue of messages for a client that polls |

pub mod frame;
pub mod payload;
pub mod poll_queue;
pub mod transport;

pub use poll_queue::PollQueue;
