//! Outputs: files that get their names when they are whole, together if they belong together; devices, pipes and standard output as
//! streams.

use std::fs::{File, Metadata};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tempfile::NamedTempFile;
use thiserror::Error;

use crate::error::io_words;
use crate::files::{self, Existing, Readers, Second};

/// What stands for standard output.
const STDOUT: &str = "-";
/// Other names of standard output, that of standard error, and where open files have names.
#[cfg(unix)]
const STDOUT_NAMES: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
#[cfg(unix)]
const STDERR: &str = "/dev/stderr";
#[cfg(unix)]
const OPEN_FILES: [&str; 2] = ["/dev/fd", "/proc/self/fd"];

/// An output that cannot be written.
#[derive(Debug, Error)]
#[error("{}", self.words())]
pub struct OutputError {
    /// Its name.
    pub path: PathBuf,
    /// What the system said.
    pub error: std::io::Error,
}

impl OutputError {
    fn new(path: &Path, error: std::io::Error) -> Self {
        Self { path: path.to_owned(), error }
    }

    fn words(&self) -> String {
        let path = if is_stdout(&self.path) { "standard output".to_owned() } else { self.path.display().to_string() };
        match self.error.kind() {
            ErrorKind::AlreadyExists => format!("{path} exists; use --force to overwrite it"),
            ErrorKind::IsADirectory => format!("{path} is a folder; give the name of a file"),
            ErrorKind::NotFound => {
                let folder = files::folder_of(&self.path).display();
                format!("cannot write {path}: there is no folder {folder}; make it, or give another name")
            }
            ErrorKind::BrokenPipe => format!("cannot write {path}: its reader has closed it"),
            _ => format!("cannot write {path}: {}", io_words(&self.error)),
        }
    }

    /// Whether who reads standard output wants no more of it.
    pub fn is_closed_stdout(&self) -> bool {
        self.error.kind() == ErrorKind::BrokenPipe && is_stdout(&self.path)
    }
}

/// Whether an output is standard output.
pub fn is_stdout(path: &Path) -> bool {
    #[cfg(unix)]
    if STDOUT_NAMES.iter().any(|name| path == Path::new(name)) {
        return true;
    }
    path == Path::new(STDOUT)
}

/// Whether an output is written as it comes: standard output, devices, pipes and files that are open already.
pub fn is_stream(path: &Path) -> bool {
    #[cfg(unix)]
    if path == Path::new(STDERR) || OPEN_FILES.iter().any(|folder| path.parent() == Some(Path::new(folder))) {
        return true;
    }
    is_stdout(path) || path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Which file a name means, whatever it is called: for files that are there, their place on the disk, for others, their folder and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileId(Id);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Id {
    #[cfg(unix)]
    Inode(u64, u64),
    Place(PathBuf),
}

impl FileId {
    /// None for streams and for names in folders that are not there.
    pub fn of(path: &Path) -> Option<Self> {
        if path == Path::new(STDOUT) {
            return None;
        }
        if let Ok(metadata) = path.metadata() {
            return Self::of_metadata(&metadata, path);
        }
        let target = files::target_of(path).ok()?;
        let folder = files::folder_of(&target).canonicalize().ok()?;
        Some(Self(Id::Place(folder.join(target.file_name()?))))
    }

    fn of_metadata(metadata: &Metadata, path: &Path) -> Option<Self> {
        if !metadata.is_file() {
            return None;
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let _ = path;
            Some(Self(Id::Inode(metadata.dev(), metadata.ino())))
        }
        #[cfg(not(unix))]
        Some(Self(Id::Place(path.canonicalize().ok()?)))
    }

    /// Of standard input, if it is a file.
    pub fn of_stdin() -> Option<Self> {
        #[cfg(unix)]
        return Self::of_open(std::os::fd::AsFd::as_fd(&std::io::stdin()));
        #[cfg(not(unix))]
        None
    }

    /// Of standard output, if it is a file.
    pub fn of_stdout() -> Option<Self> {
        #[cfg(unix)]
        return Self::of_open(std::os::fd::AsFd::as_fd(&std::io::stdout()));
        #[cfg(not(unix))]
        None
    }

    #[cfg(unix)]
    fn of_open(open: std::os::fd::BorrowedFd<'_>) -> Option<Self> {
        let file = File::from(open.try_clone_to_owned().ok()?);
        Self::of_metadata(&file.metadata().ok()?, Path::new(""))
    }
}

/// Refuses what could not be written later: a file that is to be kept, a folder, a folder that is not there or takes no files.
pub fn check_output(path: &Path, existing: Existing) -> Result<(), OutputError> {
    let failed = |error| OutputError::new(path, error);
    if is_stream(path) {
        return Ok(());
    }
    refuse(path, existing).map_err(failed)?;
    let target = files::target_of(path).map_err(failed)?;
    files::temporary(files::folder_of(&target), Readers::User).map(drop).map_err(failed)
}

/// Makes a folder for outputs, if it is not there, and says whether files can be made in it.
pub fn make_output_folder(folder: &Path) -> Result<(), OutputError> {
    files::make_folder(folder).map_err(|error| OutputError::new(folder, error))
}

/// Refuses a folder that cannot be made or takes no files; it makes none.
pub fn check_output_folder(folder: &Path) -> Result<(), OutputError> {
    let mut there = folder;
    while !files::is_there(there) {
        there = files::folder_of(there);
    }
    files::temporary(there, Readers::User).map(drop).map_err(|error| OutputError::new(folder, error))
}

fn refuse(path: &Path, existing: Existing) -> std::io::Result<()> {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(_) if existing == Existing::Keep => Err(ErrorKind::AlreadyExists.into()),
        _ => Ok(()),
    }
}

/// An output on its way.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    sink: Sink,
    trouble: Trouble,
}

#[derive(Debug)]
enum Sink {
    Stdout(std::io::Stdout),
    Stream(BufWriter<File>),
    File { file: BufWriter<NamedTempFile>, target: PathBuf, existing: Existing },
}

/// The first thing that went wrong while writing: what lies between may keep no more of it than a text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trouble(Arc<OnceLock<(ErrorKind, Option<i32>)>>);

impl Trouble {
    fn note<T>(&self, result: std::io::Result<T>) -> std::io::Result<T> {
        if let Err(error) = &result
            && error.kind() != ErrorKind::Interrupted
        {
            let _ = self.0.set((error.kind(), error.raw_os_error()));
        }
        result
    }

    /// What it was.
    pub fn error(&self) -> Option<std::io::Error> {
        let (kind, code) = self.0.get()?;
        Some(code.map_or_else(|| (*kind).into(), std::io::Error::from_raw_os_error))
    }
}

impl Output {
    /// Begins an output; `-` is standard output. A file that has the name stays until the new one is whole.
    pub fn create(path: &Path, existing: Existing) -> Result<Self, OutputError> {
        let sink = Self::sink(path, existing).map_err(|error| OutputError::new(path, error))?;
        Ok(Self { path: path.to_owned(), sink, trouble: Trouble::default() })
    }

    fn sink(path: &Path, existing: Existing) -> std::io::Result<Sink> {
        if is_stdout(path) {
            return Ok(Sink::Stdout(std::io::stdout()));
        }
        if is_stream(path) {
            return Ok(Sink::Stream(BufWriter::new(files::stream(path)?)));
        }
        refuse(path, existing)?;
        let target = files::target_of(path)?;
        let file = match target.metadata() {
            Ok(old) => {
                // What is private is not readable while it is written either.
                let file = files::temporary(files::folder_of(&target), Readers::User)?;
                files::like(file.as_file(), &old)?;
                file
            }
            Err(_) => files::temporary(files::folder_of(&target), Readers::AsUsual)?,
        };
        Ok(Sink::File { file: BufWriter::new(file), target, existing })
    }

    pub(crate) fn trouble(&self) -> Trouble {
        self.trouble.clone()
    }

    /// Puts all that was written on the disk. A file gets its name by [`publish`].
    pub fn seal(self) -> Result<Sealed, OutputError> {
        let Self { path, sink, trouble: _ } = self;
        let sealed = match sink {
            Sink::Stdout(mut out) => out.flush().map(|()| None),
            Sink::Stream(mut out) => out.flush().map(|()| None),
            Sink::File { file, target, existing } => file
                .into_inner()
                .map_err(|error| error.into_error())
                .and_then(|file| files::sync(file.as_file()).map(|()| Some(Whole { file, target, existing }))),
        };
        match sealed {
            Ok(whole) => Ok(Sealed { path, whole }),
            Err(error) => Err(OutputError::new(&path, error)),
        }
    }

    /// Ends the output.
    pub fn finish(self) -> Result<(), OutputError> {
        publish(vec![self.seal()?])
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.trouble.note(match &mut self.sink {
            Sink::Stdout(out) => out.write(bytes),
            Sink::Stream(out) => out.write(bytes),
            Sink::File { file, .. } => file.write(bytes),
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.trouble.note(match &mut self.sink {
            Sink::Stdout(out) => out.flush(),
            Sink::Stream(out) => out.flush(),
            Sink::File { file, .. } => file.flush(),
        })
    }
}

/// An output that is whole; a file without its name.
#[derive(Debug)]
pub struct Sealed {
    path: PathBuf,
    whole: Option<Whole>,
}

#[derive(Debug)]
struct Whole {
    file: NamedTempFile,
    target: PathBuf,
    existing: Existing,
}

/// How to undo that a file got its name.
enum Undo {
    PutBack(Second),
    Remove(FileId),
    /// The file system has no second names.
    Nothing,
}

/// Gives files their names, in order: all of them, or none if one cannot have its own.
pub fn publish(outputs: Vec<Sealed>) -> Result<(), OutputError> {
    let mut done: Vec<(PathBuf, Undo)> = Vec::new();
    let count = outputs.len();
    for (k, Sealed { path, whole }) in outputs.into_iter().enumerate() {
        let Some(Whole { file, target, existing }) = whole else { continue };
        // The last one needs no way back.
        let is_new = !files::is_there(&target);
        let second = if is_new || k + 1 == count { None } else { Second::of(&target).ok() };
        match refuse(&target, existing).and_then(|()| files::put(file, &target, existing)) {
            Ok(file) => {
                let undo = match second {
                    Some(second) => Undo::PutBack(second),
                    None if is_new => of_file(&file, &target).map_or(Undo::Nothing, Undo::Remove),
                    None => Undo::Nothing,
                };
                done.push((target, undo));
            }
            Err(error) => {
                done.into_iter().rev().for_each(|(target, undo)| take_back(&target, undo));
                return Err(OutputError::new(&path, error));
            }
        }
    }
    let mut folders: Vec<&Path> = done.iter().map(|(target, _)| files::folder_of(target)).collect();
    folders.dedup();
    folders.iter().try_for_each(|folder| files::sync_folder(folder).map_err(|error| OutputError::new(folder, error)))
}

fn of_file(file: &File, path: &Path) -> Option<FileId> {
    FileId::of_metadata(&file.metadata().ok()?, path)
}

/// What cannot be taken back stays: there is nothing more to be done.
fn take_back(target: &Path, undo: Undo) {
    let _ = match undo {
        Undo::PutBack(second) => second.put_back(target),
        // It may be another's by now.
        Undo::Remove(own) if FileId::of(target).as_ref() == Some(&own) => files::remove(target),
        Undo::Remove(_) | Undo::Nothing => Ok(()),
    };
}

/// Writes a file, whole or not at all.
pub fn write_whole(path: &Path, bytes: &[u8], existing: Existing) -> Result<(), OutputError> {
    sealed(path, bytes, existing).and_then(|sealed| publish(vec![sealed]))
}

/// An output of these bytes, still without its name.
pub fn sealed(path: &Path, bytes: &[u8], existing: Existing) -> Result<Sealed, OutputError> {
    let mut output = Output::create(path, existing)?;
    output.write_all(bytes).map_err(|error| OutputError::new(path, error))?;
    output.seal()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    /// Of several files none appears, and none is lost, if one cannot have its name.
    #[test]
    fn all_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new, taken] = ["old", "new", "taken"].map(|name| folder.path().join(name));
        std::fs::write(&old, "before").unwrap();
        let three = |existing| {
            [(&old, Existing::Replace), (&new, Existing::Keep), (&taken, existing)]
                .map(|(path, existing)| sealed(path, b"after", existing).unwrap())
                .into()
        };
        let outputs: Vec<Sealed> = three(Existing::Keep);
        std::fs::write(&taken, "another's").unwrap();
        let error = publish(outputs).unwrap_err();
        assert_eq!(error.error.kind(), ErrorKind::AlreadyExists);
        assert_eq!((read(&old).as_str(), read(&taken).as_str(), new.exists()), ("before", "another's", false));
        publish(three(Existing::Replace)).unwrap();
        assert!([&old, &new, &taken].iter().all(|path| read(path) == "after"));
        assert_eq!(folder.path().read_dir().unwrap().count(), 3);
    }

    #[test]
    fn names_of_one_file_are_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let around = folder.path().join(".").join("..").join(folder.path().file_name().unwrap()).join("a");
        let is_same = || FileId::of(&path).is_some() && FileId::of(&path) == FileId::of(&around);
        assert!(is_same());
        std::fs::write(&path, "").unwrap();
        assert!(is_same());
        assert_ne!(FileId::of(&path), FileId::of(&folder.path().join("b")));
        assert_eq!(FileId::of(Path::new("-")), None);
    }
}
