//! The exported functions, generated from [`for_each_function`].

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::OnceLock;

use warpfold_driver::for_each_function;
use warpfold_driver::sys::*;

use crate::call;
use crate::ffi::FromC;
use crate::functions;
use crate::world;

/// Generates the C functions of [`for_each_function`]. Each calls its namesake in [`functions`];
/// argument types that [`FromC`] cannot convert do not compile.
macro_rules! export {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(per thread $per_thread:ident)?;)*) => {
        #[allow(non_snake_case)]
        mod exported {
            use super::*;

            $(
                pub(super) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                    const EARLY: bool = call::is_early(stringify!($name));
                    call::enter(stringify!($name), EARLY, &|| {
                        // SAFETY: the caller keeps the contract of the driver's function, which implies
                        // that of `from_c` for each argument.
                        functions::$name($(unsafe { FromC::<$kind>::from_c($argument) }?),*)
                    })
                }
            )*
        }

        /// The functions with the calling thread's default stream in place of the legacy one.
        #[allow(non_snake_case)]
        mod per_thread {
            use super::*;

            $(
                pub(super) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                    let _default = world::DefaultOfThread::set();
                    // SAFETY: the caller keeps the contract of the driver's function.
                    unsafe { exported::$name($($argument),*) }
                }
            )*
        }

        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// Returns a function by its exported name. If `per_thread`, stream 0 is the calling thread's
        /// default stream for it.
        pub(crate) fn find(name: &str, per_thread: bool) -> Option<NonNull<c_void>> {
            let function: *mut c_void = match name {
                $(stringify!($name) if per_thread => per_thread::$name as *mut c_void,)*
                $(stringify!($name) => exported::$name as *mut c_void,)*
                _ => return None,
            };
            NonNull::new(function)
        }
    };
}

for_each_function!(export);

/// Finds a function by its exported name.
pub type FindFunction = fn(&str) -> Option<NonNull<c_void>>;

static FIND_ABSENT: OnceLock<FindFunction> = OnceLock::new();

/// Sets the lookup of functions that this crate does not simulate, by which `cuGetProcAddress` finds
/// them too. Callers, such as NVIDIA's runtime, look up every function at startup, so that only a call
/// can tell that one is missing. Returns `false` if there is such a lookup already, which is kept.
pub fn find_absent(find: FindFunction) -> bool {
    FIND_ABSENT.set(find).is_ok()
}

/// Returns a function of that lookup by its name in `cuda.h`, whichever version is asked for, because
/// every form only reports the call.
pub(crate) fn absent(symbol: &str) -> Option<NonNull<c_void>> {
    let find = FIND_ABSENT.get()?;
    ["_v3", "_v2", ""].iter().find_map(|form| find(&format!("{symbol}{form}")))
}
