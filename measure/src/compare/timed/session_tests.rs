//! Tests a comparison without a GPU: everything except the times.

use super::{
    super::{cases::Wanted, table::EMPTY},
    *,
};
use warpfold_suite::{Codegen, Selection, catalogue};

#[test]
fn pytorch_copies_narrow_integers_to_sum_them() {
    let case = |dtype| Case { dtype, work: Task::Reduce { op: Op::Sum, n: 10 }, variants: Vec::new() };
    assert_eq!(torch_copy(&case(Dtype::I8), Op::Sum), 80);
    assert_eq!(torch_copy(&case(Dtype::I16), Op::Sum), 80);
    assert_eq!(torch_copy(&case(Dtype::U8), Op::ArgMax), 0);
    assert_eq!(torch_copy(&case(Dtype::F16), Op::Sum), 0);
}

/// Returns the Rust kernels by llvm, which also stand in for nvvm's kernels and the twins.
fn by_three() -> Peers {
    let store = warpfold_suite_build::suite::built_by_llvm();
    let kernels = [Peer::RustLlvm, Peer::RustNvvm, Peer::CudaC].map(|peer| (peer, store.clone()));
    Peers { kernels: kernels.to_vec(), ..Peers::default() }
}

fn cases(ids: &[&str], sizes: &str, dtypes: &[Dtype], ops: &[Op]) -> Vec<Case> {
    let variants: Vec<_> = ids.iter().map(|id| catalogue::find(id).unwrap()).collect();
    let sizes = sizes.parse().unwrap();
    let wanted = Wanted { variants: &variants, dtypes, ops, sizes: &sizes, moves: true };
    wanted.cases().unwrap().0
}

fn few_rounds() -> Options {
    Options { rounds: 5, warm_up: 1, slices: 2, ..Options::default() }
}

/// The simulator runs the whole comparison except the timing, with the same kernels on all sides.
#[test]
fn rehearsal_pairs_every_contender_with_its_twin() {
    let device = Device::open(Selection::Sim).unwrap();
    let mut peers = by_three();
    let ids = ["serial", "sequential", "cooperative", "copy_strided", "transpose_padded"];
    let cases = cases(&ids, "1000,5000", &[Dtype::F32, Dtype::F64], &[Op::Sum, Op::Max]);
    let mut session = Session::new(&device, &mut peers, few_rounds(), Contest::rehearsal);
    session.require_memory(&cases).unwrap();
    let times = session.run(&cases, &ProgressBar::hidden()).unwrap();
    // Without graphs, for two types and two sizes: two operations of three variants on three sides,
    // seven strides and one transpose on three sides, and an empty launch per case. The reductions and
    // their empty launches run again as graphs.
    let graphs = times.iter().filter(|time| time.graph).count();
    assert_eq!(graphs, 2 * 2 * (2 * 3 * 3 + 2));
    assert_eq!(times.len() - graphs, 2 * 2 * ((2 * 3 + 8) * 3 + 2 + 8));
    for time in &times {
        assert!(time.ok && time.runs == 5, "{time:?}");
        assert_eq!(time.ratio_to_cuda_c.is_some(), time.peer.starts_with("rust-"), "{time:?}");
        assert_eq!(time.ratio_to_llvm.is_some(), time.peer == "rust-nvvm", "{time:?}");
        assert_eq!(time.bandwidth_gbps.is_none(), time.variant == EMPTY, "{time:?}");
        assert!(time.ratio_to_cub.is_none(), "{time:?}");
    }
    let of = |id: &str| times.iter().find(|time| time.variant == id).unwrap();
    assert_eq!((of("sequential").block, of("sequential").grid), (Some(256), Some(4)));
    assert_eq!((of("transpose_padded").width, of("copy_strided").stride), (Some(31), Some(1)));
    assert!(session.notes.is_empty(), "{:?}", session.notes);
}

/// The reducer's lack of a twin is not noted. Its kernels are loaded once for all cases.
#[test]
fn a_rehearsal_has_the_reducer_right_in_every_type() {
    let device = Device::open(Selection::Sim).unwrap();
    let mut peers = by_three();
    let cases = cases(&["reducer"], "1000,5000", Dtype::ALL, &[Op::Sum, Op::ArgMax]);
    let mut session = Session::new(&device, &mut peers, few_rounds(), Contest::rehearsal);
    session.require_memory(&cases).unwrap();
    let times = session.run(&cases, &ProgressBar::hidden()).unwrap();
    // Both code generators and an empty launch have a time, each also in a graph.
    assert_eq!(times.len(), cases.len() * 3 * 2);
    for time in &times {
        assert!(time.ok && time.runs == 5 && time.ratio_to_cuda_c.is_none(), "{time:?}");
        let own = time.variant == "reducer";
        assert!(own || time.variant == EMPTY, "{time:?}");
        assert_eq!(time.ratio_to_llvm.is_some(), time.peer == "rust-nvvm", "{time:?}");
        // All runs take the same time in a rehearsal.
        assert_eq!(time.ratio_to_empty, own.then_some(1.0), "{time:?}");
        let kernel = (time.kernel.as_deref(), time.grid.is_some());
        assert_eq!(kernel, if own { (Some("grid"), true) } else { (None, true) });
    }
    assert!(session.notes.is_empty(), "{:?}", session.notes);
}

/// Each state of the cache has its own times, which name it. None of these times is of a graph.
#[test]
fn a_rehearsal_by_inputs_has_every_state_of_the_cache() {
    let device = Device::open(Selection::Sim).unwrap();
    let mut peers = by_three();
    let cases = cases(&["reducer"], "1000", &[Dtype::F32], &[Op::Sum]);
    let mut session = Session::new(&device, &mut peers, few_rounds(), Contest::rehearsal);
    let states = [Inputs::Warm, Inputs::Swept];
    let times = session.run_by_inputs(&cases, &states, &ProgressBar::hidden()).unwrap();
    let named = times.iter().filter_map(|time| Some((time.inputs.as_deref()?, time.peer.as_str())));
    let peers = [EMPTY, "rust-llvm", "rust-nvvm"];
    let expected = states.iter().flat_map(|state| peers.map(|peer| (state.name(), peer)));
    assert!(named.eq(expected), "{times:?}");
    assert!(times.iter().all(|time| time.ok && !time.graph), "{times:?}");
    // A later comparison without inputs is unaffected.
    let times = session.run(&cases, &ProgressBar::hidden()).unwrap();
    assert_eq!(times.iter().filter(|time| time.inputs.is_none() && time.graph).count(), 3);
}

/// If nvvm's PTX lacks a kernel, only llvm's is compared. Under `strict`, or if no other Rust kernel is
/// left, this is an error.
#[test]
fn missing_kernels_are_noted_or_refused() {
    let device = Device::open(Selection::Sim).unwrap();
    let empty = tempfile::tempdir().unwrap();
    let nothing = PtxStore::at(empty.path(), Some(Codegen::Nvvm)).unwrap();
    let llvm = by_three().kernels.remove(0);
    let cases = cases(&["sequential", "reducer"], "1000", &[Dtype::F32], &[Op::Sum]);
    let run = |kernels: Vec<(Peer, PtxStore)>, strict| {
        let mut peers = Peers { kernels, ..Peers::default() };
        let mut session = Session::new(&device, &mut peers, few_rounds(), Contest::rehearsal);
        session.strict = strict;
        session.run(&cases, &ProgressBar::hidden()).map(|times| (times, session.notes))
    };
    let nvvm = (Peer::RustNvvm, nothing);
    let (times, notes) = run(vec![llvm.clone(), nvvm.clone()], false).unwrap();
    for graph in [false, true] {
        let of_kind = times.iter().filter(|time| time.graph == graph);
        let whose: Vec<&str> = of_kind.map(|time| time.peer.as_str()).collect();
        assert_eq!(whose, [EMPTY, "rust-llvm", "rust-llvm"]);
    }
    let skipped: Vec<&String> = notes.iter().filter(|note| note.starts_with("skipped: ")).collect();
    assert_eq!(skipped.len(), 2, "{notes:?}");
    assert!(
        skipped[0].starts_with("skipped: rust-nvvm has no reducer_sum_f32 by nvvm for "),
        "{skipped:?}"
    );
    for (kernels, strict) in [(vec![llvm, nvvm.clone()], true), (vec![nvvm], false)] {
        let error = format!("{:#}", run(kernels, strict).unwrap_err());
        assert!(error.starts_with("sum f32 1000: rust-nvvm: "), "{error}");
        assert!(error.contains("sequential by nvvm") && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn oversized_input_is_refused_before_any_run() {
    let device = Device::open(Selection::Sim).unwrap();
    let cases = cases(&["sequential"], "2^10,2^40", &[Dtype::F32], &[Op::Sum]);
    let mut peers = Peers::default();
    let session = Session::new(&device, &mut peers, Options::default(), Contest::rehearsal);
    let error = session.require_memory(&cases).unwrap_err().to_string();
    assert!(error.contains("are free on") && error.lines().count() == 1, "{error}");
}
