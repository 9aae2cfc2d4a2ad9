//! Columns of Arrow's files and streams, and of Parquet.

use std::io::Read;

use anyhow::{Context, Result, bail};
use arrow_array::{
    Array, ArrowPrimitiveType, RecordBatch,
    cast::AsArray,
    types::{
        Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
        UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_buffer::NullBufferBuilder;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, DataType, Schema};
use parquet::arrow::{
    ProjectionMask,
    arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder},
};
use warpfold_suite::{Data, Scalar};

use super::{Column, Format, Runs, Source, Wanted, room};

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
    batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>,
}

/// The elements of a column of numbers.
pub(super) fn column(source: &Source, wanted: Wanted<'_>) -> Result<Column> {
    let Parts { data_type, rows, batches } = parts(source, wanted)?;
    let Some((mut values, stored)) = values(&data_type, rows.unwrap_or(0))? else {
        bail!("the column is of type {data_type}; {ALLOWED}");
    };
    let mut nulls = NullBufferBuilder::new(0);
    for batch in batches {
        let batch = batch.context(UNREADABLE)?;
        let array = batch.column(0);
        values.append(array)?;
        match array.nulls() {
            Some(part) => nulls.append_buffer(part),
            None => nulls.append_n_non_nulls(array.len()),
        }
    }
    let rows = nulls.len();
    let nulls = nulls.finish().filter(|nulls| nulls.null_count() > 0);
    let stored = stored.then(|| data_type.to_string());
    Ok(Column { data: values.data(), shape: vec![rows], nulls, stored })
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
    let batches: Box<dyn Iterator<Item = _>> = match is_file {
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
trait Values {
    /// Takes what is not null.
    fn append(&mut self, array: &dyn Array) -> Result<()>;
    fn data(self: Box<Self>) -> Data;
}

/// Those of numbers.
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

    fn data(self: Box<Self>) -> Data {
        T::data(self.values)
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

    fn data(self: Box<Self>) -> Data {
        Data::U8(self.0)
    }
}

/// Room for elements of a type of Arrow's, and whether the library has a wider one in its place; none
/// for what is no number.
fn values(data_type: &DataType, rows: usize) -> Result<Option<(Box<dyn Values>, bool)>> {
    fn of<A: ArrowPrimitiveType, T: Scalar>(
        rows: usize,
        widen: fn(A::Native) -> T,
    ) -> Result<Box<dyn Values>> {
        Ok(Box::new(Numbers::<A, T> { values: room(rows)?, widen }))
    }
    Ok(Some(match data_type {
        DataType::Boolean => (Box::new(Truths(room(rows)?)), true),
        DataType::Int8 => (of::<Int8Type, i8>(rows, |value| value)?, false),
        DataType::UInt8 => (of::<UInt8Type, u8>(rows, |value| value)?, false),
        DataType::Int16 => (of::<Int16Type, i16>(rows, |value| value)?, false),
        DataType::UInt16 => (of::<UInt16Type, u16>(rows, |value| value)?, false),
        DataType::Int32 => (of::<Int32Type, i32>(rows, |value| value)?, false),
        DataType::UInt32 => (of::<UInt32Type, u32>(rows, |value| value)?, false),
        DataType::Int64 => (of::<Int64Type, i64>(rows, |value| value)?, false),
        DataType::UInt64 => (of::<UInt64Type, u64>(rows, |value| value)?, false),
        DataType::Float16 => (of::<Float16Type, half::f16>(rows, |value| value)?, false),
        DataType::Float32 => (of::<Float32Type, f32>(rows, |value| value)?, false),
        DataType::Float64 => (of::<Float64Type, f64>(rows, |value| value)?, false),
        _ => return Ok(None),
    }))
}
