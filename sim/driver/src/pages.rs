//! Host memory that kernels can access.

use std::alloc::{self, Layout};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use warpfold_sim::{Error, GlobalMemory};

const PAGE: usize = 4096;

/// Zeroed pages. They are freed with their last owner: the table of host allocations, or a launch that
/// can still access them.
struct Pages {
    first: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the pages belong to this value alone, and only `drop` does anything with them.
unsafe impl Send for Pages {}
// SAFETY: as above; no method takes `&self`.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the pages were allocated with this layout, and no owner is left that uses them.
        unsafe { alloc::dealloc(self.first.as_ptr(), self.layout) };
    }
}

/// Allocates zeroed host memory as part of `memory`, so that host and kernels use the same address. The
/// pages are freed after `memory` has freed that address.
pub(crate) fn allocate(memory: &GlobalMemory, bytes: u64) -> Result<u64, Error> {
    let refused = || Error::HostMemory { what: "page-locked memory".to_owned(), requested: bytes };
    // One page more, to skip to a page boundary. A larger alignment would make the allocator touch all
    // pages.
    let size = usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_add(PAGE + 8));
    let layout = size.and_then(|size| Layout::from_size_align(size, 8).ok()).ok_or_else(refused)?;
    // SAFETY: the size is not zero.
    let first = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or_else(refused)?;
    let pages = Pages { first, layout };
    // The program receives the address as a number and uses it as a pointer.
    let skipped = first.as_ptr().expose_provenance().next_multiple_of(PAGE) - first.addr().get();
    let count = (bytes as usize).div_ceil(8);
    // SAFETY: less than a page is skipped, and the allocation has a page more than `bytes`.
    let cells = unsafe { first.as_ptr().add(skipped) }.cast::<AtomicU64>();
    // SAFETY: `count` zeroed cells fit into the allocation from the start of this page. They are freed
    // when `pages` is dropped, and `GlobalMemory::lend` uses them only as long as it keeps `pages`.
    let cells = unsafe { std::slice::from_raw_parts(cells, count) };
    memory.lend(cells, Arc::new(pages))
}

/// A token for registered memory. Each launch or copy that can access the memory holds its `Arc`.
#[derive(Debug)]
pub(crate) struct Registered;

/// Adds bytes of the program to `memory`, extended at both ends to whole 8-byte words. Returns the
/// address of the first word, and the token of the bytes.
///
/// # Safety
/// The bytes stay allocated until `memory` has freed them and the returned `Arc` has no other owner.
/// Writing to the bytes while pending work uses them is a data race.
pub(crate) unsafe fn register(
    memory: &GlobalMemory,
    address: u64,
    bytes: u64,
) -> Result<(u64, Arc<Registered>), Error> {
    let (first, end) = (address & !7, (address + bytes).next_multiple_of(8));
    let keeper = Arc::new(Registered);
    let cells = std::ptr::with_exposed_provenance(first as usize);
    // SAFETY: by this function's contract the bytes stay allocated. Other bytes of the first and the
    // last word are on the same pages, so they can be read, and no operation changes them.
    let cells = unsafe { std::slice::from_raw_parts(cells, ((end - first) / 8) as usize) };
    let first = memory.lend(cells, keeper.clone())?;
    Ok((first, keeper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_writes_are_visible_in_host_pages() {
        let memory = GlobalMemory::of_lent_cells();
        let address = allocate(&memory, 5000).expect("two pages");
        assert_eq!(address % PAGE as u64, 0);
        memory.write(address + 4096, &[7]).expect("inside");
        let host = std::ptr::with_exposed_provenance::<u8>(address as usize + 4096);
        // SAFETY: the byte is in the pages, which nothing else uses.
        assert_eq!(unsafe { host.read() }, 7);
        memory.free(address).expect("allocated");
        assert!(memory.read(address, &mut [0]).is_err());
    }

    #[test]
    fn registered_bytes_may_start_anywhere() {
        let memory = GlobalMemory::of_lent_cells();
        let mut bytes = [1_u8; 100];
        let address = bytes[3..].as_mut_ptr().expose_provenance() as u64;
        // SAFETY: the bytes live to the end of the test and are not touched meanwhile.
        let (first, keeper) = unsafe { register(&memory, address, 50) }.expect("alone");
        assert!(first <= address && address - first < 8);
        memory.write(address + 49, &[9]).expect("inside");
        memory.free(first).expect("registered");
        assert_eq!(Arc::strong_count(&keeper), 1);
        assert_eq!((bytes[52], bytes[53]), (9, 1));
    }
}
