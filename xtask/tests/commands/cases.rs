//! The cases of `tests/cases` are checked as their README says: any deviation fails.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

/// Runs cases against a program that prints its first argument and exits with its second one.
fn tried(cases: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let (program, lines) = (folder.path().join("program"), folder.path().join("cases.jsonl"));
    let script = "#!/bin/sh\nprintf '%s\\n' \"$1\" || exit 2\n[ -z \"$3\" ] || printf '%b' \"$3\" >&2\n\
                  [ \"$2\" != hang ] || sleep 2\n[ \"$2\" != kill ] || kill -9 $$\nexit $2\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&lines, cases).unwrap();
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases/run.py");
    let mut python = Command::new("python3");
    python.arg(run).arg("--cases").arg(&lines).arg("--folder").arg(folder.path());
    python.arg("--sim").arg(&program).args(["--device", "sim"]).output().unwrap()
}

fn verdict(case: &str) -> (i32, String) {
    let output = tried(case);
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code().unwrap(), said)
}

fn of_value(printed: &str, right: &str) -> String {
    let printed = format!("{{\"value\": {printed}}}").replace('"', "\\\"");
    format!("{{\"sim\": [\"{printed}\", \"0\", \"\", \"--json\"], {right}}}\n")
}

#[test]
fn right_results_pass_and_wrong_ones_fail() {
    for (printed, right, passes) in [
        ("3.0", "\"value\": 3.0", true),
        ("3", "\"value\": 3.0", true),
        ("3.0000000000000004", "\"value\": 3.0", false),
        ("3.0000000000000004", "\"value\": 3.0, \"within\": 1e-15", true),
        ("3.1", "\"value\": 3.0, \"within\": 1e-15", false),
        ("-3.0", "\"value\": 3.0, \"within\": 1", false),
        // Different numbers that round to the same double differ.
        ("9007199254740993", "\"value\": 9007199254740992.0", false),
        ("\"NaN\"", "\"value\": \"NaN\"", true),
        ("\"NaN\"", "\"value\": 1.0, \"within\": 1e9", false),
        ("1.0", "\"value\": \"NaN\"", false),
        ("\"inf\"", "\"value\": \"inf\"", true),
        ("\"-inf\"", "\"value\": \"inf\"", false),
        ("\"inf\"", "\"value\": 1e308, \"within\": 1e9", false),
        ("1e308", "\"value\": \"inf\", \"within\": 1", false),
        ("null", "\"value\": 0", false),
        ("0", "\"value\": false", false),
        ("true", "\"value\": true", true),
        ("[1, 2]", "\"value\": [1, 2]", true),
        ("[1, 2]", "\"value\": [1, 2, 3]", false),
        ("[1, 2]", "\"value\": 1", false),
        ("3.0", "\"values\": [3.0]", true),
        ("3.0", "\"values\": [3.0, 3.0]", false),
        ("3.0", "\"mean\": 3.0", false),
        ("3.0", "\"status\": 2", false),
        ("3.0", "\"error\": \"\"", false),
        ("3.0", "\"value\": 2.0, \"or\": {\"value\": 3.0}", true),
        ("4.0", "\"value\": 2.0, \"or\": {\"value\": 3.0}", false),
        ("3.0", "\"status\": 2, \"or\": {\"value\": 3.0}", true),
    ] {
        let (status, said) = verdict(&of_value(printed, right));
        assert_eq!(status, i32::from(!passes), "{printed} {right}: {said}");
        let counts = if passes { "1 passed, 0 failed" } else { "0 passed, 1 failed" };
        assert_eq!(said.lines().last(), Some(counts), "{printed} {right}: {said}");
        assert_eq!(said.lines().count(), if passes { 1 } else { 2 }, "{said}");
    }
}

#[test]
fn exit_status_and_stderr_must_match_the_case() {
    for (call, right, passes) in [
        ("\"\", \"2\", \"one\\\\n\"", "\"status\": 2", true),
        ("\"\", \"2\", \"one\\\\ntwo\\\\n\"", "\"status\": 2", false),
        ("\"\", \"2\", \"\"", "\"status\": 2", false),
        ("\"\", \"1\"", "\"status\": \"not 0\"", true),
        ("\"\", \"0\"", "\"status\": \"not 0\"", false),
        ("\"\", \"101\"", "\"status\": \"not 0\"", false),
        ("\"\", \"kill\"", "\"status\": \"not 0\"", false),
        ("\"\", \"hang\"", "\"status\": 2, \"seconds\": 1", false),
        ("\"{}\", \"2\", \"one\\\\n\", \"--json\"", "\"value\": 1", false),
        ("\"\", \"0\"", "\"status\": 0, \"stdout\": \"full\"", false),
        ("\"\", \"0\"", "\"status\": \"not 0\", \"stdout\": \"closed\"", true),
    ] {
        let (status, said) = verdict(&format!("{{\"sim\": [{call}], {right}}}"));
        assert_eq!(status, i32::from(!passes), "{call} {right}: {said}");
    }
    // A file without cases fails, and so does a case without expectations.
    assert_eq!(verdict("").0, 1);
    assert_ne!(verdict("{\"sim\": [\"\", \"0\"]}").0, 0);
}
