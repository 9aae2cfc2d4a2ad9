//! Address ranges and byte budgets of devices.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The first address of the first device. Host addresses, windows of state spaces and 32-bit numbers are
/// all below it. The host cannot map memory at such an address, so dereferencing a device pointer on the
/// host traps.
pub(crate) const FIRST_ADDRESS: u64 = 1 << 48;
const DEVICE_ADDRESSES: u64 = 1 << 44;
/// The size from which on allocations begin at multiples of [`PAGE`], as on a GPU.
const LARGE: u64 = 1 << 20;
const PAGE: u64 = 2 << 20;
/// The alignment of smaller allocations.
const ALIGNMENT: u64 = 512;
/// Unused bytes between allocations, so that an access past the end of one is an error and does not hit
/// the next.
const GAP: u64 = 4096;

/// A limit on allocated bytes, and the bytes in use.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: AtomicU64,
    whole: Option<Arc<Budget>>,
}

impl Budget {
    /// Creates an independent budget.
    #[must_use]
    pub const fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0), whole: None }
    }

    /// Creates a budget within another one: bytes are taken from both.
    #[must_use]
    pub const fn within(limit: u64, whole: Arc<Self>) -> Self {
        Self { limit, used: AtomicU64::new(0), whole: Some(whole) }
    }

    /// Returns the limit in bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the bytes in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the bytes that may still be taken.
    #[must_use]
    pub fn free(&self) -> u64 {
        let own = self.limit.saturating_sub(self.used());
        self.whole.as_ref().map_or(own, |whole| own.min(whole.free()))
    }

    pub(super) fn take(&self, bytes: u64) -> Result<(), &Self> {
        let sum = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).map_err(|_| self)?;
        let Some(whole) = &self.whole else { return Ok(()) };
        whole.take(bytes).inspect_err(|_| self.subtract(bytes))
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.subtract(bytes);
        if let Some(whole) = &self.whole {
            whole.give_back(bytes);
        }
    }

    fn subtract(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Addresses and byte budget of a device, shared by its memories.
///
/// Addresses are never reused, so a stale pointer never hits a later allocation.
#[derive(Debug)]
pub struct AddressSpace {
    next: Mutex<u64>,
    end: u64,
    budget: Budget,
}

impl AddressSpace {
    /// Creates the address space of a device: device `k` has addresses from 2^48 + k · 2^44 on, so the
    /// addresses of two devices differ.
    ///
    /// # Panics
    /// Panics if the number is 2^15 or more.
    #[must_use]
    pub fn of_device(number: u32, budget: Budget) -> Self {
        assert!(number < 1 << 15, "device number {number} has no addresses below 2^60");
        let first = FIRST_ADDRESS + u64::from(number) * DEVICE_ADDRESSES;
        Self { next: Mutex::new(first), end: first + DEVICE_ADDRESSES, budget }
    }

    /// Returns the budget of the device's bytes.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Returns whether all of `bytes` addresses from `address` on have been reserved at some time.
    pub(super) fn has_given(&self, address: u64, bytes: u64) -> bool {
        let next = *self.next.lock().unwrap_or_else(PoisonError::into_inner);
        address >= self.end - DEVICE_ADDRESSES
            && address.checked_add(bytes).is_some_and(|behind| behind <= next)
    }

    pub(super) fn reserve(&self, bytes: u64) -> Option<u64> {
        // A panic cannot leave the state inconsistent: a reservation is a single store.
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let base = next.next_multiple_of(if bytes < LARGE { ALIGNMENT } else { PAGE });
        let after = base.checked_add(bytes)?.checked_add(GAP)?;
        (after <= self.end).then(|| *next = after)?;
        Some(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_allocations_begin_at_pages() {
        let addresses = AddressSpace::of_device(1, Budget::new(1 << 30));
        let mut end = 0;
        for bytes in [0, 1, 513, LARGE - 1, LARGE, 3, LARGE + 1, 5 * PAGE, 512] {
            let base = addresses.reserve(bytes).unwrap();
            let alignment = if bytes < LARGE { 512 } else { 2 << 20 };
            assert!(base.is_multiple_of(alignment) && base >= end, "{bytes} bytes at {base:#x}");
            end = base + bytes + GAP;
        }
        assert_eq!(addresses.reserve(DEVICE_ADDRESSES), None);
    }
}
