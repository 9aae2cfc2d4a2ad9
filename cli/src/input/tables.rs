//! Columns of Arrow's files and streams, and of Parquet.

use std::{
    io::{self, Read},
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result, bail};
use arrow_array::{
    Array, ArrowPrimitiveType, RecordBatch,
    cast::AsArray,
    types::{
        Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
        UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_buffer::{NullBuffer, NullBufferBuilder};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, Schema};
use bytemuck::Pod;
use parquet::arrow::{
    ProjectionMask,
    arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder},
};
use warpfold::internal::Dtype;
use warpfold_suite::{Data, Scalar};

use super::{Column, Format, Runs, Source, Wanted, guarded, room};

/// What Arrow's files begin with, which its streams do not.
const ARROW_FILE: &[u8] = b"ARROW1";

const ALLOWED: &str = "allowed are Boolean, Int8, UInt8, Int16, UInt16, Int32, UInt32, Int64, UInt64, \
                       Float16, Float32 and Float64";

/// What stands before an error of a reader.
const UNREADABLE: &str = "damaged, or of another format; write it anew, or give its --format";

/// The parts of a column, and how many elements they have where that is known.
struct Parts {
    data_type: DataType,
    rows: Option<usize>,
    batches: BoxedBatches,
}

type BoxedBatches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// The elements of a column of numbers.
pub(super) fn column(source: &Source, wanted: Wanted<'_>) -> Result<Column> {
    let Parts { data_type, rows, batches } = parts(source, wanted)?;
    let (mut values, stored) = values(&data_type, rows.unwrap_or(0))?;
    let mut nulls = NullBufferBuilder::new(0);
    for batch in batches {
        let batch = batch.context(UNREADABLE)?;
        let array = batch.column(0);
        values.append(array)?;
        append_nulls(&mut nulls, array);
    }
    let rows = nulls.len();
    let nulls = nulls.finish().filter(|nulls| nulls.null_count() > 0);
    Ok(Column { data: values.take(), shape: vec![rows], nulls, stored })
}

fn append_nulls(nulls: &mut NullBufferBuilder, array: &dyn Array) {
    match array.nulls() {
        Some(part) => nulls.append_buffer(part),
        None => nulls.append_n_non_nulls(array.len()),
    }
}

/// The elements of a column of numbers, a batch at a time; their type, and the one in the file where the
/// library has a wider one in its place.
pub(super) fn batches(source: &Source, wanted: Wanted<'_>) -> Result<(Batches, Dtype, Option<String>)> {
    let Parts { data_type, batches, .. } = parts(source, wanted)?;
    let (mut values, stored) = values(&data_type, 0)?;
    let dtype = values.take().dtype();
    let (seen, places) = (Arc::default(), false);
    Ok((Batches { batches: Some(batches), values, seen, places }, dtype, stored))
}

/// What is not null of a column, as an iterator of a piece for each batch.
pub(super) struct Batches {
    /// None behind the last one, and behind an error.
    batches: Option<BoxedBatches>,
    values: Box<dyn Values>,
    seen: Arc<Mutex<Seen>>,
    /// Whether the nulls' places are kept.
    places: bool,
}

/// What is known of the rows that were read.
#[derive(Default)]
pub(super) struct Seen {
    null_count: u64,
    /// Which are null, where that is kept.
    nulls: Option<NullBufferBuilder>,
}

impl Seen {
    pub(super) fn null_count(&self) -> u64 {
        self.null_count
    }

    /// Which rows are null, if some are and it was kept.
    pub(super) fn nulls(&mut self) -> Option<NullBuffer> {
        self.nulls.take()?.finish().filter(|nulls| nulls.null_count() > 0)
    }
}

impl Batches {
    /// Has what is seen noted there, with the places of nulls if they are wanted.
    pub(super) fn watched(self, seen: Arc<Mutex<Seen>>, places: bool) -> Self {
        Self { seen, places, ..self }
    }

    fn piece(&mut self, batch: &RecordBatch) -> Result<Piece> {
        let array = batch.column(0);
        self.values.append(array)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.null_count += array.null_count() as u64;
        if self.places {
            append_nulls(seen.nulls.get_or_insert_with(|| NullBufferBuilder::new(0)), array);
        }
        Ok(Piece(self.values.take()))
    }
}

impl Iterator for Batches {
    type Item = io::Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batches = self.batches.take()?;
        let batch = guarded(|| batches.next().transpose().context(UNREADABLE));
        let piece = batch.and_then(|batch| batch.map(|batch| self.piece(&batch)).transpose());
        if let Ok(Some(_)) = piece {
            self.batches = Some(batches);
        }
        piece.map_err(|error| io::Error::other(format!("{error:#}"))).transpose()
    }
}

/// The elements of a batch, as a slice of the type that they have.
pub(super) struct Piece(Data);

impl<T: Pod> AsRef<[T]> for Piece {
    fn as_ref(&self) -> &[T] {
        bytemuck::cast_slice(self.0.as_bytes())
    }
}

/// The runs of a column of keys.
pub(super) fn keys(source: &Source, wanted: Wanted<'_>) -> Result<Runs> {
    let Parts { batches, .. } = parts(source, wanted)?;
    let mut runs = Runs::default();
    for batch in batches {
        runs.append(batch.context(UNREADABLE)?.column(0))?;
    }
    Ok(runs)
}

fn parts(source: &Source, wanted: Wanted<'_>) -> Result<Parts> {
    let place = |schema: &Schema| {
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        wanted.among("column", &names)
    };
    if source.format == Format::Parquet {
        return match &source.content {
            Some(content) => parquet(content.clone(), place),
            None => parquet(source.file()?, place),
        };
    }
    let mut start = Vec::new();
    source.seekable()?.take(ARROW_FILE.len() as u64).read_to_end(&mut start)?;
    // The readers have all columns, or those that they are made for: the second has one.
    let is_file = start == ARROW_FILE;
    let schema = match is_file {
        true => FileReader::try_new(source.seekable()?, None).map(|reader| reader.schema()),
        false => StreamReader::try_new(source.seekable()?, None).map(|reader| reader.schema()),
    };
    let schema = schema.context(UNREADABLE)?;
    let place = place(&schema)?;
    let data_type = schema.field(place).data_type().clone();
    let columns = Some(vec![place]);
    let batches: BoxedBatches = match is_file {
        true => Box::new(FileReader::try_new(source.seekable()?, columns)?),
        false => Box::new(StreamReader::try_new(source.seekable()?, columns)?),
    };
    Ok(Parts { data_type, rows: None, batches })
}

fn parquet(
    content: impl parquet::file::reader::ChunkReader + 'static,
    place: impl FnOnce(&Schema) -> Result<usize>,
) -> Result<Parts> {
    let metadata = ArrowReaderMetadata::load(&content, Default::default()).context(UNREADABLE)?;
    let place = place(metadata.schema())?;
    let data_type = metadata.schema().field(place).data_type().clone();
    let rows = usize::try_from(metadata.metadata().file_metadata().num_rows()).ok();
    let columns = ProjectionMask::roots(metadata.parquet_schema(), [place]);
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(content, metadata);
    let batches = Box::new(reader.with_projection(columns).build()?);
    Ok(Parts { data_type, rows, batches })
}

/// Elements that grow by parts of a column.
trait Values: Send {
    /// Takes what is not null.
    fn append(&mut self, array: &dyn Array) -> Result<()>;
    /// Gives all that it has, and has none then.
    fn take(&mut self) -> Data;
}

/// What collects columns of numbers.
struct Numbers<A: ArrowPrimitiveType, T> {
    values: Vec<T>,
    widen: fn(A::Native) -> T,
}

impl<A: ArrowPrimitiveType, T: Scalar> Values for Numbers<A, T> {
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

/// Those of truth values, as 0 and 1.
struct Truths(Vec<u8>);

impl Values for Truths {
    fn append(&mut self, array: &dyn Array) -> Result<()> {
        let array = array.as_boolean();
        self.0.try_reserve(array.len() - array.null_count())?;
        self.0.extend(array.iter().flatten().map(u8::from));
        Ok(())
    }

    fn take(&mut self) -> Data {
        Data::U8(mem::take(&mut self.0))
    }
}

/// Room for elements of a type of Arrow's, which is named if the library has a wider one in its place.
fn values(data_type: &DataType, rows: usize) -> Result<(Box<dyn Values>, Option<String>)> {
    fn of<A: ArrowPrimitiveType, T: Scalar>(
        rows: usize,
        widen: fn(A::Native) -> T,
    ) -> Result<Box<dyn Values>> {
        Ok(Box::new(Numbers::<A, T> { values: room(rows)?, widen }))
    }
    let values = match data_type {
        DataType::Boolean => Box::new(Truths(room(rows)?)),
        DataType::Int8 => of::<Int8Type, i8>(rows, |value| value)?,
        DataType::UInt8 => of::<UInt8Type, u8>(rows, |value| value)?,
        DataType::Int16 => of::<Int16Type, i16>(rows, |value| value)?,
        DataType::UInt16 => of::<UInt16Type, u16>(rows, |value| value)?,
        DataType::Int32 => of::<Int32Type, i32>(rows, |value| value)?,
        DataType::UInt32 => of::<UInt32Type, u32>(rows, |value| value)?,
        DataType::Int64 => of::<Int64Type, i64>(rows, |value| value)?,
        DataType::UInt64 => of::<UInt64Type, u64>(rows, |value| value)?,
        DataType::Float16 => of::<Float16Type, half::f16>(rows, |value| value)?,
        DataType::Float32 => of::<Float32Type, f32>(rows, |value| value)?,
        DataType::Float64 => of::<Float64Type, f64>(rows, |value| value)?,
        _ => bail!("the column is of type {data_type}; {ALLOWED}"),
    };
    let is_wider = *data_type == DataType::Boolean;
    Ok((values, is_wider.then(|| data_type.to_string())))
}
