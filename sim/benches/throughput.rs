//! Warp instructions per second on one host core and on two, and the time to parse a module.

mod cases;

use std::hint::black_box;
use std::time::Duration;

use cases::{Case, Cases, FLOW, Watch};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use warpfold_sim::Module;

fn throughput(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("warp instructions");
    group.measurement_time(Duration::from_secs(3)).sample_size(20);
    let cases = Cases { threads: 1 };
    let mut measure = |case: &Case, watch: Watch, how: &str| {
        group.throughput(Throughput::Elements(case.run(watch)));
        let name = format!("{}, {how}", case.name);
        group.bench_function(name, |bencher| bencher.iter(|| black_box(case.run(watch))));
    };
    for case in cases.steady() {
        Watch::ALL.into_iter().for_each(|watch| measure(&case, watch, watch.name()));
    }
    for case in cases.divergent() {
        measure(&case, Watch::Plain, Watch::Plain.name());
    }
    for case in (Cases { threads: 2 }).steady() {
        measure(&case, Watch::Plain, "two threads");
    }
    group.finish();
}

fn parsing(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("module");
    group.throughput(Throughput::Bytes(FLOW.len() as u64));
    group.bench_function("parse", |bencher| bencher.iter(|| Module::parse(black_box(FLOW))));
    group.finish();
}

criterion_group!(benches, throughput, parsing);
criterion_main!(benches);
