#!/usr/bin/env bash
# Compares the results of every form of every instruction on floats with the simulator's, bit for bit, on a GPU
# machine, from the repository's root, with the folder .gpu/ that scripts/gpu/pack.sh makes. Uses CASES random
# inputs [100000000] besides the systematic ones. ONLY is a prefix of the instructions to test, by default all.
# Writes $OUT/float.jsonl: a JSON object for the machine, then one for each instruction. Exits with 1 if the
# PTX manual does not allow a result.
source "$(dirname "$0")/common.sh"
step float
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
check .gpu/bin/float_hardware --cases "${CASES:-100000000}" --only "${ONLY:-}" --out "$out/float.jsonl" >"$out/float.txt"
cat "$out/float.txt"
exit $failed
