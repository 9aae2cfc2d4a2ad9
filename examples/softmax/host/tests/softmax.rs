//! The kernel over shapes, alignments, block sizes and unusual numbers, on the device that
//! `WARPFOLD_TEST_DEVICE` names, by default the simulator.

use std::{env, fs, path::Path, process::ExitCode, sync::LazyLock};

use softmax_host::{
    Matrix, PTX, Softmax, cli,
    reference::{Wrong, judge},
};
use warpfold::Device;

const BLOCKS: [u32; 4] = [32, 100, 256, 1000];

static DEVICE: LazyLock<Device> = LazyLock::new(|| {
    let name = env::var("WARPFOLD_TEST_DEVICE").unwrap_or_else(|_| "sim".to_owned());
    name.parse().and_then(Device::open).unwrap_or_else(|error| panic!("{error}"))
});

fn softmax(ptx: &str, input: &Matrix, block: u32, shift: usize) -> Result<Matrix, Wrong> {
    let softmax = Softmax::load(&DEVICE, ptx, block).unwrap();
    let output = softmax.run(input, shift).unwrap_or_else(|error| panic!("{error:#}"));
    judge(input, &output, block).map(|_| output)
}

fn assert_right(input: &Matrix, block: u32, shift: usize) -> Matrix {
    softmax(PTX, input, block, shift).unwrap_or_else(|wrong| {
        let (rows, columns) = (input.rows().len(), input.columns());
        panic!("{rows} x {columns}, {block} threads, shifted by {shift}: {wrong}")
    })
}

#[test]
fn every_shape_and_block() {
    for (rows, columns) in [(1, 1), (3, 33), (7, 1000), (2, 65_537)] {
        let input = Matrix::random(rows, columns, columns as u64).unwrap();
        for block in BLOCKS {
            assert_right(&input, block, 0);
        }
    }
}

#[test]
fn every_alignment() {
    for columns in [1, 2, 3, 4, 5, 7, 128, 131] {
        let input = Matrix::random(5, columns, 3).unwrap();
        for shift in 0..4 {
            assert_right(&input, 32, shift);
            assert_right(&input, 1, shift);
        }
    }
}

#[test]
fn special_values() {
    const COLUMNS: usize = 300;
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let rows: [(f32, &[f32]); 12] = [
        (1.5, &[]),
        (0.0, &[-0.0]),
        (-inf, &[2.0]),
        (-inf, &[f32::MIN]),
        (3.0, &[-inf, -inf]),
        (f32::MAX, &[f32::MIN, -f32::MAX]),
        (f32::MIN, &[]),
        (3e38, &[1e4, -3e38]),
        (-100.0, &[0.0, -87.5]),
        (-inf, &[]),
        (1.0, &[inf]),
        (1.0, &[nan]),
    ];
    for places in [[0, 150, 299], [3, 4, 298], [131, 17, 64]] {
        let row = |&(fill, others): &(f32, &[f32])| {
            let mut row = vec![fill; COLUMNS];
            places.iter().zip(others).for_each(|(&place, &other)| row[place] = other);
            row
        };
        let input = Matrix::new(COLUMNS, rows.iter().flat_map(row).collect()).unwrap();
        for block in BLOCKS {
            let output = assert_right(&input, block, 0);
            for (row, results) in output.rows().enumerate() {
                let nan = row >= 9;
                assert!(
                    results.iter().all(|result| result.is_nan() == nan),
                    "row {row}, {block} threads"
                );
            }
        }
    }
}

/// Each thread's elements ascend, so that each step rescales its sum.
#[test]
fn ascending_rows() {
    let input = Matrix::new(20_000, (0..40_000).map(|i| (i % 20_000) as f32 * 1e-3).collect()).unwrap();
    for block in BLOCKS {
        assert_right(&input, block, 0);
    }
}

#[test]
fn planted_faults_are_found() {
    let ptx = PTX;
    let first = |from: &str, to: &str| {
        assert!(ptx.contains(from), "{from}");
        ptx.replacen(from, to, 1)
    };
    let no_store = ptx.replace("st.global.v4.b32 [", "//");
    assert_ne!(no_store, ptx);
    let faults = [
        ("writes no groups", no_store),
        ("another base of the power", ptx.replace("0f3FB8AA3B", "0f3FB8AA00")),
        ("minimum for maximum", ptx.replace("max.NaN.f32", "min.NaN.f32")),
        ("lanes that exchange twice", first(", 16, 31, -1;", ", 8, 31, -1;")),
        ("a warp that is left out", first("st.shared.b32", "// st.shared.b32")),
    ];
    let mut ascending: Vec<f32> = (0..1000).map(|i| i as f32 * 0.1).collect();
    ascending.extend(ascending.clone().iter().rev());
    let input = Matrix::new(1000, ascending).unwrap();
    assert_right(&input, 256, 0);
    for (what, broken) in faults {
        assert!(softmax(&broken, &input, 256, 0).is_err(), "{what}");
    }
}

#[test]
fn exit_status_reports_right_wrong_and_failed_runs() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let broken = folder.join("softmax-broken.ptx");
    fs::write(&broken, PTX.replace("0f3FB8AA3B", "0f3FB8AA00")).unwrap();
    let run = |more: &[&str]| {
        let fixed = ["softmax-host", "--device", "sim", "--columns", "70"];
        cli::main(fixed.iter().chain(more).map(Into::into))
    };
    let run_file = |path: &Path| run(&["--ptx", path.to_str().unwrap()]);
    assert_eq!(run(&[]), ExitCode::SUCCESS);
    assert_eq!(run(&["--json", "--block", "33"]), ExitCode::SUCCESS);
    assert_eq!(run_file(&broken), ExitCode::FAILURE);
    assert_eq!(run_file(&folder.join("none.ptx")), ExitCode::from(2));
    assert_eq!(run(&["--rows", "0"]), ExitCode::from(2));
    assert_eq!(run(&["--block", "1025"]), ExitCode::from(2));
    assert_eq!(run(&["--blocks", "32"]), ExitCode::from(2));
}
