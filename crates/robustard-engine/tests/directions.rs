//! Modules use only modules before them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules in order.
const ORDER: [&str; 15] = [
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
    "solver",
    "model",
    "diagnostics",
    "fit",
];

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The modules that follow `crate::` in a file, also within braces.
fn used(text: &str) -> BTreeSet<String> {
    let name = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    text.split("crate::")
        .skip(1)
        .flat_map(|rest| match rest.strip_prefix('{') {
            None => vec![name(rest)],
            Some(list) => outermost(list).iter().map(|part| name(part.trim())).collect(),
        })
        .filter(|name| !name.is_empty())
        .collect()
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
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let place = |module: &str| ORDER.iter().position(|other| *other == module);
    let mut seen = BTreeSet::new();
    for file in files(&source) {
        let inside = file.strip_prefix(&source).unwrap();
        let first = inside.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.strip_suffix(".rs").unwrap_or(first).to_owned();
        if module == "lib" {
            continue;
        }
        let Some(own) = place(&module) else { panic!("module {module} is not in the list of this test") };
        for other in used(&fs::read_to_string(&file).unwrap()) {
            let Some(its) = place(&other) else {
                panic!("{}: crate::{other} is not a module in the list of this test", inside.display())
            };
            assert!(its <= own, "{}: {module} uses {other}, which comes after it", inside.display());
        }
        seen.insert(module);
    }
    assert_eq!(seen.len(), ORDER.len(), "the list of this test names modules that are gone: {seen:?}");
}

#[test]
fn references_are_found() {
    let text = "use crate::math::sum;\nuse crate::{noise::Noise, state::State};\nlet x = crate::fit::fit();";
    assert_eq!(used(text).into_iter().collect::<Vec<_>>(), ["fit", "math", "noise", "state"]);
}
