//! The library's examples: each is short, and prints what is expected of it, in the simulator.

use std::{fs, process::Command};

use warpfold_tests::{program, root};

/// The maximum length of an example, so that it is read at a glance.
const LINES: usize = 60;

const PROGRAMS: [(&str, &[&str], &str); 4] = [
    ("sum", &[], "499999.5 on PTX simulator\n"),
    (
        "batch",
        &[],
        "row 0: sum 500046, largest 1012 at 434\n\
         row 1: sum 501229, largest 1012 at 447\n\
         row 2: sum 502412, largest 1012 at 460\n\
         row 3: sum 503595, largest 1012 at 473\n\
         on PTX simulator\n",
    ),
    ("stream", &[], "108000000 of 2000000 elements on PTX simulator\n"),
    ("group", &["sim:0", "sim:1"], "sum 499967115\nlargest 10006 at 2859\n2 devices, by Peers\n"),
];

/// Examples that are libraries for programs of another language.
const LIBRARIES: [&str; 1] = ["dlpack"];

#[test]
fn each_example_is_short_and_run_here() {
    let paths =
        fs::read_dir(root().join("warpfold/examples")).unwrap().map(|entry| entry.unwrap().path());
    for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        if !LIBRARIES.contains(&name) {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines < LINES, "{name}.rs has {lines} lines; it is to be below {LINES}");
            assert!(PROGRAMS.iter().any(|program| program.0 == name), "{name}.rs is not run");
        }
    }
}

#[test]
fn examples_print_the_expected_output() {
    for (name, arguments, prints) in PROGRAMS {
        let mut command = Command::new(program(&format!("examples/{name}")));
        // Two devices, and no real driver.
        command.args(arguments).env("WARPFOLD_SIM_DEVICES", "2");
        let output = command.env("WARPFOLD_LIBCUDA", "/nowhere/libcuda.so.1").output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed, prints, "{name}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{name}: {}", output.status);
    }
}
