//! Tables in and out: formats, column types, categories, missing values.
//!
//! A [`Table`] is read from CSV, TSV, Parquet, Arrow IPC or JSON lines ([`read`]) and written back to any of them
//! ([`write()`]). An [`Encoder`] turns its columns into the numbers that a model is fitted to, and does the same to new tables. A [`Regression`] is a fitted
//! model together with all that it needs to predict another table. [`samples`] has small tables to try it on.

mod choose;
mod csv;
mod encode;
mod error;
mod fields;
mod file;
mod format;
mod named;
mod prepared;
mod read;
mod regression;
pub mod samples;
mod table;
mod write;

pub use choose::{Auto, Choice, Compared};
pub use encode::{Column, ColumnKind, EncodeOptions, Encoded, Encoder, LeftOut, Missing};
pub use error::{TableError, io_words, suggestion};
pub use file::{ModelFileError, load_model, model_from_bytes, model_to_bytes, save_model};
pub use format::{Compression, Format, Kind};
pub use named::{NamedError, NamedOptions};
pub use read::{Header, ReadOptions, read, read_bytes};
pub use regression::{
    FeatureSummary, Fingerprint, Fitted, Quality, Regression, RegressionError, RegressionOptions, TableMeans,
    TablePrediction, TargetScale,
};
pub use table::Table;
pub use write::{to_bytes, write, write_whole};
