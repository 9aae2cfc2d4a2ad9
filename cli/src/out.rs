//! Results as NumPy files.

use std::{
    io::{Cursor, Write},
    iter,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use warpfold_io::{files, npy};
use warpfold_suite::{Data, input::raw_type};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::{
    input::Key,
    pieces::{Cut, Pieces},
    reduce::{Answer, Field, Values},
    statistic::{Statistic, SumType},
};

pub(crate) struct Target {
    path: PathBuf,
    archive: bool,
}

impl Target {
    /// Checks that the file is writable and that its name suits the operations.
    pub(crate) fn new(path: &Path, ops: &[Statistic]) -> Result<Self> {
        let name = path.display();
        let archive = match path.extension().and_then(|extension| extension.to_str()) {
            Some("npz") => true,
            Some("npy") if ops.contains(&Statistic::Describe) => {
                bail!("--out {name} takes an operation of one or two numbers; name an .npz for describe")
            }
            Some("npy") if ops.len() == 1 => false,
            Some("npy") => {
                bail!("--out {name} takes one operation, but --op has {}; name an .npz", ops.len())
            }
            _ => bail!("--out {name} has another extension; give a name that ends in .npy or .npz"),
        };
        let wide = [SumType::I128, SumType::U128].map(Statistic::SumIn);
        if ops.iter().any(|op| wide.contains(op)) {
            bail!("--out {name} cannot store integers of 128 bits, which NumPy lacks; take --json");
        }
        if let Err(error) = files::require_writable(path) {
            bail!("--out {name} cannot be written: {error}");
        }
        Ok(Self { path: path.to_owned(), archive })
    }

    /// Returns an error for results that NumPy cannot represent, or only with far more memory.
    pub(crate) fn require(&self, ops: &[Statistic], pieces: &Pieces) -> Result<()> {
        ops.iter().try_for_each(|&op| pieces.require_values(op))?;
        match pieces.cut() {
            Cut::Segments { keys: Some(keys), .. } if self.archive && keys.contains(&Key::Null) => {
                bail!("--out cannot store a null key, which NumPy lacks; name an .npy, or take --json")
            }
            Cut::Segments { keys: Some(keys), .. } if self.archive => require_padded(keys),
            _ => Ok(()),
        }
    }

    pub(crate) fn write(&self, answers: &[Answer], pieces: &Pieces) -> Result<()> {
        let content = match self.archive {
            true => archive(answers, pieces)?,
            false => single(&answers[0], pieces).file(),
        };
        files::replace(&self.path, content)
    }
}

struct Array {
    descr: String,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Array {
    fn of(values: &Data, pieces: &Pieces) -> Self {
        let shape = match pieces.cut() {
            Cut::Whole { .. } => Vec::new(),
            Cut::Axes { others, .. } => others.clone(),
            Cut::Segments { .. } => vec![pieces.count()],
        };
        let (descr, bytes) = match values {
            // NumPy has no bfloat16; f32 has all of its values.
            Data::Bf16(values) => {
                ("<f4", values.iter().flat_map(|value| value.to_f32().to_le_bytes()).collect())
            }
            _ => (raw_type(values.dtype()).descr(), values.as_bytes().to_vec()),
        };
        Self { descr: descr.to_owned(), shape, bytes }
    }

    fn of_pair(first: &Data, second: &Data, pieces: &Pieces) -> Self {
        let (first, second) = (Self::of(first, pieces), Self::of(second, pieces));
        let size = first.bytes.len() / pieces.count().max(1);
        let pairs = first.bytes.chunks_exact(size.max(1)).zip(second.bytes.chunks_exact(size.max(1)));
        let bytes = pairs.flat_map(|(first, second)| [first, second].concat()).collect();
        Self { descr: first.descr, shape: [&first.shape[..], &[2]].concat(), bytes }
    }

    fn file(&self) -> Vec<u8> {
        npy::file(&self.descr, &self.shape, &self.bytes)
    }
}

/// Returns an operation's results as one array: the index alone if there is one, else all numbers.
fn single(answer: &Answer, pieces: &Pieces) -> Array {
    match &answer.fields[..] {
        [first @ Field { name: "index", .. }, _] => Array::of(data(first), pieces),
        [first, second] => Array::of_pair(data(first), data(second), pieces),
        fields => Array::of(data(&fields[0]), pieces),
    }
}

fn data(field: &Field) -> &Data {
    let Values::Of(data) = &field.values else { unreachable!("`Target::new` refuses 128 bits") };
    data
}

fn archive(answers: &[Answer], pieces: &Pieces) -> Result<Vec<u8>> {
    let mut arrays = Vec::new();
    for answer in answers {
        for field in &answer.fields {
            let name = match answer.fields.len() {
                1 => answer.op.to_string(),
                _ => format!("{}.{}", answer.op, field.name),
            };
            arrays.push((name, Array::of(data(field), pieces)));
        }
    }
    if let Cut::Segments { keys, .. } = pieces.cut() {
        let counts = (0..pieces.count()).map(|piece| pieces.elements(piece)).collect();
        arrays.push(("count".to_owned(), Array::of(&Data::U64(counts), pieces)));
        let keys = keys.as_ref().map(|keys| ("key".to_owned(), array_of_keys(keys, pieces)));
        arrays.extend(keys);
    }
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, array) in arrays {
        archive.start_file(format!("{name}.npy"), stored.large_file(true))?;
        archive.write_all(&array.file())?;
    }
    Ok(archive.finish()?.into_inner())
}

/// The maximum bytes of padded strings, unless [`PADDED_EACH`] times the unpadded bytes are more.
const PADDED: u64 = 64 << 20;
const PADDED_EACH: u64 = 16;

/// Returns an error if one string is so much longer than the others that padding takes far more memory.
fn require_padded(keys: &[Key]) -> Result<()> {
    let lens = keys.iter().map(|key| match key {
        Key::Text(key) => key.chars().count() as u64,
        _ => 0,
    });
    let (longest, all) = lens.fold((0, 0), |(longest, all), len| (len.max(longest), all + len));
    let padded = (keys.len() as u64).saturating_mul(longest).saturating_mul(size_of::<u32>() as u64);
    if padded > PADDED && padded / PADDED_EACH > all * size_of::<u32>() as u64 {
        bail!(
            "--out would pad {} string keys to the {longest} characters of the longest, as NumPy does, \
             {padded} bytes in total; shorten the keys, name an .npy, or take --json",
            keys.len()
        );
    }
    Ok(())
}

/// Returns the keys as an array: integers as `i64`, or `u64` if they are larger; booleans as `bool`;
/// strings padded to the longest one, as in NumPy.
fn array_of_keys(keys: &[Key], pieces: &Pieces) -> Array {
    match keys.first() {
        Some(Key::Text(_)) | None => strings(keys),
        Some(Key::Boolean(_)) => {
            let bytes = keys.iter().map(|key| u8::from(*key == Key::Boolean(true))).collect();
            Array { descr: "|b1".to_owned(), shape: vec![keys.len()], bytes }
        }
        _ => {
            let integers = keys.iter().filter_map(|key| match key {
                Key::Integer(key) => Some(*key),
                _ => None,
            });
            let signed: Result<Vec<i64>, _> = integers.clone().map(i64::try_from).collect();
            let unsigned = |_| Data::U64(integers.map(|key| key as u64).collect());
            Array::of(&signed.map_or_else(unsigned, Data::I64), pieces)
        }
    }
}

fn strings(keys: &[Key]) -> Array {
    let texts = || {
        keys.iter().filter_map(|key| match key {
            Key::Text(key) => Some(key.chars()),
            _ => None,
        })
    };
    let longest = texts().map(Iterator::count).max().unwrap_or(0).max(1);
    let mut bytes = Vec::with_capacity(keys.len() * longest * size_of::<u32>());
    for text in texts() {
        let padded = text.map(u32::from).chain(iter::repeat(0)).take(longest);
        bytes.extend(padded.flat_map(u32::to_le_bytes));
    }
    Array { descr: format!("<U{longest}"), shape: vec![keys.len()], bytes }
}
