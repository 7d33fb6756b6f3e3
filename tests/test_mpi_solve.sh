#!/usr/bin/env bash
# test_mpi_solve.sh: `mpirun -n R pinn solve` has the bits of one process, for every optimizer, format and tile, and
# makes one folder, one banner and one message.
# ctest: labels=full,mpi timeout=900 processors=2
set -u
. "$SOURCE_DIR/tests/support_mpi.sh"
good=0 total=0
say() { total=$((total + 1)); if [ "$1" = 0 ]; then good=$((good + 1)); else echo "FAILED $2"; fi; }

# same NAME RANKS... -- WORDS...: the runs with so many ranks end as the one without mpirun does.
same() {
  local name=$1 counts=() r one status
  shift
  while [ "$1" != -- ]; do counts+=("$1"); shift; done
  shift
  "$PINN" solve "$@" --quiet --out "$name.1" >"$name.1.txt" 2>&1
  status=$?
  one=$(digest "$name.1")
  for r in "${counts[@]}"; do
    ranks "$r" "$PINN" solve "$@" --quiet --out "$name.$r" >"$name.$r.txt" 2>&1
    [ $? -eq $status ] && [ -n "$one" ] && [ "$(digest "$name.$r")" = "$one" ] &&
      [ "$(number "$name.$r" loss)" = "$(number "$name.1" loss)" ] && [ "$(number "$name.$r" ranks)" = "$r" ]
    say $? "$name on $r ranks: status $status, weights $one, loss $(number "$name.1" loss)"
  done
}
burgers=$SOURCE_DIR/problems/burgers.toml
stage() { printf 'stage=[{optimizer="%s", steps=%s}]' "$1" "$2"; }

small=(--set points.interior=700)
same adam 2 3 4 -- "$burgers" "${small[@]}" --set "$(stage adam 120)" --set points.every=50
same lbfgs 2 3 4 -- "$burgers" "${small[@]}" --set "$(stage lbfgs 30)"
same ssbroyden 2 4 -- "$burgers" "${small[@]}" --set "$(stage ssbroyden 30)"
same lm 2 3 4 -- "$burgers" --set points.interior=2000 --set "$(stage lm 5)"
for format in f32 tf32 bf16 f16; do
  same "adam-$format" 2 4 -- "$burgers" "${small[@]}" --set "$(stage adam 60)" --set "precision.compute=\"$format\""
done
same lbfgs-f16 2 -- "$burgers" "${small[@]}" --set "$(stage lbfgs 15)" --set 'precision.compute="f16"'
same stages 2 -- "$burgers" "${small[@]}" --set points.every=20 \
  --set 'stage=[{optimizer="adam", steps=50, precision="f32"}, {optimizer="ssbroyden", steps=25}]'
same batch 2 -- "$burgers" "${small[@]}" --set points.batch=256 --set "$(stage adam 40)"
echo "the same bits: $good of $total"

# Helmholtz in two dimensions, 100 steps; its second derivatives take part in every sum.
same f18 2 4 -- "$SOURCE_DIR/tests/data/cases/f18_helmholtz.toml" --set "$(stage adam 100)"

# 46 weights and 184 rows: neighbouring leaves of the QR that have fewer rows than weights together.
cat >thin.toml <<'END'
domain = { x = [-1, 1] }
unknowns = { u = "x" }
equations = { e = "u_xx + u^3 = sin(3*x)" }
network = { width = 5, depth = 2 }
points = { interior = 178 }
[conditions]
a = { on = "x = -1", equation = "u = 0.5" }
b = { on = "x = 1", equation = "u = 0" }
c = { on = "x = 0.5", equation = "u = 0" }
d = { on = "x = 0", equation = "u = 0" }
f = { on = "x = -0.5", equation = "u = 0" }
g = { on = "x = 0.25", equation = "u = 0" }
END
for n in 178 179 180; do
  same "thin$n" 2 3 4 -- thin.toml --set "points.interior=$n" --set "$(stage lm 4)"
done

# What is not shared is done once.
for verb in "check $burgers" "eval adam.1 --grid x=0:1:2,t=0:1:2 u" "doctor"; do
  "$PINN" $verb >alone.txt 2>/dev/null
  ranks 3 "$PINN" $verb >three.txt 2>/dev/null
  [ -s alone.txt ] && [ "$(wc -l <alone.txt)" -eq "$(wc -l <three.txt)" ]
  say $? "pinn $verb on 3 ranks: $(wc -l <three.txt) lines, $(wc -l <alone.txt) alone"
done

# Tiles are micro-batches: neither their size nor the ranks change a bit.
for tile in 1 2 8; do
  for r in 1 2 4; do
    TN_TILE=$tile ranks "$r" "$PINN" solve "$burgers" "${small[@]}" --set "$(stage adam 3)" --quiet \
      --out "tile$tile.$r" >"tile$tile.$r.txt" 2>&1
    [ -n "$(digest "tile$tile.$r")" ] && [ "$(digest "tile$tile.$r")" = "$(digest tile1.1)" ]
    say $? "tiles of $tile groups on $r ranks"
  done
done

# The files are the same, but for times and words about the machine.
"$PINN" eval adam.1 --grid x=-1:1:11,t=0:1:5 'u' 'u_xx' >one.csv
"$PINN" eval adam.4 --grid x=-1:1:11,t=0:1:5 'u' 'u_xx' >four.csv
[ -s one.csv ] && cmp -s one.csv four.csv
say $? "values of the result of four ranks"

# One banner, and it says where the run is. Four ranks on two cores share them.
ranks 4 "$PINN" solve "$burgers" "${small[@]}" --set "$(stage adam 200)" --out told >told.txt 2>told.err
[ "$(grep -c '^pinn ' told.txt)" -eq 1 ] && [ "$(grep -c '^written' told.txt)" -eq 1 ] &&
  tr '\n' ' ' <told.txt | tr -s ' ' | grep -q '4 ranks x [0-9]* threads\{0,1\}, mpi'
say $? "one banner with the ranks"
cores=$(nproc)
threads=$(number told threads)
[ "${threads:-0}" -ge 1 ] && [ $((4 * threads)) -le $((cores > 4 ? cores : 4)) ]
say $? "$threads threads each for 4 ranks on $cores cores"
grep -q '"device": "cpu"' told/summary.json && grep -q '4 ranks x' told/report.html
say $? "summary and report name device and ranks"
[ "$(ls -A told | tr '\n' ' ')" = "report.html result.h5 summary.json " ]
say $? "three files and nothing else: $(ls -A told | tr '\n' ' ')"

# Mistakes end all ranks with one message and their status.
refused() {
  local status=$1 text=$2
  shift 2
  ranks 3 "$PINN" solve "$@" >refused.txt 2>refused.err
  [ $? -eq "$status" ] && [ "$(cat refused.txt refused.err | grep -c -- "$text")" -eq 1 ]
  say $? "status $status and once \`$text\`: $(head -n 3 refused.err)"
}
sed 's/u_xx/u_xq/' "$burgers" >bad.toml
refused 2 'bad.toml:' bad.toml --out bad
[ ! -e bad ]
say $? "no folder after a mistake"
refused 3 'missing.toml' missing.toml
refused 2 'holds a run already' "$burgers" --out told
refused 2 'holds no result.h5' "$burgers" --out nothing --resume
refused 2 'Did you mean' "$burgers" --trheads 2
refused 2 'has no value `x`\|expected a whole number' "$burgers" --threads x
printf 'x' | dd of=lm.2/result.h5 bs=1 seek=5000 conv=notrunc 2>dd.log
refused 2 'lm.2/result.h5' "$burgers" --set points.interior=2000 --set "$(stage lm 5)" --out lm.2 --resume
echo "mpi: $good of $total"
[ "$good" -eq "$total" ]
