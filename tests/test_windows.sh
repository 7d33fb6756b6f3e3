#!/usr/bin/env bash
# ctest: labels=quick,cli timeout=120
#
# `[time] windows = n`: each window has its part of the time and starts from the values of the one before; `pinn eval` asks
# the window in which a point lies; summary.json joins them; --resume goes on with the first that is not finished; what
# means all windows at once is refused.
set -u
export LC_ALL=C
bad=0
fail() { printf 'FAILED: %s\n' "$1"; bad=1; }

cat >decay.toml <<'TOML'
[domain]
t = [0, 2]
[unknowns]
u = "t"
[equations]
decay = "u_tt + 3*u_t + 2*u = 0"
[conditions]
value = { on = "t = 0", equation = "u = 1" }
speed = { on = "t = 0", equation = "u_t = -1" }
[exact]
u = "exp(-t)"
[accept]
error = 1e-3
[network]
width = 6
depth = 1
[points]
interior = 32
[time]
windows = 2
[[stage]]
optimizer = "lm"
steps = 60
TOML

"$PINN" solve decay.toml --threads 1 --out w >out.txt 2>&1 || fail 'two windows converge'
grep -q '^window 1 of 2  t in \[0, 1\]$' out.txt || fail 'range of the first window'
grep -q '^window 2 of 2  t in \[1, 2\]$' out.txt || fail 'range of the second window'
grep -q 'all CONVERGED' out.txt || fail 'the last words'
[ -f w/window=1/result.h5 ] && [ -f w/window=2/report.html ] || fail 'a folder for each window'
grep -q '"converged": true' w/summary.json || fail 'summary.json joins the windows'
grep -q '"worst_window"' w/summary.json || fail 'summary.json knows the worst window'

# A value comes from the window in which the point lies; on the border from the earlier one.
printf 't\n0.5\n1\n1.5\n' >points.csv
value() { "$PINN" eval "$1" u --points "$2" 2>&1; }
value w points.csv >all.csv
printf 't\n0.5\n1\n' >early.csv
printf 't\n1.5\n' >late.csv
[ "$(sed -n 2,3p all.csv)" = "$(value w/window=1 early.csv | sed -n 2,3p)" ] || fail 'the first window and the border'
[ "$(sed -n 4p all.csv)" = "$(value w/window=2 late.csv | sed -n 2p)" ] || fail 'the second window'
value w/window=1 late.csv | grep -q 'outside the domain' || fail 'a window ends where it ends'

# u and u_t go on where the first window ended.
for what in u u_t; do
  a=$("$PINN" eval w/window=1 "$what" --grid t=1:1:1 | tail -1 | cut -d, -f2)
  b=$("$PINN" eval w/window=2 "$what" --grid t=1:1:1 | tail -1 | cut -d, -f2)
  awk -v a="$a" -v b="$b" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a != "" && b != "" && d < 1e-3) }' ||
    fail "$what goes on: $a, $b"
done

"$PINN" solve decay.toml --threads 1 --out w >out.txt 2>&1
[ $? = 2 ] || fail 'a used folder is refused'
cp w/window=2/summary.json two.json
digest() { sed -n 's/.*"weights_sha256": *"\([0-9a-f]*\)".*/\1/p' "$1"; }
rm -r w/window=2
value w late.csv | grep -q 'lie in window 2 of 2, which is not solved yet' || fail 'a window that is not there'
"$PINN" solve decay.toml --threads 1 --out w --resume --quiet >out.txt 2>&1 || fail '--resume makes the missing window'
[ "$(digest two.json)" = "$(digest w/window=2/summary.json)" ] || fail 'the same bits after --resume'

# A wrong start of the second window would be seen: the exact solution is asked of each.
grep -q '"rel_l2"' w/window=2/summary.json || fail 'errors of the second window'

refused() { # refused TEXT --set ...
  local text=$1
  shift
  "$PINN" check decay.toml "$@" >out.txt 2>&1
  [ $? = 2 ] || fail "$*: status 2"
  grep -qF -- "$text" out.txt || fail "$*: \`$text\`"
}
refused 'holds at the end of t' --set 'conditions.last={ on = "t = 2", equation = "u = exp(-2)" }'
refused 'holds at a fixed t' --set 'conditions.middle={ on = "t = 1", equation = "u = exp(-1)" }'
refused 'a mean over the time' --set 'conditions.mean={ equation = "mean(u, domain) = 0.4" }'
refused 'a value at another moment' --set 'equations.decay=u_t + u(t=0) = 0'
refused 'does not depend on the time' --set 'domain.x=[0, 1]' --set 'unknowns.v=x' --set 'equations.flat=v_x = 0' \
  --set 'conditions.left={ on = "x = 0", equation = "v = 1" }'
refused 'expected 1 to' --set time.windows=0
refused 'data at several times' --set 'conditions.seen={ equation = "u = d", data = { t = [0.5], d = [0.6] } }'
refused 'expected 2 to 64' --set time.chunks=1

# Causal weights: with them the loss is another one, the answer is the same, and a resumed run has the same bits.
export PINN_SAVE_SECONDS=0.02
causal() { # causal DIR WORDS...
  local out=$1
  shift
  "$PINN" solve decay.toml --threads 1 --set time.windows=1 --set time.causal=true --set stage.1.optimizer=adam --set stage.1.rate=1e-2 \
    --set accept.error=1e-9 --out "$out" "$@" >out.txt 2>&1
}
causal c --set stage.1.steps=4000
grep -q 'causal, 32' out.txt || fail 'the banner names causal weights'
causal plain --set stage.1.steps=4000 --set time.causal=false
[ "$(digest c/summary.json)" != "$(digest plain/summary.json)" ] || fail 'causal weights change the training'
causal cut --set stage.1.steps=4000 &
child=$!
for i in $(seq 100); do
  [ -e cut/result.h5 ] && break
  sleep 0.02
done
kill -9 "$(pgrep -P $child)" 2>/dev/null
wait $child 2>/dev/null
causal cut --set stage.1.steps=4000 --resume
[ "$(digest cut/summary.json)" = "$(digest c/summary.json)" ] || fail 'a resumed causal run has the same bits'
"$PINN" solve decay.toml --threads 1 --set time.causal=true --set accept.error=none --out both --quiet || fail 'windows with causal weights converge'
exit $bad
