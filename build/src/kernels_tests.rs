//! Scripts stand in for rustc and cargo. The kernels of these tests are already PTX, which the fake
//! cargo copies to the compiler's output path.

use std::{io::Write, process::Stdio};

use super::*;

const RUSTC: &str = r#"case "$*" in
*sysroot*) echo "$ROOT/sysroot";;
*target-cpus*) printf 'Available CPUs for this target:\n    sm_75\n    sm_80\n    sm_90\n';;
esac"#;

const CARGO: &str = r#"echo "$* flags=$CARGO_ENCODED_RUSTFLAGS rustc=$RUSTC toolchain=$RUSTUP_TOOLCHAIN in=$PWD" >>"$ROOT/log"
env | grep -E '^(CARGO_MANIFEST_DIR|CARGO_PKG_NAME|CARGO_TARGET_DIR|OUT_DIR)=' >>"$ROOT/log"
for argument; do case "$argument" in
--emit=asm=*) cp src/lib.rs "${argument#--emit=asm=}";;
esac; done
release="$ROOT/out/mine/sm_90-fast/nvptx64-nvidia-cuda/release"
mkdir -p "$release" && echo "$release/libmine.rlib: $ROOT/kernels/src/lib.rs $ROOT/device/src/lib.rs $ROOT/sysroot/core.rs" >"$release/libmine.d"
[ ! -e src/broken ]"#;

const PTX: &str = "//\n// Generated\n//\n\n.version 8.0\n.target sm_90\n.visible .entry k()\n{\n\t.loc\t1 2 3\n\tret; // end\n}\n\
                   \t.file\t1 \"src/lib.rs\"\n\t.section\t.debug_macinfo\t{\t}\n";

struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new(ptx: &str) -> Self {
        let fixture = Self { folder: tempfile::tempdir().unwrap() };
        fixture.write("kernels/Cargo.toml", "[lib]\nname = \"other\"\n[package]\nname = \"mine\"\n");
        fixture.write("kernels/src/lib.rs", ptx);
        fixture.write("device/Cargo.toml", "");
        fixture.write("device/src/lib.rs", "");
        fixture.write("sysroot/lib/rustlib/src/rust/library/Cargo.lock", "");
        for (name, script) in [("rustc", RUSTC), ("cargo", CARGO)] {
            let root = fixture.folder.path();
            let text = format!("#!/bin/sh\nROOT='{}'\n{script}\n", root.display());
            // Another process writes the script: children of concurrent tests would inherit the open
            // file, and a file that is open for writing cannot be executed.
            let mut writer = Command::new("sh");
            writer.args(["-c", "cat >\"$0\" && chmod +x \"$0\""]).arg(root.join(name));
            let mut writer = writer.stdin(Stdio::piped()).spawn().unwrap();
            writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
            assert!(writer.wait().unwrap().success());
        }
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn kernels(&self) -> Kernels {
        Kernels::new(self.path("kernels")).arch("sm_90").features(["fast"])
    }

    fn compile(&self, kernels: &Kernels) -> Result<(PathBuf, BTreeSet<PathBuf>), Error> {
        kernels.compile_in(&BuildScript {
            cargo: self.path("cargo"),
            rustc: self.path("rustc"),
            out: self.path("out"),
            toolchain: Some("1.2.3".to_owned()),
        })
    }

    fn refused(&self, kernels: &Kernels) -> String {
        self.compile(kernels).unwrap_err().to_string()
    }
}

#[test]
fn line_tables_are_removed_unless_requested() {
    let fixture = Fixture::new(PTX);
    let (ptx, read) = fixture.compile(&fixture.kernels()).unwrap();
    assert_eq!(ptx, fixture.path("out/mine/sm_90-fast/mine.ptx"));
    let code = ".version 8.0\n.target sm_90\n.visible .entry k()\n{\n\tret; // end\n}\n";
    assert_eq!(fs::read_to_string(&ptx).unwrap(), code);
    let names = ["device/Cargo.toml", "device/src/lib.rs", "kernels/Cargo.toml", "kernels/src/lib.rs"];
    assert_eq!(read.into_iter().collect::<Vec<_>>(), names.map(|name| fixture.path(name)));

    let (ptx, _) = fixture.compile(&fixture.kernels().line_tables()).unwrap();
    assert_eq!(fs::read_to_string(&ptx).unwrap(), PTX);
}

/// Cargo sets the variables of build scripts, such as `CARGO_MANIFEST_DIR`, for tests too.
#[test]
fn compiler_runs_without_build_script_variables() {
    let fixture = Fixture::new(PTX);
    fixture.compile(&fixture.kernels()).unwrap();
    let log = fs::read_to_string(fixture.path("log")).unwrap();
    for part in [
        "rustc --release --target nvptx64-nvidia-cuda ",
        "-Zbuild-std=core",
        "--features fast",
        "\u{1f}-Ctarget-cpu=sm_90\u{1f}",
        "\u{1f}-Zverbose-asm ",
        &format!("rustc={} toolchain=1.2.3 in=", fixture.path("rustc").display()),
    ] {
        assert!(log.contains(part), "{part:?} is missing in {log}");
    }
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn compile_errors_are_one_line() {
    let fixture = Fixture::new(PTX);
    let none = "has no Cargo.toml of a package; give the folder of a crate of kernels";
    assert!(fixture.refused(&Kernels::new(fixture.path("none"))).ends_with(none));
    assert!(fixture.refused(&fixture.kernels().arch("90")).starts_with("arch `90` is not of the form"));
    assert!(fixture.refused(&fixture.kernels().arch("sm_75")).ends_with("nearest is sm_80"));
    fixture.write("kernels/src/broken", "");
    let broken = fixture.refused(&fixture.kernels());
    assert!(
        broken.ends_with("does not compile for sm_90 (the compiler's messages are above)"),
        "{broken}"
    );
    fs::remove_dir_all(fixture.path("sysroot")).unwrap();
    let missing = fixture.refused(&fixture.kernels());
    assert!(missing.ends_with("run `rustup component add rust-src --toolchain 1.2.3`"), "{missing}");
    fs::remove_file(fixture.path("rustc")).unwrap();
    assert!(fixture.refused(&fixture.kernels()).contains("rustc: No such file"));
}

#[test]
fn rejected_ptx_is_named_with_its_source_line() {
    let frame = ".local .align 4 .b8 frame[8];\n\tret;";
    let fixture = Fixture::new(&PTX.replace("ret;", frame));
    let path = fixture.path("out/mine/sm_90-fast/mine.s");
    assert_eq!(
        fixture.refused(&fixture.kernels()),
        format!(
            "{}:10: k: stack frame of 8 bytes, 0 allowed: `.local .align 4 .b8 frame[8]` (from \
             src/lib.rs:2:3)",
            path.display()
        )
    );
    let allowance = Allowance { local_bytes: 8, ..Allowance::default() };
    fixture.compile(&fixture.kernels().allow(allowance)).unwrap();
}

#[test]
fn the_sources_of_a_rule_may_have_spaces() {
    let sources: Vec<_> = sources("/out/libk.rlib: /a\\ b/src/lib.rs /c/src/x.rs\n").collect();
    assert_eq!(sources, [Path::new("/a b/src/lib.rs"), Path::new("/c/src/x.rs")]);
    assert_eq!(super::sources("").count(), 0);
}

#[test]
fn the_error_that_main_returns_is_shown_as_a_line() {
    let error = Error::NoBuildScript { variable: "OUT_DIR" };
    assert_eq!(format!("{error:?}"), "OUT_DIR is not set: call compile() in a build script (build.rs)");
}
