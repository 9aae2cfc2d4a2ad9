//! DLPack, the way in which array libraries hand each other their memory: PyTorch, CuPy, JAX and others.
//!
//! [`Buffer::from_dlpack`] reduces their tensors in place, and [`Buffer::into_dlpack`] gives them a
//! buffer. The structs are those of version 1.0 of <https://dmlc.github.io/dlpack>, with its layout.

use std::{
    ffi::{c_int, c_void},
    fmt, ptr, slice,
};

use crate::{Buffer, Device as GpuDevice, Element, Error, Plain, Result, names::Dtype};

/// `kDLCUDA`: memory of a GPU.
pub const CUDA: c_int = 2;

/// `kDLCUDAManaged`: memory that the GPU and the host share.
pub const CUDA_MANAGED: c_int = 13;

/// `kDLExtDev`: memory of the simulator, which nobody must take for a GPU's.
pub const SIMULATED: c_int = 12;

/// The major version of [`ManagedTensorVersioned`] that is read and written; minor ones do not differ in
/// layout.
pub const MAJOR: u32 = 1;

/// `DLPACK_FLAG_BITMASK_READ_ONLY`: nobody may write the elements.
pub const READ_ONLY: u64 = 1;

/// A device, `DLDevice` in C.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// What kind of device, such as [`CUDA`].
    pub device_type: c_int,
    /// The ordinal of the device.
    pub device_id: i32,
}

impl Device {
    /// What DLPack calls a device: [`CUDA`] or [`SIMULATED`], and its ordinal.
    pub fn of(device: &GpuDevice) -> Self {
        let info = device.info();
        let device_type = if info.simulated { SIMULATED } else { CUDA };
        Self { device_type, device_id: info.ordinal.cast_signed() }
    }
}

/// The type of elements, `DLDataType` in C.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataType {
    /// 0 for signed integers, 1 for unsigned ones, 2 for floats, 4 for bfloats, 6 for truth values.
    pub code: u8,
    /// Bits of a lane.
    pub bits: u8,
    /// Lanes of an element; 1 here.
    pub lanes: u16,
}

impl DataType {
    /// Truth values of a byte, 0 or 1. A tensor of them is a buffer of `u8`.
    pub const BOOL: Self = Self { code: 6, bits: 8, lanes: 1 };

    /// The type of elements.
    pub fn of<T: Element>() -> Self {
        Self::of_dtype(T::DTYPE)
    }

    pub(crate) fn of_dtype(dtype: Dtype) -> Self {
        let code = match dtype {
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => 0,
            Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => 1,
            Dtype::F16 | Dtype::F32 | Dtype::F64 => 2,
            Dtype::Bf16 => 4,
        };
        let bits = u8::try_from(8 * dtype.size()).expect("elements have at most 64 bits");
        Self { code, bits, lanes: 1 }
    }
}

/// As in NumPy: `int8`, `float32`; what has another code by that.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, bits, lanes } = self;
        match code {
            0 => write!(f, "int{bits}"),
            1 => write!(f, "uint{bits}"),
            2 => write!(f, "float{bits}"),
            4 => write!(f, "bfloat{bits}"),
            6 => write!(f, "bool{bits}"),
            other => write!(f, "code {other} of {bits} bits"),
        }?;
        if *lanes == 1 { Ok(()) } else { write!(f, " in {lanes} lanes") }
    }
}

/// A tensor, `DLTensor` in C.
#[repr(C)]
#[derive(Debug)]
pub struct Tensor {
    /// An address of the device.
    pub data: *mut c_void,
    /// The device that has it.
    pub device: Device,
    /// How many dimensions it has.
    pub ndim: c_int,
    /// Type of the elements.
    pub dtype: DataType,
    /// Elements along each dimension.
    pub shape: *mut i64,
    /// Elements from one index to the next along each dimension; null for compact rows.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// `DLManagedTensor`, the form from before version 1.0, which most libraries give.
#[repr(C)]
#[derive(Debug)]
pub struct ManagedTensor {
    /// The tensor that is handed over.
    pub dl_tensor: Tensor,
    /// What belongs to the owner alone.
    pub manager_ctx: *mut c_void,
    /// Gives it back; called once, with this struct.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// A tensor with its version, `DLManagedTensorVersioned` in C.
#[repr(C)]
#[derive(Debug)]
pub struct ManagedTensorVersioned {
    /// Major and minor version; the rest has this layout for [`MAJOR`].
    pub version: [u32; 2],
    /// What belongs to the owner alone.
    pub manager_ctx: *mut c_void,
    /// Gives it back; called once, with this struct.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// Bits that say more, such as [`READ_ONLY`].
    pub flags: u64,
    /// The tensor that is handed over.
    pub dl_tensor: Tensor,
}

/// Either form of a managed tensor.
trait Managed: Sized {
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;

    /// This form around a tensor.
    fn around(
        dl_tensor: Tensor,
        manager_ctx: *mut c_void,
        deleter: unsafe extern "C" fn(*mut Self),
    ) -> Self;

    fn manager_ctx(&self) -> *mut c_void;
}

impl Managed for ManagedTensor {
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }

    fn around(
        dl_tensor: Tensor,
        manager_ctx: *mut c_void,
        deleter: unsafe extern "C" fn(*mut Self),
    ) -> Self {
        Self { dl_tensor, manager_ctx, deleter: Some(deleter) }
    }

    fn manager_ctx(&self) -> *mut c_void {
        self.manager_ctx
    }
}

impl Managed for ManagedTensorVersioned {
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
        self.deleter
    }

    fn around(
        dl_tensor: Tensor,
        manager_ctx: *mut c_void,
        deleter: unsafe extern "C" fn(*mut Self),
    ) -> Self {
        let (version, deleter) = ([MAJOR, 0], Some(deleter));
        Self { version, manager_ctx, deleter, flags: READ_ONLY, dl_tensor }
    }

    fn manager_ctx(&self) -> *mut c_void {
        self.manager_ctx
    }
}

impl<T: Element> Buffer<T> {
    /// The elements of a tensor of another library, in the order of its rows. It is given back by its
    /// deleter when the buffer, its clones and the reductions that read it are gone.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a tensor of another device or type, one whose rows are not compact, and
    /// one at an address that its elements cannot have. It is still the caller's then.
    ///
    /// # Safety
    /// - `tensor` must point to a tensor as DLPack says, which is the caller's alone; it is not any
    ///   more when this returns without an error.
    /// - Its deleter may be called on any thread.
    /// - The elements must be there and not change, as [`from_raw_parts`](Self::from_raw_parts) says.
    ///   What its library has enqueued to write them must be done, or be waited for by the stream on
    ///   which they are reduced.
    pub unsafe fn from_dlpack(device: &GpuDevice, tensor: *mut ManagedTensor) -> Result<Self> {
        // SAFETY: the caller's contract.
        unsafe { Self::from_managed(device, tensor, &raw const (*tensor).dl_tensor) }
    }

    /// As [`from_dlpack`](Self::from_dlpack), for the form that has a version.
    ///
    /// # Errors
    /// As [`from_dlpack`](Self::from_dlpack), and [`Error::Foreign`] for another major version than
    /// [`MAJOR`].
    ///
    /// # Safety
    /// As [`from_dlpack`](Self::from_dlpack).
    pub unsafe fn from_dlpack_versioned(
        device: &GpuDevice,
        tensor: *mut ManagedTensorVersioned,
    ) -> Result<Self> {
        // SAFETY: the caller's contract.
        unsafe { require_version(tensor) }?;
        // SAFETY: of this version it has the layout of the struct; the caller's contract.
        unsafe { Self::from_managed(device, tensor, &raw const (*tensor).dl_tensor) }
    }

    /// As [`from_dlpack`](Self::from_dlpack), of a tensor of any strides above zero: a transposed one,
    /// or a part of another one. The buffer begins with its first element and ends with its last one,
    /// and has what lies between them, too, of which the layout says what the tensor's own are: they are
    /// a [`View`](crate::View) by [`view_strided`](Self::view_strided).
    ///
    /// # Errors
    /// As [`from_dlpack`](Self::from_dlpack), but for rows that are not compact; and [`Error::Foreign`]
    /// for strides of zero, as of what its library has expanded, and for strides below zero.
    ///
    /// # Safety
    /// As [`from_dlpack`](Self::from_dlpack), of all elements from the first one to the last one: those
    /// between them that are not the tensor's must not change either while something reads them. A
    /// reduction of the view reads the tensor's own alone.
    pub unsafe fn from_dlpack_strided(
        device: &GpuDevice,
        tensor: *mut ManagedTensor,
    ) -> Result<(Self, Layout)> {
        // SAFETY: the caller's contract.
        unsafe { Self::from_managed_strided(device, tensor, &raw const (*tensor).dl_tensor) }
    }

    /// As [`from_dlpack_strided`](Self::from_dlpack_strided), for the form that has a version.
    ///
    /// # Errors
    /// As [`from_dlpack_strided`](Self::from_dlpack_strided), and [`Error::Foreign`] for another major
    /// version than [`MAJOR`].
    ///
    /// # Safety
    /// As [`from_dlpack_strided`](Self::from_dlpack_strided).
    pub unsafe fn from_dlpack_versioned_strided(
        device: &GpuDevice,
        tensor: *mut ManagedTensorVersioned,
    ) -> Result<(Self, Layout)> {
        // SAFETY: the caller's contract.
        unsafe { require_version(tensor) }?;
        // SAFETY: of this version it has the layout of the struct; the caller's contract.
        unsafe { Self::from_managed_strided(device, tensor, &raw const (*tensor).dl_tensor) }
    }

    /// # Safety
    /// As [`from_dlpack`](Self::from_dlpack); `tensor` is that of `managed`.
    unsafe fn from_managed<M: Managed + 'static>(
        device: &GpuDevice,
        managed: *mut M,
        tensor: *const Tensor,
    ) -> Result<Self> {
        // SAFETY: the caller's contract.
        let layout = unsafe { layout_of::<T>(device, &*tensor) }.map_err(refused)?;
        let Layout { shape, strides, .. } = &layout;
        if !layout.is_compact() {
            return Err(refused(format!(
                "its strides are {strides:?} for the shape {shape:?}; make it contiguous in its library \
                 first, as `contiguous()` or `ascontiguousarray` do"
            )));
        }
        // SAFETY: the caller's contract.
        unsafe { Self::of_layout(device, managed, &*tensor, &layout) }
    }

    /// # Safety
    /// As [`from_dlpack_strided`](Self::from_dlpack_strided); `tensor` is that of `managed`.
    unsafe fn from_managed_strided<M: Managed + 'static>(
        device: &GpuDevice,
        managed: *mut M,
        tensor: *const Tensor,
    ) -> Result<(Self, Layout)> {
        // SAFETY: the caller's contract.
        let layout = unsafe { layout_of::<T>(device, &*tensor) }.map_err(refused)?;
        // SAFETY: the caller's contract.
        let buffer = unsafe { Self::of_layout(device, managed, &*tensor, &layout) }?;
        Ok((buffer, layout))
    }

    /// All from the first element of a layout to its last one.
    ///
    /// # Safety
    /// As [`from_dlpack_strided`](Self::from_dlpack_strided); `tensor` is that of `managed`, and has the
    /// layout.
    unsafe fn of_layout<M: Managed + 'static>(
        device: &GpuDevice,
        managed: *mut M,
        tensor: &Tensor,
        layout: &Layout,
    ) -> Result<Self> {
        let Layout { shape, strides, .. } = layout;
        let len = layout.bytes().map(|bytes| bytes / size_of::<T>());
        let len = len.ok_or_else(|| {
            refused(format!(
                "its shape is {shape:?} with strides of {strides:?}; it must fit into memory"
            ))
        })?;
        let address = (tensor.data.addr() as u64).wrapping_add(tensor.byte_offset);
        crate::buffer::require_aligned::<T>(address, len)?;
        // SAFETY: the caller's contract; the address was checked, so that this returns no error, with
        // which the owner would be dropped.
        unsafe { Self::from_raw_parts(device, address, len, Owned(managed)) }
    }

    /// A tensor of one dimension with the buffer's elements, for another library. Its deleter, which
    /// may be called on any thread, drops the buffer.
    ///
    /// The other library must not write the elements. This form of a tensor has no word for that;
    /// [`into_dlpack_versioned`](Self::into_dlpack_versioned) has.
    pub fn into_dlpack(self) -> *mut ManagedTensor {
        self.into_managed()
    }

    /// As [`into_dlpack`](Self::into_dlpack), in the form that has a version. It is marked
    /// [`READ_ONLY`].
    pub fn into_dlpack_versioned(self) -> *mut ManagedTensorVersioned {
        self.into_managed()
    }

    fn into_managed<M: Managed>(self) -> *mut M {
        self.settle_or_log();
        let (dtype, shape) = (DataType::of::<T>(), vec![self.len() as i64]);
        self.into_tensor(dtype, shape, Vec::new())
    }
}

/// What bytes are to another library: a tensor of any type, shape and strides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The type of the elements.
    pub dtype: DataType,
    /// Elements along each dimension.
    pub shape: Vec<usize>,
    /// Elements from one index to the next along each dimension, of which there are as many.
    pub strides: Vec<usize>,
}

impl Layout {
    /// That of rows which follow each other without a gap.
    pub fn compact(dtype: DataType, shape: Vec<usize>) -> Self {
        let strides = compact(&shape);
        Self { dtype, shape, strides }
    }

    /// Takes strides in the place of those of compact rows, wherever somebody steps; else says why not.
    fn take_steps(&mut self, strides: &[i64]) -> Result<(), String> {
        let Self { shape, strides: own, .. } = self;
        if shape.contains(&0) {
            return Ok(());
        }
        for ((own, &count), &stride) in own.iter_mut().zip(&*shape).zip(strides) {
            match stride {
                _ if count == 1 => {}
                1.. => *own = stride as usize,
                _ => {
                    return Err(format!(
                        "its strides are {strides:?} for the shape {shape:?}; they must be above zero; make \
                         it contiguous in its library first, as `contiguous()` or `ascontiguousarray` do"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether each row follows the one before without a gap, so that the elements are one behind the
    /// other in the order of the rows.
    pub fn is_compact(&self) -> bool {
        let Self { shape, strides, .. } = self;
        let mut steps = shape.iter().zip(strides.iter().zip(compact(shape)));
        // Along a dimension of one element nobody steps.
        let fits = steps.all(|(&count, (&stride, needs))| count == 1 || stride == needs);
        shape.contains(&0) || shape.len() == strides.len() && fits
    }

    /// Bytes from the first element to the end of the last one, if the layout has all that it needs and
    /// they can be counted.
    pub fn bytes(&self) -> Option<usize> {
        let Self { dtype: DataType { bits, lanes, .. }, shape, strides } = self;
        let element = usize::from(*bits).div_ceil(8).checked_mul((*lanes).into())?;
        if shape.len() != strides.len() {
            return None;
        }
        if shape.contains(&0) {
            return Some(0);
        }
        let mut steps = shape.iter().zip(strides);
        let last = steps.try_fold(0_usize, |last, (&count, &stride)| {
            last.checked_add((count - 1).checked_mul(stride)?)
        });
        last?.checked_add(1)?.checked_mul(element)
    }
}

/// The strides of rows which follow each other without a gap.
fn compact(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    strides
}

/// # DLPack
/// Bytes go to another library as what a program says that they are.
impl Buffer<u8> {
    /// As [`into_dlpack`](Self::into_dlpack), as a tensor of this layout. The host does not wait: what
    /// reads the elements must be behind what writes them, on a stream that
    /// [waits](crate::Stream::wait_for_elements) for them.
    ///
    /// ```
    /// use warpfold::{Device, Selection, dlpack::{DataType, Layout}};
    ///
    /// let device = Device::open(Selection::Sim)?;
    /// let bytes = device.upload(&[1.0_f32, 2.0, 4.0, 8.0])?.cast::<u8>()?;
    /// // Every other element.
    /// let layout = Layout { dtype: DataType::of::<f32>(), shape: vec![2], strides: vec![2] };
    /// let tensor = bytes.into_dlpack_as(layout)?;
    /// // Another library takes it from here, and calls its deleter when it is done.
    /// unsafe { (*tensor).deleter.unwrap()(tensor) };
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Foreign`] for a layout that is not inside the bytes.
    pub fn into_dlpack_as(self, layout: Layout) -> Result<*mut ManagedTensor> {
        self.into_managed_as(layout)
    }

    /// As [`into_dlpack_as`](Self::into_dlpack_as), in the form that has a version.
    ///
    /// # Errors
    /// As [`into_dlpack_as`](Self::into_dlpack_as).
    pub fn into_dlpack_versioned_as(self, layout: Layout) -> Result<*mut ManagedTensorVersioned> {
        self.into_managed_as(layout)
    }

    fn into_managed_as<M: Managed>(self, layout: Layout) -> Result<*mut M> {
        if layout.bytes().is_none_or(|bytes| bytes > self.len()) {
            let Layout { shape, strides, dtype } = layout;
            let reason = format!(
                "a tensor of {dtype} of the shape {shape:?} and the strides {strides:?}, and {} bytes; \
                 give as many strides as lengths, and more bytes",
                self.len()
            );
            return Err(Error::Foreign { what: "layout", reason });
        }
        let Layout { dtype, shape, strides } = layout;
        // Of what is inside there is none that is too large; of nothing, what is counted is of no use.
        let numbers = |counts: Vec<usize>| -> Vec<i64> {
            counts.into_iter().map(|count| i64::try_from(count).unwrap_or(i64::MAX)).collect()
        };
        Ok(self.into_tensor(dtype, numbers(shape), numbers(strides)))
    }
}

impl<T: Plain> Buffer<T> {
    /// A tensor in the buffer's memory, whose strides may be none: then its rows are compact.
    fn into_tensor<M: Managed>(self, dtype: DataType, shape: Vec<i64>, strides: Vec<i64>) -> *mut M {
        let data = ptr::without_provenance_mut(self.as_device_ptr() as usize);
        let device = Device::of(self.device());
        let ndim = shape.len() as c_int;
        // The numbers live with the buffer, at addresses that stay.
        let kept = Box::into_raw(Box::new(Kept { shape, strides, _buffer: self }));
        // SAFETY: the box was made just now, lives until the deleter is called, and nothing but the
        // tensor names it.
        let Kept { shape, strides, .. } = unsafe { &mut *kept };
        let (shape, strides) = (
            shape.as_mut_ptr(),
            if strides.is_empty() { ptr::null_mut() } else { strides.as_mut_ptr() },
        );
        let dl_tensor = Tensor { data, device, ndim, dtype, shape, strides, byte_offset: 0 };
        Box::into_raw(Box::new(M::around(dl_tensor, kept.cast(), delete::<M, T>)))
    }
}

/// What a tensor of ours refers to.
struct Kept<T> {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _buffer: Buffer<T>,
}

/// # Safety
/// `managed` comes from `Buffer<T>::into_tensor`, and this is called once.
unsafe extern "C" fn delete<M: Managed, T>(managed: *mut M) {
    // SAFETY: both boxes were made there and given up; the caller's contract.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.manager_ctx().cast::<Kept<T>>()));
    }
}

/// A tensor that goes back to its library when this is dropped.
struct Owned<M: Managed>(*mut M);

// SAFETY: the tensor is only touched to give it back, which may be done on any thread.
unsafe impl<M: Managed> Send for Owned<M> {}
// SAFETY: as above; a shared one is not touched at all.
unsafe impl<M: Managed> Sync for Owned<M> {}

impl<M: Managed> Drop for Owned<M> {
    fn drop(&mut self) {
        // SAFETY: the tensor is ours since it was handed in, and nothing reads its elements any more.
        unsafe {
            if let Some(deleter) = (*self.0).deleter() {
                deleter(self.0);
            }
        }
    }
}

fn refused(reason: String) -> Error {
    Error::Foreign { what: "tensor", reason }
}

/// Refuses a version that is not read.
///
/// # Safety
/// `tensor` must point to a tensor of any version.
unsafe fn require_version(tensor: *const ManagedTensorVersioned) -> Result<()> {
    // SAFETY: the version is where it is in every version; the caller's contract.
    let [major, minor] = unsafe { (*tensor).version };
    if major == MAJOR {
        return Ok(());
    }
    Err(refused(format!("its version is {major}.{minor}; it must be {MAJOR} and any minor one")))
}

/// Where a tensor's elements are, if it can be reduced in place; else why not.
///
/// # Safety
/// The shape, and the strides if there are any, must have as many numbers as there are dimensions.
unsafe fn layout_of<T: Element>(device: &GpuDevice, tensor: &Tensor) -> Result<Layout, String> {
    let Device { device_type, device_id } = tensor.device;
    let own = Device::of(device);
    let managed = own.device_type == CUDA && device_type == CUDA_MANAGED;
    if !(managed || device_type == own.device_type) || device_id != own.device_id {
        let called = if own.device_type == CUDA { "CUDA" } else { "the simulator" };
        return Err(format!(
            "it is on device {device_id} of type {device_type}; it must be on device {} of type {} \
             ({called})",
            own.device_id, own.device_type
        ));
    }
    let (has, needs) = (tensor.dtype, DataType::of::<T>());
    let bytes = if has == DataType::BOOL { DataType::of::<u8>() } else { has };
    if bytes != needs {
        return Err(format!("its elements are {has}; this is a buffer of {needs}"));
    }
    let dimensions =
        usize::try_from(tensor.ndim).map_err(|_| format!("it has {} dimensions", tensor.ndim))?;
    let numbers = |start: *mut i64| {
        if dimensions == 0 || start.is_null() {
            return &[][..];
        }
        // SAFETY: the caller's contract.
        unsafe { slice::from_raw_parts(start, dimensions) }
    };
    let (shape, strides) = (numbers(tensor.shape), numbers(tensor.strides));
    if shape.len() != dimensions {
        return Err(format!("it has {dimensions} dimensions and no shape"));
    }
    let counts: Option<Vec<_>> = shape.iter().map(|&count| usize::try_from(count).ok()).collect();
    let counts = counts.filter(|counts| {
        counts.iter().try_fold(1, |len: usize, &count| len.checked_mul(count)).is_some()
    });
    let counts = counts.ok_or_else(|| format!("its shape is {shape:?}; it must be of counts"))?;
    let mut layout = Layout::compact(has, counts);
    if !strides.is_empty() {
        layout.take_steps(strides)?;
    }
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn the_layout_is_that_of_dlpack() {
        assert_eq!((size_of::<Device>(), size_of::<DataType>()), (8, 4));
        assert_eq!(size_of::<Tensor>(), 48);
        assert_eq!(offset_of!(Tensor, ndim), 16);
        assert_eq!(offset_of!(Tensor, dtype), 20);
        assert_eq!(offset_of!(Tensor, shape), 24);
        assert_eq!(offset_of!(Tensor, byte_offset), 40);
        assert_eq!((size_of::<ManagedTensor>(), offset_of!(ManagedTensor, deleter)), (64, 56));
        assert_eq!(size_of::<ManagedTensorVersioned>(), 80);
        assert_eq!(offset_of!(ManagedTensorVersioned, flags), 24);
        assert_eq!(offset_of!(ManagedTensorVersioned, dl_tensor), 32);
    }

    #[test]
    fn rows_are_compact_without_gaps_and_in_order() {
        for (shape, strides, expected) in [
            (&[2, 3][..], &[3, 1][..], true),
            (&[2, 3], &[1, 2], false),
            (&[2, 3], &[4, 1], false),
            (&[5], &[2], false),
            (&[1, 5], &[99, 1], true),
            (&[4, 1, 2], &[2, 77, 1], true),
            (&[0, 3], &[7, 7], true),
            (&[], &[], true),
        ] {
            let dtype = DataType::of::<f32>();
            let layout = Layout { dtype, shape: shape.to_vec(), strides: strides.to_vec() };
            assert_eq!(layout.is_compact(), expected, "{shape:?} {strides:?}");
        }
    }

    #[test]
    fn strides_are_above_zero_where_somebody_steps() {
        let layout = |shape: &[usize], strides: &[i64]| {
            let mut layout = Layout::compact(DataType::of::<f32>(), shape.to_vec());
            layout.take_steps(strides).map(|()| layout.strides)
        };
        assert_eq!(layout(&[2, 3], &[1, 2]).unwrap(), [1, 2]);
        assert_eq!(layout(&[2, 1], &[1, -5]).unwrap(), [1, 1]);
        assert_eq!(layout(&[0, 3], &[-1, 0]).unwrap(), [3, 1]);
        for stride in [0, -1] {
            let reason = layout(&[3], &[stride]).unwrap_err();
            assert!(reason.contains("above zero") && reason.contains(&stride.to_string()), "{reason}");
        }
    }

    #[test]
    fn types_have_their_codes() {
        let named = |dtype: DataType| dtype.to_string();
        assert_eq!(named(DataType::of::<u8>()), "uint8");
        assert_eq!(named(DataType::of::<half::f16>()), "float16");
        assert_eq!(named(DataType::of::<half::bf16>()), "bfloat16");
        assert_eq!(DataType::of::<i64>(), DataType { code: 0, bits: 64, lanes: 1 });
    }
}
