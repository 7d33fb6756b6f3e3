#!/usr/bin/env bash
# ctest: labels=quick,cli timeout=120
#
# `pinn solve --sweep --seeds`: every combination has a run of its own that equals the single run of the same keys, and a
# row of sweep.csv; one that misses makes the status 1; what cannot be swept is refused.
set -u
export LC_ALL=C
bad=0
fail() { printf 'FAILED: %s\n' "$1"; bad=1; }
digest() { sed -n 's/.*"weights_sha256": *"\([0-9a-f]*\)".*/\1/p' "$1/summary.json"; }

cat >rod.toml <<'TOML'
[domain]
x = [0, 1]
[constants]
k = 2
[unknowns]
u = "x"
[equations]
slope = "u_x = k*x"
[conditions]
start = { on = "x = 0", equation = "u = 0" }
[exact]
u = "k*x^2/2"
[network]
width = 4
depth = 1
[[stage]]
optimizer = "adam"
steps = 3
TOML

"$PINN" solve rod.toml --threads 1 --quiet --sweep constants.k=2,0.5 --sweep 'network.activation="tanh","sin"' --seeds 2 \
  --out grid >out.txt 2>&1
[ $? = 1 ] || fail 'status of a sweep that misses is 1'
[ "$(wc -l <grid/sweep.csv)" = 9 ] || fail 'sweep.csv has a header and eight rows'
head -1 grid/sweep.csv | grep -q '^k,activation,seed,error.u,loss,steps,seconds,exit_status$' || fail 'header of sweep.csv'
"$PINN" solve rod.toml --threads 1 --quiet --set constants.k=0.5 --set 'network.activation="sin"' --seed 1 --out one >>out.txt 2>&1
[ "$(digest one)" = "$(digest grid/k=0.5/activation=sin/seed=1)" ] || fail 'a run of the sweep equals the single run'
[ "$(digest one)" != "$(digest grid/k=0.5/activation=sin/seed=0)" ] || fail 'seeds differ'
"$PINN" solve rod.toml --threads 1 --quiet --set accept.error=1e9 --set accept.residual=1e9 --seeds 2 >>out.txt 2>&1 ||
  fail 'status 0 if all are accepted'
[ -d rod.sweep/seed=1 ] || fail 'the folder is FILE.sweep without --out'

refused() { # refused TEXT WORDS...
  local text=$1
  shift
  "$PINN" solve rod.toml "$@" >out.txt 2>&1
  [ $? = 2 ] || fail "$*: status 2"
  grep -qF -- "$text" out.txt || fail "$*: \`$text\`"
}
refused 'expected path=value,value' --sweep constants.k
refused 'is given twice' --sweep constants.k=1,1
refused 'is given twice' --sweep constants.k=1 --sweep constants.k=2
refused 'a value is empty' --sweep constants.k=1,
refused 'seeds are given by --seeds' --sweep run.seed=1,2
refused 'exclude each other' --seed 3 --seeds 2
refused 'goes on with one run' --resume --seeds 2
refused 'holds a sweep already' --seeds 2 --out grid
refused 'network.wdth' --sweep network.wdth=4,5 --out other
exit $bad
