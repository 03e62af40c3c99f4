use std::path::Path;
use std::str::FromStr;

use crate::error::TableError;

/// How a table is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Delimited text.
    Csv,
    /// Delimited text with tabs.
    Tsv,
    /// Parquet.
    Parquet,
    /// Arrow IPC, file or stream.
    Arrow,
    /// One JSON object per line.
    JsonLines,
}

impl Kind {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::Tsv => "TSV",
            Self::Parquet => "Parquet",
            Self::Arrow => "Arrow",
            Self::JsonLines => "JSON lines",
        }
    }

    /// Whether gzip and zstd around it are understood.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv | Self::JsonLines)
    }
}

impl FromStr for Kind {
    type Err = TableError;

    fn from_str(text: &str) -> Result<Self, TableError> {
        match text.to_ascii_lowercase().as_str() {
            "csv" | "txt" => Ok(Self::Csv),
            "tsv" | "tab" => Ok(Self::Tsv),
            "parquet" | "pq" => Ok(Self::Parquet),
            "arrow" | "ipc" | "feather" => Ok(Self::Arrow),
            "jsonl" | "ndjson" | "json" => Ok(Self::JsonLines),
            _ => Err(TableError::UnknownFormat { text: text.to_owned() }),
        }
    }
}

/// What a text table is wrapped in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Nothing.
    None,
    /// gzip.
    Gzip,
    /// zstd.
    Zstd,
}

/// Layout and wrapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Layout.
    pub kind: Kind,
    /// Wrapping.
    pub compression: Compression,
}

impl Format {
    /// The format that a file's name tells, if it tells one: `prices.csv.gz`.
    pub fn of_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let (name, compression) = if let Some(rest) = name.strip_suffix(".gz") {
            (rest, Compression::Gzip)
        } else if let Some(rest) = name.strip_suffix(".zst").or_else(|| name.strip_suffix(".zstd")) {
            (rest, Compression::Zstd)
        } else {
            (name.as_str(), Compression::None)
        };
        let kind = name.rsplit_once('.')?.1.parse().ok()?;
        Some(Self { kind, compression })
    }
}

/// The first bytes of a Parquet file.
pub(crate) const PARQUET_MAGIC: &[u8] = b"PAR1";

/// The compression that the first bytes show.
pub(crate) fn compression_of(bytes: &[u8]) -> Compression {
    match bytes {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
        _ => Compression::None,
    }
}

/// The layout that the first bytes show; text is taken for CSV unless it starts with a brace.
pub(crate) fn kind_of(bytes: &[u8]) -> Kind {
    if bytes.starts_with(PARQUET_MAGIC) {
        Kind::Parquet
    } else if bytes.starts_with(b"ARROW1") || bytes.starts_with(&[0xff; 4]) {
        Kind::Arrow
    } else if bytes.trim_ascii_start().starts_with(b"{") {
        Kind::JsonLines
    } else {
        Kind::Csv
    }
}
