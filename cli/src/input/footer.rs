//! Checks the schema of a Parquet footer before the `parquet` crate reads it.
//!
//! That crate builds a tree recursively, allocates as many children as a group declares, and stores in
//! each leaf the names of all enclosing groups: a short footer can overflow the stack or exhaust memory.

use anyhow::{Context, Result, bail, ensure};

const MOST_LEVELS: usize = 64;

/// The maximum total length of all leaves' full names, per byte of the footer.
const MOST_NAMES: usize = 64;

/// Type codes of Thrift's compact protocol, as used in fields and elements.
mod of {
    pub(super) const STOP: u8 = 0;
    pub(super) const TRUE: u8 = 1;
    pub(super) const FALSE: u8 = 2;
    pub(super) const BYTE: u8 = 3;
    pub(super) const I16: u8 = 4;
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const DOUBLE: u8 = 7;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const SET: u8 = 10;
    pub(super) const MAP: u8 = 11;
    pub(super) const STRUCT: u8 = 12;
    pub(super) const UUID: u8 = 13;
}

/// The ids of the fields that are read: the schema of `FileMetaData`, an element's name and children.
const SCHEMA: i16 = 2;
const NAME: i16 = 4;
const CHILDREN: i16 = 5;

/// Returns an error for a footer whose schema is too deep or declares children that do not exist.
pub(super) fn require_schema(footer: &[u8]) -> Result<()> {
    let mut text = Compact(footer);
    let mut last = 0;
    while let Some((field, kind)) = text.field(&mut last)? {
        if (field, kind) != (SCHEMA, of::LIST) {
            text.skip(kind, 0)?;
            continue;
        }
        let (elements, kind) = text.list()?;
        ensure!(kind == of::STRUCT, DAMAGED);
        return require_tree(&mut text, elements, footer.len());
    }
    Ok(())
}

const DAMAGED: &str = "is damaged: its footer is not a Parquet footer; write it again";

fn require_tree(text: &mut Compact<'_>, elements: usize, footer: usize) -> Result<()> {
    // For each enclosing group, the number of children not yet read, and the length of its full name.
    let mut groups: Vec<(usize, usize)> = Vec::new();
    let mut names = 0_usize;
    for element in 0..elements {
        let (name, children) = text.element()?;
        let around = match groups.last_mut() {
            Some((left, name)) => {
                *left -= 1;
                *name
            }
            None => 0,
        };
        let left = elements - element - 1;
        ensure!(
            children <= left,
            "is damaged: a group of its schema declares {children} children, but {left} elements \
             follow; write it again"
        );
        match children {
            0 => names += around + name,
            _ => groups.push((children, around + name)),
        }
        ensure!(
            groups.len() <= MOST_LEVELS,
            "has groups that are nested more than {MOST_LEVELS} levels deep; write the column to a file \
             of its own"
        );
        ensure!(
            names <= MOST_NAMES * footer,
            "has column names of {names} bytes or more; write the column to a file of its own"
        );
        while groups.pop_if(|(left, _)| *left == 0).is_some() {}
    }
    Ok(())
}

/// The unread bytes of data in Thrift's compact protocol.
struct Compact<'t>(&'t [u8]);

impl Compact<'_> {
    fn byte(&mut self) -> Result<u8> {
        let (&byte, rest) = self.0.split_first().context(DAMAGED)?;
        self.0 = rest;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        bail!(DAMAGED)
    }

    fn integer(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn pass(&mut self, bytes: u64) -> Result<()> {
        let bytes = usize::try_from(bytes).ok().filter(|&bytes| bytes <= self.0.len());
        self.0 = &self.0[bytes.context(DAMAGED)?..];
        Ok(())
    }

    /// Returns the number and type of a struct's next field; `None` at the end of the struct. A field's
    /// number may be relative to that of the previous field.
    fn field(&mut self, last: &mut i16) -> Result<Option<(i16, u8)>> {
        let header = self.byte()?;
        let (step, kind) = (header >> 4, header & 0xf);
        if kind == of::STOP {
            return Ok(None);
        }
        *last = match step {
            0 => self.integer()? as i16,
            _ => last.wrapping_add(step.into()),
        };
        Ok(Some((*last, kind)))
    }

    fn list(&mut self) -> Result<(usize, u8)> {
        let header = self.byte()?;
        let elements = match header >> 4 {
            15 => self.varint()?,
            elements => elements.into(),
        };
        // Each element has at least one byte.
        ensure!(elements <= self.0.len() as u64, DAMAGED);
        Ok((elements as usize, header & 0xf))
    }

    /// Returns the length of a schema element's name and its number of children.
    fn element(&mut self) -> Result<(usize, usize)> {
        let (mut last, mut name, mut children) = (0, 0, 0);
        while let Some((field, kind)) = self.field(&mut last)? {
            match (field, kind) {
                (NAME, of::BINARY) => {
                    name = self.varint()?;
                    self.pass(name)?;
                }
                (CHILDREN, of::I32) => children = self.integer()?,
                _ => self.skip(kind, 0)?,
            }
        }
        Ok((name as usize, usize::try_from(children).ok().context(DAMAGED)?))
    }

    fn skip(&mut self, kind: u8, level: usize) -> Result<()> {
        ensure!(level <= MOST_LEVELS, DAMAGED);
        match kind {
            of::TRUE | of::FALSE => Ok(()),
            of::BYTE => self.pass(1),
            of::I16 | of::I32 | of::I64 => self.varint().map(drop),
            of::DOUBLE => self.pass(8),
            of::UUID => self.pass(16),
            of::BINARY => {
                let bytes = self.varint()?;
                self.pass(bytes)
            }
            of::LIST | of::SET => {
                let (elements, kind) = self.list()?;
                // In lists a boolean is one byte, unlike in structs.
                let kind = if matches!(kind, of::TRUE | of::FALSE) { of::BYTE } else { kind };
                (0..elements).try_for_each(|_| self.skip(kind, level + 1))
            }
            of::MAP => {
                let entries = self.varint()?;
                ensure!(entries <= self.0.len() as u64, DAMAGED);
                let kinds = if entries > 0 { self.byte()? } else { 0 };
                (0..entries).try_for_each(|_| {
                    self.skip(kinds >> 4, level + 1)?;
                    self.skip(kinds & 0xf, level + 1)
                })
            }
            of::STRUCT => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip(kind, level + 1)?;
                }
                Ok(())
            }
            _ => bail!(DAMAGED),
        }
    }
}
