//! Register allocation: gives each virtual register a row (a value per lane) of the register file.
//!
//! An entry is decoded twice. The first pass records which instruction touches which register. Registers
//! whose live ranges do not overlap get the same row, which keeps a warp's working set in the cache. The
//! second pass writes the rows into the operations.

use std::collections::HashMap;

use crate::ast::Type;
use crate::cfg::Touches;
use crate::program::{FIXED_PREDICATES, Init, RowPlan, TRUE};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum File {
    Word,
    Double,
    Predicate,
}

impl File {
    pub(super) const fn of(ty: Type) -> Self {
        match ty.bits() {
            1 => Self::Predicate,
            64 => Self::Double,
            _ => Self::Word,
        }
    }
}

/// Number of reserved rows in the files of words and of doubles: row 0 is always zero.
const FIXED_ROWS: u16 = 1;

#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Row of each register, empty in the first pass.
    assigned: Vec<u16>,
    plan: RowPlan,
    constants: HashMap<Init, u16>,
    /// Set when there are more constants than row numbers.
    overflow: bool,
    pub(super) touches: Touches,
}

impl Rows {
    /// Returns an instance for the first pass, whose row numbers are placeholders.
    pub(super) fn recording() -> Self {
        Self::with(Vec::new(), [FIXED_ROWS, FIXED_ROWS, FIXED_PREDICATES])
    }

    fn with(assigned: Vec<u16>, [words, doubles, predicates]: [u16; 3]) -> Self {
        let plan = RowPlan { words, doubles, predicates, inits: Vec::new() };
        Self { assigned, plan, ..Self::default() }
    }

    /// Assigns rows by linear scan over the live ranges; fails if more registers are live at once than
    /// row numbers exist.
    pub(super) fn assign(types: &[Type], ranges: &[Option<(usize, usize)>]) -> Result<Self, String> {
        let mut order: Vec<usize> = (0..types.len()).filter(|&r| ranges[r].is_some()).collect();
        order.sort_by_key(|&register| ranges[register]);
        let mut next = [FIXED_ROWS, FIXED_ROWS, FIXED_PREDICATES];
        let mut free: [Vec<u16>; 3] = [Vec::new(), Vec::new(), Vec::new()];
        let mut active: std::collections::BinaryHeap<std::cmp::Reverse<(usize, usize, u16)>> =
            std::collections::BinaryHeap::new();
        let mut assigned = vec![0; types.len()];
        for register in order {
            let Some((start, end)) = ranges[register] else { continue };
            while let Some(&std::cmp::Reverse((ends, file, row))) = active.peek() {
                if ends > start {
                    break;
                }
                active.pop();
                free[file].push(row);
            }
            let file = File::of(types[register]) as usize;
            let row = match free[file].pop() {
                Some(row) => row,
                None => {
                    let row = next[file];
                    next[file] = row.checked_add(1).ok_or("more than 65535 live registers")?;
                    row
                }
            };
            assigned[register] = row;
            active.push(std::cmp::Reverse((end, file, row)));
        }
        Ok(Self::with(assigned, next))
    }

    /// Returns the register's row. The first pass gets a placeholder other than [`TRUE`], so that guards
    /// are recognised.
    pub(super) fn row(&self, register: u32) -> u16 {
        self.assigned.get(register as usize).copied().unwrap_or(u16::MAX)
    }

    pub(super) fn read(&mut self, register: u32) -> u16 {
        self.touches.reads.push(register);
        self.row(register)
    }

    pub(super) fn write(&mut self, register: u32, whole: bool) -> u16 {
        self.touches.writes.push((register, whole));
        self.row(register)
    }

    pub(super) fn constant(&mut self, init: Init) -> u16 {
        if matches!(init, Init::Word(0) | Init::Double(0)) {
            return 0;
        }
        if let Some(&row) = self.constants.get(&init) {
            return row;
        }
        let next = match init {
            Init::Word(_) | Init::Special(_) | Init::Frame | Init::Scratch => &mut self.plan.words,
            Init::Double(_) | Init::Special64(_) | Init::Global(..) => &mut self.plan.doubles,
            Init::SpecialPredicate(_) => &mut self.plan.predicates,
        };
        let row = *next;
        match row.checked_add(1) {
            Some(after) => *next = after,
            None => self.overflow = true,
        }
        self.plan.inits.push((row, init));
        self.constants.insert(init, row);
        row
    }

    pub(super) const fn always() -> u16 {
        TRUE
    }

    pub(super) fn finish(self) -> Result<RowPlan, String> {
        if self.overflow {
            return Err("more than 65535 registers and constants".to_owned());
        }
        Ok(self.plan)
    }
}
