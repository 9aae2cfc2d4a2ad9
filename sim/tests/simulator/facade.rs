//! The `Sim` interface: arguments, buffers, checks, seeds, and tests declared by a macro.

use warpfold_sim::{Config, Error, HazardKind, Sim, SimError, kernel_tests};

/// Returns a kernel: `%r0` is the thread's index in the grid, `%rd0` the first parameter, a buffer of
/// words, and `%rd1` the address of the thread's word in it.
fn kernel(name: &str, parameters: &str, body: &str) -> String {
    format!(
        ".visible .entry {name}(.param .u64 data{parameters}) {{ .reg .pred %p; .reg .b32 %r<9>;
         .reg .b64 %rd<9>; .reg .f32 %f<4>; .shared .align 4 .b8 sh[256]; ld.param.u64 %rd0, [data];
         mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r0, %r1, %r2, %r0;
         mul.wide.u32 %rd1, %r0, 4; add.u64 %rd1, %rd0, %rd1; {body} ret; }}\n"
    )
}

fn warp_synchronous() -> String {
    let mut body =
        "shl.b32 %r3, %r0, 2; mov.u32 %r4, sh; add.u32 %r3, %r3, %r4; ld.global.u32 %r5, [%rd1];
                    st.volatile.shared.u32 [%r3], %r5; setp.ge.u32 %p, %r0, 16; @%p bra END;"
            .to_owned();
    for step in [16, 8, 4, 2, 1] {
        body += &format!(
            "ld.volatile.shared.u32 %r6, [%r3+{}]; add.u32 %r5, %r5, %r6; st.volatile.shared.u32 [%r3], %r5;",
            4 * step
        );
    }
    kernel("warp_synchronous", "", &format!("{body} st.global.u32 [%rd1], %r5; END:"))
}

fn text() -> String {
    [
        ".version 7.8 .target sm_80 .global .u32 calls;\n".to_owned(),
        kernel(
            "_ZN4mine3add17h0123456789abcdefE",
            ", .param .u64 other, .param .u64 len",
            "ld.param.u64 %rd2, [other]; ld.param.u64 %rd3, [len]; cvt.u64.u32 %rd4, %r0;
             setp.ge.u64 %p, %rd4, %rd3; @%p ret; shl.b64 %rd4, %rd4, 2; add.u64 %rd2, %rd2, %rd4;
             ld.global.u32 %r3, [%rd1]; ld.global.u32 %r4, [%rd2]; add.u32 %r3, %r3, %r4;
             st.global.u32 [%rd1], %r3;",
        ),
        kernel("count", "", "atom.global.add.u32 %r3, [calls], 1; st.global.u32 [%rd0], %r3;"),
        kernel("same", "", "st.global.u32 [%rd0], %r0;"),
        kernel(
            "first",
            "",
            "ld.global.u32 %r3, [%rd1]; setp.ne.u32 %p, %r0, 0; @!%p st.global.u32 [%rd1+4], %r3;",
        ),
        warp_synchronous(),
        kernel("unknown", "", "frobnicate;"),
    ]
    .concat()
}

fn sim() -> Sim {
    Sim::load(text()).unwrap()
}

#[test]
fn arrays_are_copied_in_and_out() {
    let sim = sim();
    let (mut values, others) = ([1_u32, 2, 3, 4], vec![10_u32, 20, 30]);
    let ran =
        sim.kernel("add").grid(2).block(2).arg(&mut values).slice(&others).checked().seeds(4).run();
    assert_eq!(ran.unwrap().stats.blocks, 2);
    assert_eq!(values, [11, 22, 33, 4]);
    assert_eq!(sim.gpu().memory_in_use(), 4, "the module's variable");
    let (sum, other) =
        (sim.buffer(&[1_u32; 3]).unwrap().called("sum"), sim.buffer(&[5_u32; 3]).unwrap());
    for _ in 0..2 {
        sim.kernel("mine::add").block((3, 1)).arg(&sum).arg(&other).arg(sum.len()).run().unwrap();
    }
    assert_eq!((sum.to_vec().unwrap(), sum.len()), (vec![11; 3], 3));
    let said =
        sim.kernel("add").block(4).arg(&sum).arg(&other).arg(4_u64).run().unwrap_err().to_string();
    assert!(
        said.starts_with("kernel `mine::add`") && said.contains("past the end of `sum`, 12 "),
        "{said}"
    );
}

#[test]
fn wrong_calls_are_refused() {
    let sim = sim();
    let says =
        |result: Result<_, SimError>| result.map(|_: warpfold_sim::Ran| ()).unwrap_err().to_string();
    assert_eq!(
        says(sim.kernel("add").arg(&[0_u32]).run()),
        "`mine::add` takes 3 arguments, but 1 are given; a slice counts as two"
    );
    let said = says(sim.kernel("count").arg(5_u32).run());
    assert_eq!(said, "argument 0 of `count` has 8 bytes, but a number of 4 bytes is given");
    let said = says(sim.kernel("nothing").run());
    assert_eq!(
        said,
        "module has no entry `nothing`; it has `mine::add`, `count`, `same`, `first`, `warp_synchronous`"
    );
    assert!(says(sim.kernel("unknown").arg(0_u64).run()).contains("unknown opcode `frobnicate`"));
    assert!(says(sim.kernel("count").block(2000).arg(&[0_u32]).run()).contains("block.x is 2000"));
    assert!(matches!(Sim::load("hello"), Err(SimError::Text(_))));
    let limited = Sim::with_config(text(), Config { memory_limit: 64, ..Config::default() }).unwrap();
    assert!(matches!(limited.buffer(&[0_u8; 65]), Err(SimError::Launch(Error::MemoryLimit { .. }))));
}

#[test]
fn each_run_reports_a_race_once() {
    let sim = sim();
    let mut word = [0_u32];
    sim.kernel("same").block(2).arg(&mut word).run().unwrap();
    for _ in 0..2 {
        let found = sim.kernel("same").block(2).named("word", &mut word).checked().run().unwrap_err();
        let SimError::Found(found) = found else { panic!("{found}") };
        assert_eq!(
            found.iter().map(|found| found.kind).collect::<Vec<_>>(),
            [HazardKind::WriteWriteRace]
        );
        assert!(found[0].to_string().contains("byte 0 of `word`, 4 bytes at 0x"), "{}", found[0]);
    }
    sim.kernel("same").arg(&mut word).checked().run().unwrap();
}

#[test]
fn unwritten_results_are_findings_if_all_launches_are_checked() {
    let sim = sim().checked();
    let output = sim.output::<u32>(2).unwrap();
    output.write(&[7]).unwrap();
    let SimError::Found(found) = output.to_vec().unwrap_err() else { panic!("nothing is found") };
    assert_eq!((found[0].kind, found[0].address), (HazardKind::UnwrittenResult, output.address() + 4));
    sim.kernel("first").arg(&output).run().unwrap();
    assert_eq!(output.to_vec().unwrap(), [7, 7]);
    let unwritten = sim.output::<u32>(2).unwrap();
    assert!(matches!(sim.kernel("first").arg(&unwritten).run(), Err(SimError::Found(_))));
}

#[test]
fn thread_order_dependence_is_reported() {
    let sim = sim();
    let mut values: Vec<u32> = (1..=32).collect();
    sim.kernel("warp_synchronous").block(32).arg(&mut values).run().unwrap();
    assert_eq!(values[0], 32 * 33 / 2);
    let mut values: Vec<u32> = (1..=32).collect();
    let call = sim.kernel("warp_synchronous").block(32).named("values", &mut values).checked().seeds(8);
    let error = call.run().unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, SimError::Order { index: 0..16, .. }), "{said}");
    assert!(
        said.contains("of `values` is") && said.ends_with("depends on the order of threads"),
        "{said}"
    );
    assert_eq!(values[0], 32 * 33 / 2, "what lock step gives is left");
    // Strict checks report the lanes that do not converge.
    let strict = Sim::with_config(text(), Config { strict: true, ..Config::default() }).unwrap();
    let found =
        strict.kernel("warp_synchronous").block(32).arg(&mut values).checked().run().unwrap_err();
    let SimError::Found(found) = found else { panic!("{found}") };
    assert!(found.iter().all(|found| found.kind == HazardKind::LockStep), "{found:?}");
}

/// Variables of the module change once per `run`, regardless of the number of seeds.
#[test]
fn seeded_runs_change_variables_once() {
    let sim = sim();
    let mut last = [0_u32];
    for round in 0..3 {
        sim.kernel("count").arg(&mut last).seeds(5).run().unwrap();
        assert_eq!(last[0], round);
    }
}

kernel_tests! {
    ptx: text();

    fn kernel_test_passes(sim) {
        let (mut values, others) = ([1_u32, 2], [3_u32, 4]);
        sim.kernel("add").block(2).arg(&mut values).slice(&others).run()?;
        assert_eq!(values, [4, 6]);
    }

    #[should_panic(expected = "the kernel is wrong")]
    fn kernel_test_fails_outside_lockstep(sim) {
        let mut values: Vec<u32> = (1..=32).collect();
        sim.kernel("warp_synchronous").block(32).arg(&mut values).run()?;
        assert_eq!(values[0], 32 * 33 / 2, "the kernel is wrong");
    }

    #[should_panic(expected = "write-write race")]
    fn kernel_test_fails_on_a_race(sim) {
        sim.kernel("same").block(2).arg(&mut [0_u32]).run()?;
    }
}
