use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::ArrowWriter;
use tempfile::NamedTempFile;

use crate::error::{TableError, io_words};
use crate::format::{Compression, Format, Kind};
use crate::table::Table;

/// Names that would promise another format than the CSV they would get.
const OTHER_FORMATS: [&str; 9] = ["xlsx", "xls", "ods", "dta", "sav", "json", "html", "pdf", "zip"];

/// Writes a table to a file, whole or not at all, or to standard output for `-` (as CSV). The format is that of the name,
/// CSV if it tells none.
pub fn write(table: &Table, path: &Path) -> Result<(), TableError> {
    let mut writer = TableWriter::create(path)?;
    writer.write(table)?;
    writer.finish()
}

/// Writes under another name beside the file first, so that a reader never sees half of it.
pub fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = temporary(path)?;
    file.write_all(bytes)?;
    put(file, path)
}

fn temporary(path: &Path) -> std::io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".robustard-").suffix(".tmp");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

fn put(file: NamedTempFile, path: &Path) -> std::io::Result<()> {
    file.persist(path).map(|_| ()).map_err(|error| error.error)
}

/// Writes a table some rows at a time: to a file whole or not at all, or to standard output.
pub struct TableWriter {
    path: PathBuf,
    sink: Sink,
    /// Of the first rows; the others are written as these.
    schema: Option<SchemaRef>,
}

/// Where bytes go; files under another name until they are whole.
enum Target {
    Stdout(std::io::Stdout),
    File(BufWriter<NamedTempFile>),
}

enum Packed {
    Plain(Target),
    Gzip(flate2::write::GzEncoder<Target>),
    Zstd(zstd::stream::write::Encoder<'static, Target>),
}

enum Sink {
    Text { kind: Kind, out: Packed },
    Parquet { out: Option<Packed>, writer: Option<ArrowWriter<Packed>> },
    Arrow { out: Option<Packed>, writer: Option<arrow_ipc::writer::FileWriter<Packed>> },
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::File(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::File(out) => out.flush(),
        }
    }
}

impl Write for Packed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(out) => out.write(bytes),
            Self::Zstd(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(out) => out.flush(),
            Self::Zstd(out) => out.flush(),
        }
    }
}

impl Packed {
    fn finish(self) -> std::io::Result<Target> {
        match self {
            Self::Plain(target) => Ok(target),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl TableWriter {
    /// Writes nothing yet; a file that is there stays until [`Self::finish`].
    pub fn create(path: &Path) -> Result<Self, TableError> {
        let failed = |reason: String| TableError::Write { path: path.display().to_string(), reason };
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        if OTHER_FORMATS.iter().any(|other| extension == *other) {
            let extension = extension.to_string_lossy();
            return Err(failed(format!(
                "tables are not written as .{extension}; use .csv, .tsv, .parquet, .arrow or .jsonl"
            )));
        }
        let format = Format::of_path(path).unwrap_or(Format { kind: Kind::Csv, compression: Compression::None });
        let target = if path == Path::new("-") {
            Target::Stdout(std::io::stdout())
        } else {
            Target::File(BufWriter::new(temporary(path).map_err(|error| failed(io_words(&error)))?))
        };
        let packed = match format.compression {
            Compression::None => Packed::Plain(target),
            Compression::Gzip => Packed::Gzip(flate2::write::GzEncoder::new(target, flate2::Compression::default())),
            Compression::Zstd => {
                Packed::Zstd(zstd::stream::write::Encoder::new(target, 0).map_err(|error| failed(io_words(&error)))?)
            }
        };
        let sink = match format.kind {
            Kind::Parquet => Sink::Parquet { out: Some(packed), writer: None },
            Kind::Arrow => Sink::Arrow { out: Some(packed), writer: None },
            kind => Sink::Text { kind, out: packed },
        };
        Ok(Self { path: path.to_owned(), sink, schema: None })
    }

    /// Writes more rows of the same columns.
    pub fn write(&mut self, table: &Table) -> Result<(), TableError> {
        let is_first = self.schema.is_none();
        let schema = self.schema.get_or_insert_with(|| table.batch().schema());
        let batch = match &self.sink {
            // Text has no types.
            Sink::Text { .. } => table.batch().clone(),
            _ => alike(table.batch(), schema)
                .map_err(|reason| TableError::Write { path: self.path.display().to_string(), reason })?,
        };
        write_batch(&mut self.sink, &batch, is_first).map_err(|error| failed(&self.path, &error))
    }

    /// Ends the file and gives it its name.
    pub fn finish(self) -> Result<(), TableError> {
        let Self { path, sink, .. } = self;
        let packed = match sink {
            Sink::Text { out, .. } => Ok(Some(out)),
            Sink::Parquet { out, writer } => match writer {
                Some(writer) => writer.into_inner().map(Some).map_err(ArrowError::from),
                None => Ok(out),
            },
            Sink::Arrow { out, writer } => match writer {
                Some(mut writer) => writer.finish().and_then(|()| writer.into_inner()).map(Some),
                None => Ok(out),
            },
        };
        let Some(packed) = packed.map_err(|error| failed(&path, &error))? else { return Ok(()) };
        let whole = packed.finish().and_then(|target| match target {
            Target::Stdout(mut out) => out.flush(),
            Target::File(file) => put(file.into_inner().map_err(|error| error.into_error())?, &path),
        });
        whole.map_err(|error| TableError::Write { path: path.display().to_string(), reason: io_words(&error) })
    }
}

fn failed(path: &Path, error: &ArrowError) -> TableError {
    let reason = match error {
        ArrowError::IoError(_, io) => io_words(io),
        other => other.to_string(),
    };
    TableError::Write { path: path.display().to_string(), reason }
}

/// Rows with the types of the first ones.
fn alike(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, String> {
    if batch.schema_ref() == schema {
        return Ok(batch.clone());
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let column = |field: &Arc<arrow_schema::Field>| {
        let name = field.name();
        let column = batch.column_by_name(name).ok_or_else(|| format!("later rows have no column '{name}'"))?;
        let cast = cast_with_options(column, field.data_type(), &options).ok();
        // Whole numbers at first and others later would lose their digits.
        let back = cast.as_ref().and_then(|cast| cast_with_options(cast, column.data_type(), &options).ok());
        cast.filter(|_| back.as_ref() == Some(column)).ok_or_else(|| {
            format!("the column '{name}' is of another type in later rows than in the first ones; write .csv")
        })
    };
    let columns = schema.fields().iter().map(column).collect::<Result<Vec<_>, String>>()?;
    RecordBatch::try_new(schema.clone(), columns).map_err(|error| error.to_string())
}

fn write_batch(sink: &mut Sink, batch: &RecordBatch, is_first: bool) -> Result<(), ArrowError> {
    match sink {
        Sink::Text { kind: Kind::JsonLines, out } => {
            let mut writer = arrow_json::LineDelimitedWriter::new(out);
            writer.write(batch)?;
            writer.finish()
        }
        Sink::Text { kind, out } => {
            let delimiter = if *kind == Kind::Tsv { b'\t' } else { b',' };
            arrow_csv::WriterBuilder::new().with_delimiter(delimiter).with_header(is_first).build(out).write(batch)
        }
        Sink::Parquet { out, writer } => {
            if let Some(out) = out.take() {
                *writer = Some(ArrowWriter::try_new(out, batch.schema(), None)?);
            }
            writer.as_mut().map_or(Ok(()), |writer| Ok(writer.write(batch)?))
        }
        Sink::Arrow { out, writer } => {
            if let Some(out) = out.take() {
                *writer = Some(arrow_ipc::writer::FileWriter::try_new(out, batch.schema_ref())?);
            }
            writer.as_mut().map_or(Ok(()), |writer| writer.write(batch))
        }
    }
}
