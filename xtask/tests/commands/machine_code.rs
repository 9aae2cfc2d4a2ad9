//! `compare --static`: the analysis of a file with every kind of access, with scripts in place of
//! `ptxas` and `nvdisasm` that replay the real tools' output; and with the real tools if they are
//! available.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use warpfold::internal::{self, PtxSource};
use warpfold_measure::{
    compare::machine_code::{Assembler, MachineCode, Resources, programs},
    workspace::Workspace,
};
use warpfold_suite::Arch;
use warpfold_suite_build::{machine::Machine, suite};

use crate::fake;

const PTX: &str = include_str!("machine_code/code.ptx");
const PTXAS_SAID: &str = include_str!("machine_code/ptxas.txt");
const NVDISASM_SAID: &str = include_str!("machine_code/nvdisasm.json");

const PTXAS: &str = r#"[ "$1" = --version ] && { echo "release 13.0, V$(cat "$ROOT/version")"; exit; }
echo "ptxas $*" >>"$ROOT/log"
grep -q broken code.ptx && { echo 'ptxas code.ptx, line 10; fatal   : Parsing error' >&2; echo 'ptxas fatal   : Ptx assembly aborted due to errors' >&2; exit 255; }
cp code.ptx code.cubin
cat "$ROOT/ptxas.txt" >&2"#;
const NVDISASM: &str = r#"[ "$1" = --version ] && { echo 'release 13.2, V13.2.86'; exit; }
echo "nvdisasm $*" >>"$ROOT/log"
[ -e "$ROOT/old" ] && { echo "nvdisasm fatal   : Unknown option '-json'" >&2; exit 1; }
[ -e code.cubin ] && cat "$ROOT/nvdisasm.json""#;

struct Fixture {
    folder: tempfile::TempDir,
    workspace: Workspace,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("machine code ").tempdir().unwrap();
        let root = folder.path();
        let workspace = fake::workspace(root, "", "");
        fs::create_dir_all(&workspace.target).unwrap();
        fake::program(root, "ptxas", PTXAS);
        fake::program(root, "nvdisasm", NVDISASM);
        fake::write(root, "version", "13.0.88");
        fake::write(root, "ptxas.txt", PTXAS_SAID);
        fake::write(root, "nvdisasm.json", NVDISASM_SAID);
        Self { folder, workspace }
    }

    fn machine(&self) -> Machine {
        let root = self.folder.path();
        Machine::empty(root).with("PATH", root.join("bin").display().to_string())
    }

    fn assemble(&self, ptx: &str) -> anyhow::Result<BTreeMap<String, MachineCode>> {
        let assembler = Assembler::find(&self.workspace, &self.machine())?;
        assembler.machine_code("llvm-tree", ptx, arch())
    }

    fn refused(&self, ptx: &str) -> String {
        format!("{:#}", self.assemble(ptx).unwrap_err())
    }

    fn calls(&self) -> Vec<String> {
        let log = self.folder.path().join("log");
        let text = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(log);
        text.lines().map(str::to_owned).collect()
    }

    fn kept(&self) -> usize {
        let folder = self.workspace.target.join("machine-code/sm_90");
        fs::read_dir(folder).map_or(0, Iterator::count)
    }
}

fn arch() -> Arch {
    "sm_90".parse().unwrap()
}

#[test]
fn every_kind_of_access_is_counted() {
    let entries = Fixture::new().assemble(PTX).unwrap();
    assert_eq!(entries.keys().collect::<Vec<_>>(), ["accesses", "engines", "together"]);

    let MachineCode { resources, instructions } = &entries["accesses"];
    let expected = Resources {
        registers: 28,
        static_shared_bytes: 512,
        stack_bytes: 512,
        barriers: 1,
        ..Resources::default()
    };
    assert_eq!(*resources, expected);
    // The listing has 88 instructions; 10 of padding and the branch to itself before them do not count.
    assert_eq!((instructions.total, instructions.code_bytes), (77, 1408));
    assert_eq!(instructions.global_loads.to_string(), "2×128 1×64 3×32 1×16 1×8");
    assert_eq!(instructions.global_stores.to_string(), "2×128 1×64 3×32 1×16 1×8");
    assert_eq!(instructions.shared_loads.to_string(), "1×128 2×32");
    assert_eq!(instructions.shared_stores.to_string(), "1×128 1×32");
    assert_eq!((instructions.local_loads, instructions.local_stores), (1, 3));
    assert_eq!((instructions.global_atomics, instructions.shared_atomics), (3, 3));
    assert_eq!((instructions.generic(), instructions.atomics()), (0, 6));
    assert_eq!((instructions.shuffles, instructions.warp_reductions, instructions.votes), (7, 1, 2));

    let MachineCode { resources, instructions } = &entries["together"];
    assert_eq!((resources.registers, resources.barriers, resources.stack_bytes), (14, 2, 0));
    // The kernel has 51 instructions. The called function has 4, a branch to itself, and 8 of padding.
    assert_eq!((instructions.total, instructions.code_bytes), (51 + 4, 1024));
    assert_eq!((instructions.block_barriers, instructions.warp_barriers), (4, 2));
    assert_eq!((instructions.cluster_barriers, instructions.fences), (2, 2));
    assert_eq!((instructions.shuffles, instructions.warp_reductions, instructions.votes), (2, 1, 1));
    assert_eq!(instructions.calls, 1);

    let MachineCode { resources, instructions } = &entries["engines"];
    assert_eq!(resources.static_shared_bytes, 4112);
    // A NOP between others is code; three of the four shared memory loads are never executed.
    assert_eq!((instructions.total, instructions.shared_loads.total()), (64, 1));
    assert_eq!((instructions.async_copies, instructions.bulk_copies), (2, 1));
    assert_eq!((instructions.mbarrier_operations, instructions.global_loads.total()), (4, 0));
    let generic =
        [instructions.generic_loads, instructions.generic_stores, instructions.generic_atomics];
    assert_eq!((generic, instructions.generic()), ([2, 2, 1], 5));
}

#[test]
fn ptx_is_assembled_again_only_after_a_change() {
    let fixture = Fixture::new();
    let first = fixture.assemble(PTX).unwrap();
    assert_eq!(
        fixture.calls(),
        ["ptxas -arch=sm_90 -v -o code.cubin code.ptx", "nvdisasm -json code.cubin"]
    );
    assert_eq!(fixture.assemble(PTX).unwrap(), first);
    assert!(fixture.calls().is_empty());

    fixture.assemble(&format!("{PTX}// other")).unwrap();
    assert_eq!((fixture.calls().len(), fixture.kept()), (2, 1));
    fake::write(fixture.folder.path(), "version", "13.0.99");
    fixture.assemble(&format!("{PTX}// other")).unwrap();
    assert_eq!((fixture.calls().len(), fixture.kept()), (2, 1));
}

#[test]
fn failures_are_one_line_and_keep_cached_results() {
    let fixture = Fixture::new();
    fixture.assemble(PTX).unwrap();
    assert_eq!(
        fixture.refused("broken"),
        "llvm-tree for sm_90: ptxas code.ptx, line 10; fatal   : Parsing error"
    );
    fake::write(fixture.folder.path(), "old", "");
    assert_eq!(
        fixture.refused("// other"),
        "llvm-tree for sm_90: nvdisasm fatal   : Unknown option '-json'; `cargo xtask doctor --fetch-cuda` fetches an nvdisasm that lists code as JSON"
    );
    assert_eq!(fixture.kept(), 1);
    fixture.calls();
    fixture.assemble(PTX).unwrap();
    assert!(fixture.calls().is_empty());
}

#[test]
fn output_cut_short_is_an_error() {
    let fixture = Fixture::new();
    fake::write(fixture.folder.path(), "nvdisasm.json", &NVDISASM_SAID[..1000]);
    let error = fixture.refused(PTX);
    assert!(
        error.starts_with("llvm-tree for sm_90: nvdisasm lists code in a form that is not understood: "),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn missing_programs_are_named_on_one_line_with_the_command() {
    let fixture = Fixture::new();
    let nothing = Machine::empty(fixture.folder.path());
    let names = ["nvcc", "ptxas", "nvdisasm"];
    assert_eq!(
        programs(&nothing, names).unwrap_err().to_string(),
        "no nvcc, no ptxas, no nvdisasm on the PATH or in a CUDA toolkit: `cargo xtask doctor --fetch-cuda` fetches them"
    );
    assert_eq!(
        programs(&fixture.machine(), names).unwrap_err().to_string(),
        "no nvcc on the PATH or in a CUDA toolkit: `cargo xtask doctor --fetch-cuda` fetches it"
    );
}

#[test]
fn real_ptxas_and_nvdisasm_output_is_parsed() {
    let workspace = Workspace::locate().unwrap();
    let machine = Machine::this(&workspace);
    if let Err(error) = programs(&machine, ["ptxas", "nvdisasm"]) {
        return suite::skip(&error.to_string());
    }
    let fixture = Fixture::new();
    let assembler = Assembler::find(&fixture.workspace, &machine).unwrap();
    let real = assembler.machine_code("llvm-tree", PTX, arch()).unwrap();
    if assembler.name() == "ptxas 13.0.88, nvdisasm 13.2.86" {
        assert_eq!(real, fixture.assemble(PTX).unwrap());
    }
    let loads = &real["accesses"].instructions.global_loads;
    assert_eq!([8, 16, 32, 64, 128].map(|bits| loads.of(bits)), [1, 1, 3, 1, 2]);
    assert_eq!(real["engines"].instructions.bulk_copies, 1);
    assert_eq!(real["together"].instructions.calls, 1);
}

/// Returns the numbers of the registers that a text names; a pair such as `R18.64` counts as its first.
fn registers(text: &str) -> Vec<u32> {
    let pieces = text.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(|name| {
        let number = name.strip_prefix('R').filter(|number| !number.is_empty())?;
        number.parse().ok()
    });
    pieces.collect()
}

/// Returns the longest run of global memory loads without an instruction that waits for one of them.
fn loads_under_way(listing: &[String]) -> usize {
    let (mut most, mut pending) = (0, Vec::<u32>::new());
    for line in listing {
        let Some((operation, operands)) = line.trim_start_matches('@').split_once("LDG") else {
            let read = line.split_once(',').map_or("", |(_, sources)| sources);
            if registers(read).iter().any(|register| pending.contains(register)) {
                pending.clear();
            }
            continue;
        };
        // A load writes up to four registers; only the first is named.
        assert!(!operation.contains("STG"), "{line}");
        let named = registers(operands);
        let (loaded, address) = (named[0], &named[1..]);
        if address.iter().any(|register| pending.contains(register)) {
            pending.clear();
        }
        // A register is loaded again only after its previous value has been waited for.
        if pending.contains(&loaded) {
            pending.clear();
        }
        pending.push(loaded);
        most = most.max(pending.len());
    }
    most
}

/// While the kernels for few rows shared an entry with other kernels, `ptxas` gave it 32 registers: the
/// other kernels had only one or two loads in flight, and rows of three elements took twice as long.
#[test]
fn loads_of_several_short_rows_are_in_flight_together() {
    let workspace = Workspace::locate().unwrap();
    let machine = Machine::this(&workspace);
    if let Err(error) = programs(&machine, ["ptxas", "nvdisasm"]) {
        return suite::skip(&error.to_string());
    }
    let assembler = Assembler::find(&workspace, &machine).unwrap();
    let ptx = internal::ptx(&PtxSource::Embedded, "reducer_rows_sum_f32", arch()).unwrap();
    let entries = assembler.assembled("rows", &ptx.text, arch()).unwrap();
    for (kernel, least) in [("groups", 3), ("elements", 3), ("few_groups", 4), ("few_elements", 4)] {
        let loads = loads_under_way(&entries[&format!("reducer_rows_sum_f32_{kernel}")].listing);
        assert!(loads >= least, "{kernel}: {loads} loads under way, not {least}");
    }
}

fn refused(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let output = command.arg("compare").args(args).current_dir(folder).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn wrong_argument_errors_list_allowed_values() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |args: &[&str]| refused(folder.path(), args);
    assert!(refused(&["--static", "--variant", "sequentail"]).contains("sequential"));
    assert!(refused(&["--static", "--dtype", "f23"]).contains("f32"));
    assert!(refused(&["--static", "--arch", "90"]).contains("sm_NN"));
    assert!(refused(&["--static", "--sim-n", "many"]).contains("2^20"));
    assert!(refused(&["--arch", "sm_90"]).contains("--static"));
}
