//! The stock compiler's NVPTX target: intrinsics that LLVM 22 knows and LLVM 7 does not.

unsafe extern "C" {
    #[link_name = "llvm.nvvm.redux.sync.add"]
    fn redux_sync_add(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.min"]
    fn redux_sync_min(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.max"]
    fn redux_sync_max(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umin"]
    fn redux_sync_umin(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umax"]
    fn redux_sync_umax(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.and"]
    fn redux_sync_and(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.or"]
    fn redux_sync_or(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.xor"]
    fn redux_sync_xor(value: u32, mask: u32) -> u32;
}

#[cfg(warpfold_sm_90)]
pub(crate) mod cluster {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.barrier.cluster.arrive"]
        fn barrier_cluster_arrive();
        #[link_name = "llvm.nvvm.barrier.cluster.arrive.relaxed"]
        fn barrier_cluster_arrive_relaxed();
        #[link_name = "llvm.nvvm.barrier.cluster.wait"]
        fn barrier_cluster_wait();
    }

    macro_rules! cluster_barriers {
        ($($name:ident = $intrinsic:ident;)*) => {$(
            /// # Safety
            /// Every thread of the cluster that has not exited alternates between arrival and wait.
            #[inline(always)]
            pub(crate) unsafe fn $name() {
                // SAFETY: the arrivals and waits of each thread alternate, as the caller guarantees.
                unsafe { $intrinsic() }
            }
        )*};
    }

    cluster_barriers! {
        cluster_arrive = barrier_cluster_arrive;
        cluster_arrive_relaxed = barrier_cluster_arrive_relaxed;
        cluster_wait = barrier_cluster_wait;
    }
}

macro_rules! warp_reductions {
    ($($name:ident = $intrinsic:ident;)*) => {$(
        /// # Safety
        /// Every lane named in `mask` executes it together, the calling lane among them.
        #[inline(always)]
        pub(crate) unsafe fn $name(mask: u32, value: u32) -> u32 {
            // SAFETY: all lanes in `mask` execute it together, as the caller guarantees.
            unsafe { $intrinsic(value, mask) }
        }
    )*};
}

warp_reductions! {
    redux_add = redux_sync_add;
    redux_min = redux_sync_min;
    redux_max = redux_sync_max;
    redux_umin = redux_sync_umin;
    redux_umax = redux_sync_umax;
    redux_and = redux_sync_and;
    redux_or = redux_sync_or;
    redux_xor = redux_sync_xor;
}

/// Declares kernels. Under rust-cuda the calling crate must depend on `cuda_std`.
///
/// ```ignore
/// kernel! {
///     /// Writes one.
///     pub fn write_one(output: *mut u32) { unsafe { *output = 1 } }
/// }
/// ```
#[macro_export]
macro_rules! kernel {
    ($($(#[$attr:meta])* pub fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        $(#[$attr])*
        // SAFETY: a crate of kernels defines each symbol once; duplicates do not assemble.
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name($($arg: $ty),*) $body
    )*};
}

/// Declares a named shared array at module scope of the PTX. It is not a Rust static, because this
/// target cannot place one in the shared address space.
#[doc(hidden)]
#[macro_export]
macro_rules! shared_static {
    ($name:ident, $bytes:expr) => {
        core::arch::global_asm!(
            concat!(".shared .align 16 .b8 ", stringify!($name), "[{bytes}];"),
            bytes = const $bytes,
        );
    };
}

/// Declares the block's dynamic shared memory: an array without a size, which the launch sets.
#[doc(hidden)]
#[macro_export]
macro_rules! dynamic_shared_static {
    ($name:ident) => {
        core::arch::global_asm!(concat!(".extern .shared .align 16 .b8 ", stringify!($name), "[];"));
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! shared_address {
    ($name:ident) => {{
        let address: u32;
        // SAFETY: the instruction takes the address of an array that was declared under this name.
        unsafe {
            core::arch::asm!(
                concat!("mov.u32 {0}, ", stringify!($name), ";"),
                out(reg32) address,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        address
    }};
}

/// The language requires a handler, although no panic remains in the PTX: `build-ptx` rejects files with
/// calls. `cuda_std` has its own handler.
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
