//! Launches kernels that test the device crate.
//!
//! # Panics
//! All functions except [`run`] panic on errors of the device.

use std::path::Path;

use bytemuck::Pod;
use warpfold_suite::abi::{Arguments, Parameter};
use warpfold_suite::device::{Allocation, Geometry};

use crate::{device, ptx};

/// Byte value of elements that no kernel has written.
pub const POISON: u8 = 0xac;

/// Returns device memory with these values.
pub fn memory<T: Pod>(values: &[T]) -> Allocation {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    let memory = device().allocate(bytes.len() as u64).unwrap();
    memory.write(0, bytes).unwrap();
    memory
}

/// Returns device memory for `len` values, filled with [`POISON`] bytes.
pub fn poisoned<T>(len: usize) -> Allocation {
    let bytes = (len * size_of::<T>()) as u64;
    let memory = device().allocate(bytes).unwrap();
    memory.fill(0, POISON, bytes).unwrap();
    memory
}

pub fn values<T: Pod>(memory: &Allocation) -> Vec<T> {
    let mut values = vec![T::zeroed(); memory.bytes() as usize / size_of::<T>()];
    memory.read(0, bytemuck::cast_slice_mut(&mut values)).unwrap();
    values
}

/// The arguments of a test kernel, without names or types: each kernel has its own signature and caller.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Words<const N: usize>([u64; N]);

// SAFETY: an array of words has no padding; word i is parameter i.
unsafe impl<const N: usize> Arguments for Words<N> {
    const PARAMETERS: &'static [Parameter] = &{
        // The words that are addresses are not known here, so each word is marked as an address.
        let mut parameters = [Parameter { name: "word", offset: 0, size: 8, pointer: true }; N];
        let mut at = 0;
        while at < N {
            parameters[at].offset = 8 * at;
            at += 1;
        }
        parameters
    };
}

/// Launches an entry of a PTX file and waits for it. The arguments must be those that the entry
/// documents, and their memory must outlive the call.
pub fn launch<const N: usize>(file: &str, entry: &str, geometry: Geometry, arguments: [u64; N]) {
    let ptx = ptx(file);
    run(&ptx.path, &ptx.text, entry, geometry, arguments).unwrap_or_else(|e| panic!("{entry}: {e}"));
}

/// Launches an entry of a PTX text, which errors call `path`, and waits for it. The arguments must be
/// those that the entry documents, and their memory must outlive the call.
pub fn run<const N: usize>(
    path: &Path,
    text: &str,
    entry: &str,
    geometry: Geometry,
    arguments: [u64; N],
) -> warpfold_suite::Result<()> {
    let kernel = device().load(path, text, entry)?;
    let stream = device().stream()?;
    // SAFETY: callers pass the entry's documented arguments, and their memory outlives the wait below.
    unsafe { kernel.launch(&stream, geometry, &Words(arguments)) }?;
    stream.synchronize()
}

/// Declares a test of each function of the module `generic`, for each element type of the kernels.
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
