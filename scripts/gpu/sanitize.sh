#!/usr/bin/env bash
# On a GPU machine with compute-sanitizer, from the repository's root, with .gpu/ as scripts/gpu/pack.sh
# leaves it: runs its four tools on the launches that `cargo xtask check` judges, of every kernel of the
# catalogue and of those that are wrong on purpose, and prints both verdicts beside each other. Writes to
# $OUT: sanitize.jsonl, one JSON object per kernel. KERNELS names those to run, by default all; CODEGEN=llvm
# or nvvm chooses whose PTX is run. Exits 1 when a kernel of the catalogue is not clean on either side, or
# one that is wrong on purpose is clean on ours.
source "$(dirname "$0")/common.sh"
catalogue=$($xtask list --json | python3 -c '
import json, sys
print(*(row["id"] for row in json.load(sys.stdin) if row["family"] not in ("cpu", "transfer")))')
# testing_probe and testing_collectives try primitives and collectives, and are no reductions.
wrong=$(cd ".gpu/ptx/${CODEGEN:-llvm}/sm_90" && ls testing_*.ptx | sed 's/\.ptx//' | grep -vE 'testing_(probe|collectives)')

: >"$out/sanitize.jsonl"
for kernel in ${KERNELS:-$catalogue $wrong}; do
    found=()
    for tool in memcheck racecheck initcheck synccheck; do
        timeout 300 compute-sanitizer --tool $tool --error-exitcode 3 $xtask check --variant "$kernel" --on-gpu \
            >"$out/sanitize-$kernel-$tool.log" 2>&1 </dev/null
        status=$?
        # 2: the launch failed, which memcheck tells of as well; 124: it hung.
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
