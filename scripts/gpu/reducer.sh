#!/usr/bin/env bash
# On a GPU machine, from the repository's root, with .gpu/ as scripts/gpu/pack.sh leaves it: all that the
# reducer needs of a GPU. SETS names the sets to run, by default all, in this order:
#   tests     the reducer's tests on the GPU
#   sanitize  the four tools of compute-sanitizer over those of TESTS, none of which may find anything
#   tune      measures the launches: sm_NN.json, which goes to warpfold/tuning/. The sets after it use it; so do
#             they use one that WARPFOLD_TUNING names
#   sum       f32 sums of all sizes beside CUB and PyTorch: compare-reducer.jsonl
#   types     all operations and types at four sizes beside CUB: compare-reducer-types.jsonl
#   rows      sums and places of the largest of every row of matrices beside CUB's segments and PyTorch, of
#             many shapes, none of which is begun after SECONDS_OF_ROWS, by default 200: compare-rows.jsonl
#   inputs    sums beside CUB of elements that are in the cache and of those that are not: compare-inputs.jsonl
#   untuned   f32 sums beside CUB with the table of launches, and without it, as on a GPU that has none:
#             compare-tuned.jsonl and compare-untuned.jsonl
#   choices   f32 sums beside CUB where all sizes take one of CHOICES, each of which is a kernel, threads of a block,
#             and blocks in all or, with a p, on each multiprocessor: compare-choices.jsonl
#   older     the same by the PTX for sm_80, as the driver of an older GPU would take it: compare-older.jsonl
# CODEGEN=llvm or nvvm runs the first three on that one's PTX; the others compare both, and with STRICT=1
# want both to be there. Everything goes to $OUT. Exits 1 when anything is wrong; a target that is missed
# is not.
source "$(dirname "$0")/common.sh"
strict=${STRICT:+--strict}

# Every operation and type, both kernels, any alignment, and graphs. Not the test in which a kernel fails.
sanitized=${TESTS:-every_operation_of_every_type_is_right inputs_may_start_and_end_anywhere \
special_floats_are_found_wherever_they_stand recordings_run_as_often_as_wanted}

# One tool over these tests; what it says goes to a file.
sanitize() {
    local tool=$1 log=$out/sanitize-reducer-$1.log status
    # shellcheck disable=SC2086
    timeout 300 compute-sanitizer --tool "$tool" --error-exitcode 3 \
        .gpu/tests/reducer --exact --test-threads 1 $sanitized >"$log" 2>&1 </dev/null
    status=$?
    grep -E '^test result|SUMMARY' "$log" | sed "s/^/$tool: /"
    [ $status = 0 ] || { echo "$tool: exit $status (124: it took too long)"; return 1; }
    # Tests that do not exist are filtered out without a word.
    grep -q "^test result: ok. $(wc -w <<<"$sanitized") passed" "$log" &&
        grep -Eq 'SUMMARY: 0 (errors|hazards)' "$log"
}

# Side by side: most of a run is the tool's own work on the host.
set_sanitize() {
    local tool pids=()
    command -v compute-sanitizer >/dev/null || { fail "no compute-sanitizer on the PATH"; return; }
    for tool in memcheck racecheck initcheck synccheck; do
        sanitize $tool &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || fail "a tool of compute-sanitizer"; done
}

set_tests() { tests reducer; }

set_tune() {
    # As the library's own is called, by architecture.
    local file=$out/${ARCH:-sm_90}.json
    if $xtask tune --out "$file" >"$out/tune.txt"; then
        forget_folder "$file"
        WARPFOLD_TUNING=$(realpath "$file")
        export WARPFOLD_TUNING
    else
        fail "($?) tune"
    fi
    cat "$out/tune.txt"
}

set_sum() {
    compare reducer $strict --variant reducer --peer cub,torch --n 2^10..2^32 --iters 200
}

set_types() {
    compare reducer-types $strict --variant reducer --peer cub --n 2^16,2^20,2^24,2^28 --iters 50 \
        --dtype i8,u8,i16,u16,i32,u32,i64,u64,f16,bf16,f32,f64 --op sum,min,max,sumsq,argmin,argmax
}

set_rows() {
    compare rows $strict --rows --seconds "${SECONDS_OF_ROWS:-200}"
}

set_inputs() {
    compare inputs $strict --variant reducer --peer cub --inputs rotated,swept,warm --dtype f32,f16,i8 \
        --n 2^12,2^14,2^16,2^18,2^20,2^22,2^23,2^24,2^26,2^28 --iters 60
}

# f32 sums as the next two sets measure them, so that only the launches differ.
some_sums() {
    local name=$1
    shift
    compare "$name" --variant reducer --codegen llvm --peer cub --n 2^10..2^28 --iters 60 "$@"
}

set_untuned() {
    # A table without an entry.
    python3 - warpfold/tuning/sm_90.json "$out/untuned.json" <<'END'
import json, sys
table = json.load(open(sys.argv[1]))
json.dump(table | {"tables": []}, open(sys.argv[2], "w"))
END
    some_sums tuned
    WARPFOLD_TUNING=$out/untuned.json some_sums untuned
}

choices=${CHOICES:-grid:128:1 grid:256:1 grid:512:1 grid:1024:1 grid:256:1p grid:512:1p grid:1024:1p grid:512:2p
    grid:1024:2p grid:256:4p grid:512:4p grid:128:8p bulk:128:1p bulk:256:1p bulk:512:1p bulk:256:2p bulk:512:2p}

set_choices() {
    local choice all=$out/compare-choices.jsonl
    : >"$all.all"
    for choice in $choices; do
        python3 - warpfold/tuning/sm_90.json "$out/choice.json" "$choice" <<'END'
import json, sys
table, (kernel, block, blocks) = json.load(open(sys.argv[1])), sys.argv[3].split(":")
count = {"per_multiprocessor": int(blocks[:-1])} if blocks[-1] == "p" else {"total": int(blocks)}
bracket = {"kernel": kernel, "block": int(block), "blocks": count}
json.dump(table | {"tables": [{"op": "sum", "dtype": "f32", "brackets": [bracket]}]}, open(sys.argv[2], "w"))
END
        WARPFOLD_TUNING=$out/choice.json compare choices --variant reducer --codegen llvm --peer cub --iters 100 \
            --n 2^12,2^14,2^16,2^18,2^19,2^20,2^21,2^22,2^23,2^24
        cat "$all" >>"$all.all"
    done
    mv "$all.all" "$all"
}

set_older() {
    WARPFOLD_PTX_DIR=$PWD/.gpu/older WARPFOLD_TUNING= some_sums older
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/reducer-machine.txt"
run_sets tests sanitize tune sum types rows inputs untuned choices older
