//! The driver's functions as typed pointers.

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::for_each_function;
use crate::stand_in::stand_in;
use crate::sys::*;

macro_rules! define_api {
    ($(fn $name:ident($($argument:ident: $kind:ty),* $(,)?);)*) => {
        /// The functions of one driver, by their exported names. All return a `CUresult` as an int.
        ///
        /// A function that the driver does not have is a stand-in: it reads no argument and returns
        /// [`CUDA_ERROR_NOT_FOUND`]. `cuGetErrorName` and `cuGetErrorString` then answer from our list.
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
            /// The names of all functions, in the order of the table.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Loads each function from `find` and returns the names that it does not have.
            ///
            /// # Safety
            /// Each function that `find` returns must have the type in the table, keep the contract of
            /// the driver's function of that name, and stay valid until the process ends.
            pub(crate) unsafe fn from_symbols(
                find: impl Fn(&str) -> Option<NonNull<c_void>>,
            ) -> (Self, Vec<&'static str>) {
                let mut missing = Vec::new();
                let api = Self {
                    $(
                        $name: match find(stringify!($name)) {
                            // SAFETY: by this function's contract it is a function of the field's type.
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
    fn what_is_absent_answers_so() {
        // SAFETY: `find` returns nothing.
        let (api, missing) = unsafe { Api::from_symbols(|_| None) };
        assert_eq!(missing, Api::NAMES);
        // SAFETY: functions that are absent read no argument.
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
