#!/usr/bin/env bash
# Runs the test suites of other projects in the simulator, as they are, without a GPU.
#
#   scripts/clients.sh cudarc CHECKOUT      the driver's and NVRTC's tests of github.com/coreylowman/cudarc, one of
#                                           which looks for cuda_fp16.h in /usr/include
#   scripts/clients.sh tinygrad CHECKOUT    test/backend/test_ops.py of github.com/tinygrad/tinygrad, beside PyTorch
#   scripts/clients.sh numba                the suite that the package numba-cuda has in it
#
# docs/census.md names the versions. What each needs (Python's packages, several gigabytes for PyTorch) goes to
# target/clients, and what the tests say too, a file each. The last line counts.
#
# Allocations are rounded up to 512 bytes, as a GPU does; ROUND=1 has those tests fault that reach behind an array.
set -euo pipefail
client=${1:?"give cudarc, tinygrad or numba"}
checkout=${2:+$(cd "$2" && pwd)}
cd "$(dirname "$0")/.."
cargo xtask build-sim >&2
folder=$PWD/target/clients
said=$folder/$client
mkdir -p "$folder/lib" "$said" "$folder/empty"
for library in "$PWD"/target/sim/lib/*; do
    ln -sf "$library" "$folder/lib/"
    # Some look for the name by which it is linked.
    name=$(basename "$library")
    ln -sf "$name" "$folder/lib/${name%%.so*}.so"
done
export WARPFOLD_SIM_ROUND=${ROUND:-512} WARPFOLD_SIM_TELL=1 LD_LIBRARY_PATH=$folder/lib

# A Python with packages, one for each client: what one finds changes what another does.
python=$folder/python-$client/bin/python
packages() {
    [ -x "$python" ] || python3 -m venv "$folder/python-$client"
    "$python" -m pip install --quiet "$@" >&2
}

# The compiler that programs carry with them, by the name that they look for.
nvrtc() {
    for library in "$folder/python-$client"/lib/python*/site-packages/nvidia/"$1"/lib/libnvrtc*.so.*; do
        ln -sf "$library" "$folder/lib/"
    done
    (cd "$folder/lib" && ln -sf "$(basename "$(ls -d libnvrtc.so."$2")")" libnvrtc.so)
}

case $client in
cudarc)
    # The last NVRTC that knows sm_53, which one test asks for.
    packages nvidia-cuda-nvrtc-cu12==12.8.93
    nvrtc cuda_nvrtc 12
    binary=$(cd "$checkout" && CARGO_TARGET_DIR=$folder/cudarc-target cargo test --lib --no-run --no-default-features \
        --features std,driver,nvrtc,runtime,dynamic-loading,cuda-13000,f16 --message-format json 2>/dev/null |
        grep -oE '"executable":"[^"]+"' | tail -n 1 | cut -d '"' -f 4)
    right=0 all=0
    # Each by itself, so that a context that is lost costs no other test.
    for test in $("$binary" --list --format terse | sed -n 's/: test$//p'); do
        all=$((all + 1))
        if timeout 300 "$binary" --exact "$test" --include-ignored >"$said/$test.txt" 2>&1; then
            right=$((right + 1))
        else
            echo "$test: failed"
        fi
    done
    echo "$right of $all"
    ;;
tinygrad)
    packages numpy pytest pytest-timeout hypothesis nvidia-cuda-nvrtc==13.5.37 torch==2.9.1
    nvrtc cu13 13
    (cd "$checkout" && DEV=CUDA "$python" -m pytest -v --tb=line --timeout 300 -p no:cacheprovider \
        test/backend/test_ops.py) >"$said/test_ops.txt" 2>&1 || true
    grep -a '^FAILED' "$said/test_ops.txt" || true
    tail -n 1 "$said/test_ops.txt"
    ;;
numba)
    packages numpy numba-cuda==0.30.4 nvidia-cuda-nvrtc==13.5.37 nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-crt \
        nvidia-cuda-cccl ml_dtypes psutil cffi filecheck pytest
    cd "$folder/empty"
    packages=$(echo "$folder"/python-numba/lib/python*/site-packages/numba_cuda)
    # Each module by itself, for the same reason. `cudasim` is another simulator, of numba's own.
    for file in $(cd "$packages" && find numba/cuda/tests -name 'test_*.py' -not -path '*/cudasim/*' | sort); do
        module=$(tr / . <<<"${file%.py}")
        timeout 600 "$python" -W ignore -m numba.runtests -v "$module" >"$said/$module.txt" 2>&1 || echo "$module"
    done
    "$python" - "$said" <<'EOF'
import pathlib, re, sys

ran = bad = skipped = 0
for file in pathlib.Path(sys.argv[1]).iterdir():
    text = file.read_text(errors="replace")
    counts = re.findall(r"^Ran (\d+) tests?", text, re.M)
    if not counts:
        print(f"{file.stem}: did not end, or was skipped")
        continue
    end = text[text.rindex("Ran ") :]
    number = lambda what: sum(int(n) for n in re.findall(rf"\b{what}=(\d+)", end))
    ran += int(counts[-1])
    # A test with several parts that fail is one.
    failed = set(re.findall(r"^(?:ERROR|FAIL): (.*?)(?: \[.*| \(.*=.*)?$", text, re.M))
    bad += len(failed)
    skipped += number("skipped")
print(f"{ran - bad - skipped} of {ran - skipped}, {skipped} skipped")
EOF
    ;;
*)
    echo "$client: give cudarc, tinygrad or numba" >&2
    exit 2
    ;;
esac
