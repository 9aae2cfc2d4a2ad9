//! Global memories: sets of allocations that are visible to launches.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::{AddressSpace, Allocation, Budget, Keeper, View};
use crate::error::Error;
use crate::names::readable;

/// A set of allocations that is visible to the launches of one or several [`Gpu`](crate::Gpu)s; clones
/// share it.
#[derive(Debug, Clone)]
pub struct GlobalMemory {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    addresses: Option<Arc<AddressSpace>>,
    state: Mutex<State>,
    /// Merged views that include this memory.
    caches: Mutex<Vec<Weak<Cache>>>,
}

#[derive(Debug, Default)]
struct State {
    view: View,
    in_use: u64,
}

impl GlobalMemory {
    /// Creates the memory of a device.
    #[must_use]
    pub fn new(addresses: Arc<AddressSpace>) -> Self {
        Self::with(Some(addresses))
    }

    /// Creates a memory that consists of [lent](Self::lend) cells only, such as host memory. A cell is
    /// an atomic 64-bit word.
    #[must_use]
    pub fn of_lent_cells() -> Self {
        Self::with(None)
    }

    fn with(addresses: Option<Arc<AddressSpace>>) -> Self {
        let inner = Inner { addresses, state: Mutex::default(), caches: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }

    /// Changes the state, and clears the merged views that include this memory. Holds one lock at a
    /// time.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        let caches = lock(&self.inner.caches).clone();
        for cache in caches.iter().filter_map(Weak::upgrade) {
            let stale = lock(&cache).take();
            drop(stale);
        }
        result
    }

    /// Allocates zeroed memory, aligned as on a GPU: to 2 MiB from 1 MiB on, else to 512 bytes. An
    /// allocation of 0 bytes has an address that may only be freed.
    ///
    /// # Errors
    /// Returns [`Error::MemoryLimit`] if the bytes would exceed a limit, and [`Error::HostMemory`] if
    /// the host refuses them.
    pub fn alloc(&self, bytes: u64) -> Result<u64, Error> {
        Ok(self.allocate(bytes, || "an allocation".to_owned())?.base())
    }

    /// Reserves addresses for a later [`alloc_at`](Self::alloc_at), without taking from the budget. No
    /// other allocation gets any of them.
    ///
    /// # Errors
    /// Returns [`Error::HostMemory`] if the device has no addresses left.
    pub fn reserve(&self, bytes: u64) -> Result<u64, Error> {
        let base = self.inner.addresses.as_ref().and_then(|addresses| addresses.reserve(bytes));
        base.ok_or_else(|| Error::HostMemory { what: "addresses".to_owned(), requested: bytes })
    }

    /// Allocates zeroed memory at [reserved](Self::reserve) addresses. After a free, they may be
    /// allocated again.
    ///
    /// # Errors
    /// Returns the errors of [`alloc`](Self::alloc), and [`Error::InvalidPointer`] for addresses that
    /// were never reserved or are in use.
    pub fn alloc_at(&self, address: u64, bytes: u64) -> Result<(), Error> {
        let given = |addresses: &Arc<AddressSpace>| addresses.has_given(address, bytes);
        if !self.inner.addresses.as_ref().is_some_and(given) {
            return Err(self.invalid("allocate", address, bytes));
        }
        self.place(bytes, || "an allocation".to_owned(), |_| Some(address)).map(|_| ())
    }

    pub(crate) fn allocate(
        &self,
        bytes: u64,
        what: impl Fn() -> String,
    ) -> Result<Arc<Allocation>, Error> {
        self.place(bytes, what, |addresses| addresses.reserve(bytes))
    }

    fn place(
        &self,
        bytes: u64,
        what: impl Fn() -> String,
        base: impl FnOnce(&AddressSpace) -> Option<u64>,
    ) -> Result<Arc<Allocation>, Error> {
        let refused =
            |in_use, limit| Error::MemoryLimit { what: what(), requested: bytes, in_use, limit };
        let Some(addresses) = &self.inner.addresses else { return Err(refused(0, 0)) };
        let budget = addresses.budget();
        budget.take(bytes).map_err(|full| refused(full.used(), full.limit()))?;
        let made = base(addresses).and_then(|base| Allocation::zeroed(base, bytes));
        let Some(allocation) = made.map(Arc::new) else {
            budget.give_back(bytes);
            return Err(Error::HostMemory { what: what(), requested: bytes });
        };
        let placed = self.change(|state| {
            // A new address is never in use; a reserved one may be.
            let free = !state.view.meets(allocation.base(), bytes.max(1));
            if free {
                state.in_use += bytes;
                state.view.insert(Arc::clone(&allocation));
                state.view.forget_freed(allocation.base());
            }
            free
        });
        if !placed {
            budget.give_back(bytes);
            return Err(self.invalid("allocate", allocation.base(), bytes));
        }
        Ok(allocation)
    }

    /// Adds cells of another owner to this memory, at their host address, and returns that address. It
    /// is a data race to write to them other than by atomic operations while a launch or a copy may use
    /// them.
    ///
    /// The keeper is dropped once the cells are [freed](Self::free) and no launch can reach them. The
    /// cells are not accessed after that.
    ///
    /// # Errors
    /// Returns [`Error::Lent`] if there are no cells, or if they overlap lent cells.
    pub fn lend(&self, cells: &'static [AtomicU64], keeper: Keeper) -> Result<u64, Error> {
        let allocation = Arc::new(Allocation::lent(cells, keeper));
        let (base, bytes) = (allocation.base(), allocation.bytes());
        self.change(|state| {
            if bytes == 0 || state.view.meets(base, bytes) {
                return Err(Error::Lent { address: base, bytes });
            }
            state.in_use += bytes;
            state.view.insert(allocation);
            Ok(base)
        })
    }

    /// Frees the allocation that starts at an address. Running launches keep the memory that they
    /// started with; for later launches it is out of bounds.
    ///
    /// # Errors
    /// Returns [`Error::InvalidPointer`] if no live allocation starts there.
    pub fn free(&self, address: u64) -> Result<(), Error> {
        let removed = self.change(|state| {
            let removed = state.view.remove(address)?;
            state.in_use -= removed.bytes();
            // Lent cells are not remembered, because the host reuses their addresses.
            if self.inner.addresses.is_some() {
                state.view.remember_freed(&removed);
            }
            Some(removed)
        });
        let removed = removed.ok_or_else(|| self.invalid("free", address, 0))?;
        if let Some(addresses) = &self.inner.addresses {
            addresses.budget().give_back(removed.bytes());
        }
        Ok(())
    }

    /// Names the live allocation that contains an address, for messages, unless it has a name. Returns
    /// `false` if there is no such allocation.
    pub fn set_name(&self, address: u64, name: &str) -> bool {
        let found = self.lock().view.holder(address);
        found.inspect(|found| found.set_name(name)).is_some()
    }

    /// Returns the first address and the bytes of the live allocation that contains an address. An empty
    /// allocation contains its first address.
    #[must_use]
    pub fn allocation_of(&self, address: u64) -> Option<(u64, u64)> {
        self.lock().view.holder(address).map(|found| (found.base(), found.bytes()))
    }

    /// Copies bytes from the host.
    ///
    /// # Errors
    /// Returns [`Error::InvalidPointer`] unless all bytes are in one live allocation.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), Error> {
        let Some((memory, offset)) = self.find("write", address, from.len() as u64)? else {
            return Ok(());
        };
        memory.write(offset, from);
        Ok(())
    }

    /// Copies bytes to the host.
    ///
    /// # Errors
    /// Returns [`Error::InvalidPointer`] unless all bytes are in one live allocation.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Error> {
        let Some((memory, offset)) = self.find("read", address, into.len() as u64)? else {
            return Ok(());
        };
        memory.read(offset, into);
        Ok(())
    }

    /// Sets `bytes` bytes. Each becomes the byte of `pattern` at its address modulo 8, lowest byte
    /// first.
    ///
    /// # Errors
    /// Returns [`Error::InvalidPointer`] unless all bytes are in one live allocation.
    pub fn fill(&self, address: u64, pattern: u64, bytes: u64) -> Result<(), Error> {
        let Some((memory, offset)) = self.find("fill", address, bytes)? else { return Ok(()) };
        memory.fill(offset, pattern, bytes as usize);
        Ok(())
    }

    /// Copies bytes from another memory, or within this one. If the two ranges overlap, the result is
    /// unspecified.
    ///
    /// # Errors
    /// Returns [`Error::InvalidPointer`] unless the source and the target each are in one live
    /// allocation.
    pub fn copy(&self, to: u64, from: &Self, address: u64, bytes: u64) -> Result<(), Error> {
        let source = from.find("copy", address, bytes)?;
        let (Some((source, start)), Some((target, at))) = (source, self.find("copy", to, bytes)?) else {
            return Ok(());
        };
        let mut buffer = [0; 4096];
        let mut done = 0;
        while done < bytes {
            let piece = &mut buffer[..(bytes - done).min(4096) as usize];
            source.read(start + done, piece);
            target.write(at + done, piece);
            done += piece.len() as u64;
        }
        Ok(())
    }

    /// Returns the allocation that contains the bytes, and their offset in it; `None` for 0 bytes.
    fn find(
        &self,
        operation: &'static str,
        address: u64,
        bytes: u64,
    ) -> Result<Option<(Arc<Allocation>, u64)>, Error> {
        if bytes == 0 {
            return Ok(None);
        }
        let found = self.lock().view.holder(address).filter(|found| found.contains(address, bytes));
        let found = found.ok_or_else(|| self.invalid(operation, address, bytes))?;
        let offset = address - found.base();
        Ok(Some((found, offset)))
    }

    fn invalid(&self, operation: &'static str, address: u64, bytes: u64) -> Error {
        let name = |found: &Allocation| found.name().map(|name| format!("`{}`", readable(&name)));
        let nearest = format!("; {}", self.view().missed(address, bytes, name));
        Error::InvalidPointer { operation, address, bytes, nearest }
    }

    /// Returns the bytes in live allocations.
    #[must_use]
    pub fn in_use(&self) -> u64 {
        self.lock().in_use
    }

    /// Returns the budget; `None` for a memory from [`of_lent_cells`](Self::of_lent_cells).
    #[must_use]
    pub fn budget(&self) -> Option<&Budget> {
        self.inner.addresses.as_ref().map(|addresses| addresses.budget())
    }

    pub(crate) fn view(&self) -> View {
        self.lock().view.clone()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(addresses) = &self.addresses {
            addresses.budget().give_back(state.in_use);
        }
    }
}

/// A merged view, cleared when one of its memories changes.
type Cache = Mutex<Option<View>>;

#[derive(Debug)]
pub(crate) struct Merged {
    memories: Vec<GlobalMemory>,
    /// Built on first use. A change of a memory clears it, so that no freed memory is kept alive.
    cache: Arc<Cache>,
}

impl Merged {
    pub(crate) fn new(memories: Vec<GlobalMemory>) -> Self {
        let cache = Arc::default();
        if memories.len() > 1 {
            for memory in &memories {
                let mut caches = lock(&memory.inner.caches);
                caches.retain(|other| other.strong_count() > 0);
                caches.push(Arc::downgrade(&cache));
            }
        }
        Self { memories, cache }
    }

    pub(crate) fn view(&self) -> View {
        if let [memory] = &*self.memories {
            return memory.view();
        }
        // Locked while the memories are read, so that a later change clears the stored view.
        let mut cache = lock(&self.cache);
        cache.get_or_insert_with(|| View::merged(self.memories.iter().map(GlobalMemory::view))).clone()
    }
}

/// Locks data that a panic cannot leave inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::super::address_space::FIRST_ADDRESS;
    use super::{AddressSpace, Budget, GlobalMemory, Merged};
    use crate::error::Error;

    fn memory(number: u32, limit: u64) -> GlobalMemory {
        GlobalMemory::new(Arc::new(AddressSpace::of_device(number, Budget::new(limit))))
    }

    #[test]
    fn freed_address_is_invalid_and_not_reused() {
        let memory = memory(0, 64);
        let first = memory.alloc(16).expect("room");
        assert_eq!(first, FIRST_ADDRESS);
        assert_eq!(memory.allocation_of(first + 15), Some((first, 16)));
        assert_eq!(memory.allocation_of(first + 16), None);
        memory.free(first).expect("live");
        assert!(matches!(memory.free(first), Err(Error::InvalidPointer { .. })));
        assert_eq!(memory.allocation_of(first), None);
        assert!(memory.alloc(16).expect("room") > first);
        let refused = memory.alloc(49).expect_err("over the limit");
        assert!(matches!(refused, Error::MemoryLimit { in_use: 16, limit: 64, .. }));
    }

    #[test]
    fn reserved_addresses_can_be_allocated_repeatedly() {
        let memory = memory(0, 64);
        let first = memory.reserve(48).expect("addresses");
        assert_eq!((memory.in_use(), memory.allocation_of(first)), (0, None));
        assert!(memory.alloc(16).expect("room") >= first + 48, "no other one gets them");
        for _ in 0..2 {
            memory.alloc_at(first, 48).expect("room");
            assert_eq!(memory.allocation_of(first + 47), Some((first, 48)));
            let refused = memory.alloc_at(first, 0).expect_err("memory is there");
            assert!(matches!(refused, Error::InvalidPointer { .. }));
            memory.write(first, &[7]).expect("live");
            memory.free(first).expect("live");
        }
        let gone = memory.read(first, &mut [0]).expect_err("freed").to_string();
        assert!(gone.ends_with("was freed"), "{gone}");
        memory.alloc_at(first, 48).expect("room");
        let mut byte = [1];
        memory.read(first, &mut byte).expect("live");
        assert_eq!(byte, [0], "it is new memory");
        assert_eq!(memory.in_use(), 64);
        // A failed allocation takes nothing from the budget.
        memory.free(first).expect("live");
        assert!(matches!(memory.alloc_at(first, 49), Err(Error::MemoryLimit { in_use: 16, .. })));
        let beyond = memory.alloc_at(first + (1 << 30), 8).expect_err("never given out");
        assert!(matches!(beyond, Error::InvalidPointer { .. }));
        assert_eq!(memory.budget().map(Budget::used), Some(16));
    }

    #[test]
    fn devices_share_a_budget_and_no_address() {
        let whole = Arc::new(Budget::new(100));
        let part = |number| {
            let budget = Budget::within(80, Arc::clone(&whole));
            GlobalMemory::new(Arc::new(AddressSpace::of_device(number, budget)))
        };
        let (first, second) = (part(0), part(1));
        let address = first.alloc(80).expect("room");
        assert!(second.alloc(21).is_err());
        assert_eq!(second.budget().map(Budget::free), Some(20));
        assert!(second.alloc(20).expect("room") >= address + (1 << 44));
        drop(first);
        assert_eq!(whole.used(), 20);
    }

    #[test]
    fn alloc_fails_when_the_host_is_out_of_memory() {
        let refused = memory(0, u64::MAX).alloc(1 << 43).expect_err("8 TiB");
        assert!(matches!(refused, Error::HostMemory { requested, .. } if requested == 1 << 43));
    }

    #[test]
    fn lent_cells_do_not_overlap() {
        static CELLS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
        let host = GlobalMemory::of_lent_cells();
        let address = host.lend(&CELLS[1..3], Arc::new(())).expect("alone");
        assert_eq!(address, CELLS[1..].as_ptr().addr() as u64);
        for range in [0..2, 2..4, 1..2, 0..4, 0..0] {
            let refused = host.lend(&CELLS[range], Arc::new(()));
            assert!(matches!(refused, Err(Error::Lent { .. })));
        }
        host.lend(&CELLS[3..], Arc::new(())).expect("beside it");
        host.lend(&CELLS[..1], Arc::new(())).expect("beside it");
        assert!(host.alloc(8).is_err(), "it has no addresses of its own");
    }

    #[test]
    fn copy_moves_bytes_between_memories() {
        let (from, to) = (memory(0, 1 << 20), memory(1, 1 << 20));
        let source = from.alloc(10_000).expect("room");
        let target = to.alloc(10_000).expect("room");
        let data: Vec<u8> = (0..10_000_u32).map(|index| (index % 251) as u8).collect();
        from.write(source, &data).expect("live");
        to.copy(target + 3, &from, source + 5, 9_990).expect("live");
        let mut back = vec![0; 10_000];
        to.read(target, &mut back).expect("live");
        assert_eq!(back[3..9_993], data[5..9_995]);
        assert!(back[..3].iter().chain(&back[9_993..]).all(|&byte| byte == 0));
        assert!(to.copy(target + 11, &from, source, 9_990).is_err());
    }

    #[test]
    fn merged_view_tracks_later_allocs_and_frees() {
        let (first, second) = (memory(0, 64), memory(1, 64));
        let merged = Merged::new(vec![first.clone(), second.clone()]);
        let address = second.alloc(8).expect("room");
        assert!(merged.view().find(address, 8, &mut 0).is_some());
        second.free(address).expect("live");
        assert!(merged.view().find(address, 8, &mut 0).is_none());
    }

    #[test]
    fn merged_view_cache_drops_freed_cells() {
        static CELLS: [AtomicU64; 1] = [const { AtomicU64::new(0) }; 1];
        let (host, keeper) = (GlobalMemory::of_lent_cells(), Arc::new(()));
        let merged = Merged::new(vec![memory(0, 64), host.clone()]);
        let address = host.lend(&CELLS, keeper.clone()).expect("alone");
        let view = merged.view();
        host.free(address).expect("lent");
        assert_eq!(Arc::strong_count(&keeper), 2, "a launch that runs");
        drop(view);
        assert_eq!(Arc::strong_count(&keeper), 1);
    }
}
