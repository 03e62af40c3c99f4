//! What the scores of the default say, claim by claim.

use std::fmt::Write;

use robustard::metrics::mean;

use crate::default::{Method, Score};
use crate::paper;

/// Fewer training rows than these are few.
const FEW_ROWS: usize = 150;
/// Shares of test rows that 95% intervals may hold, and of few rows at least.
const HELD: [f64; 2] = [0.92, 0.98];
const HELD_BY_FEW: f64 = 0.9;

/// A set with one kind of damage and size, with the mean scores of all methods.
struct Cell<'a> {
    set: &'a str,
    damage: &'a str,
    rows: usize,
    scores: Vec<&'a Score>,
}

impl Cell<'_> {
    fn mean(&self, method: Method, of: &dyn Fn(&Score) -> f64) -> Option<f64> {
        let values: Vec<f64> =
            self.scores.iter().filter(|score| score.method == method).map(|score| of(score)).collect();
        (!values.is_empty()).then(|| mean(&values))
    }

    fn rmse(&self, method: Method) -> Option<f64> {
        self.mean(method, &|score| score.rmse)
    }

    fn is_clean(&self) -> bool {
        self.damage == "clean"
    }

    /// The best figure of the paper.
    fn of_paper(&self) -> Option<f64> {
        let is_like_paper = self.is_clean() || self.damage.starts_with("shifted");
        paper::best(self.set, self.scores[0].contamination).filter(|_| is_like_paper).map(|(rmse, _)| rmse)
    }

    fn name(&self) -> String {
        format!("{} {} {}", self.set, self.damage, self.rows)
    }
}

fn cells(scores: &[Score]) -> Vec<Cell<'_>> {
    let mut cells: Vec<Cell<'_>> = Vec::new();
    for score in scores {
        // Without its wrong rows a set has fewer.
        let rows = if score.method == Method::Cleaned { None } else { Some(score.rows) };
        let is_of = |cell: &&mut Cell<'_>| {
            (cell.set, cell.damage) == (score.set, &score.damage) && rows.is_none_or(|rows| rows == cell.rows)
        };
        match cells.iter_mut().rev().find(is_of) {
            Some(cell) => cell.scores.push(score),
            None => {
                let (set, damage, rows) = (score.set, score.damage.as_str(), score.rows);
                cells.push(Cell { set, damage, rows, scores: vec![score] });
            }
        }
    }
    cells
}

/// Each claim with the cells that it holds in and those that it does not, as text.
pub fn verdict(scores: &[Score]) -> String {
    let cells = cells(scores);
    let default = |cell: &Cell<'_>| cell.rmse(Method::Default).unwrap_or(f64::NAN);
    let mut out = String::new();
    let mut claim = |text: &str, judged: Vec<(String, bool)>| {
        if judged.is_empty() {
            return;
        }
        let missed: Vec<&str> = judged.iter().filter(|(_, held)| !held).map(|(name, _)| name.as_str()).collect();
        let end = if missed.is_empty() { String::new() } else { format!("; not in {}", missed.join(", ")) };
        let _ = writeln!(out, "{text}: {} of {} cells{end}", judged.len() - missed.len(), judged.len());
    };
    let of_paper = |cell: &Cell<'_>| {
        let best = cell.of_paper()?;
        Some((format!("{} ({:.4} against {best})", cell.name(), default(cell)), default(cell) <= best))
    };
    claim("RMSE at most the best of the paper", cells.iter().filter_map(of_paper).collect());
    let of_shared = |cell: &Cell<'_>| {
        let shared = cell.rmse(Method::LearntShared).filter(|_| cell.is_clean())?;
        let ratio = default(cell) / shared;
        Some((format!("{} ({ratio:.3})", cell.name()), ratio <= 1.02))
    };
    claim("clean: RMSE at most 2% above shared noise", cells.iter().filter_map(of_shared).collect());
    let of_cleaned = |cell: &Cell<'_>| {
        let ratio = default(cell) / cell.rmse(Method::Cleaned)?;
        Some((format!("{} ({ratio:.3})", cell.name()), ratio <= 1.1))
    };
    claim("dirty: RMSE at most 10% above wrong rows removed", cells.iter().filter_map(of_cleaned).collect());
    let of_density = |cell: &Cell<'_>| {
        let nll = |method| cell.mean(method, &|score| score.nll);
        let own = nll(Method::Default)?;
        let others = Method::ALL.into_iter().filter(|m| !matches!(m, Method::Default | Method::Cleaned));
        let best = others.filter_map(nll).reduce(f64::min)?;
        Some((format!("{} ({own:.3} against {best:.3})", cell.name()), own <= best))
    };
    let has_paper = |cell: &&Cell<'_>| cell.of_paper().is_some();
    claim("NLL lowest of all methods", cells.iter().filter(has_paper).filter_map(of_density).collect());
    let held = |cell: &Cell<'_>| cell.mean(Method::Default, &|score| score.coverage[2]);
    let of_intervals = |cell: &Cell<'_>| {
        let held = held(cell)?;
        let is_right = if cell.rows < FEW_ROWS { held >= HELD_BY_FEW } else { (HELD[0]..=HELD[1]).contains(&held) };
        Some((format!("{} ({:.1}%)", cell.name(), 100.0 * held), is_right))
    };
    claim(
        "95% intervals hold 92 to 98% of test rows, 90% at least with fewer than 150 rows",
        cells.iter().filter_map(of_intervals).collect(),
    );
    let of_widths = |cell: &Cell<'_>| {
        let held = held(cell).filter(|_| cell.is_clean())?;
        let own = cell.mean(Method::Default, &|score| score.width)?;
        let ratio = own / cell.mean(Method::LearntShared, &|score| score.width_holding(held))?;
        Some((format!("{} ({ratio:.3})", cell.name()), ratio <= 1.05))
    };
    claim(
        "clean: 95% intervals at most 1.05 times as wide as those of shared noise that hold as much",
        cells.iter().filter_map(of_widths).collect(),
    );
    let of_more_rows = |cell: &Cell<'_>| {
        let fewer = cells.iter().filter(|other| (other.set, other.damage) == (cell.set, cell.damage));
        let fewer = fewer.filter(|other| other.rows < cell.rows).map(default).fold(f64::INFINITY, f64::min);
        let ratio = default(cell) / fewer;
        fewer.is_finite().then(|| (format!("{} ({ratio:.3})", cell.name()), ratio <= 1.05))
    };
    claim("more rows: RMSE at most 5% above that of fewer", cells.iter().filter_map(of_more_rows).collect());
    for (k, level) in [50.0, 80.0, 95.0].into_iter().enumerate() {
        let clean = cells.iter().filter(|cell| cell.is_clean());
        let covered: Vec<f64> =
            clean.filter_map(|cell| cell.mean(Method::Default, &|score| score.coverage[k])).collect();
        if !covered.is_empty() {
            let _ = writeln!(out, "clean: {level}% intervals hold {:.1}% on average", 100.0 * mean(&covered));
        }
    }
    out
}
