//! Several processes as one: results compared with one device that has all elements; ranks that fail,
//! diverge or exit; and the admission of ranks.
//!
//! Each test restarts this program once per rank, all with the device under test.

use std::{
    any::type_name,
    env,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Output, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use warpfold::{Buffer, Distributed, Element, Error, Plain, Rendezvous, Way, World, cpu, op};
use warpfold_abi::{meeting::CELL_BYTES, reducer::PART_BYTES};

use crate::{
    common::{Sample, device, driver, extreme, on_gpu, reducer, says, small, splitmix},
    everywhere::unruly,
};

const ADDRESS: &str = "WARPFOLD_ADDRESS";

pub(crate) fn is_rank() -> bool {
    env::var_os(ADDRESS).is_some()
}

fn free_address() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    format!("127.0.0.1:{}", listener.local_addr().unwrap().port())
}

/// Returns a command that runs the named tests in this program as a rank.
fn start(rank: u32, size: u32, address: &str, tests: &[&str]) -> Command {
    let mut program = Command::new(env::current_exe().unwrap());
    program
        .args(tests)
        .env("RANK", rank.to_string())
        .env("WORLD_SIZE", size.to_string())
        .env(ADDRESS, address)
        .env("WARPFOLD_TIMEOUT", "60")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if has_gpus(size) {
        program.env("WARPFOLD_TEST_DEVICE", format!("cuda:{rank}"));
    }
    program
}

/// Returns whether each of `size` ranks has a GPU of its own; values then pass by NCCL if it is
/// installed.
fn has_gpus(size: u32) -> bool {
    on_gpu() && driver().device_count().unwrap() >= size
}

fn started(test: &str, size: u32, change: impl FnMut(u32, &mut Command)) -> Vec<Child> {
    started_as(&format!("world::{test}"), size, change)
}

pub(crate) fn started_as(
    name: &str,
    size: u32,
    mut change: impl FnMut(u32, &mut Command),
) -> Vec<Child> {
    let address = free_address();
    let rank = |rank| {
        let mut program = start(rank, size, &address, &["--exact", name, "--nocapture"]);
        change(rank, &mut program);
        program.spawn().unwrap()
    };
    (0..size).map(rank).collect()
}

pub(crate) fn ended(ranks: Vec<Child>) -> Vec<Output> {
    ranks.into_iter().map(|rank| rank.wait_with_output().unwrap()).collect()
}

pub(crate) fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said)).concat()
}

/// Returns whether this process is a rank. If not, runs a test of this module in `size` ranks and
/// requires that all pass.
fn in_ranks(test: &str, size: u32) -> bool {
    if is_rank() {
        return true;
    }
    for output in ended(started(test, size, |_, _| {})) {
        let said = said(&output);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
    false
}

pub(crate) fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let world = World::join(&Rendezvous::from_env().unwrap(), reducer()).unwrap();
        // With the stand-in, the transport is NCCL, unless a test requests another one.
        let by_nccl = env::var_os("WARPFOLD_LIBNCCL").is_some() && env::var_os("TEST_CASE").is_none();
        let by_nccl = by_nccl && has_gpus(world.size());
        assert!(!by_nccl || world.way() == Way::Nccl, "{world:?}");
        world
    })
}

/// Returns this rank's part of all elements; each part reaches to its end in `ends` and begins at any
/// alignment.
pub(crate) fn cut<T: Plain>(values: &[T], ends: &[usize]) -> Distributed<T> {
    let (rank, last) = (world().rank() as usize, world().size() as usize - 1);
    let end = |rank: usize| if rank == last { values.len() } else { ends[rank].min(values.len()) };
    let start = if rank == 0 { 0 } else { end(rank - 1) };
    let end = end(rank).max(start);
    // Begins with elements that do not belong to the part.
    let front = start.min(rank);
    let buffer = device().upload(&values[start - front..end]).unwrap();
    let distributed = world().distributed(buffer.slice(front..).unwrap()).unwrap();
    assert_eq!((distributed.len(), distributed.before()), (values.len() as u64, start as u64));
    distributed
}

/// Checks an operation in one of three ranks; one rank has no elements. The test of every operation
/// calls it.
pub(crate) fn on_all<T: Element, O: op::Operation<T>>(
    op: O,
    values: &Buffer<T>,
    check: impl Fn(O::Output, &str),
) {
    if !is_rank() {
        return;
    }
    let host = values.download().unwrap();
    let what = format!("{} of {} on {:?}", type_name::<O>(), host.len(), world());
    let values = cut(&host, &[host.len() / 5, host.len() / 5]);
    check(world().reduce(op, &values).unwrap(), &what);
    let mut running = reducer().running(op).unwrap().starting_at(values.before()).unwrap();
    let stream = device().stream().unwrap();
    let half = values.part().len() / 2;
    for piece in [values.part().slice(..half), values.part().slice(half..)] {
        running.push(&stream, &piece.unwrap()).unwrap();
    }
    check(world().result(&running).unwrap(), &format!("{what}, in pieces"));
}

#[test]
fn every_operation_is_right_in_three_processes() {
    if is_rank() {
        return;
    }
    let address = free_address();
    // Single-threaded, so that all ranks run the same test.
    let tests = ["operations::", "wide::", "--test-threads=1"];
    let ranks: Vec<Child> =
        (0..3).map(|rank| start(rank, 3, &address, &tests).spawn().unwrap()).collect();
    for output in ended(ranks) {
        let said = said(&output);
        assert!(output.status.success(), "{said}");
        let passed = said.split(" passed").next().and_then(|said| said.rsplit(' ').next()).unwrap();
        assert!(passed.parse::<u32>().unwrap() > 10, "{said}");
    }
}

fn places<T: Sample + PartialEq>() {
    let mut values = small::<T>(5000, 3);
    for (at, value) in [(7, 8), (1500, 9), (1501, 9), (2100, 9), (4999, 9)] {
        values[at] = T::of(value);
    }
    for ends in [[1000, 2000], [1501, 1501], [1500, 1501], [0, 0], [8, 4999]] {
        let distributed = cut(&values, &ends);
        assert_eq!(world().reduce(op::ArgMax, &distributed).unwrap(), extreme(&values, true));
        assert_eq!(world().reduce(op::ArgMin, &distributed).unwrap(), extreme(&values, false));
    }
}

#[test]
fn places_count_from_the_first_element_of_the_first_rank() {
    if in_ranks("places_count_from_the_first_element_of_the_first_rank", 3) {
        for_every_type!(places());
    }
}

fn uneven(n: u64) -> Vec<f32> {
    let of = |at| f32::from_bits((splitmix(at) as u32 & 0x807f_ffff) | ((100 + at as u32 % 60) << 23));
    (0..n).map(of).collect()
}

#[test]
fn reproducible_sums_are_equal_on_many_ranks() {
    if !in_ranks("reproducible_sums_are_equal_on_many_ranks", 4) {
        return;
    }
    let values = uneven(70_001);
    let buffer = device().upload(&values).unwrap();
    let whole = reducer().reduce(op::Sum.reproducible(), &buffer).unwrap().to_bits();
    let spread = reducer().reduce(op::MeanAndVariance.reproducible(), &buffer).unwrap();
    let mut differ = 0;
    for ends in [[1, 2, 3], [35_000, 35_001, 60_000], [0, 0, 69_999], [20_000, 40_000, 60_000]] {
        let values = cut(&values, &ends);
        let sum = world().reduce(op::Sum.reproducible(), &values).unwrap();
        assert_eq!(sum.to_bits(), whole, "{ends:?}");
        let moments = world().reduce(op::MeanAndVariance.reproducible(), &values).unwrap();
        assert_eq!(moments, spread, "{ends:?}");
        let plain = world().reduce(op::Sum, &values).unwrap().to_bits();
        assert_eq!(world().reduce(op::Sum, &values).unwrap().to_bits(), plain, "{ends:?}");
        differ += usize::from(plain != reducer().sum(&buffer).unwrap().to_bits());
    }
    assert!(differ > 0);
}

#[test]
fn no_elements_reduce_like_an_empty_buffer() {
    if !in_ranks("no_elements_reduce_like_an_empty_buffer", 2) {
        return;
    }
    let none = cut::<f32>(&[], &[0]);
    assert!(none.is_empty());
    assert_eq!(world().reduce(op::Sum, &none).unwrap(), 0.0);
    assert_eq!(world().reduce(op::Max, &none).unwrap(), None);
    assert_eq!(world().reduce(op::Sum.reproducible(), &none).unwrap(), 0.0);
    let all = cut(&[2.5_f32, 3.5], &[0]);
    assert_eq!(world().reduce(op::Sum, &all).unwrap(), 6.0);
}

/// One rank has no elements.
#[test]
fn all_shapes_match_one_device() {
    if !in_ranks("all_shapes_match_one_device", 3) {
        return;
    }
    let world = world();
    let (mut a, b) = (small::<f32>(4001, 3), small::<f32>(4001, 4));
    for (at, value) in [(3, 70.0), (2600, 70.0), (3999, -70.0)] {
        a[at] = value;
    }
    let [of_a, of_b] = [&a, &b].map(|values| device().upload(values).unwrap());
    let [x, y] = [&a, &b].map(|values| cut(values, &[700, 700]));
    let together = world.reduce((op::Min, op::Sum, op::ArgMax, op::Max, op::CountNan), &x).unwrap();
    let first = Some(warpfold::Located { value: 70.0, index: 3 });
    let (sum, nans) = (world.reduce(op::Sum, &x).unwrap(), 0);
    assert_eq!(together, (Some(-70.0), sum, first, Some(70.0), nans));
    let (sums, wide) = ((op::Sum, op::Sum.reproducible()), world.reduce(op::Sum.reproducible(), &x));
    assert_eq!(world.reduce(sums, &x).unwrap(), (sum, wide.unwrap()));
    assert_eq!(world.reduce(op::Dot, (&x, &y)).unwrap(), reducer().dot(&of_a, &of_b).unwrap());
    let distance = reducer().reduce(op::SquaredDistance, (&of_a, &of_b)).unwrap();
    assert_eq!(world.reduce(op::SquaredDistance, (&x, &y)).unwrap(), distance);
    let everywhere = reducer().reduce(op::Dot.reproducible(), (&of_a, &of_b)).unwrap();
    assert_eq!(world.reduce(op::Dot.reproducible(), (&x, &y)).unwrap(), everywhere);
    let within = reducer().reduce(op::Sum, of_a.filter(-2.0..70.0)).unwrap();
    assert_eq!(world.reduce(op::Sum, x.filter(-2.0..70.0)).unwrap(), within);
    // Elements whose plain sum depends on the order.
    let (any, range) = (unruly::<f32>(4001), -0.5..20.0);
    let within =
        world.reduce(op::Sum.reproducible(), cut(&any, &[700, 700]).filter(range.clone())).unwrap();
    assert_eq!(within, cpu::reduce_within(op::Reproducible(range), &any).unwrap());
    for k in [1, 2, 32, 33, 3000] {
        let largest = reducer().reduce(op::Largest(k), &of_a).unwrap();
        assert_eq!(world.reduce(op::Largest(k), &x).unwrap(), largest);
        let smallest = reducer().reduce(op::Smallest(k), &of_a).unwrap();
        assert_eq!(world.reduce(op::Smallest(k), &x).unwrap(), smallest);
    }
    let none = cut::<f32>(&[], &[0, 0]);
    assert_eq!(world.reduce((op::Sum, op::Min), &none).unwrap(), (0.0, None));
    assert_eq!(world.reduce(op::Dot, (&none, &none)).unwrap(), 0.0);
    assert_eq!(world.reduce(op::Sum, none.filter(..)).unwrap().count, 0);
    assert_eq!(world.reduce(op::Largest(3), &none).unwrap(), []);
    let odd = world.rank() == 1;
    let end = if odd { 1.0 } else { 2.0 };
    let error = world.reduce(op::Sum, x.filter(0.0..end)).unwrap_err();
    says(&error, &["the interval (Included(0.0), Excluded(2.0)) of f32, but rank 1", "Excluded(1.0)"]);
    let error = world.reduce(op::Largest(if odd { 2 } else { 3 }), &x).unwrap_err();
    says(&error, &["Largest(3) of f32, but rank 1 is at Largest(2) of f32"]);
    let error = world.reduce(op::Largest(if odd { 0 } else { 3 }), &x).unwrap_err();
    says(
        &error,
        if odd {
            &["0 elements"]
        } else {
            &["rank 0 is at Largest(3) of f32, but rank 1 is at Largest(0)"]
        },
    );
    // The first rank has 700 elements of one operand and none of the other.
    let first = world.rank() == 0;
    let error = world.reduce(op::Dot, (&x, if first { &none } else { &x })).unwrap_err();
    assert_eq!(matches!(error, Error::Pairs { .. }), first, "{error:?}");
    if !first {
        says(&error, &["rank 0 failed: ", "700"]);
    }
    let error = if odd {
        world.reduce((op::Max, op::Sum), &x)
    } else {
        world.reduce((op::Sum, op::Max), &x).map(|(sum, max)| (max, sum))
    };
    says(&error.unwrap_err(), &["launch 0: sum of f32, but rank 1 is at launch 0: max of f32"]);
    assert_eq!(world.reduce(op::Sum, &x).unwrap(), sum);
}

#[test]
fn diverging_ranks_get_an_error_naming_both_calls() {
    if !in_ranks("diverging_ranks_get_an_error_naming_both_calls", 3) {
        return;
    }
    let (world, odd) = (world(), world().rank() == 2);
    let values = cut(&small::<f32>(100, 1), &[10, 20]);
    let told = |error: Error, what: &[&str]| {
        assert!(matches!(error, Error::World { .. }), "{error:?}");
        says(&error, what);
        assert_eq!(world.reduce(op::CountNan, &values).unwrap(), 0);
    };
    let other = match odd {
        true => world.reduce(op::Max, &values).map(|_| ()),
        false => world.reduce(op::Sum, &values).map(|_| ()),
    };
    told(other.unwrap_err(), &["rank 0 is at sum of f32", "rank 2 is at max of f32", "the same order"]);
    let other = match odd {
        true => world.reduce(op::Sum.reproducible(), &values),
        false => world.reduce(op::Sum, &values),
    };
    told(other.unwrap_err(), &["sum of f32", "rank 2 is at binsum of f32"]);
    let other = match odd {
        true => world.distributed(device().upload(&[1_u8]).unwrap()).map(|_| ()),
        false => world.distributed(device().upload(&[1_i8]).unwrap()).map(|_| ()),
    };
    told(other.unwrap_err(), &["elements of i8", "rank 2 is at elements of u8"]);
    let mut running = reducer().running(op::Sum).unwrap();
    running.push(&device().stream().unwrap(), values.part()).unwrap();
    let other = if odd { world.result(&running) } else { world.reduce(op::Sum, &values) };
    told(other.unwrap_err(), &["sum of f32", "rank 2 is at running sum of f32"]);
    let told_me: Vec<Vec<u8>> = (0..3).map(|rank| vec![rank; rank.into()]).collect();
    assert_eq!(world.gather(&told_me[world.rank() as usize]).unwrap(), told_me);
    let other = if odd { world.gather(&[0; 20_000]) } else { world.gather(&[]) };
    told(other.unwrap_err(), &["a rank gathers 20000 bytes", "16384 or fewer"]);
    let other = if odd { world.barrier() } else { world.reduce(op::Sum, &values).map(|_| ()) };
    told(other.unwrap_err(), &["sum of f32", "rank 2 is at a barrier"]);
}

/// A rank's failed call returns its own error there and is reported to the others; all stay usable.
#[cfg(feature = "simulator")]
#[test]
fn rank_error_is_reported_to_the_others() {
    if on_gpu() || !in_ranks("rank_error_is_reported_to_the_others", 3) {
        return;
    }
    use warpfold_driver::sys::CUDA_ERROR_LAUNCH_FAILED as code;
    use warpfold_sim_driver::{Fault, inject};

    let world = world();
    let values = cut(&small::<i32>(3000, 3), &[1000, 2000]);
    let sum = world.reduce(op::Sum, &values).unwrap();
    for launch in [1, 2] {
        let faulty = (world.rank() == 1)
            .then(|| inject(Fault { function: "cuLaunchKernel", call: launch, code, sticky: false }));
        let result = world.reduce(op::Sum, &values);
        drop(faulty);
        match (launch, world.rank()) {
            (_, 1) => says(&result.unwrap_err(), &["simulator", "LAUNCH_FAILED"]),
            (1, _) => {
                let error = result.unwrap_err();
                assert!(matches!(error, Error::World { .. }), "{error:?}");
                says(&error, &["rank 1 failed: ", "LAUNCH_FAILED"]);
            }
            // All values were exchanged before the failure.
            _ => assert_eq!(result.unwrap(), sum),
        }
        assert_eq!(world.reduce(op::Sum, &values).unwrap(), sum);
    }
    let alone = World::join(&Rendezvous::new(0, 1, "").unwrap(), reducer()).unwrap();
    let others = alone.distributed(device().upload(&[1_i32]).unwrap()).unwrap();
    assert_eq!(alone.reduce(op::Sum, &others).unwrap(), 1);
    let given = if world.rank() == 0 { &others } else { &values };
    says(&world.reduce(op::Sum, given).unwrap_err(), &["the elements belong to another world"]);
    assert_eq!(world.reduce(op::Sum, &values).unwrap(), sum);
}

/// [`World::check`] reports another rank's failure and its reason during a long computation.
#[test]
fn rank_failure_is_reported_during_computation() {
    if !in_ranks("rank_failure_is_reported_during_computation", 3) {
        return;
    }
    let (world, start) = (world(), Instant::now());
    world.check().unwrap();
    world.barrier().unwrap();
    let name = "rank 1 cannot continue: it has no more paper";
    match world.rank() {
        0 => says(&world.barrier().unwrap_err(), &[name]),
        1 => world.fail("it has no more paper"),
        _ => {
            while world.check().is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
    for error in [world.check().unwrap_err(), world.barrier().unwrap_err()] {
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
        says(&error, &[name, "start all ranks again"]);
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

/// If a rank leaves while another one computes, the other one's next wait names the rank that left.
#[test]
fn departed_rank_is_named_after_a_check() {
    if !in_ranks("departed_rank_is_named_after_a_check", 2) {
        return;
    }
    let world = World::join(&Rendezvous::from_env().unwrap(), reducer()).unwrap();
    world.barrier().unwrap();
    if world.rank() == 0 {
        thread::sleep(Duration::from_millis(300));
        world.check().unwrap();
        let error = world.barrier().unwrap_err();
        says(&error, &["rank 1 has left, and rank 0 waits for it"]);
    }
}

/// Checks that a rank's sudden exit ends the wait of the others at once, with an error that is
/// permanent.
fn kill_rank(test: &str, which: u32) {
    if is_rank() {
        let values = cut(&small::<i32>(300, 3), &[100, 200]);
        world().reduce(op::Sum, &values).unwrap();
        if world().rank() == which {
            std::process::abort();
        }
        let start = Instant::now();
        let name = format!("rank {which} is gone");
        for _ in 0..2 {
            let error = world().reduce(op::Sum, &values).unwrap_err();
            assert!(matches!(error, Error::Lost { .. }), "{error:?}");
            says(&error, &["the world: ", &name, "start all ranks again"]);
        }
        says(&world().barrier().unwrap_err(), &[&name]);
        println!("told after {} ms", start.elapsed().as_millis());
        return;
    }
    let start = Instant::now();
    for (rank, output) in ended(started(test, 3, |_, _| {})).iter().enumerate() {
        let said = said(output);
        let passes = output.status.success() && said.contains("1 passed");
        assert_eq!(passes, rank as u32 != which, "{said}");
    }
    assert!(start.elapsed() < Duration::from_secs(50), "the timeout is none");
}

#[test]
fn killed_rank_ends_the_others() {
    kill_rank("killed_rank_ends_the_others", 2);
}

#[test]
fn killed_rank_0_ends_the_others() {
    kill_rank("killed_rank_0_ends_the_others", 0);
}

#[test]
fn late_rank_is_named() {
    let test = "late_rank_is_named";
    if is_rank() {
        world().barrier().unwrap();
        if world().rank() == 1 {
            thread::sleep(Duration::from_secs(11));
        }
        let error = world().barrier().unwrap_err();
        says(&error, &["rank 1 did not arrive within 5 s", "start all ranks again"]);
        return;
    }
    // The limit also applies to joining, for which three processes on a GPU need up to 3 s.
    let ranks = started(test, 3, |_, program| {
        program.env("WARPFOLD_TIMEOUT", "5");
    });
    for output in ended(ranks) {
        assert!(output.status.success(), "{}", said(&output));
    }
}

#[test]
fn departed_rank_is_named_by_waiting_ranks() {
    if !in_ranks("departed_rank_is_named_by_waiting_ranks", 3) {
        return;
    }
    let world = World::join(&Rendezvous::from_env().unwrap(), reducer()).unwrap();
    world.barrier().unwrap();
    if world.rank() != 1 {
        let error = world.barrier().unwrap_err();
        says(&error, &["rank 1 has left, and rank ", " waits for it"]);
    }
}

fn joined(rank: u32, size: u32, address: &str, timeout: f32) -> Result<World, Error> {
    let rendezvous = Rendezvous::new(rank, size, address).unwrap();
    World::join(&rendezvous.with_timeout(Duration::from_secs_f32(timeout)), reducer())
}

fn connected(address: &str) -> TcpStream {
    let start = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return stream,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(20), "{address}: {error}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Connections from non-members neither stop the ranks nor are admitted; a member's mistake is named to
/// all.
#[test]
fn rank_admission_rejects_invalid_connections() {
    let refused = |result: Result<World, Error>, what: &[&str]| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::World { .. }), "{error:?}");
        says(&error, what);
    };
    // No rank listens, or some ranks are missing.
    let address = free_address();
    refused(joined(1, 2, &address, 0.3), &["rank 1 cannot reach rank 0 at 127.0.0.1:", "within 0.3 s"]);
    refused(joined(0, 4, &address, 0.3), &["ranks 1, 2 and 3 of 4 did not join within 0.3 s"]);
    let taken = TcpListener::bind(&address).unwrap();
    refused(joined(0, 2, &address, 0.3), &["rank 0 cannot listen at", "WARPFOLD_ADDRESS=host:port"]);
    drop(taken);
    // A duplicate rank, and a rank of another world size.
    for (rank, size, what) in
        [(0, 2, "rank 0 has joined twice"), (1, 3, "rank 1 expects 3 ranks, but rank 0 expects 2")]
    {
        let address = free_address();
        thread::scope(|scope| {
            let first = scope.spawn(|| joined(0, 2, &address, 20.0));
            let second = match rank {
                // A second rank 0 would listen itself, so a stranger connects as the duplicate.
                0 => {
                    let mut stranger = connected(&address);
                    stranger.write_all(&hello(0, 2)).unwrap();
                    None
                }
                _ => Some(joined(rank, size, &address, 20.0)),
            };
            refused(first.join().unwrap(), &[what]);
            if let Some(second) = second {
                refused(second, &[what]);
            }
        });
    }
    let address = free_address();
    thread::scope(|scope| {
        let first = scope.spawn(|| joined(0, 2, &address, 20.0));
        let mut older = hello(1, 2);
        older[12] = 1;
        let mut stranger = connected(&address);
        stranger.write_all(&older).unwrap();
        refused(first.join().unwrap(), &["rank 1 has another version of warpfold than rank 0"]);
    });
    let address = free_address();
    thread::scope(|scope| {
        let first = scope.spawn(|| joined(0, 2, &address, 20.0));
        let mut other = connected(&address);
        other.write_all(&hello(1, 2)).unwrap();
        refused(first.join().unwrap(), &["rank 1 has none, rank 0 ", "take devices of one kind"]);
    });
    // Strangers that send nothing, garbage, a large length, or another job.
    let address = free_address();
    thread::scope(|scope| {
        let first = scope.spawn(|| joined(0, 2, &address, 20.0));
        let _silent = connected(&address);
        let mut other_job = hello(1, 2);
        other_job[13] = 1;
        let mut other_program = hello(1, 2);
        other_program[4] = b'W';
        for says in [b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", &other_job[..], &other_program] {
            let mut talks = connected(&address);
            talks.write_all(says).unwrap();
            assert_eq!(talks.read(&mut [0; 64]).unwrap_or(0), 0, "no answer");
        }
        let second = joined(1, 2, &address, 20.0).unwrap();
        let second = scope.spawn(move || second.barrier());
        first.join().unwrap().unwrap().barrier().unwrap();
        second.join().unwrap().unwrap();
    });
}

/// Returns a rank's first message in the library's format.
fn hello(rank: u8, size: u8) -> Vec<u8> {
    let device = b"none";
    // The magic, the version, the job, the size, the rank, and the device after its length.
    let body = [&b"warpfold"[..], &[2, 0, size, rank, device.len() as u8], device].concat();
    [&(body.len() as u32).to_le_bytes()[..], &body].concat()
}

/// Encodes a number as messages do: seven bits per byte, the lowest first.
fn number(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn counted(bytes: &[u8]) -> Vec<u8> {
    [&number(bytes.len()), bytes].concat()
}

/// A rank 1 of two that takes part in exchanges with arbitrary bytes.
struct Liar(TcpStream);

impl Liar {
    fn joins(address: &str) -> Self {
        let mut stream = connected(address);
        let device = device_kind();
        let body = [&b"warpfold"[..], &[2, 0, 2, 1], &counted(device.as_bytes())].concat();
        stream.write_all(&[&(body.len() as u32).to_le_bytes()[..], &body].concat()).unwrap();
        let mut liar = Self(stream);
        liar.hear();
        liar
    }

    fn hear(&mut self) {
        let mut len = [0; 4];
        self.0.read_exact(&mut len).unwrap();
        self.0.read_exact(&mut vec![0; u32::from_le_bytes(len) as usize]).unwrap();
    }

    /// Takes part in an exchange of `what` with the bytes `part`.
    fn gives(&mut self, what: &str, part: &[u8]) {
        let body = [&[0][..], &counted(what.as_bytes()), &[0], &counted(part)].concat();
        self.0.write_all(&[&(body.len() as u32).to_le_bytes()[..], &body].concat()).unwrap();
        self.hear();
    }

    /// Agrees on connections as the transport, like a device without NCCL.
    fn agrees(&mut self) {
        let card = [&[0, 1][..], &counted(b"none"), &counted(b"a device")].concat();
        self.gives("the choice of NCCL or connections", &card);
    }
}

/// Returns the device kind that ranks of the device under test send.
fn device_kind() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heard = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut len = [0; 4];
        stream.read_exact(&mut len).unwrap();
        let mut body = vec![0; u32::from_le_bytes(len) as usize];
        stream.read_exact(&mut body).unwrap();
        body
    });
    joined(1, 2, &address, 5.0).unwrap_err();
    // The kind follows the magic, version, job, size and rank, and its own length of one byte.
    String::from_utf8(heard.join().unwrap()[13..].to_vec()).unwrap()
}

#[test]
fn parts_of_any_bytes_are_a_result_or_an_error() {
    if on_gpu() {
        return;
    }
    let address = free_address();
    let lengths = [0, 1, 1 << 40, 1 << 48, u64::MAX - 4, u64::MAX];
    // Sizes of a cell, of pairs, of an interval and of top-k, and others.
    let [cell, part] = [CELL_BYTES, PART_BYTES].map(|bytes| bytes as usize);
    let sizes = [0, 1, 8, 12, 16, 24, part, 8 + part, 8 + cell, 16_384];
    let seeds: Vec<(usize, u64)> =
        sizes.into_iter().flat_map(|size| (0..6).map(move |seed| (size, seed))).collect();
    let bytes = |(size, seed): (usize, u64)| -> Vec<u8> {
        let fill = [0, 0xff, 0x7f, 0x80].get(seed as usize).copied();
        let byte = |at| fill.unwrap_or(splitmix(seed << 32 | at) as u8);
        let mut bytes: Vec<u8> = (0..size as u64).map(byte).collect();
        if size == 8 + cell {
            // Few enough elements that the cell is used.
            bytes[..8].copy_from_slice(&u64::to_le_bytes(10));
        }
        bytes
    };
    let whats = [
        "sum of f32",
        "argmax of f32",
        "binsum of f32",
        "spread of f32",
        "Dot of f32",
        "Reproducible<Dot> of f32",
        "the interval (Unbounded, Unbounded) of f32",
        "the interval (Unbounded, Unbounded) of f32 everywhere",
        "Largest(3) of f32",
    ];
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut liar = Liar::joins(&address);
            liar.agrees();
            for len in lengths {
                liar.gives("elements of f32", &u64::to_le_bytes(len));
            }
            liar.gives("elements of f32", b"short");
            liar.gives("elements of f32", &[10, 0, 0, 0, 0, 0, 0, 0]);
            for what in whats {
                for &seed in &seeds {
                    liar.gives(what, &bytes(seed));
                }
            }
        });
        let world = joined(0, 2, &address, 60.0).unwrap();
        let values = device().upload(&small::<f32>(10, 3)).unwrap();
        let of = |part: &Buffer<f32>| world.distributed(part.clone());
        for len in lengths {
            match of(&values) {
                Ok(values) => assert_eq!((values.len(), values.before()), (len + 10, 0)),
                Err(error) => says(&error, &["elements; a reduction takes at most"]),
            }
        }
        says(&of(&values).unwrap_err(), &["another version"]);
        let x = &of(&values).unwrap();
        let calls: [&dyn Fn() -> Result<(), Error>; 9] = [
            &|| world.reduce(op::Sum, x).map(drop),
            &|| world.reduce(op::ArgMax, x).map(drop),
            &|| world.reduce(op::Sum.reproducible(), x).map(drop),
            &|| world.reduce(op::MeanAndVariance, x).map(drop),
            &|| world.reduce(op::Dot, (x, x)).map(drop),
            &|| world.reduce(op::Dot.reproducible(), (x, x)).map(drop),
            &|| world.reduce(op::Sum, x.filter(..)).map(drop),
            &|| world.reduce(op::Sum.reproducible(), x.filter(..)).map(drop),
            &|| world.reduce(op::Largest(3), x).map(drop),
        ];
        for (call, what) in calls.into_iter().zip(whats) {
            for (size, seed) in &seeds {
                if let Err(error) = call() {
                    let line = error.to_string();
                    assert!(
                        !line.contains('\n') && !line.contains("rank 1 is at"),
                        "{what}, {size}: {line}"
                    );
                    assert!(!matches!(error, Error::Driver { .. }), "{what}, {size}, {seed}: {line}");
                }
            }
        }
    });
}

#[test]
fn without_a_launcher_there_is_one_rank() {
    let world = World::join(&Rendezvous::new(0, 1, "nowhere").unwrap(), reducer()).unwrap();
    assert_eq!((world.rank(), world.size()), (0, 1));
    let values = small::<f64>(1000, 3);
    let distributed = world.distributed(device().upload(&values).unwrap()).unwrap();
    assert_eq!(world.reduce(op::Sum, &distributed).unwrap(), f64::total(&values, false));
    assert_eq!(world.reduce(op::ArgMax, &distributed).unwrap(), extreme(&values, true));
    world.barrier().unwrap();
    says(&Rendezvous::new(3, 3, "").unwrap_err(), &["rank 3 of 3", "0 to 2"]);
    says(&Rendezvous::new(0, 32, "").unwrap_err(), &["32 ranks", "1 to 31"]);
}
