//! A variant made ready: its kernel loaded, its launches planned.

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

/// A variant made ready for one operation, element type, size and geometry on one device.
pub struct Reduction {
    request: Request,
    shape: Shape,
    plan: Plan,
    kernels: Kernels,
    ptx: PtxFile,
    stream: Stream,
}

/// The kernels of a plan, by how it comes to one value.
#[derive(Clone)]
enum Kernels {
    /// By launches on the results of the launch before, or by atomics.
    Apart {
        /// The first launch's kernel.
        first: Arc<Kernel<Reduce<()>>>,
        /// That of the launches on block results.
        next: Arc<Kernel<Reduce<()>>>,
    },
    /// In one launch, whose blocks meet.
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

    /// Blocks of the first launch that the device can hold at once.
    fn resident_blocks(&self, plan: &Plan) -> Result<u32> {
        match self {
            Self::Apart { first, .. } => first.resident_blocks(plan.block, plan.shared),
            Self::Once(kernel) => kernel.resident_blocks(plan.block, plan.shared),
        }
    }

    /// Enqueues a launch: the first, or one on the results of the launch before.
    ///
    /// # Safety
    /// As [`Kernel::launch`]; kernels that do not meet look at neither `partials` nor `counter`.
    unsafe fn launch(
        &self,
        level: usize,
        stream: &Stream,
        geometry: Launch,
        arguments: &ReduceOnce<()>,
    ) -> Result<Launched> {
        // SAFETY: the caller's contract.
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

/// Device memory that a reduction writes: block results, a counter, the result. One launch at a time
/// uses it, which ownership sees to: blocking calls borrow it, asynchronous ones take it.
#[derive(Debug)]
pub struct Workspace {
    memory: Allocation,
    layout: Layout,
    /// What the result is before a launch that combines into it.
    identity: Option<Value>,
    /// Whether the counter may be something other than zero: it is new, or a launch failed.
    unsettled: bool,
}

/// What came out of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// The result of the reduction.
    pub value: Value,
    /// What the simulator counted; none on a GPU.
    pub counters: Option<Counters>,
}

impl Reduction {
    /// Plans a request and loads its kernel.
    ///
    /// # Errors
    /// Those of [`Plan::new`], of [`PtxStore::find`] and of [`Device::load`].
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

    /// What was asked for.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Returns the launches that it makes.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The PTX that runs.
    pub fn ptx(&self) -> &PtxFile {
        &self.ptx
    }

    /// The device that it runs on.
    pub fn device(&self) -> &Device {
        self.stream.device()
    }

    /// A workspace for one launch at a time.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or [`Error::Driver`] when it cannot be cleared.
    pub fn workspace(&self) -> Result<Workspace> {
        let (layout, identity) = (self.plan.workspace, self.plan.identity);
        let memory = self.device().allocate(layout.bytes)?;
        if let Some(identity) = identity {
            memory.write(layout.identity, &identity.to_bytes())?;
        }
        Ok(Workspace { memory, layout, identity, unsettled: true })
    }

    /// Reduces `input` and waits for the result.
    ///
    /// # Errors
    /// [`Error::Mismatch`] when the input or the workspace is not what was planned for,
    /// [`Error::Driver`] when a launch fails.
    pub fn run(&self, input: &Buffer, workspace: &mut Workspace) -> Result<Outcome> {
        self.require(input, &self.stream)?;
        // SAFETY: the input was checked; the workspace is borrowed until the wait below is over.
        let launched = unsafe { self.launch(&self.stream, input.address(), workspace) };
        let waited = self.stream.synchronize();
        workspace.unsettled = launched.is_err() || waited.is_err();
        let launched = launched?;
        waited?;
        workspace.outcome(self.request.dtype, &launched)
    }

    /// Launches on a stream and returns at once. The workspace comes back with the result.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    pub fn enqueue<'s>(
        &self,
        stream: &'s Stream,
        input: &Buffer,
        mut workspace: Workspace,
    ) -> Result<Pending<'s>> {
        self.require(input, stream)?;
        // SAFETY: the input was checked. `Pending` owns the workspace and a share of the input until
        // it has waited; when it is leaked, so are they. On failure the wait comes first.
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
                "it, the stream and the reduction must be of one device".to_owned(),
            );
        }
        let (has, needs) = ((input.dtype(), input.len()), (self.request.dtype, self.request.n));
        if has != needs {
            let reason = format!("it has {} {}, planned were {} {}", has.1, has.0, needs.1, needs.0);
            return mismatch("input", reason);
        }
        Ok(())
    }

    /// Enqueues all launches of the plan, whose result lands in the workspace.
    ///
    /// # Errors
    /// [`Error::Driver`] when a launch fails.
    ///
    /// # Safety
    /// `input` must be the address of as many elements as the request says, on this device; it and the
    /// workspace must live, and the workspace be left alone, until `stream` was synchronised.
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        input: u64,
        workspace: &mut Workspace,
    ) -> Result<Launched> {
        let layout = self.plan.workspace;
        // SAFETY: the workspace has room for the result; the caller's contract.
        unsafe { self.launch_into(stream, input, workspace, workspace.memory.address() + layout.result) }
    }

    /// Enqueues all launches of the plan, whose result lands at an address.
    ///
    /// # Safety
    /// `input` must be the address of as many elements as the request says, on this device; it and the
    /// workspace must live, and the workspace be left alone, until `stream` was synchronised. So must
    /// `result`, which is the workspace's own for a plan with an identity.
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
            // SAFETY: the caller's contract.
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
            // SAFETY: the plan lays out the regions; the caller answers for their lifetime.
            all += unsafe { self.kernels.launch(level, stream, geometry, &arguments) }?;
        }
        Ok(all)
    }
}

/// A plan whose blocks are all resident at once: the default grid is cut down to the `largest` that the
/// kernel's registers and shared memory leave room for, since blocks beyond that would run after the
/// others on a device that is mostly idle. A grid that the user chose is taken, but refused where blocks
/// wait for each other.
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
    /// Sets all of it but the counter and the identity to a byte that no right result consists of, so
    /// that a result that was never written shows.
    ///
    /// # Errors
    /// [`Error::Driver`] when the memory cannot be set.
    pub fn poison(&mut self, byte: u8) -> Result<()> {
        let Layout { counter, result, identity, .. } = self.layout;
        self.memory.fill(0, byte, counter)?;
        self.memory.fill(result, byte, identity - result)
    }

    fn address(&self, offset: u64) -> u64 {
        self.memory.address() + offset
    }

    /// Makes sure that it is what the plan needs and that its counter is zero.
    fn settle(&mut self, plan: &Plan, device: &Device) -> Result<()> {
        let mismatch = |reason: String| {
            let reason = format!("{reason}; take one from this reduction");
            Err(Error::Mismatch { what: "workspace", reason })
        };
        if self.layout != plan.workspace || !self.memory.device().same(device) {
            return mismatch(format!(
                "it has {} bytes on {}, the plan needs {} on {}",
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
            return mismatch(format!("its result begins as {has}, the plan's as {needs}"));
        }
        if self.unsettled {
            self.memory.fill(self.layout.counter, 0, 4)?;
            self.unsettled = false;
        }
        Ok(())
    }

    /// The result of launches that have ended well, which left the counter at zero again.
    ///
    /// # Errors
    /// [`Error::Driver`] when it cannot be read.
    pub fn value(&self, dtype: Dtype) -> Result<Value> {
        read_value(&self.memory, self.layout.result, dtype)
    }

    fn outcome(&self, dtype: Dtype, launched: &Launched) -> Result<Outcome> {
        Ok(Outcome { value: self.value(dtype)?, counters: launched.counters() })
    }
}

/// A reduction under way on a stream. Dropping it waits.
pub struct Pending<'s> {
    stream: &'s Stream,
    dtype: Dtype,
    /// Taken when the wait is over.
    work: Option<Work>,
}

/// What the device uses until the launches are done.
struct Work {
    workspace: Workspace,
    _input: Buffer,
    _kernels: Kernels,
    launched: Launched,
}

impl Pending<'_> {
    /// Waits for the result.
    ///
    /// # Errors
    /// [`Error::Driver`] with what went wrong.
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
            // What went wrong in a launch that nobody waits for concerns nobody. Where it may still run,
            // the device frees nothing.
            let _ = self.stream.synchronize();
        }
    }
}
