//! NCCL as what passes values: on a machine with GPUs and NCCL the real one, elsewhere a stand-in for
//! it, a library that the tests build, on simulated GPUs that the library takes for real ones.
//!
//! What groups and worlds do by NCCL is what they do by any other way, and tested with those; here is
//! what NCCL itself may do wrong.

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

/// Whether this process has NCCL; if not, runs tests of such names in one that has, with `devices` and
/// with `faults`, and checks that `count` tests pass, or more than ten where no count is given.
fn has(devices: &str, faults: &str, tests: &[&str], count: Option<usize>) -> bool {
    // In one of those, or on GPUs, of which nobody asks for faults.
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
        let everywhere = op::Sum.reproducible();
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

/// As above, of a world.
#[test]
fn a_world_of_one_rank_goes_by_nccl_where_it_is_asked_for() {
    if !has_nccl("1", "", "a_world_of_one_rank_goes_by_nccl_where_it_is_asked_for") {
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

/// Those of every way: by NCCL as well.
#[test]
fn groups_of_four_devices_go_by_nccl_as_by_any_way() {
    if env::var_os(LIBRARY).is_some() || on_gpu() {
        return;
    }
    has("4", "", &["group::", "group_shapes::", "group_streamed::", "operations::", "wide::"], None);
}

/// As groups: each rank with a GPU of its own, and all of what may go wrong between ranks. Every
/// operation and place goes by groups already, and who is let in is no matter of NCCL's.
#[test]
fn worlds_of_four_ranks_go_by_nccl_as_by_any_way() {
    if env::var_os(LIBRARY).is_none() && !on_gpu() {
        let others = ["world::every", "world::places", "world::who"];
        let skipped = others.iter().flat_map(|test| ["--skip", test]);
        let tests: Vec<&str> = std::iter::once("world::").chain(skipped).collect();
        has("4", "", &tests, Some(13));
    }
}

/// Ranks that each run a test of this module on a simulated GPU of their own, with what has their NCCL
/// or driver fail; all must pass it.
fn in_ranks(test: &str, size: u32, with: impl Fn(u32, &mut Command)) -> bool {
    if is_rank() {
        return true;
    }
    // Of real ones nobody asks for faults.
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

/// The world, and 3000 elements of it with their sum, which was formed once.
fn summed(by: Way) -> (&'static World, Distributed<i32>, i64) {
    let values = small::<i32>(3000, 3);
    let sum = i32::total(&values, false);
    let (world, values) = (world(), world_cut(&values, &[1000, 1001, 2000]));
    assert_eq!(world.way(), by, "{world:?}");
    assert_eq!(world.reduce(op::Sum, &values).unwrap(), sum);
    (world, values, sum)
}

/// The ways that are asked for, and what is said where they are not to be had.
#[test]
fn ranks_take_the_way_that_is_asked_for() {
    const NAME: &str = "ranks_take_the_way_that_is_asked_for";
    let joined = || World::join(&Rendezvous::from_env().unwrap(), reducer());
    match env::var("TEST_CASE").as_deref() {
        Ok("copies") => drop(summed(Way::Copies)),
        Ok("none") => drop(summed(Way::Nccl)),
        // Each has the GPU of the first.
        Ok("same") => drop(summed(Way::Copies)),
        Ok("init" | "absent") => drop(summed(Way::Copies)),
        Ok(wrong) => {
            let expected: &[&str] = match wrong {
                "unlike" => &["rank 0 is to take `Way::Nccl`, rank 1 `Way::Copies`", "the same to all"],
                "forced" => &["cannot pass values by NCCL", "ranks 0 and 1 have the same GPU"],
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

/// What a rank is told of another one whose NCCL has failed, now and ever after.
fn over(world: &World, error: &Error, what: &[&str]) {
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    says(error, what);
    says(&world.barrier().unwrap_err(), &["the world: ", "start all ranks again"]);
}

#[test]
fn a_rank_whose_nccl_fails_ends_the_others() {
    let faults = |rank: u32, program: &mut Command| {
        // A note and a cell pass for the elements, and for the first sum.
        program.env(FAULTS, if rank == 1 { "async=5" } else { "" });
    };
    if !in_ranks("a_rank_whose_nccl_fails_ends_the_others", 3, faults) {
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
        over(world, &error, &["rank 1 cannot go on: NCCL 2.28.3", "remote process exited"]);
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn an_nccl_that_passes_nothing_ends_in_time() {
    let faults = |rank: u32, program: &mut Command| {
        program.env("WARPFOLD_TIMEOUT", "2").env(FAULTS, if rank == 0 { "hang=5" } else { "" });
    };
    if in_ranks("an_nccl_that_passes_nothing_ends_in_time", 2, faults) {
        let (world, values, sum) = summed(Way::Nccl);
        match world.reduce(op::Sum, &values) {
            // What rank 0 gives has come.
            Ok(passed) => assert_eq!((world.rank(), passed), (1, sum)),
            Err(error) => over(world, &error, &["nothing passes between the ranks within 2 s"]),
        }
        if world.rank() == 1 {
            says(&world.barrier().unwrap_err(), &["rank"]);
        }
    }
}

/// Launches that a rank's driver refuses: before values pass nobody has the result; behind that only
/// that rank has none. A device that is lost ends all.
#[test]
fn a_rank_whose_launch_fails_says_so_to_the_others() {
    const NAME: &str = "a_rank_whose_launch_fails_says_so_to_the_others";
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

/// What passes values fails, at once or behind that: the call says so, and nothing of the result is
/// there; from then on the group says what to do.
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
