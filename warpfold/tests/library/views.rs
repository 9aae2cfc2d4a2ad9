//! Reductions along any axes of views, for any strides.

use std::collections::BTreeSet;

use warpfold::{
    Buffer, Element, Error, Located, Reducer, View, bf16, cpu,
    internal::{ViewKernel, view_launch},
    op::{self},
};

use crate::common::{Sample, device, extreme, no_findings, on_gpu, reducer, says, small, splitmix};

#[derive(Debug, Clone)]
struct Case {
    offset: usize,
    shape: Vec<usize>,
    strides: Vec<isize>,
    axes: Vec<usize>,
}

fn case(offset: usize, shape: &[usize], strides: &[isize], axes: &[usize]) -> Case {
    Case { offset, shape: shape.into(), strides: strides.into(), axes: axes.into() }
}

/// Returns views of all kinds: rows and axes with and without a pitch; several reduced axes, near and
/// far; permuted axes; steps; overlaps; and results with several blocks.
fn cases() -> Vec<Case> {
    vec![
        // Rows, an axis and all of an array.
        case(0, &[2, 3, 4], &[12, 4, 1], &[0, 1, 2]),
        case(0, &[6, 8], &[8, 1], &[1]),
        case(0, &[6, 8], &[8, 1], &[0]),
        case(0, &[3, 40, 5], &[200, 5, 1], &[1]),
        case(1, &[1, 300, 1], &[9, 1, 1], &[1]),
        // Rows with a pitch: by vectors, by elements, a warp each, and blocks each.
        case(0, &[9, 16], &[20, 1], &[1]),
        case(1, &[9, 7], &[11, 1], &[1]),
        case(4, &[5, 600], &[604, 1], &[1]),
        case(3, &[5, 333], &[350, 1], &[1]),
        case(0, &[2, 2000], &[2500, 1], &[1]),
        case(5, &[1, 1000], &[1, 1], &[1]),
        // Columns with a pitch: packed, spaced and single ones, and lanes.
        case(0, &[100, 8], &[12, 1], &[0]),
        case(2, &[30, 130], &[137, 1], &[0]),
        case(1, &[50, 5], &[7, 1], &[0]),
        case(0, &[70, 3, 4], &[20, 5, 1], &[1]),
        case(4, &[3, 20, 64], &[1600, 68, 1], &[1]),
        case(0, &[40, 64], &[66, 1], &[0]),
        case(0, &[3, 20, 64], &[1602, 68, 1], &[1]),
        case(1, &[3, 20, 64], &[1601, 68, 1], &[1]),
        // The first and the last axis: by vectors, or by elements because of alignment.
        case(0, &[4, 6, 16], &[96, 16, 1], &[0, 2]),
        case(0, &[4, 6, 17], &[102, 17, 1], &[0, 2]),
        case(0, &[4, 6, 16], &[102, 17, 1], &[0, 2]),
        case(1, &[4, 6, 16], &[96, 16, 1], &[0, 2]),
        case(0, &[3, 2, 300], &[600, 300, 1], &[2, 0]),
        case(0, &[3, 20, 4], &[80, 4, 1], &[0, 2]),
        // All of an array that is not contiguous.
        case(3, &[40, 50], &[64, 1], &[0, 1]),
        case(0, &[40, 52], &[64, 1], &[0, 1]),
        case(0, &[3, 5, 7], &[100, 9, 1], &[0, 1, 2]),
        case(0, &[500], &[2], &[0]),
        case(1, &[6, 100], &[200, 2], &[1]),
        case(0, &[6, 100], &[300, 3], &[1]),
        case(0, &[60, 10], &[70, 7], &[0]),
        case(2, &[3, 40, 5], &[2000, 50, 10], &[1]),
        // Transposed, and other orders.
        case(0, &[8, 6], &[1, 8], &[1]),
        case(0, &[8, 6], &[1, 8], &[0]),
        case(0, &[8, 6], &[1, 8], &[0, 1]),
        case(0, &[5, 4, 30], &[1, 5, 20], &[0]),
        case(0, &[5, 4, 30], &[1, 5, 20], &[1]),
        case(0, &[5, 4, 30], &[1, 5, 20], &[2]),
        case(0, &[50, 4, 30], &[1, 50, 200], &[2, 1]),
        case(0, &[50, 4, 30], &[1, 50, 200], &[0, 2]),
        case(7, &[4, 90, 3], &[3, 12, 1], &[0, 2]),
        // Results at various distances from each other.
        case(0, &[3, 4, 5, 6], &[120, 30, 6, 1], &[1]),
        case(0, &[3, 4, 5, 6], &[120, 30, 6, 1], &[1, 3]),
        case(0, &[3, 4, 5, 6], &[120, 30, 6, 1], &[0, 2]),
        case(0, &[2, 3, 2, 3, 2, 3], &[108, 36, 18, 6, 3, 1], &[0, 2, 4]),
        case(0, &[2, 3, 2, 3, 2, 3], &[108, 36, 18, 6, 3, 1], &[1, 3, 5]),
        case(0, &[2, 3, 2, 2, 3, 2, 3, 2], &[432, 144, 72, 36, 12, 6, 2, 1], &[0, 3, 6, 7]),
        case(0, &[3, 2, 2, 3, 2, 2], &[1, 300, 3, 200, 7, 110], &[0, 2, 5]),
        case(0, &[3, 4, 5, 7], &[600, 141, 22, 3], &[1, 2, 3]),
        case(4, &[3, 4, 5, 48], &[6000, 1408, 260, 1], &[1, 2, 3]),
        // Overlapping positions.
        case(2, &[50, 9], &[1, 1], &[1]),
        case(0, &[50, 9], &[2, 3], &[0]),
        case(0, &[20, 8, 4], &[4, 16, 1], &[1, 2]),
        // Few results of many elements each, and many results of few elements.
        case(0, &[9000, 2], &[2, 1], &[0]),
        case(0, &[3, 2, 4000], &[8001, 4000, 1], &[0, 2]),
        case(0, &[3, 2, 4000], &[8000, 4000, 1], &[0, 2]),
        case(0, &[2, 40, 2, 40], &[3600, 45, 1800, 1], &[0, 1]),
        case(0, &[900, 2, 3], &[6, 1, 2], &[1]),
        case(0, &[900, 2, 3], &[7, 3, 1], &[2]),
        case(0, &[40, 40, 2], &[2, 80, 1], &[2, 0]),
        // Axes of length one, and empty axes.
        case(0, &[4, 1, 6], &[12, 0, 2], &[1]),
        case(0, &[4, 1, 6, 3], &[100, -3, 10, 2], &[1]),
        case(0, &[0, 3], &[3, 1], &[1]),
        case(0, &[2, 0, 3], &[3, 3, 1], &[2, 0]),
    ]
}

impl Case {
    /// Returns the indices of every result's elements, in the order of the axes.
    fn places(&self) -> Vec<Vec<usize>> {
        let of = |reduced: bool| -> Vec<usize> {
            let mut at = vec![0_usize];
            for axis in (0..self.shape.len()).filter(|axis| self.axes.contains(axis) == reduced) {
                let step =
                    |place: usize, i: usize| place.wrapping_add_signed(self.strides[axis] * i as isize);
                let along = |&place: &usize| (0..self.shape[axis]).map(move |i| step(place, i));
                at = at.iter().flat_map(along).collect();
            }
            at
        };
        let (kept, reduced) = (of(false), of(true));
        kept.iter().map(|first| reduced.iter().map(|at| self.offset + first + at).collect()).collect()
    }

    /// Returns elements up to the last one in the view. Elements outside of it are `poison`, which would
    /// show in any result.
    fn elements<T: Sample>(&self, poison: T) -> Vec<T> {
        let places = self.places();
        let len = places.iter().flatten().max().map_or(self.offset, |last| last + 1);
        let mut values = vec![poison; len];
        let seed = (len + self.shape.iter().sum::<usize>()) as u64;
        let wanted = small::<T>(len, seed);
        places.iter().flatten().for_each(|&at| values[at] = wanted[at]);
        values
    }

    fn view<'a, T: Sample>(&self, buffer: &'a Buffer<T>) -> View<'a, T> {
        buffer.view_strided(self.offset, &self.shape, &self.strides).unwrap()
    }

    fn of_each<T: Sample, R>(&self, values: &[T], of: impl Fn(&[T]) -> R) -> Vec<R> {
        let gathered = |places: &Vec<usize>| -> Vec<T> { places.iter().map(|&at| values[at]).collect() };
        self.places().iter().map(|places| of(&gathered(places))).collect()
    }

    fn check<T: Sample>(&self, poison: T) {
        let what = format!("{} of {self:?}", std::any::type_name::<T>());
        let values = self.elements(poison);
        // The buffer ends at the view's last element.
        let buffer = device().upload(&values).unwrap();
        let (view, axes) = (self.view(&buffer), &self.axes);
        let sums = self.of_each(&values, |of| T::total(of, false));
        assert_eq!(view.along(axes).unwrap().count(), sums.len(), "{what}");
        assert_eq!(
            reducer().reduce(op::Sum, view.along(axes).unwrap()).unwrap(),
            sums,
            "sums of {what}"
        );
        let largest = |of: &[T]| -> Located<T> { extreme(of, true).expect("results have elements") };
        let largest = self.of_each(&values, largest);
        assert_eq!(
            reducer().reduce(op::ArgMax, view.along(axes).unwrap()).unwrap(),
            largest,
            "argmax of {what}"
        );
    }
}

#[test]
fn every_result_uses_exactly_its_elements() {
    let _checked = no_findings();
    assert!(cases().len() > 50);
    cases().iter().for_each(|case| case.check(f32::NAN));
}

#[test]
fn every_type_has_its_results() {
    fn check<T: Sample>(poison: T) {
        for case in [
            case(0, &[4, 6, 16], &[96, 16, 1], &[0, 2]),
            case(0, &[3, 2, 1600], &[3200, 1600, 1], &[0, 2]),
            case(1, &[3, 6, 17], &[102, 17, 1], &[0, 2]),
            case(0, &[5, 4, 30], &[1, 5, 20], &[2]),
            case(1, &[3, 40, 5], &[600, 15, 3], &[1]),
            case(0, &[33, 16], &[32, 1], &[1]),
            case(0, &[33, 16], &[48, 1], &[0]),
        ] {
            case.check(poison);
        }
    }
    let _checked = no_findings();
    check(i8::MAX);
    check(u8::MAX);
    check(i16::MAX);
    check(u16::MAX);
    check(i32::MAX);
    check(u32::MAX);
    check(i64::MAX);
    check(u64::MAX);
    check(warpfold::f16::NAN);
    check(bf16::NAN);
    check(f64::NAN);
}

/// Skipped on a GPU, because launches depend on the size of the device.
#[test]
fn cases_cover_kernels_directions_and_grid_sizes() {
    if on_gpu() {
        return;
    }
    let (mut found, mut others) = (BTreeSet::new(), 0);
    for case in cases() {
        let buffer = device().upload(&case.elements(f32::NAN)).unwrap();
        match view_launch(&case.view(&buffer), &case.axes).unwrap() {
            Some(launch) => {
                found.insert((launch.kernel, launch.along, launch.share > 1));
            }
            None => others += 1,
        }
    }
    let (groups, elements) = (ViewKernel::Groups, ViewKernel::Elements);
    let both = [false, true].into_iter();
    let all = both.flat_map(|shared| {
        [(groups, true, shared), (elements, true, shared), (elements, false, shared)]
    });
    assert_eq!(found, all.collect());
    // The other cases take launches of rows, axes or all elements.
    assert!(others >= 15, "{others}");
}

/// Rows and columns of a submatrix, which have a pitch, take the kernels of rows and axes.
#[test]
fn parts_of_matrices_take_the_kernels_of_rows_and_axes() {
    let buffer = device().upload(&small::<f32>(4000, 3)).unwrap();
    let matrix = buffer.view(&[40, 100]).unwrap();
    let part = matrix.slice(0, 3..30, 1).unwrap().slice(1, 5..69, 1).unwrap();
    for (view, axes) in
        [(part, &[1][..]), (part, &[0]), (matrix, &[0, 1]), (matrix.transposed(), &[0, 1])]
    {
        assert_eq!(view_launch(&view, axes).unwrap(), None, "{axes:?}");
    }
    assert!(view_launch(&part, &[0, 1]).unwrap().is_some());
}

#[test]
fn random_views_are_correct() {
    let _checked = no_findings();
    let mut state = 7_u64;
    let mut below = |bound: u64| {
        state += 1;
        (splitmix(state) >> 20) % bound
    };
    for _ in 0..120 {
        let count = 1 + below(5) as usize;
        let mut order: Vec<usize> = (0..count).collect();
        (1..count).for_each(|at| order.swap(at, below(at as u64 + 1) as usize));
        let mut case = case(below(9) as usize, &vec![1; count], &vec![1; count], &[]);
        let mut stride = 1 + below(3) as isize;
        for &axis in &order {
            let largest = if stride < 8 { 33 } else { 5 };
            (case.shape[axis], case.strides[axis]) = (1 + below(largest) as usize, stride);
            stride *= case.shape[axis] as isize;
            stride += [0, 0, 1, 4, 5][below(5) as usize];
        }
        case.axes = (0..count).filter(|_| below(2) == 0).collect();
        // More than three axes of either kind may be too many.
        case.axes.truncate(3);
        while case.axes.is_empty() || count - case.axes.len() > 3 {
            let axis = below(count as u64) as usize;
            case.axes.retain(|&other| other != axis);
            case.axes.push(axis);
        }
        case.check(f32::NAN);
    }
}

/// Compares operations on views, which use every way of combining, with rows of the same elements.
#[test]
fn view_results_match_row_results() {
    let _checked = no_findings();
    macro_rules! check {
        ($T:ty: $($op:ident)*) => {
            for case in [
                case(0, &[4, 6, 16], &[96, 16, 1], &[0, 2]),
                case(1, &[4, 6, 17], &[110, 18, 1], &[0, 2]),
                case(0, &[9, 50, 3], &[7, 70, 1], &[1, 2]),
            ] {
                let values = case.elements(<$T as Sample>::of(5));
                let buffer = device().upload(&values).unwrap();
                let rows = device().upload(&case.of_each(&values, |of| of.to_vec()).concat()).unwrap();
                let rows = rows.rows(rows.len() / case.places().len()).unwrap();
                $(
                    let expected = reducer().reduce(op::$op, &rows).unwrap();
                    let found = reducer().reduce(op::$op, case.view(&buffer).along(&case.axes).unwrap()).unwrap();
                    assert_eq!(found, expected, "{} of {case:?}", stringify!($op));
                )*
            }
        };
    }
    check!(i32: Sum SumOfSquares SumOfMagnitudes Product Min Max MinMax ArgMin ArgMax CountNonZero
        BitAnd BitOr BitXor);
    check!(f32: Sum SumOfSquares SumOfMagnitudes Min Max MinMax ArgMin ArgMax CountNonZero);
}

#[test]
fn means_variances_and_logarithms_are_those_of_the_elements() {
    let _checked = no_findings();
    for case in [
        case(0, &[4, 3, 40], &[120, 40, 1], &[0, 2]),
        case(1, &[4, 3, 41], &[123, 41, 1], &[0, 2]),
        case(0, &[9, 50, 3], &[7, 70, 1], &[1, 2]),
    ] {
        let values = case.elements(f64::NAN);
        let buffer = device().upload(&values).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12 * (1.0 + b.abs());
        let expected = case.of_each(&values, |of| {
            let n = of.len() as f64;
            let mean = of.iter().sum::<f64>() / n;
            let variance = of.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n;
            (mean, variance, of.iter().map(|value| value.exp()).sum::<f64>().ln())
        });
        let spreads = reducer()
            .reduce(op::MeanAndVariance, case.view(&buffer).along(&case.axes).unwrap())
            .unwrap();
        let logs =
            reducer().reduce(op::LogSumExp, case.view(&buffer).along(&case.axes).unwrap()).unwrap();
        for ((spread, log), (mean, variance, of_log)) in spreads.into_iter().zip(logs).zip(expected) {
            let right = close(spread.mean, mean) && close(spread.variance, variance);
            assert!(right && close(log, of_log), "{spread:?}, {log} of {case:?}");
        }
    }
}

#[test]
fn reproducible_sums_match_the_cpu() {
    let _checked = no_findings();
    let value = |at: usize| (splitmix(at as u64) as i32 as f32) * 2.0_f32.powi(at as i32 % 60 - 30);
    for case in [
        case(0, &[4, 6, 16], &[96, 16, 1], &[0, 2]),
        case(1, &[4, 6, 17], &[110, 18, 1], &[0, 2]),
        case(0, &[9, 50, 3], &[7, 70, 1], &[1, 2]),
        case(0, &[30, 20], &[40, 2], &[1]),
    ] {
        let len = 1 + case.places().into_iter().flatten().max().unwrap();
        let values: Vec<f32> = (0..len).map(value).collect();
        let buffer = device().upload(&values).unwrap();
        let rows = case.of_each(&values, |of| of.to_vec());
        let bits = |sums: Vec<f32>| -> Vec<u32> { sums.into_iter().map(f32::to_bits).collect() };
        let found = reducer()
            .reduce(op::Sum.reproducible(), case.view(&buffer).along(&case.axes).unwrap())
            .unwrap();
        let here = cpu::reduce_rows(op::Sum.reproducible(), &rows.concat(), rows[0].len()).unwrap();
        assert_eq!(bits(found), bits(here), "{case:?}");
    }
}

/// The first of equal elements in the order of the view's axes wins, at any address; for -0 and NaN the
/// element itself is returned.
#[test]
fn first_index_follows_the_order_of_the_view() {
    let _checked = no_findings();
    let nan = f32::from_bits(0x7fc1_2345);
    for (shape, strides) in [([6, 3, 16], [48, 16, 1]), ([6, 3, 17], [51, 17, 1])] {
        let len = shape.iter().product::<usize>();
        let at = |index: [usize; 3]| -> usize { (0..3).map(|axis| index[axis] * strides[axis]).sum() };
        let mut values = vec![1.0_f32; len];
        // Equal elements in the first result, two NaN in the second, both zeros in the third.
        for (index, value) in [
            ([1, 0, 9], -3.0),
            ([4, 0, 2], -3.0),
            ([5, 1, 0], nan),
            ([2, 1, 5], nan),
            ([3, 2, 11], 0.0),
            ([3, 2, 10], -0.0),
        ] {
            values[at(index)] = value;
        }
        let buffer = device().upload(&values).unwrap();
        let view = buffer.view(&shape).unwrap();
        let row = shape[2] as u64;
        let places = |view: &View<'_, f32>| -> Vec<(u64, u32)> {
            let found = reducer().reduce(op::ArgMin, view.along(&[0, 2]).unwrap()).unwrap();
            found.iter().map(|place| (place.index, place.value.to_bits())).collect()
        };
        let (three, zero) = ((-3.0_f32).to_bits(), (-0.0_f32).to_bits());
        let expected = [(row + 9, three), (2 * row + 5, nan.to_bits()), (3 * row + 10, zero)];
        assert_eq!(places(&view), expected, "{shape:?}");
        // Swapping the axes changes the indices, and which element is first.
        let expected = [(2 * 6 + 4, three), (5, nan.to_bits()), (10 * 6 + 3, zero)];
        assert_eq!(places(&view.transposed()), expected, "{shape:?}");
    }
    // Elements of 8 bits, whose index within a vector is found at the end.
    let case = case(0, &[5, 4, 64], &[256, 64, 1], &[0, 2]);
    let mut values = vec![-1_i8; 5 * 256];
    [700, 701, 900, 3].into_iter().for_each(|at| values[at] = 9);
    let buffer = device().upload(&values).unwrap();
    let expected = case.of_each(&values, |of| extreme(of, true).unwrap());
    assert_eq!(
        reducer().reduce(op::ArgMax, case.view(&buffer).along(&case.axes).unwrap()).unwrap(),
        expected
    );
}

#[test]
fn contiguous_views_have_the_bits_of_rows_and_axes() {
    let values: Vec<f32> = (0..6000).map(|i| 1.0 / (i as f32 + 1.0)).collect();
    let buffer = device().upload(&values).unwrap();
    let bits = |sums: Vec<f32>| -> Vec<u32> { sums.into_iter().map(f32::to_bits).collect() };
    let view = buffer.view(&[20, 10, 30]).unwrap();
    let of_view = |axes: &[usize]| bits(reducer().reduce(op::Sum, view.along(axes).unwrap()).unwrap());
    let of_axes =
        |axes| bits(reducer().reduce(op::Sum, buffer.axes(&[20, 10, 30], axes).unwrap()).unwrap());
    assert_eq!(of_view(&[2]), bits(reducer().reduce(op::Sum, buffer.rows(30).unwrap()).unwrap()));
    assert_eq!(of_view(&[1]), of_axes(1..2));
    assert_eq!(of_view(&[1, 0]), of_axes(0..2));
    assert_eq!(of_view(&[0, 1, 2]), [reducer().sum(&buffer).unwrap().to_bits()]);
    let first = of_view(&[0, 2]);
    assert!((0..3).all(|_| of_view(&[0, 2]) == first));
}

#[test]
fn nested_views_have_the_expected_layout() {
    let buffer = device().upload(&small::<i32>(120, 5)).unwrap();
    let view = buffer.view(&[4, 5, 6]).unwrap();
    assert_eq!((view.shape(), view.strides(), view.offset()), (&[4, 5, 6][..], &[30, 6, 1][..], 0));
    assert_eq!((view.len(), view.is_empty(), view.buffer().len()), (120, false, 120));
    let turned = view.permuted(&[2, 0, 1]).unwrap();
    assert_eq!((turned.shape(), turned.strides()), (&[6, 4, 5][..], &[1, 30, 6][..]));
    let turned = view.transposed();
    assert_eq!((turned.shape(), turned.strides()), (&[6, 5, 4][..], &[1, 6, 30][..]));
    let part = view.slice(1, 1..5, 2).unwrap().slice(2, 3..4, 9).unwrap();
    assert_eq!((part.shape(), part.strides(), part.offset()), (&[4, 2, 1][..], &[30, 12, 1][..], 9));
    assert_eq!(part.along(&[0, 2]).unwrap().count(), 2);
    let none = view.slice(0, 4..4, 1).unwrap();
    assert_eq!((none.shape(), none.offset(), none.is_empty()), (&[0, 5, 6][..], 0, true));
    assert_eq!(reducer().reduce(op::Max, none.along(&[1]).unwrap()).unwrap(), []);
    assert!(format!("{part:?}").contains("strides: [30, 12, 1]"));
}

#[track_caller]
fn refused<R: std::fmt::Debug>(result: Result<R, Error>, words: &[&str]) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::View { .. }), "{error:?}");
    assert_eq!(error.to_string().lines().count(), 1);
    says(&error, words);
}

#[test]
fn invalid_views_are_rejected() {
    let buffer = device().upload(&small::<i32>(24, 1)).unwrap();
    refused(buffer.view(&[2, 3, 5]), &["[2, 3, 5]", "24 elements", "product is 24"]);
    refused(buffer.view(&[usize::MAX, 2]), &["product is 24"]);
    refused(device().upload(&[1]).unwrap().view(&[]), &["0 axes", "1 to 8"]);
    refused(device().upload(&[1]).unwrap().view(&[1; 9]), &["9 axes", "1 to 8"]);
    let strided = |offset, shape: &[usize], strides: &[isize]| {
        buffer.view_strided(offset, shape, strides).map(|view| view.len())
    };
    assert_eq!(strided(3, &[3, 7], &[7, 1]).unwrap(), 21);
    refused(strided(4, &[3, 7], &[7, 1]), &["[3, 7]", "[7, 1]", "element 24", "24 elements", "smaller"]);
    refused(strided(0, &[3, 7], &[1]), &["2 lengths and 1 strides"]);
    refused(strided(0, &[3, 2], &[1, 0]), &["axis 1 has stride 0", "2 positions", "1 or more"]);
    refused(
        strided(9, &[3, 2], &[-4, 1]),
        &["axis 0 has the negative stride -4", "give 4", "other end"],
    );
    refused(strided(9, &[3], &[isize::MIN]), &["axis 0 has the negative stride -9223372036854775808"]);
    refused(strided(usize::MAX, &[2], &[1]), &["past the last addressable element"]);
    refused(strided(0, &[usize::MAX, 2], &[isize::MAX, 1]), &["past the last addressable element"]);
    refused(strided(25, &[0], &[1]), &["begins at element 25", "24 elements"]);
    assert_eq!(strided(24, &[0, usize::MAX, usize::MAX], &[1, 1, 1]).unwrap(), 0);
    assert_eq!(strided(0, &[1, 1], &[0, -7]).unwrap(), 1);
    // The positions overflow, although all of them are inside.
    let wide = [1 << 13; 8];
    // SAFETY: nothing is read.
    let large = unsafe { Buffer::<i8>::from_raw_parts(device(), 0x1000, 1 << 17, ()) }.unwrap();
    refused(large.view_strided(0, &wide, &[1; 8]), &["smaller offset, or shorter axes"]);

    let view = buffer.view(&[2, 3, 4]).unwrap();
    refused(view.permuted(&[0, 1]), &["[0, 1]", "3 axes", "once"]);
    refused(view.permuted(&[0, 1, 1]), &["[0, 1, 1]"]);
    refused(view.permuted(&[0, 1, 3]), &["[0, 1, 3]"]);
    refused(view.slice(3, 0..1, 1), &["axis 3", "3 axes", "0..3"]);
    refused(view.slice(1, 0..4, 1), &["0..4 of axis 1", "has 3"]);
    #[allow(clippy::reversed_empty_ranges)]
    refused(view.slice(1, 2..1, 1), &["2..1 of axis 1"]);
    refused(view.slice(1, 0..2, 0), &["step of 0 along axis 1"]);
}

#[test]
fn invalid_reductions_are_refused_before_launch() {
    let buffer = device().upload(&small::<i32>(24, 1)).unwrap();
    let view = buffer.view(&[2, 3, 4]).unwrap();
    let of = |axes: &[usize]| view.along(axes).map(drop);
    refused(of(&[3]), &["axis 3", "3 axes", "0..3"]);
    refused(of(&[0, 2, 0]), &["axis 0 is named twice", "[0, 2, 0]"]);
    refused(of(&[]), &["no axis", "0..3"]);
    let none = view.slice(1, 1..1, 1).unwrap();
    refused(none.along(&[1]).map(drop), &["[1]", "0 elements", "[2, 0, 4]"]);
    assert_eq!(reducer().reduce(op::Sum, none.along(&[0]).unwrap()).unwrap(), []);
    let nothing = device().upload::<i32>(&[]).unwrap();
    let large = nothing.view(&[0, usize::MAX, usize::MAX]).unwrap();
    assert_eq!(reducer().reduce(op::Sum, large.along(&[2]).unwrap()).unwrap(), []);

    let stream = device().stream().unwrap();
    let mut outputs = device().outputs::<i64>(5).unwrap();
    let on = reducer().on(&stream);
    refused(
        on.reduce_into(op::Sum, view.along(&[0, 2]).unwrap(), &mut outputs),
        &["room for 5 results", "3 results of a view"],
    );
    // Four axes that cannot be merged.
    let apart = device().upload(&[1_i32; 1000]).unwrap();
    let apart = apart.view_strided(0, &[2, 2, 2, 2, 2], &[500, 200, 90, 40, 11]).unwrap();
    let mut outputs = device().outputs::<i64>(16).unwrap();
    let of_four = reducer().on(&stream).reduce_into(op::Sum, apart.along(&[4]).unwrap(), &mut outputs);
    refused(of_four, &["4 result axes", "two steps"]);
    refused(
        reducer().reduce(op::Sum, apart.along(&[0, 1, 2, 3]).unwrap()),
        &["4 reduced axes", "two steps"],
    );
    assert_eq!(outputs.read().unwrap(), [0; 16]);

    // SAFETY: the call is refused before it reads anything.
    let large = unsafe { Buffer::<i8>::from_raw_parts(device(), 0x1000, 1 << 20, ()) }.unwrap();
    let windows = large.view_strided(0, &[1 << 18, 1 << 18], &[1, 1]).unwrap();
    let error = reducer().reduce(op::Sum, windows.along(&[1]).unwrap()).unwrap_err();
    assert!(matches!(error, Error::TooManyElements { n, .. } if n == 1 << 36), "{error:?}");
}

#[test]
fn results_are_left_in_device_memory_and_recorded() {
    let _checked = no_findings();
    let (stream, case) = (device().stream().unwrap(), case(0, &[4, 6, 16], &[96, 16, 1], &[0, 2]));
    let values = case.elements(f32::NAN);
    let expected = case.of_each(&values, |of| f32::total(of, false));
    let buffer = device().upload(&values).unwrap();
    let mut sums = device().outputs::<f32>(6).unwrap();
    let view = case.view(&buffer);
    reducer().on(&stream).reduce_into(op::Sum, view.along(&case.axes).unwrap(), &mut sums).unwrap();
    let mut recorder = reducer().record();
    let recorded = recorder.reduce(op::Sum, view.along(&case.axes).unwrap()).unwrap();
    let shared = buffer.view(&[2, 12, 16]).unwrap();
    let outputs = device().outputs(12).unwrap();
    let left = recorder.reduce_into(op::Max, shared.along(&[2, 0]).unwrap(), outputs).unwrap();
    let largest = reducer().reduce(op::Max, shared.along(&[2, 0]).unwrap()).unwrap();
    let mut recording = recorder.finish().unwrap();
    drop(buffer);
    for _ in 0..3 {
        let results = recording.run().unwrap();
        assert_eq!(results.get(&recorded), expected);
        assert_eq!(results.outputs(&left).read().unwrap(), largest);
    }
    assert_eq!(sums.read().unwrap(), expected);
    let total = reducer().on(&stream).reduce(op::Sum, &sums.into_buffer()).unwrap();
    assert_eq!(total.wait().unwrap(), expected.iter().sum::<f32>());
}

#[test]
fn kernels_for_views_are_loaded_ahead() {
    fn prepared<T: Element>() {
        let buffer = device().upload(&[T::zeroed(); 24]).unwrap();
        let view = buffer.view_strided(0, &[2, 3], &[7, 5]).unwrap();
        let reducer = Reducer::new(device()).unwrap();
        reducer.prepare(op::Sum, view.along(&[0]).unwrap()).unwrap();
    }
    prepared::<u8>();
    prepared::<f64>();
}

/// The axes are more than the kernels support, so the elements are first copied to contiguous rows.
#[test]
fn any_axes_of_an_array_without_gaps_are_reduced() {
    fn check<T: Element + PartialEq + PartialOrd + std::fmt::Debug>(values: &[T])
    where
        op::ArgMax: op::RowsOperation<T, Left = Located<T>>,
    {
        let shape = [2, 3, 2, 2, 3, 2, 1, 4];
        let buffer = device().upload(values).unwrap();
        let view = buffer.view(&shape).unwrap();
        for axes in [&[0, 2, 4, 7][..], &[1, 3, 5, 7], &[7, 0, 5, 2], &[0, 3, 5, 6, 7], &[1, 4]] {
            let mut largest: Vec<Option<Located<T>>> = Vec::new();
            let mut seen: Vec<u64> = Vec::new();
            for (place, &value) in values.iter().enumerate() {
                let (mut rest, mut result, mut apart) = (place, 0, 1);
                for axis in (0..shape.len()).rev() {
                    let index = rest % shape[axis];
                    rest /= shape[axis];
                    if !axes.contains(&axis) {
                        result += index * apart;
                        apart *= shape[axis];
                    }
                }
                let count = largest.len().max(result + 1);
                largest.resize(count, None);
                seen.resize(count, 0);
                if largest[result].is_none_or(|known| value > known.value) {
                    largest[result] = Some(Located { index: seen[result], value });
                }
                seen[result] += 1;
            }
            let found = reducer().reduce(op::ArgMax, view.along(axes).unwrap()).unwrap();
            let largest: Vec<_> = largest.into_iter().map(Option::unwrap).collect();
            assert_eq!(found, largest, "{axes:?} of {}", std::any::type_name::<T>());
        }
    }
    let _checked = no_findings();
    let numbers = || (0..576_u32).map(|place| place * 37 % 251);
    check(&numbers().map(|number| number as u8).collect::<Vec<_>>());
    check(&numbers().map(|number| number as i16 - 125).collect::<Vec<_>>());
    check(&numbers().map(|number| number as f32 - 125.5).collect::<Vec<_>>());
    check(&numbers().map(|number| f64::from(number) * -1e300).collect::<Vec<_>>());
    // Reduced axes and other axes alternate.
    let ones = device().upload(&[1.0_f64; 256]).unwrap();
    let view = ones.view(&[2; 8]).unwrap();
    let sums = reducer().reduce(op::Sum, view.along(&[0, 2, 4, 6]).unwrap()).unwrap();
    assert_eq!(sums, [16.0; 16]);
}
