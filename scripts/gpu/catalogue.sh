#!/usr/bin/env bash
# On a GPU machine, from the repository's root, with .gpu/ as scripts/gpu/pack.sh leaves it: runs the
# test suite, the sanitizers and the catalogue there, the Rust kernels and their CUDA C twins. Writes to
# $OUT: catalogue.jsonl, one JSON object per run behind a line that describes the machine, and logs.
# Exits 1 when anything is wrong.
set -uo pipefail
out=${OUT:-target/gpu}
mkdir -p "$out"
tar -C .gpu -xf .gpu/pack.tar.xz
export WARPFOLD_PTX_DIR=$PWD/.gpu/ptx WARPFOLD_TEST_DEVICE=cuda
failed=0
step() { echo "== $* ($SECONDS s)"; }
check() { "$@" || { echo "FAILED ($?): $*"; failed=1; }; }
xtask=.gpu/bin/xtask

# All variants that run on the GPU, with the types to look at.
cases=$($xtask list --json | python3 -c '
import json, os, sys
chosen = os.environ.get("VARIANTS", "").split()
for row in json.load(sys.stdin):
    if row["family"] != "cpu" and (not chosen or row["id"] in chosen):
        kept = [t for t in row["dtypes"] if t in ("i32", "f32", "f64")]
        print(row["id"], *kept)')

step machine
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.memory --format=csv,noheader | tee "$out/machine.txt"

step tests
for test in .gpu/tests/*; do
    name=$(basename "$test")
    check "$test" >"$out/$name.log" 2>&1
    grep "^test result\|without the CUDA" "$out/$name.log"
done

step sanitizers
# Several at a time: most of a run is the tool's own start.
sanitize() {
    local log
    log=$(compute-sanitizer --tool "$1" --error-exitcode 3 \
        .gpu/bin/"$2" --n 65537 --dtype "$3" --device cuda --iters 0 2>&1)
    local status=$?
    echo "-- $1 $2 $3: $status
$log"
    [ $status = 0 ] || echo "FAILED: $1 $2 $3"
}
export -f sanitize
for tool in memcheck racecheck synccheck initcheck; do
    while read -r id types; do for type in $types; do echo "$tool $id $type"; done; done <<<"$cases"
done | xargs -P 8 -L 1 bash -c 'sanitize "$@"' - >"$out/sanitizer.log"
grep "^FAILED" "$out/sanitizer.log" && failed=1
echo "$(grep -c '^-- .*: 0$' "$out/sanitizer.log") of $(grep -c '^-- ' "$out/sanitizer.log") runs clean"

step refusals
# PTX from a newer toolkit than the driver knows, and PTX that is none: one line each, exit 2.
refused() { "$@"; [ $? = 2 ] || { echo "FAILED: not refused: $*"; failed=1; }; }
for change in 's/^.version .*/.version 99.9/' 's/bar.sync/bar.sink/'; do
    rm -rf "$out/bad" && mkdir -p "$out/bad/llvm" && cp -r .gpu/ptx/llvm/sm_90 "$out/bad/llvm/"
    sed -i "$change" "$out/bad/llvm/sm_90/sequential.ptx"
    WARPFOLD_PTX_DIR=$out/bad refused .gpu/bin/sequential --n 1000 --device cuda
done
rm -rf "$out/bad"
refused .gpu/bin/sequential --n 2^36 --block 1024 --device cuda
refused .gpu/bin/cooperative --n 2^28 --grid 100000 --device cuda

step catalogue
check $xtask run --device cuda >"$out/run.txt"
check $xtask run --device cuda --twins --iters 0 >"$out/run_twins.txt"
check .gpu/bin/atomic_blocks --preset seed-d --device cuda
check .gpu/bin/copy_strided --device cuda

step results
lines=$out/catalogue.jsonl
$xtask list --json | python3 -c '
import json, subprocess, sys, datetime
query = "name,driver_version,memory.total,clocks.max.memory,clocks.max.sm"
gpu = subprocess.run(["nvidia-smi", "--query-gpu=" + query, "--format=csv,noheader"], capture_output=True, text=True)
name, driver, memory, memory_clock, clock = gpu.stdout.strip().split(", ")
cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "")
now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
print(json.dumps({"kind": "machine", "gpu": name, "driver": driver, "memory": memory, "memory_clock": memory_clock,
    "clock": clock, "cpu": cpu, "date": now, "command": "scripts/gpu/catalogue.sh"}))' >"$lines"
named() { echo "$cases" | cut -d' ' -f1 | grep -E "$1" | paste -sd, -; }
runs() { check $xtask run --json --device cuda "$@" >>"$lines"; }
reductions=$(echo "$cases" | cut -d' ' -f1 | grep -vE '^(serial|copy_|transpose_|transfer_)' | paste -sd, -)
for n in 2^10 2^16 1000003; do runs --n $n --dtypes i32,f32,f64 --ops sum --variants "serial,$reductions,cpu_serial,cpu_parallel"; done
for n in 2^22 2^26 2^28; do runs --n $n --dtypes i32,f32,f64 --ops sum --variants "$reductions"; done
for n in 2^22 2^26; do runs --n $n --dtypes f32 --ops sum --variants "cpu_serial,cpu_parallel,$(named '^transfer_')"; done
runs --n 2^22 --variants copy_strided
for n in 2^22 2^26; do runs --n $n --variants "$(named '^(copy_random|transpose_)')"; done
python3 - "$lines" <<'PY'
import json, sys
for r in map(json.loads, open(sys.argv[1])):
    t = r.get("time_us")
    if t:
        print(f'{r["variant"]:24} {r.get("stride", ""):3} {r["dtype"]} {r["n"]:>10} {"ok" if r["ok"] else "WRONG"}'
              f' {t["median"]:10.2f} us ({t["min"]:.2f}-{t["max"]:.2f}) {r["bandwidth_gbps"]:8.1f} GB/s'
              f' {r["percent_of_peak"] or 0:5.1f} %')
PY
step end
exit $failed
