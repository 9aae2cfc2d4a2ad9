//! Booleans in device memory.

use std::{cmp::Ordering, fmt};

use bytemuck::{Pod, Zeroable};

use crate::{Bits, Element, element::sealed, input::filtered::NextAfter, names::Dtype};

/// A Boolean in device memory: a byte that is false if it is 0, and true otherwise.
///
/// `bool` is not an element type, because it allows only the bytes 0 and 1, and device memory may have
/// been written by other code. Every byte is a valid `Bool`.
///
/// ```
/// use warpfold::{Bool, Device, Reducer, Selection, op};
///
/// let device = Device::open(Selection::Sim)?;
/// let reducer = Reducer::new(&device)?;
/// let values = device.upload(Bool::of(&[false, true, true]))?;
/// assert_eq!((reducer.reduce(op::CountNonZero, &values)?, reducer.sum(&values)?), (2, 2));
/// // The first true value.
/// let first = reducer.reduce(op::ArgMax, &values)?.expect("there are elements");
/// assert_eq!((first.index, first.value), (1, Bool::TRUE));
/// // The parity of the number of true values.
/// assert!(!bool::from(reducer.reduce(op::BitXor, &values)?));
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// It has every operation of `u8` except [`WrappingSum`](crate::op::WrappingSum), by the same kernels.
/// [`of`](Self::of), NumPy, PyTorch and DLPack write only the bytes 0 and 1. Other bytes count as true
/// in counts, minima and maxima; indices, sums, intervals and bitwise operations use the bytes, as for
/// `u8`. A Boolean tensor from [DLPack](crate::dlpack) may become a buffer of this type, which is
/// exported as a tensor of bytes.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Bool(u8);

impl Bool {
    /// The truth value `false`.
    pub const FALSE: Self = Self(0);
    /// The truth value `true`.
    pub const TRUE: Self = Self(1);

    /// Returns the values in the representation of device memory.
    pub fn of(values: &[bool]) -> &[Self] {
        bytemuck::cast_slice(values)
    }

    /// Returns the value.
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

// SAFETY: the type is a transparent `u8`, for which 0 is valid.
unsafe impl Zeroable for Bool {}

// SAFETY: the type is a transparent `u8`, for which any bits are valid.
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

impl NextAfter for Bool {
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
    /// The element type whose kernels are used.
    const DTYPE: Dtype = Dtype::U8;
    const TO_F64: fn(Self) -> f64 = |value| value.0.into();
    const ADD: fn(Self, Self) -> Self = |one, other| Self::from(one.get() || other.get());
}
