use std::io::Write;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use parquet::arrow::ArrowWriter;

use crate::error::{TableError, io_words};
use crate::format::{Compression, Format, Kind};
use crate::table::Table;

/// Names that would promise another format than the CSV they would get.
const OTHER_FORMATS: [&str; 9] = ["xlsx", "xls", "ods", "dta", "sav", "json", "html", "pdf", "zip"];

/// Writes a table to a file, whole or not at all, or to standard output for `-` (as CSV). The format is that of the name,
/// CSV if it tells none.
pub fn write(table: &Table, path: &Path) -> Result<(), TableError> {
    let failed = |reason: String| TableError::Write { path: path.display().to_string(), reason };
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    if OTHER_FORMATS.iter().any(|other| extension == *other) {
        let extension = extension.to_string_lossy();
        return Err(failed(format!(
            "tables are not written as .{extension}; use .csv, .tsv, .parquet, .arrow or .jsonl"
        )));
    }
    let format = Format::of_path(path).unwrap_or(Format { kind: Kind::Csv, compression: Compression::None });
    let bytes = to_bytes(table, format).map_err(failed)?;
    if path == Path::new("-") {
        return std::io::stdout().lock().write_all(&bytes).map_err(|error| failed(error.to_string()));
    }
    write_whole(path, &bytes).map_err(|error| failed(io_words(&error)))
}

/// Writes under another name beside the file first, so that a reader never sees half of it.
pub fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let result = std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    if result.is_err() {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

/// The table in the given format.
pub fn to_bytes(table: &Table, format: Format) -> Result<Vec<u8>, String> {
    let plain = encode(table.batch(), format.kind).map_err(|error| error.to_string())?;
    match format.compression {
        Compression::None => Ok(plain),
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(&plain).and_then(|()| encoder.finish()).map_err(|error| error.to_string())
        }
        Compression::Zstd => zstd::encode_all(plain.as_slice(), 0).map_err(|error| error.to_string()),
    }
}

fn encode(batch: &RecordBatch, kind: Kind) -> Result<Vec<u8>, ArrowError> {
    let mut bytes = Vec::new();
    match kind {
        Kind::Csv | Kind::Tsv => {
            let delimiter = if kind == Kind::Tsv { b'\t' } else { b',' };
            arrow_csv::WriterBuilder::new().with_delimiter(delimiter).build(&mut bytes).write(batch)?;
        }
        Kind::Parquet => {
            let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None)?;
            writer.write(batch)?;
            writer.close()?;
        }
        Kind::Arrow => {
            let mut writer = arrow_ipc::writer::FileWriter::try_new(&mut bytes, batch.schema_ref())?;
            writer.write(batch)?;
            writer.finish()?;
        }
        Kind::JsonLines => {
            let mut writer = arrow_json::LineDelimitedWriter::new(&mut bytes);
            writer.write(batch)?;
            writer.finish()?;
        }
    }
    Ok(bytes)
}
