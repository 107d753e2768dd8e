#!/bin/bash
# test.sh: what `make test` and `make test-rest` run: one line a step as it ends, and one summary
# line at the end. Status 1 if anything failed or more was skipped than tools/expected_skips.txt
# names.
#   tools/test.sh [--rest] [--no-sanitizers] [--no-hpcaas]
# Without --rest: what finds most a second, on what the preset `tests` builds. With it: all the
# others, on what the preset `all` builds, in two lanes, since jobs wait much of their time. The
# second lane is the sanitizers' builds and HPCaaS-Bench, which the other options leave out.
set -uo pipefail
cd "$(dirname "$(realpath "$0")")/.."
REST='' SANITIZERS=1 HPCAAS=1
for a in "$@"; do
  case $a in
  --rest) REST=1 ;;
  --no-sanitizers) SANITIZERS= ;;
  --no-hpcaas) HPCAAS= ;;
  -h|--help) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
  *) echo "test.sh: unknown option '$a' (see --help)" >&2; exit 2 ;;
  esac
done
LOG=$(mktemp -d); trap 'rm -rf "$LOG"' EXIT
export PYTHONPATH=$PWD/build/python${PYTHONPATH:+:$PYTHONPATH}
export SKERRY_USER_TEST_PYTHON=$PWD/.venv/bin/python
PYTHON=.venv/bin/python

# summary OUT STATUS: "PASSED FAILED SKIPPED", from the command's own summary: "N passed, N failed,
# N skipped", ctest's or pytest's. A command without one counts as one test.
summary() {
  local out=$1 status=$2 p=0 f=0 s=0 line
  if line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped' "$out" | tail -1)
     [ -n "$line" ]; then
    read -r p _ f _ s _ <<< "$line"
  elif line=$(grep -E '[0-9]+% tests passed, [0-9]+ tests failed out of [0-9]+' "$out" | tail -1)
       [ -n "$line" ]; then
    f=$(sed -E 's/.*passed, ([0-9]+) tests failed.*/\1/' <<< "$line")
    s=$(grep -cE '\*\*\*Skipped' "$out")
    p=$(($(sed -E 's/.*out of ([0-9]+).*/\1/' <<< "$line") - f - s))
  elif line=$(grep -E '(^|[ =])[0-9]+ (passed|failed|skipped)' "$out" | tail -1)
       [ -n "$line" ]; then
    p=$(grep -oE '[0-9]+ passed' <<< "$line" | cut -d' ' -f1)
    f=$(grep -oE '[0-9]+ (failed|error)' <<< "$line" | cut -d' ' -f1 | head -1)
    s=$(grep -oE '[0-9]+ skipped' <<< "$line" | cut -d' ' -f1)
  elif [ "$status" = 0 ]; then
    p=1
  fi
  [ "$status" != 0 ] && [ "${f:-0}" = 0 ] && f=1
  echo "${p:-0} ${f:-0} ${s:-0}"
}

# failures OUT: the lines that say what failed, and what follows each, for the end of the run. What
# passed is left out first: of hundreds of cases in one program the few that failed are shown.
failures() {
  grep -vE '^(passed|ok) |  Passed  |  Start |^\[ +(RUN|OK) +\]|^\[[-=]+\]' "$1" | grep -E -A 12 \
    '^(failed|FAILED|wrong|ERROR)|[*]{3}(Failed|Exception|Timeout)|: F(AIL|ailure$)|  FAILED  ' |
    head -40
}

# step NAME COMMAND...: runs one step and tells how it ended, in one line, and the end of its
# output if it failed. Lanes run steps at the same time: each has files of its own.
step() {
  local name=$1 out p f s line text start=$SECONDS; shift
  out=$(mktemp "$LOG/step.XXXXXX")
  "$@" > "$out" 2>&1 < /dev/null
  read -r p f s < <(summary "$out" $?)
  printf '%s\n' "$p $f $s $name" >> "$LOG/results"
  printf -v text '%5d s  %s: %d passed, %d failed, %d skipped\n' $((SECONDS - start)) "$name" \
    "$p" "$f" "$s"
  if [ "$f" != 0 ]; then
    text+=$(tail -60 "$out" | sed 's/^/    /')$'\n'
    failures "$out" | sed "s|^|$name: |" >> "$LOG/failures"
  fi
  printf '%s' "$text"
  if [ "$s" != 0 ]; then
    grep -iE 'skipped|SKIP' "$out" | grep -vE '^[0-9]+ passed' | head -20 |
      while IFS= read -r line; do printf '%s\n' "skipped: $name: $line"; done >> "$LOG/skips"
  fi
}

# The first lane of `make test`: jobs of several processes.
quick_jobs() {
  step "jobs on 1, 2 and 4 nodes" $PYTHON tests/run_jobs.py --quick --jobs 3
  step "Python as jobs" $PYTHON -m pytest -q -rs -m "not long" tests/python/test_as_jobs.py \
    tests/python/test_going_on.py
}

# The second lane of `make test`: one process at a time.
quick_alone() {
  step "includes follow the rooms" $PYTHON tools/check_includes.py
  step "columns and lengths" $PYTHON tools/check_style.py
  step "documentation follows the code" $PYTHON tools/check_docs.py
  step "programs say what they do" $PYTHON tools/check_programs.py
  step "types" $PYTHON tools/check_types.py
  step "unit tests" ctest --test-dir build -LE 'launchers|long' --output-on-failure -j 2
  step "the programs in the README" $PYTHON tests/readme.py
  step "Python on one rank" \
    $PYTHON -m pytest -q -rs -m "not long" --ignore tests/python/test_as_jobs.py \
    --ignore tests/python/test_going_on.py tests/python
}

rest_release() {
  step "long tests" ctest --test-dir build -L long -LE launchers --output-on-failure -j 2
  step "the laboratory" ctest --test-dir build/lab --output-on-failure -j 2
  step "jobs on all layouts" $PYTHON tests/run_jobs.py --jobs 3
  step "a soak of a minute" $PYTHON tests/soak/soak.py --minutes 1
  step "jobs in trouble" $PYTHON tests/trouble/trouble.py
  step "jobs in containers" $PYTHON tests/trouble/containers.py
  # Not grep -q: it hangs up on ldconfig.
  if [ -f /usr/include/rdma/fabric.h ] && [ -n "$(ldconfig -p | grep 'libfabric\.so\.1')" ]; then
    step "jobs over libfabric's tcp provider" \
      $PYTHON tests/run_jobs.py --fabric ofi --quick --jobs 3
    step "libfabric's datagrams, a sample" $PYTHON tests/adapters.py --sample
  fi
  # Where both MPIs and Global Arrays (libglobalarrays-dev) are installed.
  if [ -x build/bin/tests/armci/ga_check-openmpi ] && [ -x build/bin/tests/armci/ga_check-mpich ]
  then
    step "ARMCI and Global Arrays" $PYTHON tests/armci/run.py --smoke
  fi
  # Where the headers of OpenMPI are installed.
  if [ -f build/lib/libskerry_mpi_openmpi.so ]; then
    step "MPI windows" $PYTHON tests/mpi/run.py --quick --mpi openmpi4
  fi
  step "Python as jobs on other layouts" $PYTHON -m pytest -q -rs -m long tests/python
  step "the installation" $PYTHON tests/installed.py
  step "the DFT example" $PYTHON -m pytest -q -rs examples/dft/tests
}

rest_sanitized() {
  local kind
  if [ -n "$SANITIZERS" ]; then
    for kind in asan tsan; do
      step "build with $kind" \
        bash -c "cmake --preset $kind > /dev/null &&
                 cmake --build --preset $kind -j $(nproc) --target checked"
      step "unit tests, $kind" \
        ctest --test-dir build-$kind -L unit -LE 'launchers|no_sanitizers' --output-on-failure -j 2
    done
    step "jobs, asan" $PYTHON tests/run_jobs.py --build build-asan --quick --jobs 3
  fi
  [ -n "$HPCAAS" ] && step "HPCaaS-Bench" make -s -C hpcaas test
}

: > "$LOG/results"
if [ -z "$REST" ]; then
  quick_jobs & quick_alone & wait
else
  rest_release & rest_sanitized & wait
fi

[ -f "$LOG/skips" ] && cat "$LOG/skips"
awk '$2 > 0 { sub(/^[0-9]+ [0-9]+ [0-9]+ /, ""); print "failed in: " $0 }' "$LOG/results"
[ -f "$LOG/failures" ] && cat "$LOG/failures"
ALLOWED=$(awk '!/^(#|$)/ { n++ } END { print n + 0 }' tools/expected_skips.txt)
echo "all steps took $((SECONDS / 60)) min $((SECONDS % 60)) s"
read -r PASSED FAILED SKIPPED < <(awk '{ p += $1; f += $2; s += $3 } END { print p+0, f+0, s+0 }' \
  "$LOG/results")
echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
if [ "$SKIPPED" -gt "$ALLOWED" ]; then
  echo "more was skipped than the $ALLOWED that tools/expected_skips.txt names"
  exit 1
fi
[ "$FAILED" = 0 ]
