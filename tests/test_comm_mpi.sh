#!/usr/bin/env bash
# test_comm_mpi.sh: ranks over MPI: calls, the bits of programs, and the loss of a rank.
# ctest: labels=quick timeout=240 processors=2
#
# Starts test_comm by mpirun (`test_comm mpi SCENARIO`). Whatever becomes of rank 1, all processes end within the limit
# of a call and SLACK seconds, with a status that is not 0, and a rank that lives names it.
set -u
build=$(dirname "$PINN")
if ! command -v mpirun >/dev/null; then
  echo "skipped: no mpirun on this machine"
  exit 0
fi
if ! [ -e "$build/pinn_mpi.so" ]; then
  echo "skipped: this build has no MPI module"
  exit 0
fi
export PINN_MPI_MODULE="$build/pinn_mpi.so"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none # containers forbid it, and say so
export OMPI_MCA_btl_base_warn_component_unused=0 OMPI_MCA_plm_rsh_agent=true # one machine needs no ssh
# MPI leaves memory to the system at its end, and its ranks abort in the middle of things.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
limit=2
slack=3 # a second for the roll call, the rest for mpirun, which gives processes one to end
checks=0 failed=0

check() { # check TEXT COMMAND...
  checks=$((checks + 1))
  if ! "${@:2}"; then
    echo "FAILED: $1"
    sed 's/^/    /' out
    failed=$((failed + 1))
  fi
}

# run RANKS SCENARIO: sets status, seconds; what is printed goes to `out`.
run() {
  local start end
  start=$(date +%s%N)
  timeout -k 5 60 mpirun -n "$1" "$build/tests/test_comm" mpi "$2" >out 2>&1
  status=$?
  end=$(date +%s%N)
  seconds=$(((end - start) / 1000000))
}

says() { grep -q -e "$1" out; }
within() { [ "$seconds" -le $((1000 * (limit + slack) + $1)) ]; }

# How long an MPI program takes that does nothing: that is no waiting.
run 4 calls
start_ms=$seconds
check "4 ranks: calls (status $status)" [ "$status" = 0 ]
check "4 ranks: each says so" [ "$(grep -c ': 0 defects' out)" = 4 ]
cat out
for ranks in 1 2 3; do
  [ $ranks = 1 ] && want=4 || want=0 # mpirun -n 1 starts no ranks, in our sense
  run $ranks calls
  check "$ranks ranks: calls (status $status)" [ "$status" = $want ]
done
for ranks in 2 4; do
  run $ranks programs
  check "$ranks ranks: programs (status $status)" [ "$status" = 0 ]
  check "$ranks ranks: no bit differs" [ "$(grep -c ': 0 defects' out)" = $ranks ]
  cat out
done
# Messages cut into pieces, as those beyond two GiB are.
PINN_MPI_CHUNK=1000 run 3 calls
check "messages in pieces (status $status)" [ "$status" = 0 ]
check "messages in pieces: no defects" [ "$(grep -c ': 0 defects' out)" = 3 ]

export PINN_COMM_SECONDS=$limit
for scenario in kill stop leave abort sleep differ; do
  run 3 $scenario
  echo "$scenario: status $status after $seconds ms"
  check "$scenario: the status is not 0" [ "$status" != 0 ]
  check "$scenario: ended by itself" [ "$status" != 124 -a "$status" != 137 -o "$scenario" = kill ]
  check "$scenario: in time ($seconds ms, starting takes $start_ms)" within "$start_ms"
  case $scenario in
  stop | sleep)
    check "$scenario: rank 1 is named" says "gradient sums: no answer from rank 1 ([^ ]*, process [0-9]*) within"
    check "$scenario: no other is" eval '! says "no answer from.*rank [02]"'
    check "$scenario: the status is that of a lost rank" [ "$status" = 5 ] ;;
  abort) check "abort: the status is the one asked for" [ "$status" = 7 ] ;;
  differ) check "differ: all answer" says "in different calls" ;;
  kill | leave) check "$scenario: somebody names rank 1" says "rank 1\|process rank 1\|exited without\|PID" ;;
  esac
  if pgrep -f "$build/tests/test_comm mpi $scenario" >left; then
    check "$scenario: no process is left ($(tr '\n' ' ' <left))" false
  fi
done
unset PINN_COMM_SECONDS

# What cannot work says why.
PINN_MPI_MODULE=/nonexistent/module.so run 2 calls
check "a missing module ends the program" [ "$status" = 3 ]
check "a missing module: what to do" says "PINN_MPI_MODULE names one elsewhere"
OMPI_COMM_WORLD_SIZE=4 timeout 20 "$build/tests/test_comm" mpi calls >out 2>&1
status=$?
check "a launcher of another MPI ends the program (status $status)" [ "$status" = 3 ]
check "a launcher of another MPI: what to do" says "has started 4 ranks, but .* sees one alone"
PINN_COMM_SECONDS=soon run 2 calls
check "a limit that is no number ends the program (status $status)" [ "$status" = 3 ]
check "a limit that is no number: says so" says 'PINN_COMM_SECONDS: `soon`'

echo "$checks checks, $failed failed"
[ $failed = 0 ]
