//! Errors of driver functions.

use std::sync::Arc;

use warpfold_driver::sys::*;
use warpfold_sim::{Error, FaultKind};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: c_int,
    pub(crate) detail: Option<Arc<str>>,
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl From<c_int> for Failure {
    fn from(code: c_int) -> Self {
        Self { code, detail: None }
    }
}

impl Failure {
    pub(crate) fn new(code: c_int, detail: impl Into<String>) -> Self {
        Self { code, detail: Some(detail.into().into()) }
    }
}

pub(crate) fn fail<T>(code: c_int) -> Outcome<T> {
    Err(code.into())
}

pub(crate) fn fail_with<T>(code: c_int, detail: impl Into<String>) -> Outcome<T> {
    Err(Failure::new(code, detail))
}

/// Converts an error that the simulator returns before anything runs.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Fault(fault) => code_of(&fault.kind),
            Error::UnknownEntry { .. } => CUDA_ERROR_NOT_FOUND,
            // A GPU's driver rejects the whole module with this code when it is loaded.
            Error::BrokenEntry { .. } => CUDA_ERROR_INVALID_PTX,
            Error::InvalidLaunch { what, .. } if what.starts_with("cluster") => {
                CUDA_ERROR_INVALID_CLUSTER_SIZE
            }
            Error::MemoryLimit { .. } | Error::HostMemory { .. } => CUDA_ERROR_OUT_OF_MEMORY,
            Error::Lent { .. } => CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
            _ => CUDA_ERROR_INVALID_VALUE,
        };
        Self::new(code, error.to_string())
    }
}

/// Converts an error of running work to a failure after which the context is lost.
pub(crate) fn while_running(error: Error) -> Failure {
    let code = match &error {
        Error::Fault(fault) => code_of(&fault.kind),
        Error::InvalidPointer { .. } => CUDA_ERROR_ILLEGAL_ADDRESS,
        _ => CUDA_ERROR_LAUNCH_FAILED,
    };
    Failure::new(code, error.to_string())
}

fn code_of(kind: &FaultKind) -> c_int {
    match kind {
        FaultKind::OutOfBounds { .. }
        | FaultKind::ExitedBlock { .. }
        | FaultKind::InvalidFree { .. }
        | FaultKind::NoCondition { .. }
        | FaultKind::NoSuchBlock { .. } => CUDA_ERROR_ILLEGAL_ADDRESS,
        FaultKind::Misaligned { .. } => CUDA_ERROR_MISALIGNED_ADDRESS,
        FaultKind::ReadOnly { .. } => CUDA_ERROR_INVALID_ADDRESS_SPACE,
        FaultKind::InvalidBarrier { .. }
        | FaultKind::InvalidCopy { .. }
        | FaultKind::InvalidMetadata { .. }
        | FaultKind::TensorMap { .. }
        | FaultKind::InnerCoordinate { .. }
        | FaultKind::NegativeCoordinate { .. }
        | FaultKind::Mbarrier { .. }
        | FaultKind::BranchIndex { .. } => CUDA_ERROR_ILLEGAL_INSTRUCTION,
        FaultKind::NoFunction { .. } => CUDA_ERROR_INVALID_PC,
        FaultKind::CallDepth(_) | FaultKind::StackOverflow { .. } | FaultKind::StackPointer { .. } => {
            CUDA_ERROR_HARDWARE_STACK_ERROR
        }
        FaultKind::Assertion(_) => CUDA_ERROR_ASSERT,
        // On a GPU, kernels with these faults hang until the process is ended.
        FaultKind::StepLimit { .. }
        | FaultKind::ThreadStepLimit { .. }
        | FaultKind::TimeLimit { .. }
        | FaultKind::BarrierDeadlock { .. }
        | FaultKind::ClusterDeadlock { .. } => CUDA_ERROR_LAUNCH_TIMEOUT,
        _ => CUDA_ERROR_LAUNCH_FAILED,
    }
}
