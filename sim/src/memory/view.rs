//! Views of global memory: the allocations that a launch sees.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::Allocation;
use crate::names::readable;

const MOST_FREED: usize = 256;

#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    /// Sorted by base address.
    allocations: Arc<Vec<Arc<Allocation>>>,
    freed: Arc<VecDeque<Freed>>,
}

impl View {
    /// Returns the allocation that contains `[address, address + bytes)`; `hint` is the index of the
    /// last one found.
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
        let after = self.allocations.partition_point(|allocation| allocation.base() <= address);
        let index = after.checked_sub(1)?;
        let allocation = self.allocations.get(index)?;
        allocation.contains(address, bytes).then(|| {
            *hint = index;
            &**allocation
        })
    }

    pub(super) fn merged(views: impl IntoIterator<Item = Self>) -> Self {
        let (mut all, mut freed) = (Vec::new(), VecDeque::new());
        for view in views {
            all.extend(view.allocations.iter().cloned());
            freed.extend(view.freed.iter().cloned());
        }
        all.sort_unstable_by_key(|allocation| allocation.base());
        Self { allocations: Arc::new(all), freed: Arc::new(freed) }
    }

    /// Adds an allocation; views cloned earlier do not see it.
    pub(super) fn insert(&mut self, allocation: Arc<Allocation>) {
        let list = Arc::make_mut(&mut self.allocations);
        let index = list.partition_point(|other| other.base() <= allocation.base());
        list.insert(index, allocation);
    }

    /// Removes the allocation that starts at `address`; views cloned earlier keep it.
    pub(super) fn remove(&mut self, address: u64) -> Option<Arc<Allocation>> {
        let index = self.allocations.binary_search_by_key(&address, |other| other.base()).ok()?;
        Some(Arc::make_mut(&mut self.allocations).remove(index))
    }

    pub(super) fn remember_freed(&mut self, allocation: &Allocation) {
        let freed = Arc::make_mut(&mut self.freed);
        if freed.len() == MOST_FREED {
            freed.pop_front();
        }
        freed.push_back(Freed::new(allocation));
    }

    pub(super) fn forget_freed(&mut self, address: u64) {
        if self.freed.iter().any(|freed| freed.base == address) {
            Arc::make_mut(&mut self.freed).retain(|freed| freed.base != address);
        }
    }

    /// Returns the allocation that contains or starts at an address.
    pub(super) fn holder(&self, address: u64) -> Option<Arc<Allocation>> {
        let after = self.allocations.partition_point(|allocation| allocation.base() <= address);
        let found = self.allocations.get(after.checked_sub(1)?)?;
        (address == found.base() || found.contains(address, 1)).then(|| Arc::clone(found))
    }

    pub(super) fn meets(&self, address: u64, bytes: u64) -> bool {
        let below = self.allocations.partition_point(|other| other.base() < address + bytes);
        let last = below.checked_sub(1).and_then(|index| self.allocations.get(index));
        last.is_some_and(|last| last.base() + last.bytes() > address)
    }

    /// Describes how far an access missed the nearest allocation. `name` returns that allocation's name.
    pub(crate) fn missed(
        &self,
        address: u64,
        bytes: u64,
        name: impl Fn(&Allocation) -> Option<String>,
    ) -> String {
        let freed = self.freed.iter().rev();
        if let Some(freed) = { freed }.find(|freed| address.wrapping_sub(freed.base) < freed.bytes) {
            return freed.to_string();
        }
        let after = self.allocations.partition_point(|allocation| allocation.base() <= address);
        let candidates = [after.checked_sub(1), Some(after)];
        let end = address.saturating_add(bytes);
        let behind = |found: &Allocation| end.saturating_sub(found.base() + found.bytes());
        let before = |found: &Allocation| found.base().saturating_sub(address);
        let nearest = candidates
            .into_iter()
            .flatten()
            .filter_map(|index| self.allocations.get(index))
            .min_by_key(|found| behind(found).max(before(found)));
        let Some(found) = nearest else { return "there is no live allocation".to_owned() };
        let what = found.described(name(found).as_deref());
        match (before(found), behind(found)) {
            (0, by @ ..NEAR) => format!("it ends {by} bytes past the end of {what}"),
            (by @ ..NEAR, _) => format!("it begins {by} bytes before {what}"),
            _ => format!("the nearest to it is {what}"),
        }
    }
}

/// Maximum distance that a message states; a larger one would not help.
pub(crate) const NEAR: u64 = 1 << 30;

#[derive(Debug, Clone)]
pub(super) struct Freed {
    base: u64,
    bytes: u64,
    name: Option<Arc<str>>,
}

impl Freed {
    pub(super) fn new(allocation: &Allocation) -> Self {
        Self { base: allocation.base(), bytes: allocation.bytes(), name: allocation.name() }
    }
}

impl fmt::Display for Freed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { base, bytes, name } = self;
        match name {
            Some(name) => write!(f, "`{}`, {bytes} bytes at {base:#x}, was freed", readable(name)),
            None => write!(f, "the allocation of {bytes} bytes at {base:#x} was freed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Allocation, View};

    fn view(bases: &[u64]) -> View {
        let mut view = View::default();
        for &base in bases {
            view.insert(Arc::new(Allocation::zeroed(base, 100).expect("100 bytes")));
        }
        view
    }

    #[test]
    fn lookups_find_the_right_allocation_without_a_good_hint() {
        let bases = [0x1000, 0x3000, 0x2000, 0x5000, 0x4000];
        let view = view(&bases);
        let mut hint = 0;
        for base in bases {
            assert_eq!(view.find(base + 96, 4, &mut hint).expect("inside").base(), base);
            assert!(view.find(base + 97, 4, &mut hint).is_none());
            assert!(view.find(base - 1, 1, &mut hint).is_none());
        }
    }

    #[test]
    fn merged_view_finds_allocations_of_all_views() {
        let merged = View::merged([view(&[0x3000, 0x9000]), view(&[]), view(&[0x1000])]);
        for base in [0x1000, 0x3000, 0x9000] {
            assert_eq!(merged.find(base, 100, &mut 0).expect("inside").base(), base);
        }
    }
}
