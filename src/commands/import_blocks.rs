//! The loop that imports blocks into a store, and its progress display.

use std::io::{self, IsTerminal};

use super::CommandError;
use crate::chain::{BlockImporter, ImportOptions, ImportProgress};
use crate::clock::{NetworkClock, System};
use crate::logging;
use crate::model::Height;
use crate::progress::{Progress, ProgressMeter, Style};
use crate::store::StoredHeader;

/// Import options. Batches are so large that a page which many blocks change is rarely written, and so small that an
/// interruption loses little work.
pub const IMPORT: ImportOptions =
    ImportOptions { batch_steps: IMPORT_ROWS, batch_blocks: 1_000, stop_at: None, trusted_below: Height(0) };
/// Changed rows after which an import commits; nothing waits for it. The store bounds the memory of the rows.
const IMPORT_ROWS: u32 = 160_000;
/// Import steps between two clock readings.
const STEPS_PER_CLOCK_READ: u64 = 256;

/// What an import has done.
pub enum Imported<'a> {
    /// This block was imported. It may not be committed yet.
    Block(&'a StoredHeader),
    /// All blocks up to this height were committed.
    Commit(Height),
}

impl Imported<'_> {
    /// Logs a commit.
    pub fn log(&self) {
        if let Imported::Commit(last) = self {
            log::debug!("committed up to height {last}");
        }
    }
}

/// Imports all blocks and shows progress: on standard error as a rewritten line on a terminal, else as log lines.
/// `observe` may end the import with an error. Returns the height of the last commit.
pub fn import_blocks(
    mut importer: BlockImporter<'_>,
    clock: &NetworkClock,
    system: System,
    target: Option<Height>,
    mut observe: impl FnMut(Imported<'_>) -> Result<(), CommandError>,
) -> Result<Height, CommandError> {
    importer.set_batch_rows(IMPORT_ROWS);
    let target = target.map(|height| height.0);
    let mut meter = ProgressMeter::new(style(), (system.millis)(), &progress_of(&importer, target));
    let mut import = || {
        let (mut now, mut last_height, mut steps) = (system.network_time(clock), importer.height(), 0u64);
        loop {
            let step = importer.step(now);
            let imported = importer.tip().filter(|tip| tip.height > last_height);
            last_height = importer.height();
            imported.map_or(Ok(()), |block| observe(Imported::Block(block)))?;
            match step? {
                ImportProgress::Done => return Ok(()),
                ImportProgress::Committed { last, .. } => {
                    now = system.network_time(clock);
                    observe(Imported::Commit(last))?;
                }
                ImportProgress::Working | ImportProgress::Syncing => {
                    steps += 1;
                    if steps.is_multiple_of(STEPS_PER_CLOCK_READ) {
                        let line = meter.report((system.millis)(), &progress_of(&importer, target));
                        line.iter().for_each(|line| show(line));
                    }
                }
            }
        }
    };
    let result: Result<(), CommandError> = import();
    show(&meter.finish((system.millis)(), &progress_of(&importer, target)));
    result.map(|()| importer.committed())
}

/// Returns the progress of an import that ends at height `target` or with its files. The height is that of the last
/// commit.
fn progress_of(importer: &BlockImporter<'_>, target: Option<u64>) -> Progress {
    Progress { height: importer.committed().0, target, bytes: importer.bytes().filter(|_| target.is_none()) }
}

/// Returns how to show progress on standard error.
pub fn style() -> Style {
    const USUAL_WIDTH: usize = 80;
    match io::stderr().is_terminal() {
        true => {
            Style::Terminal { width: std::env::var("COLUMNS").ok().and_then(|w| w.parse().ok()).unwrap_or(USUAL_WIDTH) }
        }
        false => Style::Log,
    }
}

/// Writes one progress line.
pub fn show(line: &str) {
    match io::stderr().is_terminal() {
        true => logging::show_transient(line),
        false => log::info!("{line}"),
    }
}
