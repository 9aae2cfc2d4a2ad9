//! Explorations: small launches under every order of their steps, and on weak memory.

mod memory;
mod trail;

use crate::config::Launch;
use crate::error::Error;
use crate::exec::{Explorer, Found};
use crate::gpu::{Gpu, Prepared};
use crate::module::Module;

pub(crate) use memory::{Held, Order, WeakMemory};
pub(crate) use trail::{Step, Trail};

/// Executions after which an exploration gives up, unless it is told another number.
const LIMIT: u64 = 1_000_000;

/// Runs launches of few blocks in every order of their steps on global memory, and lets each load see
/// every value that the PTX memory model allows it to see.
///
/// Each warp is on its own: its steps on memory that others use as well are put in every order with
/// theirs, except that of orders that differ by independent steps one is run. A load sees any value
/// that is not older than what its thread is bound to know by coherence and by causality: releases,
/// acquires, fences, barriers, and the ends of launches. So a missing fence gives a wrong result in
/// some execution. A loop that only loads goes round until it sees something new.
///
/// Not included are executions in which a load takes the value of a store that is executed after it
/// (load buffering); a scope below the GPU's orders nothing here, and asynchronous copies see the
/// memory that the launches begin with.
///
/// The memory that the launches begin with is the device's; it is the same again behind each execution.
#[derive(Debug)]
pub struct Exploration<'g> {
    gpu: &'g Gpu,
    launches: Vec<(Prepared<'g>, bool)>,
    limit: u64,
}

/// How much was explored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Explored {
    /// Executions that came to their end and were checked.
    pub executions: u64,
    /// Executions that were given up because another one is the same.
    pub redundant: u64,
}

/// Why an exploration ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// The launch is not possible.
    #[error(transparent)]
    Launch(#[from] Error),
    /// An execution ended wrong.
    #[error("execution {execution}: {reason}\n{}", steps.join("\n"))]
    Wrong {
        /// Its number, from 1.
        execution: u64,
        /// What the check said, or why the kernel failed.
        reason: String,
        /// The steps that other warps may notice, one line each.
        steps: Vec<String>,
    },
    /// There are more executions than allowed.
    #[error("more than {limit} executions; take fewer blocks or threads, or allow more")]
    TooMany {
        /// The number that is allowed.
        limit: u64,
    },
    /// Something that explorations cannot do.
    #[error("{0}")]
    Unsupported(String),
}

impl<'g> Exploration<'g> {
    /// An exploration of no launches yet, on a device's memory.
    #[must_use]
    pub fn new(gpu: &'g Gpu) -> Self {
        Self { gpu, launches: Vec::new(), limit: LIMIT }
    }

    /// The same with another number of executions, beyond which it gives up.
    #[must_use]
    pub fn with_limit(mut self, executions: u64) -> Self {
        self.limit = executions;
        self
    }

    /// Adds a launch, whose blocks start when those of the launches before are over.
    ///
    /// # Errors
    /// Those of [`Gpu::launch`] before it runs; [`ExploreError::Unsupported`] for launches in clusters.
    pub fn launch(
        self,
        module: &'g Module,
        entry: &str,
        launch: &Launch,
        params: &'g (impl AsRef<[u8]> + ?Sized),
    ) -> Result<Self, ExploreError> {
        self.add(module, entry, launch, params.as_ref(), false)
    }

    /// Adds a launch that may overlap with the one before (programmatic dependent launch): its blocks
    /// start when each block there has come to `griddepcontrol.launch_dependents` or to its end.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
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
            let reason = format!("`{entry}` is launched in clusters, which explorations do not have");
            return Err(ExploreError::Unsupported(reason));
        }
        self.launches.push((prepared, overlaps));
        Ok(self)
    }

    /// Explores; `check` is called behind each execution, with the memory as it is then, and says what
    /// is wrong with it.
    ///
    /// # Errors [`ExploreError::Wrong`] for the first execution in which a kernel fails, some block
    /// waits for ever, or that `check` does not like; [`ExploreError::TooMany`].
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
        loop {
            let found = explorer.execute();
            if let Some(reason) = explorer.trouble() {
                return Err(ExploreError::Unsupported(reason));
            }
            if explorer.begins_anew() {
                explored = Explored::default();
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
            if let Err(reason) = verdict {
                return Err(ExploreError::Wrong {
                    execution: explored.executions,
                    reason,
                    steps: explorer.account(),
                });
            }
            if !explorer.advance() {
                return Ok(explored);
            }
            if explored.executions + explored.redundant >= self.limit {
                return Err(ExploreError::TooMany { limit: self.limit });
            }
        }
    }

    /// Shows the check what an execution has left in memory.
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

    use super::{Exploration, Explored, Trail};
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

    #[test]
    fn leaving_equal_orders_out_loses_no_outcome() {
        for order in ["relaxed", "acq_rel"] {
            let (every, slow) = outcomes(order, Trail::new(true));
            let (some, fast) = outcomes(order, Trail::new(false));
            assert_eq!(every, some, "{order}");
            assert!(fast.executions < slow.executions, "{fast:?} {slow:?}");
            assert_eq!(slow.redundant, 0);
        }
    }
}
