#!/usr/bin/env bash
# Tests and measures the library of warpfold/ on a GPU machine, from the repository's root, with the folder .gpu/
# that scripts/gpu/pack.sh makes. SETS names the sets to run, by default all, in this order:
#   tests     the test binaries of the library and of the driver crate
#   torch     PyTorch's tensors reduced in place, and a buffer of the library exported to PyTorch
#   counted   sums with the count in device memory, compared with other sums: library-counted.jsonl
#   rows      sum and index of the maximum of every row of a matrix, many shapes: library-rows.jsonl
#   axis      sums of the columns of matrices, many shapes, compared with PyTorch: library/axis.jsonl
#   segments  sums of segments with offsets, of equal and of ragged lengths, compared with PyTorch:
#             library/segments.jsonl
#   by_key    f32 sums by u32 keys, with runs of many lengths: library/by-key.jsonl
#   pairs     dot products and squared distances, compared with sums of one buffer: library/pairs.jsonl
#   top       the k largest elements, compared with the index of the maximum: library/top.jsonl
#   forms     sums within intervals, in pieces, and by atomics, compared with the sum: library/forms.jsonl
#   tuples    several operations in one launch, compared with the sum: library/tuples.jsonl;
#             over rows, compared with the rows' sums: library/tuples-rows.jsonl
#   group     sums over all GPUs, by each transport of a group, compared with sums on one GPU:
#             library-group.jsonl
#   streamed  sums of slices and files in host memory, compared with copies: library-streamed.jsonl
#   views     f32 sums along axes of slices, transposed and strided arrays: library/views.jsonl
#   recorded  f32 sums in recordings, by each reducer: library-recorded.jsonl
#   operations  every operation with every type, compared with the sum: library/operations.jsonl
#   energy    energy of sums and other operations, by the driver's counter: library-energy.jsonl
#   python    the tests of the Python package in .gpu/site, with PyTorch's tensors and CuPy's arrays
#   sanitize  the TOOLS of compute-sanitizer, by default all four, on the TESTS of the test binary; racecheck,
#             which takes minutes for a large input, on RACE_TESTS
# By default the kernels are those embedded in the library. CODEGEN=llvm or nvvm uses the PTX by that code generator.
# With nvvm, which is rust-cuda, files of results are named *.rust-cuda.jsonl, and PyTorch is not measured again.
# Writes logs and library-checks.jsonl, with the result of each check, to $OUT, and to $OUT/library the files for the
# folder library/ of a machine's results, which `cargo xtask report` reads. Exits with 1 if anything fails.
source "$(dirname "$0")/common.sh"
[ -n "${CODEGEN:-}" ] || unset WARPFOLD_PTX_DIR WARPFOLD_CODEGEN
[ "${WARPFOLD_CODEGEN:-}" = nvvm ] && by=.rust-cuda || by=
mkdir -p "$out/library"
# Filters of tests: all operations and types, any start and length, the order of uses on streams, recordings.
names=${TESTS:-reductions::every_operation reductions::inputs_may buffers:: counted:: operations:: numbers:: wide:: within:: running:: streamed:: group:: truths:: forms:: rows::every rows::special_values axis:: segments:: by_key:: pairs:: top_k:: views:: log_sum_exp:: everywhere:: together:: streams:: recordings::}
race_names=${RACE_TESTS:-buffers::means counted::a_ within::every_type running::places operations::bitwise_operations_on_rows rows::every_one axis::results segments:: by_key::no pairs::every top_k::every views::every streams::reductions_of recordings::a_recording_runs reductions::the_same_input}

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

# Starts the file of results $out/$1.jsonl, or $out/$1.rust-cuda.jsonl, of the set $2 with the line of the machine, and
# sets $file to its path.
begin() {
    file=$out/$1$by.jsonl
    machine_line "${CODEGEN:+CODEGEN=$CODEGEN }SETS=$2 scripts/gpu/library.sh" >"$file"
}

# Runs the bench $1 with the remaining arguments, and writes its lines to the file of results $2.
bench() {
    begin "$2" "$1"
    check ".gpu/tests/$1" "${@:3}" >>"$file"
    cat "$file"
}

# Appends PyTorch's lines for the same cases.
torch_beside() {
    [ -n "$by" ] || check python3 scripts/gpu/torch_peers.py "$@" >>"$file"
}

set_counted() { bench counted library-counted; }
set_rows() { bench rows library-rows sum argmax; }

# MATRICESxROWSxCOLUMNS: 2^28 elements in one matrix, about as many with odd sizes, axes inside an array, then 2^24 and
# 2^20 elements.
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

# Fewer cases than for the library, because PyTorch takes tenths of a second for long segments.
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
set_tuples() {
    bench tuples library/tuples
    bench tuples library/tuples-rows rows f32 f16 i32
}
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
    ) >"$out/python.log" 2>&1 || fail "tests of the Python package"
    tail -n 3 "$out/python.log"
    note tests python "$(tail -n 1 "$out/python.log")"
}

set_sanitize() {
    local tool tests name list
    list=$(.gpu/tests/library --list)
    for name in $names $race_names; do
        grep -qF "$name" <<<"$list" || fail "no test of the library matches $name"
    done
    # One thread, because the tools have defects if several threads allocate, copy and launch at once.
    # racecheck sometimes hangs, even with a kernel without waits (driver/examples/sanitizer_stop.rs).
    # initcheck 2025.3.1 reports written memory as unwritten: 300 to 750 errors with 16 threads of a CUDA C
    # program that allocate, fill, wait, copy and free, with correct results; none with one thread (six runs
    # each on an H200, 2026-11-27).
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
run_sets tests torch counted rows axis segments by_key pairs top forms tuples group streamed views recorded operations energy python sanitize
