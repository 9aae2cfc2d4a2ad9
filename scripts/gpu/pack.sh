#!/usr/bin/env bash
# Puts everything that a GPU machine without a Rust toolchain needs into .gpu/: release binaries, test
# binaries, PTX, of the twins too, and CUB. Then carry that folder over and run a script of this folder there.
set -euo pipefail
cd "$(dirname "$0")/../.."

arch=${1:-sm_90}
cargo xtask build-ptx --arch "$arch"
cargo xtask build-twins --arch "$arch"
cargo xtask build-cub --arch "$arch"
cargo build --release --package warpfold --package xtask --bins
tests=$(cargo test --release --no-run --message-format=json --package warpfold-tests --package warpfold-driver \
    --test catalogue --test probe --test reduction --test reducer --test driver \
    | python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["profile"]["test"]:
        print(message["target"]["name"], message["executable"])')

rm -rf .gpu
mkdir -p .gpu/bin .gpu/tests .gpu/ptx .gpu/cub
cp "target/cub/$arch/libwarpfold_cub.so" .gpu/cub/
for made in target/ptx/*/"$arch"; do
    mkdir -p ".gpu/ptx/$(basename "$(dirname "$made")")"
    cp -r "$made" ".gpu/ptx/$(basename "$(dirname "$made")")/"
done
find target/release -maxdepth 1 -type f -executable -exec cp {} .gpu/bin/ \;
while read -r name path; do cp "$path" ".gpu/tests/$name"; done <<<"$tests"
strip .gpu/bin/* .gpu/tests/*
# One file: the binaries are alike, and a folder of them may be too large to carry.
tar -C .gpu -cf - bin tests ptx cub | xz -T0 -3 >.gpu/pack.tar.xz
rm -r .gpu/bin .gpu/tests .gpu/ptx .gpu/cub
du -sh .gpu
