//! Files that declare more than they contain: one line and status 2, without more memory and time than
//! their bytes warrant. Everything runs with an address space of 512 MiB.

use std::{
    path::Path,
    process::{Command, Output},
    sync::Arc,
    time::{Duration, Instant},
};

use arrow_array::{ArrayRef, Float64Array, Int32Array, StringArray};
use arrow_ipc::CompressionType;
use parquet::basic::{Compression, Encoding};
use zip::CompressionMethod;

use crate::{
    assert_refused, command, fed,
    files::{arrow_file, arrow_stream, npy, npz, parquet, parquet_encoded, put},
    lines_of, text,
};

const MEMORY_KIB: u64 = 512 << 10;
const TIME: Duration = Duration::from_secs(10);

fn limited(folder: &Path, arguments: &str) -> Command {
    let program = command(folder, "");
    let mut shell = Command::new("sh");
    let script = format!("ulimit -v {MEMORY_KIB} && ulimit -c 0 && exec \"$0\" \"$@\"");
    shell.args(["-c", &script]).arg(program.get_program()).args(arguments.split_whitespace());
    // Each thread of the CPU's pool has its own stack and heap.
    shell.args(["--device", "cpu"]).env("RAYON_NUM_THREADS", "2").current_dir(folder);
    shell
}

fn run(folder: &Path, arguments: &str) -> Output {
    let start = Instant::now();
    let output = limited(folder, arguments).output().unwrap();
    assert!(start.elapsed() < TIME, "{arguments}: {:?}", start.elapsed());
    output
}

fn replaced(content: &[u8], bytes: &[u8], with: &[u8]) -> Vec<u8> {
    let places: Vec<usize> =
        (0..content.len()).filter(|&place| content[place..].starts_with(bytes)).collect();
    let &[place] = &places[..] else { panic!("{bytes:?} at {places:?}") };
    let mut content = content.to_vec();
    content.splice(place..place + bytes.len(), with.iter().copied());
    content
}

fn numbers() -> [(&'static str, ArrayRef); 1] {
    [("x", Arc::new(Float64Array::from_iter_values((0..4096).map(f64::from))))]
}

#[test]
fn false_arrow_buffer_and_footer_lengths_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for compression in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        // The uncompressed size of the second batch; the first one has two rows.
        let bytes = (4094_i64 * 8).to_le_bytes();
        for lie in [1_i64 << 40, 1 << 62, -2] {
            let whole = arrow_file(&numbers(), Some(compression));
            put(at, "x.arrow", replaced(&whole, &bytes, &lie.to_le_bytes()));
            assert_refused("x.arrow", &run(at, "x.arrow"), &["x.arrow: "]);
        }
    }
    let whole = arrow_file(&numbers(), None);
    let (content, tail) = whole.split_at(whole.len() - 10);
    for lie in [i32::MAX, i32::MIN, 1 << 30] {
        put(at, "x.arrow", [content, &lie.to_le_bytes(), &tail[4..]].concat());
        assert_refused("x.arrow", &run(at, "x.arrow"), &["x.arrow: is damaged"]);
    }
    let stream = arrow_stream(&numbers());
    for lie in [i32::MAX, i32::MIN, 1 << 30] {
        put(at, "x.arrows", [&stream[..4], &lie.to_le_bytes(), &stream[8..]].concat());
        assert_refused("x.arrows", &run(at, "x.arrows"), &["x.arrows: is cut off"]);
    }
    put(at, "x.arrows", &stream[..stream.len() - 1000]);
    assert_refused("x.arrows", &run(at, "x.arrows"), &["x.arrows: is cut off"]);
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Returns a Parquet file whose schema elements have these numbers of children.
fn with_schema(children: &[u64]) -> Vec<u8> {
    let mut footer = vec![0x15, 2, 0x19, 0xfc];
    footer.extend(varint(children.len() as u64));
    for &children in children {
        match children {
            // A type, its repetition (required), and a name.
            0 => footer.extend([0x15, 10, 0x25, 0, 0x18, 1, b'x', 0]),
            _ => {
                footer.extend([0x35, 0, 0x18, 1, b'g', 0x15]);
                footer.extend(varint(children * 2));
                footer.push(0);
            }
        }
    }
    footer.extend([0x16, 0, 0x19, 0x0c, 0]);
    let length = (footer.len() as u32).to_le_bytes();
    [b"PAR1".as_slice(), &footer, &length, b"PAR1"].concat()
}

#[test]
fn false_or_too_deep_parquet_schemas_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let nested = |levels: usize| [vec![1; levels], vec![0]].concat();
    for (schema, says) in [
        (nested(20_000), "groups that are nested more than 64 levels deep"),
        (nested(100), "groups that are nested more than 64 levels deep"),
        (vec![(1 << 31) - 1, 0], "a group of its schema declares 2147483647 children, but 1 elements"),
        (vec![1, 1 << 20, 0], "declares 1048576 children"),
    ] {
        put(at, "x.parquet", with_schema(&schema));
        assert_refused("x.parquet", &run(at, "x.parquet"), &["x.parquet: ", says]);
    }
    // Valid schemas are passed to the `parquet` crate.
    put(at, "x.parquet", with_schema(&[1, 0]));
    assert_eq!(lines_of(&run(at, "x.parquet --json"))[0]["count"], 0);
    put(at, "x.parquet", with_schema(&nested(60)));
    assert_refused("x.parquet", &run(at, "x.parquet"), &["the column is of type Struct"]);
}

#[test]
fn false_parquet_page_headers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let values: ArrayRef = Arc::new(Int32Array::from(vec![7; 1000]));
    let whole = parquet(&[("x", values)], Compression::UNCOMPRESSED);
    put(at, "x.parquet", &whole);
    assert_eq!(lines_of(&run(at, "x.parquet --json"))[0]["value"], 7000);
    // The header of the first dictionary page: its size twice, and a struct with the number of values.
    let header = [0x15, 4, 0x15, 8, 0x15, 8, 0x4c, 0x15, 2];
    let place = whole.windows(header.len()).position(|bytes| bytes == header).expect("a dictionary");
    let mut lie = whole.clone();
    lie.splice(place + 8..place + 9, varint(u64::from(i32::MAX as u32) * 2));
    put(at, "x.parquet", lie);
    let says = ["x.parquet: ", "a page of 4 bytes declares 2147483647 values"];
    assert_refused("x.parquet", &run(at, "x.parquet"), &says);
    // The `parquet` crate allocates the uncompressed size that a page declares.
    let values: ArrayRef = Arc::new(Int32Array::from(vec![7; 1000]));
    let mut lie = parquet(&[("x", values)], Compression::SNAPPY);
    let header = [0x15, 4, 0x15, 8, 0x15];
    let place = lie.windows(header.len()).position(|bytes| bytes == header).expect("a dictionary");
    lie.splice(place + 3..place + 4, varint(u64::from(i32::MAX as u32) * 2));
    put(at, "x.parquet", lie);
    let says = ["x.parquet: its reader cannot allocate 2147483647 bytes of memory"];
    assert_refused("x.parquet", &run(at, "x.parquet"), &says);
}

/// String lengths are delta-encoded integers; equal lengths take no bytes.
#[test]
fn false_parquet_string_length_counts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let values: ArrayRef = Arc::new(StringArray::from(vec!["value"; 40]));
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1; 40]));
    for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
        let columns = [("x", numbers.clone()), ("k", values.clone())];
        let whole = parquet_encoded(&columns, encoding);
        put(at, "x.parquet", &whole);
        let of = "x.parquet --column x --by-column k --json";
        assert_eq!(lines_of(&run(at, of))[0]["value"], 40, "{encoding}");
        // The head of a list of 40 equal lengths: block size, miniblocks, count, and first length, 0 or
        // 5.
        let lists: &[[u8; 5]] = match encoding {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => &[[0x80, 1, 4, 40, 10]],
            _ => &[[0x80, 1, 4, 40, 0], [0x80, 1, 4, 40, 10]],
        };
        for list in lists {
            let place = whole.windows(5).position(|bytes| bytes == list).expect("a list");
            let mut lie = whole.clone();
            lie[place..place + 5].copy_from_slice(&[0x80, 1, 4, 0x7f, list[4]]);
            put(at, "x.parquet", lie);
            let says = ["x.parquet: ", "bytes declares 127 values"];
            assert_refused(of, &run(at, of), &says);
        }
    }
}

#[test]
fn declared_sizes_are_not_allocated_in_advance() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for (order, shape) in [(false, "(30000000000,)"), (false, "(40000000,)"), (true, "(8000, 5000)")] {
        let array = npy("<f8", order, shape, &[0; 800]);
        // The archive records a member's size twice.
        let mut archive = npz(CompressionMethod::Deflated, &[("x.npy", array.clone())]);
        let size = (array.len() as u32).to_le_bytes();
        let places: Vec<_> =
            (0..archive.len()).filter(|&place| archive[place..].starts_with(&size)).collect();
        for place in places {
            archive[place..place + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        }
        put(at, "x.npz", archive);
        assert_refused("x.npz", &run(at, "x.npz"), &["x.npz: array `x`: "]);
        let output = fed(limited(at, "-"), &array);
        assert_refused("-", &output, &["standard input: "]);
    }
    // The dictionary size in LZMA's own header.
    let mut archive = include_bytes!("../data/lzma.npz").to_vec();
    put(at, "x.npz", &archive);
    assert_eq!(lines_of(&run(at, "x.npz --json"))[0]["value"], 10.0);
    let header = [9, 4, 5, 0, 0x5d];
    let place = archive.windows(5).position(|bytes| bytes == header).expect("its properties") + 5;
    archive[place..place + 4].copy_from_slice(&[0xff; 4]);
    put(at, "x.npz", &archive);
    let output = run(at, "x.npz");
    assert!(matches!(output.status.code(), Some(0 | 2)), "{}", text(&output.stderr));
}

/// Endless standard input must not exhaust memory.
#[test]
fn endless_standard_input_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let endless = std::fs::File::open("/dev/zero").unwrap();
    let output = limited(folder.path(), "- --dtype u8").stdin(endless).output().unwrap();
    assert_refused("-", &output, &["standard input: has more than", "reduce it in parts"]);
}

/// NumPy pads strings to the longest one.
#[test]
fn one_long_key_does_not_inflate_the_padded_output() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows = 20_000;
    let long = "k".repeat(100_000);
    let keys = (0..rows).map(|row| if row == 0 { long.clone() } else { format!("{row}") });
    let columns: [(&str, ArrayRef); 2] = [
        ("x", Arc::new(Int32Array::from(vec![1; rows]))),
        ("k", Arc::new(StringArray::from_iter_values(keys))),
    ];
    put(at, "x.parquet", parquet(&columns, Compression::SNAPPY));
    let of = "x.parquet --column x --by-column k";
    let output = run(at, &format!("{of} --out r.npz"));
    let says = ["--out would pad 20000 string keys to the 100000 characters of the longest", "--json"];
    assert_refused(of, &output, &says);
    assert!(!at.join("r.npz").exists());
    assert_eq!(lines_of(&run(at, &format!("{of} --json"))).len(), rows);
    let keys = (0..rows).map(|row| if row % 2 == 0 { &*long } else { "" });
    let columns: [(&str, ArrayRef); 2] = [
        ("x", Arc::new(Int32Array::from(vec![1; rows]))),
        ("k", Arc::new(keys.collect::<arrow_array::DictionaryArray<arrow_array::types::Int32Type>>())),
    ];
    for (name, content) in
        [("x.arrow", arrow_file(&columns, None)), ("x.parquet", parquet(&columns, Compression::SNAPPY))]
    {
        put(at, name, content);
        let output = run(at, &format!("{name} --column x --by-column k --op sum"));
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("19980 more"), "{}", text(&output.stdout));
    }
}
