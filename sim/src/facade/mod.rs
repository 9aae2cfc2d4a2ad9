//! [`Sim`]: a module, a device and its checks in one object, for tests of kernels.

mod argument;
mod buffer;
mod call;
mod testing;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::config::Config;
use crate::error::{Error, ParseError};
use crate::gpu::Gpu;
use crate::hazard::{Finding, Hazards};
use crate::module::Module;

pub use argument::{Argument, Element};
pub use buffer::Buffer;
pub use call::{Call, Extent, Ran};
pub use testing::run_test;

/// A PTX module and a device that runs it, on one host thread, so that runs are repeatable.
///
/// ```
/// use warpfold_sim::Sim;
///
/// let sim = Sim::load(
///     ".version 7.8
///      .target sm_80
///      .visible .entry scale(.param .u64 data, .param .u32 n, .param .f32 factor)
///      {
///          .reg .pred %p;
///          .reg .b32 %i, %n;
///          .reg .b64 %data, %at;
///          .reg .f32 %value, %factor;
///          ld.param.u64 %data, [data];
///          ld.param.u32 %n, [n];
///          ld.param.f32 %factor, [factor];
///          mov.u32 %i, %tid.x;
///          setp.ge.u32 %p, %i, %n;
///          @%p ret;
///          mul.wide.u32 %at, %i, 4;
///          add.u64 %at, %data, %at;
///          ld.global.f32 %value, [%at];
///          mul.f32 %value, %value, %factor;
///          st.global.f32 [%at], %value;
///          ret;
///      }",
/// )?;
/// let mut values = vec![1.0_f32, 2.0, 3.0];
/// sim.kernel("scale").block(32).arg(&mut values).arg(3_u32).arg(0.5_f32).checked().run()?;
/// assert_eq!(values, [0.5, 1.0, 1.5]);
///
/// // One element more than there are:
/// let call = sim.kernel("scale").block(32).named("values", &mut values).arg(4_u32).arg(0.5_f32);
/// let said = call.run().unwrap_err().to_string();
/// assert!(said.contains("it ends 4 bytes past the end of `values`, 12 bytes at 0x"), "{said}");
/// # Ok::<(), warpfold_sim::SimError>(())
/// ```
#[derive(Debug)]
pub struct Sim {
    device: Arc<Device>,
    module: Module,
    checked: bool,
    seed: Option<u64>,
}

/// The state shared by buffers and launches.
#[derive(Debug)]
struct Device {
    gpu: Gpu,
    hazards: Hazards,
    /// Set if every launch is checked, so that all writes of memory are known.
    sees_all: AtomicBool,
}

impl Device {
    /// Fails if the checks have new findings.
    fn found(&self) -> Result<(), SimError> {
        let found = self.hazards.take_findings();
        if found.is_empty() { Ok(()) } else { Err(SimError::Found(found)) }
    }
}

impl Sim {
    /// Loads PTX text on a device of its own. Unsupported entries fail when they are launched.
    ///
    /// # Errors
    /// [`SimError::Text`] for text that is not PTX.
    pub fn load(ptx: impl AsRef<str>) -> Result<Self, SimError> {
        Self::with_config(ptx, Config::default())
    }

    /// Loads PTX text for a device with these limits, except for the number of host threads, which is
    /// one.
    ///
    /// # Errors
    /// Returns the errors of [`load`](Self::load).
    pub fn with_config(ptx: impl AsRef<str>, config: Config) -> Result<Self, SimError> {
        let module = Module::parse_each(ptx.as_ref())?;
        let hazards = if config.strict { Hazards::strict() } else { Hazards::new() };
        let gpu = Gpu::new(Config { threads: Some(1), ..config });
        Ok(Self {
            device: Arc::new(Device { gpu, hazards, sees_all: AtomicBool::new(false) }),
            module,
            checked: false,
            seed: None,
        })
    }

    /// Makes every launch [`checked`](Call::checked).
    #[must_use]
    pub fn checked(mut self) -> Self {
        self.checked = true;
        self.device.sees_all.store(true, Ordering::Relaxed);
        self
    }

    /// Sets the default [`seed`](Call::seed) of launches.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Returns a builder of a launch of a kernel, by its name in PTX or in its source, as
    /// [`Module::search`] finds it. The default is one block of one thread.
    pub fn kernel<'a>(&'a self, name: &'a str) -> Call<'a> {
        Call::new(self, name)
    }

    /// Returns a buffer on the device with these elements, for several launches.
    ///
    /// # Errors
    /// [`SimError::Launch`] with [`Error::MemoryLimit`] if the device has no memory for it.
    pub fn buffer<T: Element>(&self, elements: &[T]) -> Result<Buffer<T>, SimError> {
        let buffer = self.output(elements.len())?;
        buffer.write(elements)?;
        Ok(buffer)
    }

    /// Returns a buffer on the device for `len` elements, uninitialised. If every launch is checked, a
    /// read by a kernel or by the host before a write is a finding.
    ///
    /// # Errors
    /// [`SimError::Launch`] with [`Error::MemoryLimit`] if the device has no memory for it.
    pub fn output<T: Element>(&self, len: usize) -> Result<Buffer<T>, SimError> {
        Buffer::new(&self.device, len)
    }

    /// Returns the loaded module.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Returns the device.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.device.gpu
    }
}

/// Errors of a [`Sim`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The text is not PTX.
    #[error(transparent)]
    Text(#[from] ParseError),
    /// A launch that is invalid, or that a thread's error ended.
    #[error(transparent)]
    Launch(#[from] Error),
    /// An argument that the kernel does not take.
    #[error("{0}")]
    Argument(String),
    /// Findings of the checks.
    #[error("{}", Lines(.0))]
    Found(Vec<Finding>),
    /// A result that depends on the order in which threads run.
    #[error(
        "element {index} of {buffer} is {found} under seed {seed} and {expected} in lockstep; the \
         result depends on the order of threads"
    )]
    Order {
        /// The seed of the order.
        seed: u64,
        /// The buffer's name, or the number of the argument.
        buffer: String,
        /// The first element that differs.
        index: usize,
        /// Value of the element under the seed.
        found: String,
        /// Value of the element in lockstep.
        expected: String,
    },
}

struct Lines<'a>(&'a [Finding]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, finding) in self.0.iter().enumerate() {
            write!(f, "{}{finding}", if number == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}
