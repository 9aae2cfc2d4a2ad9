//! Kernels that try the device crate, launched with whatever arguments they have.
//!
//! # Panics
//! Everything here panics when the device refuses.

use std::path::Path;

use bytemuck::Pod;
use warpfold_suite::abi::{Arguments, Parameter};
use warpfold_suite::device::{Allocation, Geometry};

use crate::{device, ptx};

/// Bytes of an element that no probe writes.
pub const POISON: u8 = 0xac;

/// Device memory that holds these values.
pub fn memory<T: Pod>(values: &[T]) -> Allocation {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    let memory = device().allocate(bytes.len() as u64).unwrap();
    memory.write(0, bytes).unwrap();
    memory
}

/// Device memory of `len` values, each of whose bytes is [`POISON`].
pub fn poisoned<T>(len: usize) -> Allocation {
    let bytes = (len * size_of::<T>()) as u64;
    let memory = device().allocate(bytes).unwrap();
    memory.fill(0, POISON, bytes).unwrap();
    memory
}

/// The values that are in device memory.
pub fn values<T: Pod>(memory: &Allocation) -> Vec<T> {
    let mut values = vec![T::zeroed(); memory.bytes() as usize / size_of::<T>()];
    memory.read(0, bytemuck::cast_slice_mut(&mut values)).unwrap();
    values
}

/// The arguments of a probe, addresses and counts without names: each probe has a signature of its own,
/// and one caller.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Words<const N: usize>([u64; N]);

// SAFETY: an array of words has no padding; word i is parameter i.
unsafe impl<const N: usize> Arguments for Words<N> {
    const PARAMETERS: &'static [Parameter] = &{
        // Whether a word is an address nobody knows here, so it may be one.
        let mut parameters = [Parameter { name: "word", offset: 0, size: 8, pointer: true }; N];
        let mut at = 0;
        while at < N {
            parameters[at].offset = 8 * at;
            at += 1;
        }
        parameters
    };
}

/// Launches an entry of a PTX file and waits for it. The arguments are what the entry's doc asks for,
/// and the memory that they name outlives the call.
///
/// # Panics
/// When it cannot be launched, or fails.
pub fn launch<const N: usize>(file: &str, entry: &str, geometry: Geometry, arguments: [u64; N]) {
    let ptx = ptx(file);
    run(&ptx.path, &ptx.text, entry, geometry, arguments).unwrap_or_else(|e| panic!("{entry}: {e}"));
}

/// Launches an entry of a PTX text, which errors call `path`, and waits for it. The arguments are what
/// the entry asks for, and the memory that they name outlives the call.
///
/// # Errors
/// When the driver takes neither the text nor the launch, or the kernel fails.
pub fn run<const N: usize>(
    path: &Path,
    text: &str,
    entry: &str,
    geometry: Geometry,
    arguments: [u64; N],
) -> warpfold_suite::Result<()> {
    let kernel = device().load(path, text, entry)?;
    let stream = device().stream()?;
    // SAFETY: callers pass what the entry asks for, and this waits before it lets go.
    unsafe { kernel.launch(&stream, geometry, &Words(arguments)) }?;
    stream.synchronize()
}

/// Makes a test of each function of the module `generic`, for each element type that kernels have.
#[macro_export]
macro_rules! for_each_type {
    ($($test:ident)*) => {$(
        #[test]
        fn $test() {
            generic::$test::<i32>();
            generic::$test::<u32>();
            generic::$test::<i64>();
            generic::$test::<u64>();
            generic::$test::<f32>();
            generic::$test::<f64>();
        }
    )*};
}
