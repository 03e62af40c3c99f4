//! Python environments in the user's cache folder.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter of the environment `name`, which has the given packages.
pub fn environment(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = cache.or_else(home).ok_or("HOME is not set")?;
    let environment = cache.join("robustard").join(format!("{name}-python"));
    let python = environment.join("bin").join("python");
    if !python.exists() {
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    }
    install(&python, packages)?;
    Ok(python)
}

/// The interpreter of an environment made anew in `folder`, which has the given packages.
pub fn new_environment(folder: &Path, packages: &[String]) -> Result<PathBuf, String> {
    succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    let python = folder.join("bin").join("python");
    install(&python, packages)?;
    Ok(python)
}

fn install<S: AsRef<OsStr>>(python: &Path, packages: &[S]) -> Result<(), String> {
    let mut install = Command::new(python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    succeed(&mut install)
}

/// Runs a command; what went wrong if it fails.
pub fn succeed(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
