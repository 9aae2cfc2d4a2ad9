#!/usr/bin/env bash
# Runs the test suite, compute-sanitizer and the catalogue of Rust kernels and CUDA C twins on a GPU
# machine, from the repository's root, with the folder .gpu/ that scripts/gpu/pack.sh makes. SETS names
# the sets to run, by default all, in this order:
#   tests     the test binaries
#   sanitize  the four tools of compute-sanitizer over every variant, JOBS at a time [12], with each type of
#             TYPES [i32 f32 f64]
#   refusals  PTX that the driver rejects, and launches that are too large
#   run       every variant, type and operation, with checked results
#   twins     the same for the twins, and two other uses of the binaries
#   results   catalogue.jsonl: a line that describes the machine, then one JSON object per timed run
# VARIANTS names the variants of `sanitize` and `results`, by default all. CODEGEN=llvm or nvvm selects the
# code generator of the PTX. Everything is written to $OUT. Exits with 1 if anything fails.
source "$(dirname "$0")/common.sh"
codegen=${CODEGEN:-llvm}

# All variants that run on the GPU, each with its types among TYPES.
cases=$($xtask run --list --json | TYPES=${TYPES:-i32 f32 f64} python3 -c '
import json, os, sys
chosen, types = os.environ.get("VARIANTS", "").split(), os.environ["TYPES"].split()
for row in json.load(sys.stdin):
    if row["family"] != "cpu" and (not chosen or row["id"] in chosen):
        print(row["id"], *[dtype for dtype in row["dtypes"] if dtype in types])')

set_tests() { tests; }

# Runs one tool on one variant and type. Prints its exit status and its output at once, because several run in parallel.
sanitize() {
    local log status tool=$1 id=$2 dtype=$3
    shift 3
    log=$(timeout 240 compute-sanitizer --tool "$tool" --error-exitcode 3 \
        .gpu/bin/"$id" --n 65537 --dtype "$dtype" --codegen "$codegen" --device "$device" --iters 0 "$@" 2>&1)
    status=$?
    echo "-- $tool $id $dtype $*: $status
$log"
}

# Runs several at a time, because most of the time of a run is the start of the tool.
set_sanitize() {
    local log=$out/sanitize-catalogue.log clean all
    command -v compute-sanitizer >/dev/null || { fail "no compute-sanitizer on the PATH"; return; }
    export -f sanitize
    export codegen device
    for tool in memcheck racecheck synccheck initcheck; do
        while read -r id types; do
            for type in $types; do
                echo "$tool $id $type"
                # At this size the reducer selects only the other kernel by itself.
                [ "$id" != reducer ] || echo "$tool $id $type --kernel bulk"
            done
        done <<<"$cases"
    done | xargs -P "${JOBS:-12}" -L 1 bash -c 'sanitize "$@"' - >"$log"
    grep -E '^-- .*: [1-9][0-9]*$' "$log" && fail "compute-sanitizer reported errors or timed out (124)"
    clean=$(grep -cE '^-- .*: 0$' "$log") all=$(grep -cE '^-- .*: [0-9]+$' "$log")
    # A run without a summary has not executed the kernel.
    [ "$(grep -cE 'SUMMARY: 0 (errors|hazards)' "$log")" = "$all" ] || fail "runs without a summary"
    echo "$clean of $all runs without errors, PTX by $codegen"
}

# PTX of a version that the driver does not support, and PTX with an invalid instruction: each must exit with 2.
set_refusals() {
    local change bad=$out/bad
    for change in 's/^.version .*/.version 99.9/' 's/bar.sync/bar.sink/'; do
        rm -rf "$bad" && mkdir -p "$bad/$codegen" && cp -r ".gpu/ptx/$codegen/sm_90" "$bad/$codegen/"
        sed -i "$change" "$bad/$codegen/sm_90/sequential.ptx"
        WARPFOLD_PTX_DIR=$bad refused .gpu/bin/sequential --n 1000 --codegen "$codegen" --device "$device"
    done
    rm -rf "$bad"
    refused .gpu/bin/sequential --n 2^36 --block 1024 --codegen "$codegen" --device "$device"
    refused .gpu/bin/cooperative --n 2^28 --grid 100000 --codegen "$codegen" --device "$device"
}

# Runs every variant, and checks that the PTX of each run is by the requested code generator.
set_run() {
    local lines=$out/run-$codegen.jsonl
    check $xtask run --device "$device" --codegen "$codegen" --iters 0 --json >"$lines"
    python3 - "$lines" "$codegen" <<'PY' || failed=1
import json, sys
runs = [json.loads(line) for line in open(sys.argv[1])]
on_device = [run for run in runs if run.get("codegen")]
other_codegen = [run for run in on_device if run["codegen"] != sys.argv[2]]
wrong = [run for run in runs if not run["ok"]]
for run in wrong + other_codegen:
    print("FAILED:", run["variant"], run["op"], run["dtype"], run.get("codegen"), run["result"], run["expected"])
print(f"{len(on_device) - len(other_codegen)} runs by {sys.argv[2]}, {len(runs) - len(wrong)} of {len(runs)} correct")
sys.exit(bool(wrong or other_codegen or not on_device))
PY
}

set_twins() {
    check $xtask run --device "$device" --twins --iters 0 >"$out/run-twins.txt"
    check .gpu/bin/atomic_blocks --preset seed-d --codegen "$codegen" --device "$device"
    check .gpu/bin/copy_strided --codegen "$codegen" --device "$device"
}

set_results() {
    local lines=$out/catalogue.jsonl reductions n
    $xtask run --list --json | python3 -c '
import json, subprocess, sys, datetime
query = "name,driver_version,memory.total,clocks.max.memory,clocks.max.sm"
gpu = subprocess.run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader"], capture_output=True, text=True)
name, driver, memory, memory_clock, clock = gpu.stdout.strip().split(", ")
cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "")
now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
print(json.dumps({"kind": "machine", "gpu": name, "driver": driver, "memory": memory, "memory_clock": memory_clock,
    "clock": clock, "cpu": cpu, "date": now, "command": "SETS=results scripts/gpu/catalogue.sh"}))' >"$lines"
    named() { echo "$cases" | cut -d' ' -f1 | grep -E "$1" | paste -sd, -; }
    runs() { check $xtask run --json --device "$device" --codegen "$codegen" "$@" >>"$lines"; }
    reductions=$(echo "$cases" | cut -d' ' -f1 | grep -vE '^(serial|copy_|transpose_|transfer_)' | paste -sd, -)
    for n in 2^10 2^16 1000003; do
        runs --n $n --dtype i32,f32,f64 --op sum --variant "serial,$reductions,cpu_serial,cpu_parallel"
    done
    for n in 2^22 2^26 2^28; do runs --n $n --dtype i32,f32,f64 --op sum --variant "$reductions"; done
    for n in 2^22 2^26; do
        runs --n $n --dtype f32 --op sum --variant "cpu_serial,cpu_parallel,$(named '^transfer_')"
        runs --n $n --variant "$(named '^(copy_random|transpose_)')"
    done
    runs --n 2^22 --variant copy_strided
    python3 - "$lines" <<'PY'
import json, sys
for r in map(json.loads, open(sys.argv[1])):
    t = r.get("time_us")
    if t:
        print(f'{r["variant"]:24} {r.get("stride", ""):3} {r["dtype"]} {r["n"]:>10} {"ok" if r["ok"] else "WRONG"}'
              f' {t["median"]:10.2f} us ({t["min"]:.2f}-{t["max"]:.2f}) {r["bandwidth_gbps"]:8.1f} GB/s'
              f' {r["percent_of_peak"] or 0:5.1f} %')
PY
}

step machine
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.memory --format=csv,noheader |
    tee "$out/machine.txt"
run_sets tests sanitize refusals run twins results
