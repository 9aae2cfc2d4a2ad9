//! Input files, read as elements of one of the library's types in C order.

mod arrow;
mod footer;
mod keys;
mod numpy;
mod parquet;
mod streamed;
mod tables;

use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek},
    mem,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use arrow_buffer::NullBuffer;
use bytes::Bytes;
use warpfold::internal::Dtype;
use warpfold_suite::{Data, cpu::memory_short_of, input, nearest, shortened};

pub(crate) use keys::{Key, Runs};
pub(crate) use streamed::Streamed;

use crate::{
    memory,
    options::{FormatName, is_standard_input},
};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Format {
    Npy,
    Npz,
    Arrow,
    Parquet,
    Raw {
        dtype: Dtype,
        /// `None` if all elements form one dimension.
        shape: Option<Vec<usize>>,
    },
}

/// The number of leading bytes by which a format is recognised.
const START: usize = 6;

impl Format {
    /// Returns the format recognised from a file's first bytes. Arrow streams and raw elements have no
    /// such bytes.
    fn of_start(start: &[u8]) -> Option<Self> {
        match start {
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => Some(Self::Npy),
            [b'P', b'K', 3 | 5, 4 | 6, ..] => Some(Self::Npz),
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => Some(Self::Arrow),
            [b'P', b'A', b'R', b'1' | b'E', ..] => Some(Self::Parquet),
            _ => None,
        }
    }

    fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_ascii_lowercase().to_str()? {
            "npy" => Some(Self::Npy),
            "npz" => Some(Self::Npz),
            "arrow" | "arrows" | "feather" | "ipc" => Some(Self::Arrow),
            "parquet" | "pq" => Some(Self::Parquet),
            _ => None,
        }
    }

    fn is_table(&self) -> bool {
        matches!(self, Self::Arrow | Self::Parquet)
    }
}

/// The options that specify a file's format.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// True for the data; false for files of keys and of offsets, which have no options.
    pub(crate) is_data: bool,
    pub(crate) format: Option<FormatName>,
    pub(crate) dtype: Option<Dtype>,
    pub(crate) shape: &'a [usize],
}

impl Asked<'_> {
    /// No options, as for a file of keys or offsets.
    pub(crate) const BESIDE: Self = Self { is_data: false, format: None, dtype: None, shape: &[] };

    /// Returns the format of a file: the requested one, else that of its first bytes, else that of its
    /// name; raw if none of these applies and an element type is given.
    fn format(&self, path: &Path, start: &[u8]) -> Result<Format> {
        let raw =
            |dtype| Format::Raw { dtype, shape: (!self.shape.is_empty()).then(|| self.shape.to_vec()) };
        let format = match (self.format, self.dtype) {
            (Some(FormatName::Raw), None) => {
                bail!("--format raw needs an element type; give --dtype, such as --dtype f32")
            }
            (Some(FormatName::Raw), Some(dtype)) => raw(dtype),
            (Some(FormatName::Npy), _) => Format::Npy,
            (Some(FormatName::Npz), _) => Format::Npz,
            (Some(FormatName::Arrow), _) => Format::Arrow,
            (Some(FormatName::Parquet), _) => Format::Parquet,
            (None, dtype) => match Format::of_start(start).or_else(|| Format::of_name(path)) {
                Some(format) => format,
                None => raw(dtype.with_context(|| self.unknown(path))?),
            },
        };
        if !self.shape.is_empty() && !matches!(format, Format::Raw { .. }) {
            let name = name_of(path);
            bail!(
                "{name}: --shape is for raw elements, but the file has a format; leave --shape out, or \
                 give --format raw"
            );
        }
        Ok(format)
    }

    fn unknown(&self, path: &Path) -> String {
        let (name, known) = (name_of(path), "an .npy, .npz, .arrow, .feather, .ipc or .parquet file");
        match (self.is_data, is_standard_input(path)) {
            (false, _) => {
                format!("{name}: neither its name nor its first bytes identify its format; give {known}")
            }
            (true, true) => format!(
                "{name} has no file name, and its first bytes do not identify its format; give \
                 --format, or --dtype for raw elements"
            ),
            (true, false) => format!(
                "{name}: neither its name nor its first bytes identify its format, as those of {known} \
                 do; give --format, or --dtype for raw elements"
            ),
        }
    }
}

pub(crate) fn name_of(path: &Path) -> String {
    match is_standard_input(path) {
        true => "standard input".to_owned(),
        false => path.display().to_string(),
    }
}

#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) data: Data,
    pub(crate) shape: Vec<usize>,
    /// The null bitmap; only for one dimension.
    pub(crate) nulls: Option<NullBuffer>,
    /// The elements' type in the file, if the library uses a wider one instead.
    pub(crate) stored: Option<String>,
}

impl Column {
    /// Returns the number of elements including nulls, for columns of one dimension.
    pub(crate) fn rows(&self) -> Result<u64> {
        match self.shape[..] {
            [rows] => Ok(rows as u64),
            _ => bail!(
                "the array has {} dimensions; --by and --offsets take one dimension; use --axis for \
                 several",
                self.shape.len()
            ),
        }
    }

    /// Returns the non-null elements; `None` if they are not integers.
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

pub(crate) struct Source {
    path: PathBuf,
    format: Format,
    /// Element type that `--dtype` requires of a file that declares its own.
    dtype: Option<Dtype>,
    /// Advice for the error if the file has another format.
    otherwise: &'static str,
    input: Input,
}

enum Input {
    /// A regular file, which is opened for each reader.
    File,
    /// A pipe, whose only reader replays the bytes that were read to recognise the format.
    Pipe(Mutex<Option<Box<dyn Read + Send>>>),
    /// Memory: the contents of a pipe whose format needs random access.
    Held(Bytes),
}

trait Seekable: Read + Seek + Send {}

impl<R: Read + Seek + Send> Seekable for R {}

struct Stream {
    from: Box<dyn Read>,
    length: Option<u64>,
}

/// The name of the column to read, and advice for the error if it is `None` and a file has several.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    name: Option<&'a str>,
    choose: &'a str,
}

impl Wanted<'_> {
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
    /// Opens a file; reads all of a pipe if its format needs random access.
    pub(crate) fn new(path: &Path, asked: Asked<'_>) -> Result<Self> {
        let mut source = Self::unread(path, asked)?;
        let is_streamable = matches!(source.format, Format::Npy | Format::Raw { .. });
        if !is_streamable && let Input::Pipe(_) = source.input {
            let content = source.pipe().and_then(|mut pipe| whole(&mut pipe));
            source.input = Input::Held(content.with_context(|| source.name())?.into());
        }
        Ok(source)
    }

    /// Opens a file and reads only the bytes that identify its format.
    pub(crate) fn unread(path: &Path, asked: Asked<'_>) -> Result<Self> {
        let opened = match is_standard_input(path) {
            true => Ok((Box::new(io::stdin()) as Box<dyn Read + Send>, true)),
            false => open(path).map(|(file, is_pipe)| (Box::new(file) as _, is_pipe)),
        };
        let (mut from, is_pipe) = opened.with_context(|| name_of(path))?;
        let mut start = Vec::new();
        from.by_ref().take(START as u64).read_to_end(&mut start).with_context(|| name_of(path))?;
        let format = asked.format(path, &start)?;
        let otherwise = match (asked.format, Format::of_start(&start)) {
            (None, None) if asked.is_data => "give its --format, or --format raw with --dtype",
            _ => "write it again",
        };
        let input = match is_pipe {
            true => Input::Pipe(Mutex::new(Some(Box::new(Cursor::new(start).chain(from))))),
            false => Input::File,
        };
        let dtype = asked.dtype.filter(|_| !matches!(format, Format::Raw { .. }));
        Ok(Self { path: path.to_owned(), format, dtype, otherwise, input })
    }

    /// Returns the length of the file; 0 for a pipe.
    pub(crate) fn bytes(&self) -> Result<u64> {
        if self.is_pipe() {
            return Ok(0);
        }
        self.file().and_then(|file| Ok(file.metadata()?.len())).with_context(|| self.name())
    }

    /// Returns whether the source can only be read once, sequentially.
    pub(crate) fn is_pipe(&self) -> bool {
        matches!(self.input, Input::Pipe(_))
    }

    pub(crate) fn name(&self) -> String {
        name_of(&self.path)
    }

    /// Returns a column's elements; `choose` is advice for the error if `name` does not select a column.
    pub(crate) fn column(&self, name: Option<&str>, choose: &str) -> Result<Column> {
        let wanted = Wanted { name, choose };
        let column = match &self.format {
            Format::Npy | Format::Raw { .. } if name.is_some() => {
                Err(anyhow!("has no columns; leave --column out"))
            }
            Format::Npy => self.stream().and_then(|stream| numpy::npy(stream, self.otherwise)),
            Format::Raw { dtype, shape } => {
                self.stream().and_then(|stream| numpy::raw(stream, *dtype, shape.as_deref()))
            }
            Format::Npz => guarded(&self.name(), || numpy::npz(self, wanted)),
            Format::Arrow | Format::Parquet => guarded(&self.name(), || tables::column(self, wanted)),
        };
        let column = column.with_context(|| self.name())?;
        self.require_dtype(column.data.dtype())?;
        Ok(column)
    }

    fn require_dtype(&self, dtype: Dtype) -> Result<()> {
        match self.dtype {
            Some(asked) if asked != dtype => bail!(
                "{}: holds {dtype}, but --dtype is {asked}; leave --dtype out, or give --format raw, \
                 which takes all bytes of the file as elements",
                self.name()
            ),
            _ => Ok(()),
        }
    }

    /// Returns the unread elements of a column. The source must come from [`unread`](Self::unread).
    pub(crate) fn streamed(&self, name: Option<&str>, choose: &str) -> Result<Streamed> {
        let streamed = streamed::of(self, Wanted { name, choose }).with_context(|| self.name())?;
        self.require_dtype(streamed.dtype)?;
        Ok(streamed)
    }

    pub(crate) fn keys(&self, name: Option<&str>) -> Result<Runs> {
        if self.format.is_table() {
            let wanted = Wanted { name, choose: "choose one by --by-column" };
            return guarded(&self.name(), || tables::keys(self, wanted)).with_context(|| self.name());
        }
        if name.is_some() && self.format != Format::Npz {
            let name = self.name();
            bail!("{name}: has no columns; give a file of keys by --by, and leave --by-column out");
        }
        let column = self.column(name, "choose one by --by-column")?;
        Runs::of_array(&column).with_context(|| self.name())
    }

    fn stream(&self) -> Result<Stream> {
        if self.is_pipe() {
            return Ok(Stream { from: self.pipe()?, length: None });
        }
        let file = self.file()?;
        let length = file.metadata()?.len();
        Ok(Stream { from: Box::new(BufReader::new(file)), length: Some(length) })
    }

    fn seekable(&self) -> Result<Box<dyn Seekable>> {
        Ok(match &self.input {
            Input::Held(content) => Box::new(Cursor::new(content.clone())),
            _ => Box::new(BufReader::new(self.file()?)),
        })
    }

    fn pipe(&self) -> Result<Box<dyn Read + Send>> {
        let Input::Pipe(pipe) = &self.input else { bail!("is not a pipe") };
        let reader = mem::take(&mut *pipe.lock().unwrap_or_else(PoisonError::into_inner));
        reader.context("is a pipe, which can be read only once; write it to a file")
    }

    fn file(&self) -> Result<File> {
        ensure!(
            !self.is_pipe(),
            "is a pipe, which can be read only from start to end; write it to a file"
        );
        Ok(open(&self.path)?.0)
    }
}

fn open(path: &Path) -> Result<(File, bool)> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;

        if std::fs::metadata(path)?.file_type().is_fifo() {
            return Ok((File::open(path)?, true));
        }
    }
    // Device files are rejected, because they may be endless.
    Ok((input::open(path).map_err(|reason| anyhow!(reason))?, false))
}

fn whole(from: &mut dyn Read) -> Result<Vec<u8>> {
    let most = warpfold_sim_driver::host_room();
    let mut content = Vec::new();
    // A growing vector may have a capacity of twice its length.
    from.take(most / 2).read_to_end(&mut content)?;
    ensure!(
        from.read(&mut [0])? == 0,
        "has more than {} bytes; this process has {most} bytes of memory left; reduce it in parts",
        most / 2
    );
    Ok(content)
}

/// Allocates room for elements, or returns an error if they do not fit into memory.
fn room<T>(elements: usize) -> Result<Vec<T>> {
    require_room::<T>(elements)?;
    let mut values = Vec::new();
    values.try_reserve_exact(elements)?;
    Ok(values)
}

fn require_room<T>(elements: usize) -> Result<()> {
    let needed = (elements as u64).saturating_mul(size_of::<T>() as u64);
    if let Some(most) = memory_short_of(needed) {
        bail!(
            "its elements need {needed} bytes; this process has {most} bytes of memory left; give \
             --stream if all have one result, or reduce it in parts"
        );
    }
    Ok(())
}

/// Runs a third-party reader of the file `name`. If a damaged file makes it panic, returns an error; if
/// an allocation fails, the process ends with status 2.
fn guarded<T>(name: &str, read: impl FnOnce() -> Result<T>) -> Result<T> {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let read = memory::reading(name, || panic::catch_unwind(AssertUnwindSafe(read)));
    panic::set_hook(hook);
    read.unwrap_or_else(|_| bail!("is damaged: its reader has failed; write it again"))
}
