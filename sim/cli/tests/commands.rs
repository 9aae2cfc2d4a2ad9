//! Output and exit status of the command on PTX text.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use warpfold_io::npy;

/// Doubles 32 words. If `past` is 1, thread 31 reads one word past the end.
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
        let file = npy::file(npy::Type::U32.descr(), &[values.len()], bytemuck::cast_slice(&values));
        fs::write(self.path().join(name), file).unwrap();
    }

    fn call(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpfold-sim"));
        command.current_dir(self.path()).args(arguments).output().unwrap()
    }

    /// Runs a shell line, in which `"$@"` is the call, with 512 MiB of memory, in less than 20 seconds.
    fn shell(&self, line: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new("sh");
        // A single arena of malloc, because each arena takes 64 MiB of addresses.
        let limited = format!("export MALLOC_ARENA_MAX=1; ulimit -v 524288; {line}");
        command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_warpfold-sim")]);
        let start = Instant::now();
        let output = command.current_dir(self.path()).args(arguments).output().unwrap();
        assert!(start.elapsed() < Duration::from_secs(20), "{line} {arguments:?}");
        output
    }

    /// Checks that a call fails with one line that contains `says`, in bounded time and memory.
    #[track_caller]
    fn refuses(&self, line: &str, arguments: &[&str], says: &str) {
        let output = self.shell(line, arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line} {arguments:?}: {text}");
        assert!(text.contains(says) && text.lines().count() == 1, "{line} {arguments:?}: {text}");
    }

    /// Runs the kernel `twice` with further options.
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
    // The array has not been written.
    folder.run("data:u32[32]", "0", &[], 0, &["warp instructions"]);
    folder.run("data:u32[32]", "0", &["--check"], 1, &["unwritten"]);
    folder.run("data:u32=@in.npy", "0", &["--check"], 0, &["data: 0, 2, 4"]);
}

/// `halve` adds the element 32 threads away, without a barrier before its load; `wait` spins forever.
const LOOPS: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry _Z5halvePj(.param .u64 data)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b8 half[256];
    .loc 1 5 9
    ld.param.u64 %rd0, [data];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd1, %rd0, %rd1;
    ld.global.u32 %r1, [%rd1];
    shl.b32 %r2, %r0, 2;
    mov.u32 %r3, half;
    add.u32 %r2, %r2, %r3;
    st.shared.u32 [%r2], %r1;
    .loc 1 6 9
    xor.b32 %r4, %r2, 128;
    ld.shared.u32 %r5, [%r4];
    add.u32 %r1, %r1, %r5;
    .loc 1 7 9
    st.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry wait(.param .u64 data)
{
    .reg .pred %p;
    .reg .b32 %r;
    .reg .b64 %rd;
    ld.param.u64 %rd, [data];
AGAIN:
    .loc 1 9 5
    ld.volatile.global.u32 %r, [%rd];
    setp.eq.u32 %p, %r, 0;
    @%p bra AGAIN;
    ret;
}
.file 1 \"loops.cu\"
";

/// Returns a call of `halve` with more options.
fn halve<'a>(command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let call = [command, "loops.ptx", "--kernel", "halve", "--block", "64", "--arg", "data:u32=@64.npy"];
    [&call[..], more].concat()
}

fn loops() -> Folder {
    let folder = Folder::new();
    fs::write(folder.path().join("loops.ptx"), LOOPS).unwrap();
    fs::write(folder.path().join("loops.cu"), "1\n2\n3\n4\nstore\nload half\nresult\n8\nwait\n")
        .unwrap();
    folder.numbers("64.npy", (0..64).collect());
    folder
}

#[test]
fn findings_have_source_lines_and_can_be_suppressed() {
    let folder = loops();
    let race =
        ["loops.cu:6:9: read-write race at shared address 0x0, byte 0 of `half`", "[read-write-race]"];
    folder.says(&halve("check", &[]), 1, &[&race[..], &["against loops.cu:5:9, "]].concat());
    folder.says(&halve("run", &["--check"]), 1, &race);
    folder.says(&halve("run", &[]), 0, &["data: "]);
    let known = "* kernel=halve* file=loops.cu line=6 # known\n* kernel=other\n";
    fs::write(folder.path().join("known"), known).unwrap();
    let says = ["3 suppressed", "known line 2 suppresses nothing: * kernel=other"];
    folder.says(&halve("check", &["--suppress", "known", "--sarif", "found.sarif"]), 0, &says);
    let log = fs::read_to_string(folder.path().join("found.sarif")).unwrap();
    for part in ["\"version\": \"2.1.0\"", "\"uri\": \"loops.cu\"", "\"justification\": \"known\""] {
        assert!(log.contains(part), "{log}");
    }
    fs::write(folder.path().join("known"), "racy\n").unwrap();
    folder.says(&halve("check", &["--suppress", "known"]), 2, &["known: line 1: unknown rule racy"]);
    folder.says(&halve("check", &["--suppress", "nowhere"]), 2, &["nowhere cannot be read"]);
}

#[test]
fn seeds_reveal_dependence_on_thread_order() {
    let folder = loops();
    let says = ["it depends on the order of threads [order-dependent]", "data: element "];
    folder.says(&halve("run", &["--seeds", "16"]), 1, &says);
    let alone = ["--block", "32"];
    let call = ["run", "loops.ptx", "--kernel", "_Z5halvePj", "--arg", "data:u32[32]=1", "--seeds", "2"];
    // In one warp, each thread reads an element that no thread writes, so there is no race.
    folder.says(&[&call[..], &alone].concat(), 0, &["14 warp instructions"]);
    folder.run("data:u32=@in.npy", "0", &["--seeds", "8", "--seed", "5"], 0, &["data: 0, 2, 4"]);
}

/// Each thread adds one to a word: by a load and a store, or by an atomic.
const COUNTS: &str = "\
.version 7.8
.target sm_80
.address_size 64
.visible .entry racy(.param .u64 data)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<1>;
    ld.param.u64 %rd0, [data];
    ld.global.u32 %r0, [%rd0];
    add.u32 %r1, %r0, 1;
    st.global.u32 [%rd0], %r1;
    ret;
}
.visible .entry atomic(.param .u64 data)
{
    .reg .b64 %rd<1>;
    ld.param.u64 %rd0, [data];
    red.global.add.u32 [%rd0], 1;
    ret;
}
";

#[test]
fn explore_finds_the_order_with_another_result() {
    let folder = Folder::new();
    fs::write(folder.path().join("counts.ptx"), COUNTS).unwrap();
    folder.numbers("two.npy", vec![2]);
    let call =
        |kernel| ["explore", "counts.ptx", "--kernel", kernel, "--grid", "2", "--arg", "data:u32[1]=0"];
    folder.says(&call("atomic"), 0, &["2 executions have one result; redundant: "]);
    folder.says(&call("racy"), 1, &["data: element 0 is ", "in the first execution", "st.global.u32"]);
    let expect = ["--expect", "data=@two.npy"];
    folder.says(&[&call("atomic")[..], &expect].concat(), 0, &["2 executions have the expected result"]);
    folder.says(&[&call("racy")[..], &expect].concat(), 1, &["data: element 0 is 1, and should be 2"]);
    let few = ["--executions", "1"];
    folder.says(
        &[&call("atomic")[..], &few].concat(),
        2,
        &["more than 1 executions", "raise --executions"],
    );
    let seed = ["--seed", "1"];
    folder.says(&[&call("atomic")[..], &seed].concat(), 2, &["leave out --seed and --out"]);
}

#[test]
fn explain_prints_counters_per_source_line() {
    let folder = loops();
    let says =
        ["halve(unsigned int*): 1 launch", "loops.cu\n", "6  load half", "7  result", "inclusive:"];
    folder.says(&halve("explain", &[]), 0, &says);
    // Two warps execute three instructions each: an exclusive or, a load and an addition.
    let output = folder.call(&halve("explain", &[]));
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.ends_with("6  load half")).unwrap();
    assert_eq!(line.split_whitespace().next(), Some("6"), "{line}");
}

#[test]
fn endless_kernel_is_stopped_and_located() {
    let folder = loops();
    let call = ["run", "loops.ptx", "--kernel", "wait", "--arg", "data:u32[1]=0"];
    let says = [
        "loops.cu:9:5: kernel `wait`",
        "limit of 5000 steps of one thread reached",
        "loops in ptx lines",
    ];
    folder.says(&[&call[..], &["--steps", "5000"]].concat(), 1, &says);
    folder.says(
        &[&call[..], &["--seconds", "0"]].concat(),
        1,
        &["loops.cu:9:5", "limit of 0 s for a launch reached"],
    );
}

#[test]
fn newer_ptx_is_refused_by_its_version() {
    let folder = Folder::new();
    fs::write(folder.path().join("new.ptx"), ".version 12.3\n.target sm_300\nfrobnicate").unwrap();
    for command in ["ls", "run", "check", "explain"] {
        let says = "new.ptx is PTX 12.3; the newest supported version is 9.5";
        folder.says(&[command, "new.ptx"], 2, &[says]);
    }
}

#[test]
fn ls_lists_kernels_and_reasons_of_broken_ones() {
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
        (&["ls", "none"], &["is not PTX, a fat binary or a program"]),
        (&["ls", "text"], &["text cannot be read as PTX"]),
        (&["run", "twice.ptx", "--kernel", "thrice"], &["has no kernel thrice; it has twice"]),
        (&["run", "twice.ptx", "--kernel", "unknown"], &["unknown does not run", "tcgen05"]),
        (&["run", "twice.ptx", "--arg", "n:u32=1"], &["has 2 parameters, but 1 are given"]),
    ] {
        folder.says(call, 2, says);
    }
    let of = |data, past, more: &[&str], says: &[&str]| {
        let call = [&run[..], &["--arg", data, "--arg", past], more].concat();
        folder.says(&call, 2, says);
    };
    of("data:u32=1", "past:u32=0", &[], &["parameter 1 of twice has 8 bytes", "data is u32 of 4 bytes"]);
    of("data:u32[32]", "past:u64=0", &[], &["parameter 2 of twice has 4 bytes"]);
    of("data:u32[32]", "past:u32=-1", &[], &["-1 is not a number of type u32"]);
    of("data:u32=@none.npy", "past:u32=0", &[], &["none.npy"]);
    of("data:f32=@in.npy", "past:u32=0", &[], &["in.npy", "u32"]);
    of("data:u32[32]", "past:u32=0", &["--expect", "other=@in.npy"], &["array other is not declared"]);
    of("data:u32[31]=1", "past:u32=0", &["--block", "31", "--expect", "data=@in.npy"], &["31 elements"]);
    of("data:u32[32]", "past:u32=0", &["--block", "2000"], &["2000"]);
}

#[test]
fn exec_names_the_missing_library() {
    let folder = Folder::new();
    // There are no libraries beside the test's executable.
    folder.says(&["exec", "true"], 2, &["libcuda.so.1 is missing in ", "cargo xtask build-sim"]);
}

const PRINTS: [&[&str]; 5] = [
    &["ls", "loops.ptx"],
    &["run", "loops.ptx", "--kernel", "halve", "--block", "64", "--arg", "data:u32=@64.npy"],
    &["check", "loops.ptx", "--kernel", "halve", "--block", "64", "--arg", "data:u32=@64.npy"],
    &["explain", "loops.ptx", "--kernel", "halve", "--block", "64", "--arg", "data:u32=@64.npy"],
    &["--help"],
];

#[test]
fn lost_output_is_reported() {
    let folder = loops();
    for call in PRINTS {
        folder.refuses("\"$@\" > /dev/full", call, "standard output cannot be written: No space left");
        // Neither output nor error message can be written.
        let output = folder.shell("\"$@\" > /dev/full 2> /dev/full", call);
        assert_eq!(output.status.code(), Some(2), "{call:?}");
    }
    // The reader of the pipe has exited.
    for call in &PRINTS[..4] {
        let line = "trap '' PIPE; mkfifo gone; (\"$@\"; echo $? > status) 2> said > gone & \
                    exec 3< gone; exec 3<&-; wait; rm gone";
        // The shell opens the pipe before the program starts, and closes it before the program prints.
        folder.shell(&line.replace("(\"$@\"", "(sleep 0.3; \"$@\""), call);
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("status"), "2\n", "{call:?}");
        assert_eq!(
            read("said"),
            "warpfold-sim: standard output cannot be written: Broken pipe (os error 32)\n"
        );
    }
    // The message of a usage error cannot be written either.
    let output = folder.shell("\"$@\" 2> /dev/full", &["ls", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn reports_and_arrays_that_cannot_be_written_are_refused() {
    let folder = loops();
    fs::write(folder.path().join("old"), "old").unwrap();
    for (option, says) in [
        (["--sarif", "/dev/full"], "/dev/full cannot be written: No space left"),
        (["--sarif", "nowhere/found"], "nowhere/found cannot be written"),
        (["--out", "data=@/dev/full"], "/dev/full cannot be written: No space left"),
        (["--out", "data=@nowhere/data.npy"], "nowhere/data.npy cannot be written"),
    ] {
        folder.refuses("\"$@\"", &halve("run", &option), says);
    }
    // The file size limit has the effect of a full disk. The old contents must remain.
    let line = "trap '' XFSZ; ulimit -f 0; \"$@\"";
    folder.refuses(
        line,
        &halve("run", &["--out", "data=@old"]),
        "old cannot be written: File too large",
    );
    folder.refuses(line, &halve("check", &["--sarif", "old"]), "old cannot be written: File too large");
    assert_eq!(fs::read_to_string(folder.path().join("old")).unwrap(), "old");
}

#[test]
fn endless_inputs_are_refused() {
    let folder = loops();
    for call in [
        &["ls", "/dev/zero"][..],
        &["run", "/dev/zero"],
        &halve("check", &["--suppress", "/dev/zero"]),
        &halve("run", &["--expect", "data=@/dev/zero"]),
        &["run", "loops.ptx", "--kernel", "halve", "--block", "64", "--arg", "data:u32=@/dev/zero"],
    ] {
        folder.refuses("\"$@\"", call, "/dev/zero");
    }
    // A source file that the PTX names is read only if it is a regular file.
    fs::write(folder.path().join("loops.ptx"), LOOPS.replace("loops.cu", "/dev/zero")).unwrap();
    let output = folder.shell("\"$@\"", &halve("explain", &[]));
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("/dev/zero"));
    // A pipe is read; a sparse file of more than 64 MiB is refused.
    let output = folder.shell("cat twice.ptx | \"$@\"", &["ls", "/dev/stdin"]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("twice (8 bytes, 4 bytes)"));
    let large = fs::File::create(folder.path().join("large")).unwrap();
    large.set_len((64 << 20) + 1).unwrap();
    folder.refuses(
        "\"$@\"",
        &["ls", "large"],
        "large has more than 67108864 bytes; allowed are 67108864",
    );
    folder.refuses("\"$@\"", &["exec", "/dev/zero"], "");
}

#[test]
fn allocations_beyond_memory_are_refused() {
    let folder = Folder::new();
    let call = ["run", "twice.ptx", "--arg", "data:u8[4000000000]", "--arg", "past:u32=0"];
    folder.refuses(
        "\"$@\"",
        &call,
        "data has 4000000000 elements, which take 12000000000 bytes of memory",
    );
    let declared = "\
.version 7.8
.target sm_80
.address_size 64
.global .align 4 .b8 much[3000000000];
.visible .entry global() { .reg .b64 %a; mov.u64 %a, much; ret; }
.visible .entry local() { .local .align 4 .b8 some[524288]; .reg .b64 %a; .reg .b32 %b; mov.u64 %a, some; ld.local.u32 %b, [%a]; ret; }
";
    fs::write(folder.path().join("much.ptx"), declared).unwrap();
    folder.refuses(
        "\"$@\"",
        &["run", "much.ptx", "--kernel", "global"],
        "`much` needs 3000000000 bytes",
    );
    let local = declared.replace("3000000000", "4");
    fs::write(folder.path().join("much.ptx"), local).unwrap();
    let call = ["run", "much.ptx", "--kernel", "local", "--block", "1024"];
    folder.refuses("\"$@\"", &call, "a block of `local` needs");
}

#[test]
fn malicious_files_are_handled_in_bounded_time() {
    let folder = Folder::new();
    // A part of size 0: the next part would start at the same byte.
    let head = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 64, 0, 0, 0, 0, 0, 0, 0];
    fs::write(folder.path().join("loop.fatbin"), [&head[..], &[0; 64]].concat()).unwrap();
    folder.refuses(
        "\"$@\"",
        &["ls", "loop.fatbin"],
        "loop.fatbin: the fat binary is cut off or corrupt",
    );
    // Two mangled names: the first has 2^30 parts, and the second can be parsed in 2^40 ways.
    let doubled = ('0'..='9').chain('A'..='T');
    let doubled = doubled.fold("_Z1f1aIiiE".to_owned(), |name, n| name + &format!("S_IS{n}_S{n}_E"));
    let many = format!("_ZptDt{}sZWTc", "da".repeat(40));
    let entries = [doubled, many].map(|name| format!(".visible .entry {name}() {{ ret; }}\n")).concat();
    fs::write(folder.path().join("names.ptx"), format!(".version 8.0\n.target sm_80\n{entries}"))
        .unwrap();
    let output = folder.shell("\"$@\"", &["ls", "names.ptx"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 3);
    // A launch of 2^31 - 1 short blocks.
    let grid = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry empty()\n{\n ret;\n}\n";
    fs::write(folder.path().join("grid.ptx"), grid).unwrap();
    let call = ["run", "grid.ptx", "--grid", "2147483647", "--seconds", "1"];
    let output = folder.shell("\"$@\"", &call);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("limit of 1 s for a launch reached"), "{text}");
}
