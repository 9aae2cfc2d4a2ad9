//! Elements from a file: NumPy's `.npy`, or raw little-endian.

use std::{fs, path::Path};

use py_literal::Value as Literal;

use crate::{Data, Dtype, Error, Result};

/// Reads a file: `.npy` by its magic bytes, anything else as raw little-endian elements of `dtype`.
///
/// An `.npy` may have any number of dimensions, in C or Fortran order: a reduction takes all of its
/// elements, in the order of the file. `dtype`, where given, must be the file's.
///
/// # Errors
/// [`Error::BadInput`] when the file cannot be read, is cut off, big endian, of another type, or no
/// whole number of elements.
pub fn read(path: &Path, dtype: Option<Dtype>) -> Result<Data> {
    let bytes = fs::read(path).map_err(|error| bad(path, error.to_string()))?;
    if bytes.starts_with(NPY_MAGIC) {
        return npy(&bytes, dtype).map_err(|reason| bad(path, reason));
    }
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy")) {
        let reason = "no .npy file: it does not start with \\x93NUMPY; name raw elements otherwise and \
                      give --dtype";
        return Err(bad(path, reason.to_owned()));
    }
    raw(&bytes, dtype).map_err(|reason| bad(path, reason))
}

const NPY_MAGIC: &[u8] = b"\x93NUMPY";

fn bad(path: &Path, reason: String) -> Error {
    Error::BadInput { path: path.to_owned(), reason }
}

fn raw(bytes: &[u8], dtype: Option<Dtype>) -> Result<Data, String> {
    let dtype = dtype.ok_or("raw elements need --dtype (only .npy files name their type)")?;
    if !bytes.len().is_multiple_of(dtype.size()) {
        let (length, size) = (bytes.len(), dtype.size());
        return Err(format!(
            "{length} bytes are no whole number of {dtype}, which take {size} each; is --dtype right?"
        ));
    }
    Ok(little_endian(dtype, bytes))
}

fn npy(bytes: &[u8], wanted: Option<Dtype>) -> Result<Data, String> {
    let (header, elements) = split_header(bytes)?;
    let Header { descr, shape } = Header::parse(header)?;
    let dtype = npy_dtype(&descr)?;
    if let Some(wanted) = wanted.filter(|&wanted| wanted != dtype) {
        return Err(format!("holds {dtype}, asked for was {wanted}; leave --dtype out or convert it"));
    }
    let needed = shape
        .iter()
        .try_fold(dtype.size(), |product, &length| product.checked_mul(length))
        .ok_or("its shape is larger than any file")?;
    let whole = elements.get(..needed).ok_or_else(|| {
        format!("cut off: {} bytes of elements, its shape {shape:?} needs {needed}", elements.len())
    })?;
    Ok(little_endian(dtype, whole))
}

/// The header's text and what follows it. NumPy's format: magic, major and minor version, the length of
/// the header in 2 bytes (version 1) or 4, little endian, then that many bytes of a Python dict.
fn split_header(bytes: &[u8]) -> Result<(&str, &[u8]), String> {
    const CUT_OFF: &str = "cut off inside its header";
    let (version, rest) = bytes[NPY_MAGIC.len()..].split_first_chunk::<2>().ok_or(CUT_OFF)?;
    let (length, rest) = match version[0] {
        1 => rest.split_first_chunk().map(|(length, rest)| (u16::from_le_bytes(*length).into(), rest)),
        2 | 3 => rest.split_first_chunk().map(|(length, rest)| (u32::from_le_bytes(*length), rest)),
        other => return Err(format!("is of .npy version {other}; known are 1, 2 and 3")),
    }
    .ok_or(CUT_OFF)?;
    let (header, rest) = rest.split_at_checked(length as usize).ok_or(CUT_OFF)?;
    let header = std::str::from_utf8(header).map_err(|error| format!("header: {error}"))?;
    Ok((header, rest))
}

struct Header {
    descr: String,
    shape: Vec<usize>,
}

impl Header {
    fn parse(text: &str) -> Result<Self, String> {
        let literal: Literal =
            text.trim().parse().map_err(|_| "its header is no Python dict".to_owned())?;
        let Literal::Dict(entries) = literal else {
            return Err("its header is no Python dict".to_owned());
        };
        let entry = |wanted: &str| {
            let found = entries.iter().find(|(key, _)| key.as_string().is_some_and(|key| key == wanted));
            found.map(|(_, value)| value).ok_or_else(|| format!("its header has no {wanted}"))
        };
        let descr = match entry("descr")? {
            Literal::String(descr) => descr.clone(),
            _ => return Err(format!("holds records; {ALLOWED}")),
        };
        let shape = entry("shape")?.as_tuple().and_then(|lengths| {
            lengths.iter().map(|length| usize::try_from(length.as_integer()?).ok()).collect()
        });
        Ok(Self { descr, shape: shape.ok_or("its shape is no tuple of lengths")? })
    }
}

fn npy_dtype(descr: &str) -> Result<Dtype, String> {
    if descr.starts_with('>') {
        return Err(format!(
            "big endian ({descr}); convert it with a.astype(a.dtype.newbyteorder('<'))"
        ));
    }
    Ok(match descr {
        // One byte has no order.
        "|i1" => Dtype::I8,
        "|u1" => Dtype::U8,
        "<i4" => Dtype::I32,
        "<u4" => Dtype::U32,
        "<i8" => Dtype::I64,
        "<u8" => Dtype::U64,
        "<f2" => Dtype::F16,
        "<f4" => Dtype::F32,
        "<f8" => Dtype::F64,
        _ => return Err(format!("holds {descr}; {ALLOWED}")),
    })
}

const ALLOWED: &str = "allowed are i8, u8, i32, u32, i64, u64, f16, f32 and f64, little endian";

#[cfg(target_endian = "little")]
fn little_endian(dtype: Dtype, bytes: &[u8]) -> Data {
    Data::from_bytes(dtype, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An `.npy` of version 1.0, as NumPy writes it.
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
        assert!(message.contains("holds i8, asked for was u8"), "{message}");
    }

    #[test]
    fn raw_elements_are_read_with_their_type() {
        assert_eq!(read_as("a.bin", &bytes_of(&[-1]), Some(Dtype::I32)), Ok(Data::I32(vec![-1])));
        assert_eq!(read_as("a.bin", &bytes_of(&[-1]), Some(Dtype::U32)), Ok(Data::U32(vec![u32::MAX])));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let elements = bytes_of(&[1, 2, 3]);
        let whole = npy_file("<i4", "False", "(3,)", &elements);
        let cases: [(&str, Vec<u8>, Option<Dtype>, &str); 10] = [
            ("a.npy", npy_file("|b1", "False", "(3,)", &[1, 0, 1]), None, "allowed are i8, u8,"),
            ("a.npy", whole[..whole.len() - 1].to_vec(), None, "cut off: 11 bytes"),
            ("a.npy", whole[..40].to_vec(), None, "cut off inside its header"),
            ("a.npy", npy_file(">i4", "False", "(3,)", &elements), None, "big endian"),
            ("a.npy", npy_file("<i2", "False", "(6,)", &elements), None, "allowed are"),
            ("a.npy", npy_file("<c8", "False", "(1,)", &elements), None, "allowed are"),
            ("a.npy", whole, Some(Dtype::F32), "holds i32, asked for was f32"),
            ("a.npy", b"hello".to_vec(), None, "no .npy file"),
            ("a.bin", vec![0; 7], Some(Dtype::I32), "7 bytes are no whole number of i32"),
            ("a.bin", vec![0; 8], None, "need --dtype"),
        ];
        for (name, bytes, dtype, expected) in cases {
            let message = read_as(name, &bytes, dtype).unwrap_err();
            assert!(message.contains(expected) && !message.contains('\n'), "{message}");
        }
        for (shape, expected) in [
            ("(4611686018427387904, 4)", "larger than any file"),
            ("(-1,)", "no tuple of lengths"),
            ("3", "no tuple of lengths"),
            ("(99999999999999999999999,)", "no tuple of lengths"),
            ("(3,) + (4,)", "no Python dict"),
        ] {
            let file = npy_file("<f8", "False", shape, &[]);
            let message = read_as("a.npy", &file, None).unwrap_err();
            assert!(message.contains(expected), "{shape}: {message}");
        }
        assert!(read(Path::new("no/such/file"), None).is_err());
    }
}
