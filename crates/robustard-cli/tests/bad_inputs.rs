//! Every way to go wrong has its own exit code and says what to do. The messages themselves are in
//! `snapshots/bad_inputs__messages.snap`.

mod common;

use common::{Folder, houses, text};

/// A command line that is refused, with its exit code.
struct Case {
    arguments: String,
    code: i32,
}

fn write_files(folder: &Folder) {
    let model = ["fit", "houses.csv", "--target", "price", "--exclude", "name", "-o", "good.model", "--quiet"];
    folder.file("houses.csv", houses());
    assert!(folder.run(&model).status.success());
    let bytes = std::fs::read(folder.path("good.model")).unwrap();
    folder.file("truncated.model", &bytes[..bytes.len() / 2]);
    let newer = text(&bytes[..]).contains("\"version\":\"4\"");
    assert!(newer, "the version is in the header");
    let place = bytes.windows(13).position(|part| part == b"\"version\":\"4\"").unwrap();
    let mut newer = bytes.clone();
    newer[place + 11] = b'9';
    folder.file("newer.model", newer);
    let place = bytes.windows(9).position(|part| part == b"robustard").unwrap();
    let mut other = bytes.clone();
    other[place] = b'x';
    folder.file("other.safetensors", other);
    folder.file("not.model", "this is no model");
    folder.file("empty.model", "");

    folder.file("empty.csv", "");
    folder.file("blank.csv", " \n\n ");
    folder.file("header.csv", "a,b\n");
    folder.file("ragged.csv", "a,b\n1,2\n3\n");
    folder.file("open-quote.csv", "a,b\n1,\"2\n3,4\n");
    folder.file("missing.csv", "x,y\n1,2\n,3\n4,5\n");
    folder.file("no-target.csv", "x,y\n1,2\n2,\n4,5\n");
    folder.file("all-missing.csv", "x,y\n,2\n,3\n");
    folder.file("words.csv", "x,y\n1,red\n2,blue\n");
    folder.file("one-word.csv", "x,y\n1,2\n2,many\n3,4\n");
    folder.file("constant.csv", "x,y\n1,2\n1,3\n");
    folder.file("only-target.csv", "y\n2\n3\n");
    folder.file("empty-target.csv", "x,y\n1,\n2,\n");
    folder.file("denormal.csv", "x,y\n1,5e-324\n2,1e-323\n3,5e-324\n");
    folder.file("infinite.csv", "x,y\n1,2\ninf,3\n2,4\n");
    folder.file("huge.csv", "x,y\n1,2\n1e999,3\n2,4\n");
    folder.file("twice.csv", "x,x,y\n1,2,3\n");
    folder.file("dates.csv", "d,y\n2020-01-01,1\n2020-01-02,2\n");
    folder.file("names.csv", (0..200).fold("n,x,y\n".to_owned(), |all, k| all + &format!("name{k},{},{}\n", k % 7, k)));
    folder.file("weights.csv", "x,w,y\n1,1,2\n2,-1,3\n3,1,5\n");
    folder.file("latin1.csv", b"x,y\nM\xfcnchen,1\nK\xf6ln,2\n");
    folder.file("binary.csv", [0u8, 159, 146, 150, 0, 1, 2, 3, 10, 0, 0]);
    folder.file("bad.parquet", "PAR1 and nothing of the kind PAR1");
    folder.file("bad.arrow", "ARROW1 and nothing of the kind");
    folder.file("bad.jsonl", "{\"x\": 1, \"y\": 2}\n{\"x\": \n");
    folder.file("bad.csv.gz", [0x1f, 0x8b, 8, 0, 1, 2, 3]);
    folder.file("bad.csv.zst", [0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3]);
    folder.file("wrong-type.toml", "tolerance = \"many\"");
    folder.file("unknown.toml", "tolerence = 1e-3");
    folder.file("broken.toml", "tolerance = = 1");
    folder.file("lacking.csv", "age,area\n1,2\n");
    folder.file("text-input.csv", "area,age,junk\nlarge,2,3\n");
    folder.file("hole.csv", "area,age,junk\n1,,3\n");
    std::fs::create_dir_all(folder.path("folder")).unwrap();
}

fn cases() -> Vec<Case> {
    let fit = |rest: &str, code: i32| Case { arguments: format!("fit {rest}"), code };
    let other = |arguments: &str, code: i32| Case { arguments: arguments.to_owned(), code };
    vec![
        // Files.
        fit("nowhere.csv --target y", 1),
        fit("folder --target y", 1),
        fit("empty.csv --target y", 1),
        fit("blank.csv --target y", 1),
        fit("header.csv --target b", 1),
        fit("ragged.csv --target b", 1),
        fit("open-quote.csv --target b", 1),
        fit("latin1.csv --target y", 1),
        fit("binary.csv --target y", 1),
        fit("bad.parquet --target y", 1),
        fit("bad.arrow --target y", 1),
        fit("bad.jsonl --target y", 1),
        fit("bad.csv.gz --target y", 1),
        fit("bad.csv.zst --target y", 1),
        fit("houses.csv --target price --format excel", 2),
        fit("houses.csv --target price --delimiter ab", 2),
        // Values.
        fit("missing.csv --target y", 1),
        fit("no-target.csv --target y", 1),
        fit("all-missing.csv --target y --missing drop", 1),
        fit("words.csv --target y", 1),
        fit("one-word.csv --target y", 1),
        fit("constant.csv --target y", 1),
        fit("only-target.csv --target y", 1),
        fit("empty-target.csv --target y", 1),
        fit("denormal.csv --target y", 1),
        fit("infinite.csv --target y", 1),
        fit("huge.csv --target y", 1),
        fit("twice.csv --target y", 1),
        fit("dates.csv --target y", 1),
        fit("weights.csv --target y --weights w", 1),
        fit("weights.csv --target y --weights w --features smooth", 1),
        fit("names.csv --target y --strict", 1),
        // Columns.
        fit("houses.csv", 2),
        fit("houses.csv --target prise", 1),
        fit("houses.csv --target price --include aera", 1),
        fit("houses.csv --target price --exclude aera", 1),
        fit("houses.csv --target price --categorical aera", 1),
        fit("houses.csv --target price --id nmae", 1),
        fit("houses.csv --target price --weights name", 1),
        fit("houses.csv --target price --weights junk", 1),
        fit("houses.csv --target price --include price", 1),
        fit("houses.csv --target price --missing guess", 2),
        // Features and settings.
        fit("houses.csv --target price --features cubic", 2),
        fit("houses.csv --target price --features poly:1", 2),
        fit("houses.csv --target price --features rbf --lengthscale=-1", 2),
        fit("houses.csv --target price --seed x", 2),
        fit("houses.csv --target price --preset fast", 2),
        fit("houses.csv --target price --solver newton", 2),
        fit("houses.csv --target price --noise loud", 2),
        fit("houses.csv --target price --noise cauchy", 2),
        fit("houses.csv --target price --noise student-t:-1", 2),
        fit("houses.csv --target price --set damping_noise=2", 2),
        fit("houses.csv --target price --set damping", 2),
        fit("houses.csv --target price --set tolerence=1e-3", 2),
        fit("houses.csv --target price --settings nowhere.toml", 2),
        fit("houses.csv --target price --settings wrong-type.toml", 2),
        fit("houses.csv --target price --settings unknown.toml", 2),
        fit("houses.csv --target price --settings broken.toml", 2),
        fit("houses.csv --target price --threads many", 2),
        // Outputs.
        fit("houses.csv --target price -o no/such/folder/m", 1),
        fit("houses.csv --target price --report no/such/folder/page.html", 1),
        fit("houses.csv --target price --figures houses.csv", 1),
        fit("houses.csv --target price -o good.model", 1),
        fit("houses.csv --target price --rows houses.csv --force", 2),
        fit("houses.csv --target price --rows same --report same", 2),
        fit("houses.csv --target price --json --rows -", 2),
        fit("houses.csv --target price -o -", 2),
        fit("houses.csv --target price --exclude name --features linear --strict --set max_iterations=2 --quiet", 3),
        // Models.
        other("predict nowhere.model houses.csv", 1),
        other("predict empty.model houses.csv", 1),
        other("predict not.model houses.csv", 1),
        other("predict other.safetensors houses.csv", 1),
        other("predict truncated.model houses.csv", 1),
        other("predict newer.model houses.csv", 1),
        other("predict good.model lacking.csv", 1),
        other("predict good.model text-input.csv", 1),
        other("predict good.model hole.csv", 1),
        other("predict good.model houses.csv --level 2", 2),
        other("predict good.model houses.csv --level 0", 2),
        other("predict good.model", 2),
        other("diagnose good.model lacking.csv", 1),
        other("diagnose good.model names.csv", 1),
        other("report good.model hole.csv", 1),
        other("report good.model houses.csv -o no/such/folder/page.html", 1),
        other("compare houses.csv --target price --folds 80", 1),
        other("compare houses.csv --target price --folds 1", 2),
        other("demo --seed -1", 2),
        other("completions tcsh", 2),
        other("fti houses.csv", 2),
        other("", 2),
    ]
}

#[test]
fn messages() {
    let folder = Folder::new("bad-inputs");
    write_files(&folder);
    let before = folder.names();
    let mut all = String::new();
    for Case { arguments, code } in cases() {
        let output = folder.run(&arguments.split_whitespace().collect::<Vec<_>>());
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{arguments}: {err}{out}");
        assert!(out.is_empty(), "{arguments} printed {out}");
        assert!(!err.is_empty() && !err.contains("panicked"), "{arguments}: {err}");
        all += &format!("$ robustard {arguments}\n[{code}] {}\n\n", err.trim_end());
        assert_eq!(folder.names(), before, "{arguments} left something behind");
    }
    assert!(cases().len() >= 40);
    insta::assert_snapshot!("messages", all);
}
