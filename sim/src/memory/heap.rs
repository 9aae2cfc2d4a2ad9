//! Global memory: allocations of 64-bit atomic cells.
//!
//! Every access goes through whole cells: a narrower store merges its bytes
//! with a compare-and-swap. Accesses of one size only are what Rust's memory
//! model needs for racing atomics, so a kernel's data race gives some value of
//! the race and is never undefined behaviour of the host; and a 64-bit access
//! of a kernel is never torn.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where allocations start: beyond every window and beyond 32 bits.
pub(crate) const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;
/// Every allocation starts at a multiple of this many bytes.
const ALIGNMENT: u64 = 256;
/// Bytes between allocations that belong to none, so that running off the end
/// of one is an error instead of a hit in the next.
const GAP: u64 = 4096;

/// A live range of global memory.
#[derive(Debug)]
pub(crate) struct Allocation {
    base: u64,
    bytes: u64,
    cells: Box<[AtomicU64]>,
}

impl Allocation {
    fn new(base: u64, bytes: u64) -> Self {
        let cells = (0..bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        Self { base, bytes, cells }
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether `[address, address + bytes)` lies inside.
    #[inline]
    pub(crate) fn contains(&self, address: u64, bytes: u64) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset < self.bytes && bytes <= self.bytes - offset
    }

    /// The aligned value of `width` (1, 2, 4 or 8) bytes at `offset`.
    #[inline]
    pub(crate) fn load(&self, offset: u64, width: u32, order: Ordering) -> u64 {
        let word = self.cells[(offset / 8) as usize].load(order);
        (word >> ((offset % 8) * 8)) & low_bytes(width)
    }

    /// Stores the low `width` (1, 2, 4 or 8) bytes of `value` at the aligned `offset`.
    #[inline]
    pub(crate) fn store(&self, offset: u64, width: u32, value: u64, order: Ordering) {
        let cell = &self.cells[(offset / 8) as usize];
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

    /// Replaces the aligned value at `offset` by `change` of it; returns the old one.
    #[inline]
    pub(crate) fn update(&self, offset: u64, width: u32, change: impl Fn(u64) -> u64) -> u64 {
        let cell = &self.cells[(offset / 8) as usize];
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

    /// The cells from the 8-byte aligned `offset` on.
    #[inline]
    pub(crate) fn cells_from(&self, offset: u64) -> &[AtomicU64] {
        &self.cells[(offset / 8) as usize..]
    }

    /// Copies bytes from `offset` on to the host.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) {
        let mut at = offset;
        for piece in pieces(offset, into.len()) {
            let cell = self.cells[(at / 8) as usize].load(Ordering::Relaxed).to_le_bytes();
            let start = (at % 8) as usize;
            into[piece.clone()].copy_from_slice(&cell[start..start + piece.len()]);
            at += piece.len() as u64;
        }
    }

    /// Copies bytes of the host to `offset` on.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) {
        let mut at = offset;
        for piece in pieces(offset, from.len()) {
            let mut bytes = [0; 8];
            bytes[..piece.len()].copy_from_slice(&from[piece.clone()]);
            self.merge(at, u64::from_le_bytes(bytes), piece.len());
            at += piece.len() as u64;
        }
    }

    /// Sets `length` bytes from `offset` on.
    pub(crate) fn fill(&self, offset: u64, byte: u8, length: usize) {
        let mut at = offset;
        for piece in pieces(offset, length) {
            self.merge(at, u64::from_le_bytes([byte; 8]), piece.len());
            at += piece.len() as u64;
        }
    }

    /// Stores the low `length` bytes of `value` at `offset`, within one cell.
    fn merge(&self, offset: u64, value: u64, length: usize) {
        let cell = &self.cells[(offset / 8) as usize];
        if length == 8 {
            return cell.store(value, Ordering::Relaxed);
        }
        let shift = (offset % 8) * 8;
        let mask = low_bytes(length as u32) << shift;
        let merged = |old| Some(old & !mask | (value << shift) & mask);
        let _previous = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merged);
    }
}

/// All ones in the low `width` bytes.
#[inline]
const fn low_bytes(width: u32) -> u64 {
    u64::MAX >> (64 - 8 * width)
}

/// Splits `length` bytes that start at device offset `offset` into ranges that
/// lie in one cell each.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let first = (8 - (offset % 8) as usize).min(length);
    let mut start = 0;
    std::iter::from_fn(move || {
        let end = if start == 0 { first } else { (start + 8).min(length) };
        let piece = start..end;
        start = end;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The allocations that a launch sees: those live when it started.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    /// Sorted by base address.
    allocations: Arc<Vec<Arc<Allocation>>>,
}

impl View {
    /// The allocation that holds `[address, address + bytes)`; `hint` is the
    /// index of the last one found.
    #[inline]
    pub(crate) fn find(&self, address: u64, bytes: u64, hint: &mut usize) -> Option<&Allocation> {
        if let Some(allocation) = self.allocations.get(*hint)
            && allocation.contains(address, bytes)
        {
            return Some(allocation);
        }
        self.search(address, bytes, hint)
    }

    #[cold]
    fn search(&self, address: u64, bytes: u64, hint: &mut usize) -> Option<&Allocation> {
        let after = self.allocations.partition_point(|allocation| allocation.base <= address);
        let index = after.checked_sub(1)?;
        let allocation = self.allocations.get(index)?;
        allocation.contains(address, bytes).then(|| {
            *hint = index;
            &**allocation
        })
    }

    /// Describes the allocation nearest to an address.
    pub(crate) fn nearest(&self, address: u64) -> String {
        let after = self.allocations.partition_point(|allocation| allocation.base <= address);
        let candidates = [after.checked_sub(1), Some(after)];
        let distance = |allocation: &Allocation| {
            let end = allocation.base + allocation.bytes;
            if address < allocation.base {
                allocation.base - address
            } else {
                address - end.min(address)
            }
        };
        let nearest = candidates
            .into_iter()
            .flatten()
            .filter_map(|index| self.allocations.get(index))
            .min_by_key(|allocation| distance(allocation));
        nearest.map_or_else(
            || "there is no live allocation".to_owned(),
            |allocation| {
                let (base, bytes) = (allocation.base, allocation.bytes);
                format!("the nearest allocation is {bytes} bytes at {base:#x}")
            },
        )
    }
}

/// The allocator of global memory.
///
/// Addresses are never given out twice, so a stale pointer never hits a later
/// allocation.
#[derive(Debug)]
pub(crate) struct Heap {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    view: View,
    next: u64,
    in_use: u64,
}

impl Heap {
    pub(crate) fn new() -> Self {
        let state = State { view: View::default(), next: FIRST_ADDRESS, in_use: 0 };
        Self { state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A zeroed allocation, or the bytes in use when it would pass `limit`.
    pub(crate) fn alloc(&self, bytes: u64, limit: u64) -> Result<Arc<Allocation>, u64> {
        let mut state = self.lock();
        if bytes > limit.saturating_sub(state.in_use) || bytes > 1 << 44 {
            return Err(state.in_use);
        }
        let base = state.next;
        state.next = (base + bytes + GAP).next_multiple_of(ALIGNMENT);
        state.in_use += bytes;
        let allocation = Arc::new(Allocation::new(base, bytes));
        let mut list = state.view.allocations.as_ref().clone();
        list.push(Arc::clone(&allocation));
        state.view.allocations = Arc::new(list);
        Ok(allocation)
    }

    /// Removes the allocation that starts at `address`; launches that still run
    /// keep its memory alive.
    pub(crate) fn free(&self, address: u64) -> bool {
        let mut state = self.lock();
        let index = state.view.allocations.binary_search_by_key(&address, |a| a.base);
        let Ok(index) = index else { return false };
        let mut list = state.view.allocations.as_ref().clone();
        state.in_use -= list.remove(index).bytes;
        state.view.allocations = Arc::new(list);
        true
    }

    pub(crate) fn view(&self) -> View {
        self.lock().view.clone()
    }

    pub(crate) fn in_use(&self) -> u64 {
        self.lock().in_use
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::{FIRST_ADDRESS, Heap};

    #[test]
    fn copies_cross_cells_at_any_offset() {
        let heap = Heap::new();
        let memory = heap.alloc(40, u64::MAX).expect("allocation");
        for offset in 0..10 {
            let data: Vec<u8> = (1..=23).collect();
            memory.fill(0, 0xee, 40);
            memory.write(offset, &data);
            let mut back = [0; 40];
            memory.read(0, &mut back);
            let (start, end) = (offset as usize, offset as usize + 23);
            assert_eq!(back[start..end], data);
            assert!(back[..start].iter().chain(&back[end..]).all(|&byte| byte == 0xee));
        }
    }

    #[test]
    fn narrow_accesses_leave_their_neighbours() {
        let heap = Heap::new();
        let memory = heap.alloc(8, u64::MAX).expect("allocation");
        memory.store(0, 8, 0x8877_6655_4433_2211, Relaxed);
        memory.store(2, 2, 0xbeef, Relaxed);
        memory.store(7, 1, 0xaa, Relaxed);
        assert_eq!(memory.load(0, 8, Relaxed), 0xaa77_6655_beef_2211);
        assert_eq!(memory.load(4, 4, Relaxed), 0xaa77_6655);
        assert_eq!(memory.update(4, 4, |old| old + 1), 0xaa77_6655);
        assert_eq!(memory.load(0, 8, Relaxed), 0xaa77_6656_beef_2211);
    }

    #[test]
    fn freed_memory_is_gone_and_its_address_is_not_reused() {
        let heap = Heap::new();
        let first = heap.alloc(16, 64).expect("allocation").base();
        assert_eq!(first, FIRST_ADDRESS);
        assert!(heap.view().find(first, 16, &mut 0).is_some());
        assert!(heap.view().find(first, 17, &mut 0).is_none());
        assert!(heap.free(first));
        assert!(!heap.free(first));
        assert!(heap.view().find(first, 1, &mut 0).is_none());
        assert!(heap.alloc(16, 64).expect("allocation").base() > first);
        assert_eq!(heap.alloc(49, 64).expect_err("over the limit"), 16);
    }

    #[test]
    fn lookups_find_the_right_allocation_without_a_good_hint() {
        let heap = Heap::new();
        let bases: Vec<u64> =
            (0..5).map(|_| heap.alloc(100, u64::MAX).expect("allocation").base()).collect();
        let view = heap.view();
        let mut hint = 0;
        for &base in bases.iter().rev() {
            assert_eq!(view.find(base + 96, 4, &mut hint).expect("inside").base(), base);
            assert!(view.find(base + 97, 4, &mut hint).is_none());
            assert!(view.find(base - 1, 1, &mut hint).is_none());
        }
    }
}
