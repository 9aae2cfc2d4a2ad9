//! Input files that are made without the program's code.

use std::{fs, io::Write, path::Path, sync::Arc};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::{
    CompressionType,
    writer::{FileWriter, IpcWriteOptions, StreamWriter},
};
use arrow_schema::{DataType, Field, Schema};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, Encoding},
    file::properties::WriterProperties,
    schema::types::ColumnPath,
};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

pub(crate) fn npy(descr: &str, fortran: bool, shape: &str, elements: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let dict = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    let length = (dict.len() + 11).next_multiple_of(64) - 10;
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((length as u16).to_le_bytes());
    file.extend(format!("{dict:<width$}\n", width = length - 1).bytes());
    file.extend(elements);
    file
}

pub(crate) fn vector<T: bytemuck::Pod>(descr: &str, values: &[T]) -> Vec<u8> {
    npy(descr, false, &format!("({},)", values.len()), bytemuck::cast_slice(values))
}

pub(crate) fn npz(method: CompressionMethod, arrays: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in arrays {
        let options = SimpleFileOptions::default().compression_method(method);
        archive.start_file(*name, options).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

pub(crate) type Columns<'a> = &'a [(&'a str, ArrayRef)];

fn batches(columns: Columns<'_>, first: usize) -> (Arc<Schema>, [RecordBatch; 2]) {
    let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let arrays = columns.iter().map(|(_, array)| array.clone()).collect();
    let whole = RecordBatch::try_new(schema.clone(), arrays).unwrap();
    let rest = whole.slice(first, whole.num_rows() - first);
    (schema, [whole.slice(0, first), rest])
}

pub(crate) fn arrow_file(columns: Columns<'_>, compression: Option<CompressionType>) -> Vec<u8> {
    let (schema, batches) = batches(columns, 2);
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = FileWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

pub(crate) fn arrow_stream(columns: Columns<'_>) -> Vec<u8> {
    let (schema, batches) = batches(columns, 2);
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

/// Returns a Parquet file with one page per column and with this encoding of strings.
pub(crate) fn parquet_encoded(columns: Columns<'_>, encoding: Encoding) -> Vec<u8> {
    let (schema, [first, rest]) = batches(columns, 2);
    let properties = WriterProperties::builder().set_dictionary_enabled(false);
    let strings = columns.iter().filter(|(_, array)| *array.data_type() == DataType::Utf8);
    let properties = strings.fold(properties, |properties, (name, _)| {
        properties.set_column_encoding(ColumnPath::from(*name), encoding)
    });
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties.build())).unwrap();
    [first, rest].iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

pub(crate) fn parquet(columns: Columns<'_>, compression: Compression) -> Vec<u8> {
    let (schema, batches) = batches(columns, 2);
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).unwrap();
    for batch in &batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
    }
    writer.into_inner().unwrap()
}

pub(crate) fn put(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    fs::write(folder.join(name), content).unwrap();
}
