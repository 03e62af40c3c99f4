//! Log densities of normal and Student-t variables of mean zero.

use std::f64::consts::{PI, TAU};

use statrs::function::gamma::ln_gamma;

/// Log density of N(0, variance).
pub fn log_normal(residual: f64, variance: f64) -> f64 {
    -0.5 * ((TAU * variance).ln() + residual * residual / variance)
}

/// Log density of a Student-t variable of this squared scale and degrees of freedom.
pub fn log_student(residual: f64, scale: f64, degrees: f64) -> f64 {
    let half = 0.5 * (degrees + 1.0);
    ln_gamma(half)
        - ln_gamma(0.5 * degrees)
        - 0.5 * (degrees * PI * scale).ln()
        - half * (residual * residual / (degrees * scale)).ln_1p()
}

/// log Σ exp, of any size; −∞ of none.
pub fn log_sum_exp(parts: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = parts.clone().fold(f64::NEG_INFINITY, f64::max);
    if largest.is_finite() { largest + parts.map(|part| (part - largest).exp()).sum::<f64>().ln() } else { largest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn densities_integrate_to_one() {
        let sum = |density: &dyn Fn(f64) -> f64| -> f64 {
            (-40_000..=40_000).map(|k| 0.01 * density(0.01 * f64::from(k)).exp()).sum()
        };
        assert!((sum(&|x| log_normal(x, 2.0)) - 1.0).abs() < 1e-10);
        assert!((sum(&|x| log_student(x, 2.0, 5.0)) - 1.0).abs() < 1e-8);
        assert!((log_student(1.3, 2.0, 1e5) - log_normal(1.3, 2.0)).abs() < 1e-4);
    }

    #[test]
    fn sums_of_exponentials_neither_overflow_nor_vanish() {
        assert!((log_sum_exp([1000.0, 1000.0].into_iter()) - (1000.0 + 2f64.ln())).abs() < 1e-12);
        assert_eq!(log_sum_exp([f64::NEG_INFINITY, -1000.0].into_iter()), -1000.0);
        assert_eq!(log_sum_exp(std::iter::empty()), f64::NEG_INFINITY);
    }
}
