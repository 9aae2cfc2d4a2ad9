#!/usr/bin/env bash
# On a GPU machine, from the repository's root, with .gpu/ as scripts/gpu/pack.sh leaves it: what the library of
# warpfold/ must do there. SETS names the sets to run, by default all, in this order:
#   tests     its test binary and the driver crate's
#   torch     PyTorch's tensors reduced in place, and a buffer of the library's given to PyTorch
#   counted   sums whose count is in device memory beside sums without: library-counted.jsonl
#   rows      sums and places of the largest of every row of a matrix, of many shapes: library-rows.jsonl
#   axis      sums of the columns of matrices of many shapes, beside PyTorch: library/axis.jsonl
#   segments  sums of segments by offsets, of equal and of ragged lengths, beside PyTorch:
#             library/segments.jsonl
#   by_key    f32 sums by u32 keys, of runs of many lengths: library/by-key.jsonl
#   pairs     dot products and squared distances beside sums of one buffer: library/pairs.jsonl
#   top       the k largest elements beside the place of the largest: library/top.jsonl
#   forms     sums within intervals, piece by piece, and by atomics, beside the sum: library/forms.jsonl
#   group     sums of what all GPUs have, by each way of a group, beside those of one of them:
#             library-group.jsonl
#   streamed  sums of slices and files that are not on the device, beside copies: library-streamed.jsonl
#   views     f32 sums along axes of parts, turned arrays and steps: library/views.jsonl
#   recorded  f32 sums in recordings, reducer by reducer: library-recorded.jsonl
#   operations  every operation beside the sum, of every type: library/operations.jsonl
#   energy    what sums and others take of it, by the driver's counter: library-energy.jsonl
#   python    the tests of the Python package of .gpu/site, with PyTorch's and CuPy's arrays
#   sanitize  the TOOLS of compute-sanitizer, by default its four, over TESTS of the test binary; racecheck, which
#             takes minutes for a large input, over RACE_TESTS
# The kernels are those inside the library. CODEGEN=llvm or nvvm takes that one's PTX of the pack in their place:
# by nvvm, which is rust-cuda, files of results are called *.rust-cuda.jsonl, and PyTorch, which would only be
# measured again, is left out.
# Leaves logs and library-checks.jsonl, which has what came out, in $OUT, and in $OUT/library what `cargo xtask
# report` reads from a folder library/ of a machine's results. Exits 1 when anything is wrong.
source "$(dirname "$0")/common.sh"
[ -n "${CODEGEN:-}" ] || unset WARPFOLD_PTX_DIR WARPFOLD_CODEGEN
[ "${WARPFOLD_CODEGEN:-}" = nvvm ] && by=.rust-cuda || by=
mkdir -p "$out/library"
# Every operation and type, any start and end, the order of uses on streams, recordings.
names=${TESTS:-reductions::every_operation reductions::inputs_may counted:: operations:: numbers:: wide:: within:: running:: streamed:: group:: truths:: initial:: rows::every rows::a_row axis:: segments:: by_key:: pairs:: top_k:: views:: log_sum_exp:: everywhere:: together:: streams:: recordings::}
race_names=${RACE_TESTS:-counted::a_ within::of_any running::places operations::what rows::results axis::results segments:: by_key::no pairs::every top_k::every views::every streams::reductions_of recordings::a_replay reductions::the_same_input}

note() { echo "{\"set\": \"$1\", \"what\": \"$2\", \"result\": \"$3\"}" >>"$out/library-checks.jsonl"; }

set_tests() {
    local name
    for name in library gpu driver; do
        tests $name
        note tests "$name" "$(grep -E '^test result' "$out/$name.log" | tail -n 1)"
    done
}

set_torch() {
    check python3 warpfold/examples/dlpack.py .gpu/bin/libdlpack.so >"$out/torch.log" 2>&1
    tail -n 3 "$out/torch.log"
    note torch dlpack "$(tail -n 1 "$out/torch.log")"
}

# Begins $out/$1.jsonl, or rust-cuda's file beside it, with what measures the set $2, when, and how it was called.
# $file is its path.
begin() {
    file=$out/$1$by.jsonl
    machine_line "${CODEGEN:+CODEGEN=$CODEGEN }SETS=$2 scripts/gpu/library.sh" >"$file"
}

# The lines of JSON of a bench that is a set: its name, that of the file, and its arguments.
bench() {
    begin "$2" "$1"
    check ".gpu/tests/$1" "${@:3}" >>"$file"
    cat "$file"
}

# PyTorch's lines of the same cases.
torch_beside() {
    [ -n "$by" ] || check python3 scripts/gpu/torch_peers.py "$@" >>"$file"
}

set_counted() { bench counted library-counted; }
set_rows() { bench rows library-rows sum argmax; }

# 2^28 elements as columns of matrices, then none that a power of two divides, axes inside of an array, 2^24
# and 2^20.
axis_shapes=${AXIS_SHAPES:-1x67108864x4 1x33554432x8 1x16777216x16 1x8388608x32 1x4194304x64 1x1048576x256
    1x262144x1024 1x65536x4096 1x4096x65536 1x256x1048576 1x32x8388608 1x16x16777216 1x8x33554432 1x4x67108864
    1x2x134217728 1x5x53687091 1x3x89478485 1x67108864x3 1x33554432x7 1x2097152x100 1x262144x1001 65536x64x64
    4096x1024x64 4194304x16x4 64x2048x2048 1x4194304x4 1x262144x64 1x4096x4096 1x64x262144 1x4x4194304 1x262144x4
    1x16384x64 1x4096x256 1x256x4096 1x64x16384 1x4x262144}

set_axis() {
    begin library/axis axis
    # shellcheck disable=SC2086
    check .gpu/tests/rows $axis_shapes >>"$file"
    check .gpu/tests/rows argmax 1x67108864x4 1x67108864x3 1x262144x1024 1x16x16777216 >>"$file"
    # shellcheck disable=SC2086
    torch_beside $axis_shapes
    cat "$file"
}

# Fewer than the library is measured with: of long segments PyTorch takes tenths of seconds.
torch_segments=${TORCH_SEGMENTS:-65536x4096 1048576x256 16777216x16 67108864x4 65536x4096z 1048576x256z 16777216x16z
    256x4096 4096x256 65536x16 4096x256z 65536x16z 65536x256 1048576x16 65536x256z 1048576x16z}

set_segments() {
    begin library/segments segments
    check .gpu/tests/segments sum argmax >>"$file"
    # shellcheck disable=SC2086
    torch_beside $torch_segments
    cat "$file"
}

set_by_key() { bench by_key library/by-key; }
set_pairs() { bench pairs library/pairs; }
set_top() { bench top library/top; }
set_forms() { bench forms library/forms; }
set_group() { bench group library-group; }
set_streamed() { bench streamed library-streamed; }
set_views() { bench views library/views; }
set_recorded() { bench recorded library-recorded; }
set_operations() { bench operations library/operations; }
set_energy() { bench energy library-energy; }

set_python() {
    (
        cd python || exit
        PYTHONPATH=$PWD/../.gpu/site python3 -B -m pytest -p no:cacheprovider -p no:benchmark -rs -n "${JOBS:-8}" tests
    ) >"$out/python.log" 2>&1 || fail "Python's tests"
    tail -n 3 "$out/python.log"
    note tests python "$(tail -n 1 "$out/python.log")"
}

set_sanitize() {
    local tool tests
    # One thread. Where several allocate, copy and launch at once, racecheck stops for good now and then,
    # even of a kernel in which nothing waits (host/driver/examples/sanitizer_stop.rs), and initcheck
    # 2025.3.1 takes memory that was written for unwritten: 300 to 750 errors of 16 threads of a CUDA C
    # program that allocate, fill, wait, copy and free with right results, none of one thread, six runs
    # each on an H200, 2026-11-27.
    for tool in ${TOOLS:-memcheck racecheck initcheck synccheck}; do
        [ $tool = racecheck ] && tests=$race_names || tests=$names
        # shellcheck disable=SC2086
        check timeout 300 compute-sanitizer --tool $tool --error-exitcode 3 \
            .gpu/tests/library --test-threads 1 $tests >"$out/library-$tool.log" 2>&1
        note sanitize "$tool" "$(grep -E '(ERROR|RACECHECK) SUMMARY' "$out/library-$tool.log" | tail -n 1)"
        grep -E 'SUMMARY|^test result' "$out/library-$tool.log"
    done
}

rm -f "$out/library-checks.jsonl"
run_sets tests torch counted rows axis segments by_key pairs top forms group streamed views recorded operations energy python sanitize
