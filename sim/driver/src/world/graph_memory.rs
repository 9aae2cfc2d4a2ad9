//! Memory of graphs. Its addresses are fixed when a node that allocates is created. The memory exists
//! from its allocation by a launch until it is freed, in the graph or by a later call.
//!
//! A GPU maps the same memory at the addresses of graphs that do not run at the same time, and keeps the
//! memory for the next graph. Here each launch allocates and frees its memory; the bytes that a GPU
//! would keep are counted, for the attributes that report them. The call that enqueues a launch promises
//! memory to the launch, which then does not run out of memory half-way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use warpfold_driver::sys::*;

use super::{Device, Exec, State, TaskId, Tasks, Work};
use crate::failure::{Outcome, fail_with};
use crate::ffi::{ContextId, ExecId, GraphId, StreamId};

#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) context: ContextId,
    pub(crate) device: u32,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// The requested bytes, which a device may round up.
    pub(crate) asked: usize,
    /// The access descriptors, as the node lists them.
    pub(crate) access: Box<[CUmemAccessDesc]>,
}

/// State of a node's allocation after all calls so far, even if their work has not run yet.
#[derive(Debug)]
pub(crate) struct GraphMemory {
    pub(crate) range: Arc<Reserved>,
    owner: GraphId,
    freed_by: BTreeSet<GraphId>,
    /// Set while the memory stays allocated after a launch, until a call frees it.
    pub(crate) held: Option<Held>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    block: u64,
    /// Last task of the launch that allocated the memory.
    pub(crate) since: TaskId,
}

#[derive(Debug, Default)]
pub(crate) struct GraphPool {
    blocks: BTreeMap<u64, Block>,
    /// High-water marks since their last reset: bytes that graphs used, and bytes kept for graphs.
    high: [u64; 2],
    pub(crate) open_to: BTreeSet<u32>,
}

/// Physical memory, which a GPU would map at the addresses of one allocation at a time.
#[derive(Debug)]
struct Block {
    bytes: u64,
    stands: BlockUse,
}

#[derive(Debug, Clone, Copy)]
enum BlockUse {
    Held,
    Free,
    /// Free, but only for work that is enqueued on this stream after this task.
    FreeBehind(StreamId, TaskId),
}

#[derive(Debug, Default)]
pub(super) struct Footprint {
    /// Addresses that the previous launch left allocated; the new launch frees them first.
    pub(super) unfreed: Vec<u64>,
    /// The block for each of [`MemoryPlan::slots`]; `None` where a new block is needed.
    blocks: Vec<Option<u64>>,
}

#[derive(Debug, Default)]
pub(crate) struct MemoryPlan {
    /// Each allocated address, with the index of its slot.
    allocates: Vec<(u64, usize)>,
    frees: BTreeSet<u64>,
    /// Slots: memory that allocations of the graph use one after the other. The device and the maximum
    /// bytes of each.
    slots: Vec<(u32, u64)>,
    /// The block that each slot had in the last launch.
    blocks: Vec<u64>,
    /// Set if a launch frees memory that the previous one left allocated.
    pub(crate) auto_free: bool,
}

impl Block {
    fn is_in_use(&self, tasks: &Tasks) -> bool {
        match self.stands {
            BlockUse::Held => true,
            BlockUse::Free => false,
            BlockUse::FreeBehind(_, task) => !tasks.is_done(task),
        }
    }
}

impl MemoryPlan {
    /// Plans the memory of steps. Each step has the indices of earlier steps on which it depends.
    pub(super) fn of(steps: &[(Work, Vec<usize>)], auto_free: bool) -> Self {
        let mut plan = Self { auto_free, ..Self::default() };
        // The step that frees the last allocation of each slot, if any.
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

fn ancestors(steps: &[(Work, Vec<usize>)], of: usize) -> Vec<bool> {
    let (mut is_before, mut open) = (vec![false; steps.len()], steps[of].1.clone());
    while let Some(step) = open.pop() {
        if !std::mem::replace(&mut is_before[step], true) {
            open.extend(&steps[step].1);
        }
    }
    is_before
}

impl State {
    /// Reserves the addresses for a node that allocates; the caller adds the node.
    pub(crate) fn reserve(
        &mut self,
        graph: GraphId,
        context: ContextId,
        asked: usize,
        access: Box<[CUmemAccessDesc]>,
    ) -> Outcome<Arc<Reserved>> {
        self.graph(graph)?;
        if asked == 0 {
            return fail_with(CUDA_ERROR_INVALID_VALUE, "0 bytes are requested; allowed are 1 or more");
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

    /// Returns the range of graph memory that contains an address, whether it is allocated or not.
    pub(super) fn reserved_at(&self, address: u64) -> Option<&Reserved> {
        let (_, memory) = self.graph_memory.range(..=address).next_back()?;
        (address - memory.range.address < memory.range.bytes).then_some(&*memory.range)
    }

    /// Returns the work of a node that frees memory allocated by a node of the same graph or another
    /// one.
    pub(crate) fn free_in_graph(&self, graph: GraphId, address: u64) -> Outcome<Work> {
        self.graph(graph)?;
        let Some(memory) = self.graph_memory.get(&address) else {
            let detail = format!("{address:#x} is not memory that a node of a graph allocates");
            return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
        };
        let wrong = match memory.owner == graph {
            _ if memory.freed_by.contains(&graph) => "the same graph",
            false if memory.freed_by.contains(&memory.owner) => "the graph that allocates it",
            true if !memory.freed_by.is_empty() => "another graph",
            _ => return Ok(Work::Release(address)),
        };
        let detail = format!("{address:#x} is already freed by a node of {wrong}");
        fail_with(CUDA_ERROR_INVALID_VALUE, detail)
    }

    pub(super) fn note_free_node(&mut self, graph: GraphId, address: u64) {
        if let Some(memory) = self.graph_memory.get_mut(&address) {
            memory.freed_by.insert(graph);
        }
    }

    /// Records that a `MEM_FREE` node was removed with its graph, so that a node of another graph may
    /// free the memory instead. Nothing changes if the removed graph also allocates the memory:
    /// executable graphs made from it still allocate and free.
    pub(super) fn forget_free_node(&mut self, graph: GraphId, address: u64) {
        if let Some(memory) = self.graph_memory.get_mut(&address)
            && memory.owner != graph
        {
            memory.freed_by.remove(&graph);
        }
    }

    /// Returns an error unless a graph can be copied, or launched as a part of another graph.
    pub(super) fn check_copied<'w>(
        &self,
        what: &str,
        mut works: impl Iterator<Item = &'w Work>,
    ) -> Outcome {
        let is_of_one_graph =
            |work| matches!(work, &Work::Allocate(_) | &Work::Release(_) | &Work::Conditional(_));
        if works.any(is_of_one_graph) {
            let detail =
                format!("{what} of a graph with allocation, free or conditional nodes is not supported");
            return fail_with(CUDA_ERROR_NOT_SUPPORTED, detail);
        }
        Ok(())
    }

    /// Plans the memory operations of a launch on a stream; fails if they are not possible.
    pub(super) fn plan_launch(&self, id: ExecId, stream: StreamId) -> Outcome<Footprint> {
        let Some(exec) = self.execs.get(&id) else { return Ok(Footprint::default()) };
        let plan = &exec.memory;
        if plan.is_empty() {
            return Ok(Footprint::default());
        }
        let gone = plan.allocates.iter().find(|(address, _)| !self.graph_memory.contains_key(address));
        if let Some((address, _)) = gone {
            let detail = format!("the context in which the graph allocates {address:#x} was destroyed");
            return fail_with(CUDA_ERROR_CONTEXT_IS_DESTROYED, detail);
        }
        let held = |address: &u64| self.graph_memory.get(address).is_some_and(|one| one.held.is_some());
        let unfreed = plan.allocates.iter().map(|&(address, _)| address).filter(held);
        let unfreed: Vec<u64> = unfreed.collect();
        if let Some(address) = unfreed.first().filter(|_| !plan.auto_free) {
            let detail = format!(
                "the graph's allocation at {address:#x} has not been freed since its last launch; free \
                 it, or instantiate with CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH"
            );
            return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
        }
        let own = |address: &u64| plan.allocates.iter().any(|(other, _)| other == address);
        if let Some(address) = plan.frees.iter().find(|address| !own(address) && !held(address)) {
            let detail = format!("the graph frees {address:#x}, which no launch has allocated");
            return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
        }
        let blocks = self.choose_blocks(exec, stream, &unfreed);
        self.check_blocks(plan, &blocks)?;
        Ok(Footprint { unfreed, blocks })
    }

    /// Returns an error unless there is enough free memory for those of a launch's blocks that are new
    /// or not in use now.
    fn check_blocks(&self, plan: &MemoryPlan, blocks: &[Option<u64>]) -> Outcome {
        let mut more = vec![0_u64; self.devices.len()];
        for (&(device, bytes), block) in plan.slots.iter().zip(blocks) {
            let pool = &self.devices[device as usize].graph_pool;
            more[device as usize] += match block.and_then(|block| pool.blocks.get(&block)) {
                Some(block) if block.is_in_use(&self.tasks) => 0,
                Some(block) => block.bytes,
                None => bytes,
            };
        }
        let all: u64 = more.iter().sum();
        self.require_room(all as usize)?;
        let promised = self.promised();
        let free = |device| self.free_beside(device, &promised);
        let of_each = (0..).zip(more).map(|(device, bytes)| (bytes, free(device)));
        let of_all = (all, self.free_of_all(&promised));
        if let Some((bytes, free)) = of_each.chain([of_all]).find(|(bytes, free)| bytes > free) {
            let detail = format!("the graph needs {bytes} more bytes; {free} are left");
            return fail_with(CUDA_ERROR_OUT_OF_MEMORY, detail);
        }
        Ok(())
    }

    /// Returns the bytes per device that are reserved for launches and not allocated now. A real GPU has
    /// mapped them already.
    fn promised(&self) -> Vec<u64> {
        let blocks = |device: &Device| {
            let blocks = device.graph_pool.blocks.values().filter(|block| block.is_in_use(&self.tasks));
            blocks.map(|block| block.bytes).sum::<u64>()
        };
        let mut promised: Vec<u64> = self.devices.iter().map(blocks).collect();
        for memory in self.graph_memory.values().filter(|memory| self.is_allocated(memory)) {
            let of_device = &mut promised[memory.range.device as usize];
            *of_device = of_device.saturating_sub(memory.range.bytes);
        }
        promised
    }

    pub(super) fn promised_bytes(&self) -> u64 {
        self.promised().iter().sum()
    }

    fn is_allocated(&self, memory: &GraphMemory) -> bool {
        let found = self.contexts.get(&memory.range.context);
        found.is_some_and(|one| one.gpu.memory().allocation_of(memory.range.address).is_some())
    }

    /// Returns the bytes of a device that are neither allocated nor promised to a launch.
    pub(crate) fn free_bytes(&self, device: u32) -> u64 {
        self.free_beside(device, &self.promised())
    }

    fn free_beside(&self, device: u32, promised: &[u64]) -> u64 {
        let own = self.devices[device as usize].addresses.budget();
        let own = own.limit().saturating_sub(own.used()).saturating_sub(promised[device as usize]);
        own.min(self.free_of_all(promised))
    }

    fn free_of_all(&self, promised: &[u64]) -> u64 {
        let whole = self.devices.first().map_or(0, |device| device.whole.free());
        whole.saturating_sub(promised.iter().sum())
    }

    /// Returns an error if an allocation would use memory that is promised to launches. If the memory
    /// does not exist at all, the allocation itself fails.
    pub(crate) fn check_promised(&self, device: u32, bytes: u64) -> Outcome {
        let promised = self.promised();
        let all: u64 = promised.iter().sum();
        let free = self.free_beside(device, &promised);
        if all == 0 || bytes <= free {
            return Ok(());
        }
        let detail = format!(
            "{bytes} bytes are requested; the device has {free} left, and {all} are reserved for \
             launches of graphs"
        );
        fail_with(CUDA_ERROR_OUT_OF_MEMORY, detail)
    }

    /// Records the memory operations of a launch that ends with the task `end`.
    pub(super) fn note_memory(
        &mut self,
        id: ExecId,
        stream: StreamId,
        end: TaskId,
        footprint: &Footprint,
    ) {
        let Some(plan) = self.execs.get_mut(&id).map(|exec| std::mem::take(&mut exec.memory)) else {
            return;
        };
        if plan.is_empty() {
            return;
        }
        let behind = BlockUse::FreeBehind(stream, end);
        let slots = plan.slots.iter().zip(&footprint.blocks);
        let blocks: Vec<u64> = slots
            .map(|(&(device, bytes), block)| {
                let block = block.unwrap_or_else(|| self.add_block(device, bytes));
                self.stand(device, block, behind);
                block
            })
            .collect();
        for address in &plan.frees {
            self.let_go(*address, behind);
        }
        for &(address, slot) in &plan.allocates {
            if plan.frees.contains(&address) {
                continue;
            }
            if let Some(memory) = self.graph_memory.get_mut(&address) {
                memory.held = Some(Held { block: blocks[slot], since: end });
                self.stand(plan.slots[slot].0, blocks[slot], BlockUse::Held);
            }
        }
        if let Some(exec) = self.execs.get_mut(&id) {
            exec.memory = MemoryPlan { blocks, ..plan };
        }
        for device in 0..self.devices.len() {
            self.raise(device as u32);
        }
    }

    /// Releases the graph memory of a context, and memory of other contexts whose allocating launch was
    /// dropped with this context's tasks.
    pub(super) fn drop_graph_memory_of(&mut self, context: ContextId) {
        let of_context = |(_, memory): &(&u64, &GraphMemory)| memory.range.context == context;
        let addresses = self.graph_memory.iter().filter(of_context).map(|(&address, _)| address);
        for address in addresses.collect::<Vec<_>>() {
            self.let_go(address, BlockUse::Free);
            self.graph_memory.remove(&address);
        }
        let never_came = |memory: &GraphMemory| {
            memory.held.is_some_and(|held| self.tasks.is_done(held.since)) && !self.is_allocated(memory)
        };
        let left = self.graph_memory.iter().filter(|(_, memory)| never_came(memory));
        for address in left.map(|(&address, _)| address).collect::<Vec<_>>() {
            self.let_go(address, BlockUse::Free);
        }
        self.forget_graph_memory();
    }

    /// Chooses the blocks for a launch that begins by freeing `unfreed`: for each slot of the plan its
    /// previous block, otherwise the smallest free one that is large enough, otherwise none.
    fn choose_blocks(&self, exec: &Exec, stream: StreamId, unfreed: &[u64]) -> Vec<Option<u64>> {
        let held = |address| self.graph_memory.get(address)?.held.map(|held| held.block);
        let let_go: BTreeSet<u64> = unfreed.iter().filter_map(held).collect();
        let is_free = |id: &u64, block: &Block| match block.stands {
            BlockUse::Held => let_go.contains(id),
            BlockUse::Free => true,
            BlockUse::FreeBehind(other, task) => other == stream || self.tasks.is_done(task),
        };
        // Launches of one graph run one after the other on any streams, so a block that the previous one
        // freed is free for this one. If another graph has used the block since, `task` differs.
        let is_own = |block: &Block| matches!(block.stands, BlockUse::FreeBehind(_, task) if Some(task) == exec.last);
        let mut taken = BTreeSet::new();
        let choose = |(slot, &(device, bytes)): (usize, &(u32, u64))| {
            let blocks = &self.devices[device as usize].graph_pool.blocks;
            let blocks = blocks.iter().filter(|(id, _)| !taken.contains(*id));
            let before = exec.memory.blocks.get(slot);
            let mut own = blocks.clone().filter(|(id, _)| Some(*id) == before);
            let own = own.find(|(id, block)| is_free(id, block) || is_own(block));
            let large = blocks.filter(|(id, block)| block.bytes >= bytes && is_free(id, block));
            let found = own.or_else(|| large.min_by_key(|(_, block)| block.bytes)).map(|(&id, _)| id);
            taken.extend(found);
            found
        };
        exec.memory.slots.iter().enumerate().map(choose).collect()
    }

    fn add_block(&mut self, device: u32, bytes: u64) -> u64 {
        let id = self.new_handle();
        let blocks = &mut self.devices[device as usize].graph_pool.blocks;
        blocks.insert(id, Block { bytes, stands: BlockUse::Free });
        id
    }

    fn stand(&mut self, device: u32, block: u64, stands: BlockUse) {
        if let Some(block) = self.devices[device as usize].graph_pool.blocks.get_mut(&block) {
            block.stands = stands;
        }
    }

    fn let_go(&mut self, address: u64, stands: BlockUse) {
        let Some(memory) = self.graph_memory.get_mut(&address) else { return };
        let device = memory.range.device;
        if let Some(Held { block, .. }) = memory.held.take() {
            self.stand(device, block, stands);
        }
    }

    /// Records that a call frees memory of a graph: at once, or by a task on a stream.
    pub(crate) fn freed_by_call(&mut self, address: u64, task: Option<(StreamId, TaskId)>) {
        let stands = task.map_or(BlockUse::Free, |(stream, task)| BlockUse::FreeBehind(stream, task));
        self.let_go(address, stands);
        self.forget_graph_memory();
    }

    /// Returns an error for memory of a graph that a call must not free. For memory that a call may
    /// free, returns the last task of the graph launch that allocated it, if any.
    pub(crate) fn may_free(&self, address: u64) -> Outcome<Option<TaskId>> {
        match self.graph_memory.get(&address) {
            None => Ok(None),
            Some(GraphMemory { held: Some(held), .. }) => Ok(Some(held.since)),
            Some(memory) => {
                let why = match memory.freed_by.contains(&memory.owner) {
                    true => "which the graph itself frees",
                    false => "which no launch has allocated",
                };
                let detail = format!("{address:#x} is memory of a graph, {why}");
                fail_with(CUDA_ERROR_INVALID_VALUE, detail)
            }
        }
    }

    /// Forgets memory that is not allocated and that no node, executable graph or task refers to.
    pub(super) fn forget_graph_memory(&mut self) {
        let is_of_use =
            |memory: &GraphMemory| memory.held.is_some() || Arc::strong_count(&memory.range) > 1;
        self.graph_memory.retain(|_, memory| is_of_use(memory));
    }

    /// Returns the bytes of a device that graphs use, and the bytes that are kept for graphs.
    pub(crate) fn graph_bytes(&self, device: u32) -> [u64; 2] {
        let blocks = &self.devices[device as usize].graph_pool.blocks;
        let used = |(id, block): &(&u64, &Block)| {
            matches!(block.stands, BlockUse::Held)
                || self.execs.values().any(|exec| exec.memory.blocks.contains(id))
        };
        let used = blocks.iter().filter(used).map(|(_, block)| block.bytes).sum();
        [used, blocks.values().map(|block| block.bytes).sum()]
    }

    pub(crate) fn most_graph_bytes(&self, device: u32) -> [u64; 2] {
        self.devices[device as usize].graph_pool.high
    }

    pub(crate) fn reset_most_graph_bytes(&mut self, device: u32, which: usize) {
        self.devices[device as usize].graph_pool.high[which] = self.graph_bytes(device)[which];
    }

    fn raise(&mut self, device: u32) {
        let now = self.graph_bytes(device);
        let high = &mut self.devices[device as usize].graph_pool.high;
        *high = [high[0].max(now[0]), high[1].max(now[1])];
    }

    pub(crate) fn trim_graph_memory(&mut self, device: u32) {
        let tasks = &self.tasks;
        self.devices[device as usize].graph_pool.blocks.retain(|_, block| block.is_in_use(tasks));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use warpfold_driver::sys::*;
    use warpfold_sim::Budget;

    use super::{Device, State, Work};
    use crate::ffi::{ContextId, ExecId, StreamId};
    use crate::world::Kind;

    /// Small enough that the host's memory is not checked.
    const BYTES: u64 = 1000;

    /// Creates two devices of [`BYTES`] bytes each, with a common limit of 1.5 times [`BYTES`], and a
    /// context on the first one.
    fn world() -> (State, ContextId, StreamId) {
        let mut state = State::default();
        let whole = Arc::new(Budget::new(BYTES / 2 * 3));
        state.devices = (0..2).map(|number| Device::new(number, BYTES, &whole)).collect();
        let context = state.add_context(0, 0);
        let stream = state.add_stream(context, Kind::NonBlocking, 0);
        (state, context, stream)
    }

    fn unfreed(state: &mut State, context: ContextId, bytes: usize) -> (ExecId, u64) {
        let graph = state.add_graph();
        let range = state.reserve(graph, context, bytes, Box::default()).expect("addresses");
        let address = range.address;
        state.add_node(graph, Work::Allocate(range), Vec::new()).expect("a node");
        (state.instantiate(graph, context, false).expect("a graph that is ready"), address)
    }

    #[test]
    fn launch_reserves_graph_memory_when_enqueued() {
        let (mut state, context, stream) = world();
        let [(first, address), (second, _)] = [(); 2].map(|()| unfreed(&mut state, context, 700));
        let free = |state: &State| [0, 1].map(|device| state.free_bytes(device));
        assert_eq!(free(&state), [1000, 1000]);
        state.launch_graph(first, stream).expect("room for one");
        for _ in 0..2 {
            assert_eq!(free(&state), [300, 800], "of both there are 1500 bytes");
            let refused = state.launch_graph(second, stream).expect_err("no room for two");
            assert_eq!(refused.code, CUDA_ERROR_OUT_OF_MEMORY);
            // In the second iteration the memory is allocated, as after the launch has run.
            let memory = state.contexts[&context].gpu.memory();
            let _is_there: Result<_, _> = memory.alloc_at(address, 700);
        }
        let memory = state.contexts[&context].gpu.memory();
        memory.free(address).expect("it was allocated");
        state.freed_by_call(address, None);
        assert_eq!(free(&state), [1000, 1000]);
        state.launch_graph(second, stream).expect("room again");
        assert_eq!(
            state.check_promised(0, 301).map_err(|failure| failure.code),
            Err(CUDA_ERROR_OUT_OF_MEMORY)
        );
        assert_eq!(state.check_promised(0, 300), Ok(()));
    }

    #[test]
    fn devices_share_one_memory_budget() {
        let (mut state, first, stream) = world();
        let second = state.add_context(1, 0);
        let graph = state.add_graph();
        for context in [first, second] {
            let range = state.reserve(graph, context, 800, Box::default()).expect("addresses");
            state.add_node(graph, Work::Allocate(range), Vec::new()).expect("a node");
        }
        let exec = state.instantiate(graph, first, false).expect("a graph that is ready");
        let refused = state.launch_graph(exec, stream).expect_err("1600 bytes of 1500");
        assert_eq!(refused.code, CUDA_ERROR_OUT_OF_MEMORY);
    }
}
