//! Expressions of the elements and conditions, on every road through the program.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    all, assert_refused, command,
    files::{npy, put, vector},
    lines, text,
};

fn results(folder: &Path, arguments: &str) -> Value {
    all(&lines(folder, &format!("{arguments} --device sim")), "value")
}

#[test]
fn sums_minima_and_maxima_of_expressions() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    put(
        at,
        "a.npy",
        npy("<f4", false, "(2, 3)", bytemuck::cast_slice(&[1.5_f32, -2.0, 3.0, 4.0, f32::NAN, -6.0])),
    );
    put(at, "i.npy", vector("<i4", &(0..10_000).collect::<Vec<i32>>()));
    put(at, "keys.npy", vector("<u2", &(0..10_000).map(|i| i / 4_000).collect::<Vec<u16>>()));
    put(at, "offsets.npy", vector("<u4", &[0_u32, 2, 2, 5]));
    put(at, "none.npy", vector::<f32>("<f4", &[]));

    assert_eq!(results(at, "a.npy --map x*x --where x>0 --op sum,min,max"), json!([27.25, 2.25, 16.0]));
    assert_eq!(results(at, "a.npy --map x*x --op sum,max"), json!(["NaN", "NaN"]));
    assert_eq!(results(at, "a.npy --where !is_nan(x) --axis 1"), json!([2.5, -2.0]));
    assert_eq!(
        results(at, "a.npy --map -x --where x<-2 --axis 0 --op max"),
        json!(["-inf", "-inf", 6.0])
    );
    assert_eq!(results(at, "i.npy --map x%2==0 --by keys.npy"), json!([2_000, 2_000, 1_000]));
    assert_eq!(results(at, "i.npy --map 1-x --offsets offsets.npy"), json!([1, 0, -6]));
    assert_eq!(results(at, "i.npy --map 1-x --offsets offsets.npy --op min"), json!([0, null, -3]));
    assert_eq!(results(at, "none.npy --map x+1 --op sum,min"), json!([0.0, null]));
    // While it is read, and of several files.
    let streamed = results(at, "i.npy --map x*x --where x>=9998 --op sum,min,max --stream");
    assert_eq!(streamed, json!([199_940_005, 99_960_004, 99_980_001]));
    let joined = results(at, "i.npy i.npy --map x*x --where x>=9998 --op sum,min,max");
    assert_eq!(joined, json!([399_880_010, 99_960_004, 99_980_001]));
    // The same kernel is not taken for two expressions, and the order of `--op` is kept.
    assert_eq!(results(at, "i.npy --map x+1 --op max,sum,min --stream"), json!([10_000, 50_005_000, 1]));
}

#[test]
fn a_wrong_expression_is_shown_with_a_caret() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    put(at, "a.npy", vector("<f4", &[1.0_f32]));
    for (arguments, expected) in [
        ("--map x*y", "error: expression: unknown name `y`; the element is `x`\n  x*y\n    ^\n"),
        (
            "--where x",
            "error: expression: a number, but a condition is needed, such as `x > 0`\n  x\n  ^\n",
        ),
        ("--map x%2", "error: expression: `%` is for integers, but values are floats\n  x%2\n   ^\n"),
    ] {
        let output = command(at, &format!("a.npy {arguments} --device sim")).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), expected), "{arguments}");
        assert_eq!(text(&output.stdout), "");
    }
    let arguments = "a.npy --map x --level everywhere --device sim";
    let output = command(at, arguments).output().unwrap();
    let says =
        "--op sum of an expression of f32 has no result with the same bits everywhere; give --level";
    assert_refused(arguments, &output, &[says]);
    assert_eq!(results(at, "a.npy --map x+1 --op max --level everywhere"), json!([2.0]));
}
