//! Matrix products of warpgroups (`wgmma`), and the layout of their operands in shared memory.

use super::{Element, Fragment, Held, Role, Summing};

/// Warps of a warpgroup. The first one's index in the block is a multiple of this.
pub(crate) const WARPGROUP: u32 = 4;

/// Bytes of the pieces of a line that a swizzle exchanges.
pub(crate) const CHUNK: u64 = 16;

/// The part of D = A · B + D that one warp of a warpgroup computes: 16 of the 64 rows.
#[derive(Debug, Clone)]
pub(crate) struct GroupProduct {
    pub(crate) a: Multiplicand,
    pub(crate) b: Described,
    pub(crate) d: Held,
    /// The predicate's row, and whether it is negated. If it does not hold, D = A · B.
    pub(crate) adds: (u16, bool),
    /// Set if the product is subtracted: exactly one of A and B has the scale -1.
    pub(crate) subtracts: bool,
    pub(crate) summing: Summing,
}

#[derive(Debug, Clone)]
pub(crate) enum Multiplicand {
    Held(Held),
    Described(Described),
}

/// A matrix in shared memory, named by a matrix descriptor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Described {
    pub(crate) fragment: Fragment,
    /// The 64-bit register that holds the descriptor.
    pub(crate) descriptor: u16,
    /// Set if adjacent elements have the same k: M-major A, or N-major B.
    pub(crate) transposed: bool,
}

/// The addresses of a matrix's chunks of 16 bytes, which hold elements that are adjacent along k or, if
/// the matrix is transposed, along m or n.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    start: u64,
    /// Distances of groups of eight lines, and of chunks that are not in the same line.
    lines: u64,
    chunks: u64,
    /// Bytes of a line: the span of the swizzle, or one chunk.
    pitch: u64,
    /// The index, modulo 8, of the 128 bytes at which the swizzle's pattern starts.
    base: u64,
}

impl Layout {
    /// Decodes a matrix descriptor: start address, leading and stride dimension byte offset in units of
    /// 16 bytes, base offset, and swizzle mode.
    pub(crate) fn of(descriptor: u64, transposed: bool) -> Self {
        let bytes = |from: u32| (descriptor >> from & 0x3fff) * CHUNK;
        let [start, leading, stride] = [bytes(0), bytes(16), bytes(32)];
        let pitch = match descriptor >> 62 {
            0 => CHUNK,
            1 => 128,
            2 => 64,
            _ => 32,
        };
        // Without a swizzle, a transposed matrix has the two offsets exchanged.
        let (lines, chunks) =
            if transposed && pitch == CHUNK { (leading, stride) } else { (stride, leading) };
        Self { start, lines, chunks, pitch, base: descriptor >> 49 & 7 }
    }

    /// Returns the address of a chunk. Lines are the rows of A or columns of B, and the rows of the
    /// transposed matrix, whose index is k.
    pub(crate) const fn address(&self, line: u64, chunk: u64) -> u64 {
        let per_line = self.pitch / CHUNK;
        let within = line % 8 * self.pitch + chunk % per_line * CHUNK;
        let address = self.start + line / 8 * self.lines + chunk / per_line * self.chunks + within;
        // The pattern repeats after eight lines: chunk c of the 128 bytes with index i is at c ^ i.
        let phase = (address >> 7).wrapping_sub(self.base) & (per_line - 1);
        address ^ (phase * CHUNK)
    }
}

impl Described {
    const fn per_chunk(&self) -> u32 {
        8 * CHUNK as u32 / self.fragment.element.bits()
    }

    /// Returns the number of chunks of this warp's part of the matrix.
    pub(crate) const fn chunks(&self) -> u32 {
        self.fragment.rows() * self.fragment.columns() / self.per_chunk()
    }

    /// Calls `visit` with line and chunk of each chunk, and with the index in the row-major matrix of
    /// its first element and the distance of its elements. `first` is the first row or column of this
    /// warp's part.
    pub(crate) fn each(&self, first: u32, mut visit: impl FnMut(u64, u64, usize, usize)) {
        let (fragment, per_chunk) = (&self.fragment, self.per_chunk());
        let (columns, is_a) = (fragment.columns(), fragment.role == Role::A);
        let (outer, k) =
            if is_a { (fragment.shape.m, fragment.shape.k) } else { (columns, fragment.rows()) };
        let index = |outer: u32, k: u32| if is_a { outer * columns + k } else { k * columns + outer };
        let (lines, length) = if self.transposed { (k, outer) } else { (outer, k) };
        let apart = if self.transposed == is_a { columns } else { 1 };
        for line in 0..lines {
            for chunk in 0..length / per_chunk {
                let along = chunk * per_chunk;
                let (at, line, chunk) = match self.transposed {
                    true => (index(along, line), line, chunk + first / per_chunk),
                    false => (index(line, along), line + first, chunk),
                };
                visit(line.into(), chunk.into(), at as usize, apart as usize);
            }
        }
    }
}

/// The shape of `wgmma` for some element types: k, and the allowed n.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupShape {
    pub(crate) k: u32,
    pub(crate) elements: &'static [Element],
    /// Set if n may be any multiple of 8, and not only 8, 24 and the multiples of 16.
    pub(crate) by_eight: bool,
}

impl GroupShape {
    pub(crate) const fn allows(&self, n: u32) -> bool {
        let steps = if self.by_eight || n == 8 || n == 24 { 8 } else { 16 };
        n >= 8 && n <= 256 && n.is_multiple_of(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;

    fn descriptor(start: u64, leading: u64, stride: u64, base: u64, mode: u64) -> u64 {
        start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | base << 49 | mode << 62
    }

    #[test]
    fn chunks_without_swizzle_are_in_core_matrices() {
        let layout = Layout::of(descriptor(0x400, 256, 128, 0, 0), false);
        assert_eq!(
            [layout.address(0, 0), layout.address(7, 0), layout.address(8, 0)],
            [0x400, 0x470, 0x480]
        );
        assert_eq!(layout.address(9, 1), 0x400 + 128 + 16 + 256);
        let across = Layout::of(descriptor(0x400, 256, 128, 0, 0), true);
        assert_eq!(
            [across.address(1, 0), across.address(8, 0), across.address(0, 1)],
            [0x410, 0x500, 0x480]
        );
    }

    #[test]
    fn swizzled_chunks_are_exchanged_by_the_address() {
        let wide = Layout::of(descriptor(0x400, 16, 1024, 0, 1), false);
        assert_eq!([wide.address(0, 1), wide.address(1, 0), wide.address(3, 1)], [0x410, 0x490, 0x5a0]);
        assert_eq!(wide.address(8, 0), 0x800);
        // The second half of the lines: the start address is moved, and not the pattern.
        let second = Layout::of(descriptor(0x440, 16, 1024, 0, 1), false);
        assert_eq!([second.address(0, 0), second.address(5, 1)], [0x440, 0x400 + 5 * 128]);
        let middle = Layout::of(descriptor(0x400, 16, 512, 0, 2), false);
        assert_eq!(
            [middle.address(1, 0), middle.address(2, 0), middle.address(7, 1)],
            [0x440, 0x490, 0x5e0]
        );
        let narrow = Layout::of(descriptor(0x400, 16, 256, 0, 3), false);
        assert_eq!(
            [narrow.address(3, 1), narrow.address(4, 0), narrow.address(4, 1)],
            [0x470, 0x490, 0x480]
        );
    }

    #[test]
    fn base_offset_moves_the_pattern() {
        let moved = Layout::of(descriptor(0x480, 16, 1024, 1, 1), false);
        let plain = Layout::of(descriptor(0x400, 16, 1024, 0, 1), false);
        for line in 0..16 {
            assert_eq!(moved.address(line, 1), plain.address(line, 1) + 0x80);
        }
    }
}
