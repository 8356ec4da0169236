//! Loops that run in slices, and items in numbered groups, back to back in one array (compressed sparse rows, CSR).

use std::ops::Range;

/// A part of a calculation: continues its loop within the budget; returns true when finished.
pub type Stage<T> = fn(&mut T, &mut Loop) -> bool;

/// A loop that runs in slices: the work left in the present slice, and how far the loop is.
#[derive(Debug, Default)]
pub struct Loop {
    /// Units of work left in the slice. One unit is about one visited element.
    budget: u32,
    /// Elements passed.
    pub at: usize,
    /// Groups passed, and items passed of the next one.
    group: usize,
    passed: usize,
    /// Running sum.
    pub sum: f64,
}

impl Loop {
    /// Begins a slice of `units`, at least one, so that every slice makes progress.
    pub fn begin_slice(&mut self, units: u32) {
        self.budget = units.max(1);
    }

    /// Begins another loop in the same slice.
    pub fn restart(&mut self) {
        *self = Loop { budget: self.budget, ..Loop::default() };
    }

    /// Returns whether the slice is over.
    pub fn is_exhausted(&self) -> bool {
        self.budget == 0
    }

    /// Charges `cost` units and returns true if anything is left. The last charge may overdraw.
    pub fn charge(&mut self, cost: u32) -> bool {
        let affordable = self.budget > 0;
        self.budget = self.budget.saturating_sub(cost);
        affordable
    }

    /// Charges up to `wanted` units, as many as are left, and returns how many.
    pub fn charge_up_to(&mut self, wanted: usize) -> usize {
        let taken = wanted.min(self.budget as usize);
        self.budget -= taken as u32;
        taken
    }

    /// Gives back charged units.
    pub fn refund(&mut self, units: usize) {
        self.budget += units as u32;
    }

    /// Advances towards element `end`, one unit per element, and returns the range passed.
    pub fn advance(&mut self, end: usize) -> Range<usize> {
        let from = self.at;
        self.at += self.charge_up_to(end.saturating_sub(from));
        from..self.at
    }

    /// Returns the next slice of the items of groups within the budget: one unit per item, and one for an empty group.
    /// Returns `None` at the end or when the budget is spent.
    pub fn next_slice<'a, G: GroupAccess>(&mut self, groups: &'a G) -> Option<GroupSlice<'a, G::Item>> {
        if self.has_passed(groups) {
            return None;
        }
        let (group, from) = (self.group, self.passed);
        let all = groups.group(group);
        let paid = self.charge_up_to((all.len() - from).max(1));
        if paid == 0 {
            return None;
        }
        let to = (from + paid).min(all.len());
        let ends = to == all.len();
        (self.group, self.passed) = if ends { (group + 1, 0) } else { (group, to) };
        Some(GroupSlice { group, items: &all[from..to], begins: from == 0, ends })
    }

    /// Passes the items of all groups to `visit` as far as the budget suffices, those of a group possibly in parts: one
    /// unit per item, and one for an empty group. Returns whether all are passed.
    pub fn for_each_part<'g, G: GroupAccess>(
        &mut self,
        groups: &'g G,
        mut visit: impl FnMut(GroupSlice<'g, G::Item>),
    ) -> bool {
        loop {
            // Whole groups, as far as the budget suffices.
            let mut budget = self.budget as usize;
            while self.passed == 0 && self.group < groups.groups() {
                let items = groups.group(self.group);
                let cost = items.len().max(1);
                if cost > budget {
                    break;
                }
                budget -= cost;
                visit(GroupSlice { group: self.group, items, begins: true, ends: true });
                self.group += 1;
            }
            self.budget = budget as u32;
            let Some(slice) = self.next_slice(groups) else { return self.has_passed(groups) };
            visit(slice);
        }
    }

    /// Returns whether every group has been passed.
    pub fn has_passed(&self, groups: &impl GroupAccess) -> bool {
        self.group == groups.groups()
    }
}

/// Items in groups numbered from 0.
pub trait GroupAccess {
    /// Type of the items.
    type Item;

    /// Returns the number of groups.
    fn groups(&self) -> usize;

    /// Returns the items of a group.
    fn group(&self, group: usize) -> &[Self::Item];
}

/// Each group in an array of its own.
impl<T> GroupAccess for Vec<Vec<T>> {
    type Item = T;

    fn groups(&self) -> usize {
        self.len()
    }

    fn group(&self, group: usize) -> &[T] {
        &self[group]
    }
}

/// Items of all groups back to back in one array; fewer than 2³² items.
#[derive(Clone, Debug, PartialEq)]
pub struct Csr<T> {
    /// Start of each group, followed by the end of the last one.
    starts: Vec<u32>,
    /// The items, group after group.
    pub items: Vec<T>,
}

impl<T> Default for Csr<T> {
    fn default() -> Self {
        Csr { starts: vec![0], items: Vec::new() }
    }
}

impl<T> GroupAccess for Csr<T> {
    type Item = T;

    fn groups(&self) -> usize {
        self.starts.len() - 1
    }

    fn group(&self, group: usize) -> &[T] {
        &self.items[self.starts[group] as usize..self.starts[group + 1] as usize]
    }
}

impl<T> Csr<T> {
    /// Creates an empty structure with capacity for `groups` groups and `items` items. Unused capacity costs only
    /// address space, while growing would move everything at once.
    pub fn with_capacity(groups: usize, items: usize) -> Csr<T> {
        let mut starts = Vec::with_capacity(groups + 1);
        starts.push(0);
        Csr { starts, items: Vec::with_capacity(items) }
    }

    /// Closes the open last group, to which items are appended.
    pub fn close_group(&mut self) {
        self.starts.push(self.items.len() as u32);
    }
}

/// A slice of consecutive items of one group.
#[derive(Debug)]
pub struct GroupSlice<'a, T> {
    /// Number of the group.
    pub group: usize,
    /// The items; empty only if the group is empty.
    pub items: &'a [T],
    /// Whether the slice starts the group.
    pub begins: bool,
    /// Whether the slice ends the group.
    pub ends: bool,
}

/// A counting sort of items into other groups, in slices. Within a group, items keep the order of the source.
#[derive(Debug, Default)]
pub struct CountingSort<T> {
    stage: SortStage,
    /// While items are placed, entry g + 1 is the position of the next item of group g.
    starts: Vec<u32>,
    items: Vec<T>,
}

#[derive(Debug, Default)]
enum SortStage {
    #[default]
    Count,
    Sum,
    /// Touches the memory for the first time in address order, which costs far less than first touches in random order.
    Reserve,
    Place,
}

impl<T: Copy + Default> CountingSort<T> {
    /// Continues within the budget; returns the `groups` groups when finished. `entry` maps an item of a group of
    /// `source` to its target group and value, or to `None` to leave it out. It must return the same in every call.
    pub fn step<S: GroupAccess>(
        &mut self,
        groups: usize,
        source: &S,
        entry: impl Fn(usize, &S::Item) -> Option<(usize, T)>,
        work: &mut Loop,
    ) -> Option<Csr<T>> {
        let next = match self.stage {
            SortStage::Count => {
                if self.starts.is_empty() {
                    self.starts = vec![0; groups + 2];
                }
                let is_done = work.for_each_part(source, |part| {
                    for (group, _) in part.items.iter().filter_map(|item| entry(part.group, item)) {
                        self.starts[group + 2] += 1;
                    }
                });
                is_done.then_some(SortStage::Sum)
            }
            SortStage::Sum => {
                for group in work.advance(self.starts.len()).filter(|group| *group > 0) {
                    self.starts[group] += self.starts[group - 1];
                }
                (work.at == self.starts.len()).then_some(SortStage::Reserve)
            }
            SortStage::Reserve => {
                let total = self.starts.last().copied().unwrap_or_default() as usize;
                self.items.reserve_exact(total - self.items.len());
                self.items.resize(work.advance(total).end, T::default());
                (work.at == total).then_some(SortStage::Place)
            }
            SortStage::Place => {
                let is_done = work.for_each_part(source, |part| {
                    for (group, item) in part.items.iter().filter_map(|item| entry(part.group, item)) {
                        let place = &mut self.starts[group + 1];
                        self.items[*place as usize] = item;
                        *place += 1;
                    }
                });
                if !is_done {
                    return None;
                }
                self.starts.pop();
                let CountingSort { starts, items, .. } = std::mem::take(self);
                return Some(Csr { starts, items });
            }
        };
        if let Some(next) = next {
            self.stage = next;
            work.restart();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Csr<u32> {
        let mut groups = Csr::default();
        for items in [&[3, 1][..], &[], &[0, 3, 1]] {
            items.iter().for_each(|item| groups.items.push(*item));
            groups.close_group();
        }
        groups
    }

    #[test]
    fn a_budget_starts_non_empty_and_is_overdrawn_only_by_the_last_piece() {
        let mut work = Loop::default();
        work.begin_slice(0);
        assert!(work.charge(5));
        assert!(work.is_exhausted() && !work.charge(1));
        assert_eq!(work.charge_up_to(3), 0);
    }

    #[test]
    fn ranges_are_processed_piece_by_piece() {
        let (mut work, mut passed) = (Loop::default(), Vec::new());
        while work.at < 7 {
            work.begin_slice(3);
            passed.extend(work.advance(7));
        }
        assert_eq!(passed, [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn iteration_visits_every_item_once_with_any_budget() {
        let groups = sample();
        for units in 1..10 {
            let (mut work, mut passed, mut ends) = (Loop::default(), Vec::new(), Vec::new());
            while !work.has_passed(&groups) {
                work.begin_slice(units);
                while let Some(run) = work.next_slice(&groups) {
                    ends.extend(run.ends.then_some(run.group));
                    passed.extend(run.items.iter().copied());
                }
            }
            assert_eq!((passed, ends), (vec![3, 1, 0, 3, 1], vec![0, 1, 2]));
        }
    }

    #[test]
    fn regrouping_keeps_the_order_within_a_group_and_can_leave_items_out() {
        for units in [1, 2, 1000] {
            let (mut sort, mut work) = (CountingSort::default(), Loop::default());
            let entry = |group, item: &u32| (*item != 0).then_some((*item as usize, group));
            let made = loop {
                work.begin_slice(units);
                if let Some(made) = sort.step(4, &sample(), entry, &mut work) {
                    break made;
                }
            };
            let groups: Vec<_> = (0..made.groups()).map(|group| made.group(group).to_vec()).collect();
            assert_eq!(groups, [vec![], vec![0, 2], vec![], vec![0, 2]]);
        }
    }
}
