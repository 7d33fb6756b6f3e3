#!/usr/bin/env bash
# ctest: labels=quick,cli timeout=120
#
# What `pinn export` and `pinn plot` write: C source that a compiler takes and that agrees with `pinn eval` within 1e-12 of
# the largest number (repeated reverse mode against jets), VTK files of the right size, CSV as eval's, pictures; and refusals.
set -u
export LC_ALL=C
bad=0
fail() { printf 'FAILED: %s\n' "$1"; bad=1; }

cat >wave.toml <<'TOML'
title = "export */ me"
[domain]
x = { range = [0, 2], periodic = true }
t = [0, 1]
[constants]
c = 0.7
[unknowns]
u = { of = "x, t", ansatz = "1 + t*net" }
v = { of = "x, t", network = { activation = "gelu", factorised = true } }
[definitions]
w = "where(u > 1, sqrt(1 + v^2), u*v) + max(u, v) + (1 + u^2)^1.5"
[equations]
one = "u_t + c*u_x = v_xx"
two = "v_t = u*v"
[conditions]
start = { on = "t = 0", equation = "v = sin(pi*x)", hard = true }
[network]
width = 9
depth = 2
activation = "silu"
fourier = 3
[[stage]]
optimizer = "adam"
steps = 30
rate = 1e-2
TOML
"$PINN" solve wave.toml --quiet --threads 1 --out wave.out >out.txt 2>&1
[ $? -le 1 ] || fail 'solved'

exprs=(u v u_x u_xx v_xxt v_xxxx w 'w_x + c' one)
"$PINN" export wave.out --to c --out field.c "${exprs[@]}" >out.txt || fail 'C source'
cat >main.c <<'C'
#include <stdio.h>
void field(const double *x, double *out);
int main(void) {
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 4; ++j) {
      double x[2] = {i * 0.5, j * (1.0 / 3)}, out[9];
      if (j == 3)
        x[1] = 1;
      field(x, out);
      for (int k = 0; k < 9; ++k)
        printf("%.17g%c", out[k], k < 8 ? ',' : '\n');
    }
}
C
${CC:-cc} -std=c99 -Wall -Wextra -Wpedantic -Werror -O1 main.c field.c -lm -o field 2>cc.txt || fail "the source compiles: $(head -3 cc.txt)"
./field >got.csv
"$PINN" eval wave.out --grid x=0:2:5,t=0:1:4 "${exprs[@]}" | tail -n +2 | cut -d, -f3- >want.csv
paste -d, got.csv want.csv | awk -F, '
  { for (k = 1; k <= 9; ++k) { d = $k - $(k + 9); if (d < 0) d = -d; m = $(k + 9) < 0 ? -$(k + 9) : $(k + 9)
      if (m > big[k]) big[k] = m; if (d > worst[k]) worst[k] = d; ++n } }
  END { for (k = 1; k <= 9; ++k) { if (!(worst[k] <= 1e-12 * (1 + big[k]))) bad = 1; printf "%d: %g of %g\n", k, worst[k], big[k] }
        exit n != 180 || bad }' >diff.txt || fail "values agree with eval: $(tr '\n' ' ' <diff.txt)"

"$PINN" export wave.out --to vtk --grid x=0:2:3,t=0:1:4 u v >out.txt || fail 'VTK'
# three axes with 3, 4 and 1 numbers and two fields of 12, 8 bytes each
head -c 400 wave.vtk | tr -d '\0' | grep -aq 'DIMENSIONS 3 4 1' || fail 'dimensions of the VTK file'
size=$(wc -c <wave.vtk)
[ "$size" -gt 256 ] && [ "$size" -lt 700 ] || fail "size of the VTK file: $size"
# the first number of the first field is u(0, 0), big-endian
want=$("$PINN" eval wave.out --grid x=0,t=0 u | tail -1 | cut -d, -f3)
got=$(awk 'BEGIN { RS = "\n" } { n += length($0) + 1 } /LOOKUP_TABLE/ { print n; exit }' wave.vtk)
if command -v od >/dev/null && [ -n "$got" ]; then
  got=$(tail -c +$((got + 1)) wave.vtk | head -c 8 | od -An -t x1 | tr -d ' \n' | fold -w2 | tac | tr -d '\n' |
    sed 's/../\\x&/g')
  got=$(printf "$got" | od -An -t f8 | tr -d ' ')
  awk -v a="$got" -v b="$want" 'BEGIN { d = a - b; exit !(d < 1e-12 && d > -1e-12) }' || fail "first number of the VTK file: $got, not $want"
fi
"$PINN" export wave.out --to csv --grid x=0:2:3,t=0:1:4 --out a.csv u >out.txt && "$PINN" eval wave.out --grid x=0:2:3,t=0:1:4 --out b.csv u
cmp -s a.csv b.csv || fail 'CSV is that of eval'
"$PINN" export wave.out >out.txt && [ "$(wc -l <wave.csv)" = 14642 ] || fail 'standard grid: 121 x 121'
"$PINN" plot wave.out u 'u_x*v' >out.txt && grep -q '</svg>' wave.svg || fail 'maps'
"$PINN" plot wave.out --grid x=0:2:50,t=0.5 --out line.svg >out.txt && grep -q 't = 0.5' line.svg || fail 'curves'

refused() { # refused TEXT WORDS...
  local text=$1
  shift
  "$PINN" "$@" >out.txt 2>&1
  [ $? = 2 ] || fail "$*: status 2"
  grep -qF -- "$text" out.txt || fail "$*: \`$text\`"
}
refused 'expected csv, h5, vtk, c or svg' export wave.out --to pdf
refused 'must end in .vtk' export wave.out --to vtk --out u.csv
refused 'a mean over points' export wave.out --to c 'mean(u, domain)'
refused 'no --grid' export wave.out --to c --grid x=0,t=0
refused 'give the others one value' plot wave.out --grid x=0,t=0
exit $bad
