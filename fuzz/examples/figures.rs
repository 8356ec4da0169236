//! Prints the cost of the most expensive scripts of `connections`.
//!
//! Usage: `cargo run --release --example figures -- FOLDER...`

use std::fs;
use std::time::{Duration, Instant};

use nisd_fuzz::connections::{Costs, run};

fn main() {
    let mut most = Costs::default();
    let (mut scripts, mut slowest, mut per_byte) = (0, Duration::ZERO, (0.0, String::new()));
    for folder in std::env::args().skip(1) {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let script = fs::read(&path).expect("a script");
            let begun = Instant::now();
            let figures = run(&script);
            let took = begun.elapsed();
            scripts += 1;
            slowest = slowest.max(took);
            most.handled = most.handled.max(figures.handled);
            most.sent = most.sent.max(figures.sent);
            most.received = most.received.max(figures.received);
            most.units = most.units.max(figures.units);
            most.max_held = most.max_held.max(figures.max_held);
            most.max_shared = most.max_shared.max(figures.max_shared);
            let units = f64::from(figures.units) / figures.sent.max(1) as f64;
            if units > per_byte.0 {
                per_byte = (units, path.display().to_string());
            }
        }
    }
    println!("{scripts} scripts, the slowest took {slowest:?}; the most of each: {most:?}");
    println!("most units of the server's own for a byte that was sent: {:.3} ({})", per_byte.0, per_byte.1);
}
