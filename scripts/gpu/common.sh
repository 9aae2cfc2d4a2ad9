# Sourced by the scripts of this folder, which run on a GPU machine from the repository's root, with .gpu/ as
# pack.sh leaves it. Results go to $out; $failed is 1 once something was wrong. DEVICE=sim tries a script on
# a machine without a GPU, as far as it goes.
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

# A script that calls another one has unpacked for it.
if ! [ .gpu/unpacked -nt .gpu/pack.tar.xz ]; then
    tar -C .gpu -xf .gpu/pack.tar.xz && touch .gpu/unpacked || exit 2
    # Beside .gpu/ptx, with all of them, a folder for each code generator of Rust with its own PTX and the
    # twins' alone: what takes the other one's by mistake finds nothing there.
    for codegen in llvm nvvm; do
        mkdir -p .gpu/by/$codegen
        for made in $codegen cuda-c; do
            [ ! -d .gpu/ptx/$made ] || ln -sfn ../../ptx/$made .gpu/by/$codegen/$made
        done
    done
fi

# CODEGEN=llvm or nvvm: all that follows runs on that one's PTX and finds no other.
if [ -n "${CODEGEN:-}" ]; then
    export WARPFOLD_CODEGEN=$CODEGEN WARPFOLD_PTX_DIR=$PWD/.gpu/by/$CODEGEN
    [ -d "$WARPFOLD_PTX_DIR/$CODEGEN" ] || { echo "FAILED: no PTX by $CODEGEN in the pack"; exit 2; }
fi

# Runs each set that SETS names, else all of those given, as a function of its name with `set_` before it,
# and says how long each took.
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

# A command line in a result names the file, not the folder of this machine.
forget_folder() { sed -i "s#--out $out/#--out #" "$1"; }

# The first line of a file of results: the machine, when it was begun, and by which command.
machine_line() {
    python3 - "$1" <<'END'
import datetime, json, subprocess, sys

machine = {"kind": "machine"}
try:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    said = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    machine["gpu"], machine["driver"] = said[0].split(", ")
    if len(said) > 1:
        machine["gpus"] = len(said)
except (OSError, subprocess.SubprocessError, IndexError, ValueError):
    pass  # No NVIDIA driver: the lines name the device.
machine["date"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
machine["command"] = sys.argv[1]
print(json.dumps(machine))
END
}

# A comparison: its table and its lines of JSON.
compare() {
    local set=$1
    shift
    check $xtask compare "$@" --out "$out/compare-$set.jsonl" >"$out/compare-$set.txt"
    [ ! -f "$out/compare-$set.jsonl" ] || forget_folder "$out/compare-$set.jsonl"
    cat "$out/compare-$set.txt"
}

# The test binaries that are named, all of them by default. The driver's needs no PTX.
tests() {
    local name
    for name in ${*:-$(ls .gpu/tests)}; do
        check ".gpu/tests/$name" >"$out/$name.log" 2>&1
        grep -E "^test result|^test .*FAILED|panicked|without the CUDA" "$out/$name.log"
    done
}
