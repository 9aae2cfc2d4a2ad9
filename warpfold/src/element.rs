//! The types of elements and of results.

use std::{fmt::Debug, ops::Add};

use bytemuck::Pod;
use half::{bf16, f16};
use warpfold_abi::{custom::MOST_OUTPUT_BYTES, reducer::OUTPUT_BYTES};

use crate::{Device, Result, Within, names::Dtype};

/// A type that a [`Buffer`](crate::Buffer) can hold: plain data of any size but 0.
///
/// It is implemented for every [`Pod`] type: a type without padding for which all bits are valid.
/// bytemuck derives that for `#[repr(C)]` structs. The library's operations reduce [`Element`]s;
/// [custom](crate::custom) operations reduce any plain type.
///
/// ```compile_fail,E0277
/// // Not all bits are a valid `bool`; all are a valid `warpfold::Bool`.
/// let device = warpfold::Device::open(warpfold::Selection::Sim)?;
/// device.upload(&[true, false])?;
/// # Ok::<(), warpfold::Error>(())
/// ```
pub trait Plain: Pod + Debug + Send + Sync {}

impl<T: Pod + Debug + Send + Sync> Plain for T {}

/// A type that the library's operations reduce: `i8`, `u8`, `i16`, `u16`, `i32`, `u32`, `i64`, `u64`,
/// [`f16`](struct@f16), [`bf16`], `f32` or `f64`; or [`Bool`](crate::Bool), which is reduced like `u8`.
///
/// The trait is sealed, because the library has kernels for these types only.
///
/// ```compile_fail,E0277
/// #[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
/// struct Celsius(f32);
///
/// impl warpfold::Element for Celsius {
///     type Sum = f32;
/// }
/// ```
pub trait Element: sealed::Element + Plain + PartialOrd {
    /// The type of sums, in which the kernels also add: `i64` for signed integers, `u64` for unsigned
    /// ones, `f32` for [`f16`](struct@f16) and [`bf16`], and `f32` and `f64` for themselves.
    type Sum: Element<Sum = Self::Sum>;
}

/// An element that has bitwise operations: an [`Integer`] or a [`Bool`](crate::Bool).
pub trait Bits: Element {}

/// An integer element. It also has a wrapping sum in its own type.
pub trait Integer: Bits {}

/// A floating-point element.
pub trait Float: Element {}

/// The result of a reduction in an [`Output`](crate::Output): [`Plain`] data, such as an [`Element`]; a
/// [`Located`] element; [`Ends`]; a [`Spread`]; or the count and sum [`Within`] an interval.
///
/// The trait is sealed, like [`Element`]:
///
/// ```compile_fail,E0277
/// impl warpfold::Outcome for String {}
/// ```
pub trait Outcome: sealed::Outcome + Copy + Debug + Send + Sync + 'static {}

impl<T: Plain> Outcome for T {}
impl<T: Element> Outcome for Located<T> {}
impl<T: Element> Outcome for Ends<T> {}
impl Outcome for Spread {}
impl<S: Element> Outcome for Within<S> {}

/// An element and its index: the first of the smallest or largest elements, or the first NaN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Located<T> {
    /// The element.
    pub value: T,
    /// The index in the buffer, row or segment, from 0.
    pub index: u64,
}

/// The smallest element and the largest one.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct Ends<T> {
    /// The smallest element, or NaN if any element is NaN.
    pub min: T,
    /// The largest element, or NaN if any element is NaN.
    pub max: T,
}

/// Mean and variance of the elements. In device memory, both are NaN if there are no elements.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
pub struct Spread {
    /// The arithmetic mean of the elements.
    pub mean: f64,
    /// The mean squared distance from the mean, which is the population variance.
    pub variance: f64,
}

impl Spread {
    /// Returns the square root of the variance.
    pub fn standard_deviation(&self) -> f64 {
        self.variance.sqrt()
    }

    /// Returns the variance estimated from a sample, where `n` is the number of the elements: the sum of
    /// the squared distances divided by n − 1. It is NaN for one element.
    pub fn sample_variance(&self, n: u64) -> f64 {
        let n = n as f64;
        self.variance * (n / (n - 1.0))
    }
}

pub(crate) const RESULT_WORDS: usize = MOST_OUTPUT_BYTES as usize / size_of::<u64>();

/// The words of a result: the value from the first byte on, or an index followed by the element.
pub(crate) type Words = [u64; RESULT_WORDS];

fn value_at<T: Pod>(words: &[u64], start: usize) -> T {
    // GPUs are little-endian, and so are their hosts.
    let bytes: &[u8] = bytemuck::cast_slice(words);
    bytemuck::pod_read_unaligned(&bytes[start..start + size_of::<T>()])
}

/// Returns a word with the bits of an element of at most 8 bytes in its lowest bits.
pub(crate) fn word_of<T: Pod>(element: T) -> u64 {
    let mut word = 0;
    bytemuck::bytes_of_mut(&mut word)[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&element));
    word
}

pub(crate) fn element_of<T: Pod>(word: u64) -> T {
    value_at(&[word], 0)
}

pub(crate) mod sealed {
    use bytemuck::Pod;

    use super::{Dtype, Words};
    use crate::{Device, Result, input::filtered::NextAfter};

    pub trait Element: Pod + NextAfter {
        /// The type of L1 norms in device memory.
        type Magnitudes: super::Element;
        const DTYPE: Dtype;
        /// Converts to `f64`, rounding to nearest. This is not a method, because a method could shadow
        /// one of the caller's.
        const TO_F64: fn(Self) -> f64;
        /// Adds two values; integers wrap around.
        const ADD: fn(Self, Self) -> Self;
    }

    pub trait Outcome {
        fn from_words(words: Words) -> Self;

        /// Size of a result in device memory, in bytes.
        const BYTES: u64;

        /// Copies contiguous results to the host.
        ///
        /// # Safety
        /// `len` results at `address` on the device must be readable, and no enqueued work may write
        /// them.
        unsafe fn copy_out(device: &Device, address: u64, len: usize) -> Result<Vec<Self>>
        where
            Self: Sized;
    }
}

impl Dtype {
    /// Returns the unit roundoff of the type of sums, half an ulp of 1, or `None` for an integer type.
    pub(crate) fn sum_roundoff(self) -> Option<f64> {
        match self {
            Self::F16 | Self::Bf16 | Self::F32 => Some(f64::from(f32::EPSILON) / 2.0),
            Self::F64 => Some(f64::EPSILON / 2.0),
            _ => None,
        }
    }
}

impl<T: Plain> sealed::Outcome for T {
    fn from_words(words: Words) -> Self {
        value_at(&words, 0)
    }

    const BYTES: u64 = size_of::<T>() as u64;

    unsafe fn copy_out(device: &Device, address: u64, len: usize) -> Result<Vec<Self>> {
        // SAFETY: the caller promises `len` readable results, which are of type `T`.
        unsafe { device.copy_out(address, len) }
    }
}

impl<T: Element> sealed::Outcome for Located<T> {
    fn from_words(words: Words) -> Self {
        Self { value: value_at(&words, size_of::<u64>()), index: words[0] }
    }

    const BYTES: u64 = OUTPUT_BYTES;

    unsafe fn copy_out(device: &Device, address: u64, len: usize) -> Result<Vec<Self>> {
        // SAFETY: the caller promises `len` readable results, each of two words.
        let words = unsafe { device.copy_out::<u64>(address, 2 * len) }?;
        let results = words.chunks_exact(2);
        Ok(results.map(|words| Self { value: value_at(&words[1..], 0), index: words[0] }).collect())
    }
}

impl<T: Element> sealed::Outcome for Ends<T> {
    fn from_words(words: Words) -> Self {
        Self { min: value_at(&words, 0), max: value_at(&words, size_of::<T>()) }
    }

    const BYTES: u64 = 2 * size_of::<T>() as u64;

    unsafe fn copy_out(device: &Device, address: u64, len: usize) -> Result<Vec<Self>> {
        // SAFETY: the caller promises `len` readable results, each of two elements.
        let elements = unsafe { device.copy_out::<T>(address, 2 * len) }?;
        Ok(elements.chunks_exact(2).map(|ends| Self { min: ends[0], max: ends[1] }).collect())
    }
}

impl sealed::Outcome for Spread {
    fn from_words(words: Words) -> Self {
        Self { mean: value_at(&words, 0), variance: value_at(&words, size_of::<f64>()) }
    }

    const BYTES: u64 = OUTPUT_BYTES;

    unsafe fn copy_out(device: &Device, address: u64, len: usize) -> Result<Vec<Self>> {
        // SAFETY: the caller promises `len` readable results, each of two numbers.
        let numbers = unsafe { device.copy_out::<f64>(address, 2 * len) }?;
        let spreads = numbers.chunks_exact(2);
        Ok(spreads.map(|spread| Self { mean: spread[0], variance: spread[1] }).collect())
    }
}

impl<S: Element> sealed::Outcome for Within<S> {
    fn from_words(words: Words) -> Self {
        Self { count: words[0], sum: value_at(&words, size_of::<u64>()), rest: words[2] }
    }

    const BYTES: u64 = 4 * size_of::<u64>() as u64;

    unsafe fn copy_out(device: &Device, address: u64, len: usize) -> Result<Vec<Self>> {
        // SAFETY: the caller promises `len` readable results, each of four words.
        let words = unsafe { device.copy_out::<u64>(address, 4 * len) }?;
        let of = |words: &[u64]| Self { count: words[0], sum: value_at(&words[1..], 0), rest: words[2] };
        Ok(words.chunks_exact(4).map(of).collect())
    }
}

macro_rules! elements {
    ($($ty:ty: $dtype:ident, adds up in $sum:ty, its magnitudes in $magnitudes:ty, added by $add:expr, $to_f64:expr;)*) => {
    $(
        impl Element for $ty {
            type Sum = $sum;
        }

        impl sealed::Element for $ty {
            type Magnitudes = $magnitudes;
            const DTYPE: Dtype = Dtype::$dtype;
            const TO_F64: fn(Self) -> f64 = $to_f64;
            const ADD: fn(Self, Self) -> Self = $add;
        }
    )*

        impl Dtype {
            /// Returns the size of an element in bytes.
            pub const fn size(self) -> usize {
                match self {
                    $(Self::$dtype => size_of::<$ty>(),)*
                }
            }

            /// Returns the type of sums, [`Element::Sum`].
            pub const fn sum(self) -> Self {
                match self {
                    $(Self::$dtype => <$sum as sealed::Element>::DTYPE,)*
                }
            }
        }
    };
}

elements! {
    i8: I8, adds up in i64, its magnitudes in i64, added by i8::wrapping_add, f64::from;
    u8: U8, adds up in u64, its magnitudes in u64, added by u8::wrapping_add, f64::from;
    i16: I16, adds up in i64, its magnitudes in i64, added by i16::wrapping_add, f64::from;
    u16: U16, adds up in u64, its magnitudes in u64, added by u16::wrapping_add, f64::from;
    i32: I32, adds up in i64, its magnitudes in i64, added by i32::wrapping_add, f64::from;
    u32: U32, adds up in u64, its magnitudes in u64, added by u32::wrapping_add, f64::from;
    i64: I64, adds up in i64, its magnitudes in f64, added by i64::wrapping_add, |value| value as f64;
    u64: U64, adds up in u64, its magnitudes in f64, added by u64::wrapping_add, |value| value as f64;
    f16: F16, adds up in f32, its magnitudes in f32, added by Add::add, f64::from;
    bf16: Bf16, adds up in f32, its magnitudes in f32, added by Add::add, f64::from;
    f32: F32, adds up in f32, its magnitudes in f32, added by Add::add, f64::from;
    f64: F64, adds up in f64, its magnitudes in f64, added by Add::add, f64::from;
}

macro_rules! integers {
    ($($ty:ty)*) => {
        $(impl Bits for $ty {}
        impl Integer for $ty {})*
    };
}

integers!(i8 u8 i16 u16 i32 u32 i64 u64);

macro_rules! floats {
    ($($ty:ty)*) => {
        $(impl Float for $ty {})*
    };
}

floats!(f16 bf16 f32 f64);

#[cfg(test)]
mod tests {
    use super::{sealed::Outcome as _, *};

    /// Adding the roundoff to 1 changes nothing; adding the next larger number does.
    #[test]
    fn sum_roundoff_is_half_an_ulp_of_one() {
        let of = |dtype: Dtype| dtype.sum_roundoff();
        for in_singles in [Dtype::F16, Dtype::Bf16, Dtype::F32] {
            let lost = of(in_singles).unwrap() as f32;
            assert_eq!((1.0 + lost, 1.0 + lost.next_up()), (1.0, 1.0 + f32::EPSILON));
        }
        let lost = of(Dtype::F64).unwrap();
        assert_eq!((1.0 + lost, 1.0 + lost.next_up()), (1.0, 1.0 + f64::EPSILON));
        assert_eq!((of(Dtype::U8), of(Dtype::I64)), (None, None));
    }

    #[test]
    fn from_words_decodes_each_outcome_type() {
        let words = |first, second| [first, second, 3, 4, 5, 6, 7, 8];
        assert_eq!(i8::from_words(words(0xff, 1)), -1);
        assert_eq!(f16::from_words(words(0xdead_3c00, 1)), f16::ONE);
        assert_eq!(f64::from_words(words(1.5_f64.to_bits(), 1)), 1.5);
        assert_eq!(<[u64; 8]>::from_words(words(1, 2)), [1, 2, 3, 4, 5, 6, 7, 8]);
        let located = Located::<f32>::from_words(words(1 << 40, u64::from(2.5_f32.to_bits()) | 7 << 32));
        assert_eq!(located, Located { value: 2.5, index: 1 << 40 });
    }
}
