//! Arrays of other libraries: device memory is borrowed, host memory is copied to a device once.

use std::{ffi::CStr, slice, sync::Arc};

use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    ffi,
    prelude::*,
    sync::critical_section::with_critical_section,
    types::{IntoPyDict, PyDict},
};
use warpfold::{
    Buffer,
    dlpack::{self, Layout, Managed, ManagedTensor, ManagedTensorVersioned},
};

use crate::{
    array::{self, Array},
    device::{Device, Open},
    elements::{self, by_type},
    error::raise,
    kernels::idle_stream,
};

pub(crate) trait Tensor: Managed {
    /// The name of a capsule with a tensor.
    const NAME: &'static CStr;
    /// The name of a capsule whose tensor has been taken.
    const USED: &'static CStr;

    /// Returns the tensor's description, or an error for an unsupported version.
    ///
    /// # Safety
    /// `tensor` must point to a valid DLPack tensor, which outlives `'a`.
    unsafe fn description<'a>(tensor: *const Self) -> PyResult<&'a dlpack::Tensor>;
}

impl Tensor for ManagedTensor {
    const NAME: &'static CStr = c"dltensor";
    const USED: &'static CStr = c"used_dltensor";

    unsafe fn description<'a>(tensor: *const Self) -> PyResult<&'a dlpack::Tensor> {
        // SAFETY: by this function's contract, `tensor` is valid for `'a`.
        Ok(unsafe { &(*tensor).dl_tensor })
    }
}

impl Tensor for ManagedTensorVersioned {
    const NAME: &'static CStr = c"dltensor_versioned";
    const USED: &'static CStr = c"used_dltensor_versioned";

    unsafe fn description<'a>(tensor: *const Self) -> PyResult<&'a dlpack::Tensor> {
        // SAFETY: `tensor` is valid, and every DLPack version has its number at the same offset.
        let [major, minor] = unsafe { (*tensor).version };
        if major != dlpack::MAJOR {
            return Err(PyValueError::new_err(format!(
                "the tensor has DLPack version {major}.{minor}; it must be {}; request it by \
                 `max_version`",
                dlpack::MAJOR
            )));
        }
        // SAFETY: `tensor` is valid by this function's contract; this version has the struct's layout.
        Ok(unsafe { &(*tensor).dl_tensor })
    }
}

/// Borrows an array by DLPack's protocol, for work on a stream. The tensor's deleter is called when the
/// array and its reductions have been dropped.
#[pyfunction]
pub(crate) fn borrow_dlpack(
    device: &Device,
    values: &Bound<'_, PyAny>,
    stream: &Bound<'_, PyAny>,
) -> PyResult<Array> {
    let py = values.py();
    let arguments = [("stream", stream)].into_py_dict(py)?;
    let capsule = &values.call_method("__dlpack__", (), Some(&arguments))?;
    let taken = match take::<ManagedTensor>(&device.0, capsule) {
        None => take::<ManagedTensorVersioned>(&device.0, capsule),
        taken => taken,
    };
    taken.unwrap_or_else(|| {
        let reason =
            "`__dlpack__` returned a capsule without a tensor, or one that was consumed before; it must \
             return a new one";
        Err(PyTypeError::new_err(reason))
    })
}

/// Takes the tensor out of a capsule; `None` if the capsule is not of this form. After an error the
/// capsule still owns the tensor.
fn take<M: Tensor>(open: &Arc<Open>, capsule: &Bound<'_, PyAny>) -> Option<PyResult<Array>> {
    let tensor = claim::<M>(capsule)?;
    // SAFETY: this call has claimed the tensor, which is a valid `M`.
    let taken = unsafe { borrow(open, tensor) };
    if taken.is_err() {
        // SAFETY: the object is a capsule, and the name is static.
        unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), M::NAME.as_ptr()) };
    }
    Some(taken)
}

/// Marks a capsule's tensor as taken and returns it; `None` if the capsule is not of this form.
///
/// A correct `__dlpack__` returns a new capsule, which only this call has. If it returns the same one to
/// several threads, only one of them claims the tensor: no Python code runs between the check and the
/// renaming, and without a GIL the critical section excludes the other threads.
fn claim<M: Tensor>(capsule: &Bound<'_, PyAny>) -> Option<*mut M> {
    with_critical_section(capsule, || {
        let capsule = capsule.as_ptr();
        // SAFETY: the first function accepts any object; the others are called only if it is a capsule
        // with the name. The names are static.
        unsafe {
            if ffi::PyCapsule_IsValid(capsule, M::NAME.as_ptr()) != 1 {
                return None;
            }
            let tensor = ffi::PyCapsule_GetPointer(capsule, M::NAME.as_ptr()).cast::<M>();
            ffi::PyCapsule_SetName(capsule, M::USED.as_ptr());
            Some(tensor)
        }
    })
}

/// Borrows a tensor until the array and its reductions have been dropped.
///
/// # Safety
/// `tensor` must point to a valid DLPack tensor, which belongs to this call, and after an error to its
/// caller again.
unsafe fn borrow<M: Tensor>(open: &Arc<Open>, tensor: *mut M) -> PyResult<Array> {
    // SAFETY: by this function's contract, the tensor is valid; the type is copied.
    let dtype = unsafe { M::description(tensor) }?.dtype;
    elements::require(dtype)?;
    let taken = by_type!(
        dtype,
        T => {
            // SAFETY:
            // - The tensor belongs to this call. An error leaves it to the caller.
            // - The deleter may be called on any thread, as DLPack requires. Deleters of Python
            //   libraries attach to the interpreter, for which they wait for the GIL, or without one for
            //   the end of a pause of all threads; no attached thread waits for a thread of this
            //   library.
            // - The elements are valid until the deleter is called. By the protocol, earlier writes
            //   precede the work enqueued on the stream given to `__dlpack__`, and reductions are
            //   enqueued on that stream; the owner enqueues later writes after them. Reductions do not
            //   read the gaps between elements; `Array::numpy` copies the gaps and discards them.
            unsafe { Buffer::<T>::from_dlpack_strided(&open.device, tensor) }
                .map(|(buffer, layout)| (buffer.cast::<u8>().expect("elements are bytes"), layout))
        },
        unreachable!("the type was looked at")
    );
    let (bytes, layout) = taken.map_err(raise)?;
    Ok(Array::strided(open, bytes, Layout { dtype, ..layout }))
}

/// Borrows another library's tensor, given the address of its first element and its strides in elements.
/// Returns `None` for a tensor that cannot be borrowed this way; the caller reports the reason.
///
/// The package's Python files pass only tensors that are on this device and whose writes are ordered on
/// the stream of the reduction.
#[pyfunction]
pub(crate) fn borrow_tensor(
    device: &Device,
    owner: Py<PyAny>,
    address: u64,
    dtype: &str,
    shape: Vec<usize>,
    strides: Vec<isize>,
) -> PyResult<Option<Array>> {
    let open = &device.0;
    let mut layout = Layout::compact(elements::named(dtype)?, shape);
    let size = elements::size(layout.dtype);
    let bytes: Option<Vec<isize>> =
        strides.iter().map(|stride| stride.checked_mul(size.cast_signed())).collect();
    let is_taken = bytes.is_some_and(|bytes| take_steps(&mut layout, &bytes).is_ok());
    let Some(bytes) = layout.bytes().filter(|_| is_taken && address.is_multiple_of(size as u64)) else {
        return Ok(None);
    };
    // SAFETY:
    // - The elements live as long as their owner, which the buffer keeps.
    // - The package's Python files have just queried the owner for these values, on this device; earlier
    //   writes precede the reduction on its stream, and later writes are enqueued after it.
    // - `Py` may be dropped on any thread: on one that is not attached to the interpreter, the release
    //   is deferred.
    let bytes = unsafe { Buffer::from_raw_parts(&open.device, address, bytes, owner) };
    Ok(Some(Array::strided(open, bytes.map_err(raise)?, layout)))
}

/// A parsed array interface, of device or host memory.
struct Interface {
    layout: Layout,
    address: usize,
    bytes: usize,
}

impl Interface {
    /// Parses an interface. `dtype` replaces its `typestr`, if given.
    fn read(interface: &Bound<'_, PyDict>, dtype: Option<&str>) -> PyResult<Self> {
        let lacks =
            |key: &str| PyTypeError::new_err(format!("the array interface has no `{key}`; add one"));
        let get = |key: &str| interface.get_item(key)?.ok_or_else(|| lacks(key));
        if interface.get_item("mask")?.is_some_and(|mask| !mask.is_none()) {
            let reason = "the array interface has a mask; masks are not supported; replace the masked \
                          elements by a number that changes nothing, and give the array without the \
                          mask";
            return Err(PyValueError::new_err(reason));
        }
        let dtype = match dtype {
            Some(name) => elements::named(name)?,
            None => elements::of_interface(&get("typestr")?.extract::<String>()?)?,
        };
        let shape: Vec<usize> = get("shape")?.extract()?;
        let strides = interface.get_item("strides")?.filter(|strides| !strides.is_none());
        let strides: Option<Vec<isize>> = strides.map(|strides| strides.extract()).transpose()?;
        let mut layout = Layout::compact(dtype, shape);
        if let Some(strides) = strides {
            take_steps(&mut layout, &strides)?;
        }
        let bytes = layout.bytes().ok_or_else(|| {
            let shape = elements::tuple(&layout.shape);
            PyValueError::new_err(format!(
                "an array of the shape {shape} does not fit into memory; give a smaller one"
            ))
        })?;
        let (address, _): (usize, bool) = get("data")?.extract()?;
        Ok(Self { layout, address, bytes })
    }
}

/// Sets the strides of a C-contiguous layout from strides in bytes. Dimensions of one element keep their
/// strides.
fn take_steps(layout: &mut Layout, bytes: &[isize]) -> PyResult<()> {
    let Layout { dtype, shape, strides } = layout;
    if shape.contains(&0) {
        return Ok(());
    }
    let size = elements::size(*dtype);
    let steps = bytes.iter().map(|&stride| {
        usize::try_from(stride).ok().filter(|&stride| stride > 0 && stride.is_multiple_of(size))
    });
    let fits = strides.iter_mut().zip(&*shape).zip(steps).all(|((own, &count), step)| {
        if count > 1 {
            *own = step.unwrap_or(0) / size;
        }
        count == 1 || step.is_some()
    });
    if fits && bytes.len() == shape.len() {
        return Ok(());
    }
    let (shape, bytes) = (elements::tuple(shape), elements::tuple(bytes));
    Err(PyValueError::new_err(format!(
        "an array of the shape {shape} has strides of {bytes} bytes; they must be multiples of {size} \
         above zero, one for each dimension; call `ascontiguousarray` first"
    )))
}

/// Borrows the memory of an object by its `__cuda_array_interface__`, which the caller passes as
/// `interface`. From now on, work enqueued on the stream `handle` waits for the elements.
#[pyfunction]
pub(crate) fn borrow_cuda_array(
    py: Python<'_>,
    device: &Device,
    owner: Py<PyAny>,
    interface: &Bound<'_, PyDict>,
    handle: usize,
) -> PyResult<Array> {
    let open = &device.0;
    let Interface { layout, address, bytes } = Interface::read(interface, None)?;
    require_memory(py, open, address, bytes)?;
    let theirs = interface.get_item("stream")?.filter(|stream| !stream.is_none());
    if let Some(theirs) = theirs {
        let theirs: usize = theirs.extract()?;
        if theirs != handle {
            // SAFETY: as `kernels::idle_stream` requires, the owner keeps its stream alive.
            let (ours, theirs) = unsafe { (idle_stream(open, handle)?, idle_stream(open, theirs)?) };
            py.detach(|| ours.wait_for(&theirs)).map_err(raise)?;
        }
    }
    // SAFETY:
    // - By the interface's contract the elements live as long as their owner, which the buffer keeps.
    // - Their writes precede the present end of the owner's stream, for which this stream waits. If the
    //   interface names no stream, no wait is needed.
    // - `Py` may be dropped on any thread: on one that is not attached to the interpreter, the release
    //   is deferred.
    let bytes = unsafe { Buffer::from_raw_parts(&open.device, address as u64, bytes, owner) };
    Ok(Array::strided(open, bytes.map_err(raise)?, layout))
}

/// Returns an error for memory that is not on this device; the array interface does not name the device.
fn require_memory(py: Python<'_>, open: &Open, address: usize, bytes: usize) -> PyResult<()> {
    let ours = open.device.info().ordinal;
    let known = || if bytes == 0 { Ok(Some(ours)) } else { open.device.ordinal_of(address as u64) };
    let reason = match py.detach(known).map_err(raise)? {
        Some(ordinal) if ordinal == ours => return Ok(()),
        Some(ordinal) => {
            format!(
                "it is on device {ordinal}, not {ours}; give its device, for example device=\"cuda:1\""
            )
        }
        None => format!("its address {address:#x} is not on a device; give an array in device memory"),
    };
    Err(PyValueError::new_err(format!("an array by the CUDA array interface: {reason}")))
}

/// Copies a C-contiguous NumPy array to device memory. `dtype` is the element type if NumPy has no name
/// for it.
#[pyfunction]
#[pyo3(signature = (device, array, dtype=None))]
pub(crate) fn upload(device: &Device, array: &Bound<'_, PyAny>, dtype: Option<&str>) -> PyResult<Array> {
    let open = &device.0;
    let array = HostArray::read(array, dtype)?;
    // SAFETY: nothing writes the elements meanwhile. With the GIL, no other thread runs Python code
    // until the copy has finished. Without it, NumPy's own functions read arrays without a lock, too:
    // its rule is that programs do not write to an array while another thread reads it.
    let bytes = open.device.upload(unsafe { array.elements() }).map_err(raise)?;
    Ok(Array::strided(open, bytes, array.layout))
}

/// A C-contiguous NumPy array, which is borrowed.
pub(crate) struct HostArray<'a, 'py> {
    pub(crate) layout: Layout,
    address: usize,
    bytes: usize,
    /// The array, which keeps its memory.
    _owner: &'a Bound<'py, PyAny>,
}

impl<'a, 'py> HostArray<'a, 'py> {
    /// Borrows an array. `dtype` is the element type if NumPy has no name for it.
    pub(crate) fn read(array: &'a Bound<'py, PyAny>, dtype: Option<&str>) -> PyResult<Self> {
        let interface = array.getattr("__array_interface__")?;
        let Interface { layout, address, bytes } = Interface::read(interface.cast()?, dtype)?;
        array::require_compact(&layout)?;
        Ok(Self { layout, address, bytes, _owner: array })
    }

    /// Returns the bytes of the elements.
    ///
    /// # Safety
    /// Nothing may write the elements as long as the bytes are used.
    pub(crate) unsafe fn elements(&self) -> &'a [u8] {
        if self.bytes == 0 {
            return &[];
        }
        // SAFETY: NumPy's array has `bytes` bytes at the address, and is borrowed for `'a`; NumPy does
        // not resize an array to which there are several references, unless the program vouches for them
        // by `refcheck=False`. By this function's contract, nothing writes them meanwhile.
        unsafe { slice::from_raw_parts(std::ptr::with_exposed_provenance(self.address), self.bytes) }
    }
}
