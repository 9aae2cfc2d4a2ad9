//! NumPy arrays and raw elements.

use std::io::{self, BufReader, Read};

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytemuck::Pod;
use crc32fast::Hasher;
use lzma_rust2::LzmaReader;
use warpfold::internal::Dtype;
use warpfold_io::npy::{self, Head, Type};
use warpfold_suite::{
    Data, Scalar,
    input::{dtype_of, raw_type},
    with_dtype,
};
use zip::{CompressionMethod, ZipArchive};

use super::{Column, Seekable, Source, Stream, Wanted, require_room, room};

const TURN: usize = 1 << 16;

/// The initial capacity in elements, if only the file's own header says how many there are.
const FIRST: usize = 1 << 20;

/// The maximum number of members without `.npy` whose first bytes are probed. Many members can share the
/// same bytes, and some compression methods do much work before they return the first byte.
const MOST_LOOKS: usize = 100;

/// Reads the array of an `.npy` file; `otherwise` is the advice if the file has another format.
pub(super) fn npy(Stream { mut from, length }: Stream, otherwise: &str) -> Result<Column> {
    let (head, read) = head(&mut from, otherwise)?;
    array(&head, &mut from, length.map(|length| length.saturating_sub(read)))
}

pub(super) fn head(from: &mut impl Read, otherwise: &str) -> Result<(Head, u64)> {
    // `take` counts the bytes read: it decrements its limit.
    let mut from = from.take(u64::MAX);
    let mut magic = Vec::new();
    from.by_ref().take(npy::MAGIC.len() as u64).read_to_end(&mut magic)?;
    if magic != npy::MAGIC {
        bail!("is not an .npy file: it does not start with \\x93NUMPY; {otherwise}");
    }
    let head = npy::head(&mut from).map_err(|reason| anyhow!(reason))?;
    Ok((head, u64::MAX - from.limit()))
}

pub(super) fn npz(source: &Source, wanted: Wanted<'_>) -> Result<Column> {
    let from = source.seekable()?;
    let archive = ZipArchive::new(from);
    let mut archive =
        archive.map_err(|error| anyhow!("the .npz file cannot be read: {error}; write it again"))?;
    let (mut names, mut places, mut looks) = (Vec::new(), Vec::new(), MOST_LOOKS);
    let members: Vec<String> =
        archive.file_names().map(|name| Ok(name?.into_owned())).collect::<Result<_>>()?;
    for (place, member) in members.into_iter().enumerate() {
        // `numpy.load` accepts a member of any name if its first bytes are those of an array.
        let name = match member.strip_suffix(".npy") {
            Some(name) => name.to_owned(),
            None => {
                if wanted.name != Some(&*member) {
                    if looks == 0 {
                        continue;
                    }
                    looks -= 1;
                }
                if !is_array(&mut archive, place) {
                    continue;
                }
                member
            }
        };
        names.push(name);
        places.push(place);
    }
    let chosen = wanted.among("array", &names)?;
    let column = (|| -> Result<Column> {
        let mut member = opened(&mut archive, places[chosen])?;
        let (head, _) = head(&mut member, "write it again")?;
        // The member's own length cannot be trusted.
        let column = array(&head, &mut member, None)?;
        // Reading to the end verifies the checksum.
        io::copy(&mut member, &mut io::sink())?;
        Ok(column)
    })();
    column.with_context(|| format!("array `{}`", names[chosen]))
}

fn is_array(archive: &mut ZipArchive<Box<dyn Seekable>>, place: usize) -> bool {
    let mut magic = [0; npy::MAGIC.len()];
    let read = opened(archive, place).and_then(|mut member| Ok(member.read_exact(&mut magic)?));
    read.is_ok() && magic == npy::MAGIC
}

fn opened(archive: &mut ZipArchive<Box<dyn Seekable>>, place: usize) -> Result<Box<dyn Read + '_>> {
    let method = archive.by_index_raw(place)?.compression();
    // The zip crate's own feature for LZMA would add seven other methods.
    if method != LZMA {
        return Ok(Box::new(archive.by_index(place)?));
    }
    let member = archive.by_index_raw(place)?;
    ensure!(!member.encrypted(), "is encrypted; write it without encryption");
    let (bytes, crc) = (member.size(), member.crc32());
    let mut member = BufReader::new(member);
    // The version, the length of the properties (5), and the properties: a byte and the dictionary size.
    let mut header = [0; 9];
    member.read_exact(&mut header)?;
    let [_, _, 5, 0, properties, size @ ..] = header else {
        bail!("has an unknown LZMA header; write it with another compression")
    };
    let dictionary = u32::from_le_bytes(size);
    drop(room::<u8>(u64::from(dictionary).min(bytes) as usize)?);
    let from = LzmaReader::new_with_props(member, bytes, properties, dictionary, None)?;
    Ok(Box::new(Checked { from, left: bytes, crc, hasher: Hasher::new() }))
}

const LZMA: CompressionMethod = CompressionMethod::LZMA;

/// A reader that verifies length and checksum at the end.
struct Checked<R> {
    from: R,
    left: u64,
    crc: u32,
    hasher: Hasher,
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.hasher.update(&into[..read]);
        self.left = self.left.saturating_sub(read as u64);
        let is_right = self.left == 0 && self.hasher.clone().finalize() == self.crc;
        if read == 0 && !into.is_empty() && !is_right {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "its checksum is wrong"));
        }
        Ok(read)
    }
}

/// Reads raw elements of a type; without a shape, all elements of the stream as one dimension.
pub(super) fn raw(stream: Stream, dtype: Dtype, shape: Option<&[usize]>) -> Result<Column> {
    let Stream { mut from, length } = stream;
    if let (None, None) = (shape, length) {
        let content = super::whole(&mut from)?;
        let length = Some(content.len() as u64);
        return raw(Stream { from: Box::new(io::Cursor::new(content)), length }, dtype, None);
    }
    let head = raw_head(dtype, raw_shape(dtype, shape, length)?);
    let needed = head.bytes();
    let column = array(&head, &mut from, length)?;
    if from.read(&mut [0])? > 0 {
        bail!("has more than the {needed} bytes that --shape and --dtype need; correct these");
    }
    Ok(column)
}

pub(super) fn raw_head(dtype: Dtype, shape: Vec<u64>) -> Head {
    Head { stored: raw_type(dtype), big_endian: false, fortran_order: false, shape }
}

/// Returns the shape of raw elements: the given one or, without one, one dimension of `length` bytes. A
/// given shape must match the number of bytes, if it is known.
pub(super) fn raw_shape(dtype: Dtype, shape: Option<&[usize]>, length: Option<u64>) -> Result<Vec<u64>> {
    let size = dtype.size() as u64;
    let shape: Vec<u64> = match (shape, length.unwrap_or(0)) {
        (Some(shape), _) => shape.iter().map(|&length| length as u64).collect(),
        (None, length) if length.is_multiple_of(size) => vec![length / size],
        (None, length) => bail!(
            "its {length} bytes are not a whole number of {dtype} elements of {size} bytes; check \
             --dtype"
        ),
    };
    let product = |product: u64, &length: &u64| product.checked_mul(length);
    let needed = match shape.contains(&0) {
        true => 0,
        false => shape.iter().try_fold(size, product).context("its --shape is larger than any file")?,
    };
    if let Some(length) = length.filter(|&length| length != needed) {
        bail!("has {length} bytes, but --shape and --dtype need {needed}; correct these");
    }
    Ok(shape)
}

pub(super) fn require_present(head: &Head, present: u64) -> Result<()> {
    match head.bytes() {
        needed if present < needed => {
            bail!("is cut off: it has {present} bytes of elements, but its shape needs {needed}")
        }
        _ => Ok(()),
    }
}

/// Reads the elements after a header; `present` is the number of available bytes, if known.
fn array(head: &Head, from: &mut impl Read, present: Option<u64>) -> Result<Column> {
    let needed = head.bytes();
    present.map_or(Ok(()), |present| require_present(head, present))?;
    let is_known = present.is_some();
    let data = match head.stored {
        Type::Bool => elements::<u8, u8>(head, from, is_known, |value| u8::from(value != 0)),
        other => with_dtype!(dtype_of(other), T => {
            elements::<T, T>(head, from, is_known, |value| value)
        }),
    };
    let data = data.map_err(|error| match error.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::UnexpectedEof) => {
            anyhow!("is cut off: its shape needs {needed} bytes of elements")
        }
        _ => error,
    })?;
    let stored = (head.stored == Type::Bool).then(|| head.stored.to_string());
    let shape = head.shape.iter().map(|&length| length as usize).collect();
    Ok(Column { data, shape, nulls: None, stored })
}

/// Reads elements in the file's order, and returns them in C order and converted to another type. If
/// they are known to be all present, only one copy is held.
fn elements<S: Scalar, T: Scalar>(
    head: &Head,
    from: &mut impl Read,
    is_known: bool,
    widen: fn(S) -> T,
) -> Result<Data> {
    let n = head.elements() as usize;
    let is_matrix = head.shape.iter().filter(|&&length| length > 1).count() > 1;
    let is_plain = head.stored != Type::Bool && !head.big_endian;
    if is_plain && !(head.fortran_order && is_matrix) {
        return Ok(T::data(in_order(from, n, is_known)?));
    }
    if !is_known {
        let values = in_order::<S>(from, n, false)?;
        let mut values = bytemuck::cast_slice(&values);
        return elements(head, &mut values, true, widen);
    }
    let mut values: Vec<T> = room(n)?;
    values.resize(n, T::zeroed());
    let mut turn = vec![S::zeroed(); n.min(TURN)];
    let mut places = Places::new(head);
    let mut left = n;
    while left > 0 {
        let turn = &mut turn[..left.min(TURN)];
        from.read_exact(bytemuck::cast_slice_mut(turn))?;
        for element in turn.iter_mut() {
            if head.big_endian {
                bytemuck::bytes_of_mut(element).reverse();
            }
            values[places.next()] = widen(*element);
        }
        left -= turn.len();
    }
    Ok(T::data(values))
}

/// Reads elements in the file's order. If it is not known that all are present, the capacity grows with
/// the number of elements read.
fn in_order<T: Pod>(from: &mut impl Read, n: usize, is_known: bool) -> Result<Vec<T>> {
    let mut values: Vec<T> = room(if is_known { n } else { 0 })?;
    let mut next = if is_known { n } else { n.min(FIRST) };
    while values.len() < n {
        let read = values.len();
        require_room::<T>(next - read)?;
        values.try_reserve_exact(next - read)?;
        values.resize(next, T::zeroed());
        from.read_exact(bytemuck::cast_slice_mut(&mut values[read..]))?;
        next = n.min(next.saturating_mul(2));
    }
    Ok(values)
}

/// Iterates over the C-order indices of the elements, in the order in which the file stores them.
struct Places {
    /// Length and stride of each axis; the first one varies fastest in the file.
    axes: Vec<(u64, u64)>,
    index: Vec<u64>,
    place: u64,
}

impl Places {
    fn new(head: &Head) -> Self {
        let mut distance = 1;
        let mut axes: Vec<(u64, u64)> = Vec::new();
        for &length in head.shape.iter().rev() {
            axes.push((length, distance));
            distance = distance.wrapping_mul(length);
        }
        if head.fortran_order {
            axes.reverse();
        }
        Self { index: vec![0; axes.len()], axes, place: 0 }
    }

    fn next(&mut self) -> usize {
        let place = self.place;
        for (index, &(length, distance)) in self.index.iter_mut().zip(&self.axes) {
            *index += 1;
            self.place += distance;
            if *index < length {
                break;
            }
            self.place -= length * distance;
            *index = 0;
        }
        place as usize
    }
}
