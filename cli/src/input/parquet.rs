//! Columns of Parquet files, one batch of rows at a time.
//!
//! The `parquet` crate trusts the counts that a page declares: it allocates and fills that many
//! dictionary values and string lengths. Pages are checked here before the crate decodes them: a page
//! must not declare more than it contains.

use std::sync::Arc;

use anyhow::{Result, ensure};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Schema};
use bytes::Bytes;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReader, RowGroups},
        parquet_to_arrow_field_levels,
    },
    basic::Encoding,
    column::page::{Page, PageIterator, PageMetadata, PageReader},
    errors::{ParquetError, Result as PageResult},
    file::{
        metadata::{ParquetMetaData, RowGroupMetaData},
        reader::{ChunkReader, Length, SerializedPageReader},
    },
};

use super::{footer::require_schema, tables::damaged};

/// Bytes after a footer: its length and the magic number.
const TAIL: u64 = 8;

const BATCH: usize = 1024;

pub(super) struct Batches {
    reader: ParquetRecordBatchReader,
    declared: u64,
    read: u64,
}

impl Batches {
    pub(super) fn new(
        content: impl ChunkReader + 'static,
        place: impl FnOnce(&Schema) -> Result<usize>,
    ) -> Result<(Self, DataType, u64)> {
        let content = Within(content);
        require_schema(&footer(&content)?)?;
        let metadata = ArrowReaderMetadata::load(&content, Default::default()).map_err(damaged)?;
        let schema = metadata.schema();
        let place = place(schema)?;
        let data_type = schema.field(place).data_type().clone();
        let descriptor = metadata.parquet_schema();
        let roots = ProjectionMask::roots(descriptor, [place]);
        // Without a dictionary type, each row would get its own copy of its string.
        let fields = schema.fields().iter().enumerate().map(|(at, field)| match field.data_type() {
            strings @ (DataType::Utf8 | DataType::LargeUtf8) if at == place => {
                let strings = DataType::Dictionary(DataType::Int32.into(), strings.clone().into());
                Arc::new(field.as_ref().clone().with_data_type(strings))
            }
            _ => field.clone(),
        });
        let levels = parquet_to_arrow_field_levels(descriptor, roots, Some(&fields.collect()));
        let levels = levels.map_err(damaged)?;
        let declared = metadata.metadata().file_metadata().num_rows();
        let declared =
            u64::try_from(declared).map_err(|_| damaged("it declares a negative number of rows"))?;
        let groups = Groups { content: Arc::new(content), metadata: metadata.metadata().clone() };
        let reader = ParquetRecordBatchReader::try_new_with_row_groups(&levels, &groups, BATCH, None);
        Ok((Self { reader: reader.map_err(damaged)?, declared, read: 0 }, data_type, declared))
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.reader.next() {
            Some(Ok(batch)) => {
                self.read += batch.num_rows() as u64;
                let Self { declared, read, .. } = *self;
                match read > declared {
                    true => Some(Err(damaged(format!("it has {read} rows, but declares {declared}")))),
                    false => Some(Ok(batch)),
                }
            }
            // An error of a page reaches the caller as an Arrow error.
            Some(Err(ArrowError::ParquetError(reason))) => Some(Err(damaged(reason))),
            Some(Err(error)) => Some(Err(damaged(error))),
            None if self.read != self.declared => {
                let Self { declared, read, .. } = *self;
                self.read = declared;
                Some(Err(damaged(format!("it has {read} rows, but declares {declared}"))))
            }
            None => None,
        }
    }
}

/// Returns the bytes of a file's footer. For a file without one, returns an empty struct, so that the
/// `parquet` crate reports the error.
fn footer(content: &impl ChunkReader) -> Result<Bytes> {
    let Some(end) = content.len().checked_sub(TAIL) else { return Ok(Bytes::from_static(&[0])) };
    let tail = content.get_bytes(end, TAIL as usize).map_err(damaged)?;
    if &tail[4..] != b"PAR1" {
        return Ok(Bytes::from_static(&[0]));
    }
    let bytes = u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]);
    ensure!(
        u64::from(bytes) <= end,
        damaged(format!("its footer declares {bytes} bytes, but only {end} precede it"))
    );
    content.get_bytes(end - u64::from(bytes), bytes as usize).map_err(damaged)
}

/// Wraps a file, and refuses reads past its end before memory is allocated for them.
struct Within<C>(C);

impl<C: Length> Length for Within<C> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<C: ChunkReader> ChunkReader for Within<C> {
    type T = C::T;

    fn get_read(&self, start: u64) -> PageResult<C::T> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> PageResult<Bytes> {
        match start.checked_add(length as u64) {
            Some(end) if end <= self.len() => self.0.get_bytes(start, length),
            _ => Err(ParquetError::EOF(format!(
                "{length} bytes at byte {start} exceed the file of {} bytes",
                self.len()
            ))),
        }
    }
}

struct Groups<C> {
    content: Arc<C>,
    metadata: Arc<ParquetMetaData>,
}

impl<C: ChunkReader + 'static> RowGroups for Groups<C> {
    fn num_rows(&self) -> usize {
        self.metadata.file_metadata().num_rows() as usize
    }

    fn column_chunks(&self, column: usize) -> PageResult<Box<dyn PageIterator>> {
        let Self { content, metadata } = self;
        Ok(Box::new(Chunks { content: content.clone(), metadata: metadata.clone(), column, group: 0 }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.metadata.row_groups().iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

struct Chunks<C> {
    content: Arc<C>,
    metadata: Arc<ParquetMetaData>,
    column: usize,
    group: usize,
}

impl<C: ChunkReader + 'static> Iterator for Chunks<C> {
    type Item = PageResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.metadata.row_groups().get(self.group)?;
        self.group += 1;
        let Some(chunk) = group.columns().get(self.column) else {
            return Some(Err(ParquetError::General("a row group lacks the column".to_owned())));
        };
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let pages = SerializedPageReader::new(self.content.clone(), chunk, rows, None);
        let has_nulls = chunk.column_descr().max_def_level() > 0;
        Some(pages.map(|pages| Box::new(Pages { pages, has_nulls }) as _))
    }
}

impl<C: ChunkReader + 'static> PageIterator for Chunks<C> {}

/// The pages of a column chunk, each checked against its declared counts.
struct Pages<P> {
    pages: P,
    has_nulls: bool,
}

impl<P: PageReader> PageReader for Pages<P> {
    fn get_next_page(&mut self) -> PageResult<Option<Page>> {
        let page = self.pages.get_next_page()?;
        page.as_ref().map_or(Ok(()), |page| require_values(page, self.has_nulls))?;
        Ok(page)
    }

    fn peek_next_page(&mut self) -> PageResult<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> PageResult<()> {
        self.pages.skip_next_page()
    }
}

impl<P: PageReader> Iterator for Pages<P> {
    type Item = PageResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

/// Fails if a page declares more dictionary values than bytes, or more string lengths than values.
fn require_values(page: &Page, has_nulls: bool) -> PageResult<()> {
    let (bytes, declared, most) = match page {
        Page::DictionaryPage { buf, num_values, .. } => {
            (buf.len(), u64::from(*num_values), buf.len() as u64)
        }
        Page::DataPage { buf, num_values, encoding, .. } if is_delta(*encoding) => {
            // The definition levels come first, prefixed with their length.
            let levels = match buf.split_first_chunk() {
                Some((bytes, _)) if has_nulls => u64::from(u32::from_le_bytes(*bytes)) + 4,
                _ => 0,
            };
            (buf.len(), lengths(buf, levels, *encoding, (*num_values).into()), u64::from(*num_values))
        }
        Page::DataPageV2 {
            buf, num_values, encoding, def_levels_byte_len, rep_levels_byte_len, ..
        } if is_delta(*encoding) => {
            let levels = u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
            (buf.len(), lengths(buf, levels, *encoding, (*num_values).into()), u64::from(*num_values))
        }
        _ => return Ok(()),
    };
    if declared > most {
        return Err(ParquetError::General(format!(
            "a page of {bytes} bytes declares {declared} values"
        )));
    }
    Ok(())
}

fn is_delta(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY)
}

/// Returns the number of string lengths that a page declares after its levels. DELTA_BYTE_ARRAY has two
/// lists: lengths of the prefixes shared with the previous string, and lengths of the suffixes. For
/// these, returns the length of the second list, or of the first if that exceeds `values`.
fn lengths(page: &[u8], levels: u64, encoding: Encoding, values: u64) -> u64 {
    let lengths = usize::try_from(levels).ok().and_then(|levels| page.get(levels..));
    let mut lengths = Differences(lengths.unwrap_or(&[]));
    let first = lengths.pass(values).unwrap_or(0);
    match encoding {
        Encoding::DELTA_BYTE_ARRAY if first <= values => lengths.pass(values).unwrap_or(0),
        _ => first,
    }
}

/// The rest of a page, which begins with delta-encoded integers (DELTA_BINARY_PACKED).
struct Differences<'p>(&'p [u8]);

impl<'p> Differences<'p> {
    /// Skips the integers and returns their number; stops if there are more than `most`. Returns `None`
    /// for integers that the decoder rejects.
    fn pass(&mut self, most: u64) -> Option<u64> {
        let (block, parts, count) = (self.number()?, self.number()?, self.number()?);
        let _first = self.number()?;
        let mut left = count.saturating_sub(1);
        if count > most || left == 0 {
            return Some(count);
        }
        let each = block.checked_div(parts)?;
        while left > 0 {
            let _smallest = self.number()?;
            let widths = self.bytes(parts)?;
            for &width in widths {
                // Miniblocks of the last block that are not needed have no bytes.
                if left == 0 {
                    break;
                }
                self.bytes(u64::from(width).checked_mul(each)? / 8)?;
                left = left.saturating_sub(each);
            }
        }
        Some(count)
    }

    fn number(&mut self) -> Option<u64> {
        let bytes = self.0.iter().take(10).position(|byte| *byte < 0x80)? + 1;
        let digits = self.bytes(bytes as u64)?.iter().rev().map(|byte| u64::from(byte & 0x7f));
        Some(digits.fold(0, |all, digit| all << 7 | digit))
    }

    fn bytes(&mut self, count: u64) -> Option<&'p [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }
}
