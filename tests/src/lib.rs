//! What the whole-system tests share: the device under test and the PTX it runs.
//!
//! The simulator by default; `WARPFOLD_TEST_DEVICE=cuda` (which `cargo xtask test --device cuda` sets)
//! takes the GPU. There is no skip: a test that cannot run fails.

pub mod probing;

use std::{env, path::Path, sync::OnceLock};

use warpfold::{Data, Device, Dtype, PtxStore, Scalar, Selection, device::Kind};

/// Environment variable that names the device under test.
pub const TEST_DEVICE: &str = "WARPFOLD_TEST_DEVICE";

/// The device under test.
///
/// # Panics
/// When it cannot be opened.
pub fn device() -> &'static Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE.get_or_init(|| {
        let name = env::var(TEST_DEVICE).unwrap_or_else(|_| "sim".to_owned());
        let selection: Selection = name.parse().unwrap_or_else(|error| panic!("{TEST_DEVICE}: {error}"));
        Device::open(selection).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// Whether the tests run on a GPU.
pub fn on_gpu() -> bool {
    device().info().kind == Kind::Cuda
}

/// The PTX under test, built first where its sources are newer; `WARPFOLD_PTX_DIR` names a folder to
/// take as it is, for a machine without a compiler.
///
/// # Panics
/// When it cannot be built.
pub fn store() -> &'static PtxStore {
    static STORE: OnceLock<PtxStore> = OnceLock::new();
    STORE.get_or_init(|| xtask::suite::ptx_store().unwrap_or_else(|error| panic!("{error:#}")))
}

/// The PTX of the CUDA C twins, compiled first where their sources are newer; the reason where there is
/// no nvcc, which is the one thing that a test may lack.
///
/// # Errors
/// Those of [`xtask::suite::twin_store`].
pub fn twins() -> Result<&'static PtxStore, String> {
    static STORE: OnceLock<Result<PtxStore, String>> = OnceLock::new();
    let store = STORE.get_or_init(|| xtask::suite::twin_store().map_err(|error| format!("{error:#}")));
    store.as_ref().map_err(Clone::clone)
}

/// Text of the PTX file of a variant or test kernel.
///
/// # Panics
/// When there is none.
pub fn ptx(id: &str) -> warpfold::PtxFile {
    store().find(id, device().info()).unwrap_or_else(|error| panic!("{error}"))
}

/// Elements in which position matters and every order of additions is exact: small integers of both
/// signs, in a pattern that repeats nowhere.
pub fn small_integers(dtype: Dtype, n: usize, seed: u64) -> Data {
    let Data::U64(bits) = Data::random(Dtype::U64, n, seed) else { unreachable!("asked for u64") };
    let value = move |i: usize| (bits[i] >> 40) as i64 % 101 - 50;
    match dtype {
        Dtype::F32 => f32::data((0..n).map(|i| value(i) as f32).collect()),
        Dtype::F64 => f64::data((0..n).map(|i| value(i) as f64).collect()),
        _ => Data::random(dtype, n, seed),
    }
}

/// The workspace's root folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace")
}
