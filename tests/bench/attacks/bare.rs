//! Time the machine itself needs to send the same bytes to many connections.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use super::published::remote_address;
use super::swarm::{ConnectionScript, Swarm};

/// Length of the part of a message that contains its sender and topic.
const PIECE: usize = 512;
/// Number of messages, one after another.
const ROUNDS: usize = 3;
/// Maximum wait.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Returns the seconds from the first to the last connection that got a message of this size from a program that only
/// writes it to one connection after another. The reader is that of the attacks.
pub fn delivery_times(connections: usize, bytes: usize) -> Vec<f64> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut swarm = Swarm::new(listener.local_addr().expect("an address"), PIECE);
    let (go, begin) = channel();
    let writer = thread::spawn(move || write(&listener, connections, bytes, &begin));
    swarm.open(connections, remote_address, ConnectionScript { upgrades: true, ..ConnectionScript::default() });
    swarm.run(MAX_WAIT, |swarm| swarm.statuses.get(&101) == Some(&connections));
    for round in 1..=ROUNDS {
        go.send(round).expect("a writer");
        swarm.run(MAX_WAIT, |swarm| swarm.messages == round * connections);
    }
    drop(go);
    writer.join().expect("a writer that ends");
    swarm.deliveries.values().map(|delivery| (delivery.last - delivery.first).as_secs_f64()).collect()
}

/// Accepts connections, and writes a message to all of them for each request.
fn write(listener: &TcpListener, connections: usize, bytes: usize, begin: &Receiver<usize>) {
    let mut waiting: VecDeque<TcpStream> = (0..connections)
        .map(|_| {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").expect("a reader");
            stream.set_nonblocking(true).expect("a socket");
            stream.set_nodelay(true).expect("a socket");
            stream
        })
        .collect();
    while let Ok(round) = begin.recv() {
        let message = message(round, bytes);
        let mut unfinished: VecDeque<(TcpStream, usize)> = waiting.drain(..).map(|stream| (stream, 0)).collect();
        while let Some((mut stream, sent)) = unfinished.pop_front() {
            match stream.write(&message[sent..]) {
                Ok(count) if sent + count == message.len() => waiting.push_back(stream),
                Ok(count) => unfinished.push_back((stream, sent + count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => unfinished.push_back((stream, sent)),
                Err(error) => panic!("the reader is gone: {error}"),
            }
        }
    }
}

/// Returns a frame with a MESSAGE of this size.
fn message(round: usize, bytes: usize) -> Vec<u8> {
    let mut text = format!("MESSAGE\ndestination:/bare\ncontent-length:{bytes}\n\n{round}").into_bytes();
    text.resize(text.len() + bytes, b'.');
    let mut frame = vec![0x81, 127];
    frame.extend_from_slice(&(text.len() as u64).to_be_bytes());
    frame.extend_from_slice(&text);
    frame
}
