//! Truth values in device memory.

use std::{cmp::Ordering, fmt};

use bytemuck::{Pod, Zeroable};

use crate::{Bits, Element, element::sealed, input::filtered::Neighbours, names::Dtype};

/// A truth value in device memory: a byte, which is false if it is 0 and true if it is any other.
///
/// `bool` is no type of elements, because only the bytes 0 and 1 are one, and device memory may have
/// been written by others. Of this type every byte is a value, so that whatever lies there may be read.
///
/// ```
/// use warpfold::{Bool, Device, Reducer, Selection, op};
///
/// let device = Device::open(Selection::Sim)?;
/// let reducer = Reducer::new(&device)?;
/// let values = device.upload(Bool::of(&[false, true, true]))?;
/// assert_eq!((reducer.reduce(op::CountNonZero, &values)?, reducer.sum(&values)?), (2, 2));
/// // The first one that is true.
/// let first = reducer.reduce(op::ArgMax, &values)?.expect("there are elements");
/// assert_eq!((first.index, first.value), (1, Bool::TRUE));
/// // Whether an odd number of them is true.
/// assert!(!bool::from(reducer.reduce(op::BitXor, &values)?));
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// It has every operation of `u8`, by the same kernels, but for
/// [`WrappingSum`](crate::op::WrappingSum). What [`of`](Self::of) gives, NumPy, PyTorch and DLPack
/// have is bytes of 0 and 1. Other bytes count as true in counts, minima and maxima; places, sums,
/// intervals and bits are those of the bytes, as of `u8`. A tensor of truth values may be taken from
/// [DLPack](crate::dlpack) as a buffer of these; one goes out as bytes.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Bool(u8);

impl Bool {
    /// The truth value `false`.
    pub const FALSE: Self = Self(0);
    /// The truth value `true`.
    pub const TRUE: Self = Self(1);

    /// The same values, as they lie in device memory.
    pub fn of(values: &[bool]) -> &[Self] {
        bytemuck::cast_slice(values)
    }

    /// Whether it is true.
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

// SAFETY: it is a byte, of which 0 is a value.
unsafe impl Zeroable for Bool {}

// SAFETY: it is a byte, of which any bits are a value: none is ever taken for a `bool`.
unsafe impl Pod for Bool {}

impl fmt::Debug for Bool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        Self(value.into())
    }
}

impl From<Bool> for bool {
    fn from(value: Bool) -> Self {
        value.get()
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Bool {}

impl PartialOrd for Bool {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.get().cmp(&other.get()))
    }
}

impl Element for Bool {
    type Sum = u64;
}

impl Bits for Bool {}

impl Neighbours for Bool {
    const LEAST: Self = Self::FALSE;
    const GREATEST: Self = Self(u8::MAX);

    fn above(element: Self) -> Option<Self> {
        (!element.get()).then_some(Self::TRUE)
    }

    fn below(element: Self) -> Option<Self> {
        element.get().then_some(Self::FALSE)
    }
}

impl sealed::Element for Bool {
    type Magnitudes = u64;
    /// The type of the kernels that it has.
    const DTYPE: Dtype = Dtype::U8;
    const TO_F64: fn(Self) -> f64 = |value| value.0.into();
    const ADD: fn(Self, Self) -> Self = |one, other| Self::from(one.get() || other.get());
}
