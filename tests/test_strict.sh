#!/usr/bin/env bash
# test_strict.sh: the engine's tests and the program on the strict executor (TN_EXECUTOR=strict), which holds them to
# the rules of a device with memory of its own: what is read at the wrong time is NaN there.
# ctest: labels=full timeout=600 processors=2
#
# Left out are tests of speed. The program must write the numbers of the streamed executor, all but times and memory.
set -u
export LC_ALL=C
tests=$(dirname "$PINN")/tests
failed=0 count=0
say() { # say STATUS TEXT
  count=$((count + 1))
  [ "$1" -eq 0 ] && return
  failed=$((failed + 1))
  echo "FAILED: $2"
}

for t in exec streamed low strict_executor jets graph derivatives cache debug explain capture rows channels objective train \
  streamed_problems replay; do
  TN_EXECUTOR=strict "$tests/test_$t" >"$t.out" 2>&1
  status=$?
  say $status "test_$t, status $status: $(grep -m 1 'ERROR' "$t.out")"
done

numbers() { grep -v -e seconds -e _ms -e _mib -e share -e gflops -e '"out"' "$1"; }
for executor in streamed strict; do
  TN_EXECUTOR=$executor "$PINN" solve "$SOURCE_DIR/problems/burgers.toml" --out "$executor" --seed 1 --threads 2 --quiet \
    --set points.interior=300 --set network.width=8 --set network.depth=2 \
    --set 'stage=[{optimizer="adam", steps=20, rate=5e-3}, {optimizer="ssbroyden", steps=15}]' >"$executor.txt" 2>&1
  [ $? -le 1 ] # no more than not converged
  say $? "solve, $executor: $(head -n 1 "$executor.txt")"
  TN_EXECUTOR=$executor "$PINN" bench step ks --points 300 --seconds 0.01 --check 1 --json "$executor.json" >/dev/null
  say $? "bench step, $executor"
  numbers "$executor/summary.json" >"$executor.summary"
  grep -e '"loss' -e gradient_norm "$executor.json" >"$executor.step"
done
diff streamed.summary strict.summary; say $? "solve: the same numbers"
[ "$(grep -c loss streamed.summary)" -ge 1 ]; say $? "solve: there are numbers"
diff streamed.step strict.step; say $? "bench step: the same numbers"
[ "$(wc -l <streamed.step)" -ge 3 ]; say $? "bench step: there are numbers"
echo "$count checks, $failed failed"
[ "$failed" -eq 0 ]
