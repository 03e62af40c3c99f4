//! The browser check: installs what it needs (headless Chromium by the system's package manager, playwright into a Python
//! environment in the user's cache folder) and runs `xtask/browser/check.py`.

use std::path::PathBuf;
use std::process::Command;

use crate::built;
use crate::python::{environment, succeed};

/// What drives the browser; a system's Chromium of any recent version will do.
const PLAYWRIGHT: &str = "playwright==1.65.0";
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Runs the check. Without a browser it is skipped, unless `CI` is set.
pub fn check() -> bool {
    eprintln!("── browser: reports in headless Chromium");
    match run() {
        Ok(()) => true,
        Err(Trouble::NoBrowser) if std::env::var_os("CI").is_none() => {
            eprintln!("── browser check skipped: install chromium, or set ROBUSTARD_CHROMIUM to it");
            true
        }
        Err(Trouble::NoBrowser) => {
            eprintln!("── browser check failed: no chromium, and it could not be installed");
            false
        }
        Err(Trouble::Failed(what)) => {
            eprintln!("── browser check failed: {what}");
            false
        }
    }
}

enum Trouble {
    NoBrowser,
    Failed(String),
}

fn run() -> Result<(), Trouble> {
    let chromium = chromium().ok_or(Trouble::NoBrowser)?;
    let python = environment("browser", &[PLAYWRIGHT]).map_err(Trouble::Failed)?;
    let robustard = built("robustard").map_err(Trouble::Failed)?;
    let folder = robustard.with_file_name("browser-check");
    let mut check = Command::new(python);
    check.arg("xtask/browser/check.py").arg(chromium).arg(robustard).arg(folder);
    succeed(&mut check).map_err(Trouble::Failed)
}

fn chromium() -> Option<PathBuf> {
    let find = || {
        let given = std::env::var_os("ROBUSTARD_CHROMIUM").map(PathBuf::from);
        given.or_else(|| BROWSERS.iter().find_map(|name| on_path(name)))
    };
    find().or_else(|| {
        install_chromium();
        find()
    })
}

fn on_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// By apt-get, as root or by sudo without a password; whether it worked shows in whether the browser is there.
fn install_chromium() {
    if on_path("apt-get").is_none() {
        return;
    }
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    let apt = |arguments: &[&str]| {
        let mut command = if is_root { Command::new("apt-get") } else { Command::new("sudo") };
        if !is_root {
            command.args(["-n", "apt-get"]);
        }
        let _ = command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status();
    };
    apt(&["update", "--quiet"]);
    apt(&["install", "--yes", "--quiet", "--no-install-recommends", "chromium", "fonts-dejavu-core"]);
}
