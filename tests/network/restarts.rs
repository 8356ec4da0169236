//! A private network of three processes, the first without a list of peers. Each is killed and restarted in turn at
//! random times; there is one chain at the end.
//!
//! It takes at most two minutes by default; `NISD_RESTARTS=SECONDS` sets the duration.

use std::time::{Duration, Instant};

use crate::common::members::{Member, NodeLocation, wait_with_timeout};
use crate::common::{Random, from_environment, print_notice};

/// Default duration of the restarts in seconds.
const SECONDS: u64 = 25;
/// Maximum time for the nodes to converge at the end.
const MAX_WAIT: Duration = Duration::from_secs(180);

fn is_one_chain(members: &[Member]) -> Option<u64> {
    let height = members.iter().map(Member::height).min().expect("a node");
    let blocks: Vec<_> = members.iter().map(|member| member.block_if_any(height)).collect();
    (blocks[0].is_some() && blocks.iter().all(|block| *block == blocks[0])).then_some(height)
}

#[test]
fn nodes_killed_in_turn_have_one_chain() {
    let seconds = from_environment("NISD_RESTARTS").unwrap_or(SECONDS);
    // All use one address, because a node is contacted at the address its requests come from.
    let places = (1..=3).map(|_| NodeLocation::on_loopback(1)).collect();
    let mut members = crate::common::members::network(places, 60, 0);
    // Only the others know the address of the first.
    members[0].remove_peer_list();
    members.iter_mut().for_each(Member::start);
    wait_with_timeout("one chain", MAX_WAIT, || is_one_chain(&members).filter(|height| *height > 2));
    // Known peers are saved within seconds.
    std::thread::sleep(Duration::from_secs(8));
    let mut random = Random(7);
    let (begun, mut kills) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(seconds) {
        let member = &mut members[kills % 3];
        member.kill();
        std::thread::sleep(Duration::from_millis(100 + random.below(5_000) as u64));
        member.start();
        kills += 1;
        std::thread::sleep(Duration::from_millis(2_000 + random.below(8_000) as u64));
    }
    let before = members.iter().map(Member::height).max().expect("a node");
    let height = wait_with_timeout("one chain", MAX_WAIT, || is_one_chain(&members).filter(|height| *height > before));
    let (common, digest) = crate::common::members::stop_and_compare(&mut members);
    print_notice(&format!("  {kills} kills in {seconds} s: one chain at height {height}, digest {digest} at {common}"));
}
