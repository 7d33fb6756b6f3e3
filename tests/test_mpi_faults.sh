#!/usr/bin/env bash
# test_mpi_faults.sh: a rank that is lost ends all ranks within the time limit, says which one it was, and leaves a
# result that can be read and continued to the same bits, with another number of ranks as well.
#
# kill -9 and kill -STOP of a rank at random moments; a residual that becomes NaN; signals; a full disk; ranks that
# were started with different options. PINN_TEST_SCALE multiplies the number of lost ranks.
# ctest: labels=full,mpi timeout=1200 processors=2
set -u
. "$SOURCE_DIR/tests/support_mpi.sh"
good=0 total=0
say() { total=$((total + 1)); if [ "$1" = 0 ]; then good=$((good + 1)); else echo "FAILED $2"; fi; }
limit=3 # s of each message between ranks
export PINN_COMM_SECONDS=$limit
RANDOM=${PINN_TEST_SEED:-1}

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
width = 16
depth = 2
[points]
interior = 600
refine = "rad"
every = 300
[[stage]]
optimizer = "adam"
steps = 1200
[[stage]]
optimizer = "ssbroyden"
steps = 500
[[stage]]
optimizer = "lbfgs"
steps = 500
END

# processes FOLDER [RANK]: the ids of those that write to it
processes() {
  local p
  for p in /proc/[0-9]*; do
    { tr '\0' ' ' <"$p/cmdline" | grep -q "^$PINN solve .*--out $1 "; } 2>>gone.txt || continue
    [ $# -lt 2 ] || grep -qz "^OMPI_COMM_WORLD_RANK=$2\$" "$p/environ" 2>>gone.txt || continue
    echo "${p#/proc/}"
  done
}
parent() { sed -n 's/^PPid:[^0-9]*//p' "/proc/$1/status"; }
seconds_since() { awk -v a="$1" -v b="$(date +%s%N)" 'BEGIN { printf "%.2f", (b - a) * 1e-9 }'; }
wait_for_save() { # FOLDER: at most 30 s
  local i
  for i in $(seq 3000); do
    [ -s "$1/result.h5" ] && return 0
    sleep 0.01
  done
  return 1
}

begin=$(date +%s%N)
ranks 2 "$PINN" solve swing.toml --quiet --out whole >whole.txt 2>&1
length=$(seconds_since "$begin")
expected=$(digest whole)
"$PINN" solve swing.toml --quiet --out alone >alone.txt 2>&1
[ -n "$expected" ] && [ "$expected" = "$(digest alone)" ]
say $? "two ranks end as one process does"
echo "the whole run takes $length s on two ranks"

# Lost ranks.
n=$((6 * ${PINN_TEST_SCALE:-1}))
printf '%4s %-5s %5s %4s %8s %6s  %s\n' run how ranks lost 'gone in' status 'continued by'
for i in $(seq "$n"); do
  count=$((2 + i % 3)) lost=$((RANDOM % (2 + i % 3))) how=KILL
  [ $((i % 2)) -eq 0 ] && how=STOP
  for share in 0.5 0.25 0.1; do # of the run, at most; once more if it has ended before
    rm -rf "lost$i"
    PINN_SAVE_SECONDS=0.05 ranks "$count" "$PINN" solve swing.toml --quiet --out "lost$i" >"lost$i.txt" 2>&1 &
    launcher=$!
    wait_for_save "lost$i"
    sleep "$(awk -v l="$length" -v r="$RANDOM" -v s=$share 'BEGIN { printf "%.3f", s * l * r / 32768 }')"
    kill -$how $(processes "lost$i" $lost) 2>>gone.txt
    begin=$(date +%s%N)
    wait $launcher
    status=$?
    gone=$(seconds_since "$begin")
    [ -e "lost$i/summary.json" ] || break
  done
  left=$(processes "lost$i" | wc -l)
  again=$((1 + (RANDOM % 4)))
  printf '%4s %-5s %5s %4s %8s %6s  %s ranks\n' "$i" $how "$count" "$lost" "$gone" "$status" "$again"
  [ $status -ne 0 ] && [ $status -ne 1 ] && [ "$left" -eq 0 ] &&
    awk -v g="$gone" -v l=$limit 'BEGIN { exit !(g <= l + 3) }'
  say $? "run $i: status $status, $left processes left after $gone s"
  grep -q "rank $lost" "lost$i.txt" && { [ $how = KILL ] || { [ $status -eq 5 ] && grep -q 'no answer from' "lost$i.txt"; }; }
  say $? "run $i: the message names rank $lost: $(head -n 3 "lost$i.txt")"
  "$PINN" eval "lost$i" --grid t=0:3:7 u >eval.txt 2>&1 && [ "$(wc -l <eval.txt)" -eq 8 ]
  say $? "run $i: the saved result is read: $(head -n 1 eval.txt)"
  ranks $again "$PINN" solve swing.toml --quiet --out "lost$i" --resume >resumed.txt 2>&1
  [ $? -eq 1 ] && [ "$(digest "lost$i")" = "$expected" ] && [ -z "$(find "lost$i" -name '.*.tmp')" ]
  say $? "run $i: continued by $again ranks it ends in the same bits: $(digest "lost$i" | head -c 16), $(tail -n 1 resumed.txt)"
done

# Two ranks killed at once, continued by one and, from a copy, by four.
PINN_SAVE_SECONDS=0.05 ranks 2 "$PINN" solve swing.toml --quiet --out both >both.txt 2>&1 &
launcher=$!
wait_for_save both
sleep "$(awk -v l="$length" 'BEGIN { printf "%.3f", 0.3 * l }')"
kill -KILL $(processes both)
wait $launcher
cp -r both four
for r in 1 4; do
  folder=both
  [ $r -eq 4 ] && folder=four
  ranks $r "$PINN" solve swing.toml --quiet --out $folder --resume >resumed.txt 2>&1
  [ $? -eq 1 ] && [ "$(digest $folder)" = "$expected" ]
  say $? "two killed ranks continued by $r"
done

# A residual that becomes NaN: all ranks end with status 4 and the place in the file, and the weights before it.
cat >root.toml <<'END'
domain    = { x = [0, 1], t = [0, 1] }
unknowns  = { u = "x, t" }
equations = { e = "u_t + 0.5*sqrt(u + 0.05) = u_xx - 6" }
conditions = { initial = { on = "t = 0", equation = "u = 1" }, ends = { on = "x = 0 or x = 1", equation = "u = 1 - t" } }
points = { interior = 600 }
network = { width = 10, depth = 2 }
[[stage]]
optimizer = "adam"
steps = 4000
END
"$PINN" solve root.toml --quiet --out nan1 2>nan1.txt
begin=$(date +%s%N)
ranks 3 "$PINN" solve root.toml --quiet --out nan3 2>nan3.txt
status=$?
[ $status -eq 4 ] && [ "$(grep -c 'square root of a negative number' nan3.txt)" -eq 1 ] && [ -z "$(processes nan3)" ] &&
  grep -q ', a point of rank [0-2] (' nan3.txt &&
  [ "$(head -n 3 nan1.txt)" = "$(head -n 3 nan3.txt | sed 's/, a point of rank .*)$//')" ]
say $? "NaN: status $status: $(head -n 1 nan3.txt)"
[ -n "$(digest nan1)" ] && [ "$(digest nan1)" = "$(digest nan3)" ] && "$PINN" eval nan3 --grid x=0:1:3,t=0:1:3 u >eval.txt
say $? "NaN: the weights before it"

# A signal to one rank, or to the launcher: all stop at one step, saved. (mpirun says 1 for itself.)
for whom in rank launcher; do
  ranks 3 "$PINN" solve swing.toml --quiet --out stop-$whom --set 'stage=[{optimizer="adam", steps=200000}]' >stop.txt 2>&1 &
  launcher=$!
  for _ in $(seq 3000); do
    [ -d stop-$whom ] && break
    sleep 0.01
  done
  sleep 0.5
  if [ $whom = rank ]; then
    kill -TERM $(processes stop-$whom 2)
  else
    kill -TERM "$(parent "$(processes stop-$whom 0)")"
  fi
  wait $launcher
  status=$?
  [ -s stop-$whom/summary.json ] && grep -q '"stopped by a signal"' stop-$whom/summary.json &&
    [ $status -ne 0 ] && [ -z "$(processes stop-$whom)" ] && { [ $whom = launcher ] || [ $status -eq 143 ]; }
  say $? "SIGTERM to the $whom: status $status, $(number stop-$whom steps) steps"
done

# Limits of time are one rank's decision: the run ends, and all ranks at one step.
ranks 4 "$PINN" solve swing.toml --quiet --out timed --seconds 0.5 --set 'stage=[{optimizer="adam", steps=200000}]' >timed.txt 2>&1
[ $? -eq 1 ] && grep -q 'time limit of the run' timed/summary.json
say $? "--seconds: $(head -n 2 timed.txt)"

# A disk that is full for the first rank ends all of them, once said.
if mkdir -p full && mount -t tmpfs -o size=20k tmpfs full 2>mount.txt; then
  ranks 3 "$PINN" solve swing.toml --quiet --out full/out >full.txt 2>&1
  status=$?
  [ $status -eq 3 ] && [ "$(grep -c 'No space left' full.txt)" -eq 1 ]
  say $? "full disk: status $status: $(head -n 2 full.txt)"
  umount full
fi

# Ranks with different options notice at once.
timeout -k 5 120 mpirun -n 1 "$PINN" solve swing.toml --quiet --seed 1 --out differ : \
  -n 1 "$PINN" solve swing.toml --quiet --seed 2 --out differ >differ.txt 2>&1
status=$?
[ $status -ne 0 ] && grep -q 'not the same on all ranks' differ.txt && [ ! -e differ ]
say $? "different seeds: status $status: $(head -n 2 differ.txt)"
echo "mpi faults: $good of $total"
[ "$good" -eq "$total" ]
