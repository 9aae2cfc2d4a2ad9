//! Matrix instructions of a warp: `mma`, `wmma`, `movmatrix`, `ldmatrix` and `stmatrix`.

use crate::ast::Type;
use crate::error::FaultKind;
use crate::explore::Order;
use crate::lanes::matrix::{self, Values};
use crate::lanes::{FULL, Row, Row64};
use crate::memory::Space;
use crate::observe::{AccessKind, Detail};
use crate::program::{
    Access, Base, Element, Fragment, Held, LANES, MatrixMove, MatrixOp, Place, Product, RowsMove, Slot,
    Sparsity, Strength,
};

use super::divergent_path::{Wait, Whole};
use super::warp::{Next, Warp};
use super::{ExecContext, Outcome, Probe, trouble};

const ROW_BYTES: u64 = 16;

impl Warp {
    pub(super) fn matrix<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        index: u32,
        mask: u32,
    ) -> Outcome<Next> {
        if mask == 0 {
            if P::ENABLED {
                self.report(context, mask, Detail::None);
            }
            return Ok(Next::Reported);
        }
        let (lane, program) = (mask.trailing_zeros(), &context.launch.entry.program);
        if self.exited != 0 {
            let kind = FaultKind::MemberExited { mask: FULL, exited: self.exited, active: mask };
            return trouble(kind, lane);
        }
        match self.whole(program, mask, Wait::Warp) {
            Whole::Here => {}
            Whole::Later(next) => return Ok(next),
            Whole::Missing(inactive) => {
                let kind = FaultKind::MemberInactive { mask: FULL, inactive, active: mask };
                return trouble(kind, lane);
            }
        }
        match &program.matrices[index as usize] {
            MatrixOp::Product(product) => self.multiply(product)?,
            &MatrixOp::Transpose(d, a) => {
                let transposed = transposed(&self.regs.words[usize::from(a)]);
                self.regs.words[usize::from(d)] = transposed;
            }
            MatrixOp::Move(moved) => {
                self.move_matrix(context, moved)?;
                self.pass();
                return Ok(Next::Placed);
            }
            MatrixOp::Rows(moved) => {
                self.move_rows(context, moved)?;
                self.pass();
                return Ok(Next::Placed);
            }
            MatrixOp::GroupProduct(product) => {
                self.multiply_group(context, product)?;
                self.pass();
                return Ok(Next::Placed);
            }
            MatrixOp::GroupOrder => {}
        }
        if P::ENABLED {
            context.report((self.pc, self.index, FULL, FULL), Detail::None);
        }
        self.pass();
        Ok(Next::Placed)
    }

    fn multiply(&mut self, product: &Product) -> Outcome<()> {
        let Product { a, sparsity, b, c, d, summing } = product;
        let (first, mut second, mut sums) = (self.held(a), self.held(b), self.held(c));
        let Fragment { mut shape, element, .. } = a.fragment;
        if let Some(sparsity) = sparsity {
            // Each row of A is multiplied, as a matrix of its own, by the rows of B for its columns.
            // Other elements of B have no effect, even if they are infinite or NaN.
            second = second.rows_at(shape.n, &self.columns(&a.fragment, sparsity)?);
            shape.m = 1;
        }
        matrix::multiply((shape, element), [&first, &second], &mut sums, *summing);
        self.put_held(d, &sums);
        Ok(())
    }

    /// Returns the column in the sparse matrix A of each element of its fragment, in row-major order.
    fn columns(&self, a: &Fragment, sparsity: &Sparsity) -> Outcome<Vec<u32>> {
        let (element, kept) = (a.element, Sparsity::kept(a.element));
        let metadata = &self.regs.words[usize::from(sparsity.metadata)];
        let mut columns = Vec::with_capacity((a.rows() * a.columns()) as usize);
        for row in 0..a.rows() {
            for chunk in 0..a.columns() / kept {
                let (lane, bit) = sparsity.place(element, row, chunk);
                let indices = metadata[lane as usize] >> bit & 15;
                if !sparsity.allows(element, indices) {
                    let allowed = match (element, sparsity.ordered) {
                        (Element::Tf32, _) => "0b0100 and 0b1110",
                        (_, true) => "two indices of two bits, in ascending order",
                        (_, false) => "two different indices of two bits",
                    };
                    return trouble(FaultKind::InvalidMetadata { indices, row, chunk, allowed }, lane);
                }
                let position = |index| Sparsity::position(element, indices, index);
                columns.extend((0..kept).map(|index| 2 * kept * chunk + position(index)));
            }
        }
        Ok(columns)
    }

    /// Calls `visit` with each element's register, lane, index within the register, and index among all
    /// elements.
    fn each(held: &Held, mut visit: impl FnMut(u16, usize, u32, usize)) {
        let fragment = &held.fragment;
        let (columns, size) = (fragment.columns(), fragment.rows() * fragment.columns());
        let place = |lane, register, index| {
            let spot = fragment.spot(lane, register, index);
            (spot.product * size + spot.row * columns + spot.column) as usize
        };
        // In every layout the coordinates are sums of a part that depends on the lane alone and one that
        // depends on register and index alone.
        let lanes: [usize; LANES] = std::array::from_fn(|lane| place(lane as u32, 0, 0));
        for (register, &row) in held.rows.iter().enumerate() {
            for index in 0..fragment.element.packed() {
                let from = place(0, register as u32, index);
                for (lane, at) in lanes.iter().enumerate() {
                    visit(row, lane, index, from + at);
                }
            }
        }
    }

    pub(super) fn held(&self, held: &Held) -> Values {
        let element = held.fragment.element;
        let mut values = Values::zeros(element, elements(&held.fragment));
        if let (Element::F64, Values::Floats(values)) = (element, &mut values) {
            Self::each(held, |row, lane, _, at| {
                values[at] = f64::from_bits(self.regs.doubles[usize::from(row)][lane]);
            });
            return Values::Floats(std::mem::take(values));
        }
        Self::each(held, |row, lane, index, at| {
            let word = self.regs.words[usize::from(row)][lane];
            values.set(element, at, word >> (index * element.bits() % 32));
        });
        values
    }

    pub(super) fn put_held(&mut self, held: &Held, values: &Values) {
        let element = held.fragment.element;
        match values {
            Values::Integers(values) => self.put(held, |at| values[at] as u32),
            Values::Floats(values) if element == Element::F64 => self.put_doubles(held, |at| values[at]),
            Values::Floats(values) => self.put(held, |at| matrix::rounded(element, values[at])),
        }
    }

    fn put(&mut self, held: &Held, bits: impl Fn(usize) -> u32) {
        let element = held.fragment.element;
        Self::each(held, |row, lane, index, at| {
            let word = &mut self.regs.words[usize::from(row)][lane];
            let kept = if index == 0 { 0 } else { *word };
            *word = kept | bits(at) << (index * element.bits() % 32);
        });
    }

    fn put_doubles(&mut self, held: &Held, value: impl Fn(usize) -> f64) {
        Self::each(held, |row, lane, _, at| {
            self.regs.doubles[usize::from(row)][lane] = value(at).to_bits();
        });
    }

    /// Executes `wmma.load` or `wmma.store`: whole registers where their elements are adjacent in
    /// memory, else single elements.
    fn move_matrix<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        moved: &MatrixMove,
    ) -> Outcome<()> {
        let MatrixMove { held, at, load, row_major, stride, scratch } = moved;
        let Held { fragment, rows } = held;
        self.explorable(context, at);
        // The load may overwrite the address registers.
        let starts = self.addresses(at);
        let strides: Row = match stride {
            Some(row) => self.regs.words[usize::from(*row)],
            None => [if *row_major { fragment.columns() } else { fragment.rows() }; LANES],
        };
        let (bits, packed) = (fragment.element.bits(), fragment.element.packed());
        let whole = packed == 1 || *row_major == fragment.packs_rows();
        let mut part = 0;
        for (register, &row) in rows.iter().enumerate() {
            for index in 0..if whole { 1 } else { packed } {
                let mut addresses: Row64 = std::array::from_fn(|lane| {
                    let spot = fragment.spot(lane as u32, register as u32, index);
                    let (line, within) =
                        if *row_major { (spot.row, spot.column) } else { (spot.column, spot.row) };
                    let element = u64::from(line) * u64::from(strides[lane]) + u64::from(within);
                    starts[lane].wrapping_add(element * u64::from(bits) / 8)
                });
                let (ty, slot) = match (whole, bits) {
                    (_, 64) => (Type::B64, Slot::Double(row)),
                    (true, _) => (Type::B32, Slot::Word(row)),
                    (false, 8) => (Type::B8, Slot::Half(*scratch)),
                    (false, _) => (Type::B16, Slot::Half(*scratch)),
                };
                let shift = index * bits;
                if !whole && !load {
                    let word = self.regs.words[usize::from(row)];
                    self.regs.words[usize::from(*scratch)] = word.map(|word| word >> shift);
                }
                let access = access(at, ty, slot);
                self.access_part(context, &access, &mut addresses, *load, &mut part)?;
                if !whole && *load {
                    let parts = self.regs.words[usize::from(*scratch)];
                    let word = &mut self.regs.words[usize::from(row)];
                    for (word, part) in word.iter_mut().zip(parts) {
                        *word = if index == 0 { part } else { *word | part << shift };
                    }
                }
            }
        }
        Ok(())
    }

    fn move_rows<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        moved: &RowsMove,
    ) -> Outcome<()> {
        let RowsMove { registers, at, load, transposed: across, scratch } = moved;
        self.explorable(context, at);
        let starts = self.addresses(at);
        let given = &starts[..8 * registers.len()];
        if let Some(lane) = given.iter().position(|start| !start.is_multiple_of(ROW_BYTES)) {
            let (access, space) = (if *load { "load" } else { "store" }, at.space);
            let (address, bytes) = (starts[lane], ROW_BYTES as u32);
            return trouble(FaultKind::Misaligned { access, space, address, bytes }, lane as u32);
        }
        let mut part = 0;
        for (number, &row) in registers.iter().enumerate() {
            let mut addresses: Row64 = std::array::from_fn(|lane| {
                starts[8 * number + lane / 4].wrapping_add(4 * (lane as u64 % 4))
            });
            let held = if *across && !load { *scratch } else { row };
            if *across && !load {
                let turned = transposed(&self.regs.words[usize::from(row)]);
                self.regs.words[usize::from(held)] = turned;
            }
            let access = access(at, Type::B32, Slot::Word(held));
            self.access_part(context, &access, &mut addresses, *load, &mut part)?;
            if *across && *load {
                self.regs.words[usize::from(row)] = transposed(&self.regs.words[usize::from(row)]);
            }
        }
        Ok(())
    }

    /// Executes one of an instruction's accesses, for all lanes; its events are numbered from `part`.
    fn access_part<P: Probe>(
        &mut self,
        context: &mut ExecContext<'_, P>,
        access: &Access,
        addresses: &mut Row64,
        load: bool,
        part: &mut u32,
    ) -> Outcome<()> {
        let kind = if load { AccessKind::Load } else { AccessKind::Store };
        self.by_space_from(context, access, FULL, addresses, kind, part)
    }

    /// Ends an exploration if a matrix access is outside shared memory, because that is not supported.
    fn explorable<P: Probe>(&self, context: &ExecContext<'_, P>, at: &Place) {
        if at.space != Space::Shared
            && let Some(world) = context.probe.exploration()
        {
            world.refuse(
                "the kernel moves matrices to or from global memory, which explorations do not support",
            );
        }
    }
}

/// Returns an access of one element per lane, at addresses that are passed separately.
fn access(at: &Place, ty: Type, slot: Slot) -> Access {
    Access {
        at: Place { base: Base::Absolute, offset: 0, ..*at },
        ty,
        count: 1,
        data: [slot, Slot::Sink, Slot::Sink, Slot::Sink],
        strength: Strength::Weak,
        order: Order::default(),
        atomic: None,
        results: None,
        swap: Slot::Sink,
    }
}

fn elements(fragment: &Fragment) -> usize {
    (fragment.registers() * fragment.element.packed()) as usize * LANES
}

/// Transposes a matrix of 8 × 8 halves; each lane holds two adjacent halves of a row.
fn transposed(words: &Row) -> Row {
    let half = |row: usize, column: usize| words[4 * row + column / 2] >> (16 * (column % 2)) & 0xffff;
    std::array::from_fn(|lane| {
        let (row, column) = (lane / 4, 2 * (lane % 4));
        half(column, row) | half(column + 1, row) << 16
    })
}
