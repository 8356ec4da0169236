//! Duration of a trust calculation, and of its longest row.
//!
//! Calculates for the maximum number of nodes, each of which has experiences with all others: the most expensive case.
//! A row does the same work every time, so its shortest time is its own and the excess is due to other processes.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nisd::crypto::PublicKey;
use nisd::model::{Address, NetworkByte};
use nisd::peer::trust::{Calculation, Experience, Experiences, MAX_MEMBERS, Members, TrustValues};

const RUNS: usize = 50;
const NOW: Duration = Duration::from_secs(1_000);

fn address(number: usize) -> Address {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&number.to_le_bytes());
    Address::from_public_key(&PublicKey(key), NetworkByte::TESTNET)
}

pub fn run(_: &[String]) -> ExitCode {
    let others: Vec<_> = (1..MAX_MEMBERS).map(address).collect();
    let local = address(0);
    let mut experiences = Experiences::new(local);
    for (number, reporter) in others.iter().enumerate() {
        let calls = |other: usize| Experience::new((number * other % 50) as i64, (number + other) as i64 % 10);
        let pairs: Vec<_> = (0..MAX_MEMBERS).filter(|other| *other != number + 1).collect();
        let pairs: Vec<_> = pairs.into_iter().map(|other| (address(other), calls(other))).collect();
        assert!(experiences.receive(*reporter, &pairs, NOW));
        (0..number % 30).for_each(|_| experiences.succeeded(*reporter, NOW));
    }
    let listed: BTreeSet<_> = others.iter().take(10).copied().collect();
    let mut rows: Vec<Duration> = Vec::new();
    let mut beginning = Duration::MAX;
    for _ in 0..RUNS {
        let start = Instant::now();
        let members = Members::choose(others.clone(), local, &listed, &TrustValues::default(), &mut || 0);
        let mut calculation = Calculation::new(members);
        beginning = beginning.min(start.elapsed());
        for row in 0.. {
            let start = Instant::now();
            let values = calculation.advance(&experiences, 1);
            let took = start.elapsed();
            match rows.get_mut(row) {
                Some(least) => *least = took.min(*least),
                None => rows.push(took),
            }
            if values.is_some() {
                break;
            }
        }
    }
    let (all, longest): (Duration, _) = (rows.iter().sum(), rows.iter().max().copied().unwrap_or_default());
    println!("{MAX_MEMBERS} nodes: begun in {beginning:?}, {} rows in {all:?}, the longest in {longest:?}", rows.len());
    ExitCode::SUCCESS
}
