//! Output files of the program.

use std::{
    fs,
    io::{Cursor, Read},
    path::Path,
    sync::Arc,
};

use arrow_array::{ArrayRef, Float32Array, Int64Array, StringArray};
use warpfold_io::npy::{self, Head};
use zip::ZipArchive;

use crate::{
    assert_refused, command,
    files::{arrow_file, npy as array, put, vector},
    lines, text,
};

fn read(content: &[u8]) -> (Head, Vec<u8>) {
    assert_eq!(&content[..npy::MAGIC.len()], npy::MAGIC);
    let mut rest = Cursor::new(&content[npy::MAGIC.len()..]);
    let head = npy::head(&mut rest).unwrap();
    let mut elements = Vec::new();
    rest.read_to_end(&mut elements).unwrap();
    assert_eq!(content.len() % 64, elements.len() % 64, "elements begin at a multiple of 64");
    (head, elements)
}

fn assert_holds<T: bytemuck::Pod>(content: &[u8], dtype: &str, shape: &[u64], elements: &[T]) {
    let (head, bytes) = read(content);
    assert_eq!((head.stored.to_string().as_str(), &head.shape[..]), (dtype, shape));
    assert!(!head.fortran_order && !head.big_endian);
    assert_eq!(bytes, bytemuck::cast_slice::<T, u8>(elements));
}

fn member(folder: &Path, name: &str) -> Vec<u8> {
    let mut archive = ZipArchive::new(fs::File::open(folder.join("r.npz")).unwrap()).unwrap();
    let mut content = Vec::new();
    archive.by_name(name).unwrap().read_to_end(&mut content).unwrap();
    content
}

#[test]
fn one_operation_writes_an_array_of_its_shape_and_dtype() {
    let folder = tempfile::tempdir().unwrap();
    let elements: Vec<f32> = (0..24).map(|i| (i * 5 % 24) as f32).collect();
    put(folder.path(), "a.npy", array("<f4", false, "(2, 3, 4)", bytemuck::cast_slice(&elements)));
    let run = |rest: &str| {
        lines(folder.path(), &format!("a.npy --out r.npy {rest}"));
        fs::read(folder.path().join("r.npy")).unwrap()
    };
    assert_holds(&run("--op sum"), "f32", &[], &[276.0_f32]);
    assert_holds(&run("--op max --axis 0,1"), "f32", &[4], &[20.0_f32, 21.0, 22.0, 23.0]);
    let counts = [3_u64, 4, 4, 4, 4, 4];
    assert_holds(&run("--op nonzero --axis 2"), "u64", &[2, 3], &counts);
    let found = lines(folder.path(), "a.npy --op argmax --axis 0,1");
    let indices: Vec<u64> = found.iter().map(|line| line["index"].as_u64().unwrap()).collect();
    assert_holds(&run("--op argmax --axis 0,1"), "u64", &[4], &indices);
    let ends = run("--op minmax --axis 0,1");
    assert_holds(&ends, "f32", &[4, 2], &[0.0_f32, 20.0, 1.0, 21.0, 2.0, 22.0, 3.0, 23.0]);
    put(folder.path(), "a.npy", array("<i4", false, "(0, 3)", &[]));
    assert_holds::<i64>(&run("--op sum --axis 1"), "i64", &[0], &[]);
    put(folder.path(), "b.bin", bytemuck::cast_slice(&[0x3fc0_u16, 0x4000]));
    lines(folder.path(), "b.bin --dtype bf16 --op max --out r.npy");
    assert_holds(&fs::read(folder.path().join("r.npy")).unwrap(), "f32", &[], &[2.0_f32]);
}

#[test]
fn several_operations_write_an_archive_with_keys_and_counts() {
    let folder = tempfile::tempdir().unwrap();
    let columns: [(&str, ArrayRef); 3] = [
        ("x", Arc::new(Float32Array::from(vec![1.0, 2.0, 4.0]))),
        ("name", Arc::new(StringArray::from(vec!["é", "ab", "ab"]))),
        ("number", Arc::new(Int64Array::from(vec![-7, 5, 5]))),
    ];
    put(folder.path(), "t.arrow", arrow_file(&columns, None));
    lines(folder.path(), "t.arrow --column x --by-column number --op sum,argmax --out r.npz");
    assert_holds(&member(folder.path(), "sum.npy"), "f32", &[2], &[1.0_f32, 6.0]);
    assert_holds(&member(folder.path(), "argmax.index.npy"), "u64", &[2], &[0_u64, 1]);
    assert_holds(&member(folder.path(), "argmax.value.npy"), "f32", &[2], &[1.0_f32, 4.0]);
    assert_holds(&member(folder.path(), "count.npy"), "u64", &[2], &[1_u64, 2]);
    assert_holds(&member(folder.path(), "key.npy"), "i64", &[2], &[-7_i64, 5]);
    assert_eq!(lines(folder.path(), "r.npz --column sum")[0]["value"], 7.0);
    lines(folder.path(), "t.arrow --column x --by-column name --out r.npz");
    let keys = member(folder.path(), "key.npy");
    assert!(text(&keys[10..60]).contains("'descr': '<U2'"), "{keys:?}");
    let expected: Vec<u8> =
        ['é', '\0', 'a', 'b'].iter().flat_map(|c| u32::from(*c).to_le_bytes()).collect();
    assert!(keys.ends_with(&expected), "{keys:?}");
}

#[test]
fn a_file_is_replaced_whole_or_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.npy", vector("<i4", &[1_i32, 2]));
    put(folder.path(), "offsets.npy", vector("<i4", &[0_i32, 0, 2]));
    put(folder.path(), "r.npy", "old");
    let arguments = "a.npy --offsets offsets.npy --op min --out r.npy --device cpu";
    let output = command(folder.path(), arguments).output().unwrap();
    assert_refused(arguments, &output, &["result 0 has no elements, for which min has no value"]);
    assert_eq!(fs::read(folder.path().join("r.npy")).unwrap(), b"old");
    lines(folder.path(), "a.npy --out r.npy");
    assert_holds(&fs::read(folder.path().join("r.npy")).unwrap(), "i64", &[], &[3_i64]);
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.npy", "offsets.npy", "r.npy"]);
}
