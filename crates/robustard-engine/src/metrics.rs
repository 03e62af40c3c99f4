//! Measures of predictions and of sparsity. Of nothing, or of lists of different lengths, an error measure is NaN.

use crate::math::order::quantile_of_sorted;

/// Root mean square error.
pub fn rmse(actual: &[f64], predicted: &[f64]) -> f64 {
    mean_of_pairs(actual, predicted, |a, p| (a - p).powi(2)).sqrt()
}

/// Mean absolute error.
pub fn mae(actual: &[f64], predicted: &[f64]) -> f64 {
    mean_of_pairs(actual, predicted, |a, p| (a - p).abs())
}

/// Mean negative log density of normal predictions.
pub fn nll(actual: &[f64], predicted: &[f64], std: &[f64]) -> f64 {
    if actual.len() != predicted.len() || actual.len() != std.len() {
        return f64::NAN;
    }
    mean_of(
        actual
            .iter()
            .zip(predicted)
            .zip(std)
            .map(|((a, p), s)| 0.5 * (2.0 * std::f64::consts::PI * s * s).ln() + 0.5 * ((a - p) / s).powi(2)),
    )
}

/// Share of the values that lie in their intervals.
pub fn coverage(actual: &[f64], lower: &[f64], upper: &[f64]) -> f64 {
    if actual.len() != lower.len() || actual.len() != upper.len() {
        return f64::NAN;
    }
    mean_of(actual.iter().zip(lower).zip(upper).map(|((a, l), u)| f64::from(u8::from((l..=u).contains(&a)))))
}

/// Share of the `wanted` indices among the `wanted.len()` largest scores. 1 when none is wanted.
pub fn top_k_recall(scores: &[f64], wanted: &[usize]) -> f64 {
    if wanted.is_empty() {
        return 1.0;
    }
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    order.truncate(wanted.len());
    let found = wanted.iter().filter(|index| order.contains(index)).count();
    found as f64 / wanted.len() as f64
}

/// Effective support size: the exponential of the Shannon entropy of the normalised relevances, divided by their number.
/// In (0, 1]; 1 when all are equal.
pub fn effective_support(relevance: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = relevance.clone().count();
    // Divided by the largest first, so that the sum cannot overflow.
    let largest = relevance.clone().fold(0.0, f64::max);
    let total: f64 = relevance.clone().map(|r| r / largest).sum();
    let entropy: f64 = relevance.map(|r| r / largest / total).filter(|p| *p > 0.0).map(|p| -p * p.ln()).sum();
    entropy.exp() / count as f64
}

/// Arithmetic mean; NaN of nothing.
pub fn mean(values: &[f64]) -> f64 {
    mean_of(values.iter().copied())
}

/// Standard deviation, of the values themselves (divided by their number); NaN of nothing.
pub fn standard_deviation(values: &[f64]) -> f64 {
    let centre = mean(values);
    mean_of(values.iter().map(|value| (value - centre).powi(2))).sqrt()
}

/// Mean of the values between the `share` and 1 − `share` quantiles, bounds kept; quantiles are interpolated linearly.
pub fn trimmed_mean(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let [low, high] = [share, 1.0 - share].map(|level| quantile_of_sorted(&sorted, level));
    mean_of(sorted.iter().copied().filter(|v| (low..=high).contains(v)))
}

fn mean_of_pairs(a: &[f64], b: &[f64], of: impl Fn(f64, f64) -> f64) -> f64 {
    if a.len() == b.len() { mean_of(a.iter().zip(b).map(|(a, b)| of(*a, *b))) } else { f64::NAN }
}

fn mean_of(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    sum / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_of_small_examples() {
        assert_eq!(rmse(&[1.0, 2.0], &[1.0, 4.0]), 2f64.sqrt());
        assert_eq!(mae(&[1.0, 2.0], &[0.0, 4.0]), 1.5);
        assert_eq!(coverage(&[1.0, 5.0], &[0.0, 0.0], &[2.0, 2.0]), 0.5);
        let standard = 0.5 * (2.0 * std::f64::consts::PI).ln();
        assert!((nll(&[1.0], &[0.0], &[1.0]) - standard - 0.5).abs() < 1e-15);
        assert_eq!(top_k_recall(&[0.1, 5.0, 3.0, 4.0], &[1, 2]), 0.5);
        assert_eq!(top_k_recall(&[0.1], &[]), 1.0);
        assert_eq!(standard_deviation(&[1.0, 5.0, 3.0, 3.0]), 2f64.sqrt());
    }

    #[test]
    fn effective_support_of_equal_and_single() {
        assert!((effective_support([2.0; 8].into_iter()) - 1.0).abs() < 1e-15);
        assert!((effective_support([1e300, 0.0, 0.0, 0.0].into_iter()) - 0.25).abs() < 1e-15);
    }

    #[test]
    fn trimmed_mean_keeps_the_bounds() {
        let values: Vec<f64> = (0..=20).map(f64::from).collect();
        assert_eq!(trimmed_mean(&values, 0.05), 10.0);
    }
}
