#!/usr/bin/env bash
# Measures the files of a machine in docs/results/ again, by both code generators and with all peers, so that
# all are of one machine, one day and one commit. Runs on a GPU machine, from the repository's root, with the folder .gpu/
# that scripts/gpu/pack.sh makes. SETS names the sets to run, by default all, in this order:
#   sum inputs rows types     the reducer compared with CUB and PyTorch, see reducer.sh
#   energy                    energy of the reducer's launches, see library.sh
#   ladder moves twins large  the ladder compared with CUDA C, CUB and PyTorch, see compare.sh (`twins` is its `types`)
#   catalogue                 every variant alone, see catalogue.sh
#   untuned choices older     the reducer with other tables of launches, and by PTX for sm_80, see reducer.sh
#   library library-nvvm      the library's benches by each code generator, see library.sh
# The script starts no set after LIMIT seconds [420] and stops a running one after LAST seconds [590]. It keeps
# finished sets in KEEP [/tmp/warpfold-results] and does not measure them again, so that on a machine that limits a
# command to ten minutes, another call measures the remaining sets. COMMIT is the commit that is written to run.jsonl,
# which has the duration and the status of each set. Writes $OUT/results.tar.gz with the files, at their paths below
# the machine's folder, and the logs. Exits with 1 if anything fails.
source "$(dirname "$0")/common.sh"
here=$(dirname "$0")
keep=${KEEP:-/tmp/warpfold-results}
limit=${LIMIT:-420} last=${LAST:-590}
mkdir -p "$keep"/{done,logs,files/library,files/experiments}
[ -e "$keep/files/experiments/run.jsonl" ] ||
    machine_line "${COMMIT:+COMMIT=$COMMIT }scripts/gpu/results.sh" >"$keep/files/experiments/run.jsonl"

# Runs the script $1 for the set $name, with the environment of the arguments after $2. Moves its comparisons to the
# folder $2, and its other files to theirs.
run_script() {
    local script=$1 folder=$2 made=$keep/made/$name log=$keep/logs/$name.txt status
    shift 2
    rm -rf "$made" && mkdir -p "$made"
    env "$@" OUT="$made" timeout $((last - SECONDS)) "$here/$script.sh" >"$log" 2>&1 </dev/null
    status=$?
    grep -hE '^FAILED|^error|WRONG|in [0-9.]+ s$' "$log" | cut -c1-200
    if [ $status = 124 ]; then
        echo "$name: timed out; its results are not kept"
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
        sum | types | rows | inputs) run_script reducer . SETS="$1" STRICT=1 SECONDS_OF_ROWS=110 ;;
        untuned | older | choices) run_script reducer experiments SETS="$1" ;;
        ladder | moves | large) run_script compare . SETS="$1" STRICT=1 ;;
        twins) run_script compare . SETS=types STRICT=1 ;;
        catalogue) run_script catalogue . SETS=results CODEGEN=llvm ;;
        energy) run_script library . SETS=energy ;;
        library) run_script library . SETS="$benches" ;;
        library-nvvm) run_script library . CODEGEN=nvvm SETS="$benches" ;;
        *) fail "no set $1" ;;
    esac
}

benches="segments axis by_key pairs top views forms tuples operations counted recorded"
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
