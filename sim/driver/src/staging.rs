//! Staging buffers, which hold the source of a copy from pageable memory.

use std::collections::TryReserveError;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum bytes of buffers kept for later copies.
const KEPT: usize = 64 << 20;

/// Unused buffers. Their pages are mapped already, which is the largest cost of a new buffer.
static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

fn spare() -> MutexGuard<'static, Vec<Vec<u8>>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
pub(crate) struct Staged(Vec<u8>);

impl Staged {
    pub(crate) fn copy(from: &[u8]) -> Result<Self, TryReserveError> {
        let fits = |buffer: &Vec<u8>| buffer.capacity() >= from.len();
        let mut spare = spare();
        let found = spare.iter().position(fits).map(|index| spare.swap_remove(index));
        drop(spare);
        let mut bytes = found.unwrap_or_default();
        bytes.try_reserve_exact(from.len())?;
        bytes.extend_from_slice(from);
        Ok(Self(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let mut bytes = mem::take(&mut self.0);
        bytes.clear();
        let mut spare = spare();
        let kept: usize = spare.iter().map(Vec::capacity).sum();
        if bytes.capacity() != 0 && kept + bytes.capacity() <= KEPT {
            spare.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Staged;

    #[test]
    fn a_buffer_that_is_used_again_holds_the_new_bytes_only() {
        let staged = |bytes: &[u8]| Staged::copy(bytes).expect("some bytes");
        drop(staged(&[1; 100]));
        assert_eq!(staged(&[2; 30]).bytes(), [2; 30]);
        assert_eq!(staged(&[]).bytes(), [] as [u8; 0]);
    }
}
