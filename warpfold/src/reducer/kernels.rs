//! The reducer's kernels: loaded at first use, then found without a lock or an allocation.

use std::{
    ffi::c_void,
    mem, ptr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use warpfold_abi::Arguments;
use warpfold_driver::{CallError, Driver, Function, LaunchShape, Parameters, Stream as RawStream, sys};

use super::{job::Code, module::Module};
use crate::{
    Device, Result,
    kernel_file::{Family, Kernel, KernelFile, MAX_BLOCK_SIZES},
    names::RowsKernel,
    ptx::{Ptx, PtxSource},
    tuning::{Choice, Tuning},
};

pub(crate) struct Kernels {
    device: Device,
    source: PtxSource,
    tuning: Tuning,
    /// Indexed by [`KernelFile::index`].
    loaded: Box<[OnceLock<Box<LoadedKernels>>]>,
    /// Held while kernels are loaded, so that the driver compiles each once.
    loading: Mutex<()>,
}

impl Kernels {
    pub(crate) fn new(device: &Device, source: PtxSource, tuning: Tuning) -> Self {
        let loaded = (0..KernelFile::INDICES).map(|_| OnceLock::new()).collect();
        Self { device: device.clone(), source, tuning, loaded, loading: Mutex::default() }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Returns the kernels of a file. The first call loads them.
    pub(crate) fn file(&self, file: KernelFile) -> Result<&LoadedKernels> {
        let cell = &self.loaded[file.index()];
        if let Some(loaded) = cell.get() {
            return Ok(loaded);
        }
        self.device.require_process()?;
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = cell.get() {
            return Ok(loaded);
        }
        let loaded = self.load(file)?;
        Ok(cell.get_or_init(|| Box::new(loaded)))
    }

    pub(crate) fn family<'k>(&'k self, family: Family, code: &'k Code) -> Result<&'k LoadedKernels> {
        match code {
            &Code::BuiltIn(op, dtype) => self.file(KernelFile::of(family, op, dtype)),
            Code::Custom(custom) => Ok(&custom.families[family as usize]),
        }
    }

    fn load(&self, file: KernelFile) -> Result<LoadedKernels> {
        let name = file.name();
        let ptx = self.source.find(&name, self.device.info().arch())?;
        let load = |ptx: &Ptx| {
            let kernels = ptx.kernels(file.kernels(), &name, ptx.arch)?;
            let module = Arc::new(Module::load(&self.device, ptx)?);
            LoadedKernels::new(&module, &kernels, &name, module.overlaps())
        };
        let KernelFile::Reduction(family, op, dtype) = file else { return load(&ptx) };
        // Launches are planned before the kernels are loaded, for a block size that the registers of
        // nearly all kernels allow. Only kernels that do not allow it are compiled with that block size
        // as a limit: with the limit, the driver's compiler gives most kernels more registers.
        let planned = Code::BuiltIn(op, dtype).largest_blocks();
        let block = match family {
            // Spills due to this limit are on a cold path.
            Family::Buffer | Family::Counted | Family::Continued if op.has_products() => {
                return load(&ptx.for_blocks_of(LARGEST_BLOCK));
            }
            Family::Rows => planned.rows,
            Family::Axis => planned.axis,
            Family::View => planned.view,
            Family::Buffer | Family::Counted | Family::Continued | Family::Segments => {
                return load(&ptx);
            }
        };
        let loaded = load(&ptx)?;
        if loaded.allow(family, block)? {
            return Ok(loaded);
        }
        // Loading may fail if PTX that is not embedded already limits the block size.
        Ok(load(&ptx.for_blocks_of(block)).unwrap_or(loaded))
    }

    /// Leaks the loaded kernels, which may still run.
    pub(crate) fn keep_for_good(&mut self) {
        mem::forget((self.device.clone(), mem::take(&mut self.loaded)));
    }
}

/// Maximum block size of instruction-bound operations that need many registers per thread.
const LARGEST_BLOCK: u32 = 512;

pub(crate) struct LoadedKernels {
    entries: Box<[Entry]>,
    module: Arc<Module>,
}

impl LoadedKernels {
    /// Looks up the kernels of a module whose names begin with `name`. `overlaps` states whether they
    /// may overlap with the previous launch.
    pub(super) fn new(
        module: &Arc<Module>,
        kernels: &[Kernel],
        name: &str,
        overlaps: bool,
    ) -> Result<Self> {
        let entry = |kernel| Entry::new(module, name, kernel, overlaps);
        let entries = kernels.iter().map(entry).collect::<Result<_>>()?;
        Ok(Self { entries, module: module.clone() })
    }

    pub(crate) fn entry(&self, kernel: usize) -> &Entry {
        &self.entries[kernel]
    }

    pub(crate) fn get(&self, kernel: usize) -> Option<&Entry> {
        self.entries.get(kernel)
    }

    /// Returns the first of the block `sizes` that the kernels' registers allow, or else the last one.
    pub(super) fn largest_block(&self, family: Family, sizes: &[u32]) -> Result<u32> {
        for &block in sizes {
            if self.allow(family, block)? {
                return Ok(block);
            }
        }
        Ok(sizes[sizes.len() - 1])
    }

    /// Returns whether the registers of all kernels with large blocks allow blocks of `block` threads.
    fn allow(&self, family: Family, block: u32) -> Result<bool> {
        let large = match family {
            // The other kernels for rows always have small blocks.
            Family::Rows => &self.entries[RowsKernel::Grid as usize..][..1],
            _ => &self.entries,
        };
        self.module.device().call("preparing a kernel", |driver| {
            for entry in large {
                // SAFETY: the function lives as long as the module, which `self` holds.
                if unsafe { resident_blocks(driver, entry.function, block, 0) }? == 0 {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}

pub(crate) struct Entry {
    pub(crate) function: Function,
    /// Blocks resident on the device at once, for each of the kernel's block sizes.
    resident: [u32; MAX_BLOCK_SIZES],
    pub(crate) overlaps: bool,
}

impl Entry {
    fn new(module: &Module, name: &str, kernel: &Kernel, overlaps: bool) -> Result<Self> {
        let (device, function) = (module.device(), module.function(&kernel.entry(name))?);
        let mut resident = [0; MAX_BLOCK_SIZES];
        if kernel.blocks.is_empty() {
            return Ok(Self { function, resident, overlaps });
        }
        let (shared, multiprocessors) = (kernel.shared_bytes, device.info().multiprocessors);
        device.call("preparing a kernel", |driver| {
            // SAFETY: the function lives as long as the module, which is borrowed.
            unsafe {
                if shared > 0 {
                    let attribute = sys::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                    driver.func_set_attribute(function, attribute, shared.cast_signed())?;
                }
                for (resident, &block) in resident.iter_mut().zip(kernel.blocks) {
                    *resident = resident_blocks(driver, function, block, shared)? * multiprocessors;
                }
                Ok(Self { function, resident, overlaps })
            }
        })
    }

    /// Returns the choice, with smaller blocks if the kernel's registers do not allow its block size.
    pub(crate) fn fitting(&self, choice: Choice) -> Choice {
        let sizes = choice.kernel.block_sizes().iter().zip(&self.resident).rev();
        let mut fit = sizes.filter(|&(&size, &resident)| size <= choice.block && resident > 0);
        fit.next().map_or(choice, |(&block, _)| choice.in_blocks_of(block))
    }

    /// Returns how many blocks of a choice are resident on the device at once, at least 1: a launch that
    /// cannot run is enqueued nevertheless, and the driver refuses it.
    pub(crate) fn resident(&self, choice: Choice) -> u32 {
        let mut sizes = choice.kernel.block_sizes().iter();
        let size = sizes.position(|&size| size == choice.block);
        size.map_or(1, |size| self.resident_of(size))
    }

    /// Returns the number of resident blocks of the kernel's block size with index `size`, at least 1.
    pub(crate) fn resident_of(&self, size: usize) -> u32 {
        self.resident[size].max(1)
    }
}

/// Returns how many blocks of `block` threads and `shared_bytes` bytes of dynamic shared memory a
/// multiprocessor holds; 0 if a launch of one would fail. The driver's own count ignores `.maxntid`.
///
/// # Safety
/// The function's module must be alive.
unsafe fn resident_blocks(
    driver: &Driver,
    function: Function,
    block: u32,
    shared_bytes: u32,
) -> Result<u32, CallError> {
    // SAFETY: the caller keeps the function's module alive.
    unsafe {
        let attribute = sys::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        let most = driver.func_get_attribute(function, attribute)?.cast_unsigned();
        if block > most {
            return Ok(0);
        }
        driver.occupancy_max_active_blocks(function, block, shared_bytes as usize)
    }
}

pub(crate) struct LaunchContext {
    pub(crate) slots: u64,
    pub(crate) output: u64,
    /// The address to which the kernel writes a [count](crate::Counted) that it has read.
    pub(crate) found: Option<u64>,
    pub(crate) stream: RawStream,
    /// The kernel and launch shape, if not those of the [`Tuning`].
    pub(crate) choice: Option<Choice>,
    pub(crate) recording: bool,
}

impl LaunchContext {
    pub(crate) fn new(slots: u64, output: u64, stream: RawStream) -> Self {
        Self { slots, output, found: None, stream, choice: None, recording: false }
    }

    /// Returns the shape of a launch of `blocks` blocks of `block` threads each. In a recording, a
    /// kernel that `overlaps` may start before the previous launch has ended. The kernel waits for that
    /// launch before it accesses slots or output; until then it reads only elements and the starts of
    /// segments, which nothing writes. Outside a recording an overlap gains nothing.
    pub(crate) fn shape(&self, [blocks, block]: [u32; 2], overlaps: bool) -> LaunchShape {
        let overlapping = overlaps && self.recording;
        LaunchShape { overlapping, ..LaunchShape::new([blocks, 1, 1], [block, 1, 1]) }
    }
}

/// Launches a kernel with each field of `arguments` as a parameter.
///
/// # Safety
/// Same as [`Driver::launch`]; the function's parameters must be those of `A`.
pub(crate) unsafe fn launch_with<A: Arguments>(
    driver: &'static Driver,
    function: Function,
    shape: &LaunchShape,
    stream: RawStream,
    arguments: &A,
) -> Result<(), CallError> {
    const MOST: usize = 24;
    const { assert!(A::PARAMETERS.len() <= MOST, "raise MOST") };
    let start = ptr::from_ref(arguments).cast::<c_void>().cast_mut();
    let mut pointers = [ptr::null_mut(); MOST];
    for (pointer, parameter) in pointers.iter_mut().zip(A::PARAMETERS) {
        *pointer = start.wrapping_byte_add(parameter.offset);
    }
    let pointers = &mut pointers[..A::PARAMETERS.len()];
    // SAFETY: each pointer is to a field of `arguments`, which outlives the call and is only read. The
    // caller meets the conditions of `Driver::launch`, and the function has these parameters.
    unsafe { driver.launch(function, shape, stream, Parameters::Pointers(pointers)) }
}
