//! Enqueued reductions: on own and foreign streams, with results on the host and on the device, dropped
//! and leaked in any order, and from many threads at once.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use warpfold_driver::{Context, Stream as RawStream};

use crate::common::{Sample, device, driver, extreme, no_findings, reducer, says, small};
use warpfold::{
    Buffer, Buffers, Located, Outputs, Reducer,
    internal::{PtxSource, Tuning, reducer as reducer_with},
    op,
};

fn narrow(workspaces: usize) -> Reducer {
    reducer_with(device(), PtxSource::from_environment(), Tuning::generic(), workspaces)
}

fn typed<T: Sample>() {
    let stream = device().stream().unwrap();
    let values = small::<T>(4099, 2);
    let buffer = device().upload(&values).unwrap();
    let on = reducer().on(&stream);
    let (sum, squares) =
        (on.reduce(op::Sum, &buffer).unwrap(), on.reduce(op::SumOfSquares, &buffer).unwrap());
    let (min, max) = (on.reduce(op::Min, &buffer).unwrap(), on.reduce(op::Max, &buffer).unwrap());
    let (arg_min, arg_max) =
        (on.reduce(op::ArgMin, &buffer).unwrap(), on.reduce(op::ArgMax, &buffer).unwrap());
    let (least, largest) = (extreme(&values, false), extreme(&values, true));
    assert_eq!(arg_max.wait().unwrap(), largest);
    assert_eq!(arg_min.wait().unwrap(), least);
    assert_eq!(max.wait().unwrap(), largest.map(|one| one.value));
    assert_eq!(min.wait().unwrap(), least.map(|one| one.value));
    assert_eq!(squares.wait().unwrap(), T::total(&values, true));
    assert_eq!(sum.wait().unwrap(), T::total(&values, false));
}

#[test]
fn every_operation_of_every_type_may_be_enqueued() {
    let _checked = no_findings();
    for_every_type!(typed());
}

fn left_on_the_device<T: Sample>() {
    let stream = device().stream().unwrap();
    let values = small::<T>(4099, 6);
    let buffer = device().upload(&values).unwrap();
    let on = reducer().on(&stream);
    let (mut sum, mut squares) =
        (device().output::<T::Sum>().unwrap(), device().output::<T::Sum>().unwrap());
    let (mut min, mut max) = (device().output::<T>().unwrap(), device().output::<T>().unwrap());
    let mut arg_min = device().output::<Located<T>>().unwrap();
    let mut arg_max = device().output::<Located<T>>().unwrap();
    on.reduce_into(op::Sum, &buffer, &mut sum).unwrap();
    on.reduce_into(op::SumOfSquares, &buffer, &mut squares).unwrap();
    on.reduce_into(op::Min, &buffer, &mut min).unwrap();
    on.reduce_into(op::Max, &buffer, &mut max).unwrap();
    on.reduce_into(op::ArgMin, &buffer, &mut arg_min).unwrap();
    on.reduce_into(op::ArgMax, &buffer, &mut arg_max).unwrap();
    // The reductions keep the elements and the stream alive.
    drop((buffer, stream));
    let (least, largest) = (extreme(&values, false).unwrap(), extreme(&values, true).unwrap());
    assert_eq!(arg_max.read().unwrap(), largest);
    assert_eq!(arg_min.read().unwrap(), least);
    assert_eq!((min.read().unwrap(), max.read().unwrap()), (least.value, largest.value));
    assert_eq!(squares.read().unwrap(), T::total(&values, true));
    assert_eq!(sum.read().unwrap(), T::total(&values, false));
}

#[test]
fn every_result_of_every_type_may_stay_on_the_device() {
    let _checked = no_findings();
    for_every_type!(left_on_the_device());
}

#[test]
fn output_holds_the_last_result_at_its_address() {
    let _checked = no_findings();
    let mut output = device().output::<u64>().unwrap();
    assert_eq!(output.read().unwrap(), 0);
    // Two streams and reducers alternate: each write is finished before the next one.
    let streams = [device().stream().unwrap(), device().stream().unwrap()];
    let reducers = [narrow(1), narrow(1)];
    for turn in 1..=20_u64 {
        let buffer = device().upload(&vec![turn; 10_007]).unwrap();
        let at = turn as usize % 2;
        reducers[at].on(&streams[at]).reduce_into(op::Sum, &buffer, &mut output).unwrap();
    }
    assert_eq!(output.read().unwrap(), 20 * 10_007);
    streams.iter().for_each(|stream| stream.synchronize().unwrap());
    assert_eq!(output.read().unwrap(), 20 * 10_007);
    let address = output.as_device_ptr();
    // SAFETY: the output owns its memory, outlives the buffer and is no longer written.
    let seen = unsafe { Buffer::<u64>::from_raw_parts(device(), address, 1, ()) }.unwrap();
    assert_eq!(seen.download().unwrap(), [20 * 10_007]);
    let nothing = device().upload::<u64>(&[]).unwrap();
    reducer().on(&streams[0]).reduce_into(op::Sum, &nothing, &mut output).unwrap();
    assert_eq!(output.read().unwrap(), 0);
    let error = reducer().on(&streams[0]).reduce_into(op::Min, &nothing, &mut output).unwrap_err();
    says(&error, &["min", "no elements"]);
}

#[test]
fn no_elements_need_no_launch() {
    let stream = device().stream().unwrap();
    let nothing = device().upload(&[1.0_f32]).unwrap().slice(1..).unwrap();
    let on = reducer().on(&stream);
    let (sum, least) = (on.reduce(op::Sum, &nothing).unwrap(), on.reduce(op::ArgMin, &nothing).unwrap());
    assert!(sum.is_ready().unwrap() && least.is_ready().unwrap());
    assert_eq!((sum.wait().unwrap(), least.wait().unwrap()), (0.0, None));
}

#[test]
fn reductions_of_one_stream_may_be_waited_for_in_any_order() {
    let _checked = no_findings();
    let stream = device().stream().unwrap();
    let data = [1, 2, 3].map(|seed| small::<u64>(100_003, seed));
    let pending: Vec<_> = data
        .iter()
        .map(|values| {
            let buffer = device().upload(values).unwrap();
            narrow(1).on(&stream).reduce(op::Sum, &buffer).unwrap()
        })
        .collect();
    drop(stream);
    for (pending, values) in pending.into_iter().zip(&data).rev() {
        assert_eq!(pending.wait().unwrap(), u64::total(values, false));
    }
}

#[test]
fn more_reductions_than_workspaces_can_be_pending() {
    let _checked = no_findings();
    let reducer = narrow(2);
    let streams = [(); 3].map(|()| device().stream().unwrap());
    let buffers: Vec<_> =
        (0..50).map(|i| device().upload(&small::<i32>(1000 + i, i as u64)).unwrap()).collect();
    let pending: Vec<_> = buffers
        .iter()
        .enumerate()
        .map(|(i, buffer)| reducer.on(&streams[i % 3]).reduce(op::Sum, buffer).unwrap())
        .collect();
    for (i, pending) in pending.into_iter().enumerate() {
        let expected = i32::total(&small::<i32>(1000 + i, i as u64), false);
        assert_eq!(pending.wait().unwrap(), expected, "{i}");
    }
}

#[test]
fn reductions_sharing_a_workspace_are_serialized() {
    let _checked = no_findings();
    let reducer = narrow(1);
    let streams = [device().stream().unwrap(), device().stream().unwrap()];
    let buffer = device().upload(&small::<i64>(100_003, 3)).unwrap();
    let pending = [0, 1, 0].map(|stream| reducer.on(&streams[stream]).reduce(op::Max, &buffer).unwrap());
    let [first, second, third] = pending;
    assert_eq!(second.wait().unwrap(), Some(7));
    assert!(first.is_ready().unwrap());
    // A blocking call runs after all of them.
    assert_eq!(reducer.min(&buffer).unwrap(), Some(-7));
    assert!(third.is_ready().unwrap());
}

#[test]
fn a_pending_reduction_may_be_dropped_and_even_leaked() {
    let _checked = no_findings();
    let reducer = narrow(1);
    let stream = device().stream().unwrap();
    let values = small::<f32>(300_001, 5);
    let buffer = device().upload(&values).unwrap();
    drop(reducer.on(&stream).reduce(op::Sum, &buffer).unwrap());
    assert_eq!(reducer.sum(&buffer).unwrap(), f32::total(&values, false));
    // The dropped reduction holds the only reference to the elements.
    drop(reducer.on(&stream).reduce(op::Sum, &device().upload(&values).unwrap()).unwrap());
    mem::forget(reducer.on(&stream).reduce(op::Sum, &buffer).unwrap());
    drop(buffer);
    let other = device().upload(&values).unwrap();
    for _ in 0..3 {
        assert_eq!(reducer.sum(&other).unwrap(), f32::total(&values, false));
    }
    drop(stream);
    assert_eq!(reducer.max(&other).unwrap(), Some(7.0));
}

struct Owner(Arc<AtomicUsize>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn buffer_owner_is_dropped_after_the_last_reduction() {
    let _checked = no_findings();
    let gone = Arc::new(AtomicUsize::new(0));
    let values = small::<i64>(50_000, 1);
    let memory = device().upload(&values).unwrap();
    let (reducer, stream) = (narrow(2), device().stream().unwrap());
    let foreign = || {
        let (address, owner) = (memory.as_device_ptr(), Owner(gone.clone()));
        // SAFETY: the elements belong to `memory`, which stays alive and never changes.
        unsafe { Buffer::<i64>::from_raw_parts(device(), address, values.len(), owner) }.unwrap()
    };
    let count = || gone.load(Ordering::Relaxed);
    let pending = reducer.on(&stream).reduce(op::Sum, &foreign()).unwrap();
    assert_eq!(count(), 0);
    assert_eq!(pending.wait().unwrap(), i64::total(&values, false));
    assert_eq!(count(), 1);
    drop(reducer.on(&stream).reduce(op::Sum, &foreign()).unwrap());
    assert_eq!(count(), 2);
    mem::forget(reducer.on(&stream).reduce(op::Sum, &foreign()).unwrap());
    assert_eq!(count(), 2);
    // The host does not wait for these: a later call releases them, or the drop of the reducer.
    let mut output = device().output().unwrap();
    reducer.on(&stream).reduce_into(op::Sum, &foreign(), &mut output).unwrap();
    assert_eq!((count(), output.read().unwrap()), (2, i64::total(&values, false)));
    assert_eq!(reducer.sum(&memory).unwrap(), i64::total(&values, false));
    assert_eq!(count(), 3);
    let another = narrow(1);
    another.on(&stream).reduce_into(op::Sum, &foreign(), &mut output).unwrap();
    drop(another);
    assert_eq!((count(), output.read().unwrap()), (4, i64::total(&values, false)));
}

/// An owner whose drop uses the reducer, as a user's cache might.
struct Busy {
    reducer: Reducer,
    elements: Buffer<i32>,
    sum: mpsc::Sender<i64>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        let stream = device().stream().unwrap();
        let sum = self.reducer.on(&stream).reduce(op::Sum, &self.elements).unwrap().wait().unwrap();
        self.sum.send(sum).unwrap();
    }
}

#[test]
fn owner_drop_may_use_the_reducer() {
    let (sum, sums) = mpsc::channel();
    thread::spawn(move || {
        let (reducer, stream) = (narrow(1), device().stream().unwrap());
        let elements = device().upload(&[1, 2, 3]).unwrap();
        let owner = Busy { reducer: reducer.clone(), elements: elements.clone(), sum };
        // SAFETY: the owner keeps the elements alive, and nothing writes them.
        let buffer =
            unsafe { Buffer::<i32>::from_raw_parts(device(), elements.as_device_ptr(), 3, owner) };
        let mut output = device().output::<i64>().unwrap();
        reducer.on(&stream).reduce_into(op::Sum, &buffer.unwrap(), &mut output).unwrap();
        assert_eq!(output.read().unwrap(), 6);
        // The first call after completion releases the elements.
        assert_eq!(reducer.max(&elements).unwrap(), Some(3));
    });
    assert_eq!(sums.recv_timeout(Duration::from_secs(60)), Ok(6), "it waits for itself");
}

#[test]
fn any_number_of_threads_share_a_reducer() {
    let _checked = no_findings();
    let reducer = narrow(2);
    let barrier = std::sync::Barrier::new(4);
    let turns = |seed: u64| {
        let stream = device().stream().unwrap();
        barrier.wait();
        for turn in 0..20 {
            let values = small::<i32>(5_000, seed + turn);
            let buffer = device().upload(&values).unwrap();
            let pending = reducer.on(&stream).reduce(op::SumOfSquares, &buffer).unwrap();
            assert_eq!(
                reducer.reduce(op::ArgMax, &buffer).unwrap(),
                extreme(&values, true),
                "turn {turn}"
            );
            drop(buffer);
            assert_eq!(pending.wait().unwrap(), i32::total(&values, true), "turn {turn}");
        }
    };
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || turns(100 * thread));
        }
    });
}

#[test]
fn wait_for_orders_work_of_two_streams() {
    let _checked = no_findings();
    let streams = [device().stream().unwrap(), device().stream().unwrap()];
    let values = small::<u32>(100_000, 4);
    let buffer = device().upload(&values).unwrap();
    let mut output = device().output::<u64>().unwrap();
    reducer().on(&streams[0]).reduce_into(op::Sum, &buffer, &mut output).unwrap();
    streams[1].wait_for(&streams[0]).unwrap();
    // SAFETY: the output stays alive, and the reading stream waits for its writer.
    let seen = unsafe { Buffer::<u64>::from_raw_parts(device(), output.as_device_ptr(), 1, ()) };
    let copied = reducer().on(&streams[1]).reduce(op::Max, &seen.unwrap()).unwrap();
    assert_eq!(copied.wait().unwrap(), Some(u32::total(&values, false)));
}

/// Another library writes the elements, records an event, and reads the result after the reduction.
#[test]
fn foreign_events_order_enqueued_work() {
    let _checked = no_findings();
    let (driver, device) = (driver(), device());
    let (theirs, ours) = (device.stream().unwrap(), device.stream().unwrap());
    let context = Context::from_raw(device.as_raw_context().cast());
    let raw = RawStream::from_raw(theirs.as_raw().cast());
    let memory = device.upload(&[0_u32; 4096]).unwrap();
    let mut output = device.output::<u64>().unwrap();
    let mut copy = [0_u64; 1];
    // SAFETY: everything lives to the end of the test, where both streams are waited for. Nothing reads
    // the elements before the event, and nothing writes them after it.
    unsafe {
        driver.ctx_push_current(context).unwrap();
        let [written, reduced] = [(); 2].map(|()| driver.event_create(0).unwrap());
        driver.memset_d32_async(memory.as_device_ptr(), 3, 4096, raw).unwrap();
        driver.event_record(written, raw).unwrap();
        ours.wait_for_event(written.raw().cast()).unwrap();
        let bytes =
            Buffer::<u8>::from_raw_parts(device, memory.as_device_ptr(), 4 * 4096, memory.clone());
        reducer().on(&ours).reduce_into(op::Sum, &bytes.unwrap(), &mut output).unwrap();
        ours.record_event(reduced.raw().cast()).unwrap();
        driver.stream_wait_event(raw, reduced).unwrap();
        let to = copy.as_mut_ptr().cast();
        driver.memcpy_dtoh_async(to, output.as_device_ptr(), 8, raw).unwrap();
        driver.stream_synchronize(raw).unwrap();
        driver.event_destroy(written).unwrap();
        driver.event_destroy(reduced).unwrap();
        driver.ctx_pop_current().unwrap();
    }
    assert_eq!(copy, [3 * 4096]);
}

#[test]
fn wait_for_elements_waits_for_their_writer() {
    let _checked = no_findings();
    let (driver, device) = (driver(), device());
    let streams = [device.stream().unwrap(), device.stream().unwrap()];
    let values = small::<i32>(30_000, 8);
    let buffer = device.upload(&values).unwrap();
    let mut outputs = device.outputs::<i64>(1).unwrap();
    reducer().on(&streams[0]).reduce_into(op::Sum, buffer.rows(30_000).unwrap(), &mut outputs).unwrap();
    let sum = outputs.into_buffer();
    streams[1].wait_for_elements(&sum).unwrap();
    let (raw, mut copy) = (RawStream::from_raw(streams[1].as_raw().cast()), [0_i64; 1]);
    let context = Context::from_raw(device.as_raw_context().cast());
    // SAFETY: everything lives to the end of the test, and the copy is waited for.
    unsafe {
        driver.ctx_push_current(context).unwrap();
        driver.memcpy_dtoh_async(copy.as_mut_ptr().cast(), sum.as_device_ptr(), 8, raw).unwrap();
        driver.stream_synchronize(raw).unwrap();
        driver.ctx_pop_current().unwrap();
    }
    assert_eq!(copy, [i32::total(&values, false)]);
}

#[test]
fn is_recording_reports_stream_capture() {
    let (driver, device) = (driver(), device());
    let stream = device.stream().unwrap();
    let raw = RawStream::from_raw(stream.as_raw().cast());
    let context = Context::from_raw(device.as_raw_context().cast());
    let mode = warpfold_driver::sys::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    assert!(!stream.is_recording().unwrap());
    // SAFETY: the stream stays alive, and the graph is destroyed.
    unsafe {
        driver.ctx_push_current(context).unwrap();
        driver.stream_begin_capture(raw, mode).unwrap();
        assert!(stream.is_recording().unwrap());
        let graph = driver.stream_end_capture(raw).unwrap();
        driver.graph_destroy(graph).unwrap();
        driver.ctx_pop_current().unwrap();
    }
    assert!(!stream.is_recording().unwrap());
}

/// Each launch of the graph reduces the elements that are there then. The kernels are loaded during the
/// capture, and the workspace holds other values before each launch.
#[test]
fn captured_reductions_follow_the_elements() {
    let _checked = no_findings();
    let (driver, device, reducer) = (driver(), device(), reducer());
    let stream = device.stream().unwrap();
    let raw = RawStream::from_raw(stream.as_raw().cast());
    let context = Context::from_raw(device.as_raw_context().cast());
    // In the global mode, the allocations of other tests would fail.
    let mode = warpfold_driver::sys::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    let (rows, n) = (3, 120_000);
    let workspace = device.upload(&vec![0xff_u8; reducer.workspace_bytes() as usize]).unwrap();
    let memory = device.upload(&vec![0_i32; n]).unwrap();
    let (mut sum, mut largest) = (device.output().unwrap(), device.outputs(rows).unwrap());
    let mut short = device.outputs(2).unwrap();
    // All launches below share results among several blocks.
    let (columns, mut least) = (8, device.outputs(8).unwrap());
    let (mut every_other, mut halves) = (device.outputs(1).unwrap(), device.output().unwrap());
    let mut product = device.output().unwrap();
    let mut first = device.outputs(100).unwrap();
    stream.wait_for_elements(&memory).unwrap();
    // SAFETY: everything lives to the end of the test, the elements are written between launches alone,
    // and each launch is waited for.
    unsafe {
        let elements = Buffer::<i32>::from_raw_parts(device, memory.as_device_ptr(), n, ()).unwrap();
        let pair = [elements.slice(..n / 2).unwrap(), elements.slice(n / 2..).unwrap()];
        let both = Buffers::new(device, &pair).unwrap();
        driver.ctx_push_current(context).unwrap();
        driver.stream_begin_capture(raw, mode).unwrap();
        let (on, workspace) = (reducer.on(&stream), workspace.as_device_ptr());
        on.launch_into(op::Sum, &elements, &mut sum, Some(workspace)).unwrap();
        on.launch_into(op::ArgMax, elements.rows(n / rows).unwrap(), &mut largest, Some(workspace))
            .unwrap();
        let axis = elements.axis(&[n / columns, columns], 0).unwrap();
        on.launch_into(op::Min, axis, &mut least, Some(workspace)).unwrap();
        let view = elements.view_strided(0, &[n / 2], &[2]).unwrap();
        on.launch_into(op::Sum, view.along(&[0]).unwrap(), &mut every_other, Some(workspace)).unwrap();
        on.launch_into(op::Max, &both, &mut halves, Some(workspace)).unwrap();
        let [a, b] = &pair;
        on.launch_into(op::Dot, (a, b), &mut product, Some(workspace)).unwrap();
        on.launch_into(op::Largest(100), &elements, &mut first, Some(workspace)).unwrap();
        let refused = on.launch_into(op::Max, elements.rows(n).unwrap(), &mut short, Some(workspace));
        says(&refused.unwrap_err(), &["room for 2 results", "make outputs for 1"]);
        let graph = driver.stream_end_capture(raw).unwrap();
        let executable = driver.graph_instantiate(graph).unwrap();
        for seed in 0..3 {
            let values = small::<i32>(n, seed);
            let source = values.as_ptr().cast();
            driver.memcpy_htod_async(memory.as_device_ptr(), source, 4 * n, raw).unwrap();
            driver.memset_d8_async(workspace, 0xff, reducer.workspace_bytes() as usize, raw).unwrap();
            driver.graph_launch(executable, raw).unwrap();
            driver.stream_synchronize(raw).unwrap();
            assert_eq!(sum.read().unwrap(), i32::total(&values, false));
            let expected: Vec<_> =
                values.chunks(n / rows).map(|row| extreme(row, true).unwrap()).collect();
            assert_eq!(largest.read().unwrap(), expected);
            let of_column = |column| values.iter().skip(column).step_by(columns).min().copied().unwrap();
            assert_eq!(least.read().unwrap(), (0..columns).map(of_column).collect::<Vec<_>>());
            let every: i64 = values.iter().step_by(2).map(|&value| i64::from(value)).sum();
            assert_eq!(every_other.read().unwrap(), [every]);
            let expected = warpfold::cpu::top_k(op::Largest(100), &values).unwrap();
            assert_eq!(first.read().unwrap(), expected);
            assert_eq!(Some(halves.read().unwrap()), values.iter().max().copied());
            let (a, b) = values.split_at(n / 2);
            let dot: i64 = a.iter().zip(b).map(|(&a, &b)| i64::from(a) * i64::from(b)).sum();
            assert_eq!(product.read().unwrap(), dot);
        }
        driver.graph_exec_destroy(executable).unwrap();
        driver.graph_destroy(graph).unwrap();
        driver.ctx_pop_current().unwrap();
    }
}

/// More streams than can have a workspace of their own.
#[test]
fn launches_that_keep_nothing_are_right_on_many_streams() {
    const STREAMS: usize = 20;
    let _checked = no_findings();
    let (device, reducer, n) = (device(), narrow(2), 300_000);
    let inputs: Vec<_> = (0..STREAMS).map(|seed| small::<i32>(n, seed as u64)).collect();
    let buffers: Vec<_> = inputs.iter().map(|values| device.upload(values).unwrap()).collect();
    let streams: Vec<_> = (0..STREAMS).map(|_| device.stream().unwrap()).collect();
    let mut sums: Vec<_> = (0..STREAMS).map(|_| device.output().unwrap()).collect();
    for _ in 0..2 {
        for ((stream, buffer), sum) in streams.iter().zip(&buffers).zip(&mut sums) {
            // SAFETY: everything lives until the streams have been waited for, and nothing else writes.
            unsafe { reducer.on(stream).launch_into(op::Sum, buffer, sum, None) }.unwrap();
        }
    }
    streams.iter().for_each(|stream| stream.synchronize().unwrap());
    for (sum, values) in sums.iter().zip(&inputs) {
        assert_eq!(sum.read().unwrap(), i32::total(values, false));
    }
}

/// Results of rows fill another library's memory up to the last byte that was requested.
#[test]
fn row_results_are_written_to_foreign_memory() {
    let _checked = no_findings();
    let stream = device().stream().unwrap();
    let values = small::<u8>(600, 5);
    let buffer = device().upload(&values).unwrap();
    for rows in [1, 3] {
        let bytes = Outputs::<Located<u8>>::bytes_of(rows);
        assert_eq!(bytes, 16 * rows as u64);
        let memory = device().upload(&vec![0xee_u8; bytes as usize]).unwrap();
        let (address, owner) = (memory.as_device_ptr(), Arc::new(()));
        let made = |address| {
            // SAFETY: the memory stays alive, and is read after it was written.
            unsafe { Outputs::<Located<u8>>::from_raw_parts(device(), address, rows, owner.clone()) }
        };
        says(&made(address + 1).unwrap_err(), &["multiples of 8"]);
        let mut outputs = made(address).unwrap();
        reducer()
            .on(&stream)
            .reduce_into(op::ArgMax, buffer.rows(600 / rows).unwrap(), &mut outputs)
            .unwrap();
        let places = outputs.into_bytes();
        assert_eq!((places.as_device_ptr(), places.len() as u64), (address, bytes));
        assert_eq!(Arc::strong_count(&owner), 2);
        let words = places.cast::<u64>().unwrap().download().unwrap();
        for (row, elements) in values.chunks(600 / rows).enumerate() {
            let Located { value, index } = extreme(elements, true).unwrap();
            assert_eq!(words[2 * row..][..2], [index, u64::from(value)], "{rows} rows");
        }
    }
    // Results may be smaller than the words that kernels write elsewhere.
    assert_eq!(Outputs::<f32>::bytes_of(1), 4);
    let (floats, memory) =
        (device().upload(&[1.5_f32; 600]).unwrap(), device().upload(&[0xee_u8; 8]).unwrap());
    // SAFETY: the memory stays alive, and is read after it was written.
    let outputs = unsafe { Outputs::<f32>::from_raw_parts(device(), memory.as_device_ptr(), 1, ()) };
    let row = floats.rows(600).unwrap();
    reducer().on(&stream).reduce_into(op::Sum, row, &mut outputs.unwrap()).unwrap();
    stream.synchronize().unwrap();
    let bytes = memory.download().unwrap();
    assert_eq!((&bytes[..4], &bytes[4..]), (&900.0_f32.to_ne_bytes()[..], &[0xee; 4][..]));
}

#[test]
fn ordinal_of_finds_the_device_of_an_address() {
    let buffer = device().upload(&[1_u8; 5000]).unwrap();
    let ordinal = Some(device().info().ordinal);
    assert_eq!(device().ordinal_of(buffer.as_device_ptr()).unwrap(), ordinal);
    assert_eq!(device().ordinal_of(buffer.as_device_ptr() + 4999).unwrap(), ordinal);
    assert_eq!(device().ordinal_of(8).unwrap(), None);
}

#[test]
fn byte_buffers_cast_to_aligned_whole_elements() {
    let bytes = device().upload(&[0_u8, 1, 0, 0, 0, 2, 0, 0, 0]).unwrap();
    let words = bytes.slice(..8).unwrap().cast::<u32>().unwrap();
    assert_eq!(words.download().unwrap(), [0x100, 0x200]);
    assert_eq!(words.slice(1..).unwrap().cast::<u16>().unwrap().download().unwrap(), [0x200, 0]);
    assert_eq!(bytes.slice(..0).unwrap().cast::<f64>().unwrap().len(), 0);
    says(&bytes.cast::<u32>().unwrap_err(), &["9 bytes", "elements of 4", "give a slice"]);
    says(&bytes.slice(1..).unwrap().cast::<u32>().unwrap_err(), &["multiples of 4"]);
}

#[test]
fn calls_leave_the_context_of_their_thread_as_it_is() {
    let (driver, device) = (driver(), device());
    let context = Context::from_raw(device.as_raw_context().cast());
    let turn = || reducer().sum(&device.upload(&[1_u8, 2]).unwrap()).unwrap();
    assert_eq!((driver.ctx_get_current().unwrap(), turn()), (None, 3));
    assert_eq!(driver.ctx_get_current().unwrap(), None);
    // SAFETY: the device stays alive.
    unsafe { driver.ctx_push_current(context) }.unwrap();
    assert_eq!(turn(), 3);
    assert_eq!(driver.ctx_pop_current().unwrap(), context);
    assert_eq!(driver.ctx_get_current().unwrap(), None);
}

#[test]
fn foreign_streams_are_supported() {
    let _checked = no_findings();
    let theirs = device().stream().unwrap();
    // SAFETY: the stream belongs to this device, and its owner is kept.
    let ours = unsafe { warpfold::Stream::from_raw(device(), theirs.as_raw(), ()) };
    let values = small::<u8>(10_000, 4);
    let buffer = device().upload(&values).unwrap();
    let pending = reducer().on(&ours).reduce(op::Sum, &buffer).unwrap();
    drop(ours);
    theirs.synchronize().unwrap();
    assert!(pending.is_ready().unwrap());
    assert_eq!(pending.wait().unwrap(), u8::total(&values, false));
    // A null handle is the driver's default stream.
    // SAFETY: the default stream always exists.
    let default = unsafe { warpfold::Stream::from_raw(device(), std::ptr::null_mut(), ()) };
    let device = device().clone();
    assert_eq!(
        reducer()
            .on(&default)
            .reduce(op::Max, &device.upload(&values).unwrap())
            .unwrap()
            .wait()
            .unwrap(),
        Some(7)
    );
}
