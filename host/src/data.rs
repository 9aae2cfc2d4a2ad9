//! Dynamically typed arrays and values, for the command line and for tests over the catalogue.

use std::{fmt, io};

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};
use num_traits::AsPrimitive;
use rayon::prelude::*;
use serde::{Serialize, Serializer};

use crate::{Dtype, Op};

/// An element type of the suite on the host.
///
/// The trait is sealed: an implementation with a `DTYPE` larger than the type would be read out of
/// bounds.
///
/// ```compile_fail,E0277
/// # use bytemuck::{Pod, Zeroable};
/// use warpfold_suite::{Data, Dtype, Scalar, Value};
///
/// # #[derive(Debug, Clone, Copy, PartialEq)]
/// # #[repr(transparent)]
/// struct Byte(u8);
/// # // SAFETY: it is a byte.
/// # unsafe impl Zeroable for Byte {}
/// # // SAFETY: it is a byte.
/// # unsafe impl Pod for Byte {}
///
/// impl Scalar for Byte {
///     const DTYPE: Dtype = Dtype::F64;
///     // …
/// #   const LARGEST: Self = Self(u8::MAX);
/// #   const SMALLEST: Self = Self(0);
/// #   fn random(bits: u64) -> Self { Self(bits as u8) }
/// #   fn of_integer(integer: u64) -> Self { Self(integer as u8) }
/// #   fn of_signed(integer: i64) -> Self { Self(integer as u8) }
/// #   fn value(self) -> Value { Value::U8(self.0) }
/// #   fn data(values: Vec<Self>) -> Data { Data::U8(bytemuck::cast_vec(values)) }
/// }
/// ```
pub trait Scalar: sealed::Scalar + Pod + Send + Sync + PartialEq + fmt::Debug {
    const DTYPE: Dtype;
    /// Returns a value from 64 random bits: integers over their whole range, floats uniform in [-1, 1).
    fn random(bits: u64) -> Self;
    /// Converts an integer like `as`, which changes values that the type cannot represent.
    fn of_integer(integer: u64) -> Self;
    fn of_signed(integer: i64) -> Self;
    /// The greatest value: the identity of the minimum.
    const LARGEST: Self;
    /// The least value: the identity of the maximum.
    const SMALLEST: Self;
    fn value(self) -> Value;
    fn data(values: Vec<Self>) -> Data;
}

mod sealed {
    pub trait Scalar {}
}

macro_rules! scalars {
    ($($ty:ty = $variant:ident: $smallest:ident to $largest:ident, $random:expr;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub enum Value {
            $(
                #[doc = concat!("A value of type `", stringify!($ty), "`.")]
                $variant($ty),
            )*
        }

        /// An array of one of the element types.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Data {
            $(
                #[doc = concat!("An array of `", stringify!($ty), "`.")]
                $variant(Vec<$ty>),
            )*
        }

        $(
            impl sealed::Scalar for $ty {}

            impl Scalar for $ty {
                const DTYPE: Dtype = Dtype::$variant;
                const LARGEST: Self = <$ty>::$largest;
                const SMALLEST: Self = <$ty>::$smallest;

                fn random(bits: u64) -> Self {
                    $random(bits)
                }

                fn of_integer(integer: u64) -> Self {
                    integer.as_()
                }

                fn of_signed(integer: i64) -> Self {
                    integer.as_()
                }

                fn value(self) -> Value {
                    Value::$variant(self)
                }

                fn data(values: Vec<Self>) -> Data {
                    Data::$variant(values)
                }
            }
        )*

        /// Runs generic code with the element type of a [`Dtype`].
        #[macro_export]
        macro_rules! with_dtype {
            ($dtype:expr, $T:ident => $body:expr) => {
                match $dtype {
                    $($crate::Dtype::$variant => {
                        #[allow(dead_code)]
                        type $T = $crate::scalar_types::$variant;
                        $body
                    })*
                }
            };
        }

        /// Runs generic code on the vector inside a [`Data`].
        #[macro_export]
        macro_rules! with_data {
            ($data:expr, $values:ident => $body:expr) => {
                match $data {
                    $($crate::Data::$variant($values) => $body,)*
                }
            };
        }

        macro_rules! with_one {
            ($value:expr, $one:ident => $body:expr) => {
                match $value {
                    $(Value::$variant($one) => $body,)*
                }
            };
        }

        macro_rules! with_value {
            ($data:expr, $value:expr, $values:ident, $one:ident => $body:expr) => {
                match ($data, $value) {
                    $(($crate::Data::$variant($values), $crate::Value::$variant($one)) => $body,)*
                    (data, value) => panic!("{value:?} is not an element of {}", data.dtype()),
                }
            };
        }
    };
}

scalars! {
    i8 = I8: MIN to MAX, |bits: u64| (bits >> 56) as i8;
    u8 = U8: MIN to MAX, |bits: u64| (bits >> 56) as u8;
    i16 = I16: MIN to MAX, |bits: u64| (bits >> 48) as i16;
    u16 = U16: MIN to MAX, |bits: u64| (bits >> 48) as u16;
    i32 = I32: MIN to MAX, |bits: u64| (bits >> 32) as i32;
    u32 = U32: MIN to MAX, |bits: u64| (bits >> 32) as u32;
    i64 = I64: MIN to MAX, |bits: u64| bits as i64;
    u64 = U64: MIN to MAX, std::convert::identity;
    f16 = F16: NEG_INFINITY to INFINITY, |bits| f16::from_f64(unit(bits));
    bf16 = Bf16: NEG_INFINITY to INFINITY, |bits| bf16::from_f64(unit(bits));
    f32 = F32: NEG_INFINITY to INFINITY, |bits: u64| ((bits >> 40) as f32) * 2.0_f32.powi(-23) - 1.0;
    f64 = F64: NEG_INFINITY to INFINITY, unit;
}

/// Returns a uniform value in [-1, 1) with 53 random bits.
fn unit(bits: u64) -> f64 {
    ((bits >> 11) as f64) * 2.0_f64.powi(-52) - 1.0
}

/// The element types under the names of [`Dtype`], for [`with_dtype!`].
#[doc(hidden)]
pub mod scalar_types {
    pub type I8 = i8;
    pub type U8 = u8;
    pub type I16 = i16;
    pub type U16 = u16;
    pub type I32 = i32;
    pub type U32 = u32;
    pub type I64 = i64;
    pub type U64 = u64;
    pub type F16 = half::f16;
    pub type Bf16 = half::bf16;
    pub type F32 = f32;
    pub type F64 = f64;
}

impl Data {
    /// Returns `n` random elements, which depend only on the seed and not on the machine.
    pub fn random(dtype: Dtype, n: usize, seed: u64) -> Self {
        with_dtype!(dtype, T => {
            let values = (0..n as u64).into_par_iter().map(|i| T::random(mix(seed, i))).collect();
            T::data(values)
        })
    }

    /// Returns `n` random integers in `0..bound`, which `dtype` must represent exactly. The last element
    /// is `bound - 1`, so that a sum that omits it differs.
    pub fn random_below(dtype: Dtype, n: usize, seed: u64, bound: u64) -> Self {
        with_dtype!(dtype, T => {
            let last = (n as u64).saturating_sub(1);
            let value = |i| T::of_integer(match i {
                i if i == last => bound.saturating_sub(1),
                i => ((u128::from(mix(seed, i)) * u128::from(bound)) >> 64) as u64,
            });
            T::data((0..n as u64).into_par_iter().map(value).collect())
        })
    }

    /// Returns the integers `value(0)` to `value(n - 1)`, which `dtype` must represent exactly.
    pub fn of_integers(dtype: Dtype, n: usize, value: impl Fn(usize) -> i64) -> Self {
        with_dtype!(dtype, T => T::data((0..n).map(|i| T::of_signed(value(i))).collect()))
    }

    /// Converts raw bytes in native byte order; bytes past the last whole element are dropped.
    pub fn from_bytes(dtype: Dtype, bytes: &[u8]) -> Self {
        with_dtype!(dtype, T => {
            T::data(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect())
        })
    }

    /// Reads `n` elements in native byte order. Fails with `OutOfMemory` if they do not fit in memory.
    #[cfg(target_endian = "little")]
    pub(crate) fn read(dtype: Dtype, n: usize, from: &mut impl io::Read) -> io::Result<Self> {
        with_dtype!(dtype, T => {
            let mut values: Vec<T> = Vec::new();
            values.try_reserve_exact(n).map_err(|_| io::ErrorKind::OutOfMemory)?;
            values.resize(n, T::zeroed());
            from.read_exact(bytemuck::cast_slice_mut(&mut values))?;
            Ok(T::data(values))
        })
    }

    pub fn dtype(&self) -> Dtype {
        fn of<T: Scalar>(_: &[T]) -> Dtype {
            T::DTYPE
        }
        with_data!(self, values => of(values))
    }

    pub fn len(&self) -> usize {
        with_data!(self, values => values.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the elements in their device representation.
    pub fn as_bytes(&self) -> &[u8] {
        with_data!(self, values => bytemuck::cast_slice(values))
    }
}

/// Returns random bits for element `i`. This is SplitMix64, whose state after i steps has a closed form,
/// so that elements can be generated in parallel.
pub(crate) fn mix(seed: u64, i: u64) -> u64 {
    let mut z = seed
        .wrapping_mul(0xd134_2543_de82_ef95)
        .wrapping_add(i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Value {
    /// Converts bytes in native byte order.
    pub fn from_bytes(dtype: Dtype, bytes: &[u8]) -> Self {
        with_dtype!(dtype, T => bytemuck::pod_read_unaligned::<T>(&bytes[..size_of::<T>()]).value())
    }

    /// Returns the identity of an operation other than [`Op::ArgMin`] and [`Op::ArgMax`], which combine
    /// pairs of element and index.
    pub fn identity(op: Op, dtype: Dtype) -> Self {
        with_dtype!(dtype, T => match op {
            Op::Sum | Op::SumOfSquares => T::zeroed().value(),
            Op::Min => T::LARGEST.value(),
            Op::Max => T::SMALLEST.value(),
            Op::ArgMin | Op::ArgMax => panic!("{op} has no identity"),
        })
    }

    pub fn to_bytes(self) -> Vec<u8> {
        with_one!(self, value => bytemuck::bytes_of(&value).to_vec())
    }

    pub fn dtype(self) -> Dtype {
        fn of<T: Scalar>(_: T) -> Dtype {
            T::DTYPE
        }
        with_one!(self, value => of(value))
    }

    /// Returns the absolute value, rounded down for floats.
    pub fn magnitude(self) -> u64 {
        match self {
            Self::I8(v) => v.unsigned_abs().into(),
            Self::I16(v) => v.unsigned_abs().into(),
            Self::I32(v) => v.unsigned_abs().into(),
            Self::I64(v) => v.unsigned_abs(),
            Self::U8(v) => v.into(),
            Self::U16(v) => v.into(),
            Self::U32(v) => v.into(),
            Self::U64(v) => v,
            float => float.to_f64().abs() as u64,
        }
    }

    /// Converts to a double, exactly except for the largest 64-bit integers.
    pub fn to_f64(self) -> f64 {
        with_one!(self, value => value.as_())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_one!(self, value => value.fmt(f))
    }
}

/// Serializes as a number; NaN and the infinities, which JSON lacks, as strings.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::I8(v) => serializer.serialize_i8(v),
            Self::U8(v) => serializer.serialize_u8(v),
            Self::I16(v) => serializer.serialize_i16(v),
            Self::U16(v) => serializer.serialize_u16(v),
            Self::I32(v) => serializer.serialize_i32(v),
            Self::U32(v) => serializer.serialize_u32(v),
            Self::I64(v) => serializer.serialize_i64(v),
            Self::U64(v) => serializer.serialize_u64(v),
            float if !float.to_f64().is_finite() => serializer.collect_str(&float),
            Self::F32(v) => serializer.serialize_f32(v),
            float => serializer.serialize_f64(float.to_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_data_depends_on_the_seed_alone() {
        for &dtype in Dtype::ALL {
            let data = Data::random(dtype, 1000, 7);
            assert_eq!(data, Data::random(dtype, 1000, 7), "{dtype}");
            assert_ne!(data, Data::random(dtype, 1000, 8), "{dtype}");
            assert_eq!((data.dtype(), data.len()), (dtype, 1000));
            assert_eq!(data, Data::from_bytes(dtype, data.as_bytes()), "{dtype}");
        }
    }

    #[test]
    fn random_floats_fill_their_interval() {
        let Data::F32(values) = Data::random(Dtype::F32, 10_000, 1) else { unreachable!() };
        assert!(values.iter().all(|v| (-1.0..1.0).contains(v)));
        assert!(values.iter().any(|v| *v > 0.99) && values.iter().any(|v| *v < -0.99));
    }

    #[test]
    fn random_integers_take_every_value_of_a_narrow_type() {
        let (Data::I8(signed), Data::U8(unsigned)) =
            (Data::random(Dtype::I8, 10_000, 1), Data::random(Dtype::U8, 10_000, 1))
        else {
            unreachable!("asked for them")
        };
        assert!((i8::MIN..=i8::MAX).all(|value| signed.contains(&value)));
        assert!((u8::MIN..=u8::MAX).all(|value| unsigned.contains(&value)));
        let Data::I16(signed) = Data::random(Dtype::I16, 1 << 20, 1) else { unreachable!("i16") };
        let taken: std::collections::HashSet<_> = signed.into_iter().collect();
        assert_eq!(taken.len(), 1 << 16);
        let Data::I8(below) = Data::random_below(Dtype::I8, 1000, 1, 10) else { unreachable!("i8") };
        assert!(
            (0..10).all(|value| below.contains(&value)) && below.iter().all(|v| (0..10).contains(v))
        );
    }

    #[test]
    fn values_are_read_back_from_their_bytes() {
        for &dtype in Dtype::ALL {
            let data = Data::random(dtype, 1, 3);
            let value = Value::from_bytes(dtype, data.as_bytes());
            assert_eq!((value.dtype(), value.to_bytes().as_slice()), (dtype, data.as_bytes()));
            assert_eq!(value.to_bytes().len(), dtype.size());
            assert_eq!(Value::identity(Op::Sum, dtype).to_f64(), 0.0);
        }
        assert_eq!(Value::identity(Op::Min, Dtype::I8), Value::I8(127));
        assert_eq!(Value::identity(Op::Max, Dtype::U8), Value::U8(0));
        assert_eq!((Value::I8(-128).magnitude(), Value::U8(255).magnitude()), (128, 255));
        assert_eq!(
            (Value::I16(i16::MIN).magnitude(), Value::U16(u16::MAX).magnitude()),
            (1 << 15, 65_535)
        );
        assert_eq!((Value::I8(-128).to_f64(), Value::U8(255).to_f64()), (-128.0, 255.0));
        assert_eq!([Value::I8(-128), Value::U8(255)].map(|v| v.to_string()), ["-128", "255"]);
    }

    #[test]
    #[should_panic(expected = "argmin has no identity")]
    fn an_index_has_no_identity() {
        Value::identity(Op::ArgMin, Dtype::F32);
    }

    #[test]
    fn json_of_special_floats_is_text() {
        let json = |value: Value| serde_json::to_string(&value).unwrap();
        assert_eq!(json(Value::F32(f32::NAN)), "\"NaN\"");
        assert_eq!(json(Value::F64(f64::NEG_INFINITY)), "\"-inf\"");
        assert_eq!(json(Value::F32(0.1)), "0.1");
        assert_eq!(json(Value::U64(u64::MAX)), u64::MAX.to_string());
        assert_eq!((json(Value::I8(-1)), json(Value::U8(255))), ("-1".to_owned(), "255".to_owned()));
    }
}
