//! rust-cuda's rustc_codegen_nvvm: LLVM 7 in front of libNVVM.

use core::arch::asm;

use super::bar_warp_sync;

/// The halves of the cluster's barrier.
#[cfg(warpfold_sm_90)]
pub(crate) mod cluster {
    use super::super::barrier;

    unsafe extern "C" {
        /// All halves of the cluster's barrier, told apart by a constant. libNVVM knows it, LLVM 7 does
        /// not, and so takes it for an ordinary function: one that it may copy into both sides of a
        /// branch.
        #[link_name = "llvm.nvvm.cluster.barrier"]
        fn cluster_barrier(part: u32);
    }

    const ARRIVE: u32 = 0;
    const WAIT: u32 = 1;
    const RELAXED: u32 = 1 << 4;

    macro_rules! cluster_barriers {
        ($($name:ident = $part:expr;)*) => {$(
            /// # Safety
            /// Every thread of the cluster that has not exited arrives once and then waits once, in
            /// turns.
            #[inline(always)]
            pub(crate) unsafe fn $name() {
                // A block of code with a convergent instruction is not copied. The block's barrier is
                // one, LLVM 7 knows it, and next to the cluster's it costs little; it stands beside each
                // half for that alone. (A warp's barrier did it with a constant mask, which names lanes
                // that the last warp may not have, and did not do it with one that is computed.)
                // SAFETY: the caller's contract; all threads of the block come here, as those of the
                // cluster do.
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
            // LLVM 7 takes asm for what one thread does by itself. The warp's barrier, which it knows,
            // stands beside it against copies; as the cluster's barrier shows, that is no proof where
            // the mask is computed.
            // SAFETY: the caller's contract.
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

// LLVM 7 is older than the instruction.
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

/// Declares device entry points. Under rust-cuda the crate that calls it depends on `cuda_std`.
#[macro_export]
macro_rules! kernel {
    ($($(#[$attr:meta])* pub fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        $(#[$attr])*
        #[cuda_std::kernel]
        pub unsafe fn $name($($arg: $ty),*) $body
    )*};
}

/// Declares a shared array by name. Module-level asm is not part of NVVM IR, so it is a static; its name
/// is kept, because [`shared_address!`] writes it.
#[doc(hidden)]
#[macro_export]
macro_rules! shared_static {
    ($name:ident, $bytes:expr) => {
        #[cuda_std::address_space(shared)]
        #[allow(non_upper_case_globals)]
        // SAFETY: the crate that declares shared arrays gives each symbol once: two would not assemble.
        #[unsafe(no_mangle)]
        static mut $name: [core::mem::MaybeUninit<$crate::Bytes16>; (($bytes) as usize).div_ceil(16)] =
            [const { core::mem::MaybeUninit::uninit() }; (($bytes) as usize).div_ceil(16)];
    };
}

/// Declares the block's dynamic shared memory by name: an array of no elements, which becomes one
/// without a size. (With a size, as cuda_std's has, ptxas ignores that it is external and lays the
/// launch's memory over whatever static array follows.)
#[doc(hidden)]
#[macro_export]
macro_rules! dynamic_shared_static {
    ($name:ident) => {
        unsafe extern "C" {
            // cuda_std's attribute does not take an external static; this is what it stands for.
            #[nvvm_internal::addrspace(3)]
            #[allow(non_upper_case_globals, improper_ctypes)]
            static mut $name: [u128; 0];
        }
    };
}

/// Address of a shared array in the shared window.
///
/// The instruction names the array itself, so that the address never was a generic one: converted to
/// generic and back, it comes out of LLVM with one of the two conversions missing. The pointer in the
/// comment keeps the array from being taken for unused.
#[doc(hidden)]
#[macro_export]
macro_rules! shared_address {
    ($name:ident) => {{
        let address: u32;
        // SAFETY: takes the address of an array that was declared under this name.
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
