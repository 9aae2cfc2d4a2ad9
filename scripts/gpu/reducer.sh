#!/usr/bin/env bash
# Tests and measures the reducer on a GPU machine, from the repository's root, with the folder .gpu/ that
# scripts/gpu/pack.sh makes. SETS names the sets to run, by default all, in this order:
#   tests     the reducer's tests on the GPU
#   sanitize  the four tools of compute-sanitizer on TESTS, without any error
#   tune      measures the table of launches: sm_NN.json, to be copied to warpfold/tuning/. The sets after it use
#             this table; without `tune` they use the table that WARPFOLD_TUNING names, if it is set
#   sum       f32 sums of all sizes, compared with CUB and PyTorch: compare-reducer.jsonl
#   types     all operations and types at four sizes, compared with CUB: compare-reducer-types.jsonl
#   rows      sum and index of the maximum of every row of matrices, many shapes, compared with CUB's segmented
#             reductions and PyTorch; starts no shape after SECONDS_OF_ROWS, by default 200: compare-rows.jsonl
#   inputs    sums of elements in the L2 cache and of others, compared with CUB: compare-inputs.jsonl
#   untuned   f32 sums with the table of launches and without it, as on a GPU that has no table, compared with
#             CUB: compare-tuned.jsonl and compare-untuned.jsonl
#   choices   f32 sums, compared with CUB, with the same launch for all sizes, for each of CHOICES: a kernel, threads
#             per block, and number of blocks, in all or (with a p) per multiprocessor: compare-choices.jsonl
#   older     f32 sums by the PTX for sm_80, compared with CUB: compare-older.jsonl
# CODEGEN=llvm or nvvm selects the code generator of the PTX in the first three sets; the others compare both,
# and fail if one is missing with STRICT=1. Everything is written to $OUT. Exits with 1 if anything fails; a missed
# performance target is no failure.
source "$(dirname "$0")/common.sh"
strict=${STRICT:+--strict}

# All operations and types, both kernels, any alignment. Excludes the test in which a kernel fails.
sanitized=${TESTS:-reducer::every_operation_of_every_type_is_right reducer::inputs_may_start_and_end_anywhere \
reducer::special_floats_are_found_wherever_they_stand}

# Runs one tool on these tests; its output is written to a file.
sanitize() {
    local tool=$1 log=$out/sanitize-reducer-$1.log status
    # shellcheck disable=SC2086
    timeout 300 compute-sanitizer --tool "$tool" --error-exitcode 3 \
        .gpu/tests/suite --exact --test-threads 1 $sanitized >"$log" 2>&1 </dev/null
    status=$?
    grep -E '^test result|SUMMARY' "$log" | sed "s/^/$tool: /"
    [ $status = 0 ] || { echo "$tool: exit $status (124: timed out)"; return 1; }
    # A name without a test is no error of the test binary, so the number of tests is checked.
    grep -q "^test result: ok. $(wc -w <<<"$sanitized") passed" "$log" &&
        grep -Eq 'SUMMARY: 0 (errors|hazards)' "$log"
}

# Runs the tools in parallel, because most of the time is their work on the host.
set_sanitize() {
    local tool pids=()
    command -v compute-sanitizer >/dev/null || { fail "no compute-sanitizer on the PATH"; return; }
    for tool in memcheck racecheck initcheck synccheck; do
        sanitize $tool &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || fail "compute-sanitizer"; done
}

set_tests() { on_gpu=reducer:: tests suite; }

set_tune() {
    # Named by architecture, like the tables of the library.
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

# Measures f32 sums with the same options in the next sets, so that only the launches or the PTX differ.
some_sums() {
    local name=$1
    shift
    compare "$name" --variant reducer --codegen llvm --peer cub --n 2^10..2^28 --iters 60 "$@"
}

set_untuned() {
    # An empty table.
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
