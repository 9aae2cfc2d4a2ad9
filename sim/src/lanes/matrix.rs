//! Products of small matrices, as tensor cores compute them.
//!
//! Products of floating-point elements are exact, and are summed in double precision in order; the sum
//! is rounded once, to the type of the result. Tensor cores keep fewer intermediate bits, so the last
//! bits of a GPU's results may differ. Doubles are summed by fused multiply-adds that round each time.

use super::soft::{self, DOUBLE, HALF, Round, SINGLE};
use crate::program::{Element, Shape, Summing};

/// The elements of a matrix, or of several, in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Values {
    Floats(Vec<f64>),
    Integers(Vec<i32>),
}

impl Values {
    pub(crate) fn zeros(element: Element, count: usize) -> Self {
        if element.is_integer() || element == Element::B1 {
            return Self::Integers(vec![0; count]);
        }
        Self::Floats(vec![0.0; count])
    }

    /// Sets an element to the value of its bits; bits past the element's are ignored.
    #[inline]
    pub(crate) fn set(&mut self, element: Element, at: usize, bits: u32) {
        match self {
            Self::Floats(values) => values[at] = value(element, bits),
            Self::Integers(values) if element == Element::B1 => values[at] = (bits & 1) as i32,
            Self::Integers(values) => values[at] = integer(element, bits),
        }
    }

    /// Returns the given rows of a matrix with `columns` columns, one after the other.
    pub(crate) fn rows_at(&self, columns: u32, rows: &[u32]) -> Self {
        fn pick<T: Copy>(values: &[T], columns: u32, rows: &[u32]) -> Vec<T> {
            let row = |&row: &u32| &values[(row * columns) as usize..][..columns as usize];
            rows.iter().flat_map(row).copied().collect()
        }
        match self {
            Self::Floats(values) => Self::Floats(pick(values, columns, rows)),
            Self::Integers(values) => Self::Integers(pick(values, columns, rows)),
        }
    }

    pub(crate) fn negate(&mut self) {
        if let Self::Floats(values) = self {
            values.iter_mut().for_each(|value| *value = -*value);
        }
    }
}

/// Adds to `sums` the products of matrices whose elements have the types of `a` and `b`: one product, or
/// several whose matrices follow each other.
pub(crate) fn multiply(
    (shape, element): (Shape, Element),
    [a, b]: [&Values; 2],
    sums: &mut Values,
    summing: Summing,
) {
    let Shape { m, n, k } = shape;
    let sizes = [m * k, k * n, m * n].map(|size| size as usize);
    match (a, b, sums) {
        (Values::Integers(a), Values::Integers(b), Values::Integers(sums)) => match element {
            Element::B1 => bits(shape, a, b, sums, summing),
            _ => each(sizes, a, b, sums, |a, b, sums| integers(shape, a, b, sums, summing.saturates)),
        },
        (Values::Floats(a), Values::Floats(b), Values::Floats(sums)) if element == Element::F64 => {
            doubles(shape, a, b, sums, summing.round);
        }
        (Values::Floats(a), Values::Floats(b), Values::Floats(sums)) => {
            each(sizes, a, b, sums, |a, b, sums| floats(shape, a, b, sums));
        }
        _ => unreachable!("the decoder accepts only products of floats, or of integers"),
    }
}

/// Calls `multiply` for each product of matrices with the given numbers of elements.
fn each<T>(
    [first, second, sum]: [usize; 3],
    a: &[T],
    b: &[T],
    sums: &mut [T],
    multiply: impl Fn(&[T], &[T], &mut [T]),
) {
    let factors = a.chunks_exact(first).zip(b.chunks_exact(second));
    for (sums, (a, b)) in sums.chunks_exact_mut(sum).zip(factors) {
        multiply(a, b, sums);
    }
}

pub(crate) fn value(element: Element, bits: u32) -> f64 {
    match element {
        Element::F16 => small(bits & 0xffff, 5, 10),
        Element::Bf16 => f64::from(f32::from_bits(bits << 16)),
        Element::Tf32 => f64::from(f32::from_bits(bits & !0x1fff)),
        Element::E5m2 => small(bits & 0xff, 5, 2),
        // This format has no infinities, and one NaN magnitude.
        Element::E4m3 if bits & 0x7f == 0x7f => f64::NAN,
        Element::E4m3 => unscaled(bits & 0xff, 4, 3),
        _ => f64::from(f32::from_bits(bits)),
    }
}

/// Decodes a format with infinities and NaNs, with the given numbers of exponent and fraction bits.
fn small(bits: u32, exponent: u32, fraction: u32) -> f64 {
    let most = (1 << exponent) - 1;
    if bits >> fraction & most != most {
        return unscaled(bits, exponent, fraction);
    }
    let negative = bits >> (exponent + fraction) != 0;
    match bits & ((1 << fraction) - 1) {
        0 if negative => f64::NEG_INFINITY,
        0 => f64::INFINITY,
        _ => f64::NAN,
    }
}

fn unscaled(bits: u32, exponent: u32, fraction: u32) -> f64 {
    let sign = u64::from(bits >> (exponent + fraction)) << 63;
    let field = u64::from(bits >> fraction & ((1 << exponent) - 1));
    let rest = u64::from(bits & ((1 << fraction) - 1));
    let bias = (1_u64 << (exponent - 1)) - 1;
    if field == 0 {
        let unit = f64::from_bits((1024 - bias - u64::from(fraction)) << 52);
        return f64::from_bits((rest as f64 * unit).to_bits() | sign);
    }
    f64::from_bits(sign | (field + 1023 - bias) << 52 | rest << (52 - fraction))
}

pub(crate) fn integer(element: Element, bits: u32) -> i32 {
    match element {
        Element::S8 => i32::from(bits as u8 as i8),
        Element::U8 => i32::from(bits as u8),
        Element::S4 => (bits << 28) as i32 >> 28,
        Element::U4 => (bits & 15) as i32,
        _ => bits as i32,
    }
}

pub(crate) fn rounded(element: Element, sum: f64) -> u32 {
    match element {
        Element::F16 if sum.is_nan() => HALF.nan() as u32,
        Element::F16 => HALF.pack(DOUBLE.unpack(sum.to_bits()), Round::Nearest) as u32,
        _ if sum.is_nan() => SINGLE.nan() as u32,
        _ => (sum as f32).to_bits(),
    }
}

/// Maximum number of columns of a product, that of `wgmma`.
const MOST_COLUMNS: usize = 256;

/// Adds to `c` the product of each row of `a` and each column of `b`; all are row-major.
fn floats(shape: Shape, a: &[f64], b: &[f64], c: &mut [f64]) {
    let (n, k) = (shape.n as usize, shape.k as usize);
    let mut sums = [0.0; MOST_COLUMNS];
    for (row, sum) in c.chunks_exact_mut(n).enumerate() {
        let sums = &mut sums[..n];
        sums.fill(0.0);
        for (a, b) in a[row * k..(row + 1) * k].iter().zip(b.chunks_exact(n)) {
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
        for (c, sum) in sum.iter_mut().zip(sums) {
            *c += *sum;
        }
    }
}

fn doubles(shape: Shape, a: &[f64], b: &[f64], c: &mut [f64], round: Round) {
    let (n, k) = (shape.n as usize, shape.k as usize);
    for (row, sums) in c.chunks_exact_mut(n).enumerate() {
        for (a, b) in a[row * k..(row + 1) * k].iter().zip(b.chunks_exact(n)) {
            for (sum, b) in sums.iter_mut().zip(b) {
                *sum = fused(*a, *b, *sum, round);
            }
        }
    }
}

fn fused(a: f64, b: f64, c: f64, round: Round) -> f64 {
    if round == Round::Nearest {
        return a.mul_add(b, c);
    }
    let number = |value: f64| DOUBLE.unpack(value.to_bits());
    let sum = soft::add(soft::mul(number(a), number(b)), number(c), round);
    f64::from_bits(DOUBLE.pack(sum, round))
}

fn integers(shape: Shape, a: &[i32], b: &[i32], c: &mut [i32], saturates: bool) {
    let (n, k) = (shape.n as usize, shape.k as usize);
    for (row, sums) in c.chunks_exact_mut(n).enumerate() {
        for (column, sum) in sums.iter_mut().enumerate() {
            let pairs = a[row * k..(row + 1) * k].iter().zip(b[column..].iter().step_by(n));
            let exact: i64 = i64::from(*sum) + pairs.map(|(&a, &b)| i64::from(a * b)).sum::<i64>();
            let kept = exact.clamp(i32::MIN.into(), i32::MAX.into());
            *sum = if saturates { kept } else { exact } as i32;
        }
    }
}

/// Adds to `c`, for each row of `a` and column of `b`, the number of common ones or of differing bits.
fn bits(shape: Shape, a: &[i32], b: &[i32], c: &mut [i32], summing: Summing) {
    let (n, k) = (shape.n as usize, shape.k as usize);
    for (row, sums) in c.chunks_exact_mut(n).enumerate() {
        for (column, sum) in sums.iter_mut().enumerate() {
            let pairs = a[row * k..(row + 1) * k].iter().zip(b[column..].iter().step_by(n));
            let counted = pairs.map(|(&a, &b)| if summing.both { a & b } else { a ^ b }).sum::<i32>();
            *sum = sum.wrapping_add(counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f16_decodes_like_the_soft_format() {
        for bits in 0..=0xffff_u32 {
            let single = soft::HALF.unpack(bits.into());
            let expected = f64::from_bits(DOUBLE.pack(single, Round::Nearest));
            let found = value(Element::F16, bits);
            assert!(found == expected || found.is_nan() && expected.is_nan(), "{bits:#x}");
            assert!(found.is_nan() || found.is_sign_negative() == (bits >> 15 == 1), "{bits:#x}");
        }
    }

    #[test]
    fn fp8_and_tf32_decode_to_their_values() {
        let e4m3 = |bits| value(Element::E4m3, bits);
        assert_eq!(
            [e4m3(0x38), e4m3(0x7e), e4m3(1), e4m3(0x88)],
            [1.0, 448.0, 1.0 / 512.0, -1.0 / 64.0]
        );
        assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan());
        let e5m2 = |bits| value(Element::E5m2, bits);
        assert_eq!([e5m2(0x3c), e5m2(0x7b), e5m2(1)], [1.0, 57344.0, 1.0 / 65536.0]);
        assert_eq!([e5m2(0x7c), e5m2(0xfc)], [f64::INFINITY, f64::NEG_INFINITY]);
        assert!(e5m2(0x7d).is_nan());
        assert_eq!(value(Element::Tf32, 0x3f80_1fff), 1.0);
    }

    #[test]
    fn narrow_integers_are_sign_or_zero_extended() {
        assert_eq!(
            [integer(Element::S4, 0xf), integer(Element::U4, 0xff), integer(Element::S4, 0x17)],
            [-1, 15, 7]
        );
        assert_eq!([integer(Element::S8, 0x80), integer(Element::U8, 0x80)], [-128, 128]);
    }

    #[test]
    fn directed_roundings_of_doubles_differ() {
        let shape = Shape { m: 1, n: 1, k: 1 };
        let run = |round| {
            let mut c = [1.0];
            doubles(shape, &[1.0 / 3.0], &[1e-17], &mut c, round);
            c[0]
        };
        assert_eq!(run(Round::Nearest), 1.0);
        assert_eq!(run(Round::Up), 1.0 + f64::EPSILON);
        assert_eq!(run(Round::Zero), 1.0);
    }
}
