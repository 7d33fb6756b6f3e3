#!/usr/bin/env bash
# test_scaling.sh: `pinn bench scaling`: what it measures and writes, its model, and what it refuses.
# ctest: labels=full,bench,mpi timeout=600 processors=2
#
# The model's parts are measured in the same run, so at the measured number of ranks it must agree with the measured
# step within a factor of 2: that is what two ranks lose if one of the two cores is somebody else's all the time. Other
# work on the machine only lengthens steps, so the best of five tries counts. On one core there is nothing to compare.
set -u
export LC_ALL=C
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # of Open MPI
failed=0 count=0
say() {
  count=$((count + 1))
  if [ "$1" -ne 0 ]; then
    failed=$((failed + 1))
    echo "FAILED: $2"
    sed 's/^/    /' out err 2>/dev/null | head -n 12
  fi
}
expect() { # expect STATUS WORDS...: runs pinn, keeps out and err
  local status=$1
  shift
  timeout 120 "$PINN" "$@" >out 2>err
  local got=$?
  [ "$got" -eq "$status" ]
  say $? "exit status $got, expected $status: pinn $*"
}
says() { grep -q -e "$2" "$1"; say $? "\`$2\` in $1"; }
value() { sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1"; } # value FILE KEY
holds() { awk "BEGIN { exit !($1) }"; say $? "$1 ($2)"; }
keys="case dtype split comm ranks threads cores more_ranks_than_cores points parameters min_ms median_ms steps
  alone_min_ms speedup efficiency talk_ms talk_share talk_calls talk_bytes latency_us bandwidth_gb_s fixed_ms vector_ms
  replicated_share memory_bytes memory_alone_bytes model_ms loss loss_alone gradient_norm isa cpu compiler model"

# One rank: no launcher, no ranks to talk with, and no model of an interconnect that nobody knows.
expect 0 bench scaling --points 500 --seconds 0.05 --json one
for key in $keys; do says one "^  \"$key\": "; done
[ "$(value one case) $(value one ranks) $(value one comm) $(value one split)" = "burgers 1 self points" ]
say $? "burgers on one rank by default"
[ "$(value one speedup) $(value one talk_calls) $(value one latency_us) $(value one threads)" = "1 0 null 1" ]
say $? "one rank has nobody to talk to"
says out 'model      none' && says out '\-\-ranks 1,2,4'
holds "($(value one model_ms) - $(value one min_ms))^2 <= (1e-6 * $(value one min_ms))^2" "parts add up to the step"
holds "$(value one fixed_ms) > 0 && $(value one fixed_ms) < $(value one min_ms)" "a part of the step is not over points"

# The interconnect and the device of the model may be given; then one rank suffices. What is the same for all ranks and
# the number of slots bound the model: 500 points in f32 are 4 groups, so 8 ranks are no faster than 4 but for messages.
expect 0 bench scaling --points 500 --seconds 0.05 --latency 2 --bandwidth 100 --gpu-step 1e-4 --json gpu
says out 'MODEL, NOT MEASURED: one rank 0.100 ms (--gpu-step), 1 gather a step of 2.0 us a hop and 100.00 GB/s a rank (as given)'
row() { sed -n "s/.*{\"ranks\": $2, .*\"$3\": \([0-9.e+-]*\)[,}].*/\1/p" "$1"; } # row FILE RANKS KEY
fixed() { awk "BEGIN { print 0.1 * $(value "$1" fixed_ms) / $(value "$1" min_ms) }"; } # ms of the given step
for r in 1 2 4 8 16 32 64 128 256 512 1024; do
  holds "$(row gpu $r strong_efficiency) > 0 && $(row gpu $r strong_efficiency) <= 1.000001 &&
    $(row gpu $r weak_efficiency) <= 1.000001" "efficiency of $r ranks"
done
holds "($(row gpu 1 strong_ms) - 0.1)^2 < 1e-12" "one rank takes the step that was given"
holds "$(row gpu 4 strong_ms) < $(row gpu 2 strong_ms) && $(row gpu 8 strong_ms) > $(row gpu 4 strong_ms)" "4 slots"
holds "$(row gpu 128 weak_ms) - $(row gpu 64 weak_ms) > 0.5 * (0.1 - $(fixed gpu))" "64 slots"

# A problem file, a format, more threads.
expect 0 bench scaling "$SOURCE_DIR/problems/heat.toml" --points 100 --seconds 0.02 --threads 2 --dtype f32 --json file
[ "$(value file case) $(value file threads) $(value file dtype)" = "heat.toml 2 f32" ]; say $? "a problem file"

# What it refuses.
expect 2 bench scaling bugers && says err 'Did you mean `burgers`'
expect 2 bench scaling --ranks 0 && says err 'expected numbers from 1 to 4096'
expect 2 bench scaling --ranks 1,,2 && says err 'expected numbers'
expect 2 bench scaling --ranks two && says err 'expected numbers'
expect 2 bench scaling --split rows && says err 'expected `points` or `layers`'
expect 2 bench scaling --latency -1 && says err 'expected a positive number'
expect 2 bench scaling --check 3 && says err 'go with `step CASE`'
expect 2 bench step burgers --ranks 2 && says err 'go with `scaling`'
expect 2 bench peak --split layers && says err 'go with `scaling`'
expect 3 bench scaling none.toml
env PATH=/nowhere "$PINN" bench scaling --ranks 2 --points 64 --seconds 0.01 >out 2>err
[ $? -eq 3 ]; say $? "no launcher is an environment that does not do"
says err '^mpirun: \(cannot be started\|was not found\)'
if [ "$failed" != 0 ]; then
  echo "scaling: $((count - failed)) of $count"
  exit 1
fi

# Ranks.
. "$SOURCE_DIR/tests/support_mpi.sh"
tries() { # tries CONDITION: the model against the measurement, at 2 ranks
  local i
  for i in 1 2 3 4 5; do
    timeout 120 "$PINN" bench scaling burgers --ranks 1,2 --points 16000 --seconds 0.4 --json two >out 2>err || return 1
    awk "BEGIN { exit !($(at2 model_ms) <= 2 * $(at2 min_ms) && $(at2 min_ms) <= 2 * $(at2 model_ms)) }" && return 0
    sleep 1
  done
  return 1
}
at2() { sed -n '/^  "ranks": 2,/,$p' two >two.2; value two.2 "$1" | head -n 1; }
if [ "$(value one cores)" -ge 2 ]; then
  tries
  say $? "at 2 ranks the model, $(at2 model_ms) ms, is within a factor 2 of the step, $(at2 min_ms) ms"
else
  expect 0 bench scaling burgers --ranks 1,2 --points 16000 --seconds 0.4 --json two
fi
says out 'MODEL, NOT MEASURED' && says out 'efficiency' && says two '"model_of_ranks": 2'
[ "$(value two loss | sort -u | wc -l)" = 1 ] && [ "$(value two gradient_norm | sort -u | wc -l)" = 1 ]
say $? "the bits of 1 and 2 ranks"
holds "$(at2 talk_calls) >= 1 && $(at2 talk_bytes) > 0 && $(at2 talk_share) > 0 && $(at2 talk_share) < 1" "talk"
holds "$(at2 latency_us) > 0 && $(at2 bandwidth_gb_s) > 0" "an interconnect"
# One sum a rank of the whole gradient and the loss in f32: 2 slots' worth, and a few words.
holds "$(at2 talk_bytes) >= 2 * 4 * 3022 && $(at2 talk_bytes) <= 2 * 4 * 3022 + 1024" "bytes of a step of burgers"

ranks 2 "$PINN" bench scaling burgers --ranks 1,2 --points 64 >out 2>err
[ $? -eq 2 ]; say $? "--ranks under a launcher"
says err 'a launcher has started this one already'
ranks 2 "$PINN" bench scaling none.toml >out 2>err
[ $? -eq 3 ] && [ "$(grep -c 'none.toml' err)" = 1 ]; say $? "one message of a missing file"
echo "scaling: $((count - failed)) of $count"
[ "$failed" = 0 ]
