//! Special registers.

use crate::program::{MaskRelation, Special, Timer};

/// A special register that keeps its value while a block runs.
pub(super) fn find(name: &str, component: Option<&str>) -> Option<Special> {
    let axis = match component {
        None => None,
        Some("x") => Some(0),
        Some("y") => Some(1),
        Some("z") => Some(2),
        Some(_) => return None,
    };
    Some(match (name, axis) {
        ("%tid", Some(axis)) => Special::Tid(axis),
        ("%ntid", Some(axis)) => Special::Ntid(axis),
        // Without clusters, each block is a cluster of its own.
        ("%ctaid" | "%clusterid", Some(axis)) => Special::Ctaid(axis),
        ("%nctaid" | "%nclusterid", Some(axis)) => Special::Nctaid(axis),
        ("%cluster_ctaid", Some(_)) | ("%cluster_ctarank", None) => Special::Zero,
        ("%cluster_nctaid", Some(_)) | ("%cluster_nctarank", None) => Special::One,
        ("%laneid", None) => Special::LaneId,
        ("%warpid", None) => Special::WarpId,
        ("%nwarpid", None) => Special::NWarpId,
        ("%smid", None) => Special::SmId,
        ("%nsmid", None) => Special::NSmId,
        ("%gridid", None) => Special::GridId,
        ("%lanemask_eq", None) => Special::LaneMask(MaskRelation::Equal),
        ("%lanemask_lt", None) => Special::LaneMask(MaskRelation::Less),
        ("%lanemask_le", None) => Special::LaneMask(MaskRelation::LessEqual),
        ("%lanemask_gt", None) => Special::LaneMask(MaskRelation::Greater),
        ("%lanemask_ge", None) => Special::LaneMask(MaskRelation::GreaterEqual),
        ("%dynamic_smem_size", None) => Special::DynamicShared,
        ("%total_smem_size" | "%aggr_smem_size", None) => Special::TotalShared,
        // Without a driver behind the launch, its registers hold nothing.
        (name, None) if name.starts_with("%envreg") => Special::Zero,
        _ => return None,
    })
}

/// Whether a special register has 64 bits.
pub(super) const fn is_wide(special: Special) -> bool {
    matches!(special, Special::GridId)
}

/// A special register that changes as time passes, with its bits.
pub(super) fn timer(name: &str) -> Option<(Timer, bool)> {
    Some(match name {
        "%clock" => (Timer::Clock, false),
        "%clock_hi" => (Timer::ClockHigh, false),
        "%clock64" => (Timer::Clock, true),
        "%globaltimer" => (Timer::GlobalNanoseconds, true),
        "%globaltimer_lo" => (Timer::GlobalNanoseconds, false),
        "%globaltimer_hi" => (Timer::GlobalNanosecondsHigh, false),
        _ => return None,
    })
}
