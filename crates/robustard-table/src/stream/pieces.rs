//! A table piece by piece: some rows at a time, whatever the files are.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use tempfile::NamedTempFile;

use super::remote;
use super::sources::{Source, is_parquet};
use crate::csv;
use crate::error::{TableError, io_words};
use crate::format::{Compression, Format, Kind, compression_of};
use crate::packed;
use crate::read::{self, Header, ReadOptions, Reading};
use crate::table::Table;

/// Rows of a piece of a binary file.
const ROWS: usize = 1 << 16;
/// Bytes of text that are parsed together.
const BYTES: usize = 1 << 25;
/// The first bytes of a text, by which delimiter and header are found out.
const FIRST_BYTES: usize = 1 << 20;

/// What Hive calls the folder of rows without a value.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// What batches that are not in a file are called in messages.
pub(super) const BATCHES_NAME: &str = "the stream of batches";

/// Record batches, one after the other.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// Where the rows of a table come from.
#[derive(Clone, Copy)]
pub enum Input<'s> {
    /// Files, one after the other.
    Files(&'s [Source]),
    /// Batches with the same columns, from the first one on each time they are asked for; none if they cannot be read again.
    Batches(&'s (dyn Fn() -> Result<Option<Batches>, TableError> + Sync)),
}

impl Input<'_> {
    /// The files, if there are any.
    pub(super) fn files(&self) -> &[Source] {
        match self {
            Self::Files(sources) => sources,
            Self::Batches(_) => &[],
        }
    }

    /// What one of the files is called in messages, or what takes its place.
    pub(super) fn name(&self, source: usize) -> String {
        self.files().get(source).map_or_else(|| BATCHES_NAME.to_owned(), Source::name)
    }
}

/// Some rows.
pub(super) struct Piece {
    pub table: Table,
    /// The file.
    pub source: usize,
}

/// The rows of a table, in order.
pub(super) struct Pieces<'s> {
    input: Input<'s>,
    options: ReadOptions,
    next: usize,
    reader: Option<Reader>,
    /// The copy of a remote file that is being read.
    copy: Option<NamedTempFile>,
}

enum Reader {
    Parquet(ParquetRecordBatchReader),
    Arrow(Batches),
    Text(TextReader),
}

impl<'s> Pieces<'s> {
    pub fn new(input: Input<'s>, options: &ReadOptions) -> Self {
        Self { input, options: options.clone(), next: 0, reader: None, copy: None }
    }

    /// A reader of what comes next; none at the end.
    fn open(&mut self) -> Result<Option<Reader>, TableError> {
        match self.input {
            Input::Files(sources) => {
                let Some(source) = sources.get(self.next) else { return Ok(None) };
                source.check()?;
                self.copy = if source.is_remote() { Some(remote::fetch(source)?) } else { None };
                let path = self.copy.as_ref().map_or(source.path.as_path(), |copy| copy.path());
                open(path, source, &self.options).map(Some)
            }
            Input::Batches(open) if self.next == 0 => {
                open()?.map(Reader::Arrow).map(Some).ok_or(TableError::ReadOnce { column: String::new() })
            }
            Input::Batches(_) => Ok(None),
        }
    }

    /// The next rows; none at the end.
    pub fn next(&mut self) -> Result<Option<Piece>, TableError> {
        loop {
            let Some(reader) = &mut self.reader else {
                self.reader = self.open()?;
                if self.reader.is_none() {
                    return Ok(None);
                }
                self.next += 1;
                continue;
            };
            let source = self.next - 1;
            let name = self.input.name(source);
            let file = self.input.files().get(source);
            let table = match reader {
                Reader::Parquet(batches) => next_batch(batches, &name, Kind::Parquet)?,
                Reader::Arrow(batches) => next_batch(batches, &name, Kind::Arrow)?,
                Reader::Text(reader) => reader.next(&name, &self.options)?,
            };
            match table {
                Some(table) if table.row_count() > 0 => {
                    let table = match file {
                        Some(file) => with_partitions(table, &file.partitions),
                        None => table,
                    };
                    return Ok(Some(Piece { table, source }));
                }
                Some(_) => {}
                None => {
                    // What changed while it was read may be half of this and half of that.
                    file.map_or(Ok(()), Source::check)?;
                    self.reader = None;
                }
            }
        }
    }
}

/// All rows of batches as one table; none if there are none. Columns in `text` are text whatever it looks like.
pub(super) fn table_of(batches: Batches, text: &[String]) -> Result<Option<Table>, TableError> {
    let reading = Reading { text_columns: text, ..Reading::default() };
    let mut tables = Vec::new();
    for batch in batches {
        let batch = batch.map_err(|error| read::malformed(BATCHES_NAME, Kind::Arrow, &error))?;
        if batch.num_rows() > 0 {
            tables.push((Table::new(batch, BATCHES_NAME, &reading)?, BATCHES_NAME.to_owned()));
        }
    }
    match tables.len() {
        0 => Ok(None),
        1 => Ok(Some(tables.remove(0).0)),
        _ => Table::joined(&tables).map(Some),
    }
}

/// The columns that the folders' names give, the same in all rows.
fn with_partitions(table: Table, partitions: &[(String, String)]) -> Table {
    if partitions.is_empty() {
        return table;
    }
    let known = table.names();
    let rows = table.row_count();
    let column = |(name, value): &(String, String)| {
        let value = Some(value.clone()).filter(|value| value != NO_VALUE);
        (name.clone(), Table::settled_column(std::iter::repeat_n(value, rows)))
    };
    table.with_columns(partitions.iter().filter(|(name, _)| !known.contains(name)).map(column).collect())
}

fn next_batch(
    batches: &mut (impl Iterator<Item = Result<RecordBatch, ArrowError>> + ?Sized),
    name: &str,
    kind: Kind,
) -> Result<Option<Table>, TableError> {
    let batch = read::readable(|| batches.next().transpose()).map_err(|error| read::malformed(name, kind, &error))?;
    let Some(batch) = batch else { return Ok(None) };
    Table::new(batch, name, &Reading::default()).map(Some)
}

/// A reader of the file at `path`, which is `source` or a copy of it.
fn open(path: &Path, source: &Source, options: &ReadOptions) -> Result<Reader, TableError> {
    let name = source.name();
    let failed = |error: std::io::Error| TableError::Read { path: name.clone(), reason: io_words(&error) };
    let malformed = |kind: Kind| {
        let name = name.clone();
        move |error: ArrowError| read::malformed(&name, kind, &error)
    };
    let file = || File::open(path).map_err(failed);
    if is_parquet(path).map_err(failed)? {
        let file = file()?;
        let reader = || Ok(ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(ROWS).build()?);
        return read::readable(reader).map(Reader::Parquet).map_err(malformed(Kind::Parquet));
    }
    let mut start = Vec::with_capacity(16);
    file()?.take(16).read_to_end(&mut start).map_err(failed)?;
    let mut text: Box<dyn Read + Send> = match compression_of(&start) {
        Compression::None => Box::new(file()?),
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(BufReader::new(file()?))),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(file()?).map_err(failed)?),
    };
    let mut start = Vec::new();
    text.by_ref().take(FIRST_BYTES as u64).read_to_end(&mut start).map_err(|error| unpacked(&name, &error))?;
    if start.is_empty() {
        return Err(TableError::Empty { path: name });
    }
    let kind = options.kind.unwrap_or_else(|| read::kind_by(&start, Format::of_path(&source.path).map(|f| f.kind)));
    match kind {
        Kind::Arrow => {
            let mut whole = BufReader::new(file()?);
            let most = options.limits.text();
            read::readable(|| packed::check(&mut whole, most)).map_err(malformed(kind))?;
            if start.starts_with(b"ARROW1") {
                let reader = read::readable(|| arrow_ipc::reader::FileReader::try_new(whole, None));
                let reader = reader.map_err(malformed(kind))?;
                Ok(Reader::Arrow(Box::new(reader)))
            } else {
                let reader = read::readable(|| arrow_ipc::reader::StreamReader::try_new(whole, None));
                let reader = reader.map_err(malformed(kind))?;
                Ok(Reader::Arrow(Box::new(reader)))
            }
        }
        Kind::Parquet => Err(TableError::Malformed {
            path: name,
            kind: kind.name(),
            reason: "a compressed Parquet file cannot be read in pieces; unpack it".to_owned(),
        }),
        _ => TextReader::new(text, start, kind, &name, options).map(Reader::Text),
    }
}

fn unpacked(name: &str, error: &std::io::Error) -> TableError {
    TableError::Read { path: name.to_owned(), reason: io_words(error) }
}

/// Delimited text or JSON lines, some lines at a time.
struct TextReader {
    text: Box<dyn Read + Send>,
    kind: Kind,
    delimiter: u8,
    /// The line of names, which every piece is given; none if there is none.
    header: Vec<u8>,
    has_header: bool,
    /// What was read and not yet parsed.
    waiting: Vec<u8>,
    is_at_end: bool,
    /// Lines parsed so far.
    lines: usize,
}

impl TextReader {
    fn new(
        text: Box<dyn Read + Send>,
        start: Vec<u8>,
        kind: Kind,
        name: &str,
        options: &ReadOptions,
    ) -> Result<Self, TableError> {
        let mut waiting = start;
        if waiting.starts_with(&[0xff, 0xfe]) || waiting.starts_with(&[0xfe, 0xff]) {
            return Err(read::is_utf16(name, kind));
        }
        if read::without_mark(&waiting).len() < waiting.len() {
            waiting.drain(..waiting.len() - read::without_mark(&waiting).len());
        }
        let delimiter = read::csv_delimiter(&waiting, kind, options);
        let is_delimited = kind != Kind::JsonLines;
        let has_header = is_delimited && csv::has_header(&waiting, delimiter, options.header);
        let mut reader =
            Self { text, kind, delimiter, header: Vec::new(), has_header, waiting, is_at_end: false, lines: 0 };
        if has_header {
            reader.fill(name, 1)?;
            let end = reader.line_end(1).unwrap_or(reader.waiting.len());
            reader.header = reader.waiting.drain(..end).collect();
            if !reader.header.ends_with(b"\n") {
                reader.header.push(b'\n');
            }
            reader.lines = 1;
        }
        Ok(reader)
    }

    /// Reads on until there is so much to parse, or the end.
    fn fill(&mut self, name: &str, bytes: usize) -> Result<(), TableError> {
        while !self.is_at_end && self.waiting.len() < bytes {
            let wanted = (bytes - self.waiting.len()).max(FIRST_BYTES);
            let read = self.text.by_ref().take(wanted as u64).read_to_end(&mut self.waiting);
            self.is_at_end = read.map_err(|error| unpacked(name, &error))? == 0;
        }
        Ok(())
    }

    /// Where the last whole line ends, if there are so many at least; line ends within quotes are none.
    fn line_end(&self, least: usize) -> Option<usize> {
        if self.kind == Kind::JsonLines {
            return self.waiting.iter().rposition(|&byte| byte == b'\n').map(|place| place + 1);
        }
        let (mut quoted, mut end, mut lines) = (false, None, 0);
        for (place, &byte) in self.waiting.iter().enumerate() {
            match byte {
                b'"' => quoted = !quoted,
                b'\n' if !quoted => {
                    end = Some(place + 1);
                    lines += 1;
                    if least == 1 && lines == 1 {
                        return end;
                    }
                }
                _ => {}
            }
        }
        end
    }

    fn next(&mut self, name: &str, options: &ReadOptions) -> Result<Option<Table>, TableError> {
        let mut wanted = BYTES;
        let end = loop {
            self.fill(name, wanted)?;
            if self.is_at_end {
                break self.waiting.len();
            }
            match self.line_end(2) {
                Some(end) => break end,
                None => wanted *= 2,
            }
        };
        if self.waiting[..end].trim_ascii().is_empty() {
            return Ok(None);
        }
        let rest = self.waiting.split_off(end);
        let lines = std::mem::replace(&mut self.waiting, rest);
        let first = self.lines;
        self.lines += lines.iter().filter(|&&byte| byte == b'\n').count();
        let table = match self.kind {
            Kind::JsonLines => read::json_table(&lines, name, options),
            kind => {
                let text = if self.has_header { [self.header.as_slice(), &lines].concat() } else { lines };
                let options = ReadOptions {
                    delimiter: Some(self.delimiter),
                    header: if self.has_header { Header::Yes } else { Header::No },
                    ..options.clone()
                };
                read::csv_table(&text, name, kind, &options)
            }
        };
        let beginning = first > usize::from(self.has_header);
        table.map(Some).map_err(|error| match error {
            TableError::Malformed { path, kind, reason } if beginning => {
                let reason = format!("{reason} (lines are counted from line {first} on)");
                TableError::Malformed { path, kind, reason }
            }
            error => error,
        })
    }
}
