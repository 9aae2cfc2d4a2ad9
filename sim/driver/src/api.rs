//! The exported functions, generated from the driver's table.

use std::ffi::c_void;
use std::ptr::NonNull;

use warpfold_driver::for_each_function;
use warpfold_driver::sys::*;

use crate::call;
use crate::ffi::FromC;
use crate::functions;

/// Generates for each row of the table the C function, which calls the function of the same name in
/// [`functions`]. An argument whose type does not match that function's does not compile.
macro_rules! export {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {
        #[allow(non_snake_case)]
        mod exported {
            use super::*;

            $(
                pub(super) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                    const EARLY: bool = call::is_early(stringify!($name));
                    call::enter(stringify!($name), EARLY, || {
                        // SAFETY: the caller keeps the contract of the driver's function, which is that
                        // of `from_c` for each argument.
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
