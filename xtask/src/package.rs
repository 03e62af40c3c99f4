//! The Python package: linted, built as a wheel, installed into a new environment and tested there, away from its sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::built;
use crate::python::{environment, new_environment, succeed};

const BUILD_TOOLS: [&str; 2] = ["maturin>=1.9,<2", "ruff>=0.9"];
/// What the tests compare with, or try the package on.
const TEST_PACKAGES: [&str; 10] =
    ["pytest", "mypy", "joblib", "jsonschema", "scipy", "pandas", "polars", "pyarrow", "matplotlib", "statsmodels"];
/// Engines of clusters, of versions that work together: Sail follows Spark's protocol some time later.
const CLUSTER_PACKAGES: [&str; 11] = [
    "pytest",
    "pandas<3",
    "pyarrow",
    "pyspark==4.1.4",
    "pysail==0.6.6",
    "ray[data]==2.60.0",
    "grpcio",
    "grpcio-status",
    "googleapis-common-protos",
    "zstandard",
    "scikit-learn",
];
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

/// Fits on a local cluster of Spark, on Sail and on Ray, by the wheel that [`check`] has built.
pub fn clusters() -> bool {
    eprintln!("── clusters: Spark, Sail and Ray on this machine");
    let run = || {
        let folder = folder()?;
        let wheel = match wheel() {
            Some(wheel) => wheel,
            None => build(&environment("build", &BUILD_TOOLS)?)?,
        };
        java()?;
        // Kept, because these packages are large; the wheel is new each time, under the same version.
        let python = environment("clusters", &CLUSTER_PACKAGES)?;
        let install =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--force-reinstall"];
        succeed(Command::new(&python).args(install).arg(&wheel))?;
        let sources = std::env::current_dir().map_err(|error| error.to_string())?.join("python");
        let some =
            [("", ["test_plan.py", "test_ray.py"]), ("sail", ["test_spark.py"; 2]), ("cluster", ["test_spark.py"; 2])];
        for (engine, files) in some {
            let mut tests = Command::new(&python);
            tests.current_dir(&folder).args(["-W", "ignore", "-m", "pytest", "--quiet", "-p", "no:cacheprovider"]);
            tests.args(["--config-file", "/dev/null", "--rootdir"]).arg(&folder);
            tests.args(files.iter().map(|file| sources.join("clusters").join(file)));
            tests.env("ROBUSTARD_ENGINE", engine).env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH");
            succeed(&mut tests)?;
        }
        Ok(())
    };
    report(run())
}

/// Spark needs Java; installs it by the system's package manager where that is possible.
fn java() -> Result<(), String> {
    let is_there = || Command::new("java").arg("-version").output().is_ok_and(|output| output.status.success());
    if is_there() {
        return Ok(());
    }
    let _ = succeed(Command::new("apt-get").args(["install", "--yes", "--quiet", "default-jre-headless"]));
    if is_there() { Ok(()) } else { Err("there is no java, which Spark needs; install a JRE (17 or later)".to_owned()) }
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
    wheel().ok_or_else(|| "maturin built no wheel".to_owned())
}

/// The wheel that was built last.
fn wheel() -> Option<PathBuf> {
    let files = std::fs::read_dir(folder().ok()?.join("wheels")).ok()?;
    files.flatten().map(|file| file.path()).find(|path| path.extension().is_some_and(|end| end == "whl"))
}

fn with_wheel(packages: &[&str], wheel: &Path) -> Vec<String> {
    packages.iter().map(|package| (*package).to_owned()).chain([wheel.display().to_string()]).collect()
}
