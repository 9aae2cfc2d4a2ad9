//! Conditional nodes of graphs: a value that kernels set for a handle selects the body graphs that run.

use std::sync::{Arc, Weak};

use warpfold_driver::sys::*;
use warpfold_sim::Gpu;

use super::{Graph, Node, State, Work};
use crate::failure::{Outcome, fail, fail_with};
use crate::ffi::{ContextId, GraphId, NodeId};

/// Maximum number of bodies of a switch node. CUDA's manual gives no limit.
const MOST_BODIES: u32 = 1 << 16;

/// The value of a conditional handle. Kernels may set it while a graph or executable graph uses it.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) handle: u64,
    pub(crate) context: ContextId,
    /// Initial value in each run of the graph; `None` means 0.
    default: Option<u32>,
    gpu: Weak<Gpu>,
}

impl Condition {
    pub(super) fn begin(&self) {
        if let Some(gpu) = self.gpu.upgrade() {
            gpu.set_condition(self.handle, self.default.unwrap_or(0));
        }
    }
}

impl Drop for Condition {
    fn drop(&mut self) {
        if let Some(gpu) = self.gpu.upgrade() {
            gpu.forget_condition(self.handle);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Conditional {
    pub(crate) condition: Arc<Condition>,
    pub(crate) kind: CUgraphConditionalNodeType,
    pub(super) bodies: Box<[Body]>,
    /// Handles of the body graphs, in a list with a stable address.
    listed: Box<[usize]>,
}

#[derive(Debug)]
pub(super) struct Body {
    pub(super) graph: GraphId,
    /// Work in dependency order; empty until the graph is instantiated.
    pub(super) steps: Vec<Work>,
    conditions: Arc<[Arc<Condition>]>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyOf {
    parent: GraphId,
    /// Context of all kernels of the body.
    context: ContextId,
}

impl Conditional {
    pub(crate) fn graphs(&self) -> *mut CUgraph {
        self.listed.as_ptr().cast_mut().cast()
    }

    pub(super) fn chosen(&self) -> Option<&Body> {
        let gpu = self.condition.gpu.upgrade()?;
        let value = gpu.condition(self.condition.handle).unwrap_or(0) as usize;
        match self.kind {
            CU_GRAPH_COND_TYPE_SWITCH => self.bodies.get(value),
            _ => self.bodies.get(usize::from(value == 0)),
        }
    }

    pub(super) fn most_steps(&self) -> u64 {
        self.condition.gpu.upgrade().map_or(0, |gpu| gpu.config().step_limit)
    }

    /// Returns whether another node can replace this one: it has the same kind, and the work in its
    /// bodies has the same kinds.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let alike = |(one, other): (&Body, &Body)| {
            let mut steps = one.steps.iter().zip(&other.steps);
            one.steps.len() == other.steps.len()
                && steps.all(|(one, other)| super::graph::is_alike(one, other))
        };
        self.kind == other.kind
            && self.bodies.len() == other.bodies.len()
            && self.bodies.iter().zip(&other.bodies).all(alike)
    }

    pub(super) fn all_steps(&self) -> impl Iterator<Item = &Work> {
        self.bodies.iter().flat_map(|body| &body.steps)
    }
}

impl Body {
    pub(super) fn begin(&self) {
        self.conditions.iter().for_each(|condition| condition.begin());
    }
}

impl State {
    pub(crate) fn add_condition(
        &mut self,
        graph: GraphId,
        context: ContextId,
        default: Option<u32>,
    ) -> Outcome<u64> {
        self.graph(graph)?;
        let gpu = Arc::downgrade(&self.context(context)?.gpu);
        let handle = self.new_handle();
        let condition = Condition { handle, context, default, gpu };
        condition.begin();
        if let Some(graph) = self.graphs.get_mut(&graph) {
            graph.conditions.push((Arc::new(condition), false));
        }
        Ok(handle)
    }

    /// Finds a handle in `graph` or the graphs that contain it. Returns the owner, and the index in it.
    fn owner_of_condition(&self, graph: GraphId, handle: u64) -> Option<(GraphId, usize)> {
        let mut at = Some(graph);
        while let Some(id) = at {
            let graph = self.graphs.get(&id)?;
            let has = |(condition, _): &(Arc<Condition>, bool)| condition.handle == handle;
            if let Some(index) = graph.conditions.iter().position(has) {
                return Some((id, index));
            }
            at = graph.body_of.map(|body| body.parent);
        }
        None
    }

    pub(crate) fn add_conditional(
        &mut self,
        graph: GraphId,
        needs: Vec<NodeId>,
        params: &CUDA_CONDITIONAL_NODE_PARAMS,
        context: ContextId,
    ) -> Outcome<(NodeId, Arc<Conditional>)> {
        let &CUDA_CONDITIONAL_NODE_PARAMS { handle, kind, size, .. } = params;
        let allowed = match kind {
            CU_GRAPH_COND_TYPE_IF => (1..=2).contains(&size),
            CU_GRAPH_COND_TYPE_WHILE => size == 1,
            CU_GRAPH_COND_TYPE_SWITCH => (1..=MOST_BODIES).contains(&size),
            _ => {
                return fail_with(
                    CUDA_ERROR_INVALID_VALUE,
                    format!(
                        "kind {kind} is not a kind of conditional node; allowed are IF, WHILE and SWITCH"
                    ),
                );
            }
        };
        if !allowed {
            let detail = format!(
                "the node has {size} bodies; allowed is 1 for WHILE, 1 or 2 for IF, and 1 to \
                 {MOST_BODIES} for SWITCH"
            );
            return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
        }
        let Some((owner, index)) = self.owner_of_condition(graph, handle) else {
            let detail =
                format!("{handle:#x} is not a conditional handle of a graph that contains the node");
            return fail_with(CUDA_ERROR_INVALID_VALUE, detail);
        };
        let (condition, used) = self.graphs[&owner].conditions[index].clone();
        if used || condition.context != context {
            let why = if used { "belongs to another node" } else { "belongs to another context" };
            return fail_with(CUDA_ERROR_INVALID_VALUE, format!("the handle {handle:#x} {why}"));
        }
        let body_of = BodyOf { parent: graph, context };
        let body = |state: &mut Self| {
            let id = state.add_graph();
            state.graphs.insert(id, Graph { body_of: Some(body_of), ..Graph::default() });
            Body { graph: id, steps: Vec::new(), conditions: Arc::default() }
        };
        let bodies: Box<[Body]> = (0..size).map(|_| body(self)).collect();
        let listed = bodies.iter().map(|body| body.graph.0 as usize).collect();
        let node = Arc::new(Conditional { condition, kind, bodies, listed });
        let added = self.add_node(graph, Work::Conditional(Arc::clone(&node)), needs);
        let added = added.inspect_err(|_| self.drop_bodies(&node))?;
        if let Some(graph) = self.graphs.get_mut(&owner) {
            graph.conditions[index].1 = true;
        }
        Ok((added, node))
    }

    pub(super) fn drop_bodies(&mut self, node: &Conditional) {
        for body in &node.bodies {
            self.drop_graph(body.graph);
        }
    }

    pub(super) fn check_in_body(&self, graph: &Graph, work: &Work) -> Outcome {
        let Some(BodyOf { context, .. }) = graph.body_of else { return Ok(()) };
        match work {
            Work::Launch(launch) if launch.context != context => {
                let detail =
                    "the kernels of a conditional node's graphs must belong to the context of the node";
                fail_with(CUDA_ERROR_INVALID_VALUE, detail)
            }
            Work::Nothing | Work::Launch(_) | Work::Copy(_) | Work::Fill(_) | Work::Conditional(_) => {
                Ok(())
            }
            _ => {
                let detail = "a conditional node's graphs may contain only empty, kernel, copy, memset \
                              and conditional nodes";
                fail_with(CUDA_ERROR_NOT_SUPPORTED, detail)
            }
        }
    }

    /// Returns a node's work for an executable graph. Work of a conditional node includes its bodies.
    pub(super) fn complete_work(&self, work: &Work) -> Outcome<Work> {
        let Work::Conditional(node) = work else { return Ok(work.clone()) };
        let body = |body: &Body| {
            let steps = self.steps(body.graph)?.into_iter().map(|(work, _)| work).collect();
            Ok(Body { graph: body.graph, steps, conditions: self.conditions_of(body.graph)? })
        };
        let bodies = node.bodies.iter().map(body).collect::<Outcome<_>>()?;
        let condition = Arc::clone(&node.condition);
        let listed = node.listed.clone();
        Ok(Work::Conditional(Arc::new(Conditional { condition, kind: node.kind, bodies, listed })))
    }

    pub(super) fn conditions_of(&self, graph: GraphId) -> Outcome<Arc<[Arc<Condition>]>> {
        let conditions = self.graph(graph)?.conditions.iter();
        Ok(conditions.map(|(condition, _)| Arc::clone(condition)).collect())
    }

    /// Returns a condition handle of a graph, or of a graph nested in it, that no node uses.
    fn unused_condition(&self, graph: GraphId) -> Option<u64> {
        let graph = self.graphs.get(&graph)?;
        let own = graph.conditions.iter().find(|(_, used)| !used);
        own.map(|(condition, _)| condition.handle).or_else(|| {
            let nodes = graph.nodes.iter().filter_map(|id| self.nodes.get(id));
            let bodies = |node: &Node| match &node.work {
                Work::Conditional(node) => node.bodies.iter().map(|body| body.graph).collect(),
                _ => Vec::new(),
            };
            nodes.flat_map(bodies).find_map(|body| self.unused_condition(body))
        })
    }

    /// Returns an error if a condition handle of a graph is not used by any node.
    pub(super) fn check_conditions(&self, graph: GraphId) -> Outcome {
        match self.unused_condition(graph) {
            None => Ok(()),
            Some(handle) => {
                let detail = format!("no conditional node of the graph uses the handle {handle:#x}");
                fail_with(CUDA_ERROR_INVALID_VALUE, detail)
            }
        }
    }

    /// Returns an error for a body graph, which its conditional node owns.
    pub(super) fn check_own(&self, graph: GraphId) -> Outcome {
        if self.graph(graph)?.body_of.is_some() { fail(CUDA_ERROR_INVALID_VALUE) } else { Ok(()) }
    }
}
