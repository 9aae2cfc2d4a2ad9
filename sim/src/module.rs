//! Modules and their entries.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ast::{ClusterDirectives, Relocation};
use crate::config::Launch;
use crate::decode::{self, Contents};
use crate::error::{Error, ParseError};
use crate::gpu;
use crate::lexer;
use crate::location::Location;
use crate::names::{is_called, readable};
use crate::observe::Class;
use crate::parser;
use crate::program::Program;

/// A parsed and decoded PTX module. Clones are the same module.
#[derive(Clone)]
pub struct Module {
    id: u64,
    inner: Arc<Inner>,
}

struct Inner {
    version: (u32, u32),
    target: String,
    /// Index of each entry by its name.
    names: HashMap<String, usize>,
    contents: Contents,
}

#[derive(Debug, Default)]
pub(crate) struct Image {
    pub(crate) globals: Vec<GlobalVariable>,
    /// Initial contents of const memory.
    pub(crate) constants: Vec<u8>,
    pub(crate) constant_variables: Vec<ConstVariable>,
    pub(crate) constant_addresses: Vec<Patch>,
}

#[derive(Debug)]
pub(crate) struct ConstVariable {
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug)]
pub(crate) struct GlobalVariable {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) init: Vec<u8>,
    pub(crate) addresses: Vec<Patch>,
}

/// An address to patch into the initial bytes of a variable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patch {
    pub(crate) at: usize,
    pub(crate) target: PatchTarget,
    pub(crate) addend: i64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum PatchTarget {
    Global(usize),
    /// A constant, such as the address of a const variable.
    Fixed(u64),
}

impl Module {
    /// Parses and decodes PTX text and fails at the first error.
    ///
    /// # Errors
    /// The first location where the text is not PTX of the supported subset: an unknown opcode or
    /// modifier, an operand of the wrong type, a call of an external function.
    pub fn parse(ptx: &str) -> Result<Self, ParseError> {
        let module = Self::parse_each(ptx)?;
        let first = module.broken().min_by_key(|broken| (broken.error.line, broken.error.column));
        match first {
            Some(broken) => Err(broken.error.clone()),
            None => Ok(module),
        }
    }

    /// Parses and decodes PTX text, each entry independently: those that are not PTX of the supported
    /// subset are [`broken`](Self::broken), the others run.
    ///
    /// # Errors
    /// Failures outside entries and functions: a variable, a directive, a name declared twice; a
    /// function without an end; and text that exceeds the limits of decoding.
    ///
    /// # Examples
    ///
    /// ```
    /// use warpfold_sim::{Args, Config, Gpu, Launch, Module};
    ///
    /// let ptx = "
    /// .version 7.8
    /// .target sm_80
    /// .address_size 64
    /// .visible .entry good() { ret; }
    /// .visible .entry bad() { frobnicate; ret; }
    /// ";
    /// let module = Module::parse_each(ptx)?;
    /// let gpu = Gpu::new(Config::default());
    /// gpu.launch(&module, "good", &Launch::linear(1, 32), &Args::new())?;
    /// let refused = gpu.launch(&module, "bad", &Launch::linear(1, 32), &Args::new());
    /// let message = "entry `bad` is broken: ptx line 6, column 25: unknown opcode `frobnicate`";
    /// assert_eq!(refused.unwrap_err().to_string(), message);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse_each(ptx: &str) -> Result<Self, ParseError> {
        let ast = parser::parse(ptx).map_err(|failure| lexer::error(ptx, failure))?;
        let contents = decode::module(ptx, &ast).map_err(|failure| lexer::error(ptx, failure))?;
        let entries = contents.entries.iter().enumerate();
        let names = entries.map(|(index, entry)| (entry.name.clone(), index)).collect();
        let inner = Inner { version: ast.version, target: ast.target.to_owned(), names, contents };
        Ok(Self { id: next_id(), inner: Arc::new(inner) })
    }

    /// Returns another module of the same text, which has its own `.global` and `.const` variables on a
    /// device, and shares everything else.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { id: next_id(), inner: Arc::clone(&self.inner) }
    }

    /// Returns the bytes of the variables in const memory.
    #[must_use]
    pub fn constant_bytes(&self) -> usize {
        self.inner.contents.image.constants.len()
    }

    /// Returns the PTX version, such as `(7, 8)`.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.inner.version
    }

    /// Returns the target, such as `sm_90`.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.inner.target
    }

    /// Returns the entries that can be launched, in the order of the text.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.inner.contents.entries.iter()
    }

    /// Returns the broken entries and functions, in the order of the text; empty for a module from
    /// [`parse`](Self::parse).
    pub fn broken(&self) -> impl ExactSizeIterator<Item = &Broken> {
        self.inner.contents.broken.iter()
    }

    /// Returns the entry with this name, if it can be launched.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.inner.names.get(name).map(|&index| &self.inner.contents.entries[index])
    }

    /// Returns the entry with this name.
    ///
    /// # Errors
    /// [`Error::BrokenEntry`] if the entry cannot be launched, [`Error::UnknownEntry`] if there is none.
    pub fn find(&self, name: &str) -> Result<&Entry, Error> {
        self.entry(name).ok_or_else(|| {
            let name = name.to_owned();
            match self.broken().find(|broken| broken.entry && broken.name == name) {
                Some(broken) => Error::BrokenEntry { name, reason: broken.error.clone() },
                None => Error::UnknownEntry { name, available: self.available() },
            }
        })
    }

    /// Returns the entry with this name in PTX or in its source. A name in the source may have
    /// parameters (`sum<float>(float const*, int)`) or none (`sum<float>`), and may omit Rust modules.
    ///
    /// # Errors
    /// Returns the errors of [`find`](Self::find), and [`Error::UnknownEntry`] also if several entries
    /// have the name.
    ///
    /// # Examples
    ///
    /// ```
    /// let ptx = ".version 7.8 .target sm_80 .entry _Z3sumIfEvPKT_i() { ret; }";
    /// let module = warpfold_sim::Module::parse(ptx)?;
    /// assert_eq!(module.search("sum<float>")?.name(), "_Z3sumIfEvPKT_i");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn search(&self, name: &str) -> Result<&Entry, Error> {
        if let Some(found) = self.entry(name) {
            return Ok(found);
        }
        let mut found = self.entries().filter(|entry| is_called(entry.name(), name));
        if let (Some(only), None) = (found.next(), found.next()) {
            return Ok(only);
        }
        let broken = self.broken().find(|broken| broken.entry && is_called(&broken.name, name));
        self.find(broken.map_or(name, Broken::name))
    }

    fn available(&self) -> String {
        let names: Vec<String> =
            self.entries().map(|entry| format!("`{}`", readable(entry.name()))).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// Returns a number that is unique to the module, even after it is dropped.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn image(&self) -> &Image {
        &self.inner.contents.image
    }
}

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module")
            .field("version", &self.inner.version)
            .field("target", &self.inner.target)
            .field("entries", &self.entries().map(Entry::name).collect::<Vec<_>>())
            .field("broken", &self.broken().map(Broken::name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// An entry: a kernel that can be launched.
#[derive(Debug)]
pub struct Entry {
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
    pub(crate) max_threads: Option<[u32; 3]>,
    pub(crate) required_threads: Option<[u32; 3]>,
    pub(crate) cluster: ClusterDirectives,
    pub(crate) program: Program,
}

impl Entry {
    /// Returns the name, by which the entry is launched.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the parameters in order.
    #[must_use]
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Returns the size of the parameters in bytes, up to the end of the last one.
    #[must_use]
    pub fn param_bytes(&self) -> usize {
        self.params.last().map_or(0, |last| last.offset + last.size)
    }

    /// Returns the number of bytes of statically declared shared memory.
    #[must_use]
    pub fn static_shared_bytes(&self) -> u32 {
        self.program.static_shared
    }

    /// Returns the number of bytes of local memory per thread.
    #[must_use]
    pub fn local_bytes(&self) -> u32 {
        self.program.local_bytes
    }

    /// Returns the maximum block shape, which `.maxntid` declares.
    #[must_use]
    pub fn max_threads(&self) -> Option<[u32; 3]> {
        self.max_threads
    }

    /// Returns the required block shape, which `.reqntid` declares.
    #[must_use]
    pub fn required_threads(&self) -> Option<[u32; 3]> {
        self.required_threads
    }

    /// Returns the required cluster shape in blocks, which `.reqnctapercluster` declares.
    #[must_use]
    pub fn required_cluster(&self) -> Option<[u32; 3]> {
        self.cluster.shape
    }

    /// Returns the maximum number of blocks in a cluster, which `.maxclusterrank` declares.
    #[must_use]
    pub fn max_cluster_blocks(&self) -> Option<u32> {
        self.cluster.most_blocks
    }

    /// Checks a launch's shape against the limits of devices and of the entry.
    ///
    /// # Errors
    /// [`Error::InvalidLaunch`] with the first violation.
    pub fn check(&self, launch: &Launch) -> Result<(), Error> {
        gpu::check(self, launch).map(|_| ())
    }

    /// Returns the instructions: those of the entry, with calls expanded in place where possible,
    /// followed by the functions of the other calls. The events of an observer have indices into them.
    #[must_use]
    pub fn instructions(&self) -> &[InstructionInfo] {
        &self.program.info
    }
}

/// An entry that cannot be launched, or a function that no entry can call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub(crate) name: String,
    pub(crate) entry: bool,
    pub(crate) error: ParseError,
}

impl Broken {
    /// Returns the name of the entry or function.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether this is an entry, and not a function.
    #[must_use]
    pub fn is_entry(&self) -> bool {
        self.entry
    }

    /// Returns the location and the reason of the failure. The location may be in a function that the
    /// entry calls, which the message then names.
    #[must_use]
    pub fn error(&self) -> &ParseError {
        &self.error
    }
}

/// A parameter of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// The name in the PTX text.
    pub name: String,
    /// Size in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Offset in the parameter bytes.
    pub offset: usize,
}

/// The text and the location of an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstructionInfo {
    /// The opcode without modifiers, such as `ld`.
    pub opcode: String,
    /// The text with guard, modifiers and operands, and with single spaces.
    pub text: String,
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// The unit that executes the instruction.
    pub class: Class,
    /// Source location, if the module has line information.
    pub location: Option<Arc<Location>>,
}

/// Resolves the addresses in a variable's initial value to patches.
pub(crate) fn patches(
    relocations: &[Relocation<'_>],
    base: usize,
    resolve: impl Fn(&Relocation<'_>) -> Option<PatchTarget>,
) -> Result<Vec<Patch>, String> {
    let patch = |relocation: &Relocation<'_>| {
        let target = resolve(relocation).ok_or_else(|| {
            format!("initial value names `{}`, which is not declared before it", relocation.symbol)
        })?;
        Ok(Patch { at: base + relocation.at, target, addend: relocation.addend })
    };
    relocations.iter().map(patch).collect()
}
