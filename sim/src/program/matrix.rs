//! Matrix products, and the layout of their elements in the registers of a warp.

use super::{GroupProduct, LANES, Place};
use crate::lanes::soft::Round;
use crate::observe::Class;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    F16,
    Bf16,
    /// Single precision without the lower 13 bits.
    Tf32,
    E4m3,
    E5m2,
    F32,
    F64,
    S8,
    U8,
    S4,
    U4,
    B1,
    S32,
}

impl Element {
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::F16 | Self::Bf16 => 16,
            Self::Tf32 | Self::F32 | Self::S32 => 32,
            Self::F64 => 64,
            Self::E4m3 | Self::E5m2 | Self::S8 | Self::U8 => 8,
            Self::S4 | Self::U4 => 4,
            Self::B1 => 1,
        }
    }

    /// Returns the number of elements in a register.
    pub(crate) const fn packed(self) -> u32 {
        if self.bits() == 64 { 1 } else { 32 / self.bits() }
    }

    pub(crate) const fn is_integer(self) -> bool {
        matches!(self, Self::S8 | Self::U8 | Self::S4 | Self::U4 | Self::S32)
    }
}

/// Dimensions of a product of `m` × `k` and `k` × `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
}

/// The role of a matrix in D = A · B + C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    A,
    B,
    /// C or D.
    Sum,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// Four adjacent lanes share a row of A, a column of B, or a row of the sum (in pairs of elements).
    /// A larger matrix is split into blocks of 16 rows or 8 columns, in successive registers. Registers
    /// in excess repeat the elements.
    Groups,
    /// `mma.m8n8k4` of halves: four products. Lanes `4 q` to `4 q + 3` and `16 + 4 q` to `19 + 4 q`
    /// compute product `q`. `along` is set if each lane has a row, and not a column, of A or B.
    Quads { along: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) role: Role,
    pub(crate) element: Element,
    pub(crate) shape: Shape,
    pub(crate) spread: Spread,
}

/// Coordinates of an element, and the index of its product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) product: u32,
    pub(crate) row: u32,
    pub(crate) column: u32,
}

impl Fragment {
    pub(crate) const fn rows(&self) -> u32 {
        if matches!(self.role, Role::B) { self.shape.k } else { self.shape.m }
    }

    pub(crate) const fn columns(&self) -> u32 {
        if matches!(self.role, Role::A) { self.shape.k } else { self.shape.n }
    }

    /// Returns the number of registers that hold every element once.
    pub(crate) const fn registers(&self) -> u32 {
        let products = if matches!(self.spread, Spread::Quads { .. }) { 4 } else { 1 };
        products * self.rows() * self.columns() / (LANES as u32 * self.element.packed())
    }

    /// Returns whether the elements of a register are adjacent in a row, and not in a column.
    pub(crate) const fn packs_rows(&self) -> bool {
        !matches!(self.role, Role::B)
    }

    pub(crate) fn spot(&self, lane: u32, register: u32, index: u32) -> Spot {
        match self.spread {
            Spread::Groups => self.in_groups(lane, register % self.registers(), index),
            Spread::Quads { along } => self.in_quads(lane, register, index, along),
        }
    }

    fn in_groups(&self, lane: u32, register: u32, index: u32) -> Spot {
        let (group, within, packed) = (lane / 4, lane % 4, self.element.packed());
        let tall = if self.shape.m < 16 { 8 } else { 16 };
        // Registers of a block of 8 or 16 rows, and of 8 columns.
        let per_block = match self.role {
            Role::A => tall * self.shape.k / (32 * packed),
            Role::B => 8 * self.shape.k / (32 * packed),
            Role::Sum => tall * 8 / (32 * packed),
        };
        let (block, register) = (register / per_block, register % per_block);
        let along = |step: u32| within * packed + index + 4 * packed * step;
        let (row, column) = match self.role {
            Role::A if tall == 16 => (group + 8 * (register & 1) + 16 * block, along(register >> 1)),
            Role::A => (group + 8 * block, along(register)),
            Role::B => (along(register), group + 8 * block),
            Role::Sum => {
                let element = register * packed + index;
                let (row, column) = (group + 8 * (element >> 1), 2 * within + (element & 1));
                let blocks_down = self.shape.m / tall;
                (row + tall * (block % blocks_down), column + 8 * (block / blocks_down))
            }
        };
        Spot { product: 0, row, column }
    }

    fn in_quads(&self, lane: u32, register: u32, index: u32, along: bool) -> Spot {
        let (product, high) = (lane / 4 % 4, 4 * (lane / 16));
        let (within, element) = (lane % 4, register * self.element.packed() + index);
        let (row, column) = match (self.role, along) {
            (Role::A, true) => (within + high, element),
            (Role::A, false) => (element + high, within),
            (Role::B, true) => (within, element + high),
            (Role::B, false) => (element, within + high),
            (Role::Sum, _) if self.element == Element::F32 => {
                ((lane & 1) + (element & 2) + high, (element & 4) + (lane & 2) + (element & 1))
            }
            (Role::Sum, _) => (within + high, element),
        };
        Spot { product, row, column }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) fragment: Fragment,
    pub(crate) rows: Vec<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summing {
    pub(crate) saturates: bool,
    /// Set for `.and.popc`, and not for `.xor.popc`.
    pub(crate) both: bool,
    pub(crate) round: Round,
}

/// Which elements of a sparse matrix A are stored. A row is divided into chunks; the fragment holds half
/// of each chunk, and the other elements are zero. The metadata has two indices of two bits for each
/// chunk: the numbers of two of its quarters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sparsity {
    /// The register with the metadata.
    pub(crate) metadata: u16,
    /// The first lane with metadata in each group of four lanes.
    pub(crate) first: u32,
    /// Set if the indices of a chunk must ascend.
    pub(crate) ordered: bool,
}

impl Sparsity {
    /// Returns the number of elements of a chunk that the fragment holds.
    pub(crate) const fn kept(element: Element) -> u32 {
        match element.bits() {
            32 => 1,
            4 => 4,
            _ => 2,
        }
    }

    /// Returns the number of lanes with metadata in each group of four lanes.
    pub(crate) const fn lanes(a: &Fragment) -> u32 {
        let chunks = a.columns() / Self::kept(a.element);
        a.rows() * chunks * 4 / (8 * 32)
    }

    /// Returns the lane and the lowest bit of a chunk's metadata. A lane has the metadata of four chunks
    /// of two rows, or, for elements of less than 16 bits, of eight chunks of one row.
    pub(crate) const fn place(&self, element: Element, row: u32, chunk: u32) -> (u32, u32) {
        let (group, low) = (row % 8, row / 8);
        let (lane, nibble) = match element.bits() {
            16.. => (chunk / 4, 4 * low + chunk % 4),
            _ => (chunk / 8 * 2 + low, chunk % 8),
        };
        (4 * group + self.first + lane, 4 * nibble)
    }

    /// Returns whether the metadata of a chunk is valid.
    pub(crate) const fn allows(&self, element: Element, indices: u32) -> bool {
        let (first, second) = (indices & 3, indices >> 2);
        match element.bits() {
            // An element is two quarters of its chunk.
            32 => matches!(indices, 0b0100 | 0b1110),
            _ if self.ordered => first < second,
            _ => first != second,
        }
    }

    /// Returns the column, within its chunk, of the chunk's stored element `index`.
    pub(crate) fn position(element: Element, indices: u32, index: u32) -> u32 {
        let kept = Self::kept(element);
        let at = indices >> (index * 2 / kept * 2) & 3;
        if kept == 1 { at / 2 } else { at * (kept / 2) + index % (kept / 2) }
    }
}

/// D = A · B + C
#[derive(Debug, Clone)]
pub(crate) struct Product {
    pub(crate) a: Held,
    /// Set if A is sparse.
    pub(crate) sparsity: Option<Sparsity>,
    pub(crate) b: Held,
    pub(crate) c: Held,
    pub(crate) d: Held,
    pub(crate) summing: Summing,
}

/// A move of a matrix between registers and memory, element by element.
#[derive(Debug, Clone)]
pub(crate) struct MatrixMove {
    pub(crate) held: Held,
    pub(crate) at: Place,
    pub(crate) load: bool,
    pub(crate) row_major: bool,
    /// The register that holds the stride in elements, if the matrix is not contiguous.
    pub(crate) stride: Option<u16>,
    /// A temporary register, for parts of registers.
    pub(crate) scratch: u16,
}

/// `ldmatrix` and `stmatrix`: matrices of 8 × 8 elements of 16 bits, whose rows are at the addresses in
/// the lanes.
#[derive(Debug, Clone)]
pub(crate) struct RowsMove {
    pub(crate) registers: Vec<u16>,
    pub(crate) at: Place,
    pub(crate) load: bool,
    pub(crate) transposed: bool,
    pub(crate) scratch: u16,
}

/// An operation that the lanes of a warp execute together. [`Op::Matrix`](super::Op::Matrix) has its
/// index in `Program::matrices`.
#[derive(Debug, Clone)]
pub(crate) enum MatrixOp {
    Product(Box<Product>),
    Move(MatrixMove),
    Rows(RowsMove),
    /// `movmatrix`, from the second register to the first.
    Transpose(u16, u16),
    /// `wgmma.mma_async`
    GroupProduct(Box<GroupProduct>),
    /// `wgmma.fence`, `.commit_group` and `.wait_group`, which order nothing here: a product is complete
    /// when its instruction is.
    GroupOrder,
}

impl MatrixOp {
    pub(crate) const fn class(&self) -> Class {
        match self {
            Self::Product(_) | Self::GroupProduct(_) | Self::GroupOrder => Class::Matrix,
            Self::Move(_) | Self::Rows(_) => Class::Memory,
            Self::Transpose(..) => Class::Warp,
        }
    }
}
