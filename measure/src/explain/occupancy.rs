//! Occupancy of a multiprocessor of compute capability 9.0.

use std::fmt;

/// Maximum warps per multiprocessor.
pub const MAX_WARPS: u32 = 64;
const MAX_BLOCKS: u32 = 32;
/// Registers of a quarter of a multiprocessor, which schedules a quarter of the warps.
const QUARTER_REGISTERS: u32 = 16_384;
const SHARED_BYTES: u32 = 228 << 10;
/// Bytes reserved per block in addition to its own, and the allocation unit.
const RESERVED_SHARED: u32 = 1 << 10;
const SHARED_UNIT: u32 = 128;
/// Registers per thread if no `ptxas` reports them. Most of the suite's kernels need no more.
pub const ASSUMED_REGISTERS: u32 = 32;

/// The resource that limits the number of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The maximum number of warps or blocks.
    Warps,
    Registers,
    Shared,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warps => "warps",
            Self::Registers => "registers",
            Self::Shared => "shared memory",
        })
    }
}

/// Resources of a kernel's block.
#[derive(Debug, Clone, Copy)]
pub struct Needs {
    pub block: u32,
    /// Registers per thread.
    pub registers: u32,
    /// Shared bytes per block, static and dynamic.
    pub shared_bytes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks per multiprocessor.
    pub blocks: u32,
    pub warps: u32,
    pub limit: Limit,
}

impl Occupancy {
    pub fn of(needs: Needs) -> Self {
        let warps = needs.block.div_ceil(32).max(1);
        // Registers are allocated to warps in units of 256.
        let per_warp = (needs.registers.max(1) * 32).next_multiple_of(256);
        let by_registers = QUARTER_REGISTERS / per_warp * 4 / warps;
        let shared = (needs.shared_bytes + RESERVED_SHARED).next_multiple_of(SHARED_UNIT);
        let limits = [
            (MAX_BLOCKS.min(MAX_WARPS / warps), Limit::Warps),
            (by_registers, Limit::Registers),
            (SHARED_BYTES / shared, Limit::Shared),
        ];
        let (blocks, limit) = limits.into_iter().min_by_key(|&(blocks, _)| blocks).unwrap_or(limits[0]);
        Self { blocks, warps: blocks * warps, limit }
    }

    /// Returns the resident warps in percent of the maximum.
    pub fn percent(&self) -> f64 {
        f64::from(self.warps) * 100.0 / f64::from(MAX_WARPS)
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, Needs, Occupancy};

    #[test]
    fn the_scarcest_resource_limits() {
        let of = |block, registers, shared_bytes| {
            let found = Occupancy::of(Needs { block, registers, shared_bytes });
            (found.blocks, found.warps, found.limit)
        };
        assert_eq!(of(256, 12, 1024), (8, 64, Limit::Warps));
        assert_eq!(of(32, 12, 0), (32, 32, Limit::Warps));
        assert_eq!(of(256, 40, 0), (6, 48, Limit::Registers));
        assert_eq!(of(1024, 255, 0), (0, 0, Limit::Registers));
        assert_eq!(of(256, 33, 33_000), (6, 48, Limit::Registers));
        assert_eq!(of(256, 32, 33_000), (6, 48, Limit::Shared));
    }
}
