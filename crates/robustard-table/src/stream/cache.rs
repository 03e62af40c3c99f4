//! Columns of numbers in a file, block by block: uncompressed Arrow IPC, with a checksum for each block.
//!
//! Blocks are read with `pread`, not mapped: a file that is cut short is then an error and not a signal, and what was read does not count
//! as the process's memory for longer than it is used.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, Float64Array, LargeStringArray, RecordBatch};
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::writer::FileWriter;
use arrow_ipc::{Block, root_as_footer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::error::{TableError, io_words};
use crate::files::{self, Existing, Readers};
use crate::output::OutputError;

/// Numbers in a block, about: 4 MiB stay in a processor's cache and are read at a disk's full speed.
const BLOCK_NUMBERS: usize = 1 << 19;
/// Rows of a block, at the least and at the most.
const LEAST_ROWS: usize = 256;
const MOST_ROWS: usize = 1 << 16;
const CHECKSUMS: &str = "robustard.xxh3";
const NOTE: &str = "robustard.note";
/// The end of an Arrow file: the footer's length and a magic word.
const TRAILER: usize = 10;

/// Writes columns block by block.
pub(super) struct CacheWriter {
    writer: FileWriter<Hashed>,
    schema: SchemaRef,
    path: PathBuf,
    numbers: Vec<Vec<f64>>,
    texts: Option<Vec<Option<String>>>,
    rows_per_block: usize,
    checksums: Vec<u64>,
}

/// A file of blocks.
#[derive(Debug)]
pub(super) struct Cache {
    file: File,
    path: PathBuf,
    schema: SchemaRef,
    decoder: FileDecoder,
    blocks: Vec<Block>,
    checksums: Vec<u64>,
    /// What the writer wanted to be remembered.
    pub note: String,
    has_texts: bool,
    /// Bytes of the file.
    length: u64,
}

/// A block of rows.
pub(super) struct CacheBlock {
    batch: RecordBatch,
}

impl CacheBlock {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// A column of numbers.
    pub fn numbers(&self, column: usize) -> &[f64] {
        self.batch.column(column).as_primitive::<Float64Type>().values()
    }

    /// The column of texts, if there is one.
    pub fn texts(&self) -> Option<&LargeStringArray> {
        self.batch.columns().last().and_then(|column| column.as_string_opt::<i64>())
    }
}

fn rows_per_block(columns: usize) -> usize {
    let rows = (BLOCK_NUMBERS / columns.max(1)).clamp(LEAST_ROWS, MOST_ROWS);
    rows - rows % LEAST_ROWS
}

/// A file that knows what was written to it.
struct Hashed {
    file: BufWriter<File>,
    hasher: Xxh3,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl CacheWriter {
    /// Of columns of numbers, and one of texts if it has a name.
    pub fn new(file: File, path: &Path, numbers: &[String], texts: Option<&str>) -> Result<Self, TableError> {
        let number = |name: &String| Field::new(name, DataType::Float64, false);
        let text = texts.map(|name| Field::new(name, DataType::LargeUtf8, true));
        let fields: Vec<Field> = numbers.iter().map(number).chain(text).collect();
        let schema = Arc::new(Schema::new(fields));
        let hashed = Hashed { file: BufWriter::new(file), hasher: Xxh3::new() };
        let writer = FileWriter::try_new(hashed, &schema).map_err(|error| failed(path, &error))?;
        Ok(Self {
            writer,
            schema,
            path: path.to_owned(),
            numbers: vec![Vec::new(); numbers.len()],
            texts: texts.map(|_| Vec::new()),
            rows_per_block: rows_per_block(numbers.len()),
            checksums: Vec::new(),
        })
    }

    /// Adds rows.
    pub fn add(&mut self, numbers: &[Vec<f64>], texts: Option<Vec<Option<String>>>) -> Result<(), TableError> {
        self.numbers.iter_mut().zip(numbers).for_each(|(own, more)| own.extend(more));
        if let (Some(own), Some(more)) = (&mut self.texts, texts) {
            own.extend(more);
        }
        while self.waiting() >= self.rows_per_block {
            self.write(self.rows_per_block)?;
        }
        Ok(())
    }

    fn waiting(&self) -> usize {
        self.numbers.first().map_or(0, Vec::len)
    }

    fn write(&mut self, rows: usize) -> Result<(), TableError> {
        let take = |column: &mut Vec<f64>| {
            let rest = column.split_off(rows);
            Arc::new(Float64Array::from(std::mem::replace(column, rest))) as ArrayRef
        };
        let mut columns: Vec<ArrayRef> = self.numbers.iter_mut().map(take).collect();
        if let Some(texts) = &mut self.texts {
            columns.push(Arc::new(texts.drain(..rows).collect::<LargeStringArray>()));
        }
        self.writer.get_mut().hasher.reset();
        let written = RecordBatch::try_new(self.schema.clone(), columns).and_then(|batch| self.writer.write(&batch));
        self.checksums.push(self.writer.get_ref().hasher.digest());
        written.map_err(|error| failed(&self.path, &error))
    }

    /// Ends the file; `note` is remembered in it.
    pub fn finish(mut self, note: &str) -> Result<File, TableError> {
        let rest = self.waiting();
        if rest > 0 {
            self.write(rest)?;
        }
        let checksums: Vec<String> = self.checksums.iter().map(|checksum| format!("{checksum:016x}")).collect();
        self.writer.write_metadata(CHECKSUMS, checksums.join(","));
        self.writer.write_metadata(NOTE, note);
        let path = self.path;
        let whole = self.writer.finish().and_then(|()| self.writer.into_inner());
        let file = whole.map_err(|error| failed(&path, &error))?.file;
        let failed =
            |error: &std::io::Error| TableError::Write { path: path.display().to_string(), reason: io_words(error) };
        file.into_inner().map_err(|error| failed(error.error()))
    }
}

fn failed(path: &Path, error: &ArrowError) -> TableError {
    let path = path.display().to_string();
    match error {
        ArrowError::IoError(_, io) => TableError::Write { path, reason: io_words(io) },
        other => TableError::Write { path, reason: other.to_string() },
    }
}

impl Cache {
    /// Opens a file that a [`CacheWriter`] has finished.
    pub fn open(mut file: File, path: &Path) -> Result<Self, TableError> {
        let unusable = |reason: &str| TableError::Cache { path: path.display().to_string(), reason: reason.to_owned() };
        let length = file.seek(SeekFrom::End(0)).map_err(|error| unusable(&io_words(&error)))?;
        let at = |from_end: u64, bytes: &mut [u8]| {
            let start = length.checked_sub(from_end).ok_or_else(|| unusable("it is cut short"))?;
            read_at(&file, bytes, start).map_err(|error| unusable(&io_words(&error)))
        };
        let mut trailer = [0; TRAILER];
        at(TRAILER as u64, &mut trailer)?;
        let footer_length =
            arrow_ipc::reader::read_footer_length(trailer).map_err(|_| unusable("it is cut short or no cache"))?;
        let from_end = (TRAILER + footer_length) as u64;
        if from_end > length {
            return Err(unusable("it is cut short"));
        }
        let mut bytes = vec![0; footer_length];
        at(from_end, &mut bytes)?;
        let footer = root_as_footer(&bytes).map_err(|_| unusable("its end is damaged"))?;
        let schema = footer.schema().ok_or_else(|| unusable("its end is damaged"))?;
        let schema = arrow_ipc::convert::try_fb_to_schema(schema).map_err(|_| unusable("its end is damaged"))?;
        let schema = Arc::new(schema);
        let blocks: Vec<Block> =
            footer.recordBatches().map_or_else(Vec::new, |blocks| blocks.iter().copied().collect());
        let metadata = |key: &str| {
            let mut entries = footer.custom_metadata().into_iter().flatten();
            entries
                .find(|entry| entry.key() == Some(key))
                .and_then(|entry| entry.value())
                .unwrap_or_default()
                .to_owned()
        };
        let checksums = metadata(CHECKSUMS);
        let checksums = checksums.split(',').filter(|text| !text.is_empty());
        let checksums: Option<Vec<u64>> = checksums.map(|text| u64::from_str_radix(text, 16).ok()).collect();
        let checksums = checksums.filter(|checksums| checksums.len() == blocks.len());
        let checksums = checksums.ok_or_else(|| unusable("it is no cache, or damaged"))?;
        let has_texts = schema.fields().last().is_some_and(|field| *field.data_type() == DataType::LargeUtf8);
        let decoder = FileDecoder::new(schema.clone(), footer.version());
        let note = metadata(NOTE);
        Ok(Self { path: path.to_owned(), decoder, schema, blocks, checksums, note, has_texts, length, file })
    }

    /// Number of blocks.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Reads a block.
    pub fn read(&self, block: usize) -> Result<CacheBlock, TableError> {
        let unusable = |reason: String| TableError::Cache { path: self.path.display().to_string(), reason };
        let place = self.blocks[block];
        let size = usize::try_from(place.bodyLength()).ok().zip(usize::try_from(place.metaDataLength()).ok());
        let start = u64::try_from(place.offset()).ok();
        let (Some((body, head)), Some(start)) = (size, start) else {
            return Err(unusable("its end is damaged".to_owned()));
        };
        if (body as u64).saturating_add(head as u64) > self.length {
            return Err(unusable("its end is damaged".to_owned()));
        }
        let mut bytes = arrow_buffer::MutableBuffer::from_len_zeroed(body + head);
        read_at(&self.file, bytes.as_slice_mut(), start).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => unusable("it is cut short".to_owned()),
            _ => unusable(io_words(&error)),
        })?;
        // Before anything looks into it.
        if xxh3_64(bytes.as_slice()) != self.checksums[block] {
            return Err(unusable(format!("block {} has changed since it was written", block + 1)));
        }
        let batch = self.decoder.read_record_batch(&place, &bytes.into());
        let batch = batch.map_err(|error| unusable(error.to_string()))?.filter(|batch| batch.schema() == self.schema);
        let batch = batch.ok_or_else(|| unusable("a block is damaged".to_owned()))?;
        Ok(CacheBlock { batch })
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Copies a cache without a name to a file, whole or not at all.
    pub fn keep_as(&self, path: &Path) -> Result<(), TableError> {
        let copy = || -> std::io::Result<()> {
            let folder = files::folder_of(path);
            let mut named = files::temporary(folder, Readers::User)?;
            let mut own = self.file.try_clone()?;
            own.seek(SeekFrom::Start(0))?;
            std::io::copy(&mut own, named.as_file_mut())?;
            files::sync(named.as_file())?;
            files::put(named, path, Existing::Replace)?;
            files::sync_folder(folder)
        };
        copy().map_err(|error| OutputError { path: path.to_owned(), error }.into())
    }

    /// Whether there is a column of texts.
    pub fn has_texts(&self) -> bool {
        self.has_texts
    }
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], start: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, start)
}

#[cfg(windows)]
fn read_at(file: &File, mut bytes: &mut [u8], mut start: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, start)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => {
                bytes = &mut bytes[read..];
                start += read as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;

    use super::*;

    fn written(path: &Path, rows: usize) {
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
        let names = ["a".to_owned(), "b".to_owned()];
        let mut writer = CacheWriter::new(file, path, &names, Some("id")).unwrap();
        for start in (0..rows).step_by(10_000) {
            let range = start..(start + 10_000).min(rows);
            let a: Vec<f64> = range.clone().map(|i| i as f64).collect();
            let b = a.iter().map(|a| if *a == 3.0 { f64::NAN } else { -a }).collect();
            let ids = range.map(|i| (i != 5).then(|| format!("r{i}"))).collect();
            writer.add(&[a, b], Some(ids)).unwrap();
        }
        writer.finish("a note").unwrap();
    }

    #[test]
    fn blocks_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.arrow");
        written(&path, 150_001);
        let cache = Cache::open(File::open(&path).unwrap(), &path).unwrap();
        assert_eq!((cache.block_count(), cache.note.as_str(), cache.has_texts()), (3, "a note", true));
        let first = cache.read(0).unwrap();
        assert!(first.numbers(1)[3].is_nan() && first.texts().unwrap().is_null(5));
        let last = cache.read(2).unwrap();
        assert_eq!(last.numbers(0)[last.rows() - 1], 150_000.0);
        assert_eq!(last.texts().unwrap().value(last.rows() - 1), "r150000");
    }

    #[test]
    fn damaged_caches_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache.arrow");
        written(&path, 70_000);
        let bytes = std::fs::read(&path).unwrap();
        let message = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let read = Cache::open(File::open(&path).unwrap(), &path)
                .and_then(|cache| (0..cache.block_count()).try_for_each(|block| cache.read(block).map(|_| ())));
            read.err().map(|error| error.to_string())
        };
        assert_eq!(message(&bytes), None);
        for length in (0..bytes.len()).step_by(bytes.len() / 50) {
            assert!(message(&bytes[..length]).unwrap().contains("cache.arrow"), "{length}");
        }
        let mut changed = bytes.clone();
        changed[bytes.len() / 2] ^= 1;
        assert!(message(&changed).unwrap().contains("changed"), "{:?}", message(&changed));
    }
}
