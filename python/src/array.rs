//! Arrays in device memory.

use std::sync::Arc;

use pyo3::{
    basic::CompareOp,
    exceptions::{PyAttributeError, PyBufferError, PyIndexError, PyTypeError, PyValueError},
    ffi,
    prelude::*,
    types::{PyBool, PyByteArray, PyBytes, PyDict, PyInt, PyIterator, PyRange, PyTuple},
};
use warpfold::{
    Buffer,
    dlpack::{self, DataType, Layout, ManagedTensor, ManagedTensorVersioned},
};

use crate::{
    borrow::Tensor,
    device::{Device, Open},
    elements,
    error::raise,
};

/// An immutable array in device memory: uploaded by `warpfold.asarray`, or the result of a reduction.
/// Other libraries take it without a copy, by DLPack or the CUDA array interface.
#[pyclass(frozen, module = "warpfold")]
pub(crate) struct Array {
    pub(crate) open: Arc<Open>,
    /// The memory from the first element on, including gaps between the elements.
    pub(crate) bytes: Buffer<u8>,
    pub(crate) layout: Layout,
}

pub(crate) fn require_compact(layout: &Layout) -> PyResult<()> {
    if layout.is_compact() {
        return Ok(());
    }
    let (shape, strides) = (elements::tuple(&layout.shape), elements::tuple(&layout.strides));
    Err(PyValueError::new_err(format!(
        "an array of the shape {shape} has strides of {strides} elements; it must be contiguous here; \
         make it contiguous in its library, as `contiguous()` or `ascontiguousarray` do, or call \
         `warpfold.asarray(array.numpy())`"
    )))
}

impl Array {
    /// Creates a C-contiguous array; `bytes` has exactly its elements.
    pub(crate) fn new(open: &Arc<Open>, bytes: Buffer<u8>, dtype: DataType, shape: Vec<usize>) -> Self {
        Self::strided(open, bytes, Layout::compact(dtype, shape))
    }

    pub(crate) fn strided(open: &Arc<Open>, bytes: Buffer<u8>, layout: Layout) -> Self {
        Self { open: open.clone(), bytes, layout }
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.shape.iter().product()
    }

    /// Returns an array over the memory from the element `start` on, up to the last element of `layout`.
    fn part(&self, layout: Layout, start: usize) -> PyResult<Self> {
        let start = start.saturating_mul(elements::size(layout.dtype));
        // Without a number of bytes, the layout exceeds any memory.
        let end = layout.bytes().and_then(|bytes| start.checked_add(bytes)).unwrap_or(usize::MAX);
        let bytes = self.bytes.slice(start..end).map_err(raise)?;
        Ok(Self::strided(&self.open, bytes, layout))
    }

    /// Waits for the elements and returns a copy in C order.
    fn gathered(&self) -> warpfold::Result<Vec<u8>> {
        let Layout { dtype, shape, strides } = &self.layout;
        let (size, len) = (elements::size(*dtype), self.len());
        // The buffer may extend past the end of the last element.
        let bytes = self.bytes.download()?;
        if self.layout.is_compact() {
            return Ok(bytes[..len * size].to_vec());
        }
        let mut gathered = Vec::with_capacity(len * size);
        let mut index = vec![0; shape.len()];
        for _ in 0..len {
            let at: usize = index.iter().zip(strides).map(|(index, stride)| index * stride).sum();
            gathered.extend_from_slice(&bytes[at * size..(at + 1) * size]);
            for (index, &count) in index.iter_mut().zip(shape).rev() {
                *index += 1;
                if *index < count {
                    break;
                }
                *index = 0;
            }
        }
        Ok(gathered)
    }
}

#[pymethods]
impl Array {
    /// The number of elements along each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.layout.shape)
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.layout.shape.len()
    }

    #[getter]
    fn size(&self) -> usize {
        self.len()
    }

    /// The name of the elements' type, such as `float32`.
    #[getter]
    fn dtype(&self) -> String {
        elements::name(self.layout.dtype)
    }

    /// The device that holds the array.
    #[getter]
    fn device(&self) -> Device {
        Device(self.open.clone())
    }

    fn __len__(&self) -> PyResult<usize> {
        let none = || PyTypeError::new_err("an array of no dimensions has no length; use `item()`");
        self.layout.shape.first().copied().ok_or_else(none)
    }

    /// Returns the part with an index along the first axis, or with a tuple of indices, over the same
    /// memory. Neither copies nor waits.
    fn __getitem__(&self, index: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Layout { dtype, shape, strides } = &self.layout;
        let indices = match index.cast::<PyTuple>() {
            Ok(indices) => indices.iter().collect(),
            Err(_) => vec![index.clone()],
        };
        let indices = indices.iter().map(integer).collect::<PyResult<Vec<_>>>()?;
        let (given, axes) = (indices.len(), shape.len());
        if given > axes {
            let shape = elements::tuple(shape);
            return Err(PyIndexError::new_err(format!(
                "{given} indices of an array of the shape {shape}; give at most {axes}, one for each axis"
            )));
        }
        let mut start = 0;
        for (axis, (index, (&len, stride))) in indices.iter().zip(shape.iter().zip(strides)).enumerate()
        {
            start += resolved(index, axis, len)? * stride;
        }
        let layout =
            Layout { dtype: *dtype, shape: shape[given..].to_vec(), strides: strides[given..].to_vec() };
        // Memory of no elements has no address.
        self.part(layout, if self.len() == 0 { 0 } else { start })
    }

    /// Returns an iterator over the parts along the first axis.
    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyIterator>> {
        Self::parts(slf, "iter")
    }

    fn __reversed__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyIterator>> {
        Self::parts(slf, "reversed")
    }

    /// Returns whether any element equals a value, as NumPy does. Waits for the elements.
    fn __contains__(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        Self::numpy(slf)?.contains(value)
    }

    /// Waits for the elements and returns them as Python numbers, in nested lists.
    fn tolist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::numpy(slf)?.call_method0("tolist")
    }

    /// Returns the function that restores the array for `pickle` and `copy`, and its arguments: the
    /// elements in host memory, in C order, and the device's name.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let (py, array) = (slf.py(), slf.get());
        let gathered = py.detach(|| array.gathered()).map_err(raise)?;
        let bytes = PyBytes::new(py, &gathered);
        let arguments = (bytes, array.dtype(), array.shape(py)?, array.device().__str__());
        Ok((py.import("warpfold._homes")?.getattr("restored")?, arguments.into_pyobject(py)?))
    }

    fn __repr__(&self) -> String {
        let shape = &self.layout.shape;
        let device = Device(self.open.clone());
        format!("<warpfold.Array {} {shape:?} on {}>", self.dtype(), device.__str__())
    }

    /// Returns an array over the same memory, with `strides` and `start` in elements. For the package
    /// itself.
    fn _view(
        &self,
        dtype: &str,
        shape: Vec<usize>,
        strides: Option<Vec<usize>>,
        start: usize,
    ) -> PyResult<Self> {
        let dtype = elements::named(dtype)?;
        let layout = match strides {
            None => Layout::compact(dtype, shape),
            Some(strides) => Layout { dtype, shape, strides },
        };
        self.part(layout, start)
    }

    /// For the package itself.
    #[getter]
    fn _is_contiguous(&self) -> bool {
        self.layout.is_compact()
    }

    /// Waits for the elements and returns a copy on the host, in C order.
    fn _bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyByteArray>> {
        let gathered = py.detach(|| self.gathered()).map_err(raise)?;
        Ok(PyByteArray::new(py, &gathered))
    }

    /// Waits for the elements and returns a copy on the host, as a NumPy array. bfloat16 becomes
    /// float32, which has all of its values.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("warpfold._homes")?.call_method1("to_numpy", (slf,))
    }

    /// Waits for the only element and returns it as a Python number.
    fn item<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let array = slf.get();
        if array.len() != 1 {
            let shape = elements::tuple(&array.layout.shape);
            return Err(PyValueError::new_err(format!(
                "`item` of an array of the shape {shape}; it must have one element; use `numpy()`"
            )));
        }
        Self::numpy(slf)?.call_method0("item")
    }

    /// Returns whether the only element is nonzero, as NumPy does.
    fn __bool__(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let array = slf.get();
        if array.len() != 1 {
            let shape = elements::tuple(&array.layout.shape);
            return Err(PyValueError::new_err(format!(
                "the truth value of an array of the shape {shape} is ambiguous; it must have one element; use \
                 `warpfold.any` or `warpfold.all`"
            )));
        }
        Self::item(slf)?.is_truthy()
    }

    /// Returns the only element.
    fn __float__(slf: &Bound<'_, Self>) -> PyResult<f64> {
        Self::number(slf, "float")?.extract()
    }

    /// Returns the only element, truncated.
    fn __int__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let number = Self::number(slf, "int")?;
        slf.py().get_type::<PyInt>().call1((number,))
    }

    /// Returns the only element, rounded to an integer or to `ndigits` digits after the point.
    #[pyo3(signature = (ndigits=None))]
    fn __round__<'py>(
        slf: &Bound<'py, Self>,
        ndigits: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let number = Self::number(slf, "round")?;
        slf.py().import("builtins")?.call_method1("round", (number, ndigits))
    }

    /// Formats the only element. Without a format, arrays with dimensions are formatted by `str`, as in
    /// NumPy.
    fn __format__<'py>(slf: &Bound<'py, Self>, spec: &str) -> PyResult<Bound<'py, PyAny>> {
        if spec.is_empty() && !slf.get().layout.shape.is_empty() {
            return Ok(slf.str()?.into_any());
        }
        Self::number(slf, "format")?.call_method1("__format__", (spec,))
    }

    /// Returns the element of an integer array without dimensions.
    fn __index__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let Layout { dtype, shape, .. } = &slf.get().layout;
        if !(shape.is_empty() && matches!(dtype.code, 0 | 1)) {
            let (dtype, shape) = (elements::name(*dtype), elements::tuple(shape));
            return Err(PyTypeError::new_err(format!(
                "an array of {dtype} of the shape {shape} as an index; it must be an integer of no \
                 dimensions; use `item()`"
            )));
        }
        Self::item(slf)
    }

    /// Waits for the elements and compares them on the host by NumPy. Python's default `==` compares
    /// identities, so no result would equal a number.
    fn __richcmp__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        op: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::numpy(slf)?.rich_compare(other, op)
    }

    /// Returns the array for `numpy.asarray`.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(PyValueError::new_err(
                "the array is on a device; the host needs a copy of it; leave `copy` out",
            ));
        }
        let array = Self::numpy(slf)?;
        match dtype {
            None => Ok(array),
            Some(dtype) => array.call_method1("astype", (dtype,)),
        }
    }

    /// Waits until the elements have been written.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.bytes.slice(..self.bytes.len().min(1))?.download()).map_err(raise)?;
        Ok(())
    }

    /// Returns DLPack's device type and number.
    fn __dlpack_device__(&self) -> (i32, i32) {
        let dlpack::Device { device_type, device_id } = dlpack::Device::of(&self.open.device);
        (device_type, device_id)
    }

    /// Returns a DLPack capsule of the array and makes the consumer's `stream` wait for the elements.
    /// `stream` is a handle, 1 or `None` for the default stream, or -1 not to wait.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<isize>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let here = self.__dlpack_device__();
        let asked = match dl_device.filter(|wanted| *wanted != here) {
            Some(wanted) => Some(format!("device {wanted:?} is requested")),
            None => (copy == Some(true)).then(|| "a copy is requested".to_owned()),
        };
        if let Some(asked) = asked {
            return Err(PyBufferError::new_err(format!(
                "{asked}; the array is exported without a copy, on device {here:?}; use `numpy()` for a \
                 copy on the host"
            )));
        }
        match stream.unwrap_or(0) {
            -1 => {}
            handle @ 0.. => self.precede(py, handle.cast_unsigned())?,
            handle => {
                return Err(PyValueError::new_err(format!(
                    "stream {handle} is not a handle; give 0 or more, or -1 not to wait"
                )));
            }
        }
        let (bytes, layout) = (self.bytes.clone(), self.layout.clone());
        if max_version.is_some_and(|(major, _)| major >= dlpack::MAJOR) {
            capsule::<ManagedTensorVersioned>(py, bytes.into_dlpack_as(layout).map_err(raise)?)
        } else {
            capsule::<ManagedTensor>(py, bytes.into_dlpack_as(layout).map_err(raise)?)
        }
    }

    /// The array's CUDA array interface. The default stream waits for the elements.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Layout { dtype, shape, strides } = &self.layout;
        let kind = match dtype.code {
            0 => "i",
            1 => "u",
            2 => "f",
            6 => "b",
            _ => return Err(PyAttributeError::new_err("the interface has no bfloat16; use DLPack")),
        };
        if self.open.device.info().simulated {
            let reason = "the array is in the simulator's memory, which other libraries cannot read; \
                          use `numpy()`";
            return Err(PyAttributeError::new_err(reason));
        }
        self.precede(py, 0)?;
        let size = elements::size(*dtype);
        let interface = PyDict::new(py);
        interface.set_item("shape", PyTuple::new(py, shape)?)?;
        let order = if size == 1 { "|" } else { "<" };
        interface.set_item("typestr", format!("{order}{kind}{size}"))?;
        let address = if self.len() == 0 { 0 } else { self.bytes.as_device_ptr() };
        // PyTorch rejects arrays that are marked as read-only.
        interface.set_item("data", (address, false))?;
        interface.set_item("version", 3)?;
        interface.set_item("strides", PyTuple::new(py, strides.iter().map(|step| step * size))?)?;
        interface.set_item("stream", 1)?;
        Ok(interface)
    }
}

/// Returns an index as a Python integer.
fn integer<'py>(index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = index.py();
    match py.import("operator")?.call_method1("index", (index,)) {
        // NumPy takes truth values for masks.
        Ok(number) if !index.is_instance_of::<PyBool>() => Ok(number),
        Err(error) if !error.is_instance_of::<PyTypeError>(py) => Err(error),
        _ => {
            let kind = index.get_type().name()?;
            Err(PyTypeError::new_err(format!(
                "an index of type {kind}; there are integers and tuples of integers; call `numpy()` for \
                 slices, `...` and masks"
            )))
        }
    }
}

/// Returns an index along an axis as a number below `len`; negative ones count from the end.
fn resolved(index: &Bound<'_, PyAny>, axis: usize, len: usize) -> PyResult<usize> {
    let number = index.extract::<isize>().ok().and_then(|number| match number {
        0.. => Some(number.cast_unsigned()),
        _ => len.checked_sub(number.unsigned_abs()),
    });
    number.filter(|&number| number < len).ok_or_else(|| {
        let allowed = match len {
            0 => "it has no elements".to_owned(),
            _ => format!("give -{len} to {}", len - 1),
        };
        PyIndexError::new_err(format!("index {index} of axis {axis}, whose length is {len}; {allowed}"))
    })
}

impl Array {
    /// Returns an iterator over the parts along the first axis, in the order of a builtin of Python.
    fn parts<'py>(slf: &Bound<'py, Self>, order: &str) -> PyResult<Bound<'py, PyIterator>> {
        let builtins = slf.py().import("builtins")?;
        let Some(&len) = slf.get().layout.shape.first() else {
            let reason = "an array of no dimensions cannot be iterated over; use `item()`";
            return Err(PyTypeError::new_err(reason));
        };
        let indices = PyRange::new(slf.py(), 0, len.cast_signed())?;
        let indices = builtins.call_method1(order, (indices,))?;
        builtins.call_method1("map", (slf.getattr("__getitem__")?, indices))?.try_iter()
    }

    fn number<'py>(slf: &Bound<'py, Self>, kind: &str) -> PyResult<Bound<'py, PyAny>> {
        let array = slf.get();
        if array.len() != 1 {
            let shape = elements::tuple(&array.layout.shape);
            return Err(PyTypeError::new_err(format!(
                "`{kind}` of an array of the shape {shape}; it must have one element; use `numpy()`"
            )));
        }
        Self::item(slf)
    }

    fn precede(&self, py: Python<'_>, handle: usize) -> PyResult<()> {
        // SAFETY: the handle is that of the default stream, or of the stream that the consumer passed to
        // `__dlpack__` and keeps alive during the call.
        let stream = unsafe { crate::kernels::idle_stream(&self.open, handle) }?;
        py.detach(|| stream.wait_for_elements(&self.bytes)).map_err(raise)
    }
}

/// Returns a tensor to its owner by calling its deleter.
///
/// # Safety
/// The tensor must be alive and must not be used afterwards.
unsafe fn give_back<M: Tensor>(tensor: *mut M) {
    // SAFETY: by this function's contract, the tensor is alive, and nothing uses it afterwards.
    unsafe {
        if let Some(deleter) = (*tensor).deleter() {
            deleter(tensor);
        }
    }
}

/// Creates a capsule that releases its tensor on destruction unless a consumer has taken the tensor.
fn capsule<M: Tensor>(py: Python<'_>, tensor: *mut M) -> PyResult<Bound<'_, PyAny>> {
    unsafe extern "C" fn destroy<M: Tensor>(capsule: *mut ffi::PyObject) {
        // SAFETY: Python calls this once, with the capsule. A consumer that takes the tensor renames the
        // capsule, so that the name no longer matches.
        unsafe {
            if ffi::PyCapsule_IsValid(capsule, M::NAME.as_ptr()) == 1 {
                give_back(ffi::PyCapsule_GetPointer(capsule, M::NAME.as_ptr()).cast::<M>());
            }
        }
    }
    // SAFETY: the pointer is not null and the name is static; the result is a new reference, or null
    // with an exception.
    unsafe {
        let made = ffi::PyCapsule_New(tensor.cast(), M::NAME.as_ptr(), Some(destroy::<M>));
        if made.is_null() {
            give_back(tensor);
        }
        Bound::from_owned_ptr_or_err(py, made)
    }
}
