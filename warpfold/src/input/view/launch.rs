//! The choice of kernel and grid for views, by arithmetic alone.
//!
//! A unit is a 16-byte group or an element. Neighbouring threads take neighbouring units of a result, or
//! units of neighbouring results, whichever are closer in memory. A block has several results, so that
//! none of its threads are idle. If results are too few to fill the device, several blocks share them.
//! The constants are those of the launches for rows and columns, and were not swept for views.

use warpfold_abi::{
    WARP_SIZE,
    custom::in_groups,
    reducer::{GROUP_BYTES, GROUPS_IN_FLIGHT},
};

use super::{Dim, ViewTask};
use crate::{input::axis::AxisLaunch, names::ViewKernel, tuning::Shape};

/// Block sizes in threads. An operation is limited to the largest that its kernels' registers allow.
pub(crate) const BLOCKS: &[u32] = &[256, 128, 64, 32];
/// 16-byte groups or elements that a thread has in flight, as in the kernels.
const FEW: u64 = GROUPS_IN_FLIGHT as u64;
/// Threads per multiprocessor that keep it busy.
const BUSY: u64 = 1536;
/// Minimum number of neighbouring 16-byte groups or elements that threads load, to fill whole sectors.
const SECTOR: u64 = 8;
/// Neighbouring results of at most this many 16-byte groups or elements have a thread each.
const SHORT: u64 = 16;
/// Neighbouring results per block if results are longer than [`SHORT`]; [`NARROW`] if that makes too few
/// blocks.
const WIDE: u64 = 64;
const NARROW: u64 = 32;

/// The launch of a reduction along axes of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViewLaunch {
    /// The kernel.
    pub kernel: ViewKernel,
    /// True if neighbouring threads take neighbouring elements, false if they take neighbouring results.
    pub along: bool,
    /// Results per block.
    pub across: u32,
    /// Blocks that share the same `across` results.
    pub share: u32,
    /// Threads of a block.
    pub block: u32,
    /// Blocks of the grid.
    pub blocks: u32,
}

impl ViewLaunch {
    pub(crate) fn new(task: &ViewTask, shape: Shape) -> Self {
        let block = u64::from(task.code.largest_blocks().view);
        let fastest = |dims: Option<&Dim>| dims.map_or(u64::MAX, |dim| dim.stride);
        let along = fastest(task.reduced.fastest()) < fastest(task.kept.fastest());
        let kernel = if has_groups(task) { ViewKernel::Groups } else { ViewKernel::Elements };
        let units = task.len / unit(kernel, task);
        let busy = u64::from(shape.multiprocessors) * (BUSY / block);
        let strips = |across: u64| task.results.div_ceil(across);
        // The threads of a result that have something to load, rounded up to a power of two.
        let most_above = units.div_ceil(FEW).next_power_of_two().min(block);
        let (across, above) = if along {
            let above = most_above.max(units.min(SECTOR).next_power_of_two());
            (block / above, above)
        } else {
            let wide = if strips(WIDE) >= busy { WIDE } else { NARROW };
            let across = if units <= SHORT { block } else { wide };
            let across = across.min(task.results.next_power_of_two()).min(block);
            (across, most_above.min(block / across))
        };
        let across = across.min(task.results.next_power_of_two());
        let above = above.max(u64::from(WARP_SIZE).div_ceil(across));
        let strips = strips(across);
        let slots = AxisLaunch::SLOTS / task.code.slot_bytes() / across / strips;
        let most = slots.min(units.div_ceil(above * FEW)).max(1);
        let share = (busy / strips).clamp(1, most);
        let number = |n: u64| u32::try_from(n).expect("at most 2^35 elements, 2^4 in a block");
        Self {
            kernel,
            along,
            across: number(across),
            share: number(share),
            block: number(across * above),
            blocks: number(strips * share),
        }
    }

    pub(crate) fn threads_of_a_result(&self) -> u64 {
        u64::from(self.block / self.across) * u64::from(self.share)
    }

    pub(crate) fn unit(&self, task: &ViewTask) -> u64 {
        unit(self.kernel, task)
    }
}

fn unit(kernel: ViewKernel, task: &ViewTask) -> u64 {
    match kernel {
        ViewKernel::Groups => u64::from(GROUP_BYTES) / task.code.element_bytes(),
        ViewKernel::Elements => 1,
    }
}

/// Returns whether the elements of all results are whole groups of 16 bytes at multiples of 16.
fn has_groups(task: &ViewTask) -> bool {
    if !in_groups(task.code.element_bytes()) {
        return false;
    }
    let lanes = unit(ViewKernel::Groups, task);
    let Some((fastest, slower)) = task.reduced.as_slice().split_last() else { return false };
    let mut others = task.kept.as_slice().iter().chain(slower);
    fastest.stride == 1
        && fastest.len.is_multiple_of(lanes)
        && task.address.is_multiple_of(GROUP_BYTES.into())
        && others.all(|dim| dim.stride.is_multiple_of(lanes))
}

#[cfg(test)]
mod tests {
    use warpfold_abi::reducer::SLOT_BYTES;

    use super::{super::Axes, *};
    use crate::{
        names::{Dtype, OpKind},
        reducer::Code,
    };
    use warpfold_ptx::Arch;

    const H200: Shape = Shape::H200;
    const SMALL: Shape = Shape { arch: Arch::OLDEST, multiprocessors: 4, ..H200 };

    fn task(kept: &[(u64, u64)], reduced: &[(u64, u64)], dtype: Dtype) -> ViewTask {
        let axes = |axes: &[(u64, u64)], reduced| Axes::new(axes.iter().copied(), reduced).on_device();
        let (kept, reduced) = (axes(kept, false).unwrap(), axes(reduced, true).unwrap());
        let (results, len) = (kept.positions(), reduced.positions());
        ViewTask {
            code: Code::BuiltIn(OpKind::Sum.plain(), dtype),
            kept,
            reduced,
            results,
            len,
            address: 0x1000,
        }
    }

    fn check(task: &ViewTask, shape: Shape) -> ViewLaunch {
        let launch = ViewLaunch::new(task, shape);
        let ViewLaunch { across, share, block, blocks, .. } = launch;
        let what = format!("{launch:?} of {task:?}");
        assert!(block.is_power_of_two() && (32..=256).contains(&block), "{what}");
        assert!(across.is_power_of_two() && across <= block && i32::try_from(blocks).is_ok(), "{what}");
        let strips = task.results.div_ceil(across.into());
        assert_eq!(u64::from(blocks), strips * u64::from(share), "{what}");
        assert!(share > 0 && share < 1 << 20, "{what}");
        // The kernels count results, and threads that share one, in 32 bits.
        assert!(strips * u64::from(across) < 1 << 32, "{what}");
        let slots = u64::from(blocks) * u64::from(across) * SLOT_BYTES;
        assert!(share == 1 || slots <= AxisLaunch::SLOTS, "{what}");
        let each = u64::from(block / across);
        let units = task.len / launch.unit(task);
        assert!(u64::from(share - 1) * each < units, "an idle block: {what}");
        launch
    }

    #[test]
    fn every_view_has_a_launch_that_its_kernel_takes() {
        let sizes = || (0..36).flat_map(|log2| [1_u64 << log2, (1 << log2) + 1, 3 << log2]);
        for len in sizes() {
            for results in sizes().filter(|results| results.saturating_mul(len) <= 1 << 35) {
                if results > 1 << 31 {
                    continue;
                }
                for strides in [(1, 3), (3, 1), (16, 1), (1, 1), (5, 7)] {
                    for shape in [H200, SMALL] {
                        for dtype in [Dtype::I8, Dtype::F32, Dtype::F64] {
                            check(&task(&[(results, strides.0)], &[(len, strides.1)], dtype), shape);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn neighbouring_threads_follow_the_smaller_stride() {
        let (groups, elements) = (ViewKernel::Groups, ViewKernel::Elements);
        let of = |kept: &[(u64, u64)], reduced: &[(u64, u64)]| {
            let launch = check(&task(kept, reduced, Dtype::F32), H200);
            (launch.kernel, launch.along, launch.across, launch.share)
        };
        // Reduces the first axis and the last one of an array of 64 × 4096 × 1024.
        assert_eq!(of(&[(4096, 1024)], &[(64, 1 << 22), (1024, 1)]), (groups, true, 1, 1));
        // Reduces every second element of a buffer, then of each row.
        assert_eq!(of(&[], &[(1 << 28, 2)]), (elements, true, 1, 792));
        assert_eq!(of(&[(1 << 24, 32)], &[(16, 2)]), (elements, true, 32, 1));
        // A length or a stride that makes groups unaligned.
        assert_eq!(of(&[(4096, 1024)], &[(64, 1 << 22), (1023, 1)]).0, elements);
        assert_eq!(of(&[(4096, 1025)], &[(64, 1 << 22), (1024, 1)]).0, elements);
        assert_eq!(of(&[(4096, 1)], &[(64, 1 << 22), (1024, 1)]).0, elements);
        // Neighbouring threads take neighbouring results.
        assert_eq!(of(&[(1 << 18, 1)], &[(64, 1 << 20), (16, 1 << 18)]), (elements, false, 64, 1));
        assert_eq!(of(&[(512, 1)], &[(64, 1 << 20), (512, 1 << 10)]), (elements, false, 32, 49));
        assert_eq!(of(&[(1 << 24, 1)], &[(4, 1 << 26), (4, 1 << 24)]), (elements, false, 256, 1));
    }
}
