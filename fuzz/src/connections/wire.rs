//! An in-memory socket, and the client's end of it.

use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::rc::Rc;

use nisd::net::Socket;

/// The state shared by a client and its connection.
#[derive(Default)]
pub struct Wire {
    /// Bytes from the client that have not been read.
    sent: VecDeque<u8>,
    /// The client sends nothing more.
    is_ended: bool,
    is_broken: bool,
    /// Bytes that the client accepts before writing blocks.
    pub room: usize,
    /// All bytes sent to the client.
    pub received: Vec<u8>,
    /// The server has ended writing.
    pub is_answered: bool,
    /// The server has closed its socket.
    pub is_dropped: bool,
}

/// The client's end.
#[derive(Clone)]
pub struct Client(Rc<RefCell<Wire>>);

/// The server's end.
pub struct End(Rc<RefCell<Wire>>);

/// Creates both ends of a connection whose client first accepts `room` bytes.
pub fn connect(room: usize) -> (Client, End) {
    let wire = Rc::new(RefCell::new(Wire { room, ..Wire::default() }));
    (Client(Rc::clone(&wire)), End(wire))
}

impl Client {
    pub fn wire(&self) -> RefMut<'_, Wire> {
        self.0.borrow_mut()
    }

    /// Sends bytes, unless the client has ended.
    pub fn send(&self, bytes: impl IntoIterator<Item = u8>) {
        let mut wire = self.wire();
        if !wire.is_ended {
            wire.sent.extend(bytes);
        }
    }

    pub fn end(&self) {
        self.wire().is_ended = true;
    }

    pub fn break_off(&self) {
        self.wire().is_broken = true;
    }

    /// Returns whether the server has read everything.
    pub fn is_read(&self) -> bool {
        self.wire().sent.is_empty()
    }

    pub fn is_ended(&self) -> bool {
        self.wire().is_ended
    }
}

impl Wire {
    fn check(&self) -> io::Result<()> {
        if self.is_broken { Err(ErrorKind::ConnectionReset.into()) } else { Ok(()) }
    }
}

impl Read for End {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut wire = self.0.borrow_mut();
        wire.check()?;
        match wire.sent.read(buffer)? {
            0 if !wire.is_ended => Err(ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    /// Accepts as much as there is room for, like the system.
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut wire = self.0.borrow_mut();
        wire.check()?;
        assert!(!wire.is_answered, "nothing is written after the end");
        if wire.room == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let before = wire.room;
        for slice in slices {
            let count = slice.len().min(wire.room);
            wire.received.extend_from_slice(&slice[..count]);
            wire.room -= count;
        }
        Ok(before - wire.room)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Socket for End {
    fn end_writing(&mut self) -> io::Result<()> {
        let mut wire = self.0.borrow_mut();
        wire.is_answered = true;
        wire.check()
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.0.borrow_mut().is_dropped = true;
    }
}
