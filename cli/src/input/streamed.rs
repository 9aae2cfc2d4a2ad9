//! Data that is read while it is reduced, and never held as a whole.

use std::{
    fs,
    io::{self, Read},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Result, bail};
use arrow_buffer::NullBuffer;
use warpfold::{
    Plain,
    internal::Dtype,
    source::{self, Source as Elements},
};
use warpfold_suite::input::npy::{Head, Stored};

use super::{
    Format, Source, Wanted, guarded, numpy,
    tables::{self, Batches, Seen},
};
use crate::options::is_standard_input;

/// A column whose elements have not been read.
pub(crate) struct Streamed {
    /// The type of the elements.
    pub(crate) dtype: Dtype,
    /// Their type in the file, where the library has a wider one in its place.
    pub(crate) stored: Option<String>,
    /// Whether they lie in another order than that of their last index, which their places count.
    pub(crate) is_turned: bool,
    /// Positions on each axis, where they are known already.
    shape: Option<Vec<usize>>,
    from: From,
    /// What is known of rows when they have been read.
    seen: Arc<Mutex<Seen>>,
}

/// Where the elements are.
enum From {
    /// One behind the other.
    Array(Head, Place),
    /// In batches of rows.
    Table(Batches),
}

/// Where the elements of an array are.
enum Place {
    /// In a file, from a byte on.
    File(fs::File, u64),
    /// On standard input, behind which nothing is read.
    Input,
    /// All that comes there, which is to be no more than the head says.
    WholeInput,
    /// All that comes there, whatever the head says.
    AnyInput,
}

/// What was found where all was read.
pub(crate) struct Ended {
    /// Positions on each axis, nulls with the others.
    pub(crate) shape: Vec<usize>,
    /// How many elements are null.
    pub(crate) null_count: u64,
    /// Which ones, where places were asked for.
    pub(crate) nulls: Option<NullBuffer>,
}

impl Streamed {
    fn array(head: Head, place: Place) -> Self {
        let stored = (head.stored == Stored::Bool).then(|| head.stored.to_string());
        let is_matrix = head.shape.iter().filter(|&&length| length > 1).count() > 1;
        let is_known = !matches!(place, Place::AnyInput);
        let shape = head.shape.iter().map(|&length| length as usize);
        Self {
            dtype: head.stored.widened(),
            stored,
            is_turned: head.fortran_order && is_matrix,
            shape: is_known.then(|| shape.collect()),
            from: From::Array(head, place),
            seen: Arc::default(),
        }
    }

    /// How many elements there are, where a file says so ahead.
    pub(crate) fn elements(&self) -> Option<u64> {
        match &self.from {
            From::Array(head, Place::File(..)) => Some(head.elements()),
            From::Array(..) | From::Table(_) => None,
        }
    }

    /// The elements, of the type that they have, and the rest. `places` is whether it is asked for
    /// places among rows.
    pub(crate) fn start<T: Plain + Sync>(self, places: bool) -> Result<(Box<dyn Elements<T>>, Rest)> {
        let Self { shape, seen, .. } = self;
        let elements: Box<dyn Elements<T>> = match self.from {
            From::Array(head, place) => array(&head, place)?,
            From::Table(batches) => {
                Box::new(source::pieces::<T, _, _>(batches.watched(seen.clone(), places)))
            }
        };
        Ok((elements, Rest { shape, seen }))
    }
}

/// What is known behind the last element.
pub(crate) struct Rest {
    shape: Option<Vec<usize>>,
    seen: Arc<Mutex<Seen>>,
}

impl Rest {
    /// What was found, where there were `elements` elements.
    pub(crate) fn ended(self, elements: u64) -> Ended {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let null_count = seen.null_count();
        let shape = self.shape.unwrap_or_else(|| vec![(elements + null_count) as usize]);
        Ended { shape, null_count, nulls: seen.nulls() }
    }
}

/// What comes before the elements is looked at, and nothing behind it.
pub(super) fn of(source: &Source, wanted: Wanted<'_>) -> Result<Streamed> {
    let is_input = is_standard_input(&source.path);
    match &source.format {
        Format::Npy | Format::Raw { .. } if wanted.name.is_some() => {
            bail!("has no columns; leave --column out")
        }
        Format::Npy if is_input => {
            let (head, _) = numpy::head(&mut io::stdin().lock())?;
            Ok(Streamed::array(head, Place::Input))
        }
        Format::Npy => {
            let file = source.file()?;
            let (head, offset) = numpy::head(&mut io::BufReader::new(&file))?;
            numpy::require_present(&head, file.metadata()?.len().saturating_sub(offset))?;
            Ok(Streamed::array(head, Place::File(file, offset)))
        }
        Format::Raw { dtype, shape: None } if is_input => {
            Ok(Streamed::array(numpy::raw_head(*dtype, Vec::new()), Place::AnyInput))
        }
        Format::Raw { dtype, shape } if is_input => {
            let shape = numpy::raw_shape(*dtype, shape.as_deref(), None)?;
            Ok(Streamed::array(numpy::raw_head(*dtype, shape), Place::WholeInput))
        }
        Format::Raw { dtype, shape } => {
            let file = source.file()?;
            let length = file.metadata()?.len();
            let shape = numpy::raw_shape(*dtype, shape.as_deref(), Some(length))?;
            Ok(Streamed::array(numpy::raw_head(*dtype, shape), Place::File(file, 0)))
        }
        Format::Npz => bail!(
            "--stream of an .npz, whose arrays may be compressed; unpack it, and stream the .npy \
             inside"
        ),
        Format::Arrow | Format::Parquet if is_input => bail!(
            "--stream of Arrow and Parquet on standard input, which are read from more than one \
             place; write it to a file"
        ),
        Format::Arrow | Format::Parquet => {
            let (batches, dtype, stored) = guarded(|| tables::batches(source, wanted))?;
            let (from, seen) = (From::Table(batches), Arc::default());
            Ok(Streamed { dtype, stored, is_turned: false, shape: None, from, seen })
        }
    }
}

/// The elements of an array.
fn array<T: Plain + Sync>(head: &Head, place: Place) -> Result<Box<dyn Elements<T>>> {
    let turn = turn(head);
    let (bytes, elements) = match place {
        Place::File(file, offset) => {
            let part = source::File::part(file, offset, head.elements())?;
            return Ok(Box::new(AsStored { part, elements: Some(head.elements()), turn }));
        }
        Place::Input => (head.bytes(), Some(head.elements())),
        Place::WholeInput => (u64::MAX, Some(head.elements())),
        Place::AnyInput => (u64::MAX, None),
    };
    let part = source::reader(io::stdin().take(bytes));
    Ok(Box::new(AsStored { part, elements, turn }))
}

/// What is to be done to the bytes of each element, if they are not as they are reduced.
fn turn(head: &Head) -> Option<fn(&mut [u8])> {
    match head.stored {
        Stored::Bool => Some(|bytes| bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0))),
        Stored::As(_) if head.big_endian => Some(<[u8]>::reverse),
        Stored::As(_) => None,
    }
}

/// Elements of an array, whose bytes are elsewhere.
struct AsStored<S> {
    part: S,
    /// How many there are, if it is known.
    elements: Option<u64>,
    turn: Option<fn(&mut [u8])>,
}

impl<T: Plain, S: Elements<T>> Elements<T> for AsStored<S> {
    fn elements(&self) -> Option<u64> {
        self.elements
    }

    fn read_at(&self, start: u64, into: &mut [T]) -> io::Result<usize> {
        let read = self.part.read_at(start, into)?;
        if let Some(of) = self.elements.filter(|&of| start + read as u64 > of) {
            let words =
                format!("has more than the {of} elements of its --shape; give those that it has");
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        if let Some(turn) = self.turn {
            into[..read].iter_mut().for_each(|element| turn(bytemuck::bytes_of_mut(element)));
        }
        Ok(read)
    }

    fn is_in_order(&self) -> bool {
        self.part.is_in_order()
    }
}
