//! Data that is reduced while it is read; it is never in memory as a whole.

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
use warpfold_io::npy::{Head, Type};
use warpfold_suite::input::dtype_of;

use super::{
    Format, Source, Wanted, guarded, numpy,
    tables::{self, Seen},
};

pub(crate) struct Streamed {
    pub(crate) dtype: Dtype,
    /// The elements' type in the file, if the library uses a wider one instead.
    pub(crate) stored: Option<String>,
    /// True if the elements are in Fortran order, so that file positions are not C-order indices.
    pub(crate) is_turned: bool,
    shape: Option<Vec<usize>>,
    from: From,
    /// Row counts and nulls, filled in while reading.
    seen: Arc<Mutex<Seen>>,
}

/// The location of the elements. Files are opened only when they are read, because a process may have
/// only a limited number of open files.
enum From {
    Array(Head, Place),
    /// A table, with the index of the column.
    Table(usize),
}

enum Place {
    File(u64),
    /// A pipe that is read up to the last element.
    Pipe(Box<dyn Read + Send>),
    /// A pipe that is read to its end. More elements than its header declares are an error.
    WholePipe,
    /// A pipe that is read to its end, whatever number of elements its header declares.
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
        let stored = (head.stored == Type::Bool).then(|| head.stored.to_string());
        let is_matrix = head.shape.iter().filter(|&&length| length > 1).count() > 1;
        let is_known = !matches!(place, Place::AnyPipe);
        let shape = head.shape.iter().map(|&length| length as usize);
        Self {
            dtype: dtype_of(head.stored),
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

    /// Starts to read this column of `source`. Also returns a handle to the shape and the number of
    /// nulls, which are known after the last element. `places` requests the null bitmap, from which row
    /// indices are computed.
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

/// A handle to the shape and the nulls, which are known after the last element.
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

/// Returns the column's elements, after reading only the head of the source.
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
            "--stream does not support .npz, whose arrays may be compressed; unpack it, and stream the \
             .npy inside"
        ),
        Format::Arrow | Format::Parquet if is_pipe => bail!(
            "--stream does not support Arrow and Parquet from a pipe, because it reads them at several \
             positions; write it to a file"
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

/// Returns the conversion of an element's stored bytes, if they are not those of the reduced type.
fn turn(head: &Head) -> Option<fn(&mut [u8])> {
    match head.stored {
        Type::Bool => Some(|bytes| bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0))),
        _ if head.big_endian => Some(<[u8]>::reverse),
        _ => None,
    }
}

/// Elements of an array, converted from their stored form while they are read.
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
            let words = format!("has more than the {of} elements of --shape; correct --shape");
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
