#!/usr/bin/env bash
# Runs the host's tests on the simulated driver with the address sanitizer and the thread sanitizer, or those that SETS
# names (address, thread), by unstable options of the pinned compiler. For the thread sanitizer, which must observe
# the standard library's locks, std is compiled too: that needs the component rust-src and std's dependencies from
# crates.io.
#
#     scripts/sanitizers.sh [arguments of the tests]
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
# No leak detection: the library leaks memory on purpose if it may still be in use.
export RUSTC_BOOTSTRAP=1 ASAN_OPTIONS=detect_leaks=0

for set in ${SETS:-address thread}; do
    std=()
    [ "$set" = address ] || std=(-Zbuild-std)
    echo "== $set"
    RUSTFLAGS="-Zsanitizer=$set" cargo test "${std[@]}" --target $target --target-dir "target/$set-sanitizer" \
        --package warpfold-driver --package warpfold-sim-driver --package warpfold --lib --tests -- "$@"
done
