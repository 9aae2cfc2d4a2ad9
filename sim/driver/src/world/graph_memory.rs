//! Memory of graphs. Its addresses are fixed when a node that allocates is made; memory is there from
//! where a launch allocates it to where it is freed, in the graph or by a call behind it.
//!
//! A GPU maps the same memory below the addresses of graphs that do not run at the same time, and keeps
//! it for the next one. Here memory comes and goes with each launch; what a GPU would keep is counted,
//! for those who ask for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use warpfold_driver::sys::*;

use super::{State, TaskId, Work};
use crate::failure::{Outcome, fail_with};
use crate::ffi::{ContextId, ExecId, GraphId, StreamId};

/// What a node allocates.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) context: ContextId,
    pub(crate) device: u32,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// The bytes that were asked for, which a device may round up.
    pub(crate) asked: usize,
    /// The devices that it says reach it.
    pub(crate) access: Box<[CUmemAccessDesc]>,
}

/// Where that stands, in the order of the calls.
#[derive(Debug)]
pub(crate) struct GraphMemory {
    pub(crate) range: Arc<Reserved>,
    owner: GraphId,
    /// The graphs that have a node that frees it.
    freed_by: BTreeSet<GraphId>,
    /// From a launch that allocates it without freeing it until a call frees it.
    pub(crate) held: Option<Held>,
}

/// Allocated by a launch, and not freed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    block: u64,
    /// The end of that launch.
    pub(crate) since: TaskId,
}

/// A device's memory that graphs have.
#[derive(Debug, Default)]
pub(crate) struct GraphPool {
    blocks: BTreeMap<u64, Block>,
    /// The most bytes that graphs used, and that were kept for them, since that was last set to 0.
    high: [u64; 2],
    /// The devices that reach it beside its own.
    pub(crate) open_to: BTreeSet<u32>,
}

/// Memory that a GPU would have below the addresses of one allocation at a time.
#[derive(Debug)]
struct Block {
    bytes: u64,
    stands: Stands,
}

#[derive(Debug, Clone, Copy)]
enum Stands {
    Held,
    Free,
    /// Free for what comes behind a task, which is on this stream.
    FreeBehind(StreamId, TaskId),
}

/// What a graph that can be launched does with memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryPlan {
    /// What it allocates, and which of its slots that takes.
    allocates: Vec<(u64, usize)>,
    frees: BTreeSet<u64>,
    /// The device of each slot, and the most bytes that it needs: one after the other, allocations take
    /// the same memory.
    slots: Vec<(u32, u64)>,
    /// The blocks that the slots had when it was launched last.
    blocks: Vec<u64>,
    /// Whether a launch frees what the last one has left.
    pub(crate) auto_free: bool,
}

impl MemoryPlan {
    /// The plan of steps, whose dependencies are indices of earlier ones.
    pub(super) fn of(steps: &[(Work, Vec<usize>)], auto_free: bool) -> Self {
        let mut plan = Self { auto_free, ..Self::default() };
        // Where the last allocation of each slot is freed, if it is.
        let mut free_at: Vec<Option<usize>> = Vec::new();
        for (index, (work, _)) in steps.iter().enumerate() {
            match work {
                Work::Allocate(range) => {
                    let before = ancestors(steps, index);
                    let is_free = |&slot: &usize| {
                        let freed = free_at[slot].is_some_and(|step| before[step]);
                        let (device, bytes) = plan.slots[slot];
                        freed && device == range.device && bytes >= range.bytes
                    };
                    let slot = (0..free_at.len()).find(is_free).unwrap_or_else(|| {
                        free_at.push(None);
                        plan.slots.push((range.device, range.bytes));
                        free_at.len() - 1
                    });
                    free_at[slot] = None;
                    plan.allocates.push((range.address, slot));
                }
                Work::Release(address) => {
                    plan.frees.insert(*address);
                    let own = plan.allocates.iter().rev().find(|(other, _)| other == address);
                    if let Some(&(_, slot)) = own {
                        free_at[slot] = Some(index);
                    }
                }
                _ => {}
            }
        }
        plan
    }

    pub(super) fn is_empty(&self) -> bool {
        self.allocates.is_empty() && self.frees.is_empty()
    }
}

/// Which steps one comes behind.
fn ancestors(steps: &[(Work, Vec<usize>)], of: usize) -> Vec<bool> {
    let (mut is_before, mut open) = (vec![false; steps.len()], steps[of].1.clone());
    while let Some(step) = open.pop() {
        if !std::mem::replace(&mut is_before[step], true) {
            open.extend(&steps[step].1);
        }
    }
    is_before
}

/// Whether work is of one graph alone.
fn is_of_one_graph(work: &Work) -> bool {
    matches!(work, Work::Allocate(_) | Work::Release(_) | Work::Conditional(_))
}

impl State {
    /// What a node of a graph allocates, which another one is made to do.
    pub(crate) fn reserve(
        &mut self,
        graph: GraphId,
        context: ContextId,
        asked: usize,
        access: Box<[CUmemAccessDesc]>,
    ) -> Outcome<Arc<Reserved>> {
        self.graph(graph)?;
        if asked == 0 {
            return fail_with(CUDA_ERROR_INVALID_VALUE, "0 bytes; allowed are 1 and more");
        }
        let device = self.context(context)?.device;
        let bytes = (asked as u64).next_multiple_of(self.devices[device as usize].round);
        let address = self.context(context)?.gpu.memory().reserve(bytes)?;
        let range = Arc::new(Reserved { context, device, address, bytes, asked, access });
        let (freed_by, held) = (BTreeSet::new(), None);
        let memory = GraphMemory { range: Arc::clone(&range), owner: graph, freed_by, held };
        self.graph_memory.insert(address, memory);
        Ok(range)
    }

    /// The node's memory that an address lies in, whether it is there now or not.
    pub(super) fn reserved_at(&self, address: u64) -> Option<&Reserved> {
        let (_, memory) = self.graph_memory.range(..=address).next_back()?;
        (address - memory.range.address < memory.range.bytes).then_some(&*memory.range)
    }

    /// What a node of a graph does that frees what a node of it, or of another one, allocates.
    pub(crate) fn free_in_graph(&self, graph: GraphId, address: u64) -> Outcome<Work> {
        self.graph(graph)?;
        let Some(memory) = self.graph_memory.get(&address) else {
            let detail = format!("{address:#x} is not what a node of a graph has allocated");
            return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
        };
        let wrong = match memory.owner == graph {
            _ if memory.freed_by.contains(&graph) => "the same graph",
            false if memory.freed_by.contains(&memory.owner) => "the graph that allocates it",
            true if !memory.freed_by.is_empty() => "another graph",
            _ => return Ok(Work::Release(address)),
        };
        let detail = format!("{address:#x} is freed by a node of {wrong} already");
        fail_with(CUDA_ERROR_INVALID_VALUE, detail)
    }

    /// Takes note of a node that frees.
    pub(super) fn note_free_node(&mut self, graph: GraphId, address: u64) {
        if let Some(memory) = self.graph_memory.get_mut(&address) {
            memory.freed_by.insert(graph);
        }
    }

    /// Takes note that such a node is gone with its graph, so that another one may free instead. Where
    /// the graph allocates as well, what was made of it still does both.
    pub(super) fn forget_free_node(&mut self, graph: GraphId, address: u64) {
        if let Some(memory) = self.graph_memory.get_mut(&address)
            && memory.owner != graph
        {
            memory.freed_by.remove(&graph);
        }
    }

    /// Fails unless a graph can be copied, or launched as a part of another one.
    pub(super) fn check_copied<'w>(
        &self,
        what: &str,
        mut works: impl Iterator<Item = &'w Work>,
    ) -> Outcome {
        if works.any(is_of_one_graph) {
            let detail = format!("{what} of a graph with nodes that allocate, free or decide");
            return fail_with(CUDA_ERROR_NOT_SUPPORTED, detail);
        }
        Ok(())
    }

    /// Checks what a launch of a graph does with memory, and gives what is to be freed first.
    pub(super) fn check_memory(&self, id: ExecId) -> Outcome<Vec<u64>> {
        let Some(exec) = self.execs.get(&id) else { return Ok(Vec::new()) };
        let plan = &exec.memory;
        if plan.is_empty() {
            return Ok(Vec::new());
        }
        let held = |address: &u64| self.graph_memory.get(address).is_some_and(|one| one.held.is_some());
        let unfreed = plan.allocates.iter().map(|&(address, _)| address).filter(held);
        let unfreed: Vec<u64> = unfreed.collect();
        if let Some(address) = unfreed.first().filter(|_| !plan.auto_free) {
            let detail = format!(
                "the graph's allocation at {address:#x} is not freed since its last launch; free it, or \
                 instantiate with CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH"
            );
            return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
        }
        let own = |address: &u64| plan.allocates.iter().any(|(other, _)| other == address);
        if let Some(address) = plan.frees.iter().find(|address| !own(address) && !held(address)) {
            let detail = format!("the graph frees {address:#x}, which no launch has allocated");
            return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
        }
        self.require_room(plan.slots.iter().map(|&(_, bytes)| bytes).sum::<u64>() as usize)?;
        for (device, number) in self.devices.iter().zip(0..) {
            let slots = plan.slots.iter().filter(|&&(device, _)| device == number);
            let (bytes, free) =
                (slots.map(|&(_, bytes)| bytes).sum::<u64>(), device.addresses.budget().free());
            if bytes > free {
                let detail = format!("the graph allocates {bytes} bytes; the device has {free} left");
                return fail_with(CUDA_ERROR_OUT_OF_MEMORY, detail);
            }
        }
        Ok(unfreed)
    }

    /// Takes note of what a launch, which ends with a task, does with memory. The launch before is
    /// still the last one.
    pub(super) fn note_memory(&mut self, id: ExecId, stream: StreamId, end: TaskId) {
        let Some(exec) = self.execs.get_mut(&id) else { return };
        let (plan, last) = (std::mem::take(&mut exec.memory), exec.last);
        if plan.is_empty() {
            return;
        }
        let behind = Stands::FreeBehind(stream, end);
        let mut blocks = Vec::with_capacity(plan.slots.len());
        for (slot, &(device, bytes)) in plan.slots.iter().enumerate() {
            let wanted = plan.blocks.get(slot).copied();
            let block = self.take_block((device, bytes), wanted, stream, last);
            // No other slot of the launch gets it.
            self.stand(device, block, Stands::Held);
            blocks.push(block);
        }
        for (&(device, _), &block) in plan.slots.iter().zip(&blocks) {
            self.stand(device, block, behind);
        }
        for address in &plan.frees {
            self.let_go(*address, behind);
        }
        for &(address, slot) in &plan.allocates {
            if plan.frees.contains(&address) {
                continue;
            }
            if let Some(memory) = self.graph_memory.get_mut(&address) {
                memory.held = Some(Held { block: blocks[slot], since: end });
            }
            self.stand(plan.slots[slot].0, blocks[slot], Stands::Held);
        }
        if let Some(exec) = self.execs.get_mut(&id) {
            exec.memory = MemoryPlan { blocks, ..plan };
        }
        for device in 0..self.devices.len() {
            self.raise(device as u32);
        }
    }

    /// Forgets the memory of graphs that is of a context.
    pub(super) fn drop_graph_memory_of(&mut self, context: ContextId) {
        let of_context = |(_, memory): &(&u64, &GraphMemory)| memory.range.context == context;
        let addresses = self.graph_memory.iter().filter(of_context).map(|(&address, _)| address);
        for address in addresses.collect::<Vec<_>>() {
            self.let_go(address, Stands::Free);
            self.graph_memory.remove(&address);
        }
    }

    /// A block for a launch on a stream, of a graph whose launch before ends with `last`: the one that
    /// is wanted, else the smallest that is large enough and free there, else a new one.
    fn take_block(
        &mut self,
        (device, bytes): (u32, u64),
        wanted: Option<u64>,
        stream: StreamId,
        last: Option<TaskId>,
    ) -> u64 {
        let is_free = |block: &Block| match block.stands {
            Stands::Held => false,
            Stands::Free => true,
            Stands::FreeBehind(other, task) => other == stream || self.tasks.is_done(task),
        };
        let blocks = &self.devices[device as usize].graph_pool.blocks;
        // Launches of one graph come one after the other, on whatever streams; another graph may have
        // had the block since.
        let is_own =
            |block: &Block| matches!(block.stands, Stands::FreeBehind(_, task) if Some(task) == last);
        let is_wanted = |id: &u64| blocks.get(id).is_some_and(|one| is_free(one) || is_own(one));
        let large = blocks.iter().filter(|(_, block)| block.bytes >= bytes && is_free(block));
        let smallest = || large.min_by_key(|(_, block)| block.bytes).map(|(&id, _)| id);
        if let Some(found) = wanted.filter(is_wanted).or_else(smallest) {
            return found;
        }
        let id = self.new_handle();
        let blocks = &mut self.devices[device as usize].graph_pool.blocks;
        blocks.insert(id, Block { bytes, stands: Stands::Free });
        id
    }

    fn stand(&mut self, device: u32, block: u64, stands: Stands) {
        if let Some(block) = self.devices[device as usize].graph_pool.blocks.get_mut(&block) {
            block.stands = stands;
        }
    }

    fn let_go(&mut self, address: u64, stands: Stands) {
        let Some(memory) = self.graph_memory.get_mut(&address) else { return };
        let device = memory.range.device;
        if let Some(Held { block, .. }) = memory.held.take() {
            self.stand(device, block, stands);
        }
    }

    /// Takes note that a call frees memory of a graph: at once, or by a task on a stream.
    pub(crate) fn freed_by_call(&mut self, address: u64, task: Option<(StreamId, TaskId)>) {
        let stands = task.map_or(Stands::Free, |(stream, task)| Stands::FreeBehind(stream, task));
        self.let_go(address, stands);
        self.forget_graph_memory();
    }

    /// Whether a call may free what starts at an address, as far as graphs are concerned; since when it
    /// is there, if a graph has allocated it.
    pub(crate) fn may_free(&self, address: u64) -> Outcome<Option<TaskId>> {
        match self.graph_memory.get(&address) {
            None => Ok(None),
            Some(GraphMemory { held: Some(held), .. }) => Ok(Some(held.since)),
            Some(memory) => {
                let why = match memory.freed_by.contains(&memory.owner) {
                    true => "which that graph frees itself",
                    false => "which no launch has allocated",
                };
                let detail = format!("{address:#x} is memory of a graph, {why}");
                fail_with(CUDA_ERROR_INVALID_VALUE, detail)
            }
        }
    }

    /// Forgets memory that is not there, and that no node, graph to launch or task has any more.
    pub(super) fn forget_graph_memory(&mut self) {
        let is_of_use =
            |memory: &GraphMemory| memory.held.is_some() || Arc::strong_count(&memory.range) > 1;
        self.graph_memory.retain(|_, memory| is_of_use(memory));
    }

    /// Bytes of a device that graphs use, and that are kept for them.
    pub(crate) fn graph_bytes(&self, device: u32) -> [u64; 2] {
        let blocks = &self.devices[device as usize].graph_pool.blocks;
        let used = |(id, block): &(&u64, &Block)| {
            matches!(block.stands, Stands::Held)
                || self.execs.values().any(|exec| exec.memory.blocks.contains(id))
        };
        let used = blocks.iter().filter(used).map(|(_, block)| block.bytes).sum();
        [used, blocks.values().map(|block| block.bytes).sum()]
    }

    /// The most that these were.
    pub(crate) fn most_graph_bytes(&self, device: u32) -> [u64; 2] {
        self.devices[device as usize].graph_pool.high
    }

    /// Lets the most begin anew: that of what is used, or of what is kept.
    pub(crate) fn reset_most_graph_bytes(&mut self, device: u32, which: usize) {
        self.devices[device as usize].graph_pool.high[which] = self.graph_bytes(device)[which];
    }

    fn raise(&mut self, device: u32) {
        let now = self.graph_bytes(device);
        let high = &mut self.devices[device as usize].graph_pool.high;
        *high = [high[0].max(now[0]), high[1].max(now[1])];
    }

    /// Gives back what is kept for graphs and not in use.
    pub(crate) fn trim_graph_memory(&mut self, device: u32) {
        let tasks = &self.tasks;
        let in_use = |block: &Block| match block.stands {
            Stands::Held => true,
            Stands::Free => false,
            Stands::FreeBehind(_, task) => !tasks.is_done(task),
        };
        self.devices[device as usize].graph_pool.blocks.retain(|_, block| in_use(block));
    }
}
