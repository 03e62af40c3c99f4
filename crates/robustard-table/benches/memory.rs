//! Peak memory of a linear fit of a table of 1,000,000 × 20 (or of the rows and columns given), with shared, Student-t and chosen
//! noise: what the heap holds at most during the fit, beyond the table and in all, in units of the inputs as doubles, and what of the
//! process is resident at most. Rooms of faer's matrix products are not counted on the heap: every thread keeps one of half a
//! gigabyte, of which it touches next to nothing.
//!
//! `cargo bench -p robustard-table --bench memory [-- ROWS COLUMNS] [shared] [student-t:4] [auto] [sites]`: with names of noise,
//! those only; with `sites`, the large blocks that are alive at the peak are shown by where they were asked for.
#![allow(unsafe_code)] // a global allocator has no other form

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use robustard::features::FeatureKind;
use robustard::{Choice, Control, Noise, Progress, Recipe};
use robustard_table::{EncodeOptions, Fitted, Table, TableModel};

const ROWS: usize = 1_000_000;
const COLUMNS: usize = 20;
/// The aim: all that is on the heap, table included.
const AIM: f64 = 2.5;

/// The system's allocator, with the bytes in use counted, now and at most.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Alignment of the rooms of matrix products, by which they are known.
const PRODUCT_ALIGNMENT: usize = 4096;

/// Whether large blocks are traced, and from which size on.
static TRACES: AtomicBool = AtomicBool::new(false);
const LARGE: usize = 1 << 20;

/// Large blocks by address: size and site; and those of the highest peak so far, with it.
static BLOCKS: Mutex<BTreeMap<usize, (usize, String)>> = Mutex::new(BTreeMap::new());
static AT_PEAK: Mutex<(usize, BTreeMap<String, usize>)> = Mutex::new((0, BTreeMap::new()));

thread_local! {
    /// Tracing asks for memory, too.
    static IS_TRACING: Cell<bool> = const { Cell::new(false) };
}

fn traced(work: impl FnOnce()) {
    if TRACES.load(Ordering::Relaxed) && !IS_TRACING.replace(true) {
        work();
        IS_TRACING.set(false);
    }
}

/// The places in this workspace that lead to an allocation, innermost first.
fn site() -> String {
    let trace = Backtrace::force_capture().to_string();
    let places =
        trace.lines().map(str::trim).filter(|line| line.starts_with("at ") && line.contains("crates/robustard"));
    let short = |line: &str| line.rsplit("crates/").next().unwrap_or(line).to_owned();
    let places: Vec<String> = places.map(short).filter(|place| !place.contains("benches")).take(4).collect();
    places.join(" < ")
}

fn grow(pointer: *mut u8, layout: Layout) {
    if layout.align() == PRODUCT_ALIGNMENT {
        return;
    }
    let bytes = layout.size();
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
    if bytes < LARGE {
        return;
    }
    traced(|| {
        let mut blocks = BLOCKS.lock().expect("no panic while tracing");
        blocks.insert(pointer as usize, (bytes, site()));
        let (highest, by_site) = &mut *AT_PEAK.lock().expect("no panic while tracing");
        if now > *highest {
            *highest = now;
            by_site.clear();
            blocks.values().for_each(|(bytes, site)| *by_site.entry(site.clone()).or_default() += bytes);
        }
    });
}

fn shrink(pointer: *mut u8, layout: Layout) {
    if layout.align() == PRODUCT_ALIGNMENT {
        return;
    }
    let bytes = layout.size();
    NOW.fetch_sub(bytes, Ordering::Relaxed);
    if bytes >= LARGE {
        traced(|| drop(BLOCKS.lock().expect("no panic while tracing").remove(&(pointer as usize))));
    }
}

// SAFETY: all work is that of the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as asked for.
        let pointer = unsafe { System.alloc(layout) };
        grow(pointer, layout);
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrink(pointer, layout);
        // SAFETY: as asked for.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as asked for.
        let pointer = unsafe { System.alloc_zeroed(layout) };
        grow(pointer, layout);
        pointer
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        shrink(pointer, layout);
        // SAFETY: as asked for. Large blocks are moved by the system, not copied.
        let pointer = unsafe { System.realloc(pointer, layout, size) };
        // SAFETY: a size that the system could serve.
        grow(pointer, unsafe { Layout::from_size_align_unchecked(size, layout.align()) });
        pointer
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The heap when a stage began, and what it held at most since the one before.
struct Mark {
    stage: String,
    now: usize,
    peak_before: usize,
}

static MARKS: Mutex<Vec<Mark>> = Mutex::new(Vec::new());

fn mark(stage: String) {
    let mark = Mark { stage, now: NOW.load(Ordering::Relaxed), peak_before: PEAK.load(Ordering::Relaxed) };
    MARKS.lock().expect("no panic while marking").push(mark);
}

/// Numbers without a pattern; half of the inputs matter.
fn table(rows: usize, columns: usize) -> Table {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    let mut target: Vec<f64> = (0..rows).map(|_| 0.5 * (uniform() + uniform() - 1.0)).collect();
    let mut named = Vec::with_capacity(columns + 1);
    for k in 0..columns {
        let values: Vec<f64> = (0..rows).map(|_| 2.0 * uniform() - 1.0).collect();
        if k % 2 == 0 {
            target.iter_mut().zip(&values).for_each(|(y, x)| *y += x / (k + 1) as f64);
        }
        named.push((format!("x{k}"), Table::number_column(values)));
    }
    named.push(("y".to_owned(), Table::number_column(target)));
    Table::from_columns(named)
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let (rows, columns) = (numbers.first().copied().unwrap_or(ROWS), numbers.get(1).copied().unwrap_or(COLUMNS));
    let unit = (8 * rows * columns) as f64;
    TRACES.store(std::env::args().any(|argument| argument == "sites"), Ordering::Relaxed);
    let table = table(rows, columns);
    let before = NOW.load(Ordering::Relaxed);
    println!(
        "{rows} x {columns}: {:.0} MB of inputs as doubles; the table holds {:.2} of that",
        unit / 1e6,
        before as f64 / unit
    );
    println!(
        "{:<12} {:>8} {:>14} {:>8} {:>10} {:>9}",
        "noise", "seconds", "peak beyond", "total", "kept after", "resident"
    );
    let linear = Choice::Given(FeatureKind::linear());
    let all = [Choice::Given(Noise::Shared), Choice::Given(Noise::default()), Choice::Auto];
    let named = |noise: &Choice<Noise>| std::env::args().any(|argument| argument == noise.to_string());
    let any_named = all.iter().any(named);
    for noise in all.into_iter().filter(|noise| !any_named || named(noise)) {
        MARKS.lock().expect("no panic while marking").clear();
        PEAK.store(before, Ordering::Relaxed);
        AT_PEAK.lock().expect("no panic while tracing").0 = 0;
        forget_highest_resident();
        let control = Control::new().with_observer(|progress| {
            if let Progress::Stage(stage) = progress {
                mark(format!("{stage:?}"));
            }
        });
        let started = Instant::now();
        let recipe = Recipe::new(linear, noise).expect("parts that go together");
        let Fitted { model, .. } =
            TableModel::fit(&table, &EncodeOptions::new("y"), &recipe, &control).expect("the table can be fitted");
        let seconds = started.elapsed().as_secs_f64();
        let peak = PEAK.load(Ordering::Relaxed);
        mark("end".to_owned());
        let [beyond, total, kept] =
            [peak - before, peak, NOW.load(Ordering::Relaxed) - before].map(|bytes| bytes as f64 / unit);
        let resident = highest_resident().map_or("-".to_owned(), |bytes| format!("{:.2}", bytes as f64 / unit));
        let verdict = if total <= AIM { "" } else { "  above the aim" };
        println!(
            "{:<12} {seconds:>8.2} {beyond:>14.2} {total:>8.2} {kept:>10.2} {resident:>9}{verdict}",
            noise.to_string()
        );
        for Mark { stage, now, peak_before } in MARKS.lock().expect("no panic while marking").iter() {
            let [now, peak] = [*now, *peak_before].map(|bytes| bytes as f64 / unit);
            println!("    {now:>6.2} in use, {peak:>6.2} at most so far: {stage}");
        }
        if TRACES.load(Ordering::Relaxed) {
            show_sites(unit);
        }
        drop(model);
    }
}

/// What was alive at the peak, largest first.
fn show_sites(unit: f64) {
    let by_site = AT_PEAK.lock().expect("no panic while tracing").1.clone();
    let mut sites: Vec<(usize, String)> = by_site.into_iter().map(|(site, bytes)| (bytes, site)).collect();
    sites.sort_by(|a, b| b.cmp(a));
    for (bytes, site) in sites {
        println!("        {:>6.2} {site}", bytes as f64 / unit);
    }
}

/// What of the process was resident at most, in bytes, since it was last forgotten; none where the system does not say.
fn highest_resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok().map(|kilobytes| 1024 * kilobytes)
}

fn forget_highest_resident() {
    // Where that cannot be done, the highest of all fits so far is shown.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
