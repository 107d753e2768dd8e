#!/bin/bash
# test_rdma.sh: the operation checks over libfabric's verbs provider, in a virtual machine with
# software InfiniBand (testbed/rdma-vm.sh; root).
#   tools/test_rdma.sh [--build DIR] [TEST_PROGRAM [ARGS...]]
# Runs host_check on 2 virtual nodes with 2 and 4 ranks, the lock machines of the domain `nic` with
# the adapter's atomics (fabric_atomics_test), and the examples hash_table and ring with each value
# of SKERRY_LOCK; nobody_home: work on a node whose processes are all stopped, for which over tcp it
# must wait; single operations of bare libfabric (limit_rma) and of our fabric (fabric_rma);
# or TEST_PROGRAM (of DIR/bin or a path) alone.
# Where the adapter's atomics fail their trial the latter is skipped and says why.
# Ends with "N passed, N failed, N skipped".
set -uo pipefail
SELF=$(realpath "$0"); TREE=$(dirname "$(dirname "$SELF")"); BUILD=$TREE/build
while [ $# -gt 0 ]; do
  case $1 in
  --build) BUILD=$(realpath "$2"); shift 2 ;;
  -h|--help) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$SELF"; exit 0 ;;
  *) break ;;
  esac
done
VM=$TREE/testbed/rdma-vm.sh
if ! REASON=$("$VM" --check); then echo "skipped: $REASON"; echo "0 passed, 0 failed, 1 skipped"; exit 0; fi
export SKERRY_FABRIC=${SKERRY_FABRIC:-ofi:verbs}
if [ $# -gt 0 ]; then PROGRAM=$1; shift; [ -x "$PROGRAM" ] || PROGRAM=$BUILD/bin/$PROGRAM; exec "$VM" --share "$TREE" -- "$PROGRAM" "$@"; fi
[ -x "$BUILD/bin/host_check" ] || { echo "test_rdma.sh: no $BUILD/bin/host_check: build first" >&2; exit 2; }
ATOMICS=$BUILD/lab/locks/fabric_atomics_test
for PROGRAM in "$ATOMICS" "$BUILD"/bin/bench/{limit,fabric}_rma; do
  [ -x "$PROGRAM" ] || { echo "test_rdma.sh: no $PROGRAM: build first" >&2; exit 2; }
done
SCRIPT='passed=0; failed=0; skipped=0
for n in 2 4; do
  if timeout 200 "$0/bin/skerry" run -n $n --nodes 2 "$0/bin/host_check" 1 $n 2; then passed=$((passed + 1)); else echo "FAILED with $n ranks: status $?"; failed=$((failed + 1)); fi
done
lab=$0/lab/locks/lab_locks.so
for lock in fair migrating $lab:two_sided $lab:one_sided $lab:queue $lab:cohort $lab:asymmetric \
  $lab:reader_writer; do
  for example in hash_table ring; do
    run="$0/bin/skerry run -n 4 --nodes 2 $0/bin/examples/$example"
    if out=$(SKERRY_LOCK=$lock timeout 300 $run 2>&1); then passed=$((passed + 1))
    else failed=$((failed + 1)); echo "FAILED $example with SKERRY_LOCK=$lock: $out"; fi
  done
done
home() {  # EXPECTED FABRIC LOCK ROUNDS [gets]
  # It notices by itself that it makes no progress.
  if out=$(SKERRY_LOCK=$3 SKERRY_FABRIC=$2 timeout 2400 "$0/bin/skerry" run -n 4 --nodes 2 \
    "$0/bin/nobody_home" $1 $4 $5 2>&1)
  then passed=$((passed + 1))
  else failed=$((failed + 1)); echo "FAILED nobody home over $2, $3"; fi
  echo "$2, $3: $out"
}
home free ofi:verbs migrating 1000; home waits tcp migrating 1000
home free ofi:verbs fair 2 gets; home waits tcp fair 2 gets
for limit in limit_rma fabric_rma; do  # single operations: all four are done
  out=$(timeout 300 "$0/bin/bench/$limit" 2>&1); status=$?; echo "$out"
  if [ $status = 0 ] && [ "$(grep -c "^{.row" <<< "$out")" = 4 ]; then passed=$((passed + 1))
  else failed=$((failed + 1)); echo "FAILED $limit: status $status"; fi
done
out=$(timeout 300 "$1" --gtest_filter="*/ofi_verbs" 2>&1); status=$?; echo "$out"
if [ $status != 0 ] || ! grep -q "RUN .*ofi_verbs" <<< "$out"; then
  failed=$((failed + 1)); echo "FAILED lock machines over verbs: status $status"
elif grep -q "^\[  SKIPPED \]" <<< "$out"; then skipped=$((skipped + 1))
else passed=$((passed + 1)); fi
echo "$passed passed, $failed failed, $skipped skipped"; [ $failed = 0 ]'
exec "$VM" --timeout 3600 --share "$TREE" -- bash -c "$SCRIPT" "$BUILD" "$ATOMICS"
