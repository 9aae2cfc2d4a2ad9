//! The exported functions, made from the driver's table.

use std::ffi::c_void;
use std::ptr::NonNull;

use warpfold_driver::for_each_function;
use warpfold_driver::sys::*;

use crate::call;
use crate::ffi::FromC;
use crate::functions;

/// For each line of the table the function of the C interface, which calls the one of that name in
/// [`functions`]. An argument whose type is not what the function here takes it for does not compile.
macro_rules! export {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {
        #[allow(non_snake_case)]
        mod exported {
            use super::*;

            $(
                pub(super) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                    const EARLY: bool = call::is_early(stringify!($name));
                    call::enter(stringify!($name), EARLY, || {
                        // SAFETY: the caller keeps the contract of the driver's function, which is
                        // that of `from_c` for each argument.
                        functions::$name($(unsafe { FromC::<$kind>::from_c($argument) }?),*)
                    })
                }
            )*
        }

        /// The names of all functions.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// The function of a name.
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
