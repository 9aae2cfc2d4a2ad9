//! Operations that a program defines, on elements of its own types: written in Rust for the GPU with
//! `warpfold-device`, and launched by a [`Reducer`] like the built-in ones.
//!
//! In a crate of kernels, an operation is a type with `warpfold_device::reduction::Reduction`, whose
//! functions map an element, combine two partial results and finish the last one. A line of
//! `warpfold_device::reducer!` names it and declares its kernels. Their PTX, which `warpfold-build`
//! compiles from a build script, is loaded here:
//!
//! ```no_run
//! use bytemuck::{Pod, Zeroable};
//! use warpfold::{Device, Reducer, Selection, custom};
//!
//! #[derive(Debug, Clone, Copy, PartialEq, Zeroable, Pod)]
//! #[repr(C)]
//! struct Complex {
//!     re: f32,
//!     im: f32,
//! }
//!
//! /// `complex_sum = ComplexSum;` in the crate of kernels.
//! struct ComplexSum;
//!
//! impl custom::Reduction for ComplexSum {
//!     const NAME: &'static str = "complex_sum";
//!     type Element = Complex;
//!     type Output = Complex;
//! }
//!
//! let device = Device::open(Selection::Auto)?;
//! let ptx = std::fs::read_to_string("statistics-kernels.ptx")?;
//! // SAFETY: the PTX is that of our own kernels.
//! let sum = unsafe { custom::Module::load(&device, ptx)? }.operation::<ComplexSum>()?;
//!
//! let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
//! let numbers = device.upload(&[Complex { re: 1.0, im: 2.0 }, Complex { re: 0.5, im: -2.0 }])?;
//! assert_eq!(reducer.reduce(&sum, &numbers)?, Complex { re: 1.5, im: 0.0 });
//! let of_rows = reducer.reduce(&sum, &numbers.rows(1)?)?;
//! let pending = reducer.on(&stream).reduce(&sum, &numbers)?;
//! # drop((of_rows, pending));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A reference to such an operation can replace a built-in one of [`op`], also in a tuple. It reduces
//! every [input](crate::Input) of operations with a single result, on a stream, into device memory, in a
//! recording, on a [`Group`](crate::Group) and by [keys](crate::Buffer::by_key). The result of no
//! elements is `finish` of the identity.
//!
//! An operation on selected elements, such as those that meet a condition or have a mask bit set, maps
//! the others to the identity. This one counts and adds up the even numbers:
//!
//! ```ignore
//! impl Reduction for SumOfEven {
//!     type Element = u32;
//!     type Partial = (u64, u64);
//!     type Output = [u64; 2];
//!     const IDENTITY: (u64, u64) = (0, 0);
//!
//!     fn map(element: u32, _index: u64) -> (u64, u64) {
//!         if element % 2 == 0 { (1, element.into()) } else { Self::IDENTITY }
//!     }
//!
//!     fn combine(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
//!         (a.0 + b.0, a.1 + b.1)
//!     }
//!
//!     fn finish((count, sum): (u64, u64)) -> [u64; 2] {
//!         [count, sum]
//!     }
//! }
//! ```
//!
//! [`Buffer::filter`](crate::Buffer::filter) selects the elements of an interval.
//!
//! | | limit |
//! |---|---|
//! | an element | 1 to 64 bytes; elements of 1, 2, 4, 8 and 16 bytes are loaded 16 bytes at a time |
//! | a partial result | 9 words of 32 bits |
//! | a result | 1 to 64 bytes, aligned to at most 8 |
//!
//! The repository's `examples/statistics` is such a program with its kernels.

use std::{any::type_name, borrow::Cow, fmt, marker::PhantomData, mem, ptr, sync::Arc};

use warpfold_abi::{
    Arguments,
    arguments::{DescribeReduction, ReduceLaws},
    custom::{FORMAT, Facts, LAW_RESULTS, MOST_LAW_ELEMENTS, in_groups},
    reducer::BULK_TILE_BYTES,
};
use warpfold_driver::LaunchShape;
use warpfold_ptx::Arch;

use super::{
    Code, Reducer,
    kernels::{largest_block, launch_with, load_all},
    loaded::{LargestBlocks, Loaded},
    module::Module as RawModule,
};
use crate::{
    Device, Error, Plain, Result,
    element::{Words, sealed::Outcome as _},
    input::{axis, rows, view},
    kernel_file::Family,
    memory::Memory,
    names::KernelKind,
    op::{self, Operation, RowsOperation},
    ptx::{Ptx, PtxSource},
    signature,
    tuning::{Blocks, Choice, Tuning},
};

/// Size of the memory for the facts that a kernel writes. A kernel built with another version may write
/// more facts, and the host can compare the format only afterwards.
const FACTS_BYTES: u64 = 256;

const _: () = assert!(size_of::<Facts>() as u64 <= FACTS_BYTES);

/// The host's description of an operation: its name, and the types of its elements and results.
///
/// Both types must be laid out as in the kernels: structs are `#[repr(C)]` on both sides. Sizes and
/// alignments are compared when the operation is [loaded](Module::operation).
pub trait Reduction {
    /// The operation's name in `warpfold_device::reducer!`.
    const NAME: &'static str;
    /// The type of an element in memory.
    type Element: Plain;
    /// The type of a result.
    type Output: Plain;
}

/// PTX of a program's own operations, loaded on a device. Clones refer to the same PTX.
#[derive(Clone)]
pub struct Module {
    ptx: Arc<Ptx>,
    raw: Arc<RawModule>,
}

impl Module {
    /// Loads the PTX of a crate of kernels on a device.
    ///
    /// # Errors
    /// [`Error::PtxRejected`] for PTX that the device does not accept.
    ///
    /// # Safety
    /// - The PTX must be a compiler's output for kernels that `warpfold_device::reducer!` declares, and
    ///   must not define anything else with their names.
    /// - These reductions must be sound for elements of any bit pattern.
    pub unsafe fn load(device: &Device, ptx: impl Into<Cow<'static, str>>) -> Result<Self> {
        let ptx = Ptx { origin: "the program's PTX".to_owned(), text: ptx.into(), arch: Arch::OLDEST };
        let raw = Arc::new(RawModule::load(device, &ptx)?);
        Ok(Self { ptx: Arc::new(ptx), raw })
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        self.raw.device()
    }

    /// Returns an operation of the module.
    ///
    /// # Errors
    /// - [`Error::PtxRejected`] if the module has no operation of the name `R::NAME`, and
    ///   [`Error::WrongParameters`] if the kernels of that operation have other parameters;
    /// - [`Error::Custom`] if the operation's elements or results differ from those of `R`;
    /// - [`Error::Driver`] if the kernel that describes the operation fails.
    pub fn operation<R: Reduction>(&self) -> Result<Custom<R>> {
        let facts = self.facts(R::NAME)?;
        compare::<R>(facts).map_err(|reason| Error::Custom { name: R::NAME, reason })?;
        let sm_90 = facts.sm_90 != 0;
        let arch = if sm_90 && in_groups(facts.element_bytes) { Arch::HOPPER } else { Arch::OLDEST };
        let load = |family: Family| {
            let name = format!("{}{}", family.prefix(), R::NAME);
            let kernels = self.ptx.kernels(family.kernels(), &name, arch)?;
            load_all(&self.raw, &kernels, &name, sm_90)
        };
        let families = Family::ALL.iter().map(|&family| load(family)).collect::<Result<Vec<_>>>()?;
        let families: [_; Family::ALL.len()] =
            families.try_into().unwrap_or_else(|_| unreachable!("one for each family"));
        let largest = |family: Family, sizes| largest_block(family, &families[family as usize], sizes);
        let largest = LargestBlocks {
            rows: largest(Family::Rows, rows::BLOCKS)?,
            axis: largest(Family::Axis, axis::BLOCKS)?,
            view: largest(Family::View, view::BLOCKS)?,
        };
        let loaded = Loaded { name: R::NAME, facts, families, largest, module: self.clone() };
        Ok(Custom { loaded: Arc::new(loaded), reduction: PhantomData })
    }

    fn facts(&self, name: &str) -> Result<Facts> {
        let memory = Memory::new(self.device(), FACTS_BYTES)?;
        let arguments =
            DescribeReduction { output: ptr::without_provenance_mut(memory.address() as usize) };
        // SAFETY: the memory has room for the facts, and is leaked if the kernel may still write them.
        unsafe {
            self.run("describe", name, 1, &arguments, || memory.keep_for_good())?;
            let words = self.device().copy_out(memory.address(), Facts::WORDS)?;
            Ok(Facts::from_words(words.try_into().expect("as many words were copied as facts have")))
        }
    }

    /// Runs the kernel `kernel` of the operation `name`, and waits for it.
    ///
    /// # Safety
    /// The arguments must be valid for `threads` threads. The memory that they point to must live until
    /// this returns, or forever if this calls `keep`.
    unsafe fn run<A: Arguments>(
        &self,
        kernel: &str,
        name: &str,
        threads: u32,
        arguments: &A,
        keep: impl FnOnce(),
    ) -> Result<()> {
        const BLOCK: u32 = 64;
        let entry = format!("reducer_{kernel}_{name}_{}", KernelKind::Grid.name());
        signature::check(&self.ptx, &entry, A::PARAMETERS)?;
        let (function, stream) = (self.raw.function(&entry)?, self.device().stream()?);
        let shape = LaunchShape::new([threads.div_ceil(BLOCK), 1, 1], [BLOCK, 1, 1]);
        let launched = self.device().call("running a kernel of the operation", |driver| {
            // SAFETY: the kernel's parameters were compared with the arguments, which the caller keeps
            // valid until the kernel has finished.
            unsafe { launch_with(driver, function, &shape, stream.raw(), arguments) }
        });
        let waited = stream.wait_out().map_err(|failed| {
            failed.or_keep(|| {
                mem::forget((self.raw.clone(), stream));
                keep();
            })
        });
        launched.and(waited)
    }
}

/// Compares the kernels' types with those of the host, and describes the first difference.
fn compare<R: Reduction>(facts: Facts) -> Result<(), String> {
    if facts.format != FORMAT {
        return Err(
            "its kernels are compiled with another version of warpfold-device; compile them with the \
             one of this warpfold"
                .to_owned(),
        );
    }
    let same = |what, theirs, ours, of: &str| {
        if theirs == ours {
            return Ok(());
        }
        let (bytes, align) = theirs;
        let (our_bytes, our_align) = ours;
        Err(format!(
            "its kernels have {what}s of {bytes} bytes at multiples of {align}, but {of} has \
             {our_bytes} at multiples of {our_align}; make both the same #[repr(C)] type"
        ))
    };
    let layout = |bytes: usize, align: usize| (bytes as u64, align as u64);
    let element = layout(size_of::<R::Element>(), align_of::<R::Element>());
    let output = layout(size_of::<R::Output>(), align_of::<R::Output>());
    same("element", (facts.element_bytes, facts.element_align), element, type_name::<R::Element>())?;
    same("result", (facts.output_bytes, facts.output_align), output, type_name::<R::Output>())
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("device", self.device()).finish_non_exhaustive()
    }
}

/// A program's own operation on a device. A reference to it is an [`Operation`]. Clones share the
/// kernels.
pub struct Custom<R> {
    loaded: Arc<Loaded>,
    reduction: PhantomData<fn() -> R>,
}

impl<R: Reduction> Custom<R> {
    /// Tests the laws of the operation on samples, because a launch combines elements in any order, and
    /// some of them with the identity. It is meant for a program's tests.
    ///
    /// For all pairs of samples, and for triples, it checks that the identity changes nothing and that
    /// the combination is commutative and associative. Then it repeats the samples to some tens of
    /// thousands of elements, and checks that launches give the same result however they divide the
    /// elements. All of this runs in the operation's kernels. `agree` returns whether two results are
    /// the same: bit by bit for integers, within the rounding for sums of floats.
    ///
    /// ```no_run
    /// # fn check<R: warpfold::custom::Reduction<Element = f32, Output = f32>>(
    /// #     sum: warpfold::custom::Custom<R>,
    /// # ) -> warpfold::Result<()> {
    /// let close = |a: &f32, b: &f32| (a - b).abs() <= 1e-5 * a.abs().max(b.abs());
    /// sum.check(&[1.0, -2.5, 1e-3, 4e4], close)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Custom`] with the first samples that break a law, and for no samples or more than 64;
    /// [`Error::Driver`] if a kernel fails.
    pub fn check(
        &self,
        samples: &[R::Element],
        mut agree: impl FnMut(&R::Output, &R::Output) -> bool,
    ) -> Result<()> {
        let failed = |reason| Error::Custom { name: R::NAME, reason };
        if samples.is_empty() || samples.len() > MOST_LAW_ELEMENTS {
            let n = samples.len();
            return Err(failed(format!("{n} samples are given; give 1 to {MOST_LAW_ELEMENTS}")));
        }
        let results = self.laws(samples)?;
        for (pair, results) in results.chunks_exact(LAW_RESULTS).enumerate() {
            let (i, j) = (pair / samples.len(), pair % samples.len());
            broken_law(samples, [i, j], results, &mut agree).map_or(Ok(()), |law| Err(failed(law)))?;
        }
        self.split(samples, &mut agree)?.map_or(Ok(()), |reason| Err(failed(reason)))
    }

    fn laws(&self, samples: &[R::Element]) -> Result<Vec<R::Output>> {
        let Loaded { module, facts, .. } = &*self.loaded;
        let device = module.device();
        let values = device.upload(samples)?;
        let pairs = samples.len() * samples.len();
        let memory = Memory::new(device, (pairs * LAW_RESULTS) as u64 * facts.output_bytes)?;
        let arguments = ReduceLaws::<u8> {
            input: ptr::without_provenance(values.as_device_ptr() as usize),
            n: samples.len() as u64,
            output: ptr::without_provenance_mut(memory.address() as usize),
        };
        let keep = || {
            memory.keep_for_good();
            values.memory().keep_for_good();
        };
        // SAFETY: the samples are readable and there is room for the results of every pair, both until
        // the kernel has finished, or forever; there is one thread for each pair.
        unsafe {
            module.run("laws", R::NAME, pairs as u32, &arguments, keep)?;
            device.copy_out(memory.address(), pairs * LAW_RESULTS)
        }
    }

    /// Returns the first difference in results of launches that divide the same elements differently.
    fn split(
        &self,
        samples: &[R::Element],
        agree: &mut impl FnMut(&R::Output, &R::Output) -> bool,
    ) -> Result<Option<String>> {
        let device = self.loaded.device();
        // At least two whole tiles of the bulk kernel, and a remainder.
        let least = 2 * BULK_TILE_BYTES as usize / size_of::<R::Element>() + 1;
        let rows = least.div_ceil(samples.len());
        let elements = samples.repeat(rows);
        let buffer = device.upload(&elements)?;
        let reducer = |kernel, block, blocks| {
            let choice = Choice { kernel, block, blocks: Blocks::Total(blocks) };
            Ok::<_, Error>(Reducer::with(device, PtxSource::Embedded, Tuning::fixed(choice)?, 1))
        };
        let one = reducer(KernelKind::Grid, 128, 1)?;
        let of_all = one.reduce(self, &buffer)?;
        for other in [reducer(KernelKind::Grid, 256, 7)?, reducer(KernelKind::Bulk, 256, 2)?] {
            let other = other.reduce(self, &buffer)?;
            if !agree(&of_all, &other) {
                let n = elements.len();
                return Ok(Some(format!(
                    "for {n} elements that repeat the samples, one block makes {of_all:?}, but several \
                     make {other:?}; all divisions into parts must have the same result; if the kernels \
                     have a map_vector, combine_warp or ZERO_PADDABLE, compare it with map and combine"
                )));
            }
        }
        let ends = [0, 1, 1, samples.len(), elements.len()].map(|end| end as u64);
        let segments = one.segments(&buffer, &device.upload(&ends)?)?;
        for (segment, result) in one.reduce(self, &segments)?.iter().enumerate() {
            let part = ends[segment] as usize..ends[segment + 1] as usize;
            let of_part = one.reduce(self, &buffer.slice(part.clone())?)?;
            if !agree(&of_part, result) {
                return Ok(Some(format!(
                    "elements {part:?} make {of_part:?} as a buffer, but {result:?} as a segment; all \
                     divisions into parts must have the same result, and INDEXED must be true if map \
                     uses the index"
                )));
            }
        }
        let of_one = one.reduce(self, &buffer.slice(..samples.len())?)?;
        for (row, result) in one.reduce(self, buffer.rows(samples.len())?)?.iter().enumerate() {
            if !agree(&of_one, result) {
                return Ok(Some(format!(
                    "the samples make {of_one:?} as a buffer, but {result:?} as row {row} of a matrix; \
                     all divisions into parts must have the same result"
                )));
            }
        }
        Ok(None)
    }
}

fn broken_law<T: Plain, O: Plain>(
    samples: &[T],
    [i, j]: [usize; 2],
    results: &[O],
    agree: &mut impl FnMut(&O, &O) -> bool,
) -> Option<String> {
    let k = (i + j + 1) % samples.len();
    let [a, b, c] = [i, j, k].map(|at| &samples[at]);
    let [alone, after, before, forth, back, left, right] = results else { unreachable!("seven each") };
    if let Some(other) = [after, before].into_iter().find(|other| !agree(alone, other)) {
        Some(format!(
            "sample {i} ({a:?}) makes {alone:?} alone, but {other:?} with IDENTITY; IDENTITY must \
             change nothing"
        ))
    } else if !agree(forth, back) {
        Some(format!(
            "samples {i} and {j} ({a:?} and {b:?}) make {forth:?}, but {back:?} in the other order; \
             combine must be commutative"
        ))
    } else if !agree(left, right) {
        Some(format!(
            "samples {i}, {j} and {k} ({a:?}, {b:?} and {c:?}) make {left:?} from the left, but \
             {right:?} from the right; combine must be associative"
        ))
    } else {
        None
    }
}

impl<R> Clone for Custom<R> {
    fn clone(&self) -> Self {
        Self { loaded: self.loaded.clone(), reduction: PhantomData }
    }
}

impl<R> fmt::Debug for Custom<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loaded { name, module, .. } = &*self.loaded;
        f.debug_struct("Custom").field("name", name).field("device", module.device()).finish()
    }
}

impl<R> op::sealed::Sealed for &Custom<R> {
    type Kind = op::kind::Single;
}

impl<R: Reduction> Operation<R::Element> for &Custom<R> {
    type Output = R::Output;
    type Left = R::Output;

    fn code(self) -> Code {
        Code::Custom(self.loaded.clone())
    }

    fn of_none() -> Option<R::Output> {
        None
    }

    fn decode(words: Words) -> R::Output {
        R::Output::from_words(words)
    }
}

impl<R: Reduction> RowsOperation<R::Element> for &Custom<R> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_broken(combine: fn(i64, i64) -> i64, identity: i64) -> Option<String> {
        let samples = [3_i64, 5, 8];
        (0..9).find_map(|pair| {
            let (i, j) = (pair / 3, pair % 3);
            let [a, b, c] = [i, j, (i + j + 1) % 3].map(|at| samples[at]);
            let results = [
                a,
                combine(identity, a),
                combine(a, identity),
                combine(a, b),
                combine(b, a),
                combine(combine(a, b), c),
                combine(a, combine(b, c)),
            ];
            broken_law(&samples, [i, j], &results, &mut |a, b| a == b)
        })
    }

    #[test]
    fn broken_law_reports_the_first_violating_samples() {
        assert_eq!(first_broken(|a, b| a + b, 0), None);
        assert_eq!(first_broken(i64::max, i64::MIN), None);
        let says = |broken: Option<String>, words: [&str; 2]| {
            let broken = broken.unwrap();
            assert!(
                words.iter().all(|word| broken.contains(word)) && !broken.contains('\n'),
                "{broken}"
            );
        };
        says(first_broken(|a, b| a + b, 1), ["sample 0 (3) makes 3 alone, but 4", "IDENTITY"]);
        // 0 is an identity on the right only.
        says(first_broken(|a, b| a - b, 0), ["sample 0 (3) makes 3 alone, but -3", "IDENTITY"]);
        let first = |a: i64, b: i64| if a == 0 { b } else { a };
        says(first_broken(first, 0), ["samples 0 and 1 (3 and 5) make 3, but 5", "commutative"]);
        let apart = |a: i64, b: i64| if a == 0 || b == 0 { a + b } else { (a - b).abs() + 1 };
        says(first_broken(apart, 0), ["samples 0, 0 and 1 (3, 3 and 5) make 5 ", "associative"]);
    }

    #[test]
    fn facts_of_another_version_are_refused() {
        struct Sum;
        impl Reduction for Sum {
            const NAME: &'static str = "sum";
            type Element = u32;
            type Output = u64;
        }
        let facts = Facts {
            format: FORMAT,
            element_bytes: 4,
            element_align: 4,
            output_bytes: 8,
            output_align: 8,
            sm_90: 0,
            indexed: 0,
        };
        assert_eq!(compare::<Sum>(facts), Ok(()));
        let refused = compare::<Sum>(Facts { format: FORMAT + 1, ..facts }).unwrap_err();
        assert!(refused.contains("another version of warpfold-device"), "{refused}");
        assert!(compare::<Sum>(Facts { output_bytes: 4, ..facts }).is_err());
    }
}
