//! Closed or full standard output and error, under every command that prints: no panic, one line if
//! output is lost, none if the reader has closed the pipe.

use std::{
    fs::File,
    process::{Command, Output, Stdio},
};

/// Commands that print and need neither a GPU nor NVIDIA's tools.
const PRINTING: &[&[&str]] = &[
    &["--help"],
    &["run", "--list"],
    &["run", "--list", "--json"],
    &["run", "--variant", "sequential", "--dtype", "i32", "--op", "sum", "--n", "1000"],
    &["run", "--variant", "sequential", "--dtype", "i32", "--op", "sum", "--n", "1000", "--json"],
    &["explain", "--variant", "sequential", "--n", "1000"],
    &["explain", "--variant", "sequential", "--n", "1000", "--top", "2"],
    &["explain", "--variant", "sequential", "--n", "1000", "--json"],
    &["explain", "--metrics"],
    &["check", "--variant", "serial", "--dtype", "f32"],
    &["check", "--variant", "testing_divergent_barrier", "--json"],
    &["doctor"],
    &["doctor", "--json"],
];

/// Commands that print only notes, or need tools that not every machine has.
const OTHERS: &[&str] = &[
    "build-ptx",
    "build-sim",
    "build-twins",
    "embed-ptx",
    "compare",
    "tune",
    "report",
    "test",
    "python",
    "fuzz",
    "lint",
    "help",
];

fn xtask(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(args);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn assert_no_panic(args: &[&str], output: &Output) {
    let said = text(&output.stderr);
    assert!(!said.contains("panicked"), "{args:?}: {said}");
    assert!(output.status.code().is_some_and(|code| code <= 2), "{args:?}: {}: {said}", output.status);
}

#[test]
fn every_command_is_tried_or_known_to_print_nothing() {
    let help = text(&xtask(&["--help"]).output().unwrap().stdout);
    let commands = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    let named = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for command in named.filter_map(|line| line.split_whitespace().next()) {
        let tried = PRINTING.iter().any(|call| call[0] == command);
        assert!(tried || OTHERS.contains(&command), "{command} is neither in PRINTING nor in OTHERS");
    }
}

#[test]
fn a_full_disk_is_one_line_and_status_2() {
    for &args in PRINTING {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = xtask(args).stdout(full).output().unwrap();
        assert_no_panic(args, &output);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        let lines: Vec<_> = said.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(
            matches!(&lines[..], [line] if line.contains("standard output cannot be written")),
            "{said}"
        );
    }
}

#[test]
fn closed_reader_is_not_an_error() {
    for &args in PRINTING {
        let all = xtask(args).output().unwrap();
        let mut child = xtask(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_no_panic(args, &output);
        assert_eq!(output.status, all.status, "{args:?}: {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("error: "), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn unwritable_stderr_does_not_change_the_status() {
    for &args in PRINTING {
        let all = xtask(args).output().unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = xtask(args).stderr(full).output().unwrap();
        assert_eq!(output.status, all.status, "{args:?}");
    }
}

#[test]
fn tables_fit_80_columns() {
    let run = ["--variant", "sequential,copy_strided,reducer", "--dtype", "f32", "--n", "1000"];
    let calls: [&[&str]; 4] = [
        &["run", "--list"],
        &["doctor"],
        &[&["run"], &run[..]].concat(),
        &[&["run", "--all"], &run[..]].concat(),
    ];
    for args in calls {
        let output = xtask(args).env("COLUMNS", "80").output().unwrap();
        let shown = text(&output.stdout);
        assert!(output.status.success() && shown.lines().count() > 3, "{args:?}: {shown}");
        let too_long = |line: &&str| line.chars().count() > 80 && line.trim().contains(' ');
        assert_eq!(shown.lines().find(too_long), None, "{args:?}: {shown}");
        // A table whose columns are too narrow has one letter per line.
        let broken =
            |line: &&str| line.split(['│', '┆']).filter(|cell| cell.trim().len() == 1).count() > 3;
        assert_eq!(shown.lines().find(broken), None, "{args:?}: {shown}");
    }
}
