//! The data of files, as the library takes it: elements of one of its types, in the order of their last
//! index.

mod keys;
mod numpy;
mod streamed;
mod tables;

use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek},
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow, bail};
use arrow_buffer::NullBuffer;
use bytes::Bytes;
use warpfold::internal::Dtype;
use warpfold_suite::{Data, input, nearest, shortened};

pub(crate) use keys::{Key, Runs};
pub(crate) use streamed::Streamed;

use crate::options::is_standard_input;

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Format {
    /// One array of NumPy's.
    Npy,
    /// Several NumPy arrays in one file.
    Npz,
    /// Arrow's file or stream.
    Arrow,
    /// A file of Parquet's format.
    Parquet,
    /// Little-endian elements and nothing else.
    Raw {
        /// The type of the elements.
        dtype: Dtype,
        /// Their shape, if it is not as many as there are.
        shape: Option<Vec<usize>>,
    },
}

impl Format {
    /// What a file's name says.
    pub(crate) fn of_name(path: &Path) -> Result<Self> {
        let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
        Ok(match extension.as_ref().and_then(|extension| extension.to_str()) {
            Some("npy") => Self::Npy,
            Some("npz") => Self::Npz,
            Some("arrow" | "arrows" | "feather" | "ipc") => Self::Arrow,
            Some("parquet" | "pq") => Self::Parquet,
            _ => bail!(
                "{}: its name does not say what it is, as .npy, .npz, .arrow, .feather, .ipc and \
                 .parquet do; give the data's --format, or --dtype for raw elements",
                path.display()
            ),
        })
    }

    fn is_table(&self) -> bool {
        matches!(self, Self::Arrow | Self::Parquet)
    }
}

/// Elements to be reduced.
#[derive(Debug)]
pub(crate) struct Column {
    /// All that are not null.
    pub(crate) data: Data,
    /// Positions on each axis, nulls with the others.
    pub(crate) shape: Vec<usize>,
    /// Which elements are null; those of one dimension alone can be.
    pub(crate) nulls: Option<NullBuffer>,
    /// Their type in the file, where the library has a wider one in its place.
    pub(crate) stored: Option<String>,
}

impl Column {
    /// All elements that are not null; none if they are no integers.
    pub(crate) fn integers(&self) -> Option<Box<dyn Iterator<Item = i128> + '_>> {
        Some(match &self.data {
            Data::I8(values) => Box::new(values.iter().map(|&value| value.into())),
            Data::U8(values) => Box::new(values.iter().map(|&value| value.into())),
            Data::I16(values) => Box::new(values.iter().map(|&value| value.into())),
            Data::U16(values) => Box::new(values.iter().map(|&value| value.into())),
            Data::I32(values) => Box::new(values.iter().map(|&value| value.into())),
            Data::U32(values) => Box::new(values.iter().map(|&value| value.into())),
            Data::I64(values) => Box::new(values.iter().map(|&value| value.into())),
            Data::U64(values) => Box::new(values.iter().map(|&value| value.into())),
            Data::F16(_) | Data::Bf16(_) | Data::F32(_) | Data::F64(_) => return None,
        })
    }
}

/// A file, or standard input.
pub(crate) struct Source {
    path: PathBuf,
    format: Format,
    /// All of standard input, where it must be read more than once or from behind.
    content: Option<Bytes>,
}

/// What can be read from any place.
trait Seekable: Read + Seek + Send {}

impl<R: Read + Seek + Send> Seekable for R {}

/// What is read from its start to its end, and how many bytes it has where that is known.
struct Stream {
    from: Box<dyn Read>,
    length: Option<u64>,
}

/// Which column is wanted, and what to say where it cannot be told.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    name: Option<&'a str>,
    /// What to do where there are several.
    choose: &'a str,
}

impl Wanted<'_> {
    /// The place of the column among all.
    fn among(self, kind: &str, names: &[String]) -> Result<usize> {
        let all = || shortened(&names.join(", ")).into_owned();
        let Some(name) = self.name else {
            return match names.len() {
                1 => Ok(0),
                0 => bail!("has no {kind}; give a file that has one"),
                _ => bail!("has the {kind}s {}; {}", all(), self.choose),
            };
        };
        let mut found = (0..names.len()).filter(|&at| names[at] == name);
        match (found.next(), found.next()) {
            (Some(at), None) => Ok(at),
            (Some(_), Some(_)) => bail!("has several {kind}s `{name}`; rename them"),
            (None, _) => {
                let near = nearest(name, names.iter().map(String::as_str));
                let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                bail!("has no {kind} `{name}`{near}; there are {}", all())
            }
        }
    }
}

impl Source {
    /// A file of a format; standard input is read here if it has to be whole.
    pub(crate) fn new(path: &Path, format: Format) -> Result<Self> {
        let mut source = Self::unread(path, format);
        let is_stream = matches!(source.format, Format::Npy | Format::Raw { .. });
        if is_standard_input(path) && !is_stream {
            let mut content = Vec::new();
            io::stdin().lock().read_to_end(&mut content).with_context(|| source.name())?;
            source.content = Some(content.into());
        }
        Ok(source)
    }

    /// The same, of which nothing is read.
    pub(crate) fn unread(path: &Path, format: Format) -> Self {
        Self { path: path.to_owned(), format, content: None }
    }

    /// How many bytes the file has.
    pub(crate) fn bytes(&self) -> Result<u64> {
        self.file().and_then(|file| Ok(file.metadata()?.len())).with_context(|| self.name())
    }

    /// As messages have it.
    pub(crate) fn name(&self) -> String {
        match is_standard_input(&self.path) {
            true => "standard input".to_owned(),
            false => self.path.display().to_string(),
        }
    }

    /// The elements of a column; `choose` says what to do where there are several and none is named.
    pub(crate) fn column(&self, name: Option<&str>, choose: &str) -> Result<Column> {
        let wanted = Wanted { name, choose };
        let column = match &self.format {
            Format::Npy | Format::Raw { .. } if name.is_some() => {
                Err(anyhow!("has no columns; leave --column out"))
            }
            Format::Npy => self.stream().and_then(numpy::npy),
            Format::Raw { dtype, shape } => {
                self.stream().and_then(|stream| numpy::raw(stream, *dtype, shape.as_deref()))
            }
            Format::Npz => guarded(|| numpy::npz(self.seekable()?, wanted)),
            Format::Arrow | Format::Parquet => guarded(|| tables::column(self, wanted)),
        };
        column.with_context(|| self.name())
    }

    /// The elements of a column, of which none is read. The source was made by [`unread`](Self::unread).
    pub(crate) fn streamed(&self, name: Option<&str>, choose: &str) -> Result<Streamed> {
        streamed::of(self, Wanted { name, choose }).with_context(|| self.name())
    }

    /// The runs of equal neighbouring keys of a column.
    pub(crate) fn keys(&self, name: Option<&str>) -> Result<Runs> {
        if self.format.is_table() {
            let wanted = Wanted { name, choose: "choose one by --by-column" };
            return guarded(|| tables::keys(self, wanted)).with_context(|| self.name());
        }
        if name.is_some() && self.format != Format::Npz {
            let name = self.name();
            bail!("{name}: has no columns; give a file of keys by --by, and leave --by-column out");
        }
        let column = self.column(name, "choose one by --by-column")?;
        Runs::of_integers(&column).with_context(|| self.name())
    }

    fn stream(&self) -> Result<Stream> {
        if is_standard_input(&self.path) {
            return Ok(Stream { from: Box::new(io::stdin().lock()), length: None });
        }
        let file = self.file()?;
        let length = file.metadata()?.len();
        Ok(Stream { from: Box::new(BufReader::new(file)), length: Some(length) })
    }

    fn seekable(&self) -> Result<Box<dyn Seekable>> {
        Ok(match &self.content {
            Some(content) => Box::new(Cursor::new(content.clone())),
            None => Box::new(BufReader::new(self.file()?)),
        })
    }

    fn file(&self) -> Result<File> {
        input::open(&self.path).map_err(|reason| anyhow!(reason))
    }
}

/// Room for elements, unless they need more bytes than there is memory for.
fn room<T>(elements: usize) -> Result<Vec<T>> {
    let needed = (elements as u64).saturating_mul(size_of::<T>() as u64);
    let most = warpfold_sim_driver::host_room();
    let mut values = Vec::new();
    if needed > most || values.try_reserve_exact(elements).is_err() {
        bail!(
            "{needed} bytes of elements; this process has {most} bytes of memory left; give --stream if \
             all have one result, or reduce it in parts"
        );
    }
    Ok(values)
}

/// Runs a reader of a format that this program has from elsewhere, and makes an error of a panic: what a
/// damaged file leads them to.
fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let read = panic::catch_unwind(AssertUnwindSafe(read));
    panic::set_hook(hook);
    read.unwrap_or_else(|_| bail!("is damaged: its reader gave up; write it anew"))
}
