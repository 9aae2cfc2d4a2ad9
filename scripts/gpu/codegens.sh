#!/usr/bin/env bash
# Compares the two code generators of Rust kernels on a GPU machine, from the repository's root, with the
# folder .gpu/ that scripts/gpu/pack.sh makes. SETS names the sets to run, by default all, in this order:
#   tests          the test binaries on llvm's PTX, then on nvvm's
#   run            every variant of the catalogue by llvm, then by nvvm
#   sanitize       the four tools of compute-sanitizer on every variant by llvm, then by nvvm
#   ladder types moves large    both, compared with CUDA C, CUB and PyTorch, see compare.sh
#   reducer reducer-types       the reducer by both, compared with CUB and PyTorch, see reducer.sh
#   results        catalogue.jsonl, by llvm, see catalogue.sh
# CODEGENS names the code generators of the first three sets [llvm nvvm]. Sets are independent and print
# their duration, so that several calls can share them. Writes to $OUT a file of JSON lines per set, and
# one archive of the logs and tables, logs-<sets>.tar.xz. Exits with 1 if anything fails.
source "$(dirname "$0")/common.sh"
here=$(dirname "$0")
codegens=${CODEGENS:-llvm nvvm}
logs=$(mktemp -d .gpu/logs-XXXXXX)

# Runs the script $1 for the set $2, with the environment of the other arguments. Moves its results to $out, and
# leaves its logs in a folder of their own.
other() {
    local name=$1 folder=$logs/$1-$2
    mkdir -p "$folder"
    shift 2
    # Prints each line of the log at once.
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

# Keeps the logs however the script ends, also if a time limit ends it by a signal.
all=(tests run sanitize ladder types moves large reducer reducer-types results)
sets=${SETS:-${all[*]}}
keep() {
    tar -C "$logs" -cJf "$out/logs-${sets// /-}.tar.xz" .
    rm -r "$logs"
}
trap keep EXIT
trap 'exit 124' TERM INT
run_sets "${all[@]}"
