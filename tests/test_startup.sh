#!/usr/bin/env bash
# test_startup.sh: from the command to trained weights within a second, whatever the equation.
# ctest: labels=full timeout=120
#
# Each problem file runs with one step a stage: reading, checks, planning derivatives, compiling, points, one step, the
# validation on fresh points and all output. CPU time of one thread counts, an upper bound of the time to the first step
# on a free core. Limit: 1 s.
set -u
good=0 total=0
TIMEFORMAT='%U %S'
for file in "$SOURCE_DIR"/problems/*.toml; do
  name=$(basename "$file" .toml) total=$((total + 1)) steps=()
  for ((i = 1; i <= $(grep -c '^\[\[stage\]\]' "$file"); ++i)); do steps+=(--set "stage.$i.steps=1"); done
  { time "$PINN" solve "$file" "${steps[@]}" --threads 1 --quiet --out "$name" >out 2>err; } 2>seconds
  [ -e "$name/result.h5" ] || { echo "FAILED $name: no result"; cat err; continue; }
  cpu=$(awk '{ print $1 + $2 }' seconds)
  printf '%-14s %s s\n' "$name" "$cpu"
  if awk -v s="$cpu" 'BEGIN { exit !(s <= 1) }'; then good=$((good + 1)); else echo "FAILED $name: more than 1 s"; fi
done
echo "startup: $good of $total"
[ "$good" = "$total" ] && [ "$total" -gt 0 ]
