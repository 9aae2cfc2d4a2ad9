//! User errors: one line, status 2, and no file.

use std::{fs, sync::Arc};

use arrow_array::{ArrayRef, Date32Array, Float32Array, Int32Array};
use zip::CompressionMethod;

use crate::{
    assert_refused, command, fed,
    files::{arrow_file, npy, npz, put, vector},
    text,
};

#[test]
fn invalid_calls_print_one_line_and_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    put(at, "a.npy", npy("<f4", false, "(2, 3)", &[0; 24]));
    put(at, "v.npy", vector("<i4", &[1_i32, 2, 3, 4]));
    put(at, "zero.npy", npy("<f4", false, "()", &[0; 4]));
    put(at, "falls.npy", vector("<u4", &[0_u32, 3, 2]));
    put(at, "far.npy", vector("<u4", &[0_u32, 5]));
    put(at, "below.npy", vector("<i8", &[-1_i64, 2]));
    put(at, "some.npy", vector("<u4", &[0_u32, 0, 4]));
    put(at, "three.npy", vector("<u4", &[0_u32, 0, 4]));
    put(at, "none.npy", vector::<u32>("<u4", &[]));
    put(at, "floats.npy", vector("<f4", &[0.0_f32; 4]));
    put(at, "wide.npy", npy("<f4", false, "(0, 4000000000)", &[]));
    put(at, "nine.npy", npy("|u1", false, "(2, 2, 2, 2, 2, 2, 2, 2, 2)", &[1; 512]));
    put(at, "bf16.npy", npy("<V2", false, "(1,)", &[0; 2]));
    put(at, "objects.npy", npy("|O", false, "(1,)", &[0; 8]));
    put(at, "complex.npy", npy("<c8", false, "(1,)", &[0; 8]));
    put(at, "no.npy", "hello");
    put(at, "short.npy", &npy("<f4", false, "(2, 3)", &[0; 24])[..140]);
    put(at, "a.bin", [0; 10]);
    put(at, "a.dat", [0; 10]);
    let arrays = [("a.npy", vector("<i4", &[1_i32])), ("b.npy", vector("<i4", &[2_i32]))];
    put(at, "two.npz", npz(CompressionMethod::Stored, &arrays));
    put(at, "nothing.npz", npz(CompressionMethod::Stored, &[]));
    let columns: [(&str, ArrayRef); 5] = [
        ("price", Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0]))),
        ("gaps", Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]))),
        ("day", Arc::new(Date32Array::from(vec![1, 2, 3]))),
        ("twice", Arc::new(Int32Array::from(vec![1, 2, 3]))),
        ("twice", Arc::new(Int32Array::from(vec![1, 2, 3]))),
    ];
    put(at, "t.arrow", arrow_file(&columns, None));
    let before = fs::read_dir(at).unwrap().count();
    let cases: &[(&str, &[&str])] = &[
        ("", &["required", "FILE"]),
        ("missing.npy", &["missing.npy: No such file"]),
        (".", &[".: is a folder; name a file in it"]),
        ("/dev/zero", &["/dev/zero: is a pipe or a device"]),
        ("a.npy --axis 2", &["a.npy: --axis 2 of 2 dimensions", "0 to 1, and -1 to -2"]),
        ("a.npy --axis -3", &["--axis -3 of 2"]),
        ("a.npy --axis 0,0", &["give each once"]),
        ("a.npy --axis 2,0,0", &["--axis 2 of 2"]),
        ("v.npy --axis 1", &["--axis 1 of 1 dimensions; allowed are 0, and -1 for the same"]),
        ("a.npy --axis x", &["invalid value 'x'", "give whole numbers, such as --axis 0,1"]),
        (
            "a.npy --map x --op mean",
            &["--op mean cannot be combined with --map and --where; there are sum,"],
        ),
        ("a.npy --where x>0 --op argmin", &["--op argmin cannot be combined with --map"]),
        ("a.npy --map x --device cpu", &["--map and --where cannot be combined with --device cpu"]),
        ("zero.npy --axis 0", &["without dimensions"]),
        (
            "nine.npy --axis 0,2,4,6,8 --device sim",
            &["--axis leaves 9 axes", "8; reduce it by --device cpu"],
        ),
        ("wide.npy --axis 0", &["4000000000 results without elements", "allowed are 1048576"]),
        ("a.npy --offsets far.npy", &["error: a.npy: the array has 2 dimensions", "--axis"]),
        ("a.npy --by v.npy", &["error: a.npy: the array has 2 dimensions"]),
        ("v.npy --offsets falls.npy", &["falls.npy: segment 1 is from 3 to 2", "never descend"]),
        ("v.npy --offsets far.npy", &["error: far.npy: offset 5 into 4 elements; allowed are 0 to 4"]),
        ("v.npy --offsets below.npy", &["offset -1 into 4 elements"]),
        ("v.npy --offsets none.npy", &["0 offsets; give one more"]),
        ("v.npy --offsets floats.npy", &["the offsets have type f32 and shape [4]"]),
        ("v.npy --offsets a.npy", &["the offsets have type f32 and shape [2, 3]"]),
        ("v.npy --offsets missing.npy", &["missing.npy: No such file"]),
        (
            "v.npy --by three.npy",
            &["error: three.npy: 3 keys for 4 elements of v.npy; give one for each"],
        ),
        (
            "v.npy --by a.dat",
            &["a.dat: neither its name nor its first bytes identify its format; give an .npy"],
        ),
        (
            "v.npy --offsets no.npy",
            &["no.npy: is not an .npy file: it does not start with", "; write it again"],
        ),
        ("v.npy --by floats.npy", &["floats.npy: keys of f32; allowed are integers"]),
        ("v.npy --by a.npy", &["a.npy: keys of f32"]),
        ("v.npy --by -", &["--by - is standard input", "write the keys to a file"]),
        ("v.npy --by-column x", &["v.npy: has no columns; give a file of keys by --by"]),
        ("v.npy --by v.npy --axis 0", &["--axis", "cannot be used with"]),
        ("v.npy --by v.npy --offsets far.npy", &["cannot be used with"]),
        ("v.npy --column x", &["v.npy: has no columns; leave --column out"]),
        ("complex.npy", &["complex.npy: holds `<c8`; allowed are bool, i8", "save a.real"]),
        ("bf16.npy", &["bf16.npy: holds `<V2`; allowed are", "a.astype('float32')", "--dtype bf16"]),
        ("objects.npy", &["objects.npy: holds `|O`; allowed are", "Python objects"]),
        ("no.npy", &["no.npy: is not an .npy file: it does not start with", "--dtype"]),
        ("short.npy", &["short.npy: is cut off: it has 12 bytes of elements, but its shape needs 24"]),
        ("a.dat", &["a.dat: neither its name nor its first bytes identify its format", "--format"]),
        ("a.dat --format raw", &["--format raw needs an element type", "--dtype"]),
        ("a.dat --format npz", &["a.dat: the .npz file cannot be read"]),
        (
            "a.dat --format npy",
            &["a.dat: is not an .npy file: it does not start with", "; write it again"],
        ),
        ("a.dat --format arrow", &["a.dat: is not an Arrow stream: it has no schema; write it again"]),
        ("a.dat --format parquet", &["a.dat: is damaged or has another format: ", "; write it again"]),
        ("a.dat --format csv", &["invalid value 'csv'", "parquet"]),
        ("a.bin --dtype f32", &["a.bin: its 10 bytes are not a whole number of f32"]),
        ("a.bin --dtype i24", &["unknown type `i24`", "i8, u8, i16, u16, i32"]),
        ("a.bin --dtype u8 --shape 3,3", &["10 bytes, but --shape and --dtype need 9"]),
        ("a.bin --dtype u8 --shape 4294967296,4294967296,2", &["larger than any file"]),
        ("a.bin --shape 10", &["--dtype"]),
        ("a.bin --dtype u8 --shape x", &["invalid value 'x'", "give whole numbers of 0 or more"]),
        (
            "v.npy --dtype f32",
            &["v.npy: holds i32, but --dtype is f32; leave --dtype out, or give --format"],
        ),
        ("v.npy --format npy --dtype f32", &["v.npy: holds i32, but --dtype is f32"]),
        ("v.npy --stream --dtype f32 --device sim", &["v.npy: holds i32, but --dtype is f32"]),
        ("t.arrow --column price --dtype f64", &["t.arrow: holds f32, but --dtype is f64"]),
        ("v.npy --dtype i32 --shape 4", &["v.npy: --shape is for raw elements", "--format raw"]),
        ("no.npy --dtype u8", &["no.npy: is not an .npy file: it does not start with", "--format raw"]),
        ("two.npz", &["two.npz: has the arrays a, b; choose one by --column"]),
        ("two.npz --column c", &["has no array `c`", "there are a, b"]),
        ("nothing.npz", &["has no array; give a file that has one"]),
        ("t.arrow", &["has the columns price, gaps, day, twice, twice; choose one by --column"]),
        ("t.arrow --column prize", &["no column `prize`; did you mean `price`?; there are price, gaps"]),
        ("t.arrow --column twice", &["several columns `twice`"]),
        ("t.arrow --column day", &["of type Date32", "allowed are Boolean, Int8"]),
        ("t.arrow --column price --by-column day", &["t.arrow: keys of type Date32; allowed are"]),
        ("t.arrow --column price --by v.npy", &["4 keys for 3 elements"]),
        ("t.arrow --column price --by t.arrow", &["choose one by --by-column"]),
        ("t.arrow --column gaps --axis 0", &["t.arrow: --axis does not support a column with nulls"]),
        (
            "t.arrow --column price --by-column gaps --out r.npz",
            &["--out cannot store a null key, which NumPy lacks"],
        ),
        (
            "-",
            &[
                "standard input has no file name, and its first bytes do not identify its format",
                "give --format",
            ],
        ),
        ("v.npy --device gpu", &["invalid value 'gpu'", "there are auto, cuda"]),
        (
            "v.npy --device cuda",
            &["no CUDA driver; install NVIDIA's, or take the simulator, device `sim`"],
        ),
        ("v.npy --device sim:99", &["no device `sim:99`"]),
        ("v.npy --level fast", &["invalid value 'fast'", "run-to-run, everywhere"]),
        ("v.npy --out no/such/r.npy", &["--out no/such/r.npy cannot be written: No such file"]),
        (
            "v.npy --out r.txt",
            &["--out r.txt has another extension; give a name that ends in .npy or .npz"],
        ),
        ("v.npy --out r.npy --op describe", &["one or two numbers; name an .npz for describe"]),
        ("v.npy --out r.npy --op sum,max", &["takes one operation, but --op has 2; name an .npz"]),
        ("v.npy --offsets some.npy --op max --out r.npy", &["result 0 has no elements", "--json"]),
        ("v.npy --all --json", &["cannot be used with"]),
        ("v.npy --completions bash", &["cannot be used with"]),
        ("v.npy --opp sum", &["unexpected argument '--opp'", "--op"]),
    ];
    for (arguments, says) in cases {
        // Errors of a file are the same on every device, so most runs use the CPU.
        let device = if arguments.contains("--device") { "" } else { " --device cpu" };
        let all = match arguments.contains("--completions") {
            true => (*arguments).to_owned(),
            false => format!("{arguments}{device}"),
        };
        assert_refused(&all, &command(at, &all).output().unwrap(), says);
    }
    assert_eq!(fs::read_dir(at).unwrap().count(), before, "a file was left");
}

#[test]
fn standard_input_that_is_cut_off_or_too_long_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let whole = npy("<f4", false, "(2, 3)", &[0; 24]);
    for (content, options, says) in [
        (
            &whole[..whole.len() - 1],
            "--format npy",
            "standard input: is cut off: its shape needs 24 bytes",
        ),
        (&whole[..50], "--format npy", "cut off inside its header"),
        (&whole[..3], "--format npy", "is not an .npy file"),
        (&[0; 7], "--dtype i32", "7 bytes are not a whole number of i32"),
        (&[0; 7], "--dtype i32 --shape 2", "cut off: its shape needs 8 bytes"),
        (&[0; 9], "--dtype i32 --shape 2", "has more than the 8 bytes"),
        (&[], "--format arrow", "standard input: "),
        (&[], "--format parquet", "standard input: "),
    ] {
        let arguments = format!("- --device cpu {options}");
        assert_refused(&arguments, &fed(command(folder.path(), &arguments), content), &[says]);
    }
}

/// A sparse file can be larger than memory.
#[test]
fn oversized_file_is_refused_before_reading() {
    let folder = tempfile::tempdir().unwrap();
    let file = fs::File::create(folder.path().join("sparse.bin")).unwrap();
    file.set_len(1 << 43).unwrap();
    let arguments = "sparse.bin --dtype f32 --device cpu";
    let output = command(folder.path(), arguments).output().unwrap();
    assert_refused(arguments, &output, &["8796093022208 bytes"]);
}

#[test]
fn device_out_of_memory_error_suggests_alternatives() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "v.npy", vector("<f4", &[1.0_f32; 3000]));
    put(folder.path(), "a.npy", npy("<f4", false, "(2, 1500)", &[0; 12000]));
    for (arguments, instead) in [
        ("v.npy", "; reduce it while it is read, by --stream, or by --device cpu"),
        ("a.npy --axis 0", "; split the file, or reduce it by --device cpu"),
    ] {
        // Fails each allocation in turn, because the library determines which one holds the data.
        let refused = (1..20).find_map(|call| {
            let arguments = format!("{arguments} --device sim");
            let mut program = command(folder.path(), &arguments);
            let output = program.env("WARPFOLD_SIM_FAIL", format!("cuMemAlloc_v2:{call}:2")).output();
            let output = output.unwrap();
            let is_of_data = text(&output.stderr).contains("not have 12000 bytes free");
            is_of_data.then_some((arguments, output))
        });
        let (arguments, output) = refused.expect("the data is allocated");
        assert_refused(&arguments, &output, &["does not have 12000 bytes free for the data", instead]);
    }
}
