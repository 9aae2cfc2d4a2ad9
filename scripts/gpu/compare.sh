#!/usr/bin/env bash
# On a GPU machine, from the repository's root, with .gpu/ as scripts/gpu/pack.sh leaves it: times the
# Rust kernels beside their CUDA C twins, CUB and PyTorch. Writes to $OUT one file of JSON lines per
# set: compare-<set>.jsonl, and the tables. SETS names the sets to run, by default all. Exits 1 when
# anything is wrong.
set -uo pipefail
out=${OUT:-target/gpu}
mkdir -p "$out"
tar -C .gpu -xf .gpu/pack.tar.xz
export WARPFOLD_PTX_DIR=$PWD/.gpu/ptx WARPFOLD_CUB=$PWD/.gpu/cub/libwarpfold_cub.so
failed=0
step() { echo "== $* ($SECONDS s)"; }
check() { "$@" || { echo "FAILED ($?): $*"; failed=1; }; }
refused() { "$@"; [ $? = 2 ] || { echo "FAILED: not refused: $*"; failed=1; }; }
xtask=.gpu/bin/xtask

# A comparison, its table and its lines.
compare() {
    local set=$1
    shift
    step "$set: $*"
    check "$xtask" compare "$@" --out "$out/compare-$set.jsonl" >"$out/compare-$set.txt"
    cat "$out/compare-$set.txt"
}

refusals() {
    step refusals
    refused $xtask compare --n 2^40
    refused $xtask compare --peers cudac
    refused env PATH=/nowhere "$PWD/$xtask" compare --n 2^10 --strict
    WARPFOLD_CUB=/nowhere/libwarpfold_cub.so refused $xtask compare --n 2^10
    # What is not there is skipped, and all else runs.
    WARPFOLD_PYTHON=/nowhere/python check $xtask compare --n 2^10 --variants vectorized --iters 5
}

quick() {
    local start=$SECONDS
    compare quick --quick --peers cuda-c,cub
    [ $((SECONDS - start)) -lt 180 ] || { echo "FAILED: over 3 minutes"; failed=1; }
}

for set in ${SETS:-refusals quick ladder types moves large}; do
    case $set in
    refusals) refusals ;;
    quick) quick ;;
    # Every reduction over the sizes.
    ladder) compare ladder --iters 300 --n 2^10..2^28 --variants "$($xtask list --json | python3 -c '
import json, sys
print(",".join(row["id"] for row in json.load(sys.stdin) if row["family"] == "reduction"))')" ;;
    # Every operation and type, at the sizes where kernels are compared.
    types) compare types --n 2^22,2^26,2^28 --dtypes i32,u32,i64,u64,f32,f64 --ops sum,min,max,sumsq \
        --variants vectorized,shuffle_two_level,redux --iters 50 ;;
    # What moves elements.
    moves) compare moves --n 2^22,2^24,2^26 --dtypes f32,f64 \
        --variants copy_strided,copy_random,transpose_naive,transpose_shared,transpose_padded --iters 50 ;;
    # The fastest at sizes beyond.
    large) compare large --n 2^28..2^32 --variants vectorized,bulk_copy,grid_stride --iters 30 ;;
    *) echo "FAILED: no set $set" && failed=1 ;;
    esac
done
exit $failed
