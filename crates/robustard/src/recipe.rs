//! How a data set is fitted: typed, and checked when it is built.

use std::fmt;
use std::str::FromStr;

use robustard_engine::{Acceleration, BaseNoise, Noise, Preset, Route, Settings, SettingsError, SolverKind, Units};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use thiserror::Error;

use crate::features::{FeatureKind, Lengthscale};
use crate::target::TargetTransform;

/// Something that is chosen by the data, or given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice<T> {
    /// By what predicts left-out rows better.
    #[default]
    Auto,
    /// This.
    Given(T),
}

const AUTO: &str = "auto";

impl<T> Choice<T> {
    /// Whether the data choose.
    pub fn is_auto(&self) -> bool {
        matches!(self, Self::Auto)
    }

    /// What is given.
    pub fn given(self) -> Option<T> {
        match self {
            Self::Auto => None,
            Self::Given(value) => Some(value),
        }
    }
}

impl<T: FromStr<Err: fmt::Display>> FromStr for Choice<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == AUTO {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Given).map_err(|error: T::Err| format!("{error}, or auto"))
    }
}

impl<T: fmt::Display> fmt::Display for Choice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str(AUTO),
            Self::Given(value) => value.fmt(f),
        }
    }
}

impl<T: fmt::Display> Serialize for Choice<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Choice<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Options that make no recipe.
#[derive(Debug, Clone, PartialEq, Error)]
#[allow(missing_docs)] // the fields are explained by the messages
#[non_exhaustive]
pub enum RecipeError {
    #[error("only rff and rbf features take a lengthscale")]
    NoLengthscale,
    #[error("the lengthscale is {0}; it must be finite and above 0")]
    LengthscaleRange(f64),
    #[error(
        "the growing solver needs a precision for every weight, which {features} features do not have; use linear, poly, rbf, or rff \
         with a given lengthscale, or another solver"
    )]
    Growing { features: String },
    #[error("there is no option '{name}'{}; the options are {}", suggestion(.name, &Options::names()), Options::names().join(", "))]
    UnknownOption { name: String },
    #[error("the option {name} is {value}: {reason}")]
    BadOption { name: String, value: String, reason: String },
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// " (did you mean 'x'?)" when a known name is close.
pub fn suggestion<S: AsRef<str>>(wanted: &str, known: &[S]) -> String {
    let wanted = wanted.to_lowercase();
    let distance = |name: &S| strsim::levenshtein(&wanted, &name.as_ref().to_lowercase());
    let close = known.iter().map(|name| (distance(name), name.as_ref())).min_by_key(|(distance, _)| *distance);
    match close {
        Some((distance, name)) if distance <= 1 + wanted.chars().count() / 4 => format!(" (did you mean '{name}'?)"),
        _ => String::new(),
    }
}

/// Which new rows intervals are for: what share of them they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum IntervalRows {
    /// Rows that are right.
    #[default]
    Right,
    /// All rows, if as many of them are wrong as of the training rows.
    All,
}

/// The options that are settings of the engine by the same name, with their types.
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $type:ty),* $(,)?) => {
        /// A recipe by names: what the command line, settings files and Python speak. What is not given is chosen or has its default.
        ///
        /// ```
        /// use robustard::Options;
        ///
        /// let options = Options { tolerance: Some(1e-6), noise: Some("student-t:3".parse().unwrap()), ..Options::default() };
        /// let recipe = options.recipe()?;
        /// assert_eq!(recipe.settings().tolerance, 1e-6);
        /// # Ok::<(), robustard::RecipeError>(())
        /// ```
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Options {
            /// What is made of the inputs.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub features: Option<Choice<FeatureKind>>,
            /// The noise.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub noise: Option<Choice<Noise>>,
            /// What is fitted instead of the target.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub target_transform: Option<Choice<TargetTransform>>,
            /// Which new rows intervals are for, where the noise is chosen.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub interval_rows: Option<IntervalRows>,
            /// Lengthscales of rff and rbf features.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub lengthscale: Option<Lengthscale>,
            /// Whether there is an intercept, which is not shrunk.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub intercept: Option<bool>,
            /// Whether inputs are standardized.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub standardize: Option<bool>,
            /// Seed of everything random.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub seed: Option<u64>,
            /// The settings to start from.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub preset: Option<Preset>,
            /// p of the studentized noise update.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub studentized_power: Option<f64>,
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$type>,)*
        }

        impl Options {
            /// All names.
            pub fn names() -> Vec<&'static str> {
                vec!["features", "noise", "target_transform", "interval_rows", "lengthscale", "intercept", "standardize", "seed", "preset", "studentized_power", $(stringify!($name)),*]
            }

            /// The engine's settings that are given, over those of the preset.
            fn over(&self, mut settings: Settings) -> Settings {
                settings.studentized_power = self.studentized_power.or(settings.studentized_power);
                $(if let Some(value) = self.$name { settings.$name = value; })*
                settings
            }

            /// The settings that differ from those of the preset.
            fn of(settings: &Settings, preset: &Settings) -> Self {
                Self {
                    studentized_power: settings.studentized_power,
                    $($name: (settings.$name != preset.$name).then_some(settings.$name),)*
                    ..Self::default()
                }
            }
        }
    };
}

options! {
    /// The solver.
    solver: SolverKind,
    /// Share of a step of the weight precisions that is taken.
    damping_weights: f64,
    /// Share of a step of the noise variances that is taken.
    damping_noise: f64,
    /// Units of initial values and bounds.
    units: Units,
    /// Range of weight precisions.
    weight_precision_bounds: [f64; 2],
    /// Range of noise variances.
    noise_variance_bounds: [f64; 2],
    /// Weight precision at the start.
    initial_weight_precision: f64,
    /// Noise variance at the start.
    initial_noise_variance: f64,
    /// Iterations before the noise first moves.
    noise_start: usize,
    /// The noise moves in every so many iterations.
    noise_every: usize,
    /// Most iterations.
    max_iterations: usize,
    /// Largest relative change of a converged iteration.
    tolerance: f64,
    /// Iterations in a row that must be converged.
    patience: usize,
    /// Extrapolation of the iterations.
    acceleration: Acceleration,
    /// Iterations that the extrapolation looks back.
    acceleration_memory: usize,
    /// Whether irrelevant columns leave the work.
    pruning: bool,
    /// Weight space or sample space.
    route: Route,
    /// Step of the gradient solver.
    learning_rate: f64,
    /// Relative tolerance of the inner problem of irls-l1.
    inner_tolerance: f64,
    /// Iterations of that problem.
    inner_max_iterations: usize,
    /// The noise that predictions of new rows carry.
    base_noise: BaseNoise,
}

impl Options {
    /// Sets one option by name.
    pub fn set(&mut self, name: &str, value: &Value) -> Result<(), RecipeError> {
        if !Self::names().contains(&name) {
            return Err(RecipeError::UnknownOption { name: name.to_owned() });
        }
        let bad = |reason: String| RecipeError::BadOption { name: name.to_owned(), value: value.to_string(), reason };
        let all = serde_json::to_value(&*self).map_err(|error| bad(error.to_string()))?;
        let Value::Object(mut all) = all else { return Err(bad("options have names".to_owned())) };
        all.insert(name.to_owned(), value.clone());
        *self = serde_json::from_value(Value::Object(all)).map_err(|error| bad(error.to_string()))?;
        Ok(())
    }

    /// The recipe that the options mean.
    pub fn recipe(&self) -> Result<Recipe, RecipeError> {
        let preset = self.preset.unwrap_or(Preset::Default);
        let features = self.features.unwrap_or_default();
        if let Some(lengthscale) = self.lengthscale {
            if !features.given().is_some_and(|kind| kind.takes_lengthscale()) {
                return Err(RecipeError::NoLengthscale);
            }
            if let (Lengthscale::Given(length), false) = (lengthscale, lengthscale.is_in_range()) {
                return Err(RecipeError::LengthscaleRange(length));
            }
        }
        let usual = match preset {
            Preset::Paper => Lengthscale::Usual,
            _ => Lengthscale::Each,
        };
        let lengthscale = self.lengthscale.unwrap_or(usual);
        let settings = self.over(Settings::preset(preset));
        // Whoever says anything about the noise, or asks for the paper's recipe, has given it.
        let says_noise = self.noise_start.is_some()
            || self.noise_every.is_some()
            || self.noise_variance_bounds.is_some()
            || self.base_noise.is_some();
        let is_chosen = preset == Preset::Default && !says_noise;
        let noise = self.noise.unwrap_or(if is_chosen { Choice::Auto } else { Choice::Given(settings.noise) });
        Recipe {
            features,
            noise,
            target_transform: self.target_transform.unwrap_or_default(),
            interval_rows: self.interval_rows.unwrap_or_default(),
            lengthscale,
            intercept: self.intercept.unwrap_or(true),
            standardize: self.standardize.unwrap_or(true),
            seed: self.seed.unwrap_or(0),
            settings: match noise {
                Choice::Given(noise) => settings.with_noise(noise),
                Choice::Auto => settings,
            },
        }
        .checked()
    }
}

/// How a data set is fitted. Made by [`Options::recipe`], or by [`Recipe::new`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    features: Choice<FeatureKind>,
    noise: Choice<Noise>,
    #[serde(default)]
    target_transform: Choice<TargetTransform>,
    #[serde(default)]
    interval_rows: IntervalRows,
    lengthscale: Lengthscale,
    intercept: bool,
    standardize: bool,
    seed: u64,
    settings: Settings,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            features: Choice::Auto,
            noise: Choice::Auto,
            target_transform: Choice::Auto,
            interval_rows: IntervalRows::Right,
            lengthscale: Lengthscale::Each,
            intercept: true,
            standardize: true,
            seed: 0,
            settings: Settings::default(),
        }
    }
}

impl Recipe {
    /// These features and this noise, everything else as usual.
    pub fn new(features: Choice<FeatureKind>, noise: Choice<Noise>) -> Result<Self, RecipeError> {
        let default = Self::default();
        let settings = match noise {
            Choice::Given(noise) => default.settings.with_noise(noise),
            Choice::Auto => default.settings,
        };
        Self { features, noise, settings, ..default }.checked()
    }

    /// With these settings of the engine; their noise counts unless the noise is chosen.
    pub fn with_settings(self, settings: Settings) -> Result<Self, RecipeError> {
        let noise = if self.noise.is_auto() { Choice::Auto } else { Choice::Given(settings.noise) };
        Self { noise, settings, ..self }.checked()
    }

    /// With lengthscales of rff and rbf features.
    pub fn with_lengthscale(self, lengthscale: Lengthscale) -> Result<Self, RecipeError> {
        let recipe = Self { lengthscale, ..self }.checked()?;
        let is_used = recipe.features.given().is_some_and(|kind| kind.takes_lengthscale());
        if is_used { Ok(recipe) } else { Err(RecipeError::NoLengthscale) }
    }

    /// With this instead of the target.
    #[must_use]
    pub fn with_target_transform(self, target_transform: Choice<TargetTransform>) -> Self {
        Self { target_transform, ..self }
    }

    /// With intervals for these rows.
    #[must_use]
    pub fn with_interval_rows(self, interval_rows: IntervalRows) -> Self {
        Self { interval_rows, ..self }
    }

    /// With an intercept or without.
    #[must_use]
    pub fn with_intercept(self, intercept: bool) -> Self {
        Self { intercept, ..self }
    }

    /// With inputs standardized or as they are.
    #[must_use]
    pub fn with_standardize(self, standardize: bool) -> Self {
        Self { standardize, ..self }
    }

    /// With another seed of everything random.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Whether all parts go together.
    pub(crate) fn checked(self) -> Result<Self, RecipeError> {
        if let (Lengthscale::Given(length), false) = (self.lengthscale, self.lengthscale.is_in_range()) {
            return Err(RecipeError::LengthscaleRange(length));
        }
        if self.settings.solver == SolverKind::Growing {
            let grows = self.features.given().is_some_and(|kind| kind.has_own_precisions(self.lengthscale));
            if !grows {
                return Err(RecipeError::Growing { features: self.features.to_string() });
            }
        }
        self.settings.check()?;
        Ok(self)
    }

    /// The features.
    pub fn features(&self) -> Choice<FeatureKind> {
        self.features
    }

    /// The noise.
    pub fn noise(&self) -> Choice<Noise> {
        self.noise
    }

    /// What is fitted instead of the target. It is chosen only if features and noise are, too; else it is none.
    pub fn target_transform(&self) -> Choice<TargetTransform> {
        self.target_transform
    }

    /// Which new rows intervals are for, where the noise is chosen.
    pub fn interval_rows(&self) -> IntervalRows {
        self.interval_rows
    }

    /// Lengthscales of rff and rbf features.
    pub fn lengthscale(&self) -> Lengthscale {
        self.lengthscale
    }

    /// Whether there is an intercept.
    pub fn intercept(&self) -> bool {
        self.intercept
    }

    /// Whether inputs are standardized.
    pub fn standardize(&self) -> bool {
        self.standardize
    }

    /// Seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The engine's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The options that say the same, without those that have their default.
    pub fn options(&self) -> Options {
        let default = Self::default();
        let takes_lengthscale = self.features.given().is_some_and(|kind| kind.takes_lengthscale());
        Options {
            features: (self.features != default.features).then_some(self.features),
            // Said outright, because other options about noise would mean that it is given.
            noise: (self.noise != default.noise || self.settings != default.settings).then_some(self.noise),
            target_transform: (self.target_transform != default.target_transform).then_some(self.target_transform),
            interval_rows: (self.interval_rows != default.interval_rows).then_some(self.interval_rows),
            lengthscale: takes_lengthscale.then_some(self.lengthscale),
            intercept: (!self.intercept).then_some(false),
            standardize: (!self.standardize).then_some(false),
            seed: (self.seed != default.seed).then_some(self.seed),
            ..Options::of(&self.settings, &default.settings)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_become_recipes_and_back() {
        let mut options = Options::default();
        for (name, value) in [
            ("features", json!("rff:64")),
            ("lengthscale", json!("0.5")),
            ("noise", json!("contaminated")),
            ("solver", json!("mackay")),
            ("weight_precision_bounds", json!([1e-8, 1e8])),
            ("intercept", json!(false)),
            ("seed", json!(7)),
        ] {
            options.set(name, &value).unwrap();
        }
        let recipe = options.recipe().unwrap();
        assert_eq!(recipe.options(), options);
        assert_eq!(recipe.settings().noise, Noise::Contaminated);
        assert_eq!(recipe.options().recipe().unwrap(), recipe);
        assert_eq!(Options::default().recipe().unwrap(), Recipe::default());
        let chosen = Options { noise: Some(Choice::Auto), noise_start: Some(3), ..Options::default() };
        let recipe = chosen.recipe().unwrap();
        assert_eq!(recipe.options().recipe().unwrap(), recipe);
    }

    #[test]
    fn wrong_options_are_named() {
        let message = |name: &str, value: Value| Options::default().set(name, &value).unwrap_err().to_string();
        assert!(message("tolerence", json!(1)).contains("did you mean 'tolerance'?"));
        assert!(message("tolerance", json!("small")).contains("tolerance"));
        assert!(message("noise", json!("loud")).contains("shared"));
        assert!(message("features", json!("poly:99")).contains("poly:DEGREE"));
        let refused = |options: Options| options.recipe().unwrap_err().to_string();
        let each = Some(Lengthscale::Each);
        assert!(refused(Options { lengthscale: each, ..Options::default() }).contains("rff and rbf"));
        assert!(refused(Options { tolerance: Some(-1.0), ..Options::default() }).contains("tolerance"));
        let growing = Options { solver: Some(SolverKind::Growing), ..Options::default() };
        assert!(refused(growing.clone()).contains("growing"));
        let linear = Some(Choice::Given(FeatureKind::linear()));
        assert!(Options { features: linear, ..growing }.recipe().is_ok());
        let broken = Recipe::default().with_lengthscale(Lengthscale::Given(-1.0));
        assert!(broken.unwrap_err().to_string().contains("-1"));
        let unused = Recipe::default().with_lengthscale(Lengthscale::Given(1.0));
        assert!(unused.unwrap_err().to_string().contains("rff and rbf"));
    }

    /// Whoever says something about the noise has it given.
    #[test]
    fn noise_is_chosen_unless_it_is_spoken_of() {
        let noise = |options: Options| options.recipe().unwrap().noise();
        assert_eq!(noise(Options::default()), Choice::Auto);
        assert_eq!(noise(Options { noise_start: Some(3), ..Options::default() }), Choice::Given(Noise::default()));
        assert_eq!(noise(Options { preset: Some(Preset::Paper), ..Options::default() }), Choice::Given(Noise::Flat));
    }

    /// Every setting of the engine is an option of the same name.
    #[test]
    fn all_settings_are_options() {
        let Value::Object(settings) = serde_json::to_value(Settings::default()).unwrap() else { panic!("named") };
        for name in settings.keys() {
            assert!(Options::names().contains(&name.as_str()), "{name}");
        }
    }
}
