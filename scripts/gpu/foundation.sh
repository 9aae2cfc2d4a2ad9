#!/usr/bin/env bash
# On a GPU machine, from the repository's root, with .gpu/ as scripts/gpu/pack.sh leaves it: runs the
# test suite, the sanitizers and the catalogue there. Writes to $OUT, one JSON object per run into
# foundation.jsonl. Exits 1 when anything is wrong.
set -uo pipefail
out=${OUT:-target/gpu}
mkdir -p "$out"
tar -C .gpu -xf .gpu/pack.tar.xz
export WARPFOLD_PTX_DIR=$PWD/.gpu/ptx WARPFOLD_TEST_DEVICE=cuda
failed=0
step() { echo "== $*"; }
check() { "$@" || { echo "FAILED ($?): $*"; failed=1; }; }

# All variants, unless VARIANTS names some.
ids=${VARIANTS:-$(ls .gpu/ptx/llvm/sm_90 | grep '\.ptx$' | grep -v '^testing' | sed 's/.ptx$//')}

step machine
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.memory --format=csv,noheader | tee "$out/machine.txt"

step tests
for test in .gpu/tests/*; do
    name=$(basename "$test")
    check "$test" >"$out/$name.log" 2>&1
    grep "^test result" "$out/$name.log"
done

step sanitizers
: >"$out/sanitizer.log"
for tool in memcheck racecheck synccheck initcheck; do
    for id in $ids; do
        for dtype in i32 f32; do
            echo "-- $tool $id $dtype" >>"$out/sanitizer.log"
            .gpu/bin/"$id" --n 1 --dtype "$dtype" --device cuda --iters 0 >/dev/null 2>&1 || continue
            compute-sanitizer --tool "$tool" --error-exitcode 3 \
                .gpu/bin/"$id" --n 65537 --dtype "$dtype" --device cuda --iters 0 >>"$out/sanitizer.log" 2>&1 \
                || { echo "FAILED: $tool $id $dtype"; failed=1; }
        done
    done
done
grep -c 'ERROR SUMMARY: 0 errors\|RACECHECK SUMMARY: 0 hazards' "$out/sanitizer.log"

step refusals
# PTX from a newer toolkit than the driver knows, and PTX that is none: one line each, exit 2.
for change in 's/^.version .*/.version 99.9/' 's/bar.sync/bar.sink/'; do
    rm -rf "$out/bad" && mkdir -p "$out/bad/llvm" && cp -r .gpu/ptx/llvm/sm_90 "$out/bad/llvm/"
    sed -i "$change" "$out/bad/llvm/sm_90/sequential.ptx"
    WARPFOLD_PTX_DIR=$out/bad .gpu/bin/sequential --n 1000 --device cuda
    [ $? = 2 ] || { echo "FAILED: not refused"; failed=1; }
done
rm -rf "$out/bad"
.gpu/bin/sequential --n 2^36 --block 1024 --device cuda
[ $? = 2 ] || { echo "FAILED: not refused"; failed=1; }

step catalogue
check .gpu/bin/xtask run
check .gpu/bin/sequential --n 4194304 --dtype i32 --op sum --json

step runs
: >"$out/foundation.jsonl"
for id in $ids; do
    for n in 2^10 2^16 1000003 2^22 2^26 2^28; do
        # One thread takes seconds over large inputs.
        [ $id = serial ] && case $n in 2^22 | 2^26 | 2^28) continue ;; esac
        for dtype in i32 f32; do
            [ $id = redux ] && [ $dtype = f32 ] && continue
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
