//! Tables on a web server, which the test runs itself.
#![cfg(feature = "remote")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use robustard::{Choice, Control, Noise, Recipe};
use robustard_table::{
    EncodeOptions, Input, ModelError, ReadOptions, StreamOptions, StreamedFit, fit_stream, read_sources, sources,
};

/// Files by their paths, each with a version that changes with it.
type Files = Arc<Mutex<BTreeMap<String, (u32, Vec<u8>)>>>;

/// Serves files on this machine, until the test ends.
fn serve(files: &Files) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let files = files.clone();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let files = files.clone();
            std::thread::spawn(move || while answer(&connection, &files).is_some() {});
        }
    });
    address
}

/// Answers one request; none at the end.
fn answer(mut connection: &TcpStream, files: &Files) -> Option<()> {
    let mut lines = BufReader::new(connection).lines();
    let request = lines.next()?.ok()?;
    let mut condition = None;
    for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("if-match")
        {
            condition = Some(value.to_owned());
        }
    }
    let mut words = request.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let file = files.lock().unwrap().get(path).cloned();
    let (status, tag, body) = match file {
        None => ("404 Not Found", String::new(), Vec::new()),
        Some((version, body)) => match format!("\"v{version}\"") {
            tag if condition.is_some_and(|wanted| wanted != tag) => ("412 Precondition Failed", tag, Vec::new()),
            tag => ("200 OK", tag, body),
        },
    };
    let length = body.len();
    write!(connection, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: {tag}\r\n\r\n").ok()?;
    if method == "GET" {
        connection.write_all(&body).ok()?;
    }
    Some(())
}

fn rows(from: usize, to: usize) -> Vec<u8> {
    let wave = |i: usize, k: usize| ((i * (2 * k + 3)) as f64 * 0.611).sin();
    let mut text = "a,b,y\n".to_owned();
    for i in from..to {
        text += &format!("{},{},{}\n", wave(i, 1), wave(i, 2), 2.0 * wave(i, 1) - wave(i, 2) + 0.1 * wave(i * i, 5));
    }
    text.into_bytes()
}

fn fit(paths: &[PathBuf], options: &StreamOptions, control: &Control) -> Result<StreamedFit, ModelError> {
    let files = sources(paths)?;
    let recipe = Recipe::new(Choice::Given("linear".parse().unwrap()), Choice::Given(Noise::Contaminated)).unwrap();
    let (reading, columns) = (ReadOptions::default(), EncodeOptions::new("y"));
    fit_stream(Input::Files(&files), &reading, &columns, &recipe, control, options, None)
}

#[test]
fn remote_files_are_fitted_as_local_ones() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::default();
    let address = serve(&files);
    let (mut local, mut remote) = (Vec::new(), Vec::new());
    for (k, (from, to)) in [(0, 1500), (1500, 2000)].into_iter().enumerate() {
        let path = folder.path().join(format!("{k}.csv"));
        std::fs::write(&path, rows(from, to)).unwrap();
        files.lock().unwrap().insert(format!("/data/{k}.csv"), (1, rows(from, to)));
        local.push(path);
        remote.push(PathBuf::from(format!("{address}/data/{k}.csv")));
    }
    let [own, other] =
        [&local, &remote].map(|paths| fit(paths, &StreamOptions::default(), &Control::new()).unwrap().model);
    assert_eq!(own.regression().model().coefficients(), other.regression().model().coefficients());
    assert_eq!(own.fingerprint(), other.fingerprint());
    let whole = read_sources(&sources(&remote).unwrap(), &ReadOptions::default()).unwrap();
    assert_eq!(whole.row_count(), 2000);
    // A cache is of this version of the files, and of no other.
    let cache = StreamOptions { cache: Some(folder.path().join("cache")), ..StreamOptions::default() };
    let caches = || std::fs::read_dir(folder.path().join("cache")).unwrap().count();
    fit(&remote, &cache, &Control::new()).unwrap();
    fit(&remote, &cache, &Control::new()).unwrap();
    assert_eq!(caches(), 1);
    files.lock().unwrap().get_mut("/data/1.csv").unwrap().0 = 2;
    fit(&remote, &cache, &Control::new()).unwrap();
    assert_eq!(caches(), 2);
}

#[test]
fn files_that_change_or_are_not_there_are_named() {
    let files = Files::default();
    let address = serve(&files);
    let path = |name: &str| PathBuf::from(format!("{address}/{name}"));
    for name in ["/0.csv", "/1.csv"] {
        files.lock().unwrap().insert(name.to_owned(), (1, rows(0, 1000)));
    }
    let message = |paths: &[PathBuf]| sources(paths).unwrap_err().to_string();
    assert!(message(&[path("2.csv")]).contains("2.csv: there is no such file"), "{}", message(&[path("2.csv")]));
    assert!(message(&[path("*.csv")]).contains("give the address of each"), "{}", message(&[path("*.csv")]));
    // The second file changes after it was looked up.
    let found = sources(&[path("0.csv"), path("1.csv")]).unwrap();
    files.lock().unwrap().insert("/1.csv".to_owned(), (2, rows(0, 999)));
    let error = read_sources(&found, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("1.csv has changed"), "{error}");
}
