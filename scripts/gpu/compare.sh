#!/usr/bin/env bash
# Times the Rust kernels by both code generators, their CUDA C twins, CUB and PyTorch in turns on a GPU
# machine, from the repository's root, with the folder .gpu/ that scripts/gpu/pack.sh makes. Writes to $OUT
# a file of JSON lines per set, compare-<set>.jsonl, and the tables. SETS names the sets to run, by default
# all. A missing code generator or peer is skipped with a message; with STRICT=1 that is an error. Exits
# with 1 if anything fails.
source "$(dirname "$0")/common.sh"
strict=${STRICT:+--strict}

set_refusals() {
    refused $xtask compare --n 2^40
    refused $xtask compare --peer cudac
    refused $xtask compare --codegen cuda-c
    refused env PATH=/nowhere "$PWD/$xtask" compare --n 2^10 --strict
    WARPFOLD_CUB=/nowhere/libwarpfold_cub.so refused $xtask compare --n 2^10
    # A missing peer is skipped, and the others run.
    WARPFOLD_PYTHON=/nowhere/python check $xtask compare --n 2^10 --variant vectorized --iters 5
}

set_quick() {
    local start=$SECONDS
    compare quick --quick --peer cuda-c,cub
    [ $((SECONDS - start)) -lt 180 ] || fail "over 3 minutes"
}

# All reductions of the ladder, at all sizes.
set_ladder() {
    compare ladder $strict --iters 100 --n 2^10..2^28 --variant "$($xtask run --list --json | python3 -c '
import json, sys
print(",".join(row["id"] for row in json.load(sys.stdin) if row["family"] == "reduction"))')"
}

# All operations and types of three variants, at three sizes.
set_types() {
    compare types $strict --n 2^22,2^26,2^28 --dtype i32,u32,i64,u64,f32,f64 --op sum,min,max,sumsq \
        --variant vectorized,shuffle_two_level,redux --iters 50
}

# The kernels that copy and transpose.
set_moves() {
    compare moves $strict --n 2^22,2^24,2^26 --dtype f32,f64 --iters 50 \
        --variant copy_strided,copy_random,transpose_naive,transpose_shared,transpose_padded --peer cuda-c
}

# The fastest variants, at larger sizes.
set_large() {
    compare large $strict --n 2^28..2^32 --variant vectorized,bulk_copy,grid_stride --iters 30
}

run_sets refusals quick ladder types moves large
