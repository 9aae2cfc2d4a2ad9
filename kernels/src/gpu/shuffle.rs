//! Warp shuffles: a lane reads another lane's register.

use super::{Word, codegen};

/// The member mask that names every lane of a warp.
pub const FULL_WARP: u32 = u32::MAX;

/// Whole-warp shuffles of 4- and 8-byte values; 8 bytes take two instructions.
///
/// # Safety of every method
/// All lanes named in `mask` must execute the same shuffle together, the calling lane among them. A
/// value read from a lane outside `mask` is undefined.
#[allow(clippy::missing_safety_doc)]
pub trait Shuffle: Word {
    /// The value of lane `lane + delta`, or the own one where there is no such lane.
    unsafe fn shuffle_down(self, mask: u32, delta: u32) -> Self;
    /// The value of lane `lane - delta`, or the own one where there is no such lane.
    unsafe fn shuffle_up(self, mask: u32, delta: u32) -> Self;
    /// The value of lane `lane ^ lane_mask`.
    unsafe fn shuffle_xor(self, mask: u32, lane_mask: u32) -> Self;
    /// The value of lane `lane`.
    unsafe fn shuffle_idx(self, mask: u32, lane: u32) -> Self;
}

/// Applies a 32-bit shuffle to all of a value's bits.
trait ShuffleBits: Copy {
    fn each(self, shuffle: impl Fn(u32) -> u32) -> Self;
}

impl ShuffleBits for u32 {
    #[inline(always)]
    fn each(self, shuffle: impl Fn(u32) -> u32) -> Self {
        shuffle(self)
    }
}

impl ShuffleBits for u64 {
    #[inline(always)]
    fn each(self, shuffle: impl Fn(u32) -> u32) -> Self {
        let (low, high) = (shuffle(self as u32), shuffle((self >> 32) as u32));
        u64::from(high) << 32 | u64::from(low)
    }
}

macro_rules! shuffles {
    ($($method:ident: $operand:ident),*) => {
        impl<T: Word<Bits: ShuffleBits>> Shuffle for T {$(
            #[inline(always)]
            unsafe fn $method(self, mask: u32, $operand: u32) -> Self {
                // SAFETY: the caller's contract; the closure runs at once, in the same control flow.
                T::from_bits(self.to_bits().each(|bits| unsafe { codegen::$method(mask, bits, $operand) }))
            }
        )*}
    };
}

shuffles!(shuffle_down: delta, shuffle_up: delta, shuffle_xor: lane_mask, shuffle_idx: lane);
