//! Every operation of every type, on the simulator and on the CPU, against the library's CPU results.

use half::{bf16, f16};
use serde_json::{Value, json};
use warpfold::{
    Element, Float, Integer, cpu,
    internal::{Dtype, Op, OpKind},
    op::{self, Operation},
};
use warpfold_suite::{Data, Scalar, with_data};

use crate::{
    assert_refused, command,
    files::{put, vector},
    lines,
};

/// Rows and columns of the matrix of all elements.
const SHAPE: [usize; 2] = [3, 37];

const OFFSETS: [u32; 5] = [2, 2, 41, 100, 111];

type Expected = Vec<(&'static str, Value)>;

fn printed(number: impl Scalar) -> Value {
    serde_json::from_str(&serde_json::to_string(&number.value()).unwrap()).unwrap()
}

fn of<T: Element, O: Operation<T>>(op: O, values: &[T]) -> O::Output {
    cpu::reduce(op, values).unwrap()
}

fn expected<T: Scalar + Element<Sum: Scalar>>(values: &[T]) -> Expected {
    let value = |value: Value| json!({ "value": value });
    let (sum, squares) = (of(op::Sum, values), of(op::SumOfSquares, values));
    let magnitudes = of(op::SumOfMagnitudes, values);
    let nothing = |fields: &[&str]| fields.iter().map(|field| (*field, Value::Null)).collect::<Value>();
    let ends = of(op::MinMax, values);
    let (min, max) = (ends.map(|ends| ends.min), ends.map(|ends| ends.max));
    let place = |place: Option<warpfold::Located<T>>| {
        place.map_or(
            nothing(&["index", "value"]),
            |place| json!({ "index": place.index, "value": printed(place.value) }),
        )
    };
    let spread = of(op::MeanAndVariance, values);
    let magnitude = |number: T| number.value().to_f64().abs();
    let largest = ends.map_or(0.0, |ends| magnitude(ends.min).max(magnitude(ends.max)));
    let double = |number: Option<f64>| number.map(printed);
    vec![
        ("sum", value(printed(sum))),
        ("sumsq", value(printed(squares))),
        ("sumabs", value(printed(magnitudes))),
        ("l1", value(printed(magnitudes.value().to_f64()))),
        ("product", value(printed(of(op::Product, values)))),
        ("min", value(min.map_or(Value::Null, printed))),
        ("max", value(max.map_or(Value::Null, printed))),
        ("minmax", json!({ "min": min.map(printed), "max": max.map(printed) })),
        ("argmin", place(of(op::ArgMin, values))),
        ("argmax", place(of(op::ArgMax, values))),
        ("nonzero", value(json!(of(op::CountNonZero, values)))),
        (
            "spread",
            json!({
                "mean": double(spread.map(|spread| spread.mean)),
                "variance": double(spread.map(|spread| spread.variance)),
            }),
        ),
        ("mean", value(json!(double(of(op::Mean, values))))),
        ("variance", value(json!(double(spread.map(|spread| spread.variance))))),
        ("std", value(json!(double(spread.map(|spread| spread.standard_deviation()))))),
        ("l2", value(printed(of(op::L2Norm, values)))),
        ("hmean", value(json!(double(of(op::HarmonicMean, values))))),
        ("maxnorm", value(printed(largest))),
        ("describe", described(values)),
    ]
}

fn described<T: Scalar + Element>(values: &[T]) -> Value {
    let op::Description { count, nan_count, mean, variance, min, max } = cpu::describe(values).unwrap();
    let of_some = |number: f64| (count > 0).then(|| printed(number));
    let mut fields = json!({
        "mean": of_some(mean),
        "variance": of_some(variance),
        "min": min.map(printed),
        "max": max.map(printed),
    });
    use warpfold_suite::Value::{Bf16, F16, F32, F64};
    let is_float = |value: &T| matches!(value.value(), F16(_) | Bf16(_) | F32(_) | F64(_));
    if values.iter().any(is_float) {
        fields["nan_count"] = json!(nan_count);
    }
    fields
}

fn expected_of_integers<T: Scalar + Integer + Element<Sum: Scalar>>(values: &[T]) -> Expected {
    let bits = |value: T| json!({ "value": printed(value) });
    let mut all = expected(values);
    all.push(("and", bits(of(op::BitAnd, values))));
    all.push(("or", bits(of(op::BitOr, values))));
    all.push(("xor", bits(of(op::BitXor, values))));
    all
}

fn expected_of_floats<T: Scalar + Float + Element<Sum: Scalar>>(values: &[T]) -> Expected {
    let mut all = expected(values);
    all.push(("logsumexp", json!({ "value": printed(of(op::LogSumExp, values)) })));
    all.push(("moment3", json!({ "value": of(op::ThirdCentralMoment, values).map(printed) })));
    all.push(("nanhmean", json!({ "value": of(op::HarmonicMean.skip_nan(), values).map(printed) })));
    let moment = of(op::ThirdCentralMoment.skip_nan(), values);
    all.push(("nanmoment3", json!({ "value": moment.map(printed) })));
    let value = |number: T::Sum| json!({ "value": printed(number) });
    all.push(("nansum", value(of(op::Sum.skip_nan(), values))));
    all.push(("nanproduct", value(of(op::Product.skip_nan(), values))));
    let magnitudes = of(op::SumOfMagnitudes.skip_nan(), values);
    all.push(("nansumabs", value(magnitudes)));
    all.push(("nanl1", json!({ "value": printed(magnitudes.value().to_f64()) })));
    all.push(("nansumsq", value(of(op::SumOfSquares.skip_nan(), values))));
    all.push(("nanl2", json!({ "value": printed(of(op::L2Norm.skip_nan(), values)) })));
    let ends = of(op::MinMax.skip_nan(), values);
    let end = |end: fn(warpfold::Ends<T>) -> T| ends.map(|ends| printed(end(ends)));
    all.push(("nanminmax", json!({ "min": end(|ends| ends.min), "max": end(|ends| ends.max) })));
    let magnitude = |number: T| number.value().to_f64().abs();
    let largest = ends.map_or(0.0, |ends| magnitude(ends.min).max(magnitude(ends.max)));
    all.push(("nanmaxnorm", json!({ "value": printed(largest) })));
    all.push(("nancount", json!({ "value": of(op::CountNan, values) })));
    let least = of(op::ArgMin.skip_nan(), values);
    all.push(("nanmin", json!({ "value": least.map(|least| printed(least.value)) })));
    all.push(("nanargmin", json!({ "index": least.map(|least| least.index) })));
    let greatest = of(op::ArgMax.skip_nan(), values);
    all.push(("nanmax", json!({ "value": greatest.map(|greatest| printed(greatest.value)) })));
    all.push(("nanargmax", json!({ "index": greatest.map(|greatest| greatest.index) })));
    let spread = of(op::MeanAndVariance.skip_nan(), values);
    all.push(("nanspread", json!({ "mean": spread.map(|spread| printed(spread.mean)) })));
    all
}

/// Returns whether a result is right: bit for bit, unless the operation rounds floats.
fn is_right(op: &str, found: &Value, expected: &Value) -> bool {
    let rounded = matches!(
        op,
        "spread"
            | "variance"
            | "std"
            | "logsumexp"
            | "nanspread"
            | "describe"
            | "hmean"
            | "nanhmean"
            | "moment3"
            | "nanmoment3"
    );
    match (found.as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) if rounded => (found - expected).abs() <= 1e-5 * expected.abs(),
        _ => found == expected,
    }
}

fn check(data: &Data, how: &str, pieces: &[Vec<usize>], expected: impl Fn(&[usize]) -> Expected) {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.bin", data.as_bytes());
    put(folder.path(), "offsets.npy", vector("<u4", &OFFSETS));
    let dtype = data.dtype();
    let ops: Vec<&str> = expected(&pieces[0]).iter().map(|(op, _)| *op).collect();
    let all = format!("a.bin --dtype {dtype} {how} --op {}", ops.join(","));
    let found = lines(folder.path(), &all);
    assert_eq!(found.len(), ops.len() * pieces.len(), "{all}");
    for (piece, places) in pieces.iter().enumerate() {
        for (at, (op, expected)) in expected(places).iter().enumerate() {
            let found = &found[at * pieces.len() + piece];
            assert_eq!((&found["op"], &found["count"]), (&json!(op), &json!(places.len())));
            for (field, expected) in expected.as_object().unwrap() {
                assert!(
                    is_right(op, &found[field], expected),
                    "{all}: piece {piece}, {field} of {op} is {}, and not {expected}",
                    found[field]
                );
            }
        }
    }
}

fn cuts() -> [(String, Vec<Vec<usize>>); 4] {
    let [rows, width] = SHAPE;
    let shape = format!("--shape {rows},{width}");
    let columns = (0..width).map(|column| (0..rows).map(|row| row * width + column).collect());
    let segments = OFFSETS.windows(2).map(|ends| (ends[0] as usize..ends[1] as usize).collect());
    [
        (String::new(), vec![(0..rows * width).collect()]),
        (format!("{shape} --axis 0"), columns.collect()),
        (
            format!("{shape} --axis -1"),
            (0..rows).map(|row| (row * width..(row + 1) * width).collect()).collect(),
        ),
        ("--offsets offsets.npy".to_owned(), segments.collect()),
    ]
}

macro_rules! check_all {
    ($data:expr, $how:expr, $pieces:expr, $($integer:ident)*; $($float:ident)*) => {
        match $data {
            $(Data::$integer(values) => check($data, $how, $pieces, |places| {
                expected_of_integers(&places.iter().map(|&place| values[place]).collect::<Vec<_>>())
            }),)*
            $(Data::$float(values) => check($data, $how, $pieces, |places| {
                expected_of_floats(&places.iter().map(|&place| values[place]).collect::<Vec<_>>())
            }),)*
        }
    };
}

/// Returns elements whose sums and products are exact.
fn exact(dtype: Dtype) -> Data {
    let signed = !matches!(dtype, Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64);
    Data::of_integers(dtype, SHAPE[0] * SHAPE[1], |place| match place % 11 {
        3 | 8 => 2,
        5 if signed => -1,
        _ if place == 50 => 0,
        _ => 1,
    })
}

#[test]
fn every_operation_and_dtype_matches_the_library() {
    for (number, &dtype) in Dtype::ALL.iter().enumerate() {
        let data = exact(dtype);
        for (at, (how, pieces)) in cuts().into_iter().enumerate() {
            // The program handles types and cuts independently, so a quarter of the cuts of each type
            // are run on the simulator.
            let devices: &[&str] = if at == number % 4 { &["sim", "cpu"] } else { &["cpu"] };
            for device in devices {
                let how = format!("{how} --device {device}");
                check_all!(&data, &how, &pieces, I8 U8 I16 U16 I32 U32 I64 U64; F16 Bf16 F32 F64);
            }
        }
    }
    // All operations of the library have an expected result, except sums and L1 norms without a name:
    // `--level` selects the reproducible ones, and the element type the wider ones.
    let all = expected_of_integers(&[1]).into_iter().chain(expected_of_floats(&[1.0]));
    let named: Vec<&str> = all.map(|(op, _)| op).collect();
    let is_sum = |op: Op| op.is_binned() || op.wide || op.kind == OpKind::L1Norm;
    assert!(Op::all().all(|op| is_sum(op) || named.contains(&op.name())));
}

#[test]
fn everywhere_sums_are_bit_identical_on_simulator_and_cpu() {
    fn everywhere<T: Element<Sum: Scalar>>(values: &[T]) -> Value {
        printed(of(op::Sum.reproducible(), values))
    }
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "offsets.npy", vector("<u4", &OFFSETS));
    for dtype in [Dtype::F16, Dtype::Bf16, Dtype::F32, Dtype::F64] {
        let data = Data::random(dtype, SHAPE[0] * SHAPE[1], 7);
        put(folder.path(), "a.bin", data.as_bytes());
        for (how, _) in cuts() {
            let run = |device: &str| {
                let ops = "sum,sumsq,sumabs,mean,l1,max,argmin,spread,variance,std,nansum,nansumsq,nansumabs,\
                           nanspread,describe";
                let level = "--level everywhere";
                let how = format!("a.bin --dtype {dtype} {how} --op {ops} {level} --device {device}");
                lines(folder.path(), &how)
            };
            let (sim, cpu) = (run("sim"), run("cpu"));
            assert_eq!(sim, cpu, "{dtype} {how}");
            if how.is_empty() {
                let sum = match &data {
                    Data::F16(values) => everywhere::<f16>(values),
                    Data::Bf16(values) => everywhere::<bf16>(values),
                    Data::F32(values) => everywhere::<f32>(values),
                    Data::F64(values) => everywhere::<f64>(values),
                    _ => unreachable!("they are floats"),
                };
                assert_eq!(sim[0]["value"], sum, "{dtype}");
            }
        }
    }
    // The level matters: the ordinary sum of these elements differs.
    let data = Data::F32(vec![1e30, 1.0, -1e30, 0.1, -0.1]);
    put(folder.path(), "a.bin", data.as_bytes());
    let everywhere = &lines(folder.path(), "a.bin --dtype f32 --level everywhere --device sim")[0];
    let ordinary = &lines(folder.path(), "a.bin --dtype f32 --device cpu")[0];
    assert_eq!((&everywhere["value"], &ordinary["value"]), (&json!(0.0), &json!(1.1)));
    let data = Data::F32((0..3000_u16).map(|at| 1e6 + f32::from(at % 7) / 16.0).collect());
    put(folder.path(), "a.bin", data.as_bytes());
    // At both levels, the mean of elements far from 0 is accurate.
    for level in ["everywhere", "run-to-run"] {
        let how = format!("a.bin --dtype f32 --op spread --device sim --level {level}");
        let spread = &lines(folder.path(), &how)[0];
        assert_eq!(spread["mean"], json!(1e6 + 3.0 / 16.0 - 3.0 / 3000.0 / 16.0 * 2.0), "{level}");
    }
    // With a NaN among the elements, `nansum` returns the reproducible sum of the others.
    let data = Data::F32(vec![1e30, 1.0, -1e30, 0.1, -0.1, f32::NAN]);
    put(folder.path(), "a.bin", data.as_bytes());
    for device in ["sim", "cpu"] {
        let how = format!("a.bin --dtype f32 --op sum,nansum --level everywhere --device {device}");
        let lines = lines(folder.path(), &how);
        assert_eq!((&lines[0]["value"], &lines[1]["value"]), (&json!("NaN"), &json!(0.0)), "{device}");
    }
    let ordinary = &lines(folder.path(), "a.bin --dtype f32 --op nansum --device cpu")[0];
    assert_eq!(ordinary["value"], json!(1.1));
}

#[test]
fn unsupported_operations_are_refused_before_reducing() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.npy", vector("<f4", &[1.0_f32]));
    for (rest, says) in [
        ("--op sum,xor", &["--op xor takes integers", "are f32"][..]),
        ("--op logsumexp --level everywhere", &["logsumexp of f32 has no result with the same bits"]),
        ("--op nanproduct --level everywhere", &["nanproduct of f32", "--level run-to-run"]),
        ("--op product --level everywhere", &["product of f32"]),
        ("--op median", &["invalid value 'median'", "sum", "argmax", "maxnorm"]),
        ("--op sum,max,sum", &["--op has sum twice"]),
    ] {
        let arguments = format!("a.npy --device cpu {rest}");
        assert_refused(&arguments, &command(folder.path(), &arguments).output().unwrap(), says);
    }
}

#[test]
fn printed_numbers_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let text = |data: Data, op: &str| {
        put(folder.path(), "a.bin", data.as_bytes());
        let arguments = format!("a.bin --dtype {} --op {op} --json --device cpu", data.dtype());
        let output = command(folder.path(), &arguments).output().unwrap();
        let line = String::from_utf8(output.stdout).unwrap();
        let (_, value) = line.trim_end().rsplit_once("\"value\":").unwrap();
        value.strip_suffix('}').unwrap().to_owned()
    };
    for (data, printed) in [
        (Data::U64(vec![u64::MAX]), "18446744073709551615"),
        (Data::I64(vec![i64::MIN]), "-9223372036854775808"),
        (Data::F32(vec![0.1]), "0.1"),
        (Data::F32(vec![-0.0]), "-0.0"),
        (Data::F64(vec![0.1 + 0.2]), "0.30000000000000004"),
        (Data::F64(vec![1e300]), "1e+300"),
        (Data::F16(vec![f16::from_f32(0.1)]), "0.0999755859375"),
        (Data::F32(vec![f32::NAN]), "\"NaN\""),
        (Data::F64(vec![f64::INFINITY]), "\"inf\""),
        (Data::F32(vec![f32::NEG_INFINITY]), "\"-inf\""),
    ] {
        let kept = with_data!(&data, values => values[0].value().to_string());
        assert_eq!(text(data, "max"), printed, "{kept}");
    }
}
