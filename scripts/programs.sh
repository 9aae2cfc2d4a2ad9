#!/usr/bin/env bash
# Builds NVIDIA's samples as they are and runs them in the simulator, without a GPU.
#
#   scripts/programs.sh SAMPLES FOLDER [NAME...]
#
# SAMPLES is a checkout of github.com/NVIDIA/cuda-samples, FOLDER where programs and what they say are kept: what is
# there is not built again. Kernels that a program loads from a file are left beside its sources, where it looks for
# them. A NAME is that of a sample, by default all of those that are programs of CUDA alone. Each
# runs for LIMIT seconds at most (150) on GPUS simulated GPUs (1). A line for each says how it ended; the last one
# counts: a sample checks its own results, and is right where it ends with 0.
#
# Needs nvcc, as `cargo xtask cuda-toolkit` fetches it, and a folder with cuda_profiler_api.h and curand_kernel.h in
# HEADERS, as the wheels nvidia-cuda-profiler-api and nvidia-curand have them.
set -euo pipefail
samples=$(cd "$1" && pwd)
mkdir -p "$2"
folder=$(cd "$2" && pwd)
shift 2
cd "$(dirname "$0")/.."
cargo xtask build-sim >&2
sim=$PWD/target/sim/warpfold-sim
toolkit=$(echo target/cuda/nvidia/*)
toolkit=$PWD/$toolkit
mkdir -p "$folder/link" "$folder/said"
ln -sfn "$toolkit/lib/libcudart.so.13" "$folder/link/libcudart.so"
ln -sfn "$PWD/target/sim/lib/libcuda.so.1" "$folder/link/libcuda.so"

# The compiler, and what it is given of every sample.
compile() { "$toolkit/bin/nvcc" -w -std=c++17 -arch=compute_90 -I"$samples/Common" ${HEADERS:+-I"$HEADERS"} "$@"; }

# The kernels that a sample loads from files, which its build names.
kernels() {
    local file
    for file in $(grep -ohE '[A-Za-z_]+64\.(fatbin|ptx)' "$1/CMakeLists.txt" | sort -u); do
        compile "-${file##*.}" -o "$1/$file" "$1/${file%64.*}.cu"
    done
}

# The program $name of $sources.
build() {
    # shellcheck disable=SC2086
    compile -cudart shared -Xcompiler -fopenmp -I"$place" -I"$place/inc" -o "$folder/$name" $sources \
        -L"$folder/link" -lcuda -L"$toolkit/lib" >"$folder/said/$name.build" 2>&1
}

declare -A count=()
for place in "$samples"/Samples/{0_Introduction,1_Utilities,2_Concepts_and_Techniques,3_CUDA_Features,5_Domain_Specific,6_Performance}/*/; do
    name=$(basename "$place")
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    # shellcheck disable=SC2086
    sources=$(find $place -maxdepth 2 \( -path "$place*.c*" -o -path "$place/src/*.c*" \) \( -name '*.cu' -o -name '*.cpp' \))
    grep -q '\.cu$' <<<"$sources" || continue
    if [ ! -x "$folder/$name" ]; then
        { kernels "$place" && build; } || {
            why=$(grep -m1 -oE 'fatal error: .*|undefined reference to .*|error: .*' "$folder/said/$name.build" || true)
            echo "$name: not built: ${why:0:100}"
            count[unbuilt]=$((${count[unbuilt]:-0} + 1))
            continue
        }
    fi
    start=$SECONDS status=0
    # It looks for its files in the folder that it runs in.
    (cd "$place" && timeout -k 5 "${LIMIT:-150}" "$sim" exec --gpus "${GPUS:-1}" "$folder/$name") \
        >"$folder/said/$name.txt" 2>&1 </dev/null || status=$?
    case $status in
        0) how=right ;;
        2) how=waived ;;
        124 | 137) how=slow ;;
        *) how=wrong ;;
    esac
    count[$how]=$((${count[$how]:-0} + 1))
    echo "$name: $how, $((SECONDS - start)) s${status:+, exit $status}"
done
for how in right wrong slow waived unbuilt; do printf '%s %s  ' "${count[$how]:-0}" "$how"; done
echo
