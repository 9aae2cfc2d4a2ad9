//! Reductions of elements pushed in pieces. `operations::check_by` covers every operation.

use warpfold::{Device, Element, Error, Group, Located, Reducer, Selection, Way, bf16, f16, op};

use crate::{
    common::{Sample, device, extreme, no_findings, reducer, says, small, splitmix},
    operations::Number,
};

fn in_pieces<T: Element, O: op::Operation<T>>(op: O, values: &[T], cuts: &[usize]) -> O::Output {
    let (stream, buffer) = (device().stream().unwrap(), device().upload(values).unwrap());
    let mut running = reducer().running(op).unwrap();
    let ends = cuts.iter().copied().chain([values.len()]);
    let mut start = 0;
    for end in ends {
        running.push(&stream, &buffer.slice(start..end).unwrap()).unwrap();
        start = end;
    }
    assert_eq!(running.len(), values.len() as u64);
    running.result().unwrap()
}

fn places<T: Sample + PartialEq>() {
    // The largest element, 9, occurs several times, in one piece or in several.
    let mut values = small::<T>(5000, 3);
    for (at, value) in [(7, 8), (1500, 9), (1501, 9), (2100, 9), (4999, 9)] {
        values[at] = T::of(value);
    }
    for cuts in [&[1000, 2000, 3000][..], &[1501], &[1500], &[1, 2, 3, 4999], &[0, 0, 5000], &[2101]] {
        for end in [4999, 2101, 1500, 1000] {
            let cuts: Vec<usize> = cuts.iter().copied().filter(|cut| *cut <= end).collect();
            let (values, what) = (&values[..end], format!("{cuts:?} of {end}"));
            assert_eq!(in_pieces(op::ArgMax, values, &cuts), extreme(values, true), "{what}");
            assert_eq!(in_pieces(op::ArgMin, values, &cuts), extreme(values, false), "{what}");
        }
    }
}

/// The first of equal elements wins, with the value from its piece.
#[test]
fn places_count_from_the_first_element_of_the_first_piece() {
    let _checked = no_findings();
    for_every_type!(places());
}

#[test]
fn special_floats_are_found_in_the_piece_that_has_them() {
    let values = [1.0, -0.0, 0.0, 5.0, f32::NAN, 9.0, f32::NAN, f32::INFINITY];
    for cut in 0..=values.len() {
        let found = in_pieces(op::ArgMax, &values, &[cut]).unwrap();
        assert!(found.index == 4 && found.value.is_nan(), "{found:?}");
        let least = in_pieces(op::ArgMin.skip_nan(), &values, &[cut]).unwrap();
        assert_eq!((least.index, least.value.to_bits()), (1, (-0.0_f32).to_bits()), "cut at {cut}");
        let numbers = in_pieces(op::Max.skip_nan(), &values, &[cut]);
        assert_eq!(numbers, Some(f32::INFINITY));
        assert_eq!(in_pieces(op::CountNan, &values, &[cut]), 2);
        assert!(in_pieces(op::Sum, &values, &[cut]).is_nan());
    }
}

fn uneven(n: usize) -> Vec<f32> {
    let of = |at: u64| {
        let bits = splitmix(at);
        let magnitude =
            f32::from_bits((bits as u32 & 0x7f_ffff) | ((100 + (bits >> 40) as u32 % 60) << 23));
        if bits >> 63 == 0 { magnitude } else { -magnitude }
    };
    (0..n as u64).map(of).collect()
}

/// Reproducible sums have the bits of a buffer with all elements for any cuts; plain sums do not.
#[test]
fn reproducible_sums_are_equal_in_pieces() {
    let values = uneven(70_001);
    let buffer = device().upload(&values).unwrap();
    let (everywhere, plain) = (op::Sum.reproducible(), op::Sum);
    let whole = reducer().reduce(everywhere, &buffer).unwrap().to_bits();
    let cuts = [&[1][..], &[35_000], &[3, 4, 5, 60_000], &[20_000, 40_000]];
    for cuts in cuts {
        assert_eq!(in_pieces(everywhere, &values, cuts).to_bits(), whole, "{cuts:?}");
        let sum = in_pieces(plain, &values, cuts).to_bits();
        assert_eq!(in_pieces(plain, &values, cuts).to_bits(), sum, "{cuts:?}");
    }
    let whole = reducer().sum(&buffer).unwrap().to_bits();
    assert!(cuts.iter().any(|cuts| in_pieces(plain, &values, cuts).to_bits() != whole));
}

#[test]
fn no_elements_reduce_like_an_empty_buffer() {
    fn check<T: Number>() {
        let none = device().upload::<T>(&[]).unwrap();
        let stream = device().stream().unwrap();
        for pushes in 0..2 {
            let mut sum = reducer().running::<T, _>(op::Sum).unwrap();
            let mut product = reducer().running::<T, _>(op::Product).unwrap();
            let mut least = reducer().running::<T, _>(op::Min).unwrap();
            for _ in 0..pushes {
                sum.push(&stream, &none).unwrap();
                product.push(&stream, &none).unwrap();
                least.push(&stream, &none).unwrap();
            }
            assert!(sum.is_empty() && sum.result().unwrap() == T::total(&[], false));
            assert!(product.result().unwrap() == T::product(&[]));
            assert!(least.result().unwrap().is_none());
            // The next piece starts a new reduction.
            least.push(&stream, &device().upload(&[T::of(3)]).unwrap()).unwrap();
            assert!(least.result().unwrap() == Some(T::of(3)));
        }
    }
    for_every_type!(check());
}

#[test]
fn pieces_are_ordered_across_streams() {
    let _checked = no_findings();
    let values = small::<i32>(60_000, 9);
    let buffer = device().upload(&values).unwrap();
    let streams = [(); 3].map(|()| device().stream().unwrap());
    let mut sum = reducer().running(op::Sum).unwrap();
    let mut squares = reducer().running(op::SumOfSquares).unwrap();
    for (at, start) in (0..values.len()).step_by(5000).enumerate() {
        let piece = buffer.slice(start..start + 5000).unwrap();
        sum.push(&streams[at % 3], &piece).unwrap();
        squares.push(&streams[(at + 1) % 3], &piece).unwrap();
        if at % 4 == 1 {
            let until = &values[..start + 5000];
            assert_eq!(sum.result().unwrap(), i32::total(until, false));
            assert_eq!(squares.output().unwrap().read().unwrap(), i32::total(until, true));
        }
        drop(piece);
    }
    drop(buffer);
    assert_eq!(sum.result().unwrap(), i32::total(&values, false));
    assert_eq!(squares.result().unwrap(), i32::total(&values, true));
}

#[test]
fn a_running_reduction_may_be_dropped_and_even_leaked() {
    let _checked = no_findings();
    let (stream, buffer) = (device().stream().unwrap(), device().upload(&[1_u8; 9000]).unwrap());
    for leaks in [false, true] {
        let mut running = reducer().running(op::Sum).unwrap();
        running.push(&stream, &buffer).unwrap();
        if leaks {
            std::mem::forget(running)
        } else {
            drop(running)
        }
        stream.synchronize().unwrap();
    }
    assert_eq!(reducer().sum(&buffer).unwrap(), 9000);
}

#[test]
fn rejected_pieces_do_not_change_the_running_result() {
    let other = Device::open(Selection::Sim).unwrap();
    let (stream, ones) = (device().stream().unwrap(), device().upload(&[1_i64; 10]).unwrap());
    let mut sum = reducer().running(op::Sum).unwrap();
    sum.push(&stream, &ones).unwrap();
    if &other != device() {
        let theirs = other.upload(&[5_i64]).unwrap();
        let error = sum.push(&stream, &theirs).unwrap_err();
        assert!(matches!(error, Error::OtherDevice { what: "buffer", .. }), "{error}");
        let error = sum.push(&other.stream().unwrap(), &ones).unwrap_err();
        assert!(matches!(error, Error::OtherDevice { what: "stream", .. }), "{error}");
    }
    assert_eq!((sum.result().unwrap(), sum.len()), (10, 10));
    says(&format!("{sum:?}"), &["Running", "sum_i64", "len: 10"]);
}

/// After a failed launch the running state is undefined, or still being written.
#[cfg(feature = "simulator")]
#[test]
fn failed_launch_invalidates_the_running_state() {
    use warpfold_driver::sys::CUDA_ERROR_LAUNCH_FAILED as code;
    use warpfold_sim_driver::{Fault, inject};

    if crate::common::on_gpu() {
        return;
    }
    let (stream, ones) = (device().stream().unwrap(), device().upload(&[1_i64; 10]).unwrap());
    let mut sum = reducer().running(op::Sum).unwrap();
    sum.push(&stream, &ones).unwrap();
    let fault = inject(Fault { function: "cuLaunchKernel", call: 1, code, sticky: false });
    says(&sum.push(&stream, &ones).unwrap_err(), &["LAUNCH_FAILED"]);
    assert!(fault.has_struck());
    drop(fault);
    for error in [
        sum.push(&stream, &ones).unwrap_err(),
        sum.result().unwrap_err(),
        sum.output().map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
        says(&error, &["running reduction", "begin another running reduction"]);
    }
    assert_eq!(sum.len(), 10);
}

#[cfg(feature = "simulator")]
#[test]
fn no_kernel_has_a_hazard() {
    crate::results::without_hazards(|device| {
        let (reducer, stream) = (Reducer::new(device).unwrap(), device.stream().unwrap());
        let values = small::<f16>(40_003, 15);
        let buffer = device.upload(&values).unwrap();
        let mut largest = reducer.running(op::ArgMax).unwrap();
        let mut spread = reducer.running(op::MeanAndVariance).unwrap();
        for piece in [0..3, 3..20_001, 20_001..40_003] {
            largest.push(&stream, &buffer.slice(piece.clone()).unwrap()).unwrap();
            spread.push(&stream, &buffer.slice(piece).unwrap()).unwrap();
        }
        let expected: Option<Located<f16>> = extreme(&values, true);
        assert_eq!(largest.result().unwrap(), expected);
        assert!(spread.result().unwrap().is_some());
        // Copies the running state to where a group combines the devices' states.
        let group = Group::by(Way::Copies, std::slice::from_ref(&reducer)).unwrap();
        assert_eq!(group.result(&[largest]).unwrap(), expected);
    });
}

#[test]
fn halves_are_added_in_their_sums_type() {
    let values = vec![bf16::from_f32(1.0); 1000];
    assert_eq!(in_pieces(op::Sum, &values, &[300, 600]), 1000.0);
}
