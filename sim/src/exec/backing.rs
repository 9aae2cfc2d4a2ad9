//! One interface to the memories of the state spaces.

use std::sync::atomic::Ordering;

use crate::memory::{Allocation, View};
use crate::program::LANES;

use super::stack::Stack;

pub(super) trait Source {
    /// A checked location of one lane's access.
    type Place: Copy;

    /// Returns the location of an access, if in bounds; does not check the alignment.
    fn locate(&mut self, address: u64, bytes: u32, lane: usize) -> Option<Self::Place>;

    fn get(&self, place: Self::Place, offset: u32, width: u32) -> u64;

    /// Fills `words` from consecutive memory. Returns `false` if the range is out of bounds or the
    /// memory has no bulk access. `address` must be a multiple of 4.
    fn bulk_words(&mut self, address: u64, words: &mut [u32]) -> bool;

    /// Fills `doubles` like [`bulk_words`](Self::bulk_words); `address` must be a multiple of 8.
    fn bulk_doubles(&mut self, address: u64, doubles: &mut [u64]) -> bool;

    fn bounds(&self, address: u64, lane: usize) -> String;
}

pub(super) trait Sink: Source {
    fn put(&mut self, place: Self::Place, offset: u32, width: u32, value: u64);
    fn bulk_put_words(&mut self, address: u64, words: &[u32]) -> bool;
    fn bulk_put_doubles(&mut self, address: u64, doubles: &[u64]) -> bool;
    fn update(&mut self, place: Self::Place, width: u32, change: impl Fn(u64) -> u64) -> u64;
}

pub(super) struct Bytes<T>(pub(super) T);

/// Local memory of a warp, `bytes` per lane. A lane's memory ends at the top of its stack, if there are
/// stacks.
pub(super) struct Lanes<'m> {
    pub(super) memory: &'m mut [u8],
    pub(super) bytes: usize,
    pub(super) stacks: &'m [Stack],
}

impl Lanes<'_> {
    fn length(&self, lane: usize) -> u64 {
        self.stacks.get(lane).map_or(self.bytes as u64, |stack| stack.top.into())
    }
}

/// Global memory, with the index of the allocation found last, where the next search starts.
pub(super) struct Global<'v> {
    pub(super) view: &'v View,
    pub(super) hint: &'v mut usize,
}

fn read(memory: &[u8], at: usize, width: u32) -> u64 {
    let mut bytes = [0; 8];
    match width {
        4 => return u64::from(u32::from_le_bytes(array(memory, at))),
        8 => return u64::from_le_bytes(array(memory, at)),
        _ => bytes[..width as usize].copy_from_slice(&memory[at..at + width as usize]),
    }
    u64::from_le_bytes(bytes)
}

#[inline(always)]
fn array<const N: usize>(memory: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&memory[at..at + N]);
    bytes
}

fn span<const N: usize>(address: u64, count: usize) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(address).ok()?;
    Some(start..start.checked_add(count * N)?)
}

impl<T: AsRef<[u8]>> Source for Bytes<T> {
    type Place = usize;

    #[inline]
    fn locate(&mut self, address: u64, bytes: u32, _: usize) -> Option<usize> {
        let length = self.0.as_ref().len() as u64;
        (address < length && u64::from(bytes) <= length - address).then_some(address as usize)
    }

    #[inline]
    fn get(&self, place: usize, offset: u32, width: u32) -> u64 {
        read(self.0.as_ref(), place + offset as usize, width)
    }

    #[inline]
    fn bulk_words(&mut self, address: u64, words: &mut [u32]) -> bool {
        let Some(bytes) = span::<4>(address, words.len()).and_then(|s| self.0.as_ref().get(s)) else {
            return false;
        };
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes(array(bytes, 0));
        }
        true
    }

    #[inline]
    fn bulk_doubles(&mut self, address: u64, doubles: &mut [u64]) -> bool {
        let Some(bytes) = span::<8>(address, doubles.len()).and_then(|s| self.0.as_ref().get(s)) else {
            return false;
        };
        for (double, bytes) in doubles.iter_mut().zip(bytes.chunks_exact(8)) {
            *double = u64::from_le_bytes(array(bytes, 0));
        }
        true
    }

    fn bounds(&self, _: u64, _: usize) -> String {
        format!("the space has {} bytes", self.0.as_ref().len())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Sink for Bytes<T> {
    #[inline]
    fn put(&mut self, place: usize, offset: u32, width: u32, value: u64) {
        write(self.0.as_mut(), place + offset as usize, width, value);
    }

    #[inline]
    fn bulk_put_words(&mut self, address: u64, words: &[u32]) -> bool {
        let Some(bytes) = span::<4>(address, words.len()).and_then(|s| self.0.as_mut().get_mut(s))
        else {
            return false;
        };
        for (bytes, word) in bytes.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        true
    }

    #[inline]
    fn bulk_put_doubles(&mut self, address: u64, doubles: &[u64]) -> bool {
        let Some(bytes) = span::<8>(address, doubles.len()).and_then(|s| self.0.as_mut().get_mut(s))
        else {
            return false;
        };
        for (bytes, double) in bytes.chunks_exact_mut(8).zip(doubles) {
            bytes.copy_from_slice(&double.to_le_bytes());
        }
        true
    }

    #[inline]
    fn update(&mut self, place: usize, width: u32, change: impl Fn(u64) -> u64) -> u64 {
        let old = read(self.0.as_ref(), place, width);
        write(self.0.as_mut(), place, width, change(old));
        old
    }
}

fn write(memory: &mut [u8], at: usize, width: u32, value: u64) {
    match width {
        4 => memory[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes()),
        8 => memory[at..at + 8].copy_from_slice(&value.to_le_bytes()),
        _ => {
            let width = width as usize;
            memory[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        }
    }
}

impl Source for Lanes<'_> {
    type Place = usize;

    fn locate(&mut self, address: u64, bytes: u32, lane: usize) -> Option<usize> {
        let length = self.length(lane);
        (address < length && u64::from(bytes) <= length - address)
            .then(|| lane * self.bytes + address as usize)
    }

    fn get(&self, place: usize, offset: u32, width: u32) -> u64 {
        read(self.memory, place + offset as usize, width)
    }

    fn bulk_words(&mut self, _: u64, _: &mut [u32]) -> bool {
        false
    }

    fn bulk_doubles(&mut self, _: u64, _: &mut [u64]) -> bool {
        false
    }

    fn bounds(&self, _: u64, lane: usize) -> String {
        format!("the thread has {} bytes", self.length(lane))
    }
}

impl Sink for Lanes<'_> {
    fn put(&mut self, place: usize, offset: u32, width: u32, value: u64) {
        write(self.memory, place + offset as usize, width, value);
    }

    fn bulk_put_words(&mut self, _: u64, _: &[u32]) -> bool {
        false
    }

    fn bulk_put_doubles(&mut self, _: u64, _: &[u64]) -> bool {
        false
    }

    fn update(&mut self, place: usize, width: u32, change: impl Fn(u64) -> u64) -> u64 {
        let old = read(self.memory, place, width);
        write(self.memory, place, width, change(old));
        old
    }
}

impl<'v> Source for Global<'v> {
    type Place = (&'v Allocation, u64);

    #[inline]
    fn locate(&mut self, address: u64, bytes: u32, _: usize) -> Option<Self::Place> {
        let allocation = self.view.find(address, u64::from(bytes), self.hint)?;
        Some((allocation, address - allocation.base()))
    }

    #[inline]
    fn get(&self, (allocation, at): Self::Place, offset: u32, width: u32) -> u64 {
        allocation.load(at + u64::from(offset), width, Ordering::Relaxed)
    }

    #[inline]
    fn bulk_words(&mut self, address: u64, words: &mut [u32]) -> bool {
        let Some((allocation, offset)) = self.locate(address, words.len() as u32 * 4, 0) else {
            return false;
        };
        // Fast path for one word of each lane: reads whole 64-bit cells.
        if let (true, Ok(words), Some(cells)) = (
            offset.is_multiple_of(8),
            <&mut [u32; LANES]>::try_from(&mut *words),
            allocation.cells_from(offset).first_chunk::<{ LANES / 2 }>(),
        ) {
            for (index, cell) in cells.iter().enumerate() {
                let value = cell.load(Ordering::Relaxed);
                (words[2 * index], words[2 * index + 1]) = (value as u32, (value >> 32) as u32);
            }
            return true;
        }
        let (first, words) = words.split_at_mut(usize::from(!offset.is_multiple_of(8)));
        for word in &mut *first {
            *word = allocation.load(offset, 4, Ordering::Relaxed) as u32;
        }
        let mut cells = allocation.cells_from(offset.next_multiple_of(8)).iter();
        let mut pairs = words.chunks_exact_mut(2);
        for (pair, cell) in pairs.by_ref().zip(cells.by_ref()) {
            let value = cell.load(Ordering::Relaxed);
            (pair[0], pair[1]) = (value as u32, (value >> 32) as u32);
        }
        if let ([last], Some(cell)) = (pairs.into_remainder(), cells.next()) {
            *last = cell.load(Ordering::Relaxed) as u32;
        }
        true
    }

    #[inline]
    fn bulk_doubles(&mut self, address: u64, doubles: &mut [u64]) -> bool {
        let Some((allocation, offset)) = self.locate(address, doubles.len() as u32 * 8, 0) else {
            return false;
        };
        for (double, cell) in doubles.iter_mut().zip(allocation.cells_from(offset)) {
            *double = cell.load(Ordering::Relaxed);
        }
        true
    }

    fn bounds(&self, address: u64, _: usize) -> String {
        self.view.missed(address, 0, |_| None)
    }
}

impl Sink for Global<'_> {
    #[inline]
    fn put(&mut self, (allocation, at): Self::Place, offset: u32, width: u32, value: u64) {
        allocation.store(at + u64::from(offset), width, value, Ordering::Relaxed);
    }

    #[inline]
    fn bulk_put_words(&mut self, address: u64, words: &[u32]) -> bool {
        let Some((allocation, offset)) = self.locate(address, words.len() as u32 * 4, 0) else {
            return false;
        };
        let (first, words) = words.split_at(usize::from(!offset.is_multiple_of(8)));
        for &word in first {
            allocation.store(offset, 4, word.into(), Ordering::Relaxed);
        }
        let offset = offset.next_multiple_of(8);
        let pairs = words.chunks_exact(2);
        if let &[last] = pairs.remainder() {
            let behind = 4 * (words.len() as u64 - 1);
            allocation.store(offset + behind, 4, last.into(), Ordering::Relaxed);
        }
        for (pair, cell) in pairs.zip(allocation.cells_from(offset)) {
            cell.store(u64::from(pair[0]) | u64::from(pair[1]) << 32, Ordering::Relaxed);
        }
        true
    }

    #[inline]
    fn bulk_put_doubles(&mut self, address: u64, doubles: &[u64]) -> bool {
        let Some((allocation, offset)) = self.locate(address, doubles.len() as u32 * 8, 0) else {
            return false;
        };
        for (double, cell) in doubles.iter().zip(allocation.cells_from(offset)) {
            cell.store(*double, Ordering::Relaxed);
        }
        true
    }

    #[inline]
    fn update(&mut self, (allocation, at): Self::Place, width: u32, change: impl Fn(u64) -> u64) -> u64 {
        allocation.update(at, width, change)
    }
}
