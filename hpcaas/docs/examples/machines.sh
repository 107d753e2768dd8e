#!/bin/bash
# Four machines made of network namespaces on this one, measured with one command each and merged.
#
#   machines.sh OUT [REPEATS]     as root, inside `testbed/hosts.sh run 4 --`; HPCAAS is the command
#
# WAITING is the share of its time that a run may have waited for a CPU and still be judged by.
# one-core   may use one CPU
# two-cores  may use two
# old        may use two, and builds for the first x86-64 processors only: no AVX
# disturbed  may use two, while a neighbour on each wants as much of it
# Nobody sells these hosts: their prices are estimates per core, and the report says so.
set -euo pipefail
OUT=$(realpath -m "${1:?where to? machines.sh OUT [REPEATS]}") REPEATS=${2:-10}
WAITING=${WAITING:-0.05} SIZE=${SIZE:-medium}
HPCAAS=${HPCAAS:-hpcaas}
: "${TESTBED_HOSTS:?needs hosts: run it by make example-machines}"
GROUP= NEIGHBOURS=()

finish() {
  local p
  for p in "${NEIGHBOURS[@]}"; do
    kill "$p" 2> /dev/null || true
    wait "$p" 2> /dev/null || true
  done
  [ -z "$GROUP" ] && return
  # What is still ending when this is interrupted would hold the group.
  while read -r p; do
    echo "$p" > "${GROUP%/*}/cgroup.procs" || true
  done < "$GROUP/cgroup.procs" 2> /dev/null
  rmdir "$GROUP"
}
trap finish EXIT
trap "exit 130" INT TERM HUP

# The four have priority over whatever else runs here. Without control groups they have none.
priority() {
  local name=hpcaas-machines-$$
  if [ -w /sys/fs/cgroup/cpu/cpu.shares ]; then
    GROUP=/sys/fs/cgroup/cpu/$name; mkdir "$GROUP"; echo 262144 > "$GROUP/cpu.shares"
  elif grep -qsw cpu /sys/fs/cgroup/cgroup.subtree_control; then
    GROUP=/sys/fs/cgroup/$name; mkdir "$GROUP"; echo 10000 > "$GROUP/cpu.weight"
  fi
  [ -z "$GROUP" ] || echo $$ > "$GROUP/cgroup.procs"
}

# measure HOST CPUS NAME WORDS...: the one command of a machine, on all CPUs that it has
measure() {
  local host=$1 cpus=$2 name=$3 threads=${2//[^,]/}; shift 3
  "$TESTBED_HOSTS" exec "$host" taskset -c "$cpus" "$HPCAAS" measure --apps montecarlo \
    --size "$SIZE" --mpi none --split "1x$((${#threads} + 1))" --binding none --repeats "$REPEATS" \
    --out "$OUT" --campaign "$name" --machine "$name" "$@"
}

# The first two CPUs that this process may use, as numbers.
mapfile -t CPUS < <(python3 -c 'import os; print(*sorted(os.sched_getaffinity(0))[:2], sep="\n")')
[ ${#CPUS[@]} = 2 ] || { echo "machines.sh: needs two CPUs, may use ${#CPUS[@]}" >&2; exit 2; }
BOTH=${CPUS[0]},${CPUS[1]}

priority
measure sk1 "${CPUS[0]}" one-core
measure sk2 "$BOTH" two-cores
measure sk3 "$BOTH" old --target x86-64
for cpu in "${CPUS[@]}"; do
  taskset -c "$cpu" python3 -c 'while True: pass' & NEIGHBOURS+=($!)
done
measure sk4 "$BOTH" disturbed

FILES=() PRICES=()
for name in one-core two-cores old disturbed; do
  FILES+=("$OUT/$name/results.json")
  PRICES+=(--price "$name~oci/VM.Standard.E4.Flex-4-16")
done
"$HPCAAS" merge "${FILES[@]}" --to "$OUT/machines.json"
"$HPCAAS" report "$OUT/machines.json" "${PRICES[@]}" --waiting-limit "$WAITING" \
  --html "$OUT/machines.html" --title "Four hosts of the testbed"
"$HPCAAS" advise "$OUT/machines.json" "${PRICES[@]}" --waiting-limit "$WAITING"
