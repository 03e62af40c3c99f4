//! Nothing is lost and nothing is half: outputs are whole files under their names, or nothing is there.
#![cfg(unix)]

use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

mod common;

use common::{Folder, houses, text};

const FIT: [&str; 6] = ["fit", "houses.csv", "--target", "price", "--id", "name"];
/// A fit that goes on until it is stopped.
const ENDLESS: [&str; 6] = ["--preset", "paper", "--set", "max_iterations=100000000", "--set", "tolerance=1e-300"];

fn folder(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.file("houses.csv", houses());
    folder
}

fn fit(folder: &Folder, more: &[&str]) -> Output {
    folder.run(&[&FIT[..], &["--features", "linear"], more].concat())
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn mode(path: &str) -> u32 {
    Path::new(path).metadata().unwrap().permissions().mode() & 0o7777
}

/// Stops a fit by Ctrl-C after a while.
fn interrupted(folder: &Folder, more: &[&str]) -> Output {
    let command =
        folder.command(&[&FIT[..], &ENDLESS, more].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = command.unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    child.wait_with_output().unwrap()
}

/// What a pipe's other end was sent, while `command` runs.
fn through_pipe(folder: &Folder, pipe: &str, arguments: &[&str]) -> (Output, String) {
    let path = folder.path(pipe);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let reader = std::thread::spawn(move || {
        let mut read = String::new();
        std::fs::File::open(path).unwrap().read_to_string(&mut read).unwrap();
        read
    });
    let output = folder.run(arguments);
    (output, reader.join().unwrap())
}

/// `fit && deploy` must not deploy what Ctrl-C has left, nor lose the model before.
#[test]
fn an_interrupted_fit_writes_nothing() {
    let folder = folder("interrupted");
    folder.file("m", "the model before");
    let output = interrupted(&folder, &["-o", "m", "--rows", "rows.csv", "--report", "page.html", "--force"]);
    assert_eq!(code(&output), Some(130), "{}", text(&output.stderr));
    assert_eq!(folder.read("m"), "the model before");
    assert_eq!(folder.names(), ["houses.csv", "m"]);
    assert!(text(&output.stderr).contains("interrupted: nothing is written"), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    // Fits by passes end between two blocks of rows.
    let passes = interrupted(&folder, &["--memory", "1KB", "--rows", "rows.csv", "--checkpoint", "checkpoint"]);
    assert_eq!(code(&passes), Some(130), "{}", text(&passes.stderr));
    assert!(text(&passes.stderr).contains("nothing is written"), "{}", text(&passes.stderr));
    assert!(!folder.names().contains(&"rows.csv".to_owned()), "{:?}", folder.names());
    let json = interrupted(&folder, &["--json"]);
    assert_eq!((code(&json), text(&json.stdout)), (Some(130), String::new()));
}

#[test]
fn an_interrupted_fit_is_saved_where_that_is_asked_for() {
    let folder = folder("save-interrupted");
    let output = interrupted(&folder, &["--save", "m", "--save-interrupted"]);
    assert_eq!(code(&output), Some(130), "{}", text(&output.stderr));
    assert_eq!(folder.names(), ["houses.csv", "m-rows.csv", "m.html", "m.model"]);
    assert!(folder.read("m.html").contains("interrupted"));
    let predicted = folder.run(&["predict", "m.model", "houses.csv", "--only"]);
    assert_eq!(text(&predicted.stdout).lines().count(), 101);
}

/// A file that appears while the fit runs stays.
#[test]
fn a_file_that_appears_meanwhile_stays() {
    let folder = folder("meanwhile");
    let saved = ["--save", "m", "--save-interrupted"];
    let command =
        folder.command(&[&FIT[..], &ENDLESS, &saved].concat()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let child = command.unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    folder.file("m.model", "another's");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("m.model exists"), "{}", text(&output.stderr));
    // All or nothing: the rows and the page have gone, too.
    assert_eq!(folder.names(), ["houses.csv", "m.model"]);
    assert_eq!(folder.read("m.model"), "another's");
}

/// Of several processes with one name, one has it and the others say so.
#[test]
fn one_of_many_has_the_name() {
    let folder = folder("many");
    let start = || {
        let command = [&FIT[..], &["--features", "linear", "--save", "m", "--threads", "1"]].concat();
        folder.command(&command).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = (0..6).map(|_| start()).collect();
    let outputs: Vec<Output> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let codes: Vec<_> = outputs.iter().map(code).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == Some(1)).count(), 5, "{codes:?}");
    assert!(
        outputs.iter().filter(|output| code(output) == Some(1)).all(|output| text(&output.stderr).contains("exists"))
    );
    assert_eq!(folder.names(), ["houses.csv", "m-rows.csv", "m.html", "m.model"]);
}

/// Old files come back if one of several cannot be replaced.
#[test]
fn with_force_it_is_all_or_nothing_too() {
    let folder = folder("all-or-nothing");
    assert_eq!(code(&fit(&folder, &["--save", "m", "--quiet"])), Some(0));
    let before = ["m-rows.csv", "m.html", "m.model"].map(|name| folder.bytes(name));
    let command = folder.command(&[&FIT[..], &ENDLESS, &["--save", "m", "--save-interrupted", "--force"]].concat());
    let mut command = command;
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    // The last one becomes a folder, which no file can replace.
    std::fs::remove_file(folder.path("m.model")).unwrap();
    std::fs::create_dir(folder.path("m.model")).unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), Some(1), "{}", text(&output.stderr));
    assert_eq!([folder.bytes("m-rows.csv"), folder.bytes("m.html")], [before[0].clone(), before[1].clone()]);
    assert_eq!(folder.names(), ["houses.csv", "m-rows.csv", "m.html", "m.model"]);
}

#[test]
fn devices_and_pipes_stay_what_they_are() {
    let folder = folder("devices");
    let null = || Path::new("/dev/null").metadata().unwrap();
    let before = (null().mode(), null().rdev(), null().ino());
    for more in [&["-o", "/dev/null", "--force"][..], &["-o", "/dev/null", "--rows", "/dev/null"]] {
        let output = fit(&folder, more);
        assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
        assert_eq!((null().mode(), null().rdev(), null().ino()), before);
    }
    let command = [&FIT[..], &["--features", "linear", "--rows", "pipe", "--force", "--quiet"]].concat();
    let (output, read) = through_pipe(&folder, "pipe", &command);
    assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
    assert_eq!(read.lines().count(), 101);
    let rows = fit(&folder, &["--rows", "/dev/stdout"]);
    assert_eq!(code(&rows), Some(0), "{}", text(&rows.stderr));
    assert_eq!(text(&rows.stdout).lines().count(), 101);
    // Also where it is a file.
    let into = std::fs::File::create(folder.path("out.csv")).unwrap();
    let command = [&FIT[..], &["--features", "linear", "--rows", "/dev/stdout", "--quiet"]].concat();
    assert!(folder.command(&command).stdout(into).status().unwrap().success());
    assert_eq!(folder.read("out.csv").lines().count(), 101);
    let script = format!(
        "{} fit <(cat houses.csv) --target price --features linear --rows >(cat > sent.csv) --quiet; sleep 0.5",
        env!("CARGO_BIN_EXE_robustard")
    );
    assert!(Command::new("bash").args(["-c", &script]).current_dir(&folder).status().unwrap().success());
    assert_eq!(folder.read("sent.csv").lines().count(), 101);
}

/// However it is called.
#[test]
fn inputs_are_never_outputs() {
    let folder = folder("inputs");
    assert_eq!(code(&fit(&folder, &["-o", "m", "--quiet"])), Some(0));
    let model = folder.bytes("m");
    symlink("houses.csv", folder.path("link.csv")).unwrap();
    std::fs::hard_link(folder.path("houses.csv"), folder.path("hard.csv")).unwrap();
    let whole = folder.path("houses.csv");
    for name in ["./houses.csv", &whole, "link.csv", "hard.csv", "../x/../houses.csv"] {
        for output in ["-o", "--rows", "--report"] {
            let output = fit(&folder, &[output, name, "--force"]);
            assert_ne!(code(&output), Some(0), "{name}: {}", text(&output.stderr));
            assert_eq!(folder.read("houses.csv"), houses(), "{name}");
        }
        let predicted = folder.run(&["predict", "m", "houses.csv", "-o", name, "--force"]);
        assert_ne!(code(&predicted), Some(0), "{name}");
        assert_eq!(folder.read("houses.csv"), houses(), "{name}");
    }
    for command in [
        &["predict", "m", "houses.csv", "-o", "./m", "--force"][..],
        &["diagnose", "m", "houses.csv", "-o", "./m", "--force"],
        &["effects", "m", "-o", "./m", "--force"],
        &["report", "m", "houses.csv", "-o", "./m", "--force"],
    ] {
        let output = folder.run(command);
        assert_eq!(code(&output), Some(2), "{command:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("is the model"), "{}", text(&output.stderr));
        assert_eq!(folder.bytes("m"), model);
    }
    let two = fit(&folder, &["-o", "a", "--rows", "./a"]);
    assert_eq!(code(&two), Some(2), "{}", text(&two.stderr));
    // What is read from standard input, too.
    let from = std::fs::File::open(folder.path("houses.csv")).unwrap();
    let command = ["fit", "-", "--target", "price", "--rows", "houses.csv", "--force"];
    assert_eq!(code(&folder.command(&command).stdin(from).output().unwrap()), Some(2));
    assert_eq!(folder.read("houses.csv"), houses());
}

#[test]
fn permissions_and_links_stay() {
    let folder = folder("permissions");
    let (private, target) = (folder.file("private.model", ""), folder.file("target.model", ""));
    std::fs::set_permissions(&private, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::set_permissions(&target, PermissionsExt::from_mode(0o664)).unwrap();
    symlink("target.model", folder.path("link.model")).unwrap();
    symlink("new.model", folder.path("dangling.model")).unwrap();
    for name in ["private.model", "link.model", "dangling.model"] {
        let output = fit(&folder, &["-o", name, "--force", "--quiet"]);
        assert_eq!(code(&output), Some(0), "{name}: {}", text(&output.stderr));
    }
    assert_eq!((mode(&private), mode(&target)), (0o600, 0o664));
    for (link, to) in [("link.model", "target.model"), ("dangling.model", "new.model")] {
        assert_eq!(std::fs::read_link(folder.path(link)).unwrap(), Path::new(to));
        assert!(folder.bytes(to).len() > 1000, "{to}");
    }
}

/// A process that was killed while it wrote leaves a file; the next one removes it, but not that of one that is still writing.
#[test]
fn what_killed_processes_left_is_removed() {
    let folder = folder("left");
    folder.file(".robustard-abc123.tmp", "half a model");
    let living = folder.file(".robustard-def456.tmp", "half a model");
    let living = std::fs::File::open(living).unwrap();
    living.lock().unwrap();
    symlink("houses.csv", folder.path(".robustard-ghi789.tmp")).unwrap();
    assert_eq!(code(&fit(&folder, &["-o", "m", "--quiet"])), Some(0));
    assert_eq!(folder.names(), [".robustard-def456.tmp", ".robustard-ghi789.tmp", "houses.csv", "m"]);
}

#[test]
fn only_a_closed_pipe_ends_in_peace() {
    let folder = folder("closed");
    assert_eq!(code(&fit(&folder, &["-o", "m", "--quiet"])), Some(0));
    // An error that only has those words in it.
    let output = folder.run(&["predict", "m", "Broken pipe"]);
    assert_eq!(code(&output), Some(1));
    for command in [&["predict", "m", "houses.csv"][..], &["completions", "bash"], &["--help"], &["effects", "m"]] {
        let mut child = folder.command(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), text(&output.stderr)), (Some(0), String::new()), "{command:?}");
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = folder.command(command).stdout(full).output().unwrap();
        assert_eq!(code(&output), Some(1), "{command:?}: {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("panicked"), "{command:?}: {}", text(&output.stderr));
    }
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let summary = folder.command(&[&FIT[..], &["--features", "linear"]].concat()).stdout(full).output().unwrap();
    assert_eq!(code(&summary), Some(1), "{}", text(&summary.stderr));
    // Another pipe than standard output is an output like any other.
    let rows = fit(&folder, &["--rows", "/dev/full"]);
    assert_eq!(code(&rows), Some(1), "{}", text(&rows.stderr));
    assert!(text(&rows.stderr).contains("the disk is full"), "{}", text(&rows.stderr));
}

/// A fit of an hour must not end with a folder that is not there.
#[test]
fn folders_of_outputs_are_checked_before_the_fit() {
    let folder = folder("checked");
    std::fs::create_dir(folder.path("folder")).unwrap();
    for output in [&["-o", "no/m"][..], &["--rows", "no/rows.csv"], &["--report", "no/page.html"], &["-o", "folder"]] {
        // Without an end, so it can only be refused before.
        let mut child = folder
            .command(&[&FIT[..], &ENDLESS, output, &["--force"]].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let started = std::time::Instant::now();
        while child.try_wait().unwrap().is_none() {
            if started.elapsed() > Duration::from_secs(10) {
                child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(code(&output), Some(1), "{}", text(&output.stderr));
    }
    assert_eq!(folder.names(), ["folder", "houses.csv"]);
}

/// Names can hold codes that a terminal obeys, and characters that turn the direction of text.
#[test]
fn hidden_characters_are_written_out_everywhere() {
    let folder = Folder::new("hidden");
    let names = ["a\u{1b}[31mred", "b\u{202e}exe"];
    let rows: String = (0..40).map(|k| format!("{},{},{}\n", k % 7, k % 5, 2 * (k % 7) + k % 3)).collect();
    folder.file("t.csv", format!("{},{},y\n{rows}", names[0], names[1]));
    let command = ["fit", "t.csv", "--target", "y", "--features", "linear", "--save", "m", "--figures", "figures"];
    let fit = folder.run(&command);
    let json = folder.run(&["fit", "t.csv", "--target", "y", "--features", "linear", "--json"]);
    let explained = folder.run(&["explain", "m.model", "t.csv", "--row", "3"]);
    let unknown = folder.run(&["fit", "t.csv", "--target", "z"]);
    assert_eq!(code(&unknown), Some(1));
    let drawn: String = std::fs::read_dir(folder.path("figures"))
        .unwrap()
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert!(drawn.contains("<svg") && !drawn.contains(['\u{1b}', '\u{202e}']));
    let shown =
        [text(&fit.stdout), text(&json.stdout), text(&explained.stdout), text(&unknown.stderr), folder.read("m.html")];
    for (place, shown) in shown.iter().enumerate() {
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{place}");
        assert!(shown.contains("\\u001b[31mred") && shown.contains("\\u202eexe"), "{place}: {shown}");
    }
    // For programs they are what they are.
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let columns = value["effects"]["columns"].as_array().unwrap();
    assert!(names.iter().all(|name| columns.iter().any(|column| column["name"] == *name)), "{columns:?}");
}

/// Nothing in a model or in rows depends on when they were made.
#[test]
fn equal_fits_write_equal_files() {
    let folder = folder("equal");
    for name in ["a", "b"] {
        assert_eq!(code(&folder.run(&[&FIT[..], &["--save", name, "--quiet"]].concat())), Some(0));
    }
    assert_eq!(folder.bytes("a.model"), folder.bytes("b.model"));
    assert_eq!(folder.bytes("a-rows.csv"), folder.bytes("b-rows.csv"));
}

/// Whole numbers that a double cannot tell apart are those of the training rows.
#[test]
fn large_whole_numbers_are_not_outside_the_range() {
    let folder = Folder::new("large-numbers");
    let rows: String = (0..60)
        .map(|k: i64| format!("{},{}\n", 9_007_199_254_740_993 + 7 * ((k * 37) % 60), (k * 37) % 60 + k % 5))
        .collect();
    folder.file("t.csv", format!("x,y\n{rows}"));
    assert!(
        folder.run(&["fit", "t.csv", "--target", "y", "--features", "smooth", "-o", "m", "--quiet"]).status.success()
    );
    let predicted = folder.run(&["predict", "m", "t.csv", "-o", "p.csv"]);
    assert_eq!((code(&predicted), text(&predicted.stderr)), (Some(0), String::new()));
}
