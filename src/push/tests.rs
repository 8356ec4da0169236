use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use proptest::prelude::*;

use super::testing::{A1, A2, Known, NETWORK, Recorder, Sent, TIME, address, block_of, caller, multisig, transfer};
use super::{BlocksNewBody, Broker, Figures, Limits, Settings};
use crate::model::Height;
use crate::net::machine::{ConnectionId, Taken};

const NOTHING: [&str; 0] = [];
const NOW: Duration = Duration::from_secs(1_000);

/// A broker with the websockets 1 and 2 of two callers, and what it does.
struct Bench {
    broker: Broker,
    effects: Recorder,
    known: Known,
}

impl Default for Bench {
    fn default() -> Self {
        Self::new(Settings::default())
    }
}

impl Bench {
    fn new(settings: Settings) -> Self {
        let mut bench = Self::empty(settings);
        bench.open(1, "10.0.0.1");
        bench.open(2, "10.0.0.2");
        bench
    }

    fn empty(settings: Settings) -> Self {
        let broker = Broker::new(settings, NETWORK);
        Self { broker, effects: Recorder::default(), known: Known::default() }
    }

    fn strict() -> Self {
        Self::new(Settings { forgiving: false, ..Settings::default() })
    }

    fn limited(limits: Limits) -> Self {
        Self::new(Settings { limits, ..Settings::default() })
    }

    fn open(&mut self, socket: u64, from: &str) {
        self.broker.open(ConnectionId(socket), &caller(from), NOW, &mut self.effects);
    }

    fn gone(&mut self, socket: u64) {
        self.broker.gone(ConnectionId(socket));
    }

    /// Hands in a whole message as the reactor does, and returns what came out.
    fn receive(&mut self, socket: u64, message: &str) -> Vec<String> {
        self.hand_in(socket, message.as_bytes());
        self.effects.drain()
    }

    /// Hands in a message; returns how often the rest of it had to wait, or `None` if it still waits.
    fn hand_in(&mut self, socket: u64, message: &[u8]) -> Option<usize> {
        let mut taken = self.broker.heard(ConnectionId(socket), message, TIME, &mut self.effects);
        let mut waits = 0;
        while taken == Taken::Unfinished {
            waits += 1;
            taken = self.broker.resumed(ConnectionId(socket), TIME, &mut self.effects);
        }
        (taken == Taken::Done).then_some(waits)
    }

    /// Works for so many units, once.
    fn slice(&mut self, mut budget: u32) {
        let before = budget;
        self.broker.work(true, &self.known, NOW, TIME, &mut budget, &mut self.effects);
        assert!(budget <= before);
    }

    /// Works until nothing is left, resuming whoever is to be, and returns what came out.
    fn work(&mut self) -> Vec<String> {
        for _ in 0..100_000 {
            self.slice(1_000);
            for socket in std::mem::take(&mut self.effects.resumed) {
                let mut taken = Taken::Unfinished;
                while taken == Taken::Unfinished {
                    taken = self.broker.resumed(ConnectionId(socket), TIME, &mut self.effects);
                }
            }
            if !self.broker.has_work(true) {
                return self.effects.drain();
            }
        }
        panic!("the work has no end");
    }

    fn ask(&mut self, socket: u64, message: &str) -> Vec<String> {
        let mut out = self.receive(socket, message);
        out.extend(self.work());
        out
    }

    /// A block of so many transfers becomes part of the chain.
    fn add_block(&mut self, height: u64, transactions: usize) {
        self.known.blocks.insert(height, block_of(Height(height), transactions));
        self.broker.chain_changed(Height(height - 1), Height(height));
    }

    fn height(&mut self, height: u64) -> Vec<String> {
        self.add_block(height, 0);
        self.work()
    }

    /// A transaction of account 1 to account 2 comes into the pool.
    fn arrive(&mut self, number: i32) -> Vec<String> {
        self.broker.arrived(Rc::new(transfer(number)));
        self.work()
    }

    fn subscribe(&mut self, socket: u64, id: &str, destination: &str) {
        let subscribe = format!("SUBSCRIBE\nid:{id}\ndestination:{destination}\n\n\0");
        assert_eq!(self.receive(socket, &subscribe), NOTHING);
    }

    fn charged(&self, socket: u64) -> u64 {
        self.effects.charged.get(&socket).copied().unwrap_or(0)
    }

    fn registered(&self) -> usize {
        self.broker.figures().addresses
    }
}

fn send(path: &str, account: &str) -> String {
    format!("SEND\ndestination:/w/api/{path}\n\n{{'account':'{account}'}}\0")
}

/// Subscription ids of messages, in order.
fn ids(sent: &[String]) -> Vec<&str> {
    sent.iter()
        .map(|text| text.split("\nsubscription:").nth(1).and_then(|rest| rest.split('\n').next()).unwrap())
        .collect()
}

/// Receivers and topics of messages, in order.
fn topics(sent: &[String]) -> Vec<String> {
    let topic = |text: &String| {
        let (to, frame) = text.split_once(' ').unwrap();
        let topic = frame.strip_prefix("MESSAGE\ndestination:").unwrap().split('\n').next().unwrap();
        format!("{to} {topic}")
    };
    sent.iter().map(topic).collect()
}

mod sessions {
    use super::*;

    #[test]
    fn a_client_without_headers_sees_exactly_what_the_interface_text_shows() {
        let mut bench = Bench::default();
        assert_eq!(bench.receive(1, "CONNECT\n\n\0"), ["1 CONNECTED\nheart-beat:0,0\n\n\0"]);
        bench.subscribe(1, "sub-0", "/blocks/new");
        assert_eq!(
            bench.height(77),
            ["1 MESSAGE\ndestination:/blocks/new\nsubscription:sub-0\nmessage-id:1-0\ncontent-length:4\n\n77\r\n\0"]
        );
    }

    #[test]
    fn a_stomp_library_gets_the_height_as_an_object() {
        let mut bench = Bench::default();
        let connect = "CONNECT\naccept-version:1.1,1.0\nheart-beat:10000,10000\n\n\0";
        assert_eq!(bench.receive(1, connect), ["1 CONNECTED\nversion:1.1\nheart-beat:0,0\n\n\0"]);
        bench.subscribe(1, "sub-0", "/blocks/new");
        assert_eq!(
            bench.height(2),
            ["1 MESSAGE\ndestination:/blocks/new\nsubscription:sub-0\nmessage-id:1-0\n\
                 content-length:14\n\n{\"height\":2}\r\n\0"]
        );
    }

    #[test]
    fn an_empty_accept_version_counts_as_none() {
        let mut bench = Bench::default();
        let connect = "CONNECT\naccept-version:\n\n\0";
        assert_eq!(bench.receive(1, connect), ["1 CONNECTED\nheart-beat:0,0\n\n\0"]);
        bench.subscribe(1, "a", "/blocks/new");
        assert!(bench.height(7)[0].ends_with("\n\n7\r\n\0"));
        let connect = "CONNECT\naccept-version: \n\n\0";
        assert_eq!(bench.receive(2, connect), ["2 CONNECTED\nheart-beat:0,0\n\n\0"]);
    }

    #[test]
    fn the_form_of_the_height_can_be_fixed() {
        for (form, body) in
            [(BlocksNewBody::Object, "\n\n{\"height\":7}\r\n\0"), (BlocksNewBody::Number, "\n\n7\r\n\0")]
        {
            for connect in ["CONNECT\n\n\0", "STOMP\naccept-version:1.2\n\n\0"] {
                let mut bench = Bench::new(Settings { blocks_new: form, ..Settings::default() });
                bench.receive(1, connect);
                bench.subscribe(1, "1", "/blocks/*");
                let sent = bench.height(7);
                assert!(sent.len() == 1 && sent[0].ends_with(body), "{sent:?}");
            }
        }
    }

    #[test]
    fn unknown_versions_are_ignored_or_refused() {
        let connect = "CONNECT\naccept-version:1.3\n\n\0CONNECT\n\n\0";
        assert_eq!(Bench::strict().receive(1, connect), ["1 CONNECTED\nheart-beat:0,0\n\n\0"]);
        assert_eq!(
            Bench::default().receive(1, connect),
            ["1 ERROR\nmessage:Supported protocol versions are 1.0, 1.1, 1.2\ncontent-length:0\n\n\0", "1 close 1002"]
        );
    }

    #[test]
    fn forgiving_input_is_understood() {
        let mut bench = Bench::default();
        let subscribe = "SUBSCRIBE\ndestination: /blocks \nreceipt:r:1\n\n\0";
        assert_eq!(bench.receive(1, subscribe), ["1 RECEIPT\nreceipt-id:r\\c1\n\n\0"]);
        assert_eq!(ids(&bench.height(2)), ["sub-0"]);
        let unsubscribe = "UNSUBSCRIBE\nid: sub-0\nreceipt:2\n\n\0SEND\nreceipt:3\n\n\0";
        assert_eq!(bench.receive(1, unsubscribe), ["1 RECEIPT\nreceipt-id:2\n\n\0", "1 RECEIPT\nreceipt-id:3\n\n\0"]);
        assert_eq!(bench.broker.figures().topics, 0);
        assert_eq!(Bench::strict().receive(1, subscribe), NOTHING);
    }

    #[test]
    fn disconnect_with_receipt_leaves_the_connection_to_the_client() {
        let mut bench = Bench::default();
        bench.subscribe(1, "a", "/blocks");
        assert_eq!(bench.receive(1, "DISCONNECT\nreceipt:close-1\n\n\0"), ["1 RECEIPT\nreceipt-id:close-1\n\n\0"]);
        assert_eq!(bench.broker.figures().topics, 0);
        bench.subscribe(1, "a", "/blocks");
        assert_eq!(bench.height(2).len(), 1);
    }

    #[test]
    fn disconnect_without_receipt_ends_the_session() {
        let mut bench = Bench::default();
        bench.subscribe(1, "a", "/blocks");
        assert_eq!(
            bench.receive(1, "DISCONNECT\n\n\0CONNECT\n\n\0"),
            ["1 ERROR\nmessage:Session closed.\ncontent-length:0\n\n\0", "1 close 1002"]
        );
        assert_eq!(bench.receive(1, "CONNECT\n\n\0"), NOTHING);
        assert_eq!(bench.height(2), NOTHING);
        bench.gone(1);
        assert_eq!(bench.receive(1, "CONNECT\n\n\0"), NOTHING);
    }

    #[test]
    fn closing_the_socket_ends_the_subscriptions() {
        let mut bench = Bench::default();
        bench.subscribe(1, "a", "/blocks");
        bench.gone(1);
        assert_eq!((bench.broker.figures().topics, bench.broker.figures().sessions), (0, 1));
    }

    #[test]
    fn an_undecodable_frame_is_answered_and_the_session_goes_on() {
        let mut bench = Bench::default();
        assert_eq!(
            bench.receive(1, "SEND\nbad\n\n\0CONNECT\n\n\0"),
            ["1 ERROR\nmessage:Illegal header\\c 'bad'. A header must be of the form \
                 <name>\\c[<value>].\ncontent-length:0\n\n\0"]
        );
        assert_eq!(bench.receive(1, "\n"), NOTHING);
        assert_eq!(bench.receive(1, "CONNECT\n\n\0").len(), 1);
    }

    #[test]
    fn frames_beyond_the_limit_end_the_session() {
        let mut bench = Bench::default();
        assert_eq!(
            bench.receive(1, "SEND\ncontent-length:70000\n\n"),
            [
                "1 ERROR\nmessage:STOMP 'content-length' header value 70000  exceeds configured \
                 buffer size limit 65536\ncontent-length:0\n\n\0",
                "1 close 1002"
            ]
        );
        let half = "x".repeat(40_000);
        assert_eq!(bench.receive(2, &half), NOTHING);
        assert_eq!(bench.receive(2, &half)[1..], ["2 close 1002"]);
        assert_eq!(bench.broker.figures().session_bytes, 0);
    }

    #[test]
    fn clients_cannot_publish() {
        let mut bench = Bench::default();
        bench.subscribe(2, "a", "/blocks/new");
        for command in ["SEND", "MESSAGE"] {
            let forged = format!("{command}\ndestination:/blocks/new\n\n{{\"height\":9}}\0");
            assert_eq!(bench.ask(1, &forged), NOTHING);
        }
        let ignored = "ACK\nid:1\n\n\0NACK\n\n\0BEGIN\n\n\0COMMIT\n\n\0ABORT\n\n\0\
                       CONNECTED\n\n\0RECEIPT\n\n\0ERROR\n\nx\0";
        assert_eq!(bench.receive(1, ignored), NOTHING);
    }

    #[test]
    fn sessions_are_limited_and_get_names_of_their_own() {
        let mut bench = Bench::limited(Limits { sessions: 2, ..Limits::default() });
        bench.open(3, "10.0.0.3");
        assert_eq!(bench.effects.drain(), ["3 close 1013"]);
        assert_eq!(bench.receive(3, "CONNECT\n\n\0"), NOTHING);
        bench.gone(1);
        bench.open(4, "10.0.0.3");
        bench.subscribe(4, "a", "/blocks/new");
        assert!(bench.height(2)[0].contains("\nmessage-id:3-0\n"));
    }

    #[test]
    fn a_session_that_says_nothing_for_a_minute_is_closed() {
        let mut bench = Bench::default();
        assert_eq!(bench.broker.next_due(), Some(NOW + Duration::from_secs(60)));
        bench.receive(1, "\n");
        bench.receive(2, "");
        let almost = NOW + Duration::from_secs(60) - Duration::from_millis(1);
        bench.broker.due(almost, &mut bench.effects);
        assert_eq!(bench.effects.drain(), NOTHING);
        bench.broker.due(NOW + Duration::from_secs(60), &mut bench.effects);
        assert_eq!(bench.effects.drain(), ["2 close 4500"]);
        assert_eq!(bench.broker.next_due(), None);
    }

    #[test]
    fn a_session_that_cannot_be_sent_to_has_come_to_its_end() {
        let mut bench = Bench::default();
        bench.subscribe(1, "a", "/blocks");
        bench.effects.dropped.push(1);
        assert_eq!(bench.height(2), NOTHING);
        assert_eq!(bench.broker.figures().topics, 0);
        assert_eq!(bench.receive(1, "CONNECT\n\n\0"), NOTHING);
    }
}

mod steps {
    use super::*;

    /// A message of 64 KB full of short frames.
    fn many_frames() -> String {
        let pair = "SUBSCRIBE\nid:a\ndestination:/blocks\n\n\0UNSUBSCRIBE\nid:a\n\n\0";
        pair.repeat(65_536 / pair.len())
    }

    #[test]
    fn a_message_of_many_frames_is_worked_on_in_steps_and_charged() {
        let mut bench = Bench::default();
        let frames = many_frames().matches('\0').count();
        let waits = bench.hand_in(1, many_frames().as_bytes()).unwrap();
        assert!(waits >= frames / 100, "{frames} frames in {waits} steps");
        assert!(bench.charged(1) >= frames as u64, "{frames} frames for {} units", bench.charged(1));
        assert_eq!(bench.charged(2), 0);
        assert_eq!(bench.broker.figures().topics, 0);
    }

    #[test]
    fn what_is_left_of_a_message_is_done_before_anything_else_of_the_session() {
        let mut bench = Bench::default();
        let message = many_frames() + "CONNECT\n\n\0";
        let taken = bench.broker.heard(ConnectionId(1), message.as_bytes(), TIME, &mut bench.effects);
        assert_eq!((taken, bench.effects.drain().len()), (Taken::Unfinished, 0));
        assert_eq!(bench.receive(2, "CONNECT\n\n\0").len(), 1, "others need not wait");
        while bench.broker.resumed(ConnectionId(1), TIME, &mut bench.effects) == Taken::Unfinished {}
        assert_eq!(bench.effects.drain(), ["1 CONNECTED\nheart-beat:0,0\n\n\0"]);
    }

    #[test]
    fn a_frame_costs_the_same_however_many_subscriptions_there_are() {
        let cost = |held: usize| {
            let mut bench = Bench::default();
            (0..held).for_each(|n| bench.subscribe(1, &format!("s{n}"), &format!("/blocks/{n}")));
            let before = bench.charged(1);
            bench.hand_in(1, many_frames().as_bytes());
            bench.charged(1) - before
        };
        assert_eq!(cost(0), cost(990));
    }

    #[test]
    fn a_frame_of_many_headers_is_refused() {
        let mut bench = Bench::default();
        let frame = |headers: usize| format!("SEND\n{}\n\0", "a:\n".repeat(headers));
        assert_eq!(bench.receive(1, &frame(1_000)), NOTHING);
        assert!(bench.receive(1, &frame(1_001))[0].contains("more than 1000 headers"));
    }
}

mod subscriptions {
    use super::*;

    #[test]
    fn escaped_ids_come_back_as_they_were_sent() {
        let mut bench = Bench::default();
        bench.subscribe(1, "a\\cb\\nc\\\\d", "/blocks");
        assert_eq!(ids(&bench.height(2)), ["a\\cb\\nc\\\\d"]);
    }

    #[test]
    fn subscriptions_are_pairs_of_id_and_destination() {
        let mut bench = Bench::default();
        for (id, destination) in [("a", "/blocks"), ("a", "/blocks"), ("b", "/blocks"), ("a", "/errors")] {
            bench.subscribe(1, id, destination);
        }
        assert_eq!(ids(&bench.height(2)), ["a", "b"]);
        bench.receive(1, "UNSUBSCRIBE\nid:undefined\n\n\0UNSUBSCRIBE\n\n\0");
        assert_eq!(bench.broker.figures().topics, 2);
        bench.receive(1, "UNSUBSCRIBE\nid:a\n\n\0");
        assert_eq!(ids(&bench.height(3)), ["b"]);
        assert_eq!(bench.broker.figures().topics, 1);
    }

    #[test]
    fn useless_subscriptions_are_ignored() {
        let mut bench = Bench::strict();
        for head in [
            "id:a\ndestination:/w/api/account/get",
            "id:a\ndestination:/user/errors",
            "id:a\ndestination: /blocks",
            "id:a",
            "destination:/blocks",
        ] {
            assert_eq!(bench.receive(1, &format!("SUBSCRIBE\n{head}\n\n\0")), NOTHING);
        }
        assert_eq!(bench.broker.figures().topics, 0);
    }

    #[test]
    fn a_subscription_too_many_is_refused_and_the_session_goes_on() {
        let mut bench = Bench::default();
        for id in 0..1_000 {
            bench.subscribe(1, &id.to_string(), &format!("/blocks/{}", id / 8));
        }
        assert_eq!(
            bench.receive(1, "SUBSCRIBE\nid:x\ndestination:/blocks\nreceipt:1\n\n\0"),
            ["1 ERROR\nmessage:The session has too many subscriptions, unsubscribe first\ncontent-length:0\n\n\0"]
        );
        bench.receive(1, "UNSUBSCRIBE\nid:17\n\n\0");
        bench.subscribe(1, "x", "/blocks");
    }

    #[test]
    fn one_destination_is_subscribed_to_eight_times_at_most() {
        let mut bench = Bench::default();
        (0..8).for_each(|id| bench.subscribe(1, &id.to_string(), "/blocks"));
        let charged = bench.charged(1);
        assert_eq!(
            bench.receive(1, "SUBSCRIBE\nid:8\ndestination:/blocks\n\n\0"),
            ["1 ERROR\nmessage:The session has too many subscriptions to this destination\ncontent-length:0\n\n\0"]
        );
        assert!(bench.charged(1) - charged < 10);
        bench.subscribe(1, "7", "/blocks");
        bench.subscribe(2, "8", "/blocks");
        assert_eq!(bench.height(2).len(), 9);
    }

    #[test]
    fn patterns_have_a_limit_of_their_own() {
        let mut bench = Bench::limited(Limits { patterns_per_session: 2, ..Limits::default() });
        bench.subscribe(1, "a", "/blocks/*");
        bench.subscribe(1, "b", "/blocks/*");
        bench.subscribe(1, "c", "/blocks");
        assert!(bench.receive(1, "SUBSCRIBE\nid:d\ndestination:/errors*\n\n\0")[0].contains("too many patterns"));
        bench.receive(1, "UNSUBSCRIBE\nid:a\n\n\0");
        bench.subscribe(1, "d", "/errors*");
    }

    #[test]
    fn a_long_id_is_refused() {
        let mut bench = Bench::default();
        let subscribe = |length| format!("SUBSCRIBE\nid:{}\ndestination:/blocks\n\n\0", "x".repeat(length));
        assert!(bench.receive(1, &subscribe(257))[0].contains("id is too long"));
        assert_eq!(bench.receive(1, &subscribe(256)), NOTHING);
    }

    #[test]
    fn each_session_gets_its_messages_in_the_order_of_publication() {
        let mut bench = Bench::default();
        for socket in [1, 2] {
            bench.subscribe(socket, "a", "/blocks/**");
            bench.subscribe(socket, "b", "/blocks/**");
        }
        (2..50).for_each(|height| bench.add_block(height, 0));
        let sent = bench.work();
        for to in ["1 ", "2 "] {
            let own: Vec<_> = sent.iter().filter(|text| text.starts_with(to)).collect();
            let heights = own
                .iter()
                .filter(|text| text.contains("/blocks/new"))
                .map(|text| text.split("\n\n").nth(1).unwrap().trim_end_matches("\r\n\0").parse::<u64>().unwrap());
            assert!(heights.eq((2..50).flat_map(|height| [height, height])));
            assert!(own.chunks(4).all(|chunk| chunk[0].contains("/blocks/new") && chunk[2].contains(":/blocks\n")));
        }
        let number = |text: &String| {
            let id = text.split("message-id:").nth(1).unwrap().split('\n').next().unwrap();
            id.rsplit('-').next().unwrap().parse::<usize>().unwrap()
        };
        assert!(sent.iter().map(number).eq(0..sent.len()), "one counter for all");
    }
}

mod memory {
    use super::*;

    #[test]
    fn a_caller_who_takes_too_much_is_refused_and_others_are_not() {
        let mut bench = Bench::limited(Limits { caller_bytes: 6_000, ..Limits::default() });
        bench.open(3, "10.0.0.1");
        let mut refused = 0;
        for n in 0..50 {
            let subscribe = format!("SUBSCRIBE\nid:{n}\ndestination:/blocks/{n}\n\n\0");
            let out = bench.receive(1 + 2 * (n % 2), &subscribe);
            refused += out.iter().filter(|text| text.contains("this address take too much memory")).count();
        }
        assert!((40..50).contains(&refused), "{refused}");
        bench.open(4, "10.0.0.1");
        assert_eq!(bench.effects.drain(), ["4 close 1013"]);
        bench.subscribe(2, "a", "/blocks");
    }

    #[test]
    fn ipv6_callers_are_networks() {
        let mut bench = Bench::empty(Settings {
            limits: Limits { caller_bytes: 5_000, ..Limits::default() },
            ..Settings::default()
        });
        bench.open(1, "2001:db8::1");
        bench.open(2, "2001:db8::2");
        bench.open(3, "2001:db8::3");
        assert_eq!(bench.effects.drain(), ["3 close 1013"]);
        bench.open(4, "2001:db8:0:1::3");
        assert_eq!(bench.effects.drain(), NOTHING);
    }

    #[test]
    fn a_session_has_a_limit_of_its_own() {
        let mut bench = Bench::limited(Limits { session_bytes: 4_000, ..Limits::default() });
        (0..5).for_each(|n| bench.subscribe(1, &n.to_string(), "/blocks"));
        assert!(bench.receive(1, "SUBSCRIBE\nid:x\ndestination:/blocks\n\n\0")[0].contains("session takes too much"));
    }

    #[test]
    fn when_all_memory_is_taken_the_hog_pays_and_newcomers_are_served() {
        let mut bench = Bench::limited(Limits { total_bytes: 16_000, ..Limits::default() });
        bench.open(3, "10.0.0.1");
        for n in 0..12 {
            bench.subscribe(1, &n.to_string(), &format!("/blocks/{n}"));
            bench.subscribe(3, &n.to_string(), &format!("/blocks/{n}"));
        }
        (0..4).for_each(|n| bench.subscribe(2, &n.to_string(), &format!("/blocks/{n}")));
        let mut out = Vec::new();
        for socket in 4..8 {
            bench.open(socket, &format!("10.0.1.{socket}"));
            out.extend(bench.receive(socket, "SUBSCRIBE\nid:a\ndestination:/blocks\nreceipt:1\n\n\0"));
        }
        let closed: Vec<_> = out.iter().filter(|text| text.contains("close")).collect();
        assert!(closed.iter().all(|text| ["1 close 1002", "3 close 1002"].contains(&text.as_str())), "{out:?}");
        assert!(
            !closed.is_empty() && out.iter().any(|text| text.contains("ERROR\nmessage:The node is short of memory"))
        );
        assert_eq!(out.iter().filter(|text| text.contains("RECEIPT")).count(), 4);
        assert!(bench.broker.figures().session_bytes <= 16_000);
    }

    #[test]
    fn when_all_patterns_are_taken_the_hog_pays() {
        let mut bench = Bench::limited(Limits { patterns: 4, ..Limits::default() });
        bench.subscribe(2, "a", "/errors*");
        (0..3).for_each(|n| bench.subscribe(1, &n.to_string(), &format!("/blocks/{n}*")));
        bench.subscribe(2, "b", "/errors*");
        bench.open(3, "10.0.0.3");
        let out = bench.receive(3, "SUBSCRIBE\nid:a\ndestination:/node*\n\n\0");
        assert_eq!(out[1..], ["1 close 1002"]);
        assert_eq!(bench.broker.figures().patterns, 2);
    }

    #[test]
    fn unfinished_frames_count_for_their_caller() {
        let mut bench = Bench::limited(Limits { caller_bytes: 90_000, ..Limits::default() });
        bench.open(3, "10.0.0.1");
        let part = "x".repeat(60_000);
        assert_eq!(bench.receive(1, &part), NOTHING);
        assert_eq!(bench.receive(2, &part), NOTHING);
        assert_eq!(bench.receive(3, &part)[1..], ["3 close 1002"]);
        let before = bench.broker.figures().session_bytes;
        assert_eq!(bench.receive(1, "\n\n").len(), 1, "no command");
        assert!(bench.broker.figures().session_bytes + 50_000 < before);
    }
}

mod registration {
    use super::*;

    #[test]
    fn subscribing_to_an_address_registers_it_until_the_last_subscription_ends() {
        for topic in ["transactions", "unconfirmed", "account"] {
            for register_on_subscribe in [false, true] {
                let mut bench = Bench::new(Settings { register_on_subscribe, ..Settings::default() });
                bench.subscribe(1, "a", &format!("/{topic}/{A1}"));
                bench.subscribe(1, "b", &format!("/transactions/{A1}"));
                assert_eq!(bench.registered(), usize::from(register_on_subscribe));
                bench.receive(1, "UNSUBSCRIBE\nid:a\n\n\0");
                assert_eq!(bench.registered(), usize::from(register_on_subscribe));
                bench.receive(1, "UNSUBSCRIBE\nid:b\n\n\0");
                assert_eq!(bench.registered(), 0);
            }
        }
        let mut bench = Bench::default();
        bench.subscribe(1, "a", &format!("/recenttransactions/{A1}"));
        bench.subscribe(1, "b", &format!("/transactions/{}", A1.to_lowercase()));
        bench.receive(1, "UNSUBSCRIBE\nid:b\n\n\0");
        assert_eq!(bench.registered(), 0);
    }

    #[test]
    fn what_a_query_registers_lasts_as_long_as_the_session() {
        let mut bench = Bench::default();
        bench.ask(1, &send("account/get", A1));
        bench.receive(1, &send("account/subscribe", A2));
        bench.receive(1, "DISCONNECT\nreceipt:1\n\n\0");
        assert_eq!(bench.registered(), 2);
        bench.receive(2, &send("account/subscribe", A2));
        bench.gone(1);
        assert_eq!(bench.registered(), 1);
        bench.gone(2);
        assert_eq!(bench.registered(), 0);
    }

    #[test]
    fn only_two_queries_register() {
        let mut bench = Bench::default();
        for path in ["account/mosaic/owned", "account/transfers/all", "account/transfers/unconfirmed"] {
            bench.ask(1, &send(path, A1));
        }
        assert_eq!(bench.registered(), 0);
    }

    #[test]
    fn a_registration_that_fails_is_told_to_the_session() {
        let mut bench = Bench::limited(Limits { addresses_per_session: 1, ..Limits::default() });
        bench.subscribe(1, "e", "/errors");
        bench.subscribe(2, "e", "/errors");
        assert_eq!(bench.receive(1, &send("account/subscribe", A1)), NOTHING);
        for path in ["account/subscribe", "account/get"] {
            let sent = bench.ask(1, &send(path, A2));
            assert!(sent[0].contains("cannot register further addresses"), "{sent:?}");
            assert_eq!(topics(&sent), ["1 /errors"]);
        }
        let subscribe = format!("SUBSCRIBE\nid:a\ndestination:/unconfirmed/{A2}\nreceipt:1\n\n\0");
        assert_eq!(
            bench.receive(1, &subscribe),
            ["1 ERROR\nmessage:The session cannot register further addresses\ncontent-length:0\n\n\0"]
        );
        assert_eq!(bench.receive(2, &subscribe), ["2 RECEIPT\nreceipt-id:1\n\n\0"], "others are not concerned");
        bench.subscribe(1, "a", &format!("/unconfirmed/{A1}"));
    }
}

mod implicit_subscriptions {
    use super::*;

    /// The ids with which a transaction between accounts 1 and 2 that is confirmed reaches session 1.
    fn told(bench: &mut Bench, height: u64) -> Vec<String> {
        bench.add_block(height, 1);
        let sent = bench.work();
        let own: Vec<_> = sent.into_iter().filter(|text| text.contains("/transactions/")).collect();
        own.iter()
            .zip(ids(&own))
            .map(|(text, id)| format!("{}{id}", if text.contains(A1) { "1:" } else { "2:" }))
            .collect()
    }

    #[test]
    fn registration_alone_is_enough_for_a_session_that_named_no_version() {
        let mut bench = Bench::default();
        bench.receive(1, "CONNECT\n\n\0");
        bench.receive(1, &send("account/subscribe", A1));
        bench.receive(1, &send("account/subscribe", A1));
        assert_eq!(told(&mut bench, 2), ["1:sub-0"]);
        bench.receive(1, &send("account/subscribe", A2));
        assert_eq!(told(&mut bench, 3), ["1:sub-0", "2:sub-1"]);
    }

    #[test]
    fn other_subscriptions_before_or_after_do_not_matter() {
        let mut bench = Bench::default();
        bench.receive(1, "CONNECT\naccept-version:\n\n\0");
        bench.subscribe(1, "sub-0", "/blocks/new");
        bench.receive(1, &send("account/subscribe", A1));
        bench.subscribe(1, "x", "/blocks");
        assert_eq!(told(&mut bench, 2), ["1:sub-1"]);
    }

    #[test]
    fn an_explicit_subscription_takes_the_place_of_the_implicit_one() {
        let mut bench = Bench::default();
        bench.receive(1, &send("account/subscribe", A1));
        bench.subscribe(1, "mine", &format!("/transactions/{A1}"));
        assert_eq!(told(&mut bench, 2), ["1:mine"]);
        bench.receive(1, &send("account/subscribe", A1));
        assert_eq!(told(&mut bench, 3), ["1:mine"], "there is none beside an explicit one");
        bench.receive(1, "UNSUBSCRIBE\nid:mine\n\n\0");
        assert_eq!(told(&mut bench, 4), NOTHING);
    }

    #[test]
    fn an_explicit_subscription_without_an_id_gets_that_of_the_implicit_one_it_replaces() {
        let mut bench = Bench::default();
        bench.receive(1, &send("account/subscribe", A1));
        bench.receive(1, &format!("SUBSCRIBE\ndestination:/transactions/{A1}\n\n\0"));
        assert_eq!(told(&mut bench, 2), ["1:sub-0"]);
    }

    #[test]
    fn an_explicit_subscription_may_take_the_id_of_an_implicit_one() {
        let mut bench = Bench::default();
        bench.receive(1, &send("account/subscribe", A1));
        bench.subscribe(1, "sub-0", "/blocks/new");
        assert_eq!(told(&mut bench, 2), ["1:sub-1"]);
        bench.receive(1, "UNSUBSCRIBE\nid:sub-0\n\n\0");
        assert_eq!(told(&mut bench, 3), ["1:sub-1"]);
        bench.receive(1, "UNSUBSCRIBE\nid:sub-1\n\n\0");
        assert_eq!(told(&mut bench, 4), NOTHING);
        assert_eq!(bench.broker.figures().topics, 0);
    }

    #[test]
    fn a_full_session_may_still_make_an_implicit_subscription_explicit() {
        let mut bench = Bench::limited(Limits { subscriptions_per_session: 1, ..Limits::default() });
        bench.receive(1, &send("account/subscribe", A1));
        bench.subscribe(1, "mine", &format!("/transactions/{A1}"));
        assert_eq!(told(&mut bench, 2), ["1:mine"]);
    }

    #[test]
    fn an_implicit_subscription_that_finds_no_room_is_told() {
        let mut bench = Bench::limited(Limits { subscriptions_per_session: 1, ..Limits::default() });
        bench.subscribe(1, "e", "/errors");
        assert!(bench.receive(1, &send("account/subscribe", A1))[0].contains("too many subscriptions"));
    }

    #[test]
    fn sessions_that_name_versions_subscribe_themselves() {
        let mut bench = Bench::default();
        bench.receive(1, "CONNECT\naccept-version:1.2\n\n\0");
        bench.receive(1, &send("account/subscribe", A1));
        assert_eq!(told(&mut bench, 2), NOTHING);
        let mut bench = Bench::new(Settings { implicit_subscription: false, ..Settings::default() });
        bench.receive(1, &send("account/subscribe", A1));
        assert_eq!((told(&mut bench, 2).len(), bench.registered()), (0, 1));
    }

    #[test]
    fn implicit_subscriptions_end_with_disconnect() {
        let mut bench = Bench::default();
        bench.receive(1, &send("account/subscribe", A1));
        bench.receive(1, "DISCONNECT\nreceipt:1\n\n\0");
        assert_eq!(told(&mut bench, 2), NOTHING);
    }
}

mod queries {
    use super::*;

    #[test]
    fn answers_go_to_the_session_that_asks_and_to_no_other() {
        let mut bench = Bench::default();
        for socket in [1, 2] {
            for topic in
                [format!("/account/{A1}"), "/errors".to_owned(), "/blocks".to_owned(), "/unconfirmed".to_owned()]
            {
                bench.subscribe(socket, &topic, &topic);
            }
        }
        bench.known.blocks.insert(7, block_of(Height(7), 1));
        bench.known.pool = vec![Rc::new(transfer(1)), Rc::new(transfer(2))];
        assert_eq!(topics(&bench.ask(1, &send("account/get", A1))), [format!("1 /account/{A1}")]);
        assert_eq!(topics(&bench.ask(2, &send("account/get", "TALICE"))), ["2 /errors"]);
        assert_eq!(topics(&bench.ask(2, &send("node/info", ""))), ["2 /errors"]);
        let block = bench.ask(1, "SEND\ndestination:/w/api//block/last\n\nignored\0");
        assert_eq!(topics(&block), ["1 /blocks".to_owned(), format!("1 /account/{A1}")]);
        assert_eq!(topics(&bench.ask(2, &send("account/transfers/unconfirmed", A1))), ["2 /unconfirmed"; 2]);
    }

    #[test]
    fn a_session_without_the_subscription_hears_nothing_and_costs_no_body() {
        let mut bench = Bench::default();
        bench.subscribe(2, "a", &format!("/account/{A1}"));
        assert_eq!(bench.ask(1, &send("account/get", A1)), NOTHING);
        assert_eq!(bench.ask(1, &send("account/get", "TALICE")), NOTHING);
        assert_eq!(bench.known.accounts_asked.get(), 0);
    }

    #[test]
    fn a_failed_query_is_told_in_the_words_of_nis1() {
        let mut bench = Bench::default();
        bench.subscribe(2, "sub-0", "/errors");
        assert_eq!(
            bench.ask(2, &send("account/get", "TALICE")),
            ["2 MESSAGE\ndestination:/errors\nsubscription:sub-0\nmessage-id:2-0\n\
                 content-length:94\n\n{\"timeStamp\":367575434,\"error\":\"Bad Request\",\
                 \"message\":\"address must be valid\",\"status\":400}\r\n\0"]
        );
    }

    #[test]
    fn what_the_node_cannot_say_is_told_once_to_the_session_that_asked() {
        let mut bench = Bench::default();
        for socket in [1, 2] {
            bench.subscribe(socket, "e", "/errors");
            bench.subscribe(socket, "a", &format!("/account/{A1}"));
        }
        bench.known.broken = Some(address(A1));
        let sent = bench.ask(1, &send("account/get", A1));
        assert_eq!(topics(&sent), ["1 /errors"]);
        assert!(sent[0].contains("\"message\":\"it is broken\""));
    }

    #[test]
    fn unconfirmed_transactions_are_told_on_the_topics_of_their_arrival() {
        let mut bench = Bench::default();
        for topic in ["/unconfirmed".to_owned(), format!("/unconfirmed/{A1}"), format!("/unconfirmed/{A2}")] {
            bench.subscribe(1, &topic, &topic);
        }
        bench.known.pool = (0..15).map(|number| Rc::new(transfer(number))).collect();
        let sent = topics(&bench.ask(1, &send("account/transfers/unconfirmed", A2)));
        let each = ["1 /unconfirmed".to_owned(), format!("1 /unconfirmed/{A1}"), format!("1 /unconfirmed/{A2}")];
        assert_eq!(sent, std::iter::repeat_n(each, 10).flatten().collect::<Vec<_>>());
    }

    #[test]
    fn a_session_that_asks_for_much_waits_and_loses_nothing() {
        let mut bench = Bench::default();
        bench.subscribe(1, "a", &format!("/account/{A1}"));
        let message = send("account/get", A1).repeat(40);
        assert_eq!(bench.hand_in(1, message.as_bytes()), None, "it is parked");
        assert_eq!(bench.broker.resumed(ConnectionId(1), TIME, &mut bench.effects), Taken::Parked);
        assert_eq!(bench.work().len(), 40);
        assert!(bench.effects.resumed.is_empty());
        assert!(bench.charged(1) >= 40 * 20);
    }

    #[test]
    fn callers_take_turns_and_then_their_sessions() {
        let mut bench = Bench::default();
        bench.open(3, "10.0.0.1");
        for (socket, count) in [(1, 4), (3, 4), (2, 2)] {
            bench.subscribe(socket, "a", &format!("/account/{A1}"));
            bench.receive(socket, &send("account/get", A1).repeat(count));
        }
        let order: Vec<_> = bench.work().iter().map(|text| text[..1].to_owned()).collect();
        assert_eq!(order.concat(), "1232131313");
    }

    #[test]
    fn nothing_is_begun_for_a_session_that_has_much_to_take() {
        let mut bench = Bench::default();
        bench.receive(1, "\n");
        bench.receive(2, "\n");
        bench.subscribe(1, "a", &format!("/account/{A1}"));
        bench.subscribe(2, "a", &format!("/account/{A1}"));
        bench.effects.backlogs.insert(1, 64 * 1024);
        bench.receive(1, &send("account/get", A1));
        bench.receive(2, &send("account/get", A1));
        assert_eq!(topics(&bench.work()), [format!("2 /account/{A1}")]);
        let retry = bench.broker.next_due().unwrap();
        assert!(retry > NOW);
        bench.effects.backlogs.insert(1, 64 * 1024 - 1);
        bench.broker.due(retry, &mut bench.effects);
        assert_eq!(topics(&bench.work()), [format!("1 /account/{A1}")]);
        assert_eq!(bench.broker.next_due(), None);
    }

    #[test]
    fn the_frames_of_a_message_are_handled_in_order_and_answers_follow() {
        let mut bench = Bench::default();
        let frames = format!(
            "SUBSCRIBE\nid:a\ndestination:/account/{A1}\nreceipt:1\n\n\0{}UNSUBSCRIBE\nid:a\n\
             receipt:2\n\n\0SUBSCRIBE\nid:b\ndestination:/account/{A1}\n\n\0",
            send("account/get", A1)
        );
        let out = bench.ask(1, &frames);
        assert!(out[0].starts_with("1 RECEIPT") && out[1].starts_with("1 RECEIPT"), "{out:?}");
        assert_eq!(ids(&out[2..]), ["b"]);
    }

    #[test]
    fn a_block_that_is_replaced_while_it_is_told_is_told_anew() {
        let mut bench = Bench::default();
        bench.subscribe(1, "a", "/blocks");
        bench.known.blocks.insert(7, block_of(Height(7), 100));
        bench.receive(1, &send("block/last", ""));
        bench.slice(100);
        assert_eq!(bench.effects.sent.len(), 0, "it is not told yet");
        bench.known.blocks.insert(7, block_of(Height(7), 1));
        bench.broker.chain_changed(Height(6), Height(7));
        let sent = bench.work();
        assert_eq!(topics(&sent), ["1 /blocks", "1 /blocks"], "one that was asked for and one that is new");
        assert!(sent.iter().all(|text| text.contains("\ncontent-length:834\n")), "{sent:?}");
    }

    #[test]
    fn the_queries_of_a_session_that_is_gone_are_forgotten() {
        let mut bench = Bench::default();
        bench.known.blocks.insert(7, block_of(Height(7), 500));
        bench.subscribe(1, "a", "/blocks");
        bench.receive(1, &send("block/last", "").repeat(3));
        bench.slice(50);
        bench.gone(1);
        assert!(!bench.broker.has_work(true));
        bench.receive(2, &send("block/last", "").repeat(3));
        bench.receive(2, "DISCONNECT\n\n\0");
        bench.work();
        assert_eq!(bench.known.blocks_asked.get(), 1);
    }
}

mod publishing {
    use super::*;

    #[test]
    fn a_block_is_told_in_the_order_of_nis1() {
        let mut bench = Bench::default();
        // All accounts of the multisig transaction, and the one of the harvester.
        let accounts = [
            "TDDP2JY4XNKA4Q7FXGHIIJD5GNE2WEOGMDD2KXTM",
            "TAHIO6YZLMZODFZDSIZ7MXUJJTXIOIPT4RJZZXMI",
            A2,
            "TCGRPN45T7KAQKUCMD3UHVMM7TC5N4LKCRLJC3LS",
        ];
        for topic in ["transactions", "account"] {
            accounts.iter().for_each(|account| bench.subscribe(1, "a", &format!("/{topic}/{account}")));
        }
        for topic in ["/blocks", "/blocks/new"] {
            bench.subscribe(1, "a", topic);
        }
        bench.subscribe(1, "a", &format!("/account/{A1}"));
        bench.receive(1, "UNSUBSCRIBE\nid:x\n\n\0");
        let mut block = block_of(Height(2), 0);
        block.transactions.push(multisig());
        bench.known.blocks.insert(2, block);
        bench.broker.chain_changed(Height(1), Height(2));
        let sent = bench.work();
        let mut concerned = accounts[..3].to_vec();
        let mut expected = vec!["1 /blocks/new".to_owned(), "1 /blocks".to_owned()];
        expected.extend(concerned.iter().map(|account| format!("1 /transactions/{account}")));
        concerned.push(A1);
        concerned.sort_unstable();
        expected.extend(concerned.iter().map(|account| format!("1 /account/{account}")));
        assert_eq!(topics(&sent), expected);
        let body = |text: &String| text.split_once("\n\n").unwrap().1.to_owned();
        assert!(sent[2..5].iter().all(|text| body(text) == body(&sent[2])), "the outer transaction for all");
        assert!(body(&sent[2]).starts_with(
            "{\"meta\":{\"innerHash\":{\"data\":\"1a3576514967c6557fb090230385db5c1ec257442293f75d4a5ab83e989e6d65\"}"
        ));
    }

    #[test]
    fn a_confirmed_transaction_has_the_body_of_the_interface_text() {
        let mut bench = Bench::default();
        bench.subscribe(1, "a", &format!("/transactions/{A2}"));
        bench.add_block(42, 1);
        let sent = bench.work();
        assert_eq!(sent.len(), 1);
        assert!(sent[0].contains(
            "\ncontent-length:581\n\n{\"meta\":{\"innerHash\":{},\"id\":0,\"hash\":{\"data\":\
            \"9843c81b5278e6b046e66fcd8584676806ca6ca47cc3dac04f931a9240a1cea5\"},\"height\":42},\"transaction\":{"
        ));
    }

    #[test]
    fn an_unconfirmed_transaction_is_told_bare_and_then_to_its_accounts() {
        let mut bench = Bench::default();
        for topic in ["/unconfirmed".to_owned(), format!("/unconfirmed/{A1}"), format!("/unconfirmed/{A2}")] {
            bench.subscribe(1, &topic, &topic);
        }
        let sent = bench.arrive(0);
        assert_eq!(
            topics(&sent),
            ["1 /unconfirmed".to_owned(), format!("1 /unconfirmed/{A1}"), format!("1 /unconfirmed/{A2}")]
        );
        assert!(sent[0].contains("\ncontent-length:439\n") && sent[1].contains("\ncontent-length:595\n"));
        assert!(sent[1].contains("\"height\":9007199254740991}"));
    }

    #[test]
    fn nothing_is_made_for_nobody() {
        let mut bench = Bench::default();
        bench.add_block(2, 3);
        assert_eq!(bench.work(), NOTHING);
        assert_eq!(bench.known.blocks_asked.get(), 0, "nobody is subscribed to anything");
        bench.subscribe(1, "a", "/errors");
        bench.add_block(3, 3);
        bench.work();
        assert_eq!(bench.known.accounts_asked.get(), 0);
        assert_eq!(bench.broker.figures().message_bytes, 0);
    }

    #[test]
    fn what_cannot_be_said_does_not_hold_back_the_rest() {
        let mut bench = Bench::default();
        bench.known.broken = Some(address(A1));
        for account in [A1, A2] {
            bench.subscribe(1, "a", &format!("/account/{account}"));
        }
        bench.add_block(2, 1);
        assert_eq!(topics(&bench.work()), [format!("1 /account/{A2}")]);
    }

    #[test]
    fn blocks_are_told_in_slices_to_sessions_that_come_and_go() {
        let mut bench = Bench::empty(Settings::default());
        bench.effects.counts_only = true;
        for socket in 1..=300 {
            bench.open(socket, "10.0.0.1");
            bench.subscribe(socket, "a", "/blocks");
        }
        bench.add_block(2, 200);
        let (mut slices, mut latecomer) = (0, 0);
        while bench.broker.has_work(true) {
            slices += 1;
            let (before, charged) = (bench.effects.messages, bench.effects.charged.values().sum::<u64>());
            bench.slice(20);
            assert!(bench.effects.messages - before <= 21, "a slice is small");
            assert_eq!(bench.effects.charged.values().sum::<u64>() - charged, (bench.effects.messages - before) as u64);
            if bench.effects.messages >= 100 && latecomer == 0 {
                (1..=50).chain(290..=300).for_each(|socket| bench.gone(socket));
                bench.open(301, "10.0.0.1");
                bench.subscribe(301, "a", "/blocks");
                latecomer = bench.charged(301);
            }
        }
        assert!(slices > 15, "{slices}");
        assert_eq!(bench.charged(301), latecomer, "who comes late is told of the next block only");
        assert_eq!(bench.effects.messages, 289, "those who had left before it was their turn were not told");
        assert_eq!(bench.broker.figures().message_bytes, 0, "nothing is held when all have been told");
    }

    #[test]
    fn each_body_is_made_once_for_all_sessions() {
        let mut bench = Bench::empty(Settings::default());
        for socket in 1..=100 {
            bench.open(socket, "10.0.0.1");
            bench.subscribe(socket, "a", &format!("/account/{A1}"));
        }
        bench.add_block(2, 1);
        assert_eq!(bench.work().len(), 100);
        assert_eq!(bench.known.accounts_asked.get(), 1);
    }

    #[test]
    fn each_block_of_a_new_branch_is_told_once() {
        let mut bench = Bench::default();
        bench.subscribe(1, "a", "/blocks/new");
        let heights = |sent: Vec<String>| -> Vec<u64> {
            sent.iter()
                .map(|text| text.split("\n\n").nth(1).unwrap().trim_end_matches("\r\n\0").parse().unwrap())
                .collect()
        };
        (1..=9).for_each(|height| drop(bench.known.blocks.insert(height, block_of(Height(height), 0))));
        bench.broker.chain_changed(Height(4), Height(7));
        // Before anything is told the branch is changed, from an earlier block on.
        bench.broker.chain_changed(Height(2), Height(6));
        assert_eq!(heights(bench.work()), [3, 4, 5, 6]);
        bench.broker.chain_changed(Height(6), Height(8));
        bench.broker.chain_changed(Height(7), Height(9));
        assert_eq!(heights(bench.work()), [7, 8, 9]);
        bench.broker.chain_changed(Height(5), Height(7));
        assert_eq!(heights(bench.work()), [6, 7], "also those that were told in their old form");
    }

    #[test]
    fn transactions_that_have_lost_their_block_are_told_before_the_new_blocks() {
        let mut bench = Bench::default();
        bench.subscribe(1, "a", "/unconfirmed");
        bench.subscribe(1, "a", "/blocks/new");
        bench.add_block(2, 0);
        let mut budget = 1_000;
        bench.broker.arrived(Rc::new(transfer(1)));
        bench.broker.work(false, &bench.known, NOW, TIME, &mut budget, &mut bench.effects);
        bench.broker.arrived(Rc::new(transfer(2)));
        bench.broker.arrived(Rc::new(transfer(3)));
        let sent = bench.work();
        assert_eq!(topics(&sent), ["1 /unconfirmed", "1 /unconfirmed", "1 /unconfirmed", "1 /blocks/new"]);
    }

    #[test]
    fn blocks_and_arrivals_do_not_hold_each_other_back() {
        let mut bench = Bench::default();
        bench.subscribe(1, "a", "/unconfirmed");
        bench.subscribe(1, "a", "/blocks/new");
        (2..=4).for_each(|height| bench.add_block(height, 0));
        bench.slice(2);
        (1..=4).for_each(|number| bench.broker.arrived(Rc::new(transfer(number))));
        let sent: String =
            topics(&bench.work()).iter().map(|topic| if topic.contains("new") { 'b' } else { 'u' }).collect();
        assert_eq!(sent, "bububuu");
    }

    #[test]
    fn messages_of_patterns_are_told_once_and_in_order() {
        let mut bench = Bench::default();
        bench.subscribe(1, "a", "/blocks/*");
        bench.subscribe(1, "b", "/blocks/new");
        bench.subscribe(2, "c", "/blocks/**");
        let sent = bench.height(2);
        assert_eq!(ids(&sent), ["a", "b", "c", "c"]);
    }
}

mod books {
    use super::*;

    /// Pieces of which many make valid frames.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let frames = vec![
            "CONNECT\n\n\0".to_owned(),
            "CONNECT\naccept-version:1.2\n\n\0".to_owned(),
            "SUBSCRIBE\nid:a\ndestination:/errors\n\n\0".to_owned(),
            "SUBSCRIBE\nid:b\ndestination:/account/**\n\n\0".to_owned(),
            "SUBSCRIBE\ndestination:/blocks/new\n\n\0".to_owned(),
            format!("SUBSCRIBE\nid:sub-0\ndestination:/transactions/{A1}\n\n\0"),
            format!("SUBSCRIBE\nid:a\ndestination:/unconfirmed/{A1}\n\n\0"),
            format!("SUBSCRIBE\nid:a\ndestination:/account/{A2}\n\n\0"),
            "UNSUBSCRIBE\nid:a\n\n\0".to_owned(),
            "UNSUBSCRIBE\nid:sub-0\n\n\0".to_owned(),
            "DISCONNECT\nreceipt:1\n\n\0".to_owned(),
            send("account/subscribe", A1),
            send("account/subscribe", A2),
            send("account/get", A1),
            send("account/get", "x"),
            send("block/last", ""),
            "SEND\ncontent-length:9\n\n".to_owned(),
        ];
        prop_oneof![
            6 => prop::sample::select(frames).prop_map(String::into_bytes),
            1 => prop::collection::vec(any::<u8>(), 0..20),
        ]
    }

    /// Limits so small that they are reached.
    fn small() -> Limits {
        Limits {
            sessions: 3,
            subscriptions_per_session: 4,
            subscriptions_per_destination: 2,
            patterns_per_session: 1,
            patterns: 1,
            addresses_per_session: 1,
            queries_per_session: 2,
            session_bytes: 5_000,
            caller_bytes: 9_000,
            total_bytes: 12_000,
            ..Limits::default()
        }
    }

    proptest! {
        #[test]
        fn any_input_leaves_the_books_in_order(
            is_small in any::<bool>(),
            messages in prop::collection::vec((1..5u64, prop::collection::vec(piece(), 0..6), 0..6u8), 0..60)
        ) {
            let limits = if is_small { small() } else { Limits::default() };
            let mut bench = Bench::empty(Settings { limits, ..Settings::default() });
            let mut waiting: BTreeMap<u64, Taken> = BTreeMap::new();
            let mut height = 1;
            for (socket, pieces, then) in messages {
                match waiting.get(&socket) {
                    None => {
                        bench.open(socket, &format!("10.0.0.{}", socket / 2));
                        waiting.insert(socket, Taken::Done);
                    }
                    Some(Taken::Done) => {
                        let taken = bench.broker.heard(ConnectionId(socket), &pieces.concat(), TIME, &mut bench.effects);
                        waiting.insert(socket, taken);
                    }
                    Some(Taken::Unfinished) => {
                        let taken = bench.broker.resumed(ConnectionId(socket), TIME, &mut bench.effects);
                        waiting.insert(socket, taken);
                    }
                    Some(Taken::Parked) => {}
                }
                match then {
                    0 => { height += 1; bench.add_block(height, 2) }
                    1 => bench.broker.arrived(Rc::new(transfer(height as i32))),
                    2 => bench.slice(30),
                    3 => { bench.gone(socket); waiting.remove(&socket); }
                    _ => bench.slice(500),
                }
                for socket in std::mem::take(&mut bench.effects.resumed) {
                    if waiting.get(&socket) == Some(&Taken::Parked) {
                        let taken = bench.broker.resumed(ConnectionId(socket), TIME, &mut bench.effects);
                        waiting.insert(socket, taken);
                    }
                }
                for sent in std::mem::take(&mut bench.effects.sent) {
                    if let Sent::Close(socket, _) = sent {
                        bench.gone(socket);
                        waiting.remove(&socket);
                        bench.effects.dropped.retain(|dropped| *dropped != socket);
                    }
                }
                prop_assert!(bench.broker.figures().session_bytes <= limits.total_bytes);
            }
            (1..5).for_each(|socket| bench.gone(socket));
            bench.work();
            prop_assert_eq!(bench.broker.figures(), Figures::default());
            prop_assert!(bench.broker.hub.books().is_empty());
            prop_assert_eq!((bench.broker.next_due(), bench.broker.has_work(true)), (None, false));
        }
    }
}
