//! One allocation of global memory, made of 64-bit atomic cells.
//!
//! Every access is to whole cells: a narrower store merges its bytes by compare-and-swap. Rust's memory
//! model requires racing atomics to have one size, so a kernel's data race yields one of the racing
//! values and is never undefined behaviour of the host. A kernel's 64-bit access is never torn.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// An owner of memory that is [lent](super::GlobalMemory::lend) to a device; dropped when no launch can
/// reach the memory.
pub type Keeper = Arc<dyn Any + Send + Sync>;

pub(crate) struct Allocation {
    base: u64,
    bytes: u64,
    cells: Cells,
    name: OnceLock<Arc<str>>,
    /// Declared last, because it must be dropped after the cells that it keeps alive.
    _keeper: Option<Keeper>,
}

/// Both variants are a slice, so that access to a cell needs no branch.
enum Cells {
    Own(Box<[AtomicU64]>),
    Lent(&'static [AtomicU64]),
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lent = matches!(self.cells, Cells::Lent(_));
        let mut allocation = f.debug_struct("Allocation");
        allocation.field("base", &self.base).field("bytes", &self.bytes).field("lent", &lent).finish()
    }
}

impl Allocation {
    /// Creates zeroed memory, whose pages the host provides on first touch; returns `None` if the host
    /// refuses.
    pub(super) fn zeroed(base: u64, bytes: u64) -> Option<Self> {
        let count = usize::try_from(bytes.div_ceil(8)).ok()?;
        let cells = bytemuck::allocation::try_zeroed_slice_box(count).ok()?;
        Some(Self { base, bytes, cells: Cells::Own(cells), name: OnceLock::new(), _keeper: None })
    }

    pub(super) fn lent(cells: &'static [AtomicU64], keeper: Keeper) -> Self {
        let (base, bytes) = (cells.as_ptr().addr() as u64, 8 * cells.len() as u64);
        Self { base, bytes, cells: Cells::Lent(cells), name: OnceLock::new(), _keeper: Some(keeper) }
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn name(&self) -> Option<Arc<str>> {
        self.name.get().cloned()
    }

    pub(crate) fn set_name(&self, name: &str) {
        self.name.get_or_init(|| name.into());
    }

    pub(crate) fn described(&self, name: Option<&str>) -> String {
        let (base, bytes) = (self.base, self.bytes);
        match name {
            Some(name) => format!("{name}, {bytes} bytes at {base:#x}"),
            None => format!("an allocation of {bytes} bytes at {base:#x}"),
        }
    }

    #[inline]
    fn cells(&self) -> &[AtomicU64] {
        match &self.cells {
            Cells::Own(cells) => cells,
            Cells::Lent(cells) => cells,
        }
    }

    #[inline]
    pub(crate) fn contains(&self, address: u64, bytes: u64) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset < self.bytes && bytes <= self.bytes - offset
    }

    /// Returns the aligned value of `width` (1, 2, 4 or 8) bytes at `offset`.
    #[inline]
    pub(crate) fn load(&self, offset: u64, width: u32, order: Ordering) -> u64 {
        let word = self.cells()[(offset / 8) as usize].load(order);
        (word >> ((offset % 8) * 8)) & low_bytes(width)
    }

    /// Stores the low `width` (1, 2, 4 or 8) bytes of `value` at the aligned `offset`.
    #[inline]
    pub(crate) fn store(&self, offset: u64, width: u32, value: u64, order: Ordering) {
        let cell = &self.cells()[(offset / 8) as usize];
        if width == 8 {
            return cell.store(value, order);
        }
        let shift = (offset % 8) * 8;
        let mask = low_bytes(width) << shift;
        let bits = (value << shift) & mask;
        let mut old = cell.load(Ordering::Relaxed);
        while let Err(now) =
            cell.compare_exchange_weak(old, old & !mask | bits, order, Ordering::Relaxed)
        {
            old = now;
        }
    }

    /// Replaces the aligned value at `offset` by the result of `change`; returns the old value.
    #[inline]
    pub(crate) fn update(&self, offset: u64, width: u32, change: impl Fn(u64) -> u64) -> u64 {
        let cell = &self.cells()[(offset / 8) as usize];
        let shift = (offset % 8) * 8;
        let low = low_bytes(width);
        let mut old = cell.load(Ordering::Relaxed);
        loop {
            let value = (old >> shift) & low;
            let new = old & !(low << shift) | ((change(value) & low) << shift);
            match cell.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return value,
                Err(now) => old = now,
            }
        }
    }

    #[inline]
    pub(crate) fn cells_from(&self, offset: u64) -> &[AtomicU64] {
        &self.cells()[(offset / 8) as usize..]
    }

    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        let [head, body, tail] = parts(offset, into.len());
        for piece in [head.clone(), tail] {
            self.read_part(offset + piece.start as u64, &mut into[piece]);
        }
        let whole = into[body].chunks_exact_mut(8);
        for (bytes, cell) in whole.zip(self.cells_from(offset + head.end as u64)) {
            bytes.copy_from_slice(&cell.load(Ordering::Relaxed).to_le_bytes());
        }
    }

    pub(crate) fn write(&self, offset: u64, from: &[u8]) {
        let [head, body, tail] = parts(offset, from.len());
        for piece in [head.clone(), tail] {
            let mut bytes = [0; 8];
            bytes[..piece.len()].copy_from_slice(&from[piece.clone()]);
            self.merge(offset + piece.start as u64, u64::from_le_bytes(bytes), piece.len());
        }
        let whole = from[body].chunks_exact(8);
        for (bytes, cell) in whole.zip(self.cells_from(offset + head.end as u64)) {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            cell.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }

    /// Sets `length` bytes from `offset` on, each to the byte of `pattern` at its position within an
    /// 8-byte cell.
    pub(crate) fn fill(&self, offset: u64, pattern: u64, length: usize) {
        let [head, body, tail] = parts(offset, length);
        for piece in [head.clone(), tail] {
            let at = offset + piece.start as u64;
            self.merge(at, pattern >> (at % 8 * 8), piece.len());
        }
        for cell in &self.cells_from(offset + head.end as u64)[..body.len() / 8] {
            cell.store(pattern, Ordering::Relaxed);
        }
    }

    fn read_part(&self, offset: u64, into: &mut [u8]) {
        if !into.is_empty() {
            let cell = self.cells()[(offset / 8) as usize].load(Ordering::Relaxed).to_le_bytes();
            let start = (offset % 8) as usize;
            into.copy_from_slice(&cell[start..start + into.len()]);
        }
    }

    /// Stores the low `length` bytes of `value` at `offset`, within one cell.
    fn merge(&self, offset: u64, value: u64, length: usize) {
        if length != 0 {
            let shift = (offset % 8) * 8;
            let mask = low_bytes(length as u32) << shift;
            let merged = |old| Some(old & !mask | (value << shift) & mask);
            let cell = &self.cells()[(offset / 8) as usize];
            let _previous = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merged);
        }
    }
}

#[inline]
const fn low_bytes(width: u32) -> u64 {
    u64::MAX >> (64 - 8 * width)
}

/// Splits `length` bytes from `offset` on into a partial first cell, whole cells, and a partial last
/// cell.
fn parts(offset: u64, length: usize) -> [Range<usize>; 3] {
    let head = ((8 - (offset % 8) as usize) % 8).min(length);
    let tail = length - (length - head) % 8;
    [0..head, head..tail, tail..length]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::Allocation;

    fn forty_bytes() -> Allocation {
        Allocation::zeroed(0x1000, 40).expect("40 bytes")
    }

    #[test]
    fn copies_cross_cells_at_any_offset() {
        let memory = forty_bytes();
        for (offset, length) in (0..10).flat_map(|offset| (0..24).map(move |length| (offset, length))) {
            let data: Vec<u8> = (1..=length).collect();
            memory.fill(0, 0xeeee_eeee_eeee_eeee, 40);
            memory.write(offset, &data);
            let mut back = [0; 40];
            memory.read(0, &mut back);
            let (start, end) = (offset as usize, offset as usize + data.len());
            assert_eq!(back[start..end], data);
            assert!(back[..start].iter().chain(&back[end..]).all(|&byte| byte == 0xee));
            let mut part = vec![0; data.len()];
            memory.read(offset, &mut part);
            assert_eq!(part, data);
        }
    }

    #[test]
    fn fill_pattern_is_aligned_to_cells() {
        let memory = forty_bytes();
        memory.fill(4, 0xaabb_ccdd_aabb_ccdd, 12);
        let mut back = [0; 20];
        memory.read(0, &mut back);
        let word = [0xdd, 0xcc, 0xbb, 0xaa];
        assert_eq!(back, [[0; 4], word, word, word, [0; 4]].concat()[..]);
    }

    #[test]
    fn narrow_accesses_leave_their_neighbours() {
        let memory = forty_bytes();
        memory.store(0, 8, 0x8877_6655_4433_2211, Relaxed);
        memory.store(2, 2, 0xbeef, Relaxed);
        memory.store(7, 1, 0xaa, Relaxed);
        assert_eq!(memory.load(0, 8, Relaxed), 0xaa77_6655_beef_2211);
        assert_eq!(memory.load(4, 4, Relaxed), 0xaa77_6655);
        assert_eq!(memory.update(4, 4, |old| old + 1), 0xaa77_6655);
        assert_eq!(memory.load(0, 8, Relaxed), 0xaa77_6656_beef_2211);
    }

    #[test]
    fn lent_cells_keep_their_address_and_their_keeper() {
        static CELLS: [AtomicU64; 2] = [const { AtomicU64::new(7) }; 2];
        let keeper = Arc::new(());
        let memory = Allocation::lent(&CELLS, keeper.clone());
        assert_eq!((memory.base(), memory.bytes()), (CELLS.as_ptr().addr() as u64, 16));
        memory.write(8, &[9]);
        assert_eq!(CELLS[1].load(Relaxed), 9);
        assert_eq!(Arc::strong_count(&keeper), 2);
        drop(memory);
        assert_eq!(Arc::strong_count(&keeper), 1);
    }
}
