# Sourced by the scripts of this folder, which run on a GPU machine from the repository's root, with the folder
# .gpu/ that pack.sh makes. Results are written to $out; $failed is 1 after a failure. DEVICE=sim tests a script
# on a machine without a GPU, as far as possible.
set -uo pipefail
out=${OUT:-target/gpu}
mkdir -p "$out"
failed=0
xtask=.gpu/bin/xtask
device=${DEVICE:-cuda}
export WARPFOLD_TEST_DEVICE=$device WARPFOLD_CUB=$PWD/.gpu/cub/libwarpfold_cub.so
export WARPFOLD_PTX_DIR=$PWD/.gpu/ptx

step() { echo "== $* ($SECONDS s)"; }
fail() { echo "FAILED: $*" >&2; failed=1; }
check() { "$@" || fail "($?) $*"; }
refused() { "$@"; [ $? = 2 ] || fail "not refused: $*"; }

# Unpacks once, also if one of the scripts calls another.
if ! [ .gpu/unpacked -nt .gpu/pack.tar.xz ]; then
    tar -C .gpu -xf .gpu/pack.tar.xz && touch .gpu/unpacked || exit 2
    # .gpu/ptx has the PTX of all code generators. .gpu/by has a folder for each code generator of Rust with
    # only its PTX and that of the twins, so that PTX of the other one cannot be used by mistake.
    for codegen in llvm nvvm; do
        mkdir -p .gpu/by/$codegen
        for made in $codegen cuda-c; do
            [ ! -d .gpu/ptx/$made ] || ln -sfn ../../ptx/$made .gpu/by/$codegen/$made
        done
    done
fi

# CODEGEN=llvm or nvvm: the script uses only the PTX by that code generator.
if [ -n "${CODEGEN:-}" ]; then
    export WARPFOLD_CODEGEN=$CODEGEN WARPFOLD_PTX_DIR=$PWD/.gpu/by/$CODEGEN
    [ -d "$WARPFOLD_PTX_DIR/$CODEGEN" ] || { echo "FAILED: no PTX by $CODEGEN in the pack"; exit 2; }
fi

# Runs the sets that SETS names, by default all arguments: the function `set_<name>` for each. Prints how long
# each took.
run_sets() {
    local name start
    for name in ${SETS:-$*}; do
        [ "$(type -t "set_$name")" = function ] || { fail "no set $name, there are $*"; continue; }
        start=$SECONDS
        step "$name"
        "set_$name"
        echo "-- $name took $((SECONDS - start)) s"
    done
    step end
    exit $failed
}

# Removes the folder from the command line in a file of results, so that it does not depend on the machine.
forget_folder() { sed -i "s#--out $out/#--out #" "$1"; }

# Prints the first line of a file of results: the machine, the date, and the command $1.
machine_line() {
    python3 - "$1" <<'END'
import datetime, json, subprocess, sys

machine = {"kind": "machine"}
try:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    lines = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    machine["gpu"], machine["driver"] = lines[0].split(", ")
    if len(lines) > 1:
        machine["gpus"] = len(lines)
except (OSError, subprocess.SubprocessError, IndexError, ValueError):
    pass  # No NVIDIA driver: the lines name the device.
machine["date"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
machine["command"] = sys.argv[1]
print(json.dumps(machine))
END
}

# Runs a comparison; writes its table to compare-$1.txt and its lines of JSON to compare-$1.jsonl.
compare() {
    local set=$1
    shift
    check $xtask compare "$@" --out "$out/compare-$set.jsonl" >"$out/compare-$set.txt"
    [ ! -f "$out/compare-$set.jsonl" ] || forget_folder "$out/compare-$set.jsonl"
    cat "$out/compare-$set.txt"
}

# Modules of the suite's tests that run on the GPU.
on_gpu="collectives:: probe:: reducer:: reduction::"

# Runs the named test binaries, by default all. That of the driver needs no PTX.
tests() {
    local name
    for name in ${*:-$(ls .gpu/tests)}; do
        # shellcheck disable=SC2046
        check ".gpu/tests/$name" $([ "$name" != suite ] || echo "$on_gpu") >"$out/$name.log" 2>&1
        grep -E "^test result|^test .*FAILED|panicked|without the CUDA" "$out/$name.log"
    done
}
