//! Conversions of errors and handles from `cust` to this crate.

use std::ffi::c_int;

use cust::device::Device;
use cust::error::CudaError;
use cust::function::Function;

use crate::error::CallError;
use crate::symbols::{loaded, take_unnamed_code};

impl CallError {
    /// Converts the error of a call that cust made through the `cu*` symbols. `call` is the function's
    /// name in `cuda.h`. Must be called before cust's next call on this thread, because it queries state
    /// that cust's enum cannot express: the true code of [`CudaError::UnknownError`], and the driver's
    /// detail beyond the code.
    ///
    /// ```
    /// use warpfold_driver::{CallError, cust};
    ///
    /// fn start() -> Result<(), Box<dyn std::error::Error>> {
    ///     let driver = warpfold_driver::load()?;
    ///     cust::init(cust::CudaFlags::empty()).map_err(|error| CallError::from_cust("cuInit", error))?;
    ///     println!("started {}", driver.name());
    ///     Ok(())
    /// }
    /// # if let Err(error) = start() { println!("{error}"); }
    /// ```
    pub fn from_cust(call: &'static str, error: CudaError) -> Self {
        let code = match error {
            CudaError::UnknownError => take_unnamed_code(),
            error => error as c_int,
        };
        match (error, loaded()) {
            // These are created by cust, not by a driver.
            (CudaError::InvalidMemoryAllocation | CudaError::OptixError, _) => Self {
                call,
                code,
                name: format!("{error:?}").into(),
                text: error.to_string().into(),
                detail: None,
            },
            (_, Some(driver)) => driver.failure(call, code),
            (_, None) => {
                Self::with_detail(call, code, "the cu* symbols are not bound to a driver".to_owned())
            }
        }
    }
}

macro_rules! conversions {
    ($($from:ty => $to:ident: $handle:ident => $raw:expr;)*) => {$(
        impl From<$from> for crate::$to {
            fn from($handle: $from) -> Self {
                Self::from_raw($raw)
            }
        }
    )*};
}

conversions! {
    Device => Device: device => device.as_raw();
    &cust::context::Context => Context: context => context.as_raw().cast();
    &Function<'_> => Function: function => function.to_raw().cast();
    &cust::stream::Stream => Stream: stream => stream.as_inner().cast();
}
