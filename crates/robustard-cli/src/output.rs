//! Outputs: checked before any work, printed or written after it.

use std::io::Write;
use std::path::{Path, PathBuf};

use robustard_report::visible;
use robustard_table::{
    Existing, FileId, OutputError, Table, TableWriter, check_output, check_output_folder, is_stdout, publish, sealed,
    sources,
};

use crate::{Outcome, Usage};

/// What a command will read and write.
pub struct Plan {
    existing: Existing,
    outputs: Vec<PathBuf>,
    /// Files that must not be written over, and what they are.
    kept: Vec<(&'static str, Vec<PathBuf>)>,
}

/// What becomes of files that are there: they stay unless `--force` is given.
pub fn existing(force: bool) -> Existing {
    if force { Existing::Replace } else { Existing::Keep }
}

impl Plan {
    pub fn new(force: bool) -> Self {
        Self { existing: existing(force), outputs: Vec::new(), kept: Vec::new() }
    }

    /// Writes a file, a stream or standard output (`-`).
    pub fn writes<'p>(mut self, paths: impl IntoIterator<Item = &'p PathBuf>) -> Self {
        self.outputs.extend(paths.into_iter().cloned());
        self
    }

    /// Needs a file as it is.
    pub fn keeps<'p>(mut self, what: &'static str, paths: impl IntoIterator<Item = &'p PathBuf>) -> Self {
        self.kept.push((what, paths.into_iter().cloned().collect()));
        self
    }

    /// Needs the files of a table: also those of folders and patterns.
    pub fn reads_table(self, tables: &[PathBuf]) -> Self {
        // What cannot be found is said when it is read.
        let found = match tables {
            [only] if is_stdout(only) => Vec::new(),
            _ => sources(tables).map_or_else(|_| Vec::new(), |found| found.into_iter().map(|file| file.path).collect()),
        };
        self.keeps("the table", tables.iter().chain(&found))
    }

    /// Refuses what would fail or lose something after the work.
    pub fn check(&self) -> Outcome<()> {
        for (k, path) in self.outputs.iter().enumerate() {
            let shown = path.display();
            if self.outputs[..k].iter().any(|other| is_same(path, other)) {
                return Err(Usage(format!("two outputs go to {shown}; give each a name of its own")).into());
            }
            let own = if is_stdout(path) { FileId::of_stdout() } else { FileId::of(path) };
            for (what, kept) in &self.kept {
                let id = |kept: &PathBuf| if is_dash(kept) { FileId::of_stdin() } else { FileId::of(kept) };
                if own.is_some() && kept.iter().any(|kept| id(kept) == own) {
                    let shown = if is_stdout(path) { "standard output".to_owned() } else { shown.to_string() };
                    return Err(Usage(format!("{shown} is {what}; give the output another name")).into());
                }
            }
            check_output(path, self.existing)?;
        }
        Ok(())
    }
}

fn is_dash(path: &Path) -> bool {
    path == Path::new("-")
}

fn is_same(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| if is_stdout(path) { FileId::of_stdout() } else { FileId::of(path) };
    match (id(a), id(b)) {
        (Some(a), Some(b)) => a == b,
        // What goes to the null device goes nowhere.
        _ => (is_stdout(a) && is_stdout(b)) || (a == b && a != Path::new("/dev/null")),
    }
}

/// A folder that has figures already is left alone unless asked; one that cannot be made is refused before the work.
pub fn check_figures(folder: &Path, force: bool) -> Outcome<()> {
    let is_figure = |path: &Path| path.extension().is_some_and(|extension| extension == "svg");
    if !force
        && let Ok(mut entries) = folder.read_dir()
        && entries.any(|entry| entry.is_ok_and(|entry| is_figure(&entry.path())))
    {
        return Err(format!("{} has figures in it; use --force to overwrite them", folder.display()).into());
    }
    Ok(check_output_folder(folder)?)
}

/// Writes a table.
pub fn write_table(table: &Table, path: &Path, existing: Existing) -> Outcome<()> {
    let mut writer = TableWriter::create(path, existing)?;
    writer.write(table)?;
    Ok(writer.finish()?)
}

/// Prints words or JSON on standard output, all of it.
pub fn print(text: &str) -> Outcome<()> {
    Ok(publish(vec![sealed(Path::new("-"), visible(text).as_bytes(), Existing::Keep)?])?)
}

/// Prints a summary, with colours on a terminal.
pub fn print_summary(text: &str) -> Outcome<()> {
    let mut out = anstream::stdout().lock();
    let printed = out.write_all(crate::colour::painted(&visible(text)).as_bytes()).and_then(|()| out.flush());
    printed.map_err(|error| OutputError { path: "-".into(), error }.into())
}
