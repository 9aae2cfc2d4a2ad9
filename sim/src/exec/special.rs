//! Special registers that are constant while a block runs.

use crate::program::{MaskRelation, RESERVED_SHARED, Special};

use super::{Launched, PlaceInGrid};

pub(super) fn special_value(
    launch: &Launched<'_>,
    place: &PlaceInGrid,
    warp: u32,
    lane: usize,
    special: Special,
) -> u64 {
    let lane = lane as u32;
    let axis = |values: [u32; 3], axis: u8| u64::from(values[usize::from(axis)]);
    match special {
        Special::Tid(a) => axis(launch.thread_index(warp, lane), a),
        Special::Ntid(a) => axis(launch.shape.block, a),
        Special::Ctaid(a) => axis(place.block, a),
        Special::Nctaid(a) => axis(launch.shape.grid, a),
        Special::LaneId => u64::from(lane),
        Special::WarpId => u64::from(warp),
        Special::NWarpId => u64::from(launch.warps()),
        Special::SmId => place.linear % u64::from(launch.config.sm_count.max(1)),
        Special::NSmId => u64::from(launch.config.sm_count.max(1)),
        Special::GridId => launch.grid_id,
        Special::LaneMask(relation) => u64::from(lane_mask(relation, lane)),
        Special::DynamicShared => u64::from(launch.shape.dynamic_shared),
        Special::TotalShared => u64::from(launch.user_shared_bytes()),
        Special::AggregateShared => u64::from(launch.shared_bytes()),
        Special::Reserved(offset) => u64::from(launch.reserved_from() + offset),
        Special::ReservedCapacity => u64::from(RESERVED_SHARED),
        Special::WorkspaceHigh => launch.workspace >> 32,
        Special::WorkspaceLow => launch.workspace & u64::from(u32::MAX),
        Special::ClusterId(a) => axis(place.cluster, a),
        Special::ClusterCount(a) => axis(launch.cluster_count(), a),
        Special::PlaceInCluster(a) => axis(place.within, a),
        Special::ClusterShape(a) => axis(launch.cluster, a),
        Special::RankInCluster => u64::from(place.rank),
        Special::ClusterSize => u64::from(launch.cluster_blocks()),
        Special::IsExplicitCluster => u64::from(launch.explicit_cluster),
        Special::Zero => 0,
    }
}

fn lane_mask(relation: MaskRelation, lane: u32) -> u32 {
    let equal = 1 << lane;
    let less = equal - 1;
    match relation {
        MaskRelation::Equal => equal,
        MaskRelation::Less => less,
        MaskRelation::LessEqual => less | equal,
        MaskRelation::Greater => !(less | equal),
        MaskRelation::GreaterEqual => !less,
    }
}
