//! The kernel's elementary functions over slices, written so that they vectorise.

use pulp::{Arch, Simd, WithSimd};

/// eˣ for x ≤ 0, without branches: 2ᵏ by the bits of a rounded sum, the rest by its series. Below −708 it stays e⁻⁷⁰⁸.
#[inline(always)]
fn exp(x: f64) -> f64 {
    /// 1.5·2⁵²: a sum with it is rounded to an integer, which then stands in its lowest bits.
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    const LN_2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const SERIES: [f64; 12] = [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
    ];
    let x = x.max(-708.0);
    let rounded = x * std::f64::consts::LOG2_E + ROUNDER;
    let k = rounded - ROUNDER;
    let rest = x - k * LN_2_HIGH - k * LN_2_LOW;
    let mut series = SERIES[0];
    for coefficient in &SERIES[1..] {
        series = series * rest + coefficient;
    }
    let power = f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52);
    (series * rest + 1.0) * power
}

/// Adds (s(x − c))² to each value.
pub(super) fn add_squares(values: &mut [f64], x: &[f64], centre: f64, scale: f64) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (value, x) in values.iter_mut().zip(x) {
                let step = scale * (x - centre);
                *value += step * step;
            }
        },
    );
}

/// Adds s|x − c| to each value.
pub(super) fn add_steps(values: &mut [f64], x: &[f64], centre: f64, scale: f64) {
    Arch::new().dispatch(
        #[inline(always)]
        || values.iter_mut().zip(x).for_each(|(value, x)| *value += scale * (x - centre).abs()),
    );
}

/// Of squared distances r² makes the Matérn kernel (1 + √3 r) e^(−√3 r), and e^(−√3 r) in `decay`.
pub(super) fn matern(squares: &mut [f64], decay: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (value, decay) in squares.iter_mut().zip(decay) {
                let r = (3.0 * *value).sqrt();
                *decay = exp(-r);
                *value = (1.0 + r) * *decay;
            }
        },
    );
}

/// Of squared distances r² makes the Gaussian kernel e^(−r²/2), in both.
pub(super) fn gauss(squares: &mut [f64], decay: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (value, decay) in squares.iter_mut().zip(decay) {
                *value = exp(-0.5 * *value);
                *decay = *value;
            }
        },
    );
}

/// Of distances r makes the exponential kernel e^(−r), in both.
pub(super) fn laplace(steps: &mut [f64], decay: &mut [f64]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for (value, decay) in steps.iter_mut().zip(decay) {
                *value = exp(-*value);
                *decay = *value;
            }
        },
    );
}

/// Values of one input, with e^(−ax) and e^(ax), a = √3 s: of two values, e^(−a|x − c|) is the smaller one of e^(−ax)e^(ac) and
/// e^(ax)e^(−ac), so that pairs need no exponentials.
pub(super) struct Single<'a> {
    x: &'a [f64],
    /// s.
    scale: f64,
    /// Empty where the products would leave the range of numbers.
    falls: Vec<f64>,
    rises: Vec<f64>,
}

/// Some values of an input as seen from a centre.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    x: &'a [f64],
    falls: &'a [f64],
    rises: &'a [f64],
    scale: f64,
    centre: f64,
    centre_fall: f64,
    centre_rise: f64,
}

impl<'a> Single<'a> {
    /// For few pairs, which need fewer exponentials than their values.
    pub fn of_few_pairs(x: &'a [f64], scale: f64) -> Self {
        Self { x, scale, falls: Vec::new(), rises: Vec::new() }
    }

    pub fn new(x: &'a [f64], scale: f64) -> Self {
        /// Largest exponent: a product of two exponentials is a number.
        const LARGEST: f64 = 300.0;
        let exponent = 3f64.sqrt() * scale;
        /// Inputs within ± this are usual: for them the lengthscale alone decides, not which rows are looked at together.
        const USUAL: f64 = 12.0;
        let is_fine = exponent * x.iter().fold(USUAL, |most, x| x.abs().max(most)) <= LARGEST;
        let [falls, rises] = [-exponent, exponent].map(|exponent| {
            let values = x.iter().map(|x| (exponent * x).exp());
            if is_fine { values.collect() } else { Vec::new() }
        });
        Self { x, scale, falls, rises }
    }

    /// The values from `first` on, seen from a value of another list of the same input.
    pub fn seen_from<'s>(&'s self, first: usize, other: &Single<'_>, centre: usize) -> Seen<'s> {
        let has_products = !self.falls.is_empty() && !other.falls.is_empty();
        let part = |values: &'s [f64]| if has_products { &values[first..] } else { &[] };
        let of_centre = |values: &[f64]| if has_products { values[centre] } else { 0.0 };
        Seen {
            x: &self.x[first..],
            falls: part(&self.falls),
            rises: part(&self.rises),
            scale: self.scale,
            centre: other.x[centre],
            centre_fall: of_centre(&other.falls),
            centre_rise: of_centre(&other.rises),
        }
    }
}

impl Seen<'_> {
    /// The smaller one of the two products.
    #[inline(always)]
    fn decay(&self, fall: f64, rise: f64) -> f64 {
        let (one, other) = (fall * self.centre_rise, rise * self.centre_fall);
        if one < other { one } else { other }
    }
}

/// Adds the Matérn kernel of one input to each sum, and its square to each of the `squares`.
pub(super) fn add_matern(sums: &mut [f64], squares: &mut [f64], seen: Seen<'_>) {
    let Seen { x, falls, rises, scale, centre, .. } = seen;
    let scale = 3f64.sqrt() * scale;
    Arch::new().dispatch(
        #[inline(always)]
        || {
            if falls.is_empty() {
                for ((sum, square), x) in sums.iter_mut().zip(squares).zip(x) {
                    let r = scale * (x - centre).abs();
                    let kernel = (1.0 + r) * exp(-r);
                    *sum += kernel;
                    *square += kernel * kernel;
                }
            } else {
                let values = x.iter().zip(falls.iter().zip(rises));
                for ((sum, square), (x, (fall, rise))) in sums.iter_mut().zip(squares).zip(values) {
                    let r = scale * (x - centre).abs();
                    let kernel = (1.0 + r) * seen.decay(*fall, *rise);
                    *sum += kernel;
                    *square += kernel * kernel;
                }
            }
        },
    );
}

/// What the kernels mⱼ of single inputs are multiplied by: a Σⱼ mⱼ + b Σ_{j<k} mⱼ mₖ.
#[derive(Clone, Copy)]
pub(super) struct OfSingles {
    /// a.
    pub single: f64,
    /// b.
    pub pair: f64,
}

/// Terms of [`matern_slope`]. A method, unlike a closure of this size, is inlined into the vectorised function.
struct MaternTerms<'a> {
    g: &'a [f64],
    sums: &'a [f64],
    seen: Seen<'a>,
    factors: OfSingles,
    slope: &'a mut [f64],
}

impl WithSimd for MaternTerms<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { g, sums, seen, factors: OfSingles { single, pair }, slope } = self;
        let Seen { x, falls, rises, scale, centre, .. } = seen;
        let root = 3f64.sqrt();
        let term = |g: f64, sum: f64, step: f64, decay: f64| {
            let others = sum - (1.0 + root * step) * decay;
            g * (single + pair * others) * decay * step * step
        };
        let values = g.iter().zip(sums).zip(x);
        if falls.is_empty() {
            for (slope, ((g, sum), x)) in slope.iter_mut().zip(values) {
                let step = scale * (x - centre).abs();
                *slope = term(*g, *sum, step, exp(-root * step));
            }
        } else {
            for (slope, (((g, sum), x), (fall, rise))) in slope.iter_mut().zip(values.zip(falls.iter().zip(rises))) {
                let step = scale * (x - centre).abs();
                *slope = term(*g, *sum, step, seen.decay(*fall, *rise));
            }
        }
    }
}

/// Σ g (a + b (Σₖ mₖ − m)) e^(−√3 r) (s(x − c))² for the Matérn kernel m of one input, given the sums of all. The terms go into `room`
/// first: the loop over them vectorises, one that sums at once does not.
pub(super) fn matern_slope(g: &[f64], sums: &[f64], seen: Seen<'_>, factors: OfSingles, room: &mut [f64]) -> f64 {
    let slope = &mut room[..g.len()];
    Arch::new().dispatch(MaternTerms { g, sums, seen, factors, slope });
    lanes(slope, slope, |v, _| v)
}

/// Σ a b.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    lanes(a, b, |a, b| a * b)
}

/// Σ g |x − c|.
pub(super) fn step_sum(g: &[f64], x: &[f64], centre: f64) -> f64 {
    lanes(g, x, |g, x| g * (x - centre).abs())
}

/// A sum over two slices in an order that vectorises.
fn lanes(a: &[f64], b: &[f64], term: impl Fn(f64, f64) -> f64) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (a_blocks, b_blocks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f64 = a_blocks.remainder().iter().zip(b_blocks.remainder()).map(|(a, b)| term(*a, *b)).sum();
    for (a, b) in a_blocks.zip(b_blocks) {
        for lane in 0..LANES {
            sums[lane] += term(a[lane], b[lane]);
        }
    }
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_exact_to_rounding() {
        for k in 0..100_000 {
            let x = -0.007 * k as f64;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-15, "{x}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(-1e300) < 1e-300);
    }

    #[test]
    fn sums_over_blocks_are_plain_sums() {
        let x: Vec<f64> = (0..27).map(|k| (k as f64 * 0.9).sin()).collect();
        let g: Vec<f64> = (0..27).map(|k| (k as f64 * 0.4).cos()).collect();
        // Long and short lengthscales: with products, and without them.
        for (c, s) in [(0.3, 1.7), (0.9f64.sin(), 400.0)] {
            let r = |x: f64| 3f64.sqrt() * s * (x - c).abs();
            let sum = |f: &dyn Fn(f64, f64) -> f64| x.iter().zip(&g).map(|(x, g)| f(*x, *g)).sum::<f64>();
            let (all, centre) = (Single::new(&x, s), [c]);
            assert_eq!(all.falls.is_empty(), s > 100.0);
            let seen = all.seen_from(0, &Single::new(&centre, s), 0);
            let matern = |x: f64| (1.0 + r(x)) * (-r(x)).exp();
            let (mut sums, mut squares) = (vec![1.0; 27], vec![2.0; 27]);
            add_matern(&mut sums, &mut squares, seen);
            sums.iter().zip(&x).for_each(|(value, x)| assert!((value - 1.0 - matern(*x)).abs() < 1e-13));
            squares.iter().zip(&x).for_each(|(value, x)| assert!((value - 2.0 - matern(*x).powi(2)).abs() < 1e-13));
            // Of the sums, 1 comes from other inputs.
            let slope = matern_slope(&g, &sums, seen, OfSingles { single: 0.7, pair: 0.2 }, &mut [0.0; 27]);
            assert!((slope - sum(&|x, g| 0.9 * g * (-r(x)).exp() * (s * (x - c)).powi(2))).abs() < 1e-13);
            assert!((dot(&g, &x) - sum(&|x, g| g * x)).abs() < 1e-13);
        }
    }
}
