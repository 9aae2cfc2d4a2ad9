#!/usr/bin/env bash
# Tests and measures reductions on several GPUs (or one), from the repository's root, with the folder .gpu/ that
# `ONLY=scale scripts/gpu/pack.sh` makes. SETS names the sets to run, by default all, in this order:
#   tests     groups, worlds, streams and NCCL of the library's test binary, on all GPUs
#   sums      sums over 1, 2, 4 and 8 GPUs, by each transport of a group, and by PyTorch with NCCL, in turns:
#             library-group.jsonl
#   streamed  sums of host memory on 1, 2, 4 and 8 GPUs, compared with copies: library-group-streamed.jsonl
#   program   `mpirun -n GPUS warpfold` with files, by connections, by NCCL, and by NCCL without shared memory and
#             peer access, as between two hosts; checks the sums
#   killed    one of two processes is killed while both read: the other one must end within 10 s
#   targets   the measurements of `sums` compared with targets: library-group-targets.jsonl
# Writes logs and library-scale-checks.jsonl, with the result of each check, to $OUT. DEVICE=sim tests the script on
# four simulated GPUs, without NCCL and PyTorch. NVLink multicast is not used, and is disabled in NCCL. Exits with 1 if
# anything fails.
source "$(dirname "$0")/common.sh"
unset WARPFOLD_PTX_DIR WARPFOLD_CODEGEN
export NCCL_NVLS_ENABLE=0
checks=$out/library-scale-checks.jsonl
: >"$checks"

if [ "$device" = sim ]; then
    echo "simulated GPUs use peer stores in place of NCCL, and processes use connections"
    gpus=4 sizes=10
    export WARPFOLD_SIM_DEVICES=4 DEVICE=sim
else
    gpus=$(nvidia-smi --list-gpus | wc -l)
    sizes=${SIZES:-10 16 20 24 26 27 28 29 30 31 32}
    # The NCCL of the Python environment, if it has one, so that PyTorch and the library use the same.
    python3 -c 'import nvidia.nccl' 2>/dev/null && [ -z "${WARPFOLD_LIBNCCL:-}" ] &&
        export WARPFOLD_LIBNCCL=$(python3 -c 'import nvidia.nccl; print(nvidia.nccl.__path__[0])')/lib/libnccl.so.2
fi
rounds=${ROUNDS:-3}
warpfold=.gpu/bin/warpfold

note() { echo "{\"set\": \"$1\", \"what\": \"$2\", \"result\": \"$3\"}" >>"$checks"; }
skip() { echo "skipped: $2"; note "$1" "$2" skipped; }

set_tests() {
    check .gpu/tests/library group:: group_shapes:: group_streamed:: world:: nccl:: >"$out/library.log" 2>&1
    grep -E "^test result|^test .*FAILED|panicked|^skipped" "$out/library.log"
    note tests library "$(grep -E '^test result' "$out/library.log" | tail -n 1)"
}

# Starts the file of results $out/$1.jsonl of the set $2 with the line of the machine.
begin() { machine_line "SETS=$2 scripts/gpu/scale.sh" >"$out/$1.jsonl"; }

counts() { for count in 1 2 4 8; do [ $count -le "$gpus" ] && echo $count; done; }

add_round() {
    sed "s/^{/{\"round\": $round, /" "$out/round.jsonl" >>"$out/library-group.jsonl"
    rm "$out/round.jsonl"
}

set_sums() {
    local round count
    begin library-group sums
    [ "$device" = sim ] && skip sums "PyTorch and NCCL, which need GPUs"
    for round in $(seq "$rounds"); do
        # shellcheck disable=SC2086
        check .gpu/tests/group $sizes >"$out/round.jsonl"
        add_round
        [ "$device" = sim ] && continue
        for count in $(counts); do
            # shellcheck disable=SC2086
            check python3 scripts/gpu/torch_group.py "$count" $sizes >"$out/round.jsonl"
            add_round
        done
    done
    cat "$out/library-group.jsonl"
}

set_streamed() {
    begin library-group-streamed streamed
    # shellcheck disable=SC2046
    check .gpu/tests/streamed copies still $(counts | sed 's/^/still-/') >>"$out/library-group-streamed.jsonl"
    cat "$out/library-group-streamed.jsonl"
}

# Writes four files to the folder $1, with $2 floats in all: a quarter each of 1, 2, 3 and 4.
files() {
    python3 - "$1" "$2" <<'END'
import struct, sys

folder, count = sys.argv[1], int(sys.argv[2])
for part in range(4):
    ones = struct.pack("<f", 1.0 + part) * (count // 4)
    header = str({"descr": "<f4", "fortran_order": False, "shape": (count // 4,)}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with open(f"{folder}/part-{part}.npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + ones)
END
}

set_program() {
    local folder count=$((1 << 22)) how output
    command -v mpirun >/dev/null || { skip program "no mpirun"; return; }
    folder=$(mktemp -d)
    files "$folder" $count
    for how in "WARPFOLD_WAY=copies" "WARPFOLD_WAY=nccl" \
        "WARPFOLD_WAY=nccl NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1"; do
        if [ "$device" = sim ] && [[ $how = *nccl* ]]; then
            skip program "$how, which needs GPUs"
            continue
        fi
        # shellcheck disable=SC2086
        output=$(env $how OMPI_MCA_plm_rsh_agent=false mpirun --allow-run-as-root --oversubscribe -n "$gpus" \
            $warpfold "$folder"/part-*.npy --op sum,argmax --level everywhere --device "$device" 2>"$out/program.log")
        echo "$output"
        # The sum is 1 + 2 + 3 + 4 times a quarter; the maximum is first in the last file.
        if [[ $output = *"$((count / 4 * 10))"* && $output = *"$((count / 4 * 3))"* ]]; then
            note program "mpirun -n $gpus, $how" right
        else
            cat "$out/program.log"
            note program "mpirun -n $gpus, $how" WRONG
            fail "mpirun -n $gpus, $how"
        fi
    done
    rm -r "$folder"
}

set_killed() {
    local folder pids=() rank start took
    folder=$(mktemp -d)
    files "$folder" 4096
    # A sparse file of 64 GiB: a header and zeros.
    python3 - "$folder/large.npy" <<'END'
import struct, sys

count = 1 << 34
header = str({"descr": "<f4", "fortran_order": False, "shape": (count,)}).encode()
header += b" " * (-(len(header) + 11) % 64) + b"\n"
with open(sys.argv[1], "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    file.truncate(file.tell() + 4 * count)
END
    for rank in 0 1; do
        RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$((rank % gpus)) WARPFOLD_ADDRESS=127.0.0.1:29518 \
            $warpfold "$folder/large.npy" --device "$device" >"$out/killed-$rank.log" 2>&1 &
        pids+=($!)
    done
    sleep "${BEFORE_KILL:-8}"
    kill -9 "${pids[1]}" || fail "the process ended before it was killed"
    start=$(date +%s%N)
    wait "${pids[0]}"
    rank=$?
    took=$((($(date +%s%N) - start) / 1000000))
    cat "$out/killed-0.log"
    if [ $rank = 2 ] && grep -q "rank 1 is gone" "$out/killed-0.log" && [ $took -lt 10000 ]; then
        note killed "the other process ended after $took ms" right
    else
        note killed "status $rank after $took ms" WRONG
        fail "a killed process: status $rank after $took ms"
    fi
    rm -r "$folder"
}

set_targets() {
    [ "$device" = sim ] && { skip targets "times of simulated GPUs are meaningless"; return; }
    check python3 - "$out/library-group.jsonl" <<'END' >"$out/library-group-targets.jsonl"
import collections, json, statistics, sys

lines = [json.loads(line) for line in open(sys.argv[1]).read().splitlines()]
times = collections.defaultdict(list)
for line in lines[1:]:
    by = line.get("way", "torch")
    for field in ("into_us", "alone_into_us", "recorded_us"):
        if field in line:
            times[by, line["devices"], line["n"], field].append(line[field]["median"])
us = {key: statistics.median(values) for key, values in times.items()}
most = max(line["devices"] for line in lines[1:])
missed = []


def target(what, value, wanted=None, at_most=False):
    met = None if None in (value, wanted) else (value <= wanted if at_most else value >= wanted)
    value = None if value is None else round(value, 3)
    missed.append(met is False)
    print(json.dumps({"devices": most, "what": what, "value": value, "wanted": wanted, "met": met}))


def ratio(one, other):
    return us[one] / us[other] if one in us and other in us else None


of = lambda by, log2, field="into_us", devices=most: (by, devices, 1 << log2, field)
large = us.get(of("Peers", 32))
target("2^32 floats a GPU, rate over that of as many by themselves",
       large and ratio(of("Peers", 32, "alone_into_us"), of("Peers", 32)), 0.98, False)
target("TB/s of 2^32 floats a GPU on 4", large and most == 4 and most * (1 << 34) / large / 1e6, 18.4, False)
target("2^20 floats a GPU by peer stores, times one GPU's reducer",
       ratio(of("Peers", 20), of("Peers", 20, "alone_into_us")), 1.5, True)
target("2^20 floats a GPU in a graph, us", us.get(of("Peers", 20, "recorded_us")), 5.0, True)
target("2^20 floats a GPU, times as fast as torch.sum and all-reduce",
       ratio(of("torch", 20), of("Peers", 20)), 4.0, False)
for log2 in (20, 24, 28, 30):
    target(f"weak scaling of 2^{log2} floats a GPU: time of 1 over that of {most}",
           ratio(of("Peers", log2, devices=1), of("Peers", log2)))
for log2 in (28, 30, 32):
    part = log2 - most.bit_length() + 1
    target(f"strong scaling of 2^{log2} floats in all: times as fast as 1",
           ratio(of("Peers", log2, devices=1), of("Peers", part)))
sys.exit(any(missed))
END
    cat "$out/library-group-targets.jsonl"
}


run_sets tests sums streamed program killed targets
