//! Arrays of NumPy's, and raw elements.

use std::io::{self, Read};

use anyhow::{Context, Result, anyhow, bail};
use bytemuck::Pod;
use warpfold::internal::Dtype;
use warpfold_suite::{
    Data, Scalar,
    input::npy::{self, Head, Stored},
    with_dtype,
};
use zip::ZipArchive;

use super::{Column, Seekable, Stream, Wanted, room};

/// Elements that are converted at a time.
const TURN: usize = 1 << 16;

/// Reads the array of an `.npy` file.
pub(super) fn npy(Stream { mut from, length }: Stream) -> Result<Column> {
    let (head, read) = head(&mut from)?;
    array(&head, &mut from, length.map(|length| length.saturating_sub(read)))
}

/// What stands before the elements of an `.npy`, and how many bytes it takes.
pub(super) fn head(from: &mut impl Read) -> Result<(Head, u64)> {
    // What is left of the limit says how much was read.
    let mut from = from.take(u64::MAX);
    let mut magic = Vec::new();
    from.by_ref().take(npy::MAGIC.len() as u64).read_to_end(&mut magic)?;
    if magic != npy::MAGIC {
        bail!("no .npy: it does not start with \\x93NUMPY; give --format, or --dtype for raw elements");
    }
    let head = npy::head(&mut from).map_err(|reason| anyhow!(reason))?;
    Ok((head, u64::MAX - from.limit()))
}

/// An array of an `.npz`.
pub(super) fn npz(from: Box<dyn Seekable>, wanted: Wanted<'_>) -> Result<Column> {
    let mut archive = ZipArchive::new(from).context("no .npz that can be read; write it anew")?;
    let (mut names, mut places) = (Vec::new(), Vec::new());
    for (place, name) in archive.file_names().enumerate() {
        if let Some(name) = name?.strip_suffix(".npy") {
            names.push(name.to_owned());
            places.push(place);
        }
    }
    let chosen = wanted.among("array", &names)?;
    let mut member = archive.by_index(places[chosen])?;
    let length = Some(member.size());
    let column = (|| {
        let mut magic = [0; npy::MAGIC.len()];
        member.read_exact(&mut magic)?;
        if magic != npy::MAGIC {
            bail!("no .npy: it does not start with \\x93NUMPY; write it anew");
        }
        let head = npy::head(&mut member).map_err(|reason| anyhow!(reason))?;
        let column = array(&head, &mut member, length)?;
        // The checksum is looked at behind the last byte.
        io::copy(&mut member, &mut io::sink())?;
        Ok(column)
    })();
    column.with_context(|| format!("array `{}`", names[chosen]))
}

/// Raw elements of a type, and a shape if that is not all that there are.
pub(super) fn raw(stream: Stream, dtype: Dtype, shape: Option<&[usize]>) -> Result<Column> {
    let Stream { mut from, length } = stream;
    if let (None, None) = (shape, length) {
        let mut content = Vec::new();
        from.read_to_end(&mut content)?;
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

/// The elements behind a head; `present` is how many bytes there are, if that is known.
fn array(head: &Head, from: &mut impl Read, present: Option<u64>) -> Result<Column> {
    let needed = head.bytes();
    present.map_or(Ok(()), |present| require_present(head, present))?;
    let data = match head.stored {
        Stored::As(dtype) => with_dtype!(dtype, T => elements::<T, T>(head, from, |value| value)),
        Stored::Bool => elements::<u8, u8>(head, from, |value| u8::from(value != 0)),
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

/// Elements of one type as those of another, in the order of their last index, whatever order they have
/// in the file. There is one copy of them.
fn elements<S: Pod, T: Scalar>(head: &Head, from: &mut impl Read, widen: fn(S) -> T) -> Result<Data> {
    let n = head.elements() as usize;
    let mut values: Vec<T> = room(n)?;
    values.resize(n, T::zeroed());
    let is_matrix = head.shape.iter().filter(|&&length| length > 1).count() > 1;
    let is_plain = matches!(head.stored, Stored::As(_)) && !head.big_endian;
    if is_plain && !(head.fortran_order && is_matrix) {
        from.read_exact(bytemuck::cast_slice_mut(&mut values))?;
        return Ok(T::data(values));
    }
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
