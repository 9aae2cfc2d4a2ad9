use std::collections::{BTreeMap, BTreeSet};

use warpfold_driver::sys::*;

use super::State;
use crate::ffi::PoolId;

/// A memory pool. Freed memory is returned at once, so a pool has none in reserve.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) device: u32,
    pub(crate) is_default: bool,
    pub(crate) open_to: BTreeSet<u32>,
    pub(crate) attributes: BTreeMap<CUmemPool_attribute, u64>,
    /// Bytes of live allocations by first address; `high` is the high-water mark of their sum.
    pub(crate) live: BTreeMap<u64, u64>,
    pub(crate) high: u64,
}

impl State {
    pub(crate) fn add_pool(&mut self, device: u32, is_default: bool) -> PoolId {
        let id = PoolId(self.new_handle());
        let reuse = [
            CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
            CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
            CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
        ];
        let mut attributes: BTreeMap<_, _> = reuse.into_iter().map(|attribute| (attribute, 1)).collect();
        attributes.insert(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0);
        let (open_to, live) = (BTreeSet::new(), BTreeMap::new());
        let pool = Pool { device, is_default, open_to, attributes, live, high: 0 };
        self.pools.insert(id, pool);
        id
    }

    pub(crate) fn leave_pool(&mut self, address: u64) {
        for pool in self.pools.values_mut() {
            pool.live.remove(&address);
        }
    }
}

impl Pool {
    pub(crate) fn used(&self) -> u64 {
        self.live.values().sum()
    }

    pub(crate) fn add(&mut self, address: u64, bytes: u64) {
        self.live.insert(address, bytes);
        self.high = self.high.max(self.used());
    }
}
