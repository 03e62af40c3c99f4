use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use rayon::prelude::*;

use crate::csv;
use crate::error::TableError;
use crate::format::{Compression, Format, Kind, compression_of, kind_of};
use crate::table::Table;

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
#[derive(Debug, Clone, Copy)]
pub struct ReadOptions {
    /// Layout.
    pub kind: Option<Kind>,
    /// Delimiter of delimited text.
    pub delimiter: Option<u8>,
    /// Header of delimited text.
    pub header: Header,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { kind: None, delimiter: None, header: Header::Auto }
    }
}

/// Reads a file, or standard input for `-`.
pub fn read(path: &Path, options: &ReadOptions) -> Result<Table, TableError> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
    let failed = |error: std::io::Error| {
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
            std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            std::io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
            _ => error.to_string(),
        };
        TableError::Read { path: name.clone(), reason }
    };
    let bytes = if is_stdin {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map_err(failed)?;
        bytes
    } else {
        std::fs::read(path).map_err(failed)?
    };
    let kind = options.kind.or_else(|| Format::of_path(path).map(|format| format.kind));
    read_bytes(bytes, &name, &ReadOptions { kind, ..*options })
}

/// Reads a table from memory; `name` is what messages call it.
pub fn read_bytes(bytes: Vec<u8>, name: &str, options: &ReadOptions) -> Result<Table, TableError> {
    if bytes.is_empty() {
        return Err(TableError::Empty { path: name.to_owned() });
    }
    let bytes = decompress(bytes, name)?;
    // What the content shows counts for more than the file's name: a Parquet file called .csv is a Parquet file.
    let kind = match (kind_of(&bytes), options.kind) {
        (Kind::Csv | Kind::JsonLines, Some(kind)) if kind.is_text() => kind,
        (shown @ (Kind::Parquet | Kind::Arrow), _) => shown,
        (shown, Some(kind)) if kind.is_text() => shown,
        (_, Some(kind)) => kind,
        (shown, None) => shown,
    };
    if kind.is_text() && bytes.trim_ascii().is_empty() {
        return Err(TableError::Empty { path: name.to_owned() });
    }
    let malformed =
        |error: ArrowError| TableError::Malformed { path: name.to_owned(), kind: kind.name(), reason: plain(&error) };
    let (schema, batches) = match kind {
        Kind::Csv | Kind::Tsv => read_csv(bytes, kind, options).map_err(malformed)?,
        Kind::Parquet => read_parquet(bytes).map_err(malformed)?,
        Kind::Arrow => read_arrow(bytes).map_err(malformed)?,
        Kind::JsonLines => read_json(&bytes).map_err(malformed)?,
    };
    let batch = concat_batches(&schema, &batches).map_err(malformed)?;
    if batch.num_rows() == 0 {
        return Err(TableError::NoRows { path: name.to_owned() });
    }
    Table::new(batch, name)
}

/// An arrow error without the name of its kind in front.
fn plain(error: &ArrowError) -> String {
    let text = error.to_string();
    match text.split_once(" error: ") {
        Some((kind, rest)) if !kind.contains(' ') => rest.to_owned(),
        _ => text,
    }
}

type Batches = (Arc<Schema>, Vec<RecordBatch>);

fn decompress(bytes: Vec<u8>, name: &str) -> Result<Vec<u8>, TableError> {
    let failed = |compression, error: std::io::Error| TableError::Compression {
        path: name.to_owned(),
        compression,
        reason: error.to_string(),
    };
    let mut plain = Vec::new();
    match compression_of(&bytes) {
        Compression::None => Ok(bytes),
        Compression::Gzip => {
            let mut decoder = flate2::read::MultiGzDecoder::new(bytes.as_slice());
            decoder.read_to_end(&mut plain).map_err(|error| failed("gzip", error))?;
            Ok(plain)
        }
        Compression::Zstd => {
            zstd::stream::copy_decode(bytes.as_slice(), &mut plain).map_err(|error| failed("zstd", error))?;
            Ok(plain)
        }
    }
}

fn read_csv(bytes: Vec<u8>, kind: Kind, options: &ReadOptions) -> Result<Batches, ArrowError> {
    const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    let default = if kind == Kind::Tsv { b'\t' } else { csv::find_delimiter(text) };
    let delimiter = options.delimiter.unwrap_or(default);
    csv::parse(text, delimiter, csv::has_header(text, delimiter, options.header))
}

/// Row groups are read in parallel.
fn read_parquet(bytes: Vec<u8>) -> Result<Batches, ArrowError> {
    let bytes = Bytes::from(bytes);
    let metadata = ArrowReaderMetadata::load(&bytes, ArrowReaderOptions::default())?;
    let read = |group: usize| -> Result<Vec<RecordBatch>, ArrowError> {
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes.clone(), metadata.clone());
        builder.with_row_groups(vec![group]).with_batch_size(1 << 16).build()?.collect()
    };
    let groups = (0..metadata.metadata().num_row_groups()).into_par_iter().map(read);
    let batches: Vec<Vec<RecordBatch>> = groups.collect::<Result<_, _>>()?;
    Ok((metadata.schema().clone(), batches.into_iter().flatten().collect()))
}

fn read_arrow(bytes: Vec<u8>) -> Result<Batches, ArrowError> {
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
