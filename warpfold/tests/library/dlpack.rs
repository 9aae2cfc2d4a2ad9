//! DLPack: other libraries' tensors are reduced in place and released once; ours are usable by others.

use std::{
    ffi::c_void,
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::common::{device, reducer, says, small};
use warpfold::{
    Bool, Buffer, Element, Error,
    dlpack::{
        self, CUDA, DataType, Layout, ManagedTensor, ManagedTensorVersioned, READ_ONLY, SIMULATED,
        Tensor,
    },
    op,
};

/// Another library's data of a tensor, with a count of the tensor's releases.
struct Library {
    shape: Vec<i64>,
    strides: Vec<i64>,
    returned: AtomicUsize,
}

unsafe extern "C" fn give_back(tensor: *mut ManagedTensor) {
    // SAFETY: `lend` made the tensor; its library lives to the end of the test.
    unsafe { (*(*tensor).manager_ctx.cast::<Library>()).returned.fetch_add(1, Ordering::Relaxed) };
}

impl Library {
    fn new(shape: &[i64], strides: &[i64]) -> Self {
        Self { shape: shape.to_vec(), strides: strides.to_vec(), returned: AtomicUsize::new(0) }
    }

    fn lend<T: Element>(&self, buffer: &Buffer<T>, byte_offset: u64) -> ManagedTensor {
        let strides =
            if self.strides.is_empty() { ptr::null_mut() } else { self.strides.as_ptr().cast_mut() };
        let dl_tensor = Tensor {
            data: ptr::without_provenance_mut(buffer.as_device_ptr() as usize),
            device: dlpack::Device::of(device()),
            ndim: self.shape.len() as i32,
            dtype: DataType::of::<T>(),
            shape: self.shape.as_ptr().cast_mut(),
            strides,
            byte_offset,
        };
        let manager_ctx = ptr::from_ref(self).cast_mut().cast::<c_void>();
        ManagedTensor { dl_tensor, manager_ctx, deleter: Some(give_back) }
    }

    fn returned(&self) -> usize {
        self.returned.load(Ordering::Relaxed)
    }
}

fn taken<T: Element>(tensor: &mut ManagedTensor) -> Result<Buffer<T>, Error> {
    // SAFETY: the buffers of these tests outlive their tensors.
    unsafe { Buffer::from_dlpack(device(), tensor) }
}

#[test]
fn tensor_is_reduced_in_place_and_released_once() {
    let values = small::<f32>(60, 3);
    let buffer = device().upload(&values).unwrap();
    for (shape, strides, offset, range) in [
        (&[60][..], &[][..], 0, 0..60),
        (&[3, 4, 5], &[20, 5, 1], 0, 0..60),
        (&[4, 1, 5], &[5, 99, 1], 40, 10..30),
        (&[], &[], 8, 2..3),
        (&[0, 7], &[7, 1], 0, 0..0),
    ] {
        let library = Library::new(shape, strides);
        let mut tensor = library.lend(&buffer, offset);
        let taken = taken::<f32>(&mut tensor).unwrap();
        let part = &values[range];
        crate::common::check(reducer(), part, &taken, &format!("{shape:?}"));
        let stream = device().stream().unwrap();
        let pending = reducer().on(&stream).reduce(op::Sum, &taken).unwrap();
        let copy = taken.clone();
        drop(taken);
        drop(copy);
        assert_eq!(library.returned(), usize::from(part.is_empty()), "{shape:?}");
        pending.wait().unwrap();
        assert_eq!(library.returned(), 1, "{shape:?}");
    }
}

unsafe extern "C" fn give_back_versioned(tensor: *mut ManagedTensorVersioned) {
    // SAFETY: `manager_ctx` points to the library, which lives to the end of the test.
    unsafe { (*(*tensor).manager_ctx.cast::<Library>()).returned.fetch_add(1, Ordering::Relaxed) };
}

#[test]
fn versioned_tensor_is_released_once() {
    let (buffer, library) = (device().upload(&[1_i64, 2]).unwrap(), Library::new(&[2], &[]));
    let ManagedTensor { dl_tensor, manager_ctx, .. } = library.lend(&buffer, 0);
    let deleter: Option<unsafe extern "C" fn(*mut ManagedTensorVersioned)> = Some(give_back_versioned);
    let mut tensor =
        ManagedTensorVersioned { version: [1, 0], manager_ctx, deleter, flags: 0, dl_tensor };
    // SAFETY: the buffer outlives the tensor.
    let taken = unsafe { Buffer::<i64>::from_dlpack(device(), &mut tensor) }.unwrap();
    assert_eq!((reducer().sum(&taken).unwrap(), library.returned()), (3, 0));
    drop(taken);
    assert_eq!(library.returned(), 1);
}

#[test]
fn a_tensor_of_any_strides_is_reduced_as_a_view() {
    let values = small::<f32>(60, 3);
    let buffer = device().upload(&values).unwrap();
    for (shape, strides, offset, len) in [
        (&[5_usize, 12][..], &[1_usize, 5][..], 0, 60),
        (&[6, 3], &[10, 2], 4, 55),
        (&[4, 1, 5], &[5, 9, 1], 8, 20),
        (&[0, 7], &[7, 1], 0, 0),
    ] {
        let signed = |numbers: &[usize]| numbers.iter().map(|&number| number as i64).collect::<Vec<_>>();
        let library = Library::new(&signed(shape), &signed(strides));
        let mut tensor = library.lend(&buffer, offset);
        // SAFETY: the buffer outlives the tensor.
        let taken = unsafe { Buffer::<f32>::from_dlpack_strided(device(), &mut tensor) };
        let (taken, layout) = taken.unwrap();
        assert_eq!((taken.len(), &layout.shape[..]), (len, shape));
        let steps: Vec<isize> = layout.strides.iter().map(|&step| step as isize).collect();
        let view = taken.view_strided(0, &layout.shape, &steps).unwrap();
        let axes: Vec<usize> = (1..shape.len()).collect();
        let sums = reducer().reduce(op::Sum, view.along(&axes).unwrap()).unwrap();
        let rows = (0..shape[0]).map(|row| {
            let inner = (0..*shape.last().unwrap()).map(|at| at * strides.last().unwrap());
            let first = offset as usize / 4 + row * strides[0];
            inner.map(|at| values[first + at]).sum::<f32>()
        });
        assert_eq!(sums, rows.collect::<Vec<_>>(), "{shape:?} {strides:?}");
        drop(taken);
        assert_eq!(library.returned(), 1, "{shape:?}");
    }
    // Expanded and reversed tensors are refused, and stay with the caller.
    for strides in [&[1, 0][..], &[-5, 1]] {
        let library = Library::new(&[3, 5], strides);
        let mut tensor = library.lend(&buffer, 0);
        // SAFETY: the buffer outlives the tensor.
        let taken = unsafe { Buffer::<f32>::from_dlpack_strided(device(), &mut tensor) };
        says(&taken.unwrap_err(), &["[3, 5]", &format!("{strides:?}"), "above zero", "contiguous()"]);
        assert_eq!(library.returned(), 0);
    }
}

#[test]
fn a_tensor_without_a_deleter_is_left_alone() {
    let buffer = device().upload(&[1_i64, 2]).unwrap();
    let library = Library::new(&[2], &[]);
    let mut tensor = ManagedTensor { deleter: None, ..library.lend(&buffer, 0) };
    assert_eq!(reducer().sum(&taken::<i64>(&mut tensor).unwrap()).unwrap(), 3);
    assert_eq!(library.returned(), 0);
}

#[test]
fn unsupported_tensor_is_rejected_and_not_released() {
    let buffer = device().upload(&[0_i32; 64]).unwrap();
    let library = Library::new(&[4, 8], &[8, 1]);
    let refused = |change: &dyn Fn(&mut ManagedTensor), words: &[&str]| {
        let mut tensor = library.lend(&buffer, 0);
        change(&mut tensor);
        let error = taken::<i32>(&mut tensor).unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
        says(&error, words);
    };
    refused(&|tensor| tensor.dl_tensor.device.device_type = 1, &["of type 1", "on device 0 of type"]);
    refused(&|tensor| tensor.dl_tensor.device.device_id = 77, &["device 77", "on device 0"]);
    refused(&|tensor| tensor.dl_tensor.dtype.code = 1, &["uint32", "int32"]);
    refused(&|tensor| tensor.dl_tensor.dtype.lanes = 4, &["in 4 lanes"]);
    refused(&|tensor| tensor.dl_tensor.ndim = -1, &["-1 dimensions"]);
    refused(&|tensor| tensor.dl_tensor.shape = ptr::null_mut(), &["no shape"]);
    refused(&|tensor| tensor.dl_tensor.byte_offset = 2, &["multiples of 4"]);
    refused(&|tensor| tensor.dl_tensor.data = ptr::null_mut(), &["address is 0"]);
    for (shape, strides, words) in [
        (&[4, 8][..], &[1, 4][..], &["[1, 4]", "contiguous"][..]),
        (&[4, 8], &[16, 1], &["contiguous"]),
        (&[-1, 8], &[8, 1], &["[-1, 8]", "0 or more"]),
        (&[1 << 40, 1 << 40], &[1 << 40, 1], &["must not overflow"]),
    ] {
        let other = Library::new(shape, strides);
        let error = taken::<i32>(&mut other.lend(&buffer, 0)).unwrap_err();
        says(&error, words);
        assert_eq!(other.returned(), 0);
    }
    assert_eq!(library.returned(), 0);
}

#[test]
fn buffer_round_trips_through_dlpack() {
    let values = small::<u8>(1000, 9);
    let slice = device().upload(&values).unwrap().slice(7..).unwrap();
    let tensor = slice.into_dlpack::<ManagedTensor>();
    // SAFETY: the tensor was made just now and has no other owner.
    let back = unsafe {
        let Tensor { ndim, shape, .. } = (*tensor).dl_tensor;
        assert_eq!((ndim, *shape), (1, 993));
        Buffer::<u8>::from_dlpack(device(), tensor).unwrap()
    };
    crate::common::check(reducer(), &values[7..], &back, "what came back");
}

#[test]
fn versioned_export_is_read_only_and_of_version_1() {
    let buffer = device().upload(&[2.5_f64, -1.0]).unwrap();
    let tensor: *mut ManagedTensorVersioned = buffer.into_dlpack::<ManagedTensorVersioned>();
    // SAFETY: the tensor was made just now and has no other owner.
    unsafe {
        assert_eq!(((*tensor).version, (*tensor).flags), ([1, 0], READ_ONLY));
        (*tensor).version = [2, 0];
        let error = Buffer::<f64>::from_dlpack(device(), tensor).unwrap_err();
        says(&error, &["version is 2.0", "must be 1"]);
        (*tensor).version = [1, 3];
        let back = Buffer::<f64>::from_dlpack(device(), tensor).unwrap();
        assert_eq!(reducer().sum(&back).unwrap(), 1.5);
    }
}

/// A program that reads GPU memory must not take a simulated tensor for one on a GPU.
#[test]
fn tensor_device_type_distinguishes_the_simulator() {
    let info = device().info();
    let device_type = if info.simulated { SIMULATED } else { CUDA };
    let other = CUDA + SIMULATED - device_type;
    let tensor = device().upload(&[1_u8, 2]).unwrap().into_dlpack::<ManagedTensor>();
    // SAFETY: the tensor was made just now and has no other owner.
    let (said, refused, taken) = unsafe {
        let said = (*tensor).dl_tensor.device;
        (*tensor).dl_tensor.device.device_type = other;
        let refused = Buffer::<u8>::from_dlpack(device(), tensor).unwrap_err();
        (*tensor).dl_tensor.device.device_type = device_type;
        (said, refused, Buffer::<u8>::from_dlpack(device(), tensor).unwrap())
    };
    assert_eq!(said, dlpack::Device { device_type, device_id: info.ordinal as i32 });
    says(&refused, &[&format!("of type {other}"), &format!("of type {device_type}")]);
    assert_eq!(taken.download().unwrap(), [1, 2]);
}

#[test]
fn truth_values_are_bytes() {
    let buffer = device().upload(&[1_u8, 0, 1]).unwrap();
    let library = Library::new(&[3], &[]);
    let mut tensor = library.lend(&buffer, 0);
    tensor.dl_tensor.dtype = DataType::BOOL;
    assert_eq!(reducer().sum(&taken::<u8>(&mut tensor).unwrap()).unwrap(), 2);
    says(&taken::<i8>(&mut tensor).unwrap_err(), &["bool8", "int8"]);
    let mut tensor = library.lend(&buffer, 0);
    tensor.dl_tensor.dtype = DataType::BOOL;
    let truths = taken::<Bool>(&mut tensor).unwrap();
    assert_eq!(truths.download().unwrap(), [true, false, true].map(Bool::from));
}

#[test]
fn bytes_are_exported_with_the_given_layout() {
    let bytes = device().upload(&[1_i64, 10, 2, 20]).unwrap().cast::<u8>().unwrap();
    let dtype = DataType::of::<i64>();
    let layout = |shape: &[usize], strides: &[usize]| Layout {
        dtype,
        shape: shape.to_vec(),
        strides: strides.to_vec(),
    };
    let tensor = bytes.clone().into_dlpack_as::<ManagedTensor>(layout(&[2, 1], &[2, 7])).unwrap();
    // SAFETY: the tensor was made just now, has no other owner, and is released by its own deleter.
    unsafe {
        let Tensor { data, ndim, shape, strides, dtype: said, .. } = (*tensor).dl_tensor;
        assert_eq!((data.addr() as u64, ndim, said), (bytes.as_device_ptr(), 2, dtype));
        assert_eq!([*shape, *shape.add(1), *strides, *strides.add(1)], [2, 1, 2, 7]);
        (*tensor).deleter.unwrap()(tensor);
    }
    // Layouts up to the last byte, and layouts without elements.
    for inside in [layout(&[4], &[1]), layout(&[2], &[3]), layout(&[], &[]), layout(&[0, 99], &[9, 9])] {
        let tensor = bytes.clone().into_dlpack_as::<ManagedTensorVersioned>(inside).unwrap();
        // SAFETY: the tensor was made just now and has no other owner.
        unsafe { (*tensor).deleter.unwrap()(tensor) };
    }
    for outside in [
        layout(&[5], &[1]),
        layout(&[2], &[4]),
        layout(&[2, 2], &[2]),
        layout(&[usize::MAX, 3], &[usize::MAX, 1]),
    ] {
        let error = bytes.clone().into_dlpack_as::<ManagedTensor>(outside).unwrap_err();
        says(&error, &["int64", "exceeds its 32 bytes", "give as many strides as lengths"]);
    }
}
