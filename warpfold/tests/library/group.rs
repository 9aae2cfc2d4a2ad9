//! Several devices as one: results compared with one device that has all elements, where results are
//! stored, and what is refused.
//!
//! On a machine with GPUs the group contains all of them. In the simulator each test runs again in a
//! process with four devices, or with four that lack peer access if the test needs that.

use std::{env, panic, process::Command, sync::OnceLock, thread};

use warpfold::{
    Buffer, Device, Element, Error, Group, Located, Plain, Reducer, Selection, Sharded, Stream, Way,
    cpu, internal::reducer_of_ptx, op,
};

use crate::common::{Sample, device, driver, extreme, kept_ptx, on_gpu, reducer, says, small, splitmix};

const DEVICES: &str = "WARPFOLD_SIM_DEVICES";

const FOUR: &str = "4";
/// Four devices without peer access.
const APART: &str = "4,apart";

/// Returns whether this process has these devices. If not, runs the named tests in a process that has
/// them, and checks that `count` tests pass there.
fn has(devices: &str, tests: &[&str], count: usize) -> bool {
    if on_gpu() {
        return devices == FOUR;
    }
    if env::var(DEVICES).is_ok_and(|has| has == devices) {
        return true;
    }
    let mut again = Command::new(env::current_exe().unwrap());
    let output = again.env(DEVICES, devices).args(tests).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(&format!("{count} passed")), "{said}");
    false
}

fn in_process(devices: &str, test: &str) -> bool {
    has(devices, &["--exact", &format!("group::{test}")], 1)
}

pub(crate) fn on_four(test: &str) -> bool {
    has(FOUR, &["--exact", test], 1)
}

pub(crate) fn reducers() -> &'static [Reducer] {
    static ALL: OnceLock<Vec<Reducer>> = OnceLock::new();
    ALL.get_or_init(|| {
        device();
        let of = |ordinal| match on_gpu() {
            true => Selection::CudaOrdinal(ordinal),
            false => Selection::SimOrdinal(ordinal),
        };
        let first = std::iter::once(reducer().clone());
        let others = (1..driver().device_count().unwrap())
            .map(|ordinal| reducer_of_ptx(&Device::open(of(ordinal)).unwrap(), kept_ptx()));
        first.chain(others).collect()
    })
}

/// Returns groups of all devices, one per available transport.
pub(crate) fn groups() -> &'static [Group] {
    static ALL: OnceLock<Vec<Group>> = OnceLock::new();
    ALL.get_or_init(|| {
        let by = |way| Group::by(way, reducers());
        [Way::Peers, Way::Nccl, Way::Copies].into_iter().filter_map(|way| by(way).ok()).collect()
    })
}

/// Distributes elements over a group's devices, each part up to its end in `ends` and at any alignment.
pub(crate) fn cut<T: Plain>(group: &Group, values: &[T], ends: &[usize]) -> Sharded<T> {
    let mut start = 0;
    let parts: Vec<Buffer<T>> = group
        .reducers()
        .enumerate()
        .map(|(rank, reducer)| {
            let last = rank + 1 == group.reducers().len();
            let end =
                if last { values.len() } else { ends[rank % ends.len()].clamp(start, values.len()) };
            // Begins with elements that do not belong to the part.
            let front = start.min(rank);
            let buffer = reducer.device().upload(&values[start - front..end]).unwrap();
            start = end;
            buffer.slice(front..).unwrap()
        })
        .collect();
    let sharded = group.sharded(parts).unwrap();
    assert_eq!(sharded.len(), values.len() as u64);
    sharded
}

/// Checks an operation on groups of several devices; one device has no elements. The tests of all
/// operations call it.
pub(crate) fn on_all<T: Element, O: op::Operation<T>>(
    op: O,
    values: &Buffer<T>,
    check: impl Fn(O::Output, &str),
    left: impl Fn(O::Left) -> O::Output,
) {
    if reducers().len() == 1 {
        return;
    }
    let host = values.download().unwrap();
    for group in groups() {
        let what = format!("{} of {} on {group:?}", std::any::type_name::<O>(), host.len());
        let sharded = cut(group, &host, &[host.len() / 5, host.len() / 5, 2 * host.len() / 3]);
        check(group.reduce(op, &sharded).unwrap(), &what);
        if host.is_empty() {
            continue;
        }
        let mut outputs = group.outputs::<O::Left>().unwrap();
        group.reduce_into(op, &sharded, &mut outputs).unwrap();
        for output in outputs.each() {
            check(left(output.read().unwrap()), &format!("{what}, left on {:?}", output.device()));
        }
    }
}

/// Modules that call [`on_all`]; their tests run again with four devices.
const OPERATIONS: [&str; 3] = ["operations::", "numbers::", "wide::"];

#[test]
fn every_operation_is_right_on_four_devices() {
    if env::var(DEVICES).is_ok() || on_gpu() {
        return;
    }
    let listed = Command::new(env::current_exe().unwrap()).args(["--list"]).args(OPERATIONS).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let count = listed.lines().filter(|line| line.ends_with(": test")).count();
    assert!(count > 10, "{listed}");
    has(FOUR, &OPERATIONS, count);
}

fn places<T: Sample + PartialEq>() {
    let mut values = small::<T>(5000, 3);
    for (at, value) in [(7, 8), (1500, 9), (1501, 9), (2100, 9), (4999, 9)] {
        values[at] = T::of(value);
    }
    for group in groups() {
        for ends in [[1000, 2000, 3000], [1501, 1501, 1501], [1500, 1501, 2100], [0, 0, 0], [8, 9, 4999]]
        {
            let (sharded, what) = (cut(group, &values, &ends), format!("{ends:?} on {group:?}"));
            assert_eq!(group.reduce(op::ArgMax, &sharded).unwrap(), extreme(&values, true), "{what}");
            assert_eq!(group.reduce(op::ArgMin, &sharded).unwrap(), extreme(&values, false), "{what}");
        }
    }
}

/// The first of equal elements wins, with the value from its device.
#[test]
fn places_count_from_the_first_element_of_the_first_device() {
    if in_process(FOUR, "places_count_from_the_first_element_of_the_first_device") {
        for_every_type!(places());
    }
}

#[test]
fn special_floats_are_found_on_the_device_that_has_them() {
    if !in_process(FOUR, "special_floats_are_found_on_the_device_that_has_them") {
        return;
    }
    let values = [1.0, -0.0, 0.0, 5.0, f32::NAN, 9.0, f32::NAN, f32::INFINITY];
    for group in groups() {
        for ends in [[1, 2, 3], [2, 4, 6], [4, 5, 7], [0, 4, 8]] {
            let sharded = cut(group, &values, &ends);
            let found = group.reduce(op::ArgMax, &sharded).unwrap().unwrap();
            assert!(found.index == 4 && found.value.is_nan(), "{found:?}");
            let least = group.reduce(op::ArgMin.skip_nan(), &sharded).unwrap().unwrap();
            assert_eq!((least.index, least.value.to_bits()), (1, (-0.0_f32).to_bits()), "{ends:?}");
            assert_eq!(group.reduce(op::CountNan, &sharded).unwrap(), 2);
            let described = group.reduce(op::Describe, &sharded).unwrap();
            assert_eq!((described.count, described.nan_count), (values.len() as u64 - 2, 2));
            assert_eq!(described.min, Some(least.value));
            assert!(group.reduce(op::Sum, &sharded).unwrap().is_nan());
        }
        let none = cut(group, &[f32::NAN; 9], &[3, 5, 7]);
        assert_eq!(group.reduce(op::ArgMax.skip_nan(), &none).unwrap(), None);
    }
}

fn uneven(n: u64) -> Vec<f32> {
    let of = |at| f32::from_bits((splitmix(at) as u32 & 0x807f_ffff) | ((100 + at as u32 % 60) << 23));
    (0..n).map(of).collect()
}

/// Reproducible sums have the bits of one device for any distribution; plain sums do not.
#[test]
fn reproducible_sums_are_equal_on_many_devices() {
    if !in_process(FOUR, "reproducible_sums_are_equal_on_many_devices") {
        return;
    }
    let values = uneven(70_001);
    let buffer = device().upload(&values).unwrap();
    let (everywhere, plain) = (op::Sum.reproducible(), op::Sum);
    let whole = reducer().reduce(everywhere, &buffer).unwrap().to_bits();
    let spread = op::MeanAndVariance.reproducible();
    let moments = cpu::reduce(spread, &values).unwrap();
    let mut differ = 0;
    for group in groups() {
        for ends in [[1, 2, 3], [35_000, 35_001, 60_000], [0, 0, 69_999], [20_000, 40_000, 60_000]] {
            let sharded = cut(group, &values, &ends);
            assert_eq!(group.reduce(everywhere, &sharded).unwrap().to_bits(), whole, "{ends:?}");
            assert_eq!(group.reduce(spread, &sharded).unwrap(), moments, "{ends:?}");
            let sum = group.reduce(plain, &sharded).unwrap().to_bits();
            assert_eq!(group.reduce(plain, &sharded).unwrap().to_bits(), sum, "{ends:?}");
            differ += usize::from(sum != reducer().sum(&buffer).unwrap().to_bits());
        }
    }
    assert!(differ > 0 || reducers().len() == 1);
}

#[test]
fn upload_distributes_evenly_and_accepts_no_elements() {
    if !in_process(FOUR, "upload_distributes_evenly_and_accepts_no_elements") {
        return;
    }
    let group = &groups()[0];
    for n in [0, 1, 15, 16, 17, 1000, 65_537] {
        let values = small::<i32>(n, 1);
        let sharded = group.upload(&values).unwrap();
        let parts: Vec<Vec<i32>> = sharded.parts().iter().map(|part| part.download().unwrap()).collect();
        assert_eq!(parts.concat(), values);
        let (most, least) = (parts.iter().map(Vec::len).max(), parts.iter().map(Vec::len).min());
        assert!(most.unwrap() - least.unwrap() <= 16 * parts.len(), "{n}: {most:?} and {least:?}");
        assert_eq!(group.reduce(op::Sum, &sharded).unwrap(), i32::total(&values, false));
        assert_eq!(group.reduce(op::Min, &sharded).unwrap(), values.iter().copied().min());
        assert_eq!(sharded.is_empty(), n == 0);
    }
}

#[cfg(feature = "simulator")]
#[test]
fn peer_devices_use_one_launch_each_and_no_copies() {
    if on_gpu() || !in_process(FOUR, "peer_devices_use_one_launch_each_and_no_copies") {
        return;
    }
    for group in groups() {
        let sharded = group.upload(&small::<f32>(10_000, 1)).unwrap();
        // Loads the kernels and allocates memory.
        group.reduce(op::Sum, &sharded).unwrap();
        let log = warpfold_sim_driver::record_calls();
        group.reduce(op::Sum, &sharded).unwrap();
        let calls = |name| log.count(name);
        let launches = calls("cuLaunchKernel") + calls("cuLaunchKernelEx");
        let copies = calls("cuMemcpyPeerAsync");
        let expected = if group.way() == Way::Peers { (4, 0) } else { (5, 4) };
        assert_eq!((launches, copies), expected, "{group:?}");
        assert_eq!(calls("cuMemAlloc_v2") + calls("cuMemHostAlloc"), 0, "{group:?}");
    }
}

/// Devices that synchronize inside the kernels need no other waits: neither a blocking call, which polls
/// for the result, nor a repeated write to the same outputs, unless other devices wrote them in between.
#[cfg(feature = "simulator")]
#[test]
fn peer_devices_do_not_wait_on_the_host_or_on_events() {
    if on_gpu() || !in_process(FOUR, "peer_devices_do_not_wait_on_the_host_or_on_events") {
        return;
    }
    let group = groups().iter().find(|group| group.way() == Way::Peers).unwrap();
    let values = small::<f32>(10_000, 1);
    let all = group.upload(&values).unwrap();
    let of_two = cut(group, &values, &[5000, 10_000]);
    let sum = f32::total(&values, false);
    let mut sums = group.outputs::<f32>().unwrap();
    assert_eq!(group.reduce((op::Sum, op::Max), &all).unwrap().0, sum);
    let log = warpfold_sim_driver::record_calls();
    assert_eq!(group.reduce(op::Sum, &all).unwrap(), sum);
    assert_eq!(group.reduce((op::Sum, op::Max), &all).unwrap().0, sum);
    let waits = log.count("cuStreamSynchronize") + log.count("cuEventSynchronize");
    assert_eq!(waits, 0, "{:?}", log.calls());
    drop(log);
    group.reduce_into(op::Sum, &all, &mut sums).unwrap();
    // A reduction over two devices has to wait for what the other devices have written.
    for (elements, waits) in [(&all, false), (&of_two, true), (&all, false), (&of_two, true)] {
        let log = warpfold_sim_driver::record_calls();
        group.reduce_into(op::Sum, elements, &mut sums).unwrap();
        assert_eq!(log.count("cuStreamWaitEvent") > 0, waits);
        drop(log);
        for output in sums.each() {
            assert_eq!(output.read().unwrap(), sum);
        }
    }
}

/// More threads than a reducer has workspaces, each with several launches per device, use groups with
/// the devices in either order, without a deadlock.
#[test]
fn many_threads_take_groups_in_any_order() {
    if !in_process(FOUR, "many_threads_take_groups_in_any_order") {
        return;
    }
    let backwards: Vec<Reducer> = reducers().iter().rev().cloned().collect();
    for group in groups() {
        let backwards = Group::by(group.way(), &backwards).unwrap();
        let values = small::<i32>(2000, 5);
        let (sum, largest) = (i32::total(&values, false), *values.iter().max().unwrap());
        thread::scope(|scope| {
            for thread in 0..40 {
                let group = if thread % 2 == 0 { group } else { &backwards };
                let values = &values;
                scope.spawn(move || {
                    let sharded = group.upload(values).unwrap();
                    let results = group.reduce((op::Sum, op::Max, op::Product), &sharded).unwrap();
                    assert_eq!((results.0, results.1), (sum, Some(largest)));
                });
            }
        });
    }
}

#[test]
fn panicking_operation_callback_leaves_the_group_usable() {
    if !in_process(FOUR, "panicking_operation_callback_leaves_the_group_usable") {
        return;
    }
    for group in groups() {
        let values = small::<i32>(2000, 5);
        let sharded = group.upload(&values).unwrap();
        for missing in 0..group.reducers().len() {
            let op = |rank| if rank == missing { panic!("there is none") } else { op::Sum };
            let panics = || group.reduce_by(op, &sharded);
            panic::catch_unwind(panic::AssertUnwindSafe(panics)).unwrap_err();
            assert_eq!(group.reduce(op::Sum, &sharded).unwrap(), i32::total(&values, false));
        }
    }
}

#[test]
fn results_in_device_memory_are_ordered_before_later_work() {
    if !in_process(FOUR, "results_in_device_memory_are_ordered_before_later_work") {
        return;
    }
    let values = small::<u8>(4001, 3);
    for group in groups() {
        let sharded = cut(group, &values, &[100, 100, 3000]);
        let mut ones = group.outputs::<u64>().unwrap();
        let streams: Vec<Stream> =
            group.reducers().map(|reducer| reducer.device().stream().unwrap()).collect();
        for n in [77_usize, 3, 1000] {
            let sum_of_ones = |n| cut(group, &vec![1_u8; n], &[n / 2, n / 3, n]);
            group.reduce_into(op::Sum, &sum_of_ones(n), &mut ones).unwrap();
            let counted: Vec<_> = ones
                .each()
                .iter()
                .zip(group.reducers().zip(&streams))
                .map(|(ones, (reducer, stream))| {
                    let buffer = ones.device().upload(&values).unwrap();
                    reducer.on(stream).reduce(op::Sum, buffer.counted(&ones.as_count())).unwrap()
                })
                .collect();
            // The next reduction waits for the readers, although it could start first.
            group.reduce_into(op::Sum, &sum_of_ones(n + 1), &mut ones).unwrap();
            for output in ones.each() {
                assert_eq!(output.read().unwrap(), n as u64 + 1, "{group:?}");
            }
            let expected = u8::total(&values[..n], false);
            for sum in counted {
                assert_eq!(sum.wait().unwrap(), expected, "{n} on {group:?}");
            }
        }
        let mut located = group.outputs::<Located<u8>>().unwrap();
        // The host does not wait, and all buffers that are used are dropped.
        for _ in 0..20 {
            group.reduce_into(op::ArgMin, &sharded, &mut located).unwrap();
            group.reduce_into(op::ArgMax, &sharded, &mut located).unwrap();
        }
        for output in located.each() {
            assert_eq!(Some(output.read().unwrap()), extreme(&values, true), "{group:?}");
        }
    }
}

#[test]
fn rows_are_not_split_across_devices() {
    if !in_process(FOUR, "rows_are_not_split_across_devices") {
        return;
    }
    let values = small::<i32>(3000, 3);
    for group in groups() {
        let sharded = cut(group, &values, &[300, 300, 2700]);
        let sums: Vec<i64> = values.chunks(30).map(|row| i32::total(row, false)).collect();
        assert_eq!(group.reduce(op::Sum, sharded.rows(30)).unwrap(), sums);
        let first = group.reduce(op::ArgMax, sharded.rows(30)).unwrap();
        let rows: Vec<_> = values.chunks(30).filter_map(|row| extreme(row, true)).collect();
        assert_eq!(first, rows);
        let cut_rows = group.reduce(op::Sum, cut(group, &values, &[301, 310, 2700]).rows(30));
        let refused = matches!(cut_rows, Err(Error::Rows { .. }));
        // On a single device no row is cut.
        assert_eq!(refused, reducers().len() > 1, "{cut_rows:?}");
    }
}

#[test]
fn devices_without_peer_access_use_copies() {
    if !in_process(APART, "devices_without_peer_access_use_copies") {
        return;
    }
    let group = Group::new(reducers()).unwrap();
    assert_eq!(group.way(), Way::Copies);
    let error = Group::by(Way::Peers, reducers()).unwrap_err();
    says(&error, &["simulator 0", "cannot access the memory of", "simulator 1", "Way::Copies"]);
    let values = small::<i32>(5000, 3);
    let sharded = cut(&group, &values, &[1000, 1000, 3000]);
    assert_eq!(group.reduce(op::Sum, &sharded).unwrap(), i32::total(&values, false));
    assert_eq!(group.reduce(op::ArgMax, &sharded).unwrap(), extreme(&values, true));
    let mut outputs = group.outputs::<i64>().unwrap();
    group.reduce_into(op::Sum, &sharded, &mut outputs).unwrap();
    for output in outputs.each() {
        assert_eq!(output.read().unwrap(), i32::total(&values, false));
    }
}

#[test]
fn invalid_groups_and_foreign_elements_are_rejected() {
    if !in_process(FOUR, "invalid_groups_and_foreign_elements_are_rejected") || reducers().len() == 1 {
        return;
    }
    let [one, other] = [0, 1].map(|rank: usize| reducers()[rank].clone());
    says(&Group::new(&[]).unwrap_err(), &["0 devices", "1 to 31"]);
    says(&Group::new(&vec![one.clone(); 32]).unwrap_err(), &["32 devices", "1 to 31"]);
    let twice = Group::new(&[one.clone(), other.clone(), one.clone()]).unwrap_err();
    says(&twice, &["is given twice", " 0", "once"]);
    let (group, others) = (Group::new(&[one.clone(), other.clone()]), Group::new(&[other, one]));
    let (group, others) = (group.unwrap(), others.unwrap());
    assert_eq!(group.way(), Way::Peers);
    let values = group.upload(&[1, 2, 3]).unwrap();
    says(&others.reduce(op::Sum, &values).unwrap_err(), &["the elements belong to another group"]);
    let mut outputs = others.outputs::<i64>().unwrap();
    says(
        &group.reduce_into(op::Sum, &values, &mut outputs).unwrap_err(),
        &["the outputs belong to another group"],
    );
    let first = group.reducers().next().unwrap().device();
    let part = |values: &[i32]| first.upload(values).unwrap();
    says(&group.sharded(vec![part(&[1])]).unwrap_err(), &["1 buffers are given for 2 devices"]);
    let error = group.sharded(vec![part(&[1]), part(&[2])]).unwrap_err();
    assert!(matches!(error, Error::OtherDevice { what: "buffer", .. }), "{error}");
    let none = group.upload::<i32>(&[]).unwrap();
    let mut least = group.outputs::<i32>().unwrap();
    let error = group.reduce_into(op::Min, &none, &mut least).unwrap_err();
    assert!(matches!(error, Error::NoElements { .. }), "{error}");
}

/// Some devices have launched already when a call fails; their partials must not reach later results.
#[cfg(feature = "simulator")]
#[test]
fn failed_reduction_leaves_the_group_usable() {
    use warpfold_driver::sys;
    use warpfold_sim_driver::{Fault, inject};

    if on_gpu() || !in_process(FOUR, "failed_reduction_leaves_the_group_usable") {
        return;
    }
    for group in groups() {
        // Stale partial results of the other elements would give another sum.
        let each = [1, 2].map(|seed| small::<i32>(5000, seed));
        let each =
            each.map(|values| (cut(group, &values, &[1000, 2000, 3000]), i32::total(&values, false)));
        let [(first, _), (second, _)] = &each;
        let mut outputs = group.outputs::<i64>().unwrap();
        group.reduce_into(op::Sum, first, &mut outputs).unwrap();
        for function in ["cuLaunchKernel", "cuEventRecord", "cuStreamWaitEvent", "cuMemcpyPeerAsync"] {
            for call in 1..=6 {
                let code = sys::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
                let fault = inject(Fault { function, call, code, sticky: false });
                let waited = group.reduce(op::Sum, first);
                let left = group.reduce_into(op::Sum, second, &mut outputs);
                let struck = fault.has_struck();
                drop(fault);
                assert_eq!(struck, waited.is_err() || left.is_err(), "{function} {call} on {group:?}");
                for (sharded, sum) in &each {
                    assert_eq!(group.reduce(op::Sum, sharded).unwrap(), *sum, "{function} {call}");
                }
                for (sharded, sum) in &each {
                    group.reduce_into(op::Sum, sharded, &mut outputs).unwrap();
                    for output in outputs.each() {
                        assert_eq!(output.read().unwrap(), *sum, "{function} {call}");
                    }
                }
            }
        }
    }
}
