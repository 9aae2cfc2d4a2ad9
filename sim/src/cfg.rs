//! Control flow: basic blocks, immediate post-dominators, liveness.

use crate::effort::Effort;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) targets: Vec<u32>,
    /// Control may fall through to the next instruction.
    pub(crate) falls: bool,
    /// Lanes or warps must converge to execute the instruction.
    pub(crate) converges: bool,
}

#[derive(Debug, Clone, Default)]
struct Block {
    start: usize,
    end: usize,
    successors: Vec<usize>,
    predecessors: Vec<usize>,
    /// Every lane that reaches the end of the block exits the kernel.
    leaves: bool,
}

#[derive(Debug)]
pub(crate) struct Graph {
    blocks: Vec<Block>,
    block_of: Vec<usize>,
    /// For each block, whether an instruction in it or reachable from it requires convergence.
    meets: Vec<bool>,
    join: Vec<Option<usize>>,
}

impl Graph {
    pub(crate) fn new(flows: &[Flow], effort: &Effort) -> Result<Self, String> {
        let (blocks, block_of) = blocks(flows);
        let meets = meets(&blocks, flows);
        let join = post_dominators(&blocks, effort)?;
        Ok(Self { blocks, block_of, meets, join })
    }

    pub(crate) fn join(&self, branch: usize) -> Option<usize> {
        self.join[self.block_of[branch]].map(|block| self.blocks[block].start)
    }

    pub(crate) fn leads(&self, instruction: usize) -> bool {
        let block = self.block_of.get(instruction);
        block.is_some_and(|&block| self.blocks[block].start == instruction)
    }

    /// Returns whether a barrier or warp-wide instruction is reachable from `instruction`.
    pub(crate) fn meets(&self, instruction: usize) -> bool {
        self.block_of.get(instruction).is_some_and(|&block| self.meets[block])
    }

    /// Returns for each register the range of instructions `[start, end)` in which its value may be
    /// needed; `None` for registers that no instruction names.
    ///
    /// `touches` lists for each instruction the registers that it reads and those that it writes, with a
    /// flag that is set if the write covers all active lanes of the warp.
    ///
    /// For each register, walks backwards from the blocks that read the register before writing it, and
    /// stops at blocks that write it. So memory does not grow with blocks times registers, and time
    /// grows with the number of blocks that a value is live through.
    pub(crate) fn live_ranges(
        &self,
        touches: &[Touches],
        registers: usize,
        effort: &Effort,
    ) -> Result<Vec<Option<Range>>, String> {
        let mut ranges: Vec<Option<Range>> = vec![None; registers];
        let Exposed { mut reads, mut writes } = self.exposed(touches, registers, &mut ranges);
        reads.sort_unstable();
        writes.sort_unstable();
        // For each block, the last visited register that it writes, and the last that is live on its
        // entry.
        let mut written = vec![None; self.blocks.len()];
        let mut live = vec![None; self.blocks.len()];
        let mut writes = writes.into_iter().peekable();
        for of_register in reads.chunk_by(|a, b| a.0 == b.0) {
            let register = of_register[0].0;
            while let Some((of, block)) = writes.next_if(|&(of, _)| of <= register) {
                written[block] = Some(of);
            }
            let mut open: Vec<usize> = of_register.iter().map(|&(_, block)| block).collect();
            while let Some(block) = open.pop() {
                effort.spend(1)?;
                if live[block].replace(register) == Some(register) {
                    continue;
                }
                let range = &mut ranges[register];
                extend(range, self.blocks[block].start, self.blocks[block].start);
                effort.spend(self.blocks[block].predecessors.len() as u64)?;
                for &before in &self.blocks[block].predecessors {
                    extend(range, self.blocks[before].end, self.blocks[before].end);
                    if written[before] != Some(register) {
                        open.push(before);
                    }
                }
            }
        }
        Ok(ranges)
    }

    /// Returns the registers that each block reads before writing them, and the registers that it writes
    /// in every lane. Extends each register's range by the instructions that name it.
    fn exposed(&self, touches: &[Touches], registers: usize, ranges: &mut [Option<Range>]) -> Exposed {
        let mut exposed = Exposed::default();
        // For each register: the last block that writes it, the last block that reads its value on
        // entry.
        let (mut writer, mut reader) = (vec![None; registers], vec![None; registers]);
        for (index, block) in self.blocks.iter().enumerate() {
            let instructions = touches.iter().enumerate().take(block.end).skip(block.start);
            for (at, touch) in instructions {
                for register in touch.reads.iter().map(|&register| register as usize) {
                    extend(&mut ranges[register], at, at);
                    if writer[register] != Some(index) && reader[register].replace(index) != Some(index)
                    {
                        exposed.reads.push((register, index));
                    }
                }
                for (register, whole) in touch.writes.iter().map(|&(r, whole)| (r as usize, whole)) {
                    extend(&mut ranges[register], at, at + 1);
                    if whole && writer[register].replace(index) != Some(index) {
                        exposed.writes.push((register, index));
                    }
                }
            }
        }
        exposed
    }
}

type Range = (usize, usize);

fn extend(range: &mut Option<Range>, start: usize, end: usize) {
    let (first, last) = *range.get_or_insert((start, end));
    *range = Some((first.min(start), last.max(end)));
}

#[derive(Default)]
struct Exposed {
    reads: Vec<(usize, usize)>,
    writes: Vec<(usize, usize)>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Touches {
    pub(crate) reads: Vec<u32>,
    /// Written registers. `false` marks a guarded write, after which the old value may survive.
    pub(crate) writes: Vec<(u32, bool)>,
}

fn blocks(flows: &[Flow]) -> (Vec<Block>, Vec<usize>) {
    let mut leads = vec![false; flows.len() + 1];
    for (index, flow) in flows.iter().enumerate() {
        if flow.targets.is_empty() && flow.falls {
            continue;
        }
        leads[index + 1] = true;
        for &target in &flow.targets {
            leads[target as usize] = true;
        }
    }
    let mut blocks: Vec<Block> = Vec::new();
    let mut block_of = Vec::with_capacity(flows.len());
    for (index, &lead) in leads[..flows.len()].iter().enumerate() {
        if index == 0 || lead {
            blocks.push(Block { start: index, end: index, ..Block::default() });
        }
        let current = blocks.len() - 1;
        blocks[current].end = index + 1;
        block_of.push(current);
    }
    for block in &mut blocks {
        let last = &flows[block.end - 1];
        block.successors = last.targets.iter().map(|&target| block_of[target as usize]).collect();
        if last.falls && block.end < flows.len() {
            block.successors.push(block_of[block.end]);
        }
        block.successors.sort_unstable();
        block.successors.dedup();
        block.leaves = block.successors.is_empty();
    }
    for index in 0..blocks.len() {
        for place in 0..blocks[index].successors.len() {
            let successor = blocks[index].successors[place];
            blocks[successor].predecessors.push(index);
        }
    }
    (blocks, block_of)
}

fn meets(blocks: &[Block], flows: &[Flow]) -> Vec<bool> {
    let mut meets: Vec<bool> =
        blocks.iter().map(|b| flows[b.start..b.end].iter().any(|flow| flow.converges)).collect();
    let mut open: Vec<usize> = (0..blocks.len()).filter(|&index| meets[index]).collect();
    while let Some(index) = open.pop() {
        for &before in &blocks[index].predecessors {
            if !std::mem::replace(&mut meets[before], true) {
                open.push(before);
            }
        }
    }
    meets
}

/// Computes immediate post-dominators by the iterative algorithm of Cooper, Harvey and Kennedy on the
/// reversed graph, with a virtual exit after the last blocks.
fn post_dominators(blocks: &[Block], effort: &Effort) -> Result<Vec<Option<usize>>, String> {
    let exit = blocks.len();
    let successors: Vec<Vec<usize>> = blocks
        .iter()
        .map(|block| if block.leaves { vec![exit] } else { block.successors.clone() })
        .collect();
    let mut predecessors = vec![Vec::new(); exit + 1];
    for (block, successors) in successors.iter().enumerate() {
        for &successor in successors {
            predecessors[successor].push(block);
        }
    }
    // Post-order of the reversed graph. Outside loops, a block's number exceeds its predecessors'.
    let order = post_order(exit, &predecessors);
    let mut number = vec![usize::MAX; exit + 1];
    for (place, &block) in order.iter().enumerate() {
        number[block] = place;
    }
    let mut dominator: Vec<Option<usize>> = vec![None; exit + 1];
    dominator[exit] = Some(exit);
    let mut changed = true;
    while changed {
        changed = false;
        for &block in order.iter().rev().skip(1) {
            effort.spend(1 + successors[block].len() as u64)?;
            let mut new = None;
            for successor in successors[block].iter().copied().filter(|&s| dominator[s].is_some()) {
                new = Some(match new {
                    Some(found) => meet(found, successor, &dominator, &number, effort)?,
                    None => successor,
                });
            }
            if new != dominator[block] {
                dominator[block] = new;
                changed = true;
            }
        }
    }
    dominator.truncate(exit);
    Ok(dominator.into_iter().map(|found| found.filter(|&block| block != exit)).collect())
}

/// Returns the nearest common ancestor of two blocks in the dominator tree.
fn meet(
    a: usize,
    b: usize,
    dominator: &[Option<usize>],
    number: &[usize],
    effort: &Effort,
) -> Result<usize, String> {
    let (mut a, mut b) = (a, b);
    while a != b {
        effort.spend(1)?;
        if number[a] < number[b] {
            a = dominator[a].unwrap_or(b);
        } else {
            b = dominator[b].unwrap_or(a);
        }
    }
    Ok(a)
}

/// Returns the post-order of a depth-first walk. Does not recurse, because paths may be long.
fn post_order(root: usize, next: &[Vec<usize>]) -> Vec<usize> {
    let mut seen = vec![false; next.len()];
    let mut order = Vec::with_capacity(next.len());
    let mut stack = vec![(root, 0)];
    seen[root] = true;
    while let Some((block, child)) = stack.pop() {
        match next[block].get(child) {
            Some(&child_block) => {
                stack.push((block, child + 1));
                if !seen[child_block] {
                    seen[child_block] = true;
                    stack.push((child_block, 0));
                }
            }
            None => order.push(block),
        }
    }
    order
}

#[cfg(test)]
mod tests;
