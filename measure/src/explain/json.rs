//! Runs as JSON, one object per line.

use serde_json::{Value, json};
use warpfold_sim::{AtomicAccess, GlobalAccess, SharedAccess, Tally};

use super::Explained;

pub(super) fn object(one: &Explained) -> Value {
    let Explained { run, facts, attribution, .. } = one;
    let launches = run.launches.iter().map(|launch| {
        json!({
            "entry": launch.entry,
            "grid": launch.grid,
            "block": launch.block,
            "shared_bytes": launch.shared_bytes,
            "counters": tally(&launch.profile.total()),
        })
    });
    let steps = facts.steps.iter().map(|step| {
        json!({
            "blocks": step.blocks,
            "active_warps": step.active_warps,
            "active_blocks": step.active_blocks,
            "stores": step.stores,
            "warp_instructions": step.warp_instructions,
            "shared": shared(&step.shared),
        })
    });
    let lines = attribution.files.iter().flat_map(|(file, lines)| {
        let line =
            move |(line, of): (&u32, &Tally)| json!({"file": file, "line": line, "counters": tally(of)});
        lines.iter().map(line)
    });
    json!({
        "variant": run.case.variant.id,
        "op": run.case.op,
        "dtype": run.case.dtype,
        "n": run.case.n,
        "stride": run.case.moves().then_some(run.case.stride),
        "compiler": run.compiler,
        "launches": launches.collect::<Vec<_>>(),
        "counters": tally(&facts.total),
        "registers": facts.registers,
        "occupancy": {
            "warps": facts.occupancy.warps,
            "blocks": facts.occupancy.blocks,
            "limit": facts.occupancy.limit.to_string(),
            "estimate": facts.registers.is_none(),
        },
        "bytes_in_flight": facts.bytes_in_flight,
        "copy_bytes_in_flight": facts.copy_bytes_in_flight,
        "hottest_atomic": facts.hottest_atomic,
        "tree": {"active_warps": facts.active_warps(), "conflict_degrees": facts.conflict_degrees()},
        "steps": steps.collect::<Vec<_>>(),
        "lines": lines.collect::<Vec<_>>(),
        "elsewhere": tally(&attribution.elsewhere),
    })
}

pub(super) fn tally(tally: &Tally) -> Value {
    json!({
        "warp_instructions": tally.warp_instructions,
        "thread_instructions": tally.thread_instructions,
        "mean_lanes": tally.mean_lanes(),
        "branches": tally.branches,
        "divergent_branches": tally.divergent_branches,
        "block_barriers": tally.block_barriers,
        "warp_barriers": tally.warp_barriers,
        "shuffles": tally.shuffles,
        "shared_loads": shared(&tally.shared_loads),
        "shared_stores": shared(&tally.shared_stores),
        "shared_atomics": shared(&tally.shared_atomics),
        "remote_requests": tally.remote_requests,
        "global_loads": global(&tally.global_loads),
        "global_stores": global(&tally.global_stores),
        "global_atomics": atomics(&tally.global_atomics),
        "copies": tally.copies,
        "copy_bytes": tally.copy_bytes,
    })
}

fn shared(access: &SharedAccess) -> Value {
    json!({
        "requests": access.requests,
        "wavefronts": access.wavefronts,
        "conflicts": access.conflicts(),
        "degree": access.degree,
    })
}

fn global(access: &GlobalAccess) -> Value {
    json!({
        "requests": access.requests,
        "sectors": access.sectors,
        "useful_bytes": access.useful_bytes,
        "efficiency": access.efficiency(),
    })
}

fn atomics(access: &AtomicAccess) -> Value {
    json!({
        "requests": access.requests,
        "operations": access.operations,
        "sectors": access.sectors,
        "passes": access.passes,
    })
}
