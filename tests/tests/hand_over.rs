//! Values on their way from block to block, in every order of the blocks' steps and with every value
//! that the PTX memory model lets a load see: the kernels' own PTX, and the same with each of the
//! operations that order it taken away, which must show. docs/memory-model.md has the argument.

use std::ops::Range;

use warpfold_abi::meeting;
use warpfold_sim::{Args, Config, Exploration, ExploreError, Explored, Gpu, Launch, Module};
use warpfold_tests::{library_ptx, ptx};

/// Threads of a block.
const THREADS: u32 = 32;

/// What a kernel is launched with, and what it must leave.
struct Case {
    entry: &'static str,
    blocks: u32,
    /// Launches, one behind the other.
    launches: u32,
    /// Whether they overlap, where they let each other.
    overlapping: bool,
    kind: Kind,
}

/// The arguments and result of a kernel.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// `ReduceOnce` of floats: partials and a counter.
    Once,
    /// The same with the counter of a cooperative launch, which keeps what it counted.
    Cooperative,
    /// `ReduceCut` of floats: slots. A sum.
    Sum,
    /// The same of doubles.
    Doubles,
    /// The same of floats, for the place of the least element.
    Place,
    /// The collectives' test kernels, on integers.
    Integers,
    /// `ReduceContinued` of floats, of a member of a group of devices; as many as launches. A sum.
    Members,
    /// The same of doubles, for the place of the least element.
    PlaceOfMembers,
}

/// The device memory of a case.
struct Memory {
    input: u64,
    slots: u64,
    counter: u64,
    output: u64,
    /// The address where members meet.
    meeting: u64,
}

/// Bytes that an output has, one per launch.
const OUTPUT: u64 = 16;
/// Bytes of all slots, or partials.
const SLOTS: u64 = 256;

impl Case {
    fn is_reducer(&self) -> bool {
        matches!(self.kind, Kind::Sum | Kind::Doubles | Kind::Place) || self.are_members()
    }

    /// Whether the launches are on devices of their own, and have a part of the input each.
    fn are_members(&self) -> bool {
        matches!(self.kind, Kind::Members | Kind::PlaceOfMembers)
    }

    /// Blocks of all launches that have a part of the input.
    fn parts(&self) -> u32 {
        self.blocks * if self.are_members() { self.launches } else { 1 }
    }

    /// Bytes of an element.
    fn width(&self) -> u32 {
        if matches!(self.kind, Kind::Doubles | Kind::PlaceOfMembers) { 8 } else { 4 }
    }

    /// Elements: a group per thread of the reducer, else one.
    fn elements(&self) -> u32 {
        let each = if self.is_reducer() { 16 / self.width() } else { 1 };
        each * THREADS * self.parts()
    }

    /// Small whole numbers, so that any order of additions is exact; every block has others.
    fn input(&self) -> Vec<u32> {
        let value = |index: u32| 1 + index % 3 + 100 * (index * self.parts() / self.elements());
        (0..self.elements()).map(value).collect()
    }

    /// The bits of a number in the case's element type.
    fn bits(&self, x: u32) -> u64 {
        match self.kind {
            Kind::Integers => x.into(),
            // The least of these is the first of the greatest, which the last block has.
            Kind::Place => (-(x as f32)).to_bits().into(),
            Kind::PlaceOfMembers => (-f64::from(x)).to_bits(),
            Kind::Doubles => f64::from(x).to_bits(),
            _ => (x as f32).to_bits().into(),
        }
    }

    fn expected(&self) -> u64 {
        let input = self.input();
        match self.kind {
            Kind::Place | Kind::PlaceOfMembers => {
                input.iter().position(|x| Some(x) == input.iter().max()).unwrap() as u64
            }
            _ => self.bits(input.iter().sum()),
        }
    }

    fn memory(&self, gpu: &Gpu) -> Memory {
        let alloc = |bytes| gpu.alloc(bytes).unwrap();
        let width = self.width() as usize;
        let bytes: Vec<u8> = self
            .input()
            .into_iter()
            .flat_map(|x| self.bits(x).to_le_bytes()[..width].to_vec())
            .collect();
        let input = alloc(bytes.len() as u64);
        gpu.write(input, &bytes).unwrap();
        // Members have an output of their own, besides the one for all.
        let output = alloc(OUTPUT * u64::from(self.launches + 1));
        let meeting = alloc(meeting::bytes(self.launches));
        Memory { input, slots: alloc(SLOTS), counter: alloc(4), output, meeting }
    }

    fn arguments(&self, memory: &Memory, launch: u32) -> Args {
        let Memory { input, slots, counter, output, meeting } = *memory;
        let (first, output) = (output, output + OUTPUT * u64::from(launch));
        let elements = u64::from(self.elements());
        match self.kind {
            Kind::Once | Kind::Cooperative => {
                Args::new().ptr(input).u64(elements).ptr(slots).ptr(counter).ptr(output)
            }
            Kind::Sum | Kind::Doubles | Kind::Place => {
                let groups = elements * u64::from(self.width()) / 16;
                let tile = u64::from(THREADS);
                Args::new().ptr(input).u64(0).u64(groups).u64(0).u64(tile).ptr(slots).ptr(output)
            }
            Kind::Integers => Args::new().ptr(input).ptr(slots).ptr(counter).ptr(output),
            Kind::Members | Kind::PlaceOfMembers => {
                let (launch, members) = (u64::from(launch), u64::from(self.launches));
                let before = elements / members * launch;
                let groups = elements / members * u64::from(self.width()) / 16;
                let (carried, others, copies) = (0, 0, 0);
                // One block hands nothing over.
                let slots = slots + 8 * launch;
                Args::new()
                    .ptr(input + before * u64::from(self.width()))
                    .u64(0)
                    .u64(groups)
                    .u64(0)
                    .u64(u64::from(THREADS))
                    .u64(before)
                    .ptr(carried)
                    .ptr(slots)
                    .ptr(output + OUTPUT)
                    .ptr(meeting)
                    .u64(launch)
                    .u64(members)
                    .u64(members)
                    .ptr(first)
                    .ptr(others)
                    .u64(copies)
            }
        }
    }

    /// What is wrong with the memory behind all launches.
    fn check(&self, gpu: &Gpu, memory: &Memory) -> Result<(), String> {
        let value = |address: u64, bytes: usize| {
            let mut word = [0; 8];
            gpu.read(address, &mut word[..bytes]).unwrap();
            u64::from_le_bytes(word)
        };
        let is_place = matches!(self.kind, Kind::Place | Kind::PlaceOfMembers);
        let bytes = if is_place { 8 } else { self.width() as usize };
        let results = if self.are_members() { 1 } else { self.launches };
        for launch in 0..results {
            let got = value(memory.output + OUTPUT * u64::from(launch), bytes);
            let expected = self.expected();
            if got != expected {
                return Err(format!("launch {launch} gave {got:#x} instead of {expected:#x}"));
            }
        }
        let empty = (0..SLOTS / 8).all(|index| value(memory.slots + 8 * index, 8) == 0);
        if self.is_reducer() && !empty {
            return Err("the slots are not empty for the next launch".to_owned());
        }
        if matches!(self.kind, Kind::Once | Kind::Integers) && value(memory.counter, 4) != 0 {
            return Err("the counter is not zero for the next launch".to_owned());
        }
        if self.are_members() && value(memory.meeting, 4) != 0 {
            return Err("the meeting's counter is not zero for the next reduction".to_owned());
        }
        Ok(())
    }

    fn explore(&self, text: &str) -> Result<Explored, ExploreError> {
        let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let gpu = Gpu::new(Config { step_limit: 100_000, ..Config::default() });
        let memory = self.memory(&gpu);
        let all: Vec<Args> = (0..self.launches).map(|launch| self.arguments(&memory, launch)).collect();
        let shape = Launch::linear(self.blocks, THREADS).with_dynamic_shared(8 * THREADS);
        let mut exploration = Exploration::new(&gpu);
        for arguments in &all {
            exploration = match self.overlapping {
                true => exploration.launch_overlapping(&module, self.entry, &shape, arguments)?,
                false => exploration.launch(&module, self.entry, &shape, arguments)?,
            };
        }
        exploration.run(|gpu| self.check(gpu, &memory))
    }

    /// The PTX of a file. Launches of members know nothing of each other; an exploration has them
    /// overlap, without the wait for the one before.
    fn text(&self, file: &str) -> String {
        if !self.are_members() {
            return ptx(file).text;
        }
        library_ptx(file).replace("griddepcontrol.wait;", "")
    }

    /// Explores the kernel as it is, which must be right.
    fn must_hold(&self, file: &str) {
        let text = self.text(file);
        match self.explore(&text) {
            Ok(explored) => println!(
                "{}: {} blocks, {} launches{}: {} executions, {} redundant",
                self.entry,
                self.blocks,
                self.launches,
                if self.overlapping { " that overlap" } else { "" },
                explored.executions,
                explored.redundant
            ),
            Err(error) => panic!("{}: {error}", self.entry),
        }
    }

    /// Explores the kernel with each instruction in turn that has `ordered` in it changed so that it has
    /// `broken` instead. There are `count`, and `needed` of them must be found wrong.
    fn must_fail(&self, file: &str, ordered: &str, broken: &str, [needed, count]: [usize; 2]) {
        let text = self.text(file);
        let body = body(&text, self.entry);
        let places: Vec<usize> =
            text[body.clone()].match_indices(ordered).map(|(at, _)| body.start + at).collect();
        assert_eq!(places.len(), count, "`{ordered}` in {}", self.entry);
        let mut found = 0;
        for at in places {
            let changed = [&text[..at], broken, &text[at + ordered.len()..]].concat();
            let explored = self.explore(&changed);
            let what = format!("{}: `{broken}` for `{ordered}`", self.entry);
            match explored {
                Err(ExploreError::Wrong { execution, reason, .. }) => {
                    println!("{what}: wrong in execution {execution}, {reason}");
                    found += 1;
                }
                other => println!("{what}: {other:?}"),
            }
        }
        assert_eq!(found, needed, "`{broken}` for `{ordered}` in {}", self.entry);
    }
}

/// The text of an entry.
fn body(text: &str, entry: &str) -> Range<usize> {
    let start = text.find(&format!(".entry {entry}(")).unwrap_or_else(|| panic!("no entry {entry}"));
    let next = text[start + 1..].find(".entry ");
    start..next.map_or(text.len(), |next| start + 1 + next)
}

const fn reducer(blocks: u32, launches: u32, overlapping: bool) -> Case {
    Case { entry: "reducer_sum_f32_grid", blocks, launches, overlapping, kind: Kind::Sum }
}

const fn reducer_of_places(blocks: u32, launches: u32, overlapping: bool) -> Case {
    Case { entry: "reducer_argmin_f32_grid", blocks, launches, overlapping, kind: Kind::Place }
}

const fn reducer_of_doubles(blocks: u32, launches: u32, overlapping: bool) -> Case {
    Case { entry: "reducer_sum_f64_grid", blocks, launches, overlapping, kind: Kind::Doubles }
}

const fn members(launches: u32) -> Case {
    let entry = "reducer_continued_sum_f32_grid";
    Case { entry, blocks: 1, launches, overlapping: true, kind: Kind::Members }
}

const fn members_with_places(launches: u32) -> Case {
    let entry = "reducer_continued_argmin_f64_grid";
    Case { entry, kind: Kind::PlaceOfMembers, ..members(launches) }
}

const fn last_block(blocks: u32, launches: u32) -> Case {
    let entry = "single_pass_last_block_sum_f32";
    Case { entry, blocks, launches, overlapping: false, kind: Kind::Once }
}

const fn cooperative(blocks: u32, launches: u32) -> Case {
    let entry = "cooperative_sum_f32";
    Case { entry, blocks, launches, overlapping: false, kind: Kind::Cooperative }
}

const fn grid_collective(blocks: u32) -> Case {
    let entry = "testing_collectives_once_i32";
    Case { entry, blocks, launches: 1, overlapping: false, kind: Kind::Integers }
}

#[test]
fn the_reducer_hands_over_each_value_once() {
    for (blocks, launches, overlapping) in
        [(2, 1, false), (3, 1, false), (2, 2, false), (2, 2, true), (3, 2, true)]
    {
        reducer(blocks, launches, overlapping).must_hold("reducer_sum_f32");
    }
    // Two cells per block, and three.
    reducer_of_doubles(2, 2, true).must_hold("reducer_sum_f64");
    reducer_of_places(2, 1, false).must_hold("reducer_argmin_f32");
}

#[test]
fn three_launches_of_the_reducer_that_overlap_use_the_slots_in_turn() {
    reducer(2, 3, true).must_hold("reducer_sum_f32");
}

#[test]
fn the_reducer_is_wrong_without_any_of_what_orders_it() {
    let file = "reducer_sum_f32";
    let case = reducer(2, 2, true);
    // Both kinds of blocks wait for the launch before.
    case.must_fail(file, "griddepcontrol.wait;", "", [2, 2]);
    // A weak load need never see what it waits for.
    case.must_fail(file, "ld.relaxed.gpu.global.b64", "ld.global.b64", [1, 1]);
    // Nor a load a weak store: that which publishes. The one that empties a cell may be weak, as the
    // launch ends behind it; but it has to be there.
    case.must_fail(file, "st.relaxed.gpu.global.b64", "st.global.b64", [1, 2]);
    case.must_fail(file, "st.relaxed.gpu.global.b64", "st.relaxed.cta.global.b64", [1, 2]);
    case.must_fail(file, "st.relaxed.gpu.global.b64", "// st", [2, 2]);
}

#[test]
fn the_last_block_sees_the_partial_results_of_all() {
    for (blocks, launches) in [(2, 1), (3, 1), (2, 2)] {
        last_block(blocks, launches).must_hold("single_pass_last_block");
    }
    let broken =
        ["atom.relaxed.gpu.global.inc", "atom.acquire.gpu.global.inc", "atom.release.gpu.global.inc"];
    for broken in broken.into_iter().chain(["atom.acq_rel.cta.global.inc"]) {
        last_block(2, 1).must_fail(
            "single_pass_last_block",
            "atom.acq_rel.gpu.global.inc",
            broken,
            [1, 1],
        );
    }
}

#[test]
fn the_last_device_to_arrive_sees_the_values_of_all() {
    let (sums, places) = ("reducer_continued_sum_f32", "reducer_continued_argmin_f64");
    members(2).must_hold(sums);
    members(3).must_hold(sums);
    members_with_places(2).must_hold(places);
    let ordered = "atom.acq_rel.sys.global.inc";
    for broken in ["atom.relaxed.sys.global.inc", "atom.acquire.sys.global.inc"] {
        members(2).must_fail(sums, ordered, broken, [1, 1]);
        members_with_places(2).must_fail(places, ordered, broken, [1, 1]);
    }
    members(2).must_fail(sums, ordered, "atom.release.sys.global.inc", [1, 1]);
    members(2).must_fail(sums, ordered, "atom.acq_rel.cta.global.inc", [1, 1]);
    // What lane 0 has acquired, the other lanes of its warp have behind this.
    members(2).must_fail(sums, "bar.warp.sync", "// bar.warp.sync", [1, 1]);
}

#[test]
fn a_barrier_of_the_grid_shows_what_was_written_in_front_of_it() {
    for (blocks, launches) in [(2, 1), (3, 1), (2, 2)] {
        cooperative(blocks, launches).must_hold("cooperative");
    }
    let case = cooperative(2, 1);
    for broken in ["atom.relaxed.gpu.global.add", "atom.acquire.gpu.global.add"] {
        case.must_fail("cooperative", "atom.acq_rel.gpu.global.add", broken, [1, 1]);
    }
    case.must_fail("cooperative", "ld.acquire.gpu", "ld.relaxed.gpu", [1, 1]);
}

#[test]
fn a_reduction_of_the_grid_is_right_by_whichever_block_is_last() {
    grid_collective(2).must_hold("testing_collectives");
    grid_collective(3).must_hold("testing_collectives");
    let ordered = "atom.acq_rel.gpu.global.inc";
    grid_collective(2).must_fail("testing_collectives", ordered, "atom.relaxed.gpu.global.inc", [1, 1]);
}

#[test]
fn the_kernel_that_counts_without_an_order_is_found() {
    let entry = "testing_relaxed_count_sum_i32";
    let case = Case { entry, kind: Kind::Once, ..last_block(2, 1) };
    let found = case.explore(&ptx("testing_relaxed_count").text);
    assert!(matches!(found, Err(ExploreError::Wrong { .. })), "{found:?}");
}
