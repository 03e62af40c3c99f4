//! Minimisation by L-BFGS within bounds.

use std::cell::RefCell;

use argmin::core::{CostFunction, Error, Executor, Gradient};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;

/// Steps that L-BFGS remembers.
const MEMORY: usize = 7;
/// A run of L-BFGS that lowers the cost by no more is the last one.
const LEAST_GAIN: f64 = 1e-7;
/// L-BFGS ends when a step lowers the cost by less, or the gradient is shorter.
const LEAST_STEP_GAIN: f64 = 1e-10;
const LEAST_GRADIENT: f64 = 1e-6;
/// Cost where there is none: a wall from which the line search turns back.
const WALL: f64 = 1e100;

/// A cost of order 1 and its gradient.
#[derive(Debug, Clone)]
pub(crate) struct Evaluation {
    pub cost: f64,
    pub gradient: Vec<f64>,
}

/// The best point seen.
#[derive(Debug, Clone)]
pub(crate) struct Minimum {
    pub at: Vec<f64>,
    pub cost: f64,
    pub evaluations: usize,
}

/// Minimises a function within bounds with at most so many evaluations; None when it has no value at the start.
///
/// Beyond its bounds a parameter counts as the bound. Where L-BFGS ends, it starts anew from the best point, put within the
/// bounds, and holds the parameters that a bound keeps from going on.
pub(crate) fn minimise(
    function: impl Fn(&[f64]) -> Option<Evaluation>,
    start: &[f64],
    bounds: &[[f64; 2]],
    most_evaluations: usize,
) -> Option<Minimum> {
    let start = clamped(start, bounds);
    let Evaluation { cost, gradient } = function(&start)?;
    let start = Visited { at: start, cost, gradient };
    let seen = RefCell::new(Seen { last: start.clone(), best: start, evaluations: 1 });
    let mut objective = Objective { function, bounds, is_held: Vec::new(), most_evaluations, seen };
    loop {
        let before = objective.start_within_bounds();
        let solver = LBFGS::new(MoreThuenteLineSearch::new(), MEMORY)
            .with_tolerance_cost(LEAST_STEP_GAIN)
            .and_then(|solver| solver.with_tolerance_grad(LEAST_GRADIENT))
            .expect("tolerances are positive");
        // A run that fails has seen points all the same.
        let _ = Executor::new(&objective, solver).configure(|state| state.param(before.at)).run();
        let seen = objective.seen.borrow();
        if seen.evaluations >= most_evaluations || before.cost - seen.best.cost <= LEAST_GAIN {
            break;
        }
    }
    let Seen { best, evaluations, .. } = objective.seen.into_inner();
    Some(Minimum { at: clamped(&best.at, bounds), cost: best.cost, evaluations })
}

fn clamped(values: &[f64], bounds: &[[f64; 2]]) -> Vec<f64> {
    values.iter().zip(bounds).map(|(value, [low, high])| value.clamp(*low, *high)).collect()
}

/// The function as argmin takes it; cost and gradient of a point are asked for one after the other and worked out once.
struct Objective<'a, F> {
    function: F,
    bounds: &'a [[f64; 2]],
    /// Parameters that stay.
    is_held: Vec<bool>,
    most_evaluations: usize,
    seen: RefCell<Seen>,
}

struct Seen {
    last: Visited,
    best: Visited,
    evaluations: usize,
}

#[derive(Clone)]
struct Visited {
    at: Vec<f64>,
    cost: f64,
    /// Of the function within the bounds.
    gradient: Vec<f64>,
}

impl<F: Fn(&[f64]) -> Option<Evaluation>> Objective<'_, F> {
    /// Puts the best point within the bounds and decides which parameters are held.
    fn start_within_bounds(&mut self) -> Visited {
        let seen = self.seen.get_mut();
        seen.best.at = clamped(&seen.best.at, self.bounds);
        let Visited { at, gradient, .. } = &seen.best;
        let is_held = |k: usize| {
            let [low, high] = self.bounds[k];
            (at[k] <= low && gradient[k] > 0.0) || (at[k] >= high && gradient[k] < 0.0)
        };
        self.is_held = (0..at.len()).map(is_held).collect();
        seen.best.clone()
    }

    fn at(&self, values: &[f64]) -> Result<Visited, Error> {
        let mut seen = self.seen.borrow_mut();
        if seen.last.at == values {
            return Ok(seen.last.clone());
        }
        if seen.best.at == values {
            return Ok(seen.best.clone());
        }
        if seen.evaluations == self.most_evaluations {
            return Err(Error::msg("enough evaluations"));
        }
        if values.iter().any(|value| value.is_nan()) {
            return Err(Error::msg("the line search lost its way"));
        }
        seen.evaluations += 1;
        let wall = || Evaluation { cost: WALL, gradient: vec![0.0; values.len()] };
        let Evaluation { cost, gradient } = (self.function)(&clamped(values, self.bounds)).unwrap_or_else(wall);
        seen.last = Visited { at: values.to_vec(), cost, gradient };
        if cost < seen.best.cost {
            seen.best = seen.last.clone();
        }
        Ok(seen.last.clone())
    }

    /// Gradient as L-BFGS sees it: 0 for parameters that are held or beyond their bounds.
    fn free_gradient(&self, values: &[f64]) -> Result<Vec<f64>, Error> {
        let mut gradient = self.at(values)?.gradient;
        let inside = clamped(values, self.bounds);
        for (k, slope) in gradient.iter_mut().enumerate() {
            if self.is_held[k] || values[k] != inside[k] {
                *slope = 0.0;
            }
        }
        Ok(gradient)
    }
}

impl<F: Fn(&[f64]) -> Option<Evaluation>> CostFunction for &Objective<'_, F> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, values: &Vec<f64>) -> Result<f64, Error> {
        Ok(self.at(values)?.cost)
    }
}

impl<F: Fn(&[f64]) -> Option<Evaluation>> Gradient for &Objective<'_, F> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, values: &Vec<f64>) -> Result<Vec<f64>, Error> {
        self.free_gradient(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valley(at: &[f64]) -> Option<Evaluation> {
        let (a, b) = (1.0 - at[0], at[1] - at[0] * at[0]);
        let gradient = vec![-2.0 * a - 40.0 * b * at[0], 20.0 * b];
        Some(Evaluation { cost: a * a + 10.0 * b * b, gradient })
    }

    #[test]
    fn finds_the_bottom_of_a_valley() {
        let minimum = minimise(valley, &[-1.0, 2.0], &[[-5.0, 5.0]; 2], 200).unwrap();
        assert!(minimum.at.iter().all(|value| (value - 1.0).abs() < 1e-4), "{minimum:?}");
        assert!(minimum.evaluations < 100, "{minimum:?}");
    }

    #[test]
    fn stays_within_bounds_and_budget() {
        let minimum = minimise(valley, &[-1.0, 0.5], &[[-5.0, 0.5], [-5.0, 5.0]], 100).unwrap();
        assert!((minimum.at[0] - 0.5).abs() < 1e-4 && (minimum.at[1] - 0.25).abs() < 1e-3, "{minimum:?}");
        let short = minimise(valley, &[-1.0, 2.0], &[[-5.0, 5.0]; 2], 5).unwrap();
        assert!(short.evaluations <= 5 && short.cost < valley(&[-1.0, 2.0]).unwrap().cost);
        assert!(minimise(|_| None, &[0.0], &[[-1.0, 1.0]], 5).is_none());
    }
}
