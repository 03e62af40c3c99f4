use robustard::suggestion;
use thiserror::Error;

use crate::limits::size_words;
use crate::output::OutputError;

/// Why a table cannot be read, written or used.
#[derive(Debug, Error)]
#[allow(missing_docs)] // the fields are explained by the messages
pub enum TableError {
    #[error("cannot read {path}: {reason}")]
    Read { path: String, reason: String },
    #[error("this is not the table that the model was fitted to; give that one, or fit this one")]
    OtherTable,
    #[error(
        "the bytes between the fit and a partition cannot be used: {reason}; use one version of robustard everywhere"
    )]
    Message { reason: String },
    #[error("the work on the partitions failed: {reason}")]
    Partitions { reason: String },
    #[error("stopped after {rows} rows")]
    Stopped { rows: u64 },
    #[error("'{pattern}' matches no file; give a file, a folder or a pattern such as 'data/*.parquet'")]
    NoFiles { pattern: String },
    #[error("the folder {path} has no tables in it; give one with .csv, .tsv, .parquet, .arrow or .jsonl files")]
    EmptyFolder { path: String },
    #[error("{path} has no column '{column}', which the files before it have; give files with the same columns")]
    FileColumn { path: String, column: String },
    #[error("{path} has changed while it was being read; start again when it does not change any more")]
    SourceChanged { path: String },
    #[error("the cache {path} cannot be used: {reason}; remove it and start again")]
    Cache { path: String, reason: String },
    #[error("the checkpoint {path} cannot be used: {reason}")]
    Checkpoint { path: String, reason: String },
    #[error("a cache folder and a checkpoint need files to go back to; write the batches to a file first")]
    NeedsFiles,
    #[error(
        "the column '{column}' holds numbers at first and text later, and these batches can be read only once; say that it is a \
         category, or give a file or a dataset"
    )]
    ReadOnce { column: String },
    #[error("cannot write {path}: {reason}")]
    Write { path: String, reason: String },
    #[error(transparent)]
    Output(#[from] OutputError),
    #[error("{path} is empty; give a table with a header and at least one row")]
    Empty { path: String },
    #[error("{path} has no rows, only a header; give a table with at least one row")]
    NoRows { path: String },
    #[error("{path} is not a readable {kind} table: {reason}")]
    Malformed { path: String, kind: &'static str, reason: String },
    #[error("{path} is damaged or not {compression} data: {reason}")]
    Compression { path: String, compression: &'static str, reason: String },
    #[error("{path} is larger than {}, which is what there is memory for; allow more by --memory SIZE, or give a file, which fit and predict can read in pieces (--cache)", size_words(*.most))]
    TooLarge { path: String, most: u64 },
    #[error("{path} has {columns} columns, more than the {most} that a table may have; leave some out")]
    TooManyColumns { path: String, columns: usize, most: usize },
    #[error("the column '{column}' has {levels} levels{}, more than the {most} that a category may have; group rare levels, exclude the column, or allow more by --most-levels", if *.has_more { " and more" } else { "" })]
    TooManyLevels { column: String, levels: usize, has_more: bool, most: usize },
    #[error("a fit of {rows} rows and {features} features takes about {}, more than the {} there is; allow more by --memory SIZE, or use fewer columns or levels", size_words(*.needed), size_words(*.memory))]
    Memory { rows: u64, features: u64, needed: u64, memory: u64 },
    #[error("{path} has two columns named '{column}'; rename one of them")]
    DuplicateColumn { path: String, column: String },
    #[error("'{text}' is not a format; use csv, tsv, parquet, arrow or jsonl")]
    UnknownFormat { text: String },
    #[error("there is no column '{column}'{}; the columns are {}", suggestion(.column, .known), list(.known))]
    NoSuchColumn { column: String, known: Vec<String> },
    #[error("the column '{column}' holds {found}, but {role} must be numbers; choose another column or clean it")]
    NotNumeric { column: String, found: String, role: &'static str },
    #[error("missing values in {}; use --missing drop to leave those rows out, or --missing impute to fill them in", columns_and_counts(.columns))]
    Missing { columns: Vec<(String, usize)> },
    #[error("the column '{column}' is missing in row {}; the {role} cannot be filled in: use --missing drop or clean it", .row + 1)]
    MissingRole { column: String, row: usize, role: &'static str },
    #[error("missing values in {}; the model was fitted to a table without any: fill them in, or fit it with --missing drop or --missing impute", columns_and_counts(.columns))]
    ModelMissing { columns: Vec<(String, usize)> },
    #[error("no columns are left to fit{}", because(.reasons))]
    NothingLeft { reasons: Vec<String> },
    #[error("'{column}' is the target and cannot be an input too; leave it out of --include")]
    TargetAsInput { column: String },
    #[error("no rows are left after dropping those with missing values")]
    AllDropped,
    #[error("column '{column}', row {}, is {value}; weights cannot be negative: clean the row or drop it", .row + 1)]
    NegativeWeight { column: String, row: usize, value: f64 },
    #[error("{path}: {error}")]
    InFile { path: String, error: Box<TableError> },
    #[error("all weights in '{column}' are zero; at least one row has to count")]
    NoWeight { column: String },
    #[error("the column '{column}' cannot be used: {reason}; exclude it, or leave out --strict")]
    Unusable { column: String, reason: String },
    #[error("the model needs the column '{column}'{}, which the table does not have", suggestion(.column, .known))]
    ModelColumn { column: String, known: Vec<String> },
    #[error("the column '{column}', row {}, is '{value}' where the model expects a number", .row + 1)]
    ExpectedNumber { column: String, row: usize, value: String },
    #[error("column '{column}', row {}, is {value}; the value is not finite: clean the row or drop it", .row + 1)]
    NotFinite { column: String, row: usize, value: f64 },
}

impl TableError {
    /// The same where rows are counted from one further down.
    pub(crate) fn after(mut self, rows: usize) -> Self {
        if let Self::MissingRole { row, .. }
        | Self::ExpectedNumber { row, .. }
        | Self::NotFinite { row, .. }
        | Self::NegativeWeight { row, .. } = &mut self
        {
            *row += rows;
        }
        self
    }

    /// The same with the file whose rows it counts.
    pub(crate) fn in_file(self, path: &str) -> Self {
        Self::InFile { path: path.to_owned(), error: Box::new(self) }
    }
}

fn list(names: &[String]) -> String {
    const MOST: usize = 12;
    let mut text = names.iter().take(MOST).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text += &format!(" and {} more", names.len() - MOST);
    }
    text
}

fn because(reasons: &[String]) -> String {
    const MOST: usize = 4;
    let more = if reasons.len() > MOST { format!("; and {} more", reasons.len() - MOST) } else { String::new() };
    match reasons {
        [] => " beside the target; give a table with more columns".to_owned(),
        _ => format!(": {}{more}", reasons.iter().take(MOST).cloned().collect::<Vec<_>>().join("; ")),
    }
}

fn columns_and_counts(columns: &[(String, usize)]) -> String {
    const MOST: usize = 6;
    let rows = |count: usize| if count == 1 { "1 row".to_owned() } else { format!("{count} rows") };
    let shown = columns.iter().take(MOST).map(|(name, count)| format!("'{name}' ({})", rows(*count)));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if columns.len() > MOST {
        text += &format!(" and {} more columns", columns.len() - MOST);
    }
    text
}

/// What the file system said, without its numbers.
pub fn io_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
        std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::NotADirectory => {
            "it is a file, not a folder".to_owned()
        }
        std::io::ErrorKind::StorageFull => "the disk is full".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested() {
        let known = vec!["price".to_owned(), "area".to_owned()];
        let message = TableError::NoSuchColumn { column: "Prise".into(), known: known.clone() }.to_string();
        assert!(message.contains("did you mean 'price'?"), "{message}");
        let message = TableError::NoSuchColumn { column: "weather".into(), known }.to_string();
        assert!(!message.contains("did you mean"), "{message}");
        assert!(message.contains("'price', 'area'"), "{message}");
    }
}
