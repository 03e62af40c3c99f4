//! Which inputs a target depends on, at a glance over all rows: a start for lengthscales, where a sketch of few rows with many
//! inputs does not show it.
//!
//! Rows are sorted into cells by one input or by two. If the target does not depend on them, the cells' means differ by chance
//! alone. The target is taken by its ranks, so that wrong rows count no more than others.

use faer::MatRef;

/// Cells by one input, and by each of two.
const CELLS: usize = 12;
const CELLS_OF_PAIR: usize = 4;
/// Rows looked at, and pairs of inputs.
const MOST_ROWS: usize = 20_000;
const MOST_INPUTS: usize = 150;

/// How far each input's best cells differ beyond chance, in standard deviations of what chance does: alone, and with any other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Relevance {
    pub alone: Vec<f64>,
    pub with_others: Vec<f64>,
}

/// Beyond this relevance an input matters for certain, whatever the number of inputs: chance reaches 5 among thousands of pairs.
pub(crate) const CERTAIN: f64 = 8.0;

impl Relevance {
    /// Whether any input stands out.
    pub fn is_telling(&self) -> bool {
        self.with_others.iter().any(|found| *found > CERTAIN)
    }
}

/// The relevance of inputs (n × p) for what lines leave of the target.
pub(crate) fn relevance(inputs: MatRef<'_, f64>, left: &[f64]) -> Relevance {
    let (n, p) = (inputs.nrows(), inputs.ncols());
    let rows: Vec<usize> = robustard_engine::math::order::spread(n, MOST_ROWS).collect();
    let scores = normal_scores(&rows.iter().map(|&row| left[row]).collect::<Vec<f64>>());
    let places = |count: usize| -> Vec<Vec<usize>> {
        (0..p).map(|j| cells(&rows.iter().map(|&row| inputs[(row, j)]).collect::<Vec<f64>>(), count)).collect()
    };
    let alone: Vec<f64> =
        places(CELLS).iter().map(|cell| beyond_chance(between(&scores, CELLS, |i| cell[i]))).collect();
    let mut with_others = alone.clone();
    if p <= MOST_INPUTS {
        let coarse = places(CELLS_OF_PAIR);
        let single: Vec<Between> = coarse.iter().map(|cell| between(&scores, CELLS_OF_PAIR, |i| cell[i])).collect();
        for j in 0..p {
            for k in 0..j {
                let cell = |i: usize| CELLS_OF_PAIR * coarse[j][i] + coarse[k][i];
                let both = between(&scores, CELLS_OF_PAIR * CELLS_OF_PAIR, cell);
                // What the two say together, beyond what each says alone.
                let found = beyond_chance(Between {
                    squares: both.squares - single[j].squares - single[k].squares,
                    freedom: both.freedom - single[j].freedom - single[k].freedom,
                });
                with_others[j] = with_others[j].max(found);
                with_others[k] = with_others[k].max(found);
            }
        }
    }
    Relevance { alone, with_others }
}

/// The places of values among cells of equal counts; equal values share a cell.
fn cells(values: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut cell = vec![0; values.len()];
    let mut done = 0;
    for alike in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let middle = done + alike.len() / 2;
        alike.iter().for_each(|&i| cell[i] = middle * count / values.len());
        done += alike.len();
    }
    cell
}

/// Ranks as numbers with mean 0 and variance 1; ties share the middle one.
pub(crate) fn normal_scores(values: &[f64]) -> Vec<f64> {
    let n = values.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut scores = vec![0.0; n];
    let mut done = 0;
    for alike in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let middle = done as f64 + 0.5 * (alike.len() - 1) as f64;
        alike.iter().for_each(|&i| scores[i] = (middle + 0.5) / n as f64 - 0.5);
        done += alike.len();
    }
    let variance = scores.iter().map(|score| score * score).sum::<f64>() / n as f64;
    let unit = if variance > 0.0 { variance.sqrt() } else { 1.0 };
    scores.iter_mut().for_each(|score| *score /= unit);
    scores
}

/// The sum of squares between cells, and its degrees of freedom.
struct Between {
    squares: f64,
    freedom: f64,
}

fn between(scores: &[f64], count: usize, cell: impl Fn(usize) -> usize) -> Between {
    let (mut sums, mut counts) = (vec![0.0; count], vec![0usize; count]);
    for (i, score) in scores.iter().enumerate() {
        sums[cell(i)] += score;
        counts[cell(i)] += 1;
    }
    let used = || sums.iter().zip(&counts).filter(|(_, count)| **count > 0);
    let squares = used().map(|(sum, count)| sum * sum / *count as f64).sum();
    Between { squares, freedom: used().count() as f64 - 1.0 }
}

/// A sum of squares less what is expected by chance, in the standard deviations of that.
fn beyond_chance(Between { squares, freedom }: Between) -> f64 {
    if freedom > 0.0 { (squares - freedom) / (2.0 * freedom).sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use faer::Mat;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn inputs_that_matter_stand_out() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let n = 2000;
        let x = Mat::from_fn(n, 12, |_, _| rng.random::<f64>() - 0.5);
        let mut y: Vec<f64> = (0..n).map(|i| 8.0 * x[(i, 0)] * x[(i, 3)] + (6.0 * x[(i, 5)]).cos()).collect();
        y.iter_mut().for_each(|y| *y += 0.5 * (rng.random::<f64>() - 0.5));
        (0..n).step_by(10).for_each(|i| y[i] = 100.0);
        let Relevance { alone, with_others } = relevance(x.as_ref(), &y);
        for (j, found) in with_others.iter().enumerate() {
            assert_eq!(*found > 6.0, [0, 3, 5].contains(&j), "{j}: {found}");
        }
        assert!(alone[5] > 20.0 && alone[0] < 6.0);
    }
}
