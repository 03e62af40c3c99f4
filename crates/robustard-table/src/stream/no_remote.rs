//! What stands for remote files where they are not built in.

use tempfile::NamedTempFile;

use super::sources::Source;
use crate::error::TableError;

fn refused(address: &str) -> TableError {
    let reason = "this build reads local files only; build it with --features remote".to_owned();
    TableError::Read { path: address.to_owned(), reason }
}

pub(super) fn source(address: &str) -> Result<Source, TableError> {
    Err(refused(address))
}

pub(super) fn sources(address: &str) -> Result<Vec<Source>, TableError> {
    Err(refused(address))
}

pub(super) fn fetch(source: &Source) -> Result<NamedTempFile, TableError> {
    Err(refused(&source.name()))
}
