//! A scripted peer: it introduces itself and signs like any node, repeats the answers of an honest node, and misbehaves
//! in one way.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nisd::codec::{Context, Format, Readable, Writable};
use nisd::crypto::KeyPair;
use nisd::peer::wire::{CHALLENGE_BYTES, Challenge, Endpoint, Identity, MetaData, NodeExperiences, NodeInfo};

pub use crate::common::http::ReceivedRequest;
use crate::common::http::{Client, authorization, post_binary, receive_request, response};
use crate::common::private_network::{NETWORK, address, key_pair};

/// Maximum wait, so that no thread outlives its test for long.
const MAX_WAIT: Duration = Duration::from_secs(240);
/// Bytes per write of an endless response.
const FLOOD_CHUNK: usize = 64 << 10;

/// Returns the start height of a request that has one.
pub fn start_height(request: &ReceivedRequest) -> u64 {
    let bytes = request.body.get(4..12).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(1, u64::from_le_bytes)
}

/// What follows the last byte of a response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AfterResponse {
    /// The connection stays open.
    KeepOpen,
    /// Nothing more is sent.
    Hang,
    /// The same byte repeated as fast as the peer reads.
    Flood(u8),
    /// One byte per second.
    Drip(u8),
}

/// The response of the script.
pub enum ScriptedResponse {
    /// The response of the honest node.
    Truthful,
    /// This entity, correctly signed.
    Entity(Vec<u8>),
    /// These raw bytes on the connection.
    Raw(Vec<u8>, AfterResponse),
}

impl ScriptedResponse {
    /// Returns an entity to be signed correctly.
    pub fn entity(entity: &impl Writable) -> ScriptedResponse {
        ScriptedResponse::Entity(Format::Binary.to_bytes(entity))
    }
}

/// An honest node that supplies true answers.
#[derive(Clone, Copy)]
pub struct HonestPeer(pub SocketAddr);

impl HonestPeer {
    /// Returns the entity of its answer to a request.
    pub fn entity(&self, request: &ReceivedRequest) -> io::Result<Vec<u8>> {
        let body = self.post(&request.path, &request.body)?;
        let length = body.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
        body.get(4..4 + length).map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns the decoded entity of its answer to a path; `before` precedes the challenge.
    pub fn query<T: Readable>(&self, path: &str, before: &[u8]) -> T {
        let challenge = Format::Binary.to_bytes(&Challenge([1; CHALLENGE_BYTES]));
        let body = match before {
            [] => challenge,
            _ => [before, &(challenge.len() as u32).to_le_bytes(), &challenge].concat(),
        };
        let entity = self
            .entity(&ReceivedRequest { method: "POST".to_owned(), path: path.to_owned(), head: String::new(), body })
            .expect("the honest node answers");
        read(&entity)
    }

    /// Returns the body of its answer to a request.
    pub fn post(&self, path: &str, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut client = Client::from_stream(TcpStream::connect(self.0)?);
        client.stream().set_read_timeout(Some(MAX_WAIT))?;
        let mut request = post_binary(path, body);
        // The secret follows the first line, so that no limit applies to tests.
        let first = request.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
        request.splice(first..first, authorization(self.0).into_bytes());
        client.try_send(request)?;
        let answer = client.try_answer()?;
        if answer.status == 200 { Ok(answer.body) } else { Err(io::ErrorKind::Other.into()) }
    }
}

/// The script: maps a request to a response.
pub type Script = dyn Fn(&ReceivedRequest, &HonestPeer) -> ScriptedResponse + Send + Sync;

struct PeerState {
    keys: KeyPair,
    honest: HonestPeer,
    script: Box<Script>,
    endpoint: SocketAddr,
    requested_paths: Mutex<Vec<String>>,
    is_stopped: AtomicBool,
}

/// A scripted peer; dropping the value stops it.
pub struct ScriptedPeer(Arc<PeerState>);

impl ScriptedPeer {
    /// Starts the peer on an address of this machine; port 0 means any.
    pub fn start(
        keys: KeyPair,
        address: SocketAddr,
        honest: HonestPeer,
        script: impl Fn(&ReceivedRequest, &HonestPeer) -> ScriptedResponse + Send + Sync + 'static,
    ) -> ScriptedPeer {
        let listener = TcpListener::bind(address).expect("a port");
        let part = Arc::new(PeerState {
            keys,
            honest,
            script: Box::new(script),
            endpoint: listener.local_addr().expect("an address"),
            requested_paths: Mutex::default(),
            is_stopped: AtomicBool::new(false),
        });
        let served = part.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let part = served.clone();
                if part.is_stopped.load(Ordering::Relaxed) {
                    return;
                }
                // The script ignores clients that disconnect.
                thread::spawn(move || drop(part.serve(stream)));
            }
        });
        ScriptedPeer(part)
    }

    /// Returns the address it listens on.
    pub fn endpoint(&self) -> SocketAddr {
        self.0.endpoint
    }

    /// Returns its node information.
    pub fn info(&self) -> NodeInfo {
        self.0.info()
    }

    /// Returns how often a path was requested.
    pub fn count(&self, path: &str) -> usize {
        self.0.requested_paths.lock().expect("no thread panics").iter().filter(|request| *request == path).count()
    }
}

impl Drop for ScriptedPeer {
    fn drop(&mut self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.0.endpoint));
    }
}

/// Builds the node information of a node of the network.
pub fn info(keys: &KeyPair, endpoint: SocketAddr) -> NodeInfo {
    NodeInfo {
        identity: Identity { key: keys.public(), name: Some("a script".to_owned()) },
        endpoint: Endpoint::http(endpoint.ip().to_string(), endpoint.port()),
        meta_data: MetaData {
            version: "0.6.102".parse().expect("a version"),
            network_id: MetaData::network_id_of(NETWORK),
            ..MetaData::default()
        },
    }
}

impl PeerState {
    fn info(&self) -> NodeInfo {
        info(&self.keys, self.endpoint)
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(MAX_WAIT))?;
        stream.set_write_timeout(Some(MAX_WAIT))?;
        stream.set_nodelay(true)?;
        let mut received = Vec::new();
        while let Some(request) = receive_request(&mut stream, &mut received)? {
            self.requested_paths.lock().expect("no thread panics").push(request.path.clone());
            let (bytes, after) = match (self.script)(&request, &self.honest) {
                ScriptedResponse::Raw(bytes, after) => (bytes, after),
                ScriptedResponse::Entity(entity) => (answer(&self.signed(&request, &entity)), AfterResponse::KeepOpen),
                ScriptedResponse::Truthful => (answer(&self.truth(&request)?), AfterResponse::KeepOpen),
            };
            stream.write_all(&bytes)?;
            if after != AfterResponse::KeepOpen {
                return self.finish_response(stream, after);
            }
        }
        Ok(())
    }

    /// Returns the entity that an honest node would send in its place.
    fn truth(&self, request: &ReceivedRequest) -> io::Result<Vec<u8>> {
        Ok(match request.path.as_str() {
            "/node/info" => self.signed(request, &Format::Binary.to_bytes(&self.info())),
            "/node/experiences" => {
                let own = NodeExperiences { node: self.info(), experiences: Vec::new() };
                self.signed(request, &Format::Binary.to_bytes(&own))
            }
            "/node/cysm" => request.body.clone(),
            "/node/sign-of-life" | "/push/block" | "/push/transactions" => Vec::new(),
            _ => self.signed(request, &self.honest.entity(request)?),
        })
    }

    fn signed(&self, request: &ReceivedRequest, entity: &[u8]) -> Vec<u8> {
        // Every request that has a challenge ends with it.
        let challenge = request.body.last_chunk().copied().unwrap_or([0; CHALLENGE_BYTES]);
        signed(entity, &Challenge(challenge), &self.keys)
    }

    fn finish_response(&self, mut stream: TcpStream, after: AfterResponse) -> io::Result<()> {
        match after {
            AfterResponse::KeepOpen => Ok(()),
            AfterResponse::Hang => stream.read_to_end(&mut Vec::new()).map(drop),
            AfterResponse::Flood(byte) => self.send_repeatedly(&mut stream, &[byte; FLOOD_CHUNK], Duration::ZERO),
            AfterResponse::Drip(byte) => self.send_repeatedly(&mut stream, &[byte], Duration::from_secs(1)),
        }
    }

    fn send_repeatedly(&self, stream: &mut TcpStream, bytes: &[u8], pause: Duration) -> io::Result<()> {
        while !self.is_stopped.load(Ordering::Relaxed) {
            stream.write_all(bytes)?;
            thread::sleep(pause);
        }
        Ok(())
    }
}

/// Appends to an entity the proof of a key over a challenge.
pub fn signed(entity: &[u8], challenge: &Challenge, keys: &KeyPair) -> Vec<u8> {
    let signature = challenge.sign(keys).0;
    [&(entity.len() as u32).to_le_bytes(), entity, &(signature.len() as u32).to_le_bytes(), &signature].concat()
}

/// Decodes an entity of an honest node.
pub fn read<T: Readable>(entity: &[u8]) -> T {
    let context = Context { network: NETWORK, nemesis_signer: address(&key_pair(0)), trusted: false };
    Format::Binary.read(entity, context).expect("an honest node can be understood")
}

/// Builds a response with status 200.
pub fn answer(body: &[u8]) -> Vec<u8> {
    response("200 OK\r\nContent-Type: application/binary", body)
}
