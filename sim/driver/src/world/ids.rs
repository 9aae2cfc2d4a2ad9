//! Tables keyed by handle.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table keyed by handles, which this process generates, so that no input can make them collide.
pub(crate) type ById<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Spreads consecutive numbers over all bits.
#[derive(Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        // An odd number near the golden ratio of 2^64; the table takes the upper bits as well.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}
