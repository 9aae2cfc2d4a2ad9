//! Arguments of a kernel: numbers and arrays, parsed from options and read from files.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context, Result, bail, ensure};
use warpfold_sim_driver::host_room;
use warpfold_suite::{
    Dtype, Value,
    cli::files,
    input::{self, npy},
    with_dtype,
};

const MOST_BYTES: usize = 1 << 32;
/// Copies of an array: its contents before and after the launch, and the device's own.
const COPIES: u64 = 3;

/// Parses a number into the little-endian bytes of its type.
pub(crate) fn number(dtype: Dtype, text: &str) -> Result<Vec<u8>> {
    with_dtype!(dtype, T => {
        let number: T = text.parse().ok().with_context(|| format!("{text} is no number of type {dtype}"))?;
        Ok(number.to_le_bytes().to_vec())
    })
}

pub(crate) fn shown_at(dtype: Dtype, bytes: &[u8], at: usize) -> String {
    shown(dtype, &bytes[at * dtype.size()..][..dtype.size()]).concat()
}

pub(crate) fn shown(dtype: Dtype, bytes: &[u8]) -> Vec<String> {
    with_dtype!(dtype, T => {
        bytemuck::pod_collect_to_vec::<u8, T>(bytes).iter().map(T::to_string).collect()
    })
}

/// Returns the first index at which `found` differs from `expected` by more than `tolerance` times the
/// magnitude of the latter.
pub(crate) fn first_off(dtype: Dtype, found: &[u8], expected: &[u8], tolerance: f64) -> Option<usize> {
    let is_off = |(one, other): (&[u8], &[u8])| {
        let [wide, other_wide] = [one, other].map(|bytes| Value::from_bytes(dtype, bytes).to_f64());
        one != other
            && (wide - other_wide)
                .abs()
                .partial_cmp(&(tolerance * other_wide.abs()))
                .is_none_or(|by| by.is_gt())
    };
    let size = dtype.size();
    found.chunks_exact(size).zip(expected.chunks_exact(size)).position(is_off)
}

/// Reads the elements of an `.npy` or raw file as bytes.
pub(crate) fn read(dtype: Dtype, path: &Path) -> Result<Vec<u8>> {
    Ok(input::read(path, Some(dtype))?.as_bytes().to_vec())
}

/// Returns an error for an `.npy` file that could not be written after the launch.
pub(crate) fn require_writable(dtype: Dtype, path: &Path) -> Result<()> {
    ensure!(dtype != Dtype::Bf16, "NumPy has no type for bf16; take the array as u16");
    files::require_writable(path).with_context(|| format!("{} cannot be written", path.display()))
}

pub(crate) fn write(dtype: Dtype, path: &Path, bytes: &[u8]) -> Result<()> {
    files::replace(path, npy::file(npy::name_of(dtype), &[bytes.len() / dtype.size()], bytes))
}

/// The initial contents of an argument.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    /// A number passed by value.
    Number(String),
    /// An array of this length: not initialised, or filled with one number.
    Array(usize, Option<String>),
    File(PathBuf),
}

/// `NAME:TYPE=NUMBER`, `NAME:TYPE[COUNT]`, `NAME:TYPE[COUNT]=NUMBER` or `NAME:TYPE=@FILE.npy`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) content: Content,
}

impl FromStr for Argument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (left, value) = match text.split_once('=') {
            Some((left, value)) => (left, Some(value)),
            None => (text, None),
        };
        let (name, kind) = left.split_once(':').ok_or("there is no type behind a colon")?;
        let (kind, count) = match kind.split_once('[') {
            Some((kind, count)) => {
                let count = count.strip_suffix(']').and_then(|count| count.parse().ok());
                (kind, Some(count.ok_or("behind [ there is no number of elements and ]")?))
            }
            None => (kind, None),
        };
        let content = match (count, value) {
            (None, Some(value)) => match value.strip_prefix('@') {
                Some(path) => Content::File(path.into()),
                None => Content::Number(value.to_owned()),
            },
            (Some(count), value) => Content::Array(count, value.map(str::to_owned)),
            (None, None) => {
                return Err("there is no value; give =NUMBER, =@FILE.npy or [COUNT]".to_owned());
            }
        };
        let dtype = kind.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { name: name.to_owned(), dtype, content })
    }
}

impl Argument {
    /// Returns the initial contents of an array and whether they are initialised; `None` for a number.
    pub(crate) fn array(&self) -> Result<Option<(Vec<u8>, bool)>> {
        let (name, dtype) = (&self.name, self.dtype);
        Ok(Some(match &self.content {
            Content::Number(_) => return Ok(None),
            Content::File(path) => (read(dtype, path)?, true),
            Content::Array(count, value) => {
                let bytes = count.checked_mul(dtype.size()).filter(|&bytes| bytes <= MOST_BYTES);
                ensure!(*count > 0, "{name} has no elements; give 1 or more");
                let Some(bytes) = bytes else { bail!("{name} has {count} elements, more than 4 GiB") };
                let (needed, room) = (bytes as u64 * COPIES, host_room());
                ensure!(
                    needed <= room,
                    "{name} has {count} elements, which take {needed} bytes of memory; {room} are left"
                );
                match value {
                    None => (vec![0; bytes], false),
                    Some(value) => (number(dtype, value)?.repeat(*count), true),
                }
            }
        }))
    }
}

/// A file that is given as `NAME=@FILE.npy`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InFile {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

impl FromStr for InFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = text.split_once("=@").ok_or("there is no =@ between a name and a file")?;
        Ok(Self { name: name.to_owned(), path: path.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_numbers_arrays_or_files() {
        let of = |text: &str| text.parse::<Argument>();
        let content = |text: &str| of(text).unwrap().content;
        assert_eq!(content("n:u32=5"), Content::Number("5".to_owned()));
        assert_eq!(content("out:f32[64]"), Content::Array(64, None));
        assert_eq!(content("a:i8[3]=-1"), Content::Array(3, Some("-1".to_owned())));
        assert_eq!(content("in:f64=@x.npy"), Content::File("x.npy".into()));
        for (wrong, says) in [
            ("n", "no type"),
            ("n:u32", "no value"),
            ("n:u7=1", "u7"),
            ("n:u32[", "no number of elements"),
        ] {
            assert!(of(wrong).unwrap_err().contains(says), "{wrong}");
        }
        assert!(of("a:u8[0]").unwrap().array().is_err());
        assert_eq!(of("a:u16[2]=258").unwrap().array().unwrap(), Some((vec![2, 1, 2, 1], true)));
    }

    #[test]
    fn elements_differ_by_more_than_a_tolerance_or_not() {
        let floats = |values: &[f32]| bytemuck::cast_slice::<f32, u8>(values).to_vec();
        let off =
            |one: &[f32], other: &[f32], by| first_off(Dtype::F32, &floats(one), &floats(other), by);
        assert_eq!(off(&[1.0, 2.0], &[1.0, 2.0], 0.0), None);
        assert_eq!(off(&[1.0, 2.001], &[1.0, 2.0], 1e-5), Some(1));
        assert_eq!(off(&[1.0, 2.001], &[1.0, 2.0], 1e-2), None);
        assert_eq!(off(&[f32::NAN], &[f32::NAN], 0.0), None);
        assert_eq!(off(&[f32::NAN], &[1.0], 1e9), Some(0));
    }
}
