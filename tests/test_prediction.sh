#!/usr/bin/env bash
# test_prediction.sh: what `pinn check` predicts of a step is what `pinn bench step FILE` measures, within 25 %.
# ctest: labels=full,prediction timeout=900 processors=2
#
# Time and memory of a step, and memory of a training (two seconds of it), for all of problems/ and for two larger numbers
# of points, at which check runs a part of them and infers the rest. Memory is always judged; times only with
# PINN_TEST_TIMES=1, on a machine with nothing else to do: both are the least of several alternating runs, and what is
# still apart is measured again, up to six times in all. check itself takes less than a second.
set -u
export LC_ALL=C
value() { sed -n "s/^  \"$2\": \([-0-9.e+]*\),\{0,1\}\$/\1/p" "$1"; } # value FILE KEY
least() { awk -v a="$1" -v b="$2" 'BEGIN { print (a == "" || b < a) ? b : a }'; }
close() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= 0.75 * b && a <= 1.25 * b) }'; }
good=0 total=0 judged=${PINN_TEST_TIMES:-0}
printf '%-24s %10s %10s %6s %10s %10s %6s %8s %9s %6s %8s\n' problem 'ms pred.' measured ratio 'MiB pred.' measured ratio 'run MiB' measured ratio 'check s'
row() { # row NAME FILE [POINTS]
  local more=() set=() predicted='' measured='' memory='' held='' took='' start verdict round in_all trained
  [ $# -lt 3 ] || { more=(--points "$3"); set=(--set "points.interior=$3"); }
  for round in 1 2 3 4 5 6; do
    start=${EPOCHREALTIME/./}
    "$PINN" check "$2" "${set[@]}" --json check.json >/dev/null || { echo "FAILED: check $1"; return; }
    took=$(least "$took" "$(awk -v t=$((${EPOCHREALTIME/./} - start)) 'BEGIN { print t / 1e6 }')")
    "$PINN" bench step "$2" "${more[@]}" --seconds 0.3 --json step.json >/dev/null || { echo "FAILED: step $1"; return; }
    predicted=$(least "$predicted" "$(value check.json step_ms)")
    measured=$(least "$measured" "$(value step.json min_ms)")
    memory=$(value check.json step_mib) held=$(value step.json peak_mib)
    [ "$judged" = 1 ] || break
    [ "$round" -lt 2 ] || ! close "$predicted" "$measured" || ! close "$memory" "$held" || break
  done
  rm -rf run
  "$PINN" solve "$2" "${set[@]}" --seconds 2 --quiet --out run >out 2>&1
  in_all=$(value check.json run_mib) trained=$(sed -n 's/^ *"peak_mib": *\([0-9.]*\).*/\1/p' run/summary.json)
  grep -q '"run_complete": true' check.json || trained=$in_all # it says that something comes on top
  total=$((total + 1)) verdict=FAILED
  if close "$memory" "$held" && close "$in_all" "$trained" &&
    { [ "$judged" != 1 ] || { close "$predicted" "$measured" && awk -v t="$took" 'BEGIN { exit !(t < 1) }'; }; }; then
    verdict=ok good=$((good + 1))
  fi
  awk -v n="$1" -v p="$predicted" -v m="$measured" -v b="$memory" -v h="$held" -v t="$took" -v v=$verdict \
    -v r="$in_all" -v s="$trained" 'BEGIN {
    printf "%-24s %10.3f %10.3f %6.2f %10.1f %10.1f %6.2f %8.1f %9.1f %6.2f %8.2f  %s\n",
      n, p, m, p / m, b, h, b / h, r, s, r / s, t, v }'
}
for file in "$SOURCE_DIR"/problems/*.toml; do row "$(basename "$file" .toml)" "$file"; done
row 'burgers, 40 000 points' "$SOURCE_DIR/problems/burgers.toml" 40000
row 'heat, 20 000 points' "$SOURCE_DIR/problems/heat.toml" 20000
echo "prediction: $good of $total"
[ "$total" -gt 0 ] && [ "$good" -eq "$total" ]
