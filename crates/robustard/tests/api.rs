//! What the layer and the engine show to others, as a list that only changes on purpose.
//! `ROBUSTARD_UPDATE=1 cargo test -p robustard --test api` writes it anew.

use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The public items of a file, each with the words up to its body.
fn items(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let is_item = |line: &str| {
        ["pub fn ", "pub struct ", "pub enum ", "pub trait ", "pub type ", "pub const ", "pub use ", "pub mod "]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let whole = |first: usize| {
        let mut item = String::new();
        for line in &lines[first..] {
            item.push_str(line.trim_end_matches(['{', ';']).trim_end());
            item.push(' ');
            if line.ends_with('{') && !line.starts_with("pub use") || line.ends_with(';') || line.ends_with('}') {
                break;
            }
        }
        item.trim_end().to_owned()
    };
    (0..lines.len()).filter(|&k| is_item(lines[k])).map(whole).collect()
}

fn api(folder: &Path) -> String {
    let mut out = String::new();
    for path in files(&folder.join("src")) {
        let items = items(&fs::read_to_string(&path).unwrap());
        if !items.is_empty() {
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            out += &format!(
                "{name}\n{}\n\n",
                items.iter().map(|item| format!("    {item}")).collect::<Vec<_>>().join("\n")
            );
        }
    }
    out
}

#[test]
fn the_interface_changes_on_purpose() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, folder) in [("robustard", here.to_owned()), ("robustard-engine", here.join("../robustard-engine"))] {
        let (found, path) = (api(&folder), here.join(format!("tests/api/{name}.txt")));
        if std::env::var_os("ROBUSTARD_UPDATE").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &found).unwrap();
        }
        let known = fs::read_to_string(&path).unwrap_or_default();
        let changed: Vec<&str> = found.lines().filter(|line| !known.contains(line)).collect();
        let gone: Vec<&str> = known.lines().filter(|line| !found.contains(line)).collect();
        assert!(
            known == found,
            "the interface of {name} is another; new: {changed:#?}, gone: {gone:#?}. ROBUSTARD_UPDATE=1 accepts that"
        );
    }
}
