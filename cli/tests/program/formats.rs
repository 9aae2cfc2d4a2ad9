//! Every format, type, byte order and order of elements.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float16Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array,
    Int64Array, StringArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_ipc::CompressionType;
use half::f16;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use serde_json::json;
use zip::CompressionMethod;

use crate::{
    all, command, fed,
    files::{arrow_file, arrow_stream, npy, npz, parquet, put, vector},
    lines, lines_of,
};

const MATRIX: [u8; 6] = [2, 7, 1, 8, 3, 5];

/// The elements of [`MATRIX`] in Fortran order.
const TURNED: [u8; 6] = [2, 8, 7, 3, 1, 5];

fn elements(code: &str, big_endian: bool, values: &[u8]) -> Vec<u8> {
    let of = |&value: &u8| -> Vec<u8> {
        match code {
            "b1" => vec![u8::from(value > 2)],
            "i1" | "u1" => vec![value],
            "i2" | "u2" => u16::from(value).to_le_bytes().to_vec(),
            "i4" | "u4" => u32::from(value).to_le_bytes().to_vec(),
            "i8" | "u8" => u64::from(value).to_le_bytes().to_vec(),
            "f2" => f16::from_f32(value.into()).to_le_bytes().to_vec(),
            "f4" => f32::from(value).to_le_bytes().to_vec(),
            "f8" => f64::from(value).to_le_bytes().to_vec(),
            _ => unreachable!("{code}"),
        }
    };
    let ordered = |value: &u8| {
        let mut bytes = of(value);
        if big_endian {
            bytes.reverse();
        }
        bytes
    };
    values.iter().flat_map(ordered).collect()
}

#[test]
fn every_type_byte_order_and_order_of_elements_of_numpy_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for (code, dtype) in [
        ("b1", "u8"),
        ("i1", "i8"),
        ("u1", "u8"),
        ("i2", "i16"),
        ("u2", "u16"),
        ("i4", "i32"),
        ("u4", "u32"),
        ("i8", "i64"),
        ("u8", "u64"),
        ("f2", "f16"),
        ("f4", "f32"),
        ("f8", "f64"),
    ] {
        let orders: &[&str] = if code.ends_with('1') { &["|"] } else { &["<", ">"] };
        for order in orders {
            for (fortran, values) in [(false, MATRIX), (true, TURNED)] {
                let case = format!("{order}{code}, Fortran: {fortran}");
                let bytes = elements(code, *order == ">", &values);
                put(folder.path(), "a.npy", npy(&format!("{order}{code}"), fortran, "(2, 3)", &bytes));
                let found = lines(folder.path(), "a.npy --op argmax,sum --axis 1");
                assert_eq!(all(&found, "dtype"), json!([dtype, dtype, dtype, dtype]), "{case}");
                let sums = if code == "b1" { [1, 3] } else { [10, 16] };
                assert_eq!(found[2]["value"].as_f64(), Some(f64::from(sums[0])), "{case}");
                assert_eq!(found[3]["value"].as_f64(), Some(f64::from(sums[1])), "{case}");
                assert_eq!((&found[0]["index"], &found[1]["index"]), (&json!(1), &json!(0)), "{case}");
            }
        }
    }
}

#[test]
fn sums_of_16_bits_are_wider_and_keep_their_signs() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.npy", vector("<i2", &[i16::MIN, -1, 5]));
    assert_eq!(all(&lines(folder.path(), "a.npy --op min,sum"), "value"), json!([-32768, -32764]));
    put(folder.path(), "a.npy", vector("<u2", &[u16::MAX, 1]));
    assert_eq!(all(&lines(folder.path(), "a.npy --op max,sum"), "value"), json!([65535, 65536]));
}

#[test]
fn arrays_in_fortran_order_have_any_number_of_dimensions() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    for k in 0..4_i32 {
        for j in 0..3 {
            for i in 0..2 {
                bytes.extend((100 * i + 10 * j + k).to_le_bytes());
            }
        }
    }
    put(folder.path(), "a.npy", npy("<i4", true, "(2, 3, 4)", &bytes));
    let found = lines(folder.path(), "a.npy --op max,argmax --axis 0,1");
    assert_eq!(all(&found[..4], "value"), json!([120, 121, 122, 123]));
    // An index counts positions on both axes; the last axis varies fastest.
    assert_eq!(all(&found[4..], "index"), json!([5, 5, 5, 5]));
    assert_eq!(all(&lines(folder.path(), "a.npy --op argmin,argmax"), "index"), json!([0, 23]));
}

#[test]
fn zero_dimensional_and_empty_arrays_are_reduced() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.npy", npy("<f4", false, "()", &2.5_f32.to_le_bytes()));
    let found = lines(folder.path(), "a.npy --op sum,argmax");
    assert_eq!((all(&found, "value"), all(&found, "count")), (json!([2.5, 2.5]), json!([1, 1])));
    put(folder.path(), "a.npy", npy("<i4", false, "(0,)", &[]));
    for device in ["sim", "cpu"] {
        let found = lines(folder.path(), &format!("a.npy --op sum,product,and,l2 --device {device}"));
        assert_eq!(all(&found, "value"), json!([0, 1, -1, 0.0]));
        let found =
            lines(folder.path(), &format!("a.npy --op max,argmin,mean,spread --device {device}"));
        assert_eq!(found[0]["value"], json!(null));
        assert_eq!((&found[1]["index"], &found[1]["value"]), (&json!(null), &json!(null)));
        assert_eq!((&found[2]["value"], &found[3]["mean"]), (&json!(null), &json!(null)));
    }
    for shape in ["(0, 3)", "(4294967296, 3, 4294967296, 0)"] {
        put(folder.path(), "a.npy", npy("<i4", false, shape, &[]));
        for device in ["sim", "cpu"] {
            let found = lines(folder.path(), &format!("a.npy --axis 1 --device {device}"));
            assert_eq!(found, Vec::<serde_json::Value>::new(), "{shape}");
        }
    }
}

#[test]
fn arrays_of_an_archive_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let arrays = [
        ("a.npy", vector("<i4", &[1, 2, 3])),
        ("b.npy", vector("<f8", &[0.5; 1000])),
        ("notes.txt", b"hello".to_vec()),
    ];
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        put(folder.path(), "x.npz", npz(method, &arrays));
        assert_eq!(lines(folder.path(), "x.npz --column a")[0]["value"], 6);
        assert_eq!(lines(folder.path(), "x.npz --column b")[0]["value"], 500.0);
        put(folder.path(), "one.npz", npz(method, &arrays[1..]));
        assert_eq!(lines(folder.path(), "one.npz")[0]["count"], 1000);
    }
}

#[test]
fn raw_elements_have_the_type_and_shape_that_are_given() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.bin", bytemuck::cast_slice(&[1.0_f32, 2.0, 4.0, 8.0, 16.0, 32.0]));
    assert_eq!(lines(folder.path(), "a.bin --dtype f32")[0]["value"], 63.0);
    assert_eq!(lines(folder.path(), "a.bin --dtype f32 --format raw")[0]["count"], 6);
    let found = lines(folder.path(), "a.bin --dtype f32 --shape 2,3 --axis 0");
    assert_eq!(all(&found, "value"), json!([9.0, 18.0, 36.0]));
    assert_eq!(all(&found, "position"), json!([[0], [1], [2]]));
    // The high half of each element is a bf16.
    let found = lines(folder.path(), "a.bin --dtype bf16 --op max");
    assert_eq!((&found[0]["count"], &found[0]["value"]), (&json!(12), &json!(32.0)));
}

fn numbers() -> Vec<(&'static str, ArrayRef)> {
    vec![
        ("i8", Arc::new(Int8Array::from(vec![1, -2, 100, 4]))),
        ("u8", Arc::new(UInt8Array::from(vec![1, 2, 200, 4]))),
        ("i16", Arc::new(Int16Array::from(vec![1, -2, 300, 4]))),
        ("u16", Arc::new(UInt16Array::from(vec![1, 2, 60_000, 4]))),
        ("i32", Arc::new(Int32Array::from(vec![1, -2, 300, 4]))),
        ("u32", Arc::new(UInt32Array::from(vec![1, 2, u32::MAX, 4]))),
        ("i64", Arc::new(Int64Array::from(vec![1, -2, 1 << 60, 4]))),
        ("u64", Arc::new(UInt64Array::from(vec![1, 2, 1 << 63, 4]))),
        ("f16", Arc::new(Float16Array::from_iter_values([1.0, 2.0, 0.5, 4.0].map(f16::from_f32)))),
        ("f32", Arc::new(Float32Array::from(vec![1.0, -2.0, 0.5, 4.0]))),
        ("f64", Arc::new(Float64Array::from(vec![Some(1.0), None, Some(0.5), Some(4.0)]))),
        ("bool", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]))),
        ("text", Arc::new(StringArray::from(vec!["a", "a", "b", "c"]))),
    ]
}

/// Name, type, sum, and numbers of elements and of nulls of each column.
const SUMS: [(&str, &str, f64, [u64; 2]); 12] = [
    ("i8", "i8", 103.0, [4, 0]),
    ("u8", "u8", 207.0, [4, 0]),
    ("i16", "i16", 303.0, [4, 0]),
    ("u16", "u16", 60_007.0, [4, 0]),
    ("i32", "i32", 303.0, [4, 0]),
    ("u32", "u32", 4_294_967_302.0, [4, 0]),
    ("i64", "i64", 1_152_921_504_606_846_979.0, [4, 0]),
    ("u64", "u64", 9_223_372_036_854_775_815.0, [4, 0]),
    ("f16", "f16", 7.5, [4, 0]),
    ("f32", "f32", 3.5, [4, 0]),
    ("f64", "f64", 5.5, [3, 1]),
    ("bool", "u8", 2.0, [3, 1]),
];

#[test]
fn every_arrow_and_parquet_type_is_read_and_nulls_are_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let columns = numbers();
    put(folder.path(), "a.arrow", arrow_file(&columns, None));
    put(folder.path(), "a.parquet", parquet(&columns, Compression::UNCOMPRESSED));
    for file in ["a.arrow", "a.parquet"] {
        for (name, dtype, sum, [count, nulls]) in SUMS {
            let found = &lines(folder.path(), &format!("{file} --column {name}"))[0];
            assert_eq!(found["value"].as_f64(), Some(sum), "{file} {name}");
            let said = (&found["dtype"], &found["count"], &found["nulls"]);
            assert_eq!(said, (&json!(dtype), &json!(count), &json!(nulls)), "{file} {name}");
        }
    }
    let found = lines(folder.path(), "a.arrow --column u64");
    assert_eq!(found[0]["value"].as_u64(), Some((1 << 63) + 7));
}

#[test]
fn every_compression_and_framing_of_tables_is_read() {
    let folder = tempfile::tempdir().unwrap();
    // Enough values that the writer compresses them.
    let values: Vec<f32> = (0..2000).map(|i| (i % 7) as f32).collect();
    let sum: f32 = values.iter().sum();
    let columns: [(&str, ArrayRef); 1] = [("x", Arc::new(Float32Array::from(values)))];
    let gzip = Compression::GZIP(GzipLevel::default());
    let zstd = Compression::ZSTD(ZstdLevel::default());
    for compression in [Compression::SNAPPY, Compression::LZ4, Compression::LZ4_RAW, gzip, zstd] {
        put(folder.path(), "x.parquet", parquet(&columns, compression));
        assert_eq!(lines(folder.path(), "x.parquet")[0]["value"], sum, "{compression:?}");
    }
    for compression in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        put(folder.path(), "x.feather", arrow_file(&columns, compression));
        assert_eq!(lines(folder.path(), "x.feather")[0]["value"], sum, "{compression:?}");
    }
    put(folder.path(), "x.arrows", arrow_stream(&columns));
    assert_eq!(lines(folder.path(), "x.arrows")[0]["value"], sum);
}

#[test]
fn every_format_is_read_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let values = [1_i32, 2, 3, 4];
    let array: ArrayRef = Arc::new(Int32Array::from(values.to_vec()));
    let columns: [(&str, ArrayRef); 2] = [("x", array.clone()), ("key", array)];
    let npy = vector("<i4", &values);
    for (content, options) in [
        (npy.clone(), "--format npy"),
        (npz(CompressionMethod::Stored, &[("x.npy", npy)]), "--format npz --column x"),
        (bytemuck::cast_slice(&values).to_vec(), "--dtype i32"),
        (bytemuck::cast_slice(&values).to_vec(), "--dtype i32 --shape 2,2 --format raw"),
        (arrow_file(&columns, None), "--format arrow --column x"),
        (arrow_stream(&columns), "--format arrow --column x"),
        (parquet(&columns, Compression::SNAPPY), "--format parquet --column x"),
    ] {
        let run = command(folder.path(), &format!("- --device cpu --json {options}"));
        assert_eq!(lines_of(&fed(run, &content))[0]["value"], 10, "{options}");
    }
    let options = "- --device cpu --json --format arrow --column x --by-column key";
    let found = lines_of(&fed(command(folder.path(), options), &arrow_stream(&columns)));
    assert_eq!(all(&found, "key"), json!([1, 2, 3, 4]));
}
