//! The default against what it replaces.

use std::fmt::Write;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use robustard::metrics::mean;
use robustard_lab::default::{Method, Score, score, split_name};
use robustard_lab::paper;
use robustard_lab::protocol::{Damage, DamageKind, DataSet, MOST_TRAINING_ROWS};
use robustard_lab::verdict::verdict;
use robustard_report::short;
use serde_json::json;

use crate::{Ending, Outcome};

/// Options of `default`.
#[derive(Args)]
pub struct DefaultExperiment {
    /// The folder with the data sets
    #[arg(long, value_name = "DIR", env = "ROBUSTARD_DATA")]
    data: PathBuf,
    /// Only these sets; `paper` is the nine of the paper, `suite` ten more, `all` both; `friedman` is made
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "paper")]
    sets: Vec<String>,
    /// Seeds of the splits, from and to
    #[arg(long, default_value = "100-109", value_parser = seeds)]
    seeds: (u64, u64),
    /// What is wrong with some training targets: clean, shifted, one-sided, swapped or unit (times ten), with a share such as
    /// shifted:0.3
    #[arg(long, value_name = "DAMAGE", value_delimiter = ',', default_value = "clean,shifted,shifted:0.3")]
    damage: Vec<Damage>,
    /// Most training rows; several numbers show what more rows bring
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [MOST_TRAINING_ROWS])]
    rows: Vec<usize>,
    /// Only these methods: default, cleaned, learnt-shared, learnt-student, learnt-contaminated, learnt-nested, fixed-shared,
    /// fixed-robust, paper
    #[arg(long, value_name = "METHOD", value_delimiter = ',', value_parser = method)]
    methods: Vec<Method>,
    /// Write the training and test rows of every split into this folder, as CSV with the target last
    #[arg(long, value_name = "DIR")]
    splits: Option<PathBuf>,
    /// Print one JSON object per fit instead of the tables
    #[arg(long)]
    json: bool,
}

fn seeds(text: &str) -> Result<(u64, u64), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let pair = first.parse().ok().zip(last.parse().ok());
    pair.filter(|(first, last)| first <= last).ok_or_else(|| "give one seed, or two such as 100-109".to_owned())
}

fn method(text: &str) -> Result<Method, String> {
    serde_json::from_value(json!(text)).map_err(|_| "there is no such method".to_owned())
}

impl DefaultExperiment {
    /// Runs and prints.
    pub fn run(&self) -> Outcome<Ending> {
        let sets: Vec<Vec<DataSet>> = self.sets.iter().map(|name| DataSet::several(name)).collect::<Result<_, _>>()?;
        let sets = sets.concat();
        let mut all = Vec::new();
        for set in &sets {
            let split_of = set.splitter(&self.data)?;
            let conditions = self.damage.iter().flat_map(|damage| self.rows.iter().map(|rows| (*damage, *rows)));
            for (damage, rows) in conditions {
                let mut scores = Vec::new();
                for seed in self.seeds.0..=self.seeds.1 {
                    let split = split_of(rows, damage, seed)?;
                    if let Some(folder) = &self.splits {
                        std::fs::create_dir_all(folder)?;
                        split.write(set, folder, &split_name(set, damage, rows, seed))?;
                    }
                    for method in Method::ALL {
                        let is_wanted = self.methods.is_empty() || self.methods.contains(&method);
                        if !is_wanted || method == Method::Cleaned && split.wrong.is_empty() {
                            continue;
                        }
                        let score = score(set, &split, damage, rows, seed, method)?;
                        if self.json {
                            writeln!(std::io::stdout().lock(), "{}", json!(score))?;
                        }
                        scores.push(score);
                    }
                    eprintln!("{}, {damage}, at most {rows} rows, seed {seed} done", set.name);
                }
                if !self.json {
                    std::io::stdout().lock().write_all(cell(set, damage, &scores)?.as_bytes())?;
                }
                all.extend(scores);
            }
        }
        if !self.json {
            std::io::stdout().lock().write_all(verdict(&all).as_bytes())?;
        }
        Ok(Ending::Done)
    }
}

/// The methods on one set in one condition, means over the seeds.
fn cell(set: &DataSet, damage: Damage, scores: &[Score]) -> Outcome<String> {
    let mut out = String::new();
    let mut seeds: Vec<u64> = scores.iter().map(|score| score.seed).collect();
    seeds.dedup();
    let seeds = seeds.len();
    let of_paper = (damage.kind == DamageKind::Shifted).then(|| paper::best(set.name, damage.share)).flatten();
    let best = of_paper.map_or(String::new(), |(rmse, method)| format!("; best in the paper {rmse} ({method})"));
    let rows = scores.first().map_or(0, |score| score.rows);
    writeln!(out, "{}, {damage}, {rows} rows, {seeds} seeds{best}", set.name)?;
    writeln!(
        out,
        "  {:<17} {:>10} {:>8} {:>6} {:>6} {:>6} {:>7} {:>8}",
        "", "RMSE", "NLL", "50%", "80%", "95%", "recall", "seconds"
    )?;
    for method in Method::ALL {
        let own: Vec<&Score> = scores.iter().filter(|score| score.method == method).collect();
        if own.is_empty() {
            continue;
        }
        let average = |value: &dyn Fn(&Score) -> f64| mean(&own.iter().map(|score| value(score)).collect::<Vec<_>>());
        let recall: Vec<f64> = own.iter().filter_map(|score| score.recall).collect();
        let recall = if recall.is_empty() { String::new() } else { format!("{:.3}", mean(&recall)) };
        let covered = [0, 1, 2].map(|k| format!("{:.1}", 100.0 * average(&|score| score.coverage[k])));
        writeln!(
            out,
            "  {:<17} {:>10} {:>8} {:>6} {:>6} {:>6} {recall:>7} {:>8.2}",
            method.name(),
            short(average(&|score| score.rmse)),
            short((1e3 * average(&|score| score.nll)).round() / 1e3),
            covered[0],
            covered[1],
            covered[2],
            average(&|score| score.seconds),
        )?;
    }
    let chosen = scores.iter().filter(|score| score.method == Method::Default).map(|score| score.fit.as_str());
    let mut chosen: Vec<&str> = chosen.collect();
    chosen.sort_unstable();
    let mut counts: Vec<(usize, &str)> = Vec::new();
    for fit in chosen {
        match counts.last_mut() {
            Some((count, last)) if *last == fit => *count += 1,
            _ => counts.push((1, fit)),
        }
    }
    let words: Vec<String> = counts.iter().map(|(count, fit)| format!("{fit} ({count})")).collect();
    writeln!(out, "  the default chose {}", words.join(", "))?;
    Ok(out)
}
