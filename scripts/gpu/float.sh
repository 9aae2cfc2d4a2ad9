#!/usr/bin/env bash
# On a GPU machine, from the repository's root, with .gpu/ as scripts/gpu/pack.sh leaves it: every form of every
# instruction on floats, its results beside the simulator's, bit for bit. CASES random ones [100000000] beside
# the systematic ones. ONLY names how the instructions start, by default all. Leaves float.jsonl, one JSON
# object per instruction behind one of the machine, in $OUT. Exits 1 when a result is not what the manual allows.
source "$(dirname "$0")/common.sh"
step float
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
check .gpu/bin/float_hardware --cases "${CASES:-100000000}" --only "${ONLY:-}" --out "$out/float.jsonl" >"$out/float.txt"
cat "$out/float.txt"
exit $failed
