//! Every `cargo xtask` command that docs/ladder.md shows: those that need neither a GPU nor NVIDIA's
//! tools are run, and of the others the arguments are read.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use warpfold_lab::ladder::{
    LADDER,
    commands::{self, Program},
};

/// Commands that run anywhere and write nothing but text.
const ANYWHERE: [&str; 3] = ["check", "explain", "list"];

fn xtask(arguments: &[String]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().unwrap()
}

/// Fails unless the command ends with success.
fn assert_right(command: &commands::Command, output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{LADDER}: `{}`: {}: {stderr}", command.text, output.status);
}

#[test]
fn every_command_is_one_and_those_for_any_machine_run() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(LADDER);
    let all = commands::commands(&fs::read_to_string(path).unwrap()).unwrap();
    let commands: Vec<_> = all.iter().filter(|command| command.program == Program::Xtask).collect();
    assert!(!commands.is_empty(), "{LADDER} shows no `cargo xtask` command");
    for command in commands {
        // With --help behind them the arguments are read and nothing is done.
        let read = [command.arguments.clone(), vec!["--help".to_owned()]].concat();
        assert_right(command, &xtask(&read));
        if !command.needs_gpu && ANYWHERE.contains(&command.arguments[0].as_str()) {
            assert_right(command, &xtask(&command.arguments));
        }
    }
}

#[test]
fn wrong_arguments_are_seen_in_front_of_help() {
    for arguments in
        ["explian sequential", "explain sequental", "compare --statik", "explain --n many sequential"]
    {
        let arguments: Vec<String> = arguments.split(' ').chain(["--help"]).map(str::to_owned).collect();
        assert!(!xtask(&arguments).status.success(), "{arguments:?}");
    }
}
