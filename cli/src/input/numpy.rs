//! Arrays of NumPy's, and raw elements.

use std::io::{self, BufReader, Read};

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytemuck::Pod;
use crc32fast::Hasher;
use lzma_rust2::LzmaReader;
use warpfold::internal::Dtype;
use warpfold_suite::{
    Data, Scalar,
    input::npy::{self, Head, Stored},
    with_dtype,
};
use zip::{CompressionMethod, ZipArchive};

use super::{Column, Seekable, Source, Stream, Wanted, require_room, room};

/// Elements that are converted at a time.
const TURN: usize = 1 << 16;

/// Elements that there is room for before any of them came, where nothing but the file's own word says
/// how many there are.
const FIRST: usize = 1 << 20;

/// Members without `.npy` whose first bytes are looked at unless they are named, at most: all of an
/// archive may share the same bytes, and some methods decompress much before they give any.
const MOST_LOOKS: usize = 100;

/// Reads the array of an `.npy` file; `otherwise` says what to do if it is none.
pub(super) fn npy(Stream { mut from, length }: Stream, otherwise: &str) -> Result<Column> {
    let (head, read) = head(&mut from, otherwise)?;
    array(&head, &mut from, length.map(|length| length.saturating_sub(read)))
}

/// Reads what comes before the elements of an `.npy`, and returns how many bytes it takes, too.
pub(super) fn head(from: &mut impl Read, otherwise: &str) -> Result<(Head, u64)> {
    // What is left of the limit says how much was read.
    let mut from = from.take(u64::MAX);
    let mut magic = Vec::new();
    from.by_ref().take(npy::MAGIC.len() as u64).read_to_end(&mut magic)?;
    if magic != npy::MAGIC {
        bail!("no .npy: it does not start with \\x93NUMPY; {otherwise}");
    }
    let head = npy::head(&mut from).map_err(|reason| anyhow!(reason))?;
    Ok((head, u64::MAX - from.limit()))
}

/// Reads an array of an `.npz`.
pub(super) fn npz(source: &Source, wanted: Wanted<'_>) -> Result<Column> {
    let from = source.seekable()?;
    let archive = ZipArchive::new(from);
    let mut archive =
        archive.map_err(|error| anyhow!("no .npz that can be read: {error}; write it anew"))?;
    let (mut names, mut places, mut looks) = (Vec::new(), Vec::new(), MOST_LOOKS);
    let members: Vec<String> =
        archive.file_names().map(|name| Ok(name?.into_owned())).collect::<Result<_>>()?;
    for (place, member) in members.into_iter().enumerate() {
        // `numpy.load` takes a member of any name for an array that begins as one.
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
        let (head, _) = head(&mut member, "write it anew")?;
        // How many bytes there are is the member's own word.
        let column = array(&head, &mut member, None)?;
        // The checksum is looked at after the last byte.
        io::copy(&mut member, &mut io::sink())?;
        Ok(column)
    })();
    column.with_context(|| format!("array `{}`", names[chosen]))
}

/// Returns whether a member of an archive begins as an array.
fn is_array(archive: &mut ZipArchive<Box<dyn Seekable>>, place: usize) -> bool {
    let mut magic = [0; npy::MAGIC.len()];
    let read = opened(archive, place).and_then(|mut member| Ok(member.read_exact(&mut magic)?));
    read.is_ok() && magic == npy::MAGIC
}

/// Returns the uncompressed bytes of a member of an archive.
fn opened(archive: &mut ZipArchive<Box<dyn Seekable>>, place: usize) -> Result<Box<dyn Read + '_>> {
    let method = archive.by_index_raw(place)?.compression();
    // The package of zip has this method by a feature that brings seven others for another method.
    if method != LZMA {
        return Ok(Box::new(archive.by_index(place)?));
    }
    let member = archive.by_index_raw(place)?;
    ensure!(!member.encrypted(), "is encrypted; write it anew");
    let (bytes, crc) = (member.size(), member.crc32());
    let mut member = BufReader::new(member);
    // A version, how many bytes of properties follow, and these: a byte and the dictionary's size.
    let mut header = [0; 9];
    member.read_exact(&mut header)?;
    let [_, _, 5, 0, properties, size @ ..] = header else { bail!("LZMA of unknown properties") };
    let dictionary = u32::from_le_bytes(size);
    drop(room::<u8>(u64::from(dictionary).min(bytes) as usize)?);
    let from = LzmaReader::new_with_props(member, bytes, properties, dictionary, None)?;
    Ok(Box::new(Checked { from, left: bytes, crc, hasher: Hasher::new() }))
}

/// The method of compression, as archives number it.
const LZMA: CompressionMethod = CompressionMethod::LZMA;

/// Bytes whose number and checksum are known, and are compared at their end.
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

/// Reads raw elements of a type, and a shape if that is not all that there are.
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
        bail!(
            "has more than the {needed} bytes that its --shape and --dtype need; give those that it has"
        );
    }
    Ok(column)
}

/// What an `.npy` would say of raw elements.
pub(super) fn raw_head(dtype: Dtype, shape: Vec<u64>) -> Head {
    Head { stored: Stored::As(dtype), big_endian: false, fortran_order: false, shape }
}

/// The shape of raw elements: the one given, which must be that of all bytes if their number is known,
/// or that of all bytes.
pub(super) fn raw_shape(dtype: Dtype, shape: Option<&[usize]>, length: Option<u64>) -> Result<Vec<u64>> {
    let size = dtype.size() as u64;
    let shape: Vec<u64> = match (shape, length.unwrap_or(0)) {
        (Some(shape), _) => shape.iter().map(|&length| length as u64).collect(),
        (None, length) if length.is_multiple_of(size) => vec![length / size],
        (None, length) => bail!(
            "{length} bytes are no whole number of {dtype}, which take {size} each; is --dtype right?"
        ),
    };
    let product = |product: u64, &length: &u64| product.checked_mul(length);
    let needed = match shape.contains(&0) {
        true => 0,
        false => shape.iter().try_fold(size, product).context("its --shape is larger than any file")?,
    };
    if let Some(length) = length.filter(|&length| length != needed) {
        bail!("{length} bytes, and its --shape and --dtype need {needed}; give those that it has");
    }
    Ok(shape)
}

/// Refuses elements if only `present` bytes of them are there, which is fewer than a head says.
pub(super) fn require_present(head: &Head, present: u64) -> Result<()> {
    match head.bytes() {
        needed if present < needed => {
            bail!("cut off: {present} bytes of elements, its shape needs {needed}")
        }
        _ => Ok(()),
    }
}

/// Reads the elements after a head; `present` is how many bytes there are, if that is known.
fn array(head: &Head, from: &mut impl Read, present: Option<u64>) -> Result<Column> {
    let needed = head.bytes();
    present.map_or(Ok(()), |present| require_present(head, present))?;
    let is_known = present.is_some();
    let data = match head.stored {
        Stored::As(dtype) => {
            with_dtype!(dtype, T => elements::<T, T>(head, from, is_known, |value| value))
        }
        Stored::Bool => elements::<u8, u8>(head, from, is_known, |value| u8::from(value != 0)),
    };
    let data = data.map_err(|error| match error.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::UnexpectedEof) => {
            anyhow!("cut off: its shape needs {needed} bytes of elements")
        }
        _ => error,
    })?;
    let stored = match head.stored {
        Stored::As(_) => None,
        other => Some(other.to_string()),
    };
    let shape = head.shape.iter().map(|&length| length as usize).collect();
    Ok(Column { data, shape, nulls: None, stored })
}

/// Reads elements of one type as those of another, in the order of their last index, whatever order they
/// have in the file. There is one copy of them where it is known that they are all there.
fn elements<S: Scalar, T: Scalar>(
    head: &Head,
    from: &mut impl Read,
    is_known: bool,
    widen: fn(S) -> T,
) -> Result<Data> {
    let n = head.elements() as usize;
    let is_matrix = head.shape.iter().filter(|&&length| length > 1).count() > 1;
    let is_plain = matches!(head.stored, Stored::As(_)) && !head.big_endian;
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

/// Reads elements in the file's order. Where it is not known that there are as many, room grows with
/// those that came.
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

/// Where the elements of a file go, one after the other.
struct Places {
    /// Length and distance of each axis, that of the index which runs fastest in the file first.
    axes: Vec<(u64, u64)>,
    index: Vec<u64>,
    place: u64,
}

impl Places {
    /// Those of an array that has elements.
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
