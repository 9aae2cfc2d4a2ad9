//! Arrays of other libraries: those in device memory are borrowed as they are, those on the host are
//! copied to a device once.

use std::{ffi::CStr, slice, sync::Arc};

use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    ffi,
    prelude::*,
    types::PyDict,
};
use warpfold::{
    Buffer, Element,
    dlpack::{self, DataType, ManagedTensor, ManagedTensorVersioned},
};

use crate::{
    array::Array,
    device::{Device, Open},
    elements::{self, by_type},
    error::raise,
    kernels::stream,
};

/// A form of DLPack's tensors, in and out.
pub(crate) trait Tensor: Sized {
    /// The name of a capsule with a tensor.
    const NAME: &'static CStr;
    /// Its name when somebody has taken the tensor.
    const USED: &'static CStr;

    /// What gives it back.
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;

    /// What the tensor is, if it is of a version that is read.
    ///
    /// # Safety
    /// `tensor` must point to a tensor as DLPack says, which outlives `'a`.
    unsafe fn description<'a>(tensor: *const Self) -> PyResult<&'a dlpack::Tensor>;

    /// Takes the tensor, or leaves it to the caller with an error.
    ///
    /// # Safety
    /// As [`Buffer::from_dlpack`].
    unsafe fn take<T: Element>(open: &Open, tensor: *mut Self) -> warpfold::Result<Buffer<T>>;
}

impl Tensor for ManagedTensor {
    const NAME: &'static CStr = c"dltensor";
    const USED: &'static CStr = c"used_dltensor";

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }

    unsafe fn description<'a>(tensor: *const Self) -> PyResult<&'a dlpack::Tensor> {
        // SAFETY: the caller's contract.
        Ok(unsafe { &(*tensor).dl_tensor })
    }

    unsafe fn take<T: Element>(open: &Open, tensor: *mut Self) -> warpfold::Result<Buffer<T>> {
        // SAFETY: the caller's contract.
        unsafe { Buffer::from_dlpack(&open.device, tensor) }
    }
}

impl Tensor for ManagedTensorVersioned {
    const NAME: &'static CStr = c"dltensor_versioned";
    const USED: &'static CStr = c"used_dltensor_versioned";

    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }

    unsafe fn description<'a>(tensor: *const Self) -> PyResult<&'a dlpack::Tensor> {
        // SAFETY: the version is where it is in every version; the caller's contract.
        let [major, minor] = unsafe { (*tensor).version };
        if major != dlpack::MAJOR {
            return Err(PyValueError::new_err(format!(
                "a tensor of DLPack's version {major}.{minor}; it must be {}; give it by `max_version`",
                dlpack::MAJOR
            )));
        }
        // SAFETY: of this version it has the layout of the struct; the caller's contract.
        Ok(unsafe { &(*tensor).dl_tensor })
    }

    unsafe fn take<T: Element>(open: &Open, tensor: *mut Self) -> warpfold::Result<Buffer<T>> {
        // SAFETY: the caller's contract.
        unsafe { Buffer::from_dlpack_versioned(&open.device, tensor) }
    }
}

/// The array of a capsule of DLPack's, which is taken: its owner has it back when the array and all
/// reductions of it are gone.
#[pyfunction]
pub(crate) fn borrow_dlpack(device: &Device, capsule: &Bound<'_, PyAny>) -> PyResult<Array> {
    let taken = match take::<ManagedTensor>(&device.0, capsule) {
        None => take::<ManagedTensorVersioned>(&device.0, capsule),
        taken => taken,
    };
    taken.unwrap_or_else(|| {
        let reason =
            "`__dlpack__` has given no tensor that is still to be taken; it must give a new one";
        Err(PyTypeError::new_err(reason))
    })
}

/// Takes the tensor out of a capsule, if it has one of this form.
fn take<M: Tensor>(open: &Arc<Open>, capsule: &Bound<'_, PyAny>) -> Option<PyResult<Array>> {
    // SAFETY: any object will do, and the name is a string.
    if unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), M::NAME.as_ptr()) } != 1 {
        return None;
    }
    let taken = || {
        // SAFETY: the capsule is of this name.
        let tensor =
            unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), M::NAME.as_ptr()) }.cast::<M>();
        // SAFETY: a capsule of this name has such a tensor, which lives until it is taken, below.
        let description = unsafe { M::description(tensor) }?;
        let dtype = description.dtype;
        elements::require(dtype)?;
        let dimensions = usize::try_from(description.ndim).unwrap_or(0);
        let shape = if dimensions == 0 || description.shape.is_null() {
            Vec::new()
        } else {
            // SAFETY: a tensor's shape has so many numbers.
            let shape = unsafe { slice::from_raw_parts(description.shape, dimensions) };
            // That none is negative is looked at when the tensor is taken.
            shape.iter().map(|&count| usize::try_from(count).unwrap_or(0)).collect()
        };
        let bytes = by_type!(
            dtype,
            T => {
                // SAFETY:
                // - The tensor is ours: no other thread runs Python meanwhile that could take it from
                //   the capsule, and below the capsule is renamed, so that nobody does later.
                // - Its deleter may be called on any thread, as DLPack asks; Python's libraries take
                //   the interpreter's lock there, which no thread holds that waits for one of ours.
                // - The elements are there until then. By the protocol what writes them precedes what
                //   is enqueued on the stream that `__dlpack__` was given, which is the one that
                //   reductions are enqueued on; later writes of the owner are enqueued behind.
                unsafe { M::take::<T>(open, tensor) }.and_then(|buffer| buffer.cast::<u8>())
            },
            unreachable!("the type was looked at")
        );
        let bytes = bytes.map_err(raise)?;
        // SAFETY: the capsule is valid, and the name lives for ever.
        unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), M::USED.as_ptr()) };
        Ok(Array::new(open, bytes, dtype, shape))
    };
    Some(taken())
}

/// What the array interface says of an array, on a device or on the host.
struct Interface {
    dtype: DataType,
    shape: Vec<usize>,
    address: usize,
    bytes: usize,
}

impl Interface {
    /// Reads it. Of an array that is not contiguous it says what to do.
    fn read(interface: &Bound<'_, PyDict>, dtype: Option<&str>) -> PyResult<Self> {
        let lacks =
            |key: &str| PyTypeError::new_err(format!("an array interface without `{key}`; give one"));
        let get = |key: &str| interface.get_item(key)?.ok_or_else(|| lacks(key));
        let dtype = match dtype {
            Some(name) => elements::named(name)?,
            None => elements::of_interface(&get("typestr")?.extract::<String>()?)?,
        };
        let shape: Vec<usize> = get("shape")?.extract()?;
        let size = elements::size(dtype);
        let bytes = shape.iter().try_fold(size, |all, &count| all.checked_mul(count));
        let bytes = bytes.ok_or_else(|| {
            PyValueError::new_err(format!(
                "an array of the shape {shape:?}; give one that fits into memory"
            ))
        })?;
        let strides = interface.get_item("strides")?.filter(|strides| !strides.is_none());
        if let Some(strides) = strides {
            let strides: Vec<isize> = strides.extract()?;
            let mut expected = size as isize;
            let compact = shape.iter().zip(&strides).rev().all(|(&count, &stride)| {
                let fits = count == 1 || stride == expected;
                expected *= count as isize;
                fits
            });
            if bytes > size && !(compact && shape.len() == strides.len()) {
                return Err(PyValueError::new_err(format!(
                    "an array of the shape {shape:?} whose strides are {strides:?} bytes; it must be \
                     contiguous; call `ascontiguousarray` first"
                )));
            }
        }
        let (address, _): (usize, bool) = get("data")?.extract()?;
        Ok(Self { dtype, shape, address, bytes })
    }
}

/// The array of an object that has a `__cuda_array_interface__`, which is given here as well. What
/// the stream `handle` gets from now on waits for the array's elements.
#[pyfunction]
pub(crate) fn borrow_cuda_array(
    py: Python<'_>,
    device: &Device,
    owner: Py<PyAny>,
    interface: &Bound<'_, PyDict>,
    handle: usize,
) -> PyResult<Array> {
    let open = &device.0;
    let Interface { dtype, shape, address, bytes } = Interface::read(interface, None)?;
    require_memory(py, open, address, bytes)?;
    let theirs = interface.get_item("stream")?.filter(|stream| !stream.is_none());
    if let Some(theirs) = theirs {
        let theirs: usize = theirs.extract()?;
        if theirs != handle {
            // SAFETY: as `kernels::stream` says; the owner keeps its own.
            let (ours, theirs) = unsafe { (stream(open, handle)?, stream(open, theirs)?) };
            py.detach(|| ours.wait_for(&theirs)).map_err(raise)?;
        }
    }
    // SAFETY:
    // - The elements are there as long as their owner, by the interface, and the owner is kept.
    // - What writes them precedes what the owner's stream has now, for which ours waits; if it names
    //   none, nothing has to be waited for.
    // - `Py` may be dropped on any thread: without the interpreter's lock that is put off.
    let bytes = unsafe { Buffer::from_raw_parts(&open.device, address as u64, bytes, owner) };
    Ok(Array::new(open, bytes.map_err(raise)?, dtype, shape))
}

/// Refuses what is not in the memory of a device: the array interface does not say where it is.
fn require_memory(py: Python<'_>, open: &Open, address: usize, bytes: usize) -> PyResult<()> {
    let ours = open.device.info().ordinal;
    let known = || if bytes == 0 { Ok(Some(ours)) } else { open.device.ordinal_of(address as u64) };
    let reason = match py.detach(known).map_err(raise)? {
        Some(ordinal) if ordinal == ours => return Ok(()),
        Some(ordinal) => {
            format!("it is on device {ordinal}, not {ours}; give its device, as by device=\"cuda:1\"")
        }
        None => format!("its address {address:#x} is on no device; give an array in device memory"),
    };
    Err(PyValueError::new_err(format!("an array by the CUDA array interface: {reason}")))
}

/// A copy of a NumPy array in device memory. `dtype` says what its elements are if NumPy has no name for
/// it.
#[pyfunction]
#[pyo3(signature = (device, array, dtype=None))]
pub(crate) fn upload(device: &Device, array: &Bound<'_, PyAny>, dtype: Option<&str>) -> PyResult<Array> {
    let open = &device.0;
    let interface = array.getattr("__array_interface__")?;
    let Interface { dtype, shape, address, bytes } = Interface::read(interface.cast()?, dtype)?;
    let bytes: &[u8] = if bytes == 0 {
        &[]
    } else {
        // SAFETY:
        // - NumPy's array has so many bytes at the address, and is borrowed until this returns.
        // - Nothing writes them meanwhile: no other thread runs Python until the copy is over, and one
        //   that writes an array without the interpreter's lock that others read breaks NumPy's rules.
        unsafe { slice::from_raw_parts(std::ptr::with_exposed_provenance(address), bytes) }
    };
    let bytes = open.device.upload(bytes).map_err(raise)?;
    Ok(Array::new(open, bytes, dtype, shape))
}
