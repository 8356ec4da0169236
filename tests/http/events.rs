//! The stream of events of a running node.

use crate::common::daemon::{Node, new_network, wait_for};
use crate::common::http::{Client, Response, get, get_with};

/// A stream as its client reads it.
struct Stream {
    client: Client,
    answer: Response,
    taken: usize,
}

impl Stream {
    fn open(node: &Node, query: &str, headers: &str) -> Stream {
        let mut client = Client::connect(node.http);
        client.send(get_with(&format!("/events?{query}"), headers));
        let answer = client.head();
        assert_eq!((answer.status, answer.header("Content-Type")), (200, Some("text/event-stream")));
        Stream { client, answer, taken: 0 }
    }

    /// Returns id and kind of the next event.
    fn next(&mut self) -> (String, String) {
        loop {
            let text = std::str::from_utf8(&self.answer.body[self.taken..]).expect("UTF-8");
            if let Some((event, _)) = text.split_once("\n\n") {
                let field = |name: &str| {
                    let value = event.lines().find_map(|line| line.strip_prefix(name));
                    value.map(str::to_owned)
                };
                let found = field("id: ").zip(field("event: "));
                self.taken += event.len() + 2;
                match found {
                    Some(event) => return event,
                    None => continue,
                }
            }
            assert!(self.client.chunk(&mut self.answer), "a stream has no end");
        }
    }

    /// Returns id and kind of the next events of a kind.
    fn next_of(&mut self, kind: &str, count: usize) -> Vec<(String, String)> {
        let mut found = Vec::new();
        while found.len() < count {
            let event = self.next();
            if event.1 == kind {
                found.push(event);
            }
        }
        found
    }
}

fn streams(node: &Node) -> usize {
    let metrics = Client::connect(node.http).request(get("/metrics"));
    let line = metrics.text().lines().find_map(|line| line.strip_prefix("nisd_event_streams "));
    line.and_then(|value| value.parse().ok()).expect("a metric")
}

#[test]
#[ignore = "slow: a program on the real clock"]
fn each_block_is_told_as_it_comes_until_the_client_leaves() {
    let node = Node::on_fast_network(&new_network(), 1, &[], &[]);
    let mut stream = Stream::open(&node, "kinds=block", "");
    assert_eq!(stream.next().1, "synchronising");
    let blocks = stream.next_of("block", 3);
    let heights: Vec<u64> = blocks.iter().map(|(id, _)| id.split('.').next().unwrap().parse().unwrap()).collect();
    assert_eq!(heights, [heights[0], heights[0] + 1, heights[0] + 2]);
    assert_eq!(streams(&node), 1);
    drop(stream);
    wait_for("the end of the stream", || (streams(&node) == 0).then_some(()));
}

#[test]
fn a_stream_that_was_cut_goes_on_at_another_node() {
    let node = Node::on_tiny(53, &[]);
    let mut stream = Stream::open(&node, "from=1", "");
    let told: Vec<_> = stream.next_of("transaction", 40);
    drop(node);
    let other = Node::on_tiny(53, &[]);
    let mut rest = Stream::open(&other, "from=1", &format!("Last-Event-ID: {}\r\n", told[19].0));
    assert_eq!(rest.next_of("transaction", 20), told[20..]);
}

#[test]
fn an_id_that_is_no_text_is_an_error_and_no_stream_with_a_gap() {
    let node = Node::on_tiny(53, &[]);
    let head = get_with("/events?from=1", "Last-Event-ID: ");
    let (head, rest) = head.split_at(head.find("Last-Event-ID: ").expect("the header") + "Last-Event-ID: ".len());
    let mut client = Client::connect(node.http);
    client.send([head.as_bytes(), b"\xff\r\n", rest.as_bytes()].concat());
    assert_eq!(client.head().status, 400);
}
