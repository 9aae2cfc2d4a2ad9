//! Reductions of several buffers together.

use warpfold::{Buffer, Buffers, Error, Reducer, op};

use crate::common::{Sample, device, extreme, no_findings, reducer, says, small};

/// Lengths with empty buffers, single elements, and ends on both sides of 16-byte boundaries.
const LENGTHS: [usize; 12] = [0, 1, 3, 4097, 0, 16, 17, 1, 2500, 31, 700, 0];

/// Returns buffers of these lengths, with different distances from a 16-byte boundary and in an order
/// that is not that of their addresses, and all their elements.
fn pieces<T: Sample>(lengths: &[usize]) -> (Vec<Buffer<T>>, Vec<T>) {
    let (mut buffers, mut all) = (Vec::new(), Vec::new());
    for (at, &len) in lengths.iter().enumerate() {
        let values = small::<T>(len + at % 5, 7 + at as u64);
        let buffer = device().upload(&values).unwrap().slice(at % 5..).unwrap();
        buffers.insert(if at % 3 == 0 { 0 } else { buffers.len() }, buffer);
    }
    for buffer in &buffers {
        all.extend(buffer.download().unwrap());
    }
    (buffers, all)
}

fn all_operations<T: Sample>(reducer: &Reducer, lengths: &[usize]) {
    let (buffers, values) = pieces::<T>(lengths);
    let buffers = Buffers::new(device(), &buffers).unwrap();
    let what = format!("{buffers:?} of {}", std::any::type_name::<T>());
    let (least, largest) = (extreme(&values, false), extreme(&values, true));
    assert_eq!(buffers.len(), values.len() as u64, "{what}");
    assert_eq!(reducer.reduce(op::Sum, &buffers).unwrap(), T::total(&values, false), "{what}");
    assert_eq!(reducer.reduce(op::SumOfSquares, &buffers).unwrap(), T::total(&values, true), "{what}");
    assert_eq!(reducer.reduce(op::Min, &buffers).unwrap(), least.map(|one| one.value), "{what}");
    assert_eq!(reducer.reduce(op::Max, &buffers).unwrap(), largest.map(|one| one.value), "{what}");
    assert_eq!(reducer.reduce(op::ArgMin, &buffers).unwrap(), least, "{what}");
    assert_eq!(reducer.reduce(op::ArgMax, &buffers).unwrap(), largest, "{what}");
}

#[test]
fn several_buffers_have_the_results_of_one() {
    let _checked = no_findings();
    for_every_type!(all_operations(reducer(), &LENGTHS));
    for_every_type!(all_operations(reducer(), &[1, 1]));
    let many: Vec<usize> = (0..700).map(|at| at % 13).collect();
    all_operations::<f32>(reducer(), &many);
    all_operations::<u8>(reducer(), &many);
}

/// More elements than all blocks take in one tile, and short buffers at the ends of tiles.
#[test]
fn blocks_take_several_tiles() {
    all_operations::<u8>(reducer(), &[3_000_001, 5, 2_500_000, 1, 70_000, 17, 800_000]);
}

/// The result with an index has the bits of its element, wherever the element is.
#[test]
fn an_index_finds_its_element_in_every_buffer() {
    let _checked = no_findings();
    let lengths = [5, 70, 1, 33];
    let total: usize = lengths.iter().sum();
    for at in 0..total {
        let mut values = vec![1.0_f32; total];
        values[at] = -0.0;
        let mut rest = &values[..];
        let buffers = lengths.map(|len| {
            let (first, others) = rest.split_at(len);
            rest = others;
            device().upload(first).unwrap()
        });
        let all = Buffers::new(device(), &buffers).unwrap();
        let found = reducer().reduce(op::ArgMin, &all).unwrap().unwrap();
        assert_eq!((found.index, found.value.to_bits()), (at as u64, (-0.0_f32).to_bits()));
    }
}

#[test]
fn means_norms_and_reproducible_sums_are_of_all_elements() {
    let values: Vec<f64> = (0..9001).map(|at| f64::from(at % 101) * 0.37 - 11.0).collect();
    let one = device().upload(&values).unwrap();
    let cuts = [0, 1, 4000, 4001, 8999, 9001];
    let pieces: Vec<_> = cuts.windows(2).map(|cut| one.slice(cut[0]..cut[1]).unwrap()).collect();
    let all = Buffers::new(device(), &pieces).unwrap();
    let reducer = reducer();
    let sum = op::Sum.reproducible();
    assert_eq!(
        reducer.reduce(sum, &all).unwrap().to_bits(),
        reducer.reduce(sum, &one).unwrap().to_bits()
    );
    let near = |found: f64, wanted: f64| {
        assert!((found - wanted).abs() <= 1e-12 * wanted.abs(), "{found} for {wanted}");
    };
    near(reducer.reduce(op::L2Norm, &all).unwrap(), reducer.reduce(op::L2Norm, &one).unwrap());
    let found = reducer.reduce(op::Mean, &all).unwrap().unwrap();
    near(found, reducer.reduce(op::Mean, &one).unwrap().unwrap());
    let found = reducer.reduce(op::MeanAndVariance, &all).unwrap().unwrap();
    let wanted = reducer.reduce(op::MeanAndVariance, &one).unwrap().unwrap();
    near(found.mean, wanted.mean);
    near(found.variance, wanted.variance);
}

#[test]
fn fewer_than_two_buffers_are_reduced_as_one() {
    let none = device().upload::<i16>(&[]).unwrap();
    for buffers in [vec![], vec![none.clone()], vec![none.clone(); 3]] {
        let all = Buffers::new(device(), &buffers).unwrap();
        assert!(all.is_empty());
        assert_eq!(reducer().reduce(op::Sum, &all).unwrap(), 0);
        assert_eq!(reducer().reduce(op::ArgMax, &all).unwrap(), None);
    }
    let one = device().upload(&[3_i16, -4]).unwrap();
    let all = Buffers::new(device(), [&none, &one]).unwrap();
    assert_eq!(reducer().reduce(op::Min, &all).unwrap(), Some(-4));
}

#[test]
fn buffers_live_until_the_last_reduction_has_ended() {
    let _checked = no_findings();
    let _late = crate::common::late();
    let (stream, mut sum) = (device().stream().unwrap(), device().output().unwrap());
    let (buffers, values) = pieces::<i32>(&LENGTHS);
    let all = Buffers::new(device(), &buffers).unwrap();
    let on = reducer().on(&stream);
    let pending = on.reduce(op::Max, &all).unwrap();
    on.reduce_into(op::Sum, &all, &mut sum).unwrap();
    drop((buffers, all));
    assert_eq!(pending.wait().unwrap(), extreme(&values, true).map(|one| one.value));
    assert_eq!(sum.read().unwrap(), i32::total(&values, false));
}

#[test]
fn several_buffers_can_be_recorded() {
    let (buffers, values) = pieces::<u16>(&LENGTHS);
    let all = Buffers::new(device(), &buffers).unwrap();
    let mut recorder = reducer().record();
    let sum = recorder.reduce(op::Sum, &all).unwrap();
    let place = recorder.reduce(op::ArgMin, &all).unwrap();
    let mut recording = recorder.finish().unwrap();
    drop((buffers, all));
    for _ in 0..3 {
        let results = recording.run().unwrap();
        assert_eq!(results.get(&sum), u16::total(&values, false));
        assert_eq!(results.get(&place), extreme(&values, false));
    }
}

#[test]
fn wrong_buffers_are_errors() {
    let one = device().upload(&[1_u8]).unwrap();
    // SAFETY: nothing reads the elements, because the call is refused.
    let long = unsafe { Buffer::<u8>::from_raw_parts(device(), one.as_device_ptr(), 1 << 35, ()) };
    let error = Buffers::new(device(), [&one, &long.unwrap()]).unwrap_err();
    assert!(matches!(error, Error::TooManyElements { n, .. } if n == (1 << 35) + 1), "{error:?}");
    says(&error, &["34359738369"]);
}
