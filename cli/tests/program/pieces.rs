//! Results per axis, run of keys and segment, with and without nulls among the elements.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, DictionaryArray, Float32Array, Int32Array, Int64Array, LargeStringArray, StringArray,
    StringViewArray, UInt64Array, types::Int8Type,
};
use parquet::basic::Compression;
use serde_json::{Value, json};

use crate::{
    all, command,
    files::{arrow_file, npy, parquet, put, vector},
    lines, text,
};

#[test]
fn negative_and_adjacent_axes_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let elements: Vec<i32> = (0..24).collect();
    put(folder.path(), "a.npy", npy("<i4", false, "(2, 3, 4)", bytemuck::cast_slice(&elements)));
    for device in ["sim", "cpu"] {
        let run = |axis: &str| lines(folder.path(), &format!("a.npy --device {device} --axis {axis}"));
        let sums = |axis: &str| all(&run(axis), "value");
        assert_eq!(sums("0,1"), json!([60, 66, 72, 78]));
        assert_eq!(sums("-2,0"), sums("0,1"));
        assert_eq!(sums("1,2"), json!([66, 210]));
        assert_eq!(sums("0,1,2"), json!([276]));
        assert_eq!(sums("-1"), json!([6, 22, 38, 54, 70, 86]));
        let middle = run("1");
        assert_eq!(all(&middle, "value"), json!([12, 15, 18, 21, 48, 51, 54, 57]));
        assert_eq!((&middle[5]["position"], &middle[5]["count"]), (&json!([1, 1]), &json!(3)));
    }
}

/// The matrix has more columns than are gathered at a time.
#[test]
fn a_wide_matrix_has_a_result_of_every_column_on_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let width = 30_000;
    let elements: Vec<u8> = (0..3 * width).map(|place| (place % 251) as u8).collect();
    put(folder.path(), "a.npy", npy("|u1", false, "(3, 30000)", &elements));
    let found = lines(folder.path(), "a.npy --axis 0");
    let sum = |column: usize| (0..3).map(|row| u64::from(elements[row * width + column])).sum::<u64>();
    assert_eq!(found.len(), width);
    assert!(found.iter().enumerate().all(|(column, line)| line["value"] == sum(column)));
}

#[test]
fn runs_of_equal_neighbouring_keys_have_a_result_each() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.npy", vector("<f4", &[1.0_f32, 2.0, 4.0, 8.0, 16.0]));
    for (descr, keys) in [
        ("<i8", bytemuck::cast_slice(&[7_i64, 7, -1, -1, 7]).to_vec()),
        ("<i2", bytemuck::cast_slice(&[7_i16, 7, -1, -1, 7]).to_vec()),
    ] {
        put(folder.path(), "keys.npy", npy(descr, false, "(5,)", &keys));
        for device in ["sim", "cpu"] {
            let run = format!("a.npy --by keys.npy --op sum,argmax --device {device}");
            let found = lines(folder.path(), &run);
            assert_eq!(all(&found[..3], "key"), json!([7, -1, 7]));
            assert_eq!(all(&found[..3], "value"), json!([3.0, 12.0, 16.0]));
            assert_eq!(all(&found[..3], "count"), json!([2, 2, 1]));
            assert_eq!(all(&found[3..], "index"), json!([1, 1, 0]));
        }
    }
    put(folder.path(), "a.npy", vector::<f32>("<f4", &[]));
    put(folder.path(), "keys.npy", vector::<u64>("<u8", &[]));
    for device in ["sim", "cpu"] {
        let run = format!("a.npy --by keys.npy --device {device}");
        assert_eq!(lines(folder.path(), &run), Vec::<Value>::new());
    }
}

fn table() -> [(&'static str, ArrayRef); 7] {
    let names = [Some("a"), Some("a"), Some("b\u{1b}"), None, None, Some("a")];
    [
        ("x", Arc::new(Float32Array::from(vec![None, Some(2.0), None, Some(8.0), Some(1.0), None]))),
        ("utf8", Arc::new(StringArray::from(names.to_vec()))),
        ("large", Arc::new(LargeStringArray::from(names.to_vec()))),
        ("view", Arc::new(StringViewArray::from(names.to_vec()))),
        ("dictionary", Arc::new(names.into_iter().collect::<DictionaryArray<Int8Type>>())),
        ("large_key", Arc::new(UInt64Array::from(vec![u64::MAX; 6]))),
        ("nothing", Arc::new(Int64Array::from(vec![None; 6]))),
    ]
}

#[test]
fn keys_are_strings_too_and_null_is_a_key_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "t.arrow", arrow_file(&table(), None));
    // Parquet's own schema declares that a dictionary's keys are strings.
    put(folder.path(), "t.parquet", parquet(&table(), Compression::SNAPPY));
    for file in ["t.arrow", "t.parquet"] {
        for column in ["utf8", "large", "view", "dictionary"] {
            let run = format!("{file} --column x --by-column {column} --op sum,max,argmin");
            let found = lines(folder.path(), &run);
            assert_eq!(all(&found[..4], "key"), json!(["a", "b\u{1b}", null, "a"]), "{run}");
            assert_eq!(all(&found[..4], "value"), json!([2.0, 0.0, 9.0, 0.0]), "{run}");
            assert_eq!(all(&found[..4], "count"), json!([1, 0, 2, 0]), "{run}");
            assert_eq!(all(&found[..4], "nulls"), json!([1, 1, 0, 1]), "{run}");
            assert_eq!(all(&found[4..8], "value"), json!([2.0, null, 8.0, null]), "{run}");
            // Indices count rows, nulls included.
            assert_eq!(all(&found[8..], "index"), json!([1, null, 1, null]), "{run}");
        }
    }
    let found = lines(folder.path(), "t.arrow --column x --by t.arrow --by-column large_key");
    assert_eq!((all(&found, "key"), all(&found, "value")), (json!([u64::MAX]), json!([11.0])));
    let output = command(folder.path(), "t.arrow --column x --by-column utf8 --device cpu").output();
    let stdout = output.unwrap().stdout;
    assert!(text(&stdout).contains("b\\u{1b} ") && text(&stdout).contains("3 nulls are skipped"));
}

#[test]
fn nulls_are_skipped_on_every_device() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "t.arrow", arrow_file(&table(), None));
    put(folder.path(), "offsets.npy", vector("<i4", &[1_i32, 3, 3, 5]));
    for device in ["sim", "cpu"] {
        let run = |rest: &str| lines(folder.path(), &format!("t.arrow {rest} --device {device}"));
        let found = run("--column x --op sum,mean,argmax,nonzero");
        assert_eq!(all(&found, "value"), json!([11.0, 11.0 / 3.0, 8.0, 3]));
        assert_eq!((&found[2]["index"], &found[2]["nulls"]), (&json!(3), &json!(3)));
        let found = run("--column nothing --op sum,product,and,nonzero,min,mean");
        assert_eq!(all(&found, "value"), json!([0, 1, -1, 0, null, null]));
        assert_eq!((&found[0]["count"], &found[0]["nulls"]), (&json!(0), &json!(6)));
        let found = run("--column x --offsets offsets.npy --op sum,argmax");
        assert_eq!(all(&found[..3], "value"), json!([2.0, 0.0, 9.0]));
        assert_eq!(all(&found[..3], "nulls"), json!([1, 0, 0]));
        assert_eq!(all(&found[..3], "segment"), json!([0, 1, 2]));
        assert_eq!(all(&found[3..], "index"), json!([0, null, 0]));
    }
}

#[test]
fn long_tables_are_truncated_with_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let values: ArrayRef = Arc::new(Int32Array::from_iter_values(0..30));
    put(folder.path(), "t.parquet", parquet(&[("x", values)], Compression::SNAPPY));
    let run = |rest: &str| {
        let arguments = format!("t.parquet --by-column x --column x --device cpu {rest}");
        let output = command(folder.path(), &arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let cut = run("");
    assert!(cut.ends_with("\n10 more; --all shows them, and --json prints a line for each\n"), "{cut}");
    assert!(cut.contains("│ 19 ") && !cut.contains("│ 20 "), "{cut}");
    let whole = run("--all");
    assert!(whole.contains("│ 29 ") && !whole.contains("more;"), "{whole}");
}
