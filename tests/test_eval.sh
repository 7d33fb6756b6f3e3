#!/usr/bin/env bash
# test_eval.sh: pinn eval: the same bits in fresh processes, from grids and files, and honest refusals.
# ctest: labels=quick,eval timeout=120
set -u
. "$SOURCE_DIR/tests/support_checks.sh"
close() { # close TEXT A B TOLERANCE: |A - B| <= TOLERANCE
  awk -v a="$2" -v b="$3" -v t="$4" 'BEGIN { d = a - b; exit !(d <= t && -d <= t) }'
  check "$1: $2 is $3 within $4" $?
}
cell() { # cell FILE ROW COLUMN, rows below the header from 1; expressions without commas only
  sed -n "$(($2 + 1))p" "$1" | cut -d, -f"$3"
}

# u = x + x^2/4 t: heat with a source, so that u_x, u_xx and the residual are known.
cat >rod.toml <<'END'
title = "Rod"
[domain]
x = [0, 1]
t = [0, 1]
[constants]
k = 0.5
[unknowns]
u = "x, t"
[definitions]
ue = "x + x^2*t/4"
[equations]
heat = "u_t - k*u_xx = x^2/4 - k*t/2"
[conditions]
start = { on = "t = 0", equation = "u = ue" }
ends  = { on = "x = 0 or x = 1", equation = "u = ue" }
[exact]
u = "ue"
[accept]
error = 1e-3
[network]
width = 10
depth = 2
[points]
interior = 128
[[stage]]
optimizer = "adam"
steps = 100
[[stage]]
optimizer = "lbfgs"
steps = 2000
END
expect 0 solve rod.toml --quiet --out rod
rm -f rod.toml # the result holds all that is needed

# Values: against the exact solution, and u_x, u_xx, the residual by its equation's name and written out
expect 0 eval rod --grid x=0.5,t=0.5:1:2 u u_x u_xx ue heat 'u_t - k*u_xx - x^2/4 + k*t/2'
cp out values.csv
says values.csv '^x,t,u,u_x,u_xx,ue,heat,u_t - k\*u_xx - x^2/4 + k\*t/2$'
[ "$(wc -l <values.csv)" -eq 3 ]
check "a header and two rows" $?
close "u(0.5, 0.5)" "$(cell values.csv 1 3)" 0.53125 2e-3
close "u_x(0.5, 1)" "$(cell values.csv 2 4)" 1.25 2e-2
close "u_xx(0.5, 1)" "$(cell values.csv 2 5)" 0.5 2e-1
close "ue(0.5, 0.5)" "$(cell values.csv 1 6)" 0.53125 1e-15
close "residual, both ways" "$(cell values.csv 1 7)" "$(cell values.csv 1 8)" 1e-13

# A fresh process gives the same bits; so does another number of points around a point, and the order of the file
expect 0 eval rod --grid x=0.5,t=0.5:1:2 u u_x u_xx ue heat 'u_t - k*u_xx - x^2/4 + k*t/2'
cmp -s out values.csv
check "same bits in a fresh process" $?
expect 0 eval rod/result.h5 --grid x=0:1:101,t=0:1:101 u u_x u_xx
[ "$(wc -l <out)" -eq 10202 ]
check "101 x 101 rows" $?
[ "$(grep '^0.5,0.5,' out)" = "$(sed -n 2p values.csv | cut -d, -f1-5)" ]
check "same bits on a large grid" $?
printf 'name,t,x\n1,1,0.5\n2,0.5,0.5\n' >points.csv
expect 0 eval rod --points points.csv u u_x u_xx
[ "$(sed -n 3p out)" = "$(sed -n 2p values.csv | cut -d, -f1-5)" ]
check "same bits from a file of points" $?

# Files: CSV as on the terminal, HDF5 with a dataset each
expect 0 eval rod --points points.csv --out values2.csv u '(u, u_x)'
says values2.csv '^x,t,u,"(u, u_x) \[1\]","(u, u_x) \[2\]"$'
expect 0 eval rod --grid x=0:1:3,t=0:1:5 --out values.h5 u 'u_x + 1'
[ -s values.h5 ]
check "values.h5" $?
if command -v h5dump >h5.log; then
  h5dump -H values.h5 >out
  says out 'DATASET "u"'
  says out '( 3, 5 )'
fi

# Refusals
printf 'x,t\n0.5,0.5\n\n1.5,0.5\n' >outside.csv
expect 2 eval rod --points outside.csv u && says err '^outside.csv:4: row 2: x = 1.5 lies outside the domain, x in \[0, 1\]'
expect 2 eval rod --grid x=0:2:3,t=0 u && says err 'x = 2 lies outside'
expect 2 eval rod --grid x=0:1:3 u && says err 'no value of `t`'
expect 2 eval rod --grid x=0:1,t=0 u && says err 'from:to:number'
expect 2 eval rod --grid z=0:1:3 u && says err 'x, t'
expect 2 eval rod --grid x=0,x=1,t=0 u && says err 'given twice'
expect 2 eval rod --grid x=0:1:3 --grid t=0 u && says err 'give one --grid'
expect 2 eval rod --grid x=0,t=0 u_xz && says err 'Did you mean'
expect 2 eval rod --grid x=0,t=0 --points points.csv u && says err 'either'
expect 2 eval rod u && says err 'either'
expect 2 eval rod --grid x=0,t=0 && says err 'expression'
expect 2 eval rod --grid x=0,t=0 --out values.txt u && says err 'must end in .csv, .h5'
printf 'x\n0.5\n' >short.csv
expect 2 eval rod --points short.csv u && says err 'no column `t`'
expect 3 eval nowhere --grid x=0,t=0 u && says err 'nowhere'
head -c 3000 rod/result.h5 >cut.h5
expect 2 eval cut.h5 --grid x=0,t=0 u && says err 'cut.h5'

echo "$((count - failed)) of $count checks passed"
[ "$failed" -eq 0 ]
