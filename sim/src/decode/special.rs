//! Special registers.

use crate::program::{MaskRelation, RESERVED_SHARED, Special, Timer};

/// Returns a special register that is constant while a block runs.
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
        ("%ctaid", Some(axis)) => Special::Ctaid(axis),
        ("%nctaid", Some(axis)) => Special::Nctaid(axis),
        // In a launch without clusters, each block is its own cluster.
        ("%clusterid", Some(axis)) => Special::ClusterId(axis),
        ("%nclusterid", Some(axis)) => Special::ClusterCount(axis),
        ("%cluster_ctaid", Some(axis)) => Special::PlaceInCluster(axis),
        ("%cluster_nctaid", Some(axis)) => Special::ClusterShape(axis),
        ("%cluster_ctarank", None) => Special::RankInCluster,
        ("%cluster_nctarank", None) => Special::ClusterSize,
        ("%is_explicit_cluster", None) => Special::IsExplicitCluster,
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
        ("%total_smem_size", None) => Special::TotalShared,
        ("%aggr_smem_size", None) => Special::AggregateShared,
        ("%reserved_smem_offset_begin" | "%reserved_smem_offset_0", None) => Special::Reserved(0),
        ("%reserved_smem_offset_1", None) => Special::Reserved(RESERVED_SHARED / 2),
        ("%reserved_smem_offset_end", None) => Special::Reserved(RESERVED_SHARED),
        ("%reserved_smem_offset_cap", None) => Special::ReservedCapacity,
        // The address of a cooperative launch's grid barrier; every other `%envreg` is 0.
        ("%envreg1", None) => Special::WorkspaceHigh,
        ("%envreg2", None) => Special::WorkspaceLow,
        (name, None) if name.starts_with("%envreg") => Special::Zero,
        _ => return None,
    })
}

pub(super) const fn bits(special: Special) -> u32 {
    match special {
        Special::GridId => 64,
        Special::IsExplicitCluster => 1,
        _ => 32,
    }
}

/// Returns a special register that changes over time, and whether it has 64 bits.
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
