#!/usr/bin/env bash
# On a GPU machine, from the repository's root, with .gpu/ as scripts/gpu/pack.sh leaves it: runs the
# test suite, the sanitizers and the catalogue there, the Rust kernels and their CUDA C twins. SETS names
# the sets to run, by default all, in this order:
#   tests     the test binaries
#   sanitize  the four tools of compute-sanitizer over every variant, JOBS at a time [12], with each type of
#             TYPES [i32 f32 f64]
#   refusals  PTX that the driver does not take
#   run       every variant, type and operation, checked
#   twins     the same of the twins, and what else the binaries do
#   results   catalogue.jsonl: one JSON object per timed run behind a line that describes the machine
# VARIANTS names those to sanitize and to time, by default all. CODEGEN=llvm or nvvm chooses whose PTX it
# all runs on. Everything goes to $OUT. Exits 1 when anything is wrong.
source "$(dirname "$0")/common.sh"
codegen=${CODEGEN:-llvm}

# All variants that run on the GPU, with the types to look at.
cases=$($xtask list --json | TYPES=${TYPES:-i32 f32 f64} python3 -c '
import json, os, sys
chosen, types = os.environ.get("VARIANTS", "").split(), os.environ["TYPES"].split()
for row in json.load(sys.stdin):
    if row["family"] != "cpu" and (not chosen or row["id"] in chosen):
        print(row["id"], *[dtype for dtype in row["dtypes"] if dtype in types])')

set_tests() { tests; }

# One tool over one variant and type; its exit status and all that it says, in one piece.
sanitize() {
    local log status tool=$1 id=$2 dtype=$3
    shift 3
    log=$(timeout 240 compute-sanitizer --tool "$tool" --error-exitcode 3 \
        .gpu/bin/"$id" --n 65537 --dtype "$dtype" --codegen "$codegen" --device "$device" --iters 0 "$@" 2>&1)
    status=$?
    echo "-- $tool $id $dtype $*: $status
$log"
}

# Several at a time: most of a run is the tool's own start.
set_sanitize() {
    local log=$out/sanitize-catalogue.log clean all
    command -v compute-sanitizer >/dev/null || { fail "no compute-sanitizer on the PATH"; return; }
    export -f sanitize
    export codegen device
    for tool in memcheck racecheck synccheck initcheck; do
        while read -r id types; do
            for type in $types; do
                echo "$tool $id $type"
                # At this size the reducer would choose the other kernel alone.
                [ "$id" != reducer ] || echo "$tool $id $type --kernel bulk"
            done
        done <<<"$cases"
    done | xargs -P "${JOBS:-12}" -L 1 bash -c 'sanitize "$@"' - >"$log"
    grep -E '^-- .*: [1-9][0-9]*$' "$log" && fail "a tool of compute-sanitizer found something, or timed out (124)"
    clean=$(grep -cE '^-- .*: 0$' "$log") all=$(grep -cE '^-- .*: [0-9]+$' "$log")
    # A run that never reached the kernel says nothing of it.
    [ "$(grep -cE 'SUMMARY: 0 (errors|hazards)' "$log")" = "$all" ] || fail "runs without a summary"
    echo "$clean of $all runs clean, PTX by $codegen"
}

# PTX from a newer toolkit than the driver knows, and PTX that is none: one line each, exit 2.
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

# Every row, by the code generator that is meant: the records say which one it was.
set_run() {
    local lines=$out/run-$codegen.jsonl
    check $xtask run --device "$device" --codegen "$codegen" --iters 0 --json >"$lines"
    python3 - "$lines" "$codegen" <<'PY' || failed=1
import json, sys
runs = [json.loads(line) for line in open(sys.argv[1])]
on_device = [run for run in runs if run.get("codegen")]
strangers = [run for run in on_device if run["codegen"] != sys.argv[2]]
wrong = [run for run in runs if not run["ok"]]
for run in wrong + strangers:
    print("FAILED:", run["variant"], run["op"], run["dtype"], run.get("codegen"), run["result"], run["expected"])
print(f"{len(on_device) - len(strangers)} runs by {sys.argv[2]}, {len(runs) - len(wrong)} of {len(runs)} right")
sys.exit(bool(wrong or strangers or not on_device))
PY
}

set_twins() {
    check $xtask run --device "$device" --twins --iters 0 >"$out/run-twins.txt"
    check .gpu/bin/atomic_blocks --preset seed-d --codegen "$codegen" --device "$device"
    check .gpu/bin/copy_strided --codegen "$codegen" --device "$device"
}

set_results() {
    local lines=$out/catalogue.jsonl reductions n
    $xtask list --json | python3 -c '
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
