//! Files that NumPy and pyarrow write or read, beyond the types in `formats`: other spellings of a type,
//! formats without a name, codecs, columns of nulls, dictionaries, and pipes.

use std::{fs, io::Write, process::Command, sync::Arc, thread};

use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float32Array, Int16Array, Int32Array, NullArray,
    types::{Int8Type, Int32Type},
};
use parquet::basic::{BrotliLevel, Compression};
use serde_json::{Value, json};
use zip::CompressionMethod;

use crate::{
    all, assert_refused, command, fed,
    files::{arrow_file, arrow_stream, npy, npz, parquet, put, vector},
    lines, lines_of, text,
};

#[test]
fn every_spelling_of_a_type_of_numpy_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let floats: Vec<u8> = [1.0_f32, 2.0, 3.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    let doubles: Vec<u8> = [1.0_f64, 2.0, 3.0].iter().flat_map(|value| value.to_be_bytes()).collect();
    for (descr, dtype, bytes, sum) in [
        ("<u1", "u8", &[1, 2, 3][..], 6.0),
        (">i1", "i8", &[1, 2, 3], 6.0),
        ("<b1", "u8", &[1, 0, 1], 2.0),
        ("?", "u8", &[1, 0, 1], 2.0),
        ("f4", "f32", &floats, 6.0),
        ("=f4", "f32", &floats, 6.0),
        ("float32", "f32", &floats, 6.0),
        (">d", "f64", &doubles, 6.0),
    ] {
        put(folder.path(), "a.npy", npy(descr, false, "(3L,)", bytes));
        for device in ["cpu", "sim", "sim --stream"] {
            let found = &lines(folder.path(), &format!("a.npy --device {device}"))[0];
            assert_eq!(
                (&found["dtype"], found["value"].as_f64()),
                (&json!(dtype), Some(sum)),
                "{descr}"
            );
        }
    }
}

#[test]
fn format_comes_from_magic_bytes_and_dtype_must_match() {
    let folder = tempfile::tempdir().unwrap();
    let array = vector("<i4", &[2_i32, 0, -5]);
    let columns: [(&str, ArrayRef); 1] = [("x", Arc::new(Int32Array::from(vec![2, 0, -5])))];
    let formats = [
        array.clone(),
        npz(CompressionMethod::Stored, &[("x.npy", array.clone())]),
        arrow_file(&columns, None),
        parquet(&columns, Compression::SNAPPY),
    ];
    for content in &formats {
        put(folder.path(), "a.bin", content);
        for how in ["", " --dtype i32"] {
            assert_eq!(lines(folder.path(), &format!("a.bin{how}"))[0]["value"], -3, "{how}");
            let run = command(folder.path(), &format!("- --device cpu --json{how}"));
            assert_eq!(lines_of(&fed(run, content))[0]["value"], -3, "{how}");
        }
        let output = command(folder.path(), "a.bin --dtype f32 --device cpu").output().unwrap();
        assert_refused("a.bin", &output, &["a.bin: holds i32, but --dtype is f32", "--format raw"]);
        let run = command(folder.path(), "- --dtype u8 --device cpu");
        assert_refused("-", &fed(run, content), &["standard input: holds i32, but --dtype is u8"]);
        // With `--format raw` all bytes are elements.
        let bytes: u64 = content.iter().map(|&byte| u64::from(byte)).sum();
        let found = lines(folder.path(), "a.bin --format raw --dtype u8");
        assert_eq!(found[0]["value"], bytes);
    }
    // A misleading extension does not change the format.
    put(folder.path(), "a.parquet", &formats[0]);
    assert_eq!(lines(folder.path(), "a.parquet")[0]["value"], -3);
}

#[test]
fn codecs_and_names_of_members_are_those_of_numpy_and_pyarrow() {
    let folder = tempfile::tempdir().unwrap();
    let values: Vec<f32> = (0..2000).map(|i| (i % 7) as f32).collect();
    let sum: f32 = values.iter().sum();
    put(folder.path(), "x.npz", npz(CompressionMethod::Bzip2, &[("x.npy", vector("<f4", &values))]));
    assert_eq!(lines(folder.path(), "x.npz")[0]["value"], sum);
    let columns: [(&str, ArrayRef); 1] = [("x", Arc::new(Float32Array::from(values)))];
    let brotli = Compression::BROTLI(BrotliLevel::default());
    put(folder.path(), "x.parquet", parquet(&columns, brotli));
    assert_eq!(lines(folder.path(), "x.parquet")[0]["value"], sum);
    // Written by Python's zipfile: np.arange(5, dtype="f4") by LZMA, with its checksum.
    let lzma = include_bytes!("../data/lzma.npz");
    put(folder.path(), "x.npz", lzma);
    assert_eq!(lines(folder.path(), "x.npz")[0]["value"], 10.0);
    // In the file's 206 bytes, the compressed ones precede the directory.
    for byte in [60, 100, 120] {
        let mut damaged = lzma.to_vec();
        damaged[byte] ^= 0x10;
        put(folder.path(), "x.npz", damaged);
        let output = command(folder.path(), "x.npz --device cpu").output().unwrap();
        assert_refused("x.npz", &output, &["x.npz: array `x`: "]);
    }
    // A member is recognised as an array by its first bytes if not by its name.
    let array = vector("<i4", &[1, 2, 3]);
    let members = [("x", array.clone()), ("notes.txt", b"hello".to_vec()), ("y.npy", array)];
    put(folder.path(), "x.npz", npz(CompressionMethod::Deflated, &members));
    for name in ["x", "y"] {
        assert_eq!(lines(folder.path(), &format!("x.npz --column {name}"))[0]["value"], 6);
    }
    put(folder.path(), "x.npz", npz(CompressionMethod::Deflated, &members[..2]));
    assert_eq!(lines(folder.path(), "x.npz")[0]["value"], 6);
    let names: Vec<String> = (0..200).map(|member| format!("m{member}")).collect();
    let members: Vec<_> = names.iter().map(|name| (&**name, members[0].1.clone())).collect();
    put(folder.path(), "x.npz", npz(CompressionMethod::Stored, &members));
    assert_eq!(lines(folder.path(), "x.npz --column m199")[0]["value"], 6);
}

/// The file was written by pyarrow: 1, 2 and 4, with the checksum of the page's bytes.
#[test]
fn parquet_page_checksum_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let mut content = include_bytes!("../data/checksum.parquet").to_vec();
    put(folder.path(), "x.parquet", &content);
    assert_eq!(lines(folder.path(), "x.parquet")[0]["value"], 7.0);
    let element = content.windows(8).position(|bytes| bytes == 4.0_f64.to_le_bytes()).unwrap();
    content[element] ^= 1;
    put(folder.path(), "x.parquet", content);
    for how in ["--device cpu", "--device sim --stream"] {
        let output = command(folder.path(), &format!("x.parquet {how}")).output().unwrap();
        assert_refused("x.parquet", &output, &["x.parquet: ", "CRC checksum mismatch"]);
    }
}

fn columns() -> [(&'static str, ArrayRef); 6] {
    let values = Int16Array::from(vec![Some(5), Some(7), None]);
    let keys = [Some(0), Some(0), Some(1), None, Some(2)].into_iter().collect();
    let numbers = DictionaryArray::<Int8Type>::new(keys, Arc::new(values));
    let flags = [Some(true), Some(true), Some(false), None, Some(false)];
    let keys = [0, 1, 1, 0, 0].into_iter().map(Some).collect();
    let of_flags =
        DictionaryArray::<Int32Type>::new(keys, Arc::new(BooleanArray::from(vec![true, false])));
    [
        ("none", Arc::new(NullArray::new(5))),
        ("v", Arc::new(Float32Array::from(vec![1.0, 2.0, 4.0, 8.0, 16.0]))),
        ("flag", Arc::new(BooleanArray::from(flags.to_vec()))),
        ("number", Arc::new(numbers)),
        ("of_flags", Arc::new(of_flags)),
        ("whole", Arc::new(BooleanArray::from(vec![true, false, false, false, true]))),
    ]
}

#[test]
fn null_boolean_and_dictionary_columns_are_read() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "t.arrow", arrow_file(&columns(), None));
    put(folder.path(), "t.arrows", arrow_stream(&columns()));
    let [none, v, flag, number, _, whole] = columns();
    put(folder.path(), "t.parquet", parquet(&[none, v, flag, number, whole], Compression::SNAPPY));
    for file in ["t.arrow", "t.arrows", "t.parquet"] {
        for device in ["cpu", "sim", "sim --stream"] {
            let run = |rest: &str| lines(folder.path(), &format!("{file} {rest} --device {device}"));
            let found = run("--column none --op sum,product,argmax,mean");
            assert_eq!(all(&found, "value"), json!([0, 1, null, null]), "{file} {device}");
            assert_eq!((&found[0]["count"], &found[0]["nulls"]), (&json!(0), &json!(5)));
            let found = run("--column number --op sum,max,argmax");
            assert_eq!(all(&found, "value"), json!([17, 7, 7]), "{file} {device}");
            assert_eq!((&found[0]["count"], &found[0]["nulls"]), (&json!(3), &json!(2)));
            assert_eq!((&found[0]["dtype"], &found[2]["index"]), (&json!("i16"), &json!(2)));
            if device.contains("stream") {
                continue;
            }
            let found = run("--column v --by-column flag");
            assert_eq!(all(&found, "key"), json!([true, false, null, false]), "{file}");
            assert_eq!(all(&found, "value"), json!([3.0, 4.0, 8.0, 16.0]), "{file}");
            let found = run("--column v --by-column none");
            assert_eq!((all(&found, "key"), all(&found, "value")), (json!([null]), json!([31.0])));
            let found = run("--column none --by-column whole --op sum");
            assert_eq!(all(&found, "nulls"), json!([1, 3, 1]), "{file}");
            let found = run("--column v --by-column number");
            assert_eq!(all(&found, "key"), json!([5, 7, null]), "{file}");
        }
    }
    for (run, sum) in [("t.arrow --column of_flags", 3), ("t.arrows --column of_flags --stream", 3)] {
        assert_eq!(lines(folder.path(), &format!("{run} --device sim"))[0]["value"], sum);
    }
    lines(folder.path(), "t.arrow --column v --by-column whole --out r.npz");
    let found = lines(folder.path(), "r.npz --column key");
    assert_eq!((&found[0]["count"], &found[0]["value"]), (&json!(3), &json!(2)));
    put(folder.path(), "v.npy", vector("<f4", &[1.0_f32, 2.0, 4.0]));
    put(folder.path(), "k.npy", npy("|b1", false, "(3,)", &[1, 1, 0]));
    let found = lines(folder.path(), "v.npy --by k.npy");
    assert_eq!((all(&found, "key"), all(&found, "value")), (json!([true, false]), json!([3.0, 4.0])));
}

#[test]
fn empty_axis_gives_identities_or_null() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.npy", npy("<f8", false, "(0, 3)", &[]));
    put(folder.path(), "b.npy", npy("<i4", false, "(2, 0, 1, 0)", &[]));
    for device in ["cpu", "sim"] {
        let run = |rest: &str| lines(folder.path(), &format!("{rest} --device {device}"));
        let found = run("a.npy --axis 0 --op sum,product,max,argmax,mean,nonzero");
        assert_eq!(all(&found[..3], "value"), json!([0.0, 0.0, 0.0]));
        assert_eq!(all(&found[3..6], "value"), json!([1.0, 1.0, 1.0]));
        assert_eq!(all(&found[6..15], "value"), Value::Array(vec![Value::Null; 9]));
        assert_eq!(all(&found[15..], "value"), json!([0, 0, 0]));
        assert_eq!((&found[2]["position"], &found[2]["count"]), (&json!([2]), &json!(0)));
        let found = run("b.npy --axis 1,3 --op and");
        assert_eq!((all(&found, "value"), found.len()), (json!([-1, -1]), 2));
    }
    lines(folder.path(), "a.npy --axis 0 --out r.npy");
    assert_eq!(lines(folder.path(), "r.npy")[0]["count"], 3);
    let output = command(folder.path(), "a.npy --axis 0 --op max --out m.npy --device cpu").output();
    assert_refused("a.npy", &output.unwrap(), &["result 0 has no elements", "--json"]);
}

#[test]
fn any_axes_are_reduced_together() {
    let folder = tempfile::tempdir().unwrap();
    let shape = [2_usize, 3, 1, 2, 3, 2, 1, 2];
    let count: usize = shape.iter().product();
    let values: Vec<i32> = (0..count).map(|place| (place * 37 % 101) as i32).collect();
    let name = format!("({})", shape.map(|len| len.to_string()).join(", "));
    put(folder.path(), "a.npy", npy("<i4", false, &name, bytemuck::cast_slice(&values)));
    for axes in [&[0, 3, 5, 7][..], &[1, 4], &[0, 2, 7], &[2, 6], &[0, 1, 3, 4, 5, 7], &[1, 3, 4, 7]] {
        // The sum of each result, and the index of its largest element within it.
        let mut expected: Vec<(i64, i32, usize, usize)> = Vec::new();
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
            expected.resize(expected.len().max(result + 1), (0, i32::MIN, 0, 0));
            let (sum, largest, at, seen) = &mut expected[result];
            *sum += i64::from(value);
            if value > *largest {
                (*largest, *at) = (value, *seen);
            }
            *seen += 1;
        }
        let named: Vec<String> = axes.iter().map(usize::to_string).collect();
        for device in ["cpu", "sim"] {
            let run = format!("a.npy --axis {} --op sum,argmax --device {device}", named.join(","));
            let (sums, places) = (lines(folder.path(), &run), expected.len());
            assert_eq!(sums.len(), 2 * places, "{run}");
            for (at, &(sum, largest, index, _)) in expected.iter().enumerate() {
                assert_eq!(sums[at]["value"], sum, "{run}: {at}");
                let found = (&sums[places + at]["value"], &sums[places + at]["index"]);
                assert_eq!(found, (&json!(largest), &json!(index)), "{run}: {at}");
            }
        }
    }
}

#[cfg(unix)]
fn pipe(folder: &std::path::Path, name: &str, content: Vec<u8>) -> thread::JoinHandle<()> {
    let path = folder.join(name);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    thread::spawn(move || {
        // The write fails if the program refuses the content before it has read all of it.
        let _ = fs::OpenOptions::new().write(true).open(&path).unwrap().write_all(&content);
        fs::remove_file(path).unwrap();
    })
}

#[cfg(unix)]
#[test]
fn pipes_are_read_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let array = vector("<i4", &[1_i32, 2, 4]);
    let columns: [(&str, ArrayRef); 1] = [("x", Arc::new(Int32Array::from(vec![1, 2, 4])))];
    let raw = bytemuck::cast_slice(&[1_i32, 2, 4]).to_vec();
    let contents = [
        ("", array.clone()),
        (" --dtype i32", raw.clone()),
        (" --dtype i32 --shape 3", raw.clone()),
        (" --format arrow", arrow_stream(&columns)),
        ("", parquet(&columns, Compression::SNAPPY)),
        ("", npz(CompressionMethod::Stored, &[("x.npy", array.clone())])),
        (" --stream --device sim", array.clone()),
        (" --stream --device sim --dtype i32", raw.clone()),
        (" --stream --device sim --dtype i32 --shape 3", raw),
    ];
    for (how, content) in contents {
        let writer = pipe(folder.path(), "in", content);
        let found = lines(folder.path(), &format!("in{how} --op sum,max"));
        writer.join().unwrap();
        assert_eq!(all(&found, "value"), json!([7, 4]), "{how}");
    }
    put(folder.path(), "v.npy", vector("<f4", &[1.0_f32, 2.0, 4.0]));
    let writer = pipe(folder.path(), "keys", vector("<i4", &[9_i32, 9, 3]));
    let found = lines(folder.path(), "v.npy --by keys");
    writer.join().unwrap();
    assert_eq!((all(&found, "key"), all(&found, "value")), (json!([9, 3]), json!([3.0, 4.0])));
    let writer = pipe(folder.path(), "offsets", vector("<i4", &[0_i32, 1, 3]));
    let found = lines(folder.path(), "v.npy --offsets offsets");
    writer.join().unwrap();
    assert_eq!(all(&found, "value"), json!([1.0, 6.0]));
    put(folder.path(), "a.npy", &array);
    let writers = ["in", "more"].map(|name| pipe(folder.path(), name, array.clone()));
    let found = lines(folder.path(), "in a.npy more --device sim --op sum");
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_eq!((&found[0]["value"], &found[0]["count"]), (&json!(21), &json!(9)));
    // A pipe cannot be streamed if its format requires reads at several positions.
    let writer = pipe(folder.path(), "in", parquet(&columns, Compression::SNAPPY));
    let output = command(folder.path(), "in --stream --device sim").output().unwrap();
    writer.join().unwrap();
    assert_refused(
        "in",
        &output,
        &["in: --stream does not support Arrow and Parquet from a pipe", "to a file"],
    );
}

#[cfg(unix)]
#[test]
fn any_number_of_files_is_reduced_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let columns: [(&str, ArrayRef); 1] = [("x", Arc::new(Int32Array::from(vec![1, 2, 4])))];
    for (name, content, op) in [
        ("npy", vector("<i4", &[1_i32, 2, 4]), "sum,argmax"),
        ("parquet", parquet(&columns, Compression::SNAPPY), "sum"),
    ] {
        (0..100).for_each(|file| put(folder.path(), &format!("{file:03}.{name}"), &content));
        let program = command(folder.path(), "");
        let script = format!("ulimit -n 60; exec \"$0\" *.{name} --device sim --json --op {op}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(program.get_program()).current_dir(folder.path());
        shell.env("WARPFOLD_LIBCUDA", "/nowhere/libcuda.so.1");
        let found = lines_of(&shell.output().unwrap());
        assert_eq!((&found[0]["value"], &found[0]["count"]), (&json!(700), &json!(300)), "{name}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_standard_output_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "v.npy", vector("<f4", &[1.0_f32; 40_000]));
    put(folder.path(), "k.npy", vector("<i4", &(0..40_000).collect::<Vec<i32>>()));
    let program = command(folder.path(), "");
    for (script, says) in [
        ("exec \"$0\" v.npy --device cpu >&-", "standard output cannot be written: it is closed"),
        ("exec \"$0\" v.npy --device cpu >/dev/full", "standard output cannot be written: No space"),
        (
            "{ \"$0\" v.npy --by k.npy --device cpu --json; echo $? >status; } | head -1 >/dev/null; \
             exit $(cat status)",
            "standard output cannot be written: it is closed, or its reader has exited",
        ),
    ] {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).arg(program.get_program()).current_dir(folder.path());
        let output = shell.output().unwrap();
        assert_refused(script, &output, &[says]);
    }
    // /dev/null accepts all output.
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" v.npy --device cpu >/dev/null"]).arg(program.get_program());
    let output = shell.current_dir(folder.path()).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}
