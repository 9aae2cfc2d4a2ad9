//! Columns of Arrow files and streams, and of Parquet files.

use std::{
    fmt, io, mem,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Result, anyhow, bail};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, RecordBatch,
    cast::AsArray,
    types::{
        Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
        UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_buffer::{NullBuffer, NullBufferBuilder};
use arrow_schema::{DataType, Schema};
use arrow_select::take::take;
use bytemuck::Pod;
use warpfold::internal::Dtype;
use warpfold_suite::{Data, Scalar};

use super::{Column, Format, Input, Runs, Source, Wanted, arrow, guarded, parquet, room};

const ALLOWED: &str = "allowed are Boolean, Int8, UInt8, Int16, UInt16, Int32, UInt32, Int64, UInt64, \
                       Float16, Float32, Float64, dictionaries of these, and Null";

/// Wraps an error of a reader. Its message already includes its causes.
pub(super) fn damaged(reason: impl fmt::Display) -> anyhow::Error {
    let reason = reason.to_string();
    let reason = reason.strip_prefix("Parquet error: ").unwrap_or(&reason);
    anyhow!("is damaged or has another format: {reason}; write it again")
}

struct Parts {
    data_type: DataType,
    rows: Option<u64>,
    batches: BoxedBatches,
}

type BoxedBatches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

pub(super) fn column(source: &Source, wanted: Wanted<'_>) -> Result<Column> {
    let Parts { data_type, rows, batches } = parts(source, |schema| place(schema, wanted))?;
    let (mut values, stored) = values(&data_type)?;
    values.reserve(usize::try_from(rows.unwrap_or(0)).unwrap_or(usize::MAX))?;
    let mut seen = Seen::new(&data_type, true);
    for batch in batches {
        append(&batch?, &mut *values, &mut seen)?;
    }
    let rows = seen.rows as usize;
    let nulls = match seen.all_null {
        // The allocator returns zeroed pages, which take no memory because they are never written.
        true => (rows > 0).then(|| NullBuffer::new_null(rows)),
        false => seen.nulls(),
    };
    Ok(Column { data: values.take(), shape: vec![rows], nulls, stored })
}

fn append(batch: &RecordBatch, values: &mut dyn Values, seen: &mut Seen) -> Result<()> {
    let array = plain(batch.column(0))?;
    values.append(&array)?;
    seen.append(&array)
}

/// Decodes a dictionary to its elements; returns other arrays unchanged.
fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    match array.as_any_dictionary_opt() {
        Some(dictionary) => take(dictionary.values(), dictionary.keys(), None).map_err(damaged),
        None => Ok(array.clone()),
    }
}

/// Returns a column's index and element type, and its type in the file if the library uses a wider one
/// instead.
pub(super) fn dtype(source: &Source, wanted: Wanted<'_>) -> Result<(usize, Dtype, Option<String>)> {
    let mut chosen = 0;
    let Parts { data_type, .. } = parts(source, |schema| {
        chosen = place(schema, wanted)?;
        Ok(chosen)
    })?;
    let (mut values, stored) = values(&data_type)?;
    Ok((chosen, values.take().dtype(), stored))
}

/// Returns the elements of the column at `place`, one batch at a time. The numbers of rows and nulls are
/// recorded in `seen`, and the null bitmap if it is wanted.
pub(super) fn batches(
    source: &Source,
    place: usize,
    seen: Arc<Mutex<Seen>>,
    places: bool,
) -> Result<Batches> {
    let Parts { data_type, batches, .. } = parts(source, |_| Ok(place))?;
    let (values, _) = values(&data_type)?;
    *seen.lock().unwrap_or_else(PoisonError::into_inner) = Seen::new(&data_type, places);
    Ok(Batches { name: source.name(), batches: Some(batches), values, seen })
}

/// The non-null elements of a column, as an iterator of one piece per batch.
pub(super) struct Batches {
    name: String,
    /// `None` after the last batch and after an error.
    batches: Option<BoxedBatches>,
    values: Box<dyn Values>,
    seen: Arc<Mutex<Seen>>,
}

/// The counts of the rows read so far.
#[derive(Default)]
pub(super) struct Seen {
    rows: u64,
    null_count: u64,
    /// True if the column is of type Null, for which no bitmap is kept.
    all_null: bool,
    nulls: Option<NullBufferBuilder>,
}

impl Seen {
    fn new(data_type: &DataType, places: bool) -> Self {
        let all_null = *data_type == DataType::Null;
        let nulls = (places && !all_null).then(|| NullBufferBuilder::new(0));
        Self { all_null, nulls, ..Self::default() }
    }

    fn append(&mut self, array: &ArrayRef) -> Result<()> {
        let rows = array.len() as u64;
        self.rows = self.rows.checked_add(rows).ok_or_else(|| damaged("it has more than 2^64 rows"))?;
        self.null_count += if self.all_null { rows } else { array.null_count() as u64 };
        match (&mut self.nulls, array.nulls()) {
            (None, _) => {}
            (Some(nulls), Some(part)) => nulls.append_buffer(part),
            (Some(nulls), None) => nulls.append_n_non_nulls(array.len()),
        }
        Ok(())
    }

    pub(super) fn null_count(&self) -> u64 {
        self.null_count
    }

    /// Returns the null bitmap, if it was recorded and has nulls; `None` for a column of type Null,
    /// which has no elements.
    pub(super) fn nulls(&mut self) -> Option<NullBuffer> {
        self.nulls.take()?.finish().filter(|nulls| nulls.null_count() > 0)
    }
}

impl Iterator for Batches {
    type Item = io::Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batches = self.batches.take()?;
        let Self { name, values, seen, .. } = self;
        let piece = guarded(name, || {
            let Some(batch) = batches.next() else { return Ok(None) };
            append(&batch?, &mut **values, &mut seen.lock().unwrap_or_else(PoisonError::into_inner))?;
            Ok(Some(Piece(values.take())))
        });
        if let Ok(Some(_)) = piece {
            self.batches = Some(batches);
        }
        piece.map_err(|error| io::Error::other(format!("{error:#}"))).transpose()
    }
}

pub(super) struct Piece(Data);

impl<T: Pod> AsRef<[T]> for Piece {
    fn as_ref(&self) -> &[T] {
        bytemuck::cast_slice(self.0.as_bytes())
    }
}

pub(super) fn keys(source: &Source, wanted: Wanted<'_>) -> Result<Runs> {
    let Parts { data_type, batches, .. } = parts(source, |schema| place(schema, wanted))?;
    Runs::require(&data_type)?;
    let mut runs = Runs::default();
    for batch in batches {
        runs.append(batch?.column(0))?;
    }
    Ok(runs)
}

fn place(schema: &Schema, wanted: Wanted<'_>) -> Result<usize> {
    let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    wanted.among("column", &names)
}

fn parts(source: &Source, place: impl FnOnce(&Schema) -> Result<usize>) -> Result<Parts> {
    if source.format == Format::Parquet {
        let (batches, data_type, rows) = match &source.input {
            Input::Held(content) => parquet::Batches::new(content.clone(), place)?,
            _ => parquet::Batches::new(source.file()?, place)?,
        };
        return Ok(Parts { data_type, rows: Some(rows), batches: Box::new(batches) });
    }
    let (batches, data_type) = arrow::Batches::new(source.seekable()?, place)?;
    Ok(Parts { data_type, rows: None, batches: Box::new(batches) })
}

trait Values: Send {
    fn reserve(&mut self, elements: usize) -> Result<()>;
    fn append(&mut self, array: &dyn Array) -> Result<()>;
    fn take(&mut self) -> Data;
}

struct Numbers<A: ArrowPrimitiveType, T> {
    values: Vec<T>,
    widen: fn(A::Native) -> T,
}

impl<A: ArrowPrimitiveType, T: Scalar> Values for Numbers<A, T> {
    fn reserve(&mut self, elements: usize) -> Result<()> {
        self.values = room(elements)?;
        Ok(())
    }

    fn append(&mut self, array: &dyn Array) -> Result<()> {
        let array = array.as_primitive::<A>();
        self.values.try_reserve(array.len() - array.null_count())?;
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => {
                let valid = nulls.valid_indices();
                self.values.extend(valid.map(|row| (self.widen)(array.value(row))));
            }
            None => self.values.extend(array.values().iter().map(|&value| (self.widen)(value))),
        }
        Ok(())
    }

    fn take(&mut self) -> Data {
        T::data(mem::take(&mut self.values))
    }
}

#[derive(Default)]
struct Truths(Vec<u8>);

impl Values for Truths {
    fn reserve(&mut self, elements: usize) -> Result<()> {
        self.0 = room(elements)?;
        Ok(())
    }

    fn append(&mut self, array: &dyn Array) -> Result<()> {
        // An array of type Null has no elements.
        let Some(array) = array.as_boolean_opt() else { return Ok(()) };
        self.0.try_reserve(array.len() - array.null_count())?;
        self.0.extend(array.iter().flatten().map(u8::from));
        Ok(())
    }

    fn take(&mut self) -> Data {
        Data::U8(mem::take(&mut self.0))
    }
}

/// Returns the collector for an Arrow type, and that type's name if the library uses a wider one
/// instead.
fn values(data_type: &DataType) -> Result<(Box<dyn Values>, Option<String>)> {
    fn of<A: ArrowPrimitiveType, T: Scalar>(widen: fn(A::Native) -> T) -> Box<dyn Values> {
        Box::new(Numbers::<A, T> { values: Vec::new(), widen })
    }
    let element = match data_type {
        DataType::Dictionary(_, element) => element,
        element => element,
    };
    let values = match element {
        DataType::Null if element == data_type => Box::<Truths>::default(),
        DataType::Boolean => Box::<Truths>::default(),
        DataType::Int8 => of::<Int8Type, i8>(|value| value),
        DataType::UInt8 => of::<UInt8Type, u8>(|value| value),
        DataType::Int16 => of::<Int16Type, i16>(|value| value),
        DataType::UInt16 => of::<UInt16Type, u16>(|value| value),
        DataType::Int32 => of::<Int32Type, i32>(|value| value),
        DataType::UInt32 => of::<UInt32Type, u32>(|value| value),
        DataType::Int64 => of::<Int64Type, i64>(|value| value),
        DataType::UInt64 => of::<UInt64Type, u64>(|value| value),
        DataType::Float16 => of::<Float16Type, half::f16>(|value| value),
        DataType::Float32 => of::<Float32Type, f32>(|value| value),
        DataType::Float64 => of::<Float64Type, f64>(|value| value),
        _ => bail!("the column is of type {data_type}; {ALLOWED}"),
    };
    let is_wider = matches!(element, DataType::Boolean | DataType::Null);
    Ok((values, is_wider.then(|| element.to_string())))
}
