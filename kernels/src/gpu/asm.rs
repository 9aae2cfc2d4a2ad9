//! What is written in PTX, for both code generators.

use core::arch::asm;

/// Bits that `ld.shared` and `st.shared` move.
pub trait SharedBits: Copy {
    /// Reads at an offset of the shared window.
    unsafe fn load(address: u32) -> Self;
    /// Writes at an offset of the shared window.
    unsafe fn store(self, address: u32);
    /// Reads at an offset of the cluster's shared window.
    unsafe fn load_cluster(address: u32) -> Self;
    /// Writes at an offset of the cluster's shared window.
    unsafe fn store_cluster(self, address: u32);
}

macro_rules! shared_bits {
    ($($ty:ty: $class:ident, $suffix:literal;)*) => {$(
        impl SharedBits for $ty {
            shared_bits!(@access load, store: $class, ".shared.", $suffix);
            shared_bits!(@access load_cluster, store_cluster: $class, ".shared::cluster.", $suffix);
        }
    )*};
    (@access $load:ident, $store:ident: $class:ident, $space:literal, $suffix:literal) => {
        #[inline(always)]
        unsafe fn $load(address: u32) -> Self {
            let value;
            // `readonly` but not `pure`: the value changes at every barrier.
            // SAFETY: the caller's contract (`get` of `Shared` and `Remote`).
            unsafe {
                asm!(
                    concat!("ld", $space, $suffix, " {0}, [{1}];"),
                    out($class) value, in(reg32) address,
                    options(readonly, nostack, preserves_flags),
                );
            }
            value
        }

        #[inline(always)]
        unsafe fn $store(self, address: u32) {
            // SAFETY: the caller's contract (`set` of `Shared` and `Remote`).
            unsafe {
                asm!(
                    concat!("st", $space, $suffix, " [{0}], {1};"),
                    in(reg32) address, in($class) self,
                    options(nostack, preserves_flags),
                );
            }
        }
    };
}

shared_bits! {
    u32: reg32, "b32";
    u64: reg64, "b64";
}

/// `__threadfence()`: what this thread wrote before is seen by every thread of the device before what
/// it writes after.
#[inline(always)]
pub fn fence_device() {
    // SAFETY: orders memory accesses and does nothing else.
    unsafe { asm!("fence.acq_rel.gpu;", options(nostack, preserves_flags)) }
}

/// `cudaTriggerProgrammaticLaunchCompletion()`: the next launch of the stream may start, if it was made to
/// overlap with this one. Does nothing before compute capability 9.0.
#[inline(always)]
pub fn launch_dependents() {
    #[cfg(any(target_feature = "sm_90", not(target_feature = "sm_80")))]
    // SAFETY: it only lets other kernels run, which see to their own dependencies.
    unsafe {
        asm!("griddepcontrol.launch_dependents;", options(nostack, preserves_flags));
    }
}

/// `cudaGridDependencySynchronize()`: waits until the launches before this one in the stream are over, and
/// sees what they have written. Returns at once in a launch that was not made to overlap with them. Does
/// nothing before compute capability 9.0, where there are no others.
#[inline(always)]
pub fn wait_grid_dependencies() {
    #[cfg(any(target_feature = "sm_90", not(target_feature = "sm_80")))]
    // SAFETY: it waits and does nothing else.
    unsafe {
        asm!("griddepcontrol.wait;", options(nostack, preserves_flags));
    }
}

macro_rules! nan_extremes {
    ($($(#[$attr:meta])* $name:ident = $instruction:literal;)*) => {$(
        $(#[$attr])*
        #[inline(always)]
        pub fn $name(a: f32, b: f32) -> f32 {
            let value;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(
                    concat!($instruction, " {0}, {1}, {2};"),
                    out(reg32) value, in(reg32) a, in(reg32) b,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            value
        }
    )*};
}

nan_extremes! {
    /// The smaller of two numbers, NaN if either is NaN; -0 is smaller than +0. One instruction
    /// from sm_80 on.
    min_nan_f32 = "min.NaN.f32";
    /// The larger of two numbers, NaN if either is NaN; +0 is larger than -0. One instruction from
    /// sm_80 on.
    max_nan_f32 = "max.NaN.f32";
}

/// PTX has no NaN-propagating minimum of doubles: the plain one drops a NaN, which is put back.
macro_rules! nan_extremes_f64 {
    ($($(#[$attr:meta])* $name:ident = $instruction:literal;)*) => {$(
        $(#[$attr])*
        #[inline(always)]
        pub fn $name(a: f64, b: f64) -> f64 {
            let value: f64;
            // SAFETY: arithmetic on registers.
            unsafe {
                asm!(
                    concat!($instruction, " {0}, {1}, {2};"),
                    out(reg64) value, in(reg64) a, in(reg64) b,
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
            if a.is_nan() || b.is_nan() { f64::NAN } else { value }
        }
    )*};
}

nan_extremes_f64! {
    /// The smaller of two numbers, NaN if either is NaN; -0 is smaller than +0.
    min_nan_f64 = "min.f64";
    /// The larger of two numbers, NaN if either is NaN; +0 is larger than -0.
    max_nan_f64 = "max.f64";
}
