#!/bin/bash
# test_nwchem.sh: Debian's NWChem (DFT modules) on Debian's libga, linked twice: with Debian's
# ARMCI-MPI and with Skerry's libarmci; runs its own tests h2o and dft_siosi3 on Skerry and checks
# the energies. Everything is made outside the repository.
#   tools/test_nwchem.sh [--build DIR] [--cache DIR] [--jobs N] [--only NAME] [--build-only]
# --cache: where source, objects and results live, 2 GB (default: $NWCHEM_CACHE, else
# ~/.cache/skerry-nwchem); the first time takes some minutes.
# Ends with "N passed, N failed, N skipped"; status 1 if anything failed.
set -uo pipefail
SELF=$(realpath "$0"); TREE=$(dirname "$(dirname "$SELF")"); BUILD=$TREE/build JOBS=$(nproc) ONLY= BUILD_ONLY=
CACHE=${NWCHEM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/skerry-nwchem}
while [ $# -gt 0 ]; do
  case $1 in
  --build) BUILD=$(realpath "$2"); shift 2 ;;
  --cache) CACHE=$(realpath -m "$2"); shift 2 ;;
  --jobs) JOBS=$2; shift 2 ;;
  --only) ONLY=$2; shift 2 ;;
  --build-only) BUILD_ONLY=1; shift ;;
  -h|--help) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$SELF"; exit 0 ;;
  *) echo "test_nwchem.sh: unknown option '$1' (see --help)" >&2; exit 2 ;;
  esac
done
. "$TREE/tools/test_nwchem_build.sh"

skip_all() { echo "skipped h2o, siosi3: $1"; echo "0 passed, 0 failed, 2 skipped"; exit 0; }
die() { echo "test_nwchem.sh: $1" >&2; exit 2; }

nwchem_why_not || skip_all "$REASON"
ARMCI=$BUILD/lib/armci-openmpi
[ -e "$ARMCI/libarmci.so" ] || skip_all "no $ARMCI/libarmci.so: build first, with OpenMPI's development package installed"
nwchem_build || die "could not build NWChem: the end of $CACHE/build.log says why"
nwchem_link armci-mpi /usr || die "could not link with ARMCI-MPI: see $CACHE/link-armci-mpi.log"
nwchem_link skerry "$ARMCI" || die "could not link with $ARMCI: see $CACHE/link-skerry.log"
[ -z "$BUILD_ONLY" ] || exit 0

# The energies of NWChem's own reference outputs; the tolerance is what differing orders of
# summation may change.
PASSED=0 FAILED=0
one() {  # one TEST RANKS LINE ENERGY
  local name="$1, $2 ranks" log=$CACHE/run/$1-$2.out start found
  [ -z "$ONLY" ] || [ "$ONLY" = "$1" ] || return 0
  start=$(date +%s)
  local scratch status; scratch=$(mktemp -d)
  (cd "$scratch" && exec timeout -k 5 600 mpirun.openmpi --bind-to none --oversubscribe --mca mpi_yield_when_idle 1 -n "$2" "$CACHE/nwchem.skerry" \
    "$CACHE/source/nwchem/QA/tests/$1/$1.nw") > "$log" 2>&1 < /dev/null
  status=$?; rm -rf "$scratch"
  found=$(sed -n "s/^ *$3 *= *\(-[0-9.]*\).*/\1/p" "$log" | tail -1)
  if [ $status = 0 ] && [ -n "$found" ] && awk -v a="$found" -v b="$4" 'BEGIN { d = a - b; exit !(d < 1e-6 && d > -1e-6) }'; then
    PASSED=$((PASSED + 1)); echo "ok      $name ($(($(date +%s) - start)) s): $3 $found"
  else
    FAILED=$((FAILED + 1)); echo "FAILED  $name: status $status, $3 '${found:-none}' instead of $4; the end of $log:"; tail -20 "$log" | sed 's/^/        /'
  fi
}
mkdir -p "$CACHE/run"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OPENBLAS_NUM_THREADS=1 NWCHEM_BASIS_LIBRARY=$CACHE/source/nwchem/src/basis/libraries/
one h2o 1 "Total SCF energy" -76.010538615916
one h2o 4 "Total SCF energy" -76.010538615916
one dft_siosi3 1 "Total DFT energy" -2840.723743345628
one dft_siosi3 2 "Total DFT energy" -2840.723743345628
one dft_siosi3 4 "Total DFT energy" -2840.723743345628
echo "$PASSED passed, $FAILED failed, 0 skipped"
[ $FAILED = 0 ]
