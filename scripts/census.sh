#!/usr/bin/env bash
# Which kernels of a corpus of CUDA C the simulator takes: `scripts/census.sh FOLDER`, with sources (.cu) below
# FOLDER, as of github.com/NVIDIA/cuda-samples. They are compiled to PTX by the compiler that `cargo xtask
# cuda-toolkit` fetches, for ARCH (compute_90), into target/census; what it does not compile, for want of a
# library's headers, is counted and left out. Prints a line of JSON for each reason and one with the numbers;
# docs/census.md has those of the last run.
set -euo pipefail
corpus=$(realpath "${1:?give the folder of a corpus}")
cd "$(dirname "$0")/.."
arch=${ARCH:-compute_90}
cargo xtask cuda-toolkit >&2
nvcc=$PWD/target/cuda/nvidia/cu13/bin/nvcc
out=$PWD/target/census
rm -rf "$out"
mkdir -p "$out/ptx" "$out/stub"
# What a kernel never needs.
: >"$out/stub/cuda_profiler_api.h"

failed=0 sources=0
while IFS= read -r -d '' source; do
    sources=$((sources + 1))
    name=${source#"$corpus"/}
    timeout 300 "$nvcc" -ptx -arch="$arch" -std=c++17 -w -I "$out/stub" -I "$corpus/Common" \
        -I "$corpus/Common/UtilNPP" -I "$(dirname "$source")" "$source" \
        -o "$out/ptx/${name//\//__}.ptx" 2>/dev/null || failed=$((failed + 1))
done < <(find "$corpus" -name '*.cu' -print0 | sort -z)
cargo run --quiet --package warpfold-sim --example census -- "$out/ptx"
echo "{\"sources\": $sources, \"not_compiled\": $failed}"
