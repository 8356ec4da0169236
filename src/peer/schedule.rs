//! The tasks that recur, and when each is due.
//!
//! Each is begun, ends, rests, and is begun again. Until the first refresh has ended only foraging and refreshing are
//! done. Whoever has begun a task says when it has ended; one that never ends is never due again.

use std::time::Duration;

use crate::model::Timestamp;

/// A task that recurs, in the order in which tasks are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// Drops unconfirmed transactions that are too old, and tries to harvest.
    Foraging,
    /// Contacts some nodes to see whether they are still there, and comes to know others by them.
    Refresh,
    /// Tells partners that this node is there.
    Broadcast,
    /// Synchronises the chain with a partner.
    Synchronisation,
    /// Forgets nodes that have not answered for long.
    PruningNodes,
    /// Asks partners for the heights of their chains.
    CheckingHeight,
    /// Sends what was gathered for partners.
    BroadcastOfBuffer,
    /// Asks a partner for its experiences.
    UpdatingExperiences,
    /// Forgets experiences that are too old.
    PruningExperiences,
    /// Brings network time nearer to that of the others.
    TimeSynchronisation,
    /// Asks partners for the address at which they see this node.
    IpDetection,
}

impl Task {
    /// All of them.
    pub const ALL: [Task; 11] = [
        Task::Foraging,
        Task::Refresh,
        Task::Broadcast,
        Task::Synchronisation,
        Task::PruningNodes,
        Task::CheckingHeight,
        Task::BroadcastOfBuffer,
        Task::UpdatingExperiences,
        Task::PruningExperiences,
        Task::TimeSynchronisation,
        Task::IpDetection,
    ];

    /// Its name in the view of the timers.
    pub fn name(self) -> &'static str {
        match self {
            Task::Foraging => "FORAGING",
            Task::Refresh => "REFRESH",
            Task::Broadcast => "BROADCAST",
            Task::Synchronisation => "SYNC",
            Task::PruningNodes => "PRUNING INACTIVE NODES",
            Task::CheckingHeight => "CHECKING CHAIN SYNCHRONIZATION",
            Task::BroadcastOfBuffer => "BROADCAST BUFFERED ENTITIES",
            Task::UpdatingExperiences => "UPDATE NODE EXPERIENCES",
            Task::PruningExperiences => "PRUNE NODE EXPERIENCES",
            Task::TimeSynchronisation => "TIME SYNCHRONIZATION",
            Task::IpDetection => "AUTO IP DETECTION",
        }
    }

    /// How long it rests after a run; `runs` were before that one.
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

/// A delay that rises evenly from `least` to `most` over about `period`, and stays there; all in milliseconds.
fn rising(least: u64, most: u64, period: u64, runs: u64) -> u64 {
    let steps = 2 * period / (least + most);
    if runs >= steps {
        return most;
    }
    // In single precision, as NIS1 calculates.
    let step = (most - least) as f32 / (steps - 1) as f32;
    least + (step * runs as f32) as u64
}

/// A task and what is known of its runs.
#[derive(Clone, Debug)]
pub struct Timer {
    /// The task.
    pub task: Task,
    /// Runs that were begun.
    pub executions: u64,
    /// Runs that ended well.
    pub successes: u64,
    /// Runs that ended otherwise.
    pub failures: u64,
    /// The rest that was decided on last: that before the first run, later that after the run which was begun last.
    pub last_delay: Duration,
    /// When the last run was begun, 0 before the first.
    pub last_start: Timestamp,
    /// Seconds that the last run took which ended.
    pub last_seconds: u64,
    /// Whether a run goes on.
    pub is_executing: bool,
    total_seconds: u64,
    /// Since the start of the node; `None` while a run goes on or as long as the first refresh has not ended.
    due: Option<Duration>,
}

impl Timer {
    /// Seconds that a run takes on average, rounded down; 0 before the first has ended.
    pub fn average_seconds(&self) -> u64 {
        self.total_seconds.checked_div(self.successes + self.failures).unwrap_or(0)
    }
}

/// The tasks of a node that has joined its network.
#[derive(Clone, Debug)]
pub struct Schedule {
    timers: Vec<Timer>,
}

/// From the start to the first foraging.
const FIRST_FORAGING: Duration = Duration::from_secs(5);
/// From the start to the first refresh, and from each first run to that of the next task.
const OFFSET: Duration = Duration::from_millis(200);

impl Schedule {
    /// The tasks of a node that joins its network now, `now` being the time since its start; some of them may be left
    /// out.
    pub fn new(now: Duration, is_wanted: impl Fn(Task) -> bool) -> Schedule {
        let mut timers = Vec::with_capacity(Task::ALL.len());
        for task in Task::ALL.into_iter().filter(|task| is_wanted(*task)) {
            let last_delay = match task {
                Task::Foraging => FIRST_FORAGING,
                _ => OFFSET * timers.len() as u32,
            };
            let due = matches!(task, Task::Foraging | Task::Refresh).then_some(now + last_delay);
            timers.push(Timer {
                task,
                executions: 0,
                successes: 0,
                failures: 0,
                last_delay,
                last_start: Timestamp(0),
                last_seconds: 0,
                is_executing: false,
                total_seconds: 0,
                due,
            });
        }
        Schedule { timers }
    }

    /// When the next task is due, by the time since the start of the node.
    pub fn next_due(&self) -> Option<Duration> {
        self.timers.iter().filter_map(|timer| timer.due).min()
    }

    /// A task that is due, the one that has waited longest, which is taken to be executed from now on.
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

    /// A task has ended. Of one that is not executed nothing is noted.
    pub fn end(&mut self, task: Task, was_successful: bool, now: Duration, time: Timestamp) {
        let Some(timer) = self.timers.iter_mut().find(|timer| timer.task == task && timer.is_executing) else { return };
        timer.is_executing = false;
        timer.last_seconds = u64::try_from(time.0.saturating_sub(timer.last_start.0)).unwrap_or(0);
        timer.total_seconds = timer.total_seconds.saturating_add(timer.last_seconds);
        match was_successful {
            true => timer.successes += 1,
            false => timer.failures += 1,
        }
        timer.due = Some(now + timer.last_delay);
        if task == Task::Refresh {
            let unbegun = self.timers.iter_mut().filter(|timer| timer.executions == 0);
            for timer in unbegun.filter(|timer| timer.due.is_none()) {
                timer.due = Some(now + timer.last_delay);
            }
        }
    }

    /// A task that rests is due now. One that was never begun is left as it is.
    pub fn hasten(&mut self, task: Task, now: Duration) {
        let timer = self.timers.iter_mut().find(|timer| timer.task == task && timer.executions > 0);
        if let Some(due) = timer.and_then(|timer| timer.due.as_mut()) {
            *due = now.min(*due);
        }
    }

    /// The tasks in the order of [`Task`], with what is known of their runs.
    pub fn timers(&self) -> &[Timer] {
        &self.timers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(100);

    fn millis(millis: u64) -> Duration {
        START + Duration::from_millis(millis)
    }

    /// First runs in milliseconds after the first refresh, which ends a second after the start.
    fn first_runs(is_wanted: impl Fn(Task) -> bool) -> Vec<(Task, u64)> {
        let mut schedule = Schedule::new(START, is_wanted);
        assert_eq!(schedule.next_due(), Some(millis(200)));
        assert_eq!(schedule.begin(millis(199), Timestamp(1)), None);
        assert_eq!(schedule.begin(millis(200), Timestamp(1)), Some(Task::Refresh));
        // As long as the first refresh goes on there is only foraging, however late it is.
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
    fn tasks_begin_one_after_the_other_when_the_first_refresh_has_ended() {
        let mut expected: Vec<_> = Task::ALL[2..].iter().copied().zip((400..).step_by(200)).collect();
        assert_eq!(first_runs(|_| true), expected);
        expected.retain(|(task, _)| *task != Task::TimeSynchronisation);
        expected[7].1 = 1_800;
        assert_eq!(first_runs(|task| task != Task::TimeSynchronisation), expected);
    }

    #[test]
    fn a_task_that_is_executed_is_not_due_until_it_has_ended_and_rested() {
        let mut schedule = Schedule::new(START, |task| task == Task::Foraging);
        assert_eq!(schedule.begin(millis(60_000), Timestamp(60)), Some(Task::Foraging));
        assert_eq!((schedule.next_due(), schedule.begin(millis(90_000), Timestamp(90))), (None, None));
        assert!(schedule.timers()[0].is_executing);
        schedule.end(Task::Foraging, true, millis(90_000), Timestamp(90));
        assert_eq!(schedule.next_due(), Some(millis(91_000)));
        // What was not begun does not end.
        schedule.end(Task::Foraging, true, millis(95_000), Timestamp(95));
        schedule.end(Task::Refresh, true, millis(95_000), Timestamp(95));
        assert_eq!((schedule.next_due(), schedule.timers()[0].successes), (Some(millis(91_000)), 1));
    }

    #[test]
    fn runs_are_counted_and_measured() {
        let mut schedule = Schedule::new(START, |task| task == Task::Foraging);
        assert_eq!(schedule.timers()[0].last_delay, Duration::from_secs(5));
        let mut time = 1_000;
        for (seconds, was_successful) in [(5, true), (2, false), (0, true), (-7, true)] {
            let due = schedule.next_due().expect("a moment");
            assert_eq!(schedule.begin(due, Timestamp(time)), Some(Task::Foraging));
            time += seconds;
            schedule.end(Task::Foraging, was_successful, due, Timestamp(time));
        }
        let timer = &schedule.timers()[0];
        assert_eq!((timer.executions, timer.successes, timer.failures), (4, 3, 1));
        // A clock that is set back is no negative time.
        assert_eq!((timer.last_seconds, timer.average_seconds(), timer.last_start), (0, 1, Timestamp(1_007)));
        assert_eq!(timer.last_delay, Duration::from_secs(1));
    }

    #[test]
    fn the_task_that_has_waited_longest_comes_first() {
        let mut schedule = Schedule::new(START, |_| true);
        let late = millis(100_000);
        assert_eq!(schedule.begin(late, Timestamp(1)), Some(Task::Refresh));
        assert_eq!(schedule.begin(late, Timestamp(1)), Some(Task::Foraging));
        assert_eq!(schedule.begin(late, Timestamp(1)), None);
    }

    #[test]
    fn delays_stay_where_they_are_after_any_number_of_runs() {
        for task in Task::ALL {
            assert_eq!(task.delay(u64::MAX), task.delay(10_000), "{task:?}");
        }
    }
}
