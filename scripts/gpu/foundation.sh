#!/usr/bin/env bash
# On a GPU machine, from the repository's root, with .gpu/ as scripts/gpu/pack.sh leaves it: runs the
# test suite, the sanitizers and the catalogue there. Writes to $OUT, one JSON object per run into
# foundation.jsonl. Exits 1 when anything is wrong.
set -uo pipefail
out=${OUT:-target/gpu}
mkdir -p "$out"
export WARPFOLD_PTX_DIR=$PWD/.gpu/ptx WARPFOLD_TEST_DEVICE=cuda
chmod +x .gpu/bin/* .gpu/tests/*
failed=0
step() { echo "== $*"; }
check() { "$@" || { echo "FAILED ($?): $*"; failed=1; }; }

step machine
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.memory --format=csv,noheader | tee "$out/machine.txt"

step tests
for test in .gpu/tests/*; do check "$test" --test-threads=8 >"$out/$(basename "$test").log" 2>&1; tail -n 3 "$out/$(basename "$test").log"; done

step sanitizers
: >"$out/sanitizer.log"
for tool in memcheck racecheck synccheck initcheck; do
    for id in $(ls .gpu/ptx/llvm/sm_90 | grep -v '^testing\|txt$' | sed 's/.ptx$//'); do
        for dtype in i32 f32; do
            echo "-- $tool $id $dtype" >>"$out/sanitizer.log"
            compute-sanitizer --tool "$tool" --error-exitcode 3 \
                .gpu/bin/"$id" --n 65537 --dtype "$dtype" --device cuda --iters 0 >>"$out/sanitizer.log" 2>&1 \
                || { echo "FAILED: $tool $id $dtype"; failed=1; }
        done
    done
done
grep -c 'ERROR SUMMARY: 0 errors\|RACECHECK SUMMARY: 0 hazards' "$out/sanitizer.log"

step runs
: >"$out/foundation.jsonl"
for id in $(ls .gpu/ptx/llvm/sm_90 | grep -v '^testing\|txt$' | sed 's/.ptx$//'); do
    for n in 2^10 2^16 1000003 2^22 2^26 2^28; do
        for dtype in i32 f32; do
            check .gpu/bin/"$id" --n "$n" --dtype "$dtype" --op sum --device cuda --json >>"$out/foundation.jsonl"
        done
    done
done
python3 - "$out/foundation.jsonl" <<'PY'
import json, sys
for line in open(sys.argv[1]):
    r = json.loads(line)
    t = r["time_us"]
    print(f'{r["variant"]:24} {r["dtype"]} {r["n"]:>10} {"ok" if r["ok"] else "WRONG"} {t["median"]:10.2f} us'
          f' ({t["min"]:.2f}-{t["max"]:.2f}) {r["bandwidth_gbps"]:8.1f} GB/s {r["percent_of_peak"]:5.1f} %')
PY
exit $failed
