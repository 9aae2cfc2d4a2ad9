//! What the device crates use of rust-cuda's `cuda_std` (revision 946c91f), as signatures alone: names,
//! parameters and results, written down anew from its documentation, and no line of its code. Nothing here
//! runs. `cargo xtask check-nvvm` compiles the device crates against it on every machine, so that a change
//! cannot break their rust-cuda side unseen; with `--cuda-std PATH` it takes the real crate in its place,
//! which is how to find out that this one still says the truth.
#![no_std]
#![allow(clippy::missing_safety_doc, clippy::must_use_candidate)]

pub use cuda_std_signature_attributes::{address_space, kernel};

/// Coordinates and the block barrier.
pub mod thread {
    macro_rules! coordinates {
        ($($name:ident)*) => {
            $(pub fn $name() -> u32 {
                panic!("a signature")
            })*
        };
    }

    coordinates! {
        thread_idx_x thread_idx_y block_idx_x block_idx_y
        block_dim_x block_dim_y grid_dim_x grid_dim_y
    }

    pub fn sync_threads() {
        panic!("a signature")
    }
}

/// Warps.
pub mod warp {
    pub trait WarpShuffleValue: Sized {}
    pub trait WarpReduceValue: Sized {}

    macro_rules! implement {
        ($name:ident for $($ty:ty)*) => { $(impl $name for $ty {})* };
    }
    implement!(WarpShuffleValue for u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 f32 f64);
    implement!(WarpReduceValue for u32 i32);

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum WarpReductionOp {
        Add,
        Min,
        Max,
        And,
        Or,
        Xor,
    }

    macro_rules! shuffles {
        ($($name:ident($by:ident))*) => {
            $(pub unsafe fn $name<T: WarpShuffleValue>(_mask: u32, _value: T, $by: u32, _width: u32) -> (T, bool) {
                let _ = $by;
                panic!("a signature")
            })*
        };
    }
    shuffles! { warp_shuffle_down(delta) warp_shuffle_xor(lane_mask) warp_shuffle_idx(idx) }

    pub unsafe fn warp_reduce<T: WarpReduceValue>(_mask: u32, _value: T, _op: WarpReductionOp) -> T {
        panic!("a signature")
    }

    pub unsafe fn sync_warp(_mask: u32) {
        panic!("a signature")
    }

    pub fn lane_id() -> u32 {
        panic!("a signature")
    }
}

/// Dynamic shared memory.
pub mod shared {
    pub fn dynamic_shared_mem<T>() -> *mut T {
        panic!("a signature")
    }
}
