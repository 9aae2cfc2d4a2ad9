//! Results that the host takes: an observer of the simulator is notified of each result once.

use std::sync::{Arc, Mutex};

use warpfold::{Count, Device, Reducer, internal::Tuning, op};
use warpfold_sim::{Error, HazardKind, Hazards, Stats};
use warpfold_sim_driver::{SimLaunch, Watcher, watch};

use crate::{
    common::{Sample, small},
    devices::in_own_context,
    kernels::{kernel, with_sum},
};

/// An observer that records hazards, and the sizes of the results that the host has taken.
#[derive(Default)]
pub(crate) struct Watch {
    pub(crate) hazards: Hazards,
    taken: Mutex<Vec<u64>>,
}

impl Watch {
    fn misses_a_result(&self) -> bool {
        self.hazards.findings().iter().any(|found| found.kind == HazardKind::UnwrittenResult)
    }

    pub(crate) fn taken(&self) -> Vec<u64> {
        std::mem::take(&mut self.taken.lock().unwrap())
    }
}

impl Watcher for Watch {
    fn launch(&self, launch: &SimLaunch<'_>) -> Result<Stats, Error> {
        launch.run_observed(&self.hazards.launch())
    }

    fn allocated(&self, address: u64, bytes: u64) {
        self.hazards.allocated(address, bytes);
    }

    fn written(&self, address: u64, bytes: u64) {
        self.hazards.written(address, bytes);
    }

    fn read(&self, address: u64, bytes: u64) {
        self.hazards.read(address, bytes);
    }

    fn taken(&self, address: u64, bytes: u64) {
        self.hazards.taken(address, bytes);
        self.taken.lock().unwrap().push(bytes);
    }
}

pub(crate) fn watched() -> (Device, Arc<Watch>) {
    let (device, watcher) = (in_own_context(warpfold_sim_driver::driver()), Arc::default());
    watch(device.as_raw_context().cast(), Arc::clone(&watcher) as _).expect("a context");
    (device, watcher)
}

/// Asserts that work on a device has no hazard; all accesses are observed.
pub(crate) fn without_hazards(work: impl FnOnce(&Device) + Send) {
    let (device, watch) = watched();
    // The hazard detection follows a single host thread.
    let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    threads.install(|| work(&device));
    let findings = watch.hazards.findings();
    assert!(findings.is_empty(), "{findings:#?}");
}

/// Checks for every operation, blocking, enqueued and recorded, that the host takes exactly the bytes
/// that the kernel wrote.
fn taken<T: Sample>((device, watch): (&Device, &Watch)) {
    let (reducer, stream) = (Reducer::new(device).unwrap(), device.stream().unwrap());
    let values = device.upload(&small::<T>(1000, 3)).unwrap();
    let [sum, element] = [size_of::<T::Sum>(), size_of::<T>()].map(|bytes| bytes as u64);
    let all = [sum, sum, element, element, 8 + element, 8 + element];

    reducer.sum(&values).unwrap();
    reducer.reduce(op::SumOfSquares, &values).unwrap();
    reducer.min(&values).unwrap();
    reducer.max(&values).unwrap();
    reducer.reduce(op::ArgMin, &values).unwrap();
    reducer.reduce(op::ArgMax, &values).unwrap();
    assert_eq!(watch.taken(), all);

    let on = reducer.on(&stream);
    on.reduce(op::Sum, &values).unwrap().wait().unwrap();
    on.reduce(op::SumOfSquares, &values).unwrap().wait().unwrap();
    on.reduce(op::Min, &values).unwrap().wait().unwrap();
    on.reduce(op::Max, &values).unwrap().wait().unwrap();
    on.reduce(op::ArgMin, &values).unwrap().wait().unwrap();
    on.reduce(op::ArgMax, &values).unwrap().wait().unwrap();
    assert_eq!(watch.taken(), all);

    let number = device.upload(&[500_u64]).unwrap();
    // SAFETY: the count is an element of the buffer, which is its owner, and never changes.
    let count = unsafe { Count::from_raw_u64(device, number.as_device_ptr(), number.clone()) }.unwrap();
    on.reduce(op::Max, values.counted(&count)).unwrap().wait().unwrap();
    assert_eq!(watch.taken(), [element, 8]);

    let both = [sum, 2 * element];
    reducer.reduce((op::Sum, op::Min, op::Max), &values).unwrap();
    assert_eq!(watch.taken(), both);
    on.reduce((op::Sum, op::Min, op::Max), &values).unwrap().wait().unwrap();
    assert_eq!(watch.taken(), both);

    let mut recorder = reducer.record();
    let summed = recorder.reduce(op::Sum, &values).unwrap();
    recorder.reduce(op::SumOfSquares, &values).unwrap();
    recorder.reduce(op::Min, &values).unwrap();
    let none = recorder.reduce(op::Max, &values.slice(3..3).unwrap()).unwrap();
    recorder.reduce(op::Max, &values).unwrap();
    recorder.reduce(op::ArgMin, &values).unwrap();
    recorder.reduce(op::ArgMax, &values).unwrap();
    let mut recording = recorder.finish().unwrap();
    for _ in 0..2 {
        let results = recording.run().unwrap();
        assert_eq!(results.get(&summed), results.get(&summed));
        assert_eq!(results.get(&none), None);
        assert_eq!(watch.taken(), all);
    }

    // The host takes the results of all rows, 16 bytes each, and none that stays on the device.
    let mut recorder = reducer.record();
    let rows = values.rows(100).unwrap();
    recorder.reduce(op::ArgMin, &rows).unwrap();
    recorder.reduce_into(op::ArgMin, &rows, device.outputs(10).unwrap()).unwrap();
    recorder.reduce((op::Sum, op::Min, op::Max), &values).unwrap();
    recorder.finish().unwrap().run().unwrap();
    assert_eq!(watch.taken(), [160, sum, 2 * element]);
    assert!(!watch.misses_a_result(), "{:?}", watch.hazards.findings());
}

#[test]
fn host_reads_exactly_the_result_bytes_that_kernels_write() {
    let (device, watch) = watched();
    for_every_type!(taken((&device, &watch)));
}

/// A kernel ends without a result, while the output still has an earlier one.
#[test]
fn a_result_that_no_kernel_has_written_is_found() {
    let ways: [fn(&Reducer, &Device); 3] = [
        |reducer, device| {
            reducer.sum(&device.upload(&[1_i32; 9]).unwrap()).unwrap();
        },
        |reducer, device| {
            let stream = device.stream().unwrap();
            let pending =
                reducer.on(&stream).reduce(op::Sum, &device.upload(&[1_i32; 9]).unwrap()).unwrap();
            pending.wait().unwrap();
        },
        |reducer, device| {
            let mut recorder = reducer.record();
            let sum = recorder.reduce(op::Sum, &device.upload(&[1_i32; 9]).unwrap()).unwrap();
            recorder.finish().unwrap().run().unwrap().get(&sum);
        },
    ];
    // Writes a result only on the first launch, recorded in a slot.
    let once = ".reg .b64 %rd<3>; .reg .b32 %r<2>; .reg .pred %p; ld.param.u64 %rd0, [output];
        ld.param.u64 %rd1, [slots]; ld.global.u32 %r0, [%rd1]; st.global.u32 [%rd1], 1;
        setp.ne.u32 %p, %r0, 0; @%p ret; st.global.u64 [%rd0], 9;";
    for way in ways {
        let (device, watch) = watched();
        let none = with_sum(&device, &kernel("", "", |list| list), Tuning::generic());
        way(&none, &device);
        assert!(watch.misses_a_result(), "nothing was ever written");
    }
    for way in &ways[..2] {
        let (device, watch) = watched();
        let one = with_sum(&device, &kernel("", once, |list| list), Tuning::generic());
        way(&one, &device);
        assert!(!watch.misses_a_result(), "{:?}", watch.hazards.findings());
        way(&one, &device);
        assert!(watch.misses_a_result(), "what was there was the result of before");
    }
}
