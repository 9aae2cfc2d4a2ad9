#!/usr/bin/env bash
# On a GPU machine, from the repository's root, with .gpu/ as scripts/gpu/pack.sh leaves it: times the
# Rust kernels by both code generators beside their CUDA C twins, CUB and PyTorch. Writes to $OUT one file
# of JSON lines per set: compare-<set>.jsonl, and the tables. SETS names the sets to run, by default all. A
# code generator or peer that is not there is skipped with a line; STRICT=1 makes that an error. Exits 1
# when anything is wrong.
source "$(dirname "$0")/common.sh"
strict=${STRICT:+--strict}

set_refusals() {
    refused $xtask compare --n 2^40
    refused $xtask compare --peer cudac
    refused $xtask compare --codegen cuda-c
    refused env PATH=/nowhere "$PWD/$xtask" compare --n 2^10 --strict
    WARPFOLD_CUB=/nowhere/libwarpfold_cub.so refused $xtask compare --n 2^10
    # What is not there is skipped, and all else runs.
    WARPFOLD_PYTHON=/nowhere/python check $xtask compare --n 2^10 --variant vectorized --iters 5
}

set_quick() {
    local start=$SECONDS
    compare quick --quick --peer cuda-c,cub
    [ $((SECONDS - start)) -lt 180 ] || fail "over 3 minutes"
}

# Every reduction over the sizes.
set_ladder() {
    compare ladder $strict --iters 100 --n 2^10..2^28 --variant "$($xtask list --json | python3 -c '
import json, sys
print(",".join(row["id"] for row in json.load(sys.stdin) if row["family"] == "reduction"))')"
}

# Every operation and type, at the sizes where kernels are compared.
set_types() {
    compare types $strict --n 2^22,2^26,2^28 --dtype i32,u32,i64,u64,f32,f64 --op sum,min,max,sumsq \
        --variant vectorized,shuffle_two_level,redux --iters 50
}

# What moves elements.
set_moves() {
    compare moves $strict --n 2^22,2^24,2^26 --dtype f32,f64 --iters 50 \
        --variant copy_strided,copy_random,transpose_naive,transpose_shared,transpose_padded --peer cuda-c
}

# The fastest at sizes beyond.
set_large() {
    compare large $strict --n 2^28..2^32 --variant vectorized,bulk_copy,grid_stride --iters 30
}

run_sets refusals quick ladder types moves large
