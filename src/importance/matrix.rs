//! Sparse matrices, and the outlink matrix.

use super::budget::WorkBudget;
use super::csr::{CountingSort, Csr, Cursor};

/// A sparse matrix: per row its entries as column and value, columns ascending.
pub type SparseMatrix = Csr<(u32, f64)>;

/// Continues `product = matrix · vector`; returns true when finished. The order of the additions affects the result.
pub fn multiply(
    matrix: &SparseMatrix,
    vector: &[f64],
    product: &mut [f64],
    cursor: &mut Cursor,
    budget: &mut WorkBudget,
) -> bool {
    while let Some(run) = cursor.next_slice(matrix, budget) {
        let begun = if run.begins { 0.0 } else { product[run.group] };
        product[run.group] =
            run.items.iter().fold(begun, |sum, (column, value)| sum + value * vector[*column as usize]);
    }
    cursor.at_end(matrix)
}

/// Flows between accounts: row = recipient, column = sender. Every column with entries sums to 1.
#[derive(Clone, Debug, Default)]
pub struct OutlinkMatrix {
    /// The entries.
    pub rows: SparseMatrix,
    /// The columns without entries, ascending.
    pub dangling: Vec<u32>,
}

/// Builds the matrix incrementally.
#[derive(Debug)]
pub struct MatrixBuilder {
    stage: Stage,
    rows: CountingSort<(u32, f64)>,
    at: usize,
    sums: Vec<f64>,
    made: OutlinkMatrix,
}

#[derive(Debug)]
enum Stage {
    Rows,
    Sums,
    Dangling,
    Divide,
}

impl MatrixBuilder {
    /// Prepares a matrix of `accounts` accounts.
    pub fn new(accounts: usize) -> MatrixBuilder {
        MatrixBuilder {
            stage: Stage::Rows,
            rows: CountingSort::new(accounts),
            at: 0,
            sums: vec![0.0; accounts],
            made: OutlinkMatrix::default(),
        }
    }

    /// Continues within the budget, from the flows out of every account; returns true when finished.
    pub fn step(&mut self, outflows: &Csr<(u32, f64)>, budget: &mut WorkBudget) -> bool {
        match self.stage {
            Stage::Rows => {
                let entry = |column, entry: &(u32, f64)| Some((entry.0 as usize, (column as u32, entry.1)));
                if self.rows.step(outflows, entry, budget) {
                    self.made.rows = std::mem::replace(&mut self.rows, CountingSort::new(0)).finish();
                    self.stage = Stage::Sums;
                }
            }
            Stage::Sums => {
                let entries = self.made.rows.items();
                for (column, value) in &entries[budget.advance(&mut self.at, entries.len())] {
                    self.sums[*column as usize] += value.abs();
                }
                self.next(self.made.rows.total(), Stage::Dangling);
            }
            Stage::Dangling => {
                let columns = budget.advance(&mut self.at, self.sums.len());
                self.made
                    .dangling
                    .extend(columns.filter(|column| self.sums[*column] == 0.0).map(|column| column as u32));
                self.next(self.sums.len(), Stage::Divide);
            }
            Stage::Divide => {
                let total = self.made.rows.total();
                for (column, value) in &mut self.made.rows.items_mut()[budget.advance(&mut self.at, total)] {
                    *value /= self.sums[*column as usize];
                }
                return self.at == total;
            }
        }
        false
    }

    fn next(&mut self, end: usize, stage: Stage) {
        if self.at == end {
            (self.at, self.stage) = (0, stage);
        }
    }

    /// Returns the matrix. Valid once a step has returned true.
    pub fn finish(self) -> OutlinkMatrix {
        self.made
    }
}
