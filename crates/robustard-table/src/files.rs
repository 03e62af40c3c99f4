//! Everything that changes the file system: outputs, caches and checkpoints are written by these few operations only.
//!
//! A file is written under a name of its own in the folder where it will stay, which no one can guess, and gets its own name when all
//! of it is on the disk. Its writer holds a lock until then: a file of that kind without a lock was left by a process that is gone.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tempfile::{NamedTempFile, TempPath};

/// How the names of files begin and end that are not whole yet.
const PREFIX: &str = ".robustard-";
const SUFFIX: &str = ".tmp";
/// Links that are followed from one name; more lead in a circle.
const MOST_LINKS: usize = 40;

/// What becomes of a file that has the name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and writing fails.
    Keep,
    /// It is replaced, once the new one is whole.
    Replace,
}

/// Who may read a new file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Whom the user lets read new files.
    AsUsual,
    /// The user alone.
    User,
}

/// A new file without its final name, locked by its writer. It goes away unless it is [`put`] somewhere.
pub(crate) fn temporary(folder: &Path, readers: Readers) -> std::io::Result<NamedTempFile> {
    clean_once(folder);
    loop {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).suffix(SUFFIX);
        #[cfg(unix)]
        if readers == Readers::AsUsual {
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        }
        let file = builder.tempfile_in(folder)?;
        // Where there are no locks, nothing is taken for left behind either.
        let _ = file.as_file().lock();
        // Another process may have taken it for left behind before it was locked.
        if is_there(file.path()) {
            return Ok(file);
        }
    }
}

/// A file without any name: nothing is left of it whatever happens.
pub(crate) fn unnamed(folder: &Path) -> std::io::Result<File> {
    tempfile::tempfile_in(folder)
}

/// Gives a new file the owner and the permissions of one that it will replace.
pub(crate) fn like(file: &File, old: &Metadata) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            // Only the superuser may give files away; a group of one's own is allowed.
            let _ = fchown(file, Some(old.uid()), Some(old.gid())).or_else(|_| fchown(file, None, Some(old.gid())));
        }
    }
    file.set_permissions(old.permissions())
}

/// Waits until all of a file is on the disk.
pub(crate) fn sync(file: &File) -> std::io::Result<()> {
    file.sync_all()
}

/// Gives a file its name, in one step.
pub(crate) fn put(file: NamedTempFile, path: &Path, existing: Existing) -> std::io::Result<File> {
    let put = match existing {
        Existing::Keep => file.persist_noclobber(path),
        Existing::Replace => file.persist(path),
    };
    put.map_err(|error| error.error)
}

/// A second name beside a file, by which it can be brought back.
pub(crate) struct Second {
    name: TempPath,
    /// Locked, so that it is not taken for left behind.
    _file: Option<File>,
}

impl Second {
    pub fn of(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path).ok().filter(|file| file.try_lock_shared().is_ok());
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).suffix(SUFFIX);
        let named = builder.make_in(folder_of(path), |second| std::fs::hard_link(path, second))?;
        Ok(Self { name: named.into_temp_path(), _file: file })
    }

    /// Moves the file back under the name it had.
    pub fn put_back(self, path: &Path) -> std::io::Result<()> {
        self.name.persist(path).map_err(|error| error.error)
    }
}

/// Removes a file.
pub(crate) fn remove(path: &Path) -> std::io::Result<()> {
    std::fs::remove_file(path)
}

/// Waits until the names in a folder are on the disk, where folders can be waited for.
pub(crate) fn sync_folder(folder: &Path) -> std::io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error)
            if [ErrorKind::InvalidInput, ErrorKind::Unsupported, ErrorKind::PermissionDenied]
                .contains(&error.kind()) =>
        {
            Ok(())
        }
        result => result,
    }
}

/// Makes a folder and those it is in.
pub(crate) fn make_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)
}

/// A device, a pipe or an open file, to be written from its end on.
pub(crate) fn stream(path: &Path) -> std::io::Result<File> {
    File::options().append(true).open(path)
}

/// The same as [`clean`] before the first file that this process makes in a folder, which may hold very many.
fn clean_once(folder: &Path) {
    static CLEANED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if CLEANED.lock().is_ok_and(|mut cleaned| cleaned.insert(folder.to_owned())) {
        clean(folder);
    }
}

/// Removes what processes that are gone have left in a folder.
pub(crate) fn clean(folder: &Path) {
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_file = || entry.file_type().is_ok_and(|kind| kind.is_file());
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) && is_file() {
            let path = entry.path();
            // The lock is held until the file is gone. Without leave to read or to remove it, it stays.
            let Ok(file) = File::open(&path) else { continue };
            if file.try_lock().is_ok() {
                let _ = remove(&path);
            }
        }
    }
}

/// Whether a name leads to anything, be it a link that leads nowhere.
pub(crate) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// The folder of a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where links lead: the name of the file that is written.
pub(crate) fn target_of(path: &Path) -> std::io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&path) {
            Ok(to) => path = folder_of(&path).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(std::io::Error::other("its links lead in a circle"))
}
