//! The bytes of a box, in shared memory and in the tensor.

use super::{CHUNK, MAX_RANK, Swizzle, TensorElement, TensorMap};

/// Contiguous bytes of a tensor's box, as they are stored in shared and in global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TilePiece {
    /// Number of bytes.
    pub bytes: u32,
    /// Address in shared memory.
    pub shared: u64,
    /// Address in global memory; `None` for bytes outside of the tensor.
    pub global: Option<u64>,
}

/// A box at given coordinates of a tensor.
#[derive(Debug)]
pub(crate) struct Tile {
    /// Pieces of the box in the order of its elements, first dimension fastest.
    pub(crate) pieces: Vec<TilePiece>,
    element: TensorElement,
    /// Value of the bytes outside of the tensor, repeated.
    fill: [u8; 2],
}

impl Tile {
    /// Creates the box of a map at `coordinates`, which is stored at `shared` in shared memory. Rows of
    /// the tensor end at the next multiple of `unit` bytes.
    pub(crate) fn new(map: &TensorMap, coordinates: [i32; MAX_RANK], shared: u64, unit: u64) -> Self {
        let mut tile = Self { pieces: Vec::new(), element: map.element, fill: map.fill() };
        let (counts, width) = (map.counts(), u64::from(map.element.bytes()));
        let row_bytes = counts[0] * width;
        // Rows that are shorter than the swizzle begin at multiples of its span.
        let pitch = match map.swizzle {
            Swizzle::None => row_bytes,
            swizzle => swizzle.span().into(),
        };
        let origin = i64::from(coordinates[0]) * width as i64;
        let clamp = |byte: u64| (byte as i64 - origin).clamp(0, row_bytes as i64) as u64;
        // Bytes of each row that are in the tensor.
        let (start, end) = (clamp(0), clamp((map.extent[0] * width).next_multiple_of(unit)));
        for row in 0..counts[1..].iter().product() {
            let first = shared + row * pitch;
            let global = map.row_address(coordinates, row).filter(|_| start < end);
            let Some(global) = global else {
                tile.push(map.swizzle, first, row_bytes, None);
                continue;
            };
            tile.push(map.swizzle, first, start, None);
            tile.push(map.swizzle, first + start, end - start, Some(global.wrapping_add(start)));
            tile.push(map.swizzle, first + end, row_bytes - end, None);
        }
        tile
    }

    /// Adds bytes that would be at `shared` without a swizzle.
    fn push(&mut self, swizzle: Swizzle, shared: u64, bytes: u64, global: Option<u64>) {
        let mut at = 0;
        while at < bytes {
            let place = shared + at;
            let until = match swizzle {
                Swizzle::None => bytes,
                _ => bytes.min(at + CHUNK - place % CHUNK),
            };
            let (bytes, global) = ((until - at) as u32, global.map(|global| global + at));
            self.pieces.push(TilePiece { bytes, shared: swizzle.address(place), global });
            at = until;
        }
    }

    /// Returns `bytes` bytes as they are read outside of the tensor.
    pub(crate) fn filled(&self, bytes: u32) -> Vec<u8> {
        self.fill.iter().copied().cycle().take(bytes as usize).collect()
    }

    /// Converts bytes that were read from the tensor.
    pub(crate) fn convert(&self, data: &mut [u8]) {
        if matches!(self.element, TensorElement::Tf32 | TensorElement::Tf32Ftz) {
            for bytes in data.as_chunks_mut().0 {
                *bytes = rounded_to_tf32(u32::from_le_bytes(*bytes)).to_le_bytes();
            }
        }
    }

    /// Returns whether single-precision sums flush subnormals. Unlike other sums in global memory, those
    /// of `F32` and `Tf32` do not on an H200.
    pub(crate) fn flushes_sums(&self) -> bool {
        matches!(self.element, TensorElement::F32Ftz | TensorElement::Tf32Ftz)
    }

    /// Returns each piece with its bytes in the data of the box.
    pub(crate) fn parts<'d>(&'d self, data: &'d [u8]) -> impl Iterator<Item = (TilePiece, &'d [u8])> {
        let mut rest = data;
        self.pieces.iter().map(move |&piece| {
            let (part, after) = rest.split_at(piece.bytes as usize);
            rest = after;
            (piece, part)
        })
    }
}

/// Rounds a float to 11 significant bits, ties to even. An H200 replaces NaNs by this one, without sign.
fn rounded_to_tf32(bits: u32) -> u32 {
    const DROPPED: u32 = 0x1fff;
    if f32::from_bits(bits).is_nan() {
        return 0x7fff_e000;
    }
    let is_odd = bits >> DROPPED.count_ones() & 1;
    (bits + DROPPED / 2 + is_odd) & !DROPPED
}

impl Swizzle {
    /// Returns the address at which a byte is stored: chunk c of the i-th 128 bytes is at c ^ i, within
    /// the span.
    fn address(self, address: u64) -> u64 {
        address ^ (address >> 3 & (self.span() as u64 - CHUNK))
    }
}

impl TensorMap {
    /// Returns the number of bytes that a copy of the box moves.
    pub(crate) fn tile_bytes(&self) -> u64 {
        self.counts().iter().product::<u64>() * u64::from(self.element.bytes())
    }

    /// Returns the address of a row of the box, at its first coordinate; `None` if the row is outside of
    /// the tensor.
    fn row_address(&self, coordinates: [i32; MAX_RANK], row: u64) -> Option<u64> {
        let (counts, mut rest) = (self.counts(), row);
        let inner = i64::from(coordinates[0]) * i64::from(self.element.bytes());
        let mut address = self.address.wrapping_add_signed(inner);
        for axis in 1..self.rank as usize {
            let step = rest % counts[axis] * u64::from(self.element_strides[axis]);
            rest /= counts[axis];
            let index = u64::try_from(i64::from(coordinates[axis]) + step as i64).ok()?;
            if index >= self.extent[axis] {
                return None;
            }
            address = address.wrapping_add(index.wrapping_mul(self.strides[axis - 1]));
        }
        Some(address)
    }
}
