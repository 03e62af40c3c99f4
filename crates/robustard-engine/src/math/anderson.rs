//! Anderson's extrapolation of a fixed-point map: where it would end if it were affine.

use std::collections::VecDeque;

/// Ridge of the least-squares problem, relative to its largest diagonal.
const RIDGE: f64 = 1e-10;
/// The longest memory.
pub(crate) const MOST_MEMORY: usize = 50;

#[derive(Default)]
struct Difference {
    x: Vec<f64>,
    f: Vec<f64>,
}

/// Points x of a map g and its residuals f = g(x) − x, as differences between one point and the next.
pub(crate) struct History {
    memory: usize,
    /// Oldest first.
    differences: VecDeque<Difference>,
    /// Discarded differences, whose room is used again.
    spare: Vec<Difference>,
    last: Difference,
    has_last: bool,
}

impl History {
    /// Empty; `memory` is at most [`MOST_MEMORY`].
    pub(crate) fn new(memory: usize) -> Self {
        Self {
            memory,
            differences: VecDeque::with_capacity(memory + 1),
            spare: Vec::with_capacity(memory + 1),
            last: Difference::default(),
            has_last: false,
        }
    }

    /// Forgets everything.
    pub(crate) fn restart(&mut self) {
        self.spare.extend(self.differences.drain(..));
        self.has_last = false;
    }

    /// All that is remembered, as lists: x and f of the last point, and the differences, oldest first.
    pub(crate) fn to_lists(&self) -> Vec<Vec<f64>> {
        let points = self.has_last.then_some(&self.last).into_iter().chain(&self.differences);
        points.flat_map(|point| [point.x.clone(), point.f.clone()]).collect()
    }

    /// Remembers what [`Self::to_lists`] has given.
    pub(crate) fn set_lists(&mut self, lists: Vec<Vec<f64>>) {
        self.restart();
        let mut lists = lists.into_iter();
        let mut points = std::iter::from_fn(|| Some(Difference { x: lists.next()?, f: lists.next()? }));
        if let Some(last) = points.next() {
            (self.last, self.has_last) = (last, true);
        }
        self.differences.extend(points);
    }

    /// Whether no point is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_last
    }

    /// Remembers how a point differs from the last one; [`Self::set_last`] then makes it the last.
    pub(crate) fn remember(&mut self, x: &[f64], f: &[f64]) {
        if !self.has_last {
            return;
        }
        let mut difference = if self.differences.len() >= self.memory {
            self.differences.pop_front().expect("memory is at least 1")
        } else {
            self.spare.pop().unwrap_or_default()
        };
        let fill = |room: &mut Vec<f64>, now: &[f64], before: &[f64]| {
            room.clear();
            room.extend(now.iter().zip(before).map(|(a, b)| a - b));
        };
        fill(&mut difference.x, x, &self.last.x);
        fill(&mut difference.f, f, &self.last.f);
        self.differences.push_back(difference);
    }

    /// Makes x the last point; the buffers of the one before take its place.
    pub(crate) fn set_last(&mut self, x: &mut Vec<f64>, f: &mut Vec<f64>) {
        std::mem::swap(x, &mut self.last.x);
        std::mem::swap(f, &mut self.last.f);
        self.has_last = true;
    }

    /// Writes x + f − Σ c(Δx + Δf) with the c for which ‖f − Σ cΔf‖ is least; false when there is no history yet.
    pub(crate) fn extrapolate(&self, x: &[f64], f: &[f64], target: &mut Vec<f64>) -> bool {
        target.clear();
        target.extend(x.iter().zip(f).map(|(x, f)| x + f));
        if self.differences.is_empty() {
            return false;
        }
        let Some(coefficients) = self.solve(f) else { return false };
        for (difference, c) in self.differences.iter().zip(&coefficients) {
            for (target, (dx, df)) in target.iter_mut().zip(difference.x.iter().zip(&difference.f)) {
                *target -= c * (dx + df);
            }
        }
        true
    }

    /// The coefficients c that minimise ‖f − Σ cΔf‖² with a small ridge.
    fn solve(&self, f: &[f64]) -> Option<[f64; MOST_MEMORY]> {
        let m = self.differences.len();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut gram = [[0.0; MOST_MEMORY]; MOST_MEMORY];
        let mut c = [0.0; MOST_MEMORY];
        for i in 0..m {
            for j in 0..=i {
                gram[i][j] = dot(&self.differences[i].f, &self.differences[j].f);
            }
            c[i] = dot(&self.differences[i].f, f);
        }
        let largest = (0..m).map(|i| gram[i][i]).fold(0.0, f64::max);
        for (i, row) in gram.iter_mut().enumerate().take(m) {
            row[i] += RIDGE * largest;
        }
        solve_in_place(&mut gram, &mut c, m).then_some(c)
    }
}

/// Cholesky solve of a system small enough for the stack.
fn solve_in_place(a: &mut [[f64; MOST_MEMORY]; MOST_MEMORY], b: &mut [f64; MOST_MEMORY], m: usize) -> bool {
    for j in 0..m {
        let pivot = a[j][j] - (0..j).map(|k| a[j][k] * a[j][k]).sum::<f64>();
        if !(pivot > 0.0 && pivot.is_finite()) {
            return false;
        }
        a[j][j] = pivot.sqrt();
        for i in j + 1..m {
            a[i][j] = (a[i][j] - (0..j).map(|k| a[i][k] * a[j][k]).sum::<f64>()) / a[j][j];
        }
    }
    for i in 0..m {
        b[i] = (b[i] - (0..i).map(|k| a[i][k] * b[k]).sum::<f64>()) / a[i][i];
    }
    for i in (0..m).rev() {
        b[i] = (b[i] - (i + 1..m).map(|k| a[k][i] * b[k]).sum::<f64>()) / a[i][i];
    }
    b[..m].iter().all(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An affine map in three dimensions: four points tell where it ends.
    #[test]
    fn affine_maps_end_at_once() {
        let map = |x: &[f64]| [0.9 * x[0] + 0.3 * x[1], -0.2 * x[0] + 0.7 * x[1] + 1.0, 0.5 * x[2] + 0.1 * x[0] - 2.0];
        let mut history = History::new(5);
        let (mut x, mut next) = (vec![1.0, 2.0, 3.0], Vec::new());
        for _ in 0..6 {
            let mut f: Vec<f64> = map(&x).iter().zip(&x).map(|(g, x)| g - x).collect();
            history.remember(&x, &f);
            history.extrapolate(&x, &f, &mut next);
            history.set_last(&mut x, &mut f);
            x.clone_from(&next);
        }
        assert!(map(&x).iter().zip(&x).all(|(g, x)| (g - x).abs() < 1e-6), "{x:?}");
    }
}
