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

/// All of so many places, or `most` of them: spread evenly, but in no step that a table could share, as one sorted by turns does.
pub fn spread(count: usize, most: usize) -> impl Iterator<Item = usize> {
    let golden = (count as f64 * 0.618_033_988_749_895) as usize;
    // Without a common divisor, no place comes twice and every period of the table is gone through.
    let step = if count <= most { 1 } else { (golden..).find(|step| greatest_divisor(*step, count) == 1).unwrap_or(1) };
    (0..count.min(most)).scan(0, move |place, _| {
        let here = *place;
        *place = (*place + step) % count;
        Some(here)
    })
}

fn greatest_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
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

    #[test]
    fn spread_places_are_distinct_and_of_all_kinds() {
        assert_eq!(spread(5, 10).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(spread(0, 10).count(), 0);
        for count in [4001, 4002, 8000, 8001, 10_000, 123_456] {
            let mut places: Vec<usize> = spread(count, 4000).collect();
            for period in [2, 3, 4, 7, 24] {
                let first = places.iter().filter(|place| *place % period == 0).count() as f64;
                assert!((first / 4000.0 - 1.0 / period as f64).abs() < 0.02, "{count}, {period}: {first}");
            }
            let early = places.iter().filter(|place| **place < count / 4).count();
            assert!((980..1020).contains(&early), "{count}: {early}");
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), 4000);
        }
    }
}
