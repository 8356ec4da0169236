//! The helpers that look up host names by the means of the system. They are started when they are needed.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::process::Stdio;
use std::time::Duration;

use mio::{Registry, Token};

use super::helper::{Helper, Job};
use crate::net::fetch::{MAX_ADDRESSES, Names};

/// Poll token of the first resolver; those of the others follow.
const FIRST_TOKEN: usize = 2;
/// Names that are looked up at the same time, each by a helper of its own.
pub const MAX_RESOLVERS: usize = 4;
/// Time after which a lookup has failed. Its helper is replaced.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Characters of the reason for a failure that an answer has at most.
const MAX_REASON: usize = 100;

/// The job of a resolver, which looks up host names by the means of the system. One that does not answer is replaced.
pub static JOB: Job = Job {
    argument: "helper-resolver",
    purpose: "look up host names",
    consequence: "peers are reached by their addresses only",
    start_interval: Duration::from_secs(1),
    begin: |_| Box::new(|name| serde_json::to_vec(&look_up(name)).unwrap_or_default()),
};

/// Result of a lookup: addresses, or the reason why there are none. The answer of a helper is the same as JSON.
type Found = Result<Vec<IpAddr>, String>;

/// Looks up a name by the means of the system.
fn look_up(name: &[u8]) -> Found {
    let shortened = |reason: String| reason.chars().take(MAX_REASON).collect::<String>();
    let name = str::from_utf8(name).map_err(|error| error.to_string())?;
    let addresses = (name, 0).to_socket_addrs().map_err(|error| shortened(error.to_string()))?;
    let mut found = Vec::new();
    for address in addresses.map(|address| address.ip().to_canonical()) {
        if !found.contains(&address) && found.len() < MAX_ADDRESSES {
            found.push(address);
        }
    }
    Ok(found)
}

/// The resolvers, started when they are needed, and the name that each looks up, with its place among those that ask.
pub struct Resolvers(Vec<(Helper, Option<(usize, String)>)>);

impl Resolvers {
    /// Returns helpers that are not running.
    pub fn new(registry: &Registry) -> io::Result<Resolvers> {
        let helper = |index| Helper::new(&JOB, Token(FIRST_TOKEN + index), registry);
        let helpers = (0..MAX_RESOLVERS).map(|index| Ok((helper(index)?, None)));
        Ok(Resolvers(helpers.collect::<io::Result<_>>()?))
    }

    /// Takes the answers of the helpers and gives them the next names of those that ask, the first of them first. `now` is
    /// the time since the start of the program.
    pub fn work(&mut self, mut asking: [&mut Names; 2], now: Duration) {
        for (helper, asked) in &mut self.0 {
            if let Some((place, name)) = asked {
                let is_late = helper.asked_at().is_some_and(|asked_at| now >= asked_at + LOOKUP_TIMEOUT);
                let result = match helper.next_answer() {
                    Some(Ok(answer)) => serde_json::from_slice(&answer).unwrap_or_else(|error| Err(error.to_string())),
                    Some(Err(why)) => Err(format!("the helper process {why}")),
                    None if is_late => {
                        helper.end();
                        Err(format!("no answer within {} s", LOOKUP_TIMEOUT.as_secs()))
                    }
                    None => continue,
                };
                asking[*place].on_lookup(name, result, now);
                *asked = None;
            }
            if asking.iter().any(|names| names.has_lookup()) {
                // The helper may have ended since its last answer.
                helper.next_answer();
                helper.start(|| Ok(Some([Stdio::null(), Stdio::null()])), now);
            }
            let mut wanted = asking.iter_mut().enumerate();
            if helper.is_running()
                && let Some((place, name)) = wanted.find_map(|(place, names)| Some((place, names.next_lookup()?)))
            {
                match helper.ask(name.as_bytes(), now) {
                    Ok(()) => *asked = Some((place, name)),
                    Err(why) => asking[place].on_lookup(&name, Err(format!("the helper process {why}")), now),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::helper::MAX_ANSWER;

    #[test]
    fn an_answer_fits_a_message_and_is_read_back() {
        let longest = "1111:1111:1111:1111:1111:1111:1111:1111".parse().unwrap();
        for found in [Ok(vec![longest; MAX_ADDRESSES]), Ok(Vec::new()), Err("\u{7f}".repeat(MAX_REASON))] {
            let answer = serde_json::to_vec(&found).unwrap();
            assert!(answer.len() <= MAX_ANSWER, "{}", answer.len());
            assert_eq!(serde_json::from_slice::<Found>(&answer).unwrap(), found);
        }
    }

    #[test]
    fn an_address_is_found_once() {
        let file = || std::fs::File::open("/dev/null").unwrap();
        let answer = (JOB.begin)([file(), file()])(b"127.0.0.1");
        assert_eq!(serde_json::from_slice::<Found>(&answer).unwrap(), Ok(vec![[127, 0, 0, 1].into()]));
    }
}
