//! Recurring tasks and their due times.
//!
//! A task starts, ends, waits for its delay, and starts again. Until the first refresh has ended, only foraging and
//! refresh run. The caller reports the end of each task; a task that never ends is never due again.

use std::time::Duration;

use crate::model::Timestamp;

/// Recurring task, in display order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    #[default]
    /// Purges old unconfirmed transactions, and tries to harvest.
    Foraging,
    /// Probes some peers, and learns others from them.
    Refresh,
    /// Sends signs of life.
    Broadcast,
    /// Synchronises the chain with a peer.
    Synchronisation,
    /// Drops peers that have not answered for long.
    PruningNodes,
    /// Queries peers' heights.
    CheckingHeight,
    /// Relays the buffered transactions.
    BroadcastOfBuffer,
    /// Queries a peer's experiences.
    UpdatingExperiences,
    /// Removes expired experiences.
    PruningExperiences,
    /// Adjusts network time to the peers' clocks.
    TimeSynchronisation,
    /// Queries this node's address.
    IpDetection,
}

impl Task {
    /// All tasks, and their names in the view of timers.
    pub const ALL: [(Task, &'static str); 11] = [
        (Task::Foraging, "FORAGING"),
        (Task::Refresh, "REFRESH"),
        (Task::Broadcast, "BROADCAST"),
        (Task::Synchronisation, "SYNC"),
        (Task::PruningNodes, "PRUNING INACTIVE NODES"),
        (Task::CheckingHeight, "CHECKING CHAIN SYNCHRONIZATION"),
        (Task::BroadcastOfBuffer, "BROADCAST BUFFERED ENTITIES"),
        (Task::UpdatingExperiences, "UPDATE NODE EXPERIENCES"),
        (Task::PruningExperiences, "PRUNE NODE EXPERIENCES"),
        (Task::TimeSynchronisation, "TIME SYNCHRONIZATION"),
        (Task::IpDetection, "AUTO IP DETECTION"),
    ];

    /// Returns the delay after a run that `runs` others precede.
    pub fn delay(self, runs: u64) -> Duration {
        const SECOND: u64 = 1_000;
        const MINUTE: u64 = 60 * SECOND;
        const HOUR: u64 = 60 * MINUTE;
        let millis = match self {
            Task::Foraging | Task::BroadcastOfBuffer => SECOND,
            Task::Synchronisation => 3 * SECOND,
            Task::CheckingHeight => 30 * SECOND,
            Task::Broadcast | Task::IpDetection => 5 * MINUTE,
            Task::PruningNodes => HOUR,
            Task::PruningExperiences => 6 * HOUR,
            Task::Refresh => rising(MINUTE, 5 * MINUTE, 12 * HOUR, runs),
            Task::UpdatingExperiences => match runs.checked_sub(60) {
                None => MINUTE,
                Some(runs) => rising(MINUTE, 3 * HOUR, 12 * HOUR, runs),
            },
            Task::TimeSynchronisation => match runs.checked_sub(15) {
                None => MINUTE,
                Some(runs) => rising(MINUTE, 3 * HOUR, 9 * HOUR, runs),
            },
        };
        Duration::from_millis(millis)
    }
}

/// Returns a delay in ms that rises linearly from `min` to `max` over about `period`, and stays there.
fn rising(min: u64, max: u64, period: u64, runs: u64) -> u64 {
    let steps = 2 * period / (min + max);
    if runs >= steps {
        return max;
    }
    // Single precision, as in NIS1.
    let step = (max - min) as f32 / (steps - 1) as f32;
    min + (step * runs as f32) as u64
}

/// Statistics and due time of a task.
#[derive(Clone, Debug, Default)]
pub struct Timer {
    /// The task.
    pub task: Task,
    /// Its name in the view of timers.
    pub name: &'static str,
    /// Number of started runs.
    pub executions: u64,
    /// Number of successful runs.
    pub successes: u64,
    /// Number of failed runs.
    pub failures: u64,
    /// Delay that was set last: before the first run, or after the run that started last.
    pub last_delay: Duration,
    /// Start of the last run; 0 before the first.
    pub last_start: Timestamp,
    /// Duration in seconds of the last run that ended.
    pub last_seconds: u64,
    /// Whether a run is in progress.
    pub is_executing: bool,
    total_seconds: u64,
    /// Time since the start of the node; `None` during a run and before the first refresh has ended.
    due: Option<Duration>,
}

impl Timer {
    /// Returns the average duration of a run in seconds, rounded down; 0 before the first has ended.
    pub fn average_seconds(&self) -> u64 {
        self.total_seconds.checked_div(self.successes + self.failures).unwrap_or(0)
    }
}

/// Tasks of a node that has joined its network.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The timers in the order of [`Task`].
    pub timers: Vec<Timer>,
}

/// Time from joining to the first foraging.
const FIRST_FORAGING: Duration = Duration::from_secs(5);
/// Time from joining to the first refresh, and between the first runs of successive tasks.
const OFFSET: Duration = Duration::from_millis(200);

impl Schedule {
    /// Creates the schedule of the wanted tasks of a node that joins its network at `now`, the time since its start.
    pub fn new(now: Duration, is_wanted: impl Fn(Task) -> bool) -> Schedule {
        let mut timers = Vec::with_capacity(Task::ALL.len());
        for (task, name) in Task::ALL.into_iter().filter(|(task, _)| is_wanted(*task)) {
            let last_delay = match task {
                Task::Foraging => FIRST_FORAGING,
                _ => OFFSET * timers.len() as u32,
            };
            let due = matches!(task, Task::Foraging | Task::Refresh).then_some(now + last_delay);
            timers.push(Timer { task, name, last_delay, due, ..Timer::default() });
        }
        Schedule { timers }
    }

    /// Returns when the next task is due, as time since the start of the node.
    pub fn next_due(&self) -> Option<Duration> {
        self.timers.iter().filter_map(|timer| timer.due).min()
    }

    /// Starts and returns the task that is overdue longest, if any is due.
    pub fn begin(&mut self, now: Duration, time: Timestamp) -> Option<Task> {
        let timer = self.timers.iter_mut().filter(|timer| timer.due.is_some_and(|due| due <= now));
        let timer = timer.min_by_key(|timer| timer.due)?;
        timer.due = None;
        timer.is_executing = true;
        timer.last_start = time;
        timer.last_delay = timer.task.delay(timer.executions);
        timer.executions += 1;
        Some(timer.task)
    }

    /// Ends a task. Ignores one that is not running.
    pub fn end(&mut self, task: Task, was_successful: bool, now: Duration, time: Timestamp) {
        let Some(timer) = self.timers.iter_mut().find(|timer| timer.task == task && timer.is_executing) else { return };
        timer.is_executing = false;
        timer.last_seconds = u64::try_from(time.0.saturating_sub(timer.last_start.0)).unwrap_or(0);
        timer.total_seconds = timer.total_seconds.saturating_add(timer.last_seconds);
        let count = if was_successful { &mut timer.successes } else { &mut timer.failures };
        *count += 1;
        timer.due = Some(now + timer.last_delay);
        if task == Task::Refresh {
            let unbegun = self.timers.iter_mut().filter(|timer| timer.executions == 0);
            for timer in unbegun.filter(|timer| timer.due.is_none()) {
                timer.due = Some(now + timer.last_delay);
            }
        }
    }

    /// Makes a waiting task due now. Ignores one that has never run.
    pub fn run_now(&mut self, task: Task, now: Duration) {
        let timer = self.timers.iter_mut().find(|timer| timer.task == task && timer.executions > 0);
        if let Some(due) = timer.and_then(|timer| timer.due.as_mut()) {
            *due = now.min(*due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(100);

    fn millis(millis: u64) -> Duration {
        START + Duration::from_millis(millis)
    }

    /// Returns the first runs, in milliseconds after the first refresh, which ends a second after the start.
    fn first_runs(is_wanted: impl Fn(Task) -> bool) -> Vec<(Task, u64)> {
        let mut schedule = Schedule::new(START, is_wanted);
        assert_eq!(schedule.next_due(), Some(millis(200)));
        assert_eq!(schedule.begin(millis(199), Timestamp(1)), None);
        assert_eq!(schedule.begin(millis(200), Timestamp(1)), Some(Task::Refresh));
        // During the first refresh only foraging can start, however late it is.
        assert_eq!(schedule.next_due(), Some(millis(5_000)));
        schedule.end(Task::Refresh, false, millis(1_000), Timestamp(2));
        let mut first = Vec::new();
        while let Some(due) = schedule.next_due().filter(|due| *due < millis(5_000)) {
            let task = schedule.begin(due, Timestamp(3)).expect("a task");
            first.push((task, (due - millis(1_000)).as_millis() as u64));
        }
        first
    }

    #[test]
    fn tasks_start_in_order_after_the_first_refresh() {
        let mut expected: Vec<_> = Task::ALL[2..].iter().map(|(task, _)| *task).zip((400..).step_by(200)).collect();
        assert_eq!(first_runs(|_| true), expected);
        expected.retain(|(task, _)| *task != Task::TimeSynchronisation);
        expected[7].1 = 1_800;
        assert_eq!(first_runs(|task| task != Task::TimeSynchronisation), expected);
    }

    #[test]
    fn a_running_task_is_due_only_after_its_end_and_delay() {
        let mut schedule = Schedule::new(START, |task| task == Task::Foraging);
        assert_eq!(schedule.begin(millis(60_000), Timestamp(60)), Some(Task::Foraging));
        assert_eq!((schedule.next_due(), schedule.begin(millis(90_000), Timestamp(90))), (None, None));
        assert!(schedule.timers[0].is_executing);
        schedule.end(Task::Foraging, true, millis(90_000), Timestamp(90));
        assert_eq!(schedule.next_due(), Some(millis(91_000)));
        // A task that was not started does not end.
        schedule.end(Task::Foraging, true, millis(95_000), Timestamp(95));
        schedule.end(Task::Refresh, true, millis(95_000), Timestamp(95));
        assert_eq!((schedule.next_due(), schedule.timers[0].successes), (Some(millis(91_000)), 1));
    }

    #[test]
    fn runs_are_counted_and_measured() {
        let mut schedule = Schedule::new(START, |task| task == Task::Foraging);
        assert_eq!(schedule.timers[0].last_delay, Duration::from_secs(5));
        let mut time = 1_000;
        for (seconds, was_successful) in [(5, true), (2, false), (0, true), (-7, true)] {
            let due = schedule.next_due().expect("a moment");
            assert_eq!(schedule.begin(due, Timestamp(time)), Some(Task::Foraging));
            time += seconds;
            schedule.end(Task::Foraging, was_successful, due, Timestamp(time));
        }
        let timer = &schedule.timers[0];
        assert_eq!((timer.executions, timer.successes, timer.failures), (4, 3, 1));
        // A clock that is set back yields no negative duration.
        assert_eq!((timer.last_seconds, timer.average_seconds(), timer.last_start), (0, 1, Timestamp(1_007)));
        assert_eq!(timer.last_delay, Duration::from_secs(1));
    }

    #[test]
    fn the_task_that_has_waited_longest_runs_first() {
        let mut schedule = Schedule::new(START, |_| true);
        let late = millis(100_000);
        assert_eq!(schedule.begin(late, Timestamp(1)), Some(Task::Refresh));
        assert_eq!(schedule.begin(late, Timestamp(1)), Some(Task::Foraging));
        assert_eq!(schedule.begin(late, Timestamp(1)), None);
    }

    #[test]
    fn delays_stay_constant_after_many_runs() {
        for (task, _) in Task::ALL {
            assert_eq!(task.delay(u64::MAX), task.delay(10_000), "{task:?}");
        }
    }
}
