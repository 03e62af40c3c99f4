//! What a regression says about its features, in the user's units.

use faer::Mat;
use serde::{Deserialize, Serialize};

use crate::regression::Regression;

/// Relevance of an input along which a curve is flat, relative to that of the most relevant one.
const LEAST_SLOPE: f64 = 1e-3;
/// Fewer rows per learnt precision make leave-one-out figures optimistic.
const ROWS_PER_PRECISION: usize = 10;

/// A feature in the user's units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FeatureSummary {
    /// Its name.
    pub name: String,
    /// Weight: target units per unit of the input for linear features, per standardized feature otherwise.
    pub coefficient: f64,
    /// Its standard error: the posterior standard deviation under the noise that left-out rows have, which is larger than
    /// that of the fit where many features are fitted to few rows.
    pub standard_error: f64,
    /// γ of the coefficient, in the same units.
    pub precision: f64,
    /// 1/γ, or of a learnt curve its mean squared slope, relative to the largest.
    pub relevance: f64,
    /// Whether it is still in the model.
    pub kept: bool,
}

impl Regression {
    /// Relevance of each telling feature: 1/γ, or for a learnt curve its mean squared slope along the input, by the line's
    /// weight and the curve's lengthscales.
    pub fn relevances(&self) -> Vec<f64> {
        let (design, model) = (self.design(), self.model());
        match design.map().bends() {
            Some(bends) => {
                let [_, curve] = design.prior_variances(model);
                let slopes = design.of_features(model.coefficients());
                bends.iter().zip(slopes).map(|(bend, slope)| curve * bend + slope.powi(2)).collect()
            }
            None => design.of_features(model.weight_precision()).iter().map(|precision| 1.0 / precision).collect(),
        }
    }

    /// Number of precisions and lengthscales that were learnt.
    pub fn learnt_relevances(&self) -> usize {
        self.design().learnt_parameters(self.model())
    }

    /// Whether so many precisions were learnt from so few rows that the quality is better than that of new rows would be: they
    /// are held as learnt from all rows, the one left out among them.
    pub fn quality_is_optimistic(&self) -> bool {
        (ROWS_PER_PRECISION * self.learnt_relevances()) as u64 > self.fitted_rows()
    }

    /// The features, most relevant first, in the user's units. Of learnt curves these are the inputs, and their coefficients
    /// those of the linear part.
    pub fn feature_summaries(&self) -> Vec<FeatureSummary> {
        let mut summaries = self.features_in_units();
        summaries.sort_by(|a, b| b.relevance.total_cmp(&a.relevance));
        summaries
    }

    /// The same in the order of the features.
    pub fn features_in_units(&self) -> Vec<FeatureSummary> {
        let (design, model) = (self.design(), self.model());
        let relevances = self.relevances();
        let largest = relevances.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let is_curve = design.map().bends().is_some();
        let is_active = model.is_active();
        let is_active = design.of_features(&is_active);
        let coefficients = design.of_features(model.coefficients());
        let errors = match self.fit().coefficients() {
            Some(coefficients) => coefficients.errors(design.column_count()),
            None => model.standard_errors().to_vec(),
        };
        let errors = design.of_features(&errors);
        let precisions = design.of_features(model.weight_precision());
        let summary = |(j, name): (usize, String)| {
            let kept = if is_curve { relevances[j] >= LEAST_SLOPE * largest } else { is_active[j] };
            let unit = design.unit(j);
            FeatureSummary {
                name,
                coefficient: coefficients[j] * unit,
                standard_error: errors[j] * unit,
                precision: precisions[j] / (unit * unit),
                relevance: if kept { relevances[j] / largest } else { 0.0 },
                kept,
            }
        };
        design.feature_names().into_iter().take(design.telling_features()).enumerate().map(summary).collect()
    }

    /// The intercept in the target's units: of linear features, the prediction where every input is zero; else where every
    /// feature is.
    pub fn intercept(&self) -> f64 {
        self.design().intercept_in_units(self.model().coefficients())
    }

    /// Covariance of the telling features' coefficients in the user's units, whose diagonal holds the squares of their standard errors; 0
    /// where left out.
    pub fn coefficient_covariance(&self) -> Mat<f64> {
        let design = self.design();
        let telling = design.telling_features();
        let units = design.unit_rows(telling);
        let standard = match self.fit().coefficients() {
            Some(coefficients) => coefficients.of_rows(units.as_ref()),
            None => self.model().latent_covariance(units.as_ref()).unwrap_or_else(|_| Mat::zeros(telling, telling)),
        };
        Mat::from_fn(telling, telling, |i, j| design.unit(i) * design.unit(j) * standard[(i, j)])
    }

    /// The names of the groups of features that share a precision, by the numbers that paths have.
    pub fn group_names(&self) -> Vec<String> {
        let groups = self.design().feature_groups();
        let mut joined = vec![String::new(); groups.iter().max().map_or(0, |last| last + 1)];
        for (name, &group) in self.design().feature_names().iter().zip(&groups) {
            match joined[group].as_str() {
                "" => joined[group].clone_from(name),
                known if !known.ends_with('…') => joined[group].push_str(", …"),
                _ => {}
            }
        }
        joined
    }
}
