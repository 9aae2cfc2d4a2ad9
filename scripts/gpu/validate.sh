#!/usr/bin/env bash
# Profiles the kernels of the catalogue by Nsight Compute, RUNS times [3] each with N elements [65536], on a GPU
# machine, from the repository's root, with the folder .gpu/ that scripts/gpu/pack.sh makes. Writes
# $OUT/validate.jsonl: a line that describes the machine, then one JSON object per run and launch with the
# hardware counters. `cargo xtask explain --validate` compares them with the simulator. VARIANTS names the
# variants to profile, by default all. Exits with 1 if anything fails.
source "$(dirname "$0")/common.sh"
n=${N:-65536} runs=${RUNS:-3} lines=$out/validate.jsonl
metrics=$($xtask explain --metrics)
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/validate-machine.txt"
python3 - "$out/validate-machine.txt" >"$lines" <<'PY'
import datetime, json, subprocess, sys
ncu = subprocess.run(["ncu", "--version"], capture_output=True, text=True).stdout.strip().splitlines()
now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
print(json.dumps({"kind": "machine", "gpu": open(sys.argv[1]).read().strip(), "ncu": ncu[-1:], "date": now,
                  "command": "scripts/gpu/validate.sh"}))
PY

# One launch configuration per line: variant, type, grid or -, stride or -. Grid-stride kernels have a fixed
# grid, because the default depends on the device.
cases=$($xtask run --list --json | python3 -c '
import json, os, sys
chosen = os.environ.get("VARIANTS", "").split()
for row in json.load(sys.stdin):
    if row["family"] in ("cpu", "transfer", "reducer") or chosen and row["id"] not in chosen:
        continue
    grid = 64 if row.get("geometry") == "grid_stride" else "-"
    strides = [1, 2, 4, 8, 16, 32, 64] if row.get("access") == "strided" else ["-"]
    for stride in strides:
        print(row["id"], "f32" if "f32" in row["dtypes"] else row["dtypes"][0], grid, stride)')

while read -r id dtype grid stride; do
    for run in $(seq "$runs"); do
        arguments=(--n "$n" --dtype "$dtype" --device cuda --iters 0)
        [ "$grid" = - ] || arguments+=(--grid "$grid")
        [ "$stride" = - ] || arguments+=(--stride "$stride")
        table=$out/validate-$id.csv
        if ! ncu --clock-control none --metrics "$metrics" --csv --page raw \
            ".gpu/bin/$id" "${arguments[@]}" >"$table" 2>"$table.log" </dev/null; then
            fail "$id $grid $stride" && tail -3 "$table" "$table.log"
            continue
        fi
        python3 - "$table" "$id" "$dtype" "$n" "$grid" "$stride" "$run" "$metrics" >>"$lines" <<'PY' || failed=1
import csv, json, sys
path, variant, dtype, n, grid, stride, run, names = sys.argv[1:]
names = names.split(",")
# Other output of ncu and of the program precedes and follows the table.
rows = [line for line in open(path) if line.startswith('"')]
table = csv.DictReader(rows)
launch = 0
for row in table:
    if not row["ID"]:
        continue  # the units
    metrics = {name: float(row[name].replace(",", "")) for name in names}
    print(json.dumps({"variant": variant, "dtype": dtype, "n": int(n), "grid": None if grid == "-" else int(grid),
                      "stride": None if stride == "-" else int(stride), "run": int(run), "launch": launch,
                      "kernel": row["Kernel Name"], "metrics": metrics}))
    launch += 1
sys.exit(launch == 0)
PY
    done
    echo "$id $stride: $(grep -c "\"variant\": \"$id\"" "$lines") lines"
done <<<"$cases"
rm -f "$out"/validate-*.csv "$out"/validate-*.csv.log
exit $failed
