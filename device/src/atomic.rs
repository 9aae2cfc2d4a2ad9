//! Atomics on global memory, with explicit order and scope.
//!
//! They are written in PTX, because neither code generator supports `core::sync::atomic`: rustc's NVPTX
//! target drops the ordering of read-modify-writes (rust-lang/rust#136480), and `rustc_codegen_nvvm` has
//! none.

use core::arch::asm;

/// Memory order of an atomic. One type per order, because the order is part of the instruction.
pub trait Order {
    #[doc(hidden)]
    const ACQ_REL: bool;
}

/// Relaxed order: other accesses are not ordered.
pub struct Relaxed;
/// Acquire and release order: threads that acquire the new value observe this thread's earlier accesses,
/// and this thread's later accesses observe the accesses that were released with the value read.
pub struct AcqRel;

impl Order for Relaxed {
    const ACQ_REL: bool = false;
}
impl Order for AcqRel {
    const ACQ_REL: bool = true;
}

/// Scope of an atomic: the threads among which it is atomic.
pub trait Scope {
    #[doc(hidden)]
    const WIDTH: Width;
}

#[doc(hidden)]
pub enum Width {
    Block,
    Device,
    System,
}

/// The threads of the block.
pub struct Block;
/// The threads of the device.
pub struct Device;
/// All threads of the system, including the host's.
pub struct System;

impl Scope for Block {
    const WIDTH: Width = Width::Block;
}
impl Scope for Device {
    const WIDTH: Width = Width::Device;
}
impl Scope for System {
    const WIDTH: Width = Width::System;
}

/// Expands to one `atom` instruction, which the order and the scope select at compile time.
macro_rules! atom {
    ($order:ty, $scope:ty, $class:ident, $op:literal, $address:expr $(, $operand:expr)*) => {{
        let old;
        // SAFETY: `address` points to live global memory of this type, as the caller guarantees.
        unsafe {
            match (<$order>::ACQ_REL, <$scope>::WIDTH) {
                (false, Width::Block) => atom!(@ ".relaxed.cta", $class, $op, old, $address $(, $operand)*),
                (false, Width::Device) => atom!(@ ".relaxed.gpu", $class, $op, old, $address $(, $operand)*),
                (false, Width::System) => atom!(@ ".relaxed.sys", $class, $op, old, $address $(, $operand)*),
                (true, Width::Block) => atom!(@ ".acq_rel.cta", $class, $op, old, $address $(, $operand)*),
                (true, Width::Device) => atom!(@ ".acq_rel.gpu", $class, $op, old, $address $(, $operand)*),
                (true, Width::System) => atom!(@ ".acq_rel.sys", $class, $op, old, $address $(, $operand)*),
            }
        }
        old
    }};
    (@ $how:literal, $class:ident, $op:literal, $old:ident, $address:expr, $value:expr) => {
        asm!(
            concat!("atom", $how, ".global.", $op, " {0}, [{1}], {2};"),
            out($class) $old, in(reg64) $address, in($class) $value,
            options(nostack, preserves_flags),
        )
    };
    (@ $how:literal, $class:ident, $op:literal, $old:ident, $address:expr, $expected:expr, $value:expr) => {
        asm!(
            concat!("atom", $how, ".global.", $op, " {0}, [{1}], {2}, {3};"),
            out($class) $old, in(reg64) $address, in($class) $expected, in($class) $value,
            options(nostack, preserves_flags),
        )
    };
}

/// Element types with atomic addition, minimum and maximum. Each method returns the previous value.
///
/// # Safety of every method
/// `address` must point to live, aligned global memory that other threads access only atomically.
#[allow(clippy::missing_safety_doc)]
pub trait Atomic: Copy {
    /// Adds `value`; integers wrap around, floats round to nearest.
    unsafe fn fetch_add<O: Order, S: Scope>(address: *mut Self, value: Self) -> Self;
    /// Stores the smaller of both values; NaN if either is NaN.
    unsafe fn fetch_min<O: Order, S: Scope>(address: *mut Self, value: Self) -> Self;
    /// Stores the larger of both values; NaN if either is NaN.
    unsafe fn fetch_max<O: Order, S: Scope>(address: *mut Self, value: Self) -> Self;
}

macro_rules! integers {
    ($($ty:ty, $class:ident: $add:literal, $min:literal, $max:literal;)*) => {$(
        impl Atomic for $ty {
            #[inline(always)]
            unsafe fn fetch_add<O: Order, S: Scope>(address: *mut Self, value: Self) -> Self {
                atom!(O, S, $class, $add, address, value)
            }
            #[inline(always)]
            unsafe fn fetch_min<O: Order, S: Scope>(address: *mut Self, value: Self) -> Self {
                atom!(O, S, $class, $min, address, value)
            }
            #[inline(always)]
            unsafe fn fetch_max<O: Order, S: Scope>(address: *mut Self, value: Self) -> Self {
                atom!(O, S, $class, $max, address, value)
            }
        }
    )*};
}

// In two's complement `add.u64` also adds signed integers; there is no `add.s64`.
integers! {
    u32, reg32: "add.u32", "min.u32", "max.u32";
    i32, reg32: "add.s32", "min.s32", "max.s32";
    u64, reg64: "add.u64", "min.u64", "max.u64";
    i64, reg64: "add.u64", "min.s64", "max.s64";
}

/// PTX has no atomic minimum or maximum of floats, so these methods loop over compare-and-swap.
macro_rules! floats {
    ($($ty:ty, $bits:ty, $class:ident: $add:literal, $cas:literal, $min:path, $max:path;)*) => {$(
        impl Atomic for $ty {
            #[inline(always)]
            unsafe fn fetch_add<O: Order, S: Scope>(address: *mut Self, value: Self) -> Self {
                atom!(O, S, $class, $add, address, value)
            }
            #[inline(always)]
            unsafe fn fetch_min<O: Order, S: Scope>(address: *mut Self, value: Self) -> Self {
                floats!(@update $ty, $bits, O, S, $class, $cas, address, |old| $min(old, value))
            }
            #[inline(always)]
            unsafe fn fetch_max<O: Order, S: Scope>(address: *mut Self, value: Self) -> Self {
                floats!(@update $ty, $bits, O, S, $class, $cas, address, |old| $max(old, value))
            }
        }
    )*};
    (@update $ty:ty, $bits:ty, $order:ty, $scope:ty, $class:ident, $cas:literal, $address:ident,
     |$old:ident| $new:expr) => {{
        // SAFETY: the caller guarantees a valid address. Volatile, because other threads write to it.
        let mut seen: $bits = unsafe { $address.cast::<$bits>().read_volatile() };
        loop {
            let $old = <$ty>::from_bits(seen);
            let new: $bits = <$ty>::to_bits($new);
            let before: $bits = atom!($order, $scope, $class, $cas, $address, seen, new);
            if before == seen {
                break <$ty>::from_bits(before);
            }
            seen = before;
        }
    }};
}

floats! {
    f32, u32, reg32: "add.f32", "cas.b32", crate::op::min_nan_f32, crate::op::max_nan_f32;
    f64, u64, reg64: "add.f64", "cas.b64", crate::op::min_nan_f64, crate::op::max_nan_f64;
}

/// Increments the value, or resets it to 0 if it is `last` or more; returns the previous value. A
/// counter of blocks thus resets itself for the next launch.
///
/// # Safety
/// `address` must point to live, aligned global memory that other threads access only atomically.
#[inline(always)]
pub unsafe fn fetch_inc<O: Order, S: Scope>(address: *mut u32, last: u32) -> u32 {
    atom!(O, S, reg32, "inc.u32", address, last)
}

/// Loads a counter with acquire order: accesses that other blocks released by changing it are visible
/// afterwards.
///
/// # Safety
/// `address` must point to live, aligned global memory that other threads write only atomically.
#[inline(always)]
pub unsafe fn load_acquire(address: *const u32) -> u32 {
    let value;
    // SAFETY: `address` points to live, aligned global memory, as the caller guarantees.
    unsafe {
        asm!(
            "ld.acquire.gpu.global.u32 {0}, [{1}];",
            out(reg32) value, in(reg64) address,
            options(nostack, preserves_flags),
        );
    }
    value
}

/// Loads 8 bytes that another block writes with [`store_relaxed`]; does not order other accesses.
///
/// # Safety
/// `address` must point to live, aligned global memory that other threads access only atomically.
#[inline(always)]
pub unsafe fn load_relaxed(address: *const u64) -> u64 {
    let value;
    // SAFETY: `address` points to live, aligned global memory, as the caller guarantees.
    unsafe {
        asm!(
            "ld.relaxed.gpu.global.b64 {0}, [{1}];",
            out(reg64) value, in(reg64) address,
            options(nostack, preserves_flags),
        );
    }
    value
}

/// Stores 8 bytes at once, for another block's [`load_relaxed`]; does not order other accesses.
///
/// # Safety
/// Same as [`load_relaxed`].
#[inline(always)]
pub unsafe fn store_relaxed(address: *mut u64, value: u64) {
    // SAFETY: `address` points to live, aligned global memory, as the caller guarantees.
    unsafe {
        asm!(
            "st.relaxed.gpu.global.b64 [{0}], {1};",
            in(reg64) address, in(reg64) value,
            options(nostack, preserves_flags),
        );
    }
}
