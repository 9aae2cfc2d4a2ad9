//! The forms of results: each is computed from the operation's own result, and has the size that the
//! host expects.

use warpfold::{
    Buffer, Element, Plain,
    internal::{Dtype, DynamicOp, Form, Op, Written, reduce_pieces_on_cpu, result_bytes},
};

use crate::common::{Sample, device, reducer, small};

const FORMS: [Form; 10] = [
    Form::FLOAT,
    Form::INDEX,
    Form::ANY,
    Form::ALL,
    Form::MAGNITUDE,
    Form::MIN_AND_MAX,
    Form::MEAN,
    Form::VARIANCE,
    Form::DEVIATION,
    Form::VARIANCE_AND_MEAN,
];

const LEN: usize = 5;

/// Returns the results' bytes: that of the whole buffer, and those of its rows.
fn reduce<T: Element>(op: Op, buffer: &Buffer<T>) -> [Vec<u8>; 2] {
    fn run<T: Element, R: Plain + AsRef<[u8]>>(op: Op, buffer: &Buffer<T>) -> [Vec<u8>; 2] {
        let op = DynamicOp::<R>::new(op, T::DTYPE);
        let whole = reducer().reduce(op, buffer).unwrap().expect("there are elements");
        let rows = reducer().reduce(op, buffer.rows(LEN).unwrap()).unwrap();
        let rows = rows.iter().flat_map(|row| row.as_ref().to_vec());
        [whole.as_ref().to_vec(), rows.collect()]
    }
    match result_bytes(op, T::DTYPE) {
        1 => run::<T, [u8; 1]>(op, buffer),
        2 => run::<T, [u8; 2]>(op, buffer),
        4 => run::<T, [u8; 4]>(op, buffer),
        8 => run::<T, [u8; 8]>(op, buffer),
        _ => run::<T, [u8; 16]>(op, buffer),
    }
}

/// Returns the bytes of a form of some results of `n` elements each.
fn expected(form: Form, outputs: &[u8], n: usize, dtype: Dtype) -> Vec<u8> {
    let double = |at: &[u8]| f64::from_le_bytes(at[..8].try_into().unwrap());
    let float = |number: f64| match dtype {
        Dtype::F16 | Dtype::Bf16 | Dtype::F32 => (number as f32).to_le_bytes().to_vec(),
        _ => number.to_le_bytes().to_vec(),
    };
    let count = |at: &[u8]| u64::from_le_bytes(at[..8].try_into().unwrap()) as usize;
    let variance = |at: &[u8]| double(&at[8..]);
    let every = |size: usize, of: &dyn Fn(&[u8]) -> Vec<u8>| outputs.chunks(size).flat_map(of).collect();
    let [one, two] = [dtype.size(), 2 * dtype.size()];
    match form {
        Form::FLOAT => every(8, &|at| float(double(at))),
        Form::INDEX => every(16, &|at| at[..8].to_vec()),
        Form::ANY => every(8, &|at| vec![u8::from(count(at) != 0)]),
        Form::ALL => every(8, &|at| vec![u8::from(count(at) == n)]),
        Form::MEAN => every(16, &|at| float(double(at))),
        Form::VARIANCE => every(16, &|at| float(variance(at))),
        Form::DEVIATION => every(16, &|at| float(variance(at).sqrt())),
        Form::VARIANCE_AND_MEAN => {
            [expected(Form::VARIANCE, outputs, n, dtype), expected(Form::MEAN, outputs, n, dtype)]
                .concat()
        }
        Form::MIN_AND_MAX => {
            [every(two, &|at| at[..one].to_vec()), every(two, &|at: &[u8]| at[one..].to_vec())].concat()
        }
        _ => unreachable!("{form:?}"),
    }
}

/// Returns the bytes of the CPU's result.
fn reduce_on_cpu<T: Element>(op: Op, elements: &[T]) -> Vec<u8> {
    reduce_pieces_on_cpu(op, T::DTYPE, bytemuck::cast_slice(elements), 1, |_| 0..elements.len()).unwrap()
}

fn check<T: Sample>() {
    let elements: Vec<T> = small(3 * LEN, 1);
    let buffer = device().upload(&elements).unwrap();
    for op in Op::all().filter(|op| op.takes(T::DTYPE)) {
        let outputs = reduce(op, &buffer);
        let forms = FORMS.map(|form| Op { form, ..op }).into_iter().filter(|op| op.takes(T::DTYPE));
        for op in forms {
            let found = reduce(op, &buffer);
            let here = reduce_on_cpu(op, &elements);
            if op.form == Form::MAGNITUDE {
                assert_eq!(here, found[0], "{op} of {} on the CPU", T::DTYPE);
            } else {
                let output = reduce_on_cpu(Op { form: Form::OUTPUT, ..op }, &elements);
                let expected = expected(op.form, &output, 3 * LEN, T::DTYPE);
                assert_eq!(here, expected, "{op} of {} on the CPU as {:?}", T::DTYPE, op.form);
            }
            for ((found, outputs), n) in found.iter().zip(&outputs).zip([3 * LEN, LEN]) {
                let what = format!("{op} of {} as {:?}", T::DTYPE, op.form);
                if op.form == Form::MAGNITUDE {
                    let count = outputs.len() / (2 * T::DTYPE.size());
                    let float = if matches!(T::DTYPE, Dtype::F32 | Dtype::Bf16) { 4 } else { 8 };
                    assert_eq!(found.len(), count * float, "{what}");
                } else {
                    assert_eq!(*found, expected(op.form, outputs, n, T::DTYPE), "{what}");
                }
            }
        }
    }
}

#[test]
fn every_form_is_computed_from_the_operations_result() {
    check::<f32>();
    check::<f64>();
    check::<half::bf16>();
    check::<i8>();
    check::<u64>();
}

#[test]
fn index_form_does_not_reuse_another_operations_result() {
    let buffer = device().upload(&[3_i32, 1, 2]).unwrap();
    let place = Op { form: Form::INDEX, ..warpfold::internal::OpKind::ArgMin.plain() };
    assert_eq!(place.written(), Written::Place);
    let place = DynamicOp::<[u8; 8]>::new(place, Dtype::I32);
    let (place, least) = reducer().reduce((place, warpfold::op::Min), &buffer).unwrap();
    assert_eq!((place.map(u64::from_le_bytes), least), (Some(1), Some(1)));
}
