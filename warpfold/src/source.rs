//! Sources of elements for [streamed](crate::Reducer::stream) reductions: a slice, an iterator of
//! pieces, a file, a reader, or a type of the program.

use std::{
    fs, io,
    io::Read,
    marker::PhantomData,
    path::Path,
    sync::{Mutex, PoisonError},
};

use crate::Plain;

/// A sequence of elements that need not be in memory at once.
pub trait Source<T>: Sync {
    /// Returns the number of elements, or `None` if it is known only at the end.
    fn elements(&self) -> Option<u64>;

    /// Copies elements from index `start` on into the slice, and returns their number. It is less than
    /// the length of the slice only at the end of the source.
    ///
    /// Several threads call this at once for different parts, unless the source is [in
    /// order](Self::is_in_order).
    ///
    /// # Errors
    /// Any failure to get the elements.
    fn read_at(&self, start: u64, into: &mut [T]) -> io::Result<usize>;

    /// Returns whether the elements can only be read in order. If so, a single thread calls
    /// [`read_at`](Self::read_at), and each part begins at the end of the previous one.
    fn is_in_order(&self) -> bool {
        false
    }
}

impl<T: Plain + Sync> Source<T> for [T] {
    fn elements(&self) -> Option<u64> {
        Some(self.len() as u64)
    }

    fn read_at(&self, start: u64, into: &mut [T]) -> io::Result<usize> {
        let start = usize::try_from(start).unwrap_or(usize::MAX).min(self.len());
        let part = &self[start..];
        let taken = part.len().min(into.len());
        into[..taken].copy_from_slice(&part[..taken]);
        Ok(taken)
    }
}

impl<T: Plain + Sync> Source<T> for Vec<T> {
    fn elements(&self) -> Option<u64> {
        self.as_slice().elements()
    }

    fn read_at(&self, start: u64, into: &mut [T]) -> io::Result<usize> {
        self.as_slice().read_at(start, into)
    }
}

impl<T, S: Source<T> + ?Sized> Source<T> for &S {
    fn elements(&self) -> Option<u64> {
        (**self).elements()
    }

    fn read_at(&self, start: u64, into: &mut [T]) -> io::Result<usize> {
        (**self).read_at(start, into)
    }

    fn is_in_order(&self) -> bool {
        (**self).is_in_order()
    }
}

/// Returns a source of the pieces of an iterator: slices or vectors of any lengths, or errors.
///
/// ```
/// use warpfold::{Device, Reducer, Selection, op, source};
///
/// let device = Device::open(Selection::Sim)?;
/// let pieces = (0..100_u32).map(|piece| Ok(vec![piece; 1000]));
/// let sum = Reducer::new(&device)?.stream(source::pieces(pieces)).reduce(op::Sum)?;
/// assert_eq!(sum, 4_950_000);
/// # Ok::<(), warpfold::Error>(())
/// ```
pub fn pieces<T, P, I>(iterator: I) -> Pieces<P, I::IntoIter>
where
    T: Plain,
    P: AsRef<[T]>,
    I: IntoIterator<Item = io::Result<P>>,
{
    Pieces(Mutex::new(Rest { iterator: iterator.into_iter().fuse(), piece: None }))
}

/// The source returned by [`pieces`].
pub struct Pieces<P, I>(Mutex<Rest<P, I>>);

struct Rest<P, I> {
    iterator: std::iter::Fuse<I>,
    /// The current piece, and the number of its elements that have been read.
    piece: Option<(P, usize)>,
}

impl<T, P, I> Source<T> for Pieces<P, I>
where
    T: Plain,
    P: AsRef<[T]> + Send,
    I: Iterator<Item = io::Result<P>> + Send,
{
    fn elements(&self) -> Option<u64> {
        None
    }

    fn read_at(&self, _start: u64, into: &mut [T]) -> io::Result<usize> {
        let mut rest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut filled = 0;
        while filled < into.len() {
            let (piece, used) = match rest.piece.take() {
                Some(piece) => piece,
                None => match rest.iterator.next() {
                    Some(piece) => (piece?, 0),
                    None => break,
                },
            };
            let left = &piece.as_ref()[used..];
            let taken = left.len().min(into.len() - filled);
            into[filled..][..taken].copy_from_slice(&left[..taken]);
            filled += taken;
            if taken < left.len() {
                rest.piece = Some((piece, used + taken));
            }
        }
        Ok(filled)
    }

    fn is_in_order(&self) -> bool {
        true
    }
}

/// Returns a source of little-endian elements from a reader, up to its end. If the last element is
/// incomplete, the reduction fails with [`Error::Source`](crate::Error::Source).
///
/// ```
/// # use warpfold::{Device, Reducer, Selection, op, source};
/// # let device = Device::open(Selection::Sim)?;
/// let bytes: &[u8] = &[1, 0, 0, 0, 2, 0, 0, 0];
/// let sum = Reducer::new(&device)?.stream::<i32, _>(source::reader(bytes)).reduce(op::Sum)?;
/// assert_eq!(sum, 3);
/// # Ok::<(), warpfold::Error>(())
/// ```
pub fn reader<R: Read + Send>(reader: R) -> Reader<R> {
    Reader(Mutex::new(reader))
}

/// The source returned by [`reader`].
pub struct Reader<R>(Mutex<R>);

impl<T: Plain, R: Read + Send> Source<T> for Reader<R> {
    fn elements(&self) -> Option<u64> {
        None
    }

    fn read_at(&self, _start: u64, into: &mut [T]) -> io::Result<usize> {
        let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(into);
        let mut filled = 0;
        while filled < bytes.len() {
            match reader.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        whole::<T>(filled as u64).map(|elements| elements as usize)
    }

    fn is_in_order(&self) -> bool {
        true
    }
}

/// The bytes of a file as little-endian elements, read by several threads.
#[derive(Debug)]
pub struct File<T> {
    file: fs::File,
    /// Bytes before the first element.
    offset: u64,
    len: u64,
    element: PhantomData<fn() -> T>,
}

impl<T: Plain> File<T> {
    /// Opens a file that consists of elements.
    ///
    /// # Errors
    /// An error of opening the file, or one for a size that is not a whole number of elements.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = fs::File::open(path)?;
        let len = whole::<T>(file.metadata()?.len())?;
        Self::part(file, 0, len)
    }

    /// Returns a source of the `len` elements from byte `offset` on, for example after a header.
    ///
    /// # Errors
    /// An error for elements past the end of the file.
    pub fn part(file: fs::File, offset: u64, len: u64) -> io::Result<Self> {
        const { assert!(size_of::<T>() > 0, "elements of size 0 have no address") };
        let bytes = file.metadata()?.len();
        let end = len.checked_mul(size_of::<T>() as u64).and_then(|part| part.checked_add(offset));
        if end.is_none_or(|end| end > bytes) {
            let size = size_of::<T>();
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "{len} elements of {size} bytes from byte {offset} on exceed the file of {bytes} \
                     bytes"
                ),
            ));
        }
        Ok(Self { file, offset, len, element: PhantomData })
    }
}

impl<T: Plain> Source<T> for File<T> {
    fn elements(&self) -> Option<u64> {
        Some(self.len)
    }

    fn read_at(&self, start: u64, into: &mut [T]) -> io::Result<usize> {
        let taken = self.len.saturating_sub(start).min(into.len() as u64) as usize;
        if taken == 0 {
            return Ok(0);
        }
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut into[..taken]);
        let from = self.offset + start * size_of::<T>() as u64;
        read_all_at(&self.file, bytes, from).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let end = self.offset + self.len * size_of::<T>() as u64;
                let now = self.file.metadata().map_or(0, |now| now.len());
                let words = format!(
                    "the file has {now} bytes now, but had {end} or more; do not change it while it is \
                     read"
                );
                io::Error::new(io::ErrorKind::UnexpectedEof, words)
            }
            _ => error,
        })?;
        Ok(taken)
    }
}

fn whole<T>(bytes: u64) -> io::Result<u64> {
    let size = size_of::<T>() as u64;
    if !bytes.is_multiple_of(size) {
        let words = format!("{bytes} bytes are not a whole number of elements of {size} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, words));
    }
    Ok(bytes / size)
}

#[cfg(unix)]
fn read_all_at(file: &fs::File, bytes: &mut [u8], from: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, from)
}

#[cfg(windows)]
fn read_all_at(file: &fs::File, mut bytes: &mut [u8], mut from: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        match file.seek_read(bytes, from) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => (bytes, from) = (&mut bytes[read..], from + read as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
