//! Modules use only modules before them, in the engine and in this crate.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of the engine, in order.
const ENGINE: [&str; 16] = [
    "stop",
    "math",
    "metrics",
    "problem",
    "noise",
    "predictive",
    "prediction",
    "posterior",
    "state",
    "evidence",
    "growth",
    "passes",
    "solver",
    "model",
    "diagnostics",
    "fit",
];
/// The modules of this crate, in order.
const LAYER: [&str; 25] = [
    "control",
    "input_column",
    "dataset",
    "scaling",
    "range",
    "moments",
    "target",
    "triangle",
    "calibration",
    "standard_errors",
    "widths",
    "learn",
    "features",
    "recipe",
    "design",
    "diagnostics",
    "quality",
    "fitted",
    "effects",
    "work",
    "selection",
    "regression",
    "stream",
    "summary",
    "validation",
];
/// The one error has variants of all modules, and all may return it.
const OF_ALL: [&str; 2] = ["error", "Error"];
/// Tests use everything.
const TESTS: &str = "tests";

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The names that follow `crate::` in a file, also within braces.
fn used(text: &str) -> BTreeSet<String> {
    let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let names = text.split("crate::").skip(1).flat_map(|rest| match rest.strip_prefix('{') {
        None => vec![name(rest)],
        Some(list) => outermost(list).iter().map(|part| name(part.trim())).collect(),
    });
    names.filter(|name| !name.is_empty() && !OF_ALL.contains(&name.as_str())).collect()
}

/// The parts of a list in braces, up to its end; those of inner braces stay together.
fn outermost(list: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut depth = 0;
    for c in list.chars() {
        match c {
            '}' if depth == 0 => break,
            ',' if depth == 0 => parts.push(String::new()),
            _ => {
                depth += i32::from(c == '{') - i32::from(c == '}');
                parts.last_mut().expect("one at least").push(c);
            }
        }
    }
    parts
}

#[test]
fn modules_use_only_those_before_them() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    check(&own.join("src"), &LAYER);
    check(&own.join("../robustard-engine/src"), &ENGINE);
}

fn check(source: &Path, order: &[&str]) {
    let place = |module: &str| order.iter().position(|other| *other == module);
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for file in files(source) {
        let inside = file.strip_prefix(source).unwrap();
        let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.strip_suffix(".rs").unwrap_or(first).to_owned();
        if [TESTS, "lib"].contains(&module.as_str()) || OF_ALL.contains(&module.as_str()) {
            continue;
        }
        let Some(own) = place(&module) else { panic!("module {module} is not in the list of this test") };
        for other in used(&fs::read_to_string(&file).unwrap()) {
            match place(&other) {
                None => wrong.push(format!("{}: crate::{other} is no module in the list", inside.display())),
                Some(its) if its > own => {
                    wrong.push(format!("{}: {module} uses {other}, which comes later", inside.display()))
                }
                Some(_) => {}
            }
        }
        seen.insert(module);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(seen.len(), order.len(), "the list of this test names modules that are gone: {seen:?}");
}

#[test]
fn references_are_found() {
    let text =
        "use crate::control::par;\nuse crate::{Error, design::{Design, Beyond}, work::Work};\ncrate::recipe::Recipe";
    assert_eq!(used(text).into_iter().collect::<Vec<_>>(), ["control", "design", "recipe", "work"]);
}
