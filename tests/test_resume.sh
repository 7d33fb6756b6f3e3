#!/usr/bin/env bash
# test_resume.sh: a run that was killed goes on to the same bits as one that was not.
#
# kill -9 at different parts of a run with three methods, refinement and short saves; then --resume. The digest of
# the weights must be that of the uninterrupted run, whichever stage the kill fell into.
# ctest: labels=quick,resume timeout=120
set -u
cat >swing.toml <<'END'
title = "Swing"
[domain]
t = [0, 3]
[unknowns]
u = "t"
[equations]
swing = "u_tt + u = 0"
[conditions]
start = { on = "t = 0", equation = ["u = 1", "u_t = 0"] }
[exact]
u = "cos(t)"
[accept]
error = 1e-30
[network]
width = 10
depth = 2
[points]
interior = 64
refine = "rad"
every = 100
[[stage]]
optimizer = "adam"
steps = 1500
[[stage]]
optimizer = "ssbroyden"
steps = 700
[[stage]]
optimizer = "lbfgs"
steps = 700
END

digest() { sed -n 's/.*"weights_sha256": "\([0-9a-f]*\)".*/\1/p' "$1/summary.json"; }

begin=$(date +%s%N)
"$PINN" solve swing.toml --quiet --threads 1 --out whole
[ $? -eq 1 ] || { echo "the whole run failed"; exit 1; }
length=$(($(date +%s%N) - begin))
expected=$(digest whole)

n=6
good=0
killed=0
for i in $(seq $n); do
  PINN_SAVE_SECONDS=0.02 "$PINN" solve swing.toml --quiet --threads 1 --out part$i &
  child=$!
  sleep "$(awk -v l="$length" -v i="$i" -v n="$n" 'BEGIN { printf "%.3f", l * 1e-9 * i / (n + 1) }')"
  kill -9 $child 2>/dev/null
  wait $child 2>/dev/null
  [ $? -eq 137 ] && killed=$((killed + 1))
  if [ ! -s part$i/result.h5 ]; then # the kill came before the first save: nothing to resume
    rm -rf part$i
    "$PINN" solve swing.toml --quiet --threads 1 --out part$i
  else
    "$PINN" solve swing.toml --quiet --threads 2 --out part$i --resume
  fi
  status=$?
  found=$(digest part$i)
  if [ $status -eq 1 ] && [ "$found" = "$expected" ]; then
    good=$((good + 1))
  else
    echo "run $i: exit status $status, weights $found, expected $expected"
  fi
  if [ -n "$(find part$i -name '.*.tmp')" ]; then
    echo "run $i: a temporary file is left"
    good=$((good - 1))
  fi
done
echo "$good of $n runs end in the same bits ($killed were killed)"

# The banner of a resumed run names the step that the summary of the stopped one ends with, on a record or not.
for i in 1 2 3; do
  PINN_SAVE_SECONDS=0.005 "$PINN" solve swing.toml --quiet --threads 1 --out cut$i &
  child=$!
  for _ in $(seq 600); do
    [ -s cut$i/result.h5 ] && break
    sleep 0.01
  done
  sleep 0.0$((2 * i))
  kill -TERM $child 2>/dev/null
  wait $child
  steps=$(sed -n 's/.*"steps": \([0-9]*\).*/\1/p' cut$i/summary.json | head -n 1)
  "$PINN" solve swing.toml --threads 1 --out cut$i --resume >cut.txt 2>&1
  told=$(sed -n 's/^resumed .* at step \([0-9 ]*\)$/\1/p' cut.txt | tr -d ' ')
  echo "stopped at step ${steps:-?}, resumed at step ${told:-?}"
  [ "${steps:-0}" -gt 0 ] && [ "$told" = "$steps" ] || exit 1
  [ "$(digest cut$i)" = "$expected" ] || { echo "the run that was cut ends in other bits"; exit 1; }
done

# What must not be resumed.
refused=0
"$PINN" solve swing.toml --quiet --out nothing --resume 2>err
[ $? -eq 2 ] && grep -q 'holds no result.h5' err && refused=$((refused + 1))
sed 's/3\]/4]/' swing.toml >changed.toml
"$PINN" solve changed.toml --quiet --out part1 --resume 2>err
[ $? -eq 2 ] && grep -q 'has changed' err && refused=$((refused + 1))
"$PINN" solve swing.toml --quiet --out part1 --resume --seed 5 2>err
[ $? -eq 2 ] && grep -q 'was made with 0' err && refused=$((refused + 1))
printf 'x' | dd of=part1/result.h5 bs=1 seek=5000 conv=notrunc 2>dd.log
"$PINN" solve swing.toml --quiet --out part1 --resume 2>err
[ $? -eq 2 ] && grep -q 'part1/result.h5' err && refused=$((refused + 1))
echo "$refused of 4 bad resumptions refused"
[ $good -eq $n ] && [ $killed -ge 1 ] && [ $refused -eq 4 ]
