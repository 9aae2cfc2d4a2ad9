//! NCCL as the transport: the real one on a machine with GPUs and NCCL, elsewhere a stand-in library
//! that the tests build, on simulated GPUs that the library takes for real ones.
//!
//! The tests of groups and worlds run with NCCL as with any other transport. The tests here cover what
//! may fail in NCCL itself.

use std::{
    env,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use warpfold::{Distributed, Error, Group, Located, Rendezvous, Way, World, op};

use crate::{
    common::{Sample, device, extreme, on_gpu, reducer, says, small},
    group::{cut, reducers},
    stand_in::{FAULTS, LIBRARY, libraries, ran, with_stand_in},
    world::{cut as world_cut, ended, is_rank, said, started_as, world},
};

/// Returns whether this process has NCCL. If not, runs the named tests in a process that has it, with
/// `devices` and `faults`, and checks that `count` tests pass, or more than ten without a count.
fn has(devices: &str, faults: &str, tests: &[&str], count: Option<usize>) -> bool {
    // This process has NCCL already, or it is on GPUs, whose NCCL has no faults.
    if env::var_os(LIBRARY).is_some() || on_gpu() {
        return faults == env::var(FAULTS).unwrap_or_default();
    }
    let folder = tempfile::tempdir().unwrap();
    let mut again = Command::new(env::current_exe().unwrap());
    let again = with_stand_in(&mut again, devices, faults, folder.path());
    again.env("WARPFOLD_TEST_DEVICE", "cuda");
    let output = ran(again.args(tests));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let passed = said.split(" passed").next().and_then(|said| said.rsplit(' ').next()).unwrap();
    let passed: usize = passed.parse().unwrap();
    assert!(count.map_or(passed > 10, |count| passed == count), "{said}");
    false
}

fn has_nccl(devices: &str, faults: &str, test: &str) -> bool {
    has(devices, faults, &["--exact", &format!("nccl::{test}")], Some(1))
}

fn by_nccl(count: usize) -> Result<Group, Error> {
    Group::by(Way::Nccl, &reducers()[..count])
}

/// Creates a group of one device with NCCL; returns `None` on a machine with a GPU and without NCCL.
fn nccl_of_one() -> Option<Group> {
    let made = by_nccl(1);
    if let Err(error) = &made {
        let strict = env::var_os("WARPFOLD_STRICT_TESTS").is_some_and(|value| value != "0");
        assert!(!strict, "{error}");
        println!("skipped: {error}");
    }
    made.ok()
}

/// Uses the real NCCL where there is one, even with a single GPU.
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
        let everywhere = op::Sum.reproducible();
        let expected = reducer().reduce(everywhere, &buffer).unwrap().to_bits();
        assert_eq!(group.reduce(everywhere, &sharded).unwrap().to_bits(), expected);
        if n > 0 {
            let mut outputs = group.outputs::<Located<f32>>().unwrap();
            group.reduce_into(op::ArgMin, &sharded, &mut outputs).unwrap();
            assert_eq!(Some(outputs.each()[0].read().unwrap()), extreme(&values, false));
        }
    }
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

#[test]
fn world_of_one_rank_uses_nccl_on_request() {
    if !has_nccl("1", "", "world_of_one_rank_uses_nccl_on_request") {
        return;
    }
    if nccl_of_one().is_none() {
        return;
    }
    let rendezvous = Rendezvous::new(0, 1, "").unwrap();
    let by_itself = World::join(&rendezvous, reducer()).unwrap();
    assert_eq!(by_itself.way(), Way::Copies);
    let world = World::join(&rendezvous.with_way(Way::Nccl), reducer()).unwrap();
    assert_eq!(world.way(), Way::Nccl);
    for n in [0, 1, 1000, 100_003] {
        let values = small::<f32>(n, 3);
        let buffer = device().upload(&values).unwrap();
        let distributed = world.distributed(buffer.clone()).unwrap();
        assert_eq!(world.reduce(op::Sum, &distributed).unwrap(), f32::total(&values, false));
        assert_eq!(world.reduce(op::ArgMax, &distributed).unwrap(), extreme(&values, true));
        let mut running = reducer().running(op::ArgMin).unwrap();
        running.push(&device().stream().unwrap(), &buffer).unwrap();
        assert_eq!(world.result(&running).unwrap(), extreme(&values, false));
    }
    world.barrier().unwrap();
    assert_eq!(world.gather(b"a few bytes").unwrap(), [b"a few bytes"]);
}

/// Runs the tests that cover all transports again, in processes that have NCCL.
#[test]
fn group_tests_pass_with_nccl() {
    if env::var_os(LIBRARY).is_some() || on_gpu() {
        return;
    }
    has("4", "", &["group::", "group_shapes::", "group_streamed::", "operations::", "wide::"], None);
}

/// Runs the tests of worlds with NCCL, each rank with a GPU of its own, including all failures between
/// ranks. The tests of groups already cover every operation and place, and admission does not involve
/// NCCL.
#[test]
fn world_tests_pass_with_nccl() {
    if env::var_os(LIBRARY).is_none() && !on_gpu() {
        let others = ["world::every", "world::places", "world::rank_admission"];
        let skipped = others.iter().flat_map(|test| ["--skip", test]);
        let tests: Vec<&str> = std::iter::once("world::").chain(skipped).collect();
        has("4", "", &tests, Some(13));
    }
}

/// Runs a test of this module in ranks that have a simulated GPU each, with injected faults of their
/// NCCL or driver; all must pass it.
fn in_ranks(test: &str, size: u32, with: impl Fn(u32, &mut Command)) -> bool {
    if is_rank() {
        return true;
    }
    // Real GPUs support no faults.
    if on_gpu() {
        return false;
    }
    let folder = tempfile::tempdir().unwrap();
    let ranks = started_as(&format!("nccl::{test}"), size, |rank, program| {
        with_stand_in(program, "4", "", folder.path());
        program.env("WARPFOLD_TEST_DEVICE", format!("cuda:{rank}"));
        with(rank, program);
    });
    for output in ended(ranks) {
        let said = said(&output);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
    false
}

/// Returns the world, 3000 distributed elements and their sum, which the world has computed once.
fn summed(by: Way) -> (&'static World, Distributed<i32>, i64) {
    let values = small::<i32>(3000, 3);
    let sum = i32::total(&values, false);
    let (world, values) = (world(), world_cut(&values, &[1000, 1001, 2000]));
    assert_eq!(world.way(), by, "{world:?}");
    assert_eq!(world.reduce(op::Sum, &values).unwrap(), sum);
    (world, values, sum)
}

#[test]
fn ranks_use_the_requested_transport() {
    const NAME: &str = "ranks_use_the_requested_transport";
    let joined = || World::join(&Rendezvous::from_env().unwrap(), reducer());
    match env::var("TEST_CASE").as_deref() {
        Ok("copies") => drop(summed(Way::Copies)),
        Ok("none") => drop(summed(Way::Nccl)),
        // All ranks share the first GPU.
        Ok("same") => drop(summed(Way::Copies)),
        Ok("init" | "absent") => drop(summed(Way::Copies)),
        Ok(wrong) => {
            let expected: &[&str] = match wrong {
                "unlike" => &[
                    "rank 0 requests `Way::Nccl`, but rank 1 requests `Way::Copies`",
                    "the same for all",
                ],
                "forced" => &["cannot exchange values by NCCL", "ranks 0 and 1 have the same GPU"],
                "old" => &["rank 0 has NCCL 2.28.3, rank 1 2.14.0; install one version"],
                _ => &["rank 1: no NCCL", "2.13.0, older than 2.14.0"],
            };
            says(&joined().unwrap_err(), expected);
        }
        Err(_) => {
            for case in ["copies", "none", "same", "init", "absent", "unlike", "forced", "old", "older"]
            {
                let way = match case {
                    "copies" => "copies",
                    "none" | "same" | "init" | "absent" => "",
                    _ => "nccl",
                };
                in_ranks(NAME, 2, |rank, program| {
                    program.env("TEST_CASE", case).env("WARPFOLD_WAY", way);
                    match (case, rank) {
                        ("same" | "forced", _) => program.env("WARPFOLD_TEST_DEVICE", "cuda:0"),
                        ("init", 1) => program.env(FAULTS, "init"),
                        ("absent", 0) => program.env("WARPFOLD_TIMEOUT", "4"),
                        ("absent", 1) => program.env("WARPFOLD_TIMEOUT", "4").env(FAULTS, "absent"),
                        ("unlike", 1) => program.env("WARPFOLD_WAY", "copies"),
                        ("old", 1) => program.env(FAULTS, "version=21400"),
                        ("older", 1) => program.env(FAULTS, "version=21300"),
                        _ => program,
                    };
                });
            }
        }
    }
}

/// Checks the error after another rank's NCCL has failed, which is permanent.
fn over(world: &World, error: &Error, what: &[&str]) {
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    says(error, what);
    says(&world.barrier().unwrap_err(), &["the world: ", "start all ranks again"]);
}

#[test]
fn nccl_failure_of_a_rank_ends_the_others() {
    let faults = |rank: u32, program: &mut Command| {
        // The distribution of the elements and the first sum take two exchanges each.
        program.env(FAULTS, if rank == 1 { "async=5" } else { "" });
    };
    if !in_ranks("nccl_failure_of_a_rank_ends_the_others", 3, faults) {
        return;
    }
    let start = Instant::now();
    let (world, values, _) = summed(Way::Nccl);
    let error = world.reduce(op::Sum, &values).unwrap_err();
    if world.rank() == 1 {
        assert!(matches!(error, Error::Nccl { .. }), "{error:?}");
        says(&error, &["remote process exited"]);
        over(world, &world.barrier().unwrap_err(), &[]);
    } else {
        over(world, &error, &["rank 1 cannot continue: NCCL 2.28.3", "remote process exited"]);
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn hanging_nccl_times_out() {
    let faults = |rank: u32, program: &mut Command| {
        program.env("WARPFOLD_TIMEOUT", "2").env(FAULTS, if rank == 0 { "hang=5" } else { "" });
    };
    if in_ranks("hanging_nccl_times_out", 2, faults) {
        let (world, values, sum) = summed(Way::Nccl);
        match world.reduce(op::Sum, &values) {
            // The data of rank 0 has arrived.
            Ok(passed) => assert_eq!((world.rank(), passed), (1, sum)),
            Err(error) => over(world, &error, &["nothing passed between them within 2 s"]),
        }
        if world.rank() == 1 {
            says(&world.barrier().unwrap_err(), &["rank"]);
        }
    }
}

/// A rank's driver refuses launches: before values pass, no rank has the result; after that, only this
/// rank lacks it. A lost device ends all ranks.
#[test]
fn launch_failure_of_a_rank_is_reported_to_the_others() {
    const NAME: &str = "launch_failure_of_a_rank_is_reported_to_the_others";
    let Ok(case) = env::var("TEST_CASE") else {
        for case in ["cuLaunchKernel:3:701", "cuLaunchKernel:4:701", "cuLaunchKernel:3:700:sticky"] {
            in_ranks(NAME, 3, |rank, program| {
                program
                    .env("TEST_CASE", case)
                    .env("WARPFOLD_SIM_FAIL", if rank == 1 { case } else { "" });
            });
        }
        return;
    };
    let (world, values, sum) = summed(Way::Nccl);
    let result = world.reduce(op::Sum, &values);
    match (case.contains(":3:"), case.contains("sticky"), world.rank()) {
        (_, false, 1) => says(&result.unwrap_err(), &["simulator", "OUT_OF_RESOURCES"]),
        (true, false, _) => {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::World { .. }), "{error:?}");
            says(&error, &["rank 1 failed: ", "OUT_OF_RESOURCES"]);
        }
        (false, ..) => assert_eq!(result.unwrap(), sum),
        (_, true, 1) => says(&result.unwrap_err(), &["ILLEGAL_ADDRESS"]),
        (_, true, _) => return over(world, &result.unwrap_err(), &["rank 1 ", "ILLEGAL_ADDRESS"]),
    }
    if !case.contains("sticky") {
        assert_eq!(world.reduce(op::Sum, &values).unwrap(), sum);
    }
}

#[test]
fn devices_without_peer_access_use_nccl_if_available() {
    if !has_nccl("4,apart", "", "devices_without_peer_access_use_nccl_if_available") {
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

fn on_nvlink() -> bool {
    Group::by(Way::Peers, reducers()).is_ok()
}

#[test]
fn nccl_on_simulated_devices_is_refused() {
    if on_gpu() {
        return;
    }
    let error = Group::by(Way::Nccl, &[reducer().clone()]).unwrap_err();
    assert!(matches!(error, Error::Nccl { .. }), "{error:?}");
    says(&error, &["simulator", "is not a GPU", "take another way"]);
}

/// An error if NCCL is requested; a group that may choose its transport takes another one.
#[test]
fn missing_or_old_nccl_is_named() {
    const NAME: &str = "missing_or_old_nccl_is_named";
    let expected: &[&str] = match env::var(FAULTS).as_deref() {
        Ok("version=21300") => {
            &["libnccl.so.2 is NCCL 2.13.0, older than 2.14.0", "unset WARPFOLD_LIBNCCL"]
        }
        Ok("nowhere") => &["no NCCL", "nowhere.so", "unset WARPFOLD_LIBNCCL", "2.14.0 or newer"],
        Ok("other") => &["libcuda.so is not NCCL"],
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
                again.env("WARPFOLD_TEST_DEVICE", "cuda");
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

/// Checks a transport failure, immediate or later: the call fails without a partial result, and all
/// later calls of the group say what to do.
fn check_failure(test: &str, faults: &str, says_what: &[&str]) {
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
        says(&error, &["create the group again"]);
        let error = group.reduce_into(op::Max, &sharded, &mut group.outputs().unwrap()).unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    }
    // Earlier results are kept, and the devices stay usable.
    for output in outputs.each() {
        assert_eq!(output.read().unwrap(), sum);
    }
    let others = Group::by(Way::Copies, reducers()).unwrap();
    assert_eq!(others.reduce(op::Sum, &others.upload(&values).unwrap()).unwrap(), sum);
}

#[test]
fn refused_nccl_exchange_ends_the_group() {
    let test = "refused_nccl_exchange_ends_the_group";
    check_failure(test, "begin=3", &["passing values failed with unhandled system error"]);
}

#[test]
fn asynchronous_nccl_failure_ends_the_group() {
    let test = "asynchronous_nccl_failure_ends_the_group";
    check_failure(test, "async=3", &["a communicator failed with remote process exited"]);
}

#[test]
fn nccl_group_releases_its_communicators() {
    if !has_nccl("2", "", "nccl_group_releases_its_communicators") {
        return;
    }
    for round in 0..3 {
        let Some(group) = nccl_of_one() else { return };
        let sharded = group.upload(&[round, 1, 2]).unwrap();
        assert_eq!(group.reduce(op::Sum, &sharded).unwrap(), i64::from(round) + 3);
        drop(group);
        assert_eq!(sharded.group().reduce(op::Max, &sharded).unwrap(), Some(round.max(2)));
    }
}
