#!/usr/bin/env bash
# test_variants.sh: one equation said in several ways.
# ctest: labels=full,variants timeout=1500 processors=2
#
# The Burgers file with its tables and entries in another order must give the same bits (same theta in result.h5);
# rewritten (other names, other units, a factor and sides swapped, conservation form, mirrored and shifted box) it
# must still end CONVERGED at 1e-3; with an accept that cannot be met it must say NOT CONVERGED and exit 1.
set -u
passed=0; total=0
say() { total=$((total + 1)); if [ "$1" = 0 ]; then passed=$((passed + 1)); echo "ok    $2"; else echo "FAILED $2"; fi; }
tail_of() { cat <<'TOML'
[network]
width = 20
depth = 3
activation = "tanh"
gain = 2

[points]
interior = 2600
refine = "rad"
every = 500

[[stage]]
optimizer = "adam"
steps = 1000
rate = 5e-3
schedule = "cosine"

[[stage]]
optimizer = "ssbroyden"
steps = 4000
TOML
}
# file NAME DOMAIN CONSTANTS UNKNOWN EQUATION INITIAL WALLS EXACT
file() {
  { printf 'accept.error = 1e-3\n[domain]\n%s\n[constants]\n%s\n[unknowns]\n%s\n' "$2" "$3" "$4"
    printf '[equations]\nburgers = "%s"\n[conditions]\ninitial = { on = "t = 0", equation = "%s", hard = true }\n' "$5" "$6"
    printf 'walls = { %s, hard = true }\n[exact]\n%s\n' "$7" "$8"; tail_of; } > "$1.toml"
}
nu='nu = "0.01/pi"'
file plain $'x = [-1, 1]\nt = [0, 1]' "$nu" 'u = { of = "x, t", odd = "x" }' 'u_t + u*u_x = nu*u_xx' 'u = -sin(pi*x)' \
  'on = "x = -1 or x = 1", equation = "u = 0"' 'u = "cole_hopf(x, t, nu)"'
{ printf '[exact]\nu = "cole_hopf(x, t, nu)"\n[conditions]\nwalls = { hard = true, equation = "u = 0", on = "x = -1 or x = 1" }\n'
  printf 'initial = { equation = "u = -sin(pi*x)", hard = true, on = "t = 0" }\n[equations]\nburgers = "u_t + u*u_x = nu*u_xx"\n'
  printf '[unknowns]\nu = { odd = "x", of = "x, t" }\n[points]\nevery = 500\nrefine = "rad"\ninterior = 2600\n'
  printf '[network]\ngain = 2\nactivation = "tanh"\ndepth = 3\nwidth = 20\n[constants]\n%s\n[domain]\nx = [-1, 1]\nt = [0, 1]\n' "$nu"
  tail_of | sed -n '/\[\[stage/,$p'; printf '[accept]\nerror = 1e-3\n'; } > reordered.toml
file renamed $'s = [-1, 1]\nt = [0, 1]' "$nu" 'w = { of = "s, t", odd = "s" }' 'w_t + w*w_s = nu*w_ss' 'w = -sin(pi*s)' \
  'on = "s = -1 or s = 1", equation = "w = 0"' 'w = "cole_hopf(s, t, nu)"'
file units $'x = [-1000, 1000]\nt = [0, 1]' "$nu" 'u = { of = "x, t", odd = "x" }' 'u_t + 1000*u*u_x = 1e6*nu*u_xx' \
  'u = -sin(pi*x/1000)' 'on = "x = -1000 or x = 1000", equation = "u = 0"' 'u = "cole_hopf(x/1000, t, nu)"'
file scaled $'x = [-1, 1]\nt = [0, 1]' "$nu" 'u = { of = "x, t", odd = "x" }' '1000*nu*u_xx = 1000*u_t + 1000*u*u_x' \
  '0 = 2*u + 2*sin(pi*x)' 'on = "x = -1 or x = 1", equation = "0 = u"' 'u = "cole_hopf(x, t, nu)"'
file conservation $'x = [-1, 1]\nt = [0, 1]' "$nu" 'u = { of = "x, t", odd = "x" }' 'u_t + (u^2/2)_x = nu*u_xx' \
  'u = -sin(pi*x)' 'on = "x = -1 or x = 1", equation = "u = 0"' 'u = "cole_hopf(x, t, nu)"'
file mirrored $'x = [1, 3]\nt = [0, 1]' "$nu" 'u = { of = "x, t", odd = "x" }' 'u_t - u*u_x = nu*u_xx' \
  'u = -sin(pi*(2 - x))' 'on = "x = 1 or x = 3", equation = "u = 0"' 'u = "cole_hopf(2 - x, t, nu)"'

theta() { "$PINN" eval "$1" --grid x=-1:1:21,t=0:1:11 "u" "u_x" "u_xx" | sha256sum; }
for name in plain reordered renamed units scaled conservation mirrored; do
  "$PINN" solve "$name.toml" --out "$name.out" > "$name.log" 2>&1
  status=$?
  grep -E '^(CONVERGED|NOT CONVERGED|written)' "$name.log"
  say "$status" "$name ends with exit 0"
done
[ "$(theta plain.out)" = "$(theta reordered.out)" ]; say $? "reordered file gives the same bits"
"$PINN" solve plain.toml --set accept.error=1e-14 --set stage.1.steps=50 --set stage.2.steps=20 --out impossible.out > impossible.log 2>&1
status=$?
[ "$status" = 1 ] && grep -q 'NOT CONVERGED  u: ' impossible.log; say $? "an accept that cannot be met: exit 1, NOT CONVERGED"
echo "variants: $passed of $total"
[ "$passed" = "$total" ]
