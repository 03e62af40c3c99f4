//! Speed of one iteration against the machine's own limit, in one run: `cargo xtask bench engine`.
//!
//! Flops are counted as 2nd² + d³ per iteration with per-row noise and d³ with shared noise, the least that the method
//! needs when symmetric products are formed on one triangle only. The limit is faer's matrix product of 1024³ on the
//! same number of threads, measured before each line.
#![allow(unsafe_code)] // an allocator that counts

#[path = "../tests/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{gaussian_matrix, normal, rng};
use robustard_engine::faer::linalg::matmul::matmul;
use robustard_engine::faer::{Accum, Mat, Par};
use robustard_engine::{Acceleration, Iteration, Noise, Problem, Settings, fit_observed};

struct Counting;
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SHAPES: [(usize, usize); 5] = [(404, 256), (2000, 256), (20_000, 256), (100_000, 256), (2000, 1000)];
/// Iterations whose time and allocations do not count.
const WARM_UP: usize = 3;

fn main() {
    println!(
        "{:>7} {:>5} {:8} {:>7} {:>10} {:>8} {:>8} {:>7} {:>8} {:>7}",
        "n", "d", "noise", "threads", "ms/iter", "GFLOP/s", "gemm", "share", "speed-up", "allocs"
    );
    for (rows, columns) in SHAPES {
        let problem = problem(rows, columns);
        for noise in [Noise::default(), Noise::Shared] {
            let mut one_thread = f64::NAN;
            for threads in [1, 2] {
                let peak = gemm_peak(threads);
                let run = time_iterations(&problem, noise, threads);
                let (n, d) = (rows as f64, columns as f64);
                let flops = if noise.is_shared() { d * d * d } else { 2.0 * n * d * d + d * d * d };
                let speed = flops / run.seconds / 1e9;
                if threads == 1 {
                    one_thread = run.seconds;
                }
                println!(
                    "{rows:>7} {columns:>5} {:8} {threads:>7} {:>10.3} {speed:>8.1} {peak:>8.1} {:>6.0}% {:>8.2} {:>7.1}",
                    if noise.is_shared() { "shared" } else { "per-row" },
                    1e3 * run.seconds,
                    100.0 * speed / peak,
                    one_thread / run.seconds,
                    run.allocations,
                );
            }
        }
    }
}

struct Run {
    /// Median over iterations.
    seconds: f64,
    /// Mean over iterations.
    allocations: f64,
}

fn time_iterations(problem: &Problem, noise: Noise, threads: usize) -> Run {
    let work = 2.0 * problem.row_count() as f64 * (problem.column_count() as f64).powi(2);
    let iterations = WARM_UP + ((6e10 / work) as usize).clamp(10, 100);
    let settings = Settings {
        noise,
        max_iterations: iterations,
        tolerance: 1e-15,
        acceleration: Acceleration::None,
        pruning: false,
        ..Settings::default()
    };
    let mut stamps: Vec<(Duration, usize)> = Vec::with_capacity(iterations);
    let mut observer = |iteration: &Iteration<'_>| {
        stamps.push((iteration.record.elapsed, ALLOCATIONS.load(Ordering::Relaxed)));
        ControlFlow::Continue(())
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads start");
    pool.install(|| fit_observed(problem, &settings, &mut observer)).expect("the benchmark's problem can be fitted");
    let counted = &stamps[WARM_UP - 1..];
    let mut seconds: Vec<f64> = counted.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_secs_f64()).collect();
    seconds.sort_by(f64::total_cmp);
    let allocated = counted[counted.len() - 1].1 - counted[0].1;
    Run { seconds: seconds[seconds.len() / 2], allocations: allocated as f64 / seconds.len() as f64 }
}

/// GFLOP/s of a 1024³ product, the best of several.
fn gemm_peak(threads: usize) -> f64 {
    const SIZE: usize = 1024;
    let mut rng = rng(1);
    let (a, b) = (gaussian_matrix(SIZE, SIZE, &mut rng), gaussian_matrix(SIZE, SIZE, &mut rng));
    let mut c = Mat::zeros(SIZE, SIZE);
    let par = if threads == 1 { Par::Seq } else { Par::rayon(threads) };
    let best = (0..8)
        .map(|_| {
            let start = Instant::now();
            matmul(c.as_mut(), Accum::Replace, a.as_ref(), b.as_ref(), 1.0, par);
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    2.0 * (SIZE as f64).powi(3) / best / 1e9
}

fn problem(rows: usize, columns: usize) -> Problem<'static> {
    let mut rng = rng(7);
    let x = gaussian_matrix(rows, columns, &mut rng);
    let y: Vec<f64> = (0..rows).map(|i| (0..10).map(|j| x[(i, j)]).sum::<f64>() + normal(&mut rng)).collect();
    Problem::new(x.as_ref(), &y).expect("a valid problem")
}
