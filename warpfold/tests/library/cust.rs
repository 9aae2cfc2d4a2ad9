//! `cust` buffers, whose calls go to the driver of the device under test.

use ::cust::memory::{CopyDestination, DeviceBuffer};
use warpfold::{Buffer, Device, Error, Reducer, op};
use warpfold_driver::Context;

use crate::{
    common::{check, device, driver, extreme, says, small},
    devices::own_context,
};

/// Returns the driver's allocated bytes; 0 on a GPU, where other programs use memory too.
fn memory_in_use(device: &Device) -> u64 {
    #[cfg(feature = "simulator")]
    if device.info().simulated {
        return warpfold_sim_driver::memory_in_use(device.as_raw_context().cast());
    }
    let _ = device;
    0
}

/// Returns a `cust` buffer, which `cust` allocates in the current context.
fn theirs<T: ::cust::memory::DeviceCopy>(device: &Device, values: &[T]) -> DeviceBuffer<T> {
    driver().bind_symbols().unwrap();
    // SAFETY: the device stays alive.
    unsafe { driver().ctx_push_current(Context::from_raw(device.as_raw_context().cast())) }.unwrap();
    let buffer = DeviceBuffer::from_slice(values).unwrap();
    driver().ctx_pop_current().unwrap();
    buffer
}

#[test]
fn cust_buffer_is_reduced_in_place_and_freed() {
    let device = own_context();
    let (reducer, values) = (Reducer::new(&device).unwrap(), small::<f32>(5000, 6));
    let stream = device.stream().unwrap();
    let reduce = |ours: Buffer<f32>| {
        check(&reducer, &values, &ours, "what is cust's");
        let pending = reducer.on(&stream).reduce(op::ArgMax, &ours).unwrap();
        drop(ours);
        assert_eq!(pending.wait().unwrap(), extreme(&values, true));
    };
    reduce(device.upload(&values).unwrap());
    let before = memory_in_use(&device);
    let buffer = theirs(&device, &values);
    let address = buffer.as_device_ptr().as_raw();
    let ours = Buffer::from_cust(&device, buffer).unwrap();
    assert_eq!(ours.as_device_ptr(), address);
    // The buffer is freed although no context is current on this thread.
    reduce(ours);
    assert_eq!(memory_in_use(&device), before);
    let nothing = Buffer::from_cust(&device, theirs::<u64>(&device, &[])).unwrap();
    assert_eq!(reducer.sum(&nothing).unwrap(), 0);
}

#[test]
fn a_buffer_of_another_context_is_refused() {
    let (one, other) = (device(), own_context());
    let buffer = theirs(one, &[1_u8, 2]);
    let mut back = [0; 2];
    // SAFETY: the device stays alive.
    unsafe { driver().ctx_push_current(Context::from_raw(one.as_raw_context().cast())) }.unwrap();
    buffer.copy_to(&mut back).unwrap();
    let error = Buffer::from_cust(&other, buffer).unwrap_err();
    driver().ctx_pop_current().unwrap();
    assert_eq!(back, [1, 2]);
    assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
    says(&error, &["another context"]);
}
