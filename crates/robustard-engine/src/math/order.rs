//! Medians and quantiles.

/// Median of finite values; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    let is_odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_odd {
        return *upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    0.5 * (lower + *upper)
}

/// Median of the absolute values, each counted as often as its weight says; NaN of none.
pub fn weighted_median_of_magnitudes(values: &[f64], weight: &[f64]) -> f64 {
    let mut order: Vec<(f64, f64)> = values.iter().zip(weight).map(|(value, w)| (value.abs(), *w)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = 0.5 * weight.iter().sum::<f64>();
    let mut before = 0.0;
    for (k, (value, w)) in order.iter().enumerate() {
        before += w;
        if before > half {
            return *value;
        }
        if before == half {
            return 0.5 * (value + order.get(k + 1).map_or(*value, |next| next.0));
        }
    }
    f64::NAN
}

/// Quantile by linear interpolation between order statistics; NaN of nothing.
pub fn quantile_of_sorted(sorted: &[f64], level: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = level.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (place - below as f64) * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_small_examples() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, -1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(weighted_median_of_magnitudes(&[-1.0, 5.0, 3.0], &[1.0, 1.0, 1.0]), 3.0);
        assert_eq!(weighted_median_of_magnitudes(&[-1.0, 5.0], &[1.0, 1.0]), 3.0);
        assert_eq!(weighted_median_of_magnitudes(&[-1.0, 5.0], &[3.0, 1.0]), 1.0);
        assert!(weighted_median_of_magnitudes(&[], &[]).is_nan());
    }

    #[test]
    fn quantiles_are_interpolated() {
        let values: Vec<f64> = (0..=20).map(f64::from).collect();
        assert_eq!(quantile_of_sorted(&values, 0.05), 1.0);
        assert_eq!(quantile_of_sorted(&values, 0.525), 10.5);
        assert!(quantile_of_sorted(&[], 0.5).is_nan());
    }
}
