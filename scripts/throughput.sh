#!/usr/bin/env bash
# Measures the simulator: warp instructions per second on one core, plain, observed, counted and checked, and on two.
#
#   scripts/throughput.sh FILE [BINARY...]
#
# Runs each BINARY of the benchmark `throughput` in turns, ROUNDS times (2). By default, builds that of these sources.
# `cargo bench -p warpfold-sim --bench throughput --no-run` prints its path; copy the file to compare later builds.
# Appends a line of JSON to FILE for each measurement: the median and the median absolute deviation of criterion's
# samples. No other program should use the CPU during the measurement.
set -euo pipefail
file=$(realpath "${1:?"give the file of results"}")
shift
cd "$(dirname "$0")/.."
if [ $# = 0 ]; then
    set -- "$(cargo bench -p warpfold-sim --bench throughput --no-run --message-format json 2>/dev/null |
        grep -oE '"executable":"[^"]+"' | tail -n 1 | cut -d '"' -f 4)"
fi
binaries=()
for binary in "$@"; do binaries+=("$(realpath "$binary")"); done
cpu=$(sed -n 's/^model name\s*: //p' /proc/cpuinfo | head -n 1)
for round in $(seq "${ROUNDS:-2}"); do
    for binary in "${binaries[@]}"; do
        folder=$(mktemp -d)
        CRITERION_HOME=$folder "$binary" --bench "(plain|observed|counted|checked|two threads)$" \
            --warm-up-time 0.5 --measurement-time 1 >/dev/null 2>&1
        python3 - "$folder" "$(basename "$binary")" "$round" "$cpu" >>"$file" <<'PYTHON'
import datetime, json, pathlib, sys

folder, binary, round_, cpu = sys.argv[1:]
for place in sorted(pathlib.Path(folder).glob("*/*/new")):
    benchmark, times = (json.loads((place / f"{name}.json").read_text()) for name in ("benchmark", "estimates"))
    case, _, watch = benchmark["function_id"].rpartition(", ")
    instructions, median = benchmark["throughput"]["Elements"], times["median"]["point_estimate"]
    print(json.dumps({
        "case": case, "watch": watch, "binary": binary, "round": int(round_),
        "warp_instructions": instructions, "median_ns": round(median),
        "spread_ns": round(times["median_abs_dev"]["point_estimate"]),
        "millions_per_second": round(1000 * instructions / median, 1),
        "cpu": cpu, "date": datetime.date.today().isoformat(),
    }))
PYTHON
        rm -r "$folder"
    done
done
