//! rust-cuda's `rustc_codegen_nvvm`: LLVM 7 in front of libNVVM.

use core::arch::asm;

use super::bar_warp_sync;

#[cfg(warpfold_sm_90)]
pub(crate) mod cluster {
    use super::super::barrier;

    unsafe extern "C" {
        /// Arrives or waits at the cluster barrier, according to the constant `part`. libNVVM knows this
        /// intrinsic, but LLVM 7 takes it for an ordinary function, which it may duplicate into both
        /// sides of a branch.
        #[link_name = "llvm.nvvm.cluster.barrier"]
        fn cluster_barrier(part: u32);
    }

    const ARRIVE: u32 = 0;
    const WAIT: u32 = 1;
    const RELAXED: u32 = 1 << 4;

    macro_rules! cluster_barriers {
        ($($name:ident = $part:expr;)*) => {$(
            /// # Safety
            /// Every thread of the cluster that has not exited alternates between arrival and wait.
            #[inline(always)]
            pub(crate) unsafe fn $name() {
                // LLVM 7 does not duplicate a basic block with an instruction that it knows to be
                // convergent. The block barrier serves only this purpose, and costs little next to the
                // cluster barrier. (A warp barrier with a constant mask would also do, but the mask
                // names lanes that the last warp may lack. One with a computed mask did not prevent
                // duplication.)
                // SAFETY: all threads of the cluster, and so of the block, reach both barriers.
                unsafe {
                    barrier();
                    cluster_barrier($part);
                }
            }
        )*};
    }

    cluster_barriers! {
        cluster_arrive = ARRIVE;
        cluster_arrive_relaxed = ARRIVE | RELAXED;
        cluster_wait = WAIT;
    }
}

macro_rules! warp_reductions {
    ($($name:ident = $instruction:literal;)*) => {$(
        /// # Safety
        /// Every lane named in `mask` executes it together, the calling lane among them.
        #[inline(always)]
        pub(crate) unsafe fn $name(mask: u32, value: u32) -> u32 {
            let result;
            // LLVM 7 does not treat asm as convergent. The warp barrier is to prevent duplication, but
            // may not suffice: one with a computed mask did not for the cluster barrier.
            // SAFETY: all lanes in `mask` execute it together, as the caller guarantees.
            unsafe {
                bar_warp_sync(mask);
                asm!(
                    concat!("redux.sync.", $instruction, " {0}, {1}, {2};"),
                    out(reg32) result, in(reg32) value, in(reg32) mask,
                    options(nomem, nostack, preserves_flags),
                );
            }
            result
        }
    )*};
}

// In assembly, because the instruction is newer than LLVM 7.
warp_reductions! {
    redux_add = "add.u32";
    redux_min = "min.s32";
    redux_max = "max.s32";
    redux_umin = "min.u32";
    redux_umax = "max.u32";
    redux_and = "and.b32";
    redux_or = "or.b32";
    redux_xor = "xor.b32";
}

/// Declares kernels. Under rust-cuda the calling crate must depend on `cuda_std`.
#[macro_export]
macro_rules! kernel {
    ($($(#[$attr:meta])* pub fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        $(#[$attr])*
        #[cuda_std::kernel]
        pub unsafe fn $name($($arg: $ty),*) $body
    )*};
}

/// Declares a named shared array: a static, because NVVM IR has no module-level asm. It keeps its name,
/// because [`shared_address!`] uses it.
#[doc(hidden)]
#[macro_export]
macro_rules! shared_static {
    ($name:ident, $bytes:expr) => {
        #[cuda_std::address_space(shared)]
        #[allow(non_upper_case_globals)]
        // SAFETY: a crate of kernels defines each symbol once; duplicates do not assemble.
        #[unsafe(no_mangle)]
        static mut $name: [core::mem::MaybeUninit<$crate::Bytes16>; (($bytes) as usize).div_ceil(16)] =
            [const { core::mem::MaybeUninit::uninit() }; (($bytes) as usize).div_ceil(16)];
    };
}

/// Declares the block's dynamic shared memory: an array of length 0, which has no size in the PTX. (If
/// it had one, as in cuda_std, ptxas would let the next static array overlap it.)
#[doc(hidden)]
#[macro_export]
macro_rules! dynamic_shared_static {
    ($name:ident) => {
        unsafe extern "C" {
            // `cuda_std::address_space` expands to this attribute, but rejects external statics.
            #[nvvm_internal::addrspace(3)]
            #[allow(non_upper_case_globals, improper_ctypes)]
            static mut $name: [u128; 0];
        }
    };
}

/// Returns the address of a shared array in the shared window.
///
/// The instruction names the array: converting it to a generic address and back would fail, because
/// LLVM drops one of the two conversions. The pointer operand, used only in a PTX comment, keeps the
/// array from being removed.
#[doc(hidden)]
#[macro_export]
macro_rules! shared_address {
    ($name:ident) => {{
        let address: u32;
        // SAFETY: the instruction takes the address of an array that was declared under this name.
        unsafe {
            core::arch::asm!(
                concat!("mov.u32 {0}, ", stringify!($name), "; // {1}"),
                out(reg32) address,
                in(reg64) &raw mut $name,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        address
    }};
}
