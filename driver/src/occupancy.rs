use std::ffi::c_int;

use crate::driver::{Driver, call};
use crate::error::CallError;
use crate::handle::{Function, Stream};
use crate::launch::LaunchShape;

impl Driver {
    /// Returns the maximum number of blocks that are resident on a multiprocessor at once, if each has
    /// `block` threads and `shared_bytes` bytes of dynamic shared memory.
    ///
    /// # Safety
    /// The function's module must be alive.
    pub unsafe fn occupancy_max_active_blocks(
        &self,
        function: Function,
        block: u32,
        shared_bytes: usize,
    ) -> Result<u32, CallError> {
        let mut blocks = 0;
        let (function, block) = (function.raw(), int(block));
        // SAFETY: the caller guarantees a live function; the call writes one int to a local variable.
        unsafe {
            call!(self.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                function,
                block,
                shared_bytes
            ))
        }?;
        Ok(blocks.cast_unsigned())
    }

    /// Returns the bytes of dynamic shared memory that a block may use if `blocks` blocks of `block`
    /// threads are to be resident on a multiprocessor.
    ///
    /// # Safety
    /// The function's module must be alive.
    pub unsafe fn occupancy_available_dynamic_shared(
        &self,
        function: Function,
        blocks: u32,
        block: u32,
    ) -> Result<usize, CallError> {
        let mut bytes = 0;
        let (function, blocks, block) = (function.raw(), int(blocks), int(block));
        // SAFETY: the caller guarantees a live function; the call writes one number to a local variable.
        unsafe {
            call!(self.cuOccupancyAvailableDynamicSMemPerBlock(&mut bytes, function, blocks, block))
        }?;
        Ok(bytes)
    }

    /// Returns the maximum number of clusters that are resident on the device at once. `shape` must have
    /// cluster dimensions.
    ///
    /// # Safety
    /// The function's module must be alive.
    pub unsafe fn occupancy_max_active_clusters(
        &self,
        function: Function,
        shape: &LaunchShape,
    ) -> Result<u32, CallError> {
        let mut clusters = 0;
        shape.with_config(Stream::DEFAULT, |config| {
            // SAFETY: the caller guarantees a live function; the configuration outlives the call, which
            // writes one int to a local variable.
            unsafe { call!(self.cuOccupancyMaxActiveClusters(&mut clusters, function.raw(), config)) }
        })?;
        Ok(clusters.cast_unsigned())
    }
}

/// Converts a count. Saturates at `c_int::MAX`, which is above every limit of the driver.
fn int(number: u32) -> c_int {
    c_int::try_from(number).unwrap_or(c_int::MAX)
}
