//! DLPack, the format in which array libraries such as PyTorch, CuPy and JAX exchange tensors.
//!
//! [`Buffer::from_dlpack`] borrows their tensors, and [`Buffer::into_dlpack`] exports a buffer to them.
//! The structs have the layout of version 1.0 of <https://dmlc.github.io/dlpack>.

use std::{
    ffi::{c_int, c_void},
    fmt, ptr, slice,
};

use crate::{Buffer, Device as GpuDevice, Element, Error, Plain, Result, names::Dtype};

/// `kDLCUDA`: memory of a GPU.
pub const CUDA: c_int = 2;

/// `kDLCUDAManaged`: memory shared by the GPU and the host.
pub const CUDA_MANAGED: c_int = 13;

/// `kDLExtDev`: memory of the simulator, which must not be taken for a GPU's.
pub const SIMULATED: c_int = 12;

/// The major version of [`ManagedTensorVersioned`] that this crate reads and writes. All its minor
/// versions have the same layout.
pub const MAJOR: u32 = 1;

/// `DLPACK_FLAG_BITMASK_READ_ONLY`: the elements must not be written.
pub const READ_ONLY: u64 = 1;

/// A device, `DLDevice` in C.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// The kind of device, such as [`CUDA`].
    pub device_type: c_int,
    /// The ordinal of the device.
    pub device_id: i32,
}

impl Device {
    /// Returns the device's DLPack type, [`CUDA`] or [`SIMULATED`], and its ordinal.
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
    /// 0 for signed integers, 1 for unsigned ones, 2 for floats, 4 for bfloats, 6 for Booleans.
    pub code: u8,
    /// Bits per lane.
    pub bits: u8,
    /// Lanes per element; 1 for all types of this crate.
    pub lanes: u16,
}

impl DataType {
    /// Booleans of one byte, 0 or 1. A tensor of them becomes a buffer of `u8` or of
    /// [`Bool`](crate::Bool).
    pub const BOOL: Self = Self { code: 6, bits: 8, lanes: 1 };

    /// Returns the type of the elements `T`.
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

/// Writes NumPy's name, such as `int8` or `float32`; an unknown code is written as a number.
impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, bits, lanes } = self;
        match code {
            0 => write!(f, "int{bits}"),
            1 => write!(f, "uint{bits}"),
            2 => write!(f, "float{bits}"),
            4 => write!(f, "bfloat{bits}"),
            5 => write!(f, "complex{bits}"),
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
    /// The start address in device memory.
    pub data: *mut c_void,
    /// The device of the memory.
    pub device: Device,
    /// Number of dimensions.
    pub ndim: c_int,
    /// Type of the elements.
    pub dtype: DataType,
    /// Elements along each dimension.
    pub shape: *mut i64,
    /// Distance between neighbours along each dimension, in elements; null for row-major order without
    /// gaps.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// A tensor without a version, `DLManagedTensor` in C, which most libraries use.
#[repr(C)]
#[derive(Debug)]
pub struct ManagedTensor {
    /// The tensor itself.
    pub dl_tensor: Tensor,
    /// The owner's private data.
    pub manager_ctx: *mut c_void,
    /// Frees the tensor; called once, with this struct.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// A tensor with its version, `DLManagedTensorVersioned` in C.
#[repr(C)]
#[derive(Debug)]
pub struct ManagedTensorVersioned {
    /// Major and minor version. The fields below have this layout if the major version is [`MAJOR`].
    pub version: [u32; 2],
    /// The owner's private data.
    pub manager_ctx: *mut c_void,
    /// Frees the tensor; called once, with this struct.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// Flag bits, such as [`READ_ONLY`].
    pub flags: u64,
    /// The tensor itself.
    pub dl_tensor: Tensor,
}

/// A DLPack tensor with an owner: [`ManagedTensor`] or [`ManagedTensorVersioned`]. The trait is sealed.
pub trait Managed: sealed::Managed {
    /// Returns the function that releases the tensor, if it has one.
    fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)>;
}

mod sealed {
    use super::{Result, Tensor, c_void};

    pub trait Managed: Sized + 'static {
        fn new(
            dl_tensor: Tensor,
            manager_ctx: *mut c_void,
            deleter: unsafe extern "C" fn(*mut Self),
        ) -> Self;

        /// Returns the inner tensor, or an error for an unsupported version.
        ///
        /// # Safety
        /// `managed` must point to a valid tensor of type `Self`, of any version.
        unsafe fn tensor(managed: *const Self) -> Result<*const Tensor>;

        fn manager_ctx(&self) -> *mut c_void;
    }
}

macro_rules! managed {
    ($form:ident { $($field:ident: $value:expr),* }, $check:expr) => {
        impl Managed for $form {
            fn deleter(&self) -> Option<unsafe extern "C" fn(*mut Self)> {
                self.deleter
            }
        }

        impl sealed::Managed for $form {
            fn new(
                dl_tensor: Tensor,
                manager_ctx: *mut c_void,
                deleter: unsafe extern "C" fn(*mut Self),
            ) -> Self {
                Self { dl_tensor, manager_ctx, deleter: Some(deleter), $($field: $value),* }
            }

            unsafe fn tensor(managed: *const Self) -> Result<*const Tensor> {
                let check: unsafe fn(*const Self) -> Result<()> = $check;
                // SAFETY: `managed` points to a valid tensor of any version.
                unsafe { check(managed) }?;
                // SAFETY: `managed` points to a valid tensor. Its version has been checked, so it has
                // the layout of this struct.
                Ok(unsafe { &raw const (*managed).dl_tensor })
            }

            fn manager_ctx(&self) -> *mut c_void {
                self.manager_ctx
            }
        }
    };
}

managed!(ManagedTensor {}, |_| Ok(()));
managed!(ManagedTensorVersioned { version: [MAJOR, 0], flags: READ_ONLY }, require_version);

impl<T: Element> Buffer<T> {
    /// Returns a buffer over the elements of another library's tensor, in row-major order. The tensor's
    /// deleter is called after the buffer, its clones and the reductions that read them have been
    /// dropped.
    ///
    /// # Errors
    /// [`Error::Foreign`] for a tensor of another device or type, for one that is not contiguous in
    /// row-major order, for an address that is not aligned for the elements, and for a major version
    /// other than [`MAJOR`]. The caller then still owns the tensor.
    ///
    /// # Safety
    /// - `managed` must point to a valid tensor of type `M` that the caller alone owns. Ownership passes
    ///   to the buffer if this returns `Ok`.
    /// - The tensor's deleter must be callable on any thread.
    /// - The elements must be readable and not change, as for [`from_raw_parts`](Self::from_raw_parts).
    ///   Writes that the other library has enqueued must be complete, or the stream on which the
    ///   elements are reduced must wait for them.
    pub unsafe fn from_dlpack<M: Managed>(device: &GpuDevice, managed: *mut M) -> Result<Self> {
        // SAFETY: `managed` points to a valid tensor.
        let (tensor, layout) = unsafe { tensor_of::<T, M>(device, managed) }?;
        let Layout { shape, strides, .. } = &layout;
        if !layout.is_compact() {
            return Err(refused(format!(
                "its strides are {strides:?} for the shape {shape:?}; make it contiguous in its library \
                 first, as `contiguous()` or `ascontiguousarray` do"
            )));
        }
        // SAFETY: the caller owns the tensor, whose elements are readable and do not change.
        unsafe { Self::of_layout(device, managed, &*tensor, &layout) }
    }

    /// Returns the elements and the layout of a tensor, like [`from_dlpack`](Self::from_dlpack), but
    /// allows any positive strides, such as those of a transposed tensor or a slice. The buffer extends
    /// from the tensor's first element to its last one, including elements between them that are not the
    /// tensor's. [`view_strided`](Self::view_strided) with the layout's shape and strides returns a
    /// [`View`](crate::View) of the tensor's own elements.
    ///
    /// # Errors
    /// The errors of [`from_dlpack`](Self::from_dlpack), except that gaps and any order of the axes are
    /// allowed. [`Error::Foreign`] for strides below zero, and of zero, as in an expanded tensor.
    ///
    /// # Safety
    /// The conditions of [`from_dlpack`](Self::from_dlpack) must hold for all elements of the buffer,
    /// also for those that are not the tensor's. A reduction of the view reads only the tensor's own
    /// elements.
    pub unsafe fn from_dlpack_strided<M: Managed>(
        device: &GpuDevice,
        managed: *mut M,
    ) -> Result<(Self, Layout)> {
        // SAFETY: `managed` points to a valid tensor.
        let (tensor, layout) = unsafe { tensor_of::<T, M>(device, managed) }?;
        // SAFETY: the caller owns the tensor; all elements of the buffer are readable and constant.
        let buffer = unsafe { Self::of_layout(device, managed, &*tensor, &layout) }?;
        Ok((buffer, layout))
    }

    /// Returns a buffer from the first element of a layout to its last one.
    ///
    /// # Safety
    /// The conditions of [`from_dlpack_strided`](Self::from_dlpack_strided) must hold. `tensor` must be
    /// the inner tensor of `managed`, and `layout` its layout.
    unsafe fn of_layout<M: Managed>(
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
        // SAFETY: the caller owns the tensor, whose elements are readable and constant. Address and size
        // have been checked, so `from_raw_parts` does not fail, which would call the deleter.
        unsafe { Self::from_raw_parts(device, address, len, Owned(managed)) }
    }

    /// Returns a one-dimensional tensor of the buffer's elements for another library. Its deleter drops
    /// the buffer and may be called on any thread.
    ///
    /// The other library must not write the elements. A [`ManagedTensorVersioned`] is marked
    /// [`READ_ONLY`]; a [`ManagedTensor`] cannot express that.
    pub fn into_dlpack<M: Managed>(self) -> *mut M {
        self.settle_or_log();
        let (dtype, shape) = (DataType::of::<T>(), vec![self.len() as i64]);
        self.into_tensor(dtype, shape, Vec::new())
    }
}

/// Type, shape and strides of a tensor over a buffer's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The type of the elements.
    pub dtype: DataType,
    /// Elements along each dimension.
    pub shape: Vec<usize>,
    /// Distance between neighbours along each dimension, in elements.
    pub strides: Vec<usize>,
}

impl Layout {
    /// Returns the layout of row-major order without gaps.
    pub fn compact(dtype: DataType, shape: Vec<usize>) -> Self {
        let strides = compact(&shape);
        Self { dtype, shape, strides }
    }

    /// Sets the strides of all dimensions of more than one element, or returns why they are invalid.
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

    /// Returns whether the elements are contiguous in row-major order.
    pub fn is_compact(&self) -> bool {
        let Self { shape, strides, .. } = self;
        let mut steps = shape.iter().zip(strides.iter().zip(compact(shape)));
        // The stride of a dimension of one element is unused.
        let fits = steps.all(|(&count, (&stride, needs))| count == 1 || stride == needs);
        shape.contains(&0) || shape.len() == strides.len() && fits
    }

    /// Returns the number of bytes from the first element to the end of the last one, or `None` on
    /// overflow or if the numbers of strides and lengths differ.
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

fn compact(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis].max(1));
    }
    strides
}

/// # DLPack
/// The bytes are exported with the type and layout that the caller gives them.
impl Buffer<u8> {
    /// Exports the bytes as a tensor of this layout, like [`into_dlpack`](Self::into_dlpack). The host
    /// does not wait: the tensor must be read on a stream that [waits](crate::Stream::wait_for_elements)
    /// for the elements.
    ///
    /// ```
    /// use warpfold::{Device, Selection, dlpack::{DataType, Layout, ManagedTensor}};
    ///
    /// let device = Device::open(Selection::Sim)?;
    /// let bytes = device.upload(&[1.0_f32, 2.0, 4.0, 8.0])?.cast::<u8>()?;
    /// // Every other element.
    /// let layout = Layout { dtype: DataType::of::<f32>(), shape: vec![2], strides: vec![2] };
    /// let tensor: *mut ManagedTensor = bytes.into_dlpack_as(layout)?;
    /// // Another library owns the tensor now, and calls its deleter when it is done.
    /// unsafe { (*tensor).deleter.unwrap()(tensor) };
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Foreign`] for a layout that exceeds the bytes.
    pub fn into_dlpack_as<M: Managed>(self, layout: Layout) -> Result<*mut M> {
        if layout.bytes().is_none_or(|bytes| bytes > self.len()) {
            let Layout { shape, strides, dtype } = layout;
            let reason = format!(
                "a tensor of {dtype} of the shape {shape:?} and the strides {strides:?} exceeds its {} \
                 bytes; give as many strides as lengths, and more bytes",
                self.len()
            );
            return Err(Error::Foreign { what: "layout", reason });
        }
        let Layout { dtype, shape, strides } = layout;
        // Lengths and strides inside the buffer fit into `i64`. Those of an empty tensor may not fit,
        // but are unused.
        let numbers = |counts: Vec<usize>| -> Vec<i64> {
            counts.into_iter().map(|count| i64::try_from(count).unwrap_or(i64::MAX)).collect()
        };
        Ok(self.into_tensor(dtype, numbers(shape), numbers(strides)))
    }
}

impl<T: Plain> Buffer<T> {
    /// Returns a tensor over the buffer's memory. If `strides` is empty, it is in row-major order.
    fn into_tensor<M: Managed>(self, dtype: DataType, shape: Vec<i64>, strides: Vec<i64>) -> *mut M {
        let data = ptr::without_provenance_mut(self.as_device_ptr() as usize);
        let device = Device::of(self.device());
        let ndim = shape.len() as c_int;
        // The tensor points to the shape and strides, so these live with the buffer at a fixed address.
        let context = Box::into_raw(Box::new(ManagerContext { shape, strides, _buffer: self }));
        // SAFETY: the box was just created, lives until the deleter is called, and only the tensor
        // refers to it.
        let ManagerContext { shape, strides, .. } = unsafe { &mut *context };
        let (shape, strides) = (
            shape.as_mut_ptr(),
            if strides.is_empty() { ptr::null_mut() } else { strides.as_mut_ptr() },
        );
        let dl_tensor = Tensor { data, device, ndim, dtype, shape, strides, byte_offset: 0 };
        Box::into_raw(Box::new(M::new(dl_tensor, context.cast(), delete::<M, T>)))
    }
}

struct ManagerContext<T> {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _buffer: Buffer<T>,
}

/// # Safety
/// `managed` must come from `Buffer<T>::into_tensor`, and this must be called once.
unsafe extern "C" fn delete<M: Managed, T>(managed: *mut M) {
    // SAFETY: `into_tensor` leaked both boxes, and the caller calls this once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.manager_ctx().cast::<ManagerContext<T>>()));
    }
}

struct Owned<M: Managed>(*mut M);

// SAFETY: the tensor is only accessed to call its deleter, which may happen on any thread.
unsafe impl<M: Managed> Send for Owned<M> {}
// SAFETY: a shared reference gives no access to the tensor.
unsafe impl<M: Managed> Sync for Owned<M> {}

impl<M: Managed> Drop for Owned<M> {
    fn drop(&mut self) {
        // SAFETY: the tensor is owned, and nothing reads its elements any more.
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

/// # Safety
/// `tensor` must point to a tensor of any version.
unsafe fn require_version(tensor: *const ManagedTensorVersioned) -> Result<()> {
    // SAFETY: `tensor` points to a tensor, and all versions store the version at the same offset.
    let [major, minor] = unsafe { (*tensor).version };
    if major == MAJOR {
        return Ok(());
    }
    Err(refused(format!("its version is {major}.{minor}; it must be {MAJOR} with any minor version")))
}

/// Returns the inner tensor and its layout.
///
/// # Safety
/// `managed` must point to a valid tensor of type `M`, of any version.
unsafe fn tensor_of<T: Element, M: Managed>(
    device: &GpuDevice,
    managed: *const M,
) -> Result<(*const Tensor, Layout)> {
    // SAFETY: `managed` points to a valid tensor.
    let tensor = unsafe { M::tensor(managed) }?;
    // SAFETY: the shape and the strides of a valid tensor have one number for each dimension.
    let layout = unsafe { layout_of::<T>(device, &*tensor) }.map_err(refused)?;
    Ok((tensor, layout))
}

/// Returns the layout of a tensor, or the reason why it cannot be reduced in place.
///
/// # Safety
/// The shape, and the strides if there are any, must have one number for each dimension.
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
        return Err(format!("its elements are {has}, but the buffer is of {needs}"));
    }
    let dimensions = usize::try_from(tensor.ndim)
        .map_err(|_| format!("it has {} dimensions; give 0 or more", tensor.ndim))?;
    let numbers = |start: *mut i64| {
        if dimensions == 0 || start.is_null() {
            return &[][..];
        }
        // SAFETY: the caller promises one number for each dimension.
        unsafe { slice::from_raw_parts(start, dimensions) }
    };
    let (shape, strides) = (numbers(tensor.shape), numbers(tensor.strides));
    if shape.len() != dimensions {
        return Err(format!("it has {dimensions} dimensions but no shape; give a length for each"));
    }
    let counts: Option<Vec<_>> = shape.iter().map(|&count| usize::try_from(count).ok()).collect();
    let counts = counts.filter(|counts| {
        counts.iter().try_fold(1, |len: usize, &count| len.checked_mul(count)).is_some()
    });
    let counts = counts.ok_or_else(|| {
        format!("its shape is {shape:?}; lengths must be 0 or more, and their product must not overflow")
    })?;
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
    fn is_compact_requires_row_major_order_without_gaps() {
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
    fn nonpositive_strides_are_rejected() {
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
