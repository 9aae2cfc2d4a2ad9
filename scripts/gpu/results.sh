#!/usr/bin/env bash
# On a GPU machine, from the repository's root, with .gpu/ as scripts/gpu/pack.sh leaves it: measures all that lies
# below docs/results/ of such a machine once more, by both code generators and beside all peers, so that all of it
# is of one machine, one day and one commit. SETS names the sets to run, by default all, in this order:
#   sum inputs rows types     the reducer beside CUB and PyTorch, see reducer.sh
#   energy                    what the reducer's launches take of it, see library.sh
#   ladder moves twins large  the ladder beside CUDA C, CUB and PyTorch, see compare.sh, where `twins` is `types`
#   catalogue                 every variant alone, see catalogue.sh
#   untuned choices older     the reducer with other tables of launches, and by PTX for sm_80: see reducer.sh
#   library library-nvvm      the library's benches by each code generator, see library.sh
# No set is begun LIMIT seconds [420] after the script, nor runs until LAST [590]. What was measured is kept in
# KEEP [/tmp/warpfold-results] and not measured again: where a machine runs a command for ten minutes at most, the
# same call goes on with what is left. COMMIT names the commit in run.jsonl, which says of each set how long it took
# and what came out. Leaves $OUT/results.tar.gz, with the files where they lie below the machine's folder, and the
# logs. Exits 1 when anything is wrong.
source "$(dirname "$0")/common.sh"
here=$(dirname "$0")
keep=${KEEP:-/tmp/warpfold-results}
limit=${LIMIT:-420} last=${LAST:-590}
mkdir -p "$keep"/{done,logs,files/library,files/experiments}
[ -e "$keep/files/experiments/run.jsonl" ] ||
    machine_line "${COMMIT:+COMMIT=$COMMIT }scripts/gpu/results.sh" >"$keep/files/experiments/run.jsonl"

# A set by another script: the script, the folder of the files that it makes, and its environment.
by() {
    local script=$1 folder=$2 made=$keep/made/$name log=$keep/logs/$name.txt status
    shift 2
    rm -rf "$made" && mkdir -p "$made"
    env "$@" OUT="$made" timeout $((last - SECONDS)) "$here/$script.sh" >"$log" 2>&1 </dev/null
    status=$?
    grep -hE '^FAILED|^error|WRONG|in [0-9.]+ s$' "$log" | cut -c1-200
    if [ $status = 124 ]; then
        echo "$name: it took too long and is not kept"
        return 124
    fi
    [ $status = 0 ] || fail "$name"
    find "$made" -maxdepth 1 \( -name 'compare-*.jsonl' -o -name catalogue.jsonl \) -exec mv {} "$keep/files/$folder" \;
    find "$made" -maxdepth 1 -name 'library-*.jsonl' -exec mv {} "$keep/files/experiments" \;
    [ ! -d "$made/library" ] || find "$made/library" -name '*.jsonl' -exec mv {} "$keep/files/library" \;
    return $status
}

measure() {
    case $1 in
        sum | types | rows | inputs) by reducer . SETS="$1" STRICT=1 SECONDS_OF_ROWS=110 ;;
        untuned | older | choices) by reducer experiments SETS="$1" ;;
        ladder | moves | large) by compare . SETS="$1" STRICT=1 ;;
        twins) by compare . SETS=types STRICT=1 ;;
        catalogue) by catalogue . SETS=results CODEGEN=llvm ;;
        energy) by library . SETS=energy ;;
        library) by library . SETS="$benches" ;;
        library-nvvm) by library . CODEGEN=nvvm SETS="$benches" ;;
        *) fail "no set $1" ;;
    esac
}

benches="segments axis by_key pairs top views forms operations counted recorded"
all="sum inputs rows energy ladder twins moves large types catalogue untuned choices older library library-nvvm"
left=()
for name in ${SETS:-$all}; do
    [ ! -e "$keep/done/$name" ] || continue
    if [ $SECONDS -ge "$limit" ]; then
        left+=("$name")
        continue
    fi
    start=$SECONDS
    step "$name"
    measure "$name"
    status=$?
    if [ $status = 124 ]; then
        left+=("$name")
        continue
    fi
    touch "$keep/done/$name"
    echo "{\"set\": \"$name\", \"seconds\": $((SECONDS - start)), \"status\": $status}" |
        tee -a "$keep/files/experiments/run.jsonl"
done
tar -C "$keep" -czf "$out/results.tar.gz" files logs
echo "left: ${left[*]:-none}"
step end
exit $failed
