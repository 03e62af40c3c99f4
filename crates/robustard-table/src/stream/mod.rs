//! Tables larger than memory: read piece by piece, converted once to a cache of numbers, and fitted by passes over it.

mod cache;
mod checkpoint;
mod partitions;
mod pieces;
#[cfg_attr(not(feature = "remote"), path = "no_remote.rs")]
mod remote;
mod rows;
mod scan;
mod sources;

use std::fs::File;
use std::path::{Path, PathBuf};

use robustard::{Control, Diagnostics, Progress, Recipe, SAMPLE_ROWS, Stage, StreamTask};
use sha2::{Digest, Sha256};

use self::cache::{Cache, CacheWriter};
use self::checkpoint::Checkpoint;
pub use self::partitions::{PartitionRows, Run, diagnose_batches, fit_partitions, partial_sums};
pub use self::pieces::{Batches, Input};
use self::pieces::{Piece, Pieces};
use self::rows::{CachedRows, Looked};
use self::scan::{Mixed, Scan, scan};
use self::sources::memory_needed;
pub use self::sources::{Source, is_pipe, sources};
use crate::encode::{EncodeOptions, Encoder};
use crate::error::{TableError, io_words};
use crate::facts::median;
use crate::files;
use crate::limits::{Limits, free_memory};
use crate::model::{ModelError, TableModel};
use crate::output::make_output_folder;
use crate::read::{ReadOptions, read};
use crate::table::Table;

/// When a fit is streamed, and where it keeps what does not fit in memory.
#[derive(Debug, Clone, Default)]
pub struct StreamOptions {
    /// Bytes that a fit in memory may take [default: half of what is free].
    pub memory: Option<u64>,
    /// A folder for the cache, where it stays for the next fit of the same files; else a temporary file without a name.
    pub cache: Option<PathBuf>,
    /// Written after each pass; a fit that was killed goes on from it.
    pub checkpoint: Option<PathBuf>,
}

impl StreamOptions {
    /// Whether files are fitted by passes: if they take more than the memory, or if something is asked for that only passes have.
    pub fn streams(&self, sources: &[Source]) -> bool {
        let limit = self.memory.or_else(|| free_memory().map(|free| free / 2));
        self.cache.is_some() || self.checkpoint.is_some() || limit.is_some_and(|limit| memory_needed(sources) > limit)
    }
}

/// What a streamed fit gives back.
#[derive(Debug)]
pub struct StreamedFit {
    /// The model.
    pub model: TableModel,
    /// Its sample of the table: the rows that it keeps.
    pub sample: Table,
    /// The columns of the table.
    pub names: Vec<String>,
    /// Things to tell the user.
    pub notes: Vec<String>,
}

/// Shown the rows of each partition in the last pass: their ids, or their numbers in the table counted from 1, and what they are.
pub type ShowRows<'s> = dyn FnMut(&[String], &Diagnostics) -> Result<(), TableError> + Send + 's;

/// The rows of files, piece by piece.
pub struct PieceReader<'s> {
    pieces: Pieces<'s>,
    rows: usize,
}

impl<'s> PieceReader<'s> {
    /// From the first row on.
    pub fn new(sources: &'s [Source], reading: &ReadOptions) -> Self {
        Self { pieces: Pieces::new(Input::Files(sources), reading), rows: 0 }
    }

    /// The next rows, and how many came before them; none at the end.
    pub fn read(&mut self) -> Result<Option<(Table, usize)>, TableError> {
        let Some(Piece { table, .. }) = self.pieces.next().map_err(|error| error.after(self.rows))? else {
            return Ok(None);
        };
        let before = self.rows;
        self.rows += table.row_count();
        Ok(Some((table, before)))
    }
}

/// The table in files, which are read at once.
pub fn read_sources(sources: &[Source], reading: &ReadOptions) -> Result<Table, TableError> {
    match sources {
        [one] if one.is_whole() => read(&one.path, reading),
        _ => read_all(sources, reading),
    }
}

/// All rows of files as one table. Columns that hold numbers in some files and text in others hold text.
fn read_all(sources: &[Source], reading: &ReadOptions) -> Result<Table, TableError> {
    let mut pieces = Pieces::new(Input::Files(sources), reading);
    let mut tables = Vec::new();
    while let Some(Piece { table, source }) = pieces.next()? {
        tables.push((table, sources[source].name()));
    }
    match tables.len() {
        0 => Err(TableError::NoRows { path: sources.first().map_or_else(String::new, Source::name) }),
        1 => Ok(tables.remove(0).0),
        _ => Table::joined(&tables),
    }
}

/// Fits the rows of a table without having them all in memory.
pub fn fit_stream(
    input: Input<'_>,
    reading: &ReadOptions,
    columns: &EncodeOptions,
    recipe: &Recipe,
    control: &Control,
    options: &StreamOptions,
    mut show: Option<&mut ShowRows<'_>>,
) -> Result<StreamedFit, ModelError> {
    let task = fingerprint(input, reading, columns)?;
    if matches!(input, Input::Batches(_)) && (options.cache.is_some() || options.checkpoint.is_some()) {
        return Err(TableError::NeedsFiles.into());
    }
    control.tell(Progress::Stage(&Stage::Reading));
    let (cache, scan) = cached(input, reading, columns, options, &task, control)?;
    let encoder = encoder(&cache, &scan, columns)?;
    // Few bytes may be a way to ask for passes: what these need has to be free.
    Limits::default().check_fit(SAMPLE_ROWS.min(usize::try_from(scan.rows).unwrap_or(usize::MAX)), encoder.width())?;
    let mut rows = CachedRows::new(cache, &scan, &encoder);
    let Looked { moments, sample, drawn, fingerprint, without_weight, with_missing } =
        control.run(|| rows.look(&encoder, recipe.seed(), control))?;
    let rows = rows;
    let mut notes = Vec::new();
    if with_missing > 0 {
        notes.push(format!("{with_missing} rows with missing values are left out"));
    }
    if without_weight > 0 {
        notes.push(format!("{without_weight} rows of weight 0 are left out"));
    }
    let settings = serde_json::to_string(recipe).unwrap_or_default();
    let mut checkpoint =
        options.checkpoint.as_deref().map(|path| Checkpoint::open(path, &task, &settings)).transpose()?;
    let last = checkpoint.as_ref().and_then(|checkpoint| checkpoint.last.clone());
    let mut keep = |bytes: &[u8]| checkpoint.as_mut().map_or(Ok(()), |checkpoint| checkpoint.write(bytes));
    let mut partition = 0;
    let mut show_rows = |_first: u64, diagnostics: &Diagnostics| {
        if let Some(show) = &mut show {
            show(&rows.labels(partition)?, diagnostics)?;
        }
        partition += 1;
        Ok(())
    };
    let regression = robustard::fit_stream(
        &rows,
        StreamTask {
            sample: &sample,
            moments: &moments,
            recipe,
            control,
            resume: last.as_deref(),
            keep: Some(&mut keep),
        },
        Some(&mut show_rows),
    )?;
    if let Some(path) = options.checkpoint.as_ref().filter(|_| !control.is_stopped()) {
        // There is nothing to go on with.
        let _ = files::remove(path);
    }
    input.files().iter().try_for_each(Source::check)?;
    let suspicious: Vec<u64> =
        regression.whole().iter().flat_map(|whole| &whole.suspicious).map(|row| row.row).collect();
    let suspicious = rows.labels_of(&suspicious)?;
    let table_rows = usize::try_from(scan.rows).unwrap_or(usize::MAX);
    let ids = rows.labels_of(&drawn.iter().map(|row| row.fitted).collect::<Vec<u64>>())?;
    let table = encoder.decode(&sample, &ids);
    let kept = drawn.iter().map(|row| row.of_table).collect();
    let model = TableModel::of_stream(encoder, regression, kept, table_rows, fingerprint, suspicious);
    let model = model.with_ids(|place, _| ids.get(place).cloned());
    Ok(StreamedFit { model, sample: table, names: scan.names, notes })
}

/// Shows the diagnoses of the rows of files that a model was fitted to by passes, partition by partition.
pub fn diagnose_files(
    model: &TableModel,
    sources: &[Source],
    reading: &ReadOptions,
    control: &Control,
    show: &mut ShowRows<'_>,
) -> Result<(), ModelError> {
    let encoder = model.encoder();
    // The columns that the model uses, whatever else there is.
    let columns = EncodeOptions {
        include: encoder.columns.iter().map(|column| column.name.clone()).collect(),
        categorical: encoder.categories(),
        weights: encoder.weights.clone(),
        id: encoder.id.clone(),
        missing: encoder.missing,
        ..EncodeOptions::new(&encoder.target)
    };
    let input = Input::Files(sources);
    let task = fingerprint(input, reading, &columns)?;
    control.tell(Progress::Stage(&Stage::Reading));
    let (cache, scan) = cached(input, reading, &columns, &StreamOptions::default(), &task, control)?;
    let mut rows = CachedRows::new(cache, &scan, encoder);
    let looked = control.run(|| rows.look(encoder, 0, control))?;
    if looked.fingerprint != *model.fingerprint() {
        return Err(TableError::OtherTable.into());
    }
    let rows = rows;
    let mut partition = 0;
    let mut show_rows = |_first: u64, diagnostics: &Diagnostics| {
        show(&rows.labels(partition)?, diagnostics)?;
        partition += 1;
        Ok(())
    };
    Ok(robustard::diagnose_stream(model.regression(), &rows, control, &mut show_rows)?)
}

/// What is read and how, in words: two fits with the same can share a cache.
fn fingerprint(input: Input<'_>, reading: &ReadOptions, columns: &EncodeOptions) -> Result<String, TableError> {
    let whole: std::io::Result<Vec<Source>> = input.files().iter().map(Source::absolute).collect();
    let whole = whole.map_err(|error| TableError::Read { path: ".".to_owned(), reason: io_words(&error) })?;
    let parts = [
        serde_json::to_string(&whole).unwrap_or_default(),
        serde_json::to_string(columns).unwrap_or_default(),
        format!("{:?} {}", ReadOptions { limits: Limits::default(), ..reading.clone() }, env!("CARGO_PKG_VERSION")),
    ];
    let digest = Sha256::digest(parts.join("\n"));
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The cache of a table: the one that is kept, if there is one, or a new one.
fn cached(
    input: Input<'_>,
    reading: &ReadOptions,
    columns: &EncodeOptions,
    options: &StreamOptions,
    task: &str,
    control: &Control,
) -> Result<(Cache, Scan), ModelError> {
    let kept = options.cache.as_ref().map(|folder| folder.join(format!("robustard-{}.arrow", &task[..16])));
    if let Some(path) = kept.as_ref().filter(|path| path.is_file()) {
        let cache = Cache::open(open(path)?, path)?;
        let scan = serde_json::from_str(&cache.note);
        let scan = scan.map_err(|error| cache_error(path, &error.to_string()))?;
        return Ok((cache, scan));
    }
    let folder = match &options.cache {
        Some(folder) => {
            make_output_folder(folder).map_err(TableError::from)?;
            files::clean(folder);
            folder.clone()
        }
        None => std::env::temp_dir(),
    };
    let failed =
        |error: std::io::Error| TableError::Write { path: folder.display().to_string(), reason: io_words(&error) };
    let mut text: Vec<String> = Vec::new();
    loop {
        // Without a name, so that nothing is left behind whatever happens.
        let file = files::unnamed(&folder).map_err(failed)?;
        let shown = folder.join("(temporary cache)");
        let files = input.files().len().max(1);
        let tell = |rows: u64, source: usize| {
            control.tell(Progress::Share(source as f64 / files as f64));
            if control.is_stopped() { Err(TableError::Stopped { rows }) } else { Ok(()) }
        };
        let make = |numbers: &[String], texts: Option<&str>| CacheWriter::new(file, &shown, numbers, texts);
        let outcome = control.run(|| scan(input, reading, columns, &text, make, tell));
        let (scanned, writer) = match outcome {
            Err(TableError::Stopped { .. }) => return Err(robustard::Error::Stopped.into()),
            Err(TableError::ReadOnce { .. }) => {
                return Err(TableError::ReadOnce { column: text.pop().unwrap_or_default() }.into());
            }
            Err(error) => return Err(error.into()),
            Ok(Ok(found)) => found,
            Ok(Err(Mixed(column))) => {
                text.push(column);
                continue;
            }
        };
        let note = serde_json::to_string(&scanned).map_err(|error| cache_error(&shown, &error.to_string()))?;
        let file = writer.finish(&note)?;
        let cache = Cache::open(file, &shown)?;
        if let Some(path) = &kept {
            cache.keep_as(path)?;
        }
        return Ok((cache, scanned));
    }
}

fn open(path: &Path) -> Result<File, TableError> {
    File::open(path).map_err(|error| cache_error(path, &io_words(&error)))
}

fn cache_error(path: &Path, reason: &str) -> TableError {
    TableError::Cache { path: path.display().to_string(), reason: reason.to_owned() }
}

/// How columns are used, by all rows; medians are those of the first block's.
fn encoder(cache: &Cache, scan: &Scan, options: &EncodeOptions) -> Result<Encoder, TableError> {
    let first = cache.read(0)?;
    let place = |name: &String| scan.columns.iter().position(|column| column.name == *name);
    let facts = |name: &String| match place(name) {
        Some(place) => Ok(scan.columns[place].facts.clone()),
        None => Err(TableError::NoSuchColumn { column: name.clone(), known: scan.names.clone() }),
    };
    let median = |name: &String| place(name).map_or(0.0, |place| median(first.numbers(place)));
    Encoder::of_facts(&scan.names, facts, median, options)
}
