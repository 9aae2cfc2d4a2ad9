//! What a launch sees of global memory.

use std::sync::Arc;

use super::Allocation;

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
        let after = self.allocations.partition_point(|allocation| allocation.base() <= address);
        let index = after.checked_sub(1)?;
        let allocation = self.allocations.get(index)?;
        allocation.contains(address, bytes).then(|| {
            *hint = index;
            &**allocation
        })
    }

    /// The allocations of several views, whose ranges are disjoint.
    pub(super) fn merged(views: impl IntoIterator<Item = Self>) -> Self {
        let lists = views.into_iter().map(|view| view.allocations);
        let mut all: Vec<_> = lists.flat_map(|list| list.iter().cloned().collect::<Vec<_>>()).collect();
        all.sort_unstable_by_key(|allocation| allocation.base());
        Self { allocations: Arc::new(all) }
    }

    /// Adds an allocation; views that were taken before do not see it.
    pub(super) fn insert(&mut self, allocation: Arc<Allocation>) {
        let list = Arc::make_mut(&mut self.allocations);
        let index = list.partition_point(|other| other.base() <= allocation.base());
        list.insert(index, allocation);
    }

    /// Takes out the allocation that starts at `address`; views that were taken
    /// before keep it.
    pub(super) fn remove(&mut self, address: u64) -> Option<Arc<Allocation>> {
        let index = self.allocations.binary_search_by_key(&address, |other| other.base()).ok()?;
        Some(Arc::make_mut(&mut self.allocations).remove(index))
    }

    /// The allocation that an address lies in, or that starts there.
    pub(super) fn holder(&self, address: u64) -> Option<Arc<Allocation>> {
        let after = self.allocations.partition_point(|allocation| allocation.base() <= address);
        let found = self.allocations.get(after.checked_sub(1)?)?;
        (address == found.base() || found.contains(address, 1)).then(|| Arc::clone(found))
    }

    /// Whether an allocation holds any of these bytes.
    pub(super) fn meets(&self, address: u64, bytes: u64) -> bool {
        let below = self.allocations.partition_point(|other| other.base() < address + bytes);
        let last = below.checked_sub(1).and_then(|index| self.allocations.get(index));
        last.is_some_and(|last| last.base() + last.bytes() > address)
    }

    /// Describes the allocation nearest to an address.
    pub(crate) fn nearest(&self, address: u64) -> String {
        let after = self.allocations.partition_point(|allocation| allocation.base() <= address);
        let candidates = [after.checked_sub(1), Some(after)];
        let distance = |allocation: &Allocation| {
            let end = allocation.base() + allocation.bytes();
            if address < allocation.base() {
                allocation.base() - address
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
                let (base, bytes) = (allocation.base(), allocation.bytes());
                format!("the nearest allocation is {bytes} bytes at {base:#x}")
            },
        )
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
    fn merged_views_hold_what_each_holds() {
        let merged = View::merged([view(&[0x3000, 0x9000]), view(&[]), view(&[0x1000])]);
        for base in [0x1000, 0x3000, 0x9000] {
            assert_eq!(merged.find(base, 100, &mut 0).expect("inside").base(), base);
        }
    }
}
