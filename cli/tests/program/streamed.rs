//! Files that are reduced while they are read: the same results as in memory, with less memory, and no
//! output if a file ends early.

use std::{fs, path::Path, sync::Arc};

use arrow_array::{ArrayRef, BooleanArray, Float32Array, Int32Array, StringArray};
use parquet::basic::Compression;
use serde_json::json;
use warpfold::internal::Dtype;
use warpfold_suite::Data;
use zip::CompressionMethod;

use crate::{
    all, assert_refused, command, fed,
    files::{arrow_file, arrow_stream, npy, npz, parquet, put, vector},
    lines, lines_of, text,
};

/// Asserts that a streamed file gives the same output as one read into memory, and no messages.
fn assert_matches_unstreamed(folder: &Path, arguments: &str) {
    let run = |arguments: &str| {
        let output = command(folder, &format!("{arguments} --device sim")).output().unwrap();
        assert_eq!(text(&output.stderr), "", "{arguments}");
        assert_eq!(output.status.code(), Some(0), "{arguments}");
        text(&output.stdout).to_owned()
    };
    assert_eq!(run(&format!("{arguments} --stream")), run(arguments), "{arguments}");
}

#[test]
fn every_operation_and_dtype_matches_an_unstreamed_file() {
    let folder = tempfile::tempdir().unwrap();
    for &dtype in Dtype::ALL {
        // No sum and no product is rounded.
        let data = Data::of_integers(dtype, 300, |place| if place % 31 == 7 { 2 } else { 1 });
        put(folder.path(), "a.bin", data.as_bytes());
        let any = "sum,sumsq,sumabs,product,min,max,minmax,argmin,argmax,nonzero,mean,l1,l2,maxnorm";
        let own = match dtype.is_float() {
            true => {
                "nansum,nansumsq,nansumabs,nanl1,nanl2,nanproduct,nanmin,nanmax,nanminmax,nanmaxnorm,\
                 nanargmin,nanargmax,nancount"
            }
            false => "and,or,xor",
        };
        let how = format!("a.bin --dtype {dtype} --op {any},{own}");
        assert_eq!(
            lines(folder.path(), &format!("{how} --stream --device sim")),
            lines(folder.path(), &how)
        );
        // The results of these operations are rounded, and differ between a stream and memory.
        let rounded = if dtype.is_float() {
            "spread,std,logsumexp,nanspread,describe,hmean,moment3,nanhmean,nanmoment3"
        } else {
            "spread,variance,describe,hmean"
        };
        let how = format!("a.bin --dtype {dtype} --op {rounded}");
        let found = lines(folder.path(), &format!("{how} --stream --device sim"));
        for (found, held) in found.iter().zip(lines(folder.path(), &how)) {
            for (field, held) in held.as_object().unwrap() {
                let near = |held: f64| (found[field].as_f64().unwrap() - held).abs() <= 1e-3 * held;
                assert!(
                    found[field] == *held || held.as_f64().is_some_and(near),
                    "{how}: {found} {field}"
                );
            }
        }
    }
}

#[test]
fn all_nan_results_match_an_unstreamed_file() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "nan.bin", Data::F32(vec![f32::NAN; 3]).as_bytes());
    assert_matches_unstreamed(
        folder.path(),
        "nan.bin --dtype f32 --op nanmin,nanminmax,nanargmax,nanspread,describe --json",
    );
}

#[test]
fn everywhere_sums_match_an_unstreamed_file_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let data = Data::random(Dtype::F32, 1_300_003, 11);
    put(folder.path(), "a.bin", data.as_bytes());
    let how = "a.bin --dtype f32 --op sum,sumsq,sumabs,mean,l1,argmax,argmin,minmax";
    let everywhere = format!("{how} --level everywhere");
    let streamed = lines(folder.path(), &format!("{everywhere} --stream --device sim"));
    assert_eq!(streamed, lines(folder.path(), &everywhere));
    // The ordinary sum is the same in every run.
    let twice = [(); 2].map(|()| lines(folder.path(), &format!("{how} --stream --device sim")));
    assert_eq!(twice[0], twice[1]);
    assert_ne!(twice[0][0]["value"], streamed[0]["value"], "the level makes no difference");
}

#[test]
fn arrays_of_any_byte_order_and_shape_are_streamed() {
    let folder = tempfile::tempdir().unwrap();
    let wide: Vec<u8> =
        [3_i32, -7, 70_000, 12, 5, 9].iter().flat_map(|value| value.to_be_bytes()).collect();
    for (file, ops) in [
        (
            npy("<f4", false, "(2, 3)", bytemuck::cast_slice(&[2.5_f32, 7.0, 1.0, 8.0, 3.0, 5.0])),
            "sum,argmax",
        ),
        (npy(">i4", false, "(3, 2)", &wide), "sum,argmax,spread"),
        (npy("|b1", false, "(5,)", &[0, 1, 255, 0, 7]), "sum,argmax,max"),
        (npy("<i2", false, "()", &[3, 0]), "sum,argmin"),
        (npy("<f8", false, "(0, 3)", &[]), "sum,product,max,argmax,mean,l2"),
        // Fortran order is allowed without indices, or if only one axis is longer than 1.
        (npy(">i4", true, "(3, 2)", &wide), "sum,minmax,mean"),
        (npy(">i4", true, "(1, 6)", &wide), "sum,argmax"),
    ] {
        put(folder.path(), "a.npy", file);
        assert_matches_unstreamed(folder.path(), &format!("a.npy --op {ops}"));
    }
    put(folder.path(), "a.npy", npy(">i4", true, "(3, 2)", &wide));
    let arguments = "a.npy --stream --device sim --op sum,argmax";
    let output = command(folder.path(), arguments).output().unwrap();
    assert_refused(
        arguments,
        &output,
        &["a.npy: --op argmax cannot be combined with --stream for an array in Fortran order"],
    );
    put(folder.path(), "a.bin", [1, 0, 2, 0, 3, 0, 4, 0]);
    assert_matches_unstreamed(folder.path(), "a.bin --dtype u16 --shape 2,2 --op sum,argmax --json");
}

/// Nulls are recorded in every batch, and indices count rows.
#[test]
fn columns_are_streamed_by_their_batches() {
    let folder = tempfile::tempdir().unwrap();
    let columns: [(&str, ArrayRef); 4] = [
        ("x", Arc::new(Float32Array::from(vec![Some(1.0), None, None, Some(8.0), Some(2.0)]))),
        ("whole", Arc::new(Int32Array::from(vec![1, 2, 3, 9, 5]))),
        ("truth", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false), None, Some(true)]))),
        ("none", Arc::new(Int32Array::from(vec![None; 5]))),
    ];
    put(folder.path(), "t.parquet", parquet(&columns, Compression::SNAPPY));
    put(folder.path(), "t.arrow", arrow_file(&columns, None));
    put(folder.path(), "t.arrows", arrow_stream(&columns));
    for (file, column) in [
        ("t.parquet", "x"),
        ("t.parquet", "whole"),
        ("t.parquet", "truth"),
        ("t.parquet", "none"),
        ("t.arrow", "x"),
        ("t.arrows", "x"),
    ] {
        assert_matches_unstreamed(
            folder.path(),
            &format!("{file} --column {column} --op sum,argmax,mean"),
        );
    }
    let found = lines(folder.path(), "t.arrow --column x --op argmax,sum --stream --device sim");
    assert_eq!((all(&found, "index"), all(&found, "nulls")), (json!([3, null]), json!([2, 2])));
}

#[test]
fn standard_input_is_streamed() {
    let folder = tempfile::tempdir().unwrap();
    let values: Vec<i32> = (0..700_000).map(|at| at % 1000).collect();
    let bytes: &[u8] = bytemuck::cast_slice(&values);
    let file = vector("<i4", &values);
    let run = |options: &str, content: &[u8]| {
        let arguments = format!("- {options} --stream --device sim");
        fed(command(folder.path(), &format!("{arguments} --op sum,argmax --json")), content)
    };
    for (options, content) in
        [("--format npy", &file[..]), ("--dtype i32", bytes), ("--dtype i32 --shape 700,1000", bytes)]
    {
        let found = lines_of(&run(options, content));
        assert_eq!(all(&found, "count"), json!([700_000, 700_000]), "{options}");
        assert_eq!(all(&found, "value"), json!([349_650_000, 999]), "{options}");
    }
    for (options, content, says) in [
        ("--format npy", &file[..file.len() - 4], "after 699999 elements: it ends there"),
        ("--format npy", &file[..file.len() - 1], "are not a whole number of elements of 4 bytes"),
        ("--format npy", &file[..50], "cut off inside its header"),
        ("--dtype i32", &bytes[..7], "7 bytes are not a whole number of elements of 4 bytes"),
        ("--dtype i32 --shape 700,999", bytes, "has more than the 699300 elements of --shape"),
        ("--dtype i32 --shape 700,1001", bytes, "it ends there, but declared 700700 elements"),
        ("--format parquet", bytes, "from a pipe"),
    ] {
        assert_refused(options, &run(options, content), &["standard input: ", says]);
    }
}

#[test]
fn unstreamable_inputs_print_one_line_and_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    put(at, "v.npy", vector("<i4", &[1_i32, 2, 3, 4]));
    put(at, "none.npy", vector::<i32>("<i4", &[]));
    put(at, "short.npy", &npy("<f4", false, "(2, 3)", &[0; 24])[..140]);
    put(at, "head.npy", &npy("<f4", false, "(2, 3)", &[0; 24])[..60]);
    put(at, "a.bin", [0; 10]);
    put(at, "x.npz", npz(CompressionMethod::Stored, &[("x.npy", vector("<i4", &[1_i32]))]));
    let columns: [(&str, ArrayRef); 2] = [
        ("x", Arc::new(Int32Array::from(vec![1, 2, 3]))),
        ("name", Arc::new(StringArray::from(vec!["a", "b", "c"]))),
    ];
    let table = parquet(&columns, Compression::SNAPPY);
    put(at, "t.parquet", &table);
    put(at, "cut.parquet", &table[..table.len() / 2]);
    // The end of the file, which describes the columns, is intact.
    let mut damaged = table.clone();
    damaged[4..40].fill(0xff);
    put(at, "damaged.parquet", damaged);
    let before = fs::read_dir(at).unwrap().count();
    for (arguments, says) in [
        (
            "v.npy --axis 0",
            &["--stream cannot be combined with --axis", "all elements have one result"][..],
        ),
        ("v.npy --by v.npy", &["--stream cannot be combined with --by,", "leave either out"]),
        ("t.parquet --column x --by-column name", &["--stream cannot be combined with --by-column"]),
        ("v.npy --offsets v.npy", &["--stream cannot be combined with --offsets"]),
        (
            "v.npy --device cpu",
            &["--stream cannot be combined with --device cpu", "--device sim or cuda"],
        ),
        ("v.npy --column x", &["v.npy: has no columns"]),
        ("missing.npy", &["missing.npy: No such file"]),
        ("short.npy", &["short.npy: is cut off: it has 12 bytes of elements, but its shape needs 24"]),
        ("head.npy", &["head.npy: is cut off inside its header"]),
        ("a.bin --dtype f32", &["a.bin: its 10 bytes are not a whole number of f32"]),
        ("a.bin --dtype u8 --shape 3,3", &["10 bytes, but --shape and --dtype need 9"]),
        ("x.npz", &["x.npz: --stream does not support .npz", "unpack it"]),
        ("t.parquet", &["has the columns x, name; choose one by --column"]),
        ("t.parquet --column name", &["of type Utf8", "allowed are Boolean"]),
        ("cut.parquet --column x", &["cut.parquet: is damaged or has another format"]),
        (
            "damaged.parquet --column x",
            &["damaged.parquet: the source failed after 0 elements: is damaged"],
        ),
        ("v.npy --op sum,logsumexp", &["--op logsumexp takes floats"]),
        ("none.npy --op max --out r.npy", &["for which max has no value"]),
    ] {
        let device = if arguments.contains("--device") { "" } else { " --device sim" };
        let arguments = format!("{arguments} --stream{device}");
        assert_refused(&arguments, &command(at, &arguments).output().unwrap(), says);
    }
    assert_eq!(fs::read_dir(at).unwrap().count(), before, "a file was left");
}

#[cfg(target_os = "linux")]
pub(crate) mod on_linux {
    use std::{
        fs::{File, OpenOptions},
        io::{Seek, SeekFrom, Write},
        process::{Child, Stdio},
        thread,
        time::Duration,
    };

    use super::*;

    pub(crate) fn sparse(path: &Path, elements: u64) {
        let head = npy("<f8", false, &format!("({elements},)"), &[]);
        let mut file = File::create(path).unwrap();
        file.write_all(&head).unwrap();
        file.set_len(head.len() as u64 + 8 * elements).unwrap();
        file.seek(SeekFrom::End(-8)).unwrap();
        file.write_all(&1.5_f64.to_le_bytes()).unwrap();
    }

    pub(crate) fn number(child: &Child, file: &str, name: &str) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/{file}", child.id())).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    }

    fn started(folder: &Path, arguments: &str) -> Child {
        let mut command = command(folder, arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The limit, far below the size of the file, covers buffers, kernels and the program itself.
    #[test]
    fn memory_is_bounded_whatever_the_size() {
        const MOST: u64 = 160 << 10;
        let folder = tempfile::tempdir().unwrap();
        sparse(&folder.path().join("a.npy"), 32 << 20);
        let run = |option: &str| {
            let mut child =
                started(folder.path(), &format!("a.npy --op max --json --device sim {option}"));
            let mut peak = 0;
            while child.try_wait().unwrap().is_none() {
                peak = peak.max(number(&child, "status", "VmHWM:").unwrap_or(0));
                if peak > MOST {
                    child.kill().unwrap();
                }
                thread::sleep(Duration::from_millis(2));
            }
            (peak <= MOST, peak, child.wait_with_output().unwrap())
        };
        let (fits, peak, output) = run("--stream");
        assert!(fits, "{peak} kB, of a file of {} kB", 256 << 10);
        assert_eq!(lines_of(&output)[0]["value"], 1.5);
        let (fits, peak, _) = run("");
        assert!(!fits, "it is held in {peak} kB");
    }

    #[test]
    fn a_file_that_shrinks_while_it_is_read_has_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        sparse(&path, 64 << 20);
        let arguments = "a.npy --stream --device sim --out r.npy";
        let mut child = started(folder.path(), arguments);
        while number(&child, "io", "rchar:").unwrap_or(0) < 16 << 20 {
            assert!(child.try_wait().unwrap().is_none(), "it ended before");
            thread::sleep(Duration::from_millis(1));
        }
        OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
        let says =
            ["a.npy: the source failed after ", "the file has 1048576 bytes now", "do not change it"];
        assert_refused(arguments, &child.wait_with_output().unwrap(), &says);
        assert!(!folder.path().join("r.npy").exists());
    }
}
