//! Options that several commands share.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use robustard::features::{FeatureKind, Lengthscale};
use robustard::{Choice, Noise, Options, Preset, Recipe, SolverKind, TargetTransform};
use robustard_table::{
    EncodeOptions, Existing, Header, Kind, Limits, Missing, ReadOptions, Source, StreamOptions, Table, TableModel,
    io_words, is_pipe, load_model, read, read_sources, sources,
};
use serde_json::Value;

use crate::output::{Plan, existing};
use crate::{Outcome, Usage};

/// How a table is read.
#[derive(Args, Clone)]
pub struct TableArguments {
    /// Layout of the table: csv, tsv, parquet, arrow or jsonl [default: detected]
    #[arg(long, value_name = "FORMAT", value_parser = |text: &str| text.parse::<Kind>().map_err(|e| e.to_string()))]
    format: Option<Kind>,
    /// Delimiter of delimited text [default: detected]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,
    /// Whether the first line names the columns
    #[arg(long, value_enum, default_value_t = HeaderArgument::Auto)]
    header: HeaderArgument,
}

#[derive(Clone, Copy, ValueEnum)]
enum HeaderArgument {
    Auto,
    Yes,
    No,
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "tab" | "\\t" => Ok(b'\t'),
        _ if text.len() == 1 && text.is_ascii() => Ok(text.as_bytes()[0]),
        _ => Err("give one ASCII character, or tab".to_owned()),
    }
}

impl TableArguments {
    /// `names` are columns that hold names, not numbers.
    pub fn options<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> ReadOptions {
        let header = match self.header {
            HeaderArgument::Auto => Header::Auto,
            HeaderArgument::Yes => Header::Yes,
            HeaderArgument::No => Header::No,
        };
        let text_columns = names.into_iter().cloned().collect();
        ReadOptions { kind: self.format, delimiter: self.delimiter, header, text_columns, ..ReadOptions::default() }
    }
}

/// Tables that may be larger than memory.
#[derive(Args, Clone)]
#[command(next_help_heading = "Tables larger than memory")]
pub struct StreamArguments {
    /// Memory that a fit may take, such as 2GB; larger tables are read in pieces and fitted by passes over a cache on disk, and what
    /// cannot be is refused [default: half of what is free]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// Keep the cache in this folder, for the next fit of the same files [default: a temporary file]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Write how far the fit has come to this file after each pass; a fit that was killed goes on from it
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
}

/// Bytes, with a unit or without.
fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 5] = [("kb", 1e3), ("mb", 1e6), ("gb", 1e9), ("tb", 1e12), ("b", 1.0)];
    let lower = text.trim().to_ascii_lowercase();
    let known = UNITS.iter().find_map(|(name, unit)| Some((lower.strip_suffix(name)?, *unit)));
    let (number, unit) = known.unwrap_or((&lower, 1.0));
    let number = number.trim().parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
    number.map(|number| (number * unit) as u64).ok_or_else(|| "it is no size; write, for example, 2GB".to_owned())
}

impl StreamArguments {
    /// Bytes that may be used, if they are given.
    pub fn memory(&self) -> Option<u64> {
        self.memory
    }

    /// Where the fit writes how far it has come.
    pub fn checkpoint(&self) -> Option<&PathBuf> {
        self.checkpoint.as_ref()
    }

    /// What they mean.
    pub fn options(&self) -> StreamOptions {
        StreamOptions { memory: self.memory, cache: self.cache.clone(), checkpoint: self.checkpoint.clone() }
    }
}

/// A model and the table that it was fitted to.
#[derive(Args)]
pub struct FittedTable {
    /// A model file, written by `robustard fit -o`
    model: PathBuf,
    /// The table that the model was fitted to
    #[arg(required = true, value_name = "TABLE")]
    pub tables: Vec<PathBuf>,
    #[command(flatten)]
    reading: TableArguments,
    /// Print errors only
    #[arg(long)]
    pub quiet: bool,
    /// Overwrite existing files
    #[arg(long)]
    pub force: bool,
}

/// A model with what it was fitted to.
pub enum FittedData {
    /// In memory.
    Table(TableModel, Table),
    /// In files, of which the model keeps some rows.
    Files(TableModel, Vec<Source>, ReadOptions),
}

impl FittedTable {
    /// What must not be written over.
    pub fn plan(&self) -> Plan {
        Plan::new(self.force).keeps("the model", [&self.model]).reads_table(&self.tables)
    }

    /// What becomes of files that are there.
    pub fn existing(&self) -> Existing {
        existing(self.force)
    }

    /// Reads both; another table than the model's own is refused.
    pub fn open(&self) -> Outcome<FittedData> {
        let model = load_model(&self.model)?;
        let reading = self.reading.options(&model.encoder().id);
        if model.regression().whole().is_some() {
            let files = sources(&self.tables)?;
            return Ok(FittedData::Files(model, files, reading));
        }
        let table = match self.tables.as_slice() {
            [only] if is_pipe(only) => read(only, &reading)?,
            _ => read_sources(&sources(&self.tables)?, &reading)?,
        };
        if model.was_fitted_to(&table)? {
            return Ok(FittedData::Table(model, table));
        }
        Err("this is not the table that the model was fitted to; give that one, or fit this one".into())
    }

    /// The same of models of tables in memory.
    pub fn open_in_memory(&self, what: &str) -> Outcome<(TableModel, Table)> {
        match self.open()? {
            FittedData::Table(model, table) => Ok((model, table)),
            FittedData::Files(..) => Err(format!(
                "{what} needs a model of a table in memory; for this one, fit writes the page (--report) and diagnose the rows"
            )
            .into()),
        }
    }
}

/// What is fitted, and how.
#[derive(Args, Clone)]
pub struct FitArguments {
    /// The column to predict
    #[arg(long, value_name = "COL")]
    pub target: String,
    /// Use only these columns (repeat or separate by commas)
    #[arg(long, value_name = "COL", value_delimiter = ',')]
    include: Vec<String>,
    /// Do not use these columns
    #[arg(long, value_name = "COL", value_delimiter = ',')]
    exclude: Vec<String>,
    /// Treat these columns as categories
    #[arg(long, value_name = "COL", value_delimiter = ',')]
    categorical: Vec<String>,
    /// How often each row counts
    #[arg(long, value_name = "COL")]
    weights: Option<String>,
    /// Levels that a column of --categorical may have, each of which is a feature
    #[arg(long, value_name = "N", default_value_t = Limits::default().levels)]
    most_levels: usize,
    /// Names the rows in outputs
    #[arg(long, value_name = "COL")]
    pub id: Option<String>,
    /// Missing values: error, drop (the rows) or impute (median and an indicator column)
    #[arg(long, default_value = "error", value_parser = checked::<Missing>)]
    missing: Missing,
    /// Features: auto (linear or smooth, whichever predicts left-out rows better), linear, smooth[:CENTRES] (lines and a
    /// curve, lengthscales learnt), rff[:COUNT] (random Fourier), rbf (kernels where they help; rbf:all on every row) or
    /// poly:DEGREE
    #[arg(long, default_value = "auto", value_parser = checked::<Choice<FeatureKind>>)]
    features: Choice<FeatureKind>,
    /// Lengthscales of rff and rbf: each (one for each input, learnt), one (learnt), usual (√(inputs/2)) or a number, in
    /// standardized inputs [default: each, usual with --preset paper]
    #[arg(long, allow_negative_numbers = true, value_parser = checked::<Lengthscale>)]
    lengthscale: Option<Lengthscale>,
    /// Seed of everything random
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Leave inputs as they are
    #[arg(long)]
    no_standardize: bool,
    /// Fit without an intercept
    #[arg(long)]
    no_intercept: bool,
    /// Refuse what would be left out, and a fit that has not converged (exit code 3)
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    engine: EngineArguments,
}

/// The engine's settings, by the same names as in the library.
#[derive(Args, Clone)]
#[command(next_help_heading = "Engine")]
pub struct EngineArguments {
    /// Set of settings to start from
    #[arg(long, value_enum, default_value_t = PresetArgument::Default)]
    preset: PresetArgument,
    /// em, mackay, irls-l2, irls-l1, gradient, growing (few of many columns) or passes (many rows)
    #[arg(long, value_parser = solver)]
    solver: Option<SolverKind>,
    /// auto (whichever explains the table better), shared (one variance for all rows), or one variance per row: student-t[:NU],
    /// student-t:learned, contaminated, contaminated-t[:NU], inverse-gamma:A,B or flat [default: auto, flat with --preset paper]
    #[arg(long, value_parser = checked::<Choice<Noise>>)]
    noise: Option<Choice<Noise>>,
    /// What is fitted instead of the target: none, log, asinh (nearly log where targets are large, and of any sign), or auto: asinh
    /// if errors grow with the target and it predicts better, where features and noise are chosen, too [default: auto]
    #[arg(long, value_parser = checked::<Choice<TargetTransform>>)]
    target_transform: Option<Choice<TargetTransform>>,
    /// Any option by name, such as tolerance=1e-6 (repeat for more)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// A TOML file of options
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Threads to use; 0 for all cores
    #[arg(long)]
    threads: Option<usize>,
}

/// What a text means.
fn checked<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse::<T>().map_err(|error| error.to_string())
}

fn solver(text: &str) -> Result<SolverKind, String> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|error| error.to_string())
}

#[derive(Clone, Copy, ValueEnum)]
enum PresetArgument {
    Default,
    Paper,
}

impl FitArguments {
    /// The file of options.
    pub fn settings(&self) -> Option<&PathBuf> {
        self.engine.settings.as_ref()
    }

    /// Holds everything, reading and learning included, to the threads asked for.
    pub fn limit_threads(&self) -> Outcome<()> {
        match self.engine.threads {
            None | Some(0) => Ok(()),
            Some(threads) => Ok(rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?),
        }
    }

    /// The columns that the arguments mean.
    pub fn columns(&self) -> EncodeOptions {
        EncodeOptions {
            include: self.include.clone(),
            exclude: self.exclude.clone(),
            categorical: self.categorical.clone(),
            weights: self.weights.clone(),
            id: self.id.clone(),
            missing: self.missing,
            strict: self.strict,
            limits: Limits { levels: self.most_levels, ..Limits::default() },
            ..EncodeOptions::new(&self.target)
        }
    }

    /// The recipe that the arguments mean.
    pub fn recipe(&self) -> Result<Recipe, Usage> {
        let mut options = self.engine.options()?;
        // What a file or --set says holds unless an option of its own says more.
        if !self.features.is_auto() || options.features.is_none() {
            options.features = Some(self.features);
        }
        options.lengthscale = self.lengthscale.or(options.lengthscale);
        options.seed = if self.seed == 0 { options.seed } else { Some(self.seed) };
        if self.no_standardize {
            options.standardize = Some(false);
        }
        if self.no_intercept {
            options.intercept = Some(false);
        }
        options.recipe().map_err(|error| Usage(error.to_string()))
    }
}

impl EngineArguments {
    /// The settings file, then `--set`, then the options of their own.
    fn options(&self) -> Result<Options, Usage> {
        let mut options = Options::default();
        let mut set = |key: &str, value: toml::Value| -> Result<(), Usage> {
            let value = serde_json::to_value(value).map_err(|error| Usage(error.to_string()))?;
            options.set(key, &value).map_err(|error| Usage(error.to_string()))
        };
        if let Some(path) = &self.settings {
            let failed = |reason: String| Usage(format!("cannot use the settings file {}: {reason}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|error| failed(io_words(&error)))?;
            for (key, value) in text.parse::<toml::Table>().map_err(|error| failed(error.to_string()))? {
                set(&key, value)?;
            }
        }
        for pair in &self.set {
            let example = || Usage(format!("--set {pair} is not KEY=VALUE; write, for example, --set tolerance=1e-6"));
            let (key, value) = pair.split_once('=').ok_or_else(example)?;
            set(key.trim(), toml_value(value.trim()))?;
        }
        if let PresetArgument::Paper = self.preset {
            options.preset = Some(Preset::Paper);
        }
        options.solver = self.solver.or(options.solver);
        options.noise = self.noise.or(options.noise);
        options.target_transform = self.target_transform.or(options.target_transform);
        Ok(options)
    }
}

/// A value as TOML would read it; a bare word is text.
fn toml_value(text: &str) -> toml::Value {
    let read = |text: &str| format!("value = {text}").parse::<toml::Table>().ok()?.remove("value");
    read(text).unwrap_or_else(|| toml::Value::String(text.to_owned()))
}
