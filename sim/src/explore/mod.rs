//! Exploration of small launches: every order of their steps, on weak memory.

mod memory;
mod trail;

use std::time::{Duration, Instant};

use crate::config::Launch;
use crate::error::Error;
use crate::exec::{Explorer, Found};
use crate::gpu::{Gpu, Prepared};
use crate::module::Module;

pub(crate) use memory::{Held, Order, WeakMemory};
pub(crate) use trail::{Step, Trail};

/// Default maximum number of executions.
const LIMIT: u64 = 1_000_000;

/// Number of executions after the first wrong one that are searched for a shorter one.
const SHORTENING: u64 = 10_000;

/// Time after the first wrong execution in which a shorter one is searched for.
const SHORTENING_TIME: Duration = Duration::from_secs(10);

/// A model checker: it runs launches of few blocks in every order of their steps on global memory, and
/// lets each load return every value that the PTX memory model allows.
///
/// Each warp is scheduled on its own. Steps on memory that several warps use run in every order; of
/// orders that differ only in independent steps, one is run. A load returns any value that is not older
/// than coherence and causality (releases, acquires, fences, barriers, and the ends of launches)
/// require. So a missing fence gives a wrong result in some execution. A loop that only loads is
/// continued only when it can read a new value.
///
/// Executions in which a load takes the value of a store that is executed after it (load buffering) are
/// not included. Scopes narrower than `.gpu` give no ordering, asynchronous copies read the memory as it
/// was before the launches, and tensor maps that kernels write are not ordered.
///
/// The launches start with the device's memory, which is restored after each execution.
#[derive(Debug)]
pub struct Exploration<'g> {
    gpu: &'g Gpu,
    launches: Vec<(Prepared<'g>, bool)>,
    limit: u64,
}

/// The number of executions of an exploration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Explored {
    /// Executions that finished and were checked.
    pub executions: u64,
    /// Executions that were abandoned because they are equivalent to another one.
    pub redundant: u64,
}

/// Reason why an exploration ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// The launch is not possible.
    #[error(transparent)]
    Launch(#[from] Error),
    /// An execution failed. Of all wrong ones that were found, this is the one with the fewest steps
    /// and, of those, the fewest changes from one warp to another.
    #[error("execution {execution}: {reason}\n{}", steps.join("\n"))]
    Wrong {
        /// Number of the execution, from 1.
        execution: u64,
        /// Result of the check, or reason of the kernel's failure.
        reason: String,
        /// Steps that other warps may observe, one line each.
        steps: Vec<String>,
    },
    /// There are more executions than the limit allows.
    #[error(
        "the exploration has more than {limit} executions; use fewer blocks or threads, or raise the \
         limit"
    )]
    TooMany {
        /// The limit.
        limit: u64,
    },
    /// The launches use something that explorations do not support.
    #[error("{0}")]
    Unsupported(String),
}

impl<'g> Exploration<'g> {
    /// Creates an exploration without launches, on a device's memory.
    #[must_use]
    pub fn new(gpu: &'g Gpu) -> Self {
        Self { gpu, launches: Vec::new(), limit: LIMIT }
    }

    /// Sets the maximum number of executions, after which the exploration fails with
    /// [`ExploreError::TooMany`]. The default is a million.
    #[must_use]
    pub fn with_limit(mut self, executions: u64) -> Self {
        self.limit = executions;
        self
    }

    /// Adds a launch, whose blocks start after those of all earlier launches have finished.
    ///
    /// # Errors
    /// Returns the errors that [`Gpu::launch`] returns before it runs the kernel, and
    /// [`ExploreError::Unsupported`] for launches in clusters.
    pub fn launch(
        self,
        module: &'g Module,
        entry: &str,
        launch: &Launch,
        params: &'g (impl AsRef<[u8]> + ?Sized),
    ) -> Result<Self, ExploreError> {
        self.add(module, entry, launch, params.as_ref(), false)
    }

    /// Adds a launch that may overlap the previous one (programmatic dependent launch): its blocks start
    /// after each block of the previous launch has reached `griddepcontrol.launch_dependents` or its
    /// end.
    ///
    /// # Errors
    /// Returns the errors of [`launch`](Self::launch).
    pub fn launch_overlapping(
        self,
        module: &'g Module,
        entry: &str,
        launch: &Launch,
        params: &'g (impl AsRef<[u8]> + ?Sized),
    ) -> Result<Self, ExploreError> {
        self.add(module, entry, launch, params.as_ref(), true)
    }

    fn add(
        mut self,
        module: &'g Module,
        entry: &str,
        launch: &Launch,
        params: &'g [u8],
        overlaps: bool,
    ) -> Result<Self, ExploreError> {
        let prepared = self.gpu.prepare(module, entry, launch, params)?;
        if prepared.in_clusters() {
            let reason = format!("`{entry}` is launched in clusters, which explorations do not support");
            return Err(ExploreError::Unsupported(reason));
        }
        self.launches.push((prepared, overlaps));
        Ok(self)
    }

    /// Runs the exploration. Calls `check` after each execution, with the memory that the execution
    /// left; `check` fails with a description of what is wrong.
    ///
    /// # Errors
    /// Returns [`ExploreError::Wrong`] if in an execution a kernel fails, a block waits forever, or
    /// `check` fails: for the shortest of these among the first one and the next 10 000, or those of ten
    /// seconds; `check` runs after each. Returns [`ExploreError::TooMany`] if there is none within the
    /// limit, and [`ExploreError::Unsupported`] if a kernel uses something that explorations do not
    /// support.
    pub fn run(&self, check: impl FnMut(&Gpu) -> Result<(), String>) -> Result<Explored, ExploreError> {
        self.run_along(Trail::new(false), check)
    }

    fn run_along(
        &self,
        trail: Trail,
        mut check: impl FnMut(&Gpu) -> Result<(), String>,
    ) -> Result<Explored, ExploreError> {
        let launches: Vec<_> = self
            .launches
            .iter()
            .map(|(prepared, overlaps)| (self.gpu.launched(prepared), *overlaps))
            .collect();
        let mut explorer = Explorer::new(&launches, trail);
        let mut explored = Explored::default();
        // The shortest wrong execution, and its length.
        let mut wrong: Option<(ExploreError, (usize, usize))> = None;
        // Number of executions, and the time, after which it is returned.
        let mut end = (self.limit, None);
        loop {
            let found = explorer.execute();
            if let Some(reason) = explorer.trouble() {
                return Err(ExploreError::Unsupported(reason));
            }
            if explorer.begins_anew() {
                (explored, wrong, end) = (Explored::default(), None, (self.limit, None));
                continue;
            }
            let verdict = match found {
                Found::Complete => {
                    explored.executions += 1;
                    self.judge(&explorer, &mut check)?
                }
                Found::Failure(reason) => {
                    explored.executions += 1;
                    Err(reason)
                }
                Found::Redundant => {
                    explored.redundant += 1;
                    Ok(())
                }
            };
            let executed = explored.executions + explored.redundant;
            if let Err(reason) = verdict {
                let length = explorer.length();
                if wrong.is_none() {
                    let last = self.limit.min(executed.saturating_add(SHORTENING));
                    end = (last, Some(Instant::now() + SHORTENING_TIME));
                }
                if wrong.as_ref().is_none_or(|(_, least)| length < *least) {
                    let (execution, steps) = (explored.executions, explorer.account());
                    wrong = Some((ExploreError::Wrong { execution, reason, steps }, length));
                }
            }
            let is_last = !explorer.advance();
            let is_over = executed >= end.0 || end.1.is_some_and(|end| Instant::now() >= end);
            match wrong {
                Some((error, _)) if is_last || is_over => return Err(error),
                None if is_last => return Ok(explored),
                None if is_over => return Err(ExploreError::TooMany { limit: self.limit }),
                _ => {}
            }
        }
    }

    /// Writes the results of an execution to memory, runs the check, and restores the memory.
    fn judge(
        &self,
        explorer: &Explorer<'_>,
        check: &mut impl FnMut(&Gpu) -> Result<(), String>,
    ) -> Result<Result<(), String>, Error> {
        let (first, last) = explorer.values();
        let write = |values: &[Held]| {
            values.iter().try_for_each(|&(address, width, value)| {
                self.gpu.write(address, &value.to_le_bytes()[..width as usize])
            })
        };
        write(&last)?;
        let verdict = check(self.gpu);
        write(&first)?;
        Ok(verdict)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Exploration, ExploreError, Explored, Trail};
    use crate::{Args, Config, Gpu, Launch, Module};

    /// Three blocks that write, read and count in the same two words.
    const PTX: &str = "
.version 7.8
.target sm_90
.address_size 64
.visible .entry three(.param .u64 memory)
{
    .reg .pred %p;
    .reg .b32 %block, %a, %b;
    .reg .b64 %x, %row;
    ld.param.u64 %x, [memory];
    mov.u32 %block, %ctaid.x;
    mul.wide.u32 %row, %block, 8;
    add.s64 %row, %row, %x;
    setp.eq.u32 %p, %block, 2;
    @%p bra LAST;
    st.relaxed.gpu.global.u32 [%x], 1;
    atom.ORDER.gpu.global.add.u32 %a, [%x+8], 1;
    ld.relaxed.gpu.global.u32 %b, [%x];
    bra OVER;
LAST:
    ld.acquire.gpu.global.u32 %a, [%x+8];
    mov.u32 %b, 0;
    st.relaxed.gpu.global.u32 [%x], 2;
OVER:
    st.global.v2.u32 [%row+16], {%a, %b};
    ret;
}";

    fn outcomes(order: &str, trail: Trail) -> (BTreeSet<Vec<u8>>, Explored) {
        let module = Module::parse(&PTX.replace("ORDER", order)).expect("PTX");
        let gpu = Gpu::new(Config::default());
        let memory = gpu.alloc(40).expect("memory");
        let args = Args::new().ptr(memory);
        let launch = Launch::linear(3, 1);
        let exploration =
            Exploration::new(&gpu).launch(&module, "three", &launch, &args).expect("a launch");
        let mut outcomes = BTreeSet::new();
        let explored = exploration.run_along(trail, |gpu| {
            let mut bytes = vec![0; 40];
            gpu.read(memory, &mut bytes).map_err(|error| error.to_string())?;
            outcomes.insert(bytes);
            Ok(())
        });
        (outcomes, explored.expect("an exploration"))
    }

    /// Two blocks; the second executes more steps if its load returns AFTER.
    const WAYS: &str = "
.version 7.8
.target sm_90
.address_size 64
.visible .entry two(.param .u64 memory)
{
    .reg .pred %p;
    .reg .b32 %block, %a;
    .reg .b64 %x;
    ld.param.u64 %x, [memory];
    mov.u32 %block, %ctaid.x;
    setp.eq.u32 %p, %block, 1;
    @%p bra SECOND;
    st.relaxed.gpu.global.u32 [%x], 1;
    ret;
SECOND:
    ld.relaxed.gpu.global.u32 %a, [%x];
    setp.eq.u32 %p, %a, AFTER;
    @!%p bra OVER;
    ld.relaxed.gpu.global.u32 %a, [%x];
    ld.relaxed.gpu.global.u32 %a, [%x];
OVER:
    ret;
}";

    #[test]
    fn shortest_wrong_execution_is_returned() {
        for after in ["0", "1"] {
            let module = Module::parse(&WAYS.replace("AFTER", after)).expect("PTX");
            let gpu = Gpu::new(Config::default());
            let args = Args::new().ptr(gpu.alloc(4).expect("memory"));
            let launch = Launch::linear(2, 1);
            let exploration =
                Exploration::new(&gpu).launch(&module, "two", &launch, &args).expect("a launch");
            let mut executions = 0;
            let found = exploration.run(|_| {
                executions += 1;
                Err("always wrong".to_owned())
            });
            let Err(ExploreError::Wrong { steps, .. }) = found else { panic!("{found:?}") };
            assert_eq!(steps.len(), 2, "{after}: {steps:?}");
            assert!(executions > 2, "{executions}");
        }
    }

    #[test]
    fn sleep_sets_preserve_outcomes() {
        for order in ["relaxed", "acq_rel"] {
            let (every, slow) = outcomes(order, Trail::new(true));
            let (some, fast) = outcomes(order, Trail::new(false));
            assert_eq!(every, some, "{order}");
            assert!(fast.executions < slow.executions, "{fast:?} {slow:?}");
            assert_eq!(slow.redundant, 0);
        }
    }
}
