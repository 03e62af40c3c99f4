//! Python environments in the user's cache folder.

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
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    succeed(&mut install)?;
    Ok(python)
}

/// Runs a command; what went wrong if it fails.
pub fn succeed(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
