//! Arguments of a kernel: numbers, and arrays of the host or of the device.

use std::any::TypeId;
use std::fmt::Debug;

use super::Buffer;

/// A type of array elements and of numbers: plain data that can be printed.
pub trait Element: bytemuck::Pod + Debug {}

impl<T: bytemuck::Pod + Debug> Element for T {}

/// An argument of a kernel: a number; an array of the host, which is copied to the device before the
/// launch and, if mutable, back after it; or a [`Buffer`] of the device. For an array, the kernel
/// receives its address.
#[derive(Debug)]
pub struct Argument<'a>(pub(super) Content<'a>);

#[derive(Debug)]
pub(super) enum Content<'a> {
    Number { bytes: [u8; 16], size: usize },
    Read(&'a [u8], Kind),
    Changed(&'a mut [u8], Kind),
    OnDevice { address: u64, bytes: usize, kind: Kind },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) size: usize,
    shown: fn(&[u8]) -> String,
    /// Converts an element to `f64`; `None` for types that are not floating point.
    value: Option<fn(&[u8]) -> f64>,
}

impl Kind {
    pub(super) fn of<T: Element>() -> Self {
        let shown = |bytes: &[u8]| format!("{:?}", bytemuck::pod_read_unaligned::<T>(bytes));
        let value: Option<fn(&[u8]) -> f64> = match TypeId::of::<T>() {
            id if id == TypeId::of::<f32>() => {
                Some(|bytes| bytemuck::pod_read_unaligned::<f32>(bytes).into())
            }
            id if id == TypeId::of::<f64>() => Some(bytemuck::pod_read_unaligned),
            _ => None,
        };
        Self { size: size_of::<T>(), shown, value }
    }

    pub(super) fn shown(&self, bytes: &[u8], index: usize) -> String {
        (self.shown)(&bytes[index * self.size..(index + 1) * self.size])
    }

    /// Returns the index of the first element in which two arrays differ; floating-point elements within
    /// a relative tolerance count as equal.
    pub(super) fn first_off(&self, one: &[u8], other: &[u8], tolerance: f64) -> Option<usize> {
        if self.size == 0 {
            return None;
        }
        let is_off = |(one, other): (&[u8], &[u8])| {
            one != other
                && self.value.is_none_or(|value| {
                    let [one, other] = [one, other].map(value);
                    let is_close = (one - other).abs() <= tolerance * other.abs();
                    !(is_close || one.is_nan() && other.is_nan())
                })
        };
        one.chunks_exact(self.size).zip(other.chunks_exact(self.size)).position(is_off)
    }
}

macro_rules! numbers {
    ($($ty:ty)*) => {$(
        impl From<$ty> for Argument<'_> {
            fn from(value: $ty) -> Self {
                let (mut bytes, size) = ([0; 16], size_of::<$ty>());
                bytes[..size].copy_from_slice(&value.to_le_bytes());
                Self(Content::Number { bytes, size })
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);

impl<'a, T: Element> From<&'a [T]> for Argument<'a> {
    fn from(array: &'a [T]) -> Self {
        Self(Content::Read(bytemuck::cast_slice(array), Kind::of::<T>()))
    }
}

impl<'a, T: Element> From<&'a mut [T]> for Argument<'a> {
    fn from(array: &'a mut [T]) -> Self {
        Self(Content::Changed(bytemuck::cast_slice_mut(array), Kind::of::<T>()))
    }
}

impl<'a, T: Element> From<&'a Vec<T>> for Argument<'a> {
    fn from(array: &'a Vec<T>) -> Self {
        array.as_slice().into()
    }
}

impl<'a, T: Element> From<&'a mut Vec<T>> for Argument<'a> {
    fn from(array: &'a mut Vec<T>) -> Self {
        array.as_mut_slice().into()
    }
}

impl<'a, T: Element, const N: usize> From<&'a [T; N]> for Argument<'a> {
    fn from(array: &'a [T; N]) -> Self {
        array.as_slice().into()
    }
}

impl<'a, T: Element, const N: usize> From<&'a mut [T; N]> for Argument<'a> {
    fn from(array: &'a mut [T; N]) -> Self {
        array.as_mut_slice().into()
    }
}

impl<'a, T: Element> From<&'a Buffer<T>> for Argument<'a> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        let bytes = buffer.len() * size_of::<T>();
        Self(Content::OnDevice { address: buffer.address(), bytes, kind: Kind::of::<T>() })
    }
}

impl<'a, T: Element> From<&'a mut Buffer<T>> for Argument<'a> {
    fn from(buffer: &'a mut Buffer<T>) -> Self {
        (&*buffer).into()
    }
}
