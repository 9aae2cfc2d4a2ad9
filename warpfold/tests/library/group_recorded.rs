//! Reductions of several devices that are recorded once and replayed as one launch.

use warpfold::{Error, Group, Located, Way, op};

use crate::{
    common::{Sample, extreme, says, small},
    group::{cut, groups, on_four, reducers},
};

fn by_peers() -> Option<&'static Group> {
    groups().iter().find(|group| group.way() == Way::Peers)
}

#[test]
fn a_recording_has_the_results_of_its_reductions() {
    if !on_four("group_recorded::a_recording_has_the_results_of_its_reductions") {
        return;
    }
    let Some(group) = by_peers() else { return };
    let ends = [[1000, 1000, 3000], [0, 0, 0], [5000, 5000, 5000], [1, 2, 3]];
    let values: Vec<Vec<f32>> = (0..4).map(|seed| small(5000, seed)).collect();
    let inputs: Vec<_> =
        values.iter().zip(ends).map(|(values, ends)| cut(group, values, &ends)).collect();
    let none = group.upload::<f32>(&[]).unwrap();
    let mut all: Vec<_> = inputs.iter().collect();
    all.insert(2, &none);
    let mut sums = group.record(op::Sum, &all).unwrap();
    let mut places = group.record(op::ArgMax, &all).unwrap();
    let mut wide = group.record(op::Sum.reproducible(), &all).unwrap();
    let expected: Vec<f32> = all.iter().map(|values| group.reduce(op::Sum, *values).unwrap()).collect();
    let firsts: Vec<Option<Located<f32>>> =
        [0, 1, 4, 2, 3].map(|at| values.get(at).and_then(|values| extreme(values, true))).into();
    let exact: Vec<f32> =
        [0, 1, 4, 2, 3].map(|at| values.get(at).map_or(0.0, |values| f32::total(values, false))).into();
    for _ in 0..3 {
        assert_eq!(sums.run().unwrap(), expected);
        assert_eq!(places.run().unwrap(), firsts);
        assert_eq!(wide.run().unwrap(), exact);
        assert_eq!(group.reduce(op::Sum, &none).unwrap(), 0.0);
        assert_eq!(group.reduce(op::Sum, all[0]).unwrap(), expected[0]);
    }
    assert_eq!((sums.len(), sums.is_empty()), (5, false));
    assert_eq!(group.record::<f32, _>(op::Sum, &[]).unwrap().run().unwrap(), []);
}

#[cfg(feature = "simulator")]
#[test]
fn replay_is_one_graph_launch() {
    if crate::common::on_gpu() || !on_four("group_recorded::replay_is_one_graph_launch") {
        return;
    }
    let group = by_peers().unwrap();
    let values = cut(group, &small::<i32>(5000, 3), &[1000, 2000, 3000]);
    let mut sums = group.record(op::Sum, &[&values; 8]).unwrap();
    let expected = sums.run().unwrap();
    let log = warpfold_sim_driver::record_calls();
    assert_eq!(sums.run().unwrap(), expected);
    assert_eq!((log.count("cuGraphLaunch"), log.count("cuStreamSynchronize")), (1, 1));
    for function in ["cuLaunchKernel", "cuLaunchKernelEx", "cuMemAlloc_v2", "cuMemcpyPeerAsync"] {
        assert_eq!(log.count(function), 0, "{function}");
    }
}

#[test]
fn recording_keeps_elements_alive_and_rejects_other_groups() {
    if !on_four("group_recorded::recording_keeps_elements_alive_and_rejects_other_groups") {
        return;
    }
    let Some(group) = by_peers() else { return };
    let values = cut(group, &small::<i32>(5000, 3), &[1000, 2000, 3000]);
    let mut sums = group.record(op::Sum, &[&values]).unwrap();
    let sum = group.reduce(op::Sum, &values).unwrap();
    drop(values);
    // Would get the memory of the dropped elements if the recording did not keep it.
    let others = cut(group, &small::<i32>(5000, 4), &[1000, 2000, 3000]);
    assert_eq!(sums.run().unwrap(), [sum]);
    let another = Group::by(Way::Peers, reducers()).unwrap();
    says(&another.record(op::Sum, &[&others]).unwrap_err(), &["the elements belong to another group"]);
    let copies = Group::by(Way::Copies, reducers()).unwrap();
    let values = copies.upload(&[1_i32, 2]).unwrap();
    let error = copies.record(op::Sum, &[&values]).unwrap_err();
    says(&error, &["a group by Copies cannot be recorded", "Way::Peers"]);
}

/// A failure while recording has no lasting effect; after a failed replay the recording is unusable.
#[cfg(feature = "simulator")]
#[test]
fn failed_recording_can_be_recorded_again() {
    use warpfold_driver::sys;
    use warpfold_sim_driver::{Fault, inject};

    if crate::common::on_gpu() || !on_four("group_recorded::failed_recording_can_be_recorded_again") {
        return;
    }
    let group = by_peers().unwrap();
    let values = cut(group, &small::<i32>(5000, 3), &[1000, 2000, 3000]);
    let sum = i32::total(&small::<i32>(5000, 3), false);
    let code = sys::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    for function in ["cuLaunchKernel", "cuEventRecord", "cuStreamWaitEvent", "cuStreamEndCapture"] {
        for call in 1..=4 {
            let fault = inject(Fault { function, call, code, sticky: false });
            let recorded = group.record(op::Sum, &[&values]);
            assert_eq!(fault.has_struck(), recorded.is_err(), "{function} {call}");
            drop(fault);
            assert_eq!(group.record(op::Sum, &[&values]).unwrap().run().unwrap(), [sum]);
        }
    }
    for function in ["cuGraphLaunch", "cuStreamSynchronize"] {
        let mut recorded = group.record(op::Sum, &[&values]).unwrap();
        let fault = inject(Fault { function, call: 1, code, sticky: false });
        recorded.run().unwrap_err();
        drop(fault);
        let error = recorded.run().unwrap_err();
        assert!(matches!(error, Error::Lost { what: "recording", .. }), "{error:?}");
    }
    assert_eq!(group.reduce(op::Sum, &values).unwrap(), sum);
}
