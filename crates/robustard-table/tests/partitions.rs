//! Fits to rows that lie elsewhere: only bytes travel.

use robustard::{Choice, Control, Noise, Recipe};
use robustard_table::{
    Batches, EncodeOptions, Missing, ModelError, ReadOptions, StreamOptions, StreamedFit, Table, TableModel,
    fit_partitions, model_from_bytes, model_to_bytes, partial_sums, read_bytes, write,
};

/// y = 2a − b + 3 in Nice + noise; every fiftieth row is off by 9. Rows from `from` on, of a table of names, numbers and categories.
fn table(from: usize, to: usize, with_gaps: bool) -> Table {
    let wave = |i: usize, k: usize| ((i * (2 * k + 3)) as f64 * 0.611).sin();
    let mut text = "name,a,b,city,y\n".to_owned();
    for i in from..to {
        let city = ["Paris", "Lyon", "Nice"][i * i % 7 % 3];
        let error = 0.2 * wave(i * i, 5) + if i % 50 == 7 { 9.0 } else { 0.0 };
        let y = 2.0 * wave(i, 1) - wave(i, 2) + if city == "Nice" { 3.0 } else { 0.0 } + error;
        let b = if with_gaps && i % 11 == 3 { String::new() } else { wave(i, 2).to_string() };
        text += &format!("r{i},{},{b},{city},{y}\n", wave(i, 1));
    }
    read_bytes(text.into_bytes(), "t", &ReadOptions::default()).unwrap()
}

fn batches(table: &Table) -> Batches {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.arrow");
    write(table, &path).unwrap();
    let reader = arrow_ipc::reader::FileReader::try_new(std::fs::File::open(path).unwrap(), None).unwrap();
    Box::new(reader)
}

fn recipe() -> Recipe {
    Recipe::new(Choice::Given("linear".parse().unwrap()), Choice::Given(Noise::Contaminated)).unwrap()
}

fn columns() -> EncodeOptions {
    EncodeOptions { id: Some("name".into()), missing: Missing::Drop, ..EncodeOptions::new("y") }
}

fn fit(parts: &[Table]) -> Result<StreamedFit, ModelError> {
    let mut run =
        |task: &[u8]| Ok(parts.iter().map(|part| partial_sums(batches(part), task)).collect::<Result<_, _>>().unwrap());
    fit_partitions(&mut run, &columns(), &recipe(), &Control::new(), &StreamOptions::default())
}

#[test]
fn partitions_are_fitted_as_one_table() {
    let whole = table(0, 3000, true);
    let memory = TableModel::fit(&whole, &columns(), &recipe(), &Control::new()).unwrap();
    let empty = table(0, 1, false).take(&[]);
    let parts = [table(0, 1, true), table(1, 2000, true), empty, table(2000, 3000, true)];
    let StreamedFit { model, sample, names, notes } = fit(&parts).unwrap();
    assert_eq!(names, ["name", "a", "b", "city", "y"]);
    assert_eq!(notes, memory.notes);
    assert_eq!(sample.row_count(), model.rows().len());
    let [own, other] = [&model, &memory.model].map(|model| model.regression().features_in_units());
    for (own, other) in own.iter().zip(&other) {
        assert_eq!(own.name, other.name);
        let off = (own.coefficient - other.coefficient).abs() / other.standard_error.max(1e-4);
        assert!(off < 1e-2, "{}: {} {}", own.name, own.coefficient, other.coefficient);
    }
    let found = model.regression().whole().unwrap();
    let flagged = memory.model.regression().diagnostics().flagged_rows();
    assert!(found.flagged.abs_diff(flagged.len() as u64) <= 1, "{} {}", found.flagged, flagged.len());
    assert_eq!(found.rows, memory.model.rows().len() as u64);
    // Ids travel with the suspicious rows.
    let wrong = |id: &String| id[1..].parse::<usize>().unwrap() % 50 == 7;
    let ids = model.suspicious();
    assert!(ids.len() >= 50 && ids.iter().take(50).all(wrong), "{ids:?}");
    assert_eq!(model_from_bytes(&model_to_bytes(&model).unwrap()).unwrap().suspicious(), ids);
    // The same partitions, the same bytes; and the answer does not depend on how batches are cut.
    assert!(model_to_bytes(&fit(&parts).unwrap().model).unwrap() == model_to_bytes(&model).unwrap());
}

#[test]
fn what_is_wrong_is_said() {
    let parts = [table(0, 300, false), table(300, 600, false)];
    let of = |run: &mut robustard_table::Run<'_>, columns: &EncodeOptions| {
        fit_partitions(run, columns, &recipe(), &Control::new(), &StreamOptions::default()).unwrap_err().to_string()
    };
    let answer = |part: &Table, task: &[u8]| partial_sums(batches(part), task);
    // Bytes of something else, or damaged on the way.
    let message = of(&mut |_| Ok(vec![b"nothing".to_vec()]), &columns());
    assert!(message.contains("cut short"), "{message}");
    let mut damage = |task: &[u8]| {
        let mut answers: Vec<Vec<u8>> = parts.iter().map(|part| answer(part, task).unwrap()).collect();
        let middle = answers[1].len() / 2;
        answers[1][middle] ^= 1;
        Ok(answers)
    };
    let message = of(&mut damage, &columns());
    assert!(message.contains("cannot be used"), "{message}");
    assert!(answer(&parts[0], b"").unwrap_err().to_string().contains("robustard task"));
    // A partition that changes between two passes.
    let mut asked = 0;
    let mut changing = |task: &[u8]| {
        asked += 1;
        let second = if asked > 2 { &parts[0].take(&(0..200).collect::<Vec<_>>()) } else { &parts[1] };
        Ok(vec![answer(&parts[0], task).unwrap(), answer(second, task).unwrap()])
    };
    let message = of(&mut changing, &columns());
    assert!(message.contains("partition 2 has changed"), "{message}");
    let mut run = |task: &[u8]| Ok(parts.iter().map(|part| answer(part, task).unwrap()).collect());
    let none = of(&mut |_| Ok(Vec::new()), &columns());
    assert!(none.contains("no rows"), "{none}");
    let everything = EncodeOptions { include: vec!["city".into()], exclude: vec!["city".into()], ..columns() };
    let message = of(&mut run, &everything);
    assert!(message.contains("no columns are left"), "{message}");
}

#[test]
fn columns_that_look_like_numbers_in_one_partition_are_text() {
    let of = |codes: &[&str], from: usize| {
        let mut text = "code,x,y\n".to_owned();
        for i in from..from + 200 {
            let code = codes[i % codes.len()];
            let x = (i as f64).sin();
            let y = x + if code == "7" { 5.0 } else { 0.0 } + 0.1 * ((i * i) as f64).cos();
            text += &format!("{code},{x},{y}\n");
        }
        read_bytes(text.into_bytes(), "t", &ReadOptions { text_columns: vec!["code".into()], ..ReadOptions::default() })
            .unwrap()
    };
    let parts = [of(&["7", "8"], 0), of(&["7", "x"], 200)];
    let mut run = |task: &[u8]| Ok(parts.iter().map(|part| partial_sums(batches(part), task).unwrap()).collect());
    let fit = fit_partitions(&mut run, &EncodeOptions::new("y"), &recipe(), &Control::new(), &StreamOptions::default())
        .unwrap();
    assert_eq!(fit.model.encoder().names(), ["code=7", "code=8", "code=x", "code=(other)", "x"]);
}
