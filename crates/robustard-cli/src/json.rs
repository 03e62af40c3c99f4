//! What `robustard fit --json` prints. `docs/fit.schema.json` describes it; everything is in the target's units.

use robustard::{Effects, FeatureSummary, PartCoverage, Quality, Regression, Selection, Status, SuspiciousRow, Whole};
use robustard_table::LeftOut;
use serde::Serialize;

use crate::Outcome;
use crate::fit::Done;

/// A fit for programs.
#[derive(Serialize)]
pub struct Summary<'a> {
    target: &'a str,
    /// Rows fitted.
    rows: u64,
    fitted: FittedKind,
    status: Status,
    iterations: usize,
    /// The whole time of the fit, choosing included.
    seconds: f64,
    times: Times,
    /// Log evidence of the target.
    evidence: f64,
    /// The prediction where every input is zero; none for features that are not linear.
    intercept: Option<f64>,
    /// What each column does.
    effects: &'a Effects,
    /// Coefficients, most relevant first; none of a curve, whose effects they are not.
    features: Option<Vec<FeatureSummary>>,
    /// λ of each fitted row.
    noise_variance: &'a [f64],
    /// Most suspicious first.
    flagged_rows: Vec<FlaggedRow>,
    /// What is known of all rows, if the model keeps only some: fits of tables larger than memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<WholeTable>,
    /// Rows of the table, counted from 1, that were set aside as gross errors.
    set_aside: Vec<usize>,
    quality: &'a Quality,
    /// Coverage of 50% and 95% intervals of all rows and in thirds of the predictions, lowest first; empty if rows are few.
    coverage_checks: Vec<PartCoverage>,
    /// Whether so many precisions were learnt from so few rows that the quality flatters the fit.
    optimistic: bool,
    left_out: &'a [LeftOut],
    selection: Option<&'a Selection>,
}

/// All rows of a fit by passes.
#[derive(Serialize)]
struct WholeTable {
    rows: u64,
    /// Rows drawn at random, which features and noise were chosen on and which the model keeps.
    chosen_on: usize,
    passes: usize,
    flagged: u64,
    set_aside: u64,
}

impl WholeTable {
    fn of(whole: &Whole) -> Self {
        let Whole { rows, chosen_on, passes, flagged, set_aside, .. } = *whole;
        Self { rows, chosen_on, passes, flagged, set_aside }
    }
}

/// Where the time went, in seconds.
#[derive(Serialize)]
struct Times {
    /// None if the table was read in pieces during the fit.
    reading: Option<f64>,
    choosing: f64,
    fitting: f64,
}

/// What was fitted.
#[derive(Serialize)]
struct FittedKind {
    features: String,
    noise: String,
    /// What is fitted instead of the target; coefficients are of that.
    target_transform: String,
    /// The same as a formula.
    target: String,
    solver: robustard::SolverKind,
}

/// A row to look at.
#[derive(Serialize)]
struct FlaggedRow {
    /// In the table, counted from 1; none of rows of a larger table that have ids.
    row: Option<usize>,
    id: Option<String>,
    actual: f64,
    /// From the other rows.
    predicted: f64,
    z: f64,
}

/// The most suspicious rows of a streamed fit.
fn of_stream(has_ids: bool, whole: &Whole, labels: &[String]) -> Vec<FlaggedRow> {
    let flagged = |(row, label): (&SuspiciousRow, &String)| FlaggedRow {
        row: if has_ids { None } else { label.parse().ok() },
        id: has_ids.then(|| label.clone()),
        actual: row.actual,
        predicted: row.predicted,
        z: row.z,
    };
    whole.suspicious.iter().zip(labels).map(flagged).collect()
}

impl<'a> Summary<'a> {
    pub fn new(done: &'a Done) -> Outcome<Self> {
        let Done { model, table, .. } = done;
        let (encoder, regression): (_, &Regression) = (model.encoder(), model.regression());
        let diagnostics = regression.diagnostics();
        let ids = encoder.id.as_ref().filter(|_| !done.is_streamed()).map(|id| table.texts(id)).transpose()?;
        let flagged = |row: usize| FlaggedRow {
            row: Some(model.rows()[row] + 1),
            id: ids.as_ref().and_then(|ids| ids[model.rows()[row]].clone()),
            actual: diagnostics.actual[row],
            predicted: diagnostics.predicted[row],
            z: diagnostics.z[row],
        };
        Ok(Self {
            target: &encoder.target,
            rows: regression.fitted_rows(),
            fitted: FittedKind {
                features: regression.features().to_string(),
                noise: regression.noise().to_string(),
                target_transform: regression.design().target().transform().to_string(),
                target: regression.design().target().formula(&encoder.target),
                solver: regression.settings().solver,
            },
            status: regression.status(),
            iterations: regression.model().iterations(),
            seconds: regression.elapsed().as_secs_f64(),
            times: Times {
                reading: done.reading.map(|reading| reading.as_secs_f64()),
                choosing: regression.choosing_time().as_secs_f64(),
                fitting: regression.fitting_time().as_secs_f64(),
            },
            evidence: regression.log_evidence(),
            intercept: regression.design().is_linear().then(|| regression.intercept()),
            effects: regression.effects(),
            features: regression.design().map().bends().is_none().then(|| regression.feature_summaries()),
            noise_variance: &diagnostics.noise_variance,
            flagged_rows: match regression.whole() {
                Some(whole) => of_stream(encoder.id.is_some(), whole, model.suspicious()),
                None => diagnostics.flagged_rows().into_iter().map(flagged).collect(),
            },
            whole: regression.whole().map(WholeTable::of),
            set_aside: regression.set_aside().iter().map(|&row| model.rows()[row] + 1).collect(),
            quality: regression.quality(),
            coverage_checks: regression.coverage_checks(),
            optimistic: regression.quality_is_optimistic(),
            left_out: &encoder.left_out,
            selection: regression.selection(),
        })
    }
}
