//! Coverage of source lines and branches of kernels, in the format of lcov.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::mem;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use warpfold_sim::{BlockInfo, Branch, Detail, Event, InstructionInfo, Observer};

/// The threads at an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Threads {
    /// Threads that executed the instruction, or reached the branch.
    executed: u64,
    /// Threads that went to the target of a branch, and threads that did not.
    ways: [u64; 2],
}

/// A count of the threads at each instruction of a launch.
#[derive(Debug, Default)]
pub struct ThreadCounter(Mutex<Vec<Threads>>);

impl ThreadCounter {
    /// Takes the counts of the blocks that have ended, by instruction.
    pub fn take(&self) -> Vec<Threads> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Observer for ThreadCounter {
    type Block = Vec<Threads>;

    fn block_begin(&self, block: &BlockInfo<'_>) -> Vec<Threads> {
        vec![Threads::default(); block.entry.instructions().len()]
    }

    fn instruction(&self, counts: &mut Vec<Threads>, event: &Event<'_>) {
        if event.part != 0 {
            return;
        }
        let threads = &mut counts[event.index as usize];
        let is_branch = matches!(event.detail, Detail::Branch(_));
        // Only the threads that jump execute a branch.
        let executed = if is_branch { event.active } else { event.executed };
        threads.executed += u64::from(executed.count_ones());
        if let Detail::Branch(Branch { taken, .. }) = event.detail {
            let ways = [taken, event.active & !taken];
            add(&mut threads.ways, ways.map(|lanes| u64::from(lanes.count_ones())));
        }
    }

    fn block_end(&self, counts: Vec<Threads>) {
        let mut total = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        total.resize(counts.len(), Threads::default());
        for (sum, threads) in total.iter_mut().zip(counts) {
            sum.executed += threads.executed;
            add(&mut sum.ways, threads.ways);
        }
    }
}

fn add(sums: &mut [u64; 2], ways: [u64; 2]) {
    sums.iter_mut().zip(ways).for_each(|(sum, way)| *sum += way);
}

/// Coverage of the kernels of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Coverage {
    files: BTreeMap<String, BTreeMap<u32, Line>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Line {
    threads: u64,
    /// By kernel and instruction, the threads that went each way.
    branches: BTreeMap<String, BTreeMap<u32, [u64; 2]>>,
}

impl Coverage {
    /// Adds a launch of a kernel. Instructions that did not run have no counts; their lines are listed
    /// as not covered.
    pub fn add_launch(&mut self, kernel: &str, instructions: &[InstructionInfo], counts: &[Threads]) {
        let mut launch = Self::default();
        for (index, info) in instructions.iter().enumerate() {
            let threads = counts.get(index).copied().unwrap_or_default();
            let Some(location) = &info.location else { continue };
            // A call's line is covered with what it calls.
            for place in location.places() {
                let line = launch.files.entry(place.file.to_string()).or_default();
                let line = line.entry(place.line).or_default();
                line.threads = line.threads.max(threads.executed);
            }
            let is_conditional = info.opcode == "bra" && info.text.starts_with('@');
            if is_conditional {
                let line = launch.files.entry(location.file.to_string()).or_default();
                let line = line.entry(location.line).or_default();
                let of_kernel = line.branches.entry(kernel.to_owned()).or_default();
                of_kernel.insert(index as u32, threads.ways);
            }
        }
        self.add(launch);
    }

    /// Adds the coverage of another launch or process.
    pub fn add(&mut self, other: Self) {
        for (file, lines) in other.files {
            let own = self.files.entry(file).or_default();
            for (number, line) in lines {
                let own = own.entry(number).or_default();
                own.threads += line.threads;
                for (kernel, branches) in line.branches {
                    let own = own.branches.entry(kernel).or_default();
                    for (index, ways) in branches {
                        add(own.entry(index).or_default(), ways);
                    }
                }
            }
        }
    }

    /// Returns the coverage as the text of an lcov tracefile. The count of a line is that of the threads
    /// that executed it; branch 0 of a block goes to the target of a branch instruction, branch 1 past
    /// it.
    pub fn lcov(&self) -> String {
        let mut text = String::new();
        for (file, lines) in &self.files {
            let _ = writeln!(text, "TN:\nSF:{file}");
            let (mut found, mut hit) = (0, 0);
            for (number, line) in lines {
                let branches = line.branches.values().flat_map(BTreeMap::values);
                for (block, ways) in branches.enumerate() {
                    for (way, &threads) in ways.iter().enumerate() {
                        // lcov refuses `-`, of a branch that was not reached, on a line that was.
                        let is_reached = line.threads > 0;
                        let taken = if is_reached { threads.to_string() } else { "-".to_owned() };
                        let _ = writeln!(text, "BRDA:{number},{block},{way},{taken}");
                        found += 1;
                        hit += u64::from(threads > 0);
                    }
                }
            }
            let _ = writeln!(text, "BRF:{found}\nBRH:{hit}");
            for (number, line) in lines {
                let _ = writeln!(text, "DA:{number},{}", line.threads);
            }
            let covered = lines.values().filter(|line| line.threads > 0).count();
            let _ = writeln!(text, "LF:{}\nLH:{covered}\nend_of_record", lines.len());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use warpfold_sim::{Config, Gpu, Launch, Module};

    use super::*;

    /// Threads 0 to 2 of 32 take a branch at line 4, and none that at line 6; line 7 is not reached.
    const TEXT: &str = "\
.version 7.8
.target sm_80
.address_size 64
.visible .entry k() {
.reg .pred %p<3>;
.reg .b32 %r<3>;
.loc 1 3 1
mov.u32 %r1, %tid.x;
.loc 1 4 1
setp.lt.u32 %p1, %r1, 3;
@%p1 bra $END;
.loc 1 5 1
add.u32 %r2, %r1, 1;
setp.eq.u32 %p2, %r1, 99;
.loc 1 6 1
@%p2 bra $RARE;
bra $END;
.loc 1 7 1
$RARE:
add.u32 %r2, %r2, 1;
$END:
.loc 1 8 1
ret;
}
.file 1 \"k.rs\"
";

    #[test]
    fn lines_and_branches_are_counted_by_threads() {
        let module = Module::parse(TEXT).unwrap();
        let gpu = Gpu::new(Config::default());
        let entry = module.entry("k").unwrap();
        let mut coverage = Coverage::default();
        for _ in 0..2 {
            let counter = ThreadCounter::default();
            gpu.launch_observed(&module, "k", &Launch::linear(1, 32), &[0u8; 0], &counter).unwrap();
            coverage.add_launch("k", entry.instructions(), &counter.take());
        }
        let expected = "\
TN:
SF:k.rs
BRDA:4,0,0,6
BRDA:4,0,1,58
BRDA:6,0,0,0
BRDA:6,0,1,58
BRF:4
BRH:3
DA:3,64
DA:4,64
DA:5,58
DA:6,58
DA:7,0
DA:8,64
LF:6
LH:5
end_of_record
";
        assert_eq!(coverage.lcov(), expected);
    }
}
