//! Fake rustup and package tools: scripts in a separate PATH.

use std::{io::Write, process::Stdio, thread};

use super::*;

struct Machine {
    folder: tempfile::TempDir,
}

/// Shell function that creates a complete library tree below the folder `$1`.
const MAKE: &str = "make() { mkdir -p \"$1/library\" && touch \"$1/library/Cargo.lock\"; }\n";

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("bin")).unwrap();
        Self { folder }
    }

    /// Adds a program that logs its calls; `$SYSROOT` is the toolchain's folder.
    fn program(&self, name: &str, script: &str) -> &Self {
        let (path, root) = (self.folder.path().join("bin").join(name), self.folder.path().display());
        let text = format!(
            "#!/bin/sh\nPATH=/usr/bin:/bin\nSYSROOT={root}/sysroot\n{MAKE}echo \"{name} $*\" >>{root}/log\n{script}\n"
        );
        // Another process writes the script: children of concurrent tests would inherit the open file,
        // and a file that is open for writing cannot be executed.
        let mut writer = Command::new("sh");
        writer.args(["-c", "cat >\"$0\" && chmod +x \"$0\""]).arg(&path).stdin(Stdio::piped());
        let mut writer = writer.spawn().unwrap();
        writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(writer.wait().unwrap().success());
        self
    }

    /// Adds the package tools, and a mirror with the given version in one suite.
    fn debian(&self, suite: &str, version: &str) -> &Self {
        self.program(
            "apt-get",
            &format!(
                "case \"$*\" in
                *indextargets*) echo http://mirror.example/debian-security/; echo http://mirror.example/debian/;;
                *update*) grep -q . \"${{2#*=}}\";;
                *download*) echo {version} >rust-src.deb;;
                esac"
            ),
        );
        let list =
            format!("echo ' rust-src | {version} | http://mirror.example/debian {suite}/main Packages'");
        self.program("apt-cache", &format!("case \"$*\" in *{suite}/*) {list};; esac"));
        self.program(
            "dpkg-deb",
            "cd \"$(mktemp -d)\" && make usr/src/rustc-1.2.3 && tar -c ./usr; rm -r \"$PWD\"",
        );
        self.program("tar", "exec /usr/bin/tar \"$@\"")
    }

    fn provision(&self) -> Provision {
        Provision {
            sysroot: self.folder.path().join("sysroot"),
            release: "1.2.3".to_owned(),
            path: Some(self.folder.path().join("bin").into()),
            limit: Duration::from_secs(20),
        }
    }

    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn left(&self) -> Vec<String> {
        let parent = self.folder.path().join("sysroot/lib/rustlib/src/rust");
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn lines(&self) -> Vec<String> {
        self.provision().run().unwrap_err().to_string().lines().map(str::to_owned).collect()
    }
}

const UNREACHABLE: &str = "echo 'info: syncing' >&2; echo 'error: could not download' >&2; exit 1";

#[test]
fn present_library_is_not_fetched() {
    let machine = Machine::new();
    machine.program("rustup", UNREACHABLE);
    let library = library(&machine.provision().sysroot);
    fs::create_dir_all(&library).unwrap();
    fs::write(library.join("Cargo.lock"), "").unwrap();
    machine.provision().run().unwrap();
    assert_eq!(machine.log(), [""; 0]);
}

#[test]
fn rustup_comes_first() {
    let machine = Machine::new();
    machine.program("rustup", "make \"$SYSROOT/lib/rustlib/src/rust\"").debian("sid", "1.2.3+dfsg1-1");
    machine.provision().run().unwrap();
    assert_eq!(machine.log(), ["rustup component add rust-src --toolchain 1.2.3"]);
}

#[test]
fn the_debian_package_is_sought_suite_by_suite() {
    let machine = Machine::new();
    machine.program("rustup", UNREACHABLE).debian("forky", "1.2.3+dfsg1-1");
    machine.provision().run().unwrap();
    assert!(has_library(&machine.provision().sysroot));
    assert_eq!(machine.left(), ["library"]);
    let log = machine.log();
    let programs: Vec<&str> = log.iter().map(|line| line.split(' ').next().unwrap()).collect();
    let looked = ["apt-cache", "apt-get", "apt-get", "apt-cache", "apt-get", "apt-cache"];
    // The last two programs run concurrently.
    assert_eq!(programs[..programs.len() - 2], [&["rustup"], &looked[..], &["apt-get"]].concat());
    assert!(machine.log().iter().any(|line| line.ends_with("download rust-src=1.2.3+dfsg1-1")));
}

#[test]
fn every_failed_source_is_reported() {
    let machine = Machine::new();
    machine.program("rustup", UNREACHABLE).debian("sid", "1.2.4+dfsg1-1");
    let lines = machine.lines();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(lines[0].starts_with("rust-src of rustc 1.2.3 is missing ("));
    assert_eq!(lines[1], "rustup component add rust-src: error: could not download");
    assert_eq!(
        lines[2],
        "debian package rust-src: configured sources: 1.2.3 is not available (available: none); \
         trixie-backports: 1.2.3 is not available (available: none); \
         forky: 1.2.3 is not available (available: none); \
         sid: 1.2.3 is not available (available: 1.2.4+dfsg1-1)"
    );
    assert!(lines[3].starts_with("by hand: unpack library/ of the rust 1.2.3 source release to "));
}

#[test]
fn without_any_tools_each_is_named() {
    let lines = Machine::new().lines();
    assert_eq!(lines[1], "rustup component add rust-src: rustup is not on the PATH");
    assert!(lines[2].contains("apt-get is not on the PATH"), "{}", lines[2]);
}

#[test]
fn a_download_that_breaks_leaves_nothing() {
    for (broken, script) in [
        (
            "apt-get",
            "case \"$*\" in *indextargets*) echo http://m.example/debian/;; *download*) echo part >rust-src.deb; exit 1;; esac",
        ),
        ("dpkg-deb", "echo 'not an archive'; exit 2"),
        ("dpkg-deb", "cd \"$(mktemp -d)\" && make usr/src/rustc-1.2.3 && tar -c ./usr; exit 2"),
        ("dpkg-deb", "cd \"$(mktemp -d)\" && mkdir -p usr/src/rustc-1.2.3/library && tar -c ./usr"),
    ] {
        let machine = Machine::new();
        machine.program("rustup", UNREACHABLE).debian("sid", "1.2.3+dfsg1-1").program(broken, script);
        let lines = machine.lines();
        assert!(!has_library(&machine.provision().sysroot), "{script}: {lines:#?}");
        assert_eq!(machine.left(), [""; 0], "{script}");
    }
}

#[test]
fn a_program_that_hangs_does_not_hold_up_the_next_way() {
    let machine = Machine::new();
    machine.program("rustup", "exec sleep 60").debian("sid", "1.2.3+dfsg1-1");
    let provision = Provision { limit: Duration::from_secs(2), ..machine.provision() };
    provision.run().unwrap();
}

#[test]
fn concurrent_installations_succeed() {
    let machine = Machine::new();
    machine.program("rustup", UNREACHABLE).debian("trixie-backports", "1.2.3+dfsg1-1");
    thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| machine.provision().run())).collect();
        for run in runs {
            run.join().unwrap().unwrap();
        }
    });
    assert_eq!(machine.left(), ["library"]);
}

#[test]
fn an_incomplete_library_is_named_not_removed() {
    let machine = Machine::new();
    machine.program("rustup", UNREACHABLE).debian("sid", "1.2.3+dfsg1-1");
    let library = library(&machine.provision().sysroot);
    fs::create_dir_all(library.join("core")).unwrap();
    let lines = machine.lines();
    assert!(lines[2].contains("exists but is incomplete"), "{}", lines[2]);
    assert!(library.join("core").is_dir());
}
