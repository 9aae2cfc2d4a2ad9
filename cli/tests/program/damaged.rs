//! Truncated and corrupted files: a one-line error, or results where the format does not reveal the
//! damage, and never a panic.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, StringArray};
use arrow_ipc::CompressionType;
use parquet::basic::Compression;
use zip::CompressionMethod;

use crate::{
    command,
    files::{arrow_file, npz, parquet, put, vector},
    text,
};

fn files() -> Vec<(&'static str, Vec<u8>)> {
    let columns: [(&str, ArrayRef); 2] = [
        ("x", Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4)]))),
        ("k", Arc::new(StringArray::from(vec!["a", "a", "b", "c"]))),
    ];
    let npy = vector("<i4", &[1_i32, 2, 3, 4]);
    vec![
        ("x.npy", npy.clone()),
        ("x.npz", npz(CompressionMethod::Deflated, &[("x.npy", npy)])),
        ("x.arrow", arrow_file(&columns, None)),
        ("x.feather", arrow_file(&columns, Some(CompressionType::ZSTD))),
        ("x.parquet", parquet(&columns, Compression::SNAPPY)),
    ]
}

fn status(name: &str, content: &[u8], what: &str) -> i32 {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), name, content);
    let options = match name {
        "x.npy" => "",
        "x.npz" => "--column x",
        _ => "--column x --by-column k",
    };
    let output = command(folder.path(), &format!("{name} {options} --device cpu")).output().unwrap();
    let stderr = text(&output.stderr);
    let status = output.status.code().unwrap_or_else(|| panic!("{name}, {what}: ended by a signal"));
    assert_eq!(stderr.lines().count(), usize::from(status == 2), "{name}, {what}: {stderr}");
    assert!(status == 0 || stderr.starts_with(&format!("error: {name}: ")), "{name}, {what}: {stderr}");
    status
}

#[test]
fn files_that_are_cut_off_are_refused() {
    for (name, content) in files() {
        assert_eq!(status(name, &content, "whole"), 0);
        for part in 0..12 {
            let length = content.len() * part / 12;
            assert_eq!(
                status(name, &content[..length], &format!("{length} bytes")),
                2,
                "{name} {length}"
            );
        }
        assert_eq!(status(name, &content[..content.len() - 1], "but the last byte"), 2, "{name}");
    }
}

/// Without compression, only the checksum reveals damage.
#[test]
fn archive_checksum_is_verified() {
    let npy = vector("<i4", &[1_i32, 2, 0x0403_0201, 4]);
    let mut content = npz(CompressionMethod::Stored, &[("x.npy", npy)]);
    assert_eq!(status("x.npz", &content, "whole"), 0);
    let element = content.windows(4).position(|bytes| bytes == [1, 2, 3, 4]).unwrap();
    content[element] ^= 1;
    assert_eq!(status("x.npz", &content, "an element"), 2);
}

#[test]
fn damaged_bytes_do_not_panic() {
    for (name, content) in files() {
        let mut refused = 0;
        for turn in 0..24 {
            let mut content = content.clone();
            let place = (turn * content.len() + 17) / 24 % content.len();
            content[place] ^= [0xff, 0x01, 0x80][turn % 3];
            refused += usize::from(status(name, &content, &format!("byte {place}")) == 2);
        }
        assert!(refused > 0, "{name}: not one of them was seen");
    }
}
