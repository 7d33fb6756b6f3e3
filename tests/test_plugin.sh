#!/usr/bin/env bash
# ctest: labels=quick,cli timeout=60
#
# Functions of shared libraries in a problem file: values and derivatives go where those of a formula would go, the same
# problem with formulas gives the same residuals, and what a library does not have is an error that names it.
set -u
export LC_ALL=C
bad=0
fail() { printf 'FAILED: %s\n' "$1"; bad=1; }

cat >k.c <<'C'
#include <math.h>
#include "pinn/plugin.h"
pinn_plugin pinn_k, pinn_w, pinn_rough;
/* k(a) = sin(2 a): the m-th derivative is 2^m sin(2 a + m pi/2) */
int pinn_k(size_t n, const double *const *x, const unsigned *order, double *value) {
  for (size_t i = 0; i < n; ++i)
    value[i] = ldexp(1, (int)order[0]) * sin(2 * x[0][i] + order[0] * 1.57079632679489661923);
  return 0;
}
/* w(a, b) = exp(a - 2 b) */
int pinn_w(size_t n, const double *const *x, const unsigned *order, double *value) {
  for (size_t i = 0; i < n; ++i)
    value[i] = pow(-2, order[1]) * exp(x[0][i] - 2 * x[1][i]);
  return 0;
}
/* values alone */
int pinn_rough(size_t n, const double *const *x, const unsigned *order, double *value) {
  if (order[0] > 0)
    return 1;
  for (size_t i = 0; i < n; ++i)
    value[i] = x[0][i] * x[0][i];
  return 0;
}
C
${CC:-cc} -std=c11 -Wall -Wextra -Werror -O1 -fPIC -shared -I"$SOURCE_DIR" -o k.so k.c -lm 2>cc.txt || fail "the library compiles: $(head -3 cc.txt)"
problem() { # problem DEFINITIONS
  cat <<TOML
domain      = { x = [0, 1], y = [0, 1] }
unknowns    = { u = "x, y" }
definitions = { $1, ue = "x^2*y + x" }
equations   = { e = "div(k(x)*grad(u)) + w(u, y)*u_x = (k(x)*ue_x)_x + k(x)*ue_yy + w(ue, y)*ue_x" }
conditions  = { edge = { on = "boundary", equation = "u = ue" } }
exact       = { u = "ue" }
points      = { interior = 64 }
network     = { width = 6, depth = 2 }
stage       = [{ optimizer = "adam", steps = 20 }]
TOML
}
problem 'k = { library = "k.so", of = "a" }, w = { library = "k.so", of = "a, b" }' >plugin.toml
problem 'k = { value = "sin(2*a)", of = "a" }, w = { value = "exp(a - 2*b)", of = "a, b" }' >formula.toml
"$PINN" check plugin.toml >out.txt 2>&1 || fail "check: $(tail -1 out.txt)"
grep -q 'warning:' out.txt && fail 'no warning'
"$PINN" solve formula.toml --quiet --threads 1 --out formula.out >out.txt 2>&1
[ $? = 1 ] || fail 'formula: solved'
"$PINN" solve plugin.toml --quiet --threads 1 --out plugin.out >out.txt 2>&1
[ $? = 1 ] || fail 'plugin: solved'
# the same weights in both: a last step of nothing
"$PINN" solve plugin.toml --quiet --threads 1 --out same.out --set network.from='"formula.out"' \
  --set 'stage=[{optimizer="adam", steps=1, rate=1e-30}]' >out.txt 2>&1
[ $? = 1 ] || fail "plugin: starts from the other's weights"
rm -rf plugin.out && mv same.out plugin.out
for f in plugin formula; do
  "$PINN" eval $f.out --grid x=0:1:4,y=0:1:3 u e "w(u, y)" "(k(x))_xx" >$f.csv || fail "$f: eval"
done
paste -d, plugin.csv formula.csv | awk -F, 'NR > 1 { for (k = 3; k <= 6; ++k) { d = $k - $(k + 6); if (d < 0) d = -d
  if (!(d <= 1e-11)) bad = 1; ++n } } END { exit bad || n != 48 }' || fail 'library and formula agree at the same weights'

refused() { # refused TEXT EDIT
  sed "$2" plugin.toml >bad.toml
  "$PINN" check bad.toml >out.txt 2>&1
  [ $? = 2 ] || fail "$2: status 2"
  grep -qF -- "$1" out.txt || fail "$2: \`$1\`, not $(tail -3 out.txt)"
}
refused 'cannot be loaded' 's/"k.so", of = "a" }/"l.so", of = "a" }/'
refused 'no function `pinn_q`' 's/k = { library/q = { library/'
refused 'has 1 argument, not 2' 's/k(x)\*grad/k(x, y)*grad/'
refused 'does not give its derivative of order 1' 's/k = {/rough = {/; s/k(x)/rough(x)/g'
refused 'one or two' 's/of = "a" }/of = "a, b, c" }/'
refused 'both a value and a library' 's/k = {/k = { value = "a",/'
exit $bad
