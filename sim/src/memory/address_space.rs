//! The addresses and the bytes that memories draw from.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Where the addresses of the first device start. Host addresses, windows of state
/// spaces and 32-bit numbers are all below it; the host cannot map memory at such
/// an address, so that dereferencing a device pointer there traps.
pub(crate) const FIRST_ADDRESS: u64 = 1 << 48;
/// Addresses of each device.
const DEVICE_ADDRESSES: u64 = 1 << 44;
/// Every allocation starts at a multiple of this many bytes.
const ALIGNMENT: u64 = 256;
/// Bytes between allocations that belong to none, so that running off the end
/// of one is an error instead of a hit in the next.
const GAP: u64 = 4096;

/// Bytes that may be allocated, and those that are.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: AtomicU64,
    whole: Option<Arc<Budget>>,
}

impl Budget {
    /// A budget of its own.
    #[must_use]
    pub const fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0), whole: None }
    }

    /// A part of another one: what is taken from it is taken from both.
    #[must_use]
    pub const fn within(limit: u64, whole: Arc<Self>) -> Self {
        Self { limit, used: AtomicU64::new(0), whole: Some(whole) }
    }

    /// The limit in bytes.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that are taken.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that may still be taken.
    #[must_use]
    pub fn free(&self) -> u64 {
        let own = self.limit.saturating_sub(self.used());
        self.whole.as_ref().map_or(own, |whole| own.min(whole.free()))
    }

    /// Takes bytes, or returns the budget that has fewer left.
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

/// The addresses and the bytes of a device, from which the memories on it draw.
///
/// Addresses are never given out twice, so a stale pointer never hits a later
/// allocation.
#[derive(Debug)]
pub struct AddressSpace {
    next: Mutex<u64>,
    end: u64,
    budget: Budget,
}

impl AddressSpace {
    /// Those of a device, by its number: device `k` has addresses from
    /// 2^48 + k · 2^44 on, so that those of two devices differ.
    ///
    /// # Panics
    /// When the number is 2^15 or more.
    #[must_use]
    pub fn of_device(number: u32, budget: Budget) -> Self {
        assert!(number < 1 << 15, "device number {number} has no addresses below 2^60");
        let first = FIRST_ADDRESS + u64::from(number) * DEVICE_ADDRESSES;
        Self { next: Mutex::new(first), end: first + DEVICE_ADDRESSES, budget }
    }

    /// Returns the budget of its bytes.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Whether all of `bytes` addresses from `address` on were given out at some time.
    pub(super) fn has_given(&self, address: u64, bytes: u64) -> bool {
        let next = *self.next.lock().unwrap_or_else(PoisonError::into_inner);
        address >= self.end - DEVICE_ADDRESSES
            && address.checked_add(bytes).is_some_and(|behind| behind <= next)
    }

    /// Addresses for `bytes` bytes; `None` when all were given out.
    pub(super) fn reserve(&self, bytes: u64) -> Option<u64> {
        // A panic cannot come between: a reservation is one store at its end.
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let base = *next;
        let after = base.checked_add(bytes)?.checked_add(GAP)?.next_multiple_of(ALIGNMENT);
        (after <= self.end).then(|| *next = after)?;
        Some(base)
    }
}
