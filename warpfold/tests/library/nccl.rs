//! NCCL as what passes values: on a machine with GPUs and NCCL the real one, elsewhere a stand-in for it, a
//! library that the tests build, on simulated GPUs that the library takes for real ones.
//!
//! What groups and worlds do by NCCL is what they do by any other way, and tested with those; here is what
//! NCCL itself may do wrong.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

use warpfold::{Error, Group, Located, Way, op};

use crate::{
    common::{Sample, device, extreme, on_gpu, reducer, says, small},
    group::{cut, reducers},
};

/// Where the stand-in is, for those whose tests need it.
const LIBRARY: &str = "WARPFOLD_LIBNCCL";
/// What has it fail.
const FAULTS: &str = "STAND_IN_NCCL";

/// The simulator's driver and the stand-in as libraries, built once.
fn libraries() -> &'static [PathBuf; 2] {
    static BUILT: OnceLock<[PathBuf; 2]> = OnceLock::new();
    BUILT.get_or_init(|| [driver(), stand_in()])
}

/// The simulator as `libcuda.so.1`, where `cargo xtask build-sim` builds it, too.
fn driver() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libcuda");
    ran(Command::new(env!("CARGO"))
        .args(["build", "--locked", "--manifest-path"])
        .arg(root.join("sim/libcuda/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target));
    target.join("debug/libcuda.so")
}

fn stand_in() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nccl");
    std::fs::create_dir_all(&folder).unwrap();
    // Another process may use the one that is there.
    let (new, library) =
        (folder.join(format!("{}.so", std::process::id())), folder.join("libnccl.so.2"));
    ran(Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args([
            "--edition=2024",
            "--crate-type=cdylib",
            "--crate-name=nccl",
            "-Cpanic=abort",
            "-Copt-level=1",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nccl/libnccl.rs"))
        .arg("-o")
        .arg(&new));
    std::fs::rename(new, &library).unwrap();
    library
}

fn ran(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said)).concat();
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

/// Has a process find simulated GPUs, so many, and the stand-in, which does what is asked.
pub(crate) fn with_stand_in<'c>(
    command: &'c mut Command,
    devices: &str,
    faults: &str,
    folder: &Path,
) -> &'c mut Command {
    let [driver, library] = libraries();
    command
        .env("WARPFOLD_TEST_DEVICE", "cuda")
        .env("WARPFOLD_LIBCUDA", driver)
        .env(LIBRARY, library)
        .env("WARPFOLD_SIM_DEVICES", devices)
        .env(FAULTS, faults)
        .env("TMPDIR", folder)
}

/// Whether this process has NCCL; if not, runs tests of such names in one that has, with so many devices and
/// with faults, and checks that so many pass.
fn has(devices: &str, faults: &str, tests: &[&str], count: Option<usize>) -> bool {
    // In one of those, or on GPUs, of which nobody asks for faults.
    if env::var_os(LIBRARY).is_some() || on_gpu() {
        return faults == env::var(FAULTS).unwrap_or_default();
    }
    let folder = tempfile::tempdir().unwrap();
    let mut again = Command::new(env::current_exe().unwrap());
    let again = with_stand_in(&mut again, devices, faults, folder.path());
    let output = ran(again.args(tests));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let passed = said.split(" passed").next().and_then(|said| said.rsplit(' ').next()).unwrap();
    let passed: usize = passed.parse().unwrap();
    assert!(count.map_or(passed > 10, |count| passed == count), "{said}");
    false
}

/// As [`has`], of one test of this module.
fn has_nccl(devices: &str, faults: &str, test: &str) -> bool {
    has(devices, faults, &["--exact", &format!("nccl::{test}")], Some(1))
}

/// A group of the first devices by NCCL.
fn by_nccl(count: usize) -> Result<Group, Error> {
    Group::by(Way::Nccl, &reducers()[..count])
}

/// A group of one device by NCCL; none on a machine with a GPU and no NCCL.
fn nccl_of_one() -> Option<Group> {
    let made = by_nccl(1);
    if let Err(error) = &made {
        let strict = env::var_os("WARPFOLD_STRICT_TESTS").is_some_and(|value| value != "0");
        assert!(!strict, "{error}");
        println!("skipped: {error}");
    }
    made.ok()
}

/// On a machine with NCCL this is of the real one, also with a single GPU.
#[test]
fn one_rank_has_the_results_of_its_device() {
    if !has_nccl("1", "", "one_rank_has_the_results_of_its_device") {
        return;
    }
    let Some(group) = nccl_of_one() else { return };
    assert_eq!(group.way(), Way::Nccl);
    for n in [0, 1, 1000, 100_003] {
        let values = small::<f32>(n, 3);
        let (sharded, buffer) = (group.upload(&values).unwrap(), device().upload(&values).unwrap());
        assert_eq!(group.reduce(op::Sum, &sharded).unwrap(), f32::total(&values, false));
        assert_eq!(group.reduce(op::ArgMax, &sharded).unwrap(), extreme(&values, true));
        let everywhere = op::Everywhere(op::Sum);
        let expected = reducer().reduce(everywhere, &buffer).unwrap().to_bits();
        assert_eq!(group.reduce(everywhere, &sharded).unwrap().to_bits(), expected);
        if n > 0 {
            let mut outputs = group.outputs::<Located<f32>>().unwrap();
            group.reduce_into(op::ArgMin, &sharded, &mut outputs).unwrap();
            assert_eq!(Some(outputs.each()[0].read().unwrap()), extreme(&values, false));
        }
    }
    // Several threads at once.
    let values = small::<i32>(50_000, 3);
    let (sharded, sum) = (group.upload(&values).unwrap(), i32::total(&values, false));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(group.reduce(op::Sum, &sharded).unwrap(), sum);
                }
            });
        }
    });
}

/// Those of every way: by NCCL as well.
#[test]
fn groups_of_four_devices_go_by_nccl_as_by_any_way() {
    if env::var_os(LIBRARY).is_some() || on_gpu() {
        return;
    }
    has("4", "", &["group::", "group_shapes::", "group_streamed::", "operations::", "wide::"], None);
}

#[test]
fn devices_that_do_not_reach_each_other_take_nccl_where_it_is() {
    if !has_nccl("4,apart", "", "devices_that_do_not_reach_each_other_take_nccl_where_it_is") {
        return;
    }
    let group = Group::new(reducers()).unwrap();
    if reducers().len() > 1 && !on_nvlink() {
        assert_eq!(group.way(), Way::Nccl);
    }
    let values = small::<i32>(5000, 3);
    let sharded = cut(&group, &values, &[1000, 1000, 3000]);
    assert_eq!(group.reduce(op::Sum, &sharded).unwrap(), i32::total(&values, false));
}

/// Whether all reach each other, as they do on a machine with NVLink.
fn on_nvlink() -> bool {
    Group::by(Way::Peers, reducers()).is_ok()
}

#[test]
fn what_nccl_cannot_work_on_is_refused() {
    if on_gpu() {
        return;
    }
    // No library is looked for.
    let error = Group::by(Way::Nccl, &[reducer().clone()]).unwrap_err();
    assert!(matches!(error, Error::Nccl { .. }), "{error:?}");
    says(&error, &["simulator", "is no GPU", "take another way"]);
}

/// Each where NCCL is wanted; a group that may choose takes another way.
#[test]
fn an_nccl_that_is_not_there_or_too_old_is_named() {
    const NAME: &str = "an_nccl_that_is_not_there_or_too_old_is_named";
    let expected: &[&str] = match env::var(FAULTS).as_deref() {
        Ok("version=21300") => {
            &["libnccl.so.2 is NCCL 2.13.0, older than 2.14.0", "unset WARPFOLD_LIBNCCL"]
        }
        Ok("nowhere") => &["no NCCL", "nowhere.so", "unset WARPFOLD_LIBNCCL", "2.14.0 or newer"],
        Ok("other") => &["libcuda.so is no NCCL"],
        Ok("init") => {
            &["NCCL 2.28.3: a communicator failed with unhandled system error", "told to fail"]
        }
        _ if on_gpu() => return,
        _ => {
            let folder = tempfile::tempdir().unwrap();
            let [driver, _] = libraries();
            for (faults, library) in [
                ("version=21300", None),
                ("nowhere", Some(Path::new("/nowhere/nowhere.so"))),
                ("other", Some(&**driver)),
                ("init", None),
            ] {
                let mut again = Command::new(env::current_exe().unwrap());
                let again = with_stand_in(&mut again, "2,apart", faults, folder.path());
                if let Some(library) = library {
                    again.env(LIBRARY, library);
                }
                let output = ran(again.args(["--exact", &format!("nccl::{NAME}")]));
                assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
            }
            return;
        }
    };
    let error = by_nccl(2).unwrap_err();
    assert!(matches!(error, Error::Nccl { .. }), "{error:?}");
    says(&error, expected);
    let group = Group::new(reducers()).unwrap();
    assert_eq!(group.way(), Way::Copies);
    let values = small::<i32>(500, 3);
    assert_eq!(
        group.reduce(op::Sum, &group.upload(&values).unwrap()).unwrap(),
        i32::total(&values, false)
    );
}

/// What passes values fails, at once or behind that: the call says so, and nothing of the result is there;
/// from then on the group says what to do.
fn it_fails(test: &str, faults: &str, says_what: &[&str]) {
    if !has_nccl("4", faults, test) {
        return;
    }
    let group = by_nccl(4).unwrap();
    let values = small::<i32>(5000, 3);
    let (sharded, sum) = (group.upload(&values).unwrap(), i32::total(&values, false));
    let mut outputs = group.outputs::<i64>().unwrap();
    group.reduce_into(op::Sum, &sharded, &mut outputs).unwrap();
    assert_eq!(group.reduce(op::Sum, &sharded).unwrap(), sum);
    let error = group.reduce(op::Sum, &sharded).unwrap_err();
    assert!(matches!(error, Error::Nccl { .. }), "{error:?}");
    says(&error, says_what);
    for _ in 0..2 {
        let error = group.reduce(op::Sum, &sharded).unwrap_err();
        assert!(matches!(error, Error::Lost { what: "the group", .. }), "{error:?}");
        says(&error, &["make the group anew"]);
        let error = group.reduce_into(op::Max, &sharded, &mut group.outputs().unwrap()).unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    }
    // What was there before still is, and the devices go on.
    for output in outputs.each() {
        assert_eq!(output.read().unwrap(), sum);
    }
    let others = Group::by(Way::Copies, reducers()).unwrap();
    assert_eq!(others.reduce(op::Sum, &others.upload(&values).unwrap()).unwrap(), sum);
}

#[test]
fn an_nccl_that_refuses_to_pass_values_ends_the_group() {
    let test = "an_nccl_that_refuses_to_pass_values_ends_the_group";
    it_fails(test, "begin=3", &["passing values failed with unhandled system error"]);
}

#[test]
fn an_nccl_that_fails_while_it_passes_values_ends_the_group() {
    let test = "an_nccl_that_fails_while_it_passes_values_ends_the_group";
    it_fails(test, "async=3", &["a communicator failed with remote process exited"]);
}

/// A group that is dropped and made again, as often as one wants.
#[test]
fn a_group_by_nccl_leaves_nothing() {
    if !has_nccl("2", "", "a_group_by_nccl_leaves_nothing") {
        return;
    }
    for round in 0..3 {
        let Some(group) = nccl_of_one() else { return };
        let sharded = group.upload(&[round, 1, 2]).unwrap();
        assert_eq!(group.reduce(op::Sum, &sharded).unwrap(), i64::from(round) + 3);
        // Elements keep the group.
        drop(group);
        assert_eq!(sharded.group().reduce(op::Max, &sharded).unwrap(), Some(round.max(2)));
    }
}
