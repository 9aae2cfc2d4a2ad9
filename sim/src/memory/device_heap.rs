//! Heap of the device-side `malloc`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Allocation;

/// Alignment of every block, and granularity of its size.
const ALIGNMENT: u64 = 16;

#[derive(Debug)]
pub(crate) struct DeviceHeap {
    memory: Arc<Allocation>,
    blocks: Mutex<Blocks>,
}

/// Sizes of the blocks by their offsets.
#[derive(Debug, Default)]
struct Blocks {
    free: BTreeMap<u64, u64>,
    live: BTreeMap<u64, u64>,
    /// Start of the search for a free block; advances so that freed memory is not reused at once.
    next: u64,
}

impl DeviceHeap {
    pub(crate) fn new(memory: Arc<Allocation>) -> Self {
        let bytes = memory.bytes() / ALIGNMENT * ALIGNMENT;
        let free = if bytes == 0 { BTreeMap::new() } else { BTreeMap::from([(0, bytes)]) };
        Self { memory, blocks: Mutex::new(Blocks { free, ..Blocks::default() }) }
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates at least one byte; returns the address, or 0 if there is no room.
    pub(crate) fn allocate(&self, bytes: u64) -> u64 {
        let Some(bytes) = bytes.max(1).checked_next_multiple_of(ALIGNMENT) else { return 0 };
        let mut blocks = self.blocks();
        let Blocks { free, live, next } = &mut *blocks;
        let behind = |(&start, &size): (&u64, &u64), place: u64| {
            let first = start.max(place);
            ((start + size).saturating_sub(first) >= bytes).then_some((start, size, first))
        };
        let found = free.iter().find_map(|block| behind(block, *next));
        let found = found.or_else(|| free.iter().find_map(|block| behind(block, 0)));
        let Some((block, size, start)) = found else { return 0 };
        free.remove(&block);
        if start > block {
            free.insert(block, start - block);
        }
        if block + size > start + bytes {
            free.insert(start + bytes, block + size - (start + bytes));
        }
        live.insert(start, bytes);
        *next = start + bytes;
        self.memory.base() + start
    }

    pub(crate) fn free(&self, address: u64) -> bool {
        let mut blocks = self.blocks();
        let Blocks { free, live, .. } = &mut *blocks;
        let Some(start) = address.checked_sub(self.memory.base()) else { return false };
        let Some(mut bytes) = live.remove(&start) else { return false };
        let mut first = start;
        if let Some(behind) = free.remove(&(start + bytes)) {
            bytes += behind;
        }
        if let Some((&before, &size)) = free.range(..start).next_back()
            && before + size == start
        {
            (first, bytes) = (before, bytes + size);
        }
        free.insert(first, bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heap(bytes: u64) -> DeviceHeap {
        DeviceHeap::new(Arc::new(Allocation::zeroed(4096, bytes).expect("memory")))
    }

    #[test]
    fn blocks_are_disjoint_and_merge_when_freed() {
        let heap = heap(256);
        let blocks: Vec<u64> = (0..16).map(|_| heap.allocate(10)).collect();
        let expected: Vec<u64> = (0..16).map(|index| 4096 + 16 * index).collect();
        assert_eq!(blocks, expected);
        assert_eq!(heap.allocate(1), 0);
        for &block in blocks.iter().step_by(2).chain(blocks.iter().skip(1).step_by(2)) {
            assert!(heap.free(block));
            assert!(!heap.free(block));
        }
        assert_eq!(heap.allocate(256), 4096);
        assert!(!heap.free(4096 + 16) && !heap.free(0));
    }

    #[test]
    fn freed_blocks_are_reused_last() {
        let heap = heap(64);
        let first = heap.allocate(16);
        assert!(heap.free(first));
        assert_eq!(heap.allocate(16), first + 16);
        assert_eq!((heap.allocate(0), heap.allocate(16), heap.allocate(16)), (4128, 4144, first));
        assert_eq!(
            (heap.allocate(u64::MAX), heap.allocate(u64::MAX - 31), heap.allocate(17)),
            (0, 0, 0)
        );
    }
}
