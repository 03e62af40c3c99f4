//! Tables in and out: formats, column types, categories, missing values.
//!
//! A [`Table`] is read from CSV, TSV, Parquet, Arrow IPC or JSON lines ([`read`]) and written back to any of them
//! ([`write()`]). An [`Encoder`] turns its columns into the numbers that a model is fitted to, and does the same to new tables. A [`TableModel`] is a fitted
//! regression together with all that it needs to predict another table. [`samples`] has small tables to try it on.

mod csv;
mod diagnosis;
mod encode;
mod error;
mod facts;
mod fields;
mod file;
mod files;
mod format;
mod limits;
mod model;
mod output;
mod packed;
mod read;
pub mod samples;
mod stream;
mod table;
mod write;

pub use arrow_array::ArrayRef;
pub use diagnosis::{row_table, rows_of};
pub use encode::{Column, ColumnKind, EncodeOptions, Encoded, Encoder, LeftOut, Missing};
pub use error::{TableError, io_words};
pub use file::{ModelFileError, load_model, model_from_bytes, model_to_bytes, save_model};
pub use files::Existing;
pub use format::{Compression, Format, Kind};
pub use limits::Limits;
pub use model::{
    Fingerprint, Fitted, ModelError, RowGrounds, TableData, TableExplanation, TableMeans, TableModel, TablePrediction,
};
pub use output::{
    FileId, Output, OutputError, Sealed, check_output, check_output_folder, is_stdout, is_stream, make_output_folder,
    publish, sealed, write_whole,
};
pub use read::{Header, ReadOptions, read, read_bytes};
pub use stream::{
    Batches, Input, PartitionRows, PieceReader, Run, ShowRows, Source, StreamOptions, StreamedFit, diagnose_batches,
    diagnose_files, fit_partitions, fit_stream, is_pipe, partial_sums, read_sources, sources,
};
pub use table::Table;
pub use write::{TableWriter, write};
