//! The reducer's kernels: loaded at first use, found again without a lock or an allocation.

use std::{
    ffi::c_void,
    mem, ptr,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use warpfold_abi::{
    Arguments,
    arguments::{ReduceContinued, ReduceCounted, ReduceCut},
};
use warpfold_driver::{CallError, Driver, Function, LaunchShape, Parameters, Stream as RawStream, sys};

use super::{
    job::{Carried, Code, Place, Span},
    module::Module,
    pairs_kernels::LoadedPairs,
    pool::Workspace,
    runs_kernels::LoadedRuns,
    segments_kernels::LoadedOffsets,
    top_kernels::LoadedTop,
    within_kernels::LoadedWithin,
};
use crate::{
    Device, Error, Result,
    arch::Arch,
    count::CountAt,
    geometry::{Launch, Room, shared_bytes},
    names::{Dtype, KernelKind, Op, PairOp, PerPair, RowsKernel, TopOp, WithinOp},
    ptx::{Form, PiecesForm, Ptx, PtxSource, RUNS_FILES},
    signature,
    tuning::{Choice, Tuning},
};

/// The kernels of a device, and which of them to take.
pub(crate) struct Kernels {
    device: Device,
    source: PtxSource,
    tuning: Tuning,
    pub(super) loaded: LoadedKernels,
    /// Held while kernels are loaded, so that the driver compiles each once.
    loading: Mutex<()>,
}

/// What was loaded until now.
#[derive(Default)]
pub(super) struct LoadedKernels {
    cut: PerPair<OnceLock<Loaded>>,
    /// Those that read a count.
    counted: PerPair<OnceLock<Loaded>>,
    /// Those whose elements come behind others.
    continued: PerPair<OnceLock<Loaded>>,
    /// Those for the rows of a matrix.
    rows: PerPair<OnceLock<LoadedPieces>>,
    /// Those for axes that are not the last.
    axis: PerPair<OnceLock<LoadedPieces>>,
    /// Those for the axes of views.
    view: PerPair<OnceLock<LoadedPieces>>,
    /// Those for segments between offsets.
    segments: PerPair<OnceLock<LoadedPieces>>,
    /// Those that look at their offsets.
    pub(super) offsets: OnceLock<LoadedOffsets>,
    /// Those for pairs, by the numbers of operation and type.
    pub(super) pairs: [[OnceLock<LoadedPairs>; Dtype::ALL.len()]; PairOp::ALL.len()],
    /// Those for intervals, likewise.
    pub(super) within: [[OnceLock<LoadedWithin>; Dtype::ALL.len()]; WithinOp::ALL.len()],
    /// Those that find first elements, likewise, by those of order and type.
    pub(super) top: [[OnceLock<LoadedTop>; Dtype::ALL.len()]; TopOp::ALL.len()],
    /// Those that find runs of equal keys, by the size of a key.
    pub(super) runs: [OnceLock<LoadedRuns>; RUNS_FILES.len()],
}

/// The kernels of an operation and type.
pub(super) struct Loaded {
    grid: Entry,
    /// Where the device and the PTX have it.
    bulk: Option<Entry>,
    /// What the entries are of.
    _module: Arc<Module>,
}

/// Most block sizes of a kernel.
const MAX_BLOCK_SIZES: usize = 4;

/// Threads of the largest block where instructions are the limit and threads need many registers.
const LARGEST_BLOCK: u32 = 512;

const _: () = assert!(KernelKind::Grid.block_sizes().len() <= MAX_BLOCK_SIZES);
const _: () = assert!(KernelKind::Bulk.block_sizes().len() <= MAX_BLOCK_SIZES);

/// A kernel, with what the driver says of it, so that a reduction need not ask.
pub(super) struct Entry {
    pub(super) function: Function,
    /// Blocks resident at once, for each of its block sizes.
    resident: [u32; MAX_BLOCK_SIZES],
    /// Whether it may overlap with the launch before.
    pub(super) overlaps: bool,
}

/// The kernels for many results of an operation, which take the same parameters.
pub(super) struct LoadedPieces {
    /// By the kernel's number.
    functions: Box<[Function]>,
    /// Whether they may overlap with the launch before.
    overlaps: bool,
    /// What they are of.
    module: Arc<Module>,
}

impl LoadedPieces {
    /// Loads those of an operation and type of the library's.
    fn load(kernels: &Kernels, form: PiecesForm, op: Op, dtype: Dtype) -> Result<Self> {
        let name = form.family().file(op, dtype);
        let ptx = kernels.ptx(&name)?;
        // Before the device compiles it.
        check_pieces(form, &ptx, &name)?;
        let of_text = |ptx: &Ptx| {
            let module = Arc::new(Module::load(kernels.device(), ptx)?);
            Self::new(form, &module, &name, module.overlaps())
        };
        let loaded = of_text(&ptx)?;
        // Launches are planned before kernels are loaded, for the blocks that nearly all of them allow.
        // The device's compiler, which has chosen how many registers these have, is told of the blocks
        // only where they are too many: without a limit most kernels have fewer.
        let planned = Code::BuiltIn(op, dtype).largest_blocks();
        let (of, block) = match form {
            // Its other kernels have small blocks always.
            PiecesForm::Rows => (&loaded.functions[RowsKernel::Grid as usize..][..1], planned.rows),
            PiecesForm::Axis => (loaded.functions(), planned.axis),
            PiecesForm::View => (loaded.functions(), planned.view),
            PiecesForm::Segments => return Ok(loaded),
        };
        if loaded.allow(of, block)? {
            return Ok(loaded);
        }
        // A text that is not embedded may have such a directive already.
        Ok(of_text(&ptx.for_blocks_of(block)).unwrap_or(loaded))
    }

    /// Those whose names begin with `name`, of a module that was made of PTX that was
    /// [checked](check_pieces), which may overlap with the launch before if so.
    pub(super) fn new(
        form: PiecesForm,
        module: &Arc<Module>,
        name: &str,
        overlaps: bool,
    ) -> Result<Self> {
        let entries = form.entries(name);
        let functions = entries.iter().map(|entry| module.function(entry)).collect::<Result<_>>()?;
        Ok(Self { functions, overlaps, module: module.clone() })
    }

    /// All kernels, by their numbers.
    pub(super) fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The kernel of a number.
    pub(super) fn function(&self, kernel: usize) -> Function {
        self.functions[kernel]
    }

    /// Whether they may overlap with the launch before.
    pub(super) fn overlaps(&self) -> bool {
        self.overlaps
    }

    /// The first of these numbers of threads of which the device has the registers for a block of any of
    /// some of them; the last one where it has them for none.
    pub(super) fn largest_block(&self, of: &[Function], sizes: &[u32]) -> Result<u32> {
        for &block in sizes {
            if self.allow(of, block)? {
                return Ok(block);
            }
        }
        Ok(sizes[sizes.len() - 1])
    }

    /// Returns whether a block of `block` threads of each of these functions fits the registers.
    fn allow(&self, of: &[Function], block: u32) -> Result<bool> {
        self.module.device().call("preparing a kernel", |driver| {
            for &function in of {
                // SAFETY: the function is there as long as the module.
                if unsafe { resident_blocks(driver, function, block, 0) }? == 0 {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}

/// How many blocks of `block` threads and `shared_bytes` bytes of dynamic shared memory a multiprocessor
/// holds: none where a launch of one would fail. The driver's own count leaves out what `.maxntid`
/// allows.
///
/// # Safety
/// The function's module must be alive.
unsafe fn resident_blocks(
    driver: &Driver,
    function: Function,
    block: u32,
    shared_bytes: u32,
) -> Result<u32, CallError> {
    // SAFETY: the caller's contract.
    unsafe {
        let attribute = sys::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
        let most = driver.func_get_attribute(function, attribute)?.cast_unsigned();
        if block > most {
            return Ok(0);
        }
        driver.occupancy_max_active_blocks(function, block, shared_bytes as usize)
    }
}

/// Compares the parameters of kernels with what a launch passes.
pub(super) fn check_pieces(form: PiecesForm, ptx: &Ptx, name: &str) -> Result<()> {
    let entries = form.entries(name);
    entries.iter().try_for_each(|entry| signature::check(ptx, entry, form.parameters()))
}

/// Where a launch goes, and what it writes.
pub(crate) struct Places {
    /// Slots that nothing else uses.
    pub(crate) slots: u64,
    /// Where the result goes.
    pub(crate) output: u64,
    /// For what a count has said, if the launch reads one.
    pub(crate) found: Option<u64>,
    /// The queue in which it is enqueued.
    pub(crate) stream: RawStream,
    /// In place of the tuning's choice.
    pub(crate) choice: Option<Choice>,
    /// Whether the stream records.
    pub(crate) recording: bool,
}

impl Places {
    /// On a stream that does not record, by the tuning's choice.
    pub(crate) fn new(slots: u64, output: u64, stream: RawStream) -> Self {
        Self { slots, output, found: None, stream, choice: None, recording: false }
    }

    /// A launch of `blocks` blocks of `block` threads each. If `overlaps`, the kernel may overlap with
    /// the launch before: it waits for that itself, where it touches slots or output. What it reads
    /// before are elements of a buffer, and what a look at their segments has found, which nothing
    /// writes.
    ///
    /// On a stream that does not record it would gain nothing.
    pub(super) fn shape(&self, [blocks, block]: [u32; 2], overlaps: bool) -> LaunchShape {
        let overlapping = overlaps && self.recording;
        LaunchShape { overlapping, ..LaunchShape::new([blocks, 1, 1], [block, 1, 1]) }
    }
}

impl Kernels {
    pub(crate) fn new(device: &Device, source: PtxSource, tuning: Tuning) -> Self {
        let (loaded, loading) = (LoadedKernels::default(), Mutex::default());
        Self { device: device.clone(), source, tuning, loaded, loading }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn tuning(&self) -> &Tuning {
        &self.tuning
    }

    /// Loads the kernels of an operation and type, unless they are.
    pub(crate) fn prepare(&self, form: Form, op: Op, dtype: Dtype) -> Result<()> {
        self.find(form, op, dtype).map(drop)
    }

    fn find(&self, form: Form, op: Op, dtype: Dtype) -> Result<&Loaded> {
        let cells = match form {
            Form::Whole => &self.loaded.cut,
            Form::Counted => &self.loaded.counted,
            Form::Continued => &self.loaded.continued,
        };
        self.found_or(cells.get(op, dtype), || self.load(form, op, dtype))
    }

    /// Loads the kernels for many results of an operation and type of the library's, unless they are.
    pub(crate) fn prepare_pieces(&self, form: PiecesForm, op: Op, dtype: Dtype) -> Result<()> {
        self.built_in(form, op, dtype).map(drop)
    }

    fn built_in(&self, form: PiecesForm, op: Op, dtype: Dtype) -> Result<&LoadedPieces> {
        let LoadedKernels { rows, axis, view, segments, .. } = &self.loaded;
        let cells = match form {
            PiecesForm::Rows => rows,
            PiecesForm::Axis => axis,
            PiecesForm::View => view,
            PiecesForm::Segments => segments,
        };
        self.found_or(cells.get(op, dtype), || LoadedPieces::load(self, form, op, dtype))
    }

    /// The kernels for many results.
    pub(super) fn pieces<'k>(&'k self, form: PiecesForm, code: &'k Code) -> Result<&'k LoadedPieces> {
        match code {
            &Code::BuiltIn(op, dtype) => self.built_in(form, op, dtype),
            Code::Custom(custom) => Ok(custom.pieces(form)),
        }
    }

    /// What a place holds, or what is loaded for it.
    pub(super) fn found_or<'c, L>(
        &self,
        cell: &'c OnceLock<L>,
        load: impl FnOnce() -> Result<L>,
    ) -> Result<&'c L> {
        if let Some(loaded) = cell.get() {
            return Ok(loaded);
        }
        self.device.require_process()?;
        let _loading = self.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = cell.get() {
            return Ok(loaded);
        }
        let loaded = load()?;
        Ok(cell.get_or_init(|| loaded))
    }

    /// The PTX of a name for this device.
    pub(super) fn ptx(&self, name: &str) -> Result<Ptx> {
        self.source.find(name, self.device.info().arch())
    }

    fn load(&self, form: Form, op: Op, dtype: Dtype) -> Result<Loaded> {
        let name = form.file(op, dtype);
        let ptx = self.ptx(&name)?;
        let has_bulk = form.has(KernelKind::Bulk) && ptx.arch >= KernelKind::Bulk.min_arch();
        let set = Set { form, name: &name, has_bulk };
        set.check(&ptx, KernelKind::Grid)?;
        // What then does not fit into registers is seldom used.
        let ptx = if op.has_products() { ptx.for_blocks_of(LARGEST_BLOCK) } else { ptx };
        let module = Arc::new(Module::load(&self.device, &ptx)?);
        set.loaded(&ptx, &module, module.overlaps())
    }

    /// The launch of elements that there are: the tuning's choice, unless another is given.
    pub(crate) fn plan(&self, span: &Span, choice: Option<Choice>) -> Result<Launch> {
        self.planned(Form::Whole, span, choice).map(|(_, launch)| launch)
    }

    fn planned<'k>(
        &'k self,
        form: Form,
        span: &'k Span,
        choice: Option<Choice>,
    ) -> Result<(&'k Entry, Launch)> {
        span.check()?;
        let loaded = match &span.code {
            &Code::BuiltIn(op, dtype) => self.find(form, op, dtype)?,
            Code::Custom(custom) => custom.kernels(form),
        };
        let shape = self.device.info().shape();
        let (entry, choice) = match choice {
            Some(choice) => (loaded.entry_of(choice, shape.arch)?, choice),
            None => {
                let (op, dtype) = span.code.measured_as();
                let choice = self.tuning.choice(op, dtype, span.bytes(), shape.arch);
                let (entry, choice) = match (choice.kernel, &loaded.bulk) {
                    (KernelKind::Grid, _) => (&loaded.grid, choice),
                    (KernelKind::Bulk, Some(bulk)) => (bulk, choice),
                    (KernelKind::Bulk, None) => (&loaded.grid, Choice::WITHOUT_BULK),
                };
                (entry, entry.fitting(choice))
            }
        };
        Ok((entry, Launch::new(span.extent(), choice, self.room(entry, choice))))
    }

    /// The choice for a sum of `bytes` bytes, for another kernel in the blocks of `grid`, and the room
    /// for its blocks. Where sums of this size take another kernel than `grid`, nothing was measured of
    /// `grid`.
    pub(super) fn chosen_as_sum(&self, entry: &Entry, dtype: Dtype, bytes: u64) -> (Choice, Room) {
        let choice = self.tuning.choice(Op::Sum, dtype, bytes, self.device.info().arch());
        let choice = match choice.kernel {
            KernelKind::Grid => choice,
            KernelKind::Bulk => Choice::WITHOUT_BULK,
        };
        let choice = entry.fitting(choice);
        (choice, self.room(entry, choice))
    }

    /// The room for a kernel's blocks.
    fn room(&self, entry: &Entry, choice: Choice) -> Room {
        Room {
            multiprocessors: self.device.info().shape().multiprocessors,
            resident: entry.resident(choice).min(Workspace::most_blocks(&self.device)),
        }
    }

    /// Enqueues a reduction of elements that there are, or that its kernels reduce where there are none.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue(&self, span: &Span, places: &Places) -> Result<()> {
        let (entry, launch) = self.planned(Form::Whole, span, places.choice)?;
        let shape = LaunchShape {
            shared_bytes: launch.shared(),
            ..places.shape([launch.blocks, launch.block], entry.overlaps)
        };
        let extent = span.extent();
        let arguments = ReduceCut::<u8> {
            input: ptr::without_provenance(span.address as usize),
            head: extent.head(),
            groups: extent.groups(),
            singles: extent.singles(),
            tile: launch.tile.into(),
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
        };
        self.device.call("launching a reduction", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - The input is cut at its 16-byte boundaries.
            // - The block has a size of the kernel's own, and a tile no more groups than its threads
            //   load at once.
            // - There are no more blocks than slots, and the slots are zero.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, entry.function, &shape, places.stream, &arguments) }
        })
    }

    /// As [`enqueue`](Self::enqueue), of no more elements than a count says.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_counted(
        &self,
        span: &Span,
        count: CountAt,
        places: &Places,
    ) -> Result<()> {
        let found = places.found.expect("whoever counts has a place for the count");
        let (entry, launch) = self.planned(Form::Counted, span, None)?;
        let shape = LaunchShape::new([launch.blocks, 1, 1], [launch.block, 1, 1]);
        let arguments = ReduceCounted::<u8> {
            input: ptr::without_provenance(span.address as usize),
            count: ptr::without_provenance(count.address as usize),
            count_words: count.words.into(),
            most: span.n,
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
            found: ptr::without_provenance_mut(found as usize),
        };
        self.device.call("launching a counted reduction", |driver| {
            // SAFETY: the launch is one that the kernel takes:
            // - It reads no more elements than there are, whatever the count is.
            // - The block has a size of the kernel's own.
            // - There are no more blocks than slots, and the slots are zero.
            // - The kernel was compared with the arguments when it was loaded.
            // - The caller answers for the memory.
            unsafe { launch_with(driver, entry.function, &shape, places.stream, &arguments) }
        })
    }

    /// As [`enqueue`](Self::enqueue), of elements that come behind others.
    ///
    /// # Safety
    /// As [`Task::enqueue`](super::Task::enqueue).
    pub(super) unsafe fn enqueue_continued(
        &self,
        span: &Span,
        carried: &Carried,
        places: &Places,
    ) -> Result<()> {
        let (entry, launch) = self.planned(Form::Continued, span, None)?;
        let shape = places.shape([launch.blocks, launch.block], entry.overlaps);
        let extent = span.extent();
        let place = carried.meeting.unwrap_or(Place::NONE);
        let arguments = ReduceContinued::<u8> {
            input: ptr::without_provenance(span.address as usize),
            head: extent.head(),
            groups: extent.groups(),
            singles: extent.singles(),
            tile: launch.tile.into(),
            before: carried.before,
            carried: ptr::without_provenance_mut(carried.address as usize),
            slots: ptr::without_provenance_mut(places.slots as usize),
            output: ptr::without_provenance_mut(places.output as usize),
            meeting: ptr::without_provenance_mut(place.meeting as usize),
            rank: place.rank.into(),
            members: place.members.into(),
            arrivals: place.arrivals,
            result: ptr::without_provenance_mut(place.result as usize),
            others: ptr::without_provenance(place.others.0 as usize),
            copies: place.others.1.into(),
        };
        self.device.call("launching a running reduction", |driver| {
            // SAFETY: the launch is one that the kernel takes, as that of all elements is; what is
            // carried was left by the same kernel, of as many elements as came before. Of the meeting
            // the caller answers.
            unsafe { launch_with(driver, entry.function, &shape, places.stream, &arguments) }
        })
    }

    /// Leaves loaded for good what is loaded: it may still run.
    pub(crate) fn keep_for_good(&mut self) {
        mem::forget((self.device.clone(), mem::take(&mut self.loaded)));
    }
}

/// Passes each field as the parameter that it is.
///
/// # Safety
/// As [`Driver::launch`]; the function's parameters are those of `A`.
pub(super) unsafe fn launch_with<A: Arguments>(
    driver: &'static Driver,
    function: Function,
    shape: &LaunchShape,
    stream: RawStream,
    arguments: &A,
) -> Result<(), CallError> {
    const MOST: usize = 22;
    const { assert!(A::PARAMETERS.len() <= MOST, "raise MOST") };
    let start = ptr::from_ref(arguments).cast::<c_void>().cast_mut();
    let mut pointers = [ptr::null_mut(); MOST];
    for (pointer, parameter) in pointers.iter_mut().zip(A::PARAMETERS) {
        *pointer = start.wrapping_byte_add(parameter.offset);
    }
    let pointers = &mut pointers[..A::PARAMETERS.len()];
    // SAFETY: each pointer is at a field of a struct that lives through the call, which only reads
    // them; the caller's contract.
    unsafe { driver.launch(function, shape, stream, Parameters::Pointers(pointers)) }
}

/// The kernels of a family, by what comes in front of their names.
pub(super) struct Set<'a> {
    pub(super) form: Form,
    pub(super) name: &'a str,
    /// Whether there is one for bulk copies.
    pub(super) has_bulk: bool,
}

impl Set<'_> {
    fn entry(&self, kind: KernelKind) -> String {
        format!("{}_{}", self.name, kind.name())
    }

    fn check(&self, ptx: &Ptx, kind: KernelKind) -> Result<()> {
        signature::check(ptx, &self.entry(kind), self.form.parameters())
    }

    /// Those of a module that was made of this PTX, which may overlap with the launch before if so.
    pub(super) fn loaded(&self, ptx: &Ptx, module: &Arc<Module>, overlaps: bool) -> Result<Loaded> {
        let entry = |kind| {
            self.check(ptx, kind)?;
            Entry::new(module, &self.entry(kind), kind, overlaps)
        };
        let grid = entry(KernelKind::Grid)?;
        let bulk = if self.has_bulk { Some(entry(KernelKind::Bulk)?) } else { None };
        Ok(Loaded { grid, bulk, _module: module.clone() })
    }
}

impl Loaded {
    /// The kernel of a choice that somebody made on purpose: no other runs instead.
    fn entry_of(&self, choice: Choice, arch: Arch) -> Result<&Entry> {
        choice.check(arch).map_err(|reason| Error::Choice { reason })?;
        match choice.kernel {
            KernelKind::Grid => Ok(&self.grid),
            KernelKind::Bulk => {
                let reason = || "the PTX has no bulk kernel; give PTX for sm_90".to_owned();
                self.bulk.as_ref().ok_or_else(|| Error::Choice { reason: reason() })
            }
        }
    }
}

impl Entry {
    /// A kernel of a module.
    pub(super) fn new(module: &Module, name: &str, kind: KernelKind, overlaps: bool) -> Result<Self> {
        let (device, function) = (module.device(), module.function(name)?);
        let (shared, multiprocessors) = (shared_bytes(kind), device.info().multiprocessors);
        device.call("preparing a kernel", |driver| {
            // SAFETY: the function is there as long as the module.
            unsafe {
                if shared > 0 {
                    let attribute = sys::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                    driver.func_set_attribute(function, attribute, shared.cast_signed())?;
                }
                let mut resident = [0; MAX_BLOCK_SIZES];
                for (resident, &block) in resident.iter_mut().zip(kind.block_sizes()) {
                    *resident = resident_blocks(driver, function, block, shared)? * multiprocessors;
                }
                Ok(Self { function, resident, overlaps })
            }
        })
    }

    /// The same choice, in smaller blocks if the kernel takes too many registers for such large ones.
    pub(super) fn fitting(&self, choice: Choice) -> Choice {
        let sizes = choice.kernel.block_sizes().iter().zip(&self.resident).rev();
        let mut fit = sizes.filter(|&(&size, &resident)| size <= choice.block && resident > 0);
        fit.next().map_or(choice, |(&block, _)| choice.in_blocks_of(block))
    }

    /// Blocks of a choice that are resident at once; at least 1, which the driver refuses if need be.
    pub(super) fn resident(&self, choice: Choice) -> u32 {
        let sizes = choice.kernel.block_sizes().iter();
        let mut counts = sizes.zip(&self.resident);
        let found = counts.find(|(size, _)| **size == choice.block);
        found.map_or(1, |(_, &count)| count.max(1))
    }
}
