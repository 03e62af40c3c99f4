//! A folder to work in, and the command run there.

// Not every test file uses everything.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder that goes away with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("robustard-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file and gives its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), content).unwrap();
        self.path(name)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).unwrap()
    }

    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The command, to be run in this folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_robustard"));
        command.args(arguments).current_dir(&self.0);
        command
    }

    /// Runs the command in this folder.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// price = 20 + 3 area − 2 age + noise, `junk` does not matter, row 8 (h7) is wrong.
pub fn houses() -> String {
    let wave = |i: usize, k: usize| ((i * (2 * k + 3)) as f64 * 0.61).sin();
    let mut text = "name,area,age,junk,price\n".to_owned();
    for i in 0..100 {
        let (area, age, junk) = (50.0 + 20.0 * wave(i, 1), 30.0 + 10.0 * wave(i, 2), wave(i, 3));
        // Squares, so that no curve of the columns explains it.
        let noise = 0.5 * ((i * i) as f64 * 0.61).sin() + 0.3 * ((i * i) as f64 * 1.37).cos();
        let price = 20.0 + 3.0 * area - 2.0 * age + noise + if i == 7 { 80.0 } else { 0.0 };
        text += &format!("h{i},{area:.3},{age:.3},{junk:.3},{price:.3}\n");
    }
    text
}
