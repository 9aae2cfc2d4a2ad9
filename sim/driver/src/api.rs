//! The exported functions, generated from [`for_each_function`].

use std::ffi::c_void;
use std::ptr::NonNull;

use warpfold_driver::for_each_function;
use warpfold_driver::sys::*;

use crate::call;
use crate::ffi::FromC;
use crate::functions;

/// Generates the C functions of [`for_each_function`]. Each calls its namesake in [`functions`];
/// argument types that [`FromC`] cannot convert do not compile.
macro_rules! export {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {
        #[allow(non_snake_case)]
        mod exported {
            use super::*;

            $(
                pub(super) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                    const EARLY: bool = call::is_early(stringify!($name));
                    call::enter(stringify!($name), EARLY, || {
                        // SAFETY: the caller keeps the contract of the driver's function, which implies
                        // that of `from_c` for each argument.
                        functions::$name($(unsafe { FromC::<$kind>::from_c($argument) }?),*)
                    })
                }
            )*
        }

        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

        pub(crate) fn find(name: &str) -> Option<NonNull<c_void>> {
            let function: *mut c_void = match name {
                $(stringify!($name) => exported::$name as *mut c_void,)*
                _ => return None,
            };
            NonNull::new(function)
        }
    };
}

for_each_function!(export);
