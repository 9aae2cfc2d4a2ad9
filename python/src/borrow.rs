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
    dlpack::{self, Layout, ManagedTensor, ManagedTensorVersioned},
};

use crate::{
    array::{self, Array},
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
    /// As [`Buffer::from_dlpack_strided`].
    unsafe fn take<T: Element>(open: &Open, tensor: *mut Self) -> warpfold::Result<(Buffer<T>, Layout)>;
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

    unsafe fn take<T: Element>(open: &Open, tensor: *mut Self) -> warpfold::Result<(Buffer<T>, Layout)> {
        // SAFETY: the caller's contract.
        unsafe { Buffer::from_dlpack_strided(&open.device, tensor) }
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

    unsafe fn take<T: Element>(open: &Open, tensor: *mut Self) -> warpfold::Result<(Buffer<T>, Layout)> {
        // SAFETY: the caller's contract.
        unsafe { Buffer::from_dlpack_versioned_strided(&open.device, tensor) }
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
        let taken = by_type!(
            dtype,
            T => {
                // SAFETY:
                // - The tensor is ours: no other thread runs Python meanwhile that could take it from
                //   the capsule, and below the capsule is renamed, so that nobody does later.
                // - Its deleter may be called on any thread, as DLPack asks; Python's libraries take
                //   the interpreter's lock there, which no thread holds that waits for one of ours.
                // - The elements are there until then. By the protocol what writes them precedes what
                //   is enqueued on the stream that `__dlpack__` was given, which is the one that
                //   reductions are enqueued on; later writes of the owner are enqueued behind. What lies
                //   between a tensor's elements is not read by a reduction; `Array::numpy` copies it,
                //   and leaves it out.
                unsafe { M::take::<T>(open, tensor) }
                    .and_then(|(buffer, layout)| Ok((buffer.cast::<u8>()?, layout)))
            },
            unreachable!("the type was looked at")
        );
        let (bytes, layout) = taken.map_err(raise)?;
        // SAFETY: the capsule is valid, and the name lives for ever.
        unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), M::USED.as_ptr()) };
        Ok(Array::strided(open, bytes, Layout { dtype, ..layout }))
    };
    Some(taken())
}

/// The array of another library's tensor, whose owner says where its first element is, and how many
/// elements lie between those of each dimension. `None` of a tensor that cannot be borrowed so: who it
/// belongs to can say why.
///
/// The package's Python files ask for what they know to be on this device, in order on the stream on
/// which it is reduced.
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
    // - The elements are there as long as their owner, which is kept.
    // - The package's Python files give what they have just asked the owner for, on this device; what
    //   writes it is enqueued before on the stream on which it is reduced, and later writes behind.
    // - `Py` may be dropped on any thread: without the interpreter's lock that is put off.
    let bytes = unsafe { Buffer::from_raw_parts(&open.device, address, bytes, owner) };
    Ok(Some(Array::strided(open, bytes.map_err(raise)?, layout)))
}

/// What the array interface says of an array, on a device or on the host.
struct Interface {
    layout: Layout,
    address: usize,
    /// From the first element to the end of the last one.
    bytes: usize,
}

impl Interface {
    /// Reads it. Of an array that cannot be reduced as it is it says what to do.
    fn read(interface: &Bound<'_, PyDict>, dtype: Option<&str>) -> PyResult<Self> {
        let lacks =
            |key: &str| PyTypeError::new_err(format!("an array interface without `{key}`; give one"));
        let get = |key: &str| interface.get_item(key)?.ok_or_else(|| lacks(key));
        if interface.get_item("mask")?.is_some_and(|mask| !mask.is_none()) {
            let reason = "an array interface with a mask; masks are not looked at; put a number that \
                          changes nothing where it masks, and give the array without it";
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
                "an array of the shape {shape}; give one that fits into memory"
            ))
        })?;
        let (address, _): (usize, bool) = get("data")?.extract()?;
        Ok(Self { layout, address, bytes })
    }
}

/// Takes strides in bytes in the place of those of compact rows, wherever somebody steps.
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
        "an array of the shape {shape} whose strides are {bytes} bytes; they must be multiples of {size} above \
         zero, one for each dimension; call `ascontiguousarray` first"
    )))
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
    let Interface { layout, address, bytes } = Interface::read(interface, None)?;
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
    Ok(Array::strided(open, bytes.map_err(raise)?, layout))
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

/// A copy of a NumPy array of compact rows in device memory. `dtype` says what its elements are if NumPy
/// has no name for it.
#[pyfunction]
#[pyo3(signature = (device, array, dtype=None))]
pub(crate) fn upload(device: &Device, array: &Bound<'_, PyAny>, dtype: Option<&str>) -> PyResult<Array> {
    let open = &device.0;
    let interface = array.getattr("__array_interface__")?;
    let Interface { layout, address, bytes } = Interface::read(interface.cast()?, dtype)?;
    array::require_compact(&layout)?;
    let bytes: &[u8] = if bytes == 0 {
        &[]
    } else {
        // SAFETY:
        // - NumPy's array has `bytes` bytes at the address, and is borrowed until this returns.
        // - Nothing writes them meanwhile: no other thread runs Python until the copy is over, and one
        //   that writes an array without the interpreter's lock that others read breaks NumPy's rules.
        unsafe { slice::from_raw_parts(std::ptr::with_exposed_provenance(address), bytes) }
    };
    let bytes = open.device.upload(bytes).map_err(raise)?;
    Ok(Array::strided(open, bytes, layout))
}
