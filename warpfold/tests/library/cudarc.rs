//! `cudarc` slices. cudarc opens `libcuda` itself, so these tests need `WARPFOLD_TEST_DEVICE=cuda`.

use std::sync::Arc;

use ::cudarc::driver::{CudaContext, CudaSlice};
use warpfold::{Buffer, Error, op};

use crate::{
    common::{Sample, check, device, on_gpu, reducer, says, small},
    devices::own_context,
};

#[test]
fn cudarc_slice_is_reduced_in_place() {
    if !on_gpu() {
        return;
    }
    let values = small::<f64>(50_000, 6);
    let context = CudaContext::new(device().info().ordinal as usize).unwrap();
    let stream = context.new_stream().unwrap();
    let slice: Arc<CudaSlice<f64>> = Arc::new(stream.clone_htod(&values).unwrap());
    let shared = Buffer::from_cudarc(device(), slice.clone()).unwrap();
    check(reducer(), &values, &shared, "what is cudarc's");
    let ours = device().stream().unwrap();
    let pending = reducer().on(&ours).reduce(op::Sum, &shared).unwrap();
    drop(shared);
    assert_eq!(pending.wait().unwrap(), f64::total(&values, false));
    // The library holds no reference any more.
    let slice = Arc::into_inner(slice).unwrap();
    assert_eq!(stream.clone_dtoh(&slice).unwrap(), values);
    drop(Buffer::from_cudarc(device(), slice).unwrap());
}

#[test]
fn a_slice_of_another_context_is_refused() {
    if !on_gpu() {
        return;
    }
    let other = own_context();
    let stream = CudaContext::new(0).unwrap().default_stream();
    let slice = stream.clone_htod(&[1_u8, 2]).unwrap();
    let error = Buffer::from_cudarc(&other, slice).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
    says(&error, &["another context"]);
}
