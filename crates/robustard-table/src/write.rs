use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::ArrowWriter;

use crate::error::{TableError, io_words};
use crate::files::Existing;
use crate::format::{Compression, Format, Kind};
use crate::output::{Output, OutputError, Sealed, Trouble, publish};
use crate::table::Table;

/// Names that would promise another format than the CSV they would get.
const OTHER_FORMATS: [&str; 9] = ["xlsx", "xls", "ods", "dta", "sav", "json", "html", "pdf", "zip"];

/// Writes a table to a file, whole or not at all, or to standard output for `-` (as CSV). The format is that of the name,
/// CSV if it tells none. What has the name is replaced.
pub fn write(table: &Table, path: &Path) -> Result<(), TableError> {
    let mut writer = TableWriter::create(path, Existing::Replace)?;
    writer.write(table)?;
    writer.finish()
}

/// Writes a table some rows at a time: to a file whole or not at all, or to standard output.
pub struct TableWriter {
    path: PathBuf,
    sink: Sink,
    trouble: Trouble,
    /// Of the first rows; the others are written as these.
    schema: Option<SchemaRef>,
}

enum Packed {
    Plain(Output),
    Gzip(flate2::write::GzEncoder<Output>),
    Zstd(zstd::stream::write::Encoder<'static, Output>),
}

enum Sink {
    Text { kind: Kind, out: Packed },
    Parquet { out: Option<Packed>, writer: Option<ArrowWriter<Packed>> },
    Arrow { out: Option<Packed>, writer: Option<arrow_ipc::writer::FileWriter<Packed>> },
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
    fn finish(self) -> std::io::Result<Output> {
        match self {
            Self::Plain(output) => Ok(output),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl TableWriter {
    /// Writes nothing yet; a file that is there stays until [`Self::finish`].
    pub fn create(path: &Path, existing: Existing) -> Result<Self, TableError> {
        let failed = |reason: String| TableError::Write { path: path.display().to_string(), reason };
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        if OTHER_FORMATS.iter().any(|other| extension == *other) {
            let extension = extension.to_string_lossy();
            return Err(failed(format!(
                "tables are not written as .{extension}; use .csv, .tsv, .parquet, .arrow or .jsonl"
            )));
        }
        let format = Format::of_path(path).unwrap_or(Format { kind: Kind::Csv, compression: Compression::None });
        let output = Output::create(path, existing)?;
        let trouble = output.trouble();
        let packed = match format.compression {
            Compression::None => Packed::Plain(output),
            Compression::Gzip => Packed::Gzip(flate2::write::GzEncoder::new(output, flate2::Compression::default())),
            Compression::Zstd => {
                Packed::Zstd(zstd::stream::write::Encoder::new(output, 0).map_err(|error| failed(io_words(&error)))?)
            }
        };
        let sink = match format.kind {
            Kind::Parquet => Sink::Parquet { out: Some(packed), writer: None },
            Kind::Arrow => Sink::Arrow { out: Some(packed), writer: None },
            kind => Sink::Text { kind, out: packed },
        };
        Ok(Self { path: path.to_owned(), sink, trouble, schema: None })
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
        write_batch(&mut self.sink, &batch, is_first).map_err(|error| failed(&self.path, &self.trouble, &error))
    }

    /// Ends the file and gives it its name.
    pub fn finish(self) -> Result<(), TableError> {
        Ok(publish(vec![self.seal()?])?)
    }

    /// Ends the file; it gets its name by [`publish`].
    pub fn seal(self) -> Result<Sealed, TableError> {
        let Self { path, sink, trouble, .. } = self;
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
        let packed = packed.map_err(|error| failed(&path, &trouble, &error))?;
        let packed = packed.ok_or_else(|| TableError::NoRows { path: path.display().to_string() })?;
        let output = packed.finish().map_err(|error| OutputError { path, error })?;
        Ok(output.seal()?)
    }
}

/// What went wrong, as the system said it if it was its word.
fn failed(path: &Path, trouble: &Trouble, error: &ArrowError) -> TableError {
    match trouble.error() {
        Some(error) => OutputError { path: path.to_owned(), error }.into(),
        None => TableError::Write { path: path.display().to_string(), reason: error.to_string() },
    }
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
