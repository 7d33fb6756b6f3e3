#!/usr/bin/env bash
# test_reference_solutions.sh: classical solutions against known ones, and their estimates against the true errors.
# ctest: labels=full,reference timeout=240
#
# An estimate E of a true error K must not be small: K <= 20 E; nor large: E <= 20 K, unless E is at most 1e-12 of the
# largest value, where rounding makes both.
set -u
. "$SOURCE_DIR/tests/support_checks.sh"
known() { # known LIMIT FILE OPTIONS...: every unknown within LIMIT of its exact solution, relative
  local limit=$1
  shift
  expect 0 reference "$SOURCE_DIR/$1" "${@:2}" --out ref.csv
  awk -v limit="$limit" '/error about/ && /against/ {
      match($0, /error about [0-9.e+-]*/); e = substr($0, RSTART + 12, RLENGTH - 12) + 0
      match($0, /largest value [0-9.e+-]*/); size = substr($0, RSTART + 14, RLENGTH - 14) + 0
      match($0, /exact\]: [0-9.e+-]*/); k = substr($0, RSTART + 8, RLENGTH - 8) + 0
      n++
      if (k > limit*size || k > 20*e || (e > 20*k && e > 1e-12*size)) bad = 1
    } END { exit !(n > 0 && !bad) }' out
  check "$1 within $limit, the estimate within a factor of 20" $?
}

known 1e-8 problems/predator_prey.toml --grid t=0:10:101
known 1e-8 tests/data/cases/f06_logistic.toml
known 1e-10 problems/poisson.toml --grid x=0:1:21,y=0:1:21
known 1e-10 tests/data/cases/f18_helmholtz.toml
known 1e-10 problems/helmholtz.toml
known 1e-8 problems/kovasznay.toml --grid x=-0.5:1:21,y=-0.5:1.5:21
known 1e-8 tests/data/cases/f21_biharmonic.toml
known 1e-10 problems/deepxde/euler_beam.toml
known 1e-8 problems/beam.toml
known 1e-8 problems/heat.toml
known 1e-8 problems/convection.toml
known 1e-8 problems/deepxde/wave_1d.toml
known 1e-8 tests/data/cases/f25_membrane.toml --grid x=0:1:5,y=0:1:5,t=0:0.5:5
known 1e-8 problems/kdv.toml
known 1e-8 tests/data/cases/f30_plate.toml
known 1e-8 tests/data/cases/f33c_memory.toml
known 1e-8 tests/data/cases/b04_periodic.toml
known 1e-8 tests/data/cases/b08b_mean.toml
known 1e-6 problems/burgers.toml --set constants.nu=0.05 --tolerance 1e-7 --grid x=-1:1:41,t=0:1:11
known 1e-5 problems/format/07_schroedinger.toml --tolerance 1e-5 --grid x=-5:5:41,t=0:pi/2:11

# No formula: the run with a tolerance against one with a smaller one.
cat >fronts.toml <<'END'
domain     = { x = { range = [-1, 1], periodic = true }, t = [0, 1] }
unknowns   = { u = "x, t" }
equations  = { allen_cahn = "u_t = 1e-2*u_xx + 5*(u - u^3)" }
conditions = { initial = { on = "t = 0", equation = "u = sin(pi*x)^2*cos(pi*x)" } }
END
expect 0 reference fronts.toml --grid x=-1:1:41,t=0:1:11 --tolerance 1e-4 --out rough.csv
error=$(sed -n 's/^# u: error about \([^,]*\),.*/\1/p' rough.csv)
expect 0 reference fronts.toml --grid x=-1:1:41,t=0:1:11 --tolerance 1e-9 --out fine.csv
paste -d, rough.csv fine.csv | awk -F, -v e="$error" '/^[-0-9]/ { d = $3 - $6; if (d < 0) d = -d; if (d > m) m = d; n++ }
  END { print "difference", m, "estimate", e; exit !(n == 451 && m <= 20*e && e <= 20*m) }'
check "Allen and Cahn: the estimate of the rough run against the fine one" $?

# The lid's corners let nothing converge fast, and that is what is said.
expect 1 reference "$SOURCE_DIR/tests/data/cases/b10_cavity.toml" --grid x=0:1:11,y=0:1:11 --points 21 --out cavity.csv
says out '^MISSED '

echo "$((count - failed)) of $count checks passed"
[ "$failed" -eq 0 ]
