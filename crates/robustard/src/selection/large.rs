//! Large tables: features and noise are chosen on some of the rows, and fitted to all of them once.

use rand::SeedableRng;
use rand::seq::index::sample;
use rand_chacha::ChaCha8Rng;

use super::{Best, Compared, Reason, describe, linear};
use crate::Error;
use crate::features::FeatureKind;
use crate::fitted::Fit;
use crate::work::Work;

/// Rows that a choice is made on. Gains differ by about 0.3 nats from row to row, so that their mean is known to 0.003, a third of the
/// least gain that matters.
pub(super) const CHOICE_ROWS: usize = 10_000;

pub(super) fn best(work: &Work<'_>) -> Result<Best, Error> {
    let n = work.dataset.row_count();
    let mut rows = sample(&mut ChaCha8Rng::seed_from_u64(work.recipe.seed()), n, CHOICE_ROWS).into_vec();
    rows.sort_unstable();
    let some = work.dataset.take(&rows);
    let Best { candidate, compared, mut reasons, .. } = super::best(&work.on(&some))?;
    let fit = &candidate.fit;
    let all = match fit.features {
        FeatureKind::Smooth(kind) => {
            let set_aside = gross_errors(work, fit);
            let learning = work.smooth_again(kind, fit)?;
            work.fit(fit.features, learning, &fit.settings, set_aside)?
        }
        kind => {
            let free = work.fit(kind, work.learn(kind, fit.settings.noise)?, &fit.settings, Vec::new())?;
            reasons.retain(|reason| !matches!(reason, Reason::LeverageSetAside { .. }));
            match linear::guarded(work, kind, &free)? {
                Some((guarded, reason)) => {
                    reasons.push(reason);
                    guarded
                }
                None => free,
            }
        }
    };
    for reason in &mut reasons {
        if let Reason::GrossErrorsSetAside { rows, .. } = reason {
            *rows = all.fit.set_aside.len();
        }
    }
    let from_some =
        |compared: Compared| Compared { learnt_from: compared.learnt_from.or(Some(CHOICE_ROWS)), ..compared };
    let mut compared: Vec<Compared> = compared.into_iter().map(from_some).collect();
    compared.push(describe(&all.fit));
    Ok(Best { candidate: all, place: compared.len() - 1, compared, reasons })
}

/// The rows of the whole table that are as far off as those that a curve learnt from some of them has set aside.
fn gross_errors(work: &Work<'_>, fit: &Fit) -> Vec<usize> {
    let errors: Vec<f64> = fit.left_out().residual.iter().map(|residual| residual.abs()).collect();
    let least = fit.set_aside.iter().map(|&row| errors[row]).fold(f64::INFINITY, f64::min);
    if least == f64::INFINITY {
        return Vec::new();
    }
    let largest_kept = errors.iter().copied().filter(|error| *error < least).fold(0.0, f64::max);
    let limit = 0.5 * (least + largest_kept);
    let residual = work.residuals(fit);
    (0..residual.len()).filter(|&row| residual[row].abs() >= limit).collect()
}
