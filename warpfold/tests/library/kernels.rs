//! User-supplied kernels: their faults are reported before or after a launch and never crash, and other
//! kernels stay usable.

use std::{env, process::Command, sync::Arc};

use warpfold::{
    Device, Error, Reducer,
    internal::{
        Arch, Blocks, Choice, Dtype, Job, KernelKind, OpKind, Ptx, PtxSource, Tuning, plan, prepare,
        ptx, reducer, tuning,
    },
    op,
};
use warpfold_abi::{Arguments, Parameter, arguments::ReduceCut};

use crate::{
    common::{Sample, device, on_gpu, reducer_of, says, small},
    devices::{in_own_context, own_context},
};

/// Returns a kernel with the reducer's parameters after a change of their list.
pub(crate) fn kernel(
    attributes: &str,
    body: &str,
    change: impl Fn(Vec<String>) -> Vec<String>,
) -> String {
    let declared = |parameter: &Parameter| format!(".param .b{} {}", 8 * parameter.size, parameter.name);
    let parameters = ReduceCut::<i32>::PARAMETERS.iter().map(declared).collect();
    format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n\
         .visible .entry reducer_sum_i32_grid({})\n{attributes}\n{{\n{body}\nret;\n}}\n",
        change(parameters).join(", ")
    )
}

pub(crate) fn with_sum(device: &Device, text: &str, tuning: Tuning) -> Reducer {
    let text = text.to_owned();
    let find = move |name: &str, arch: Arch| {
        if name == "reducer_sum_i32" {
            let (origin, text) = ("mine.ptx".to_owned(), text.clone().into());
            return Ok(Ptx { origin, text, arch: Arch::OLDEST });
        }
        Err(format!("{name} for {arch} is not here").into())
    };
    reducer(device, PtxSource::Given(Arc::new(find)), tuning, 2)
}

fn refused(text: &str) -> Error {
    let reducer = with_sum(device(), text, Tuning::generic());
    let buffer = device().upload(&[1_i32, 2]).unwrap();
    let error = reducer.sum(&buffer).unwrap_err();
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
    says(&error, &["mine.ptx"]);
    error
}

#[test]
fn other_parameters_are_refused_before_any_launch() {
    let unchanged = |list| list;
    let error = refused(&kernel("", "", |list| list[1..].to_vec()));
    assert!(matches!(error, Error::WrongParameters { .. }), "{error:?}");
    says(&error, &["reducer_sum_i32_grid", "input: 8-byte address", "another version"]);
    refused(&kernel("", "", |list| list.iter().map(|one| one.replace("b64", "b32")).collect()));
    // The driver would read past the end of the arguments.
    let error = refused(&kernel("", "", |list| [&list[..], &[".param .b64 more".to_owned()]].concat()));
    assert!(matches!(error, Error::WrongParameters { .. }), "{error:?}");
    let error = refused(&kernel("", "", unchanged).replace("_i32_grid", "_u8_grid"));
    says(&error, &["no entry `reducer_sum_i32_grid`"]);
    // A GPU's driver loads or refuses the whole text, the simulator the requested entry.
    let whole = "cuModuleLoadDataEx";
    let broken = if on_gpu() { whole } else { "cuModuleGetFunction" };
    let right = kernel("", "", unchanged);
    for (text, call) in
        [(kernel("", "no instruction;", unchanged), broken), (right.replace(".target", ".mark"), whole)]
    {
        let error = refused(&text);
        assert!(matches!(error, Error::PtxRejected { source: Some(_), .. }), "{error:?}");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains(call), "{source}");
    }
}

#[test]
fn missing_kernel_is_named_with_the_reason() {
    let reducer = with_sum(device(), "", Tuning::generic());
    for error in [
        prepare(&reducer, OpKind::Max.plain(), Dtype::U8).unwrap_err(),
        reducer.prepare(op::Product, &device().upload(&[1_u8]).unwrap()).unwrap_err(),
        reducer.max(&device().upload(&[1_u8]).unwrap()).unwrap_err(),
        // Refused before recording starts, because a recording thread must not load kernels.
        reducer.record().reduce(op::Max, &device().upload(&[1_u8]).unwrap()).map(drop).unwrap_err(),
    ] {
        says(&error, &["no PTX of reducer_", "_u8 for sm_"]);
        says(&std::error::Error::source(&error).unwrap().to_string(), &["is not here"]);
    }
}

/// Kernels are loaded before a workspace is leased, since a failed launch would make the workspace
/// dirty.
#[test]
fn missing_kernel_does_not_dirty_a_workspace() {
    let device = in_own_context(warpfold_sim_driver::driver());
    let reducer = with_sum(&device, &embedded("reducer_sum_i32"), Tuning::generic());
    let (stream, buffer) = (device.stream().unwrap(), device.upload(&[1_i32, 2, 3, 4]).unwrap());
    let (rows, number) = (buffer.rows(2).unwrap(), device.output::<u64>().unwrap());
    let (on, count) = (reducer.on(&stream), number.as_count());
    let mut sums = device.outputs(2).unwrap();
    let clears = || {
        let log = warpfold_sim_driver::record_calls();
        assert_eq!(reducer.sum(&buffer).unwrap(), 10);
        log.count("cuMemsetD8Async")
    };
    clears();
    let check = |what: &str, asked: Result<(), Error>| {
        assert!(matches!(asked, Err(Error::PtxMissing { .. })), "{what}");
        assert_eq!(clears(), 0, "after {what}");
    };
    check("max", reducer.max(&buffer).map(drop));
    check("sum_rows", reducer.reduce(op::Sum, &rows).map(drop));
    check("max on a stream", on.reduce(op::Max, &buffer).map(drop));
    check("counted", on.reduce(op::Sum, buffer.counted(&count)).map(drop));
    check("sum_rows_into", on.reduce_into(op::Sum, &rows, &mut sums));
}

/// The driver refuses the launch, because the kernel allows no block of 512 threads.
#[test]
fn refused_launch_leaves_the_reducer_usable() {
    let text = kernel(".maxntid 32, 1, 1", "", |list| list);
    let choice = Choice { kernel: KernelKind::Grid, block: 512, blocks: Blocks::Total(3) };
    let reducer = with_sum(device(), &text, Tuning::fixed(choice).unwrap());
    let buffer = device().upload(&small::<i32>(50_000, 3)).unwrap();
    let stream = device().stream().unwrap();
    for _ in 0..2 {
        for error in [
            reducer.sum(&buffer).unwrap_err(),
            reducer.on(&stream).reduce(op::Sum, &buffer).map(drop).unwrap_err(),
        ] {
            assert!(matches!(error, Error::Driver { .. }), "{error:?}");
        }
    }
    let total = i32::total(&small::<i32>(50_000, 3), false);
    assert_eq!(crate::common::reducer().sum(&buffer).unwrap(), total);
}

/// Launches a kernel that traps. The test is skipped on a GPU, where the process would lose the context,
/// and all other tests with it.
#[test]
fn trap_is_reported_with_its_ptx_line() {
    if on_gpu() {
        return;
    }
    let device = own_context();
    let reducer = with_sum(&device, &kernel("", "trap;", |list| list), Tuning::generic());
    let buffer = device.upload(&small::<i32>(50_000, 3)).unwrap();
    let stream = device.stream().unwrap();
    let pending = reducer.on(&stream).reduce(op::Sum, &buffer).unwrap();
    for error in [pending.wait().unwrap_err(), reducer.sum(&buffer).unwrap_err()] {
        let Error::Driver { source, .. } = &error else { panic!("{error:?}") };
        assert!(source.is_sticky(), "{error:?}");
        says(source, &["ptx line 7", "trap executed"]);
    }
    assert!(device.upload(&[1]).is_err());
}

#[test]
fn missing_bulk_kernel_falls_back_to_grid_kernel() {
    let device = own_context();
    let text = embedded("reducer_sum_i32");
    let choice = Choice { kernel: KernelKind::Bulk, block: 256, blocks: Blocks::Total(7) };
    // PTX for sm_80 has no bulk kernel, and runs on all later GPUs.
    let reducer = with_sum(&device, &text, Tuning::fixed(choice).unwrap());
    let values = small::<i32>(50_000, 3);
    let buffer = device.upload(&values).unwrap();
    assert_eq!(reducer.sum(&buffer).unwrap(), i32::total(&values, false));
    let job = warpfold::internal::Job {
        op: OpKind::Sum.plain(),
        dtype: Dtype::I32,
        n: 50_000,
        address: buffer.as_device_ptr(),
    };
    let launch = |choice| warpfold::internal::plan(&reducer, &job, choice);
    assert_eq!(launch(None).unwrap().kernel, KernelKind::Grid);
    says(&launch(Some(choice)).unwrap_err(), &["no bulk kernel"]);
}

/// The simulator's 8 multiprocessors hold 2 048 threads each.
#[test]
fn a_grid_has_no_more_blocks_than_are_resident() {
    let device = in_own_context(warpfold_sim_driver::driver());
    let reducer = Reducer::new(&device).unwrap();
    let job = Job { op: OpKind::Max.plain(), dtype: Dtype::F64, n: 1 << 30, address: 0 };
    let blocks = |block| {
        let choice = Choice { kernel: KernelKind::Grid, block, blocks: Blocks::Total(1 << 16) };
        plan(&reducer, &job, Some(choice)).unwrap().blocks
    };
    assert_eq!([128, 256, 512, 1024].map(blocks), [8 * 16, 8 * 8, 8 * 4, 8 * 2]);
}

/// Kernels for sm_90 wait for the preceding launch themselves, so launches in a recording may overlap.
/// The overlap needs a launch attribute, which only one driver function accepts.
#[test]
fn recorded_launches_overlap_if_kernels_wait_themselves() {
    let device = in_own_context(warpfold_sim_driver::driver());
    let buffer = device.upload(&[1_i32, 2, 3]).unwrap();
    let launched = |run: &dyn Fn()| {
        let log = warpfold_sim_driver::record_calls();
        run();
        ["cuLaunchKernelEx", "cuLaunchKernel"].map(|function| log.count(function))
    };
    let recorded = |reducer: &Reducer| {
        let mut recorder = reducer.record();
        let sum = recorder.reduce(op::Sum, &buffer).unwrap();
        assert_eq!(recorder.finish().unwrap().run().unwrap().get(&sum), 6);
    };
    let new = Reducer::new(&device).unwrap();
    let old = with_sum(&device, &embedded("reducer_sum_i32"), Tuning::generic());
    assert_eq!(launched(&|| recorded(&new)), [1, 0]);
    assert_eq!(launched(&|| recorded(&old)), [0, 1]);
    assert_eq!(launched(&|| assert_eq!(new.sum(&buffer).unwrap(), 6)), [0, 1]);
}

/// Each kernel is loaded and queried once, in a module of its own. A function attribute is set only for
/// the bulk kernel's shared memory.
#[test]
fn prepare_loads_each_kernel_once() {
    let device = in_own_context(warpfold_sim_driver::driver());
    let reducer = Reducer::new(&device).unwrap();
    let loads = || {
        let log = warpfold_sim_driver::record_calls();
        prepare(&reducer, OpKind::Sum.plain(), Dtype::I32).unwrap();
        ["cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncSetAttribute"].map(|name| log.count(name))
    };
    assert_eq!([loads(), loads()], [[2, 2, 1], [0; 3]]);
    // A call loads the kernel that it launches, and no other one.
    let values = device.upload(&[1_i32, 2, 3]).unwrap();
    let log = warpfold_sim_driver::record_calls();
    assert_eq!(reducer.reduce(op::Max, &values.rows(3).unwrap()).unwrap(), [3]);
    assert_eq!(reducer.reduce(op::Max, &values).unwrap(), Some(3));
    assert_eq!(log.count("cuModuleLoadDataEx"), 1);
}

#[test]
fn reducer_reports_its_tuning_choice() {
    let choice = Choice { kernel: KernelKind::Grid, block: 128, blocks: Blocks::Total(3) };
    let (reducer, other) = (reducer_of(choice), Choice { blocks: Blocks::Total(4), ..choice });
    let chosen = |reducer| tuning(reducer).choice(OpKind::Min.plain(), Dtype::U8, 1, Arch::HOPPER);
    assert_eq!((chosen(&reducer), chosen(&reducer_of(other))), (choice, other));
}

fn embedded(name: &str) -> String {
    ptx(&PtxSource::Embedded, name, Arch::OLDEST).unwrap().text.into_owned()
}

const CHILD: &str = "kernels::in_another_process_the_environment_names_the_kernels";

#[test]
#[ignore = "the test below calls it in a process of its own"]
fn in_another_process_the_environment_names_the_kernels() {
    let error = Reducer::new(device()).unwrap().sum(&device().upload(&[1_i8]).unwrap()).unwrap_err();
    println!("{error}: {}", std::error::Error::source(&error).unwrap());
}

#[test]
fn only_the_environments_ptx_folder_is_used() {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", CHILD, "--ignored", "--nocapture"])
        .env("WARPFOLD_PTX_DIR", "/nowhere/at/all")
        .env_remove("WARPFOLD_CODEGEN")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    says(&said, &["no PTX of reducer_sum_i8", "/nowhere/at/all/llvm"]);
}
