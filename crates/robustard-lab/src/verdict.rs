//! What the scores of the default say, claim by claim.

use std::fmt::Write;

use robustard::metrics::mean;

use crate::default::{Method, Score};
use crate::paper;

/// A set at one contamination, with the mean scores of all methods.
struct Cell<'a> {
    set: &'a str,
    contamination: f64,
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

    fn name(&self) -> String {
        format!("{} {}", self.set, self.contamination)
    }
}

fn cells(scores: &[Score]) -> Vec<Cell<'_>> {
    let mut cells: Vec<Cell<'_>> = Vec::new();
    for score in scores {
        match cells.iter_mut().find(|cell| cell.set == score.set && cell.contamination == score.contamination) {
            Some(cell) => cell.scores.push(score),
            None => {
                cells.push(Cell { set: score.set, contamination: score.contamination, scores: vec![score] });
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
        let (best, _) = paper::best(cell.set, cell.contamination)?;
        Some((format!("{} ({:.4} against {best})", cell.name(), default(cell)), default(cell) <= best))
    };
    claim("RMSE at most the best of the paper", cells.iter().filter_map(of_paper).collect());
    let of_shared = |cell: &Cell<'_>| {
        let shared = cell.rmse(Method::LearntShared).filter(|_| cell.contamination == 0.0)?;
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
        let best = others.filter_map(nll).fold(f64::INFINITY, f64::min);
        Some((format!("{} ({own:.3} against {best:.3})", cell.name()), own <= best))
    };
    let has_paper = |cell: &&Cell<'_>| paper::best(cell.set, cell.contamination).is_some();
    claim("NLL lowest of all methods", cells.iter().filter(has_paper).filter_map(of_density).collect());
    for (k, level) in [50.0, 80.0, 95.0].into_iter().enumerate() {
        let clean = cells.iter().filter(|cell| cell.contamination == 0.0);
        let covered: Vec<f64> =
            clean.filter_map(|cell| cell.mean(Method::Default, &|score| score.coverage[k])).collect();
        if !covered.is_empty() {
            let _ = writeln!(out, "clean: {level}% intervals hold {:.1}% on average", 100.0 * mean(&covered));
        }
    }
    out
}
