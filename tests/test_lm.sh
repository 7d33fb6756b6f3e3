#!/usr/bin/env bash
# test_lm.sh: Levenberg-Marquardt takes Poisson to ten digits and more, with the same bits for any number of threads and
# after a kill.
# ctest: labels=full,lm timeout=900 processors=2
#
# problems/poisson_lm.toml with a sine network of 697 weights: a relative L2 error of at most 1e-10 within 60 s of CPU time,
# which is an upper bound of the time on free cores. One seed here; PINN_TEST_SEEDS="0 1 2" gives three, where the median of
# the errors counts.
set -u
export LC_ALL=C
seeds=${PINN_TEST_SEEDS:-0}
file=$SOURCE_DIR/problems/poisson_lm.toml
TIMEFORMAT='%U %R'
good=0 total=0
say() { total=$((total + 1)); if [ "$1" = 0 ]; then good=$((good + 1)); else echo "FAILED $2"; fi; }
digest() { sed -n 's/.*"weights_sha256": "\([0-9a-f]*\)".*/\1/p' "$1/summary.json"; }

: >errors
printf '%5s %12s %8s %8s\n' seed 'rel. L2' 'CPU s' 'wall s'
for seed in $seeds; do
  { time "$PINN" solve "$file" --quiet --seed "$seed" --out "s$seed" </dev/null >"s$seed.txt" 2>&1; } 2>time
  read -r cpu wall <time
  error=$(tr ',' '\n' <"s$seed/summary.json" | grep -o '"rel_l2": *[-0-9.e+]*' | sed 's/.*: *//' | head -n 1)
  printf '%5s %12s %8s %8s\n' "$seed" "${error:-none}" "$cpu" "$wall"
  echo "${error:-1} $cpu" >>errors
done
n=$(wc -l <errors)
median=$(sort -g errors | sed -n "$(((n + 1) / 2))p" | cut -d ' ' -f 1)
slowest=$(cut -d ' ' -f 2 errors | sort -g | tail -n 1)
echo "median error $median, most CPU time $slowest s"
awk -v e="$median" -v c="$slowest" 'BEGIN { exit !(e + 0 <= 1e-10 && c + 0 <= 60) }'
say $? "error 1e-10 within 60 s"

# Threads, and a run that was killed.
short=(--quiet --set network.width=12 --set points.interior=600 --set accept.error=1e-30)
steps() { printf 'stage=[{optimizer="lm", steps=%s}]' "$1"; }
for threads in 1 2 3; do
  "$PINN" solve "$file" "${short[@]}" --set "$(steps 30)" --threads $threads --out t$threads >t.txt 2>&1
done
[ -n "$(digest t1)" ] && [ "$(digest t1)" = "$(digest t2)" ] && [ "$(digest t1)" = "$(digest t3)" ]
say $? "1, 2 and 3 threads end in the same bits"
PINN_SAVE_SECONDS=0.02 "$PINN" solve "$file" "${short[@]}" --set "$(steps 30)" --threads 1 --out cut >t.txt 2>&1 &
child=$!
for _ in $(seq 2000); do
  [ -s cut/result.h5 ] && break
  sleep 0.01
done
kill -9 $child 2>kill.txt
wait $child 2>kill.txt
killed=$?
"$PINN" solve "$file" "${short[@]}" --set "$(steps 30)" --threads 2 --out cut --resume >t.txt 2>&1
[ $killed -eq 137 ] && [ "$(digest cut)" = "$(digest t1)" ]
say $? "a run that was killed (status $killed) and resumed ends in the same bits"

"$PINN" solve "$file" --quiet --out no --set 'stage=[{optimizer="lm", precision="f32"}]' >t.txt 2>&1
[ $? -eq 2 ] && grep -q 'lm works in f64 only' t.txt
say $? "a stage in f32 is refused"
echo "lm: $good of $total"
[ "$good" -eq "$total" ]
