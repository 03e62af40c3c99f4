//! Limited-memory BFGS whose memory outlives the objective: noise is updated between its steps and rows are added, which changes the
//! curvature little, so that nothing has to be found out again.

use std::collections::VecDeque;

/// Steps remembered.
const MEMORY: usize = 10;
/// The longest step along any parameter. Parameters are logarithms: more than a factor of seven is no small step.
const LONGEST: f64 = 2.0;
/// The longest first step, of which no curvature is known.
const FIRST: f64 = 0.5;
/// Share of the gain that the slope promises, which a step must have.
const LEAST_SHARE: f64 = 1e-4;
/// Most trials of a step.
const TRIALS: usize = 8;

/// A point that the objective was evaluated at, with what is known there.
#[derive(Debug, Clone)]
pub(super) struct Visited<T> {
    pub at: Vec<f64>,
    pub cost: f64,
    pub gradient: Vec<f64>,
    pub known: T,
}

/// Steps taken, and how the gradient changed along them.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    pairs: VecDeque<Pair>,
}

#[derive(Debug, Clone)]
struct Pair {
    step: Vec<f64>,
    change: Vec<f64>,
    /// Their product, which is positive.
    curvature: f64,
}

impl Memory {
    /// For an objective that is so many times as large.
    pub fn scaled(mut self, factor: f64) -> Self {
        for pair in &mut self.pairs {
            pair.change.iter_mut().for_each(|change| *change *= factor);
            pair.curvature *= factor;
        }
        self
    }

    fn learn(&mut self, from: &Visited<impl Sized>, to: &Visited<impl Sized>) {
        /// Curvature, relative to what the lengths allow, below which rounding speaks.
        const LEAST: f64 = 1e-8;
        let between =
            |to: &[f64], from: &[f64]| -> Vec<f64> { to.iter().zip(from).map(|(to, from)| to - from).collect() };
        let (step, change) = (between(&to.at, &from.at), between(&to.gradient, &from.gradient));
        let curvature = product(&step, &change);
        if curvature > LEAST * (product(&step, &step) * product(&change, &change)).sqrt() {
            if self.pairs.len() == MEMORY {
                self.pairs.pop_front();
            }
            self.pairs.push_back(Pair { step, change, curvature });
        }
    }

    /// Minus the gradient times the inverse curvature as far as it is known.
    fn direction(&self, gradient: &[f64]) -> Vec<f64> {
        let mut direction: Vec<f64> = gradient.iter().map(|slope| -slope).collect();
        let Some(last) = self.pairs.back() else {
            return limited(direction, FIRST);
        };
        let add = |direction: &mut [f64], factor: f64, along: &[f64]| {
            direction.iter_mut().zip(along).for_each(|(own, along)| *own += factor * along);
        };
        let mut shares = Vec::with_capacity(self.pairs.len());
        for Pair { step, change, curvature } in self.pairs.iter().rev() {
            let share = product(step, &direction) / curvature;
            add(&mut direction, -share, change);
            shares.push(share);
        }
        let scale = last.curvature / product(&last.change, &last.change);
        direction.iter_mut().for_each(|own| *own *= scale);
        for (Pair { step, change, curvature }, share) in self.pairs.iter().zip(shares.into_iter().rev()) {
            let back = product(change, &direction) / curvature;
            add(&mut direction, share - back, step);
        }
        limited(direction, LONGEST)
    }

    /// One step down from a point; none if there is no lower one. The objective is none where it cannot be evaluated, or no more.
    pub fn step<T>(
        &mut self,
        from: &Visited<T>,
        mut objective: impl FnMut(Vec<f64>) -> Option<Visited<T>>,
    ) -> Option<Visited<T>> {
        let mut direction = self.direction(&from.gradient);
        let mut slope = product(&direction, &from.gradient);
        if slope.is_nan() || slope >= 0.0 {
            self.pairs.clear();
            direction = self.direction(&from.gradient);
            slope = product(&direction, &from.gradient);
        }
        let mut length = 1.0;
        for _ in 0..TRIALS {
            let at = from.at.iter().zip(&direction).map(|(at, along)| at + length * along).collect();
            let Some(to) = objective(at) else {
                length *= 0.25;
                continue;
            };
            let gain = from.cost - to.cost;
            if gain >= -LEAST_SHARE * length * slope {
                self.learn(from, &to);
                return Some(to);
            }
            // Where a parabola through what is known has its minimum.
            let lowest = -0.5 * slope * length * length / (-gain - slope * length);
            length = if lowest.is_finite() { lowest.clamp(0.1 * length, 0.5 * length) } else { 0.25 * length };
        }
        None
    }
}

fn product(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// The same direction, no longer along any parameter.
fn limited(mut direction: Vec<f64>, longest: f64) -> Vec<f64> {
    let largest = direction.iter().fold(0.0, |most: f64, own| most.max(own.abs()));
    if largest > longest {
        direction.iter_mut().for_each(|own| *own *= longest / largest);
    }
    direction
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rosenbrock's valley, where the memory is needed, and a start where nothing can be evaluated nearby.
    #[test]
    fn steps_lead_to_the_minimum() {
        let mut evaluations = 0;
        let mut objective = |at: Vec<f64>| {
            evaluations += 1;
            let (x, y) = (at[0], at[1]);
            let cost = (1.0 - x).powi(2) + 100.0 * (y - x * x).powi(2);
            let gradient = vec![-2.0 * (1.0 - x) - 400.0 * x * (y - x * x), 200.0 * (y - x * x)];
            (y < 1.5).then_some(Visited { at, cost, gradient, known: () })
        };
        let mut memory = Memory::default();
        let mut now = objective(vec![-1.2, 1.0]).unwrap();
        while let Some(next) = memory.step(&now, &mut objective) {
            assert!(next.cost < now.cost);
            now = next;
            if now.cost < 1e-12 {
                break;
            }
        }
        assert!(now.cost < 1e-12, "{now:?}");
        assert!(evaluations < 80, "{evaluations}");
    }
}
