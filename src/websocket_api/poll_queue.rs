//! Queue of messages for a client that fetches them by HTTP requests.

use std::collections::VecDeque;
use std::time::Duration;

use super::sockjs::{self, Transport, Wrapper, close_frame};
use crate::metrics::subtract;
use crate::net::service::{ConnectionId, Dropped, Progress};

/// Bytes of messages after which a response ends, and the client must send a new request.
pub const ANSWER_BYTES: usize = 128 * 1024;
/// Bytes after which a part of a response is sent before more is added.
const CHUNK_BYTES: usize = 32 * 1024;
/// Requests that wait until the messages of another request are processed.
pub const MAX_WAITING_SENDERS: usize = 8;
/// Bytes of messages that are kept for the client of an ended session.
pub const MAX_CLOSING_BYTES: usize = 2 * 1024;
/// Memory of a message besides its text, in bytes.
const MESSAGE_OVERHEAD: usize = 32;
/// Close code of a session whose client does not fetch its messages.
pub const TOO_SLOW: u16 = 4500;

/// Why a request gets no messages: a close code and a reason.
pub type CloseReason = (u16, &'static str);

/// Another request already waits for messages of the session.
pub const STILL_OPEN: CloseReason = (2010, "Another connection still open");
/// The session has ended, and the client has been informed.
pub const GO_AWAY: CloseReason = (3000, "Go away!");
/// A connection that received or sent messages was lost; some messages may be lost.
pub const INTERRUPTED: CloseReason = (1002, "Connection interrupted");

/// How a session has ended.
#[derive(Debug)]
struct End {
    code: u16,
    reason: String,
    /// The client has been informed.
    is_sent: bool,
}

/// Queued messages, the request that waits for them, and the requests that send.
#[derive(Debug)]
pub struct PollQueue {
    /// The transport that opened the session.
    pub transport: Transport,
    /// The request that waits for messages.
    pub receiver: Option<ConnectionId>,
    /// The request whose messages are being read.
    pub sender: Option<ConnectionId>,
    waiting_senders: VecDeque<ConnectionId>,
    /// Each is a JSON string with its quotes.
    messages: VecDeque<Box<[u8]>>,
    /// Bytes of queued messages.
    pub message_bytes: usize,
    is_open: bool,
    is_heartbeat_due: bool,
    end: Option<End>,
    /// Bytes of messages in the current response.
    response_bytes: usize,
    /// When something was last written, or the last receiver left.
    last_activity: Duration,
    /// Work units to charge to the next receiver.
    deferred_cost: u32,
}

impl PollQueue {
    /// Creates the queue of a new session. The first response starts with an open frame.
    pub fn new(transport: Transport, now: Duration) -> PollQueue {
        PollQueue {
            transport,
            receiver: None,
            sender: None,
            waiting_senders: VecDeque::new(),
            messages: VecDeque::new(),
            message_bytes: 0,
            is_open: false,
            is_heartbeat_due: false,
            end: None,
            response_bytes: 0,
            last_activity: now,
            deferred_cost: 0,
        }
    }

    /// All current requests of the session.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.receiver.into_iter().chain(self.sender).chain(self.waiting_senders.iter().copied())
    }

    /// When a heartbeat is due, or when the session times out.
    pub fn due(&self, heartbeat: Duration, disconnect_delay: Duration) -> Duration {
        self.last_activity + if self.receiver.is_some() { heartbeat } else { disconnect_delay }
    }

    /// Queues a message, a JSON string with its quotes. Fails and ends the session if more than `limit` bytes would be
    /// queued, unless the queue is empty.
    pub fn push(&mut self, message: Box<[u8]>, limit: usize, now: Duration) -> Result<(), Dropped> {
        let bytes = message.len() + MESSAGE_OVERHEAD;
        if !self.messages.is_empty() && self.message_bytes + bytes > limit {
            self.close(TOO_SLOW, "", now);
            return Err(Dropped);
        }
        self.message_bytes += bytes;
        self.messages.push_back(message);
        Ok(())
    }

    /// Ends the session. Only the newest [`MAX_CLOSING_BYTES`] of messages are kept, and none for a client that did not fetch
    /// them.
    pub fn close(&mut self, code: u16, reason: &str, now: Duration) {
        if self.end.is_some() {
            return;
        }
        self.end = Some(End { code, reason: reason.to_owned(), is_sent: false });
        if self.receiver.is_none() {
            self.last_activity = now;
        }
        // A client that has missed messages gets none of the rest.
        let kept = if code == TOO_SLOW { 0 } else { MAX_CLOSING_BYTES };
        while self.message_bytes > kept && self.take().is_some() {}
        self.messages.shrink_to_fit();
    }

    /// Requests a heartbeat for the receiver.
    pub fn request_heartbeat(&mut self, now: Duration) {
        self.is_heartbeat_due = true;
        self.last_activity = now;
    }

    /// Records work for the client while no connection can be charged.
    pub fn defer_cost(&mut self, units: u32) {
        self.deferred_cost = self.deferred_cost.saturating_add(units);
    }

    /// Attaches a request that receives. Returns the work units to charge to it.
    pub fn attach(&mut self, connection: ConnectionId) -> Result<u32, CloseReason> {
        if self.receiver.is_some() {
            return Err(STILL_OPEN);
        }
        if self.end.as_ref().is_some_and(|end| end.is_sent) {
            return Err(GO_AWAY);
        }
        self.receiver = Some(connection);
        self.response_bytes = 0;
        Ok(std::mem::take(&mut self.deferred_cost))
    }

    /// Writes queued messages into the receiver's response. When the response is complete, the receiver is detached.
    pub fn write_pending(&mut self, wrapper: &Wrapper<'_>, now: Duration, out: &mut Vec<u8>) -> Progress {
        let before = out.len();
        let taken = self.write(wrapper, out);
        if out.len() > before {
            self.last_activity = now;
            self.is_heartbeat_due = false;
        }
        if taken == Progress::Done {
            self.receiver = None;
            // Free the memory of the fetched messages.
            self.messages.shrink_to_fit();
        }
        taken
    }

    fn write(&mut self, wrapper: &Wrapper<'_>, out: &mut Vec<u8>) -> Progress {
        let is_polling = !wrapper.transport.is_streaming();
        if !std::mem::replace(&mut self.is_open, true) {
            wrapper.frame(out, sockjs::OPEN);
            if is_polling {
                return Progress::Done;
            }
        }
        if is_polling && !self.messages.is_empty() {
            wrapper.frame(out, &self.batch_frame());
            return Progress::Done;
        }
        while let Some(message) = self.take() {
            let frame = [b"a[", &*message, b"]"].concat();
            wrapper.frame(out, &frame);
            self.response_bytes += frame.len() + 1;
            if self.response_bytes >= ANSWER_BYTES {
                return Progress::Done;
            }
            if out.len() >= CHUNK_BYTES {
                return Progress::Yield;
            }
        }
        if let Some(end) = &mut self.end {
            end.is_sent = true;
            wrapper.frame(out, &close_frame(end.code, &end.reason));
            return Progress::Done;
        }
        if self.is_heartbeat_due {
            wrapper.frame(out, sockjs::HEARTBEAT);
            if is_polling {
                return Progress::Done;
            }
        }
        Progress::Streaming
    }

    /// Combines messages into one frame, up to the size of a response.
    fn batch_frame(&mut self) -> Vec<u8> {
        let mut frame = b"a[".to_vec();
        while let Some(message) = self.take() {
            frame.extend_from_slice(&message);
            frame.push(b',');
            if frame.len() >= ANSWER_BYTES {
                break;
            }
        }
        frame.pop();
        frame.push(b']');
        frame
    }

    fn take(&mut self) -> Option<Box<[u8]>> {
        let message = self.messages.pop_front()?;
        subtract(&mut self.message_bytes, message.len() + MESSAGE_OVERHEAD);
        Some(message)
    }

    /// Starts to read the messages of a request. Returns whether it is its turn; fails if too many requests wait.
    pub fn begin_sending(&mut self, connection: ConnectionId) -> Result<bool, Dropped> {
        if self.sender.is_none() {
            self.waiting_senders.retain(|waiting| *waiting != connection);
            self.sender = Some(connection);
            return Ok(true);
        }
        if !self.waiting_senders.contains(&connection) {
            if self.waiting_senders.len() >= MAX_WAITING_SENDERS {
                return Err(Dropped);
            }
            self.waiting_senders.push_back(connection);
        }
        Ok(false)
    }

    /// Ends the reading of a request's messages. Returns the next request to resume.
    pub fn end_sending(&mut self) -> Option<ConnectionId> {
        self.sender = None;
        self.waiting_senders.front().copied()
    }

    /// Handles a lost connection. Returns whether messages may be lost.
    pub fn on_disconnect(&mut self, connection: ConnectionId, now: Duration) -> bool {
        self.waiting_senders.retain(|waiting| *waiting != connection);
        let is_receiver = self.receiver.take_if(|receiver| *receiver == connection).is_some();
        if is_receiver {
            self.last_activity = now;
        }
        self.sender.take_if(|sender| *sender == connection).is_some() || is_receiver
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);
    const LIMIT: usize = 512 * 1024;
    const POLL: Wrapper<'_> = Wrapper { transport: Transport::Xhr, callback: "" };
    const STREAM: Wrapper<'_> = Wrapper { transport: Transport::XhrStreaming, callback: "" };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn poll_queue(wrapper: &Wrapper<'_>) -> PollQueue {
        let mut poll_queue = PollQueue::new(wrapper.transport, at(0));
        assert_eq!(fetch(&mut poll_queue, wrapper, 0).0, "o\n");
        poll_queue
    }

    /// The response to a request of connection A, and its progress.
    fn fetch(poll_queue: &mut PollQueue, wrapper: &Wrapper<'_>, now: u64) -> (String, Progress) {
        if poll_queue.receiver.is_none() {
            poll_queue.attach(A).unwrap();
        }
        let mut out = Vec::new();
        let taken = poll_queue.write_pending(wrapper, at(now), &mut out);
        (String::from_utf8(out).unwrap(), taken)
    }

    fn post(poll_queue: &mut PollQueue, text: &str) -> Result<(), Dropped> {
        poll_queue.push(format!("\"{text}\"").into_bytes().into(), LIMIT, at(1))
    }

    #[test]
    fn polling_gets_all_queued_messages_at_once_and_streaming_one_frame_each() {
        let mut polled = poll_queue(&POLL);
        let mut streamed = poll_queue(&STREAM);
        assert_eq!((polled.receiver, streamed.receiver), (None, Some(A)));
        for poll_queue in [&mut polled, &mut streamed] {
            post(poll_queue, "x").unwrap();
            post(poll_queue, "y").unwrap();
        }
        assert_eq!(fetch(&mut polled, &POLL, 1), ("a[\"x\",\"y\"]\n".to_owned(), Progress::Done));
        assert_eq!(fetch(&mut streamed, &STREAM, 1), ("a[\"x\"]\na[\"y\"]\n".to_owned(), Progress::Streaming));
        assert_eq!((polled.message_bytes, streamed.message_bytes), (0, 0));
        assert_eq!(fetch(&mut polled, &POLL, 1), (String::new(), Progress::Streaming));
    }

    #[test]
    fn a_second_receiver_is_rejected_and_the_first_stays_attached() {
        let mut poll_queue = poll_queue(&STREAM);
        assert_eq!(poll_queue.attach(B), Err(STILL_OPEN));
        assert_eq!(poll_queue.receiver, Some(A));
    }

    #[test]
    fn a_streamed_response_ends_at_its_byte_limit_and_is_written_in_chunks() {
        let mut poll_queue = poll_queue(&STREAM);
        let text = "x".repeat(10_000);
        (0..20).for_each(|_| post(&mut poll_queue, &text).unwrap());
        let mut pieces = Vec::new();
        loop {
            let (piece, taken) = fetch(&mut poll_queue, &STREAM, 1);
            pieces.push(piece.len());
            if taken == Progress::Done {
                break;
            }
            assert_eq!(taken, Progress::Yield);
        }
        let sent: usize = pieces.iter().sum();
        assert!((ANSWER_BYTES..ANSWER_BYTES + 10_010).contains(&sent), "{sent}");
        assert!(pieces.len() > 3 && pieces.iter().all(|piece| *piece < CHUNK_BYTES + 10_010), "{pieces:?}");
        // The next response starts anew.
        assert_eq!(poll_queue.receiver, None);
        let (rest, taken) = fetch(&mut poll_queue, &STREAM, 1);
        assert!(rest.len() > 10_000 && taken == Progress::Yield);
    }

    #[test]
    fn a_poll_response_is_limited_in_bytes() {
        let mut poll_queue = poll_queue(&POLL);
        (0..20).for_each(|_| post(&mut poll_queue, &"x".repeat(10_000)).unwrap());
        let first = fetch(&mut poll_queue, &POLL, 1).0;
        assert!((ANSWER_BYTES..ANSWER_BYTES + 10_010).contains(&first.len()));
        assert_eq!(first.len() + fetch(&mut poll_queue, &POLL, 1).0.len(), 20 * 10_003 + 6);
    }

    #[test]
    fn a_heartbeat_ends_a_poll_and_continues_a_stream() {
        for (wrapper, taken) in [(POLL, Progress::Done), (STREAM, Progress::Streaming)] {
            let mut poll_queue = poll_queue(&wrapper);
            assert_eq!(fetch(&mut poll_queue, &wrapper, 3), (String::new(), Progress::Streaming));
            assert_eq!(poll_queue.due(at(25), at(5)), at(25), "what was written last was written at 0");
            poll_queue.request_heartbeat(at(25));
            assert_eq!(fetch(&mut poll_queue, &wrapper, 26), ("h\n".to_owned(), taken));
            assert_eq!(poll_queue.due(at(25), at(5)), if taken == Progress::Streaming { at(51) } else { at(31) });
        }
    }

    #[test]
    fn a_closed_session_reports_its_close_code_once_and_then_go_away() {
        let mut poll_queue = poll_queue(&POLL);
        post(&mut poll_queue, "last").unwrap();
        poll_queue.close(1002, "", at(2));
        poll_queue.close(1000, "another", at(3));
        assert_eq!(poll_queue.due(at(25), at(5)), at(7));
        assert_eq!(fetch(&mut poll_queue, &POLL, 3), ("a[\"last\"]\n".to_owned(), Progress::Done));
        assert_eq!(fetch(&mut poll_queue, &POLL, 3), ("c[1002,\"null\"]\n".to_owned(), Progress::Done));
        assert_eq!(poll_queue.attach(A), Err(GO_AWAY));
    }

    #[test]
    fn a_client_that_does_not_poll_loses_the_session_and_its_queue() {
        let mut poll_queue = poll_queue(&POLL);
        let text = "x".repeat(100_000);
        let posted = (0..10).take_while(|_| post(&mut poll_queue, &text).is_ok()).count();
        assert_eq!((posted, poll_queue.message_bytes), (5, 0));
        assert_eq!(fetch(&mut poll_queue, &POLL, 1).0, "c[4500,\"null\"]\n");
    }

    #[test]
    fn one_message_of_any_size_is_queued() {
        let mut poll_queue = poll_queue(&POLL);
        post(&mut poll_queue, &"x".repeat(2 * LIMIT)).unwrap();
        assert_eq!(fetch(&mut poll_queue, &POLL, 1).0.len(), 2 * LIMIT + 6);
        assert!(post(&mut poll_queue, "y").is_ok());
    }

    #[test]
    fn send_requests_are_serialised_and_their_queue_is_limited() {
        let mut poll_queue = poll_queue(&POLL);
        assert_eq!(poll_queue.begin_sending(A), Ok(true));
        let others = (10..).map(ConnectionId);
        let waiting = others.take_while(|other| poll_queue.begin_sending(*other) == Ok(false)).count();
        assert_eq!(waiting, MAX_WAITING_SENDERS);
        assert_eq!(poll_queue.begin_sending(ConnectionId(10)), Ok(false), "it waits already");
        assert_eq!(poll_queue.end_sending(), Some(ConnectionId(10)));
        assert_eq!(poll_queue.begin_sending(ConnectionId(10)), Ok(true));
        assert!(!poll_queue.on_disconnect(ConnectionId(11), at(1)), "nothing of it was read");
        assert!(poll_queue.on_disconnect(ConnectionId(10), at(1)));
        assert_eq!(poll_queue.end_sending(), Some(ConnectionId(12)));
    }

    proptest! {
        #[test]
        fn all_messages_are_delivered_once_and_in_order(
            steps in proptest::collection::vec((0u8..4, 0usize..40_000), 1..60),
            is_streaming: bool,
        ) {
            let wrapper = if is_streaming { STREAM } else { POLL };
            let mut poll_queue = poll_queue(&wrapper);
            let (mut posted, mut got) = (Vec::new(), Vec::new());
            let mut receive = |poll_queue: &mut PollQueue| {
                let (text, taken) = fetch(poll_queue, &wrapper, 1);
                for line in text.lines().filter_map(|line| line.strip_prefix('a')) {
                    got.extend(serde_json::from_str::<Vec<String>>(line).unwrap());
                }
                taken
            };
            for (step, size) in steps {
                match step {
                    0 | 1 => {
                        let text = format!("{}{}", posted.len(), "x".repeat(size));
                        let held = poll_queue.message_bytes;
                        if post(&mut poll_queue, &text).is_err() {
                            prop_assert!(held + size > LIMIT - 100);
                            return Ok(());
                        }
                        posted.push(text);
                    }
                    2 => drop(receive(&mut poll_queue)),
                    _ => poll_queue.request_heartbeat(at(2)),
                }
                prop_assert!(poll_queue.message_bytes <= LIMIT);
            }
            for _ in 0..1000 {
                if receive(&mut poll_queue) == Progress::Streaming {
                    break;
                }
            }
            prop_assert_eq!(poll_queue.message_bytes, 0);
            prop_assert_eq!(got, posted);
        }
    }
}
