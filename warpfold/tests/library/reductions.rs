//! Every operation and type against a plain reference: sizes, alignments, kernels and grids, special
//! values.
//!
//! Most elements are small integers, whose sums are exact in any order and in which every position
//! matters. One test has floats whose sums are rounded.

use crate::common::{LARGEST, Sample, check, check_extremes, device, reducer, reducer_of, small};
use warpfold::{
    Element, bf16, f16,
    internal::{Blocks, Choice, Dtype, Job, KernelKind, OpKind, depth, plan},
    op,
};

fn sizes<T: Sample>(sizes: &[usize]) {
    for &n in sizes {
        let mut values = small::<T>(n, n as u64);
        // The last element affects every operation: it is not 0, and is then below or above all other
        // elements.
        for last in [1, -LARGEST - 1, LARGEST + 1] {
            if let Some(element) = values.last_mut() {
                *element = T::of(last);
            }
            let buffer = device().upload(&values).unwrap();
            check(reducer(), &values, &buffer, std::any::type_name::<T>());
        }
    }
}

#[test]
fn every_operation_of_every_type_is_right() {
    for_every_type!(sizes(&[0, 1, 2, 31, 1000, 4096, 65_537]));
}

#[test]
fn large_inputs_take_many_blocks() {
    for_every_type!(sizes(&[300_001]));
}

fn starts_and_ends<T: Sample>() {
    let values = small::<T>(3000, 3);
    let buffer = device().upload(&values).unwrap();
    for start in 0..=16 / size_of::<T>() {
        for len in [1, 2, 7, 15, 16, 17, 33, 1021, 2900] {
            let slice = buffer.slice(start..start + len).unwrap();
            check(reducer(), &values[start..start + len], &slice, &format!("from {start}"));
        }
    }
}

#[test]
fn inputs_may_start_and_end_anywhere() {
    for_every_type!(starts_and_ends());
}

fn launched<T: Sample>(choice: Choice, bytes: usize) {
    let (reducer, n) = (reducer_of(choice), bytes / size_of::<T>());
    let values = small::<T>(n, 5);
    let buffer = device().upload(&values).unwrap();
    for start in [0, 1, 3] {
        let slice = buffer.slice(start..).unwrap();
        check(&reducer, &values[start..], &slice, &format!("{choice:?} from {start}"));
    }
}

#[test]
fn any_grid_and_kernel_gives_the_right_result() {
    let grid = [(128, 1), (1024, 1), (256, 2), (128, 7), (512, 7), (1024, 5), (128, 100)];
    for (block, blocks) in grid {
        let choice = Choice { kernel: KernelKind::Grid, block, blocks: Blocks::Total(blocks) };
        for_every_type!(launched(choice, 33_333));
    }
    for (block, blocks) in [(256, 1), (512, 1), (256, 2), (512, 7)] {
        let choice = Choice { kernel: KernelKind::Bulk, block, blocks: Blocks::Total(blocks) };
        for_every_type!(launched(choice, 5 * 32_768 + 1001));
    }
}

#[test]
fn the_choice_decides_the_launch() {
    let buffer = device().upload(&small::<f32>(50_000, 1)).unwrap();
    let job =
        Job { op: OpKind::Sum.plain(), dtype: Dtype::F32, n: 50_000, address: buffer.as_device_ptr() };
    for (kernel, block) in [(KernelKind::Grid, 128), (KernelKind::Bulk, 256)] {
        let choice = Choice { kernel, block, blocks: Blocks::Total(3) };
        let launch = plan(&reducer_of(choice), &job, None).unwrap();
        assert_eq!((launch.kernel, launch.block, launch.blocks), (kernel, block, 3));
        let launch = plan(reducer(), &job, Some(choice)).unwrap();
        assert_eq!((launch.kernel, launch.block, launch.blocks), (kernel, block, 3));
    }
    let wrong = Choice { kernel: KernelKind::Grid, block: 64, blocks: Blocks::Total(3) };
    let error = plan(reducer(), &job, Some(wrong)).unwrap_err();
    crate::common::says(&error, &["block is 64", "128"]);
    // More blocks than fit: the grid is limited to the resident blocks.
    let many = Choice { kernel: KernelKind::Grid, block: 128, blocks: Blocks::PerMultiprocessor(1000) };
    let most = warpfold::internal::shape(device()).resident_blocks(128);
    let job = Job { n: 1 << 30, ..job };
    assert!((2..=most).contains(&plan(reducer(), &job, Some(many)).unwrap().blocks));
}

#[test]
fn wrapping_sum_wraps_in_the_element_type() {
    let buffer = device().upload(&[i32::MAX, 3]).unwrap();
    let (stream, mut output) = (device().stream().unwrap(), device().output::<i32>().unwrap());
    let on = reducer().on(&stream);
    let wrapped = i32::MIN + 2;
    assert_eq!(reducer().reduce(op::WrappingSum, &buffer).unwrap(), wrapped);
    assert_eq!(on.reduce(op::WrappingSum, &buffer).unwrap().wait().unwrap(), wrapped);
    on.reduce_into(op::WrappingSum, &buffer, &mut output).unwrap();
    assert_eq!(output.read().unwrap(), wrapped);
}

trait Float: Sample {
    fn from_f32(value: f32) -> Self;
}

macro_rules! float {
    ($($ty:ty: $of:expr;)*) => {$(
        impl Float for $ty {
            fn from_f32(value: f32) -> Self {
                $of(value)
            }
        }
    )*};
}

float! { f16: f16::from_f32; bf16: bf16::from_f32; f32: f32::from; f64: f64::from; }

/// NaN wins at any position, the first of equal elements wins, and infinities compare as numbers.
fn special<T: Float>() {
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    let cases: [&[f32]; 11] = [
        &[1.0, NAN, -1.0],
        &[NAN],
        &[NAN, NAN, 1.0],
        &[-INF, NAN],
        &[0.0, -0.0],
        &[-0.0, 0.0],
        &[INF, -INF, 0.0],
        &[INF, INF],
        &[-INF, -INF],
        &[2.0, 1.0, 1.0, 2.0],
        &[INF, 1.0],
    ];
    let choices = [(KernelKind::Grid, 128, 7), (KernelKind::Bulk, 256, 2)];
    let reducers = choices.map(|(kernel, block, blocks)| {
        reducer_of(Choice { kernel, block, blocks: Blocks::Total(blocks) })
    });
    for values in cases {
        // The elements are in one 16-byte vector, in different vectors, and in different blocks.
        for spread in [1, 40, 3001] {
            let mut elements = vec![T::from_f32(values[0]); (values.len() - 1) * spread + 1];
            for (i, &value) in values.iter().enumerate() {
                elements[i * spread] = T::from_f32(value);
            }
            let buffer = device().upload(&elements).unwrap();
            for reducer in &reducers {
                check_extremes(reducer, &elements, &buffer, &format!("{values:?} {spread} apart"));
                let (sum, expected) = (reducer.sum(&buffer).unwrap(), T::total(&elements, false));
                // Only NaN differs from itself.
                let nan = |sum: T::Sum| sum.partial_cmp(&sum).is_none();
                assert!(sum == expected || nan(sum) && nan(expected), "{sum:?}, not {expected:?}");
            }
        }
    }
}

#[test]
fn special_floats_are_found_at_any_position() {
    special::<f16>();
    special::<bf16>();
    special::<f32>();
    special::<f64>();
}

macro_rules! extremes {
    ($($ty:ty)*) => {$({
        let mut mixed: Vec<$ty> = vec![0; 5001];
        (mixed[77], mixed[3000]) = (<$ty>::MAX, <$ty>::MAX);
        (mixed[78], mixed[4000]) = (<$ty>::MIN, <$ty>::MIN);
        for values in [vec![<$ty>::MIN; 5001], vec![<$ty>::MAX; 5001], mixed] {
            let buffer = device().upload(&values).unwrap();
            check(reducer(), &values, &buffer, stringify!($ty));
        }
    })*};
}

#[test]
fn integers_have_their_extremes_and_wrap_around() {
    extremes! { i8 u8 i16 u16 i32 u32 i64 u64 }
}

/// The error of rounded sums is at most that of the additions on the longest path, each of half a unit
/// in the last place of the sum of magnitudes.
#[test]
fn rounded_sums_are_as_near_as_the_launch_promises() {
    let n = 100_003;
    let values: Vec<f32> = small::<f32>(n, 8).iter().zip(1..).map(|(v, i)| v / i as f32).collect();
    let buffer = device().upload(&values).unwrap();
    let exact: f64 = values.iter().copied().map(f64::from).sum();
    let magnitude: f64 = values.iter().copied().map(|value| f64::from(value.abs())).sum();
    let job =
        Job { op: OpKind::Sum.plain(), dtype: Dtype::F32, n: n as u64, address: buffer.as_device_ptr() };
    let depth = depth(plan(reducer(), &job, None).unwrap(), &job);
    let allowed = depth as f64 * f64::from(f32::EPSILON) / 2.0 * magnitude;
    let error = (f64::from(reducer().sum(&buffer).unwrap()) - exact).abs();
    assert!(error <= allowed, "{error} above {allowed}");
    // The bound is tight enough to detect a missing element.
    assert!(f64::from(values[0].abs()) > allowed);
}

#[test]
fn the_same_input_gives_the_same_bits() {
    fn bits<T: Element>(sum: T) -> Vec<u8> {
        bytemuck::bytes_of(&sum).to_vec()
    }
    let values: Vec<f32> = small::<f32>(40_003, 9).iter().zip(1..).map(|(v, i)| v / i as f32).collect();
    let buffer = device().upload(&values).unwrap();
    let first = bits(reducer().sum(&buffer).unwrap());
    let other = warpfold::Reducer::new(device()).unwrap();
    for _ in 0..3 {
        assert_eq!(bits(reducer().sum(&buffer).unwrap()), first);
        assert_eq!(bits(other.sum(&buffer).unwrap()), first);
    }
}

#[test]
fn download_returns_the_uploaded_values() {
    let values = small::<bf16>(1001, 4);
    let buffer = device().upload(&values).unwrap();
    assert_eq!(buffer.download().unwrap(), values);
    assert_eq!(buffer.slice(3..=5).unwrap().download().unwrap(), values[3..=5]);
    assert_eq!(buffer.slice(1000..).unwrap().slice(..1).unwrap().download().unwrap(), values[1000..]);
    assert!(buffer.slice(7..7).unwrap().download().unwrap().is_empty());
    assert!(device().upload::<f64>(&[]).unwrap().is_empty());
    let start = 5;
    for (range, words) in [
        (0..1002, ["0 to 1002", "1001"]),
        (start..4, ["5 to 4", "1001"]),
        (1002..1002, ["1002 to 1002", "1001"]),
    ] {
        crate::common::says(&buffer.slice(range).unwrap_err(), &words);
    }
}

#[test]
fn more_than_2_to_the_32_elements_are_reduced() {
    // The simulator would take hours; the index arithmetic has tests of its own.
    if !crate::common::on_gpu() {
        return;
    }
    let n = (1_usize << 32) + 12_345;
    let mut values = vec![1_u8; n];
    (values[n - 2], values[n - 1]) = (7, 7);
    let buffer = device().upload(&values).unwrap();
    let choice = Choice { kernel: KernelKind::Grid, block: 512, blocks: Blocks::PerMultiprocessor(4) };
    for reducer in [reducer().clone(), reducer_of(choice)] {
        assert_eq!(reducer.sum(&buffer).unwrap(), n as u64 + 12);
        let found = reducer.reduce(op::ArgMax, &buffer).unwrap().unwrap();
        assert_eq!((found.index, found.value), (n as u64 - 2, 7));
    }
}
