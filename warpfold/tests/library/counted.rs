//! Reductions with an element count in device memory.

use warpfold::{
    Buffer, Count, Error, Located, Output, Reducer, Stream,
    internal::{Choice, PtxSource, Tuning, reducer as reducer_with},
    op,
};

use crate::common::{Sample, device, extreme, no_findings, reducer, says, small};

pub(crate) fn count_of(n: u64) -> Count<'static> {
    let buffer = device().upload(&[n]).unwrap();
    // SAFETY: the count is an element of the buffer, which is its owner, and never changes.
    unsafe { Count::from_raw_u64(device(), buffer.as_device_ptr(), buffer.clone()) }.unwrap()
}

fn counts<T: Sample>(reducer: &Reducer, start: usize) {
    let stream = device().stream().unwrap();
    let values = small::<T>(5003, 7);
    let buffer = device().upload(&values).unwrap().slice(start..).unwrap();
    for n in [1, 2, 15, 16, 17, 100, 2048, 4097, buffer.len()] {
        let values = &values[start..start + n];
        let count = count_of(n as u64);
        let (on, counted) = (reducer.on(&stream), buffer.counted(&count));
        let what = format!("{n} {} from {start}", std::any::type_name::<T>());
        let (least, largest) = (extreme(values, false), extreme(values, true));
        assert_eq!(
            on.reduce(op::Sum, counted).unwrap().wait().unwrap(),
            T::total(values, false),
            "{what}"
        );
        let squares = on.reduce(op::SumOfSquares, counted).unwrap();
        assert_eq!(squares.wait().unwrap(), T::total(values, true), "{what}");
        let (min, max) = (on.reduce(op::Min, counted).unwrap(), on.reduce(op::Max, counted).unwrap());
        assert_eq!(min.wait().unwrap(), least.map(|one| one.value), "{what}");
        assert_eq!(max.wait().unwrap(), largest.map(|one| one.value), "{what}");
        let (first, last) =
            (on.reduce(op::ArgMin, counted).unwrap(), on.reduce(op::ArgMax, counted).unwrap());
        assert_eq!((first.wait().unwrap(), last.wait().unwrap()), (least, largest), "{what}");
    }
}

#[test]
fn element_count_is_read_from_device_memory() {
    let _checked = no_findings();
    for_every_type!(counts(reducer(), 0));
    for_every_type!(counts(reducer(), 3));
}

#[test]
fn any_grid_takes_a_count() {
    let grid = warpfold::internal::KernelKind::Grid;
    for (block, blocks) in [(128, 1), (1024, 1), (128, 7), (512, 3)] {
        let blocks = warpfold::internal::Blocks::Total(blocks);
        let tuning = Tuning::fixed(Choice { kernel: grid, block, blocks }).unwrap();
        let reducer = reducer_with(device(), PtxSource::from_environment(), tuning, 2);
        counts::<f32>(&reducer, 1);
        counts::<u8>(&reducer, 5);
    }
}

#[test]
fn a_count_may_have_32_bits() {
    let stream = device().stream().unwrap();
    let kept = device().upload(&[7_u32, 3, u32::MAX]).unwrap();
    let values = device().upload(&[1_i32, 10, 100, 1000, 10_000]).unwrap();
    // The bytes after the count are not part of it.
    let address = kept.as_device_ptr() + 4;
    // SAFETY: the count is an element of the buffer, which is its owner, and never changes.
    let count = unsafe { Count::from_raw_u32(device(), address, kept.clone()) }.unwrap();
    let sum = reducer().on(&stream).reduce(op::Sum, values.counted(&count)).unwrap();
    assert_eq!(sum.wait().unwrap(), 111);
    for (address, words) in
        [(0, ["0", "address"]), (kept.as_device_ptr() + 2, ["multiples of 4", "memory"])]
    {
        // SAFETY: the call is refused.
        let error = unsafe { Count::from_raw_u32(device(), address, ()) }.unwrap_err();
        says(&error, &words);
    }
}

fn none<T: Sample>(least: T, largest: T) {
    let stream = device().stream().unwrap();
    let buffer = device().upload(&small::<T>(3000, 2)).unwrap();
    let count = count_of(0);
    let (on, counted) = (reducer().on(&stream), buffer.counted(&count));
    assert_eq!(on.reduce(op::Sum, counted).unwrap().wait().unwrap(), T::total(&[], false));
    assert_eq!(on.reduce(op::Min, counted).unwrap().wait().unwrap(), None);
    assert_eq!(on.reduce(op::ArgMax, counted).unwrap().wait().unwrap(), None);
    let (mut min, mut max) = (device().output::<T>().unwrap(), device().output::<T>().unwrap());
    on.reduce_into(op::Min, counted, &mut min).unwrap();
    on.reduce_into(op::Max, counted, &mut max).unwrap();
    assert_eq!((min.read().unwrap(), max.read().unwrap()), (largest, least));
    let mut place = device().output::<Located<T>>().unwrap();
    on.reduce_into(op::ArgMin, counted, &mut place).unwrap();
    assert_eq!(place.read().unwrap(), Located { index: u64::MAX, value: largest });
    on.reduce_into(op::ArgMax, counted, &mut place).unwrap();
    assert_eq!(place.read().unwrap(), Located { index: u64::MAX, value: least });
}

#[test]
fn zero_count_gives_the_identity() {
    let _checked = no_findings();
    macro_rules! integers {
        ($($ty:ty)*) => { $(none(<$ty>::MIN, <$ty>::MAX);)* };
    }
    macro_rules! floats {
        ($($ty:ty)*) => { $(none(<$ty>::NEG_INFINITY, <$ty>::INFINITY);)* };
    }
    integers!(i8 u8 i16 u16 i32 u32 i64 u64);
    floats!(warpfold::f16 warpfold::bf16 f32 f64);
}

#[test]
fn count_above_length_is_an_error_without_out_of_bounds_reads() {
    let _checked = no_findings();
    let stream = device().stream().unwrap();
    let values = device().upload(&[1_i64, 2, 3, 1 << 40]).unwrap();
    let buffer = values.slice(..3).unwrap();
    for n in [4, u64::from(u32::MAX) + 1, u64::MAX] {
        let count = count_of(n);
        let (on, counted) = (reducer().on(&stream), buffer.counted(&count));
        let error = on.reduce(op::Sum, counted).unwrap().wait().unwrap_err();
        assert!(matches!(error, Error::CountTooLarge { count, len: 3 } if count == n), "{error:?}");
        says(&error, &[&n.to_string(), "3 elements"]);
        let mut output = device().output::<i64>().unwrap();
        on.reduce_into(op::Sum, counted, &mut output).unwrap();
        assert_eq!(output.read().unwrap(), 6);
    }
}

fn keep(reducer: &Reducer, stream: &Stream, n: usize, kept: &mut Output<u64>) {
    reducer.on(stream).reduce_into(op::Sum, &device().upload(&vec![1_u8; n]).unwrap(), kept).unwrap();
}

/// Streams wait for each other without the host, so a count is written before it is read.
#[test]
fn a_result_is_a_count_on_another_stream() {
    let _checked = no_findings();
    // Separate reducers, because querying pending work would run it.
    let reducers = [(); 2].map(|()| Reducer::new(device()).unwrap());
    let streams = [(); 2].map(|()| device().stream().unwrap());
    let buffer = device().upload(&[1_i64; 50_000]).unwrap();
    let mut kept = device().output::<u64>().unwrap();
    // Creates the workspace and loads the kernels beforehand, because both would query pending work.
    let ready =
        reducers[1].on(&streams[1]).reduce(op::Sum, buffer.counted(&count_of(1))).unwrap().wait();
    assert_eq!(ready.unwrap(), 1);
    keep(&reducers[0], &streams[0], 1234, &mut kept);
    let sum = reducers[1].on(&streams[1]).reduce(op::Sum, buffer.counted(&kept.as_count())).unwrap();
    assert_eq!(sum.wait().unwrap(), 1234);
}

#[test]
fn count_is_not_overwritten_before_its_readers_finish() {
    let _checked = no_findings();
    let reducer = Reducer::new(device()).unwrap();
    let writer = device().stream().unwrap();
    let buffer = device().upload(&[1_i64; 50_000]).unwrap();
    // Separate reducers with loaded kernels, because querying pending work would run it.
    let readers = [(); 2].map(|()| (Reducer::new(device()).unwrap(), device().stream().unwrap()));
    for (reducer, stream) in &readers {
        let ready = reducer.on(stream).reduce(op::Sum, buffer.counted(&count_of(1))).unwrap().wait();
        assert_eq!(ready.unwrap(), 1);
    }
    let mut kept = device().output::<u64>().unwrap();
    keep(&reducer, &writer, 1234, &mut kept);
    writer.synchronize().unwrap();
    let pending = readers.each_ref().map(|(reducer, stream)| {
        reducer.on(stream).reduce(op::Sum, buffer.counted(&kept.as_count())).unwrap()
    });
    keep(&reducer, &writer, 4321, &mut kept);
    writer.synchronize().unwrap();
    assert_eq!(pending.map(|pending| pending.wait().unwrap()), [1234; 2]);
    assert_eq!(kept.read().unwrap(), 4321);
}

#[test]
fn counts_and_elements_live_until_pending_work_finishes() {
    let _checked = no_findings();
    let stream = device().stream().unwrap();
    let buffer: Buffer<u32> = device().upload(&[5, 6, 7]).unwrap();
    let pending = {
        let count = count_of(2);
        reducer().on(&stream).reduce(op::WrappingSum, buffer.counted(&count)).unwrap()
    };
    drop((buffer, stream));
    assert_eq!(pending.wait().unwrap(), 11);
}

#[test]
fn the_same_count_gives_the_same_bits() {
    let stream = device().stream().unwrap();
    let values: Vec<f32> = small::<f32>(40_003, 9).iter().zip(1..).map(|(v, i)| v / i as f32).collect();
    let buffer = device().upload(&values).unwrap();
    let count = count_of(31_111);
    let sum = || {
        reducer().on(&stream).reduce(op::Sum, buffer.counted(&count)).unwrap().wait().unwrap().to_bits()
    };
    let first = sum();
    assert!((0..3).all(|_| sum() == first));
}
