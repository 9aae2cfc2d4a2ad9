//! Memory access patterns: kernels that move elements without computing, measured by their bandwidth.
//!
//! Elements are moved as bits, so `f32` stands for all types of 4 bytes, and `f64` for those of 8. Lines
//! `// ladder: NAME` and `// ladder: end` enclose code that docs/ quotes.

pub mod copy_random;
pub mod copy_strided;
pub mod transpose_naive;
pub mod transpose_padded;
pub mod transpose_shared;

mod tile;

/// Declares the entry points `<variant>_<dtype>` of a kernel for the given element types. Their
/// parameters are the fields of `$Arguments`, a struct of `warpfold-abi`.
macro_rules! entries {
    ($body:ident($Arguments:ident) for $($ty:ident)*) => {$(
        $crate::memory::entries!(@entry $body $Arguments $ty);
    )*};
    (@entry $body:ident $Arguments:ident $ty:ident) => {
        // The constant is a scope for the alias `T`. The driver finds the entry by its symbol.
        #[allow(unreachable_pub)]
        const _: () = {
            type T = $ty;
            warpfold_abi::$Arguments!($crate::memory::entries![$body $Arguments $ty]);
        };
    };
    // The macro named like the struct calls this rule with the struct's fields.
    ([$body:ident $Arguments:ident $ty:ident] $($field:ident: $field_ty:ty),*) => {
        warpfold_device::kernel! {
            #[doc = concat!("`", stringify!($body), "` of ", stringify!($ty), ".")]
            pub fn ${concat($body, _, $ty)}($($field: $field_ty),*) {
                let arguments = warpfold_abi::arguments::$Arguments { $($field),* };
                // SAFETY: the kernel has the conditions of `$body`, which its launch must meet.
                unsafe { $body::<$ty>(arguments) }
            }
        }
    };
}
use entries;
