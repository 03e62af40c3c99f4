//! Files in object stores and on web servers: looked up, and copied to a temporary file when their turn comes.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::aws::AmazonS3Builder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path as Key;
use object_store::{
    ClientOptions, Error, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, ObjectStoreScheme, RetryConfig,
};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt;
use tokio::runtime::{Builder, Runtime};
use url::{Position, Url};

use super::sources::Source;
use crate::error::{TableError, io_words};
use crate::files::{self, Readers};
use crate::format::Format;

/// A server that does not answer is asked so often, and for so long.
const RETRIES: usize = 3;
const RETRY_TIME: Duration = Duration::from_secs(20);

/// What an address leads to.
struct Remote {
    store: Box<dyn ObjectStore>,
    key: Key,
    /// What comes before a key in an address.
    base: String,
    runtime: Runtime,
}

fn failed(address: &str, reason: impl std::fmt::Display) -> TableError {
    TableError::Read { path: address.to_owned(), reason: reason.to_string() }
}

const CANNOT_LIST: &str = "this server cannot list files; give the address of each";

/// What a store says, without what it is made of.
fn words(error: &Error) -> String {
    match error {
        Error::NotFound { .. } => "there is no such file".to_owned(),
        Error::Unauthenticated { .. } | Error::PermissionDenied { .. } => {
            "permission denied; credentials come from the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, …)".to_owned()
        }
        Error::NotSupported { .. } | Error::NotImplemented { .. } => {
            CANNOT_LIST.to_owned()
        }
        other => other.to_string(),
    }
}

impl Remote {
    fn new(address: &str) -> Result<Self, TableError> {
        let url = Url::parse(address).map_err(|error| failed(address, error))?;
        if url.query().is_some() {
            let reason = "addresses with a query (?…) are not supported; download the file first";
            return Err(failed(address, reason));
        }
        let (scheme, key) = ObjectStoreScheme::parse(&url).map_err(|error| failed(address, error))?;
        let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_TIME, ..RetryConfig::default() };
        let base = format!("{}/", &url[..Position::BeforePath]);
        let store: Result<Box<dyn ObjectStore>, Error> = match scheme {
            ObjectStoreScheme::AmazonS3 => AmazonS3Builder::from_env()
                .with_url(address)
                .with_retry(retry)
                .build()
                .map(|store| Box::new(store) as _),
            ObjectStoreScheme::GoogleCloudStorage => GoogleCloudStorageBuilder::from_env()
                .with_url(address)
                .with_retry(retry)
                .build()
                .map(|store| Box::new(store) as _),
            ObjectStoreScheme::Http => HttpBuilder::new()
                .with_url(&base)
                .with_client_options(ClientOptions::new().with_allow_http(true))
                .with_retry(retry)
                .build()
                .map(|store| Box::new(store) as _),
            _ => return Err(failed(address, "only s3://, gs://, https:// and http:// addresses are read")),
        };
        let store = store.map_err(|error| failed(address, words(&error)))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(address, io_words(&error)))?;
        Ok(Self { store, key, base, runtime })
    }

    fn source(&self, found: &ObjectMeta) -> Source {
        let path = PathBuf::from(format!("{}{}", self.base, found.location));
        let modified = found.last_modified.timestamp_nanos_opt().and_then(|time| u128::try_from(time).ok());
        Source::of_parts(path, found.size, modified.unwrap_or(0), found.e_tag.clone())
    }
}

/// The file at an address.
pub(super) fn source(address: &str) -> Result<Source, TableError> {
    let remote = Remote::new(address)?;
    let found = remote.runtime.block_on(remote.store.head(&remote.key));
    found.map(|found| remote.source(&found)).map_err(|error| failed(address, words(&error)))
}

/// The files that an address means: one, those that a pattern matches, or those of a folder; by name.
pub(super) fn sources(address: &str) -> Result<Vec<Source>, TableError> {
    let wildcard = address.find(['*', '[']);
    let folder =
        &address[..wildcard.and_then(|place| address[..place].rfind('/')).map_or(address.len(), |end| end + 1)];
    let remote = Remote::new(folder)?;
    let found = remote.runtime.block_on(async {
        if wildcard.is_none() && !address.ends_with('/') {
            match remote.store.head(&remote.key).await {
                Ok(found) => return Ok(vec![found]),
                Err(error) if remote.base.starts_with("http") || !matches!(error, Error::NotFound { .. }) => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        remote.store.list(Some(&remote.key)).try_collect().await
    });
    let found: Vec<ObjectMeta> = found.map_err(|error| failed(address, words(&error)))?;
    if found.is_empty() && remote.base.starts_with("http") {
        return Err(failed(address, CANNOT_LIST));
    }
    let pattern = wildcard.map(|_| address.strip_prefix(&remote.base).unwrap_or(address));
    let mut found = if found.len() == 1 && wildcard.is_none() { found } else { wanted(found, pattern, address)? };
    found.sort_by(|a, b| a.location.cmp(&b.location));
    Ok(found.iter().map(|found| remote.source(found)).collect())
}

/// Those that a pattern matches, or without one those that are tables by their names.
fn wanted(found: Vec<ObjectMeta>, pattern: Option<&str>, address: &str) -> Result<Vec<ObjectMeta>, TableError> {
    let pattern = pattern.map(Pattern::new).transpose().map_err(|error| failed(address, error))?;
    let options = MatchOptions { require_literal_separator: true, ..MatchOptions::default() };
    let is_hidden = |part: &str| part.starts_with(['.', '_']);
    let is_wanted = |found: &ObjectMeta| {
        let key = found.location.as_ref();
        match &pattern {
            Some(pattern) => pattern.matches_with(key, options),
            None => !key.split('/').any(is_hidden) && Format::of_path(key.as_ref()).is_some(),
        }
    };
    Ok(found.into_iter().filter(is_wanted).collect())
}

/// Copies a file, as it was when it was looked up.
pub(super) fn fetch(source: &Source) -> Result<NamedTempFile, TableError> {
    let address = source.name();
    let remote = Remote::new(&address)?;
    let local =
        files::temporary(&std::env::temp_dir(), Readers::User).map_err(|error| failed(&address, io_words(&error)))?;
    let options = GetOptions { if_match: source.tag().map(str::to_owned), ..GetOptions::default() };
    let copied = remote.runtime.block_on(async {
        let mut parts = match remote.store.get_opts(&remote.key, options).await {
            Ok(found) => found.into_stream(),
            Err(Error::Precondition { .. } | Error::NotFound { .. }) => {
                return Err(TableError::SourceChanged { path: address.clone() });
            }
            Err(error) => return Err(failed(&address, words(&error))),
        };
        let file = local.reopen().map_err(|error| failed(&address, io_words(&error)))?;
        let mut file = tokio::fs::File::from_std(file);
        let mut copied = 0;
        while let Some(part) = parts.try_next().await.map_err(|error| failed(&address, words(&error)))? {
            copied += part.len() as u64;
            file.write_all(&part).await.map_err(|error| failed(&address, io_words(&error)))?;
        }
        file.flush().await.map_err(|error| failed(&address, io_words(&error)))?;
        Ok(copied)
    })?;
    if copied != source.bytes() {
        return Err(TableError::SourceChanged { path: address });
    }
    Ok(local)
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn keys_are_chosen_by_pattern_or_name() {
        let store = InMemory::new();
        let runtime = Builder::new_current_thread().build().unwrap();
        let found: Vec<ObjectMeta> = runtime.block_on(async {
            for key in ["a/1.parquet", "a/2.parquet", "a/b/3.parquet", "a/_log/4.parquet", "a/notes.txt"] {
                store.put(&Key::from(key), "x".into()).await.unwrap();
            }
            store.list(Some(&Key::from("a"))).try_collect().await.unwrap()
        });
        let keys = |pattern| -> Vec<String> {
            let mut found = wanted(found.clone(), pattern, "s3://bucket/a").unwrap();
            found.sort_by(|a, b| a.location.cmp(&b.location));
            found.iter().map(|found| found.location.to_string()).collect()
        };
        assert_eq!(keys(Some("a/*.parquet")), ["a/1.parquet", "a/2.parquet"]);
        assert_eq!(keys(Some("a/**/*.parquet")).len(), 4);
        assert_eq!(keys(None), ["a/1.parquet", "a/2.parquet", "a/b/3.parquet"]);
    }

    #[test]
    fn addresses_that_cannot_be_read_say_why() {
        let message = |address: &str| sources(address).unwrap_err().to_string();
        assert!(message("https://example.com/a.csv?token=1").contains("with a query"));
        assert!(message("ftp://example.com/a.csv").contains("ftp://example.com/a.csv"));
        assert!(message("az://container/a.csv").contains("only s3://"));
    }
}
