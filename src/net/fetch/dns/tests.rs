use std::net::{Ipv4Addr, Ipv6Addr};

use simple_dns::rdata::{A, AAAA, CNAME, RData};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};

use super::*;

const V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);

/// A resolver with two name servers, two attempts each, and the time.
struct Bench {
    resolver: Resolver,
    now: Duration,
}

impl Bench {
    fn new() -> Self {
        let text = "nameserver 192.0.2.1\nnameserver 192.0.2.2\noptions timeout:1 attempts:2";
        let configuration = DnsConfig::parse("192.0.2.9 filed", text);
        Self { resolver: Resolver::new(configuration, &[7; 32], 4, 10), now: Duration::ZERO }
    }

    fn questions(&mut self) -> Vec<Datagram> {
        std::iter::from_fn(|| self.resolver.next_query()).collect()
    }

    fn found(&mut self) -> Vec<(usize, Result<Vec<IpAddr>, &'static str>)> {
        std::iter::from_fn(|| self.resolver.next_resolved())
            .map(|(requester, known)| (requester, known.map(|addresses| addresses.to_vec())))
            .collect()
    }

    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.resolver.handle_timeouts(self.now);
    }

    fn answer(&mut self, asked: &Datagram, make: impl FnOnce(&mut Packet<'_>)) {
        let bytes = reply(&asked.bytes, make);
        self.resolver.received(asked.slot, &bytes, self.now);
    }

    /// Answers with one address of the queried family.
    fn answer_well(&mut self, asked: &Datagram) {
        let is_v4 = family(asked) == TYPE::A;
        let data = if is_v4 { RData::A(A::from(V4)) } else { RData::AAAA(AAAA::from(V6)) };
        self.answer(asked, |packet| add(packet, "node.example", 60, data));
    }
}

fn reply(question: &[u8], make: impl FnOnce(&mut Packet<'_>)) -> Vec<u8> {
    let mut packet = Packet::parse(question).unwrap().into_reply();
    packet.questions = Packet::parse(question).unwrap().questions;
    make(&mut packet);
    packet.build_bytes_vec_compressed().unwrap()
}

fn add(packet: &mut Packet<'_>, name: &'static str, ttl: u32, data: RData<'static>) {
    packet.answers.push(ResourceRecord::new(Name::new(name).unwrap(), CLASS::IN, ttl, data));
}

fn family(asked: &Datagram) -> TYPE {
    match Packet::parse(&asked.bytes).unwrap().questions[0].qtype {
        QTYPE::TYPE(found) => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_address_families_are_queried_and_interleaved() {
    let mut bench = Bench::new();
    bench.resolver.resolve("Node.Example.", 5, bench.now);
    bench.resolver.resolve("node.example", 6, bench.now);
    let questions = bench.questions();
    assert_eq!(questions.iter().map(family).collect::<Vec<_>>(), [TYPE::A, TYPE::AAAA]);
    assert_eq!(Packet::parse(&questions[0].bytes).unwrap().questions[0].qname.to_string(), "node.example");
    assert!(questions.iter().all(|asked| asked.server.to_string() == "192.0.2.1:53"));
    assert_ne!(questions[0].bytes[..2], questions[1].bytes[..2], "numbers are random");
    questions.iter().for_each(|asked| bench.answer_well(asked));
    let both: Result<Vec<IpAddr>, _> = Ok(vec![V4.into(), V6.into()]);
    assert_eq!(bench.found(), [(5, both.clone()), (6, both.clone())]);
    assert!(bench.resolver.queries.is_empty());
    bench.resolver.resolve("NODE.example", 7, bench.now);
    assert_eq!(bench.found(), [(7, both)], "it is remembered");
    bench.pass(60_000);
    bench.resolver.resolve("node.example", 7, bench.now);
    assert_eq!((bench.found(), bench.questions().len()), (vec![], 2), "but not for ever");
}

#[test]
fn local_and_invalid_names_are_answered_without_a_query() {
    let mut bench = Bench::new();
    for name in ["127.0.0.2", "::1", "localhost", "filed", "a..b", "", "a b", "x\r\ny"] {
        bench.resolver.resolve(name, 1, bench.now);
    }
    bench.resolver.resolve(&"x".repeat(64), 1, bench.now);
    let found = bench.found();
    assert_eq!(found.iter().filter(|(_, known)| known.is_ok()).count(), 4);
    assert_eq!((found.len(), bench.questions().len()), (9, 0));
}

#[test]
fn addresses_of_one_family_wait_only_briefly_for_the_other() {
    let mut bench = Bench::new();
    bench.resolver.resolve("node.example", 1, bench.now);
    let questions = bench.questions();
    bench.answer_well(&questions[0]);
    assert!(bench.found().is_empty());
    bench.pass(100);
    assert_eq!(bench.found(), [(1, Ok(vec![V4.into()]))]);
    assert_eq!(bench.resolver.next_due(), None);
}

#[test]
fn a_lost_query_is_retried_at_the_next_server_and_finally_fails() {
    let mut bench = Bench::new();
    bench.resolver.resolve("node.example", 1, bench.now);
    let mut servers = Vec::new();
    let mut numbers = Vec::new();
    for _ in 0..4 {
        let questions = bench.questions();
        assert_eq!(questions.len(), 2);
        servers.push(questions[0].server.ip().to_string());
        numbers.push(questions[0].bytes[..2].to_vec());
        bench.pass(1000);
    }
    assert_eq!(servers, ["192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.2"]);
    numbers.dedup();
    assert_eq!(numbers.len(), 4, "each with a new number");
    assert_eq!(bench.found(), [(1, Err("no name server answers"))]);
    bench.resolver.resolve("node.example", 1, bench.now);
    assert_eq!(bench.found().len(), 1, "remembered for a moment");
    bench.pass(5000);
    bench.resolver.resolve("node.example", 1, bench.now);
    assert_eq!(bench.questions().len(), 2);
}

#[test]
fn a_failing_or_unreachable_server_causes_no_delay() {
    let mut bench = Bench::new();
    bench.resolver.resolve("node.example", 1, bench.now);
    let questions = bench.questions();
    bench.answer(&questions[0], |packet| *packet.rcode_mut() = RCODE::ServerFailure);
    bench.resolver.unreachable(questions[1].slot, bench.now);
    let again = bench.questions();
    assert!(again.len() == 2 && again.iter().all(|asked| asked.server.to_string() == "192.0.2.2:53"));
    again.iter().for_each(|asked| bench.answer_well(asked));
    assert_eq!(bench.found().len(), 1);
    bench.resolver.resolve("other.example", 1, bench.now);
    assert_eq!(bench.questions()[0].server.to_string(), "192.0.2.2:53", "the server that answered is asked first");
}

#[test]
fn only_a_matching_answer_is_accepted() {
    let mut bench = Bench::new();
    bench.resolver.resolve("node.example", 1, bench.now);
    let asked = &bench.questions()[0];
    let good = reply(&asked.bytes, |packet| add(packet, "node.example", 60, RData::A(A::from(V4))));
    let mut wrong_number = good.clone();
    wrong_number[1] ^= 1;
    let wrong_name = reply(&asked.bytes, |packet| {
        packet.questions[0].qname = Name::new("evil.example").unwrap();
        add(packet, "evil.example", 60, RData::A(A::from(V4)));
    });
    let wrong_type = reply(&asked.bytes, |packet| packet.questions[0].qtype = TYPE::AAAA.into());
    let counts = [&good[..6], &[0xff; 6]].concat();
    let long = [good.clone(), vec![0; 1500]].concat();
    for bytes in [&wrong_number, &wrong_name, &wrong_type, &asked.bytes, &counts, &long, &good[..20].to_vec()] {
        bench.resolver.received(asked.slot, bytes, bench.now);
    }
    assert_eq!(bench.resolver.queries[asked.slot].wrong_messages, 7);
    for _ in 0..MAX_WRONG_MESSAGES {
        bench.resolver.received(asked.slot, &wrong_number, bench.now);
    }
    assert_eq!(bench.questions().len(), 1, "too many guesses move the question elsewhere");
}

#[test]
fn aliases_are_followed_within_the_answer_and_truncated_answers_serve_if_they_can() {
    let mut bench = Bench::new();
    bench.resolver.resolve("node.example", 1, bench.now);
    let questions = bench.questions();
    let alias = |target| RData::CNAME(CNAME(Name::new(target).unwrap()));
    bench.answer(&questions[0], |packet| {
        packet.set_flags(PacketFlag::TRUNCATION);
        add(packet, "b.example", 40, RData::A(A::from(V4)));
        add(packet, "c.example", 1, RData::A(A::from(Ipv4Addr::BROADCAST)));
        add(packet, "A.example", 50, alias("b.example"));
        add(packet, "node.example", 60, alias("a.example"));
    });
    bench.answer(&questions[1], |packet| {
        add(packet, "node.example", 60, alias("a.example"));
        add(packet, "a.example", 60, alias("node.example"));
    });
    assert_eq!(bench.found(), [(1, Ok(vec![V4.into()]))]);
    bench.resolver.resolve("b.example", 1, bench.now);
    let questions = bench.questions();
    bench.answer(&questions[0], |packet| packet.set_flags(PacketFlag::TRUNCATION));
    assert_eq!(bench.questions().len(), 1, "a truncated answer without addresses is a failure");
}

#[test]
fn a_missing_name_is_reported_and_cached() {
    let mut bench = Bench::new();
    bench.resolver.resolve("node.example", 1, bench.now);
    for asked in bench.questions() {
        bench.answer(&asked, |packet| *packet.rcode_mut() = RCODE::NameError);
    }
    assert_eq!(bench.found(), [(1, Err("there is no such name"))]);
    bench.pass(29_000);
    bench.resolver.resolve("node.example", 1, bench.now);
    assert_eq!((bench.found().len(), bench.questions().len()), (1, 0));
}

#[test]
fn outstanding_queries_are_limited_and_cancelled_ones_free_their_slots() {
    let mut bench = Bench::new();
    for requester in 0..10 {
        bench.resolver.resolve(&format!("n{requester}.example"), requester, bench.now);
    }
    assert_eq!(bench.questions().len(), 4);
    bench.resolver.cancel(0, bench.now);
    assert_eq!((bench.resolver.queries.len(), bench.questions().len()), (4, 2));
    (1..10).for_each(|requester| bench.resolver.cancel(requester, bench.now));
    assert_eq!((bench.questions().len(), bench.resolver.next_due(), bench.found().len()), (0, None, 0));
    assert!(bench.resolver.lookups.is_empty() && bench.resolver.queries.is_empty());
}
