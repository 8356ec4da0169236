//! The helpers that look up host names by the means of the system. They are started when they are needed.
//!
//! An answer begins with a byte: [`FOUND`], followed by each address as 16 bytes, or [`FAILED`], followed by a text.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::process::Stdio;
use std::time::Duration;

use mio::{Registry, Token};

use super::helper::{Helper, HelperEvent, Job, MAX_MESSAGE};
use crate::net::fetch::{MAX_ADDRESSES, Names};

/// Poll token of the first resolver; those of the others follow.
const FIRST_TOKEN: usize = 2;
/// Names that are looked up at the same time, each by a helper of its own.
pub const MAX_RESOLVERS: usize = 4;
/// Time after which a lookup has failed. Its helper is replaced.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

const FOUND: u8 = 0;
const FAILED: u8 = 1;

/// The helpers, and the names that they look up.
pub struct Resolvers(Vec<(Helper, String)>);

impl Resolvers {
    /// Returns helpers that are not running.
    pub fn new(registry: &Registry) -> io::Result<Resolvers> {
        let helper = |index| Helper::new(Job::Resolver, Token(FIRST_TOKEN + index), registry);
        let helpers = (0..MAX_RESOLVERS).map(|index| Ok((helper(index)?, String::new())));
        Ok(Resolvers(helpers.collect::<io::Result<_>>()?))
    }

    /// Takes the answers of the helpers and gives them the next names. `now` is the time since the start of the program.
    pub fn work(&mut self, names: &mut Names, now: Duration) {
        for (helper, name) in &mut self.0 {
            if !name.is_empty() {
                let is_late = helper.asked_at().is_some_and(|asked_at| now >= asked_at + LOOKUP_TIMEOUT);
                let result = match helper.next_event() {
                    Some(HelperEvent::Answer(answer)) => decode(&answer),
                    Some(HelperEvent::Ended(why)) => Err(format!("the helper process {why}")),
                    None if is_late => {
                        helper.end();
                        Err(format!("no answer within {} s", LOOKUP_TIMEOUT.as_secs()))
                    }
                    None => continue,
                };
                names.on_lookup(&std::mem::take(name), result, now);
            }
            if names.has_lookup() {
                // The helper may have ended since its last answer.
                helper.next_event();
                helper.start(|| Ok(Some([Stdio::null(), Stdio::null()])), now);
            }
            if helper.is_running()
                && let Some(wanted) = names.next_lookup()
            {
                match helper.ask(wanted.as_bytes(), now) {
                    Ok(()) => *name = wanted,
                    Err(why) => names.on_lookup(&wanted, Err(format!("the helper process {why}")), now),
                }
            }
        }
    }
}

/// Encodes the result of a lookup.
pub fn encode(result: &Result<Vec<IpAddr>, String>) -> Vec<u8> {
    let mut answer = Vec::new();
    match result {
        Ok(addresses) => {
            answer.push(FOUND);
            for address in addresses.iter().take(MAX_ADDRESSES) {
                let address = match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => *address,
                };
                answer.extend(address.octets());
            }
        }
        Err(reason) => {
            answer.push(FAILED);
            answer.extend(reason.bytes().take(MAX_MESSAGE - 1));
        }
    }
    answer
}

fn decode(answer: &[u8]) -> Result<Vec<IpAddr>, String> {
    match answer.split_first() {
        Some((&FOUND, addresses)) => {
            let (addresses, _) = addresses.as_chunks::<16>();
            Ok(addresses.iter().map(|bytes| Ipv6Addr::from(*bytes).to_canonical()).collect())
        }
        Some((_, reason)) => Err(String::from_utf8_lossy(reason).into_owned()),
        None => Err("the answer is empty".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_lookups_are_encoded_within_a_message() {
        let addresses: Vec<IpAddr> = vec![[1, 2, 3, 4].into(), "2001:db8::1".parse().unwrap()];
        for result in [Ok(addresses), Ok(Vec::new()), Err("unknown".to_owned())] {
            assert_eq!(decode(&encode(&result)), result);
        }
        let long = [encode(&Ok(vec![[1; 4].into(); 100])), encode(&Err("x".repeat(1_000)))];
        assert!(long.iter().all(|answer| answer.len() <= MAX_MESSAGE));
        assert!(decode(&[]).is_err());
    }
}
