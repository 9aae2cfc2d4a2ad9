//! Unmodified CUDA programs compiled by nvcc, on simulated GPUs.

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        collections::HashSet,
        fs,
        os::unix::fs::symlink,
        path::{Path, PathBuf},
        process::{Command, Output},
        sync::OnceLock,
    };

    use object::Object;
    use warpfold_tests::root;

    struct Made {
        command: PathBuf,
        folder: tempfile::TempDir,
    }

    const RUNTIME: &str = "tests/programs/runtime.cu";
    const PLANTED: &str = "tests/programs/planted.cu";

    /// Programs and compiler flags: PTX with the shared runtime, machine code and PTX with NVIDIA's
    /// static one, as nvcc does by default, and machine code alone; and the wrong kernels with line
    /// information.
    const KINDS: [(&str, &str, &[&str]); 4] = [
        ("shared", RUNTIME, &["-arch=compute_90", "-cudart", "shared"]),
        ("static", RUNTIME, &["-arch=sm_90"]),
        ("machine", RUNTIME, &["-gencode=arch=compute_90,code=sm_90", "-cudart", "shared"]),
        ("planted", PLANTED, &["-arch=compute_90", "-lineinfo", "-cudart", "shared"]),
    ];

    fn made() -> Option<&'static Made> {
        static MADE: OnceLock<Option<Made>> = OnceLock::new();
        MADE.get_or_init(|| match warpfold_suite_build::suite::nvcc() {
            Ok((_, libraries)) => Some(make(libraries.as_deref())),
            Err(error) => {
                warpfold_suite_build::suite::skip(&format!("{error:#}"));
                None
            }
        })
        .as_ref()
    }

    fn make(libraries: Option<&Path>) -> Made {
        let workspace = warpfold_suite_build::workspace::Workspace::locate().unwrap();
        let built = xtask::build_sim::ensure(&workspace, false).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (name, source, flags) in KINDS {
            let (mut nvcc, _) = warpfold_suite_build::suite::nvcc().unwrap();
            nvcc.args(["-std=c++17", "-o"]).arg(folder.path().join(name)).args(flags);
            nvcc.arg(root().join(source));
            if let Some(libraries) = libraries {
                // CUDA from PyPI lacks this name, by which nvcc finds the shared library.
                let link = folder.path().join("libcudart.so");
                if !link.exists() {
                    symlink(libraries.join("libcudart.so.13"), &link).unwrap();
                }
                nvcc.arg("-L").arg(folder.path()).arg("-L").arg(libraries);
            }
            let output = nvcc.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        Made { command: built.join("warpfold-sim"), folder }
    }

    impl Made {
        fn program(&self, kind: &str) -> PathBuf {
            self.folder.path().join(kind)
        }

        fn run(&self, arguments: &[&str], kind: &str, rest: &[&str]) -> Output {
            let mut command = Command::new(&self.command);
            command.args(arguments).arg(self.program(kind)).args(rest);
            command.output().unwrap()
        }
    }

    fn said(output: &Output) -> (String, String) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }

    #[test]
    fn unmodified_cuda_runtime_program_runs() {
        let Some(made) = made() else { return };
        runs_the_runtime_program(made, "shared", "libcudart: cudaMallocMipmappedArray is not supported");
    }

    /// NVIDIA's static runtime asks the driver for private tables, and checks that it is the right one.
    #[test]
    fn program_with_the_static_runtime_runs() {
        let Some(made) = made() else { return };
        runs_the_runtime_program(
            made,
            "static",
            "warpfold-sim: cuMipmappedArrayCreate is not simulated",
        );
    }

    fn runs_the_runtime_program(made: &Made, kind: &str, unsupported: &str) {
        let output = made.run(&["exec", "--gpus", "2"], kind, &[]);
        let (out, err) = said(&output);
        let lines: Vec<&str> = out.lines().collect();
        let expected = [
            "constant memory and a kernel",
            "streams, events and pools",
            "freed behind a kernel",
            "variables",
            "managed memory",
            "rows",
            "a graph",
            "a graph that changes",
            "a graph that allocates and decides",
            "blocks that meet",
            "block 0 says hello 1.50",
            "block 1 says hello 1.50",
            "two devices",
            "errors",
            "all of it",
        ];
        let (mut sorted, mut wanted) = (lines.clone(), expected.to_vec());
        // The order of the kernels' output is not defined.
        sorted.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(sorted, wanted, "{out}{err}");
        assert!(output.status.success(), "{out}{err}");
        // Refused calls and missing features, reported once each.
        let refused = [
            "launch of `scale(float*, int)`: block.x is 1025, allowed is 1 to 1024",
            "launch of `scale(float*, int)`: grid.x is 0, allowed is 1 to 2147483647",
            "launch of `bounded()`: 65 threads per block, allowed are at most 64",
        ];
        let mut expected: Vec<String> =
            refused.iter().map(|what| format!("warpfold-sim: cuLaunchKernel: {what}")).collect();
        expected.push(unsupported.to_owned());
        let unfreed = "warpfold-sim: cuGraphLaunch: the graph's allocation at 0x";
        let (of_memory, rest): (Vec<&str>, Vec<&str>) =
            err.lines().partition(|line| line.starts_with(unfreed));
        assert!(matches!(of_memory[..], [line] if line.contains("has not been freed since")), "{err}");
        let (totals, rest) = rest.split_last().unwrap();
        assert!(totals.starts_with("warpfold-sim: 23 launches of 9 kernels, "), "{err}");
        assert_eq!(rest, expected);
    }

    #[test]
    fn faulting_thread_is_reported_as_the_programs_error() {
        let Some(made) = made() else { return };
        for kind in ["shared", "static"] {
            reports_the_faulting_thread(made, kind);
        }
    }

    fn reports_the_faulting_thread(made: &Made, kind: &str) {
        let output = made.run(&["exec"], kind, &["fault"]);
        let (out, err) = said(&output);
        assert_eq!(out, "cudaErrorIllegalAddress, then cudaErrorIllegalAddress\n", "{err}");
        assert_eq!(output.status.code(), Some(3));
        let wanted =
            ["kernel `scale(float*, int)`, block (0, 0, 0), thread (", "ld.global.f32", "address 0x40"];
        assert!(wanted.iter().all(|word| err.contains(word)), "{err}");
        assert!(err.lines().nth(1).is_some_and(|line| line.ends_with("; 1 failed")), "{err}");
        assert_eq!(err.lines().count(), 2, "{err}");
    }

    /// A GPU's allocations are multiples of 512 bytes, so accesses past the requested size go unnoticed.
    #[test]
    fn allocations_are_exact_or_rounded_as_on_a_gpu() {
        let Some(made) = made() else { return };
        let (out, err) = said(&made.run(&["exec"], "shared", &["behind"]));
        assert_eq!(out, "cudaErrorIllegalAddress\n", "{err}");
        let says = "it ends 4 bytes past the end of the buffer of argument 0, 4 bytes at 0x";
        assert!(err.contains(says), "{err}");
        let (out, err) = said(&made.run(&["exec", "--round", "512"], "shared", &["behind"]));
        assert_eq!(
            (&*out, &*err),
            ("cudaSuccess\n", "warpfold-sim: 1 launch of 1 kernel, 17 warp instructions\n")
        );
        let output = made.run(&["exec", "--round", "3"], "shared", &["behind"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).1.contains("--round is 3; give a power of two"), "{output:?}");
    }

    /// A kernel that is wrong on purpose: name, faulty line, and the rules by which it may be found.
    struct Planted {
        name: String,
        line: usize,
        rules: Vec<String>,
    }

    fn planted() -> Vec<Planted> {
        let source = fs::read_to_string(root().join(PLANTED)).unwrap();
        let marked = source.lines().zip(1..).filter_map(|(text, line)| {
            let mut words = text.split_once("// BUG ")?.1.split_whitespace().map(str::to_owned);
            Some(Planted { name: words.next()?, line, rules: words.collect() })
        });
        marked.collect()
    }

    #[test]
    fn each_wrong_kernel_is_found_at_its_line() {
        let Some(made) = made() else { return };
        let planted = planted();
        assert!(planted.len() >= 10);
        for Planted { name, line, rules } in &planted {
            let output = made.run(&["exec", "--strict", "--steps", "100000"], "planted", &[name]);
            let (_, err) = said(&output);
            assert!(!output.status.success(), "{name}: {err}");
            let place = format!("{}:{line}:", root().join(PLANTED).display());
            for rule in rules {
                let rule = [format!("[{rule}]"), format!("[{rule}, a warning]")];
                let is_found = |line: &str| {
                    line.starts_with(&place) && rule.iter().any(|rule| line.ends_with(rule))
                };
                assert!(err.lines().any(is_found), "{name}: no {} at {place} in {err}", rule[0]);
            }
            // No findings other than the planted fault and its consequences.
            let strangers = err.lines().filter(|line| line.contains("kernel `"));
            let kernel = format!("kernel `void {name}<false>(");
            assert!(strangers.clone().all(|line| line.contains(&kernel)), "{name}: {err}");
        }
    }

    #[test]
    fn corrected_kernels_have_no_findings() {
        let Some(made) = made() else { return };
        let (out, err) = said(&made.run(&["exec", "--check"], "planted", &["right"]));
        assert_eq!(out, "");
        let starts = "warpfold-sim: 14 launches of 14 kernels, ";
        assert!(err.starts_with(starts) && err.lines().count() == 1, "{err}");
        for seed in ["1", "2", "3"] {
            let output = made.run(&["exec", "--check", "--seed", seed], "planted", &["right"]);
            assert!(output.status.success(), "seed {seed}: {}", said(&output).1);
        }
    }

    #[test]
    fn findings_can_be_suppressed_exported_and_explained() {
        let Some(made) = made() else { return };
        let known = made.folder.path().join("known");
        let log = made.folder.path().join("found.sarif");
        fs::write(&known, "no-acquire kernel=*ticketed* file=*/planted.cu # as NVIDIA's samples\n")
            .unwrap();
        let [known, log] = [&known, &log].map(|path| path.to_str().unwrap());
        let options = ["exec", "--check", "--suppress", known, "--sarif", log];
        let output = made.run(&options, "planted", &["ticketed"]);
        assert!(output.status.success() && said(&output).1.contains(" suppressed"), "{output:?}");
        let log = fs::read_to_string(log).unwrap();
        assert!(log.contains("\"justification\": \"as NVIDIA's samples\""), "{log}");
        let (_, err) = said(&made.run(&["exec", "--explain"], "planted", &["tree"]));
        let line = err.lines().find(|line| line.ends_with("// BUG tree read-write-race"));
        assert!(err.contains("void tree<false>(float const*, float*, int): 1 launch"), "{err}");
        assert!(line.is_some_and(|line| !line.starts_with("        ")), "{err}");
        // The program's own exit status is kept if it signals an error.
        let output = made.run(&["exec", "--check"], "shared", &["fault"]);
        assert_eq!(output.status.code(), Some(3));
    }

    #[test]
    fn a_whole_program_passes_the_checks() {
        let Some(made) = made() else { return };
        let output = made.run(&["exec", "--check", "--gpus", "2"], "shared", &[]);
        let (out, err) = said(&output);
        assert!(out.contains("all of it"), "{out}{err}");
        assert!(!err.contains("[read-write-race]") && !err.contains("[unwritten"), "{err}");
    }

    #[test]
    fn unsupported_programs_give_the_reason() {
        let Some(made) = made() else { return };
        let output = made.run(&["exec", "--gpus", "2"], "machine", &[]);
        assert_eq!(output.status.code(), Some(1));
        let (out, err) = said(&output);
        assert!(err.contains("machine code for sm_90") && err.contains("-arch=compute_90"), "{err}");
        assert!(out.contains("cudaErrorNoKernelImageForDevice"), "{out}");
    }

    #[test]
    fn the_kernels_of_a_program_are_shown() {
        let Some(made) = made() else { return };
        for kind in ["shared", "static"] {
            let output = made.run(&["ls"], kind, &[]);
            let (out, err) = said(&output);
            assert!(output.status.success() && err.is_empty(), "{output:?}");
            assert!(out.starts_with("PTX 9.0 for sm_90\n"), "{out}");
            for kernel in ["= scale(float*, int) (8 bytes, 4 bytes)", "void sum<double>(", "= say()"] {
                assert!(out.contains(kernel), "{out}");
            }
        }
        let output = made.run(&["ls"], "machine", &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).1.contains("machine code for sm_90"), "{output:?}");
    }

    #[test]
    fn a_kernel_of_a_program_runs_alone() {
        let Some(made) = made() else { return };
        let run = ["run", "--kernel", "count", "--block", "32", "--grid", "2"];
        let output = made.run(&run, "shared", &[]);
        assert!(output.status.success(), "{output:?}");
        let run = ["run", "--kernel", "scale"];
        let few = made.run(&run, "shared", &["--arg", "n:u32=1"]);
        assert_eq!(few.status.code(), Some(2));
        assert!(said(&few).1.contains("has 2 parameters, but 1 are given"), "{few:?}");
    }

    /// A Rust program that uses the CUDA driver through cudarc, which loads the driver at run time.
    #[test]
    fn unmodified_cudarc_program_runs() {
        let Some(made) = made() else { return };
        for options in [&["exec"][..], &["exec", "--check"], &["exec", "--seed", "7"]] {
            let output = Command::new(&made.command)
                .args(options)
                .arg(env!("CARGO_BIN_EXE_cudarc_client"))
                .output()
                .unwrap();
            let (out, err) = said(&output);
            assert_eq!(out, "sum of 1000 is 499500\n", "{err}");
            assert!(
                err.starts_with("warpfold-sim: 1 launch of 1 kernel, ") && err.lines().count() == 1,
                "{err}"
            );
            assert!(output.status.success());
        }
    }

    /// A process that is killed does not report at its end.
    #[test]
    fn launches_of_a_killed_process_are_counted() {
        let Some(made) = made() else { return };
        let mut command = Command::new(&made.command);
        let output =
            command.args(["exec", env!("CARGO_BIN_EXE_cudarc_client"), "abort"]).output().unwrap();
        let (out, err) = said(&output);
        assert_eq!((&*out, output.status.code()), ("sum of 1000 is 499500\n", Some(128 + 6)));
        assert!(err.starts_with("warpfold-sim: 1 launch of 1 kernel, "), "{err}");
    }

    /// cudarc, and with it cubecl, burn and candle, looks up every function of the newest driver at its
    /// start.
    #[test]
    fn the_driver_library_has_every_function_that_cudarc_declares() {
        let workspace = warpfold_suite_build::workspace::Workspace::locate().unwrap();
        let built = xtask::build_sim::ensure(&workspace, false).unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(root()).args(["metadata", "--locked", "--format-version", "1"]);
        let metadata: serde_json::Value =
            serde_json::from_slice(&cargo.output().unwrap().stdout).unwrap();
        let mut packages = metadata["packages"].as_array().unwrap().iter();
        let cudarc = packages.find(|package| package["name"] == "cudarc").unwrap();
        let manifest = Path::new(cudarc["manifest_path"].as_str().unwrap());
        let source = fs::read_to_string(manifest.with_file_name("src/driver/sys/mod.rs")).unwrap();
        let declared = source.split("pub unsafe fn ").skip(1).filter_map(|rest| rest.split('(').next());
        let is_of_driver = |name: &&str| {
            name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(char::is_uppercase))
        };
        let declared: Vec<&str> = declared.filter(is_of_driver).collect();
        assert!(declared.len() > 500, "{} functions", declared.len());
        assert_exports(&built, declared.into_iter());
    }

    /// Asserts that the simulator's driver library exports functions.
    fn assert_exports<N: AsRef<str> + std::fmt::Debug>(
        built: &Path,
        functions: impl Iterator<Item = N>,
    ) {
        let library = fs::read(built.join("lib/libcuda.so.1")).unwrap();
        let exports = object::File::parse(&*library).unwrap().exports().unwrap();
        let exported: HashSet<&[u8]> = exports.iter().map(object::Export::name).collect();
        let absent: Vec<_> =
            functions.filter(|name| !exported.contains(name.as_ref().as_bytes())).collect();
        assert!(absent.is_empty(), "the simulator's libcuda.so.1 does not export {absent:?}");
    }

    /// With `CUDA_API_PER_THREAD_DEFAULT_STREAM`, `cuda.h` replaces the names of functions by others.
    #[test]
    fn programs_for_the_default_streams_of_threads_are_linked() {
        let Some(made) = made() else { return };
        let (nvcc, _) = warpfold_suite_build::suite::nvcc().unwrap();
        let toolkit = Path::new(nvcc.get_program()).ancestors().nth(2).unwrap();
        let header = fs::read_to_string(toolkit.join("include/cuda.h")).unwrap();
        let name = |line: &str| {
            let (_, replacement) =
                line.trim_start().strip_prefix("#define cu")?.split_once("__CUDA_API_")?;
            let (form, name) = replacement.split_once('(')?;
            Some(format!("{}_{}", name.strip_suffix(')')?, form.to_lowercase()))
        };
        let names: Vec<String> = header.lines().filter_map(name).collect();
        assert!(names.len() > 80, "{names:?}");
        assert_exports(made.command.parent().unwrap(), names.iter());
        let source = "#include <cuda.h>
            #include <stdio.h>
            int main() {
              CUdevice device; CUcontext context; CUdeviceptr memory; unsigned values[4] = {0};
              unsigned long long own = 0, thread = 1, legacy = 2;
              cuInit(0); cuDeviceGet(&device, 0);
              cuDevicePrimaryCtxRetain(&context, device); cuCtxSetCurrent(context);
              cuMemAlloc(&memory, 16); cuMemsetD32(memory, 7, 4); cuMemcpyDtoH(values, memory, 16);
              cuStreamGetId(0, &own); cuStreamGetId(CU_STREAM_PER_THREAD, &thread);
              cuStreamGetId(CU_STREAM_LEGACY, &legacy);
              printf(\"%u %d %d\", values[3], own == thread, own == legacy);
            }";
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("streams.c"), source).unwrap();
        let run = |flag: &str| {
            let script = format!("cc {flag} -I$0 streams.c -o streams -lcuda && ./streams");
            let mut command = Command::new(&made.command);
            command.args(["exec", "--allow-no-launch", "--", "sh", "-c", &script]);
            let output =
                command.arg(toolkit.join("include")).current_dir(folder.path()).output().unwrap();
            said(&output).0
        };
        assert_eq!(run("-DCUDA_API_PER_THREAD_DEFAULT_STREAM"), "7 1 0");
        assert_eq!(run(""), "7 0 1");
    }

    #[test]
    fn lines_and_branches_of_a_program_are_covered() {
        let Some(made) = made() else { return };
        let file = made.folder.path().join("coverage");
        let options = ["exec", "--coverage", file.to_str().unwrap()];
        let output = made.run(&options, "planted", &["tree"]);
        assert!(output.status.success(), "{output:?}");
        let text = fs::read_to_string(file).unwrap();
        let source = fs::read_to_string(root().join(PLANTED)).unwrap();
        let record = text.split("end_of_record\n").find(|record| record.contains("planted.cu\n"));
        let lines = record.unwrap().lines().filter_map(|line| line.strip_prefix("DA:")?.split_once(','));
        let lines: Vec<(usize, u64)> =
            lines.map(|(line, threads)| (line.parse().unwrap(), threads.parse().unwrap())).collect();
        let start = source.lines().position(|line| line.contains("void tree(")).unwrap() + 1;
        assert!(
            lines.len() > 4 && lines.iter().all(|(line, _)| (start..start + 14).contains(line)),
            "{text}"
        );
        assert!(lines.iter().any(|(_, threads)| *threads > 0), "{text}");
        assert!(text.contains("BRDA:"), "{text}");
    }

    #[test]
    fn a_program_that_launches_nothing_does_not_succeed() {
        let workspace = warpfold_suite_build::workspace::Workspace::locate().unwrap();
        let built = xtask::build_sim::ensure(&workspace, false).unwrap();
        let exec = |options: &[&str]| {
            let mut command = Command::new(built.join("warpfold-sim"));
            command.arg("exec").args(options).output().unwrap()
        };
        let output = exec(&["true"]);
        assert_eq!(output.status.code(), Some(2));
        let says = "warpfold-sim: true launched no kernel on a simulated GPU; if that is right, give \
                    --allow-no-launch\n";
        assert_eq!(said(&output).1, says);
        let output = exec(&["--allow-no-launch", "true"]);
        assert_eq!(output.status.code(), Some(0));
        let says = "warpfold-sim: 0 launches of 0 kernels, 0 warp instructions\n";
        assert_eq!(said(&output).1, says);
        // The program's own exit status is kept.
        assert_eq!(exec(&["false"]).status.code(), Some(1));
    }

    /// Linkers find the simulator as `-lcuda`, without a CUDA toolkit, and so do build scripts that read
    /// `CUDA_LIBRARY_PATH`.
    #[test]
    fn programs_that_a_program_compiles_are_linked_with_the_simulator() {
        let Some(made) = made() else { return };
        let folder = tempfile::tempdir().unwrap();
        let source = "#include <stdio.h>\n\
            int cuInit(unsigned), cuDeviceGetCount(int *);\n\
            int main() { int n = 0; cuInit(0); cuDeviceGetCount(&n); printf(\"%d\\n\", n); }\n";
        fs::write(folder.path().join("count.c"), source).unwrap();
        let run = |script: &str| {
            let mut command = Command::new(&made.command);
            command.args(["exec", "--gpus", "3", "--allow-no-launch", "--", "sh", "-c", script]);
            command.current_dir(folder.path()).env_remove("CUDA_LIBRARY_PATH").output().unwrap()
        };
        let output = run("cc count.c -o count -lcuda -lcudart && ./count");
        assert_eq!(said(&output).0, "3\n", "{output:?}");
        let output = run("cat $CUDA_LIBRARY_PATH/lib64/libcuda.so");
        assert_eq!(said(&output).0, "INPUT(libcuda.so.1)\n", "{output:?}");
    }

    /// Taichi, cudarc and others open the driver without its version. Both names are one library: a
    /// call by one has its effect for the other.
    #[test]
    fn libraries_are_opened_without_their_versions() {
        let Some(made) = made() else { return };
        let folder = tempfile::tempdir().unwrap();
        let source = "#include <dlfcn.h>\n#include <stdio.h>\n\
            int main() {\n\
            void *driver = dlopen(\"libcuda.so\", RTLD_NOW), *runtime = dlopen(\"libcudart.so\", RTLD_NOW);\n\
            int (*init)(int) = dlsym(driver, \"cuInit\");\n\
            printf(\"%d\", init == dlsym(dlopen(\"libcuda.so.1\", RTLD_NOW), \"cuInit\"));\n\
            int (*free)(void *) = dlsym(runtime, \"cudaFree\");\n\
            printf(\"%d\", free(0) == 0);\n\
            int (*ask)(int *, int, void *) = dlsym(driver, \"cuPointerGetAttribute\");\n\
            int kind;\n\
            printf(\"%d\\n\", ask(&kind, 2, &kind)); }\n";
        let file = folder.path().join("open");
        fs::write(file.with_extension("c"), source).unwrap();
        let compile = Command::new("cc").arg(file.with_extension("c")).arg("-o").arg(&file).status();
        assert!(compile.unwrap().success());
        let mut command = Command::new(&made.command);
        let output = command.args(["exec", "--allow-no-launch", "--"]).arg(&file).output().unwrap();
        let (printed, told) = said(&output);
        assert_eq!(printed, "111\n", "{output:?}");
        // That an address is not the driver's is an answer, and no failure to print.
        assert!(!told.contains("cuPointerGetAttribute"), "{output:?}");
    }

    /// The simulator's libraries are in the folder `lib` beside its program.
    #[test]
    fn the_libraries_have_the_versions_that_programs_ask_for() {
        let Some(made) = made() else { return };
        let library = made.command.parent().unwrap().join("lib/libcudart.so.13");
        let bytes = fs::read(library).unwrap();
        let version = b"libcudart.so.13\0";
        assert!(bytes.windows(version.len()).any(|window| window == version));
        // If a library has no symbol versions, the dynamic linker warns on stderr each time.
        let output = made.run(&["exec"], "shared", &["fault"]);
        assert!(!said(&output).1.contains("no version information"), "{output:?}");
    }
}
