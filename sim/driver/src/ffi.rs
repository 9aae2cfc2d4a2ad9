//! The arguments of the C interface as values for safe code.
//!
//! The exported functions convert each argument by [`FromC`], which trusts the caller's pointers. Unsafe
//! code remains only for arrays whose length is another argument, for untyped values, and for host
//! memory.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use warpfold_driver::sys::*;

use crate::failure::{Outcome, fail};
use crate::fatbin;
use crate::functions::library;

/// Conversion of an argument of the C type `Raw`.
pub(crate) trait FromC<Raw>: Sized {
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` for a null pointer where none is allowed.
    ///
    /// # Safety
    /// The argument is valid by the driver's manual: a pointer is null, or valid until the function
    /// returns for the reads and writes that the manual states.
    unsafe fn from_c(raw: Raw) -> Outcome<Self>;
}

impl<T> FromC<T> for T {
    unsafe fn from_c(raw: T) -> Outcome<Self> {
        Ok(raw)
    }
}

pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    pub(crate) fn put(self, value: T) -> Outcome {
        // SAFETY: by the contract of `from_c`, the value may be written until the call returns, and an
        // `Out` does not outlive the call. The write is unaligned, because C code does not always align.
        unsafe { self.0.as_ptr().write_unaligned(value) };
        Ok(())
    }

    pub(crate) fn get(&self) -> T
    where
        T: Copy,
    {
        // SAFETY: by the contract of `from_c`, the value may be read until the call returns. `T` is
        // plain data, for which every value is valid.
        unsafe { self.0.as_ptr().read_unaligned() }
    }

    pub(crate) fn address(&self) -> usize {
        self.0.addr().get()
    }
}

impl<T> FromC<*mut T> for Out<T> {
    unsafe fn from_c(raw: *mut T) -> Outcome<Self> {
        NonNull::new(raw).map_or(fail(CUDA_ERROR_INVALID_VALUE), |place| Ok(Self(place)))
    }
}

impl<T> FromC<*mut T> for Option<Out<T>> {
    unsafe fn from_c(raw: *mut T) -> Outcome<Self> {
        Ok(NonNull::new(raw).map(Out))
    }
}

pub(crate) fn put_if<T>(place: Option<Out<T>>, value: T) -> Outcome {
    place.map_or(Ok(()), |place| place.put(value))
}

pub(crate) struct In<T>(pub(crate) T);

impl<T: Copy> FromC<*const T> for In<T> {
    unsafe fn from_c(raw: *const T) -> Outcome<Self> {
        if raw.is_null() {
            return fail(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: `raw` is not null, so by this function's contract it points at a value.
        Ok(Self(unsafe { raw.read_unaligned() }))
    }
}

impl<T: Copy> FromC<*const T> for Option<In<T>> {
    unsafe fn from_c(raw: *const T) -> Outcome<Self> {
        // SAFETY: if `raw` is not null, this function's contract is that of `In::from_c`.
        if raw.is_null() { Ok(None) } else { unsafe { In::from_c(raw) }.map(Some) }
    }
}

impl<T: Copy> FromC<*mut T> for In<T> {
    unsafe fn from_c(raw: *mut T) -> Outcome<Self> {
        // SAFETY: this function's contract is that of `from_c` for `*const T`.
        unsafe { Self::from_c(raw.cast_const()) }
    }
}

/// `CUctxCreateParams`, which may restrict a context to a part of its device.
pub(crate) struct ContextParams {
    pub(crate) ask_for_part: bool,
}

impl FromC<*mut c_void> for ContextParams {
    unsafe fn from_c(raw: *mut c_void) -> Outcome<Self> {
        // SAFETY: the argument is null, or a structure of three words: two pointers, and between them a
        // 32-bit number. The padding of the number may be uninitialised.
        let given = unsafe { Option::<In<[MaybeUninit<usize>; 3]>>::from_c(raw.cast_const().cast()) }?;
        let is_set = |In([affinities, _, graphics]): In<[MaybeUninit<usize>; 3]>| {
            // SAFETY: the caller passed an initialised structure, so both pointers are initialised.
            unsafe { affinities.assume_init() != 0 || graphics.assume_init() != 0 }
        };
        Ok(Self { ask_for_part: given.is_some_and(is_set) })
    }
}

pub(crate) struct Text(pub(crate) String);

impl FromC<*const c_char> for Text {
    unsafe fn from_c(raw: *const c_char) -> Outcome<Self> {
        if raw.is_null() {
            return fail(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: `raw` is not null, so by this function's contract it is a null-terminated string.
        Ok(Self(unsafe { CStr::from_ptr(raw) }.to_string_lossy().into_owned()))
    }
}

pub(crate) enum Image {
    Ptx(String),
    Fat(Vec<u8>),
    /// Compiled code, with a description of its kind.
    Compiled(&'static str),
    Unknown,
}

impl FromC<*const c_void> for Image {
    unsafe fn from_c(raw: *const c_void) -> Outcome<Self> {
        if raw.is_null() {
            return fail(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: an image starts with a number of four bytes or is a null-terminated text. No byte
        // after the terminating zero of a text is read.
        let first = |index| unsafe { raw.cast::<u8>().add(index).read() };
        let (zero, one) = (first(0), if first(0) == 0 { 0 } else { first(1) });
        Ok(match (zero, one) {
            (0x7f, b'E') => Self::Compiled("an ELF image (cubin)"),
            (0x50, 0xed) => {
                // SAFETY: a fat binary begins with a header that gives its length.
                let fat = unsafe { fat_binary(raw.cast()) }?;
                Self::Fat(fat)
            }
            (0xb1, 0x43) => {
                // SAFETY: a wrapper is 24 bytes: two words, followed by the address of the fat binary.
                let fat = unsafe { raw.cast::<*const u8>().add(1).read_unaligned() };
                if fat.is_null() {
                    return fail(CUDA_ERROR_INVALID_IMAGE);
                }
                // SAFETY: the wrapper's address is that of a fat binary.
                let fat = unsafe { fat_binary(fat) }?;
                Self::Fat(fat)
            }
            // SAFETY: any other image is a null-terminated text.
            _ => match unsafe { CStr::from_ptr(raw.cast()) }.to_str() {
                Ok(text) => Self::Ptx(text.to_owned()),
                Err(_) => Self::Unknown,
            },
        })
    }
}

/// # Safety
/// The header at `from` is readable, and as many bytes after it as the header states.
unsafe fn fat_binary(from: *const u8) -> Outcome<Vec<u8>> {
    // SAFETY: by this function's contract, the header is readable.
    let head = unsafe { from.cast::<[u8; fatbin::HEAD_BYTES]>().read_unaligned() };
    if !head.starts_with(&fatbin::MAGIC) {
        return fail(CUDA_ERROR_INVALID_IMAGE);
    }
    let bytes = fatbin::bytes(head).ok_or(CUDA_ERROR_INVALID_IMAGE)?;
    // SAFETY: by this function's contract, the bytes that the header states are readable.
    Ok(unsafe { std::slice::from_raw_parts(from, bytes) }.to_vec())
}

/// Returns the `count` values at `first`; `first` may be null if the count is 0.
///
/// # Safety
/// `first` is null, or `count` values can be read there.
pub(crate) unsafe fn list<T: Copy>(first: *const T, count: usize) -> Outcome<Vec<T>> {
    if count != 0 && first.is_null() {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: by this function's contract, `count` values can be read, and the index is below `count`.
    Ok((0..count).map(|index| unsafe { first.add(index).read_unaligned() }).collect())
}

pub(crate) struct Buffer(*mut c_char);

impl FromC<*mut c_char> for Buffer {
    unsafe fn from_c(raw: *mut c_char) -> Outcome<Self> {
        if raw.is_null() { fail(CUDA_ERROR_INVALID_VALUE) } else { Ok(Self(raw)) }
    }
}

impl Buffer {
    pub(crate) fn put(self, len: c_int, text: &str) -> Outcome {
        let Some(room) = usize::try_from(len).ok().and_then(|len| len.checked_sub(1)) else {
            return fail(CUDA_ERROR_INVALID_VALUE);
        };
        // SAFETY: by the contract of `from_c`, `len` bytes may be written at this pointer.
        unsafe { write_text(self.0, room + 1, text) };
        Ok(())
    }
}

/// Writes as much of a text as fits into `room` bytes with a terminating zero, and returns the bytes
/// written.
///
/// # Safety
/// `room` bytes may be written at `to`, and `room` is at least 1.
pub(crate) unsafe fn write_text(to: *mut c_char, room: usize, text: &str) -> usize {
    let bytes = text.len().min(room - 1);
    // SAFETY: text and zero take at most the `room` bytes that this function's contract allows.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), bytes);
        to.add(bytes).write(0);
    }
    bytes + 1
}

/// Declares handles: numbers that are looked up and never dereferenced.
macro_rules! handles {
    ($($name:ident of $raw:ty;)*) => {$(
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(pub(crate) u64);

        impl $name {
            pub(crate) fn raw(self) -> $raw {
                ptr::without_provenance_mut(self.0 as usize)
            }
        }

        impl From<$raw> for $name {
            fn from(raw: $raw) -> Self {
                Self(raw.addr() as u64)
            }
        }

        impl FromC<$raw> for $name {
            unsafe fn from_c(raw: $raw) -> Outcome<Self> {
                Ok(raw.into())
            }
        }
    )*};
}

handles! {
    ArrayId of CUarray;
    ContextId of CUcontext;
    EventId of CUevent;
    ExecId of CUgraphExec;
    GraphId of CUgraph;
    KernelId of CUkernel;
    LibraryId of CUlibrary;
    LinkId of CUlinkState;
    ModuleId of CUmodule;
    NodeId of CUgraphNode;
    PoolId of CUmemoryPool;
    StreamId of CUstream;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FunctionId(pub(crate) u64);

impl FunctionId {
    pub(crate) fn raw(self) -> CUfunction {
        ptr::without_provenance_mut(self.0 as usize)
    }
}

impl FromC<CUfunction> for FunctionId {
    /// Accepts a `CUkernel` as well, which is replaced by its function in the current context.
    unsafe fn from_c(raw: CUfunction) -> Outcome<Self> {
        let handle = raw.addr() as u64;
        Ok(library::function_of(KernelId(handle))?.unwrap_or(Self(handle)))
    }
}
