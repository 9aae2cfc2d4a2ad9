//! `Debug` output of the library's types: one line with the type and the device, and no addresses except
//! those of elements.

use std::fmt::Debug;

use warpfold::{
    Count, Device, Reducer, Selection,
    internal::{BadArch, PtxSource},
    op,
};

const DEVICE: &str = "Device(\"PTX simulator\")";

#[track_caller]
fn shown(value: impl Debug, expected: &str) {
    assert_eq!(format!("{value:?}"), expected.replace("DEVICE", DEVICE));
}

#[test]
fn debug_output_names_the_device() {
    let device = Device::open(Selection::Sim).unwrap();
    let (reducer, stream) = (Reducer::new(&device).unwrap(), device.stream().unwrap());
    let (buffer, output) = (device.upload(&[0.5_f32; 3]).unwrap(), device.output::<u64>().unwrap());
    shown(&device, "DEVICE");
    shown(&buffer, "Buffer { type: f32, len: 3, device: DEVICE }");
    shown(&stream, "Stream { device: DEVICE, .. }");
    shown(&output, "Output { device: DEVICE, .. }");
    shown(&reducer, "Reducer { device: DEVICE, .. }");
    let count: Count<'_> = output.as_count();
    shown(&count, "Count { device: DEVICE, .. }");
    let on = reducer.on(&stream);
    shown(
        on,
        "OnStream { reducer: Reducer { device: DEVICE, .. }, stream: Stream { device: DEVICE, .. } }",
    );
    shown(on.reduce(op::Sum, &buffer).unwrap(), "Pending(running)");
    shown(on.reduce(op::Sum, &buffer.slice(..0).unwrap()).unwrap(), "Pending(ready)");
}

#[test]
fn debug_output_of_recordings_lists_the_reductions() {
    let device = Device::open(Selection::Sim).unwrap();
    let reducer = Reducer::new(&device).unwrap();
    let buffer = device.upload(&[7_u8; 3]).unwrap();
    let mut recorder = reducer.record();
    shown(recorder.reduce(op::Sum, &buffer).unwrap(), "Recorded { index: 0, .. }");
    shown(recorder.reduce(op::ArgMax, &buffer).unwrap(), "Recorded { index: 1, .. }");
    let job =
        |op| format!("ElementRange {{ code: {op}_u8, n: 3, address: {} }}", buffer.as_device_ptr());
    let jobs = format!("jobs: [{}, {}], ..", job("sum"), job("argmax"));
    shown(&recorder, &format!("Recorder {{ {jobs} }}"));
    let mut recording = recorder.finish().unwrap();
    shown(&recording, &format!("Recording {{ {jobs} }}"));
    shown(recording.launch(&device.stream().unwrap()).unwrap(), "PendingRecording { .. }");
    shown(recording.run().unwrap(), "Results { len: 2 }");
}

#[test]
fn debug_output_of_recordings_lists_the_launches() {
    let device = Device::open(Selection::Sim).unwrap();
    let reducer = Reducer::new(&device).unwrap();
    let buffer = device.upload(&[7_u8; 3]).unwrap();
    let mut recorder = reducer.record();
    shown(recorder.reduce((op::Max, op::Sum, op::Min), &buffer).unwrap(), "Recorded { index: 0, .. }");
    let outputs = device.outputs(1).unwrap();
    let rows = buffer.rows(3).unwrap();
    shown(recorder.reduce_into(op::Sum, &rows, outputs).unwrap(), "RecordedOutputs { index: 1, .. }");
    let address = buffer.as_device_ptr();
    let of = format!("elements: Buffer {{ n: 3, count: None }}, address: {address}");
    let many = format!("Together {{ fused: [sum_u8, minmax_u8], codes: [], {of} }}");
    let row = format!("ElementRange {{ code: sum_u8, n: 3, address: {address} }}");
    shown(&recorder, &format!("Recorder {{ jobs: [{many}, {row}], .. }}"));
}

#[test]
fn ptx_sources_and_bad_architectures_are_formatted() {
    shown(PtxSource::Embedded, "Embedded");
    shown(PtxSource::Folder("some/where".into()), "Folder(\"some/where\")");
    shown(PtxSource::Given(std::sync::Arc::new(|_, _| Err("none".into()))), "Given");
    let wrong = BadArch { given: "sm_x".to_owned() };
    let said = "arch `sm_x` is not of the form sm_NN, sm_NNa or sm_NNf, for example sm_80 or sm_90a";
    assert_eq!(wrong.to_string(), said);
}
