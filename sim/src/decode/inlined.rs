//! Calls that were inlined, as debug information has them: nvcc's `-G` writes no `inlined_at`, and DWARF
//! instead. Addresses in it are labels of the text, for which their offsets stand in here.

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

/// The instructions of a call that was inlined.
#[derive(Debug)]
pub(super) struct Inlined {
    /// Offsets of the text: the first, and the first behind it.
    from: u64,
    to: u64,
    /// What was inlined, and where.
    pub(super) function: Option<Arc<str>>,
    pub(super) at: Place,
    /// The one around it.
    outer: Option<usize>,
}

/// All of a module.
#[derive(Debug, Default)]
pub(super) struct InlinedCalls {
    /// By where they begin, those around others first.
    calls: Vec<Inlined>,
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Unit<'a> = UnitHeader<Slice<'a>>;

impl InlinedCalls {
    /// Those of a module: none of one whose debug information cannot be read.
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

    /// The calls that an instruction at an offset is in, the innermost first.
    pub(super) fn around(&self, offset: u32) -> impl Iterator<Item = &Inlined> {
        let offset = u64::from(offset);
        let last = self.calls.partition_point(|call| call.from <= offset).checked_sub(1);
        let outward = std::iter::successors(last, |&index| self.calls[index].outer);
        let calls = outward.map(|index| &self.calls[index]).skip_while(move |call| offset >= call.to);
        calls.take(MAX_DEPTH)
    }
}

/// The bytes of a section with offsets in the place of labels.
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

/// The name of a function, as it is in the PTX if it says so.
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
