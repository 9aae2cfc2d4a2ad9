//! Control flow: basic blocks, immediate post-dominators, liveness.

/// How control leaves an instruction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Instructions it may branch to.
    pub(crate) targets: Vec<u32>,
    /// Whether the next instruction may follow.
    pub(crate) falls: bool,
    /// Whether lanes or warps must meet to execute it.
    pub(crate) converges: bool,
}

/// A basic block.
#[derive(Debug, Clone)]
struct Block {
    start: usize,
    end: usize,
    successors: Vec<usize>,
    /// Whether every lane that gets to its end leaves the kernel.
    leaves: bool,
}

/// The control-flow graph of an entry.
#[derive(Debug)]
pub(crate) struct Graph {
    blocks: Vec<Block>,
    /// Block of each instruction.
    block_of: Vec<usize>,
    /// Whether an instruction that lanes or warps must meet at is in the block
    /// or can be reached from it.
    meets: Vec<bool>,
    /// Immediate post-dominator of each block.
    join: Vec<Option<usize>>,
}

impl Graph {
    pub(crate) fn new(flows: &[Flow]) -> Self {
        let (blocks, block_of) = blocks(flows);
        let meets = meets(&blocks, flows);
        let join = post_dominators(&blocks);
        Self { blocks, block_of, meets, join }
    }

    /// The instruction where the ways of a branch meet again.
    pub(crate) fn join(&self, branch: usize) -> Option<usize> {
        self.join[self.block_of[branch]].map(|block| self.blocks[block].start)
    }

    /// Whether a barrier or warp-wide instruction can be reached from here.
    pub(crate) fn meets(&self, instruction: usize) -> bool {
        self.block_of.get(instruction).is_some_and(|&block| self.meets[block])
    }

    /// For each register the range of instructions `[start, end)` in which its
    /// value may be needed; `None` for registers that nothing names.
    ///
    /// `touches` lists for each instruction the registers read, and those written
    /// with whether the write covers every lane of the warp that is there.
    pub(crate) fn live_ranges(
        &self,
        touches: &[Touches],
        registers: usize,
    ) -> Vec<Option<(usize, usize)>> {
        let live_in = self.live_in(touches, registers);
        let mut ranges: Vec<Option<(usize, usize)>> = vec![None; registers];
        let mut extend = |register: usize, start: usize, end: usize| {
            let range = ranges[register].get_or_insert((start, end));
            *range = (range.0.min(start), range.1.max(end));
        };
        for (index, block) in self.blocks.iter().enumerate() {
            for register in live_in[index].iter() {
                extend(register, block.start, block.start);
            }
            for &successor in &block.successors {
                for register in live_in[successor].iter() {
                    extend(register, block.end, block.end);
                }
            }
            for (at, touch) in touches.iter().enumerate().take(block.end).skip(block.start) {
                for &register in &touch.reads {
                    extend(register as usize, at, at);
                }
                for &(register, _) in &touch.writes {
                    extend(register as usize, at, at + 1);
                }
            }
        }
        ranges
    }

    fn live_in(&self, touches: &[Touches], registers: usize) -> Vec<BitSet> {
        let mut live_in = vec![BitSet::new(registers); self.blocks.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for (index, block) in self.blocks.iter().enumerate().rev() {
                let mut live = BitSet::new(registers);
                for &successor in &block.successors {
                    live.union(&live_in[successor]);
                }
                for touch in touches[block.start..block.end].iter().rev() {
                    for &(register, whole) in &touch.writes {
                        if whole {
                            live.remove(register as usize);
                        }
                    }
                    for &register in &touch.reads {
                        live.insert(register as usize);
                    }
                }
                if live != live_in[index] {
                    live_in[index] = live;
                    changed = true;
                }
            }
        }
        live_in
    }
}

/// Registers that an instruction reads and writes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Touches {
    pub(crate) reads: Vec<u32>,
    /// With `false` for a guarded write, after which the old value may still be there.
    pub(crate) writes: Vec<(u32, bool)>,
}

/// A set of small numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BitSet(Vec<u64>);

impl BitSet {
    fn new(size: usize) -> Self {
        Self(vec![0; size.div_ceil(64)])
    }

    fn insert(&mut self, value: usize) {
        self.0[value / 64] |= 1 << (value % 64);
    }

    fn remove(&mut self, value: usize) {
        self.0[value / 64] &= !(1 << (value % 64));
    }

    fn union(&mut self, other: &Self) {
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * 64 + bit)
        })
    }
}

/// Splits the instructions into blocks.
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
            blocks.push(Block { start: index, end: index, successors: Vec::new(), leaves: false });
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
    (blocks, block_of)
}

fn meets(blocks: &[Block], flows: &[Flow]) -> Vec<bool> {
    let mut meets: Vec<bool> =
        blocks.iter().map(|b| flows[b.start..b.end].iter().any(|flow| flow.converges)).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for (index, block) in blocks.iter().enumerate().rev() {
            if !meets[index] && block.successors.iter().any(|&successor| meets[successor]) {
                meets[index] = true;
                changed = true;
            }
        }
    }
    meets
}

/// Immediate post-dominators by the iterative algorithm of Cooper, Harvey and
/// Kennedy on the reversed graph, with a virtual exit behind the last blocks.
fn post_dominators(blocks: &[Block]) -> Vec<Option<usize>> {
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
    // Post-order from the exit: a block's number is above those it leads from.
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
            let known = successors[block].iter().copied().filter(|&s| dominator[s].is_some());
            let new = known.reduce(|a, b| meet(a, b, &dominator, &number));
            if new != dominator[block] {
                dominator[block] = new;
                changed = true;
            }
        }
    }
    dominator.truncate(exit);
    dominator.into_iter().map(|found| found.filter(|&block| block != exit)).collect()
}

/// The nearest common ancestor of two blocks in the dominator tree.
fn meet(a: usize, b: usize, dominator: &[Option<usize>], number: &[usize]) -> usize {
    let (mut a, mut b) = (a, b);
    while a != b {
        if number[a] < number[b] {
            a = dominator[a].unwrap_or(b);
        } else {
            b = dominator[b].unwrap_or(a);
        }
    }
    a
}

/// Post-order of a depth-first walk, without recursion.
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
mod tests {
    use super::{Flow, Graph, Touches};

    fn next() -> Flow {
        Flow { falls: true, ..Flow::default() }
    }

    fn branch(target: u32) -> Flow {
        Flow { targets: vec![target], falls: true, converges: false }
    }

    fn jump(target: u32) -> Flow {
        Flow { targets: vec![target], falls: false, converges: false }
    }

    fn end() -> Flow {
        Flow::default()
    }

    fn meet() -> Flow {
        Flow { falls: true, converges: true, ..Flow::default() }
    }

    #[test]
    fn if_else_joins_behind_both_sides() {
        let graph = Graph::new(&[branch(3), next(), jump(4), next(), end()]);
        assert_eq!(graph.join(0), Some(4));
    }

    #[test]
    fn a_loop_joins_at_its_exit() {
        let graph = Graph::new(&[next(), next(), branch(1), end()]);
        assert_eq!(graph.join(2), Some(3));
    }

    #[test]
    fn nested_branches_join_inside_out() {
        let graph = Graph::new(&[branch(5), branch(3), next(), next(), next(), end()]);
        assert_eq!(graph.join(0), Some(5));
        assert_eq!(graph.join(1), Some(3));
    }

    #[test]
    fn what_leads_to_a_barrier_is_known() {
        let graph = Graph::new(&[branch(4), next(), meet(), jump(4), end()]);
        assert_eq!(graph.join(0), Some(4));
        assert!(graph.meets(0) && graph.meets(1) && graph.meets(2) && !graph.meets(4));
    }

    #[test]
    fn an_endless_loop_joins_nowhere() {
        let graph = Graph::new(&[branch(2), end(), jump(2)]);
        assert_eq!(graph.join(2), None);
    }

    #[test]
    fn live_ranges_span_loops() {
        // r0 is set before the loop and read in it, r1 lives in one instruction.
        let flows = [next(), next(), branch(1), end()];
        let mut touches = vec![Touches::default(); 4];
        touches[0].writes.push((0, true));
        touches[1].reads.push(0);
        touches[1].writes.push((1, true));
        let ranges = Graph::new(&flows).live_ranges(&touches, 3);
        assert_eq!(ranges, [Some((0, 3)), Some((1, 2)), None]);
    }
}
