//! A single launch: its shape, its arguments and its checks.

use crate::config::{Args, Launch, Stats};
use crate::error::Error;
use crate::module::Entry;
use crate::names::readable;

use super::argument::{Argument, Content, Kind};
use super::{Device, Sim, SimError};

/// Blocks of a grid, or threads of a block: `64`, `(8, 8)`, `(8, 8, 2)`, or `[8, 8, 2]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent([u32; 3]);

impl From<u32> for Extent {
    fn from(x: u32) -> Self {
        Self([x, 1, 1])
    }
}

impl From<(u32, u32)> for Extent {
    fn from((x, y): (u32, u32)) -> Self {
        Self([x, y, 1])
    }
}

impl From<(u32, u32, u32)> for Extent {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self([x, y, z])
    }
}

impl From<[u32; 3]> for Extent {
    fn from(extent: [u32; 3]) -> Self {
        Self(extent)
    }
}

/// A builder of a kernel launch, from [`Sim::kernel`]. [`run`](Self::run) launches the kernel.
#[derive(Debug)]
#[must_use = "it happens when it is run"]
pub struct Call<'a> {
    sim: &'a Sim,
    kernel: &'a str,
    launch: Launch,
    arguments: Vec<(Option<&'a str>, Argument<'a>)>,
    checked: bool,
    /// Number of seeds for further runs, and the relative tolerance of their results.
    seeds: u64,
    tolerance: f64,
}

/// The result of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ran {
    /// Statistics of the launch.
    pub stats: Stats,
    /// Output of the kernel's `printf` calls.
    pub printed: String,
}

struct Array<'a> {
    name: String,
    address: u64,
    kind: Kind,
    before: Vec<u8>,
    after: Vec<u8>,
    /// Set if the array was allocated for the launch; it is freed afterwards.
    is_own: bool,
    back: Option<&'a mut [u8]>,
}

impl<'a> Call<'a> {
    pub(super) fn new(sim: &'a Sim, kernel: &'a str) -> Self {
        let launch = Launch { seed: sim.seed, ..Launch::linear(1, 1) };
        let (arguments, checked) = (Vec::new(), sim.checked);
        Self { sim, kernel, launch, arguments, checked, seeds: 0, tolerance: 0.0 }
    }

    /// Sets the grid to `blocks` blocks.
    pub fn grid(mut self, blocks: impl Into<Extent>) -> Self {
        self.launch.grid = blocks.into().0;
        self
    }

    /// Sets the number of threads of each block.
    pub fn block(mut self, threads: impl Into<Extent>) -> Self {
        self.launch.block = threads.into().0;
        self
    }

    /// Sets the shape of clusters, in blocks.
    pub fn cluster(mut self, blocks: impl Into<Extent>) -> Self {
        self.launch.cluster = Some(blocks.into().0);
        self
    }

    /// Sets the dynamic shared memory of each block to `bytes` bytes.
    pub fn shared(mut self, bytes: u32) -> Self {
        self.launch.dynamic_shared = bytes;
        self
    }

    /// Makes the launch cooperative, so that its blocks may wait for each other.
    pub fn cooperative(mut self) -> Self {
        self.launch.cooperative = true;
        self
    }

    /// Appends an argument of the kernel.
    pub fn arg(mut self, argument: impl Into<Argument<'a>>) -> Self {
        self.arguments.push((None, argument.into()));
        self
    }

    /// Appends an argument of the kernel, with a name for messages.
    pub fn named(mut self, name: &'a str, argument: impl Into<Argument<'a>>) -> Self {
        self.arguments.push((Some(name), argument.into()));
        self
    }

    /// Appends two arguments, an array and its length, as a kernel in Rust takes a slice.
    pub fn slice<T>(self, array: &'a [T]) -> Self
    where
        &'a [T]: Into<Argument<'a>>,
    {
        let len = array.len() as u64;
        self.arg(array).arg(len)
    }

    /// Appends two arguments, a mutable array and its length.
    pub fn slice_mut<T>(self, array: &'a mut [T]) -> Self
    where
        &'a mut [T]: Into<Argument<'a>>,
    {
        let len = array.len() as u64;
        self.arg(array).arg(len)
    }

    /// Checks for races, missing barriers and reads of uninitialised memory; findings are returned as
    /// [`SimError::Found`].
    pub fn checked(mut self) -> Self {
        self.checked = true;
        self
    }

    /// Runs threads in an order that the seed chooses; see [`Launch::with_seed`].
    pub fn seed(mut self, seed: u64) -> Self {
        self.launch.seed = Some(seed);
        self
    }

    /// Repeats the launch under `count` seeds, each time on the original data, and fails with
    /// [`SimError::Order`] if an array's contents then differ.
    pub fn seeds(mut self, count: u64) -> Self {
        self.seeds = count;
        self
    }

    /// Sets the relative tolerance of floating-point results between seeds, such as `1e-5`. By default
    /// results must be equal. Sums by atomics need a tolerance, because their order varies.
    pub fn tolerance(mut self, part: f64) -> Self {
        self.tolerance = part;
        self
    }

    /// Runs the launch, and copies mutable arrays back to the host even if checks have findings.
    ///
    /// # Errors
    /// - [`SimError::Launch`] for an unknown kernel, an invalid launch and a thread's error;
    /// - [`SimError::Argument`] for arguments that the kernel does not take;
    /// - [`SimError::Found`] with the findings of the checks;
    /// - [`SimError::Order`] for results that depend on the [seed](Self::seeds).
    pub fn run(self) -> Result<Ran, SimError> {
        let Self { sim, kernel, launch, arguments, checked, seeds, tolerance } = self;
        let entry = sim.module.search(kernel)?;
        require(entry, &arguments)?;
        let device = &*sim.device;
        let (args, mut arrays) = placed(device, arguments)?;
        let ran = Run { sim, entry, launch, args: &args, checked };
        let before = Variables::of(sim)?;
        let result = ran.first(&mut arrays).and_then(|ran_once| {
            ran.again(&mut arrays, &before, seeds, tolerance)?;
            Ok(ran_once)
        });
        for array in &mut arrays {
            if let Some(back) = array.back.take() {
                device.gpu.read(array.address, back)?;
            }
            if array.is_own {
                device.gpu.free(array.address)?;
            }
        }
        result
    }
}

struct Run<'r> {
    sim: &'r Sim,
    entry: &'r Entry,
    launch: Launch,
    args: &'r Args,
    checked: bool,
}

impl Run<'_> {
    fn once(&self, launch: &Launch) -> Result<Stats, Error> {
        let Device { gpu, hazards, .. } = &*self.sim.device;
        match self.checked {
            false => gpu.launch(&self.sim.module, self.entry.name(), launch, self.args),
            true => {
                let observer = hazards.launch();
                gpu.launch_observed(&self.sim.module, self.entry.name(), launch, self.args, &observer)
            }
        }
    }

    fn first(&self, arrays: &mut [Array<'_>]) -> Result<Ran, SimError> {
        let gpu = &self.sim.device.gpu;
        let stats = self.once(&self.launch);
        let printed = String::from_utf8_lossy(&gpu.take_printed()).into_owned();
        for array in arrays {
            array.after.resize(array.before.len(), 0);
            gpu.read(array.address, &mut array.after)?;
        }
        let stats = stats?;
        self.sim.device.found()?;
        Ok(Ran { stats, printed })
    }

    /// Repeats the launch under seeds, and then restores the results of the first run.
    fn again(
        &self,
        arrays: &mut [Array<'_>],
        before: &Variables,
        seeds: u64,
        tolerance: f64,
    ) -> Result<(), SimError> {
        if seeds == 0 {
            return Ok(());
        }
        let after = Variables::of(self.sim)?;
        let outcome = (0..seeds).try_for_each(|seed| {
            before.restore(self.sim)?;
            self.under(arrays, seed, tolerance)
        });
        let gpu = &self.sim.device.gpu;
        arrays.iter().try_for_each(|array| gpu.write(array.address, &array.after))?;
        after.restore(self.sim)?;
        let _ = gpu.take_printed();
        outcome
    }

    fn under(&self, arrays: &[Array<'_>], seed: u64, tolerance: f64) -> Result<(), SimError> {
        let gpu = &self.sim.device.gpu;
        arrays.iter().try_for_each(|array| gpu.write(array.address, &array.before))?;
        self.once(&self.launch.with_seed(seed))?;
        self.sim.device.found()?;
        for Array { name, address, kind, after, .. } in arrays {
            let mut now = vec![0; after.len()];
            gpu.read(*address, &mut now)?;
            if let Some(index) = kind.first_off(&now, after, tolerance) {
                let [found, expected] = [&now, after].map(|bytes| kind.shown(bytes, index));
                return Err(SimError::Order { seed, buffer: name.clone(), index, found, expected });
            }
        }
        Ok(())
    }
}

struct Variables(Vec<(u64, Vec<u8>)>);

impl Variables {
    fn of(sim: &Sim) -> Result<Self, Error> {
        let gpu = &sim.device.gpu;
        let names = sim.module.image().globals.iter().map(|variable| &variable.name);
        let of = |name: &String| {
            let (address, bytes) = gpu.symbol(&sim.module, name)?.unwrap_or((0, 0));
            let mut held = vec![0; bytes as usize];
            gpu.read(address, &mut held)?;
            Ok((address, held))
        };
        names.map(of).collect::<Result<_, Error>>().map(Self)
    }

    fn restore(&self, sim: &Sim) -> Result<(), Error> {
        self.0.iter().try_for_each(|(address, held)| sim.device.gpu.write(*address, held))
    }
}

fn require(entry: &Entry, given: &[(Option<&str>, Argument<'_>)]) -> Result<(), SimError> {
    let (name, takes) = (readable(entry.name()), entry.params());
    if takes.len() != given.len() {
        let (wanted, given) = (takes.len(), given.len());
        let text =
            format!("`{name}` takes {wanted} arguments, but {given} are given; a slice counts as two");
        return Err(SimError::Argument(text));
    }
    for (at, (param, (_, argument))) in takes.iter().zip(given).enumerate() {
        let (bytes, what) = match &argument.0 {
            Content::Number { size, .. } => (*size, "a number"),
            _ => (size_of::<u64>(), "the address of an array"),
        };
        if param.size != bytes {
            let wanted = param.size;
            let text = format!(
                "argument {at} of `{name}` has {wanted} bytes, but {what} of {bytes} bytes is given"
            );
            return Err(SimError::Argument(text));
        }
    }
    Ok(())
}

fn placed<'a>(
    device: &Device,
    arguments: Vec<(Option<&str>, Argument<'a>)>,
) -> Result<(Args, Vec<Array<'a>>), SimError> {
    let (mut args, mut arrays) = (Args::new(), Vec::new());
    for (at, (name, argument)) in arguments.into_iter().enumerate() {
        let (address, kind, before, back, is_own) = match argument.0 {
            Content::Number { bytes, size } => {
                args = args.bytes(&bytes[..size], size);
                continue;
            }
            Content::Read(bytes, kind) => (allocated(device, bytes)?, kind, bytes.to_vec(), None, true),
            Content::Changed(bytes, kind) => {
                (allocated(device, bytes)?, kind, bytes.to_vec(), Some(bytes), true)
            }
            Content::OnDevice { address, bytes, kind } => {
                let mut before = vec![0; bytes];
                device.gpu.read(address, &mut before)?;
                (address, kind, before, None, false)
            }
        };
        if let Some(name) = name {
            device.gpu.memory().set_name(address, name);
        }
        args = args.ptr(address);
        let name = name.map_or_else(|| format!("argument {at}"), |name| format!("`{name}`"));
        arrays.push(Array { name, address, kind, before, after: Vec::new(), is_own, back });
    }
    Ok((args, arrays))
}

fn allocated(device: &Device, bytes: &[u8]) -> Result<u64, Error> {
    let address = device.gpu.alloc(bytes.len() as u64)?;
    device.hazards.allocated(address, bytes.len() as u64);
    device.gpu.write(address, bytes)?;
    device.hazards.written(address, bytes.len() as u64);
    Ok(address)
}
