//! Observers: the events that they receive, and that they do not affect results.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::common::{device, module, read_u32s, u32s};
use warpfold_sim::{
    AccessKind, Args, BarrierKind, BlockInfo, Class, Completion, Config, Counter, Detail, Event, Gpu,
    InstructionInfo, Launch, MbarrierOperation, Observer, Space,
};

const SEQUENTIAL: &str = include_str!("../ptx/sequential_llvm.ptx");
const GRID: &str = include_str!("../ptx/grid.ptx");
const HOPPER: &str = include_str!("../ptx/hopper.ptx");

#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Observer for Log {
    type Block = Vec<String>;

    fn block_begin(&self, block: &BlockInfo<'_>) -> Vec<String> {
        vec![format!("block {:?} of {} warps", block.block, block.warps)]
    }

    fn instruction(&self, lines: &mut Vec<String>, event: &Event<'_>) {
        let detail = match event.detail {
            Detail::None => String::new(),
            Detail::Memory(m) => {
                let first = m.addresses[m.lanes.trailing_zeros() as usize & 31];
                format!(
                    " {:?} {} {} bytes lanes {:x} at {first:x}{}",
                    m.kind,
                    m.space,
                    m.bytes,
                    m.lanes,
                    if m.generic { " generic" } else { "" }
                )
            }
            Detail::Branch(b) => format!(" taken {:x} diverged {}", b.taken, b.diverged),
            Detail::Barrier(b) => format!(" {b:?}"),
            Detail::Shuffle(s) => format!(" from {:?} in range {:x}", &s.sources[..4], s.in_range),
            _ => " other".to_owned(),
        };
        let Event { warp, active, executed, .. } = *event;
        let opcode = &event.instruction.opcode;
        lines.push(format!("{warp} {opcode} {active:x} {executed:x}{detail}"));
    }

    fn block_end(&self, lines: Vec<String>) {
        self.0.lock().expect("no panic").extend(lines);
    }
}

fn log(body: &str, threads: u32) -> Vec<String> {
    let text = format!(
        ".version 7.8 .target sm_80 .entry k(.param .u64 pointer) {{ .reg .pred %p<4>; .reg .b32 %r<8>; \
         .reg .b64 %rd<4>; .shared .align 16 .b8 sh[64]; {body} }}"
    );
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let data = u32s(&gpu, &[0; 64]);
    let log = Log::default();
    let args = Args::new().ptr(data);
    gpu.launch_observed(&module(&text), "k", &Launch::linear(1, threads), &args, &log).expect("runs");
    log.0.into_inner().expect("no panic")
}

/// Observes memory and barriers, and records which other events are reported.
#[derive(Default)]
struct Memories(Mutex<Vec<String>>);

impl Observer for Memories {
    type Block = Vec<String>;

    fn block_begin(&self, _: &BlockInfo<'_>) -> Vec<String> {
        Vec::new()
    }

    fn instruction(&self, told: &mut Vec<String>, event: &Event<'_>) {
        told.push(format!("{} {}", event.warp, event.instruction.text));
    }

    fn ignores(&self, instruction: &InstructionInfo) -> bool {
        !matches!(instruction.class, Class::Memory | Class::Barrier)
    }

    fn block_end(&self, told: Vec<String>) {
        self.0.lock().expect("no panic").extend(told);
    }
}

#[test]
fn ignored_instructions_are_reported_after_barriers_only() {
    let text = ".version 7.8 .target sm_80 .entry k(.param .u64 pointer) { .reg .b32 %r<4>;
        .shared .align 4 .b8 sh[256];
        mov.u32 %r0, %tid.x; mov.u32 %r1, 1; bra NEXT;
        NEXT: mad.lo.u32 %r0, %r0, 4, sh; st.shared.u32 [%r0], %r1;
        bar.sync 0; add.u32 %r1, %r1, 2; add.u32 %r1, %r1, 3;
        bar.sync 0; bra LAST;
        LAST: mov.u32 %r2, 4; ld.shared.u32 %r2, [%r0]; ret; }";
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let memories = Memories::default();
    let args = Args::new().ptr(0);
    gpu.launch_observed(&module(text), "k", &Launch::linear(1, 64), &args, &memories).expect("runs");
    let told = memories.0.into_inner().expect("no panic");
    for warp in 0..2 {
        let told: Vec<&str> =
            told.iter().filter_map(|line| line.strip_prefix(&format!("{warp} "))).collect();
        let (first, rest) = told.split_at(5);
        assert_eq!(
            first,
            ["st.shared.u32 [%r0], %r1", "bar.sync 0", "add.u32 %r1, %r1, 2", "bar.sync 0", "bra LAST"]
        );
        // `ret` is never ignored, because it does more than compute.
        assert_eq!(rest, ["ld.shared.u32 %r2, [%r0]", "ret"]);
    }
}

#[test]
fn events_have_masks_addresses_and_outcomes() {
    let lines = log(
        "ld.param.u64 %rd0, [pointer]; mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 4;
         @%p0 add.u32 %r1, %r0, 1; @%p0 bra LOW; red.global.add.u32 [%rd0+8], 1;
         LOW: shfl.sync.down.b32 %r2, %r0, 1, 31, 0xff; @!%p0 st.shared.u16 [sh+2], 5; bar.sync 3; ret;",
        8,
    );
    assert_eq!(
        lines,
        [
            "block [0, 0, 0] of 1 warps",
            "0 ld ff ff Load param 8 bytes lanes ff at 0",
            "0 mov ff ff",
            "0 setp ff ff",
            "0 add ff f",
            "0 bra ff f taken f diverged true",
            "0 red f0 f0 Reduction global 4 bytes lanes f0 at 1000000000008",
            "0 shfl ff ff from [1, 2, 3, 4] in range 7fffffff",
            "0 st ff f0 Store shared 2 bytes lanes f0 at 2",
            "0 bar ff ff Sync(3)",
            "0 ret ff ff",
        ]
    );
}

#[test]
fn a_generic_access_gives_an_event_for_each_space() {
    let lines = log(
        "ld.param.u64 %rd0, [pointer]; mov.u32 %r0, %tid.x; setp.lt.u32 %p0, %r0, 2; mov.u64 %rd1, sh;
         cvta.shared.u64 %rd1, %rd1; selp.b64 %rd2, %rd1, %rd0, %p0; ld.u32 %r1, [%rd2+4];",
        4,
    );
    assert_eq!(
        lines[7..],
        [
            "0 ld f f Load shared 4 bytes lanes 3 at 4 generic",
            "0 ld f f Load global 4 bytes lanes c at 1000000000004 generic",
            "0 ret f f",
        ]
    );
}

#[test]
fn an_observed_run_leaves_the_same_memory() {
    let module = module(SEQUENTIAL);
    let entry = module.entry("sequential_sum_u32").expect("entry");
    let values: Vec<u32> = (0..2000).collect();
    let run = |observer: Option<&Counter>| {
        let gpu = Gpu::new(device());
        let (input, output) = (u32s(&gpu, &values), u32s(&gpu, &[0; 16]));
        let launch = Launch::linear(16, 128).with_dynamic_shared(512);
        let args = Args::new().ptr(input).u64(2000).ptr(output);
        let stats = match observer {
            Some(observer) => gpu.launch_observed(&module, entry.name(), &launch, &args, observer),
            None => gpu.launch(&module, entry.name(), &launch, &args),
        };
        (stats.expect("runs"), read_u32s(&gpu, input, 2000), read_u32s(&gpu, output, 16))
    };
    let counter = Counter::new();
    let (plain, observed) = (run(None), run(Some(&counter)));
    assert_eq!(plain, observed);
    let counts = counter.counts();
    assert_eq!(counts.executed.iter().sum::<u64>(), plain.0.warp_instructions);
    assert_eq!(counts.lanes.iter().sum::<u64>(), plain.0.thread_instructions);
    assert_eq!(counts.blocks, 16);
    // In each block, warp 0 diverges at strides 16, 8, 4, 2 and 1 and at the last test. No other warps
    // diverge, because the number of threads is a multiple of the larger strides. The last block with
    // data ends within a warp.
    assert_eq!(counts.divergent_branches, 16 * 6 + 1);
    assert_eq!(counts.executed.len(), entry.instructions().len());
}

#[test]
fn preempted_blocks_keep_their_observation() {
    let gpu = Gpu::new(Config { quantum: 3, ..device() });
    let (count, data) = (u32s(&gpu, &[0]), u32s(&gpu, &[0; 160]));
    let counter = Counter::new();
    let (args, launch) = (Args::new().ptr(count).ptr(data), Launch::linear(40, 64));
    let stats = gpu.launch_observed(&module(GRID), "grid_barrier", &launch, &args, &counter);
    assert_eq!(counter.counts().executed.iter().sum::<u64>(), stats.expect("runs").warp_instructions);
    assert_eq!(counter.counts().blocks, 40);
}

#[test]
fn instructions_have_classes_and_source_locations() {
    let module = module(SEQUENTIAL);
    let infos = module.entry("sequential_sum_u32").expect("entry").instructions();
    let find = |text: &str| infos.iter().find(|info| info.text.starts_with(text)).expect(text);
    assert_eq!(find("bar.sync").class, Class::Barrier);
    assert_eq!(find("add.s64").class, Class::Integer64);
    assert_eq!(find("add.s32").class, Class::Integer);
    assert_eq!(find("ld.global").class, Class::Memory);
    assert_eq!(find("@%p1 bra").class, Class::Control);
    let load = find("ld.global.b32");
    assert_eq!(load.text, "ld.global.b32 %r13, [%rd3]");
    assert_eq!(
        SEQUENTIAL.lines().nth(load.line as usize - 1).expect("line").trim(),
        "ld.global.b32 \t%r13, [%rd3];"
    );
    let location = load.location.as_ref().expect("location");
    assert_eq!((&*location.file, location.line, location.column), ("src/reduce/tree.rs", 15, 18));
    assert_eq!(location.function.as_deref(), Some("load"));
    let outer = location.inlined_at.as_ref().expect("inlined");
    assert_eq!((&*outer.file, outer.line, outer.column), ("src/reduce/sequential.rs", 31, 5));
    assert_eq!(module.version(), (7, 8));
    assert_eq!(module.target(), "sm_90");
}

#[test]
fn barrier_kinds_and_access_kinds_reach_the_observer() {
    let lines = log("bar.arrive 1, 64; bar.warp.sync 15; .reg .b32 %x; bar.red.popc.u32 %x, 2, 1;", 4);
    let kinds = [BarrierKind::Arrive(1), BarrierKind::Warp(15), BarrierKind::Reduce(2)];
    for (line, kind) in lines[1..].iter().zip(kinds) {
        assert!(line.ends_with(&format!("{kind:?}")), "{line}");
    }
    assert_ne!(AccessKind::Atomic, AccessKind::Reduction);
    assert_eq!(Space::Shared.to_string(), "shared");
}

/// Records asynchronous work: numbered copies when they are issued and when they complete, and a line
/// for each access of another block and each operation on an mbarrier.
#[derive(Default)]
struct Copies(Mutex<Vec<CopiesOfBlock>>);

#[derive(Default)]
struct CopiesOfBlock {
    rank: u32,
    issued: BTreeMap<u64, (u32, u32, Completion)>,
    landed: BTreeMap<u64, (u32, u32, Completion)>,
    remote: Vec<(AccessKind, u32)>,
    mbarriers: Vec<(MbarrierOperation, u32)>,
    barriers: Vec<BarrierKind>,
}

fn copied(event: &Event<'_>) -> Option<(u64, (u32, u32, Completion))> {
    let Detail::Copy(copy) = event.detail else { return None };
    Some((copy.id, (copy.owner, copy.bytes, copy.completion)))
}

impl Observer for Copies {
    type Block = CopiesOfBlock;

    fn block_begin(&self, block: &BlockInfo<'_>) -> CopiesOfBlock {
        let x = block.cluster_index[0] * block.cluster[0] + block.rank;
        assert_eq!(block.block[0], x);
        CopiesOfBlock { rank: block.rank, ..CopiesOfBlock::default() }
    }

    fn instruction(&self, state: &mut CopiesOfBlock, event: &Event<'_>) {
        state.issued.extend(copied(event));
        match event.detail {
            Detail::Memory(memory) if memory.owner != state.rank => {
                assert_eq!(memory.space, Space::Shared);
                state.remote.push((memory.kind, memory.owner));
            }
            Detail::Mbarrier(mbarrier) => state.mbarriers.push((mbarrier.operation, mbarrier.owner)),
            Detail::Barrier(kind) => state.barriers.push(kind),
            _ => {}
        }
    }

    fn landed(&self, state: &mut CopiesOfBlock, event: &Event<'_>) {
        state.landed.extend(copied(event));
    }

    fn block_end(&self, state: CopiesOfBlock) {
        self.0.lock().expect("no panic").push(state);
    }
}

fn copies(entry: &str, launch: &Launch) -> Vec<CopiesOfBlock> {
    let gpu = Gpu::new(Config { threads: Some(1), ..device() });
    let (input, out) = (u32s(&gpu, &[1; 64]), u32s(&gpu, &[0; 512]));
    let args = if entry == "ring" { Args::new().ptr(out) } else { Args::new().ptr(input).ptr(out) };
    let copies = Copies::default();
    gpu.launch_observed(&module(HOPPER), entry, launch, &args, &copies).expect("runs");
    copies.0.into_inner().expect("no panic")
}

#[test]
fn copies_are_seen_when_they_are_issued_and_when_they_land() {
    let blocks = copies("broadcast", &Launch::linear(3, 16).with_cluster([3, 1, 1]));
    assert_eq!(blocks.len(), 3);
    for block in &blocks {
        assert_eq!(block.issued, block.landed, "rank {}", block.rank);
        let receives = |owner| block.issued.values().filter(|copy| copy.0 == owner).count();
        let expected = if block.rank == 0 { [2, 1, 1] } else { [1, 0, 0] };
        assert_eq!([receives(0), receives(1), receives(2)], expected, "rank {}", block.rank);
        assert!(block.issued.values().all(|&(owner, bytes, completion)| {
            bytes == 64 && matches!(completion, Completion::Mbarrier { owner: of, .. } if of == owner)
        }));
        assert!(block.mbarriers.contains(&(MbarrierOperation::Init, block.rank)));
        assert!(block.mbarriers.contains(&(MbarrierOperation::Wait, block.rank)));
        let barriers = block.barriers.iter().filter(|&&kind| kind == BarrierKind::ClusterWait).count();
        assert_eq!(barriers, 2);
    }
    let blocks = copies("stale", &Launch::linear(1, 1));
    let few: Vec<_> = blocks[0].landed.values().filter(|copy| copy.2 == Completion::Group).collect();
    assert_eq!(few, [&(0, 4, Completion::Group)]);
}

#[test]
fn accesses_of_other_blocks_name_their_owner() {
    for block in copies("ring", &Launch::linear(4, 32).with_cluster([2, 1, 1])) {
        let owner = 1 - block.rank;
        let kinds = [
            AccessKind::Store,
            AccessKind::Store,
            AccessKind::Atomic,
            AccessKind::Reduction,
            AccessKind::Store,
        ];
        assert_eq!(block.remote, kinds.map(|kind| (kind, owner)));
    }
}

#[test]
fn instruction_with_several_events_counts_once() {
    let gpu = Gpu::new(device());
    let (input, out) = (u32s(&gpu, &[1; 64]), u32s(&gpu, &[0; 64]));
    let counter = Counter::new();
    let (launch, args) =
        (Launch::linear(8, 16).with_cluster([8, 1, 1]), Args::new().ptr(input).ptr(out));
    let stats =
        gpu.launch_observed(&module(HOPPER), "broadcast", &launch, &args, &counter).expect("runs");
    let counts = counter.counts();
    assert_eq!(counts.executed.iter().sum::<u64>(), stats.warp_instructions);
    assert_eq!(counts.lanes.iter().sum::<u64>(), stats.thread_instructions);
}
