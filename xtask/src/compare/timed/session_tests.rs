//! A comparison without a GPU: everything but the times.

use super::{
    super::{cases::Wanted, table::EMPTY},
    *,
};
use crate::{build_ptx::Choice, suite};
use warpfold::{Selection, catalogue};

#[test]
fn expected_values_are_those_of_the_first_elements() {
    let data = Data::I32(vec![1, 2, 3, 4]);
    let sum = |n| expected(Op::Sum, n, &data).unwrap().value.to_string();
    assert_eq!([1, 3, 4].map(sum), ["1", "6", "10"]);
}

/// Everything but the times, in the simulator, with the Rust kernels in the place of the twins.
#[test]
fn a_rehearsal_has_every_contender_right_and_beside_its_twin() {
    let store = suite::store_of(&suite::ensure_ptx(Choice::Llvm).unwrap()).unwrap();
    let device = Device::open(Selection::Sim).unwrap();
    let kernels = vec![(Peer::RustLlvm, store.clone()), (Peer::CudaC, store)];
    let mut peers = Peers { kernels, ..Peers::default() };
    let ids = ["serial", "sequential", "cooperative", "copy_strided", "transpose_padded"];
    let variants: Vec<_> = ids.iter().map(|id| catalogue::find(id).unwrap()).collect();
    let sizes = "1000,5000".parse().unwrap();
    let (dtypes, ops) = ([Dtype::F32, Dtype::F64], [Op::Sum, Op::Max]);
    let wanted = Wanted { variants: &variants, dtypes: &dtypes, ops: &ops, sizes: &sizes, moves: true };
    let (cases, _) = wanted.cases().unwrap();
    let options = Options { rounds: 5, warm_up: 1, slices: 2, ..Options::default() };
    let mut session = Session {
        device: &device,
        peers: &mut peers,
        options,
        contest: Contest::rehearsal,
        notes: BTreeSet::new(),
    };
    session.require_memory(&cases).unwrap();
    let times = session.run(&cases, &ProgressBar::hidden()).unwrap();
    // Of two types and sizes: two operations of three variants, seven strides and a transpose of
    // one each, by two sides; and an empty launch per case.
    assert_eq!(times.len(), 2 * 2 * ((2 * 3 + 8) * 2 + 2 + 8));
    for time in &times {
        assert!(time.ok && time.runs == 5, "{time:?}");
        assert_eq!(time.ratio_to_cuda_c.is_some(), time.peer == "rust-llvm", "{time:?}");
        assert_eq!(time.bandwidth_gbps.is_none(), time.variant == EMPTY, "{time:?}");
        assert!(time.ratio_to_cub.is_none() && !time.graph, "{time:?}");
    }
    let of = |id: &str| times.iter().find(|time| time.variant == id).unwrap();
    assert_eq!((of("sequential").block, of("sequential").grid), (Some(256), Some(4)));
    assert_eq!((of("transpose_padded").width, of("copy_strided").stride), (Some(31), Some(1)));
    // No graphs there, which is noted and no error.
    assert!(session.notes.iter().all(|note| note.starts_with("no graph of ")));
    assert_eq!(session.notes.len(), 1 + 3 * 2, "{:?}", session.notes);
}

#[test]
fn what_does_not_fit_is_refused_before_anything_runs() {
    let device = Device::open(Selection::Sim).unwrap();
    let sizes = "2^10,2^40".parse().unwrap();
    let variants = [catalogue::find("sequential").unwrap()];
    let (dtypes, ops) = ([Dtype::F32], [Op::Sum]);
    let wanted = Wanted { variants: &variants, dtypes: &dtypes, ops: &ops, sizes: &sizes, moves: false };
    let session = Session {
        device: &device,
        peers: &mut Peers::default(),
        options: Options::default(),
        contest: Contest::rehearsal,
        notes: BTreeSet::new(),
    };
    let error = session.require_memory(&wanted.cases().unwrap().0).unwrap_err().to_string();
    assert!(error.contains("are free on") && error.lines().count() == 1, "{error}");
}
