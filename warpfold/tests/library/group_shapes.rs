//! Several operations at once, segments, and what comes first, on several devices.

use warpfold::{Buffer, Error, Group, Sharded, op};

use crate::{
    common::{Sample, device, on_gpu, reducer, says, small},
    group::{cut, groups, on_four, reducers},
};

/// The numbers of elements that three of the devices have together, and no element of one.
const ENDS: [usize; 3] = [700, 700, 2500];

fn floats() -> Vec<f32> {
    let mut values = small::<f32>(4001, 5);
    values[2600] = 300.0;
    values[11] = -300.0;
    values
}

#[test]
fn several_operations_have_the_results_that_each_has_alone() {
    if !on_four("group_shapes::several_operations_have_the_results_that_each_has_alone") {
        return;
    }
    let values = floats();
    for group in groups() {
        let sharded = cut(group, &values, &ENDS);
        let (sum, min, max) = group.reduce_many((op::Sum, op::Min, op::Max), &sharded).unwrap();
        assert_eq!(sum.to_bits(), group.reduce(op::Sum, &sharded).unwrap().to_bits());
        assert_eq!((min, max), (Some(-300.0), Some(300.0)), "{group:?}");
        let (first, mean, last, squares, all, extremes) = group
            .reduce_many(
                (
                    op::ArgMin,
                    op::MeanAndVariance,
                    op::ArgMax,
                    op::SumOfSquares,
                    op::CountNonZero,
                    op::MinMax,
                ),
                &sharded,
            )
            .unwrap();
        assert_eq!((first.unwrap().index, last.unwrap().index), (11, 2600));
        assert_eq!(mean, group.reduce(op::MeanAndVariance, &sharded).unwrap());
        assert_eq!(squares.to_bits(), group.reduce(op::SumOfSquares, &sharded).unwrap().to_bits());
        assert_eq!(all, group.reduce(op::CountNonZero, &sharded).unwrap());
        assert_eq!(extremes, group.reduce(op::MinMax, &sharded).unwrap());
        let none = group.upload::<f32>(&[]).unwrap();
        assert_eq!(group.reduce_many((op::Sum, op::Min), &none).unwrap(), (0.0, None));
    }
}

/// A sum and both extremes are two launches a device, as of one device.
#[cfg(feature = "simulator")]
#[test]
fn several_operations_take_the_launches_of_one_device_on_each() {
    if on_gpu() || !on_four("group_shapes::several_operations_take_the_launches_of_one_device_on_each") {
        return;
    }
    for group in groups() {
        let sharded = group.upload(&floats()).unwrap();
        let both = || group.reduce_many((op::Sum, op::Min, op::Max), &sharded).unwrap();
        both();
        let log = warpfold_sim_driver::record_calls();
        both();
        let launches = log.count("cuLaunchKernel") + log.count("cuLaunchKernelEx");
        let each = if group.way() == warpfold::Way::Peers { 4 } else { 5 };
        assert_eq!(launches, 2 * each, "{group:?}");
        assert_eq!(log.count("cuMemAlloc_v2") + log.count("cuMemHostAlloc"), 0, "{group:?}");
    }
}

/// One launch of several that fails leaves no result, and a group that goes on.
#[cfg(feature = "simulator")]
#[test]
fn several_operations_of_which_one_fails_have_no_results() {
    use warpfold_driver::sys;
    use warpfold_sim_driver::{Fault, inject};

    if on_gpu() || !on_four("group_shapes::several_operations_of_which_one_fails_have_no_results") {
        return;
    }
    for group in groups() {
        let sharded = cut(group, &floats(), &ENDS);
        let both = || group.reduce_many((op::Sum, op::Min, op::Max), &sharded);
        let expected = both().unwrap();
        for function in ["cuLaunchKernel", "cuEventRecord"] {
            for call in 1..=8 {
                let code = sys::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
                let fault = inject(Fault { function, call, code, sticky: false });
                let failed = both();
                assert_eq!(fault.has_struck(), failed.is_err(), "{function} {call} on {group:?}");
                drop(fault);
                assert_eq!(both().unwrap(), expected, "{function} {call} on {group:?}");
            }
        }
    }
}

#[test]
fn segments_lie_on_the_devices_whole() {
    if !on_four("group_shapes::segments_lie_on_the_devices_whole") {
        return;
    }
    let values = small::<i32>(4001, 3);
    for group in groups() {
        let sharded = cut(group, &values, &ENDS);
        let (mut segments, mut expected) = (Vec::new(), Vec::new());
        for (reducer, part) in group.reducers().zip(sharded.parts()) {
            let n = part.len() as u32;
            // Of a device without elements there are segments without any.
            let offsets = [0, n / 3, n / 3, n / 2, n];
            let elements = part.download().unwrap();
            expected.extend(
                offsets
                    .windows(2)
                    .map(|ends| i32::total(&elements[ends[0] as usize..ends[1] as usize], false)),
            );
            let offsets = reducer.device().upload(&offsets).unwrap();
            segments.push(reducer.segments(part, &offsets).unwrap());
        }
        assert_eq!(group.reduce_segments(op::Sum, &segments).unwrap(), expected, "{group:?}");
        if reducers().len() > 1 {
            let error = group.reduce_segments(op::Sum, &segments[1..]).unwrap_err();
            says(&error, &["segments of 3 devices for 4"]);
            segments.swap(0, 3);
            let error = group.reduce_segments(op::Sum, &segments).unwrap_err();
            assert!(matches!(error, Error::OtherDevice { what: "segments", .. }), "{error}");
        }
    }
}

/// What one device has of all elements.
fn beside_one<O: op::TopK + std::fmt::Debug>(
    group: &Group,
    sharded: &Sharded<f32>,
    all: &Buffer<f32>,
    op: O,
) {
    let found = group.top_k(op, sharded).unwrap();
    let expected = reducer().top_k(op, all).unwrap();
    let bits = |found: &[warpfold::Located<f32>]| -> Vec<_> {
        found.iter().map(|found| (found.index, found.value.to_bits())).collect()
    };
    assert_eq!(bits(&found), bits(&expected), "{op:?} on {group:?}");
}

#[test]
fn what_comes_first_of_all_devices_is_what_comes_first_of_one_with_all_elements() {
    if !on_four(
        "group_shapes::what_comes_first_of_all_devices_is_what_comes_first_of_one_with_all_elements",
    ) {
        return;
    }
    // Many are equal, some are NaN, and both zeros are there.
    let mut values = small::<f32>(4001, 2);
    for (at, value) in [(3, f32::NAN), (3999, f32::NAN), (800, -0.0), (2600, 50.0), (699, 50.0)] {
        values[at] = value;
    }
    for n in [0, 1, 5, 40, 4001] {
        let all = device().upload(&values[..n]).unwrap();
        for group in groups() {
            for ends in [ENDS, [0, 0, 0], [1, 2, 3], [n, n, n]] {
                let sharded = cut(group, &values[..n], &ends);
                for k in [1, 2, 31, 32] {
                    beside_one(group, &sharded, &all, op::Largest(k));
                    beside_one(group, &sharded, &all, op::Smallest(k));
                }
            }
        }
    }
    let group = &groups()[0];
    let error = group.top_k(op::Largest(33), &group.upload(&[1_u8]).unwrap()).unwrap_err();
    assert!(matches!(error, Error::TopK { .. }), "{error}");
}
