//! Options by name, as the command line and the Python package take them: one place where names, defaults and errors are decided.

use robustard::features::{FeatureKind, FeatureKindError, FeatureOptions, Lengthscale, LengthscaleError};
use robustard::{Preset, Settings, SettingsError};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::choose::Auto;
use crate::encode::{EncodeOptions, Missing};
use crate::error::suggestion;
use crate::regression::RegressionOptions;

/// A name or value that does not exist.
#[derive(Debug, Clone, PartialEq, Error)]
#[allow(missing_docs)] // the fields are explained by the messages
pub enum NamedError {
    #[error("{0}, or auto")]
    Features(#[from] FeatureKindError),
    #[error(transparent)]
    Lengthscale(#[from] LengthscaleError),
    #[error("missing is {0}")]
    Missing(String),
    #[error("only rff and rbf features take a lengthscale")]
    NoLengthscale,
    #[error("there is no preset '{0}'; the presets are default and paper")]
    Preset(String),
    #[error("there is no setting '{key}'{close}; the settings are {known}")]
    UnknownSetting { key: String, close: String, known: String },
    #[error("the setting {key} is {value}: {reason}")]
    BadSetting { key: String, value: String, reason: String },
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

/// How a table is fitted, by names. What is not given is chosen or takes its default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NamedOptions {
    /// The column to predict.
    pub target: String,
    /// Use only these columns.
    pub include: Vec<String>,
    /// Do not use these columns.
    pub exclude: Vec<String>,
    /// Treat these columns as categories.
    pub categorical: Vec<String>,
    /// How often each row counts.
    pub weights: Option<String>,
    /// Names the rows.
    pub id: Option<String>,
    /// error, drop or impute.
    pub missing: Option<String>,
    /// auto, linear, smooth\[:CENTRES\], rff\[:COUNT\], rbf\[:all\] or poly:DEGREE.
    pub features: Option<String>,
    /// each, one, usual or a number.
    pub lengthscale: Option<String>,
    /// Seed of everything random.
    pub seed: u64,
    /// Leave inputs as they are.
    pub no_standardize: bool,
    /// Fit without an intercept.
    pub no_intercept: bool,
    /// Refuse what would be left out.
    pub strict: bool,
    /// Keep columns of numbers that have one value only.
    pub keep_constant: bool,
    /// default or paper.
    pub preset: Option<String>,
    /// em, mackay, irls-l2, irls-l1, gradient or growing.
    pub solver: Option<String>,
    /// auto, shared or per-row.
    pub noise: Option<String>,
    /// Prior of noise per row.
    pub noise_prior: Option<String>,
    /// Any settings of the engine; those above come after them.
    pub settings: Map<String, Value>,
    /// Threads to use; 0 for all cores.
    pub threads: Option<usize>,
}

const AUTO: &str = "auto";

impl NamedOptions {
    /// The options that the names mean.
    pub fn options(&self) -> Result<RegressionOptions, NamedError> {
        let chooses_features = self.features.as_deref().is_none_or(|features| features == AUTO);
        let kind = match &self.features {
            Some(features) if features != AUTO => features.parse::<FeatureKind>()?,
            _ => FeatureKind::Linear,
        };
        let lengthscale = self.lengthscale.as_deref().map(str::parse::<Lengthscale>).transpose()?;
        if lengthscale.is_some() && !matches!(kind, FeatureKind::Fourier { .. } | FeatureKind::Kernel { .. }) {
            return Err(NamedError::NoLengthscale);
        }
        let usual = match self.preset()? {
            Preset::Default => Lengthscale::Each,
            Preset::Paper => Lengthscale::Usual,
        };
        let missing = match &self.missing {
            Some(missing) => missing.parse::<Missing>().map_err(NamedError::Missing)?,
            None => Missing::Error,
        };
        Ok(RegressionOptions {
            encode: EncodeOptions {
                target: self.target.clone(),
                include: self.include.clone(),
                exclude: self.exclude.clone(),
                categorical: self.categorical.clone(),
                weights: self.weights.clone(),
                id: self.id.clone(),
                missing,
                strict: self.strict,
                keep_constant: self.keep_constant,
            },
            features: FeatureOptions {
                kind,
                lengthscale: lengthscale.unwrap_or(usual),
                seed: self.seed,
                standardize: !self.no_standardize,
                centre: !self.no_intercept,
            },
            intercept: !self.no_intercept,
            settings: self.settings()?,
            auto: Auto { features: chooses_features, noise: self.chooses_noise() },
        })
    }

    fn preset(&self) -> Result<Preset, NamedError> {
        match self.preset.as_deref() {
            None | Some("default") => Ok(Preset::Default),
            Some("paper") => Ok(Preset::Paper),
            Some(other) => Err(NamedError::Preset(other.to_owned())),
        }
    }

    /// Whether the noise is chosen: unless anything says what it is.
    fn chooses_noise(&self) -> bool {
        let is_given = |key: &String| key.starts_with("noise") || key.starts_with("base_noise");
        match self.noise.as_deref() {
            Some(noise) => noise == AUTO,
            None => {
                self.noise_prior.is_none()
                    && self.preset.as_deref().is_none_or(|preset| preset == "default")
                    && !self.settings.keys().any(is_given)
            }
        }
    }

    /// Preset, then settings, then the options of their own.
    pub fn settings(&self) -> Result<Settings, NamedError> {
        let mut settings = Settings::preset(self.preset()?);
        for (key, value) in &self.settings {
            settings = with_setting(&settings, key, value)?;
        }
        for (key, value) in [("solver", &self.solver), ("noise", &self.noise), ("noise_prior", &self.noise_prior)] {
            // Noise to be chosen is no setting of the engine.
            if let Some(value) = value.as_ref().filter(|value| *value != AUTO) {
                settings =
                    with_setting(&settings, key, &Value::String(value.clone())).map_err(|error| match error {
                        NamedError::BadSetting { key, value, reason } if key == "noise" => {
                            NamedError::BadSetting { key, value, reason: format!("{reason}, or `auto`") }
                        }
                        other => other,
                    })?;
            }
        }
        if let Some(threads) = self.threads {
            settings.threads = threads;
        }
        settings.check()?;
        Ok(settings)
    }
}

/// The settings with one of them changed.
fn with_setting(settings: &Settings, key: &str, value: &Value) -> Result<Settings, NamedError> {
    let bad = |reason: String| NamedError::BadSetting { key: key.to_owned(), value: value.to_string(), reason };
    let Value::Object(mut all) = serde_json::to_value(settings).map_err(|error| bad(error.to_string()))? else {
        return Err(bad("settings have names".to_owned()));
    };
    if !all.contains_key(key) {
        let known: Vec<String> = all.keys().cloned().collect();
        let (close, known) = (suggestion(key, &known), known.join(", "));
        return Err(NamedError::UnknownSetting { key: key.to_owned(), close, known });
    }
    all.insert(key.to_owned(), value.clone());
    serde_json::from_value(Value::Object(all)).map_err(|error| bad(error.to_string()))
}
