//! Rows that can be read partition by partition.

use rayon::prelude::*;
use robustard_engine::RowRule;
use robustard_engine::passes::{Broadcast, Known, Sums};

use super::{RowMaker, RowPasses, RowSummary, StreamError, StreamTask, fit_passes};
use crate::Error;
use crate::control::{Control, Progress, Stage};
use crate::dataset::Dataset;
use crate::diagnostics::Diagnostics;
use crate::fitted::Fit;
use crate::regression::Regression;

/// Rows that lie elsewhere, in partitions whose order is theirs.
pub trait RowStream: Sync {
    /// What can go wrong on the way.
    type Error: Send;

    /// Number of rows.
    fn row_count(&self) -> u64;

    /// Number of partitions.
    fn partition_count(&self) -> usize;

    /// The rows of a partition.
    fn read(&self, partition: usize) -> Result<Dataset<'_>, Self::Error>;
}

/// Shown each partition's diagnostics, with the number of its first row.
pub type Show<'s, E> = dyn FnMut(u64, &Diagnostics) -> Result<(), E> + Send + 's;

/// Fits all rows of a stream, like [`fit_passes`]; in the last pass they are shown.
pub fn fit_stream<R: RowStream>(
    rows: &R,
    task: StreamTask<'_, R::Error>,
    show: Option<&mut Show<'_, R::Error>>,
) -> Result<Regression, StreamError<R::Error>> {
    fit_passes(&mut Read { rows, show }, task)
}

/// Shows the diagnostics of all rows of a stream that a regression was fitted to, partition by partition.
pub fn diagnose_stream<R: RowStream>(
    regression: &Regression,
    rows: &R,
    control: &Control,
    show: &mut Show<'_, R::Error>,
) -> Result<(), StreamError<R::Error>> {
    control.enter(Stage::Diagnosing);
    let mut seen = 0;
    let is_whole = control.run(|| {
        diagnose(regression, rows, control, |diagnostics: &Diagnostics, inside: &[bool]| {
            show(seen, diagnostics)?;
            seen += inside.len() as u64;
            control.tell(Progress::Pass { pass: None, objective: None, seen, rows: rows.row_count() });
            Ok(())
        })
    });
    if is_whole.map_err(StreamError::Rows)? { Ok(()) } else { Err(Error::Stopped.into()) }
}

impl Regression {
    /// What rows are under a fit by passes, and which of them are in their 95% interval.
    fn diagnose(&self, maker: &RowMaker, rule: &RowRule, rows: &Dataset<'_>) -> (Diagnostics, Vec<bool>) {
        maker.diagnose(self.fit(), rule, rows)
    }

    /// The diagnosis of rows of a fit by passes, whichever of them these are; none if the fit was made otherwise.
    pub fn diagnosis_of(&self, rows: &Dataset<'_>) -> Option<Diagnostics> {
        Some(self.diagnose(&maker_of(self.fit()), &self.fit().model.row_rule()?, rows).0)
    }

    /// What the rows of a partition are under a fit by passes over all of them; none if the fit was made otherwise.
    pub fn summary(&self, rows: &Dataset<'_>) -> Option<RowSummary> {
        let (diagnostics, inside) = self.diagnose(&maker_of(self.fit()), &self.fit().model.row_rule()?, rows);
        Some(RowSummary::of(&diagnostics, &inside))
    }
}

/// How the rows of all the table became rows of the problem.
fn maker_of(fit: &Fit) -> RowMaker {
    let rule = fit.whole.as_ref().map(|whole| whole.rule.clone()).unwrap_or_default();
    RowMaker { design: fit.design.clone(), rule }
}

/// Rows that are read here.
struct Read<'r, 's, R: RowStream> {
    rows: &'r R,
    show: Option<&'r mut Show<'s, R::Error>>,
}

impl<R: RowStream> RowPasses for Read<'_, '_, R> {
    type Error = R::Error;

    fn row_count(&self) -> u64 {
        self.rows.row_count()
    }

    fn sums(
        &mut self,
        maker: &RowMaker,
        broadcast: &Broadcast,
        control: &Control,
        take: &mut dyn FnMut(&Sums),
    ) -> Result<bool, R::Error> {
        let (rows, known) = (self.rows, Known::new(broadcast));
        let of_partition = |partition| rows.read(partition).map(|rows| maker.sums_of_known(&rows, &known));
        in_order(rows, control, of_partition, |sums| {
            take(&sums);
            Ok(())
        })
    }

    fn summaries(
        &mut self,
        regression: &Regression,
        control: &Control,
        take: &mut dyn FnMut(&RowSummary),
    ) -> Result<bool, R::Error> {
        let (mut first, show) = (0, &mut self.show);
        diagnose(regression, self.rows, control, |diagnostics: &Diagnostics, inside: &[bool]| {
            take(&RowSummary::of(diagnostics, inside));
            let before = first;
            first += inside.len() as u64;
            show.as_mut().map_or(Ok(()), |show| show(before, diagnostics))
        })
    }
}

/// Diagnoses all rows, partition by partition; false if it was stopped before the end.
fn diagnose<R: RowStream>(
    regression: &Regression,
    rows: &R,
    control: &Control,
    mut show: impl FnMut(&Diagnostics, &[bool]) -> Result<(), R::Error>,
) -> Result<bool, R::Error> {
    let maker = maker_of(regression.fit());
    let Some(rule) = regression.fit().model.row_rule() else { return Ok(false) };
    let of_partition = |partition| rows.read(partition).map(|rows| regression.diagnose(&maker, &rule, &rows));
    in_order(rows, control, of_partition, |(diagnostics, inside)| show(&diagnostics, &inside))
}

/// Works on several partitions at a time and takes what comes of them in their order; false if it was stopped before the end.
fn in_order<R: RowStream, T: Send>(
    rows: &R,
    control: &Control,
    work: impl Fn(usize) -> Result<T, R::Error> + Sync,
    mut take: impl FnMut(T) -> Result<(), R::Error>,
) -> Result<bool, R::Error> {
    let partitions: Vec<usize> = (0..rows.partition_count()).collect();
    // As many at a time as there are threads, and some more so that none waits long: what waits to be taken is little.
    for some in partitions.chunks(4 * rayon::current_num_threads()) {
        if control.is_stopped() {
            return Ok(false);
        }
        let done: Vec<Result<T, R::Error>> = some.par_iter().map(|&partition| work(partition)).collect();
        done.into_iter().try_for_each(|done| take(done?))?;
    }
    Ok(true)
}
