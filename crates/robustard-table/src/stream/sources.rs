//! The files of a table: one, several, those of a folder, those that a pattern matches.

use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::remote;
use crate::error::{TableError, io_words};
use crate::format::{Compression, Format, Kind, PARQUET_MAGIC};
use crate::limits::BYTES_PER_BYTE;

/// Bytes in memory for a byte of a compressed text file, about.
const INFLATION: u64 = 8;
/// The same of a Parquet file whose columns are compressed.
const PARQUET_INFLATION: u64 = 3;

/// A file of a table, as it was when it was first looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Where it is: a path, or the address of a remote file.
    pub path: PathBuf,
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: u128,
    /// What a server calls this version of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    /// Columns that the names of its folders give: `year=2024` (Hive's partitions).
    pub(super) partitions: Vec<(String, String)>,
}

impl Source {
    /// A file.
    pub fn new(path: &Path) -> Result<Self, TableError> {
        if let Some(address) = address_of(path) {
            return remote::source(address);
        }
        let failed =
            |error: std::io::Error| TableError::Read { path: path.display().to_string(), reason: io_words(&error) };
        let metadata = path.metadata().map_err(failed)?;
        let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        // A time that was set back does not hide a change.
        #[cfg(unix)]
        let modified = modified.map(|time| {
            use std::os::unix::fs::MetadataExt;
            let seconds = u64::try_from(metadata.ctime()).unwrap_or(0);
            let changed = std::time::Duration::new(seconds, u32::try_from(metadata.ctime_nsec()).unwrap_or(0));
            time.max(changed)
        });
        Ok(Self::of_parts(path.to_owned(), metadata.len(), modified.map_or(0, |time| time.as_nanos()), None))
    }

    /// A file of which this is known.
    pub(super) fn of_parts(path: PathBuf, bytes: u64, modified: u128, tag: Option<String>) -> Self {
        let folders = path.parent().into_iter().flat_map(Path::iter).filter_map(|part| part.to_str());
        let partition = |part: &str| part.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let partitions = folders.filter_map(partition).filter(|(name, _)| !name.is_empty()).collect();
        Self { path, bytes, modified, tag, partitions }
    }

    /// Whether it is not on this machine.
    pub(super) fn is_remote(&self) -> bool {
        address_of(&self.path).is_some()
    }

    /// Its size.
    #[cfg(feature = "remote")]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What a server calls this version of it.
    #[cfg(feature = "remote")]
    pub(super) fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Whether it can be read at once where it is, and has all its columns in it.
    pub(super) fn is_whole(&self) -> bool {
        self.partitions.is_empty() && !self.is_remote()
    }

    /// The same wherever the program is started.
    pub(super) fn absolute(&self) -> std::io::Result<Self> {
        let path = if self.is_remote() { self.path.clone() } else { std::path::absolute(&self.path)? };
        Ok(Self { path, ..self.clone() })
    }

    /// Its name in messages.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Whether it is as it was.
    pub(super) fn check(&self) -> Result<(), TableError> {
        if Self::new(&self.path)? == *self { Ok(()) } else { Err(TableError::SourceChanged { path: self.name() }) }
    }

    /// About how many bytes its numbers take in memory.
    fn size_in_memory(&self) -> u64 {
        let format = Format::of_path(&self.path);
        let is_packed = format.is_some_and(|format| format.compression != Compression::None);
        let is_parquet = format.is_some_and(|format| format.kind == Kind::Parquet);
        self.bytes.saturating_mul(match (is_packed, is_parquet) {
            (true, _) => INFLATION,
            (_, true) => PARQUET_INFLATION,
            _ => 1,
        })
    }
}

/// About how many bytes a fit in memory takes: the table, the numbers made of it and what is worked out for each row.
pub(super) fn memory_needed(sources: &[Source]) -> u64 {
    sources.iter().map(Source::size_in_memory).sum::<u64>().saturating_mul(BYTES_PER_BYTE)
}

/// The files that are meant, in the order of the arguments, those of one argument by name.
pub fn sources(arguments: &[PathBuf]) -> Result<Vec<Source>, TableError> {
    let mut found = Vec::new();
    for argument in arguments {
        let before = found.len();
        if let Some(address) = address_of(argument) {
            found.extend(remote::sources(address)?);
        } else if argument.is_dir() {
            let mut files = Vec::new();
            files_below(argument, &mut files)?;
            files.sort();
            files.iter().try_for_each(|file| Source::new(file).map(|source| found.push(source)))?;
        } else if argument.exists() || !has_wildcards(argument) {
            found.push(Source::new(argument)?);
        } else {
            let bad = |reason: String| TableError::Read { path: argument.display().to_string(), reason };
            for path in glob::glob(&argument.to_string_lossy()).map_err(|error| bad(error.to_string()))? {
                let path = path.map_err(|error| bad(error.to_string()))?;
                if path.is_file() {
                    found.push(Source::new(&path)?);
                }
            }
        }
        if found.len() == before {
            let pattern = argument.display().to_string();
            return Err(if argument.is_dir() {
                TableError::EmptyFolder { path: pattern }
            } else {
                TableError::NoFiles { pattern }
            });
        }
    }
    Ok(found)
}

/// The address of a remote file; none if this is a path.
fn address_of(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme)))
}

fn is_scheme(text: &str) -> bool {
    text.len() > 1 && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Whether a table comes once, through standard input or another pipe.
pub fn is_pipe(path: &Path) -> bool {
    path == Path::new("-") || (path.exists() && !path.is_dir() && !path.is_file())
}

fn has_wildcards(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

/// Files with the name or the content of a table; those whose names begin with a dot or an underscore are of those who wrote the folder.
fn files_below(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), TableError> {
    let failed =
        |error: std::io::Error| TableError::Read { path: folder.display().to_string(), reason: io_words(&error) };
    for entry in folder.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(['.', '_']) {
            continue;
        }
        if path.is_dir() {
            files_below(&path, files)?;
        } else if Format::of_path(&path).is_some() {
            files.push(path);
        }
    }
    Ok(())
}

/// Whether a file is a Parquet file by its first bytes.
pub(super) fn is_parquet(path: &Path) -> std::io::Result<bool> {
    use std::io::Read;
    let mut start = Vec::with_capacity(PARQUET_MAGIC.len());
    std::fs::File::open(path)?.take(PARQUET_MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start == PARQUET_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_patterns_are_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "a,b\n1,2\n").unwrap();
            path
        };
        let (b, a, hive) = (file("b.csv"), file("a.csv"), file("year=2024/month=1/c.csv"));
        file("_log.csv");
        file("notes.md");
        let found = |argument: PathBuf| -> Vec<PathBuf> {
            sources(&[argument]).unwrap().into_iter().map(|source| source.path).collect()
        };
        assert_eq!(found(folder.path().to_owned()), [a.clone(), b.clone(), hive.clone()]);
        assert_eq!(found(folder.path().join("?.csv")), [a.clone(), b]);
        let year = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert!(Source::new(&hive).unwrap().partitions.ends_with(&[year("year", "2024"), year("month", "1")]));
        let message = sources(&[folder.path().join("*.parquet")]).unwrap_err().to_string();
        assert!(message.contains("matches no file"), "{message}");
        let source = Source::new(&a).unwrap();
        source.check().unwrap();
        std::fs::write(&a, "a,b\n1,2\n3,4\n").unwrap();
        assert!(source.check().unwrap_err().to_string().contains("has changed"));
    }
}
