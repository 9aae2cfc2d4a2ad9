//! Reductions: loaded kernels with planned launches.

use std::sync::Arc;

use warpfold_abi::arguments::{Reduce, ReduceOnce};

use crate::{
    Buffer, Device, Dtype, Error, Plan, PtxStore, Request, Result, Stream, Value,
    catalogue::{Completion, Geometry, Shape},
    device::{
        Allocation, Counters, Geometry as Launch, Kernel, Launched, read_value, readable, writable,
    },
    plan::{Layout, Place},
    ptx::PtxFile,
};

/// A variant prepared for one operation, element type, size and geometry on one device.
pub struct Reduction {
    request: Request,
    shape: Shape,
    plan: Plan,
    kernels: Kernels,
    ptx: PtxFile,
    stream: Stream,
}

#[derive(Clone)]
enum Kernels {
    /// One launch per level, or a single launch with atomics.
    Apart { first: Arc<Kernel<Reduce<()>>>, next: Arc<Kernel<Reduce<()>>> },
    /// One launch whose blocks synchronise.
    Once(Arc<Kernel<ReduceOnce<()>>>),
}

impl Kernels {
    fn load(device: &Device, request: &Request, shape: &Shape, ptx: &PtxFile) -> Result<Self> {
        let Request { variant, op, dtype, .. } = *request;
        let entry = |op| variant.entry(Some(op), dtype);
        let load = |op| device.load(&ptx.path, &ptx.text, &entry(op)).map(Arc::new);
        match shape.completion {
            Completion::Relaunch | Completion::Atomic => {
                let first = load(op)?;
                let next = if op.fold() == op { first.clone() } else { load(op.fold())? };
                Ok(Self::Apart { first, next })
            }
            Completion::LastBlock | Completion::GridBarrier => {
                device.load(&ptx.path, &ptx.text, &entry(op)).map(|kernel| Self::Once(Arc::new(kernel)))
            }
        }
    }

    fn resident_blocks(&self, plan: &Plan) -> Result<u32> {
        match self {
            Self::Apart { first, .. } => first.resident_blocks(plan.block, plan.shared),
            Self::Once(kernel) => kernel.resident_blocks(plan.block, plan.shared),
        }
    }

    /// Enqueues the launch of a level; level 0 reads the input.
    ///
    /// # Safety
    /// The requirements of [`Kernel::launch`] apply. Kernels of [`Apart`](Self::Apart) ignore `partials`
    /// and `counter`.
    unsafe fn launch(
        &self,
        level: usize,
        stream: &Stream,
        geometry: Launch,
        arguments: &ReduceOnce<()>,
    ) -> Result<Launched> {
        // SAFETY: by this function's contract, the arguments satisfy the kernel's contract.
        unsafe {
            match self {
                Self::Apart { first, next } => {
                    let ReduceOnce { input, n, output, .. } = *arguments;
                    let kernel = if level == 0 { first } else { next };
                    kernel.launch(stream, geometry, &Reduce { input, n, output })
                }
                Self::Once(kernel) => kernel.launch(stream, geometry, arguments),
            }
        }
    }
}

/// Device memory that a reduction writes: block results, a counter, the result. Only one launch at a
/// time may use it, which ownership enforces: blocking calls borrow it, asynchronous ones take it.
#[derive(Debug)]
pub struct Workspace {
    memory: Allocation,
    layout: Layout,
    /// The initial value of the result, for launches that accumulate into it.
    identity: Option<Value>,
    /// True if the counter may be nonzero: after creation, or after a failed launch.
    needs_clear: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    pub value: Value,
    /// The simulator's counters; `None` on a GPU.
    pub counters: Option<Counters>,
}

impl Reduction {
    pub fn new(device: &Device, store: &PtxStore, request: &Request) -> Result<Self> {
        let plan = Plan::new(request, device.info())?;
        let ptx = store.find(request.variant.id, device.info())?;
        let shape = *request.variant.shape().expect("checked: it has a plan");
        let kernels = Kernels::load(device, request, &shape, &ptx)?;
        let plan = match shape.geometry {
            Geometry::GridStride => {
                let largest = kernels.resident_blocks(&plan)?;
                resident(request, &shape, plan, largest, device)?
            }
            Geometry::PerThread(_) | Geometry::SingleThread => plan,
        };
        Ok(Self { request: *request, shape, plan, kernels, ptx, stream: device.stream()? })
    }

    pub fn request(&self) -> &Request {
        &self.request
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn ptx(&self) -> &PtxFile {
        &self.ptx
    }

    pub fn device(&self) -> &Device {
        self.stream.device()
    }

    /// Creates a workspace for one launch at a time.
    pub fn workspace(&self) -> Result<Workspace> {
        let (layout, identity) = (self.plan.workspace, self.plan.identity);
        let memory = self.device().allocate(layout.bytes)?;
        if let Some(identity) = identity {
            memory.write(layout.identity, &identity.to_bytes())?;
        }
        Ok(Workspace { memory, layout, identity, needs_clear: true })
    }

    /// Reduces `input` and waits for the result. Fails if the input or workspace does not match the
    /// plan.
    pub fn run(&self, input: &Buffer, workspace: &mut Workspace) -> Result<Outcome> {
        self.require(input, &self.stream)?;
        // SAFETY: the input was checked; the workspace is borrowed until after the wait below.
        let launched = unsafe { self.launch(&self.stream, input.address(), workspace) };
        let waited = self.stream.synchronize();
        workspace.needs_clear = launched.is_err() || waited.is_err();
        let launched = launched?;
        waited?;
        workspace.outcome(self.request.dtype, &launched)
    }

    /// Launches on a stream without waiting. The workspace is returned with the result.
    pub fn enqueue<'s>(
        &self,
        stream: &'s Stream,
        input: &Buffer,
        mut workspace: Workspace,
    ) -> Result<Pending<'s>> {
        self.require(input, stream)?;
        // SAFETY: the input was checked. `Pending` owns the workspace and a clone of the input until it
        // has waited; leaking it leaks both. If a launch fails, the stream is synchronised below.
        let launched = unsafe { self.launch(stream, input.address(), &mut workspace) };
        let launched = launched.inspect_err(|_| {
            let _ = stream.synchronize();
        })?;
        let work = Work { workspace, _input: input.clone(), _kernels: self.kernels.clone(), launched };
        Ok(Pending { stream, dtype: self.request.dtype, work: Some(work) })
    }

    fn require(&self, input: &Buffer, stream: &Stream) -> Result<()> {
        let mismatch = |what, reason| Err(Error::Mismatch { what, reason });
        if !input.device().same(self.device()) || !stream.device().same(self.device()) {
            return mismatch(
                "input",
                "it, the stream and the reduction must be on the same device".to_owned(),
            );
        }
        let (has, needs) = ((input.dtype(), input.len()), (self.request.dtype, self.request.n));
        if has != needs {
            let reason =
                format!("it has {} {}, but the plan is for {} {}", has.1, has.0, needs.1, needs.0);
            return mismatch("input", reason);
        }
        Ok(())
    }

    /// Enqueues all launches of the plan. The result is written to the workspace.
    ///
    /// # Safety
    /// `input` must be the address of as many elements as the request says, on this device. It and the
    /// workspace must live, and the workspace must not be accessed, until `stream` was synchronised.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        input: u64,
        workspace: &mut Workspace,
    ) -> Result<Launched> {
        let layout = self.plan.workspace;
        // SAFETY: the workspace has room for the result. By this function's contract, the input and the
        // workspace live, and nothing else accesses the workspace, until `stream` was synchronised.
        unsafe { self.launch_into(stream, input, workspace, workspace.memory.address() + layout.result) }
    }

    /// Enqueues all launches of the plan. The result is written to the address `result`.
    ///
    /// # Safety
    /// `input` must be the address of as many elements as the request says, on this device. It and the
    /// workspace must live, and the workspace must not be accessed, until `stream` was synchronised. The
    /// same holds for the memory at `result`. If the plan has an identity, `result` must be the result's
    /// address in the workspace.
    pub(crate) unsafe fn launch_into(
        &self,
        stream: &Stream,
        input: u64,
        workspace: &mut Workspace,
        result: u64,
    ) -> Result<Launched> {
        workspace.settle(&self.plan, self.device())?;
        let mut all = Launched::default();
        let layout = self.plan.workspace;
        if self.plan.identity.is_some() {
            let size = self.request.dtype.size() as u64;
            // SAFETY: by this function's contract, the workspace lives until `stream` was synchronised.
            unsafe { workspace.memory.copy_within(stream, layout.identity, layout.result, size) }?;
        }
        for (level, step) in self.plan.steps.iter().enumerate() {
            let place = |place| match place {
                Place::Input => input,
                Place::Partials(region) => workspace.address(layout.partials[region]),
                Place::Result => result,
            };
            let arguments = ReduceOnce {
                input: readable(place(step.input)),
                n: step.n,
                partials: writable(place(Place::Partials(0))),
                counter: writable(workspace.address(layout.counter)),
                output: writable(place(step.output)),
            };
            let geometry = Launch {
                cooperative: self.shape.completion == Completion::GridBarrier,
                cluster: self.plan.cluster,
                ..Launch::linear(step.grid, self.plan.block, self.plan.shared)
            };
            // SAFETY: the regions are those of the plan's layout. By this function's contract, their
            // memory, the input and the result live until `stream` was synchronised.
            all += unsafe { self.kernels.launch(level, stream, geometry, &arguments) }?;
        }
        Ok(all)
    }
}

/// Limits a plan to resident blocks. The default grid is reduced to `largest`, the number of blocks that
/// the kernel's registers and shared memory allow, because more blocks would run after the others. A
/// user's grid is unchanged, but is refused if it exceeds `largest` and the kernel has a grid-wide
/// barrier.
fn resident(
    request: &Request,
    shape: &Shape,
    plan: Plan,
    largest: u32,
    device: &Device,
) -> Result<Plan> {
    match request.grid {
        _ if plan.grid() <= largest => Ok(plan),
        Some(given) if shape.completion == Completion::GridBarrier => {
            Err(Error::GridNotResident { variant: request.variant.id, given, largest })
        }
        Some(_) => Ok(plan),
        None => {
            let whole_clusters = (largest - largest % shape.cluster).max(shape.cluster);
            let request = Request { grid: Some(whole_clusters.into()), ..*request };
            Plan::new(&request, device.info())
        }
    }
}

impl Workspace {
    /// Fills everything except the counter and the identity with a byte that no correct result consists
    /// of, so that a missing write is detected.
    pub fn poison(&mut self, byte: u8) -> Result<()> {
        let Layout { counter, result, identity, .. } = self.layout;
        self.memory.fill(0, byte, counter)?;
        self.memory.fill(result, byte, identity - result)
    }

    fn address(&self, offset: u64) -> u64 {
        self.memory.address() + offset
    }

    /// Checks that the workspace matches the plan, and resets the counter if it may be nonzero.
    fn settle(&mut self, plan: &Plan, device: &Device) -> Result<()> {
        let mismatch = |reason: String| {
            let reason = format!("{reason}; take a workspace of this reduction");
            Err(Error::Mismatch { what: "workspace", reason })
        };
        if self.layout != plan.workspace || !self.memory.device().same(device) {
            return mismatch(format!(
                "it has {} bytes on {}, but the plan needs {} on {}",
                self.memory.bytes(),
                self.memory.device().info().name,
                plan.workspace.bytes,
                device.info().name,
            ));
        }
        if self.identity != plan.identity {
            let identity = |identity: Option<Value>| {
                let named = |value: Value| format!("the {} {value}", value.dtype());
                identity.map_or_else(|| "nothing".to_owned(), named)
            };
            let (has, needs) = (identity(self.identity), identity(plan.identity));
            return mismatch(format!(
                "its result is initialised with {has}, but the plan needs {needs}"
            ));
        }
        if self.needs_clear {
            self.memory.fill(self.layout.counter, 0, 4)?;
            self.needs_clear = false;
        }
        Ok(())
    }

    /// Returns the result of successful launches, which have reset the counter to zero.
    pub fn value(&self, dtype: Dtype) -> Result<Value> {
        read_value(&self.memory, self.layout.result, dtype)
    }

    fn outcome(&self, dtype: Dtype, launched: &Launched) -> Result<Outcome> {
        Ok(Outcome { value: self.value(dtype)?, counters: launched.counters() })
    }
}

/// A pending reduction on a stream. Dropping it waits.
pub struct Pending<'s> {
    stream: &'s Stream,
    dtype: Dtype,
    /// Taken after the wait.
    work: Option<Work>,
}

/// The resources that the device uses until the launches are complete.
struct Work {
    workspace: Workspace,
    _input: Buffer,
    _kernels: Kernels,
    launched: Launched,
}

impl Pending<'_> {
    pub fn wait(mut self) -> Result<(Outcome, Workspace)> {
        self.stream.synchronize()?;
        let work = self.work.take().expect("waited once");
        let outcome = work.workspace.outcome(self.dtype, &work.launched)?;
        Ok((outcome, work.workspace))
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.work.is_some() {
            // The result is not read, so that an error of the launch is ignored. If the launch may still
            // be running, the device is abandoned and frees nothing.
            let _ = self.stream.synchronize();
        }
    }
}
