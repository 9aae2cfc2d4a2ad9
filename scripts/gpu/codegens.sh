#!/usr/bin/env bash
# On a GPU machine, from the repository's root, with .gpu/ as scripts/gpu/pack.sh leaves it: everything that
# says what the two code generators of Rust make of the kernels. SETS names the sets to run, by default all,
# in this order:
#   tests          the test binaries on llvm's PTX, then on nvvm's
#   run            every row of the catalogue by llvm, then by nvvm
#   sanitize       the four tools of compute-sanitizer over every variant by llvm, then by nvvm
#   ladder types moves large    both beside CUDA C, CUB and PyTorch, see compare.sh
#   reducer reducer-types       the reducer by both beside CUB and PyTorch, see reducer.sh
#   results        catalogue.jsonl, by llvm, see catalogue.sh
# CODEGENS names those of the first three sets [llvm nvvm]. Each set says how long it took and stands for
# itself: what there was no time for is run by another call. Leaves in $OUT a file of JSON lines per set,
# and one archive of the logs and tables, logs-<sets>.tar.xz. Exits 1 when anything is wrong.
source "$(dirname "$0")/common.sh"
here=$(dirname "$0")
codegens=${CODEGENS:-llvm nvvm}
logs=$(mktemp -d .gpu/logs-XXXXXX)

# Sets of another script, whose results go to $out and whose logs to a folder of their own.
other() {
    local name=$1 folder=$logs/$1-$2
    mkdir -p "$folder"
    shift 2
    # A reader of the log sees each line when it is there.
    env "$@" OUT="$folder" "$here/$name.sh" 2>&1 | tee "$folder/log.txt"
    [ "${PIPESTATUS[0]}" = 0 ] || fail "$* $name.sh"
    find "$folder" -maxdepth 1 \( -name 'compare-*.jsonl' -o -name catalogue.jsonl \) -exec mv {} "$out/" \;
}

by_each() {
    local codegen
    for codegen in $codegens; do other catalogue "$1-$codegen" SETS="$1" CODEGEN="$codegen"; done
}

set_tests() { by_each tests; }
set_run() { by_each run; }
set_sanitize() { TYPES=${TYPES:-i32 f32} by_each sanitize; }
set_ladder() { other compare ladder SETS=ladder STRICT=1; }
set_types() { other compare types SETS=types STRICT=1; }
set_moves() { other compare moves SETS=moves STRICT=1; }
set_large() { other compare large SETS=large STRICT=1; }
set_reducer() { other reducer sum SETS=sum STRICT=1; }
set_reducer-types() { other reducer types SETS=types STRICT=1; }
set_results() { other catalogue results SETS=results CODEGEN=llvm; }

# However it ends, by a signal of whoever limits its time too, the logs are kept.
all=(tests run sanitize ladder types moves large reducer reducer-types results)
sets=${SETS:-${all[*]}}
keep() {
    tar -C "$logs" -cJf "$out/logs-${sets// /-}.tar.xz" .
    rm -r "$logs"
}
trap keep EXIT
trap 'exit 124' TERM INT
run_sets "${all[@]}"
