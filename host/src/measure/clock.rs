//! Device events around runs.

use std::mem::ManuallyDrop;

use crate::{Kind, Result, Stream, device::Event};

/// Enqueues runs in order and returns the microseconds of each, measured by device events; on the
/// simulator each time is 1. `run` enqueues the run with the given index, and `before` enqueues untimed
/// work before each run. The stream is idle when this returns, even after an error.
pub fn time_runs(
    stream: &Stream,
    runs: usize,
    mut before: impl FnMut() -> Result<()>,
    mut run: impl FnMut(usize) -> Result<()>,
) -> Result<Vec<f64>> {
    // All events are created before the first run, so that their creation is not timed.
    let events = (0..runs).map(|_| Events::new(stream)).collect::<Result<Vec<_>>>()?;
    // If the caller's code panics, `idle` waits, so that memory of pending runs is not freed too early.
    let idle = Idle(stream);
    let ran = events.iter().enumerate().try_for_each(|(index, events)| {
        before()?;
        events.start(stream)?;
        run(index)?;
        events.end(stream)
    });
    let waited = idle.wait();
    ran?;
    waited?;
    events.iter().map(Events::microseconds).collect()
}

/// Waits for a stream on drop.
struct Idle<'s>(&'s Stream);

impl Idle<'_> {
    fn wait(self) -> Result<()> {
        let Self(stream) = *ManuallyDrop::new(self);
        stream.synchronize()
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        // The panic already reports the failure.
        let _ = self.0.synchronize();
    }
}

struct Events {
    start: Event,
    end: Event,
    simulated: bool,
}

impl Events {
    fn new(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        let simulated = device.info().kind == Kind::Sim;
        Ok(Self { start: device.event()?, end: device.event()?, simulated })
    }

    fn start(&self, stream: &Stream) -> Result<()> {
        self.start.record(stream)
    }

    fn end(&self, stream: &Stream) -> Result<()> {
        self.end.record(stream)
    }

    /// Returns the time between the two events, which must be complete; on the simulator, returns 1.
    fn microseconds(&self) -> Result<f64> {
        let measured = self.end.microseconds_since(&self.start)?;
        Ok(if self.simulated { 1.0 } else { measured })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::{Device, Error, Selection};

    #[test]
    fn every_run_is_timed_after_its_preparation() {
        let stream = Device::open(Selection::Sim).unwrap().stream().unwrap();
        let log = RefCell::new(Vec::new());
        let note = |what| {
            log.borrow_mut().push(what);
            Ok(())
        };
        let times = time_runs(&stream, 2, || note(None), |run| note(Some(run))).unwrap();
        assert_eq!(times, [1.0; 2]);
        assert_eq!(*log.borrow(), [None, Some(0), None, Some(1)]);
    }

    #[test]
    fn time_runs_stops_at_the_first_error() {
        let stream = Device::open(Selection::Sim).unwrap().stream().unwrap();
        let mut runs = 0;
        let refused = time_runs(
            &stream,
            3,
            || Ok(()),
            |run| {
                runs += 1;
                if run == 1 { Err(Error::BadBlock { given: 7 }) } else { Ok(()) }
            },
        );
        assert!(matches!(refused, Err(Error::BadBlock { .. })) && runs == 2);
    }
}
