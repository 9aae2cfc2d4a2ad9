//! The driver, and the current device of each thread.

use std::{
    cell::Cell,
    collections::HashMap,
    ffi::c_int,
    ptr,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use warpfold_driver::{Api, Driver, sys::CUcontext};

use crate::{
    errors::{INSUFFICIENT_DRIVER, INVALID_DEVICE, Outcome, check, say},
    registry,
};

thread_local! {
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
}

/// Returns the driver, which the first call opens and initialises.
pub(crate) fn driver() -> Outcome<&'static Driver> {
    static DRIVER: OnceLock<Outcome<&'static Driver>> = OnceLock::new();
    *DRIVER.get_or_init(|| {
        let driver = Driver::load().map_err(|error| {
            say(&format!("libcudart: {error}"));
            INSUFFICIENT_DRIVER
        })?;
        // SAFETY: `cuInit` takes no pointers.
        check(unsafe { (driver.api().cuInit)(0) })?;
        Ok(driver)
    })
}

pub(crate) fn api() -> Outcome<&'static Api> {
    driver().map(Driver::api)
}

/// Returns the functions of the driver, after making a context current on this thread if none is.
pub(crate) fn ready() -> Outcome<&'static Api> {
    let api = api()?;
    let mut current: CUcontext = ptr::null_mut();
    // SAFETY: the driver writes a handle.
    check(unsafe { (api.cuCtxGetCurrent)(&mut current) })?;
    if current.is_null() {
        // SAFETY: `primary` returns a retained context.
        check(unsafe { (api.cuCtxSetCurrent)(primary(DEVICE.get())?) })?;
    }
    Ok(api)
}

pub(crate) fn device() -> Outcome<c_int> {
    let api = api()?;
    let mut current: CUcontext = ptr::null_mut();
    let mut device = DEVICE.get();
    // SAFETY: the driver writes a handle and a number.
    unsafe {
        check((api.cuCtxGetCurrent)(&mut current))?;
        if !current.is_null() {
            check((api.cuCtxGetDevice)(&mut device))?;
        }
    }
    Ok(device)
}

pub(crate) fn set_device(device: c_int) -> Outcome {
    let api = api()?;
    // SAFETY: `primary` returns a retained context.
    check(unsafe { (api.cuCtxSetCurrent)(primary(device)?) })?;
    DEVICE.set(device);
    Ok(())
}

/// Locks the retained primary contexts: their handles, as numbers, by device.
fn contexts() -> MutexGuard<'static, HashMap<c_int, usize>> {
    static CONTEXTS: OnceLock<Mutex<HashMap<c_int, usize>>> = OnceLock::new();
    CONTEXTS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the primary context of a device, retained on first use.
pub(crate) fn primary(device: c_int) -> Outcome<CUcontext> {
    let api = api()?;
    let mut contexts = contexts();
    if let Some(&context) = contexts.get(&device) {
        return Ok(ptr::with_exposed_provenance_mut(context));
    }
    let mut count = 0;
    let mut context: CUcontext = ptr::null_mut();
    // SAFETY: the driver writes a number and a handle.
    unsafe {
        check((api.cuDeviceGetCount)(&mut count))?;
        if !(0..count).contains(&device) {
            return Err(INVALID_DEVICE);
        }
        check((api.cuDevicePrimaryCtxRetain)(&mut context, device))?;
    }
    contexts.insert(device, context.expose_provenance());
    Ok(context)
}

pub(crate) fn reset(device: c_int) -> Outcome {
    let api = ready()?;
    registry::forget(device);
    let mut contexts = contexts();
    if contexts.remove(&device).is_some() {
        // SAFETY: the tables of contexts, modules and functions no longer refer to the context.
        unsafe {
            check((api.cuCtxSynchronize)())?;
            check((api.cuCtxSetCurrent)(ptr::null_mut()))?;
            check((api.cuDevicePrimaryCtxReset_v2)(device))?;
        }
    }
    Ok(())
}
