//! `--accumulate` and `--checked`: along axes, by keys, with `--stream`, and of several files.

use std::path::Path;

use serde_json::json;

use crate::{
    all, assert_refused, command,
    files::{npy, put, vector},
    lines, text,
};

const I64: i64 = i64::MAX;

/// Writes files of integers and floats into a new folder.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    put(at, "i.npy", npy("<i8", false, "(2, 3)", bytemuck::cast_slice(&[I64, I64, 1, I64, 1, -1])));
    put(at, "fits.npy", npy("<i8", false, "(2, 3)", bytemuck::cast_slice(&[I64, 1, -1, -5, -I64, 4])));
    put(at, "u.npy", vector("<u8", &[u64::MAX, 2]));
    put(at, "f.npy", vector("<f4", &[16_777_216.0_f32, 1.0]));
    put(at, "d.npy", vector("<f8", &[0.5_f64, 1.0]));
    put(at, "b.npy", vector("|i1", &[-128_i8; 3]));
    put(at, "none.npy", vector::<i64>("<i8", &[]));
    put(at, "keys.npy", vector("<i4", &[1_i32, 2]));
    folder
}

/// Asserts that the program prints these sums. Their texts are compared, because `serde_json::Value` has
/// no integers of 128 bits.
fn assert_sums(folder: &Path, arguments: &str, sums: &[i128]) {
    let output = command(folder, &format!("{arguments} --json")).output().unwrap();
    let (status, printed) = (output.status.code(), text(&output.stdout));
    assert_eq!(status, Some(0), "{arguments}: {}", text(&output.stderr));
    assert_eq!(printed.lines().count(), sums.len(), "{arguments}: {printed}");
    for (line, sum) in printed.lines().zip(sums) {
        assert!(line.ends_with(&format!("\"value\":{sum}}}")), "{arguments}: {line}");
    }
}

#[test]
fn sums_are_added_in_the_type_that_is_given() {
    let (folder, big) = (folder(), i128::from(I64));
    for device in ["cpu", "sim"] {
        let of = |arguments: &str, sums: &[i128]| {
            assert_sums(folder.path(), &format!("{arguments} --device {device}"), sums);
        };
        of("i.npy --accumulate i128", &[3 * big + 1]);
        of("i.npy --accumulate i128 --axis 1", &[2 * big + 1, big]);
        of("i.npy --accumulate i128 --axis 0 --level everywhere", &[2 * big, big + 1, 0]);
        of("i.npy --accumulate i64", &[big - 1]);
        of("u.npy --accumulate u128", &[i128::from(u64::MAX) + 2]);
        of("u.npy --accumulate u128 --by keys.npy", &[u64::MAX.into(), 2]);
        of("none.npy --accumulate i128", &[0]);
        of("b.npy --accumulate i64 --op sum,max", &[-384, -128]);
        let floats = |arguments: &str| {
            all(&lines(folder.path(), &format!("{arguments} --device {device}")), "value")
        };
        assert_eq!(floats("f.npy --accumulate f64"), json!([16_777_217.0]));
        assert_eq!(floats("f.npy --accumulate f32"), json!([16_777_216.0]));
        assert_eq!(floats("d.npy --accumulate f64"), json!([1.5]));
    }
    assert_sums(folder.path(), "i.npy --accumulate i128 --stream --device sim", &[3 * big + 1]);
    assert_sums(folder.path(), "fits.npy i.npy --accumulate i128 --device sim", &[3 * big]);
    let table = command(folder.path(), "i.npy --accumulate i128 --device cpu").output().unwrap();
    assert!(text(&table.stdout).contains(&format!("┆ {} │", 3 * big + 1)), "{}", text(&table.stdout));
}

#[test]
fn checked_sums_fail_where_they_overflow() {
    let folder = folder();
    for device in ["cpu", "sim"] {
        let results = |arguments: &str| {
            all(&lines(folder.path(), &format!("{arguments} --checked --device {device}")), "value")
        };
        assert_eq!(results("fits.npy"), json!([-1]));
        assert_eq!(results("fits.npy --axis 1"), json!([I64, -I64 - 1]));
        assert_eq!(results("b.npy --op max,sum"), json!([-128, -384]));
        assert_eq!(results("none.npy"), json!([0]));
        for (arguments, says) in [
            (
                "i.npy",
                format!(
                    "the sum is {}, which i64 cannot hold; give --accumulate i128",
                    3 * i128::from(I64) + 1
                ),
            ),
            ("i.npy --axis 1", format!("sum 1 of 2 is {}, which i64", 2 * i128::from(I64) + 1)),
            (
                "u.npy",
                format!(
                    "the sum is {}, which u64 cannot hold; give --accumulate u128",
                    i128::from(u64::MAX) + 2
                ),
            ),
        ] {
            let arguments = format!("{arguments} --checked --out sum.npz --device {device}");
            let output = command(folder.path(), &arguments).output().unwrap();
            assert_refused(&arguments, &output, &[&says]);
            assert!(!folder.path().join("sum.npz").exists());
        }
    }
    for arguments in ["i.npy --stream --checked --device sim", "fits.npy i.npy --checked --device sim"] {
        let output = command(folder.path(), arguments).output().unwrap();
        assert_refused(arguments, &output, &["the sum is ", "which i64 cannot hold"]);
    }
}

#[test]
fn types_that_a_sum_does_not_have_are_refused() {
    let folder = folder();
    for (arguments, says) in [
        ("i.npy --accumulate f64", "--accumulate f64 cannot add i64 elements; give i64 or i128"),
        ("b.npy --accumulate i128", "--accumulate i128 cannot add i8 elements; give i64"),
        ("d.npy --accumulate f32", "--accumulate f32 cannot add f64 elements; give f64"),
        ("f.npy --accumulate i64", "--accumulate i64 cannot add f32 elements; give f32 or f64"),
        ("f.npy --checked", "--checked takes integers, but the elements are f32; leave it out"),
        ("i.npy --accumulate i128 --op max", "--accumulate is for --op sum, which is not among"),
        ("i.npy --checked --op max,l1", "--checked is for --op sum, which is not among"),
        ("i.npy --accumulate i128 --out a.npz", "--out a.npz cannot store integers of 128 bits"),
        (
            "f.npy --accumulate f64 --level everywhere",
            "--accumulate f64 of f32 has no result with the same bits everywhere; leave --accumulate",
        ),
        ("i.npy --accumulate i128 --checked", "cannot be used with"),
        ("i.npy --accumulate i128 --map x", "cannot be used with"),
        ("i.npy --accumulate i32", "possible values: i64, u64, i128, u128, f32, f64"),
    ] {
        let arguments = format!("{arguments} --device cpu");
        assert_refused(&arguments, &command(folder.path(), &arguments).output().unwrap(), &[says]);
    }
}
