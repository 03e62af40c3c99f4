//! Notes the commit that the program is built from.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(folder) = git(&["rev-parse", "--absolute-git-dir"]) {
        println!("cargo:rerun-if-changed={folder}/logs/HEAD");
    }
    let commit = git(&["rev-parse", "--short", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=ROBUSTARD_COMMIT={commit}");
}
