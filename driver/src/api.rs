//! The driver's functions as typed pointers.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::for_each_function;
use crate::stand_in::stand_in;
use crate::sys::*;

macro_rules! define_api {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(per thread $per_thread:ident)?;)*) => {
        /// The functions of one driver, by their exported names. All return a `CUresult` as a `c_int`.
        ///
        /// If the driver does not have a function, its field points to a stand-in, which reads no
        /// argument and returns [`CUDA_ERROR_NOT_FOUND`]. The stand-ins of `cuGetErrorName` and
        /// `cuGetErrorString` return this crate's texts instead.
        #[allow(non_snake_case, reason = "these are the names of C")]
        pub struct Api {
            $(
                #[doc = concat!("`", stringify!($name), "`, as its manual says.")]
                pub $name: unsafe extern "C" fn($($argument: $kind),*) -> c_int,
            )*
        }

        #[allow(non_snake_case, reason = "these are the names of C")]
        mod absent {
            use super::*;

            $(
                pub(super) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                    stand_in!($name($($argument),*) CUDA_ERROR_NOT_FOUND)
                }
            )*
        }

        impl Api {
            /// The names of all functions, in the order of the fields.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Creates an `Api` from the functions that `find` returns. Also returns the names for which
            /// `find` returned `None`.
            ///
            /// # Safety
            /// Each function that `find` returns must have the type of its field, keep the contract of
            /// the driver's function of that name, and stay valid until the process ends.
            pub(crate) unsafe fn from_symbols(
                find: impl Fn(&str) -> Option<NonNull<c_void>>,
            ) -> (Self, Vec<&'static str>) {
                let mut missing = Vec::new();
                let api = Self {
                    $(
                        $name: match find(stringify!($name)) {
                            // SAFETY: the caller guarantees that `function` has the field's type.
                            Some(function) => unsafe {
                                std::mem::transmute::<
                                    NonNull<c_void>,
                                    unsafe extern "C" fn($($kind),*) -> c_int,
                                >(function)
                            },
                            None => {
                                missing.push(stringify!($name));
                                absent::$name
                            }
                        },
                    )*
                };
                (api, missing)
            }
        }
    };
}

for_each_function!(define_api);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let unique: HashSet<_> = Api::NAMES.iter().collect();
        assert_eq!(unique.len(), Api::NAMES.len());
    }

    #[test]
    fn missing_functions_return_not_found() {
        // SAFETY: `find` returns no function.
        let (api, missing) = unsafe { Api::from_symbols(|_| None) };
        assert_eq!(missing, Api::NAMES);
        // SAFETY: stand-ins read no argument.
        unsafe {
            assert_eq!((api.cuInit)(0), CUDA_ERROR_NOT_FOUND);
            let null = std::ptr::null_mut();
            let code = (api.cuLaunchKernel)(
                null,
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                CU_STREAM_LEGACY,
                null.cast(),
                null.cast(),
            );
            assert_eq!(code, CUDA_ERROR_NOT_FOUND);
        }
    }
}
