#!/bin/bash
# test_hosts.sh: one program on separate hosts (testbed/hosts.sh; root), started by skerry,
# mpirun.openmpi and mpiexec.hydra; and the DFT example.
#   tools/test_hosts.sh [--build DIR] [--hosts N]
# Ends with "N passed, N failed, N skipped"; status 1 if anything failed.
set -uo pipefail
SELF=$(realpath "$0"); TREE=$(dirname "$(dirname "$SELF")"); BUILD=$TREE/build; N=3; ARGS=("$@")
while [ $# -gt 0 ]; do
  case $1 in
  --build) BUILD=$(realpath "$2"); shift 2 ;;
  --hosts) N=$2; shift 2 ;;
  -h|--help) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$SELF"; exit 0 ;;
  *) echo "test_hosts.sh: unknown option '$1' (see --help)" >&2; exit 2 ;;
  esac
done
[ "$(id -u)" = 0 ] || { echo "test_hosts.sh: needs root to make hosts" >&2; exit 2; }
[ -x "$BUILD/bin/host_check" ] || { echo "test_hosts.sh: no $BUILD/bin/host_check: build first" >&2; exit 2; }
[ -n "${TESTBED:-}" ] || exec "$TREE/testbed/hosts.sh" run "$N" -- "$SELF" "${ARGS[@]}"

HOSTS=$TREE/testbed/hosts.sh CHECK=$BUILD/bin/host_check AGENT=$TESTBED_AGENT
PASSED=0 FAILED=0 SKIPPED=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
list() { local k s=; for k in $(seq "$N"); do s+=${s:+,}sk$k:$1; done; echo "$s"; }
one() {  # one NAME COMMAND...: runs it on the launchers' host
  local name=$1 log start; shift; log=$(mktemp); start=$(date +%s)
  if timeout -k 5 120 "$HOSTS" exec sk0 "$@" > "$log" 2>&1 < /dev/null && grep -q '^[a-z]*_check: .* ok$' "$log"; then
    PASSED=$((PASSED + 1)); echo "ok      $name ($(($(date +%s) - start)) s): $(grep -m1 '^[a-z]*_check:' "$log")"
  else
    FAILED=$((FAILED + 1)); echo "FAILED  $name"; sed 's/^/        /' "$log" | tail -25
  fi
  rm -f "$log"
}
skip() { SKIPPED=$((SKIPPED + 1)); echo "skipped $1: $2"; }

for each in 1 2; do
  total=$((N * each))
  one "skerry, $each a host" "$BUILD/bin/skerry" run -n $total --hosts "$(list $each)" --agent "$AGENT" "$CHECK" 2 $total "$N"
  if command -v mpirun.openmpi > /dev/null; then
    one "mpirun.openmpi, $each a host" mpirun.openmpi --mca plm rsh --mca plm_rsh_agent "$AGENT" --mca plm_rsh_no_tree_spawn 1 --host "$(list $each)" -n $total \
      --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 --bind-to none --oversubscribe "$CHECK" 2 $total "$N"
  else
    skip "mpirun.openmpi, $each a host" "not installed (openmpi-bin)"
  fi
  if command -v mpiexec.hydra > /dev/null; then
    one "mpiexec.hydra, $each a host" mpiexec.hydra -launcher ssh -launcher-exec "$AGENT" -hosts "$(list $each)" -iface skbr -n $total "$CHECK" 2 $total "$N"
  else
    skip "mpiexec.hydra, $each a host" "not installed (mpich)"
  fi
done

# Looking at a job on several hosts.
log=$(mktemp)
if [ "$N" -ge 3 ] && "$TREE/tests/look/hosts_test.py" --build "$BUILD" > "$log" 2>&1; then
  PASSED=$((PASSED + 1)); echo "ok      looking at a job"
elif [ "$N" -lt 3 ]; then
  skip "looking at a job" "needs 3 hosts"
else
  FAILED=$((FAILED + 1)); echo "FAILED  looking at a job"; sed 's/^/        /' "$log" | tail -25
fi
rm -f "$log"

# A host that is lost, in a job that goes on.
PYTHON=$TREE/.venv/bin/python
log=$(mktemp)
if [ "$N" -lt 3 ] || [ ! -x "$PYTHON" ] || [ ! -d "$BUILD/python/skerry" ]; then
  skip "a lost host" "needs 3 hosts, $PYTHON and $BUILD/python/skerry"
elif "$PYTHON" "$TREE/tests/chaos/lost_host.py" --build "$BUILD" > "$log" 2>&1; then
  PASSED=$((PASSED + 1)); echo "ok      a lost host"
else
  FAILED=$((FAILED + 1)); echo "FAILED  a lost host"; sed 's/^/        /' "$log" | tail -25
fi
rm -f "$log"

# The DFT example: PySCF's energy, and its bytes between nodes held against the hosts' own count.
PYTHON=$TREE/.venv/bin/python DFT=$TREE/examples/dft
if [ -x "$PYTHON" ] && [ -d "$BUILD/python/skerry" ]; then
  RESULTS=$(mktemp -d)
  one "DFT, 1 a host" /bin/sh -c '"$@" && "$0" '"$DFT/tests/check_bytes.py $RESULTS/dft.json" "$PYTHON" \
    "$BUILD/bin/skerry" run -n "$N" --hosts "$(list 1)" --agent "$AGENT" --env "PYTHONPATH=$BUILD/python" --env OMP_NUM_THREADS=1 \
    "$PYTHON" "$DFT/dft.py" --xyz "$DFT/molecules/disiloxane.xyz" --basis def2-TZVP --json "$RESULTS/dft.json"
  log=$(mktemp)
  if SKERRY_USER_BUILD=$BUILD "$PYTHON" "$DFT/demo_failure.py" --out "$RESULTS" \
      --xyz "$DFT/molecules/disiloxane.xyz" > "$log" 2>&1; then
    PASSED=$((PASSED + 1)); echo "ok      DFT, a host is lost: $(grep -m1 '^energy' "$log")"
  else
    FAILED=$((FAILED + 1)); echo "FAILED  DFT, a host is lost"
    sed 's/^/        /' "$log" | tail -25
  fi
  rm -rf "$RESULTS" "$log"
else
  skip "DFT, 1 a host" "no $PYTHON or no $BUILD/python/skerry"
fi
echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
[ $FAILED = 0 ]
