#!/usr/bin/env bash
# Compares compute-sanitizer with `cargo xtask check`, on a GPU machine, from the repository's root, with the
# folder .gpu/ that scripts/gpu/pack.sh makes. Both check the same launches of every kernel of the catalogue
# and of the test kernels with planted faults. Prints both results, and writes one JSON object per kernel to
# $OUT/sanitize.jsonl. KERNELS names the kernels, by default all; CODEGEN=llvm or nvvm selects the code
# generator of the PTX. Exits with 1 if either reports an error in a kernel of the catalogue, or `cargo xtask
# check` misses a planted fault.
source "$(dirname "$0")/common.sh"
catalogue=$($xtask run --list --json | python3 -c '
import json, sys
print(*(row["id"] for row in json.load(sys.stdin) if row["family"] not in ("cpu", "transfer")))')
# testing_probe and testing_collectives test primitives and collectives, and have no fault.
wrong=$(cd ".gpu/ptx/${CODEGEN:-llvm}/sm_90" && ls testing_*.ptx | sed 's/\.ptx//' | grep -vE 'testing_(probe|collectives)')

: >"$out/sanitize.jsonl"
for kernel in ${KERNELS:-$catalogue $wrong}; do
    found=()
    for tool in memcheck racecheck initcheck synccheck; do
        timeout 300 compute-sanitizer --tool $tool --error-exitcode 3 $xtask check --variant "$kernel" --on-gpu \
            >"$out/sanitize-$kernel-$tool.log" 2>&1 </dev/null
        status=$?
        # 2: the launch failed, as memcheck also reports; 124: timed out.
        [ $status = 0 ] || found+=("$tool:$status")
    done
    $xtask check --variant "$kernel" >"$out/sanitize-$kernel-own.log" 2>&1
    own=$?
    printf '%-28s own: %-6s sanitizer: %s\n' "$kernel" "$([ $own = 0 ] && echo clean || echo found)" \
        "${found[*]:-clean}"
    printf '{"kernel": "%s", "own": %d, "sanitizer": "%s"}\n' "$kernel" "$own" "${found[*]:-}" \
        >>"$out/sanitize.jsonl"
    case $kernel in
    testing_drops_tail) [ $own = 0 ] ;;
    testing_*) [ $own = 1 ] ;;
    *) [ $own = 0 ] && [ ${#found[@]} = 0 ] ;;
    esac || fail "$kernel"
done
exit $failed
