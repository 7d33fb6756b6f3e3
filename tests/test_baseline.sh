#!/usr/bin/env bash
# test_baseline.sh: no training step has become more than 10 % slower, beside the machine's peak and beside the others.
# ctest: labels=audit,baseline timeout=1200 processors=2
#
# tests/bench/compare does the measuring. First that it can fail: a share of 9.9 is out of reach.
set -u
good=0
compare=$SOURCE_DIR/tests/bench/compare
quick=(--pinn "$PINN" --cases burgers --rounds 1 --seconds 0.3)
"$compare" "${quick[@]}" --baseline own.json --store >out &&
  sed 's/^\(  "share[^:]*": \).*/\19.9,/' own.json >high.json &&
  ! "$compare" "${quick[@]}" --baseline high.json >out &&
  grep -q '^share  burgers    f32 .* BELOW$' out && good=1
[ "$good" = 1 ] || { echo "FAILED: shares out of reach must be refused"; cat out; }
"$compare" --pinn "$PINN" || good=0
[ "$good" = 1 ]
