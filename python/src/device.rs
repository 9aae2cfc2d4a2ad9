//! Open devices. Each is opened once, with its reducer, for the life of the process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::prelude::*;
use warpfold::{Error, Reducer, Selection, Stream};
use warpfold_driver::{Driver, ForkGuard, sys};

use crate::error::raise;

pub(crate) struct Open {
    pub(crate) device: warpfold::Device,
    pub(crate) reducer: Reducer,
    /// Stream of reductions of host arrays, whose results are copied back.
    pub(crate) stream: Stream,
}

/// A GPU, or the simulator of one.
#[pyclass(frozen, module = "warpfold")]
pub(crate) struct Device(pub(crate) Arc<Open>);

#[pymethods]
impl Device {
    /// The name, such as `NVIDIA H200`.
    #[getter]
    fn name(&self) -> &str {
        &self.0.device.info().name
    }

    /// True for the simulator, which is slow.
    #[getter]
    fn simulated(&self) -> bool {
        self.0.device.info().simulated
    }

    /// The device number in this process, from 0.
    #[getter]
    fn ordinal(&self) -> u32 {
        self.0.device.info().ordinal
    }

    /// The compute capability: major and minor.
    #[getter]
    fn capability(&self) -> (u32, u32) {
        self.0.device.info().capability
    }

    /// The size of the device memory in bytes.
    #[getter]
    fn memory(&self) -> u64 {
        self.0.device.info().memory_bytes
    }

    pub(crate) fn __str__(&self) -> String {
        let kind = if self.simulated() { "sim" } else { "cuda" };
        format!("{kind}:{}", self.ordinal())
    }

    fn __repr__(&self) -> String {
        format!("<warpfold.Device {} {}>", self.__str__(), self.name())
    }

    fn __eq__(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn __hash__(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

/// The open devices, by the selections that opened them. Devices are never closed: borrowed Python
/// objects must not be released after the interpreter has exited.
static OPENED: Mutex<Opened> = Mutex::new(Vec::new());

type Opened = Vec<(Selection, Arc<Open>)>;

/// Locks the table of open devices. In a forked child, returns an error instead of waiting, because a
/// thread of the parent may have held the lock at the fork.
fn opened(name: &str) -> warpfold::Result<MutexGuard<'static, Opened>> {
    static PROCESS: ForkGuard = ForkGuard::new();
    if PROCESS.is_same_process() {
        return Ok(OPENED.lock().unwrap_or_else(PoisonError::into_inner));
    }
    match OPENED.try_lock() {
        Ok(opened) => Ok(opened),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Error::Forked { device: name.to_owned() }),
    }
}

/// Opens a device by the name of a `Selection`, or returns it if it is open.
#[pyfunction]
pub(crate) fn open(py: Python<'_>, name: &str) -> PyResult<Device> {
    let selection: Selection = match name.parse() {
        Ok(selection) => selection,
        Err(error) => return Err(pyo3::exceptions::PyValueError::new_err(format!("{error}"))),
    };
    // Releases the GIL first: the thread that holds the lock may be waiting for it.
    let opened = py.detach(|| {
        let mut opened = opened(name)?;
        if let Some((_, open)) = opened.iter().find(|(of, _)| *of == selection) {
            return Ok(open.clone());
        }
        let device = warpfold::Device::open(selection)?;
        let same = opened.iter().find(|(_, open)| open.device == device);
        let open = match same {
            Some((_, open)) => open.clone(),
            None => {
                let (reducer, stream) = (Reducer::new(&device)?, device.stream()?);
                Arc::new(Open { device, reducer, stream })
            }
        };
        opened.push((selection, open.clone()));
        Ok(open)
    });
    opened.map(Device).map_err(raise)
}

/// Returns the names of the available devices, without opening them.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Vec<String>> {
    let gpus = || {
        let Ok(driver) = Driver::load() else { return Ok(0) };
        match driver.init().and_then(|()| driver.device_count()) {
            // A forked child gets this code from the driver even if there are GPUs; see `Device::open`.
            Err(error) if error.code == sys::CUDA_ERROR_NOT_INITIALIZED => {
                Err(Error::Forked { device: driver.name().to_owned() })
            }
            counted => Ok(counted.unwrap_or(0)),
        }
    };
    let gpus = py.detach(gpus).map_err(raise)?;
    Ok((0..gpus).map(|number| format!("cuda:{number}")).chain(["sim:0".to_owned()]).collect())
}
