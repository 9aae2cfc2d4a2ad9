#!/usr/bin/env bash
# Packs everything that a GPU machine without a Rust toolchain needs into .gpu/: release binaries, test
# binaries, PTX by both code generators of Rust and of the twins, and CUB. To run a script of this folder,
# copy .gpu/ to that machine. CODEGENS=llvm omits PTX by rust-cuda, if its toolchain is not installed.
# The .loc lines are removed from the PTX, because they make it six times as large.
# ONLY=scale packs only the files for scale.sh: tests of the library with embedded kernels, and the program.
set -euo pipefail
cd "$(dirname "$0")/../.."

arch=${1:-sm_90}
codegens=${CODEGENS:-llvm nvvm}
only=${ONLY:-}
# The largest size of a pack.
most_mib=60

# Builds test binaries and benches with these arguments of cargo test; prints the name and the path of each.
tests_of() {
    cargo test --release --no-run --message-format=json "$@" | python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["profile"]["test"]:
        print(message["target"]["name"], message["executable"])'
}

if [ "$only" = scale ]; then
    codegens=
    cargo build --release --package warpfold-cli --bins
    tests=$(tests_of --package warpfold --test library --bench group --bench streamed)
else
    for codegen in $codegens; do cargo xtask build-ptx --library --codegen "$codegen" --arch "$arch"; done
    cargo xtask build-twins --arch "$arch"
    cargo xtask build-twins --cub --arch "$arch"
    cargo build --release --package warpfold-suite --package xtask --package warpfold-tests --bins
    cargo build --release --package warpfold --example dlpack
    tests=$(tests_of --package warpfold-tests --package warpfold-driver --package warpfold \
        --features warpfold-driver/cust --test library --test catalogue --test suite --test driver --test gpu \
        --bench counted --bench operations --bench recorded --bench rows --bench segments --bench by_key \
        --bench pairs --bench top --bench views --bench forms --bench tuples --bench group --bench streamed \
        --bench energy)
    cargo xtask build-ptx --codegen llvm --arch sm_80
    cargo xtask python --wheel target/gpu-wheel --platform x86_64
fi

rm -rf .gpu
mkdir -p .gpu/bin .gpu/tests .gpu/cub .gpu/ptx
if [ "$only" = scale ]; then
    cp target/release/warpfold .gpu/bin/
else
    cp "target/cub/$arch/libwarpfold_cub.so" .gpu/cub/
    for codegen in $codegens cuda-c; do
        mkdir -p ".gpu/ptx/$codegen"
        cp -r "target/ptx/$codegen/$arch" ".gpu/ptx/$codegen/"
    done
    mkdir -p .gpu/older/llvm/sm_80 .gpu/site
    cp target/ptx/llvm/sm_80/reducer_sum_f32.ptx .gpu/older/llvm/sm_80/
    find .gpu/ptx .gpu/older -name '*.ptx' -exec sed -i '/^[[:space:]]*\.loc/d' {} +
    python3 -m zipfile -e target/gpu-wheel/warpfold-*-abi3-*.whl .gpu/site
    find target/release -maxdepth 1 -type f -executable -exec cp {} .gpu/bin/ \;
    cp target/release/examples/libdlpack.so .gpu/bin/
fi
while read -r name path; do cp "$path" ".gpu/tests/$name"; done <<<"$tests"
strip .gpu/bin/* .gpu/tests/*
# One archive with a window wider than any binary: code that binaries share is stored once.
parts=$(ls .gpu)
# shellcheck disable=SC2086
tar -C .gpu -cf - $parts | xz --lzma2=preset=3,dict=256MiB >.gpu/pack.tar.xz
find .gpu -mindepth 1 -maxdepth 1 ! -name pack.tar.xz -exec rm -r {} +
size=$(du -m .gpu/pack.tar.xz | cut -f1)
echo ".gpu/pack.tar.xz: $size MiB"
[ "$size" -lt $most_mib ] || { echo "the pack is larger than $most_mib MiB"; exit 1; }
