//! What a connection needs of its socket.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;

/// The end of a connection. Neither reading nor writing waits: both fail with
/// [`WouldBlock`](io::ErrorKind::WouldBlock) instead.
pub trait Socket: Read + Write {
    /// Tells the other end that nothing more will be written.
    fn end_writing(&mut self) -> io::Result<()>;
}

impl Socket for TcpStream {
    fn end_writing(&mut self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}
