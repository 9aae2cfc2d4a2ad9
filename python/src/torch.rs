//! Reductions of PyTorch's tensors without Python code between the call and the launch.
//!
//! A call reads its tensor and the current stream by DLPack's exchange API, which PyTorch has since
//! 2.10. Everything that depends only on the tensor's layout and the arguments is cached. The result is
//! allocated by the C interface of `libtorch` for compiled models, so that it is a tensor of PyTorch's
//! allocator.
//!
//! Allocation of a result of no dimensions on an NVIDIA H200 (PyTorch 2.11, 2026-11-28): `torch.empty`
//! takes 2.4 µs. The exchange API takes 1.3 µs, but its tensors wrap foreign memory, for which
//! `record_stream` has no effect. The C interface takes 0.9 µs.
//!
//! The package's Python files serve all other calls.

use std::{
    collections::HashMap,
    ffi::{c_int, c_void},
    hash::{Hash, Hasher},
    mem::{self, MaybeUninit},
    ptr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use libloading::os::unix::{Library, RTLD_LAZY};
use pyo3::{
    exceptions::{PyMemoryError, PyRuntimeError},
    ffi,
    prelude::*,
    types::{PyBool, PyCapsule, PyFloat, PyInt, PyString, PyTuple, PyType},
};
use warpfold::dlpack::{self, DataType, Layout};

use crate::{device, elements, functions::Function, kernels::Prepared};

/// `DLPackExchangeAPI` of DLPack 1.3, in C.
#[repr(C)]
struct ExchangeApi {
    version: [u32; 2],
    previous: *const c_void,
    allocate: *const c_void,
    managed_from_object: *const c_void,
    managed_to_object: *const c_void,
    /// Describes a Python object's tensor without adding a reference to the tensor.
    describe: Option<unsafe extern "C" fn(*mut ffi::PyObject, *mut dlpack::Tensor) -> c_int>,
    /// Finds the current stream of a device.
    current_stream: Option<unsafe extern "C" fn(c_int, i32, *mut *mut c_void) -> c_int>,
}

/// `aoti_torch_empty_strided`: number of dimensions, lengths, strides, element type, device type, device
/// ordinal, and the tensor to set.
type EmptyStrided =
    unsafe extern "C" fn(i64, *const i64, *const i64, i32, i32, i32, *mut *mut c_void) -> i32;

/// `aoti_torch__reinterpret_tensor`: tensor, dimensions, lengths, strides, offset, view of the tensor.
type Reinterpret =
    unsafe extern "C" fn(*mut c_void, i64, *const i64, *const i64, i64, *mut *mut c_void) -> i32;

/// The functions and types of PyTorch that calls use.
pub(crate) struct Torch {
    tensor: Py<PyType>,
    describe: unsafe extern "C" fn(*mut ffi::PyObject, *mut dlpack::Tensor) -> c_int,
    current_stream: unsafe extern "C" fn(c_int, i32, *mut *mut c_void) -> c_int,
    empty_strided: EmptyStrided,
    reinterpret: Reinterpret,
    data_ptr: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> i32,
    /// The number of CUDA as a device type.
    cuda: i32,
    delete: unsafe extern "C" fn(*mut c_void) -> i32,
    wrap: unsafe extern "C" fn(*const c_void) -> *mut ffi::PyObject,
    /// The type of parameters, which have the memory of a tensor.
    parameter: Py<PyAny>,
    is_grad_enabled: Py<PyAny>,
    /// Returns the number of active dispatch modes, which must see all operators.
    count_modes: Py<PyAny>,
    /// Returns whether transforms of `torch.func` are active, which must see all operators.
    has_transforms: Py<PyAny>,
    /// The module of forward-mode differentiation.
    forward_ad: Py<PyAny>,
    /// The method `Tensor._is_zerotensor`: such tensors have no memory.
    is_zero: Py<PyAny>,
    /// The method `Tensor.is_neg`.
    is_neg: Py<PyAny>,
    /// The names of attributes that every call reads.
    requires_grad: Py<PyString>,
    current_level: Py<PyString>,
    interface: Library,
}

/// `RTLD_NOLOAD` of Linux: opens a library only if it is loaded.
const RTLD_NOLOAD: c_int = 4;

/// PyTorch's interface, set once PyTorch has been imported; `None` if PyTorch lacks the exchange API.
///
/// No pyo3 `PyOnceLock`, nor `intern!`, which has one: a thread that initializes it may lose the GIL,
/// and if another thread forks then, a call in the child waits forever.
static TORCH: OnceLock<Option<Torch>> = OnceLock::new();

impl Torch {
    /// Returns PyTorch if the type of `values` is exactly its `Tensor` or `Parameter`.
    pub(crate) fn of(values: &Bound<'_, PyAny>) -> Option<&'static Self> {
        let py = values.py();
        let torch = match TORCH.get() {
            Some(torch) => torch,
            None => {
                let torch = py.import("sys").ok()?.getattr("modules").ok()?.get_item("torch").ok()?;
                let found = Self::find(&torch).ok().flatten();
                TORCH.get_or_init(|| found)
            }
        };
        let of = values.get_type_ptr().cast();
        torch.as_ref().filter(|torch| of == torch.tensor.as_ptr() || of == torch.parameter.as_ptr())
    }

    fn find(torch: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let tensor = torch.getattr("Tensor")?.cast_into::<PyType>()?;
        let api = tensor.getattr("__dlpack_c_exchange_api__")?.cast_into::<PyCapsule>()?;
        let api = api.pointer_checked(Some(c"dlpack_exchange_api"))?.cast::<ExchangeApi>();
        // SAFETY: by DLPack's protocol the capsule has this struct, which lives as long as the process;
        // the version is at the same offset in each major version.
        let api = unsafe {
            if (*api.as_ptr()).version[0] != dlpack::MAJOR {
                return Ok(None);
            }
            api.as_ref()
        };
        let (Some(describe), Some(current_stream)) = (api.describe, api.current_stream) else {
            return Ok(None);
        };
        let is_neg = tensor.getattr("is_neg")?.unbind();
        let parameter = torch.getattr("nn")?.getattr("Parameter")?.unbind();
        let is_grad_enabled = torch.getattr("is_grad_enabled")?.unbind();
        let is_zero = tensor.getattr("_is_zerotensor")?.unbind();
        let native = torch.getattr("_C")?;
        let count_modes = native.getattr("_len_torch_dispatch_stack")?.unbind();
        let has_transforms = native.getattr("_are_functorch_transforms_active")?.unbind();
        let forward_ad = torch.getattr("autograd")?.getattr("forward_ad")?.unbind();
        // SAFETY: PyTorch has loaded the libraries, so no initialisers run here, and they stay loaded.
        let open = |name| unsafe { Library::open(Some(name), RTLD_NOLOAD | RTLD_LAZY) };
        let (Ok(interface), Ok(python)) = (open("libtorch_cpu.so"), open("libtorch_python.so")) else {
            return Ok(None);
        };
        // SAFETY: the functions of the C interface keep their types. `THPVariable_Wrap` is a function of
        // C++ from a reference, which is passed as a pointer, to a new reference of Python; a function
        // of another type has another symbol.
        let (empty_strided, reinterpret, data_ptr, delete, wrap) = unsafe {
            (
                interface.get::<EmptyStrided>(b"aoti_torch_empty_strided\0").map(|found| *found),
                interface.get::<Reinterpret>(b"aoti_torch__reinterpret_tensor\0").map(|found| *found),
                interface.get(b"aoti_torch_get_data_ptr\0").map(|found| *found),
                interface.get(b"aoti_torch_delete_tensor_object\0").map(|found| *found),
                python.get(b"_Z16THPVariable_WrapRKN2at10TensorBaseE\0").map(|found| *found),
            )
        };
        let (Ok(empty_strided), Ok(reinterpret), Ok(data_ptr), Ok(delete), Ok(wrap)) =
            (empty_strided, reinterpret, data_ptr, delete, wrap)
        else {
            return Ok(None);
        };
        let Some(cuda) = number(&interface, "device_type_cuda") else { return Ok(None) };
        mem::forget(python);
        let [requires_grad, current_level] =
            ["requires_grad", "_current_level"].map(|name| PyString::intern(torch.py(), name).unbind());
        let tensor = tensor.unbind();
        Ok(Some(Self {
            tensor,
            describe,
            current_stream,
            empty_strided,
            reinterpret,
            data_ptr,
            cuda,
            delete,
            wrap,
            parameter,
            is_grad_enabled,
            count_modes,
            has_transforms,
            forward_ad,
            is_zero,
            is_neg,
            requires_grad,
            current_level,
            interface,
        }))
    }

    /// Allocates results on a GPU, for work of its current stream: a tensor, or the two halves of one.
    /// Returns their address, too.
    pub(crate) fn allocate(&self, py: Python<'_>, room: &Room, device: i32) -> PyResult<(u64, Results)> {
        let refused =
            || PyMemoryError::new_err("PyTorch does not allocate the result; free some memory");
        let (shape, strides) = (&room.shape, &room.strides);
        let mut tensor = ptr::null_mut();
        // SAFETY: there are as many lengths and strides as dimensions; it fills the handle on success.
        let status = unsafe {
            let (shape, strides, count) = (shape.as_ptr(), strides.as_ptr(), shape.len() as i64);
            (self.empty_strided)(count, shape, strides, room.dtype, self.cuda, device, &raw mut tensor)
        };
        if status != 0 {
            return Err(refused());
        }
        let tensor = Handle { torch: self, tensor };
        let mut data = ptr::null_mut();
        // SAFETY: the tensor is alive; the call writes one pointer to a local variable.
        if unsafe { (self.data_ptr)(tensor.tensor, &raw mut data) } != 0 {
            return Err(refused());
        }
        let address = data.addr() as u64;
        if !room.is_pair {
            return Ok((address, Results::One(tensor.wrap(py)?)));
        }
        let half = |offset| {
            let mut view = ptr::null_mut();
            // SAFETY: a half has the lengths and strides of all dimensions but the first, which has
            // both.
            let status = unsafe {
                let (shape, strides, count) = (&shape[1..], &strides[1..], shape.len() as i64 - 1);
                let (shape, strides) = (shape.as_ptr(), strides.as_ptr());
                (self.reinterpret)(tensor.tensor, count, shape, strides, offset, &raw mut view)
            };
            if status != 0 {
                return Err(refused());
            }
            Handle { torch: self, tensor: view }.wrap(py)
        };
        Ok((address, Results::Two([half(0)?, half(strides[0])?])))
    }

    /// Allocates memory on a GPU, for work of its current stream. Returns its address and owner.
    fn allocate_bytes(&self, py: Python<'_>, bytes: u64, device: i32) -> PyResult<(u64, Py<PyAny>)> {
        let dtype = number(&self.interface, "dtype_uint8");
        let dtype = dtype.ok_or_else(|| PyRuntimeError::new_err("PyTorch has no type uint8"))?;
        let room = Room { shape: vec![bytes as i64], strides: vec![1], is_pair: false, dtype };
        match self.allocate(py, &room, device)? {
            (address, Results::One(owner)) => Ok((address, owner)),
            (_, Results::Two(_)) => unreachable!("it is no pair"),
        }
    }

    /// Returns whether modes or transforms of PyTorch must see all operators.
    pub(crate) fn is_observing(&self, py: Python<'_>) -> PyResult<bool> {
        let level: i64 = self.forward_ad.bind(py).getattr(self.current_level.bind(py))?.extract()?;
        let is = |function: &Py<PyAny>| function.bind(py).call0()?.is_truthy();
        Ok(level >= 0 || is(&self.count_modes)? || is(&self.has_transforms)?)
    }

    /// Returns whether a tensor's memory has its values, and PyTorch does not differentiate it. The
    /// others are views that are negated lazily, and zeros without memory.
    pub(crate) fn has_plain_memory(&self, values: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = values.py();
        let is_recorded = || -> PyResult<bool> {
            Ok(values.getattr(self.requires_grad.bind(py))?.is_truthy()?
                && self.is_grad_enabled.bind(py).call0()?.is_truthy()?)
        };
        let is = |method: &Py<PyAny>| method.bind(py).call1((values,))?.is_truthy();
        Ok(!is_recorded()? && !is(&self.is_neg)? && !is(&self.is_zero)?)
    }

    /// Returns DLPack's description of a tensor; `None` if DLPack has no such tensors.
    pub(crate) fn describe(&self, values: &Bound<'_, PyAny>) -> Option<dlpack::Tensor> {
        let mut tensor = MaybeUninit::uninit();
        // SAFETY: `values` is one of PyTorch's tensors, and on success the function fills the struct.
        unsafe {
            if (self.describe)(values.as_ptr(), tensor.as_mut_ptr()) == 0 {
                return Some(tensor.assume_init());
            }
        }
        drop(PyErr::take(values.py()));
        None
    }

    /// Returns the handle of the current stream of a GPU.
    pub(crate) fn current_stream(&self, py: Python<'_>, device: i32) -> PyResult<usize> {
        let mut handle = ptr::null_mut();
        // SAFETY: the function is PyTorch's, and sets `handle` on success.
        match unsafe { (self.current_stream)(dlpack::CUDA, device, &raw mut handle) } {
            0 => Ok(handle.addr()),
            _ => Err(PyErr::take(py).unwrap_or_else(|| PyRuntimeError::new_err("no current stream"))),
        }
    }
}

/// A tensor of PyTorch's C interface, which is deleted once.
struct Handle<'t> {
    torch: &'t Torch,
    tensor: *mut c_void,
}

impl Handle<'_> {
    /// Returns an object of Python that shares the tensor.
    fn wrap(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // SAFETY: the handle is a pointer to a tensor of C++, which the object shares.
        let object = unsafe { Bound::from_owned_ptr_or_err(py, (self.torch.wrap)(self.tensor)) };
        object.map(Bound::unbind)
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle was made by the interface and is not used after this.
        unsafe { (self.torch.delete)(self.tensor) };
    }
}

/// The results of a call.
pub(crate) enum Results {
    One(Py<PyAny>),
    Two([Py<PyAny>; 2]),
}

impl Results {
    /// Returns the result, or a tuple of both.
    pub(crate) fn into_object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Self::One(result) => result,
            Self::Two(pair) => PyTuple::new(py, pair)?.into_any().unbind(),
        })
    }
}

/// Returns one of the C interface's numbers of types.
fn number(library: &Library, name: &str) -> Option<i32> {
    let name = format!("aoti_torch_{name}\0");
    // SAFETY: the functions that return the number of a type have this type.
    let find = unsafe { library.get::<unsafe extern "C" fn() -> i32>(name.as_bytes()) };
    // SAFETY: the function returns a constant.
    find.ok().map(|find| unsafe { find() })
}

/// Maximum number of dimensions of a tensor whose call is cached.
const MOST_DIMENSIONS: usize = 8;

/// Everything that determines the launch and the result's layout of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    /// The address of the function's row. The row lives as long as the package.
    function: usize,
    dtype: DataType,
    device: i32,
    /// The reduced axes, one bit each.
    axes: u8,
    keepdims: bool,
    /// The bits of the delta degrees of freedom.
    ddof: u64,
    dimensions: u8,
    shape: [i64; MOST_DIMENSIONS],
    strides: [i64; MOST_DIMENSIONS],
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b] = self.dtype.lanes.to_ne_bytes();
        let [c, d, e, f] = self.device.to_ne_bytes();
        let words = [self.dtype.code, self.dtype.bits, a, b, c, d, e, f];
        state.write_u64(u64::from_ne_bytes(words) ^ (self.function as u64).rotate_left(17));
        state.write_u64(self.ddof);
        state.write_u32(u32::from_ne_bytes([self.axes, self.keepdims.into(), self.dimensions, 0]));
        let used = usize::from(self.dimensions);
        for (&len, &stride) in self.shape[..used].iter().zip(&self.strides) {
            state.write_u64((len as u64) ^ (stride as u64).rotate_left(32));
        }
    }
}

/// The layout of the results: C-contiguous, with the C interface's number of their type. The first
/// dimension of a pair has both results.
pub(crate) struct Room {
    shape: Vec<i64>,
    strides: Vec<i64>,
    is_pair: bool,
    dtype: i32,
}

impl Room {
    /// Returns the layout of the results of a function, in this shape; `None` if PyTorch lacks the type.
    pub(crate) fn new(
        torch: &Torch,
        function: &Function,
        dtype: DataType,
        shape: Vec<i64>,
    ) -> Option<Self> {
        let is_pair = function.is_pair();
        let shape: Vec<i64> = is_pair.then_some(2).into_iter().chain(shape).collect();
        let strides = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
        let dtype = number(&torch.interface, &format!("dtype_{}", elements::name(dtype)))?;
        Some(Self { shape, strides, is_pair, dtype })
    }
}

/// A call's launch and its result.
struct Entry {
    launch: Prepared,
    room: Room,
}

/// The cached calls. `None` stands for a call that the Python files serve.
static CALLS: Mutex<Option<HashMap<Key, Option<Arc<Entry>>>>> = Mutex::new(None);

/// Maximum number of cached calls. If tensors have ever new shapes, the full cache is cleared.
const MOST_ENTRIES: usize = 4096;

impl Key {
    /// Returns the key of a call; `None` if the call cannot be cached.
    fn of(
        function: &Bound<'_, Function>,
        tensor: &dlpack::Tensor,
        axis: Option<&Bound<'_, PyAny>>,
        keepdims: bool,
        ddof: f64,
    ) -> Option<Self> {
        let dimensions = usize::try_from(tensor.ndim).ok().filter(|&count| count <= MOST_DIMENSIONS)?;
        let axes = match axis {
            None => u8::try_from((1_u16 << dimensions) - 1).ok()?,
            Some(axis) if axis.is_exact_instance_of::<PyInt>() => bit(axis, dimensions)?,
            Some(axis) => {
                let several = axis.cast_exact::<PyTuple>().ok()?;
                let mut axes = 0;
                for axis in several {
                    let bit = axis.is_exact_instance_of::<PyInt>().then(|| bit(&axis, dimensions))??;
                    if axes & bit != 0 {
                        return None;
                    }
                    axes |= bit;
                }
                axes
            }
        };
        let (mut shape, mut strides) = ([0; MOST_DIMENSIONS], [0; MOST_DIMENSIONS]);
        if dimensions > 0 {
            // SAFETY: a tensor has a length and, as the API requires, a stride for each dimension. They
            // are in the tensor, which the caller keeps. Without the GIL, PyTorch's operators read them
            // without a lock, too: its rule is that programs do not change a tensor that another thread
            // uses.
            unsafe {
                if tensor.strides.is_null() {
                    return None;
                }
                ptr::copy_nonoverlapping(tensor.shape, shape.as_mut_ptr(), dimensions);
                ptr::copy_nonoverlapping(tensor.strides, strides.as_mut_ptr(), dimensions);
            }
        }
        Some(Self {
            function: function.as_ptr().addr(),
            dtype: tensor.dtype,
            device: tensor.device.device_id,
            axes,
            keepdims,
            ddof: ddof.to_bits(),
            dimensions: dimensions as u8,
            shape,
            strides,
        })
    }

    /// Prepares a call. Returns `None` if the Python files serve it: for errors, empty tensors, results
    /// that are computed from the kernel's values, and strides that no kernel takes.
    fn prepare(&self, function: &Bound<'_, Function>, torch: &Torch) -> PyResult<Option<Entry>> {
        let (py, dimensions) = (function.py(), usize::from(self.dimensions));
        let (shape, strides) = (&self.shape[..dimensions], &self.strides[..dimensions]);
        let is_served =
            shape.iter().zip(strides).all(|(&len, &stride)| len == 1 || (len > 1 && stride > 0));
        if !is_served || elements::require(self.dtype).is_err() {
            return Ok(None);
        }
        let lengths = |of: &[i64]| of.iter().map(|&one| one as usize).collect::<Vec<_>>();
        let layout = Layout { dtype: self.dtype, shape: lengths(shape), strides: lengths(strides) };
        let Some(result) = function.get().direct(self.dtype) else { return Ok(None) };
        let kernel = function.get().kernel(f64::from_bits(self.ddof));
        let is_reduced = |axis: &usize| self.axes >> axis & 1 == 1;
        let reduced: Vec<usize> = (0..dimensions).filter(is_reduced).collect();
        let kept = (0..dimensions).filter(|axis| self.keepdims || !is_reduced(axis));
        let kept = kept.map(|axis| if is_reduced(&axis) { 1 } else { shape[axis] });
        let Some(room) = Room::new(torch, function.get(), result, kept.collect()) else {
            return Ok(None);
        };
        let open = device::open(py, &format!("cuda:{}", self.device))?.0;
        let launch = Prepared::new(open, kernel, &layout, &reduced);
        Ok(launch.map(|launch| Entry { launch, room }))
    }
}

/// Returns the bit of an axis, which may count from the end; `None` if there is no such axis.
fn bit(axis: &Bound<'_, PyAny>, dimensions: usize) -> Option<u8> {
    let axis: isize = axis.extract().ok()?;
    let axis = if axis < 0 { axis.checked_add_unsigned(dimensions)? } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < dimensions).map(|axis| 1 << axis)
}

/// Returns a number of Python; `None` for objects of other types, and for an integer that no float can
/// hold.
pub(crate) fn number_of(ddof: &Bound<'_, PyAny>) -> Option<f64> {
    let is_number = ddof.is_exact_instance_of::<PyInt>() || ddof.is_exact_instance_of::<PyFloat>();
    is_number.then(|| ddof.extract().ok())?
}

/// Reduces a tensor on PyTorch's current stream if the call needs no Python code. Returns `None` for
/// other calls, including wrong ones.
#[pyfunction]
#[pyo3(signature = (function, values, axis, keepdims, ddof=None))]
pub(crate) fn reduce_tensor(
    function: &Bound<'_, Function>,
    values: &Bound<'_, PyAny>,
    axis: Option<&Bound<'_, PyAny>>,
    keepdims: &Bound<'_, PyAny>,
    ddof: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Py<PyAny>>> {
    let py = values.py();
    let Some(torch) = Torch::of(values) else { return Ok(None) };
    if torch.is_observing(py)? || !torch.has_plain_memory(values)? {
        return Ok(None);
    }
    let Some(tensor) = torch.describe(values) else { return Ok(None) };
    let Ok(keepdims) = keepdims.cast_exact::<PyBool>() else { return Ok(None) };
    if tensor.device.device_type != dlpack::CUDA {
        return Ok(None);
    }
    let Some(ddof) = ddof.map_or(Some(0.0), number_of) else { return Ok(None) };
    let Some(key) = Key::of(function, &tensor, axis, keepdims.is_true(), ddof) else { return Ok(None) };
    let calls = || CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = calls().get_or_insert_default().get(&key).cloned();
    let entry = match known {
        Some(entry) => entry,
        None => {
            let entry = key.prepare(function, torch)?.map(Arc::new);
            let mut calls = calls();
            let calls = calls.get_or_insert_default();
            if calls.len() == MOST_ENTRIES {
                calls.clear();
            }
            calls.insert(key, entry.clone());
            entry
        }
    };
    let Some(entry) = entry else { return Ok(None) };
    let address = (tensor.data.addr() as u64).wrapping_add(tensor.byte_offset);
    if !address.is_multiple_of(elements::size(tensor.dtype) as u64) {
        return Ok(None);
    }
    let (output, results) = torch.allocate(py, &entry.room, key.device)?;
    let handle = torch.current_stream(py, key.device)?;
    // SAFETY:
    // - The tensor has memory, so that by its description its elements are there, on this device.
    // - The results are new, so that nothing else uses them, and `output` is the first one's address.
    // - PyTorch reuses freed memory, which was allocated for the current stream, for later work of that
    //   stream only. The caller keeps tensors of other streams, as for every operator of PyTorch.
    let is_enqueued = unsafe {
        let workspace = |bytes| torch.allocate_bytes(py, bytes, key.device);
        entry.launch.enqueue(py, handle, address, output, workspace)?
    };
    if !is_enqueued {
        return Ok(None);
    }
    results.into_object(py).map(Some)
}
