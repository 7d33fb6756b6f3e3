#!/usr/bin/env bash
# test_reference_command.sh: pinn reference: files that serve as tables, estimates, refusals with their reasons.
# ctest: labels=quick,reference timeout=60
set -u
. "$SOURCE_DIR/tests/support_checks.sh"

# y'' + y = 0 from its start: 13 correct digits, an estimate in the file.
cat >swing.toml <<'END'
domain     = { t = [0, 3] }
unknowns   = { y = "t" }
equations  = { swing = "y_tt + y = 0" }
conditions = { start = { on = "t = 0", equation = ["y = 0", "y_t = 1"] } }
exact      = { y = "sin(t)" }
END
expect 0 reference swing.toml --grid t=0:3:31 --out swing.csv
says out '^method     Radau IIA of order 13, [0-9]* steps in t'
says out 'y: error about [0-9.]*e-1[0-9], largest value 0.9995'
says out '^REACHED '
says swing.csv '^# y: error about [0-9.]*e-1[0-9], largest value'
[ "$(grep -v '^#' swing.csv | head -1)" = t,y ]
check "columns t,y" $?
awk -F, '!/^#/ && $1 != "t" { d = $2 - sin($1); if (d < 0) d = -d; if (d > 1e-12) bad = 1; n++ } END { exit !(n == 31 && !bad) }' swing.csv
check "31 rows of sin(t) to 1e-12" $?
expect 0 reference swing.toml --grid t=0:3:31 --out again.csv
cmp -s swing.csv again.csv
check "the same bytes twice" $?

# From the end backwards.
sed 's/t = 0", equation = \["y = 0", "y_t = 1"\]/t = 3", equation = ["y = sin(3)", "y_t = cos(3)"]/' swing.toml >back.toml
expect 0 reference back.toml --grid t=0:3:7
says out '\[exact\]: [0-9.]*e-1[2-9]'

# A finer file as a table of another problem, whose exact solution it then is.
expect 0 reference swing.toml --grid t=0:3:3001 --out swing_fine.csv
cat >table.toml <<'END'
domain     = { t = [0, 3] }
unknowns   = { y = "t" }
tables     = { ref = { file = "swing_fine.csv", of = "t", column = "y" } }
equations  = { swing = "y_tt + y = 0" }
conditions = { start = { on = "t = 0", equation = ["y = 0", "y_t = 1"] } }
exact      = { y = "ref" }
END
expect 0 check table.toml
expect 0 reference swing.toml --grid t=0:3:31 --out swing.h5
[ -s swing.h5 ] && head -c 4 swing.h5 | grep -q HDF
check "swing.h5 is HDF5" $?

# A problem on a square; what an ansatz meets is a condition; a mean fixes what the equations leave open.
cat >square.toml <<'END'
domain     = { x = [0, 1], y = [0, 1] }
unknowns   = { u = { of = "x, y", ansatz = "x*(1 - x)*net" } }
equations  = { poisson = "u_xx + u_yy = -2*pi^2*sin(pi*x)*sin(pi*y)" }
conditions = { rest = { on = "y = 0 or y = 1", equation = "u = 0" } }
exact      = { u = "sin(pi*x)*sin(pi*y)" }
END
expect 0 reference square.toml --grid x=0:1:5,y=0:1:5
says out '\[exact\]: [0-9.]*e-1[3-9]'
cat >free.toml <<'END'
domain     = { x = [0, 1] }
unknowns   = { u = "x" }
equations  = { flow = "u_xx = -pi^2*cos(pi*x)" }
conditions = { walls = { on = "boundary", equation = "dn(u) = 0" }, gauge = { equation = "mean(u, domain) = 0" } }
exact      = { u = "cos(pi*x)" }
END
expect 0 reference free.toml --grid x=0:1:5
says out '\[exact\]: [0-9.]*e-1[3-9]'

# An aim that is not met is status 1, and the file is there.
expect 1 reference swing.toml --grid t=0:3:31 --tolerance 1e-30 --seconds 2 --out missed.csv
says out '^MISSED '
[ -s missed.csv ]
check "missed.csv is written" $?

# What it cannot do, and why.
refuses() { # refuses PATTERN LINE: the problem with this line in place of its equations
  sed "s|^equations.*|$2|" swing.toml >bad.toml
  expect 2 reference bad.toml
  says err "$1"
}
refuses 'an inequality' 'equations = { swing = "y_tt + y <= 0" }'
refuses 'is to be found' 'parameters = { k = 1 }\nequations = { swing = "y_tt + k*y = 0" }'
refuses 'joins a mean with values at points' 'equations = { swing = "y_tt + y = mean(y, domain)" }'
sed 's|t = \[0, 3\]|t = [0, 3], k = { range = [1, 2], role = "parameter" }|; s|y = "t"|y = "t, k"|' swing.toml >bad.toml
expect 2 reference bad.toml
says err 'for a whole range of `k`'
expect 2 reference swing.toml --grid t=0:4:5
says err 't = 4 lies outside the domain'
expect 2 reference swing.toml --out swing.txt
says err 'must end in .csv or .h5'

echo "$((count - failed)) of $count checks passed"
[ "$failed" -eq 0 ]
