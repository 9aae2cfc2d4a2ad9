//! Kernels and their launches.

use std::{ffi::c_void, marker::PhantomData, mem::transmute, ops::AddAssign, ptr, sync::Arc};

use serde::Serialize;
use warpfold_abi::Arguments;
use warpfold_driver::{
    LaunchShape,
    cust::function::{BlockSize, Function as CudaFunction},
};
use warpfold_sim_driver::LaunchRecord;

use super::{Device, Stream, cust_workarounds};
use crate::{Arch, Error, Result};

/// A loaded kernel. Its parameters were checked against `A` at load time.
///
/// ```no_run
/// use warpfold_suite::abi::arguments::Reduce;
/// use warpfold_suite::{Result, Stream, device::{Geometry, Kernel}};
///
/// /// # Safety
/// /// As [`Kernel::launch`].
/// unsafe fn launch(kernel: &Kernel<Reduce<f32>>, stream: &Stream, sum: &Reduce<f32>) -> Result<()> {
///     // SAFETY: the caller's contract.
///     unsafe { kernel.launch(stream, Geometry::linear(1, 256, 0), sum) }.map(drop)
/// }
/// ```
///
/// The arguments of another kernel do not compile:
///
/// ```compile_fail,E0308
/// use warpfold_suite::abi::arguments::{Reduce, Sweep};
/// use warpfold_suite::{Result, Stream, device::{Geometry, Kernel}};
///
/// /// # Safety
/// /// As [`Kernel::launch`].
/// unsafe fn launch(kernel: &Kernel<Sweep>, stream: &Stream, sum: &Reduce<f32>) -> Result<()> {
///     // SAFETY: the caller's contract.
///     unsafe { kernel.launch(stream, Geometry::linear(1, 256, 0), sum) }.map(drop)
/// }
/// ```
pub struct Kernel<A> {
    pub(super) device: Device,
    pub(super) function: Function,
    pub(super) arguments: PhantomData<fn(A)>,
}

/// A function of a module that the device keeps loaded.
pub(super) struct Function(CudaFunction<'static>);

impl Function {
    /// # Safety
    /// The function's module must stay loaded as long as this exists.
    pub(super) unsafe fn of_kept_module(function: CudaFunction<'_>) -> Self {
        // SAFETY: by this function's contract, the module stays loaded while `Self` exists.
        Self(unsafe { transmute::<CudaFunction<'_>, CudaFunction<'static>>(function) })
    }
}

/// The configuration of a launch.
#[derive(Debug, Clone, Copy)]
pub struct Geometry {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
    /// True if all blocks must be resident at once, so that they may wait for each other.
    pub cooperative: bool,
    /// Blocks per cluster along x, which access each other's shared memory; 1 without clusters.
    pub cluster: u32,
    /// True if a launch that is captured in a graph may start before the preceding one has completed
    /// (programmatic dependent launch). The kernel must then wait for that launch before it accesses the
    /// same data. GPUs older than compute capability 9.0 ignore this.
    pub overlapping: bool,
}

impl Geometry {
    /// Returns a launch with blocks and threads along x only.
    pub const fn linear(grid: u32, block: u32, shared: u32) -> Self {
        Self {
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            shared,
            cooperative: false,
            cluster: 1,
            overlapping: false,
        }
    }
}

/// The simulator's counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Instructions issued, once per warp.
    pub warp_instructions: u64,
    /// Instructions executed, once per active thread.
    pub thread_instructions: u64,
    pub blocks: u64,
    pub launches: u64,
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.warp_instructions += other.warp_instructions;
        self.thread_instructions += other.thread_instructions;
        self.blocks += other.blocks;
        self.launches += other.launches;
    }
}

/// Enqueued launches, with the simulator's counters once they have run.
#[derive(Debug, Clone, Default)]
pub struct Launched(Vec<Arc<LaunchRecord>>);

impl Launched {
    /// Returns the most recent launch of this thread.
    pub(crate) fn last() -> Self {
        Self(warpfold_sim_driver::take_last_launch().into_iter().collect())
    }

    /// Returns the simulator's counters; `None` on a GPU, or before the launches were waited for.
    pub fn counters(&self) -> Option<Counters> {
        let mut total: Option<Counters> = None;
        for record in &self.0 {
            let stats = record.stats()?;
            *total.get_or_insert_default() += Counters {
                warp_instructions: stats.warp_instructions,
                thread_instructions: stats.thread_instructions,
                blocks: stats.blocks,
                launches: 1,
            };
        }
        total
    }
}

impl AddAssign for Launched {
    fn add_assign(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl<A: Arguments> Kernel<A> {
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the number of blocks that are resident on the device at once, for a block size and bytes
    /// of dynamic shared memory.
    pub fn resident_blocks(&self, block: u32, shared: u32) -> Result<u32> {
        let ask = || {
            let Function(function) = &self.function;
            function.max_active_blocks_per_multiprocessor(BlockSize::x(block), shared as usize)
        };
        let inner = &self.device.inner;
        let each = inner.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", ask)?;
        Ok(inner.info.multiprocessors * each)
    }

    /// Enqueues a launch. The arguments are copied before it returns; pointers in them are device
    /// addresses.
    ///
    /// # Safety
    /// The arguments must satisfy the kernel's contract. The memory that they refer to must stay
    /// allocated, without conflicting accesses, until the stream was synchronised.
    pub unsafe fn launch(&self, stream: &Stream, geometry: Geometry, arguments: &A) -> Result<Launched> {
        if !stream.device().same(&self.device) {
            let (theirs, ours) = (&stream.device().info().name, &self.device.info().name);
            let reason = format!("it belongs to {theirs}, the kernel to {ours}");
            return Err(Error::Mismatch { what: "stream", reason });
        }
        let mut pointers = pointers(arguments);
        let pointers = &mut pointers[..A::PARAMETERS.len()];
        let Geometry { grid, block, shared, cooperative, cluster, overlapping } = geometry;
        let inner = &self.device.inner;
        let overlapping = overlapping && inner.info.arch >= Arch::HOPPER && stream.is_capturing();
        let Function(function) = &self.function;
        if cooperative || cluster > 1 || overlapping {
            let cluster = (cluster > 1).then_some([cluster, 1, 1]);
            let shape =
                LaunchShape { grid, block, shared_bytes: shared, cooperative, cluster, overlapping };
            // SAFETY: the module is loaded and the stream alive; there is a pointer for each parameter,
            // which `load` has checked. By this function's contract, the arguments' memory is alive.
            inner.driver_call(|driver| unsafe {
                cust_workarounds::launch(driver, function, stream.cust(), &shape, pointers)
            })?;
        } else {
            let launch = || {
                let (grid, block) = (<(u32, u32, u32)>::from(grid), <(u32, u32, u32)>::from(block));
                // SAFETY: as for `cust_workarounds::launch` above, which passes the same arguments.
                unsafe { stream.cust().launch(function, grid, block, shared, pointers) }
            };
            inner.call("cuLaunchKernel", launch)?;
        }
        Ok(Launched::last())
    }
}

/// Converts a device address to a kernel argument for reading. The host never dereferences it.
pub const fn readable<T>(address: u64) -> *const T {
    ptr::without_provenance(address as usize)
}

/// Converts a device address to a kernel argument for writing. The host never dereferences it.
pub const fn writable<T>(address: u64) -> *mut T {
    ptr::without_provenance_mut(address as usize)
}

const MAX_ARGUMENTS: usize = 8;

/// Returns a pointer to each parameter in a struct of arguments, in the kernel's order.
fn pointers<A: Arguments>(arguments: &A) -> [*mut c_void; MAX_ARGUMENTS] {
    const { assert!(A::PARAMETERS.len() <= MAX_ARGUMENTS, "raise MAX_ARGUMENTS") };
    let start = ptr::from_ref(arguments).cast::<c_void>();
    let mut pointers = [ptr::null_mut(); MAX_ARGUMENTS];
    for (pointer, parameter) in pointers.iter_mut().zip(A::PARAMETERS) {
        // The driver only reads through the pointer. `Arguments` guarantees that it is in bounds.
        *pointer = start.wrapping_byte_add(parameter.offset).cast_mut();
    }
    pointers
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use warpfold_abi::Parameter;

    use super::*;
    use crate::Selection;

    const HEAD: &str = ".version 7.8\n.target sm_80\n.address_size 64\n";

    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Pair {
        low: u32,
        high: u32,
        output: *mut u64,
    }

    // SAFETY: `repr(C)` with fields of 4, 4 and 8 bytes without padding; the list matches the fields.
    unsafe impl Arguments for Pair {
        const PARAMETERS: &'static [Parameter] = &[
            Parameter { name: "low", offset: 0, size: 4, pointer: false },
            Parameter { name: "high", offset: 4, size: 4, pointer: false },
            Parameter { name: "output", offset: 8, size: 8, pointer: true },
        ];
    }

    #[test]
    fn arguments_arrive_where_the_kernel_has_them() {
        let ptx = format!(
            "{HEAD}.visible .entry join(.param .u32 a, .param .b32 b, .param .u64 .ptr .align 8 to)
            {{
                .reg .b32 %r<2>;
                .reg .b64 %rd<2>;
                ld.param.u32 %r0, [a];
                ld.param.u32 %r1, [b];
                ld.param.u64 %rd0, [to];
                mov.b64 %rd1, {{%r0, %r1}};
                st.global.u64 [%rd0], %rd1;
                ret;
            }}"
        );
        let device = Device::open(Selection::Sim).unwrap();
        let kernel = device.load::<Pair>(Path::new("join.ptx"), &ptx, "join").unwrap();
        let (memory, stream) = (device.allocate(8).unwrap(), device.stream().unwrap());
        let arguments = Pair { low: 0x89ab_cdef, high: 0x0123_4567, output: writable(memory.address()) };
        // SAFETY: the kernel writes 8 bytes of `memory`, which outlives the launch.
        unsafe { kernel.launch(&stream, Geometry::linear(1, 1, 0), &arguments) }.unwrap();
        stream.synchronize().unwrap();
        let mut word = [0; 8];
        memory.read(0, &mut word).unwrap();
        assert_eq!(u64::from_le_bytes(word), 0x0123_4567_89ab_cdef);
    }

    #[test]
    fn other_parameters_are_refused_before_any_launch() {
        let device = Device::open(Selection::Sim).unwrap();
        let load = |list: &str| {
            let ptx = format!("{HEAD}.visible .entry join({list})\n{{\n\tret;\n}}\n");
            device.load::<Pair>(Path::new("join.ptx"), &ptx, "join").map(drop)
        };
        const ADDRESS: &str = ".param .u64 .ptr .align 8 to";
        for right in [ADDRESS, ".param .u64 to", ".param .b64 to"] {
            load(&format!(".param .u32 a, .param .b32 b, {right}")).unwrap();
        }
        for wrong in [
            String::new(),
            format!(".param .u32 a, {ADDRESS}"),
            format!(".param .u32 a, .param .u32 b, {ADDRESS}, .param .u64 more"),
            format!(".param .u64 a, .param .u32 b, {ADDRESS}"),
            ".param .u32 a, .param .u32 b, .param .u32 to".to_owned(),
            format!(".param .u32 a, {ADDRESS}, .param .u32 b"),
            ".param .align 8 .b8 all[16]".to_owned(),
        ] {
            let error = load(&wrong).unwrap_err();
            assert!(matches!(error, Error::WrongParameters { .. }), "({wrong}): {error}");
            assert!(error.to_string().starts_with("join.ptx: `join` takes ("), "{error}");
        }
    }
}
