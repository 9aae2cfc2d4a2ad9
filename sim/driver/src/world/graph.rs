//! Graphs: recorded work that can be enqueued repeatedly.

use std::{collections::HashMap, mem, sync::Arc};

use warpfold_driver::sys::*;

use super::conditional::BodyOf;
use super::{Condition, MemoryPlan, State, TaskId, Work};
use crate::failure::{Failure, Outcome, fail, fail_with};
use crate::ffi::{ContextId, ExecId, GraphId, NodeId, StreamId};

#[derive(Debug, Default, Clone)]
pub(crate) struct Graph {
    /// Nodes in the order of addition, so that each node follows its dependencies.
    pub(crate) nodes: Vec<NodeId>,
    /// Conditional handles, each with a flag that is set if a node uses it.
    pub(super) conditions: Vec<(Arc<Condition>, bool)>,
    pub(super) body_of: Option<BodyOf>,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(super) graph: GraphId,
    pub(crate) work: Work,
    pub(crate) needs: Vec<NodeId>,
}

#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) context: ContextId,
    graph: GraphId,
    /// The work of each step, and the indices of the earlier steps on which the step depends.
    pub(crate) steps: Vec<(Work, Vec<usize>)>,
    /// The node of each step. Calls name steps by their nodes.
    pub(crate) nodes: Vec<NodeId>,
    /// Last task of the last launch; the launches of one graph run one after the other.
    pub(crate) last: Option<TaskId>,
    pub(crate) memory: MemoryPlan,
    conditions: Arc<[Arc<Condition>]>,
}

/// The first difference that prevents the update of an executable graph from a graph.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unlike {
    /// Dependencies differ from this node of the graph on; `None` if the graph has fewer nodes.
    Order(Option<NodeId>),
    Kind(NodeId),
    Parameters(NodeId),
}

/// The error of a graph that cannot be instantiated: the failure, and CUDA's instantiation result.
#[derive(Debug)]
pub(crate) struct Unready {
    failure: Failure,
    pub(crate) result: CUgraphInstantiateResult,
}

impl From<Failure> for Unready {
    fn from(failure: Failure) -> Self {
        Self { failure, result: CUDA_GRAPH_INSTANTIATE_ERROR }
    }
}

impl From<Unready> for Failure {
    fn from(unready: Unready) -> Self {
        unready.failure
    }
}

/// Returns whether two pieces of work have the same kind, so that either can replace the other.
pub(super) fn is_alike(one: &Work, other: &Work) -> bool {
    match (one, other) {
        (Work::Conditional(one), Work::Conditional(other)) => one.is_like(other),
        _ => mem::discriminant(one) == mem::discriminant(other),
    }
}

/// Returns whether two pieces of work of the same kind agree in the address they allocate or free.
fn has_same_memory(one: &Work, other: &Work) -> bool {
    match (one, other) {
        (Work::Allocate(one), Work::Allocate(other)) => one.address == other.address,
        (Work::Release(one), Work::Release(other)) => one == other,
        _ => true,
    }
}

impl State {
    pub(crate) fn add_graph(&mut self) -> GraphId {
        let id = GraphId(self.new_handle());
        self.graphs.insert(id, Graph::default());
        id
    }

    pub(crate) fn graph(&self, id: GraphId) -> Outcome<&Graph> {
        self.graphs.get(&id).ok_or_else(|| CUDA_ERROR_INVALID_HANDLE.into())
    }

    pub(crate) fn add_node(
        &mut self,
        graph: GraphId,
        work: Work,
        needs: Vec<NodeId>,
    ) -> Outcome<NodeId> {
        let found = self.graph(graph)?;
        self.check_in_body(found, &work)?;
        let nodes = &found.nodes;
        if needs.iter().any(|need| !nodes.contains(need)) {
            return fail(CUDA_ERROR_INVALID_VALUE);
        }
        if let Work::Release(address) = work {
            self.note_free_node(graph, address);
        }
        let id = NodeId(self.new_handle());
        self.nodes.insert(id, Node { graph, work, needs });
        self.graphs.entry(graph).or_default().nodes.push(id);
        Ok(id)
    }

    pub(super) fn steps(&self, graph: GraphId) -> Outcome<Vec<(Work, Vec<usize>)>> {
        let nodes = &self.graph(graph)?.nodes;
        let index: HashMap<NodeId, usize> = nodes.iter().zip(0..).map(|(&id, at)| (id, at)).collect();
        let step = |id: &NodeId| {
            let node = &self.nodes[id];
            let needs = node.needs.iter().map(|need| index[need]).collect();
            Ok((self.complete_work(&node.work)?, needs))
        };
        nodes.iter().map(step).collect()
    }

    pub(crate) fn clone_graph(&mut self, original: GraphId) -> Outcome<GraphId> {
        let steps = self.steps(original)?;
        self.check_copied("a clone", steps.iter().map(|(work, _)| work))?;
        let clone = self.add_graph();
        self.extend_graph(clone, &steps, &[])?;
        Ok(clone)
    }

    /// Adds steps to a graph after the given nodes; returns the new nodes on which no other one depends.
    pub(crate) fn extend_graph(
        &mut self,
        graph: GraphId,
        steps: &[(Work, Vec<usize>)],
        behind: &[NodeId],
    ) -> Outcome<Vec<NodeId>> {
        // If one step is refused, the graph must stay as it was.
        let found = self.graph(graph)?;
        steps.iter().try_for_each(|(work, _)| self.check_in_body(found, work))?;
        let mut added: Vec<NodeId> = Vec::new();
        for (work, needs) in steps {
            let mut needs: Vec<NodeId> = needs.iter().map(|&need| added[need]).collect();
            if needs.is_empty() {
                needs.extend(behind);
            }
            added.push(self.add_node(graph, work.clone(), needs)?);
        }
        Ok(ends(steps).map(|end| added[end]).collect())
    }

    pub(crate) fn remove_graph(&mut self, id: GraphId) -> Outcome {
        self.check_own(id)?;
        self.drop_graph(id);
        self.forget_graph_memory();
        Ok(())
    }

    pub(super) fn drop_graph(&mut self, id: GraphId) {
        let nodes = self.graphs.remove(&id).map(|graph| graph.nodes).unwrap_or_default();
        for node in nodes {
            match self.nodes.remove(&node).map(|node| node.work) {
                Some(Work::Conditional(node)) => self.drop_bodies(&node),
                Some(Work::Release(address)) => self.forget_free_node(id, address),
                _ => {}
            }
        }
    }

    pub(crate) fn instantiate(
        &mut self,
        graph: GraphId,
        context: ContextId,
        auto_free: bool,
    ) -> Result<ExecId, Unready> {
        self.check_own(graph)?;
        let unused = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
        self.check_conditions(graph).map_err(|failure| Unready { failure, result: unused })?;
        let (steps, nodes) = (self.steps(graph)?, self.graph(graph)?.nodes.clone());
        let conditions = self.conditions_of(graph)?;
        let memory = MemoryPlan::of(&steps, auto_free);
        if !memory.is_empty() && self.execs.values().any(|exec| exec.graph == graph) {
            let detail = "the graph has nodes that allocate or free memory and is already instantiated; \
                          destroy the other executable graph first";
            return fail_with(CUDA_ERROR_INVALID_VALUE, detail)?;
        }
        let id = ExecId(self.new_handle());
        self.execs.insert(id, Exec { context, graph, steps, nodes, last: None, memory, conditions });
        Ok(id)
    }

    pub(crate) fn remove_exec(&mut self, id: ExecId) -> Outcome {
        // Launches that are already enqueued still run.
        if self.execs.remove(&id).is_none() {
            return fail(CUDA_ERROR_INVALID_HANDLE);
        }
        self.forget_graph_memory();
        Ok(())
    }

    /// Replaces the work of a node by work of the same kind, if the node's graph accepts it.
    pub(crate) fn set_node(&mut self, id: NodeId, work: Work) -> Outcome {
        let graph = self.nodes.get(&id).ok_or(CUDA_ERROR_INVALID_HANDLE)?.graph;
        self.check_in_body(self.graph(graph)?, &work)?;
        let node = self.nodes.get_mut(&id).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
        set(&mut node.work, work)
    }

    /// Replaces the work of the step made from `node` by work of the same kind. Earlier launches keep
    /// the old work. Nodes of body graphs make no steps, so the restrictions of bodies need no check.
    pub(crate) fn set_step(&mut self, exec: ExecId, node: NodeId, work: Work) -> Outcome {
        let exec = self.execs.get_mut(&exec).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
        let at = exec.nodes.iter().position(|&of| of == node).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        set(&mut exec.steps[at].0, work)
    }

    /// Replaces the work of all steps of an executable graph by that of a graph's nodes. Returns the
    /// difference that prevents this, if any. The graph must pass the checks of an instantiation.
    pub(crate) fn update_exec(&mut self, id: ExecId, graph: GraphId) -> Outcome<Option<Unlike>> {
        self.check_own(graph)?;
        self.check_conditions(graph)?;
        let (steps, nodes) = (self.steps(graph)?, &self.graph(graph)?.nodes);
        let conditions = self.conditions_of(graph)?;
        let before = &self.execs.get(&id).ok_or(CUDA_ERROR_INVALID_HANDLE)?.steps;
        for (((work, needs), (was, needed)), &node) in steps.iter().zip(before).zip(nodes) {
            if needs != needed {
                return Ok(Some(Unlike::Order(Some(node))));
            }
            if !is_alike(work, was) {
                return Ok(Some(Unlike::Kind(node)));
            }
            if !has_same_memory(work, was) {
                return Ok(Some(Unlike::Parameters(node)));
            }
        }
        if steps.len() != before.len() {
            return Ok(Some(Unlike::Order(nodes.get(before.len()).copied())));
        }
        if let Some(exec) = self.execs.get_mut(&id) {
            exec.steps = steps;
            exec.conditions = conditions;
        }
        Ok(None)
    }

    /// Enqueues a graph on a stream, or records it if the stream is being captured.
    pub(crate) fn launch_graph(&mut self, id: ExecId, stream: StreamId) -> Outcome {
        let Some(exec) = self.execs.get(&id) else { return fail(CUDA_ERROR_INVALID_HANDLE) };
        let (steps, last) = (exec.steps.clone(), exec.last);
        let begins = match exec.conditions.is_empty() {
            true => Work::Nothing,
            false => Work::Begin(Arc::clone(&exec.conditions)),
        };
        if self.is_captured(stream)? {
            self.check_copied("a captured launch", steps.iter().map(|(work, _)| work))?;
            return self.capture_steps(stream, &steps);
        }
        self.check_legacy(stream)?;
        let footprint = self.plan_launch(id, stream)?;
        let mut begin = self.enqueue(stream, begins, last.as_slice());
        for &address in &footprint.unfreed {
            begin = self.add_task(stream, Work::Release(address), vec![begin]);
            self.freed_by_call(address, Some((stream, begin)));
        }
        let mut tasks: Vec<TaskId> = Vec::with_capacity(steps.len());
        for (work, needs) in &steps {
            let mut needs: Vec<TaskId> = needs.iter().map(|&need| tasks[need]).collect();
            if needs.is_empty() {
                needs.push(begin);
            }
            tasks.push(self.add_task(stream, work.clone(), needs));
        }
        let ends: Vec<TaskId> = ends(&steps).map(|end| tasks[end]).collect();
        let end = self.enqueue(stream, Work::Nothing, &ends);
        self.note_memory(id, stream, end, &footprint);
        if let Some(exec) = self.execs.get_mut(&id) {
            exec.last = Some(end);
        }
        Ok(())
    }
}

fn set(place: &mut Work, work: Work) -> Outcome {
    if !is_alike(place, &work) {
        return fail(CUDA_ERROR_INVALID_VALUE);
    }
    *place = work;
    Ok(())
}

fn ends(steps: &[(Work, Vec<usize>)]) -> impl Iterator<Item = usize> {
    let mut is_end = vec![true; steps.len()];
    for need in steps.iter().flat_map(|(_, needs)| needs) {
        is_end[*need] = false;
    }
    is_end.into_iter().enumerate().filter_map(|(index, is_end)| is_end.then_some(index))
}
