//! Memory access patterns: kernels that move elements and compute nothing, to be measured as bandwidth.
//!
//! An element is moved as bits, so the types stand for their sizes: `f32` for 4 bytes, `f64` for 8.

pub mod copy_random;
pub mod copy_strided;
pub mod transpose_naive;
pub mod transpose_padded;
pub mod transpose_shared;

mod tile;

/// Declares the entry points `<variant>_<dtype>` of a kernel for the given element types. Its parameters
/// are the fields of the struct of `warpfold-abi` that the function takes.
macro_rules! entries {
    ($body:ident($Arguments:ident) for $($ty:ident)*) => {$(
        $crate::memory::entries!(@entry $body $Arguments $ty);
    )*};
    (@entry $body:ident $Arguments:ident $ty:ident) => {
        // A scope of its own for `T`; the entry is reached by its symbol.
        #[allow(unreachable_pub)]
        const _: () = {
            type T = $ty;
            warpfold_abi::$Arguments!($crate::memory::entries![$body $Arguments $ty]);
        };
    };
    // What the struct's macro hands back, with its fields.
    ([$body:ident $Arguments:ident $ty:ident] $($field:ident: $field_ty:ty),*) => {
        warpfold_device::kernel! {
            #[doc = concat!("`", stringify!($body), "` of ", stringify!($ty), ".")]
            pub fn ${concat($body, _, $ty)}($($field: $field_ty),*) {
                let arguments = warpfold_abi::arguments::$Arguments { $($field),* };
                // SAFETY: the caller's contract is the body's.
                unsafe { $body::<$ty>(arguments) }
            }
        }
    };
}
use entries;
