//! Every call that reads pending results waits for them, even if nothing else makes them complete: the
//! simulator runs work as late as the interface allows, regardless of queries.

use warpfold::{
    Buffer, Element, Group, Recorded, Recorder, Segments,
    dlpack::{self, DataType, ManagedTensor},
    op,
};

use crate::common::{device, late, reducer, small};

/// Returns elements that a stream has still to write.
fn pending<T: Element>(values: &[T]) -> Buffer<T> {
    let (stream, buffer) = (device().stream().unwrap(), device().upload(values).unwrap());
    let mut written = device().outputs(values.len()).unwrap();
    reducer().on(&stream).reduce_into(op::Max, buffer.rows(1).unwrap(), &mut written).unwrap();
    written.into_buffer()
}

/// Creates a buffer: by a blocking call, or as [`pending`] does.
type Make<'m> = &'m dyn Fn(&[i32]) -> Buffer<i32>;

/// Replays a recording made from a buffer, and returns the printed result.
fn replayed<R>(record: impl FnOnce(&mut Recorder) -> warpfold::Result<Recorded<R>>) -> String
where
    R: std::fmt::Debug,
{
    let mut recorder = reducer().record();
    let recorded = record(&mut recorder).unwrap();
    let mut recording = recorder.finish().unwrap();
    let results = recording.run().unwrap();
    format!("{:?}", results.get(&recorded))
}

fn values() -> Vec<i32> {
    small(60, 5)
}

fn uploaded(values: &[i32]) -> Buffer<i32> {
    device().upload(values).unwrap()
}

fn offsets(make: Make<'_>) -> Buffer<u32> {
    make(&[0, 7, 7, 40, 58]).cast().unwrap()
}

fn keys(make: Make<'_>) -> Buffer<i32> {
    make(&(0..60).map(|at| at / 7).collect::<Vec<_>>())
}

fn segments(values: &Buffer<i32>, offsets: &Buffer<u32>) -> Segments<i32> {
    reducer().segments(values, offsets).unwrap()
}

type Call = (&'static str, fn(Make<'_>) -> String);

const CALLS: &[Call] = &[
    ("download", |make| format!("{:?}", make(&values()).download())),
    ("a slice", |make| format!("{:?}", make(&values()).slice(7..).unwrap().download())),
    ("sum", |make| format!("{:?}", reducer().sum(&make(&values())))),
    ("many", |make| format!("{:?}", reducer().reduce((op::Sum, op::ArgMax), &make(&values())))),
    ("rows", |make| format!("{:?}", reducer().reduce(op::Sum, &make(&values()).rows(6).unwrap()))),
    ("columns", |make| {
        let buffer = make(&values());
        format!("{:?}", reducer().reduce(op::Sum, buffer.columns(6).unwrap()))
    }),
    ("view", |make| {
        let buffer = make(&values());
        let view = buffer.view(&[3, 4, 5]).unwrap();
        format!("{:?}", reducer().reduce(op::Sum, view.along(&[0, 2]).unwrap()))
    }),
    ("segments", |make| {
        let segments = segments(&make(&values()), &offsets(&uploaded));
        format!("{:?}", reducer().reduce(op::Sum, &segments))
    }),
    ("offsets", |make| {
        let segments = segments(&uploaded(&values()), &offsets(make));
        format!("{:?}", reducer().reduce(op::Sum, &segments))
    }),
    ("the first of a pair", |make| {
        format!("{:?}", reducer().dot(&make(&values()), &uploaded(&values())))
    }),
    ("the second of a pair", |make| {
        format!("{:?}", reducer().dot(&uploaded(&values()), &make(&values())))
    }),
    ("within", |make| format!("{:?}", reducer().reduce(op::Sum, make(&values()).filter(-2..3)))),
    ("top-k", |make| format!("{:?}", reducer().reduce(op::Largest(3), &make(&values())))),
    ("top-k of rows", |make| {
        let buffer = make(&values());
        format!("{:?}", reducer().reduce(op::Largest(2), buffer.rows(6).unwrap()))
    }),
    ("runs", |make| {
        let runs = reducer().runs::<i32, u32>(&keys(make)).unwrap();
        format!("{:?} {:?}", runs.keys().download(), runs.offsets().download())
    }),
    ("keys", |make| {
        let found = reducer().reduce(op::Sum, uploaded(&values()).by_key(&keys(make))).unwrap();
        format!("{:?} {:?}", found.keys.download(), found.results.read())
    }),
    ("values of keys", |make| {
        let found = reducer().reduce(op::Sum, make(&values()).by_key(&keys(&uploaded))).unwrap();
        format!("{:?} {:?}", found.keys.download(), found.results.read())
    }),
    ("a piece", |make| {
        let mut running = reducer().running(op::Sum).unwrap();
        running.push(&device().stream().unwrap(), &make(&values())).unwrap();
        format!("{:?}", running.result())
    }),
    ("a group", |make| {
        let group = Group::new(std::slice::from_ref(reducer())).unwrap();
        let sharded = group.sharded(vec![make(&values())]).unwrap();
        format!("{:?}", group.reduce(op::Sum, &sharded))
    }),
    ("on a stream", |make| {
        let stream = device().stream().unwrap();
        let sum = reducer().on(&stream).reduce(op::Sum, &make(&values())).unwrap();
        format!("{:?}", sum.wait())
    }),
    ("a count", |make| {
        let (stream, mut ones) = (device().stream().unwrap(), device().output::<u64>().unwrap());
        let found: Buffer<u32> = make(&[1, 0, 1, 1]).cast().unwrap();
        reducer().on(&stream).reduce_into(op::Sum, &found, &mut ones).unwrap();
        let other = device().stream().unwrap();
        let sum =
            reducer().on(&other).reduce(op::Sum, uploaded(&values()).counted(&ones.as_count())).unwrap();
        format!("{:?}", sum.wait())
    }),
    ("a recorded sum", |make| replayed(|to| to.reduce(op::Sum, &make(&values())))),
    ("recorded rows", |make| {
        let buffer = make(&values());
        replayed(|to| to.reduce(op::Sum, buffer.rows(6).unwrap()))
    }),
    ("recorded segments", |make| {
        let segments = segments(&make(&values()), &offsets(&uploaded));
        replayed(|to| to.reduce(op::Sum, &segments))
    }),
    ("the first of a recorded pair", |make| {
        replayed(|to| to.reduce(op::Dot, (&make(&values()), &uploaded(&values()))))
    }),
    ("the second of a recorded pair", |make| {
        replayed(|to| to.reduce(op::Dot, (&uploaded(&values()), &make(&values()))))
    }),
    ("a recorded interval", |make| replayed(|to| to.reduce(op::Sum, make(&values()).filter(-2..3)))),
    ("a recorded top-k", |make| replayed(|to| to.reduce(op::Smallest(3), &make(&values())))),
    ("a tensor", |make| taken_at_once(make(&values()).into_dlpack::<ManagedTensor>())),
];

/// Reads a tensor's elements as another library does, without a wait.
fn taken_at_once(tensor: *mut ManagedTensor) -> String {
    // SAFETY: the tensor was made just now and has no other owner.
    unsafe {
        let dlpack::Tensor { dtype, .. } = (*tensor).dl_tensor;
        assert_eq!(dtype, DataType::of::<i32>());
        let theirs = Buffer::<i32>::from_dlpack(device(), tensor).unwrap();
        format!("{:?}", theirs.download())
    }
}

#[test]
fn every_call_waits_for_pending_writes_to_its_inputs() {
    let _late = late();
    for (what, call) in CALLS {
        assert_eq!(call(&|values| pending(values)), call(&uploaded), "{what}");
    }
}

#[test]
fn every_call_writes_after_pending_writes_to_its_outputs() {
    let _late = late();
    // One stream per input, so that waiting for one does not wait for the others.
    let streams = [(); 5].map(|()| device().stream().unwrap());
    let (mut free, nines) = (streams.iter(), device().upload(&[9; 60]).unwrap());
    let mut pending = || {
        let stream = free.next().unwrap();
        let mut outputs = device().outputs::<i32>(60).unwrap();
        reducer().on(stream).reduce_into(op::Max, nines.rows(1).unwrap(), &mut outputs).unwrap();
        outputs
    };
    let (keys, values) = (uploaded(&(0..60).collect::<Vec<_>>()), uploaded(&values()));
    let (mut of, mut largest) = (pending(), pending());
    reducer().reduce(op::Max, values.by_key(&keys).into_outputs(&mut of, &mut largest)).unwrap();
    let mut recorder = reducer().record();
    let recorded = recorder.reduce_into(op::Max, values.rows(1).unwrap(), pending()).unwrap();
    let mut recording = recorder.finish().unwrap();
    let results = recording.run().unwrap();
    let (other, mut again) = (device().stream().unwrap(), pending());
    reducer().on(&other).reduce_into(op::Max, values.rows(1).unwrap(), &mut again).unwrap();
    let mut least = pending();
    reducer().on(&other).reduce_into(op::Min, values.rows(1).unwrap(), &mut least).unwrap();
    other.synchronize().unwrap();
    streams.iter().for_each(|stream| stream.synchronize().unwrap());
    assert_eq!(of.read().unwrap(), keys.download().unwrap());
    for written in [&largest, results.outputs(&recorded), &again, &least] {
        assert_eq!(written.read().unwrap(), values.download().unwrap());
    }
}

#[cfg(feature = "simulator")]
#[test]
fn count_write_waits_for_a_reader_of_unknown_state() {
    use warpfold_driver::sys::CUDA_ERROR_INVALID_VALUE as code;
    use warpfold_sim_driver::{Fault, inject};

    if crate::common::on_gpu() {
        return;
    }
    let _late = late();
    let streams = [(); 4].map(|()| device().stream().unwrap());
    let [writes, reads, reads_too, writes_again] = &streams;
    let (values, mut count) = (uploaded(&[1; 10]), device().output::<u64>().unwrap());
    let ones = |n: usize| device().upload(&vec![1_u8; n]).unwrap();
    reducer().on(writes).reduce_into(op::Sum, &ones(7), &mut count).unwrap();
    let sum = |stream| reducer().on(stream).reduce(op::Sum, values.counted(&count.as_count())).unwrap();
    let first = sum(reads);
    let faults: Vec<_> = (1..100)
        .map(|call| inject(Fault { function: "cuEventQuery", call, code, sticky: false }))
        .collect();
    let second = sum(reads_too);
    assert!(faults[0].has_struck());
    drop(faults);
    reducer().on(writes_again).reduce_into(op::Sum, &ones(3), &mut count).unwrap();
    assert_eq!(count.read().unwrap(), 3);
    assert_eq!((first.wait().unwrap(), second.wait().unwrap()), (7, 7));
}

#[test]
fn piece_waits_for_the_previous_piece_on_another_stream() {
    let _late = late();
    let streams = [(); 4].map(|()| device().stream().unwrap());
    let buffer = uploaded(&values());
    for pieces in 2..=4 {
        let mut sum = reducer().running(op::Sum).unwrap();
        let pushed = streams.iter().zip(0..pieces).map(|(stream, at)| {
            sum.push(stream, &buffer.slice(at * 10..at * 10 + 10).unwrap()).unwrap();
        });
        assert_eq!(pushed.count(), pieces);
        let expected: i64 = values()[..pieces * 10].iter().map(|&value| i64::from(value)).sum();
        assert_eq!(sum.result().unwrap(), expected, "{pieces} pieces");
    }
}
