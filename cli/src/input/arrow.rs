//! Arrow files and streams, one message at a time.
//!
//! The readers of arrow-ipc allocate the footer and the decompressed buffers by the lengths that a file
//! declares, and a failed allocation aborts the process. Only the decoder of arrow-ipc is used here, on
//! messages whose lengths have been compared with the available bytes.

use std::{
    io::{Read, Seek, SeekFrom},
    sync::Arc,
    vec,
};

use anyhow::{Context, Result, bail, ensure};
use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::{
    Block, BodyCompression, CompressionType, Endianness, Message, MessageHeader,
    convert::try_fb_to_schema,
    reader::{FileDecoder, read_footer_length},
    root_as_footer, root_as_message,
};
use arrow_schema::{DataType, Schema};
use warpfold_suite::cpu::memory_short_of;

use super::{Seekable, tables::damaged};

/// The magic number at both ends of an Arrow file; an Arrow stream has none.
const FILE: &[u8] = b"ARROW1";

/// Bytes after a file's footer: the footer's length, and `ARROW1`.
const TAIL: u64 = 10;

/// The prefix of each message of a stream since Arrow 0.15.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Bytes before a message's metadata: the continuation and the metadata's length.
const PREFIX: u64 = 8;

/// The maximum compression ratio of LZ4.
const LZ4_RATIO: u64 = 255;

pub(super) struct Batches {
    from: Box<dyn Seekable>,
    length: u64,
    decoder: FileDecoder,
    /// The unread messages of a file; `None` for a stream, whose messages are consecutive.
    blocks: Option<vec::IntoIter<Block>>,
    /// The id of the column's dictionary, if it has one; dictionaries of other columns are not decoded.
    dictionary: Option<i64>,
    has_ended: bool,
}

impl Batches {
    pub(super) fn new(
        mut from: Box<dyn Seekable>,
        place: impl FnOnce(&Schema) -> Result<usize>,
    ) -> Result<(Self, DataType)> {
        let length = from.seek(SeekFrom::End(0))?;
        from.rewind()?;
        let mut start = Vec::new();
        from.by_ref().take(FILE.len() as u64).read_to_end(&mut start)?;
        let (schema, version, blocks) = if start == FILE {
            let footer = footer(&mut *from, length)?;
            let footer = root_as_footer(&footer).map_err(damaged)?;
            let schema = footer.schema().ok_or_else(|| damaged("its footer has no schema"))?;
            require_order(schema.endianness())?;
            let dictionaries = footer.dictionaries().into_iter().flatten();
            let batches = footer.recordBatches().into_iter().flatten();
            let blocks: Vec<Block> = dictionaries.chain(batches).copied().collect();
            require_apart(&blocks, length)?;
            let schema = try_fb_to_schema(schema).map_err(damaged)?;
            (schema, footer.version(), Some(blocks.into_iter()))
        } else {
            from.rewind()?;
            let Some((block, message)) = next_message(&mut *from, length)? else {
                bail!("is not an Arrow stream: it has no schema; write it again");
            };
            let message = metadata(&message, &block)?;
            let schema = message
                .header_as_schema()
                .context("is not an Arrow stream: it does not begin with a schema; write it again")?;
            require_order(schema.endianness())?;
            (try_fb_to_schema(schema).map_err(damaged)?, message.version(), None)
        };
        let place = place(&schema)?;
        let field = schema.field(place);
        let data_type = field.data_type().clone();
        #[expect(deprecated, reason = "there is no other way to a dictionary's number")]
        let dictionary = field.dict_id();
        let decoder = FileDecoder::new(Arc::new(schema), version).with_projection(vec![place]);
        Ok((Self { from, length, decoder, blocks, dictionary, has_ended: false }, data_type))
    }

    fn read(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let next = match &mut self.blocks {
                Some(blocks) => match blocks.next() {
                    Some(block) => Some((block, block_of(&mut *self.from, &block)?)),
                    None => None,
                },
                None => next_message(&mut *self.from, self.length)?,
            };
            let Some((block, content)) = next else { return Ok(None) };
            let message = metadata(&content, &block)?;
            let body = &content[block.metaDataLength() as usize..];
            match message.header_type() {
                MessageHeader::RecordBatch => {
                    let batch = message.header_as_record_batch();
                    require_buffers(
                        batch.ok_or_else(|| damaged("a message has no record batch"))?,
                        body,
                    )?;
                    return self.decoder.read_record_batch(&block, &content).map_err(damaged);
                }
                MessageHeader::DictionaryBatch => {
                    let dictionary = message.header_as_dictionary_batch();
                    let dictionary = dictionary.ok_or_else(|| damaged("a message has no dictionary"))?;
                    if self.dictionary == Some(dictionary.id()) {
                        let values = dictionary.data();
                        require_buffers(
                            values.ok_or_else(|| damaged("a dictionary has no values"))?,
                            body,
                        )?;
                        self.decoder.read_dictionary(&block, &content).map_err(damaged)?;
                    }
                }
                other => bail!("is damaged: a message has the type {other:?}; write it again"),
            }
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = if self.has_ended { None } else { self.read().transpose() };
        self.has_ended = !matches!(batch, Some(Ok(_)));
        batch
    }
}

fn footer(from: &mut dyn Seekable, length: u64) -> Result<Vec<u8>> {
    let cut = "is cut off or not an Arrow file: it does not end with ARROW1; write it again";
    ensure!(length >= FILE.len() as u64 + TAIL, cut);
    let mut tail = [0; TAIL as usize];
    from.seek(SeekFrom::Start(length - TAIL))?;
    from.read_exact(&mut tail)?;
    ensure!(tail.ends_with(FILE), cut);
    let bytes = read_footer_length(tail).map_err(damaged)? as u64;
    ensure!(
        bytes <= length - TAIL,
        "is damaged: its footer has {bytes} bytes, but the file has {length}; write it again"
    );
    let mut footer = vec![0; bytes as usize];
    from.seek(SeekFrom::Start(length - TAIL - bytes))?;
    from.read_exact(&mut footer)?;
    Ok(footer)
}

fn require_order(order: Endianness) -> Result<()> {
    ensure!(order.equals_to_target_endianness(), "has another byte order than this machine; convert it");
    Ok(())
}

/// Returns an error for messages that are outside of the file or overlap: a short file could otherwise
/// declare any number of rows.
fn require_apart(blocks: &[Block], length: u64) -> Result<()> {
    let mut all = 0_u64;
    for block in blocks {
        let part = |bytes: i64| u64::try_from(bytes).ok();
        let end = part(block.offset()).and_then(|offset| {
            let bytes = part(block.metaDataLength().into())?.checked_add(part(block.bodyLength())?)?;
            all = all.saturating_add(bytes);
            offset.checked_add(bytes)
        });
        let metadata = i64::from(block.metaDataLength());
        ensure!(
            end.is_some_and(|end| end <= length) && metadata >= PREFIX as i64 && all <= length,
            "is damaged: a message at byte {} has {metadata} bytes of metadata and {} of body, and the \
             file has {length} bytes; write it again",
            block.offset(),
            block.bodyLength()
        );
    }
    Ok(())
}

fn block_of(from: &mut dyn Seekable, block: &Block) -> Result<Buffer> {
    from.seek(SeekFrom::Start(block.offset() as u64))?;
    let mut content = room_for(block.metaDataLength() as u64 + block.bodyLength() as u64)?;
    from.read_exact(&mut content)?;
    Ok(content.into())
}

/// Reads the next message of an Arrow stream. Returns its bytes, and the block that would describe them
/// in an Arrow file; `None` at the end of the stream.
fn next_message(from: &mut dyn Seekable, length: u64) -> Result<Option<(Block, Buffer)>> {
    let left = length - from.stream_position()?;
    let mut word = [0; 4];
    if left == 0 {
        return Ok(None);
    }
    from.read_exact(&mut word).context("is cut off; write it again")?;
    if word == CONTINUATION {
        from.read_exact(&mut word).context("is cut off; write it again")?;
    }
    let bytes = i32::from_le_bytes(word);
    if bytes == 0 {
        return Ok(None);
    }
    let left = length - from.stream_position()?;
    let bytes = u64::try_from(bytes).ok().filter(|&bytes| bytes <= left);
    let bytes = bytes.context("is cut off or not an Arrow stream; write it again")?;
    let mut content = room_for(PREFIX + bytes)?;
    content[..4].copy_from_slice(&CONTINUATION);
    content[4..][..4].copy_from_slice(&word);
    from.read_exact(&mut content[PREFIX as usize..])?;
    let message = root_as_message(&content[PREFIX as usize..]).map_err(damaged)?;
    let body = u64::try_from(message.bodyLength()).ok().filter(|&body| body <= left - bytes);
    let body =
        body.context("is cut off: a message is longer than the rest of the stream; write it again")?;
    let block = Block::new(0, (PREFIX + bytes) as i32, body as i64);
    let mut whole = room_for(content.len() as u64 + body)?;
    whole[..content.len()].copy_from_slice(&content);
    from.read_exact(&mut whole[content.len()..])?;
    Ok(Some((block, whole.into())))
}

fn room_for(bytes: u64) -> Result<MutableBuffer> {
    if let Some(most) = memory_short_of(bytes) {
        bail!("has a batch of {bytes} bytes; this process has {most} bytes of memory left");
    }
    let room = usize::try_from(bytes).ok();
    let room = room.and_then(|bytes| MutableBuffer::try_from_len_zeroed(bytes).ok());
    room.with_context(|| format!("has a batch of {bytes} bytes, which this process cannot allocate"))
}

fn metadata<'m>(content: &'m Buffer, block: &Block) -> Result<Message<'m>> {
    let all = &content[..block.metaDataLength() as usize];
    let prefix = if all.starts_with(&CONTINUATION) { PREFIX as usize } else { 4 };
    root_as_message(&all[prefix..]).map_err(damaged)
}

/// Returns an error for buffers that are outside of a message's body or overlap. A compressed buffer
/// must not declare a larger size than its bytes can expand to, or than fits into memory.
fn require_buffers(batch: arrow_ipc::RecordBatch<'_>, body: &[u8]) -> Result<()> {
    let mut all = 0_u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let part = (usize::try_from(buffer.offset()).ok())
            .zip(usize::try_from(buffer.length()).ok())
            .and_then(|(offset, bytes)| body.get(offset..offset.checked_add(bytes)?));
        let Some(part) = part else {
            bail!(
                "is damaged: a buffer at byte {} has {} bytes, but its message has {}; write it again",
                buffer.offset(),
                buffer.length(),
                body.len()
            );
        };
        all += part.len() as u64;
        ensure!(all <= body.len() as u64, "is damaged: buffers overlap; write it again");
        let Some(compression) = batch.compression().filter(|_| !part.is_empty()) else { continue };
        require_uncompressed(compression, part)?;
    }
    let rows =
        batch.nodes().into_iter().flatten().all(|node| (0..=node.length()).contains(&node.null_count()));
    ensure!(
        rows && batch.length() >= 0,
        "is damaged: a batch has an impossible number of rows or nulls; write it again"
    );
    Ok(())
}

fn require_uncompressed(compression: BodyCompression<'_>, part: &[u8]) -> Result<()> {
    let Some((declared, compressed)) = part.split_first_chunk() else {
        bail!("is damaged: a compressed buffer has only {} bytes; write it again", part.len());
    };
    // -1 marks an uncompressed buffer.
    let Ok(declared) = u64::try_from(i64::from_le_bytes(*declared)) else { return Ok(()) };
    let possible = match compression.codec() {
        CompressionType::LZ4_FRAME => (compressed.len() as u64).saturating_mul(LZ4_RATIO),
        _ => u64::MAX,
    };
    ensure!(
        declared <= possible,
        "is damaged: a buffer of {} compressed bytes declares {declared} uncompressed ones; write it \
         again",
        compressed.len()
    );
    if let Some(most) = memory_short_of(declared) {
        bail!("has a buffer of {declared} bytes; this process has {most} bytes of memory left");
    }
    Ok(())
}
