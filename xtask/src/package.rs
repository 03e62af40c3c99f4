//! The Python package: linted, built as a wheel, installed into a new environment and tested there, away from its sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::built;
use crate::python::{environment, new_environment, succeed};

const BUILD_TOOLS: [&str; 2] = ["maturin>=1.9,<2", "ruff>=0.9"];
/// What the tests compare with, or try the package on.
const TEST_PACKAGES: [&str; 10] =
    ["pytest", "mypy", "joblib", "jsonschema", "scipy", "pandas", "polars", "pyarrow", "matplotlib", "statsmodels"];
/// What the benchmark compares with.
const BENCH_PACKAGES: [&str; 3] = ["pandas", "statsmodels", "fastrvm"];

/// Runs all checks of the package.
pub fn check() -> bool {
    // The command that the package is compared with. Not the bridge, which maturin builds in an environment of its own.
    if !crate::run("command", &["build", "--release", "--bin", "robustard"], &[]) {
        return false;
    }
    eprintln!("── python: lint, wheel, tests in a new environment");
    report(run())
}

/// Runs `python -m robustard.bench` with the given arguments.
pub fn bench(arguments: &[&str]) -> bool {
    let run = || {
        let tools = environment("build", &BUILD_TOOLS)?;
        let python = new_environment(&folder()?.join("bench"), &with_wheel(&BENCH_PACKAGES, &build(&tools)?))?;
        succeed(Command::new(python).args(["-m", "robustard.bench"]).args(arguments))
    };
    report(run())
}

fn report(done: Result<(), String>) -> bool {
    if let Err(error) = &done {
        eprintln!("── python failed: {error}");
    }
    done.is_ok()
}

fn run() -> Result<(), String> {
    let tools = environment("build", &BUILD_TOOLS)?;
    for arguments in [["format", "--check", "python"], ["check", "--quiet", "python"]] {
        succeed(Command::new(&tools).args(["-m", "ruff"]).args(arguments))?;
    }
    let folder = folder()?;
    let wheel = build(&tools)?;
    let python = new_environment(&folder.join("tests"), &with_wheel(&TEST_PACKAGES, &wheel))?;
    let sources = std::env::current_dir().map_err(|error| error.to_string())?.join("python");
    // Elsewhere, so that the package can only be the installed one.
    let mut mypy = Command::new(&python);
    mypy.current_dir(&folder).args(["-m", "mypy", "--strict", "--package", "robustard", "--config-file"]);
    succeed(mypy.arg(sources.with_file_name("pyproject.toml")))?;
    let mut tests = Command::new(&python);
    tests.current_dir(&folder).args([
        "-m",
        "pytest",
        "--quiet",
        "-p",
        "no:cacheprovider",
        "--config-file",
        "/dev/null",
    ]);
    tests.arg("--rootdir").arg(&folder).arg(sources.join("tests"));
    tests.env("ROBUSTARD_COMMAND", built("robustard")?).env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH");
    succeed(&mut tests)
}

fn folder() -> Result<PathBuf, String> {
    let folder = built("python-package")?;
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// Builds the wheel.
fn build(tools: &Path) -> Result<PathBuf, String> {
    let wheels = folder()?.join("wheels");
    let _ = std::fs::remove_dir_all(&wheels);
    succeed(Command::new(tools).args(["-m", "maturin", "build", "--release", "--quiet", "--out"]).arg(&wheels))?;
    let files = std::fs::read_dir(&wheels).map_err(|error| error.to_string())?;
    let wheel = files.flatten().map(|file| file.path()).find(|path| path.extension().is_some_and(|end| end == "whl"));
    wheel.ok_or_else(|| "maturin built no wheel".to_owned())
}

fn with_wheel(packages: &[&str], wheel: &Path) -> Vec<String> {
    packages.iter().map(|package| (*package).to_owned()).chain([wheel.display().to_string()]).collect()
}
