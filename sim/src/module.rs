//! Modules and their entries as callers see them.

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

/// A parsed and decoded PTX module; cloning shares it.
#[derive(Clone)]
pub struct Module {
    id: u64,
    inner: Arc<Inner>,
}

struct Inner {
    version: (u32, u32),
    target: String,
    /// Where each name is among the entries.
    names: HashMap<String, usize>,
    contents: Contents,
}

/// The module's variables in global and const memory.
#[derive(Debug, Default)]
pub(crate) struct Image {
    pub(crate) globals: Vec<GlobalVariable>,
    /// What constant memory has at first.
    pub(crate) constants: Vec<u8>,
    /// What is where in it.
    pub(crate) constant_variables: Vec<ConstVariable>,
    pub(crate) constant_addresses: Vec<Patch>,
}

/// A variable of `.const` memory.
#[derive(Debug)]
pub(crate) struct ConstVariable {
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

/// A variable of `.global` memory.
#[derive(Debug)]
pub(crate) struct GlobalVariable {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) init: Vec<u8>,
    pub(crate) addresses: Vec<Patch>,
}

/// An address to write into initial bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patch {
    pub(crate) at: usize,
    pub(crate) target: PatchTarget,
    pub(crate) addend: i64,
}

/// What an initial address points to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PatchTarget {
    /// A global variable of the module by index.
    Global(usize),
    /// A fixed number, the address of a const variable.
    Fixed(u64),
}

impl Module {
    /// Parses and decodes PTX text, all of it.
    ///
    /// # Errors
    /// The first place where the text is not PTX of the supported subset: an
    /// unknown opcode or modifier, an operand of the wrong type, a call of an
    /// external function.
    pub fn parse(ptx: &str) -> Result<Self, ParseError> {
        let module = Self::parse_each(ptx)?;
        let first = module.broken().min_by_key(|broken| (broken.error.line, broken.error.column));
        match first {
            Some(broken) => Err(broken.error.clone()),
            None => Ok(module),
        }
    }

    /// Parses and decodes PTX text, each entry for itself: those that are not PTX of the supported
    /// subset are [`broken`](Self::broken), the others run.
    ///
    /// # Errors
    /// What is wrong outside of entries and functions: a variable, a directive, a name declared twice;
    /// a function without an end; and text that takes too much to decode.
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

    /// The same text as another module, which has variables of its own on a device.
    /// It costs nothing beside them.
    #[must_use]
    pub fn another(&self) -> Self {
        Self { id: next_id(), inner: Arc::clone(&self.inner) }
    }

    /// Bytes of its variables in const memory.
    #[must_use]
    pub fn constant_bytes(&self) -> usize {
        self.inner.contents.image.constants.len()
    }

    /// The PTX version, such as `(7, 8)`.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.inner.version
    }

    /// The target, such as `sm_90`.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.inner.target
    }

    /// The entries that run, in the order of the text.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.inner.contents.entries.iter()
    }

    /// What is broken, in the order of the text: nothing in a module that [`parse`](Self::parse) made.
    pub fn broken(&self) -> impl ExactSizeIterator<Item = &Broken> {
        self.inner.contents.broken.iter()
    }

    /// The entry of a name, if it runs.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.inner.names.get(name).map(|&index| &self.inner.contents.entries[index])
    }

    /// The entry of a name, or why there is none that runs.
    ///
    /// # Errors
    /// [`Error::BrokenEntry`], [`Error::UnknownEntry`].
    pub fn find(&self, name: &str) -> Result<&Entry, Error> {
        self.entry(name).ok_or_else(|| {
            let name = name.to_owned();
            match self.broken().find(|broken| broken.entry && broken.name == name) {
                Some(broken) => Error::BrokenEntry { name, reason: broken.error.clone() },
                None => Error::UnknownEntry { name, available: self.available() },
            }
        })
    }

    /// The entry of a name, in PTX or in its source: with its parameters (`sum<float>(float const*,
    /// int)`), without (`sum<float>`), and in Rust without its modules.
    ///
    /// # Errors
    /// As [`find`](Self::find); [`Error::UnknownEntry`] of a name that several have, too.
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

    /// The names of the entries that run, in words.
    fn available(&self) -> String {
        let names: Vec<String> =
            self.entries().map(|entry| format!("`{}`", readable(entry.name()))).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// Tells modules apart, also after one is dropped.
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
    /// The name to launch it by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parameters in order.
    #[must_use]
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Bytes that the parameters take, up to the end of the last one.
    #[must_use]
    pub fn param_bytes(&self) -> usize {
        self.params.last().map_or(0, |last| last.offset + last.size)
    }

    /// Bytes of statically declared shared memory.
    #[must_use]
    pub fn static_shared_bytes(&self) -> u32 {
        self.program.static_shared
    }

    /// Bytes of local memory for each thread.
    #[must_use]
    pub fn local_bytes(&self) -> u32 {
        self.program.local_bytes
    }

    /// The most threads of a block that `.maxntid` allows, in x, y and z.
    #[must_use]
    pub fn max_threads(&self) -> Option<[u32; 3]> {
        self.max_threads
    }

    /// The block shape that `.reqntid` demands.
    #[must_use]
    pub fn required_threads(&self) -> Option<[u32; 3]> {
        self.required_threads
    }

    /// The shape of its clusters, in blocks, that `.reqnctapercluster` demands.
    #[must_use]
    pub fn required_cluster(&self) -> Option<[u32; 3]> {
        self.cluster.shape
    }

    /// The most blocks of a cluster that `.maxclusterrank` allows.
    #[must_use]
    pub fn max_cluster_blocks(&self) -> Option<u32> {
        self.cluster.most_blocks
    }

    /// Checks a launch's shape against the limits of devices and the entry's own.
    ///
    /// # Errors
    /// [`Error::InvalidLaunch`] with what is wrong.
    pub fn check(&self, launch: &Launch) -> Result<(), Error> {
        gpu::check(self, launch).map(|_| ())
    }

    /// The instructions, calls expanded in place where they can be, and behind them the
    /// functions of the other calls; an observer's event gives an index into them.
    #[must_use]
    pub fn instructions(&self) -> &[InstructionInfo] {
        &self.program.info
    }
}

/// An entry that does not run, or a function that no entry can call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub(crate) name: String,
    pub(crate) entry: bool,
    pub(crate) error: ParseError,
}

impl Broken {
    /// Returns the name of the entry.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is an entry, and no function.
    #[must_use]
    pub fn is_entry(&self) -> bool {
        self.entry
    }

    /// Where it is not PTX of the supported subset, and why. For an entry that may be in a function
    /// that it calls, which is named then.
    #[must_use]
    pub fn error(&self) -> &ParseError {
        &self.error
    }
}

/// A parameter of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Its name in the PTX text.
    pub name: String,
    /// Bytes that it takes.
    pub size: usize,
    /// Its alignment, in bytes.
    pub align: usize,
    /// Offset in the parameter bytes.
    pub offset: usize,
}

/// An instruction's text and place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InstructionInfo {
    /// The opcode without modifiers, such as `ld`.
    pub opcode: String,
    /// The text with guard, modifiers and operands, white space made single.
    pub text: String,
    /// Line of the PTX text, from 1.
    pub line: u32,
    /// The unit that executes it.
    pub class: Class,
    /// Where it comes from, if the module has line information.
    pub location: Option<Arc<Location>>,
}

/// The module-level form of a variable's initial addresses.
pub(crate) fn patches(
    relocations: &[Relocation<'_>],
    base: usize,
    resolve: impl Fn(&Relocation<'_>) -> Option<PatchTarget>,
) -> Result<Vec<Patch>, String> {
    let patch = |relocation: &Relocation<'_>| {
        let target = resolve(relocation).ok_or_else(|| {
            format!("initial value names `{}`, which is no variable before it", relocation.symbol)
        })?;
        Ok(Patch { at: base + relocation.at, target, addend: relocation.addend })
    };
    relocations.iter().map(patch).collect()
}
