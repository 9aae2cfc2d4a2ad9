//! Several operations at once, segments, and top-k, on several devices.

use warpfold::{Buffer, Error, Group, Sharded, Within, bf16, cpu, f16, op};

use crate::{
    common::{Sample, device, on_gpu, reducer, says, small},
    everywhere::{Float, for_every_float, shuffled, unruly},
    group::{cut, groups, on_four, reducers},
};

/// Ends of the parts of the first three devices; the second one has no elements.
const ENDS: [usize; 3] = [700, 700, 2500];

fn floats() -> Vec<f32> {
    let mut values = small::<f32>(4001, 5);
    values[2600] = 300.0;
    values[11] = -300.0;
    values
}

#[test]
fn several_operations_match_each_operation_alone() {
    if !on_four("group_shapes::several_operations_match_each_operation_alone") {
        return;
    }
    let values = floats();
    for group in groups() {
        let sharded = cut(group, &values, &ENDS);
        let (sum, min, max) = group.reduce((op::Sum, op::Min, op::Max), &sharded).unwrap();
        assert_eq!(sum.to_bits(), group.reduce(op::Sum, &sharded).unwrap().to_bits());
        assert_eq!((min, max), (Some(-300.0), Some(300.0)), "{group:?}");
        let (first, mean, last, squares, all, extremes) = group
            .reduce(
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
        assert_eq!(group.reduce((op::Sum, op::Min), &none).unwrap(), (0.0, None));
    }
}

/// A sum and both extremes take two launches per device, as on one device.
#[cfg(feature = "simulator")]
#[test]
fn several_operations_use_the_launches_of_one_device() {
    if on_gpu() || !on_four("group_shapes::several_operations_use_the_launches_of_one_device") {
        return;
    }
    for group in groups() {
        let sharded = group.upload(&floats()).unwrap();
        let both = || group.reduce((op::Sum, op::Min, op::Max), &sharded).unwrap();
        both();
        let log = warpfold_sim_driver::record_calls();
        both();
        let launches = log.count("cuLaunchKernel") + log.count("cuLaunchKernelEx");
        let each = if group.way() == warpfold::Way::Peers { 4 } else { 5 };
        assert_eq!(launches, 2 * each, "{group:?}");
        assert_eq!(log.count("cuMemAlloc_v2") + log.count("cuMemHostAlloc"), 0, "{group:?}");
    }
}

#[cfg(feature = "simulator")]
#[test]
fn failed_operation_discards_all_results() {
    use warpfold_driver::sys;
    use warpfold_sim_driver::{Fault, inject};

    if on_gpu() || !on_four("group_shapes::failed_operation_discards_all_results") {
        return;
    }
    for group in groups() {
        let sharded = cut(group, &floats(), &ENDS);
        let both = || group.reduce((op::Sum, op::Min, op::Max), &sharded);
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
fn segments_are_not_split_across_devices() {
    if !on_four("group_shapes::segments_are_not_split_across_devices") {
        return;
    }
    let values = small::<i32>(4001, 3);
    for group in groups() {
        let sharded = cut(group, &values, &ENDS);
        let (mut segments, mut expected) = (Vec::new(), Vec::new());
        for (reducer, part) in group.reducers().zip(sharded.parts()) {
            let n = part.len() as u32;
            // On a device without elements, all segments are empty.
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
        assert_eq!(group.reduce(op::Sum, &segments[..]).unwrap(), expected, "{group:?}");
        let devices = reducers().len();
        if devices > 1 {
            let error = group.reduce(op::Sum, &segments[1..][..]).unwrap_err();
            says(&error, &[&format!("segments of {} devices are given for {devices}", devices - 1)]);
            segments.swap(0, devices - 1);
            let error = group.reduce(op::Sum, &segments[..]).unwrap_err();
            assert!(matches!(error, Error::OtherDevice { what: "segments", .. }), "{error}");
        }
    }
}

/// Arrays of 3 by 5 by 7: a device has 40 of them, none, or the rest.
#[test]
fn arrays_are_not_split_across_devices() {
    if !on_four("group_shapes::arrays_are_not_split_across_devices") {
        return;
    }
    let shape = [3, 5, 7];
    let array: usize = shape.iter().product();
    let values = small::<i32>(100 * array, 3);
    let all = device().upload(&values).unwrap();
    for group in groups() {
        let sharded = cut(group, &values, &[40 * array, 40 * array, 41 * array]);
        for axis in 0..3 {
            let whole = all.axis(&[100, 3, 5, 7], axis + 1).unwrap();
            let sums = group.reduce(op::Sum, sharded.axis(&shape, axis)).unwrap();
            assert_eq!(sums, reducer().reduce(op::Sum, &whole).unwrap(), "{axis} on {group:?}");
            let places = group.reduce(op::ArgMax, sharded.axis(&shape, axis)).unwrap();
            assert_eq!(places, reducer().reduce(op::ArgMax, &whole).unwrap(), "{axis} on {group:?}");
        }
        for (shape, axis) in [(&[3, 5, 7][..], 3), (&[3, 5, 8], 0), (&[3, 0, 7], 0), (&[], 0)] {
            let error = group.reduce(op::Sum, sharded.axis(shape, axis)).unwrap_err();
            assert!(matches!(error, Error::Axis { .. }), "{shape:?}: {error:?}");
        }
    }
}

#[test]
fn key_runs_are_not_split_across_devices() {
    if !on_four("group_shapes::key_runs_are_not_split_across_devices") {
        return;
    }
    let (values, run) = (small::<i16>(4000, 3), 50);
    let keys: Vec<u32> = (0..values.len() as u32).map(|at| at / run % 7).collect();
    let (expected_keys, expected): (Vec<u32>, Vec<i64>) =
        std::iter::zip(keys.chunks(run as usize), values.chunks(run as usize))
            .map(|(keys, values)| (keys[0], i16::total(values, false)))
            .unzip();
    for group in groups() {
        let ends = [700, 700, 2500];
        let (of_keys, of_values) = (cut(group, &keys, &ends), cut(group, &values, &ends));
        let by_key = group.reduce(op::Sum, of_values.by_key(&of_keys)).unwrap();
        let found: Vec<u32> = by_key.iter().flat_map(|runs| runs.keys.download().unwrap()).collect();
        let sums: Vec<i64> = by_key.iter().flat_map(|runs| runs.results.read().unwrap()).collect();
        assert_eq!((found, sums), (expected_keys.clone(), expected.clone()), "{group:?}");
        if reducers().len() == 1 {
            continue;
        }
        let ends = [710, 710, 2500];
        let (of_keys, of_values) = (cut(group, &keys, &ends), cut(group, &values, &ends));
        let error = group.reduce(op::Sum, of_values.by_key(&of_keys)).unwrap_err();
        assert!(matches!(error, Error::Runs { .. }), "{error:?}");
        let next = reducers().len().min(3) - 1;
        says(&error, &[&format!("key 0 has values on device 0 and on device {next}"), "on one"]);
        let of_keys = cut(group, &keys, &[700, 700, 2450]);
        let of_values = cut(group, &values, &[750, 750, 2450]);
        assert!(matches!(group.reduce(op::Sum, of_values.by_key(&of_keys)), Err(Error::Runs { .. })));
    }
}

#[test]
fn pairs_and_intervals_are_added_device_by_device() {
    if !on_four("group_shapes::pairs_and_intervals_are_added_device_by_device") {
        return;
    }
    let (a, b) = (small::<i16>(4001, 3), small::<i16>(4001, 4));
    let (floats, others) = (small::<f32>(4001, 5), small::<f32>(4001, 6));
    let [of_a, of_b] = [&a, &b].map(|values| device().upload(values).unwrap());
    let [of_floats, of_others] = [&floats, &others].map(|values| device().upload(values).unwrap());
    for group in groups() {
        let [x, y] = [&a, &b].map(|values| cut(group, values, &ENDS));
        assert_eq!(group.reduce(op::Dot, (&x, &y)).unwrap(), reducer().dot(&of_a, &of_b).unwrap());
        let distance = group.reduce(op::SquaredDistance, (&x, &y)).unwrap();
        assert_eq!(
            distance,
            reducer().reduce(op::SquaredDistance, (&of_a, &of_b)).unwrap(),
            "{group:?}"
        );
        for range in [-3..4, 4..4, i16::MIN..0] {
            let within = group.reduce(op::Sum, x.filter(range.clone())).unwrap();
            assert_eq!(within, reducer().reduce(op::Sum, of_a.filter(range)).unwrap(), "{group:?}");
        }
        let [x, y] = [&floats, &others].map(|values| cut(group, values, &ENDS));
        let dot = group.reduce(op::Dot, (&x, &y)).unwrap();
        assert_eq!(dot, reducer().dot(&of_floats, &of_others).unwrap(), "{group:?}");
        let within = group.reduce(op::Sum, x.filter(0.0..=2.0)).unwrap();
        assert_eq!(within, reducer().reduce(op::Sum, of_floats.filter(0.0..=2.0)).unwrap(), "{group:?}");
        let any = unruly::<f32>(4001);
        let (sum, range) = (op::Sum.reproducible(), -0.5..20.0);
        let within = group.reduce(sum, cut(group, &any, &ENDS).filter(range.clone())).unwrap();
        assert_eq!(
            within,
            cpu::reduce_within(op::Reproducible(range.clone()), &any).unwrap(),
            "{group:?}"
        );
        let none = group.upload::<f32>(&[]).unwrap();
        assert_eq!(group.reduce(sum, none.filter(range)).unwrap(), Within::new(0, 0.0));
        assert_eq!(group.reduce(op::Dot, (&none, &none)).unwrap(), 0.0);
        assert_eq!(group.reduce(op::Dot.reproducible(), (&none, &none)).unwrap(), 0.0);
        assert_eq!(group.reduce(op::Sum, none.filter(..)).unwrap().count, 0);
        let error = group.reduce(op::Sum, x.filter(f32::NAN..)).unwrap_err();
        assert!(matches!(error, Error::Interval { .. }), "{error:?}");
        if reducers().len() > 1 {
            let other = cut(group, &others, &[701, 701, 2500]);
            let error = group.reduce(op::Dot, (&x, &other)).unwrap_err();
            assert!(matches!(error, Error::Pairs { .. }), "{error:?}");
        }
    }
}

/// Pairs have the bits of one device; one device has no pairs, and one has an infinity.
#[test]
fn pairs_have_the_same_bits_in_any_distribution() {
    if !on_four("group_shapes::pairs_have_the_same_bits_in_any_distribution") {
        return;
    }
    fn check_type<T: Float>() {
        let (mut a, b) = (unruly::<T>(4001), shuffled(&unruly::<T>(4001), 7));
        for infinity in [false, true] {
            if infinity {
                a[3000] = T::near(f64::INFINITY);
            }
            let on_cpu = [
                T::sum(cpu::reduce_pair(op::Dot.reproducible(), &a, &b).unwrap()),
                T::sum(cpu::reduce_pair(op::SquaredDistance.reproducible(), &a, &b).unwrap()),
            ];
            for (group, ends) in groups().iter().flat_map(|group| [(group, ENDS), (group, [9, 9, 3999])])
            {
                let [x, y] = [&a, &b].map(|values| cut(group, values, &ends));
                let found = [
                    T::sum(group.reduce(op::Dot.reproducible(), (&x, &y)).unwrap()),
                    T::sum(group.reduce(op::SquaredDistance.reproducible(), (&x, &y)).unwrap()),
                ];
                assert_eq!(found.map(f64::to_bits), on_cpu.map(f64::to_bits), "{ends:?} of {group:?}");
            }
        }
    }
    for_every_float!(check_type());
}

#[test]
fn top_k_of_rows_runs_on_the_device_of_each_row() {
    if !on_four("group_shapes::top_k_of_rows_runs_on_the_device_of_each_row") {
        return;
    }
    let values = small::<f32>(3000, 3);
    let all = device().upload(&values).unwrap();
    for group in groups() {
        let sharded = cut(group, &values, &[300, 300, 2700]);
        for op in [op::Largest(3), op::Largest(30)] {
            let found = group.reduce(op, sharded.rows(30)).unwrap();
            assert_eq!(found, reducer().reduce(op, all.rows(30).unwrap()).unwrap(), "{group:?}");
        }
        let cut_rows = group.reduce(op::Smallest(1), cut(group, &values, &[301, 310, 2700]).rows(30));
        assert_eq!(matches!(cut_rows, Err(Error::Rows { .. })), reducers().len() > 1, "{cut_rows:?}");
    }
}

fn compare_with_one_device<O: op::TopK + std::fmt::Debug>(
    group: &Group,
    sharded: &Sharded<f32>,
    all: &Buffer<f32>,
    op: O,
) {
    let found = group.reduce(op, sharded).unwrap();
    let expected = reducer().reduce(op, all).unwrap();
    let bits = |found: &[warpfold::Located<f32>]| -> Vec<_> {
        found.iter().map(|found| (found.index, found.value.to_bits())).collect()
    };
    assert_eq!(bits(&found), bits(&expected), "{op:?} on {group:?}");
}

#[test]
fn group_top_k_equals_single_device_top_k() {
    if !on_four("group_shapes::group_top_k_equals_single_device_top_k") {
        return;
    }
    let mut values = small::<f32>(4001, 2);
    for (at, value) in [(3, f32::NAN), (3999, f32::NAN), (800, -0.0), (2600, 50.0), (699, 50.0)] {
        values[at] = value;
    }
    for n in [0, 1, 5, 40, 4001] {
        let all = device().upload(&values[..n]).unwrap();
        for group in groups() {
            for ends in [ENDS, [0, 0, 0], [1, 2, 3], [n, n, n]] {
                let sharded = cut(group, &values[..n], &ends);
                for k in [1, 2, 31, 32, 100, 4000] {
                    compare_with_one_device(group, &sharded, &all, op::Largest(k));
                    compare_with_one_device(group, &sharded, &all, op::Smallest(k));
                }
            }
        }
    }
    let group = &groups()[0];
    let error = group.reduce(op::Largest(0), &group.upload(&[1_u8]).unwrap()).unwrap_err();
    assert!(matches!(error, Error::TopK { .. }), "{error}");
}
