//! Reads elements from files: NumPy's `.npy`, or raw little-endian.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek},
    path::Path,
};

use warpfold_io::npy;
pub use warpfold_io::{MAX_PTX, MAX_TEXT, open, text};

use crate::{Data, Dtype, Error, Result, cpu::memory_short_of};

/// Reads a file: `.npy` if it starts with the magic bytes, otherwise raw little-endian elements of
/// `dtype`.
///
/// An `.npy` may have any number of dimensions that NumPy supports, in C or Fortran order; all of its
/// elements are read, in file order. `dtype`, if given, must be the file's type.
///
/// Time and memory are linear in the file's size, which is limited by the memory available to the
/// process.
pub fn read(path: &Path, dtype: Option<Dtype>) -> Result<Data> {
    let elements = open(path).and_then(|file| Elements::of(path, file, dtype));
    elements.and_then(Elements::read).map_err(|reason| Error::BadInput { path: path.to_owned(), reason })
}

/// Returns the smallest type that holds all values of a file's type.
pub fn dtype_of(stored: npy::Type) -> Dtype {
    match stored {
        npy::Type::Bool => Dtype::U8,
        other => other.name().parse().expect("all types but bool are the library's"),
    }
}

pub fn raw_type(dtype: Dtype) -> npy::Type {
    npy::Type::named(dtype.name()).expect("all types of the library have a name there")
}

/// A file positioned at its first element.
struct Elements {
    file: BufReader<File>,
    dtype: Dtype,
    count: u64,
}

impl Elements {
    fn of(path: &Path, file: File, wanted: Option<Dtype>) -> Result<Self, String> {
        let length = file.metadata().map_err(|error| error.to_string())?.len();
        let mut file = BufReader::new(file);
        let mut magic = Vec::new();
        file.by_ref()
            .take(npy::MAGIC.len() as u64)
            .read_to_end(&mut magic)
            .map_err(|error| error.to_string())?;
        if magic == npy::MAGIC {
            return Self::npy(file, length, wanted);
        }
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy")) {
            return Err(
                "not a .npy file: it does not start with \\x93NUMPY; for raw elements, use another file \
                 extension and give --dtype"
                    .to_owned(),
            );
        }
        file.rewind().map_err(|error| error.to_string())?;
        Self::raw(file, length, wanted)
    }

    fn npy(mut file: BufReader<File>, length: u64, wanted: Option<Dtype>) -> Result<Self, String> {
        let head = npy::head(&mut file)?;
        if head.stored == npy::Type::Bool {
            return Err(
                "holds bool; allowed are i8, u8, i16, u16, i32, u32, i64, u64, f16, f32 and f64"
                    .to_owned(),
            );
        }
        let dtype = dtype_of(head.stored);
        if head.big_endian {
            return Err(format!(
                "holds {dtype}, big endian; convert it with a.astype(a.dtype.newbyteorder('<'))"
            ));
        }
        if let Some(wanted) = wanted.filter(|&wanted| wanted != dtype) {
            return Err(format!(
                "holds {dtype}, but --dtype is {wanted}; leave --dtype out or convert the file"
            ));
        }
        let needed = head.bytes();
        let position = file.stream_position().map_err(|error| error.to_string())?;
        let present = length.saturating_sub(position);
        if present < needed {
            return Err(format!("cut off: {present} bytes of elements, but its shape needs {needed}"));
        }
        // Arrays in C order and in Fortran order are both contiguous.
        Ok(Self { file, dtype, count: head.elements() })
    }

    fn raw(file: BufReader<File>, length: u64, wanted: Option<Dtype>) -> Result<Self, String> {
        let dtype = wanted.ok_or("raw elements need --dtype (only .npy files name their type)")?;
        let size = dtype.size() as u64;
        if !length.is_multiple_of(size) {
            return Err(format!(
                "{length} bytes are not a multiple of the {size} bytes of one {dtype}; check --dtype"
            ));
        }
        Ok(Self { file, dtype, count: length / size })
    }

    fn read(mut self) -> Result<Data, String> {
        let needed = self.count * self.dtype.size() as u64;
        if let Some(most) = memory_short_of(needed) {
            return Err(format!(
                "{needed} bytes of elements do not fit; this process has {most} bytes of memory left; \
                 reduce the file in parts"
            ));
        }
        Data::read(self.dtype, self.count as usize, &mut self.file).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => "was cut off while it was read".to_owned(),
            _ => error.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn npy_file(descr: &str, order: &str, shape: &str, elements: &[u8]) -> Vec<u8> {
        let dict = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
        let length = (dict.len() + 11).next_multiple_of(64) - 10;
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend((length as u16).to_le_bytes());
        file.extend(format!("{dict:<width$}\n", width = length - 1).bytes());
        file.extend(elements);
        file
    }

    fn read_as(name: &str, bytes: &[u8], dtype: Option<Dtype>) -> Result<Data, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        read(&path, dtype).map_err(|error| error.to_string())
    }

    fn bytes_of(values: &[i32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn arrays_of_any_shape_and_order_are_read() {
        let elements = bytes_of(&[1, 2, 3, 4, 5, 6]);
        for (order, shape) in [("False", "(6,)"), ("False", "(2, 3)"), ("True", "(3, 1, 2)")] {
            let file = npy_file("<i4", order, shape, &elements);
            assert_eq!(read_as("a.npy", &file, None), Ok(Data::I32(vec![1, 2, 3, 4, 5, 6])));
        }
        let empty = npy_file("<f8", "False", "(0,)", &[]);
        assert_eq!(read_as("a.npy", &empty, Some(Dtype::F64)), Ok(Data::F64(vec![])));
    }

    #[test]
    fn every_type_of_numpy_is_read_as_it_was_written() {
        for (descr, dtype) in [
            ("|i1", Dtype::I8),
            ("|u1", Dtype::U8),
            ("<i2", Dtype::I16),
            ("<u2", Dtype::U16),
            ("<i4", Dtype::I32),
            ("<u4", Dtype::U32),
            ("<i8", Dtype::I64),
            ("<u8", Dtype::U64),
            ("<f2", Dtype::F16),
            ("<f4", Dtype::F32),
            ("<f8", Dtype::F64),
        ] {
            let data = Data::random(dtype, 100, 5);
            let file = npy_file(descr, "False", "(4, 25)", data.as_bytes());
            assert_eq!(read_as("a.npy", &file, None), Ok(data.clone()), "{descr}");
            assert_eq!(read_as("a.npy", &file, Some(dtype)), Ok(data.clone()), "{descr}");
            assert_eq!(read_as("a.bin", data.as_bytes(), Some(dtype)), Ok(data), "{descr}");
        }
        let signed = npy_file("|i1", "False", "(2,)", &[0x80, 0xff]);
        assert_eq!(read_as("a.npy", &signed, None), Ok(Data::I8(vec![-128, -1])));
        let message = read_as("a.npy", &signed, Some(Dtype::U8)).unwrap_err();
        assert!(message.contains("holds i8, but --dtype is u8"), "{message}");
    }

    #[test]
    fn raw_elements_are_read_with_their_type() {
        assert_eq!(read_as("a.bin", &bytes_of(&[-1]), Some(Dtype::I32)), Ok(Data::I32(vec![-1])));
        assert_eq!(read_as("a.bin", &bytes_of(&[-1]), Some(Dtype::U32)), Ok(Data::U32(vec![u32::MAX])));
    }

    #[test]
    fn invalid_files_are_refused_with_the_reason() {
        let elements = bytes_of(&[1, 2, 3]);
        let whole = npy_file("<i4", "False", "(3,)", &elements);
        let cases: [(&str, Vec<u8>, Option<Dtype>, &str); 10] = [
            ("a.npy", npy_file("|b1", "False", "(3,)", &[1, 0, 1]), None, "allowed are i8, u8,"),
            ("a.npy", whole[..whole.len() - 1].to_vec(), None, "cut off: 11 bytes"),
            ("a.npy", whole[..40].to_vec(), None, "cut off inside its header"),
            ("a.npy", npy_file(">i4", "False", "(3,)", &elements), None, "big endian"),
            ("a.npy", npy_file("<c4", "False", "(3,)", &elements), None, "allowed are"),
            ("a.npy", npy_file("<c8", "False", "(1,)", &elements), None, "allowed are"),
            ("a.npy", whole, Some(Dtype::F32), "holds i32, but --dtype is f32"),
            ("a.npy", b"hello".to_vec(), None, "not a .npy file"),
            (
                "a.bin",
                vec![0; 7],
                Some(Dtype::I32),
                "7 bytes are not a multiple of the 4 bytes of one i32",
            ),
            ("a.bin", vec![0; 8], None, "need --dtype"),
        ];
        for (name, bytes, dtype, expected) in cases {
            let message = read_as(name, &bytes, dtype).unwrap_err();
            assert!(message.contains(expected) && !message.contains('\n'), "{message}");
        }
        for (shape, expected) in [
            ("(4611686018427387904, 4)", "larger than any file"),
            ("(-1,)", "not a tuple of lengths"),
            ("3", "not a tuple of lengths"),
            ("(99999999999999999999999,)", "not a tuple of lengths"),
            ("(3,) + (4,)", "not a Python dict"),
        ] {
            let file = npy_file("<f8", "False", shape, &[]);
            let message = read_as("a.npy", &file, None).unwrap_err();
            assert!(message.contains(expected), "{shape}: {message}");
        }
        assert!(read(Path::new("no/such/file"), None).is_err());
    }
    /// Opening a pipe blocks until there is a writer, and reading an endless device exhausts memory.
    #[cfg(unix)]
    #[test]
    fn read_refuses_folders_pipes_and_devices() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe.npy");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (path, expected) in [
            (&*pipe, "is a pipe or a device"),
            (Path::new("/dev/zero"), "is a pipe or a device"),
            (folder.path(), "is a folder"),
        ] {
            let message = read(path, Some(Dtype::U8)).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn files_larger_than_memory_are_refused_before_they_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        File::create(&path).unwrap().set_len(1 << 43).unwrap();
        let message = read(&path, Some(Dtype::F32)).unwrap_err().to_string();
        assert!(
            message.contains("8796093022208 bytes of elements do not fit; this process has"),
            "{message}"
        );
    }
}
