//! The noise of new rows, from the errors of left-out rows: of rows that are right, as far as that can be told.

use robustard_engine::math::order::spread;
use robustard_engine::noise::NoiseModel;
use robustard_engine::{Degrees, FittedModel, LeftOut, Noise};

/// Standard deviations beyond which an error of a row is gross.
pub(crate) const GROSS: f64 = 4.0;
/// The level at which widths are compared.
const LEVEL: f64 = 0.95;

/// Learns the noise that predictions carry from the errors of left-out rows, each counted as often as `weight` says. If some rows are
/// taken for wrong, those of them that are not gross errors count as far as they are likely right: leaving out all would cut tails off.
/// `learnt` is the number of parameters besides the weights that were learnt from all rows, which left-out rows have seen: errors of
/// new rows are larger for it. `widths` of error bars are those of rows, if they are not all alike. Where there are errors of rows that nothing was learnt from, the wider noise is taken. Says how far each
/// row counted.
pub(crate) fn calibrate(
    model: &mut FittedModel,
    unseen: &[f64],
    widths: Option<&[f64]>,
    cross_validated: Option<&LeftOut>,
    weight: &[f64],
    wrong: &[usize],
    learnt: usize,
) -> Vec<f64> {
    let inlier = model.inlier_variance();
    let right = |errors: &LeftOut| -> Vec<f64> {
        let right = right_probabilities(errors, inlier, weight, wrong);
        weight.iter().zip(right).map(|(weight, right)| weight * right).collect()
    };
    let of_usual_width = |mut errors: LeftOut| {
        let widths = widths.unwrap_or_default();
        errors.residual.iter_mut().zip(widths).for_each(|(error, width)| *error /= width);
        errors
    };
    let mut errors = of_usual_width(model.left_out(unseen));
    let counted = if wrong.is_empty() { weight.to_vec() } else { right(&errors) };
    let rows: f64 = counted.iter().sum();
    // As for a residual variance, but never more than twofold.
    let freedom = (rows - learnt as f64).max(0.5 * rows);
    let stretch = (rows / freedom).sqrt() * of_few(freedom);
    errors.residual.iter_mut().for_each(|error| *error *= stretch);
    model.calibrate_from(&errors, &counted);
    if let Some(errors) = cross_validated {
        let by_left_out = model.clone();
        let mut errors = of_usual_width(errors.clone());
        let stretch = of_few(rows);
        errors.residual.iter_mut().for_each(|error| *error *= stretch);
        let counted = if wrong.is_empty() { weight.to_vec() } else { right(&errors) };
        model.calibrate_from(&errors, &counted);
        let width = |model: &FittedModel| model.predictive_noise(model.base_noise()).half_widths(LEVEL, &[0.0])[0];
        if width(&by_left_out) > width(model) {
            *model = by_left_out;
        }
    }
    counted
}

/// How much wider intervals are for a width that is known from few errors only: Student's quantile over the normal one, by the expansion of
/// Cornish and Fisher (Abramowitz and Stegun, 26.7.5), which is within one percent from two degrees of freedom on.
fn of_few(freedom: f64) -> f64 {
    /// With fewer there is no variance.
    const LEAST: f64 = 2.0;
    /// The normal quantile of the level, squared.
    const SQUARE: f64 = 3.841_458_820_694_124;
    let of = |terms: &[f64]| terms.iter().rev().fold(0.0, |sum, term| sum * SQUARE + term);
    let series = [
        1.0,
        of(&[1.0, 1.0]) / 4.0,
        of(&[3.0, 16.0, 5.0]) / 96.0,
        of(&[-15.0, 17.0, 19.0, 3.0]) / 384.0,
        of(&[-945.0, -1920.0, 1482.0, 776.0, 79.0]) / 92_160.0,
    ];
    let freedom = freedom.max(LEAST);
    series.iter().rev().fold(0.0, |sum, term| sum / freedom + term)
}

/// The probability that each row is of the population that most rows are of: normal or Student-t noise, whichever explains the errors
/// better beside a share of wrong rows. Gross errors are wrong whatever the tails.
fn right_probabilities(left_out: &LeftOut, inlier: f64, weight: &[f64], wrong: &[usize]) -> Vec<f64> {
    /// Most improvements of share, sizes and tails, and the change of a probability below which they have come to rest.
    const ROUNDS: usize = 100;
    const AT_REST: f64 = 1e-3;
    /// Rows that they are learnt from.
    const ROWS: usize = 4000;
    /// Rows that are right have at least this share of the variance of all rows kept: many rows that share a target are predicted
    /// exactly, but are not the only ones that are right.
    const LEAST_SHARE: f64 = 1.0 / 16.0;
    let errors = left_out.residual.iter().zip(&left_out.latent_variance);
    let errors: Vec<f64> = errors.map(|(residual, latent)| residual / (inlier + latent).sqrt()).collect();
    let mut kept = weight.to_vec();
    wrong.iter().for_each(|&row| kept[row] = 0.0);
    let squares: f64 = errors.iter().zip(&kept).map(|(error, kept)| kept * error * error).sum();
    let total: f64 = kept.iter().sum();
    if total <= 0.0 {
        return vec![1.0; errors.len()];
    }
    let deviation = (squares / total).sqrt();
    let is_gross = |error: f64| error.abs() > GROSS * deviation;
    let some: Vec<usize> = spread(errors.len(), ROWS).collect();
    let of_some = |values: &[f64]| -> Vec<f64> { some.iter().map(|&row| values[row]).collect() };
    let (some_errors, some_weights) = (of_some(&errors), of_some(weight));
    let squares: Vec<f64> = some_errors.iter().map(|error| error * error).collect();
    let fits = [Noise::Contaminated, Noise::ContaminatedT(Degrees::Learned)].map(|noise| {
        let variance = (deviation * deviation).clamp(1e-10, 1e10);
        let bounds = [LEAST_SHARE * variance, 1e10];
        let mut noise = NoiseModel::new(noise, variance);
        let wrong = |noise: &NoiseModel| {
            [2.0, 3.0, GROSS].map(|off: f64| noise.outlier_probability(off * off * variance).unwrap_or(0.0))
        };
        let mut before = wrong(&noise);
        for _ in 0..ROUNDS {
            noise.fit_parameters(&squares, &some_weights, bounds);
            let now = wrong(&noise);
            let change = now.iter().zip(before).map(|(now, before)| (now - before).abs()).fold(0.0, f64::max);
            before = now;
            if change < AT_REST {
                break;
            }
        }
        let inlier = noise.variance(0.0);
        let rows = some_errors.iter().zip(&some_weights);
        let densities = rows.map(|(error, weight)| weight * noise.log_density(*error, 0.0, inlier));
        (densities.sum::<f64>(), noise)
    });
    let [(normal, _), (student, _)] = fits;
    let (_, noise) = fits[usize::from(student > normal)];
    let right = |error: f64| 1.0 - noise.outlier_probability(error * error).unwrap_or(0.0);
    let mut is_kept = vec![1.0; errors.len()];
    wrong.iter().for_each(|&row| is_kept[row] = 0.0);
    // Rows that were kept are right.
    let counted = |(error, kept): (&f64, f64)| match (kept > 0.0, is_gross(*error)) {
        (true, _) => 1.0,
        (false, true) => 0.0,
        (false, false) => right(*error),
    };
    errors.iter().zip(is_kept).map(counted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tabled quantiles of Student's distribution.
    #[test]
    fn few_errors_have_the_quantiles_of_student() {
        for (freedom, quantile) in
            [(2.0, 4.302_653), (3.0, 3.182_446), (5.0, 2.570_582), (10.0, 2.228_139), (60.0, 2.000_298)]
        {
            let own = 1.959_964 * of_few(freedom);
            assert!((own / quantile - 1.0).abs() < 0.01, "{freedom}: {own}");
        }
        // Whatever rows weigh.
        assert!([0.0, 1e-300, 0.5].iter().all(|freedom| of_few(*freedom) == of_few(2.0)));
        assert!([1e12, 1e300, f64::INFINITY].iter().all(|freedom| (of_few(*freedom) - 1.0).abs() < 1e-9));
    }
}
