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

pub(crate) struct Streamed {
    pub(crate) dtype: Dtype,
    /// Their type in the file, if the library uses a wider one instead.
    pub(crate) stored: Option<String>,
    /// True if they are stored in Fortran order, in which file positions are not C-order indices.
    pub(crate) is_turned: bool,
    shape: Option<Vec<usize>>,
    from: From,
    /// Row counts and nulls, filled in while reading.
    seen: Arc<Mutex<Seen>>,
}

/// The location of the elements. Files are opened only when they are read, because there may be more of
/// them than a process may have open.
enum From {
    Array(Head, Place),
    /// Batches of rows, with the index of the column.
    Table(usize),
}

enum Place {
    File(u64),
    /// In a pipe; nothing after the elements is read.
    Pipe(Box<dyn Read + Send>),
    /// A pipe to its end, which must not have more elements than the head says.
    WholePipe,
    /// A pipe to its end, whatever the head says.
    AnyPipe,
}

pub(crate) struct Ended {
    pub(crate) shape: Vec<usize>,
    pub(crate) null_count: u64,
    /// The null bitmap, if indices were requested.
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

    pub(crate) fn elements(&self) -> Option<u64> {
        match &self.from {
            From::Array(head, Place::File(_)) => Some(head.elements()),
            From::Array(..) | From::Table(_) => None,
        }
    }

    /// Starts to read the elements; also returns the handle for the end result. `source` is the source
    /// of this column; `places` requests the null bitmap for row indices.
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

/// The handle to what is known after the last element.
pub(crate) struct Rest {
    shape: Option<Vec<usize>>,
    seen: Arc<Mutex<Seen>>,
}

impl Rest {
    pub(crate) fn ended(self, elements: u64) -> Ended {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let null_count = seen.null_count();
        let shape = self.shape.unwrap_or_else(|| vec![(elements + null_count) as usize]);
        Ended { shape, null_count, nulls: seen.nulls() }
    }
}

/// Reads the head before the elements and nothing after it.
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

/// Returns the conversion of an element's bytes, if they are not stored as they are reduced.
fn turn(head: &Head) -> Option<fn(&mut [u8])> {
    match head.stored {
        Stored::Bool => Some(|bytes| bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0))),
        Stored::As(_) if head.big_endian => Some(<[u8]>::reverse),
        Stored::As(_) => None,
    }
}

/// Elements of an array, read from another source of bytes.
struct AsStored<S> {
    part: S,
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
