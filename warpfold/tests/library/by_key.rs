//! Runs of equal keys, and reductions of values by key.

use std::fmt::Debug;

use warpfold::{Buffer, Error, Key, Offset, Outputs, Reducer, Stream, bf16, f16, op, op::RowsOperation};
use warpfold_abi::runs::tile_groups;

use crate::{
    common::{Sample, device, no_findings, reducer, says, small},
    segments::{Bounded, Pieces, check_operations, place},
};

fn sizes_of<K>() -> (usize, usize) {
    let group = 16 / size_of::<K>();
    (group, tile_groups(size_of::<K>() as u32) as usize * group)
}

/// Returns run lengths that cover how runs, vectors, tiles and blocks can overlap.
fn shapes<K>() -> Vec<(&'static str, Vec<usize>)> {
    let (group, tile) = sizes_of::<K>();
    vec![
        ("one key", vec![1]),
        ("one run", vec![group + 1]),
        ("one run over tiles", vec![2 * tile + 3]),
        ("all different", vec![1; tile + 7]),
        ("pairs", vec![2; group * 40]),
        ("a run of each group", vec![group; 50]),
        ("a run that ends with a tile", vec![tile, 3]),
        ("one that ends before it", vec![tile - 1, 1, 1, tile - 2, 5]),
        ("one that ends behind it", vec![tile + 1, tile - 1, 2, 1]),
        ("few keys each", (1..200).map(|at| at * 7 % 11 + 1).collect()),
        ("Zipf", (1..300).map(|at| tile / (at * 17 % 300 + 1) + 1).collect()),
        ("some, none and some", [vec![1; 100], vec![3 * tile], vec![1; 100], vec![9]].concat()),
    ]
}

/// Returns the keys of runs; adjacent ones differ in a single bit, and every bit is used.
fn keys_of_runs<K: Key>(runs: usize) -> Vec<K> {
    let bits = 8 * size_of::<K>();
    let words = (0..runs).scan(0_u64, |word, run| {
        *word ^= 1 << (run * 5 % bits);
        Some(*word)
    });
    words.map(|word| bytemuck::pod_read_unaligned(&word.to_le_bytes()[..size_of::<K>()])).collect()
}

/// Returns the start of each run of these lengths, and the end of the last one.
fn ends(lens: &[usize]) -> Vec<usize> {
    let ends = lens.iter().scan(0, |end, len| {
        *end += len;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

/// Returns keys of runs of the lengths `lens`, starting `start` keys past an aligned address. The keys
/// outside the buffer equal those at its ends.
fn keys_of<K: Key>(start: usize, lens: &[usize]) -> Buffer<K> {
    let of_runs = keys_of_runs::<K>(lens.len()).into_iter().zip(lens);
    let keys: Vec<K> = of_runs.flat_map(|(key, &len)| vec![key; len]).collect();
    let all = [vec![keys[0]; start], keys.clone(), vec![keys[keys.len() - 1]; 5]].concat();
    device().upload(&all).unwrap().slice(start..start + keys.len()).unwrap()
}

fn check_runs<K: Key>(start: usize) {
    for (shape, lens) in shapes::<K>() {
        let what = format!("{shape} of {} from {start}", std::any::type_name::<K>());
        let keys = keys_of::<K>(start, &lens);
        let runs = reducer().runs::<K, u32>(&keys).unwrap();
        assert_eq!((runs.len(), runs.is_empty()), (lens.len(), false), "{what}");
        assert!(runs.keys().download().unwrap() == keys_of_runs(lens.len()), "{what}");
        let offsets = runs.offsets().download().unwrap();
        assert!(offsets.iter().map(|&offset| offset as usize).eq(ends(&lens)), "{what}");
    }
}

#[test]
fn runs_of_keys_of_every_type_are_found() {
    let _checked = no_findings();
    check_runs::<u8>(0);
    check_runs::<i8>(3);
    check_runs::<u16>(7);
    check_runs::<i16>(0);
    check_runs::<u32>(0);
    check_runs::<i32>(1);
    check_runs::<u64>(1);
    check_runs::<i64>(0);
    check_runs::<[u8; 8]>(1);
    check_runs::<[u16; 2]>(3);
    check_runs::<[i32; 2]>(0);
}

/// Also where the type's own equality differs: 1 and 2 are both true.
#[test]
fn keys_are_compared_by_their_bytes() {
    let keys = device().upload(&[1_u8, 2, 2, 0]).unwrap().cast::<warpfold::Bool>().unwrap();
    let runs = reducer().runs::<_, u32>(&keys).unwrap();
    assert_eq!(runs.offsets().download().unwrap(), [0, 1, 3, 4]);
}

#[test]
fn keys_may_begin_and_end_anywhere() {
    let _checked = no_findings();
    for start in 0..16 {
        for len in 1..34 {
            let lens = [vec![1; len % 3], vec![len - len % 3; usize::from(len >= 3)]].concat();
            let runs = reducer().runs::<_, u32>(&keys_of::<u8>(start, &lens)).unwrap();
            let expected: Vec<u32> = ends(&lens).into_iter().map(|end| end as u32).collect();
            assert_eq!(runs.offsets().download().unwrap(), expected, "{len} keys from {start}");
        }
    }
}

/// There are more tiles than blocks, so each block has several. In some tiles one run begins, or none.
#[test]
fn runs_over_more_tiles_than_there_are_blocks_are_found() {
    let _checked = no_findings();
    let (_, tile) = sizes_of::<u64>();
    let blocks = device().info().multiprocessors as usize * 8;
    let (none, few) = (vec![tile * blocks], vec![tile * 2 / 3; 2 * blocks]);
    let lens = [vec![1; tile / 2], none, vec![3; tile], few].concat();
    let runs = reducer().runs::<u64, u32>(&keys_of(1, &lens)).unwrap();
    assert!(runs.keys().download().unwrap() == keys_of_runs(lens.len()));
    let offsets = runs.offsets().download().unwrap();
    assert!(offsets.iter().map(|&offset| offset as usize).eq(ends(&lens)));
}

fn of_offsets<I: Offset>(convert: impl Fn(usize) -> I) {
    let (_, lens) = shapes::<u16>().swap_remove(9);
    let runs = reducer().runs::<u16, I>(&keys_of(1, &lens)).unwrap();
    let expected: Vec<I> = ends(&lens).into_iter().map(convert).collect();
    assert_eq!(runs.offsets().download().unwrap(), expected);
    let none = reducer().runs::<u16, I>(&device().upload(&[]).unwrap()).unwrap();
    assert_eq!((none.len(), none.is_empty()), (0, true));
    assert_eq!(none.offsets().download().unwrap().len(), 1);
}

#[test]
fn offsets_of_runs_are_of_the_type_that_is_asked_for() {
    let _checked = no_findings();
    of_offsets(|offset| offset as u32);
    of_offsets(|offset| offset as i32);
    of_offsets(|offset| offset as u64);
    of_offsets(|offset| offset as i64);
}

struct Case<K, T> {
    lens: Vec<usize>,
    values: Vec<T>,
    keys: Buffer<K>,
    buffer: Buffer<T>,
}

impl<K: Key, T: Sample> Case<K, T> {
    fn new(lens: &[usize], values: Vec<T>) -> Self {
        let (keys, buffer) = (keys_of(1, lens), device().upload(&values).unwrap());
        Self { lens: lens.to_vec(), values, keys, buffer }
    }

    fn small(lens: &[usize]) -> Self {
        Self::new(lens, small(lens.iter().sum(), lens.len() as u64))
    }
}

impl<K: Key, T: Sample> Pieces<T> for Case<K, T> {
    fn expected<R>(&self, of: impl Fn(&[T]) -> R) -> Vec<R> {
        ends(&self.lens).windows(2).map(|ends| of(&self.values[ends[0]..ends[1]])).collect()
    }

    fn results<O: RowsOperation<T>>(&self, op: O) -> Vec<O::Left> {
        let found = reducer().reduce(op, self.buffer.by_key(&self.keys)).unwrap();
        assert_eq!((found.len(), found.is_empty()), (self.lens.len(), false));
        assert_eq!(found.keys.download().unwrap(), keys_of_runs(self.lens.len()));
        found.results.read().unwrap()
    }
}

fn check_type<T: Bounded>() {
    let what = std::any::type_name::<T>();
    for (shape, lens) in shapes::<u32>().into_iter().filter(|(_, lens)| lens.len() < 1000) {
        let case = Case::<u32, T>::small(&lens);
        case.check(op::Sum, &format!("{shape} of {what}"), |run| T::total(run, false));
    }
    let case = Case::<u8, T>::small(&[1; 50]);
    case.check(op::ArgMax, what, |run| place(run, true));
}

#[test]
fn values_of_every_type_are_reduced_by_key() {
    let _checked = no_findings();
    for_every_type!(check_type());
}

fn operations<K: Key, T: Bounded>() {
    let lens: Vec<usize> = (1..100).map(|at| at * 5 % 9 + 1).chain([700]).collect();
    check_operations(lens.iter().sum(), |values| Case::<K, T>::new(&lens, values));
}

#[test]
fn every_operation_has_its_result_of_every_run() {
    let _checked = no_findings();
    operations::<u64, i32>();
    operations::<i8, u8>();
    operations::<u16, i16>();
    operations::<u32, f32>();
    operations::<i16, bf16>();
    operations::<u8, f16>();
    operations::<i64, f64>();
    let case = Case::<u16, u32>::small(&[3, 1, 40]);
    case.check(op::BitAnd, "u32", |run| run.iter().fold(!0, |bits, one| bits & one));
    case.check(op::BitOr, "u32", |run| run.iter().fold(0, |bits, one| bits | one));
    case.check(op::BitXor, "u32", |run| run.iter().fold(0, |bits, one| bits ^ one));
    case.check(op::Sum.reproducible(), "u32", |run| u32::total(run, false));
}

/// Sums of the values are rounded.
#[test]
fn the_same_keys_and_values_give_the_same_bits() {
    let (_, lens) = shapes::<i32>().swap_remove(10);
    let thirds = small::<f32>(lens.iter().sum(), 3).into_iter().map(|value| value / 3.0).collect();
    let case = Case::<i32, f32>::new(&lens, thirds);
    let bits = || -> Vec<u32> { case.results(op::Sum).into_iter().map(f32::to_bits).collect() };
    assert_eq!(bits(), bits());
}

#[test]
fn no_keys_have_no_results_and_no_launch() {
    let (keys, values) = (device().upload::<i64>(&[]).unwrap(), device().upload::<f32>(&[]).unwrap());
    #[cfg(feature = "simulator")]
    let log = warpfold_sim_driver::record_calls();
    let found = reducer().reduce(op::Min, values.by_key(&keys)).unwrap();
    assert!(found.is_empty() && found.keys.download().unwrap().is_empty());
    assert!(found.results.read().unwrap().is_empty());
    let (mut of, mut results) = (device().outputs(0).unwrap(), device().outputs(0).unwrap());
    let into = reducer().reduce(op::Min, values.by_key(&keys).into_outputs(&mut of, &mut results));
    assert_eq!(into.unwrap(), 0);
    #[cfg(feature = "simulator")]
    assert_eq!(log.count("cuLaunchKernel"), 0);
}

/// Memory for keys and results that a stream has yet to fill. Each buffer is filled by its own reducer,
/// because a reducer that is used again queries its pending work, and the query runs it.
struct Filled {
    stream: Stream,
    makers: [Reducer; 2],
}

impl Filled {
    fn new() -> Self {
        let makers = [(); 2].map(|()| Reducer::new(device()).unwrap());
        Self { stream: device().stream().unwrap(), makers }
    }

    fn outputs(&self, lens: [usize; 2]) -> [Outputs<i64>; 2] {
        let fill = |at: usize| {
            let numbers = device().upload(&vec![77_i64; lens[at]]).unwrap();
            let mut outputs = device().outputs(lens[at]).unwrap();
            let on = self.makers[at].on(&self.stream);
            on.reduce_into(op::Sum, numbers.rows(1).unwrap(), &mut outputs).unwrap();
            outputs
        };
        [fill(0), fill(1)]
    }
}

/// Includes a single run, and runs of one value each, which have kernels of their own.
#[test]
fn runs_are_written_only_within_the_given_outputs() {
    let _checked = no_findings();
    let (_, few) = shapes::<i64>().swap_remove(9);
    let filled = Filled::new();
    for (lens, room) in [(&few, [0, 0]), (&few, [3, 0]), (&few, [0, 40])]
        .into_iter()
        .chain([(&vec![300], [9, 9]), (&vec![1; 300], [9, 9])])
    {
        let (runs, case) = (lens.len(), Case::<i64, i64>::small(lens));
        let [mut of, mut results] = filled.outputs(room.map(|more| runs + more));
        let into = reducer()
            .reduce(op::Sum, case.buffer.by_key(&case.keys).into_outputs(&mut of, &mut results));
        assert_eq!(into.unwrap(), runs);
        let (of, results) = (of.read().unwrap(), results.read().unwrap());
        assert_eq!(&of[..runs], keys_of_runs(runs));
        assert_eq!(&results[..runs], case.expected(|run| i64::total(run, false)));
        assert!(of[runs..].iter().chain(&results[runs..]).all(|&number| number == 77));
    }
}

#[track_caller]
fn refused<R: Debug>(result: Result<R, Error>, words: &[&str]) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Runs { .. }), "{error:?}");
    assert_eq!(error.to_string().lines().count(), 1);
    says(&error, words);
}

#[test]
fn too_small_outputs_are_rejected_with_the_run_count() {
    let _checked = no_findings();
    let (case, filled) = (Case::<i64, i64>::small(&[3, 1, 40, 2]), Filled::new());
    for (keys, results) in [(3, 4), (4, 3), (0, 0), (1, 100)] {
        let [mut of, mut left] = filled.outputs([keys, results]);
        let into =
            reducer().reduce(op::Sum, case.buffer.by_key(&case.keys).into_outputs(&mut of, &mut left));
        let room = format!("{keys} keys and {results} results");
        refused(into, &["4 runs", &room, "make outputs for 4"]);
        assert_eq!(of.read().unwrap(), vec![77; keys]);
        assert_eq!(left.read().unwrap(), vec![77; results]);
    }
}

#[test]
fn unequal_key_and_value_counts_are_rejected_before_launch() {
    let (keys, values) = (device().upload(&[1_u8; 5]).unwrap(), device().upload(&[1.0_f32; 4]).unwrap());
    let (mut of, mut results) = (device().outputs(5).unwrap(), device().outputs(5).unwrap());
    #[cfg(feature = "simulator")]
    let log = warpfold_sim_driver::record_calls();
    let words = ["5 keys", "4 values", "a key for each"];
    refused(reducer().reduce(op::Sum, values.by_key(&keys)), &words);
    refused(reducer().reduce(op::Sum, values.by_key(&keys).into_outputs(&mut of, &mut results)), &words);
    // SAFETY: the calls are refused before they read anything.
    let many = |n| unsafe { Buffer::<u8>::from_raw_parts(device(), 0x1000, n, ()) }.unwrap();
    refused(reducer().runs::<_, i32>(&many(1 << 31)), &["2147483648 keys", "2147483647", "u64"]);
    let error = reducer().runs::<_, u64>(&many((1 << 35) + 1)).unwrap_err();
    assert!(matches!(error, Error::TooManyElements { .. }), "{error:?}");
    let error = reducer().reduce(op::Sum, many((1 << 35) + 1).by_key(&many((1 << 35) + 1))).unwrap_err();
    assert!(matches!(error, Error::TooManyElements { .. }), "{error:?}");
    #[cfg(feature = "simulator")]
    assert_eq!(log.count("cuLaunchKernel"), 0);
    assert_eq!((of.read().unwrap(), results.read().unwrap()), (vec![0; 5], vec![0.0; 5]));
}

#[test]
fn pending_results_can_be_keys_and_values() {
    let _checked = no_findings();
    let stream = device().stream().unwrap();
    let matrix = device().upload(&[1_i64, 1, 2, 0, 3, 3, 4, 2]).unwrap();
    // Separate reducers, because querying pending work would run it.
    let makers = [(); 2].map(|()| Reducer::new(device()).unwrap());
    let [keys, values] = makers.each_ref().map(|maker| {
        let mut sums = device().outputs::<i64>(4).unwrap();
        maker.on(&stream).reduce_into(op::Sum, matrix.rows(2).unwrap(), &mut sums).unwrap();
        sums.into_buffer()
    });
    let found = reducer().reduce(op::Sum, values.by_key(&keys)).unwrap();
    assert_eq!(found.keys.download().unwrap(), [2, 6]);
    let results = found.results.into_buffer();
    assert_eq!(reducer().on(&stream).reduce(op::Max, &results).unwrap().wait().unwrap(), Some(12));
    let again = reducer().reduce(op::Max, results.by_key(&found.keys)).unwrap();
    assert_eq!(again.results.read().unwrap(), [4, 12]);
}

/// Covers adjacent writes of different blocks, and of the threads of one block.
#[test]
#[cfg(feature = "simulator")]
fn no_launch_has_a_hazard() {
    let (device, watch) = crate::results::watched();
    let reducer = Reducer::new(&device).unwrap();
    let (group, tile) = sizes_of::<u32>();
    let lens = [vec![1; 2 * tile], vec![group; 50], vec![3 * tile], vec![2; 40]].concat();
    let words = keys_of_runs::<u32>(lens.len()).into_iter().zip(&lens);
    let keys: Vec<u32> = words.flat_map(|(key, &len)| vec![key; len]).collect();
    let values = small::<i32>(keys.len(), 1);
    let (keys, buffer) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
    let found = reducer.reduce(op::Sum, buffer.by_key(&keys)).unwrap();
    assert_eq!(found.results.read().unwrap().iter().sum::<i64>(), i32::total(&values, false));
    assert_eq!(found.keys.download().unwrap().len(), lens.len());
    assert_eq!(watch.hazards.findings().len(), 0, "{:?}", watch.hazards.findings());
}

#[test]
fn runs_are_prepared_for_all_keys_of_a_size() {
    let reducer = Reducer::new(device()).unwrap();
    let (values, keys) = (device().upload(&[0_u8; 3]).unwrap(), device().upload(&[0_i16; 3]).unwrap());
    reducer.prepare(op::Sum, values.by_key(&keys)).unwrap();
    #[cfg(feature = "simulator")]
    {
        let log = warpfold_sim_driver::record_calls();
        let case = Case::<u16, u8>::small(&[3, 4]);
        let found = reducer.reduce(op::Sum, case.buffer.by_key(&case.keys)).unwrap();
        assert_eq!(found.results.read().unwrap(), case.expected(|run| u8::total(run, false)));
        assert_eq!(log.count("cuModuleLoadDataEx"), 0);
    }
}

#[test]
#[cfg(feature = "simulator")]
fn arguments_of_another_device_are_refused() {
    let other = crate::devices::in_own_context(warpfold_sim_driver::driver());
    let [here, there] = [device(), &other].map(|device| device.upload(&[1, 1, 2]).unwrap());
    let is_other = |error: Error, expected: &str| {
        assert!(matches!(error, Error::OtherDevice { what, .. } if what == expected), "{error:?}");
    };
    is_other(reducer().runs::<_, u32>(&there).unwrap_err(), "keys");
    is_other(reducer().reduce(op::Sum, here.by_key(&there)).unwrap_err(), "keys");
    is_other(reducer().reduce(op::Sum, there.by_key(&here)).unwrap_err(), "buffer");
    for [of, results] in [[&other, device()], [device(), &other]] {
        let (mut of, mut results) = (of.outputs(2).unwrap(), results.outputs(2).unwrap());
        let into = reducer().reduce(op::Max, here.by_key(&here).into_outputs(&mut of, &mut results));
        is_other(into.unwrap_err(), "outputs");
        assert_eq!((of.read().unwrap(), results.read().unwrap()), (vec![0; 2], vec![0; 2]));
    }
}
