//! Commands with hostile arguments: each ends within a time limit, with a result or with one line and
//! status 2, and arguments reach the terminal only as plain text.

use std::{
    process::Command,
    time::{Duration, Instant},
};

/// Escape codes that clear the screen, and a line end that fakes another line.
const EVIL: &str = "/nowhere/\u{1b}[2J\u{9b}31m\r\nerror: all is well";

/// Time limit of any of these runs, on a slow machine.
const SOON: Duration = Duration::from_secs(60);

const NUMBERS: [&str; 11] = [
    "0",
    "9223372036854775807",
    "18446744073709551615",
    "2^63",
    "-1",
    "NaN",
    "1e9",
    "1.5",
    "99999999999999999999999999",
    "",
    "\u{1b}",
];

fn assert_exits_cleanly(args: &[&str], variables: &[(&str, &str)]) {
    let start = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(args).env("WARPFOLD_LIBCUDA", "/nowhere").envs(variables.iter().copied());
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let shown: Vec<String> = args.iter().map(|arg| arg.chars().take(80).collect()).collect();
    assert!(start.elapsed() < SOON, "{shown:?} took {:?}", start.elapsed());
    for text in [said.as_str(), std::str::from_utf8(&output.stdout).unwrap()] {
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}: {text:?}");
    }
    let errors = said.lines().filter(|line| line.starts_with("error: ")).count();
    match output.status.code() {
        Some(0 | 1) => assert_eq!(errors, 0, "{shown:?}: {said}"),
        Some(2) => assert_eq!(errors, 1, "{shown:?}: {said}"),
        _ => panic!("{shown:?}: {}: {said}", output.status),
    }
}

#[test]
fn extreme_numbers_give_at_most_one_error_line() {
    for number in NUMBERS {
        for option in ["--n", "--block", "--top"] {
            let given = format!("{option}={number}");
            let small: &[&str] = if option == "--n" { &[] } else { &["--n", "1000"] };
            assert_exits_cleanly(
                &[&["explain", "--variant", "sequential", &given], small].concat(),
                &[],
            );
        }
        for (variant, option) in
            [("grid_stride", "--grid"), ("copy_strided", "--stride"), ("copy_random", "--n")]
        {
            let given = format!("{option}={number}");
            assert_exits_cleanly(&["explain", "--variant", variant, &given], &[]);
        }
        for option in ["--n", "--block", "--iters", "--seed"] {
            let given = format!("{option}={number}");
            let one =
                ["run", "--variant", "sequential", "--dtype", "i32", "--op", "sum", "--device", "sim"];
            let small: &[&str] = if option == "--n" { &[] } else { &["--n", "1000"] };
            assert_exits_cleanly(&[&one[..], &[&given], small].concat(), &[]);
        }
        for command in ["tune", "compare"] {
            assert_exits_cleanly(&[command, &format!("--n={number}")], &[]);
            assert_exits_cleanly(&[command, &format!("--iters={number}")], &[]);
        }
        assert_exits_cleanly(&["run", "--list"], &[("COLUMNS", number)]);
    }
}

#[test]
fn hostile_paths_and_lists_give_at_most_one_error_line() {
    let sizes = "1..2^63,".repeat(14_000);
    for args in [
        &["compare", "--n", &sizes][..],
        &["report", "--check", "--results", "/dev"],
        &["report", "--check", "--results", EVIL],
        &["explain", "--validate", "/dev/zero"],
        &["explain", "--validate", "/"],
        &["explain", "--variant", EVIL],
        &["explain", "--variant", "sequential", "--n", "64", "--html", EVIL],
        &["compare", "--static", "--against", EVIL],
        &["check", "--variant", EVIL],
        &["tune", "--out", "/"],
        &["run", "--list", EVIL],
        &[EVIL],
    ] {
        assert_exits_cleanly(args, &[]);
    }
}
