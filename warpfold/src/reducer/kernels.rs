//! The reducer's kernels: loaded at first use, then found without a lock or an allocation.

use std::{
    ffi::c_void,
    mem, ptr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use warpfold_abi::Arguments;
use warpfold_driver::{CallError, Driver, Function, LaunchShape, Parameters, Stream as RawStream, sys};

use super::{job::Code, loaded::LargestBlocks, module::Module};
use crate::{
    Device, Error, Result,
    kernel_file::{AnyTopKernel, Family, Kernel, KernelFile, MAX_BLOCK_SIZES},
    names::RowsKernel,
    ptx::{Ptx, PtxSource},
    tuning::{Choice, Tuning},
};

pub(crate) struct Kernels {
    device: Device,
    source: PtxSource,
    tuning: Tuning,
    /// Indexed by [`KernelFile::index`].
    files: Box<[OnceLock<Box<FileKernels>>]>,
    /// Held while kernels are loaded, so that the driver compiles each once.
    loading: Mutex<()>,
}

/// The kernels of a file, and its text, from which they are loaded one by one: the driver takes ten to a
/// hundred milliseconds to compile one.
struct FileKernels {
    ptx: Ptx,
    name: String,
    kernels: Vec<Kernel>,
    entries: Entries,
    /// The kernels with the text that each operation [inserts](Code::insert_into).
    inserted: boxcar::Vec<(Code, Entries)>,
}

type Entries = Box<[OnceLock<Entry>]>;

impl FileKernels {
    fn new_entries(kernels: &[Kernel]) -> Entries {
        kernels.iter().map(|_| OnceLock::new()).collect()
    }

    /// Returns the kernels, or those with the text of an operation that inserts one, if it was used
    /// before.
    fn entries_of(&self, inserting: Option<&Code>) -> Option<&Entries> {
        let Some(code) = inserting else { return Some(&self.entries) };
        let mut used = self.inserted.iter().map(|(_, used)| used);
        used.find(|(known, _)| known.inserts_same(code)).map(|(_, entries)| entries)
    }
}

impl Kernels {
    pub(crate) fn new(device: &Device, source: PtxSource, tuning: Tuning) -> Self {
        let files = (0..KernelFile::INDICES).map(|_| OnceLock::new()).collect();
        Self { device: device.clone(), source, tuning, files, loading: Mutex::default() }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Returns a kernel of a file, which the first call loads.
    pub(crate) fn entry(&self, file: KernelFile, kernel: usize) -> Result<&Entry> {
        Ok(self.find(file, None, kernel)?.expect("every file has the kernel"))
    }

    /// Returns a kernel of an operation, which the first call loads.
    pub(crate) fn entry_of<'k>(
        &'k self,
        family: Family,
        code: &'k Code,
        kernel: usize,
    ) -> Result<&'k Entry> {
        Ok(self.find_of(family, code, kernel)?.expect("every file has the kernel"))
    }

    /// Returns a kernel of an operation as [`entry_of`](Self::entry_of) does; `None` if the family has
    /// no such kernel, or not for the architecture of the PTX.
    pub(crate) fn find_of<'k>(
        &'k self,
        family: Family,
        code: &'k Code,
        kernel: usize,
    ) -> Result<Option<&'k Entry>> {
        match code {
            &Code::BuiltIn(op, dtype) => self.find(KernelFile::of(family, op, dtype), None, kernel),
            Code::Expression(expression) => {
                let file = KernelFile::Mapped(family, expression.op, expression.dtype);
                self.find(file, Some(code), kernel)
            }
            // Of the kernels for rows, only the first is also for buffers.
            Code::Fused(_) if family == Family::Buffer && kernel > 0 => Ok(None),
            Code::Fused(parts) if matches!(family, Family::Buffer | Family::Rows) => {
                self.find(KernelFile::Fused(parts.dtype), Some(code), kernel)
            }
            Code::Fused(_) => panic!("tuples have no kernel for {family:?}"),
            Code::Custom(custom) => Ok(custom.families[family as usize].get(kernel)),
        }
    }

    fn find(&self, file: KernelFile, inserting: Option<&Code>, kernel: usize) -> Result<Option<&Entry>> {
        let cell = &self.files[file.index()];
        if let Some(entries) = cell.get().and_then(|kernels| kernels.entries_of(inserting)) {
            let Some(slot) = entries.get(kernel) else { return Ok(None) };
            if let Some(entry) = slot.get() {
                return Ok(Some(entry));
            }
        }
        self.device.require_process()?;
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        let kernels = match cell.get() {
            Some(kernels) => kernels,
            None => {
                let kernels = self.open(file)?;
                cell.get_or_init(|| Box::new(kernels))
            }
        };
        let entries = match (kernels.entries_of(inserting), inserting) {
            (None, Some(code)) => {
                let entries = FileKernels::new_entries(&kernels.kernels);
                &kernels.inserted[kernels.inserted.push((code.clone(), entries))].1
            }
            (known, _) => known.expect("a file has kernels"),
        };
        let Some(slot) = entries.get(kernel) else { return Ok(None) };
        if slot.get().is_none() {
            let _ = slot.set(self.load(file, kernels, inserting, kernel)?);
        }
        Ok(slot.get())
    }

    /// Finds the text of a file, without loading its kernels.
    fn open(&self, file: KernelFile) -> Result<FileKernels> {
        let name = file.name();
        let ptx = self.source.find(&name, self.device.info().arch())?;
        let kernels = ptx.kernels(file.kernels(), &name, ptx.arch)?;
        let entries = FileKernels::new_entries(&kernels);
        Ok(FileKernels { ptx, name, kernels, entries, inserted: boxcar::Vec::new() })
    }

    fn load(
        &self,
        file: KernelFile,
        kernels: &FileKernels,
        inserting: Option<&Code>,
        kernel: usize,
    ) -> Result<Entry> {
        let FileKernels { ptx, name, kernels, .. } = kernels;
        let mut ptx = ptx.with_entry_only(&kernels[kernel].entry(name));
        if let Some(code) = inserting {
            let text = code.insert_into(&ptx.text).ok_or_else(|| Error::PtxRejected {
                origin: ptx.origin.clone(),
                reason: format!("it has no place for an {}", code.name()),
                source: None,
            })?;
            ptx.text = text.into();
        }
        let load = |ptx: &Ptx| {
            let module = Arc::new(Module::load(&self.device, ptx)?);
            Entry::new(&module, name, &kernels[kernel], module.overlaps())
        };
        let (family, planned, has_products) = match file {
            KernelFile::Reduction(family, op, dtype) => {
                (family, Code::BuiltIn(op, dtype).largest_blocks(), op.has_products())
            }
            KernelFile::Mapped(family, ..) => (family, LargestBlocks::FULL, false),
            KernelFile::AnyTop(_) => {
                let block = if kernel == AnyTopKernel::Short as usize {
                    AnyTopKernel::Short.block()
                } else {
                    AnyTopKernel::Select.block()
                };
                // Two large blocks, or eight small ones, keep the memory of a multiprocessor busy. What
                // spills is used outside of the loops over elements.
                return load(&ptx.for_resident_blocks_of(block, 1024 / block));
            }
            _ => return load(&ptx),
        };
        // Launches are planned before the kernels are loaded, for a block size that the registers of
        // nearly all kernels allow. Only kernels that do not allow it are compiled with that block size
        // as a limit: with the limit, the driver's compiler gives most kernels more registers.
        let block = match family {
            // Spills due to this limit are on a cold path.
            Family::Buffer | Family::Counted | Family::Continued | Family::Buffers if has_products => {
                return load(&ptx.for_blocks_of(LARGEST_BLOCK));
            }
            Family::Rows if has_large_blocks(family, kernel) => planned.rows,
            Family::Axis => planned.axis,
            Family::View => planned.view,
            _ => return load(&ptx),
        };
        let loaded = load(&ptx)?;
        if loaded.allows(block)? {
            return Ok(loaded);
        }
        // Loading may fail if PTX that is not embedded already limits the block size.
        Ok(load(&ptx.for_blocks_of(block)).unwrap_or(loaded))
    }

    /// Leaks the loaded kernels, which may still run.
    pub(crate) fn keep_for_good(&mut self) {
        mem::forget((self.device.clone(), mem::take(&mut self.files)));
    }
}

/// Maximum block size of instruction-bound operations that need many registers per thread.
const LARGEST_BLOCK: u32 = 512;

/// Returns whether a kernel of a family may have the family's largest blocks.
fn has_large_blocks(family: Family, kernel: usize) -> bool {
    // The other kernels for rows always have small blocks.
    family != Family::Rows || kernel == RowsKernel::Grid as usize
}

/// Loads the kernels of a module whose names begin with `name`. `overlaps` states whether they may
/// overlap with the previous launch.
pub(super) fn load_all(
    module: &Arc<Module>,
    kernels: &[Kernel],
    name: &str,
    overlaps: bool,
) -> Result<Vec<Entry>> {
    kernels.iter().map(|kernel| Entry::new(module, name, kernel, overlaps)).collect()
}

/// Returns the first of the block `sizes` that the registers of a family's kernels allow, or else the
/// last one.
pub(super) fn largest_block(family: Family, kernels: &[Entry], sizes: &[u32]) -> Result<u32> {
    let large = || kernels.iter().enumerate().filter(|&(kernel, _)| has_large_blocks(family, kernel));
    for &block in sizes {
        let mut allowed = large().map(|(_, entry)| entry.allows(block));
        if allowed.try_fold(true, |all, one| Ok::<_, crate::Error>(all && one?))? {
            return Ok(block);
        }
    }
    Ok(sizes[sizes.len() - 1])
}

pub(crate) struct Entry {
    pub(crate) function: Function,
    /// Blocks resident on the device at once, for each of the kernel's block sizes.
    resident: [u32; MAX_BLOCK_SIZES],
    pub(crate) overlaps: bool,
    module: Arc<Module>,
}

impl Entry {
    fn new(module: &Arc<Module>, name: &str, kernel: &Kernel, overlaps: bool) -> Result<Self> {
        let (device, function) = (module.device(), module.function(&kernel.entry(name))?);
        let mut resident = [0; MAX_BLOCK_SIZES];
        if kernel.blocks.is_empty() {
            return Ok(Self { function, resident, overlaps, module: module.clone() });
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
                Ok(Self { function, resident, overlaps, module: module.clone() })
            }
        })
    }

    /// Returns whether the kernel's registers allow blocks of `block` threads.
    fn allows(&self, block: u32) -> Result<bool> {
        self.module.device().call("preparing a kernel", |driver| {
            // SAFETY: the function lives as long as the module, which `self` holds.
            Ok(unsafe { resident_blocks(driver, self.function, block, 0) }? > 0)
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
    /// launch before it accesses slots or output; until then it reads only elements, the starts of
    /// segments and the table of several buffers, which nothing writes. Outside a recording an overlap
    /// gains nothing.
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
