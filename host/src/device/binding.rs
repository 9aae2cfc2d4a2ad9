//! The choice of this process's driver.
//!
//! cust calls the driver's functions by their symbols, and a process has only one set of these. The
//! first device that is opened therefore decides between the GPU's driver and the simulator's for the
//! rest of the process.

use std::sync::{Mutex, PoisonError};

use warpfold_driver::Driver;

use super::Selection;
use crate::{Error, Result};

static BOUND: Mutex<Option<&'static Driver>> = Mutex::new(None);

/// Binds the driver symbols that cust calls to the selected driver. Fails if they are bound to the other
/// driver.
pub(super) fn bind(selection: Selection) -> Result<&'static Driver> {
    // If a panic poisoned the lock, the symbols are either bound or unbound, and this call handles both.
    let mut bound = BOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(driver) = *bound {
        return match (selection, driver.is_simulated()) {
            (Selection::Cuda, true) => Err(Error::OtherDriver { wanted: "GPU", bound: "simulator" }),
            (Selection::Sim, false) => Err(Error::OtherDriver { wanted: "simulator", bound: "GPU" }),
            _ => Ok(driver),
        };
    }
    let driver = choose(selection)?;
    let no_cuda = |error: warpfold_driver::DriverError| Error::NoCuda { reason: error.to_string() };
    driver.bind_symbols().map_err(no_cuda)?;
    *bound = Some(driver);
    Ok(driver)
}

fn choose(selection: Selection) -> Result<&'static Driver> {
    match selection {
        Selection::Sim => Ok(warpfold_sim_driver::driver()),
        Selection::Cuda => gpu(),
        Selection::Auto => match gpu() {
            Err(Error::NoCuda { .. }) => Ok(warpfold_sim_driver::driver()),
            found => found,
        },
    }
}

pub(super) fn gpu() -> Result<&'static Driver> {
    let no_cuda = |reason: String| Error::NoCuda { reason };
    let driver = Driver::load().map_err(|error| no_cuda(error.to_string()))?;
    driver.init().map_err(|error| no_cuda(error.to_string()))?;
    match driver.device_count() {
        Ok(0) => Err(no_cuda("the driver has no GPU".to_owned())),
        Ok(_) => Ok(driver),
        Err(error) => Err(no_cuda(error.to_string())),
    }
}
