//! The methods of the paper's experiments, with the settings used for them.

use std::fmt;
use std::str::FromStr;

use robustard::engine::Route;
use robustard::{Noise, Preset, Settings, SolverKind};
use robustard_baselines::Baseline;

use crate::LabError;

/// Whether rows have a noise of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowNoise {
    /// One noise variance for all rows.
    Shared,
    /// One for each row, with the paper's flat prior.
    PerRow,
}

impl From<RowNoise> for Noise {
    fn from(noise: RowNoise) -> Self {
        match noise {
            RowNoise::Shared => Self::Shared,
            RowNoise::PerRow => Self::Flat,
        }
    }
}

/// A sparse Bayesian solver as the paper names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Solver {
    /// Expectation maximization.
    Em,
    /// MacKay's fixed point.
    Mackay,
    /// ℓ2-reweighted least squares.
    IrlsL2,
    /// ℓ1-reweighted least squares.
    IrlsL1,
    /// Adam on the n × n form of the objective.
    GradientPrimal,
    /// Adam on its d × d form.
    GradientDual,
}

impl Solver {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Em, Self::Mackay, Self::IrlsL2, Self::IrlsL1, Self::GradientPrimal, Self::GradientDual];

    fn name(self) -> &'static str {
        match self {
            Self::Em => "em",
            Self::Mackay => "mackay",
            Self::IrlsL2 => "irls_l2",
            Self::IrlsL1 => "irls_l1",
            Self::GradientPrimal => "gradient_primal",
            Self::GradientDual => "gradient_dual",
        }
    }

    /// The engine's solver, and the route that the paper means; ℓ2-IRLS takes the cheaper of two routes to the same numbers.
    fn engine(self) -> (SolverKind, Route) {
        match self {
            Self::Em => (SolverKind::Em, Route::Auto),
            Self::Mackay => (SolverKind::Mackay, Route::Auto),
            Self::IrlsL2 => (SolverKind::IrlsL2, Route::Auto),
            Self::IrlsL1 => (SolverKind::IrlsL1, Route::Auto),
            Self::GradientPrimal => (SolverKind::Gradient, Route::SampleSpace),
            Self::GradientDual => (SolverKind::Gradient, Route::WeightSpace),
        }
    }

    /// The settings, one for all data sets, within the ranges of the paper's appendix. How many iterations the paper ran is
    /// not said there; these were chosen on seeds that no trial uses. The gradient's learning rate is what damping is to the
    /// others.
    pub fn settings(self, noise: RowNoise, basis: Basis) -> Settings {
        let (solver, route) = self.engine();
        let paper = Settings { solver, route, ..Settings::preset(Preset::Paper).with_noise(noise.into()) };
        let features = match self {
            Self::Em | Self::Mackay | Self::IrlsL2 => Settings { damping_noise: 0.006, max_iterations: 300, ..paper },
            Self::IrlsL1 => Settings {
                damping_weights: 0.002,
                noise_start: 50,
                max_iterations: 150,
                inner_tolerance: 1e-5,
                inner_max_iterations: 200,
                ..paper
            },
            Self::GradientPrimal | Self::GradientDual => Settings {
                learning_rate: 0.01,
                damping_weights: 1.0,
                damping_noise: 1.0,
                noise_start: 50,
                max_iterations: 800,
                ..paper
            },
        };
        match (basis, self) {
            (Basis::Features, _) => features,
            // As many weights as rows would explain the wrong rows before the noise begins to move.
            (Basis::Kernel, Self::Em | Self::Mackay | Self::IrlsL2) => Settings {
                initial_weight_precision: 1.0,
                damping_weights: 0.005,
                damping_noise: 0.01,
                noise_start: 50,
                ..features
            },
            (Basis::Kernel, _) => Settings { initial_weight_precision: 1.0, ..features },
        }
    }
}

/// What the weights are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Features, fewer than rows or not many more.
    Features,
    /// A kernel function on every row.
    Kernel,
}

impl Basis {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Features, Self::Kernel];
}

/// A method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Method {
    /// What the paper compares with.
    Baseline(Baseline),
    /// Sparse Bayesian learning with the paper's recipe.
    Ard {
        /// The solver.
        solver: Solver,
        /// Shared or per row.
        noise: RowNoise,
    },
    /// Model-only ARD (one noise for all rows) run to convergence with the engine's own settings: the classic RVM on kernels.
    Converged,
    /// EM with a variational posterior by the Bayesian learning rule.
    Variational,
    /// What robustard does unasked.
    Default,
    /// The noise of every row is known.
    Oracle,
}

const SHARED: &str = "_shared";

impl Method {
    /// A baseline by its name.
    pub fn baseline(name: &str) -> Self {
        name.parse().expect("a baseline's name")
    }

    /// A solver with noise per row.
    pub fn per_row(solver: Solver) -> Self {
        Self::Ard { solver, noise: RowNoise::PerRow }
    }

    /// A solver with shared noise.
    pub fn shared(solver: Solver) -> Self {
        Self::Ard { solver, noise: RowNoise::Shared }
    }

    /// Names of all methods.
    pub fn names() -> Vec<String> {
        let ard = |method: fn(Solver) -> Self| Solver::ALL.into_iter().map(move |solver| method(solver).to_string());
        let baselines = Baseline::NAMES.into_iter().map(str::to_owned);
        baselines
            .chain(ard(Self::per_row))
            .chain(ard(Self::shared))
            .chain(["shared_converged", "em_blr", "default", "oracle"].map(str::to_owned))
            .collect()
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Baseline(baseline) => f.write_str(baseline.name().unwrap_or("baseline")),
            Self::Ard { solver, noise: RowNoise::PerRow } => f.write_str(solver.name()),
            Self::Ard { solver, noise: RowNoise::Shared } => write!(f, "{}{SHARED}", solver.name()),
            Self::Converged => f.write_str("shared_converged"),
            Self::Variational => f.write_str("em_blr"),
            Self::Default => f.write_str("default"),
            Self::Oracle => f.write_str("oracle"),
        }
    }
}

impl FromStr for Method {
    type Err = LabError;

    fn from_str(name: &str) -> Result<Self, LabError> {
        if let Ok(baseline) = name.parse() {
            return Ok(Self::Baseline(baseline));
        }
        match name {
            "shared_converged" => return Ok(Self::Converged),
            "em_blr" => return Ok(Self::Variational),
            "default" => return Ok(Self::Default),
            "oracle" => return Ok(Self::Oracle),
            _ => {}
        }
        let (solver, noise) = match name.strip_suffix(SHARED) {
            Some(solver) => (solver, RowNoise::Shared),
            None => (name, RowNoise::PerRow),
        };
        let found = Solver::ALL.into_iter().find(|known| known.name() == solver);
        found
            .map(|solver| Self::Ard { solver, noise })
            .ok_or_else(|| LabError::UnknownMethod { name: name.to_owned(), known: Self::names().join(", ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_methods() {
        for name in Method::names() {
            assert_eq!(name.parse::<Method>().unwrap().to_string(), name);
        }
        assert!("nothing".parse::<Method>().unwrap_err().to_string().contains("irls_l2_shared"));
    }

    /// The appendix' ranges, for every solver.
    #[test]
    fn settings_are_within_the_papers_ranges() {
        for solver in Solver::ALL {
            let pairs = Basis::ALL.iter().flat_map(|basis| [(RowNoise::Shared, basis), (RowNoise::PerRow, basis)]);
            for (noise, basis) in pairs {
                let settings = solver.settings(noise, *basis);
                settings.check().unwrap();
                let damping = match settings.solver {
                    SolverKind::Gradient => [settings.learning_rate; 2],
                    _ => [settings.damping_weights, settings.damping_noise],
                };
                assert!(damping.iter().all(|eta| (5e-4..=2e-2).contains(eta)), "{settings:?}");
                assert!((50..=300).contains(&settings.noise_start) && (2..=5).contains(&settings.noise_every));
                for [low, high] in [settings.weight_precision_bounds, settings.noise_variance_bounds] {
                    assert!((1e-6..=1e-3).contains(&low) && (1e2..=1e6).contains(&high));
                }
            }
        }
    }
}
