//! The machine, date and method of a timing.

use std::{
    env, fs,
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use warpfold_suite::{DeviceInfo, PtxStore, catalogue, cpu};

use super::{
    peers::{Peer, Peers},
    record::Machine,
};
use crate::process;

pub(super) fn method(options: crate::contest::Options) -> String {
    format!(
        "Kernels, CUB and an empty launch take turns in one process and on one stream, forwards and \
         backwards by the round, {} rounds; what takes long sits out some. Device events stand around \
         each run. All read copies of the same random elements, rotated past the L2 cache, with the same \
         block and grid for a Rust kernel by either code generator and its twin; temporary storage is \
         allocated before. Results are checked before the timing, and the last timed ones after it. Ratios are taken round by \
         round. A graph is {} runs of one contender on rotated inputs in one CUDA graph, its time divided \
         by their number; there the reducer's launches overlap from sm_90 on, each reading its input while \
         the one before it ends. PyTorch is another process, which cannot take turns run by run: it is timed in \
         {} slices between the others', on random elements of the same kind, rotated likewise.",
        options.rounds,
        crate::contest::GRAPH_RUNS,
        options.slices
    )
}

pub(super) fn describe(device: &DeviceInfo, peers: &Peers, options: crate::contest::Options) -> Machine {
    let compiler = |wanted| {
        let (_, store) = peers.kernels.iter().find(|(peer, _)| *peer == wanted)?;
        compiler(store, device)
    };
    Machine {
        gpu: device.name.clone(),
        arch: device.arch.to_string(),
        driver: driver(),
        cuda: device.driver.map(|(major, minor)| format!("{major}.{minor}")),
        cpu: cpu::processor_name(),
        peak_gbps: device.peak_bandwidth.map(|peak| peak / 1e9),
        multiprocessors: device.multiprocessors,
        l2_bytes: device.l2_bytes,
        rustc: compiler(Peer::RustLlvm),
        nvvm: compiler(Peer::RustNvvm),
        nvcc: compiler(Peer::CudaC),
        cub: peers.cub.as_ref().map(|cub| cub.version()),
        torch: peers.torch.as_ref().map(|torch| torch.version().to_owned()),
        date: utc(SystemTime::now()),
        command: command(env::args()),
        method: method(options),
    }
}

/// Returns the compiler named in the first lines of the PTX.
fn compiler(store: &PtxStore, device: &DeviceInfo) -> Option<String> {
    let file = catalogue::kernels().find_map(|variant| store.find(variant.id, device).ok())?;
    named_in(&file.text)
}

fn named_in(ptx: &str) -> Option<String> {
    let lines = ptx.lines().take_while(|line| line.starts_with("//"));
    lines.filter_map(|line| line.strip_prefix("// compiler: ")).next().map(str::to_owned)
}

/// Returns the GPU driver's release, from the kernel module or else from nvidia-smi.
fn driver() -> Option<String> {
    let module = fs::read_to_string("/proc/driver/nvidia/version").ok();
    module.as_deref().and_then(release).or_else(|| {
        let query = ["--query-gpu=driver_version", "--format=csv,noheader"];
        let asked =
            process::run(Command::new("nvidia-smi").args(query), Duration::from_secs(10)).ok()?;
        release(&asked.success().ok()?)
    })
}

/// Returns the first release number in a text: `580.159.04`.
fn release(text: &str) -> Option<String> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_release = |word: &&str| word.contains('.') && word.split('.').all(is_number);
    text.split_whitespace().find(is_release).map(str::to_owned)
}

pub(crate) fn command(arguments: impl Iterator<Item = String>) -> String {
    ["cargo xtask".to_owned()].into_iter().chain(arguments.skip(1)).collect::<Vec<_>>().join(" ")
}

/// Formats a time in UTC, to the second: `2026-11-21T04:05:06Z`.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn date(mut days: u64) -> (u64, u64, u64) {
    let leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 0;
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpfold_suite::{Codegen, Device, Selection};

    #[test]
    fn times_are_formatted_in_utc() {
        // Expected values from `date -u -d @…`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (1_795_234_506, "2026-11-21T04:15:06Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn driver_version_is_parsed() {
        for (text, wanted) in [
            (
                "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Mon Aug 25\nGCC version: gcc 12.3.0\n",
                Some("580.159.04"),
            ),
            (
                "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n",
                Some("570.86.15"),
            ),
            ("580.65.06\n", Some("580.65.06")),
            ("no version.", None),
        ] {
            assert_eq!(release(text).as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn compiler_is_read_from_the_ptx() {
        let ptx =
            "// warpfold ptx 1\n// compiler: rustc 1.95.0 / LLVM 22\n.version 8.0\n// compiler: no\n";
        assert_eq!(named_in(ptx).as_deref(), Some("rustc 1.95.0 / LLVM 22"));
        assert_eq!(named_in(".version 8.0\n// compiler: no\n"), None);
    }

    /// The code generators use two compilers; each PTX names its own.
    #[test]
    fn every_code_generator_has_its_own_compiler() {
        let folder = tempfile::tempdir().unwrap();
        let store = |codegen: Codegen, compiler: &str| {
            let place = folder.path().join(codegen.name()).join("sm_90");
            fs::create_dir_all(&place).unwrap();
            let text = format!("// warpfold ptx 1\n// compiler: {compiler}\n.version 8.0\n");
            fs::write(place.join("sequential.ptx"), text).unwrap();
            PtxStore::at(folder.path(), Some(codegen)).unwrap()
        };
        let kernels = vec![
            (Peer::RustLlvm, store(Codegen::Llvm, "rustc 1.95.0")),
            (Peer::RustNvvm, store(Codegen::Nvvm, "rustc 1.96.0, rust-cuda")),
        ];
        let device = Device::open(Selection::Sim).unwrap();
        let of = |kernels: &[(Peer, PtxStore)]| {
            let peers = Peers { kernels: kernels.to_vec(), ..Peers::default() };
            let Machine { rustc, nvvm, nvcc, .. } =
                describe(device.info(), &peers, crate::contest::Options::default());
            [rustc, nvvm, nvcc]
        };
        let [llvm, nvvm] = ["rustc 1.95.0", "rustc 1.96.0, rust-cuda"].map(|name| Some(name.to_owned()));
        assert_eq!(of(&kernels), [llvm, nvvm.clone(), None]);
        assert_eq!(of(&kernels[1..]), [None, nvvm, None]);
    }

    #[test]
    fn command_is_recorded_as_cargo_xtask() {
        let arguments = ["target/debug/xtask", "compare", "--quick"].map(String::from);
        assert_eq!(command(arguments.into_iter()), "cargo xtask compare --quick");
    }
}
