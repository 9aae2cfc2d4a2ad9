#!/usr/bin/env bash
# The host's tests, in the simulator's driver, with the address and the thread sanitizer of the pinned compiler, whose
# unstable options it takes. SETS names them. The thread sanitizer must know the standard library's locks, so that
# this is compiled with it: that needs the component rust-src and std's own dependencies from crates.io.
#
#     scripts/sanitizers.sh [arguments of the tests]
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
# Tests leak on purpose: what may still be in use is kept for good.
export RUSTC_BOOTSTRAP=1 ASAN_OPTIONS=detect_leaks=0

for set in ${SETS:-address thread}; do
    std=()
    [ "$set" = address ] || std=(-Zbuild-std)
    echo "== $set"
    RUSTFLAGS="-Zsanitizer=$set" cargo test "${std[@]}" --target $target --target-dir "target/$set-sanitizer" \
        --package warpfold-driver --package warpfold-sim-driver --package warpfold --lib --tests -- "$@"
done
