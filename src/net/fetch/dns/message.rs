//! Encoder and parser of DNS messages.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QTYPE, Question, RCODE, ResourceRecord, TYPE};

/// Bytes of a response; a longer one is ignored. Without extensions, which are not requested, it has at most 512.
const MAX_RESPONSE_BYTES: usize = 1500;
/// Addresses taken from a response.
const MAX_ADDRESSES: usize = 8;
/// Aliases (CNAME) followed one after the other.
const MAX_ALIASES: usize = 8;
/// Bytes of the header, of the shortest question and of the shortest record.
const HEADER_BYTES: usize = 12;
const QUESTION_BYTES: usize = 5;
const RECORD_BYTES: usize = 11;

/// Address family of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// Result of a DNS query.
#[derive(Debug, PartialEq, Eq)]
pub enum DnsAnswer {
    /// Addresses and their time to live.
    Addresses(Vec<IpAddr>, Duration),
    /// The name has no addresses of this family.
    NoAddresses(&'static str),
    /// The server cannot answer.
    Failed(&'static str),
}

/// Returns whether a text can be a name: labels of letters, digits, `-` and `_`, of valid lengths.
pub fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty()
        && !name.contains("..")
        && !name.starts_with('.')
        && name.bytes().all(is_letter)
        && Name::new(name).is_ok()
}

/// Encodes a query for the addresses of a name; `None` if it is not a valid name.
pub fn encode_query(id: u16, name: &str, family: Family) -> Option<Vec<u8>> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    packet.questions.push(Question::new(Name::new(name).ok()?, record_type(family).into(), CLASS::IN.into(), false));
    packet.build_bytes_vec().ok()
}

/// Parses a received message; `None` if it is not the response to this query.
pub fn parse_response(bytes: &[u8], id: u16, name: &str, family: Family) -> Option<DnsAnswer> {
    let is_of_question = bytes.get(..2) == Some(id.to_be_bytes().as_slice()) && bytes.len() <= MAX_RESPONSE_BYTES;
    if !is_of_question || !is_plausible(bytes) {
        return None;
    }
    let packet = Packet::parse(bytes).ok()?;
    let name = Name::new(name).ok()?;
    let is_asked = matches!(packet.questions.as_slice(), [question]
        if question.qname == name && question.qtype == QTYPE::TYPE(record_type(family)));
    if !packet.has_flags(PacketFlag::RESPONSE) || !is_asked {
        return None;
    }
    Some(match packet.rcode() {
        RCODE::NoError => {
            let (addresses, lifetime) = addresses(&packet.answers, name, family);
            match addresses.is_empty() {
                true if packet.has_flags(PacketFlag::TRUNCATION) => DnsAnswer::Failed("the answer is truncated"),
                true => DnsAnswer::NoAddresses("it has no address"),
                false => DnsAnswer::Addresses(addresses, lifetime),
            }
        }
        RCODE::NameError => DnsAnswer::NoAddresses("there is no such name"),
        _ => DnsAnswer::Failed("the name server reports a failure"),
    })
}

/// Returns whether a message can hold as many records as its header announces, so that no memory is allocated for
/// missing ones.
fn is_plausible(bytes: &[u8]) -> bool {
    let count = |at: usize| match bytes.get(at..at + 2) {
        Some([high, low]) => usize::from(u16::from_be_bytes([*high, *low])),
        _ => usize::MAX,
    };
    let Some(available) = bytes.len().checked_sub(HEADER_BYTES) else { return false };
    count(4) * QUESTION_BYTES + (count(6) + count(8) + count(10)) * RECORD_BYTES <= available
}

/// Returns the addresses of a name, following its aliases, and the shortest time to live on the way.
fn addresses(records: &[ResourceRecord<'_>], name: Name<'_>, family: Family) -> (Vec<IpAddr>, Duration) {
    let mut name = &name;
    let mut lifetime = u32::MAX;
    for _ in 0..=MAX_ALIASES {
        let of_name = records.iter().filter(|record| record.class == CLASS::IN && record.name == *name);
        let found: Vec<_> = of_name.clone().filter_map(|record| Some((address(record, family)?, record.ttl))).collect();
        if !found.is_empty() {
            lifetime = found.iter().map(|(_, ttl)| *ttl).fold(lifetime, u32::min);
            let addresses = found.into_iter().map(|(address, _)| address).take(MAX_ADDRESSES).collect();
            return (addresses, Duration::from_secs(lifetime.into()));
        }
        let mut aliases = of_name.filter_map(|record| match &record.rdata {
            RData::CNAME(target) => Some((&target.0, record.ttl)),
            _ => None,
        });
        let Some((target, ttl)) = aliases.next() else { break };
        (name, lifetime) = (target, lifetime.min(ttl));
    }
    (Vec::new(), Duration::ZERO)
}

fn address(record: &ResourceRecord<'_>, family: Family) -> Option<IpAddr> {
    match (&record.rdata, family) {
        (RData::A(found), Family::V4) => Some(Ipv4Addr::from(found.address).into()),
        (RData::AAAA(found), Family::V6) => Some(Ipv6Addr::from(found.address).into()),
        _ => None,
    }
}

fn record_type(family: Family) -> TYPE {
    match family {
        Family::V4 => TYPE::A,
        Family::V6 => TYPE::AAAA,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A response to a query for node.example with id 258: an alias and an address.
    const ANSWER: &[u8] = b"\x01\x02\x81\x80\0\x01\0\x02\0\0\0\0\x04node\x07example\0\0\x01\0\x01\
        \xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x04\x01a\xc0\x11\xc0\x2a\0\x01\0\x01\0\0\0\x1e\0\x04\x0a\0\0\x01";

    fn read_answer(bytes: &[u8]) -> Option<DnsAnswer> {
        parse_response(bytes, 258, "node.example", Family::V4)
    }

    #[test]
    fn dns_answers_and_queries_have_the_wire_format() {
        let address = IpAddr::from([10, 0, 0, 1]);
        assert_eq!(read_answer(ANSWER), Some(DnsAnswer::Addresses(vec![address], Duration::from_secs(30))));
        let question = encode_query(258, "node.example", Family::V4).unwrap();
        assert_eq!(question, [b"\x01\x02\x01\0\0\x01\0\0\0\0\0\0", &ANSWER[12..30]].concat());
    }

    #[test]
    fn a_message_with_an_impossible_record_count_is_rejected_unread() {
        for at in [4, 6, 8, 10] {
            let mut bytes = ANSWER.to_vec();
            bytes[at] = 0xff;
            assert!(!is_plausible(&bytes) && read_answer(&bytes).is_none());
        }
    }

    #[test]
    fn valid_host_names_are_recognised() {
        for name in ["a", "node.example", "a-b_c.1", "xn--nde-sna.example"] {
            assert!(is_name(name), "{name}");
        }
        let (long_label, long_name) = ("a".repeat(64), "a.".repeat(127) + "aa");
        for name in ["", ".", ".a", "a..b", "a b", "a\\046b", "\u{f6}", "a\0", "*", &long_label, &long_name] {
            assert!(!is_name(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_dns_messages_give_a_bounded_number_of_addresses(
            changes in prop::collection::vec((2..ANSWER.len(), any::<u8>()), 0..6),
            length in 0..=ANSWER.len(),
            tail in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut bytes = ANSWER.to_vec();
            changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
            bytes.truncate(length);
            bytes.extend(tail);
            if let Some(DnsAnswer::Addresses(addresses, _)) = read_answer(&bytes) {
                prop_assert!((1..=MAX_ADDRESSES).contains(&addresses.len()));
            }
        }
    }
}
