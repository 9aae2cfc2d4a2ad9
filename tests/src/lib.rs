//! What the whole-system tests share: the device under test and the PTX it runs.
//!
//! The simulator by default; `WARPFOLD_TEST_DEVICE=cuda` (which `cargo xtask test --device cuda` sets)
//! takes the GPU. There is no skip but of the CUDA C twins, where there is no nvcc: a test that cannot
//! run fails.

pub mod probing;

use std::{env, ops::Range, path::Path, sync::OnceLock};

use warpfold_suite::{Data, Device, Dtype, Op, PtxStore, Selection, device::Kind, reference::Expected};

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

/// Another device of the kind under test, in a context of its own: it shares no memory with [`device`],
/// and a kernel that fails there leaves that as it is.
///
/// # Panics
/// When it cannot be opened.
pub fn isolated() -> Device {
    // The first device decides what the process runs on.
    device();
    Device::isolated(Selection::Auto).unwrap_or_else(|error| panic!("{error}"))
}

/// Fails at its end if something was freed on [`device`] while pending work named it. On a GPU nobody
/// knows.
///
/// # Panics
/// Then.
pub fn no_findings() -> impl Drop {
    let context = device().raw_context().unwrap_or_else(|error| panic!("{error}"));
    warpfold_sim_driver::NoFindings::in_context(context.cast())
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
/// no nvcc, which is the one thing that a test may lack, where tests are not
/// [strict](xtask::suite::STRICT_TESTS).
///
/// # Errors
/// Those of [`xtask::suite::twin_store`].
///
/// # Panics
/// Where tests are strict, instead.
pub fn twins() -> Result<&'static PtxStore, String> {
    static STORE: OnceLock<Result<PtxStore, String>> = OnceLock::new();
    let store = STORE.get_or_init(|| {
        xtask::suite::twin_store().map_err(|error| {
            let reason = format!("without the CUDA C twins: {error:#}");
            xtask::suite::skip(&reason);
            reason
        })
    });
    store.as_ref().map_err(Clone::clone)
}

/// Text of the PTX file of a variant or test kernel.
///
/// # Panics
/// When there is none.
pub fn ptx(id: &str) -> warpfold_suite::PtxFile {
    store().find(id, device().info()).unwrap_or_else(|error| panic!("{error}"))
}

/// Text of a PTX file that only the library runs: as it is in the folder that `WARPFOLD_PTX_DIR` names,
/// else as it is embedded.
///
/// # Panics
/// When there is none.
pub fn library_ptx(file: &str) -> String {
    if env::var_os(warpfold_suite::PTX_DIR).is_some() {
        return ptx(file).text;
    }
    xtask::suite::embedded().get(file).unwrap_or_else(|| panic!("the library embeds no {file}")).clone()
}

/// Sizes that every kernel is tested with.
pub const SIZES: [usize; 12] = [0, 1, 2, 31, 32, 33, 255, 256, 257, 1000, 65_537, 300_001];
/// Sizes at which it is compared with its CUDA C twin.
pub const TWIN_SIZES: [usize; 4] = [1, 33, 1000, 65_537];
/// Sizes that every way from the host to the device is tested with.
pub const TRANSFER_SIZES: [usize; 4] = [0, 1, 1000, 65_537];
/// Sizes that every operation and type of the reducer is tested with.
pub const REDUCER_SIZES: [usize; 7] = [1, 2, 31, 1000, 4096, 65_537, 300_001];
/// Threads of a block that every kernel is tested with.
pub const BLOCKS: [u32; 3] = [32, 128, 1024];

/// Elements to reduce, and what must come out.
pub struct Sample {
    /// What kind of elements.
    pub kind: &'static str,
    /// The elements that are reduced.
    pub data: Data,
    /// What must come out.
    pub expected: Expected,
}

/// What every operation of every type is tested with at a size: random elements, and those that are
/// exact in any order of additions. Wrong kernels show on both.
///
/// # Panics
/// For no elements and an operation that has no value then.
pub fn samples(op: Op, dtype: Dtype, n: usize) -> [Sample; 2] {
    [random(op, dtype, n, n as u64), exact(op, dtype, n, 7 + n as u64)]
}

/// Random elements, the last of which is a marker; floats of both signs where nothing is added.
///
/// # Panics
/// As [`samples`].
pub fn random(op: Op, dtype: Dtype, n: usize, seed: u64) -> Sample {
    let mut data = match op.fold() {
        Op::Sum => Data::drawn(op, dtype, n, seed),
        _ if dtype.is_float() => Data::random(dtype, n, seed),
        _ => Data::drawn(op, dtype, n, seed),
    };
    let expected = Expected::mark(op, &mut data, n).unwrap_or_else(|error| panic!("{error}"));
    Sample { kind: "random", data, expected }
}

/// Elements of [`small_integers`], the last of which shows.
///
/// # Panics
/// As [`samples`].
pub fn exact(op: Op, dtype: Dtype, n: usize, seed: u64) -> Sample {
    let mut data = small_integers(op, dtype, n, seed);
    if n > 0 {
        show_last(op, &mut data, n - 1);
    }
    let expected = Expected::of(op, &data).unwrap_or_else(|error| panic!("{error}")).drawn();
    Sample { kind: "exact", data, expected }
}

/// Makes an element of [`small_integers`] one that shows when it is the last.
pub fn show_last(op: Op, data: &mut Data, index: usize) {
    let dtype = data.dtype();
    let beyond = match op {
        Op::Min | Op::ArgMin => -2 * LARGEST,
        Op::Max | Op::ArgMax => 2 * LARGEST,
        // It is not 0 as it is.
        Op::Sum | Op::SumOfSquares if dtype.is_float() => return,
        Op::Sum | Op::SumOfSquares => 1,
    };
    let mut last = Data::of_integers(dtype, 1, |_| beyond);
    if !dtype.is_float() {
        Expected::mark(op, &mut last, 1).unwrap_or_else(|error| panic!("{error}"));
    }
    data.set(index, last.get(0));
}

/// Magnitude of the largest small integer.
const LARGEST: i64 = 50;

/// Elements in which position matters and every order of additions is exact: of floats small integers of
/// both signs and never 0, so small that even the sum of 300 001 of their magnitudes or squares fits the
/// significand of an f32; integers of all sizes. In a pattern that repeats nowhere.
pub fn small_integers(op: Op, dtype: Dtype, n: usize, seed: u64) -> Data {
    if !dtype.is_float() {
        return Data::drawn(op, dtype, n, seed);
    }
    let Data::U64(bits) = Data::random(Dtype::U64, n, seed) else { unreachable!("asked for u64") };
    let most = if op == Op::SumOfSquares { 3 } else { LARGEST };
    let value = |i: usize| (bits[i] >> 40) as i64 % (2 * most) - most;
    Data::of_integers(dtype, n, |i| if value(i) < 0 { value(i) } else { value(i) + 1 })
}

/// Some of the elements.
pub fn part(data: &Data, range: Range<usize>) -> Data {
    let size = data.dtype().size();
    Data::from_bytes(data.dtype(), &data.as_bytes()[range.start * size..range.end * size])
}

/// The workspace's root folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the workspace")
}
