#!/usr/bin/env bash
# test_units_scaling.sh: neither the units of a problem nor the order of its tables decides how training goes.
# ctest: labels=quick,cli timeout=240
#
# Units. Predator and prey, logistic growth and the SI beam are written with a unit for each name. Powers of two enter every
# product exactly, and sizes are rounded to powers of two, so that another choice of them must give the same weights, loss and
# error to the bit. Any other unit moves a rounded size by at most sqrt 2: the error may change, but not by its order. With
# PINN_TEST_LABELS=1 units between 1e-6 and 1e6 are drawn for each name, three times, and the error must keep within a factor 2;
# errors below 1e-12 are rounding and count as 1e-12.
#
# Order. The entries of every table but [domain] (their order is that of the inputs of the network) are written in reverse:
# equal weights.
set -u
export LC_ALL=C
bad=0
fail() { printf 'FAILED: %s\n' "$1"; bad=1; }

# Each file is written by a function of its units: a length x, a time t, an unknown u, another v.
predator() { # predator T R P
  cat <<TOML
[domain]
t = [0, "10*T"]
[constants]
T = $1
R = $2
P = $3
[unknowns]
r = "t"
p = "t"
[equations]
prey = "r_t - 2/T*r + 0.04/(T*P)*r*p = 0"
predator = "p_t - 0.02/(T*R)*r*p + 1.06/T*p = 0"
[conditions]
start = { on = "t = 0", equation = ["r = 100*R", "p = 15*P"] }
TOML
}

logistic() { # logistic T U
  cat <<TOML
[domain]
t = [0, "5*T"]
[constants]
T = $1
K = "1000*U"
U = $2
[unknowns]
X = "t"
[equations]
growth = "X_t - X/T*(1 - X/K) = 0"
[conditions]
start = { on = "t = 0", equation = "X = 200*U" }
[exact]
X = "K/(1 + 4*exp(-t/T))"
TOML
}

beam() { # beam T LENGTH U
  cat <<TOML
[domain]
x = [0, "L"]
t = [0, "2*pi/omega"]
[constants]
T = $1
X = $2
U = $3
E = "2e11*X/T^2"
I = "1e-8/3*X^4"
rho = "7850/X"
S = "4e-4*X^2"
L = "0.5*X"
omega = "(pi/L)^2*sqrt(E*I/(rho*S))"
[unknowns]
w = "x, t"
[equations]
beam = "E*I*w_xxxx + rho*S*w_tt = 0"
[conditions]
pinned = { on = "boundary", equation = ["w = 0", "w_xx = 0"] }
shape = { on = "t = 0", equation = "w = U*sin(pi*x/L)" }
rest = { on = "t = 0", equation = "w_t = 0" }
[exact]
w = "U*sin(pi*x/L)*cos(omega*t)"
TOML
}

# The streams of points are named by where a face stands, in units of the file: `x = 0.5` has other points than `x = 0.0625`.
# So a length that moves a face away from its number changes the points. Here every face is at 0.
cantilever() { beam "$@" | sed 's/on = "boundary"/on = "x = 0"/'; }

plan() { # plan STEPS WIDTH POINTS
  printf '[network]\nwidth = %s\ndepth = 1\n[points]\ninterior = %s\n[[stage]]\noptimizer = "lm"\nsteps = %s\n' "$2" "$3" "$1"
}

# solved NAME: runs NAME.toml; its weights, loss and error
value() { tr ',' '\n' <"$1/summary.json" | sed -n 's/.*"'"$2"'": *"\{0,1\}\([-+0-9a-fnity.]*\).*/\1/p' | head -n 1; }
solved() {
  "$PINN" solve "$1.toml" --threads 1 --quiet --out "$1" >"$1.txt" 2>&1
  [ -s "$1/summary.json" ] || { cat "$1.txt"; fail "$1: no result"; return; }
  printf '%s %s %s\n' "$(value "$1" weights_sha256)" "$(value "$1" loss)" "$(value "$1" rel_l2)"
}

same() { # same CASE UNITS: powers of two against 1
  local ones one two
  ones=$(printf '%s\n' "$2" | sed 's/[^ ][^ ]*/1/g')
  # shellcheck disable=SC2086 # one word for each unit
  { "$1" $ones; plan 12 8 64; } >"$1-1.toml"
  # shellcheck disable=SC2086
  { "$1" $2; plan 12 8 64; } >"$1-2.toml"
  one=$(solved "$1-1") two=$(solved "$1-2")
  printf '%-10s %s\n%-10s %s\n' "$1" "$one" "$2" "$two"
  [ "${one%% *}" != '' ] && [ "$one" = "$two" ] || fail "$1: units $2 change bits"
}

same predator '1024 0.0625 4096'
same logistic '0.03125 1048576'
same beam '256 1 0.0009765625'
same cantilever '256 0.125 0.0009765625'

# A unit that is no power of two, so that the test above can fail: rounding differs.
{ logistic 0.1 3; plan 12 8 64; } >logistic-3.toml
[ "$(solved logistic-3)" != "$(solved logistic-1)" ] || fail 'units that round leave no trace'

# ---- Order -------------------------------------------------------------------------------------

cat >order-1.toml <<'TOML'
[domain]
x = [0, 1]
t = [0, 1]
[constants]
a = 2
b = "a/4"
[definitions]
drift = "b*u_x"
loss = "a*v"
[unknowns]
u = "x, t"
v = "x, t"
[equations]
first = "u_t + drift - v = 0"
second = "v_t + loss - u_x = 0"
[conditions]
left = { on = "x = 0", equation = ["u = t", "v = 0"] }
right = { on = "x = 1", equation = "v = 0" }
start = { on = "t = 0", equation = ["u = 0", "v = x*(1 - x)"] }
TOML
# The lines of each table, the last first; not of [domain], whose order is that of the network's inputs.
awk '/^\[/ { flush(); kept = $0 == "[domain]"; print; next } kept { print; next } { line[n++] = $0 } END { flush() }
     function flush() { while (n > 0) print line[--n] }' order-1.toml >order-2.toml
cmp -s order-1.toml order-2.toml && fail 'nothing was turned round'
for k in 1 2; do plan 12 8 64 >>order-$k.toml; done
one=$(solved order-1) two=$(solved order-2)
printf '%-10s %s\n%-10s %s\n' order "$one" reversed "$two"
[ "${one%% *}" != '' ] && [ "${one%% *}" = "${two%% *}" ] || fail 'the order of entries changes the weights'

# ---- Any units ---------------------------------------------------------------------------------

draws() { # draws CASE COUNT UNITS STEPS WIDTH POINTS
  local k units first error
  # shellcheck disable=SC2046 # one word for each unit
  { "$1" $(yes 1 | head -n "$3"); plan "$4" "$5" "$6"; } >"$1-any-0.toml"
  solved "$1-any-0" >/dev/null
  first=$(value "$1-any-0" rel_l2)
  for k in $(seq 1 "$2"); do
    units=$(awk -v seed="$k" -v n="$3" 'BEGIN { srand(seed); for (i = 0; i < n; ++i) printf "%.5e ", exp((12*rand() - 6)*log(10)) }')
    # shellcheck disable=SC2086
    { "$1" $units; plan "$4" "$5" "$6"; } >"$1-any-$k.toml"
    solved "$1-any-$k" >/dev/null
    error=$(value "$1-any-$k" rel_l2)
    printf '%-10s units %s error %s, in units of the file %s\n' "$1" "$units" "$error" "$first"
    awk -v a="$error" -v b="$first" 'BEGIN {
      if (!(a > 0 && b > 0)) exit 1
      if (a < 1e-12) a = 1e-12
      if (b < 1e-12) b = 1e-12
      exit !(a <= 2*b && b <= 2*a) }' ||
      fail "$1: units $units change the error from $first to $error"
  done
}

if [ "${PINN_TEST_LABELS:-0}" = 1 ]; then
  draws logistic 3 2 200 8 64
  draws beam 3 3 60 16 400
fi

[ "$bad" = 0 ] && echo 'ok'
exit "$bad"
