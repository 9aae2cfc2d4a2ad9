//! Operations that are given as text: their results against functions of Rust, and what is refused.

use std::{slice, sync::Arc};

use warpfold::{
    Buffers, Count, Element, Error, Group, Reducer,
    internal::{Blocks, Choice, KernelKind, Ptx, PtxSource, ptx, reducer_of_ptx},
    op,
};

use crate::{
    common::{Sample, device, no_findings, reducer, reducer_of, says, splitmix},
    group::{on_four, reducers},
};

type Named<T> = (&'static str, fn(T) -> T);

/// Expressions of every type, whose values of small integers are small integers.
const EXPRESSIONS: [Named<f64>; 12] = [
    ("x", |x| x),
    ("3", |_| 3.0),
    ("x * x + 2", |x| x * x + 2.0),
    ("2 * x ** 2 + x ** 0 + x ** 5", |x| 2.0 * x * x + 1.0 + x.powi(5)),
    ("x > 2 ? 2 * x : x != 1 ? x + 1 : 7", |x| {
        if x > 2.0 {
            2.0 * x
        } else if x != 1.0 {
            x + 1.0
        } else {
            7.0
        }
    }),
    ("(x == 3) + (x >= 2 && !(x == 6)) * 4", |x| {
        f64::from(x == 3.0) + 4.0 * f64::from(x >= 2.0 && x != 6.0)
    }),
    ("x < 1 || x <= 4 && x > 2", |x| f64::from(x < 1.0 || x <= 4.0 && x > 2.0)),
    ("min(x, 4) + max(x, 2) * 2", |x| x.min(4.0) + 2.0 * x.max(2.0)),
    ("abs(x)", f64::abs),
    ("-(-x) - (0 - x)", |x| x + x),
    ("x / 1", |x| x),
    ("(x > 3 ? x < 6 : x == 1) ? 2 : 5", |x| {
        if if x > 3.0 { x < 6.0 } else { x == 1.0 } { 2.0 } else { 5.0 }
    }),
];

fn sample<T: Sample>(n: usize) -> Vec<T> {
    (0..n as i64).map(|at| T::of(at * at % 13 % 9 - 2)).collect()
}

fn number<T: Element>(value: T) -> f64 {
    format!("{value:?}").parse().unwrap()
}

/// Returns the sum, the minimum and the maximum of a function of some elements.
fn expected<T: Sample>(elements: &[T], function: impl Fn(f64) -> f64) -> [f64; 3] {
    let values = || elements.iter().map(|&x| function(number(x)));
    [values().sum(), values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max)]
}

fn all<T: Element>(expr: &op::Expr) -> [op::ExprReduction<T>; 3] {
    [expr.sum().unwrap(), expr.min().unwrap(), expr.max().unwrap()]
}

macro_rules! of_every_type {
    ($check:ident) => {{
        use warpfold::{bf16, f16};
        $check::<i8>();
        $check::<u8>();
        $check::<i16>();
        $check::<u16>();
        $check::<i32>();
        $check::<u32>();
        $check::<i64>();
        $check::<u64>();
        $check::<f16>();
        $check::<bf16>();
        $check::<f32>();
        $check::<f64>();
    }};
}

#[test]
fn every_operator_of_every_type() {
    fn check<T: Sample<Sum: Sample>>() {
        let elements = sample::<T>(300);
        let buffer = device().upload(&elements).unwrap();
        for (text, function) in EXPRESSIONS {
            let expected = expected(&elements, function);
            for (expression, expected) in all(&op::expr(text)).iter().zip(expected) {
                let found = number(reducer().reduce(expression, &buffer).unwrap());
                assert_eq!(found, expected, "{text} of {}", std::any::type_name::<T>());
            }
        }
    }
    of_every_type!(check);
}

/// Every input of operations with a single result, with a condition, which holds for no element of some
/// rows.
#[test]
fn every_input_of_every_type() {
    fn check<T: Sample<Sum: Sample>>() {
        let _findings = no_findings();
        let elements = sample::<T>(4_000);
        let buffer = device().upload(&elements).unwrap();
        let expr = op::expr("x * x - x + 1").filter("x > 3 && x != 5");
        let of = |elements: &[T]| {
            let kept: Vec<T> =
                elements.iter().copied().filter(|&x| number(x) > 3.0 && number(x) != 5.0).collect();
            expected(&kept, |x| x * x - x + 1.0)
        };
        let empty = |which: usize, found: f64| match which {
            0 => found == 0.0,
            1 => found >= i64::MAX as f64,
            _ => found <= 0.0,
        };
        let assert = |which: usize, results: &[T::Sum], parts: &[Vec<T>], what: &str| {
            assert_eq!(results.len(), parts.len(), "{what}");
            for (result, part) in results.iter().zip(parts) {
                let (found, expected) = (number(*result), of(part)[which]);
                let same = if expected.is_finite() { found == expected } else { empty(which, found) };
                assert!(same, "{what} of {part:?}: {found}, not {expected}");
            }
        };
        let chunks = |len: usize| elements.chunks_exact(len).map(<[T]>::to_vec).collect::<Vec<_>>();
        let stream = device().stream().unwrap();
        for (which, expression) in all::<T>(&expr).iter().enumerate() {
            for range in [0..0, 0..1, 1..19, 3..4_000] {
                let part = buffer.slice(range.clone()).unwrap();
                let result = reducer().reduce(expression, &part).unwrap();
                assert(which, &[result], &[elements[range].to_vec()], "a buffer");
            }
            for len in [1, 4, 50, 1_000, 4_000] {
                let results = reducer().reduce(expression, buffer.rows(len).unwrap()).unwrap();
                assert(which, &results, &chunks(len), "rows");
                let columns: Vec<Vec<T>> = (0..len)
                    .map(|at| elements.iter().skip(at).step_by(len).copied().collect())
                    .collect();
                let results = reducer().reduce(expression, buffer.columns(len).unwrap()).unwrap();
                assert(which, &results, &columns, "columns");
            }
            let view = buffer.view(&[20, 200]).unwrap().transposed();
            let results = reducer().reduce(expression, view.along(&[0]).unwrap()).unwrap();
            assert(which, &results, &chunks(200), "a view");
            let offsets = device().upload(&[0_u32, 7, 7, 3_000, 4_000]).unwrap();
            let segments = reducer().segments(&buffer, &offsets).unwrap();
            let parts = [0..7, 7..7, 7..3_000, 3_000..4_000].map(|part| elements[part].to_vec());
            assert(which, &reducer().reduce(expression, &segments).unwrap(), &parts, "segments");
            let keys: Vec<u32> = (0..4_000).map(|at| at / 1_000).collect();
            let keys = device().upload(&keys).unwrap();
            let keyed = reducer().reduce(expression, buffer.by_key(&keys)).unwrap();
            let results = keyed.results.into_buffer().download().unwrap();
            assert(which, &results, &chunks(1_000), "keys");
            let parts = [buffer.slice(..1_000).unwrap(), buffer.slice(1_000..).unwrap()];
            let buffers = Buffers::new(device(), &parts).unwrap();
            let result = reducer().reduce(expression, &buffers).unwrap();
            assert(which, &[result], slice::from_ref(&elements), "several buffers");
            for n in [0_u32, 1_234] {
                let number = device().upload(&[n]).unwrap();
                // SAFETY: the address is that of an element of `number`, which is kept alive and
                // constant.
                let count =
                    unsafe { Count::from_raw_u32(device(), number.as_device_ptr(), number.clone()) };
                let counted = buffer.counted(count.as_ref().unwrap());
                let result = reducer().on(&stream).reduce(expression, counted).unwrap();
                let part = elements[..n as usize].to_vec();
                assert(which, &[result.wait().unwrap()], &[part], "counted");
            }
            let mut running = reducer().running(expression).unwrap();
            for part in &parts {
                running.push(&stream, part).unwrap();
            }
            assert(which, &[running.result().unwrap()], slice::from_ref(&elements), "running");
            let pending = reducer().on(&stream).reduce(expression, &buffer).unwrap();
            assert(which, &[pending.wait().unwrap()], slice::from_ref(&elements), "on a stream");
            let mut recorder = reducer().record();
            let recorded = recorder.reduce(expression, &buffer).unwrap();
            let mut recording = recorder.finish().unwrap();
            let result = recording.run().unwrap().get(&recorded);
            assert(which, &[result], slice::from_ref(&elements), "recorded");
        }
    }
    of_every_type!(check);
}

/// Blocks of the bulk kernel and of every number, at every alignment.
#[test]
fn every_launch_of_a_buffer() {
    let elements: Vec<f32> = sample(60_000);
    let buffer = device().upload(&elements).unwrap();
    let expression = op::expr("x * x + 1").sum().unwrap();
    let of = |kernel, block, blocks| reducer_of(Choice { kernel, block, blocks: Blocks::Total(blocks) });
    for reducer in
        [of(KernelKind::Grid, 128, 1), of(KernelKind::Grid, 512, 9), of(KernelKind::Bulk, 256, 2)]
    {
        for start in 0..5 {
            let found = reducer.reduce(&expression, &buffer.slice(start..).unwrap()).unwrap();
            let [expected, ..] = expected(&elements[start..], |x| x * x + 1.0);
            assert_eq!(f64::from(found), expected, "from {start}");
        }
    }
}

/// The functions of floats, bit by bit, of numbers and of special values.
#[test]
fn functions_of_floats() {
    macro_rules! check {
        ($float:ident) => {{
            let functions: [Named<$float>; 13] = [
                ("sqrt(x)", $float::sqrt),
                ("floor(x)", $float::floor),
                ("ceil(x)", $float::ceil),
                ("trunc(x)", $float::trunc),
                ("rint(x)", $float::round_ties_even),
                ("fma(x, x, -1.5e-3)", |x| x.mul_add(x, -1.5e-3)),
                ("x * x - 1.5e-3", |x| x * x - 1.5e-3),
                ("is_nan(x) ? 7 : 1 / x", |x| if x.is_nan() { 7.0 } else { 1.0 / x }),
                ("min(x, .5)", |x| x.min(0.5)),
                ("max(nan, x)", |x| x),
                ("x != x", |x| f64::from(x.is_nan()) as $float),
                ("x < inf ? 0.1 : -inf", |x| if x < $float::INFINITY { 0.1 } else { -$float::INFINITY }),
                ("-x ** 2", |x| -(x * x)),
            ];
            let special = [0.0, -0.0, 2.5, -3.5, 0.1, 1e-30, 3e7, $float::INFINITY, $float::NAN];
            for (text, function) in functions {
                let expression = op::expr(text).max().unwrap();
                for x in special {
                    let buffer = device().upload(&[x]).unwrap();
                    let (found, expected) =
                        (reducer().reduce(&expression, &buffer).unwrap(), function(x));
                    let same =
                        found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
                    assert!(same, "{text} of {x}: {found:e}, not {expected:e}");
                }
            }
        }};
    }
    check!(f32);
    check!(f64);
}

/// Exponentials and logarithms of numbers of all magnitudes, and of special values.
#[test]
fn exponentials_and_logarithms() {
    /// Returns the distance of two numbers in units in the last place, from their bits.
    fn distance(a: i64, b: i64) -> i64 {
        a.abs_diff(b) as i64
    }
    macro_rules! check {
        ($float:ident, $bits:ident, $most:literal, [$($special:expr),*]) => {{
            let mut worst = [0; 2];
            let random = (0..20_000).map(|at| {
                let bits = splitmix(at);
                let number = $float::from_bits(bits as $bits);
                // Half of them are from -128 to 128, and their exponentials often finite.
                if at % 2 == 0 { number } else { (bits >> 32) as $float / 2_f64.powi(24) as $float - 128.0 }
            });
            let special = [0.0, -0.0, 1.0, -1.0, $float::MIN_POSITIVE, $float::from_bits(1), $float::MAX, $float::INFINITY,
                $float::NEG_INFINITY, $float::NAN, $($special),*];
            let numbers: Vec<$float> = special.into_iter().chain(random).collect();
            let buffer = device().upload(&numbers).unwrap();
            let rows = buffer.rows(1).unwrap();
            for (which, (text, function)) in
                [("exp(x)", f64::exp as fn(f64) -> f64), ("log(x)", f64::ln)].into_iter().enumerate()
            {
                let found = reducer().reduce(&op::expr(text).sum().unwrap(), &rows).unwrap();
                for (&x, &found) in numbers.iter().zip(&found) {
                    let expected = function(x as f64) as $float;
                    if expected.is_nan() || expected.is_infinite() || expected == 0.0 || found.is_infinite() {
                        let same = found == expected || found.is_nan() && expected.is_nan();
                        assert!(same, "{text} of {x:e}: {found:e}, not {expected:e}");
                        continue;
                    }
                    let [a, b] = [found, expected].map(|one| one.to_bits() as i64);
                    worst[which] = worst[which].max(distance(a, b));
                    assert!(worst[which] <= $most, "{text} of {x:e}: {found:e}, not {expected:e}");
                }
            }
            println!("{}: {worst:?} units", stringify!($float));
        }};
    }
    check!(f32, u32, 1, [88.7, 88.8, 89.0, -103.9, -104.1, -87.5, 0.999_999_94, 1.000_000_1]);
    check!(f64, u64, 1, [709.7, 709.8, 710.0, -745.1, -745.2, -708.5, 0.999_999_999_999_999_9]);
}

#[test]
fn bits_and_remainders_of_integers() {
    let elements: Vec<i64> = (-500..500).map(|at: i64| at * 7_919_191_919).collect();
    let buffer = device().upload(&elements).unwrap();
    let functions: [Named<i64>; 6] = [
        ("x % 7", |x| x % 7),
        ("x / 3", |x| x / 3),
        ("-x % 5 + x ** 2", |x| (-x % 5).wrapping_add(x.wrapping_mul(x))),
        ("x & 255 | 1024 ^ x & 1024", |x| x & 255 | 1024 ^ x & 1024),
        ("x & 1 == 1", |x| i64::from(x & 1 == 1)),
        ("-9223372036854775808 + x * x", |x| i64::MIN.wrapping_add(x.wrapping_mul(x))),
    ];
    for (text, function) in functions {
        let found = reducer().reduce(&op::expr(text).sum().unwrap(), &buffer).unwrap();
        let expected = elements.iter().map(|&x| function(x)).fold(0, i64::wrapping_add);
        assert_eq!(found, expected, "{text}");
    }
    let largest = op::expr("18446744073709551615 - x").max().unwrap();
    assert_eq!(reducer().reduce(&largest, &device().upload(&[1_u8, 9]).unwrap()).unwrap(), u64::MAX - 1);
}

#[test]
fn expressions_in_a_tuple() {
    let elements: Vec<f64> = sample(1_000);
    let buffer = device().upload(&elements).unwrap();
    let expr = op::expr("x + 0.5");
    let [sum, min, max] = all(&expr);
    let again = op::expr("x + 0.5").sum().unwrap();
    #[cfg(feature = "simulator")]
    let log = warpfold_sim_driver::record_calls();
    let found = reducer().reduce((&sum, &min, op::Max, &max, &again), &buffer).unwrap();
    // Equal expressions are launched once.
    #[cfg(feature = "simulator")]
    assert!(!device().info().simulated || log.count("cuLaunchKernel") == 4);
    let [all, least, greatest] = expected(&elements, |x| x + 0.5);
    assert_eq!(found, (all, least, Some(greatest - 0.5), greatest, all));
}

#[test]
fn a_group_of_devices() {
    if !on_four("expressions::a_group_of_devices") {
        return;
    }
    let elements: Vec<i32> = sample(10_000);
    let group = Group::new(reducers()).unwrap();
    let sharded = group.upload(&elements).unwrap();
    for (expression, expected) in
        all(&op::expr("x * 3 - 1")).iter().zip(expected(&elements, |x| x * 3.0 - 1.0))
    {
        assert_eq!(group.reduce(expression, &sharded).unwrap() as f64, expected);
    }
}

/// A reducer compiles the kernel of an expression once, also if an equal expression is made again.
#[cfg(feature = "simulator")]
#[test]
fn kernels_of_equal_expressions_are_loaded_once() {
    if !device().info().simulated {
        return;
    }
    let reducer = Reducer::new(device()).unwrap();
    let buffer = device().upload(&[1.0_f32, 2.0]).unwrap();
    let loads = |text: &str| {
        let log = warpfold_sim_driver::record_calls();
        reducer.reduce(&op::expr(text).sum().unwrap(), &buffer).unwrap();
        log.count("cuModuleLoadDataEx") + log.count("cuModuleLoadData")
    };
    assert_eq!([loads("x * 2"), loads("x * 2"), loads("x * 3"), loads("x*2")], [1, 0, 1, 0]);
}

/// Kernels from elsewhere, which lack the places for expressions, are refused.
#[test]
fn kernels_without_places_are_refused() {
    let lacking = PtxSource::Given(Arc::new(|name, arch| {
        let found = ptx(&PtxSource::Embedded, name, arch)?;
        Ok(Ptx { text: found.text.replace(".reg .pred expression; ", "").into(), ..found })
    }));
    let reducer = reducer_of_ptx(device(), lacking);
    let buffer = device().upload(&[1.0_f32]).unwrap();
    let error = reducer.reduce(&op::expr("x + 1").sum().unwrap(), &buffer).unwrap_err();
    says(&error, &["reducer_mapsum_f32.ptx", "it has no place for an expression"]);
    assert_eq!(reducer.sum(&buffer).unwrap(), 1.0);
    let lacking = PtxSource::Given(Arc::new(|name, arch| {
        let found = ptx(&PtxSource::Embedded, name, arch)?;
        Ok(Ptx { text: found.text.replace(".reg .pred part; ", "").into(), ..found })
    }));
    let error = reducer_of_ptx(device(), lacking).reduce((op::Sum, op::Max), &buffer).unwrap_err();
    says(&error, &["reducer_fused_f32.ptx", "it has no place for an operation among several"]);
}

#[test]
fn defects_are_shown_at_their_place() {
    fn refused<T: Element>(text: &str, at: usize, reason: &str) {
        let error = op::expr(text).sum::<T>().unwrap_err();
        let Error::Expression { at: found, reason: said, .. } = &error else { panic!("{error:?}") };
        assert!((*found, said.starts_with(reason)) == (at, true), "{text}: {error}");
    }
    refused::<f32>("", 0, "expected a value, found the end");
    refused::<f32>("x * y", 4, "unknown name `y`; the element is `x`");
    refused::<f32>("x +", 3, "expected a value, found the end");
    refused::<f32>("x x", 2, "expected an operator or the end, found `x`");
    refused::<f32>("(x", 2, "expected `)`, found the end");
    refused::<f32>("x)", 1, "expected an operator or the end, found `)`");
    refused::<f32>("x # 2", 2, "unexpected character '#'");
    refused::<f32>("x·2", 1, "unexpected character '·'");
    refused::<f32>("sin(x)", 0, "unknown function `sin`; there are abs, ");
    refused::<f32>("min(x)", 0, "`min` takes 2 arguments, not 1");
    refused::<f32>("sqrt(x, 2)", 0, "`sqrt` takes 1 argument, not 2");
    refused::<f32>("sqrt()", 5, "expected a value, found `)`");
    refused::<f32>("x % 2", 2, "`%` is for integers, but values are floats");
    refused::<f32>("x | 1", 2, "`|` is for integers");
    refused::<f32>("x ? 1 : 2", 0, "a number, but a condition is needed");
    refused::<f32>("x > 0 && x", 9, "a number, but a condition is needed");
    refused::<f32>("1 + !x", 5, "a number, but a condition is needed");
    refused::<f32>("x > 0 ? 1", 9, "expected `:`, found the end");
    refused::<f32>("0 < x < 1", 6, "comparisons cannot be chained");
    refused::<f32>("x ** 65", 5, "expected an exponent from 0 to 64, found `65`");
    refused::<f32>("x ** x", 5, "expected an exponent from 0 to 64, found `x`");
    refused::<f32>("x ** 2 ** 3", 7, "expected an operator or the end, found `**`");
    refused::<i32>("x * 1.5", 4, "a float, but values are integers");
    refused::<i32>("sqrt(x)", 0, "`sqrt` is for floats, but values are integers");
    refused::<i32>("inf", 0, "unknown name `inf`");
    refused::<i64>("9223372036854775808", 0, "the integer does not fit in 64 bits");
    refused::<i64>("-9223372036854775808 ** 2", 1, "the integer does not fit in 64 bits");
    refused::<i64>("9223372036854775809", 0, "the integer does not fit in 64 bits");
    refused::<u64>("x + 18446744073709551616", 4, "the integer does not fit in 64 bits");
    let deep = |levels: usize| "(".repeat(levels) + "x" + &")".repeat(levels);
    assert!(op::expr(deep(64)).sum::<f32>().is_ok());
    refused::<f32>(&deep(65), 65, "nested too deeply; 64 levels are allowed");
    refused::<f32>(&"-".repeat(5_000), 0, "5000 bytes of text; 4096 are allowed");
    refused::<f32>(&"-".repeat(4_000), 65, "nested too deeply");
    let roots = |count| op::expr("x + ".to_owned() + &vec!["sqrt(x)"; count].join(" + "));
    assert!(roots(56).sum::<f32>().is_ok() && roots(30).sum::<f64>().is_ok());
    let error = roots(57).sum::<f32>().unwrap_err();
    says(&error, &["expected a cost of at most 512 instructions, got 513; divisions, roots,"]);
    // The instructions of a condition and of its choice count as well.
    assert!(roots(56).filter("x > 0 && x < 5").sum::<f32>().is_ok());
    let error =
        roots(56).filter("x > 0 && x < 5 && x != 2 && x != 3 && x != 4").sum::<f32>().unwrap_err();
    says(&error, &["got 5", "\n  x + sqrt(x)"]);
    assert!(roots(31).sum::<f64>().is_err());
    let error = op::expr("x").filter("x + 1").sum::<f32>().unwrap_err();
    says(&error, &["a number, but a condition is needed, such as `x > 0`\n  x + 1\n  ^"]);
    let error = op::expr("x +\n·").sum::<f32>().unwrap_err();
    assert_eq!(error.to_string(), "expression: unexpected character '·'\n  x + ·\n      ^");
}

/// Text of random tokens is compiled or refused, and what is compiled runs.
#[test]
fn random_expressions_compile_or_are_refused() {
    const TOKENS: [&str; 26] = [
        "x", "x", "x", "1", "2.5", "nan", "+", "-", "*", "/", "%", "&", "**", "<", "==", "&&", "||",
        "!", "?", ":", "(", ")", ",", "min", "abs", "sqrt",
    ];
    let buffer = device().upload(&[2.0_f32, 3.0]).unwrap();
    let integers = device().upload(&[2_i16, 3]).unwrap();
    let mut compiled = 0;
    for round in 0..20_000 {
        let token = |at| TOKENS[(splitmix(round * 8 + at) % TOKENS.len() as u64) as usize];
        let text = (0..splitmix(round) % 8 + 1).map(token).collect::<Vec<_>>().join(" ");
        let expr = op::expr(&text);
        if let Ok(expression) = expr.sum::<f32>() {
            compiled += 1;
            if compiled % 8 == 0 {
                reducer().reduce(&expression, &buffer).unwrap();
            }
        }
        if let Ok(expression) = expr.sum::<i16>()
            && compiled % 8 == 0
        {
            reducer().reduce(&expression, &integers).unwrap();
        }
    }
    assert!(compiled > 100, "{compiled}");
}
