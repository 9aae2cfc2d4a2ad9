#!/usr/bin/env bash
# Runs unmodified test suites of packages that use a GPU in the simulator, without a GPU, and writes the numbers of right
# results to the client's row of the table in docs/census.md.
#
#   scripts/clients.sh cudarc      cudarc's tests of the driver and of NVRTC; one needs cuda_fp16.h in /usr/include
#   scripts/clients.sh numba       the test suite in the package numba-cuda
#   scripts/clients.sh cupy        CuPy's functions beside NumPy's
#   scripts/clients.sh cupy-tests  CuPy's own tests of reductions, from the source package
#   scripts/clients.sh triton      kernels in Triton beside NumPy, by scripts/triton_kernels.py; needs a C compiler
#   scripts/clients.sh taichi      kernels in Taichi beside NumPy, by scripts/taichi_kernels.py
#   scripts/clients.sh cubek       the tests of the crate cubek-reduce, by cudarc and NVRTC; needs the CUDA headers of
#                                  `cargo xtask doctor --fetch-cuda`
#   scripts/clients.sh all         all of these, one after the other
#
# The sources come from crates.io and PyPI. Dependencies and the output of each test are written to target/clients. The
# last line printed has the counts.
#
# Allocations are rounded up to 512 bytes, as on a GPU. With ROUND=1, accesses past the end of an array are faults, and
# the table stays as it is.
set -euo pipefail
clients="cudarc numba cupy cupy-tests triton taichi cubek"
client=${1:?"give all, or one of $clients"}
cd "$(dirname "$0")/.."
if [ "$client" = all ]; then
    failed=0
    for client in $clients; do scripts/clients.sh "$client" || failed=1; done
    exit $failed
fi
[[ " $clients " = *" $client "* ]] || { echo "$client: give all, or one of $clients" >&2; exit 2; }
cargo xtask build-sim >&2
folder=$PWD/target/clients
logs=$folder/$client
mkdir -p "$folder/lib" "$logs" "$folder/empty"
ln -sf "$PWD"/target/sim/lib/* "$PWD"/target/sim/unversioned/* "$folder/lib/"
export WARPFOLD_SIM_ROUND=${ROUND:-512} WARPFOLD_SIM_TELL=1 LD_LIBRARY_PATH=$folder/lib

# Installs packages in a virtual environment of the client's own, because clients behave differently with more packages.
python=$folder/python-$client/bin/python
packages() {
    [ -x "$python" ] || python3 -m venv "$folder/python-$client"
    "$python" -m pip install --quiet "$@" >&2
}

# Links NVRTC from PyPI's package $1, major version $2, into the folder of libraries, as libnvrtc.so.
nvrtc() {
    for library in "$folder/python-$client"/lib/python*/site-packages/nvidia/"$1"/lib/libnvrtc*.so.*; do
        ln -sf "$library" "$folder/lib/"
    done
    (cd "$folder/lib" && ln -sf "$(basename "$(ls -d libnvrtc.so."$2")")" libnvrtc.so)
}

# Unpacks version $2 of crate $1 with its tests in the folder $checkout, as a workspace of its own.
source_of() {
    local client=$folder/$1
    rm -rf "$client"
    mkdir -p "$client/src"
    printf '[package]\nname = "client"\nedition = "2024"\n[workspace]\n' >"$client/Cargo.toml"
    touch "$client/src/lib.rs"
    (cd "$client" && cargo add --quiet --no-default-features "$1@=$2" && cargo vendor --quiet sources >&2)
    checkout=$client/sources/$1
    echo '[workspace]' >>"$checkout/Cargo.toml"
}

# Prepares CuPy, which by default has NVRTC compile to machine code. The wheel's only PTX is for 12.0.
prepare_cupy() {
    packages numpy==2.4.6 cupy-cuda13x==14.2.0 nvidia-cuda-nvrtc==13.5.37 nvidia-cuda-runtime==13.5.37 "$@"
    export CUPY_COMPILE_WITH_PTX=1 CUPY_CACHE_DIR=$folder/cupy-cache WARPFOLD_SIM_CAPABILITY=12.0
}

# Unpacks the source package $1, version $2, into the folder of clients. pip downloads source packages only together with
# what builds them.
source_package() {
    "$python" - "$1" "$2" "$folder" <<'EOF'
import io, re, subprocess, sys, tarfile, urllib.parse, urllib.request
from pip._internal.models.index import PyPI

name, version, folder = sys.argv[1:]
given = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True)
index = f"{(given.stdout.strip() or PyPI.simple_url).rstrip('/')}/{name}/"
page = urllib.request.urlopen(index).read().decode()
link = re.search(rf'href="([^"]*{name}-{re.escape(version)}\.tar\.gz[^"]*)"', page).group(1)
archive = urllib.request.urlopen(urllib.parse.urljoin(index, link)).read()
tarfile.open(fileobj=io.BytesIO(archive)).extractall(folder, filter="data")
EOF
}

# Adds up the numbers before the words $1 (right results), $2 (wrong ones, several words) and $3 (skipped ones) in a text,
# each line of which must have some.
count() {
    python3 -c '
import re, sys
lines = sys.stdin.readlines()
sums = [0, 0, 0]
for line in lines:
    counts = [re.findall(rf"(\d+) (?:{words.replace(chr(44), chr(124))})", line) for words in sys.argv[1:]]
    if not any(counts):
        sys.exit(f"no counts: {line}")
    sums = [sum_ + sum(map(int, numbers)) for sum_, numbers in zip(sums, counts)]
right, wrong, skipped = sums
if not lines:
    sys.exit("no counts")
print(f"{right} of {right + wrong}, {skipped} skipped")' "$@"
}

cudarc() {
    # The last NVRTC with support for sm_53, which one test requests.
    packages nvidia-cuda-nvrtc-cu12==12.8.93
    nvrtc cuda_nvrtc 12
    source_of cudarc 0.18.1
    binary=$(cd "$checkout" && CARGO_TARGET_DIR=$folder/cudarc-target cargo test --lib --no-run --no-default-features \
        --features std,driver,nvrtc,runtime,dynamic-loading,cuda-13000,f16 --message-format json 2>/dev/null |
        grep -oE '"executable":"[^"]+"' | tail -n 1 | cut -d '"' -f 4)
    passed=0 all=0
    # Each test runs in a process of its own, because a lost context would make later tests fail.
    for test in $("$binary" --list --format terse | sed -n 's/: test$//p'); do
        all=$((all + 1))
        if timeout 300 "$binary" --exact "$test" --include-ignored >"$logs/$test.txt" 2>&1; then
            passed=$((passed + 1))
        else
            echo "$test: failed"
        fi
    done
    echo "$passed of $all"
}

numba() {
    packages numpy numba-cuda==0.30.4 nvidia-cuda-nvrtc==13.5.37 nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-crt \
        nvidia-cuda-cccl ml_dtypes psutil cffi filecheck pytest
    cd "$folder/empty"
    packages=$(echo "$folder"/python-numba/lib/python*/site-packages/numba_cuda)
    # Each module runs in a process of its own, for the same reason. `cudasim` is Numba's own simulator.
    for file in $(cd "$packages" && find numba/cuda/tests -name 'test_*.py' -not -path '*/cudasim/*' | sort); do
        module=$(tr / . <<<"${file%.py}")
        timeout 600 "$python" -W ignore -m numba.runtests -v "$module" >"$logs/$module.txt" 2>&1 || echo "$module"
    done
    "$python" - "$logs" <<'EOF'
import pathlib, re, sys

ran = bad = skipped = 0
for file in pathlib.Path(sys.argv[1]).iterdir():
    text = file.read_text(errors="replace")
    counts = re.findall(r"^Ran (\d+) tests?", text, re.M)
    if not counts:
        print(f"{file.stem}: did not finish, or was skipped")
        continue
    end = text[text.rindex("Ran ") :]
    number = lambda key: sum(int(n) for n in re.findall(rf"\b{key}=(\d+)", end))
    ran += int(counts[-1])
    # A test with several failed subtests counts once.
    failed = set(re.findall(r"^(?:ERROR|FAIL): (.*?)(?: \[.*| \(.*=.*)?$", text, re.M))
    bad += len(failed)
    skipped += number("skipped")
print(f"{ran - bad - skipped} of {ran - skipped}, {skipped} skipped")
EOF
}

cupy() {
    prepare_cupy
    "$python" scripts/cupy_functions.py
}

cupy-tests() {
    prepare_cupy pytest==9.2.0 scipy==1.17.1
    source_package cupy 14.2.0
    cd "$folder/cupy-14.2.0/tests"
    # Each file runs in a process of its own, because a lost context would make later tests fail.
    for tests in core_tests/test_{ndarray_reduction,cub_reduction,reduction,scan}.py math_tests/test_sumprod.py \
        statistics_tests/test_{meanvar,order}.py; do
        "$python" -m pytest --quiet -p no:cacheprovider -m "not slow and not multi_gpu" "cupy_tests/$tests" \
            >"$logs/$(basename "$tests").txt" 2>&1 || true
        echo "$tests: $(tail -n 1 "$logs/$(basename "$tests").txt")"
    done | tee "$logs/files"
    count passed failed,error skipped <"$logs/files"
}

triton() {
    packages numpy==2.4.6 ml_dtypes==0.6.0 triton==3.6.0
    # Triton compiles its launchers by the C compiler, and links them with the libcuda.so.1 of this folder.
    export TRITON_LIBCUDA_PATH=$folder/lib TRITON_CACHE_DIR=$folder/triton-cache
    "$python" scripts/triton_kernels.py
}

taichi() {
    packages numpy==2.4.6 taichi==1.7.4
    "$python" scripts/taichi_kernels.py
}

cubek() {
    packages nvidia-cuda-nvrtc==13.0.88
    nvrtc cu13 13
    export CUDA_PATH=$PWD/target/cuda/nvidia/cu13
    [ -d "$CUDA_PATH/include" ] || { echo "no $CUDA_PATH/include: run cargo xtask doctor --fetch-cuda" >&2; exit 2; }
    # The last release that compiles by NVRTC; later ones use LLVM.
    source_of cubek-reduce 0.2.0
    (cd "$checkout" && CARGO_TARGET_DIR=$folder/cubek-target cargo test --test lib --no-default-features \
        --features std,cpu-reference,cubecl/default,cubecl/cuda -- --quiet) >"$logs/tests.txt" 2>&1 || true
    grep '^test result' "$logs/tests.txt" | count passed failed ignored
}

# Errors end the client but not this script, which then finds no counts.
set +e
(set -e; "$client") | tee "$folder/$client.txt"
set -e
[ "$WARPFOLD_SIM_ROUND" = 512 ] || exit 0
python3 - "$client" "$(tail -n 1 "$folder/$client.txt")" <<'EOF'
import datetime, pathlib, re, sys

client, line = sys.argv[1:]
counts = re.fullmatch(r"(\d+) of (\d+)(?:.*?(\d+) skipped)?.*", line)
if not counts:
    sys.exit(f"{client}: the last line has no counts: {line}")
right, all, skipped = (int(number or 0) for number in counts.groups())
page = pathlib.Path("docs/census.md")
cells = f"{right} of {all} | {skipped} | {datetime.date.today().isoformat()}"
text, rows = re.subn(rf"^(\| `{client}` \|[^|]*)\|.*$", rf"\1| {cells} |", page.read_text(), flags=re.M)
if rows != 1:
    sys.exit(f"docs/census.md: {rows} rows begin with `{client}`; there must be one")
page.write_text(text)
EOF
