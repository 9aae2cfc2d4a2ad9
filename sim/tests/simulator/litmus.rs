//! Model checking: allowed and forbidden outcomes of small programs from the literature.

use std::collections::BTreeSet;

use warpfold_sim::{Args, Config, Exploration, ExploreError, Explored, Gpu, Launch, Module};

/// Returns a module whose entry `litmus` runs one text per block. `%x` and `%y` are the addresses of two
/// words, initially 0; each block's observed values are left in `%a` and `%b`.
fn module(blocks: &[&str]) -> Module {
    let mut text = HEAD.to_owned();
    for (index, block) in blocks.iter().enumerate() {
        text += &format!(
            "setp.eq.u32 %p, %block, {index};\n@!%p bra OVER_{index};\n{block}\nOVER_{index}:\n"
        );
    }
    text += TAIL;
    Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

const HEAD: &str = "
.version 7.8
.target sm_90
.address_size 64
.shared .align 4 .b8 shm[4];
.visible .entry litmus(.param .u64 memory)
{
    .reg .pred %p, %q;
    .reg .b32 %block, %thread, %a, %b, %c;
    .reg .b64 %x, %y, %out, %row;
    mov.u32 %block, %ctaid.x;
    mov.u32 %thread, %tid.x;
    ld.param.u64 %x, [memory];
    add.s64 %y, %x, 8;
    mov.u32 %a, 0;
    mov.u32 %b, 0;
";
const TAIL: &str = "
    setp.ne.u32 %p, %thread, 0;
    @%p ret;
    mul.wide.u32 %row, %block, 8;
    add.s64 %out, %x, %row;
    st.global.v2.u32 [%out+64], {%a, %b};
    ret;
}
";

const BYTES: usize = 128;

fn words(gpu: &Gpu, memory: u64) -> Vec<u32> {
    let mut bytes = [0; BYTES];
    gpu.read(memory, &mut bytes).expect("memory");
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes"))).collect()
}

/// Every outcome: `a` and `b` of each block, then the final x and y.
type Outcomes = BTreeSet<Vec<u32>>;

fn explore_blocks_of(threads: u32, blocks: &[&str]) -> Result<(Outcomes, Explored), ExploreError> {
    let module = module(blocks);
    let gpu = Gpu::new(Config::default());
    let memory = gpu.alloc(BYTES as u64)?;
    let args = Args::new().ptr(memory);
    let launch = Launch::linear(blocks.len() as u32, threads);
    let exploration = Exploration::new(&gpu).launch(&module, "litmus", &launch, &args)?;
    let mut outcomes = Outcomes::new();
    let explored = exploration.run(|gpu| {
        let words = words(gpu, memory);
        outcomes.insert([&words[16..16 + 2 * blocks.len()], &[words[0], words[2]]].concat());
        Ok(())
    })?;
    println!("{} outcomes, {explored:?}", outcomes.len());
    Ok((outcomes, explored))
}

fn explore(blocks: &[&str]) -> Outcomes {
    explore_blocks_of(1, blocks).unwrap_or_else(|error| panic!("{error}")).0
}

fn second_sees(blocks: &[&str], a: u32, b: u32) -> bool {
    explore(blocks).iter().any(|outcome| outcome[2..4] == [a, b])
}

/// Runs message passing with message x and flag y. Returns whether y can be observed without x.
fn message_passing(write: &str, read: &str) -> bool {
    let write = format!("st.global.u32 [%x], 1;\n{write}");
    let read = format!("{read}\nld.global.u32 %b, [%x];");
    second_sees(&[&write, &read], 1, 0)
}

const RELEASE: &str = "st.release.gpu.global.u32 [%y], 1;";
const ACQUIRE: &str = "ld.acquire.gpu.global.u32 %a, [%y];";
const STORE: &str = "st.relaxed.gpu.global.u32 [%y], 1;";
const LOAD: &str = "ld.relaxed.gpu.global.u32 %a, [%y];";

#[test]
fn release_acquire_passes_a_message() {
    let fence = "fence.acq_rel.gpu;";
    for write in [RELEASE, &format!("{fence}{STORE}"), &format!("membar.gl;{STORE}")] {
        for read in [ACQUIRE, &format!("{LOAD}{fence}"), &format!("{LOAD}fence.sc.gpu;")] {
            assert!(!message_passing(write, read), "{write} {read}");
        }
        assert!(message_passing(write, LOAD), "{write}");
    }
    assert!(message_passing(STORE, ACQUIRE));
    assert!(message_passing("st.global.u32 [%y], 1;", ACQUIRE), "a weak store releases nothing");
    assert!(message_passing(&format!("{fence}st.global.u32 [%y], 1;"), ACQUIRE));
    assert!(message_passing(RELEASE, "ld.global.u32 %a, [%y]; fence.acq_rel.gpu;"));
}

#[test]
fn a_scope_within_the_block_orders_nothing_between_blocks() {
    assert!(message_passing("st.release.cta.global.u32 [%y], 1;", ACQUIRE));
    assert!(message_passing(RELEASE, "ld.acquire.cta.global.u32 %a, [%y];"));
    assert!(message_passing(&format!("fence.acq_rel.cta;{STORE}"), ACQUIRE));
}

#[test]
fn atomics_extend_release_sequences() {
    let add = |order: &str| format!("atom{order}.gpu.global.add.u32 %c, [%y], 1;");
    assert!(!message_passing(&add(".release"), ACQUIRE));
    assert!(!message_passing(&add(".acq_rel"), &add(".acquire").replace("%c", "%a")));
    assert!(message_passing(&add(".relaxed"), ACQUIRE));
    assert!(message_passing(&add(""), ACQUIRE), "an atomic without an order is relaxed");
    let blocks = [
        &format!("st.global.u32 [%x], 1;{}", add(".release")),
        &add(".relaxed"),
        "ld.acquire.gpu.global.u32 %a, [%y]; ld.global.u32 %b, [%x];",
    ];
    let outcomes = explore(&blocks);
    assert!(outcomes.iter().any(|outcome| outcome[4..6] == [2, 1]));
    assert!(!outcomes.iter().any(|outcome| outcome[4..6] == [2, 0]));
}

#[test]
fn store_buffering_needs_sc_fences() {
    let both_miss = |between: &str, store: &str, load: &str| {
        let block = |mine: &str, other: &str| {
            format!("st{store}.global.u32 [{mine}], 1;{between}ld{load}.global.u32 %a, [{other}];")
        };
        let outcomes = explore(&[&block("%x", "%y"), &block("%y", "%x")]);
        outcomes.iter().any(|outcome| (outcome[0], outcome[2]) == (0, 0))
    };
    assert!(both_miss("", ".relaxed.gpu", ".relaxed.gpu"));
    assert!(both_miss("", ".release.gpu", ".acquire.gpu"));
    assert!(both_miss("fence.acq_rel.gpu;", ".relaxed.gpu", ".relaxed.gpu"));
    assert!(!both_miss("fence.sc.gpu;", ".relaxed.gpu", ".relaxed.gpu"));
    assert!(!both_miss("fence.sc.gpu;", "", ""));
}

#[test]
fn strong_loads_of_one_location_are_coherent() {
    let goes_back = |load: &str| {
        let reads = format!("ld{load}.global.u32 %a, [%x]; ld{load}.global.u32 %b, [%x];");
        second_sees(&["st.relaxed.gpu.global.u32 [%x], 1;", &reads], 1, 0)
    };
    assert!(!goes_back(".relaxed.gpu"));
    assert!(!goes_back(".volatile"));
    assert!(goes_back(""), "weak loads are not kept in order");
}

#[test]
fn stores_to_two_locations_can_be_reordered() {
    let block = |first: &str, second: &str| {
        format!("st.relaxed.gpu.global.u32 [{first}], 1; st.relaxed.gpu.global.u32 [{second}], 2;")
    };
    let outcomes = explore(&[&block("%x", "%y"), &block("%y", "%x")]);
    let last: BTreeSet<_> = outcomes.iter().map(|outcome| (outcome[4], outcome[5])).collect();
    assert_eq!(last, BTreeSet::from([(1, 1), (1, 2), (2, 1), (2, 2)]));
}

#[test]
fn independent_readers_agree_only_with_sc_fences() {
    let disagree = |between: &str| {
        let read = |first: &str, second: &str| {
            format!(
                "ld.acquire.gpu.global.u32 %a, [{first}];{between}
                 ld.acquire.gpu.global.u32 %b, [{second}];"
            )
        };
        let write = |place: &str| format!("st.relaxed.gpu.global.u32 [{place}], 1;");
        let outcomes = explore(&[&write("%x"), &write("%y"), &read("%x", "%y"), &read("%y", "%x")]);
        outcomes.iter().any(|outcome| outcome[4..8] == [1, 0, 1, 0])
    };
    assert!(disagree(""));
    assert!(!disagree("fence.sc.gpu;"));
}

#[test]
fn atomics_lose_nothing() {
    let add = "atom.relaxed.gpu.global.add.u32 %a, [%x], 1; red.relaxed.gpu.global.add.u32 [%y], 1;";
    let outcomes = explore(&[add; 3]);
    assert!(outcomes.iter().all(|outcome| outcome[6..] == [3, 3]));
    let firsts: BTreeSet<_> = outcomes.iter().map(|o| [o[0], o[2], o[4]]).collect();
    assert_eq!(firsts.len(), 6, "each order of the three");
}

/// Explores blocks that each store 1 to a slot and increment the counter. The last one adds the slots.
fn last_block(count: &str) -> (Outcomes, Explored) {
    let block = format!(
        ".reg .pred %last; .reg .b32 %v; .reg .b64 %at;
         mul.wide.u32 %at, %block, 8; add.s64 %at, %at, %x; st.global.u32 [%at+96], 1;
         {count} %c, [%x], 2;
         setp.eq.u32 %last, %c, 2;
         @%last ld.global.u32 %a, [%x+96]; @%last ld.global.u32 %v, [%x+104]; @%last add.u32 %a, %a, %v;
         @%last ld.global.u32 %v, [%x+112]; @%last add.u32 %a, %a, %v;"
    );
    let blocks: Vec<String> = (0..3).map(|_| format!("{{ {block} }}")).collect();
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    explore_blocks_of(1, &blocks).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn last_block_sees_every_counted_store() {
    let sums =
        |outcomes: &Outcomes| -> BTreeSet<u32> { outcomes.iter().map(|o| o[0] + o[2] + o[4]).collect() };
    let (outcomes, _) = last_block("atom.acq_rel.gpu.global.inc.u32");
    assert_eq!(sums(&outcomes), BTreeSet::from([3]));
    assert!(outcomes.iter().all(|outcome| outcome[6] == 0), "the counter wraps around to 0");
    for broken in ["atom.relaxed.gpu", "atom.acquire.gpu", "atom.release.gpu", "atom.acq_rel.cta"] {
        let (outcomes, _) = last_block(&format!("{broken}.global.inc.u32"));
        assert_eq!(sums(&outcomes), BTreeSet::from([1, 2, 3]), "{broken}");
    }
}

#[test]
fn block_barrier_makes_release_cumulative() {
    // In block 0, the last of 64 threads writes, and the first one releases. In block 1, the last thread
    // acquires, and the first one reads.
    let write = "setp.eq.u32 %q, %thread, 63; @%q st.global.u32 [%x], 1; BARRIER
        setp.eq.u32 %q, %thread, 0; @%q st.release.gpu.global.u32 [%y], 1;";
    let read = "setp.eq.u32 %q, %thread, 63; @%q ld.acquire.gpu.global.u32 %a, [%y];
        @%q st.shared.u32 [shm], %a; bar.sync 0; setp.eq.u32 %q, %thread, 0;
        @%q ld.shared.u32 %a, [shm]; @%q ld.global.u32 %b, [%x];";
    let stale = |barrier: &str| {
        let found = explore_blocks_of(64, &[&write.replace("BARRIER", barrier), read]);
        let (outcomes, _) = found.unwrap_or_else(|error| panic!("{error}"));
        assert!(outcomes.iter().any(|outcome| outcome[2..4] == [1, 1]));
        outcomes.iter().any(|outcome| outcome[2..4] == [1, 0])
    };
    assert!(!stale("bar.sync 0;"));
    assert!(stale(""));
}

fn wait(load: &str) -> String {
    format!("WAIT: {load} setp.eq.u32 %q, %a, 0; @%q bra WAIT; ld.global.u32 %b, [%x];")
}

#[test]
fn wait_loop_repeats_until_a_new_value() {
    let write = format!("st.global.u32 [%x], 1;{RELEASE}");
    let outcomes = explore(&[&write, &wait(ACQUIRE)]);
    assert!(outcomes.iter().all(|outcome| outcome[2..4] == [1, 1]));
    assert!(second_sees(&[&write, &wait(LOAD)], 1, 0));
}

#[test]
fn wait_that_may_never_end_is_reported() {
    for (write, load) in [("st.global.u32 [%x], 1;", ACQUIRE), (RELEASE, "ld.global.u32 %a, [%y];")] {
        let error = explore_blocks_of(1, &[write, &wait(load)]).expect_err("it waits for ever");
        let ExploreError::Wrong { reason, .. } = error else { panic!("{error}") };
        assert_eq!(reason, "no step of other warps is certain to let block 1 continue");
    }
}

fn dependent(first: &str, second: &str, overlapping: bool) -> BTreeSet<u32> {
    let (one, two) = (module(&[first]), module(&["", second]));
    let gpu = Gpu::new(Config::default());
    let memory = gpu.alloc(BYTES as u64).expect("memory");
    let args = Args::new().ptr(memory);
    let both = Exploration::new(&gpu).launch(&one, "litmus", &Launch::linear(1, 1), &args).expect("one");
    let shape = Launch::linear(2, 1);
    let both = match overlapping {
        true => both.launch_overlapping(&two, "litmus", &shape, &args),
        false => both.launch(&two, "litmus", &shape, &args),
    };
    let mut seen = BTreeSet::new();
    let run = both.expect("two").run(|gpu| {
        seen.insert(words(gpu, memory)[18]);
        Ok(())
    });
    println!("{:?}", run.unwrap_or_else(|error| panic!("{error}")));
    seen
}

#[test]
fn dependent_launch_sees_writes_after_its_wait() {
    let write = "griddepcontrol.launch_dependents; st.global.u32 [%x], 1;";
    let read = "ld.global.u32 %a, [%x];";
    assert_eq!(dependent(write, read, false), BTreeSet::from([1]));
    assert_eq!(dependent(write, &format!("griddepcontrol.wait;{read}"), true), BTreeSet::from([1]));
    assert_eq!(dependent(write, read, true), BTreeSet::from([0, 1]));
    // Even a late launch must wait, because nothing else makes the first launch's stores visible.
    let late = "st.global.u32 [%x], 1; griddepcontrol.launch_dependents;";
    assert_eq!(dependent(late, read, true), BTreeSet::from([0, 1]));
}

#[test]
fn exploration_restores_memory() {
    let module = module(&["st.global.u32 [%x], 7;"]);
    let gpu = Gpu::new(Config::default());
    let memory = gpu.alloc(BYTES as u64).expect("memory");
    gpu.write(memory, &[9; BYTES]).expect("memory");
    let args = Args::new().ptr(memory);
    let one =
        Exploration::new(&gpu).launch(&module, "litmus", &Launch::linear(1, 1), &args).expect("one");
    let explored = one.run(|gpu| {
        assert_eq!(words(gpu, memory)[0], 7);
        Ok(())
    });
    assert_eq!(explored.map(|explored| explored.executions), Ok(1));
    assert_eq!(words(&gpu, memory), [0x0909_0909; BYTES / 4]);
}

#[test]
fn unsupported_explorations_are_refused() {
    let error = explore_blocks_of(1, &["st.global.u32 [%x], 1;", "ld.global.u8 %a, [%x];"]);
    assert!(matches!(error, Err(ExploreError::Unsupported(reason)) if reason.contains("one size")));
    let module = module(&["ld.relaxed.gpu.global.u32 %a, [%x]; st.relaxed.gpu.global.u32 [%x], 1;"; 2]);
    let gpu = Gpu::new(Config::default());
    let memory = gpu.alloc(BYTES as u64).expect("memory");
    let args = Args::new().ptr(memory);
    let launch = Launch::linear(2, 32);
    let many = Exploration::new(&gpu).with_limit(100).launch(&module, "litmus", &launch, &args);
    assert_eq!(many.expect("a launch").run(|_| Ok(())), Err(ExploreError::TooMany { limit: 100 }));
}
