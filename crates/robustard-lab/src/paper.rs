//! The figures that the paper reports, to stand beside ours.

use crate::results::Summary;

const TABULAR: &str = include_str!("../data/paper-tabular.csv");
const KERNEL: &str = include_str!("../data/paper-kernel.csv");
const BLR: &str = include_str!("../data/paper-blr.csv");
const MCYCLE: &str = include_str!("../data/paper-mcycle.csv");
/// Trials behind a figure of the tabular and the variational experiment, and of the kernel experiment.
const TRIALS: f64 = 10.0;
const KERNEL_TRIALS: f64 = 20.0;

/// A mean of the paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reported {
    /// Mean.
    pub mean: f64,
    /// Standard deviation over trials.
    pub deviation: f64,
    /// Half a unit of the last digit printed.
    pub rounding: f64,
    trials: f64,
}

impl Reported {
    fn parse(mean: &str, deviation: &str, trials: f64) -> Option<Self> {
        let digits = mean.split_once('.').map_or(0, |(_, digits)| digits.len());
        let rounding = 0.5 * 10f64.powi(-(digits as i32));
        Some(Self { mean: mean.parse().ok()?, deviation: deviation.parse().ok()?, rounding, trials })
    }

    /// Two standard errors of the paper's mean.
    pub fn own_margin(&self) -> f64 {
        2.0 * self.deviation / self.trials.sqrt()
    }

    /// Two standard errors of the difference between ours and the paper's, and the paper's rounding.
    pub fn margin(&self, ours: &Summary) -> f64 {
        2.0 * (self.deviation.powi(2) / self.trials + ours.error().powi(2)).sqrt() + self.rounding
    }

    /// Whether ours and the paper's are the same within the margin.
    pub fn agrees(&self, ours: &Summary) -> bool {
        (ours.mean - self.mean).abs() <= self.margin(ours)
    }

    /// Whether ours is at most the paper's, within the margin.
    pub fn is_reached(&self, ours: &Summary) -> bool {
        ours.mean <= self.mean + self.margin(ours)
    }
}

/// A line of the tabular tables.
#[derive(Debug, Clone, Copy)]
pub struct TabularLine {
    /// Data set.
    pub dataset: &'static str,
    /// ρ.
    pub contamination: f64,
    /// Method, with noise per row if it is a sparse Bayesian one.
    pub method: &'static str,
    /// RMSE.
    pub rmse: Reported,
    /// ESS(θ) and ESS(y) in percent.
    pub ess: [Option<f64>; 2],
    /// Change of RMSE against shared noise in percent.
    pub change: Option<f64>,
}

/// All lines of the tabular tables.
pub fn tabular() -> impl Iterator<Item = TabularLine> {
    TABULAR.lines().skip(1).filter_map(|line| {
        let fields: Vec<&'static str> = line.split(',').collect();
        let [dataset, contamination, method, mean, deviation, weights, rows, change] = fields[..] else { return None };
        Some(TabularLine {
            dataset,
            contamination: contamination.parse().ok()?,
            method,
            rmse: Reported::parse(mean, deviation, TRIALS)?,
            ess: [weights.parse().ok(), rows.parse().ok()],
            change: change.parse().ok(),
        })
    })
}

/// The RMSE of a method in the tabular tables.
pub fn tabular_rmse(dataset: &str, contamination: f64, method: &str) -> Option<Reported> {
    tabular_line(dataset, contamination, method).map(|line| line.rmse)
}

/// The smallest RMSE of a cell over all methods, and the method that had it.
pub fn best(dataset: &str, contamination: f64) -> Option<(f64, &'static str)> {
    let cell = tabular().filter(|line| line.dataset == dataset && line.contamination == contamination);
    cell.map(|line| (line.rmse.mean, line.method)).min_by(|a, b| a.0.total_cmp(&b.0))
}

fn find(text: &'static str, order: [usize; 3], wanted: [&str; 3], trials: f64) -> Option<Reported> {
    text.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let matches = |place: usize| match (fields[order[place]].parse::<f64>(), wanted[place].parse::<f64>()) {
            (Ok(a), Ok(b)) => a == b,
            _ => fields[order[place]] == wanted[place],
        };
        if fields.len() == 5 && (0..3).all(matches) { Reported::parse(fields[3], fields[4], trials) } else { None }
    })
}

/// A figure of the kernel tables; `measure` is rmse or nll.
pub fn kernel(measure: &str, contamination: f64, method: &str) -> Option<Reported> {
    find(KERNEL, [0, 1, 2], [measure, &contamination.to_string(), method], KERNEL_TRIALS)
}

/// A figure of the table about the Bayesian learning rule.
pub fn blr(measure: &str, contamination: f64, method: &str) -> Option<Reported> {
    find(BLR, [1, 0, 2], [measure, &contamination.to_string(), method], TRIALS)
}

/// RMSE and NLL of a method on the motorcycle data.
pub fn mcycle(method: &str) -> Option<[f64; 2]> {
    MCYCLE.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        if fields[0] == method { Some([fields[1].parse().ok()?, fields[2].parse().ok()?]) } else { None }
    })
}

impl TabularLine {
    /// The RMSE with shared noise that the change implies.
    pub fn shared_rmse(&self) -> Option<f64> {
        Some(self.rmse.mean / (1.0 + self.change? / 100.0))
    }
}

/// The line of a method in the tabular tables.
pub fn tabular_line(dataset: &str, contamination: f64, method: &str) -> Option<TabularLine> {
    tabular().find(|line| line.dataset == dataset && line.contamination == contamination && line.method == method)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::DATA_SETS;

    #[test]
    fn the_papers_figures_are_there() {
        assert_eq!(best("yacht", 0.1), Some((3.75, "mackay")));
        assert_eq!(best("concrete", 0.0), Some((5.14, "gp")));
        assert_eq!(best("concrete", 0.3), None);
        for set in DATA_SETS {
            assert!([0.0, 0.1].iter().all(|share| best(set.name, *share).is_some()), "{}", set.name);
        }
        assert_eq!(tabular().count(), 11 * 18);
        let em = kernel("rmse", 0.15, "em").unwrap();
        assert_eq!((em.mean, em.deviation, em.rounding), (4.829, 0.124, 0.0005));
        assert_eq!(mcycle("em"), Some([23.6, 4.61]));
        assert!((tabular_line("energy", 0.1, "em").unwrap().shared_rmse().unwrap() - 2.782).abs() < 1e-3);
        assert_eq!(blr("nll", 0.1, "em_blr").unwrap().mean, 2.91);
    }

    #[test]
    fn margins_are_two_standard_errors_and_rounding() {
        let reported = Reported { mean: 1.0, deviation: 0.3, rounding: 0.05, trials: 9.0 };
        let ours = |mean: f64| Summary { mean, deviation: 0.0, trials: 4 };
        assert!(reported.agrees(&ours(1.24)) && !reported.agrees(&ours(1.26)) && !reported.agrees(&ours(0.7)));
        assert!(reported.is_reached(&ours(0.7)) && !reported.is_reached(&ours(1.26)));
    }
}
