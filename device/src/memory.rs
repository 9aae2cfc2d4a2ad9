//! 16-byte accesses to global memory, with cache hints for loads, and to shared memory.

use core::arch::asm;

use crate::{Shared, Word};

/// Cache policy of a 16-byte load. One type per hint, because the hint is part of the instruction.
pub trait CacheHint {
    #[doc(hidden)]
    unsafe fn load_4x32(address: *const u32) -> [u32; 4];
    #[doc(hidden)]
    unsafe fn load_2x64(address: *const u64) -> [u64; 2];
    #[doc(hidden)]
    unsafe fn load_4x32_if(address: *const u32, wanted: bool) -> [u32; 4];
}

macro_rules! cache_hints {
    ($($(#[$attr:meta])* $name:ident = $hint:literal;)*) => {$(
        $(#[$attr])*
        pub struct $name;

        impl CacheHint for $name {
            #[inline(always)]
            unsafe fn load_4x32(address: *const u32) -> [u32; 4] {
                let (a, b, c, d);
                // SAFETY: `load16` requires that these 16 bytes are readable and aligned.
                unsafe {
                    asm!(
                        concat!("ld.global", $hint, ".v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}];"),
                        out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg64) address,
                        options(pure, readonly, nostack, preserves_flags),
                    );
                }
                [a, b, c, d]
            }

            #[inline(always)]
            unsafe fn load_2x64(address: *const u64) -> [u64; 2] {
                let (a, b);
                // SAFETY: `load16` requires that these 16 bytes are readable and aligned.
                unsafe {
                    asm!(
                        concat!("ld.global", $hint, ".v2.b64 {{{0}, {1}}}, [{2}];"),
                        out(reg64) a, out(reg64) b, in(reg64) address,
                        options(pure, readonly, nostack, preserves_flags),
                    );
                }
                [a, b]
            }

            #[inline(always)]
            unsafe fn load_4x32_if(address: *const u32, wanted: bool) -> [u32; 4] {
                let (a, b, c, d);
                // SAFETY: bytes are read only if `wanted`; then `load16_if` requires valid ones.
                unsafe {
                    asm!(
                        "{{",
                        ".reg .pred wanted;",
                        "setp.ne.u32 wanted, {5}, 0;",
                        "mov.b32 {0}, 0;",
                        "mov.b32 {1}, 0;",
                        "mov.b32 {2}, 0;",
                        "mov.b32 {3}, 0;",
                        concat!("@wanted ld.global", $hint, ".v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}];"),
                        "}}",
                        // The outputs, written before the address is read, must not be `lateout`.
                        out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d,
                        in(reg64) address, in(reg32) u32::from(wanted),
                        options(pure, readonly, nostack, preserves_flags),
                    );
                }
                [a, b, c, d]
            }
        }
    )*};
}

cache_hints! {
    /// The default: cached in all levels.
    Cached = "";
    /// Data that is read once: not allocated in L1 (`L1::no_allocate`).
    Streaming = ".L1::no_allocate";
    /// Data that L1 evicts first (`L1::evict_first`).
    EvictFirst = ".L1::evict_first";
}

/// L2 eviction policy of a load.
#[derive(Clone, Copy)]
pub struct Eviction(u64);

impl Eviction {
    /// Returns the normal policy (`L2::evict_normal`). Without a policy, lines not allocated in L1 are
    /// the first that L2 evicts.
    #[inline(always)]
    pub fn in_turn() -> Self {
        let policy;
        // SAFETY: the instruction creates a policy value and accesses no memory.
        unsafe {
            asm!(
                "createpolicy.fractional.L2::evict_normal.b64 {}, 1.0;",
                out(reg64) policy,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        Self(policy)
    }
}

/// Element types whose size divides 16 bytes.
pub trait Lanes16: Word {
    /// Array of the elements that 16 bytes hold.
    type Lanes: AsRef<[Self]> + AsMut<[Self]> + Copy;
    /// Length of [`Lanes`](Self::Lanes).
    const LANES: u32 = 16 / size_of::<Self>() as u32;
    /// Returns `value` in every lane.
    fn splat(value: Self) -> Self::Lanes;
    #[doc(hidden)]
    unsafe fn load<H: CacheHint>(address: *const Self) -> Self::Lanes;
    #[doc(hidden)]
    unsafe fn store(address: *mut Self, lanes: Self::Lanes);
    #[doc(hidden)]
    unsafe fn load_shared(address: u32) -> Self::Lanes;
}

macro_rules! lanes {
    ($load:ident, $store:ident, $load_shared:ident, $bits:ty, $lanes:literal: $($ty:ty)*) => {$(
        impl Lanes16 for $ty {
            type Lanes = [$ty; $lanes];
            #[inline(always)]
            fn splat(value: Self) -> Self::Lanes {
                [value; $lanes]
            }
            #[inline(always)]
            unsafe fn load<H: CacheHint>(address: *const Self) -> Self::Lanes {
                // SAFETY: `load16` requires that these 16 bytes are readable and aligned.
                unsafe { H::$load(address.cast::<$bits>()) }.map(<$ty as Word>::from_bits)
            }
            #[inline(always)]
            unsafe fn store(address: *mut Self, lanes: Self::Lanes) {
                // SAFETY: `store16` requires that these 16 bytes are writable and aligned.
                unsafe { $store(address.cast::<$bits>(), lanes.map(<$ty as Word>::to_bits)) }
            }
            #[inline(always)]
            unsafe fn load_shared(address: u32) -> Self::Lanes {
                // SAFETY: `Shared::get16` requires that these 16 bytes are written and aligned.
                unsafe { $load_shared(address) }.map(<$ty as Word>::from_bits)
            }
        }
    )*};
}

lanes!(load_4x32, store_4x32, shared_4x32, u32, 4: u32 i32 f32);
lanes!(load_2x64, store_2x64, shared_2x64, u64, 2: u64 i64 f64);

#[inline(always)]
unsafe fn store_4x32(address: *mut u32, [a, b, c, d]: [u32; 4]) {
    // SAFETY: `store16` requires that these 16 bytes are writable and aligned.
    unsafe {
        asm!(
            "st.global.v4.b32 [{0}], {{{1}, {2}, {3}, {4}}};",
            in(reg64) address, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
            options(nostack, preserves_flags),
        );
    }
}

#[inline(always)]
unsafe fn store_2x64(address: *mut u64, [a, b]: [u64; 2]) {
    // SAFETY: `store16` requires that these 16 bytes are writable and aligned.
    unsafe {
        asm!(
            "st.global.v2.b64 [{0}], {{{1}, {2}}};",
            in(reg64) address, in(reg64) a, in(reg64) b,
            options(nostack, preserves_flags),
        );
    }
}

#[inline(always)]
unsafe fn shared_4x32(address: u32) -> [u32; 4] {
    let (a, b, c, d);
    // `readonly` but not `pure`: the value changes at every barrier.
    // SAFETY: `Shared::get16` requires that these 16 bytes are written and aligned.
    unsafe {
        asm!(
            "ld.shared.v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}];",
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) address,
            options(readonly, nostack, preserves_flags),
        );
    }
    [a, b, c, d]
}

#[inline(always)]
unsafe fn shared_2x64(address: u32) -> [u64; 2] {
    let (a, b);
    // SAFETY: `Shared::get16` requires that these 16 bytes are written and aligned.
    unsafe {
        asm!(
            "ld.shared.v2.b64 {{{0}, {1}}}, [{2}];",
            out(reg64) a, out(reg64) b, in(reg32) address,
            options(readonly, nostack, preserves_flags),
        );
    }
    [a, b]
}

/// Loads 16 bytes from global memory in one instruction.
///
/// # Safety
/// `address` must point to 16 readable bytes of global memory and be 16-byte aligned; no thread may
/// write them while this thread may still read them.
#[inline(always)]
pub unsafe fn load16<T: Lanes16, H: CacheHint>(address: *const T) -> T::Lanes {
    // SAFETY: the callee's conditions are those of this function.
    unsafe { T::load::<H>(address) }
}

/// Stores 16 bytes to global memory in one instruction.
///
/// # Safety
/// `address` must point to 16 writable bytes of global memory and be 16-byte aligned; no other thread
/// may access them meanwhile.
#[inline(always)]
pub unsafe fn store16<T: Lanes16>(address: *mut T, lanes: T::Lanes) {
    // SAFETY: the callee's conditions are those of this function.
    unsafe { T::store(address, lanes) }
}

/// Loads 16 bytes of global memory if `wanted`, else returns zeros. The load is predicated, without a
/// branch, so that several such loads are in flight at once.
///
/// # Safety
/// If `wanted`, same as [`load16`].
#[inline(always)]
pub unsafe fn load16_if<H: CacheHint>(address: *const u32, wanted: bool) -> [u32; 4] {
    // SAFETY: the callee's conditions are those of this function.
    unsafe { H::load_4x32_if(address, wanted) }
}

/// Loads as [`load16_if`] does, with an L2 eviction policy; does not allocate in L1.
///
/// # Safety
/// If `wanted`, same as [`load16`].
#[inline(always)]
pub unsafe fn load16_evicted_if(address: *const u32, wanted: bool, eviction: Eviction) -> [u32; 4] {
    let (a, b, c, d);
    // SAFETY: bytes are read only if `wanted`; then they are valid, as the caller guarantees.
    unsafe {
        asm!(
            "{{",
            ".reg .pred wanted;",
            "setp.ne.u32 wanted, {5}, 0;",
            "mov.b32 {0}, 0;",
            "mov.b32 {1}, 0;",
            "mov.b32 {2}, 0;",
            "mov.b32 {3}, 0;",
            "@wanted ld.global.L1::no_allocate.L2::cache_hint.v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}], {6};",
            "}}",
            // The outputs, written before the address is read, must not be `lateout`.
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d,
            in(reg64) address, in(reg32) u32::from(wanted), in(reg64) eviction.0,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    [a, b, c, d]
}

impl<T: Lanes16> Shared<T> {
    /// Reads the elements from index `group * LANES` on, 16 bytes in one instruction. Neighbouring lanes
    /// that read neighbouring groups cause no bank conflicts.
    ///
    /// # Safety
    /// The group must be inside a 16-byte aligned array, such as a
    /// [`shared_array!`](crate::shared_array), and must have been written. A barrier must separate this
    /// read from other threads' writes.
    #[inline(always)]
    pub unsafe fn get16(self, group: u32) -> T::Lanes {
        // SAFETY: the group has been written, in a 16-byte aligned array, as the caller guarantees.
        unsafe { T::load_shared(self.at(group * T::LANES).address()) }
    }
}

impl Shared<u32> {
    /// Writes four words from index `4 * group` on, 16 bytes in one instruction. Neighbouring lanes that
    /// write neighbouring groups cause no bank conflicts.
    ///
    /// # Safety
    /// The group must be inside a 16-byte aligned array. A barrier must separate this write from another
    /// thread's access.
    #[inline(always)]
    pub unsafe fn set16(self, group: u32, [a, b, c, d]: [u32; 4]) {
        // SAFETY: the group is inside a 16-byte aligned array, as the caller guarantees.
        unsafe {
            asm!(
                "st.shared.v4.b32 [{0}], {{{1}, {2}, {3}, {4}}};",
                in(reg32) self.at(group * 4).address(),
                in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
                options(nostack, preserves_flags),
            );
        }
    }
}
