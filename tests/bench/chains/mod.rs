//! Long valid chains generated from a seed: blocks in the format of `nisd import`, with the settings and the nemesis
//! block of their network.

mod book;
mod groups;
mod growth;
mod names;
mod people;
mod plan;
mod traffic;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flate2::write::GzEncoder;
use nisd::codec::SigningForm;
use nisd::codec::block_file::write_block;
use nisd::config;
use nisd::model::{Amount, Timestamp};

use crate::common::Random;
use crate::common::private_network::{self, Genesis};

pub use book::Statistics;
use book::Tenth;
use growth::ChainBuilder;
use people::Accounts;
pub use plan::Plan;
use traffic::Traffic;

/// Interval of progress reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Number of heights about which the summary tells more.
const TENTHS: u64 = 10;

/// Files of a chain.
pub struct Files {
    /// Settings of the network.
    pub config: PathBuf,
    /// All blocks except the nemesis block.
    pub blocks: PathBuf,
}

/// A progress report.
pub struct Progress {
    /// Current height.
    pub height: u64,
    /// Transactions so far, not counting nested ones.
    pub transactions: u64,
    /// Transactions per second, since the last report and from the start.
    pub rates: [f64; 2],
}

/// Generates a chain in a folder, which it creates.
pub fn generate(plan: &Plan, folder: &Path, tell: impl FnMut(Progress)) -> Result<(Files, Statistics), String> {
    plan.check()?;
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let mut random = Random(plan.seed);
    let people = Accounts::new(plan, &mut random);
    let config = write_network(plan, &people, folder).map_err(failed)?;
    let settings = config::load(Some(&config), Vec::new(), Some(folder)).map_err(|error| error.to_string())?;
    let scratch = tempfile::Builder::new().prefix("nisd-chains-").tempdir();
    let scratch = scratch.map_err(|error| format!("{}: {error}", std::env::temp_dir().display()))?;
    let store = nisd::commands::store::open_store(&settings, scratch.path()).map_err(|error| error.to_string())?;
    let growth = ChainBuilder::new(plan, &store, &settings, &people);
    let traffic = Traffic::new(plan, &settings.network, people, random);
    let blocks = folder.join(if plan.gzip { "blocks.bin.gz" } else { "blocks.bin" });
    let file = BufWriter::new(File::create(&blocks).map_err(failed)?);
    let book = if plan.gzip {
        let mut out = GzEncoder::new(file, flate2::Compression::fast());
        let book = grow(plan, growth, traffic, &mut out, tell).map_err(failed)?;
        out.finish().and_then(|mut file| file.flush()).map_err(failed)?;
        book
    } else {
        let mut out = file;
        let book = grow(plan, growth, traffic, &mut out, tell).map_err(failed)?;
        out.flush().map_err(failed)?;
        book
    };
    let summary = serde_json::to_string_pretty(&book.summary(plan)).expect("JSON") + "\n";
    fs::write(folder.join("summary.json"), summary).map_err(failed)?;
    Ok((Files { config, blocks }, book))
}

/// Writes `nemesis.bin` and `network.properties`.
fn write_network(plan: &Plan, people: &Accounts, folder: &Path) -> std::io::Result<PathBuf> {
    let funded: Vec<_> = people.funded().map(|(address, micro)| (address, Amount(micro))).collect();
    let numbers = [u64::from(plan.target_time()), plan.rewrite_limit(), plan.block_limit(), plan.attempt_limit()];
    let [target_time, rewrite_limit, per_block, per_attempt] = numbers.map(|number| number.to_string());
    let consensus = if plan.stake { "PROOF_OF_STAKE" } else { "PROOF_OF_IMPORTANCE" };
    let forks = if let Some(scale) = plan.scale { scaled_forks(scale, folder) } else { Vec::new() };
    let settings = [
        ("nis.blockGenerationTargetTime", target_time.as_str()),
        ("nis.blockChainRewriteLimit", &rewrite_limit),
        ("nis.maxTransactionsPerBlock", &per_block),
        ("nis.maxTransactions", &per_attempt),
        ("nis.blockChainFeatures", &format!("{consensus}|WB_TIME_BASED_VESTING")),
    ];
    let forks: Vec<_> = forks.iter().map(|(key, height)| (*key, height.as_str())).collect();
    let written = Genesis::new(Timestamp(0), &funded).write(folder, &[&settings, forks.as_slice()].concat());
    let config = folder.join("network.properties");
    fs::rename(written, &config)?;
    Ok(config)
}

/// Returns the settings for the public network's forks in a chain whose size is divided by `scale`.
fn scaled_forks(scale: u64, folder: &Path) -> Vec<(&'static str, String)> {
    let public = config::load(None, Vec::new(), Some(folder)).expect("the default network");
    let heights = public.network.parameters().filter(|(key, _)| key.ends_with("ForkHeight"));
    let scaled = |height: String| (height.parse::<u64>().expect("a height") / scale).max(1).to_string();
    heights.map(|(key, height)| (key, scaled(height))).collect()
}

/// Makes all blocks after the first, adds them to the chain and writes them to the file.
fn grow(
    plan: &Plan,
    mut growth: ChainBuilder<'_>,
    mut traffic: Traffic<'_>,
    out: &mut impl Write,
    mut tell: impl FnMut(Progress),
) -> std::io::Result<Statistics> {
    let (begun, now) = (Instant::now(), private_network::now());
    let (mut told, mut told_count) = (begun, 0);
    for height in 2..=plan.blocks {
        let place = growth.next(&traffic.accounts);
        if place.time > now {
            let why = format!("the chain begins with the epoch of NEM and has come to the present at height {height}");
            return Err(std::io::Error::other(why));
        }
        if place.signer != place.harvester {
            traffic.statistics.count("blocksByRemotes", 1);
        }
        let is_empty = plan.ends_empty && height == plan.blocks;
        let transactions = if is_empty { Vec::new() } else { traffic.fill(&place) };
        let block = growth.make(&traffic.accounts, &place, transactions);
        traffic.statistics.add_block(&block);
        let bytes = block.to_bytes(SigningForm::Verifiable);
        write_block(out, &bytes)?;
        growth.push(&block, &bytes, height == plan.blocks);
        if height == 2 || height * TENTHS / plan.blocks > (height - 1) * TENTHS / plan.blocks {
            traffic.statistics.tenths.push(Tenth { height, time: growth.time(), eligible: growth.eligible });
        }
        let transactions = traffic.statistics.transactions;
        if told.elapsed() >= REPORT_INTERVAL || height == plan.blocks {
            let rate = |count: u64, since: Instant| count as f64 / since.elapsed().as_secs_f64();
            let rates = [rate(transactions - told_count, told), rate(transactions, begun)];
            tell(Progress { height, transactions, rates });
            (told, told_count) = (Instant::now(), transactions);
        }
    }
    traffic.statistics.end = growth.time();
    traffic.statistics.count("mostHoldersOfAMosaic", traffic.max_holders() as u64);
    for (what, count) in
        ["difficultyChangesAtLimit", "leastDifficulties", "greatestDifficulties"].into_iter().zip(growth.limited)
    {
        traffic.statistics.count(what, count);
    }
    traffic.statistics.activities = traffic.accounts.activities();
    Ok(traffic.statistics)
}
