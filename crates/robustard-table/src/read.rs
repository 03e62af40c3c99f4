use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow_schema::{ArrowError, Schema};
use arrow_select::concat::concat;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::reader::ChunkReader;
use rayon::prelude::*;

use crate::csv;
use crate::error::{TableError, io_words};
use crate::format::{Compression, Format, Kind, PARQUET_MAGIC, compression_of, kind_of};
use crate::limits::{Limits, caught};
use crate::packed;
use crate::table::Table;

/// Rows of a Parquet batch.
const MOST_BATCH_ROWS: usize = 1 << 22;

/// Whether the first line of delimited text names the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// Found out.
    Auto,
    /// It does.
    Yes,
    /// It does not; columns are named c1, c2, ….
    No,
}

/// How to read a table; everything is found out unless given.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Layout.
    pub kind: Option<Kind>,
    /// Delimiter of delimited text.
    pub delimiter: Option<u8>,
    /// Header of delimited text.
    pub header: Header,
    /// Columns of delimited text that are names even if they look like numbers: 007 stays 007.
    pub text_columns: Vec<String>,
    /// The most that is read.
    pub limits: Limits,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { kind: None, delimiter: None, header: Header::Auto, text_columns: Vec::new(), limits: Limits::default() }
    }
}

/// What is known about text columns of a table.
#[derive(Default)]
pub(crate) struct Reading<'a> {
    /// 1,5 is one and a half.
    pub decimal_comma: bool,
    /// Columns that stay text.
    pub text_columns: &'a [String],
}

/// Reads a file, or standard input for `-`.
pub fn read(path: &Path, options: &ReadOptions) -> Result<Table, TableError> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let failed = |error: std::io::Error| TableError::Read { path: name.clone(), reason: io_words(&error) };
    // A Parquet file is read piece by piece, by several threads; all else at once.
    let may_be_parquet = !is_stdin && options.kind.is_none_or(|kind| kind == Kind::Parquet);
    if may_be_parquet && starts_with(path, PARQUET_MAGIC).map_err(failed)? {
        let open = || File::open(path).map_err(ArrowError::from);
        let (schema, batches) = read_parquet(open).map_err(|error| malformed(&name, Kind::Parquet, &error))?;
        return to_table(&schema, batches, &name, Kind::Parquet, &Reading::default(), options);
    }
    let bytes = if is_stdin {
        read_limited(std::io::stdin().lock(), &name, options)?.map_err(failed)?
    } else if path.metadata().is_ok_and(|metadata| metadata.is_file()) {
        std::fs::read(path).map_err(failed)?
    } else {
        read_limited(File::open(path).map_err(failed)?, &name, options)?.map_err(failed)?
    };
    let guess = Format::of_path(path).map(|format| format.kind);
    read_content(bytes, &name, options, guess)
}

/// All bytes of a pipe or a packed file, whose size is not known before; more than there is memory for are refused.
fn read_limited(reader: impl Read, name: &str, options: &ReadOptions) -> Result<std::io::Result<Vec<u8>>, TableError> {
    let most = options.limits.text();
    let mut bytes = Vec::new();
    match reader.take(most.saturating_add(1)).read_to_end(&mut bytes) {
        Ok(read) if read as u64 > most => Err(TableError::TooLarge { path: name.to_owned(), most }),
        Err(error) if error.kind() == std::io::ErrorKind::OutOfMemory => {
            Err(TableError::TooLarge { path: name.to_owned(), most: bytes.len() as u64 })
        }
        result => Ok(result.map(|_| bytes)),
    }
}

/// A pipe is not looked into: what is read from it once is gone.
fn starts_with(path: &Path, magic: &[u8]) -> std::io::Result<bool> {
    if !path.metadata()?.is_file() {
        return Ok(false);
    }
    let mut start = Vec::with_capacity(magic.len());
    File::open(path)?.take(magic.len() as u64).read_to_end(&mut start)?;
    Ok(start == magic)
}

/// Reads a table from memory; `name` is what messages call it.
pub fn read_bytes(bytes: Vec<u8>, name: &str, options: &ReadOptions) -> Result<Table, TableError> {
    read_content(bytes, name, options, None)
}

/// What a given kind says counts most, then what the content shows, then the `guess` that the name allows.
fn read_content(bytes: Vec<u8>, name: &str, options: &ReadOptions, guess: Option<Kind>) -> Result<Table, TableError> {
    if bytes.is_empty() {
        return Err(TableError::Empty { path: name.to_owned() });
    }
    let bytes = decompress(bytes, name, options)?;
    let kind = options.kind.unwrap_or_else(|| kind_by(&bytes, guess));
    if kind.is_text() && bytes.trim_ascii().is_empty() {
        return Err(TableError::Empty { path: name.to_owned() });
    }
    let malformed = |error: ArrowError| malformed(name, kind, &error);
    let (schema, batches) = match kind {
        Kind::Csv | Kind::Tsv => return csv_table(&bytes, name, kind, options),
        Kind::JsonLines => return json_table(&bytes, name, options),
        Kind::Parquet => {
            let bytes = Bytes::from(bytes);
            read_parquet(|| Ok(bytes.clone())).map_err(malformed)?
        }
        Kind::Arrow => read_arrow(bytes, options.limits.text()).map_err(malformed)?,
    };
    let reading = Reading { text_columns: &options.text_columns, ..Reading::default() };
    to_table(&schema, batches, name, kind, &reading, options)
}

/// The kind that the first bytes show, or the name.
pub(crate) fn kind_by(bytes: &[u8], guess: Option<Kind>) -> Kind {
    match (kind_of(bytes), guess) {
        // A Parquet file called .csv is a Parquet file.
        (Kind::Csv | Kind::JsonLines, Some(kind)) => kind,
        (shown, _) => shown,
    }
}

pub(crate) fn is_utf16(name: &str, kind: Kind) -> TableError {
    let reason = "it is UTF-16 text; save it as UTF-8, for example by iconv -f utf-16 -t utf-8".to_owned();
    TableError::Malformed { path: name.to_owned(), kind: kind.name(), reason }
}

/// A table of delimited text.
pub(crate) fn csv_table(bytes: &[u8], name: &str, kind: Kind, options: &ReadOptions) -> Result<Table, TableError> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(is_utf16(name, kind));
    }
    let delimiter = csv_delimiter(bytes, kind, options);
    // Where commas do not part fields they are decimal commas.
    let reading = Reading { decimal_comma: delimiter != b',', text_columns: &options.text_columns };
    let (schema, batches) = read_csv(bytes, delimiter, options).map_err(|error| malformed(name, kind, &error))?;
    to_table(&schema, batches, name, kind, &reading, options)
}

/// A table of JSON lines.
pub(crate) fn json_table(bytes: &[u8], name: &str, options: &ReadOptions) -> Result<Table, TableError> {
    let kind = Kind::JsonLines;
    let (schema, batches) = read_json(bytes).map_err(|error| match first_bad_line(bytes) {
        Some(reason) => TableError::Malformed { path: name.to_owned(), kind: kind.name(), reason },
        None => malformed(name, kind, &error),
    })?;
    to_table(&schema, batches, name, kind, &Reading::default(), options)
}

fn to_table(
    schema: &Arc<Schema>,
    batches: Vec<RecordBatch>,
    name: &str,
    kind: Kind,
    reading: &Reading<'_>,
    options: &ReadOptions,
) -> Result<Table, TableError> {
    let (columns, most) = (schema.fields().len(), options.limits.columns);
    if columns > most {
        return Err(TableError::TooManyColumns { path: name.to_owned(), columns, most });
    }
    let join = |column: usize| {
        let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(column).as_ref()).collect();
        match batches.as_slice() {
            [] => Ok(new_empty_array(schema.field(column).data_type())),
            [only] => Ok(only.column(column).clone()),
            _ => concat(&parts),
        }
    };
    let columns = (0..schema.fields().len()).into_par_iter().map(join).collect::<Result<Vec<_>, _>>();
    let batch = columns.and_then(|columns| {
        let rows = RecordBatchOptions::new().with_row_count(Some(batches.iter().map(RecordBatch::num_rows).sum()));
        RecordBatch::try_new_with_options(schema.clone(), columns, &rows)
    });
    let batch = batch.map_err(|error| malformed(name, kind, &error))?;
    if batch.num_rows() == 0 {
        return Err(TableError::NoRows { path: name.to_owned() });
    }
    Table::new(batch, name, reading)
}

pub(crate) fn malformed(name: &str, kind: Kind, error: &ArrowError) -> TableError {
    TableError::Malformed { path: name.to_owned(), kind: kind.name(), reason: plain(error) }
}

/// An arrow error as a person would say it.
fn plain(error: &ArrowError) -> String {
    let text = error.to_string();
    let text = match text.split_once(" error: ") {
        Some((kind, rest)) if !kind.contains(' ') => rest.to_owned(),
        _ => text,
    };
    if text.contains("UTF-8") {
        let place = text.rsplit_once(" at line ").map_or(String::new(), |(_, line)| format!(" in line {line}"));
        return format!("it is not UTF-8 text{place}; save it as UTF-8, for example by iconv -f latin1 -t utf-8");
    }
    uneven_line(&text).unwrap_or(text)
}

/// "Expected 2 records, found 1 records at line 3" in other words.
fn uneven_line(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("Expected ")?;
    let words: Vec<&str> = rest.split(' ').collect();
    let number = |after: &str| words.iter().position(|word| *word == after).and_then(|k| words.get(k + 1)).copied();
    let (expected, found, line) = (words.first()?, number("found")?, number("line")?);
    Some(format!(
        "line {line} has {found} fields where the first line has {expected}; quote fields that hold the delimiter, or \
         say which it is by --delimiter"
    ))
}

/// The first line that is not JSON, and why.
fn first_bad_line(bytes: &[u8]) -> Option<String> {
    let lines = bytes.split(|&byte| byte == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
    let bad = |(k, line): (usize, &[u8])| {
        let error = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(line).err()?;
        let reason = error.to_string().replace(" at line 1 column", " at column");
        Some(format!("line {} is not a JSON object: {reason}", k + 1))
    };
    lines.map(bad).find_map(|reason| reason)
}

type Batches = (Arc<Schema>, Vec<RecordBatch>);

fn decompress(bytes: Vec<u8>, name: &str, options: &ReadOptions) -> Result<Vec<u8>, TableError> {
    let failed = |compression, error: std::io::Error| TableError::Compression {
        path: name.to_owned(),
        compression,
        reason: error.to_string(),
    };
    match compression_of(&bytes) {
        Compression::None => Ok(bytes),
        Compression::Gzip => {
            let decoder = flate2::read::MultiGzDecoder::new(bytes.as_slice());
            read_limited(decoder, name, options)?.map_err(|error| failed("gzip", error))
        }
        Compression::Zstd => {
            let decoder = zstd::stream::read::Decoder::new(bytes.as_slice()).map_err(|error| failed("zstd", error))?;
            read_limited(decoder, name, options)?.map_err(|error| failed("zstd", error))
        }
    }
}

pub(crate) fn csv_delimiter(bytes: &[u8], kind: Kind, options: &ReadOptions) -> u8 {
    let default = || if kind == Kind::Tsv { b'\t' } else { csv::find_delimiter(without_mark(bytes)) };
    options.delimiter.unwrap_or_else(default)
}

/// The text after a byte order mark.
pub(crate) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

fn read_csv(bytes: &[u8], delimiter: u8, options: &ReadOptions) -> Result<Batches, ArrowError> {
    let text = without_mark(bytes);
    csv::parse(text, delimiter, csv::has_header(text, delimiter, options.header), &options.text_columns)
}

/// Columns and row groups are read in parallel, each by a reader of its own that `open` gives.
fn read_parquet<R: ChunkReader + 'static>(
    open: impl Fn() -> Result<R, ArrowError> + Sync,
) -> Result<Batches, ArrowError> {
    let file = open()?;
    let metadata = readable(|| Ok(ArrowReaderMetadata::load(&file, ArrowReaderOptions::default())?))?;
    let schema = metadata.schema().clone();
    let groups = metadata.metadata().row_groups();
    let read_part = |column: usize, group: usize| -> Result<Vec<ArrayRef>, ArrowError> {
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(open()?, metadata.clone());
        let mask = ProjectionMask::roots(builder.parquet_schema(), [column]);
        // Room is made for a whole batch, and what a damaged file says about its size may be anything.
        let rows = usize::try_from(groups[group].num_rows()).unwrap_or(0).clamp(1, MOST_BATCH_ROWS);
        let batches = builder.with_projection(mask).with_row_groups(vec![group]).with_batch_size(rows).build()?;
        batches.map(|batch| Ok(batch?.column(0).clone())).collect()
    };
    let read = |column: usize, group: usize| readable(|| read_part(column, group));
    let read_group = |group: usize| -> Result<Vec<RecordBatch>, ArrowError> {
        let columns = (0..schema.fields().len()).into_par_iter().map(|column| read(column, group));
        let columns: Vec<Vec<ArrayRef>> = columns.collect::<Result<_, _>>()?;
        let count = columns.first().map_or(0, Vec::len);
        (0..count)
            .map(|k| {
                let arrays = columns.iter().map(|parts| parts.get(k).cloned()).collect::<Option<Vec<_>>>();
                let arrays =
                    arrays.ok_or_else(|| ArrowError::ParquetError("columns of different lengths".to_owned()))?;
                RecordBatch::try_new(schema.clone(), arrays)
            })
            .collect()
    };
    let batches = (0..groups.len()).into_par_iter().map(read_group);
    let batches: Vec<Vec<RecordBatch>> = batches.collect::<Result<_, _>>()?;
    Ok((schema.clone(), batches.into_iter().flatten().collect()))
}

/// What a reader of a format gives; damaged files make some of them panic.
pub(crate) fn readable<T>(read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    caught(read).unwrap_or_else(|reason| Err(ArrowError::ParseError(format!("it is damaged ({reason})"))))
}

fn read_arrow(bytes: Vec<u8>, most: u64) -> Result<Batches, ArrowError> {
    readable(|| {
        packed::check(&mut Cursor::new(&bytes), most)?;
        read_checked_arrow(bytes)
    })
}

fn read_checked_arrow(bytes: Vec<u8>) -> Result<Batches, ArrowError> {
    if bytes.starts_with(b"ARROW1") {
        let reader = arrow_ipc::reader::FileReader::try_new(Cursor::new(bytes), None)?;
        Ok((reader.schema(), reader.collect::<Result<_, _>>()?))
    } else {
        let reader = arrow_ipc::reader::StreamReader::try_new(Cursor::new(bytes), None)?;
        Ok((reader.schema(), reader.collect::<Result<_, _>>()?))
    }
}

fn read_json(bytes: &[u8]) -> Result<Batches, ArrowError> {
    let (schema, _) = arrow_json::reader::infer_json_schema(Cursor::new(bytes), None)?;
    let schema = Arc::new(schema);
    let reader = arrow_json::ReaderBuilder::new(schema.clone()).build(Cursor::new(bytes))?;
    Ok((schema, reader.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;

    use super::*;

    #[test]
    fn row_groups_are_joined_in_order() {
        let numbers: ArrayRef = Arc::new((0..1000).map(f64::from).collect::<Float64Array>());
        let words: ArrayRef = Arc::new((0..1000).map(|k| Some(format!("word {}", k % 7))).collect::<StringArray>());
        let batch = RecordBatch::try_from_iter([("number", numbers), ("word", words)]).unwrap();
        let mut bytes = Vec::new();
        let groups = WriterProperties::builder().set_max_row_group_row_count(Some(64)).build();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(groups)).unwrap();
        writer.write(&batch).unwrap();
        assert!(writer.close().unwrap().num_row_groups() > 10);
        let table = read_bytes(bytes, "t", &ReadOptions::default()).unwrap();
        assert_eq!(table.numbers("number").unwrap().unwrap(), (0..1000).map(f64::from).collect::<Vec<_>>());
        assert_eq!(table.texts("word").unwrap()[999].as_deref(), Some("word 5"));
    }
}
