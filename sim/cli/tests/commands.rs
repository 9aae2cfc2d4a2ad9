//! The command on PTX text: what it prints, and its exit status.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use warpfold_suite::{Dtype, input::npy};

/// Doubles 32 words; thread 31 reads the word behind the one that it writes, where `past` is 1.
const TWICE: &str = "\
.version 7.8
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 data, .param .u32 past)
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd0, [data];
    ld.param.u32 %r3, [past];
    mov.u32 %r0, %tid.x;
    add.u32 %r4, %r0, %r3;
    mul.wide.u32 %rd1, %r4, 4;
    add.s64 %rd2, %rd0, %rd1;
    ld.global.u32 %r1, [%rd2];
    add.s32 %r2, %r1, %r1;
    st.global.u32 [%rd2], %r2;
    ret;
}
.visible .entry unknown()
{
    tcgen05.shift.cta_group::1.down [0];
    ret;
}
";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::write(folder.path().join("twice.ptx"), TWICE).unwrap();
        folder.numbers("in.npy", (0..32).collect());
        folder.numbers("double.npy", (0..32).map(|at| 2 * at).collect());
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn numbers(&self, name: &str, values: Vec<u32>) {
        let file = npy::file(npy::name_of(Dtype::U32), &[values.len()], bytemuck::cast_slice(&values));
        fs::write(self.path().join(name), file).unwrap();
    }

    fn call(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpfold-sim"));
        command.current_dir(self.path()).args(arguments).output().unwrap()
    }

    /// Runs the kernel with these options behind its own.
    #[track_caller]
    fn run(&self, data: &str, past: &str, more: &[&str], status: i32, says: &[&str]) {
        let past = format!("past:u32={past}");
        let call = ["run", "twice.ptx", "--block", "32", "--arg", data, "--arg", &past];
        self.says(&[&call[..], more].concat(), status, says);
    }

    #[track_caller]
    fn says(&self, call: &[&str], status: i32, says: &[&str]) {
        let output = self.call(call);
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert_eq!(output.status.code(), Some(status), "{text}");
        for word in says {
            assert!(text.contains(word), "{text}");
        }
        if status == 2 {
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }
}

#[test]
fn results_are_shown_written_and_compared() {
    let folder = Folder::new();
    folder.run("data:u32=@in.npy", "0", &[], 0, &["data: 0, 2, 4, 6, 8, 10, 12, 14, …"]);
    let out = ["--out", "data=@out.npy", "--expect", "data=@double.npy"];
    folder.run("data:u32=@in.npy", "0", &out, 0, &["data: as expected"]);
    let [out, double] =
        ["out.npy", "double.npy"].map(|name| fs::read(folder.path().join(name)).unwrap());
    assert_eq!(out, double);
    let expect = ["--expect", "data=@double.npy"];
    let says = ["data: element 0 is 42, and should be 0"];
    folder.run("data:u32[32]=21", "0", &expect, 1, &says);
    folder.run("data:u32=@double.npy", "0", &expect, 1, &["element 1 is 4, and should be 2"]);
}

#[test]
fn faults_and_hazards_are_found() {
    let folder = Folder::new();
    let says = ["kernel `twice`", "thread (31, 0, 0)", "out of bounds", "ld.global.u32"];
    folder.run("data:u32=@in.npy", "1", &[], 1, &says);
    // Nobody has written what it reads.
    folder.run("data:u32[32]", "0", &[], 0, &["warp instructions"]);
    folder.run("data:u32[32]", "0", &["--check"], 1, &["unwritten"]);
    folder.run("data:u32=@in.npy", "0", &["--check"], 0, &["data: 0, 2, 4"]);
}

#[test]
fn kernels_are_listed_with_what_of_them_does_not_run() {
    let folder = Folder::new();
    let says = ["PTX 7.8 for sm_80", "  twice (8 bytes, 4 bytes)", "  unknown does not run:", "tcgen05"];
    folder.says(&["ls", "twice.ptx"], 0, &says);
}

#[test]
fn wrong_calls_are_refused_in_one_line() {
    let folder = Folder::new();
    fs::write(folder.path().join("none"), [0xff, 0xfe]).unwrap();
    fs::write(folder.path().join("text"), "hello").unwrap();
    let run = ["run", "twice.ptx"];
    for (call, says) in [
        (&["ls", "nowhere"][..], &["nowhere cannot be read"][..]),
        (&["ls", "none"], &["no PTX, no fat binary and no program"]),
        (&["ls", "text"], &["text is no PTX that can be read"]),
        (&["run", "twice.ptx", "--kernel", "thrice"], &["has no kernel thrice; it has twice"]),
        (&["run", "twice.ptx", "--kernel", "unknown"], &["unknown does not run", "tcgen05"]),
        (&["run", "twice.ptx", "--arg", "n:u32=1"], &["has 2 parameters, and 1 are given"]),
    ] {
        folder.says(call, 2, says);
    }
    let of = |data, past, more: &[&str], says: &[&str]| {
        let call = [&run[..], &["--arg", data, "--arg", past], more].concat();
        folder.says(&call, 2, says);
    };
    of("data:u32=1", "past:u32=0", &[], &["parameter 1 of twice has 8 bytes", "data is u32, of 4"]);
    of("data:u32[32]", "past:u64=0", &[], &["parameter 2 of twice has 4 bytes"]);
    of("data:u32[32]", "past:u32=-1", &[], &["-1 is no number of type u32"]);
    of("data:u32=@none.npy", "past:u32=0", &[], &["none.npy"]);
    of("data:f32=@in.npy", "past:u32=0", &[], &["in.npy", "u32"]);
    of("data:u32[32]", "past:u32=0", &["--expect", "other=@in.npy"], &["there is no array other"]);
    of("data:u32[31]=1", "past:u32=0", &["--block", "31", "--expect", "data=@in.npy"], &["31 elements"]);
    of("data:u32[32]", "past:u32=0", &["--block", "2000"], &["2000"]);
}

#[test]
fn exec_says_what_is_missing() {
    let folder = Folder::new();
    // Beside the test's program there are no libraries.
    folder.says(&["exec", "true"], 2, &["there is no libcuda.so.1", "cargo xtask build-sim"]);
}
