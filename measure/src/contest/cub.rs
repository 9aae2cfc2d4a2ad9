//! CUB, NVIDIA's library of device-wide reductions, as a contender.
//!
//! CUB consists of CUDA C++ templates. `cargo xtask build-twins --cub` compiles the required instances
//! into a shared library with a C interface (`cuda/cub/`), which is loaded at run time.
//!
//! Every operation and element type is supported, each in CUB's fastest form: sums of 8-bit integers are
//! computed and written in 32 bits, not in the 64 of [`Op::result`].

mod segments;

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    path::Path,
    ptr,
    sync::Arc,
};

use libloading::Library;

use super::Contender;
use segments::ReduceRows;
pub use segments::{CubRows, Segments};
use warpfold_suite::{
    Device, Dtype, Error, Kind, Op, Result, Stream,
    device::{Allocation, read_value},
    measure::Slot,
    reference::{Expected, POISON},
};

type Version = unsafe extern "C" fn() -> c_int;
type ErrorText = unsafe extern "C" fn(c_int) -> *const c_char;
type Reduce = unsafe extern "C" fn(
    c_int,
    c_int,
    *mut c_void,
    *mut usize,
    *const c_void,
    *mut c_void,
    u64,
    *mut c_void,
) -> c_int;

pub struct Cub {
    reduce: Reduce,
    reduce_rows: ReduceRows,
    error_text: ErrorText,
    version: c_int,
}

impl Cub {
    /// Opens the library that `cargo xtask build-twins --cub` builds.
    ///
    /// ```compile_fail,E0133
    /// let cub = warpfold_measure::contest::Cub::open("libwarpfold_cub.so".as_ref());
    /// ```
    ///
    /// # Safety
    /// Loading a library runs its code. The file must be that library, or one whose functions of the
    /// same names have the same types and behaviour.
    pub unsafe fn open(path: &Path) -> Result<Arc<Self>> {
        let refused = |error: libloading::Error| {
            let text = error.to_string();
            let reason = text.split_whitespace().collect::<Vec<_>>().join(" ");
            Error::BadInput { path: path.to_owned(), reason }
        };
        // SAFETY: loading runs the library's initialisers, for which the caller is responsible.
        let library = unsafe { Library::new(path) }.map_err(refused)?;
        // SAFETY: these are the types of the functions in cuda/cub/library.cu; the caller ensures that
        // the library was built from it.
        let (version, error_text, reduce, reduce_rows) = unsafe {
            (
                *library.get::<Version>("warpfold_cub_version").map_err(refused)?,
                *library.get::<ErrorText>("warpfold_cub_error").map_err(refused)?,
                *library.get::<Reduce>("warpfold_cub_reduce").map_err(refused)?,
                *library.get::<ReduceRows>("warpfold_cub_rows").map_err(refused)?,
            )
        };
        // SAFETY: the function takes no arguments and returns a constant.
        let version = unsafe { version() };
        // The library is never closed: its functions are in use, and its CUDA runtime has exit handlers.
        std::mem::forget(library);
        Ok(Arc::new(Self { reduce, reduce_rows, error_text, version }))
    }

    /// Returns CUB's release, such as `3.0.1`.
    pub fn version(&self) -> String {
        let number = self.version;
        format!("{}.{}.{}", number / 100_000, number / 100 % 1000, number % 100)
    }

    fn check(&self, device: &Device, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function takes any code and returns static text.
        let text = unsafe { CStr::from_ptr((self.error_text)(code)) };
        let reason = text.to_string_lossy().into_owned();
        Err(Error::Driver { device: device.info().name.clone(), call: "cub", reason })
    }
}

/// Returns the operation's code in cuda/cub/library.cu.
fn op_code(op: Op) -> c_int {
    match op {
        Op::Sum => 0,
        Op::Min => 1,
        Op::Max => 2,
        Op::SumOfSquares => 3,
        Op::ArgMin => 4,
        Op::ArgMax => 5,
    }
}

/// Returns the type's code in cuda/cub/library.cuh.
fn dtype_code(dtype: Dtype) -> c_int {
    match dtype {
        Dtype::I32 => 0,
        Dtype::U32 => 1,
        Dtype::I64 => 2,
        Dtype::U64 => 3,
        Dtype::F32 => 4,
        Dtype::F64 => 5,
        Dtype::I8 => 6,
        Dtype::U8 => 7,
        Dtype::F16 => 8,
        Dtype::Bf16 => 9,
        Dtype::I16 => 10,
        Dtype::U16 => 11,
    }
}

/// Returns the offset of the result in the output, and the result's type.
fn written(op: Op, dtype: Dtype) -> (u64, Dtype) {
    match (op, dtype) {
        // CUB writes the element before its index, which is signed and never negative.
        (Op::ArgMin | Op::ArgMax, _) => (OUTPUT_BYTES / 2, Dtype::U64),
        // CUB adds these types in 32 bits, with wrap-around.
        (Op::Sum | Op::SumOfSquares, Dtype::I8 | Dtype::I16 | Dtype::I32) => (0, Dtype::I32),
        (Op::Sum | Op::SumOfSquares, Dtype::U8 | Dtype::U16 | Dtype::U32) => (0, Dtype::U32),
        _ => (0, op.result(dtype)),
    }
}

/// One of CUB's reductions, with its temporary storage.
pub struct CubReduction {
    cub: Arc<Cub>,
    op: Op,
    dtype: Dtype,
    n: u64,
    temporary: Allocation,
    temporary_bytes: usize,
    output: Allocation,
    expected: Expected,
    device: Device,
}

impl CubReduction {
    /// Allocates the temporary storage. `expected` is the correct result; CUB need not return NaN as the
    /// minimum or maximum of elements that contain one.
    pub fn new(
        cub: &Arc<Cub>,
        device: &Device,
        (op, dtype, n): (Op, Dtype, u64),
        expected: Expected,
    ) -> Result<Self> {
        let mut made = Self {
            cub: cub.clone(),
            op,
            dtype,
            n,
            temporary: device.allocate(1)?,
            temporary_bytes: 0,
            output: device.allocate(OUTPUT_BYTES)?,
            expected,
            device: device.clone(),
        };
        let stream = device.stream()?;
        // SAFETY: without temporary storage CUB only computes its size.
        unsafe { made.call(&stream, ptr::null_mut(), 0) }?;
        made.temporary = device.allocate(made.temporary_bytes as u64)?;
        Ok(made)
    }

    /// # Safety
    /// Unless `temporary` is null, it must be the address of as many bytes as CUB requires, and `input`
    /// that of the elements; all must live until the stream has been synchronised.
    unsafe fn call(&mut self, stream: &Stream, temporary: *mut c_void, input: u64) -> Result<()> {
        if self.device.info().kind != Kind::Cuda {
            let reason = format!("CUB runs on GPUs, this is {}", self.device.info().name);
            return Err(Error::Mismatch { what: "device", reason });
        }
        // Makes the context current, which the CUDA runtime inside the library then uses.
        let stream = stream.raw()?;
        // SAFETY: the output has room for any result. By this function's contract, the storage and the
        // input are valid until the stream has been synchronised.
        let code = unsafe {
            (self.cub.reduce)(
                op_code(self.op),
                dtype_code(self.dtype),
                temporary,
                &mut self.temporary_bytes,
                device_pointer(input).cast_const(),
                device_pointer(self.output.address()),
                self.n,
                stream,
            )
        };
        self.cub.check(&self.device, code)
    }
}

/// An extreme element in the first half, and its index in the second.
const OUTPUT_BYTES: u64 = 16;

/// Returns a device address as a C pointer, which the host must not dereference.
fn device_pointer(address: u64) -> *mut c_void {
    ptr::without_provenance_mut(address as usize)
}

// SAFETY: CUB reads n elements and writes its temporary storage and the output, which `self` owns.
unsafe impl Contender for CubReduction {
    fn device(&self) -> &Device {
        &self.device
    }

    fn input(&self) -> Option<(Dtype, u64)> {
        Some((self.dtype, self.n))
    }

    unsafe fn enqueue(&mut self, stream: &Stream, slot: &Slot<'_>) -> Result<()> {
        let temporary = device_pointer(self.temporary.address());
        // SAFETY: the temporary storage has the size that CUB requires, and the slot holds the elements.
        unsafe { self.call(stream, temporary, slot.input()) }
    }

    fn poison(&mut self, _slot: &Slot<'_>) -> Result<()> {
        self.output.fill(0, POISON, OUTPUT_BYTES)
    }

    fn check(&self, _slot: &Slot<'_>) -> Result<bool> {
        let (offset, dtype) = written(self.op, self.dtype);
        let value = read_value(&self.output, offset, dtype)?;
        Ok(self.expected.judge(value, depth(self.n))?.ok)
    }
}

/// Returns an upper bound of the additions on an element's path. Assumes that CUB launches at least 512
/// blocks of 256 threads, or 16 elements per thread for smaller inputs; that each block reduces by a
/// tree; and that one block reduces the blocks' results.
pub fn depth(n: u64) -> u64 {
    n.div_ceil(512 * 256).max(16) + 2 * 8 + 64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::{Contest, LEAST_ROUNDS, Options};
    use warpfold_suite::{Data, Selection};

    #[test]
    fn missing_or_invalid_library_is_a_one_line_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libwarpfold_cub.so");
        for text in [None, Some("no library\n")] {
            text.inspect(|text| std::fs::write(&path, text).unwrap());
            // SAFETY: no library is loaded, because none exists at the path.
            let error = unsafe { Cub::open(&path) }.err().unwrap().to_string();
            assert_eq!(error.lines().count(), 1, "{error}");
            assert!(error.contains("libwarpfold_cub.so"), "{error}");
        }
    }

    #[test]
    fn the_codes_are_those_of_the_library() {
        let code = |source: &str, begin: &str, name: &str| {
            let list = source.split(begin).nth(1).unwrap().split('}').next().unwrap();
            list.split(',').position(|entry| entry.trim() == name).unwrap() as c_int
        };
        let header = include_str!("../../../cuda/cub/library.cuh");
        for &dtype in Dtype::ALL {
            let expected = code(header, "enum class Dtype : int {", dtype.name());
            assert_eq!(dtype_code(dtype), expected, "{dtype}");
        }
        let source = include_str!("../../../cuda/cub/library.cu");
        for (op, function) in [
            (Op::Sum, "sum"),
            (Op::Min, "least"),
            (Op::Max, "greatest"),
            (Op::SumOfSquares, "sum_of_squares"),
            (Op::ArgMin, "index_of_least"),
            (Op::ArgMax, "index_of_greatest"),
        ] {
            let line = format!("case {}: return warpfold::{function}(element, call);", op_code(op));
            assert!(source.contains(&line), "{line}");
        }
        let mut codes: Vec<c_int> = Op::ALL.iter().map(|&op| op_code(op)).collect();
        codes.dedup();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn results_are_read_as_they_are_written() {
        for &dtype in Dtype::ALL {
            for op in [Op::Min, Op::Max] {
                assert_eq!(written(op, dtype), (0, dtype));
            }
            for op in [Op::ArgMin, Op::ArgMax] {
                assert_eq!(written(op, dtype), (8, Dtype::U64));
            }
            assert_eq!(written(Op::Sum, dtype), written(Op::SumOfSquares, dtype));
            let (offset, sum) = written(Op::Sum, dtype);
            assert!(offset == 0 && sum.size() == dtype.size().max(4), "{dtype}: {sum}");
            assert_eq!(sum.is_float(), dtype.is_float(), "{dtype}");
        }
    }

    /// Runs if `WARPFOLD_CUB` names a built library, which loads but cannot run without a GPU.
    #[test]
    fn a_library_that_was_built_loads() {
        let Some(path) = std::env::var_os("WARPFOLD_CUB") else { return };
        // SAFETY: the user who sets the variable ensures that it names such a library.
        let cub = unsafe { Cub::open(Path::new(&path)) }.unwrap();
        assert_eq!(cub.version().split('.').count(), 3);
        let device = Device::open(Selection::Sim).unwrap();
        let expected = Expected::of(Op::Sum, &Data::I32(vec![1])).unwrap();
        let error = CubReduction::new(&cub, &device, (Op::Sum, Dtype::I32, 1), expected).err().unwrap();
        assert!(error.to_string().contains("CUB runs on GPUs"), "{error}");
    }

    /// Runs if `WARPFOLD_CUB` names a built library and there is a GPU. The random elements have ties in
    /// the narrow types.
    #[test]
    fn a_library_that_was_built_is_right() {
        let Some(path) = std::env::var_os("WARPFOLD_CUB") else { return };
        let Ok(device) = Device::open(Selection::Cuda) else { return };
        // SAFETY: the user who sets the variable ensures that it names such a library.
        let cub = unsafe { Cub::open(Path::new(&path)) }.unwrap();
        let options = Options { rounds: LEAST_ROUNDS, warm_up: 1, slices: 1, ..Options::default() };
        for &dtype in Dtype::ALL {
            for n in [1, 1000, 1_000_003] {
                for &op in Op::ALL {
                    let mut data = Data::drawn(op, dtype, n, n as u64);
                    let expected = Expected::mark(op, &mut data, n).unwrap();
                    let input = device.upload(&data).unwrap();
                    let case = (op, dtype, n as u64);
                    let mut contest = Contest::new(&input, 0).unwrap();
                    contest.enter(CubReduction::new(&cub, &device, case, expected).unwrap(), 0).unwrap();
                    let scores = contest.run(options, |_| {}).unwrap();
                    assert!(scores.iter().all(|score| score.right), "{op} of {n} {dtype}");
                }
            }
        }
    }
}
