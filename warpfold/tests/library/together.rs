//! Several operations on the same elements: the results of each one alone, in the documented number of
//! launches.

use std::mem;

use warpfold::{
    Bool, Buffer, Element, Ends, Error, Float, Located, Plain, Reducer, Rows, Spread, bf16, cpu, f16,
    op::{self, Description, Operation, Operations, RowsOperation},
};

use crate::{
    common::{Sample, device, no_findings, reducer, says, small},
    counted::count_of,
    devices::own_context,
};

trait Bits {
    fn bits(&self) -> Vec<u8>;
}

macro_rules! bits {
    ($($ty:ty)*) => {$(
        impl Bits for $ty {
            fn bits(&self) -> Vec<u8> {
                bytemuck::bytes_of(self).to_vec()
            }
        }
    )*};
}

bits!(i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64);

impl<T: Bits> Bits for Ends<T> {
    fn bits(&self) -> Vec<u8> {
        [self.min.bits(), self.max.bits()].concat()
    }
}

impl<T: Bits> Bits for Located<T> {
    fn bits(&self) -> Vec<u8> {
        [self.index.bits(), self.value.bits()].concat()
    }
}

/// The bits after rounding: alone and in a tuple, the moments of floats are added in different orders.
/// The sign of a NaN that arithmetic returns differs between devices.
impl Bits for Spread {
    fn bits(&self) -> Vec<u8> {
        let rounded = |moment: f64| match moment {
            _ if moment.is_nan() => f32::NAN,
            // The elements are small integers, whose sum may be 0.
            _ if moment.abs() < 1e-12 => 0.0,
            _ => moment as f32,
        };
        [self.mean, self.variance].map(|moment| rounded(moment).bits()).concat()
    }
}

impl<R: Bits> Bits for Option<R> {
    fn bits(&self) -> Vec<u8> {
        self.as_ref().map_or(vec![], |result| [vec![1], result.bits()].concat())
    }
}

/// Tuples of operations whose results can be compared with those of each operation alone.
trait Together<T: Plain>: Operations<T> {
    fn alone(self, values: &Buffer<T>) -> Vec<Vec<u8>>;
    fn bits(results: Self::Output) -> Vec<Vec<u8>>;
}

macro_rules! together {
    ($(($($O:ident $at:tt),*);)*) => {$(
        impl<T: Plain, $($O: Operation<T, Output: Bits>),*> Together<T> for ($($O,)*) {
            fn alone(self, values: &Buffer<T>) -> Vec<Vec<u8>> {
                vec![$(reducer().reduce(self.$at, values).unwrap().bits()),*]
            }

            fn bits(results: Self::Output) -> Vec<Vec<u8>> {
                vec![$(results.$at.bits()),*]
            }
        }
    )*};
}

together! {
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
}

/// Tuples whose results of rows can be compared with those of each operation alone.
trait TogetherOnRows<T: Plain>: Operations<T> {
    fn alone(self, rows: Rows<'_, T>) -> Vec<Vec<Vec<u8>>>;
    fn bits(results: Self::Rows) -> Vec<Vec<Vec<u8>>>;
}

fn each_bits<R: Bits>(results: &[R]) -> Vec<Vec<u8>> {
    results.iter().map(Bits::bits).collect()
}

macro_rules! together_on_rows {
    ($(($($O:ident $at:tt),*);)*) => {$(
        impl<T: Plain, $($O: RowsOperation<T, Left: Bits>),*> TogetherOnRows<T> for ($($O,)*) {
            fn alone(self, rows: Rows<'_, T>) -> Vec<Vec<Vec<u8>>> {
                vec![$(each_bits(&reducer().reduce(self.$at, rows).unwrap())),*]
            }

            fn bits(results: Self::Rows) -> Vec<Vec<Vec<u8>>> {
                vec![$(each_bits(&results.$at)),*]
            }
        }
    )*};
}

together_on_rows! {
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
}

#[track_caller]
fn check_rows<T: Plain, O: TogetherOnRows<T>>(ops: O, rows: Rows<'_, T>) {
    let what = format!("{} of {rows:?}", std::any::type_name::<O>());
    let expected = ops.alone(rows);
    assert_eq!(O::bits(reducer().reduce(ops, rows).unwrap()), expected, "{what}");
    let stream = device().stream().unwrap();
    let pending = reducer().on(&stream).reduce(ops, rows).unwrap();
    assert_eq!(O::bits(pending.wait().unwrap()), expected, "{what} on a stream");
    let mut recorder = reducer().record();
    let recorded = recorder.reduce(ops, rows).unwrap();
    let mut recording = recorder.finish().unwrap();
    assert_eq!(O::bits(recording.run().unwrap().get(&recorded)), expected, "{what}, recorded");
}

#[track_caller]
fn check<T: Plain, O: Together<T>>(ops: O, values: &Buffer<T>) {
    let (what, expected) = (std::any::type_name::<O>(), ops.alone(values));
    let what = format!("{what} of {values:?}");
    assert_eq!(O::bits(reducer().reduce(ops, values).unwrap()), expected, "{what}");
    let stream = device().stream().unwrap();
    let pending = reducer().on(&stream).reduce(ops, values).unwrap();
    assert_eq!(O::bits(pending.wait().unwrap()), expected, "{what} on a stream");
    let mut recorder = reducer().record();
    let recorded = recorder.reduce(ops, values).unwrap();
    let mut recording = recorder.finish().unwrap();
    assert_eq!(O::bits(recording.run().unwrap().get(&recorded)), expected, "{what}, recorded");
}

fn of_every_type<T: Sample + Bits>()
where
    T::Sum: Bits,
{
    let values = small::<T>(1003, 8);
    for range in [0..1003, 1..2, 5..5] {
        let buffer = device().upload(&values).unwrap().slice(range).unwrap();
        check((op::Sum, op::Min, op::Max), &buffer);
        check((op::Max, op::ArgMin, op::Min, op::CountNonZero), &buffer);
    }
}

#[test]
fn results_are_those_of_each_operation_alone() {
    let _checked = no_findings();
    for_every_type!(of_every_type());
}

#[test]
fn two_to_six_operations_in_any_order() {
    let buffer = device().upload(&small::<i32>(1003, 8)).unwrap();
    check((op::ArgMax, op::Max), &buffer);
    check((op::Max, op::Min), &buffer);
    check((op::Max, op::MinMax, op::Sum, op::Max), &buffer);
    check((op::Min, op::ArgMin, op::Max, op::ArgMax, op::MinMax), &buffer);
    check((op::Sum, op::Max, op::Sum, op::WrappingSum, op::Min, op::Sum.reproducible()), &buffer);
    let buffer = device().upload(&small::<f32>(1003, 8)).unwrap();
    check((op::MeanAndVariance, op::LogSumExp, op::Sum.reproducible(), op::Sum), &buffer);
}

/// Cases in which an extreme's place does not determine its bits: −0 and +0, and NaN with a payload.
#[test]
fn extremes_of_floats_have_the_bits_that_they_have_alone() {
    fn of<T: Element + Bits>(values: &[&[T]]) {
        for values in values {
            let buffer = device().upload(values).unwrap();
            check((op::ArgMin, op::Min, op::ArgMax, op::Max), &buffer);
            check((op::Max, op::Min), &buffer);
            check((op::Max, op::MinMax), &buffer);
            check((op::Max.skip_nan(), op::Max, op::Min.skip_nan(), op::Min), &buffer);
            check((op::Max.skip_nan(), op::MinMax.skip_nan(), op::MinMax), &buffer);
            let rows = device().upload(&values.repeat(3)).unwrap();
            let rows = rows.rows(values.len()).unwrap();
            check_rows((op::ArgMin, op::Min, op::ArgMax, op::Max), rows);
            check_rows((op::Max.skip_nan(), op::Max, op::Min.skip_nan(), op::Min), rows);
        }
    }
    let [nan, other] = [0x7fc0_1234, 0xffc0_4321].map(f32::from_bits);
    of(&[&[0.0, -0.0], &[-0.0, 0.0, -0.0, 0.0, 0.0], &[1.0, nan, other, 2.0, 3.0], &[nan]]);
    let nan = f64::from_bits(0x7ff8_0000_0000_1234);
    of(&[&[0.0, -0.0], &[-0.0, 0.0, -0.0], &[1.0, nan, 2.0], &[nan]]);
    let (zero, nan) = (f16::from_f32(-0.0), f16::from_bits(0x7e34));
    of(&[&[f16::ZERO, zero], &[zero, f16::ZERO, zero], &[f16::ONE, nan], &[nan]]);
    let (zero, nan) = (bf16::from_f32(-0.0), bf16::from_bits(0xffc1));
    of(&[&[bf16::ZERO, zero], &[zero, bf16::ZERO, zero], &[bf16::ONE, nan], &[nan]]);
}

/// Each operation that has a part of a fused kernel, with others before and after it.
#[test]
fn every_operation_of_a_fused_kernel() {
    fn of<T: Sample + Bits>(n: usize)
    where
        T::Sum: Bits,
    {
        let values = small::<T>(n, 8);
        let buffer = device().upload(&values).unwrap();
        for first in [0, 1, 3] {
            let buffer = buffer.slice(first.min(n - 1)..).unwrap();
            check((op::Sum, op::SumOfSquares, op::SumOfMagnitudes, op::Product), &buffer);
            check((op::Mean, op::L2Norm, op::L1Norm, op::CountNonZero, op::MaxNorm), &buffer);
            check((op::MeanAndVariance, op::ArgMin, op::Min, op::ArgMax, op::Sum, op::Mean), &buffer);
        }
    }
    fn of_floats<T: Sample + Float + Bits>(n: usize, nan: T)
    where
        T::Sum: Bits,
    {
        let mut values = small::<T>(n, 8);
        for is_number in [true, false] {
            let buffer = device().upload(&values).unwrap();
            check((op::CountNan, op::Sum.skip_nan(), op::SumOfSquares.skip_nan()), &buffer);
            check((op::Product.skip_nan(), op::MinMax.skip_nan(), op::L2Norm.skip_nan()), &buffer);
            // The partial results of most words.
            let spreads = (op::MeanAndVariance, op::MeanAndVariance.skip_nan());
            let ends = (op::ArgMin.skip_nan(), op::ArgMax.skip_nan(), op::ArgMin, op::ArgMax);
            check((spreads.0, ends.0, ends.1, spreads.1, ends.2, ends.3), &buffer);
            check((op::SumOfMagnitudes.skip_nan(), op::Max, op::Max.skip_nan(), op::Mean), &buffer);
            if is_number {
                values.iter_mut().step_by(7).for_each(|value| *value = nan);
            }
        }
    }
    let _checked = no_findings();
    // Around a vector, a warp and a block, and several blocks.
    for n in [1, 5, 31, 33, 511, 513, 1003, 40_000] {
        for_every_type!(of(n));
        of_floats(n, f16::NAN);
        of_floats(n, bf16::NAN);
        of_floats(n, f32::NAN);
        of_floats(n, f64::NAN);
    }
}

/// Number and length of rows, for each launch: of several rows of a warp, of a block per row, and of
/// several blocks per row.
const ROWS: [(usize, usize); 21] = [
    (0, 5),
    (1, 1),
    (70, 1),
    (1, 5),
    (2, 5),
    (33, 5),
    (100, 8),
    (2, 31),
    (33, 31),
    (40, 32),
    (3, 33),
    (33, 33),
    (20, 128),
    (9, 257),
    (12, 512),
    (3, 1000),
    (40, 1000),
    (5, 1024),
    (1, 5000),
    (3, 5000),
    (2, 40_001),
];

fn rows_of_every_type<T: Sample + Bits>()
where
    T::Sum: Bits,
{
    for ((count, len), first) in ROWS.into_iter().flat_map(|shape| [(shape, 0), (shape, 1)]) {
        let values = device().upload(&small::<T>(count * len + first, len as u64)).unwrap();
        let buffer = values.slice(first..).unwrap();
        let rows = buffer.rows(len).unwrap();
        check_rows((op::Sum, op::Min, op::Max), rows);
        check_rows((op::MeanAndVariance, op::Min, op::Max, op::CountNonZero), rows);
        check_rows((op::ArgMin, op::ArgMax), rows);
    }
}

#[test]
fn results_of_rows_are_those_of_each_operation_alone() {
    let _checked = no_findings();
    for_every_type!(rows_of_every_type());
}

/// Each operation that has a part of a fused kernel, and others, which take a launch of their own.
#[test]
fn every_operation_of_a_fused_kernel_on_rows() {
    fn of<T: Sample + Bits>(count: usize, len: usize)
    where
        T::Sum: Bits,
    {
        let buffer = device().upload(&small::<T>(count * len, 8)).unwrap();
        let rows = buffer.rows(len).unwrap();
        check_rows((op::Sum, op::SumOfSquares, op::SumOfMagnitudes, op::Product), rows);
        check_rows((op::Mean, op::L2Norm, op::CountNonZero, op::MaxNorm), rows);
        check_rows((op::HarmonicMean, op::ArgMin, op::Min, op::ArgMax, op::Sum, op::Mean), rows);
    }
    fn of_floats<T: Sample + Float + Bits>(count: usize, len: usize, nan: T)
    where
        T::Sum: Bits,
    {
        let mut values = small::<T>(count * len, 8);
        values.iter_mut().step_by(7).for_each(|value| *value = nan);
        let buffer = device().upload(&values).unwrap();
        let rows = buffer.rows(len).unwrap();
        check_rows((op::CountNan, op::Sum.skip_nan(), op::SumOfSquares.skip_nan()), rows);
        check_rows((op::Product.skip_nan(), op::MinMax.skip_nan(), op::L2Norm.skip_nan()), rows);
        // The partial results of most words.
        let spreads = (op::MeanAndVariance, op::MeanAndVariance.skip_nan());
        let ends = (op::ArgMin.skip_nan(), op::ArgMax.skip_nan(), op::ArgMin, op::ArgMax);
        check_rows((spreads.0, ends.0, ends.1, spreads.1, ends.2, ends.3), rows);
        check_rows((op::SumOfMagnitudes.skip_nan(), op::Max, op::Max.skip_nan(), op::Mean), rows);
        check_rows((op::Sum.reproducible(), op::Sum, op::LogSumExp, op::Max), rows);
    }
    let _checked = no_findings();
    // Products are exact or infinite.
    for (count, len) in [(9, 1), (5, 7), (3, 101), (3, 1003), (2, 20_000)] {
        for_every_type!(of(count, len));
        of_floats(count, len, f16::NAN);
        of_floats(count, len, bf16::NAN);
        of_floats(count, len, f32::NAN);
        of_floats(count, len, f64::NAN);
    }
}

/// 300,000 rows, more than all threads of a launch in the simulator have, so that a warp takes several
/// batches of rows.
#[test]
fn every_one_of_many_rows_of_a_tuple_has_its_results() {
    let _checked = no_findings();
    let values = device().upload(&small::<i8>(600_003, 1)).unwrap();
    check_rows((op::Sum, op::ArgMax), values.slice(3..).unwrap().rows(2).unwrap());
}

#[test]
fn descriptions_of_rows() {
    let _checked = no_findings();
    let buffer = device().upload(&[1.5_f64, f64::NAN, -2.5, f64::NAN, f64::NAN, f64::NAN]).unwrap();
    let found = reducer().reduce(op::Describe, buffer.rows(3).unwrap()).unwrap();
    let of_row = |row: usize| {
        let row = buffer.slice(3 * row..3 * row + 3).unwrap();
        reducer().reduce(op::Describe, &row).unwrap()
    };
    assert_eq!(found[0], of_row(0));
    assert_eq!((found[1].count, found[1].nan_count, found[1].min), (0, 3, None));
    assert!(found[1].mean.is_nan() && found.len() == 2);
    let none = buffer.slice(..0).unwrap();
    assert!(reducer().reduce(op::Describe, none.rows(3).unwrap()).unwrap().is_empty());
    let rows = device().upload(&[3_i8, -7, 5, 3]).unwrap();
    let rows = rows.rows(2).unwrap();
    let ops = (op::WrappingSum, op::MaxNorm, op::L1Norm);
    let ends = vec![Ends { min: -7, max: 3 }, Ends { min: 3, max: 5 }];
    assert_eq!(reducer().reduce(ops, rows).unwrap(), (vec![-4, 8], ends, vec![10, 8]));
}

#[test]
fn a_description_of_the_elements() {
    let _checked = no_findings();
    let integers = device().upload(&[3_i8, -7, 5, 3]).unwrap();
    let (mean, variance) = (1.0, 22.0);
    let expected = Description { count: 4, nan_count: 0, mean, variance, min: Some(-7), max: Some(5) };
    assert_eq!(reducer().reduce(op::Describe, &integers).unwrap(), expected);
    let floats = device().upload(&[1.5_f64, f64::NAN, -2.5, f64::NAN, 4.0]).unwrap();
    let found = reducer().reduce(op::Describe, &floats).unwrap();
    assert_eq!(cpu::describe(&[3_i8, -7, 5, 3]).unwrap(), expected);
    let on_cpu = cpu::describe(&[1.5_f64, f64::NAN, -2.5, f64::NAN, 4.0]).unwrap();
    assert_eq!((on_cpu.count, on_cpu.nan_count, on_cpu.mean), (3, 2, 1.0));
    assert_eq!((on_cpu.min, on_cpu.max), (found.min, found.max));
    assert_eq!(cpu::describe::<f32>(&[]).unwrap().count, 0);
    let rows = [3_i8, -7, 5, 3].map(|element| cpu::describe(&[element]).unwrap());
    assert_eq!(cpu::describe_rows(&[3_i8, -7, 5, 3], 1).unwrap(), rows);
    let halves = [[1.5_f64, f64::NAN], [-2.5, 4.0]];
    let rows = halves.map(|row| cpu::describe(&row).unwrap());
    assert_eq!(cpu::describe_rows(halves.as_flattened(), 2).unwrap(), rows);
    assert!(cpu::describe_rows::<f32>(&[], 3).unwrap().is_empty());
    for len in [0, 3] {
        let refused = cpu::describe_rows(halves.as_flattened(), len);
        assert!(matches!(refused, Err(Error::Rows { .. })), "{refused:?}");
    }
    assert_eq!((found.count, found.nan_count, found.mean), (3, 2, 1.0));
    assert_eq!((found.variance, found.min, found.max), (7.166_666_666_666_667, Some(-2.5), Some(4.0)));
    let stream = device().stream().unwrap();
    assert_eq!(reducer().on(&stream).reduce(op::Describe, &floats).unwrap().wait().unwrap(), found);
    // Launches of one recording that use the same slots for values of different sizes.
    let mut recorder = reducer().record();
    let many = device().upload(&small::<f64>(40_000, 2)).unwrap();
    let sums = recorder.reduce((op::Sum, op::Max), &many).unwrap();
    let recorded = recorder.reduce(op::Describe, &floats).unwrap();
    let spreads = recorder.reduce((op::MeanAndVariance, op::ArgMax, op::L2Norm), &many).unwrap();
    let of_none = recorder.reduce(op::Describe, &floats.slice(0..0).unwrap()).unwrap();
    let mut recording = recorder.finish().unwrap();
    let results = recording.run().unwrap();
    assert_eq!(results.get(&recorded), found);
    assert_eq!(results.get(&of_none).count, 0);
    let place = reducer().reduce(op::ArgMax, &many).unwrap();
    assert_eq!(results.get(&sums), (reducer().sum(&many).unwrap(), Some(7.0)));
    assert_eq!(results.get(&spreads).1, place);
    let count = count_of(2);
    let counted = reducer().reduce(op::Describe, floats.counted(&count)).unwrap();
    assert_eq!((counted.count, counted.nan_count, counted.min), (1, 1, Some(1.5)));
    let count = count_of(0);
    assert_eq!(reducer().reduce(op::Describe, floats.counted(&count)).unwrap().count, 0);
    let truths = device().upload(&[Bool::TRUE, Bool::from(false), Bool::TRUE]).unwrap();
    let truths = reducer().reduce(op::Describe, &truths).unwrap();
    assert_eq!((truths.count, truths.mean, truths.max), (3, 2.0 / 3.0, Some(Bool::TRUE)));
    let infinite = device().upload(&[f32::INFINITY, -0.0, f32::NEG_INFINITY]).unwrap();
    let infinite = reducer().reduce(op::Describe, &infinite).unwrap();
    assert_eq!((infinite.min, infinite.max), (Some(f32::NEG_INFINITY), Some(f32::INFINITY)));
    assert!(infinite.mean.is_nan() && infinite.variance.is_nan());
    for (slice, nan_count) in [(1..2, 1), (0..0, 0)] {
        let none = reducer().reduce(op::Describe, &floats.slice(slice).unwrap()).unwrap();
        assert_eq!((none.count, none.nan_count, none.min, none.max), (0, nan_count, None, None));
        assert!(none.mean.is_nan() && none.variance.is_nan());
    }
}

#[cfg(feature = "simulator")]
mod launches {
    use super::*;
    use crate::devices::in_own_context;

    fn counted(run: impl FnOnce()) -> (u64, u64) {
        let log = warpfold_sim_driver::record_calls();
        run();
        let launches = log.count("cuLaunchKernel") + log.count("cuLaunchKernelEx");
        (launches, log.count("cuStreamSynchronize") + log.count("cuEventSynchronize"))
    }

    /// Checks that all results are polled for, without a wait.
    fn check<T: Plain>(reducer: &Reducer, ops: impl Operations<T>, values: &Buffer<T>, launches: u64) {
        let what = std::any::type_name_of_val(&ops);
        let stream = values.device().stream().unwrap();
        // Fills the caches.
        reducer.reduce(ops, values).unwrap();
        let waiting = counted(|| drop(reducer.reduce(ops, values).unwrap()));
        assert_eq!(waiting, (launches, 0), "{what}");
        let mut pending = None;
        let enqueued = counted(|| pending = Some(reducer.on(&stream).reduce(ops, values).unwrap()));
        assert_eq!(enqueued, (launches, 0), "{what} on a stream");
        let waited = counted(|| drop(pending.take().expect("it is there").wait().unwrap()));
        assert_eq!(waited, (0, 0), "{what} on a stream");
    }

    #[test]
    fn tuples_use_the_documented_number_of_launches() {
        let device = in_own_context(warpfold_sim_driver::driver());
        let reducer = Reducer::new(&device).unwrap();
        let integers = &device.upload(&[3_i32, -7, 5, 5]).unwrap();
        let floats = &device.upload(&[3.0_f32, -7.5, 5.0]).unwrap();
        check(&reducer, (op::Sum, op::Min), integers, 1);
        check(&reducer, (op::Sum, op::Min, op::Max), integers, 1);
        check(&reducer, (op::Max, op::Sum, op::Min), floats, 1);
        let unsigned = &device.upload(&[3_u16, 5]).unwrap();
        check(&reducer, (op::L1Norm, op::Sum, op::SumOfMagnitudes), unsigned, 1);
        check(&reducer, op::Describe, integers, 1);
        check(&reducer, op::Describe, floats, 1);
        check(&reducer, (op::Sum, op::Sum), floats, 1);
        check(&reducer, (op::Sum, op::WrappingSum), integers, 1);
        check(&reducer, (op::Sum.reproducible(), op::Sum), integers, 1);
        check(&reducer, (op::Sum.reproducible(), op::Sum), floats, 2);
        check(&reducer, (op::Max.reproducible(), op::Max), floats, 1);
        check(&reducer, (op::Max, op::Min), floats, 1);
        check(&reducer, (op::MinMax, op::Min), floats, 1);
        check(&reducer, (op::Min.skip_nan(), op::Max.skip_nan()), floats, 1);
        check(&reducer, (op::Max.skip_nan(), op::MinMax.skip_nan()), floats, 1);
        check(&reducer, (op::Min, op::Max.skip_nan()), floats, 1);
        check(&reducer, (op::MinMax, op::Max.skip_nan()), floats, 1);
        check(&reducer, (op::MinMax, op::Max.skip_nan()), integers, 1);
        check(&reducer, (op::Max, op::MinMax, op::Min), integers, 1);
        check(&reducer, (op::ArgMin, op::Min), integers, 1);
        check(&reducer, (op::Max, op::ArgMax), integers, 1);
        check(&reducer, (op::ArgMin, op::Min), floats, 1);
        check(&reducer, (op::ArgMin, op::Max), integers, 1);
        check(&reducer, (op::ArgMin, op::ArgMax, op::Min, op::Max), integers, 1);
        check(&reducer, (op::Sum, op::SumOfSquares, op::Min, op::Max, op::Sum, op::MinMax), floats, 1);
        // Operations without a part, before, between and after those with one.
        check(&reducer, (op::LogSumExp, op::Max, op::HarmonicMean, op::Sum), floats, 3);
        check(&reducer, (op::Max, op::Sum.reproducible()), floats, 2);
        check(&reducer, (op::Max, op::BitXor, op::Mean, op::BitAnd, op::Product), integers, 3);
    }

    /// Checks the launches for rows of every kernel, and of a single row.
    fn check_rows<O: Operations<f32>>(reducer: &Reducer, ops: O, launches: u64) {
        for (count, len) in [(1, 6), (3, 5), (40, 64), (3, 5000), (2, 40_001)] {
            let values = reducer.device().upload(&small::<f32>(count * len, 8)).unwrap();
            let rows = values.rows(len).unwrap();
            let found = counted(|| drop(reducer.reduce(ops, rows).unwrap())).0;
            assert_eq!(found, launches, "{} of {rows:?}", std::any::type_name::<O>());
        }
        let none = reducer.device().upload::<f32>(&[]).unwrap();
        assert_eq!(counted(|| drop(reducer.reduce(ops, none.rows(5).unwrap()).unwrap())).0, 0);
    }

    #[test]
    fn tuples_on_rows_use_the_documented_number_of_launches() {
        let reducer = Reducer::new(&in_own_context(warpfold_sim_driver::driver())).unwrap();
        check_rows(&reducer, (op::Sum, op::Min, op::Max), 1);
        check_rows(&reducer, (op::MeanAndVariance, op::Min, op::Max, op::CountNonZero), 1);
        check_rows(&reducer, (op::ArgMin, op::ArgMax), 1);
        check_rows(&reducer, op::Describe, 1);
        check_rows(&reducer, (op::Min, op::Max), 1);
        check_rows(&reducer, (op::LogSumExp, op::Max, op::HarmonicMean, op::Sum), 3);
    }

    #[test]
    fn empty_input_launches_and_waits_for_nothing() {
        let device = in_own_context(warpfold_sim_driver::driver());
        let nothing = device.upload::<f32>(&[]).unwrap();
        let reducer = Reducer::new(&device).unwrap();
        check(&reducer, (op::Sum, op::Min, op::Max), &nothing, 0);
    }
}

#[test]
fn operations_together_accept_a_device_count() {
    let _checked = no_findings();
    let (values, stream) = (small::<i32>(2000, 3), device().stream().unwrap());
    let buffer = device().upload(&values).unwrap();
    let ops = (op::Max, op::Sum, op::Min, op::Product);
    let of = |count: u64| {
        let count = count_of(count);
        reducer().on(&stream).reduce(ops, buffer.counted(&count)).unwrap().wait()
    };
    for count in [1, 77, 2000] {
        let expected = reducer().reduce(ops, &buffer.slice(..count).unwrap()).unwrap();
        assert_eq!(of(count as u64).unwrap(), expected);
    }
    assert_eq!(of(0).unwrap(), (None, 0, None, 1));
    let error = of(2001).unwrap_err();
    assert!(matches!(error, Error::CountTooLarge { count: 2001, len: 2000 }), "{error:?}");
}

#[test]
fn dropped_or_leaked_reductions_are_harmless() {
    let _checked = no_findings();
    let (values, stream) = (small::<i32>(3000, 3), device().stream().unwrap());
    let reducer = Reducer::new(device()).unwrap();
    let enqueue = || {
        let buffer = device().upload(&values).unwrap();
        reducer.on(&stream).reduce((op::Sum, op::Max), &buffer).unwrap()
    };
    drop(enqueue());
    mem::forget(enqueue());
    let pending = [(); 40].map(|()| enqueue());
    let expected = (i32::total(&values, false), Some(7));
    for pending in pending {
        assert_eq!(pending.wait().unwrap(), expected);
    }
}

#[test]
fn invalid_input_is_refused_before_launch() {
    // SAFETY: the call is refused before it reads anything.
    let many = unsafe { Buffer::<i8>::from_raw_parts(device(), 0x1000, (1 << 35) + 1, ()) }.unwrap();
    let error = reducer().reduce((op::Sum, op::Max), &many).unwrap_err();
    assert!(matches!(error, Error::TooManyElements { .. }), "{error:?}");
    assert_eq!(error.to_string().lines().count(), 1);
    let elsewhere = own_context();
    let there = elsewhere.upload(&[1_i8]).unwrap();
    let stream = device().stream().unwrap();
    let ops = (op::Min, op::Sum);
    for error in [
        reducer().reduce(ops, &there).unwrap_err(),
        reducer().on(&stream).reduce(ops, &there).unwrap_err(),
        reducer().record().reduce(ops, &there).unwrap_err(),
    ] {
        assert!(matches!(error, Error::OtherDevice { .. }), "{error:?}");
        says(&error, &["expected the buffer on ", "use one device"]);
    }
    let error = reducer().reduce(ops, there.rows(1).unwrap()).unwrap_err();
    says(&error, &["expected the buffer on ", "use one device"]);
    let error = reducer().reduce(ops, many.rows(1).unwrap()).unwrap_err();
    assert!(matches!(error, Error::TooManyElements { .. }), "{error:?}");
    let here = device().upload(&[1_i8]).unwrap();
    let away = elsewhere.stream().unwrap();
    let error = reducer().on(&away).reduce(ops, &here).unwrap_err();
    says(&error, &["expected the stream on ", "use one device"]);
}
