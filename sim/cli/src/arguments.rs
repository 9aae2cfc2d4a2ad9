//! Arguments of a kernel: numbers and arrays, parsed from options and read from files.

use std::{
    io::{BufReader, Read, Seek},
    path::{Path, PathBuf},
    str::FromStr,
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytemuck::Pod;
use half::{bf16, f16};
use num_traits::AsPrimitive;
use warpfold_io::{files, npy, open};
use warpfold_sim_driver::host_room;

const MOST_BYTES: usize = 1 << 32;
/// Copies of an array in memory: the contents before and after the launch, and the simulated device's.
const COPIES: u64 = 3;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Type {
    pub(crate) name: &'static str,
    pub(crate) size: usize,
    parse: fn(&str) -> Option<Vec<u8>>,
    show: fn(&[u8]) -> String,
    to_f64: fn(&[u8]) -> f64,
}

impl Type {
    const ALL: [Self; 12] = [
        Self::of::<i8>("i8"),
        Self::of::<u8>("u8"),
        Self::of::<i16>("i16"),
        Self::of::<u16>("u16"),
        Self::of::<i32>("i32"),
        Self::of::<u32>("u32"),
        Self::of::<i64>("i64"),
        Self::of::<u64>("u64"),
        Self::of::<f16>("f16"),
        Self::of::<bf16>("bf16"),
        Self::of::<f32>("f32"),
        Self::of::<f64>("f64"),
    ];

    const fn of<T: Pod + FromStr + ToString + AsPrimitive<f64>>(name: &'static str) -> Self {
        Self {
            name,
            size: size_of::<T>(),
            parse: |text| Some(bytemuck::bytes_of(&text.parse::<T>().ok()?).to_vec()),
            show: |bytes| bytemuck::pod_read_unaligned::<T>(bytes).to_string(),
            to_f64: |bytes| bytemuck::pod_read_unaligned::<T>(bytes).as_(),
        }
    }

    /// Parses a number into its little-endian bytes.
    pub(crate) fn number(&self, text: &str) -> Result<Vec<u8>> {
        (self.parse)(text).with_context(|| format!("{text} is not a number of type {}", self.name))
    }

    pub(crate) fn shown(&self, bytes: &[u8]) -> Vec<String> {
        bytes.chunks_exact(self.size).map(self.show).collect()
    }

    fn shown_at(&self, bytes: &[u8], at: usize) -> String {
        (self.show)(&bytes[at * self.size..][..self.size])
    }

    /// Returns the first index at which `found` differs from `expected` by more than `tolerance` times
    /// the magnitude of `expected`, and the two elements as text.
    pub(crate) fn difference(
        &self,
        found: &[u8],
        expected: &[u8],
        tolerance: f64,
    ) -> Option<(usize, [String; 2])> {
        let is_off = |(one, other): (&[u8], &[u8])| {
            let [wide, other_wide] = [one, other].map(self.to_f64);
            one != other
                && (wide - other_wide)
                    .abs()
                    .partial_cmp(&(tolerance * other_wide.abs()))
                    .is_none_or(|by| by.is_gt())
        };
        let at = found.chunks_exact(self.size).zip(expected.chunks_exact(self.size)).position(is_off)?;
        Some((at, [found, expected].map(|bytes| self.shown_at(bytes, at))))
    }

    /// Reads the elements of an `.npy` or raw file as bytes.
    pub(crate) fn read(&self, path: &Path) -> Result<Vec<u8>> {
        self.elements(path).with_context(|| path.display().to_string())
    }

    fn elements(&self, path: &Path) -> Result<Vec<u8>> {
        let mut file = BufReader::new(open(path).map_err(|reason| anyhow!(reason))?);
        let length = file.get_ref().metadata()?.len();
        let mut magic = Vec::new();
        file.by_ref().take(npy::MAGIC.len() as u64).read_to_end(&mut magic)?;
        let needed = if magic == npy::MAGIC {
            let head = npy::head(&mut file).map_err(|reason| anyhow!(reason))?;
            let order = if head.big_endian { ", big endian" } else { "" };
            ensure!(
                head.stored.name() == self.name && !head.big_endian,
                "the file holds {}{order}, but the argument has type {}",
                head.stored,
                self.name
            );
            let (needed, present) = (head.bytes(), length.saturating_sub(file.stream_position()?));
            ensure!(
                needed <= present,
                "the file is cut off: it has {present} bytes of elements, but its shape needs {needed}"
            );
            needed
        } else {
            file.rewind()?;
            ensure!(
                length.is_multiple_of(self.size as u64),
                "{length} bytes are not a whole number of {}, which take {} each",
                self.name,
                self.size
            );
            length
        };
        let room = host_room();
        ensure!(needed <= room, "the elements take {needed} bytes of memory; {room} are left");
        let mut bytes = vec![0; needed as usize];
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Fails unless an `.npy` file can be written to `path` after the launch.
    pub(crate) fn require_writable(&self, path: &Path) -> Result<()> {
        self.npy()?;
        files::require_writable(path).with_context(|| format!("{} cannot be written", path.display()))
    }

    pub(crate) fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        files::replace(path, npy::file(self.npy()?.descr(), &[bytes.len() / self.size], bytes))
    }

    fn npy(&self) -> Result<npy::Type> {
        let of = npy::Type::ALL.into_iter().find(|of| of.name() == self.name);
        of.with_context(|| format!("NumPy has no type for {}; give the array type u16", self.name))
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl FromStr for Type {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|of| of.name == name).ok_or_else(|| {
            format!("unknown type {name}; allowed are {}", Self::ALL.map(|of| of.name).join(", "))
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    Number(String),
    /// The length, and the number that fills the array; `None` leaves the array unwritten.
    Array(usize, Option<String>),
    File(PathBuf),
}

/// Parsed `NAME:TYPE=NUMBER`, `NAME:TYPE[COUNT]`, `NAME:TYPE[COUNT]=NUMBER` or `NAME:TYPE=@FILE.npy`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) content: Content,
}

impl FromStr for Argument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (left, value) = match text.split_once('=') {
            Some((left, value)) => (left, Some(value)),
            None => (text, None),
        };
        let (name, kind) = left.split_once(':').ok_or("the type is missing; give NAME:TYPE")?;
        let (kind, count) = match kind.split_once('[') {
            Some((kind, count)) => {
                let count = count.strip_suffix(']').and_then(|count| count.parse().ok());
                (kind, Some(count.ok_or("the number of elements is missing; give [COUNT]")?))
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
                return Err("the value is missing; give =NUMBER, =@FILE.npy or [COUNT]".to_owned());
            }
        };
        Ok(Self { name: name.to_owned(), ty: kind.parse()?, content })
    }
}

impl Argument {
    /// Returns an array's initial contents, and whether the kernel may read them; `None` for a number.
    pub(crate) fn array(&self) -> Result<Option<(Vec<u8>, bool)>> {
        let (name, ty) = (&self.name, self.ty);
        Ok(Some(match &self.content {
            Content::Number(_) => return Ok(None),
            Content::File(path) => (ty.read(path)?, true),
            Content::Array(count, value) => {
                let bytes = count.checked_mul(ty.size).filter(|&bytes| bytes <= MOST_BYTES);
                ensure!(*count > 0, "{name} has no elements; give 1 or more");
                let Some(bytes) = bytes else {
                    bail!("{name} has {count} elements; an array takes at most 4 GiB")
                };
                let (needed, room) = (bytes as u64 * COPIES, host_room());
                ensure!(
                    needed <= room,
                    "{name} has {count} elements, which take {needed} bytes of memory; {room} are left"
                );
                match value {
                    None => (vec![0; bytes], false),
                    Some(value) => (ty.number(value)?.repeat(*count), true),
                }
            }
        }))
    }
}

/// Parsed `NAME=@FILE.npy`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InFile {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

impl FromStr for InFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, path) = text.split_once("=@").ok_or("=@ is missing; give NAME=@FILE.npy")?;
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
            ("n", "type is missing"),
            ("n:u32", "value is missing"),
            ("n:u7=1", "u7"),
            ("n:u32[", "number of elements is missing"),
        ] {
            assert!(of(wrong).unwrap_err().contains(says), "{wrong}");
        }
        assert!(of("a:u8[0]").unwrap().array().is_err());
        assert_eq!(of("a:u16[2]=258").unwrap().array().unwrap(), Some((vec![2, 1, 2, 1], true)));
    }

    #[test]
    fn differences_within_the_tolerance_are_ignored() {
        let floats = |values: &[f32]| bytemuck::cast_slice::<f32, u8>(values).to_vec();
        let off = |one: &[f32], other: &[f32], by| {
            Type::of::<f32>("f32").difference(&floats(one), &floats(other), by).map(|(at, _)| at)
        };
        assert_eq!(off(&[1.0, 2.0], &[1.0, 2.0], 0.0), None);
        assert_eq!(off(&[1.0, 2.001], &[1.0, 2.0], 1e-5), Some(1));
        assert_eq!(off(&[1.0, 2.001], &[1.0, 2.0], 1e-2), None);
        assert_eq!(off(&[f32::NAN], &[f32::NAN], 0.0), None);
        assert_eq!(off(&[f32::NAN], &[1.0], 1e9), Some(0));
    }
}
