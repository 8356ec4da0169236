//! Items in numbered groups, back to back in one array (compressed sparse rows, CSR), built and iterated in slices.

use super::budget::WorkBudget;

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
    items: Vec<T>,
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

    /// Returns the number of items of all groups.
    pub fn total(&self) -> usize {
        self.items.len()
    }

    /// Returns the items of all groups, group after group.
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Returns the same, mutable.
    pub fn items_mut(&mut self) -> &mut [T] {
        &mut self.items
    }

    /// Appends an item to the open last group.
    pub fn push(&mut self, item: T) {
        self.items.push(item);
    }

    /// Closes the open group.
    pub fn close_group(&mut self) {
        self.starts.push(self.items.len() as u32);
    }
}

/// A position in groups that are being iterated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    group: usize,
    /// Items of the current group already passed.
    passed: usize,
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

impl Cursor {
    /// Returns the next slice within the budget: one unit per item, and one for an empty group. Returns `None` at the
    /// end or when the budget is spent.
    pub fn next_slice<'a, G: GroupAccess>(
        &mut self,
        groups: &'a G,
        budget: &mut WorkBudget,
    ) -> Option<GroupSlice<'a, G::Item>> {
        if self.at_end(groups) {
            return None;
        }
        let (group, from) = (self.group, self.passed);
        let all = groups.group(group);
        let paid = budget.charge_up_to((all.len() - from).max(1));
        if paid == 0 {
            return None;
        }
        let to = (from + paid).min(all.len());
        let ends = to == all.len();
        *self = if ends { Cursor { group: group + 1, passed: 0 } } else { Cursor { group, passed: to } };
        Some(GroupSlice { group, items: &all[from..to], begins: from == 0, ends })
    }

    /// Returns whether every group has been passed.
    pub fn at_end(&self, groups: &impl GroupAccess) -> bool {
        self.group == groups.groups()
    }
}

/// An incremental counting sort of items into other groups. Within a group, items keep the order of the source.
#[derive(Debug)]
pub struct CountingSort<T> {
    stage: Stage,
    cursor: Cursor,
    at: usize,
    made: Csr<T>,
}

#[derive(Debug)]
enum Stage {
    Count,
    Sum,
    /// Touches the memory for the first time in address order, which costs far less than first touches in random order.
    Reserve,
    Place,
}

impl<T: Copy + Default> CountingSort<T> {
    /// Prepares to sort into `groups` groups.
    pub fn new(groups: usize) -> CountingSort<T> {
        // While items are placed, entry g + 1 is the position of the next item of group g.
        let made = Csr { starts: vec![0; groups + 2], items: Vec::new() };
        CountingSort { stage: Stage::Count, cursor: Cursor::default(), at: 0, made }
    }

    /// Continues within the budget; returns true when finished. `entry` maps an item of a group of `source` to its
    /// target group and value, or to `None` to leave it out. It must return the same in every call.
    pub fn step<S: GroupAccess>(
        &mut self,
        source: &S,
        entry: impl Fn(usize, &S::Item) -> Option<(usize, T)>,
        budget: &mut WorkBudget,
    ) -> bool {
        match self.stage {
            Stage::Count => {
                while let Some(run) = self.cursor.next_slice(source, budget) {
                    for (group, _) in run.items.iter().filter_map(|item| entry(run.group, item)) {
                        self.made.starts[group + 2] += 1;
                    }
                }
                self.next(self.cursor.at_end(source), Stage::Sum)
            }
            Stage::Sum => {
                let end = self.made.starts.len();
                for group in budget.advance(&mut self.at, end).filter(|group| *group > 0) {
                    self.made.starts[group] += self.made.starts[group - 1];
                }
                self.next(self.at == end, Stage::Reserve)
            }
            Stage::Reserve => {
                let total = self.made.starts.last().copied().unwrap_or_default() as usize;
                self.made.items.reserve_exact(total - self.made.items.len());
                let length = self.made.items.len() + budget.charge_up_to(total - self.made.items.len());
                self.made.items.resize(length, T::default());
                self.next(length == total, Stage::Place)
            }
            Stage::Place => {
                while let Some(run) = self.cursor.next_slice(source, budget) {
                    for (group, item) in run.items.iter().filter_map(|item| entry(run.group, item)) {
                        let place = &mut self.made.starts[group + 1];
                        self.made.items[*place as usize] = item;
                        *place += 1;
                    }
                }
                self.cursor.at_end(source)
            }
        }
    }

    /// Returns the result. Valid once a step has returned true.
    pub fn finish(mut self) -> Csr<T> {
        self.made.starts.pop();
        self.made
    }

    fn next(&mut self, done: bool, stage: Stage) -> bool {
        if done {
            (self.stage, self.cursor, self.at) = (stage, Cursor::default(), 0);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Csr<u32> {
        let mut groups = Csr::default();
        for items in [&[3, 1][..], &[], &[0, 3, 1]] {
            items.iter().for_each(|item| groups.push(*item));
            groups.close_group();
        }
        groups
    }

    #[test]
    fn iteration_visits_every_item_once_with_any_budget() {
        let groups = sample();
        for units in 1..10 {
            let (mut cursor, mut passed, mut ends) = (Cursor::default(), Vec::new(), Vec::new());
            while !cursor.at_end(&groups) {
                let mut allowance = WorkBudget::new(units);
                while let Some(run) = cursor.next_slice(&groups, &mut allowance) {
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
            let mut regroup = CountingSort::new(4);
            let entry = |group, item: &u32| (*item != 0).then_some((*item as usize, group));
            while !regroup.step(&sample(), entry, &mut WorkBudget::new(units)) {}
            let made = regroup.finish();
            let groups: Vec<_> = (0..made.groups()).map(|group| made.group(group).to_vec()).collect();
            assert_eq!(groups, [vec![], vec![0, 2], vec![], vec![0, 2]]);
        }
    }
}
