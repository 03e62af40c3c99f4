//! Where a fit goes on after it was killed.

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{TableError, io_words};
use crate::files::Existing;
use crate::output::write_whole;

const MAGIC: &[u8] = b"robustard checkpoint 1\n";

/// A file that says how far a fit has come.
pub(super) struct Checkpoint {
    path: PathBuf,
    /// Of the files and of everything that is asked for: another fit does not go on from here.
    task: [u8; 32],
    /// What was last written, by a fit that was killed.
    pub last: Option<Vec<u8>>,
}

impl Checkpoint {
    /// Reads what there is.
    pub fn open(path: &Path, files: &str, settings: &str) -> Result<Self, TableError> {
        let mut hasher = Sha256::new();
        [files, settings, env!("CARGO_PKG_VERSION")].iter().for_each(|part| {
            hasher.update(part.len().to_le_bytes());
            hasher.update(part);
        });
        let task: [u8; 32] = hasher.finalize().into();
        let unusable = |reason: String| TableError::Checkpoint { path: path.display().to_string(), reason };
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self { path: path.to_owned(), task, last: None });
            }
            Err(error) => return Err(unusable(io_words(&error))),
        };
        let other = "it is no checkpoint, or damaged; remove it or give another name";
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| unusable(other.to_owned()))?;
        let (head, last) = rest.split_at_checked(2 * task.len()).ok_or_else(|| unusable(other.to_owned()))?;
        let (of, checksum) = head.split_at(task.len());
        if of != task {
            let reason = "it is of another fit: other files, columns, settings or version; remove it to begin anew";
            return Err(unusable(reason.to_owned()));
        }
        if checksum != Sha256::digest(last).as_slice() {
            return Err(unusable(other.to_owned()));
        }
        Ok(Self { path: path.to_owned(), task, last: Some(last.to_vec()) })
    }

    /// Writes how far the fit has come, whole or not at all.
    pub fn write(&self, state: &[u8]) -> Result<(), TableError> {
        let bytes = [MAGIC, &self.task, Sha256::digest(state).as_slice(), state].concat();
        Ok(write_whole(&self.path, &bytes, Existing::Replace)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_fit_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fit.checkpoint");
        let open = |files, settings| Checkpoint::open(&path, files, settings).map(|checkpoint| checkpoint.last);
        assert_eq!(open("a", "b").unwrap(), None);
        Checkpoint::open(&path, "a", "b").unwrap().write(b"state").unwrap();
        assert_eq!(open("a", "b").unwrap().unwrap(), b"state");
        assert!(open("a", "c").unwrap_err().to_string().contains("another fit"));
        let bytes = std::fs::read(&path).unwrap();
        for length in 0..bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(open("a", "b").is_err(), "{length}");
        }
    }
}
