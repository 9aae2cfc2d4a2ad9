//! Opening devices, their information, and the refusal of other devices' objects.

use std::sync::Mutex;

use warpfold::{Buffer, Device, Error, Reducer, Result, Selection, Stream, op};
use warpfold_driver::Driver;

use crate::common::{device, driver, on_gpu, reducer, says};

pub(crate) fn own_context() -> Device {
    in_own_context(driver())
}

pub(crate) fn in_own_context(driver: &'static warpfold_driver::Driver) -> Device {
    driver.init().unwrap();
    let context = driver.ctx_create(driver.device_get(0).unwrap(), 0).unwrap();
    driver.ctx_pop_current().unwrap();
    // SAFETY: the context is never destroyed.
    unsafe { warpfold::internal::device(driver, context.raw().cast()) }.unwrap()
}

struct Log(Mutex<Vec<String>>);

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target().starts_with("warpfold")
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("{}: {}", record.level(), record.args());
            self.0.lock().unwrap().push(line);
        }
    }

    fn flush(&self) {}
}

static LOG: Log = Log(Mutex::new(Vec::new()));

#[test]
fn auto_logs_its_choice_and_explicit_selection_has_no_fallback() {
    log::set_logger(&LOG).unwrap();
    log::set_max_level(log::LevelFilter::Info);
    let (auto, gpu) = (Device::open(Selection::Auto), Device::open(Selection::Cuda));
    log::set_max_level(log::LevelFilter::Off);
    let lines = LOG.0.lock().unwrap().join("\n");
    let auto = auto.unwrap();
    match gpu {
        Ok(gpu) => {
            assert_eq!(auto, gpu);
            assert!(!gpu.info().simulated);
            says(&lines, &[&format!("INFO: warpfold uses {}", gpu.info().name)]);
        }
        Err(error @ (Error::NoDriver { .. } | Error::NoDevice { .. })) => {
            assert!(auto.info().simulated);
            says(&lines, &["WARN: warpfold uses PTX simulator", "no CUDA driver"]);
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
            assert!(std::error::Error::source(&error).is_some() == Driver::load().is_err());
        }
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn reopening_returns_the_same_device() {
    let selection = if on_gpu() { Selection::Cuda } else { Selection::Sim };
    let (one, other) = (Device::open(selection).unwrap(), Device::open(selection).unwrap());
    assert_eq!((&one, one.info()), (&other, other.info()));
    assert_ne!(one, own_context());
    let buffer = other.upload(&[1_i32, 2, 3]).unwrap();
    drop(other);
    assert_eq!(Reducer::new(&one).unwrap().sum(&buffer).unwrap(), 6);
}

#[test]
fn simulator_reports_its_properties() {
    let device = Device::open(Selection::Sim).unwrap();
    let info = device.info();
    assert!(info.simulated && info.capability >= (9, 0) && info.multiprocessors > 0);
    assert_eq!((info.name.as_str(), info.ordinal), ("PTX simulator", 0));
}

#[test]
fn first_program_prints_the_output_in_the_readme() {
    let values: Vec<f32> = (0..1_000_000).map(|i| i as f32 / 1e6).collect();
    let buffer = device().upload(&values).unwrap();
    assert_eq!(reducer().sum(&buffer).unwrap().to_string(), "499999.5");
    assert!(include_str!("../../README.md").contains("499999.5 on PTX simulator"));
}

#[test]
fn arguments_of_another_device_are_refused() {
    let elsewhere = own_context();
    let refused = |what: &str, outcome: Result<()>| {
        let error = outcome.expect_err(what);
        assert!(matches!(error, Error::OtherDevice { .. }), "{error:?}");
        says(&error, &[&format!("expected the {what} on "), "use one device"]);
    };
    let (there, here): (Buffer<f32>, Buffer<f32>) =
        (elsewhere.upload(&[1.0]).unwrap(), device().upload(&[1.0]).unwrap());
    let (away, home): (Stream, Stream) = (elsewhere.stream().unwrap(), device().stream().unwrap());
    refused("buffer", reducer().sum(&there).map(drop));
    refused("buffer", reducer().on(&home).reduce(op::Sum, &there).map(drop));
    refused("buffer", reducer().record().reduce(op::Sum, &there).map(drop));
    refused("stream", reducer().on(&away).reduce(op::Sum, &here).map(drop));
    refused("stream", home.wait_for(&away));
    let mut output = elsewhere.output().unwrap();
    refused("output", reducer().on(&home).reduce_into(op::Sum, &here, &mut output));
    let mut recorder = reducer().record();
    let sum = recorder.reduce(op::Sum, &here).unwrap();
    let mut recording = recorder.finish().unwrap();
    refused("stream", recording.launch(&away).map(drop));
    assert_eq!(recording.run().unwrap().get(&sum), 1.0);
    assert_eq!(Reducer::new(&elsewhere).unwrap().sum(&there).unwrap(), 1.0);
}

#[test]
fn null_and_misaligned_addresses_are_rejected() {
    let refused = |address, len, words: &[&str]| {
        // SAFETY: the call fails, so no buffer is created.
        let error = unsafe { Buffer::<u32>::from_raw_parts(device(), address, len, ()) }.unwrap_err();
        assert!(matches!(error, Error::Foreign { .. }), "{error:?}");
        says(&error, words);
    };
    refused(0, 1, &["address is 0"]);
    refused(0x1002, 1, &["0x1002", "multiples of 4"]);
    // SAFETY: the buffer has no elements.
    let nothing = unsafe { Buffer::<u32>::from_raw_parts(device(), 0, 0, ()) }.unwrap();
    assert_eq!(reducer().min(&nothing).unwrap(), None);
}
