//! The loop that imports blocks into a store, and its progress display.

use std::io::{self, IsTerminal};

use super::CommandError;
use crate::chain::{self, BlockImporter, ImportOptions};
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
const STEPS_PER_CLOCK_READ: u32 = 256;

/// Observes an import and may end it with an error.
pub trait ImportObserver {
    /// Called after each imported block, which may not be committed yet.
    fn on_block(&mut self, _block: &StoredHeader) -> Result<(), CommandError> {
        Ok(())
    }

    /// Called after a commit of all blocks up to this height.
    fn on_commit(&mut self, last: Height) -> Result<(), CommandError> {
        log::debug!("committed up to height {last}");
        Ok(())
    }
}

/// Imports all blocks and shows progress. Returns the height of the last commit.
pub fn import_blocks(
    mut importer: BlockImporter<'_>,
    clock: &NetworkClock,
    system: System,
    target: Option<Height>,
    observer: &mut impl ImportObserver,
) -> Result<Height, CommandError> {
    importer.set_batch_rows(IMPORT_ROWS);
    let mut display = ProgressDisplay::new(system.millis, &importer, target);
    let mut now = system.network_time(clock);
    let mut last_height = importer.height();
    let result = loop {
        let step = importer.step(now);
        let imported = importer.tip().filter(|tip| tip.height > last_height);
        last_height = importer.height();
        let seen = imported.map_or(Ok(()), |block| observer.on_block(block));
        let done = seen.and_then(|()| match step {
            Ok(chain::ImportProgress::Done) => Ok(true),
            Ok(chain::ImportProgress::Committed { last, .. }) => {
                now = system.network_time(clock);
                observer.on_commit(last).map(|()| false)
            }
            Ok(chain::ImportProgress::Working | chain::ImportProgress::Syncing) => {
                display.working(&importer);
                Ok(false)
            }
            Err(error) => Err(error.into()),
        });
        match done {
            Ok(false) => {}
            Ok(true) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    display.end(&importer);
    result.map(|()| importer.committed())
}

/// Shows progress on standard error: as a rewritten line on a terminal, else as log lines.
struct ProgressDisplay {
    millis: fn() -> u64,
    meter: ProgressMeter,
    target: Option<u64>,
    steps: u32,
}

impl ProgressDisplay {
    fn new(millis: fn() -> u64, importer: &BlockImporter<'_>, stop_at: Option<Height>) -> ProgressDisplay {
        let target = stop_at.map(|height| height.0);
        let meter = ProgressMeter::new(style(), millis(), &progress_of(importer, target));
        ProgressDisplay { millis, meter, target, steps: 0 }
    }

    fn working(&mut self, importer: &BlockImporter<'_>) {
        self.steps += 1;
        if self.steps >= STEPS_PER_CLOCK_READ {
            self.steps = 0;
            let line = self.meter.report((self.millis)(), &progress_of(importer, self.target));
            line.iter().for_each(|line| show(line));
        }
    }

    fn end(&mut self, importer: &BlockImporter<'_>) {
        let line = self.meter.finish((self.millis)(), &progress_of(importer, self.target));
        show(&line);
    }
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
