//! Inlined calls from debug information: with `-G`, nvcc writes DWARF and no `inlined_at`. Addresses in
//! its DWARF are labels of the PTX text; this module replaces them by byte offsets.

use std::collections::HashMap;
use std::sync::Arc;

use gimli::{
    AttributeValue, DebugAbbrev, DebugInfo, EndianSlice, EntriesTreeNode, LittleEndian, UnitHeader,
    constants,
};

use crate::ast::{Ast, DebugSection, Statement};
use crate::lexer::one_line;
use crate::location::MAX_DEPTH;

use super::locations::Place;

#[derive(Debug)]
pub(super) struct Inlined {
    /// Byte offsets of the first instruction, and of the end, in the text.
    from: u64,
    to: u64,
    /// The inlined function, and the location of its call.
    pub(super) function: Option<Arc<str>>,
    pub(super) at: Place,
    outer: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct InlinedCalls {
    /// Sorted by start, enclosing calls first.
    calls: Vec<Inlined>,
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Unit<'a> = UnitHeader<Slice<'a>>;

impl InlinedCalls {
    /// Reads the inlined calls of a module; returns none if its debug information cannot be read.
    pub(super) fn new(ast: &Ast<'_>) -> Self {
        if ast.debug_info.bytes.is_empty() {
            return Self::default();
        }
        let mut calls = read(ast).unwrap_or_default();
        calls.retain(|call| call.from < call.to);
        calls.sort_by_key(|call| (call.from, std::cmp::Reverse(call.to)));
        let mut open: Vec<usize> = Vec::new();
        for index in 0..calls.len() {
            let (from, to) = (calls[index].from, calls[index].to);
            while open.last().is_some_and(|&last| calls[last].to <= from || calls[last].to < to) {
                open.pop();
            }
            calls[index].outer = open.last().copied();
            open.push(index);
        }
        Self { calls }
    }

    /// Returns the calls that contain the instruction at an offset, innermost first.
    pub(super) fn around(&self, offset: u32) -> impl Iterator<Item = &Inlined> {
        let offset = u64::from(offset);
        let last = self.calls.partition_point(|call| call.from <= offset).checked_sub(1);
        let outward = std::iter::successors(last, |&index| self.calls[index].outer);
        let calls = outward.map(|index| &self.calls[index]).skip_while(move |call| offset >= call.to);
        calls.take(MAX_DEPTH)
    }
}

/// Returns the bytes of a section with labels replaced by their offsets.
fn placed(section: &DebugSection<'_>, offsets: &HashMap<&str, u32>) -> Vec<u8> {
    let mut bytes = section.bytes.clone();
    for (at, label) in &section.labels {
        let offset = u64::from(offsets.get(label).copied().unwrap_or(0)).to_le_bytes();
        bytes[*at..*at + offset.len()].copy_from_slice(&offset);
    }
    bytes
}

fn read(ast: &Ast<'_>) -> gimli::Result<Vec<Inlined>> {
    let statements = ast.functions.iter().filter_map(|function| function.body.as_ref()).flatten();
    let labels = statements.filter_map(|statement| match statement {
        Statement::Label(name, offset) => Some((*name, *offset)),
        _ => None,
    });
    let info = placed(&ast.debug_info, &labels.collect());
    let (info, abbrev) =
        (DebugInfo::new(&info, LittleEndian), DebugAbbrev::new(&ast.debug_abbrev.bytes, LittleEndian));
    let mut found = Vec::new();
    let mut units = info.units();
    while let Some(unit) = units.next()? {
        let abbreviations = unit.abbreviations(&abbrev)?;
        let mut tree = unit.entries_tree(&abbreviations, None)?;
        calls_in(&unit, &abbreviations, tree.root()?, 0, &mut found)?;
    }
    Ok(found)
}

fn calls_in(
    unit: &Unit<'_>,
    abbreviations: &gimli::Abbreviations,
    node: EntriesTreeNode<'_, '_, '_, Slice<'_>>,
    depth: usize,
    found: &mut Vec<Inlined>,
) -> gimli::Result<()> {
    let entry = node.entry();
    if entry.tag() == constants::DW_TAG_inlined_subroutine {
        let number =
            |name| Ok(entry.attr_value(name)?.and_then(|value| value.udata_value()).unwrap_or(0));
        let address = |name| {
            Ok(match entry.attr_value(name)? {
                Some(AttributeValue::Addr(address)) => address,
                _ => 0,
            })
        };
        let function = match entry.attr_value(constants::DW_AT_abstract_origin)? {
            Some(AttributeValue::UnitRef(origin)) => name_of(unit, abbreviations, origin)?,
            _ => None,
        };
        let file = match entry.attr_value(constants::DW_AT_call_file)? {
            Some(AttributeValue::FileIndex(file)) => file,
            other => other.and_then(|value| value.udata_value()).unwrap_or(0),
        };
        found.push(Inlined {
            from: address(constants::DW_AT_low_pc)?,
            to: address(constants::DW_AT_high_pc)?,
            function,
            at: (file as u32, number(constants::DW_AT_call_line)? as u32, 0),
            outer: None,
        });
    }
    if depth < MAX_DEPTH {
        let mut children = node.children();
        while let Some(child) = children.next()? {
            calls_in(unit, abbreviations, child, depth + 1, found)?;
        }
    }
    Ok(())
}

/// Returns the name of a function, preferably the linkage name, which PTX uses.
fn name_of(
    unit: &Unit<'_>,
    abbreviations: &gimli::Abbreviations,
    origin: gimli::UnitOffset,
) -> gimli::Result<Option<Arc<str>>> {
    let entry = unit.entry(abbreviations, origin)?;
    for name in
        [constants::DW_AT_MIPS_linkage_name, constants::DW_AT_linkage_name, constants::DW_AT_name]
    {
        if let Some(AttributeValue::String(text)) = entry.attr_value(name)? {
            return Ok(Some(one_line(&text.to_string_lossy()).into()));
        }
    }
    Ok(None)
}
