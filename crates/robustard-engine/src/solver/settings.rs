//! The settings of a fit, their defaults and ranges.

use std::ops::Deref;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::noise::{Degrees, Noise};
use crate::posterior::Route;
use crate::predictive::BaseNoise;

/// Range of given degrees of freedom: below, the scale means nothing; above, the noise is normal.
const LEAST_DEGREES: f64 = 0.1;
const MOST_DEGREES: f64 = 1000.0;

/// The rule that proposes the next (γ, λ).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SolverKind {
    /// Expectation maximization: monotone, steady.
    Em,
    /// MacKay's fixed point: often faster, no guarantee.
    Mackay,
    /// ℓ2-reweighted least squares: EM's steps through sample-space identities.
    IrlsL2,
    /// ℓ1-reweighted least squares: an inner lasso-like problem in every iteration.
    IrlsL1,
    /// Adam on the objective in log γ and log λ.
    Gradient,
    /// EM on few columns, which were chosen by their evidence one by one: fast where most do not matter.
    Growing,
    /// EM from where passes over the rows lead, between which the precisions take many steps: fast where rows are many.
    Passes,
}

impl SolverKind {
    /// All solvers.
    pub const ALL: [SolverKind; 7] =
        [Self::Em, Self::Mackay, Self::IrlsL2, Self::IrlsL1, Self::Gradient, Self::Growing, Self::Passes];
}

/// In which units initial values and bounds are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Units {
    /// In the data's own units ([`crate::problem::NaturalUnits`]), so that rescaling a column or the target changes nothing.
    Relative,
    /// As they are.
    Absolute,
}

/// Extrapolation of the fixed-point solvers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acceleration {
    /// On for EM, MacKay and ℓ2-IRLS when neither update is damped and the noise moves in every iteration; off otherwise, and
    /// for per-row noise with a flat prior, whose many optima are far apart.
    Auto,
    /// Off.
    None,
    /// Guarded Anderson acceleration in log space.
    Anderson,
}

/// A named set of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Needs no tuning: Student-t noise, accelerated, pruned, run to convergence.
    Default,
    /// The paper's recipe: flat prior, strong damping, late and rare noise updates, clipping. Meant for standardized data.
    Paper,
}

/// Everything that steers a fit.
///
/// | name | default | paper | range |
/// |---|---|---|---|
/// | `solver` | em | em | em, mackay, irls-l2, irls-l1, gradient, growing, passes |
/// | `noise` | student-t:4 | flat | shared, flat, inverse-gamma:A,B (A above 0, to 500; B above 0), student-t\[:NU\] (0.1 to 1000), student-t:learned, contaminated, contaminated-t\[:NU\] |
/// | `studentized_power` | none | none | none, or 0 to 10 |
/// | `damping_weights` | 1 | 0.02 | above 0, to 1 (1 is undamped) |
/// | `damping_noise` | 1 | 0.01 | above 0, to 1 |
/// | `units` | relative | absolute | relative, absolute |
/// | `weight_precision_bounds` | 1e-10, 1e10 | 1e-6, 1e6 | 0 < low < high |
/// | `noise_variance_bounds` | 1e-10, 1e10 | 1e-6, 1e6 | 0 < low < high |
/// | `initial_weight_precision` | 1 | 0.1 | within the bounds |
/// | `initial_noise_variance` | 0.1 | 0.1 | within the bounds |
/// | `noise_start` | 0 | 100 | 0 and up |
/// | `noise_every` | 1 | 2 | 1 and up |
/// | `max_iterations` | 1000 | 1000 | 1 and up |
/// | `tolerance` | 1e-4 | 1e-6 | above 0 |
/// | `patience` | 3 | 5 | 1 and up |
/// | `acceleration` | auto | none | auto, none, anderson |
/// | `acceleration_memory` | 10 | 10 | 1 to 50 |
/// | `pruning` | true | false | true, false |
/// | `route` | auto | auto | auto, weight-space, sample-space |
/// | `learning_rate` | 0.05 | 0.05 | above 0 |
/// | `inner_tolerance` | 1e-7 | 1e-7 | above 0 |
/// | `inner_max_iterations` | 500 | 500 | 1 and up |
/// | `base_noise` | inlier | mean | mean, trimmed, inlier, left-out |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The solver.
    pub solver: SolverKind,
    /// The noise.
    pub noise: Noise,
    /// p of the studentized noise update λᵢ ← rᵢ²/(1 − hᵢ)ᵖ, which magnifies rows of high leverage; none for the plain one.
    pub studentized_power: Option<f64>,
    /// η of γ ← (1 − η)γ + η γ_new.
    pub damping_weights: f64,
    /// η of λ ← (1 − η)λ + η λ_new.
    pub damping_noise: f64,
    /// Units of initial values and bounds.
    pub units: Units,
    /// γ is clipped to this range.
    pub weight_precision_bounds: [f64; 2],
    /// λ is clipped to this range.
    pub noise_variance_bounds: [f64; 2],
    /// Start of every γ.
    pub initial_weight_precision: f64,
    /// Start of every λ.
    pub initial_noise_variance: f64,
    /// Iterations before λ moves.
    pub noise_start: usize,
    /// λ moves in every so many iterations.
    pub noise_every: usize,
    /// Iterations after which the fit stops unconverged.
    pub max_iterations: usize,
    /// Largest ‖Δlog‖∞/(1 + ‖log‖∞) of γ and of λ in a converged iteration; of the gradient solver, whose steps are as long as
    /// the learning rate lets them be, in units of that rate.
    pub tolerance: f64,
    /// Iterations in a row that must be converged.
    pub patience: usize,
    /// Extrapolation.
    pub acceleration: Acceleration,
    /// Iterations that the extrapolation looks back.
    pub acceleration_memory: usize,
    /// Whether irrelevant columns leave the work.
    pub pruning: bool,
    /// Weight space or sample space.
    pub route: Route,
    /// Adam's step in log space (gradient solver).
    pub learning_rate: f64,
    /// Relative tolerance of the inner problem (ℓ1-IRLS).
    pub inner_tolerance: f64,
    /// Iterations of the inner problem (ℓ1-IRLS).
    pub inner_max_iterations: usize,
    /// The noise that predictions of new rows carry.
    pub base_noise: BaseNoise,
}

impl Default for Settings {
    fn default() -> Self {
        Self::preset(Preset::Default)
    }
}

/// A setting outside its range, or settings that do not go together.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A value outside its range.
    #[error("the setting {name} is {value}; it must be {expected}")]
    OutOfRange {
        /// Name of the setting.
        name: &'static str,
        /// The value found.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// Settings that do not go together.
    #[error("the setting {setting} does not go with the others: {reason}")]
    Clash {
        /// Name of the setting.
        setting: &'static str,
        /// Why, and what to do.
        reason: &'static str,
    },
}

impl Settings {
    /// The settings of a preset.
    pub fn preset(preset: Preset) -> Self {
        let default = Self {
            solver: SolverKind::Em,
            noise: Noise::default(),
            studentized_power: None,
            damping_weights: 1.0,
            damping_noise: 1.0,
            units: Units::Relative,
            weight_precision_bounds: [1e-10, 1e10],
            noise_variance_bounds: [1e-10, 1e10],
            initial_weight_precision: 1.0,
            initial_noise_variance: 0.1,
            noise_start: 0,
            noise_every: 1,
            max_iterations: 1000,
            tolerance: 1e-4,
            patience: 3,
            acceleration: Acceleration::Auto,
            acceleration_memory: 10,
            pruning: true,
            route: Route::Auto,
            learning_rate: 0.05,
            inner_tolerance: 1e-7,
            inner_max_iterations: 500,
            base_noise: BaseNoise::Inlier,
        };
        match preset {
            Preset::Default => default,
            Preset::Paper => Self {
                noise: Noise::Flat,
                damping_weights: 0.02,
                damping_noise: 0.01,
                units: Units::Absolute,
                weight_precision_bounds: [1e-6, 1e6],
                noise_variance_bounds: [1e-6, 1e6],
                initial_weight_precision: 0.1,
                initial_noise_variance: 0.1,
                noise_start: 100,
                noise_every: 2,
                tolerance: 1e-6,
                patience: 5,
                acceleration: Acceleration::None,
                pruning: false,
                base_noise: BaseNoise::Mean,
                ..default
            },
        }
    }

    /// The same settings with one shared noise variance: model-only ARD.
    #[must_use]
    pub fn with_shared_noise(self) -> Self {
        self.with_noise(Noise::Shared)
    }

    /// The same settings with other noise.
    #[must_use]
    pub fn with_noise(self, noise: Noise) -> Self {
        Self { noise, ..self }
    }

    /// Checks every range once; only checked settings can be run.
    pub fn check(&self) -> Result<CheckedSettings, SettingsError> {
        let require = |holds: bool, name, value: &dyn std::fmt::Debug, expected| {
            if holds { Ok(()) } else { Err(SettingsError::OutOfRange { name, value: format!("{value:?}"), expected }) }
        };
        let above_zero = |value: f64| value.is_finite() && value > 0.0;
        let noise_holds = match self.noise {
            Noise::InverseGamma { shape, scale } => shape > 0.0 && shape <= 0.5 * MOST_DEGREES && above_zero(scale),
            Noise::StudentT(Degrees::Fixed(degrees)) | Noise::ContaminatedT(Degrees::Fixed(degrees)) => {
                (LEAST_DEGREES..=MOST_DEGREES).contains(&degrees)
            }
            Noise::Shared
            | Noise::Flat
            | Noise::StudentT(Degrees::Learned)
            | Noise::Contaminated
            | Noise::ContaminatedT(Degrees::Learned) => true,
        };
        require(
            noise_holds,
            "noise",
            &self.noise.to_string(),
            "a model with parameters in range: NU from 0.1 to 1000, SHAPE above 0 and at most 500, SCALE above 0",
        )?;
        let power = self.studentized_power;
        require(power.is_none_or(|p| (0.0..=10.0).contains(&p)), "studentized_power", &power, "none, or from 0 to 10")?;
        for (name, damping) in [("damping_weights", self.damping_weights), ("damping_noise", self.damping_noise)] {
            require(damping > 0.0 && damping <= 1.0, name, &damping, "above 0 and at most 1 (1 is undamped)")?;
        }
        let (weights, noise) = (self.weight_precision_bounds, self.noise_variance_bounds);
        for (name, bounds) in [("weight_precision_bounds", weights), ("noise_variance_bounds", noise)] {
            let holds = above_zero(bounds[0]) && above_zero(bounds[1]) && bounds[0] < bounds[1];
            require(holds, name, &bounds, "two finite numbers above 0, the smaller first")?;
        }
        for (name, initial, bounds) in [
            ("initial_weight_precision", self.initial_weight_precision, weights),
            ("initial_noise_variance", self.initial_noise_variance, noise),
        ] {
            require((bounds[0]..=bounds[1]).contains(&initial), name, &initial, "within its bounds")?;
        }
        for (name, count) in [
            ("noise_every", self.noise_every),
            ("max_iterations", self.max_iterations),
            ("patience", self.patience),
            ("inner_max_iterations", self.inner_max_iterations),
        ] {
            require(count >= 1, name, &count, "at least 1")?;
        }
        require(
            (1..=50).contains(&self.acceleration_memory),
            "acceleration_memory",
            &self.acceleration_memory,
            "from 1 to 50",
        )?;
        for (name, value) in [
            ("tolerance", self.tolerance),
            ("learning_rate", self.learning_rate),
            ("inner_tolerance", self.inner_tolerance),
        ] {
            require(above_zero(value), name, &value, "finite and above 0")?;
        }
        self.check_pairs()?;
        Ok(CheckedSettings(self.clone()))
    }
}

impl Settings {
    /// Settings that are fine by themselves but not together.
    fn check_pairs(&self) -> Result<(), SettingsError> {
        let clash = |setting, reason| Err(SettingsError::Clash { setting, reason });
        if self.acceleration == Acceleration::Anderson && self.solver == SolverKind::Gradient {
            return clash(
                "acceleration",
                "the gradient solver has no fixed-point map to extrapolate; use auto or none",
            );
        }
        if self.acceleration == Acceleration::Anderson && self.noise_every > 1 {
            return clash(
                "acceleration",
                "it would move the noise in every iteration; set noise_every to 1, or use auto or none",
            );
        }
        if self.studentized_power.is_some() && self.noise.is_shared() {
            return clash("studentized_power", "it speaks of per-row noise; set noise to another model than shared");
        }
        Ok(())
    }
}

/// Settings that have passed [`Settings::check`].
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedSettings(Settings);

impl CheckedSettings {
    /// Whether the fit extrapolates.
    pub fn accelerates(&self) -> bool {
        match self.acceleration {
            Acceleration::None => false,
            Acceleration::Anderson => true,
            Acceleration::Auto => {
                let smooth = !matches!(self.solver, SolverKind::IrlsL1 | SolverKind::Gradient);
                let flat = self.noise == Noise::Flat;
                let undamped = self.damping_weights == 1.0 && self.damping_noise == 1.0;
                smooth && undamped && self.noise_every == 1 && !flat
            }
        }
    }
}

impl Deref for CheckedSettings {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_valid() {
        for preset in [Preset::Default, Preset::Paper] {
            Settings::preset(preset).check().unwrap();
        }
    }

    #[test]
    fn wrong_values_are_named() {
        type Spoil = fn(&mut Settings);
        let cases: [(&str, Spoil); 12] = [
            ("noise", |s| s.noise = Noise::StudentT(Degrees::Fixed(-1.0))),
            ("studentized_power", |s| s.studentized_power = Some(f64::NAN)),
            ("damping_weights", |s| s.damping_weights = 0.0),
            ("damping_noise", |s| s.damping_noise = 1.5),
            ("weight_precision_bounds", |s| s.weight_precision_bounds = [1.0, 1.0]),
            ("noise_variance_bounds", |s| s.noise_variance_bounds = [0.0, 1.0]),
            ("initial_weight_precision", |s| s.initial_weight_precision = 1e30),
            ("noise_every", |s| s.noise_every = 0),
            ("max_iterations", |s| s.max_iterations = 0),
            ("tolerance", |s| s.tolerance = f64::INFINITY),
            ("patience", |s| s.patience = 0),
            ("acceleration_memory", |s| s.acceleration_memory = 0),
        ];
        for (name, spoil) in cases {
            let mut settings = Settings::default();
            spoil(&mut settings);
            let message = settings.check().unwrap_err().to_string();
            assert!(message.contains(name), "{name}: {message}");
        }
        let both =
            Settings { solver: SolverKind::Gradient, acceleration: Acceleration::Anderson, ..Settings::default() };
        assert!(both.check().unwrap_err().to_string().contains("gradient"));
        let both = Settings { noise_every: 2, acceleration: Acceleration::Anderson, ..Settings::default() };
        assert!(both.check().unwrap_err().to_string().contains("noise_every"));
        let both = Settings { studentized_power: Some(2.0), ..Settings::default().with_shared_noise() };
        assert!(both.check().unwrap_err().to_string().contains("studentized_power"));
    }

    #[test]
    fn settings_are_read_by_name() {
        let settings: Settings =
            serde_json::from_str(r#"{"solver": "irls-l2", "noise": "student-t:3", "damping_noise": 0.5}"#).unwrap();
        assert_eq!(settings.solver, SolverKind::IrlsL2);
        assert_eq!(settings.noise, Noise::StudentT(Degrees::Fixed(3.0)));
        assert!(serde_json::from_str::<Settings>(r#"{"dampin": 1}"#).is_err());
    }
}
