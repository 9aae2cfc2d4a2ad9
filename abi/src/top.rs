//! The selection of the first k elements in an order, for any k: sizes, device memory, and keys.
//!
//! The *key* of an element is an unsigned integer; elements with larger keys come first. It is computed
//! from the bits of the element and from six numbers, so that kernels need not be compiled for each type
//! and order. Elements of up to 4 bytes have keys of 32 bits, at whose top the bits of the element are;
//! elements of 8 bytes have keys of 64 bits.

use crate::reducer::{CELL_BYTES, OUTPUT_BYTES};

/// Threads of a block of the kernels for any k, except for short rows.
pub const SELECT_BLOCK: u32 = 512;

/// Threads of a block for short rows.
pub const NARROW_BLOCK: u32 = 128;

/// Returns the number of values of a digit, by which a pass over the elements divides them, for blocks
/// of `block` threads: each thread sums up four counters. A block holds as many results in shared
/// memory.
pub const fn digits(block: u32) -> u32 {
    4 * block
}

/// Maximum number of results that a block of [`SELECT_BLOCK`] threads sorts in shared memory; a power of
/// 2.
pub const STAGED: u32 = digits(SELECT_BLOCK);

/// Maximum k for which several blocks sort the results, by counting, for each of them, those that
/// precede it.
pub const RANKED: u32 = 8192;

/// Counters of digits in device memory: one pass uses some, and others are cleared meanwhile.
pub const RINGS: u32 = 3;

/// Words of 8 bytes before the counters of digits: a counter of arrivals and one of departures of 4
/// bytes each, and the numbers of candidates and of results.
pub const SELECT_WORDS: u32 = 4;

/// Bytes of device memory for the blocks that share a row, all zero between launches.
pub const SELECT_BYTES: u64 = ((SELECT_WORDS + RINGS * digits(SELECT_BLOCK)) * CELL_BYTES) as u64;

const _: () = assert!(SELECT_BYTES.is_multiple_of(OUTPUT_BYTES));

/// The six numbers that determine the key of an element: see
/// [`SelectTop`](crate::arguments::SelectTop).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct KeyOrder {
    pub fold: u64,
    pub toggle: u64,
    pub lowest: u64,
    pub nan: u64,
    pub zero: u64,
    pub unit: u64,
}

/// Returns the bits of an element of `bytes` bytes at the top of a key.
const fn at_top(bytes: u32, bits: u64) -> u64 {
    if bytes == 8 { bits } else { bits << (32 - 8 * bytes) }
}

const fn all_bits(bytes: u32) -> u64 {
    at_top(bytes, u64::MAX >> (64 - 8 * bytes))
}

const fn in_key(bytes: u32, value: u64) -> u64 {
    if bytes == 8 { value } else { value & 0xffff_ffff }
}

impl KeyOrder {
    /// Returns the order of integers of `bytes` bytes.
    pub const fn of_integers(bytes: u32, is_signed: bool, is_largest: bool) -> Self {
        let sign = if is_signed { at_top(bytes, 1 << (8 * bytes - 1)) } else { 0 };
        let toggle = if is_largest { sign } else { sign ^ all_bits(bytes) };
        Self { fold: 0, toggle, lowest: 0, nan: u64::MAX, zero: 0, unit: 0 }
    }

    /// Returns the order of floats of `bytes` bytes, whose bits of infinity are given. NaN comes first,
    /// and zeros of both signs have the same key.
    pub const fn of_floats(bytes: u32, infinity: u64, is_largest: bool) -> Self {
        let (sign, all, unit) = (at_top(bytes, 1 << (8 * bytes - 1)), all_bits(bytes), at_top(bytes, 1));
        // Without the sign, larger bits are larger magnitudes. The bits of negative numbers are
        // inverted, so that all are in order; NaN is at both ends of it, before the lowest number and
        // after the highest one. Thus, after a subtraction of the lowest, all NaN are at one end.
        let infinity = at_top(bytes, infinity);
        let (plus, minus) = (sign | infinity, (sign | infinity) ^ all);
        let toggle = if is_largest { sign } else { sign ^ all };
        let (lowest, highest) = if is_largest { (minus, plus) } else { (plus ^ all, minus ^ all) };
        let first_zero = sign.wrapping_sub(unit);
        let nan = in_key(bytes, highest.wrapping_add(unit).wrapping_sub(lowest));
        let zero = in_key(bytes, first_zero.wrapping_sub(lowest));
        Self { fold: all ^ sign, toggle, lowest, nan, zero, unit }
    }
}
