//! Shared by the whole-system tests: the device under test and its PTX.
//!
//! The device is the simulator by default; `cargo xtask test --device cuda` selects the GPU by setting
//! `WARPFOLD_TEST_DEVICE=cuda`. Tests that cannot run fail. The only tests that may be skipped are those
//! of the CUDA C twins, where there is no nvcc.

pub mod probing;

use std::{
    env,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use warpfold_suite::{Data, Device, Dtype, Op, PtxStore, Selection, device::Kind, reference::Expected};
use warpfold_suite_build::{
    builder::Choice,
    suite::{self, Sources},
};

/// Environment variable that names the device under test.
pub const TEST_DEVICE: &str = "WARPFOLD_TEST_DEVICE";

pub fn device() -> &'static Device {
    static DEVICE: OnceLock<Device> = OnceLock::new();
    DEVICE.get_or_init(|| {
        let name = env::var(TEST_DEVICE).unwrap_or_else(|_| "sim".to_owned());
        let selection: Selection = name.parse().unwrap_or_else(|error| panic!("{TEST_DEVICE}: {error}"));
        Device::open(selection).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// Returns another device of the kind under test, in its own context: it shares no memory with
/// [`device`], and a failing kernel there does not affect it.
pub fn isolated() -> Device {
    // The first device decides what the process runs on.
    device();
    Device::isolated(Selection::Auto).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns a guard whose drop panics if memory was freed on [`device`] while pending work used it.
/// Nothing is detected on a GPU.
pub fn no_findings() -> impl Drop {
    let context = device().raw_context().unwrap_or_else(|error| panic!("{error}"));
    warpfold_sim_driver::NoFindings::in_context(context.cast())
}

pub fn on_gpu() -> bool {
    device().info().kind == Kind::Cuda
}

/// Returns the path of a program of the workspace, or of `examples/NAME`, built first if it is out of
/// date.
pub fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        // The same arguments as in `cargo xtask test`, so that nothing is compiled with other features.
        cargo.current_dir(root()).args(["build", "--workspace", "--bins", "--examples"]);
        let built = cargo.output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        // Tests are in the folder deps beside the programs.
        env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()
    });
    folder.join(name)
}

/// Returns the PTX under test, rebuilt first if its sources are newer, or the folder in
/// `WARPFOLD_PTX_DIR` unchanged, for a machine without a compiler.
pub fn store() -> &'static PtxStore {
    static STORE: OnceLock<PtxStore> = OnceLock::new();
    STORE.get_or_init(|| sources_ptx().unwrap_or_else(|error| panic!("{error:#}")))
}

fn sources_ptx() -> anyhow::Result<PtxStore> {
    suite::ptx_store(&Sources, Choice::by_default()?)
}

/// Returns the PTX of the CUDA C twins, compiled first if their sources are newer, or the reason if
/// there is no nvcc. If tests are [strict](warpfold_suite_build::suite::STRICT_TESTS), a missing nvcc is
/// a panic. No other dependency may be missing.
pub fn twins() -> Result<&'static PtxStore, String> {
    static STORE: OnceLock<Result<PtxStore, String>> = OnceLock::new();
    let store = STORE.get_or_init(|| {
        suite::twin_store(&Sources).map_err(|error| {
            let reason = format!("without the CUDA C twins: {error:#}");
            suite::skip(&reason);
            reason
        })
    });
    store.as_ref().map_err(Clone::clone)
}

pub fn ptx(id: &str) -> warpfold_suite::PtxFile {
    store().find(id, device().info()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the PTX of a library kernel: from `WARPFOLD_PTX_DIR` if set, else as embedded.
pub fn library_ptx(file: &str) -> String {
    if env::var_os(warpfold_suite::PTX_DIR).is_some() {
        return ptx(file).text;
    }
    warpfold_suite_build::suite::embedded()
        .get(file)
        .unwrap_or_else(|| panic!("the library embeds no {file}"))
        .clone()
}

/// Input sizes for every kernel.
pub const SIZES: [usize; 12] = [0, 1, 2, 31, 32, 33, 255, 256, 257, 1000, 65_537, 300_001];
pub const TWIN_SIZES: [usize; 4] = [1, 33, 1000, 65_537];
pub const TRANSFER_SIZES: [usize; 4] = [0, 1, 1000, 65_537];
pub const REDUCER_SIZES: [usize; 7] = [1, 2, 31, 1000, 4096, 65_537, 300_001];
/// Block sizes for every kernel.
pub const BLOCKS: [u32; 3] = [32, 128, 1024];

/// Elements to reduce, and the expected result.
pub struct Sample {
    pub kind: &'static str,
    pub data: Data,
    pub expected: Expected,
}

/// Returns random elements, and elements exact in any order of additions. Wrong kernels show on both.
pub fn samples(op: Op, dtype: Dtype, n: usize) -> [Sample; 2] {
    [random(op, dtype, n, n as u64), exact(op, dtype, n, 7 + n as u64)]
}

/// Returns random elements; [`Expected::mark`] chooses the last. Floats have both signs, except for
/// sums.
pub fn random(op: Op, dtype: Dtype, n: usize, seed: u64) -> Sample {
    let mut data = match op.fold() {
        Op::Sum => Data::drawn(op, dtype, n, seed),
        _ if dtype.is_float() => Data::random(dtype, n, seed),
        _ => Data::drawn(op, dtype, n, seed),
    };
    let expected = Expected::mark(op, &mut data, n).unwrap_or_else(|error| panic!("{error}"));
    Sample { kind: "random", data, expected }
}

/// Returns [`small_integers`] whose last element affects the result.
pub fn exact(op: Op, dtype: Dtype, n: usize, seed: u64) -> Sample {
    let mut data = small_integers(op, dtype, n, seed);
    if n > 0 {
        show_last(op, &mut data, n - 1);
    }
    let expected = Expected::of(op, &data).unwrap_or_else(|error| panic!("{error}")).drawn();
    Sample { kind: "exact", data, expected }
}

/// Replaces an element of [`small_integers`] by one that affects the result if it is the last.
pub fn show_last(op: Op, data: &mut Data, index: usize) {
    let dtype = data.dtype();
    let beyond = match op {
        Op::Min | Op::ArgMin => -2 * LARGEST,
        Op::Max | Op::ArgMax => 2 * LARGEST,
        // Elements are never 0, so each one affects the sum already.
        Op::Sum | Op::SumOfSquares if dtype.is_float() => return,
        Op::Sum | Op::SumOfSquares => 1,
    };
    let mut last = Data::of_integers(dtype, 1, |_| beyond);
    if !dtype.is_float() {
        Expected::mark(op, &mut last, 1).unwrap_or_else(|error| panic!("{error}"));
    }
    data.set(index, last.get(0));
}

const LARGEST: i64 = 50;

/// Returns elements in which position matters and every order of additions is exact. Floats are small
/// integers of both signs and never 0, so small that even the sum of 300 001 of their magnitudes or
/// squares fits the significand of an f32. Integers are of all sizes. The pattern does not repeat.
pub fn small_integers(op: Op, dtype: Dtype, n: usize, seed: u64) -> Data {
    if !dtype.is_float() {
        return Data::drawn(op, dtype, n, seed);
    }
    let Data::U64(bits) = Data::random(Dtype::U64, n, seed) else { unreachable!("asked for u64") };
    let most = if op == Op::SumOfSquares { 3 } else { LARGEST };
    let value = |i: usize| (bits[i] >> 40) as i64 % (2 * most) - most;
    Data::of_integers(dtype, n, |i| if value(i) < 0 { value(i) } else { value(i) + 1 })
}

pub fn part(data: &Data, range: Range<usize>) -> Data {
    let size = data.dtype().size();
    Data::from_bytes(data.dtype(), &data.as_bytes()[range.start * size..range.end * size])
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace")
}
