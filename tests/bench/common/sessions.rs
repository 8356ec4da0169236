//! Websocket sessions of clients with STOMP.

use std::io::{Read, Write};
use std::net::SocketAddr;

use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

use super::MAX_WAIT;

/// Opens sessions and subscribes them.
pub fn open(count: usize, address: SocketAddr, destinations: &[&str]) -> Vec<WebSocket<std::net::TcpStream>> {
    let streams: Vec<_> = (0..count).map(|_| std::net::TcpStream::connect(address).expect("a connection")).collect();
    for mut stream in &streams {
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(MAX_WAIT)).expect("a timeout");
        let request = "GET /w/messages/websocket HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
                       Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("a request");
    }
    streams.into_iter().map(|stream| subscribe(stream, destinations)).collect()
}

/// Reads the response to the handshake and subscribes.
pub fn subscribe(mut stream: std::net::TcpStream, destinations: &[&str]) -> WebSocket<std::net::TcpStream> {
    let (mut head, mut piece) = (Vec::new(), [0; 1024]);
    while !head.ends_with(b"\r\n\r\n") {
        // Nothing follows the head before this side sends something.
        let count = stream.read(&mut piece).expect("an answer");
        assert!(count > 0, "closed by the node");
        head.extend_from_slice(&piece[..count]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    let mut socket = WebSocket::from_raw_socket(stream, Role::Client, None);
    socket.send(Message::text("CONNECT\naccept-version:1.2\n\n\0")).expect("a session");
    for (id, destination) in destinations.iter().enumerate() {
        let frame = format!("SUBSCRIBE\nid:{id}\ndestination:{destination}\n\n\0");
        socket.send(Message::text(frame)).expect("a subscription");
    }
    socket
}
