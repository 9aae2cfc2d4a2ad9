//! Data that is read while it is reduced, and never held as a whole.

use std::{
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
    tables::{self, Seen},
};

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

/// Where the elements are. Of a file nothing is open until they are read: there may be more files than a
/// process may have open.
enum From {
    /// One after the other.
    Array(Head, Place),
    /// In batches of rows, in the column of this place.
    Table(usize),
}

/// Where the elements of an array are.
enum Place {
    /// In a file, from a byte on.
    File(u64),
    /// In a pipe, of which nothing after them is read.
    Pipe(Box<dyn Read + Send>),
    /// All that comes through a pipe, which is to be no more than the head says.
    WholePipe,
    /// All that comes through a pipe, whatever the head says.
    AnyPipe,
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
        let is_known = !matches!(place, Place::AnyPipe);
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
            From::Array(head, Place::File(_)) => Some(head.elements()),
            From::Array(..) | From::Table(_) => None,
        }
    }

    /// Begins to read the elements, of the type that they have; returns them and the rest. `source` is
    /// where this is from, and `places` is whether it is asked for places among rows.
    pub(crate) fn start<T: Plain + Sync>(
        self,
        source: &Source,
        places: bool,
    ) -> Result<(Box<dyn Elements<T>>, Rest)> {
        let Self { shape, seen, .. } = self;
        let elements: Box<dyn Elements<T>> = match self.from {
            From::Array(head, place) => array(source, &head, place)?,
            From::Table(column) => {
                let read = || tables::batches(source, column, seen.clone(), places);
                Box::new(source::pieces::<T, _, _>(guarded(&source.name(), read)?))
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

/// Looks at what comes before the elements, and at nothing after it.
pub(super) fn of(source: &Source, wanted: Wanted<'_>) -> Result<Streamed> {
    let is_pipe = source.is_pipe();
    match &source.format {
        Format::Npy | Format::Raw { .. } if wanted.name.is_some() => {
            bail!("has no columns; leave --column out")
        }
        Format::Npy if is_pipe => {
            let mut pipe = source.pipe()?;
            let (head, _) = numpy::head(&mut pipe, source.otherwise)?;
            Ok(Streamed::array(head, Place::Pipe(pipe)))
        }
        Format::Npy => {
            let file = source.file()?;
            let (head, offset) = numpy::head(&mut io::BufReader::new(&file), source.otherwise)?;
            numpy::require_present(&head, file.metadata()?.len().saturating_sub(offset))?;
            Ok(Streamed::array(head, Place::File(offset)))
        }
        Format::Raw { dtype, shape: None } if is_pipe => {
            Ok(Streamed::array(numpy::raw_head(*dtype, Vec::new()), Place::AnyPipe))
        }
        Format::Raw { dtype, shape } if is_pipe => {
            let shape = numpy::raw_shape(*dtype, shape.as_deref(), None)?;
            Ok(Streamed::array(numpy::raw_head(*dtype, shape), Place::WholePipe))
        }
        Format::Raw { dtype, shape } => {
            let length = source.file()?.metadata()?.len();
            let shape = numpy::raw_shape(*dtype, shape.as_deref(), Some(length))?;
            Ok(Streamed::array(numpy::raw_head(*dtype, shape), Place::File(0)))
        }
        Format::Npz => bail!(
            "--stream of an .npz, whose arrays may be compressed; unpack it, and stream the .npy \
             inside"
        ),
        Format::Arrow | Format::Parquet if is_pipe => bail!(
            "--stream of Arrow and Parquet from a pipe, which are read from more than one place; write \
             it to a file"
        ),
        Format::Arrow | Format::Parquet => {
            let (column, dtype, stored) = guarded(&source.name(), || tables::dtype(source, wanted))?;
            let (from, seen) = (From::Table(column), Arc::default());
            Ok(Streamed { dtype, stored, is_turned: false, shape: None, from, seen })
        }
    }
}

/// Begins to read the elements of an array.
fn array<T: Plain + Sync>(source: &Source, head: &Head, place: Place) -> Result<Box<dyn Elements<T>>> {
    let turn = turn(head);
    let (pipe, bytes, elements) = match place {
        Place::File(offset) => {
            let part = source::File::part(source.file()?, offset, head.elements())?;
            return Ok(Box::new(AsStored { part, elements: Some(head.elements()), turn }));
        }
        Place::Pipe(pipe) => (pipe, head.bytes(), Some(head.elements())),
        Place::WholePipe => (source.pipe()?, u64::MAX, Some(head.elements())),
        Place::AnyPipe => (source.pipe()?, u64::MAX, None),
    };
    let part = source::reader(pipe.take(bytes));
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
