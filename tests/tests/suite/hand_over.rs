//! Communication between blocks, in every order of the blocks' steps and with every value that the PTX
//! memory model lets a load observe: with the kernels' own PTX, and with each ordering operation removed
//! in turn, which must be detected. docs/memory-model.md has the argument.

use std::ops::Range;

use warpfold_abi::{form, meeting};
use warpfold_sim::{Args, Config, Exploration, ExploreError, Explored, Gpu, Launch, Module};
use warpfold_tests::{library_ptx, ptx};

const THREADS: u32 = 32;

struct Case {
    entry: &'static str,
    blocks: u32,
    launches: u32,
    overlapping: bool,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A sum of f32 with partial results and a counter in memory; the arguments are `ReduceOnce`.
    Once,
    /// Like `Once`, but with the counter of a cooperative launch, which is not reset.
    Cooperative,
    /// A sum of f32 with values in slots; the arguments are `ReduceCut`.
    Sum,
    /// Like `Sum`, for f64.
    Doubles,
    /// Like `Sum`, but the index of the least element.
    Place,
    /// The collectives' test kernels, on integers.
    Integers,
    /// A sum of f32 by `ReduceContinued`, with one launch per member of a group of devices.
    Members,
    /// Like `Members`, but the index of the least f64 element.
    PlaceOfMembers,
}

struct Memory {
    input: u64,
    slots: u64,
    counter: u64,
    output: u64,
    /// Address of the scratch memory shared by the members.
    meeting: u64,
}

const OUTPUT: u64 = 16;
const SLOTS: u64 = 256;

impl Case {
    fn is_reducer(&self) -> bool {
        matches!(self.kind, Kind::Sum | Kind::Doubles | Kind::Place) || self.are_members()
    }

    fn are_members(&self) -> bool {
        matches!(self.kind, Kind::Members | Kind::PlaceOfMembers)
    }

    fn parts(&self) -> u32 {
        self.blocks * if self.are_members() { self.launches } else { 1 }
    }

    fn width(&self) -> u32 {
        if matches!(self.kind, Kind::Doubles | Kind::PlaceOfMembers) { 8 } else { 4 }
    }

    fn elements(&self) -> u32 {
        let each = if self.is_reducer() { 16 / self.width() } else { 1 };
        each * THREADS * self.parts()
    }

    /// Returns small whole numbers, different for every block, so that any order of additions is exact.
    fn input(&self) -> Vec<u32> {
        let value = |index: u32| 1 + index % 3 + 100 * (index * self.parts() / self.elements());
        (0..self.elements()).map(value).collect()
    }

    fn bits(&self, x: u32) -> u64 {
        match self.kind {
            Kind::Integers => x.into(),
            // The negated elements have their first minimum in the last block.
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
        // Each member of a group has an output of its own; another one is shared.
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
                let cut = Args::new().ptr(input).u64(0).u64(groups).u64(0).u64(tile);
                cut.ptr(slots).ptr(output).u64(1).u64(form::OUTPUT).u64(0)
            }
            Kind::Integers => Args::new().ptr(input).ptr(slots).ptr(counter).ptr(output),
            Kind::Members | Kind::PlaceOfMembers => {
                let (launch, members) = (u64::from(launch), u64::from(self.launches));
                let before = elements / members * launch;
                let groups = elements / members * u64::from(self.width()) / 16;
                let (carried, others, copies) = (0, 0, 0);
                // A single block passes no value on.
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

    /// Returns the PTX of a file. Launches of members do not wait for each other: to explore them as
    /// overlapping launches, the wait for the preceding launch is removed.
    fn text(&self, file: &str) -> String {
        if !self.are_members() {
            return ptx(file).text;
        }
        library_ptx(file).replace("griddepcontrol.wait;", "")
    }

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

    /// Explores the kernel with each of the `count` occurrences of `ordered` changed in turn to
    /// `broken`, and checks that exactly `needed` of the changes are found wrong.
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
    // Each block publishes two words in the first case, and three in the second.
    reducer_of_doubles(2, 2, true).must_hold("reducer_sum_f64");
    reducer_of_places(2, 1, false).must_hold("reducer_argmin_f32");
}

#[test]
fn three_overlapping_launches_can_share_the_slots() {
    reducer(2, 3, true).must_hold("reducer_sum_f32");
}

#[test]
fn removing_any_ordering_breaks_the_reducer() {
    let file = "reducer_sum_f32";
    let case = reducer(2, 2, true);
    // Blocks that publish a value and the block that combines the values wait for the preceding launch.
    case.must_fail(file, "griddepcontrol.wait;", "", [2, 2]);
    // A weak load need never observe the value that it waits for.
    case.must_fail(file, "ld.relaxed.gpu.global.b64", "ld.global.b64", [1, 1]);
    // A load need not observe a weak store either, so that the store that publishes a value must not be
    // weak. The store that clears the slot afterwards may be weak, because the launch ends after it, but
    // it must not be missing.
    case.must_fail(file, "st.relaxed.gpu.global.b64", "st.global.b64", [1, 2]);
    case.must_fail(file, "st.relaxed.gpu.global.b64", "st.relaxed.cta.global.b64", [1, 2]);
    case.must_fail(file, "st.relaxed.gpu.global.b64", "// st", [2, 2]);
}

#[test]
fn last_block_observes_all_partial_results() {
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
fn last_device_observes_the_values_of_all_devices() {
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
    // The warp barrier passes lane 0's acquire on to the other lanes.
    members(2).must_fail(sums, "bar.warp.sync", "// bar.warp.sync", [1, 1]);
}

#[test]
fn grid_barrier_publishes_earlier_writes() {
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
fn grid_reduction_is_correct_for_any_last_block() {
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
